//! A simulated job that misses its deadline, as the witness of an answer.

use crate::error::Error;
use crate::simulation::{SimulateOptions, default_length, simulate_while};
use serde::Serialize;
use std::io::{self, Write};
use takt_analysis::densest::{densest, meeting};
use takt_core::model::{Arrival, Task, TaskId};
use takt_core::time::{Span, Time};
use takt_trace::timeline::{Job, Timeline};
use takt_workload::Workload;

/// At most about so many jobs of each behaviour are simulated.
const JOBS: u128 = 1_000_000;

/// The result of [`witness`].
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Search {
    /// The job that misses its deadline, if one was found.
    pub witness: Option<Witness>,
    /// The longest simulated time of a behaviour.
    #[serde(skip)]
    pub length: Span,
}

/// A job that misses its deadline.
#[derive(Clone, Debug, Serialize)]
pub struct Witness {
    /// The simulated behaviour: `as described` by the file, or `densest`, with releases as close as they may be.
    pub releases: &'static str,
    /// The name of its task.
    pub task: String,
    /// Its number, from 0.
    pub job: u64,
    /// Its release.
    pub release_ns: i64,
    /// Its deadline; the end of the activation for one that is cut off without a deadline.
    pub deadline_ns: i64,
    /// The first release of each task, except for events and activations.
    pub offsets: Vec<Offset>,
    /// The workload with this behaviour, which ends at the deadline.
    #[serde(skip)]
    pub workload: Workload,
}

/// The first release of a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Offset {
    /// The name of the task.
    pub task: String,
    /// Its first release.
    pub offset_ns: i64,
}

/// Simulates a workload until a job misses its deadline: as the file describes it, and with releases as close as they may be
/// and jobs as long as declared, from the first releases of the file on and from an instant at which all tasks come together.
/// The limit of each is two hyperperiods, or a million jobs. `proceed` is called now and then, and ends the search when it returns `false`.
///
/// # Errors
/// Those of [`crate::simulate_while`].
pub fn witness(workload: &Workload, mut proceed: impl FnMut() -> bool) -> Result<Search, Error> {
    let described = workload.without_classes();
    let together = meeting(&described.system).filter(|later| later.iter().any(|later| *later > Span::ZERO));
    let together = together.and_then(|later| closest(&described, |index| later[index]));
    let close = closest(&described, |_| Span::ZERO);
    let behaviours = [("densest", close), ("densest", together), ("as described", Some(described))];
    let mut longest = Span::ZERO;
    for (releases, mut workload) in behaviours.into_iter().filter_map(|(name, workload)| Some((name, workload?))) {
        let length = length(&workload);
        longest = longest.max(length);
        let Some((job, at)) = first_miss(&workload, length, &mut proceed)? else { continue };
        workload.settings.duration = Some(at - Time::ZERO);
        let first = |task: &Task| task.arrival.first().map(|first| first.ns());
        let offset = |(index, task): (usize, &Task)| {
            Some(Offset { task: workload.tasks[index].name.clone(), offset_ns: first(task)? })
        };
        let witness = Witness {
            releases,
            task: workload.tasks[job.task.index()].name.clone(),
            job: job.number,
            release_ns: job.release.ns(),
            deadline_ns: at.ns(),
            offsets: workload.system.tasks.iter().enumerate().filter_map(offset).collect(),
            workload,
        };
        return Ok(Search { witness: Some(witness), length });
    }
    Ok(Search { witness: None, length: longest })
}

/// The workload with releases as close as they may be, so much `later` by task, and all jobs as long as declared. `None` if that is the workload itself.
fn closest(workload: &Workload, later: impl Fn(usize) -> Span) -> Option<Workload> {
    let close = densest(&workload.system, &later);
    let apart = |(index, task): (usize, &Task)| match task.arrival {
        Arrival::Event { distance, after: None, .. } if distance > Span::ZERO => {
            let (offset, period, spread) = (later(index), distance, Span::ZERO);
            Some((TaskId(index as u32), Arrival::Sporadic { offset, period, spread }))
        }
        _ => None,
    };
    let mut events: Vec<_> = workload.system.tasks.iter().enumerate().filter_map(apart).collect();
    let others = workload.scenario.events.iter().filter(|(of, _)| events.iter().all(|(task, _)| task != of));
    events.extend(others.cloned().collect::<Vec<_>>());
    events.sort_by_key(|(task, _)| *task);
    if close.is_none() && events == workload.scenario.events {
        return None;
    }
    let mut workload = workload.clone();
    workload.system = close.unwrap_or(workload.system);
    workload.scenario.events = events;
    Some(workload)
}

