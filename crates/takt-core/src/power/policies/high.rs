//! The highest frequency of each domain.

use crate::power::{Entry, Event, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;

struct High;

impl PowerPolicy for High {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        if *event == Event::Start {
            (0..requests.domains()).for_each(|domain| requests.set_highest(domain));
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "high",
        aliases: &[],
        summary: "all CPUs at their highest frequencies",
        parameters: &[],
        uses: Uses {
            slices: false,
            processes: false,
            budgets: false,
            windows: false,
            frequencies: true,
            latencies: false,
        },
    },
    manual: manual!(
        "\
Requests the highest frequency of each domain at the start, and nothing later.

**When.** Execution times must not depend on the governor of the kernel.

**Source.** The DEmOS program; its thesis measures both extremes in section 5.4."
    ),
    build: |_| Ok(Box::new(High)),
};
