//! Policies with a fault on purpose, which the checks must find: one that runs another ready job than it should, and one that
//! leaves a CPU idle. And policies without a fault that are never asked for an exchange.

use crate::standing::{self, Order};
use crate::subject;
use takt_core::model::{Invalid, PolicySpec, System, TaskId, Terms};
use takt_core::policy::{Build, Context, Decision, Entry, Event, Exchange, Policy};
use takt_core::record::Place;

/// The fault of a policy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// Where it would start a job, the last one of its ready queue runs.
    Reversed,
    /// It leaves CPUs idle at every second instant.
    Idle,
}

/// The difference to the policy of the registry.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Difference {
    Fault(Fault),
    /// It has no exchange, so that the engine asks for each decision. That has no effect.
    NoExchange,
    /// Its exchanges leave out the job that comes.
    #[cfg(test)]
    HalfExchange,
}

/// The policy of the registry with a difference.
struct Variant {
    policy: Box<dyn Policy>,
    tasks: Vec<TaskId>,
    difference: Difference,
}

impl Variant {
    /// The ready job that would be the last of those that wait where this one runs.
    fn other(&self, than: TaskId, place: Place, decision: &Decision, cx: &Context<'_>) -> Option<TaskId> {
        let home = self.policy.home(than);
        let waits = |t: &&TaskId| {
            cx.is_ready(**t)
                && cx.may_run(**t, place)
                && self.policy.home(**t) == home
                && decision.assignments().iter().all(|a| a.task != **t)
        };
        self.tasks.iter().rfind(waits).copied()
    }
}

impl Policy for Variant {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.policy.start(cx);
    }
    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        self.policy.event(event, cx);
    }
    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let Difference::Fault(fault) = self.difference else { return self.policy.decide(lent, cx, decision) };
        let mut right = Decision::default();
        self.policy.decide(lent, cx, &mut right);
        for assignment in right.assignments() {
            let (task, place) = (assignment.task, assignment.place);
            let starts = cx.place_of(task) != Some(place);
            let other = match fault {
                Fault::Reversed if starts => self.other(task, place, &right, cx),
                Fault::Reversed => None,
                Fault::Idle if starts && cx.now().ns() % 2 == 0 => continue,
                Fault::Idle => None,
            };
            let taken = |t: TaskId| decision.assignments().iter().any(|a| a.task == t);
            match (other.filter(|t| !taken(*t)), assignment.budget) {
                (Some(other), _) => {
                    // Its budget is not the fault.
                    if cx.budget_left(other).is_none() {
                        cx.grant_own(other);
                    }
                    decision.run(other, place);
                }
                (None, Some(budget)) => decision.run_with(task, place, budget),
                (None, None) => decision.run(task, place),
            }
        }
    }
    fn exchange(&mut self, lent: &[Place], cx: &mut Context<'_>) -> Option<Exchange> {
        match self.difference {
            #[cfg(test)]
            Difference::HalfExchange => {
                self.policy.exchange(lent, cx).map(|exchange| Exchange { comes: None, ..exchange })
            }
            _ => {
                let _ = (lent, cx);
                None
            }
        }
    }
    fn passes_changes(&self) -> bool {
        !matches!(self.difference, Difference::Fault(_)) && self.policy.passes_changes()
    }
    fn timers(&self) -> u16 {
        self.policy.timers()
    }
    fn home(&self, task: TaskId) -> Option<Place> {
        self.policy.home(task)
    }
    fn meters(&self) -> bool {
        self.policy.meters()
    }
    fn configure(&mut self, spec: &PolicySpec, cx: &mut Context<'_>) -> bool {
        self.policy.configure(spec, cx)
    }
    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        self.policy.admits(task, terms, cx)
    }
    fn prepare_domain(&self, domain: usize, to: &PolicySpec, system: &System) -> Result<Box<dyn Policy>, Invalid> {
        self.policy.prepare_domain(domain, to, system)
    }
    fn replace_domain(
        &mut self,
        domain: usize,
        with: (PolicySpec, Box<dyn Policy>),
        cx: &mut Context<'_>,
    ) -> Result<Box<dyn Policy>, Box<dyn Policy>> {
        self.policy.replace_domain(domain, with, cx)
    }
}

fn variant(build: &Build<'_>, difference: Difference) -> Result<Box<dyn Policy>, Invalid> {
    let entry = entry(build.spec);
    let policy = (entry.build)(&Build { spec: PolicySpec { profile: &entry.profile, ..build.spec }, ..*build })?;
    Ok(Box::new(Variant { policy, tasks: build.tasks.to_vec(), difference }))
}

/// The policy of the registry.
fn entry(spec: PolicySpec) -> &'static Entry {
    subject::with(|subject| subject.registry.entry(spec.profile.name)).expect("it is of the registry")
}

/// The policy with a difference, under the same name.
pub(crate) fn with(spec: PolicySpec, difference: Difference) -> PolicySpec {
    let build = match difference {
        Difference::Fault(Fault::Reversed) => |b: &Build<'_>| variant(b, Difference::Fault(Fault::Reversed)),
        Difference::Fault(Fault::Idle) => |b: &Build<'_>| variant(b, Difference::Fault(Fault::Idle)),
        Difference::NoExchange => |b: &Build<'_>| variant(b, Difference::NoExchange),
        #[cfg(test)]
        Difference::HalfExchange => |b: &Build<'_>| variant(b, Difference::HalfExchange),
    };
    let entry: &'static Entry = Box::leak(Box::new(Entry { build, ..*entry(spec) }));
    subject::add_mutant(entry);
    PolicySpec { profile: &entry.profile, ..spec }
}

/// Whether a policy leaves no CPU idle in any of its forms, so that the checks can know.
pub(crate) fn conserves(spec: PolicySpec) -> bool {
    match standing::order(spec.profile) {
        None | Some(Order::Stated(_)) => spec.is_work_conserving(),
        Some(order) => !matches!(order, Order::Fair | Order::Table | Order::Guests),
    }
}
