//! Analysis of a system before it runs: schedulability of online policies, loads and gaps of window tables.
//!
//! Everything is computed in integers; a test that would overflow or take too long says so instead of guessing. Only the
//! utilisations that [`generate`] draws, and for display the poles in [`control`] with the time to settle that is read from them,
//! are floats: no verdict rests on them.
//!
//! # Layers
//! Each line uses only lines below it.
//! ```text
//! online.rs                                   the verdict about a policy
//! compose.rs reservation.rs servers.rs split.rs global.rs uniprocessor.rs idle.rs blocking.rs suspension.rs
//! homes.rs supply.rs table.rs                 the CPU of each task; supply of window tables
//! tests/*.rs taskset.rs                       the tests by name
//! demand.rs need.rs parts.rs                  demand of jobs; domains and loads
//! verdict.rs utilisation.rs densest.rs
//! ```
#![forbid(unsafe_code)]

mod accrual;
pub mod assign;
mod bands;
mod blocking;
mod compose;
pub mod control;
mod demand;
pub mod densest;
pub mod generate;
mod global;
mod homes;
pub mod idle;
mod need;
pub mod online;
mod parts;
pub mod placement;
pub mod priorities;
mod reservation;
mod reserved;
mod servers;
mod split;
pub mod supply;
mod suspension;
pub mod table;
pub mod tardiness;
pub mod taskset;
pub mod tests;
mod uniprocessor;
pub mod utilisation;
mod verdict;
