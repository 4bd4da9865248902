//! The guarantees of servers, over random ones.

use super::told::*;
use super::{by_period, schedule};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use takt_analysis::online::Answer;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::record::{Record, RecordKind};
use takt_core::rng::draw_up_to;
use takt_core::scenario::Scenario;
use takt_core::time::Span;
use takt_testing::for_all;

/// Periods in milliseconds; all divide 120.
const PERIODS: [i64; 10] = [8, 10, 12, 15, 20, 24, 30, 40, 60, 120];

/// Servers that together fill a CPU exactly. Jobs come a period apart or, if `sporadic`, at least that; those of tasks that are
/// not `soft` need at most the budget, and half of the others up to three times as much.
#[derive(Clone, Debug)]
struct Servers {
    tasks: Vec<Task>,
    soft: Vec<bool>,
}

fn servers(seed: u64, sporadic: bool) -> Servers {
    let draw = |most: u64, what: u64, which: u64| draw_up_to(most, seed, what, which);
    let n = 3 + draw(4, 0, 0);
    // Shares of a CPU in millionths, by cuts; a share of 1 / 10^6 of 120 ms in each period is a whole number of nanoseconds.
    let mut cuts: Vec<u64> = (1..n).map(|k| 20_000 + draw(960_000, 1, k)).chain([0, 1_000_000]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let shares = cuts.windows(2).map(|w| (w[1] - w[0]) as i64);
    let (mut tasks, mut soft) = (vec![], vec![]);
    for (k, share) in shares.enumerate() {
        let k = k as u64;
        let period = ms(PERIODS[draw(9, 2, k) as usize]);
        let budget = Span::from_ns(share * (period.ns() / 1_000_000));
        let is_soft = k % 2 == 1;
        let length = |job: u64| {
            let most = if is_soft && draw(1, 5, 1_000 * k + job) == 0 { 3 } else { 1 };
            Span::from_ns(1 + draw((budget.ns() * most) as u64 - 1, 6, 1_000 * k + job) as i64)
        };
        let offset = Span::from_ns(draw(period.ns() as u64, 3, k) as i64);
        let arrival = match sporadic && draw(1, 4, k) == 0 {
            false => Arrival::Periodic { offset, period },
            true => Arrival::Sporadic { offset, period, spread: period / 3 },
        };
        tasks.push(Task {
            arrival,
            runtime: Some(budget),
            deadline: Some(period),
            program: Program::needing(Execution::Series((0..40).map(length).collect())),
            ..Task::default()
        });
        soft.push(is_soft);
    }
    Servers { tasks, soft }
}

fn simulated(policy: PolicySpec, tasks: &[Task], until: Span, seed: u64) -> (Engine, Vec<Record>) {
    let system = System { tasks: tasks.to_vec(), seed, ..System::new(CpuSet::first(1), policy) };
    let mut engine = Engine::new(system).unwrap();
    let mut records = vec![];
    takt_sim::simulate(&mut engine, &Scenario::default(), until, &mut records, |_| ());
    (engine, records)
}

/// How late completed jobs of the soft servers were together, and how many they were.
fn tardiness(servers: &Servers, records: &[Record]) -> (i128, i128) {
    let mut deadlines = std::collections::HashMap::new();
    let (mut sum, mut count) = (0, 0);
    for record in records {
        match record.kind {
            RecordKind::Release { task, job, deadline } => drop(deadlines.insert((task, job), deadline.unwrap())),
            RecordKind::Finish { task, job, .. } if servers.soft[task.index()] => {
                sum += i128::from((record.at - deadlines[&(task, job)]).or_zero().ns());
                count += 1;
            }
            _ => {}
        }
    }
    (sum, count)
}

fn misses(engine: &Engine, servers: &Servers) -> u64 {
    let hard = (0..servers.tasks.len()).filter(|t| !servers.soft[*t]);
    hard.map(|t| engine.counts(TaskId(t as u32)).missed).sum()
}

/// All forms whose servers never harm each other.
fn sound() -> Vec<PolicySpec> {
    let hard = &[Some(1)][..];
    let cbs = [policy("cbs", &[]), policy("cbs", hard), policy("cbs", &[None, Some(2)])];
    cbs.into_iter().chain([policy("fcbs", &[]), policy("grub", &[]), policy("grub", hard)]).collect()
}

#[test]
fn tasks_within_their_reservations_meet_their_deadlines_beside_overruns() {
    for_all(60, any::<u64>(), |seed| {
        let servers = servers(seed, true);
        for spec in sound() {
            let (engine, _) = simulated(spec, &servers.tasks, ms(1000), seed);
            prop_assert_eq!(misses(&engine, &servers), 0, "{} {:?}", spec.profile.name, spec.values.get(0));
        }
        Ok(())
    });
}

#[test]
fn the_verdict_about_servers_is_yes_where_every_job_stays_within_its_own() {
    for_all(60, any::<u64>(), |seed| {
        let servers = servers(seed, true);
        for spec in sound() {
            // By chance all jobs may be short.
            let system = System { tasks: servers.tasks.clone(), ..System::new(CpuSet::first(1), spec) };
            let found = takt_analysis::online::verdict(&system);
            if found.schedulable == Answer::Yes {
                let (engine, _) = simulated(spec, &servers.tasks, ms(1000), seed);
                prop_assert_eq!((found.test, engine.totals().missed), ("reservation", 0));
            }
            let tasks: Vec<Task> =
                servers.tasks.iter().zip(&servers.soft).filter(|(_, s)| !**s).map(|(t, _)| t.clone()).collect();
            let system = System { tasks, ..System::new(CpuSet::first(1), spec) };
            let known = spec.profile.name != "fcbs";
            prop_assert_eq!(takt_analysis::online::verdict(&system).schedulable == Answer::Yes, known);
        }
        Ok(())
    });
}

/// 250 sets of 2 s; `TAKT_CASES=1000` makes them 1000. The servers are periodic: where more of the time is idle, CBS leaves less
/// to be won.
#[test]
fn fcbs_keeps_hard_servers_and_makes_soft_ones_less_late_and_its_literal_form_does_not() {
    let cases = std::env::var("TAKT_CASES").map_or(250, |v| v.parse().expect("a number"));
    let forms = [policy("cbs", &[]), policy("fcbs", &[]), policy("fcbs", &[Some(1)])];
    let (mut sums, mut broken) = ([(0, 0); 3], [(0, 0); 3]);
    for seed in 0..cases {
        let servers = servers(seed, false);
        for (k, form) in forms.into_iter().enumerate() {
            let (engine, records) = simulated(form, &servers.tasks, ms(2000), seed);
            let (sum, count) = tardiness(&servers, &records);
            sums[k] = (sums[k].0 + sum, sums[k].1 + count);
            let missed = misses(&engine, &servers);
            broken[k] = (broken[k].0 + u64::from(missed > 0), broken[k].1 + missed);
        }
    }
    let mean = sums.map(|(sum, count)| sum / count.max(1));
    println!(
        "sets in which a hard server misses, and its misses: {broken:?}; mean tardiness of soft jobs in ns: {mean:?}"
    );
    assert_eq!([broken[0], broken[1]], [(0, 0); 2]);
    assert!(broken[2].0 > 0, "the literal form did no harm");
    assert!(mean[1] * 4 <= mean[0] * 3, "{mean:?}");
}

#[test]
fn a_hard_server_never_has_more_than_its_budget_in_a_period() {
    for_all(60, any::<u64>(), |seed| {
        let mut servers = servers(seed, true);
        for task in &mut servers.tasks {
            // From zero on there is always work.
            let period = task.arrival.period().unwrap();
            task.arrival = Arrival::Periodic { offset: ms(0), period };
            task.program.execution = Execution::Series(vec![period * 2]);
        }
        let (_, records) = simulated(policy("cbs", &[Some(1)]), &servers.tasks, ms(500), seed);
        for (index, task) in servers.tasks.iter().enumerate() {
            within(TaskId(index as u32), task, &records)?;
        }
        Ok(())
    });
}

/// The consumption of the task in each of its periods, counted from zero, is no more than its runtime.
fn within(of: TaskId, described: &Task, records: &[Record]) -> Result<(), TestCaseError> {
    let (period, budget) = (described.arrival.period().unwrap(), described.runtime.unwrap());
    for (k, used) in by_period(of, period, records) {
        prop_assert!(used <= budget, "{:?} has {} of {} in its period {}", of, used, budget, k);
    }
    Ok(())
}

#[test]
fn with_jobs_within_their_budgets_servers_are_edf() {
    for_all(60, any::<u64>(), |seed| {
        let mut servers = servers(seed, true);
        for task in &mut servers.tasks {
            let Execution::Series(lengths) = &mut task.program.execution else { unreachable!() };
            lengths.iter_mut().for_each(|l| *l = (*l).min(task.runtime.unwrap()));
        }
        let (_, edf) = simulated(policy("edf", &[]), &servers.tasks, ms(500), seed);
        for form in [policy("cbs", &[]), policy("cbs", &[Some(1)])] {
            let (_, cbs) = simulated(form, &servers.tasks, ms(500), seed);
            prop_assert_eq!(schedule(&edf), schedule(&cbs));
        }
        // Where nothing is left over there is nothing to give.
        for task in &mut servers.tasks {
            task.program.execution = Execution::Declared;
        }
        let (_, cbs) = simulated(policy("cbs", &[]), &servers.tasks, ms(500), seed);
        let (_, fcbs) = simulated(policy("fcbs", &[]), &servers.tasks, ms(500), seed);
        prop_assert_eq!(cbs, fcbs);
        Ok(())
    });
}
