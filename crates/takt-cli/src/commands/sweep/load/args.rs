//! The options of `takt sweep load`.

use super::super::experiment::Common;
use super::super::generate::SetArgs;
use super::super::part::SETS_MOST;
use super::super::points::{Points, points};
use super::runs::MEASURES;
use crate::input::{Priorities, duration, placement};
use clap::ValueEnum;
use std::path::PathBuf;
use takt_analysis::generate::Utilities;
use takt_core::cpus::MAX_CPUS;
use takt_core::model::{Late, Need, Placement, PolicySpec};
use takt_core::scenario::Costs;
use takt_core::time::Span;

/// Policies on the same jobs as the load rises: deadlines met, utility accrued, migrations
///
/// With FILE, a load is the factor on the runtimes of its jobs, on `execution` and on the runs of their `steps`. Handlers and budgets
/// are not scaled. Each seed is a run. With task sets in CSV, a load is the factor on all runtimes, and each set is a run. Without
/// FILE, a load is the total utilisation of random task sets, released together, and each set is a run. All policies get the same
/// jobs. Jobs count whose deadline is not beyond the end.
///
/// Prints CSV: a row for each load and policy with means over the runs. `dsr` is the ratio of jobs that met their deadline. `aur` is
/// the ratio of their utility that was accrued. `missed` and `aborted` are ratios of jobs; the other columns are numbers per run. A
/// column `_ci95` is half the width of the 95 % confidence interval of the mean before it (Student's t). The same seed gives the same
/// bytes, whatever the number of threads.
#[derive(clap::Args, Debug)]
pub(in super::super) struct Args {
    /// Workload whose jobs are scaled, or task sets in CSV (`set_id,task_id,C_us,D_us,T_us`); without it, random task sets
    #[arg(value_name = "FILE", conflicts_with_all = ["sets", "SetArgs"])]
    pub(super) file: Option<PathBuf>,
    /// Policies with commas between, such as `g-edf,ng-gua,rr:quantum=2ms`
    #[arg(long, value_name = "NAMES", value_parser = policies)]
    pub(super) policies: Policies,
    /// Loads, factors with FILE and else total utilisations: `0.5..2.0:0.1`, or a list with commas such as `0.9,1,130%`
    #[arg(long, value_name = "POINTS", value_parser = points)]
    pub(super) loads: Points,
    /// Number of CPUs; by default as many as the file names, or 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    pub(super) cpus: Option<u16>,
    /// Simulated time of each run
    #[arg(long, value_parser = duration, default_value = "10s")]
    pub(super) duration: Span,
    /// Seeds of the runs of a file, such as `1..5`, for what it draws at random; task sets in CSV take one
    #[arg(long, value_name = "FIRST..LAST", value_parser = seeds, default_value = "1", requires = "file")]
    pub(super) seeds: Seeds,
    /// Number of random sets for each load
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=SETS_MOST))]
    pub(super) sets: u64,
    /// Utilities of random tasks, and of task sets in CSV. The kinds are `uniform:1..100` (the default), `equal`, `proportional` to the
    /// runtime, and `geometric` (1, 2, 4 … in random order)
    #[arg(long, value_name = "KIND", value_parser = utilities)]
    pub(super) utilities: Option<Utilities>,
    /// Rule for late jobs
    #[arg(long, value_enum, default_value_t = LateRule::Auto)]
    pub(super) late: LateRule,
    /// How partitioned policies place tasks on CPUs: ff, bf, wf, ffd, bfd or wfd
    #[arg(long, value_parser = placement)]
    pub(super) placement: Option<Placement>,
    /// Rule that assigns priorities for policies that rank by priority. It is for random sets and for files that cannot state
    /// priorities (CSV, ChronOS). By default rm
    #[arg(long, value_enum)]
    pub(super) priorities: Option<Priorities>,
    /// Costs of the simulated machine, in place of the file's costs: `context_switch=4us,migration=8us`
    #[arg(long, value_name = "COSTS", value_parser = costs)]
    pub(super) costs: Option<Costs>,
    /// Columns of the output and panels of the picture, such as `dsr,aur,missed`, each with its confidence interval
    #[arg(long, value_name = "NAMES", value_parser = columns)]
    pub(super) columns: Option<Columns>,
    /// Add the differences from this policy, run by run, with their own confidence intervals
    #[arg(long, value_name = "POLICY")]
    pub(super) against: Option<String>,
    /// Write a row for every run
    #[arg(long, value_name = "OUT.csv", conflicts_with = "shard")]
    pub(in super::super) runs: Option<PathBuf>,
    /// Keep the runs, in a file beside `--state`, for `--runs` of a later call or of `takt sweep merge`
    #[arg(long)]
    pub(super) keep_runs: bool,
    #[command(flatten)]
    pub(super) kind: SetArgs,
    #[command(flatten)]
    pub(in super::super) common: Common,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(super) enum LateRule {
    /// The rule of the file (`late`). Without one, policies that rank by utility abort them at the deadline; under others they
    /// continue
    Auto,
    /// They continue
    Continue,
    /// They are aborted at their deadline
    Abort,
    /// They are aborted at the first event after it, as ChronOS does
    AbortAtEvent,
}

