//! `takt sweep`: experiments over many task sets and loads.

mod copies;
pub(super) mod curves;
pub(super) mod experiment;
pub(super) mod fingerprint;
mod generate;
pub(super) mod load;
mod merge;
mod page;
mod part;
mod parts;
mod points;
mod schedulability;
mod singles;
mod state;
mod statistics;

use crate::arguments::negative_values;
use crate::failure::Failure;
use crate::outcome::Outcome;
use clap::{Args as _, FromArgMatches};
use takt_workload::Code;

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
    Merge(merge::Args),
}

impl Sweep {
    /// The name of the subcommand in a state, if it has one.
    fn command(&self) -> Option<&'static str> {
        match self {
            Sweep::Schedulability(_) => Some(schedulability::COMMAND),
            Sweep::Load(_) => Some(load::COMMAND),
            Sweep::Copies(_) => Some(copies::COMMAND),
            Sweep::Generate(_) | Sweep::Merge(_) => None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.sweep {
        Sweep::Generate(args) => generate::run(args),
        Sweep::Schedulability(args) => schedulability::run(args),
        Sweep::Load(args) => load::run(args),
        Sweep::Copies(args) => copies::run(args),
        Sweep::Merge(args) => merged(args),
    }
}

/// Prints an experiment from its parts: the command that made them runs with their results in place of its work.
fn merged(args: &merge::Args) -> Outcome {
    let parts = args.parts()?;
    let (name, arguments) = parts.command();
    let Some(sweep) = parsed(arguments).filter(|sweep| sweep.command() == Some(name)) else {
        return Err(parts.without_command());
    };
    if args.over_time.is_some() && name != copies::COMMAND {
        let message =
            format!("`--over-time` is an option of `takt sweep {}`, and these parts are of `{name}`", copies::COMMAND);
        return Err(Failure::input(Code::ConflictingOptions, message, "leave it out"));
    }
    let _outputs = args.ready(&parts)?;
    match sweep {
        Sweep::Schedulability(mut of) => {
            args.set(parts, &mut of.common);
            of.runs.clone_from(&args.runs);
            schedulability::run(&of)
        }
        Sweep::Load(mut of) => {
            args.set(parts, &mut of.common);
            of.runs.clone_from(&args.runs);
            load::run(&of)
        }
        Sweep::Copies(mut of) => {
            args.set(parts, &mut of.common);
            of.over_time.clone_from(&args.over_time);
            of.runs.clone_from(&args.runs);
            copies::run(&of)
        }
        Sweep::Generate(_) | Sweep::Merge(_) => unreachable!("their name is that of no state"),
    }
}

/// The arguments of the command that made a part.
fn parsed(arguments: &[String]) -> Option<Sweep> {
    let command = negative_values(Args::augment_args(clap::Command::new("sweep")));
    let matches = command.try_get_matches_from(arguments).ok()?;
    Args::from_arg_matches(&matches).ok().map(|args| args.sweep)
}
