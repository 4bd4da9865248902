//! CPUs set apart for time-critical processes: an exclusive CPU set, and everything movable moved away from it. And the journal of all settings that Takt
//! changes, those of power policies included.
//!
//! Every change is noted in a journal before it is made (`journal`). The journal survives the process, so a later process restores the values exactly. Several
//! isolations can exist at once. A setting that they share, such as the CPUs of an interrupt, is computed from its original value and the claims of all
//! of them. So they can be undone in any order. A power policy of a run has its settings to itself until its end, and then they get the values that the
//! remaining isolations ask for.
//!
//! The mechanism is cpuset of cgroup v1, or a partition of cgroup v2. Sources: `Documentation/admin-guide/cgroup-v1/cpusets.rst`,
//! `Documentation/admin-guide/cgroup-v2.rst` and `Documentation/core-api/irq/irq-affinity.rst` of Linux.

mod change;
mod held;
mod journal;
mod machine;
#[cfg(test)]
mod model;
mod neighbours;
mod of_run;
mod plan;
mod refusal;
mod step;
mod threads;
mod value;
mod verify;

pub use change::{Created, Isolator, Request, Undone};
pub(crate) use held::{hold, holders, recover, release};
pub(crate) use machine::named;
pub use machine::{Kernel, Linux, Thread};
pub use of_run::{Isolation, open};
pub use refusal::Refusal;
pub use step::Step;
pub use verify::{Finding, Status};
