//! Tasks with servers of their own on one CPU.
//!
//! Abeni and Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems", RTSS 1998, for CBS; Lipari and Baruah, "Greedy
//! reclamation of unused bandwidth in constant-bandwidth servers", ECRTS 2000, for GRUB. Of FCBS no proof is known to us.

use crate::online::{Answer, Kind, necessary};
use crate::uniprocessor::{Demand, Finding};
use crate::utilisation::Utilisation;
use takt_core::model::{Step, System, Timing};

/// Whether the policy is one of servers whose guarantee is proven.
pub(crate) fn knows(policy: &str) -> bool {
    matches!(policy, "cbs" | "grub")
}

/// If all servers together need no more than the CPU, a task meets its deadlines if no job needs more than the budget, and its
/// period and deadline are no shorter than that of its server. `tasks` are what jobs need at most, `least` what at least.
pub(crate) fn judge(system: &System, tasks: &[Demand], least: &[Demand]) -> (&'static str, Finding) {
    if let ("utilisation", no @ Finding { answer: Answer::No, .. }) = necessary(least, 1, "") {
        return ("utilisation", no);
    }
    let unknown = |why: String| ("reservation", Finding::new(Answer::Unknown, Kind::Sufficient, why));
    if system.tasks.iter().any(|t| t.steps.iter().any(|s| !matches!(s, Step::Run(_)))) {
        return unknown("the guarantee of servers is for jobs that neither sleep nor wait".into());
    }
    if system.timing != Timing::default() {
        return unknown("the guarantee of servers needs a clock that is never late".into());
    }
    let mut sum = Utilisation::default();
    for task in &system.tasks {
        let Some(reserved) = task.reserved() else { return unknown("a task has no reservation".into()) };
        sum.add(reserved.budget.ns() as u64, reserved.period.ns() as u64);
    }
    if sum.at_most(1) != Some(true) {
        return unknown(format!("reservations of {sum} are more than the CPU, which proves nothing"));
    }
    for task in tasks.iter().filter(|t| t.deadline.is_some()) {
        let reserved = system.tasks[task.task.index()].reserved().expect("all have one");
        let (budget, period) = (i128::from(reserved.budget.ns()), i128::from(reserved.period.ns()));
        if task.runtime > budget {
            return unknown(format!("task {} can need more than its budget of {}", task.task.0, reserved.budget));
        }
        if task.period < period || task.deadline.is_some_and(|d| d < period) {
            let why =
                format!("the server of task {} has a period of {}, which is too long", task.task.0, reserved.period);
            return unknown(why);
        }
    }
    let why = format!("reservations of {sum} fit on the CPU, and no job needs more than its own");
    ("reservation", Finding::new(Answer::Yes, Kind::Sufficient, why))
}
