//! Servers for aperiodic work beside periodic tasks.
//!
//! Lehoczky, Sha and Strosnider, "Enhanced Aperiodic Responsiveness in Hard Real-Time Environments", RTSS 1987, for the idea:
//! jobs that come at any time are served within a budget that the analysis sees as one more periodic task. Invariant: the
//! jobs of a server, whether they are of one task or of several, run at its rank only while something is left of its budget.
//!
//! The host ranks everything on one CPU in one queue: tasks of their own by period, priority or deadline, the jobs of a server
//! by those of the server, first come first served. When a budget comes, and what becomes of it while there is no work, is a
//! [`Rule`]: [`polling_server`] loses it, in [`periodic_server`] it shrinks with time, [`deferrable_server`] keeps it until the next
//! one, and [`sporadic_server`] gets back what was used, a period after it could be used.
//!
//! An idle server has no timer, unless it is a periodic one that is ranked by deadline: its budget is computed when work arrives. Work that follows in the same instant is no new beginning,
//! whatever the order of the events. Policies whose guarantee belongs to one task (`cbs` and its relatives) refuse shared servers.

pub mod deferrable_server;
mod host;
pub mod periodic_server;
mod periods;
pub mod polling_server;
mod posix;
mod queues;
mod refills;
mod rule;
pub mod sporadic_server;

pub use host::build;
use host::shared;
use rule::By;
pub use rule::{BACKGROUND, BY, CONSERVING, RANKED_BY, Rule, SCOPES, SERVED_LAST};
