//! Verdicts of `takt-analysis` about resources, sleeping, jobs of varying length and policies without an exact test, against the
//! simulator: what is promised is kept, and what is denied does not happen.

use proptest::collection::vec;
use proptest::prelude::*;
use takt_analysis::online::{Answer, verdict};
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::PolicySpec;
use takt_core::model::*;
use takt_core::scenario::Scenario;
use takt_core::time::Span;

/// How the jobs of a task are described.
#[derive(Clone, Debug)]
enum Shape {
    Plain,
    /// The middle of the job holds a resource.
    Locked(u16),
    /// It sleeps for so long in the middle.
    Asleep(i64),
    /// Jobs need from one unit to the runtime.
    Uniform,
    /// Jobs come up to so much later than they may.
    Sporadic(i64),
    /// It holds a resource and then the other one, too.
    Nested(u16),
    /// It has no deadline.
    Undated,
    /// Its budget differs from the runtime by so much, and varies by so much.
    Budgeted(i64, i64),
    /// No deadline, the least priority, jobs at up to so many instants, and three times the runtime.
    Batch(usize),
    /// Such a task that holds a resource.
    BatchLocked(u16),
    /// One job such as these with a budget.
    BatchBudgeted(i64, i64),
}

fn run(span: Span) -> Step {
    Step::Run(span)
}

/// Runtime, deadline, period, offset and shape, in units.
type Row = ((i64, i64, i64, i64), Shape);

fn rows(most: usize, shapes: &'static [u8]) -> impl Strategy<Value = Vec<Row>> {
    let times = (prop::sample::select(&[4i64, 5, 6, 8, 10, 12, 20, 24][..]), 0.02f64..0.6, 0.0f64..1.4, 0i64..8);
    let times = times.prop_map(|(period, load, tight, offset)| {
        let runtime = ((period as f64 * load).round() as i64).max(1);
        let deadline = if tight > 1.0 { period } else { runtime + (tight * (period - runtime) as f64) as i64 };
        (runtime, deadline, period, offset)
    });
    let shape = (prop::sample::select(shapes), 0u16..2, 1i64..4).prop_map(|(shape, resource, by)| match shape {
        1 => Shape::Locked(resource),
        2 => Shape::Asleep(by),
        3 => Shape::Uniform,
        4 => Shape::Sporadic(by),
        5 => Shape::Nested(resource),
        6 => Shape::Undated,
        7 => Shape::Budgeted(by - 2, i64::from(resource)),
        8 => Shape::Batch(by as usize),
        9 => Shape::BatchLocked(resource),
        10 => Shape::BatchBudgeted(by - 2, i64::from(resource)),
        _ => Shape::Plain,
    });
    vec((times, shape), 1..most)
}

/// One unit is so many nanoseconds; PD² has its quantum in units.
fn system(policy: PolicySpec, cpus: usize, unit: i64, rows: &[Row], offsets: bool) -> System {
    let units = |n: i64| Span::from_ns(n * unit);
    let task = |(index, ((runtime, deadline, period, offset), shape)): (usize, &Row)| {
        let offset = units(if offsets { *offset } else { 0 });
        let (length, period) = (units(*runtime), units(*period));
        let third = Span::from_ns((length.ns() / 3).max(1));
        let rest = length - third;
        let mut task = Task {
            arrival: Arrival::Periodic { offset, period },
            deadline: Some(units(*deadline)),
            runtime: Some(length),
            priority: 10 - index as u32,
            affinity: CpuSet::first(cpus),
            ..Task::default()
        };
        match *shape {
            Shape::Locked(r) if rest > Span::ZERO => {
                let resource = ResourceId(r);
                let locked = [Step::Lock(resource), run(rest), Step::Unlock(resource)];
                task.program.steps = [&[run(third)][..], &locked].concat();
            }
            Shape::Asleep(by) if rest > Span::ZERO => {
                task.program.steps = vec![run(third), Step::Sleep(units(by)), run(rest)];
            }
            Shape::Uniform => task.program.execution = Execution::Uniform { least: Span::from_ns(1), most: length },
            Shape::Sporadic(by) => task.arrival = Arrival::Sporadic { offset, period, spread: units(by) },
            Shape::Nested(r) if rest > Span::ZERO => {
                let [outer, inner] = [ResourceId(r), ResourceId(1 - r)];
                let locked = [Step::Lock(inner), run(rest), Step::Unlock(inner), Step::Unlock(outer)];
                task.program.steps = [&[Step::Lock(outer), run(third)][..], &locked].concat();
            }
            Shape::Undated => task.deadline = None,
            Shape::Budgeted(more, jitter) => {
                task.budget = Some((length + units(more)).max(units(1)));
                task.jitter = units(jitter);
            }
            Shape::Batch(_) | Shape::BatchLocked(_) | Shape::BatchBudgeted(..) => {
                let instants =
                    (0..if let Shape::Batch(jobs) = *shape { jobs as i64 } else { 1 }).map(|job| offset + period * job);
                task.arrival = Arrival::Listed { instants: instants.collect() };
                (task.deadline, task.priority, task.runtime) = (None, 0, Some(length * 3));
                if let Shape::BatchBudgeted(more, jitter) = *shape {
                    task.budget = Some(length * 3 + units(more));
                    task.jitter = units(jitter);
                }
                if let Shape::BatchLocked(r) = *shape {
                    task.program.steps = vec![Step::Lock(ResourceId(r)), run(length * 3), Step::Unlock(ResourceId(r))];
                }
            }
            _ => {}
        }
        task
    };
    let tasks = rows.iter().enumerate().map(task).collect();
    System { tasks, resources: 2, seed: 7, ..System::new(CpuSet::first(cpus), policy) }
}

