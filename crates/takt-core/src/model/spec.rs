//! Policies as a workload names them: what a policy is called, what it takes, and what its results depend on. Nothing here builds one.

use super::facts::{Fact, Hosts, Order, Reservations, Servers, Split, When};
use super::invalid::Invalid;
use super::task::Task;
use crate::time::Span;

/// How an ordering is spread over several CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// One CPU; the policy's plain name.
    Uniprocessor,
    /// One ready queue for all CPUs (`g-`).
    Global,
    /// Each task belongs to one CPU (`p-`).
    Partitioned,
    /// Each task belongs to a group of CPUs, which has one ready queue (`c-`; the setting `cluster` is its size).
    Clustered,
    /// The policy itself is about several CPUs (`windows`, `domains`).
    Table,
}

impl Scope {
    /// Equality, where traits cannot be used.
    const fn is(self, other: Scope) -> bool {
        self as u8 == other as u8
    }

    /// The word in summaries and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Uniprocessor => "uniprocessor",
            Scope::Global => "global",
            Scope::Partitioned => "partitioned",
            Scope::Clustered => "clustered",
            Scope::Table => "table",
        }
    }
}

/// How tasks are placed on CPUs under a partitioned scope.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Which of the CPUs that have room is taken.
    pub fit: Fit,
    /// Whether tasks are taken in the order of decreasing utilisation.
    pub decreasing: bool,
}

/// A bin-packing rule.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Fit {
    /// The lowest-numbered CPU with room.
    #[default]
    First,
    /// The fullest CPU with room.
    Best,
    /// The emptiest CPU.
    Worst,
}

impl Placement {
    /// The names on the command line and what they mean.
    pub const ALL: [(&'static str, Placement); 6] = [
        ("ff", Placement { fit: Fit::First, decreasing: false }),
        ("bf", Placement { fit: Fit::Best, decreasing: false }),
        ("wf", Placement { fit: Fit::Worst, decreasing: false }),
        ("ffd", Placement { fit: Fit::First, decreasing: true }),
        ("bfd", Placement { fit: Fit::Best, decreasing: true }),
        ("wfd", Placement { fit: Fit::Worst, decreasing: true }),
    ];
    /// `ffd`, the default.
    pub const DEFAULT: Placement = Placement { fit: Fit::First, decreasing: true };

    /// Looks a name up.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Placement> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }
}

/// The kind of value of a [`Setting`]. Every value is kept as one integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A duration in nanoseconds, between two bounds.
    Duration(Span, Span),
    /// A number with up to six decimals, in millionths, between two bounds (in millionths, too).
    Ratio(i64, i64),
    /// A whole number between two bounds.
    Count(i64, i64),
    /// One of these words, as its index.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// Whether this is one of its values.
    #[must_use]
    pub fn takes(&self, value: i64) -> bool {
        match *self {
            Kind::Duration(least, most) => (least.ns()..=most.ns()).contains(&value),
            Kind::Ratio(least, most) | Kind::Count(least, most) => (least..=most).contains(&value),
            Kind::Choice(words) => usize::try_from(value).is_ok_and(|value| value < words.len()),
        }
    }
}

/// A number that tunes a policy, set in the workload or on the command line (`rr:quantum=2ms`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// The default, in words.
    pub default: &'static str,
    /// One line about it.
    pub summary: &'static str,
}

/// How many settings a policy may have.
pub const MAX_SETTINGS: usize = 24;

/// The setting of every policy with a clustered scope.
pub const CLUSTER: Setting = Setting {
    name: "cluster",
    kind: Kind::Count(1, 1024),
    default: "2",
    summary: "CPUs of a cluster, for the clustered form (c-)",
};

/// The values of a policy's settings, by their index; none is the default. Eight bytes for each, and a bit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Values {
    given: u32,
    /// Zero where none is given.
    values: [i64; MAX_SETTINGS],
}

const _: () = assert!(MAX_SETTINGS <= u32::BITS as usize);

impl Values {
    /// All settings have their defaults.
    pub const NONE: Values = Values { given: 0, values: [0; MAX_SETTINGS] };

