//! `takt demos`: the command line, the messages and the exit statuses of DEmOS, for scripts that were written for it.

mod log;
pub(super) mod narrator;
mod power;

use super::output::OutputArgs;
use super::run;
use crate::failure::Failure;
use crate::input::Input;
use crate::outcome::{Outcome, Verdict};
use log::Log;
use narrator::{Asked, Narrator, told};
use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use takt_core::time::Span;
use takt_workload::{Code, DEFAULT_INIT_TIMEOUT, MAX_DURATION};

/// The name of a link to this program that means `takt demos`.
const PROGRAM: &str = "demos-sched";

/// Whether the program was started through that link.
pub(crate) fn is_link(program: Option<&OsString>) -> bool {
    program.is_some_and(|program| Path::new(program).file_name().is_some_and(|name| name == PROGRAM))
}

const HELP: &str = "\
Usage: demos-sched <OPTIONS>
  -c <CONFIG_FILE>   configuration file; `-` is standard input
  -C <CONFIG>        configuration as YAML text; its processes run in the current directory
  -p <POLICY>        power policy, as NAME[:ARG1[,ARG2[,...]]]
  -g <NAME>          name of the root control groups, by default demos-PID
  -m <MESSAGE>       print MESSAGE on standard output at the begin of each window
  -M <MESSAGE>       print MESSAGE on standard output at the begin of each major frame
  -t <MS>            end after so many milliseconds; 0 ends after the initialisation
  -s                 run through systemd-run, in a delegated group of this user
  -d                 print the normal form of the configuration, and run nothing
  -V                 print the version
  -h                 print this text

Environment:
  SPDLOG_LEVEL            level of the log, such as debug, or debug,process=info for its two loggers, main and process
  DEMOS_PLAIN_LOG         no time and no colours
  DEMOS_FORCE_COLOR_LOG   colours, also without a terminal
  DEMOS_RAND_SEED         seed of the jitter of budgets
  DEMOS_SCHEDULE_LOG      file for a line of each activation

Takt adds:
  --report               print the figures of the run on standard error: lateness, overruns, use of budgets
  --trace <OUT>          write a trace (.pftrace, .jsonl, .csv); see `takt trace`
  --strict-demos-exit    exit with status 0 although every process failed
  The keys of `docs/workload.md` in the configuration, and `takt check` and `takt sim` for it, with `rules: demos`.
";

/// Schedule a configuration as DEmOS does, with its options, messages and exit statuses
///
/// A link to this program with the name `demos-sched` does the same. The exit status is 0 at the end of the run, also by a timeout or a signal.
/// It is 1 for a fault of the command line, the configuration or the machine, and if every process failed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Configuration file; `-` is standard input
    #[arg(short = 'c', value_name = "CONFIG_FILE", allow_hyphen_values = true, overrides_with = "config")]
    config: Option<PathBuf>,
    /// Configuration as YAML text; its processes run in the current directory
    #[arg(short = 'C', value_name = "CONFIG", allow_hyphen_values = true, overrides_with = "text")]
    text: Option<String>,
    /// Power policy, as NAME[:ARG1[,ARG2[,...]]]
    #[arg(short = 'p', value_name = "POLICY", allow_hyphen_values = true, overrides_with = "power")]
    power: Option<String>,
    /// Name of the root control groups, by default demos-PID
    #[arg(short = 'g', value_name = "NAME", allow_hyphen_values = true, overrides_with = "group")]
    group: Option<String>,
    /// Message on standard output at the begin of each window
    #[arg(short = 'm', value_name = "MESSAGE", allow_hyphen_values = true, overrides_with = "window")]
    window: Option<String>,
    /// Message on standard output at the begin of each major frame
    #[arg(short = 'M', value_name = "MESSAGE", allow_hyphen_values = true, overrides_with = "frame")]
    frame: Option<String>,
    /// Length of the run in milliseconds; 0 ends after the initialisation
    #[arg(short = 't', value_name = "MS", allow_hyphen_values = true, overrides_with = "timeout")]
    timeout: Option<String>,
    /// Start through systemd-run, in a delegated group of this user
    #[arg(short = 's', overrides_with = "systemd")]
    systemd: bool,
    /// The process that `-s` starts: it is in the group that was asked for.
    #[arg(long, hide = true)]
    in_scope: bool,
    /// Print the normal form of the configuration, and run nothing
    #[arg(short = 'd', overrides_with = "dump")]
    dump: bool,
    /// Print the version
    #[arg(short = 'V', overrides_with = "print_version")]
    print_version: bool,
    /// Print the help of DEmOS, and the additions of Takt
    #[arg(short = 'h', overrides_with = "print_help")]
    print_help: bool,
    /// Print the figures of the run on standard error
    #[arg(long)]
    report: bool,
    /// Write a trace; the ending is the format: .pftrace (Perfetto), .jsonl or .csv
    #[arg(long, value_name = "OUT")]
    trace: Option<PathBuf>,
    /// Exit with status 0 although every process failed, as DEmOS does
    #[arg(long)]
    strict_demos_exit: bool,
    /// How processes are stopped and started
    #[arg(long, value_enum, default_value_t = run::MechanismName::Auto)]
    mechanism: run::MechanismName,
    /// Control the power management of an imitated machine, whose files are below this directory
    #[arg(long, value_name = "DIR", hide = true)]
    sysfs_root: Option<PathBuf>,
}

