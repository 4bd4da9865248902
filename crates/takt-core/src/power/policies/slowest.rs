//! The lowest frequencies at which the budgets of safety-critical processes fit into their windows.

use crate::cpus::CpuSet;
use crate::model::{Slice, System};
use crate::power::{Build, Entry, Event, FrequencyDomain, OperatingPoint, PowerPolicy, Profile, Requests, Uses};
use crate::time::Span;
use crate::work::Work;
use alloc::boxed::Box;
use alloc::vec::Vec;

struct Slowest {
    /// By window, then by domain.
    points: Vec<Vec<u16>>,
}

/// Whether the safety-critical budgets of a slice fit into so much time at this frequency.
fn fits(point: &OperatingPoint, slice: &Slice, length: Span, system: &System) -> bool {
    let Some(partition) = slice.sc.map(|sc| &system.partitions[sc.index()]) else { return true };
    // Tasks of a policy inside the partition have no budgets of the window.
    if partition.policy.is_some() {
        return false;
    }
    let mut left = length;
    for task in partition.tasks.iter().map(|task| &system.tasks[task.index()]) {
        // The most that can be drawn.
        let budget = task.budget.unwrap_or(length) + (task.jitter + Span::from_ns(1)) / 2;
        let takes = point.speed.time_for(Work::nominal(budget));
        if takes > left {
            return false;
        }
        left -= takes;
    }
    true
}

impl Slowest {
    fn new(build: &Build<'_>) -> Slowest {
        let system = build.system;
        let point = |domain: &FrequencyDomain, slices: &[Slice], length: Span| {
            let here = |cpus: &CpuSet| !cpus.is_disjoint(&domain.cpus);
            let all_fit = |point: &OperatingPoint| {
                slices.iter().filter(|slice| here(&slice.cpus)).all(|slice| fits(point, slice, length, system))
            };
            domain.points.iter().position(all_fit).unwrap_or(domain.points.len() - 1) as u16
        };
        let window = |window: &crate::model::Window| {
            build.platform.domains.iter().map(|domain| point(domain, &window.slices, window.length)).collect()
        };
        Slowest { points: system.windows.iter().map(window).collect() }
    }
}

impl PowerPolicy for Slowest {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        match *event {
            Event::WindowStart { window, .. } => {
                let known = self.points.get(window as usize).filter(|points| !points.is_empty());
                for domain in 0..requests.domains() {
                    match known {
                        Some(points) => requests.set_point(domain, usize::from(points[domain])),
                        None => requests.set_highest(domain),
                    }
                }
            }
            Event::Table => self.points.iter_mut().for_each(Vec::clear),
            _ => {}
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "slowest",
        aliases: &[],
        summary: "the lowest frequencies at which the safety-critical budgets fit into their windows",
        parameters: &[],
        uses: Uses { slices: false, processes: false, budgets: true, windows: true, frequencies: true, latencies: false },
    },
    manual: manual!(
        "\
The budgets of safety-critical processes are taken as work at nominal speed. At the start of a window each domain gets the lowest frequency
at which all budgets of its slices fit into the window, and budgets last longer in proportion. The speeds of the frequencies come from the
key `platform`. Without them, speeds are taken to be proportional to frequencies. A window whose
budgets do not fit at any frequency has the highest one, and so has one with a policy inside its safety-critical partition. After another
window table has taken over, all windows have the highest frequency.

**When.** Windows are longer than their budgets, and energy counts. Budgets must bound the work at nominal speed.

**Cost.** O(domains) per window; O(windows × frequencies × processes) at the start.

**Source.** Static voltage scaling: Pillai and Shin, \"Real-time dynamic voltage scaling for low-power embedded operating systems\", SOSP 2001,
section 2.3, applied to each window."
    ),
    build: |build| Ok(Box::new(Slowest::new(build))),
};
