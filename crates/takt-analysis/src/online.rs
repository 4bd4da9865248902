//! Schedulability of a system under its online policy.

use crate::accrual::{as_declared, by_utility, is_global_edf, sheds};
use crate::global::global;
use crate::idle;
use crate::parts;
use crate::reservation;
use crate::servers;
use crate::split;
use crate::uniprocessor::{self, Demand, Finding, Rules, Test};
use crate::utilisation::Utilisation;
use std::fmt;
use takt_core::model::{
    Arrival, Backlog, Completion, CpuTest, Execution, Locking, Scope, Step, System, Task, TaskId, Timing,
};
use takt_core::policies::scope;
use takt_core::policy::{Build, Registry};
use takt_core::time::{Span, Time};

/// Whether every deadline is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Every one.
    Yes,
    /// At least one is missed, if sporadic jobs come as densely as they may.
    No,
    /// The test does not say.
    Unknown,
}

/// What a test can prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Both yes and no.
    Exact,
    /// Only yes.
    Sufficient,
    /// Only no.
    Necessary,
    /// Nothing: no test applies.
    Nothing,
}

impl Kind {
    /// What is left where a no is no proof any more, or a yes holds for other reasons besides.
    #[must_use]
    pub fn weakened(self) -> Kind {
        if self == Kind::Exact { Kind::Sufficient } else { self }
    }
}

/// What a test found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The answer.
    pub schedulable: Answer,
    /// The test that gave it: `edf`, `np-edf`, `edf-wm`, `edf-cd`, `edf-wmr`, `rta` (response-time analysis), `reservation`
    /// (shares of servers), `busy-period`, `gfb`, `bcl`, `bak`, `gedf-rta`, `grm-rta`, `gdm-rta`, `gfp-rta`, `optimal`,
    /// `utilisation`, `budget` (no job is done within it), `completion` (no job completes), `one-cpu-each`, `no-deadlines`; `domains` where those of domains
    /// differ; `none` where no test applies.
    pub test: &'static str,
    /// What that test can prove.
    pub kind: Kind,
    /// The ground of the answer in plain words.
    pub reason: String,
    /// Sum of runtime over period of the tasks that have both.
    pub utilisation: Utilisation,
    /// Least common multiple of the periods; `None` when it does not fit.
    pub hyperperiod: Option<Span>,
    /// Bound of each task's response time, where the test gives one.
    pub responses: Vec<Option<Span>>,
    /// Whether a tenth of the time is left idle: of each CPU under a partitioned policy, of all together otherwise.
    /// False when a runtime is not known ([`crate::idle::obstacle`]).
    pub idle_10_percent: bool,
}

/// Tests the system under its policy with the strongest test there is for it.
///
/// What jobs really need (`steps`, `execution`) counts, not what they declare. Sporadic jobs are taken to come as densely as they
/// may; a `no` says then that a deadline can be missed, and not that it is. What a machine costs and what happens to it
/// ([`takt_core::scenario::Scenario`]) is not known here. Under a load that changes, its highest counts. Domains are judged one by
/// one ([`crate::parts::verdicts`]), and the answer is that of the worst.
#[must_use]
pub fn verdict(system: &System) -> Verdict {
    match &system.load {
        Some(load) => parts::loaded(system, load),
        None => packed_as(system, system),
    }
}

/// The verdict about a system without a load, whose tasks are placed on CPUs as those of `declared` are.
pub(crate) fn packed_as(system: &System, declared: &System) -> Verdict {
    let dated = |t: &Task| t.deadline.is_some() || t.budget.is_some();
    match servers::ranking(&system.policy) {
        Some(by) if system.tasks.iter().any(dated) && endless(system, ids(system)).is_none() => {
            servers::verdict(system, declared, by)
        }
        _ => packed_as_tasks(system, declared),
    }
}

/// The same for a system whose servers, if it has any, are tasks.
pub(crate) fn packed_as_tasks(system: &System, declared: &System) -> Verdict {
    let whole = whole(system, declared);
    if system.domains.is_empty() { whole } else { parts::together(system, declared, whole) }
}

