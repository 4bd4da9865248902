//! A table of jobs as comma-separated values: a row per job, in the order in which jobs end. Jobs that have not ended with the trace follow, by
//! release.
//!
//! Times are nanoseconds on the clock of the trace. A cell is empty where a job has no such value; `met` is 1 or 0 for a job with a deadline that is
//! decided, and not for an activation of a process that signals no jobs. `cpus` is where the job ran last. Consumed time is execution time at nominal
//! speed. A response time is the sum of the times running (with a CPU), waiting and blocked. A handler belongs to its job, whose row is written when
//! the job itself is over.

use crate::csv::quoted;
use crate::out::Out;
use crate::{Footer, Header, Stamped, TaskLabel, Writer, names, table};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use takt_core::cpus::CpuSet;
use takt_core::model::{Completion, TaskId};
use takt_core::record::{JobId, Outcome, Place, RecordKind, StopReason};
use takt_core::stats::{Parts, Spent};
use takt_core::time::{Span, Time};
use takt_core::work::Work;

const COLUMNS: [&str; 15] = [
    "task",
    "job",
    "release_ns",
    "deadline_ns",
    "start_ns",
    "finish_ns",
    "response_ns",
    "consumed_ns",
    "outcome",
    "met",
    "cpus",
    "preemptions",
    "running_ns",
    "waiting_ns",
    "blocked_ns",
];

/// The CPUs of a task that the kernel schedules.
const KERNEL: &str = "kernel";

/// The outcome of a job that has not ended.
const UNFINISHED: &str = "unfinished";

/// The word for the end of a job in tables: `completed`, `aborted` …, or `unfinished`.
#[must_use]
pub fn outcome_name(job: &crate::timeline::Job) -> &'static str {
    job.finish.map_or(UNFINISHED, |(_, outcome)| names::outcome(outcome))
}

#[derive(Clone, Copy)]
struct Job {
    release: Time,
    deadline: Option<Time>,
    start: Option<Time>,
    place: Option<Place>,
    preemptions: u64,
}

/// Writes the table while records come in. It keeps the jobs that have not ended.
pub struct JobTable {
    out: Out,
    tasks: Vec<String>,
    places: Vec<String>,
    open: BTreeMap<(TaskId, JobId), Job>,
    /// By task that is a process of a window table.
    works: BTreeMap<TaskId, table::Work>,
    /// Processes of a window table that are not known to have jobs: no signal has ended one yet.
    jobless: BTreeSet<TaskId>,
    /// Tasks of the kernel's classes: it alone knows when they run.
    of_kernel: BTreeSet<TaskId>,
    spent: Spent,
}

impl JobTable {
    /// Writes the names of the columns.
    ///
    /// # Errors
    /// The error of the output.
    pub fn new(header: &Header, out: Box<dyn io::Write + Send>) -> io::Result<JobTable> {
        let mut out = Out::new(out);
        out.text(&COLUMNS.join(","));
        out.text("\n");
        let tasks = header.labels().iter().map(|l| quoted(l)).collect();
        let text = |p: &CpuSet| if header.is_of_kernel(p) { KERNEL.to_owned() } else { quoted(&p.to_string()) };
        let places = header.places.iter().map(text).collect();
        let labels = || (0..).map(TaskId).zip(&header.tasks);
        let of_table = labels().filter_map(|(task, label)| Some((task, label.completion?)));
        let signals = |completion| matches!(completion, Completion::Signal | Completion::Exit);
        let jobless = of_table.clone().filter(|(_, completion)| !signals(*completion)).map(|(task, _)| task).collect();
        let works = of_table.map(|(task, _)| (task, table::Work::default())).collect();
        let of_kernel = labels().filter(|(_, label)| label.class.is_some()).map(|(task, _)| task).collect();
        let spent = Spent::new(header.tasks.len());
        Ok(JobTable { out, tasks, places, open: BTreeMap::new(), works, jobless, of_kernel, spent })
    }

