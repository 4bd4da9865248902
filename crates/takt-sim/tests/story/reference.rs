//! The same machine, written down again as simply as possible: nanosecond by nanosecond, and for runs and sleeps only.

use std::collections::VecDeque;
use takt_core::model::{Arrival, Step, System};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};

struct Job {
    task: usize,
    release: i64,
    rank: i64,
    steps: VecDeque<Step>,
    wakes: i64,
    overhead: i64,
    ran: bool,
    preempted: bool,
}

/// The schedule in each nanosecond, and the completions.
pub(crate) struct Reference {
    pub(crate) runs: Vec<Vec<usize>>,
    pub(crate) completions: Vec<(i64, usize)>,
}

/// Periodic tasks under `g-edf` or `g-fp`, jobs of a task one at a time; costs of context switches and cold caches on one CPU.
pub(crate) fn reference(system: &System, scenario: &Scenario, until: i64) -> Reference {
    let (cpus, edf) = (system.cpus.len(), system.policy.profile.name == "edf");
    let mut jobs: Vec<Job> = vec![];
    let mut told = Reference { runs: vec![], completions: vec![] };
    let mut running: Vec<usize> = vec![];
    let mut last = None;
    for now in 0..=until {
        // A running job that has done its step acts now, whatever is released in the same instant.
        for job in jobs.iter_mut().filter(|job| running.contains(&job.task) && job.ran && job.overhead == 0) {
            sleep(job, now);
        }
        finish(&mut jobs, now, &mut told);
        for (i, task) in system.tasks.iter().enumerate() {
            let Arrival::Periodic { offset, period } = task.arrival else { panic!("only periodic tasks") };
            if now >= offset.ns() && (now - offset.ns()) % period.ns() == 0 {
                jobs.push(Job {
                    task: i,
                    release: now,
                    rank: if edf { now + task.deadline.unwrap().ns() } else { -i64::from(task.priority) },
                    steps: match task.program.steps.is_empty() {
                        true => VecDeque::from([Step::Run(task.runtime.unwrap())]),
                        false => task.program.steps.clone().into(),
                    },
                    wakes: 0,
                    overhead: 0,
                    ran: false,
                    preempted: false,
                });
            }
        }
        if now == until {
            break;
        }
        loop {
            let first = |job: &Job| jobs.iter().all(|o| o.task != job.task || o.release >= job.release);
            let mut ready: Vec<usize> = (0..jobs.len()).filter(|&j| first(&jobs[j]) && jobs[j].wakes <= now).collect();
            ready.sort_by_key(|&j| (jobs[j].rank, jobs[j].release, jobs[j].task));
            ready.truncate(cpus);
            let chosen: Vec<usize> = ready.iter().map(|&j| jobs[j].task).collect();
            for job in jobs.iter_mut().filter(|j| j.ran && running.contains(&j.task) && !chosen.contains(&j.task)) {
                job.preempted = job.wakes <= now && !chosen.is_empty();
            }
            for &j in &ready {
                let job = &mut jobs[j];
                if !running.contains(&job.task) || !job.ran {
                    if last.is_some_and(|last| last != job.task) {
                        job.overhead += scenario.costs.context_switch.ns();
                    }
                    if std::mem::take(&mut job.preempted) {
                        job.overhead += scenario.costs.cache_reload.ns();
                    }
                    last = Some(job.task);
                }
                job.ran = true;
            }
            running = chosen;
            let acted = ready.iter().filter(|&&j| jobs[j].overhead == 0 && sleep(&mut jobs[j], now)).count();
            if acted == 0 {
                ready.iter().filter(|_| !stolen(scenario, now)).for_each(|&j| progress(&mut jobs[j]));
                break;
            }
        }
        let mut runs = running.clone();
        runs.sort_unstable();
        told.runs.push(runs);
    }
    told
}

fn stolen(scenario: &Scenario, now: i64) -> bool {
    scenario.steal.is_some_and(|steal| now % steal.period.ns() < steal.length.ns())
}

/// Begins a sleep if that comes next.
fn sleep(job: &mut Job, now: i64) -> bool {
    let Some(Step::Sleep(span)) = job.steps.front().copied() else { return false };
    job.steps.pop_front();
    job.wakes = now + span.ns();
    true
}

fn progress(job: &mut Job) {
    if job.overhead > 0 {
        job.overhead -= 1;
        return;
    }
    let Some(Step::Run(left)) = job.steps.front_mut() else { panic!("it runs") };
    *left -= Span::from_ns(1);
    if *left == Span::ZERO {
        job.steps.pop_front();
    }
}

fn finish(jobs: &mut Vec<Job>, now: i64, told: &mut Reference) {
    let over = |job: &Job| job.ran && job.steps.is_empty() && job.wakes <= now;
    told.completions.extend(jobs.iter().filter(|j| over(j)).map(|j| (now, j.task)));
    jobs.retain(|j| !over(j));
}

/// The schedule in each nanosecond by the records, and the completions.
pub(crate) fn recorded(records: &[takt_core::record::Record], until: i64) -> Reference {
    use takt_core::record::{Outcome, RecordKind};
    let mut told = Reference { runs: vec![vec![]; until as usize], completions: vec![] };
    let mut since = [None; 32];
    for record in records {
        match record.kind {
            RecordKind::Start { task, .. } => since[task.index()] = Some(record.at),
            RecordKind::Stop { task, .. } => {
                let from = since[task.index()].take().expect("it ran");
                (from.ns()..record.at.ns()).for_each(|ns| told.runs[ns as usize].push(task.index()));
            }
            RecordKind::Finish { task, outcome: Outcome::Completed, .. } => {
                told.completions.push(((record.at - Time::ZERO).ns(), task.index()));
            }
            _ => {}
        }
    }
    told.runs.iter_mut().for_each(|runs| runs.sort_unstable());
    told
}
