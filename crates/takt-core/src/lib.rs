//! The scheduling core of Takt: what to schedule, the policies that decide, and the engine between them and a driver.
//!
//! No clock, no operating system, no `unsafe`; `no_std` with `alloc`. Nothing is allocated after construction, but to change the
//! policy.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

/// The text of a manual page, which only the feature `manuals` keeps.
macro_rules! manual {
    ($text:expr) => {
        if cfg!(feature = "manuals") { $text } else { "" }
    };
}

pub mod cpus;
pub mod engine;
pub mod input;
pub mod model;
pub mod policies;
pub mod policy;
#[cfg(feature = "power")]
pub mod power;
mod queue;
pub mod record;
#[cfg(feature = "registry")]
pub mod registry;
pub mod rng;
pub mod scenario;
pub mod stats;
pub mod time;
pub mod utility;
#[cfg(feature = "wire")]
pub mod wire;
pub mod work;
