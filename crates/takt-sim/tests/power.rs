//! Power policies in simulation: what they change, what they leave alone, and where the energy goes.

use proptest::prelude::*;
use std::path::Path;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{TaskId, WindowTable};
use takt_core::power::{Counts, Platform};
use takt_core::record::{Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_sim::{PowerReport, Report, Step, replay, simulate};
use takt_workload::{Options, Source, Workload, load, power_from_text, power_registry};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads"))
}

#[track_caller]
fn workload(text: &str, power: &str) -> Workload {
    let source = Source { name: folder().join("a.yaml").display().to_string(), text: text.to_owned() };
    let options = Options { power: Some(power_from_text(power).expect("a power policy")), ..Options::default() };
    let faults = |faults: Vec<takt_workload::Diagnostic>| -> Workload {
        panic!("{}", faults.iter().map(|fault| fault.render(&source, false)).collect::<String>())
    };
    let mut workload = load(source.clone(), &options).unwrap_or_else(faults);
    workload.settle_platform();
    workload.settle_simulation(None);
    workload
}

/// The workload without a power policy.
#[track_caller]
fn workload_of(text: &str) -> Workload {
    workload(text, "none")
}

struct Simulated {
    records: Vec<Record>,
    report: Report,
    counts: Option<Counts>,
}

impl Simulated {
    fn power(&self) -> &PowerReport {
        self.report.power.as_ref().expect("a power model")
    }
    fn last(&self) -> i32 {
        self.power().zones[0].last
    }
}

fn engine(workload: &Workload, platform: &Platform) -> Engine {
    let mut engine = Engine::new(workload.system.clone()).expect("a system");
    if let Some(host) = workload.power_host(platform.clone()).expect("a power policy that suits") {
        engine.set_power(host);
    }
    engine
}

fn run(workload: &Workload, duration: Span) -> Simulated {
    let (platform, _) = workload.scenario.machine.as_ref().expect("a platform");
    let mut engine = engine(workload, platform);
    let mut records = Vec::new();
    let report = simulate(&mut engine, &workload.scenario, duration, &mut records, |_| ());
    Simulated { records, report, counts: engine.power().map(|host| host.counts()) }
}

/// The benchmark of the thesis keeps all six CPUs busy; a frame takes 404 ms at the highest frequencies.
const BENCHMARK: &str = "
cpus: 0-5
platform: platforms/imx8qm.yaml
windows:
  - length: 404
    slices:
      - {cpu: 0, sc_processes: [{cmd: x, budget: 404}]}
      - {cpu: 1, sc_processes: [{cmd: x, budget: 404}]}
      - {cpu: 2, sc_processes: [{cmd: x, budget: 404}]}
      - {cpu: 3, sc_processes: [{cmd: x, budget: 404}]}
      - {cpu: 4, sc_processes: [{cmd: x, budget: 404}]}
      - {cpu: 5, sc_processes: [{cmd: x, budget: 404}]}
";

/// 400 frames, and as many at the lowest frequency of an A72, which is 1596/600 times as slow.
const FRAMES: Span = Span::from_ms(400 * 404);
const SLOW_FRAMES: Span = Span::from_ms(400 * 404 * 1596 / 600);

/// Temperatures of the DEmOS thesis, section 5.4, in m°C: of an idle machine, at the highest frequencies, and at the lowest ones.
const MEASURED: [i32; 3] = [44_600, 61_600, 53_300];

/// Power that is published for a group of programs on a board with this chip, as means in mW.
///
/// Source: `data/characteristics-imx8*-cpu.csv` and `data/environment-imx8*.json` of <https://github.com/benedond/safety-critical-scheduling>,
/// for Hanzálek et al., J. Parallel Distrib. Comput. 203 (2025) 105107. All of it was measured at the highest frequencies.
struct Published {
    group: &'static str,
    /// One more busy CPU (the column `slope`).
    a53: f64,
    a72: f64,
    /// The first busy CPU without its own part (the column `intercept`), mean of both clusters.
    outside: f64,
    /// The idle board.
    idle: f64,
}

