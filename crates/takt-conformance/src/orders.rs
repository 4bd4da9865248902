//! The order of every policy, stated a second time: which ready job may wait while which one runs. Each statement uses the
//! model, the records and the commands only, never the code of the policy.
//!
//! Records do not show every instant at which a policy notices something: a late timer, a budget that one server leaves to
//! another. So a job's place in the order has two bounds, and a policy is at fault only if a job waits that is ahead in any case.

use crate::choices;
use crate::ledger::Ledger;
use crate::reservations::Reservations;
use crate::rounds::Rounds;
use crate::rules;
use crate::standing::{FIRST, Order, Seen, Standing, conserves, keeps_its_cpu, order};
use crate::subject::Waiting;
use crate::{fair, servers};
use std::collections::BTreeMap;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Locking, Scope, TaskId, Terms};
use takt_core::policies::split::{Routes, assign::Split};
use takt_core::policy::{Build, Registry};
use takt_core::record::{JobId, Place, Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_core::work::Work;

/// Facts about a task's job in its ready queue.
#[derive(Clone, Debug)]
struct Line {
    /// The job, or its handler, at the end of the last step, and where it ran then.
    job: Option<(JobId, bool)>,
    place: Option<Place>,
    /// Its place among those that go by the order of coming: the bounds, and the release that decides between equals.
    queued: (i64, i64, Time),
    /// When the quantum ends that it was dispatched with.
    quantum: Option<Time>,
    /// The rest of the quantum of an interrupted job.
    left: Option<Span>,
    /// Since when it queues behind its equals, for policies that forget this when it runs again.
    behind: Option<Time>,
    /// It was chosen by the last decision and has been ready ever since: certainly, or perhaps.
    chosen: (bool, bool),
    /// The same for any decision.
    started: (bool, bool),
    /// It came in this step.
    came: bool,
    /// Records do not say how its job stands.
    unsure: bool,
}

/// How jobs stand in the orders of their policies.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    lines: Vec<Line>,
    step: i64,
    reservations: Reservations,
    rounds: Rounds,
    fair: fair::Fair,
    /// By task: whether semi-partitioned scheduling splits it; `None` if that is not known.
    split: Vec<Option<bool>>,
    /// By task: its terms after the last step.
    terms: Vec<Option<Terms>>,
    /// How often a waiting job was compared with one that ran.
    pub(crate) compared: u64,
}

impl Orders {
    pub(crate) fn new(tasks: usize) -> Orders {
        let line = Line {
            job: None,
            place: None,
            queued: (0, 0, Time::ZERO),
            quantum: None,
            left: None,
            behind: None,
            chosen: (false, false),
            started: (false, false),
            came: false,
            unsure: false,
        };
        Orders { lines: vec![line; tasks], split: vec![None; tasks], terms: vec![None; tasks], ..Orders::default() }
    }

    /// A step has been made.
    pub(crate) fn follow(&mut self, ledger: &Ledger, inputs: &[Input], records: &[Record], engine: &Engine) {
        self.step += 1;
        let mut seen = vec![Seen::default(); self.lines.len()];
        for record in records {
            match record.kind {
                RecordKind::Wake { task, .. } => (seen[task.index()].woke, seen[task.index()].yielded) = (true, false),
                RecordKind::Block { task, .. } => (seen[task.index()].blocked, seen[task.index()].left) = (true, true),
                RecordKind::Finish { task, .. } | RecordKind::HandlerEnd { task, .. } => seen[task.index()].left = true,
                RecordKind::Yield { task, .. } => seen[task.index()].yielded = true,
                _ => {}
            }
        }
        for input in inputs {
            if let Input::Retime { task, .. } | Input::Call { task, .. } | Input::Terms { task, .. } = *input {
                seen[task.index()].retimed += 1;
            }
        }
        let terms = engine.system().tasks.iter().map(|task| Some(task.terms())).collect();
        let before = core::mem::replace(&mut self.terms, terms);
        for (seen, (before, after)) in seen.iter_mut().zip(before.iter().zip(&self.terms)) {
            // The end of a job may carry out what was asked for earlier.
            seen.other_terms = seen.retimed > 0 || before.is_some() && before != after;
        }
        let begins: Vec<bool> = (0..self.lines.len()).map(|t| ledger.begins_again(t)).collect();
        if begins.contains(&true) {
            self.split(ledger, engine, &begins, &seen);
        }
        for (index, seen) in seen.iter().enumerate() {
            self.task(ledger, TaskId(index as u32), seen, begins[index], engine);
        }
        let came: Vec<bool> = self.lines.iter().map(|line| line.came).collect();
        let whole = self.split.iter().map(|split| *split == Some(false)).collect();
        self.reservations.follow(ledger, records, &seen, &begins, whole, engine);
        self.rounds.follow(ledger, inputs, records, &begins, engine);
        self.fair.follow(ledger, &seen, &begins, &came, engine);
    }

