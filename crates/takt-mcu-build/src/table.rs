//! A workload as a table, or why it is none.

use crate::policies;
use takt_analysis::online::{self, Answer};
use takt_core::input::Input;
use takt_core::model::Step::Run as Execute;
use takt_core::model::{Backlog, Completion, OnAbort, Program, System, Task, TaskId};
use takt_core::policy::Entry;
use takt_core::time::{Span, Time};
use takt_core::wire;
use takt_workload::{Code, Diagnostic, Source, Workload};

/// The smallest stack in bytes: a frame of the hardware and of the kernel, and some calls.
pub const LEAST_STACK: u32 = 256;
/// The stack of a task that has no other size.
pub const DEFAULT_STACK: u32 = 1024;

/// The settings of a build script for a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes of the stacks of tasks by name.
    pub stacks: Vec<(String, u32)>,
    /// Bytes of the other stacks.
    pub stack: u32,
    /// The tasks in which a fault aborts the job.
    pub restarts: Vec<String>,
    /// A workload that is not schedulable is a warning.
    pub allow_unschedulable: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { stacks: Vec::new(), stack: DEFAULT_STACK, restarts: Vec::new(), allow_unschedulable: false }
    }
}

/// The table of a workload.
#[derive(Clone, Debug)]
pub struct Table {
    /// The system as the engine of the kernel has it.
    pub system: System,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Their hash, which names the table in a trace.
    pub hash: u64,
    /// Names of the tasks.
    pub tasks: Vec<String>,
    /// Names of the locks.
    pub locks: Vec<String>,
    /// Bytes of the stacks.
    pub stacks: Vec<u32>,
    /// Whether a fault aborts the job.
    pub restarts: Vec<bool>,
    /// The changes that the kernel makes, with their instants, in ascending order.
    pub changes: Vec<(Time, Input)>,
    /// How long the kernel runs.
    pub duration: Option<Span>,
    /// The policy's path below `takt_core::policies`.
    pub path: String,
    /// The policy.
    pub policy: &'static Entry,
    /// Faults that are no errors.
    pub warnings: Vec<Diagnostic>,
}

