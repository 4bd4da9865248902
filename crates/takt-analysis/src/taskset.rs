//! Task sets as the tests see them: whole numbers of one unit of time.

use crate::need::{budgets, longest, varies_by_itself};
use crate::parts::{at_load, extremes};
use crate::tests::fixed_priority::{Peer, Priorities};
use takt_core::model::{self, Arrival, Backlog, Completion, Load, Step, System};
use takt_core::time::{Span, Time};

/// A periodic or sporadic task, in units of its [`TaskSet`].
pub use takt_core::policies::split::demand::Times as Task;
pub(crate) use takt_core::policies::split::demand::utilisation;

/// No time of a task is above this: sums of a few stay within 64 bits.
pub const TIME_MAX: u64 = 1 << 62;

/// Tasks that are to be scheduled together.
///
/// Times are whole microseconds if all of them are, and nanoseconds otherwise; that is also how finely the semi-partitioned
/// tests cut a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSet {
    /// The tasks in the order of the file.
    pub tasks: Vec<Task>,
    /// When their jobs come, task by task.
    pub releases: Vec<Releases>,
    /// The unit of time.
    pub unit: Span,
    /// Whether jobs may need less than their runtimes, or come less densely than a period apart. No test can show then that a deadline is missed.
    pub lighter: bool,
    /// Something that no test here takes into account, in words.
    pub beyond: Option<&'static str>,
}

/// When the jobs of a task come: at the least a period apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Releases {
    /// The first one.
    pub first: Time,
    /// Whether they come at the period exactly, and not later by chance.
    pub regular: bool,
}

/// Whether tasks with such releases can all be released together, and come as densely as they may from then on, so that what is
/// missed then can be missed indeed. Those that come later by chance meet any others sooner or later.
pub(crate) fn can_meet(releases: impl Iterator<Item = Releases>) -> bool {
    let mut firsts = releases.filter(|r| r.regular).map(|r| r.first);
    firsts.next().is_none_or(|first| firsts.all(|other| other == first))
}

/// Why a set cannot be tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsuitable {
    /// A task without this.
    Without(usize, &'static str),
    /// A task with a time of zero or below, or beyond [`TIME_MAX`].
    Range(usize),
    /// No task at all.
    Empty,
}

impl TaskSet {
    /// Tasks with times in `unit`, released together.
    ///
    /// # Errors
    /// That there is none, or one with a time out of range.
    pub fn new(tasks: Vec<Task>, unit: Span) -> Result<TaskSet, Unsuitable> {
        let good = |t: u64| (1..=TIME_MAX).contains(&t);
        if let Some(bad) = tasks.iter().position(|t| !good(t.runtime) || !good(t.deadline) || !good(t.period)) {
            return Err(Unsuitable::Range(bad));
        }
        if tasks.is_empty() {
            return Err(Unsuitable::Empty);
        }
        let releases = vec![Releases { first: Time::ZERO, regular: true }; tasks.len()];
        Ok(TaskSet { tasks, releases, unit, lighter: false, beyond: None })
    }

    /// The tasks of a description, which all need a runtime, a deadline and a period. What their jobs really need counts, if it
    /// is described.
    ///
    /// # Errors
    /// Which task lacks what.
    pub fn from_tasks(tasks: &[model::Task]) -> Result<TaskSet, Unsuitable> {
        let mut times = Vec::with_capacity(tasks.len());
        for (i, task) in tasks.iter().enumerate() {
            let period = task.arrival.period().ok_or(Unsuitable::Without(i, "period"))?;
            let runtime = longest(task).ok_or(Unsuitable::Without(i, "runtime"))?;
            let deadline = task.deadline.ok_or(Unsuitable::Without(i, "deadline"))?;
            times.push([runtime, deadline, period]);
        }
        let us = times.iter().flatten().all(|t| t.ns() % 1_000 == 0);
        let unit = if us { Span::from_us(1) } else { Span::from_ns(1) };
        let count = |t: Span| u64::try_from(t.ns() / unit.ns()).unwrap_or(0);
        let scaled = times.iter().map(|&[c, d, t]| Task { runtime: count(c), deadline: count(d), period: count(t) });
        let mut set = TaskSet::new(scaled.collect(), unit)?;
        let regular = |t: &model::Task| match t.arrival {
            Arrival::Sporadic { spread, .. } => spread <= Span::ZERO,
            Arrival::Event { .. } => false,
            _ => true,
        };
        let released =
            |t: &model::Task| Releases { first: t.arrival.earliest().unwrap_or(Time::ZERO), regular: regular(t) };
        set.releases = tasks.iter().map(released).collect();
        Ok(set)
    }

