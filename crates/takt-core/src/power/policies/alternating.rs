//! Two frequencies for each domain, in turn from window to window.

use crate::power::{Entry, Event, Kind, Parameter, PowerPolicy, Profile, Requests, Uses};
use alloc::boxed::Box;
use alloc::vec::Vec;

struct Alternating {
    /// Two for each domain.
    points: Vec<u16>,
    second: bool,
}

impl Alternating {
    fn request(&self, requests: &mut Requests<'_>) {
        for (domain, pair) in self.points.chunks_exact(2).enumerate() {
            requests.set_point(domain, usize::from(pair[usize::from(self.second)]));
        }
    }
}

impl PowerPolicy for Alternating {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        match event {
            Event::Start => self.request(requests),
            Event::WindowStart { .. } => {
                self.request(requests);
                self.second = !self.second;
            }
            _ => {}
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "alternating",
        aliases: &["imx8_alternating"],
        summary: "two frequencies for each domain, in turn from window to window",
        parameters: &[Parameter {
            name: "frequencies",
            kind: Kind::Points(2),
            default: None,
            summary: "two frequencies of each domain in MHz, or below 32 their indexes in ascending order",
        }],
        uses: Uses { slices: false, processes: false, budgets: false, windows: true, frequencies: true, latencies: false },
    },
    manual: manual!(
        "\
Requests the first frequency of each pair in the first window, the second one in the next window, and so on in turn. The domains are in the
order of their CPUs. A number below 32 is the index of a frequency in ascending order, from zero.

**When.** A test needs changes of frequency at known instants.

**Source.** The DEmOS program, whose `imx8_alternating` takes indexes.

**Example.** `--power alternating:600,1200,600,1596`"
    ),
    build: |build| Ok(Box::new(Alternating { points: build.points("frequencies", 2)?, second: false })),
};
