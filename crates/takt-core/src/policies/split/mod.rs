//! Semi-partitioned EDF: every CPU schedules its own tasks by EDF, and a task that fits on no CPU is split over several.
//!
//! Kato, Yamasaki, Ishikawa, "Semi-Partitioned Scheduling of Sporadic Task Systems on Multiprocessors", ECRTS 2009; the timer at
//! the borders as in RESCH, of Kato, Rajkumar, Ishikawa, "AIRS: Supporting Interactive Real-Time Applications on Multicore
//! Platforms", ECRTS 2010, section 5. Invariant: a split task has a *route*, a list of CPUs with a piece of its runtime and an
//! interval for each. The intervals follow each other without overlap; in each of them the task runs on that CPU only, no longer
//! than the piece, and with the end of the interval as its deadline. So each CPU by itself is a uniprocessor under EDF, and what
//! the exact test of [`demand`] admits there meets its deadlines.
//!
//! CPUs are assigned once, by [`assign`]: with equal windows ([`edf_wm`]) or tight pieces ([`edf_cd`]).

pub mod assign;
pub mod bins;
pub mod demand;
pub mod edf_cd;
pub mod edf_wm;
pub mod exact;
mod tight;
mod windows;

use crate::cpus::CpuSet;
use crate::model::{Invalid, Need, Task, TaskId, Terms};
use crate::policies::scope;
use crate::policy::{Alarm, Budget, Build, Clock, Context, Decision, Event, Policy};
use crate::queue::{Agenda, Key, ReadyQueue};
use crate::record::Place;
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use assign::{Split, Strategy};
use bins::Bins;
use demand::Times;

/// The properties that a task must have to be placed, and to have its route followed.
const NEEDS: &[Need] = &[Need::Runtime, Need::Period, Need::Deadline];

/// Where the tasks of a policy run.
pub struct Routes {
    /// By task of the system; empty for those that it does not schedule, and for all when it is lent no CPU.
    routes: Vec<Vec<Stop>>,
    /// Tasks that the test refused. They are on one CPU each, which is overloaded, or may be.
    pub refused: Vec<TaskId>,
    /// Whether a search was given up for its length.
    pub gave_up: bool,
}

/// One CPU of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The CPU.
    pub place: Place,
    /// From the start of the route to that of the interval.
    pub offset: Span,
    /// Length of the interval; of a task that is not split its deadline.
    pub window: Span,
    /// How long a job may run here.
    pub piece: Span,
}

/// A task as the tests see it, in nanoseconds; as an error the key that it lacks.
fn times(task: &Task) -> Result<Times, &'static str> {
    let ns = |span: Option<Span>, key| span.and_then(|s| u64::try_from(s.ns()).ok()).filter(|ns| *ns > 0).ok_or(key);
    Ok(Times {
        runtime: ns(task.runtime, "runtime")?,
        deadline: ns(task.deadline, "deadline")?,
        period: ns(task.arrival.period(), "period")?,
    })
}

impl Routes {
    /// Assigns the tasks of `build` to its places. Each is placed on CPUs that it may use; one for which there is no room goes to
    /// the emptiest of them.
    ///
    /// # Errors
    /// A task that may use none of them, or that lacks a runtime, a deadline or a period.
    pub fn new(build: &Build<'_>, split: Split) -> Result<Routes, Invalid> {
        Routes::assign(build, split, times)
    }

    /// Assigns what is reserved for the tasks of `build` in the same way, with equal windows of the servers' periods.
    ///
    /// # Errors
    /// A task that may use none of the places, or for which nothing is reserved.
    pub fn of_servers(build: &Build<'_>) -> Result<Routes, Invalid> {
        Routes::assign(build, Split::Windows, |task| {
            let reserved = task.reserved().ok_or("reservation")?;
            let ns = |span: Span| u64::try_from(span.ns()).unwrap_or(0).max(1);
            let period = ns(reserved.period);
            Ok(Times { runtime: ns(reserved.budget), deadline: period, period })
        })
    }

    fn assign(
        build: &Build<'_>,
        split: Split,
        load: impl Fn(&Task) -> Result<Times, &'static str>,
    ) -> Result<Routes, Invalid> {
        scope::check(build)?;
        let described = |t: &TaskId| load(&build.system.tasks[t.index()]).map_err(|lack| Invalid::Needs(*t, lack));
        let loads: Vec<Times> = build.tasks.iter().map(described).collect::<Result<_, _>>()?;
        let mut routes = vec![Vec::new(); build.system.tasks.len()];
        let mut refused = Vec::new();
        if build.places.is_empty() {
            return Ok(Routes { routes, refused, gave_up: false });
        }
        let cpus: Vec<usize> = build.system.cpus.iter().collect();
        let strategy = Strategy { fit: build.spec.placement.fit, decreasing: build.spec.placement.decreasing, split };
        let mut bins = Bins::new(build.places.len());
        for index in assign::order(&loads, strategy) {
            let affinity = &build.system.tasks[build.tasks[index].index()].affinity;
            let usable = |bin: &usize| !affinity.is_disjoint(&CpuSet::single(cpus[build.places[*bin].index()]));
            let on: Vec<usize> = (0..build.places.len()).filter(usable).collect();
            if !assign::place(&mut bins, index, loads[index], &on, strategy) {
                bins.force(index, loads[index], &on);
                refused.push(build.tasks[index]);
            }
        }
        let gave_up = bins.gave_up();
        for (bin, pieces) in bins.into_assignment().cpus.into_iter().enumerate() {
            for piece in pieces {
                let span = |ns: u64| Span::from_ns(ns as i64);
                let (window, length) = (span(piece.load.deadline), span(piece.load.runtime));
                let stop = Stop { place: build.places[bin], offset: span(piece.offset), window, piece: length };
                routes[build.tasks[piece.task].index()].push(stop);
            }
        }
        routes.iter_mut().for_each(|route| route.sort_by_key(|stop| stop.offset));
        Ok(Routes { routes, refused, gave_up })
    }

