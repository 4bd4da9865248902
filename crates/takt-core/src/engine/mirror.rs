//! An engine that mirrors another one, for a policy in an address space of its own: it steps nothing, and only shows its policy the state that it is
//! handed.

use super::step::Engine;
use crate::model::{Invalid, ResourceId, System, TaskId, Terms};
use crate::policy::state::State;
use crate::policy::{Act, Assignment, Context, Event, Policy, TaskView};
use crate::record::Place;
use crate::time::Time;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The instant at which a policy is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The instant.
    pub at: Time,
    /// The number of the decision that is to come ([`Context::round`]).
    pub round: u64,
    /// Whether the decision before stands ([`Context::stands`]).
    pub stands: bool,
}

/// A policy, and the state of the engine that it schedules for.
pub struct Mirror {
    engine: Engine,
    acts: usize,
}

impl Mirror {
    /// The policy sees this system, in which nothing has happened. It may do so much between two answers: further acts allocate.
    ///
    /// # Errors
    /// When the system breaks a rule of [`System::validate`].
    pub fn new(system: System, policy: Box<dyn Policy>, acts: usize) -> Result<Mirror, Invalid> {
        let mut engine = Engine::with_policy(system, policy)?;
        engine.state.acts = Some(Vec::with_capacity(acts));
        // A decision is handed over as a whole.
        engine.decision.takes_changes = false;
        Ok(Mirror { engine, acts })
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &dyn Policy {
        &*self.engine.policy
    }

    /// How many acts have room.
    #[must_use]
    pub fn room(&self) -> usize {
        self.acts
    }

    /// The instant at which the policy is asked next. Its earlier acts are dropped.
    pub fn at(&mut self, now: Now) {
        let state = &mut self.engine.state;
        (state.now, state.round, state.own_work_begins) = (now.at, now.round, !now.stands);
        state.acts.iter_mut().for_each(Vec::clear);
        self.engine.decision.clear();
    }

    /// The task has changed.
    pub fn task(&mut self, task: TaskId, view: &TaskView) {
        self.engine.state.take_view(task, view);
    }

    /// The task that runs on a CPU, by the index of that.
    pub fn cpu(&mut self, cpu: usize, task: Option<TaskId>) {
        self.engine.state.cpus[cpu].task = task;
    }

    /// The holder of a resource, and the tasks that wait for it, in the order of asking.
    pub fn resource(&mut self, resource: ResourceId, owner: Option<TaskId>, waiters: impl Iterator<Item = TaskId>) {
        let held = &mut self.engine.state.resources[usize::from(resource.0)];
        held.owner = owner;
        held.waiters.clear();
        held.waiters.extend(waiters);
    }

    /// Starts the policy ([`Policy::start`]).
    pub fn start(&mut self) {
        let Engine { policy, state, .. } = &mut self.engine;
        policy.start(&mut Context { state, sink: &mut () });
        state.events.clear();
    }

    /// Delivers an event ([`Policy::event`]).
    pub fn event(&mut self, event: &Event) {
        let Engine { policy, state, .. } = &mut self.engine;
        policy.event(event, &mut Context { state, sink: &mut () });
        state.events.clear();
    }

    /// Asks for a decision about these CPUs ([`Policy::decide`]).
    pub fn decide(&mut self, lent: &[Place]) -> &[Assignment] {
        let Engine { policy, state, decision, .. } = &mut self.engine;
        policy.decide(lent, &mut Context { state, sink: &mut () }, decision);
        decision.assignments()
    }

    /// Asks whether the task can have these terms ([`Policy::admits`]).
    pub fn admits(&mut self, task: TaskId, terms: &Terms) -> bool {
        let Engine { policy, state, .. } = &mut self.engine;
        policy.admits(task, terms, &Context { state, sink: &mut () })
    }

    /// The acts of the policy since it was last asked.
    #[must_use]
    pub fn acts(&self) -> &[Act] {
        let State { acts, .. } = &self.engine.state;
        acts.as_deref().unwrap_or_default()
    }
}
