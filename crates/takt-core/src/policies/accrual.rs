//! The host of policies that go by utility: it knows which jobs there are, asks a [`Construction`] for the schedule that it
//! would follow from now on, and maps the first jobs of that to the CPUs of a cluster.
//!
//! Such a policy keeps nothing between events: at each scheduling event (a release, a completion, a block or wake-up, a request or
//! return of a resource, an abort) the schedule is built again from the jobs that are there. Clusters, homes and the tie rule are
//! those of [`scope`]. Invariants: a CPU idles only if no job that it may run is ready, since CPUs
//! that a schedule leaves over take the densest of the other jobs; and no cycle of jobs that wait for each other outlives the
//! event that closed it, since its least dense member is aborted.
//!
//! The model of jobs, resources and densities is that of Clark, "Scheduling Dependent Real-Time Activities", thesis, Carnegie
//! Mellon University, 1990.

#[cfg(test)]
mod checked;

use crate::model::{Invalid, Locking, TaskId};
use crate::policies::mapping::Mapper;
use crate::policies::scope::{self, Clusters};
use crate::policy::{Build, Context, Decision, Event, Policy};
use crate::record::{Outcome, Place};
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A job that could be scheduled now: it is ready, or waits for a resource and the chain of holders ends in one that is.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The task.
    pub task: TaskId,
    /// Its remaining declared runtime; at least a nanosecond.
    pub left: Span,
    /// Its absolute deadline; [`Time::MAX`] without one.
    pub deadline: Time,
    /// Its potential utility if it runs from now on without a break, in millionths.
    pub potential: u64,
    /// The holder of the resource for which it waits, as an index into the candidates; `None` if it is ready. There are no cycles.
    pub owner: Option<usize>,
}

impl Candidate {
    /// Its potential utility density.
    pub fn density(&self) -> Density {
        Density { utility: u128::from(self.potential), left: self.left.ns().max(1) as u128 }
    }
}

/// A potential utility density: utility per time still needed, of one job or summed over several. It is never divided.
#[derive(Clone, Copy, Debug)]
pub struct Density {
    /// In millionths.
    pub utility: u128,
    /// In nanoseconds.
    pub left: u128,
}

impl Density {
    /// Nothing: the sum over no jobs.
    pub const NONE: Density = Density { utility: 0, left: 0 };

    /// The density of both together.
    pub fn plus(self, other: Density) -> Density {
        Density { utility: self.utility + other.utility, left: self.left + other.left }
    }

    /// `Less` if this one is denser, so that a stable sort puts the densest first. O(1). Exact while the
    /// products are below 2^128; one above counts as that.
    pub fn densest_first(&self, other: &Density) -> Ordering {
        (other.utility.saturating_mul(self.left)).cmp(&self.utility.saturating_mul(other.left))
    }
}

/// The view of a construction.
pub struct View<'a, 'b> {
    /// The candidates by release, then by task: a stable sort keeps the tie rule.
    pub jobs: &'a [Candidate],
    /// The present instant.
    pub now: Time,
    /// CPUs of the cluster.
    pub cpus: usize,
    /// Other facts about the system.
    pub cx: &'a Context<'b>,
}

impl View<'_, '_> {
    /// Fills `order` with all candidates, the densest first; among equals the earlier release, then the lower task.
    /// O(n log n).
    pub fn densest_first(&self, order: &mut Vec<usize>) {
        order.clear();
        order.extend(0..self.jobs.len());
        // An unstable sort does not allocate; the index stands for the tie rule.
        order.sort_unstable_by(|a, b| self.jobs[*a].density().densest_first(&self.jobs[*b].density()).then(a.cmp(b)));
    }

    /// Whether each of these jobs completes by its deadline if they run from now on in this order. O(n).
    pub fn in_time(&self, order: impl IntoIterator<Item = usize>) -> bool {
        let mut end = self.now;
        order.into_iter().all(|job| {
            end = end.saturating_add(self.jobs[job].left);
            end <= self.jobs[job].deadline
        })
    }