/// The verdict without load and domains.
fn whole(system: &System, declared: &System) -> Verdict {
    let demands = demands(system);
    let known: Vec<Demand> = demands.iter().filter_map(|d| d.ok()).collect();
    let load = uniprocessor::utilisation(&known);
    let dated = |t: &Task| t.deadline.is_some() || t.budget.is_some();
    let packs = system.policy.scope == Scope::Partitioned && !split::has_routes(&system.policy);
    let home = packs.then(|| homes(declared));
    let (test, found) = if !system.tasks.is_empty() && !system.tasks.iter().any(dated) && !may_skip(system) {
        ("no-deadlines", Finding::new(Answer::Yes, Kind::Exact, "no task has a deadline that it could miss"))
    } else if let Some(task) = endless(system, ids(system)) {
        let why = format!("jobs of task {} never complete (`completion: none`)", task.0);
        ("completion", Finding::new(Answer::No, Kind::Necessary, why))
    } else if let Some(task) = demands.iter().find_map(|d| d.err()) {
        let why = format!("task {} has no runtime", task.0);
        beyond(why)
    } else if let Some((task, always)) = over_budget(system) {
        let often = if always { "is" } else { "can be" };
        let why = format!("task {} {often} aborted when its budget is used, before its work is done", task.0);
        if always { ("budget", Finding::new(Answer::No, Kind::Necessary, why)) } else { beyond(why) }
    } else {
        let (test, found) = judge(system, declared, known, home.as_deref());
        (test, beside_listed(system, found))
    };
    let mut responses = vec![None; system.tasks.len()];
    found.responses.iter().for_each(|&(task, bound)| responses[task.index()] = Some(bound));
    Verdict {
        schedulable: found.answer,
        test,
        kind: found.kind,
        reason: found.reason,
        utilisation: load,
        hyperperiod: hyperperiod(system),
        responses,
        idle_10_percent: idle::in_whole(system, declared, home).is_none(),
    }
}

/// The tasks of one CPU.
fn on(home: &[u16], cpu: u16, tasks: &[Demand]) -> Vec<Demand> {
    tasks.iter().copied().filter(|d| home[d.task.index()] == cpu).collect()
}

/// The strongest test for the policy, and what of the system weakens it.
fn judge(system: &System, declared: &System, known: Vec<Demand>, home: Option<&[u16]>) -> (&'static str, Finding) {
    let cpus = system.cpus.len() as u64;
    let least: Vec<Demand> = known.iter().map(|d| Demand { runtime: least(system, d.task), ..*d }).collect();
    let doubts = match doubts(system) {
        Ok(doubts) => doubts,
        Err(why) => return no_test(&least, cpus, why),
    };
    if let Some(no) = impossible(&least, cpus).filter(|_| doubts.is_some()) {
        return no;
    }
    // Sleeping is taken for running: that is more than enough (Chen et al., "Many suspensions, many problems", Real-Time
    // Systems 55, 2019, section 4.1).
    let sheds = by_utility(system);
    let needed = |d: &Demand| if sheds { as_declared(system, *d) } else { *d };
    let tasks: Vec<Demand> =
        known.iter().map(|d| Demand { runtime: needed(d).runtime + slept(system, d.task), ..*d }).collect();
    let (test, found) = match split::way(&system.policy) {
        None => by_policy(system, declared, &tasks, home, &least),
        Some(way) => match split::judge(system, declared, &tasks, way) {
            Ok(found) if found.answer == Answer::Yes => (system.policy.profile.name, found),
            Ok(found) => impossible(&least, cpus).unwrap_or((system.policy.profile.name, found)),
            Err(why) => no_test(&least, cpus, &why),
        },
    };
    match (doubts, found.answer) {
        (None, _) => (test, found),
        (Some(why), Answer::No) => {
            let reason = format!("{}, but {why}", found.reason);
            (test, Finding { answer: Answer::Unknown, kind: found.kind.weakened(), reason, ..found })
        }
        (Some(_), _) => (test, Finding { kind: found.kind.weakened(), ..found }),
    }
}

