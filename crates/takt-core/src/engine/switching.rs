//! The change of one policy for another, or of a setting, in the middle of a run.
//!
//! Policies of domains are prepared and installed alone, and the other domains keep their state. A preparation for the whole machine is
//! outdated once a domain has another policy. An installation is recorded as a switch if the policy is among the alternatives of the
//! system. A test counts the calls of the allocator for every pair of policies.

use super::step::{Engine, deliver};
use super::task_set::{Room, TaskSet};
#[cfg(feature = "additions")]
use crate::input::Input;
use crate::model::{Invalid, PolicySpec, System, TABLES_MAX, Task, TaskId, Terms, WindowTable};
use crate::policy::state::{State, TaskState};
use crate::policy::{Build, Context, Policy, PreparedTable};
use crate::record::{RecordKind, Sink};
use crate::time::Time;
use alloc::boxed::Box;

/// A policy that was built for the system of an engine, to be installed in it, alone or with another set of tasks.
pub struct Prepared {
    pub(super) spec: PolicySpec,
    /// The domain that it was built for, if not for the whole machine.
    pub(super) domain: Option<usize>,
    pub(super) policy: Box<dyn Policy>,
    /// The set of tasks that it was built for ([`State::generation`](crate::policy::state::State::generation)).
    pub(super) generation: u64,
    /// How often a domain had received another policy by then.
    domain_switches: u64,
    pub(super) task_set: Option<Box<TaskSet>>,
}

impl Prepared {
    /// Which policy it is.
    #[must_use]
    pub fn spec(&self) -> PolicySpec {
        self.spec
    }

    /// How many timers the policy has.
    #[must_use]
    pub fn timers(&self) -> u16 {
        self.policy.timers()
    }

    /// The number of the task that comes with it, if one does ([`Engine::prepare_task`]).
    #[must_use]
    pub fn added(&self) -> Option<TaskId> {
        self.task_set.as_ref().and_then(|set| set.added())
    }
}

impl Engine {
    /// Builds a policy for the system as it is now, where allocation is allowed. To be installed in this engine, or in one of the
    /// same system ([`Engine::install`]).
    ///
    /// # Errors
    /// When the registry does not hold the policy, or it cannot schedule the system.
    pub fn prepare(&self, spec: PolicySpec) -> Result<Prepared, Invalid> {
        let policy = Build::whole(&self.state.system, &self.registry, |build| Build { spec, ..*build }.policy())?;
        Ok(self.prepared(spec, None, policy))
    }

    /// As [`Engine::prepare`], for one domain. The policies of the other domains keep their state when it is installed.
    ///
    /// # Errors
    /// When there is no such domain, the registry does not hold the policy, or it cannot schedule the domain. A policy that needs more timers
    /// than the alternatives of the system has to be one of these ([`System::alternatives`](crate::model::System::alternatives)).
    pub fn prepare_domain(&self, domain: u16, spec: PolicySpec) -> Result<Prepared, Invalid> {
        let policy = self.policy.prepare_domain(usize::from(domain), &spec, &self.state.system)?;
        Ok(self.prepared(spec, Some(usize::from(domain)), policy))
    }

    /// An engine of another system, with the policies that this one may be switched to. This allocates.
    ///
    /// # Errors
    /// As [`Engine::with_registry`].
    pub fn of_system(&self, system: System) -> Result<Engine, Invalid> {
        Engine::with_registry(system, self.registry.clone())
    }

    fn prepared(&self, spec: PolicySpec, domain: Option<usize>, policy: Box<dyn Policy>) -> Prepared {
        let State { generation, domain_switches, .. } = self.state;
        Prepared { spec, domain, policy, generation, domain_switches, task_set: None }
    }

    /// Prepares the system with one more task; in a system with domains it becomes the last task of `domain`. The task receives the lowest
    /// free number ([`Prepared::added`]), and has left until [`Input::Enter`](crate::engine::Input::Enter). The policy that is installed with
    /// it takes over all jobs, and restarts its internal state. Numbers of jobs continue those of the earlier task, except where arrivals
    /// are listed.
    ///
    /// # Errors
    /// When there is no room ([`Engine::reserve`]), the changed system breaks a rule of [`System::validate`](crate::model::System::validate), or the policy cannot
    /// schedule that. Tasks of window tables come with their tables.
    pub fn prepare_task(&self, task: Task, domain: Option<u16>) -> Result<Prepared, Invalid> {
        self.prepare_set(TaskSet::with(&self.state.system, self.state.room, task, domain)?)
    }

