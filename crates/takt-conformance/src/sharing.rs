//! The account of shared resources: who has one, who waits for it, and who must get it next.

use takt_core::model::{ResourceId, TaskId};

/// The next record that must come.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Next {
    /// One of these is granted the resource.
    Grant(ResourceId, Vec<TaskId>),
    /// The request closes a cycle.
    Deadlock(TaskId, ResourceId),
}

#[derive(Debug, Default)]
pub(crate) struct Sharing {
    owner: Vec<Option<TaskId>>,
    /// In the order of asking.
    waiters: Vec<Vec<TaskId>>,
    pub(crate) next: Option<Next>,
    pub(crate) deadlocks: u64,
}

impl Sharing {
    pub(crate) fn new(resources: u16) -> Sharing {
        let n = usize::from(resources);
        Sharing { owner: vec![None; n], waiters: vec![Vec::new(); n], ..Sharing::default() }
    }

    pub(crate) fn waits_for(&self, task: TaskId) -> Option<ResourceId> {
        self.waiters.iter().position(|w| w.contains(&task)).map(|r| ResourceId(r as u16))
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.owner.iter().copied().flatten()
    }

    /// The tasks that wait for a resource of this task.
    pub(crate) fn wait_for(&self, task: TaskId) -> impl Iterator<Item = TaskId> + '_ {
        let held = (0..self.owner.len()).filter(move |r| self.owner[*r] == Some(task));
        held.flat_map(|r| self.waiters[r].iter().copied())
    }

    /// The holder of the resource for which the task waits.
    pub(crate) fn holder(&self, task: TaskId) -> Option<TaskId> {
        self.waits_for(task).and_then(|r| self.owner[usize::from(r.0)])
    }

    /// The cycle in which the task waits for itself, through those that hold what the others wait for; empty if there is none.
    pub(crate) fn cycle(&self, task: TaskId) -> Vec<TaskId> {
        let mut seen = vec![task];
        while let Some(at) = self.holder(seen[seen.len() - 1]) {
            if at == task {
                return seen;
            }
            if seen.contains(&at) {
                break;
            }
            seen.push(at);
        }
        Vec::new()
    }

    pub(crate) fn requested(&mut self, task: TaskId, resource: ResourceId, granted: bool) {
        let r = usize::from(resource.0);
        assert_eq!(self.waits_for(task).filter(|w| *w != resource), None, "{task:?} asks while it waits");
        if let Some(Next::Grant(handed, to)) = self.next.take() {
            assert!(granted && resource == handed && to.contains(&task), "{handed:?} goes to {task:?}, not to {to:?}");
            self.waiters[r].retain(|t| *t != task);
            self.owner[r] = Some(task);
        } else if granted {
            assert!(
                self.owner[r].is_none_or(|o| o == task),
                "{resource:?} of {:?} is given to {task:?}",
                self.owner[r]
            );
            assert!(self.waits_for(task).is_none(), "{task:?} overtakes itself");
            self.owner[r] = Some(task);
        } else {
            assert!(self.owner[r].is_some_and(|o| o != task), "{task:?} waits for {resource:?} which is free");
            self.waiters[r].push(task);
            if !self.cycle(task).is_empty() {
                self.next = Some(Next::Deadlock(task, resource));
            }
        }
    }

    /// The task withdraws its request.
    pub(crate) fn withdrawn(&mut self, task: TaskId, resource: ResourceId) {
        assert_eq!(self.waits_for(task), Some(resource), "{task:?} withdraws another request");
        self.waiters[usize::from(resource.0)].retain(|t| *t != task);
    }

    /// `first` picks from those that wait, in the order of asking, who may be next.
    pub(crate) fn returned(&mut self, task: TaskId, resource: ResourceId, first: impl Fn(&[TaskId]) -> Vec<TaskId>) {
        let r = usize::from(resource.0);
        assert_eq!(self.owner[r].take(), Some(task), "{resource:?}");
        if !self.waiters[r].is_empty() {
            self.next = Some(Next::Grant(resource, first(&self.waiters[r])));
        }
    }

    pub(crate) fn deadlocked(&mut self, task: TaskId, resource: ResourceId) {
        assert_eq!(self.next.take(), Some(Next::Deadlock(task, resource)));
        self.deadlocks += 1;
    }

    /// The task's job is over: it waits for nothing any more.
    pub(crate) fn over(&mut self, task: TaskId) {
        self.waiters.iter_mut().for_each(|w| w.retain(|t| *t != task));
    }

    /// After a step: each task that holds or waits has a job, and none waits for a free resource.
    pub(crate) fn settled(&self, has_job: impl Fn(TaskId) -> bool) {
        assert_eq!(self.next, None);
        for (owner, waiters) in self.owner.iter().zip(&self.waiters) {
            assert!(owner.is_some() || waiters.is_empty(), "{waiters:?} wait for a free resource");
            assert!(owner.iter().chain(waiters).all(|t| has_job(*t)), "a task without a job: {self:?}");
        }
    }
}
