//! `class`: tasks whose processes a scheduling class of the kernel schedules.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::limits::MAX_PRIORITY;
use crate::node::{Node, Place};
use crate::process::Class;
use crate::reader::Reader;
use crate::text::clipped;
use crate::words::CLASS;
use takt_core::model::{OnAbort, Task};
use takt_core::time::Span;

/// The kernel refuses shorter runtimes (`DL_SCALE` in `kernel/sched/deadline.c`).
const LEAST_RUNTIME: Span = Span::from_ns(1024);

/// Reads `deadline`, `fifo`, `fifo=PRIORITY` or `other`.
pub(crate) fn read(reader: &mut Reader, value: &Node) -> Option<Class> {
    let text = reader.scalar(value, "class", "`deadline`, `fifo`, `fifo=PRIORITY` or `other`")?;
    let Some(priority) = text.strip_prefix("fifo=") else {
        return reader.hinted("`fifo=20` is SCHED_FIFO of priority 20", |reader| reader.choice(value, "class", &CLASS));
    };
    let known = priority.parse().ok().filter(|priority| (1..=MAX_PRIORITY).contains(priority));
    if known.is_none() {
        let message = format!("`{}` is no priority for a task", clipped(priority));
        let fault = Diagnostic::error(Code::OutOfRange, &value.span, message);
        let fault =
            fault.label(format!("a whole number from 1 to {MAX_PRIORITY}, below the priority of Takt's scheduler"));
        reader.push(fault.hint("write `class: fifo=20`; a higher number is more important"));
    }
    known.map(Class::Fifo)
}

/// A key that contradicts a class, with the message after the task's name, the label and the hint. It is reported if the file has it.
type Conflict = (&'static str, &'static str, &'static str, &'static str);

/// The keys that contradict the class.
pub(crate) fn conflicts(
    class: Class,
    per_job: bool,
    on_abort: Option<OnAbort>,
    yields: bool,
    replaced: bool,
) -> impl Iterator<Item = Conflict> {
    let deadline = class == Class::Deadline;
    let stopped = on_abort.is_some_and(|rule| rule != OnAbort::Signal);
    let all: [(bool, Conflict); 7] = [
        (
            true,
            (
                "domain",
                "has both `domain` and `class`",
                "the kernel schedules the task, and no domain",
                "keep one of them",
            ),
        ),
        (
            true,
            (
                "budget",
                "has both `budget` and `class`",
                "Takt cannot enforce it, since it never stops a process of the kernel's classes",
                "remove `budget`; `class: deadline` enforces the `runtime`",
            ),
        ),
        (
            deadline,
            (
                "cpu",
                "has both `cpu` and `class: deadline`",
                "the kernel refuses SCHED_DEADLINE to a process that may not use all CPUs",
                "remove `cpu`, or use another class",
            ),
        ),
        (
            deadline && per_job,
            (
                "spawn",
                "has a process per job and `class: deadline`",
                "each process would be a new reservation, with an admission of its own",
                "remove `spawn: per-job`, or use another class",
            ),
        ),
        (
            yields,
            (
                "completion",
                "has a `class` of the kernel and `completion: yield`",
                "Takt does not stop its process at a yield, so no job begins at its release",
                "write `completion: signal`, or remove `class`",
            ),
        ),
        (
            deadline && replaced,
            (
                "on_exit",
                "has `class: deadline`, `init: yes` and `on_exit: restart`",
                "the kernel may refuse the reservation to a process that has initialised beside the schedule",
                "remove `init` or `on_exit`, or use another class",
            ),
        ),
        (
            stopped,
            (
                "on_abort",
                "has a `class` of the kernel, so Takt never stops its process",
                "needs a process that Takt stops at the abort",
                "write `on_abort: signal`, or remove `on_abort`",
            ),
        ),
    ];
    all.into_iter().filter(|(applies, _)| *applies).map(|(_, conflict)| conflict)
}

/// Checks that the kernel can have the parameters of `SCHED_DEADLINE`.
pub(crate) fn check_deadline(reader: &mut Reader, name: &str, task: &Task, place: &Place) {
    let name = clipped(name);
    let missing = |key: &str, example: &str| {
        Diagnostic::error(Code::MissingKey, place, format!("task `{name}` has no `{key}`"))
            .label("SCHED_DEADLINE reserves the `runtime` in each `period`")
            .hint(format!("add `{key}: {example}`, or use another class"))
    };
    let (runtime, period) = match (task.runtime, task.arrival.period()) {
        (Some(runtime), Some(period)) => (runtime, period),
        (None, _) => return reader.push(missing("runtime", "2ms")),
        (_, None) => return reader.push(missing("period", "10ms")),
    };
    if runtime < LEAST_RUNTIME {
        let message = format!("the runtime of task `{name}` is too short for `class: deadline`");
        let fault = Diagnostic::error(Code::OutOfRange, place, message);
        return reader
            .push(fault.label(format!("{runtime}")).hint(format!("raise `runtime` to at least {LEAST_RUNTIME}")));
    }
    if let Some(deadline) = task.deadline.filter(|deadline| *deadline > period) {
        let message = format!("the deadline of task `{name}` is after its period");
        let fault = Diagnostic::error(Code::OutOfRange, place, message);
        let label = format!("SCHED_DEADLINE takes no deadline of {deadline} with a period of {period}");
        reader.push(fault.label(label).hint(format!("lower `deadline` to at most {period}, or use another class")));
    }
}
