//! Comparing two traces: the same decisions in the same order, and at the same times?
//!
//! The comparison covers each task's own sequence of starts, stops and ends, and the sequence of tasks on each CPU set. Two
//! things that happen at one instant on different CPUs may be recorded in either order.

use crate::timeline::Asked;
use crate::{Header, Stamped, Trace, names};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
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

/// One of the two traces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The first one.
    A = 0,
    /// The second one.
    B = 1,
}

/// A task in both traces. The events that agree are dropped as soon as both are there.
struct Task {
    label: Rc<str>,
    /// When its first event came, as a number, on each side.
    first: [Option<usize>; 2],
    /// Events that the other side does not have yet, or, after the first difference, all that follow.
    rest: [VecDeque<Event>; 2],
    differs: bool,
    /// Without CPUs: a stop that the job may have continued after, on each side.
    stopped: [Option<Event>; 2],
    points: Vec<Point>,
}

type Entry = (Key, Rc<str>);

/// A set of CPUs in both traces. The entries that agree are dropped as soon as both are there.
#[derive(Default)]
struct Sequence {
    rest: [VecDeque<Entry>; 2],
    /// How many entries there were on each side, and how many agreed before the first difference.
    length: [usize; 2],
    same: usize,
    difference: Option<(Entry, Entry)>,
}

impl Sequence {
    fn push(&mut self, side: Side, entry: Entry) {
        self.length[side as usize] += 1;
        if self.difference.is_some() {
            return;
        }
        let Some(other) = self.rest[1 - side as usize].pop_front() else {
            return self.rest[side as usize].push_back(entry);
        };
        if other == entry {
            self.same += 1;
        } else {
            self.difference = Some(if side == Side::A { (entry, other) } else { (other, entry) });
        }
    }

    /// The first difference, unless only the last `tail` entries of one side are missing.
    fn difference(&self, tail: usize) -> Option<String> {
        let longer = self.length[0].max(self.length[1]);
        let (one, two) = match &self.difference {
            Some((one, two)) => (Some(one), Some(two)),
            None => (self.rest[0].front(), self.rest[1].front()),
        };
        if self.same + tail >= longer {
            return None;
        }
        let say = |entry: Option<&Entry>| {
            entry.map_or("nothing".into(), |(key, task)| format!("{} of {task} job {}", key.kind, key.job))
        };
        Some(format!("differs at entry {}: {} / {}", self.same + 1, say(one), say(two)))
    }
}

/// A comparison of two traces whose records come one after the other, in each trace's own order. Its memory grows with the differences, and with how far one
/// side is ahead.
pub struct Comparison {
    diff: Diff,
    shorter: Time,
    cpus: bool,
    tasks: Vec<Task>,
    by_label: HashMap<Rc<str>, usize>,
    /// By side and number of the header: the index among `tasks`, and the text of a place.
    numbers: [Vec<usize>; 2],
    places: [Vec<Rc<str>>; 2],
    sequences: BTreeMap<Rc<str>, Sequence>,
    outcomes: HashMap<&'static str, Rc<str>>,
    events: usize,
}

impl Comparison {
    /// Without CPUs a job that changes them without a pause continues, and there is one place.
    fn new(headers: [&Header; 2], lengths: [Time; 2], tolerance: Span, cpus: bool) -> Comparison {
        let shorter = lengths[0].min(lengths[1]);
        let up_to = (lengths[0] != lengths[1]).then_some(shorter);
        let anywhere: Rc<str> = "".into();
        let text = |place: &CpuSet| if cpus { Rc::from(place.to_string()) } else { anywhere.clone() };
        let mut comparison = Comparison {
            diff: Diff { order_equal: true, tolerance, up_to, ..Diff::default() },
            shorter,
            cpus,
            tasks: Vec::new(),
            by_label: HashMap::new(),
            numbers: [Vec::new(), Vec::new()],
            places: headers.map(|header| header.places.iter().map(text).collect()),
            sequences: BTreeMap::new(),
            outcomes: HashMap::new(),
            events: 0,
        };
        for (side, header) in [Side::A, Side::B].into_iter().zip(headers) {
            header.labels().iter().for_each(|label| comparison.task(side, label));
        }
        comparison
    }

