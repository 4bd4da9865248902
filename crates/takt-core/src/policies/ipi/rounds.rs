//! The policy: rounds of bursts, and what becomes of them as jobs come and go.

use super::homes::homes;
use super::parameters::{Parameters, Reinit, Wake, Which};
use super::regulator::{Inner, Outer, Split, WHOLE, fine};
use super::{regulator, setpoints};
use crate::model::{Invalid, PolicySpec, Scope, TaskId};
#[cfg(feature = "order")]
use crate::policy::Standing;
use crate::policy::{Budget, Build, Clock, Context, Decision, Event, Policy};
use crate::record::{Place, RecordKind};
use crate::time::{Span, divide};
use crate::work::Work;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A task as its regulator sees it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The CPU whose regulator it belongs to, as a single-CPU place; none when it may run on no CPU of the policy's.
    pub(super) home: Option<u16>,
    /// Where it goes as soon as it has no burst.
    pub(super) destination: Option<u16>,
    pub(super) ready: bool,
    /// Its wanted share of a CPU, and its declared utilisation, in units of 2^-32.
    pub(super) want: u64,
    pub(super) load: u64,
    /// Its part of the round, and of the one before; in units of 2^-32.
    pub(super) alpha: i64,
    /// The integrator of its regulator.
    pub(super) state: i64,
    /// Its set point in the present round, and its limit.
    pub(super) target: Span,
    pub(super) burst: Span,
    /// Its consumption in the present round.
    pub(super) used: Span,
    /// How much of its job's consumption has been counted.
    pub(super) counted: Work,
    /// It is to run out of turn.
    pub(super) woken: bool,
}

/// One CPU with its regulator.
#[derive(Debug)]
pub(super) struct Core {
    /// Its tasks in the order of the round, the newest first.
    pub(super) order: Vec<TaskId>,
    /// Where in the order the round is.
    pub(super) cursor: usize,
    /// Tasks that come before those: woken or interrupted ones. The first `woken` of them interrupt the present burst.
    pub(super) ahead: VecDeque<TaskId>,
    pub(super) woken: usize,
    /// The task whose burst it is, and whether that is over.
    pub(super) current: Option<TaskId>,
    pub(super) over: bool,
    /// Whether that burst has been granted.
    pub(super) granted: bool,
    pub(super) ready: usize,
    pub(super) outer: Outer,
    pub(super) set_point: Span,
    /// The state is to be forgotten at the next regulation.
    pub(super) reinit: bool,
    /// The wanted shares are to be computed again.
    pub(super) stale: bool,
    /// Nothing has changed of which the parts of a round are computed.
    pub(super) same: bool,
    /// No round has been begun yet.
    pub(super) first: bool,
    /// CPU time that has been lacking, for the migration loop.
    pub(super) lacking: Span,
}

pub(super) struct Ipi {
    pub(super) p: Parameters,
    pub(super) tasks: Vec<TaskId>,
    /// By task of the system; only those of `tasks` mean something.
    pub(super) members: Vec<Member>,
    /// By single-CPU place.
    pub(super) cores: Vec<Core>,
    pub(super) places: Vec<Place>,
    pub(super) timer: Option<u16>,
    /// The number of the decision that follows its last one about the only CPU.
    decided: u64,
}

/// Builds the policy.
///
/// # Errors
/// Settings out of range, a uniprocessor scope over several CPUs, and a task that may run on none of those lent.
pub(super) fn build(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    let p = Parameters::new(&build.spec)?;
    let single = build.spec.scope == Scope::Uniprocessor;
    if single && build.places.len() > 1 {
        return Err(Invalid::Unsuitable("this policy is for one CPU; use its partitioned (p-) form"));
    }
    let homes = homes(build);
    let homeless = |t: &&TaskId| homes[t.index()].is_none();
    // A partition that no window names is lent nothing at all, which is for the table check to say.
    if let Some(&task) = build.tasks.iter().find(homeless).filter(|_| !single && !build.places.is_empty()) {
        return Err(Invalid::Affinity(task));
    }
    let member = |home: &Option<u16>| Member {
        home: *home,
        destination: None,
        ready: false,
        want: 0,
        load: 0,
        alpha: 0,
        state: 0,
        target: Span::ZERO,
        burst: Span::ZERO,
        used: Span::ZERO,
        counted: Work::ZERO,
        woken: false,
    };
    let core = |_| Core {
        order: Vec::with_capacity(build.tasks.len()),
        cursor: 0,
        ahead: VecDeque::with_capacity(build.tasks.len()),
        woken: 0,
        current: None,
        over: false,
        granted: false,
        ready: 0,
        outer: Outer::default(),
        set_point: Span::ZERO,
        reinit: true,
        stale: true,
        same: false,
        first: true,
        lacking: Span::ZERO,
    };
    Ok(Box::new(Ipi {
        p,
        tasks: build.tasks.to_vec(),
        members: homes.iter().map(member).collect(),
        cores: (0..build.system.cpus.len()).map(core).collect(),
        places: build.places.to_vec(),
        timer: (!single).then_some(build.first_timer),
        decided: u64::MAX,
    }))
}