fn named(name: &str) -> PolicySpec {
    PolicySpec::from_name(name).unwrap_or_else(|| panic!("no policy is called {name}"))
}

/// How many deadlines a simulation misses; `None` when the policy refuses the system, as PD² does with times below its quantum.
fn misses(system: &System, units: i64, unit: i64) -> Option<u64> {
    let mut engine = Engine::new(system.clone()).ok()?;
    takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ns(units * unit), &mut (), |_| ());
    // Under Hartstone's rule a late job counts when it ends, and one that never gets the CPU does not end.
    let late = |task: &u32| engine.job(TaskId(*task)).is_some_and(|job| job.deadline < engine.now());
    let unnoticed =
        if system.backlog == Backlog::Hartstone { (0..system.tasks.len() as u32).filter(late).count() } else { 0 };
    Some(engine.totals().missed + unnoticed as u64)
}

#[test]
fn a_job_that_starves_is_missed_under_hartstones_rule_too() {
    let rows = [((6, 6, 10, 0), Shape::Plain), ((10, 10, 24, 0), Shape::Undated), ((2, 2, 4, 0), Shape::Plain)];
    let starving = System { backlog: Backlog::Hartstone, ..system(named("fp"), 1, 100, &rows, false) };
    assert_eq!(agree(&starving, 100).unwrap(), Answer::No);
}

const HYPERPERIOD: i64 = 120;

/// A yes must be kept. A no must be seen, but where jobs come by chance: there it says what can happen.
fn agree(system: &System, unit: i64) -> Result<Answer, TestCaseError> {
    let verdict = verdict(system);
    let Some(missed) = misses(system, 4 * HYPERPERIOD, unit) else { return Ok(Answer::Unknown) };
    let by_chance = system.tasks.iter().any(|t| matches!(t.arrival, Arrival::Sporadic { .. }));
    match verdict.schedulable {
        Answer::Yes => prop_assert_eq!(missed, 0, "{}", verdict),
        Answer::No if !by_chance => prop_assert!(missed > 0, "{}", verdict),
        _ => {}
    }
    Ok(verdict.schedulable)
}

const ONE_CPU: [&str; 8] = ["edf", "np-edf", "rm", "dm", "fp", "llf", "rr", "fifo"];

const VALUED: [&str; 14] = [
    "dasa-nd", "dasa", "lbesa", "hvdf", "np-hvdf", "gus", "p-dasa", "p-lbesa", "p-gus", "g-hvdf", "gmua", "ng-gua",
    "g-gua", "c-ng-gua",
];

/// Gives each task a utility.
fn valued(system: &mut System, worth: &[u64]) {
    for (task, worth) in system.tasks.iter_mut().zip(worth) {
        task.utility = Some(takt_core::utility::Utility::Step(worth * 1_000_000));
    }
}

