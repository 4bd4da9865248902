//! Tests for one CPU: processor demand for EDF, response times for fixed priorities.

use crate::demand::{Demand, utilisation};
use crate::taskset::{Releases, Task, can_meet};
use crate::tests::Effort;
use crate::tests::edf::{self, deadline_before, due};
use crate::tests::fixed_priority::{Peer, Priorities};
use crate::utilisation::Utilisation;
use crate::verdict::{Answer, Finding, Kind};
use takt_core::time::{Span, Time};

/// What else the tests must know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Releases wait for a busy task.
    pub(crate) queue: bool,
    /// A job is held up by one section of one less urgent task, and not by one of each.
    pub(crate) once: bool,
}

impl Rules {
    /// How long the sections of these tasks can hold a job up.
    fn blocking<'a>(self, by: impl Iterator<Item = &'a Demand>) -> i128 {
        let sections = by.map(|t| t.section);
        if self.once { sections.max().unwrap_or(0) } else { sections.sum() }
    }
}

/// A long division takes as long as so many looks at a task.
const DIVISION: usize = 4;

/// How one CPU is tested.
pub(crate) type Test = fn(&[Demand], Rules) -> Finding;

fn synchronous(tasks: &[Demand]) -> bool {
    can_meet(tasks.iter().map(|t| Releases { first: Time::ZERO + ns(t.offset), regular: t.regular }))
}

fn ns(span: i128) -> Span {
    Span::from_ns(i64::try_from(span).unwrap_or(i64::MAX))
}

/// The end of the busy period that begins with a release of every task, or `None` when it is not reached in reasonable time.
fn busy_period(tasks: &[Demand], blocking: i128, effort: &mut Effort) -> Option<i128> {
    let mut length: i128 = blocking + tasks.iter().map(|t| t.runtime).sum::<i128>();
    while effort.spend(tasks.len()) {
        let next = blocking + tasks.iter().map(|t| ceil(length, t.period) * t.runtime).sum::<i128>();
        if next == length {
            return Some(length);
        }
        length = next;
    }
    None
}

fn ceil(a: i128, b: i128) -> i128 {
    (a + b - 1) / b
}

/// EDF on one CPU.
///
/// Utilisation when no deadline is below its period (Liu and Layland, 1973); otherwise the processor demand test in the
/// order of QPA (Zhang and Burns, "Schedulability Analysis for Real-Time Systems with EDF Scheduling", IEEE TC 58(9), 2009).
/// Where less urgent jobs can hold up others, the demand and one section of those with longer deadlines must fit at every
/// deadline (Baker, "Stack-Based Scheduling of Realtime Processes", Real-Time Systems 3, 1991; for jobs that cannot be preempted
/// Jeffay, Stanat and Martel, RTSS 1991, and George, Rivierre and Spuri, INRIA report 2966, 1996).
pub(crate) fn edf(tasks: &[Demand], rules: Rules) -> Finding {
    // Tasks without a deadline come last under EDF and disturb nobody.
    let timed: Vec<Demand> = tasks.iter().copied().filter(|t| t.deadline.is_some()).collect();
    let deadline = |t: &Demand| t.deadline.expect("only tasks with one are left");
    let load = utilisation(&timed);
    match load.at_most(1) {
        Some(false) => return Finding::new(Answer::No, Kind::Exact, format!("utilisation {load} is above 1")),
        None => {
            return Finding::new(Answer::Unknown, Kind::Exact, "the utilisation is too close to 1 to decide");
        }
        Some(true) => {}
    }
    if let Some(t) = timed.iter().find(|t| deadline(t) < t.runtime) {
        return Finding::new(Answer::No, Kind::Exact, format!("task {} needs more than its deadline allows", t.task.0));
    }
    if !rules.queue && timed.iter().any(|t| deadline(t) > t.period) {
        return unknown("a deadline beyond the period, and releases do not simply wait (`backlog`)");
    }
    // The longest that anybody with a deadline after `t` can hold up those before.
    let blocked = |t: i128| rules.blocking(tasks.iter().filter(|j| j.deadline.is_none_or(|d| d > t)));
    let first = timed.iter().map(deadline).min().unwrap_or(0);
    if timed.is_empty() || blocked(first) == 0 {
        return preemptive_edf(&timed, load);
    }
    if load.fraction() == Some((1, 1)) {
        return unknown("with a utilisation of 1 there is no time for blocking");
    }
    let mut effort = Effort::default();
    let busy = busy_period(&timed, blocked(first), &mut effort).and_then(|busy| u64::try_from(busy + 1).ok());
    let Some(end) = busy else { return unknown("the busy period is too long to be searched") };
    let set = task_set(&timed);
    let mut at = deadline_before(&set, end);
    while effort.spend(3 * tasks.len()) {
        let Some(t) = at else {
            let why = "the processor demand and the longest blocking never exceed the available time";
            return Finding::new(Answer::Yes, Kind::Sufficient, why);
        };
        if i128::from(due(&set, t)) + blocked(i128::from(t)) > i128::from(t) {
            return unknown("a job with a later deadline may block others for too long");
        }
        at = deadline_before(&set, t);
    }
    unknown("the processor demand has too many points to be searched")
}

