//! The policy trait and the registry.
//!
//! A policy is a state machine without a clock: it is told events, and once per instant it is asked who
//! runs. It never learns whether time is virtual or real.

use crate::engine::Context;
use crate::model::{Invalid, ResourceId, System, Task, TaskId, Terms};
use crate::policies;
use crate::record::{JobId, Place};
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a policy is told. All events of one instant arrive before the one call of [`Policy::decide`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A job is ready for the first time. Its release may lie in the past when it waited in its task's backlog.
    Release {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
    },
    /// A job is over, by its own signal, by a policy's verdict, or because its process ended.
    /// The events of the resources that it held follow.
    Finish {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// What it consumed, measured by its budget's clock.
        consumed: Span,
    },
    /// A budget is used up. The policy replenishes it, ends the job, or lets it wait.
    BudgetExpired {
        /// The task.
        task: TaskId,
        /// What the job has consumed so far.
        consumed: Span,
    },
    /// A job waits for something other than a CPU.
    Block {
        /// Its task.
        task: TaskId,
        /// What the job has consumed so far.
        consumed: Span,
    },
    /// A blocked job can go on.
    Wake {
        /// Its task.
        task: TaskId,
    },
    /// A job passes its absolute deadline unfinished. Sent only when late jobs are aborted, just before the abort.
    Deadline {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
    },
    /// A job asks for a resource; `granted` says whether it has it. If not, [`Event::Block`] follows.
    Request {
        /// Its task.
        task: TaskId,
        /// What it asks for.
        resource: ResourceId,
        /// Whether it has it now.
        granted: bool,
    },
    /// A job gives a resource back.
    Return {
        /// Its task.
        task: TaskId,
        /// What it gives back.
        resource: ResourceId,
    },
    /// A job was aborted and goes on with its handler, with a new deadline and nothing consumed. If it waited for a resource,
    /// it waits no longer and is ready. It keeps the resources that it holds until the handler is over.
    Handler {
        /// Its task.
        task: TaskId,
        /// Its number.
        job: JobId,
        /// What it had consumed until then.
        consumed: Span,
    },
    /// A running job lets others run; it stays ready.
    Yield {
        /// Its task.
        task: TaskId,
        /// What the job has consumed so far.
        consumed: Span,
    },
    /// The task's share, importance, period, deadline, runtime or reservation has changed, or it came back after its
    /// [`Event::Exit`].
    Changed {
        /// The task.
        task: TaskId,
    },
    /// A timer that the policy set is due.
    Timer {
        /// Its number, from zero below [`Policy::timers`].
        timer: u16,
        /// The instant it was set to, on the tick; it may be noticed later.
        due: Time,
    },
    /// The task's last process has ended; no job of it will run again.
    Exit {
        /// The task.
        task: TaskId,
    },
}

impl Event {
    /// The task that the event is about.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        match *self {
            Event::Release { task, .. }
            | Event::Finish { task, .. }
            | Event::BudgetExpired { task, .. }
            | Event::Block { task, .. }
            | Event::Wake { task }
            | Event::Deadline { task, .. }
            | Event::Request { task, .. }
            | Event::Return { task, .. }
            | Event::Handler { task, .. }
            | Event::Yield { task, .. }
            | Event::Changed { task }
            | Event::Exit { task } => Some(task),
            Event::Timer { .. } => None,
        }
    }
}

/// What a budget counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Elapsed time while the task is assigned CPUs, as in a window table.
    Elapsed,
    /// CPU time that the task used, as the driver measures it ([`crate::engine::Input::Usage`]).
    Cpu,
}

/// An amount of time that a task may consume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// How much.
    pub amount: Span,
    /// Of what.
    pub clock: Clock,
}

/// One task on one set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// Who runs.
    pub task: TaskId,
    /// Where.
    pub place: Place,
    /// A fresh budget that replaces what is left; `None` keeps what is left, or stays without one.
    pub budget: Option<Budget>,
}

/// The whole picture of who runs now. A task that is not in it does not run; one that is in it with the
/// same place as before is kept. The engine turns the difference into commands.
#[must_use]
#[derive(Debug, Default)]
pub struct Decision {
    pub(crate) assignments: Vec<Assignment>,
}

impl Decision {
    /// Lets `task` run (or run on) at `place` with the budget that it has.
    pub fn run(&mut self, task: TaskId, place: Place) {
        self.assignments.push(Assignment { task, place, budget: None });
    }
    /// Lets `task` run at `place` with a fresh budget.
    pub fn run_with(&mut self, task: TaskId, place: Place, budget: Budget) {
        self.assignments.push(Assignment { task, place, budget: Some(budget) });
    }
    /// What has been decided so far.
    #[must_use]
    pub fn assignments(&self) -> &[Assignment] {
        &self.assignments
    }
}

