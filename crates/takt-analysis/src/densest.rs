//! The densest behaviour of a system.

use takt_core::model::{Arrival, Execution, PolicySpec, Scope, System};
use takt_core::time::{Span, Time};

/// Whether tasks, or pieces of them, have CPUs of their own.
#[must_use]
pub fn is_placed(system: &System) -> bool {
    let places = |policy: &PolicySpec| {
        matches!(policy.scope, Scope::Partitioned | Scope::Clustered) || policy.splits().is_some()
    };
    places(&system.policy) || system.domains.iter().any(|domain| places(&domain.policy))
}

/// The system with sporadic releases as close as they may be and each job as long as its task declares; `later` is added to the offset of
/// a sporadic task by its number. `None` if that is the system itself. O(n) for n tasks.
///
/// A placement depends on the kind of arrivals, so sporadic tasks that are placed stay sporadic, and each job is up to 1 ns late.
#[must_use]
pub fn densest(system: &System, later: impl Fn(usize) -> Span) -> Option<System> {
    let varies = |task: &takt_core::model::Task| {
        matches!(task.arrival, Arrival::Sporadic { .. }) || task.program.execution != Execution::Declared
    };
    if !system.tasks.iter().any(varies) {
        return None;
    }
    let (mut close, placed) = (system.clone(), is_placed(system));
    for (index, task) in close.tasks.iter_mut().enumerate() {
        if let Arrival::Sporadic { offset, period, .. } = task.arrival {
            let offset = offset + later(index);
            task.arrival = match placed {
                true => Arrival::Sporadic { offset, period, spread: Span::from_ns(1) },
                false => Arrival::Periodic { offset, period },
            };
        }
        task.program.execution = Execution::Declared;
    }
    Some(close)
}

/// By task the delay of its first release after which all tasks are released together, at a common release of the strictly periodic tasks. Only sporadic
/// tasks and tasks of events are delayed. `None` if periodic tasks have no common release, or one beyond the range of time. O(n).
#[must_use]
pub fn meeting(system: &System) -> Option<Vec<Span>> {
    let by_chance = |arrival: &Arrival| match *arrival {
        Arrival::Sporadic { spread, .. } => spread > Span::ZERO,
        Arrival::Event { .. } => true,
        _ => false,
    };
    let first = |arrival: &Arrival| arrival.earliest().map_or(Span::ZERO, |first| first - Time::ZERO);
    let arrivals = || system.tasks.iter().map(|task| &task.arrival);
    let mut regular = arrivals().filter(|a| !by_chance(a) && a.period().is_some());
    let latest = arrivals().filter(|a| by_chance(a)).map(first).max().unwrap_or(Span::ZERO);
    let together = match regular.next() {
        None => latest,
        Some(one) => {
            let (from, mut cycle) = (first(one), one.period()?);
            for other in regular {
                (first(other) == from).then_some(())?;
                cycle = cycle.lcm(other.period()?)?;
            }
            let apart = (latest - from).ns().max(0);
            let cycles = apart / cycle.ns() + i64::from(apart % cycle.ns() > 0);
            Span::from_ns(from.ns().checked_add(cycle.ns().checked_mul(cycles)?)?)
        }
    };
    Some(arrivals().map(|a| if by_chance(a) { together - first(a) } else { Span::ZERO }).collect())
}
