//! The demand of the jobs of tasks, as described.

use takt_core::model::{Arrival, Backlog, Completion, Execution, Step, System, Task, TaskId};
use takt_core::time::Span;

/// CPU time that a job of the task needs at most; `None` when it never completes by itself.
pub(crate) fn most(task: &Task) -> Option<Span> {
    if task.completion == Completion::None { None } else { longest(task) }
}

/// The same by the runtime, or what its program does, where nothing is said of how its jobs end.
pub(crate) fn longest(task: &Task) -> Option<Span> {
    if !task.program.steps.is_empty() {
        return runs(task).max();
    }
    match &task.program.execution {
        Execution::Declared => task.runtime,
        Execution::Uniform { most, .. } => Some(*most),
        Execution::Series(spans) => spans.iter().copied().max().or(task.runtime),
    }
}

/// CPU time that every job of the task needs at least.
pub(crate) fn least(system: &System, task: TaskId) -> i128 {
    least_of(&system.tasks[task.index()])
}

/// The same for a task that is in no system.
pub(crate) fn least_of(task: &Task) -> i128 {
    let least = match &task.program.execution {
        _ if !task.program.steps.is_empty() => runs(task).min(),
        Execution::Declared => task.runtime,
        Execution::Uniform { least, .. } => Some(*least),
        Execution::Series(spans) => spans.iter().copied().min().or(task.runtime),
    };
    least.map_or(0, |span| i128::from(span.ns()))
}

/// CPU time of the jobs of a task with steps, which take turns.
pub(crate) fn runs(task: &Task) -> impl Iterator<Item = Span> {
    let run = |step: &Step| if let Step::Run(span) = *step { span } else { Span::ZERO };
    task.program.turns().map(move |turn| turn.iter().map(run).fold(Span::ZERO, |a, b| a + b))
}

/// Whether its jobs need less CPU time at some times than at others.
pub(crate) fn varies_by_itself(task: &Task) -> bool {
    match task.program.steps.is_empty() {
        true => task.program.execution != Execution::Declared,
        false => {
            let mut runs = runs(task);
            let first = runs.next();
            runs.any(|run| Some(run) != first)
        }
    }
}

/// Whether jobs may need other times than they declare.
pub(crate) fn varies(system: &System) -> bool {
    let differs = |t: &Task| {
        if t.program.steps.is_empty() { varies_by_itself(t) } else { runs(t).any(|run| t.runtime != Some(run)) }
    };
    system.tasks.iter().any(differs)
}

/// Whether its jobs do nothing but use the CPU.
pub(crate) fn only_runs(task: &Task) -> bool {
    task.program.steps.iter().all(|step| matches!(step, Step::Run(_) | Step::WaitPeriod))
}

/// How long a job sleeps at most; it wakes up at a tick.
pub(crate) fn slept(system: &System, task: TaskId) -> i128 {
    let sleep = |step: &Step| {
        if let Step::Sleep(span) = *step { i128::from((span + system.timing.tick).ns()) } else { 0 }
    };
    let turns = system.tasks[task.index()].program.turns();
    turns.map(|turn| turn.iter().map(sleep).sum()).max().unwrap_or(0)
}

/// By turn of its jobs: the CPU time of each piece between two suspensions, and how long the job sleeps in all.
pub(crate) fn segments(system: &System, task: TaskId) -> Vec<(Vec<i128>, i128)> {
    let turn = |steps: &[Step]| {
        let (mut pieces, mut asleep) = (vec![0], 0);
        for step in steps {
            match *step {
                Step::Run(span) => pieces.last_mut().into_iter().for_each(|piece| *piece += i128::from(span.ns())),
                Step::Sleep(span) => {
                    asleep += i128::from((span + system.timing.tick).ns());
                    pieces.push(0);
                }
                _ => {}
            }
        }
        (pieces, asleep)
    };
    system.tasks[task.index()].program.turns().map(turn).collect()
}

