//! Types that threads share, which a model test replaces by its own.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
