//! `takt trace why`: the response of one job, divided by its causes.

use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use serde_json::json;
use std::io::Write;
use takt::report::{Cell, aligned, percent, short};
use takt_core::model::TaskId;
use takt_core::record::JobId;
use takt_core::time::{Span, Time};
use takt_trace::Trace;
use takt_trace::jobs::outcome_name;
use takt_trace::why::{Causes, Why};
use takt_workload::Code;

/// Prints the parts of the response of a job that is named `TASK#JOB`.
pub(super) fn explain(trace: &Trace, name: &str, as_json: bool, out: &mut impl Write) -> Outcome {
    let labels = trace.header.labels();
    let (task, job) = find(name, &labels)?;
    let causes = Causes::of(trace);
    let Some(why) = causes.why(task, job) else {
        let jobs = &causes.timeline().jobs[task.index()];
        let label = &labels[task.index()];
        let hint = match (jobs.first(), jobs.last()) {
            (Some(first), Some(last)) => {
                format!("the trace has the jobs {} to {} of `{label}`", first.number, last.number)
            }
            _ => format!("the trace has no job of `{label}`"),
        };
        return Err(Failure::input(Code::UnknownName, format!("the trace has no job `{name}`"), &hint));
    };
    if as_json {
        let part = |part: &takt_trace::why::Part| {
            let mut object = json!({"cause": part.cause.name(), "time_ns": part.time.ns()});
            if let Some(task) = part.cause.task() {
                object["task"] = labels[task.index()].as_str().into();
            }
            if let takt_trace::why::Cause::Blocking { resource, .. } = part.cause {
                object["resource"] = trace.header.resource(resource).into();
            }
            object
        };
        let parts: Vec<_> = why.parts.iter().map(part).collect();
        let object = json!({"task": labels[task.index()], "job": job, "release_ns": why.job.release.ns(),
            "deadline_ns": why.job.deadline.map(Time::ns), "end_ns": why.end.ns(), "outcome": outcome_name(&why.job),
            "missed": why.missed, "continues": why.job.continues, "response_ns": why.response().ns(), "parts": parts});
        writeln!(out, "{object}")?;
        return Ok(Verdict::Done);
    }
    print(trace, &labels, &why, out)?;
    Ok(Verdict::Done)
}

fn print(trace: &Trace, labels: &[String], why: &Why, out: &mut impl Write) -> std::io::Result<()> {
    let job = &why.job;
    let late = job.deadline.map(|deadline| why.end - deadline).filter(|late| *late > Span::ZERO);
    let verdict = match (job.continues, why.missed, late, job.deadline) {
        (Some(first), ..) => {
            format!("missed: it continues {}#{first}, which was cut off", labels[job.task.index()])
        }
        (_, true, Some(late), _) => format!("missed its deadline by {}", short(late)),
        (_, true, None, _) => "missed".into(),
        (_, false, _, Some(deadline)) if job.finish.is_some() => {
            format!("met its deadline, slack {}", short(deadline - why.end))
        }
        (_, false, ..) => "has missed no deadline".into(),
    };
    let label = takt::report::visible(&labels[job.task.index()]);
    writeln!(out, "{label}#{}: {}", job.number, takt::report::visible(&verdict))?;
    let at = |at: Time| short(at - Time::ZERO);
    let deadline = job.deadline.map_or(String::new(), |deadline| format!(", deadline {}", at(deadline)));
    let end = match job.finish {
        Some(_) => format!("{} {}", outcome_name(job).replace('_', " "), at(why.end)),
        None => format!("not over at the end of the trace, {}", at(why.end)),
    };
    writeln!(out, "released {}{deadline}, {end}\n", at(job.release))?;
    let response = why.response();
    let share = |time: Span| percent((i128::from(time.ns()) * 1_000_000 / i128::from(response.ns().max(1))) as i64);
    let mut rows = vec![["time", "share", "cause"].map(Cell::from).to_vec()];
    for part in &why.parts {
        rows.push(vec![Cell::Exact(part.time), share(part.time).into(), part.cause.describe(trace, labels).into()]);
    }
    rows.push(vec![Cell::Exact(response), share(response).into(), "response".into()]);
    aligned(out, &rows, |column| column == 2)?;
    match &trace.header.tasks[job.task.index()].class {
        Some(class) => writeln!(
            out,
            "note: the kernel schedules this task ({class}); its own work contains the time in which it waited for a CPU"
        ),
        None => Ok(()),
    }
}

/// The task and the number in `TASK#JOB`.
fn find(name: &str, labels: &[String]) -> Result<(TaskId, JobId), Failure> {
    let parts = name.rsplit_once('#').and_then(|(task, job)| Some((task, job.parse::<JobId>().ok()?)));
    let Some((task, job)) = parts else {
        let hint = "write the task's name, `#` and the number of the job, as in `camera#3`";
        return Err(Failure::input(Code::UnknownName, format!("`{name}` names no job"), hint));
    };
    match labels.iter().position(|label| label == task) {
        Some(index) => Ok((TaskId(index as u32), job)),
        None => {
            let near = takt_workload::nearest(task, labels.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}#{job}`?"),
                None => "`takt trace show` lists the tasks".into(),
            };
            Err(Failure::input(Code::UnknownName, format!("the trace has no task `{task}`"), &hint))
        }
    }
}
