//! `takt trace`: what a simulation or a run recorded.

mod why;

use super::{output, series};
use crate::failure::{Failure, colour};
use crate::files::{self, ready};
use crate::input::{Input, duration, warn};
use crate::outcome::{Outcome, Verdict};
use crate::progress::{Counted, Progress};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use takt::header::settings;
use takt::report::{Cell, aligned, short, table};
use takt_core::cpus::CpuSet;
use takt_core::input::Input as Change;
use takt_core::model::{PolicySpec, Step, Task};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_trace::check::Finding;
use takt_trace::diff::{Comparison, Diff, Point, Side};
use takt_trace::gantt::{SvgOptions, TextOptions};
use takt_trace::jobs::JobTable;
use takt_trace::page::{self, Page, PageOptions};
use takt_trace::{
    Footer, Format, Header, Part, Parts, ReadError, START, Stamped, Trace, Writer, check, diff, gantt, kernel_check,
    summary,
};
use takt_workload::{Code, Dispatch, Workload};

/// Show, convert, check or compare traces
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Draw a trace in the terminal, with its counts
    Show {
        /// A .jsonl or .csv trace
        trace: PathBuf,
        /// First instant drawn
        #[arg(long, value_parser = takt_workload::parse_duration)]
        from: Option<Span>,
        /// Last instant drawn
        #[arg(long, value_parser = duration)]
        to: Option<Span>,
        /// Columns
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(40..=10_000))]
        width: u16,
    },
    /// Write a trace in another format: .pftrace, .jsonl, .csv or .svg; or its table of jobs
    Convert {
        /// A .jsonl or .csv trace
        trace: PathBuf,
        /// Where to write; the ending names the format
        output: PathBuf,
        /// First instant; a trace keeps the records from then on
        #[arg(long, value_parser = takt_workload::parse_duration)]
        from: Option<Span>,
        /// Last instant
        #[arg(long, value_parser = duration)]
        to: Option<Span>,
        /// Width of an .svg in pixels
        #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u32).range(400..=20_000))]
        width: u32,
        /// Write the table of jobs to the .csv: release, start, finish, response time and its parts, outcome, CPU and preemptions of each
        #[arg(long, conflicts_with_all = ["from", "to"])]
        jobs: bool,
        /// Join the files of a trace that `--trace-size` has divided: give the last one, and those with numbers come before it
        #[arg(long)]
        series: bool,
    },
    /// Check a trace against the rules of scheduling, and against its workload
    Check {
        /// A .jsonl or .csv trace
        trace: PathBuf,
        /// The workload that was simulated or run; machine, policy and seed are those of the trace
        file: Option<PathBuf>,
        /// Largest lateness of the real machine that is not reported; by default 1 ms, and 0 for a simulation without costs
        #[arg(long, value_parser = takt_workload::parse_duration)]
        tolerance: Option<Span>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check the trace of a run against the kernel's own account of the running processes
    ///
    /// The account is the text of tracefs's `trace` with the event sched_switch and the clock `mono`, taken during the run.
    Kernel {
        /// A .jsonl or .csv trace of a run
        trace: PathBuf,
        /// The text of /sys/kernel/tracing/trace
        switches: PathBuf,
        /// Largest difference at each start and stop that is not reported
        #[arg(long, default_value = "1ms", value_parser = takt_workload::parse_duration)]
        tolerance: Span,
        /// The processes never sleep: also report each one that has a CPU and does not run
        #[arg(long)]
        busy: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write a trace as one HTML page that opens in a browser without a network: lanes to zoom, search, the causes of late jobs
    View {
        /// A .jsonl or .csv trace
        trace: PathBuf,
        /// The workload that was simulated or run, whose text the page shows
        file: Option<PathBuf>,
        /// Another trace of the same workload, drawn below each lane, with the differences
        #[arg(long)]
        with: Option<PathBuf>,
        /// Where to write the page; the ending is .html
        #[arg(short, long)]
        output: PathBuf,
        /// With another trace: instants that differ by at most this are equal
        #[arg(long, default_value = "1ms", value_parser = takt_workload::parse_duration)]
        tolerance: Span,
    },
    /// Divide the response time of a job by its causes: own work, other tasks, blocking, lateness of the scheduler
    Why {
        /// A .jsonl or .csv trace
        trace: PathBuf,
        /// The task's name and the job's number, such as `camera#3`
        #[arg(value_name = "TASK#JOB")]
        job: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Compare the schedules of two traces: order, and instants within a tolerance
    Diff {
        /// A .jsonl or .csv trace
        a: PathBuf,
        /// Another one
        b: PathBuf,
        /// Instants that differ by at most this are equal
        #[arg(long, default_value = "1ms", value_parser = takt_workload::parse_duration)]
        tolerance: Span,
        /// Share of points, in percent, that may differ by more
        #[arg(long, default_value_t = 0)]
        allow: u8,
        /// Compare the instants at which the jobs of each task run, and ignore their CPUs
        #[arg(long)]
        ignore_cpus: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = io::stdout().lock();
    match &args.command {
        Command::Show { trace, from, to, width } => {
            let trace = read(trace)?;
            within(&trace, *from, *to)?;
            let mut options = TextOptions {
                width: usize::from(*width),
                from: Time::ZERO + from.unwrap_or(Span::ZERO),
                to: to.map(|to| Time::ZERO + to),
                color: colour(&io::stdout()),
            };
            let opening = match (from, to) {
                (None, None) => gantt::first_hyperperiod(&trace, options.width),
                _ => None,
            };
            options.to = options.to.or(opening);
            let note = opening.map(|to| output::opening(&trace, to, format!("`--to {}`", trace.end())));
            show(&trace, &options, note.as_deref(), &mut out)
        }
        Command::Convert { trace: file, output, from, to, width, jobs, series } => {
            let files = if *series { series::files(file) } else { vec![file.clone()] };
            let range = (Time::ZERO + from.unwrap_or(Span::ZERO), to.map(|to| Time::ZERO + to));
            let drawn = output.extension().is_some_and(|e| e == "svg");
            match (&files[..], drawn && !jobs) {
                ([file], false) => copy(file, output, range, *jobs)?,
                _ => {
                    let mut trace = if *series { joined(&files)? } else { read(file)? };
                    within(&trace, *from, *to)?;
                    let _outputs = ready(&files, [output])?;
                    match jobs {
                        true => pour(&trace, jobs_to(&trace.header, output)?, output)?,
                        false => convert(&mut trace, output, range, *width)?,
                    }
                }
            }
            Ok(Verdict::Done)
        }
        Command::Check { trace, file, tolerance, json } => checked(trace, file.as_deref(), *tolerance, *json, &mut out),
        Command::Kernel { trace, switches, tolerance, busy, json } => {
            kernel(&read(trace)?, switches, *tolerance, *busy, *json, &mut out)
        }
        Command::View { trace, file, with, output, tolerance } => {
            view(trace, file.as_deref(), with.as_deref(), output, *tolerance)
        }
        Command::Why { trace, job, json } => why::explain(&read(trace)?, job, *json, &mut out),
        Command::Diff { a, b, tolerance, allow, ignore_cpus, json } => {
            let diff = compared([a, b], *tolerance, *ignore_cpus)?;
            let equal = diff.order_equal && diff.beyond * 100 <= diff.compared * usize::from(*allow);
            if *json {
                let point = |p: &Point| json!({"task": p.task, "job": p.job, "a_ns": p.a.map(Time::ns), "b_ns": p.b.map(Time::ns)});
                let points: Vec<_> = diff.points.iter().map(point).collect();
                let object = json!({"compared": diff.compared, "beyond": diff.beyond, "order_equal": diff.order_equal,
                    "only_cpus": diff.only_cpus, "largest_ns": diff.largest.ns(), "points": points, "places": diff.places});
                writeln!(out, "{object}")?;
            } else {
                differences(&diff, &mut out)?;
            }
            Ok(if equal { Verdict::Done } else { Verdict::No })
        }
    }
}

fn show(trace: &Trace, options: &TextOptions, note: Option<&str>, out: &mut impl Write) -> Outcome {
    let progress = Progress::busy("drawing");
    let (chart, summary) = (gantt::text(trace, options), summary::summarize(trace));
    progress.finish();
    write!(out, "{chart}")?;
    note.map_or(Ok(()), |note| writeln!(out, "{note}"))?;
    let total = summary.total;
    let handlers = summary.total.handlers;
    let [activations, cut_off, behind] = [total.activations, total.cut_off, total.behind];
    let tables = [("activations", activations), ("cut off", cut_off), ("behind", behind)];
    let power = [("frequency requests", summary.frequencies), ("skipped starts", summary.skipped_starts)];
    let more = tables.into_iter().chain([("handlers", handlers), ("deadlocks", summary.deadlocks)]).chain(power);
    let more: String = more.filter(|(_, n)| *n > 0).map(|(what, n)| format!(", {what} {n}")).collect();
    writeln!(
        out,
        "\nreleased {}, completed {}, met {}, missed {}, aborted {}, dispatches {}, preemptions {}, migrations {}{more}",
        total.released,
        total.completed,
        total.met,
        total.missed,
        total.aborted,
        total.dispatches,
        total.preemptions,
        total.migrations
    )?;
    for (index, zone) in summary.zones.iter().enumerate() {
        let degrees = |value: Option<i32>| {
            value.map_or("unknown".to_owned(), |milli| format!("{:.3} °C", f64::from(milli) / 1000.0))
        };
        let (name, last, highest) = (trace.header.zone(index as u16), degrees(zone.last), degrees(zone.highest));
        writeln!(
            out,
            "temperature of {name}: {last} at the end, {highest} at most; samples {}, bad {}",
            zone.samples, zone.bad
        )?;
    }
    note_end(trace, out)?;
    Ok(Verdict::Done)
}

fn note_end(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    match trace.footer {
        Some(_) => Ok(()),
        None => writeln!(out, "note: the trace has no end; its writer was interrupted"),
    }
}

fn checked(path: &Path, file: Option<&Path>, tolerance: Option<Span>, as_json: bool, out: &mut impl Write) -> Outcome {
    let (format, input, bytes) = opened(path)?;
    // Two passes.
    let progress = Progress::part(2 * bytes, "of the trace checked");
    let begun = || parts(path, format, Counted { inner: &input, progress: &progress });
    let Frame { trace, records, .. } = Frame::read(path, begun()?)?;
    let workload = file.map(|file| workload_of(&trace, file)).transpose()?;
    let conditions = workload.as_ref().map(|workload| conditions(&trace, workload, tolerance));
    let usual = conditions.as_ref().map_or(REAL_LATENESS, |conditions| conditions.tolerance);
    let tolerance = tolerance.unwrap_or(usual);
    let mut rules = check::Checker::new(&trace, workload.as_ref().map(|w| &w.system), tolerance);
    let judged = workload.as_ref().zip(conditions.as_ref());
    let planned = judged.filter(|(_, conditions)| !conditions.changed);
    let mut arrivals =
        planned.map(|(workload, conditions)| check::Arrivals::new(&trace, &workload.system, conditions.tolerance));
    let mut schedule = judged.map(|(workload, conditions)| check::Schedule::new(&trace, &workload.system, conditions));
    again(path, &input)?;
    // A run can still write the trace: tasks that come later are not in the header.
    let mut left = records;
    for part in begun()? {
        if left == 0 {
            break;
        }
        if let Part::Record(record) = part.map_err(|e| unread(path, &e))? {
            left -= 1;
            rules.take(&record);
            arrivals.iter_mut().for_each(|arrivals| arrivals.take(&record.record));
            schedule.iter_mut().for_each(|schedule| schedule.take(&record));
        }
    }
    progress.finish();
    let mut findings = rules.findings();
    let mut unchecked = BTreeSet::new();
    if let Some(schedule) = schedule {
        match arrivals {
            Some(arrivals) => findings.extend(arrivals.findings()),
            None => {
                unchecked.insert(("arrival", "releases or terms of tasks change during the run".to_owned()));
            }
        }
        let judgement = schedule.judgement();
        findings.extend(judgement.findings);
        unchecked.extend(judgement.unchecked);
    } else {
        unchecked
            .insert(("order", "without the workload only rules are checked that the trace alone can show".to_owned()));
    }
    if as_json {
        let complete = trace.footer.is_some();
        let unchecked: Vec<_> = unchecked.iter().map(|(rule, why)| json!({"rule": rule, "why": why})).collect();
        let object =
            json!({"records": records, "complete": complete, "findings": objects(&findings), "unchecked": unchecked});
        writeln!(out, "{object}")?;
    } else {
        findings.iter().try_for_each(|f| writeln!(out, "{f}"))?;
        writeln!(out, "{records} records, {} findings", findings.len())?;
        unchecked.iter().try_for_each(|(rule, why)| writeln!(out, "not checked: `{rule}`: {why}"))?;
        note_end(&trace, out)?;
    }
    Ok(if findings.is_empty() { Verdict::Done } else { Verdict::No })
}

/// A trace without its records.
struct Frame {
    /// With the tasks, tables and names of policies that came after the header.
    trace: Trace,
    /// How many records there are.
    records: usize,
    /// The last instant of a record.
    last: Option<Time>,
}

impl Frame {
    fn read(file: &Path, mut parts: Parts<impl io::BufRead>) -> Result<Frame, Failure> {
        let (mut trace, mut records, mut last) = (Trace::default(), 0, None);
        for part in &mut parts {
            match part.map_err(|e| unread(file, &e))? {
                Part::Record(record) => {
                    records += 1;
                    last = last.max(Some(record.applied.max(record.record.at)));
                }
                Part::Change(change) => trace.changes.push(change),
                Part::End(footer) => trace.footer = Some(footer),
                Part::Measured(_) | Part::Task(..) | Part::Table(..) => {}
            }
        }
        trace.header = parts.header().clone();
        Ok(Frame { trace, records, last })
    }

    /// The end of the run, as [`Trace::end`] has it.
    fn trace_end(&self) -> Time {
        self.trace.footer.map_or_else(|| self.last.unwrap_or(Time::ZERO), |footer| footer.end)
    }

    /// The end of what is recorded.
    fn end(&self) -> Option<Time> {
        self.trace.footer.map(|footer| footer.end).max(self.last)
    }
}

/// The lateness of a real machine that is not reported without another one.
const REAL_LATENESS: Span = Span::from_ms(1);

/// The conditions under which a workload has given the records of a trace.
fn conditions(trace: &Trace, workload: &Workload, tolerance: Option<Span>) -> check::Conditions {
    let scenario = &workload.scenario;
    let free = Scenario { changes: scenario.changes.clone(), events: scenario.events.clone(), ..Scenario::default() };
    let (simulated, exact) = (trace.header.source == "sim", *scenario == free);
    let consumption = match simulated {
        true if exact => check::Consumption::Exact,
        true => check::Consumption::Bounded,
        // Elsewhere jobs run also while others are blocked, or as the kernel decides.
        false if workload.settings.dispatch == Dispatch::default() => check::Consumption::Bounded,
        false => check::Consumption::Unknown,
    };
    // A simulation without costs has no lateness.
    let usual = if simulated && exact { Span::ZERO } else { REAL_LATENESS };
    let changed = changes_releases(workload) || is_changed(trace);
    check::Conditions { tolerance: tolerance.unwrap_or(usual), consumption, changed }
}

/// Findings for `--json`.
fn objects(findings: &[Finding]) -> Vec<Value> {
    let object = |f: &Finding| json!({"at_ns": f.at.ns(), "task": f.task, "rule": f.rule, "message": f.message});
    findings.iter().map(object).collect()
}

/// Points of a comparison that are printed at most; `--json` has all.
const POINTS: usize = 50;

/// A comparison for people.
fn differences(diff: &Diff, out: &mut impl Write) -> io::Result<()> {
    let order = match (diff.order_equal, diff.only_cpus) {
        (true, _) => "the same order",
        (false, true) => "the same order on other CPUs",
        (false, false) => "a different order",
    };
    let (compared, beyond, tolerance, largest) = (diff.compared, diff.beyond, diff.tolerance, short(diff.largest));
    writeln!(
        out,
        "{compared} points compared, {beyond} differ by more than {tolerance}, largest difference {largest}; {order}"
    )?;
    if diff.only_cpus {
        writeln!(out, "only the CPUs differ, and `--ignore-cpus` compares without them")?;
    }
    if let Some(up_to) = diff.up_to {
        writeln!(out, "the traces differ in length and were compared up to {}", short(up_to - Time::ZERO))?;
    }
    diff.places.iter().try_for_each(|place| writeln!(out, "{place}"))?;
    if diff.points.is_empty() {
        return Ok(());
    }
    let span = |span: Option<Span>| span.map_or("-".into(), Cell::Measured);
    let row = |p: &Point| {
        let [a, b] = [p.a, p.b].map(|at| span(at.map(|at| at - Time::ZERO)));
        let words = [p.kind.to_string().into(), p.detail.as_str().into()];
        [&[p.task.as_str().into(), p.job.to_string().into()][..], &words, &[a, b, span(p.delta())]].concat()
    };
    let mut rows = vec![["task", "job", "event", "cpus/outcome", "a", "b", "b - a"].map(Cell::from).to_vec()];
    rows.extend(diff.points.iter().take(POINTS).map(row));
    aligned(out, &rows, |column| [0, 2, 3].contains(&column))?;
    match diff.points.len().saturating_sub(POINTS) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more"),
    }
}

fn kernel(trace: &Trace, path: &Path, tolerance: Span, busy: bool, as_json: bool, out: &mut impl Write) -> Outcome {
    let hint = "record the event sched_switch with the trace clock `mono` while `takt run --trace` runs";
    let Some(origin) = trace.header.start_monotonic_ns else {
        return Err(Failure::input(
            Code::WrongFormat,
            "the trace does not say when its run started, so it is none of a run",
            hint,
        ));
    };
    let text = std::fs::read(path).map_err(|e| Failure::file("read", path, &e))?;
    let switches = takt_trace::kernel::parse(&String::from_utf8_lossy(&text), origin);
    if switches.lines == 0 {
        return Err(Failure::input(
            Code::WrongFormat,
            format!("`{}` holds no sched_switch lines", path.display()),
            hint,
        ));
    }
    let progress = Progress::busy("comparing");
    let comparison = kernel_check::compare(trace, &switches, tolerance, busy);
    progress.finish();
    let agree = comparison.findings.is_empty();
    if as_json {
        let tasks = comparison.accounts.iter();
        let tasks = tasks
            .map(|a| {
                json!({"name": a.task, "pid": a.pid, "given_ns": a.given.ns(), "ran_ns": a.ran.ns(),
                       "outside_ns": a.outside.ns()})
            })
            .collect::<Vec<_>>();
        let findings = objects(&comparison.findings);
        let object = json!({"switches": switches.lines, "gaps": switches.gaps, "tasks": tasks, "findings": findings});
        writeln!(out, "{object}")?;
    } else {
        let mut rows = vec![["task", "process", "given", "ran", "ran outside"].map(Cell::from).to_vec()];
        for a in &comparison.accounts {
            let pid = a.pid.map_or("unknown".to_string(), |pid| pid.to_string());
            let [given, ran, outside] = [a.given, a.ran, a.outside].map(Cell::Measured);
            rows.push(vec![a.task.as_str().into(), pid.into(), given, ran, outside]);
        }
        table(out, &rows)?;
        comparison.findings.iter().try_for_each(|f| writeln!(out, "{f}"))?;
        let (lines, gaps, findings) = (switches.lines, switches.gaps, comparison.findings.len());
        writeln!(out, "{lines} switches, {gaps} places where one is missing, {findings} findings")?;
    }
    Ok(if agree { Verdict::Done } else { Verdict::No })
}

/// The hint for a trace that cannot be read.
const UNREAD: &str = "give a trace that `takt sim` or `takt run` wrote as .jsonl or .csv";

fn unread(path: &Path, e: &ReadError) -> Failure {
    Failure::input(Code::DamagedFile, format!("`{}` cannot be read: {e}", path.display()), UNREAD)
}

/// Opens a trace, and returns its size in bytes.
fn opened(path: &Path) -> Result<(Format, File, u64), Failure> {
    let format = Format::from_path(path).ok_or_else(|| {
        Failure::input(Code::WrongFormat, format!("the ending of `{}` names no trace format", path.display()), UNREAD)
    })?;
    let file = File::open(path).map_err(|e| Failure::file("read", path, &e))?;
    let bytes = file.metadata().map_or(0, |about| about.len());
    Ok((format, file, bytes.max(1)))
}

/// Begins to read a trace once more. A pipe has no begin to return to.
fn again(path: &Path, mut file: &File) -> Result<(), Failure> {
    file.rewind().map_err(|e| Failure::file("read again", path, &e))
}

fn parts<R: io::Read>(path: &Path, format: Format, input: R) -> Result<Parts<io::BufReader<R>>, Failure> {
    Parts::open(io::BufReader::with_capacity(START, input), format).map_err(|e| unread(path, &e))
}

pub(crate) fn read(path: &Path) -> Result<Trace, Failure> {
    let (format, inner, bytes) = opened(path)?;
    let progress = Progress::part(bytes, "of the trace read");
    takt_trace::read(Counted { inner, progress: &progress }, format).map_err(|e| unread(path, &e))
}

/// Joins the files of a series, the oldest first. Files of another run, before this one, are left out.
fn joined(files: &[PathBuf]) -> Result<Trace, Failure> {
    let (last, older) = files.split_last().expect("a series has its last file");
    let mut trace = read(last)?;
    for file in older.iter().rev() {
        let part = read(file)?;
        if !is_of_one_run(&part.header, &trace.header) {
            break;
        }
        let [end, begin] = [part.records.last(), trace.records.first()].map(|record| record.map(|r| r.record.at));
        if end.zip(begin).is_some_and(|(end, begin)| end > begin) {
            let message = format!("`{}` ends after the next file of the series begins", file.display());
            let hint = "give the files as they were written: their numbers say their order";
            return Err(Failure::input(Code::DamagedFile, message, hint));
        }
        trace.records.splice(0..0, part.records);
        trace.changes.splice(0..0, part.changes);
        // It begins as its first file does. Tasks and tables that came later are those of the last one.
        let Header { tasks, tables, .. } = std::mem::take(&mut trace.header);
        trace.header = Header { tasks, ..part.header };
        trace.header.tables.extend(tables);
    }
    Ok(trace)
}

/// Whether two files of a series are of the same run: policies, window tables and added tasks may have changed in between.
fn is_of_one_run(before: &Header, after: &Header) -> bool {
    let fixed = |header: &Header| Header {
        policy: String::new(),
        settings: String::new(),
        scope: String::new(),
        domains: Vec::new(),
        table: None,
        tables: Default::default(),
        tasks: Vec::new(),
        ..header.clone()
    };
    after.tasks.starts_with(&before.tasks) && fixed(before) == fixed(after)
}

/// Whether something of the trace is between the two instants.
fn within(trace: &Trace, from: Option<Span>, to: Option<Span>) -> Result<(), Failure> {
    let range = (Time::ZERO + from.unwrap_or(Span::ZERO), to.map(|to| Time::ZERO + to));
    in_order(range)?;
    let end = trace.records.last().map(|last| last.applied).max(trace.footer.as_ref().map(|footer| footer.end));
    begins_before(range.0, end)
}

fn in_order((from, to): (Time, Option<Time>)) -> Result<(), Failure> {
    if to.is_some_and(|to| to <= from) {
        let message = "`--from` is not before `--to`";
        return Err(Failure::input(
            Code::EmptyRange,
            message,
            "`--from` is the first instant that is drawn, `--to` the last one",
        ));
    }
    Ok(())
}

fn begins_before(from: Time, end: Option<Time>) -> Result<(), Failure> {
    match end.filter(|end| from > Time::ZERO && *end <= from) {
        Some(end) => Err(Failure::input(
            Code::EmptyRange,
            format!("the trace ends at {end}, before the instant of `--from`"),
            "lower `--from`",
        )),
        None => Ok(()),
    }
}

/// How often tasks of a file must be there, so that there are those of the trace. The copies of `a` are called `a-1`, `a-2` and so
/// on; only what stands so in the trace, and what is in the file as `a` or `a-1`, can be copies.
fn copies(trace: &Trace, workload: &Workload) -> Vec<(String, usize)> {
    let described: HashSet<&str> = workload.tasks.iter().map(|task| task.name.as_str()).collect();
    let mut copies: Vec<(String, usize)> = Vec::new();
    for task in &trace.header.tasks {
        let Some((name, number)) = task.name.rsplit_once('-') else { continue };
        let Some(number) = number.parse::<usize>().ok().filter(|n| n.to_string() == number) else { continue };
        match copies.last_mut() {
            Some((last, count)) if last == name && *count + 1 == number => *count = number,
            _ if number == 1 && (described.contains(name) || described.contains(task.name.as_str())) => {
                copies.push((name.to_owned(), 1));
            }
            _ => {}
        }
    }
    copies
}

/// Whether tasks come, go or change their periods, so that their releases are not planned from the start.
fn changes_releases(workload: &Workload) -> bool {
    let moves = |what: &Change| matches!(what, Change::Retime { .. } | Change::Enter { .. } | Change::Leave { .. });
    let calls = |task: &Task| task.program.steps.iter().any(|step| matches!(step, Step::Call(_)));
    workload.scenario.changes.iter().any(|(_, what)| moves(what)) || workload.system.tasks.iter().any(calls)
}

/// Whether commands have changed tasks of the workload, so that their releases are not those of the file. A task of another file changes no other.
fn is_changed(trace: &Trace) -> bool {
    let changes = |command: &str| {
        let adds = command.starts_with("add ") && !command.contains(" --from ");
        adds || ["set ", "remove ", "reload "].iter().any(|start| command.starts_with(start))
    };
    trace.changes.iter().any(|change| changes(&change.command))
}

/// The workload of a trace, and how it was read.
pub(crate) struct Original {
    pub(crate) workload: Workload,
    pub(crate) input: Input,
    pub(crate) machine: CpuSet,
}

/// The workload of a trace; of a run, without keys that a run ignores.
fn workload_of(trace: &Trace, file: &Path) -> Result<Workload, Failure> {
    let mut workload = original(trace, file)?.workload;
    if trace.header.source == "run" {
        workload.hand_over();
        workload.clear_simulated();
    }
    Ok(workload)
}

/// The workload on the machine and with the policy and seed of the trace, whether they are the file's or were the command line's. One with
/// other tasks is refused.
pub(crate) fn original(trace: &Trace, file: &Path) -> Result<Original, Failure> {
    let header = &trace.header;
    let prefix = match header.scope.as_str() {
        "global" => "g-",
        "partitioned" => "p-",
        "clustered" => "c-",
        _ => "",
    };
    // A policy with one scope only has no prefix.
    let text = |prefix: &str| match header.settings.as_str() {
        "" => format!("{prefix}{}", header.policy),
        settings => format!("{prefix}{}:{settings}", header.policy),
    };
    let read = |prefix: &str| takt_workload::policy_from_text(&text(prefix)).ok();
    let policy = read(prefix).or_else(|| read(""));
    let own = |p: &&CpuSet| p.len() == 1 && p.is_disjoint(&header.kernel_cpus);
    let singles = header.places.iter().filter(own).flat_map(|p| p.iter().collect::<Vec<_>>());
    let machine = singles.collect::<CpuSet>();
    // `--cpus` makes CPUs 0 to N-1; any other machine is the file's, or the real one.
    let count = u16::try_from(machine.len()).ok().filter(|n| *n > 0 && machine == CpuSet::first(usize::from(*n)));
    let mut input = Input {
        file: file.to_path_buf(),
        policy: None,
        placement: None,
        cpus: count,
        priorities: None,
        seed: Some(header.seed),
        ..Input::default()
    };
    let alike = |workload: &Workload| {
        let described = workload.tasks.iter().map(|task| &task.name);
        // Tasks that commands have added come from other files.
        header.tasks.iter().filter(|task| !task.added).map(|task| &task.name).eq(described)
    };
    // A policy of the command line would leave the file's switches out, so the file's own is taken where it is that of the trace.
    let same = |own: &PolicySpec| {
        let name = (header.policy.as_str(), header.scope.as_str());
        name == (own.profile.name, own.scope.name()) && header.settings == settings(own)
    };
    let own = input.load_quietly(Some(machine)).ok().filter(|workload| same(&workload.system.policy));
    let mut workload = match own {
        Some(workload) => workload,
        None => {
            input.policy = policy;
            input.load_quietly(Some(machine))?
        }
    };
    if !alike(&workload) {
        // It may have been made with `--copies`, which says itself in the names.
        input.copies = copies(trace, &workload);
        if let Some(other) = input.load_quietly(Some(machine)).ok().filter(alike) {
            workload = other;
        }
    }
    // Another policy than the file's leaves parts out, which were reported when the trace was made.
    if input.policy.is_none() {
        warn(&workload.source, &workload.warnings);
    }
    if !alike(&workload) {
        let (ran, described) = (header.tasks.iter().map(|t| &t.name), workload.tasks.iter().map(|t| &t.name));
        let list =
            |names: &mut dyn Iterator<Item = &String>| names.take(8).map(|n| format!("`{n}`")).collect::<Vec<_>>();
        let (ran, described) = (list(&mut ran.clone()).join(", "), list(&mut described.clone()).join(", "));
        let message =
            format!("the trace records the tasks {ran}, and `{}` describes the tasks {described}", file.display());
        return Err(Failure::input(
            Code::OtherRecord,
            message,
            "give the workload of which the trace was made, or a trace of this workload",
        ));
    }
    Ok(Original { workload, input, machine })
}

fn convert(trace: &mut Trace, output: &Path, range: (Time, Option<Time>), width: u32) -> Result<(), Failure> {
    let (from, to) = range;
    if output.extension().is_some_and(|e| e == "svg") {
        let mut options = SvgOptions { width, from, to, ..SvgOptions::default() };
        if from == Time::ZERO && to.is_none() {
            output::open_on_hyperperiod(trace, &mut options, |end| format!("`--to {end}`"));
        }
        let progress = Progress::busy("drawing");
        let picture = gantt::svg(trace, &options);
        progress.finish();
        return files::write(output, picture);
    }
    let inside = inside(range);
    trace.records.retain(|r| inside(r.record.at));
    trace.changes.retain(|change| inside(change.at));
    trace.measured.retain(|measured| inside(measured.at));
    if let (Some(footer), Some(to)) = (&mut trace.footer, to) {
        footer.end = footer.end.min(to);
    }
    pour(trace, trace_to(&trace.header, output)?, output)
}

fn inside((from, to): (Time, Option<Time>)) -> impl Fn(Time) -> bool {
    move |at| at >= from && to.is_none_or(|to| at <= to)
}

/// A writer of a trace in the format that the file's ending names.
fn trace_to(header: &Header, output: &Path) -> Result<Box<dyn Writer + Send>, Failure> {
    let format = Format::from_path(output).ok_or_else(|| {
        let message = format!("the ending of `{}` names no trace format", output.display());
        Failure::input(Code::WrongFormat, message, "name it .pftrace, .jsonl, .csv or .svg")
    })?;
    let file = files::create(output)?;
    takt_trace::writer(format, header, Box::new(file)).map_err(|e| Failure::write(output, &e))
}

/// A writer of the table of jobs.
fn jobs_to(header: &Header, output: &Path) -> Result<Box<dyn Writer + Send>, Failure> {
    if output.extension().is_none_or(|e| e != "csv") {
        let message = format!("`{}` does not end in .csv", output.display());
        return Err(Failure::input(Code::WrongFormat, message, "a table of jobs is written as CSV: name it .csv"));
    }
    let file = files::create(output)?;
    Ok(Box::new(JobTable::new(header, Box::new(file)).map_err(|e| Failure::write(output, &e))?))
}

/// One of two traces that are compared, one record ahead.
struct Ahead<'f, R> {
    file: &'f Path,
    side: Side,
    parts: Parts<R>,
    next: Option<Stamped>,
}

impl<R: io::BufRead> Ahead<'_, R> {
    fn advance(&mut self, comparison: &mut Comparison) -> Result<(), Failure> {
        self.next = None;
        for part in &mut self.parts {
            match part.map_err(|e| unread(self.file, &e))? {
                Part::Record(record) => {
                    self.next = Some(record);
                    break;
                }
                Part::Task(_, task) => comparison.task(self.side, &task.name),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Compares two traces, and holds only the events that differ.
fn compared(files: [&PathBuf; 2], tolerance: Span, ignore_cpus: bool) -> Result<Diff, Failure> {
    let mut headers = [Header::default(), Header::default()];
    let mut lengths = [Time::ZERO; 2];
    let opened = [opened(files[0])?, opened(files[1])?];
    let bytes = opened.iter().map(|(_, _, bytes)| bytes).sum();
    for (index, (file, (format, input, _))) in files.into_iter().zip(&opened).enumerate() {
        let parts = parts(file, *format, input)?;
        headers[index] = parts.header().clone();
        // As planned, else up to its end.
        lengths[index] = match headers[index].duration {
            Some(duration) => Time::ZERO + duration,
            None => Frame::read(file, parts)?.trace_end(),
        };
    }
    let records = |comparison: &mut Comparison| {
        let progress = Progress::part(bytes, "of the traces compared");
        let ahead = |side: Side| {
            let (file, (format, input, _)) = (files[side as usize], &opened[side as usize]);
            again(file, input)?;
            let parts = parts(file, *format, Counted { inner: input, progress: &progress })?;
            Ok::<_, Failure>(Ahead { file, side, parts, next: None })
        };
        let (mut a, mut b) = (ahead(Side::A)?, ahead(Side::B)?);
        a.advance(comparison)?;
        b.advance(comparison)?;
        loop {
            // The trace that is behind comes next, so that few events are held.
            let first = match (a.next, b.next) {
                (None, None) => return Ok(()),
                (Some(one), Some(two)) => one.record.at <= two.record.at,
                (one, None) => one.is_some(),
                (None, Some(_)) => false,
            };
            let ahead = if first { &mut a } else { &mut b };
            ahead.next.iter().for_each(|record| comparison.record(ahead.side, record));
            ahead.advance(comparison)?;
        }
    };
    diff::compare([&headers[0], &headers[1]], lengths, tolerance, ignore_cpus, records)
}

/// Writes a trace in another format, or its table of jobs, part by part. A regular file that cannot be completed is removed.
fn copy(file: &PathBuf, output: &PathBuf, range: (Time, Option<Time>), jobs: bool) -> Result<(), Failure> {
    in_order(range)?;
    let (format, input, bytes) = opened(file)?;
    let progress = Progress::part(bytes, "of the trace read");
    let begin = || parts(file, format, Counted { inner: &input, progress: &progress });
    let mut begun = begin()?;
    let mut header = begun.header().clone();
    let outputs = ready([file], [output])?;
    // A file that is there is replaced only when the whole trace can be read.
    let replaces = fs::metadata(output).is_ok_and(|about| about.is_file() && about.len() > 0);
    // A run learns the names of loaded policies after the header.
    if replaces || header.alternatives.iter().any(|policy| policy.starts_with("loaded-")) {
        let whole = Frame::read(file, begun)?;
        begins_before(range.0, whole.end())?;
        header.alternatives = whole.trace.header.alternatives;
        again(file, &input)?;
        progress.set(0);
        begun = begin()?;
    }
    let writer = if jobs { jobs_to(&header, output)? } else { trace_to(&header, output)? };
    let done = copied(begun, writer, range, file, output);
    if done.is_err() && fs::symlink_metadata(output).is_ok_and(|about| about.is_file()) {
        let _ = fs::remove_file(output);
    }
    drop(outputs);
    done
}

fn copied(
    parts: Parts<impl io::BufRead>,
    mut writer: Box<dyn Writer + Send>,
    range: (Time, Option<Time>),
    file: &Path,
    output: &Path,
) -> Result<(), Failure> {
    let (inside, (from, to)) = (inside(range), range);
    let (mut end, mut footer) = (None, None);
    for part in parts {
        match part.map_err(|e| unread(file, &e))? {
            Part::Record(record) => {
                end = Some(record.applied);
                if inside(record.record.at) { writer.record(&record) } else { Ok(()) }
            }
            Part::Change(change) if inside(change.at) => writer.change(&change),
            Part::Measured(measured) if inside(measured.at) => writer.measured(&measured),
            Part::Change(_) | Part::Measured(_) => Ok(()),
            // Later records name them.
            Part::Task(at, task) => writer.task(at, &task),
            Part::Table(at, number, table) => writer.table(at, number, &table),
            Part::End(found) => {
                footer = Some(Footer { end: to.map_or(found.end, |to| found.end.min(to)), ..found });
                end = end.max(Some(found.end));
                Ok(())
            }
        }
        .map_err(|e| Failure::write(output, &e))?;
    }
    begins_before(from, end)?;
    match &footer {
        Some(footer) => writer.finish(footer),
        None => writer.flush(),
    }
    .map_err(|e| Failure::write(output, &e))
}

/// Writes a trace that is in memory.
fn pour(trace: &Trace, mut writer: Box<dyn Writer + Send>, output: &Path) -> Result<(), Failure> {
    let progress = Progress::part(trace.records.len().max(1) as u64, "of the trace written");
    let mut write = || {
        let mut changes = trace.changes.iter().peekable();
        let mut measured = trace.measured.iter().peekable();
        for record in &trace.records {
            while let Some(change) = changes.next_if(|change| change.at < record.record.at) {
                writer.change(change)?;
            }
            while let Some(measured) = measured.next_if(|measured| measured.at <= record.applied) {
                writer.measured(measured)?;
            }
            writer.record(record)?;
            progress.inc(1);
        }
        changes.try_for_each(|change| writer.change(change))?;
        measured.try_for_each(|measured| writer.measured(measured))
    };
    write()
        .and_then(|()| match &trace.footer {
            Some(footer) => writer.finish(footer),
            None => writer.flush(),
        })
        .map_err(|e| Failure::write(output, &e))
}

/// Writes the page of a trace, with the text of its workload and another trace below each lane.
fn view(trace: &Path, workload: Option<&Path>, with: Option<&Path>, output: &PathBuf, tolerance: Span) -> Outcome {
    if output.extension().is_none_or(|e| e != "html") {
        let message = format!("`{}` does not end in .html", output.display());
        return Err(Failure::input(Code::WrongFormat, message, "a page is written as HTML: name it .html"));
    }
    let inputs: Vec<_> = [Some(trace), workload, with].into_iter().flatten().map(Path::to_path_buf).collect();
    match with {
        Some(with) => both(trace, workload, with, (&inputs, output), tolerance)?,
        None => alone(trace, workload, (&inputs, output))?,
    }
    Ok(Verdict::Done)
}

/// Reads the trace while its page is made, so that it is never in memory as a whole.
fn alone(trace: &Path, workload: Option<&Path>, (inputs, output): (&[PathBuf], &PathBuf)) -> Result<(), Failure> {
    let (format, input, bytes) = opened(trace)?;
    let progress = Progress::part(bytes, "of the trace read");
    let begin = || parts(trace, format, Counted { inner: &input, progress: &progress });
    let mut begun = begin()?;
    let mut header = begun.header().clone();
    let mut text = None;
    // Some names come after the header: those of added tasks and of loaded policies.
    if workload.is_some() || header.alternatives.iter().any(|policy| policy.starts_with("loaded-")) {
        let whole = Frame::read(trace, begun)?.trace;
        header.alternatives.clone_from(&whole.header.alternatives);
        text = workload.map(|file| Ok::<_, Failure>(workload_of(&whole, file)?.source.text)).transpose()?;
        again(trace, &input)?;
        progress.set(0);
        begun = begin()?;
    }
    let _outputs = ready(inputs, [output])?;
    let mut page = Page::new(&header, text.as_deref());
    let mut footer = None;
    for part in begun {
        let part = part.map_err(|e| unread(trace, &e))?;
        if let Part::End(end) = part {
            footer = Some(end);
        }
        page.part(&part).map_err(|large| Failure::too_large(&large))?;
    }
    progress.finish();
    let mut out = BufWriter::new(files::create(output)?);
    page.write(footer, &mut out).map_err(|e| Failure::write(output, &e))
}

/// A comparison has both traces in memory.
fn both(
    trace: &Path,
    workload: Option<&Path>,
    with: &Path,
    (inputs, output): (&[PathBuf], &PathBuf),
    tolerance: Span,
) -> Result<(), Failure> {
    let first = read(trace)?;
    let workload = workload.map(|file| workload_of(&first, file)).transpose()?;
    let other = read(with)?;
    let tasks = |trace: &Trace| trace.header.labels();
    if !tasks(&first).iter().any(|label| tasks(&other).contains(label)) {
        let message = format!("`{}` and `{}` have no task in common", trace.display(), with.display());
        return Err(Failure::input(Code::OtherRecord, message, "give two traces of the same workload"));
    }
    let _outputs = ready(inputs, [output])?;
    let progress = Progress::busy("drawing");
    let workload = workload.as_ref().map(|workload| &*workload.source.text);
    let options = PageOptions { with: Some(&other), workload, tolerance };
    let mut text = Vec::new();
    let page = page::page(&first, &options, &mut text);
    progress.finish();
    page.map_err(|e| Failure::write(output, &e))?;
    files::create(output)?.write_all(&text).map_err(|e| Failure::write(output, &e))
}
