//! What a running program asks for, whether it gets it, and from when on.
//!
//! The policy says whether it can have it ([`Policy::admits`]). The runtime and the reservation hold at once, for what comes next
//! of each: the next job is declared so, the next budget is so much. The period and the deadline hold from the next release on,
//! which is one new period after the last, but not before now; the present job keeps its absolute deadline. While released jobs
//! of the task wait for their turn these two wait, too, since those jobs have been announced with their deadlines.

use super::step::{Engine, deliver};
use crate::input::{Answer, Question, Reply};
use crate::model::{Arrival, Call, TaskId, Terms};
#[cfg(doc)]
use crate::policy::Policy;
use crate::policy::state::{Mode, State};
use crate::policy::{Context, Event};
use crate::record::{Sink, What};

impl Engine {
    /// A job asks for other terms. Without a job, or in its handler, there is nobody who could.
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
        let wanted = state.terms(task).after(call).filter(|_| !activated);
        let granted = wanted.filter(|terms| policy.admits(task, terms, &Context { state, sink }));
        let answer = if granted.is_some() { Answer::Granted } else { Answer::Refused };
        state.replies.push(Reply { task, question: Question::Terms(call), answer });
        state.record(sink, What::Call { task, job, call, granted: granted.is_some() });
        if let Some(terms) = granted {
            state.agree(task, &terms);
            deliver(state, &mut **policy, sink);
        }
    }
}

impl State {
    /// What was agreed last, whether it holds already or waits.
    fn terms(&self, task: TaskId) -> Terms {
        let terms = self.system.tasks[task.index()].terms();
        match self.runs[task.index()].mode {
            None => terms,
            Some(mode) => Terms { period: terms.period.map(|_| mode.period), deadline: mode.deadline, ..terms },
        }
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
            self.events.push(Event::Changed { task });
        }
    }

    /// Plans the next release of a task anew: by its present period from the last one, but not before now.
    pub(super) fn replan(&mut self, task: TaskId) {
        let run = &self.runs[task.index()];
        // Jobs that were skipped were released, too.
        let last = run.next_job.saturating_sub(1);
        let (Some(_), Some(planned)) = (run.next_release, self.next_release(task, last, run.base)) else { return };
        let next = planned.max(self.now);
        self.runs[task.index()].base += next - planned;
        self.plan(task, Some(next));
    }
}
