//! `takt measure`: measured runtimes, written into a copy of the workload.

use super::trace::{self, Original};
use crate::failure::Failure;
use crate::files;
use crate::input::warn;
use crate::outcome::{Outcome, Verdict};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use takt::report::table;
use takt_core::model::{Task, TaskId};
use takt_core::time::Span;
use takt_trace::{Trace, execution_times};
use takt_workload::{Code, Diagnostic, Source, Workload, duration_text, with_runtimes};

/// Write measured runtimes into a copy of a workload
///
/// The `runtime` of a task becomes the maximum of the execution times of its completed jobs, or a quantile of them. Comments and layout of the file
/// stay. The copies of a task have one runtime, the largest one. A job is not counted if its program was also at the work of an aborted job.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A .jsonl or .csv trace of a run of the workload
    trace: PathBuf,
    /// The workload in YAML; by default the file that the trace names
    file: Option<PathBuf>,
    /// File to write; by default beside FILE, with the ending .measured.yaml. An existing file is kept. Names of files in it are relative to its
    /// directory
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Quantile of the execution times in place of their maximum, such as 0.99 or 99%
    #[arg(long, value_name = "Q", value_parser = quantile, default_value = "1")]
    quantile: u64,
    /// Keep the runtime of a task that has no measured job
    #[arg(long)]
    keep: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One, in the unit of quantiles.
const WHOLE: u64 = 1_000_000;

fn quantile(text: &str) -> Result<u64, String> {
    let value = takt_workload::parse_ratio(text)?;
    let within = u64::try_from(value).ok().filter(|q| (1..=WHOLE).contains(q));
    within.ok_or_else(|| format!("`{text}` is no quantile: a number above 0 and at most 1, such as 0.99 or 99%"))
}

/// The smallest of these times that is not exceeded by this part of them; none of none.
fn at_quantile(mut times: Vec<Span>, quantile: u64) -> Option<Span> {
    times.sort_unstable();
    let rank = (times.len() as u128 * u128::from(quantile)).div_ceil(u128::from(WHOLE));
    times.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied()
}

/// The measured jobs of a task.
struct Measured {
    jobs: usize,
    /// Nothing if the runtime of the file is kept.
    runtime: Option<Span>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let trace = trace::read(&args.trace)?;
    let named = PathBuf::from(&trace.header.workload);
    let file = args.file.as_ref().unwrap_or(&named);
    let Original { workload, input, machine } = trace::original(&trace, file)?;
    let source = &workload.source;
    if !source.states_priorities() {
        let message = format!("`{}` is not in YAML, so it has no place for a `runtime`", source.name);
        let hint = format!("`takt check {} --canonical` prints it as YAML", takt_workload::shell_word(&source.name));
        return Err(Failure::input(Code::WrongFormat, message, &hint));
    }
    let measured = measured(&trace, &workload, args)?;
    let values =
        measured.iter().enumerate().filter_map(|(task, m)| Some((workload.place(TaskId(task as u32)), m.runtime?)));
    let text = with_runtimes(&source.text, &values.collect::<Vec<_>>())
        .map_err(|fault| Failure::diagnostics(source, &[*fault]))?;
    let usual = file.with_extension("measured.yaml");
    let output = args.output.as_deref().unwrap_or(&usual);
    // Names of files in it are relative to its directory.
    let copy = Source { name: output.display().to_string(), text };
    let mut new = input.load_source(&copy, Some(machine))?;
    agree(&workload, &new, &measured)?;
    files::write_new(output, &copy.text, "name another file with `--output`, or remove this one")?;
    // The others were reported with the file.
    new.warnings.retain(|warning| workload.warnings.iter().all(|known| known.message != warning.message));
    warn(&copy, &new.warnings);
    print(args, &workload, &new, &measured, output)
}

