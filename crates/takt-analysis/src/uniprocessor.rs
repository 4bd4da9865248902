//! Tests for one CPU: processor demand for EDF, response times for fixed priorities.

use crate::blocking::Sections;
use crate::demand::{Demand, Rules, utilisation};
use crate::suspension::{self, Counted};
use crate::taskset::{Releases, Task, can_meet};
use crate::tests::Effort;
use crate::tests::edf::{self, deadline_before, due};
use crate::tests::fixed_priority::{Peer, Priorities, Ranked, Response, responses};
use crate::utilisation::Utilisation;
use crate::verdict::{Answer, Finding, Kind};
use takt_core::time::{Span, Time};

/// How one CPU is tested.
pub(crate) type Test = fn(&[Demand], Rules<'_>) -> Finding;

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
/// Where less urgent jobs can block others, the demand and one section of those with longer deadlines must fit at every
/// deadline; only resources count that a job with such a deadline uses, too ([`Sections`]; Baker, "Stack-Based Scheduling of Realtime Processes", Real-Time Systems 3, 1991; for jobs that cannot be preempted
/// Jeffay, Stanat and Martel, RTSS 1991, and George, Rivierre and Spuri, INRIA report 2966, 1996).
pub(crate) fn edf(tasks: &[Demand], rules: Rules<'_>) -> Finding {
    // Tasks without a deadline come last under EDF and disturb no task.
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
    // The longest for which jobs with deadlines after `t` can block those before.
    let sections = Sections::new(tasks, rules, |j| tasks[j].deadline.unwrap_or(i128::MAX));
    let blocked = |t: i128| sections.blocking(tasks, |j| tasks[j].deadline.is_none_or(|d| d > t), t);
    let most = timed.iter().map(|j| blocked(deadline(j))).max().unwrap_or(0);
    if most == 0 {
        return preemptive_edf(&timed, load);
    }
    if load.fraction() == Some((1, 1)) {
        return unknown("with a utilisation of 1 there is no time for blocking");
    }
    let mut effort = Effort::default();
    let busy = busy_period(&timed, most, &mut effort).and_then(|busy| u64::try_from(busy + 1).ok());
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
/// Blocking by less important tasks is added once per busy period ([`Sections`]); jobs that suspend themselves have bounds of their
/// own ([`suspension`]).
pub(crate) fn fixed_priority(tasks: &[Demand], rules: Rules<'_>) -> Finding {
    let found = by_responses(tasks, rules);
    match impossible(tasks).filter(|_| found.answer == Answer::Unknown) {
        Some(why) => Finding { responses: found.responses, ..Finding::new(Answer::No, Kind::Exact, why) },
        None => found,
    }
}

/// Which tasks go before which. Those of a rank in `loose` meet any jobs of each other: one that is late meets those of the next release.
fn priorities(tasks: &[Demand], loose: &[i64]) -> Priorities {
    let key = |i: usize| tasks[i].rank.wrapping_sub(i64::MIN) as u64;
    let peer = |i: usize| {
        let t = &tasks[i];
        let in_step = t.regular && !loose.contains(&t.rank);
        Peer { beat: in_step.then_some((t.period, t.offset)), deadline: t.deadline.filter(|d| *d <= t.period) }
    };
    Priorities::by_key(tasks.len(), key, peer)
}

fn by_responses(tasks: &[Demand], rules: Rules<'_>) -> Finding {
    if !rules.queue && tasks.iter().any(|t| t.deadline.is_some_and(|d| d > t.period)) {
        return unknown("a deadline beyond the period, and releases do not simply wait (`backlog`)");
    }
    let sections = Sections::new(tasks, rules, |j| i128::from(tasks[j].rank));
    let firm = priorities(tasks, &loose(tasks, &sections, rules, &[]));
    let free = sections.is_empty() && tasks.iter().all(|t| t.suspended == 0);
    let settled = firm.is_settled() && free;
    let kind = if settled && synchronous(tasks) { Kind::Exact } else { Kind::Sufficient };
    let (found, counted) = analysed(tasks, &firm, &sections, rules);
    let places = || firm.order().iter().map(|&i| (&tasks[i], found[i]));
    let within = |r: &Response| matches!(r, Response::Within(_) | Response::Undated);
    let bounds = bounds(tasks, &found, &sections, rules);
    let listed = tasks.iter().zip(&bounds).filter_map(|(t, bound)| Some((t.task, ns(i128::from((*bound)?))))).collect();
    let proven = kind == Kind::Exact;
    let finding = if found.iter().all(within) {
        Finding::new(Answer::Yes, kind, "every response time is within its deadline")
    } else if let Some((task, _)) = places().find(|(_, r)| *r == Response::Endless).filter(|_| settled) {
        // The task and those before it need more than there is; their backlog grows for ever.
        let level = utilisation(tasks.iter().filter(|t| t.rank <= task.rank));
        let why = format!("the utilisation of task {} and those before it, {level}, is above 1", task.task.0);
        let late = places().find_map(|(t, r)| if let Response::Late(r) = r { Some((t, r)) } else { None });
        Finding::new(Answer::No, Kind::Exact, late.filter(|_| proven).map_or(why, |(t, r)| late_as(t, r)))
    } else if let Some((task, response)) =
        places().find_map(|(t, r)| if let Response::Late(r) = r { Some((t, r)) } else { None })
    {
        match proven {
            true => Finding::new(Answer::No, kind, late_as(task, response)),
            false => {
                let what = match () {
                    () if !sections.is_empty() => "with resources",
                    () if tasks.iter().any(|t| t.suspended > 0) => "with jobs that suspend themselves",
                    () => "with offsets or ties",
                };
                unknown(&format!("a bound of a response time is above its deadline, but {what} it may not occur"))
            }
        }
    } else if let Some((task, _)) = places().find(|(_, r)| *r == Response::Full) {
        let what = if tasks.iter().any(|t| t.jitter > 0) {
            "jobs of a server that come late"
        } else {
            "jobs that block others"
        };
        unknown(&format!(
            "the utilisation of task {} and those before it is 1, which leaves no time for {what}: a busy period never ends",
            task.task.0
        ))
    } else if found.contains(&Response::Endless) && tasks.iter().any(|t| t.suspended > 0) {
        unknown(
            "with suspensions as execution, the utilisation at some priority is above 1, but jobs that sleep leave the CPU to others",
        )
    } else if found.contains(&Response::Endless) {
        unknown("the utilisation at some priority is not shown to be at most 1")
    } else {
        unknown("a busy period is too long to be searched")
    };
    Finding { responses: listed, suspensions: suspension::told(tasks, &counted), ..finding }
}

fn late_as(task: &Demand, response: Option<u64>) -> String {
    match response {
        Some(response) => format!("task {} can respond as late as {}", task.task.0, ns(response.into())),
        None => format!("task {} can respond later than its deadline", task.task.0),
    }
}

/// The ranks whose tasks meet any jobs of each other: those of `late` tasks. Where jobs hold resources, all of them: a job that holds one for an equal
/// can come after a third equal.
fn loose(tasks: &[Demand], sections: &Sections, rules: Rules<'_>, late: &[i64]) -> Vec<i64> {
    match sections.is_empty() || rules.held_up {
        true => late.to_vec(),
        false => tasks.iter().map(|t| t.rank).collect(),
    }
}

/// The response times of the tasks, of which each suspending one has the smallest of its bounds.
/// With how those of suspending tasks count suspensions.
fn analysed(
    tasks: &[Demand],
    priorities: &Priorities,
    sections: &Sections,
    rules: Rules<'_>,
) -> (Vec<Response>, Vec<Counted>) {
    let whole = |t: i128| u64::try_from(t).unwrap_or(u64::MAX);
    let times = |t: &Demand| Task {
        runtime: whole(t.runtime),
        deadline: t.deadline.map_or(u64::MAX, whole),
        period: whole(t.period),
    };
    let times: Vec<Task> = tasks.iter().map(times).collect();
    let blocking: Vec<u64> = match sections.is_empty() {
        true => Vec::new(),
        false => by_place(tasks, priorities, sections),
    };
    let jitter: Vec<u64> = match tasks.iter().all(|t| t.jitter == 0) {
        true => Vec::new(),
        false => tasks.iter().map(|t| whole(t.jitter)).collect(),
    };
    let set = Ranked { times: &times, priorities, jitter: &jitter, blocking: &blocking };
    let mut found = responses(set);
    let suspends = tasks.iter().any(|t| t.suspended > 0);
    let counted = if suspends { suspension::lower(tasks, set, rules.system, &mut found) } else { Vec::new() };
    (found, counted)
}

/// By task how long less important tasks can block it.
fn by_place(tasks: &[Demand], priorities: &Priorities, sections: &Sections) -> Vec<u64> {
    let mut blocking = vec![0; tasks.len()];
    for (place, &i) in priorities.order().iter().enumerate() {
        let mut is_below = vec![false; tasks.len()];
        priorities.below(place).for_each(|j| is_below[j] = true);
        let longest = sections.blocking(tasks, |j| is_below[j], i128::from(tasks[i].rank));
        blocking[i] = u64::try_from(longest).unwrap_or(u64::MAX);
    }
    blocking
}

/// The bounds of response times that hold for all jobs, by task, also after a miss.
///
/// A late job of an equal meets jobs of later releases, so the equals are analysed again as if their jobs met at any time. Where
/// late jobs are aborted or skipped, or their successors come early, nothing holds for a task that they can delay.
fn bounds(tasks: &[Demand], found: &[Response], sections: &Sections, rules: Rules<'_>) -> Vec<Option<u64>> {
    let in_time = |i: usize| matches!(found[i], Response::Within(_) | Response::Undated);
    let mut late: Vec<i64> = (0..tasks.len()).filter(|i| !in_time(*i)).map(|i| tasks[i].rank).collect();
    late.sort_unstable();
    late.dedup();
    let equals = |rank: &i64| tasks.iter().filter(|t| t.rank == *rank).count() > 1;
    let again = late
        .iter()
        .any(equals)
        .then(|| analysed(tasks, &priorities(tasks, &loose(tasks, sections, rules, &late)), sections, rules).0);
    let first_late = late.first().copied();
    let found = again.as_deref().unwrap_or(found);
    // The handler of an aborted job has a deadline of its own, and can be more urgent than its task.
    let handled = tasks.iter().any(|t| rules.system.tasks[t.task.index()].handler.is_some());
    let holds = |i: usize| match first_late {
        None => true,
        // A less important job can only block, which is counted once whenever it comes.
        Some(rank) => rules.harmless || sections.is_empty() && !handled && tasks[i].rank < rank,
    };
    let response = |i: usize| match found[i] {
        Response::Within(response) | Response::Late(Some(response)) => Some(response),
        _ => None,
    };
    (0..tasks.len()).map(|i| response(i).filter(|_| holds(i))).collect()
}

/// Any policy on one CPU that never idles while there is work: when one job of each task fits into the shortest period and the
/// shortest deadline, the CPU is idle again before anybody comes twice, so that the order does not matter.
pub(crate) fn any_order(tasks: &[Demand], _: Rules<'_>) -> Finding {
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

/// Why no policy can meet all deadlines. Other jobs can run while one sleeps.
fn impossible(tasks: &[Demand]) -> Option<String> {
    let timed = || tasks.iter().filter(|t| t.deadline.is_some());
    let awake: Vec<Demand> = timed().map(|t| Demand { runtime: t.runtime - t.suspended, ..*t }).collect();
    let load = utilisation(&awake);
    if load.at_most(1) == Some(false) {
        return Some(format!("utilisation {load} is above 1"));
    }
    let late = timed().find(|t| t.deadline < Some(t.runtime))?;
    Some(format!("task {} needs more than its deadline allows", late.task.0))
}
