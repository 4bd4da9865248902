//! Fixed priorities for task sets that state none.
//!
//! * By period: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment", JACM 20(1), 1973.
//! * By deadline: Leung and Whitehead, "On the Complexity of Fixed-Priority Scheduling of Periodic, Real-Time Tasks", Performance
//!   Evaluation 2(4), 1982.
//! * Optimal priority assignment (OPA): Audsley, "On Priority Assignment in Fixed Priority Scheduling", Information Processing
//!   Letters 79(1), 2001. It is optimal with respect to a test that depends on the *set* of the tasks with higher priorities alone.
//!   On one CPU the exact response times are such a test. On several it is DA-LC, the deadline analysis with limited carry-in
//!   (Davis and Burns, "Improved Priority Assignment for Global Fixed Priority Pre-emptive Scheduling in Multiprocessor
//!   Real-Time Systems", Real-Time Systems 47, 2011). Response-time analysis (RTA-LC, and the tests `grm-rta` and `gdm-rta`) is not,
//!   since it uses the response times of the tasks above, which depend on their order.

use crate::generate;
use crate::homes::homes;
use crate::parts;
use crate::taskset::Task;
use crate::tests::{Above, Effort, Search, deadline_analysis, response};
use takt_core::model::{self, PolicySpec, Scope, System};
use takt_core::time::Span;

/// A rule that assigns priorities.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The shorter the period, the higher; equal periods have equal priorities.
    #[default]
    RateMonotonic,
    /// The shorter the relative deadline, the higher; equal deadlines have equal priorities.
    DeadlineMonotonic,
    /// By Audsley's algorithm, for the CPUs that share a ready queue.
    Optimal,
    /// In an order drawn evenly.
    Random,
}

impl Rule {
    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Rule::RateMonotonic => "rm",
            Rule::DeadlineMonotonic => "dm",
            Rule::Optimal => "opa",
            Rule::Random => "random",
        }
    }
}

/// The reason for which Audsley's algorithm assigned no priorities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unassigned {
    /// No order passes the test.
    NoOrder,
    /// The test is not made for such tasks.
    Beyond(&'static str),
    /// The test takes too long.
    Search,
}

impl std::fmt::Display for Unassigned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unassigned::NoOrder => "no order of priorities passes the test",
            Unassigned::Beyond(why) => why,
            Unassigned::Search => "the test takes too long",
        })
    }
}

/// Reports whether a policy of the system, or of one of its domains, ranks tasks by their priorities.
#[must_use]
pub fn matter(system: &System) -> bool {
    let policies = system.domains.iter().map(|domain| &domain.policy).chain([&system.policy]);
    policies.into_iter().any(PolicySpec::ranks_by_priority)
}

/// Gives all tasks priorities from 1 (the lowest) up, for the policy and the CPUs of the system. Tasks are taken to be periodic or
/// sporadic, with a common release.
///
/// Random ones are drawn by (`seed`, `set`). O(n log n) for n tasks; O(n²) tests for [`Rule::Optimal`].
///
/// # Errors
/// Fails if [`Rule::Optimal`] finds none on some CPUs that share a ready queue. The tasks there have deadline-monotonic ones.
pub fn assign(system: &mut System, rule: Rule, seed: u64, set: u64) -> Result<(), Unassigned> {
    match rule {
        Rule::RateMonotonic => by_key(&mut system.tasks, |t| t.arrival.period()),
        Rule::DeadlineMonotonic | Rule::Optimal => by_key(&mut system.tasks, |t| t.deadline),
        Rule::Random => {
            let order = generate::order(system.tasks.len(), seed, set);
            (1..).zip(order).for_each(|(priority, task)| system.tasks[task].priority = priority);
        }
    }
    if rule != Rule::Optimal {
        return Ok(());
    }
    if system.domains.is_empty() {
        return optimal(system);
    }
    let mut outcome = Ok(());
    for (index, mut part) in parts::domains(system).into_iter().enumerate() {
        outcome = outcome.and(optimal(&mut part));
        for task in &system.domains[index].tasks {
            system.tasks[task.index()].priority = part.tasks[task.index()].priority;
        }
    }
    outcome
}