/// A scheduling policy.
///
/// It allocates nothing after it is built, keeps no clock, and bases every decision on the events and on
/// what [`Context`] shows. Policies compose: one that hosts others passes on the events of their tasks and
/// asks them to decide over the CPUs it lends them.
pub trait Policy: Send {
    /// Takes over from the engine's current state: at the start of the schedule, or in the middle of it when
    /// policies are switched. Jobs that are ready now are found through the context.
    fn start(&mut self, cx: &mut Context<'_>);

    /// Learns of one event.
    fn event(&mut self, event: &Event, cx: &mut Context<'_>);

    /// Says who runs on the single-CPU places `lent` (all CPUs of the machine for the outermost policy).
    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision);

    /// How many timers it uses, its guests' included.
    fn timers(&self) -> u16 {
        0
    }

    /// The CPU that the task belongs to: its own one, or the first of those that share the queue that it waits in. `None` where all
    /// CPUs share one, or the policy has no such queues. Drivers ask for a task that has not run yet.
    fn home(&self, task: TaskId) -> Option<Place> {
        let _ = task;
        None
    }

    /// Whether it grants budgets of CPU time to tasks that have none of their own, so that a driver should measure them all.
    /// Its present guests count alone: a switch, which only simulations carry out, can change it.
    fn meters(&self) -> bool {
        false
    }

    /// Takes over changed settings without forgetting what it knows. `false`: it cannot, and is built anew.
    fn configure(&mut self, spec: &PolicySpec, cx: &mut Context<'_>) -> bool {
        let _ = (spec, cx);
        false
    }

    /// Whether the task can have these terms, for which its job asks ([`crate::engine::Input::Call`]). A policy that keeps no
    /// guarantee says yes.
    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        let _ = (task, terms, cx);
        true
    }

    /// Has another policy take over one of its domains ([`crate::model::System::domains`]); this may allocate.
    ///
    /// # Errors
    /// When that policy cannot schedule the domain, or this one has no domains: the old one goes on.
    fn switch(&mut self, domain: usize, to: &PolicySpec, cx: &mut Context<'_>) -> Result<(), Invalid> {
        let _ = (domain, to, cx);
        Err(Invalid::Unsuitable("this policy has no domains"))
    }
}

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

/// What kind of value a [`Setting`] takes. Every value is kept as one integer.
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
    /// What it takes.
    pub kind: Kind,
    /// What it is when nobody sets it, in words.
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

/// A policy as a workload or the command line names it.
#[derive(Clone, Copy, Debug)]
pub struct PolicySpec {
    /// Its line in the registry.
    pub entry: &'static Entry,
    /// Its scope.
    pub scope: Scope,
    /// The placement rule of a partitioned or clustered scope.
    pub placement: Placement,
    /// Its settings, in the order of [`Entry::settings`]; `None` is the default.
    pub values: [Option<i64>; MAX_SETTINGS],
    /// CPUs of a cluster under [`Scope::Clustered`].
    pub cluster: u16,
    /// Index in [`MAPPERS`](crate::policies::mapping::MAPPERS), where [`PolicySpec::maps`].
    pub mapper: u8,
}

impl PartialEq for PolicySpec {
    fn eq(&self, other: &Self) -> bool {
        let key = |s: &PolicySpec| (s.entry.name, s.scope, s.placement, s.values, s.cluster, s.mapper);
        key(self) == key(other)
    }
}
impl Eq for PolicySpec {}

impl PolicySpec {
    /// The policy under this scope with default placement and settings.
    #[must_use]
    pub const fn new(entry: &'static Entry, scope: Scope) -> PolicySpec {
        PolicySpec { entry, scope, placement: Placement::DEFAULT, values: [None; MAX_SETTINGS], cluster: 2, mapper: 0 }
    }

    /// Whether it has several CPUs for one queue, so that a mapper matters.
    #[must_use]
    pub const fn maps(&self) -> bool {
        matches!(self.scope, Scope::Global | Scope::Clustered)
    }

