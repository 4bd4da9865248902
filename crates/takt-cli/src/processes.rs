//! Settings of processes on this machine (`user`, `cwd`, `limits` …), before anything starts.

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use takt_core::model::TaskId;
use takt_exec::{Output, ProcessSettings};
use takt_linux::{Identity, Limit, UnknownIdentity};
use takt_workload::{Code, Diagnostic, Workload};

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
