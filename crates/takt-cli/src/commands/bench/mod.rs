//! `takt bench`: how fast Takt is on this machine, always against a peer that is measured in the same run; and how policies
//! compare in virtual time.

mod analyze;
mod bare;
pub(crate) mod deadline;
pub(crate) mod decide;
mod decode;
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
    Decide(decide::Args),
    Decode(decode::Args),
    Analyze(analyze::Args),
    Deadline(deadline::Args),
    Hartstone(hartstone::Args),
}

/// How often a bench measures.
#[derive(clap::Args, Debug)]
struct Rounds {
    /// How often everything is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

/// What else every bench that is judged by limits can be told.
#[derive(clap::Args, Debug)]
struct Form {
    /// One short round that shows that everything works; its numbers mean nothing
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Exit with status 1 when a limit is missed
    #[arg(long)]
    strict: bool,
}

/// Options of every bench that starts processes.
#[derive(clap::Args, Debug)]
#[command(mut_args(of_processes))]
struct Common {
    #[command(flatten)]
    rounds: Rounds,
    #[command(flatten)]
    form: Form,
    /// CPU that is measured on; by default the last one
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// How processes are stopped and started
    #[arg(long, value_enum, default_value_t = MechanismName::Auto)]
    mechanism: MechanismName,
}

/// What the shared options are where processes are measured: fewer rounds, as each takes long, and limits that are upper ones.
fn of_processes(arg: clap::Arg) -> clap::Arg {
    match arg.get_id().as_str() {
        "rounds" => arg.default_value("3"),
        "strict" => arg.help("Exit with status 1 when a limit is exceeded"),
        _ => arg,
    }
}

impl Rounds {
    fn count(&self, form: &Form) -> u32 {
        if form.quick { 1 } else { self.rounds }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.bench {
        Bench::Latency(args) => latency::run(args),
        Bench::Overhead(args) => overhead::run(args),
        Bench::Startup(args) => startup::run(args),
        Bench::Misses(args) => misses::run(args),
        Bench::Simulate(args) => simulate::run(args),
        Bench::Decide(args) => decide::run(args),
        Bench::Decode(args) => decode::run(args),
        Bench::Analyze(args) => analyze::run(args),
        Bench::Deadline(args) => deadline::run(args),
        Bench::Hartstone(args) => hartstone::run(args),
    }
}
