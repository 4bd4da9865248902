//! Files over all features whose verdicts a simulation tries to refute.
//!
//! A yes must have no miss, an exact no must have one, and no response may be above its bound, under several releases and execution times
//! that the file allows. `TAKT_CASES` and `TAKT_SEED` choose other cases; `cargo xtask campaign --only verdicts` draws them without end.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::cell::RefCell;
use std::collections::BTreeMap;
use takt_analysis::densest::{densest, is_placed};
use takt_analysis::online::{self, Answer, Kind, Verdict};
use takt_analysis::tardiness;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::*;
use takt_core::scenario::Scenario;
use takt_core::stats::Responses;
use takt_core::time::Span;

/// One unit of drawn times. Divided by 3 it is no whole number of nanoseconds, and PD² has no shorter quantum.
const UNIT: i64 = 1_000;
/// A multiple of all drawn periods, in units.
const HYPERPERIOD: i64 = 120;

const POLICIES: [&str; 52] = [
    "edf",
    "edf",
    "rm",
    "rm",
    "dm",
    "fp",
    "fp",
    "np-edf",
    "llf",
    "rr",
    "fifo",
    "g-edf",
    "g-edf",
    "g-rm",
    "g-fp",
    "g-dm",
    "g-rr",
    "g-fifo",
    "g-np-edf",
    "g-llf",
    "p-edf",
    "p-rm",
    "p-fp",
    "p-np-edf",
    "c-edf",
    "c-fp",
    "llref",
    "pd2",
    "edf-wm",
    "edf-cd",
    "edf-wmr",
    "g-cbs",
    "cbs",
    "p-cbs",
    "g-grub",
    "p-grub",
    "p-fcbs",
    "g-fcbs",
    "polling-server",
    "polling-server",
    "periodic-server",
    "deferrable-server",
    "sporadic-server",
    "sporadic-server",
    "p-polling-server",
    "p-sporadic-server",
    "dasa",
    "dasa-nd",
    "p-lbesa",
    "gmua",
    "ng-gua",
    "np-hvdf",
];

/// How the jobs of a task are described.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape {
    Plain,
    /// The middle of the job holds a resource.
    Locked(u16),
    /// It holds a resource and then the other one, too.
    Nested(u16),
    /// It sleeps for so long in the middle.
    Asleep(i64),
    /// Jobs need from half of the runtime to all of it.
    Uniform,
    /// It has no deadline.
    Undated,
    /// Its budget is above the runtime by so much.
    Budgeted(i64),
    /// It has no deadline, the least priority, and jobs at so many instants.
    Listed(i64),
}

#[derive(Clone, Debug)]
struct Row {
    runtime: i64,
    deadline: i64,
    period: i64,
    offset: i64,
    /// Jobs come up to so much later; 0 is periodic.
    spread: i64,
    shape: Shape,
    priority: u32,
    /// Budget and period of a reservation, in percent of runtime and period.
    reserved: Option<(i64, i64)>,
    /// It is behind the shared server.
    shares: bool,
}

#[derive(Clone, Debug)]
struct File {
    rows: Vec<Row>,
    policies: Vec<&'static str>,
    cpus: usize,
    offsets: bool,
    backlog: Backlog,
    late: Late,
    locking: Locking,
    tick: i64,
    by: i64,
    /// 0: none; 1: side by side; 2: bands.
    domains: u8,
    load: Option<u32>,
    seed: u64,
}

fn row() -> impl Strategy<Value = Row> {
    let times = (select(&[4i64, 5, 6, 8, 10, 12, 20, 24, 30][..]), 0.02f64..0.6, 0.0f64..1.8, 0i64..8);
    let shape = prop_oneof![
        12 => Just(Shape::Plain),
        2 => (0u16..2).prop_map(Shape::Locked),
        1 => (0u16..2).prop_map(Shape::Nested),
        2 => (1i64..8).prop_map(Shape::Asleep),
        1 => Just(Shape::Uniform),
        1 => Just(Shape::Undated),
        1 => (0i64..3).prop_map(Shape::Budgeted),
        1 => (1i64..4).prop_map(Shape::Listed),
    ];
    let spread = prop_oneof![3 => Just(0i64), 1 => 1i64..12];
    let reserved = prop::option::weighted(0.5, (50i64..160, select(&[50i64, 100, 100, 110][..])));
    (times, shape, spread, 0u32..4, reserved, prop::bool::weighted(0.2)).prop_map(
        |((period, load, tight, offset), shape, spread, priority, reserved, shares)| {
            let runtime = ((period as f64 * load).round() as i64).max(1);
            let deadline = match tight {
                t if t <= 0.8 => runtime + (t / 0.8 * (period - runtime) as f64) as i64,
                t if t <= 1.5 => period,
                t => period + ((t - 1.5) * 6.0 * period as f64) as i64,
            };
            Row { runtime, deadline, period, offset, spread, shape, priority, reserved, shares }
        },
    )
}

