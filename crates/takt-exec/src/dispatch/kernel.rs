//! Tasks in the kernel's classes: the kernel schedules their processes, which are thawed once.

use super::dispatcher::{Before, Bench, Dispatcher};
use crate::actuator::Actuator;
use std::io;
use takt_core::model::TaskId;

pub(crate) struct Kernel;

impl<A: Actuator> Dispatcher<A> for Kernel {
    fn stop(&mut self, _: TaskId, _: &mut Bench<'_, A>) -> io::Result<()> {
        Ok(())
    }

    fn start(&mut self, task: TaskId, _: Before, on: &mut Bench<'_, A>) -> io::Result<()> {
        let slot = &mut on.slots[task.index()];
        if let Some(kernel) = slot.kernel.as_mut().filter(|kernel| !kernel.thawed) {
            on.actuator.start(slot.group)?;
            kernel.thawed = true;
        }
        Ok(())
    }
}
