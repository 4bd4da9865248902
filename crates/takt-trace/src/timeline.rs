//! The records of a trace put together: who ran where from when to when, and the life of each job.

use crate::table::Work;
use crate::{Header, TaskLabel, Trace, names};
use takt_core::model::{Call, Completion, PartitionId, PolicySpec, ResourceId, TaskId};
use takt_core::record::{JobId, Outcome, Place, RecordKind, StopReason};
use takt_core::time::{Span, Time};

/// A value of a frequency domain or a thermal zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was recorded.
    pub at: Time,
    /// Index of the domain or zone.
    pub of: u16,
    /// The value.
    pub value: i64,
}

/// A job on its CPUs without a break. Times are those of carrying out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The task.
    pub task: TaskId,
    /// Which.
    pub job: JobId,
    /// Where.
    pub place: Place,
    /// Its start.
    pub from: Time,
    /// Its stop, or the end of the trace.
    pub to: Time,
    /// Why it left; `None` when it still ran at the end of the trace.
    pub reason: Option<StopReason>,
    /// It ran the handler of its job, which had been aborted.
    pub handler: bool,
}

/// The handler of an aborted job, in the engine's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler {
    /// When the job was aborted.
    pub from: Time,
    /// Its own absolute deadline.
    pub deadline: Option<Time>,
    /// Its end, if the trace has it.
    pub end: Option<Time>,
}

/// A job that waits for something other than a CPU. Times are those of carrying out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task.
    pub task: TaskId,
    /// The resource that it waits for; `None` when it sleeps or waits for something that the trace does not know.
    pub resource: Option<ResourceId>,
    /// When it blocked.
    pub from: Time,
    /// When it could continue or was over, or the end of the trace.
    pub to: Time,
}

/// A task that holds a resource. Times are those of carrying out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The task.
    pub task: TaskId,
    /// The resource that it holds.
    pub resource: ResourceId,
    /// When it got it.
    pub from: Time,
    /// When it gave it back, or the end of the trace.
    pub to: Time,
}

/// The life of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The task.
    pub task: TaskId,
    /// Its number.
    pub number: JobId,
    /// Its release.
    pub release: Time,
    /// Its absolute deadline.
    pub deadline: Option<Time>,
    /// When and how it ended, in the engine's time.
    pub finish: Option<(Time, Outcome)>,
    /// The remaining work when it had been aborted.
    pub handler: Option<Handler>,
    /// In a window table: this activation of a process that signals its completions ended without the signal.
    pub cut_off: bool,
    /// In a window table: the activation in which the work began that this one continues, because activations before it were cut off.
    pub continues: Option<JobId>,
}

impl Job {
    /// Up to when the task was busy with it or with its handler; `None` when that was not over.
    #[must_use]
    pub fn over(&self) -> Option<Time> {
        self.handler.map_or(self.finish.map(|(at, _)| at), |h| h.end)
    }

    /// Whether it had passed its deadline unfinished by `end`, was cut off, or was skipped. A job in which its program ended
    /// regularly before that counts as none.
    #[must_use]
    pub fn missed(&self, end: Time) -> bool {
        match self.finish {
            _ if self.cut_off => true,
            Some((_, Outcome::Overrun | Outcome::Aborted | Outcome::Skipped)) => true,
            Some((at, _)) => self.deadline.is_some_and(|d| at > d),
            None => self.deadline.is_some_and(|d| d <= end),
        }
    }
}

/// The time in which a process of a window table continues a job that was cut off. Times are those of carrying out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The task.
    pub task: TaskId,
    /// When its activation was cut off.
    pub from: Time,
    /// When the job was over, or the end of the trace.
    pub to: Time,
}

/// One window as it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpan {
    /// Index in the major frame.
    pub window: u32,
    /// Number of the major frame.
    pub frame: u64,
    /// Its start.
    pub from: Time,
    /// The start of the next one, or the end of the trace.
    pub to: Time,
}

/// A policy that another one took over from, or the same with another setting. Times are those of carrying out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// When.
    pub at: Time,
    /// The name of the domain; `None` is the whole system.
    pub domain: Option<String>,
    /// The policy before, as the command line takes it.
    pub from: String,
    /// The policy since then.
    pub to: String,
}

/// `left: g-edf → g-gua`.
impl std::fmt::Display for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(domain) = &self.domain {
            write!(f, "{domain}: ")?;
        }
        write!(f, "{} → {}", self.from, self.to)
    }
}

/// The name of the policy of the system, or of a domain, in the course of a trace.
#[derive(Clone, Debug)]
pub struct Policies {
    alternatives: Vec<String>,
    /// The window table.
    table: String,
    /// The system's, then each domain's by its name.
    now: Vec<(Option<String>, String)>,
}

