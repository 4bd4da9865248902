//! From a decision to commands: the smallest difference between two assignments.

use super::messages::{Command, Work};
use crate::model::TaskId;
use crate::policy::Decision;
use crate::policy::state::{Phase, State};
use crate::record::{Place, Sink, StopReason, What};
use crate::time::Span;
use alloc::vec::Vec;

impl State {
    /// Turns the difference between the present assignment and the decision into commands.
    #[inline]
    pub(super) fn apply(&mut self, decision: &Decision, commands: &mut Vec<Command>, sink: &mut dyn Sink) {
        self.round += 1;
        let round = self.round;
        // Where abandoned work is done, own work begins without a new dispatch.
        let (mut kept, mut moves, mut news) = (0, false, core::mem::take(&mut self.own_work_begins));
        for a in &decision.assignments {
            let run = &mut self.runs[a.task.index()];
            assert!(run.phase == Phase::Ready, "task {} was chosen without a job that can run", a.task.0);
            assert!(run.round != round, "task {} was put on two places", a.task.0);
            run.round = round;
            run.wanted = a.place;
            kept += usize::from(run.place.is_some());
            moves |= run.place.is_some_and(|place| place != a.place);
            news |= run.place != Some(a.place) || run.fresh || a.budget.is_some();
            each_cpu(&self.place_cpus, self.cpu_task.len(), a.place, |cpu| {
                let claimed = core::mem::replace(&mut self.cpu_round[cpu], round);
                assert!(claimed != round, "two tasks were put on CPU index {cpu}, task {} is one", a.task.0);
            });
        }
        if kept < self.running.len() {
            self.stop_others(commands, sink);
        }
        if moves {
            self.move_away(commands, sink);
        }
        if news {
            self.arrive_there(decision, commands, sink);
        }
    }

    /// The work that a program begins or continues when its task is dispatched now.
    fn work(&self, task: TaskId) -> Work {
        let run = &self.runs[task.index()];
        match (run.at, run.fresh) {
            (_, true) if run.handler => Work::Handler,
            (None, _) => Work::Fresh,
            (Some(_), true) if !self.is_activated(task) => Work::Abandoned,
            (Some(_), _) => Work::Resumed,
        }
    }

    /// A job, or a handler, is dispatched for the first time while the program is at some work. Returns with what it continues.
    #[cold]
    fn begin_behind(&mut self, task: TaskId, sink: &mut dyn Sink) -> Work {
        let work = self.work(task);
        let run = &mut self.runs[task.index()];
        let job = run.job;
        match (work, run.at) {
            (Work::Handler, _) => run.at = Some(job),
            (Work::Abandoned, Some(abandoned)) => {
                run.counts.behind += 1;
                self.record(sink, What::Behind { task, job, abandoned });
            }
            _ => {}
        }
        work
    }

    /// Stops who runs and was not chosen.
    #[inline]
    fn stop_others(&mut self, commands: &mut Vec<Command>, sink: &mut dyn Sink) {
        let (round, now, cpus) = (self.round, self.now, self.cpu_task.len());
        let mut kept = 0;
        for index in 0..self.running.len() {
            let task = self.running[index];
            let run = &mut self.runs[task.index()];
            if run.round == round {
                self.running[kept] = task;
                kept += 1;
                continue;
            }
            let place = run.place.expect("a running task has a place");
            run.account(now);
            run.place = None;
            run.last_place = Some(place);
            let (job, recorded, blocked) = (run.job, run.stop_recorded, run.phase == Phase::Blocked);
            run.stop_recorded = false;
            let mut taken = false;
            each_cpu(&self.place_cpus, cpus, place, |cpu| {
                taken |= self.cpu_round[cpu] == round;
                self.cpu_task[cpu] = None;
            });
            if run.budget.is_some() {
                self.agenda.remove(task.index());
            }
            if !recorded {
                let reason = match (blocked, taken) {
                    (true, _) => StopReason::Blocked,
                    (false, true) => StopReason::Preempted,
                    (false, false) => StopReason::Suspended,
                };
                run.counts.preemptions += u64::from(reason == StopReason::Preempted);
                self.record(sink, What::Stop { task, job, place, reason });
            }
            commands.push(Command::Stop { task, place });
        }
        self.running.truncate(kept);
    }

    /// Takes who moves off its place: everyone leaves before anyone arrives, so that two tasks can swap.
    fn move_away(&mut self, commands: &mut Vec<Command>, sink: &mut dyn Sink) {
        for index in 0..self.running.len() {
            let task = self.running[index];
            let run = &self.runs[task.index()];
            let (from, to) = (run.place.expect("it runs"), run.wanted);
            if from != to {
                each_cpu(&self.place_cpus, self.cpu_task.len(), from, |cpu| self.cpu_task[cpu] = None);
                if !run.stop_recorded {
                    let what = What::Stop { task, job: run.job, place: from, reason: StopReason::Migrated };
                    self.record(sink, what);
                }
                commands.push(Command::Move { task, from, to, work: self.work(task) });
            }
        }
    }

    /// Starts, moves, next jobs and new budgets, in the order of the decision.
    #[inline]
    fn arrive_there(&mut self, decision: &Decision, commands: &mut Vec<Command>, sink: &mut dyn Sink) {
        let (now, cpus) = (self.now, self.cpu_task.len());
        for a in &decision.assignments {
            let (task, to) = (a.task, a.place);
            let run = &mut self.runs[task.index()];
            let (before, fresh) = (run.place, run.fresh);
            if before != Some(to) || fresh {
                let (job, mut work) = (run.job, Work::Resumed);
                if run.at.is_none() {
                    // The usual case: the program begins with the job.
                    work = if run.handler { Work::Handler } else { Work::Fresh };
                    run.at = Some(job);
                } else if fresh {
                    work = self.begin_behind(task, sink);
                }
                let run = &mut self.runs[task.index()];
                run.account(now);
                run.place = Some(to);
                run.fresh = false;
                run.stop_recorded = false;
                run.counts.dispatches += 1;
                let came_from = before.or(run.last_place);
                run.counts.migrations += u64::from(!fresh && came_from.is_some_and(|p| p != to));
                run.last_place = Some(to);
                each_cpu(&self.place_cpus, cpus, to, |cpu| {
                    self.cpu_task[cpu] = Some(task);
                    let last = self.cpu_last[cpu].replace(task);
                    self.context_switches += u64::from(last.is_some_and(|t| t != task));
                });
                match before {
                    None => {
                        self.running.push(task);
                        commands.push(Command::Start { task, place: to, work });
                    }
                    Some(place) if place == to => commands.push(Command::Continue { task, place, work }),
                    Some(_) => {}
                }
                match a.budget {
                    Some(budget) => self.grant(task, budget, sink),
                    None if run.budget.is_some() => self.arm_budget(task, now, Span::from_ns(1)),
                    None => {}
                }
                self.record(sink, What::Start { task, job, place: to });
            } else {
                if run.at.is_none() {
                    run.at = Some(run.job);
                    commands.push(Command::Continue { task, place: to, work: Work::Fresh });
                }
                if let Some(budget) = a.budget {
                    self.grant(task, budget, sink);
                }
            }
        }
    }
}

/// Visits the CPUs of a place. The first places are the single CPUs, of which there are `cpus`.
#[inline]
fn each_cpu(place_cpus: &[Vec<u16>], cpus: usize, place: Place, mut visit: impl FnMut(usize)) {
    if place.index() < cpus {
        visit(place.index());
    } else {
        place_cpus[place.index()].iter().for_each(|&cpu| visit(usize::from(cpu)));
    }
}
