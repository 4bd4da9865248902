//! The slow loop that moves tasks off overloaded CPUs.

use super::parameters::Reinit;
use super::regulator::{WHOLE, fine};
use super::rounds::Ipi;
use crate::model::TaskId;
use crate::policy::Context;
use crate::time::Span;

impl Ipi {
    /// The set points of a CPU are to be computed again.
    pub(super) fn disturb(&mut self, home: usize) {
        let core = &mut self.cores[home];
        (core.stale, core.same) = (true, false);
        core.reinit |= self.p.reinit == Reinit::Always;
    }

    /// The task becomes the newest one of a CPU, and has its first burst there in the next round. O(n).
    pub(super) fn join(&mut self, task: TaskId, home: usize) {
        let m = &mut self.members[task.index()];
        m.home = Some(home as u16);
        m.destination = None;
        m.woken = false;
        (m.alpha, m.target, m.burst, m.used) = (0, Span::ZERO, Span::ZERO, Span::ZERO);
        m.state = fine(self.p.nominal.clamp(self.p.least, self.p.most));
        let core = &mut self.cores[home];
        core.order.insert(0, task);
        core.cursor += 1;
        core.ready += usize::from(m.ready);
        self.disturb(home);
    }

    /// The task belongs to its CPU no longer. O(n).
    pub(super) fn leave(&mut self, task: TaskId) {
        let Some(home) = self.members[task.index()].home.map(usize::from) else { return };
        let core = &mut self.cores[home];
        let Some(at) = core.order.iter().position(|t| *t == task) else { return };
        core.order.remove(at);
        core.cursor -= usize::from(at < core.cursor);
        if let Some(at) = core.ahead.iter().position(|t| *t == task) {
            core.ahead.remove(at);
            core.woken -= usize::from(at < core.woken);
        }
        if core.current == Some(task) {
            (core.current, core.over) = (None, false);
        }
        core.ready -= usize::from(self.members[task.index()].ready);
        self.disturb(home);
    }

    /// A task whose burst is over goes where the migration loop has sent it. O(n) when it goes, otherwise O(1).
    pub(super) fn depart(&mut self, task: TaskId) {
        if let Some(to) = self.members[task.index()].destination {
            self.leave(task);
            self.join(task, usize::from(to));
        }
    }

    /// Sets the timer of the migration loop.
    pub(super) fn arm(&self, cx: &mut Context<'_>) {
        let Some(timer) = self.timer else { return };
        if self.p.migration > Span::ZERO && self.places.len() > 1 {
            cx.set_timer(timer, cx.now() + self.p.migration);
        } else {
            cx.cancel_timer(timer);
        }
    }

    /// The declared utilisation of the tasks of a CPU, in units of 2^-32. O(n).
    fn load(&self, home: usize) -> u64 {
        let loads = self.cores[home].order.iter().map(|t| self.members[t.index()].load);
        loads.fold(0, u64::saturating_add)
    }

    /// One turn of the migration loop. Each CPU integrates the CPU time that its tasks need and it has not; what it has to spare
    /// makes up for it. From the one that lacks most, if it lacks more than the threshold, one task goes where it makes the
    /// busier one of the two CPUs least busy; it must become less busy than the first one was, so that loads that do not
    /// change come to rest. O(tasks × CPUs).
    pub(super) fn balance(&mut self, cx: &mut Context<'_>) {
        let mut worst: Option<(Span, usize)> = None;
        for index in 0..self.places.len() {
            let home = self.places[index].index();
            self.refresh(home, cx);
            let excess = i128::from(self.load(home)) - i128::from(WHOLE);
            let change = (excess * i128::from(self.p.migration.ns())) >> 32;
            let core = &mut self.cores[home];
            core.lacking =
                Span::from_ns((i128::from(core.lacking.ns()) + change).clamp(0, i128::from(i64::MAX)) as i64);
            let worse = worst.is_none_or(|(most, _)| core.lacking > most);
            if core.lacking > self.p.threshold && worse {
                worst = Some((core.lacking, home));
            }
        }
        cx.visited(self.tasks.len());
        let Some((_, from)) = worst else { return };
        if self.members.iter().any(|m| m.destination.is_some()) {
            return;
        }
        let before = self.load(from);
        let mut best: Option<(u64, TaskId, usize)> = None;
        for &place in self.places.iter().filter(|p| p.index() != from) {
            let there = self.load(place.index());
            for &task in self.cores[from].order.iter().filter(|t| cx.may_run(**t, place)) {
                let load = self.members[task.index()].load;
                let candidate = ((before - load).max(there.saturating_add(load)), task, place.index());
                if candidate.0 < before && best.is_none_or(|b| candidate < b) {
                    best = Some(candidate);
                }
            }
        }
        let Some((_, task, to)) = best else { return };
        self.cores[from].lacking = Span::ZERO;
        self.members[task.index()].destination = Some(to as u16);
        if self.cores[from].current != Some(task) {
            self.depart(task);
        }
    }
}