fn by_policy(
    system: &System,
    declared: &System,
    tasks: &[Demand],
    home: Option<&[u16]>,
    least: &[Demand],
) -> (&'static str, Finding) {
    let (name, cpus) = (system.policy.profile.name, system.cpus.len() as u64);
    let once = system.locking == Locking::Ceiling || name == "np-edf";
    let rules = Rules { queue: system.backlog == Backlog::Queue, once };
    let test: Option<(&'static str, Test)> = match name {
        "edf" | "np-edf" => Some((name_of_edf(name), uniprocessor::edf)),
        _ if sheds(system) => Some(("edf", uniprocessor::edf)),
        _ if matches!(system.policy.profile.test, CpuTest::ResponseTimes(_)) => {
            Some(("rta", uniprocessor::fixed_priority))
        }
        _ if servers::ranking(&system.policy) == Some(servers::By::Deadline) => Some(("edf", uniprocessor::edf)),
        _ if servers::ranking(&system.policy).is_some() => Some(("rta", uniprocessor::fixed_priority)),
        "fifo" | "rr" | "llf" | "hvdf" | "np-hvdf" | "gus" => Some(("busy-period", uniprocessor::any_order)),
        _ => None,
    };
    let otherwise = match name {
        "fcbs" => "no proof is known to us for servers that hand their budgets on",
        _ => "there is no test for this policy",
    };
    match (test, system.policy.scope) {
        // A cluster of one CPU is a uniprocessor.
        (Some((test, run)), Scope::Uniprocessor | Scope::Global | Scope::Clustered) if cpus == 1 => {
            by_one_cpu(test, run(tasks, rules))
        }
        (Some((test, run)), Scope::Partitioned) => {
            let home = home.expect("a partitioned policy has placed its tasks");
            let found = (0..cpus as u16).map(|cpu| run(&on(home, cpu, tasks), rules));
            by_one_cpu(test, partitioned(system, found.collect()))
        }
        (Some(_), Scope::Global) => global(system, tasks, least),
        _ if is_global_edf(&system.policy) && system.policy.scope == Scope::Global => global(system, tasks, least),
        (Some(_), Scope::Clustered) => no_test(least, cpus, "there is no test for clusters"),
        _ if matches!(name, "llref" | "pd2") => optimal(system, tasks, least),
        _ if reservation::knows(name) => reservation::judge(system, declared, tasks, least),
        _ => no_test(least, cpus, otherwise),
    }
}

/// A test for one CPU says no beyond what it can prove where no policy would do, which is for `utilisation` to say.
fn by_one_cpu(test: &'static str, found: Finding) -> (&'static str, Finding) {
    (if found.kind == Kind::Necessary { "utilisation" } else { test }, found)
}

fn name_of_edf(name: &str) -> &'static str {
    if name == "np-edf" { "np-edf" } else { "edf" }
}

/// The tasks that come again and again; an error names one without a runtime.
fn demands(system: &System) -> Vec<Result<Demand, TaskId>> {
    let (name, servers) = (system.policy.profile.name, servers::ranking(&system.policy));
    let demand = |(index, task): (usize, &Task)| {
        let (period, first) = (task.arrival.period()?, task.arrival.first()?);
        let id = TaskId(index as u32);
        let rank = match system.policy.profile.test {
            CpuTest::ResponseTimes(rank) => rank(task),
            _ if servers == Some(servers::By::Period) => period.ns(),
            _ => -i64::from(task.priority),
        };
        let runtime = most(task).ok_or(id);
        Some(runtime.map(|runtime| Demand {
            task: id,
            runtime: i128::from(runtime.ns()),
            period: i128::from(period.ns()),
            deadline: task.deadline.map(|d| i128::from(d.ns())),
            offset: i128::from((first - Time::ZERO).ns()),
            jitter: i128::from(servers::jitter(&system.policy, task).ns()),
            regular: !matches!(task.arrival, Arrival::Sporadic { spread, .. } if spread > Span::ZERO),
            rank,
            // A job that cannot be preempted has begun at least one nanosecond before those that it holds up.
            section: i128::from(if name == "np-edf" { runtime.ns() - 1 } else { longest_section(task).ns() }),
        }))
    };
    system.tasks.iter().enumerate().filter_map(demand).collect()
}

/// CPU time that a job of the task needs at most; `None` when it never completes by itself.
pub(crate) fn most(task: &Task) -> Option<Span> {
    if !task.steps.is_empty() {
        return runs(task).max();
    }
    match &task.execution {
        Execution::Declared => task.runtime,
        Execution::Uniform { most, .. } => Some(*most),
        Execution::Series(spans) => spans.iter().copied().max().or(task.runtime),
    }
}