    /// As [`Engine::prepare_task`], for the tasks that the system describes at these free numbers ([`System::removed`], [`Engine::describe`]), each
    /// with its domain. They are added in this order, all in one step or none. A task may follow an earlier one. O(tasks × size of the system).
    ///
    /// # Errors
    /// When there is no task, a number is not free, or as [`Engine::prepare_task`].
    #[cfg(feature = "additions")]
    pub fn prepare_described(
        &self,
        tasks: impl IntoIterator<Item = (TaskId, Option<u16>)>,
    ) -> Result<Prepared, Invalid> {
        let State { system, room, .. } = &self.state;
        let mut tasks = tasks.into_iter();
        let (first, domain) = tasks.next().ok_or(Invalid::Removed)?;
        let described = system.tasks.get(first.index()).cloned().ok_or(Invalid::Removed)?;
        let mut set = TaskSet::with_task(system, *room, Some(first), described, domain)?;
        for (task, domain) in tasks {
            set = set.and(*room, task, domain)?;
        }
        self.prepare_set(set)
    }

    /// Describes the task that [`Input::Add`](crate::engine::Input::Add) may add at a free number ([`System::removed`]). This allocates.
    ///
    /// # Errors
    /// When the number is not free.
    #[cfg(feature = "additions")]
    pub fn describe(&mut self, task: TaskId, described: Task) -> Result<(), Invalid> {
        if !self.state.system.is_removed(task) {
            return Err(Invalid::Removed);
        }
        self.state.system.tasks[task.index()] = described;
        Ok(())
    }

    /// The tasks that these inputs add are added, if the system can take all of them.
    #[cfg(feature = "additions")]
    pub(super) fn add<S: Sink>(&mut self, inputs: &[Input], sink: &mut S) {
        let tasks = inputs.iter().map_while(|input| match *input {
            Input::Add { task, domain } => Some((task, domain)),
            _ => None,
        });
        // Tasks that the policy cannot take change nothing: the sender of the inputs checks it.
        if let Ok(prepared) = self.prepare_described(tasks) {
            drop(self.install_and_tell(prepared, None, sink));
        }
    }

    /// Prepares the system without this task. Its number becomes free; the totals keep its counts.
    ///
    /// # Errors
    /// When the task has not left, belongs to a window table, or was removed before.
    pub fn prepare_removal(&self, task: TaskId) -> Result<Prepared, Invalid> {
        if !self.state.runs.get(task.index()).is_some_and(TaskState::is_gone) {
            return Err(Invalid::Unsuitable("a task is removed when it is gone"));
        }
        self.prepare_set(TaskSet::without(&self.state.system, task)?)
    }

    fn prepare_set(&self, set: TaskSet) -> Result<Prepared, Invalid> {
        let policy = Build::whole(set.system(), &self.registry, |build| build.policy())?;
        let spec = set.system().policy;
        Ok(Prepared { task_set: Some(Box::new(set)), ..self.prepared(spec, None, policy) })
    }

    /// Names more policies that the system may be switched to, behind the present ones ([`System::alternatives`](crate::model::System::alternatives)), without building them. A
    /// domain has room for the timers of earlier ones only. This allocates where there is no room ([`Engine::reserve_alternatives`]).
    pub fn add_alternatives(&mut self, specs: impl IntoIterator<Item = PolicySpec>) {
        let alternatives = &mut self.state.system.alternatives;
        for spec in specs {
            if !alternatives.contains(&spec) {
                alternatives.push(spec);
            }
        }
    }

    /// Adds a window table that may take over ([`System::tables`](crate::model::System::tables)), unless it is among them. Returns its
    /// number. This allocates. O(tables).
    ///
    /// # Errors
    /// When the table breaks a rule of [`System::check_table`](crate::model::System::check_table), or there are [`TABLES_MAX`] already.
    pub fn add_table(&mut self, table: WindowTable) -> Result<u16, Invalid> {
        let system = &mut self.state.system;
        if let Some(known) = system.tables.iter().position(|other| *other == table) {
            return Ok(known as u16);
        }
        if system.tables.len() == TABLES_MAX {
            return Err(Invalid::Unsuitable("there are too many different window tables"));
        }
        system.check_table(&table)?;
        system.tables.push(table);
        Ok(system.tables.len() as u16 - 1)
    }