    /// Adds the next task of a trace, before its records.
    pub fn task(&mut self, side: Side, label: &str) {
        let index = self.by_label.get(label).copied().unwrap_or_else(|| {
            let label: Rc<str> = label.into();
            self.by_label.insert(label.clone(), self.tasks.len());
            self.tasks.push(Task {
                label,
                first: [None; 2],
                rest: Default::default(),
                differs: false,
                stopped: [None, None],
                points: Vec::new(),
            });
            self.tasks.len() - 1
        });
        self.numbers[side as usize].push(index);
    }

    /// The next record of a trace.
    ///
    /// # Panics
    /// When its task or its place is not in the header, and was not added.
    pub fn record(&mut self, side: Side, r: &Stamped) {
        let set = |place: Place| self.places[side as usize][place.index()].clone();
        let mut word = |word: &'static str| self.outcomes.entry(word).or_insert_with(|| word.into()).clone();
        let (kind, task, job, detail) = match r.record.kind {
            RecordKind::Start { task, job, place } => (Kind::Start, task, job, set(place)),
            RecordKind::Stop { task, job, place, .. } => (Kind::Stop, task, job, set(place)),
            RecordKind::Finish { task, job, outcome, .. } => (Kind::Finish, task, job, word(names::outcome(outcome))),
            RecordKind::HandlerEnd { task, job, .. } => (Kind::Finish, task, job, word(HANDLER)),
            RecordKind::Call { task, job, call, granted } => {
                let asked = Asked { at: r.applied, task, job, call, granted };
                (Kind::Call, task, job, asked.to_string().into())
            }
            _ => return,
        };
        if self.diff.up_to.is_some_and(|limit| r.record.at >= limit) {
            return;
        }
        let index = self.numbers[side as usize][task.index()];
        let key = Key { kind, job, detail };
        let task = &mut self.tasks[index];
        if self.cpus && matches!(kind, Kind::Start | Kind::Stop) {
            let sequence = self.sequences.entry(key.detail.clone()).or_default();
            sequence.push(side, (key.clone(), task.label.clone()));
        }
        self.events += 1;
        task.first[side as usize].get_or_insert(self.events);
        let event = Event { key, at: r.record.at, applied: r.applied };
        if self.cpus {
            return self.event(index, side, event);
        }
        let before = task.stopped[side as usize].take();
        let continues = |stop: &Event| kind == Kind::Start && (stop.key.job, stop.at) == (job, event.at);
        if before.as_ref().is_some_and(continues) {
            return;
        }
        if let Some(stop) = before {
            self.event(index, side, stop);
        }
        if kind == Kind::Stop {
            self.tasks[index].stopped[side as usize] = Some(event);
        } else {
            self.event(index, side, event);
        }
    }

    fn event(&mut self, index: usize, side: Side, event: Event) {
        let task = &mut self.tasks[index];
        match task.rest[1 - side as usize].front() {
            Some(other) if !task.differs && other.key == event.key => {
                let other = task.rest[1 - side as usize].pop_front().expect("it is there");
                let (one, two) = if side == Side::A { (event, other) } else { (other, event) };
                self.diff.both(task, &one, &two);
            }
            other => {
                task.differs |= other.is_some();
                task.rest[side as usize].push_back(event);
            }
        }
    }

