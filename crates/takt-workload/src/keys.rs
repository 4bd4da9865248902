//! The keys of a workload file.

use crate::{table, tasks, yaml};

/// The names of all keys at a place of a workload file: `"a workload"`, `"a task"`, `"a process"` or `"a partition"`. Empty for another place.
#[must_use]
pub fn keys_of(place: &str) -> Vec<&'static str> {
    match place {
        "a workload" => yaml::KEYS.to_vec(),
        "a task" => tasks::keys(),
        "a process" => table::keys_of_process(),
        "a partition" => table::keys_of_partition(),
        _ => Vec::new(),
    }
}
