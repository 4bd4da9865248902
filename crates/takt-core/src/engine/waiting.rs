//! Jobs that wait: for themselves, for a resource, and for each other.

use crate::input::{Answer, Question, Reply};
use crate::model::{Locking, ResourceId, TaskId};
use crate::policy::Event;
use crate::policy::state::{Phase, State};
use crate::record::{RecordKind, Sink};
use crate::time::Span;

impl State {
    /// Whether the task waits for itself through those that hold what the others wait for. O(tasks).
    pub(super) fn closes_cycle(&self, task: TaskId) -> bool {
        let mut at = task;
        for _ in 0..self.runs.len() {
            let Some(resource) = self.runs[at.index()].waits_for else { return false };
            let Some(owner) = self.resources[usize::from(resource.0)].owner else { return false };
            if owner == task {
                return true;
            }
            at = owner;
        }
        false
    }

    pub(super) fn block(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let now = self.now;
        let run = &mut self.runs[task.index()];
        if run.phase != Phase::Ready {
            return;
        }
        run.account(now);
        run.phase = Phase::Blocked;
        let (job, consumed) = (run.job, run.consumed);
        // A budget that ends in this very instant is exhausted all the same.
        if run.budget.is_none_or(|left| left + run.notice() > Span::ZERO) {
            self.agenda.remove(task.index());
        }
        self.record(sink, RecordKind::Block { task, job });
        self.events.push(Event::Block { task, consumed });
    }

    /// The task has no program until it is woken. A job that was dispatched has not begun.
    pub(super) fn hold(&mut self, task: TaskId, sink: &mut dyn Sink) {
        self.runs[task.index()].at = None;
        if !self.held.contains(&task) {
            self.held.push(task);
        }
        self.block(task, sink);
    }

    /// Blocks the jobs that were released since then of tasks without a program.
    pub(super) fn block_held(&mut self, sink: &mut dyn Sink) {
        for index in 0..self.held.len() {
            self.block(self.held[index], sink);
        }
    }

    pub(super) fn wake(&mut self, task: TaskId, sink: &mut dyn Sink) {
        let now = self.now;
        let run = &mut self.runs[task.index()];
        if run.phase != Phase::Blocked || run.waits_for.is_some() {
            return;
        }
        run.phase = Phase::Ready;
        run.since = now;
        let job = run.job;
        self.record(sink, RecordKind::Wake { task, job });
        self.events.push(Event::Wake { task });
        if self.runs[task.index()].place.is_some() {
            self.arm_budget(task, now, Span::ZERO);
        }
    }

    /// The task asks for a resource. Only a job can hold something, and one that waits cannot ask again: what a task holds goes
    /// back with its job.
    pub(super) fn request(&mut self, task: TaskId, resource: ResourceId, sink: &mut dyn Sink) {
        let run = &self.runs[task.index()];
        let mut reply = |answer| self.replies.push(Reply { task, question: Question::Resource(resource), answer });
        if !run.has_job() || run.waits_for.is_some() {
            return reply(Answer::Refused);
        }
        let held = &mut self.resources[usize::from(resource.0)];
        let granted = *held.owner.get_or_insert(task) == task;
        reply(if granted { Answer::Granted } else { Answer::Waits });
        if !granted {
            held.waiters.push_back(task);
            self.runs[task.index()].waits_for = Some(resource);
        }
        self.record(sink, RecordKind::Lock { task, resource, granted });
        if !granted && self.closes_cycle(task) {
            self.deadlocks += 1;
            self.record(sink, RecordKind::Deadlock { task, resource });
        }
        self.events.push(Event::Lock { task, resource, granted });
        if !granted {
            self.block(task, sink);
        }
    }

    /// The task waits for the resource no longer, if it did. Its policy learns that from the wake-up: a granted request comes with an event
    /// of its own before that. O(waiters).
    #[cfg(feature = "withdrawals")]
    pub(super) fn withdraw(&mut self, task: TaskId, resource: ResourceId, sink: &mut dyn Sink) {
        let Some(waited) = self.runs[task.index()].waits_for.take_if(|waited| *waited == resource) else { return };
        self.resources[usize::from(waited.0)].waiters.retain(|waiter| *waiter != task);
        self.record(sink, RecordKind::Withdraw { task, resource });
        self.wake(task, sink);
    }

    /// The task gives a resource back, if it holds it, and the next waiting task holds it.
    pub(super) fn give_back(&mut self, task: TaskId, resource: ResourceId, sink: &mut dyn Sink) {
        let held = &mut self.resources[usize::from(resource.0)];
        if held.owner != Some(task) {
            return;
        }
        let next = match self.system.locking {
            Locking::Fifo => 0,
            // The most urgent; among equals, who asked first.
            Locking::Inheritance | Locking::Ceiling => {
                let waiters = held.waiters.iter().enumerate();
                waiters.min_by_key(|(_, t)| self.runs[t.index()].urgency).map_or(0, |(i, _)| i)
            }
        };
        held.owner = held.waiters.remove(next);
        let next = held.owner;
        self.record(sink, RecordKind::Unlock { task, resource });
        self.events.push(Event::Unlock { task, resource });
        if let Some(next) = next {
            self.runs[next.index()].waits_for = None;
            self.replies.push(Reply { task: next, question: Question::Resource(resource), answer: Answer::Granted });
            self.record(sink, RecordKind::Lock { task: next, resource, granted: true });
            self.events.push(Event::Lock { task: next, resource, granted: true });
            self.wake(next, sink);
        }
    }
}
