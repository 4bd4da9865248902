//! Lower frequencies while it is too hot.

use super::thermometer::{PARAMETERS, Reading, Thermometer};
use crate::power::{Entry, Event, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;

struct ThermalCap(Thermometer);

impl PowerPolicy for ThermalCap {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        let reading = self.0.read(event, requests);
        for domain in 0..requests.domains() {
            let present = requests.point(domain);
            match (reading, present) {
                _ if *event == Event::Start => requests.set_highest(domain),
                (Some(Reading::Hot { lost: true }), _) => requests.set_lowest(domain),
                (Some(Reading::Hot { lost: false }), Some(point)) => {
                    requests.set_point(domain, point.saturating_sub(1))
                }
                (Some(Reading::Cool), Some(point)) => requests.set_point(domain, point + 1),
                _ => {}
            }
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "thermal_cap",
        aliases: &[],
        summary: "lower frequencies while a thermal zone is too hot",
        parameters: PARAMETERS,
        uses: Uses { slices: false, processes: false, budgets: false, windows: false, frequencies: true, latencies: false },
    },
    manual: manual!(
        "\
All domains begin at their highest frequencies. Each sample at the limit or above it lowers them by one step; each sample that is lower
than the limit by the hysteresis raises them by one step. Without a valid sample for one second, all have their lowest frequencies.

**When.** The machine must stay below a temperature, and slower jobs are still in time.

**Cost.** O(domains) per sample.

**Source.** The rule is that of the governor `step_wise` of Linux (`drivers/thermal/gov_step_wise.c`).

**Example.** `--power thermal_cap:cpu-thermal,80,5`"
    ),
    build: |build| Ok(Box::new(ThermalCap(Thermometer::new(build)?))),
};
