//! What is to be scheduled: tasks, partitions, time windows, the machine.
//!
//! A [`System`] holds no names, commands or file positions: those belong to the workload file and
//! stay with its reader. Everything here is checked by [`System::validate`] when an engine is built.

mod calls;
mod servers;

pub use calls::{Call, Terms};
pub use servers::{Server, ServerId};

use crate::cpus::CpuSet;
use crate::policy::PolicySpec;
use crate::rng;
use crate::time::{Span, Time};
use crate::utility::Utility;
use alloc::collections::BTreeSet;
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Released by the engine at `offset + k * period`, k = 0, 1, 2 …
    Periodic {
        /// First release after the start of the schedule.
        offset: Span,
        /// Time between releases; above zero.
        period: Span,
    },
    /// Released by the engine, each job a random time between `period` and `period + spread` after the one before. The
    /// times are drawn by (seed, task, job), evenly.
    Sporadic {
        /// First release after the start of the schedule.
        offset: Span,
        /// Least time between releases; above zero.
        period: Span,
        /// How much longer it may take at most.
        spread: Span,
    },
    /// Released by the engine at these instants after the start of the schedule, in ascending order. A batch job has one,
    /// its offset.
    Listed {
        /// The instants; none is a task that never has a job.
        instants: Vec<Span>,
    },
    /// Released by its policy: a process of a window table is activated once per window.
    Activated,
}

impl Arrival {
    /// The period, or the least time between releases. `None` where releases are a list or the policy's business.
    #[must_use]
    pub fn period(&self) -> Option<Span> {
        match self {
            Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. } => Some(*period),
            Arrival::Listed { .. } | Arrival::Activated => None,
        }
    }

    /// When job 0 is released by the engine.
    #[must_use]
    pub fn first(&self) -> Option<Time> {
        match self {
            Arrival::Periodic { offset, .. } | Arrival::Sporadic { offset, .. } => Some(Time::ZERO + *offset),
            Arrival::Listed { instants } => instants.first().map(|i| Time::ZERO + *i),
            Arrival::Activated => None,
        }
    }

    /// When the job after number `job` is released, which itself was released at `release`. O(1).
    #[inline]
    #[must_use]
    pub fn next(&self, seed: u64, task: TaskId, job: u64, release: Time) -> Option<Time> {
        match self {
            Arrival::Periodic { period, .. } => Some(release + *period),
            Arrival::Sporadic { period, spread, .. } => {
                let drawn = rng::draw_up_to(spread.ns() as u64, seed ^ SPORADIC, u64::from(task.0), job);
                Some(release + *period + Span::from_ns(drawn as i64))
            }
            Arrival::Listed { instants } => {
                usize::try_from(job).ok().and_then(|j| instants.get(j + 1)).map(|i| Time::ZERO + *i)
            }
            Arrival::Activated => None,
        }
    }
}

// Draws of different kinds for the same task and job must not be the same numbers.
const SPORADIC: u64 = 0x5350_4f52_4144_4943;
const EXECUTION: u64 = 0x4558_4543_5554_494f;

/// One thing that a program does; the simulator carries it out. On Linux a job does what its program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It needs the CPU for so long.
    Run(Span),
    /// It blocks itself for so long: it sleeps or waits for a device.
    Sleep(Span),
    /// It asks for a resource and blocks until it has it.
    Lock(ResourceId),
    /// It gives a resource back.
    Unlock(ResourceId),
    /// It lets others run and stays ready.
    Yield,
    /// It asks for other terms, and goes on with those that it has if it does not get them.
    Call(Call),
    /// Its job is done, and it goes on with the next one (AIRS: `wait_period`).
    WaitPeriod,
}

/// How much CPU time jobs really need, whatever is declared. A job that needs more than its task's runtime overruns it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Execution {
    /// The declared runtime.
    #[default]
    Declared,
    /// Drawn evenly by (seed, task, job).
    Uniform {
        /// The least; above zero.
        least: Span,
        /// The most.
        most: Span,
    },
    /// Job k needs entry k, again from the start after the last one.
    Series(Vec<Span>),
}

