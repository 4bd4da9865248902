//! `takt trace`: what a simulation or a run recorded.

mod view;
mod why;

use super::series;
use crate::failure::{Failure, colour};
use crate::files::{self, ready};
use crate::header::settings;
use crate::input::{Input, duration, warn};
use crate::outcome::{Outcome, Verdict};
use crate::progress::{Counted, Progress};
use crate::report::{Cell, aligned, short, table};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use takt_core::cpus::CpuSet;
use takt_core::input::Input as Change;
use takt_core::model::{PolicySpec, Step, Task};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_trace::check::Finding;
use takt_trace::diff::{Diff, Point};
use takt_trace::gantt::{SvgOptions, TextOptions};
use takt_trace::jobs::JobTable;
use takt_trace::{Format, Header, Trace, Writer, check, diff, gantt, kernel_check, summary};
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
        /// Write the table of jobs to the .csv: release, start, finish, response time, outcome, CPU and preemptions of each
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
            let options = TextOptions {
                width: usize::from(*width),
                from: Time::ZERO + from.unwrap_or(Span::ZERO),
                to: to.map(|to| Time::ZERO + to),
                color: colour(&io::stdout()),
            };
            show(&trace, &options, &mut out)
        }
        Command::Convert { trace: file, output, from, to, width, jobs, series } => {
            let files = if *series { series::files(file) } else { vec![file.clone()] };
            let mut trace = if *series { joined(&files)? } else { read(file)? };
            within(&trace, *from, *to)?;
            let _outputs = ready(&files, [output])?;
            let range = (Time::ZERO + from.unwrap_or(Span::ZERO), to.map(|to| Time::ZERO + to));
            match jobs {
                true => write_jobs(&trace, output)?,
                false => convert(&mut trace, output, range, *width)?,
            }
            Ok(Verdict::Done)
        }
        Command::Check { trace, file, tolerance, json } => {
            checked(&read(trace)?, file.as_deref(), *tolerance, *json, &mut out)
        }
        Command::Kernel { trace, switches, tolerance, busy, json } => {
            kernel(&read(trace)?, switches, *tolerance, *busy, *json, &mut out)
        }
        Command::View { trace, with, output, tolerance } => {
            let other = with.as_deref().map(|path| Ok::<_, Failure>((path, read(path)?))).transpose()?;
            let other = other.as_ref().map(|(path, trace)| (*path, trace));
            view::view((trace, &read(trace)?), other, output, *tolerance)
        }
        Command::Why { trace, job, json } => why::explain(&read(trace)?, job, *json, &mut out),
        Command::Diff { a, b, tolerance, allow, ignore_cpus, json } => {
            let compare = if *ignore_cpus { diff::diff_ignoring_cpus } else { diff::diff };
            let (a, b) = (read(a)?, read(b)?);
            let progress = Progress::busy("comparing");
            let diff = compare(&a, &b, *tolerance);
            progress.finish();
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

fn show(trace: &Trace, options: &TextOptions, out: &mut impl Write) -> Outcome {
    let progress = Progress::busy("drawing");
    let (chart, summary) = (gantt::text(trace, options), summary::summarize(trace));
    progress.finish();
    write!(out, "{chart}")?;
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

fn checked(
    trace: &Trace,
    file: Option<&Path>,
    tolerance: Option<Span>,
    as_json: bool,
    out: &mut impl Write,
) -> Outcome {
    let workload = file.map(|file| workload_of(trace, file)).transpose()?;
    let conditions = workload.as_ref().map(|workload| conditions(trace, workload, tolerance));
    let usual = conditions.as_ref().map_or(REAL_LATENESS, |conditions| conditions.tolerance);
    let tolerance = tolerance.unwrap_or(usual);
    let progress = Progress::busy("checking");
    let mut findings = check::check(trace, workload.as_ref().map(|w| &w.system), tolerance);
    let mut unchecked = BTreeSet::new();
    if let (Some(workload), Some(conditions)) = (&workload, &conditions) {
        if conditions.changed {
            unchecked.insert(("arrival", "releases or terms of tasks change during the run".to_owned()));
        } else {
            findings.extend(check::arrivals(trace, &workload.system, conditions.tolerance));
        }
        let judgement = check::schedule(trace, &workload.system, conditions);
        findings.extend(judgement.findings);
        unchecked.extend(judgement.unchecked);
    } else {
        unchecked
            .insert(("order", "without the workload only rules are checked that the trace alone can show".to_owned()));
    }
    progress.finish();
    if as_json {
        let (records, complete) = (trace.records.len(), trace.footer.is_some());
        let unchecked: Vec<_> = unchecked.iter().map(|(rule, why)| json!({"rule": rule, "why": why})).collect();
        let object =
            json!({"records": records, "complete": complete, "findings": objects(&findings), "unchecked": unchecked});
        writeln!(out, "{object}")?;
    } else {
        findings.iter().try_for_each(|f| writeln!(out, "{f}"))?;
        writeln!(out, "{} records, {} findings", trace.records.len(), findings.len())?;
        unchecked.iter().try_for_each(|(rule, why)| writeln!(out, "not checked: `{rule}`: {why}"))?;
        note_end(trace, out)?;
    }
    Ok(if findings.is_empty() { Verdict::Done } else { Verdict::No })
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

pub(crate) fn read(path: &Path) -> Result<Trace, Failure> {
    let hint = "give a trace that `takt sim` or `takt run` wrote as .jsonl or .csv";
    let format = Format::from_path(path).ok_or_else(|| {
        Failure::input(Code::WrongFormat, format!("the ending of `{}` names no trace format", path.display()), hint)
    })?;
    let file = File::open(path).map_err(|e| Failure::file("read", path, &e))?;
    let bytes = file.metadata().map_or(0, |about| about.len());
    let progress = Progress::part(bytes.max(1), "of the trace read");
    let file = Counted { inner: file, progress: &progress };
    takt_trace::read(io::BufReader::new(file), format)
        .map_err(|e| Failure::input(Code::DamagedFile, format!("`{}` cannot be read: {e}", path.display()), hint))
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
    let from = from.unwrap_or(Span::ZERO);
    if to.is_some_and(|to| to <= from) {
        let message = "`--from` is not before `--to`";
        return Err(Failure::input(
            Code::EmptyRange,
            message,
            "`--from` is the first instant that is drawn, `--to` the last one",
        ));
    }
    let end = trace.records.last().map(|last| last.applied).max(trace.footer.as_ref().map(|footer| footer.end));
    match end.filter(|end| from > Span::ZERO && *end <= Time::ZERO + from) {
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

/// The workload on the machine and with the policy and seed of the trace, whether they are the file's or were the command line's,
/// and if the trace is of a run, without keys that a run ignores; one with other tasks is refused.
fn workload_of(trace: &Trace, file: &Path) -> Result<Workload, Failure> {
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
    if header.source == "run" {
        workload.hand_over();
        workload.clear_simulated();
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
    Ok(workload)
}

fn convert(trace: &mut Trace, output: &Path, range: (Time, Option<Time>), width: u32) -> Result<(), Failure> {
    let (from, to) = range;
    if output.extension().is_some_and(|e| e == "svg") {
        let options = SvgOptions { width, from, to, ..SvgOptions::default() };
        let progress = Progress::busy("drawing");
        let picture = gantt::svg(trace, &options);
        progress.finish();
        return files::write(output, picture);
    }
    let format = Format::from_path(output).ok_or_else(|| {
        let message = format!("the ending of `{}` names no trace format", output.display());
        Failure::input(Code::WrongFormat, message, "name it .pftrace, .jsonl, .csv or .svg")
    })?;
    let inside = |at: Time| at >= from && to.is_none_or(|to| at <= to);
    trace.records.retain(|r| inside(r.record.at));
    trace.changes.retain(|change| inside(change.at));
    trace.measured.retain(|measured| inside(measured.at));
    if let (Some(footer), Some(to)) = (&mut trace.footer, to) {
        footer.end = footer.end.min(to);
    }
    let file = files::create(output)?;
    let writer = takt_trace::writer(format, &trace.header, Box::new(file)).map_err(|e| Failure::write(output, &e))?;
    pour(trace, writer).map_err(|e| Failure::write(output, &e))
}

/// Writes the table of jobs.
fn write_jobs(trace: &Trace, output: &Path) -> Result<(), Failure> {
    if output.extension().is_none_or(|e| e != "csv") {
        let message = format!("`{}` does not end in .csv", output.display());
        return Err(Failure::input(Code::WrongFormat, message, "a table of jobs is written as CSV: name it .csv"));
    }
    let file = files::create(output)?;
    let table = JobTable::new(&trace.header, Box::new(file)).map_err(|e| Failure::write(output, &e))?;
    pour(trace, Box::new(table)).map_err(|e| Failure::write(output, &e))
}

fn pour(trace: &Trace, mut writer: Box<dyn Writer + Send>) -> io::Result<()> {
    let progress = Progress::part(trace.records.len().max(1) as u64, "of the trace written");
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
    measured.try_for_each(|measured| writer.measured(measured))?;
    match &trace.footer {
        Some(footer) => writer.finish(footer),
        None => writer.flush(),
    }
}
