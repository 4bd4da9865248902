//! The named values of keys, as a file writes them, with what each stands for. The reader takes them, and [`keys`](crate::keys) lists them.

use crate::process::{Class, Observed, Spawn};
use crate::settings::{Client, Descriptors, Dispatch, MissingCpus, OnCrash, Realtime};
use takt_core::model::{Backlog, BestEffortStart, Completion, Late, Locking, OnAbort, OnExit, TableRules};
use takt_core::scenario::Deciding;

/// The words of named values.
pub(crate) const fn words<T: Copy, const N: usize>(named: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = named[at].0;
        at += 1;
    }
    words
}

pub(crate) const LATE: [(&str, Late); 3] =
    [("continue", Late::Continue), ("abort", Late::Abort), ("abort-at-event", Late::AbortAtEvent)];

/// ChronOS's words for its two models of global scheduling, and short ones.
pub(crate) const DECIDING: [(&str, Deciding); 4] = [
    ("one", Deciding::StopTheWorld),
    ("each", Deciding::Concurrent),
    ("stop-the-world", Deciding::StopTheWorld),
    ("concurrent", Deciding::Concurrent),
];

pub(crate) const BACKLOG: [(&str, Backlog); 2] = [("queue", Backlog::Queue), ("skip", Backlog::Skip)];

pub(crate) const PRESET: [(&str, Backlog); 2] = [("chronos", Backlog::Chronos), ("hartstone", Backlog::Hartstone)];

pub(crate) const LOCKING: [(&str, Locking); 3] =
    [("fifo", Locking::Fifo), ("inheritance", Locking::Inheritance), ("ceiling", Locking::Ceiling)];

pub(crate) const BE_START: [(&str, BestEffortStart); 2] =
    [("all", BestEffortStart::AllDone), ("slice", BestEffortStart::SliceDone)];

pub(crate) const REALTIME: [(&str, Realtime); 3] =
    [("auto", Realtime::Auto), ("yes", Realtime::Yes), ("no", Realtime::No)];

pub(crate) const DISPATCH: [(&str, Dispatch); 3] =
    [("freeze", Dispatch::Freeze), ("priority", Dispatch::Priority), ("rank", Dispatch::Rank)];

pub(crate) const RULES: [(&str, TableRules); 2] = [("takt", TableRules::Takt), ("demos", TableRules::Demos)];

pub(crate) const MISSING_CPUS: [(&str, MissingCpus); 2] =
    [("refuse", MissingCpus::Refuse), ("remap", MissingCpus::Remap)];

pub(crate) const DESCRIPTORS: [(&str, Descriptors); 2] = [("many", Descriptors::Many), ("few", Descriptors::Few)];

pub(crate) const ON_CRASH: [(&str, OnCrash); 2] = [("kill", OnCrash::Kill), ("release", OnCrash::Release)];

/// Whether a process is given what a client of the scheduler needs.
pub(crate) const CLIENT: [(&str, Client); 2] = [("auto", Client::Auto), ("none", Client::None)];

pub(crate) const COMPLETION: [(&str, (Completion, Option<Observed>)); 5] = [
    ("signal", (Completion::Signal, None)),
    ("yield", (Completion::Signal, Some(Observed::Yield))),
    ("sleep", (Completion::Signal, Some(Observed::Sleep))),
    ("exit", (Completion::Exit, None)),
    ("none", (Completion::None, None)),
];

pub(crate) const ON_EXIT: [(&str, OnExit); 3] =
    [("end", OnExit::End), ("restart", OnExit::Restart), ("stop", OnExit::Stop)];

pub(crate) const SPAWN: [(&str, Spawn); 2] = [("once", Spawn::Once), ("per-job", Spawn::PerJob)];

pub(crate) const ON_ABORT: [(&str, OnAbort); 3] =
    [("finish", OnAbort::Finish), ("restart", OnAbort::Restart), ("signal", OnAbort::Signal)];

/// The priority of `class: fifo` without a number, which is also that of Takt's own processes.
const FIFO: u8 = 10;

pub(crate) const CLASS: [(&str, Class); 3] =
    [("deadline", Class::Deadline), ("fifo", Class::Fifo(FIFO)), ("other", Class::Other)];

/// A reaction without its signal or command.
#[derive(Clone, Copy)]
pub(crate) enum React {
    Log,
    Signal,
    Stop,
}

pub(crate) const REACTION: [(&str, React); 3] = [("log", React::Log), ("signal", React::Signal), ("stop", React::Stop)];

/// Signals that a program can handle and that mean nothing to Takt.
pub(crate) const SIGNALS_TO_PROGRAMS: [&str; 10] =
    ["USR1", "USR2", "HUP", "INT", "QUIT", "ALRM", "TERM", "URG", "IO", "WINCH"];

/// Signals to `takt run` that do not end a run, and that mean nothing to Takt.
pub(crate) const SIGNALS_TO_RUNS: [&str; 6] = ["USR1", "USR2", "ALRM", "URG", "IO", "WINCH"];

/// The limits of `setrlimit`, by their names in `prlimit`.
pub const LIMITS: [&str; 14] = [
    "as",
    "core",
    "cpu",
    "data",
    "fsize",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

/// The limits that count bytes, and take a unit.
pub const LIMITS_IN_BYTES: [&str; 6] = ["as", "core", "data", "fsize", "memlock", "stack"];

/// The energy performance preferences that Linux has names for (admin-guide/pm/intel_pstate and amd-pstate).
pub(crate) const PREFERENCES: [&str; 5] = ["performance", "balance_performance", "default", "balance_power", "power"];
