//! Reservations with deadlines before the ends of their periods: by hand, and against a model that is written as the kernel is.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use takt_analysis::online::{Answer, verdict};
use takt_core::record::{Record, RecordKind};
use takt_core::rng::draw_up_to;
use takt_core::time::Time;
use takt_testing::for_all;

fn reserved((budget, deadline, period): (i64, i64, i64)) -> Reservation {
    Reservation { deadline: Some(ms(deadline)), ..Reservation::new(ms(budget), ms(period)) }
}

/// Jobs at these instants, each of so long as the next of `lengths`.
fn jobs(releases: &[i64], lengths: &[i64], reservation: (i64, i64, i64)) -> Task {
    Task {
        arrival: Arrival::Listed { instants: releases.iter().map(|r| ms(*r)).collect() },
        program: Program::needing(Execution::Series(lengths.iter().map(|l| ms(*l)).collect())),
        reservation: Some(reserved(reservation)),
        runtime: Some(ms(1)),
        ..Task::default()
    }
}

/// Soft and hard, in this order.
fn both(tasks: &[Task]) -> [Told; 2] {
    [None, Some(1)].map(|hard| tell(System { policy: policy("cbs", &[hard]), ..system(1, "cbs", tasks.to_vec()) }, 60))
}

fn charts(tasks: &[Task]) -> [String; 2] {
    both(tasks).map(|told| told.chart())
}

#[test]
fn a_hard_server_waits_for_its_period_and_not_for_its_deadline() {
    // The budget of 2 is gone at 2. The deadline is 4, and the next period begins at 10, with a deadline of 14.
    let one = jobs(&[0], &[5], (2, 4, 10));
    assert_eq!(charts(std::slice::from_ref(&one)), ["a0-5", "a0-2 a10-12 a20-21"]);
    // A soft one continues at 2 with a deadline of 14, and at 4 with one of 24.
    let other = jobs(&[1], &[4], (4, 15, 15));
    assert_eq!(charts(&[one, other]), ["a0-4 b4-8 a8-9", "a0-2 b2-6 a10-12 a20-21"]);
}

#[test]
fn a_wake_up_after_the_deadline_waits_for_the_period() {
    // One of 3 is used by 1; at 7, with 2 left, the deadline of 5 has passed and the period begins at 10. Then the deadline is 15.
    let late = jobs(&[0, 7], &[1, 2], (3, 5, 10));
    assert_eq!(charts(std::slice::from_ref(&late)), ["a0-1 a7-9", "a0-1 a10-12"]);
    // The soft one runs with the deadline of 15, too, and so comes after one of 14.
    let other = jobs(&[7], &[4], (4, 7, 20));
    assert_eq!(charts(&[late, other]), ["a0-1 b7-11 a11-13", "a0-1 b7-11 a11-13"]);
    // At 10 it begins again, at once.
    assert_eq!(charts(&[jobs(&[0, 10], &[1, 3], (3, 5, 10))]), ["a0-1 a10-13"; 2]);
}

#[test]
fn a_wake_up_with_excess_budget_keeps_less() {
    // At 3 there are 3 of 4 left for the 5 ms until 8. Half of them is 2.5: the rest comes with the next budget, at 20 with a deadline
    // of 28. A server whose deadline is its period would begin again.
    let early = |deadline, period| jobs(&[0, 3], &[1, 4], (4, deadline, period));
    assert_eq!(charts(&[early(8, 20)]), ["a0-1 a3-7", "a0-1 a3-5.5ms a20-21.5ms"]);
    assert_eq!(charts(&[early(8, 8)]), ["a0-1 a3-7"; 2]);
    // At 1 it is just 2.5 of 5, and nothing is taken away.
    let just = jobs(&[0, 2], &[1, 3], (4, 8, 20));
    assert_eq!(charts(&[just]), ["a0-1 a2-5"; 2]);
    // Sleeping is the same: 3 of 4 left at 6, with 2 ms to go, are 1.
    let sleeper =
        Task { program: Program::doing(vec![run(1), Step::Sleep(ms(5)), run(3)]), ..jobs(&[0], &[4], (4, 8, 20)) };
    assert_eq!(charts(&[sleeper]), ["a0-1 a6-9", "a0-1 a6-7 a20-22"]);
}

