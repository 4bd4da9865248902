//! Why jobs of a run missed their deadlines: by what the machine did, or by what their programs needed.

use serde_json::{Value, json};
use takt::report::short;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Task};
use takt_core::record::JobId;
use takt_core::stats::Counts;
use takt_core::time::Span;
use takt_core::work::Work;
use takt_exec::{Blocking, Report, TaskEnd};
use takt_workload::{Observed, TaskInfo, Workload};

/// A job without a budget may use so many hundredths more than its runtime before it is named.
const TOLERANCE: i64 = 10;

/// How long the task's processes waited for a CPU while they had one assigned, the CPU time that they used, the most that one of its
/// jobs used, the parts of its response times, and how they ended.
pub(super) fn of_task(report: &Report, task: usize) -> Value {
    let most = report.most_used[task].map(|(_, used)| used.ns());
    let parts = parts(report, task).map(|[running, waiting, blocked]| {
        json!({"running": running.ns(), "waiting": waiting.ns(), "blocked": blocked.ns()})
    });
    json!({"waited_ns": report.waited[task].map(Span::ns), "most_used_ns": most,
           "cpu_ns": report.cpu_time[task].map(Span::ns), "response_parts_ns": parts,
           "ended": report.ends[task].filter(|_| report.gone[task]).map(|end| end == TaskEnd::Exited(0)),
           "failures": report.failures_of[task], "restarts": report.replaced[task],
           "floods": report.floods[task], "event_floods": report.event_floods[task]})
}

/// The mean response time of a task's completed jobs in its parts: running, waiting and blocked. `None` where blocking is not observed: a sleep
/// would count as running.
fn parts(report: &Report, task: usize) -> Option<[Span; 3]> {
    if matches!(report.blocking, Blocking::Unavailable(_) | Blocking::NotFollowed) {
        return None;
    }
    let (parts, jobs) = report.spent[task]?;
    let [running, blocked] = [parts.running, parts.blocked].map(|sum| sum / jobs as i64);
    Some([running, (report.responses[task].mean() - running - blocked).or_zero(), blocked])
}

/// Tasks whose jobs were blocked for at least a tenth of their mean response times, with the parts of these. A wait for a page is shorter.
pub(super) fn blocked(workload: &Workload, report: &Report) -> Vec<String> {
    let told = |(index, task): (usize, &TaskInfo)| {
        let mean = report.responses[index].mean();
        let blocks = |[.., blocked]: &[Span; 3]| *blocked > Span::ZERO && *blocked * 10 >= mean;
        let [running, waiting, blocked] = parts(report, index).filter(blocks)?;
        let mean = short(mean);
        let [running, waiting, blocked] = [running, waiting, blocked].map(short);
        let arrival = &workload.system.tasks[index].arrival;
        let by_clock = matches!(arrival, Arrival::Periodic { .. } | Arrival::Sporadic { .. });
        let by_clock = by_clock && task.observed == Some(Observed::Sleep);
        let sleeps = by_clock && report.counts[index].missed > 0;
        let fix = if sleeps { " (fix: release its jobs when its sleeps are over, by `event: wakeup`)" } else { "" };
        Some(format!(
            "the mean response time of {}, {mean}, is {running} running, {waiting} waiting, {blocked} blocked{fix}",
            task.name
        ))
    };
    workload.tasks.iter().enumerate().filter_map(told).collect()
}

/// Possible causes of missed deadlines: the effects of the machine on the run, whether or not there were misses, and tasks that
/// needed more than they said, if there were.
pub(super) fn of_misses(workload: &Workload, report: &Report, realtime: bool) -> Vec<String> {
    let mut found = disturbances(workload, report);
    found.extend(throttled(workload, report, realtime));
    if report.counts.iter().any(|counts| counts.missed > 0) {
        found.extend(needy(workload, &report.most_used, &report.counts));
        found.extend(silent(workload, report));
    }
    found
}

/// Tasks of an online policy with at least two missed jobs, of which none was completed by a program that still runs. One that never had a CPU may signal.
fn silent(workload: &Workload, report: &Report) -> Vec<String> {
    if !workload.system.windows.is_empty() {
        return Vec::new();
    }
    let silent = |index: usize| {
        let (info, counts) = (&workload.tasks[index], &report.counts[index]);
        let runs = info.is_program() && info.class.is_none() && !report.gone[index] && report.replaced[index] == 0;
        (runs && info.observed.is_none() && counts.completed == 0 && counts.missed > 1 && counts.dispatches > 0)
            .then_some(info.name.as_str())
    };
    let names: Vec<&str> = (0..workload.tasks.len()).filter_map(silent).collect();
    let [first, others @ ..] = names.as_slice() else { return Vec::new() };
    let more = match others.len() {
        0 => String::new(),
        1 => " and of one more task".to_owned(),
        n => format!(" and of {n} more tasks"),
    };
    vec![format!(
        "no job of {first}{more} was completed: a program signals the end of each job (`takt_next_job`, `takt done`), or its sleep or yield ends the job \
         (fix: see docs/programs.md, or add `completion: sleep` or `completion: yield`)"
    )]
}

