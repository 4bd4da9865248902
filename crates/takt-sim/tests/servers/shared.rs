//! Several tasks behind one server: by hand, and against one task that has all their jobs.

use super::properties::{UNTIL, runs, set};
use super::*;
use proptest::prelude::*;
use takt_analysis::online::{Answer, verdict};
use takt_core::cpus::CpuSet;
use takt_core::record::RecordKind;
use takt_core::rng::draw_up_to;
use takt_core::time::Time;
use takt_testing::for_all;

/// Jobs at these instants behind the first shared server, each of so long as the next of `lengths`.
fn behind(releases: &[i64], lengths: &[i64]) -> Task {
    Task { reservation: None, server: Some(ServerId(0)), ..served(releases, lengths, (1, 1)) }
}

fn server(budget: i64, period: i64) -> Server {
    Server { reservation: Reservation::new(ms(budget), ms(period)), priority: 0 }
}

/// These tasks, of which some share one server.
fn sharing(name: &str, values: &[Option<i64>], server: Server, tasks: Vec<Task>) -> System {
    System { servers: vec![server], ..with(name, values, tasks) }
}

/// 2 ms in each 6 ms for a (2 ms at 1, 1 ms at 2) and b (1 ms at 1, 2 ms at 3), which are served in the order a, b, a, b: 6 ms of
/// work on three budgets. Beside them c needs 4 ms of each 12, at a lower rank.
#[test]
fn two_tasks_behind_each_server() {
    let tasks = || vec![behind(&[1, 2], &[2, 1]), behind(&[1, 3], &[1, 2]), periodic(0, 4, 12)];
    let tell = |name| tell(sharing(name, &[], server(2, 6), tasks()), 20);
    // A job that comes at 1 has missed the poll of 0. Those of 6, 12 and 18 find 2 ms each: a's first job, then b's first and a's second
    // one, then b's second one.
    expect(&tell("polling-server"), "c0-4 a6-8 b12-13 a13-14 c14-18 b18-20", "");
    // No job is ahead of the server, so that 1 ms is idled away until 1. a has the other one, and the rest of its job at 6.
    expect(&tell("periodic-server"), "c0-1 a1-2 c2-5 a6-7 b7-8 a12-13 b13-14 c14-18 b18-19", "");
    // All 2 ms are there at 1, and a has them; the next ones come at 6 and at 12.
    expect(&tell("deferrable-server"), "c0-1 a1-3 c3-6 b6-7 a7-8 b12-14 c14-18", "");
    // The amount that a has used from 1 on is back at 7, and that of b and a from then on at 13.
    expect(&tell("sporadic-server"), "c0-1 a1-3 c3-6 b7-8 a8-9 c12-13 b13-15 c15-18", "");
}

/// The work of b begins as that of a ends, so that it continues; that of 9 begins again.
#[test]
fn a_budget_is_one_piece_as_long_as_any_of_the_tasks_has_work() {
    let tasks = || vec![behind(&[0, 9], &[1, 1]), behind(&[1], &[2])];
    // The poll of 0 has 4 ms, of which 3 are used without a pause; that of 9 waits.
    expect(&tell(sharing("polling-server", &[], server(4, 10), tasks()), 15), "a0-1 b1-3 a10-11", "");
    // One part of 3 ms, back at 10. The 1 ms that is left is used at 9.
    expect(&tell(sharing("sporadic-server", &[], server(4, 10), tasks()), 15), "a0-1 b1-3 a9-10", "");
    // If only one part may be apart, the rest at 3 waits for that part.
    let one = [None, None, Some(1)];
    expect(&tell(sharing("sporadic-server", &one, server(4, 10), tasks()), 15), "a0-1 b1-3 a10-11", "");
}

#[test]
fn a_sleeping_task_lets_the_next_one_run_and_returns_ahead() {
    let sleeps = Task { program: Program::doing(vec![run(1), Step::Sleep(ms(2)), run(1)]), ..behind(&[0], &[2]) };
    for name in ALL {
        let told = tell(sharing(name, &[], server(6, 10), vec![sleeps.clone(), behind(&[0], &[3])]), 20);
        expect(&told, "a0-1 b1-3 a3-4 b4-5", "");
    }
}

