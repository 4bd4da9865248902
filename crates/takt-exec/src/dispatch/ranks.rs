//! Dispatch by rank: all tasks with a job that may run are thawed, each at a FIFO priority by the policy's order (`dispatch: rank`).
//!
//! When a job blocks, the kernel runs the next one at once, and gives the CPU back when the job wakes up. Neither needs an act, or a
//! notice. A task that the policy's order lacks runs only while the engine runs it, above all ranked tasks.

use super::dispatcher::{Before, Bench, Dispatcher};
use crate::actuator::Actuator;
use crate::levels::{Ladder, highest};
use crate::life::Program;
use crate::slot::Slot;
use std::io;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::TaskId;
use takt_core::record::Place;
use takt_core::time::Span;

/// A task and its process.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its FIFO priority in the kernel.
    level: u8,
    thawed: bool,
    /// The process has several threads, which cannot be given a priority in constant time.
    several: bool,
    /// It is in the order of the last step.
    ranked: bool,
    /// The first CPU of its queue, and their number.
    queue: (Place, u16),
    /// [`Ranks::cpus`] has the CPUs of its queue, and its process may run on these.
    placed: bool,
    assigned: bool,
    /// CPU time after which the policy has to know what it has consumed.
    limit: Option<Span>,
    /// The CPU time of its process, and the clock, when it was thawed or dispatched last.
    used: Option<Span>,
    since: Span,
}

/// A task in the order.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The queue that it competes in, and its number there.
    queue: u16,
    number: u32,
    task: TaskId,
}

pub(crate) struct Ranks {
    tasks: Vec<Known>,
    thawed: Vec<TaskId>,
    /// The order of the last step.
    order: Vec<Entry>,
    /// By single-CPU place: queues that share a CPU have one number.
    queues: Vec<u16>,
    /// By task: the CPUs of its queue.
    cpus: Vec<CpuSet>,
    ladder: Ladder,
    lowest: u8,
    highest: u8,
    /// The entry of the order that [`Dispatcher::next_ahead`] looks at next.
    next: usize,
    /// When a limit can be reached at the earliest.
    due: Span,
}

impl Ranks {
    /// For so many tasks on so many CPUs. `lowest` is the lowest priority of a process.
    pub(crate) fn new(tasks: usize, cpus: usize, lowest: u8) -> Ranks {
        let highest = highest(lowest);
        let known = Known {
            level: highest,
            thawed: false,
            several: true,
            ranked: false,
            queue: (Place(0), 0),
            placed: false,
            assigned: false,
            limit: None,
            used: None,
            since: Span::ZERO,
        };
        Ranks {
            tasks: vec![known; tasks],
            thawed: Vec::with_capacity(tasks),
            order: Vec::with_capacity(tasks),
            queues: (0..cpus as u16).collect(),
            cpus: vec![CpuSet::EMPTY; tasks],
            ladder: Ladder::new(lowest, highest),
            lowest,
            highest,
            next: 0,
            due: Span::MAX,
        }
    }

