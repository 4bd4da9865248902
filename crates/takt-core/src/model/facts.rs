//! Facts about policies: plain data by which analysis, reports and checks know what they may conclude about a policy.
//!
//! A fact that a policy does not state is unknown. Readers then give the careful answer: no test applies, and no claim is made.
//!
//! Facts are a list and not fields with defaults, because most facts concern few policies. So a new kind of fact changes no policy. A
//! fact that concerns one policy alone is no fact: its readers take the entry of that policy, which the compiler checks.
//! `crates/takt-sim/tests/facts.rs` compares most facts with schedules, in both directions where the schedule shows the absence.

use crate::time::Span;

/// With which value of a setting a fact holds. A setting that is not set has none of its values here, so that the value must not be
/// the default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// With all values of all settings.
    Always,
    /// With none.
    Never,
    /// Only if the setting of this name has this value.
    Is(&'static str, i64),
    /// Unless the setting of this name has this value.
    IsNot(&'static str, i64),
}

/// The rank of jobs or tasks. Equal ranks go by release and then by task number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The earliest absolute deadline first (EDF).
    AbsoluteDeadline,
    /// The shortest relative deadline first (deadline monotonic).
    RelativeDeadline,
    /// The shortest period first (rate monotonic).
    Period,
    /// The highest `priority` of the task first.
    Priority,
    /// The job that became ready first.
    Readiness,
    /// Jobs take turns, each for a quantum.
    Turn,
    /// The least laxity first.
    Laxity,
    /// The most utility per execution time that is left first.
    UtilityDensity,
}

/// How a task is split that fits on no CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Split {
    /// The set is rejected.
    Never,
    /// Its deadline is cut into equal windows, one for each CPU that it visits (EDF-WM).
    Windows,
    /// Pieces whose deadline is their length fill up CPUs, and the last one gets the rest (C=D).
    Tight,
}

/// The part of the system for which hosted policies are responsible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// Partitions in the slices of a window table.
    Windows,
    /// Parts of the machine. Each has a scope of its own, so that the whole has none.
    Domains,
}

/// Every task has a server of its own, with a budget in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservations {
    /// Temporal isolation is proven: if the servers fit, each has its budget by its deadline, whatever jobs of others do.
    pub isolated: bool,
    /// A budget that its server does not use is used by others.
    pub reclaimed: bool,
    /// A reservation may have a deadline before the end of its period.
    pub constrained: bool,
    /// A server whose budget is exhausted waits for its next period.
    pub hard: When,
}

/// Servers of aperiodic jobs beside periodic tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Servers {
    /// The setting that decides what tasks and servers are ranked by, and the order for each of its values. The first is the default.
    pub ranked_by: (&'static str, &'static [Order]),
    /// Budgets of two periods can be used back to back, as if the server had a release jitter of its period less its budget.
    pub back_to_back: bool,
    /// A budget can come back sooner than a period after its use (premature replenishment).
    pub premature: When,
    /// A server without a budget is served after all others.
    pub background: When,
}

/// A property of a policy that decides what its results mean, beside its needs of each task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// The policy works in quanta. Its guarantee needs releases at multiples of the quantum, and it rounds runtimes up to it.
    Grid {
        /// The setting that is the quantum, a duration.
        setting: &'static str,
        /// The quantum without the setting.
        default: Span,
    },
    /// The jobs that are first in this order run on the CPUs of their scope. No CPU idles while a job waits that may run on it, and
    /// `locking` is honoured unless another fact says otherwise.
    Order {
        /// The rank of jobs.
        by: Order,
        /// A job that is ready can preempt one that runs. Otherwise a job that has started keeps its CPU until it ends or blocks.
        preemptive: bool,
    },
    /// No CPU idles while a job waits that may run on it. A policy with an [`Order`] need not say so.
    WorkConserving(When),
    /// While EDF meets all deadlines on one CPU, and jobs need what they declare, the policy is EDF there.
    UnderloadEdf {
        /// The same holds for global EDF on several CPUs.
        global: bool,
        /// The settings with which it holds.
        when: When,
    },
    /// Periodic jobs that do not block, with deadlines at the ends of their periods, meet them whenever any policy could.
    Optimal,
    /// The policy decides at instants that it chooses, and not only at releases and completions.
    TimeDriven,
    /// Resources are granted in the order of requests, whatever `locking` says.
    IgnoresLocking,
    /// Tasks are given shares of the CPUs.
    Shares,
    /// Under a partitioned scope tasks are moved from CPUs that are overloaded.
    Rebalances,
    /// Every task has a server of its own. Jobs are ranked by the deadlines of their servers.
    Reservations(Reservations),
    /// Aperiodic jobs have servers beside periodic tasks.
    Servers(Servers),
    /// Semi-partitioned: tasks, or their [`Reservations`], that fit on no CPU are split over several. Each CPU runs EDF, and the
    /// assignment is that of EDF-WM or C=D.
    Splits(Split),
    /// The policy schedules no jobs itself. Other policies do in their parts.
    Hosts(Hosts),
}