    /// The step was none: a policy has taken over and decides in the next one.
    pub(crate) fn undecided(&mut self) {
        self.lines.iter_mut().for_each(|line| (line.quantum, line.left) = (None, None));
        self.reservations.undecided();
    }

    fn task(&mut self, ledger: &Ledger, task: TaskId, seen: &Seen, begins: bool, engine: &Engine) {
        let (a, now, step) = (ledger.account(task), engine.now(), 8 * self.step);
        let (spec, _) = ledger.policy_of(task);
        let line = &mut self.lines[task.index()];
        let job = a.current().map(|(job, _)| (job, a.handler.is_some()));
        let release = a.current().map_or(Time::ZERO, |(_, open)| open.release);
        let another = job != line.job;
        let ran = line.place.is_some();
        line.came = (another || seen.woke || begins) && job.is_some();
        // A policy that begins again in the step knows nothing of what a job did just before.
        line.unsure = (line.unsure && !line.came) || (begins && (seen.yielded || seen.blocked));
        if begins {
            line.queued = (step, step + 7, release);
        } else if another {
            // Perhaps it keeps the place of the one before.
            line.unsure |= ran && spec.profile.settings.iter().any(|s| s.name == "successor") && rules::keeps(spec);
            line.queued = (step + 2, step + 2, release);
        } else if seen.woke {
            line.queued = (step + 2, step + 2, release);
        }
        let gave_way = another || seen.woke || seen.blocked || seen.yielded;
        if seen.yielded && !another && !begins {
            // Among jobs that queue again in one step, the order is that of their turns and of the events; `takt-sim` tests it.
            let rr = spec.profile.name == "rr";
            line.queued = if rr { (step + 3, step + 4, Time::ZERO) } else { (step + 3, step + 3, release) };
        }
        if gave_way || begins {
            (line.quantum, line.left) = (None, None);
        }
        if spec.profile.name == "rr" {
            let exact = ledger.is_punctual();
            if let (Some(end), true) = (line.quantum, ran && !a.blocked)
                && end <= now
            {
                // Its turn is over, if the timer has been noticed.
                line.queued = if exact { (step + 3, step + 4, Time::ZERO) } else { (line.queued.0, i64::MAX, release) };
                line.quantum = None;
            }
            if a.place.is_none()
                && let Some(end) = line.quantum.take()
            {
                line.left = Some(end - now);
            }
            if a.place.is_some() && line.quantum.is_none() {
                let quantum = spec.value("quantum").map_or(Span::from_ms(1), Span::from_ns);
                let start = if spec.value("grid") == Some(1) { now.round_down(quantum) } else { now };
                line.quantum = Some(line.left.take().map_or(start.saturating_add(quantum), |left| now + left));
            }
        }
        let stays = !another && !seen.woke && !seen.blocked && job.is_some();
        let chosen = ran && stays && !seen.yielded;
        line.behind = match () {
            // A job that blocks after it has yielded is ranked again by its release.
            () if seen.yielded && !another && !a.blocked => Some(now),
            () if another || seen.blocked || seen.woke || chosen || begins => None,
            () => line.behind,
        };
        line.chosen = if begins { (chosen, ran && !another) } else { (chosen, chosen) };
        let since = |before: bool| (before || ran) && stays && !seen.yielded;
        line.started = if begins { line.chosen } else { (since(line.started.0), since(line.started.1)) };
        if another && ran && rules::keeps(spec) {
            line.started.1 = true;
        }
        (line.job, line.place) = (job, a.place);
    }

    /// Which tasks semi-partitioned policies that begin again have split, as far as terms did not change in the step.
    fn split(&mut self, ledger: &Ledger, engine: &Engine, begins: &[bool], seen: &[Seen]) {
        let system = engine.system();
        let places = engine.places();
        let singles: Vec<Place> = (0..system.cpus.len()).map(|p| Place(p as u16)).collect();
        for (index, _) in begins.iter().enumerate().filter(|(_, begins)| **begins) {
            let task = TaskId(index as u32);
            let (spec, cpus) = ledger.policy_of(task);
            let (of_servers, split) = match spec.profile.name {
                "edf-wm" => (false, Split::Windows),
                "edf-cd" => (false, Split::Tight),
                "edf-wmr" => (true, Split::Windows),
                _ => continue,
            };
            let domain = ledger.domain_of(task);
            let tasks: Vec<TaskId> =
                (0..begins.len()).map(|t| TaskId(t as u32)).filter(|t| ledger.domain_of(*t) == domain).collect();
            if tasks.iter().any(|t| seen[t.index()].other_terms) {
                self.split[index] = None;
                continue;
            }
            let places: Vec<Place> = singles.iter().copied().filter(|p| places[p.index()].is_subset(&cpus)).collect();
            let build =
                Build { system, tasks: &tasks, places: &places, spec, first_timer: 0, registry: &Registry::default() };
            let routes = if of_servers { Routes::of_servers(&build) } else { Routes::new(&build, split) };
            self.split[index] = routes.ok().map(|routes| routes.of(task).len() > 1);
        }
    }