/// The programs that exceed the caches, on the board with a module of the manufacturer that the thesis names.
const CHOSEN: Published =
    Published { group: "Ixora, larger than the caches", a53: 334.6, a72: 1406.2, outside: 771.6, idle: 5450.0 };

/// Other choices: they show how far the prediction depends on the programs.
const OTHERS: [Published; 5] = [
    Published { group: "Ixora, all 26", a53: 305.8, a72: 1338.3, outside: 509.5, idle: 5450.0 },
    Published { group: "Ixora, tinyrenderer", a53: 261.5, a72: 981.4, outside: 928.3, idle: 5450.0 },
    Published { group: "MEK, all 26", a53: 346.2, a72: 1408.7, outside: 735.0, idle: 5490.0 },
    Published { group: "MEK, larger than the caches", a53: 387.0, a72: 1519.9, outside: 1151.0, idle: 5490.0 },
    Published { group: "MEK, tinyrenderer", a53: 284.2, a72: 1110.4, outside: 1375.0, idle: 5490.0 },
];

/// V²·f of the lowest frequency in parts of that of the highest one: 0.9 V, 600 MHz and 1.1 V, 1200 MHz; 1 V, 600 MHz and 1.1 V, 1596 MHz.
const LOWEST_A53: f64 = 0.9 * 0.9 * 600.0 / (1.1 * 1.1 * 1200.0);
const LOWEST_A72: f64 = 600.0 / (1.1 * 1.1 * 1596.0);

impl Published {
    /// Thermal resistance in K/W and ambient temperature in °C, fitted to the first two temperatures alone, and the prediction of the third.
    fn fit(&self) -> (f64, f64, f64) {
        let [idle, highest, _] = MEASURED.map(|millidegrees| f64::from(millidegrees) / 1000.0);
        let rise = (4.0 * self.a53 + 2.0 * self.a72 + self.outside) / 1000.0;
        let resistance = (highest - idle) / rise;
        let lowest = (4.0 * self.a53 * LOWEST_A53 + 2.0 * self.a72 * LOWEST_A72 + self.outside) / 1000.0;
        (resistance, idle - resistance * self.idle / 1000.0, idle + resistance * lowest)
    }
}

#[test]
fn the_platform_predicts_the_temperature_at_the_lowest_frequencies() {
    let (resistance, ambient, predicted) = CHOSEN.fit();
    let low = workload(BENCHMARK, "low");
    let (_, model) = low.scenario.machine.as_ref().expect("a platform");
    // The file has the published power and the fit to two temperatures, rounded.
    let near = |value: f64, published: f64| (value - published).abs() < published / 1000.0;
    assert!(near(model.clusters[0].busy_nw[3] as f64 * 1e-6, CHOSEN.a53), "{:?}", model.clusters[0].busy_nw);
    assert!(near(model.clusters[1].busy_nw[3] as f64 * 1e-6, CHOSEN.a72), "{:?}", model.clusters[1].busy_nw);
    assert!(near(model.outside_nw as f64 * 1e-6, CHOSEN.outside), "{}", model.outside_nw);
    assert!(near(model.base_nw as f64 * 1e-6, CHOSEN.idle), "{}", model.base_nw);
    assert!(near(model.nodes[0].ambient_mk.expect("a way out") as f64 * 1e-3, resistance), "{resistance} K/W");
    assert!(near(f64::from(model.ambient) * 1e-3, ambient), "{ambient} °C");

    let highest = run(&workload(BENCHMARK, "high"), FRAMES).last();
    let lowest = run(&low, SLOW_FRAMES).last();
    let slightly = "sc_processes: [{cmd: x, budget: 404, runtime: 1us}]";
    let idle = BENCHMARK.replace("sc_processes: [{cmd: x, budget: 404}]", slightly);
    let idle = run(&workload(&idle, "low"), FRAMES).last();
    println!("idle {idle}, highest {highest} (fitted); lowest {lowest} (predicted, {predicted:.2} °C by hand)");
    assert!((MEASURED[0] - idle).abs() < 100, "{idle}");
    assert!((MEASURED[1] - highest).abs() < 100, "{highest}");
    assert!((f64::from(lowest) / 1000.0 - predicted).abs() < 0.1, "{lowest}, {predicted} °C by hand");
    assert!((MEASURED[2] - lowest).abs() <= 2_000, "{lowest}");
}