    /// The tasks of a system, with what the tests cannot take into account noted in [`TaskSet::beyond`].
    ///
    /// # Errors
    /// Which task lacks what.
    pub fn from_system(system: &System) -> Result<TaskSet, Unsuitable> {
        let (lowest, highest) = system.load.as_ref().map_or((Load::ONE, Load::ONE), extremes);
        let at_most = (highest != Load::ONE).then(|| at_load(system, highest));
        let varies = lowest != highest;
        let system = at_most.as_ref().unwrap_or(system);
        let mut set = TaskSet::from_tasks(&system.tasks)?;
        let any = |what: fn(&Step) -> bool| system.tasks.iter().any(|t| t.program.steps.iter().any(what));
        let short = |t: &model::Task| budgets(t).is_some_and(|(least, _)| longest(t).is_some_and(|c| c > least));
        set.beyond = if system.tasks.iter().any(|t| t.completion == Completion::None) {
            Some("jobs of a task never complete (`completion: none`)")
        } else if any(|s| matches!(s, Step::Lock(_))) {
            Some("tasks share resources")
        } else if any(|s| matches!(s, Step::Sleep(_) | Step::Yield)) {
            Some("tasks suspend themselves or yield")
        } else if any(|s| matches!(s, Step::Call(_))) {
            Some("tasks request other terms")
        } else if system.timing.tick > Span::ZERO {
            Some("releases wait for the tick")
        } else if system.tasks.iter().any(|t| !system.cpus.is_subset(&t.affinity)) {
            Some("some tasks may not run on every CPU")
        } else if system.tasks.iter().any(short) {
            Some("a budget is below what a job of its task needs")
        } else if system.backlog != Backlog::Queue && !set.is_constrained() {
            Some("jobs do not queue, and a deadline is beyond the period")
        } else {
            None
        };
        let follows = |t: &model::Task| matches!(t.arrival, Arrival::Event { after: Some(_), .. });
        set.lighter = varies || system.tasks.iter().any(|t| varies_by_itself(t) || follows(t));
        Ok(set)
    }

    /// Whether tasks can be released together as the worst case has it. An exact test is in general only sufficient where they
    /// cannot. O(n).
    #[must_use]
    pub fn can_meet(&self) -> bool {
        can_meet(self.releases.iter().copied())
    }

    /// Fixed priorities of the tasks: the lower the key, the more important. O(n log n).
    #[must_use]
    pub fn priorities(&self, key: fn(&Task) -> u64) -> Priorities {
        let peer = |i: usize| {
            let (task, releases) = (&self.tasks[i], self.releases[i]);
            let beat = releases.regular.then(|| (task.period.into(), releases.first.ns().into()));
            Peer { beat, deadline: (task.deadline <= task.period).then(|| task.deadline.into()) }
        };
        Priorities::by_key(self.tasks.len(), |i| key(&self.tasks[i]), peer)
    }

    /// Whether every deadline is at most its period.
    #[must_use]
    pub fn is_constrained(&self) -> bool {
        self.tasks.iter().all(|t| t.deadline <= t.period)
    }

    /// Whether every deadline is its period.
    #[must_use]
    pub fn is_implicit(&self) -> bool {
        self.tasks.iter().all(|t| t.deadline == t.period)
    }

    /// A number of units as a span; the longest one where it does not fit.
    #[must_use]
    pub fn span(&self, units: u64) -> Span {
        Span::from_ns(i64::try_from(units).ok().and_then(|u| u.checked_mul(self.unit.ns())).unwrap_or(i64::MAX))
    }
}
