//! Tasks that are added to a running engine, and removed from it.
//!
//! Both take two steps, like a switch of the policy. Preparation allocates and may fail: it builds the changed system and its policy.
//! Installation does not allocate while there is room ([`Engine::reserve`]). An added task has left until
//! [`Input::Enter`](crate::engine::Input::Enter), and only a task that has left can be removed, so neither step ends a job.

use super::step::Engine;
use crate::model::{Arrival, Invalid, System, Task, TaskId};
use crate::policy::state::{Phase, State, TaskState, Timer, slot_release};

/// The capacity of an engine. Without [`Engine::reserve`] it is the tasks of its system and the timers of its policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Tasks, those of its system included.
    pub tasks: usize,
    /// Timers of the policy.
    pub timers: u16,
}

/// A system with another set of tasks, and what is new in it.
pub(super) struct TaskSet {
    system: System,
    change: Change,
    /// Tasks that are added with the first one.
    #[cfg(feature = "additions")]
    others: alloc::vec::Vec<TaskId>,
}

#[derive(Clone, Copy)]
enum Change {
    Added(TaskId),
    Removed(TaskId),
}

impl Engine {
    /// The present capacity.
    #[must_use]
    pub fn room(&self) -> Room {
        Room { tasks: self.state.room, timers: self.state.timers.len() as u16 }
    }

    /// Raises the capacity to so many tasks and timers; it never shrinks. This allocates. O(tasks + timers).
    pub fn reserve(&mut self, room: Room) {
        let state = &mut self.state;
        let more = room.tasks.saturating_sub(state.room);
        if more > 0 {
            let (n, timers) = (state.room, state.timers.len());
            // Behind the budgets, the deadlines, and the releases.
            for at in [n, 2 * n + more, 3 * n + 2 * more + timers] {
                state.agenda.insert_slots(at, more);
            }
            state.make_lists(room.tasks);
            let most = room.tasks.min(state.cpus.len());
            self.commands.reserve(2 * most + room.tasks);
        }
        let state = &mut self.state;
        let timers = state.timers.len();
        let more = usize::from(room.timers).saturating_sub(timers);
        if more > 0 {
            state.agenda.insert_slots(2 * state.room + timers, more);
            state.timers.resize(timers + more, Timer::default());
        }
    }
}

impl TaskSet {
    /// That of a system with another task. O(size of the system).
    pub(super) fn with(system: &System, room: usize, task: Task, domain: Option<u16>) -> Result<TaskSet, Invalid> {
        let first = system.removed.first().copied();
        TaskSet::with_task(system, room, first, task, domain)
    }

    /// As [`TaskSet::with`]. The task receives the free number `id`, or the next one behind all tasks.
    pub(super) fn with_task(
        system: &System,
        room: usize,
        id: Option<TaskId>,
        task: Task,
        domain: Option<u16>,
    ) -> Result<TaskSet, Invalid> {
        if !system.windows.is_empty() || task.arrival == Arrival::Activated {
            return Err(Invalid::Unsuitable("a process of a window table is added with another table"));
        }
        let mut system = system.clone();
        let id = match id {
            None => {
                system.tasks.push(task);
                TaskId(system.tasks.len() as u32 - 1)
            }
            Some(id) => {
                let place = system.removed.binary_search(&id).map_err(|_| Invalid::Removed)?;
                system.removed.remove(place);
                system.tasks[id.index()] = task;
                id
            }
        };
        if system.tasks.len() > room {
            return Err(Invalid::NoRoom(room));
        }
        let domain = domain.map(|domain| system.domains.get_mut(usize::from(domain)).ok_or(Invalid::Domains));
        if let Some(domain) = domain.transpose()? {
            domain.tasks.push(id);
        }
        system.validate()?;
        Ok(TaskSet {
            system,
            change: Change::Added(id),
            #[cfg(feature = "additions")]
            others: alloc::vec::Vec::new(),
        })
    }

    /// This one with another task at the free number `id`, as its system describes it.
    #[cfg(feature = "additions")]
    pub(super) fn and(mut self, room: usize, id: TaskId, domain: Option<u16>) -> Result<TaskSet, Invalid> {
        let described = self.system.tasks.get(id.index()).cloned().ok_or(Invalid::Removed)?;
        let TaskSet { system, .. } = TaskSet::with_task(&self.system, room, Some(id), described, domain)?;
        self.others.push(id);
        Ok(TaskSet { system, ..self })
    }

    /// That of a system without this task, which is gone. O(size of the system).
    pub(super) fn without(system: &System, task: TaskId) -> Result<TaskSet, Invalid> {
        let place = system.removed.binary_search(&task).err();
        let Some(place) = place.filter(|_| system.windows.is_empty()) else {
            return Err(Invalid::Unsuitable("a task of a window table is removed with that table, and any task once"));
        };
        let mut system = system.clone();
        system.removed.insert(place, task);
        system.domains.iter_mut().for_each(|domain| domain.tasks.retain(|t| *t != task));
        system.validate()?;
        Ok(TaskSet {
            system,
            change: Change::Removed(task),
            #[cfg(feature = "additions")]
            others: alloc::vec::Vec::new(),
        })
    }

