//! Tasks of other files that are added to a run (`takt ctl add TASK --from FILE`), and to a replay or simulation of it.

use crate::control::wire::Fault;
use crate::failure::Failure;
use crate::input::Input;
use crate::processes::process;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Task, TaskId};
use takt_exec::NewTask;
use takt_trace::TaskLabel;
use takt_workload::{Code, Source, TaskInfo, Workload};

/// The parts of a run on which a task of another file depends.
#[derive(Clone)]
pub(crate) struct Surroundings {
    machine: CpuSet,
    directory: Option<std::path::PathBuf>,
    resources: Vec<String>,
}

/// The tasks of a file that can be added to a run; and the names of the others, each with the reason.
pub(crate) type Candidates = (Vec<NewTask>, Vec<(String, String)>);

/// Reads a task of a file, by its name and the path of the file.
pub(crate) type Finder = Box<dyn Fn(&str, &str) -> Result<NewTask, Fault> + Send>;

/// The longest file of an added task: its text is in the record of the run.
const TEXT_MAX: usize = 1 << 20;

fn fault(code: Code, message: String, hint: &str) -> Fault {
    Fault { code: code.name().into(), message, hint: hint.into() }
}

fn of_failure(failure: &Failure) -> Fault {
    let text = anstream::adapter::strip_str(failure.text()).to_string();
    Fault { code: "wrong-file".into(), message: text, hint: "nothing has changed; correct the file".into() }
}

impl Surroundings {
    pub(crate) fn of(workload: &Workload) -> Surroundings {
        Surroundings {
            machine: workload.machine(),
            directory: workload.settings.directory.clone(),
            resources: workload.resources.clone(),
        }
    }

    /// The task of a workload, as the run is to have it.
    fn task(&self, other: &Workload, id: TaskId) -> Result<NewTask, Fault> {
        can_be_added(other, id)?;
        let (name, file) = (&other.tasks[id.index()].name, &other.source.name);
        if other.source.text.len() > TEXT_MAX {
            let message = format!("`{file}` has more than {} KiB", TEXT_MAX >> 10);
            return Err(fault(Code::OutOfRange, message, "write the task into a file of its own"));
        }
        let steps = &other.system.tasks[id.index()].program.steps;
        let locks = steps.iter().any(|step| matches!(step, takt_core::model::Step::Lock(_)));
        if locks && other.resources != self.resources {
            let message = format!("task `{name}` locks resources, and those of `{file}` are not those of the run");
            return Err(fault(Code::NotSupportedHere, message, "name the same `resources`, in the same order"));
        }
        let mut process = process(other, id, false).map_err(|failure| of_failure(&failure))?;
        if process.settings.cwd.is_none() && other.settings.directory != self.directory {
            // Its own directory would be that of the run.
            process.settings.cwd.clone_from(&other.settings.directory);
        }
        Ok(new_task(other, id, process, other.source.clone()))
    }

    /// The tasks of another version of the workload of the run.
    ///
    /// # Errors
    /// When the file is wrong.
    pub(crate) fn candidates(&self, source: &Source) -> Result<Candidates, Fault> {
        let other = load(source, self.machine).map_err(|failure| of_failure(&failure))?;
        let (mut new, mut excluded) = (Vec::new(), Vec::new());
        for (info, id) in other.tasks.iter().zip((0..).map(TaskId)) {
            match self.task(&other, id) {
                Ok(task) => new.push(task),
                Err(fault) => excluded.push((info.name.clone(), fault.message)),
            }
        }
        Ok((new, excluded))
    }
}

/// Reads tasks for a run of this workload.
pub(crate) fn finder(workload: &Workload) -> Finder {
    let run = Surroundings::of(workload);
    Box::new(move |name, file| {
        if !std::fs::metadata(file).is_ok_and(|known| known.is_file()) {
            let message = format!("`{file}` is no file that the run can read");
            return Err(fault(Code::UnreadableFile, message, "name a workload"));
        }
        let source = Source::read(std::path::Path::new(file));
        let source = source.map_err(|unreadable| of_failure(&Failure::unreadable(&unreadable)))?;
        let other = load(&source, run.machine).map_err(|failure| of_failure(&failure))?;
        let id = find(&other, name)?;
        run.task(&other, id)
    })
}

fn new_task(other: &Workload, id: TaskId, process: takt_exec::Process, source: Source) -> NewTask {
    let task = other.system.tasks[id.index()].clone();
    let after = match task.arrival {
        Arrival::Event { after: Some(first), .. } => Some(other.tasks[first.index()].name.clone()),
        _ => None,
    };
    let named = other.system.domains.iter().zip(&other.domains);
    let domain = named.into_iter().find(|(domain, _)| domain.tasks.contains(&id)).map(|(_, name)| name.clone());
    NewTask { task, after, domain, process, file: source.name, text: source.text }
}

