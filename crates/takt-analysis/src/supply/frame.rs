//! Periodic tasks against the very slices that their jobs meet: exact where all releases are known.
//!
//! Jobs and slices repeat together after a *cycle*, the least common multiple of frame and periods. While the tasks of some
//! urgency and those above need no more than the slices give, the work of theirs that waits at an instant is no less one
//! cycle later, and the same from one cycle after the last first release on: idle time in between sets it to a value of its own,
//! and without idle time it stays. So what happens in the second cycle after that release happens for ever (compare Leung and
//! Merrill, "A Note on Preemptive Scheduling of Periodic, Real-Time Tasks", Information Processing Letters 11(3), 1980).

use super::slots::{Found, STEPS_MAX, Stream, Supply, span, total};
use crate::verdict::{Answer, Kind};

/// More slots and jobs than this are not looked at together: they take memory.
const SIZE_MAX: u128 = 1_000_000;

/// Until when all that can happen has happened, with the releases by then.
fn horizon(streams: &[Stream], cycle: u128) -> Option<(u128, u128)> {
    let last = streams.iter().map(|s| s.offset).max()?;
    let end = cycle.checked_mul(2)?.checked_add(last)?;
    Some((end, total(streams.iter().map(|s| end.saturating_sub(s.offset) / s.period + 1))))
}

/// The demand of the jobs themselves: between every release and every deadline of the first two common cycles. A schedule
/// within a supply exists if none exceeds it, and EDF finds it; with deadlines within periods it repeats after that.
pub(super) fn met_demand(supply: &Supply, timed: &[Stream], cycle: u128) -> Option<Found> {
    const TEST: &str = "frame-edf";
    let (end, count) = horizon(timed, cycle)?;
    if count.saturating_mul(count) > STEPS_MAX {
        return None;
    }
    // By deadline: deadline, release, runtime.
    let jobs = timed.iter().flat_map(|s| {
        let releases = (0..).map(move |k| s.offset + k * s.period);
        let dated = releases.filter_map(move |r| Some((r + s.deadline?, r, s.runtime)));
        dated.take_while(move |(deadline, ..)| *deadline <= end)
    });
    let mut jobs: Vec<(u128, u128, u128)> = jobs.collect();
    jobs.sort_unstable();
    let given: Vec<u128> = jobs.iter().map(|(deadline, ..)| supply.until(*deadline)).collect();
    let mut releases: Vec<u128> = jobs.iter().map(|(_, release, _)| *release).collect();
    releases.sort_unstable();
    releases.dedup();
    for from in releases {
        let (mut due, before) = (0, supply.until(from));
        for (&(deadline, release, runtime), given) in jobs.iter().zip(&given) {
            if release < from {
                continue;
            }
            due += runtime;
            if due > given - before {
                let (from, to) = (span(from), span(deadline));
                let why = format!(
                    "jobs released from {from} on with deadlines by {to} need {}, and the slices supply {}",
                    span(due),
                    span(given - before)
                );
                return Some((Answer::No, TEST, Kind::Exact, why));
            }
        }
    }
    let why = "the jobs between any release and any deadline need no more than the supply of their slices";
    Some((Answer::Yes, TEST, Kind::Exact, why.into()))
}

/// Fixed priorities by `rank`, and among equals first in, first out: every job in its turn gets the time that more important ones
/// leave of the slices. For deadlines within periods; tasks without one may only come after all that have one. A job that
/// needs less than its most makes none later, so that a yes holds for all shorter jobs. O(levels × (slots + jobs)) of two cycles.
pub(super) fn in_turn(supply: &Supply, streams: &[Stream], cycle: u128) -> Option<Found> {
    const TEST: &str = "frame-rta";
    let lowest = streams.iter().filter(|s| s.deadline.is_some()).map(|s| s.rank).max()?;
    let mut levels: Vec<Stream> = streams.iter().copied().filter(|s| s.rank <= lowest).collect();
    if !levels.iter().all(|s| s.regular && s.deadline.is_some_and(|d| d <= s.period)) {
        return None;
    }
    levels.sort_by_key(|s| s.rank);
    let (end, count) = horizon(&levels, cycle)?;
    // The last jobs may run until their deadlines, beside others that come until then and have deadlines, too.
    let longest = levels.iter().filter_map(|s| s.deadline).max()?;
    let (end, given) = (end.checked_add(longest)?, end.checked_add(2 * longest)?);
    let slots = (given / supply.frame + 1).saturating_mul(supply.slots.len() as u128);
    let size = slots.saturating_add(count);
    if size > SIZE_MAX || size.saturating_mul(levels.len() as u128) > STEPS_MAX {
        return None;
    }
    let frames = (0..=given / supply.frame).map(|frame| frame * supply.frame);
    let mut free: Vec<(u128, u128)> =
        frames.flat_map(|start| supply.slots.iter().map(move |(from, to)| (start + from, start + to))).collect();
    for level in levels.chunk_by(|a, b| a.rank == b.rank) {
        let mut jobs: Vec<(u128, &Stream)> = Vec::new();
        for s in level {
            let releases = (0..).map(|k| s.offset + k * s.period);
            jobs.extend(releases.take_while(|r| *r < end).map(|r| (r, s)));
        }
        jobs.sort_unstable_by_key(|(release, s)| (*release, s.task));
        let mut left = Vec::with_capacity(free.len() + jobs.len());
        let mut slots = free.into_iter();
        let mut slot = slots.next();
        for (release, s) in jobs {
            let mut rest = s.runtime;
            let deadline = release + s.deadline?;
            while rest > 0 {
                let Some((from, to)) = slot.filter(|(from, _)| *from < deadline) else {
                    let (task, release) = (s.task.0, span(release));
                    let why =
                        format!("the job of task {task} released at {release} does not complete by {}", span(deadline));
                    return Some((Answer::No, TEST, Kind::Exact, why));
                };
                let begin = from.max(release).min(to);
                let done = to.min(begin + rest);
                if from < begin {
                    left.push((from, begin));
                }
                rest -= done - begin;
                slot = if done < to { Some((done, to)) } else { slots.next() };
                if rest == 0 && done > deadline {
                    let (task, release) = (s.task.0, span(release));
                    let why = format!("the job of task {task} released at {release} completes at {}", span(done));
                    return Some((Answer::No, TEST, Kind::Exact, why));
                }
            }
        }
        left.extend(slot);
        left.extend(slots);
        free = left;
    }
    Some((Answer::Yes, TEST, Kind::Exact, "every job completes by its deadline in its slices".into()))
}
