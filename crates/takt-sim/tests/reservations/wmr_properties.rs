//! The guarantees of servers that are split over CPUs.

use super::told::*;
use super::{by_period, schedule};
use proptest::prelude::*;
use takt_analysis::generate::Generator;
use takt_analysis::online::Answer;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::*;
use takt_core::model::{Placement, PolicySpec};
use takt_core::policies::split::{Routes, Stop};
use takt_core::policy::{Build, Registry};
use takt_core::record::{Place, Record, RecordKind};
use takt_core::rng::draw_up_to;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_testing::for_all;

/// How jobs of a soft task misbehave; those of a hard one need at most their budgets and come a period apart or later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Hard, and every job needs its budget.
    Full,
    /// Hard, of any length.
    Short,
    /// Up to three times as long, and sometimes later.
    Overruns,
    /// Jobs come as often as twice in a period.
    Hurries,
    /// Jobs run, sleep and run on.
    Sleeps,
}

impl Kind {
    fn is_hard(self) -> bool {
        matches!(self, Kind::Full | Kind::Short)
    }
}

/// A set of AIRS's generator with total utilisation `total` in millionths, whose tasks are of kinds drawn from `kinds`.
fn set(total: u64, seed: u64, number: u64, kinds: &[Kind]) -> (Vec<Task>, Vec<Kind>) {
    let rows = Generator::AIRS.set(total, seed, number).unwrap();
    let kind = |index: u64| kinds[draw_up_to(kinds.len() as u64 - 1, seed ^ 0x77, number, index) as usize];
    let described = |(index, row): (usize, &takt_analysis::taskset::Task)| {
        let us = |us: u64| Span::from_us(us as i64);
        let (index, budget, period) = (index as u64, us(row.runtime), us(row.period));
        task(kind(index), budget, period, seed ^ (number << 20) ^ (index << 8))
    };
    let tasks: Vec<Task> = rows.iter().enumerate().map(described).collect();
    let kinds = (0..tasks.len() as u64).map(kind).collect();
    (tasks, kinds)
}

fn task(kind: Kind, budget: Span, period: Span, seed: u64) -> Task {
    let draw = |most: i64, what: u64, which: u64| Span::from_ns(draw_up_to(most as u64, seed, what, which) as i64);
    let length = |most: i64| move |job: u64| Span::from_ns(1) + draw(most - 1, 1, job);
    let series = |most: i64| Execution::Series((0..50).map(length(most)).collect());
    let offset = draw(period.ns(), 2, 0);
    let steadily = if draw(1, 3, 0) == Span::ZERO {
        Arrival::Periodic { offset, period }
    } else {
        Arrival::Sporadic { offset, period, spread: period / 2 }
    };
    let reservation = Some(Reservation::new(budget, period));
    let hard = Task { runtime: Some(budget), deadline: Some(period), reservation, ..Task::default() };
    match kind {
        Kind::Full => Task { arrival: steadily, ..hard },
        Kind::Short => Task { arrival: steadily, program: Program::needing(series(budget.ns())), ..hard },
        Kind::Overruns => Task { arrival: steadily, program: Program::needing(series(3 * budget.ns())), ..hard },
        Kind::Hurries => {
            let often = Arrival::Sporadic { offset, period: period / 2, spread: period };
            Task { arrival: often, program: Program::needing(series(budget.ns())), ..hard }
        }
        Kind::Sleeps => {
            let part = |which: u64| Span::from_ns(1) + draw(budget.ns(), 4, which);
            let sleep = |which: u64| Step::Sleep(Span::from_ns(1) + draw(period.ns() / 2, 5, which));
            let steps = vec![Step::Run(part(0)), sleep(0), Step::Run(part(1)), sleep(1), Step::Run(part(2))];
            Task { arrival: steadily, program: Program::doing(steps), ..hard }
        }
    }
}

fn system(cpus: usize, name: &str, placement: &str, tasks: &[Task], seed: u64) -> System {
    let policy = PolicySpec { placement: Placement::from_name(placement).unwrap(), ..policy(name, &[]) };
    System { tasks: tasks.to_vec(), seed, ..System::new(CpuSet::first(cpus), policy) }
}

fn routes(system: &System) -> Routes {
    Build::whole(system, &Registry::default(), Routes::of_servers).unwrap()
}

/// How many tasks are split; `None` if the set is refused.
fn split(system: &System) -> Option<usize> {
    let routes = routes(system);
    let split = (0..system.tasks.len() as u32).filter(|t| routes.of(TaskId(*t)).len() > 1).count();
    routes.refused.is_empty().then_some(split)
}

fn run(system: System, length: Span) -> (Engine, Vec<Record>) {
    let mut engine = Engine::new(system).unwrap();
    let mut records = vec![];
    takt_sim::simulate(&mut engine, &Scenario::default(), length, &mut records, |_| ());
    (engine, records)
}

const PLACEMENTS: [&str; 3] = ["ff", "wf", "ffd"];

