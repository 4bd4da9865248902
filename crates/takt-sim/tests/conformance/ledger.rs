//! A second account of what happens, kept from commands and records alone, that panics when the two disagree, when a
//! rule is broken, or when the engine's counters do not add up.

use std::collections::BTreeMap;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Command, Engine};
use takt_core::model::*;
use takt_core::policy::{PolicySpec, Scope};
use takt_core::record::{JobId, Outcome, Place, Record, StopReason, What};
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};

/// A released job that is not over.
#[derive(Debug)]
struct Open {
    release: Time,
    deadline: Option<Time>,
    last_place: Option<Place>,
}

#[derive(Default, Debug)]
struct Account {
    /// Where it runs by the commands, and by the records together with its job.
    place: Option<Place>,
    started: Option<(JobId, Place)>,
    open: BTreeMap<JobId, Open>,
    next_job: JobId,
    blocked: bool,
    gone: bool,
    counts: Counts,
    /// What its current job was granted last and has used of it in elapsed time.
    granted: Option<Span>,
    used: Span,
    /// Elapsed time that its current job has run.
    ran_for: Span,
    /// The jobs of it that ran in the current window.
    ran: Vec<JobId>,
}

pub(crate) struct Ledger {
    system: System,
    places: Vec<CpuSet>,
    accounts: Vec<Account>,
    owner: Vec<Option<TaskId>>,
    now: Time,
    metered: bool,
    window: Option<(u32, u64)>,
    lost: u64,
    partition_of: Vec<Option<usize>>,
}

impl Ledger {
    pub(crate) fn new(system: &System, metered: bool) -> Ledger {
        let of = |t: usize| system.partitions.iter().position(|p| p.tasks.contains(&TaskId(t as u32)));
        Ledger {
            places: system.places(),
            accounts: system.tasks.iter().map(|_| Account::default()).collect(),
            owner: vec![None; takt_core::cpus::MAX_CPUS],
            now: Time::ZERO,
            metered,
            window: None,
            lost: 0,
            partition_of: (0..system.tasks.len()).map(of).collect(),
            system: system.clone(),
        }
    }

    fn tabled(&self) -> bool {
        self.system.policy.scope == Scope::Table
    }
    /// Whether the table itself runs this task, one at a time in its partition.
    fn in_turn(&self, task: usize) -> bool {
        self.tabled() && self.partition_of[task].is_some_and(|p| self.system.partitions[p].policy.is_none())
    }

    /// Up to `now` everything ran on as it was.
    pub(crate) fn time_passes(&mut self, now: Time, on_time: bool) {
        let passed = now - self.now;
        for index in 0..self.accounts.len() {
            let elapsed_budget = self.in_turn(index) || !self.metered;
            let a = &mut self.accounts[index];
            if a.place.is_some() && !a.blocked && !a.open.is_empty() {
                a.used += passed;
                a.ran_for += passed;
                if let (Some(granted), true, true) = (a.granted, on_time, elapsed_budget) {
                    assert!(a.used <= granted, "task {index} used {} of {granted} at {now}", a.used);
                }
            }
        }
        self.now = now;
    }

    pub(crate) fn switched(&mut self, to: PolicySpec, records: &[Record], now: Time) {
        self.system.policy = to;
        records.iter().for_each(|r| self.record(r, now));
    }

    pub(crate) fn stepped(&mut self, now: Time, commands: &[Command], records: &[Record], engine: &Engine) {
        records.iter().for_each(|r| self.record(r, now));
        self.commands(commands);
        assert!(engine.next_due().is_none_or(|due| due > now), "something due by {now} was left");
        self.compare(now, engine);
        self.rules(now, engine);
    }

