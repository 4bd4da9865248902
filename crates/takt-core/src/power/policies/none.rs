//! No power management.

use crate::power::{Entry, Event, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;

struct None;

impl PowerPolicy for None {
    fn event(&mut self, _: &Event, _: &mut Requests<'_>) {}
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "none",
        aliases: &[],
        summary: "no power management: the kernel chooses frequencies",
        parameters: &[],
        uses: Uses {
            slices: false,
            processes: false,
            budgets: false,
            windows: false,
            frequencies: false,
            latencies: false,
        },
    },
    manual: manual!(
        "\
Requests nothing. Frequencies and idle states stay as the governors of the kernel choose them.

**Source.** The DEmOS program."
    ),
    build: |_| Ok(Box::new(None)),
};
