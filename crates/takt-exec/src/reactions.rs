//! Carries out reactions to missed deadlines and overruns, on the supervisor's side: starts commands, at most so many in a second, ends
//! the run, and counts. Signals are sent by the scheduler, which alone knows the present process of a task.

use crate::causes::Found;
use crate::plan::{Cause, Plan, Process, Reaction, TaskEnd};
use crate::report::Reacted;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use takt_core::model::TaskId;
use takt_core::time::Span;
use takt_linux::{Commands, RunId, protocol};

/// The most commands of reactions that live at one time: one that never ends must not fill the machine.
pub const COMMANDS_MAX: usize = 64;

const SECOND: Span = Span::from_secs(1);

/// Lets at most so many starts pass in any second.
struct Limit {
    most: usize,
    starts: VecDeque<Span>,
}

impl Limit {
    fn new(most: u32) -> Limit {
        Limit { most: most as usize, starts: VecDeque::new() }
    }

    fn passes(&mut self, now: Span) -> bool {
        while self.starts.front().is_some_and(|start| now - *start >= SECOND) {
            self.starts.pop_front();
        }
        let passes = self.starts.len() < self.most;
        if passes {
            self.starts.push_back(now);
        }
        passes
    }
}

pub(crate) struct Reactions {
    plan: Arc<Plan>,
    commands: Commands,
    limit: Limit,
    counts: Vec<Reacted>,
    /// The job that ends the run.
    pub(crate) stopped_by: Option<(TaskId, u64, Cause)>,
    /// Commands that ended with another status than 0, or by a signal that Takt did not send.
    pub(crate) failed_commands: u64,
    pub(crate) first_error: Option<io::Error>,
    /// The run is over: no command starts, and live commands are killed.
    closing: bool,
}

impl Reactions {
    pub(crate) fn new(plan: Arc<Plan>, run: &RunId) -> Reactions {
        let mut counts = Vec::new();
        for (process, task) in plan.processes.iter().zip((0..).map(TaskId)) {
            counts.extend(counts_of(task, process));
        }
        let limit = Limit::new(plan.exec_limit);
        let commands = Commands::new(run);
        Reactions {
            plan,
            commands,
            limit,
            counts,
            stopped_by: None,
            failed_commands: 0,
            first_error: None,
            closing: false,
        }
    }

    /// A task with this process is added.
    pub(crate) fn take_in(&mut self, task: TaskId, plan: Arc<Plan>) {
        self.counts.retain(|counts| counts.task != task);
        self.counts.extend(counts_of(task, &plan.processes[task.index()]));
        self.plan = plan;
    }

    /// Reacts to a job. `sent` says that its process has received the signal. Returns whether the run is to end by it.
    pub(crate) fn react(&mut self, found: Found, sent: bool, now: Span) -> bool {
        let Found { task, job, cause } = found;
        let plan = self.plan.clone();
        let process = &plan.processes[task.index()];
        let Some(reaction) = process.reaction(cause) else { return false };
        let result = match reaction {
            Reaction::Signal(_) if sent => Done::Yes,
            Reaction::Signal(_) => Done::Failed,
            Reaction::Command(_) if self.closing || self.commands.live() >= COMMANDS_MAX => Done::Suppressed,
            Reaction::Command(_) if !self.limit.passes(now) => Done::Suppressed,
            Reaction::Command(command) => match self.start(command, &process.name, job, cause) {
                Ok(()) => Done::Yes,
                Err(e) => {
                    self.first_error.get_or_insert(e);
                    Done::Failed
                }
            },
            Reaction::Stop if self.stopped_by.is_none() && !self.closing => {
                self.stopped_by = Some((task, job, cause));
                Done::Yes
            }
            // The run is about to end.
            Reaction::Stop => Done::Suppressed,
        };
        if let Some(counts) = self.counts.iter_mut().find(|counts| (counts.task, counts.cause) == (task, cause)) {
            counts.jobs += 1;
            match result {
                Done::Yes => counts.done += 1,
                Done::Suppressed => counts.suppressed += 1,
                Done::Failed => counts.failed += 1,
            }
        }
        matches!((reaction, result), (Reaction::Stop, Done::Yes))
    }

    fn start(&mut self, command: &str, task: &str, job: u64, cause: Cause) -> io::Result<()> {
        let none = String::new;
        let environment = [
            ("TAKT_TASK", task.to_owned()),
            ("TAKT_JOB", job.to_string()),
            ("TAKT_CAUSE", cause.to_string()),
            // Takt may itself be a process of a schedule.
            (protocol::VARIABLE, none()),
            (takt_abi::VARIABLE, none()),
            (takt_abi::RESOURCES, none()),
            ("TAKT_EVENT", none()),
        ];
        let Plan { directory, output_to_stderr, .. } = &*self.plan;
        self.commands.start(command, directory.as_deref(), &environment, *output_to_stderr)
    }

    /// A child that is no process of a task has ended.
    pub(crate) fn ended(&mut self, pid: i32, end: TaskEnd) {
        if self.commands.ended(pid) && !self.closing {
            self.failed_commands += u64::from(end != TaskEnd::Exited(0));
        }
    }

    /// From here on no command starts.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    /// Kills the commands. Returns whether some are still on their way out.
    pub(crate) fn kill(&mut self) -> bool {
        self.commands.kill()
    }

    pub(crate) fn counts(&mut self) -> Vec<Reacted> {
        std::mem::take(&mut self.counts)
    }
}

/// Counts of a task's reactions.
fn counts_of(task: TaskId, process: &Process) -> impl Iterator<Item = Reacted> {
    let causes = [Cause::Miss, Cause::Overrun].into_iter().filter(|cause| process.reaction(*cause).is_some());
    causes.map(move |cause| Reacted { task, cause, jobs: 0, done: 0, suppressed: 0, failed: 0 })
}

#[derive(Clone, Copy)]
enum Done {
    Yes,
    /// The limit of commands, or the end of the run.
    Suppressed,
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_in_any_second() {
        let mut limit = Limit::new(10);
        let passed: Vec<Span> = (0..3000).map(Span::from_ms).filter(|now| limit.passes(*now)).collect();
        assert_eq!(passed.len(), 30);
        assert!(passed.windows(11).all(|starts| starts[10] - starts[0] >= SECOND), "{passed:?}");
        assert!(!Limit::new(0).passes(Span::ZERO));
    }
}