#[test]
fn a_budget_that_comes_while_there_is_no_job_gets_out_of_date() {
    // Exhausted at 2, so that there are 2 again at 10, until 14. At 12 that is half of it, at 15 it is too late until 20; one that
    // has used one of two begins again in either case.
    let come = |at, first| charts(&[jobs(&[0, at], &[first, 2], (2, 4, 10))])[1].clone();
    assert_eq!([come(12, 2), come(12, 1)], ["a0-2 a12-13 a20-21", "a0-1 a12-14"]);
    assert_eq!([come(15, 2), come(15, 1)], ["a0-2 a20-22", "a0-1 a15-17"]);
    assert_eq!(come(10, 2), "a0-2 a10-12");
    assert_eq!(come(25, 2), "a0-2 a25-27");
    // A soft one is not refilled behind its back.
    assert_eq!(charts(&[jobs(&[0, 12], &[2, 2], (2, 4, 10))])[0], "a0-2 a12-14");
}

#[test]
fn a_yielding_hard_server_is_back_in_its_next_period() {
    let yields = Task { program: Program::doing(vec![run(1), Step::Yield, run(2)]), ..jobs(&[0], &[3], (3, 5, 12)) };
    assert_eq!(charts(&[yields]), ["a0-3", "a0-1 a12-14"]);
}

/// Two servers of 4 in 5 every 12 are 2/3 of a CPU, and too much for it all the same; and one of them is in time beside one of 1 in 5.
#[test]
fn a_share_of_the_period_says_little_of_deadlines() {
    let periodic = |(budget, deadline, period)| Task {
        reservation: Some(reserved((budget, deadline, period))),
        deadline: Some(ms(deadline)),
        ..super::periodic(budget, period)
    };
    for (tasks, missed) in [([(4, 5, 12), (4, 5, 12)], "b"), ([(4, 5, 12), (1, 5, 12)], "")] {
        let tasks: Vec<Task> = tasks.map(periodic).into();
        for told in both(&tasks) {
            assert_eq!(told.missed(), missed);
        }
    }
}

/// A server that wakes up in the middle of its budget can have some of it within less than its deadline, for which there must be room.
#[test]
fn a_wake_up_within_a_budget_is_accounted() {
    // At 2 it has 1 of 2 left until 4, and another task comes that is to be done by 4, too.
    let sleeper =
        Task { program: Program::doing(vec![run(1), Step::Sleep(ms(1)), run(1)]), ..jobs(&[0], &[2], (2, 4, 10)) };
    let beside = |runtime| Task {
        arrival: Arrival::Periodic { offset: ms(2), period: ms(10) },
        deadline: Some(ms(2)),
        reservation: Some(reserved((runtime, 2, 10))),
        ..super::periodic(runtime, 10)
    };
    for (runtime, answer, missed) in [(1, Answer::Yes, ""), (2, Answer::Unknown, "b")] {
        let tasks = vec![sleeper.clone(), beside(runtime)];
        let found = verdict(&system(1, "cbs", tasks.clone()));
        assert_eq!(found.schedulable, answer, "{found}");
        for told in both(&tasks) {
            assert_eq!(told.missed(), missed, "{}", told.chart());
        }
    }
}