/// The effects of the machine on the run, as far as they can explain that a deadline is missed: at least a hundredth of the CPU time, or a
/// tenth of the shortest deadline or window.
fn disturbances(workload: &Workload, report: &Report) -> Vec<String> {
    let (system, hundredth) = (&workload.system, report.length.ns() / 100);
    let mut found = Vec::new();
    let percent = |span: Span, of: i64| format!("{} %", span.ns().saturating_mul(100) / of.max(1));
    let machine = workload.machine();
    let cpus = machine.len() as i64;
    if let Some(stolen) = report.stolen.filter(|stolen| stolen.ns() > hundredth * cpus) {
        let part = percent(stolen, report.length.ns() * cpus);
        found.push(format!("the host of this machine took {} of CPU {} away (steal), {part}", short(stolen), machine));
    }
    // The kernel lets its own tasks wait by design.
    let waited = workload.tasks.iter().zip(&report.waited).filter(|(task, _)| task.class.is_none());
    let mut waited: Vec<(Span, &str)> = waited.filter_map(|(task, w)| w.map(|w| (w, task.name.as_str()))).collect();
    waited.retain(|(waited, _)| waited.ns() > hundredth);
    waited.sort_by_key(|(waited, _)| std::cmp::Reverse(*waited));
    if let [(most, who), others @ ..] = waited.as_slice() {
        let others = match others.len() {
            0 => String::new(),
            1 => ", and one more task waited, too".to_owned(),
            n => format!(", and {n} more tasks waited, too"),
        };
        found.push(format!(
            "{who} waited {} for a CPU in its activations, because another process or a child of its own had it{others}",
            short(*most)
        ));
    }
    let deadlines = system.tasks.iter().filter_map(|task| task.deadline);
    let shortest = deadlines.chain(system.windows.iter().map(|window| window.length)).min();
    let (late, effort) = (report.lateness.max(), report.effort.max());
    if let Some(shortest) = shortest.filter(|shortest| late.max(effort) >= *shortest / 10) {
        let what = if late >= effort { "the scheduler came" } else { "stopping and starting processes took" };
        let how = if late >= effort { " too late" } else { "" };
        let of = if system.windows.is_empty() { "deadline" } else { "window or deadline" };
        found.push(format!("{what} up to {}{how}; the shortest {of} is {shortest}", short(late.max(effort))));
    }
    found
}

/// The kernel probably throttled the real-time processes, which it does not report. Those of one CPU, or of all CPUs together, then used and
/// waited for nearly what real-time classes get of it.
fn throttled(workload: &Workload, report: &Report, realtime: bool) -> Option<String> {
    let (Some(runtime), period) = takt_linux::rt::throttle().ok().filter(|_| realtime)? else { return None };
    let (system, machine) = (&workload.system, workload.machine());
    let single = machine.iter().map(CpuSet::single).filter(|_| system.windows.is_empty());
    single.chain([machine]).find_map(|cpus| {
        let on = |task: &Task| cpus == machine || task.affinity.intersection(&machine) == cpus;
        // The kernel schedules the others.
        let own = || system.tasks.iter().zip(&workload.tasks).map(|(task, info)| on(task) && info.class.is_none());
        let sum = |times: &[Option<Span>]| {
            let of = times.iter().zip(own()).filter(|(_, counts)| *counts).filter_map(|(time, _)| *time);
            of.reduce(|sum, time| sum + time)
        };
        let (used, waited) = (sum(&report.cpu_time)?, sum(&report.waited));
        let percent = |part: Span, of: Span| part.ns().saturating_mul(100) / of.ns().max(1);
        let whole = report.length * cpus.len() as i64;
        let waits = waited.map_or_else(String::new, |waited| format!(" and waited {} %", percent(waited, whole)));
        (report.length >= period && is_cut(used, waited, whole, (runtime, period))).then(|| {
            format!(
                "real-time throttling probably cut the supply: the processes of CPU {cpus} used {} % of it{waits}, and Linux gives real-time \
                 classes {} % ({runtime} of every {period}); see `takt doctor`",
                percent(used, whole),
                percent(runtime, period)
            )
        })
    })
}

/// Whether processes used and waited for at least 98 % of what real-time classes get of `whole`, and waited for at least half of one cut where that
/// is measured.
fn is_cut(used: Span, waited: Option<Span>, whole: Span, (runtime, period): (Span, Span)) -> bool {
    let supply = i128::from(whole.ns()) * i128::from(runtime.ns()) / i128::from(period.ns().max(1));
    let wanted = used + waited.unwrap_or(Span::ZERO);
    i128::from(wanted.ns()) * 100 >= supply * 98 && waited.is_none_or(|waited| waited * 2 >= period - runtime)
}