    /// Whether the policy has the task on one CPU for good, if it may split tasks.
    pub(crate) fn is_whole(&self, task: TaskId) -> bool {
        self.split[task.index()] == Some(false)
    }

    /// The CPUs that share a ready queue in which the task is: those of its cluster. `None` if that is not known.
    fn cluster(&self, ledger: &Ledger, task: TaskId, engine: &Engine) -> Option<Vec<usize>> {
        let (spec, cpus) = ledger.policy_of(task);
        let size = match spec.scope {
            Scope::Uniprocessor | Scope::Global | Scope::Table => return Some(cpus.iter().collect()),
            Scope::Partitioned => 1,
            Scope::Clustered => usize::from(spec.cluster.max(1)),
        };
        let splits = matches!(order(spec.profile), Some(Order::Split)) || spec.profile.name == "edf-wmr";
        if splits && !self.is_whole(task) {
            return None;
        }
        let home = ledger.places[engine.home(task)?.index()];
        let all: Vec<usize> = cpus.iter().collect();
        let group = all.iter().position(|cpu| home.contains(*cpu))? / size;
        Some(all.chunks(size).nth(group)?.to_vec())
    }

    /// The place of the task's job by its rank, with what it inherits.
    fn by_rank(&self, ledger: &Ledger, task: TaskId, engine: &Engine) -> Option<Standing> {
        let inherits = ledger.system.locking == Locking::Inheritance;
        let mut seen = vec![task];
        let (mut least, mut most) = self.own_rank(ledger, task, engine)?;
        let mut at = 0;
        while inherits && at < seen.len() {
            for waiter in ledger.sharing.wait_for(seen[at]) {
                // A job that waits in another domain is another policy's business.
                if !seen.contains(&waiter) && ledger.domain_of(waiter) == ledger.domain_of(task) {
                    seen.push(waiter);
                    let (other_least, other_most) = self.own_rank(ledger, waiter, engine)?;
                    (least, most) = (least.min(other_least), most.min(other_most));
                }
            }
            at += 1;
        }
        let name = ledger.policy_of(task).0.profile.name;
        let key = |(rank, release): (i64, Time)| [1, rank, release.ns(), i64::from(task.0), 0];
        Some(self.kept(task, keeps_its_cpu(name), Standing::between(key(least), key(most))))
    }

    /// Jobs that keep their CPUs stand ahead of all others.
    fn kept(&self, task: TaskId, keeps: bool, standing: Standing) -> Standing {
        let (certainly, perhaps) = self.lines[task.index()].started;
        match () {
            () if !keeps => standing,
            () if certainly => Standing::between(FIRST, [0; 5]),
            () if perhaps => Standing { least: FIRST, ..standing },
            () => standing,
        }
    }

    /// Bounds of the rank and the release that the task's job is compared by without resources.
    fn own_rank(&self, ledger: &Ledger, task: TaskId, engine: &Engine) -> Option<((i64, Time), (i64, Time))> {
        let (a, line) = (ledger.account(task), &self.lines[task.index()]);
        if line.unsure {
            return None;
        }
        let (spec, _) = ledger.policy_of(task);
        let (_, open) = a.current()?;
        let exactly = |rank, release| Some(((rank, release), (rank, release)));
        if let Some(Order::Stated(statement)) = order(spec.profile) {
            let _ = engine.job(task).filter(|_| !ledger.is_metered())?;
            let left = (engine.declared(task).unwrap_or(Work::ZERO) - engine.own_work(task)).or_zero().nominal_time();
            let job = Waiting {
                now: engine.now(),
                policy: spec,
                task: &engine.system().tasks[task.index()],
                in_handler: a.handler.is_some(),
                release: open.release,
                deadline: open.deadline,
                left,
            };
            let (least, most) = statement(&job)?;
            let release = a.yielded.unwrap_or(open.release);
            return Some(((least, release), (most, release)));
        }
        match spec.profile.name {
            "fifo" | "rr" => {
                let (least, most, release) = line.queued;
                Some(((least, release), (most, release)))
            }
            "np-edf" => exactly(open.deadline.unwrap_or(Time::MAX).ns(), a.yielded.unwrap_or(open.release)),
            "llf" => {
                let _ = engine.job(task).filter(|_| !ledger.is_metered())?;
                let left =
                    (engine.declared(task).unwrap_or(Work::ZERO) - engine.own_work(task)).or_zero().nominal_time();
                let latest = open.deadline.map_or(i64::MAX, |deadline| deadline.ns() - left.ns());
                let threshold = spec.value("threshold").map_or(Span::from_ms(1), Span::from_ns);
                let waits = (latest, line.behind.unwrap_or(open.release));
                let defends = (latest.saturating_sub(threshold.ns()), Time::MAX);
                let (certainly, perhaps) = line.chosen;
                Some((if perhaps { defends } else { waits }, if certainly { defends } else { waits }))
            }
            _ => {
                let (rank, release, _) = rules::own_rank(ledger, task)?;
                exactly(rank, release)
            }
        }
    }