fn file() -> impl Strategy<Value = File> {
    let rules = (
        prop::bool::weighted(0.3),
        prop_oneof![6 => Just(Backlog::Queue), 1 => Just(Backlog::Skip), 1 => Just(Backlog::Chronos), 1 => Just(Backlog::Hartstone)],
        prop_oneof![4 => Just(Late::Continue), 1 => Just(Late::Abort), 1 => Just(Late::AbortAtEvent)],
        select(&[Locking::Inheritance, Locking::Ceiling, Locking::Fifo][..]),
        prop_oneof![12 => Just(0i64), 1 => Just(1i64), 1 => Just(3i64)],
        0i64..2,
        prop_oneof![6 => Just(0u8), 1 => Just(1u8), 2 => Just(2u8)],
        prop::option::weighted(0.05, 600_000u32..1_300_000),
        any::<u64>(),
    );
    (vec(row(), 1..6), vec(select(&POLICIES[..]), 3), 1usize..4, rules).prop_map(
        |(rows, policies, cpus, (offsets, backlog, late, locking, tick, by, domains, load, seed))| File {
            rows,
            policies,
            cpus,
            offsets,
            backlog,
            late,
            locking,
            tick,
            by,
            domains,
            load,
            seed,
        },
    )
}

fn units(n: i64) -> Span {
    Span::from_ns(n * UNIT)
}

fn policy(name: &str, by: i64) -> PolicySpec {
    let mut policy = PolicySpec::from_name(name).unwrap_or_else(|| panic!("no policy is called {name}"));
    for (index, setting) in policy.profile.settings.iter().enumerate() {
        match setting.name {
            "quantum" => policy.values.set(index, Some(if name == "pd2" { UNIT } else { 2 * UNIT })),
            "by" => policy.values.set(index, Some(by)),
            _ => {}
        }
    }
    policy
}

fn run(span: Span) -> Step {
    Step::Run(span)
}

fn task(row: &Row, offsets: bool, servers: bool) -> Task {
    let offset = units(if offsets { row.offset } else { 0 });
    let (runtime, period) = (units(row.runtime), units(row.period));
    let third = runtime / 3;
    let rest = runtime - third;
    let arrival = match row.spread {
        0 => Arrival::Periodic { offset, period },
        spread => Arrival::Sporadic { offset, period, spread: units(spread) },
    };
    let mut task = Task {
        arrival,
        deadline: Some(units(row.deadline)),
        runtime: Some(runtime),
        priority: row.priority,
        utility: Some(takt_core::utility::Utility::Step(1_000_000 * u64::from(row.priority + 1))),
        ..Task::default()
    };
    if let Some((budget, every)) = row.reserved {
        let every = period * every / 100;
        task.reservation = Some(Reservation::new((runtime * budget / 100).max(Span::from_ns(1)).min(every), every));
    }
    if row.shares && servers {
        (task.reservation, task.server) = (None, Some(ServerId(0)));
    }
    match row.shape {
        Shape::Plain => {}
        Shape::Locked(r) => {
            let locked = [Step::Lock(ResourceId(r)), run(rest), Step::Unlock(ResourceId(r))];
            task.program.steps = [&[run(third)][..], &locked].concat();
        }
        Shape::Nested(r) => {
            let [outer, inner] = [ResourceId(r), ResourceId(1 - r)];
            let locked = [Step::Lock(inner), run(rest), Step::Unlock(inner), Step::Unlock(outer)];
            task.program.steps = [&[Step::Lock(outer), run(third)][..], &locked].concat();
        }
        Shape::Asleep(by) => task.program.steps = vec![run(third), Step::Sleep(units(by)), run(rest)],
        Shape::Uniform => task.program.execution = Execution::Uniform { least: runtime / 2, most: runtime },
        Shape::Undated => task.deadline = None,
        Shape::Budgeted(more) => task.budget = Some(runtime + units(more)),
        Shape::Listed(jobs) => {
            task.arrival = Arrival::Listed { instants: (0..jobs).map(|job| offset + period * job).collect() };
            (task.deadline, task.priority) = (None, 0);
        }
    }
    task
}

