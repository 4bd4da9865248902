//! `takt check`: is this file good, and is the schedule?

mod power;

use crate::failure::Failure;
use crate::files;
use crate::input::{Input, warn};
use crate::outcome::{Outcome, Verdict};
use crate::processes;
use crate::progress::Progress;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use takt::Answer;
use takt::check::{CheckText, Search};
use takt_core::model::Scope;
use takt_linux::admission::{self, Admission};
use takt_workload::{Class, Driver, Severity, Workload};

/// Validate a workload and say whether it is schedulable, and by which test
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Machine of the schedule: this one, whose CPUs `all` means and whose kernel admits tasks of its classes, or none
    #[arg(long, value_enum, default_value_t = Machine::Here)]
    machine: Machine,
    /// Print the file in its canonical form instead
    #[arg(long)]
    canonical: bool,
    /// Print the CPU of each task even if the policy splits no task; JSON always has it
    #[arg(long, conflicts_with_all = ["canonical", "json"])]
    assignment: bool,
    /// Simulate until a job misses its deadline, and name the job and the first releases. With FILE, also write the workload that misses it; an
    /// existing file is kept
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "canonical")]
    witness: Option<Option<PathBuf>>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "canonical")]
    json: bool,
    /// Report the power management of an imitated machine, whose files are below this directory
    #[arg(long, value_name = "DIR", hide = true)]
    sysfs_root: Option<PathBuf>,
}

/// The machine of a schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Machine {
    /// This one, as `takt run` uses it
    Here,
    /// Another one: `all` is one CPU, unless `--cpus` says more
    None,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let here = args.machine == Machine::Here && !args.canonical;
    let workload = args.input.load(takt_linux::rt::affinity(0).ok().filter(|_| here))?;
    let mut out = io::stdout().lock();
    if args.canonical {
        write!(out, "{}", takt_workload::canonical(&workload))?;
        return Ok(Verdict::Done);
    }
    takt::check::suits(&workload)?;
    not_carried_out(&workload);
    warn(&workload.source, &workload.unbounded_events());
    processes_here(&workload)?;
    let admission = Admitted::of(&workload).filter(|_| here);
    let power = power::Plan::of(&workload, args.sysfs_root.as_deref());
    let tables = !workload.system.windows.is_empty();
    if tables && args.assignment {
        writeln!(out, "note: under a window table the windows say which partition has which CPU")?;
    }
    let progress = if tables { Progress::none() } else { Progress::busy("checking") };
    let check = takt::check::judge(&workload);
    progress.finish();
    let search = args.witness.as_ref().map(|file| witness(&workload, file.as_deref())).transpose()?;
    if args.json {
        let mut object = serde_json::to_value(&check).map_err(io::Error::from)?;
        if let Some(search) = &search {
            object["witness"] = serde_json::to_value(search).map_err(io::Error::from)?;
        }
        if let Some(admission) = &admission {
            object["deadline_class"] = admission.json();
        }
        if let Some(power) = power {
            object["power"] = power.json();
        }
        writeln!(out, "{object}")?;
    } else {
        let mut more = if tables { Vec::new() } else { crate::modules::hashes(&workload.system) };
        more.extend(power.map_or(Vec::new(), |power| power.lines()));
        if here && workload.settings.cpus_from_all && workload.system.policy.scope != Scope::Uniprocessor {
            let cpus = &workload.system.cpus;
            more.push(format!("note: the file names no CPU by number: CPU {cpus} of this machine, as in `takt run`; --machine none takes one CPU"));
        }
        more.extend(admission.as_ref().map(|admission| admission.words.clone()));
        check.print(&CheckText { more, assignment: args.assignment }, &mut out)?;
        if let Some(search) = &search {
            search.print(&mut out)?;
        }
    }
    let refused = check.answer() == Answer::No || admission.is_some_and(|admission| !admission.fits());
    Ok(if refused { Verdict::No } else { Verdict::Done })
}

/// The bandwidth of all tasks of the class `deadline`, and the most that the kernel of this machine admits. Both in millionths of a CPU.
struct Admitted {
    needs: i64,
    admits: i64,
    words: String,
}

impl Admitted {
    fn of(workload: &Workload) -> Option<Admitted> {
        let here = Admission::here()?;
        let tasks = workload.tasks.iter().zip(&workload.system.tasks);
        let tasks = tasks.filter(|(task, _)| task.class == Some(Class::Deadline));
        let mut parts =
            tasks.filter_map(|(_, task)| Some(admission::part(task.runtime?, task.arrival.period()?))).peekable();
        parts.peek()?;
        let (needs, admits) = (parts.sum(), here.admits());
        let verdict = if needs <= admits { "admitted" } else { "NOT ADMITTED" };
        let needed = admission::thousandths(needs);
        let words = format!(
            "SCHED_DEADLINE: {verdict}: tasks of the class `deadline` need {needed} CPUs, and the kernel admits {}",
            here.words()
        );
        Some(Admitted { needs, admits, words })
    }

    fn fits(&self) -> bool {
        self.needs <= self.admits
    }

    fn json(&self) -> Value {
        json!({"admitted": self.fits(), "needs_millionths": self.needs, "admits_millionths": self.admits})
    }
}

/// Searches a job that misses its deadline, and writes its workload.
fn witness(workload: &Workload, file: Option<&Path>) -> Result<Search, Failure> {
    let progress = Progress::busy("simulating");
    let search = takt::check::witness(workload, || true);
    progress.finish();
    let search = search?;
    if let (Some(file), Some(found)) = (file, &search.witness) {
        let text = takt_workload::canonical(&found.workload);
        files::write_new(file, &text, "name another file with `--witness`, or remove this one")?;
    }
    Ok(search)
}

/// A setting that this machine does not have is an error; one that this user may not use is a warning.
fn processes_here(workload: &Workload) -> Result<(), Failure> {
    let (rights, faults): (Vec<_>, Vec<_>) =
        processes::faults(workload).into_iter().partition(processes::Fault::is_missing_right);
    // Another user may run the workload than the one that checks it.
    let mut rights: Vec<_> = rights.iter().map(|fault| fault.diagnostic(workload)).collect();
    rights.iter_mut().for_each(|right| right.severity = Severity::Warning);
    warn(&workload.source, &rights);
    let faults: Vec<_> = faults.iter().map(|fault| fault.diagnostic(workload)).collect();
    if faults.is_empty() { Ok(()) } else { Err(Failure::diagnostics(&workload.source, &faults)) }
}

/// Warns of the keys that `takt run` or `takt sim` does not carry out.
fn not_carried_out(workload: &Workload) {
    let real = workload.tasks.iter().any(|task| task.is_program());
    let mut found = if real { workload.ignored_by(Driver::Run) } else { Vec::new() };
    for simulated in workload.ignored_by(Driver::Simulation) {
        if found.iter().all(|other| other.span != simulated.span) {
            found.push(simulated);
        }
    }
    found.iter_mut().for_each(|finding| finding.severity = Severity::Warning);
    warn(&workload.source, &found);
}
