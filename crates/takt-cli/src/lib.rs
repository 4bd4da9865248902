//! The `takt` command: one file per subcommand. Only this crate prints, colours and exits.
//!
//! It is a library so that a program with policies of its own is [`main`] with another registry.
//!
//! # Layers
//! Each line uses only lines below it.
//! ```text
//! lib.rs helper.rs                            the program, as a function of a registry; the smaller one of the Python package
//! program.rs commands/*.rs                    what both have
//! control.rs control/*.rs                     the socket of a run
//! additions.rs                                tasks of other files, for runs and replays
//! input.rs files.rs processes.rs preferences.rs progress.rs
//! life.rs outcome.rs failure.rs               ends of commands
//! ```

mod additions;
mod arguments;
mod clock;
mod commands;
mod control;
mod cpu_limit;
mod failure;
mod files;
mod helper;
mod input;
mod interruption;
mod life;
mod modules;
mod outcome;
mod parallel;
mod preferences;
mod processes;
mod program;
mod progress;
mod scratch;

use crate::failure::Failure;
use crate::program::{OfRun, VERSION, ended, know, start};
use clap::{Args as _, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::process::ExitCode;
use takt_core::policy::Registry;
use takt_core::power;

/// Write a real-time scheduler once, run it everywhere.
///
/// Exit status: 0 done; 1 done, and the answer is no; 2 bad input or usage; 3 this machine lacks a capability, with the fix.
#[derive(Parser)]
#[command(name = "takt", version = VERSION, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Init(commands::init::Args),
    Check(commands::check::Args),
    Import(commands::import::Args),
    Sim(commands::sim::Args),
    Run(commands::run::Args),
    #[command(disable_help_flag = true)]
    Demos(commands::demos::Args),
    Ctl(commands::ctl::Args),
    Latency(commands::latency::Args),
    Isolate(commands::isolate::Args),
    Policies(commands::policies::Args),
    Doctor(commands::doctor::Args),
    Analyze(commands::analyze::Args),
    Sweep(commands::sweep::Args),
    Repro(commands::repro::Args),
    Trace(commands::trace::Args),
    Measure(commands::measure::Args),
    Top(commands::top::Args),
    Burn(commands::burn::Args),
    Done(commands::done::Args),
    Bench(commands::bench::Args),
    Mcu(commands::mcu::Args),
    Schema(commands::schema::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
    #[command(flatten)]
    OfRun(OfRun),
    #[command(name = "__latency", hide = true)]
    LatencyProcess(commands::latency::internal::Args),
    #[command(name = "__reference", hide = true)]
    Reference(commands::reference::Args),
}

/// Adds the arguments of a command to its description.
type Describe = fn(clap::Command) -> clap::Command;

/// The commands with arguments, by their names.
const COMMANDS: [(&str, Describe); 30] = [
    ("init", commands::init::Args::augment_args),
    ("check", commands::check::Args::augment_args),
    ("import", commands::import::Args::augment_args),
    ("sim", commands::sim::Args::augment_args),
    ("run", commands::run::Args::augment_args),
    ("demos", commands::demos::Args::augment_args),
    ("ctl", commands::ctl::Args::augment_args),
    ("latency", commands::latency::Args::augment_args),
    ("isolate", commands::isolate::Args::augment_args),
    ("policies", commands::policies::Args::augment_args),
    ("doctor", commands::doctor::Args::augment_args),
    ("analyze", commands::analyze::Args::augment_args),
    ("sweep", commands::sweep::Args::augment_args),
    ("repro", commands::repro::Args::augment_args),
    ("trace", commands::trace::Args::augment_args),
    ("measure", commands::measure::Args::augment_args),
    ("top", commands::top::Args::augment_args),
    ("burn", commands::burn::Args::augment_args),
    ("done", commands::done::Args::augment_args),
    ("bench", commands::bench::Args::augment_args),
    ("mcu", commands::mcu::Args::augment_args),
    ("schema", commands::schema::Args::augment_args),
    ("completions", commands::completions::Args::augment_args),
    ("man", commands::man::Args::augment_args),
    ("__watch", commands::watch::Args::augment_args),
    ("__environments", |command| command),
    ("__start", commands::start::Args::augment_args),
    ("__probe", commands::probe::Args::augment_args),
    ("__latency", commands::latency::internal::Args::augment_args),
    ("__reference", commands::reference::Args::augment_args),
];

/// A command with valid arguments, without a description of all other commands, which takes most of the time of a start. Everything else
/// is `None`, wrong arguments included, so messages and help have one source.
fn quick(given: &[OsString]) -> Option<Cli> {
    let called = given.get(1)?;
    let (name, describe) = COMMANDS.iter().find(|(name, _)| called == name)?;
    let command = arguments::negative_values(describe(clap::Command::new(*name)).disable_help_flag(*name == "demos"));
    let matches = clap::Command::new("takt").subcommand(command).try_get_matches_from(given).ok()?;
    Cli::from_arg_matches(&matches).ok()
}

/// The description of the command line, as far as these arguments need it.
fn described(given: &[OsString]) -> clap::Command {
    match given {
        [_, version] if version == "--version" || version == "-V" => clap::Command::new("takt").version(VERSION),
        _ => arguments::negative_values(Cli::command()),
    }
}

/// The program with the policies of `registry`, by the arguments of this process. Call it once, first of all.
///
/// # Panics
/// At a second call with another registry.
pub fn main(registry: Registry) -> ExitCode {
    main_with(registry, power::Registry::standard())
}

/// The program with the policies of `registry` and the power policies of `power`, by the arguments of this process. Call it once, first of
/// all.
///
/// # Panics
/// At a second call with other registries.
pub fn main_with(registry: Registry, power: power::Registry) -> ExitCode {
    start(move |given| command(registry, power, given))
}

/// The program of the Python package: real runs and sweeps, with the policies of `registry`. The linker leaves out all other commands, and the interpreter
/// of modules. Call it once, first of all.
///
/// # Panics
/// At a second call with another registry.
pub fn helper(registry: Registry) -> ExitCode {
    start(move |given| helper::command(registry, &given))
}

/// Carries out the command that the arguments of this process describe.
fn command(registry: Registry, power: power::Registry, mut given: Vec<OsString>) -> ExitCode {
    know(registry.with_loaded(takt_wasm::entry), power);
    modules::allow();
    if commands::demos::is_link(given.first()) {
        given.splice(0..1, ["takt".into(), "demos".into()]);
    }
    if let Err(failure) = life::watch() {
        return failure.report();
    }
    let parse = || {
        let matches = described(&given).try_get_matches_from(&given);
        matches.and_then(|matches| Cli::from_arg_matches(&matches))
    };
    let cli = match quick(&given).map_or_else(parse, Ok) {
        Ok(cli) => cli,
        Err(e) if given.get(1).is_some_and(|command| command == "demos") => return commands::demos::usage(&e),
        Err(e) if !e.use_stderr() => {
            return e.print().map_or_else(|e| Failure::from(e).report(), |()| ExitCode::SUCCESS);
        }
        Err(e) => e.exit(),
    };
    // The hidden commands are parts of others, which have the limit, too.
    let is_whole = !matches!(cli.command, Command::OfRun(_) | Command::LatencyProcess(_) | Command::Reference(_));
    if is_whole && !matches!(cli.command, Command::Burn(_) | Command::Done(_)) {
        cpu_limit::watch();
    }
    let result = match cli.command {
        Command::Init(args) => commands::init::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Import(args) => commands::import::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Demos(args) => commands::demos::run(&args),
        Command::Ctl(args) => commands::ctl::run(&args),
        Command::Latency(args) => commands::latency::run(&args),
        Command::Isolate(args) => commands::isolate::run(&args),
        Command::Policies(args) => commands::policies::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Analyze(args) => commands::analyze::run(&args),
        Command::Sweep(args) => commands::sweep::run(&args),
        Command::Repro(args) => commands::repro::run(&args, Cli::command()),
        Command::Trace(args) => commands::trace::run(&args),
        Command::Measure(args) => commands::measure::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Burn(args) => commands::burn::run(&args),
        Command::Done(args) => commands::done::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Mcu(args) => commands::mcu::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Completions(args) => commands::completions::run(&args, &Cli::command()),
        Command::Man(args) => commands::man::run(&args, &Cli::command()),
        Command::OfRun(command) => command.run(),
        Command::LatencyProcess(args) => commands::latency::internal::run(&args),
        Command::Reference(args) => commands::reference::run(&args, &Cli::command()),
    };
    ended(result)
}

/// Reads a line of the control socket, for the fuzzer (`fuzz/targets/control.rs`): as a request, and as an answer.
///
/// # Panics
/// When a request that was read is another one after it was written.
#[cfg(any(fuzzing, test))]
pub fn fuzz_control(line: &[u8]) {
    if let Ok(request) = control::wire::parse(line) {
        let again = control::wire::parse(request.line().trim_end().as_bytes());
        assert_eq!(again.as_ref(), Ok(&request), "a request survives its line");
    }
    let _ = control::wire::Reply::parse(&String::from_utf8_lossy(line));
}

/// Replays a record of steps over a workload, as `takt sim --replay` does, for the fuzzer (`fuzz/targets/replay.rs`).
///
/// # Panics
/// When the workload cannot be read.
#[cfg(any(fuzzing, test))]
pub fn fuzz_replay(workload: &str, record: &[u8]) {
    use commands::steps::Reader;
    let source = takt_workload::Source { name: "fuzz.yaml".into(), text: workload.into() };
    let mut workload = takt_workload::load(source, &takt_workload::Options::default()).expect("a workload");
    workload.clear_simulated();
    for what_if in [false, true] {
        let input = Box::new(std::io::Cursor::new(record.to_vec()));
        let Ok(reader) = Reader::of(std::path::Path::new("fuzz.steps"), input) else { continue };
        let Ok(replay) = reader.read(&workload, what_if, false) else { continue };
        let (mut system, n) = (workload.system.clone(), workload.tasks.len() as u32);
        takt_exec::reserve(&mut system, &mut Vec::new(), replay.added.len());
        let mut engine = takt::load::engine(system).expect("the reader has built its policy");
        for (added, number) in replay.added.iter().zip(n..) {
            engine.describe(takt_core::model::TaskId(number), added.task.clone()).expect("a free number");
        }
        engine.add_alternatives(replay.policies.iter().copied());
        let is_known = |table: &takt_core::model::WindowTable| engine.add_table(table.clone()).is_ok();
        if replay.tables.iter().all(is_known) {
            takt_sim::replay(&mut engine, &replay.steps, &mut ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that is missing in the list would only start slowly, and one that is described in another way would have other arguments.
    #[test]
    fn each_command_is_described_alone_as_with_all_others() {
        let whole = Cli::command();
        let all: Vec<&str> = whole.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(all, COMMANDS.map(|(name, _)| name));
        for (with_others, (name, describe)) in whole.get_subcommands().zip(COMMANDS) {
            let alone = describe(clap::Command::new(name));
            let arguments = |command: &clap::Command| {
                let all =
                    command.get_arguments().chain(command.get_subcommands().flat_map(clap::Command::get_arguments));
                all.map(|argument| format!("{argument:?}")).collect::<Vec<_>>()
            };
            assert_eq!(arguments(&alone), arguments(with_others), "{name}");
        }
    }

    #[test]
    fn the_version_is_that_of_the_whole_command_line() {
        for argument in ["--version", "-V"] {
            let given = ["takt", argument].map(OsString::from);
            let text = |command: clap::Command| command.try_get_matches_from(&given).unwrap_err().to_string();
            assert_eq!(text(described(&given)), text(Cli::command()));
        }
    }

    /// The functions of the fuzz targets, with lines that a fuzzer has to find first.
    #[test]
    fn the_fuzz_targets_are_up_to_date() {
        for line in [
            &br#"{"takt_control": 1, "command": "set", "task": "a", "terms": [["period", "40ms"], ["period", ""]]}"#[..],
            br#"{"takt_control": 1, "command": "remove", "task": "\u0000", "end_grace_ms": 18446744073709551615}"#,
            br#"{"takt_control": 1, "command": "watch", "interval_ms": -1}"#,
            br#"{"takt_control": 1e400, "command": "status"}"#,
            br#"{"takt_control": 1, "done": {"result": "changed", "at_ns": 9223372036854775807, "from_ns": null}}"#,
            b"\xff\xfe[",
        ] {
            super::fuzz_control(line);
        }
        let workload = include_str!("../tests/records/edf.yaml");
        let record = include_str!("../tests/records/edf.steps");
        super::fuzz_replay(workload, record.as_bytes());
        // A task that the record adds, before it enters and after.
        let text = r#"policy: edf\ntasks:\n- {name: new, cmd: x, period: 5ms, runtime: 1ms}\n"#;
        let task = format!(r#"{{"task":{{"name":"new","domain":null,"file":"n.yaml","text":"{text}"}}}}"#);
        let n = workload.matches("name:").count();
        for inputs in [format!(r#"["enter",{n}]"#), format!(r#"["add",{n},null],["enter",{n}]"#)] {
            let lines: Vec<&str> = record.lines().filter(|line| !line.contains("\"end\"")).collect();
            let more = format!("{}\n{task}\n[9000000000,[{inputs}]]\n", lines.join("\n"));
            super::fuzz_replay(workload, more.as_bytes());
        }
    }
}
