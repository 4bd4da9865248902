//! The ready jobs, by rank, and the servers that have budgets.

use super::{By, Rule, SERVED_LAST};
use crate::cpus::CpuSet;
use crate::model::{System, Task, TaskId};
use crate::policies::mapping::Mapper;
use crate::policies::scope::{Clusters, share};
#[cfg(feature = "order")]
use crate::policy;
use crate::policy::{Alarm, Budget, Build, Clock, Context, Decision};
#[cfg(feature = "order")]
use crate::queue::merged;
use crate::queue::{Agenda, Key, ReadyQueue};
use crate::record::Place;
use crate::time::{Span, Time};
use crate::work::Work;
use alloc::vec;
use alloc::vec::Vec;

/// The utilisation of a task, or of its server, in units of 2^-62.
fn need(system: &System, task: TaskId) -> i128 {
    let described = &system.tasks[task.index()];
    let by_runtime = || Some((described.runtime?, described.arrival.period()?));
    let by_server = system.server(task).map(|server| (server.reservation.budget, server.reservation.period));
    let needed = by_server.or_else(by_runtime);
    needed.map_or(0, |(need, period)| share(need, period))
}

/// Facts about a task.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The index of its server, if it has one.
    server: Option<usize>,
    /// It has a job that could run, which queues behind earlier ones.
    since: Option<Time>,
    /// The consumption of the present job when that was last charged.
    mark: Work,
    /// Its consumption is charged to its server, as of the last decision.
    charged: bool,
    /// The engine has reported that the budget is exhausted; it still needs the remaining amount.
    told: bool,
}

const IDLE: Member = Member { server: None, since: None, mark: Work::ZERO, charged: false, told: false };

/// How the jobs of a server are queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// At its rank, within its budget.
    Served(i64),
    /// After all others.
    Background,
    /// They wait for a budget.
    Throttled,
}

struct Server<R> {
    rule: R,
    /// The task whose jobs it serves, or all that share it.
    tasks: Vec<TaskId>,
    /// How many of them have a job that could run.
    ready: usize,
    standing: Standing,
    /// When its last job ended or blocked, if it has none.
    idle_since: Option<Time>,
    /// Its place among the alarms of its CPU.
    slot: usize,
}

/// One CPU with the tasks and servers that are at home there.
struct Cpu {
    ready: ReadyQueue,
    mapper: Mapper,
    #[cfg(feature = "order")]
    places: Vec<Place>,
    /// The blocked jobs, by the ranks that they had when they blocked.
    #[cfg(feature = "order")]
    blocked: ReadyQueue,
    /// The task that was chosen last.
    running: Option<TaskId>,
    /// Indexes of its servers.
    servers: Vec<usize>,
    /// By [`Server::slot`]: when its next budget is to be looked at.
    alarms: Agenda,
    alarm: Alarm,
}

/// The ready queues and servers of a policy.
pub(super) struct Queues<R> {
    by: By,
    background: bool,
    tasks: Vec<TaskId>,
    /// By task of the system; only those of `tasks` mean something.
    members: Vec<Member>,
    servers: Vec<Server<R>>,
    cpus: Clusters<Cpu>,
    first_timer: u16,
}

