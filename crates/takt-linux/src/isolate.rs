//! CPUs set apart for time-critical processes: an exclusive CPU set, and everything movable moved away from it.
//!
//! Every change is noted in a journal before it is made (`journal`). The journal survives the process, so a later process restores the values exactly. Several
//! isolations can exist at once. A setting that they share, such as the CPUs of an interrupt, is computed from its original value and the claims of all
//! of them. So they can be undone in any order.
//!
//! The mechanism is cpuset of cgroup v1, or a partition of cgroup v2. Sources: `Documentation/admin-guide/cgroup-v1/cpusets.rst`,
//! `Documentation/admin-guide/cgroup-v2.rst` and `Documentation/core-api/irq/irq-affinity.rst` of Linux.

mod change;
mod journal;
mod machine;
#[cfg(test)]
mod model;
mod plan;
mod refusal;
mod step;
mod threads;
mod value;
mod verify;

pub use change::{Created, Isolator, Request, Undone};
pub use machine::{Kernel, Linux, Thread};
pub use refusal::Refusal;
pub use step::Step;
pub use verify::{Finding, Status};

/// Undoes isolations of dead runs and unfinished ones, as root and where there are any.
pub(crate) fn recover() -> std::io::Result<()> {
    if !Linux::journal().exists() || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let recovered = Isolator::new(Linux::open()?).and_then(|mut isolator| isolator.recover());
    recovered.map(drop).map_err(std::io::Error::other)
}
