//! Reading a workload, as `check`, `sim` and `run` do it.

use crate::failure::Failure;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::Late;
use takt_core::policy::{Placement, PolicySpec};
use takt_core::time::Span;
use takt_workload::{Diagnostic, Options, Severity, Source, Workload};

/// The workload and what the command line changes about it.
#[derive(clap::Args, Debug)]
pub(crate) struct Input {
    /// Workload: a YAML file (DEmOS configurations load as they are), or a task set in CSV or ChronOS's form
    pub(crate) file: PathBuf,
    /// Policy for the tasks, such as edf, g-edf, p-rm; see `takt policies`
    #[arg(long, value_parser = policy)]
    pub(crate) policy: Option<PolicySpec>,
    /// How a partitioned policy places tasks on CPUs: ff, bf, wf, ffd, bfd or wfd
    #[arg(long, value_parser = placement)]
    pub(crate) placement: Option<Placement>,
    /// Number of CPUs of the machine (CPU 0 to N-1); by default those that the file names, where `cpus` lists their numbers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    pub(crate) cpus: Option<u16>,
    /// Seed of everything that is drawn at random
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// How often a task is there, as in `player=6`, in place of its `copies`; may be given for several tasks
    #[arg(long, value_name = "TASK=N", value_parser = copies)]
    pub(crate) copies: Vec<(String, usize)>,
}

fn copies(text: &str) -> Result<(String, usize), String> {
    let (name, count) = text.rsplit_once('=').ok_or("write the name of a task and a number, as in `player=6`")?;
    let count = count.parse().ok().filter(|n| (1..=takt_workload::MAX_TASKS).contains(n));
    let count = count.ok_or_else(|| format!("the number of copies is from 1 to {}", takt_workload::MAX_TASKS))?;
    Ok((name.to_owned(), count))
}

fn policy(name: &str) -> Result<PolicySpec, String> {
    takt_workload::policy_from_text(name)
}

/// Parses a placement rule of the command line.
pub(crate) fn placement(name: &str) -> Result<Placement, String> {
    let names = || Placement::ALL.map(|(name, _)| name).join(", ");
    Placement::from_name(name).ok_or_else(|| format!("unknown placement; use one of {}", names()))
}

/// What becomes of late jobs, as the command line says it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, Debug)]
pub(crate) enum LateJobs {
    /// They continue
    Continue,
    /// They are aborted at their deadline
    Abort,
    /// They are aborted at the first event after it, as by ChronOS 3.0
    AbortAtEvent,
}

impl From<LateJobs> for Late {
    fn from(rule: LateJobs) -> Late {
        match rule {
            LateJobs::Continue => Late::Continue,
            LateJobs::Abort => Late::Abort,
            LateJobs::AbortAtEvent => Late::AbortAtEvent,
        }
    }
}

/// Parses a duration of the command line.
pub(crate) fn duration(text: &str) -> Result<Span, String> {
    let span = takt_workload::parse_duration(text)?;
    if span > Span::ZERO { Ok(span) } else { Err("a duration must be above zero".into()) }
}

impl Input {
    /// Reads and checks the file. Warnings go to standard error. `machine` is what `all` stands for in a real run.
    pub(crate) fn load(&self, machine: Option<CpuSet>) -> Result<Workload, Failure> {
        let workload = self.load_quietly(machine)?;
        warn(&workload.source, &workload.warnings);
        Ok(workload)
    }

    /// Like [`Input::load`], and keeps the warnings for itself.
    pub(crate) fn load_quietly(&self, machine: Option<CpuSet>) -> Result<Workload, Failure> {
        let source = Source::read(&self.file).map_err(|u| Failure::unreadable(&u))?;
        let mut policy = self.policy;
        if let (Some(spec), Some(placement)) = (&mut policy, self.placement) {
            spec.placement = placement;
        }
        let options =
            Options { cpus: self.cpus.map(usize::from), policy, seed: self.seed, machine, copies: self.copies.clone() };
        let mut workload =
            takt_workload::load(source.clone(), &options).map_err(|f| Failure::diagnostics(&source, &f))?;
        if let Some(placement) = self.placement {
            workload.system.policy.placement = placement;
        }
        Ok(workload)
    }
}

/// Says what is legal but suspicious, on standard error.
pub(crate) fn warn(source: &Source, warnings: &[Diagnostic]) {
    let color = io::stderr().is_terminal();
    for warning in warnings {
        debug_assert!(warning.severity != Severity::Error);
        // A warning that cannot be said must not keep a schedule from running.
        let _ = writeln!(io::stderr(), "{}\n", warning.render(source, color).trim_end());
    }
}
