//! The clusters that a policy gives to tasks.

use crate::reserved;
use takt_core::model::System;
use takt_core::policies::scope;
use takt_core::policy::{Build, Registry};

/// The cluster of each task: its CPU under a partitioned policy. Servers are packed by what is reserved for them.
pub(crate) fn homes(system: &System) -> Vec<u16> {
    packed(system).homes
}

/// The same with the tasks that no cluster accepted.
pub(crate) fn packed(system: &System) -> scope::Packed {
    let servers = reserved::isolates(&system.policy).then(|| reserved::as_runtimes(system));
    let system = servers.as_ref().unwrap_or(system);
    Build::whole(system, &Registry::default(), scope::pack)
}