#[test]
fn a_call_for_another_deadline_is_that_of_the_reservation_too() {
    // From 1 on a deadline is 6 after the beginning of its period, so that the period after the deadline of 5 begins at 9. The job that
    // comes at 10 has the rest of its budget.
    let steps = vec![run(1), Step::Call(Call::Deadline(ms(6))), run(2), Step::WaitPeriod, run(1)];
    let [_, hard] = both(&[Task { program: Program::doing(steps), ..jobs(&[0, 10], &[1], (2, 5, 10)) }]);
    assert_eq!(hard.chart(), "a0-2 a9-11");
    // 2 in 4 and 2 in 5 are 9/10; for 3 there is no room beside them, as a share of the time until the deadline.
    let asks = Task {
        program: Program::doing(vec![Step::Call(Call::Runtime(ms(3))), run(1)]),
        ..jobs(&[0], &[1], (2, 5, 10))
    };
    let granted = |tasks: &[Task]| {
        let [told, _] = both(tasks);
        told.records
            .iter()
            .find_map(|r| if let RecordKind::Call { granted, .. } = r.kind { Some(granted) } else { None })
    };
    assert_eq!(granted(std::slice::from_ref(&asks)), Some(true));
    assert_eq!(granted(&[asks, jobs(&[0], &[1], (2, 4, 10))]), Some(false));
}

/// The kernel's account of one server, in nanoseconds: its timer fires whether there is a job or not.
struct Entity {
    runtime: i128,
    dl: [i128; 3],
    deadline: i128,
    timer: Option<i128>,
    fresh: bool,
    /// Releases and the rest to do.
    jobs: VecDeque<(i128, i128)>,
}

impl Entity {
    fn next_period(&self) -> i128 {
        let [_, d, p] = self.dl;
        self.deadline - d + p
    }

    fn replenish(&mut self, now: i128) {
        let [q, d, p] = self.dl;
        self.timer = None;
        while self.runtime <= 0 {
            self.runtime += q;
            self.deadline += p;
        }
        if self.deadline < now {
            (self.runtime, self.deadline) = (q, now + d);
        }
    }

    fn exhausted(&mut self, hard: bool, now: i128) {
        if self.runtime > 0 {
            return;
        }
        match hard {
            true if self.next_period() > now => self.timer = Some(self.next_period()),
            true => self.replenish(now),
            false if !self.jobs.is_empty() => {
                let [q, _, p] = self.dl;
                (self.runtime, self.deadline) = (self.runtime + q, self.deadline + p);
            }
            false => {}
        }
    }

    /// `update_dl_entity` and `dl_check_constrained_dl`; and what a soft server does in their place.
    fn wakes(&mut self, hard: bool, now: i128) {
        let [q, d, p] = self.dl;
        if self.timer.is_some() {
            return;
        }
        let laxity = self.deadline - now;
        let renewed = core::mem::replace(&mut self.fresh, false) || (laxity < 0 && self.next_period() <= now);
        if renewed || (d == p && (self.runtime * d > laxity * q || (!hard && self.runtime * d == laxity * q))) {
            (self.runtime, self.deadline) = (q, now + d);
        } else if d < p && laxity < 0 {
            self.runtime = self.runtime.min(0);
        } else if d < p && self.runtime * d > laxity * q {
            self.runtime = laxity * q / d;
        }
        self.exhausted(hard, now);
    }
}