impl LateRule {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
    }

    /// `stated` is what a file says.
    pub(super) fn of(self, policy: &PolicySpec, stated: Option<Late>) -> Late {
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
pub(in super::super) struct Policies(pub(in super::super) Vec<PolicySpec>);

/// Places in [`MEASURES`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Columns(pub(in super::super) Vec<usize>);

/// First and last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Seeds(pub(in super::super) u64, pub(in super::super) u64);

/// A part like `b=2` is another setting of the policy before it, as in `x:a=1,b=2`.
pub(in super::super) fn policies(text: &str) -> Result<Policies, String> {
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
        let policy = takt_workload::policy_from_text(text).map_err(|fault| fault.to_string())?;
        if policies.contains(&policy) {
            return Err(format!("`{}` is there twice", takt_workload::policy_text(&policy)));
        }
        policies.push(policy);
    }
    Ok(Policies(policies))
}

fn columns(text: &str) -> Result<Columns, String> {
    let mut columns = Vec::new();
    for name in text.split(',').map(str::trim) {
        let all = || MEASURES.iter().map(|measure| measure.name).collect::<Vec<_>>().join(", ");
        let column = MEASURES.iter().position(|measure| measure.name == name);
        let column = column.ok_or_else(|| format!("there is no column `{name}`; the columns are {}", all()))?;
        if columns.contains(&column) {
            return Err(format!("`{name}` is there twice"));
        }
        columns.push(column);
    }
    Ok(Columns(columns))
}

pub(in super::super) fn seeds(text: &str) -> Result<Seeds, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no seed: write `1..5`, or one number"));
    let (first, last): (u64, u64) = (number(first)?, number(last)?);
    match last.checked_sub(first) {
        None => Err("the range is upside down".into()),
        Some(0..SETS_MOST) => Ok(Seeds(first, last)),
        Some(_) => Err(format!("more than {SETS_MOST} seeds")),
    }
}

pub(super) fn utilities(text: &str) -> Result<Utilities, String> {
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

/// The rule for late jobs in words.
pub(in super::super) fn late_text(late: Late) -> &'static str {
    match late {
        Late::Continue => "they continue",
        Late::Abort => "aborted at their deadlines",
        Late::AbortAtEvent => "aborted at the first event after their deadlines",
    }
}

/// The words that [`utilities`] reads as these.
pub(super) fn utilities_text(utilities: Utilities) -> String {
    match utilities {
        Utilities::Equal => "equal".into(),
        Utilities::Uniform(low, high) => format!("uniform:{low}..{high}"),
        Utilities::Proportional => "proportional".into(),
        Utilities::Geometric => "geometric".into(),
    }
}

pub(super) fn costs(text: &str) -> Result<Costs, String> {
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
    fn columns_are_named() {
        assert_eq!(columns("missed, dsr"), Ok(Columns(vec![2, 0])));
        assert_eq!(columns("dsr,dsr"), Err("`dsr` is there twice".into()));
        let unknown = columns("dsr,missd").unwrap_err();
        assert!(unknown.starts_with("there is no column `missd`; the columns are dsr, aur, missed, "), "{unknown}");
    }

    #[test]
    fn seeds_utilities_and_costs_are_read() {
        assert_eq!((seeds("1..5"), seeds("7")), (Ok(Seeds(1, 5)), Ok(Seeds(7, 7))));
        let us = |n| Span::from_us(n);
        let both = Costs { context_switch: us(4), migration: us(8), ..Costs::default() };
        assert_eq!(costs("context_switch=4us, migration=8us"), Ok(both));
        for wrong in ["", "5..1", "a", "1..", "0..1000000000000"] {
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
