//! The consumption of a job: the CPU time of its process. But a program that pauses within its job, or makes requests all the time, keeps its CPU from other tasks
//! and uses little of it. So a job consumes at least one part in [`LEAST`] of the time for which it had its CPU, where real-time processes
//! compete with nothing else. Time for which the program was frozen because of a flood is consumed, too.

use takt_core::model::TaskId;
use takt_core::record::JobId;
use takt_core::time::Span;

/// Less than any real-time process gets of its CPU: the kernel throttles to 95 %, and a virtual machine loses parts of a tenth.
const LEAST: i64 = 4;

/// Since a task's job, or the handler of that, was dispatched first.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Meter {
    pub(crate) of: Option<(JobId, bool)>,
    /// The CPU time that the process had used before.
    pub(crate) base: Span,
    /// For so long it has had a CPU, without the time since `since`.
    had: Span,
    since: Option<Span>,
    /// For so long it was frozen for floods although it had its CPU, without the time since `since`.
    held: Span,
    /// The begin and the end of the last time for which it is frozen.
    holding: Option<(Span, Span)>,
}

impl Meter {
    pub(crate) fn new(of: Option<(JobId, bool)>, base: Span) -> Meter {
        Meter { of, base, ..Meter::default() }
    }

    /// The job has a CPU.
    pub(crate) fn run(&mut self, now: Span) {
        self.since.get_or_insert(now);
    }

    /// The meter of the next job, whose program may still be frozen.
    pub(crate) fn next(&self, of: Option<(JobId, bool)>, base: Span) -> Meter {
        Meter { holding: self.holding, ..Meter::new(of, base) }
    }

    /// The program is frozen from now on, for so long. This time is consumed as it passes: a job does not exceed its budget by it.
    pub(crate) fn hold(&mut self, now: Span, time: Span) {
        self.held = self.held_until(now);
        self.holding = Some((now, now + time));
    }

    fn held_until(&self, now: Span) -> Span {
        let held = self.since.zip(self.holding).map(|(since, (from, to))| (now.min(to) - since.max(from)).or_zero());
        self.held + held.unwrap_or_default()
    }

    /// The job has no CPU.
    pub(crate) fn halt(&mut self, now: Span) {
        self.held = self.held_until(now);
        if let Some(since) = self.since.take() {
            self.had += now - since;
        }
    }

    /// The consumption when the process has used `total`. `bounds` says that only real-time processes compete for the CPU.
    pub(crate) fn consumed(&self, total: Span, now: Span, bounds: bool) -> Span {
        let had = self.had + self.since.map_or(Span::ZERO, |since| now - since);
        let least = if bounds { had / LEAST } else { Span::ZERO };
        (total - self.base + self.held_until(now)).max(least)
    }
}

/// So many tasks of the kernel's classes are measured in a step although the step does not concern them.
pub(crate) const PER_STEP: usize = 8;

/// The tasks of the kernel's classes that a step measures. Each of them runs to the engine from its release to its end, so there can be many, and a
/// measurement is a system call. So a step measures the tasks that it concerns, and a few others in turn, in which overruns are looked for.
///
/// The engine takes consumption as the total of a job, so a step without a measurement loses nothing.
#[derive(Debug)]
pub(crate) struct Measured {
    /// By task: its number among those of the kernel's classes.
    numbers: Vec<Option<usize>>,
    count: usize,
    /// The number whose turn is first.
    first: usize,
    step: u64,
    /// By task: the last step that concerned it.
    concerned: Vec<u64>,
}

impl Measured {
    /// `of_kernel` says by task whether it has a class of the kernel.
    pub(crate) fn new(of_kernel: impl Iterator<Item = bool>) -> Measured {
        let mut count = 0;
        let number = |is: bool| {
            count += usize::from(is);
            is.then(|| count - 1)
        };
        let numbers: Vec<Option<usize>> = of_kernel.map(number).collect();
        Measured { concerned: vec![0; numbers.len()], numbers, count, first: 0, step: 0 }
    }

