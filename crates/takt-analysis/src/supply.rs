//! Whether the tasks of a partition meet their deadlines in what its slices of the window table give them.
//!
//! The table is a periodic supply of CPU time that is known exactly. What it gives at least in any interval of a length is its
//! supply bound function (Mok, Feng and Chen, "Resource Partition for Real-Time Systems", RTAS 2001; Shin and Lee, "Periodic
//! Resource Model for Compositional Real-Time Guarantees", RTSS 2003). Tests for one CPU carry over with that function in place
//! of the time that passes: processor demand for EDF, response times for fixed priorities (Almeida and Pedreiras, "Scheduling
//! within Temporal Partitions", EMSOFT 2004). Periodic tasks keep step with the table, so that under EDF, fixed priorities and
//! first in, first out their jobs are compared with the very slices that they meet.

mod frame;
mod slots;

use crate::need::{budgets, endless, may_skip_of, most, only_runs, unbounded, varies_by_itself};
use crate::verdict::{Answer, Kind, sentence};
pub use slots::Supply;
use slots::{Found, STEPS_MAX, Stream, nanoseconds, span, total};
use std::fmt;
use takt_core::model::{Arrival, Backlog, Order, PartitionId, PolicySpec, Scope, System, Task, Timing};
use takt_core::policies::scope::keeps_cpu;
use takt_core::time::Span;

/// Facts about a partition with a policy of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Which.
    pub partition: PartitionId,
    /// Whether every deadline is met.
    pub schedulable: Answer,
    /// The test that says so: `frame-edf` (processor demand in the slices that the jobs meet), `frame-rta` (every job in its turn
    /// in these), `sbf-edf` (processor demand against the supply bound function), `sbf-rta` (response times against it),
    /// `sbf-busy` (one job of each task against it), `utilisation`, `completion` (no job completes), `no-deadlines`, `none`.
    pub test: &'static str,
    /// The strength of that test.
    pub kind: Kind,
    /// The ground in plain words.
    pub reason: String,
}

/// The verdicts about partitions with a policy of their own. Those without one are a matter of budgets ([`crate::table`]).
#[must_use]
pub fn verdicts(system: &System) -> Vec<Verdict> {
    let guests = (0..).map(PartitionId).zip(&system.partitions).filter(|(_, p)| p.policy.is_some());
    guests.map(|(partition, _)| verdict(system, partition)).collect()
}

fn verdict(system: &System, partition: PartitionId) -> Verdict {
    let described = &system.partitions[partition.index()];
    let policy = described.policy.expect("only partitions with a policy of their own are asked about");
    // A job that exhausts its budget is aborted, and missed, whether it has a deadline or not.
    let dated = |task: &Task| task.deadline.is_some() || task.budget.is_some();
    let timed = described.tasks.iter().any(|task| dated(&system.tasks[task.index()]));
    let (schedulable, test, kind, reason) = if !timed && !may_skip_of(system, described.tasks.iter().copied()) {
        (Answer::Yes, "no-deadlines", Kind::Exact, "no task has a deadline that it could miss".into())
    } else if let Some(task) = endless(system, described.tasks.iter().copied()) {
        let why = format!("jobs of task {} never complete (`completion: none`)", task.0);
        (Answer::No, "completion", Kind::Necessary, why)
    } else if !is_tested(&policy) {
        // First, for whatever the tasks were like, it would not help.
        beyond(format!("no test is known for the policy `{}` within windows", policy.profile.name))
    } else {
        match streams(system, partition) {
            Ok((supply, streams)) => judge(system, partition, &supply, &streams),
            Err(why) => beyond(why),
        }
    };
    Verdict { partition, schedulable, test, kind, reason }
}

/// Whether some test covers the policy: a job waits for jobs that are ahead of it, and for no others.
fn is_tested(policy: &PolicySpec) -> bool {
    policy.preemptive_order().is_some() || policy.order() == Some(Order::Readiness)
}

