//! The ledger's verdict on each step: it panics when commands and records disagree, when a rule is broken, or when the engine's
//! counters do not add up.

use crate::jobs::Moment;
use crate::ledger::{BEFORE, Ledger};
use crate::orders::Orders;
use crate::rules;
use crate::sharing::Next;
use crate::standing;
use takt_core::engine::{Command, Engine, Input};
use takt_core::model::*;
use takt_core::record::{Outcome, Place, Record, RecordKind, StopReason};
use takt_core::time::{Span, Time};

/// The ledger, and how jobs stand in the orders of their policies.
pub(crate) struct Judge {
    pub(crate) ledger: Ledger,
    orders: Orders,
}

impl Judge {
    pub(crate) fn new(system: &System, metered: bool, skew: Span) -> Judge {
        Judge { ledger: Ledger::new(system, metered, skew), orders: Orders::new(system.tasks.len()) }
    }

    /// Another policy has taken over between two steps.
    pub(crate) fn switched(&mut self, to: PolicySpec, records: &[Record], engine: &Engine) {
        self.ledger.switched(to, records);
        self.orders.follow(&self.ledger, &[], records, engine);
        self.orders.undecided();
        self.ledger.begins.fill(false);
    }

    pub(crate) fn stepped(&mut self, inputs: &[Input], commands: &[Command], records: &[Record], engine: &Engine) {
        self.ledger.stepped(inputs, commands, records, engine);
        self.orders.follow(&self.ledger, inputs, records, engine);
        if !self.ledger.tabled() {
            self.orders.check(&self.ledger, records, engine);
        }
        self.ledger.begins.fill(false);
    }
}

impl Ledger {
    /// Up to `now` everything ran on as it was.
    pub(crate) fn time_passes(&mut self, now: Time, on_time: bool) {
        let passed = now - self.moment.now;
        for index in 0..self.accounts.len() {
            let elapsed_budget = self.in_turn(index) || !self.metered;
            let a = &mut self.accounts[index];
            if a.place.is_some() && !a.blocked && a.current().is_some() {
                a.used += passed;
                a.ran_for += passed;
                if let (Some(granted), true, true) = (a.granted, on_time, elapsed_budget) {
                    assert!(a.used <= a.limit, "task {index} used {} of {granted} at {now}", a.used);
                }
            }
        }
        self.moment = Moment { now, before: self.moment.now, on_time };
    }

    fn switched(&mut self, to: PolicySpec, records: &[Record]) {
        self.system.policy = to;
        (0..self.accounts.len()).for_each(|task| self.taken_over(task));
        self.switched = true;
        records.iter().for_each(|r| self.record(r));
    }

    /// The task has another policy.
    fn taken_over(&mut self, task: usize) {
        (self.homes[task], self.begins[task]) = (None, true);
        // It does not know who yielded.
        self.accounts[task].yielded = None;
    }

    /// A switch that came before what else ends jobs in the step; the engine shows whether the new policy took over.
    fn switch(&mut self, domain: Option<u16>, to: u16, engine: &Engine) {
        let Some(to) = self.system.alternatives.get(usize::from(to)) else { return };
        let domain = domain.map(usize::from);
        if domain.is_none_or(|d| d < self.system.domains.len()) {
            self.ruled.push((domain, *to));
        }
        let now = match domain {
            None => Some(engine.system().policy),
            Some(_) if engine.system().policy.hosts() != Some(Hosts::Domains) => None,
            Some(d) => engine.system().domains.get(d).map(|d| d.policy),
        };
        // Its settings may have changed since, in the same step.
        let is = |now: PolicySpec| PolicySpec { values: to.values, ..now } == *to;
        if now.is_some_and(is) {
            self.system.policy = engine.system().policy;
            self.system.domains.clone_from(&engine.system().domains);
            let tasks = (0..self.accounts.len())
                .filter(|t| domain.is_none_or(|d| self.system.domains[d].tasks.contains(&TaskId(*t as u32))));
            tasks.collect::<Vec<_>>().into_iter().for_each(|task| self.taken_over(task));
            self.gave_way = true;
        }
    }

