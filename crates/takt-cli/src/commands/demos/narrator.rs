//! The lines of a run under `takt demos`.

use super::super::run::power;
use super::log::{Level, Log, Logger};
use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use takt_core::model::TaskId;
use takt_core::record::{Outcome as Ending, Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_exec::{Ended, Report, TaskEnd};
use takt_linux::Names;
use takt_workload::{Code, Workload};

/// Writes the first line of a failure as DEmOS writes its exceptions.
pub(super) fn told(log: &mut Log, failure: Failure) -> Failure {
    let text = anstream::adapter::strip_str(failure.text()).to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.split_once("]: ").map_or(first, |(_, message)| message);
    log.error(&format!("Exception: {message}"));
    failure
}

/// The requests of the command line.
pub(super) struct Asked {
    /// The figures of the run.
    pub(super) report: bool,
    /// Status 0 although every process failed.
    pub(super) strict: bool,
    pub(super) group: Option<String>,
    pub(super) duration: Option<Span>,
}

/// Reports a run in the lines of DEmOS. The supervisor calls it, never the scheduler thread.
pub(crate) struct Narrator {
    log: Log,
    asked: Asked,
    tasks: Vec<Told>,
    /// How many processes initialise.
    initialise: usize,
    /// The activations that were cut off at the end of the present window.
    cut_off: Vec<(TaskId, Span)>,
    at: Time,
    /// The run ends with status 1.
    pub(super) failed: bool,
}

/// A task in these lines.
struct Told {
    partition: String,
    command: String,
    pid: Option<i32>,
    /// The budget that it was granted last.
    budget: Span,
}

impl Narrator {
    pub(super) fn new(log: Log, workload: &Workload, asked: Asked) -> Narrator {
        let told = |task: &takt_workload::TaskInfo| Told {
            partition: task.partition.map(|p| workload.partitions[p].clone()).unwrap_or_default(),
            command: task.cmd.clone().unwrap_or_default(),
            pid: None,
            budget: Span::ZERO,
        };
        Narrator {
            log,
            asked,
            tasks: workload.tasks.iter().map(told).collect(),
            initialise: workload.tasks.iter().filter(|task| task.init).count(),
            cut_off: Vec::new(),
            at: Time::ZERO,
            failed: false,
        }
    }

    /// Whether the figures of the run are wanted.
    pub(crate) fn reports(&self) -> bool {
        self.asked.report
    }

    /// The names of the groups. A partition with a policy has a group for each task, which DEmOS has no names for.
    pub(crate) fn names(&mut self, workload: &Workload) -> Option<Names> {
        if workload.system.partitions.iter().any(|partition| partition.policy.is_some()) {
            if self.asked.group.is_some() {
                self.log.warning("-g has no effect: partitions with a policy have groups of other names");
            }
            return None;
        }
        let root = self.asked.group.clone().unwrap_or_else(|| format!("demos-{}", std::process::id()));
        Some(Names { root, partitions: workload.partitions.clone() })
    }

    pub(crate) fn warning(&mut self, text: &str) {
        self.log.warning(text);
    }

    /// The run begins with its processes.
    pub(crate) fn begins(&mut self) {
        if !takt_linux::rt::rt_allowed() {
            self.log.warning("Running DEmOS without real-time priority, consider running as root");
        }
        self.log.line(Logger::Process, Level::Info, "Spawning scheduled processes");
        match self.initialise {
            0 => self.log.info("No processes need initialization"),
            1 => self.log.info("Initializing 1 process"),
            n => self.log.info(&format!("Initializing {n} processes")),
        }
    }

    /// The schedule begins.
    pub(crate) fn started(&mut self, pids: &[Option<i32>]) {
        for (task, pid) in self.tasks.iter_mut().zip(pids) {
            task.pid = *pid;
        }
        if self.log.writes(Logger::Process, Level::Debug) {
            for task in &self.tasks {
                let Told { partition, command, pid, .. } = task;
                let text =
                    format!("Running '{command}' as PID '{}' (partition '{partition}')", pid.unwrap_or_default());
                self.log.line(Logger::Process, Level::Debug, &text);
            }
        }
        self.log.line(Logger::Process, Level::Info, "Scheduled processes spawned");
        self.log.debug("Process initialization finished");
        match self.asked.duration {
            Some(Span::ZERO) => self.log.info("Zero timeout set, stopping immediately"),
            _ => self.log.info("Starting scheduler"),
        }
        if let Some(end) = self.asked.duration.filter(|end| *end > Span::ZERO) {
            self.log.debug(&format!("Scheduler will timeout in '{} ms'", end.ns() / 1_000_000));
        }
    }

    pub(crate) fn record(&mut self, record: &Record) {
        match record.kind {
            RecordKind::Budget { task, amount: Some(amount), .. } => self.tasks[task.index()].budget = amount,
            RecordKind::Finish { task, outcome: Ending::Overrun, consumed, .. } => {
                self.at = record.at;
                self.cut_off.push((task, consumed.nominal_time()));
            }
            _ if record.at != self.at || matches!(record.kind, RecordKind::Window { .. }) => self.overrun(),
            _ => {}
        }
    }

    /// A window has ended before its safety-critical processes.
    fn overrun(&mut self) {
        if self.cut_off.is_empty() {
            return;
        }
        let mut who = Vec::with_capacity(self.cut_off.len());
        for (task, used) in self.cut_off.drain(..) {
            let Told { partition, command, budget, .. } = &self.tasks[task.index()];
            who.push(match used > Span::ZERO {
                true => format!(
                    "'{command}' (partition '{partition}') was cut off after {used} of {budget}, {} too early",
                    (*budget - used).or_zero()
                ),
                false => format!("'{command}' (partition '{partition}') did not start"),
            });
        }
        self.log.warning(&format!("Window ended before all SC partitions finished: {}", who.join(", ")));
    }

    pub(crate) fn exited(&mut self, task: TaskId, end: TaskEnd) {
        let Told { partition, command, pid, .. } = &self.tasks[task.index()];
        let pid = pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        let (level, text) = match end {
            TaskEnd::Exited(0) => {
                (Level::Debug, format!("Process '{pid}' exited (partition '{partition}', cmd: '{command}')"))
            }
            TaskEnd::Exited(status) => (
                Level::Warning,
                format!("Process '{pid}' exited with status {status} (partition: '{partition}', cmd: '{command}')"),
            ),
            TaskEnd::Signalled(signal) => (
                Level::Warning,
                format!("Process '{pid}' terminated by signal {signal} (partition: '{partition}', cmd: '{command}')"),
            ),
        };
        self.log.line(Logger::Process, level, &text);
    }

    /// The run is over.
    pub(crate) fn ended(&mut self, report: &Report, unread: u64) {
        self.overrun();
        match report.ended {
            Ended::Duration if self.asked.duration != Some(Span::ZERO) => {
                self.log.info("Timed out, stopping all processes")
            }
            Ended::Signal => self.log.info("Received stop signal (SIGTERM, SIGINT or SIGHUP), stopping all processes"),
            Ended::Command => self.log.info("Received `takt ctl stop`, stopping all processes"),
            Ended::Observer => self.log.error("A file could not be written, stopping all processes"),
            Ended::Exit(task) | Ended::Reaction(task, ..) => {
                let text = format!("Stopping all processes because of '{}'", self.tasks[task.index()].command);
                self.log.error(&text);
            }
            Ended::Duration | Ended::AllExited => {}
        }
        self.log.info("All processes exited, stopping scheduler");
        if report.all_failed && !self.asked.strict {
            self.log.error("Every process failed");
        }
        if let Some(e) = &report.cleanup_error {
            self.log
                .error(&format!("Something of this run could not be removed: {e}; `takt doctor --clean` tries again"));
        }
        // Another run on a CPU, and the commands that would prepare control groups.
        let told = ["CPUs were shared", "v1 is not possible", "v2 is not possible"];
        for note in report.notes.iter().filter(|note| told.iter().any(|start| note.starts_with(start))) {
            self.log.warning(note);
        }
        for remark in power::remarks(report) {
            let (_, text) = remark.split_once(": ").unwrap_or_default();
            self.log.warning(text);
        }
        if unread > 0 {
            self.log.warning(&format!("{unread} messages were dropped, because standard output was not read"));
        }
        let dropped = self.log.dropped();
        if dropped > 0 {
            self.log.warning(&format!("{dropped} lines of this log were dropped, because standard error was not read"));
        }
        let stopped = matches!(report.ended, Ended::Exit(_) | Ended::Reaction(..) | Ended::Observer);
        self.failed = stopped || (report.all_failed && !self.asked.strict);
    }

    /// The run did not begin, or was given up.
    pub(super) fn gave_up(mut self, failure: Failure) -> Outcome {
        if self.asked.duration.is_some() && failure.is(Code::InitFailed) {
            // An initialisation that is not complete at its limit ends the run as `-t` does.
            self.log.warning(failure.text());
            self.log.info("Timed out, stopping all processes");
            return Ok(Verdict::Done);
        }
        Err(told(&mut self.log, failure))
    }
}
