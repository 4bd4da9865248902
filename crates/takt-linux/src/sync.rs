//! Types that threads share, which a model test replaces by its own.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use std::thread::yield_now;

/// Words of a CPU set.
pub(crate) const WORDS: usize = takt_core::cpus::MAX_CPUS / 64;