impl Ipi {
    /// Counts what the task has used since it was last asked: the sensor. O(1).
    fn measure(&mut self, task: TaskId, consumed: Work) {
        let m = &mut self.members[task.index()];
        m.used = (m.used + (consumed - m.counted).nominal_time()).or_zero();
        m.counted = consumed;
    }

    /// Notes whether the task can run now, and what that means for the round. O(1).
    fn update(&mut self, task: TaskId, cx: &Context<'_>) {
        let m = &mut self.members[task.index()];
        let (ready, Some(home)) = (cx.is_ready(task), m.home) else { return };
        if core::mem::replace(&mut m.ready, ready) == ready {
            return;
        }
        let core = &mut self.cores[usize::from(home)];
        core.reinit |= self.p.feedforward && self.p.reinit == Reinit::Always;
        core.same = false;
        if !ready {
            core.ready -= 1;
            return;
        }
        core.ready += 1;
        let between_rounds = core.current.is_none() && core.ahead.is_empty() && core.cursor >= core.order.len();
        if between_rounds || core.current == Some(task) || core.ahead.contains(&task) {
            return;
        }
        m.woken = matches!(self.p.wake, Wake::Next | Wake::Preempt);
        match self.p.wake {
            Wake::Turn => {}
            Wake::Cut => core.over = core.current.is_some(),
            Wake::Next => core.ahead.push_back(task),
            Wake::Preempt => {
                core.ahead.insert(core.woken, task);
                core.woken += 1;
            }
        }
    }

    /// The part of the round that a task gets that wakes in the middle of it: as much as the set points would give it now. O(n).
    fn welcome(&mut self, home: usize, task: TaskId, cx: &mut Context<'_>) {
        if !core::mem::take(&mut self.members[task.index()].woken) {
            return;
        }
        self.refresh(home, cx);
        let core = &self.cores[home];
        let overloaded = self.overloaded(core);
        let weight = |t: &TaskId| self.weight(*t, overloaded, cx);
        let sum: i128 = core.order.iter().map(weight).sum();
        let set_point = self.round(core, cx);
        let share = divide(i128::from(set_point.ns()) * weight(&task), sum.max(1));
        let share = Span::from_ns(share as i64).clamp(self.p.least, self.p.most);
        let seen = core.order.len();
        let m = &mut self.members[task.index()];
        m.burst = m.burst.max(share);
        cx.visited(seen);
    }

    /// How much the task counts in the division of the round. O(1).
    #[inline]
    fn weight(&self, task: TaskId, overloaded: bool, cx: &Context<'_>) -> i128 {
        let m = &self.members[task.index()];
        if self.p.feedforward && !m.ready {
            return 0;
        }
        setpoints::weight(m.want, cx.task(task).importance, overloaded)
    }

    /// Whether the tasks of a CPU need more than it has. O(n).
    fn overloaded(&self, core: &Core) -> bool {
        let counts = |m: &&Member| self.p.overload == Which::All || m.ready;
        let members = core.order.iter().map(|t| &self.members[t.index()]);
        members.filter(counts).fold(0, |sum: u64, m| sum.saturating_add(m.load)) > WHOLE as u64
    }

    /// The set point of the next round. O(n).
    fn round(&self, core: &Core, cx: &Context<'_>) -> Span {
        let counts = |t: &&TaskId| self.p.count == Which::All || self.members[t.index()].ready;
        let shortest = || core.order.iter().filter(counts).filter_map(|t| cx.task(*t).arrival.period()).min();
        let tasks = if self.p.count == Which::All { core.order.len() } else { core.ready };
        setpoints::round(&self.p, tasks, shortest)
    }