/// CPU time that every job of the task needs at least.
pub(crate) fn least(system: &System, task: TaskId) -> i128 {
    let task = &system.tasks[task.index()];
    let least = match &task.execution {
        _ if !task.steps.is_empty() => runs(task).min(),
        Execution::Declared => task.runtime,
        Execution::Uniform { least, .. } => Some(*least),
        Execution::Series(spans) => spans.iter().copied().min().or(task.runtime),
    };
    least.map_or(0, |span| i128::from(span.ns()))
}

/// CPU time of the jobs of a task with steps, which take turns.
fn runs(task: &Task) -> impl Iterator<Item = Span> {
    let run = |step: &Step| if let Step::Run(span) = *step { span } else { Span::ZERO };
    task.turns().map(move |turn| turn.iter().map(run).fold(Span::ZERO, |a, b| a + b))
}

/// Whether its jobs need less CPU time at some times than at others.
pub(crate) fn varies_by_itself(task: &Task) -> bool {
    match task.steps.is_empty() {
        true => task.execution != Execution::Declared,
        false => {
            let mut runs = runs(task);
            let first = runs.next();
            runs.any(|run| Some(run) != first)
        }
    }
}

/// Whether its jobs do nothing but use the CPU.
pub(crate) fn only_runs(task: &Task) -> bool {
    task.steps.iter().all(|step| matches!(step, Step::Run(_) | Step::WaitPeriod))
}

/// How long a job sleeps at most; it wakes up at a tick.
fn slept(system: &System, task: TaskId) -> i128 {
    let sleep = |step: &Step| {
        if let Step::Sleep(span) = *step { i128::from((span + system.timing.tick).ns()) } else { 0 }
    };
    let turns = system.tasks[task.index()].turns();
    turns.map(|turn| turn.iter().map(sleep).sum()).max().unwrap_or(0)
}

/// CPU time of the longest stretch of a job in which it holds something.
fn longest_section(task: &Task) -> Span {
    let (mut held, mut present, mut longest) = (0, Span::ZERO, Span::ZERO);
    for step in &task.steps {
        match *step {
            Step::Lock(_) => held += 1,
            Step::Unlock(_) => held -= 1,
            Step::Run(span) if held > 0 => present += span,
            _ => {}
        }
        longest = longest.max(present);
        if held == 0 {
            present = Span::ZERO;
        }
    }
    longest
}

/// What of the system takes from an exact test its `no`, and as an error what no test covers.
fn doubts(system: &System) -> Result<Option<&'static str>, &'static str> {
    let any = |wanted: fn(&Step) -> bool| system.tasks.iter().any(|t| t.steps.iter().any(wanted));
    let sleeps = any(|s| matches!(s, Step::Sleep(_)));
    let locks = any(|s| matches!(s, Step::Lock(_)));
    let one_cpu = system.cpus.len() == 1;
    if any(|s| matches!(s, Step::Yield)) {
        return Err("jobs that yield are beyond the tests");
    }
    if any(|s| matches!(s, Step::Call(_))) {
        return Err("jobs that ask for other terms are beyond the tests");
    }
    let name = system.policy.profile.name;
    if sleeps && name == "np-edf" {
        return Err("a job that wakes up can be held up again by one that is not preempted");
    }
    if locks && by_utility(system) {
        return Err("resources under a policy that goes by utility are beyond the tests");
    }
    if locks && matches!(system.policy.profile.name, "llref" | "pd2") {
        return Err("this policy hands out resources in the order of asking, whatever `locking` says");
    }
    if may_skip(system) {
        return Err(MAY_SKIP);
    }
    match (locks, system.locking) {
        (false, _) => {}
        (true, _) if sleeps => return Err("resources together with sleeping are beyond the tests"),
        (true, _) if !one_cpu => return Err("resources on several CPUs are beyond the tests"),
        (true, Locking::Fifo) => return Err("with `locking: fifo` a job can be held up for any time"),
        (true, Locking::Inheritance) if system.tasks.iter().any(holds_two) => {
            return Err("jobs that hold several resources can be held up in a chain, or for ever");
        }
        (true, _) => {}
    }
    if system.tasks.iter().any(|t| is_listed(t) && !disturbs_nobody(system, t)) {
        return Err("jobs at listed instants are beyond the tests");
    }
    let tick = system.timing.tick.ns();
    let on_tick = |span: Span| tick == 0 || span.ns() % tick == 0;
    let aligned = |t: &Task| {
        let first = t.arrival.first().map_or(Span::ZERO, |first| first - Time::ZERO);
        let exact = !matches!(t.arrival, Arrival::Sporadic { spread, .. } if spread > Span::ZERO) || tick == 0;
        exact && on_tick(first) && t.arrival.period().is_none_or(on_tick)
    };
    if !system.tasks.iter().all(aligned) {
        return Err("releases that wait for the tick are beyond the tests");
    }
    if locks {
        return Ok(Some("jobs that hold resources need not meet like that"));
    }
    if sleeps {
        return Ok(Some("jobs that sleep leave the CPU to others"));
    }
    if system.tasks.iter().any(varies_by_itself) {
        return Ok(Some("jobs may need less than their most"));
    }
    if by_utility(system) && varies(system) {
        return Ok(Some("jobs may need less than they declare, which is what the policy goes by"));
    }
    if tick > 0 {
        return Ok(Some("what is late by less than a tick may not be noticed"));
    }
    Ok(None)
}