/// The supply and the tasks as the tests see them; an error says what no test covers.
fn streams(system: &System, partition: PartitionId) -> Result<(Supply, Vec<Stream>), String> {
    let described = &system.partitions[partition.index()];
    let policy = described.policy.expect("only partitions with a policy of their own are asked about");
    let supply = Supply::of(system, partition).ok_or("slices of several CPUs are not covered by the tests")?;
    let named = |s: &&takt_core::model::Slice| s.sc == Some(partition) || s.be == Some(partition);
    let mut cpus = system.windows.iter().flat_map(|w| &w.slices).filter(named).map(|s| s.cpus);
    let first = cpus.next();
    if policy.scope != Scope::Global && !cpus.all(|c| Some(c) == first) {
        return Err("slices on different CPUs are not covered by the tests of this policy".into());
    }
    if system.timing != Timing::default() || system.load.is_some() {
        return Err("a tick, a timer's resolution or a changing load is not covered by the tests".into());
    }
    let mut streams = Vec::new();
    for &id in &described.tasks {
        let task = &system.tasks[id.index()];
        let (period, offset, regular) = match task.arrival {
            Arrival::Periodic { offset, period } => (period, offset, true),
            Arrival::Sporadic { offset, period, spread } => (period, offset, spread == Span::ZERO),
            Arrival::Event { distance, .. } if distance > Span::ZERO => (distance, Span::ZERO, false),
            Arrival::Event { .. } | Arrival::Listed { .. } | Arrival::Activated => {
                return Err(format!("task {} is neither periodic nor sporadic", id.0));
            }
        };
        let Some(runtime) = most(task) else { return Err(format!("task {} {}", id.0, unbounded(task))) };
        if !only_runs(task) {
            return Err(format!(
                "task {} sleeps, yields, calls or uses resources, which is not covered by the tests",
                id.0
            ));
        }
        if budgets(task).is_some_and(|(least, _)| least < runtime) {
            return Err(format!("task {} can be aborted when its budget is used, before its work is done", id.0));
        }
        if system.backlog != Backlog::Queue && task.deadline.is_none_or(|d| d > period) {
            return Err(format!("task {} may be busy when it is released, and releases do not simply wait", id.0));
        }
        if !system.cpus.is_subset(&task.affinity) && first.is_some_and(|cpu| !cpu.is_subset(&task.affinity)) {
            return Err(format!("task {} may not run in every slice", id.0));
        }
        let rank = match policy.order() {
            Some(Order::Period) => period.ns(),
            Some(Order::RelativeDeadline) => task.deadline.map_or(i64::MAX, Span::ns),
            _ => -i64::from(task.priority),
        };
        streams.push(Stream {
            task: id,
            runtime: nanoseconds(runtime),
            period: nanoseconds(period),
            deadline: task.deadline.map(nanoseconds),
            offset: nanoseconds(offset),
            regular,
            rank,
        });
    }
    Ok((supply, streams))
}

fn judge(system: &System, partition: PartitionId, supply: &Supply, streams: &[Stream]) -> Found {
    let policy = system.partitions[partition.index()].policy.expect("it was asked about");
    let found = match policy.order() {
        Some(Order::AbsoluteDeadline) => edf(supply, streams),
        // Without rivals every one of these policies is the same.
        _ if streams.len() == 1 => edf(supply, streams),
        Some(Order::Period | Order::RelativeDeadline | Order::Priority) => in_turn(supply, streams, response_times),
        Some(Order::Readiness) if !keeps_cpu(&policy) => first_in_first_out(supply, streams),
        _ => busy(supply, streams),
    };
    // Extra supply of a best-effort partition, and jobs that use less than the most, can only help.
    let tasks = || system.partitions[partition.index()].tasks.iter().map(|t| &system.tasks[t.index()]);
    let best_effort = system.windows.iter().flat_map(|w| &w.slices).any(|s| s.be == Some(partition));
    let doubt = match () {
        () if best_effort => Some("it is best-effort and may get more than the guaranteed supply"),
        () if tasks().any(varies_by_itself) => Some("jobs may execute for less than their maximum"),
        () => None,
    };
    match (found, doubt) {
        ((Answer::No, test, kind, why), Some(doubt)) => {
            (Answer::Unknown, test, kind.weakened(), format!("{why}, but {doubt}"))
        }
        ((Answer::Yes, test, Kind::Exact, why), Some(_)) => (Answer::Yes, test, Kind::Sufficient, why),
        (found, _) => found,
    }
}