/// Sets with a split task that the assignment accepts, on four CPUs, with all kinds of soft tasks beside hard ones, which never
/// miss. `TAKT_CASES` says how many, `TAKT_SEED` which. Each is run for 20 s, or a second below a thousand cases.
#[test]
fn tasks_within_their_reservations_meet_their_deadlines_on_several_cpus() {
    let (cases, seed) = (u64::from(takt_testing::cases(100)), takt_testing::seed());
    let length = Span::from_secs(if cases < 1_000 { 1 } else { 20 });
    let mixes: [&[Kind]; 5] = [
        &[Kind::Full],
        &[Kind::Short],
        &[Kind::Full, Kind::Overruns],
        &[Kind::Full, Kind::Short, Kind::Hurries, Kind::Sleeps],
        &[Kind::Full, Kind::Short, Kind::Overruns, Kind::Hurries, Kind::Sleeps],
    ];
    let (mut done, mut soft, mut migrations) = (0, 0, 0);
    for number in 0.. {
        if done == cases {
            break;
        }
        let total = 3_200_000 + 50_000 * (number % 12);
        let (tasks, kinds) = set(total, seed, number, mixes[(number % 5) as usize]);
        let placement = PLACEMENTS[(number % 3) as usize];
        let system = system(4, "edf-wmr", placement, &tasks, seed);
        if split(&system).is_none_or(|split| split == 0) {
            continue;
        }
        let all_hard = kinds.iter().all(|kind| kind.is_hard());
        let found = takt_analysis::online::verdict(&system);
        assert_eq!(found.schedulable == Answer::Yes, all_hard, "{found}");
        let mut engine = Engine::new(system).unwrap();
        takt_sim::simulate(&mut engine, &Scenario::default(), length, &mut (), |_| ());
        let missed = |hard: bool| -> u64 {
            let of = (0..tasks.len()).filter(|t| kinds[*t].is_hard() == hard);
            of.map(|t| engine.counts(TaskId(t as u32)).missed).sum()
        };
        assert_eq!(
            missed(true),
            0,
            "{placement}, set {number} at {total}; repeat with TAKT_SEED={seed} TAKT_CASES={cases}"
        );
        (done, soft, migrations) = (done + 1, soft + missed(false), migrations + engine.totals().migrations);
    }
    println!("{done} sets, {migrations} migrations, {soft} soft misses");
    assert!(soft > 0 && migrations > 0, "nothing was tried");
}

#[test]
fn with_jobs_that_use_their_budgets_servers_are_edf_wm() {
    let mut splits = 0;
    for number in 0..60 {
        let (tasks, _) = set(3_000_000 + 60_000 * (number % 12), 1, number, &[Kind::Full]);
        for placement in PLACEMENTS {
            let servers = system(4, "edf-wmr", placement, &tasks, 1);
            if let Some(split) = split(&servers) {
                splits += split;
                let (_, wmr) = run(servers, Span::from_secs(1));
                let (_, wm) = run(system(4, "edf-wm", placement, &tasks, 1), Span::from_secs(1));
                assert_eq!(schedule(&wmr), schedule(&wm), "{placement}, set {number}");
            }
        }
    }
    assert!(splits > 20, "{splits} tasks were split");
}

/// The time that each CPU gave split servers before their last CPUs beyond their pieces, and what the jobs of others left of their
/// budgets there until then. Gifts are budgets that others did not use, and not more.
struct Ledger<'a> {
    system: &'a System,
    routes: &'a Routes,
    /// By task: where it runs and since when, and how long it has run in which window.
    running: Vec<Option<(Place, Time)>>,
    ran: Vec<((i64, Place), Span)>,
    /// By task: the rest of its budget.
    rest: Vec<Span>,
    /// By CPU.
    given: Vec<Span>,
    left: Vec<Span>,
}

impl Ledger<'_> {
    fn stop_on(&self, task: TaskId, place: Place) -> (Stop, bool) {
        let route = self.routes.of(task);
        let at = route.iter().position(|stop| stop.place == place).expect("tasks keep to their routes");
        (route[at], route.len() > 1 && at + 1 < route.len())
    }

    /// The task ran until now.
    fn account(&mut self, task: TaskId, now: Time) -> Result<(), TestCaseError> {
        let Some((place, since)) = self.running[task.index()] else { return Ok(()) };
        let ran = now - since;
        self.running[task.index()] = Some((place, now));
        self.rest[task.index()] -= ran;
        let (stop, waits) = self.stop_on(task, place);
        if !waits {
            return Ok(());
        }
        // All tasks are periodic from zero on, so their periods are those of the routes, but for jobs that continue in later ones.
        let period = self.system.tasks[task.index()].arrival.period().unwrap();
        let window = (since.ns() / period.ns(), place);
        let (last, total) = &mut self.ran[task.index()];
        if *last != window {
            (*last, *total) = (window, Span::ZERO);
        }
        let before = (*total - stop.piece).or_zero();
        *total += ran;
        let more = (*total - stop.piece).or_zero() - before;
        self.given[place.index()] += more;
        let (given, left) = (self.given[place.index()], self.left[place.index()]);
        prop_assert!(given <= left, "{:?} at {:?}: {} given of {} left on {:?}", task, now, given, left, place);
        Ok(())
    }
}