/// Whether jobs of a task at listed instants come after all those that come again and again and have deadlines, and hold nothing
/// that these need: under EDF if it has no deadline itself, under fixed priorities if its own is the least.
fn disturbs_nobody(system: &System, task: &Task) -> bool {
    let dated = || system.tasks.iter().filter(|t| t.deadline.is_some() && !is_listed(t));
    match system.policy.profile.name {
        // A server contains whatever its jobs do.
        name if reservation::knows(name) => true,
        _ if task.steps.iter().any(|s| matches!(s, Step::Lock(_))) => false,
        "edf" => task.deadline.is_none(),
        "dm" => task.deadline.is_none_or(|own| dated().all(|t| t.deadline < Some(own))),
        "fp" => dated().all(|t| t.priority > task.priority),
        _ => false,
    }
}

/// A yes is about tasks that come again and again. Of others that have deadlines nothing is known.
fn beside_listed(system: &System, found: Finding) -> Finding {
    let late = |(_, t): &(TaskId, &Task)| is_listed(t) && t.deadline.is_some();
    let listed = (0..).map(TaskId).zip(&system.tasks).filter(late);
    let told = listed.map(|(id, _)| format!("task {} comes at listed instants, for which there is no test", id.0));
    match reservation::first_of(told) {
        Some(why) if found.answer == Answer::Yes => {
            let reason = format!("{why}; the others are in time whatever it does");
            Finding { answer: Answer::Unknown, kind: Kind::Sufficient, reason, ..found }
        }
        _ => found,
    }
}

/// Whether its jobs come at listed instants, and there is one.
fn is_listed(task: &Task) -> bool {
    matches!(&task.arrival, Arrival::Listed { instants } if !instants.is_empty())
}

fn holds_two(task: &Task) -> bool {
    let mut held = 0;
    task.steps.iter().any(|step| {
        match step {
            Step::Lock(_) => held += 1,
            Step::Unlock(_) => held -= 1,
            _ => {}
        }
        held > 1
    })
}

/// Why nothing is promised where [`may_skip`] says so.
pub(crate) const MAY_SKIP: &str =
    "releases that find a task without a deadline busy are skipped (`backlog`), which counts as missed";

/// Whether a release can be skipped, and so be missed, though its task has no deadline.
pub(crate) fn may_skip(system: &System) -> bool {
    let again = |t: &Task| match &t.arrival {
        Arrival::Listed { instants } => instants.len() > 1,
        _ => t.arrival.period().is_some(),
    };
    let skips = matches!(system.backlog, Backlog::Skip | Backlog::Hartstone);
    skips && system.tasks.iter().any(|t| t.deadline.is_none() && again(t))
}

