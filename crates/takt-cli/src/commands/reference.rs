//! `takt __reference`: the command line as a page of Markdown, for docs/cli.md; with `--messages` the codes of messages, for
//! docs/messages.md; with `--manual` the manual pages of all commands, and with `--completions` completions for shells, for packages.

use super::completions::script;
use super::man::{self, visible};
use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use takt_workload::Code;

/// Internal
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print the codes of messages
    #[arg(long)]
    messages: bool,
    /// Write a manual page for each command into a directory, and that of `takt demos` as demos-sched.1, too
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "messages")]
    manual: Option<PathBuf>,
    /// Write completions for bash, zsh and fish into a directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "messages")]
    completions: Option<PathBuf>,
}

const HEAD: &str = "\
# Command line

<!-- Written by `takt __reference`; do not edit. -->

Every duration on the command line has a unit: `500ms`, `2s`, `250us`, `1min`.

| exit status | meaning |
|---|---|
| 0 | done; also if a sufficient test is inconclusive (`unknown`) |
| 1 | done, and the answer is no: not schedulable; under `--strict` a missed deadline, a cut-off activation or a failed process |
| 1 | a trace breaks a rule, or traces differ |
| 1 | `takt latency`: a check failed, or `compare` found a difference |
| 1 | `takt ctl`: the policy does not accept the change, a process could not be started, or the run gave no answer |
| 1 | a run ended early: every process failed, `on_exit: stop`, a reaction `stop`, or an initialisation that failed |
| 1 | an output file or standard output could not be written; memory is exhausted |
| 2 | bad input or usage, with file, line and column if there are any |
| 3 | this machine lacks a permission, a kernel feature or a CPU; with the fix |
| 3 | another process writes an output file, or has a CPU of the run |
| 3 | a limit of this process is reached or too low: open files, CPU time, threads |
| 101 | an internal fault: report the message as a bug |

`takt done` and `takt burn` end with the exit statuses of DEmOS's clients:

| exit status | meaning |
|---|---|
| 100 | no scheduler has started `takt done`; `takt burn` uses its CPU time anyway, unless its `--steps` make requests |
| 101 | `DEMOS_PARAMETERS` or `TAKT_CLIENT` is malformed |
| 1 | a descriptor could not be written |
| 2 | a descriptor could not be read |
";

const MESSAGES: &str = "\
# Messages

<!-- Written by `takt __reference --messages`; do not edit. -->

An error or a warning has a code, as in `error[unknown-key]`. Programs and tests can rely on the
code. The wording after it can change in any version. Faults of the command line itself, such as an option that does not exist,
have no code.

| code | meaning and remedy |
|---|---|
";

/// `command` is the whole command line.
pub(crate) fn run(args: &Args, command: &Command) -> Outcome {
    if args.messages {
        io::stdout().lock().write_all(messages().as_bytes())?;
        return Ok(Verdict::Done);
    }
    if let Some(directory) = &args.completions {
        completions(command, directory)?;
    }
    if let Some(directory) = &args.manual {
        manual(command, directory)?;
    }
    if args.completions.is_some() || args.manual.is_some() {
        return Ok(Verdict::Done);
    }
    let mut command = command.clone();
    command.build();
    let mut text = String::from(HEAD);
    visible(&command).for_each(|c| describe(&mut text, c, "takt", 2));
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Verdict::Done)
}

/// Writes the manual pages.
fn manual(command: &Command, directory: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::write(directory, &error);
    for (name, text) in man::pages(command).map_err(failed)? {
        std::fs::write(directory.join(name), text).map_err(failed)?;
    }
    // The name by which scripts call the command.
    std::fs::write(directory.join("demos-sched.1"), ".so man1/takt-demos.1\n").map_err(failed)
}

