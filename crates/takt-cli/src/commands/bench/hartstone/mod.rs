//! `takt bench hartstone`: how far a periodic load can grow under a policy, and what becomes of it in an overload.
//!
//! Everything is virtual time, so the figures are the policies' and no machine's.

mod chart;
mod line;
mod report;
mod series;
mod steady;
mod trial;
mod workers;

use crate::failure::Failure;
use crate::files;
use crate::input::duration;
use crate::outcome::{Outcome, Verdict};
use line::{Disturbance, Line};
use report::{Format, Results};
use series::{Experiment, Set};
use std::path::PathBuf;
use takt_core::model::{PolicySpec, Scope, Timing};
use takt_core::policies::fifo;
use takt_core::scenario::{Costs, Steal};
use takt_core::time::Span;
use takt_workload::{Code, Options, Source};
use trial::{Conditions, Findings, Machine};

/// Measure policies with the Hartstone benchmark (PH series) in virtual time
///
/// Five periodic tasks grow in four ways, step by step, until a deadline is missed. With --extended they overload the CPU for 15
/// of 120 seconds. An `ipi` policy is compared with the same policy without feedback, with EDF and with RM. See `docs/hartstone.md`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Policies with their settings, such as edf,rr:quantum=1ms,grid=yes; may be repeated
    #[arg(long, value_name = "P[,P…]")]
    policy: Vec<String>,
    /// Experiments: 1 a faster task, 2 faster tasks, 3 heavier tasks, 4 more tasks; by default all
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=4))]
    test: Vec<u8>,
    /// The form with a transient overload: 30 s quiet, 15 s of overload, 75 s quiet
    #[arg(long)]
    extended: bool,
    /// A task set of your own to grow: periodic tasks with runtimes, as YAML or CSV
    #[arg(long, value_name = "FILE")]
    set: Option<PathBuf>,
    /// Clock: `tick` handles releases and completions at whole milliseconds and ends of bursts at 10 us; `tickless` is exact
    #[arg(long, value_enum, default_value_t = Clock::Tick)]
    clock: Clock,
    /// All tasks start together (`sync`), or the number of runs with random phases
    #[arg(long, value_name = "sync|N", value_parser = phases, default_value = "sync")]
    phases: Phases,
    /// Seed of phases and of all other random values
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cost of a context switch
    #[arg(long, value_name = "D", value_parser = takt_workload::parse_duration, default_value = "10us")]
    context_switch: Span,
    /// Cost of a call of the scheduler
    #[arg(long, value_name = "D", value_parser = takt_workload::parse_duration, default_value = "0s")]
    scheduler: Span,
    /// Cost of each task in a pass of the scheduler over all tasks, as a regulator makes once a round
    #[arg(long, value_name = "D", value_parser = takt_workload::parse_duration, default_value = "5us")]
    scheduler_task: Span,
    /// Cost of a migration
    #[arg(long, value_name = "D", value_parser = takt_workload::parse_duration, default_value = "0s")]
    migration: Span,
    /// Costs are no consumption of the jobs that pay: they use up neither bursts nor budgets
    #[arg(long)]
    unconsumed_costs: bool,
    /// Relative importances in the overload: `set` those of the set, `one` 1 for every task, `both` for `ipi` one after the other
    #[arg(long, value_enum, default_value_t = Theta::Both)]
    theta: Theta,
    /// Disturb the ends of bursts; may be repeated. `lateness=D` notices them up to D later, as the ends of quanta. `skew=D` notices them D later.
    /// `steal=D/PERIOD` takes the CPU away for D of each period
    #[arg(long, value_name = "KIND=VALUE", value_parser = disturbance)]
    disturb: Vec<Disturbance>,
    /// Draw the results
    #[arg(long, value_name = "OUT.svg")]
    chart: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print one line of CSV for each trial
    #[arg(long)]
    csv: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Clock {
    Tick,
    Tickless,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Theta {
    Both,
    Set,
    One,
}

/// Number of random phases; `None`: synchronous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Phases(Option<u32>);

fn phases(text: &str) -> Result<Phases, String> {
    if text == "sync" {
        return Ok(Phases(None));
    }
    let count = text.parse().ok().filter(|n| (1..=10_000).contains(n));
    count.map(|n| Phases(Some(n))).ok_or_else(|| "must be `sync` or a number from 1 to 10000".into())
}

fn disturbance(text: &str) -> Result<Disturbance, String> {
    let (kind, value) = text.split_once('=').ok_or("must be like `lateness=300us`")?;
    match kind {
        "lateness" => Ok(Disturbance::Lateness(duration(value)?)),
        "skew" => Ok(Disturbance::Skew(duration(value)?)),
        "steal" => {
            let (length, period) = value.split_once('/').ok_or("must be like `steal=200us/1ms`")?;
            let (length, period) = (duration(length)?, duration(period)?);
            let sound = length < period;
            sound.then_some(Disturbance::Steal(Steal { period, length })).ok_or("must leave some time".into())
        }
        _ => Err("the kinds are `lateness`, `skew` and `steal`".into()),
    }
}

/// Splits a list at the commas between policies; those between settings have a `key=value` behind them.
pub(super) fn split(list: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in list.split(',') {
        let setting = part.split(':').next().is_some_and(|head| head.contains('='));
        match parts.last_mut().filter(|_| setting) {
            Some(last) => *last = format!("{last},{part}"),
            None => parts.push(part.into()),
        }
    }
    parts
}

/// The index of the setting that opens the loop of a policy with feedback, and its value for that.
fn open(policy: &PolicySpec) -> Option<PolicySpec> {
    let index = policy.profile.settings.iter().position(|s| s.name == "feedback")?;
    let mut open = *policy;
    open.values.set(index, Some(1));
    Some(open)
}

/// The lines of the results: each policy that was named, and beside one with feedback those that say what feedback contributes.
fn lines(args: &Args) -> Result<Vec<Line>, Failure> {
    let by_default =
        if args.extended { "edf,rm,rr:grid=yes,ipi" } else { "edf,rm,rr:grid=yes,ipi:nominal=1ms,least=0s" };
    let named: Vec<String> = match args.policy.as_slice() {
        [] => split(by_default),
        lists => lists.iter().flat_map(|list| split(list)).collect(),
    };
    let read = |text: &str| {
        takt_workload::policy_from_text(text)
            .map_err(|e| Failure::input(e.code, &e, "`takt policies` lists all of them"))
    };
    let mut lines: Vec<Line> = Vec::new();
    let mut push = |policy, weighted, by_importance| {
        let line = Line { policy, weighted, by_importance };
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    let mut beside = false;
    for text in &named {
        let policy = read(text)?;
        let Some(open) = open(&policy) else {
            push(policy, false, false);
            continue;
        };
        beside = true;
        for (weighted, wanted) in
            [(true, args.theta != Theta::One), (false, args.theta != Theta::Set || !args.extended)]
        {
            if wanted && (args.extended || !weighted) {
                push(policy, weighted, true);
                push(open, weighted, true);
            }
        }
    }
    if beside {
        push(read("edf")?, false, false);
        push(read("rm")?, false, false);
    }
    Ok(lines)
}

impl Args {
    fn machine(&self) -> Machine {
        let timing = match self.clock {
            Clock::Tick => Timing { tick: Span::from_ms(1), resolution: Span::from_us(10), ..Timing::default() },
            Clock::Tickless => Timing::default(),
        };
        let costs = Costs {
            context_switch: self.context_switch,
            migration: self.migration,
            scheduler: self.scheduler,
            scheduler_task: self.scheduler_task,
            ..Costs::default()
        };
        let metered = self.unconsumed_costs;
        let mut machine = Machine { timing, costs, metered, steal: None, skew: Span::ZERO, seed: self.seed };
        for disturbance in &self.disturb {
            match *disturbance {
                Disturbance::Lateness(most) => machine.timing.lateness = most,
                Disturbance::Skew(by) => machine.skew = by,
                Disturbance::Steal(steal) => machine.steal = Some(steal),
            }
        }
        machine
    }

    fn set(&self) -> Result<Set, Failure> {
        let Some(path) = &self.set else { return Ok(Set::baseline()) };
        let source = Source::read(path).map_err(|u| Failure::unreadable(&u))?;
        // Any policy that asks nothing of a task: the file need not name one.
        let policy = Some(PolicySpec::new(&fifo::ENTRY.profile, Scope::Uniprocessor));
        let options = Options { policy, ..Options::default() };
        let workload = takt_workload::load(source.clone(), &options).map_err(|f| Failure::diagnostics(&source, &f))?;
        let names = workload.tasks.iter().map(|t| t.name.clone()).collect();
        Set::custom(&workload.source.name, names, &workload.system.tasks).ok_or_else(|| {
            let hint = "give each task a `period` and a `runtime`, and no `steps`";
            Failure::input(Code::NotApplicable, format!("`{}` has tasks that cannot grow", workload.source.name), hint)
        })
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    if let Some(path) = args.chart.as_deref().filter(|p| p.extension().is_none_or(|e| e != "svg")) {
        let message = format!("`{}` does not end in .svg", path.display());
        return Err(Failure::input(Code::WrongFormat, message, "the chart is written as SVG: name it .svg"));
    }
    let (set, lines, machine) = (args.set()?, lines(args)?, args.machine());
    let mut tests: Vec<Experiment> = Experiment::ALL.to_vec();
    tests.retain(|e| args.test.is_empty() || args.test.contains(&(e.number() as u8)));
    let phases: Vec<Option<u32>> = args.phases.0.map_or(vec![None], |n| (0..n).map(Some).collect());
    let extended = args.extended;
    let mut jobs: Vec<Conditions> = Vec::new();
    for line in &lines {
        for experiment in &tests {
            jobs.extend(phases.iter().map(|phase| Conditions {
                machine,
                policy: line.policy,
                experiment: *experiment,
                extended,
                weighted: line.weighted,
                phase: *phase,
            }));
        }
    }
    let found = workers::all(&jobs, |job| job.run(&set));
    let unsuitable = |policy: &PolicySpec, error: takt_core::model::Invalid| {
        let name = takt_workload::policy_text(policy);
        Failure::input(
            Code::UnsuitablePolicy,
            format!("{name} cannot schedule the set: {error}"),
            "choose another policy or another set",
        )
    };
    let mut trials: Vec<Findings> = Vec::with_capacity(found.len());
    for (job, result) in jobs.iter().zip(found) {
        trials.push(result.map_err(|e| unsuitable(&job.policy, e))?);
    }
    let mut steady = Vec::new();
    if !args.disturb.is_empty() {
        let mut looping: Vec<PolicySpec> = Vec::new();
        for line in lines.iter().filter(|line| open(&line.policy).is_some()) {
            if !looping.contains(&line.policy) {
                looping.push(line.policy);
            }
        }
        let found = workers::all(&looping, |policy| steady::run(&machine, *policy));
        for (policy, result) in looping.iter().zip(found) {
            steady.push((*policy, result.map_err(|e| unsuitable(policy, e))?));
        }
    }
    let results =
        Results { set: &set, extended, tests, lines, phases, machine, disturbed: &args.disturb, trials, steady };
    if let Some(path) = &args.chart {
        files::write(path, chart::svg(&results))?;
    }
    let format = match (args.json, args.csv) {
        (true, _) => Format::Json,
        (_, true) => Format::Csv,
        _ => Format::Table,
    };
    results.print(format, &mut std::io::stdout().lock())?;
    Ok(Verdict::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_policies_is_split_between_policies() {
        assert_eq!(split("edf,rr:quantum=1ms,grid=yes,rm"), ["edf", "rr:quantum=1ms,grid=yes", "rm"]);
        assert_eq!(split("ipi:nominal=1ms,ipi:nominal=2ms,least=0s"), ["ipi:nominal=1ms", "ipi:nominal=2ms,least=0s"]);
    }

    #[test]
    fn disturbances_are_read() {
        assert_eq!(disturbance("skew=30us"), Ok(Disturbance::Skew(Span::from_us(30))));
        let steal = Steal { period: Span::from_ms(1), length: Span::from_us(200) };
        assert_eq!(disturbance("steal=200us/1ms"), Ok(Disturbance::Steal(steal)));
        for wrong in ["steal=1ms/1ms", "steal=1ms", "lateness", "noise=1ms", "skew=0s"] {
            assert!(disturbance(wrong).is_err(), "{wrong}");
        }
        assert_eq!(phases("30"), Ok(Phases(Some(30))));
        assert!(phases("0").is_err() && phases("random").is_err());
    }
}
