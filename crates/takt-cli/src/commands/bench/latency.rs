//! `takt bench latency`: how late windows start, seen by the processes themselves.

use super::bare::{self, Step};
use super::figures::{Figures, cell, ratio};
use super::floor::Floor;
use super::lab::{Claim, Lab, RunOptions};
use super::options::Common;
use crate::commands::latency::stress::{Kind, Load, Running};
use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use takt::report::Cell;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::rt::Class;
use takt_workload::Code;

/// Measure the lateness of window starts: Takt, the bare mechanism and cyclictest in turn
///
/// Two partitions alternate on one CPU. A window's lateness is the time from its ideal beginning to the first instruction of its
/// process, which records it.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Length of a window
    #[arg(long, default_value = "5ms", value_parser = duration)]
    window: Span,
    /// Number of windows per round
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    windows: u32,
    /// Give the processes a real-time class; a short idle window then keeps more than a tenth of each frame free
    #[arg(long)]
    realtime: bool,
    /// Kinds of load beside each measurement, with 16 threads each that run on all CPUs
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    stress: Vec<Kind>,
}

/// Windows at the beginning that do not count: in them the processes come into being.
const WARM_UP: usize = 20;

/// The longest that the processes of a measurement take to start and to end.
const START: Duration = Duration::from_secs(30);

/// The load of each measurement, and a bound on its time.
struct Beside<'a> {
    load: Option<&'a Load>,
    longest: Duration,
}

impl Beside<'_> {
    /// Measures beside the load, which has to last until the end.
    fn load<T>(&self, measure: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut running = self.load.map(|load| load.start(self.longest, None, None)).transpose()?;
        let measured = measure()?;
        match running.as_mut().and_then(Running::ended) {
            Some(reason) => Err(Failure::machine(Code::MissingCapability, reason, "choose other kinds of load")),
            None => Ok(measured),
        }
    }
}

/// The schedule that is measured: two windows, and an idle one if the processes have a real-time class.
struct Schedule {
    window: Span,
    idle: Span,
    /// Number of windows that belong to a process, the warm-up included.
    windows: usize,
}

impl Schedule {
    fn frame(&self) -> Span {
        self.window + self.window + self.idle
    }
    /// The owner of a window, and its begin after time zero.
    fn window(&self, index: usize) -> (usize, Span) {
        let frame = Span::from_ns(self.frame().ns() * (index / 2) as i64);
        (index % 2, if index.is_multiple_of(2) { frame } else { frame + self.window })
    }
    fn steps(&self) -> Vec<Step> {
        let last = self.window + self.window;
        if self.idle == Span::ZERO {
            return vec![
                Step { at: Span::ZERO, stop: Some(1), start: Some(0) },
                Step { at: self.window, stop: Some(0), start: Some(1) },
            ];
        }
        vec![
            Step { at: Span::ZERO, stop: None, start: Some(0) },
            Step { at: self.window, stop: Some(0), start: Some(1) },
            Step { at: last, stop: Some(1), start: None },
        ]
    }
    /// The first instruction of each window's process in its window, from the pauses that the two processes noticed.
    fn first_readings(&self, start: Span, gaps: &[Vec<(Span, Span)>; 2]) -> Vec<Option<Span>> {
        let mut next = [0, 0];
        let reading = |index| {
            let (owner, at) = self.window(index);
            let (from, to) = (start + at, start + at + self.window);
            let list = &gaps[owner];
            while list.get(next[owner]).is_some_and(|(_, resumed)| *resumed < from) {
                next[owner] += 1;
            }
            list.get(next[owner]).map(|(_, resumed)| *resumed).filter(|resumed| *resumed < to)
        };
        (0..self.windows).map(reading).collect()
    }
}

/// One measured quantity over the rounds.
struct Series {
    key: &'static str,
    name: &'static str,
    rounds: Vec<Figures>,
    /// Windows whose process was not seen to run.
    unseen: usize,
}

