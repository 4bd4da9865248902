//! A whole system, and the rules that it keeps.

use super::arrival::Arrival;
use super::ids::{PartitionId, ResourceId, TaskId};
use super::invalid::Invalid;
use super::load::Load;
use super::program::{Execution, Step};
use super::reservation::Server;
use super::spec::PolicySpec;
use super::task::Task;
use crate::cpus::CpuSet;
use crate::time::{Span, Time};
use crate::utility::Utility;
use crate::work::Speed;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// A group of tasks that owns slices of windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Its tasks in their order.
    pub tasks: Vec<TaskId>,
    /// The policy inside the partition's slices; `None` is `fifo`: one at a time, in order.
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

/// The most window tables that a system may be switched to ([`System::tables`]).
pub const TABLES_MAX: usize = 4096;

/// Another window table for the partitions of a system ([`System::tables`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowTable {
    /// The major frame.
    pub windows: Vec<Window>,
    /// Start rule of best-effort partitions.
    pub be_start: BestEffortStart,
    /// By task: the budget of a process and its jitter ([`Task::budget`]). Those of tasks with releases of their own are ignored.
    pub budgets: Vec<(Option<Span>, Span)>,
    /// By window: frequency domains of the power policy's machine, with the frequencies in kilohertz that slices ask for. Empty where no power policy
    /// goes by them.
    #[cfg(feature = "power")]
    pub frequencies: Vec<Vec<(u16, u32)>>,
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

/// How activations of a window table begin and end, where DEmOS and Takt differ.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum TableRules {
    /// Budgets are exact. They are drawn by task and activation, and a process that has ended frees its CPUs.
    #[default]
    Takt,
    /// DEmOS's rules: whole milliseconds, one generator for all budgets, and a process that has ended leaves the rest of its budget
    /// unused. The policy `windows` has all of them.
    Demos,
}

/// The rule for a job that passes its absolute deadline unfinished.
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

/// The rule for a release while the task's previous job is unfinished.
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

impl Timing {
    /// The tick at which an instant is noticed.
    #[inline]
    pub(crate) fn on_tick(&self, at: Time) -> Time {
        if cfg!(feature = "timing") { at.round_up(self.tick) } else { at }
    }

    /// When a one-shot timer for an instant goes off.
    #[inline]
    pub(crate) fn noticed(&self, at: Time) -> Time {
        if cfg!(feature = "timing") { at.round_up(self.resolution) } else { at }
    }
}

/// A group of CPUs with tasks and a policy of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// Its CPUs; those of another domain are the same or disjoint.
    pub cpus: CpuSet,
    /// Its place among the domains of the same CPUs: a domain of a lower band has the CPUs that all higher bands leave idle. Unique
    /// among these domains.
    pub band: u32,
    /// Its tasks; each belongs to one domain.
    pub tasks: Vec<TaskId>,
    /// The policy that schedules them.
    pub policy: PolicySpec,
}

impl Domain {
    /// Whether this domain uses the same CPUs as the other one before it does.
    #[must_use]
    pub fn is_above(&self, other: &Domain) -> bool {
        self.cpus == other.cpus && self.band > other.band
    }
}

