//! A power policy in its engine: it gets the events, and its requests become commands.

use super::interface::{Event, PowerPolicy, Requests, Wishes};
use super::platform::{Demands, Platform};
use super::registry::{Build, Fault, Registry};
use super::spec::PowerSpec;
use crate::model::System;
use crate::record::Place;
use crate::time::{Span, Time};
use crate::work::Speed;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Counts of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Changes of a frequency that were commanded.
    pub frequencies: u64,
    /// Changes of an idle latency that were commanded.
    pub latencies: u64,
    /// Best-effort partitions that did not start in their window.
    pub skipped_starts: u64,
    /// Samples of temperatures.
    pub samples: u64,
    /// Those of them without a valid value.
    pub bad_samples: u64,
}

/// A request as the driver receives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    Frequency { domain: u16, khz: u32 },
    Latency { cpu: Place, limit_us: Option<u32> },
}

/// A power policy with the machine that it manages.
pub struct Host {
    policy: Box<dyn PowerPolicy>,
    wishes: Wishes,
    /// The last requests that the driver received, by domain and by CPU.
    sent_points: Vec<Option<u16>>,
    sent_latencies: Vec<Option<u32>>,
    scales_budgets: bool,
    counts: Counts,
}

impl core::fmt::Debug for Host {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Host").field("wishes", &self.wishes).field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Host {
    /// Builds a power policy for this system on this machine. Nothing is allocated later. O(places × domains), and what the policy costs.
    ///
    /// # Errors
    /// When the policy cannot be used here.
    pub fn new(
        spec: &PowerSpec,
        registry: &Registry,
        system: &System,
        platform: Platform,
        demands: &Demands,
    ) -> Result<Host, Fault> {
        let build = Build { system, platform: &platform, demands, spec };
        let policy = build.policy(registry)?;
        let frequencies = if spec.profile.uses.slices { build.slice_frequencies()? } else { Vec::new() };
        let mut host = Host::with_policy(policy, spec.profile.uses.budgets, system, platform);
        host.wishes.frequencies = frequencies;
        Ok(host)
    }

    /// Hosts a policy that has been built. `scales_budgets`: the budgets of safety-critical processes are work at nominal speed.
    #[must_use]
    pub fn with_policy(
        policy: Box<dyn PowerPolicy>,
        scales_budgets: bool,
        system: &System,
        platform: Platform,
    ) -> Host {
        let of_place = |place: &crate::cpus::CpuSet| {
            let domains = platform.domains.iter().enumerate().filter(|(_, domain)| !domain.cpus.is_disjoint(place));
            domains.map(|(index, _)| index as u16).collect()
        };
        let place_domains = system.places().iter().map(of_place).collect();
        let (domains, cpus) = (platform.domains.len(), system.cpus.len());
        let wishes = Wishes {
            platform,
            place_domains,
            points: vec![None; domains],
            frequencies: Vec::new(),
            latencies: vec![None; cpus],
            skips: false,
            timer: None,
            changed: false,
        };
        Host {
            policy,
            wishes,
            sent_points: vec![None; domains],
            sent_latencies: vec![None; cpus],
            scales_budgets,
            counts: Counts::default(),
        }
    }

    /// The machine.
    #[must_use]
    pub fn platform(&self) -> &Platform {
        &self.wishes.platform
    }
    /// The frequency domains to which CPUs of the place belong.
    #[must_use]
    pub fn domains_of(&self, place: Place) -> &[u16] {
        self.wishes.place_domains.get(place.index()).map_or(&[], Vec::as_slice)
    }
    /// The frequency that was last commanded for a domain, in kilohertz; `None` before the first command.
    #[must_use]
    pub fn frequency(&self, domain: usize) -> Option<u32> {
        self.sent_points[domain].map(|point| self.wishes.platform.domains[domain].points[usize::from(point)].khz)
    }
    /// Whether no best-effort partition starts now.
    #[must_use]
    pub fn skips_best_effort(&self) -> bool {
        self.wishes.skips
    }
    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }
    /// When the policy's timer is due.
    pub(crate) fn timer(&self) -> Option<Time> {
        self.wishes.timer
    }

    /// The policy learns of an event.
    pub(crate) fn event(&mut self, event: &Event, now: Time) {
        if let Event::Temperature { millidegrees, .. } = event {
            self.counts.samples += 1;
            self.counts.bad_samples += u64::from(millidegrees.is_none());
        }
        self.policy.event(event, &mut Requests { now, wishes: &mut self.wishes });
    }

    /// By window: the frequencies that slices ask for, by domain, in kilohertz.
    #[must_use]
    pub fn slice_frequencies(&self) -> &[Vec<(u16, u32)>] {
        &self.wishes.frequencies
    }

    /// The slices of another window table ask for these frequencies; they become those before.
    pub(crate) fn replace_frequencies(&mut self, next: &mut Vec<Vec<(u16, u32)>>) {
        core::mem::swap(&mut self.wishes.frequencies, next);
    }

    /// The policy's timer, if it is due.
    pub(crate) fn fire(&mut self, now: Time) {
        if let Some(due) = self.wishes.timer.filter(|due| *due <= now) {
            self.wishes.timer = None;
            self.event(&Event::Timer { due }, now);
        }
    }

    /// Whether a best-effort partition may start; counts one that may not.
    pub(crate) fn may_start(&mut self) -> bool {
        self.counts.skipped_starts += u64::from(self.wishes.skips);
        !self.wishes.skips
    }

    /// The speed of a place at the requested frequencies: the least of its CPUs that have a frequency.
    pub(crate) fn speed(&self, place: Place) -> Option<Speed> {
        let point = |domain: &u16| {
            let domain = usize::from(*domain);
            let point = self.wishes.points[domain]?;
            Some(self.wishes.platform.domains[domain].points[usize::from(point)].speed)
        };
        self.domains_of(place).iter().filter_map(point).min()
    }

    /// The elapsed time that a budget of safety-critical work lasts at a place.
    pub(crate) fn scaled(&self, place: Place, budget: Span) -> Span {
        match self.speed(place).filter(|_| self.scales_budgets) {
            Some(speed) => speed.time_for(crate::work::Work::nominal(budget)),
            None => budget,
        }
    }

    /// Emits the requests that differ from the last commands. O(1) where the policy has requested nothing, else O(domains + CPUs).
    pub(crate) fn requests(&mut self, mut tell: impl FnMut(Request)) {
        if !core::mem::take(&mut self.wishes.changed) {
            return;
        }
        let Wishes { platform, points, latencies, .. } = &self.wishes;
        for (domain, (wanted, sent)) in points.iter().zip(&mut self.sent_points).enumerate() {
            if let Some(point) = wanted.filter(|_| wanted != sent) {
                *sent = *wanted;
                self.counts.frequencies += 1;
                let khz = platform.domains[domain].points[usize::from(point)].khz;
                tell(Request::Frequency { domain: domain as u16, khz });
            }
        }
        for (cpu, (wanted, sent)) in latencies.iter().zip(&mut self.sent_latencies).enumerate() {
            if wanted != sent {
                *sent = *wanted;
                self.counts.latencies += 1;
                tell(Request::Latency { cpu: Place(cpu as u16), limit_us: *wanted });
            }
        }
    }
}