/// The schedule.
fn modelled(tasks: &[Task], hard: bool, until: i128) -> Vec<(usize, i128, i128)> {
    let ns = |span: Span| i128::from(span.ns());
    let mut coming: Vec<(i128, usize, i128)> = vec![];
    let mut servers: Vec<Entity> = vec![];
    for (index, task) in tasks.iter().enumerate() {
        let r = task.reservation.unwrap();
        let dl = [r.budget, r.relative_deadline(), r.period].map(ns);
        servers.push(Entity { runtime: dl[0], dl, deadline: 0, timer: None, fresh: true, jobs: VecDeque::new() });
        let Arrival::Listed { instants } = &task.arrival else { unreachable!() };
        let need = |job: usize| ns(task.demand(0, TaskId(0), job as u64).unwrap());
        coming.extend(instants.iter().enumerate().map(|(job, at)| (ns(*at), index, need(job))));
    }
    coming.sort_unstable();
    let (mut now, mut course, mut coming) = (0, vec![], VecDeque::from(coming));
    while now < until {
        // An end comes before any begin of the same instant, and the end of a job before that of its budget.
        for server in &mut servers {
            if server.timer == Some(now) {
                server.replenish(now);
            }
        }
        while let Some(&(_, index, need)) = coming.front().filter(|(at, ..)| *at == now) {
            coming.pop_front();
            let server = &mut servers[index];
            server.jobs.push_back((now, need));
            if server.jobs.len() == 1 {
                server.wakes(hard, now);
            }
        }
        let ready = (0..servers.len()).filter(|i| servers[*i].timer.is_none() && !servers[*i].jobs.is_empty());
        let chosen = ready.min_by_key(|i| (servers[*i].deadline, servers[*i].jobs[0].0, *i));
        let events = servers.iter().filter_map(|s| s.timer).chain(coming.front().map(|(at, ..)| *at)).chain([until]);
        let mut next = events.min().unwrap();
        if let Some(index) = chosen {
            let server = &mut servers[index];
            let (_, left) = server.jobs[0];
            next = next.min(now + left.min(server.runtime));
            server.jobs[0].1 -= next - now;
            server.runtime -= next - now;
            match course.last_mut().filter(|(who, _, to): &&mut (usize, i128, i128)| *who == index && *to == now) {
                Some((.., to)) => *to = next,
                None => course.push((index, now, next)),
            }
            if left == next - now {
                server.jobs.pop_front();
            }
            server.exhausted(hard, next);
        }
        now = next;
    }
    course
}

fn simulated(tasks: &[Task], hard: bool, until: i64) -> Vec<(usize, i128, i128)> {
    let policy = policy("cbs", &[Some(i64::from(hard))]);
    let told = tell(System { policy, ..system(1, "cbs", tasks.to_vec()) }, until);
    let (mut since, mut course) = (vec![None; tasks.len()], vec![]);
    for Record { at, kind: what } in &told.records {
        let at = i128::from((*at - Time::ZERO).ns());
        match *what {
            RecordKind::Start { task, .. } => since[task.index()] = Some(at),
            RecordKind::Stop { task, .. } => {
                let (who, from) = (task.index(), since[task.index()].take().unwrap());
                match course
                    .last_mut()
                    .filter(|(before, _, to): &&mut (usize, i128, i128)| *before == who && *to == from)
                {
                    Some((.., to)) => *to = at,
                    None if from < at => course.push((who, from, at)),
                    None => {}
                }
            }
            _ => {}
        }
    }
    for (who, from) in since.iter().enumerate().filter_map(|(who, since)| Some((who, (*since)?))) {
        course.push((who, from, i128::from(ms(until).ns())));
    }
    course
}

/// Up to three servers, some with D = P, and jobs that need less or more than the budget and come at any time.
fn drawn(seed: u64) -> Vec<Task> {
    let draw = |most: u64, what: u64, which: u64| draw_up_to(most, seed, what, which) as i64;
    let task = |k: u64| {
        let period = 4 + draw(12, 1, k);
        let deadline = if draw(3, 2, k) == 0 { period } else { 1 + draw(period as u64 - 1, 3, k) };
        let budget = 1 + draw(deadline as u64 - 1, 4, k) / 2;
        let count = 1 + draw(9, 6, k) as u64;
        let mut releases = vec![draw(4, 5, k)];
        for job in 1..count {
            releases.push(releases[job as usize - 1] + 1 + draw(20, 7, 100 * k + job));
        }
        let lengths: Vec<i64> = (0..count).map(|job| 1 + draw(2 * budget as u64 - 1, 8, 100 * k + job)).collect();
        jobs(&releases, &lengths, (budget, deadline, period))
    };
    (0..1 + draw(2, 0, 0) as u64).map(task).collect()
}

#[test]
fn a_model_written_as_the_kernel_is_runs_the_same_at_the_same_time() {
    for_all(1_500, any::<u64>(), |seed| {
        let tasks = drawn(seed);
        for hard in [false, true] {
            let (simulated, modelled) =
                (simulated(&tasks, hard, 200), modelled(&tasks, hard, i128::from(ms(200).ns())));
            prop_assert_eq!(simulated, modelled, "hard: {}, {:#?}", hard, tasks);
        }
        Ok(())
    });
}
