//! The interface between the engine and a policy.
//!
//! A policy is a state machine without a clock: it learns of events, and once per instant it decides which jobs run. It never learns
//! whether time is virtual or real.

#[cfg(feature = "remote")]
mod act;
mod context;
mod decision;
mod event;
mod interface;
mod registry;
pub(crate) mod state;
mod table;
#[cfg(feature = "remote")]
mod view;

#[cfg(feature = "remote")]
pub use act::Act;
pub(crate) use context::Alarm;
pub use context::Context;
pub use decision::{Assignment, Budget, Clock, Decision, Exchange};
pub use event::Event;
pub use interface::Policy;
#[cfg(feature = "order")]
pub use interface::Standing;
pub use registry::{Build, Entry, Registry};
pub use state::Job;
pub use table::PreparedTable;
#[cfg(feature = "power")]
pub(crate) use table::{Side, Slice as TableSlice};
pub(crate) use table::{Table, lent};
#[cfg(feature = "remote")]
pub use view::{TASK_WORDS, TaskView};
