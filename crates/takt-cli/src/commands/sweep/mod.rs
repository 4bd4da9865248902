//! `takt sweep`: experiments over many task sets and loads.

mod copies;
mod curves;
mod experiment;
mod generate;
mod load;
mod points;
mod schedulability;
mod state;
mod statistics;

use crate::outcome::Outcome;

/// Experiments over many random task sets or loads, on all CPUs
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    sweep: Sweep,
}

#[derive(clap::Subcommand, Debug)]
enum Sweep {
    Generate(generate::Args),
    Schedulability(schedulability::Args),
    Load(Box<load::Args>),
    Copies(Box<copies::Args>),
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.sweep {
        Sweep::Generate(args) => generate::run(args),
        Sweep::Schedulability(args) => schedulability::run(args),
        Sweep::Load(args) => load::run(args),
        Sweep::Copies(args) => copies::run(args),
    }
}
