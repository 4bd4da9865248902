//! The checker: what it knows of tasks and CPUs as it goes through the records.

use super::finding::Finding;
use super::round::Round;
use crate::{Stamped, Trace};
use std::collections::HashMap;
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{BestEffortStart, PartitionId, ResourceId, System, TaskId, Window, WindowTable};
use takt_core::record::{JobId, Outcome, Place, RecordKind};
use takt_core::time::{Span, Time};

/// Checks a trace; without the system only what the trace alone can show. No finding means that no rule is broken.
#[must_use]
pub fn check(trace: &Trace, system: Option<&System>, tolerance: Span) -> Vec<Finding> {
    let mut checker = Checker::new(trace, system, tolerance);
    trace.records.iter().for_each(|record| checker.take(record));
    checker.findings()
}

/// For each task its partition and its place in that partition's order.
fn partitions(system: &System) -> Vec<Option<(PartitionId, usize)>> {
    let mut of = vec![None; system.tasks.len()];
    for (p, partition) in system.partitions.iter().enumerate() {
        for (position, task) in partition.tasks.iter().enumerate() {
            of[task.index()] = Some((PartitionId(p as u32), position));
        }
    }
    of
}

#[derive(Clone, Default)]
pub(super) struct TaskState {
    /// Since when it runs: job, place, instant of carrying out.
    pub(super) running: Option<(JobId, Place, Time)>,
    /// Released jobs that are not over: number, release, whether it has run.
    pub(super) jobs: Vec<(JobId, Time, bool)>,
    pub(super) last_released: Option<JobId>,
    pub(super) last_started: Option<JobId>,
    pub(super) last_finished: Option<(JobId, Time)>,
    /// That job was aborted, and no handler has begun since.
    pub(super) aborted: bool,
    /// The job that found its program at the work of an earlier job, and that one, while it is.
    pub(super) behind: Option<(JobId, JobId)>,
    /// The job whose handler is at work.
    pub(super) handler: Option<JobId>,
    /// The resource for which it waits, and since when.
    pub(super) waits_for: Option<(ResourceId, Time)>,
    pub(super) budget: Option<Grant>,
    /// The sum of what its job was granted, and how many grants that were.
    pub(super) granted: Span,
    pub(super) grants: i64,
}

/// The budget that a job has at present.
#[derive(Clone, Copy)]
pub(super) struct Grant {
    pub(super) job: JobId,
    pub(super) amount: Span,
    pub(super) used: Span,
    /// In how many pieces; each may be carried out late.
    pub(super) pieces: i64,
}

