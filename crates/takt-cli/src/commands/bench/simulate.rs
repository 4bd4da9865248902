//! `takt bench simulate`: jobs per CPU second of the simulator, and of SimSo on the same sets.

use super::figures::{cpu_time, median, peak_memory};
use super::lab::{Session, reached};
use super::options::{Form, Rounds};
use crate::failure::Failure;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use crate::scratch::Scratch;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use takt::header::header;
use takt::report::table;
use takt_core::model::PolicySpec;
use takt_core::record::{Record, Sink};
use takt_core::scenario::Scenario;
use takt_core::stats::Responses;
use takt_core::time::{Span, Time};
use takt_trace::{Footer, Format, Stamped, Writer};
use takt_workload::{Code, Options, Source, Workload};

/// Measure the number of jobs that the simulator completes in a second of CPU time
///
/// Two periodic task sets under EDF: ten tasks on one CPU, and twenty on four. Each is simulated with counters only, with response
/// times, and with a Perfetto trace of all events. `--simso` adds SimSo.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// Simulated time of each set
    #[arg(long, default_value = "1000s", value_parser = duration)]
    duration: Span,
    /// A Python with SimSo 0.8.5, to compare with; it simulates a twentieth of the time
    #[arg(long, value_name = "PYTHON")]
    simso: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

struct Set {
    name: &'static str,
    csv: &'static str,
    cpus: usize,
    policy: &'static str,
    /// Jobs per CPU second of the simulator of schedcat (86211bc, C++), measured once on another machine.
    fastest: i64,
}

const SETS: [Set; 2] = [
    Set {
        name: "uni10_s1",
        csv: include_str!("../../../embedded/data/uni10_s1.csv"),
        cpus: 1,
        policy: "edf",
        fastest: 8_700_000,
    },
    Set {
        name: "g4_20_s1",
        csv: include_str!("../../../embedded/data/g4_20_s1.csv"),
        cpus: 4,
        policy: "g-edf",
        fastest: 6_000_000,
    },
];

/// Jobs per CPU second that are to be reached with a trace.
const TRACED_LEAST: i64 = 1_000_000;
/// By how much the peak memory may grow between a tenth of the simulated time and all of it, in KiB.
const GROWTH_MOST: i64 = 1024;
const SIMSO: &str = include_str!("with_simso.py");
const INSTALL: &str = "python3 -m venv DIR && DIR/bin/pip install simso==0.8.5, then --simso DIR/bin/python";

/// The work beside counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Counters,
    Responses,
    Trace,
}

/// One simulation.
#[derive(Clone, Debug)]
struct Run {
    completed: u64,
    missed: u64,
    cpu_time: Span,
    bytes: u64,
}

impl Run {
    /// Jobs per second of CPU time.
    fn rate(&self) -> i64 {
        (i128::from(self.completed) * 1_000_000_000 / i128::from(self.cpu_time.ns().max(1))) as i64
    }
}

struct Traced {
    writer: Box<dyn Writer + Send>,
    error: Option<io::Error>,
}

impl Sink for Traced {
    fn record(&mut self, record: Record) {
        if let Err(e) = self.writer.record(&Stamped { record, applied: record.at }) {
            self.error.get_or_insert(e);
        }
    }
}

fn read(set: &Set) -> Result<Workload, Failure> {
    let fault =
        |what: &str| Failure::status(101, Code::InternalFault, format!("the set {} cannot be read: {what}", set.name));
    let source = Source::from_bytes(format!("{}.csv", set.name), set.csv.into()).map_err(|_| fault("no text"))?;
    let options = Options { cpus: Some(set.cpus), policy: PolicySpec::from_name(set.policy), ..Options::default() };
    takt_workload::load(source, &options).map_err(|_| fault("no task set"))
}

