//! `takt bench view`: pages of long traces, beside CSV, and in a browser.

use super::figures::{cpu_time, median, peak_memory, text};
use super::lab::Session;
use super::options::{Form, Rounds};
use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use crate::scratch::Scratch;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use takt::header::header;
use takt::report::table;
use takt_core::model::PolicySpec;
use takt_core::record::{Record, RecordKind, Sink};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_trace::page::PageWriter;
use takt_trace::{Footer, Format, Stamped, Writer};
use takt_workload::{Code, Options, Source, Workload};

/// Measure pages of long traces: their writing beside CSV, and a browser that shows them
///
/// Twenty periodic tasks under global EDF on four CPUs. A page and a CSV of equally many records are written in turns. Then chromium or
/// google-chrome opens a page, and shows 120 parts of it.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// Records of the written traces
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    records: u64,
    /// Pieces of the page that is shown
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(100..=20_000_000))]
    pieces: u64,
    #[command(flatten)]
    form: Form,
}

const SET: &str = include_str!("../../../embedded/data/g4_20_s1.csv");
/// The time of a page in hundredths of that of CSV, without the simulation.
const TIMES_MOST: i64 = 200;
/// The growth of peak memory for each further record, in bytes.
const MEMORY_MOST: i64 = 4;
const FIRST_MOST: Span = Span::from_ms(1000);
const FRAME_MOST: Span = Span::from_ms(33);
/// Names of browsers, as in the tests.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// A page that is not shown after this has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The target of the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Nothing,
    Csv,
    Page,
}

/// Records on their way to a writer.
#[derive(Default)]
struct Written {
    writer: Option<Box<dyn Writer + Send>>,
    error: Option<io::Error>,
    records: u64,
    pieces: u64,
}

impl Sink for Written {
    fn record(&mut self, record: Record) {
        self.records += 1;
        self.pieces += u64::from(matches!(record.kind, RecordKind::Start { .. }));
        let Some(writer) = &mut self.writer else { return };
        if let Err(e) = writer.record(&Stamped { record, applied: record.at }) {
            self.error.get_or_insert(e);
        }
    }
}

/// One simulation.
#[derive(Clone, Copy, Debug)]
struct Measured {
    records: u64,
    pieces: u64,
    cpu_time: Span,
    bytes: u64,
}

fn set() -> Result<Workload, Failure> {
    let fault = || Failure::status(101, Code::InternalFault, "the set g4_20_s1 cannot be read");
    let source = Source::from_bytes("g4_20_s1.csv", SET.into()).map_err(|_| fault())?;
    let options = Options { cpus: Some(4), policy: PolicySpec::from_name("g-edf"), ..Options::default() };
    takt_workload::load(source, &options).map_err(|_| fault())
}

fn simulate(workload: &Workload, target: Target, length: Span, file: &Path) -> Result<Measured, Failure> {
    let wrong = |e: io::Error| Failure::file("write", file, &e);
    let mut engine = takt::load::engine(workload.system.clone()).map_err(|e| takt::Error::unsuitable(workload, &e))?;
    let header = header(workload, "sim", Some(length));
    let output = || File::create(file).map(|file| Box::new(file) as Box<dyn Write + Send>).map_err(wrong);
    let start = cpu_time();
    let writer: Option<Box<dyn Writer + Send>> = match target {
        Target::Nothing => None,
        Target::Csv => Some(takt_trace::writer(Format::Csv, &header, output()?).map_err(wrong)?),
        Target::Page => Some(Box::new(PageWriter::new(&header, SET, output()?))),
    };
    let mut sink = Written { writer, ..Written::default() };
    takt_sim::simulate(&mut engine, &Scenario::default(), length, &mut sink, |_| ());
    sink.error.map_or(Ok(()), Err).map_err(wrong)?;
    if let Some(writer) = sink.writer {
        writer.finish(&Footer { end: Time::ZERO + length, dropped: 0 }).map_err(wrong)?;
    }
    let cpu_time = cpu_time() - start;
    let bytes = if target == Target::Nothing { 0 } else { std::fs::metadata(file).map_err(wrong)?.len() };
    Ok(Measured { records: sink.records, pieces: sink.pieces, cpu_time, bytes })
}

