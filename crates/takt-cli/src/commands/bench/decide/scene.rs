//! The scene of the measured decisions: jobs that stay, and one that comes and goes.
//!
//! A step of virtual time is so short against what the jobs need that nothing but the visitor ever changes: each decision is
//! about the same jobs.

use super::super::figures::cpu_time;
use std::hint::black_box;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, Invalid, PolicySpec, ResourceId, System, Task, TaskId};
use takt_core::rng;
use takt_core::time::{Span, Time};
use takt_core::utility::{UNIT, Utility};

/// The mean runtime of a job that stays; it is drawn from half of that to one and a half.
const MEAN: Span = Span::from_secs(10);
/// By how much every deadline is later than the load asks for, so that what passes during a measurement makes no job late.
const LEAD: Span = Span::from_secs(1);
/// How often the visitor comes; it stays for half of that.
const EVERY: Span = Span::from_ns(100);
const SEED: u64 = 1;

/// A situation that a policy has to decide in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Situation {
    /// Jobs that are there, the visitor included; at least two.
    pub(crate) jobs: usize,
    pub(crate) cpus: usize,
    /// In hundredths. At 100 the jobs can just be met in the order of their deadlines; above, some cannot.
    pub(crate) load: u32,
    /// Jobs that stay wait for each other in chains of so many; one is no waiting.
    pub(crate) chain: usize,
}

/// An engine in a situation.
pub(crate) struct Scene {
    engine: Engine,
    visitor: TaskId,
    /// When the visitor comes next.
    next: Time,
}

impl Scene {
    /// # Errors
    /// When the policy cannot schedule these tasks.
    pub(crate) fn new(policy: PolicySpec, situation: Situation) -> Result<Scene, Invalid> {
        let (stay, cpus) = (situation.jobs - 1, situation.cpus as i64);
        let mut order: Vec<usize> = (0..stay).collect();
        order.sort_by_key(|i| rng::draw(SEED, 0, *i as u64));
        let mut tasks = vec![Task::default(); stay];
        let mut before = Span::ZERO;
        for index in order {
            let runtime = MEAN / 2 + Span::from_ns(rng::draw_up_to(MEAN.ns() as u64, SEED, 1, index as u64) as i64);
            // List scheduling starts a job no later than when what comes before it is done by all CPUs together (Graham,
            // "Bounds on Multiprocessing Timing Anomalies", 1969). So with a load of one all jobs are met.
            let deadline = LEAD + runtime + (before / cpus).scaled(100, i64::from(situation.load));
            before += runtime;
            tasks[index] = Task {
                // Once in the measured time.
                arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_secs(1_000_000) },
                deadline: Some(deadline),
                runtime: Some(runtime),
                utility: Some(Utility::Step(UNIT * (1 + rng::draw_up_to(99, SEED, 2, index as u64)))),
                ..Task::default()
            };
        }
        // The most urgent by every measure: the shortest period, the earliest deadline, the least laxity, the highest density.
        tasks.push(Task {
            arrival: Arrival::Periodic { offset: EVERY, period: EVERY },
            deadline: Some(LEAD / 2),
            runtime: Some(EVERY / 10),
            utility: Some(Utility::Step(UNIT)),
            priority: 1,
            ..Task::default()
        });
        let chained = situation.chain > 1;
        let system = System {
            tasks,
            resources: if chained { u16::try_from(stay).unwrap_or(u16::MAX) } else { 0 },
            ..System::new(CpuSet::first(situation.cpus), policy)
        };
        let mut engine = takt::load::engine(system)?;
        let _ = engine.step(Time::ZERO, &[], &mut ());
        if chained {
            let request = |task: usize, resource: usize| Input::Lock {
                task: TaskId(task as u32),
                resource: ResourceId(resource as u16),
            };
            let own = |task| request(task, task);
            let waits = |task| (task % situation.chain > 0).then(|| request(task, task - 1));
            let all: Vec<Input> = (0..stay).map(own).chain((0..stay).filter_map(waits)).collect();
            let _ = engine.step(Time::ZERO + Span::from_ns(1), &all, &mut ());
        }
        Ok(Scene { engine, visitor: TaskId(stay as u32), next: Time::ZERO + EVERY })
    }

    /// The visitor comes, and goes again: completes, or is withdrawn where it was not let run. Returns the number of decisions,
    /// which is two unless the policy wanted to decide in between.
    pub(crate) fn visit(&mut self) -> u64 {
        let mut decisions = 2;
        while let Some(due) = self.engine.next_due().filter(|due| *due < self.next) {
            black_box(self.engine.step(due, &[], &mut ()));
            decisions += 1;
        }
        black_box(self.engine.step(self.next, &[], &mut ()));
        let task = self.visitor;
        let runs = self.engine.place_of(task).and_then(|_| self.engine.at(task));
        let goes = runs.map_or(Input::Abort { task }, |job| Input::Complete { task, job });
        black_box(self.engine.step(self.next + EVERY / 2, &[goes], &mut ()));
        self.next += EVERY;
        decisions
    }

    /// Picoseconds of CPU time for a decision, over as many visits as take at least `least`.
    pub(crate) fn cost(&mut self, least: Span) -> i64 {
        let (start, mut decisions, mut visits) = (cpu_time(), 0, 1);
        loop {
            decisions += (0..visits).map(|_| self.visit()).sum::<u64>();
            let took = cpu_time() - start;
            if took >= least {
                return (i128::from(took.ns()) * 1000 / i128::from(decisions)) as i64;
            }
            // Reading the clock takes as long as a decision about a few jobs.
            visits *= 2;
        }
    }

    /// How many jobs run.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        self.engine.running().len()
    }

    /// How often the visitor was let run.
    #[cfg(test)]
    pub(super) fn served(&self) -> u64 {
        self.engine.counts(self.visitor).completed
    }
}
