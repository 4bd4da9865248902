//! Dispatch by freezing: the group of a task is frozen while the engine does not run it (`dispatch: freeze`).

use super::dispatcher::{Before, Bench, Dispatcher};
use crate::actuator::Actuator;
use std::io;
use takt_core::model::TaskId;

pub(crate) struct Freezing;

impl<A: Actuator> Dispatcher<A> for Freezing {
    fn stop(&mut self, task: TaskId, on: &mut Bench<'_, A>) -> io::Result<()> {
        on.freeze(task)
    }

    fn start(&mut self, task: TaskId, before: Before, on: &mut Bench<'_, A>) -> io::Result<()> {
        match before {
            Before::Frozen => on.actuator.start(on.slots[task.index()].group),
            Before::Asleep | Before::Running => Ok(()),
        }
    }
}