    /// The dependency chain of a job: itself, who holds what it waits for, who holds what that one waits for, and so on.
    pub fn chain(&self, job: usize) -> impl Iterator<Item = usize> + '_ {
        core::iter::successors(Some(job), |&link| self.jobs[link].owner)
    }

    /// The utility density of a job together with those of its chain that are not `done`, if they run from `start` on, owners
    /// first, and each is worth `worth` when it ends. A holder of a resource for which a completed job waited is complete, too. O(chain).
    pub fn chain_density(
        &self,
        job: usize,
        start: Time,
        done: impl Fn(usize) -> bool,
        worth: impl Fn(TaskId, Time) -> u64,
    ) -> Density {
        let links = || self.chain(job).take_while(|link| !done(*link)).map(|link| &self.jobs[link]);
        let needs = |sum: Span, link: &Candidate| Span::from_ns(sum.ns().saturating_add(link.left.ns()));
        let mut end = links().fold(Span::ZERO, needs);
        let mut density = Density { utility: 0, left: end.ns() as u128 };
        for link in links() {
            // The chain is walked from its end in time.
            density.utility += u128::from(worth(link.task, start.saturating_add(end)));
            end -= link.left;
        }
        density
    }
}

/// One way to build a schedule.
pub trait Construction: Send + Sized + 'static {
    /// Whether a job that has started may lose its CPU to another one.
    const PREEMPTIVE: bool = true;
    /// Whether it knows what to do about candidates that wait for a resource. If not, who holds what such a job waits for runs
    /// in its place (priority inheritance), unless resources are handed out first come first served.
    const DEPENDENCIES: bool = false;

    /// With scratch memory for as many jobs as `build` has tasks.
    fn new(build: &Build<'_>) -> Self;

    /// Appends indexes of candidates to `schedule`, those first that should run first, each at most once; who is not to be
    /// preempted is there already and may come again. Candidates that wait for a resource may be among them. As many of the ready
    /// ones run as there are CPUs; those left out come after them by density. It does not allocate.
    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>);
}

/// Builds the policy for a construction under the scope that `build` names.
///
/// # Errors
/// A uniprocessor scope over several CPUs, and a task that may run on none of the CPUs lent where each task has a home.
pub fn build<C: Construction>(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    scope::check(build)?;
    Ok(Box::new(Accrual::<C>::new(build)))
}

struct Cluster {
    /// Tasks with a job, by its release and then by task.
    present: Vec<(Time, TaskId)>,
    mapper: Mapper,
    /// Something happened here since the last decision.
    stale: bool,
    /// The last decision, and the places that it was about.
    last: Vec<(TaskId, Place)>,
    lent: Vec<Place>,
}

/// A construction, spread over clusters of CPUs.
struct Accrual<C> {
    construction: C,
    tasks: Vec<TaskId>,
    /// By task of the system.
    mine: Vec<bool>,
    clusters: Clusters<Cluster>,
    /// By task: it has run and has been ready ever since. Kept for constructions without preemption.
    started: Vec<bool>,
    /// Scratch.
    jobs: Vec<Candidate>,
    schedule: Vec<usize>,
    chosen: Vec<bool>,
    /// By task: its index in `jobs`.
    index_of: Vec<usize>,
}

const NOWHERE: usize = usize::MAX;

impl<C: Construction> Accrual<C> {
    fn new(build: &Build<'_>) -> Self {
        let n = build.system.tasks.len();
        let cluster = |_, tasks: Vec<TaskId>, places: &[Place]| Cluster {
            present: Vec::with_capacity(tasks.len()),
            mapper: Mapper::new(build, &tasks, places),
            stale: true,
            last: Vec::with_capacity(places.len()),
            lent: Vec::with_capacity(places.len()),
        };
        let mut mine = vec![false; n];
        build.tasks.iter().for_each(|t| mine[t.index()] = true);
        Accrual {
            construction: C::new(build),
            tasks: build.tasks.to_vec(),
            mine,
            clusters: Clusters::new(build, cluster),
            started: vec![false; n],
            jobs: Vec::with_capacity(build.tasks.len()),
            schedule: Vec::with_capacity(2 * build.tasks.len()),
            chosen: vec![false; build.tasks.len()],
            index_of: vec![NOWHERE; n],
        }
    }