    /// A step begins that concerns these tasks. O(their number).
    pub(crate) fn begin(&mut self, concerned: impl Iterator<Item = TaskId>) {
        if self.count == 0 {
            return;
        }
        self.step += 1;
        self.first = (self.first + PER_STEP) % self.count;
        concerned.for_each(|task| self.concerned[task.index()] = self.step);
    }

    /// Whether the step measures the task. `due` says that its job can end in the step because of the time.
    pub(crate) fn has(&self, task: TaskId, due: bool) -> bool {
        let Some(number) = self.numbers[task.index()] else { return true };
        let turn = (number + self.count - self.first) % self.count;
        due || turn < PER_STEP || self.concerned[task.index()] == self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_measures_the_tasks_that_it_concerns_and_some_others_in_turn() {
        // Every second task has a class of the kernel.
        let tasks = || (0..200).map(TaskId);
        let mut measured = Measured::new(tasks().map(|task| task.0 % 2 == 1));
        let mut seen = vec![0; 200];
        for _ in 0..25 {
            measured.begin([TaskId(7), TaskId(9), TaskId(2)].into_iter());
            let now: Vec<TaskId> = tasks().filter(|task| measured.has(*task, task.0 == 11)).collect();
            assert!(tasks().filter(|task| task.0 % 2 == 0).all(|task| now.contains(&task)), "Takt's own tasks");
            assert!([7, 9, 11].iter().all(|task| now.contains(&TaskId(*task))), "those of the step");
            assert!(now.len() <= 100 + PER_STEP + 3, "{now:?}");
            now.iter().for_each(|task| seen[task.index()] += 1);
        }
        assert!(seen.iter().all(|times| *times >= 2), "each has had its turns: {seen:?}");
        // Few are measured in every step.
        let mut few = Measured::new([true; PER_STEP].into_iter());
        few.begin(std::iter::empty());
        assert!((0..PER_STEP as u32).all(|task| few.has(TaskId(task), false)));
    }

    #[test]
    fn a_job_that_pauses_consumes_part_of_its_time() {
        let ms = Span::from_ms;
        let mut meter = Meter::new(None, ms(5));
        meter.run(ms(100));
        assert_eq!(meter.consumed(ms(7), ms(104), true), ms(2));
        assert_eq!(meter.consumed(ms(7), ms(120), true), ms(5));
        assert_eq!(meter.consumed(ms(7), ms(120), false), ms(2));
        meter.halt(ms(120));
        assert_eq!(meter.consumed(ms(7), ms(900), true), ms(5));
        meter.run(ms(900));
        meter.run(ms(904));
        assert_eq!(meter.consumed(ms(7), ms(908), true), ms(7));
    }

    #[test]
    fn the_time_for_which_a_program_is_frozen_is_consumed_as_it_passes() {
        let ms = Span::from_ms;
        let mut meter = Meter::new(None, ms(5));
        meter.run(ms(100));
        meter.hold(ms(101), ms(10));
        let consumed = |meter: &Meter, now: i64| meter.consumed(ms(6), ms(now), false);
        assert_eq!([101, 102, 105].map(|now| consumed(&meter, now)), [1, 2, 5].map(ms));
        // Another job has the CPU meanwhile.
        meter.halt(ms(106));
        assert_eq!(consumed(&meter, 109), ms(6));
        meter.run(ms(109));
        assert_eq!([109, 111, 200].map(|now| consumed(&meter, now)), [6, 8, 8].map(ms));
        meter.hold(ms(200), ms(10));
        assert_eq!(consumed(&meter, 300), ms(18));
        meter.hold(ms(300), ms(10));
        // Its next job begins while it is frozen.
        let mut next = meter.next(None, ms(6));
        next.run(ms(304));
        assert_eq!([304, 400].map(|now| consumed(&next, now)), [0, 6].map(ms));
    }
}
