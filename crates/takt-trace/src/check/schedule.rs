//! The jobs that run and wait, their consumption, and their ends: the rules of the model and of a policy's facts.
//!
//! The rules are the ones of `takt-conformance` for engines, judged from records alone. Each holds for an interval between two instants of the
//! trace: a fault is reported when it lasts longer than the tolerance.

use super::finding::Finding;
use crate::{Stamped, Trace};
use std::collections::{BTreeMap, BTreeSet};
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{Arrival, Hosts, Late, Locking, Need, Order, PolicySpec, ResourceId, Scope, System, TaskId};
use takt_core::record::{JobId, Outcome, Place, RecordKind, StopReason};
use takt_core::time::{Span, Time};

/// How the records of a trace came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consumption {
    /// A job consumes all the time that it has a CPU: a simulation without costs.
    Exact,
    /// It consumes that time at most.
    Bounded,
    /// Jobs can consume more, as where they run while others are blocked (`dispatch: rank`).
    Unknown,
}

/// The conditions of a run that its records alone do not show.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The largest lateness that is not reported.
    pub tolerance: Span,
    /// How consumption and the time on CPUs belong together.
    pub consumption: Consumption,
    /// The terms or the releases of tasks are changed during the run, or tasks leave and return.
    pub changed: bool,
}

/// The findings of a check, and the rules that it could not apply.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Rules that the trace breaks.
    pub findings: Vec<Finding>,
    /// Rules that were not applied, each with the reason.
    pub unchecked: BTreeSet<(&'static str, String)>,
}

/// Checks which jobs run and wait, what they consume and how they end. The trace must be of this system. O(records × ready tasks).
#[must_use]
pub fn schedule(trace: &Trace, system: &System, conditions: &Conditions) -> Judgement {
    let mut checker = Schedule::new(trace, system, conditions);
    trace.records.iter().for_each(|record| checker.take(record));
    checker.judgement()
}

/// A job that is released and not over.
#[derive(Clone, Copy, Debug)]
struct Job {
    number: JobId,
    release: Time,
    deadline: Option<Time>,
    /// Since when it is ready, and its number among all that became ready.
    ready: (Time, u64),
    /// When it started, since it blocked last.
    started: Option<Time>,
    /// How long it had CPUs, in how many pieces.
    ran: Span,
    pieces: i64,
    /// How long it was blocked before, and since when it is.
    slept: Span,
    asleep: Option<Time>,
    granted: bool,
}