    fn stepped(&mut self, inputs: &[Input], commands: &[Command], records: &[Record], engine: &Engine) {
        let now = self.moment.now;
        self.single = inputs.len() == 1 && self.moment.on_time;
        self.gave_way = core::mem::take(&mut self.switched);
        self.aborted.clear();
        self.ruled.clear();
        if inputs.iter().any(|i| matches!(i, Input::Switch { .. })) {
            self.ruled.push((None, self.system.policy));
            self.ruled.extend(self.system.domains.iter().enumerate().map(|(d, domain)| (Some(d), domain.policy)));
        }
        for input in inputs {
            match *input {
                Input::Enter { task } => self.accounts[task.index()].enters(now),
                Input::Release { task } => self.accounts[task.index()].event(now),
                Input::Leave { task } => {
                    let a = &mut self.accounts[task.index()];
                    a.leaving = !a.gone;
                    // At the very start a window table activates jobs before the first input.
                    let first = self.moment.before == BEFORE && self.partition_of[task.index()].is_some();
                    a.follow.exit = !a.gone && !first && a.current().is_none();
                }
                Input::Share { task, share, importance } => {
                    let described = &mut self.system.tasks[task.index()];
                    (described.share, described.importance) = (share, importance);
                }
                Input::Retime { task, period, deadline, .. } => {
                    self.accounts[task.index()].mode = Some((period, deadline, false))
                }
                Input::Terms { task, deadline, runtime, utility } => {
                    self.accounts[task.index()].terms(deadline, runtime, utility);
                }
                Input::Skew { task, .. } => self.accounts[task.index()].resumes(self.slack),
                // It may have been built again, and put two jobs that it does not preempt on one CPU.
                Input::Configure { .. } => {
                    self.homes.fill(None);
                    self.gave_way = true;
                    if self.system.policy.profile.name == engine.system().policy.profile.name {
                        self.system.policy.values = engine.system().policy.values;
                    }
                    if standing::is_rebuilt(self, records) {
                        (0..self.accounts.len()).for_each(|task| self.taken_over(task));
                    }
                }
                Input::Switch { domain, to } => self.switch(domain, to, engine),
                Input::Abort { task } => self.aborted.push(task),
                // Nothing is left of its program.
                Input::Exit { task, .. } => {
                    let a = &mut self.accounts[task.index()];
                    (a.program, a.ended) = (None, !a.gone);
                    self.aborted.push(task);
                }
                _ => {}
            }
        }
        records.iter().for_each(|r| self.record(r));
        self.commands(commands);
        assert!(engine.next_due().is_none_or(|due| due > now), "something due by {now} was left");
        self.accounts.iter_mut().for_each(|a| a.settled(now));
        self.sharing.settled(|task| self.accounts[task.index()].current().is_some());
        self.compare(engine);
        self.budgets();
        rules::check(self, now);
    }