/// The workload of a file as it is run, whatever the command line of the run says.
fn load(source: &Source, machine: CpuSet) -> Result<Workload, Failure> {
    let mut other = Input::default().load_source(source, Some(machine))?;
    other.clear_simulated();
    Ok(other)
}

fn find(other: &Workload, name: &str) -> Result<TaskId, Fault> {
    let names = || other.tasks.iter().map(|task| task.name.as_str());
    names().position(|known| known == name).map(|index| TaskId(index as u32)).ok_or_else(|| {
        let near = takt_workload::nearest(name, names()).map(|near| format!("did you mean `{near}`? "));
        let few: Vec<&str> = names().take(12).collect();
        let hint = format!("{}its tasks are {}", near.unwrap_or_default(), few.join(", "));
        fault(Code::UnknownName, format!("`{}` has no task `{name}`", other.source.name), &hint)
    })
}

/// Whether a task can be added to a run: it has a process of its own, which Takt schedules.
fn can_be_added(other: &Workload, id: TaskId) -> Result<(), Fault> {
    let (info, task) = (&other.tasks[id.index()], &other.system.tasks[id.index()]);
    let hosts = other.tasks.iter().any(|thread| thread.thread_of == Some(id));
    let reason = if task.arrival == Arrival::Activated {
        "is a process of a window table"
    } else if info.class.is_some() {
        "is scheduled by the kernel (`class`)"
    } else if info.thread_of.is_some() || hosts {
        "is one of several threads of a program"
    } else if info.observed.is_some() {
        "has a `completion` that the kernel reports"
    } else if info.event.is_some() {
        "has a source of events outside of the schedule"
    } else if task.server.is_some() {
        "has a `server`"
    } else {
        return Ok(());
    };
    let message = format!("task `{}` {reason}, and cannot be added to a run", info.name);
    Err(fault(Code::NotSupportedHere, message, "end the run and start it with a file that has the task"))
}

/// The task of a record, for a replay: as it was run, or for a simulation with its program.
///
/// # Errors
/// The text describes no such task, or the task follows one that the run did not have.
pub(crate) fn described(
    (file, text, name): (&str, &str, &str),
    names: &[String],
    machine: CpuSet,
    simulated: bool,
) -> Result<(Task, TaskInfo), String> {
    let source = Source { name: file.to_owned(), text: text.to_owned() };
    let text = |failure: Failure| anstream::adapter::strip_str(failure.text()).to_string();
    let mut other = Input::default().load_source(&source, Some(machine)).map_err(text)?;
    if simulated {
        other.settle_simulation(None);
    } else {
        other.clear_simulated();
    }
    let id = find(&other, name).map_err(|fault| fault.message)?;
    let mut task = other.system.tasks[id.index()].clone();
    if let Arrival::Event { after: Some(first), .. } = &mut task.arrival {
        let name = &other.tasks[first.index()].name;
        let number = names.iter().position(|known| known == name);
        *first = TaskId(number.ok_or_else(|| format!("there is no task `{name}`"))? as u32);
    }
    Ok((task, other.tasks[id.index()].clone()))
}

/// A task that was added to a run, as the summary has it.
pub(crate) struct Added {
    new: NewTask,
}

impl Added {
    pub(crate) fn new(new: &NewTask) -> Added {
        Added { new: new.clone() }
    }

    /// The label of the task in traces.
    pub(crate) fn label(&self, pid: Option<i32>) -> TaskLabel {
        let pid = pid.and_then(|pid| u32::try_from(pid).ok());
        TaskLabel { name: self.new.process.name.clone(), pid, added: true, ..TaskLabel::default() }
    }

    /// The workload has the task, too.
    pub(crate) fn join(self, workload: &mut Workload) {
        let NewTask { domain, process, file, text, .. } = &self.new;
        let names: Vec<String> = workload.tasks.iter().map(|task| task.name.clone()).collect();
        // The run has read this text before.
        let Ok((task, info)) = described((file, text, &process.name), &names, workload.machine(), false) else {
            return;
        };
        join(workload, task, info, domain.as_deref());
    }
}

/// The workload has another task, the last one of its domain.
pub(crate) fn join(workload: &mut Workload, task: Task, info: TaskInfo, domain: Option<&str>) {
    let id = TaskId(workload.system.tasks.len() as u32);
    let number = domain.and_then(|domain| workload.domains.iter().position(|name| name == domain));
    let number = number.or(if workload.system.domains.is_empty() { None } else { Some(0) });
    if let Some(domain) = number.and_then(|number| workload.system.domains.get_mut(number)) {
        domain.tasks.push(id);
    }
    workload.system.tasks.push(task);
    workload.tasks.push(info);
}