#[test]
fn one_cpu() {
    takt_testing::for_all(
        700,
        (
            rows(5, &[0, 0, 1, 2, 3, 4]),
            prop::sample::select(&ONE_CPU[..]),
            any::<bool>(),
            prop::sample::select(&[Locking::Fifo, Locking::Inheritance, Locking::Ceiling][..]),
            prop::sample::select(&[0i64, 0, 300, 700][..]),
        ),
        |(rows, name, offsets, locking, tick)| {
            let timing = Timing { tick: Span::from_ns(tick), ..Timing::default() };
            let system = System { locking, timing, ..system(named(name), 1, 100, &rows, offsets) };
            agree(&system, 100)?;
            Ok(())
        },
    );
}

/// Equal priorities go by release, and those of sporadic jobs drift.
#[test]
fn equals_that_come_by_chance() {
    takt_testing::for_all(
        700,
        (
            vec(
                (
                    (1i64..5, 1i64..21, 20i64..21, 0i64..2),
                    prop::sample::select(&[Shape::Plain, Shape::Sporadic(3)][..]),
                ),
                1..5,
            ),
            prop::sample::select(&["rm", "dm", "fp", "edf", "p-rm"][..]),
            any::<bool>(),
        ),
        |(rows, name, offsets)| {
            agree(&system(named(name), 1, 50, &rows, offsets), 50)?;
            Ok(())
        },
    );
}

#[test]
fn resources_on_one_cpu() {
    takt_testing::for_all(
        700,
        (rows(5, &[0, 1, 1]), prop::sample::select(&["edf", "rm", "dm", "fp"][..]), any::<bool>()),
        |(rows, name, ceiling)| {
            let locking = if ceiling { Locking::Ceiling } else { Locking::Inheritance };
            agree(&System { locking, ..system(named(name), 1, 30, &rows, false) }, 30)?;
            Ok(())
        },
    );
}

#[test]
fn jobs_that_cannot_be_preempted() {
    takt_testing::for_all(700, (rows(5, &[0]), any::<bool>()), |(rows, offsets)| {
        agree(&system(named("np-edf"), 1, 10, &rows, offsets), 10)?;
        Ok(())
    });
}

/// One that sleeps, in a hurry, behind others that are not and take long: it is held up again when it wakes up.
#[test]
fn jobs_that_sleep_and_cannot_be_preempted() {
    takt_testing::for_all(
        700,
        (
            (6i64..30, 0i64..8, 1i64..4),
            vec((2i64..10, prop::sample::select(&[40i64, 60, 120][..]), 0i64..8), 1..4),
            prop::sample::select(&["np-edf", "g-np-edf", "p-np-edf", "c-np-edf"][..]),
        ),
        |((deadline, offset, asleep), others, name)| {
            let sleeper = ((2, deadline, 40, offset), Shape::Asleep(asleep));
            let plain =
                |&(runtime, period, offset): &(i64, i64, i64)| ((runtime, period, period, offset), Shape::Plain);
            let rows: Vec<Row> = [sleeper].into_iter().chain(others.iter().map(plain)).collect();
            agree(&system(named(name), 1, 10, &rows, true), 10)?;
            Ok(())
        },
    );
}

#[test]
fn every_scope_on_one_cpu() {
    takt_testing::for_all(
        700,
        (
            rows(5, &[0, 1, 1, 5, 9]),
            prop::sample::select(&ONE_CPU[..]),
            prop::sample::select(&["", "g-", "p-", "c-"][..]),
            any::<bool>(),
            any::<bool>(),
        ),
        |(rows, name, scope, offsets, ceiling)| {
            let locking = if ceiling { Locking::Ceiling } else { Locking::Inheritance };
            agree(&System { locking, ..system(named(&format!("{scope}{name}")), 1, 30, &rows, offsets) }, 30)?;
            Ok(())
        },
    );
}

