//! Settings of processes on this machine (`user`, `cwd`, `limits` …), before anything starts.

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use takt_core::model::{Completion, OnAbort, OnExit, TaskId};
use takt_exec::{EventSource, KernelTask, Output, Process, ProcessSettings, Reaction};
use takt_linux::rt::Class;
use takt_linux::{Identity, JobEnd, Limit, Signal, UnknownIdentity};
use takt_workload::{Client, Code, Diagnostic, Observed, Spawn, Workload};

/// Whether this program began with this signal ignored, as by `nohup`. Signals that it handles by now are not ignored any longer.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (ignored >> (signal - 1)) & 1 == 1
}

/// A setting that this machine or user does not allow.
pub(crate) struct Fault {
    task: TaskId,
    code: Code,
    message: String,
    hint: String,
}

impl Fault {
    /// Whether another user could carry it out.
    pub(crate) fn is_missing_right(&self) -> bool {
        self.code == Code::MissingCapability
    }

    /// At the place of the task.
    pub(crate) fn diagnostic(&self, workload: &Workload) -> Diagnostic {
        Diagnostic::error(self.code, &workload.place(self.task), &self.message).hint(&self.hint)
    }

    fn failure(&self, workload: &Workload) -> Failure {
        Failure::diagnostics(&workload.source, &[self.diagnostic(workload)])
    }
}

/// The settings of the process of a task.
///
/// # Errors
/// Status 2, at the place of the task, when the machine or the user does not allow them.
pub(crate) fn settings(workload: &Workload, task: TaskId) -> Result<ProcessSettings, Failure> {
    resolve(workload, task).map_err(|fault| fault.failure(workload))
}

/// All settings that this machine or user does not allow, the first one of each task.
pub(crate) fn faults(workload: &Workload) -> Vec<Fault> {
    let tasks = (0..workload.tasks.len() as u32).map(TaskId);
    tasks.filter_map(|task| resolve(workload, task).err()).collect()
}

/// Where the standard output of the process of a task goes.
pub(crate) fn output(workload: &Workload, task: TaskId) -> Output {
    match workload.tasks[task.index()].output.as_deref() {
        None | Some(takt_workload::Output::Inherit) => Output::Inherit,
        Some(takt_workload::Output::Null) => Output::Null,
        Some(takt_workload::Output::File { path, truncate }) => {
            Output::File { path: path.clone(), truncate: *truncate }
        }
    }
}

/// The process of a task. By DEmOS's rules the schedule starts without one that has ended in its initialisation.
///
/// # Errors
/// Status 2: it has no command, or this machine or user does not allow its settings.
pub(crate) fn process(workload: &Workload, id: TaskId, by_demos: bool) -> Result<Process, Failure> {
    let task = &workload.tasks[id.index()];
    if !task.is_program() {
        let hint = "give it a `cmd:`, or use `takt sim`";
        let message = format!("task `{}` has no command to run", task.name);
        return Err(Failure::at(Code::MissingKey, workload, Some(id), message, hint));
    }
    Ok(Process {
        name: task.name.clone(),
        cmd: task.cmd.clone().unwrap_or_default(),
        thread_of: task.thread_of,
        init: task.init,
        per_job: task.spawn == Spawn::PerJob,
        signals: matches!(task.completion_rule(), Completion::Undeclared | Completion::Signal)
            && task.observed.is_none()
            && task.client != Client::None,
        observed: task.observed.map(|observed| match observed {
            Observed::Yield => JobEnd::Yield,
            Observed::Sleep => JobEnd::Sleep,
        }),
        on_exit: task.on_exit.or(by_demos.then_some(OnExit::End)),
        on_miss: task.on_miss.as_deref().and_then(reaction),
        on_overrun: task.on_overrun.as_deref().and_then(reaction),
        abort_signal: (workload.system.tasks[id.index()].on_abort == OnAbort::Signal)
            .then(|| signal(task.abort_signal.unwrap_or("USR1"))),
        output: output(workload, id),
        settings: settings(workload, id)?,
        segments: task.event.as_deref() == Some(&takt_workload::EventSource::Segments),
        wakeups: task.event.as_deref() == Some(&takt_workload::EventSource::WakeUp),
        event: task.event.as_deref().and_then(|source| {
            Some(match source {
                takt_workload::EventSource::Descriptor(number) => EventSource::Descriptor(*number),
                takt_workload::EventSource::Pipe(path) => EventSource::Pipe(path.clone()),
                takt_workload::EventSource::Udp(address) => EventSource::Udp(*address),
                takt_workload::EventSource::Signal(name) => EventSource::Signal(signal(name)),
                takt_workload::EventSource::Segments | takt_workload::EventSource::WakeUp => return None,
            })
        }),
        kernel: kernel(workload, id)?,
        is_reserved: false,
    })
}

