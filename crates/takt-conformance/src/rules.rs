//! Rules between jobs: which may wait while another one runs, on which CPUs, and in which windows.

use crate::ledger::Ledger;
use crate::standing;
use takt_core::model::*;
use takt_core::model::{Hosts, Need, Order, PolicySpec, Scope};
use takt_core::record::Place;
use takt_core::time::Time;

/// The key of an ordering: the lowest is the most urgent.
pub(crate) type Rank = (i64, Time, TaskId);

/// Checks everything after a step.
pub(crate) fn check(ledger: &mut Ledger, now: Time) {
    if ledger.tabled() {
        windows(ledger, now);
        return;
    }
    for (index, a) in ledger.accounts.iter().enumerate() {
        let allowed = ledger.system.tasks[index].affinity.intersection(&ledger.policy_of(TaskId(index as u32)).1);
        let inside = a.place.is_none_or(|p| ledger.places[p.index()].is_subset(&allowed));
        assert!(inside, "task {index} runs on {:?}", a.place);
    }
    homes(ledger);
    cycles(ledger);
}

/// The rank of the task's job by the order of the policy, with what it inherits; `None` when the policy has no order that
/// is known here.
pub(crate) fn rank(ledger: &Ledger, task: TaskId) -> Option<Rank> {
    let inherits = ledger.system.locking == Locking::Inheritance;
    let mut seen = vec![task];
    let mut best = own_rank(ledger, task)?;
    let mut at = 0;
    while inherits && at < seen.len() {
        for waiter in ledger.sharing.wait_for(seen[at]) {
            // A job that waits in another domain is another policy's business.
            if !seen.contains(&waiter) && ledger.domain_of(waiter) == ledger.domain_of(task) {
                seen.push(waiter);
                best = best.min(own_rank(ledger, waiter)?);
            }
        }
        at += 1;
    }
    Some((best.0, best.1, task))
}

pub(crate) fn own_rank(ledger: &Ledger, task: TaskId) -> Option<Rank> {
    let a = ledger.account(task);
    let (described, (_, open)) = (&a.task, a.current()?);
    let handler = described.handler.filter(|_| a.handler.is_some());
    let rank = match ledger.policy_of(task).0.preemptive_order()? {
        Order::AbsoluteDeadline => open.deadline.unwrap_or(Time::MAX).ns(),
        Order::Period => described.arrival.period().map_or(i64::MAX, |p| p.ns()),
        Order::RelativeDeadline => handler.map_or(described.deadline, |h| h.deadline).map_or(i64::MAX, |d| d.ns()),
        Order::Priority => -i64::from(described.priority),
        _ => return None,
    };
    Some((rank, a.yielded.unwrap_or(open.release), task))
}

/// The waiting tasks that may get a resource: the most urgent, of equals the first; all if their order is not known.
pub(crate) fn most_urgent(waiters: &[TaskId], ranks: &[Option<Rank>]) -> Vec<TaskId> {
    let known: Option<Vec<Rank>> = waiters.iter().map(|t| ranks[t.index()]).collect();
    match known.and_then(|ranks| ranks.into_iter().min_by_key(|r| r.0)) {
        Some((.., task)) => vec![task],
        None => waiters.to_vec(),
    }
}

/// Whether the task's policy goes by utility where this one rules; such a one breaks cycles of jobs that wait for each
/// other.
fn breaks_circles(ledger: &Ledger, rules: PolicySpec, task: TaskId) -> bool {
    let policy = match rules.hosts() {
        Some(Hosts::Windows) => ledger.partition_of[task.index()].and_then(|p| ledger.system.partitions[p].policy),
        Some(Hosts::Domains) => ledger.system.domains.iter().find(|d| d.tasks.contains(&task)).map(|d| d.policy),
        None => Some(rules),
    };
    policy.is_some_and(|spec| spec.profile.needs.contains(&Need::Utility))
}

/// Whether a policy may give the task's job up: it is late, has a budget of its own, or waits for itself. (What it had been
/// granted by another policy is no reason.)
pub(crate) fn has_reason(ledger: &Ledger, task: TaskId, now: Time) -> bool {
    let deadline = ledger.account(task).current().and_then(|(_, open)| open.deadline);
    let late = ledger.system.late != Late::Continue && deadline.is_some_and(|d| d <= now);
    let mut ruled = ledger.ruled(task).chain([ledger.system.policy]);
    let cycle = ruled.any(|spec| breaks_circles(ledger, spec, task)) && !ledger.sharing.cycle(task).is_empty();
    late || cycle || ledger.system.tasks[task.index()].budget.is_some()
}

/// No cycle of jobs that wait for each other outlives the step that closed it, if all of them have policies that break it.
fn cycles(ledger: &Ledger) {
    for task in (0..ledger.accounts.len()).map(|t| TaskId(t as u32)) {
        let cycle = ledger.sharing.cycle(task);
        let broken = !cycle.is_empty() && cycle.iter().all(|t| breaks_circles(ledger, ledger.system.policy, *t));
        assert!(!broken, "{cycle:?} wait for each other");
    }
}

