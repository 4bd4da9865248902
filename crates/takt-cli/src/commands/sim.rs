//! `takt sim`: a workload in virtual time.

use super::output::{self, Recorder};
use crate::failure::Failure;
use crate::input::{Input, duration};
use crate::report::Summary;
use crate::{Outcome, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, BufWriter, Write};
use takt_core::engine::Engine;
use takt_core::model::{Arrival, System, TaskId};
use takt_core::record::{Record, Sink};
use takt_core::stats::Responses;
use takt_core::time::{Span, Time};
use takt_trace::Stamped;
use takt_workload::Workload;

/// Simulate a workload in virtual time
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Simulated time, such as 10s; by default two major frames, or one hyperperiod up to 10s
    #[arg(long, value_parser = duration)]
    duration: Option<Span>,
    /// Feed the engine what `takt run --record` wrote instead of simulating
    #[arg(long, value_name = "IN.steps", conflicts_with = "duration")]
    replay: Option<std::path::PathBuf>,
    #[command(flatten)]
    output: output::OutputArgs,
}

struct Traced<'a>(&'a mut Recorder);

impl Sink for Traced<'_> {
    fn record(&mut self, record: Record) {
        self.0.record(&Stamped { record, applied: record.at });
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let workload = args.input.load(None)?;
    let replayed = args.replay.as_deref().map(|path| super::steps::read(path, &workload)).transpose()?;
    let recorded = replayed.as_ref().and_then(|steps| steps.last()).map(|step| step.now - Time::ZERO);
    let length =
        recorded.or(args.duration).or(workload.settings.duration).unwrap_or_else(|| default_length(&workload.system));
    let mut engine = Engine::new(workload.system.clone()).map_err(|e| unsuitable(&workload, &e))?;
    let n = workload.tasks.len();
    let mut responses = Responses::new(n);
    let progress = bar(length, args.output.for_people());
    let tick = |now: Time| progress.set_position((now.ns() / 1_000_000) as u64);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut recorder = Recorder::new(&args.output, output::header(&workload, "sim", Some(length)))?;
    recorder.begin(false, |_| ());
    if let Some(steps) = &replayed {
        takt_sim::replay(&mut engine, steps, &mut (&mut responses, Traced(&mut recorder)));
    } else if recorder.is_idle() {
        takt_sim::simulate(&mut engine, &workload.scenario, length, &mut responses, tick);
    } else {
        takt_sim::simulate(&mut engine, &workload.scenario, length, &mut (&mut responses, Traced(&mut recorder)), tick);
    }
    progress.finish_and_clear();
    let counts: Vec<_> = (0..n as u32).map(|t| engine.counts(TaskId(t))).collect();
    let summary = Summary {
        workload: &workload,
        duration: length,
        counts: &counts,
        responses: &responses.0,
        context_switches: engine.context_switches(),
        windows_lost: engine.windows_lost(),
    };
    if args.output.json {
        writeln!(out, "{}", summary.json(serde_json::json!({"source": "sim"})))?;
    } else if args.output.for_people() {
        let system = &workload.system;
        let (policy, scope) = (system.policy.entry.name, system.policy.scope.name());
        writeln!(
            out,
            "{}: policy {policy} ({scope}), CPU {}, simulated {length}, seed {}",
            workload.source.name, system.cpus, system.seed
        )?;
        if workload.settings.cpus_from_all {
            writeln!(out, "note: the file names no CPU by number, so one CPU was simulated; --cpus N takes more")?;
        }
        writeln!(out)?;
        summary.print(&mut out)?;
    }
    recorder.finish(Time::ZERO + length, 0, None, &mut out)?;
    out.flush()?;
    let missed = summary.totals().missed > 0;
    Ok(if args.output.strict && missed { Verdict::No } else { Verdict::Done })
}

/// The engine refused what the file's reader let pass.
pub(crate) fn unsuitable(workload: &Workload, error: &takt_core::model::Invalid) -> Failure {
    let policy = workload.system.policy;
    let hint = "choose another policy with --policy, or another machine with --cpus; `takt policies` lists them";
    let name = format!("{}{}", policy.prefix(), policy.entry.name);
    Failure::input(format!("`{}` cannot be scheduled by {name}: {error}", workload.source.name), hint)
}

/// Two major frames; one hyperperiod (with the largest offset) up to ten seconds.
fn default_length(system: &System) -> Span {
    const MOST: Span = Span::from_secs(10);
    if !system.windows.is_empty() {
        return system.major_frame() * 2;
    }
    let mut hyperperiod: i64 = 1;
    let mut last_offset = Span::ZERO;
    for task in &system.tasks {
        let Arrival::Periodic { offset, period } = task.arrival else { continue };
        last_offset = last_offset.max(offset);
        let (mut a, mut b) = (hyperperiod, period.ns());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        match (hyperperiod / a).checked_mul(period.ns()) {
            Some(lcm) if lcm <= MOST.ns() => hyperperiod = lcm,
            _ => return MOST,
        }
    }
    Span::from_ns(hyperperiod) + last_offset
}

/// A progress bar in milliseconds of the schedule; none when standard error is no terminal.
fn bar(length: Span, wanted: bool) -> ProgressBar {
    if !wanted {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {percent}% of simulated time, {eta} left");
    ProgressBar::new((length.ns() / 1_000_000).max(1) as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