    /// The row of a job. `end` is its instant, the outcome, what the job consumed and the parts of its time; `None` if it has not ended by `now`.
    fn row(&mut self, (task, number): (TaskId, JobId), job: Job, end: Option<(Time, Outcome, Work, Parts)>, now: Time) {
        let continues = self.works.get(&task).is_some_and(|work| work.continues().is_some());
        let decided = |deadline: Time| match end {
            Some((at, Outcome::Completed | Outcome::Exited, ..)) => Some(at <= deadline && !continues),
            Some(_) => Some(false),
            None => (deadline <= now).then_some(false),
        };
        let out = &mut self.out;
        out.text(&self.tasks[task.index()]);
        out.text(",");
        out.int(number);
        let at = |at: Option<Time>| at.map(Time::ns);
        let finish = end.map(|(at, ..)| at);
        let numbers = [
            Some(job.release.ns()),
            at(job.deadline),
            at(job.start),
            at(finish),
            finish.map(|finish| (finish - job.release).ns()),
            end.map(|(_, _, consumed, _)| consumed.ns()),
        ];
        for number in numbers {
            out.text(",");
            if let Some(number) = number {
                out.int(number);
            }
        }
        out.text(",");
        out.text(end.map_or(UNFINISHED, |(_, outcome, ..)| names::outcome(outcome)));
        out.text(",");
        if let Some(met) = job.deadline.and_then(decided).filter(|_| !self.jobless.contains(&task)) {
            out.int(u8::from(met));
        }
        out.text(",");
        out.text(job.place.map_or("", |place| &self.places[place.index()]));
        out.text(",");
        out.int(job.preemptions);
        let parts = end.map(|(at, .., Parts { running, blocked })| {
            [running, (at - job.release - running - blocked).or_zero(), blocked].map(Span::ns)
        });
        let parts = parts.filter(|_| !self.of_kernel.contains(&task));
        for part in parts.map_or([None; 3], |parts| parts.map(Some)) {
            out.text(",");
            if let Some(part) = part {
                out.int(part);
            }
        }
        out.text("\n");
    }
}

impl Writer for JobTable {
    fn task(&mut self, _: Time, task: &TaskLabel) -> io::Result<()> {
        self.tasks.push(quoted(&task.name));
        Ok(())
    }

    fn record(&mut self, r: &Stamped) -> io::Result<()> {
        let at = r.record.at;
        let ended = self.spent.record(&r.record);
        match r.record.kind {
            RecordKind::Release { task, job, deadline } => {
                let new = Job { release: at, deadline, start: None, place: None, preemptions: 0 };
                self.open.insert((task, job), new);
            }
            RecordKind::Start { task, job, place } => {
                if let Some(job) = self.open.get_mut(&(task, job)) {
                    job.start.get_or_insert(at);
                    job.place = Some(place);
                }
            }
            RecordKind::Stop { task, job, reason: StopReason::Preempted, .. } => {
                if let Some(job) = self.open.get_mut(&(task, job)) {
                    job.preemptions += 1;
                }
            }
            RecordKind::Finish { task, job: number, outcome, consumed } => {
                if outcome == Outcome::Completed {
                    self.jobless.remove(&task);
                }
                // A trace that was cut off at its beginning does not have the release.
                if let Some(job) = self.open.remove(&(task, number)) {
                    let parts = ended.map_or_else(Parts::default, |(.., parts)| parts);
                    self.row((task, number), job, Some((at, outcome, consumed, parts)), at);
                }
            }
            RecordKind::LateSignal { task, .. } => _ = self.jobless.remove(&task),
            _ => {}
        }
        let task = crate::jsonl::split(&r.record.kind).1.map(|task| TaskId(task as u32));
        if let Some(work) = task.and_then(|task| self.works.get_mut(&task)) {
            work.record(&r.record.kind);
        }
        self.out.spill()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.finish()
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> io::Result<()> {
        let mut rest: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        rest.sort_by_key(|(number, job)| (job.release, *number));
        for (number, job) in rest {
            self.row(number, job, None, footer.end);
        }
        self.out.finish()
    }
}