    fn commands(&mut self, commands: &[Command]) {
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
                    assert!(self.owner[cpu].take() == Some(task), "CPU {cpu} was not task {}'s", task.0);
                }
            }
        }
        for command in commands {
            match *command {
                Command::Start { task, place, .. } | Command::Move { task, to: place, .. } => {
                    let was = self.accounts[task.index()].place.replace(place);
                    assert!(was.is_none(), "task {} arrives on {place:?} and is on {was:?}", task.0);
                    for cpu in self.places[place.index()].iter() {
                        let other = self.owner[cpu].replace(task);
                        assert!(other.is_none(), "CPU {cpu} has tasks {} and {other:?}", task.0);
                    }
                }
                Command::Continue { task, place, .. } => {
                    assert!(self.accounts[task.index()].place == Some(place), "task {} cannot continue", task.0);
                }
                Command::Stop { .. } => {}
            }
        }
    }

    fn record(&mut self, record: &Record, now: Time) {
        assert!(record.at <= now, "a record from the future: {record:?} at {now}");
        match record.what {
            What::Window { window, frame } => {
                self.window = Some((window, frame));
                self.accounts.iter_mut().for_each(|a| a.ran.clear());
            }
            What::WindowsLost { count } => self.lost += count,
            What::Release { task, job, deadline } => self.release(task, job, deadline, record.at, now),
            What::Budget { task, job, amount } => {
                let a = &mut self.accounts[task.index()];
                assert!(a.open.keys().next() == Some(&job), "a budget for job {job} of {task:?}: {a:?}");
                (a.granted, a.used) = (Some(amount), Span::ZERO);
            }
            What::Start { task, job, place } => {
                let a = &mut self.accounts[task.index()];
                assert!(a.started.is_none() && !a.blocked && !a.gone, "{record:?} but {a:?}");
                let (first, open) = a.open.iter_mut().next().unwrap_or_else(|| panic!("{record:?} without a job"));
                assert!(*first == job && open.release <= record.at, "{record:?} but the first is {first}: {open:?}");
                a.counts.migrations += u64::from(open.last_place.is_some_and(|p| p != place));
                open.last_place = Some(place);
                a.started = Some((job, place));
                a.counts.dispatches += 1;
            }
            What::Stop { task, job, place, reason } => {
                let a = &mut self.accounts[task.index()];
                assert!(a.started.take() == Some((job, place)), "{record:?} without its start");
                let over = !a.open.contains_key(&job);
                assert!(over == (reason == StopReason::Finished), "{record:?} but over: {over}");
                assert!(a.blocked == (reason == StopReason::Blocked) || over, "{record:?} but {a:?}");
                a.counts.preemptions += u64::from(reason == StopReason::Preempted);
            }
            What::Finish { task, job, outcome, consumed } => self.finish(task, job, outcome, consumed, record.at),
            What::Block { task, job } => {
                let a = &mut self.accounts[task.index()];
                assert!(!a.blocked && a.open.keys().next() == Some(&job), "{record:?} but {a:?}");
                a.blocked = true;
            }
            What::Wake { task, job } => {
                let a = &mut self.accounts[task.index()];
                assert!(a.blocked && a.open.keys().next() == Some(&job), "{record:?} but {a:?}");
                a.blocked = false;
            }
            What::LateSignal { task, .. } => self.accounts[task.index()].counts.late_signals += 1,
            What::Exit { task } => {
                let a = &mut self.accounts[task.index()];
                assert!(!a.gone && a.open.is_empty(), "{record:?} but {a:?}");
                a.gone = true;
            }
            _ => {}
        }
    }

    fn release(&mut self, task: TaskId, job: JobId, deadline: Option<Time>, at: Time, now: Time) {
        let (described, a) = (&self.system.tasks[task.index()], &mut self.accounts[task.index()]);
        assert!(!a.gone, "job {job} of {task:?} is released after its exit");
        match described.arrival {
            Arrival::Periodic { offset, period } => {
                assert_eq!(job, a.next_job, "{task:?}");
                assert_eq!(at, Time::ZERO + offset + period * job as i64, "job {job} of {task:?}");
                assert_eq!(deadline, described.deadline.map(|d| at + d), "job {job} of {task:?}");
            }
            Arrival::Sporadic { .. } | Arrival::Listed { .. } => {
                assert_eq!(job, a.next_job, "{task:?}");
                assert_eq!(deadline, described.deadline.map(|d| at + d), "job {job} of {task:?}");
            }
            Arrival::Activated => {
                // Draws of zero leave gaps.
                assert!(job >= a.next_job && at == now && a.open.is_empty(), "job {job} of {task:?}: {a:?}");
            }
        }
        a.next_job = job + 1;
        a.counts.released += 1;
        a.open.insert(job, Open { release: at, deadline, last_place: None });
    }

    fn finish(&mut self, task: TaskId, job: JobId, outcome: Outcome, consumed: Span, at: Time) {
        let elapsed = self.in_turn(task.index()) || !self.metered;
        let a = &mut self.accounts[task.index()];
        let current = a.open.keys().next() == Some(&job);
        let open = a.open.remove(&job).unwrap_or_else(|| panic!("job {job} of {task:?} is over twice or never was"));
        assert!(current || outcome == Outcome::Skipped, "job {job} of {task:?} overtakes another");
        assert!(outcome != Outcome::Skipped || open.last_place.is_none(), "a skipped job ran");
        match outcome {
            Outcome::Completed | Outcome::BudgetUsed | Outcome::Exited => {
                let in_time = open.deadline.is_none_or(|d| at <= d);
                a.counts.completed += 1;
                a.counts.met += u64::from(in_time);
                a.counts.missed += u64::from(!in_time);
            }
            Outcome::Overrun | Outcome::Aborted | Outcome::Skipped => {
                a.counts.missed += 1;
                a.counts.overruns += u64::from(outcome == Outcome::Overrun);
                a.counts.aborted += u64::from(outcome == Outcome::Aborted);
            }
        }
        if current {
            assert!(!elapsed || consumed == a.ran_for, "job {job} of {task:?} ran for {}, not {consumed}", a.ran_for);
            a.blocked = false;
            (a.granted, a.used, a.ran_for) = (None, Span::ZERO, Span::ZERO);
        }
    }

    /// The engine's own picture is that of the ledger.
    fn compare(&self, now: Time, engine: &Engine) {
        let mut running = 0;
        for (index, a) in self.accounts.iter().enumerate() {
            let task = TaskId(index as u32);
            running += usize::from(a.place.is_some());
            assert_eq!(a.place, engine.place_of(task), "{task:?} at {now}");
            assert_eq!(a.place, a.started.map(|s| s.1), "{task:?} at {now}: commands and records differ");
            let job = engine.job(task);
            let first = a.open.iter().next();
            assert_eq!(job.map(|j| j.number), first.map(|(n, _)| *n), "{task:?} at {now}");
            if let (Some(job), Some((_, open))) = (job, first) {
                assert_eq!((job.release, job.ready), (open.release, !a.blocked), "{task:?} at {now}");
                assert_eq!(job.deadline, open.deadline.unwrap_or(Time::MAX), "{task:?} at {now}");
                let elapsed = self.in_turn(index) || !self.metered;
                assert!(!elapsed || job.consumed == a.ran_for, "{task:?} ran for {}, not {}", a.ran_for, job.consumed);
                let periodic = matches!(self.system.tasks[index].arrival, Arrival::Periodic { .. });
                let late = periodic && self.system.late == Late::Abort && job.deadline <= now;
                assert!(!late, "{task:?} should have been aborted at {}", job.deadline);
            }
            let most = if self.system.backlog == Backlog::Skip { 1 } else { usize::MAX };
            assert!(a.open.len() <= most, "{task:?} has a backlog");
        }
        assert_eq!(running, engine.running().len());
        assert_eq!(self.lost, engine.windows_lost());
        assert_eq!(engine.all_gone(), self.accounts.iter().all(|a| a.gone));
    }

    fn rules(&mut self, now: Time, engine: &Engine) {
        for index in 0..self.accounts.len() {
            let in_turn = self.in_turn(index);
            let a = &mut self.accounts[index];
            if let (Some((job, _)), false) = (a.started, a.ran.contains(&a.started.map_or(0, |s| s.0))) {
                a.ran.push(job);
            }
            assert!(!in_turn || a.ran.len() <= 1, "task {index} has jobs {:?} in one window", a.ran);
            if let (Some(place), Some(granted), true) = (a.place, a.granted, in_turn) {
                assert!(a.used < granted, "task {index} is still on {place:?} with {granted} used up at {now}");
            }
        }
        if self.tabled() {
            self.table_rules(now);
        } else {
            for (index, a) in self.accounts.iter().enumerate() {
                let allowed = self.system.tasks[index].affinity;
                let inside = a.place.is_none_or(|p| self.places[p.index()].is_subset(&allowed));
                assert!(inside, "task {index} runs on {:?}", a.place);
            }
            self.urgency(engine);
        }
    }

    /// Where a work-conserving policy with an order lets a job wait, every CPU that it may use runs a more urgent one.
    fn urgency(&self, engine: &Engine) {
        let spec = self.system.policy;
        if spec.scope == Scope::Partitioned {
            return;
        }
        let rank = |task: TaskId| {
            let (described, job) = (&self.system.tasks[task.index()], engine.job(task).expect("it is ready or runs"));
            let rank = match (spec.entry.name, &described.arrival) {
                ("edf", _) => job.deadline.ns(),
                ("rm", Arrival::Periodic { period, .. }) => period.ns(),
                ("fp", _) => -i64::from(described.priority),
                _ => 0,
            };
            (rank, job.release, task)
        };
        let ordered = ["edf", "rm", "fp"].contains(&spec.entry.name);
        let tasks = (0..self.accounts.len()).map(|t| TaskId(t as u32));
        for task in tasks.filter(|t| self.accounts[t.index()].place.is_none()) {
            if !engine.job(task).is_some_and(|j| j.ready) {
                continue;
            }
            for cpu in self.system.tasks[task.index()].affinity.intersection(&self.system.cpus).iter() {
                let other = self.owner[cpu].unwrap_or_else(|| panic!("{task:?} waits and CPU {cpu} is idle"));
                assert!(!ordered || rank(other) < rank(task), "{task:?} waits for {other:?} on CPU {cpu}");
            }
        }
    }

    fn table_rules(&self, now: Time) {
        let frame = self.system.major_frame().ns();
        let mut rest = now.ns() % frame;
        let index = self.system.windows.iter().position(|w| {
            rest -= w.length.ns();
            rest < 0
        });
        let index = index.expect("the rest is below the sum of the lengths");
        assert_eq!(self.window, Some((index as u32, (now.ns() / frame) as u64)), "the grid at {now}");
        let slices = &self.system.windows[index].slices;
        let mut busy = vec![false; slices.len()];
        for (i, slice) in slices.iter().enumerate() {
            let Some(sc) = slice.sc.map(|p| &self.system.partitions[p.index()]) else { continue };
            let account = |t: &TaskId| &self.accounts[t.index()];
            busy[i] = match sc.policy {
                None => sc.tasks.iter().any(|t| !account(t).open.is_empty()),
                Some(_) => sc.tasks.iter().any(|t| account(t).place.is_some()),
            };
        }
        for (task, a) in self.accounts.iter().enumerate() {
            let Some(place) = a.place else { continue };
            let partition = self.partition_of[task].map(|p| PartitionId(p as u32));
            let slice = slices.iter().position(|s| s.sc == partition || s.be == partition);
            let slice = slice.unwrap_or_else(|| panic!("task {task} runs outside its windows at {now}"));
            let (lent, used) = (slices[slice].cpus, self.places[place.index()]);
            if self.in_turn(task) {
                assert_eq!(used, lent, "task {task} at {now}");
                let others = &self.system.partitions[self.partition_of[task].expect("it is in one")].tasks;
                let beside = others.iter().filter(|t| self.accounts[t.index()].place.is_some()).count();
                assert_eq!(beside, 1, "two processes of task {task}'s partition run at {now}");
            } else {
                let allowed = self.system.tasks[task].affinity.intersection(&lent);
                assert!(used.len() == 1 && used.is_subset(&allowed), "task {task} runs on {used} at {now}");
            }
            if slices[slice].be == partition {
                let all = self.system.be_start == BestEffortStart::AllDone;
                let waits = busy.iter().enumerate().any(|(i, b)| *b && (all || i == slice));
                assert!(!waits, "best-effort task {task} runs before safety-critical ones are done at {now}");
            }
        }
    }

    /// The run is over: counters, and every start has its stop.
    pub(crate) fn closed(&mut self, end: Time, records: &[Record], engine: &Engine) {
        self.time_passes(end, false);
        records.iter().for_each(|r| self.record(r, end));
        for (index, a) in self.accounts.iter_mut().enumerate() {
            let task = TaskId(index as u32);
            assert!(a.started.is_none(), "{task:?} was started and never stopped");
            let late = a.open.values().filter(|o| o.deadline.is_some_and(|d| d <= end)).count() as u64;
            let undecided = a.open.len() as u64 - late;
            a.counts.missed += late;
            assert_eq!(a.counts, engine.counts(task), "{task:?}: recounted and counted");
            assert_eq!(a.counts.released, a.counts.met + a.counts.missed + undecided, "{task:?}");
        }
    }
}