#[test]
fn jobs_go_by_their_releases_and_servers_by_their_priority() {
    const BY_PRIORITY: &[Option<i64>] = &[Some(1)];
    let tasks = || {
        let urgent = Task { priority: 9, ..behind(&[1], &[2]) };
        vec![behind(&[1], &[2]), urgent, Task { priority: 1, ..periodic(0, 4, 20) }]
    };
    let told = |priority| {
        let server = Server { priority, ..server(4, 10) };
        tell(sharing("deferrable-server", BY_PRIORITY, server, tasks()), 20)
    };
    expect(&told(2), "c0-1 a1-3 b3-5 c5-8", "");
    expect(&told(0), "c0-4 a4-6 b6-8", "");
}

#[test]
fn without_budget_all_of_them_are_left_to_the_background() {
    const BACKGROUND: &[Option<i64>] = &[None, Some(1)];
    for name in ALL {
        let tasks = || vec![behind(&[0], &[2]), behind(&[0], &[2]), periodic(0, 2, 20)];
        expect(&tell(sharing(name, &[], server(1, 6), tasks()), 20), "a0-1 c1-3 a6-7 b12-13 b18-19", "");
        expect(&tell(sharing(name, BACKGROUND, server(1, 6), tasks()), 20), "a0-1 c1-3 a3-4 b4-6", "");
    }
}

/// Packed by decreasing shares, 6/10 of a CPU for a and b together come before 5/10 for c.
#[test]
fn a_server_is_packed_once_with_all_its_tasks() {
    let bound = |task: Task| Task { affinity: CpuSet::single(1), ..task };
    let on_two = |a: Task, b: Task| {
        let tasks = vec![periodic(0, 5, 10), a, b];
        let system = sharing("p-deferrable-server", &[], server(6, 10), tasks);
        tell(System { cpus: CpuSet::first(2), ..system }, 10)
    };
    expect(&on_two(behind(&[0], &[1]), behind(&[0], &[2])), "b0-1 c1-3\na0-5", "");
    // Where one of them may not run, none of them does.
    expect(&on_two(behind(&[0], &[1]), bound(behind(&[0], &[2]))), "a0-5\nb0-1 c1-3", "");
}

#[test]
fn each_domain_has_servers_of_its_own() {
    let tasks = || vec![behind(&[0], &[2]), behind(&[0], &[2]), periodic(0, 2, 20)];
    let domain = |cpu, tasks: &[u32], name| Domain {
        band: 0,
        cpus: CpuSet::single(cpu),
        tasks: tasks.iter().map(|t| TaskId(*t)).collect(),
        policy: policy(name, &[]),
    };
    let domains = vec![domain(0, &[2], "edf"), domain(1, &[0, 1], "sporadic-server")];
    let mut system = System { domains, cpus: CpuSet::first(2), ..sharing("domains", &[], server(3, 5), tasks()) };
    for task in &mut system.tasks {
        task.affinity = CpuSet::first(2);
    }
    expect(&tell(system, 20), "c0-2\na0-2 b2-3 b5-6", "");
}

/// The tasks of a random set whose jobs are handed out to up to three tasks behind each server, with the servers.
fn handed_out(seed: u64, tasks: &[Task]) -> (Vec<Task>, Vec<Server>) {
    let (mut all, mut servers) = (vec![], vec![]);
    for (k, task) in (0..).zip(tasks) {
        let (Some(reservation), Arrival::Listed { instants }) = (task.reservation, &task.arrival) else {
            all.push(task.clone());
            continue;
        };
        let Execution::Series(lengths) = &task.program.execution else { panic!("each job has a length") };
        let server = Some(ServerId(servers.len() as u32));
        servers.push(Server { reservation, priority: task.priority });
        let parts = 1 + draw_up_to(2, seed, 20, k);
        for part in 0..parts {
            let mine = |job: &usize| draw_up_to(parts - 1, seed, 21 + k, *job as u64) == part;
            let jobs: Vec<usize> = (0..instants.len()).filter(mine).collect();
            let pick = |from: &[Span]| jobs.iter().map(|job| from[*job]).collect::<Vec<_>>();
            let execution = if jobs.is_empty() { Execution::Declared } else { Execution::Series(pick(lengths)) };
            let arrival = Arrival::Listed { instants: pick(instants) };
            all.push(Task { server, reservation: None, arrival, program: Program::needing(execution), ..task.clone() });
        }
    }
    (all, servers)
}

/// When any of them ran, from and until, without seams.
fn together(told: &Told, tasks: impl Iterator<Item = usize>) -> Vec<(Time, Time)> {
    let mut all: Vec<(Time, Time)> = tasks.flat_map(|t| runs(TaskId(t as u32), &told.records)).collect();
    all.retain(|(from, until)| from < until);
    all.sort();
    all.dedup_by(|next, before| {
        let joins = before.1 == next.0;
        before.1 = if joins { next.1 } else { before.1 };
        joins
    });
    all
}

