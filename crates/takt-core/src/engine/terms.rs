//! Other terms for a task: who may change them, and from when on they hold.
//!
//! A job asks for them ([`Input::Call`](crate::input::Input::Call)), or they are set from outside
//! ([`Input::Retime`](crate::input::Input::Retime)). A job is answered: the policy says whether it can have them ([`Policy::admits`]). What is
//! set from outside is not asked about.
//!
//! The runtime and the reservation hold at once, for what comes next of each: the next job is declared so, the next budget is so
//! much. Period and deadline wait ([`Mode`]) while released jobs of the task wait for their turn, since those jobs have been announced with
//! their deadlines; the present job keeps its absolute deadline. After a call they hold then from the next release on, which is one new
//! period after the last, but not before now. From outside they wait for the end of the present job besides, and the release that is
//! planned next stays where it is.
//!
//! Terms that belong together are several calls, as in AIRS, and each must be possible by itself: a longer period before a larger budget,
//! a smaller budget before a shorter period. A period changes an equal deadline and the period of the reservation with it, because AIRS
//! knows only one.

use super::step::{Engine, deliver};
use crate::input::{Answer, Question, Reply};
use crate::model::{Arrival, Backlog, Call, TaskId, Terms, scaled};
#[cfg(doc)]
use crate::policy::Policy;
use crate::policy::state::{Mode, State};
use crate::policy::{Context, Event};
use crate::record::{RecordKind, Sink};
use crate::time::{Span, Time};
use crate::utility::Utility;
use crate::work::Work;

impl Engine {
    /// A job asks for other terms. Without a job, or in its handler, no job could.
    pub(super) fn call<S: Sink>(&mut self, task: TaskId, call: Call, sink: &mut S) {
        let Engine { state, policy, .. } = self;
        let run = &state.runs[task.index()];
        let mut reply = |answer| state.replies.push(Reply { task, question: Question::Terms(call), answer });
        if !run.has_job() || run.handler {
            return reply(Answer::Refused);
        }
        let job = run.job;
        // The period of a process in a window table is that of the table.
        let activated = state.system.tasks[task.index()].arrival == Arrival::Activated;
        let wanted = state.agreed(task).after(call).filter(|_| !activated);
        let granted = wanted.filter(|terms| policy.admits(task, terms, &Context { state, sink }));
        let answer = if granted.is_some() { Answer::Granted } else { Answer::Refused };
        state.replies.push(Reply { task, question: Question::Terms(call), answer });
        state.record(sink, RecordKind::Call { task, job, call, granted: granted.is_some() });
        if let Some(terms) = granted {
            state.agree(task, &terms);
            deliver(state, &mut **policy, sink);
        }
    }
}

impl State {
    /// The terms of a task have changed, or the task has returned.
    #[inline(never)]
    pub(super) fn changed(&mut self, task: TaskId) {
        self.terms_changes = self.terms_changes.wrapping_add(1);
        self.events.push(Event::Changed { task });
    }

    fn agree(&mut self, task: TaskId, terms: &Terms) {
        let described = &mut self.system.tasks[task.index()];
        (described.runtime, described.reservation) = (terms.runtime, terms.reservation);
        let run = &mut self.runs[task.index()];
        let mode = Mode { period: terms.period.unwrap_or_default(), deadline: terms.deadline, called: true };
        run.mode = Some(mode);
        if run.pending == 0 {
            self.retime(task);
        } else {
            self.changed(task);
        }
    }

    /// Plans the next release of a task again: by its present period from the last one, but not before now.
    fn replan(&mut self, task: TaskId) {
        let run = &self.runs[task.index()];
        // Jobs that were skipped were released, too.
        let last = run.next_job.saturating_sub(1);
        let (Some(_), Some(planned)) = (run.next_release, self.next_release(task, last, run.base)) else { return };
        let next = planned.max(self.now);
        self.runs[task.index()].base += next - planned;
        self.plan(task, Some(next));
    }

    /// A mode change: changes the runtime, and has the other two wait for the end of the present job ([`State::retime`]). One that can not be changes nothing.
    pub(super) fn change_mode(&mut self, task: TaskId, period: Span, deadline: Option<Span>, runtime: Option<Span>) {
        let lengths = [Some(period), deadline, runtime];
        if lengths.into_iter().flatten().any(|length| length <= Span::ZERO) {
            return;
        }
        let run = &mut self.runs[task.index()];
        run.mode = Some(Mode { period, deadline, called: false });
        if run.has_job() && run.fresh && !run.handler {
            run.declared =
                runtime.map(|r| Work::nominal(if cfg!(feature = "timing") { scaled(r, run.load) } else { r }));
        }
        self.system.tasks[task.index()].runtime = runtime;
        self.changed(task);
    }

    /// The terms of the next jobs of a task that events release, unless one of them is open or waits.
    #[cold]
    pub(super) fn set_terms(&mut self, task: TaskId, deadline: Option<Span>, runtime: Option<Span>, utility: u64) {
        let (run, described) = (&self.runs[task.index()], &mut self.system.tasks[task.index()]);
        let open = run.has_job() || run.pending > 0 || run.next_release.is_some();
        let sound = [deadline, runtime].into_iter().flatten().all(|length| length > Span::ZERO);
        if open || !sound || !matches!(described.arrival, Arrival::Event { .. }) {
            return;
        }
        (described.deadline, described.runtime) = (deadline, runtime);
        described.utility.get_or_insert(Utility::DEFAULT).set_height(utility);
        self.changed(task);
    }

    /// Carries out a mode change at the end of a job or at a call, unless others wait that were released before it. The release
    /// that is planned next stays where it is, even if it is due and only not told yet, unless a call asked for the change; those
    /// after it have the new period.
    pub(super) fn retime(&mut self, task: TaskId) {
        let (index, hartstone) = (task.index(), self.backlog() == Backlog::Hartstone);
        let run = &self.runs[index];
        let passed = run.pending > 0;
        let Some(mode) = run.mode.filter(|_| !passed || hartstone) else { return };
        // By Hartstone's rule those that wait were no releases: the first of them is the next one.
        let end = if passed { self.next_release(task, run.job, run.base) } else { run.next_release };
        self.runs[index].mode = None;
        let described = &mut self.system.tasks[index];
        described.deadline = mode.deadline;
        if let Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. } = &mut described.arrival {
            let before = core::mem::replace(period, mode.period);
            if mode.called && !passed {
                if before != mode.period {
                    self.replan(task);
                }
            } else if let Some(end) = end.filter(|_| hartstone) {
                self.plan_again(task, end);
            }
        }
        self.changed(task);
    }

    /// Computes again the periods that have passed by Hartstone's rule, by the present period from the `end` of the last job's
    /// own. One whose release is due at this instant has not passed: it is released. O(periods passed).
    fn plan_again(&mut self, task: TaskId, end: Time) {
        let (index, seed, tick) = (task.index(), self.system.seed, self.system.timing.tick);
        let run = &mut self.runs[index];
        // Successors are planned from the planned release of the last job.
        let gap = self.system.tasks[index].arrival.next(seed, task, run.job, Time::ZERO);
        run.base = end - gap.map_or(Span::ZERO, |next| next - Time::ZERO);
        (run.pending, run.next_job) = (0, run.job + 1);
        let mut next = end;
        while next.round_up(tick) < self.now {
            let run = &mut self.runs[index];
            let job = run.next_job;
            (run.pending, run.next_job) = (run.pending + 1, job + 1);
            next = self.next_release(task, job, next).expect("such releases never end");
        }
        self.plan(task, Some(next));
    }
}
