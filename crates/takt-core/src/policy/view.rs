//! A task as a row of integers, by which a policy in an address space of its own sees it.
//!
//! The engine there mirrors this one: it has the same system and receives the rows of the tasks that have changed. Its policy reads them through
//! the same [`Context`]. Invariant: [`State::view`] and [`State::take_view`] are about the same fields, so that every method of [`Context`] that
//! reads a task gives the same value in both.

use super::context::Context;
use super::decision::Clock;
use super::state::{Mode, Phase, State};
use crate::model::{Arrival, Reservation, ResourceId, Task, TaskId};
use crate::record::Place;
use crate::time::{Span, Time};
use crate::work::{Speed, Work};

/// The integers of a row.
pub const TASK_WORDS: usize = 27;

/// A task at an instant: its job, its budget, its place, and those of its terms that can change. Durations and instants are nanoseconds.
pub type TaskView = [i64; TASK_WORDS];

/// Nothing there: no duration, instant or number of a job is so low.
const NONE: i64 = i64::MIN;

fn span(span: Option<Span>) -> i64 {
    span.map_or(NONE, Span::ns)
}
fn taken(word: i64) -> Option<i64> {
    (word != NONE).then_some(word)
}
fn taken_span(word: i64) -> Option<Span> {
    taken(word).map(Span::from_ns)
}

const PHASES: [Phase; 5] = [Phase::Idle, Phase::Ready, Phase::Blocked, Phase::Gone, Phase::Failed];

impl Context<'_> {
    /// The task as a row.
    #[must_use]
    pub fn view(&self, task: TaskId) -> TaskView {
        self.state.view(task)
    }
}

impl State {
    pub(crate) fn view(&self, task: TaskId) -> TaskView {
        let (run, described) = (&self.runs[task.index()], &self.system.tasks[task.index()]);
        let bits = [run.handler, run.clock == Clock::Cpu, run.metered, run.own, run.fresh];
        let bits = bits.iter().enumerate().fold(0, |all, (index, bit)| all | i64::from(*bit) << index);
        let number = |place: Option<Place>| place.map_or(0, |place| i64::from(place.0) + 1);
        let waits_for = run.waits_for.map_or(0, |resource| i64::from(resource.0) + 1);
        let reservation = described.reservation;
        [
            run.phase as i64 | bits << 3,
            number(run.place) | number(run.last_place) << 17 | waits_for << 34,
            run.job as i64,
            run.release.ns(),
            run.planned.ns(),
            run.deadline.ns(),
            span(run.relative),
            run.declared.map_or(NONE, Work::ns),
            run.consumed.ns(),
            run.at.map_or(NONE, |job| job as i64),
            run.abandoned.ns(),
            run.since.ns(),
            span(run.budget),
            i64::from(run.speed.millionths()),
            run.next_job as i64,
            run.next_release.map_or(NONE, Time::ns),
            run.mode.map_or(NONE, |mode| mode.period.ns()),
            run.mode.map_or(NONE, |mode| span(mode.deadline)),
            match described.arrival {
                Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. } => period.ns(),
                Arrival::Listed { .. } | Arrival::Event { .. } | Arrival::Activated => NONE,
            },
            span(described.deadline),
            span(described.runtime),
            span(reservation.map(|r| r.budget)),
            span(reservation.map(|r| r.period)),
            span(reservation.and_then(|r| r.deadline)),
            described.share.map_or(NONE, i64::from),
            i64::from(described.importance),
            described.utility.as_ref().map_or(NONE, |utility| utility.height() as i64),
        ]
    }

    /// The task is from now on as this row says, which [`State::view`] of the engine that is mirrored has given. Other values of a field are
    /// ignored.
    #[cfg_attr(not(feature = "mirror"), allow(dead_code))]
    pub(crate) fn take_view(&mut self, task: TaskId, view: &TaskView) {
        let (run, described) = (&mut self.runs[task.index()], &mut self.system.tasks[task.index()]);
        let bit = |index: u32| view[0] >> (3 + index) & 1 == 1;
        if let Some(phase) = PHASES.get((view[0] & 7) as usize) {
            run.phase = *phase;
        }
        run.handler = bit(0);
        run.clock = if bit(1) { Clock::Cpu } else { Clock::Elapsed };
        (run.metered, run.own, run.fresh) = (bit(2), bit(3), bit(4));
        let number = |shift: u32| ((view[1] >> shift & 0x1_ffff) as u32).checked_sub(1).map(|number| number as u16);
        (run.place, run.last_place) = (number(0).map(Place), number(17).map(Place));
        run.waits_for = number(34).map(ResourceId);
        run.job = view[2] as u64;
        (run.release, run.planned) = (Time::from_ns(view[3]), Time::from_ns(view[4]));
        (run.deadline, run.relative) = (Time::from_ns(view[5]), taken_span(view[6]));
        run.declared = taken_span(view[7]).map(Work::nominal);
        run.consumed = Work::nominal(Span::from_ns(view[8]));
        run.at = taken(view[9]).map(|job| job as u64);
        run.abandoned = Work::nominal(Span::from_ns(view[10]));
        (run.since, run.budget) = (Time::from_ns(view[11]), taken_span(view[12]));
        run.speed = Speed::from_millionths(view[13] as u32).unwrap_or_default();
        run.next_job = view[14] as u64;
        run.next_release = taken(view[15]).map(Time::from_ns);
        let mode = |period| Mode { period, deadline: taken_span(view[17]), called: false };
        run.mode = taken_span(view[16]).map(mode);
        take_terms(described, view);
    }
}

/// Those of a task's terms that can change.
fn take_terms(described: &mut Task, view: &TaskView) {
    if let (Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. }, Some(new)) =
        (&mut described.arrival, taken_span(view[18]))
    {
        *period = new;
    }
    (described.deadline, described.runtime) = (taken_span(view[19]), taken_span(view[20]));
    let reservation = |(budget, period)| Reservation { budget, period, deadline: taken_span(view[23]) };
    described.reservation = taken_span(view[21]).zip(taken_span(view[22])).map(reservation);
    described.share = taken(view[24]).map(|share| share as u32);
    described.importance = view[25] as u32;
    if let Some(height) = taken(view[26]).map(|height| height as u64) {
        let utility = described.utility.get_or_insert(crate::utility::Utility::DEFAULT);
        if utility.height() != height {
            utility.set_height(height);
        }
    }
}