/// Equal keys have equal priorities; the longest, or none, is the lowest.
fn by_key(tasks: &mut [model::Task], key: impl Fn(&model::Task) -> Option<Span>) {
    let key = |task: &model::Task| key(task).unwrap_or(Span::MAX);
    let mut keys: Vec<Span> = tasks.iter().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    for task in tasks {
        let shorter = keys.partition_point(|k| *k < key(task));
        task.priority = (keys.len() - shorter) as u32;
    }
}

/// Audsley's algorithm for each group of tasks that share a ready queue.
fn optimal(system: &mut System) -> Result<(), Unassigned> {
    let all = system.cpus.len();
    let size = match system.policy.scope {
        Scope::Partitioned => 1,
        Scope::Clustered => usize::from(system.policy.cluster).max(1),
        Scope::Uniprocessor | Scope::Global | Scope::Table => all,
    };
    // The placement sees deadline-monotonic priorities. Where deadlines are within the periods these are as good as any on one CPU
    // (Leung and Whitehead), so tasks that it accepts there are accepted under the optimal ones, too.
    let home = if size < all { homes(system) } else { vec![0; system.tasks.len()] };
    let mut outcome = Ok(());
    for cluster in 0..all.div_ceil(size) {
        let cpus = size.min(all - cluster * size) as u64;
        let members: Vec<usize> = (0..home.len()).filter(|t| usize::from(home[*t]) == cluster).collect();
        match order(system, &members, cpus) {
            Ok(order) => (1..).zip(order).for_each(|(priority, task)| system.tasks[task].priority = priority),
            Err(why) => outcome = outcome.and(Err(why)),
        }
    }
    outcome
}