#[test]
fn batch_jobs_budgets_and_late_timers() {
    takt_testing::for_all(
        700,
        (
            rows(5, &[0, 0, 7, 8, 9, 10]),
            prop::sample::select(&["edf", "fp", "rm", "g-fp", "p-edf", "fifo"][..]),
            1usize..3,
            any::<bool>(),
            any::<bool>(),
            prop::sample::select(&[(0i64, 0i64), (0, 0), (70, 0), (0, 90), (50, 250)][..]),
        ),
        |(rows, name, cpus, offsets, locks, late)| {
            let cpus = if name.contains('-') { cpus } else { 1 };
            let mut system = system(named(name), cpus, 100, &rows, offsets);
            if locks {
                // Those with deadlines use what a batch job may hold.
                for task in system.tasks.iter_mut().filter(|t| t.deadline.is_some()) {
                    let run = run(task.runtime.expect("all have one"));
                    task.program.steps = vec![Step::Lock(ResourceId(0)), run, Step::Unlock(ResourceId(0))];
                }
            }
            let [resolution, lateness] = [late.0, late.1].map(Span::from_ns);
            system.timing = Timing { resolution, lateness, ..Timing::default() };
            agree(&system, 100)?;
            Ok(())
        },
    );
}

#[test]
fn releases_that_are_skipped() {
    takt_testing::for_all(
        700,
        (
            rows(5, &[0, 0, 4, 6, 6, 8]),
            prop::sample::select(&["edf", "rm", "fp", "rr", "llf", "g-edf", "p-fp", "g-fifo"][..]),
            1usize..3,
            any::<bool>(),
            prop::sample::select(&[Backlog::Skip, Backlog::Skip, Backlog::Hartstone, Backlog::Chronos][..]),
        ),
        |(rows, name, cpus, offsets, backlog)| {
            let cpus = if name.contains('-') { cpus } else { 1 };
            agree(&System { backlog, ..system(named(name), cpus, 100, &rows, offsets) }, 100)?;
            Ok(())
        },
    );
}

#[test]
fn optimal_policies() {
    takt_testing::for_all(
        700,
        (
            rows(8, &[0, 0, 0, 2, 3, 4]),
            1usize..4,
            any::<bool>(),
            any::<bool>(),
            prop::sample::select(&[0i64, 0, 0, 250][..]),
        ),
        |(rows, cpus, offsets, quanta, late)| {
            let mut pd2 = named("pd2");
            let quantum = pd2.profile.settings.iter().position(|s| s.name == "quantum").expect("PD² has a quantum");
            let unit = if quanta { 1_000 } else { 300 };
            pd2.values.set(quantum, Some(1_000));
            let timing = Timing { lateness: Span::from_ns(late), ..Timing::default() };
            for policy in [named("llref"), pd2] {
                agree(&System { timing, ..system(policy, cpus, unit, &rows, offsets) }, unit)?;
            }
            Ok(())
        },
    );
}

#[test]
fn policies_that_go_by_utility() {
    takt_testing::for_all(
        700,
        (
            rows(6, &[0, 0, 0, 2, 3, 4, 7]),
            1usize..4,
            prop::sample::select(&VALUED[..]),
            any::<bool>(),
            vec(0u64..1_000, 6),
            prop::sample::select(&[100i64, 100, 60, 150][..]),
            prop::sample::select(&[Late::Continue, Late::Abort, Late::AbortAtEvent][..]),
        ),
        |(rows, cpus, name, offsets, worth, declared, late)| {
            let cpus = if named(name).scope == takt_core::model::Scope::Uniprocessor { 1 } else { cpus };
            let mut system = System { late, ..system(named(name), cpus, 100, &rows, offsets) };
            valued(&mut system, &worth);
            if declared != 100 {
                // They go by what is declared, which may be more or less than what a job needs.
                for task in &mut system.tasks {
                    let need = task.runtime.expect("all have one");
                    if task.program.steps.is_empty()
                        && task.program.execution == Execution::Declared
                        && task.budget.is_none()
                    {
                        task.program.steps = vec![run(need)];
                    }
                    task.runtime = Some(need * declared / 100);
                }
            }
            agree(&system, 100)?;
            Ok(())
        },
    );
}