/// Makes a table of a workload.
///
/// # Errors
/// The parts that the kernel cannot carry out, each with its place in the file.
pub fn table(workload: &Workload, settings: &Settings) -> Result<Table, Vec<Diagnostic>> {
    let mut faults = refused(workload);
    faults.extend(settings_of_tasks(workload, settings));
    let mut warnings = ignored(workload);
    let name = workload.system.policy.profile.name;
    let Some((path, policy)) = policies::path(name) else {
        let message = format!("the policy `{name}` is not for one CPU alone");
        let names: Vec<&str> = policies::PATHS.iter().map(|(name, ..)| *name).collect();
        let hint = format!("use one of {}", names.join(", "));
        faults.push(Diagnostic::error(Code::UnsuitablePolicy, &key(workload, "policy"), message).hint(hint));
        return Err(faults);
    };
    let system = on_board(workload);
    if faults.is_empty() {
        // The engine has the last word on what the policy can schedule.
        if let Err(why) = takt_core::engine::Engine::with_registry(system.clone(), takt_workload::registry().clone()) {
            let message = format!("the engine refuses this system: {}", workload.named(&why.to_string()));
            let hint = "choose another policy, or change the tasks";
            faults.push(Diagnostic::error(Code::UnsuitablePolicy, &key(workload, "policy"), message).hint(hint));
        }
    }
    if faults.is_empty() {
        match unschedulable(workload) {
            Some(why) if settings.allow_unschedulable => {
                warnings.push(Diagnostic { severity: takt_workload::Severity::Warning, ..why });
            }
            Some(why) => faults.push(why),
            None => {}
        }
    }
    let mut bytes = Vec::new();
    if let Err(why) = wire::put_system(&mut bytes, &system)
        && faults.is_empty()
    {
        faults.push(not_here(&(0..0), &format!("{} have no place in a table", why.0), "remove them"));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let stack = |name: &String| {
        settings.stacks.iter().rev().find(|(task, _)| task == name).map_or(settings.stack, |(_, bytes)| *bytes)
    };
    let tasks: Vec<String> = workload.tasks.iter().map(|info| info.name.clone()).collect();
    Ok(Table {
        hash: wire::hash(&bytes),
        bytes,
        stacks: tasks.iter().map(stack).collect(),
        restarts: tasks.iter().map(|name| settings.restarts.contains(name)).collect(),
        tasks,
        locks: workload.resources.clone(),
        changes: workload.scenario.changes.clone(),
        duration: workload.settings.duration,
        path,
        policy,
        warnings,
        system,
    })
}

/// The system that the kernel's engine has. A thread drops the work of an aborted job, as a program without a process does, and signals the ends of
/// its jobs. Of the steps only locks remain.
fn on_board(workload: &Workload) -> System {
    let mut real = workload.clone();
    real.clear_simulated();
    let mut system = real.system;
    for task in &mut system.tasks {
        task.on_abort = OnAbort::Restart;
        if task.completion == Completion::Exit {
            task.completion = Completion::Undeclared;
        }
    }
    // A load and changes of the policy belong to simulations.
    system.load = None;
    system.alternatives.clear();
    system
}

/// Where a key of the file is; the file as a whole if that is not known.
fn key(workload: &Workload, key: &str) -> std::ops::Range<usize> {
    if let Some((_, place)) = workload.key_places.iter().find(|(known, _)| *known == key) {
        return place.clone();
    }
    let text = &workload.source.text;
    let found = text.match_indices(key).find(|(at, _)| {
        let (before, after) = (&text[..*at], &text[at + key.len()..]);
        let begins = before.ends_with(['\n', ' ', '{', ',']) || before.is_empty();
        begins && after.starts_with(':')
    });
    found.map_or(0..0, |(at, _)| at..at + key.len())
}

fn not_here(place: &std::ops::Range<usize>, message: &str, hint: &str) -> Diagnostic {
    Diagnostic::error(Code::NotSupportedHere, place, message).hint(hint)
}

/// The parts that the kernel cannot carry out.
fn refused(workload: &Workload) -> Vec<Diagnostic> {
    let system = &workload.system;
    let mut faults = Vec::new();
    let mut refuse = |condition: bool, name: &str, message: &str, hint: &str| {
        if condition {
            faults.push(not_here(&key(workload, name), message, hint));
        }
    };
    refuse(!system.windows.is_empty(), "windows", "the kernel has no window tables", "give the tasks a `policy`");
    refuse(!system.domains.is_empty(), "domains", "the kernel has one policy", "give the tasks one `policy`");
    refuse(system.cpus.len() != 1, "cpus", "a microcontroller has one CPU", "remove `cpus`, or name one CPU");
    let clock = "the clock of a board has no such property, and the alarm comes when it comes";
    let remove = "remove the key; it is for simulations";
    refuse(system.timing.tick > Span::ZERO && system.backlog != Backlog::Hartstone, "tick", clock, remove);
    refuse(system.timing.resolution > Span::ZERO, "timer_resolution", clock, remove);
    refuse(system.timing.lateness > Span::ZERO, "timer_lateness", clock, remove);
    let possible = |input: &Input| {
        matches!(
            input,
            Input::Share { .. }
                | Input::Retime { .. }
                | Input::Skew { .. }
                | Input::Configure { .. }
                | Input::Block { .. }
                | Input::Wake { .. }
                | Input::Leave { .. }
                | Input::Enter { .. }
                | Input::Release { .. }
        )
    };
    let switches = workload.scenario.changes.iter().any(|(_, input)| !possible(input));
    let keep = "let the changes set the policy's settings, or those of tasks";
    refuse(switches, "changes", "the kernel has one policy, and no change replaces it", keep);
    for (index, info) in workload.tasks.iter().enumerate() {
        let place = workload.place(TaskId(index as u32));
        if let Some(rule) = info.on_abort.filter(|rule| *rule != OnAbort::Restart) {
            let word = if rule == OnAbort::Finish { "finish" } else { "signal" };
            let message = format!("`on_abort: {word}` of task `{}`: a thread begins again", info.name);
            faults.push(not_here(&place, &message, "remove `on_abort`"));
        }
        if info.class.is_some() {
            let message = format!("task `{}` has a class of Linux", info.name);
            faults.push(not_here(&place, &message, "remove `class`"));
        }
    }
    faults
}

/// Keys about processes, which a board does not have.
fn ignored(workload: &Workload) -> Vec<Diagnostic> {
    let mut warnings = workload.warnings.clone();
    for (index, info) in workload.tasks.iter().enumerate().filter(|(_, info)| info.cmd.is_some()) {
        let message = format!("the kernel ignores `cmd` of task `{}`: its function does the work", info.name);
        warnings.push(Diagnostic::warning(Code::IgnoredKey, &workload.place(TaskId(index as u32)), message));
    }
    warnings
}

/// Faults of the script: stacks, and names that the workload does not have.
fn settings_of_tasks(workload: &Workload, settings: &Settings) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let known = |name: &str| workload.tasks.iter().position(|info| info.name == name);
    for name in settings.stacks.iter().map(|(name, _)| name).chain(&settings.restarts) {
        if known(name).is_none() {
            let message = format!("the build script names task `{name}`, which the workload does not have");
            let hint = "correct the name in the build script, or add the task";
            faults.push(Diagnostic::error(Code::UnknownName, &(0..0), message).hint(hint));
        }
    }
    let sizes = settings.stacks.iter().map(|(name, bytes)| (Some(name), *bytes)).chain([(None, settings.stack)]);
    for (name, bytes) in sizes.filter(|(_, bytes)| *bytes < LEAST_STACK || bytes % 8 != 0) {
        let of = name.map_or("the default stack".to_owned(), |name| format!("the stack of task `{name}`"));
        let place = name.and_then(|name| known(name)).map_or(0..0, |index| workload.place(TaskId(index as u32)));
        let message = format!("{of} has {bytes} bytes");
        let hint = format!("give it a multiple of 8, at least {LEAST_STACK}");
        faults.push(Diagnostic::error(Code::OutOfRange, &place, message).hint(hint));
    }
    faults
}