    /// The value of the setting with this index.
    ///
    /// # Panics
    /// When there can be no such setting.
    #[must_use]
    pub const fn get(&self, index: usize) -> Option<i64> {
        if self.given & 1 << index == 0 { None } else { Some(self.values[index]) }
    }

    /// Gives a setting another value, or its default.
    ///
    /// # Panics
    /// When there can be no such setting.
    pub fn set(&mut self, index: usize, value: Option<i64>) {
        self.values[index] = value.unwrap_or(0);
        self.given = self.given & !(1 << index) | u32::from(value.is_some()) << index;
    }

    /// All of them, in the order of the settings, and for those that there could be.
    pub fn iter(&self) -> impl Iterator<Item = Option<i64>> + '_ {
        (0..MAX_SETTINGS).map(|index| self.get(index))
    }
}

impl core::fmt::Debug for Values {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A policy as a workload or the command line names it.
#[derive(Clone, Copy, Debug)]
pub struct PolicySpec {
    /// The policy.
    pub profile: &'static Profile,
    /// Its scope.
    pub scope: Scope,
    /// The placement rule of a partitioned or clustered scope.
    pub placement: Placement,
    /// Its settings, in the order of [`Profile::settings`]; `None` is the default.
    pub values: Values,
    /// CPUs of a cluster under [`Scope::Clustered`].
    pub cluster: u16,
    /// Index in the list of mappers, where [`PolicySpec::maps`].
    pub mapper: u8,
}

impl PartialEq for PolicySpec {
    fn eq(&self, other: &Self) -> bool {
        let key = |s: &PolicySpec| (s.profile.name, s.scope, s.placement, s.values, s.cluster, s.mapper);
        key(self) == key(other)
    }
}
impl Eq for PolicySpec {}

impl PolicySpec {
    /// The policy under this scope with default placement and settings.
    #[must_use]
    pub const fn new(profile: &'static Profile, scope: Scope) -> PolicySpec {
        PolicySpec { profile, scope, placement: Placement::DEFAULT, values: Values::NONE, cluster: 2, mapper: 0 }
    }

    /// Whether it has several CPUs for one queue, so that a mapper matters.
    #[must_use]
    pub const fn maps(&self) -> bool {
        matches!(self.scope, Scope::Global | Scope::Clustered)
    }

    /// Whether it assigns tasks to CPUs or clusters, so that the placement rule matters.
    #[must_use]
    pub const fn uses_placement(&self) -> bool {
        matches!(self.scope, Scope::Partitioned | Scope::Clustered)
    }

    /// The prefix that its scope gives its name: `g-`, `p-`, `c-` or nothing.
    #[must_use]
    pub const fn prefix(&self) -> &'static str {
        match self.scope {
            scope if scope.is(self.profile.plain_scope()) => "",
            Scope::Global => "g-",
            Scope::Partitioned => "p-",
            Scope::Clustered => "c-",
            Scope::Uniprocessor | Scope::Table => "",
        }
    }

    /// Whether a fact holds with the settings. O(settings).
    #[must_use]
    pub fn holds(&self, when: When) -> bool {
        match when {
            When::Always => true,
            When::Never => false,
            When::Is(setting, value) => self.value(setting) == Some(value),
            When::IsNot(setting, value) => self.value(setting) != Some(value),
        }
    }

    /// The first fact of which `find` makes something.
    fn fact<T>(&self, find: impl FnMut(&Fact) -> Option<T>) -> Option<T> {
        self.profile.facts.iter().find_map(find)
    }

    /// Whether the policy states this fact.
    fn states(&self, fact: Fact) -> bool {
        self.profile.facts.contains(&fact)
    }

    /// The quantum at whose multiples jobs must be released for the policy's guarantee; `None` for a policy without one.
    #[must_use]
    pub fn grid(&self) -> Option<Span> {
        self.fact(|fact| match *fact {
            Fact::Grid { setting, default } => Some(self.value(setting).map_or(default, Span::from_ns)),
            _ => None,
        })
    }