    /// Checks who runs and who waits after a step.
    pub(crate) fn check(&mut self, ledger: &Ledger, records: &[Record], engine: &Engine) {
        let tasks = || (0..self.lines.len()).map(|t| TaskId(t as u32));
        // Ceilings depend on the instant of locking.
        let ceilings = ledger.system.locking == Locking::Ceiling && ledger.sharing.owners().next().is_some();
        let mut constructed: BTreeMap<(Option<usize>, usize), Option<Vec<TaskId>>> = BTreeMap::new();
        let mut compared = 0;
        for task in tasks() {
            let a = ledger.account(task);
            if a.place.is_some() || a.blocked || a.current().is_none() {
                continue;
            }
            let (spec, _) = ledger.policy_of(task);
            let Some(cluster) = self.cluster(ledger, task, engine) else { continue };
            let group = CpuSet::from_iter(cluster.iter().copied());
            let conserves = conserves(ledger, spec, task);
            let Some(kind) = order(spec.profile) else {
                let idle = |cpu: &usize| ledger.cpu_owner[*cpu].is_none();
                let idle = ledger.system.tasks[task.index()].affinity.intersection(&group).iter().find(idle);
                assert!(!conserves || idle.is_none(), "{task:?} waits and CPU {idle:?} of its queue is idle");
                continue;
            };
            let line = if matches!(kind, Order::Constructed) {
                let first = (ledger.domain_of(task), cluster.first().copied().unwrap_or(0));
                let build = || {
                    let here = |t: &TaskId| {
                        ledger.domain_of(*t) == first.0
                            && self.cluster(ledger, *t, engine).is_some_and(|c| c == cluster)
                    };
                    let members: Vec<TaskId> = tasks().filter(here).collect();
                    let above =
                        |cpu: &&usize| ledger.cpu_owner[**cpu].is_some_and(|owner| ledger.is_above(owner, task));
                    let cpus = cluster.len() - cluster.iter().filter(above).count();
                    if cpus > 0 { choices::order(ledger, records, engine, &members, cpus) } else { None }
                };
                constructed.entry(first).or_insert_with(build).as_deref()
            } else {
                None
            };
            let standing = |task: TaskId| match kind {
                _ if self.lines[task.index()].unsure => None,
                Order::Ranks | Order::Stated(_) if ceilings => None,
                Order::Ranks | Order::Stated(_) => self.by_rank(ledger, task, engine),
                Order::Constructed => {
                    let at = line?.iter().position(|t| *t == task)?;
                    let standing = Standing::exactly([1, at as i64, 0, 0, 0]);
                    Some(self.kept(task, keeps_its_cpu(spec.profile.name), standing))
                }
                Order::Reservations => self.reservations.standing(ledger, task),
                Order::Servers => servers::standing(ledger, task, engine),
                Order::Fair => self.fair.standing(ledger, task, engine),
                Order::Split => {
                    let (_, open) = ledger.account(task).current().filter(|_| self.is_whole(task))?;
                    let release = ledger.account(task).yielded.unwrap_or(open.release).ns();
                    let deadline = open.deadline.unwrap_or(Time::MAX).ns();
                    Some(Standing::exactly([deadline, release, i64::from(task.0), 0, 0]))
                }
                Order::Rounds | Order::Table | Order::Guests => None,
            };
            let own = standing(task);
            for cpu in ledger.system.tasks[task.index()].affinity.intersection(&group).iter() {
                let Some(other) = ledger.cpu_owner[cpu] else {
                    assert!(!conserves, "{task:?} waits and CPU {cpu} of its queue is idle");
                    continue;
                };
                if ledger.is_above(other, task) {
                    continue;
                }
                assert!(
                    !(conserves && ledger.is_above(task, other)),
                    "{task:?} waits for {other:?} of a lower band on CPU {cpu}"
                );
                if ledger.domain_of(other) != ledger.domain_of(task) {
                    continue;
                }
                if let (Some(own), Some(runs)) = (own, standing(other)) {
                    compared += 1;
                    assert!(
                        !own.is_ahead_of(&runs),
                        "{task:?} waits for {other:?} on CPU {cpu} although it is ahead: {own:?} and {runs:?}"
                    );
                }
            }
        }
        self.compared += compared;
    }
}
