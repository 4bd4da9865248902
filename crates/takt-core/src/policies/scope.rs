//! Scopes: how one ordering of ready jobs becomes a scheduler for one CPU, for all CPUs, for each CPU or for groups of them.
//!
//! An ordering only ranks jobs. A scope wraps it: CPUs form *clusters*, each with one ready queue whose most urgent jobs run on
//! the cluster's CPUs. *Uniprocessor* and *global* are one cluster of all CPUs, *partitioned* has one for each CPU, *clustered*
//! has groups. Every task has a home cluster, found once by bin packing, and never leaves it. Invariant: where a job waits,
//! every CPU of its cluster that it may use runs one that is ahead of it.
//!
//! Shared resources change what is ahead as [`crate::model::Locking`] says, across clusters, too.

mod candidate;
mod clusters;
mod packing;
pub mod response_times;
mod sharing;
mod urgency;

pub use crate::queue::Key;
pub(crate) use clusters::Clusters;
pub(crate) use packing::share;
pub use packing::{Packed, Refused, pack};
pub use urgency::Urgency;

use crate::cpus::CpuSet;
use crate::model::{Invalid, Kind, PolicySpec, ResourceId, Scope, Setting, TaskId};
use crate::policies::mapping::Mapper;
#[cfg(feature = "order")]
use crate::policy::Standing;
use crate::policy::{Alarm, Assignment, Build, Context, Decision, Event, Exchange, Policy};
use crate::queue::ReadyQueue;
#[cfg(feature = "order")]
use crate::queue::merged;
use crate::record::Place;
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sharing::Sharing;

