//! The frequencies of slices.

use crate::power::{Build, Demander, Entry, Event, Fault, Kind, Parameter, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The treatment of demands that disagree.
pub(super) const ON_CONFLICT: Parameter = Parameter {
    name: "on_conflict",
    kind: Kind::Choice(&["error", "highest"]),
    default: Some("error"),
    summary: "where several ask for different frequencies of one domain at the same time: refuse, or take the highest",
};

struct PerSlice {
    /// By window: domains, and the indexes of their frequencies.
    windows: Vec<Vec<(u16, u16)>>,
}

impl PerSlice {
    fn new(build: &Build<'_>) -> Result<PerSlice, Fault> {
        let highest = build.spec.number(ON_CONFLICT.name, 0) == 1;
        let mut windows = Vec::with_capacity(build.system.windows.len());
        let mut wanted: Vec<Option<(Demander, u32, u16)>> = vec![None; build.platform.domains.len()];
        for (w, window) in build.system.windows.iter().enumerate() {
            wanted.fill(None);
            for (s, slice) in window.slices.iter().enumerate() {
                let Some(khz) = build.demands.slice(w, s) else { continue };
                let by = Demander::Slice(w, s);
                for (domain, of) in build.platform.domains.iter().enumerate() {
                    if of.cpus.is_disjoint(&slice.cpus) {
                        continue;
                    }
                    let point = build.demanded(domain, khz, by)?;
                    match &mut wanted[domain] {
                        Some((first, other, _)) if *other != khz && !highest => {
                            return Err(Fault::Conflict { domain, first: (*first, *other), second: (by, khz) });
                        }
                        Some((_, other, _)) if *other >= khz => {}
                        entry => *entry = Some((by, khz, point)),
                    }
                }
            }
            let points = wanted.iter().enumerate();
            windows.push(points.filter_map(|(domain, wanted)| Some((domain as u16, (*wanted)?.2))).collect());
        }
        Ok(PerSlice { windows })
    }
}

impl PowerPolicy for PerSlice {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        match *event {
            Event::WindowStart { window, .. } => {
                for &(domain, point) in self.windows.get(window as usize).into_iter().flatten() {
                    requests.set_point(usize::from(domain), usize::from(point));
                }
            }
            Event::Table => self.windows.iter_mut().for_each(Vec::clear),
            _ => {}
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "per_slice",
        aliases: &["imx8_per_slice"],
        summary: "the frequency that each slice of the window asks for",
        parameters: &[ON_CONFLICT],
        uses: Uses { slices: true, processes: false, budgets: false, windows: true, frequencies: true, latencies: false },
    },
    manual: manual!(
        "\
At the start of a window each domain gets the frequency of its slices, by the key `frequency` in megahertz. A domain whose slices ask for
none keeps its frequency. Slices of one window that ask for different frequencies of one domain are refused before anything starts; with
`on_conflict=highest` the domain gets the highest of them.

**When.** Partitions are known to need different frequencies.

**Cost.** O(domains) per window.

**Source.** The DEmOS program, where it is `imx8_per_slice`.

**Example.** `windows: [{length: 100, slices: [{cpu: 0, frequency: 600, sc_partition: A}, {cpu: 4, frequency: 1596, sc_partition: B}]}]`"
    ),
    build: |build| Ok(Box::new(PerSlice::new(build)?)),
};