/// What is left to do when a job is aborted: its exception handler, work like any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handler {
    /// CPU time that it needs.
    pub runtime: Span,
    /// Its deadline after the abort; without one it has none.
    pub deadline: Option<Span>,
    /// What it is worth to policies that go by utility, in millionths. Nobody accrues it.
    pub utility: u64,
}

/// What becomes of the work of an aborted job: the engine ends the job, but its program is in the middle of it.
///
/// A task whose program is still at the work of an earlier job is *behind*. That work then runs with the deadline, the budget and
/// the server of the task's current job, whose own work begins only after it. A job that ends before its own work began leaves
/// none behind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OnAbort {
    /// The program completes the abandoned work when the task is next scheduled: what a process does that knows nothing of aborts.
    Finish,
    /// The work is dropped: the program is replaced by a new instance. A simulated program takes no time for that.
    #[default]
    Restart,
    /// The program is sent a signal at the next dispatch and returns to its job loop by itself. A simulated program drops the work
    /// and runs its [`Handler`], if it has one.
    Signal,
}

/// What follows when the process of a task ends by itself. Drivers of real processes go by it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum OnExit {
    /// The task ends: regularly after status 0. After another end it misses its further jobs.
    #[default]
    End,
    /// Another process takes its place. The task's jobs are blocked until that is initialised.
    Restart,
    /// The run ends.
    Stop,
}

/// How the end of a task's jobs is known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Completion {
    /// Nothing is declared. A process of a window table has jobs from its first completion signal on; the activations before that
    /// belong to its first job. Without any signal it has no jobs.
    #[default]
    Undeclared,
    /// The program signals the end of each job.
    Signal,
    /// Each job is a process, and ends with it.
    Exit,
    /// The program never signals. In a window table it has no jobs; under an online policy its jobs end only by abort.
    None,
}

/// CPU time reserved for a task, or for those that share a [`Server`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// CPU time in each period: the server's maximum budget Q.
    pub budget: Span,
    /// The server's period P.
    pub period: Span,
    /// The server's relative deadline D, at least Q and at most P; `None` is the end of the period.
    pub deadline: Option<Span>,
}

/// One task: a stream of jobs. On Linux it is one process (and its children).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Where its jobs come from.
    pub arrival: Arrival,
    /// Relative deadline. `None`: none is ever missed.
    pub deadline: Option<Span>,
    /// CPU time one job needs, as declared. The simulator lets a job complete after it (but see `steps` and `execution`);
    /// without it an activation uses its whole budget, and a job never completes.
    pub runtime: Option<Span>,
    /// What the simulated program does, in order and again from the start after the end; empty is to run for its runtime. Each
    /// job does the steps up to the next [`Step::WaitPeriod`] or the end. The sum of its runs is what a job really needs and may
    /// differ from `runtime`.
    pub steps: Vec<Step>,
    /// What simulated jobs without `steps` really need.
    pub execution: Execution,
    /// What an aborted job still has to do.
    pub handler: Option<Handler>,
    /// What becomes of the work of an aborted job.
    pub on_abort: OnAbort,
    /// How the end of its jobs is known.
    pub completion: Completion,
    /// What completing a job is worth, by when; without one it is [`Utility::DEFAULT`].
    pub utility: Option<Utility>,
    /// Budget of one job. In a window it is elapsed time; under an online policy it is CPU time.
    pub budget: Option<Span>,
    /// The budget of each job is drawn uniformly from `budget ± jitter / 2`; at most `2 * budget`. In a window an activation
    /// whose budget is zero is passed over; under an online policy a budget is a nanosecond at least.
    pub jitter: Span,
    /// What is reserved for it; without one, policies with reservations take its runtime in each period.
    pub reservation: Option<Reservation>,
    /// The server for aperiodic work that it shares with other tasks; who does has no reservation of its own.
    pub server: Option<ServerId>,
    /// Fixed priority; a higher number is more important. Used by the `fp` policy.
    pub priority: u32,
    /// The part of a CPU that it should get, in millionths; used by policies that hand out shares.
    pub share: Option<u32>,
    /// How much its share counts when there is not enough for all; used by policies that hand out shares.
    pub importance: u32,
    /// CPUs that it may run on.
    pub affinity: CpuSet,
}

