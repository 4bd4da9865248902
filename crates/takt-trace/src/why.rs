//! The causes of a response time: a job's time from release to end, divided into parts.
//!
//! Each instant of the response has one cause. The parts therefore add up to the response exactly. Times in which the job has a CPU are those of
//! carrying out; release and end are instants of the engine.
//!
//! A ready job that does not run waits for the tasks on its CPUs. These are all CPUs on which its task runs in the trace. If each of them is busy,
//! the time is divided equally among them, as interference is in analyses of global scheduling. If one of them is idle, the CPU on which the job
//! continues decides.

use crate::timeline::{Interval, Job, Timeline};
use crate::{Header, Trace};
use std::collections::HashSet;
use takt_core::cpus::CpuSet;
use takt_core::model::{ResourceId, TaskId};
use takt_core::record::{JobId, Place, RecordKind, StopReason};
use takt_core::time::{Span, Time};

/// Why a job was not over at an instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Cause {
    /// The job ran, and did its own work.
    Own,
    /// The job ran, and its program was at the work of an earlier job, which had been aborted.
    Behind,
    /// The job had a CPU and consumed nothing: stolen time, or costs that its budget's clock does not count.
    Stolen,
    /// A job of another task had the CPU.
    Task(TaskId),
    /// An earlier job of the same task was not over.
    Earlier,
    /// The job waited for a resource, or for a less urgent job whose priority a resource had raised: by its ceiling, or by a job that inherits to it.
    Blocking {
        /// The task that held the resource; `None` if the trace does not have it.
        by: Option<TaskId>,
        /// The resource.
        resource: ResourceId,
    },
    /// The job slept, or waited for something that the trace does not name.
    Sleep,
    /// The scheduler was late: a release was not known yet, or a start was decided and not carried out.
    Scheduler,
    /// The CPU was idle: the job was outside its windows or without a budget, or the policy left the CPU idle.
    Idle,
}

impl Cause {
    /// The name of the kind, for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Own => "own",
            Cause::Behind => "behind",
            Cause::Stolen => "stolen",
            Cause::Task(_) => "task",
            Cause::Earlier => "earlier",
            Cause::Blocking { .. } => "blocking",
            Cause::Sleep => "sleep",
            Cause::Scheduler => "scheduler",
            Cause::Idle => "idle",
        }
    }

    /// The task that is the cause, if it is one.
    #[must_use]
    pub const fn task(self) -> Option<TaskId> {
        match self {
            Cause::Task(task) => Some(task),
            Cause::Blocking { by, .. } => by,
            _ => None,
        }
    }

    /// A description for people; `labels` are those of [`crate::Header::labels`].
    #[must_use]
    pub fn describe(self, trace: &Trace, labels: &[String]) -> String {
        let label = |task: TaskId| labels.get(task.index()).map_or("?", String::as_str);
        match self {
            Cause::Own => "own work".into(),
            Cause::Behind => "work of an aborted job".into(),
            Cause::Stolen => "stolen time and costs".into(),
            Cause::Task(task) => format!("waiting for {}", label(task)),
            Cause::Earlier => "waiting for an earlier job of its task".into(),
            Cause::Blocking { by: Some(by), resource } => {
                format!("blocked by {} on {}", label(by), trace.header.resource(resource))
            }
            Cause::Blocking { by: None, resource } => format!("blocked on {}", trace.header.resource(resource)),
            Cause::Sleep => "asleep".into(),
            Cause::Scheduler => "lateness of the scheduler".into(),
            Cause::Idle => "not dispatched, CPU idle".into(),
        }
    }
}

/// A part of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its cause.
    pub cause: Cause,
    /// Its length; above zero.
    pub time: Span,
}

/// The response of a job, divided by causes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Why {
    /// The job.
    pub job: Job,
    /// The end of the response: that of the job, or the end of the trace if the job was not over.
    pub end: Time,
    /// Whether the job missed its deadline, was cut off, continues the work of a cut-off activation, or was skipped.
    pub missed: bool,
    /// The parts, the longest first. They add up to [`Why::response`].
    pub parts: Vec<Part>,
}

