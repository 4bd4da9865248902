//! Entries into the scheduler: for a step of the engine, which CPUs run it, which are interrupted, and which wait.
//!
//! What is counted and charged is defined in the crate's documentation. CPUs are indexes into those of the system.

use takt_core::engine::Engine;
use takt_core::model::{PolicySpec, Scope, TaskId};
use takt_core::record::Place;
use takt_core::scenario::Deciding;

/// What an entry costs the CPU that enters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) cpu: u16,
    /// For how many runs of the scheduler it stands still, its own and those that it waits for.
    pub(crate) runs: u32,
    /// The scheduler's queue is shared, so that a run takes a lock.
    pub(crate) locks: bool,
    pub(crate) interrupted: bool,
}

/// The CPUs that share a ready queue, and who came to it in the present step.
#[derive(Default)]
struct Queue {
    /// Ascending.
    cpus: Vec<u16>,
    /// Those on which something happened, in that order.
    acted: Vec<u16>,
    touched: bool,
}

pub(crate) struct Entries {
    deciding: Deciding,
    queues: Vec<Queue>,
    /// By CPU: the index of its queue.
    queue_of: Vec<u16>,
    /// The queues touched in this step.
    touched: Vec<u16>,
    /// By CPU: the steps in which something happened on it, and in which its job changed, last.
    acted: Vec<u64>,
    changed: Vec<u64>,
    step: u64,
    /// How often a CPU ran the scheduler, was interrupted by another one to enter it, and waited for another one in it.
    pub(crate) runs: u64,
    pub(crate) interrupts: u64,
    pub(crate) blocked: u64,
}

impl Entries {
    /// For so many CPUs; [`Entries::regroup`] comes next.
    pub(crate) fn new(m: usize, deciding: Deciding) -> Entries {
        Entries {
            deciding,
            queues: Vec::new(),
            queue_of: vec![0; m],
            touched: Vec::with_capacity(m),
            acted: vec![0; m],
            changed: vec![0; m],
            step: 1,
            runs: 0,
            interrupts: 0,
            blocked: 0,
        }
    }

    /// Finds out which CPUs share a ready queue, at the start and after a policy was switched. Returns by task the CPU that the
    /// policy has it on, or the first one of its queue.
    pub(crate) fn regroup(&mut self, engine: &Engine) -> Vec<u16> {
        let system = engine.system();
        let cpus: Vec<usize> = system.cpus.iter().collect();
        let mut homes = vec![0; system.tasks.len()];
        self.queues.clear();
        let everyone: Vec<TaskId> = (0..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
        let whole: Vec<Place> = (0..cpus.len()).map(|c| Place(c as u16)).collect();
        let mut add = |spec: PolicySpec, tasks: &[TaskId], places: &[Place]| {
            let size = match spec.scope {
                Scope::Partitioned | Scope::Table => 1,
                Scope::Clustered => usize::from(spec.cluster).max(1),
                Scope::Uniprocessor | Scope::Global => places.len().max(1),
            };
            for chunk in places.chunks(size) {
                let cpus: Vec<u16> = chunk.iter().map(|p| p.0).collect();
                cpus.iter().for_each(|&c| self.queue_of[usize::from(c)] = self.queues.len() as u16);
                self.queues.push(Queue { acted: Vec::with_capacity(cpus.len()), cpus, touched: false });
            }
            for task in tasks {
                let home = engine.home(*task).or(places.first().copied());
                homes[task.index()] = home.map_or(0, |place| place.0);
            }
        };
        if system.policy.scope == Scope::Table && !system.domains.is_empty() {
            for domain in &system.domains {
                let places: Vec<Place> =
                    whole.iter().copied().filter(|p| domain.cpus.contains(cpus[p.index()])).collect();
                add(domain.policy, &domain.tasks, &places);
            }
            // CPUs of no domain have nothing to share.
            let rest = |p: &Place| !system.domains.iter().any(|d| d.cpus.contains(cpus[p.index()]));
            for place in whole.iter().filter(|p| rest(p)) {
                add(system.policy, &[], &[*place]);
            }
        } else {
            add(system.policy, &everyone, &whole);
        }
        homes
    }

    /// Something happened on this CPU.
    #[inline]
    pub(crate) fn act(&mut self, cpu: u16) {
        if core::mem::replace(&mut self.acted[usize::from(cpu)], self.step) != self.step {
            let queue = self.touch(cpu);
            self.queues[queue].acted.push(cpu);
        }
    }

    /// The job of this CPU has changed.
    #[inline]
    pub(crate) fn change(&mut self, cpu: u16) {
        self.changed[usize::from(cpu)] = self.step;
        self.touch(cpu);
    }

    #[inline]
    fn touch(&mut self, cpu: u16) -> usize {
        let queue = self.queue_of[usize::from(cpu)];
        if !core::mem::replace(&mut self.queues[usize::from(queue)].touched, true) {
            self.touched.push(queue);
        }
        usize::from(queue)
    }

    /// The step is over: counts who entered the scheduler, and appends to `entries` what that costs them, if anybody asks.
    /// O(CPUs of the queues touched).
    pub(crate) fn settle(&mut self, engine: &Engine, mut entries: Option<&mut Vec<Entry>>) {
        if self.touched.is_empty() {
            // A timer that has changed nothing, or a release that waits: nobody can say whose it is.
            self.act(0);
        }
        let Entries { queues, touched, acted, changed, step, .. } = self;
        let (mut runs, mut interrupts, mut blocked) = (0, 0, 0);
        let mut enter = |cpu, runs, locks, interrupted| {
            interrupts += u64::from(interrupted);
            if let Some(entries) = &mut entries {
                entries.push(Entry { cpu, runs, locks, interrupted });
            }
        };
        for queue in touched.drain(..) {
            let queue = &mut queues[usize::from(queue)];
            queue.touched = false;
            let has_changed = |cpu: u16| changed[usize::from(cpu)] == *step;
            if queue.acted.is_empty() {
                // A timer of the policy: its interrupt is taken by the first CPU that it concerns.
                let first = queue.cpus.iter().copied().find(|&cpu| has_changed(cpu));
                let first = first.expect("a queue is touched by something");
                acted[usize::from(first)] = *step;
                queue.acted.push(first);
            }
            let others = queue.cpus.iter().copied().filter(|&cpu| acted[usize::from(cpu)] != *step);
            let shared = queue.cpus.len() > 1;
            match self.deciding {
                Deciding::One => {
                    runs += 1;
                    blocked += queue.acted.len() as u64 - 1;
                    queue.acted.iter().for_each(|&cpu| enter(cpu, 1, shared, false));
                    for cpu in others.filter(|&cpu| has_changed(cpu) || engine.running_on(Place(cpu)).is_some()) {
                        blocked += 1;
                        enter(cpu, 1, shared, true);
                    }
                }
                Deciding::Each => {
                    runs += queue.acted.len() as u64;
                    blocked += queue.acted.len() as u64 - 1;
                    queue.acted.iter().zip(1..).for_each(|(&cpu, turn)| enter(cpu, turn, shared, false));
                    for cpu in others.filter(|&cpu| has_changed(cpu)) {
                        runs += 1;
                        enter(cpu, 1, shared, true);
                    }
                }
            }
            queue.acted.clear();
        }
        self.step += 1;
        self.runs += runs;
        self.interrupts += interrupts;
        self.blocked += blocked;
    }
}
