//! Which settings an isolation changes on this machine, and how.

use super::journal::Hierarchy;
use super::machine::Kernel;
use super::step::Step;
use super::value::{Claim, Form};
use takt_core::cpus::CpuSet;

/// A setting that a step would change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wish {
    pub(super) step: Step,
    pub(super) path: String,
    pub(super) form: Form,
    pub(super) claim: Claim,
    /// The kernel may refuse it: an interrupt of one CPU, for instance.
    pub(super) optional: bool,
}

pub(super) const CPU: &str = "/sys/devices/system/cpu";
const WORKQUEUES: &str = "/sys/devices/virtual/workqueue";
const INTERRUPTS: &str = "/proc/irq";

/// The settings of these steps, as far as the machine has them. O(interrupts + CPUs).
pub(super) fn wishes(kernel: &impl Kernel, hierarchy: &Hierarchy, cpus: &CpuSet, steps: &[Step]) -> Vec<Wish> {
    let mut wishes = Vec::new();
    let without = Claim::Without(*cpus);
    let value = |value: &str| Claim::Value(value.to_owned());
    for step in steps {
        let mut wish = |path: String, form, claim, optional| {
            if kernel.exists(&path) {
                wishes.push(Wish { step: *step, path, form, claim, optional });
            }
        };
        match step {
            Step::Domain if !hierarchy.v2 => {
                wish(format!("{}/cpuset.sched_load_balance", hierarchy.mount), Form::Plain, value("0"), false);
            }
            // Done by groups and by moves of threads.
            Step::Exclusive | Step::Domain | Step::Tasks | Step::KernelThreads => {}
            Step::Workqueues => {
                wish(format!("{WORKQUEUES}/cpumask"), Form::Mask, without.clone(), false);
                for name in kernel.names(WORKQUEUES) {
                    wish(format!("{WORKQUEUES}/{name}/cpumask"), Form::Mask, without.clone(), true);
                }
            }
            Step::Interrupts => {
                wish(format!("{INTERRUPTS}/default_smp_affinity"), Form::Mask, without.clone(), false);
                for name in kernel.names(INTERRUPTS) {
                    wish(format!("{INTERRUPTS}/{name}/smp_affinity_list"), Form::List, without.clone(), true);
                }
            }
            Step::Watchdog => {
                wish("/proc/sys/kernel/watchdog_cpumask".into(), Form::List, without.clone(), true);
            }
            Step::Idle => {
                for cpu in cpus.iter() {
                    // `n/a` allows no latency at all, and 0 any (Documentation/ABI/testing/sysfs-devices-power).
                    let path = format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us");
                    wish(path, Form::Plain, value("n/a"), false);
                }
            }
            Step::Frequency => {
                for name in kernel.names(&format!("{CPU}/cpufreq")) {
                    let file = |file: &str| format!("{CPU}/cpufreq/{name}/{file}");
                    let affected = kernel.read(&file("affected_cpus")).unwrap_or_default().replace(' ', ",");
                    let highest = kernel.read(&file("scaling_max_freq"));
                    if let Ok(highest) = highest
                        && !crate::control::parse_cpus(&affected).is_disjoint(cpus)
                    {
                        wish(file("scaling_min_freq"), Form::Plain, value(&highest), false);
                    }
                }
            }
            Step::Throttling => wish("/proc/sys/kernel/sched_rt_runtime_us".into(), Form::Plain, value("-1"), false),
            Step::HugePages => {
                wish("/sys/kernel/mm/transparent_hugepage/enabled".into(), Form::Choice, value("never"), false);
            }
            Step::Swap => wish("/proc/sys/vm/swappiness".into(), Form::Plain, value("1"), false),
        }
    }
    wishes
}

/// The directory and the name of the frequency domain to which a setting belongs.
pub(super) fn frequency_domain(path: &str) -> Option<(&str, &str)> {
    let (directory, _) = path.rsplit_once('/')?;
    let (parent, name) = directory.rsplit_once('/')?;
    parent.ends_with("/cpufreq").then_some((directory, name))
}

/// The parameters of the kernel's command line that would set these CPUs apart more than a running kernel can, as far as they are not there yet.
/// Source: `Documentation/admin-guide/kernel-parameters.txt` of Linux.
#[must_use]
pub(super) fn boot_parameters(command_line: &str, cpus: &CpuSet) -> Vec<String> {
    let given = |key: &str| command_line.split_ascii_whitespace().any(|word| word.split('=').next() == Some(key));
    let wanted = [
        ("isolcpus", format!("isolcpus=managed_irq,domain,{cpus}")),
        ("nohz_full", format!("nohz_full={cpus}")),
        ("rcu_nocbs", format!("rcu_nocbs={cpus}")),
        ("idle", "idle=poll".to_owned()),
    ];
    wanted.into_iter().filter(|(key, _)| !given(key)).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_parameters_that_are_there_are_not_proposed() {
        let cpus = CpuSet::single(3);
        let all = ["isolcpus=managed_irq,domain,3", "nohz_full=3", "rcu_nocbs=3", "idle=poll"];
        assert_eq!(boot_parameters("quiet nohz=on", &cpus), all);
        assert_eq!(boot_parameters("nohz_full=3 idle=poll", &cpus), [all[0], all[2]]);
    }
}
