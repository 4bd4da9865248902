//! The change of one policy for another, or of a setting, in the middle of a run.

use super::step::{Engine, deliver};
use crate::model::{Invalid, PolicySpec, TaskId};
use crate::policy::state::Timer;
use crate::policy::{Build, Context};
use crate::record::{Sink, What};

impl Engine {
    /// Replaces the policy in the middle of a run. The new one takes over every job in its present state; the change
    /// shows with the next decision. This allocates.
    ///
    /// # Errors
    /// When the new policy cannot schedule the system; the old one goes on.
    pub fn switch_policy<S: Sink>(&mut self, spec: PolicySpec, sink: &mut S) -> Result<(), Invalid> {
        self.take_over(spec, None, sink)
    }

    /// [`Engine::switch_policy`], and what is to be told of it as a record.
    fn take_over<S: Sink>(&mut self, spec: PolicySpec, told: Option<What>, sink: &mut S) -> Result<(), Invalid> {
        self.state.recording = sink.wants_records();
        let policy = Build::whole(&self.state.system, &self.registry, |build| Build { spec, ..*build }.policy())?;
        let first = 2 * self.state.runs.len();
        let timers = self.state.timers.len();
        let more = usize::from(policy.timers()).saturating_sub(timers);
        self.state.agenda.insert_slots(first + timers, more);
        self.state.timers.resize(timers + more, Timer::default());
        (0..timers + more).for_each(|t| self.state.agenda.remove(first + t));
        self.decision.takes_changes = policy.passes_changes();
        self.policy = policy;
        self.state.system.policy = spec;
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
        spec.values[usize::from(setting)] = value;
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