impl Policies {
    /// Those at the start.
    #[must_use]
    pub fn of(header: &Header) -> Policies {
        let settings = if header.settings.is_empty() { String::new() } else { format!(":{}", header.settings) };
        let mut now = vec![(None, header.policy_name() + &settings)];
        now.extend(header.domains.iter().map(|d| (Some(d.name.clone()), d.policy.clone())));
        Policies { alternatives: header.alternatives.clone(), table: "first table".into(), now }
    }

    /// The policy of the whole system, as it is now.
    #[must_use]
    pub fn system(&self) -> &str {
        &self.now[0].1
    }

    /// Gives an alternative another name; false if none has this one.
    pub(crate) fn rename(&mut self, before: &str, name: &str) -> bool {
        let named = self.alternatives.iter_mut().find(|alternative| *alternative == before);
        let Some(alternative) = named else { return false };
        name.clone_into(alternative);
        self.now.iter_mut().filter(|(_, policy)| policy == before).for_each(|(_, policy)| name.clone_into(policy));
        true
    }

    /// Gives a header the policies as they are now, for a file whose first record comes at this moment.
    pub fn head(&self, header: &mut Header) {
        let (name, settings) = self.now[0].1.split_once(':').unwrap_or((&self.now[0].1, ""));
        // A policy that the registry does not have keeps the scope of the one before.
        match PolicySpec::from_name(name) {
            Some(spec) => {
                header.policy = spec.profile.name.into();
                header.scope = spec.scope.name().into();
            }
            None => header.policy = name.into(),
        }
        header.settings = settings.into();
        for (domain, (_, policy)) in header.domains.iter_mut().zip(&self.now[1..]) {
            domain.policy.clone_from(policy);
        }
    }

    /// Follows a [`RecordKind::Switch`]. Numbers that the header does not know become words.
    pub fn switch(&mut self, at: Time, domain: Option<u16>, to: u16) -> Switch {
        let to = self.alternatives.get(usize::from(to)).cloned().unwrap_or_else(|| format!("policy {to}"));
        match self.now.get_mut(domain.map_or(0, |d| usize::from(d) + 1)) {
            Some((name, policy)) => {
                Switch { at, domain: name.clone(), from: std::mem::replace(policy, to.clone()), to }
            }
            None => Switch { at, domain: domain.map(|d| format!("domain {d}")), from: "?".into(), to },
        }
    }

    /// Follows a [`RecordKind::Table`]. Tables have numbers, and no names.
    pub fn table(&mut self, at: Time, to: u16) -> Switch {
        let to = format!("table {to}");
        Switch { at, domain: Some("windows".into()), from: std::mem::replace(&mut self.table, to.clone()), to }
    }

    /// Follows a [`RecordKind::Configure`]: the system's policy with another setting, or without it when that is at its default again.
    pub fn configure(&mut self, at: Time, setting: u8, value: Option<i64>) -> Switch {
        let policy = &mut self.now[0].1;
        let (name, settings) = policy.split_once(':').unwrap_or((policy, ""));
        let known = PolicySpec::from_name(name).and_then(|p| p.profile.settings.get(usize::from(setting)));
        let key = known.map_or_else(|| format!("setting {setting}"), |s| s.name.into());
        let said = value.map(|v| known.map_or_else(|| v.to_string(), |s| names::setting(s, v)));
        let others = settings.split(',').filter(|s| !s.is_empty() && s.split('=').next() != Some(&key));
        let new = said.map(|value| format!("{key}={value}"));
        let all = others.map(String::from).chain(new).collect::<Vec<_>>().join(",");
        let to = if all.is_empty() { name.into() } else { format!("{name}:{all}") };
        Switch { at, domain: None, from: std::mem::replace(policy, to.clone()), to }
    }
}

/// A call by which a job asked for other terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When.
    pub at: Time,
    /// The task whose job it was.
    pub task: TaskId,
    /// Which.
    pub job: JobId,
    /// The resource that it requested.
    pub call: Call,
    /// Whether it got it.
    pub granted: bool,
}

/// `set-period 50ms`, or `set-period 50ms refused`.
impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, span) = self.call.parts();
        write!(f, "{name} {span}{}", if self.granted { "" } else { " refused" })
    }
}

/// A budget that a job is granted, in place of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// When it was granted.
    pub at: Time,
    /// The job's task.
    pub task: TaskId,
    /// The job's number.
    pub job: JobId,
    /// The amount; `None` where nothing limits the job from then on.
    pub amount: Option<Span>,
}