    fn commands(&mut self, commands: &[Command]) {
        let replaced = commands.iter().take_while(|c| matches!(c, Command::Replace { .. })).count();
        let (replaced, commands) = commands.split_at(replaced);
        let mut expected = core::mem::take(&mut self.replaced);
        for command in replaced {
            let Command::Replace { task } = *command else { unreachable!() };
            match expected.iter().position(|t| *t == task) {
                Some(index) => drop(expected.remove(index)),
                // A handler was aborted in turn.
                None => assert!(self.handled.contains(&task), "the program of {task:?} is replaced without a reason"),
            }
        }
        assert_eq!(expected, [], "programs that were to be replaced");
        self.handled.clear();
        let rank = |c: &Command| match c {
            Command::Stop { .. } => 0,
            Command::Move { .. } => 1,
            _ => 2,
        };
        let stops = commands.iter().take_while(|c| rank(c) == 0).count();
        let moves = commands.iter().skip(stops).take_while(|c| rank(c) == 1).count();
        assert!(commands[stops + moves..].iter().all(|c| rank(c) == 2), "out of order: {commands:?}");
        for command in commands {
            if let Command::Stop { task, place } | Command::Move { task, from: place, .. } = *command {
                let was = self.accounts[task.index()].place.take();
                assert!(was == Some(place), "task {} leaves {place:?} but was on {was:?}", task.0);
                for cpu in self.places[place.index()].iter() {
                    assert!(self.cpu_owner[cpu].take() == Some(task), "CPU {cpu} was not task {}'s", task.0);
                }
            }
        }
        for command in commands {
            match *command {
                Command::Start { task, place, .. } | Command::Move { task, to: place, .. } => {
                    let was = self.accounts[task.index()].place.replace(place);
                    assert!(was.is_none(), "task {} arrives on {place:?} and is on {was:?}", task.0);
                    for cpu in self.places[place.index()].iter() {
                        let other = self.cpu_owner[cpu].replace(task);
                        assert!(other.is_none(), "CPU {cpu} has tasks {} and {other:?}", task.0);
                    }
                }
                Command::Continue { task, place, .. } => {
                    assert!(self.accounts[task.index()].place == Some(place), "task {} cannot continue", task.0);
                }
                // These systems have no power policy (`crates/takt-core/tests/power.rs` has), and these concern no task.
                Command::Stop { .. }
                | Command::Replace { .. }
                | Command::Frequency { .. }
                | Command::IdleLatency { .. } => {}
            }
        }
    }

    /// A job of the task is completed, which is an event for others.
    fn completed(&mut self, task: TaskId) {
        let now = self.moment.now;
        for account in &mut self.accounts {
            if matches!(account.task.arrival, Arrival::Event { after, .. } if after == Some(task)) {
                account.event(now);
            }
        }
    }