    /// Builds a window table of the system, where allocation is allowed. To be installed in this engine, or in one of the same system
    /// whose tables need not be known ([`Engine::install_table`]).
    ///
    /// # Errors
    /// When there is no such table, or it cannot replace the present one.
    pub fn prepare_table(&self, to: u16) -> Result<PreparedTable, Invalid> {
        self.policy.prepare_table(to, &self.state.system, &self.state.places)
    }

    /// This table takes over at the end of the major frame, as with [`Input::Table`](crate::engine::Input::Table), but without allocation. Returns a
    /// table that was replaced earlier, or one that waited for the end of the frame and is superseded, to be dropped where deallocation
    /// is allowed.
    ///
    /// # Errors
    /// The prepared table is given back where the policy has no window table.
    pub fn install_table(&mut self, prepared: PreparedTable) -> Result<Option<PreparedTable>, PreparedTable> {
        self.policy.replace_table(prepared)
    }

    /// Makes room for so many more policies that [`Engine::add_alternatives`] names. This allocates.
    pub fn reserve_alternatives(&mut self, more: usize) {
        self.state.system.alternatives.reserve_exact(more);
    }

    /// Whether the policy would grant these terms to a job of the task ([`Policy::admits`]).
    pub fn admits(&mut self, task: TaskId, terms: &Terms) -> bool {
        self.policy.admits(task, terms, &Context { state: &mut self.state, sink: &mut () })
    }

    /// Makes room for the timers of a policy. Allocates if it has more than any before.
    pub fn make_room(&mut self, prepared: &Prepared) {
        self.reserve(Room { timers: prepared.policy.timers(), ..self.room() });
    }

    /// Installs a policy in place of the present one, and gives that back, to be dropped where deallocation is allowed. It takes over
    /// every job in its state at `now`, and decides in the next step, which is due at once. It allocates nothing where there is room
    /// ([`Engine::make_room`]).
    ///
    /// The policy was built from the terms that tasks had when it was prepared. If terms change in between, it may not be able to
    /// schedule the system; then it has to be prepared again.
    ///
    /// # Errors
    /// The prepared policy is given back, and nothing changes, when a task has been added or removed since. A policy for the whole machine is
    /// also outdated when a domain has received another policy. With a task of its own, also
    /// when another policy has taken over since, or the task to be removed is back.
    ///
    /// # Panics
    /// When time runs backwards.
    #[expect(clippy::result_large_err, reason = "it is given back as it came, without the allocator")]
    pub fn install<S: Sink>(&mut self, now: Time, prepared: Prepared, sink: &mut S) -> Result<Prepared, Prepared> {
        assert!(now >= self.state.now, "time runs backwards: {now} after {}", self.state.now);
        let fits = prepared.task_set.as_ref().is_none_or(|set| self.state.accepts(set));
        let same_domains = prepared.domain.is_some() || prepared.domain_switches == self.state.domain_switches;
        if prepared.generation != self.state.generation || !fits || !same_domains {
            return Err(prepared);
        }
        let before = core::mem::replace(&mut self.state.now, now);
        let installed = match prepared.domain {
            Some(domain) => match self.install_in_domain(domain, prepared, sink) {
                Ok(replaced) => replaced,
                Err(prepared) => {
                    self.state.now = before;
                    return Err(prepared);
                }
            },
            None => {
                let same = |other: &PolicySpec| *other == prepared.spec && prepared.task_set.is_none();
                let to = self.state.system.alternatives.iter().position(same);
                self.install_and_tell(prepared, to.map(|to| RecordKind::Switch { domain: None, to: to as u16 }), sink)
            }
        };
        self.decided = false;
        Ok(installed)
    }