/// A trace as intervals and jobs.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// In the order of their starts as recorded.
    pub intervals: Vec<Interval>,
    /// Per task in the order of release.
    pub jobs: Vec<Vec<Job>>,
    /// In their order.
    pub windows: Vec<WindowSpan>,
    /// In the order of their starts.
    pub waits: Vec<Wait>,
    /// In the order of their starts.
    pub holds: Vec<Hold>,
    /// By task, in their order.
    pub overdue: Vec<Overdue>,
    /// In their order.
    pub grants: Vec<Grant>,
    /// In their order.
    pub switches: Vec<Switch>,
    /// In their order.
    pub calls: Vec<Asked>,
    /// Frequencies in kilohertz, by domain, as they were requested.
    pub frequencies: Vec<Sample>,
    /// Valid temperatures in thousandths of a degree Celsius, by zone.
    pub temperatures: Vec<Sample>,
    /// Best-effort partitions that did not start in their window, since the power policy forbade it.
    pub skipped: Vec<(Time, PartitionId)>,
    /// The end of the trace.
    pub end: Time,
}

impl Timeline {
    /// Puts a trace together. Contradictions (a stop without a start) are passed over: finding them is the business of [`crate::check`].
    #[must_use]
    pub fn of(trace: &Trace) -> Timeline {
        let end = trace.end();
        let n = trace.header.tasks.len();
        let mut line = Timeline { jobs: vec![Vec::new(); n], end, ..Timeline::default() };
        let mut running: Vec<Option<usize>> = vec![None; n];
        let mut waiting: Vec<Option<usize>> = vec![None; n];
        let mut asked: Vec<Option<ResourceId>> = vec![None; n];
        let mut in_handler = vec![false; n];
        let mut policies = Policies::of(&trace.header);
        for r in &trace.records {
            match r.record.kind {
                RecordKind::Window { window, frame } => {
                    if let Some(before) = line.windows.last_mut() {
                        before.to = r.applied;
                    }
                    line.windows.push(WindowSpan { window, frame, from: r.applied, to: end.max(r.applied) });
                }
                RecordKind::Release { task, job, deadline } => {
                    let release = r.record.at;
                    line.jobs[task.index()].push(Job {
                        task,
                        number: job,
                        release,
                        deadline,
                        finish: None,
                        handler: None,
                        cut_off: false,
                        continues: None,
                    });
                }
                RecordKind::Finish { task, job, outcome, .. } => {
                    if let Some(job) = line.job_mut(task, job) {
                        job.finish = Some((r.record.at, outcome));
                    }
                    if outcome != Outcome::Skipped {
                        asked[task.index()] = None;
                        line.end_wait(&mut waiting[task.index()], r.applied);
                    }
                }
                RecordKind::Handler { task, job, deadline } => {
                    in_handler[task.index()] = true;
                    if let Some(job) = line.job_mut(task, job) {
                        job.handler = Some(Handler { from: r.record.at, deadline, end: None });
                    }
                }
                RecordKind::HandlerEnd { task, job, .. } => {
                    in_handler[task.index()] = false;
                    line.end_wait(&mut waiting[task.index()], r.applied);
                    if let Some(handler) = line.job_mut(task, job).and_then(|j| j.handler.as_mut()) {
                        handler.end = Some(r.record.at);
                    }
                }
                RecordKind::Block { task, .. } => {
                    waiting[task.index()] = Some(line.waits.len());
                    let (resource, from) = (asked[task.index()], r.applied);
                    line.waits.push(Wait { task, resource, from, to: end.max(from) });
                }
                RecordKind::Wake { task, .. } => line.end_wait(&mut waiting[task.index()], r.applied),
                RecordKind::Lock { task, resource, granted } => {
                    asked[task.index()] = (!granted).then_some(resource);
                    if granted {
                        let (from, to) = (r.applied, end.max(r.applied));
                        line.holds.push(Hold { task, resource, from, to });
                    }
                }
                RecordKind::Unlock { task, resource } => {
                    let held = |h: &&mut Hold| (h.task, h.resource) == (task, resource);
                    if let Some(hold) = line.holds.iter_mut().rev().find(held) {
                        hold.to = r.applied.max(hold.from);
                    }
                }
                RecordKind::Withdraw { task, .. } => asked[task.index()] = None,
                RecordKind::Start { task, job, place } => {
                    running[task.index()] = Some(line.intervals.len());
                    let (from, to) = (r.applied, end.max(r.applied));
                    let handler = in_handler[task.index()];
                    line.intervals.push(Interval { task, job, place, from, to, reason: None, handler });
                }
                RecordKind::Stop { task, reason, .. } => {
                    if let Some(index) = running[task.index()].take() {
                        let interval = &mut line.intervals[index];
                        interval.to = r.applied.max(interval.from);
                        interval.reason = Some(reason);
                    }
                }
                RecordKind::Switch { domain, to } => line.switches.push(policies.switch(r.applied, domain, to)),
                RecordKind::Configure { setting, value } => {
                    line.switches.push(policies.configure(r.applied, setting, value));
                }
                RecordKind::Call { task, job, call, granted } => {
                    line.calls.push(Asked { at: r.applied, task, job, call, granted });
                }
                RecordKind::Table { to } => line.switches.push(policies.table(r.applied, to)),
                RecordKind::WindowsLost { .. }
                | RecordKind::Yield { .. }
                | RecordKind::Deadlock { .. }
                | RecordKind::Round { .. }
                | RecordKind::Burst { .. }
                | RecordKind::LateSignal { .. }
                | RecordKind::Lost { .. }
                | RecordKind::Behind { .. }
                | RecordKind::IdleLatency { .. }
                | RecordKind::Temperature { millidegrees: None, .. }
                | RecordKind::Exit { .. } => {}
                RecordKind::Budget { task, job, amount } => {
                    line.grants.push(Grant { at: r.applied, task, job, amount })
                }
                RecordKind::Frequency { domain, khz } => {
                    line.frequencies.push(Sample { at: r.applied, of: domain, value: khz.into() });
                }
                RecordKind::Temperature { zone, millidegrees: Some(value) } => {
                    line.temperatures.push(Sample { at: r.applied, of: zone, value: value.into() });
                }
                RecordKind::StartSkipped { partition, .. } => line.skipped.push((r.applied, partition)),
            }
        }
        line.note_cut_off(trace);
        line
    }

