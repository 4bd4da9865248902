//! The frequencies of slices.

use crate::power::{Entry, Event, Kind, Parameter, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;

/// The treatment of demands that disagree.
pub(super) const ON_CONFLICT: Parameter = Parameter {
    name: "on_conflict",
    kind: Kind::Choice(&["error", "highest"]),
    default: Some("error"),
    summary: "where several ask for different frequencies of one domain at the same time: refuse, or take the highest",
};

struct PerSlice;

impl PowerPolicy for PerSlice {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        if let Event::WindowStart { window, .. } = *event {
            requests.set_slice_frequencies(window);
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
`on_conflict=highest` the domain gets the highest of them. A window table that takes over while the system runs (`takt ctl reload`) brings its own
frequencies.

**When.** Partitions are known to need different frequencies.

**Cost.** O(domains × log frequencies) per window.

**Source.** The DEmOS program, where it is `imx8_per_slice`.

**Example.** `windows: [{length: 100, slices: [{cpu: 0, frequency: 600, sc_partition: A}, {cpu: 4, frequency: 1596, sc_partition: B}]}]`"
    ),
    build: |_| Ok(Box::new(PerSlice)),
};