fn simulate(workload: &Workload, mode: Mode, length: Span, trace: &Path) -> Result<Run, Failure> {
    let wrong = |e: io::Error| Failure::file("write", trace, &e);
    let mut engine = takt::load::engine(workload.system.clone()).map_err(|e| takt::Error::unsuitable(workload, &e))?;
    let scenario = Scenario::default();
    let mut bytes = 0;
    let start = cpu_time();
    match mode {
        Mode::Counters => drop(takt_sim::simulate(&mut engine, &scenario, length, &mut (), |_| ())),
        Mode::Responses => {
            let mut responses = Responses::new(workload.tasks.len());
            takt_sim::simulate(&mut engine, &scenario, length, &mut responses, |_| ());
        }
        Mode::Trace => {
            let header = header(workload, "sim", Some(length));
            let file = Box::new(File::create(trace).map_err(wrong)?);
            let writer = takt_trace::writer(Format::Perfetto, &header, file).map_err(wrong)?;
            let mut sink = Traced { writer, error: None };
            takt_sim::simulate(&mut engine, &scenario, length, &mut sink, |_| ());
            let Traced { writer, error } = sink;
            error.map_or(Ok(()), Err).map_err(wrong)?;
            writer.finish(&Footer { end: Time::ZERO + length, dropped: 0 }).map_err(wrong)?;
            bytes = std::fs::metadata(trace).map_err(wrong)?.len();
        }
    }
    let cpu_time = cpu_time() - start;
    let totals = engine.totals();
    Ok(Run { completed: totals.completed, missed: totals.missed, cpu_time, bytes })
}