#[test]
fn other_programs_and_boards_predict_nearly_the_same() {
    for published in OTHERS {
        let (resistance, ambient, predicted) = published.fit();
        println!("{}: {resistance:.3} K/W, {ambient:.2} °C around, {predicted:.2} °C predicted", published.group);
        assert!((predicted - f64::from(MEASURED[2]) / 1000.0).abs() <= 2.0, "{}", published.group);
    }
}

#[test]
fn without_the_term_outside_the_cpus_the_lowest_frequencies_are_too_cold() {
    let published = Published { outside: 0.0, ..CHOSEN };
    let (_, _, predicted) = published.fit();
    assert!((49.9..50.1).contains(&predicted), "{predicted}");
}

#[test]
fn minbe_is_between_the_lowest_and_the_highest() {
    let table = "
cpus: 0-5
platform: platforms/imx8qm.yaml
windows: [{length: 100, slices: [
  {cpu: 0-3, sc_processes: [{cmd: x, budget: 50}], be_processes: [{cmd: y, budget: 100}]},
  {cpu: 4-5, sc_processes: [{cmd: x, budget: 50}], be_processes: [{cmd: y, budget: 100}]}]}]
";
    let [low, middle, high] = ["low", "minbe", "high"].map(|power| run(&workload(table, power), FRAMES).last());
    assert!(low + 2_000 < middle && middle + 2_000 < high, "{low} {middle} {high}");
    // Half of the time at each.
    assert!((middle - (low + high) / 2).abs() < 500, "{low} {middle} {high}");
}

/// Integrates the power a second time, from the records alone.
fn second_account(workload: &Workload, records: &[Record], end: Time) -> f64 {
    let (platform, model) = workload.scenario.machine.as_ref().expect("a platform");
    let places = workload.system.places();
    let mut points: Vec<usize> = platform.domains.iter().map(|domain| domain.points.len() - 1).collect();
    let mut running: Vec<Option<CpuSet>> = vec![None; workload.system.tasks.len()];
    let (mut joules, mut before) = (0.0, Time::ZERO);
    for (at, kind) in records.iter().map(|record| (record.at, Some(record.kind))).chain([(end, None)]) {
        let busy = running.iter().flatten().fold(CpuSet::EMPTY, |all, cpus| all.union(cpus));
        let mut watts = model.base_nw as f64 + if busy.is_empty() { 0.0 } else { model.outside_nw as f64 };
        for ((domain, power), point) in platform.domains.iter().zip(&model.clusters).zip(&points) {
            let own = domain.cpus.intersection(&workload.system.cpus);
            let busy = own.intersection(&busy).len();
            watts +=
                busy as f64 * power.busy_nw[*point] as f64 + (own.len() - busy) as f64 * power.idle_nw[*point] as f64;
        }
        joules += watts * (at - before).ns() as f64 * 1e-18;
        before = at;
        match kind {
            Some(RecordKind::Start { task, place, .. }) => running[task.index()] = Some(places[place.index()]),
            Some(RecordKind::Stop { task, .. }) => running[task.index()] = None,
            Some(RecordKind::Frequency { domain, khz }) => {
                let domain = usize::from(domain);
                points[domain] = platform.domains[domain].index(khz).expect("an allowed frequency");
            }
            _ => {}
        }
    }
    joules
}