/// A task that has only its policy to release it, may run everywhere, and needs nothing: the base for struct updates.
impl Default for Task {
    fn default() -> Task {
        Task {
            arrival: Arrival::Activated,
            deadline: None,
            runtime: None,
            steps: Vec::new(),
            execution: Execution::Declared,
            handler: None,
            on_abort: OnAbort::default(),
            completion: Completion::default(),
            utility: None,
            budget: None,
            jitter: Span::ZERO,
            reservation: None,
            server: None,
            priority: 0,
            share: None,
            importance: 1,
            affinity: CpuSet::first(crate::cpus::MAX_CPUS),
        }
    }
}

impl Task {
    /// What is agreed about it.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let Task { deadline, runtime, reservation, .. } = *self;
        Terms { period: self.arrival.period(), deadline, runtime, reservation }
    }

    /// What is reserved for it under policies with servers ([`Terms::reserved`]).
    #[must_use]
    pub fn reserved(&self) -> Option<Reservation> {
        self.terms().reserved()
    }

    /// The steps of its jobs in turn: one list, unless a [`Step::WaitPeriod`] lets the program go on with the next job.
    pub fn turns(&self) -> impl Iterator<Item = &[Step]> {
        let steps = match self.steps.split_last() {
            // The end of a program ends a job anyway.
            Some((Step::WaitPeriod, others)) => others,
            _ => &self.steps,
        };
        steps.split(|step| *step == Step::WaitPeriod)
    }

    /// What job number `job` of the task really needs when it has no `steps`; `None` when it never completes by itself.
    #[must_use]
    pub fn demand(&self, seed: u64, task: TaskId, job: u64) -> Option<Span> {
        if self.completion == Completion::None {
            return None;
        }
        match &self.execution {
            Execution::Declared => self.runtime,
            Execution::Uniform { least, most } => {
                let spread = (*most - *least).ns().max(0) as u64;
                let drawn = rng::draw_up_to(spread, seed ^ EXECUTION, u64::from(task.0), job);
                Some(*least + Span::from_ns(drawn as i64))
            }
            Execution::Series(spans) => spans.get((job % spans.len().max(1) as u64) as usize).copied().or(self.runtime),
        }
    }

    /// Multiplies what its jobs need by a factor in millionths, each of the times by itself ([`scaled`]). O(steps).
    pub fn scale(&mut self, factor: u32) {
        let times = |span: &mut Span| *span = scaled(*span, factor);
        self.runtime.iter_mut().for_each(times);
        let reserves = self.reservation.is_some();
        for step in &mut self.steps {
            match step {
                Step::Run(span) => times(span),
                // What is reserved is no need.
                Step::Call(Call::Runtime(span)) if !reserves => times(span),
                _ => {}
            }
        }
        match &mut self.execution {
            Execution::Declared => {}
            Execution::Uniform { least, most } => [least, most].into_iter().for_each(times),
            Execution::Series(spans) => spans.iter_mut().for_each(times),
        }
    }
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
    /// It is aborted at the first event of the system after its deadline, whatever that is about: ChronOS's rule, which has no
    /// timer for deadlines.
    AbortAtEvent,
}

/// What becomes of a release while the task's previous job is unfinished.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Backlog {
    /// It waits; jobs of a task run one at a time in order.
    #[default]
    Queue,
    /// It is skipped and counted as released and missed.
    Skip,
    /// ChronOS's rule: like `Queue`, but the successor of a job that is late or aborted is released at that job's end, even
    /// if that is before its time. Absolute deadlines keep to the grid of the period.
    Chronos,
    /// Hartstone's rule, that of its task loop: a job that ends after its deadline counts one miss for each period that ended
    /// before; its successor is the job of the period in which it ends, and those in between never run. All of it is noticed
    /// when the late job ends, by a clock of the resolution [`Timing::tick`].
    Hartstone,
}

