//! `takt sweep`: experiments over many task sets.

mod curves;
mod generate;
mod schedulability;
mod state;

use crate::Outcome;

/// Experiments over many random task sets, on all CPUs
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    sweep: Sweep,
}

#[derive(clap::Subcommand, Debug)]
enum Sweep {
    Generate(generate::Args),
    Schedulability(schedulability::Args),
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.sweep {
        Sweep::Generate(args) => generate::run(args),
        Sweep::Schedulability(args) => schedulability::run(args),
    }
}