/// The rules that a trace alone can show, or with its system, as [`check`] applies them.
pub struct Checker<'a> {
    pub(super) trace: &'a Trace,
    pub(super) system: Option<&'a System>,
    pub(super) partition_of: Vec<Option<(PartitionId, usize)>>,
    pub(super) labels: Vec<String>,
    pub(super) tolerance: Span,
    pub(super) tasks: Vec<TaskState>,
    /// The task on each CPU, and until when it was last occupied and by which one.
    pub(super) occupied: Vec<Option<TaskId>>,
    pub(super) freed: Vec<Option<(TaskId, Time)>>,
    pub(super) at: Time,
    /// The present window: index, absolute number, its instant.
    pub(super) window: Option<(u32, u64, Time)>,
    pub(super) lost: u64,
    /// The window table that has taken over, if the trace describes it.
    pub(super) table: Option<&'a WindowTable>,
    /// A window table has taken over that the trace does not describe.
    pub(super) unknown_table: bool,
    /// The instant at which a window table has taken over, until its first window begins.
    pub(super) border: Option<Time>,
    /// The tasks that ran when the window changed have not been checked against it yet.
    pub(super) unsettled: bool,
    /// Per partition: the window in which it last started a task, and that task's position.
    pub(super) fifo: Vec<(u64, usize)>,
    /// The partitions that the power policy has kept from starting in this window.
    skipped: Vec<PartitionId>,
    /// The holder of each resource, as far as the trace has it.
    pub(super) owners: HashMap<ResourceId, TaskId>,
    /// The request before closed a cycle, so that the next record must say so.
    pub(super) cycle: Option<(TaskId, ResourceId)>,
    /// The round whose bursts are being told.
    pub(super) round: Option<Round>,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Checker<'a> {
    /// A checker of a trace without its records, which come one after the other.
    #[must_use]
    pub fn new(trace: &'a Trace, system: Option<&'a System>, tolerance: Span) -> Checker<'a> {
        let mut checker = Checker::without_system(trace, tolerance);
        if let Some(system) = system {
            let (n, known) = (trace.header.tasks.iter().filter(|task| !task.added).count(), system.tasks.len());
            if n == known {
                checker.system = Some(system);
                checker.partition_of = partitions(system);
            } else {
                let message = format!("the trace has {n} tasks and the system {known}: they do not belong together");
                checker.findings.push(Finding { at: Time::ZERO, task: None, rule: "system", message });
            }
        }
        checker
    }

    /// The next record.
    pub fn take(&mut self, record: &Stamped) {
        self.at = record.record.at;
        self.before(&record.record.kind);
        self.record(record.record.kind, record.applied);
    }

    /// Ends the check and returns its findings.
    #[must_use]
    pub fn findings(mut self) -> Vec<Finding> {
        self.settle_circle(None);
        self.settle_round();
        self.settle_window();
        if let Some(footer) = self.trace.footer.filter(|footer| footer.dropped > 0) {
            let message = format!("{} records are missing, so other findings may be due to that", footer.dropped);
            self.findings.push(Finding { at: footer.end, task: None, rule: "dropped", message });
        }
        self.findings
    }

    fn without_system(trace: &'a Trace, tolerance: Span) -> Checker<'a> {
        Checker {
            trace,
            system: None,
            partition_of: Vec::new(),
            labels: trace.header.labels(),
            tolerance,
            tasks: vec![TaskState::default(); trace.header.tasks.len()],
            occupied: vec![None; MAX_CPUS],
            freed: vec![None; MAX_CPUS],
            at: Time::ZERO,
            window: None,
            lost: 0,
            table: trace.header.table.and_then(|to| trace.header.tables.get(&to)),
            unknown_table: trace.header.table.is_some_and(|to| !trace.header.tables.contains_key(&to)),
            border: None,
            unsettled: false,
            fifo: Vec::new(),
            owners: HashMap::new(),
            skipped: Vec::new(),
            cycle: None,
            round: None,
            findings: Vec::new(),
        }
    }

    pub(super) fn find(&mut self, task: TaskId, rule: &'static str, message: String) {
        self.findings.push(Finding { at: self.at, task: Some(self.labels[task.index()].clone()), rule, message });
    }

    pub(super) fn name(&self, task: TaskId) -> &str {
        &self.labels[task.index()]
    }

    pub(super) fn cpus(&self, place: Place) -> CpuSet {
        self.trace.header.places[place.index()]
    }

    fn record(&mut self, what: RecordKind, applied: Time) {
        match what {
            RecordKind::Window { window, frame } => self.begin_window(window, frame),
            RecordKind::WindowsLost { count } => self.lost += count,
            RecordKind::Table { to } => self.take_table(to),
            RecordKind::Release { task, job, .. } => self.release(task, job),
            RecordKind::Budget { task, job, amount } => {
                self.use_budget(task, applied);
                // From then on it is unknown how much it may have used in all, so its sum has no end any more.
                let amount = amount.unwrap_or(Span::MAX);
                let state = &mut self.tasks[task.index()];
                let (before, grants) =
                    state.budget.filter(|b| b.job == job).map_or((Span::ZERO, 0), |_| (state.granted, state.grants));
                state.granted = Span::from_ns(before.ns().saturating_add(amount.ns()));
                state.grants = grants + 1;
                state.budget = Some(Grant { job, amount, used: Span::ZERO, pieces: 0 });
            }
            RecordKind::Start { task, job, place } => self.start(task, job, place, applied),
            RecordKind::Stop { task, job, place, .. } => self.stop(task, job, place, applied),
            RecordKind::Finish { task, job, outcome, consumed } => {
                self.finish(task, job, outcome, consumed.nominal_time())
            }
            RecordKind::Handler { task, job, .. } => self.handler(task, job),
            RecordKind::HandlerEnd { task, job, consumed } => self.handler_end(task, job, consumed.nominal_time()),
            RecordKind::Lock { task, resource, granted } => self.request(task, resource, granted),
            RecordKind::Unlock { task, resource } => self.give_back(task, resource),
            RecordKind::Withdraw { task, resource } => self.withdraw(task, resource),
            RecordKind::Round { place, measured, .. } => {
                self.round = Some(Round { at: self.at, place, measured, bursts: Span::ZERO, tasks: Vec::new() });
            }
            RecordKind::Burst { task, measured, .. } => self.burst(task, measured),
            // Whether a deadlock was due has been judged by what came before.
            RecordKind::Deadlock { .. }
            | RecordKind::Switch { .. }
            | RecordKind::Configure { .. }
            | RecordKind::Call { .. }
            | RecordKind::Block { .. }
            | RecordKind::Wake { .. }
            | RecordKind::Yield { .. }
            | RecordKind::Lost { .. }
            | RecordKind::Frequency { .. }
            | RecordKind::IdleLatency { .. }
            | RecordKind::Temperature { .. }
            | RecordKind::Exit { .. } => {}
            RecordKind::StartSkipped { partition, .. } => self.skipped.push(partition),
            RecordKind::Behind { task, job, abandoned } => self.tasks[task.index()].behind = Some((job, abandoned)),
            RecordKind::LateSignal { task, job } => {
                let behind = &mut self.tasks[task.index()].behind;
                *behind = behind.filter(|(_, abandoned)| *abandoned != job);
            }
        }
    }

    /// Settles what only the next record can show.
    fn before(&mut self, next: &RecordKind) {
        let deadlock = match *next {
            RecordKind::Deadlock { task, resource } => Some((task, resource)),
            _ => None,
        };
        self.settle_circle(deadlock);
        if !matches!(next, RecordKind::Burst { .. }) {
            self.settle_round();
        }
    }

    fn release(&mut self, task: TaskId, job: JobId) {
        let at = self.at;
        let state = &mut self.tasks[task.index()];
        let last = state.last_released.replace(job);
        state.jobs.push((job, at, false));
        if let Some(last) = last.filter(|l| *l >= job) {
            self.find(task, "release", format!("job {job} is released after job {last}"));
        }
    }

    fn start(&mut self, task: TaskId, job: JobId, place: Place, applied: Time) {
        let header = &self.trace.header;
        let own = header.tasks[task.index()].partition.as_ref();
        if self.skipped.iter().any(|skipped| header.partitions.get(skipped.index()) == own && own.is_some()) {
            self.find(task, "skipped-start", "it starts although its partition was skipped in this window".to_owned());
        }
        if self.window.is_some_and(|(_, _, since)| self.at > since) {
            self.settle_window();
        }
        if let Some((before, at_place, _)) = self.tasks[task.index()].running {
            let place = self.cpus(at_place);
            self.find(task, "alternation", format!("job {job} starts while job {before} still runs on {place}"));
            self.leave(task);
        }
        let at = self.at;
        if let Some((resource, _)) = self.tasks[task.index()].waits_for {
            let name = self.trace.header.resource(resource);
            self.find(task, "resource", format!("job {job} starts while it waits for {name}"));
        }
        let state = &mut self.tasks[task.index()];
        let in_handler = state.handler;
        let earlier = state.jobs.iter().filter(|(number, _, _)| *number < job).map(|(number, _, _)| *number).min();
        let known = state.jobs.iter_mut().find(|(number, _, _)| *number == job).map(|known| {
            known.2 = true;
            known.1
        });
        let last_started = state.last_started.replace(job);
        let last_finished = state.last_finished;
        match known {
            _ if in_handler == Some(job) => {}
            Some(release) if release > at => {
                self.find(task, "release", format!("job {job} starts before its release at {release}"));
            }
            Some(_) => {}
            None if last_finished.is_some_and(|(last, _)| last >= job) => {
                self.find(task, "job-order", format!("job {job} starts although it is over"));
            }
            None => self.find(task, "release", format!("job {job} starts without having been released")),
        }
        if let Some(aborted) = in_handler.filter(|h| *h != job) {
            self.find(task, "job-order", format!("job {job} starts before the handler of job {aborted} is over"));
        } else if let Some(earlier) = earlier {
            self.find(task, "job-order", format!("job {job} starts before job {earlier} is over"));
        } else if let Some(last) = last_started.filter(|l| *l > job) {
            self.find(task, "job-order", format!("job {job} starts after job {last}"));
        }
        let set = self.cpus(place);
        let mut reported = None;
        for cpu in set.iter() {
            let message = match (self.occupied[cpu], self.freed[cpu]) {
                (Some(other), _) if other != task => Some((other, format!("on which {} runs", self.name(other)))),
                (_, Some((other, until))) if other != task && until - applied > self.tolerance => {
                    Some((other, format!("which {} left only {} later", self.name(other), until - applied)))
                }
                _ => None,
            };
            // One finding per pair of tasks and not one per CPU.
            if let Some((other, message)) = message.filter(|(other, _)| reported != Some(*other)) {
                reported = Some(other);
                self.find(task, "overlap", format!("job {job} starts on CPU {cpu}, {message}"));
            }
            self.occupied[cpu] = Some(task);
        }
        self.start_in_system(task, job, set);
        self.tasks[task.index()].running = Some((job, place, applied));
    }

    fn start_in_system(&mut self, task: TaskId, job: JobId, set: CpuSet) {
        let Some(system) = self.system else { return };
        if system.windows.is_empty() {
            let affinity = system.tasks.get(task.index()).map(|task| task.affinity);
            if !set.is_subset(&system.cpus) || affinity.is_some_and(|affinity| set.is_disjoint(&affinity)) {
                self.find(task, "affinity", format!("job {job} starts on {set}, where it may not run"));
            }
            return;
        }
        if self.unknown_table {
            return;
        }
        let (Some((window, number, _)), Some((partition, position))) =
            (self.window, self.partition_of.get(task.index()).copied().flatten())
        else {
            self.find(task, "window", format!("job {job} starts outside of any window of its own"));
            return;
        };
        let windows = self.windows(system);
        let be_start = self.table.map_or(system.be_start, |table| table.be_start);
        let Some(sc) = role(windows, window, partition, &set) else {
            self.find(task, "window", format!("job {job} starts on {set} in window {window}, which is not its own"));
            return;
        };
        let peers = &system.partitions[partition.index()];
        if peers.policy.is_none() {
            let runs = |t: &&TaskId| **t != task && self.tasks[t.index()].running.is_some();
            if let Some(peer) = peers.tasks.iter().find(runs) {
                let message = format!("job {job} starts while {} of the same partition runs", self.name(*peer));
                self.find(task, "fifo", message);
            }
            self.fifo.resize(system.partitions.len(), (u64::MAX, 0));
            let last = std::mem::replace(&mut self.fifo[partition.index()], (number, position));
            if sc && last.0 == number && last.1 > position {
                let before = self.name(peers.tasks[last.1]).to_string();
                self.find(task, "fifo", format!("job {job} starts after {before}, which comes later in the partition"));
            }
        }
        if !sc && be_start == BestEffortStart::AllDone {
            let critical = |t: &usize| {
                let place = self.tasks[*t].running.map(|(_, place, _)| self.cpus(place));
                let own = self.partition_of.get(*t).copied().flatten().map(|(p, _)| p);
                *t != task.index()
                    && own.zip(place).is_some_and(|(p, set)| role(windows, window, p, &set) == Some(true))
            };
            if let Some(other) = (0..self.tasks.len()).find(critical) {
                let message = format!("best-effort job {job} starts while safety-critical {} runs", self.labels[other]);
                self.find(task, "best-effort", message);
            }
        }
    }

    fn leave(&mut self, task: TaskId) {
        if let Some((_, place, _)) = self.tasks[task.index()].running.take() {
            for cpu in self.cpus(place).iter() {
                self.occupied[cpu].take_if(|owner| *owner == task);
            }
        }
    }

    fn stop(&mut self, task: TaskId, job: JobId, place: Place, applied: Time) {
        let Some((started, at_place, since)) = self.tasks[task.index()].running else {
            self.find(task, "alternation", format!("job {job} stops without running"));
            return;
        };
        if (started, at_place) != (job, place) {
            let (was, is) = (self.cpus(at_place), self.cpus(place));
            let message = format!("job {job} stops on {is}, but job {started} was started on {was}");
            self.find(task, "alternation", message);
        }
        if applied < since {
            self.find(task, "alternation", format!("job {job} stops {} before its start", since - applied));
        }
        self.waited(task);
        let at = self.at;
        let state = &self.tasks[task.index()];
        let in_handler = state.handler == Some(started);
        let over = state.last_finished.filter(|(over, end)| *over == started && at > *end && !in_handler);
        if let Some((over, end)) = over {
            self.find(task, "job-order", format!("job {over} runs on {} after its end", at - end));
        }
        if let (Some((window, _, since)), true) = (self.window, self.in_windows()) {
            let late = applied - since;
            if self.at <= since && late > self.tolerance && !self.belongs(task, at_place) {
                let message =
                    format!("job {job} leaves {late} after the start of window {window}, which is not its own");
                self.find(task, "window", message);
            } else if self.at > since {
                self.settle_window();
            }
        }
        self.use_budget(task, applied);
        for cpu in self.cpus(at_place).iter() {
            self.freed[cpu] = Some((task, applied));
        }
        self.leave(task);
    }

    /// Adds to what is used of a budget the time up to `now`, and judges it.
    fn use_budget(&mut self, task: TaskId, now: Time) {
        let state = &mut self.tasks[task.index()];
        let (Some((job, place, since)), Some(grant)) = (state.running, &mut state.budget) else { return };
        state.running = Some((job, place, since.max(now)));
        if job != grant.job {
            return;
        }
        grant.used += (now - since).or_zero();
        grant.pieces += 1;
        let Grant { amount, used, pieces, .. } = *grant;
        let allowed = Span::from_ns(self.slack().ns().saturating_mul(pieces));
        if self.elapsed_budget(task) && used - amount > allowed {
            let over = used - amount;
            self.find(task, "budget", format!("job {job} has run {used}, {over} more than its budget of {amount}"));
        }
    }

    /// How late the end of a budget may be noticed: by the tolerance, and by what the system says of its timer.
    fn slack(&self) -> Span {
        let timing = self.system.map(|s| s.timing.resolution + s.timing.lateness);
        timing.map_or(self.tolerance, |late| self.tolerance + late)
    }

    /// Whether the task's budget counts elapsed time: in a window table under `fifo`, and in a simulation, where CPU
    /// time passes as fast. Elsewhere a real task uses less CPU time than passes, and only its meter can tell.
    fn elapsed_budget(&self, task: TaskId) -> bool {
        let fifo = match (self.system, self.partition_of.get(task.index())) {
            (Some(system), Some(Some((p, _)))) => self.in_windows() && system.partitions[p.index()].policy.is_none(),
            (Some(_), _) => false,
            (None, _) => !self.trace.header.window_lengths.is_empty(),
        };
        fifo || self.trace.header.source == "sim"
    }

    fn finish(&mut self, task: TaskId, job: JobId, outcome: Outcome, consumed: Span) {
        let at = self.at;
        let state = &mut self.tasks[task.index()];
        let known = state.jobs.iter().position(|(number, _, _)| *number == job).map(|i| state.jobs.remove(i));
        if outcome != Outcome::Skipped {
            state.last_finished = Some((job, at));
            state.aborted = outcome == Outcome::Aborted;
        }
        let behind = if outcome == Outcome::Skipped { None } else { self.tasks[task.index()].behind.take() };
        if let Some((_, abandoned)) = behind.filter(|_| outcome == Outcome::Completed) {
            let message = format!("job {job} completes while its program is still at the work of job {abandoned}");
            self.find(task, "behind", message);
        }
        match known {
            None => self.find(task, "finish", format!("job {job} ends without having been released, or twice")),
            Some((_, release, _)) if release > at => {
                self.find(task, "release", format!("job {job} ends before its release at {release}"));
            }
            Some((_, _, false)) if matches!(outcome, Outcome::Completed | Outcome::BudgetUsed) => {
                self.find(task, "finish", format!("job {job} ends as done without having run"));
            }
            Some(_) => {}
        }
        if outcome != Outcome::Skipped {
            self.waited(task);
            self.tasks[task.index()].waits_for = None;
        }
        self.judge_budget(task, job, consumed);
    }

    pub(super) fn judge_budget(&mut self, task: TaskId, job: JobId, consumed: Span) {
        let state = &self.tasks[task.index()];
        let granted = state.budget.filter(|b| b.job == job).map(|_| state.granted);
        let slack = self.slack().ns().saturating_mul(state.grants);
        if let Some(granted) = granted.filter(|g| (consumed - *g).ns() > slack) {
            let message = format!("job {job} has consumed {consumed} of the {granted} it was granted");
            self.find(task, "budget", message);
        }
    }

    fn lengths(&self) -> Vec<Span> {
        match self.system {
            _ if self.unknown_table => Vec::new(),
            _ if let Some(table) = self.table => table.windows.iter().map(|w| w.length).collect(),
            Some(system) if !system.windows.is_empty() => system.windows.iter().map(|w| w.length).collect(),
            _ => self.trace.header.window_lengths.clone(),
        }
    }

    /// Another window table takes over: at the end of a major frame, as far as windows have been seen.
    fn take_table(&mut self, to: u16) {
        self.settle_window();
        let (lengths, at) = (self.lengths(), self.at);
        if let (Some((window, _, since)), 0) = (self.window, self.lost)
            && let Some(length) = lengths.get(window as usize)
        {
            let late = at - (since + *length);
            if window as usize + 1 != lengths.len() || late.ns().abs() > self.tolerance.ns() {
                let message = format!("window table {to} takes over in window {window}, {late} after the end of that");
                self.findings.push(Finding { at, task: None, rule: "window-order", message });
            }
        }
        self.table = self.trace.header.tables.get(&to);
        self.unknown_table = self.table.is_none();
        (self.window, self.lost, self.border) = (None, 0, Some(at));
    }

    /// The windows that hold.
    fn windows<'s>(&self, system: &'s System) -> &'s [Window]
    where
        'a: 's,
    {
        self.table.map_or(&system.windows, |table| &table.windows)
    }

    fn begin_window(&mut self, window: u32, frame: u64) {
        self.skipped.clear();
        self.settle_window();
        let lengths = self.lengths();
        let border = self.border.take();
        let (n, lost, at) = (lengths.len() as u64, std::mem::take(&mut self.lost), self.at);
        let tolerance = self.tolerance;
        let mut wrong = |message| {
            self.findings.push(Finding { at, task: None, rule: "window-order", message });
        };
        if n == 0 {
            return;
        }
        if u64::from(window) >= n {
            wrong(format!("there is no window {window}"));
            return;
        }
        let number = frame * n + u64::from(window);
        if let Some(border) = border.filter(|_| lost == 0)
            && (window != 0 || (at - border).ns().abs() > tolerance.ns())
        {
            wrong(format!(
                "window {window} of frame {frame} begins {} after its window table has taken over",
                at - border
            ));
        }
        if let Some((_, before, since)) = self.window {
            let expected = before + 1 + lost;
            if number != expected {
                let (w, f) = (expected % n, expected / n);
                wrong(format!("window {window} of frame {frame} begins where window {w} of frame {f} was due"));
            } else {
                let due = (before..number).fold(since, |t, w| t + lengths[(w % n) as usize]);
                if (at - due).ns().abs() > tolerance.ns() {
                    wrong(format!("window {window} of frame {frame} begins {} from where it was due", at - due));
                }
            }
        }
        self.window = Some((window, number, at));
        self.unsettled = true;
    }

    fn in_windows(&self) -> bool {
        self.system.is_some_and(|s| !s.windows.is_empty())
    }

    /// Whether the present window gives the task the CPUs of the place.
    fn belongs(&self, task: TaskId, place: Place) -> bool {
        let (Some(system), Some((window, _, _))) = (self.system, self.window) else { return true };
        let set = self.cpus(place);
        self.partition_of
            .get(task.index())
            .copied()
            .flatten()
            .is_some_and(|(p, _)| role(self.windows(system), window, p, &set).is_some())
    }

    /// After all records of a window's first instant: who still runs must belong there.
    fn settle_window(&mut self) {
        if !std::mem::take(&mut self.unsettled) || !self.in_windows() {
            return;
        }
        let Some((window, _, since)) = self.window else { return };
        for index in 0..self.tasks.len() {
            let task = TaskId(index as u32);
            if let Some((job, place, _)) = self.tasks[index].running
                && !self.belongs(task, place)
            {
                let set = self.cpus(place);
                let message = format!("job {job} runs on into window {window} on {set}, which is not its own there");
                self.findings.push(Finding {
                    at: since,
                    task: Some(self.labels[index].clone()),
                    rule: "window",
                    message,
                });
            }
        }
    }
}

/// Whether the partition may run on `set` in the window; `true` inside: as the safety-critical one.
fn role(windows: &[Window], window: u32, partition: PartitionId, set: &CpuSet) -> Option<bool> {
    let slices = &windows.get(window as usize)?.slices;
    let own = slices.iter().find(|s| [s.sc, s.be].contains(&Some(partition)) && set.is_subset(&s.cpus))?;
    Some(own.sc == Some(partition))
}