    /// Ends the comparison and returns its result.
    fn finish(mut self) -> Diff {
        for index in 0..self.tasks.len() {
            for side in [Side::A, Side::B] {
                if let Some(stop) = self.tasks[index].stopped[side as usize].take() {
                    self.event(index, side, stop);
                }
            }
        }
        let Comparison { diff: mut d, shorter, mut tasks, sequences, .. } = self;
        // Tasks of the first trace come first.
        tasks.sort_by_key(|task| (task.first[0].is_none(), task.first));
        let almost = shorter - d.tolerance;
        let at_end = |e: &Event| e.at.max(e.applied) >= almost;
        let mut tail = 0;
        for mut task in tasks {
            let [one, two] = std::mem::take(&mut task.rest).map(Vec::from);
            for step in align(&one, &two) {
                match step {
                    Step::Both(i, j) => d.both(&mut task, &one[i], &two[j]),
                    Step::OnlyA(i) if at_end(&one[i]) => tail += 1,
                    Step::OnlyB(j) if at_end(&two[j]) => tail += 1,
                    Step::OnlyA(i) => task.point(&one[i], Some(one[i].applied), None),
                    Step::OnlyB(j) => task.point(&two[j], None, Some(two[j].applied)),
                }
            }
            d.points.append(&mut task.points);
        }
        d.points.sort_by_key(Point::first);
        d.order_equal = d.points.iter().all(|p| p.a.is_some() && p.b.is_some());
        // Where all tasks agree, a place can differ just by the order between tasks.
        if d.order_equal {
            let differing = |(place, sequence): (&Rc<str>, &Sequence)| {
                Some(format!("on {place} the order {}", sequence.difference(tail)?))
            };
            d.places = sequences.iter().filter_map(differing).collect();
            d.order_equal = d.places.is_empty();
        }
        d
    }
}

impl Task {
    fn point(&mut self, e: &Event, a: Option<Time>, b: Option<Time>) {
        self.points.push(Point {
            task: self.label.to_string(),
            job: e.key.job,
            kind: e.key.kind,
            detail: e.key.detail.to_string(),
            a,
            b,
        });
    }
}

impl Diff {
    /// An event that both traces have.
    fn both(&mut self, task: &mut Task, one: &Event, two: &Event) {
        self.compared += 1;
        let delta = (two.applied - one.applied).ns().abs();
        self.largest = self.largest.max(Span::from_ns(delta));
        if delta > self.tolerance.ns() {
            self.beyond += 1;
            task.point(one, Some(one.applied), Some(two.applied));
        }
    }
}

/// The length of a trace: as planned, else up to its end.
fn length(trace: &Trace) -> Time {
    trace.header.duration.map_or_else(|| trace.end(), |d| Time::ZERO + d)
}

/// Compares two traces of these lengths over the length of the shorter one. `records` hands over all records of both, once or twice.
///
/// Points that only one trace has do not count when they lie within the tolerance of the end: there, chance decides
/// whether they are still recorded.
///
/// With `ignore_cpus` the CPUs on which a job runs make no difference, and a job that changes them without a pause continues. What counts is
/// each task's own sequence, and the instants. The order of tasks counts beside that only where both traces have one place.
///
/// # Errors
/// Those of `records`.
pub fn compare<E>(
    headers: [&Header; 2],
    lengths: [Time; 2],
    tolerance: Span,
    ignore_cpus: bool,
    mut records: impl FnMut(&mut Comparison) -> Result<(), E>,
) -> Result<Diff, E> {
    let [a, b] = headers;
    let mut once = |cpus: bool| {
        let mut comparison = Comparison::new(headers, lengths, tolerance, cpus);
        records(&mut comparison).map(|()| comparison.finish())
    };
    let one_place = a.places.len() == 1 && a.places == b.places;
    if ignore_cpus {
        return once(one_place);
    }
    let mut d = once(true)?;
    d.only_cpus = !d.order_equal && d.places.is_empty() && once(one_place)?.is_equal();
    Ok(d)
}

/// Compares two traces in memory, as [`compare`].
#[must_use]
pub fn diff(a: &Trace, b: &Trace, tolerance: Span) -> Diff {
    in_memory(a, b, tolerance, false)
}

/// As [`diff`], without the CPUs.
#[must_use]
pub fn diff_ignoring_cpus(a: &Trace, b: &Trace, tolerance: Span) -> Diff {
    in_memory(a, b, tolerance, true)
}

fn in_memory(a: &Trace, b: &Trace, tolerance: Span, ignore_cpus: bool) -> Diff {
    let records = |comparison: &mut Comparison| {
        a.records.iter().for_each(|record| comparison.record(Side::A, record));
        b.records.iter().for_each(|record| comparison.record(Side::B, record));
        Ok::<_, Infallible>(())
    };
    let Ok(d) = compare([&a.header, &b.header], [length(a), length(b)], tolerance, ignore_cpus, records);
    d
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
