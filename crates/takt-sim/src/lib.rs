//! Virtual time under the engine: the simulator, and the replay of a recorded run.
//!
//! A simulated job does what its task's steps say, or runs for as long as [`takt_core::model::Task::demand`] says and then
//! completes; a job that has neither steps nor a runtime never completes by itself. The machine costs nothing unless the
//! [`Scenario`] says so. Memory does not grow with the simulated time.
//!
//! # What jobs do
//! Locking, unlocking and yielding take no time. A job does one of these at a time, and each is followed by a decision, so
//! that a job that is preempted by its own unlocking continues only when it runs again. Only the unlocks and yields with which it
//! ends are one instant with its completion. A sleep begins with [`Input::Block`] and ends with [`Input::Wake`] at the first
//! multiple of the system's tick that is not before its end; if it is the last step, the job completes as it wakes up. An
//! aborted job leaves its steps and its sleep undone, and its handler runs for its runtime.
//!
//! # What happens to them
//! A [`Input::Block`] holds its task until a [`Input::Wake`]: its ready job blocks at once; one that sleeps or waits
//! for a resource then, or that comes later, blocks as soon as it could continue. A `Wake` does not end a sleep of the job's own.
//!
//! # What they need
//! A system's load scales what its jobs need by their planned release, as it scales what they declare: the runtime, what is
//! drawn or listed instead of it, and each run among the steps. Sleeps and handlers are not scaled.
//!
//! # What it costs
//! A cost is time in which a job holds its CPU and makes no progress, while deadlines and budgets run on. It is charged to a
//! job, which pays it before it continues, once and in full: a job that is preempted before it has paid pays the rest when it
//! runs again, together with what that costs. Only the end of the job cancels a rest. With a meter ([`Scenario::metered`]) budgets of CPU
//! time do not run on: each step begins with [`Input::Usage`] of the jobs that have such a budget, and a budget is due once its job has used it.
//!
//! * `context_switch`: to a job that starts on a CPU where another task ran last, whether or not the CPU was idle in between: the
//!   changes that [`Engine::context_switches`] counts. A job on several CPUs pays once.
//! * `migration`: to a job that continues on another CPU than before.
//! * `cache_reload`: to a job that continues after it was stopped in favour of another one; not after it blocked or was suspended.
//! * `scheduler`, and `scheduler_task` for each task that the policy looked at: for each run of the scheduler.
//! * `lock`: for each run of a scheduler whose ready queue belongs to several CPUs.
//! * `interrupt`: to a CPU that another one interrupts, so that it enters the scheduler.
//!
//! # Who runs the scheduler
//! Each step of the engine is a run of the scheduler of every ready queue that it is about. A queue belongs to all CPUs under a
//! global policy, to those of a cluster under a clustered one, to one CPU under a partitioned one; domains have queues of their
//! own. Under a window table each CPU goes by its own copy of it and has nothing to share. A step is about a queue if something
//! happened on one of its CPUs, or if the job of one of them changes: one starts, continues or stops there, or the same task begins
//! its next job.
//!
//! Acts of a job happen on its CPU. Releases, wake-ups, deadlines, and changes from outside happen on the CPU on which their
//! task ran last, or before that the first one of its queue; the policy's own timers on the first CPU whose job changes by
//! them; and what changes nothing and belongs to no task on the first CPU of the machine.
//!
//! A queue of one CPU has no lock, and its CPU runs the scheduler once. For queues of several there are the two models of
//! Dellinger, Garyali, Ravindran, "ChronOS Linux: A Best-Effort Real-Time Multiprocessor Linux Kernel", DAC 2011, section 5.2
//! ([`Deciding`]). In both, what the scheduler costs is the time in the lock: `lock`, `scheduler` and `scheduler_task` together
//! make one *call*.
//!
//! * [`Deciding::StopTheWorld`], "stop-the-world": the first CPU on which something happened decides for all and pays one call. It
//!   interrupts the others, but not those that are idle and stay so. They pay for the interrupt, are kept waiting at the lock,
//!   which is a *blocked entry*, and make no progress for the length of the call. CPUs on which something happened in the same
//!   instant come and wait without an interrupt.
//! * [`Deciding::Concurrent`], "concurrent": each CPU on which something happened picks a job for itself, in that order, so that the
//!   second one waits for the first one's call and pays two, which is a blocked entry, and so on. Every other CPU whose job
//!   changes is interrupted and picks for itself, too: it pays for the interrupt and one call.
//!
//! All of it is charged to the job that the CPU has after the decision. A CPU that is idle then bears it for nothing; a job on
//! several CPUs pays what the first of them costs. What is simplified: the decision itself is that of the policy at the instant
//! of the step, whatever its cost, and its effect is not delayed on a CPU that becomes idle by it; the scheduler looks at all
//! tasks although in the second model each CPU picks one; interrupted CPUs do not wait for each other in the second model; a
//! call in one step does not reach into a later one, so that two steps a nanosecond apart do not block each other.
//! Runs, interrupts and blocked entries are counted whether they cost anything or not ([`Report`]).
//!
//! # Power
//! With a power model ([`Scenario::machine`]) jobs progress at the speeds of the present frequencies, which are the highest ones until
//! the power policy requests others. A CPU that a job holds draws its busy power, any other one its idle power. Requests take effect at
//! once. Samples of all thermal zones are inputs of the engine, the first ones at time zero, so that the power policy learns of
//! temperatures as in a real run.
//!
//! Stolen time is the beginning of each period on every CPU, the first one at time zero. A job that holds a CPU then makes no
//! progress, and the engine does not learn of it.

mod board;
mod entries;
mod freeze;
mod machine;
mod report;
mod steal;
mod virtual_time;

pub use freeze::{MAX_FROZEN_JOBS, Unfrozen, freeze};
pub use report::{CpuTime, DomainEnergy, PowerReport, Report, TaskTime, ZoneTemperatures};
pub use virtual_time::{Simulation, Step, replay, simulate, simulate_to_a_miss, simulate_while};

#[cfg(doc)]
use takt_core::engine::{Engine, Input};
#[cfg(doc)]
use takt_core::scenario::{Deciding, Scenario};