impl Series {
    fn median(&self) -> Figures {
        Figures::median(&self.rounds)
    }
    fn row(&self) -> Vec<Cell> {
        let seen = self.rounds.iter().map(|f| f.count).sum::<usize>().to_string();
        let unseen = if self.unseen > 0 { self.unseen.to_string() } else { "-".into() };
        [&[self.name.into()][..], &self.median().cells(), &[seen.into(), unseen.into()]].concat()
    }
    fn json(&self) -> Value {
        json!({"name": self.key, "median_ns": self.median().json(), "unseen": self.unseen,
               "rounds_ns": self.rounds.iter().map(Figures::json).collect::<Vec<_>>()})
    }
}

/// The rows of the result, by their index.
const FLOOR: usize = 0;
const BARE_COST: usize = 5;
const BARE_FIRST: usize = 4;
const TAKT_FIRST: usize = 8;

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("latency", &args.common)?;
    let counted = if lab.session.quick { 40 } else { args.windows as usize };
    let idle = if args.realtime { args.window.scaled(1, 4) } else { Span::ZERO };
    let schedule = Schedule { window: args.window, idle, windows: counted + WARM_UP };
    let floor = Floor::find();
    let names = [
        ("floor", floor.name()),
        ("bare_wake", "bare: wake of the controller"),
        ("bare_stop", "bare: stop call"),
        ("bare_start", "bare: start call"),
        ("bare_first", "bare: boundary to first instruction"),
        ("bare_cost", "bare: cost (wake to first instruction)"),
        ("takt_wake", "takt: boundary to decision"),
        ("takt_switch", "takt: decision, stop and start"),
        ("takt_first", "takt: boundary to first instruction"),
    ];
    let mut series = names.map(|(key, name)| Series { key, name, rounds: Vec::new(), unseen: 0 });
    let load = (!args.stress.is_empty()).then(|| Load { kinds: args.stress.clone(), threads: 16, command: None });
    let length = Duration::from_nanos(schedule.frame().ns().unsigned_abs()) * schedule.windows as u32 / 2;
    let beside = Beside { load: load.as_ref(), longest: length * 2 + START };
    for round in 1..=lab.session.rounds {
        lab.session.round(round, floor.name());
        series[FLOOR].rounds.push(beside.load(|| floor.measure(lab.cpu, schedule.window, counted))?);
        lab.session.round(round, "the bare mechanism");
        beside.load(|| measure_bare(&lab, &schedule, args.realtime, &mut series))?;
        lab.session.round(round, "takt run");
        beside.load(|| measure_takt(&lab, &schedule, args.realtime, &mut series))?;
    }
    let claims = if load.is_some() { vec![limit_with_stress(&series)] } else { limits(&series) };
    let mut rows = vec![["", "p50", "p99", "max", "seen", "unseen"].map(Cell::from).to_vec()];
    rows.extend(series.iter().map(Series::row));
    let class = if args.realtime { "SCHED_FIFO 10, with an idle window per frame" } else { "SCHED_OTHER" };
    let settings = format!(
        "windows of {}, {counted} per round, two processes of class {class}; controllers SCHED_FIFO 80 on the same CPU{}",
        schedule.window,
        load.as_ref().map_or(String::new(), |load| format!("; load: {}", load.text()))
    );
    let results = json!({
        "window_ns": schedule.window.ns(), "windows": counted, "realtime": args.realtime, "load": load.as_ref().map(Load::text),
        "series": series.iter().map(Series::json).collect::<Vec<_>>(),
    });
    lab.show(&settings, &[("lateness, as medians over the rounds".into(), rows)], &claims, &results)
}

/// The processes that notice when they run, and the files in which they say so.
fn probes(lab: &Lab, schedule: &Schedule) -> [(Vec<String>, PathBuf); 2] {
    [(); 2].map(|()| {
        let out = lab.path("gaps");
        let threshold = format!("{}ns", schedule.window.ns() / 2);
        (lab.probe(&["gaps", &out.to_string_lossy(), &threshold]), out)
    })
}