    /// Takes the order of the policy. O(jobs log jobs).
    fn take_order<A: Actuator>(&mut self, on: &mut Bench<'_, A>) {
        let Ranks { tasks, order, queues, cpus, .. } = self;
        order.drain(..).for_each(|entry| tasks[entry.task.index()].ranked = false);
        let (slots, places) = (&*on.slots, on.places);
        let mut several_queues = false;
        on.engine.order(&mut |standing| {
            let known = &mut tasks[standing.task.index()];
            let Some(&first) = standing.places.first().filter(|_| !known.several) else { return };
            if slots[standing.task.index()].kernel.is_some() || order.len() == order.capacity() {
                return;
            }
            let queue = queues[first.index()];
            for place in standing.places {
                let other = queues[place.index()];
                if other != queue {
                    queues.iter_mut().filter(|of| **of == other).for_each(|of| *of = queue);
                }
            }
            let span = (first, standing.places.len() as u16);
            if known.queue != span || !known.placed {
                (known.queue, known.placed) = (span, false);
                let all = standing.places.iter().map(|place| &places[place.index()]);
                cpus[standing.task.index()] = all.fold(CpuSet::EMPTY, |all, cpus| all.union(cpus));
            }
            known.limit = standing.limit;
            several_queues |= order.last().is_some_and(|last| last.queue != queue);
            order.push(Entry { queue, number: order.len() as u32, task: standing.task });
        });
        let engine = &*on.engine;
        for entry in &*order {
            let known = &mut tasks[entry.task.index()];
            if !std::mem::replace(&mut known.placed, true) {
                known.assigned = false;
                let cpus = &mut cpus[entry.task.index()];
                let usable = cpus.intersection(&engine.system().tasks[entry.task.index()].affinity);
                // CPUs that stand for missing ones are none of its affinity.
                *cpus = if usable.is_empty() { *cpus } else { usable };
            }
        }
        // The engine's budget of a job that it does not run may be exhausted, and the policy has another one for it.
        let is_exhausted = |task: TaskId| {
            let limit = tasks[task.index()].limit;
            engine.place_of(task).is_none() && limit.is_some_and(|limit| limit <= Span::ZERO)
        };
        order
            .retain(|entry| may_be_thawed(entry.task, engine, &slots[entry.task.index()]) && !is_exhausted(entry.task));
        if several_queues {
            // Queues may have been joined since an entry was written.
            let queue = |task: TaskId| queues[tasks[task.index()].queue.0.index()];
            order.iter_mut().for_each(|entry| entry.queue = queue(entry.task));
            order.sort_unstable_by_key(|entry| (entry.queue, entry.number));
        }
    }

    /// Gives each queue's tasks their levels. Beyond the levels, the least urgent tasks are left out; a task that runs never is.
    fn rank<A: Actuator>(&mut self, on: &mut Bench<'_, A>) -> io::Result<()> {
        let Ranks { tasks, order, ladder, .. } = self;
        let levels = ladder.levels();
        let (mut kept, mut at) = (0, 0);
        let mut result = Ok(());
        while at < order.len() {
            let end = at + order[at..].iter().take_while(|entry| entry.queue == order[at].queue).count();
            let runs = |entry: &&Entry| on.engine.place_of(entry.task).is_some();
            let first = (at + levels).min(end);
            let left_out = order[first..end].iter().filter(runs).count();
            let first = first - left_out;
            let begin = kept;
            for index in at..end {
                let entry = order[index];
                if index < first || runs(&&entry) {
                    order[kept] = entry;
                    kept += 1;
                }
            }
            at = end;
            let queue = &order[begin..kept];
            queue.iter().for_each(|entry| tasks[entry.task.index()].ranked = true);
            let level_of = |index: usize| {
                let known = &tasks[queue[index].task.index()];
                (known.level, known.thawed)
            };
            ladder.place(queue.len(), level_of);
            let done = ladder.changes(|index, level| {
                let task = queue[index].task;
                on.set_level(task, level)?;
                tasks[task.index()].level = level;
                Ok(())
            });
            result = result.and(done);
        }
        order.truncate(kept);
        result
    }

    /// Assigns CPUs to thawed tasks whose queue has changed, or that had no rank before.
    fn assign<A: Actuator>(&mut self, on: &Bench<'_, A>) -> io::Result<()> {
        for entry in &self.order {
            let index = entry.task.index();
            let known = &mut self.tasks[index];
            if known.thawed && !known.assigned {
                on.actuator.assign(on.slots[index].partition, &self.cpus[index])?;
                known.assigned = true;
            }
        }
        Ok(())
    }