    /// The rank of jobs, and whether they are preempted ([`Fact::Order`]).
    fn ordered(&self) -> Option<(Order, bool)> {
        self.fact(|fact| match *fact {
            Fact::Order { by, preemptive } => Some((by, preemptive)),
            _ => None,
        })
    }

    /// The rank of jobs; `None` for a policy whose order is another one, or unknown.
    #[must_use]
    pub fn order(&self) -> Option<Order> {
        self.ordered().map(|(by, _)| by)
    }

    /// The rank of jobs where a job is preempted by one that is ahead of it.
    #[must_use]
    pub fn preemptive_order(&self) -> Option<Order> {
        self.ordered().and_then(|(by, preemptive)| preemptive.then_some(by))
    }

    /// Reports whether a job that has started keeps its CPU until it ends or blocks.
    #[must_use]
    pub fn is_non_preemptive(&self) -> bool {
        self.ordered().is_some_and(|(_, preemptive)| !preemptive)
    }

    /// Reports whether the policy is EDF.
    #[must_use]
    pub fn is_edf(&self) -> bool {
        self.preemptive_order() == Some(Order::AbsoluteDeadline)
    }

    /// Reports whether the policy is EDF on one CPU, or under `global` on several, while EDF meets all deadlines
    /// ([`Fact::UnderloadEdf`]).
    #[must_use]
    pub fn is_underload_edf(&self, global: bool) -> bool {
        let found = self.fact(|fact| match *fact {
            Fact::UnderloadEdf { global: both, when } => Some((both || !global) && self.holds(when)),
            _ => None,
        });
        found == Some(true)
    }

    /// Reports whether the policy ranks tasks by their `priority`. It schedules tasks without priorities in the order of their
    /// releases.
    #[must_use]
    pub fn ranks_by_priority(&self) -> bool {
        self.order().or(self.server_order()) == Some(Order::Priority)
    }

    /// Reports whether no CPU idles while a job waits that may run on it.
    #[must_use]
    pub fn is_work_conserving(&self) -> bool {
        let stated = self.fact(|fact| match *fact {
            Fact::WorkConserving(when) => Some(self.holds(when)),
            _ => None,
        });
        stated.unwrap_or(self.order().is_some())
    }

    /// Reports whether the policy meets all deadlines on several CPUs that can be met ([`Fact::Optimal`]).
    #[must_use]
    pub fn is_optimal(&self) -> bool {
        self.states(Fact::Optimal)
    }

    /// Reports whether the policy decides at instants that it chooses.
    #[must_use]
    pub fn is_time_driven(&self) -> bool {
        self.states(Fact::TimeDriven)
    }

    /// Reports whether resources are granted in the order of requests, whatever `locking` says.
    #[must_use]
    pub fn ignores_locking(&self) -> bool {
        self.states(Fact::IgnoresLocking)
    }

    /// Reports whether tasks are given shares of the CPUs.
    #[must_use]
    pub fn gives_shares(&self) -> bool {
        self.states(Fact::Shares)
    }

    /// Reports whether a task can leave its CPU under a partitioned scope.
    #[must_use]
    pub fn migrates(&self) -> bool {
        self.states(Fact::Rebalances) || self.splits().is_some()
    }

    /// The servers of all tasks; `None` for a policy without such servers.
    #[must_use]
    pub fn reservations(&self) -> Option<Reservations> {
        self.fact(|fact| match *fact {
            Fact::Reservations(reservations) => Some(reservations),
            _ => None,
        })
    }

    /// The servers of aperiodic jobs; `None` for a policy without such servers.
    #[must_use]
    pub fn servers(&self) -> Option<Servers> {
        self.fact(|fact| match *fact {
            Fact::Servers(servers) => Some(servers),
            _ => None,
        })
    }

    /// The rank of tasks and servers of aperiodic jobs; `None` for a policy without such servers.
    #[must_use]
    pub fn server_order(&self) -> Option<Order> {
        let (setting, orders) = self.servers()?.ranked_by;
        orders.get(usize::try_from(self.value(setting).unwrap_or(0)).ok()?).copied()
    }

