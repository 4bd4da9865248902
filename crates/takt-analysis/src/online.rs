//! Schedulability of a system under its online policy.

use crate::accrual::{as_declared, by_utility, is_global_edf, sheds};
use crate::bands;
use crate::compose;
use crate::demand::{Demand, Rules, fixed_rank, impossible, no_test, utilisation};
use crate::global::global;
use crate::homes::homes;
use crate::idle;
use crate::need::{
    MAY_SKIP, budgets, endless, holds_two, ids, is_irregular, least, may_skip, most, only_runs, slept, unbounded,
    varies, varies_by_itself,
};
use crate::parts;
use crate::reservation;
use crate::reserved;
use crate::servers::{self, jitter};
use crate::split;
use crate::uniprocessor::{self, Test};
use crate::utilisation::Utilisation;
use crate::verdict::{Finding, beyond, first_of};
use takt_core::model::{Arrival, Backlog, Late, Locking, Order, PolicySpec, Scope, Step, System, Task, TaskId, Timing};
use takt_core::policies::scope::keeps_cpu;
use takt_core::time::{Span, Time};

pub use crate::verdict::{Answer, Kind, Verdict};

/// Tests the system under its policy with the strongest test there is for it.
///
/// The real demand of jobs (`steps`, `execution`) counts, not what they declare. Sporadic jobs are taken to come as densely as they
/// may; a `no` says then that a deadline can be missed, and not that it is. What a machine costs and what happens to it
/// ([`takt_core::scenario::Scenario`]) is not known here. Under a load that changes, its highest counts. Domains are judged one by
/// one ([`of_domains`]), and the answer is that of the worst. The highest band on some CPUs is judged as if it were alone there; for a lower
/// one there are tests on one CPU alone.
#[must_use]
pub fn verdict(system: &System) -> Verdict {
    match &system.load {
        Some(load) => {
            let policies = system.domains.iter().map(|domain| &domain.policy).chain([&system.policy]);
            compose::loaded(system, load, policies, packed_as)
        }
        None => packed_as(system, system),
    }
}

/// The verdict of each domain, in their order.
#[must_use]
pub fn of_domains(system: &System) -> Vec<Verdict> {
    let of = |index: usize| {
        let judge = |system: &System, declared: &System| bands::judge(system, declared, index, &packed_as);
        match &system.load {
            Some(load) => {
                let domain = &system.domains[index];
                let policies = parts::above(system, domain).map(|(_, above)| &above.policy).chain([&domain.policy]);
                compose::loaded(system, load, policies, judge)
            }
            None => judge(system, system),
        }
    };
    (0..system.domains.len()).map(of).collect()
}

/// The verdict about a system without a load, whose tasks are placed on CPUs as those of `declared` are.
fn packed_as(system: &System, declared: &System) -> Verdict {
    let dated = |t: &Task| t.deadline.is_some() || t.budget.is_some();
    match servers::ranking(&system.policy) {
        Some(by) if system.tasks.iter().any(dated) && endless(system, ids(system)).is_none() => {
            servers::verdict(system, declared, by, packed_as_tasks)
        }
        _ => packed_as_tasks(system, declared),
    }
}

/// The same for a system whose servers, if it has any, are tasks.
fn packed_as_tasks(system: &System, declared: &System) -> Verdict {
    let whole = whole(system, declared);
    if system.domains.is_empty() { whole } else { compose::together(system, declared, whole, packed_as) }
}

