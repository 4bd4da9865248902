//! The possible faults of a system.

use super::ids::TaskId;

/// A rule of [`System::validate`](super::System::validate) that is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// The machine has no CPU.
    NoCpu,
    /// Not as many speeds as there are CPUs.
    Speeds,
    /// A period of zero or a negative offset.
    Period(TaskId),
    /// A deadline, runtime, budget or execution time (of a job or its handler) that is not above zero, execution times without
    /// any or with a least above the most, or a negative jitter.
    Length(TaskId),
    /// A jitter above twice the budget.
    Jitter(TaskId),
    /// A reservation of nothing, of more than its deadline or period, or with a deadline beyond its period.
    Reservation(TaskId),
    /// A reservation with a deadline of its own, under a policy that knows only servers whose deadlines are the ends of their
    /// periods.
    Constrained(TaskId),
    /// A shared server with no budget, with more of it than its period, or with a deadline of its own.
    Budget(usize),
    /// A task behind a server that does not exist, or with a reservation of its own besides.
    Server(TaskId),
    /// The property in which a task differs from those before it behind the same server: a CPU, or a domain or partition.
    Apart(TaskId, &'static str),
    /// A task that may run on no CPU of the machine.
    Affinity(TaskId),
    /// A task that is released after itself, or after one that does not exist.
    Follows(TaskId),
    /// A window of length zero.
    Window(usize),
    /// Slices of a window overlap, leave the machine, or name a partition twice.
    Slices(usize),
    /// A partition names a task that does not exist.
    Partition,
    /// Release instants that are negative or out of order.
    Instants(TaskId),
    /// Steps of length zero, of an unknown resource, or with locks and unlocks that do not match.
    Steps(TaskId),
    /// A negative tick, timer resolution or timer lateness.
    Timing,
    /// A utility beyond [`crate::utility::MOST`], or a time-utility function out of order.
    Utility(TaskId),
    /// A load without points, with points out of order, or with a factor of zero.
    Load,
    /// Domains overlap, leave the machine, or do not hold each task once.
    Domains,
    /// A setting of the policy outside of its range.
    Setting(&'static str),
    /// The policy needs a key that the task does not have.
    Needs(TaskId, &'static str),
    /// A list of removed tasks that is out of order or names one that does not exist.
    Removed,
    /// There is room for so many tasks only.
    NoRoom(usize),
    /// The policy cannot work on this machine or system.
    Unsuitable(&'static str),
}

impl core::fmt::Display for Invalid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Invalid::NoCpu => write!(f, "the machine has no CPU"),
            Invalid::Speeds => write!(f, "each CPU has a speed, or none has"),
            Invalid::Period(t) => write!(f, "task {}: a period must be above zero, an offset not negative", t.0),
            Invalid::Length(t) => write!(
                f,
                "task {}: deadline, runtime, budget and execution times, its own and its handler's, must be above zero, \
                 the least not above the most, and a jitter not negative",
                t.0
            ),
            Invalid::Jitter(t) => write!(f, "task {}: the jitter is above twice the budget", t.0),
            Invalid::Reservation(t) => {
                write!(
                    f,
                    "task {}: a reservation is above zero, not above its deadline, and that not above its period",
                    t.0
                )
            }
            Invalid::Constrained(t) => {
                write!(f, "task {}: the policy knows no `deadline` of a reservation but the end of its period", t.0)
            }
            Invalid::Budget(s) => {
                write!(f, "server {s}: its budget must be above zero and not above its period, which is its deadline")
            }
            Invalid::Server(t) => {
                write!(f, "task {}: its server does not exist, or it has a reservation of its own besides", t.0)
            }
            Invalid::Apart(t, what) => {
                write!(f, "task {}: it has no {what} in common with those before it behind the same server", t.0)
            }
            Invalid::Affinity(t) => write!(f, "task {}: it may run on no CPU of the machine", t.0),
            Invalid::Follows(t) => {
                write!(f, "task {}: it is released after itself, or after a task that does not exist", t.0)
            }
            Invalid::Window(w) => write!(f, "window {w}: its length must be above zero"),
            Invalid::Slices(w) => write!(f, "window {w}: slices overlap, leave the machine or repeat a partition"),
            Invalid::Partition => write!(f, "a partition names a task that does not exist"),
            Invalid::Instants(t) => write!(f, "task {}: release instants must ascend from zero or later", t.0),
            Invalid::Steps(t) => {
                write!(f, "task {}: steps must be longer than zero and give back each resource that they take", t.0)
            }
            Invalid::Utility(t) => write!(f, "task {}: its utility is too high, or its points are out of order", t.0),
            Invalid::Load => write!(f, "the load needs points in order and factors above zero"),
            Invalid::Domains => {
                write!(f, "domains overlap without bands, leave the machine, or do not hold each task once")
            }
            Invalid::Timing => write!(f, "a tick, timer resolution or timer lateness is negative"),
            Invalid::Setting(name) => write!(f, "the policy's setting `{name}` is out of range"),
            Invalid::Needs(t, what) => write!(f, "task {}: the policy needs its {what}", t.0),
            Invalid::Removed => write!(f, "the removed tasks are out of order, or one does not exist"),
            Invalid::NoRoom(most) => write!(f, "there is room for {most} tasks"),
            Invalid::Unsuitable(why) => write!(f, "{why}"),
        }
    }
}
impl core::error::Error for Invalid {}
