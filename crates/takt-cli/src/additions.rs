//! Tasks of other files that are added to a run (`takt ctl add TASK --from FILE`), and to a replay or simulation of it.

use crate::control::wire::Fault;
use crate::failure::Failure;
use crate::input::Input;
use crate::processes::process;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
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

/// The tasks of a file that can be added to a run.
pub(crate) struct Candidates {
    pub(crate) new: Vec<NewTask>,
    /// The names of tasks that cannot be added, each with the reason.
    pub(crate) excluded: Vec<(String, String)>,
    /// How many tasks were not looked at, because so many cannot be added.
    pub(crate) unseen: usize,
}

/// Reads a task of a file, by its name and the path of the file.
pub(crate) type Finder = Arc<dyn Fn(&str, &str) -> Result<NewTask, Fault> + Send + Sync>;

/// So many tasks that cannot be added are described, each with a part of the file.
const EXCLUDED_MOST: usize = 100;

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

    /// The task of a workload, as the run is to have it. O(size of the task), for one of many.
    fn task(&self, from: &File<'_>, id: TaskId) -> Result<NewTask, Fault> {
        let other = from.workload;
        from.can_add(id)?;
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
        Ok(from.new_task(id, process))
    }

    /// The tasks of another version of the workload of the run, but those of its first version (`known`). O(size of the file).
    ///
    /// # Errors
    /// When the file is wrong.
    pub(crate) fn candidates(&self, source: &Source, known: &HashSet<&str>) -> Result<Candidates, Fault> {
        let other = load(source, self.machine).map_err(|failure| of_failure(&failure))?;
        let from = File::of(&other);
        let mut candidates = Candidates { new: Vec::new(), excluded: Vec::new(), unseen: 0 };
        let infos = other.tasks.iter().zip((0..).map(TaskId));
        for (info, id) in infos.filter(|(info, _)| !known.contains(info.name.as_str())) {
            if candidates.excluded.len() == EXCLUDED_MOST {
                candidates.unseen += 1;
                continue;
            }
            match self.task(&from, id) {
                Ok(task) => candidates.new.push(task),
                Err(fault) => candidates.excluded.push((info.name.clone(), fault.message)),
            }
        }
        Ok(candidates)
    }
}

/// Reads tasks for a run of this workload.
pub(crate) fn finder(workload: &Workload) -> Finder {
    let run = Surroundings::of(workload);
    Arc::new(move |name, file| {
        if !std::fs::metadata(file).is_ok_and(|known| known.is_file()) {
            let message = format!("`{file}` is no file that the run can read");
            return Err(fault(Code::UnreadableFile, message, "name a workload"));
        }
        let source = Source::read(std::path::Path::new(file));
        let source = source.map_err(|unreadable| of_failure(&Failure::unreadable(&unreadable)))?;
        let other = load(&source, run.machine).map_err(|failure| of_failure(&failure))?;
        let id = find(&other, name)?;
        run.task(&File::of(&other), id)
    })
}

/// A file whose tasks may be added, with what all of them share.
struct File<'a> {
    workload: &'a Workload,
    name: Arc<str>,
    text: Arc<str>,
    /// By task: it has threads that are tasks.
    hosts: Vec<bool>,
    /// By task: its domain.
    domains: Vec<Option<usize>>,
}

