//! `takt bench reload`: what a reload of the window table costs the scheduler.

use super::figures::{Figures, cell};
use super::lab::{Child, Claim, Lab, RunOptions, start_of};
use super::options::Common;
use crate::control::client::{self, Connection};
use crate::control::wire::{Reply, Request};
use crate::failure::Failure;
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};
use takt::report::Cell;
use takt_core::time::Span;
use takt_workload::Code;

/// Measure the lateness of the scheduler while window tables are reloaded, without reloads, and without them once more
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of reloads, one after the other
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    reloads: u32,
}

const WINDOW: Span = Span::from_ms(5);
/// The share of the time of a run that a reload takes: it waits for the end of a frame of up to three windows.
const PACE: Span = Span::from_ms(60);
const RELOADS_QUICK: u32 = 10;
/// A run whose processes have not started by then does not start.
const START: Duration = Duration::from_secs(60);

/// Three runs of each round. Two are alike, so that their difference is that of this machine.
const RUNS: [&str; 3] = ["alone", "control", "reloaded"];

/// The figures of one run.
#[derive(Clone, Copy)]
struct Measured {
    lateness: Figures,
    lost: u64,
    /// Tables that took over.
    tables: u64,
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("reload", &args.common)?;
    let quick = lab.session.quick;
    let reloads = if quick { args.reloads.min(RELOADS_QUICK) } else { args.reloads };
    let length = PACE * i64::from(reloads) + Span::from_secs(1);
    let tables = [workload(&lab, &["a", "b"], 3)?, workload(&lab, &["b", "a", "a"], 2)?];
    let mut rounds: [Vec<Measured>; 3] = Default::default();
    for round in 1..=lab.session.rounds {
        for step in 0..RUNS.len() {
            // Each kind comes first, second and third in turn.
            let kind = (step + round as usize) % RUNS.len();
            lab.session.round(round, RUNS[kind]);
            let reloads = if RUNS[kind] == "reloaded" { reloads } else { 0 };
            rounds[kind].push(measure(&lab, &tables, length, reloads)?);
        }
    }
    let late: Vec<Figures> = rounds
        .iter()
        .map(|kind| Figures::median(&kind.iter().map(|measured| measured.lateness).collect::<Vec<_>>()))
        .collect();
    let head = ["run", "instants", "p50", "p99", "max", "windows lost", "tables"].map(Cell::from).to_vec();
    let row = |((name, figures), rounds): ((&&str, &Figures), &Vec<Measured>)| {
        let sum = |of: fn(&Measured) -> u64| Cell::from(rounds.iter().map(of).sum::<u64>().to_string());
        let mut cells = vec![Cell::from(*name), figures.count.to_string().into()];
        cells.extend(figures.cells());
        cells.extend([sum(|measured| measured.lost), sum(|measured| measured.tables)]);
        cells
    };
    let rows = std::iter::once(head).chain(RUNS.iter().zip(&late).zip(&rounds).map(row)).collect();
    let [alone, control, reloaded] = [late[0].p99, late[1].p99, late[2].p99];
    let limit = (alone * 12 / 10).max(alone + (alone - control).abs());
    let claims = [Claim {
        what: "p99 of the lateness with reloads".into(),
        measured: cell(reloaded),
        limit: vec!["1.2 x ".into(), cell(alone), " or the control's = ".into(), cell(limit)],
        holds: (!quick).then_some(reloaded <= limit),
    }];
    let settings =
        format!("windows of {WINDOW}; {reloads} reloads in a row, each at the end of a major frame, in {length}");
    let kind = |(name, rounds): (&&str, &Vec<Measured>)| {
        let round = |measured: &Measured| json!({"lateness_ns": measured.lateness.json(), "windows_lost": measured.lost, "tables": measured.tables});
        json!({"run": name, "rounds": rounds.iter().map(round).collect::<Vec<_>>()})
    };
    let results = json!({
        "reloads": reloads, "runs": RUNS.iter().zip(&rounds).map(kind).collect::<Vec<_>>(),
        "p99_ns": {"alone": alone, "control": control, "reloaded": reloaded},
    });
    lab.show(&settings, &[("lateness of the scheduler at planned instants".into(), rows)], &claims, &results)
}

/// Windows of two partitions of one process each, which uses a fifth of a window.
fn workload(lab: &Lab, windows: &[&str], budget: u32) -> Result<std::path::PathBuf, Failure> {
    let burn = lab.cmd(&lab.own(&["burn", "--runtime", "1ms"]));
    let mut yaml = "windows:\n".to_owned();
    for partition in windows {
        yaml.push_str(&format!("- {{length: {}ns, cpu: {}, sc_partition: {partition}}}\n", WINDOW.ns(), lab.cpu));
    }
    yaml.push_str("partitions:\n");
    for name in ["a", "b"] {
        yaml.push_str(&format!(
            "- {{name: {name}, processes: [{{name: p{name}, budget: {budget}ms, init: yes, cmd: {burn}}}]}}\n"
        ));
    }
    lab.workload(&yaml)
}

fn measure(lab: &Lab, tables: &[std::path::PathBuf; 2], length: Span, reloads: u32) -> Result<Measured, Failure> {
    let (trace, output) = (lab.path("jsonl"), lab.path("json"));
    let options = RunOptions { duration: Some(length), ..RunOptions::default() };
    let mut command = lab.takt_run(&tables[0], &trace, options);
    let mut run = Child(command.stdout(File::create(&output)?).spawn()?);
    let begin = Instant::now();
    while start_of(&trace)?.is_none() {
        if run.0.try_wait()?.is_some() || begin.elapsed() > START {
            return Err(failed("`takt run` has not started its processes"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if reloads > 0 {
        reload(run.0.id(), tables, reloads)?;
    }
    if !run.0.wait()?.success() {
        return Err(failed("`takt run` has failed"));
    }
    let said: Value =
        serde_json::from_slice(&fs::read(&output)?).map_err(|e| failed(&format!("`takt run` said: {e}")))?;
    let late = &said["lateness_ns"];
    let figure = |key: &str| late[key].as_i64().unwrap_or_default();
    let lateness =
        Figures { count: figure("count") as usize, p50: figure("p50"), p99: figure("p99"), max: figure("max") };
    let taken = fs::read_to_string(&trace)?.matches("\"type\":\"table\"").count() as u64;
    if taken != u64::from(reloads) {
        return Err(failed(&format!("{taken} of {reloads} window tables took over")));
    }
    fs::remove_file(&trace)?;
    Ok(Measured { lateness, lost: said["windows_lost"].as_u64().unwrap_or_default(), tables: taken })
}

/// Reloads one table after the other. Each answer comes when the table has taken over.
fn reload(run: u32, tables: &[std::path::PathBuf; 2], reloads: u32) -> Result<(), Failure> {
    let path = client::find(Some(&run.to_string()))?;
    let mut connection = Connection::open(&path)?;
    for reload in 0..reloads {
        let file = text(&tables[(reload as usize + 1) % 2]);
        match connection.ask(&Request::Reload { file })? {
            Reply::Done(done) if done.from_ns.is_some() => {}
            Reply::Done(_) => {
                return Err(failed("the run has ended before all reloads were made; ask for fewer `--reloads`"));
            }
            Reply::Error(fault) => return Err(failed(&format!("the run has refused a reload: {}", fault.message))),
            Reply::Status(_) | Reply::Figures(_) => return Err(failed("the run has given another answer")),
        }
    }
    Ok(())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn failed(why: &str) -> Failure {
    Failure::machine(Code::SystemError, why, "see `takt doctor`, or measure without other load")
}