impl Why {
    /// The time from the release to the end.
    #[must_use]
    pub fn response(&self) -> Span {
        self.end - self.job.release
    }
}

/// A job on its CPUs. Its span begins with the decision.
#[derive(Clone, Copy, Debug)]
struct Piece {
    job: JobId,
    place: Place,
    /// When the decision had been carried out.
    from: Time,
}

/// Spans in the order of their starts, whose members that overlap a range are found quickly.
#[derive(Clone, Debug)]
struct Spans<T> {
    spans: Vec<(Time, Time, T)>,
    /// The latest end up to each span.
    latest: Vec<Time>,
}

impl<T: Copy> Spans<T> {
    fn of(mut spans: Vec<(Time, Time, T)>) -> Spans<T> {
        spans.sort_by_key(|(from, ..)| *from);
        let latest = spans.iter().scan(Time::ZERO, |latest, (_, to, _)| {
            *latest = (*latest).max(*to);
            Some(*latest)
        });
        Spans { latest: latest.collect(), spans }
    }

    /// The spans that overlap `[from, to)`, clipped to it, the last one first. O(log n) and their number, unless long spans hide short ones.
    fn within(&self, from: Time, to: Time) -> impl Iterator<Item = (Time, Time, T)> {
        let end = self.spans.partition_point(|(begin, ..)| *begin < to);
        let near = (0..end).rev().take_while(move |index| self.latest[*index] > from);
        let clipped = near.map(move |index| {
            let (begin, end, value) = self.spans[index];
            (begin.max(from), end.min(to), value)
        });
        clipped.filter(|(begin, end, _)| begin < end)
    }

    /// The spans that contain an instant, the last one first.
    fn overlapping(&self, at: Time) -> impl Iterator<Item = (Time, Time, T)> {
        let end = self.spans.partition_point(|(begin, ..)| *begin <= at);
        let near = (0..end).rev().take_while(move |index| self.latest[*index] > at);
        near.map(|index| self.spans[index]).filter(move |(_, end, _)| *end > at)
    }

    /// The spans that begin at an instant or later, in order.
    fn after(&self, at: Time) -> impl Iterator<Item = T> {
        self.spans[self.spans.partition_point(|(begin, ..)| *begin < at)..].iter().map(|(.., value)| *value)
    }
}

/// An element of the state during a response; a span of it begins or ends.
#[derive(Clone, Copy, Debug)]
enum State {
    Own,
    Behind,
    Unknown,
    Decided,
    Earlier,
    EarlierRuns,
    Wait(Option<ResourceId>),
    Held(ResourceId, TaskId),
    Raised(ResourceId, TaskId),
    /// An index into the candidate CPUs.
    Busy(usize, TaskId),
}

/// The tables that divide responses, prepared once for a trace.
#[derive(Clone, Debug)]
pub struct Causes<'t> {
    trace: &'t Trace,
    line: Timeline,
    /// By task.
    pieces: Vec<Spans<Piece>>,
    /// By task, the latest end up to each job.
    over: Vec<Vec<Time>>,
    /// By task and job, when the engine took the release.
    known: Vec<Vec<Time>>,
    /// By task and job, the consumed time.
    consumed: Vec<Vec<Option<Span>>>,
    /// By task, the time in which its program was at an aborted job's work.
    behind: Vec<Spans<()>>,
    waits: Vec<Spans<Option<ResourceId>>>,
    holds: Vec<Spans<TaskId>>,
    /// By task, the CPUs on which it runs.
    homes: Vec<CpuSet>,
    /// By CPU.
    busy: Vec<Spans<TaskId>>,
    /// Pairs of tasks of which the first one has run in place of the second one.
    preempts: HashSet<(TaskId, TaskId)>,
}

