//! The highest frequency while there is something to run, and deep idle states when there is not.

use crate::power::{Entry, Event, Kind, Parameter, PowerPolicy, Profile, Requests, Uses};
use crate::time::Span;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The shortest idle time for which all idle states are worth their latency.
const DEEP: Span = Span::from_ms(2);
/// Microseconds.
const LATENCY: u32 = 50;

struct RaceToIdle {
    deep: Span,
    latency_us: u32,
    /// How many processes run on CPUs of each domain.
    running: Vec<u32>,
}

impl PowerPolicy for RaceToIdle {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        match *event {
            Event::Start => (0..requests.domains()).for_each(|domain| requests.set_lowest(domain)),
            Event::ProcessStart { place, .. } => {
                for index in 0..requests.domains_of(place).len() {
                    let domain = usize::from(requests.domains_of(place)[index]);
                    self.running[domain] += 1;
                    requests.set_highest(domain);
                }
            }
            Event::ProcessEnd { place, .. } => {
                for index in 0..requests.domains_of(place).len() {
                    let domain = usize::from(requests.domains_of(place)[index]);
                    self.running[domain] = self.running[domain].saturating_sub(1);
                    if self.running[domain] == 0 {
                        requests.set_lowest(domain);
                    }
                }
            }
            Event::Idle { cpu, until } => {
                let long = until.is_some_and(|until| until - requests.now() >= self.deep);
                requests.set_idle_latency(cpu, (!long).then_some(self.latency_us));
            }
            _ => {}
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "race_to_idle",
        aliases: &[],
        summary: "the highest frequency while something runs, deep idle states while the table has nothing to run",
        parameters: &[
            Parameter {
                name: "deep",
                kind: Kind::Duration(Span::ZERO, Span::from_secs(3600)),
                default: Some("2ms"),
                summary: "idle time known beforehand from which on all idle states are allowed",
            },
            Parameter {
                name: "latency",
                kind: Kind::Count(0, 1_000_000),
                default: Some("50"),
                summary: "microseconds that leaving an idle state may take in shorter idle times",
            },
        ],
        uses: Uses { slices: false, processes: false, budgets: false, windows: false, frequencies: true, latencies: true },
    },
    manual: manual!(
        "\
A domain has its highest frequency while a process runs on one of its CPUs, and its lowest one while none does. When a CPU becomes idle,
the window table tells when something can start there next. If that is far enough away, the CPU may use all idle states; otherwise only
states that it leaves fast enough.

**When.** Idle states save more than low frequencies do.

**Cost.** O(domains) per start or end of a process.

**Source.** The two ways to save energy, finishing early or running slowly, are compared by Albers and Antoniadis, \"Race to idle: new
algorithms for speed scaling with a sleep state\", ACM Transactions on Algorithms 10(2), 2014."
    ),
    build: |build| {
        let deep = Span::from_ns(build.spec.number("deep", DEEP.ns()));
        let latency_us = build.spec.number("latency", LATENCY.into()) as u32;
        Ok(Box::new(RaceToIdle { deep, latency_us, running: vec![0; build.platform.domains.len()] }))
    },
};
