//! The policy of a module, guarded: each answer is checked before anything of it reaches the engine.
//!
//! Policies that break deadlocks are no fallbacks, because their start ends jobs, which a decision must not. A bound on questions per
//! millisecond stops a module that sets timers to the present instant, which costs little fuel each time.

use crate::fault::{Failed, Fault};
use crate::instance::{Instance, Opened};
use crate::loaded::{DEFAULT_FUEL, FALLBACK, FUEL, Loaded};
use std::cell::{Cell, RefCell};
use takt_core::cpus::CpuSet;
use takt_core::model::{Domain, Invalid, Kind, PolicySpec, Scope, TaskId, Terms, Values};
use takt_core::policies::fifo;
use takt_core::policy::{Act, Build, Context, Decision, Event, Policy, Registry};
use takt_core::record::{Place, RecordKind};
use takt_core::time::{Span, Time};
use takt_wasm_module::wire::{Machine, Setup};
use takt_wasm_module::words::{Question, Row, answer_rows};

/// A time that no schedule reaches, in nanoseconds: 36 years.
const FAR: i64 = 1 << 60;

/// The time in which a policy is asked so often at most, as [`Guarded::most_questions`] says. A policy that sets a timer to the present instant, or grants
/// budgets of a nanosecond, would otherwise keep the scheduler busy for ever.
const SHORT: Span = Span::from_ms(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The module schedules.
    Sound,
    /// It has failed, and the next decision is that of the fallback.
    Failed,
    /// The fallback schedules.
    Replaced,
}

pub(crate) struct Guarded {
    module: &'static Loaded,
    instance: RefCell<Instance>,
    state: Cell<State>,
    fallback: Box<dyn Policy>,
    fallback_spec: PolicySpec,
    /// The domain whose policy it is.
    domain: Option<u16>,
    tasks: Vec<TaskId>,
    /// By task: it is one of these.
    is_own: Vec<bool>,
    cpus: usize,
    first_timer: u16,
    /// The timers of the module. The fallback may have more.
    timers: u16,
    meters: bool,
    /// Questions since an instant.
    since: Time,
    questions: u64,
    most_questions: u64,
    /// Scratch: the answer; by task and CPU, whether the present decision names it.
    rows: Vec<Row>,
    chosen: Vec<bool>,
    taken: Vec<bool>,
    lent: Vec<bool>,
}

impl Guarded {
    pub(crate) fn new(module: &'static Loaded, build: &Build<'_>) -> Result<Guarded, Invalid> {
        let (spec, system) = (build.spec, build.system);
        if !system.windows.is_empty() {
            return Err(Invalid::Unsuitable("a loaded policy schedules no partition of a window table"));
        }
        if spec.scope == Scope::Uniprocessor && build.places.len() > 1 {
            return Err(Invalid::Unsuitable(
                "this policy is for one CPU; use its global (g-), partitioned (p-) or clustered (c-) form",
            ));
        }
        let fallback_spec = fallback(&spec);
        // Under the rules of a host, which has checked the values of the settings.
        let registry = Registry::standard();
        let fallback = Build { spec: fallback_spec, registry: &registry, ..*build }.policy()?;
        let own = spec.profile.settings.len() - 2;
        let mut values = Values::NONE;
        (0..own).for_each(|index| values.set(index, spec.values.get(index)));
        let setup = Setup {
            machine: Machine::of(system),
            tasks: build.tasks.to_vec(),
            places: build.places.to_vec(),
            scope: spec.scope,
            placement: spec.placement,
            values,
            cluster: spec.cluster,
            mapper: spec.mapper,
        };
        let fuel = spec.value(FUEL).unwrap_or(DEFAULT_FUEL).unsigned_abs();
        // The text of an error lives as long as the process, as those of the core do. There is one for each refused system.
        let said = |why: String| Invalid::Unsuitable(Box::leak(why.into_boxed_str()));
        let opened = Opened::new(&module.engine, &module.module).map_err(|error| said(error.to_string()))?;
        let (instance, built) = opened.build(&setup, fuel).map_err(said)?;
        let (tasks, cpus) = (system.tasks.len(), system.cpus.len());
        let mut is_own = vec![false; tasks];
        build.tasks.iter().for_each(|task| is_own[task.index()] = true);
        let all: Vec<usize> = system.cpus.iter().collect();
        let places: CpuSet = build.places.iter().map(|place| all[place.index()]).collect();
        let mine = |domain: &Domain| domain.tasks == build.tasks && domain.cpus == places;
        Ok(Guarded {
            module,
            instance: RefCell::new(instance),
            state: Cell::new(State::Sound),
            fallback,
            fallback_spec,
            domain: system.domains.iter().position(mine).map(|index| index as u16),
            tasks: build.tasks.to_vec(),
            is_own,
            cpus,
            first_timer: build.first_timer,
            timers: built.timers,
            meters: built.meters,
            since: Time::ZERO,
            questions: 0,
            most_questions: 1_000 + 100 * tasks as u64,
            rows: Vec::with_capacity(answer_rows(cpus, tasks, built.timers)),
            chosen: vec![false; tasks],
            taken: vec![false; cpus],
            lent: vec![false; cpus],
        })
    }

