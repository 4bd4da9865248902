//! Scopes: how one ordering of ready jobs becomes a scheduler for one CPU, for all CPUs, or for each CPU.
//!
//! An ordering only ranks jobs. [`build`] wraps it: *uniprocessor* runs the most urgent ready job on the first CPU that it
//! is lent; *global* runs the m most urgent on m CPUs; *partitioned* gives every task a home CPU once, by bin packing, and
//! runs the most urgent of each home. All of them preempt at once (work-conserving on the CPUs that a task may use).

use crate::cpus::CpuSet;
use crate::engine::Context;
use crate::model::{Invalid, System, TaskId};
use crate::policies::mapping::Mapper;
use crate::policy::{Budget, Build, Clock, Decision, Event, Fit, Policy, Scope};
use crate::queue::{Key, ReadyQueue};
use crate::record::{Outcome, Place};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A ranking of ready jobs that stays the same for the life of a job.
pub trait Ordering: Send + 'static {
    /// The rank of the task's current job; the lowest runs first. Ties go to the earlier release, then to the lower task.
    fn rank(task: TaskId, cx: &Context<'_>) -> i64;
}

/// Builds the policy for an ordering under the scope that `build` names.
///
/// # Errors
/// A uniprocessor scope over several CPUs, and a partitioned one with a task that may run on none of those lent.
pub fn build<O: Ordering>(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    let policy: Box<dyn Policy> = match build.spec.scope {
        Scope::Uniprocessor if build.places.len() > 1 => {
            return Err(Invalid::Unsuitable(
                "this policy is for one CPU; use its global (g-) or partitioned (p-) form",
            ));
        }
        Scope::Uniprocessor | Scope::Global => Box::new(Global::<O>::new(build)),
        Scope::Partitioned | Scope::Clustered => {
            let cpus: CpuSet = {
                let all: Vec<usize> = build.system.cpus.iter().collect();
                build.places.iter().map(|p| all[p.index()]).collect()
            };
            let homeless = |t: &&TaskId| build.system.tasks[t.index()].affinity.is_disjoint(&cpus);
            // A partition that no window names is lent nothing at all, which is for the table check to say.
            if let Some(&task) = build.tasks.iter().find(homeless).filter(|_| !cpus.is_empty()) {
                return Err(Invalid::Affinity(task));
            }
            Box::new(Partitioned::<O>::new(build))
        }
        Scope::Table => return Err(Invalid::Unsuitable("an ordering is not a table")),
    };
    Ok(policy)
}

fn key<O: Ordering>(task: TaskId, cx: &Context<'_>) -> Key {
    let release = cx.job(task).expect("a ready task has a job").release;
    Key { rank: O::rank(task, cx), release, task }
}

/// What every scope does with an event; `queue` is the task's ready queue.
fn update<O: Ordering>(event: &Event, queue: &mut ReadyQueue, cx: &mut Context<'_>) {
    match *event {
        Event::Release { task, .. } => {
            if let Some(amount) = cx.task(task).budget {
                cx.replenish(task, Budget { amount, clock: Clock::Cpu });
            }
            queue.insert(key::<O>(task, cx));
        }
        Event::Wake { task } => queue.insert(key::<O>(task, cx)),
        Event::Finish { task, .. } | Event::Block { task, .. } => queue.remove(task),
        Event::BudgetExpired { task, .. } => {
            // The budget of an online task is a limit: a job that needs more is given up, so that it delays nobody else.
            queue.remove(task);
            cx.finish(task, Outcome::Aborted);
        }
        _ => {}
    }
}

/// One ready queue; the most urgent jobs run on the CPUs lent.
struct Global<O> {
    tasks: Vec<TaskId>,
    ready: ReadyQueue,
    mapper: Mapper,
    ordering: core::marker::PhantomData<fn() -> O>,
}

impl<O: Ordering> Global<O> {
    fn new(build: &Build<'_>) -> Self {
        Global {
            tasks: build.tasks.to_vec(),
            ready: ReadyQueue::new(build.tasks.len()),
            mapper: Mapper::new(build.system, build.tasks, build.places),
            ordering: core::marker::PhantomData,
        }
    }
}

