//! Safety-critical partitions at the highest frequency, best-effort ones at the lowest.

use crate::power::{Entry, Event, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

struct MinBe {
    /// By slice of the present window: whether it is on its safety-critical side.
    critical: Vec<bool>,
}

impl MinBe {
    fn enter(&mut self, slice: u16, critical: bool, requests: &mut Requests<'_>) {
        // A window table that has taken over may have more slices, which the highest frequency suits.
        if let Some(known) = self.critical.get_mut(usize::from(slice)) {
            *known = critical;
        }
        let high = critical || self.critical.contains(&true);
        for domain in 0..requests.domains() {
            if high { requests.set_highest(domain) } else { requests.set_lowest(domain) }
        }
    }
}

impl PowerPolicy for MinBe {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        match *event {
            // Programs initialise at the highest frequency.
            Event::Start => (0..requests.domains()).for_each(|domain| requests.set_highest(domain)),
            Event::WindowStart { .. } => self.critical.fill(false),
            Event::SafetyCriticalStart { slice, .. } => self.enter(slice, true, requests),
            Event::BestEffortStart { slice, .. } => self.enter(slice, false, requests),
            _ => {}
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "minbe",
        aliases: &[],
        summary: "safety-critical partitions at the highest frequency, best-effort ones at the lowest",
        parameters: &[],
        uses: Uses { slices: false, processes: false, budgets: false, windows: true, frequencies: true, latencies: false },
    },
    manual: manual!(
        "\
All domains have their highest frequency while a slice of the window is on its safety-critical side, and their lowest one while all
slices are on their best-effort sides. A slice without a safety-critical partition is on its best-effort side.

**When.** Best-effort work may be slow, and the machine must stay cooler.

**Cost.** O(slices + domains) per start of a side.

**Source.** The DEmOS thesis, Czech Technical University in Prague, section 4.8, figure 7."
    ),
    build: |build| {
        let slices = build.system.windows.iter().map(|window| window.slices.len()).max().unwrap_or(0);
        Ok(Box::new(MinBe { critical: vec![false; slices] }))
    },
};
