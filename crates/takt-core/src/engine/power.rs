//! The power policy in the engine: events for it, and commands of its requests.

use super::messages::Command;
use super::step::Engine;
use crate::model::PartitionId;
use crate::policy::Context;
use crate::policy::state::State;
use crate::power::{Event, Host, Request};
use crate::record::{Place, RecordKind, Sink};
use crate::time::{Span, Time};
use alloc::boxed::Box;

/// Temperatures that a sensor can measure, in thousandths of a degree Celsius. Others are no valid samples.
const SENSIBLE: core::ops::RangeInclusive<i32> = -40_000..=150_000;

impl Engine {
    /// Hosts a power policy from the start on. This allocates.
    ///
    /// # Panics
    /// When the schedule has started: the policy would not have learned of that.
    pub fn set_power(&mut self, host: Host) {
        assert!(!self.started, "a power policy is there from the start on");
        let (domains, cpus) = (host.platform().domains.len(), self.state.system.cpus.len());
        self.commands.reserve(domains + cpus);
        self.state.power = Some(Box::new(host));
        self.state.note_quiet();
    }

    /// The power policy, with its counts.
    #[must_use]
    pub fn power(&self) -> Option<&Host> {
        self.state.power.as_deref()
    }

    pub(super) fn earlier_power_timer(&self, first: Option<Time>) -> Option<Time> {
        let timer = self.state.power.as_ref().and_then(|host| host.timer());
        [first, timer].into_iter().flatten().min()
    }

    /// Tells the power policy of the changes by the commands of this step, and adds the commands of its requests.
    #[inline]
    pub(super) fn request_power<S: Sink>(&mut self, sink: &mut S) {
        if self.state.power.is_some() {
            self.power_after(sink);
        }
    }

    fn power_after(&mut self, sink: &mut dyn Sink) {
        let Engine { state, policy, commands, .. } = self;
        for command in &*commands {
            match *command {
                Command::Stop { task, place } => state.tell_power(Event::ProcessEnd { task, place }),
                Command::Start { task, place, .. } => state.tell_power(Event::ProcessStart { task, place }),
                Command::Move { task, from, to, .. } => {
                    state.tell_power(Event::ProcessEnd { task, place: from });
                    state.tell_power(Event::ProcessStart { task, place: to });
                }
                _ => {}
            }
        }
        for command in &*commands {
            if let Command::Stop { place, .. } | Command::Move { from: place, .. } = *command {
                // A place of several CPUs leaves several of them.
                let single = place.index() < state.cpus.len();
                for index in 0..if single { 1 } else { state.place_cpus[place.index()].len() } {
                    let cpu = if single { place.index() } else { usize::from(state.place_cpus[place.index()][index]) };
                    if state.cpus[cpu].task.is_none() {
                        let cpu = Place(cpu as u16);
                        let until = policy.idle_until(cpu, &Context { state, sink });
                        state.tell_power(Event::Idle { cpu, until });
                    }
                }
            }
        }
        let Some(mut host) = state.power.take() else { return };
        host.requests(|request| match request {
            Request::Frequency { domain, khz } => {
                state.record(sink, RecordKind::Frequency { domain, khz });
                commands.push(Command::Frequency { domain, khz });
            }
            Request::Latency { cpu, limit_us } => {
                state.record(sink, RecordKind::IdleLatency { place: cpu, limit_us });
                commands.push(Command::IdleLatency { cpu, limit_us });
            }
        });
        state.power = Some(host);
        if commands.iter().any(|command| matches!(command, Command::Frequency { .. })) {
            state.take_speeds();
        }
    }
}

impl State {
    pub(super) fn fire_power_timer(&mut self) {
        let now = self.now;
        if let Some(host) = &mut self.power {
            host.fire(now);
        }
    }

    pub(super) fn temperature(&mut self, zone: u16, millidegrees: Option<i32>, sink: &mut dyn Sink) {
        let millidegrees = millidegrees.filter(|value| SENSIBLE.contains(value));
        self.record(sink, RecordKind::Temperature { zone, millidegrees });
        self.tell_power(Event::Temperature { zone, millidegrees });
    }

    /// Jobs progress at the speeds of the frequencies from now on, where the machine is simulated.
    fn take_speeds(&mut self) {
        let State { power: Some(host), speeds, places, runs, running, now, .. } = self else { return };
        if !host.platform().simulated {
            return;
        }
        speeds.resize(places.len(), crate::work::Speed::NOMINAL);
        for (index, speed) in speeds.iter_mut().enumerate() {
            *speed = host.speed(Place(index as u16)).unwrap_or(*speed);
        }
        for task in running.iter() {
            let run = &mut runs[task.index()];
            run.account(*now);
            run.speed = run.place.map_or(run.speed, |place| speeds[place.index()]);
        }
        for index in 0..self.running.len() {
            let task = self.running[index];
            if self.runs[task.index()].budget.is_some() {
                self.arm_budget(task, self.now, Span::from_ns(1));
            }
        }
    }
}

impl Context<'_> {
    /// Whether there is a power policy.
    pub(crate) fn has_power(&self) -> bool {
        self.state.power.is_some()
    }
    /// The power policy learns of an event.
    pub(crate) fn tell_power(&mut self, event: Event) {
        self.state.tell_power(event);
    }
    /// Whether a best-effort partition may start in a window; one that may not is recorded.
    pub(crate) fn may_start(&mut self, partition: PartitionId, window: u32) -> bool {
        let may = self.state.power.as_mut().is_none_or(|host| host.may_start());
        if !may {
            self.state.record(self.sink, RecordKind::StartSkipped { partition, window });
        }
        may
    }
    /// The elapsed time that a budget of safety-critical work lasts at a place.
    pub(crate) fn scaled_budget(&self, place: Place, budget: Span) -> Span {
        self.state.power.as_ref().map_or(budget, |host| host.scaled(place, budget))
    }
}
