//! All servers of a policy, and the clusters of CPUs that they share.

use super::server::Server;
use crate::model::{Invalid, Reservation, TaskId};
use crate::policies::mapping::Mapper;
use crate::policies::scope::{Clusters, share};
#[cfg(feature = "order")]
use crate::policy::Standing;
use crate::policy::{Alarm, Build, Context, Decision};
#[cfg(feature = "order")]
use crate::queue::merged;
use crate::queue::{Agenda, Key, ReadyQueue};
use crate::record::Place;
use crate::time::{Span, Time};
use crate::work::Work;
use alloc::vec;
use alloc::vec::Vec;

/// Some CPUs and the servers that are at home there.
struct Cluster {
    cpus: usize,
    tasks: Vec<TaskId>,
    /// Jobs that may run, by the deadlines of their servers.
    ready: ReadyQueue,
    #[cfg(feature = "order")]
    places: Vec<Place>,
    /// Blocked jobs, by the deadlines that their servers had when they blocked.
    #[cfg(feature = "order")]
    blocked: ReadyQueue,
    /// Jobs that could run if their servers had a budget, which they get by the rule only.
    held: ReadyQueue,
    mapper: Mapper,
    /// The task that was chosen last.
    running: Vec<TaskId>,
    /// By [`Server::slot`]: until when a server is throttled, or what else its rule waits for.
    alarms: Agenda,
    alarm: Alarm,
    /// How fast budgets drain, in parts of a nanosecond for each nanosecond.
    rate: i128,
}

impl Cluster {
    fn new(build: &Build<'_>, index: usize, tasks: Vec<TaskId>, places: &[Place], servers: &mut [Server]) -> Cluster {
        for (slot, task) in tasks.iter().enumerate() {
            let server = &mut servers[task.index()];
            (server.timed_by, server.slot) = (index, slot);
        }
        Cluster {
            cpus: places.len(),
            ready: ReadyQueue::new(tasks.len()),
            #[cfg(feature = "order")]
            places: places.to_vec(),
            #[cfg(feature = "order")]
            blocked: ReadyQueue::new(tasks.len()),
            held: ReadyQueue::new(tasks.len()),
            mapper: Mapper::new(build, &tasks, places),
            running: Vec::with_capacity(places.len()),
            alarms: Agenda::new(tasks.len()),
            alarm: Alarm::new(build.timer(index)),
            rate: 1,
            tasks,
        }
    }
}

/// The servers of a policy.
pub(super) struct Servers {
    /// Budgets are counted in so many parts of a nanosecond.
    pub(super) unit: i128,
    pub(super) tasks: Vec<TaskId>,
    /// By task of the system; only those of `tasks` mean something.
    servers: Vec<Server>,
    clusters: Clusters<Cluster>,
    first_timer: u16,
}

impl Servers {
    pub(super) fn new(build: &Build<'_>) -> Result<Servers, Invalid> {
        let mut servers = vec![Server::NEW; build.system.tasks.len()];
        for &task in build.tasks {
            let reserved = build.system.tasks[task.index()].reserved();
            let reserved = reserved.ok_or(Invalid::Needs(task, "reservation"))?;
            servers[task.index()].reset(reserved, 1);
        }
        let needs = |task: TaskId| {
            let reserved = build.system.tasks[task.index()].reserved();
            reserved.map_or(0, |r| share(r.budget, r.relative_deadline()))
        };
        let clusters = Clusters::packed(build, needs, |index, tasks, places| {
            Cluster::new(build, index, tasks, places, &mut servers)
        });
        let (unit, tasks, first_timer) = (1, build.tasks.to_vec(), build.first_timer);
        Ok(Servers { unit, tasks, servers, clusters, first_timer })
    }

    /// Has tasks at home in all the clusters that they visit, as [`Clusters::visited`] has it.
    pub(super) fn route(&mut self, build: &Build<'_>, visits: impl Fn(TaskId, usize, &[Place]) -> bool) {
        self.clusters = Clusters::visited(build, visits, |index, tasks, places| {
            Cluster::new(build, index, tasks, places, &mut self.servers)
        });
    }