fn measure_bare(lab: &Lab, schedule: &Schedule, realtime: bool, series: &mut [Series]) -> Result<(), Failure> {
    let probes = probes(lab, schedule);
    let measured = bare::run(
        lab,
        &bare::Plan {
            processes: probes.each_ref().map(|(args, _)| args.clone()).to_vec(),
            class: if realtime { Class::Fifo(10) } else { Class::Other },
            controller: CpuSet::single(lab.cpu),
            frame: schedule.frame(),
            steps: schedule.steps(),
            frames: schedule.windows.div_ceil(2),
            until_exit: false,
        },
    )?;
    let gaps = read_all(&probes)?;
    let first = schedule.first_readings(measured.start, &gaps);
    // The steps that begin a window, in the order of the windows.
    let steps = schedule.steps();
    let begins = measured.wakes.iter().enumerate().filter(|(i, _)| steps[i % steps.len()].start.is_some());
    let counted: Vec<_> = begins.map(|(_, wake)| wake).zip(&first).skip(WARM_UP).collect();
    let add = |series: &mut Series, values: Vec<i64>| series.rounds.push(Figures::of(values));
    add(&mut series[1], counted.iter().map(|(w, _)| (w.woke - w.ideal).ns()).collect());
    add(&mut series[2], counted.iter().map(|(w, _)| (w.stopped - w.woke).ns()).collect());
    add(&mut series[3], counted.iter().map(|(w, _)| (w.started - w.stopped).ns()).collect());
    let seen = || counted.iter().filter_map(|(w, first)| first.map(|first| (*w, first)));
    add(&mut series[BARE_FIRST], seen().map(|(w, first)| (first - w.ideal).ns()).collect());
    add(&mut series[BARE_COST], seen().map(|(w, first)| (first - w.woke).ns()).collect());
    series[BARE_FIRST].unseen += counted.len() - seen().count();
    Ok(())
}

fn measure_takt(lab: &Lab, schedule: &Schedule, realtime: bool, series: &mut [Series]) -> Result<(), Failure> {
    let probes = probes(lab, schedule);
    let length = schedule.window;
    let mut windows = String::new();
    let mut partitions = String::new();
    for (name, (args, _)) in ["A", "B"].iter().zip(&probes) {
        windows += &format!("  - {{length: {}ns, cpu: {}, sc_partition: {name}}}\n", length.ns(), lab.cpu);
        partitions +=
            &format!("  - name: {name}\n    processes: [{{budget: {}ns, cmd: {}}}]\n", length.ns(), lab.cmd(args));
    }
    if schedule.idle > Span::ZERO {
        windows += &format!("  - {{length: {}ns}}\n", schedule.idle.ns());
    }
    let class = if realtime { "yes" } else { "no" };
    let yaml = format!("realtime: {class}\nwindows:\n{windows}partitions:\n{partitions}");
    let file = lab.workload(&yaml)?;
    let duration = Span::from_ns(schedule.frame().ns() * schedule.windows.div_ceil(2) as i64);
    let run = lab.run(&file, RunOptions { duration: Some(duration), ..RunOptions::default() })?;
    let first = schedule.first_readings(run.start, &read_all(&probes)?);
    let lateness = |index: usize| first[index].map(|first| (first - run.start - schedule.window(index).1).ns());
    let seen: Vec<i64> = (WARM_UP..schedule.windows).filter_map(lateness).collect();
    series[TAKT_FIRST].unseen += schedule.windows - WARM_UP - seen.len();
    series[TAKT_FIRST].rounds.push(Figures::of(seen));
    for (index, key) in [(6, "lateness_ns"), (7, "switch_ns")] {
        let figure = |name: &str| run.json[key][name].as_i64().unwrap_or(0);
        let count = figure("count") as usize;
        series[index].rounds.push(Figures { count, p50: figure("p50"), p99: figure("p99"), max: figure("max") });
    }
    Ok(())
}