/// The least and the most budget that a job of the task can have, for a budget that varies by its jitter.
pub(crate) fn budgets(task: &Task) -> Option<(Span, Span)> {
    let least = task.budget? - task.jitter / 2;
    Some((least, least + task.jitter))
}

/// The first of these tasks whose jobs are all missed, since it is declared that its program never signals a completion.
pub(crate) fn endless(system: &System, tasks: impl IntoIterator<Item = TaskId>) -> Option<TaskId> {
    let released = |t: &Task| t.deadline.is_some() && t.arrival.first().is_some();
    let never = |t: &Task| t.completion == Completion::None && released(t);
    tasks.into_iter().find(|id| never(&system.tasks[id.index()]))
}

/// All tasks of the system.
fn ids(system: &System) -> impl Iterator<Item = TaskId> {
    (0..system.tasks.len() as u32).map(TaskId)
}

/// A task whose jobs are aborted because they need more than their budgets, and whether all of them miss for sure: where
/// budgets end in time, and where a job that never comes to use its budget misses its deadline.
fn over_budget(system: &System) -> Option<(TaskId, bool)> {
    let exact = system.timing.resolution == Span::ZERO && system.timing.lateness == Span::ZERO;
    let always = |id: TaskId, t: &Task, largest: Span| {
        exact && t.deadline.is_some() && t.arrival.period().is_some() && least(system, id) > i128::from(largest.ns())
    };
    let over = |(id, t): (TaskId, &Task)| {
        let (smallest, largest) = budgets(t).filter(|_| t.arrival.first().is_some())?;
        // Who never completes by itself uses up every budget.
        most(t).is_none_or(|need| need > smallest).then(|| (id, always(id, t, largest)))
    };
    let found = || (0..).map(TaskId).zip(&system.tasks).filter_map(over);
    found().find(|(_, always)| *always).or_else(|| found().next())
}

/// The cluster of each task: its CPU under a partitioned policy. Servers are packed by what is reserved for them.
pub(crate) fn homes(system: &System) -> Vec<u16> {
    packed(system).homes
}

/// The same with the tasks that no cluster accepted.
pub(crate) fn packed(system: &System) -> scope::Packed {
    let servers = reservation::knows(system.policy.profile.name).then(|| reservation::as_runtimes(system));
    let system = servers.as_ref().unwrap_or(system);
    Build::whole(system, &Registry::default(), scope::pack)
}

/// The finding about the CPUs of the system, from those about each.
fn partitioned(system: &System, each: Vec<Finding>) -> Finding {
    let mut responses = Vec::new();
    each.iter().for_each(|found| responses.extend_from_slice(&found.responses));
    let worst = |wanted: Answer| system.cpus.iter().zip(&each).find(|(_, found)| found.answer == wanted);
    let found = match worst(Answer::No).or_else(|| worst(Answer::Unknown)) {
        Some((cpu, Finding { answer, kind, reason, .. })) => {
            Finding::new(*answer, *kind, format!("on CPU {cpu}, {reason}"))
        }
        None => {
            let exact = each.iter().all(|found| found.kind == Kind::Exact);
            let kind = if exact { Kind::Exact } else { Kind::Sufficient };
            Finding::new(Answer::Yes, kind, "the test says yes on every CPU")
        }
    };
    Finding { responses, ..found }
}