    fn enter(&mut self, task: TaskId, cx: &Context<'_>) {
        let entry = (cx.job(task).expect("a job that enters is there").release, task);
        let present = &mut self.clusters.of(task).present;
        let at = present.partition_point(|other| *other < entry);
        present.insert(at, entry);
    }

    fn leave(&mut self, task: TaskId) {
        self.clusters.of(task).present.retain(|(_, t)| *t != task);
    }

    /// The holder of the resource for which the task waits, if this policy schedules it.
    fn holder(&self, task: TaskId, cx: &Context<'_>) -> Option<TaskId> {
        cx.waits_for(task).and_then(|r| cx.owner(r)).filter(|t| self.mine[t.index()])
    }

    /// If jobs wait for each other in a cycle that the task is part of, the least dense of those that this policy schedules is
    /// aborted; among equals the one released last, then that of the higher task.
    fn break_circle(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let mut victim: Option<(Density, Time, TaskId)> = None;
        let mut at = task;
        for _ in 0..self.mine.len() {
            let Some(holder) = cx.waits_for(at).and_then(|r| cx.owner(r)) else { return };
            let release = cx.job(at).expect("who waits has a job").release;
            let own = (candidate(at, cx).density(), release, at);
            let worse = |v: &(Density, Time, TaskId)| match own.0.densest_first(&v.0) {
                Ordering::Equal => (own.1, own.2) > (v.1, v.2),
                order => order == Ordering::Greater,
            };
            if self.mine[at.index()] && victim.as_ref().is_none_or(worse) {
                victim = Some(own);
            }
            at = holder;
            if at == task {
                break;
            }
        }
        if let (true, Some((_, _, victim))) = (at == task, victim) {
            self.leave(victim);
            cx.finish(victim, Outcome::Aborted);
        }
    }

    /// Fills `jobs` with the candidates of a cluster. Who waits belongs where the chain of holders ends, wherever it is at home
    /// itself, so that holders inherit across clusters, too.
    fn collect(&mut self, cluster: usize, cx: &Context<'_>) {
        let follows = cx.system().resources > 0 && (C::DEPENDENCIES || cx.locking() != Locking::Fifo);
        self.jobs.clear();
        let clusters = if follows { 0..self.clusters.len() } else { cluster..cluster + 1 };
        for &(_, task) in self.clusters[clusters].iter().flat_map(|c| &c.present) {
            let chain = core::iter::successors(Some(task), |link| self.holder(*link, cx).filter(|_| follows));
            let end = chain.take(self.tasks.len()).last().expect("a chain begins with the job itself");
            debug_assert!(!follows || self.holder(end, cx).is_none(), "a cycle of waiting jobs was not broken");
            if cx.is_ready(end) && self.clusters.home(end) == cluster {
                self.jobs.push(candidate(task, cx));
            }
        }
        if !follows {
            return;
        }
        if self.clusters.len() > 1 {
            self.jobs.sort_unstable_by_key(|job| (cx.job(job.task).map(|j| j.release), job.task));
        }
        for (index, job) in self.jobs.iter().enumerate() {
            self.index_of[job.task.index()] = index;
        }
        for index in 0..self.jobs.len() {
            let holder = self.holder(self.jobs[index].task, cx);
            self.jobs[index].owner = holder.map(|h| self.index_of[h.index()]);
        }
    }

