//! What is to be scheduled: tasks, partitions, time windows, the machine.
//!
//! A [`System`] holds no names, commands or file positions: those belong to the workload file and
//! stay with its reader. Everything here is checked by [`System::validate`] when an engine is built.

use crate::cpus::CpuSet;
use crate::policy::PolicySpec;
use crate::time::Span;
use alloc::vec::Vec;

/// A task: the index into [`System::tasks`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub u32);

/// A partition: the index into [`System::partitions`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PartitionId(pub u32);

/// A shared resource, numbered from zero below [`System::resources`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ResourceId(pub u16);

impl TaskId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
impl PartitionId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How jobs of a task come into being.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Released by the engine at `offset + k * period`, k = 0, 1, 2 …
    Periodic {
        /// First release after the start of the schedule.
        offset: Span,
        /// Time between releases; above zero.
        period: Span,
    },
    /// Released by its policy: a process of a window table is activated once per window.
    Activated,
}

/// One task: a stream of jobs. On Linux it is one process (and its children).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Where its jobs come from.
    pub arrival: Arrival,
    /// Relative deadline. `None`: none is ever missed.
    pub deadline: Option<Span>,
    /// CPU time one job needs, as declared. The simulator lets a job complete after it; without it an
    /// activation uses its whole budget.
    pub runtime: Option<Span>,
    /// Budget of one job. In a window it is elapsed time; under an online policy it is CPU time.
    pub budget: Option<Span>,
    /// The budget of each activation is drawn uniformly from `budget ± jitter / 2`; at most `2 * budget`.
    pub jitter: Span,
    /// Fixed priority; a higher number is more important. Used by the `fp` policy.
    pub priority: u32,
    /// CPUs that it may run on.
    pub affinity: CpuSet,
}

/// A group of tasks that owns slices of windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Its tasks in their order.
    pub tasks: Vec<TaskId>,
    /// What schedules them inside the partition's slices; `None` is `fifo`: one at a time, in order.
    pub policy: Option<PolicySpec>,
}

/// One slice of a window: a CPU set lent to at most one safety-critical and one best-effort partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The CPUs; disjoint from those of the window's other slices.
    pub cpus: CpuSet,
    /// Runs from the start of the window.
    pub sc: Option<PartitionId>,
    /// Runs when the safety-critical side is done (see [`BestEffortStart`]).
    pub be: Option<PartitionId>,
}

/// One time window of the major frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Length; above zero.
    pub length: Span,
    /// Its slices; none makes an idle window.
    pub slices: Vec<Slice>,
}

/// When best-effort partitions of a window start.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum BestEffortStart {
    /// When all safety-critical partitions of the window are done (DEmOS's rule).
    #[default]
    AllDone,
    /// As soon as the safety-critical partition of the same slice is done.
    SliceDone,
}

/// What becomes of a job that passes its absolute deadline unfinished.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Late {
    /// It runs on to completion.
    #[default]
    Continue,
    /// It is aborted at its deadline.
    Abort,
}

/// What becomes of a release while the task's previous job is unfinished.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Backlog {
    /// It waits; jobs of a task run one at a time in order.
    #[default]
    Queue,
    /// It is skipped and counted as released and missed.
    Skip,
}

/// A whole system: the input of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    /// The CPUs of the machine, by number.
    pub cpus: CpuSet,
    /// All tasks.
    pub tasks: Vec<Task>,
    /// Partitions of the window table; empty without windows.
    pub partitions: Vec<Partition>,
    /// The major frame; empty for a purely online system.
    pub windows: Vec<Window>,
    /// Start rule of best-effort partitions.
    pub be_start: BestEffortStart,
    /// The policy of the whole system: `windows` for a window table.
    pub policy: PolicySpec,
    /// Treatment of late jobs.
    pub late: Late,
    /// Treatment of releases that find the task busy.
    pub backlog: Backlog,
    /// Number of shared resources.
    pub resources: u16,
    /// Seed of everything drawn at random (budget jitter).
    pub seed: u64,
}

impl System {
    /// Length of the major frame; zero without windows.
    #[must_use]
    pub fn major_frame(&self) -> Span {
        self.windows.iter().fold(Span::ZERO, |sum, w| sum + w.length)
    }