    /// The route of a task: one stop if it is not split.
    #[must_use]
    pub fn of(&self, task: TaskId) -> &[Stop] {
        &self.routes[task.index()]
    }
}

/// Builds the policy with this way of splitting.
///
/// # Errors
/// Those of [`Routes::new`].
fn build(build: &Build<'_>, split: Split) -> Result<Box<dyn Policy>, Invalid> {
    Ok(Box::new(SemiPartitioned::new(build, Routes::new(build, split)?)))
}

/// Where the job of a task is on its route.
#[derive(Clone, Copy, Debug)]
struct Journey {
    /// When it started; the next one starts no earlier than a period later, which is what the test takes for granted.
    start: Option<Time>,
    /// When the task's last job ended.
    ended: Time,
    /// The present stop.
    stop: usize,
    /// The piece of this stop is exhausted.
    waits: bool,
    /// The handler of an aborted job stays where it is.
    stays: bool,
}

/// A task that has never had a job.
const FRESH: Journey = Journey { start: None, ended: Time::ZERO, stop: 0, waits: false, stays: false };

struct SemiPartitioned {
    tasks: Vec<TaskId>,
    routes: Routes,
    /// By task of the system: the terms by which it was placed.
    placed: Vec<Terms>,
    /// By task of the system.
    journeys: Vec<Journey>,
    /// By place.
    ready: Vec<ReadyQueue>,
    /// By task: when its present interval ends.
    borders: Agenda,
    alarm: Alarm,
    /// Whether any task is split, so that there is a timer and CPU time must be measured.
    splits: bool,
}

impl SemiPartitioned {
    fn new(build: &Build<'_>, routes: Routes) -> SemiPartitioned {
        let visits = |place: usize| {
            let stops = |t: &&TaskId| routes.of(**t).iter().any(|stop| stop.place.index() == place);
            build.tasks.iter().filter(stops).count()
        };
        let ready = (0..build.system.cpus.len()).map(|place| ReadyQueue::new(visits(place))).collect();
        SemiPartitioned {
            tasks: build.tasks.to_vec(),
            placed: build.system.tasks.iter().map(Task::terms).collect(),
            journeys: vec![FRESH; build.system.tasks.len()],
            ready,
            borders: Agenda::new(build.system.tasks.len()),
            alarm: Alarm::new(build.first_timer),
            splits: build.tasks.iter().any(|t| routes.of(*t).len() > 1),
            routes,
        }
    }

    fn is_split(&self, task: TaskId) -> bool {
        self.routes.of(task).len() > 1
    }

    /// Whether another CPU follows on the task's route.
    fn has_next(&self, task: TaskId) -> bool {
        let Journey { stop, stays, .. } = self.journeys[task.index()];
        !stays && stop + 1 < self.routes.of(task).len()
    }

    /// A job of the task begins, on the first CPU of its route.
    fn begin(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let Some(job) = cx.job(task) else { return };
        let period = cx.task(task).arrival.period().unwrap_or(Span::ZERO);
        let journey = &mut self.journeys[task.index()];
        let earliest = journey.start.map_or(Time::ZERO, |start| start.saturating_add(period));
        let start = job.release.max(journey.ended).max(earliest);
        *journey = Journey { start: Some(start), ended: journey.ended, ..FRESH };
        self.arrive(task, cx);
    }

    /// The task is at a new stop of its route.
    fn arrive(&mut self, task: TaskId, cx: &mut Context<'_>) {
        self.grant(task, cx);
        let Journey { start, stop, .. } = self.journeys[task.index()];
        if let (Some(next), Some(start)) = (self.routes.of(task).get(stop + 1), start) {
            self.borders.set(task.index(), start.saturating_add(next.offset));
        }
        self.enter(task, cx);
    }

    /// A budget for what the job may consume until the policy has to know: the piece of this stop, and the rest of the budget that
    /// the task itself has.
    fn grant(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let Journey { stop, stays, .. } = self.journeys[task.index()];
        let own = cx.own_budget_left(task);
        let piece = self.routes.of(task).get(stop).filter(|_| self.is_split(task) && !stays).map(|stop| stop.piece);
        match piece {
            Some(amount) if own.is_none_or(|own| amount < own) => {
                cx.replenish(task, Budget { amount, clock: Clock::Cpu });
            }
            _ => cx.grant_own(task),
        }
    }

