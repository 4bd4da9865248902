//! `takt sweep load`: what policies make of the same jobs as the load rises.

mod cases;
mod report;
mod runs;

use super::experiment::{self, Common};
use super::generate::SetArgs;
use super::points::{Points, points};
use super::state::Subject;
use crate::commands::output::{self, ready};
use crate::failure::Failure;
use crate::input::{Priorities, duration, placement};
use crate::{Outcome, Verdict};
use cases::Cases;
pub(super) use cases::fingerprint;
use clap::ValueEnum;
pub(super) use report::{cells, millionths, quoted};
use std::io::{self, Write};
use std::path::PathBuf;
use takt_analysis::generate::Utilities;
use takt_core::cpus::MAX_CPUS;
use takt_core::model::{Late, Need, Placement, PolicySpec};
use takt_core::scenario::Costs;
use takt_core::time::Span;

/// What policies make of the same jobs as the load rises: deadlines met, utility accrued, migrations
///
/// With FILE, a load is the factor on what its jobs need: their runtimes, `execution` and the runs of their `steps` (not those of
/// handlers, nor budgets), and each seed is a run. Without, a load is the total utilisation of random task sets, released together,
/// and each set is a run. All policies get the same jobs; those are counted whose deadline is not beyond the end.
///
/// Prints CSV: a row for each load and policy with means over the runs. `dsr` is the part of the jobs that met their deadline,
/// `aur` the part of their utility that was accrued, `missed` and `aborted` are parts of the jobs, too; the rest is numbers per
/// run. A column `_ci95` is half the width of the 95 % confidence interval of the mean before it (Student's t). The same seed gives
/// the same bytes, whatever the number of threads.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Workload whose jobs are scaled; without it, random task sets
    #[arg(value_name = "FILE", conflicts_with_all = ["sets", "utilities", "SetArgs"])]
    file: Option<PathBuf>,
    /// Policies with commas between, such as `g-edf,ng-gua,rr:quantum=2ms`
    #[arg(long, value_name = "NAMES", value_parser = policies)]
    policies: Policies,
    /// Loads, factors with FILE and else total utilisations: `0.5..2.0:0.1`, or a list with commas such as `0.9,1,130%`
    #[arg(long, value_name = "POINTS", value_parser = points)]
    loads: Points,
    /// Number of CPUs; by default as many as the file names, or 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    cpus: Option<u16>,
    /// Simulated time of each run
    #[arg(long, value_parser = duration, default_value = "10s")]
    duration: Span,
    /// Seeds of the runs of a file, such as `1..5`; for what it draws at random
    #[arg(long, value_name = "FIRST..LAST", value_parser = seeds, default_value = "1", requires = "file")]
    seeds: Seeds,
    /// Number of random sets for each load
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    sets: u64,
    /// Utilities of random tasks: `uniform:1..100`, `equal`, `proportional` to the runtime, or `geometric` (1, 2, 4 … in random
    /// order)
    #[arg(long, value_name = "KIND", value_parser = utilities, default_value = "uniform:1..100")]
    utilities: Utilities,
    /// What becomes of late jobs
    #[arg(long, value_enum, default_value_t = LateRule::Auto)]
    late: LateRule,
    /// How partitioned policies place tasks on CPUs: ff, bf, wf, ffd, bfd or wfd
    #[arg(long, value_parser = placement)]
    placement: Option<Placement>,
    /// Rule that assigns priorities for policies that rank by priority, to random sets and to a FILE that cannot state priorities
    /// (CSV, ChronOS); by default rm
    #[arg(long, value_enum)]
    priorities: Option<Priorities>,
    /// What the simulated machine costs, in place of the file's costs: `context_switch=4us,migration=8us`
    #[arg(long, value_name = "COSTS", value_parser = costs)]
    costs: Option<Costs>,
    /// Adds the differences from this policy, run by run, with their own confidence intervals
    #[arg(long, value_name = "POLICY")]
    against: Option<String>,
    /// Write every single run down
    #[arg(long, value_name = "OUT.csv")]
    runs: Option<PathBuf>,
    #[command(flatten)]
    kind: SetArgs,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum LateRule {
    /// What the file says (`late`); where it says nothing, they are aborted at the deadline under policies that go by utility,
    /// else they continue
    Auto,
    /// They continue
    Continue,
    /// They are aborted at their deadline
    Abort,
    /// They are aborted at the first event after it, as ChronOS does
    AbortAtEvent,
}