    fn fail(&self, fault: Fault, cx: &Context<'_>) {
        self.state.set(State::Failed);
        // The first one is reported.
        let _ = self.module.failed.set(Failed { at: cx.now(), fault });
    }

    fn ask(&mut self, question: Question, lent: &[Place], cx: &mut Context<'_>) -> Result<(), Fault> {
        if cx.now() - self.since >= SHORT {
            (self.since, self.questions) = (cx.now(), 0);
        }
        self.questions += 1;
        if self.questions > self.most_questions {
            return Err(Fault::Livelock);
        }
        self.instance.get_mut().ask(question, lent, cx, &mut self.rows)?;
        for index in 0..self.rows.len() {
            match self.rows[index] {
                Row::Act(act) => {
                    let act = self.checked(act, question, cx)?;
                    cx.carry_out(act);
                }
                Row::Assign(_) if question != Question::Decide => return Err(Fault::Row),
                Row::Assign(_) => {}
            }
        }
        Ok(())
    }

    fn own(&self, task: TaskId) -> Result<TaskId, Fault> {
        let own = self.is_own.get(task.index()).copied().unwrap_or(false);
        if own { Ok(task) } else { Err(Fault::ForeignTask(task)) }
    }

    fn with_job(&self, task: TaskId, cx: &Context<'_>) -> Result<TaskId, Fault> {
        let task = self.own(task)?;
        if cx.job(task).is_some() { Ok(task) } else { Err(Fault::NoJob(task)) }
    }

    fn timer(&self, timer: u16) -> Result<u16, Fault> {
        if timer < self.timers { Ok(self.first_timer + timer) } else { Err(Fault::Timer(timer)) }
    }

    /// The act with the numbers of the engine, if the policy may do it.
    fn checked(&self, act: Act, question: Question, cx: &Context<'_>) -> Result<Act, Fault> {
        let near = |ns: i64| if (-FAR..=FAR).contains(&ns) { Ok(()) } else { Err(Fault::Amount) };
        match act {
            Act::Visited { tasks } => near(i64::try_from(tasks).unwrap_or(i64::MAX).saturating_mul(1 << 30))?,
            Act::SetTimer { timer, at } => {
                if at != Time::MAX {
                    near(at.ns())?;
                }
                return Ok(Act::SetTimer { timer: self.timer(timer)?, at });
            }
            Act::CancelTimer { timer } => return Ok(Act::CancelTimer { timer: self.timer(timer)? }),
            Act::Replenish { task, budget } => {
                self.with_job(task, cx)?;
                near(budget.amount.ns())?;
            }
            Act::GrantOwn { task } => drop(self.with_job(task, cx)?),
            Act::Finish { task, .. } => {
                self.with_job(task, cx)?;
                if !matches!(question, Question::Event(_)) {
                    return Err(Fault::Moment);
                }
            }
            Act::Urgency { task, .. } => drop(self.own(task)?),
            Act::Remind { task } => {
                self.own(task)?;
                if question != Question::Start {
                    return Err(Fault::Moment);
                }
            }
            Act::Record { what: RecordKind::Round { place, set_point, measured, correction } } => {
                if place.index() >= self.cpus {
                    return Err(Fault::Row);
                }
                [set_point, measured, correction].into_iter().try_for_each(|span| near(span.ns()))?;
            }
            Act::Record { what: RecordKind::Burst { task, set_point, measured, next } } => {
                self.own(task)?;
                [set_point, measured, next].into_iter().try_for_each(|span| near(span.ns()))?;
            }
            Act::Record { .. } | Act::SetBorder { .. } => return Err(Fault::Row),
        }
        Ok(act)
    }