fn beyond(why: impl Into<String>) -> Found {
    (Answer::Unknown, "none", Kind::Nothing, why.into())
}

fn unknown(test: &'static str, why: &str) -> Found {
    (Answer::Unknown, test, Kind::Sufficient, why.into())
}

/// The least common multiple of periods and frame, if it is not absurd.
fn common(supply: &Supply, streams: &[Stream]) -> Option<u128> {
    streams.iter().try_fold(span(supply.frame), |l, s| l.lcm(span(s.period))).map(nanoseconds)
}

/// Whether the tasks need more than there is in the long run.
fn overload(supply: &Supply, streams: &[Stream], cycle: u128) -> Option<Found> {
    let needed = total(streams.iter().map(|s| (cycle / s.period).saturating_mul(s.runtime)));
    let given = cycle / supply.frame * supply.per_frame();
    let why = || format!("jobs need {} in {}, and the slices supply {}", span(needed), span(cycle), span(given));
    (needed > given).then(|| (Answer::No, "utilisation", Kind::Necessary, why()))
}

/// EDF: first the demand against the supply bound function, and if that says nothing about periodic tasks, against the slices
/// that their jobs meet.
fn edf(supply: &Supply, streams: &[Stream]) -> Found {
    // Tasks without a deadline come last under EDF and disturb no task.
    let timed: Vec<Stream> = streams.iter().copied().filter(|s| s.deadline.is_some()).collect();
    let cycle = common(supply, &timed);
    if let Some(no) = cycle.and_then(|cycle| overload(supply, &timed, cycle)) {
        return no;
    }
    let by_bound = bounded_demand(supply, &timed);
    if by_bound.0 == Answer::Yes || !timed.iter().all(|s| s.regular && s.deadline <= Some(s.period)) {
        return by_bound;
    }
    cycle.and_then(|cycle| frame::met_demand(supply, &timed, cycle)).unwrap_or(by_bound)
}

/// The demand of every interval that begins with a release of all tasks, up to the end of the longest busy period.
fn bounded_demand(supply: &Supply, timed: &[Stream]) -> Found {
    const TEST: &str = "sbf-edf";
    let Some(busy) = busy_period(supply, timed) else {
        return unknown(TEST, "the busy period is too long to be searched");
    };
    let deadline = |s: &Stream| s.deadline.expect("only tasks with one are asked about");
    let points = total(timed.iter().map(|s| busy.saturating_sub(deadline(s)) / s.period + 1));
    if points.saturating_mul((supply.slots.len() + timed.len()) as u128) > STEPS_MAX {
        return unknown(TEST, "the processor demand has too many points to be searched");
    }
    let of = |s: &Stream| {
        let (first, period) = (deadline(s), s.period);
        (0..).map(move |k| first + k * period).take_while(move |d| *d <= busy)
    };
    let mut at: Vec<u128> = timed.iter().flat_map(of).collect();
    at.sort_unstable();
    at.dedup();
    for t in at {
        let jobs = |s: &Stream| t.checked_sub(deadline(s)).map_or(0, |rest| rest / s.period + 1);
        let due = total(timed.iter().map(|s| jobs(s).saturating_mul(s.runtime)));
        if supply.within(due).is_none_or(|needed| needed > t) {
            let why =
                format!("jobs due within {} need {}, which the slices may not supply in that time", span(t), span(due));
            // Jobs that keep step with the table need not meet its worst stretch.
            let exact = timed.iter().all(|s| !s.regular);
            let answer = if exact { Answer::No } else { Answer::Unknown };
            return (answer, TEST, if exact { Kind::Exact } else { Kind::Sufficient }, why);
        }
    }
    let why = "the processor demand never exceeds the least supply of the slices";
    (Answer::Yes, TEST, if timed.iter().all(|s| !s.regular) { Kind::Exact } else { Kind::Sufficient }, why.into())
}