    /// The interned CPU sets of this system: first one per CPU in ascending order, then every
    /// other set that a slice names. [`crate::record::Place`] is an index into it.
    #[must_use]
    pub fn places(&self) -> Vec<CpuSet> {
        let mut places: Vec<CpuSet> = self.cpus.iter().map(CpuSet::single).collect();
        for slice in self.windows.iter().flat_map(|w| &w.slices) {
            if !places.contains(&slice.cpus) {
                places.push(slice.cpus);
            }
        }
        places
    }

    /// Checks what the engine relies on.
    ///
    /// # Errors
    /// The first rule that is broken. Readers of files find the same faults earlier, with their place in the file.
    pub fn validate(&self) -> Result<(), Invalid> {
        let sure = |holds: bool, error: Invalid| if holds { Ok(()) } else { Err(error) };
        sure(!self.cpus.is_empty(), Invalid::NoCpu)?;
        for (i, task) in self.tasks.iter().enumerate() {
            let id = TaskId(i as u32);
            if let Arrival::Periodic { offset, period } = task.arrival {
                sure(period > Span::ZERO && offset >= Span::ZERO, Invalid::Period(id))?;
            }
            let positive = |span: Option<Span>| span.is_none_or(|s| s > Span::ZERO);
            sure(positive(task.deadline) && positive(task.runtime), Invalid::Length(id))?;
            sure(positive(task.budget) && task.jitter >= Span::ZERO, Invalid::Length(id))?;
            let most = task.budget.map_or(Span::ZERO, |b| b * 2);
            sure(task.jitter <= most, Invalid::Jitter(id))?;
            sure(!task.affinity.is_disjoint(&self.cpus), Invalid::Affinity(id))?;
        }
        for (i, window) in self.windows.iter().enumerate() {
            sure(window.length > Span::ZERO, Invalid::Window(i))?;
            let mut taken = CpuSet::EMPTY;
            let mut used: Vec<PartitionId> = Vec::new();
            for slice in &window.slices {
                let inside = !slice.cpus.is_empty() && slice.cpus.is_subset(&self.cpus);
                sure(inside && slice.cpus.is_disjoint(&taken), Invalid::Slices(i))?;
                taken = taken.union(&slice.cpus);
                for partition in [slice.sc, slice.be].into_iter().flatten() {
                    let exists = partition.index() < self.partitions.len();
                    sure(exists && !used.contains(&partition), Invalid::Slices(i))?;
                    used.push(partition);
                }
            }
        }
        for partition in &self.partitions {
            let known = partition.tasks.iter().all(|t| t.index() < self.tasks.len());
            sure(known, Invalid::Partition)?;
        }
        Ok(())
    }
}

/// A rule of [`System::validate`] that is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// The machine has no CPU.
    NoCpu,
    /// A period of zero or a negative offset.
    Period(TaskId),
    /// A deadline, runtime or budget of zero, or a negative jitter.
    Length(TaskId),
    /// A jitter above twice the budget.
    Jitter(TaskId),
    /// A task that may run on no CPU of the machine.
    Affinity(TaskId),
    /// A window of length zero.
    Window(usize),
    /// Slices of a window overlap, leave the machine, or name a partition twice.
    Slices(usize),
    /// A partition names a task that does not exist.
    Partition,
    /// The policy needs what the task does not have.
    Needs(TaskId, &'static str),
    /// The policy cannot work on this machine or system.
    Unsuitable(&'static str),
}

impl core::fmt::Display for Invalid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Invalid::NoCpu => write!(f, "the machine has no CPU"),
            Invalid::Period(t) => write!(f, "task {}: a period must be above zero, an offset not negative", t.0),
            Invalid::Length(t) => write!(f, "task {}: deadline, runtime and budget must be above zero", t.0),
            Invalid::Jitter(t) => write!(f, "task {}: the jitter is above twice the budget", t.0),
            Invalid::Affinity(t) => write!(f, "task {}: it may run on no CPU of the machine", t.0),
            Invalid::Window(w) => write!(f, "window {w}: its length must be above zero"),
            Invalid::Slices(w) => write!(f, "window {w}: slices overlap, leave the machine or repeat a partition"),
            Invalid::Partition => write!(f, "a partition names a task that does not exist"),
            Invalid::Needs(t, what) => write!(f, "task {}: the policy needs its {what}", t.0),
            Invalid::Unsuitable(why) => write!(f, "{why}"),
        }
    }
}
impl core::error::Error for Invalid {}
