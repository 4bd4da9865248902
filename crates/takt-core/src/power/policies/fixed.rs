//! One frequency for each domain.

use crate::power::{Entry, Event, Kind, Parameter, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;
use alloc::vec::Vec;

struct Fixed(Vec<u16>);

impl PowerPolicy for Fixed {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        if *event == Event::Start {
            for (domain, point) in self.0.iter().enumerate() {
                requests.set_point(domain, usize::from(*point));
            }
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "fixed",
        aliases: &["imx8_fixed"],
        summary: "one frequency for each domain",
        parameters: &[Parameter {
            name: "frequencies",
            kind: Kind::Points(1),
            default: None,
            summary: "frequency of each domain in MHz, or below 32 its index in ascending order",
        }],
        uses: Uses { slices: false, processes: false, budgets: false, windows: false, frequencies: true, latencies: false },
    },
    manual: manual!(
        "\
Requests one frequency for each domain at the start, and nothing later. The domains are in the order of their CPUs. A frequency is a
number of megahertz; a number below 32 is the index of a frequency in ascending order, from zero.

**When.** A measurement needs known frequencies.

**Source.** The DEmOS program, whose `imx8_fixed:a53,a72` takes indexes.

**Example.** `--power fixed:600,1596`"
    ),
    build: |build| Ok(Box::new(Fixed(build.points("frequencies", 1)?))),
};
