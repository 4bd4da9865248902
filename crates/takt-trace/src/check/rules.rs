//! Rules about handlers, resources and rounds.

use super::checker::Checker;
use super::finding::Finding;
use takt_core::model::{ResourceId, TaskId};
use takt_core::record::JobId;
use takt_core::time::Span;

impl Checker<'_> {
    pub(super) fn settle_circle(&mut self, told: Option<(TaskId, ResourceId)>) {
        let due = self.cycle.take();
        if due == told {
            return;
        }
        if let Some((task, resource)) = due {
            let resource = self.trace.header.resource(resource);
            self.find(
                task,
                "deadlock",
                format!("its request for {resource} closes a cycle, and no deadlock is recorded"),
            );
        }
        if let Some((task, resource)) = told {
            let resource = self.trace.header.resource(resource);
            self.find(task, "deadlock", format!("a deadlock is recorded at {resource}, but no cycle was closed"));
        }
    }

    pub(super) fn settle_round(&mut self) {
        let Some(round) = self.round.take() else { return };
        let off = (round.measured - round.bursts).ns().abs();
        if off > self.tolerance.ns() {
            let place = crate::names::cpus_title(&self.cpus(round.place));
            let message =
                format!("a round of {place} lasted {}, but its bursts sum to {}", round.measured, round.bursts);
            self.findings.push(Finding { at: round.at, task: None, rule: "round", message });
        }
    }

    pub(super) fn burst(&mut self, task: TaskId, measured: Span) {
        let at = self.at;
        match self.round.as_mut().filter(|round| round.at == at) {
            None => self.find(task, "round", "a burst belongs to no round".into()),
            Some(round) => {
                let again = round.tasks.contains(&task);
                round.tasks.push(task);
                round.bursts += measured;
                if again {
                    self.find(task, "round", "it has two bursts in one round".into());
                }
            }
        }
    }

    pub(super) fn request(&mut self, task: TaskId, resource: ResourceId, granted: bool) {
        let name = self.trace.header.resource(resource);
        let owner = self.owners.get(&resource).copied().filter(|owner| *owner != task);
        match (granted, owner) {
            (true, Some(owner)) => {
                let message = format!("it gets {name}, which {} holds", self.name(owner));
                self.find(task, "resource", message);
            }
            (false, None) => self.find(task, "resource", format!("it is refused {name}, which no other job holds")),
            _ => {}
        }
        if granted {
            self.waited(task);
            self.owners.insert(resource, task);
            self.tasks[task.index()].waits_for = None;
        } else {
            self.tasks[task.index()].waits_for = Some((resource, self.at));
            if self.closes_cycle(task) {
                self.cycle = Some((task, resource));
            }
        }
    }

    /// Whether the task waits for itself through those that hold what the others wait for.
    pub(super) fn closes_cycle(&self, task: TaskId) -> bool {
        let next = |at: &TaskId| {
            let (resource, _) = self.tasks[at.index()].waits_for?;
            self.owners.get(&resource).copied()
        };
        std::iter::successors(next(&task), next).take(self.tasks.len()).any(|owner| owner == task)
    }

    pub(super) fn give_back(&mut self, task: TaskId, resource: ResourceId) {
        if self.owners.get(&resource) != Some(&task) {
            let name = self.trace.header.resource(resource);
            self.find(task, "resource", format!("it unlocks {name} without holding it"));
            return;
        }
        self.owners.remove(&resource);
    }

    /// The task's request is withdrawn: it must have waited for that resource, and not have run since.
    pub(super) fn withdraw(&mut self, task: TaskId, resource: ResourceId) {
        self.waited(task);
        let waited = self.tasks[task.index()].waits_for.take();
        if waited.is_none_or(|(waited, _)| waited != resource) {
            let name = self.trace.header.resource(resource);
            self.find(task, "resource", format!("it withdraws a request for {name} without waiting for it"));
        }
    }

    /// The task runs no more, or waits no more: it must not have run on since it asked.
    pub(super) fn waited(&mut self, task: TaskId) {
        let state = &self.tasks[task.index()];
        if let (Some((resource, since)), Some(_)) = (state.waits_for, state.running)
            && self.at > since
        {
            let name = self.trace.header.resource(resource);
            self.find(
                task,
                "resource",
                format!("it continues to run for {} while it waits for {name}", self.at - since),
            );
        }
    }

    pub(super) fn handler(&mut self, task: TaskId, job: JobId) {
        let at = self.at;
        let state = &mut self.tasks[task.index()];
        let due = state.aborted && state.last_finished == Some((job, at));
        state.aborted = false;
        state.handler = Some(job);
        // Its budget is another one.
        state.budget = None;
        if !due {
            self.find(task, "handler", format!("a handler of job {job} begins that was not aborted just before"));
        }
    }

    pub(super) fn handler_end(&mut self, task: TaskId, job: JobId, consumed: Span) {
        self.judge_budget(task, job, consumed);
        let at = self.at;
        let state = &mut self.tasks[task.index()];
        let ended = state.handler.take_if(|h| *h == job).is_some();
        state.last_finished = Some((job, at));
        state.waits_for = None;
        if !ended {
            self.find(task, "handler", format!("a handler of job {job} ends that has not begun"));
        }
    }
}
