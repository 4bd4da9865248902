//! Bounds of response times of jobs that suspend themselves (`sleep`), under fixed priorities on one CPU.
//!
//! Chen and others, "Many suspensions, many problems: a review of self-suspending tasks in real-time systems", Real-Time Systems 55,
//! 2019. A task has the smallest of these bounds:
//!
//! * *as execution* (section 4.1): all suspensions count as execution.
//! * *as jitter* (section 4.2): its own suspension counts as execution, and each suspending task above it interferes with a jitter of
//!   its response time less its execution time, if it responds within its period.
//! * *by segments*: the sum of the response times of the pieces between suspensions, and of the suspensions. Tasks above interfere
//!   as in the bound before.

use crate::demand::Demand;
use crate::need::segments;
use crate::tests::Effort;
use crate::tests::fixed_priority::{Above, Ranked, Response, Search, response};
use takt_core::model::System;

/// How a bound counts suspensions.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Execution,
    Jitter,
    Segments,
}

impl Counted {
    fn name(self) -> &'static str {
        match self {
            Counted::Execution => "as execution",
            Counted::Jitter => "as jitter",
            Counted::Segments => "by segments",
        }
    }
}

/// Lowers the response times that count suspensions as execution. By task, how its bound counts them.
pub(crate) fn lower(tasks: &[Demand], set: Ranked<'_>, system: &System, found: &mut [Response]) -> Vec<Counted> {
    let mut counted = vec![Counted::Execution; tasks.len()];
    if !set.blocking.is_empty() {
        return counted;
    }
    let mut effort = Effort::default();
    // By task what it is to those below, where that is known.
    let mut seen: Vec<Option<Above>> =
        (0..tasks.len()).map(|i| (tasks[i].suspended == 0).then(|| set.above(i))).collect();
    for place in set.priorities.places() {
        let i = set.priorities.order()[place];
        let own = &tasks[i];
        let above: Option<Vec<Above>> = set.priorities.above(place).map(|o| seen[o]).collect();
        let bound = above.and_then(|above| smaller(own, &above, system, &mut effort));
        let present = if let Response::Within(r) | Response::Late(Some(r)) = found[i] { Some(r) } else { None };
        if let Some((bound, how)) = bound.filter(|(bound, _)| present.is_none_or(|present| *bound < present)) {
            counted[i] = how;
            found[i] = match own.deadline {
                None => Response::Undated,
                Some(deadline) if i128::from(bound) <= deadline => Response::Within(bound),
                Some(_) => Response::Late(Some(bound)),
            };
        }
        if own.suspended > 0 {
            seen[i] = as_seen(own, set.above(i), &found[i], bound.map(|(bound, _)| bound));
        }
    }
    counted
}

/// A task as those below see it: with the jitter of its suspensions.
fn as_seen(own: &Demand, above: Above, found: &Response, bound: Option<u64>) -> Option<Above> {
    let runtime = u64::try_from(own.runtime - own.suspended).ok()?;
    let response = match *found {
        Response::Within(response) | Response::Late(Some(response)) => response,
        _ => bound?,
    };
    // Beyond its period a job would wait for the one before.
    let jitter = response.checked_sub(runtime).filter(|_| response <= above.period)?;
    Some(Above { runtime, jitter: jitter.checked_add(above.jitter)?, ..above })
}

/// The smaller of the bounds that count suspensions above as jitter, if it is within the period.
fn smaller(own: &Demand, above: &[Above], system: &System, effort: &mut Effort) -> Option<(u64, Counted)> {
    let period = u64::try_from(own.period).ok()?;
    let mut span = |runtime: i128| -> Option<u64> {
        let runtime = u64::try_from(runtime).ok()?;
        if runtime == 0 {
            return Some(0);
        }
        let task = crate::taskset::Task { runtime, deadline: period, period };
        let search = Search { until_late: true, ..Search::default() };
        response(&task, above.iter().copied(), search, effort).map(|found| found.worst).filter(|worst| *worst <= period)
    };
    let whole = span(own.runtime);
    let of_turn = |(pieces, asleep): (Vec<i128>, i128)| {
        let sum = pieces.into_iter().map(&mut span).try_fold(0u64, |sum, piece| sum.checked_add(piece?))?;
        sum.checked_add(u64::try_from(asleep).ok()?)
    };
    let turns = segments(system, own.task);
    let turns: Option<Vec<u64>> = if own.suspended == 0 { None } else { turns.into_iter().map(of_turn).collect() };
    let by_segments = turns.and_then(|turns| turns.into_iter().max()).filter(|bound| *bound <= period);
    let bounds = [(whole, Counted::Jitter), (by_segments, Counted::Segments)];
    bounds.into_iter().filter_map(|(bound, how)| Some((bound?, how))).min_by_key(|(bound, _)| *bound)
}

/// How the bounds of the suspending tasks count suspensions, in words.
pub(crate) fn told(tasks: &[Demand], counted: &[Counted]) -> Vec<String> {
    let how = |how: Counted| {
        let of = tasks.iter().zip(counted).filter(|(t, c)| t.suspended > 0 && **c == how);
        let of: Vec<String> = of.map(|(t, _)| format!("task {}", t.task.0)).collect();
        (!of.is_empty()).then(|| format!("{} for {}", how.name(), of.join(", ")))
    };
    [Counted::Execution, Counted::Jitter, Counted::Segments].into_iter().filter_map(how).collect()
}