#[test]
fn loads_and_domains() {
    takt_testing::for_all(
        700,
        (
            rows(7, &[0, 0, 0, 1, 3, 4]),
            (
                prop::sample::select(&["g-edf", "dasa", "rm", "ng-gua"][..]),
                prop::sample::select(&["g-edf", "p-lbesa", "p-fp"][..]),
            ),
            vec(0u64..1_000, 7),
            vec(300_000u32..1_800_000, 1..4),
            any::<bool>(),
        ),
        |(rows, names, worth, factors, both)| {
            let mut system = system(named("domains"), 3, 100, &rows, false);
            valued(&mut system, &worth);
            let cpus = [CpuSet::first(1), [1, 2].into_iter().collect()];
            let tasks = |part: usize| (0..rows.len()).filter(|i| i % 2 == part).map(|i| TaskId(i as u32)).collect();
            system.domains = [names.0, names.1]
                .iter()
                .enumerate()
                .map(|(part, name)| Domain { band: 0, cpus: cpus[part], tasks: tasks(part), policy: named(name) })
                .collect();
            for (index, task) in system.tasks.iter_mut().enumerate() {
                task.affinity = cpus[index % 2];
            }
            if both {
                let points = factors.iter().enumerate().map(|(i, factor)| (Span::from_ns(i as i64 * 7_000), *factor));
                system.load = Some(Load { points: points.collect(), repeat: Some(Span::from_ns(25_000)) });
            }
            agree(&system, 100)?;
            Ok(())
        },
    );
}

/// Bands of one CPU, and of two.
#[test]
fn bands() {
    const ONE: [&str; 6] = ["edf", "fp", "rm", "rr", "np-edf", "dasa"];
    const TWO: [&str; 3] = ["g-edf", "p-fp", "g-rm"];
    let names = prop_oneof![
        4 => (Just(1usize), vec(prop::sample::select(&ONE[..]), 3)),
        1 => (Just(2usize), vec(prop::sample::select(&TWO[..]), 3)),
    ];
    let case = (rows(6, &[0, 0, 0, 1, 3, 4]), names, vec(0u64..1_000, 6), 0usize..3);
    takt_testing::for_all(1000, case, |(rows, (cpus, names), worth, late)| {
        let mut system = system(named("domains"), cpus, 100, &rows, false);
        valued(&mut system, &worth);
        system.late = [Late::Continue, Late::Continue, Late::Abort][late];
        let tasks = |part: usize| (0..rows.len()).filter(|i| i % 3 == part).map(|i| TaskId(i as u32)).collect();
        let domain = |(part, name): (usize, &&str)| Domain {
            band: 3 - part as u32,
            cpus: system.cpus,
            tasks: tasks(part),
            policy: named(name),
        };
        system.domains = names.iter().enumerate().map(domain).collect();
        agree(&system, 100)?;
        Ok(())
    });
}

/// Budgets and periods of servers that are a little more or less than what the jobs need.
#[test]
fn servers() {
    takt_testing::for_all(
        700,
        (
            rows(7, &[0, 0, 0, 2, 3, 4, 6, 8]),
            vec(
                (
                    50i64..160,
                    prop::sample::select(&[50i64, 100, 100, 100, 110][..]),
                    prop::option::weighted(0.3, 30i64..101),
                ),
                7,
            ),
            1usize..5,
            prop::sample::select(&["g-cbs", "g-cbs", "p-cbs", "c-cbs", "g-grub", "p-grub", "c-grub"][..]),
            any::<bool>(),
            any::<(bool, bool)>(),
        ),
        |(rows, reserved, cpus, name, hard, (offsets, close))| {
            let mut policy = named(name);
            policy.values.set(0, Some(i64::from(hard)));
            policy.cluster = 2;
            let mut system = system(policy, cpus, 100, &rows, offsets);
            for (task, (budget, period, within)) in system.tasks.iter_mut().zip(&reserved) {
                let (need, every) = (task.runtime.unwrap(), task.arrival.period().unwrap_or(Span::from_ns(1200)));
                let percent = if close { (*budget).clamp(100, 105) } else { *budget };
                let (budget, period) = ((need * percent / 100).max(Span::from_ns(1)), every * *period / 100);
                let mut reserved = Reservation::new(budget.min(period), period);
                if name.ends_with("cbs") {
                    reserved.deadline = within.map(|within| (period * within / 100).max(reserved.budget));
                }
                task.reservation = Some(reserved);
                if close {
                    task.deadline = task.deadline.map(|_| every.min(reserved.deadline.unwrap_or(every)));
                }
            }
            agree(&system, 100)?;
            let found = verdict(&system);
            if found.reason.contains("so the others meet their deadlines") {
                let mut engine = Engine::new(system.clone()).unwrap();
                takt_sim::simulate(
                    &mut engine,
                    &Scenario::default(),
                    Span::from_ns(400 * HYPERPERIOD),
                    &mut (),
                    |_| (),
                );
                for (id, task) in (0..).map(TaskId).zip(&system.tasks) {
                    let reserved = task.reservation.unwrap();
                    let (deadline, period) = (reserved.relative_deadline(), reserved.period);
                    // One that has just used its budget up, and comes late, has only part of the next one.
                    let part = hard && deadline < period && task.runtime == Some(reserved.budget);
                    let stays = task.program.steps.is_empty()
                        && task.runtime.unwrap() <= reserved.budget
                        && task.deadline >= Some(deadline);
                    let kept = stays && !part && task.arrival.period().is_some_and(|every| every >= period);
                    prop_assert!(!kept || engine.counts(id).missed == 0, "task {}: {}", id.0, found);
                }
            }
            Ok(())
        },
    );
}