const MIXED: &str = "
cpus: 0-5
platform: platforms/imx8qm.yaml
partitions:
  - {name: A, processes: [{cmd: x, budget: 30, jitter: 10, frequency: 896}, {cmd: x, budget: 20, runtime: 7ms}]}
  - {name: B, processes: [{cmd: x, budget: 40, runtime: 12ms, frequency: 1296}]}
  - {name: C, processes: [{cmd: x, budget: 33, jitter: 20}, {cmd: x, budget: 50}]}
  - {name: D, policy: edf, processes: [{cmd: x, period: 50ms, runtime: 9ms}, {cmd: x, period: 70ms, runtime: 5ms}]}
windows:
  - {length: 100, slices: [{cpu: 0-3, frequency: 896, sc_partition: A, be_partition: C}, {cpu: 4, frequency: 1296, sc_partition: B}]}
  - {length: 60, slices: [{cpu: 1, sc_partition: A}, {cpu: 5, be_partition: D}]}
  - {length: 40}
  - {length: 50, slices: [{cpu: 2-5, be_partition: C}]}
";

const POLICIES: [&str; 12] = [
    "none",
    "low",
    "high",
    "minbe",
    "per_process",
    "per_slice:highest",
    "fixed:1104,1056",
    "alternating:600,1200,600,1596",
    "race_to_idle",
    "slowest",
    "thermal_cap:soc,48,1",
    "skip_be:soc,47,1",
];

#[test]
fn energy_is_the_integral_of_the_power() {
    let end = Span::from_secs(20);
    for power in POLICIES {
        let workload = workload(MIXED, power);
        let run = run(&workload, end);
        let report = run.power();
        let joules = report.total_aj() as f64 * 1e-18;
        let again = second_account(&workload, &run.records, Time::ZERO + end);
        assert!((joules - again).abs() < again / 1000.0, "{power}: {joules} J, and {again} J");
        // Idle CPUs draw nothing here, so the energy of the domains is that of the tasks.
        let (tasks, domains): (u128, u128) =
            (report.tasks_aj.iter().sum(), report.domains.iter().map(|domain| domain.energy_aj).sum());
        assert_eq!(tasks, domains, "{power}");
        for domain in &report.domains {
            assert_eq!(domain.times.iter().fold(Span::ZERO, |sum, time| sum + *time), end, "{power}");
        }
    }
}

#[test]
fn the_same_workload_gives_the_same_records_and_the_same_energy() {
    for power in POLICIES {
        let [one, other] = [(); 2].map(|()| run(&workload(MIXED, power), Span::from_secs(3)));
        assert_eq!(one.records, other.records, "{power}");
        assert_eq!(one.report, other.report, "{power}");
    }
}

/// Starts, stops and ends of the tasks of safety-critical partitions.
fn schedule(workload: &Workload, records: &[Record]) -> Vec<Record> {
    let critical: Vec<TaskId> = workload
        .system
        .windows
        .iter()
        .flat_map(|window| &window.slices)
        .filter_map(|slice| slice.sc)
        .flat_map(|sc| workload.system.partitions[sc.index()].tasks.clone())
        .collect();
    let of = |record: &&Record| match record.kind {
        RecordKind::Release { task, .. }
        | RecordKind::Start { task, .. }
        | RecordKind::Stop { task, .. }
        | RecordKind::Finish { task, .. }
        | RecordKind::Budget { task, .. } => critical.contains(&task),
        RecordKind::Window { .. } => true,
        _ => false,
    };
    records.iter().filter(of).copied().collect()
}

const HOT: &str = "
cpus: 0-5
platform: platforms/imx8qm.yaml
partitions:
  - {name: A, processes: [{cmd: x, budget: 20, jitter: 6}]}
  - {name: B, processes: [{cmd: x, budget: 10}]}
  - {name: X, processes: [{cmd: x, budget: 35}, {cmd: x, budget: 90}]}
  - {name: Y, processes: [{cmd: x, budget: 100}]}
