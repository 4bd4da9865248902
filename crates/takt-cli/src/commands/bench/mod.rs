//! `takt bench`: how fast Takt is on this machine, always against a peer that is measured in the same run; and how policies
//! compare in virtual time.

mod analyze;
mod bare;
mod figures;
mod floor;
mod hartstone;
mod lab;
mod latency;
mod misses;
mod overhead;
mod simulate;
mod startup;

use crate::Outcome;
use crate::commands::run::MechanismName;

/// Measure Takt against a peer on this machine
///
/// Takt and its peer take turns for several rounds; medians over the rounds are shown. The machine should have
/// nothing else to do. What each bench does is told in `docs/benchmarks.md`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand, Debug)]
enum Bench {
    Latency(latency::Args),
    Overhead(overhead::Args),
    Startup(startup::Args),
    Misses(misses::Args),
    Simulate(simulate::Args),
    Analyze(analyze::Args),
    Hartstone(hartstone::Args),
}

/// Options of every bench.
#[derive(clap::Args, Debug)]
struct Common {
    /// How often everything is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// One short round that shows that everything works; its numbers mean nothing
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Exit with status 1 when a limit is exceeded
    #[arg(long)]
    strict: bool,
    /// CPU that is measured on; by default the last one
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// How processes are stopped and started
    #[arg(long, value_enum, default_value_t = MechanismName::Auto)]
    mechanism: MechanismName,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.bench {
        Bench::Latency(args) => latency::run(args),
        Bench::Overhead(args) => overhead::run(args),
        Bench::Startup(args) => startup::run(args),
        Bench::Misses(args) => misses::run(args),
        Bench::Simulate(args) => simulate::run(args),
        Bench::Analyze(args) => analyze::run(args),
        Bench::Hartstone(args) => hartstone::run(args),
    }
}
