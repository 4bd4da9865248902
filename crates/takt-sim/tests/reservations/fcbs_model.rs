//! Flexible CBS once more, from the rules of its manual page and nothing else: by whole milliseconds on one CPU, with budgets that
//! know whose they are. The policy must give the same schedule, so what is found of the model's budgets holds for the policy's.

use super::told::*;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use takt_core::model::*;
use takt_testing::for_all;

/// How long the model runs.
const END: i64 = 160;

/// A part of a budget: the server that was given it, its interval, and the rest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Part {
    until: i64,
    from: i64,
    owner: usize,
    left: i64,
}

#[derive(Clone, Debug, Default)]
struct Server {
    budget: i64,
    period: i64,
    deadline: i64,
    /// Its own budget.
    own: Vec<Part>,
    /// The parts that were added to it, which are used first.
    gifts: Vec<Part>,
    /// Both, while it runs on a gift with the giver's deadline.
    saved: Option<(Vec<Part>, Vec<Part>, i64)>,
    /// Released jobs: when, and what they still need.
    jobs: VecDeque<(i64, i64)>,
}

fn sum(parts: &[Part]) -> i64 {
    parts.iter().map(|part| part.left).sum()
}

impl Server {
    fn left(&self) -> i64 {
        sum(&self.own) + sum(&self.gifts)
    }
    /// A whole budget with a deadline a period after `from`.
    fn refill(&mut self, owner: usize, from: i64) {
        self.deadline = from + self.period;
        self.own = vec![Part { until: self.deadline, from, owner, left: self.budget }];
        self.gifts.clear();
    }
}

/// When jobs come, and what they need.
type Jobs = Vec<(i64, i64)>;

#[derive(Clone, Debug)]
struct Case {
    /// Budget, period and jobs.
    servers: Vec<(i64, i64, Jobs)>,
}

#[derive(Default)]
struct Model {
    servers: Vec<Server>,
    /// The rest of the last job before the CPU became idle, its deadline, and since when it is idle.
    bonus: Option<(Vec<Part>, i64, i64)>,
    /// As [`Told::chart`] has it.
    chart: Vec<(usize, i64, i64)>,
    /// The consumption of each budget: by owner, start and end.
    used: BTreeMap<(usize, i64, i64), i64>,
    /// Times at which a task ran after its server's deadline.
    late: Vec<i64>,
    /// Gifts to servers that lag, additions to the next one's budget, bonuses.
    given: [u64; 3],
}

impl Model {
    /// Those with work, in their order.
    fn ready(&self) -> Vec<usize> {
        let mut ready: Vec<usize> = (0..self.servers.len()).filter(|k| !self.servers[*k].jobs.is_empty()).collect();
        ready.sort_by_key(|k| (self.servers[*k].deadline, self.servers[*k].jobs[0].0, *k));
        ready
    }

    /// A server with work has a budget.
    fn settle(&mut self, k: usize) {
        let server = &mut self.servers[k];
        if server.left() == 0
            && let Some(saved) = server.saved.take()
        {
            (server.own, server.gifts, server.deadline) = saved;
        }
        if server.left() == 0 {
            server.refill(k, server.deadline);
        }
    }

    fn finish(&mut self, k: usize, now: i64) {
        self.servers[k].jobs.pop_front();
        if !self.servers[k].jobs.is_empty() {
            return self.settle(k);
        }
        let server = &mut self.servers[k];
        let (own, gifts) = (std::mem::take(&mut server.own), std::mem::take(&mut server.gifts));
        let (gift, deadline) = ([&own[..], &gifts[..]].concat(), server.deadline);
        let saved = server.saved.take();
        let on_gift = saved.is_some();
        if let Some(saved) = saved {
            (server.own, server.gifts, server.deadline) = saved;
        }
        if sum(&gift) == 0 {
            return;
        }
        let ready = self.ready();
        let lags = |k: &&usize| {
            let server = &self.servers[**k];
            server.deadline > now + server.period && server.deadline > deadline && server.saved.is_none()
        };
        if let Some(&lagging) = ready.iter().find(lags) {
            self.given[0] += 1;
            let server = &mut self.servers[lagging];
            let kept = (std::mem::take(&mut server.own), std::mem::replace(&mut server.gifts, gift), server.deadline);
            (server.saved, server.deadline) = (Some(kept), deadline);
        } else if let Some(&next) = ready.iter().find(|j| self.servers[**j].deadline >= deadline) {
            self.given[1] += 1;
            self.servers[next].gifts.extend(gift);
        } else if ready.is_empty() {
            self.bonus = Some((gift, deadline, now));
        } else if !on_gift {
            (self.servers[k].own, self.servers[k].gifts) = (own, gifts);
        }
    }