impl<R: Rule> Queues<R> {
    /// Every task with a reservation has a server of its own, and those that share one stand behind the same.
    pub(super) fn new(build: &Build<'_>) -> Queues<R> {
        let mut members = vec![IDLE; build.system.tasks.len()];
        let mut servers: Vec<Server<R>> = Vec::new();
        let leads = build.system.leads();
        let mut shared = vec![None; build.system.servers.len()];
        for &task in build.tasks {
            let Some(server) = build.system.server(task) else { continue };
            let place = build.system.tasks[task.index()].server.map(|id| &mut shared[id.index()]);
            let known = place.as_ref().and_then(|place| **place);
            members[task.index()].server = Some(known.unwrap_or(servers.len()));
            if let Some(s) = known {
                servers[s].tasks.push(task);
                continue;
            }
            place.into_iter().for_each(|place| *place = Some(servers.len()));
            let (rule, standing) = (R::new(server.reservation, &build.spec), Standing::Throttled);
            servers.push(Server { rule, tasks: vec![task], ready: 0, standing, idle_since: Some(Time::ZERO), slot: 0 });
        }
        let cpu = |index: usize, tasks: Vec<TaskId>, places: &[Place]| {
            let mut at_home: Vec<usize> = tasks.iter().filter_map(|t| members[t.index()].server).collect();
            at_home.sort_unstable();
            at_home.dedup();
            at_home.iter().enumerate().for_each(|(slot, s)| servers[*s].slot = slot);
            Cpu {
                ready: ReadyQueue::new(tasks.len()),
                #[cfg(feature = "order")]
                places: places.to_vec(),
                #[cfg(feature = "order")]
                blocked: ReadyQueue::new(tasks.len()),
                mapper: Mapper::new(build, &tasks, places),
                running: None,
                alarms: Agenda::new(at_home.len()),
                servers: at_home,
                alarm: Alarm::new(build.timer(index)),
            }
        };
        // A server is packed once, in the place of its first task and where all of them may run.
        let task = |(task, (_, cpus)): (&Task, &(TaskId, CpuSet))| Task { affinity: *cpus, ..task.clone() };
        let joined = build.system.tasks.iter().zip(&leads).map(task).collect();
        let joined = System { tasks: joined, ..build.system.clone() };
        let lead = |task: TaskId| leads[task.index()].0;
        let needs = |task: TaskId| if lead(task) == task { need(build.system, task) } else { 0 };
        let cpus = Clusters::led(&Build { system: &joined, ..*build }, needs, lead, cpu);
        Queues {
            by: By::new(&build.spec),
            background: build.spec.holds(SERVED_LAST),
            tasks: build.tasks.to_vec(),
            members,
            servers,
            cpus,
            first_timer: build.first_timer,
        }
    }

    /// Begins again with whole budgets and the jobs that are there.
    pub(super) fn reset(&mut self, cx: &mut Context<'_>) {
        let now = cx.now();
        for cpu in self.cpus.iter_mut() {
            cpu.ready.clear();
            #[cfg(feature = "order")]
            cpu.blocked.clear();
            cpu.running = None;
            cpu.alarm.clear();
            (0..cpu.servers.len()).for_each(|slot| cpu.alarms.remove(slot));
        }
        for server in &mut self.servers {
            if let Some(described) = cx.system().server(server.tasks[0]) {
                server.rule.restart(described.reservation, now);
            }
            (server.standing, server.ready, server.idle_since) = (Standing::Throttled, 0, Some(now));
        }
        for index in 0..self.tasks.len() {
            let task = self.tasks[index];
            let member = &mut self.members[task.index()];
            *member = Member { server: member.server, ..IDLE };
            if let Some(job) = cx.job(task) {
                member.mark = job.consumed;
                if job.ready {
                    self.enter(task, cx);
                }
            }
        }
        if R::DRAINS {
            // Ranked by deadline, an idle server changes its rank in each period, which decides whether its budget shrinks.
            (0..self.servers.len()).for_each(|s| self.settle(s, cx));
        }
        self.arm_timers(cx);
    }

    /// How urgent a task without a server is.
    fn rank(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        let described = cx.task(task);
        match self.by {
            By::Priority => -i64::from(described.priority),
            By::Period => described.arrival.period().map_or(i64::MAX, Span::ns),
            By::Deadline => cx.job(task).map_or(i64::MAX, |job| job.deadline.ns()),
        }
    }

    /// How urgent the jobs of a server are, within its budget.
    fn rank_of(&self, s: usize, cx: &Context<'_>) -> i64 {
        let Server { rule, tasks, .. } = &self.servers[s];
        let described = cx.system().server(tasks[0]).expect("it has a server");
        match self.by {
            By::Priority => -i64::from(described.priority),
            By::Period => described.reservation.period.ns(),
            By::Deadline => rule.deadline().ns(),
        }
    }

    /// The task's job could run from now on.
    pub(super) fn enter(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let (now, release) = (cx.now(), cx.job(task).expect("what could run is a job").release);
        let member = &mut self.members[task.index()];
        let comes = member.since.replace(release).is_none();
        if let Some(s) = member.server {
            let Server { rule, ready, idle_since, .. } = &mut self.servers[s];
            *ready += usize::from(comes);
            // Work that follows in the same instant continues.
            if let Some(at) = idle_since.take().filter(|at| *at < now) {
                rule.idles(at);
                rule.wakes(now);
            }
            rule.stands_by(false, now);
            self.settle(s, cx);
        }
        self.place(task, cx);
    }