    /// Looks up a name such as `edf`, `g-edf` or `p-rm`. Settings are not part of it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<PolicySpec> {
        let find = |plain: &str| REGISTRY.iter().find(|e| e.name == plain);
        if let Some(entry) = find(name) {
            return Some(PolicySpec::new(entry, entry.plain_scope()));
        }
        let (prefix, plain) = name.split_once('-')?;
        let entry = find(plain)?;
        let scope = entry.scopes.iter().copied().find(|s| {
            let spec = PolicySpec::new(entry, *s);
            spec.prefix().strip_suffix('-') == Some(prefix)
        })?;
        Some(PolicySpec::new(entry, scope))
    }

    /// All names that [`PolicySpec::from_name`] knows, each as its prefix and its plain name.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        REGISTRY.iter().flat_map(|e| e.scopes.iter().map(move |s| (PolicySpec::new(e, *s).prefix(), e.name)))
    }

    /// The prefix that its scope gives its name: `g-`, `p-`, `c-` or nothing.
    #[must_use]
    pub const fn prefix(&self) -> &'static str {
        match self.scope {
            scope if scope.is(self.entry.plain_scope()) => "",
            Scope::Global => "g-",
            Scope::Partitioned => "p-",
            Scope::Clustered => "c-",
            Scope::Uniprocessor | Scope::Table => "",
        }
    }

    /// The quantum at whose multiples jobs must be released for the policy's guarantee; `None` for a policy without one.
    #[must_use]
    pub fn grid(&self) -> Option<Span> {
        self.entry.facts.iter().find_map(|fact| match *fact {
            Fact::Grid { setting, default } => Some(self.value(setting).map_or(default, Span::from_ns)),
            Fact::Priorities { .. } => None,
        })
    }

    /// Reports whether the policy ranks tasks by their `priority`. It schedules tasks without priorities in the order of their
    /// releases.
    #[must_use]
    pub fn ranks_by_priority(&self) -> bool {
        self.entry.facts.iter().any(|fact| match *fact {
            Fact::Priorities { when } => when.is_none_or(|(setting, value)| self.value(setting) == Some(value)),
            Fact::Grid { .. } => false,
        })
    }

    /// Whether every setting that was set has a value that it takes. O(settings).
    ///
    /// # Errors
    /// The first that has not.
    pub fn check_values(&self) -> Result<(), Invalid> {
        let wrong = |(setting, value): &(&Setting, Option<i64>)| value.is_some_and(|value| !setting.kind.takes(value));
        match self.entry.settings.iter().zip(self.values).find(wrong) {
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
        let index = self.entry.settings.iter().position(|s| s.name == name);
        self.values[index.expect("a policy asks for its own settings")]
    }
}

/// What a policy is built from.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The whole system.
    pub system: &'a System,
    /// The tasks that it schedules: all, or those of one partition.
    pub tasks: &'a [TaskId],
    /// The single-CPU places that it may ever be lent.
    pub places: &'a [Place],
    /// Scope and placement.
    pub spec: PolicySpec,
    /// Number of the first timer that it may use.
    pub first_timer: u16,
}

impl Build<'_> {
    /// Builds the policy. What it costs beside is O(settings + tasks).
    ///
    /// # Errors
    /// When a setting is out of its range, a task lacks what the policy needs of each ([`Entry::needs`]), the policy cannot
    /// schedule the system, or there are not enough numbers for its timers.
    pub fn policy(&self) -> Result<Box<dyn Policy>, Invalid> {
        self.spec.check_values()?;
        for &id in self.tasks {
            let task = &self.system.tasks[id.index()];
            if let Some(key) = self.spec.entry.needs.iter().find_map(|need| need.lacking(task)) {
                return Err(Invalid::Needs(id, key));
            }
        }
        let policy = (self.spec.entry.build)(self)?;
        // Policies that host others add up what each of them needs.
        match self.first_timer.checked_add(policy.timers()) {
            Some(_) => Ok(policy),
            None => Err(Invalid::Unsuitable("the policies of all parts together need more than 65535 timers")),
        }
    }

    /// For policies whose servers have their deadlines at the ends of their periods.
    ///
    /// # Errors
    /// The first task whose reservation says another one.
    pub(crate) fn knows_whole_periods(&self) -> Result<(), Invalid> {
        let own = |task: &&TaskId| self.system.tasks[task.index()].reservation.is_some_and(|r| r.deadline.is_some());
        self.tasks.iter().find(own).map_or(Ok(()), |task| Err(Invalid::Constrained(*task)))
    }

    /// The number of the policy's timer `index`. There is none past the last number, which [`Build::policy`] finds when the policy
    /// is built.
    pub(crate) fn timer(&self, index: usize) -> u16 {
        self.first_timer.wrapping_add(index as u16)
    }
}

/// What of a task a policy cannot do without.
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