/// The same with SimSo. Returns its version, too.
fn simso(python: &Path, workload: &Workload, length: Span) -> Result<(Run, String), Failure> {
    let us = |span: Option<Span>| span.map_or(0, |s| s.ns() / 1000);
    let tasks = workload.system.tasks.iter().map(|t| [us(t.runtime), us(t.deadline), us(t.arrival.period())]);
    let request = json!({
        "cpus": workload.system.cpus.len(), "duration_ms": length.ns() / 1_000_000, "tasks": tasks.collect::<Vec<_>>(),
    });
    let fault = |why: String| {
        Failure::machine(
            Code::MissingProgram,
            format!("SimSo cannot be run with `{}`: {why}", python.display()),
            INSTALL,
        )
    };
    let mut child = Command::new(python)
        .args(["-", &request.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| fault(e.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A Python that does not read it says more by its exit.
        let _ = stdin.write_all(SIMSO.as_bytes());
    }
    let output = child.wait_with_output()?;
    let last = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().lines().last().unwrap_or("").to_string();
    if !output.status.success() {
        return Err(fault(last(&output.stderr)));
    }
    let said: Value = serde_json::from_slice(&output.stdout).map_err(|e| fault(e.to_string()))?;
    let number = |key: &str| said[key].as_u64().ok_or_else(|| fault(format!("it did not tell `{key}`")));
    let cpu_time = Span::from_ns(number("cpu_ns")? as i64);
    let run = Run { completed: number("completed")?, missed: number("missed")?, cpu_time, bytes: 0 };
    Ok((run, said["version"].as_str().unwrap_or("of unknown version").to_string()))
}

/// The measurements of one set.
struct Measured {
    set: &'static Set,
    runs: [Vec<Run>; 3],
    simso: Vec<Run>,
}

impl Measured {
    fn rate(runs: &[Run]) -> i64 {
        median(runs.iter().map(Run::rate))
    }
    fn counters(&self) -> i64 {
        Measured::rate(&self.runs[0])
    }
    fn traced(&self) -> i64 {
        Measured::rate(&self.runs[2])
    }
    fn row(&self) -> Vec<String> {
        let first = &self.runs[0][0];
        let mut row = vec![self.set.name.to_string(), first.completed.to_string(), first.missed.to_string()];
        row.extend(self.runs.iter().map(|runs| rate(Measured::rate(runs))));
        row.push(format!("{} MB", self.runs[2][0].bytes / 1_000_000));
        if self.simso.is_empty() {
            row.extend(["-"; 3].map(String::from));
        } else {
            let peer = Measured::rate(&self.simso);
            row.extend([rate(peer), times(self.counters(), peer), times(self.traced(), peer)]);
        }
        row
    }
    fn json(&self) -> Value {
        let rounds = |runs: &[Run]| {
            let each =
                runs.iter().map(|r| json!({"completed": r.completed, "missed": r.missed, "cpu_ns": r.cpu_time.ns()}));
            json!({"jobs_per_cpu_second": Measured::rate(runs), "rounds": each.collect::<Vec<_>>()})
        };
        let [counters, responses, traced] = self.runs.each_ref().map(|runs| rounds(runs));
        json!({
            "name": self.set.name, "cpus": self.set.cpus, "policy": self.set.policy, "counters": counters,
            "responses": responses, "perfetto": traced, "trace_bytes": self.runs[2][0].bytes,
            "simso": if self.simso.is_empty() { Value::Null } else { rounds(&self.simso) },
        })
    }
}

/// A rate to three digits.
fn rate(per_second: i64) -> String {
    match per_second {
        n if n >= 1_000_000 => format!("{}.{:02} M/s", n / 1_000_000, n % 1_000_000 / 10_000),
        n => format!("{}.{} k/s", n / 1_000, n % 1_000 / 100),
    }
}

fn times(value: i64, peer: i64) -> String {
    if peer > 0 { format!("{}x", value / peer) } else { "-".into() }
}

/// A line that must hold: what, measured, the limit in words, whether it holds (`None` when one short round says nothing).
type Limit = (String, String, String, Option<bool>);

fn limits(all: &[Measured], growth: i64, quick: bool) -> Vec<Limit> {
    let sure = |holds: bool| (!quick).then_some(holds);
    let mut limits = Vec::new();
    for m in all {
        let name = m.set.name;
        let (third, counters, traced) = (m.set.fastest / 3, m.counters(), m.traced());
        let least =
            format!("at least {}, a third of what schedcat's simulator did once, on another machine", rate(third));
        limits.push((format!("{name}, counters only"), rate(counters), least, sure(counters >= third)));
        let least = format!("at least {}", rate(TRACED_LEAST));
        limits.push((format!("{name}, Perfetto trace"), rate(traced), least, sure(traced >= TRACED_LEAST)));
    }
    let grown = (format!("{growth} KiB"), format!("at most {GROWTH_MOST} KiB"), sure(growth <= GROWTH_MOST));
    limits.push(("peak memory after ten times the simulated time".into(), grown.0, grown.1, grown.2));
    limits
}

/// All that was measured, and how.
struct Results {
    all: Vec<Measured>,
    length: Span,
    /// Simulated time and version of SimSo, if it was asked.
    simso: Option<(Span, String)>,
    /// Peak memory after a tenth of the simulated time and after all of it, in KiB.
    peaks: [i64; 2],
    limits: Vec<Limit>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let session = Session::begin("simulate", args.rounds.count(&args.form), args.form.quick);
    let results = measure(args, &session)?;
    let mut out = io::stdout().lock();
    if args.form.json {
        writeln!(out, "{}", session.json(results.json()))?;
    } else {
        results.print(&session, &mut out)?;
    }
    let missed = results.limits.iter().any(|l| l.3 == Some(false));
    Ok(if args.form.strict && missed { Verdict::No } else { Verdict::Done })
}

fn measure(args: &Args, session: &Session) -> Result<Results, Failure> {
    let dir = Scratch::new("takt-bench-")?;
    let trace = dir.path().join("trace.pftrace");
    let length = if session.quick { Span::from_secs(20) } else { args.duration };
    let peer_length = Span::from_ms((length.ns() / 20_000_000).max(1));
    let mut all = Vec::new();
    for set in &SETS {
        all.push((read(set)?, Measured { set, runs: Default::default(), simso: Vec::new() }));
    }
    // First of all, since a peak does not go down again.
    let mut peaks = [0; 2];
    for (peak, part) in peaks.iter_mut().zip([length / 10, length]) {
        for (workload, _) in &all {
            simulate(workload, Mode::Trace, part, &trace)?;
        }
        *peak = peak_memory();
    }
    let mut version = None;
    for round in 1..=session.rounds {
        for (workload, measured) in &mut all {
            session.round(round, measured.set.name);
            for (mode, runs) in [Mode::Counters, Mode::Responses, Mode::Trace].into_iter().zip(&mut measured.runs) {
                runs.push(simulate(workload, mode, length, &trace)?);
            }
            if let Some(python) = &args.simso {
                let (run, found) = simso(python, workload, peer_length)?;
                measured.simso.push(run);
                version = Some(found);
            }
        }
    }
    let all: Vec<Measured> = all.into_iter().map(|(_, measured)| measured).collect();
    let limits = limits(&all, peaks[1] - peaks[0], session.quick);
    Ok(Results { all, length, simso: version.map(|version| (peer_length, version)), peaks, limits })
}

impl Results {
    fn json(&self) -> Value {
        let limit = |(what, measured, limit, holds): &Limit| json!({"what": what, "measured": measured, "limit": limit, "holds": holds});
        let [tenth, whole] = self.peaks;
        let simso = self.simso.as_ref();
        json!({
            "duration_ns": self.length.ns(), "simso": simso.map(|(_, version)| version),
            "simso_duration_ns": simso.map(|(length, _)| length.ns()),
            "results": {"sets": self.all.iter().map(Measured::json).collect::<Vec<_>>(),
                        "peak_memory_kib": {"tenth": tenth, "whole": whole}},
            "limits": self.limits.iter().map(limit).collect::<Vec<_>>(),
        })
    }

    fn print(&self, session: &Session, out: &mut impl Write) -> io::Result<()> {
        let what = format!(", {} of simulated time, EDF; jobs per second of CPU time", self.length);
        let [title, machine] = session.heading(&what);
        writeln!(out, "{title}\n{machine}")?;
        match &self.simso {
            Some((length, version)) => writeln!(out, "SimSo {version}: {length} of simulated time\n")?,
            None => writeln!(out, "no comparison with SimSo: {INSTALL}\n")?,
        }
        let head =
            ["set", "completed", "missed", "counters", "responses", "Perfetto", "trace", "SimSo", "ratio", "traced"];
        let mut rows = vec![head.map(String::from).to_vec()];
        rows.extend(self.all.iter().map(Measured::row));
        table(out, &rows)?;
        writeln!(out)?;
        for (what, measured, limit, holds) in &self.limits {
            writeln!(out, "{what}: {measured}, {limit}: {}", reached(*holds))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        let texts = [8_712_345, 1_000_000, 999_999, 3_949].map(rate);
        assert_eq!(texts, ["8.71 M/s", "1.00 M/s", "999.9 k/s", "3.9 k/s"]);
        assert_eq!([times(8_700_000, 3_900), times(1, 0)], ["2230x", "-"]);
    }

    #[test]
    fn every_mode_does_the_same_jobs() {
        let dir = tempfile::tempdir().unwrap();
        for set in &SETS {
            let workload = read(set).unwrap();
            let run = |mode| simulate(&workload, mode, Span::from_secs(10), &dir.path().join("t.pftrace")).unwrap();
            let [counters, responses, traced] = [Mode::Counters, Mode::Responses, Mode::Trace].map(run);
            assert!(counters.completed > 1_000, "{counters:?}");
            assert_eq!((counters.completed, counters.missed), (responses.completed, responses.missed));
            assert_eq!((counters.completed, counters.missed), (traced.completed, traced.missed));
            assert!(traced.bytes > 100_000 && counters.bytes == 0);
        }
    }
}
