//! The figures of a schedule at one instant, as a value that programs exchange.

use serde::{Deserialize, Serialize};
use takt_core::stats::Histogram;

/// The version of the form.
pub(crate) const VERSION: u32 = 1;

/// The figures of a schedule at one instant. Its JSON form is an object with these keys; times are nanoseconds since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The version of this form, 1. Keys that are only added do not change it.
    pub takt_status: u32,
    /// Name of the workload.
    pub workload: String,
    /// `sim`, `run` or `kernel`.
    pub source: String,
    /// The policy with its settings, as it is now.
    pub policy: String,
    /// The instant.
    pub now_ns: i64,
    /// How long the run is to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ns: Option<i64>,
    /// The tasks, in the order of the workload.
    pub tasks: Vec<TaskStatus>,
    /// The CPUs of the schedule in ascending order.
    pub cpus: Vec<CpuStatus>,
    /// The latest events, oldest first.
    pub events: Vec<EventStatus>,
    /// The overload that is not over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// Overloads that have begun.
    pub overloads: u64,
    /// Lateness of the scheduler at planned instants; in a simulation there is none.
    pub lateness: Figures,
    /// How often the running task of a CPU changed.
    pub context_switches: u64,
    /// Windows that passed unserved.
    pub windows_lost: u64,
    /// Records that were lost; counts lack them.
    pub lost_records: u64,
}

/// The figures of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// Its label.
    pub name: String,
    /// Its state.
    pub state: TaskState,
    /// The CPUs on which it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Its current job, or activation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// The absolute deadline of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<i64>,
    /// The part of the last second that it had its CPUs, in millionths; absent where the kernel schedules it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_ppm: Option<u64>,
    /// The part of the whole time, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation_total_ppm: Option<u64>,
    /// All the time that it had its CPUs.
    pub ran_ns: i64,
    /// Budget left of its current job: the budget granted last, without the time on CPUs since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_left_ns: Option<i64>,
    /// The process signals no completions, so that it has activations and no jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jobless: bool,
    /// Jobs released.
    pub released: u64,
    /// Jobs that completed, in time or late.
    pub completed: u64,
    /// Jobs that completed by their deadline.
    pub met: u64,
    /// Jobs that passed their deadline unfinished, or were aborted or skipped.
    pub missed: u64,
    /// Jobs that were aborted; they are among the missed.
    pub aborted: u64,
    /// Jobs that were skipped; they are among the missed.
    pub skipped: u64,
    /// Activations of a process in a window table.
    pub activations: u64,
    /// Activations that ended before the completion signal.
    pub cut_off: u64,
    /// Events that released no job.
    pub lost: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Migrations.
    pub migrations: u64,
    /// Response times.
    pub response: Figures,
    /// The latest response time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_response_ns: Option<i64>,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Its current job runs.
    Running,
    /// Its current job waits for a CPU.
    Ready,
    /// Its current job waits for something else.
    Blocked,
    /// It has no unfinished job.
    #[default]
    Idle,
    /// Its program has ended for good.
    Gone,
}

impl TaskState {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TaskState::Running => "running",
            TaskState::Ready => "ready",
            TaskState::Blocked => "blocked",
            TaskState::Idle => "idle",
            TaskState::Gone => "gone",
        }
    }
}

/// The figures of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStatus {
    /// Its number.
    pub cpu: usize,
    /// The task that runs, as an index of [`Snapshot::tasks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<usize>,
    /// The busy part of the last second, in millionths.
    pub load_ppm: u64,
    /// The busy part of the whole time, in millionths.
    pub load_total_ppm: u64,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventStatus {
    /// Its number, from zero.
    pub sequence: u64,
    /// Its instant.
    pub at_ns: i64,
    /// The word for it, as in [`super::EventKind::name`].
    pub event: String,
    /// The task, as an index of [`Snapshot::tasks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<usize>,
    /// The job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// More about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// An overload that is not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overload {
    /// Its first miss.
    pub since_ns: i64,
    /// Jobs missed in it.
    pub misses: u64,
}

/// Statistics of spans, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// How many there are.
    pub count: u64,
    /// The mean.
    pub mean_ns: i64,
    /// The median.
    pub p50_ns: i64,
    /// The value that 1 % exceed.
    pub p99_ns: i64,
    /// The largest.
    pub max_ns: i64,
}

impl From<&Histogram> for Figures {
    fn from(spans: &Histogram) -> Figures {
        Figures {
            count: spans.count(),
            mean_ns: spans.mean().ns(),
            p50_ns: spans.quantile(500).ns(),
            p99_ns: spans.quantile(990).ns(),
            max_ns: spans.max().ns(),
        }
    }
}