    /// How tasks are split; `None` for a policy that splits none.
    #[must_use]
    pub fn splits(&self) -> Option<Split> {
        self.fact(|fact| match *fact {
            Fact::Splits(split) => Some(split),
            _ => None,
        })
    }

    /// The kind of jobs that the hosted policies schedule; `None` for a policy that schedules jobs itself.
    #[must_use]
    pub fn hosts(&self) -> Option<Hosts> {
        self.fact(|fact| match *fact {
            Fact::Hosts(hosts) => Some(hosts),
            _ => None,
        })
    }

    /// Whether every setting that was set has a value that it takes. O(settings).
    ///
    /// # Errors
    /// The first that has not.
    pub fn check_values(&self) -> Result<(), Invalid> {
        let wrong = |(setting, value): &(&Setting, Option<i64>)| value.is_some_and(|value| !setting.kind.takes(value));
        match self.profile.settings.iter().zip(self.values.iter()).find(wrong) {
            Some((setting, _)) => Err(Invalid::Setting(setting.name)),
            None => Ok(()),
        }
    }

    /// The value of a setting, if it was set. O(settings).
    ///
    /// # Panics
    /// When the policy has no such setting: a fault of the program.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<i64> {
        let index = self.profile.settings.iter().position(|s| s.name == name);
        self.values.get(index.expect("a policy asks for its own settings"))
    }
}

/// A property of tasks that a policy requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// A period.
    Period,
    /// A deadline.
    Deadline,
    /// A runtime (for placement by utilisation, or because the policy goes by what a job still needs).
    Runtime,
    /// A utility.
    Utility,
    /// A reservation, or a runtime and a period, and no server that it shares with others.
    Reservation,
}

impl Need {
    /// `None` if the task has it; otherwise what it lacks, as workload files call it.
    #[must_use]
    pub fn lacking(self, task: &Task) -> Option<&'static str> {
        let (there, key) = match self {
            Need::Period => (task.arrival.period().is_some(), "period"),
            Need::Deadline => (task.deadline.is_some(), "deadline"),
            Need::Runtime => (task.runtime.is_some(), "runtime"),
            Need::Utility => (task.utility.is_some(), "utility"),
            // A server that tasks share is nothing that each of them could rely on.
            Need::Reservation => (task.server.is_none() && task.reserved().is_some(), "reservation"),
        };
        (!there).then_some(key)
    }
}

/// How a scope with clusters finds out whether a CPU of its own has room for a task.
#[derive(Clone, Copy, Debug)]
pub enum CpuTest {
    /// No exact test is known for the policy: the utilisation must be at most 1.
    Utilisation,
    /// Processor demand. The policy meets all deadlines on one CPU whenever EDF does.
    Demand,
    /// Response times under fixed priorities, by the rank of a task; the lowest is the most urgent. The settings of the policy can decide the rank.
    ResponseTimes(fn(&PolicySpec, &Task) -> i64),
}

/// The facts of a policy without building it.
#[derive(Clone, Copy)]
pub struct Profile {
    /// Its name, without a scope's prefix.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// The scopes that it can be used with.
    pub scopes: &'static [Scope],
    /// The properties that every task must have.
    pub needs: &'static [Need],
    /// Properties that its results depend on, at most one of each kind. What is not stated is unknown.
    pub facts: &'static [Fact],
    /// The exact test of one CPU under the policy, by which tasks are placed.
    pub test: CpuTest,
    /// The settings.
    pub settings: &'static [Setting],
}

impl Profile {
    /// The scope that goes with the plain name: one CPU, or for policies that are about several the first of their list.
    #[must_use]
    pub const fn plain_scope(&self) -> Scope {
        let mut index = 0;
        while index < self.scopes.len() {
            if self.scopes[index].is(Scope::Uniprocessor) {
                return Scope::Uniprocessor;
            }
            index += 1;
        }
        self.scopes[0]
    }
}

/// Its name alone, for the output of failed tests.
impl core::fmt::Debug for Profile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}