/// The tasks as the tests of task sets see them. All have deadlines, and none needs more than its deadline allows, so that no
/// number is larger than a [`Span`] holds.
fn task_set(timed: &[Demand]) -> Vec<Task> {
    let timed = timed.iter().filter_map(|t| t.deadline.map(|deadline| (t, deadline)));
    timed.map(|(t, d)| Task { runtime: t.runtime as u64, deadline: d as u64, period: t.period as u64 }).collect()
}

fn preemptive_edf(timed: &[Demand], load: Utilisation) -> Finding {
    let set = task_set(timed);
    if set.iter().all(|t| t.deadline >= t.period) {
        return Finding::new(Answer::Yes, Kind::Exact, format!("utilisation {load} is at most 1"));
    }
    let kind = if synchronous(timed) { Kind::Exact } else { Kind::Sufficient };
    match edf::demand(&set) {
        edf::Demand::Within => Finding::new(Answer::Yes, kind, "the processor demand never exceeds the available time"),
        edf::Demand::Above { .. } if kind == Kind::Sufficient => {
            unknown("the demand would be too high if all tasks were released together, but they have offsets")
        }
        edf::Demand::Above { at, due } => {
            let (at, due) = (ns(at.into()), ns(due.into()));
            Finding::new(Answer::No, kind, format!("by {at} jobs with a total runtime of {due} are due"))
        }
        edf::Demand::Overload => Finding::new(Answer::No, Kind::Exact, format!("utilisation {load} is above 1")),
        edf::Demand::Unknown => unknown("the processor demand has too many points to be searched"),
    }
}

fn unknown(why: &str) -> Finding {
    Finding::new(Answer::Unknown, Kind::Sufficient, why)
}

/// Fixed priorities on one CPU, by `rank`.
///
/// Response times over the busy period of each level (Lehoczky, "Fixed Priority Scheduling of Periodic Task Sets with
/// Arbitrary Deadlines", RTSS 1990). Equal ranks are served by release and then by task number, as [`Priorities`] has it.
/// Sections of less important tasks are added once per busy period (Sha, Rajkumar and Lehoczky, "Priority Inheritance
/// Protocols", IEEE TC 39(9), 1990).
pub(crate) fn fixed_priority(tasks: &[Demand], rules: Rules) -> Finding {
    let found = response_times(tasks, rules);
    match impossible(tasks).filter(|_| found.answer == Answer::Unknown) {
        Some(why) => Finding { responses: found.responses, ..Finding::new(Answer::No, Kind::Exact, why) },
        None => found,
    }
}

