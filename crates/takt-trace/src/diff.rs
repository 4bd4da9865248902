//! Comparing two traces: the same decisions in the same order, and at the same times?
//!
//! The comparison covers each task's own sequence of starts, stops and ends, and the sequence of tasks on each CPU set. Two
//! things that happen at one instant on different CPUs may be recorded in either order.

use crate::timeline::Asked;
use crate::{Trace, names};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use takt_core::cpus::CpuSet;
use takt_core::record::{JobId, Place, RecordKind};
use takt_core::time::{Span, Time};

/// The event of a job at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// It started or resumed.
    Start,
    /// It left its CPUs.
    Stop,
    /// It was over, or its handler was.
    Finish,
    /// It asked for other terms.
    Call,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Start => "start",
            Kind::Stop => "stop",
            Kind::Finish => "finish",
            Kind::Call => "call",
        })
    }
}

/// The distinction between the end of an aborted job's handler and that of the job.
const HANDLER: &str = "handler";

/// One point of comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The task's label.
    pub task: String,
    /// The job.
    pub job: JobId,
    /// The event.
    pub kind: Kind,
    /// The CPUs of a start or stop, or how the job ended; `handler` for the end of an aborted job's handler; what it asked for, and
    /// whether that was refused.
    pub detail: String,
    /// When it was carried out in the first trace; `None` when it is not in it.
    pub a: Option<Time>,
    /// The same of the second trace.
    pub b: Option<Time>,
}

impl Point {
    /// By how much the second trace is later.
    #[must_use]
    pub fn delta(&self) -> Option<Span> {
        self.a.zip(self.b).map(|(a, b)| b - a)
    }
    fn first(&self) -> Time {
        self.a.or(self.b).unwrap_or(Time::ZERO)
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Points that are in both traces.
    pub compared: usize,
    /// How many of them differ by more than the tolerance.
    pub beyond: usize,
    /// The largest distance of a point in both traces.
    pub largest: Span,
    /// Every task did the same things in the same order, and every CPU set saw the same tasks in the same order.
    pub order_equal: bool,
    /// The order is not equal, but nothing differs if the CPUs are ignored ([`diff_ignoring_cpus`]).
    pub only_cpus: bool,
    /// The points that differ in time, and those that only one trace has; in the order of time.
    pub points: Vec<Point>,
    /// CPU sets on which the order of tasks differs, with the first difference.
    pub places: Vec<String>,
    /// The tolerance.
    pub tolerance: Span,
    /// Up to when the traces were compared, if one is longer than the other.
    pub up_to: Option<Time>,
}

impl Diff {
    /// Whether no difference was found.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.order_equal && self.beyond == 0
    }
}

/// Texts are shared, since a trace repeats the same few a million times.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    kind: Kind,
    job: JobId,
    detail: Rc<str>,
}

struct Event {
    key: Key,
    at: Time,
    applied: Time,
}

/// Per task and per place what happened, in order.
struct Sequences {
    tasks: HashMap<Rc<str>, Vec<Event>>,
    places: HashMap<Rc<str>, Vec<(Key, Rc<str>)>>,
    order: Vec<Rc<str>>,
}

fn length(trace: &Trace) -> Time {
    trace.header.duration.map_or_else(|| trace.end(), |d| Time::ZERO + d)
}