fn system(file: &File) -> System {
    let named = policy(file.policies[0], file.by);
    let single = named.scope == Scope::Uniprocessor && !named.is_optimal() && named.splits().is_none();
    let cpus = if single && file.domains == 0 { 1 } else { file.cpus };
    let servers = file.domains == 0 && named.servers().is_some() && file.rows.iter().any(|r| r.shares);
    let all = CpuSet::first(cpus);
    let mut tasks: Vec<Task> = file.rows.iter().map(|row| task(row, file.offsets, servers)).collect();
    let mut domains = Vec::new();
    if file.domains > 0 {
        let parts = if file.domains == 1 { cpus.min(2) } else { 3 };
        let cpus = |part: usize| match file.domains {
            1 => all.iter().filter(|cpu| cpu % parts == part).collect(),
            _ => all,
        };
        for part in 0..parts {
            let tasks: Vec<TaskId> =
                (0..file.rows.len()).filter(|i| i % parts == part).map(|i| TaskId(i as u32)).collect();
            let policy = policy(file.policies[part], file.by);
            domains.push(Domain { band: (parts - part) as u32, cpus: cpus(part), tasks, policy });
        }
        for (index, task) in tasks.iter_mut().enumerate() {
            task.affinity = cpus(index % parts);
        }
    } else {
        tasks.iter_mut().for_each(|task| task.affinity = all);
    }
    let system_policy = if file.domains > 0 { policy("domains", 0) } else { named };
    let server = Server { reservation: Reservation::new(units(2), units(8)), priority: 2 };
    System {
        tasks,
        domains,
        resources: 2,
        servers: if servers { vec![server] } else { Vec::new() },
        backlog: file.backlog,
        late: file.late,
        locking: file.locking,
        timing: Timing { tick: units(file.tick) / 2, ..Timing::default() },
        load: file.load.map(|factor| Load { points: vec![(Span::ZERO, factor)], repeat: None }),
        seed: file.seed,
        ..System::new(all, system_policy)
    }
}

/// Behaviours that the file allows, with the name of each: sporadic jobs at random, or as densely as they may.
fn behaviours(system: &System) -> Vec<(&'static str, System)> {
    let mut all = vec![("as described", system.clone())];
    let later = |shift: i64| move |index: usize| units(shift * (index as i64 * 7 % 5));
    let (Some(close), Some(shifted)) = (densest(system, later(0)), densest(system, later(1))) else { return all };
    all.extend([("densest", close), ("densest, shifted", shifted)]);
    all.push(("another seed", System { seed: system.seed.wrapping_add(1), ..system.clone() }));
    all
}

/// Missed jobs and the longest response of each task in a simulation.
struct Seen {
    missed: Vec<u64>,
    longest: Vec<Span>,
}

/// `None` where the policy refuses the system.
fn simulate(system: &System, length: i64) -> Option<Seen> {
    let mut engine = Engine::new(system.clone()).ok()?;
    let mut responses = Responses::new(system.tasks.len());
    takt_sim::simulate(&mut engine, &Scenario::default(), units(length), &mut responses, |_| ());
    let ids = || (0..system.tasks.len() as u32).map(TaskId);
    // A job that has not ended has taken as long as it is old. Under Hartstone's rule it is not counted as missed yet.
    let age = |task: TaskId| engine.job(task).map_or(Span::ZERO, |job| engine.now() - job.release);
    let is_late = |task: TaskId| engine.job(task).is_some_and(|job| job.deadline < engine.now());
    let hartstone = system.backlog == Backlog::Hartstone;
    Some(Seen {
        missed: ids().map(|t| engine.counts(t).missed + u64::from(hartstone && is_late(t))).collect(),
        longest: ids().map(|t| responses.0[t.index()].max().max(age(t))).collect(),
    })
}

#[derive(Default)]
struct Tally {
    files: u32,
    said: u32,
    features: BTreeMap<&'static str, u32>,
}

/// Whether a no has to show in the densest behaviour: all tasks meet there, and none comes at listed instants only. Hartstone's rule counts misses by
/// periods, so a miss of another deadline does not show. Workload files refuse such deadlines.
fn must_show(system: &System, verdict: &Verdict) -> bool {
    let first = |t: &Task| t.arrival.earliest();
    let regular = |t: &Task| !matches!(t.arrival, Arrival::Sporadic { .. } | Arrival::Listed { .. });
    let together = system.tasks.iter().all(|t| first(t) == first(&system.tasks[0]));
    let together = together && (!is_placed(system) || system.tasks.iter().all(regular));
    let by_period = |t: &Task| t.deadline == t.arrival.period();
    let counted = system.backlog != Backlog::Hartstone || system.tasks.iter().all(by_period);
    let proven = matches!(verdict.kind, Kind::Exact | Kind::Necessary);
    together && counted && proven && verdict.utilisation.at_most(system.cpus.len() as u64) == Some(true)
}