    /// Brings what the tasks of a CPU want up to date. O(n).
    pub(super) fn refresh(&mut self, home: usize, cx: &Context<'_>) {
        let (core, members) = (&mut self.cores[home], &mut self.members);
        if core::mem::take(&mut core.stale) {
            let tasks = &cx.system().tasks;
            setpoints::wants(&self.p, tasks, &core.order, |id, want| members[id.index()].want = want);
            for id in &core.order {
                members[id.index()].load = setpoints::load(&tasks[id.index()]).unwrap_or(0);
            }
        }
    }

    /// Computes α and the set point. Says whether they have changed by more than a hundredth. O(n).
    fn generate(&mut self, home: usize, cx: &Context<'_>) -> bool {
        if core::mem::replace(&mut self.cores[home].same, true) {
            return false;
        }
        self.refresh(home, cx);
        let core = &self.cores[home];
        let overloaded = self.overloaded(core);
        let set_point = self.round(core, cx);
        let Ipi { p, members, cores, .. } = self;
        let core = &mut cores[home];
        let weight = |task: &TaskId, m: &Member| match p.feedforward && !m.ready {
            true => 0,
            false if overloaded => setpoints::weight(m.want, cx.task(*task).importance, true),
            false => i128::from(m.want),
        };
        let mut changed = (set_point - core.set_point).ns().abs() > set_point.ns() / 100;
        let mut sum: i128 = core.order.iter().map(|t| weight(t, &members[t.index()])).sum();
        // When no task that could run wants anything, all of them count alike.
        let alike = sum == 0;
        if alike {
            sum = core.ready as i128;
        }
        let mut split = Split::new(WHOLE, sum);
        for task in &core.order {
            let m = &mut members[task.index()];
            let alpha = split.next(if alike { i128::from(m.ready) } else { weight(task, m) });
            changed |= (alpha - m.alpha).abs() > WHOLE / 100;
            m.alpha = alpha;
        }
        core.set_point = set_point;
        changed
    }

    /// The regulator: from the measured bursts of the round that is over to those of the next. A task is ready. O(n).
    fn regulate(&mut self, home: usize, cx: &mut Context<'_>) {
        let core = &self.cores[home];
        let (ended, first) = (core.set_point, core.first);
        let measured = core.order.iter().fold(Span::ZERO, |sum, t| sum + self.members[t.index()].used);
        let changed = self.generate(home, cx);
        let Ipi { p, members, cores, .. } = self;
        let core = &mut cores[home];
        let again = core.reinit || !p.feedback || (changed && p.reinit == Reinit::Changed);
        core.reinit = false;
        core.first = false;
        let tasks = core.order.len();
        if !again {
            let most = fine(p.most);
            let full = |t: &TaskId| !members[t.index()].ready || members[t.index()].state >= most;
            let saturated = core.order.iter().all(full);
            core.outer.step(p, core.set_point, measured, saturated, tasks);
        } else {
            core.outer = Outer::default();
        }
        if !first {
            let place = Place(home as u16);
            let correction = Span::from_ns(core.outer.correction >> regulator::FRACTION);
            cx.record(RecordKind::Round { place, set_point: ended, measured, correction });
        }
        let mut targets = Split::new(core.set_point.ns(), i128::from(WHOLE));
        let mut inner = Inner::new(p, measured, core.outer.correction);
        let mut given = Span::ZERO;
        for task in &core.order {
            let m = &mut members[task.index()];
            let target = Span::from_ns(targets.next(i128::from(m.alpha)));
            let (used, before) = (core::mem::take(&mut m.used), core::mem::replace(&mut m.target, target));
            if again {
                m.burst = target.clamp(p.least, p.most);
                m.state = fine(m.burst);
            } else {
                m.burst = inner.step(m.alpha, used, &mut m.state);
            }
            if m.ready {
                given += m.burst;
            }
            if !first {
                cx.record(RecordKind::Burst { task: *task, set_point: before, measured: used, next: m.burst });
            }
        }
        if given <= Span::ZERO {
            // No task would run, the round would take no time and so would all that follow: each starts with a nominal burst.
            core.outer = Outer::default();
            for m in core.order.iter().map(|t| t.index()) {
                members[m].burst = p.nominal.clamp(p.least, p.most);
                members[m].state = fine(members[m].burst);
            }
        }
        cx.visited(tasks);
    }

    /// Ends the present burst if it is over, and says whose it is. O(1).
    fn present(&mut self, home: usize, cx: &mut Context<'_>) -> Option<TaskId> {
        let core = &mut self.cores[home];
        let task = core.current?;
        let m = &mut self.members[task.index()];
        if core.over || !m.ready || m.used >= m.burst {
            if core.over {
                // Time that it did not use is not for later in this round.
                m.burst = m.burst.min(m.used);
            }
            core.current = None;
            self.depart(task);
            return None;
        }
        if core.woken == 0 {
            return Some(task);
        }
        // Those that have woken come first; the rest of the burst comes after them.
        core.ahead.insert(core.woken, task);
        core.current = None;
        if let Some(job) = cx.job(task) {
            self.measure(task, job.consumed);
        }
        None
    }

