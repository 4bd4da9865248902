//! Finds the jobs that a task's reactions are about: jobs that miss their deadline (`on_miss`), and jobs that exhaust their budget, are
//! cut off, or exceed their runtime (`on_overrun`).
//!
//! The engine need not know of reactions. It counts a late job as missed when the job ends, or is aborted or skipped. Here the job is
//! found when its deadline passes, so the scheduler also wakes up for the deadlines of these tasks. Each job is found once for each cause,
//! and as many jobs are found as the engine counts, except for the jobs that it counts at the end of the run.
//!
//! Nothing in here allocates after [`Causes::new`].

use crate::plan::{Cause, Plan, Process, Reaction};
use rustix::process::Signal;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, TaskId};
use takt_core::record::{JobId, Outcome, Record, RecordKind};
use takt_core::time::{Span, Time};

/// A job that a reaction follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) task: TaskId,
    pub(crate) job: JobId,
    pub(crate) cause: Cause,
}

impl Found {
    /// The task and the cause as one number above zero.
    pub(crate) fn about(self) -> u64 {
        (u64::from(self.task.0) + 1) << 1 | self.cause as u64
    }

    /// From the number and the job.
    pub(crate) fn of((about, job): (u64, JobId)) -> Found {
        let task = TaskId((about >> 1).saturating_sub(1) as u32);
        Found { task, job, cause: if about & 1 == Cause::Miss as u64 { Cause::Miss } else { Cause::Overrun } }
    }
}

/// The causes of reactions, in the order of their numbers.
pub(crate) const CAUSES: [Cause; 2] = [Cause::Miss, Cause::Overrun];

/// The part of the scheduler in a reaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Response {
    /// It reports the job.
    Report,
    /// It wakes the supervisor, too.
    Call,
    /// As before, and the run ends by it, even if the report finds no room in the ring.
    Stop,
    Signal(Signal),
}

impl Response {
    pub(crate) fn new(process: &Process, cause: Cause) -> Response {
        match process.reaction(cause) {
            None => Response::Report,
            Some(Reaction::Signal(signal)) => Response::Signal(*signal),
            Some(Reaction::Command(_)) => Response::Call,
            Some(Reaction::Stop) => Response::Stop,
        }
    }
}

/// A task with a reaction.
struct Watched {
    task: TaskId,
    on_miss: bool,
    on_overrun: bool,
    /// How many of the jobs that the engine counts as missed have been dealt with.
    missed: u64,
    /// The current job, if it was found late and has not ended.
    late: Option<JobId>,
    /// The job that ended last. With a handler it is still the current one.
    over: Option<JobId>,
    /// The job that was found last for an overrun.
    overrun: Option<JobId>,
    /// The current job and its budget of CPU time, as of the last step.
    budget: Option<(JobId, Span)>,
}

pub(crate) struct Causes {
    tasks: Vec<Watched>,
    /// By task: its index in `tasks`.
    indices: Vec<Option<usize>>,
    found: Vec<Found>,
    /// When the next deadline of a current job will have passed; [`Time::MAX`] if none will.
    due: Time,
}

impl Causes {
    /// `records` is the most that one step records.
    pub(crate) fn new(plan: &Plan, records: usize) -> Causes {
        // A task that is added may have a reaction, too.
        let reserved = plan.processes.iter().filter(|process| process.is_reserved).count();
        let mut tasks = Vec::new();
        let mut indices = vec![None; plan.processes.len()];
        for (index, process) in plan.processes.iter().enumerate() {
            let (on_miss, on_overrun) = (process.on_miss.is_some(), process.on_overrun.is_some());
            if on_miss || on_overrun {
                indices[index] = Some(tasks.len());
                tasks.push(Watched::new(TaskId(index as u32), on_miss, on_overrun));
            }
        }
        tasks.reserve(reserved);
        // Before a step each task's current job, in it each record, and each of them for both causes.
        let most = if tasks.capacity() == 0 { 0 } else { 2 * (records + 2 * (tasks.len() + reserved)) };
        Causes { tasks, indices, found: Vec::with_capacity(most), due: Time::MAX }
    }