fn check(file: &File, tally: &RefCell<Tally>) -> Result<(), TestCaseError> {
    let system = system(file);
    let length = 6 * HYPERPERIOD;
    if Engine::new(system.clone()).is_err() {
        return Ok(());
    }
    let verdict = online::verdict(&system);
    let parts = online::of_domains(&system);
    let late = tardiness::bound(&system);
    note(file, &system, &verdict, late.is_some(), &parts, tally);
    let mut missed_somewhere = false;
    for (how, behaviour) in behaviours(&system) {
        let Some(seen) = simulate(&behaviour, length) else { continue };
        let any = seen.missed.iter().any(|missed| *missed > 0);
        missed_somewhere |= any;
        prop_assert!(!(any && verdict.schedulable == Answer::Yes), "{how}: {:?} missed: {verdict}", seen.missed);
        for (index, task) in system.tasks.iter().enumerate() {
            let longest = seen.longest[index];
            if let Some(bound) = verdict.responses[index] {
                prop_assert!(longest <= bound, "{how}: task {index} responds in {longest}, above {bound}: {verdict}");
            }
            if let (Some(late), Some(deadline)) = (late.as_ref().map(|late| late[index]), task.deadline) {
                prop_assert!(
                    longest <= deadline + late,
                    "{how}: task {index} responds in {longest}, later than {late}"
                );
            }
        }
        for (domain, part) in system.domains.iter().zip(&parts) {
            let missed = domain.tasks.iter().any(|t| seen.missed[t.index()] > 0);
            prop_assert!(!(missed && part.schedulable == Answer::Yes), "{how}: {:?} missed: {part}", seen.missed);
            for task in &domain.tasks {
                let (longest, bound) = (seen.longest[task.index()], part.responses[task.index()]);
                prop_assert!(bound.is_none_or(|bound| longest <= bound), "{how}: task {} in {longest}: {part}", task.0);
            }
        }
    }
    if verdict.schedulable == Answer::No && must_show(&system, &verdict) {
        prop_assert!(missed_somewhere, "nothing is missed: {verdict}");
    }
    Ok(())
}

/// Counts which features are drawn, and how many files get a yes or a bound.
fn note(file: &File, system: &System, verdict: &Verdict, late: bool, parts: &[Verdict], tally: &RefCell<Tally>) {
    let mut tally = tally.borrow_mut();
    tally.files += 1;
    let says = |v: &Verdict| v.schedulable == Answer::Yes || v.responses.iter().any(Option::is_some);
    tally.said += u32::from(says(verdict) || late || parts.iter().any(says));
    let shaped = |shape: fn(&Shape) -> bool| file.rows.iter().any(|row| shape(&row.shape));
    let served = system.policy.servers().is_some() && system.tasks.iter().any(|t| t.reservation.is_some());
    let features = [
        ("one CPU", system.cpus.len() == 1),
        ("several CPUs", system.cpus.len() > 1),
        ("domains", file.domains == 1),
        ("bands", file.domains == 2),
        ("offsets", file.offsets),
        ("sporadic", file.rows.iter().any(|row| row.spread > 0)),
        ("resources", shaped(|s| matches!(s, Shape::Locked(_) | Shape::Nested(_)))),
        ("suspension", shaped(|s| matches!(s, Shape::Asleep(_)))),
        ("varying execution", shaped(|s| *s == Shape::Uniform)),
        ("budgets", shaped(|s| matches!(s, Shape::Budgeted(_)))),
        ("listed instants", shaped(|s| matches!(s, Shape::Listed(_)))),
        ("deadlines beyond periods", file.rows.iter().any(|row| row.deadline > row.period)),
        ("backlog", system.backlog != Backlog::Queue),
        ("late", system.late != Late::Continue),
        ("tick", file.tick > 0),
        ("load", file.load.is_some()),
        ("servers", served),
        ("shared servers", !system.servers.is_empty()),
        ("reservations", system.policy.reservations().is_some()),
        ("splits", system.policy.splits().is_some()),
        ("overload", verdict.utilisation.at_most(system.cpus.len() as u64) == Some(false)),
    ];
    features.into_iter().for_each(|(name, has)| *tally.features.entry(name).or_default() += u32::from(has));
}

#[test]
fn no_verdict_is_refuted_by_simulation() {
    let tally = RefCell::new(Tally::default());
    takt_testing::for_all(1_000, file(), |file| check(&file, &tally));
    let tally = tally.into_inner();
    println!("{} files, {} with a yes or a bound: {:?}", tally.files, tally.said, tally.features);
    let Tally { files, said, features } = tally;
    if files >= 500 {
        assert!(said * 10 >= files * 3, "only {said} of {files} files get a yes or a bound");
        for (feature, count) in features {
            assert!(count * 100 >= files, "only {count} of {files} files have {feature}");
        }
    }
}
