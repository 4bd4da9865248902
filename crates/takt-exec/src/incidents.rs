//! Incidents of the machine below a run: CPUs that go offline, a suspended machine, processes that other programs move.

use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::disturbance;

/// A shorter difference of the two clocks is no suspension: they are read one after the other.
const SUSPENDED_MIN: Span = Span::from_ms(5);

/// Looks at the machine in each round of the supervisor.
pub(crate) struct Incidents {
    /// The CPUs of the schedule.
    cpus: CpuSet,
    /// The CPUs of the schedule that are offline.
    absent: CpuSet,
    /// The CPUs of the schedule that were offline at some time.
    missed: CpuSet,
    /// Time for which the machine had been suspended at the last look.
    suspended: Span,
    suspensions: u64,
    slept: Span,
    moved: u64,
}

/// The incidents that a look has found.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Incident {
    /// These CPUs of the schedule have gone offline.
    Offline(CpuSet),
    /// These are back.
    Online(CpuSet),
    /// The machine was suspended for so long.
    Suspended(Span),
    /// Processes were moved out of their groups, and back.
    Moved(u64),
}

impl Incident {
    /// A sentence about it for the user, without a full stop.
    pub(crate) fn text(&self) -> String {
        match self {
            Incident::Offline(cpus) => {
                format!(
                    "CPU {cpus} went offline; until it is back, the kernel runs its processes on other CPUs, or their dispatches fail"
                )
            }
            Incident::Online(cpus) => format!("CPU {cpus} is online again, and the next dispatches use it"),
            Incident::Suspended(time) => {
                let time = rounded(*time);
                format!("the machine was suspended for {time}; the schedule stood still and continues where it was")
            }
            Incident::Moved(1) => "another program has moved a process out of its group; it was moved back".into(),
            Incident::Moved(n) => {
                format!("another program has moved {n} processes out of their groups; they were moved back")
            }
        }
    }
}

/// Whole milliseconds, for people.
fn rounded(time: Span) -> Span {
    Span::from_ms(time.ns() / 1_000_000)
}

impl Incidents {
    pub(crate) fn new(cpus: CpuSet) -> Incidents {
        let [absent, missed] = [CpuSet::EMPTY; 2];
        let (suspensions, slept, moved) = (0, Span::ZERO, 0);
        Incidents { cpus, absent, missed, suspended: disturbance::suspended(), suspensions, slept, moved }
    }

    /// Incidents since the last look. So many processes have been moved by other programs since the run began.
    pub(crate) fn look(&mut self, moved: u64) -> Vec<Incident> {
        self.judge(disturbance::online(), disturbance::suspended(), moved)
    }

    fn judge(&mut self, online: Option<CpuSet>, suspended: Span, moved: u64) -> Vec<Incident> {
        let mut found = Vec::new();
        let absent = online.map_or(self.absent, |online| self.cpus.difference(&online));
        let (gone, back) = (absent.difference(&self.absent), self.absent.difference(&absent));
        self.absent = absent;
        self.missed = self.missed.union(&gone);
        if !gone.is_empty() {
            found.push(Incident::Offline(gone));
        }
        if !back.is_empty() {
            found.push(Incident::Online(back));
        }
        let slept = (suspended - self.suspended).or_zero();
        self.suspended = suspended;
        if slept >= SUSPENDED_MIN {
            self.suspensions += 1;
            self.slept += slept;
            found.push(Incident::Suspended(slept));
        }
        if moved > self.moved {
            found.push(Incident::Moved(moved - self.moved));
            self.moved = moved;
        }
        found
    }

    /// Notes for the report.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.missed.is_empty() {
            let now = if self.absent.is_empty() { String::new() } else { format!(", and {} at its end", self.absent) };
            notes.push(format!("CPU {} of the schedule was offline during the run{now}", self.missed));
        }
        if self.suspensions > 0 {
            let times = if self.suspensions == 1 { "once".into() } else { format!("{} times", self.suspensions) };
            notes.push(format!(
                "the machine was suspended {times}, for {} in all: instants of the run do not count that time",
                rounded(self.slept)
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_incident_is_found_once_and_noted() {
        let cpus = |list: &[usize]| list.iter().copied().collect::<CpuSet>();
        let mut incidents = Incidents::new(cpus(&[1, 2]));
        let all = Some(cpus(&[0, 1, 2, 3]));
        let base = incidents.suspended;
        assert_eq!(incidents.judge(all, base, 0), []);
        // A CPU that the schedule does not use, and clocks that are read at different instants, are no incidents.
        assert_eq!(incidents.judge(Some(cpus(&[0, 1, 2])), base + Span::from_us(3), 0), []);
        assert_eq!(incidents.judge(Some(cpus(&[0, 2])), base, 0), [Incident::Offline(cpus(&[1]))]);
        assert_eq!(incidents.judge(None, base, 1), [Incident::Moved(1)]);
        assert_eq!(incidents.judge(Some(cpus(&[0, 2])), base, 1), []);
        let slept = base + Span::from_secs(3);
        let found = incidents.judge(all, slept, 1);
        assert_eq!(found, [Incident::Online(cpus(&[1])), Incident::Suspended(Span::from_secs(3))]);
        assert_eq!(incidents.judge(all, slept, 1), []);
        let notes = incidents.notes();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(
            notes[0].contains("CPU 1 of the schedule was offline during the run") && !notes[0].contains("at its end")
        );
        assert!(notes[1].contains("suspended once, for 3s"), "{}", notes[1]);
    }
}
