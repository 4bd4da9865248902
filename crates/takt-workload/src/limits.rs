//! How much of a kind a file may hold.

use takt_core::time::Span;

/// The most tasks that a workload may have.
pub const MAX_TASKS: usize = 100_000;
/// The most entries of execution times that come from files, counted for each copy of a task.
pub const MAX_SERIES: usize = 10_000_000;
/// The most windows of a major frame.
pub const MAX_WINDOWS: usize = 100_000;
/// The most entries of `changes`, and of a task's `releases` or `execution`.
pub const MAX_ENTRIES: usize = 100_000;
/// The most events and jobs of a task that may wait.
pub(crate) const MOST_QUEUED: u64 = 4096;
/// The most diagnostics that [`crate::load`] returns; the first ones of the file.
pub const MAX_DIAGNOSTICS: usize = 100;
/// How many commands of `on_miss` and `on_overrun` a run starts in a second, unless the file says otherwise, and the most.
pub const DEFAULT_EXEC_LIMIT: u32 = 10;
pub(crate) const MOST_EXEC: u64 = 1000;
/// Time that tasks with `init` get to initialise, unless the file says otherwise.
pub const DEFAULT_INIT_TIMEOUT: Span = Span::from_secs(10);
/// FIFO priority of real-time processes, unless the file says otherwise.
pub(crate) const DEFAULT_PRIORITY: u8 = 10;
/// The highest one that a file may ask for: the scheduler thread has the next.
pub(crate) const MAX_PRIORITY: u8 = 79;
/// The highest one with `dispatch: priority`, which needs ten more.
pub(crate) const MAX_LOWEST_PRIORITY: u8 = MAX_PRIORITY - 10;