/// A property of a policy that decides what its results mean, beside what it needs of each task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// The policy works in quanta. Its guarantee needs releases at multiples of the quantum, and it rounds runtimes up to it.
    Grid {
        /// The setting that is the quantum, a duration.
        setting: &'static str,
        /// The quantum without the setting.
        default: Span,
    },
    /// The policy ranks tasks by their `priority`.
    Priorities {
        /// Only with this value of this setting; always without one.
        when: Option<(&'static str, i64)>,
    },
}

/// How a scope with clusters finds out whether a CPU of its own has room for a task.
#[derive(Clone, Copy, Debug)]
pub enum CpuTest {
    /// No exact test is known for the policy: the utilisation must be at most 1.
    Utilisation,
    /// Processor demand. The policy meets all deadlines on one CPU whenever EDF does.
    Demand,
    /// Response times under fixed priorities, by the rank of a task; the lowest is the most urgent.
    ResponseTimes(fn(&Task) -> i64),
}

/// One policy of the registry.
pub struct Entry {
    /// Its name, without a scope's prefix.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Its manual page, in Markdown.
    pub manual: &'static str,
    /// The scopes that it can be used with.
    pub scopes: &'static [Scope],
    /// What every task must have.
    pub needs: &'static [Need],
    /// Properties that its results depend on.
    pub facts: &'static [Fact],
    /// The exact test of one CPU under the policy, by which tasks are placed.
    pub test: CpuTest,
    /// What can be tuned.
    pub settings: &'static [Setting],
    /// Builds it.
    pub build: fn(&Build<'_>) -> Result<Box<dyn Policy>, Invalid>,
}

impl Entry {
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

/// Its name alone: an entry in a failed test's output should not print its manual.
impl core::fmt::Debug for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every policy of Takt; the steps to add one are in ARCHITECTURE.md. The command line, the documentation, the
/// conformance tests and the benches walk this slice.
pub static REGISTRY: &[Entry] = &[
    policies::windows::ENTRY,
    policies::domains::ENTRY,
    policies::fifo::ENTRY,
    policies::rr::ENTRY,
    policies::fp::ENTRY,
    policies::rm::ENTRY,
    policies::dm::ENTRY,
    policies::edf::ENTRY,
    policies::np_edf::ENTRY,
    policies::llf::ENTRY,
    policies::llref::ENTRY,
    policies::pd2::ENTRY,
    policies::ipi::ENTRY,
    policies::split::edf_wm::ENTRY,
    policies::split::edf_cd::ENTRY,
    policies::reservation::cbs::ENTRY,
    policies::reservation::fcbs::ENTRY,
    policies::reservation::grub::ENTRY,
    policies::reservation::edf_wmr::ENTRY,
    policies::aperiodic::polling_server::ENTRY,
    policies::aperiodic::periodic_server::ENTRY,
    policies::aperiodic::deferrable_server::ENTRY,
    policies::aperiodic::sporadic_server::ENTRY,
    policies::hvdf::ENTRY,
    policies::np_hvdf::ENTRY,
    policies::lbesa::ENTRY,
    policies::dasa_nd::ENTRY,
    policies::dasa::ENTRY,
    policies::gus::ENTRY,
    policies::gmua::ENTRY,
    policies::ng_gua::ENTRY,
    policies::g_gua::ENTRY,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_about_settings_of_their_policies() {
        let named = |entry: &Entry, name: &str, value: i64| {
            let setting = entry.settings.iter().find(|s| s.name == name).expect("the setting of a fact");
            assert!(setting.kind.takes(value), "{}: {name}", entry.name);
        };
        let (mut grids, mut ranking) = (0, 0);
        for entry in REGISTRY {
            for fact in entry.facts {
                match *fact {
                    Fact::Grid { setting, default } => {
                        named(entry, setting, default.ns());
                        grids += 1;
                    }
                    Fact::Priorities { when } => {
                        when.into_iter().for_each(|(setting, value)| named(entry, setting, value));
                        ranking += 1;
                    }
                }
            }
        }
        assert!(grids > 0 && ranking > 0);
    }

    #[test]
    fn facts_follow_the_settings() {
        let mut pd2 = PolicySpec::from_name("pd2").unwrap();
        assert_eq!(pd2.grid(), Some(Span::from_ms(1)));
        pd2.values[0] = Some(100_000);
        assert_eq!((pd2.grid(), pd2.ranks_by_priority()), (Some(Span::from_us(100)), false));
        let mut server = PolicySpec::from_name("sporadic-server").unwrap();
        assert!(!server.ranks_by_priority());
        server.values[0] = Some(1);
        assert!(server.ranks_by_priority() && PolicySpec::from_name("p-fp").unwrap().ranks_by_priority());
        assert_eq!(PolicySpec::from_name("llref").unwrap().grid(), None);
    }
}
