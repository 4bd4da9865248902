//! The policies, one file each, and what they share: [`scope`] spreads an ordering over CPUs.

pub mod edf;
pub mod fp;
pub mod rm;
pub mod scope;
pub mod windows;