    pub(super) fn system(&self) -> &System {
        &self.system
    }

    pub(super) fn added(&self) -> Option<TaskId> {
        match self.change {
            Change::Added(task) => Some(task),
            Change::Removed(_) => None,
        }
    }
}

impl State {
    /// Allocates the lists that a step fills, for so many tasks.
    pub(super) fn make_lists(&mut self, tasks: usize) {
        self.room = tasks;
        // In one delivery a task's job ends at most once, its next job is released, and the task receives the one resource that it waits for.
        let events = 3 * tasks + 16;
        let most = tasks.min(self.cpus.len());
        // The lists of the last step are not read any more.
        self.due.clear();
        self.replies.clear();
        let more = tasks - self.runs.len();
        self.runs.reserve_exact(more);
        self.followers.reserve_exact(tasks - self.followers.len());
        let lists = [&mut self.due, &mut self.replace, &mut self.held];
        lists.into_iter().for_each(|list| list.reserve_exact(tasks - list.len()));
        self.replies.reserve_exact(2 * tasks + 16);
        self.events.reserve_exact(events - self.events.len());
        self.running.reserve_exact(most - self.running.len());
        for resource in &mut self.resources {
            resource.waiters.reserve_exact(tasks - resource.waiters.len());
            resource.users.reserve_exact(tasks - resource.users.len());
        }
    }

    /// Whether the set can be taken over: nothing that it was made from has changed but terms of tasks, and who was to be removed is
    /// still gone.
    pub(super) fn accepts(&self, set: &TaskSet) -> bool {
        let same = |old: &System, new: &System| {
            let domains = old.domains.iter().zip(&new.domains).all(|(old, new)| old.policy == new.policy);
            old.policy == new.policy && domains
        };
        let gone = match set.change {
            Change::Added(_) => true,
            Change::Removed(task) => self.runs[task.index()].is_gone(),
        };
        gone && same(&self.system, &set.system)
    }

    /// Takes over another set of tasks; the system of before stays in `set`. O(tasks).
    pub(super) fn take_task_set(&mut self, set: &mut TaskSet) {
        self.generation += 1;
        let added = set.added();
        for (index, (new, old)) in set.system.tasks.iter_mut().zip(&mut self.system.tasks).enumerate() {
            let task = TaskId(index as u32);
            #[cfg(feature = "additions")]
            let is_added = added == Some(task) || set.others.contains(&task);
            #[cfg(not(feature = "additions"))]
            let is_added = added == Some(task);
            // Its terms may have changed since the set was made.
            if !is_added {
                core::mem::swap(new, old);
            }
        }
        core::mem::swap(&mut self.system, &mut set.system);
        match set.change {
            Change::Added(task) => {
                self.take_task(task);
                #[cfg(feature = "additions")]
                set.others.iter().for_each(|other| self.take_task(*other));
            }
            Change::Removed(task) => {
                let slot = slot_release(self.room, self.timers.len() as u16, task.index());
                self.agenda.remove(slot);
                let run = &mut self.runs[task.index()];
                // One whose program has failed missed its jobs; it has none any more.
                self.failed -= usize::from(run.phase == Phase::Failed);
                run.phase = Phase::Gone;
                self.followers.retain(|(first, follower)| *first != task && *follower != task);
                self.resources.iter_mut().for_each(|resource| resource.users.retain(|user| *user != task));
            }
        }
        self.note_quiet();
    }

    /// The system describes a further task at this number.
    fn take_task(&mut self, task: TaskId) {
        let described = &self.system.tasks[task.index()];
        let run = TaskState::at_start(&described.arrival, false);
        for (r, resource) in self.resources.iter_mut().enumerate() {
            if described.program.locks(r) {
                let place = resource.users.partition_point(|user| *user < task);
                resource.users.insert(place, task);
            }
        }
        if let Arrival::Event { after: Some(first), .. } = described.arrival {
            self.followers.push((first, task));
        }
        // The earlier task of this number may have left while it was held.
        self.held.retain(|held| *held != task);
        self.replace.retain(|replaced| *replaced != task);
        match self.runs.get_mut(task.index()) {
            Some(old) => {
                // A late signal about the earlier task names none of the new one's jobs. Jobs of a list are numbered by it.
                let listed = matches!(described.arrival, Arrival::Listed { .. });
                let next_job = if listed { 0 } else { old.next_job };
                let before = core::mem::replace(old, TaskState { next_job, next_event: next_job, ..run }).counts;
                *self.departed.get_or_insert_default() += before;
            }
            None => self.runs.push(run),
        }
    }
}