    /// Whether a task stays thawed: it is in the order, or blocked, so that its wake-up could not be seen.
    fn stays<A: Actuator>(&self, task: TaskId, on: &Bench<'_, A>) -> bool {
        let engine = &*on.engine;
        let at = matches!(on.slots[task.index()].program, Program::At { job, .. } if engine.job(task).is_some_and(|present| present.number == job));
        let blocked = at && engine.job(task).is_some_and(|job| !job.ready) && !engine.waits(task);
        // Without a job it would run when it wakes up, and no notice would report that.
        let seen = on.is_blocked(task) && engine.job(task).is_some();
        self.tasks[task.index()].ranked || blocked || seen
    }

    /// The machine measures a task from now on that may run although the engine does not run it, where it has a limit or may run on several CPUs.
    fn mark<A: Actuator>(&mut self, task: TaskId, on: &Bench<'_, A>) {
        let known = &mut self.tasks[task.index()];
        if known.limit.is_some() || known.queue.1 > 1 {
            known.used = on.actuator.cpu_time(on.slots[task.index()].group);
            known.since = on.actuator.now();
            let limit = known.limit.map_or(i64::MAX, Span::ns);
            self.due = self.due.min(Span::from_ns(known.since.ns().saturating_add(limit)));
        }
    }
}

/// Whether the process of a task with a job may run it although the engine does not.
fn may_be_thawed<R>(task: TaskId, engine: &Engine, slot: &Slot<R>) -> bool {
    let runs = engine.place_of(task).is_some();
    let present = engine.job_number(task);
    match slot.program {
        Program::At { .. } | Program::New | Program::Waiting if runs => true,
        Program::At { .. } if engine.is_dispatched(task) => !engine.waits(task),
        // It has begun its job ahead of the engine.
        Program::At { job, .. } if present == Some(job) => {
            engine.may_begin(task) || slot.blocked && engine.at(task).is_none()
        }
        // It completes the work of an aborted job before that of the present one.
        Program::At { job, .. } => {
            let there = engine.job(task).is_some_and(|job| job.ready || slot.blocked);
            there && engine.at(task) == Some(job) && slot.abort_signal.is_none()
        }
        Program::New | Program::Waiting => engine.may_begin(task),
        Program::Outside { .. } | Program::Absent { .. } | Program::Gone => false,
    }
}

impl<A: Actuator> Dispatcher<A> for Ranks {
    fn stepped(&mut self, on: &mut Bench<'_, A>) -> io::Result<()> {
        self.take_order(on);
        self.next = 0;
        let ranked = self.rank(on);
        ranked.and(self.assign(on))
    }

    fn is_ranked(&self, task: TaskId) -> bool {
        self.tasks[task.index()].ranked
    }

    fn next_ahead(&mut self, on: &Bench<'_, A>) -> Option<TaskId> {
        while let Some(entry) = self.order.get(self.next) {
            self.next += 1;
            let slot = &on.slots[entry.task.index()];
            let begins = matches!(slot.program, Program::New | Program::Waiting) && on.engine.may_begin(entry.task);
            if begins || !self.tasks[entry.task.index()].thawed {
                return Some(entry.task);
            }
        }
        None
    }

    fn cpus(&self, task: TaskId) -> Option<&CpuSet> {
        let known = &self.tasks[task.index()];
        (known.ranked && known.placed).then(|| &self.cpus[task.index()])
    }

    fn stop(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        if self.tasks[task.index()].thawed && self.stays(task, on) {
            self.mark(task, on);
            return Ok(());
        }
        on.freeze(task)?;
        <Ranks as Dispatcher<A>>::frozen(self, task);
        Ok(())
    }

    fn start(&mut self, task: TaskId, before: Before, on: &mut Bench<'_, A>) -> io::Result<()> {
        self.raise(task, on)?;
        self.mark(task, on);
        let known = &mut self.tasks[task.index()];
        known.assigned = known.ranked;
        if !self.tasks[task.index()].thawed {
            if before != Before::Asleep {
                on.actuator.start(on.slots[task.index()].group)?;
            }
            <Ranks as Dispatcher<A>>::thawed(self, task);
        }
        Ok(())
    }