/// The verdict without load and domains.
fn whole(system: &System, declared: &System) -> Verdict {
    let demands = demands(system);
    let known: Vec<Demand> = demands.iter().filter_map(|d| d.ok()).collect();
    let load = utilisation(&known);
    let dated = |t: &Task| t.deadline.is_some() || t.budget.is_some();
    let packs = system.policy.scope == Scope::Partitioned && !split::has_routes(&system.policy);
    let home = packs.then(|| homes(declared));
    let (test, found) = if !system.tasks.is_empty() && !system.tasks.iter().any(dated) && !may_skip(system) {
        ("no-deadlines", Finding::new(Answer::Yes, Kind::Exact, "no task has a deadline that it could miss"))
    } else if let Some(task) = endless(system, ids(system)) {
        let why = format!("jobs of task {} never complete (`completion: none`)", task.0);
        ("completion", Finding::new(Answer::No, Kind::Necessary, why))
    } else if let Some(task) = demands.iter().find_map(|d| d.err()) {
        let why = format!("task {} {}", task.0, unbounded(&system.tasks[task.index()]));
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
    // Jobs that follow those of another task come as often as these.
    let least = |d: &Demand| if follows(&system.tasks[d.task.index()]) { 0 } else { least(system, d.task) };
    let least: Vec<Demand> = known.iter().map(|d| Demand { runtime: least(d), ..*d }).collect();
    let doubts = match doubts(system) {
        Ok(doubts) => doubts,
        Err(why) => return no_test(&least, cpus, why),
    };
    if let Some(no) = impossible(&least, cpus).filter(|_| doubts.is_some()) {
        return no;
    }
    // Sleeping is taken for running: that is more than enough (Chen et al., "Many suspensions, many problems", Real-Time
    // Systems 55, 2019, section 4.1). Fixed priorities on one CPU have further bounds.
    let sheds = by_utility(system);
    let needed = |d: &Demand| if sheds { as_declared(system, *d) } else { *d };
    let with_sleep = |d: &Demand| {
        let suspended = slept(system, d.task);
        Demand { runtime: needed(d).runtime + suspended, suspended, ..*d }
    };
    let tasks: Vec<Demand> = known.iter().map(with_sleep).collect();
    let (test, found) = match split::way(&system.policy) {
        None => by_policy(system, declared, &tasks, home, &least),
        Some(way) => match split::judge(system, declared, &tasks, way) {
            Ok(found) if found.answer == Answer::Yes => (system.policy.profile.name, found),
            Ok(found) => impossible(&least, cpus).unwrap_or((system.policy.profile.name, found)),
            Err(why) => no_test(&least, cpus, &why),
        },
    };
    let reason = match (found.answer, found.suspensions.join("; ")) {
        (Answer::Yes, how) if !how.is_empty() => format!("{}, where suspensions count {how}", found.reason),
        _ => found.reason,
    };
    let found = Finding { reason, ..found };
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
    let (policy, cpus) = (&system.policy, system.cpus.len() as u64);
    let queue = system.backlog == Backlog::Queue;
    let rules = Rules { queue, harmless: queue && system.late == Late::Continue, held_up: holds_up(policy), system };
    let otherwise = match policy.reservations() {
        Some(reservations) if reservations.reclaimed => {
            "no proof is known to us for servers that pass on their budgets"
        }
        _ => "there is no test for this policy",
    };
    match (one_cpu_test(system), policy.scope) {
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
        _ if is_global_edf(policy) && policy.scope == Scope::Global => global(system, tasks, least),
        (Some(_), Scope::Clustered) => no_test(least, cpus, "there is no test for clusters"),
        _ if policy.is_optimal() => optimal(system, tasks, least),
        _ if reserved::isolates(policy) => reservation::judge(system, declared, tasks, least),
        _ => no_test(least, cpus, otherwise),
    }
}

/// A test for one CPU says no beyond what it can prove where no policy would do, which is for `utilisation` to say.
fn by_one_cpu(test: &'static str, found: Finding) -> (&'static str, Finding) {
    (if found.kind == Kind::Necessary { "utilisation" } else { test }, found)
}

/// The test for one CPU under the policy, by name; `None` where there is none.
fn one_cpu_test(system: &System) -> Option<(&'static str, Test)> {
    let policy = &system.policy;
    let ranking = servers::ranking(policy);
    if policy.order() == Some(Order::AbsoluteDeadline) {
        Some((if policy.is_non_preemptive() { "np-edf" } else { "edf" }, uniprocessor::edf))
    } else if sheds(system) || ranking == Some(servers::By::Deadline) {
        Some(("edf", uniprocessor::edf))
    } else if ranking.is_some() || has_fixed_priorities(policy) {
        Some(("rta", uniprocessor::fixed_priority))
    } else if conserves_one_cpu(policy) {
        Some(("busy-period", uniprocessor::any_order))
    } else {
        None
    }
}

/// Whether jobs alone decide when the CPU idles. Budgets of servers, and policies that are only for several CPUs, have other tests
/// or none.
fn conserves_one_cpu(policy: &PolicySpec) -> bool {
    let for_one_cpu = policy.profile.scopes.contains(&Scope::Uniprocessor);
    for_one_cpu && policy.is_work_conserving() && policy.reservations().is_none() && policy.servers().is_none()
}

/// Whether the time between releases is always the same.
fn is_regular(task: &Task) -> bool {
    match task.arrival {
        Arrival::Sporadic { spread, .. } => spread == Span::ZERO,
        Arrival::Event { .. } => false,
        _ => true,
    }
}

/// Whether each job of a task is released by a completed job of another one.
fn follows(task: &Task) -> bool {
    matches!(task.arrival, Arrival::Event { after: Some(_), .. })
}

/// Whether all jobs of a task have the same rank.
fn has_fixed_priorities(policy: &PolicySpec) -> bool {
    fixed_rank(policy, &Task::default()).is_some()
}

/// Whether the test for one CPU has to count jobs that started before a more urgent one came.
fn holds_up(policy: &PolicySpec) -> bool {
    policy.is_non_preemptive() && (has_fixed_priorities(policy) || policy.order() == Some(Order::AbsoluteDeadline))
}

/// The tasks that come again and again; an error names one without a runtime.
fn demands(system: &System) -> Vec<Result<Demand, TaskId>> {
    let servers = servers::ranking(&system.policy);
    let demand = |(index, task): (usize, &Task)| {
        let (period, first) = (task.arrival.period()?, task.arrival.earliest()?);
        let id = TaskId(index as u32);
        let rank = match fixed_rank(&system.policy, task) {
            Some(rank) => rank,
            None if servers == Some(servers::By::Period) => period.ns(),
            None => -i64::from(task.priority),
        };
        let runtime = most(task).ok_or(id);
        Some(runtime.map(|runtime| Demand {
            task: id,
            runtime: i128::from(runtime.ns()),
            period: i128::from(period.ns()),
            deadline: task.deadline.map(|d| i128::from(d.ns())),
            offset: i128::from((first - Time::ZERO).ns()),
            jitter: i128::from(jitter(&system.policy, task).ns()),
            regular: is_regular(task),
            rank,
            suspended: 0,
        }))
    };
    system.tasks.iter().enumerate().filter_map(demand).collect()
}

/// The first feature of the system under which a negative verdict of an exact test is inconclusive. The error is a feature that no test covers.
fn doubts(system: &System) -> Result<Option<&'static str>, &'static str> {
    let any = |wanted: fn(&Step) -> bool| system.tasks.iter().any(|t| t.program.steps.iter().any(wanted));
    let sleeps = any(|s| matches!(s, Step::Sleep(_)));
    let locks = any(|s| matches!(s, Step::Lock(_)));
    let one_cpu = system.cpus.len() == 1;
    if any(|s| matches!(s, Step::Yield)) {
        return Err("jobs that yield are not covered by the tests");
    }
    if any(|s| matches!(s, Step::Call(_))) {
        return Err("jobs that request other terms are not covered by the tests");
    }
    let policy = &system.policy;
    if sleeps && holds_up(policy) {
        return Err("a job that wakes up can be blocked again by a job that is not preempted");
    }
    let succeeds = |t: &Task| t.arrival.period().is_some_and(|period| t.deadline.is_none_or(|d| d >= period));
    if holds_up(policy) && keeps_cpu(policy) && system.tasks.iter().any(succeeds) {
        return Err("with `successor: keep` a job can be held up by two jobs of another task");
    }
    if locks && by_utility(system) {
        return Err("resources under a policy that ranks by utility are not covered by the tests");
    }
    if locks && policy.ignores_locking() && (policy.is_optimal() || policy.order().is_some()) {
        return Err("this policy grants resources in the order of requests and ignores `locking`");
    }
    if may_skip(system) {
        return Err(MAY_SKIP);
    }
    match (locks, system.locking) {
        (false, _) => {}
        (true, _) if sleeps => return Err("resources together with sleeping are not covered by the tests"),
        (true, _) if !one_cpu => return Err("resources on several CPUs are not covered by the tests"),
        (true, Locking::Fifo) => return Err("with `locking: fifo` a job can be held up for any time"),
        (true, Locking::Inheritance) if system.tasks.iter().any(holds_two) => {
            return Err("jobs that hold several resources can be blocked in a chain, or in a deadlock");
        }
        (true, _) => {}
    }
    if system.tasks.iter().any(|t| is_irregular(t) && !disturbs_no_task(system, t)) {
        let events =
            |t: &Task| matches!(t.arrival, Arrival::Event { .. }) && is_irregular(t) && !disturbs_no_task(system, t);
        return Err(match system.tasks.iter().any(events) {
            true => "jobs that are released by events without a least `distance` are not covered by the tests",
            false => "jobs at listed instants are not covered by the tests",
        });
    }
    let tick = system.timing.tick.ns();
    let on_tick = |span: Span| tick == 0 || span.ns() % tick == 0;
    let aligned = |t: &Task| {
        let first = t.arrival.earliest().map_or(Span::ZERO, |first| first - Time::ZERO);
        let exact = is_regular(t) || tick == 0;
        exact && on_tick(first) && t.arrival.period().is_none_or(on_tick)
    };
    if !system.tasks.iter().all(aligned) {
        return Err("releases that wait for the tick are not covered by the tests");
    }
    if locks {
        return Ok(Some("jobs need not block each other in this way"));
    }
    if system.tasks.iter().any(follows) {
        return Ok(Some("jobs that follow those of another task need not come at the worst time"));
    }
    if sleeps {
        return Ok(Some("jobs that sleep leave the CPU to others"));
    }
    if system.tasks.iter().any(varies_by_itself) {
        return Ok(Some("jobs may execute for less than their maximum"));
    }
    if by_utility(system) && varies(system) {
        return Ok(Some("jobs may execute for less than the declared runtime, by which the policy decides"));
    }
    if tick > 0 {
        return Ok(Some("tardiness below one tick may not be detected"));
    }
    Ok(None)
}

/// Whether jobs of a task at listed instants come after all those that come again and again and have deadlines, and hold nothing
/// that these need: under EDF if it has no deadline itself, under fixed priorities if its own is the least.
fn disturbs_no_task(system: &System, task: &Task) -> bool {
    let dated = || system.tasks.iter().filter(|t| t.deadline.is_some() && !is_irregular(t));
    match system.policy.preemptive_order() {
        // A server contains whatever its jobs do.
        _ if reserved::isolates(&system.policy) => true,
        _ if task.program.steps.iter().any(|s| matches!(s, Step::Lock(_))) => false,
        Some(Order::AbsoluteDeadline) => task.deadline.is_none(),
        Some(Order::RelativeDeadline) => task.deadline.is_none_or(|own| dated().all(|t| t.deadline < Some(own))),
        Some(Order::Priority) => dated().all(|t| t.priority > task.priority),
        _ => false,
    }
}

/// A yes is about tasks that come again and again. Of others that have deadlines nothing is known.
fn beside_listed(system: &System, found: Finding) -> Finding {
    let late = |(_, t): &(TaskId, &Task)| is_irregular(t) && t.deadline.is_some();
    let listed = (0..).map(TaskId).zip(&system.tasks).filter(late);
    let told = listed.map(|(id, task)| {
        let how = match task.arrival {
            Arrival::Event { .. } => "by events without a least `distance`",
            _ => "at listed instants",
        };
        format!("task {} is released {how}, for which there is no test", id.0)
    });
    match first_of(told) {
        Some(why) if found.answer == Answer::Yes => {
            let reason = format!("{why}; the others meet their deadlines in any case");
            Finding { answer: Answer::Unknown, kind: Kind::Sufficient, reason, ..found }
        }
        _ => found,
    }
}

/// A task whose jobs are aborted because they need more than their budgets, and whether all of them miss for sure: where
/// budgets end in time, and where a job that never comes to use its budget misses its deadline.
fn over_budget(system: &System) -> Option<(TaskId, bool)> {
    let exact = system.timing.resolution == Span::ZERO && system.timing.lateness == Span::ZERO;
    let always = |id: TaskId, t: &Task, largest: Span| {
        exact && t.deadline.is_some() && t.arrival.period().is_some() && least(system, id) > i128::from(largest.ns())
    };
    let over = |(id, t): (TaskId, &Task)| {
        let (smallest, largest) = budgets(t).filter(|_| t.arrival.earliest().is_some())?;
        // A job that never completes by itself exhausts every budget.
        most(t).is_none_or(|need| need > smallest).then(|| (id, always(id, t, largest)))
    };
    let found = || (0..).map(TaskId).zip(&system.tasks).filter_map(over);
    found().find(|(_, always)| *always).or_else(|| found().next())
}

/// The finding about the CPUs of the system, from those about each.
fn partitioned(system: &System, each: Vec<Finding>) -> Finding {
    let mut responses = Vec::new();
    each.iter().for_each(|found| responses.extend_from_slice(&found.responses));
    let suspensions = each.iter().flat_map(|found| found.suspensions.iter().cloned()).collect();
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
    Finding { responses, suspensions, ..found }
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
    let blocks = !system.tasks.iter().all(only_runs);
    if blocks || system.tasks.iter().any(|t| !is_regular(t) || is_irregular(t)) {
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
        _ => unknown("the density is above the number of CPUs (inconclusive)"),
    }
}

fn hyperperiod(system: &System) -> Option<Span> {
    system.tasks.iter().filter_map(|t| t.arrival.period()).try_fold(Span::from_ns(1), Span::lcm)
}
