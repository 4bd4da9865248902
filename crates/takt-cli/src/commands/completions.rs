//! `takt completions`: what a shell completes after `takt`.

use super::man::visible;
use crate::outcome::{Outcome, Verdict};
use clap::Command;
use clap_complete::{Generator, Shell};
use std::io::{self, Write};

/// Print completions for a shell, as in `source <(takt completions bash)`
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// `command` is the whole command line.
pub(crate) fn run(args: &Args, command: &Command) -> Outcome {
    io::stdout().lock().write_all(&script(args.shell, command).1)?;
    Ok(Verdict::Done)
}

/// The name by which a shell finds its completions, and the completions, without hidden commands.
pub(super) fn script(shell: Shell, command: &Command) -> (String, Vec<u8>) {
    let shown = Command::new("takt").version(env!("CARGO_PKG_VERSION")).args(command.get_arguments().cloned());
    let mut shown = shown.subcommands(visible(command).cloned());
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown, "takt", &mut text);
    (shell.file_name("takt"), text)
}