/// Two hyperperiods after the last first release or listed one, or the time of [`JOBS`] jobs. Without periods, the duration of the file.
fn length(workload: &Workload) -> Span {
    const SCALE: u128 = 1_000_000_000_000_000_000;
    let system = &workload.system;
    let usual = workload.settings.duration.unwrap_or(Span::from_secs(10));
    if !system.windows.is_empty() {
        return usual.min(default_length(system) * 4);
    }
    let periods = || system.tasks.iter().filter_map(|task| task.arrival.period());
    let rate: u128 = periods().map(|period| SCALE / u128::from(period.ns().unsigned_abs().max(1))).sum();
    if rate == 0 {
        return usual;
    }
    let of_jobs = Span::from_ns(i64::try_from(JOBS * SCALE / rate).unwrap_or(i64::MAX).min(i64::MAX / 4));
    let last = |arrival: &Arrival| match arrival {
        Arrival::Listed { instants } => instants.last().copied(),
        arrival => arrival.first().map(|first| first - Time::ZERO),
    };
    let planned = workload.scenario.events.iter().map(|(_, arrival)| arrival);
    let last = system.tasks.iter().map(|task| &task.arrival).chain(planned).filter_map(last).max();
    let last = last.unwrap_or(Span::ZERO);
    let hyperperiod = periods().try_fold(Span::from_ns(1), |all, period| all.lcm(period).filter(|all| *all < of_jobs));
    hyperperiod.map_or(of_jobs, |hyperperiod| of_jobs.min(hyperperiod * 2 + last))
}

/// The job whose miss comes first, and its instant. The simulated time is doubled until there is one.
fn first_miss(
    workload: &Workload,
    length: Span,
    proceed: &mut impl FnMut() -> bool,
) -> Result<Option<(Job, Time)>, Error> {
    let longest = workload.system.tasks.iter().filter_map(|task| task.deadline.or(task.arrival.period())).max();
    let mut part = longest.unwrap_or(length).max(Span::from_ns(1)).min(length);
    loop {
        let options = SimulateOptions { duration: Some(part), ..SimulateOptions::default() };
        let simulation = simulate_while(workload, &options, |_| proceed())?;
        if simulation.counts.iter().any(|counts| counts.missed + counts.cut_off > 0) {
            let options = SimulateOptions { trace: true, ..options };
            let trace = simulate_while(workload, &options, |_| proceed())?.trace;
            let line = trace.as_ref().map(Timeline::of);
            let missed = line.iter().flat_map(|line| {
                let missed = line.jobs.iter().flatten().filter(|job| job.missed(line.end));
                missed.filter_map(|job| Some((*job, job.deadline.or(job.over())?)))
            });
            return Ok(missed.min_by_key(|(job, at)| (*at, job.task)));
        }
        if part == length {
            return Ok(None);
        }
        part = (part * 2).min(length);
    }
}

impl Search {
    /// Writes the text of `takt check --witness`.
    ///
    /// # Errors
    /// Those of the output.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(found) = &self.witness else {
            return writeln!(out, "witness: no job misses its deadline in a simulation of {}", self.length);
        };
        let how = match found.releases {
            "densest" => "with releases as close as they may be",
            _ => "with the releases of the file",
        };
        let [release, deadline] = [found.release_ns, found.deadline_ns].map(Span::from_ns);
        let (task, job) = (&found.task, found.job);
        writeln!(out, "witness: {task}#{job}, released at {release}, misses its deadline at {deadline}, {how}")?;
        let later: Vec<String> = (found.offsets.iter().filter(|offset| offset.offset_ns != 0))
            .map(|offset| format!("{} {}", offset.task, Span::from_ns(offset.offset_ns)))
            .collect();
        if later.is_empty() {
            return writeln!(out, "  first releases: all tasks at 0s");
        }
        let rest = if later.len() < found.offsets.len() { ", all others at 0s" } else { "" };
        writeln!(out, "  first releases: {}{rest}", later.join(", "))
    }
}
