//! The change of one policy for another, or of a setting, in the middle of a run.

use super::step::{Engine, deliver};
use crate::model::{Invalid, PolicySpec, TaskId};
use crate::policy::state::Timer;
use crate::policy::{Build, Context, Policy};
use crate::record::{Sink, What};
use alloc::boxed::Box;

/// A policy that was built for the system of an engine, to be installed in it.
pub struct Prepared {
    spec: PolicySpec,
    policy: Box<dyn Policy>,
}

impl Prepared {
    /// Which policy it is.
    #[must_use]
    pub fn spec(&self) -> PolicySpec {
        self.spec
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
        Ok(Prepared { spec, policy })
    }

    /// Makes room for the timers of a policy. Allocates if it has more than any before.
    pub fn make_room(&mut self, prepared: &Prepared) {
        let timers = self.state.timers.len();
        let more = usize::from(prepared.policy.timers()).saturating_sub(timers);
        if more > 0 {
            self.state.agenda.insert_slots(2 * self.state.runs.len() + timers, more);
            self.state.timers.resize(timers + more, Timer::default());
        }
    }

    /// Installs a policy in place of the present one, and gives that back, to be dropped where deallocation is allowed. It takes over
    /// every job in its present state; the change shows with the next decision. It allocates nothing where there is room
    /// ([`Engine::make_room`]).
    ///
    /// The policy was built from the terms that tasks had when it was prepared. If terms change in between, it may not be able to
    /// schedule the system; then it has to be prepared again.
    pub fn install<S: Sink>(&mut self, prepared: Prepared, sink: &mut S) -> Prepared {
        self.install_and_tell(prepared, None, sink)
    }

    fn install_and_tell<S: Sink>(&mut self, prepared: Prepared, told: Option<What>, sink: &mut S) -> Prepared {
        self.state.recording = sink.wants_records();
        self.make_room(&prepared);
        let first = 2 * self.state.runs.len();
        (0..self.state.timers.len()).for_each(|t| self.state.agenda.remove(first + t));
        self.decision.takes_changes = prepared.policy.passes_changes();
        let policy = core::mem::replace(&mut self.policy, prepared.policy);
        let spec = core::mem::replace(&mut self.state.system.policy, prepared.spec);
        if let Some(what) = told {
            self.state.record(sink, what);
        }
        if self.started {
            // What the old one said of jobs is not the new one's word.
            self.state.runs.iter_mut().for_each(|run| run.urgency = 0);
            (0..self.state.runs.len()).for_each(|i| self.state.forget_grant(TaskId(i as u32), sink));
            self.policy.start(&mut Context { state: &mut self.state, sink });
            deliver(&mut self.state, &mut *self.policy, sink);
        }
        Prepared { spec, policy }
    }

    /// Replaces the policy in the middle of a run: [`Engine::prepare`] and [`Engine::install`] in one. This allocates.
    ///
    /// # Errors
    /// When the new policy cannot schedule the system; the old one goes on.
    pub fn switch_policy<S: Sink>(&mut self, spec: PolicySpec, sink: &mut S) -> Result<(), Invalid> {
        self.take_over(spec, None, sink)
    }

    /// [`Engine::switch_policy`], and what is to be told of it as a record.
    fn take_over<S: Sink>(&mut self, spec: PolicySpec, told: Option<What>, sink: &mut S) -> Result<(), Invalid> {
        let prepared = self.prepare(spec)?;
        drop(self.install_and_tell(prepared, told, sink));
        Ok(())
    }

    /// Another policy takes over the system or a domain, if it can.
    pub(super) fn switch<S: Sink>(&mut self, domain: Option<u16>, to: u16, sink: &mut S) {
        let Some(spec) = self.state.system.alternatives.get(usize::from(to)).copied() else { return };
        let Some(domain) = domain.map(usize::from) else {
            // One that cannot changes nothing: whoever makes the input checks it.
            let _ = self.take_over(spec, Some(What::Switch { domain: None, to }), sink);
            return;
        };
        let before = self.state.system.policy;
        let cx = &mut Context { state: &mut self.state, sink };
        if self.policy.switch(domain, &spec, cx).is_ok() {
            debug_assert_eq!(before, self.state.system.policy, "only the domain has another policy");
            deliver(&mut self.state, &mut *self.policy, sink);
        }
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
        let told = What::Configure { setting, value };
        let cx = &mut Context { state: &mut self.state, sink };
        if self.policy.configure(&spec, cx) {
            self.state.system.policy = spec;
            self.state.record(sink, told);
            deliver(&mut self.state, &mut *self.policy, sink);
        } else {
            // A value that the policy refuses changes nothing: whoever makes the input checks it.
            let _ = self.take_over(spec, Some(told), sink);
        }
    }
}