    fn record(&mut self, record: &Record) {
        let now = self.moment.now;
        assert!(record.at <= now, "a record from the future: {record:?} at {now}");
        match (record.kind, &self.sharing.next) {
            (_, None) | (RecordKind::Deadlock { .. }, Some(Next::Deadlock(..))) => {}
            (RecordKind::Lock { granted: true, .. }, Some(Next::Grant(..))) => {}
            (_, Some(next)) => panic!("{record:?} instead of {next:?}"),
        }
        let moment = self.moment;
        let elapsed = |task: TaskId| self.in_turn(task.index()) || !self.metered;
        match record.kind {
            RecordKind::Window { window, frame } => {
                self.window = Some((window, frame));
                self.accounts.iter_mut().for_each(|a| a.ran.clear());
            }
            RecordKind::WindowsLost { count } => self.lost += count,
            RecordKind::Release { task, job, deadline } => {
                self.accounts[task.index()].release(job, deadline, record.at, moment);
            }
            RecordKind::Budget { task, job, amount } => {
                let a = &mut self.accounts[task.index()];
                assert!(a.is_current(job), "a budget for job {job} of {task:?}: {a:?}");
                let own =
                    a.task.budget.filter(|_| a.handler.is_none()).map(|b| b + (a.task.jitter - a.task.jitter / 2));
                assert!(
                    own.is_none_or(|own| amount.is_some_and(|amount| amount <= own.max(Span::from_ns(1)))),
                    "{record:?} is above its own budget"
                );
                (a.granted, a.used) = (amount, Span::ZERO);
                a.limit = amount.map_or(Span::MAX, |amount| amount + self.slack);
            }
            RecordKind::Start { task, job, place } => self.start(task, job, place, record),
            RecordKind::Stop { task, job, place, reason } => self.stop(task, job, place, reason, record),
            RecordKind::Finish { task, job, outcome, consumed } => {
                let elapsed = elapsed(task);
                let given_up = outcome == Outcome::Aborted && !self.aborted.contains(&task);
                assert!(!given_up || rules::has_reason(self, task, now), "{record:?} without a reason");
                if self.account(task).handler.is_none() && self.account(task).is_current(job) {
                    self.sharing.over(task);
                }
                self.accounts[task.index()].finish(job, outcome, consumed.nominal_time(), record.at, moment, elapsed);
                if outcome == Outcome::Completed {
                    self.completed(task);
                }
                let a = &mut self.accounts[task.index()];
                match a.task.on_abort {
                    _ if outcome == Outcome::Completed || outcome == Outcome::Exited => a.program = None,
                    OnAbort::Restart if outcome == Outcome::Aborted && a.program.is_some() && !a.handled => {
                        a.program = None;
                        self.replaced.push(task);
                    }
                    _ => {}
                }
            }
            RecordKind::Handler { task, job, deadline } => {
                self.accounts[task.index()].handler_begins(job, deadline, now);
            }
            RecordKind::HandlerEnd { task, job, consumed } => {
                let elapsed = elapsed(task);
                self.sharing.over(task);
                let a = &mut self.accounts[task.index()];
                a.handler_ends(job, consumed.nominal_time(), moment, elapsed);
                a.handled = true;
                if a.task.on_abort == OnAbort::Restart {
                    self.handled.push(task);
                }
            }
            RecordKind::Block { task, job } => {
                let a = &mut self.accounts[task.index()];
                assert!(!a.blocked && a.is_current(job), "{record:?} but {a:?}");
                a.blocked = true;
                self.gave_way = true;
            }
            RecordKind::Wake { task, job } => {
                let waits = self.sharing.waits_for(task);
                let a = &mut self.accounts[task.index()];
                assert!(a.blocked && waits.is_none() && a.is_current(job), "{record:?} but {a:?} waits for {waits:?}");
                (a.blocked, a.yielded) = (false, None);
                a.resumes(self.slack);
            }
            RecordKind::Lock { task, resource, granted } => self.sharing.requested(task, resource, granted),
            RecordKind::Withdraw { task, resource } => self.sharing.withdrawn(task, resource),
            RecordKind::Unlock { task, resource } => self.returned(task, resource, record),
            RecordKind::Deadlock { task, resource } => self.sharing.deadlocked(task, resource),
            RecordKind::Yield { task, job } => {
                let a = &mut self.accounts[task.index()];
                assert!(a.started.is_some_and(|(started, _)| started == job) && !a.blocked, "{record:?} but {a:?}");
                a.yielded = Some(now);
                self.gave_way = true;
            }
            RecordKind::LateSignal { task, job } => {
                let a = &mut self.accounts[task.index()];
                a.counts.late_signals += 1;
                a.signals = true;
                if a.program == Some(job) {
                    a.program = None;
                    a.late_signal(now);
                    if a.task.arrival == Arrival::Activated {
                        self.completed(task);
                    }
                }
            }
            RecordKind::Behind { task, job, abandoned } => {
                let a = &mut self.accounts[task.index()];
                let first = a.current().is_some_and(|(_, open)| open.last_place.is_none());
                assert!(a.is_current(job) && first && job != abandoned, "{record:?} but {a:?}");
                assert_eq!(a.program, Some(abandoned), "{record:?}");
                a.counts.behind += 1;
                a.behind = Some(job);
            }
            RecordKind::Lost { task } => {
                let a = &mut self.accounts[task.index()];
                assert!(a.events.lost > 0, "{record:?} but {a:?}");
                a.events.lost -= 1;
                a.counts.lost += 1;
            }
            RecordKind::Exit { task, .. } => self.accounts[task.index()].exits(),
            RecordKind::Round { .. }
            | RecordKind::Burst { .. }
            | RecordKind::Switch { .. }
            | RecordKind::Table { .. }
            | RecordKind::Configure { .. } => {}
            // No power policy, no such records.
            RecordKind::Frequency { .. }
            | RecordKind::IdleLatency { .. }
            | RecordKind::Temperature { .. }
            | RecordKind::StartSkipped { .. } => panic!("{record:?} without a power policy"),
            RecordKind::Call { task, job, call, granted } => {
                if granted {
                    self.accounts[task.index()].called(job, call, moment);
                }
            }
        }
    }

