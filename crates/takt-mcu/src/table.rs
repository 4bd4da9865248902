//! Tables: a workload as the kernel takes it. `takt-mcu-build` writes them.

use takt_core::input::Input;
use takt_core::policy::Entry;
use takt_core::time::{Span, Time};

/// The table of a workload with `N` tasks.
#[derive(Debug)]
pub struct Table<const N: usize> {
    /// The system in the form of [`takt_core::wire`].
    pub system: &'static [u8],
    /// The policy.
    pub policy: &'static Entry,
    /// Bytes of the tasks' stacks, each a multiple of 8.
    pub stacks: [u32; N],
    /// Whether a fault in the task aborts its job; otherwise the kernel stops.
    pub restarts: [bool; N],
    /// Changes of the system with their instants, in ascending order. The kernel makes each of them an input of the engine.
    pub changes: &'static [(Time, Input)],
    /// How long the kernel runs; without it, for ever.
    pub duration: Option<Span>,
}