    /// Decides for one cluster.
    fn decide_cluster(&mut self, cluster: usize, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        self.collect(cluster, cx);
        let Accrual { construction, jobs, schedule, chosen, started, clusters, .. } = self;
        let cluster = &mut clusters[cluster];
        schedule.clear();
        if !C::PREEMPTIVE {
            schedule.extend((0..jobs.len()).filter(|&j| started[jobs[j].task.index()]));
        }
        let going_on = schedule.len();
        construction.construct(&View { jobs, now: cx.now(), cpus: lent.len(), cx }, schedule);
        chosen[..jobs.len()].fill(false);
        let mut kept = 0;
        for at in 0..schedule.len() {
            let mut job = schedule[at];
            // The holder of the resource for which it waits runs in its place.
            while let (false, Some(owner)) = (C::DEPENDENCIES, jobs[job].owner) {
                job = owner;
            }
            if !core::mem::replace(&mut chosen[job], true) {
                schedule[kept] = job;
                kept += 1;
            }
        }
        debug_assert!(kept >= going_on);
        schedule.truncate(kept);
        let shared = cx.system().resources > 0;
        // The others matter where they wait for resources, or where CPUs are left over.
        if shared || kept < lent.len() || !cluster.mapper.is_unrestricted() {
            schedule.extend((0..jobs.len()).filter(|&j| !chosen[j]));
            let denser = |a: &usize, b: &usize| jobs[*a].density().densest_first(&jobs[*b].density()).then(a.cmp(b));
            schedule[kept..].sort_unstable_by(denser);
        }
        cx.visited(jobs.len());
        if shared {
            for (position, &job) in schedule.iter().enumerate() {
                cx.set_urgency(jobs[job].task, position as i64);
            }
        }
        let before = decision.assignments().len();
        let ready = schedule.iter().filter(|&&j| jobs[j].owner.is_none()).map(|&j| jobs[j].task);
        cluster.mapper.map(ready, lent, cx, decision);
        cluster.last.clear();
        cluster.last.extend(decision.assignments()[before..].iter().map(|a| (a.task, a.place)));
        cluster.lent.clear();
        cluster.lent.extend_from_slice(lent);
        cluster.stale = false;
        if !C::PREEMPTIVE {
            cluster.last.iter().for_each(|(task, _)| started[task.index()] = true);
        }
    }
}

/// The task's present job as a candidate that waits for nothing.
fn candidate(task: TaskId, cx: &Context<'_>) -> Candidate {
    let left = cx.time_left(task).unwrap_or(Span::ZERO).max(Span::from_ns(1));
    let deadline = cx.job(task).map_or(Time::MAX, |job| job.deadline);
    Candidate { task, left, deadline, potential: cx.potential(task, cx.now().saturating_add(left)), owner: None }
}

impl<C: Construction> Policy for Accrual<C> {
    fn start(&mut self, cx: &mut Context<'_>) {
        for cluster in self.clusters.iter_mut() {
            cluster.present.clear();
            cluster.stale = true;
        }
        for index in 0..self.tasks.len() {
            let task = self.tasks[index];
            self.started[task.index()] = cx.is_ready(task) && cx.place_of(task).is_some() && !cx.is_fresh(task);
            if cx.job(task).is_some() {
                self.enter(task, cx);
            }
        }
        for index in 0..self.tasks.len() {
            // A policy beside this one may still be about to start: jobs end only after that.
            cx.remind_of_cycle(self.tasks[index]);
        }
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        let Some(task) = event.task() else { return };
        if cx.system().resources == 0 {
            self.clusters.of(task).stale = true;
        } else {
            // Chains of holders lead from one cluster to another.
            self.clusters.iter_mut().for_each(|c| c.stale = true);
        }
        match *event {
            Event::Release { .. } => {
                cx.grant_own(task);
                self.started[task.index()] = false;
                self.enter(task, cx);
            }
            Event::Finish { .. } => self.leave(task),
            Event::Handler { .. } => {
                self.leave(task);
                self.started[task.index()] = false;
                self.enter(task, cx);
            }
            // A job that is blocked already asks, too, and then does not block again.
            Event::Lock { granted: false, .. } => self.break_circle(task, cx),
            Event::Block { .. } | Event::Yield { .. } => self.started[task.index()] = false,
            Event::Wake { .. }
            | Event::BudgetExpired { .. }
            | Event::Deadline { .. }
            | Event::Lock { .. }
            | Event::Unlock { .. }
            | Event::Changed { .. }
            | Event::Exit { .. }
            | Event::Timer { .. } => {}
        }
    }

    fn home(&self, task: TaskId) -> Option<Place> {
        self.clusters.first_cpu(task)
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let mut rest = lent;
        while let Some((index, group, others)) = self.clusters.split(rest) {
            rest = others;
            let cluster = &self.clusters[index];
            if cluster.stale || cluster.lent != group {
                self.decide_cluster(index, group, cx, decision);
            } else {
                cluster.last.iter().for_each(|(task, place)| decision.run(*task, *place));
            }
        }
    }
}
