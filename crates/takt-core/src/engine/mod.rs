//! The engine: everything a policy needs and no policy should write again.
//!
//! It owns jobs, releases, absolute deadlines, budgets, timers, resources, the current assignment, the counters and
//! the trace records. A driver hands in time and what it saw ([`Engine::step`]); the engine tells the policy, asks it
//! once for a decision, and returns the difference to the previous assignment as the smallest list of commands.
//!
//! The order within one instant is fixed: what the driver saw (completions first, as it lists them), then budgets that
//! are exhausted, absolute deadlines, the policy's timers, releases; equal ones in the order of task or timer number.
//! A completion at the deadline meets it, and a budget that ends with its window is exhausted, not overrun.
//!
//! Each step costs O(events × (log n + policy)) + O(m) for n tasks and m CPUs. Of r resources and w jobs that wait for one: the
//! end of a job adds O(r), a resource given back O(w), a request that has to wait O(n), and a step under [`Late::AbortAtEvent`](crate::model::Late::AbortAtEvent)
//! O(n), also for each pass in which it aborts jobs.

mod acts;
mod assignment;
mod budgets;
mod inputs;
mod jobs;
mod messages;
#[cfg(feature = "mirror")]
mod mirror;
#[cfg(feature = "power")]
mod power;
mod step;
mod switching;
mod task_set;
mod terms;
mod timers;
mod view;
mod waiting;

pub use crate::input::{Answer, Ending, Input, Question, Reply};
pub use messages::{Activity, Carrier, Command, Reaction, Seen};
#[cfg(feature = "mirror")]
pub use mirror::{Mirror, Now};
pub use step::{Borrower, Engine};
pub use switching::Prepared;
pub use task_set::Room;
