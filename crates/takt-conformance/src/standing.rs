//! How the order of a policy is stated, and the place of a job in it.

use crate::ledger::Ledger;
use crate::subject::{self, Statement};
use takt_core::model::{Fact, PolicySpec, Profile, TaskId};
use takt_core::record::{Record, RecordKind};
use takt_core::time::Time;

/// The key of a job; the lowest is first. Mostly rank, release, task.
pub(crate) type Key = [i64; 5];

/// The bounds of a job's place in the order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Standing {
    pub(crate) least: Key,
    pub(crate) most: Key,
    /// The server that the job shares with others, which go by `turn` among themselves.
    pub(crate) server: Option<u64>,
    pub(crate) turn: (Time, TaskId),
}

pub(crate) const FIRST: Key = [i64::MIN; 5];
pub(crate) const LAST: Key = [i64::MAX; 5];

impl Standing {
    pub(crate) fn between(least: Key, most: Key) -> Standing {
        Standing { least, most, server: None, turn: (Time::ZERO, TaskId(0)) }
    }
    pub(crate) fn exactly(key: Key) -> Standing {
        Standing::between(key, key)
    }
    /// Whether the job is ahead of the other one in any case.
    pub(crate) fn is_ahead_of(&self, other: &Standing) -> bool {
        match (self.server, other.server) {
            (Some(own), Some(same)) if own == same => self.turn < other.turn,
            _ => self.most < other.least,
        }
    }
}

/// How the order of a policy is stated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Each job has a rank of its own, and inherits others' where it holds a resource.
    Ranks,
    /// A schedule is built at each event ([`choices`]).
    Constructed,
    /// By the deadlines of servers ([`Reservations`]).
    Reservations,
    /// By the ranks of tasks and of the servers that several may share ([`servers`]).
    Servers,
    /// By what jobs are still to get of their fair part ([`fair`]).
    Fair,
    /// Each task at most once in a round, in a fixed order ([`Rounds`]).
    Rounds,
    /// By deadline on the CPU of each task that is not split.
    Split,
    /// The processes of a partition one after the other ([`rules`]).
    Table,
    /// None of its own: each domain has that of its policy.
    Guests,
    /// As stated by the author of the suite.
    Stated(Statement),
}

/// The order of a policy; `None` if none is stated.
pub(crate) fn order(profile: &Profile) -> Option<Order> {
    if let Some(statement) = subject::statement(profile.name) {
        return Some(Order::Stated(statement));
    }
    Some(match profile.name {
        "fifo" | "rr" | "fp" | "rm" | "dm" | "edf" | "np-edf" | "llf" => Order::Ranks,
        "hvdf" | "np-hvdf" | "lbesa" | "dasa" | "dasa-nd" | "gus" | "gmua" | "ng-gua" | "g-gua" => Order::Constructed,
        "cbs" | "fcbs" | "grub" | "edf-wmr" => Order::Reservations,
        "llref" | "pd2" => Order::Fair,
        "ipi" => Order::Rounds,
        "edf-wm" | "edf-cd" => Order::Split,
        "windows" => Order::Table,
        "domains" => Order::Guests,
        _ if profile.facts.iter().any(|fact| matches!(fact, Fact::Servers(_))) => Order::Servers,
        _ => return None,
    })
}

/// Whether a job that has started keeps its CPU.
pub(crate) fn keeps_its_cpu(name: &str) -> bool {
    ["np-edf", "np-hvdf"].contains(&name)
}

/// Whether the policy of the system begins again in a step with these records because a setting has changed. These three policies
/// change their setting and keep their state.
pub(crate) fn is_rebuilt(ledger: &Ledger, records: &[Record]) -> bool {
    let keeps = ["rr", "llf", "ipi"].contains(&ledger.system.policy.profile.name);
    !keeps && records.iter().any(|record| matches!(record.kind, RecordKind::Configure { .. }))
}

/// The events of a task in a step.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    pub(crate) woke: bool,
    pub(crate) blocked: bool,
    pub(crate) yielded: bool,
    /// A job of it ended, or stopped being ready.
    pub(crate) left: bool,
    /// Other terms were asked for.
    pub(crate) retimed: u32,
    /// Its terms are others, or were asked for.
    pub(crate) other_terms: bool,
}

/// Whether no CPU that the task may use idles while its job is ready.
pub(crate) fn conserves(ledger: &Ledger, spec: PolicySpec, task: TaskId) -> bool {
    match order(spec.profile) {
        _ if spec.is_work_conserving() => true,
        // A task without a server waits for no budget, and one that is not split for no window.
        Some(Order::Servers) => ledger.system.server(task).is_none(),
        Some(Order::Reservations) => spec.splits().is_some(),
        kind => matches!(kind, Some(Order::Split | Order::Rounds | Order::Table | Order::Guests)),
    }
}
