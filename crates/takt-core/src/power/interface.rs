//! The trait of power policies: the events in, and the requests out.

use super::platform::Platform;
use crate::model::TaskId;
use crate::record::Place;
use crate::time::Time;
use alloc::vec::Vec;

/// An event for a power policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The schedule starts.
    Start,
    /// A window of the table begins. Its [`Event::SafetyCriticalStart`] and [`Event::BestEffortStart`] follow.
    WindowStart {
        /// Index in the major frame.
        window: u32,
        /// Number of the major frame, from zero.
        frame: u64,
    },
    /// A window of the table ends. The next one begins in the same instant.
    WindowEnd {
        /// Index in the major frame.
        window: u32,
    },
    /// The safety-critical side of a slice starts, or resumes since its partition has a ready job again.
    SafetyCriticalStart {
        /// Index of the window.
        window: u32,
        /// Index of the slice in it.
        slice: u16,
        /// The CPUs of the slice.
        place: Place,
    },
    /// The best-effort side of a slice may run from now on, whether there is a best-effort partition or not.
    BestEffortStart {
        /// Index of the window.
        window: u32,
        /// Index of the slice in it.
        slice: u16,
        /// The CPUs of the slice.
        place: Place,
    },
    /// A process starts or resumes on its CPUs.
    ProcessStart {
        /// The task.
        task: TaskId,
        /// Its CPUs.
        place: Place,
    },
    /// A process leaves its CPUs.
    ProcessEnd {
        /// The task.
        task: TaskId,
        /// Its CPUs.
        place: Place,
    },
    /// A CPU becomes idle.
    Idle {
        /// The CPU.
        cpu: Place,
        /// Nothing can start there before this instant, by the window table. `None` where something may start at any time.
        until: Option<Time>,
    },
    /// A sample of a thermal zone.
    Temperature {
        /// Index of the zone.
        zone: u16,
        /// Thousandths of a degree Celsius; `None` when the sensor gave no valid value.
        millidegrees: Option<i32>,
    },
    /// The policy's timer is due ([`Requests::set_timer`]).
    Timer {
        /// The instant that it was set to; it may be noticed later.
        due: Time,
    },
    /// Another window table holds from now on. [`Requests::set_slice_frequencies`] requests the frequencies of its slices.
    Table,
}

/// A power policy.
///
/// It allocates nothing after it is built, keeps no clock, and bases its requests on events alone. Two policies that were built alike and
/// learn of the same events make the same requests.
pub trait PowerPolicy: Send {
    /// Learns of one event, and makes requests. All requests of one instant take effect together, the last one for each domain or CPU.
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>);
}

/// The present requests, and the machine.
#[derive(Debug)]
pub(crate) struct Wishes {
    pub(crate) platform: Platform,
    /// For each place the indexes of the domains of its CPUs; the first places are the single CPUs.
    pub(crate) place_domains: Vec<Vec<u16>>,
    /// By domain: the index of the frequency that is wanted; `None` before the first request.
    pub(crate) points: Vec<Option<u16>>,
    /// By window: the frequencies that slices ask for, by domain, in kilohertz.
    pub(crate) frequencies: Vec<Vec<(u16, u32)>>,
    /// By CPU: the latency in microseconds that leaving an idle state may take; `None` is no limit.
    pub(crate) latencies: Vec<Option<u32>>,
    pub(crate) skips: bool,
    pub(crate) timer: Option<Time>,
    /// A request may differ from the last one that the driver received.
    pub(crate) changed: bool,
}

/// The view of a power policy, and its requests. Each call costs O(1), or O(log frequencies).
#[derive(Debug)]
pub struct Requests<'a> {
    pub(crate) now: Time,
    pub(crate) wishes: &'a mut Wishes,
}

impl Requests<'_> {
    /// The instant.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }
    /// The machine.
    #[must_use]
    pub fn platform(&self) -> &Platform {
        &self.wishes.platform
    }
    /// How many frequency domains there are.
    #[must_use]
    pub fn domains(&self) -> usize {
        self.wishes.platform.domains.len()
    }
    /// How many CPUs there are. The places below that number are the single CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.wishes.latencies.len()
    }
    /// The frequency domains to which CPUs of the place belong.
    #[must_use]
    pub fn domains_of(&self, place: Place) -> &[u16] {
        self.wishes.place_domains.get(place.index()).map_or(&[], Vec::as_slice)
    }
    /// How many frequencies a domain has.
    #[must_use]
    pub fn points(&self, domain: usize) -> usize {
        self.wishes.platform.domains[domain].points.len()
    }
    /// The index of the frequency that is requested for a domain; `None` before the first request.
    #[must_use]
    pub fn point(&self, domain: usize) -> Option<usize> {
        self.wishes.points[domain].map(usize::from)
    }
    /// Requests the frequency with this index in ascending order, or the highest one where there is no such index.
    pub fn set_point(&mut self, domain: usize, index: usize) {
        let most = self.points(domain) - 1;
        self.wishes.points[domain] = Some(index.min(most) as u16);
        self.wishes.changed = true;
    }
    /// Requests the frequencies that the slices of a window ask for by the key `frequency`, in the window table that holds now. A domain for which none
    /// asks keeps its frequency. Nothing is requested unless the policy's profile uses slices. O(domains × log frequencies).
    pub fn set_slice_frequencies(&mut self, window: u32) {
        let window = window as usize;
        for index in 0..self.wishes.frequencies.get(window).map_or(0, Vec::len) {
            let (domain, khz) = self.wishes.frequencies[window][index];
            // A table that was recorded on another machine may name more of them.
            if usize::from(domain) < self.domains() {
                self.set_frequency(domain.into(), khz);
            }
        }
    }
    /// Requests the lowest frequency that is not below `khz`, or the highest one.
    pub fn set_frequency(&mut self, domain: usize, khz: u32) {
        let index = self.wishes.platform.domains[domain].at_least(khz);
        self.set_point(domain, index);
    }
    /// Requests the lowest frequency.
    pub fn set_lowest(&mut self, domain: usize) {
        self.set_point(domain, 0);
    }
    /// Requests the highest frequency.
    pub fn set_highest(&mut self, domain: usize) {
        self.set_point(domain, usize::MAX);
    }
    /// Requests that a CPU leaves its idle states within so many microseconds; `None` allows all of them.
    pub fn set_idle_latency(&mut self, cpu: Place, limit_us: Option<u32>) {
        self.wishes.latencies[cpu.index()] = limit_us;
        self.wishes.changed = true;
    }
    /// Whether no best-effort partition starts from now on. Running ones continue.
    pub fn skip_best_effort(&mut self, skip: bool) {
        self.wishes.skips = skip;
    }
    /// Sets the policy's only timer, or cancels it.
    pub fn set_timer(&mut self, at: Option<Time>) {
        self.wishes.timer = at;
    }
}
