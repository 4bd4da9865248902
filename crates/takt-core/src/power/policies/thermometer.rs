//! A thermal zone that is watched.

use crate::power::{Build, Event, Fault, Kind, Parameter, Requests};
use crate::time::Span;

/// Without a valid sample for so long, the temperature counts as unknown.
const STALE: Span = Span::from_secs(1);

/// The arguments of thermal policies.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter { name: "zone", kind: Kind::Zone, default: None, summary: "thermal zone, by its name or number" },
    Parameter {
        name: "limit",
        kind: Kind::Temperature(-40_000, 150_000),
        default: None,
        summary: "temperature in degrees Celsius from which on it is too hot",
    },
    Parameter {
        name: "hysteresis",
        kind: Kind::Difference(0, 100_000),
        default: Some("2"),
        summary: "degrees below the limit at which it is cool enough again",
    },
];

/// A sample beside the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// At the limit or above it, or unknown.
    Hot {
        /// There was no valid sample for a second.
        lost: bool,
    },
    /// Below the limit by the hysteresis, or more.
    Cool,
    /// In between.
    Between,
}

pub(super) struct Thermometer {
    zone: u16,
    limit: i32,
    cool: i32,
}

impl Thermometer {
    pub(super) fn new(build: &Build<'_>) -> Result<Thermometer, Fault> {
        let limit = build.number("limit")? as i32;
        let hysteresis = build.spec.number("hysteresis", 2_000) as i32;
        Ok(Thermometer { zone: build.zone("zone")?, limit, cool: limit - hysteresis })
    }

    /// The reading that an event brings, if any.
    pub(super) fn read(&self, event: &Event, requests: &mut Requests<'_>) -> Option<Reading> {
        match *event {
            Event::Start => {
                requests.set_timer(Some(requests.now() + STALE));
                None
            }
            Event::Temperature { zone, millidegrees: Some(temperature) } if zone == self.zone => {
                requests.set_timer(Some(requests.now() + STALE));
                Some(match temperature {
                    hot if hot >= self.limit => Reading::Hot { lost: false },
                    cool if cool <= self.cool => Reading::Cool,
                    _ => Reading::Between,
                })
            }
            Event::Timer { .. } => Some(Reading::Hot { lost: true }),
            _ => None,
        }
    }
}
