//! How the processes of tasks are kept off their CPUs, and let onto them: a dispatcher in a file each.

mod dispatcher;
mod freezing;
mod kernel;
mod priorities;
mod ranks;

pub(crate) use dispatcher::{Before, Bench, Dispatcher};
pub(crate) use kernel::Kernel;

use crate::actuator::Actuator;
use crate::plan::{Dispatch, Plan};

/// The dispatcher of all tasks of a plan that the kernel does not schedule, for an engine with so many CPUs.
pub(crate) fn of_plan<A: Actuator>(plan: &Plan, cpus: usize) -> Box<dyn Dispatcher<A>> {
    match plan.dispatch {
        Dispatch::Freeze => Box::new(freezing::Freezing::new(plan.processes.len())),
        Dispatch::Rank => Box::new(ranks::Ranks::new(plan.processes.len(), cpus, plan.priority)),
        Dispatch::Priority => Box::new(priorities::Priorities::new(plan.processes.len(), plan.priority)),
    }
}