impl LateRule {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
    }

    /// `stated` is what a file says.
    fn of(self, policy: &PolicySpec, stated: Option<Late>) -> Late {
        match self {
            LateRule::Auto if stated.is_some() => stated.unwrap_or_default(),
            LateRule::Auto if policy.profile.needs.contains(&Need::Utility) => Late::Abort,
            LateRule::Auto | LateRule::Continue => Late::Continue,
            LateRule::Abort => Late::Abort,
            LateRule::AbortAtEvent => Late::AbortAtEvent,
        }
    }
}

/// Policies, each with its text.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Policies(pub(super) Vec<PolicySpec>);

/// First and last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seeds(pub(super) u64, pub(super) u64);

/// A part like `b=2` is another setting of the policy before it, as in `x:a=1,b=2`.
pub(super) fn policies(text: &str) -> Result<Policies, String> {
    let mut texts: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        match texts.last_mut() {
            Some(last) if last.contains(':') && part.contains('=') && !part.contains(':') => {
                last.push(',');
                last.push_str(part);
            }
            _ => texts.push(part.to_string()),
        }
    }
    let mut policies: Vec<PolicySpec> = Vec::new();
    for text in &texts {
        let policy = takt_workload::policy_from_text(text)?;
        if policies.contains(&policy) {
            return Err(format!("`{}` is there twice", takt_workload::policy_text(&policy)));
        }
        policies.push(policy);
    }
    Ok(Policies(policies))
}

pub(super) fn seeds(text: &str) -> Result<Seeds, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no seed: write `1..5`, or one number"));
    let (first, last): (u64, u64) = (number(first)?, number(last)?);
    match last.checked_sub(first) {
        None => Err("the range is upside down".into()),
        Some(0..10_000_000) => Ok(Seeds(first, last)),
        Some(_) => Err("more than 10000000 seeds".into()),
    }
}

fn utilities(text: &str) -> Result<Utilities, String> {
    match text.split_once(':').unwrap_or((text, "")) {
        ("equal", "") => Ok(Utilities::Equal),
        ("proportional", "") => Ok(Utilities::Proportional),
        ("geometric", "") => Ok(Utilities::Geometric),
        ("uniform", range) => {
            let form = || "write `uniform:1..100`, in whole units";
            let (low, high) = range.split_once("..").ok_or_else(form)?;
            let number = |text: &str| text.parse().map_err(|_| form());
            Ok(Utilities::Uniform(number(low)?, number(high)?))
        }
        _ => Err("write `uniform:1..100`, `equal`, `proportional` or `geometric`".into()),
    }
}

/// What [`utilities`] reads as these.
fn utilities_text(utilities: Utilities) -> String {
    match utilities {
        Utilities::Equal => "equal".into(),
        Utilities::Uniform(low, high) => format!("uniform:{low}..{high}"),
        Utilities::Proportional => "proportional".into(),
        Utilities::Geometric => "geometric".into(),
    }
}