    /// The task has no job that could run.
    pub(super) fn leave(&mut self, task: TaskId, cx: &mut Context<'_>) {
        self.cpus.of(task).ready.remove(task);
        let member = &mut self.members[task.index()];
        let goes = member.since.take().is_some();
        if let Some(s) = member.server {
            let Server { ready, idle_since, .. } = &mut self.servers[s];
            *ready -= usize::from(goes);
            if *ready == 0 {
                idle_since.get_or_insert(cx.now());
            }
            self.settle(s, cx);
        }
    }

    /// A job is over, and what it consumed is charged.
    pub(super) fn over(&mut self, task: TaskId, cx: &mut Context<'_>) {
        self.leave(task, cx);
        self.members[task.index()].mark = Work::ZERO;
    }

    /// The job lets others of the same rank run.
    pub(super) fn yields(&mut self, task: TaskId, cx: &mut Context<'_>) {
        self.members[task.index()].since = Some(cx.now());
        self.place(task, cx);
    }

    /// The engine takes the budget for exhausted.
    pub(super) fn told(&mut self, task: TaskId) {
        self.members[task.index()].told = true;
    }

    /// The task's job has consumed so much by now.
    pub(super) fn charge(&mut self, task: TaskId, consumed: Work) {
        let member = &mut self.members[task.index()];
        let spent = (consumed - member.mark).nominal_time();
        // Less than before is the next job, or the handler, of which the policy is yet to be told.
        if spent > Span::ZERO {
            member.mark = consumed;
            if let Some(s) = member.server.filter(|_| member.charged) {
                self.servers[s].rule.consume(spent);
            }
        }
    }

    /// Brings the task's server up to now, if it has one.
    pub(super) fn settle_of(&mut self, task: TaskId, cx: &mut Context<'_>) {
        if let Some(s) = self.members[task.index()].server {
            self.settle(s, cx);
        }
    }

    /// Brings a server up to now: what it may consume, where its jobs queue, and when to look at it next.
    fn settle(&mut self, s: usize, cx: &mut Context<'_>) {
        let (now, first) = (cx.now(), self.servers[s].tasks[0]);
        if let Some(task) = self.cpus.of(first).running.filter(|t| self.members[t.index()].server == Some(s))
            && let Some(job) = cx.job(task)
        {
            self.charge(task, job.consumed);
        }
        self.servers[s].rule.advance(now);
        let rank = self.rank_of(s, cx);
        let Server { rule, standing, idle_since, slot, .. } = &mut self.servers[s];
        let before = *standing;
        *standing = match rule.left(now) > Span::ZERO {
            true => Standing::Served(rank),
            false if self.background => Standing::Background,
            false => Standing::Throttled,
        };
        let changed = *standing != before;
        let looks = idle_since.is_none() || (R::DRAINS && self.by == By::Deadline);
        let next = if looks { rule.next(now) } else { None };
        let slot = *slot;
        self.cpus.of(first).alarms.set(slot, next.unwrap_or(Time::MAX));
        if changed {
            for index in 0..self.servers[s].tasks.len() {
                self.place(self.servers[s].tasks[index], cx);
            }
        }
    }

    /// Queues a job that could run, or moves it to where it belongs now. The jobs of a server have one rank, so that they go by
    /// their releases.
    pub(super) fn place(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let Member { server, since: Some(release), .. } = self.members[task.index()] else { return };
        let rank = match server.map(|s| self.servers[s].standing) {
            None => self.rank(task, cx),
            Some(Standing::Served(rank)) => rank,
            Some(Standing::Background) => i64::MAX,
            Some(Standing::Throttled) => {
                self.cpus.of(task).ready.remove(task);
                return;
            }
        };
        cx.set_urgency(task, rank);
        let ready = &mut self.cpus.of(task).ready;
        ready.remove(task);
        ready.insert(Key { rank, release, task });
    }

    /// A timer is due.
    pub(super) fn timer(&mut self, timer: u16, cx: &mut Context<'_>) {
        let (index, now) = (usize::from(timer - self.first_timer), cx.now());
        self.cpus[index].alarm.passed(now);
        while let Some((_, slot)) = self.cpus[index].alarms.first().filter(|(at, _)| *at <= now) {
            self.cpus[index].alarms.remove(slot);
            self.settle(self.cpus[index].servers[slot], cx);
        }
    }

    /// Sets the timers to the first alarms. O(CPUs).
    pub(super) fn arm_timers(&mut self, cx: &mut Context<'_>) {
        for cpu in self.cpus.iter_mut() {
            cpu.alarm.set(cpu.alarms.first().map(|(at, _)| at), cx);
        }
    }