    /// Marks the activations that were cut off, and the activations that continue their work. A process may show only by its first signal that it signals completions.
    fn note_cut_off(&mut self, trace: &Trace) {
        let mut signalled = vec![false; self.jobs.len()];
        for r in &trace.records {
            if let RecordKind::Finish { task, outcome: Outcome::Completed, .. } | RecordKind::LateSignal { task, .. } =
                r.record.kind
            {
                signalled[task.index()] = true;
            }
        }
        let declared = |label: &TaskLabel| matches!(label.completion, Some(Completion::Signal | Completion::Exit));
        let labels = trace.header.tasks.iter().zip(signalled);
        let signals: Vec<bool> =
            labels.map(|(label, signalled)| declared(label) || (signalled && label.completion.is_some())).collect();
        for (jobs, signals) in self.jobs.iter_mut().zip(&signals) {
            for job in jobs.iter_mut().filter(|_| *signals) {
                job.cut_off = matches!(job.finish, Some((_, Outcome::BudgetUsed | Outcome::Overrun)));
            }
        }
        let mut works = vec![Work::default(); self.jobs.len()];
        for r in &trace.records {
            let Some(task) = crate::jsonl::split(&r.record.kind).1.filter(|task| signals[*task]) else { continue };
            if let Some((job, first)) = works[task].record(&r.record.kind)
                && let Some(job) = self.job_mut(TaskId(task as u32), job)
            {
                job.continues = first;
            }
        }
        self.note_overdue(trace);
    }

    /// Notes when processes continue jobs that were cut off.
    fn note_overdue(&mut self, trace: &Trace) {
        let signals: Vec<bool> = self.jobs.iter().map(|jobs| jobs.iter().any(|job| job.cut_off)).collect();
        let mut since: Vec<Option<Time>> = vec![None; signals.len()];
        for r in &trace.records {
            let (task, is_cut) = match r.record.kind {
                RecordKind::Finish { task, outcome, .. } => {
                    (task, matches!(outcome, Outcome::BudgetUsed | Outcome::Overrun))
                }
                RecordKind::LateSignal { task, .. } | RecordKind::Exit { task, .. } => (task, false),
                _ => continue,
            };
            if !signals[task.index()] {
                continue;
            }
            let since = &mut since[task.index()];
            if is_cut {
                since.get_or_insert(r.applied);
            } else if let Some(from) = since.take() {
                self.overdue.push(Overdue { task, from, to: r.applied.max(from) });
            }
        }
        let open = (0..).zip(since).filter_map(|(task, from)| Some((TaskId(task), from?)));
        self.overdue.extend(open.map(|(task, from)| Overdue { task, from, to: self.end.max(from) }));
        self.overdue.sort_by_key(|overdue| overdue.task);
    }

    fn end_wait(&mut self, waiting: &mut Option<usize>, at: Time) {
        if let Some(index) = waiting.take() {
            let wait = &mut self.waits[index];
            wait.to = at.max(wait.from);
        }
    }

    fn job_mut(&mut self, task: TaskId, number: JobId) -> Option<&mut Job> {
        let jobs = &mut self.jobs[task.index()];
        let index = jobs.binary_search_by_key(&number, |j| j.number).ok()?;
        Some(&mut jobs[index])
    }
}