/// Why the system is not schedulable with the costs of the board: a job pays for its release and its end, and for a switch at each.
fn unschedulable(workload: &Workload) -> Option<Diagnostic> {
    let costs = &workload.scenario.costs;
    let of_job = (costs.scheduler + costs.context_switch) * 2;
    let mut system = workload.system.clone();
    for task in &mut system.tasks {
        longer(task, of_job);
    }
    let verdict = online::verdict(&system);
    (verdict.schedulable == Answer::No).then(|| {
        let with =
            if of_job > Span::ZERO { format!(" with {of_job} of kernel time for each job") } else { String::new() };
        let message = format!("the workload is not schedulable{with}: {}", workload.named(&verdict.reason));
        let hint = "lower the load, or call `allow_unschedulable()` in the build script";
        Diagnostic::error(Code::Overload, &key(workload, "tasks"), message).hint(hint)
    })
}

fn longer(task: &mut Task, by: Span) {
    if by == Span::ZERO {
        return;
    }
    task.runtime.iter_mut().for_each(|runtime| *runtime += by);
    if !task.program.steps.is_empty() {
        let mut steps = task.program.steps.clone();
        steps.insert(0, Execute(by));
        task.program = Program::new(steps, task.program.execution.clone());
    }
}

/// Reads a workload for a table.
///
/// # Errors
/// The faults of the file.
pub fn read(source: Source) -> Result<Workload, Vec<Diagnostic>> {
    takt_workload::load(source, &takt_workload::Options::default())
}