/// Tasks whose jobs used more CPU time than was declared or reserved for them, and the other tasks that missed deadlines.
fn needy(workload: &Workload, most_used: &[Option<(JobId, Work)>], counts: &[Counts]) -> Vec<String> {
    let policy = workload.policy();
    let by_policy = policy.reservations().is_some() || policy.servers().is_some();
    let tasks = workload.tasks.iter().zip(&workload.system.tasks).zip(most_used);
    let needy = |((info, task), most): ((&TaskInfo, &Task), &Option<(JobId, Work)>)| {
        let (job, used) = (*most)?;
        let used = used.nominal_time();
        // A budget takes account of any excess. Without one, small ones are those of the program's start and end of a job.
        let tolerance = if by_policy || task.budget.is_some() { 0 } else { TOLERANCE };
        let (what, most) = match (task.runtime, task.reservation) {
            (Some(runtime), _) => ("`runtime`", runtime),
            (None, Some(reservation)) => ("`reservation`", reservation.budget),
            (None, None) => return None,
        };
        let starts = job == 0 && !info.init;
        let first = if starts { ", with the start of its program (see `init:`)" } else { "" };
        let text = format!("job {job} of {} used {} of CPU time{first}; its {what} is {most}", info.name, short(used));
        (used > most + most / 100 * tolerance).then(|| (info.name.clone(), text, starts))
    };
    let mut found: Vec<(String, String, bool)> = tasks.filter_map(needy).collect();
    // The start of a program happens once, and other jobs that need too much are the likelier cause.
    if found.iter().any(|(_, _, starts)| !starts) {
        found.retain(|(_, _, starts)| !starts);
    }
    let missed = workload.tasks.iter().zip(counts).filter(|(_, counts)| counts.missed > 0);
    let missed = missed.map(|(info, _)| info.name.as_str()).filter(|name| found.iter().all(|(own, _, _)| own != name));
    let suffered = match missed.collect::<Vec<_>>().as_slice() {
        [] => String::new(),
        [only] => format!("; {only} missed deadlines"),
        [first, second] => format!("; {first} and {second} missed deadlines"),
        [first, others @ ..] => format!("; {first} and {} more tasks missed deadlines", others.len()),
    };
    if let Some((_, last, _)) = found.last_mut() {
        last.push_str(&suffered);
    }
    found.into_iter().map(|(_, text, _)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_used_more_than_its_runtime_is_named_with_the_tasks_that_missed() {
        let load = |policy: &str| {
            let text = format!(
                "policy: {policy}\ncpus: 0\ntasks:\n- {{name: greedy, cmd: x, init: yes, period: 100ms, runtime: 12ms}}\n\
                 - {{name: control, cmd: x, init: yes, period: 100ms, runtime: 8ms}}\n"
            );
            let source = takt_workload::Source { name: "w.yaml".into(), text };
            takt_workload::load(source, &takt_workload::Options::default()).expect("a workload")
        };
        let used = |ms| Some((3, Work::nominal(Span::from_us(ms))));
        let missed = |missed| Counts { missed, ..Counts::default() };
        let (edf, cbs) = (load("edf"), load("cbs"));
        assert_eq!(
            needy(&edf, &[used(47_000), used(8_000)], &[missed(0), missed(5)]),
            ["job 3 of greedy used 47.00ms of CPU time; its `runtime` is 12ms; control missed deadlines"]
        );
        // The work of a program before and after its job is no cause.
        assert!(needy(&edf, &[used(12_100), used(8_700)], &[missed(0), missed(5)]).is_empty());
        assert_eq!(needy(&cbs, &[used(12_100), used(8_000)], &[missed(5), missed(0)]).len(), 1, "a budget is exceeded");
        assert!(needy(&edf, &[None, None], &[missed(5), missed(5)]).is_empty());
        // The first job of a program without `init` has its start.
        let started =
            load("edf\nseed: 2").source.text.replacen("name: control, cmd: x, init: yes", "name: control, cmd: x", 1);
        let source = takt_workload::Source { name: "w.yaml".into(), text: started };
        let started = takt_workload::load(source, &takt_workload::Options::default()).expect("a workload");
        let first = Some((0, Work::nominal(Span::from_ms(30))));
        assert_eq!(
            needy(&started, &[used(47_000), first], &[missed(0), missed(5)]),
            ["job 3 of greedy used 47.00ms of CPU time; its `runtime` is 12ms; control missed deadlines"]
        );
        assert_eq!(needy(&started, &[used(12_000), first], &[missed(0), missed(5)]).len(), 1);
    }

    #[test]
    fn throttling_shows_in_what_processes_used_and_waited_for() {
        let ms = Span::from_ms;
        let cut = |used, waited: Option<i64>, whole| is_cut(ms(used), waited.map(ms), ms(whole), (ms(950), ms(1000)));
        assert!(cut(2850, Some(150), 3000), "stopped for 50 ms of each second");
        assert!(cut(2840, None, 3000), "waiting is not measured with dispatch by priority");
        assert!(!cut(2700, None, 3000) && !cut(2700, Some(50), 3000), "there is room");
        assert!(!cut(2990, Some(10), 3000), "the kernel does not stop them");
    }
}