/// How shared resources are handed out.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Locking {
    /// In the order of asking; who holds one keeps its own urgency.
    Fifo,
    /// To the most urgent of those that wait; who holds one is as urgent as the most urgent that waits for it.
    #[default]
    Inheritance,
    /// As `Inheritance`, and who holds one is as urgent as any task that ever uses it would be if released at the moment
    /// of locking: the immediate priority ceiling, under EDF the deadline floor.
    Ceiling,
}

/// When the clock lets things happen. Zero is exact. Releases, deadlines and the borders of tables know only the tick, the ends
/// of budgets only resolution and lateness; the policy's own timers (quanta, changes of laxity, migration) know all three.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Releases, deadlines, borders of tables and the policy's own timers are noticed at multiples of this: a periodic tick.
    pub tick: Span,
    /// The ends of budgets and the policy's own timers are noticed at multiples of this: the resolution of a one-shot timer.
    pub resolution: Span,
    /// They are noticed up to so much later, drawn evenly by (seed, task, number of the grant) or (seed, timer, number of the
    /// setting).
    pub lateness: Span,
}

/// A group of CPUs with tasks and a policy of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Its CPUs; disjoint from those of other domains.
    pub cpus: CpuSet,
    /// Its tasks; each belongs to one domain.
    pub tasks: Vec<TaskId>,
    /// What schedules them.
    pub policy: PolicySpec,
}

/// How what jobs need changes in the course of a run: a factor on declared runtimes and on what jobs really need, by the planned
/// release of the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Load {
    /// Instants after the start of the schedule and the factor then, in millionths, in ascending order and joined by straight
    /// lines; constant before the first and after the last. Of two points of one instant the second counts in it.
    pub points: Vec<(Span, u32)>,
    /// The points begin anew after so long; above zero.
    pub repeat: Option<Span>,
}

impl Load {
    /// The factor of one, in millionths.
    pub const ONE: u32 = 1_000_000;

    /// The factor for a job with this planned release. O(log points).
    #[must_use]
    pub fn factor(&self, release: Time) -> u32 {
        let at = release - Time::ZERO;
        let at = self.repeat.map_or(at, |repeat| Span::from_ns(at.ns().rem_euclid(repeat.ns())));
        let next = self.points.partition_point(|(t, _)| *t <= at);
        match (next.checked_sub(1).map(|before| self.points[before]), self.points.get(next)) {
            (None, None) => Load::ONE,
            (None, Some(&(_, factor))) | (Some((_, factor)), None) => factor,
            (Some((t0, f0)), Some((t1, f1))) => {
                let rise = (i128::from(*f1) - i128::from(f0)) * i128::from((at - t0).ns());
                (i128::from(f0) + rise / i128::from((*t1 - t0).ns())) as u32
            }
        }
    }
}

/// `span` times a factor in millionths, rounded down, but a nanosecond at least.
#[must_use]
pub fn scaled(span: Span, factor: u32) -> Span {
    if factor == Load::ONE {
        return span;
    }
    let ns = i128::from(span.ns()) * i128::from(factor) / i128::from(Load::ONE);
    Span::from_ns(i64::try_from(ns).unwrap_or(i64::MAX).max(1))
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
    /// Servers for aperiodic work that tasks share ([`Task::server`]).
    pub servers: Vec<Server>,
    /// Start rule of best-effort partitions.
    pub be_start: BestEffortStart,
    /// Parts of the machine with policies of their own; empty when there is one policy for all.
    pub domains: Vec<Domain>,
    /// The policy of the whole system: `windows` for a window table, `domains` where these have theirs.
    pub policy: PolicySpec,
    /// Policies that it, or one of its domains, may be switched to ([`crate::engine::Input::Switch`]).
    pub alternatives: Vec<PolicySpec>,
    /// Treatment of late jobs.
    pub late: Late,
    /// Treatment of releases that find the task busy.
    pub backlog: Backlog,
    /// Number of shared resources.
    pub resources: u16,
    /// How they are handed out.
    pub locking: Locking,
    /// When the clock lets things happen.
    pub timing: Timing,
    /// How what jobs need changes over time; `None` leaves it as described.
    pub load: Option<Load>,
    /// Only jobs whose deadline is not beyond this are counted; `None` counts all. With it every policy is judged by the same jobs.
    pub horizon: Option<Time>,
    /// Seed of everything drawn at random: the jitter of budgets and releases, execution times, the lateness of timers.
    pub seed: u64,
}