/// A ranking of ready jobs, which [`build`] makes a policy of. Most rank a job when it becomes ready and keep to that; the constants and
/// methods with a default are for others. An ordering allocates nothing after it is made.
pub trait Ordering: Send + Sized + 'static {
    /// Whether a waiting job may take the CPU of one that has started.
    const PREEMPTIVE: bool = true;
    /// Whether it must know the running tasks: it is not preemptive, ranks jobs again because they run, or has a timer.
    const TRACKS_RUNNING: bool = false;
    /// Whether jobs are ranked by the period, deadline or runtime of their task, so that a call changes the rank of the present one.
    const BY_TERMS: bool = false;
    /// Whether it has a timer (one for each cluster). It requires [`Ordering::TRACKS_RUNNING`]; without that it does not compile.
    const TIMED: bool = false;
    /// Whether a job that wakes up queues behind all others.
    const WAKES_LAST: bool = false;
    /// Whether a job that waits is ranked again when its timer goes off ([`Ordering::promoted`]). It requires [`Ordering::TIMED`].
    const PROMOTES: bool = false;

    /// An ordering with the settings of `build`.
    fn new(build: &Build<'_>) -> Self;

    /// The rank of the task's current job, which has just become ready: it was released, was woken, or continues with its handler.
    /// Ties go to the earlier release, then to the lower task.
    fn rank(&mut self, task: TaskId, cx: &Context<'_>) -> i64;

    /// The rank that a job of the task would have if it were released now: what the ceilings of its resources are made of.
    fn if_released_now(&self, task: TaskId, cx: &Context<'_>) -> i64;

    /// The task's job has yielded, or its turn is over: where it queues. Without more, behind those of equal rank.
    fn requeue(&mut self, task: TaskId, cx: &Context<'_>) -> Urgency {
        Urgency { rank: self.rank(task, cx), release: cx.now() }
    }

    /// A new urgency of a job that was chosen by the last decision and has been ready ever since (`runs`; asked before each
    /// decision), or of one that has just been displaced or has blocked (not `runs`).
    fn rerank(&mut self, task: TaskId, runs: bool, cx: &Context<'_>) -> Option<Urgency> {
        let _ = (task, runs, cx);
        None
    }

    /// When the ordering wants to be asked again at the latest, now that `running` were chosen from `ready`.
    fn alarm(&mut self, running: &[TaskId], ready: &[Key], cx: &Context<'_>) -> Option<Time> {
        let _ = (running, ready, cx);
        None
    }

    /// The instant of an alarm has come: whether the turn of this running job is over.
    fn turn_is_over(&self, task: TaskId, cx: &Context<'_>) -> bool {
        let _ = (task, cx);
        false
    }

    /// The instant of an alarm has come: a higher rank of this job, which is ready and was not chosen by the last decision, if it has
    /// one by now.
    fn promoted(&mut self, task: TaskId, cx: &Context<'_>) -> Option<i64> {
        let _ = (task, cx);
        None
    }

    /// Whether a job that begins as its task's job on a CPU ends continues in that one's place, ahead of all that wait.
    fn keeps_cpu(&self) -> bool {
        false
    }

    /// For how long a job may run that is dispatched now, before the ordering has to know of it; `None` without a limit.
    fn turn(&self) -> Option<Span> {
        None
    }

    /// A decision has been made.
    fn decided(&mut self) {}

    /// Takes over changed settings; `false` has it built again.
    fn configure(&mut self, spec: &PolicySpec) -> bool {
        let _ = spec;
        false
    }
}

/// The setting of orderings without preemption: what becomes of the next job of a task whose job ends late.
pub(crate) const SUCCESSOR: Setting = Setting {
    name: "successor",
    kind: Kind::Choice(&["queue", "keep"]),
    default: "queue",
    summary: "whether a job that begins as its task's job on a CPU ends queues with the others, or keeps the CPU",
};

/// Whether the setting `successor` is `keep`; false for a policy without the setting. O(settings).
#[must_use]
pub fn keeps_cpu(spec: &PolicySpec) -> bool {
    spec.profile.settings.iter().any(|setting| setting.name == SUCCESSOR.name) && spec.value(SUCCESSOR.name) == Some(1)
}

/// The scopes of every ordering.
pub const SCOPES: &[Scope] = &[Scope::Uniprocessor, Scope::Global, Scope::Partitioned, Scope::Clustered];

/// Builds the policy for an ordering under the scope that `build` names: what an [`Entry`](crate::policy::Entry) has as its builder.
///
/// # Errors
/// A uniprocessor scope over several CPUs, and a task that may run on none of the CPUs lent where each task has a home.
pub fn build<O: Ordering>(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    if !cfg!(feature = "multiprocessor") {
        return build_one_queue::<O>(build);
    }
    check(build)?;
    let cluster = |index, tasks: Vec<TaskId>, places: &[Place]| Cluster::new(build, index, &tasks, places);
    Ok(Box::new(Scoped::<O>::new(build, Clusters::new(build, cluster))))
}

/// The same where one queue serves all CPUs, as under the uniprocessor and global scopes. Programs that need no other carry no placement
/// of tasks, which is two thirds of [`build`].
///
/// # Errors
/// Those of [`build`], and another scope.
pub fn build_one_queue<O: Ordering>(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    if !matches!(build.spec.scope, Scope::Uniprocessor | Scope::Global) {
        return Err(Invalid::Unsuitable("this form of the policy places no tasks: it is uniprocessor or global"));
    }
    check(build)?;
    let cluster = Cluster::new(build, 0, build.tasks, build.places);
    Ok(Box::new(Scoped::<O>::new(build, Clusters::one(build, cluster))))
}

/// Whether the scope that `build` names suits its CPUs and tasks.
///
/// # Errors
/// A uniprocessor scope over several CPUs, and a task that may run on none of the CPUs lent where each task has a home.
pub(crate) fn check(build: &Build<'_>) -> Result<(), Invalid> {
    match build.spec.scope {
        Scope::Uniprocessor if build.places.len() > 1 => {
            return Err(Invalid::Unsuitable(
                "this policy is for one CPU; use its global (g-), partitioned (p-) or clustered (c-) form",
            ));
        }
        Scope::Uniprocessor | Scope::Global => {}
        Scope::Partitioned | Scope::Clustered => {
            let all: Vec<usize> = build.system.cpus.iter().collect();
            let cpus: CpuSet = build.places.iter().map(|p| all[p.index()]).collect();
            let homeless = |t: &&TaskId| build.system.tasks[t.index()].affinity.is_disjoint(&cpus);
            // A partition that no window names is lent nothing at all, which is for the table check to say.
            if let Some(&task) = build.tasks.iter().find(homeless).filter(|_| !cpus.is_empty()) {
                return Err(Invalid::Affinity(task));
            }
        }
        Scope::Table => return Err(Invalid::Unsuitable("an ordering is not a table")),
    }
    Ok(())
}

/// Some CPUs and the tasks that are at home there.
struct Cluster {
    ready: ReadyQueue,
    mapper: Mapper,
    /// For orderings that follow it: the jobs that the last decision chose and that have been ready ever since. Before the first
    /// decision, all that ran when the policy took over, which may be more than there are CPUs. Without preemption all that were
    /// ever chosen and have been ready ever since, also where their CPU was taken from under them.
    running: Vec<TaskId>,
    alarm: Alarm,
    /// How many CPUs it has, and whether one job that comes moves no other.
    cpus: usize,
    #[cfg(feature = "order")]
    places: Vec<Place>,
    /// The blocked jobs, where they would queue.
    #[cfg(feature = "order")]
    blocked: ReadyQueue,
    one_by_one: bool,
    /// The changes since its last decision, and the number of the one that follows that.
    news: News,
    next: u64,
    /// Whether it is among [`Scoped::touched`].
    touched: bool,
}

/// The changes among the most urgent jobs of a cluster, as many as it has CPUs, since it decided.
#[derive(Clone, Copy)]
struct News {
    changes: u32,
    /// The last change, by task numbers: one job comes, one leaves, or both.
    comes: u32,
    leaves: u32,
}

impl News {
    const NONE: News = News { changes: 0, comes: NO_TASK, leaves: NO_TASK };
}

/// No task has this number. An option of a number would take twice the room.
const NO_TASK: u32 = u32::MAX;

impl Cluster {
    fn new(build: &Build<'_>, index: usize, tasks: &[TaskId], places: &[Place]) -> Cluster {
        let mapper = Mapper::new(build, tasks, places);
        Cluster {
            ready: ReadyQueue::new(tasks.len()),
            one_by_one: mapper.seats_one_by_one(),
            mapper,
            running: Vec::with_capacity(tasks.len()),
            alarm: Alarm::new(build.timer(index)),
            cpus: places.len(),
            #[cfg(feature = "order")]
            places: places.to_vec(),
            #[cfg(feature = "order")]
            blocked: ReadyQueue::new(tasks.len()),
            news: News::NONE,
            next: NEVER,
            touched: false,
        }
    }

    /// A job is ready.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn add(&mut self, task: TaskId, urgency: Urgency) {
        self.is_not_blocked(task);
        if self.ready.insert(urgency.key(task)) < self.cpus {
            let leaves = self.ready.as_slice().get(self.cpus).map_or(NO_TASK, |key| key.task.0);
            self.note(task.0, leaves);
        }
    }

    /// The task has no blocked job.
    #[inline]
    fn is_not_blocked(&mut self, task: TaskId) {
        #[cfg(feature = "order")]
        if !self.blocked.as_slice().is_empty() {
            self.blocked.remove(task);
        }
        #[cfg(not(feature = "order"))]
        let _ = task;
    }

    /// A job is not ready any more. Returns whether it was.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn take(&mut self, task: TaskId) -> bool {
        let Some(ahead) = self.ready.remove(task) else { return false };
        if ahead < self.cpus {
            let comes = self.ready.as_slice().get(self.cpus - 1).map_or(NO_TASK, |key| key.task.0);
            self.note(comes, task.0);
        }
        true
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn note(&mut self, comes: u32, leaves: u32) {
        self.news = News { changes: self.news.changes + 1, comes, leaves };
    }

    /// Moves a job within the ready queue, if it is there.
    fn place(&mut self, task: TaskId, urgency: Urgency) {
        if self.take(task) {
            self.add(task, urgency);
        }
    }

    /// The change, if it is one job at most, and the last decision about all of its CPUs stands.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn exchange(&mut self, group: &[Place], cx: &Context<'_>) -> Option<Exchange> {
        let round = cx.round();
        let stands = self.next == round && group.len() == self.cpus && cx.stands();
        if !stands || !self.one_by_one || self.news.changes > 1 {
            return None;
        }
        self.next = round + 1;
        let News { comes, leaves, .. } = core::mem::replace(&mut self.news, News::NONE);
        let task = |number: u32| (number != NO_TASK).then_some(TaskId(number));
        let (comes, leaves) = (task(comes), task(leaves));
        let seated = |task| (task, self.mapper.seat(task, leaves, group, cx));
        Some(Exchange { leaves, comes: comes.map(seated) })
    }

    /// Decides by what has changed, if that is enough.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn decide_changes(&mut self, group: &[Place], cx: &Context<'_>, decision: &mut Decision) -> bool {
        if decision.takes_changes()
            && let Some(exchange) = self.exchange(group, cx)
        {
            decision.exchange(group, exchange);
            return true;
        }
        self.news = News::NONE;
        self.next = if group.len() == self.cpus { cx.round() + 1 } else { NEVER };
        false
    }
}

