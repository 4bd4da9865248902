//! Set-point generation: what tasks want of a CPU, their parts α of a round, and how long a round should be.

use super::parameters::{Alpha, Parameters, RoundRule, UNIT};
use super::regulator::{Split, WHOLE};
use crate::model::{Task, TaskId};
use crate::time::{Span, divide};

/// The part of a CPU that a task has declared to need, in units of 2^-32: its share, or else its utilisation. O(1).
#[must_use]
pub fn load(task: &Task) -> Option<u64> {
    let part = |of: i64, whole: i64| Some(divide(i128::from(of) * i128::from(WHOLE), i128::from(whole)) as u64);
    match (task.share, task.runtime, task.arrival.period()) {
        (Some(share), _, _) => part(share.into(), UNIT),
        (None, Some(c), Some(t)) => part(c.ns(), t.ns()),
        _ => None,
    }
}

/// The wanted share of each of `members`, in units of 2^-32 of a CPU, handed to `put`. O(members).
///
/// A declared share is wanted as it is; so is the utilisation under `alpha: load`. The other tasks divide the rest of the
/// CPU, at least a hundredth of it each on average: in proportion to their rates under `alpha: rate` (a task without a period
/// counts as the slowest), else equally.
pub fn wants(p: &Parameters, tasks: &[Task], members: &[TaskId], mut put: impl FnMut(TaskId, u64)) {
    let task = |id: &TaskId| &tasks[id.index()];
    let declared = |t: &Task| if t.share.is_some() || p.alpha == Alpha::Load { load(t) } else { None };
    let others = || members.iter().filter(|id| declared(task(id)).is_none());
    let rate = |period: Span| divide(1 << 62, period.ns().into());
    let by_rate = p.alpha == Alpha::Rate;
    let slowest = others().filter_map(|id| task(id).arrival.period()).max().filter(|_| by_rate).map_or(1, rate);
    let weight = |id: &TaskId| match task(id).arrival.period() {
        Some(period) if by_rate => rate(period).max(1),
        _ => slowest.max(1),
    };
    let taken: i128 = members.iter().filter_map(|id| declared(task(id))).map(i128::from).sum();
    let least = i128::from(WHOLE / 100) * others().count() as i128;
    let rest = (i128::from(WHOLE) - taken).max(least);
    let mut split = Split::new(rest as i64, others().map(weight).sum::<i128>().max(1));
    for id in members {
        match declared(task(id)) {
            Some(want) => put(*id, want),
            None => put(*id, split.next(weight(id)) as u64),
        }
    }
}

/// How much a task's want counts: in overload it is multiplied by the relative importance. O(1).
#[must_use]
pub fn weight(want: u64, importance: u32, overloaded: bool) -> i128 {
    // A product of this length is long code on a processor of 32 bits.
    if overloaded && importance != 1 { i128::from(want) * i128::from(importance) } else { i128::from(want) }
}

/// The set point of a round of `tasks` tasks. Their shortest period is `shortest`, which only some rules ask for. O(1) besides that.
#[must_use]
pub fn round(p: &Parameters, tasks: usize, shortest: impl FnOnce() -> Option<Span>) -> Span {
    let tasks = tasks.max(1) as i64;
    let nominal = p.nominal * tasks;
    let shortest = if p.round == RoundRule::Shortest { shortest() } else { None };
    let bound = shortest.map_or(nominal, |t| t / 2);
    // A nanosecond for each task, so that there is something to divide.
    nominal.min(bound).max(Span::from_ns(tasks))
}