    /// The task whose burst it is now. O(n) at the end of a round, otherwise O(tasks skipped).
    fn choose(&mut self, home: usize, cx: &mut Context<'_>) -> Option<TaskId> {
        if let Some(task) = self.present(home, cx) {
            return Some(task);
        }
        loop {
            let core = &mut self.cores[home];
            core.over = false;
            core.woken = 0;
            let task = if let Some(task) = core.ahead.pop_front() {
                self.welcome(home, task, cx);
                task
            } else if let Some(&task) = core.order.get(core.cursor) {
                core.cursor += 1;
                task
            } else if core.ready == 0 {
                return None;
            } else {
                core.cursor = 0;
                self.regulate(home, cx);
                continue;
            };
            let m = &self.members[task.index()];
            if m.ready && m.used < m.burst {
                let core = &mut self.cores[home];
                (core.current, core.granted) = (Some(task), false);
                return Some(task);
            }
        }
    }

    /// The task whose burst it is on a CPU, if there is one, and its budget if that is a new one.
    fn next(&mut self, place: Place, cx: &mut Context<'_>) -> Option<(TaskId, Option<Budget>)> {
        let task = self.choose(place.index(), cx)?;
        let granted = core::mem::replace(&mut self.cores[place.index()].granted, true);
        // A job that follows another one in the same burst has no budget yet.
        let keeps = granted && cx.budget_left(task).is_some();
        Some((task, if keeps { None } else { Some(self.grant(task, cx)) }))
    }

    /// Runs the task whose burst it is on a CPU, if there is one.
    fn run(&mut self, place: Place, cx: &mut Context<'_>, decision: &mut Decision) {
        if let Some((task, budget)) = self.next(place, cx) {
            decision.assign(task, place, budget);
        }
    }

    /// Decides about the only CPU, by what changes there where the last decision still stands.
    fn run_alone(&mut self, place: Place, cx: &mut Context<'_>, decision: &mut Decision) {
        let stands = self.decided == cx.round() && cx.stands() && decision.takes_changes();
        self.decided = cx.round() + 1;
        let next = self.next(place, cx);
        let running = cx.running_on(place);
        match next {
            Some((task, None)) if stands && running == Some(task) && !cx.is_fresh(task) => {
                decision.keep(&[place], None)
            }
            Some((task, budget)) => {
                if stands && running != Some(task) {
                    decision.keep(&[place], running);
                }
                decision.assign(task, place, budget);
            }
            None if stands => decision.keep(&[place], running),
            None => {}
        }
    }

    /// The time that the task may use before it is asked again: the rest of its burst, and no more than its own limit leaves. O(1).
    fn grant(&self, task: TaskId, cx: &Context<'_>) -> Budget {
        let m = &self.members[task.index()];
        let rest = m.burst - m.used;
        let amount = cx.own_budget_left(task).map_or(rest, |own| rest.min(own));
        // Measurements may have come late and show more than there was; the next one ends it.
        Budget { amount: amount.max(Span::from_ns(1)), clock: Clock::Cpu }
    }
}