#[test]
fn several_cpus() {
    takt_testing::for_all(
        700,
        (
            rows(7, &[0, 0, 1, 2, 3, 4]),
            2usize..4,
            prop::sample::select(&["g-edf", "g-np-edf", "p-dm", "p-np-edf", "g-fifo", "p-rr", "c-edf", "g-llf"][..]),
        ),
        |(rows, cpus, name)| {
            agree(&system(named(name), cpus, 100, &rows, false), 100)?;
            Ok(())
        },
    );
}

/// The tests say yes and no often enough for the comparison to mean something.
#[test]
fn the_tests_are_not_always_undecided() {
    let plain = |c, d, t| ((c, d, t, 0), Shape::Plain);
    let locked = |c, d, t| ((c, d, t, 0), Shape::Locked(0));
    let asleep = |c, d, t, by| ((c, d, t, 0), Shape::Asleep(by));
    for (name, cpus, rows, answer) in [
        ("dasa", 1, vec![plain(2, 5, 6), plain(6, 12, 12)], Answer::Yes),
        ("dasa", 1, vec![plain(3, 5, 6), plain(7, 12, 12)], Answer::No),
        ("ng-gua", 2, vec![plain(2, 6, 6), plain(2, 6, 6), plain(2, 6, 6), plain(4, 12, 12)], Answer::Yes),
        ("np-edf", 1, vec![plain(2, 6, 6), plain(3, 12, 12)], Answer::Yes),
        ("np-edf", 1, vec![plain(2, 6, 6), plain(7, 24, 24)], Answer::Unknown),
        ("edf", 1, vec![locked(2, 6, 6), locked(3, 12, 12)], Answer::Yes),
        ("dm", 1, vec![locked(2, 6, 6), locked(3, 12, 12)], Answer::Yes),
        ("dm", 1, vec![plain(3, 6, 6), plain(6, 11, 12)], Answer::No),
        ("rm", 1, vec![asleep(1, 6, 6, 2), plain(3, 12, 12)], Answer::Yes),
        ("rm", 1, vec![asleep(3, 6, 6, 3), plain(3, 12, 12)], Answer::Yes),
        ("rm", 1, vec![asleep(3, 6, 6, 3), plain(4, 12, 12)], Answer::Unknown),
        ("fifo", 1, vec![plain(2, 6, 6), plain(3, 12, 12)], Answer::Yes),
        ("rr", 1, vec![plain(2, 6, 6), plain(7, 12, 12)], Answer::Unknown),
        ("rr", 1, vec![plain(4, 6, 6), plain(5, 12, 12)], Answer::No),
        ("llf", 1, vec![plain(4, 6, 6), plain(5, 12, 12)], Answer::No),
        ("fifo", 1, vec![plain(5, 4, 6)], Answer::No),
        ("llref", 2, vec![plain(4, 6, 6), plain(4, 6, 6), plain(4, 6, 6)], Answer::Yes),
        ("llref", 2, vec![plain(5, 6, 6), plain(4, 6, 6), plain(4, 6, 6)], Answer::No),
        ("pd2", 2, vec![plain(4, 6, 6), plain(4, 6, 6), plain(4, 6, 6)], Answer::Yes),
        ("c-edf", 4, vec![plain(4, 6, 6)], Answer::Unknown),
    ] {
        let unit = 1_000_000;
        let mut system = System { locking: Locking::Ceiling, ..system(named(name), cpus, unit, &rows, false) };
        valued(&mut system, &[3, 1, 4, 1]);
        let found = agree(&system, unit).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found, answer, "{name} {rows:?}: {}", verdict(&system));
    }
}
