//! The description of a system: tasks, partitions, time windows, the machine.
//!
//! A [`System`] holds no names, commands or file positions: those belong to the workload file and
//! stay with its reader. Everything here is checked by [`System::validate`] when an engine is built.

mod arrival;
mod calls;
mod facts;
mod ids;
mod invalid;
mod load;
mod program;
mod reservation;
mod servers;
mod spec;
mod system;
mod task;

pub use arrival::Arrival;
pub use calls::{Call, Terms};
pub use facts::{Fact, Hosts, Order, Reservations, Servers, Split, When};
pub use ids::{PartitionId, ResourceId, ServerId, TaskId};
pub use invalid::Invalid;
pub use load::{Load, scaled};
pub use program::{Behaviour, Execution, Program, Step};
pub use reservation::{Reservation, Server};
pub use spec::{
    CLUSTER, CpuTest, Fit, Kind, MAX_SETTINGS, Need, Placement, PolicySpec, Profile, Scope, Setting, Values,
};
pub use system::{
    Backlog, BestEffortStart, Domain, Late, Locking, Partition, Slice, System, TABLES_MAX, TableRules, Timing, Window,
    WindowTable,
};
pub use task::{Completion, Handler, OnAbort, OnExit, Task};