/// When for a while no job is released, each that is blocked is woken, and each that runs completes: the rest waits for
/// jobs that wait for each other in a cycle, or has a policy that leaves CPUs idle.
pub(crate) fn drained(ledger: &Ledger) {
    for task in (0..ledger.accounts.len()).map(|t| TaskId(t as u32)) {
        let mut end = task;
        let mut seen = vec![];
        while let Some(holder) = ledger.sharing.holder(end).filter(|_| !seen.contains(&end)) {
            seen.push(end);
            end = holder;
        }
        let (spec, _) = ledger.policy_of(end);
        // Pieces of split tasks wait for the next window.
        let stuck = seen.contains(&end) || spec.splits().is_some() || !standing::conserves(ledger, spec, end);
        let left = ledger.account(task).current();
        assert!(left.is_none() || stuck, "{task:?} is left with {left:?} behind {end:?}");
    }
}

/// Whether servers wait for their next periods when their budgets are exhausted.
pub(crate) fn is_hard(spec: PolicySpec) -> bool {
    spec.reservations().is_some_and(|reservations| spec.holds(reservations.hard))
}

/// Whether a job continues in the place of its task's job before it.
pub(crate) fn keeps(spec: PolicySpec) -> bool {
    spec.profile.settings.iter().any(|s| s.name == "successor") && spec.value("successor") == Some(1)
}

/// Where every task has a home, it stays there, unless the policy states that it moves tasks.
fn homes(ledger: &mut Ledger) {
    for (index, a) in ledger.accounts.iter().enumerate() {
        let (spec, cpus) = ledger.policy_of(TaskId(index as u32));
        let size = match spec.scope {
            Scope::Partitioned if !spec.migrates() => 1,
            Scope::Clustered => usize::from(spec.cluster),
            _ => continue,
        };
        // Clusters are of CPUs that follow each other in the domain.
        let group =
            |place: Place| cpus.iter().position(|cpu| ledger.places[place.index()].contains(cpu)).map(|n| n / size);
        if let Some(group) = a.place.and_then(group) {
            let home = *ledger.homes[index].get_or_insert(group);
            assert_eq!(home, group, "task {index} leaves its home");
        }
    }
}

fn windows(ledger: &Ledger, now: Time) {
    let system = &ledger.system;
    let frame = system.major_frame().ns();
    let mut rest = now.ns() % frame;
    let index = system.windows.iter().position(|w| {
        rest -= w.length.ns();
        rest < 0
    });
    let index = index.expect("the rest is below the sum of the lengths");
    assert_eq!(ledger.window, Some((index as u32, (now.ns() / frame) as u64)), "the grid at {now}");
    let slices = &system.windows[index].slices;
    let mut busy = vec![false; slices.len()];
    for (i, slice) in slices.iter().enumerate() {
        let Some(sc) = slice.sc.map(|p| &system.partitions[p.index()]) else { continue };
        busy[i] = match sc.policy {
            None => sc.tasks.iter().any(|t| ledger.account(*t).current().is_some()),
            Some(_) => sc.tasks.iter().any(|t| ledger.account(*t).place.is_some()),
        };
    }
    for (task, a) in ledger.accounts.iter().enumerate() {
        let Some(place) = a.place else { continue };
        let partition = ledger.partition_of[task].map(|p| PartitionId(p as u32));
        let slice = slices.iter().position(|s| s.sc == partition || s.be == partition);
        let slice = slice.unwrap_or_else(|| panic!("task {task} runs outside its windows at {now}"));
        let (lent, used) = (slices[slice].cpus, ledger.places[place.index()]);
        if ledger.in_turn(task) {
            assert_eq!(used, lent, "task {task} at {now}");
            let others = &system.partitions[ledger.partition_of[task].expect("it is in one")].tasks;
            let beside = others.iter().filter(|t| ledger.account(**t).place.is_some()).count();
            assert_eq!(beside, 1, "two processes of task {task}'s partition run at {now}");
            // On the safety-critical side the processes have their turns in the order of the partition.
            let earlier = others.iter().take_while(|t| t.index() != task);
            let waiting =
                earlier.filter(|_| slices[slice].sc == partition).find(|t| ledger.account(**t).current().is_some());
            assert!(waiting.is_none(), "{waiting:?} waits for task {task} at {now} although it is ahead");
        } else {
            let allowed = system.tasks[task].affinity.intersection(&lent);
            assert!(used.len() == 1 && used.is_subset(&allowed), "task {task} runs on {used} at {now}");
        }
        if slices[slice].be == partition {
            let all = system.be_start == BestEffortStart::AllDone;
            let waits = busy.iter().enumerate().any(|(i, b)| *b && (all || i == slice));
            assert!(!waits, "best-effort task {task} runs before safety-critical ones are done at {now}");
        }
    }
}
