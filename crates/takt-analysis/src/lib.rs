//! What can be said about a system before it runs: schedulability of online policies, loads and gaps of window tables.
//!
//! Everything is computed in integers; a test that would overflow or take too long says so instead of guessing.
#![forbid(unsafe_code)]

pub mod control;
pub mod online;
pub mod table;
mod uniprocessor;
pub mod utilisation;