    fn stop(&mut self, task: TaskId, job: u64, place: Place, reason: StopReason, record: &Record) {
        let a = &mut self.accounts[task.index()];
        assert!(a.started.take() == Some((job, place)), "{record:?} without its start");
        let over = !a.is_current(job) || a.follow.handler.is_some();
        assert!(over == (reason == StopReason::Finished), "{record:?} but over: {over}");
        assert!(a.blocked == (reason == StopReason::Blocked) || over, "{record:?} but {a:?}");
        a.counts.preemptions += u64::from(reason == StopReason::Preempted);
        let allowed =
            reason != StopReason::Preempted || self.gave_way || self.may_preempt(task) || self.is_lower_band(task);
        assert!(allowed, "{record:?} under a policy that does not preempt");
    }

    fn returned(&mut self, task: TaskId, resource: ResourceId, record: &Record) {
        assert_eq!(self.account(task).follow.handler, None, "{record:?} although its handler is to come");
        let ranks: Vec<_> = (0..self.accounts.len()).map(|t| rules::rank(self, TaskId(t as u32))).collect();
        // A job that ends in a cycle has lent its urgency to those that wait for it until that very instant.
        let sure = self.single && self.account(task).current().is_some() && self.sharing.deadlocks == 0;
        let locking = self.system.locking;
        let domains: Vec<_> = (0..self.accounts.len()).map(|t| self.domain_of(TaskId(t as u32))).collect();
        // Urgencies of two policies cannot be compared.
        let alike = |waiters: &[TaskId]| waiters.iter().all(|t| domains[t.index()] == domains[waiters[0].index()]);
        self.sharing.returned(task, resource, |waiters| match locking {
            Locking::Fifo => vec![waiters[0]],
            Locking::Inheritance if sure && alike(waiters) => rules::most_urgent(waiters, &ranks),
            _ => waiters.to_vec(),
        });
    }

    fn start(&mut self, task: TaskId, job: u64, place: Place, record: &Record) {
        let waits = self.sharing.waits_for(task);
        let a = &mut self.accounts[task.index()];
        assert!(a.started.is_none() && !a.blocked && !a.gone, "{record:?} but {a:?}");
        assert_eq!(waits, None, "{record:?} although it waits");
        assert!(a.is_current(job), "{record:?} but {a:?}");
        let open = match &mut a.handler {
            Some((_, open)) => open,
            None => a.open.get_mut(&job).expect("it is current"),
        };
        assert!(open.release <= record.at, "{record:?} before its release: {open:?}");
        let first = open.last_place.is_none() && a.task.arrival != Arrival::Activated;
        a.counts.migrations += u64::from(open.last_place.is_some_and(|p| p != place));
        open.last_place = Some(place);
        a.started = Some((job, place));
        let said = a.behind == Some(job) || a.handler.is_some() || a.handled || a.program.is_none_or(|at| at == job);
        assert!(!first || said, "{record:?} while its program is at job {:?}", a.program);
        a.resumes(self.slack);
        a.counts.dispatches += 1;
    }

    /// Whether the policy ever stops a job for another one that did not give way.
    fn may_preempt(&self, task: TaskId) -> bool {
        let keeps = self.policy_of(task).0.is_non_preemptive();
        // Those that hold or wait for resources become more urgent.
        !keeps || self.system.resources > 0 && self.system.locking != Locking::Fifo
    }