    /// The decision of the module, as a whole or not at all.
    fn decide_by_module(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) -> Result<(), Fault> {
        self.ask(Question::Decide, lent, cx)?;
        self.chosen.fill(false);
        self.taken.fill(false);
        self.lent.fill(false);
        lent.iter().for_each(|place| self.lent[place.index()] = true);
        for row in &self.rows {
            let Row::Assign(assignment) = *row else { continue };
            let (task, place) = (self.own(assignment.task)?, assignment.place);
            if !cx.is_ready(task) {
                return Err(Fault::NotReady(task));
            }
            if !self.lent.get(place.index()).copied().unwrap_or(false) {
                return Err(Fault::NotLent(task));
            }
            if !cx.may_run(task, place) {
                return Err(Fault::Affinity(task));
            }
            if std::mem::replace(&mut self.chosen[task.index()], true) {
                return Err(Fault::TwiceTask(task));
            }
            if std::mem::replace(&mut self.taken[place.index()], true) {
                return Err(Fault::TwiceCpu);
            }
            if assignment.budget.is_some_and(|budget| !(-FAR..=FAR).contains(&budget.amount.ns())) {
                return Err(Fault::Amount);
            }
        }
        for row in &self.rows {
            match *row {
                Row::Assign(assignment) => match assignment.budget {
                    Some(budget) => decision.run_with(assignment.task, assignment.place, budget),
                    None => decision.run(assignment.task, assignment.place),
                },
                Row::Act(_) => {}
            }
        }
        Ok(())
    }

    /// The fallback takes over the schedule as it is.
    #[cold]
    fn replace(&mut self, cx: &mut Context<'_>) {
        self.state.set(State::Replaced);
        (0..self.timers()).for_each(|timer| cx.cancel_timer(self.first_timer + timer));
        cx.fall_back(self.domain, self.fallback_spec, &self.tasks);
        self.fallback.start(cx);
    }
}

/// The policy in place of that of a module, should it fail: in the same form, with the default settings. `fifo` for another policy.
#[must_use]
pub fn fallback(spec: &PolicySpec) -> PolicySpec {
    let setting = spec.profile.settings.iter().find(|setting| setting.name == FALLBACK);
    let named = setting.and_then(|setting| match setting.kind {
        Kind::Choice(names) => names.get(usize::try_from(spec.value(FALLBACK)?).ok()?).copied(),
        _ => None,
    });
    let entry = named.and_then(|name| Registry::standard().entry(name)).unwrap_or(&fifo::ENTRY);
    let profile = &entry.profile;
    PolicySpec { profile, values: Values::NONE, ..*spec }
}

impl Policy for Guarded {
    fn start(&mut self, cx: &mut Context<'_>) {
        match self.state.get() {
            State::Replaced => self.fallback.start(cx),
            State::Failed => {}
            State::Sound => {
                if let Err(fault) = self.ask(Question::Start, &[], cx) {
                    self.fail(fault, cx);
                }
            }
        }
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        match self.state.get() {
            State::Replaced => self.fallback.event(event, cx),
            // The fallback starts from the state after all events of this instant.
            State::Failed => {}
            State::Sound => {
                let own = match *event {
                    Event::Timer { timer, due } => Event::Timer { timer: timer - self.first_timer, due },
                    event => event,
                };
                // A timer beyond its own is that of a policy before it.
                if matches!(own, Event::Timer { timer, .. } if timer >= self.timers) {
                    return;
                }
                if let Err(fault) = self.ask(Question::Event(own), &[], cx) {
                    self.fail(fault, cx);
                }
            }
        }
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        if self.state.get() == State::Sound {
            match self.decide_by_module(lent, cx, decision) {
                Ok(()) => return,
                Err(fault) => self.fail(fault, cx),
            }
        }
        if self.state.get() == State::Failed {
            self.replace(cx);
        }
        self.fallback.decide(lent, cx, decision);
    }

    fn timers(&self) -> u16 {
        self.timers.max(self.fallback.timers())
    }

    fn home(&self, task: TaskId) -> Option<Place> {
        match self.state.get() {
            State::Sound => self.instance.borrow_mut().home(task, self.cpus),
            State::Failed | State::Replaced => self.fallback.home(task),
        }
    }

    fn meters(&self) -> bool {
        self.meters
    }

    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        if self.state.get() != State::Sound {
            return self.fallback.admits(task, terms, cx);
        }
        // A fault is no answer, and the schedule does not depend on the question.
        self.instance.borrow().admits(self.module, task, terms, cx).unwrap_or(false)
    }
}
