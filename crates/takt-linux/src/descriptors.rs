//! The limit of open files (`RLIMIT_NOFILE`) of this process.
//!
//! A run needs more descriptors than the usual soft limit, so the soft limit is raised to the hard one. Processes that are started get the limit from
//! before.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::OnceLock;

static BEFORE: OnceLock<Option<Rlimit>> = OnceLock::new();

/// Raises the soft limit to the hard one, at the first call. Returns the limit from before; `None` if the kernel refuses another one.
pub fn raise() -> Option<Rlimit> {
    let raise = || {
        let old = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: old.maximum, maximum: old.maximum }).is_ok().then_some(old)
    };
    *BEFORE.get_or_init(raise)
}

/// How many descriptors this process may have, and how many it has.
#[must_use]
pub fn limit_and_use() -> (usize, usize) {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    (limit, std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count))
}
