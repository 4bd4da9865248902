//! `takt demos`: the command line, the messages and the exit statuses of DEmOS, for scripts that were written for it.

mod log;
mod power;

use super::output::OutputArgs;
use super::run;
use crate::failure::Failure;
use crate::input::Input;
use crate::outcome::{Outcome, Verdict};
use log::{Level, Log, Logger};
use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use takt_core::model::TaskId;
use takt_core::record::{Outcome as Ending, Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_exec::{Ended, Report, TaskEnd};
use takt_linux::Names;
use takt_workload::{Code, DEFAULT_INIT_TIMEOUT, MAX_DURATION, Workload};

/// The name of a link to this program that stands for `takt demos`.
pub(crate) const PROGRAM: &str = "demos-sched";

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

/// Run a configuration as DEmOS does, with its options, messages and exit statuses
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
    /// Run through systemd-run, in a delegated group of this user
    #[arg(short = 's', overrides_with = "systemd")]
    systemd: bool,
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
    if args.systemd && !args.dump {
        return Err(through_systemd());
    }
    log.debug("Starting DEmOS");
    let input = Input {
        file: args.config.clone().unwrap_or_default(),
        text: args.text.clone().filter(|_| args.config.is_none()),
        demos: true,
        seed: Some(seed(&mut log)?),
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
    power::set_up(args.power.as_deref(), &mut log)?;
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
    let mut narrator = Narrator::new(args, log, &workload, group, duration);
    let args = run::Args {
        input,
        duration,
        mechanism: args.mechanism,
        scheduler_class: None,
        allow_differences: true,
        // DEmOS knows no other instances. Here they are reported.
        share_cpus: true,
        no_control: false,
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

/// Writes the first line of a failure as DEmOS writes its exceptions.
fn told(log: &mut Log, failure: Failure) -> Failure {
    let text = anstream::adapter::strip_str(failure.text()).to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.split_once("]: ").map_or(first, |(_, message)| message);
    log.error(&format!("Exception: {message}"));
    failure
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
    let bus = std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("bus"));
    if std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_none() && !bus.is_some_and(|bus| bus.exists()) {
        return unreachable("`-s` needs a service manager of this user, and this session has none".into());
    }
    let Ok(own) = std::env::current_exe() else {
        return unreachable("`-s` cannot find the path of this program".into());
    };
    let given: Vec<OsString> = std::env::args_os().collect();
    let is_link = crate::is_demos(given.first());
    let rest = given.iter().skip(if is_link { 1 } else { 2 }).filter(|arg| *arg != "-s");
    let mut command = std::process::Command::new("systemd-run");
    command.args(["--scope", "-p", "Delegate=yes", "--user"]).arg(own).arg("demos").args(rest);
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let _ = writeln!(io::stderr(), "{}", words.join(" "));
    let error = command.exec();
    unreachable(format!("systemd-run cannot be started: {error}"))
}

/// Tells a run in the lines of DEmOS. The supervisor calls it, never the scheduler thread.
pub(super) struct Narrator {
    log: Log,
    /// The figures of the run are wanted.
    pub(super) reports: bool,
    strict: bool,
    group: Option<String>,
    duration: Option<Span>,
    tasks: Vec<Told>,
    /// How many processes initialise.
    initialise: usize,
    /// The activations that were cut off at the end of the present window.
    cut_off: Vec<(TaskId, Span)>,
    at: Time,
    /// The run is one that ends with status 1.
    failed: bool,
}

/// What is said of a task.
struct Told {
    partition: String,
    command: String,
    pid: Option<i32>,
    /// The budget that it was granted last.
    budget: Span,
}

impl Narrator {
    fn new(args: &Args, log: Log, workload: &Workload, group: Option<String>, duration: Option<Span>) -> Narrator {
        let told = |task: &takt_workload::TaskInfo| Told {
            partition: task.partition.map(|p| workload.partitions[p].clone()).unwrap_or_default(),
            command: task.cmd.clone().unwrap_or_default(),
            pid: None,
            budget: Span::ZERO,
        };
        Narrator {
            log,
            reports: args.report,
            strict: args.strict_demos_exit,
            group,
            duration,
            tasks: workload.tasks.iter().map(told).collect(),
            initialise: workload.tasks.iter().filter(|task| task.init).count(),
            cut_off: Vec::new(),
            at: Time::ZERO,
            failed: false,
        }
    }

    /// The names of the groups. A partition with a policy has a group for each task, which DEmOS has no names for.
    pub(super) fn names(&mut self, workload: &Workload) -> Option<Names> {
        if workload.system.partitions.iter().any(|partition| partition.policy.is_some()) {
            if self.group.is_some() {
                self.log.warning("-g has no effect: partitions with a policy have groups of other names");
            }
            return None;
        }
        let root = self.group.clone().unwrap_or_else(|| format!("demos-{}", std::process::id()));
        Some(Names { root, partitions: workload.partitions.clone() })
    }

    pub(super) fn warning(&mut self, text: &str) {
        self.log.warning(text);
    }

    /// The run begins with its processes.
    pub(super) fn begins(&mut self) {
        if !takt_linux::rt::rt_allowed() {
            self.log.warning("Running DEmOS without real-time priority, consider running as root");
        }
        self.log.line(Logger::Process, Level::Info, "Spawning scheduled processes");
        match self.initialise {
            0 => self.log.info("No processes need initialization"),
            1 => self.log.info("Initializing 1 process"),
            n => self.log.info(&format!("Initializing {n} processes")),
        }
    }

    /// The schedule begins.
    pub(super) fn started(&mut self, pids: &[Option<i32>]) {
        for (task, pid) in self.tasks.iter_mut().zip(pids) {
            task.pid = *pid;
        }
        if self.log.writes(Logger::Process, Level::Debug) {
            for task in &self.tasks {
                let Told { partition, command, pid, .. } = task;
                let text =
                    format!("Running '{command}' as PID '{}' (partition '{partition}')", pid.unwrap_or_default());
                self.log.line(Logger::Process, Level::Debug, &text);
            }
        }
        self.log.line(Logger::Process, Level::Info, "Scheduled processes spawned");
        self.log.debug("Process initialization finished");
        match self.duration {
            Some(Span::ZERO) => self.log.info("Zero timeout set, stopping immediately"),
            _ => self.log.info("Starting scheduler"),
        }
        if let Some(end) = self.duration.filter(|end| *end > Span::ZERO) {
            self.log.debug(&format!("Scheduler will timeout in '{} ms'", end.ns() / 1_000_000));
        }
    }

    pub(super) fn record(&mut self, record: &Record) {
        match record.kind {
            RecordKind::Budget { task, amount: Some(amount), .. } => self.tasks[task.index()].budget = amount,
            RecordKind::Finish { task, outcome: Ending::Overrun, consumed, .. } => {
                self.at = record.at;
                self.cut_off.push((task, consumed.nominal_time()));
            }
            _ if record.at != self.at || matches!(record.kind, RecordKind::Window { .. }) => self.overrun(),
            _ => {}
        }
    }

    /// A window has ended before its safety-critical processes.
    fn overrun(&mut self) {
        if self.cut_off.is_empty() {
            return;
        }
        let mut who = Vec::with_capacity(self.cut_off.len());
        for (task, used) in self.cut_off.drain(..) {
            let Told { partition, command, budget, .. } = &self.tasks[task.index()];
            who.push(match used > Span::ZERO {
                true => format!(
                    "'{command}' (partition '{partition}') was cut off after {used} of {budget}, {} too early",
                    (*budget - used).or_zero()
                ),
                false => format!("'{command}' (partition '{partition}') did not start"),
            });
        }
        self.log.warning(&format!("Window ended before all SC partitions finished: {}", who.join(", ")));
    }

    pub(super) fn exited(&mut self, task: TaskId, end: TaskEnd) {
        let Told { partition, command, pid, .. } = &self.tasks[task.index()];
        let pid = pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        let (level, text) = match end {
            TaskEnd::Exited(0) => {
                (Level::Debug, format!("Process '{pid}' exited (partition '{partition}', cmd: '{command}')"))
            }
            TaskEnd::Exited(status) => (
                Level::Warning,
                format!("Process '{pid}' exited with status {status} (partition: '{partition}', cmd: '{command}')"),
            ),
            TaskEnd::Signalled(signal) => (
                Level::Warning,
                format!("Process '{pid}' terminated by signal {signal} (partition: '{partition}', cmd: '{command}')"),
            ),
        };
        self.log.line(Logger::Process, level, &text);
    }

    /// The run is over, and nothing of it is left.
    pub(super) fn ended(&mut self, report: &Report, unread: u64) {
        self.overrun();
        match report.ended {
            Ended::Duration if self.duration != Some(Span::ZERO) => self.log.info("Timed out, stopping all processes"),
            Ended::Signal => self.log.info("Received stop signal (SIGTERM, SIGINT or SIGHUP), stopping all processes"),
            Ended::Command => self.log.info("Received `takt ctl stop`, stopping all processes"),
            Ended::Observer => self.log.error("A file could not be written, stopping all processes"),
            Ended::Exit(task) | Ended::Reaction(task, ..) => {
                let text = format!("Stopping all processes because of '{}'", self.tasks[task.index()].command);
                self.log.error(&text);
            }
            Ended::Duration | Ended::AllExited => {}
        }
        self.log.info("All processes exited, stopping scheduler");
        if report.all_failed && !self.strict {
            self.log.error("Every process failed");
        }
        if let Some(e) = &report.cleanup_error {
            self.log
                .error(&format!("Something of this run could not be removed: {e}; `takt doctor --clean` tries again"));
        }
        for note in report.notes.iter().filter(|note| note.starts_with("CPUs were shared")) {
            self.log.warning(note);
        }
        if unread > 0 {
            self.log.warning(&format!("{unread} messages were dropped, because nobody read standard output"));
        }
        let dropped = self.log.dropped();
        if dropped > 0 {
            self.log.warning(&format!("{dropped} lines of this log were dropped, because nobody read standard error"));
        }
        let stopped = matches!(report.ended, Ended::Exit(_) | Ended::Reaction(..) | Ended::Observer);
        self.failed = stopped || (report.all_failed && !self.strict);
    }

    /// The run did not begin, or was given up.
    fn gave_up(mut self, failure: Failure) -> Outcome {
        if self.duration.is_some() && failure.is(Code::InitFailed) {
            // An initialisation that is not complete at its limit ends the run as `-t` does.
            self.log.warning(failure.text());
            self.log.info("Timed out, stopping all processes");
            return Ok(Verdict::Done);
        }
        Err(told(&mut self.log, failure))
    }
}