/// Faults of the command line: the reason, DEmOS's help, and its status.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let _ = io::stdout().write_all(HELP.as_bytes());
    ExitCode::FAILURE
}

pub(crate) fn run(args: &Args) -> Outcome {
    // Every fault has the status of DEmOS.
    steps(args).map_err(|failure| failure.with_status(1))
}

fn steps(args: &Args) -> Outcome {
    let mut out = io::stdout();
    if args.print_help {
        out.write_all(HELP.as_bytes())?;
        return Ok(Verdict::Done);
    }
    if args.print_version {
        // DEmOS's own tests read here whether there are schedule logs, which only its debug builds have.
        writeln!(
            out,
            "{PROGRAM} version {} (Takt, with the schedule logs of debug builds)",
            env!("CARGO_PKG_VERSION")
        )?;
        return Ok(Verdict::Done);
    }
    let mut log = Log::from_env();
    if args.config.is_none() && args.text.is_none() {
        out.write_all(HELP.as_bytes())?;
        return Ok(Verdict::No);
    }
    if args.config.is_some() && args.text.is_some() {
        log.warning("Both -c and -C were given; the text of -C is ignored");
    }
    let duration = args.timeout.as_deref().map(timeout).transpose()?;
    let group = args.group.as_deref().map(group_name).transpose()?;
    if args.systemd && !args.in_scope && !args.dump {
        return Err(through_systemd());
    }
    log.debug("Starting DEmOS");
    let input = Input {
        file: args.config.clone().unwrap_or_default(),
        text: args.text.clone().filter(|_| args.config.is_none()),
        demos: true,
        seed: Some(seed(&mut log)?),
        power: power::policy(args.power.as_deref())?,
        ..Input::default()
    };
    let machine = takt_linux::rt::affinity(0).ok();
    if args.dump {
        let source = input.source()?;
        let form = takt_workload::demos_form(&source, &input.options(machine));
        out.write_all(form.map_err(|faults| told(&mut log, Failure::diagnostics(&source, &faults)))?.as_bytes())?;
        return Ok(Verdict::Done);
    }
    let mut workload = match input.load(machine) {
        Ok(workload) => workload,
        Err(failure) => return Err(told(&mut log, failure)),
    };
    log.debug("Configuration loaded");
    power::announce(workload.power.as_ref(), args.power.is_some(), &mut log);
    let number = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let (partitions, windows) = (workload.partitions.len(), workload.system.windows.len());
    log.info(&format!("Parsed {} and {}", number(partitions, "partition"), number(windows, "window")));
    if partitions == 0 {
        log.error("Exception: Need at least one partition in one window");
        let hint = "add `sc_partition` or `be_partition` to a window";
        return Err(Failure::input(Code::NothingToSchedule, "no window has a partition", hint));
    }
    if workload.settings.init_timeout == DEFAULT_INIT_TIMEOUT {
        // DEmOS waits for ever. With an end of the run, there is one of the initialisation, too.
        workload.settings.init_timeout = duration.map_or(MAX_DURATION, |end| end.max(DEFAULT_INIT_TIMEOUT));
    }
    let asked = Asked { report: args.report, strict: args.strict_demos_exit, group, duration };
    let mut narrator = Narrator::new(log, &workload, asked);
    let args = run::Args {
        spare_tasks: 0,
        input,
        duration,
        mechanism: args.mechanism,
        scheduler_class: None,
        allow_differences: true,
        // DEmOS knows no other instances. Here they are reported.
        share_cpus: true,
        isolate: None,
        no_control: false,
        sysfs_root: args.sysfs_root.clone(),
        text: None,
        record: None,
        metrics: None,
        on_window: args.window.clone(),
        on_frame: args.frame.clone(),
        log: None,
        output: OutputArgs {
            trace: args.trace.clone(),
            trace_files: 5,
            gantt_width: 1200,
            quiet: true,
            ..OutputArgs::default()
        },
    };
    match run::execute(&args, workload, Some(&mut narrator)) {
        Ok(_) => Ok(if narrator.failed { Verdict::No } else { Verdict::Done }),
        Err(failure) => narrator.gave_up(failure),
    }
}