/// Writes completions under the names by which the shells find them.
fn completions(command: &Command, directory: &Path) -> Result<(), Failure> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let (name, text) = script(shell, command);
        std::fs::write(directory.join(name), text).map_err(|error| Failure::write(directory, &error))?;
    }
    Ok(())
}

fn messages() -> String {
    let mut text = String::from(MESSAGES);
    for code in Code::ALL {
        let _ = writeln!(text, "| `{code}` | {} |", code.explanation());
    }
    text
}

/// Writing to a string cannot fail, so the results are dropped here.
fn describe(out: &mut String, command: &Command, parent: &str, level: usize) {
    let name = format!("{parent} {}", command.get_name());
    let _ = writeln!(out, "\n{} {name}\n", "#".repeat(level));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let about = about.to_string();
        let _ = writeln!(out, "{}\n", about.trim_end());
    }
    let own = || command.get_arguments().filter(|a| !a.is_hide_set() && !is_of_all(a));
    let _ = write!(out, "```text\n{name}");
    if own().any(|a| !a.is_positional()) {
        out.push_str(" [OPTIONS]");
    }
    for arg in own().filter(|a| a.is_positional()) {
        let _ = if arg.is_required_set() { write!(out, " <{}>", value(arg)) } else { write!(out, " [{}]", value(arg)) };
    }
    if command.has_subcommands() {
        out.push_str(" <COMMAND>");
    }
    out.push_str("\n```\n");
    if own().next().is_some() {
        out.push_str("\n| argument | default | meaning |\n|---|---|---|\n");
    }
    for arg in own() {
        let defaults: Vec<String> = match arg.get_action().takes_values() {
            true => arg.get_default_values().iter().map(|v| format!("`{}`", v.to_string_lossy())).collect(),
            false => Vec::new(),
        };
        let _ = writeln!(out, "| `{}` | {} | {} |", title(arg), defaults.join(", "), meaning(arg));
    }
    own().for_each(|arg| values(out, arg));
    visible(command).for_each(|c| describe(out, c, &name, level + 1));
}

/// The options that clap gives all commands. An option with a value may have such a name, too.
fn is_of_all(arg: &Arg) -> bool {
    use ArgAction::{Help, HelpLong, HelpShort, Version};
    matches!(arg.get_action(), Help | HelpLong | HelpShort | Version)
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(" ")
}

fn title(arg: &Arg) -> String {
    match (arg.get_long(), arg.get_action().takes_values()) {
        (None, takes) => match (arg.get_short(), takes) {
            (None, _) => value(arg),
            (Some(short), false) => format!("-{short}"),
            (Some(short), true) => format!("-{short} <{}>", value(arg)),
        },
        (Some(long), false) => format!("--{long}"),
        (Some(long), true) => format!("--{long} <{}>", value(arg)),
    }
}

/// The values that an argument may have.
fn possible(arg: &Arg) -> Vec<PossibleValue> {
    if arg.get_action().takes_values() { arg.get_possible_values() } else { Vec::new() }
}

/// The help text in one cell of a table, with the names of the possible values.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let names: Vec<String> = possible(arg).iter().map(|value| format!("`{}`", value.get_name())).collect();
    match names.split_last() {
        Some((only, [])) => drop(write!(text, ". So far {only}")),
        Some((last, others)) => drop(write!(text, ". One of {} or {last}", others.join(", "))),
        None => {}
    }
    text.replace('|', "\\|")
}

/// A list of the values of an argument that have a help text of their own.
fn values(out: &mut String, arg: &Arg) {
    let values = possible(arg).into_iter().filter_map(|v| Some((v.get_name().to_owned(), v.get_help()?.to_string())));
    let lines: Vec<String> = values.map(|(name, help)| format!("- `{name}`: {help}\n")).collect();
    if !lines.is_empty() {
        let name = arg.get_long().map_or_else(|| value(arg), |long| format!("--{long}"));
        let _ = write!(out, "\nValues of `{name}`:\n\n{}", lines.concat());
    }
}