windows:
  - {length: 100, slices: [{cpu: 0-3, sc_partition: A, be_partition: X}, {cpu: 4-5, sc_partition: B, be_partition: Y}]}
";

#[test]
fn skip_be_keeps_the_machine_cool_and_leaves_the_safety_critical_schedule_alone() {
    let (without, with) = (workload(HOT, "none"), workload(HOT, "skip_be:soc,53,1"));
    let end = Span::from_secs(120);
    let (hot, cool) = (run(&without, end), run(&with, end));
    assert!(hot.power().zones[0].highest > 56_000, "{:?}", hot.power().zones);
    let highest = cool.power().zones[0].highest;
    assert!((53_000..54_000).contains(&highest), "{highest}");
    assert_eq!(schedule(&with, &cool.records), schedule(&without, &hot.records));
    let skipped = cool.records.iter().filter(|r| matches!(r.kind, RecordKind::StartSkipped { .. })).count() as u64;
    assert!(skipped > 100, "{skipped}");
    assert_eq!(cool.counts.expect("a power policy").skipped_starts, skipped);
}

/// A skipped partition keeps its place and the remainder of its budget.
#[test]
fn a_skipped_partition_continues_where_it_stopped() {
    let workload = workload(HOT, "skip_be:soc,53,1");
    let run = run(&workload, Span::from_secs(60));
    let x: Vec<TaskId> = workload.system.partitions[2].tasks.clone();
    let mut elapsed = [Span::ZERO; 2];
    let mut since = [None; 2];
    let mut whole = 0;
    for record in &run.records {
        let index = |task: &TaskId| x.iter().position(|own| own == task);
        match record.kind {
            RecordKind::Start { task, .. } => {
                if let Some(index) = index(&task) {
                    since[index] = Some(record.at);
                }
            }
            RecordKind::Stop { task, .. } => {
                if let Some(index) = index(&task) {
                    elapsed[index] += record.at - since[index].take().expect("it ran");
                }
            }
            RecordKind::Finish { task, .. } => {
                if let Some(index) = index(&task) {
                    let running = since[index].map_or(Span::ZERO, |since| record.at - since);
                    // Each activation gets its whole budget, however often its partition was skipped in between.
                    assert_eq!(elapsed[index] + running, Span::from_ms([35, 90][index]), "at {}", record.at);
                    elapsed[index] = Span::ZERO - running;
                    whole += 1;
                }
            }
            _ => {}
        }
    }
    assert!(whole > 50 && run.counts.expect("a power policy").skipped_starts > 50, "{whole}");
}

#[test]
fn after_a_second_without_a_valid_sample_thermal_policies_take_the_safe_side() {
    let mut quiet = workload(HOT, "skip_be:soc,100,1");
    let (platform, mut model) = quiet.scenario.machine.clone().expect("a platform");
    model.nodes.clear();
    model.clusters.iter_mut().for_each(|cluster| cluster.node = 0);
    quiet.scenario.machine = Some((platform.clone(), model));
    // One valid sample, and then none: the sensor says EAGAIN, and then nonsense.
    let at = |ms: i64| Time::ZERO + Span::from_ms(ms);
    let sample = |millidegrees| Input::Temperature { zone: 0, millidegrees };
    quiet.scenario.changes =
        vec![(at(50), sample(Some(40_000))), (at(500), sample(None)), (at(800), sample(Some(200_000)))];
    for (power, lowered) in [("skip_be:soc,100,1", false), ("thermal_cap:soc,100,1", true)] {
        quiet.power = Some(power_from_text(power).expect("a power policy"));
        let run = run(&quiet, Span::from_secs(2));
        let counts = run.counts.expect("a power policy");
        assert_eq!((counts.samples, counts.bad_samples), (3, 2), "{power}");
        let first = run.records.iter().find(|record| match record.kind {
            RecordKind::StartSkipped { .. } => true,
            RecordKind::Frequency { khz, .. } => khz == 600_000,
            _ => false,
        });
        let first = first.expect("the safe side").at;
        match lowered {
            true => assert_eq!(first, at(1050)),
            // The next start of a best-effort side.
            false => assert!((at(1050)..at(1150)).contains(&first), "{first}"),
        }
    }
}