/// A whole system: the input of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    /// The CPUs of the machine, by number.
    pub cpus: CpuSet,
    /// The speeds of these CPUs, in the order of their numbers; empty if all have the nominal one. Jobs, budgets and laxities go by them.
    /// Decisions before the first job use nominal speeds: the placement of tasks, and the admission of reservations.
    pub speeds: Vec<Speed>,
    /// All tasks.
    pub tasks: Vec<Task>,
    /// Those of them that are none any more: they were removed from a running engine, and no policy schedules them. In order.
    pub removed: Vec<TaskId>,
    /// Partitions of the window table; empty without windows.
    pub partitions: Vec<Partition>,
    /// The major frame; empty for a purely online system.
    pub windows: Vec<Window>,
    /// Servers for aperiodic work that tasks share ([`Task::server`]).
    pub servers: Vec<Server>,
    /// Start rule of best-effort partitions.
    pub be_start: BestEffortStart,
    /// Rules for the activations of the window table.
    pub rules: TableRules,
    /// Parts of the machine with policies of their own; empty when there is one policy for all.
    pub domains: Vec<Domain>,
    /// The policy of the whole system: `windows` for a window table, `domains` where these have theirs.
    pub policy: PolicySpec,
    /// Policies that it, or one of its domains, may be switched to ([`crate::engine::Input::Switch`]).
    pub alternatives: Vec<PolicySpec>,
    /// Window tables that may take over from the present one ([`crate::engine::Input::Table`]).
    pub tables: Vec<WindowTable>,
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
    /// The band of a domain that shares its CPUs with others.
    #[must_use]
    pub fn band(&self, domain: &Domain) -> Option<u32> {
        let shares = self.domains.iter().filter(|other| other.cpus == domain.cpus).count() > 1;
        shares.then_some(domain.band)
    }

    /// Whether a job with this absolute deadline is counted ([`System::horizon`]).
    #[must_use]
    #[inline]
    pub fn counts(&self, deadline: Option<Time>) -> bool {
        match (self.horizon, deadline) {
            (Some(horizon), Some(deadline)) => deadline <= horizon,
            _ => true,
        }
    }

    /// Whether the number of this task is free ([`System::removed`]). O(log removed).
    #[must_use]
    #[inline(never)]
    pub fn is_removed(&self, task: TaskId) -> bool {
        self.removed.binary_search(&task).is_ok()
    }

    /// A system of these CPUs under this policy with nothing in it: the base for struct updates.
    #[must_use]
    pub fn new(cpus: CpuSet, policy: PolicySpec) -> System {
        System {
            cpus,
            speeds: Vec::new(),
            tasks: Vec::new(),
            removed: Vec::new(),
            partitions: Vec::new(),
            windows: Vec::new(),
            servers: Vec::new(),
            be_start: BestEffortStart::default(),
            rules: TableRules::default(),
            domains: Vec::new(),
            policy,
            alternatives: Vec::new(),
            tables: Vec::new(),
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
        if !cfg!(feature = "multiprocessor") {
            return self.cpus.iter().map(CpuSet::single).collect();
        }
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
        sure(self.speeds.is_empty() || self.speeds.len() == self.cpus.len(), Invalid::Speeds)?;
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
                Arrival::Event { distance, queue, after } => {
                    sure(*distance >= Span::ZERO && *queue > 0, Invalid::Period(id))?;
                    sure(
                        self.backlog != Backlog::Hartstone,
                        Invalid::Unsuitable("that rule counts periods, and events have none"),
                    )?;
                    sure(after.is_none_or(|task| task.index() < self.tasks.len() && task != id), Invalid::Follows(id))?;
                }
                Arrival::Activated => {}
            }
            sure(self.sound_steps(task), Invalid::Steps(id))?;
            match &task.program.execution {
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
        self.check_windows(&self.windows)?;
        let timing = self.timing.tick >= Span::ZERO && self.timing.resolution >= Span::ZERO;
        let timing = timing && self.timing.lateness >= Span::ZERO;
        sure(timing, Invalid::Timing)?;
        let load = self.load.as_ref().is_none_or(|load| {
            let sound = load.points.is_sorted_by_key(|(at, _)| *at) && load.repeat.is_none_or(|r| r > Span::ZERO);
            sound && !load.points.is_empty() && load.points.iter().all(|(_, factor)| *factor > 0)
        });
        sure(load, Invalid::Load)?;
        let mut placed = alloc::vec![false; self.tasks.len()];
        for task in &self.removed {
            *placed.get_mut(task.index()).ok_or(Invalid::Removed)? = true;
        }
        sure(self.removed.is_sorted(), Invalid::Removed)?;
        for domain in &self.domains {
            // The policy `domains` checks how they share CPUs.
            let inside = domain.cpus.is_subset(&self.cpus) && !domain.cpus.is_empty();
            let mut once = |t: &TaskId| placed.get_mut(t.index()).is_some_and(|p| !core::mem::replace(p, true));
            sure(inside && domain.tasks.iter().all(&mut once), Invalid::Domains)?;
        }
        sure(self.domains.is_empty() || placed.iter().all(|p| *p), Invalid::Domains)?;
        for partition in &self.partitions {
            let known = partition.tasks.iter().all(|t| t.index() < self.tasks.len());
            sure(known, Invalid::Partition)?;
        }
        Ok(())
    }

    fn check_windows(&self, windows: &[Window]) -> Result<(), Invalid> {
        for (i, window) in windows.iter().enumerate() {
            if window.length <= Span::ZERO {
                return Err(Invalid::Window(i));
            }
            let mut taken = CpuSet::EMPTY;
            let mut used: Vec<PartitionId> = Vec::new();
            for slice in &window.slices {
                let inside = !slice.cpus.is_empty() && slice.cpus.is_subset(&self.cpus);
                if !inside || !slice.cpus.is_disjoint(&taken) {
                    return Err(Invalid::Slices(i));
                }
                taken = taken.union(&slice.cpus);
                for partition in [slice.sc, slice.be].into_iter().flatten() {
                    let exists = partition.index() < self.partitions.len();
                    if !exists || used.contains(&partition) {
                        return Err(Invalid::Slices(i));
                    }
                    used.push(partition);
                }
            }
        }
        Ok(())
    }

    /// Checks another window table for this system ([`System::tables`]).
    ///
    /// # Errors
    /// The first rule that is broken. The policy of window tables has more of them.
    pub fn check_table(&self, table: &WindowTable) -> Result<(), Invalid> {
        if table.windows.is_empty() || table.budgets.len() != self.tasks.len() {
            return Err(Invalid::Unsuitable("a window table has windows, and a budget for each process"));
        }
        self.check_windows(&table.windows)?;
        for (i, (task, (budget, jitter))) in self.tasks.iter().zip(&table.budgets).enumerate() {
            let id = TaskId(i as u32);
            if task.arrival != Arrival::Activated {
                continue;
            }
            let budget = budget.ok_or(Invalid::Needs(id, "budget"))?;
            if budget <= Span::ZERO || *jitter < Span::ZERO {
                return Err(Invalid::Length(id));
            }
            if *jitter > budget * 2 {
                return Err(Invalid::Jitter(id));
            }
        }
        Ok(())
    }

    /// Whether the runs and sleeps are above zero, the resources exist, and locks and unlocks of each job come in pairs.
    fn sound_steps(&self, task: &Task) -> bool {
        let mut held: Vec<ResourceId> = Vec::new();
        let sound = task.program.steps.iter().all(|step| match *step {
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
