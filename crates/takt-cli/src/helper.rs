//! The command line of the program in the Python package: what runs and sweeps need.
//!
//! Programs of workloads find it as `takt`, and call `takt burn` and `takt done`.

use crate::failure::Failure;
use crate::program::{OfRun, VERSION, ended, know};
use crate::{arguments, commands, cpu_limit, life};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use takt_core::policy::Registry;
use takt_core::power;

/// The part of `takt` that the Python package needs
#[derive(Parser)]
#[command(name = "takt", version = VERSION, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(name = "run")]
    Real(Box<commands::run::Args>),
    Sweep(Box<commands::sweep::Args>),
    Burn(commands::burn::Args),
    Done(commands::done::Args),
    #[command(flatten)]
    OfRun(OfRun),
}

/// Carries out the command that these arguments describe.
pub(crate) fn command(registry: Registry, given: &[OsString]) -> ExitCode {
    know(registry, power::Registry::standard());
    if let Err(failure) = life::watch() {
        return failure.report();
    }
    let matches = arguments::negative_values(Cli::command()).try_get_matches_from(given);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => {
            return e.print().map_or_else(|e| Failure::from(e).report(), |()| ExitCode::SUCCESS);
        }
        Err(e) => e.exit(),
    };
    if matches!(cli.command, Command::Real(_) | Command::Sweep(_)) {
        cpu_limit::watch();
    }
    ended(match cli.command {
        Command::Real(args) => commands::run::run(&args),
        Command::Sweep(args) => commands::sweep::run(&args),
        Command::Burn(args) => commands::burn::run(&args),
        Command::Done(args) => commands::done::run(&args),
        Command::OfRun(command) => command.run(),
    })
}
