//! Options of an experiment.

use super::measure::{Echo, Method};
use super::scenario::{self, Scenario};
use super::stress::Kind;
use crate::input::duration;
use std::path::PathBuf;
use takt_core::time::Span;

#[derive(clap::Args, Debug)]
pub(super) struct Sweep {
    /// Scenarios to measure; by default all but `cyclictest`
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = scenario_name())]
    pub(super) scenario: Vec<Scenario>,
    /// Period of the task
    #[arg(long, default_value = "1ms", value_parser = duration)]
    pub(super) period: Span,
    /// Samples of each scenario, over all rounds
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) samples: u32,
    /// Number of rounds; intervals need at least three
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// CPU of the task; by default the last one that `takt isolate create` has isolated, or else the last one. On an isolated CPU the task is in the
    /// set of the isolation
    #[arg(long, value_name = "N")]
    pub(super) cpu: Option<usize>,
    /// Priority of the task where it is in SCHED_FIFO
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=98))]
    pub(super) priority: u8,
    /// The way the task waits for its next period
    #[arg(long, value_enum, default_value_t = Method::Nanosleep)]
    pub(super) method: Method,
    /// Measure to the answer of a second process
    #[arg(long, value_enum, conflicts_with = "method")]
    pub(super) echo: Option<Echo>,
    /// Kinds of load
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',', default_value = "cpu")]
    pub(super) stress: Vec<Kind>,
    /// Threads of each kind of load
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) stress_threads: u16,
    /// A command as load, which is started again whenever it ends
    #[arg(long, value_name = "COMMAND", conflicts_with = "stress")]
    pub(super) stress_command: Option<String>,
    /// Explain the latest samples of each scenario by the kernel's trace: what ran instead
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3", conflicts_with = "echo",
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) explain: Option<u16>,
    /// Measure the scenarios of the expected order, and check it: status 1 if it is not there
    #[arg(long, conflicts_with = "scenario")]
    pub(super) check_order: bool,
    /// Measure in turn with `cyclictest`, and check that both medians agree within 2us: status 1 if they do not
    #[arg(long, conflicts_with_all = ["scenario", "check_order", "echo"])]
    pub(super) check_cyclictest: bool,
    /// Compare each sample with the kernel's trace of the same wake-up: status 1 if one differs by more than that, by default 1us
    #[arg(long, value_name = "LIMIT", num_args = 0..=1, default_missing_value = "1us", conflicts_with = "echo", value_parser = duration)]
    pub(super) check_trace: Option<Span>,
    /// Count samples that are later
    #[arg(long, default_value = "100us", value_parser = duration)]
    pub(super) limit: Span,
    /// Of no effect since 0.2: intervals need no seed
    #[arg(long = "seed", value_name = "SEED", hide = true)]
    _seed: Option<u64>,
    /// Write all samples and settings, for `takt latency compare`
    #[arg(long, value_name = "FILE.json")]
    pub(super) output: Option<PathBuf>,
    /// Write all samples
    #[arg(long, value_name = "FILE.csv")]
    pub(super) csv: Option<PathBuf>,
    /// Write the number of samples of each scenario in each microsecond of lateness
    #[arg(long, value_name = "FILE.csv")]
    pub(super) histogram: Option<PathBuf>,
    /// Write a report with charts that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub(super) html: Option<PathBuf>,
    /// Write the chart of the tails
    #[arg(long, value_name = "FILE.svg")]
    pub(super) tails: Option<PathBuf>,
    /// Write the chart of the densities
    #[arg(long, value_name = "FILE.svg")]
    pub(super) density: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// A parser that lists the scenarios in the help.
fn scenario_name() -> impl clap::builder::TypedValueParser<Value = Scenario> {
    use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
    let values = scenario::ALL.map(|scenario| PossibleValue::new(scenario.name).help(scenario.meaning));
    PossibleValuesParser::new(values).map(|name| Scenario::named(&name).expect("it is one of the list"))
}