/// The report of the page about itself.
struct Shown {
    pieces: u64,
    first: Span,
    frames: Span,
    longest: Span,
}

/// Opens a page in the first installed browser, which shows parts of it and says so on its console. `None` without a browser.
fn show(page: &Path) -> Result<Option<Shown>, Failure> {
    let installed = |name: &&&str| {
        let version = Command::new(name).arg("--version").stdin(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    };
    let Some(name) = BROWSERS.iter().find(installed) else { return Ok(None) };
    let failed = |why: String| {
        Failure::machine(
            Code::MissingProgram,
            format!("{name} does not show the page: {why}"),
            "start it on a page by hand",
        )
    };
    let profile = page.with_extension("profile");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &PATIENCE.as_secs().to_string(), name]);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--window-size=1200,900"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    // A port keeps the browser open until the page has spoken.
    command.args(["--remote-debugging-port=0", &format!("file://{}#bench", page.display())]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut browser = command.spawn().map_err(|e| failed(e.to_string()))?;
    let said = BufReader::new(browser.stderr.take().expect("it is piped"));
    let figures = said.split(b'\n').map_while(Result::ok).find_map(|line| {
        let line = String::from_utf8_lossy(&line).into_owned();
        let (_, figures) = line.split_once("takt bench {")?;
        serde_json::from_str::<Value>(&format!("{{{}", &figures[..=figures.find('}')?])).ok()
    });
    // `timeout` hands the signal on.
    if let Some(pid) = rustix::process::Pid::from_raw(browser.id().cast_signed()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    browser.wait()?;
    let figures = figures.ok_or_else(|| failed(format!("it said nothing within {} s", PATIENCE.as_secs())))?;
    let time = |key: &str| Span::from_ns((figures[key].as_f64().unwrap_or(0.0) * 1e6) as i64);
    Ok(Some(Shown {
        pieces: figures["pieces"].as_u64().unwrap_or(0),
        first: time("first_ms"),
        frames: time("median_ms"),
        longest: time("longest_ms"),
    }))
}

/// A requirement: the subject, the measured value, the limit, and whether it holds. `None` where a short round says nothing.
type Limit = (&'static str, String, String, Option<bool>);

pub(super) fn run(args: &Args) -> Outcome {
    let session = Session::begin("view", args.rounds.count(&args.form), args.form.quick);
    let dir = Scratch::new("takt-bench-")?;
    let [csv, page] = ["t.csv", "t.html"].map(|name| dir.path().join(name));
    let workload = set()?;
    let (records, pieces) = if session.quick { (100_000, 20_000) } else { (args.records, args.pieces) };
    let sample = Span::from_secs(10);
    let known = simulate(&workload, Target::Nothing, sample, &csv)?;
    let length = |wanted: u64, found: u64| {
        Span::from_ns((i128::from(sample.ns()) * i128::from(wanted) / i128::from(found.max(1))) as i64 + 1)
    };
    let whole = length(records, known.records);
    // First of all, since a peak does not go down again.
    session.progress("memory");
    let tenth = simulate(&workload, Target::Page, whole / 10, &page)?;
    let before = peak_memory();
    let all = simulate(&workload, Target::Page, whole, &page)?;
    let growth = (peak_memory() - before) * 1024;
    let for_each = growth as f64 / (all.records - tenth.records).max(1) as f64;
    let targets = [(Target::Nothing, "no trace", &csv), (Target::Csv, "CSV", &csv), (Target::Page, "page", &page)];
    let mut runs: [Vec<Measured>; 3] = Default::default();
    for round in 1..=session.rounds {
        for ((target, name, file), runs) in targets.iter().zip(&mut runs) {
            session.round(round, name);
            runs.push(simulate(&workload, *target, whole, file)?);
        }
    }
    simulate(&workload, Target::Page, length(pieces, known.pieces), &page)?;
    session.progress("browser");
    let shown = show(&page)?;
    let times = runs.each_ref().map(|runs| median(runs.iter().map(|run| run.cpu_time.ns())));
    let [csv_time, page_time] = [times[1], times[2]].map(|time| (time - times[0]).max(1));
    let hundredths = (i128::from(page_time) * 100 / i128::from(csv_time)) as i64;
    let sure = |holds: bool| (!session.quick).then_some(holds);
    let mut limits: Vec<Limit> = vec![
        (
            "time of a page, in that of CSV",
            format!("{}.{:02}", hundredths / 100, hundredths % 100),
            format!("{}.00", TIMES_MOST / 100),
            sure(hundredths <= TIMES_MOST),
        ),
        (
            "memory for each further record of a page",
            format!("{for_each:.2} bytes"),
            format!("{MEMORY_MOST} bytes"),
            sure(for_each <= MEMORY_MOST as f64),
        ),
    ];
    if let Some(Shown { first, longest, .. }) = &shown {
        let time = |span: &Span| text(span.ns());
        limits.push(("first picture", time(first), time(&FIRST_MOST), sure(*first <= FIRST_MOST)));
        limits.push(("longest frame", time(longest), time(&FRAME_MOST), sure(*longest <= FRAME_MOST)));
    }
    let mut out = io::stdout().lock();
    if args.form.json {
        let limit = |(what, measured, limit, holds): &Limit| json!({"what": what, "measured": measured, "limit": limit, "holds": holds});
        let written = ["nothing", "csv", "page"].iter().zip(&runs).zip(times).map(|((name, runs), time)| {
            json!({"target": name, "cpu_ns": time, "bytes": runs[0].bytes, "rounds": runs.iter().map(|run| run.cpu_time.ns()).collect::<Vec<_>>()})
        });
        let shown = shown.as_ref().map(|s| {
            json!({"pieces": s.pieces, "first_ns": s.first.ns(), "frame_ns": s.frames.ns(), "longest_frame_ns": s.longest.ns()})
        });
        let results = json!({"records": all.records, "pieces": all.pieces, "written": written.collect::<Vec<_>>(),
            "peak_growth_bytes": growth, "shown": shown});
        let limits: Vec<Value> = limits.iter().map(limit).collect();
        writeln!(out, "{}", session.json(json!({"results": results, "limits": limits})))?;
    } else {
        let [title, machine] = session.heading(&format!(", {} records, {} pieces", all.records, all.pieces));
        writeln!(out, "{title}\n{machine}\n")?;
        let mut rows = vec![["trace", "CPU time", "without the simulation", "size"].map(String::from).to_vec()];
        for (((_, name, _), runs), time) in targets.iter().zip(&runs).zip(times) {
            let alone = if runs[0].bytes == 0 { "-".into() } else { text(time - times[0]) };
            rows.push(vec![(*name).into(), text(time), alone, format!("{:.1} MB", runs[0].bytes as f64 / 1e6)]);
        }
        table(&mut out, &rows)?;
        match &shown {
            Some(s) => writeln!(
                out,
                "\nin the browser, {} pieces: first picture after {}, frames p50 {}, max {}\n",
                s.pieces,
                text(s.first.ns()),
                text(s.frames.ns()),
                text(s.longest.ns())
            )?,
            None => writeln!(out, "\nnot shown in a browser: install chromium or google-chrome\n")?,
        }
        for (what, measured, limit, holds) in &limits {
            let verdict = match holds {
                Some(true) => "ok",
                Some(false) => "over",
                None => "not judged",
            };
            writeln!(out, "{what}: {measured}, at most {limit}: {verdict}")?;
        }
    }
    let missed = limits.iter().any(|limit| limit.3 == Some(false));
    Ok(if args.form.strict && missed { Verdict::No } else { Verdict::Done })
}