impl Policy for Ipi {
    fn start(&mut self, cx: &mut Context<'_>) {
        for core in &mut self.cores {
            core.order.clear();
            core.ahead.clear();
            (core.woken, core.current, core.over, core.granted, core.ready) = (0, None, false, false, 0);
            core.outer = Outer::default();
            (core.reinit, core.stale, core.same, core.first) = (true, true, false, true);
            core.lacking = Span::ZERO;
        }
        // The newest task is at the head.
        for index in (0..self.tasks.len()).rev() {
            let task = self.tasks[index];
            let m = &mut self.members[task.index()];
            m.destination = None;
            m.woken = false;
            m.used = Span::ZERO;
            m.counted = cx.job(task).map_or(Work::ZERO, |job| job.consumed);
            m.ready = cx.is_ready(task);
            let Some(home) = m.home.filter(|_| !cx.is_gone(task)) else { continue };
            let core = &mut self.cores[usize::from(home)];
            core.order.push(task);
            core.ready += usize::from(m.ready);
        }
        self.cores.iter_mut().for_each(|core| core.cursor = core.order.len());
        self.arm(cx);
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        let Some(task) = event.task() else {
            if matches!(*event, Event::Timer { timer, .. } if Some(timer) == self.timer) {
                self.balance(cx);
                self.arm(cx);
            }
            return;
        };
        let Some(home) = self.members[task.index()].home else { return };
        let home = usize::from(home);
        let current = self.cores[home].current == Some(task);
        match *event {
            Event::Finish { consumed, .. } => {
                self.measure(task, consumed);
                self.members[task.index()].counted = Work::ZERO;
            }
            Event::Release { .. } => self.members[task.index()].counted = Work::ZERO,
            Event::Block { .. } => {
                if let Some(job) = cx.job(task) {
                    self.measure(task, job.consumed);
                }
            }
            Event::Yield { consumed, .. } => {
                self.measure(task, consumed);
                self.cores[home].over |= current;
            }
            Event::BudgetExpired { consumed, .. } => {
                let now = cx.consumed(task).map_or(consumed, |now| now.max(consumed));
                self.measure(task, now);
                self.cores[home].over |= current;
            }
            // The handler is new work in the same burst.
            Event::Handler { consumed, .. } => {
                self.measure(task, consumed);
                self.members[task.index()].counted = Work::ZERO;
            }
            Event::Changed { .. } => {
                // Either what it wants is different, or it came back.
                if !self.cores[home].order.contains(&task) && !cx.is_gone(task) {
                    self.join(task, home);
                }
                self.disturb(home);
            }
            _ => {}
        }
        self.update(task, cx);
        if matches!(event, Event::Exit { .. }) {
            self.leave(task);
        }
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        if let ([place], 1) = (lent, self.cores.len()) {
            return self.run_alone(*place, cx, decision);
        }
        for &place in lent {
            self.run(place, cx, decision);
        }
        // A task whose burst was over may have moved to a CPU that had no task until then.
        for &place in lent {
            let core = &self.cores[place.index()];
            if core.current.is_none() && core.ready > 0 {
                self.run(place, cx, decision);
            }
        }
    }

    /// It has no guests.
    fn passes_changes(&self) -> bool {
        true
    }

    fn home(&self, task: TaskId) -> Option<Place> {
        self.members[task.index()].home.map(Place)
    }

    /// As the round continues from the present burst, and then as the next one begins.
    #[cfg(feature = "order")]
    fn order(&self, cx: &Context<'_>, show: &mut dyn FnMut(Standing<'_>)) {
        for (place, core) in (0..).map(Place).zip(&self.cores) {
            let (done, rest) = core.order.split_at(core.cursor.min(core.order.len()));
            let is_ahead = |task: &TaskId| core.current == Some(*task) || core.ahead.contains(task);
            let in_round = |task: &&TaskId| {
                let m = &self.members[task.index()];
                m.used < m.burst && !is_ahead(task)
            };
            let out_of_round = |task: &&TaskId| {
                let m = &self.members[task.index()];
                m.used >= m.burst && !is_ahead(task)
            };
            let waiting = core.current.iter().chain(core.ahead.iter().filter(|task| core.current != Some(**task)));
            let this_round = waiting.chain(rest.iter().filter(in_round));
            let next_round = done.iter().filter(|task| !is_ahead(task)).chain(rest.iter().filter(out_of_round));
            for &task in this_round.chain(next_round).filter(|task| cx.job(**task).is_some()) {
                let m = &self.members[task.index()];
                let burst = if m.used < m.burst { m.burst - m.used } else { m.burst.max(self.p.least) };
                let limit = cx.own_budget_left(task).map_or(burst, |own| own.min(burst));
                show(Standing { task, places: &[place], limit: Some(limit) });
            }
        }
    }

    fn timers(&self) -> u16 {
        u16::from(self.timer.is_some())
    }

    /// Bursts are CPU time, and what a job has used of one is what the regulator goes by.
    fn meters(&self) -> bool {
        true
    }

    fn configure(&mut self, spec: &PolicySpec, cx: &mut Context<'_>) -> bool {
        let Ok(p) = Parameters::new(spec) else { return false };
        let asks = |p: &Parameters| (p.nominal, p.round, p.count, p.alpha, p.overload, p.feedforward);
        let changed = asks(&p) != asks(&self.p);
        let period = self.p.migration;
        self.p = p;
        if changed {
            (0..self.cores.len()).for_each(|home| self.disturb(home));
        }
        if p.migration != period {
            self.arm(cx);
        }
        true
    }
}