    fn rest(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        <Ranks as Dispatcher<A>>::frozen(self, task);
        if self.tasks[task.index()].level != self.lowest {
            on.set_level(task, self.lowest)?;
            self.tasks[task.index()].level = self.lowest;
        }
        Ok(())
    }

    /// A task without a rank runs above all ranked ones.
    fn raise(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        let known = &mut self.tasks[task.index()];
        if known.ranked {
            return Ok(());
        }
        if let Some(place) = on.engine.place_of(task).filter(|_| known.assigned) {
            on.actuator.assign(on.slots[task.index()].partition, &on.places[place.index()])?;
            known.assigned = false;
        }
        if known.level != self.highest {
            on.set_level(task, self.highest)?;
            known.level = self.highest;
        }
        Ok(())
    }

    fn frozen(&mut self, task: TaskId) {
        let known = &mut self.tasks[task.index()];
        known.used = None;
        if std::mem::take(&mut known.thawed) {
            self.thawed.retain(|other| *other != task);
        }
    }

    fn thawed(&mut self, task: TaskId) {
        if !std::mem::replace(&mut self.tasks[task.index()].thawed, true) {
            self.thawed.push(task);
        }
    }

    fn replaced(&mut self, task: TaskId) {
        <Ranks as Dispatcher<A>>::changed_class(self, task);
        let known = &mut self.tasks[task.index()];
        (known.several, known.placed) = (true, false);
    }

    fn changed_class(&mut self, task: TaskId) {
        <Ranks as Dispatcher<A>>::frozen(self, task);
        self.tasks[task.index()].level = self.highest;
    }

    fn set_several(&mut self, task: TaskId, several: bool) {
        let known = &mut self.tasks[task.index()];
        known.several = several;
        known.ranked &= !several;
    }

    fn all_thawed(&self) -> &[TaskId] {
        &self.thawed
    }

    fn may_stay(&self, task: TaskId, on: &Bench<'_, A>) -> bool {
        on.engine.place_of(task).is_some() || self.stays(task, on)
    }

    fn is_thawed(&self, task: TaskId) -> bool {
        self.tasks[task.index()].thawed
    }

    fn blocked_before(&self, task: TaskId, on: &Bench<'_, A>) -> Option<TaskId> {
        let queue = self.queues[self.tasks[task.index()].queue.0.index()];
        let competes = |other: &TaskId| {
            let place = on.engine.place_of(*other);
            place.and_then(|place| self.queues.get(place.index())) == Some(&queue)
        };
        let idle = |other: TaskId| {
            let known = &self.tasks[other.index()];
            let used = on.actuator.cpu_time(on.slots[other.index()].group).zip(known.used);
            let used = used.map_or(Span::ZERO, |(now, before)| now - before);
            (on.actuator.now() - known.since) - used
        };
        let running = on.engine.running().iter().copied();
        let mut before = running.filter(competes);
        let first = before.next()?;
        let Some(second) = before.next() else { return Some(first) };
        [first, second].into_iter().chain(before).max_by_key(|other| idle(*other))
    }

    fn limits_due(&self) -> Span {
        self.due
    }

    fn exhausted(&mut self, on: &Bench<'_, A>) -> Option<TaskId> {
        let now = on.actuator.now();
        self.due = Span::MAX;
        for &task in &self.thawed {
            let known = &self.tasks[task.index()];
            let (Some(limit), Some(before)) = (known.limit, known.used) else { continue };
            if on.engine.place_of(task).is_some() || !known.ranked {
                continue;
            }
            let used = on.actuator.cpu_time(on.slots[task.index()].group).map_or(Span::ZERO, |used| used - before);
            if used >= limit {
                return Some(task);
            }
            self.due = self.due.min(now + (limit - used).max(on.actuator.grain()));
        }
        None
    }

    #[cfg(test)]
    fn is_by_freezing(&self, task: TaskId) -> bool {
        self.tasks[task.index()].several
    }
}