/// The members by their priorities, the lowest first.
///
/// Each priority from the lowest up goes to a task that passes the test with all tasks left above it. The longest deadline is tried
/// first, so that a deadline-monotonic order that passes is kept.
fn order(system: &System, members: &[usize], cpus: u64) -> Result<Vec<usize>, Unassigned> {
    // In nanoseconds: the analyses count in the least unit of time.
    let times = |&index: &usize| {
        let task = &system.tasks[index];
        let spans = [task.runtime?, task.deadline?, task.arrival.period()?].map(|span| u64::try_from(span.ns()).ok());
        let [Some(runtime), Some(deadline), Some(period)] = spans else { return None };
        Some((index, Task { runtime, deadline, period }))
    };
    let found: Option<Vec<(usize, Task)>> = members.iter().map(times).collect();
    let mut left = found.ok_or(Unassigned::Beyond("a task has no runtime, deadline or period"))?;
    if cpus > 1 && left.iter().any(|(_, t)| t.deadline > t.period) {
        return Err(Unassigned::Beyond("a deadline is beyond the period"));
    }
    left.sort_by_key(|(index, task)| (task.deadline, *index));
    let mut effort = Effort::default();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let mut chosen = None;
        for place in (0..left.len()).rev() {
            let above = || left.iter().enumerate().filter(|(other, _)| *other != place).map(|(_, (_, task))| *task);
            let (_, task) = &left[place];
            if !effort.spend(left.len()) {
                return Err(Unassigned::Search);
            }
            let passes = match cpus {
                1 => {
                    let above: Vec<Above> = above().map(|task| Above::from(&task)).collect();
                    let search = Search { until_late: true, ..Search::default() };
                    let found = response(task, above.iter().copied(), search, &mut effort);
                    found.is_some_and(|found| found.worst <= task.deadline)
                }
                _ => deadline_analysis(task, above(), cpus),
            };
            if passes {
                chosen = Some(place);
                break;
            }
        }
        let (index, _) = left.remove(chosen.ok_or(Unassigned::NoOrder)?);
        order.push(index);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::cpus::CpuSet;
    use takt_core::model::Arrival;

    fn system(policy: &str, cpus: usize, tasks: &[(i64, i64, i64)]) -> System {
        let task = |&(runtime, deadline, period): &(i64, i64, i64)| model::Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_us(period) },
            deadline: Some(Span::from_us(deadline)),
            runtime: Some(Span::from_us(runtime)),
            ..model::Task::default()
        };
        let policy = PolicySpec::from_name(policy).unwrap();
        System { tasks: tasks.iter().map(task).collect(), ..System::new(CpuSet::first(cpus), policy) }
    }

    fn assigned(system: &mut System, rule: Rule) -> (Result<(), Unassigned>, Vec<u32>) {
        let outcome = assign(system, rule, 7, 3);
        (outcome, system.tasks.iter().map(|t| t.priority).collect())
    }

    #[test]
    fn equal_keys_have_equal_priorities() {
        let mut system = system("fp", 1, &[(1, 9, 30), (1, 8, 10), (1, 9, 10), (1, 7, 40)]);
        assert_eq!(assigned(&mut system, Rule::RateMonotonic), (Ok(()), vec![2, 3, 3, 1]));
        assert_eq!(assigned(&mut system, Rule::DeadlineMonotonic), (Ok(()), vec![1, 2, 1, 3]));
        let (outcome, mut drawn) = assigned(&mut system, Rule::Random);
        assert_eq!(assigned(&mut system, Rule::Random), (outcome, drawn.clone()));
        drawn.sort_unstable();
        assert_eq!(drawn, [1, 2, 3, 4]);
    }

    /// With a deadline beyond the period the deadline-monotonic order fails and another one does not (Lehoczky, RTSS 1990).
    #[test]
    fn audsley_finds_an_order_on_one_cpu_that_is_not_deadline_monotonic() {
        // By deadlines the first task is above, and the first job of the second ends at 156. The other way round both are in time.
        let mut late = system("fp", 1, &[(52, 110, 100), (52, 154, 140)]);
        assert_eq!(assigned(&mut late, Rule::Optimal), (Ok(()), vec![1, 2]));
        assert_eq!(assigned(&mut late, Rule::DeadlineMonotonic).1, [2, 1]);
    }

    /// Dhall's effect: a heavy task with the longest deadline cannot have the lowest priority.
    #[test]
    fn audsley_finds_an_order_on_two_cpus_that_is_not_deadline_monotonic() {
        let dhall = [(2, 10, 10), (2, 10, 10), (11, 12, 12)];
        let mut global = system("g-fp", 2, &dhall);
        let (outcome, priorities) = assigned(&mut global, Rule::Optimal);
        assert_eq!(outcome, Ok(()));
        assert!(priorities[2] > 1, "{priorities:?}");
        assert_eq!(assigned(&mut global, Rule::DeadlineMonotonic).1, [2, 2, 1]);
        // Placed, the heavy task has a CPU of its own.
        let mut placed = system("p-fp", 2, &dhall);
        assert_eq!(assigned(&mut placed, Rule::Optimal), (Ok(()), vec![2, 1, 1]));
    }

    #[test]
    fn without_an_order_priorities_are_deadline_monotonic() {
        let mut over = system("g-fp", 2, &[(9, 10, 10), (9, 11, 11), (9, 12, 12)]);
        assert_eq!(assigned(&mut over, Rule::Optimal), (Err(Unassigned::NoOrder), vec![3, 2, 1]));
        let mut beyond = system("g-fp", 2, &[(1, 30, 10), (1, 11, 11)]);
        let why = Unassigned::Beyond("a deadline is beyond the period");
        assert_eq!(assigned(&mut beyond, Rule::Optimal), (Err(why), vec![1, 2]));
    }

    #[test]
    fn a_clusters_tasks_are_ordered_by_themselves() {
        let mut clustered = system("c-fp", 3, &[(9, 10, 10), (9, 10, 10), (5, 10, 10)]);
        clustered.policy.cluster = 2;
        let (outcome, priorities) = assigned(&mut clustered, Rule::Optimal);
        assert_eq!((outcome, priorities), (Ok(()), vec![2, 1, 1]));
    }
}