    #[expect(clippy::result_large_err, reason = "it is given back as it came, without the allocator")]
    fn install_in_domain<S: Sink>(
        &mut self,
        domain: usize,
        prepared: Prepared,
        sink: &mut S,
    ) -> Result<Prepared, Prepared> {
        let before = self.state.system.domains.get(domain).map_or(prepared.spec, |domain| domain.policy);
        self.state.recording = sink.wants_records();
        let Prepared { spec, policy, .. } = prepared;
        let cx = &mut Context { state: &mut self.state, sink };
        match self.policy.replace_domain(domain, (spec, policy), cx) {
            Ok(policy) => {
                deliver(&mut self.state, &mut *self.policy, sink);
                Ok(Prepared { spec: before, policy, ..prepared })
            }
            Err(policy) => Err(Prepared { policy, ..prepared }),
        }
    }

    fn install_and_tell<S: Sink>(
        &mut self,
        mut prepared: Prepared,
        told: Option<RecordKind>,
        sink: &mut S,
    ) -> Prepared {
        self.state.recording = sink.wants_records();
        self.make_room(&prepared);
        let (generation, domain_switches) = (self.state.generation, self.state.domain_switches);
        if let Some(set) = &mut prepared.task_set {
            self.state.take_task_set(set);
        }
        let first = 2 * self.state.room;
        (0..self.state.timers.len()).for_each(|t| self.state.agenda.remove(first + t));
        self.decision.takes_changes = prepared.policy.passes_changes();
        self.state.takeovers = self.state.takeovers.wrapping_add(1);
        let policy = core::mem::replace(&mut self.policy, prepared.policy);
        let spec = core::mem::replace(&mut self.state.system.policy, prepared.spec);
        if let Some(what) = told {
            self.state.record(sink, what);
        }
        if self.started {
            // Statements of the old policy about jobs do not bind the new one.
            self.state.runs.iter_mut().for_each(|run| run.urgency = 0);
            (0..self.state.runs.len()).for_each(|i| self.state.forget_grant(TaskId(i as u32), sink));
            self.policy.start(&mut Context { state: &mut self.state, sink });
            deliver(&mut self.state, &mut *self.policy, sink);
        }
        Prepared { spec, domain: None, policy, generation, domain_switches, task_set: prepared.task_set }
    }

    /// Replaces the policy at the instant of the last step: [`Engine::prepare`] and [`Engine::install`] in one. This allocates.
    ///
    /// # Errors
    /// When the new policy cannot schedule the system; the old one continues.
    pub fn switch_policy<S: Sink>(&mut self, spec: PolicySpec, sink: &mut S) -> Result<(), Invalid> {
        self.take_over(spec, None, sink)
    }

    /// [`Engine::switch_policy`], and what is to be told of it as a record.
    fn take_over<S: Sink>(&mut self, spec: PolicySpec, told: Option<RecordKind>, sink: &mut S) -> Result<(), Invalid> {
        let prepared = self.prepare(spec)?;
        drop(self.install_and_tell(prepared, told, sink));
        Ok(())
    }

    /// Another policy takes over the system or a domain, if it can.
    pub(super) fn switch<S: Sink>(&mut self, domain: Option<u16>, to: u16, sink: &mut S) {
        let Some(spec) = self.state.system.alternatives.get(usize::from(to)).copied() else { return };
        // A policy that cannot schedule the system changes nothing: the sender of the input checks it.
        let _ = match domain {
            None => self.take_over(spec, Some(RecordKind::Switch { domain: None, to }), sink),
            Some(domain) => self.prepare_domain(domain, spec).map(|prepared| {
                drop(self.install_in_domain(usize::from(domain), prepared, sink));
            }),
        };
    }

    /// Changes a setting of the policy, in place if it can take that over. A setting that it does not have and a value out of
    /// range change nothing: after a switch they were meant for the policy before.
    pub(super) fn configure<S: Sink>(&mut self, setting: u8, value: Option<i64>, sink: &mut S) {
        let mut spec = self.state.system.policy;
        if usize::from(setting) >= spec.profile.settings.len() {
            return;
        }
        spec.values.set(usize::from(setting), value);
        if spec.check_values().is_err() {
            return;
        }
        let told = RecordKind::Configure { setting, value };
        let cx = &mut Context { state: &mut self.state, sink };
        if self.policy.configure(&spec, cx) {
            self.state.system.policy = spec;
            self.state.record(sink, told);
            deliver(&mut self.state, &mut *self.policy, sink);
        } else if cfg!(feature = "switching") {
            // A value that the policy refuses changes nothing: the sender of the input checks it.
            let _ = self.take_over(spec, Some(told), sink);
        }
    }
}
