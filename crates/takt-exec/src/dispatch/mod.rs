//! How the processes of tasks are kept off their CPUs, and let onto them: a dispatcher in a file each.

mod dispatcher;
mod freezing;
mod kernel;
mod priorities;

pub(crate) use dispatcher::{Before, Bench, Dispatcher};
pub(crate) use kernel::Kernel;

use crate::actuator::Actuator;
use crate::plan::{Dispatch, Plan};

/// The dispatcher of all tasks of a plan that the kernel does not schedule.
pub(crate) fn of_plan<A: Actuator>(plan: &Plan) -> Box<dyn Dispatcher<A>> {
    match plan.dispatch {
        Dispatch::Freeze => Box::new(freezing::Freezing),
        Dispatch::Priority => Box::new(priorities::Priorities::new(plan.processes.len(), plan.priority)),
    }
}