impl File<'_> {
    fn of(workload: &Workload) -> File<'_> {
        let mut hosts = vec![false; workload.tasks.len()];
        workload.tasks.iter().filter_map(|task| task.thread_of).for_each(|host| hosts[host.index()] = true);
        let mut domains = vec![None; workload.tasks.len()];
        for (index, domain) in workload.system.domains.iter().enumerate() {
            domain.tasks.iter().for_each(|task| domains[task.index()] = Some(index));
        }
        let (name, text) = (workload.source.name.as_str().into(), workload.source.text.as_str().into());
        File { workload, name, text, hosts, domains }
    }

    fn new_task(&self, id: TaskId, process: takt_exec::Process) -> NewTask {
        let other = self.workload;
        let task = other.system.tasks[id.index()].clone();
        let after = match task.arrival {
            Arrival::Event { after: Some(first), .. } => Some(other.tasks[first.index()].name.clone()),
            _ => None,
        };
        let domain = self.domains[id.index()].and_then(|domain| other.domains.get(domain).cloned());
        NewTask { task, after, domain, process, file: self.name.clone(), text: self.text.clone() }
    }

    /// Whether a task can be added to a run: it has a process of its own, which Takt schedules.
    fn can_add(&self, id: TaskId) -> Result<(), Fault> {
        let other = self.workload;
        let (info, task) = (&other.tasks[id.index()], &other.system.tasks[id.index()]);
        let reason = if task.arrival == Arrival::Activated {
            "is a process of a window table"
        } else if info.class.is_some() {
            "is scheduled by the kernel (`class`)"
        } else if info.thread_of.is_some() || self.hosts[id.index()] {
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

/// The tasks that texts describe, of which many may have the same text: it is read once.
pub(crate) struct Descriptions {
    machine: CpuSet,
    simulated: bool,
    /// The names of all tasks by now, with their numbers.
    names: HashMap<String, TaskId>,
    /// The last text, and the tasks in it by their names.
    last: Option<(Workload, HashMap<String, TaskId>)>,
}

impl Descriptions {
    /// For a system with the tasks of `workload`. Tasks are as they were run, or for a simulation with their programs.
    pub(crate) fn new(workload: &Workload, simulated: bool) -> Descriptions {
        let names = workload.tasks.iter().map(|task| task.name.clone()).zip((0..).map(TaskId)).collect();
        Descriptions { machine: workload.machine(), simulated, names, last: None }
    }

    /// The next task.
    ///
    /// # Errors
    /// The text describes no such task, or the task follows one that does not exist.
    pub(crate) fn next(&mut self, file: &str, text: &str, name: &str) -> Result<(Task, TaskInfo), String> {
        let known = self.last.as_ref().is_some_and(|(last, _)| last.source.name == file && last.source.text == text);
        if !known {
            self.last = Some(self.read(file, text)?);
        }
        let (other, tasks) = self.last.as_ref().ok_or("no text describes it")?;
        let id = match tasks.get(name) {
            Some(id) => *id,
            None => find(other, name).map_err(|fault| fault.message)?,
        };
        let mut task = other.system.tasks[id.index()].clone();
        if let Arrival::Event { after: Some(first), .. } = &mut task.arrival {
            let name = &other.tasks[first.index()].name;
            *first = *self.names.get(name).ok_or_else(|| format!("there is no task `{name}`"))?;
        }
        let info = other.tasks[id.index()].clone();
        let number = TaskId(self.names.len() as u32);
        self.names.insert(info.name.clone(), number);
        Ok((task, info))
    }

    fn read(&self, file: &str, text: &str) -> Result<(Workload, HashMap<String, TaskId>), String> {
        let source = Source { name: file.to_owned(), text: text.to_owned() };
        let why = |failure: Failure| anstream::adapter::strip_str(failure.text()).to_string();
        let mut other = Input::default().load_source(&source, Some(self.machine)).map_err(why)?;
        if self.simulated {
            other.settle_simulation(None);
        } else {
            other.clear_simulated();
        }
        let tasks = other.tasks.iter().map(|task| task.name.clone()).zip((0..).map(TaskId)).collect();
        Ok((other, tasks))
    }
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
}

/// The workload has these tasks, too.
pub(crate) fn join_all(workload: &mut Workload, added: &[Added]) {
    let mut descriptions = Descriptions::new(workload, false);
    for Added { new: NewTask { domain, process, file, text, .. } } in added {
        // The run has read this text before.
        if let Ok((task, info)) = descriptions.next(file, text, &process.name) {
            join(workload, task, info, domain.as_deref());
        }
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