/// The end of the busy period that begins with a release of all tasks as a slot ends.
fn busy_period(supply: &Supply, streams: &[Stream]) -> Option<u128> {
    let mut length: u128 = 1;
    for _ in 0..STEPS_MAX / (supply.slots.len() + streams.len() + 1) as u128 {
        let work = total(streams.iter().map(|s| length.div_ceil(s.period).saturating_mul(s.runtime)));
        let next = supply.within(work)?.max(length);
        if next > i64::MAX as u128 {
            return None;
        }
        if next == length {
            return Some(length);
        }
        length = next;
    }
    None
}

/// A test that holds for any stretch of the table, and if that says nothing, periodic jobs in their turns in the slices that they
/// meet.
fn in_turn(supply: &Supply, streams: &[Stream], any_stretch: fn(&Supply, &[Stream]) -> Found) -> Found {
    let cycle = common(supply, streams);
    // Tasks without a deadline may starve.
    let timed: Vec<Stream> = streams.iter().copied().filter(|s| s.deadline.is_some()).collect();
    if let Some(no) = cycle.and_then(|cycle| overload(supply, &timed, cycle)) {
        return no;
    }
    let found = any_stretch(supply, streams);
    let exact = || cycle.and_then(|cycle| frame::in_turn(supply, streams, cycle));
    if found.0 == Answer::Unknown { exact().unwrap_or(found) } else { found }
}

/// Without an order of importance.
fn first_in_first_out(supply: &Supply, streams: &[Stream]) -> Found {
    let equals: Vec<Stream> = streams.iter().map(|s| Stream { rank: 0, ..*s }).collect();
    in_turn(supply, &equals, busy)
}

/// Fixed priorities, for deadlines within periods. Equal priorities are taken to hold each other up.
fn response_times(supply: &Supply, streams: &[Stream]) -> Found {
    const TEST: &str = "sbf-rta";
    for task in streams.iter().filter(|s| s.deadline.is_some()) {
        let deadline = task.deadline.expect("those without one are left out");
        if deadline > task.period {
            return unknown(TEST, "a deadline beyond the period is not covered by this test");
        }
        let above: Vec<&Stream> = streams.iter().filter(|s| s.rank <= task.rank && s.task != task.task).collect();
        let mut response = 0;
        let steps = STEPS_MAX / (supply.slots.len() + above.len() + 1) as u128;
        let mut taken = 0;
        loop {
            let held = total(above.iter().map(|s| response.max(1_u128).div_ceil(s.period).saturating_mul(s.runtime)));
            let next = supply.within(held.saturating_add(task.runtime)).unwrap_or(u128::MAX);
            if next > deadline {
                let why = format!("task {} may respond later than its deadline of {}", task.task.0, span(deadline));
                let reason = format!("{why} if it meets the worst stretch of the table");
                return (Answer::Unknown, TEST, Kind::Sufficient, reason);
            }
            if next == response {
                break;
            }
            response = next;
            taken += 1;
            if taken > steps {
                return unknown(TEST, "a response time takes too many steps to be found");
            }
        }
    }
    (
        Answer::Yes,
        TEST,
        Kind::Sufficient,
        "every response time is within its deadline in any stretch of the table".into(),
    )
}

/// Any order: one job of each task together, within the shortest period and deadline.
fn busy(supply: &Supply, streams: &[Stream]) -> Found {
    const TEST: &str = "sbf-busy";
    if let Some(no) = common(supply, streams).and_then(|cycle| {
        let all = streams.iter().all(|s| s.deadline.is_some());
        all.then(|| overload(supply, streams, cycle)).flatten()
    }) {
        return no;
    }
    let work: u128 = streams.iter().map(|s| s.runtime).sum();
    let room = streams.iter().map(|s| s.deadline.map_or(s.period, |d| d.min(s.period))).min().unwrap_or(0);
    match supply.within(work) {
        Some(needed) if needed <= room => {
            let fits = "which fits into the shortest period and deadline";
            let why = format!(
                "one job of each task takes at most {} together in any stretch of the table, {fits}",
                span(needed)
            );
            (Answer::Yes, TEST, Kind::Sufficient, why)
        }
        _ => unknown(TEST, "one job of each task does not surely fit into the shortest period and deadline"),
    }
}

/// One sentence: `schedulable (exact test frame-edf): the jobs …`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentence(f, self.schedulable, self.test, self.kind, &self.reason)
    }
}
