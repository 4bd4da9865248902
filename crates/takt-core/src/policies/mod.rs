//! The policies, one file each.
pub mod edf;
pub mod fp;
pub mod rm;
pub mod windows;