    /// Queues the task's job where it is on its route, if it can run.
    fn enter(&mut self, task: TaskId, cx: &mut Context<'_>) {
        if cx.is_ready(task) && !self.journeys[task.index()].waits {
            let release = cx.job(task).expect("a ready task has a job").release;
            self.queue(task, release, cx);
        }
    }

    fn queue(&mut self, task: TaskId, release: Time, cx: &mut Context<'_>) {
        let Journey { start, stop, stays, .. } = self.journeys[task.index()];
        let Some(&Stop { place, offset, window, .. }) = self.routes.of(task).get(stop) else { return };
        let rank = match start {
            Some(start) if self.is_split(task) && !stays => start.saturating_add(offset).saturating_add(window).ns(),
            _ => cx.job(task).map_or(i64::MAX, |job| job.deadline.ns()),
        };
        cx.set_urgency(task, rank);
        self.leave(task);
        self.ready[place.index()].insert(Key { rank, release, task });
    }

    /// The task's job is not to run; whether it was queued.
    fn leave(&mut self, task: TaskId) -> bool {
        let stop = self.routes.of(task).get(self.journeys[task.index()].stop);
        stop.is_some_and(|stop| self.ready[stop.place.index()].remove(task).is_some())
    }

    /// The task's job is over: the next one begins on the first CPU.
    fn over(&mut self, task: TaskId, now: Time) {
        self.leave(task);
        self.borders.remove(task.index());
        let journey = &mut self.journeys[task.index()];
        *journey = Journey { start: journey.start, ended: now, ..FRESH };
    }

    /// The piece of this stop is exhausted.
    fn budget_expired(&mut self, task: TaskId, cx: &mut Context<'_>) {
        if self.has_next(task) {
            self.leave(task);
            self.journeys[task.index()].waits = true;
        } else {
            // A job that overruns its last piece runs on, as under EDF.
            self.grant(task, cx);
        }
    }

    /// Intervals have ended: their tasks move on.
    fn move_on(&mut self, cx: &mut Context<'_>) {
        self.alarm.clear();
        while let Some((_, index)) = self.borders.first().filter(|(at, _)| *at <= cx.now()) {
            self.borders.remove(index);
            let task = TaskId(index as u32);
            self.leave(task);
            let journey = &mut self.journeys[index];
            journey.stop += 1;
            journey.waits = false;
            self.arrive(task, cx);
        }
    }

    /// Sets the timer to the first border.
    fn arm(&mut self, cx: &mut Context<'_>) {
        self.alarm.set(self.borders.first().map(|(at, _)| at), cx);
    }
}

impl Policy for SemiPartitioned {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.ready.iter_mut().for_each(ReadyQueue::clear);
        self.alarm.clear();
        for index in 0..self.tasks.len() {
            let task = self.tasks[index];
            self.borders.remove(task.index());
            // A job that is under way has its route before it from now on.
            self.journeys[task.index()] = Journey { ended: cx.now(), ..FRESH };
            self.begin(task, cx);
        }
        self.arm(cx);
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        match *event {
            Event::Release { task, .. } => self.begin(task, cx),
            Event::Wake { task } => self.enter(task, cx),
            Event::Finish { task, .. } | Event::Exit { task } => self.over(task, cx.now()),
            Event::Block { task, .. } => {
                self.leave(task);
            }
            Event::BudgetExpired { task, .. } => self.budget_expired(task, cx),
            Event::Handler { task, .. } => {
                self.leave(task);
                self.borders.remove(task.index());
                let journey = &mut self.journeys[task.index()];
                *journey = Journey { stays: true, waits: false, ..*journey };
                self.enter(task, cx);
            }
            Event::Yield { task, .. } => {
                if self.leave(task) {
                    self.queue(task, cx.now(), cx);
                }
            }
            Event::Timer { .. } => self.move_on(cx),
            Event::Lock { .. } | Event::Unlock { .. } | Event::Deadline { .. } | Event::Changed { .. } => return,
        }
        self.arm(cx);
    }

    fn decide(&mut self, lent: &[Place], _: &mut Context<'_>, decision: &mut Decision) {
        for &place in lent {
            if let Some(first) = self.ready[place.index()].as_slice().first() {
                decision.run(first.task, place);
            }
        }
    }

    fn home(&self, task: TaskId) -> Option<Place> {
        self.routes.of(task).first().map(|stop| stop.place)
    }

    fn timers(&self) -> u16 {
        u16::from(self.splits)
    }

    fn meters(&self) -> bool {
        self.splits
    }

    /// The tasks stay where they are, so none gets more than it was placed by.
    fn admits(&self, task: TaskId, terms: &Terms, _: &Context<'_>) -> bool {
        let placed = &self.placed[task.index()];
        terms.runtime <= placed.runtime && terms.period >= placed.period && terms.deadline >= placed.deadline
    }
}