/// No decision has this number.
const NEVER: u64 = u64::MAX;

/// An ordering, spread over clusters of CPUs.
pub(crate) struct Scoped<O> {
    ordering: O,
    tasks: Vec<TaskId>,
    clusters: Clusters<Cluster>,
    /// Where there are several clusters: those whose queues have changed since the last decision, and the number of the decision that follows that,
    /// if it was about all CPUs.
    touched: Vec<u16>,
    next: u64,
    first_timer: u16,
    sharing: Option<Sharing>,
    /// The task whose job on a CPU has ended since the last event of another job, and how urgent that was: for [`Ordering::keeps_cpu`].
    over: Option<(TaskId, Urgency)>,
}

impl<O: Ordering> Scoped<O> {
    const CONSISTENT: () = {
        assert!(
            O::TRACKS_RUNNING || (O::PREEMPTIVE && !O::TIMED),
            "an ordering that is not preemptive or has a timer TRACKS_RUNNING"
        );
        assert!(O::TIMED || !O::PROMOTES, "an ordering that PROMOTES is TIMED");
    };

    fn new(build: &Build<'_>, clusters: Clusters<Cluster>) -> Self {
        let () = Self::CONSISTENT;
        Scoped {
            ordering: O::new(build),
            tasks: build.tasks.to_vec(),
            touched: Vec::with_capacity(clusters.len()),
            next: NEVER,
            clusters,
            first_timer: build.first_timer,
            sharing: Sharing::new(build),
            over: None,
        }
    }