impl<O: Ordering> Policy for Global<O> {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.ready.clear();
        for &task in &self.tasks {
            if cx.is_ready(task) {
                self.ready.insert(key::<O>(task, cx));
            }
        }
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        update::<O>(event, &mut self.ready, cx);
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        self.mapper.map(self.ready.as_slice().iter().map(|key| key.task), lent, cx, decision);
    }
}

/// A ready queue for each CPU; a task never leaves its home.
struct Partitioned<O> {
    tasks: Vec<TaskId>,
    /// Home of each task of the system, as an index into `ready`; only those of `tasks` mean something.
    home: Vec<u16>,
    /// By single-CPU place.
    ready: Vec<ReadyQueue>,
    ordering: core::marker::PhantomData<fn() -> O>,
}

impl<O: Ordering> Partitioned<O> {
    fn new(build: &Build<'_>) -> Self {
        let home = pack(build);
        let mut sizes = vec![0; build.system.cpus.len()];
        build.tasks.iter().for_each(|t| sizes[usize::from(home[t.index()])] += 1);
        Partitioned {
            tasks: build.tasks.to_vec(),
            home,
            ready: sizes.into_iter().map(ReadyQueue::new).collect(),
            ordering: core::marker::PhantomData,
        }
    }
}

impl<O: Ordering> Policy for Partitioned<O> {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.ready.iter_mut().for_each(ReadyQueue::clear);
        for &task in &self.tasks {
            if cx.is_ready(task) {
                self.ready[usize::from(self.home[task.index()])].insert(key::<O>(task, cx));
            }
        }
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        if let Some(task) = event.task() {
            let home = usize::from(self.home[task.index()]);
            update::<O>(event, &mut self.ready[home], cx);
        }
    }

    fn decide(&mut self, lent: &[Place], _: &mut Context<'_>, decision: &mut Decision) {
        for &place in lent {
            if let Some(key) = self.ready[place.index()].as_slice().first() {
                decision.run(key.task, place);
            }
        }
    }
}

/// Utilisation of a task in units of 2^-32, rounded up, so that a CPU that is full by these is truly full.
fn utilisation(system: &System, task: TaskId) -> u64 {
    let t = &system.tasks[task.index()];
    match (t.runtime, t.arrival.period()) {
        (Some(c), Some(period)) => ((c.ns() as u128) << 32).div_ceil(period.ns() as u128) as u64,
        _ => 0,
    }
}

/// Gives every task a home CPU by bin packing over utilisations with a capacity of one.
///
/// A task that fits nowhere goes to the emptiest CPU that it may use: the system is then overloaded, which is for
/// `takt check` to say and for the run to show. The result is indexed by task and holds indexes of single-CPU places.
#[must_use]
pub fn pack(build: &Build<'_>) -> Vec<u16> {
    const FULL: u64 = 1 << 32;
    let (system, rule) = (build.system, build.spec.placement);
    let cpus: Vec<usize> = system.cpus.iter().collect();
    let mut order: Vec<TaskId> = build.tasks.to_vec();
    if rule.decreasing {
        order.sort_by_key(|&t| (core::cmp::Reverse(utilisation(system, t)), t));
    }
    let mut load = vec![0u64; cpus.len()];
    let mut home = vec![0u16; system.tasks.len()];
    for task in order {
        let need = utilisation(system, task);
        let allowed = |p: &&Place| system.tasks[task.index()].affinity.contains(cpus[p.index()]);
        let usable = || build.places.iter().filter(allowed).map(|p| p.index());
        let fits = || usable().filter(|&p| load[p] + need <= FULL);
        let chosen = match rule.fit {
            Fit::First => fits().next(),
            Fit::Best => fits().max_by_key(|&p| (load[p], core::cmp::Reverse(p))),
            Fit::Worst => fits().min_by_key(|&p| (load[p], p)),
        };
        let emptiest = || usable().min_by_key(|&p| (load[p], p));
        let place = chosen.or_else(emptiest).unwrap_or(0);
        load[place] += need;
        home[task.index()] = place as u16;
    }
    home
}