    /// The engine's own picture is that of the ledger.
    fn compare(&mut self, engine: &Engine) {
        let now = self.moment.now;
        let mut running = 0;
        for (index, a) in self.accounts.iter_mut().enumerate() {
            // A program that is at nothing begins with the job that its task is dispatched for; and so does a handler.
            let dispatched = a.place.and(a.current().map(|(job, _)| job));
            let job = dispatched.filter(|_| a.program.is_none() || a.handler.is_some());
            a.program = job.or(a.program);
            if core::mem::take(&mut a.handled) && job.is_none() {
                // Whether it was completed or aborted shows in what the program is at.
                a.program = engine.at(TaskId(index as u32));
            }
            assert_eq!(a.program, engine.at(TaskId(index as u32)), "task {index} at {now}: {a:?}");
        }
        for (index, a) in self.accounts.iter().enumerate() {
            let task = TaskId(index as u32);
            running += usize::from(a.place.is_some());
            assert_eq!(a.place, engine.place_of(task), "{task:?} at {now}");
            assert_eq!(a.place, a.started.map(|s| s.1), "{task:?} at {now}: commands and records differ");
            let job = engine.job(task);
            assert_eq!(job.map(|j| j.number), a.current().map(|(n, _)| n), "{task:?} at {now}");
            assert_eq!(engine.waits(task), self.sharing.waits_for(task).is_some(), "{task:?} at {now}");
            if let (Some(job), Some((_, open))) = (job, a.current()) {
                assert_eq!((job.release, job.ready), (open.release, !a.blocked), "{task:?} at {now}");
                assert_eq!(job.deadline, open.deadline.unwrap_or(Time::MAX), "{task:?} at {now}");
                let elapsed = self.in_turn(index) || !self.metered;
                assert!(
                    !elapsed || job.consumed.nominal_time() == a.ran_for,
                    "{task:?} ran for {}, not {}",
                    a.ran_for,
                    job.consumed
                );
            }
        }
        assert_eq!(running, engine.running().len());
        assert_eq!(self.lost, engine.windows_lost());
        assert_eq!(self.sharing.deadlocks, engine.deadlocks());
        assert_eq!(engine.all_gone(), self.accounts.iter().all(|a| a.gone));
    }

    fn budgets(&mut self) {
        let now = self.moment.now;
        for index in 0..self.accounts.len() {
            let in_turn = self.in_turn(index);
            let a = &mut self.accounts[index];
            if let (Some((job, _)), false) = (a.started, a.ran.contains(&a.started.map_or(0, |s| s.0))) {
                a.ran.push(job);
            }
            let limited = a.granted.is_some() || a.task.budget.is_none() || a.handler.is_some();
            assert!(
                a.place.is_none() || limited,
                "task {index} runs without a budget at {now}, but has one of its own"
            );
            assert!(!in_turn || a.ran.len() <= 1, "task {index} has jobs {:?} in one window", a.ran);
            if let (Some(place), Some(granted), true) = (a.place, a.granted, in_turn) {
                assert!(
                    a.used < granted || a.used < a.limit,
                    "task {index} is on {place:?} with {granted} exhausted at {now}"
                );
            }
        }
    }

    /// The run is over: counters, and every start has its stop.
    pub(crate) fn closed(&mut self, end: Time, records: &[Record], engine: &Engine) {
        self.time_passes(end, false);
        self.single = false;
        self.aborted = (0..self.accounts.len()).map(|t| TaskId(t as u32)).collect();
        records.iter().for_each(|r| self.record(r));
        for (index, a) in self.accounts.iter_mut().enumerate() {
            let task = TaskId(index as u32);
            assert!(a.started.is_none(), "{task:?} was started and never stopped");
            let (counts, undecided) = a.closed(end);
            let jobless = a.task.arrival == Arrival::Activated && !a.signals;
            let counts = if jobless { counts.without_jobs() } else { counts };
            assert_eq!(counts, engine.counts(task), "{task:?}: recounted and counted");
            let undecided = if jobless { 0 } else { undecided };
            assert_eq!(counts.released, counts.met + counts.missed + undecided, "{task:?}");
        }
    }
}