    /// The home cluster of a task, whose queue is about to change.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn touch<'a>(clusters: &'a mut Clusters<Cluster>, touched: &mut Vec<u16>, task: TaskId) -> &'a mut Cluster {
        if clusters.len() == 1 {
            return &mut clusters[0];
        }
        let home = clusters.home(task);
        let cluster = &mut clusters[home];
        if !core::mem::replace(&mut cluster.touched, true) {
            touched.push(home as u16);
        }
        cluster
    }

    /// The task's job has become ready.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn enter(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let release = cx.release_of(task).expect("a ready task has a job");
        let own = Urgency { rank: self.ordering.rank(task, cx), release };
        self.enter_as(task, own, cx);
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn enter_as(&mut self, task: TaskId, mut urgency: Urgency, cx: &mut Context<'_>) {
        if let Some(sharing) = &mut self.sharing {
            sharing.set_own(task, urgency);
            sharing.refresh(task, cx);
            urgency = sharing.effective(task);
        }
        Self::touch(&mut self.clusters, &mut self.touched, task).add(task, urgency);
    }

    /// How urgent the task's ready job is without resources.
    fn own_urgency(&self, task: TaskId) -> Option<Urgency> {
        let ready = self.clusters[self.clusters.home(task)].ready.as_slice();
        let queued = ready.iter().find(|key| key.task == task)?;
        let effective = Urgency { rank: queued.rank, release: queued.release };
        Some(self.sharing.as_ref().map_or(effective, |sharing| sharing.own(task)))
    }

    /// The task's job, which had this urgency, is blocked.
    #[cfg(feature = "order")]
    fn blocks(&mut self, task: TaskId, own: Urgency, cx: &Context<'_>) {
        let own = self.ordering.rerank(task, false, cx).unwrap_or(own);
        let queued = if O::WAKES_LAST { Urgency { rank: i64::MAX, ..own } } else { own };
        self.clusters.of(task).blocked.insert(queued.key(task));
    }

    /// The task's job is over or blocked.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn leave(&mut self, task: TaskId) {
        let cluster = Self::touch(&mut self.clusters, &mut self.touched, task);
        cluster.take(task);
        cluster.is_not_blocked(task);
        if O::TRACKS_RUNNING {
            cluster.running.retain(|t| *t != task);
        }
    }

    /// Ranks a job again.
    fn rank_again(&mut self, task: TaskId, own: Urgency, cx: &mut Context<'_>) {
        match &mut self.sharing {
            None => Self::touch(&mut self.clusters, &mut self.touched, task).place(task, own),
            Some(sharing) => {
                sharing.set_own(task, own);
                self.settle(task, cx);
            }
        }
    }

    /// Brings the task's urgency up to date, and if it changes, that of whom the task waits for, and so on.
    fn settle(&mut self, mut task: TaskId, cx: &mut Context<'_>) {
        let Some(sharing) = &mut self.sharing else { return };
        // The bound ends a walk around a cycle of jobs that wait for each other.
        for _ in 0..self.tasks.len() {
            if !sharing.refresh(task, cx) {
                return;
            }
            Self::touch(&mut self.clusters, &mut self.touched, task).place(task, sharing.effective(task));
            match cx.waits_for(task).and_then(|r| sharing.holder(r, cx)) {
                Some(holder) => task = holder,
                None => return,
            }
        }
    }

    /// The task waits for nothing any more: who held that may be less urgent now.
    #[inline]
    fn waits_no_longer(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let Some(sharing) = &mut self.sharing else { return };
        if let Some(holder) = sharing.waits(task, None).and_then(|r| sharing.holder(r, cx)) {
            self.settle(holder, cx);
        }
    }

    /// The task has got a resource, or has to wait for it.
    fn request(&mut self, task: TaskId, resource: ResourceId, granted: bool, cx: &mut Context<'_>) {
        let Some(sharing) = &mut self.sharing else { return };
        if granted {
            sharing.waits(task, None);
            if sharing.wants_ceiling(resource) {
                // Under a rank that changes while a job runs, the ceiling is also what the job had when it locked.
                let users = cx.users(resource).iter().filter(|t| sharing.is_mine(**t));
                let ranks = users.map(|t| self.ordering.if_released_now(*t, cx));
                let rank = ranks.fold(sharing.own(task).rank, i64::min);
                sharing.set_ceiling(resource, Some(Urgency { rank, release: AHEAD }));
            }
            self.settle(task, cx);
        } else {
            sharing.waits(task, Some(resource));
            if let Some(holder) = sharing.holder(resource, cx) {
                self.settle(holder, cx);
            }
        }
    }

    /// The timer of a cluster is due: jobs whose turn is over queue again.
    fn timer(&mut self, cluster: usize, cx: &mut Context<'_>) {
        self.clusters[cluster].alarm.clear();
        // The first in turn queues first.
        for _ in 0..self.clusters[cluster].running.len() {
            let Some(task) = self.first_turn_over(cluster, cx) else { break };
            let urgency = self.ordering.requeue(task, cx);
            self.rank_again(task, urgency, cx);
        }
        if O::PROMOTES {
            self.promote(cluster, cx);
        }
    }

    /// The first in the queue of the running jobs whose turn is over.
    fn first_turn_over(&self, cluster: usize, cx: &Context<'_>) -> Option<TaskId> {
        let mut over = self.clusters[cluster].running.iter().copied().filter(|t| self.ordering.turn_is_over(*t, cx));
        let first = over.next()?;
        let Some(second) = over.next() else { return Some(first) };
        let key = |task: &TaskId| self.own_urgency(*task).map(|urgency| urgency.key(*task));
        [first, second].into_iter().chain(over).min_by_key(key)
    }

    /// Jobs that wait may rank higher by now. Those that do move forward, so that none is passed over.
    fn promote(&mut self, cluster: usize, cx: &mut Context<'_>) {
        let mut index = 0;
        while let Some(&Key { task, .. }) = self.clusters[cluster].ready.as_slice().get(index) {
            index += 1;
            if !self.clusters[cluster].running.contains(&task)
                && let Some(rank) = self.ordering.promoted(task, cx)
                && let Some(own) = self.own_urgency(task)
            {
                self.rank_again(task, Urgency { rank, ..own }, cx);
            }
        }
    }

    /// Before a decision: jobs that run may rank otherwise by now.
    fn rerank_running(&mut self, cluster: usize, cx: &mut Context<'_>) {
        for index in 0..self.clusters[cluster].running.len() {
            let task = self.clusters[cluster].running[index];
            if let Some(urgency) = self.ordering.rerank(task, true, cx) {
                self.rank_again(task, urgency, cx);
            }
        }
    }

    /// The change, if it is one job of one of several clusters at most, and the last decision about all CPUs stands.
    #[inline(never)]
    fn exchange_one(&mut self, lent: &[Place], cx: &Context<'_>) -> Option<Exchange> {
        let round = cx.round();
        let stands = self.next == round && self.clusters.are_all_of(lent) && cx.stands();
        if !stands || self.touched.len() > 1 {
            return None;
        }
        let mut exchange = Exchange::default();
        if let Some(&index) = self.touched.first() {
            let index = usize::from(index);
            let group = self.clusters.places_of(index, lent);
            let cluster = &mut self.clusters[index];
            // It has kept its CPUs in the decisions that left it out.
            cluster.next = round;
            exchange = cluster.exchange(group, cx)?;
            cluster.touched = false;
            self.touched.clear();
        }
        self.next = round + 1;
        Some(exchange)
    }

    /// Says who runs in each cluster.
    #[inline(never)]
    fn decide_each(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let (round, all) = (cx.round(), self.clusters.are_all_of(lent));
        let stands = self.next == round;
        self.next = if all { round + 1 } else { NEVER };
        if stands && all && self.decide_touched(lent, cx, decision) {
            return;
        }
        if stands {
            self.clusters.iter_mut().for_each(|cluster| cluster.next = round);
        }
        for index in self.touched.drain(..) {
            self.clusters[usize::from(index)].touched = false;
        }
        let mut rest = lent;
        while let Some((cluster, group, others)) = self.clusters.split(rest) {
            rest = others;
            if O::TRACKS_RUNNING {
                self.rerank_running(cluster, cx);
            } else if O::PREEMPTIVE && self.clusters[cluster].decide_changes(group, cx, decision) {
                continue;
            }
            self.decide_whole(cluster, group, cx, decision);
        }
        if O::TRACKS_RUNNING && lent.len() < self.clusters.iter().map(|cluster| cluster.cpus).sum() {
            self.displace_others(lent, cx);
        }
    }

    /// Decides by what has changed in the clusters that were touched, if that is one job of each at most, and the last decision about all CPUs stands.
    /// O(clusters touched × log), and a copy of the CPUs unless they are all of the machine.
    fn decide_touched(&mut self, lent: &[Place], cx: &Context<'_>, decision: &mut Decision) -> bool {
        if !O::PREEMPTIVE || O::TRACKS_RUNNING || !decision.takes_changes() || !cx.stands() {
            return false;
        }
        let Scoped { clusters, touched, .. } = self;
        let is_simple = |index: &u16| {
            let cluster = &clusters[usize::from(*index)];
            cluster.one_by_one && cluster.news.changes <= 1
        };
        if !touched.iter().all(is_simple) {
            return false;
        }
        decision.keep(lent, None);
        touched.sort_unstable();
        for index in touched.drain(..).map(usize::from) {
            let group = clusters.places_of(index, lent);
            let cluster = &mut clusters[index];
            cluster.touched = false;
            // It has kept its CPUs in the decisions that left it out.
            cluster.next = cx.round();
            let exchange = cluster.exchange(group, cx).expect("the cluster was looked at");
            decision.exchange_on_kept(exchange);
        }
        true
    }

    /// The jobs of clusters that are lent no CPU do not run.
    fn displace_others(&mut self, lent: &[Place], cx: &mut Context<'_>) {
        for cluster in 0..self.clusters.len() {
            let is_lent = lent.iter().any(|place| self.clusters.at(*place) == cluster);
            if !is_lent && !self.clusters[cluster].running.is_empty() {
                self.follow(cluster, &[], cx);
            }
        }
    }

    /// Assigns the jobs that run in a cluster, whatever ran before.
    #[inline(never)]
    fn decide_whole(&mut self, cluster: usize, group: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let before = decision.assignments().len();
        let Cluster { ready, mapper, running, .. } = &mut self.clusters[cluster];
        let waiting = ready.as_slice().iter().map(|key| key.task);
        if O::PREEMPTIVE {
            mapper.map(waiting, group, cx, decision);
        } else {
            let others = waiting.filter(|t| !running.contains(t));
            mapper.map(running.iter().copied().chain(others), group, cx, decision);
        }
        if O::TRACKS_RUNNING {
            self.follow(cluster, &decision.assignments()[before..], cx);
        }
    }

    /// After a decision: who was displaced may rank otherwise, and the ordering says when it wants to be asked again.
    fn follow(&mut self, cluster: usize, chosen: &[Assignment], cx: &mut Context<'_>) {
        for index in 0..self.clusters[cluster].running.len() {
            let task = self.clusters[cluster].running[index];
            if chosen.iter().all(|a| a.task != task)
                && let Some(urgency) = self.ordering.rerank(task, false, cx)
            {
                self.rank_again(task, urgency, cx);
            }
        }
        let Cluster { ready, running, alarm, .. } = &mut self.clusters[cluster];
        if O::PREEMPTIVE {
            running.clear();
        }
        for assignment in chosen {
            if O::PREEMPTIVE || !running.contains(&assignment.task) {
                running.push(assignment.task);
            }
        }
        if O::TIMED {
            let wanted = self.ordering.alarm(running, ready.as_slice(), cx);
            alarm.set(wanted, cx);
        }
    }

    /// Works out every urgency from the engine's state.
    fn take_over_resources(&mut self, cx: &mut Context<'_>) {
        let Some(sharing) = &mut self.sharing else { return };
        for &task in &self.tasks {
            if let Some(job) = cx.job(task) {
                let rank = self.ordering.rank(task, cx);
                sharing.set_own(task, Urgency { rank, release: job.release });
            }
        }
        for resource in (0..cx.system().resources).map(ResourceId) {
            let Some(sharing) = &mut self.sharing else { return };
            sharing.set_ceiling(resource, None);
            if let Some(holder) = sharing.holder(resource, cx) {
                self.request(holder, resource, true, cx);
            }
        }
        for index in 0..self.tasks.len() {
            let task = self.tasks[index];
            if let Some(sharing) = &mut self.sharing {
                sharing.waits(task, cx.waits_for(task));
            }
            self.settle(task, cx);
        }
    }

    /// A job is released while [`Scoped::over`] is set.
    #[cold]
    fn succeed(&mut self, task: TaskId, cx: &mut Context<'_>) {
        match self.over.take().filter(|(last, _)| *last == task) {
            None => self.enter(task, cx),
            Some((_, urgency)) if O::PREEMPTIVE => self.enter_as(task, urgency, cx),
            Some(_) => {
                self.enter(task, cx);
                self.clusters.of(task).running.push(task);
            }
        }
    }

    /// An event other than a release and the end of a job.
    #[inline(never)]
    fn rarer_event(&mut self, event: &Event, cx: &mut Context<'_>) {
        match *event {
            Event::Wake { task } => {
                // Its request for a resource may have been withdrawn.
                if cfg!(feature = "withdrawals") {
                    self.waits_no_longer(task, cx);
                }
                self.enter(task, cx);
            }
            Event::Block { task, .. } => {
                #[cfg(feature = "order")]
                let queued = self.own_urgency(task);
                self.leave(task);
                #[cfg(feature = "order")]
                if let Some(own) = queued {
                    self.blocks(task, own, cx);
                }
                // The holder of the resource for which it waits shall not inherit what it had because it ran.
                if O::TRACKS_RUNNING
                    && let Some(urgency) = self.ordering.rerank(task, false, cx)
                {
                    self.rank_again(task, urgency, cx);
                }
            }
            Event::Handler { task, .. } => {
                self.leave(task);
                self.waits_no_longer(task, cx);
                self.enter(task, cx);
            }
            Event::Yield { task, .. } => {
                if O::TRACKS_RUNNING {
                    self.clusters.of(task).running.retain(|t| *t != task);
                }
                let urgency = self.ordering.requeue(task, cx);
                self.rank_again(task, urgency, cx);
            }
            Event::Lock { task, resource, granted } => self.request(task, resource, granted, cx),
            Event::Unlock { task, resource } => {
                if let Some(sharing) = &mut self.sharing {
                    sharing.set_ceiling(resource, None);
                    self.settle(task, cx);
                }
            }
            Event::Timer { timer, .. } => self.timer(usize::from(timer - self.first_timer), cx),
            Event::Changed { task } if O::BY_TERMS => {
                let own = match &self.sharing {
                    // A job that waits for a resource is not queued, and the holder inherits its urgency.
                    Some(sharing) => cx.job(task).map(|_| sharing.own(task)),
                    None => self.own_urgency(task),
                };
                if let Some(own) = own {
                    let rank = self.ordering.rank(task, cx);
                    self.rank_again(task, Urgency { rank, ..own }, cx);
                }
            }
            Event::BudgetExpired { .. }
            | Event::Deadline { .. }
            | Event::Changed { .. }
            | Event::Exit { .. }
            | Event::Release { .. }
            | Event::Finish { .. } => {}
        }
    }
}