/// Without CPUs a job that changes them without a pause continues, and there is one place.
fn sequences(trace: &Trace, limit: Option<Time>, cpus: bool) -> Sequences {
    let labels: Vec<Rc<str>> = trace.header.labels().into_iter().map(Rc::from).collect();
    let anywhere: Rc<str> = "".into();
    let text = |place: &CpuSet| if cpus { Rc::from(place.to_string()) } else { anywhere.clone() };
    let places: Vec<Rc<str>> = trace.header.places.iter().map(text).collect();
    let mut outcomes: HashMap<&str, Rc<str>> = HashMap::new();
    let mut s = Sequences { tasks: HashMap::new(), places: HashMap::new(), order: Vec::new() };
    for r in &trace.records {
        let set = |place: Place| places[place.index()].clone();
        let (kind, task, job, detail) = match r.record.kind {
            RecordKind::Start { task, job, place } => (Kind::Start, task, job, set(place)),
            RecordKind::Stop { task, job, place, .. } => (Kind::Stop, task, job, set(place)),
            RecordKind::Finish { task, job, outcome, .. } => {
                let word = names::outcome(outcome);
                (Kind::Finish, task, job, outcomes.entry(word).or_insert_with(|| word.into()).clone())
            }
            RecordKind::HandlerEnd { task, job, .. } => {
                (Kind::Finish, task, job, outcomes.entry(HANDLER).or_insert_with(|| HANDLER.into()).clone())
            }
            RecordKind::Call { task, job, call, granted } => {
                let asked = Asked { at: r.applied, task, job, call, granted };
                (Kind::Call, task, job, asked.to_string().into())
            }
            _ => continue,
        };
        if limit.is_some_and(|limit| r.record.at >= limit) {
            continue;
        }
        let label = &labels[task.index()];
        let key = Key { kind, job, detail };
        if cpus && matches!(kind, Kind::Start | Kind::Stop) {
            s.places.entry(key.detail.clone()).or_default().push((key.clone(), label.clone()));
        }
        if !s.tasks.contains_key(label) {
            s.order.push(label.clone());
        }
        let events = s.tasks.entry(label.clone()).or_default();
        let stopped = events.last().is_some_and(|e| (e.key.kind, e.key.job, e.at) == (Kind::Stop, job, r.record.at));
        if !cpus && kind == Kind::Start && stopped {
            events.pop();
            continue;
        }
        events.push(Event { key, at: r.record.at, applied: r.applied });
    }
    s
}

/// Compares two traces over the length of the shorter one.
///
/// Points that only one trace has do not count when they lie within the tolerance of the end: there, chance decides
/// whether they are still recorded.
#[must_use]
pub fn diff(a: &Trace, b: &Trace, tolerance: Span) -> Diff {
    let mut d = compare(a, b, tolerance, true);
    d.only_cpus = !d.order_equal && d.places.is_empty() && diff_ignoring_cpus(a, b, tolerance).is_equal();
    d
}

/// As [`diff`], but on which CPUs a job runs makes no difference, and a job that changes them without a pause continues. What counts is
/// each task's own sequence, and the instants. The order of tasks counts beside that only where both traces have one place.
#[must_use]
pub fn diff_ignoring_cpus(a: &Trace, b: &Trace, tolerance: Span) -> Diff {
    let one_place = [a, b].iter().all(|trace| trace.header.places.len() == 1) && a.header.places == b.header.places;
    compare(a, b, tolerance, one_place)
}

fn compare(a: &Trace, b: &Trace, tolerance: Span, cpus: bool) -> Diff {
    let (length_a, length_b) = (length(a), length(b));
    let shorter = length_a.min(length_b);
    let up_to = (length_a != length_b).then_some(shorter);
    let (mut in_a, mut in_b) = (sequences(a, up_to, cpus), sequences(b, up_to, cpus));
    let mut d = Diff { order_equal: true, tolerance, up_to, ..Diff::default() };
    let only_b = in_b.order.iter().filter(|t| !in_a.tasks.contains_key(*t)).cloned();
    let tasks: Vec<Rc<str>> = in_a.order.iter().cloned().chain(only_b.collect::<Vec<_>>()).collect();
    let at_end = |e: &Event| e.at.max(e.applied) >= shorter - tolerance;
    let mut tail = 0;
    for task in tasks {
        let one = in_a.tasks.remove(&task).unwrap_or_default();
        let two = in_b.tasks.remove(&task).unwrap_or_default();
        let point = |e: &Event, a: Option<Time>, b: Option<Time>| Point {
            task: task.to_string(),
            job: e.key.job,
            kind: e.key.kind,
            detail: e.key.detail.to_string(),
            a,
            b,
        };
        for step in align(&one, &two) {
            match step {
                Step::Both(i, j) => {
                    d.compared += 1;
                    let delta = (two[j].applied - one[i].applied).ns().abs();
                    d.largest = d.largest.max(Span::from_ns(delta));
                    if delta > tolerance.ns() {
                        d.beyond += 1;
                        d.points.push(point(&one[i], Some(one[i].applied), Some(two[j].applied)));
                    }
                }
                Step::OnlyA(i) if at_end(&one[i]) => tail += 1,
                Step::OnlyB(j) if at_end(&two[j]) => tail += 1,
                Step::OnlyA(i) => d.points.push(point(&one[i], Some(one[i].applied), None)),
                Step::OnlyB(j) => d.points.push(point(&two[j], None, Some(two[j].applied))),
            }
        }
    }
    d.points.sort_by_key(Point::first);
    d.order_equal = d.points.iter().all(|p| p.a.is_some() && p.b.is_some());
    if d.order_equal {
        d.places = differing_places(&in_a, &in_b, tail);
        d.order_equal = d.places.is_empty();
    }
    d
}