/// The length of the run.
fn timeout(text: &str) -> Result<Span, Failure> {
    let most = MAX_DURATION.ns() / 1_000_000;
    let milliseconds = text.trim().parse::<i64>().ok().filter(|ms| (0..=most).contains(ms));
    milliseconds.map(Span::from_ms).ok_or_else(|| {
        let message = format!("`-t {text}` is no number of milliseconds from 0 to {most}");
        Failure::input(Code::OutOfRange, message, "write a whole number, as in `-t 2000`, or leave `-t` out")
    })
}

/// The name of the groups of the run.
fn group_name(name: &str) -> Result<String, Failure> {
    let reserved = name.starts_with("takt-") || name.starts_with("cgroup.") || matches!(name, "" | "." | "..");
    if reserved || name.len() > 255 || name.contains('/') || name.chars().any(char::is_control) {
        let message = format!("`-g {name}` cannot be the name of a group");
        return Err(Failure::input(
            Code::InvalidCharacter,
            message,
            "use letters, digits, `-` and `_`, as in `-g demos`",
        ));
    }
    Ok(name.to_owned())
}

/// The seed of the jitter: that of the environment, or a new one.
fn seed(log: &mut Log) -> Result<u64, Failure> {
    const VARIABLE: &str = "DEMOS_RAND_SEED";
    let Some(text) = std::env::var_os(VARIABLE) else {
        let seed = RandomState::new().build_hasher().finish() as u32;
        log.debug(&format!("Seed of the jitter: {}; {VARIABLE} repeats it", seed as i32));
        return Ok(u64::from(seed));
    };
    let text = text.to_string_lossy();
    text.trim().parse::<i32>().map(|seed| u64::from(seed as u32)).map_err(|_| {
        let message = format!("`{VARIABLE}={text}` is no whole number of 32 bits");
        Failure::input(Code::OutOfRange, message, "write a number, or unset the variable")
    })
}

/// Replaces this process by one in a delegated group of the user's service manager. Returns only if that fails.
fn through_systemd() -> Failure {
    let hint = "run as root without -s, or log in through a session (`loginctl`, `machinectl shell USER@`), or use `--mechanism signal`";
    let unreachable = |why: String| Failure::machine(Code::SystemError, why, hint);
    // systemd-run calls the manager directly where there is no bus.
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let reachable =
        runtime.is_some_and(|dir| ["bus", "systemd/private"].iter().any(|socket| dir.join(socket).exists()));
    if std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_none() && !reachable {
        return unreachable("`-s` needs a service manager of this user, and this session has none".into());
    }
    let Ok(own) = std::env::current_exe() else {
        return unreachable("`-s` cannot find the path of this program".into());
    };
    let given: Vec<OsString> = std::env::args_os().collect();
    // All arguments stay as they are: `-s` can be part of another one, as in `-sc FILE`, or be a value.
    let rest = given.iter().skip(if is_link(given.first()) { 1 } else { 2 });
    let mut command = std::process::Command::new("systemd-run");
    command.args(["--scope", "-p", "Delegate=yes", "--user"]).arg(own).args(["demos", "--in-scope"]).args(rest);
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let _ = writeln!(io::stderr(), "{}", words.join(" "));
    let error = command.exec();
    unreachable(format!("systemd-run cannot be started: {error}"))
}