    /// The CPU that the task, or its server, is at home on.
    pub(super) fn first_cpu(&self, task: TaskId) -> Option<Place> {
        self.cpus.first_cpu(task)
    }

    pub(super) fn timers(&self) -> u16 {
        self.cpus.len() as u16
    }

    /// The task's job is blocked.
    #[cfg(feature = "order")]
    pub(super) fn blocks(&mut self, task: TaskId, cx: &Context<'_>) {
        let rank = self.members[task.index()].server.map_or_else(|| self.rank(task, cx), |s| self.rank_of(s, cx));
        let release = cx.job(task).map_or(cx.now(), |job| job.release);
        let blocked = &mut self.cpus.of(task).blocked;
        blocked.remove(task);
        blocked.insert(Key { rank, release, task });
    }

    /// The task has no blocked job.
    #[cfg(feature = "order")]
    pub(super) fn is_not_blocked(&mut self, task: TaskId) {
        self.cpus.of(task).blocked.remove(task);
    }

    /// Shows the jobs that may run. Jobs of a server without a budget come last, or are not shown, as its standing says.
    #[cfg(feature = "order")]
    pub(super) fn order(&self, cx: &Context<'_>, show: &mut dyn FnMut(policy::Standing<'_>)) {
        let standing = |task: TaskId| self.members[task.index()].server.map(|s| self.servers[s].standing);
        for cpu in &*self.cpus {
            let mut show = |task: TaskId| {
                let server = self.members[task.index()].server.map(|s| &self.servers[s]);
                let left = server.filter(|server| matches!(server.standing, Standing::Served(_)));
                let left = left.map(|server| server.rule.left(cx.now()));
                let limit = left.into_iter().chain(cx.own_budget_left(task)).min();
                show(policy::Standing { task, places: &cpu.places, limit });
            };
            let blocked = || cpu.blocked.as_slice().iter().copied();
            let queues = blocked().filter(|key| matches!(standing(key.task), None | Some(Standing::Served(_))));
            merged(cpu.ready.as_slice().iter().copied(), queues).for_each(|key| show(key.task));
            let last = blocked().filter(|key| standing(key.task) == Some(Standing::Background));
            last.for_each(|key| show(key.task));
        }
    }

    /// Chooses who runs.
    pub(super) fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let mut rest = lent;
        while let Some((index, group, others)) = self.cpus.split(rest) {
            rest = others;
            // Consumption that is known now need not wait until that is noticed.
            if let Some(task) = self.cpus[index].running {
                self.settle_of(task, cx);
            }
            let before = decision.assignments.len();
            let Cpu { ready, mapper, running, .. } = &mut self.cpus[index];
            mapper.map(ready.as_slice().iter().map(|key| key.task), group, cx, decision);
            *running = decision.assignments[before..].first().map(|a| a.task);
            for assignment in &mut decision.assignments[before..] {
                let amount = self.lasts(assignment.task, cx);
                assignment.budget = amount.map(|amount| Budget { amount, clock: Clock::Cpu });
            }
            if R::DRAINS {
                self.stand_by(index, cx);
            }
        }
    }

    /// How long the chosen task may run, if that is limited and news to the engine.
    fn lasts(&mut self, task: TaskId, cx: &Context<'_>) -> Option<Span> {
        let now = cx.now();
        let member = &mut self.members[task.index()];
        let told = core::mem::take(&mut member.told);
        let own = cx.own_budget_left(task);
        let limit = member.server.and_then(|s| {
            let Server { rule, standing, .. } = &self.servers[s];
            member.charged = matches!(standing, Standing::Served(_));
            // In the background it runs until there is a budget again.
            if member.charged { Some(rule.left(now)) } else { rule.next(now).map(|next| next - now) }
        });
        // A budget that is exhausted already is noticed a moment later.
        let amount = [own, limit].into_iter().flatten().min()?.max(Span::from_ns(1));
        (told || cx.budget_left(task) != Some(amount)).then_some(amount)
    }

    /// Tells idle servers whether they could run: no job ahead of them is ready.
    fn stand_by(&mut self, index: usize, cx: &Context<'_>) {
        let first = self.cpus[index].ready.as_slice().first().map(|key| key.rank);
        for at in 0..self.cpus[index].servers.len() {
            let s = self.cpus[index].servers[at];
            if self.servers[s].idle_since.is_some() {
                self.servers[s].rule.advance(cx.now());
                let rank = self.rank_of(s, cx);
                self.servers[s].rule.stands_by(first.is_none_or(|first| first >= rank), cx.now());
            }
        }
    }
}