/// A driver that records what it hands to the engine, as a real run does; the replay makes the same requests.
#[test]
fn a_recorded_run_replays_its_power_requests() {
    for power in POLICIES {
        let mut workload = workload(MIXED, power);
        let (platform, _) = workload.scenario.machine.clone().expect("a platform");
        let platform = Platform { simulated: false, ..platform };
        workload.scenario.machine = None;
        workload.system.speeds.clear();
        let mut driven = engine(&workload, &platform);
        let (mut steps, mut records): (Vec<Step>, Vec<Record>) = (Vec::new(), Vec::new());
        let end = Time::ZERO + Span::from_secs(3);
        let mut temperature = 40_000;
        for k in 0.. {
            let tick = Time::ZERO + Span::from_ms(100 * k);
            while let Some(now) = driven.next_due().filter(|now| *now < tick.min(end)) {
                let _ = driven.step(now, &[], &mut records);
                steps.push(Step { now, inputs: Vec::new() });
            }
            if tick >= end {
                break;
            }
            temperature += 800;
            let inputs = vec![Input::Temperature { zone: 0, millidegrees: (k % 7 != 3).then_some(temperature) }];
            let _ = driven.step(tick, &inputs, &mut records);
            steps.push(Step { now: tick, inputs });
        }
        driven.close(end, &[], &mut records);
        steps.push(Step { now: end, inputs: Vec::new() });
        let mut again: Vec<Record> = Vec::new();
        replay(&mut engine(&workload, &platform), &steps, &mut again);
        assert_eq!(again, records, "{power}");
        let requests = records
            .iter()
            .any(|record| matches!(record.kind, RecordKind::Frequency { .. } | RecordKind::StartSkipped { .. }));
        assert!(requests || power == "none", "{power} requests nothing");
    }
}

/// A window table that takes over brings the frequencies of its slices, and the one before takes its own back.
#[test]
fn another_window_table_has_its_own_frequencies() {
    let table = |frequency: &str| {
        format!(
            "cpus: 0-5\nplatform: platforms/imx8qm.yaml\nwindows:\n  - {{length: 20, slices: [{{cpu: 0, {frequency}sc_processes: \
             [{{cmd: x, budget: 5}}]}}]}}\n  - {{length: 10, slices: [{{cpu: 4, frequency: 1056, sc_processes: [{{cmd: x, budget: 5}}]}}]}}\n"
        )
    };
    let (first, second) =
        (workload(&table("frequency: 600, "), "per_slice"), workload(&table("frequency: 1104, "), "per_slice"));
    let none = workload(&table(""), "per_slice");
    let (platform, _) = first.scenario.machine.clone().expect("a platform");
    let spec = first.power.clone().expect("a power policy");
    let mut engine = engine(&first, &platform);
    let mut numbers = Vec::new();
    for other in [&second, &none, &first] {
        numbers.push(engine.add_table(WindowTable {
            windows: other.system.windows.clone(),
            be_start: other.system.be_start,
            budgets: other.system.tasks.iter().map(|task| (task.budget, task.jitter)).collect(),
            frequencies: other.slice_frequencies(&spec, &platform).expect("they are available"),
        }));
    }
    assert_eq!(numbers, [Ok(0), Ok(1), Ok(2)], "they differ by their frequencies alone");
    let mut records: Vec<Record> = Vec::new();
    let at = |ms: i64| Time::ZERO + Span::from_ms(ms);
    for (now, to) in [(35, 0), (65, 1), (95, 2)] {
        while let Some(due) = engine.next_due().filter(|due| *due < at(now)) {
            let _ = engine.step(due, &[], &mut records);
        }
        let _ = engine.step(at(now), &[Input::Table { to }], &mut records);
    }
    while let Some(due) = engine.next_due().filter(|due| *due < at(150)) {
        let _ = engine.step(due, &[], &mut records);
    }
    let frequency = |record: &Record| match record.kind {
        RecordKind::Frequency { domain, khz } => Some((record.at, domain, khz)),
        _ => None,
    };
    let frequencies: Vec<_> = records.iter().filter_map(frequency).collect();
    // The table without a frequency leaves that domain as it is.
    let expected = [(at(0), 0, 600_000), (at(20), 1, 1_056_000), (at(60), 0, 1_104_000), (at(120), 0, 600_000)];
    assert_eq!(frequencies, expected);
    // A frequency that the machine lacks.
    let lacking = workload_of(&table("frequency: 700, "));
    assert!(lacking.slice_frequencies(&spec, &platform).is_err());
}

