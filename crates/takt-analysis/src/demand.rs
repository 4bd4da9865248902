//! Tasks that come again and again, as the tests of online policies see them.

use crate::utilisation::Utilisation;
use crate::verdict::{Answer, Finding, Kind, beyond};
use takt_core::model::{CpuTest, Order, PolicySpec, System, Task, TaskId};
use takt_core::time::Span;

/// A periodic task as the tests see it, in nanoseconds. Wide integers keep products of times from overflowing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) task: TaskId,
    pub(crate) runtime: i128,
    pub(crate) period: i128,
    pub(crate) deadline: Option<i128>,
    pub(crate) offset: i128,
    /// How much later than that its jobs may come, for those that it holds up.
    pub(crate) jitter: i128,
    /// Jobs come at the period exactly, and not later by chance.
    pub(crate) regular: bool,
    /// The lowest is the most important.
    pub(crate) rank: i64,
    /// How much of the runtime is time in which a job sleeps.
    pub(crate) suspended: i128,
}

/// The rules of a system that the tests of one CPU must know.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// Releases wait for a busy task.
    pub(crate) queue: bool,
    /// A late job runs on, and its successor is released in time: jobs come and need what is declared even after a miss.
    pub(crate) harmless: bool,
    /// Jobs are not preempted.
    pub(crate) held_up: bool,
    /// The system that has the tasks.
    pub(crate) system: &'a System,
}

/// The rank of all jobs of a task under a policy of fixed priorities, the lowest for the most urgent; `None` under another policy.
pub(crate) fn fixed_rank(policy: &PolicySpec, task: &Task) -> Option<i64> {
    match (policy.profile.test, policy.order()) {
        (CpuTest::ResponseTimes(rank), _) => Some(rank(policy, task)),
        (_, Some(Order::RelativeDeadline)) => Some(task.deadline.map_or(i64::MAX, Span::ns)),
        (_, Some(Order::Period)) => Some(task.arrival.period().map_or(i64::MAX, Span::ns)),
        (_, Some(Order::Priority)) => Some(-i64::from(task.priority)),
        _ => None,
    }
}

pub(crate) fn utilisation<'a>(tasks: impl IntoIterator<Item = &'a Demand>) -> Utilisation {
    let mut sum = Utilisation::default();
    tasks.into_iter().for_each(|t| sum.add(t.runtime as u64, t.period as u64));
    sum
}

/// A necessary condition for every policy: more work than CPUs cannot be done, nor a job longer than its deadline.
pub(crate) fn impossible(tasks: &[Demand], cpus: u64) -> Option<(&'static str, Finding)> {
    let no = |why| Some(("utilisation", Finding::new(Answer::No, Kind::Necessary, why)));
    let timed = || tasks.iter().filter(|t| t.deadline.is_some());
    let load = utilisation(timed());
    if load.at_most(cpus) == Some(false) {
        return no(format!("utilisation {load} is above {cpus}"));
    }
    let too_long = |t: &&Demand| t.deadline.is_some_and(|d| d < t.runtime) || t.runtime > t.period;
    let t = timed().find(too_long)?;
    no(format!("task {} needs more than its deadline or period allows", t.task.0))
}

/// Where no test applies: what holds for every policy, or else why none does.
pub(crate) fn no_test(tasks: &[Demand], cpus: u64, why: &str) -> (&'static str, Finding) {
    impossible(tasks, cpus).unwrap_or_else(|| beyond(why))
}
