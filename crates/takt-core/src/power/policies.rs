//! The power policies of Takt, one file each. This file alone knows them all.

pub mod alternating;
pub mod fixed;
pub mod high;
pub mod low;
pub mod minbe;
pub mod none;
pub mod per_process;
pub mod per_slice;
pub mod race_to_idle;
pub mod skip_be;
pub mod slowest;
pub mod thermal_cap;
mod thermometer;

use super::registry::{Entry, Registry};
use super::spec::PowerSpec;

/// Every power policy of Takt. The command line, the documentation and the conformance tests walk this slice.
pub static POLICIES: &[&Entry] = &[
    &none::ENTRY,
    &low::ENTRY,
    &high::ENTRY,
    &minbe::ENTRY,
    &per_process::ENTRY,
    &per_slice::ENTRY,
    &fixed::ENTRY,
    &alternating::ENTRY,
    &race_to_idle::ENTRY,
    &slowest::ENTRY,
    &thermal_cap::ENTRY,
    &skip_be::ENTRY,
];

impl Registry {
    /// The registry of Takt's own power policies.
    #[must_use]
    pub const fn standard() -> Registry {
        Registry::of(POLICIES)
    }
}

impl PowerSpec {
    /// Whether it stands for the absence of power management, so that no policy has to be hosted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        core::ptr::eq(self.profile, &raw const none::ENTRY.profile)
    }
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::standard()
    }
}
