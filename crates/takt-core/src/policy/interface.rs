//! The policy trait.

use super::context::Context;
use super::decision::{Decision, Exchange};
use super::event::Event;
use super::table::PreparedTable;
use crate::cpus::CpuSet;
use crate::model::{Invalid, PolicySpec, System, TaskId, Terms};
use crate::record::Place;
#[cfg(feature = "order")]
use crate::time::Span;
#[cfg(feature = "power")]
use crate::time::Time;
use alloc::boxed::Box;

/// A job that may run, as [`Policy::order`] shows it.
#[cfg(feature = "order")]
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// Its task.
    pub task: TaskId,
    /// The single-CPU places of its queue, in ascending order.
    pub places: &'a [Place],
    /// CPU time after which the policy has to know what the job has consumed, if it runs from now on; `None` without a limit.
    pub limit: Option<Span>,
}

/// A scheduling policy.
///
/// A policy that grants no budgets of its own grants each released job that of its task ([`Context::grant_own`]); the engine enforces it.
/// Conformance finds a policy that forgets.
///
/// It allocates nothing after it is built, keeps no clock, and bases every decision on the events and on
/// what [`Context`] shows. Policies compose: one that hosts others passes on the events of their tasks and
/// asks them to decide over the CPUs it lends them.
pub trait Policy: Send {
    /// Takes over from the engine's current state: at the start of the schedule, or in the middle of it when
    /// policies are switched. Jobs that are ready now are found through the context.
    fn start(&mut self, cx: &mut Context<'_>);

    /// Learns of one event.
    fn event(&mut self, event: &Event, cx: &mut Context<'_>);

    /// Says who runs on the single-CPU places `lent` (all CPUs of the machine for the outermost policy).
    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision);

    /// In place of [`Policy::decide`]: the difference to the decision before, if that is one job at most on all of `lent`. `None` asks for a decision,
    /// and must change nothing. Both answers have the same effect; this one costs less. The engine asks only where [`Decision::takes_changes`], and
    /// a policy may only answer where the decision before stands ([`Context::stands`]).
    #[inline]
    fn exchange(&mut self, lent: &[Place], cx: &mut Context<'_>) -> Option<Exchange> {
        let _ = (lent, cx);
        None
    }

    /// The policy as a value whose type can be asked for, where the engine has a form for that type ([`Engine::lend_policy`](crate::engine::Engine::lend_policy)).
    #[doc(hidden)]
    fn any_mut(&mut self) -> Option<&mut dyn core::any::Any> {
        None
    }

    /// Whether decisions of its hosted policies reach the engine as they are, so that they may keep CPUs ([`Decision::keep`]). A host that reads or
    /// alters them says no, and so does, without more, every policy; its hosted policies then decide about all of their CPUs.
    fn passes_changes(&self) -> bool {
        false
    }

    /// How many timers it uses, hosted policies included.
    fn timers(&self) -> u16 {
        0
    }

    /// The CPU that the task belongs to: its own one, or the first of those that share the queue that it waits in. `None` where all
    /// CPUs share one, or the policy has no such queues. Drivers ask for a task that has not run yet.
    fn home(&self, task: TaskId) -> Option<Place> {
        let _ = task;
        None
    }

    /// Nothing can start on this idle CPU before that instant. `None` where something may start at any time. Asked only where there is a
    /// power policy.
    #[cfg(feature = "power")]
    fn idle_until(&self, cpu: Place, cx: &Context<'_>) -> Option<Time> {
        let _ = (cpu, cx);
        None
    }

    /// Shows each job once that may run, blocked ones included, for a driver whose kernel switches to the next job when a job blocks. Of two
    /// jobs that may use the same CPU, the more urgent one comes first; a blocked job comes where it would queue if it woke up now.
    /// So the ready jobs of a queue of m CPUs that run are the first m, as far as affinities allow.
    ///
    /// A policy without such an order shows none, and so does, without more, every policy: then only chosen jobs run. O(jobs).
    #[cfg(feature = "order")]
    fn order(&self, cx: &Context<'_>, show: &mut dyn FnMut(Standing<'_>)) {
        let _ = (cx, show);
    }

    /// Whether it grants budgets of CPU time to tasks that have none of their own, so that a driver should measure them all.
    /// Only the policies that it hosts now count. A switch can change it.
    fn meters(&self) -> bool {
        false
    }

    /// Takes over changed settings without forgetting what it knows. `false`: it cannot, and is built again.
    fn configure(&mut self, spec: &PolicySpec, cx: &mut Context<'_>) -> bool {
        let _ = (spec, cx);
        false
    }

    /// Whether the task can have these terms, for which its job asks ([`crate::engine::Input::Call`]). A policy that keeps no
    /// guarantee says yes.
    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        let _ = (task, terms, cx);
        true
    }

    /// Builds another policy for one of its domains ([`crate::model::System::domains`]) in this system; this may allocate.
    ///
    /// # Errors
    /// When that policy cannot schedule the domain, or this one has no such domain.
    fn prepare_domain(&self, domain: usize, to: &PolicySpec, system: &System) -> Result<Box<dyn Policy>, Invalid> {
        let _ = (domain, to, system);
        Err(Invalid::Unsuitable("this policy has no domains"))
    }

    /// Replaces the policy of one of its domains by `with`, which [`Policy::prepare_domain`] built, and returns the previous policy.
    /// Allocates nothing.
    ///
    /// # Errors
    /// Returns `with`, and changes nothing, when it does not fit here.
    fn replace_domain(
        &mut self,
        domain: usize,
        with: (PolicySpec, Box<dyn Policy>),
        cx: &mut Context<'_>,
    ) -> Result<Box<dyn Policy>, Box<dyn Policy>> {
        let _ = (domain, cx);
        Err(with.1)
    }

    /// Builds a window table of this system ([`crate::model::System::tables`]) for [`Policy::replace_table`]. `places` are those of the
    /// engine. This may allocate.
    ///
    /// # Errors
    /// When there is no such table, it cannot replace the present one, or this policy has no tables.
    fn prepare_table(&self, to: u16, system: &System, places: &[CpuSet]) -> Result<PreparedTable, Invalid> {
        let _ = (to, system, places);
        Err(Invalid::Unsuitable("this policy has no window table"))
    }

    /// This table takes over at the end of the major frame. Returns a table that it supersedes, or that was replaced before. Allocates
    /// nothing.
    ///
    /// # Errors
    /// Returns `next` where this policy has no tables.
    fn replace_table(&mut self, next: PreparedTable) -> Result<Option<PreparedTable>, PreparedTable> {
        Err(next)
    }

    /// As both in one, for an input of the engine ([`crate::engine::Input::Table`]). A table that cannot take over changes nothing.
    fn table(&mut self, to: u16, cx: &mut Context<'_>) {
        let _ = (to, cx);
    }
}