impl Job {
    /// It has not started.
    fn released(number: JobId, release: Time, deadline: Option<Time>, ready: (Time, u64), granted: bool) -> Job {
        Job {
            number,
            release,
            deadline,
            ready,
            started: None,
            ran: Span::ZERO,
            pieces: 0,
            slept: Span::ZERO,
            asleep: None,
            granted,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    jobs: Vec<Job>,
    handler: Option<Job>,
    blocked: bool,
    waits_for: Option<ResourceId>,
    running: Option<(Place, Time, Time)>,
    yielded: bool,
    gone: bool,
    terms_unknown: bool,
    home: Option<usize>,
    /// Groups of CPUs that are not its home, because one of them was idle while its job waited.
    excluded: BTreeSet<usize>,
    idle: BTreeMap<usize, Time>,
    behind: Option<Time>,
    below: Option<Time>,
    /// This job has been reported.
    reported: Option<(JobId, &'static str)>,
}

impl State {
    fn current(&self) -> Option<&Job> {
        self.handler.as_ref().or_else(|| self.jobs.first())
    }
    fn waits(&self) -> bool {
        self.current().is_some() && !self.blocked && self.waits_for.is_none() && self.running.is_none() && !self.gone
    }
}

/// The policy of a task, and where it rules.
#[derive(Clone, Copy, Debug)]
struct Rule {
    spec: PolicySpec,
    cpus: CpuSet,
    domain: Option<usize>,
}

/// The rules that need the policy and the workload, as [`schedule`] applies them.
pub struct Schedule<'a> {
    trace: &'a Trace,
    system: &'a System,
    conditions: &'a Conditions,
    /// The tolerance with what the clock of the system adds.
    slack: Span,
    labels: Vec<String>,
    rules: Vec<Option<Rule>>,
    tasks: Vec<State>,
    occupied: Vec<Option<TaskId>>,
    owners: BTreeMap<ResourceId, TaskId>,
    /// The job that locked each of them.
    holders: BTreeMap<ResourceId, JobId>,
    /// Starts of the present instant: a job may also end or block at once.
    starts: Vec<(TaskId, Place)>,
    /// Stops of the present instant, judged at its end.
    stops: Vec<(TaskId, Place, StopReason)>,
    /// Jobs that ended as aborted in the present instant, with the causes known so far.
    aborted: Vec<(TaskId, JobId)>,
    deadlocked: bool,
    now: Time,
    sequence: u64,
    switched: bool,
    judgement: Judgement,
}

impl<'a> Schedule<'a> {
    /// A checker of a trace without its records, which come one after the other.
    #[must_use]
    pub fn new(trace: &'a Trace, system: &'a System, conditions: &'a Conditions) -> Schedule<'a> {
        let timing = system.timing;
        let mut checker = Schedule {
            trace,
            system,
            conditions,
            slack: conditions.tolerance + timing.tick + timing.resolution + timing.lateness,
            labels: trace.header.labels(),
            rules: vec![None; trace.header.tasks.len()],
            tasks: vec![State::default(); trace.header.tasks.len()],
            occupied: vec![None; MAX_CPUS],
            owners: BTreeMap::new(),
            holders: BTreeMap::new(),
            starts: Vec::new(),
            stops: Vec::new(),
            aborted: Vec::new(),
            deadlocked: false,
            now: Time::ZERO,
            sequence: 0,
            switched: false,
            judgement: Judgement::default(),
        };
        let changes = |command: &str| ["set ", "remove ", "reload "].iter().any(|start| command.starts_with(start));
        let changed = conditions.changed || trace.changes.iter().any(|change| changes(&change.command));
        for (index, label) in trace.header.tasks.iter().enumerate() {
            checker.tasks[index].terms_unknown = changed;
            if label.class.is_none() && index < system.tasks.len() {
                checker.rules[index] = rule(system, TaskId(index as u32));
            }
        }
        checker.name_unchecked(changed);
        checker
    }

    /// The records that are missing.
    fn dropped(&self) -> u64 {
        self.trace.footer.map_or(0, |footer| footer.dropped)
    }

    /// The next record.
    pub fn take(&mut self, record: &Stamped) {
        if self.dropped() > 0 {
            return;
        }
        if record.record.at > self.now {
            self.settle(record.record.at);
        }
        self.record(&record.record.kind, record.record.at, record.applied);
    }

    /// Ends the check and returns its findings.
    #[must_use]
    pub fn judgement(mut self) -> Judgement {
        match self.dropped() {
            0 => self.settle(self.trace.footer.map_or(self.now, |footer| footer.end).max(self.now)),
            dropped => self.unchecked("order", &format!("{dropped} records are missing")),
        }
        self.judgement
    }

    /// Names the rules that do not apply to this system.
    fn name_unchecked(&mut self, changed: bool) {
        if !self.system.windows.is_empty() {
            self.unchecked("order", "what runs within windows is judged by `window`, `fifo` and `best-effort`");
            self.unchecked("idle", "CPUs of windows may be idle");
        }
        if self.trace.header.source != "sim" {
            self.unchecked("abort", "the end of a process aborts its job, and has no record");
        }
        if !self.system.speeds.is_empty() {
            self.unchecked("consumption", "the CPUs have different speeds");
        }
        match self.conditions.consumption {
            Consumption::Exact => {}
            Consumption::Bounded => {
                self.unchecked("consumption", "a job may consume less than its time on CPUs; more is found")
            }
            Consumption::Unknown => self.unchecked("consumption", "jobs also run while others are blocked"),
        }
        if changed {
            self.unchecked("order", "terms of tasks change during the run; only orders by deadline are judged");
        }
        let rules: Vec<Rule> = self.rules.iter().flatten().copied().collect();
        for Rule { spec, .. } in rules {
            let name = format!("{}{}", spec.prefix(), spec.profile.name);
            if !matches!(
                spec.order(),
                Some(
                    Order::AbsoluteDeadline
                        | Order::Period
                        | Order::RelativeDeadline
                        | Order::Priority
                        | Order::Readiness
                )
            ) {
                self.unchecked("order", &format!("the records do not show the order of policy `{name}`"));
            }
            if !spec.is_work_conserving() {
                self.unchecked("idle", &format!("policy `{name}` may leave CPUs idle"));
            }
            if spec.scope == Scope::Partitioned && spec.migrates() {
                self.unchecked("home", &format!("policy `{name}` moves tasks"));
            }
        }
        if self.system.locking == Locking::Ceiling && self.system.resources > 0 {
            self.unchecked("order", "with `locking: ceiling` it is not judged while a resource is locked");
        }
    }

    fn unchecked(&mut self, rule: &'static str, why: &str) {
        self.judgement.unchecked.insert((rule, why.to_owned()));
    }

    fn find(&mut self, at: Time, task: TaskId, rule: &'static str, message: String) {
        self.judgement.findings.push(Finding { at, task: Some(self.labels[task.index()].clone()), rule, message });
    }

    fn record(&mut self, kind: &RecordKind, at: Time, applied: Time) {
        let now = self.now.max(at);
        match *kind {
            RecordKind::Release { task, job, deadline } => {
                self.sequence += 1;
                let job = Job::released(job, at, deadline, (now, self.sequence), false);
                let state = &mut self.tasks[task.index()];
                if state.jobs.is_empty() {
                    state.yielded = false;
                }
                state.jobs.push(job);
            }
            RecordKind::Handler { task, job, deadline } => {
                self.sequence += 1;
                let job = Job::released(job, at, deadline, (now, self.sequence), true);
                let state = &mut self.tasks[task.index()];
                (state.handler, state.blocked, state.waits_for) = (Some(job), false, None);
                self.restart_queue(task, now);
            }
            RecordKind::Budget { task, job, amount } => self.budget(task, job, amount),
            RecordKind::Start { task, job, place } => self.start(task, job, place, applied),
            RecordKind::Stop { task, job, place, reason } => self.stop(task, job, place, reason, applied),
            RecordKind::Finish { task, job, outcome, consumed } => {
                self.finish(task, job, outcome, consumed.nominal_time(), applied);
            }
            RecordKind::HandlerEnd { task, consumed, .. } => {
                if let Some(job) = self.tasks[task.index()].handler {
                    self.consumed(task, &job, consumed.nominal_time(), applied);
                }
                let state = &mut self.tasks[task.index()];
                (state.handler, state.blocked, state.waits_for, state.yielded) = (None, false, None, false);
                self.restart_queue(task, now);
            }
            RecordKind::Block { task, job } => {
                let state = &mut self.tasks[task.index()];
                let twice = std::mem::replace(&mut state.blocked, true);
                if let Some(job) = state.handler.as_mut().or_else(|| state.jobs.first_mut()) {
                    job.started = None;
                    job.asleep = job.asleep.or(Some(at));
                }
                if twice {
                    self.find(at, task, "block", format!("job {job} blocks while it is blocked"));
                }
            }
            RecordKind::Wake { task, job } => {
                let state = &mut self.tasks[task.index()];
                let was = std::mem::replace(&mut state.blocked, false);
                state.yielded = false;
                if let Some(job) = state.handler.as_mut().or_else(|| state.jobs.first_mut()) {
                    job.slept += job.asleep.take().map_or(Span::ZERO, |since| at - since);
                }
                if !was {
                    self.find(at, task, "block", format!("job {job} wakes up without having blocked"));
                }
                self.restart_queue(task, now);
            }
            RecordKind::Yield { task, .. } => self.tasks[task.index()].yielded = true,
            RecordKind::Lock { task, resource, granted } => {
                if granted {
                    self.owners.insert(resource, task);
                    if let Some(job) = self.tasks[task.index()].current() {
                        self.holders.insert(resource, job.number);
                    }
                    self.tasks[task.index()].waits_for = None;
                } else {
                    self.tasks[task.index()].waits_for = Some(resource);
                }
            }
            RecordKind::Withdraw { task, .. } => self.tasks[task.index()].waits_for = None,
            RecordKind::Unlock { task, resource } if self.owners.get(&resource) == Some(&task) => {
                self.owners.remove(&resource);
            }
            RecordKind::Deadlock { .. } => self.deadlocked = true,
            RecordKind::Exit { task, .. } => {
                self.tasks[task.index()].gone = true;
                self.aborted.retain(|(aborted, _)| *aborted != task);
            }
            RecordKind::Call { task, granted: true, .. } => self.tasks[task.index()].terms_unknown = true,
            RecordKind::Switch { domain, to } => self.switch(domain, to),
            RecordKind::Configure { setting, value } => {
                self.switched = true;
                for rule in self.rules.iter_mut().flatten().filter(|rule| rule.domain.is_none()) {
                    rule.spec.values.set(usize::from(setting), value);
                }
                self.forget_homes();
            }
            _ => {}
        }
    }

    /// The present job of a task is ready from now on.
    fn restart_queue(&mut self, task: TaskId, now: Time) {
        self.sequence += 1;
        let ready = (now, self.sequence);
        let state = &mut self.tasks[task.index()];
        if let Some(job) = state.handler.as_mut().or_else(|| state.jobs.first_mut()) {
            job.ready = ready;
        }
    }

    fn switch(&mut self, domain: Option<u16>, to: u16) {
        self.switched = true;
        let Some(spec) = self.system.alternatives.get(usize::from(to)).copied() else {
            self.unchecked("order", "another policy takes over that the file does not name");
            self.rules.fill(None);
            return;
        };
        let whole = self.system.policy.hosts().is_none();
        for rule in self.rules.iter_mut() {
            let Some(own) = rule else { continue };
            if own.domain == domain.map(usize::from) && (domain.is_some() || whole) {
                own.spec = spec;
            } else if domain.is_none() {
                *rule = None;
            }
        }
        self.name_unchecked(false);
        self.forget_homes();
    }

    fn forget_homes(&mut self) {
        for state in &mut self.tasks {
            state.home = None;
            state.excluded.clear();
        }
    }

    fn budget(&mut self, task: TaskId, job: JobId, amount: Option<Span>) {
        let at = self.now;
        if let Some(own) = self.tasks[task.index()].jobs.iter_mut().find(|own| own.number == job) {
            own.granted = true;
        }
        let Some(described) = self.system.tasks.get(task.index()) else { return };
        let unlimited = self.tasks[task.index()].terms_unknown || self.tasks[task.index()].handler.is_some();
        let Some(budget) = described.budget.filter(|_| !unlimited && self.system.windows.is_empty()) else { return };
        let most = (budget + (described.jitter - described.jitter / 2)).max(Span::from_ns(1));
        if amount.is_some_and(|amount| amount > most) {
            let amount = amount.unwrap_or(Span::ZERO);
            self.find(
                at,
                task,
                "grant",
                format!("job {job} is granted {amount}, and its task's budget is {most} at most"),
            );
        }
    }

    fn start(&mut self, task: TaskId, job: JobId, place: Place, applied: Time) {
        let at = self.now;
        let set = self.trace.header.places[place.index()];
        for cpu in set.iter() {
            self.occupied[cpu] = Some(task);
        }
        self.starts.push((task, place));
        let state = &mut self.tasks[task.index()];
        let blocked = state.blocked && state.waits_for.is_none();
        state.running = Some((place, applied, at));
        let granted = state.handler.is_some();
        let mut lacks = false;
        if let Some(own) = state.handler.as_mut().or_else(|| state.jobs.iter_mut().find(|own| own.number == job)) {
            own.started = own.started.or(Some(at));
            own.pieces += 1;
            lacks = !own.granted && !granted;
        }
        if blocked {
            self.find(at, task, "block", format!("job {job} starts while it is blocked"));
        }
        let budgeted = self.system.tasks.get(task.index()).is_some_and(|t| t.budget.is_some());
        if lacks && budgeted && self.system.windows.is_empty() && !self.switched {
            self.find(at, task, "grant", format!("job {job} starts, and no record grants its budget"));
        }
        self.goes_home(task, job, &set);
    }

    /// A task of a partitioned or clustered policy runs on the CPUs of its home.
    fn goes_home(&mut self, task: TaskId, job: JobId, set: &CpuSet) {
        let Some(rule) = self.rules[task.index()] else { return };
        let Some(groups) = groups(&rule).filter(|_| self.has_homes()) else { return };
        let Some(group) = set.iter().next().and_then(|cpu| groups.iter().position(|g| g.contains(cpu))) else { return };
        let home = *self.tasks[task.index()].home.get_or_insert(group);
        if home != group {
            let message = format!("job {job} starts on {set}, and its task is at home on {}", groups[home]);
            self.find(self.now, task, "home", message);
        }
    }

    /// Whether tasks keep their homes: no command changes the task set.
    fn has_homes(&self) -> bool {
        self.trace.changes.is_empty() && !self.conditions.changed
    }

    fn stop(&mut self, task: TaskId, number: JobId, place: Place, reason: StopReason, applied: Time) {
        let at = self.now;
        for cpu in self.trace.header.places[place.index()].iter() {
            if self.occupied[cpu] == Some(task) {
                self.occupied[cpu] = None;
            }
        }
        let state = &mut self.tasks[task.index()];
        let cpus = self.trace.header.places[place.index()].len() as i64;
        let piece = state.running.take().map_or(Span::ZERO, |(_, since, _)| (applied - since) * cpus);
        let blocked = state.blocked || state.waits_for.is_some();
        if reason != StopReason::Finished
            && let Some(job) = state.handler.as_mut().or_else(|| state.jobs.first_mut())
        {
            job.ran += piece;
        }
        let is_open = state.current().is_some_and(|job| job.number == number);
        let message = match reason {
            // A handler has the number of its job.
            StopReason::Finished if is_open && state.handler.is_none() => {
                "it leaves its CPUs as finished, and its job is not over"
            }
            StopReason::Finished => "",
            _ if !is_open => "it leaves its CPUs for another reason than the end of its job",
            StopReason::Blocked if !blocked => "it leaves its CPUs as blocked, and is not",
            StopReason::Blocked => "",
            _ if blocked => "it is blocked, and leaves its CPUs for another reason",
            _ => "",
        };
        if !message.is_empty() {
            self.find(at, task, "stop", message.to_owned());
        }
        self.stops.push((task, place, reason));
    }

    fn finish(&mut self, task: TaskId, number: JobId, outcome: Outcome, consumed: Span, applied: Time) {
        let at = self.now;
        let Some(index) = self.tasks[task.index()].jobs.iter().position(|job| job.number == number) else { return };
        let job = self.tasks[task.index()].jobs.remove(index);
        if outcome == Outcome::Skipped {
            return;
        }
        self.consumed(task, &job, consumed, applied);
        let state = &mut self.tasks[task.index()];
        (state.blocked, state.waits_for, state.yielded) = (false, None, false);
        let activated = self.system.tasks.get(task.index()).is_none_or(|t| t.arrival == Arrival::Activated);
        if outcome == Outcome::Aborted && !activated && !self.has_cause(task, &job, consumed) {
            self.aborted.push((task, number));
        }
        let late = self.system.late == Late::Abort && !activated;
        if let Some(deadline) = job.deadline.filter(|d| late && outcome == Outcome::Completed && at > *d + self.slack) {
            let message =
                format!("job {number} completes {} after its deadline, at which it was to be aborted", at - deadline);
            self.find(at, task, "late", message);
        }
        self.restart_queue(task, at);
    }

    /// Whether a job may be aborted: it is late, its budget is exhausted, or jobs wait for each other in a cycle.
    fn has_cause(&self, task: TaskId, job: &Job, consumed: Span) -> bool {
        let late = self.system.late != Late::Continue && job.deadline.is_some_and(|d| d <= self.now + self.slack);
        let described = &self.system.tasks[task.index()];
        let exact = self.conditions.consumption == Consumption::Exact;
        let spent = described
            .budget
            .is_some_and(|budget| !exact || self.switched || consumed + self.slack >= budget - described.jitter / 2);
        let utility = self.rules[task.index()].is_none_or(|r| r.spec.profile.needs.contains(&Need::Utility));
        // The end of its process aborts a job of a run, without a record.
        late || spent || (utility && self.deadlocked) || self.trace.header.source != "sim"
    }

    /// A job has consumed as much as it had CPUs. The process of a blocked job of a run continues by itself, before the scheduler knows of its wake-up.
    fn consumed(&mut self, task: TaskId, job: &Job, consumed: Span, applied: Time) {
        if !self.system.speeds.is_empty() || self.conditions.consumption == Consumption::Unknown {
            return;
        }
        let last = self.tasks[task.index()].running.map_or(Span::ZERO, |(place, since, _)| {
            (applied - since) * self.trace.header.places[place.index()].len() as i64
        });
        let exact = self.conditions.consumption == Consumption::Exact && self.system.windows.is_empty();
        let asleep = job.slept + job.asleep.map_or(Span::ZERO, |since| applied - since);
        let alone = if self.trace.header.source == "sim" { Span::ZERO } else { asleep };
        let had = job.ran + last;
        let slack = Span::from_ns(self.conditions.tolerance.ns().saturating_mul(job.pieces.max(1)));
        let number = job.number;
        if consumed > had + alone + slack {
            let blocked = if alone > Span::ZERO { format!(" and was blocked for {alone}") } else { String::new() };
            let message = format!("job {number} has consumed {consumed}, and had CPUs for {had}{blocked}");
            self.find(self.now, task, "consumption", message);
        } else if exact && consumed + slack < had {
            self.find(
                self.now,
                task,
                "consumption",
                format!("job {number} has consumed only {consumed}, and had CPUs for {had}"),
            );
        }
    }

    /// The state of the present instant holds until the next one.
    fn settle(&mut self, next: Time) {
        let now = self.now;
        for (task, job) in std::mem::take(&mut self.aborted) {
            let message = format!("job {job} is aborted without a cause: its deadline, its budget or a deadlock");
            self.find(now, task, "abort", message);
        }
        self.deadlocked = false;
        self.settle_stops();
        self.settle_resources();
        if self.system.windows.is_empty() {
            for index in 0..self.tasks.len() {
                self.settle_task(TaskId(index as u32), next);
            }
        }
        self.switched = false;
        self.now = next;
    }

    /// A job that is over holds nothing.
    fn settle_resources(&mut self) {
        let is_over = |(resource, task): (&ResourceId, &TaskId)| {
            let open = self.tasks[task.index()].current().map(|job| job.number);
            (open.is_none() || open != self.holders.get(resource).copied()).then_some((*resource, *task))
        };
        let over: Vec<(ResourceId, TaskId)> = self.owners.iter().filter_map(is_over).collect();
        for (resource, task) in over {
            self.owners.remove(&resource);
            let name = self.trace.header.resource(resource);
            self.find(self.now, task, "resource", format!("its job is over, and holds {name}"));
        }
    }

    fn settle_stops(&mut self) {
        let starts = std::mem::take(&mut self.starts);
        for (task, place, reason) in std::mem::take(&mut self.stops) {
            let set = self.trace.header.places[place.index()];
            let taken = set.iter().find_map(|cpu| self.occupied[cpu].filter(|other| *other != task));
            let began = |(other, at): &(TaskId, Place)| {
                *other != task && !self.trace.header.places[at.index()].is_disjoint(&set)
            };
            let began = starts.iter().any(began);
            let message = match reason {
                StopReason::Preempted if taken.is_none() && !began => {
                    "it is preempted, and no other task takes its CPUs"
                }
                StopReason::Suspended if taken.is_some() => "it is suspended, and another task takes its CPUs",
                StopReason::Migrated if self.tasks[task.index()].running.is_none() => "it migrates, and starts nowhere",
                _ => {
                    self.preempted(task, reason, taken, &starts);
                    continue;
                }
            };
            self.find(self.now, task, "stop", message.to_owned());
        }
    }

    /// Under a policy without preemption a job keeps its CPU until it ends or blocks.
    ///
    /// `starts` are the starts of this instant. A band above that takes one of the policy's CPUs leaves the choice to
    /// the policy which of its jobs waits: `g-fifo` lets the latest arrival wait, whose CPU the earlier job gets.
    fn preempted(&mut self, task: TaskId, reason: StopReason, by: Option<TaskId>, starts: &[(TaskId, Place)]) {
        let (Some(rule), Some(by)) = (self.rules[task.index()], by) else { return };
        let is_same = |task: TaskId| self.rules[task.index()].is_some_and(|other| other.domain == rule.domain);
        let is_displaced = |(other, place): &(TaskId, Place)| {
            !is_same(*other) && !self.trace.header.places[place.index()].is_disjoint(&rule.cpus)
        };
        let same = is_same(by) && !starts.iter().any(is_displaced);
        let kept = rule.spec.is_non_preemptive() && same && !self.switched && !self.tasks[task.index()].yielded;
        if kept && reason == StopReason::Preempted && self.system.windows.is_empty() && self.owners.is_empty() {
            let name = &self.labels[by.index()];
            let message =
                format!("it is preempted by {name}, and policy `{}` does not preempt", rule.spec.profile.name);
            self.find(self.now, task, "preemption", message);
        }
    }

    /// Until the next instant the task's job waits while CPUs are idle, or have jobs that are behind it.
    fn settle_task(&mut self, task: TaskId, next: Time) {
        let state = &self.tasks[task.index()];
        let rule = self.rules[task.index()].filter(|_| state.waits());
        let (Some(rule), Some(job)) = (rule, state.current().copied()) else {
            let state = &mut self.tasks[task.index()];
            state.idle.clear();
            (state.behind, state.below) = (None, None);
            return;
        };
        let reach = self.system.tasks[task.index()].affinity.intersection(&rule.cpus);
        let groups = match rule.spec.scope {
            Scope::Uniprocessor | Scope::Global | Scope::Table => Some(vec![rule.cpus]),
            _ => groups(&rule).filter(|_| self.has_homes()),
        };
        let Some(groups) = groups else { return };
        let single = groups.len() == 1;
        let home = if single { Some(0) } else { state.home };
        let candidates: Vec<usize> = match home {
            Some(home) => vec![home],
            None => {
                (0..groups.len()).filter(|g| !groups[*g].is_disjoint(&reach) && !state.excluded.contains(g)).collect()
            }
        };
        if rule.spec.is_work_conserving() {
            let idle = |g: &usize| groups[*g].intersection(&reach).iter().any(|cpu| self.occupied[cpu].is_none());
            let idle: Vec<usize> = candidates.iter().copied().filter(|g| idle(g)).collect();
            self.waits_beside_idle(task, &job, &idle, home.is_some(), candidates.len(), next);
            let above = |g: usize| {
                groups[g]
                    .intersection(&reach)
                    .iter()
                    .find_map(|cpu| self.occupied[cpu].filter(|o| self.is_above(task, *o)))
            };
            let lower = home.and_then(above);
            self.waits_behind(task, &job, lower, "band", next);
        }
        let Some(home) = home else { return };
        let own = self.rank(task);
        let worse = own.and_then(|own| {
            groups[home].intersection(&reach).iter().find_map(|cpu| {
                let other = self.occupied[cpu]?;
                let same = self.rules[other.index()].is_some_and(|o| o.domain == rule.domain);
                (same && self.is_passed_over(own, &job, other, &rule)).then_some(other)
            })
        });
        self.waits_behind(task, &job, worse, "order", next);
    }

    fn waits_beside_idle(
        &mut self,
        task: TaskId,
        job: &Job,
        idle: &[usize],
        known: bool,
        candidates: usize,
        next: Time,
    ) {
        let (now, slack) = (self.now, self.slack);
        let state = &mut self.tasks[task.index()];
        state.idle.retain(|group, _| idle.contains(group));
        let mut over = Vec::new();
        for group in idle {
            let since = *state.idle.entry(*group).or_insert(now);
            if next - since > slack {
                over.push((*group, since));
            }
        }
        let Some((_, since)) = over.first().copied() else { return };
        if !known && over.len() < candidates {
            state.excluded.extend(over.iter().map(|(group, _)| *group));
            return;
        }
        if state.reported != Some((job.number, "idle")) {
            state.reported = Some((job.number, "idle"));
            let message = format!(
                "job {} is ready and waits, and a CPU that it may use is idle for {}",
                job.number,
                next - since
            );
            self.find(since, task, "idle", message);
        }
    }

    fn waits_behind(&mut self, task: TaskId, job: &Job, other: Option<TaskId>, rule: &'static str, next: Time) {
        let (now, slack) = (self.now, self.slack);
        let state = &mut self.tasks[task.index()];
        let since = if rule == "band" { &mut state.below } else { &mut state.behind };
        let Some(other) = other else {
            *since = None;
            return;
        };
        let since = *since.get_or_insert(now);
        if next - since > slack && state.reported != Some((job.number, rule)) {
            state.reported = Some((job.number, rule));
            let name = &self.labels[other.index()];
            let why =
                if rule == "band" { "which is in a lower band" } else { "which is behind it in the policy's order" };
            let message = format!("job {} waits for {} while {name} runs, {why}", job.number, next - since);
            self.find(since, task, rule, message);
        }
    }

    /// Whether the first task's domain uses the same CPUs before that of the other one.
    fn is_above(&self, task: TaskId, other: TaskId) -> bool {
        let of = |task: TaskId| self.rules[task.index()].and_then(|rule| rule.domain).map(|d| &self.system.domains[d]);
        matches!((of(task), of(other)), (Some(own), Some(other)) if own.is_above(other))
    }

    /// Whether a job with this rank is ahead of the running one.
    fn is_passed_over(&self, own: Rank, job: &Job, other: TaskId, rule: &Rule) -> bool {
        let state = &self.tasks[other.index()];
        let (Some(theirs), Some((_, _, since))) = (self.rank(other), state.running) else { return false };
        if rule.spec.is_non_preemptive() {
            // A job that has started keeps its CPU, also where a higher band has taken it for some time. Which of two
            // such jobs waits for a CPU to come back depends on the CPU that was taken.
            let started = state.current().and_then(|other| other.started).unwrap_or(since);
            return job.started.is_none() && started > job.ready.0 + self.slack && own < theirs;
        }
        own < theirs
    }

    /// The rank of the task's job, with the ranks that it inherits; `None` if the records do not show it.
    fn rank(&self, task: TaskId) -> Option<Rank> {
        let rule = self.rules[task.index()]?;
        let shares = !rule.spec.ignores_locking() && !self.owners.is_empty();
        if shares && self.system.locking == Locking::Ceiling {
            return None;
        }
        let mut best = self.own_rank(task)?;
        if !shares || self.system.locking != Locking::Inheritance {
            return Some(best);
        }
        let (mut seen, mut at) = (vec![task], 0);
        while at < seen.len() {
            let holder = seen[at];
            at += 1;
            for (index, state) in self.tasks.iter().enumerate() {
                let waiter = TaskId(index as u32);
                let waits = state.waits_for.is_some_and(|r| self.owners.get(&r) == Some(&holder));
                let same = self.rules[index].is_some_and(|other| other.domain == rule.domain);
                if waits && same && !seen.contains(&waiter) {
                    seen.push(waiter);
                    best = best.min(self.own_rank(waiter)?);
                }
            }
        }
        Some(best)
    }

    fn own_rank(&self, task: TaskId) -> Option<Rank> {
        let Rule { spec, .. } = self.rules[task.index()]?;
        let (state, described) = (&self.tasks[task.index()], &self.system.tasks[task.index()]);
        let job = state.current()?;
        // A job may keep the place of its predecessor.
        if spec.profile.settings.iter().any(|setting| setting.name == "successor") && spec.value("successor") == Some(1)
        {
            return None;
        }
        let handler = described.handler.filter(|_| state.handler.is_some());
        let order = spec.order()?;
        if state.terms_unknown && !matches!(order, Order::AbsoluteDeadline | Order::Readiness) {
            return None;
        }
        let key = match order {
            Order::AbsoluteDeadline => job.deadline.unwrap_or(Time::MAX).ns(),
            Order::Period => described.arrival.period().map_or(i64::MAX, Span::ns),
            Order::RelativeDeadline => handler.map_or(described.deadline, |h| h.deadline).map_or(i64::MAX, Span::ns),
            Order::Priority => -i64::from(described.priority),
            Order::Readiness if !state.yielded => return Some((job.ready.0.ns(), Time::ZERO)),
            _ => return None,
        };
        // A job that has yielded queues behind its equals.
        if state.yielded {
            return None;
        }
        Some((key, job.release))
    }
}

/// The key of an order, and the release that decides between equals.
type Rank = (i64, Time);

/// The policy of a task; `None` in a window table, and where policies are hosted in another way.
fn rule(system: &System, task: TaskId) -> Option<Rule> {
    match system.policy.hosts() {
        None => Some(Rule { spec: system.policy, cpus: system.cpus, domain: None }),
        Some(Hosts::Windows) => None,
        Some(Hosts::Domains) => {
            let domain = system.domains.iter().position(|domain| domain.tasks.contains(&task))?;
            let own = &system.domains[domain];
            Some(Rule { spec: own.policy, cpus: own.cpus, domain: Some(domain) })
        }
    }
}

/// The sets of CPUs between which tasks do not move; `None` where they do.
fn groups(rule: &Rule) -> Option<Vec<CpuSet>> {
    let size = match rule.spec.scope {
        Scope::Partitioned if !rule.spec.migrates() => 1,
        Scope::Clustered if !rule.spec.migrates() => usize::from(rule.spec.cluster.max(1)),
        _ => return None,
    };
    let cpus: Vec<usize> = rule.cpus.iter().collect();
    Some(cpus.chunks(size).map(|chunk| chunk.iter().copied().collect()).collect())
}
