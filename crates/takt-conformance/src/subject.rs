//! The policies that a thread tries, and what is known of their orders.

use std::cell::RefCell;
use takt_core::engine::Engine;
use takt_core::model::{Invalid, PolicySpec, System, Task};
use takt_core::policy::{Entry, Registry};
use takt_core::time::{Span, Time};

/// A job that is ready, as a [`Statement`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// The instant of the step that has just been made.
    pub now: Time,
    /// The policy in the form that is tried, with its settings.
    pub policy: PolicySpec,
    /// Its task, with the terms that hold now: mode changes and granted calls have changed the description.
    pub task: &'a Task,
    /// Whether the job was aborted and its handler is ready.
    pub in_handler: bool,
    /// Its release.
    pub release: Time,
    /// Its absolute deadline.
    pub deadline: Option<Time>,
    /// Its remaining declared runtime.
    pub left: Span,
}

/// The least and the most that a job's rank may be: the lowest rank is first. Records do not show every instant at which a policy
/// notices something, so a policy is at fault only if a job waits that is ahead in any case. Between equals the earlier release
/// decides, and then the lower task number.
pub type Bounds = (i64, i64);

/// The order of a policy, stated a second time; `None` where it cannot be said of this job.
pub type Statement = fn(&Waiting<'_>) -> Option<Bounds>;

/// The work of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) registry: Registry,
    /// By plain name.
    pub(crate) statements: Vec<(&'static str, Statement)>,
}

thread_local! {
    static SUBJECT: RefCell<Subject> = RefCell::new(Subject::default());
    /// Policies with a fault, each under the name of the right one.
    static MUTANTS: RefCell<Vec<&'static Entry>> = const { RefCell::new(Vec::new()) };
}

/// Another policy with a fault.
pub(crate) fn add_mutant(entry: &'static Entry) {
    MUTANTS.with_borrow_mut(|mutants| mutants.push(entry));
}

/// An engine for a system, whose policy may be a mutant.
pub(crate) fn engine(system: System) -> Result<Engine, Invalid> {
    let registry = with(|subject| subject.registry.clone());
    let is_it = |entry: &&&Entry| std::ptr::eq(&raw const entry.profile, system.policy.profile);
    let mutant = MUTANTS.with_borrow(|mutants| mutants.iter().find(is_it).copied());
    let registry = match mutant {
        Some(mutant) => registry.with(mutant),
        None => registry,
    };
    Engine::with_registry(system, registry)
}

/// Calls `f` with this thread's subject, which must not be changed meanwhile.
pub(crate) fn with<T>(f: impl FnOnce(&Subject) -> T) -> T {
    SUBJECT.with_borrow(f)
}

/// Tries something with this subject.
pub(crate) fn trying<T>(subject: &Subject, f: impl FnOnce() -> T) -> T {
    let before = SUBJECT.replace(subject.clone());
    let result = f();
    SUBJECT.set(before);
    result
}

/// The stated order of the policy with this name.
pub(crate) fn statement(plain: &str) -> Option<Statement> {
    with(|subject| subject.statements.iter().find(|(name, _)| *name == plain).map(|(_, statement)| *statement))
}

/// Every policy of the registry in each of its forms.
pub(crate) fn specs() -> Vec<PolicySpec> {
    with(|subject| {
        let forms =
            |entry: &'static Entry| entry.profile.scopes.iter().map(|&scope| PolicySpec::new(&entry.profile, scope));
        subject.registry.entries().flat_map(forms).collect()
    })
}