impl<'t> Causes<'t> {
    /// Prepares a trace. O(n log n).
    #[must_use]
    pub fn of(trace: &'t Trace) -> Causes<'t> {
        Causes::with(trace, Timeline::of(trace))
    }

    /// Prepares a trace whose timeline is known. O(n log n).
    #[must_use]
    pub fn with(trace: &'t Trace, line: Timeline) -> Causes<'t> {
        let (n, end) = (trace.header.tasks.len(), line.end);
        let mut pieces: Vec<Vec<(Time, Time, Piece)>> = vec![Vec::new(); n];
        let mut running = vec![false; n];
        let mut known: Vec<Vec<Time>> = vec![Vec::new(); n];
        let mut consumed: Vec<Vec<Option<Span>>> = line.jobs.iter().map(|jobs| vec![None; jobs.len()]).collect();
        let mut behind: Vec<Vec<(Time, Time, ())>> = vec![Vec::new(); n];
        let mut at_aborted: Vec<Option<(JobId, JobId)>> = vec![None; n];
        for r in &trace.records {
            match r.record.kind {
                RecordKind::Release { task, .. } => known[task.index()].push(r.applied.max(r.record.at)),
                RecordKind::Start { task, job, place } => {
                    let (from, to) = (r.applied, end.max(r.applied));
                    pieces[task.index()].push((r.record.at.min(from), to, Piece { job, place, from }));
                    running[task.index()] = true;
                }
                RecordKind::Stop { task, .. } if std::mem::take(&mut running[task.index()]) => {
                    if let Some((_, to, piece)) = pieces[task.index()].last_mut() {
                        *to = r.applied.max(piece.from);
                    }
                }
                RecordKind::Behind { task, job, abandoned } => {
                    at_aborted[task.index()] = Some((job, abandoned));
                    behind[task.index()].push((r.applied, end.max(r.applied), ()));
                }
                RecordKind::LateSignal { task, job } => {
                    let of = at_aborted[task.index()];
                    if of.is_some_and(|(_, abandoned)| abandoned == job) {
                        at_aborted[task.index()] = None;
                        if let Some((from, to, ())) = behind[task.index()].last_mut() {
                            *to = r.applied.max(*from);
                        }
                    }
                }
                RecordKind::Finish { task, job, consumed: amount, .. } => {
                    if let Ok(index) = line.jobs[task.index()].binary_search_by_key(&job, |j| j.number) {
                        consumed[task.index()][index] = Some(amount.nominal_time());
                    }
                    if at_aborted[task.index()].is_some_and(|(of, _)| of == job) {
                        at_aborted[task.index()] = None;
                        if let Some((from, to, ())) = behind[task.index()].last_mut() {
                            *to = r.applied.max(*from);
                        }
                    }
                }
                _ => {}
            }
        }
        let mut homes = vec![CpuSet::EMPTY; n];
        let mut busy: Vec<Vec<(Time, Time, TaskId)>> = Vec::new();
        for ((index, pieces), home) in pieces.iter().enumerate().zip(&mut homes) {
            for (_, to, piece) in pieces {
                let cpus = trace.header.places[piece.place.index()];
                *home = home.union(&cpus);
                for cpu in cpus.difference(&trace.header.kernel_cpus).iter() {
                    if busy.len() <= cpu {
                        busy.resize(cpu + 1, Vec::new());
                    }
                    busy[cpu].push((piece.from, *to, TaskId(index as u32)));
                }
            }
        }
        let all = trace.header.places.iter().fold(CpuSet::EMPTY, |all, place| all.union(place));
        for home in homes.iter_mut().filter(|home| home.is_empty()) {
            *home = all.difference(&trace.header.kernel_cpus);
        }
        let mut waits = vec![Vec::new(); n];
        line.waits.iter().for_each(|w| waits[w.task.index()].push((w.from, w.to, w.resource)));
        let mut holds: Vec<Vec<(Time, Time, TaskId)>> = Vec::new();
        for hold in &line.holds {
            let index = usize::from(hold.resource.0);
            if holds.len() <= index {
                holds.resize(index + 1, Vec::new());
            }
            holds[index].push((hold.from, hold.to, hold.task));
        }
        let over = |jobs: &Vec<Job>| {
            let mut latest = Time::ZERO;
            let mut next = |job: &Job| {
                latest = latest.max(job.over().unwrap_or(end));
                latest
            };
            jobs.iter().map(&mut next).collect()
        };
        let pieces: Vec<Spans<Piece>> = pieces.into_iter().map(Spans::of).collect();
        Causes {
            trace,
            over: line.jobs.iter().map(over).collect(),
            known,
            consumed,
            behind: behind.into_iter().map(Spans::of).collect(),
            waits: waits.into_iter().map(Spans::of).collect(),
            holds: holds.into_iter().map(Spans::of).collect(),
            preempts: preempts(&line),
            pieces,
            homes,
            busy: busy.into_iter().map(Spans::of).collect(),
            line,
        }
    }

    /// The intervals and jobs of the trace.
    #[must_use]
    pub fn timeline(&self) -> &Timeline {
        &self.line
    }

    /// Divides the response of a job; `None` if the trace does not have it. O(k log k) with k changes on the CPUs of its task in the meantime.
    #[must_use]
    pub fn why(&self, task: TaskId, number: JobId) -> Option<Why> {
        let index = self.line.jobs.get(task.index())?.binary_search_by_key(&number, |j| j.number).ok()?;
        let job = self.line.jobs[task.index()][index];
        let end = job.finish.map_or(self.line.end, |(at, _)| at).max(job.release);
        let mut sums = Sums::default();
        self.divide(&job, index, end, &mut sums);
        let ran = sums.of(Cause::Own) + sums.of(Cause::Behind);
        // With frequencies, consumed work is not time.
        if let Some(consumed) = self.consumed[task.index()][index].filter(|_| !self.has_speeds())
            && ran > consumed
        {
            let stolen = (ran - consumed).min(sums.of(Cause::Own));
            sums.add(Cause::Own, Span::ZERO - stolen);
            sums.add(Cause::Stolen, stolen);
        }
        let mut parts: Vec<Part> = sums.0.into_iter().filter(|part| part.time > Span::ZERO).collect();
        parts.sort_by_key(|part| (std::cmp::Reverse(part.time), part.cause));
        Some(Why { job, end, missed: job.continues.is_some() || job.missed(self.line.end), parts })
    }

    fn has_speeds(&self) -> bool {
        !self.trace.header.frequency_domains.is_empty()
    }

    /// The changes of the state between the release of a job and its end, sorted: when, whether something begins, and what.
    fn changes(&self, job: &Job, index: usize, end: Time, candidates: &[usize]) -> Vec<(Time, bool, State)> {
        let (task, release) = (job.task.index(), job.release);
        let mut changes = Vec::new();
        let mut span = |from: Time, to: Time, state: State| {
            let (from, to) = (from.max(release), to.min(end));
            if from < to {
                changes.extend([(from, true, state), (to, false, state)]);
            }
        };
        span(release, self.known[task].get(index).copied().unwrap_or(release), State::Unknown);
        if let Some(before) = index.checked_sub(1) {
            span(release, self.over[task][before], State::Earlier);
        }
        for (decided, to, piece) in self.pieces[task].within(release, end) {
            let own = piece.job == job.number;
            span(piece.from, to, if own { State::Own } else { State::EarlierRuns });
            if own {
                span(decided, piece.from, State::Decided);
            }
        }
        self.behind[task].within(release, end).for_each(|(from, to, ())| span(from, to, State::Behind));
        for (from, to, resource) in self.waits[task].within(release, end) {
            span(from, to, State::Wait(resource));
            let Some((resource, holds)) = resource.and_then(|r| Some((r, self.holds.get(usize::from(r.0))?))) else {
                continue;
            };
            let others = holds.within(from, to).filter(|(.., by)| *by != job.task);
            others.for_each(|(from, to, by)| span(from, to, State::Held(resource, by)));
        }
        for (resource, holds) in (0..).map(ResourceId).zip(&self.holds) {
            let raised = holds.overlapping(release).filter(|hold| self.is_raised(job, *hold));
            raised.for_each(|(from, to, by)| span(from, to, State::Raised(resource, by)));
        }
        for (index, busy) in candidates.iter().enumerate().filter_map(|(i, cpu)| Some((i, self.busy.get(*cpu)?))) {
            let others = busy.within(release, end).filter(|(.., by)| *by != job.task);
            others.for_each(|(from, to, by)| span(from, to, State::Busy(index, by)));
        }
        changes.sort_by_key(|(at, begins, _)| (*at, *begins));
        changes
    }

    /// Whether a less urgent job than this one locked a resource before its release, and the job did not start before the unlock. Under EDF deadlines
    /// decide, otherwise whether only the job's task has ever run in place of the other one.
    fn is_raised(&self, job: &Job, (from, to, by): (Time, Time, TaskId)) -> bool {
        if by == job.task
            || from >= job.release
            || self.pieces[job.task.index()].within(job.release, to).any(|(_, _, piece)| piece.job == job.number)
        {
            return false;
        }
        let jobs = &self.line.jobs[by.index()];
        let holder =
            self.pieces[by.index()].within(from, from + Span::from_ns(1)).next().map(|(_, _, piece)| piece.job);
        let holder =
            holder.and_then(|number| jobs.binary_search_by_key(&number, |j| j.number).ok()).map(|index| jobs[index]);
        match (job.deadline, holder.and_then(|holder| holder.deadline)) {
            (Some(own), Some(other)) if has_deadline_order(&self.trace.header) => own < other,
            _ => self.preempts.contains(&(job.task, by)) && !self.preempts.contains(&(by, job.task)),
        }
    }

    fn divide(&self, job: &Job, index: usize, end: Time, sums: &mut Sums) {
        let home = self.homes[job.task.index()].difference(&self.trace.header.kernel_cpus);
        let candidates: Vec<usize> = home.iter().collect();
        let mut now = Now { busy: vec![Vec::new(); candidates.len()], ..Now::default() };
        let mut at = job.release;
        for (then, begins, state) in self.changes(job, index, end, &candidates) {
            if at < then {
                self.account(&now, job, &candidates, (at, then), sums);
                at = then;
            }
            now.apply(state, begins);
        }
        if at < end {
            self.account(&now, job, &candidates, (at, end), sums);
        }
    }

    /// Adds the time between two changes to its causes.
    fn account(&self, now: &Now, job: &Job, candidates: &[usize], (from, to): (Time, Time), sums: &mut Sums) {
        let time = to - from;
        let cause = if now.own > 0 {
            if now.behind > 0 { Cause::Behind } else { Cause::Own }
        } else if now.unknown > 0 || now.decided > 0 {
            Cause::Scheduler
        } else if now.earlier > 0 && (now.earlier_runs > 0 || !now.waits.is_empty()) {
            Cause::Earlier
        } else if let Some(wait) = now.waits.last().filter(|_| now.earlier == 0) {
            wait.map_or(Cause::Sleep, |resource| Cause::Blocking { by: now.holder(resource), resource })
        } else if !now.busy.is_empty() && now.busy.iter().all(|tasks| !tasks.is_empty()) {
            sums.divide(time, now);
            return;
        } else {
            // The CPU on which the job continues.
            let mut later = self.pieces[job.task.index()].after(to).take_while(|piece| piece.job <= job.number);
            let next = later.find(|piece| piece.job == job.number);
            let on = |piece: Piece| {
                let cpus = &self.trace.header.places[piece.place.index()];
                candidates.iter().position(|cpu| cpus.contains(*cpu))
            };
            let cpu = next.and_then(on);
            match cpu.and_then(|cpu| now.busy[cpu].first()) {
                Some(task) => now.cause_of(*task),
                None if now.earlier > 0 => Cause::Earlier,
                None => Cause::Idle,
            }
        };
        sums.add(cause, time);
    }
}

/// Whether the policy orders jobs by their deadlines.
pub(crate) fn has_deadline_order(header: &Header) -> bool {
    header.policy.contains("edf")
}

/// Pairs of tasks of which a job of the first one started on the CPUs from which a job of the second one had been preempted, before that resumed.
fn preempts(line: &Timeline) -> HashSet<(TaskId, TaskId)> {
    let mut pieces: Vec<&Interval> = line.intervals.iter().collect();
    pieces.sort_by_key(|piece| (piece.from, piece.task));
    let (mut found, mut preempted) = (HashSet::new(), Vec::new());
    for piece in pieces {
        preempted.retain(|(task, _)| *task != piece.task);
        found.extend(preempted.iter().filter(|(_, place)| *place == piece.place).map(|(task, _)| (piece.task, *task)));
        if piece.reason == Some(StopReason::Preempted) {
            preempted.push((piece.task, piece.place));
        }
    }
    found
}

/// The state at an instant of a response.
#[derive(Default)]
struct Now {
    own: u32,
    behind: u32,
    unknown: u32,
    decided: u32,
    earlier: u32,
    earlier_runs: u32,
    waits: Vec<Option<ResourceId>>,
    held: Vec<(ResourceId, TaskId)>,
    /// The locks that raise the priority of other tasks.
    raised: Vec<(ResourceId, TaskId)>,
    /// By candidate CPU, the other tasks on it.
    busy: Vec<Vec<TaskId>>,
}

impl Now {
    fn apply(&mut self, state: State, begins: bool) {
        fn change<T: PartialEq>(list: &mut Vec<T>, value: T, begins: bool) {
            if begins {
                list.push(value);
            } else if let Some(index) = list.iter().position(|v| *v == value) {
                list.remove(index);
            }
        }
        let count = match state {
            State::Own => &mut self.own,
            State::Behind => &mut self.behind,
            State::Unknown => &mut self.unknown,
            State::Decided => &mut self.decided,
            State::Earlier => &mut self.earlier,
            State::EarlierRuns => &mut self.earlier_runs,
            State::Wait(resource) => return change(&mut self.waits, resource, begins),
            State::Held(resource, by) => return change(&mut self.held, (resource, by), begins),
            State::Raised(resource, by) => return change(&mut self.raised, (resource, by), begins),
            State::Busy(cpu, task) => return change(&mut self.busy[cpu], task, begins),
        };
        *count = if begins { *count + 1 } else { *count - 1 };
    }

    /// The cause if a task has the CPU.
    fn cause_of(&self, task: TaskId) -> Cause {
        let raised = self.raised.iter().find(|(_, by)| *by == task);
        raised.map_or(Cause::Task(task), |(resource, by)| Cause::Blocking { by: Some(*by), resource: *resource })
    }

    fn holder(&self, resource: ResourceId) -> Option<TaskId> {
        self.held.iter().find(|(held, _)| *held == resource).map(|(_, by)| *by)
    }
}

#[derive(Default)]
struct Sums(Vec<Part>);

impl Sums {
    fn add(&mut self, cause: Cause, time: Span) {
        match self.0.iter_mut().find(|part| part.cause == cause) {
            Some(part) => part.time += time,
            None => self.0.push(Part { cause, time }),
        }
    }

    fn of(&self, cause: Cause) -> Span {
        self.0.iter().find(|part| part.cause == cause).map_or(Span::ZERO, |part| part.time)
    }

    /// Divides a time equally among busy CPUs; the first ones take the nanoseconds of the remainder.
    fn divide(&mut self, time: Span, now: &Now) {
        let count = now.busy.len() as i64;
        for (index, tasks) in (0..).zip(&now.busy) {
            let share = time.ns() / count + i64::from(index < time.ns() % count);
            self.add(now.cause_of(tasks[0]), Span::from_ns(share));
        }
    }
}