fn response_times(tasks: &[Demand], rules: Rules) -> Finding {
    if !rules.queue && tasks.iter().any(|t| t.deadline.is_some_and(|d| d > t.period)) {
        return unknown("a deadline beyond the period, and releases do not simply wait (`backlog`)");
    }
    let key = |i: usize| tasks[i].rank.wrapping_sub(i64::MIN) as u64;
    let peer = |i: usize| {
        let t = &tasks[i];
        Peer { beat: t.regular.then_some((t.period, t.offset)), deadline: t.deadline.filter(|d| *d <= t.period) }
    };
    let priorities = Priorities::by_key(tasks.len(), key, peer);
    let free = tasks.iter().all(|t| t.section == 0);
    let settled = priorities.is_settled() && free;
    let kind = if settled && synchronous(tasks) { Kind::Exact } else { Kind::Sufficient };
    let mut responses = Vec::with_capacity(tasks.len());
    let mut over = None;
    let mut effort = Effort::default();
    let (mut level, mut summed, mut above) = (Utilisation::default(), 0, Vec::with_capacity(tasks.len()));
    for place in priorities.places() {
        let task = &tasks[priorities.order()[place]];
        // Of equals the last one comes first, so this is the utilisation of it and those before it.
        while summed < priorities.level(place) {
            let t = &tasks[priorities.order()[summed]];
            level.add(t.runtime as u64, t.period as u64);
            summed += 1;
        }
        if task.deadline.is_none() {
            continue;
        }
        if !effort.spend(tasks.len()) {
            return Finding {
                responses,
                ..unknown("there are too many tasks for their response times to be searched")
            };
        }
        above.clear();
        above.extend(priorities.above(place).map(|i| tasks[i]));
        match level.at_most(1) {
            Some(true) => {}
            // The task and those before it need more than there is; their backlog grows for ever.
            Some(false) if settled => {
                let why = format!("the utilisation of task {} and those before it, {level}, is above 1", task.task.0);
                return Finding { responses, ..Finding::new(Answer::No, Kind::Exact, why) };
            }
            _ => {
                return Finding {
                    responses,
                    ..unknown("the utilisation at some priority is not shown to be at most 1")
                };
            }
        }
        let blocking = if free { 0 } else { rules.blocking(priorities.below(place).map(|i| &tasks[i])) };
        // A busy period of a full CPU ends only if nothing is added to what its own jobs need.
        let late = above.iter().any(|t| t.jitter > 0);
        let full = |level: Utilisation| level.fraction() == Some((1, 1));
        if (late || blocking > 0) && full(level) && full(utilisation(above.iter().chain([task]))) {
            let what = if late { "jobs of a server that come late" } else { "jobs that block others" };
            let why = format!(
                "the utilisation of task {} and those before it is 1, which leaves no time for {what}: a busy period never ends",
                task.task.0
            );
            return Finding { responses, ..unknown(&why) };
        }
        match response_time(task, &above, blocking, &mut effort) {
            None => return Finding { responses, ..unknown("a busy period is too long to be searched") },
            Some(response) => {
                responses.push((task.task, ns(response)));
                if Some(response) > task.deadline && over.is_none() {
                    over = Some((task.task, response));
                }
            }
        }
    }
    let found = match over {
        None => Finding::new(Answer::Yes, kind, "every response time is within its deadline"),
        Some((task, response)) if kind == Kind::Exact => {
            Finding::new(Answer::No, kind, format!("task {} can respond as late as {}", task.0, ns(response)))
        }
        Some(_) => {
            let what = if free { "with offsets or ties" } else { "with resources" };
            unknown(&format!("a bound of a response time is above its deadline, but {what} it may not occur"))
        }
    };
    Finding { responses, ..found }
}

/// The worst response time of a task below `above`; `None` when it takes too long to find.
fn response_time(task: &Demand, above: &[Demand], blocking: i128, effort: &mut Effort) -> Option<i128> {
    let mut worst = 0;
    let mut end = blocking + task.runtime;
    for job in 0.. {
        let own = blocking + (job + 1) * task.runtime;
        end = end.max(own);
        loop {
            let next = own + above.iter().map(|o| ceil(end + o.jitter, o.period) * o.runtime).sum::<i128>();
            if next == end {
                break;
            }
            end = next;
            if !effort.spend(DIVISION * above.len() + 1) {
                return None;
            }
        }
        worst = worst.max(end - job * task.period);
        if end <= (job + 1) * task.period {
            return Some(worst);
        }
        if !effort.spend(DIVISION * above.len() + 1) {
            return None;
        }
        end += task.runtime;
    }
    None
}

/// Any policy on one CPU that never idles while there is work: when one job of each task fits into the shortest period and the
/// shortest deadline, the CPU is idle again before anybody comes twice, so that the order does not matter.
pub(crate) fn any_order(tasks: &[Demand], _: Rules) -> Finding {
    let all: i128 = tasks.iter().map(|t| t.runtime).sum();
    let room = tasks.iter().map(|t| t.period.min(t.deadline.unwrap_or(i128::MAX))).min().unwrap_or(0);
    if all <= room {
        let why = format!(
            "one job of each task takes {} together, which fits into the shortest period and deadline",
            ns(all)
        );
        return Finding::new(Answer::Yes, Kind::Sufficient, why);
    }
    if let Some(why) = impossible(tasks) {
        return Finding::new(Answer::No, Kind::Necessary, why);
    }
    unknown("one job of each task does not fit into the shortest period and deadline (inconclusive)")
}

/// Why no policy can meet all deadlines.
fn impossible(tasks: &[Demand]) -> Option<String> {
    let timed = || tasks.iter().filter(|t| t.deadline.is_some());
    let load = utilisation(timed());
    if load.at_most(1) == Some(false) {
        return Some(format!("utilisation {load} is above 1"));
    }
    let late = timed().find(|t| t.deadline < Some(t.runtime))?;
    Some(format!("task {} needs more than its deadline allows", late.task.0))
}