/// Before the release of any job: who holds a ceiling runs before others of the same rank.
const AHEAD: Time = Time::from_ns(-1);

impl<O: Ordering> Policy for Scoped<O> {
    fn start(&mut self, cx: &mut Context<'_>) {
        for cluster in self.clusters.iter_mut() {
            cluster.ready.clear();
            #[cfg(feature = "order")]
            cluster.blocked.clear();
            cluster.running.clear();
            cluster.alarm.clear();
            cluster.next = NEVER;
        }
        self.next = NEVER;
        self.take_over_resources(cx);
        // A running job was first, for orderings that go by that.
        for running in [true, false] {
            for index in 0..self.tasks.len() {
                let task = self.tasks[index];
                if cx.is_ready(task) && running == (cx.place_of(task).is_some() && !cx.is_fresh(task)) {
                    self.enter(task, cx);
                    let cluster = self.clusters.of(task);
                    if O::TRACKS_RUNNING && running {
                        cluster.running.push(task);
                    }
                }
            }
            self.ordering.decided();
        }
        #[cfg(feature = "order")]
        for index in 0..self.tasks.len() {
            let task = self.tasks[index];
            if let Some(job) = cx.job(task).filter(|job| !job.ready) {
                let own = Urgency { rank: self.ordering.rank(task, cx), release: job.release };
                self.blocks(task, own, cx);
            }
        }
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        match *event {
            Event::Release { task, .. } => {
                cx.grant_own(task);
                if self.over.is_none() {
                    self.enter(task, cx);
                } else {
                    self.succeed(task, cx);
                }
            }
            Event::Finish { task, .. } => {
                if self.ordering.keeps_cpu() && cx.place_of(task).is_some() {
                    self.over = self.own_urgency(task).map(|urgency| (task, urgency));
                }
                self.leave(task);
                if self.sharing.is_some() {
                    self.waits_no_longer(task, cx);
                }
            }
            _ => self.rarer_event(event, cx),
        }
    }

    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn exchange(&mut self, lent: &[Place], cx: &mut Context<'_>) -> Option<Exchange> {
        if !cfg!(target_pointer_width = "64") || !O::PREEMPTIVE || O::TRACKS_RUNNING {
            return None;
        }
        let exchange = match &mut *self.clusters {
            [cluster] => cluster.exchange(lent, cx)?,
            _ => self.exchange_one(lent, cx)?,
        };
        self.over = None;
        self.ordering.decided();
        Some(exchange)
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        if O::PREEMPTIVE
            && !O::TRACKS_RUNNING
            && let [cluster] = &mut *self.clusters
        {
            if !cluster.decide_changes(lent, cx, decision) {
                self.decide_whole(0, lent, cx, decision);
            }
        } else {
            self.decide_each(lent, cx, decision);
        }
        self.over = None;
        self.ordering.decided();
    }

    fn any_mut(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }

    fn passes_changes(&self) -> bool {
        true
    }

    fn home(&self, task: TaskId) -> Option<Place> {
        self.clusters.first_cpu(task)
    }

    /// Without preemption a job that wakes up does not displace the one that runs, whatever their order.
    #[cfg(feature = "order")]
    fn order(&self, cx: &Context<'_>, show: &mut dyn FnMut(Standing<'_>)) {
        for cluster in self.clusters.iter().filter(|_| O::PREEMPTIVE) {
            for key in merged(cluster.ready.as_slice().iter().copied(), cluster.blocked.as_slice().iter().copied()) {
                let limit = cx.budget_left(key.task).into_iter().chain(self.ordering.turn()).min();
                show(Standing { task: key.task, places: &cluster.places, limit });
            }
        }
    }

    fn timers(&self) -> u16 {
        if O::TIMED { self.clusters.len() as u16 } else { 0 }
    }

    fn configure(&mut self, spec: &PolicySpec, _: &mut Context<'_>) -> bool {
        self.ordering.configure(spec)
    }
}