fn limits(series: &[Series]) -> Vec<Claim> {
    let [takt, floor, cost] = [TAKT_FIRST, FLOOR, BARE_COST].map(|i| series[i].median());
    [("p50", takt.p50, floor.p50, cost.p50), ("p99", takt.p99, floor.p99, cost.p99)]
        .map(|(name, takt, floor, cost)| {
            let limit = floor * 13 / 10 + cost;
            let share = format!(", of which it is {}", ratio(takt, limit));
            Claim {
                what: format!("boundary to first instruction, {name}"),
                measured: cell(takt),
                limit: vec![
                    "1.3 x ".into(),
                    cell(floor),
                    " + ".into(),
                    cell(cost),
                    " = ".into(),
                    cell(limit),
                    share.into(),
                ],
                holds: Some(takt <= limit),
            }
        })
        .into()
}

/// Beside load, the kernel delays the floor as much as the mechanism, so the mechanism itself is the measure.
fn limit_with_stress(series: &[Series]) -> Claim {
    let [takt, bare] = [TAKT_FIRST, BARE_FIRST].map(|i| series[i].median().p99);
    // A window that was not seen may have begun later than all others.
    let all_seen = [TAKT_FIRST, BARE_FIRST].iter().all(|i| series[*i].unseen == 0);
    let limit = bare * 13 / 10;
    Claim {
        what: "boundary to first instruction beside load, p99".into(),
        measured: cell(takt),
        limit: vec!["1.3 x the bare mechanism's ".into(), cell(bare), " = ".into(), cell(limit)],
        holds: all_seen.then_some(takt <= limit),
    }
}

fn read_all(probes: &[(Vec<String>, PathBuf); 2]) -> Result<[Vec<(Span, Span)>; 2], Failure> {
    Ok([read_gaps(&probes[0].1)?, read_gaps(&probes[1].1)?])
}

/// Pauses as a probe wrote them: the last reading before and the first one after.
fn read_gaps(path: &Path) -> Result<Vec<(Span, Span)>, Failure> {
    let bytes = std::fs::read(path).map_err(|e| Failure::file("read", path, &e))?;
    let number = |bytes: &[u8]| Span::from_ns(i64::from_ne_bytes(bytes.try_into().expect("eight bytes")));
    Ok(bytes.chunks_exact(16).map(|record| (number(&record[..8]), number(&record[8..]))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(x: i64) -> Span {
        Span::from_ms(x)
    }

    #[test]
    fn a_window_starts_with_the_first_reading_of_its_process_inside_it() {
        let schedule = Schedule { window: ms(5), idle: Span::ZERO, windows: 6 };
        // Window 2 of the first process is not seen, and in window 3 the second one is disturbed again.
        let gaps = [
            vec![(ms(90), ms(101)), (ms(105), ms(121))],
            vec![(ms(90), ms(106)), (ms(110), ms(117)), (ms(117), ms(119)), (ms(120), ms(127))],
        ];
        let first = schedule.first_readings(ms(100), &gaps);
        assert_eq!(first, [Some(ms(101)), Some(ms(106)), None, Some(ms(117)), Some(ms(121)), Some(ms(127))]);
    }

    #[test]
    fn beside_load_the_limit_is_the_bare_mechanism_and_unseen_windows_decide_nothing() {
        let holds = |takt: i64, unseen: usize| {
            let mut series: Vec<Series> =
                (0..9).map(|_| Series { key: "", name: "", rounds: Vec::new(), unseen: 0 }).collect();
            series[BARE_FIRST].rounds.push(Figures::of(vec![100; 50]));
            series[TAKT_FIRST].rounds.push(Figures::of(vec![takt; 50]));
            series[TAKT_FIRST].unseen = unseen;
            limit_with_stress(&series).holds
        };
        assert_eq!([holds(130, 0), holds(131, 0), holds(100, 1)], [Some(true), Some(false), None]);
    }

    #[test]
    fn an_idle_window_moves_the_later_ones() {
        let schedule = Schedule { window: ms(4), idle: ms(1), windows: 4 };
        let windows: Vec<_> = (0..4).map(|i| schedule.window(i)).collect();
        assert_eq!(windows, [(0, ms(0)), (1, ms(4)), (0, ms(9)), (1, ms(13))]);
        assert_eq!(schedule.steps().len(), 3);
    }
}
