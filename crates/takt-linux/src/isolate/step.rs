//! The steps of an isolation, each of which can be left out.

use std::fmt;
use std::str::FromStr;

/// One kind of change of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// No sibling set may have the CPUs.
    Exclusive,
    /// The CPUs leave the scheduling domain of the others: no load is balanced to them.
    Domain,
    /// Tasks that may move have the other CPUs only.
    Tasks,
    /// Kernel threads that may move have the other CPUs only.
    KernelThreads,
    /// Unbound work queues have the other CPUs only.
    Workqueues,
    /// Interrupts that may move are handled on the other CPUs only.
    Interrupts,
    /// The watchdog that looks for lockups leaves the CPUs alone.
    Watchdog,
    /// The CPUs do not enter idle states with a latency of their own.
    Idle,
    /// The lowest frequency of the CPUs is their highest.
    Frequency,
    /// Real-time classes may use all CPU time.
    Throttling,
    /// No transparent huge pages.
    HugePages,
    /// Pages of processes are swapped out last.
    Swap,
}

/// Name, whether it is carried out unless it is left out, and its meaning.
const STEPS: [(Step, &str, bool, &str); 12] = [
    (Step::Exclusive, "exclusive", true, "no sibling set may have the CPUs"),
    (Step::Domain, "domain", true, "the CPUs leave the scheduling domain of the others"),
    (Step::Tasks, "tasks", true, "tasks move to the other CPUs"),
    (Step::KernelThreads, "kernel-threads", true, "kernel threads that may move are bound to the other CPUs"),
    (Step::Workqueues, "workqueues", true, "unbound work queues use the other CPUs"),
    (Step::Interrupts, "interrupts", true, "interrupts that may move are handled on the other CPUs"),
    (Step::Watchdog, "watchdog", true, "the lockup watchdog leaves the CPUs alone"),
    (
        Step::Idle,
        "idle",
        false,
        "the CPUs poll instead of entering idle states: wake-ups are faster and energy is lost",
    ),
    (Step::Frequency, "frequency", false, "the lowest frequency of the CPUs is raised to their highest"),
    (Step::Throttling, "throttling", false, "real-time classes may use all CPU time: a runaway process holds its CPU"),
    (Step::HugePages, "huge-pages", false, "no transparent huge pages: khugepaged holds no lock of an address space"),
    (Step::Swap, "swap", false, "pages of processes are swapped out last (vm.swappiness = 1)"),
];

impl Step {
    /// All of them, in the order in which they are carried out.
    pub fn all() -> impl Iterator<Item = Step> {
        STEPS.iter().map(|(step, ..)| *step)
    }
    fn row(self) -> &'static (Step, &'static str, bool, &'static str) {
        &STEPS[self as usize]
    }
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }
    /// Whether it is carried out unless it is left out.
    #[must_use]
    pub fn is_default(self) -> bool {
        self.row().2
    }
    /// The change that it makes.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.row().3
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Step {
    type Err = String;
    fn from_str(text: &str) -> Result<Step, String> {
        Step::all().find(|step| step.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Step::all().map(Step::name).collect();
            format!("a step is one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_row_and_is_read_by_its_name() {
        for (index, step) in Step::all().enumerate() {
            assert_eq!(step as usize, index);
            assert_eq!(step.name().parse(), Ok(step));
        }
        assert!("cpu".parse::<Step>().unwrap_err().contains("kernel-threads"));
    }
}
