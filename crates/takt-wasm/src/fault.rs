//! Faults of a module: when it is loaded, and while it schedules.

use std::fmt;
use takt_core::model::TaskId;
use takt_core::time::Time;

/// A module that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    /// It is larger than any policy.
    #[error("it has more than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// It is no WebAssembly module, or uses what the interpreter does not have.
    #[error("it is no WebAssembly module: {0}")]
    NotWasm(String),
    /// It has more of something than a policy needs, so that its memory would not be bounded.
    #[error("it has {count} {what}, and a policy has at most {most}")]
    #[expect(missing_docs, reason = "they are in the text")]
    TooMuch { what: &'static str, count: u64, most: u64 },
    /// It uses an instruction whose time and memory are not bounded.
    #[error("it uses the instruction `{0}`, which no policy needs")]
    Instruction(&'static str),
    /// This process cannot allocate the memory that a module of this size may need, in MiB.
    #[error("there is no memory for it: it may need {0} MiB")]
    NoMemory(u64),
    /// It imports something.
    #[error("it imports `{0}`, and a policy imports nothing")]
    Imports(String),
    /// It lacks an export, or that has another type.
    #[error("it does not export `{0}`")]
    Lacks(&'static str),
    /// It has another version of the interface.
    #[error("it has version {0} of the interface, and this program has version {own}", own = takt_wasm_module::ABI)]
    Version(i32),
    /// It says something that no policy can say.
    #[error("{0}")]
    Profile(&'static str),
    /// It does not answer.
    #[error("it {0}")]
    Fails(Fault),
}

/// Why a module no longer schedules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each has its text")]
pub enum Fault {
    Fuel,
    Memory,
    Trap(&'static str),
    Row,
    TooMuch,
    ForeignTask(TaskId),
    NoJob(TaskId),
    NotReady(TaskId),
    TwiceTask(TaskId),
    TwiceCpu,
    NotLent(TaskId),
    Affinity(TaskId),
    Timer(u16),
    Amount,
    Moment,
    Livelock,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Fuel => write!(f, "used more instructions than its setting `fuel` allows"),
            Fault::Memory => write!(f, "used more memory than it may have"),
            Fault::Trap(why) => write!(f, "ended in a trap: {why}"),
            Fault::Row => write!(f, "gave an answer that cannot be read"),
            Fault::TooMuch => write!(f, "gave an answer longer than its area"),
            Fault::ForeignTask(task) => write!(f, "named task {}, which is not its own", task.0),
            Fault::NoJob(task) => write!(f, "did something to the job of task {}, which has none", task.0),
            Fault::NotReady(task) => write!(f, "chose task {}, which has no job that can run", task.0),
            Fault::TwiceTask(task) => write!(f, "chose task {} twice", task.0),
            Fault::TwiceCpu => write!(f, "chose two tasks for one CPU"),
            Fault::NotLent(task) => write!(f, "chose a CPU for task {} that it has not been lent", task.0),
            Fault::Affinity(task) => write!(f, "chose a CPU for task {} that its affinity does not allow", task.0),
            Fault::Timer(timer) => write!(f, "set timer {timer}, which is not its own"),
            Fault::Amount => write!(f, "named a time that no schedule reaches"),
            Fault::Moment => write!(f, "ended a job while it decided"),
            Fault::Livelock => write!(f, "asked to be asked again without end"),
        }
    }
}

/// A fault, and its instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The instant of the schedule.
    pub at: Time,
    /// The fault.
    pub fault: Fault,
}