/// The resources that jobs of the task hold, each with the CPU time of the longest stretch from its lock to its unlock.
pub(crate) fn sections(task: &Task) -> Vec<(usize, i128)> {
    let mut held: Vec<(usize, i128)> = Vec::new();
    let mut longest: Vec<(usize, i128)> = Vec::new();
    let mut note = |resource: usize, length: i128| match longest.iter_mut().find(|(r, _)| *r == resource) {
        Some((_, most)) => *most = length.max(*most),
        None => longest.push((resource, length)),
    };
    for step in &task.program.steps {
        match *step {
            Step::Lock(r) => held.push((usize::from(r.0), 0)),
            Step::Run(span) => held.iter_mut().for_each(|(_, length)| *length += i128::from(span.ns())),
            Step::Unlock(r) => {
                if let Some(at) = held.iter().rposition(|(h, _)| *h == usize::from(r.0)) {
                    let (resource, length) = held.remove(at);
                    note(resource, length);
                }
            }
            _ => {}
        }
    }
    held.into_iter().for_each(|(resource, length)| note(resource, length));
    longest
}

pub(crate) fn holds_two(task: &Task) -> bool {
    let mut held = 0;
    task.program.steps.iter().any(|step| {
        match step {
            Step::Lock(_) => held += 1,
            Step::Unlock(_) => held -= 1,
            _ => {}
        }
        held > 1
    })
}

/// Whether its jobs come at listed instants, and there is one; or by events that may come at once.
pub(crate) fn is_irregular(task: &Task) -> bool {
    match &task.arrival {
        Arrival::Listed { instants } => !instants.is_empty(),
        Arrival::Event { distance, .. } => *distance == Span::ZERO,
        _ => false,
    }
}

/// The least and the most budget that a job of the task can have, for a budget that varies by its jitter.
pub(crate) fn budgets(task: &Task) -> Option<(Span, Span)> {
    let least = task.budget? - task.jitter / 2;
    Some((least, least + task.jitter))
}

/// Why nothing is promised where [`may_skip`] says so.
pub(crate) const MAY_SKIP: &str =
    "releases that find a task without a deadline busy are skipped (`backlog`), which counts as missed";

/// The reason for which nothing bounds what jobs of the task need.
pub(crate) fn unbounded(task: &Task) -> &'static str {
    match task.completion {
        Completion::None => "has jobs that never complete (`completion: none`)",
        _ => "has no runtime",
    }
}

/// Whether a release can be skipped, and so be missed, though its task has no deadline.
pub(crate) fn may_skip(system: &System) -> bool {
    may_skip_of(system, ids(system))
}

/// The same for some tasks.
pub(crate) fn may_skip_of(system: &System, mut tasks: impl Iterator<Item = TaskId>) -> bool {
    let again = |t: &Task| match &t.arrival {
        Arrival::Listed { instants } => instants.len() > 1,
        Arrival::Event { .. } => true,
        _ => t.arrival.period().is_some(),
    };
    let skips = matches!(system.backlog, Backlog::Skip | Backlog::Hartstone);
    let undated = |t: &Task| t.deadline.is_none() && again(t);
    skips && tasks.any(|task| undated(&system.tasks[task.index()]))
}

/// The first of these tasks whose jobs are all missed, since it is declared that its program never signals a completion.
pub(crate) fn endless(system: &System, tasks: impl IntoIterator<Item = TaskId>) -> Option<TaskId> {
    let released = |t: &Task| t.deadline.is_some() && t.arrival.earliest().is_some();
    let never = |t: &Task| t.completion == Completion::None && released(t);
    tasks.into_iter().find(|id| never(&system.tasks[id.index()]))
}

/// All tasks of the system.
pub(crate) fn ids(system: &System) -> impl Iterator<Item = TaskId> {
    (0..system.tasks.len() as u32).map(TaskId)
}
