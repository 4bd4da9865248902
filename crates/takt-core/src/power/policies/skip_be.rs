//! No best-effort partition starts while it is too hot.

use super::thermometer::{PARAMETERS, Reading, Thermometer};
use crate::power::{Entry, Event, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;

struct SkipBe(Thermometer);

impl PowerPolicy for SkipBe {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        match self.0.read(event, requests) {
            Some(Reading::Hot { .. }) => requests.skip_best_effort(true),
            Some(Reading::Cool) => requests.skip_best_effort(false),
            Some(Reading::Between) | None => {}
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "skip_be",
        aliases: &[],
        summary: "no best-effort partition starts while a thermal zone is too hot",
        parameters: PARAMETERS,
        uses: Uses { slices: false, processes: false, budgets: false, windows: true, frequencies: false, latencies: false },
    },
    manual: manual!(
        "\
From a sample at the limit on, no best-effort partition starts in its window; it may start again after a sample that is lower by the
hysteresis. A partition that does not start keeps its place and the remainder of its budget, as if the window had no time for it. One that
runs is not cut off. Each start that is skipped is recorded and counted. Safety-critical partitions run as without this policy.

Without a valid sample for one second, it counts as too hot.

**When.** Best-effort work heats the machine, and safety-critical work must not be slowed down.

**Cost.** O(1) per sample.

**Source.** The DEmOS thesis, Czech Technical University in Prague, section 3.2, which provides for it.

**Example.** `--power skip_be:cpu-thermal,80,5`"
    ),
    build: |build| Ok(Box::new(SkipBe(Thermometer::new(build)?))),
};