impl System {
    /// A system of these CPUs under this policy with nothing in it: the base for struct updates.
    #[must_use]
    pub fn new(cpus: CpuSet, policy: PolicySpec) -> System {
        System {
            cpus,
            tasks: Vec::new(),
            partitions: Vec::new(),
            windows: Vec::new(),
            servers: Vec::new(),
            be_start: BestEffortStart::default(),
            domains: Vec::new(),
            policy,
            alternatives: Vec::new(),
            late: Late::default(),
            backlog: Backlog::default(),
            resources: 0,
            locking: Locking::default(),
            timing: Timing::default(),
            load: None,
            horizon: None,
            seed: 0,
        }
    }

    /// Length of the major frame; zero without windows.
    #[must_use]
    pub fn major_frame(&self) -> Span {
        self.windows.iter().fold(Span::ZERO, |sum, w| sum + w.length)
    }

    /// The interned CPU sets of this system: first one per CPU in ascending order, then every
    /// other set that a slice names. [`crate::record::Place`] is an index into it. O(n log n) for n CPUs and slices.
    #[must_use]
    pub fn places(&self) -> Vec<CpuSet> {
        let slices = self.windows.iter().flat_map(|w| &w.slices).map(|slice| slice.cpus);
        let mut known = BTreeSet::new();
        self.cpus.iter().map(CpuSet::single).chain(slices).filter(|set| known.insert(*set)).collect()
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
            match &task.arrival {
                Arrival::Periodic { offset, period } => {
                    sure(*period > Span::ZERO && *offset >= Span::ZERO, Invalid::Period(id))?;
                }
                Arrival::Sporadic { offset, period, spread } => {
                    let sound = *period > Span::ZERO && *offset >= Span::ZERO && *spread >= Span::ZERO;
                    sure(sound, Invalid::Period(id))?;
                }
                Arrival::Listed { instants } => {
                    let sound = instants.first().is_none_or(|i| *i >= Span::ZERO) && instants.is_sorted();
                    sure(sound, Invalid::Instants(id))?;
                }
                Arrival::Activated => {}
            }
            sure(self.sound_steps(task), Invalid::Steps(id))?;
            match &task.execution {
                Execution::Declared => {}
                Execution::Uniform { least, most } => sure(*least > Span::ZERO && least <= most, Invalid::Length(id))?,
                Execution::Series(spans) => {
                    sure(!spans.is_empty() && spans.iter().all(|s| *s > Span::ZERO), Invalid::Length(id))?;
                }
            }
            let handled =
                task.handler.is_none_or(|h| h.runtime > Span::ZERO && h.deadline.is_none_or(|d| d > Span::ZERO));
            sure(handled, Invalid::Length(id))?;
            let worth = task.utility.as_ref().is_none_or(Utility::is_sound);
            sure(worth && task.handler.is_none_or(|h| h.utility <= crate::utility::MOST), Invalid::Utility(id))?;
            let positive = |span: Option<Span>| span.is_none_or(|s| s > Span::ZERO);
            sure(positive(task.deadline) && positive(task.runtime), Invalid::Length(id))?;
            sure(positive(task.budget) && task.jitter >= Span::ZERO, Invalid::Length(id))?;
            let most = task.budget.map_or(Span::ZERO, |b| b * 2);
            sure(task.jitter <= most, Invalid::Jitter(id))?;
            sure(task.reservation.is_none_or(|r| r.is_sound()), Invalid::Reservation(id))?;
            sure(!task.affinity.is_disjoint(&self.cpus), Invalid::Affinity(id))?;
        }
        self.sound_servers()?;
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
        let timing = self.timing.tick >= Span::ZERO && self.timing.resolution >= Span::ZERO;
        let timing = timing && self.timing.lateness >= Span::ZERO;
        sure(timing, Invalid::Timing)?;
        let load = self.load.as_ref().is_none_or(|load| {
            let sound = load.points.is_sorted_by_key(|(at, _)| *at) && load.repeat.is_none_or(|r| r > Span::ZERO);
            sound && !load.points.is_empty() && load.points.iter().all(|(_, factor)| *factor > 0)
        });
        sure(load, Invalid::Load)?;
        let (mut cpus, mut placed) = (CpuSet::EMPTY, alloc::vec![false; self.tasks.len()]);
        for domain in &self.domains {
            let free = domain.cpus.is_disjoint(&cpus) && domain.cpus.is_subset(&self.cpus) && !domain.cpus.is_empty();
            cpus = cpus.union(&domain.cpus);
            let mut once = |t: &TaskId| placed.get_mut(t.index()).is_some_and(|p| !core::mem::replace(p, true));
            sure(free && domain.tasks.iter().all(&mut once), Invalid::Domains)?;
        }
        sure(self.domains.is_empty() || placed.iter().all(|p| *p), Invalid::Domains)?;
        for partition in &self.partitions {
            let known = partition.tasks.iter().all(|t| t.index() < self.tasks.len());
            sure(known, Invalid::Partition)?;
        }
        Ok(())
    }

    /// Whether the runs and sleeps are above zero, the resources exist, and locks and unlocks of each job come in pairs.
    fn sound_steps(&self, task: &Task) -> bool {
        let mut held: Vec<ResourceId> = Vec::new();
        let sound = task.steps.iter().all(|step| match *step {
            Step::Run(span) | Step::Sleep(span) => span > Span::ZERO,
            Step::Lock(r) => {
                let free = r.0 < self.resources && !held.contains(&r);
                held.push(r);
                free
            }
            Step::Unlock(r) => {
                let at = held.iter().position(|h| *h == r);
                at.is_some_and(|at| {
                    held.swap_remove(at);
                    true
                })
            }
            Step::Call(call) => call.parts().1 > Span::ZERO,
            Step::WaitPeriod => held.is_empty(),
            Step::Yield => true,
        });
        sound && held.is_empty()
    }
}