    fn release(&mut self, k: usize, now: i64, length: i64) {
        let server = &mut self.servers[k];
        server.jobs.push_back((now, length));
        if server.jobs.len() > 1 {
            return;
        }
        server.gifts.clear();
        // At least its share of the time until its deadline: it gets a whole budget from now on.
        let own = sum(&server.own);
        if server.deadline <= now || own * server.period >= (server.deadline - now) * server.budget {
            server.refill(k, now);
        }
        if let Some((mut parts, deadline, since)) = self.bonus.take() {
            let mut idle = now - since;
            for part in &mut parts {
                let gone = idle.min(part.left);
                (part.left, idle) = (part.left - gone, idle - gone);
            }
            if self.servers[k].deadline >= deadline {
                self.given[2] += u64::from(parts.iter().any(|part| part.left > 0));
                self.servers[k].gifts.extend(parts);
            }
        }
        self.settle(k);
    }

    fn run(case: &Case) -> Model {
        let server =
            |(budget, period, _): &(i64, i64, _)| Server { budget: *budget, period: *period, ..Server::default() };
        let mut model = Model { servers: case.servers.iter().map(server).collect(), ..Model::default() };
        let mut running: Option<usize> = None;
        for now in 0..END {
            if let Some(k) = running {
                if model.servers[k].jobs[0].1 == 0 {
                    model.finish(k, now);
                } else {
                    model.settle(k);
                }
            }
            for (k, (_, _, jobs)) in case.servers.iter().enumerate() {
                jobs.iter().filter(|(at, _)| *at == now).for_each(|(_, length)| model.release(k, now, *length));
            }
            running = model.ready().first().copied();
            let Some(k) = running else { continue };
            match model.chart.last_mut().filter(|last| (last.0, last.2) == (k, now)) {
                Some(last) => last.2 = now + 1,
                None => model.chart.push((k, now, now + 1)),
            }
            let server = &mut model.servers[k];
            model.late.extend((now >= server.deadline).then_some(now));
            server.jobs[0].1 -= 1;
            server.own.retain(|part| part.left > 0);
            server.gifts.retain(|part| part.left > 0);
            // Gifts are used first, and of these the part that ends first.
            let part = server.gifts.iter_mut().min().or(server.own.iter_mut().min()).expect("it has a budget");
            part.left -= 1;
            *model.used.entry((part.owner, part.from, part.until)).or_default() += 1;
        }
        model
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let period = prop::sample::select(vec![4i64, 5, 6, 8, 10, 12, 15, 20]);
    let server = period.prop_flat_map(|period| {
        let jobs = prop::collection::vec((0..END / 2, 1..2 * period / 3 + 2), 1..9);
        (1..=period / 2, Just(period), jobs)
    });
    prop::collection::vec(server, 2..6).prop_map(|mut servers| {
        servers.iter_mut().for_each(|(_, _, jobs)| jobs.sort_by_key(|job| job.0));
        Case { servers }
    })
}

fn schedule(case: &Case) -> String {
    let task = |(budget, period, jobs): &(i64, i64, Jobs)| Task {
        arrival: Arrival::Listed { instants: jobs.iter().map(|job| ms(job.0)).collect() },
        program: Program::needing(Execution::Series(jobs.iter().map(|job| ms(job.1)).collect())),
        reservation: Some(super::reservation((*budget, *period))),
        ..Task::default()
    };
    tell(system(1, "fcbs", case.servers.iter().map(task).collect()), END).chart()
}

/// The policy is the model. In the model, and so in the policy, budgets are only passed on:
/// * no more of a budget is used than was handed out, by whomever and however often it was given away (conservation);
/// * of the budgets of one server, what is used in any interval in which they lie is at most its share of the interval (P3; it
///   is what CBS promises others), whichever server used it;
/// * if the shares are no more than the CPU, no job runs after the deadline of its server, so gifts cost no other server.
#[test]
fn gifts_create_no_budget_and_no_demand() {
    let given = Cell::new([0; 3]);
    for_all(1_000, cases(), |case| {
        let model = Model::run(&case);
        given.set(std::array::from_fn(|kind| given.get()[kind] + model.given[kind]));
        let piece = |(k, from, to): &(usize, i64, i64)| format!("{}{from}-{to}", char::from(b'a' + *k as u8));
        let chart = model.chart.iter().map(piece).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(schedule(&case), chart);
        for (&(owner, ..), used) in &model.used {
            prop_assert!(*used <= case.servers[owner].0, "{:?}", model.used);
        }
        for (owner, (budget, period, _)) in case.servers.iter().enumerate() {
            let own: Vec<_> = model.used.iter().filter(|((o, ..), _)| *o == owner).collect();
            for ((_, first, _), _) in &own {
                for ((_, _, last), _) in own.iter().filter(|((.., until), _)| until > first) {
                    let inside = own.iter().filter(|((_, from, until), _)| from >= first && until <= last);
                    let used: i64 = inside.map(|(_, used)| **used).sum();
                    prop_assert!(used * period <= (last - first) * budget, "{} from {} to {}", used, first, last);
                }
            }
        }
        // Sums of fractions, over a common multiple of all periods.
        let whole = 120;
        if case.servers.iter().map(|(budget, period, _)| budget * (whole / period)).sum::<i64>() <= whole {
            prop_assert_eq!(&model.late, &Vec::<i64>::new());
        }
        Ok(())
    });
    assert!(given.get().iter().all(|gifts| *gifts > 0), "gifts of each kind: {:?}", given.get());
}

/// By hand, what the paper leaves open: servers as (Q, P, jobs), and who runs when.
#[test]
fn cases_that_the_paper_leaves_open() {
    type Servers<'a> = &'a [(i64, i64, &'a [(i64, i64)])];
    let by_hand: [(&str, Servers, &str); 6] = [
        (
            // At 2 a has another job, for which the 4 ms are. At 5 it leaves 1 ms: b has 3 ms before its deadline is 26, behind c.
            "who has another job gives nothing away",
            &[(6, 12, &[(0, 2), (1, 3)]), (2, 13, &[(0, 6)]), (3, 15, &[(0, 3)])],
            "a0-5 b5-8 c8-11 b11-14",
        ),
        (
            // At 5 a lags and gets 4 ms until 15. What c leaves at 7 is added to them, and a's own 1 ms until 20 is kept for the
            // job of 12, which so comes before d, with a deadline of 21.
            "a gift does not replace a gift",
            &[(2, 10, &[(0, 8), (12, 1)]), (6, 12, &[(3, 2)]), (3, 6, &[(6, 1)]), (2, 9, &[(12, 2)])],
            "a0-3 b3-5 a5-6 c6-7 a7-11 a12-13 d13-15",
        ),
        (
            // a uses all of its budget, and b, which lags, gets nothing of it.
            "a budget that is exhausted is no gift",
            &[(3, 10, &[(0, 3)]), (1, 10, &[(0, 4)]), (4, 15, &[(0, 4)])],
            "a0-3 b3-4 c4-8 b8-11",
        ),
        (
            // At 10 a's deadline of 20 is just a period away: it does not lag, and keeps that deadline, so that d goes before it.
            "who is a period ahead of its deadline does not lag",
            &[(2, 10, &[(0, 8)]), (6, 12, &[(2, 6)]), (4, 9, &[(8, 2)]), (2, 8, &[(11, 2)])],
            "a0-2 b2-8 c8-10 a10-11 d11-13 a13-18",
        ),
        (
            // a and b lag alike when c leaves 3 ms until 10: a takes them, and leaves 1 ms for b. Then comes d, until 15, before
            // b's own.
            "of two that lag alike the first one gets it",
            &[(2, 10, &[(0, 4)]), (2, 10, &[(0, 4)]), (5, 6, &[(4, 2)]), (2, 9, &[(6, 2)])],
            "a0-2 b2-4 c4-6 a6-8 b8-9 d9-11 b11-12",
        ),
        (
            // At 8 b has its fourth budget, of 1 ms until 24, and a adds 1 ms to it. At 13 d gives it 1 ms until 18, which is enough,
            // and its own remains. At 16 it loses the 1 ms of a. Its share of the 8 ms until 24 is 1.6 ms, so it keeps its own 1 ms and
            // its deadline, and a goes first.
            "a gift brings no budget early",
            &[(3, 12, &[(0, 5), (10, 1)]), (1, 5, &[(4, 4), (16, 1)]), (5, 10, &[(14, 2)]), (3, 5, &[(8, 5)])],
            "a0-4 b4-7 a7-8 d8-13 b13-14 c14-16 a16-17 b17-18",
        ),
    ];
    for (what, servers, expected) in by_hand {
        let servers = servers.iter().map(|(budget, period, jobs)| (*budget, *period, jobs.to_vec())).collect();
        assert_eq!(schedule(&Case { servers }), expected, "{what}");
    }
}