/// The reaction of a run; `log` is none.
fn reaction(reaction: &takt_workload::Reaction) -> Option<Reaction> {
    match reaction {
        takt_workload::Reaction::Log => None,
        takt_workload::Reaction::Signal(name) => Some(Reaction::Signal(signal(name))),
        takt_workload::Reaction::Exec(command) => Some(Reaction::Command(command.clone())),
        takt_workload::Reaction::Stop => Some(Reaction::Stop),
    }
}

/// The class of the task's process, and its CPUs, if the kernel schedules it.
fn kernel(workload: &Workload, task: TaskId) -> Result<Option<KernelTask>, Failure> {
    let described = &workload.system.tasks[task.index()];
    let class = match workload.tasks[task.index()].class {
        None => return Ok(None),
        Some(takt_workload::Class::Other) => Class::Other,
        Some(takt_workload::Class::Fifo(priority)) => Class::Fifo(priority),
        Some(takt_workload::Class::Deadline) => {
            // The reader of the file has found both.
            let (Some(runtime), Some(period)) = (described.runtime, described.arrival.period()) else {
                return Ok(None);
            };
            Class::Deadline { runtime, deadline: described.deadline.unwrap_or(period), period }
        }
    };
    if class != Class::Other && !takt_linux::rt::rt_allowed() {
        let name = &workload.tasks[task.index()].name;
        let message = format!("the `class` of task `{name}` is a real-time class, which this user may not use here");
        let fix =
            "run as root, or: setcap cap_sys_nice=ep $(command -v takt); see `takt doctor`; or write `class: other`";
        return Err(Failure::machine(Code::MissingCapability, message, fix));
    }
    let affinity = workload.handed.as_ref().and_then(|handed| handed.affinities[task.index()]);
    let cpus = affinity.filter(|_| !matches!(class, Class::Deadline { .. }));
    Ok(Some(KernelTask { class, cpus }))
}

/// The signal of this name, which a file may use in `on_abort: signal=NAME`.
pub(crate) fn signal(name: &str) -> Signal {
    match name {
        "USR2" => Signal::USR2,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "ALRM" => Signal::ALARM,
        "TERM" => Signal::TERM,
        "URG" => Signal::URG,
        "IO" => Signal::IO,
        "WINCH" => Signal::WINCH,
        _ => Signal::USR1,
    }
}

fn resolve(workload: &Workload, task: TaskId) -> Result<ProcessSettings, Fault> {
    let info = &workload.tasks[task.index()];
    let Some(settings) = info.settings.as_deref() else { return Ok(ProcessSettings::default()) };
    let fault = |code, message: String, hint: &str| Fault { task, code, message, hint: hint.to_owned() };
    let name = &info.name;
    let identity = match &settings.user {
        None => None,
        Some(user) => {
            let found = Identity::find(user, settings.group.as_deref());
            let found = found.map_err(|e| {
                let hint = match e {
                    UnknownIdentity::NoGroup(_) => "add `group`",
                    UnknownIdentity::Group(_) => "correct `group`, or create it: groupadd NAME",
                    _ => "correct `user`, or create it: useradd --system NAME",
                };
                fault(Code::UnknownUser, format!("the process of task `{name}` has no such user: {e}"), hint)
            })?;
            if !found.is_permitted() {
                let message =
                    format!("the process of task `{name}` cannot have the user `{user}`: only root may change users");
                return Err(fault(Code::MissingCapability, message, "run as root, or remove `user`"));
            }
            Some(found)
        }
    };
    let cwd = settings.cwd.as_ref().map(|cwd| beside(workload).join(cwd));
    if let Some(cwd) = cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        let message = format!("the process of task `{name}` is to run in {}, which is no directory", cwd.display());
        let hint = "create the directory, or correct `cwd`, which is relative to the directory of the file";
        return Err(fault(Code::MissingDirectory, message, hint));
    }
    if let (Some(identity), Some(cwd)) = (&identity, &cwd)
        && !identity.may_enter(cwd)
    {
        let user = identity.user();
        let message =
            format!("the process of task `{name}` is to run in {}, which its user {user} may not enter", cwd.display());
        return Err(fault(
            Code::MissingDirectory,
            message,
            "let that user enter the directory (chmod, chown), or correct `cwd`",
        ));
    }
    let mut limits = Vec::with_capacity(settings.limits.len());
    for limit in &settings.limits {
        let Some(found) = Limit::named(limit.name, limit.soft, limit.hard) else { continue };
        if let Some(most) = found.exceeds() {
            let message = format!(
                "the process of task `{name}` cannot have `{}: {limit}`: only root may raise the hard limit of {most}",
                limit.name
            );
            return Err(fault(Code::MissingCapability, message, "run as root, or lower the limit"));
        }
        limits.push(found);
    }
    Ok(ProcessSettings { identity, env: settings.env.clone(), cwd, umask: settings.umask, limits })
}

/// The directory of the file, or that of Takt for a workload from a pipe.
fn beside(workload: &Workload) -> PathBuf {
    match workload.source.is_pipe() {
        true => PathBuf::new(),
        false => Path::new(&workload.source.name).parent().unwrap_or(Path::new("")).to_owned(),
    }
}