/// `slowest`: the safety-critical work is done in its windows, at a lower frequency and with less energy.
#[test]
fn slowest_stretches_budgets_into_the_window() {
    let table = "
cpus: 4-5
platform: platforms/imx8qm.yaml
windows:
  - {length: 100, cpu: 4, sc_processes: [{cmd: x, budget: 30, runtime: 29ms}]}
  - {length: 100, cpu: 5, sc_processes: [{cmd: x, budget: 70, runtime: 69ms}]}
  - {length: 100, cpu: 5, sc_processes: [{cmd: x, budget: 100, runtime: 99ms}]}
";
    let (slow, high) = (workload(table, "slowest"), workload(table, "high"));
    let end = Span::from_secs(3);
    let [slow, high] = [slow, high].map(|workload| run(&workload, end));
    for run in [&slow, &high] {
        let finished = |outcome| {
            run.records
                .iter()
                .filter(|r| matches!(r.kind, RecordKind::Finish { outcome: o, .. } if o == outcome))
                .count()
        };
        assert_eq!(finished(takt_core::record::Outcome::Completed), 30);
    }
    // 30 of 100 ms fit at 600 of 1596 MHz, 70 at 1296, 100 at no other than 1596.
    let khz: Vec<u32> = slow
        .records
        .iter()
        .filter_map(|r| match r.kind {
            RecordKind::Frequency { domain: 1, khz } => Some(khz),
            _ => None,
        })
        .take(4)
        .collect();
    assert_eq!(khz, [600_000, 1_296_000, 1_596_000, 600_000]);
    assert!(slow.power().domains[1].energy_aj < high.power().domains[1].energy_aj * 98 / 100);
}

#[test]
fn only_allowed_frequencies_are_requested_whatever_the_samples_are() {
    let policies = prop::sample::select(POLICIES.to_vec());
    let samples = prop::collection::vec((0i64..2_000, prop::option::of(-60_000i32..200_000)), 0..30);
    takt_testing::for_all(24, (policies, samples), |(power, samples)| {
        let mut workload = workload(MIXED, power);
        let mut changes: Vec<(Time, Input)> = samples
            .iter()
            .map(|(ms, millidegrees)| {
                (Time::ZERO + Span::from_ms(*ms), Input::Temperature { zone: 0, millidegrees: *millidegrees })
            })
            .collect();
        changes.sort_by_key(|(at, _)| *at);
        workload.scenario.changes = changes;
        let run = run(&workload, Span::from_secs(2));
        let (platform, _) = workload.scenario.machine.as_ref().expect("a platform");
        for record in &run.records {
            if let RecordKind::Frequency { domain, khz } = record.kind {
                prop_assert!(platform.domains[usize::from(domain)].index(khz).is_some(), "{khz} kHz");
            }
        }
        Ok(())
    });
    assert_eq!(power_registry().entries().count(), POLICIES.len());
}
