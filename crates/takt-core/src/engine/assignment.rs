//! From a decision to commands: the smallest difference between two assignments.

use super::messages::{Activity, Carrier, Command, Seen};
use crate::model::TaskId;
use crate::policy::state::{Cpu, Phase, State};
use crate::policy::{Assignment, Decision, Exchange};
use crate::record::{Place, RecordKind, Sink, StopReason};
use crate::time::Span;
use alloc::vec::Vec;

impl State {
    /// Turns the difference between the present assignment and the decision into commands.
    pub(super) fn apply<C: Carrier, S: Sink>(&mut self, decision: &mut Decision, commands: &mut C, sink: &mut S) {
        self.round += 1;
        if decision.all_kept {
            return self.apply_changes(decision, commands, sink);
        }
        self.write_out(decision);
        self.apply_whole(decision, commands, sink);
    }

    /// Carries out a decision that keeps all CPUs.
    fn apply_changes<C: Carrier, S: Sink>(&mut self, decision: &Decision, commands: &mut C, sink: &mut S) {
        let taken = |place| decision.assignments.iter().any(|a| a.place == place);
        match decision.leaves {
            Some(task) if decision.others_leave.is_empty() => self.leave(task, taken, commands, sink),
            Some(_) => self.leave_together(decision, commands, sink),
            None => {}
        }
        for assignment in &decision.assignments {
            self.come(assignment, commands, sink);
        }
    }