/// Policies that are optimal on identical CPUs: tasks with deadlines at or after the ends of their periods need just that their
/// utilisations sum to at most the number of CPUs (Baruah, Cohen, Plaxton and Varvel, "Proportionate Progress", Algorithmica 15,
/// 1996). With earlier deadlines the same of the densities is enough. PD² works in quanta, so everything is rounded to them.
fn optimal(system: &System, tasks: &[Demand], least: &[Demand]) -> (&'static str, Finding) {
    let cpus = system.cpus.len() as u64;
    if let Some(no) = impossible(least, cpus) {
        return no;
    }
    let unknown = |why| ("optimal", Finding::new(Answer::Unknown, Kind::Sufficient, why));
    let sporadic = |t: &Task| matches!(t.arrival, Arrival::Sporadic { spread, .. } if spread > Span::ZERO);
    let blocks = !system.tasks.iter().all(only_runs);
    if blocks || system.tasks.iter().any(|t| sporadic(t) || is_listed(t)) {
        return beyond("the guarantee of this policy needs periodic jobs that do not block");
    }
    if system.backlog != Backlog::Queue || system.timing != Timing::default() || varies(system) {
        return beyond("the guarantee of this policy needs jobs of a known length and a clock that is never late");
    }
    let quantum = system.policy.grid().map_or(1, |quantum| i128::from(quantum.ns()));
    if tasks.iter().any(|t| t.offset % quantum != 0 || t.period % quantum != 0) {
        return beyond("the guarantee of this policy needs releases at multiples of its quantum");
    }
    let room = |t: &Demand| t.deadline.map_or(t.period, |d| d.min(t.period)) / quantum;
    let quanta = |t: &Demand| (t.runtime + quantum - 1) / quantum;
    let mut sum = Utilisation::default();
    for task in tasks {
        let (work, room) = (quanta(task), room(task));
        if work > room {
            return unknown("a job does not fit into its period and deadline in whole quanta");
        }
        sum.add(work as u64, room as u64);
    }
    let whole = tasks.iter().all(|t| room(t) * quantum == t.period && quanta(t) * quantum == t.runtime);
    match sum.at_most(cpus) {
        Some(true) => {
            let kind = if whole { Kind::Exact } else { Kind::Sufficient };
            let what = if whole { "utilisation" } else { "density" };
            ("optimal", Finding::new(Answer::Yes, kind, format!("the {what} of {sum} is at most the {cpus} CPUs")))
        }
        _ => unknown("the density is above the number of CPUs, which proves nothing"),
    }
}

/// Whether jobs may need other times than they declare.
fn varies(system: &System) -> bool {
    let differs =
        |t: &Task| if t.steps.is_empty() { varies_by_itself(t) } else { runs(t).any(|run| t.runtime != Some(run)) };
    system.tasks.iter().any(differs)
}

/// What holds for every policy: more work than CPUs cannot be done, nor a job longer than its deadline.
pub(crate) fn impossible(tasks: &[Demand], cpus: u64) -> Option<(&'static str, Finding)> {
    let no = |why| Some(("utilisation", Finding::new(Answer::No, Kind::Necessary, why)));
    let timed = || tasks.iter().filter(|t| t.deadline.is_some());
    let load = uniprocessor::utilisation(timed());
    if load.at_most(cpus) == Some(false) {
        return no(format!("utilisation {load} is above {cpus}"));
    }
    let too_long = |t: &&Demand| t.deadline.is_some_and(|d| d < t.runtime) || t.runtime > t.period;
    let t = timed().find(too_long)?;
    no(format!("task {} needs more than its deadline or period allows", t.task.0))
}

/// Where no test applies: what holds for every policy, or else why none does.
pub(crate) fn no_test(tasks: &[Demand], cpus: u64, why: &str) -> (&'static str, Finding) {
    impossible(tasks, cpus).unwrap_or_else(|| beyond(why))
}

/// That no test applies, and why.
pub(crate) fn beyond(why: impl Into<String>) -> (&'static str, Finding) {
    ("none", Finding::new(Answer::Unknown, Kind::Nothing, why))
}

fn hyperperiod(system: &System) -> Option<Span> {
    system.tasks.iter().filter_map(|t| t.arrival.period()).try_fold(Span::from_ns(1), Span::lcm)
}

/// One sentence: `schedulable (exact test edf): utilisation 0.971 (34/35) is at most 1`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentence(f, self.schedulable, self.test, self.kind, &self.reason)
    }
}

/// A verdict in a sentence, which says so where no test applies.
pub(crate) fn sentence(
    f: &mut fmt::Formatter<'_>,
    schedulable: Answer,
    test: &str,
    kind: Kind,
    reason: &str,
) -> fmt::Result {
    f.write_str(match schedulable {
        Answer::Yes => "schedulable",
        Answer::No => "not schedulable",
        Answer::Unknown => "not known to be schedulable",
    })?;
    match kind {
        Kind::Nothing => write!(f, " (no test applies): {reason}"),
        _ => write!(f, " ({kind} test {test}): {reason}"),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Exact => "exact",
            Kind::Sufficient => "sufficient",
            Kind::Necessary => "necessary",
            Kind::Nothing => "none",
        })
    }
}