    /// A task of a free number is added. There is room for it.
    pub(crate) fn watch(&mut self, task: TaskId, on_miss: bool, on_overrun: bool) {
        if on_miss || on_overrun {
            self.indices[task.index()] = Some(self.tasks.len());
            self.tasks.push(Watched::new(task, on_miss, on_overrun));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// The jobs that were found since [`Causes::clear`].
    pub(crate) fn found(&self) -> &[Found] {
        &self.found
    }

    pub(crate) fn clear(&mut self) {
        self.found.clear();
    }

    /// Finds the current jobs whose deadline has passed at `now`.
    pub(crate) fn look(&mut self, engine: &Engine, now: Time) {
        if now < self.due {
            return;
        }
        for watched in &mut self.tasks {
            if let Some((job, _)) = watched.unfinished(engine).filter(|(_, deadline)| *deadline < now) {
                watched.late = Some(job);
                self.found.push(Found { task: watched.task, job, cause: Cause::Miss });
            }
        }
        self.plan(engine);
    }

    /// Before a step at `at`. `used` is the CPU time of a task's current job, and the number of that, where it is known.
    pub(crate) fn before(&mut self, engine: &Engine, at: Time, used: impl Fn(TaskId) -> Option<(JobId, Span)>) {
        if self.is_empty() {
            return;
        }
        self.look(engine, at);
        for &task in engine.running() {
            let Some(index) = self.indices[task.index()] else { continue };
            let (watched, described) = (&mut self.tasks[index], &engine.system().tasks[task.index()]);
            let Some(job) = engine.job(task).filter(|job| watched.on_overrun && watched.over != Some(job.number))
            else {
                continue;
            };
            if described.arrival == Arrival::Activated {
                continue;
            }
            watched.budget = engine.own_budget_left(task).map(|left| (job.number, left + job.consumed.nominal_time()));
            if let Some((number, used)) = used(task).filter(|(number, _)| *number == job.number)
                && engine.declared(task).is_some_and(|declared| used > declared.nominal_time())
            {
                watched.exceeds(number, &mut self.found);
            }
        }
    }

    /// After a step that recorded `records`.
    pub(crate) fn after(&mut self, engine: &Engine, records: &[Record]) {
        if self.is_empty() {
            return;
        }
        for record in records {
            let RecordKind::Finish { task, job, outcome, consumed } = record.kind else { continue };
            let Some(index) = self.indices[task.index()] else { continue };
            let watched = &mut self.tasks[index];
            let counts = engine.counts(task);
            let counted = counts.missed > watched.missed;
            if watched.late == Some(job) {
                watched.late = None;
                watched.missed += u64::from(counted);
            } else if counted {
                // In a window table the first signal of a process shows that what was cut off before it was a job.
                watched.missed += 1;
                if watched.on_miss {
                    self.found.push(Found { task, job, cause: Cause::Miss });
                }
            }
            let exhausted = |(number, budget)| number == job && consumed.nominal_time() >= budget;
            let overrun = match outcome {
                Outcome::Aborted => watched.budget.is_some_and(exhausted),
                // The activation of a process without jobs ends regularly by its budget.
                Outcome::BudgetUsed => !counts.jobless,
                Outcome::Overrun => true,
                Outcome::Completed | Outcome::Exited | Outcome::Skipped => false,
            };
            if overrun && watched.on_overrun {
                watched.exceeds(job, &mut self.found);
            }
            // A job is skipped while an earlier one is the current one.
            if outcome != Outcome::Skipped {
                watched.over = Some(job);
            }
        }
        self.plan(engine);
    }

    fn plan(&mut self, engine: &Engine) {
        let passes = |watched: &Watched| {
            let (_, deadline) = watched.unfinished(engine).filter(|(_, deadline)| *deadline < Time::MAX)?;
            Some(deadline + Span::from_ns(1))
        };
        self.due = self.tasks.iter().filter_map(passes).min().unwrap_or(Time::MAX);
    }
}

impl Watched {
    fn new(task: TaskId, on_miss: bool, on_overrun: bool) -> Watched {
        Watched { task, on_miss, on_overrun, missed: 0, late: None, over: None, overrun: None, budget: None }
    }

    /// The current job and its deadline, if a miss of it is yet to be found.
    fn unfinished(&self, engine: &Engine) -> Option<(JobId, Time)> {
        if !self.on_miss || engine.system().tasks[self.task.index()].arrival == Arrival::Activated {
            return None;
        }
        let job = engine.job(self.task).filter(|job| self.late != Some(job.number) && self.over != Some(job.number))?;
        Some((job.number, job.deadline))
    }

    fn exceeds(&mut self, job: JobId, found: &mut Vec<Found>) {
        if self.overrun != Some(job) {
            self.overrun = Some(job);
            found.push(Found { task: self.task, job, cause: Cause::Overrun });
        }
    }
}
