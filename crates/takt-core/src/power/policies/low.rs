//! The lowest frequency of each domain.

use crate::power::{Entry, Event, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;

struct Low;

impl PowerPolicy for Low {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        if *event == Event::Start {
            (0..requests.domains()).for_each(|domain| requests.set_lowest(domain));
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "low",
        aliases: &[],
        summary: "all CPUs at their lowest frequencies",
        parameters: &[],
        uses: Uses { slices: false, processes: false, budgets: false, windows: false, frequencies: true, latencies: false },
    },
    manual: manual!(
        "\
Requests the lowest frequency of each domain at the start, and nothing later.

**When.** The load fits at the lowest frequencies, and the machine must stay cool. `takt check --power low` checks the frequencies; a simulation with a `platform` shows whether jobs are in time.

**Source.** The DEmOS program; its thesis measures both extremes in section 5.4."
    ),
    build: |_| Ok(Box::new(Low)),
};