    /// Carries out an exchange: all jobs keep their CPUs, but for one that leaves and one that comes.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(super) fn exchange<C: Carrier, S: Sink>(&mut self, exchange: Exchange, commands: &mut C, sink: &mut S) {
        self.round += 1;
        let Exchange { leaves, comes } = exchange;
        if let Some(task) = leaves {
            self.leave(task, |place| comes.is_some_and(|(_, to)| to == place), commands, sink);
        }
        if let Some((task, place)) = comes {
            self.come(&Assignment { task, place, budget: None }, commands, sink);
        }
    }

    /// A running task leaves its place, where others keep theirs; `taken` reports whether another task gets the place.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn leave<C: Carrier, S: Sink>(
        &mut self,
        task: TaskId,
        taken: impl FnOnce(Place) -> bool,
        commands: &mut C,
        sink: &mut S,
    ) {
        debug_assert!(!self.own_work_begins, "no CPU is kept while a program begins its own work");
        let mut last = self.running.pop();
        // From the back, so that the others stay in their order.
        for other in self.running.iter_mut().rev() {
            if last == Some(task) {
                break;
            }
            last = Some(core::mem::replace(other, last.expect("a task runs")));
        }
        assert!(last == Some(task), "task {} goes, but does not run", task.0);
        self.stop(task, taken, commands, sink);
    }

    /// Several running tasks leave their places, in the order in which they came. O(running tasks).
    fn leave_together<C: Carrier, S: Sink>(&mut self, decision: &Decision, commands: &mut C, sink: &mut S) {
        debug_assert!(!self.own_work_begins, "no CPU is kept while a program begins its own work");
        let round = self.round;
        for task in decision.leaves.iter().chain(&decision.others_leave) {
            assert!(self.runs[task.index()].place.is_some(), "task {} goes, but does not run", task.0);
            self.runs[task.index()].round = round;
        }
        let mut kept = 0;
        for index in 0..self.running.len() {
            let task = self.running[index];
            if self.runs[task.index()].round == round {
                let taken = |place| decision.assignments.iter().any(|a| a.place == place);
                self.stop(task, taken, commands, sink);
            } else {
                self.running[kept] = task;
                kept += 1;
            }
        }
        self.running.truncate(kept);
    }

    /// A task that does not run comes to its place, where others keep theirs.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn come<C: Carrier, S: Sink>(&mut self, assignment: &Assignment, commands: &mut C, sink: &mut S) {
        debug_assert!(!self.own_work_begins, "no CPU is kept while a program begins its own work");
        let run = &self.runs[assignment.task.index()];
        assert!(run.phase == Phase::Ready, "task {} was chosen without a job that can run", assignment.task.0);
        assert!(run.place.is_none(), "task {} was put on two places", assignment.task.0);
        self.dispatch(assignment, None, commands, sink);
    }

    /// Names the tasks that stay on CPUs that a decision keeps, where it does not keep all CPUs.
    fn write_out(&self, decision: &mut Decision) {
        let Decision { assignments, kept, leaves, others_leave, .. } = decision;
        let stays = |task: &TaskId| *leaves != Some(*task) && !others_leave.contains(task);
        for &place in &*kept {
            if let Some(task) = self.cpus[place.index()].task.filter(stays) {
                assignments.push(Assignment { task, place, budget: None });
            }
        }
    }

    /// Carries out a decision that names everyone who runs.
    #[inline(never)]
    fn apply_whole<C: Carrier, S: Sink>(&mut self, decision: &Decision, commands: &mut C, sink: &mut S) {
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
            moves |= cfg!(feature = "multiprocessor") && run.place.is_some_and(|place| place != a.place);
            news |= run.place != Some(a.place) || run.fresh || a.budget.is_some();
            each_cpu(&self.place_cpus, &mut self.cpus, a.place, |cpu| {
                let claimed = core::mem::replace(&mut cpu.round, round);
                assert!(claimed != round, "two tasks were put on a CPU of {:?}, task {} is one", a.place, a.task.0);
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
    fn work(&self, task: TaskId) -> Activity {
        let run = &self.runs[task.index()];
        match (run.at, run.fresh) {
            (_, true) if run.handler => Activity::Handler,
            (None, _) => Activity::Fresh,
            (Some(_), true) if !self.is_activated(task) => Activity::Abandoned,
            (Some(_), _) => Activity::Resumed,
        }
    }

    /// A job, or a handler, is dispatched for the first time while the program is at some work. Returns with what it continues.
    #[cold]
    fn begin_behind(&mut self, task: TaskId, sink: &mut dyn Sink) -> Activity {
        let work = self.work(task);
        let run = &mut self.runs[task.index()];
        let job = run.job;
        match (work, run.at) {
            (Activity::Handler, _) => run.at = Some(job),
            (Activity::Abandoned, Some(abandoned)) => {
                run.counts.behind += 1;
                self.record(sink, RecordKind::Behind { task, job, abandoned });
            }
            _ => {}
        }
        work
    }

    /// Stops who runs and was not chosen.
    #[inline]
    fn stop_others<C: Carrier, S: Sink>(&mut self, commands: &mut C, sink: &mut S) {
        let round = self.round;
        let mut kept = 0;
        for index in 0..self.running.len() {
            let task = self.running[index];
            let run = &self.runs[task.index()];
            if run.round == round {
                self.running[kept] = task;
                kept += 1;
                continue;
            }
            let mut taken = false;
            let place = run.place.expect("a running task has a place");
            each_cpu(&self.place_cpus, &mut self.cpus, place, |cpu| taken |= cpu.round == round);
            self.stop(task, |_| taken, commands, sink);
        }
        self.running.truncate(kept);
    }

    /// Stops who runs; `taken` reports whether another one gets a place, or a part of it.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn stop<C: Carrier, S: Sink>(
        &mut self,
        task: TaskId,
        taken: impl FnOnce(Place) -> bool,
        commands: &mut C,
        sink: &mut S,
    ) {
        let State { runs, cpus, place_cpus, agenda, now, .. } = self;
        let run = &mut runs[task.index()];
        let place = run.place.expect("a running task has a place");
        run.account(*now);
        run.place = None;
        run.last_place = Some(place);
        let (job, recorded, blocked) = (run.job, run.stop_recorded, run.phase == Phase::Blocked);
        run.stop_recorded = false;
        each_cpu(place_cpus, cpus, place, |cpu| cpu.task = None);
        if run.budget.is_some() {
            agenda.remove(task.index());
        }
        if !recorded {
            let reason = match blocked {
                true => StopReason::Blocked,
                false if taken(place) => StopReason::Preempted,
                false => StopReason::Suspended,
            };
            run.counts.preemptions += u64::from(reason == StopReason::Preempted);
            self.record(sink, RecordKind::Stop { task, job, place, reason });
        }
        commands.stop(task, place);
    }

    /// Takes who moves off its place: everyone leaves before anyone arrives, so that two tasks can swap.
    fn move_away<C: Carrier, S: Sink>(&mut self, commands: &mut C, sink: &mut S) {
        for index in 0..self.running.len() {
            let task = self.running[index];
            let run = &self.runs[task.index()];
            let (from, to) = (run.place.expect("it runs"), run.wanted);
            if from != to {
                each_cpu(&self.place_cpus, &mut self.cpus, from, |cpu| cpu.task = None);
                if !run.stop_recorded {
                    let what = RecordKind::Stop { task, job: run.job, place: from, reason: StopReason::Migrated };
                    self.record(sink, what);
                }
                commands.other(Command::Move { task, from, to, work: self.work(task) }, Seen(self));
            }
        }
    }

    /// Starts, moves, next jobs and new budgets, in the order of the decision.
    #[inline]
    fn arrive_there<C: Carrier, S: Sink>(&mut self, decision: &Decision, commands: &mut C, sink: &mut S) {
        for a in &decision.assignments {
            let (task, to) = (a.task, a.place);
            let run = &mut self.runs[task.index()];
            let (before, fresh) = (run.place, run.fresh);
            if before != Some(to) || fresh {
                self.dispatch(a, before, commands, sink);
            } else {
                if run.at.is_none() {
                    run.at = Some(run.job);
                    commands.other(Command::Continue { task, place: to, work: Activity::Fresh }, Seen(self));
                }
                if let Some(budget) = a.budget {
                    self.grant(task, budget, sink);
                }
            }
        }
    }

    /// Dispatches a job that was not running, was elsewhere (`before`), or is the next one of its task.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    fn dispatch<C: Carrier, S: Sink>(&mut self, a: &Assignment, before: Option<Place>, commands: &mut C, sink: &mut S) {
        let (now, task, to) = (self.now, a.task, a.place);
        let run = &self.runs[task.index()];
        let mut work = Activity::Resumed;
        if run.fresh && run.at.is_some() {
            work = self.begin_behind(task, sink);
        }
        let State { runs, cpus, place_cpus, running, speeds, context_switches, .. } = self;
        let run = &mut runs[task.index()];
        let (job, fresh) = (run.job, run.fresh);
        if run.at.is_none() {
            // The usual case: the program begins with the job.
            work = if run.handler { Activity::Handler } else { Activity::Fresh };
            run.at = Some(job);
        }
        match before {
            None => run.since = now,
            Some(_) => run.account(now),
        }
        run.place = Some(to);
        if let Some(speed) = speeds.get(to.index()).filter(|_| cfg!(feature = "multiprocessor")) {
            run.speed = *speed;
        }
        run.fresh = false;
        run.stop_recorded = false;
        run.counts.dispatches += 1;
        let last = run.last_place.replace(to);
        let moves = !fresh && before.or(last).is_some_and(|from| from != to);
        run.counts.migrations += u64::from(moves);
        let limited = run.budget.is_some();
        each_cpu(place_cpus, cpus, to, |on| {
            let other = on.task.replace(task);
            assert!(other.is_none_or(|t| t == task), "two tasks were put on a CPU, task {} is one", task.0);
            let last = on.last.replace(task);
            *context_switches += u64::from(last.is_some_and(|t| t != task));
        });
        match before {
            None => {
                running.push(task);
                commands.start(task, to, work, Seen(self));
            }
            Some(place) if place == to => commands.other(Command::Continue { task, place, work }, Seen(self)),
            Some(_) => {}
        }
        match a.budget {
            Some(budget) => self.grant(task, budget, sink),
            None if limited => self.arm_budget(task, now, Span::from_ns(1)),
            None => {}
        }
        self.record(sink, RecordKind::Start { task, job, place: to });
    }
}

/// Visits the CPUs of a place. The first places are the single CPUs.
#[cfg_attr(target_pointer_width = "64", inline(always))]
fn each_cpu(place_cpus: &[Vec<u16>], cpus: &mut [Cpu], place: Place, mut visit: impl FnMut(&mut Cpu)) {
    if !cfg!(feature = "multiprocessor") {
        visit(&mut cpus[0]);
    } else if let Some(cpu) = cpus.get_mut(place.index()) {
        visit(cpu);
    } else {
        place_cpus[place.index()].iter().for_each(|&cpu| visit(&mut cpus[usize::from(cpu)]));
    }
}
