//! The schedulability tests against the simulator: what is proved must be seen.

use proptest::collection::vec;
use proptest::prelude::*;
use takt_analysis::online::{Answer, Kind, Verdict, verdict};
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::stats::{Counts, Responses};
use takt_core::time::Span;

/// Runtime, deadline, period and offset; deadlines from the runtime to `stretch` times the period.
fn tasks(stretch: i64, most: usize) -> impl Strategy<Value = Vec<[i64; 4]>> {
    let times = (prop::sample::select(&[2i64, 3, 4, 5, 6, 8, 10, 12][..]), 0.02f64..0.7, 0.0f64..1.6);
    let task = times.prop_map(move |(period, load, tight)| {
        let runtime = ((period as f64 * load).round() as i64).max(1);
        let longest = stretch * period;
        // Above 1 the deadline is the period: those sets deserve more than a rare visit.
        let deadline = if tight > 1.0 { period } else { runtime + (tight * (longest - runtime) as f64) as i64 };
        [runtime, deadline, period, 0]
    });
    vec(task, 1..most)
}

fn system(policy: &str, cpus: usize, tasks: &[[i64; 4]], priorities: &[u32]) -> System {
    System {
        tasks: (tasks.iter().enumerate())
            .map(|(i, &[runtime, deadline, period, offset])| Task {
                arrival: Arrival::Periodic { offset: Span::from_ns(offset), period: Span::from_ns(period) },
                deadline: Some(Span::from_ns(deadline)),
                runtime: Some(Span::from_ns(runtime)),
                priority: priorities.get(i).copied().unwrap_or(0),
                affinity: CpuSet::first(cpus),
                ..Task::default()
            })
            .collect(),
        ..System::new(CpuSet::first(cpus), PolicySpec::from_name(policy).unwrap())
    }
}

/// The verdict, and two hyperperiods and some of simulation.
fn both(system: &System) -> (Verdict, Counts, Vec<Span>) {
    let verdict = verdict(system);
    let mut engine = Engine::new(system.clone()).unwrap();
    let mut responses = Responses::new(system.tasks.len());
    let duration = verdict.hyperperiod.unwrap() * 2 + Span::from_ns(30);
    takt_sim::simulate(&mut engine, &takt_core::scenario::Scenario::default(), duration, &mut responses, |_| ());
    (verdict, engine.totals(), responses.0.iter().map(|h| h.max()).collect())
}

/// An exact answer must be what is seen, and a sufficient yes too.
fn agree(system: &System) -> Result<Verdict, TestCaseError> {
    let (verdict, counts, seen) = both(system);
    match verdict.schedulable {
        Answer::Yes => prop_assert_eq!(counts.missed, 0, "{}", verdict),
        Answer::No => prop_assert!(counts.missed > 0, "{}", verdict),
        Answer::Unknown => {}
    }
    // Among equals whose releases meet at some times only, each is taken to wait for the others.
    let period = |t: &Task| t.arrival.period();
    let equals = |a: &Task, b: &Task| a.priority == b.priority && period(a) != period(b);
    let named = system.policy.profile.name == "fp";
    let wait = named && system.tasks.iter().any(|a| system.tasks.iter().any(|b| equals(a, b)));
    let exact = verdict.kind == Kind::Exact && !wait;
    for (bound, seen) in verdict.responses.iter().zip(seen) {
        if let (Some(bound), Answer::Yes) = (bound, verdict.schedulable) {
            prop_assert!(seen <= *bound, "a response of {} above {}", seen, bound);
            prop_assert!(!exact || seen == *bound, "a response of {} below {}", seen, bound);
        }
    }
    Ok(verdict)
}

#[test]
fn edf_on_one_cpu_is_exact() {
    takt_testing::for_all(1500, tasks(1, 6), |tasks| {
        prop_assert!(agree(&system("edf", 1, &tasks, &[]))?.schedulable != Answer::Unknown);
        Ok(())
    });
}

#[test]
fn edf_with_deadlines_beyond_the_periods_is_no_promise_too_much() {
    takt_testing::for_all(1500, tasks(3, 6), |tasks| {
        let system = system("edf", 1, &tasks, &[]);
        let verdict = verdict(&system);
        prop_assert_eq!(verdict.kind, Kind::Exact);
        // An overload may take long to show with long deadlines.
        if verdict.utilisation.at_most(1) == Some(true) {
            agree(&system)?;
        }
        Ok(())
    });
}

#[test]
fn rate_monotonic_on_one_cpu_is_exact() {
    takt_testing::for_all(1500, tasks(1, 6), |tasks| {
        prop_assert!(agree(&system("rm", 1, &tasks, &[]))?.schedulable != Answer::Unknown);
        Ok(())
    });
}

#[test]
fn distinct_priorities_on_one_cpu_are_exact() {
    takt_testing::for_all(1500, (tasks(1, 6), Just([0u32, 1, 2, 3, 4]).prop_shuffle()), |(tasks, order)| {
        prop_assert!(agree(&system("fp", 1, &tasks, &order))?.schedulable != Answer::Unknown);
        Ok(())
    });
}

#[test]
fn ties_offsets_and_long_deadlines_are_no_promise_too_much() {
    takt_testing::for_all(
        1500,
        (tasks(2, 6), vec(0i64..12, 6), vec(0u32..3, 6), prop::sample::select(&["fp", "rm", "edf"][..])),
        |(mut tasks, offsets, priorities, policy)| {
            tasks.iter_mut().zip(&offsets).for_each(|(task, offset)| task[3] = *offset);
            let system = system(policy, 1, &tasks, &priorities);
            if verdict(&system).schedulable == Answer::Yes {
                agree(&system)?;
            }
            Ok(())
        },
    );
}

#[test]
fn several_cpus() {
    takt_testing::for_all(
        1500,
        (tasks(1, 9), 2usize..4, prop::sample::select(&["p-edf", "p-rm", "g-edf", "g-rm"][..])),
        |(tasks, cpus, policy)| {
            let verdict = agree(&system(policy, cpus, &tasks, &[]))?;
            prop_assert!(policy.starts_with('g') || verdict.schedulable != Answer::Unknown);
            Ok(())
        },
    );
}
