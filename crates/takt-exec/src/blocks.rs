//! Blocks and wake-ups in the middle of jobs that the engine does not know yet, and the rate at which notices of them are heard.

use std::collections::VecDeque;
use takt_core::engine::Input;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};

/// At most so many blocks and wake-ups are taken in at once. Others follow at once.
pub(crate) const ROOM: usize = 1024;
/// In this time at most so many notices are heard. In the rest of it the records are only read when the scheduler wakes up for another reason.
pub(crate) const WINDOW: Span = Span::from_ms(10);
/// See [`WINDOW`]. A notice takes some 40 us of the scheduler's CPU.
pub(crate) const BURST: u32 = 64;

/// Blocks and wake-ups that the engine does not know yet, and room for its other inputs meanwhile.
pub(crate) struct Blocks {
    pub(crate) waits: VecDeque<(Time, Input)>,
    /// The inputs and the requests that follow them.
    pub(crate) inputs: Vec<Input>,
    pub(crate) asking: Vec<TaskId>,
    /// By task: its last report was a block.
    pub(crate) blocked: Vec<bool>,
    /// Blocks of tasks whose programs have rung since.
    pub(crate) doubtful: Vec<(Time, TaskId)>,
    /// Tasks that were dispatched in this step although their processes are blocked: by a job that was aborted.
    pub(crate) dispatched: Vec<TaskId>,
    /// More records wait to be taken in.
    pub(crate) is_full: bool,
    /// The present window, how many notices were heard in it, and whether others are heard.
    pub(crate) since: Time,
    pub(crate) notices: u32,
    pub(crate) deaf: bool,
}

impl Blocks {
    /// For so many tasks, with so much room for inputs.
    pub(crate) fn new(tasks: usize, inputs: usize) -> Blocks {
        Blocks {
            // Some are put back, and events of programs that wake up come besides.
            waits: VecDeque::with_capacity(ROOM + 4 * tasks),
            inputs: Vec::with_capacity(inputs),
            asking: Vec::with_capacity(tasks),
            blocked: vec![false; tasks],
            doubtful: Vec::with_capacity(tasks),
            dispatched: Vec::with_capacity(tasks),
            is_full: false,
            since: Time::ZERO,
            notices: 0,
            deaf: false,
        }
    }

    /// The task's process begins a job, has ended, or is another one.
    pub(crate) fn forget(&mut self, task: TaskId) {
        self.blocked[task.index()] = false;
        self.waits.retain(|(_, input)| input.task() != Some(task) || matches!(input, Input::Release { .. }));
    }
}