/// In the order in which they were done, when the jobs of these tasks were released, and the task.
fn done(told: &Told, of: impl Fn(TaskId) -> bool) -> Vec<(Time, TaskId)> {
    let mut released = std::collections::HashMap::new();
    let mut done = vec![];
    for record in &told.records {
        match record.kind {
            RecordKind::Release { task, job, .. } => drop(released.insert((task, job), record.at)),
            RecordKind::Finish { task, job, .. } if of(task) => done.push((released[&(task, job)], task)),
            _ => {}
        }
    }
    done
}

/// To the tasks beside it a server of several tasks is that of one task with all their jobs, and it runs them at the same times:
/// in the order of their releases.
#[test]
fn handing_jobs_out_to_several_tasks_changes_nothing_but_whose_they_are() {
    let shared = std::cell::Cell::new(0);
    for_all(50, any::<u64>(), |seed| {
        let merged = set(seed, 60 + seed % 50);
        let (tasks, servers) = handed_out(seed, &merged);
        for (name, by) in ALL.into_iter().flat_map(|name| (0..3).map(move |by| (name, by))) {
            let values = [Some(by), Some((seed / 3 % 2) as i64)];
            let one = tell(System { seed, ..with(name, &values, merged.clone()) }, UNTIL);
            let servers = servers.clone();
            let several = tell(System { seed, servers, ..with(name, &values, tasks.clone()) }, UNTIL);
            let mut next = 0;
            for (k, task) in merged.iter().enumerate() {
                let server = task.reservation.and_then(|_| tasks[next].server);
                let count = server.map_or(1, |s| tasks.iter().filter(|t| t.server == Some(s)).count());
                let (expected, found) = (together(&one, k..k + 1), together(&several, next..next + count));
                prop_assert_eq!(expected, found, "{} by {}: task {} of those merged", name, by, k);
                if server.is_some() && count > 1 {
                    let ours = |t: TaskId| tasks[t.index()].server == server;
                    let done = done(&several, ours);
                    shared.set(shared.get() + done.len());
                    prop_assert!(done.is_sorted(), "{} by {}: not in order: {:?}", name, by, done);
                }
                next += count;
            }
        }
        Ok(())
    });
    println!("{} jobs were served in order", shared.get());
    assert!(shared.get() > 10_000);
}

/// The promises of `takt check` hold: to the tasks beside the server, and to jobs behind it that have deadlines.
#[test]
fn verdicts_on_tasks_of_a_shared_server_hold() {
    let (shown, served) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    for_all(80, any::<u64>(), |seed| {
        let merged = set(seed, 50 + seed % 40);
        let (mut tasks, servers) = handed_out(seed, &merged);
        // Two in three sets have jobs that come far enough apart to be judged, more or less.
        for (k, task) in tasks.iter_mut().enumerate().filter(|(_, t)| t.server.is_some() && seed % 3 > 0) {
            let Reservation { budget, period, .. } = servers[task.server.expect("it shares one").index()].reservation;
            let spread = Span::from_ns(draw_up_to(period.ns() as u64, seed, 30, k as u64) as i64);
            let apart = period * (3 + draw_up_to(4, seed, 31, k as u64) as i64);
            task.arrival = Arrival::Sporadic { offset: spread, period: apart, spread };
            task.deadline = Some(apart);
            task.program.execution = Execution::Uniform { least: Span::from_ns(1), most: budget };
        }
        for name in ALL {
            let system = System { seed, servers: servers.clone(), ..with(name, &[], tasks.clone()) };
            let found = verdict(&system);
            if found.schedulable == Answer::Yes {
                shown.set(shown.get() + 1);
                let told = tell(system, UNTIL);
                prop_assert_eq!(told.engine.totals().missed, 0, "{}: {}", name, found);
                for (task, bound) in found.responses.iter().enumerate().filter_map(|(t, b)| Some((t, (*b)?))) {
                    served.set(served.get() + usize::from(tasks[task].server.is_some()));
                    let worst = super::properties::worst(TaskId(task as u32), &told.records);
                    prop_assert!(worst <= bound, "{}: task {}: {} is beyond {}", name, task, worst, bound);
                }
            }
        }
        Ok(())
    });
    println!(
        "{} systems were shown to meet their deadlines, with {} bounds of served tasks",
        shown.get(),
        served.get()
    );
    assert!(shown.get() > 50 && served.get() > 50);
}
