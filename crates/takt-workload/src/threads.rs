//! `thread_of`: tasks that are threads of one program.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::Place;
use crate::process::{Class, EventSource};
use crate::reader::Reader;
use crate::settings::Dispatch;
use crate::task_names;
use crate::text::clipped;
use crate::workload::Workload;
use std::collections::HashMap;
use takt_core::model::{Completion, OnAbort, OnExit, TaskId};

/// A key that a thread cannot have, with the message after the task's name, the label and the hint.
type Conflict = (&'static str, &'static str, &'static str, &'static str);

/// The parts of a task that decide which of its keys contradict `thread_of`.
pub(crate) struct Keys<'a> {
    pub(crate) completion: Option<Completion>,
    pub(crate) observed: bool,
    pub(crate) on_abort: Option<OnAbort>,
    pub(crate) on_exit: Option<OnExit>,
    pub(crate) event: Option<&'a EventSource>,
    pub(crate) class: Option<Class>,
}

/// The keys that contradict `thread_of`. Each is reported if the file has it.
pub(crate) fn conflicts(keys: &Keys<'_>) -> impl Iterator<Item = Conflict> {
    let signals = keys.completion.is_none_or(|completion| completion == Completion::Signal) && !keys.observed;
    let has_descriptor =
        matches!(keys.event, Some(EventSource::Descriptor(_) | EventSource::Pipe(_) | EventSource::Udp(_)));
    let all: [(bool, Conflict); 10] = [
        (
            true,
            (
                "cmd",
                "has both `thread_of` and `cmd`",
                "the program of the other task has this thread",
                "keep one of them",
            ),
        ),
        (
            true,
            (
                "init",
                "has both `thread_of` and `init`",
                "a thread attaches while its program initialises, which is the only way",
                "remove `init` here; the task of the program has it",
            ),
        ),
        (
            true,
            (
                "output",
                "has both `thread_of` and `output`",
                "the threads of a program have one standard output",
                "move `output` to the task of the program",
            ),
        ),
        (
            true,
            (
                "spawn",
                "has both `thread_of` and `spawn`",
                "a thread belongs to a program that runs all the time",
                "remove `spawn`",
            ),
        ),
        (
            !signals,
            (
                "completion",
                "is a thread, which reports the ends of its jobs by calls of the library",
                "observes or awaits a process",
                "remove `completion`, or write `completion: signal`",
            ),
        ),
        (
            keys.on_abort == Some(OnAbort::Restart),
            (
                "on_abort",
                "is a thread, which cannot be replaced without its program",
                "would kill the other tasks of the program, too",
                "write `on_abort: signal`, or remove `on_abort`",
            ),
        ),
        (
            keys.on_exit == Some(OnExit::Restart),
            (
                "on_exit",
                "is a thread, which cannot be replaced without its program",
                "would end the other tasks of the program, too",
                "write `on_exit: end` or `on_exit: stop`",
            ),
        ),
        (
            keys.class.is_some(),
            (
                "class",
                "has both `thread_of` and `class`",
                "a program cannot belong to Takt and to the kernel in parts",
                "remove `class`, or make the task a program of its own",
            ),
        ),
        (
            has_descriptor,
            (
                "event",
                "is a thread with a descriptor of its own as its source of events",
                "a program receives one such descriptor, that of its own task",
                "move `event` to the task of the program, and release this task by `event: {after: NAME}`",
            ),
        ),
        (
            keys.event == Some(&EventSource::Segments),
            (
                "event",
                "is a thread with segments",
                "outside of segments only a whole program is an ordinary process",
                "give the task a `period`, or make it a program of its own",
            ),
        ),
    ];
    all.into_iter().filter(|(applies, _)| *applies).map(|(_, conflict)| conflict)
}

/// Finds the programs of threads. `threads` are these, with the names and where they stand.
pub(crate) fn connect(
    reader: &mut Reader,
    threads: Vec<(TaskId, String, Place)>,
    workload: &mut Workload,
    heads: &[Place],
) {
    if threads.is_empty() {
        return;
    }
    let names: HashMap<String, TaskId> =
        workload.tasks.iter().enumerate().map(|(i, t)| (t.name.clone(), TaskId(i as u32))).collect();
    let mut of = HashMap::new();
    for (task, name, place) in threads {
        let Some(program) = task_names::called(reader, &name, &place, &names) else { continue };
        workload.tasks[task.index()].thread_of = Some(program);
        of.insert(task, place);
    }
    let mut found: Vec<(TaskId, Place)> = of.into_iter().collect();
    found.sort_unstable_by_key(|(task, _)| *task);
    let mut checked = Vec::new();
    for (task, place) in &found {
        let Some(program) = workload.tasks[task.index()].thread_of else { continue };
        let [name, of] = [*task, program].map(|task| clipped(&workload.tasks[task.index()].name));
        if workload.tasks[program.index()].thread_of.is_some() {
            let message = format!("task `{name}` is a thread of task `{of}`, which is a thread");
            let fault = Diagnostic::error(Code::ConflictingKeys, place, message);
            reader.push(fault.label("names no program").hint("name the task that has the `cmd`"));
        } else if !checked.contains(&program) {
            checked.push(program);
            check_program(reader, workload, program, &heads[program.index()]);
        }
    }
    if workload.settings.dispatch == Dispatch::Freeze
        && let Some((_, place)) = found.first()
    {
        let fault = Diagnostic::error(
            Code::NotSupportedHere,
            place,
            "threads of one program need `dispatch: priority` or `dispatch: rank`",
        );
        let label = "a preempted thread that is frozen keeps the locks of its program, as those of malloc";
        reader.push(fault.label(label).hint("add `dispatch: priority` to the file, beside `tasks`"));
    }
}

/// Checks that the program of threads can have them.
fn check_program(reader: &mut Reader, workload: &Workload, program: TaskId, place: &Place) {
    let info = &workload.tasks[program.index()];
    let name = clipped(&info.name);
    if !info.init {
        let fault = Diagnostic::error(Code::MissingKey, place, format!("task `{name}` has threads and no `init`"));
        let label = "its threads attach while it initialises";
        return reader.push(fault.label(label).hint("add `init: yes`; the program calls `takt_ready`"));
    }
    let signals = info.completion.is_none_or(|completion| completion == Completion::Signal) && info.observed.is_none();
    let restarts = info.on_abort == Some(OnAbort::Restart);
    let segments = info.event.as_deref() == Some(&EventSource::Segments);
    let other = [
        ("completion", !signals, "write `completion: signal`"),
        ("on_abort: restart", restarts, "write `on_abort: signal`: a replacement would end the other tasks, too"),
        ("on_exit: restart", info.on_exit == Some(OnExit::Restart), "write `on_exit: end` or `on_exit: stop`"),
        ("class", info.class.is_some(), "remove `class`"),
        ("event: segments", segments, "give the task a `period`"),
    ];
    if let Some((key, _, hint)) = other.into_iter().find(|(_, is, _)| *is) {
        let message = format!("task `{name}` has threads and `{key}`");
        let fault = Diagnostic::error(Code::NotSupportedHere, place, message);
        reader.push(fault.label("not possible for a program with several tasks").hint(hint));
    }
}
