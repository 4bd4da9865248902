//! The begin of a program, its policies, and its exit status. Both programs have them.

use crate::failure::Failure;
use crate::{commands, cpu_limit, life, outcome};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use takt_core::policy::Registry;
use takt_core::power;
use takt_workload::Code;

/// The version of the package. `cargo xtask deb` builds with `TAKT_VERSION`, which has the commit, too.
pub(crate) const VERSION: &str = match option_env!("TAKT_VERSION") {
    Some(version) if !version.is_empty() => version,
    _ => env!("CARGO_PKG_VERSION"),
};

/// Prepares this process, and carries out its command by `command`, which gets the arguments.
pub(crate) fn start(command: impl FnOnce(Vec<OsString>) -> ExitCode + Send + 'static) -> ExitCode {
    prepare_process();
    takt_linux::environments::have_subcommand();
    let given = life::arguments();
    if let Some(watch) = commands::watch::Args::quick(&given) {
        // It forks, so it has one thread.
        return ended(commands::watch::run(&watch));
    }
    let stack = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    if stack.is_none_or(|stack| stack >= STACK_LEAST) {
        return command(given);
    }
    // The thread lives as long as the process: others depend on the thread that has started them.
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || command(given));
    let done = match thread {
        Ok(thread) => thread.join(),
        Err(e) => {
            let message = format!("the limit of the stack (RLIMIT_STACK) is low, and no thread can be started: {e}");
            let fix = "raise it (`ulimit -s 8192`), or the limit of processes (`ulimit -u`)";
            return Failure::machine(Code::SystemError, message, fix).report();
        }
    };
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A main thread with a smaller stack than this runs the command on a thread with a stack of [`STACK`] bytes.
const STACK_LEAST: u64 = 2 << 20;
const STACK: usize = 8 << 20;

/// Turns limits and streams of this process that would end it, or lose what it prints, into errors of the calls that meet them.
fn prepare_process() {
    // An ignored signal would be ignored by the processes that are started, too; an action is not inherited.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    // Without a descriptor nothing can be opened either, which the command reports.
    let _ = takt_linux::stdio::fail_if_closed();
}

/// The policies of this program.
pub(crate) fn know(registry: Registry, power: power::Registry) {
    assert!(takt_workload::know(registry).is_ok(), "the program has its policies already");
    assert!(takt_workload::know_power(power).is_ok(), "the program has its power policies already");
}

/// The hidden commands that a run starts. Both programs have them.
#[derive(clap::Subcommand)]
pub(crate) enum OfRun {
    #[command(name = "__watch", hide = true)]
    Watch(commands::watch::Args),
    /// Keeps the environments of processes for a run
    #[command(name = "__environments", hide = true)]
    Environments,
    #[command(name = "__start", hide = true)]
    Start(commands::start::Args),
    #[command(name = "__probe", hide = true)]
    Probe(commands::probe::Args),
}

impl OfRun {
    /// Carries out the command.
    pub(crate) fn run(self) -> outcome::Outcome {
        match self {
            OfRun::Watch(args) => commands::watch::run(&args),
            OfRun::Environments => {
                takt_linux::environments::serve().map(|()| outcome::Verdict::Done).map_err(Failure::from)
            }
            OfRun::Start(args) => commands::start::run(&args),
            OfRun::Probe(args) => commands::probe::run(&args),
        }
    }
}

/// The exit status of a command, after its failure was reported.
pub(crate) fn ended(result: outcome::Outcome) -> ExitCode {
    // A line without an end is still in the buffer of standard output.
    let result = result.and_then(|verdict| cpu_limit::reached().map(|()| verdict));
    match result.and_then(|verdict| io::stdout().flush().map(|()| verdict).map_err(Failure::from)) {
        Ok(verdict) => ExitCode::from(verdict as u8),
        Err(failure) => failure.report(),
    }
}