/// The measured runtimes of all tasks of the workload.
fn measured(trace: &Trace, workload: &Workload, args: &Args) -> Result<Vec<Measured>, Failure> {
    let times = execution_times(trace).into_iter().take(workload.tasks.len());
    let measured: Vec<Measured> =
        times.map(|times| Measured { jobs: times.len(), runtime: at_quantile(times, args.quantile) }).collect();
    let missing = |(task, measured): (usize, &Measured)| {
        measured.runtime.is_none().then(|| {
            let message =
                format!("task `{}` has no measured job in `{}`", workload.tasks[task].name, args.trace.display());
            let fault = Diagnostic::error(Code::NotMeasured, &workload.place(TaskId(task as u32)), message);
            fault.hint("record a longer run whose jobs complete, or keep the runtime of the file with `--keep`")
        })
    };
    let faults: Vec<Diagnostic> =
        measured.iter().enumerate().filter_map(missing).take(takt_workload::MAX_DIAGNOSTICS).collect();
    if !faults.is_empty() && !args.keep {
        return Err(Failure::diagnostics(&workload.source, &faults));
    }
    if measured.iter().all(|m| m.runtime.is_none()) {
        let message = format!("no task has a measured job in `{}`", args.trace.display());
        return Err(Failure::input(Code::NotMeasured, message, "record a longer run whose jobs complete"));
    }
    Ok(measured)
}

/// Refuses a copy that differs from the file in more than its runtimes, as when a value that an alias names has changed.
fn agree(workload: &Workload, new: &Workload, measured: &[Measured]) -> Result<(), Failure> {
    let plain = |task: &Task| Task { runtime: None, ..task.clone() };
    let tasks = workload.system.tasks.iter().zip(&new.system.tasks).zip(measured);
    let is_same = |((old, new), m): ((&Task, &Task), &Measured)| {
        plain(old) == plain(new) && m.runtime.map_or(new.runtime == old.runtime, |least| new.runtime >= Some(least))
    };
    let other = tasks.enumerate().find(|(_, task)| !is_same(*task)).map(|(task, _)| TaskId(task as u32));
    match other {
        None if workload.tasks == new.tasks => Ok(()),
        task => {
            let message = "another value changes with the runtime";
            Err(Failure::at(
                Code::NotSupportedHere,
                workload,
                task,
                message,
                "write the values of this task without anchors and aliases",
            ))
        }
    }
}

fn print(args: &Args, workload: &Workload, new: &Workload, measured: &[Measured], output: &Path) -> Outcome {
    let mut out = io::stdout().lock();
    let all = || workload.tasks.iter().zip(measured).zip(workload.system.tasks.iter().zip(&new.system.tasks));
    if args.json {
        let task = |((info, m), (old, new)): ((&takt_workload::TaskInfo, &Measured), (&Task, &Task))| {
            json!({"task": info.name, "jobs": m.jobs, "measured_ns": m.runtime.map(Span::ns),
                "before_ns": old.runtime.map(Span::ns), "runtime_ns": new.runtime.map(Span::ns)})
        };
        let tasks: Vec<_> = all().map(task).collect();
        writeln!(out, "{}", json!({"output": output.display().to_string(), "tasks": tasks}))?;
        return Ok(Verdict::Done);
    }
    let text = |span: Option<Span>| span.map_or_else(|| "-".to_owned(), duration_text);
    let mut rows = vec![["task", "jobs", "runtime before", "runtime"].map(String::from).to_vec()];
    rows.extend(all().map(|((info, m), (old, new))| {
        vec![info.name.clone(), m.jobs.to_string(), text(old.runtime), text(new.runtime)]
    }));
    table(&mut out, &rows)?;
    writeln!(out, "written: {}", takt::report::visible(&output.display().to_string()))?;
    Ok(Verdict::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let times = || (1..=10).rev().map(Span::from_ms).collect::<Vec<_>>();
        let at = |q| at_quantile(times(), q).map(|span| span.ns() / 1_000_000);
        assert_eq!([1, 100_000, 100_001, 500_000, 990_000, WHOLE].map(at), [1, 1, 2, 5, 10, 10].map(Some));
        assert_eq!(at_quantile(Vec::new(), WHOLE), None);
        assert_eq!((quantile("99%"), quantile("1")), (Ok(990_000), Ok(WHOLE)));
        assert!(["0", "1.1", "-1", "x", "101%"].iter().all(|text| quantile(text).is_err()));
    }
}