/// A rule of [`System::validate`] that is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// The machine has no CPU.
    NoCpu,
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
    /// What a task does not have in common with those before it behind the same server: a CPU, or a domain or partition.
    Apart(TaskId, &'static str),
    /// A task that may run on no CPU of the machine.
    Affinity(TaskId),
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
    /// The policy cannot work on this machine or system.
    Unsuitable(&'static str),
}

impl core::fmt::Display for Invalid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Invalid::NoCpu => write!(f, "the machine has no CPU"),
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
            Invalid::Window(w) => write!(f, "window {w}: its length must be above zero"),
            Invalid::Slices(w) => write!(f, "window {w}: slices overlap, leave the machine or repeat a partition"),
            Invalid::Partition => write!(f, "a partition names a task that does not exist"),
            Invalid::Instants(t) => write!(f, "task {}: release instants must ascend from zero or later", t.0),
            Invalid::Steps(t) => {
                write!(f, "task {}: steps must be longer than zero and give back each resource that they take", t.0)
            }
            Invalid::Utility(t) => write!(f, "task {}: its utility is too high, or its points are out of order", t.0),
            Invalid::Load => write!(f, "the load needs points in order and factors above zero"),
            Invalid::Domains => write!(f, "domains overlap, leave the machine, or do not hold each task once"),
            Invalid::Timing => write!(f, "a tick, timer resolution or timer lateness is negative"),
            Invalid::Setting(name) => write!(f, "the policy's setting `{name}` is out of range"),
            Invalid::Needs(t, what) => write!(f, "task {}: the policy needs its {what}", t.0),
            Invalid::Unsuitable(why) => write!(f, "{why}"),
        }
    }
}
impl core::error::Error for Invalid {}