    /// From now on the server, which is not queued, is at home in the cluster of this CPU.
    pub(super) fn move_to(&mut self, task: TaskId, place: Place) {
        self.clusters.move_to(task, place);
    }

    pub(super) fn get(&self, task: TaskId) -> &Server {
        &self.servers[task.index()]
    }
    pub(super) fn get_mut(&mut self, task: TaskId) -> &mut Server {
        &mut self.servers[task.index()]
    }
    /// The cluster that the task's server is at home in.
    pub(super) fn home(&self, task: TaskId) -> usize {
        self.clusters.home(task)
    }
    /// The first CPU of that cluster.
    pub(super) fn first_cpu(&self, task: TaskId) -> Option<Place> {
        self.clusters.first_cpu(task)
    }
    pub(super) fn clusters(&self) -> usize {
        self.clusters.len()
    }
    pub(super) fn cpus(&self, cluster: usize) -> usize {
        self.clusters[cluster].cpus
    }
    /// The task that was chosen last in a cluster.
    pub(super) fn running(&self, cluster: usize) -> &[TaskId] {
        &self.clusters[cluster].running
    }
    /// The servers of a cluster that may run, by deadline.
    pub(super) fn ready(&self, cluster: usize) -> impl Iterator<Item = TaskId> + '_ {
        self.clusters[cluster].ready.as_slice().iter().map(|key| key.task)
    }

    /// Those that are held, by deadline.
    pub(super) fn held(&self, cluster: usize) -> impl Iterator<Item = TaskId> + '_ {
        self.clusters[cluster].held.as_slice().iter().map(|key| key.task)
    }

    /// Forgets everything but what is reserved now.
    pub(super) fn reset(&mut self, cx: &Context<'_>) {
        for index in 0..self.tasks.len() {
            let (task, unit) = (self.tasks[index], self.unit);
            if let Some(reserved) = cx.agreed(task).reserved() {
                self.get_mut(task).reset(reserved, unit);
            }
        }
        for cluster in self.clusters.iter_mut() {
            cluster.ready.clear();
            #[cfg(feature = "order")]
            cluster.blocked.clear();
            cluster.held.clear();
            cluster.running.clear();
            (0..cluster.tasks.len()).for_each(|slot| cluster.alarms.remove(slot));
        }
    }

    /// Takes over what is reserved for the task now, for its next budget. Those that it has have deadlines `until` then.
    pub(super) fn retune(&mut self, task: TaskId, until: Time, cx: &Context<'_>) {
        if let Some(reserved) = cx.agreed(task).reserved() {
            self.get_mut(task).retune(reserved, until, cx.now());
        }
    }

    /// Whether this reservation is no larger than the present one, or the CPUs of the cluster have room for all reservations with it:
    /// the sum of their shares, each rounded down to 2^-62 of a CPU. A task that is gone may come back, so it keeps its own.
    /// O(servers of the cluster).
    pub(super) fn has_room(&self, task: TaskId, wanted: Reservation, now: Time) -> bool {
        let (cluster, new) =
            (&self.clusters[self.clusters.home(task)], share(wanted.budget, wanted.relative_deadline()));
        let claim = |task: &TaskId| self.get(*task).claim(now);
        let others = cluster.tasks.iter().filter(|t| **t != task).map(claim);
        new <= claim(&task) || others.sum::<i128>() + new <= (cluster.cpus as i128) << 62
    }

    fn rate(&self, task: TaskId) -> i128 {
        self.clusters[self.clusters.home(task)].rate.max(self.get(task).least_rate)
    }

    /// From now on the budgets of a cluster drain at this rate, but each at its own least rate.
    pub(super) fn set_rate(&mut self, cluster: usize, rate: i128, cx: &Context<'_>) {
        for index in 0..self.clusters[cluster].running.len() {
            self.sync(self.clusters[cluster].running[index], cx);
        }
        self.clusters[cluster].rate = rate;
    }

    /// The task's job has consumed so much by now.
    pub(super) fn charge(&mut self, task: TaskId, consumed: Work) {
        let spent = i128::from((consumed - self.get(task).mark).ns()) * self.rate(task);
        // Less than before is the next job, or the handler, of which the policy is yet to be told.
        if spent > 0 {
            let server = self.get_mut(task);
            (server.left, server.mark) = (server.left - spent, consumed);
        }
    }

    /// Brings the rest of a running server's budget up to now.
    pub(super) fn sync(&mut self, task: TaskId, cx: &Context<'_>) {
        if let Some(job) = cx.job(task) {
            self.charge(task, job.consumed);
        }
    }

    /// Whether the budget is exhausted: less than a nanosecond is left.
    pub(super) fn is_used_up(&self, task: TaskId) -> bool {
        self.get(task).left < self.rate(task)
    }

    /// Budget and deadline of the next period; a hard server that comes too late for that begins again now.
    pub(super) fn replenish(&mut self, task: TaskId, hard: bool, now: Time) {
        let (least, unit) = (self.rate(task), self.unit);
        let server = self.get_mut(task);
        // A part of a nanosecond that was too short to run is not added to the next period, whose demand is Q.
        server.left = server.left.min(0);
        server.postpone(least, unit);
        if hard && server.deadline < now {
            server.renew(now, unit);
        }
    }

    /// The server waits for its next period.
    pub(super) fn throttle(&mut self, task: TaskId) {
        self.leave(task);
        let server = self.get_mut(task);
        server.throttled = true;
        let until = server.next_period();
        self.set_alarm(task, Some(until));
    }

    /// The server has no budget until the rule gives it one.
    pub(super) fn hold(&mut self, task: TaskId, cx: &Context<'_>) {
        self.leave(task);
        self.get_mut(task).throttled = true;
        let (rank, release) = (self.get(task).deadline.ns(), cx.job(task).expect("a busy server has a job").release);
        self.clusters.of(task).held.insert(Key { rank, release, task });
    }

    /// Queues the server, or moves it to where its deadline puts it now.
    pub(super) fn rank(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let release = cx.job(task).expect("a busy server has a job").release;
        self.queue(task, release, cx);
    }

    /// The server's job lets others of the same deadline run.
    pub(super) fn yields(&mut self, task: TaskId, cx: &mut Context<'_>) {
        if self.clusters.of(task).ready.remove(task).is_some() {
            self.queue(task, cx.now(), cx);
        }
    }

    fn queue(&mut self, task: TaskId, release: Time, cx: &mut Context<'_>) {
        let rank = self.get(task).deadline.ns();
        cx.set_urgency(task, rank);
        let cluster = self.clusters.of(task);
        cluster.ready.remove(task);
        cluster.ready.insert(Key { rank, release, task });
    }

    /// The server cannot run any more, or is no longer held.
    pub(super) fn leave(&mut self, task: TaskId) {
        let cluster = self.clusters.of(task);
        cluster.ready.remove(task);
        if cluster.held.remove(task).is_some() {
            self.get_mut(task).throttled = false;
        }
    }

    /// Has the rule, or the end of throttling, called at an instant.
    pub(super) fn set_alarm(&mut self, task: TaskId, at: Option<Time>) {
        let Server { timed_by, slot, .. } = *self.get(task);
        self.clusters[timed_by].alarms.set(slot, at.unwrap_or(Time::MAX));
    }

    /// A server of the cluster whose alarm is due, which is taken off.
    pub(super) fn next_alarm(&mut self, cluster: usize, now: Time) -> Option<TaskId> {
        let Cluster { alarms, tasks, alarm, .. } = &mut self.clusters[cluster];
        alarm.passed(now);
        let (_, slot) = alarms.first().filter(|(at, _)| *at <= now)?;
        alarms.remove(slot);
        Some(tasks[slot])
    }

    /// Sets the timers to the first alarms. O(clusters).
    pub(super) fn arm_timers(&mut self, cx: &mut Context<'_>) {
        for cluster in self.clusters.iter_mut() {
            cluster.alarm.set(cluster.alarms.first().map(|(at, _)| at), cx);
        }
    }

    pub(super) fn timers(&self) -> u16 {
        self.clusters.len() as u16
    }

    /// The server whose timer it is.
    pub(super) fn timed(&self, timer: u16) -> usize {
        usize::from(timer - self.first_timer)
    }

    /// The cluster of the first of these places, those of them that belong to it, and the others.
    pub(super) fn split<'a>(&self, places: &'a [Place]) -> Option<(usize, &'a [Place], &'a [Place])> {
        self.clusters.split(places)
    }

    /// The job of a server is blocked.
    #[cfg(feature = "order")]
    pub(super) fn blocks(&mut self, task: TaskId, cx: &Context<'_>) {
        let rank = self.get(task).deadline.ns();
        let release = cx.job(task).map_or(cx.now(), |job| job.release);
        let blocked = &mut self.clusters.of(task).blocked;
        blocked.remove(task);
        blocked.insert(Key { rank, release, task });
    }

    /// The server has no blocked job.
    #[cfg(feature = "order")]
    pub(super) fn is_not_blocked(&mut self, task: TaskId) {
        self.clusters.of(task).blocked.remove(task);
    }

    /// Shows the jobs that may run, by deadline. Jobs that would get a later deadline when they wake up come last: `is_stale` says which. A server
    /// without a budget has none.
    #[cfg(feature = "order")]
    pub(super) fn order(
        &self,
        cx: &Context<'_>,
        is_stale: impl Fn(TaskId) -> bool,
        show: &mut dyn FnMut(Standing<'_>),
    ) {
        for cluster in &*self.clusters {
            let mut show = |task: TaskId| {
                let left = i64::try_from(self.get(task).left / self.rate(task)).unwrap_or(i64::MAX);
                let left = if is_stale(task) { self.whole(task) } else { Span::from_ns(left) };
                let limit = cx.own_budget_left(task).map_or(left, |own| own.min(left));
                show(Standing { task, places: &cluster.places, limit: Some(limit) });
            };
            let blocked = || cluster.blocked.as_slice().iter().filter(|key| !self.get(key.task).throttled).copied();
            let queues = blocked().filter(|key| !is_stale(key.task));
            merged(cluster.ready.as_slice().iter().copied(), queues).for_each(|key| show(key.task));
            blocked().filter(|key| is_stale(key.task)).for_each(|key| show(key.task));
        }
    }

    /// The whole budget of a server.
    #[cfg(feature = "order")]
    fn whole(&self, task: TaskId) -> Span {
        self.get(task).budget
    }

    /// Chooses who runs in a cluster.
    pub(super) fn map(&mut self, cluster: usize, lent: &[Place], cx: &Context<'_>, decision: &mut Decision) {
        let Cluster { ready, mapper, running, .. } = &mut self.clusters[cluster];
        let before = decision.assignments.len();
        mapper.map(ready.as_slice().iter().map(|key| key.task), lent, cx, decision);
        running.clear();
        running.extend(decision.assignments[before..].iter().map(|a| a.task));
    }

    /// How long the task may run at the present rate, and by its own budget, if that is news to the engine.
    pub(super) fn lasts(&mut self, task: TaskId, cx: &Context<'_>) -> Option<Span> {
        self.sync(task, cx);
        let (left, rate) = (self.get(task).left, self.rate(task));
        let whole = Span::from_ns(i64::try_from(left / rate).unwrap_or(i64::MAX));
        let own = cx.own_budget_left(task).unwrap_or(Span::MAX);
        // A budget that is exhausted already is noticed a moment later.
        let amount = whole.min(own).max(Span::from_ns(1));
        let told = core::mem::take(&mut self.get_mut(task).told);
        (told || cx.budget_left(task) != Some(amount)).then_some(amount)
    }
}