/// Only asked when all tasks agree, so a place can differ just by the order between tasks. The last `tail` entries may
/// be missing from one trace.
fn differing_places(a: &Sequences, b: &Sequences, tail: usize) -> Vec<String> {
    let mut places: Vec<&Rc<str>> = a.places.keys().chain(b.places.keys()).collect();
    places.sort();
    places.dedup();
    let none = Vec::new();
    let differing = |place: &&Rc<str>| {
        let (one, two) = (a.places.get(*place).unwrap_or(&none), b.places.get(*place).unwrap_or(&none));
        let i = (0..one.len().max(two.len())).find(|&i| one.get(i) != two.get(i))?;
        if i + tail >= one.len().max(two.len()) {
            return None;
        }
        let say = |entry: Option<&(Key, Rc<str>)>| {
            entry.map_or("nothing".into(), |(key, task)| format!("{} of {task} job {}", key.kind, key.job))
        };
        Some(format!("on {place} the order differs at entry {}: {} / {}", i + 1, say(one.get(i)), say(two.get(i))))
    };
    places.iter().filter_map(differing).collect()
}

#[derive(Clone, Copy)]
enum Step {
    Both(usize, usize),
    OnlyA(usize),
    OnlyB(usize),
}

/// Edits beyond which two sequences are not aligned any more but reported as different from there on.
const MOST_EDITS: usize = 1_000;

/// The shortest edit between two sequences (Myers, "An O(ND) difference algorithm and its variations", 1986).
fn align(a: &[Event], b: &[Event]) -> Vec<Step> {
    let same = a.iter().zip(b).take_while(|(x, y)| x.key == y.key).count();
    let mut steps: Vec<Step> = (0..same).map(|i| Step::Both(i, i)).collect();
    let (rest_a, rest_b) = (&a[same..], &b[same..]);
    let (n, m) = (rest_a.len() as isize, rest_b.len() as isize);
    let most = (n + m).min(MOST_EDITS as isize);
    let offset = most + 1;
    let mut furthest = vec![0_isize; 2 * offset as usize + 1];
    let mut history: Vec<Vec<isize>> = Vec::new();
    let mut edits = None;
    'search: for d in 0..=most {
        history.push(furthest[(offset - d) as usize..=(offset + d) as usize].to_vec());
        for k in (-d..=d).step_by(2) {
            let at = |k: isize| furthest[(offset + k) as usize];
            let mut x = if k == -d || (k != d && at(k - 1) < at(k + 1)) { at(k + 1) } else { at(k - 1) + 1 };
            while x < n && x - k < m && rest_a[x as usize].key == rest_b[(x - k) as usize].key {
                x += 1;
            }
            furthest[(offset + k) as usize] = x;
            if x >= n && x - k >= m {
                edits = Some(d);
                break 'search;
            }
        }
    }
    let Some(edits) = edits else {
        steps.extend((same..a.len()).map(Step::OnlyA));
        steps.extend((same..b.len()).map(Step::OnlyB));
        return steps;
    };
    let (mut x, mut y) = (n, m);
    let mut back = Vec::new();
    for d in (0..=edits).rev() {
        // The furthest point with one edit less; `history[d]` covers diagonals -d to d.
        let at = |k: isize| history[d as usize][(k + d) as usize];
        let k = x - y;
        let (from_x, from_y) = if d == 0 {
            (0, 0)
        } else if k == -d || (k != d && at(k - 1) < at(k + 1)) {
            (at(k + 1), at(k + 1) - (k + 1))
        } else {
            (at(k - 1), at(k - 1) - (k - 1))
        };
        while x > from_x && y > from_y {
            (x, y) = (x - 1, y - 1);
            back.push(Step::Both(same + x as usize, same + y as usize));
        }
        if d > 0 {
            back.push(if x > from_x {
                Step::OnlyA(same + from_x as usize)
            } else {
                Step::OnlyB(same + from_y as usize)
            });
            (x, y) = (from_x, from_y);
        }
    }
    steps.extend(back.into_iter().rev());
    steps
}
