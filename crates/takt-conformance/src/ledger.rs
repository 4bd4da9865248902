//! A second account of what happens, kept from commands and records alone ([`crate::judge`]).

use crate::jobs::{Account, Moment};
use crate::sharing::Sharing;
use takt_core::cpus::CpuSet;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::time::{Span, Time};

/// Before the first step.
pub(crate) const BEFORE: Time = Time::from_ns(-1);

pub(crate) struct Ledger {
    pub(crate) system: System,
    pub(crate) places: Vec<CpuSet>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) sharing: Sharing,
    pub(crate) cpu_owner: Vec<Option<TaskId>>,
    pub(crate) moment: Moment,
    pub(crate) metered: bool,
    /// The most by which the end of a budget is noticed late.
    pub(crate) slack: Span,
    pub(crate) window: Option<(u32, u64)>,
    pub(crate) lost: u64,
    pub(crate) partition_of: Vec<Option<usize>>,
    /// Whether the step had one input alone, so that what it returns is decided by what was known before.
    pub(crate) single: bool,
    /// The place group that each task has run on since the policy was built.
    pub(crate) homes: Vec<Option<usize>>,
    /// Whether a job yielded or blocked in this step, or its policy is a new one.
    pub(crate) gave_way: bool,
    pub(crate) switched: bool,
    /// The tasks whose jobs the driver gives up in this step.
    pub(crate) aborted: Vec<TaskId>,
    /// The tasks whose programs are to be replaced in this step.
    pub(crate) replaced: Vec<TaskId>,
    /// Those whose handlers have ended in this step, and which are replaced if an abort was the reason.
    pub(crate) handled: Vec<TaskId>,
    /// In a step with switches: what ruled before it, or may have ruled for a moment within it; with the domain.
    pub(crate) ruled: Vec<(Option<usize>, PolicySpec)>,
    /// By task: its policy begins again in this step.
    pub(crate) begins: Vec<bool>,
}

impl Ledger {
    pub(crate) fn new(system: &System, metered: bool, skew: Span) -> Ledger {
        let of = |t: usize| system.partitions.iter().position(|p| p.tasks.contains(&TaskId(t as u32)));
        Ledger {
            places: system.places(),
            accounts: (0..system.tasks.len()).map(|i| Account::new(system, i)).collect(),
            sharing: Sharing::new(system.resources),
            cpu_owner: vec![None; takt_core::cpus::MAX_CPUS],
            moment: Moment { now: BEFORE, before: BEFORE, on_time: true },
            metered,
            slack: skew + system.timing.lateness + system.timing.resolution,
            window: None,
            lost: 0,
            partition_of: (0..system.tasks.len()).map(of).collect(),
            single: false,
            homes: vec![None; system.tasks.len()],
            gave_way: false,
            switched: false,
            aborted: Vec::new(),
            replaced: Vec::new(),
            handled: Vec::new(),
            ruled: Vec::new(),
            begins: vec![true; system.tasks.len()],
            system: system.clone(),
        }
    }

    pub(crate) fn tabled(&self) -> bool {
        self.system.policy.hosts() == Some(Hosts::Windows)
    }
    /// The domain of the task, where domains have policies of their own.
    pub(crate) fn domain_of(&self, task: TaskId) -> Option<usize> {
        let domains = self.system.policy.hosts() == Some(Hosts::Domains);
        self.system.domains.iter().position(|d| domains && d.tasks.contains(&task))
    }
    /// Whether the task's domain has the same CPUs as that of another task, in a higher band.
    pub(crate) fn is_above(&self, task: TaskId, other: TaskId) -> bool {
        let domain = |task| self.domain_of(task).map(|d| &self.system.domains[d]);
        domain(task).zip(domain(other)).is_some_and(|(own, other)| own.is_above(other))
    }
    /// Whether CPUs of the task's policy are used by higher bands.
    pub(crate) fn is_lower_band(&self, task: TaskId) -> bool {
        let domain = self.domain_of(task).map(|d| &self.system.domains[d]);
        domain.is_some_and(|own| self.system.domains.iter().any(|other| other.is_above(own)))
    }
    /// The policies that may have ruled over the task besides its present one in this step.
    pub(crate) fn ruled(&self, task: TaskId) -> impl Iterator<Item = PolicySpec> + '_ {
        let over = move |domain: Option<usize>| domain.is_none_or(|d| self.system.domains[d].tasks.contains(&task));
        self.ruled.iter().filter(move |(domain, _)| over(*domain)).map(|(_, spec)| *spec)
    }
    /// The policy of the task, and its CPUs.
    pub(crate) fn policy_of(&self, task: TaskId) -> (PolicySpec, CpuSet) {
        let domain = self.domain_of(task).map(|d| &self.system.domains[d]);
        domain.map_or((self.system.policy, self.system.cpus), |d| (d.policy, d.cpus))
    }
    /// Whether the table itself runs this task, one at a time in its partition.
    pub(crate) fn in_turn(&self, task: usize) -> bool {
        self.tabled() && self.partition_of[task].is_some_and(|p| self.system.partitions[p].policy.is_none())
    }
    /// Whether consumption is measured anywhere in this case.
    pub(crate) fn is_metered(&self) -> bool {
        self.metered
    }
    /// Whether the task's policy begins again in this step.
    pub(crate) fn begins_again(&self, task: usize) -> bool {
        self.begins[task]
    }
    /// Whether timers are noticed at the instants that they are set to.
    pub(crate) fn is_punctual(&self) -> bool {
        self.system.timing == Timing::default()
    }
    /// Whether nothing was due before this step.
    pub(crate) fn was_on_time(&self) -> bool {
        self.moment.on_time
    }
    pub(crate) fn account(&self, task: TaskId) -> &Account {
        &self.accounts[task.index()]
    }
}