#[test]
fn gifts_are_what_others_have_left() {
    let any_given = std::cell::Cell::new(Span::ZERO);
    for_all(200, any::<u64>(), |seed| {
        let (mut tasks, kinds) = set(3_300_000 + 50_000 * (seed % 8), seed, 0, &[Kind::Short]);
        for task in &mut tasks {
            let period = task.arrival.period().unwrap();
            task.arrival = Arrival::Periodic { offset: Span::ZERO, period };
        }
        let found = system(4, "edf-wmr", PLACEMENTS[(seed % 3) as usize], &tasks, seed);
        if split(&found).is_none_or(|split| split == 0) {
            return Ok(());
        }
        let routes = routes(&found);
        // Split servers always have work.
        for (index, task) in tasks.iter_mut().enumerate() {
            if routes.of(TaskId(index as u32)).len() > 1 {
                task.program.execution = Execution::Series(vec![task.arrival.period().unwrap()]);
            }
        }
        let found = System { tasks: tasks.clone(), ..found };
        let (_, records) = run(found.clone(), Span::from_secs(1));
        let n = kinds.len();
        let mut ledger = Ledger {
            system: &found,
            routes: &routes,
            running: vec![None; n],
            ran: vec![((-1, Place(0)), Span::ZERO); n],
            rest: vec![Span::ZERO; n],
            given: vec![Span::ZERO; 4],
            left: vec![Span::ZERO; 4],
        };
        for Record { at, kind: what, .. } in &records {
            match *what {
                RecordKind::Start { task, place, .. } => ledger.running[task.index()] = Some((place, *at)),
                RecordKind::Stop { task, .. } => {
                    ledger.account(task, *at)?;
                    ledger.running[task.index()] = None;
                }
                RecordKind::Budget { task, amount: Some(amount), .. } => {
                    ledger.account(task, *at)?;
                    ledger.rest[task.index()] = amount;
                }
                RecordKind::Finish { task, consumed, .. } => {
                    // Before what it leaves counts.
                    (0..n).try_for_each(|t| ledger.account(TaskId(t as u32), *at))?;
                    // A split server that has had a piece in advance leaves what its job did not need.
                    if let (2.., Some((place, _))) = (routes.of(task).len(), ledger.running[task.index()]) {
                        ledger.left[place.index()] += ledger.rest[task.index()].or_zero();
                    }
                    if let [stop] = routes.of(task) {
                        let left = &mut ledger.left[stop.place.index()];
                        *left += stop.piece - consumed.nominal_time();
                    }
                }
                _ => {}
            }
        }
        let given = ledger.given.iter().fold(Span::ZERO, |sum, given| sum + *given);
        any_given.set(any_given.get() + given);
        Ok(())
    });
    assert!(any_given.get() > Span::ZERO, "no task had a gift");
}

#[test]
fn a_split_server_that_always_has_work_gets_its_budget_for_every_period() {
    let mut splits = 0;
    for number in 0..120 {
        let (mut tasks, _) = set(3_200_000 + 50_000 * (number % 10), 3, number, &[Kind::Full, Kind::Overruns]);
        for task in &mut tasks {
            let period = task.arrival.period().unwrap();
            task.arrival = Arrival::Periodic { offset: Span::ZERO, period };
        }
        let mut found = system(4, "edf-wmr", PLACEMENTS[(number % 3) as usize], &tasks, 3);
        if split(&found).is_none() {
            continue;
        }
        let routes = routes(&found);
        let is_split = |t: &usize| routes.of(TaskId(*t as u32)).len() > 1;
        for index in (0..tasks.len()).filter(is_split) {
            let task = &mut found.tasks[index];
            task.program.execution = Execution::Series(vec![task.arrival.period().unwrap() * 2]);
        }
        let (_, records) = run(found.clone(), Span::from_secs(1));
        for index in (0..tasks.len()).filter(is_split) {
            splits += 1;
            let of = TaskId(index as u32);
            let (period, budget) = (tasks[index].arrival.period().unwrap(), tasks[index].runtime.unwrap());
            let had = by_period(of, period, &records);
            // A piece that it had in advance is one of a later period.
            let mut sum = Span::ZERO;
            for k in 0..Span::from_secs(1).ns() / period.ns() {
                sum += had.get(&k).copied().unwrap_or_default();
                let lacks = budget * (k + 1) - sum;
                assert!(lacks <= Span::ZERO, "task {index} of set {number} lacks {lacks} after {} periods", k + 1);
            }
        }
    }
    assert!(splits > 20, "{splits} tasks were split");
}