fn costs(text: &str) -> Result<Costs, String> {
    let (mut costs, mut given) = (Costs::default(), Vec::new());
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is not like `migration=8us`"))?;
        if given.contains(&name.trim()) {
            return Err(format!("`{}` is there twice", name.trim()));
        }
        given.push(name.trim());
        let cost = match name.trim() {
            "context_switch" => &mut costs.context_switch,
            "migration" => &mut costs.migration,
            "cache_reload" => &mut costs.cache_reload,
            "scheduler" => &mut costs.scheduler,
            "scheduler_task" => &mut costs.scheduler_task,
            "lock" => &mut costs.lock,
            "interrupt" => &mut costs.interrupt,
            other => {
                let all = "context_switch, migration, cache_reload, scheduler, scheduler_task, lock and interrupt";
                return Err(format!("there is no cost `{other}`; there are {all}"));
            }
        };
        *cost = takt_workload::parse_duration(value.trim())?;
    }
    Ok(costs)
}

/// Runs of one load that one thread takes at a time.
const BLOCK: u64 = 5;

pub(super) fn run(args: &Args) -> Outcome {
    let cases = Cases::new(args)?;
    let names = cases.names();
    let against = args.against.as_deref().map(|name| position(name, &names)).transpose()?;
    ready(args.file.iter().chain(&args.common.state), args.runs.iter().chain(&args.common.svg))?;
    // What cannot be drawn or scheduled is told before the work, and not after it.
    for load in 0..args.loads.0.len() {
        cases.run_block((load, 0, 1), Span::from_ns(1))?;
    }
    let blocks = experiment::blocks(args.loads.0.len(), cases.runs(), BLOCK);
    let subject = Subject { format: "takt sweep load 2", setup: cases.setup(), questions: names.len() };
    let found = experiment::carry_out(&args.common, &subject, &blocks, |block| cases.run_block(block, args.duration))?;
    cases.notes();
    let table = report::Table::new(&cases, &blocks, &found, against);
    for remark in &table.remarks {
        // The result stands without it.
        let _ = writeln!(io::stderr(), "note: {remark}");
    }
    if let Some(path) = &args.runs {
        output::write(path, table.single_runs())?;
    }
    if let Some(path) = &args.common.svg {
        output::write(path, table.picture())?;
    }
    table.print(args.common.json, subject.setup)?;
    Ok(Verdict::Done)
}

/// Which of the policies this is.
fn position(name: &str, names: &[String]) -> Result<usize, Failure> {
    let unknown = || {
        let message = format!("`--against {name}` is none of the policies");
        Failure::input(message, &format!("name one of {}", names.join(", ")))
    };
    names.iter().position(|n| n == name).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_with_settings_are_told_apart() {
        let texts = |text: &str| {
            policies(text).map(|p| p.0.iter().map(takt_workload::policy_text).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(texts("edf, rr:quantum=2ms,g-edf").unwrap(), "edf rr:quantum=2ms g-edf");
        assert_eq!(texts("edf,rr,rm, edf"), Err("`edf` is there twice".into()));
        assert_eq!(texts("c-rr:quantum=2ms,cluster=3,rm").unwrap(), "c-rr:quantum=2ms,cluster=3 rm");
        assert!(policies("edf,").is_err() && policies("efd").is_err() && policies("edf,a=1").is_err());
    }

    #[test]
    fn seeds_utilities_and_costs_are_read() {
        assert_eq!((seeds("1..5"), seeds("7")), (Ok(Seeds(1, 5)), Ok(Seeds(7, 7))));
        let us = |n| Span::from_us(n);
        let both = Costs { context_switch: us(4), migration: us(8), ..Costs::default() };
        assert_eq!(costs("context_switch=4us, migration=8us"), Ok(both));
        for wrong in ["", "5..1", "a", "1..", "0..99999999"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
        for text in ["equal", "uniform:1..9", "proportional", "geometric"] {
            assert_eq!(utilities(text).map(utilities_text), Ok(text.into()));
        }
        for wrong in ["uniform", "uniform:1", "equal:1", "steep"] {
            assert!(utilities(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "switch=4us", "migration", "migration=4", "lock=1us,lock=1us"] {
            assert!(costs(wrong).is_err(), "{wrong}");
        }
    }
}
