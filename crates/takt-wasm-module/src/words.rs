//! Questions and answers as rows of integers of 64 bits: what a host and a module exchange while a schedule runs.
//!
//! The input is [`HEAD`] integers, then the task of each CPU, the CPUs that are lent, the resources, and the tasks that have changed. A task or CPU
//! that is absent is -1. The output is rows of [`ROW`] integers, each an act or an assignment.

use takt_core::model::{ResourceId, TaskId};
use takt_core::policy::{Act, Assignment, Budget, Clock, Event, TASK_WORDS};
use takt_core::record::{Outcome, Place, RecordKind};
use takt_core::time::{Span, Time};
use takt_core::work::Work;

/// Integers before the lists of a question: the kind and its three arguments, the instant, the round, whether the decision before stands, and the
/// lengths of three lists.
pub const HEAD: usize = 10;

/// Integers of a row of an answer.
pub const ROW: usize = 5;

/// Integers at the end of the input for the terms of `takt_admits`: the length of their bytes, and one integer for each of these.
pub const TERMS_WORDS: usize = 65;

/// Where the head has what.
pub mod head {
    /// The kind of the question, and its arguments from the next one on.
    pub const KIND: usize = 0;
    /// The instant.
    pub const NOW: usize = 4;
    /// The number of the decision that is to come.
    pub const ROUND: usize = 5;
    /// Whether the decision before stands.
    pub const STANDS: usize = 6;
    /// The length of the list of lent CPUs.
    pub const LENT: usize = 7;
    /// The length of the list of resources, in integers.
    pub const RESOURCES: usize = 8;
    /// The number of changed tasks.
    pub const CHANGED: usize = 9;
}

/// A question to a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Take over.
    Start,
    /// An event.
    Event(Event),
    /// Decide about the lent CPUs.
    Decide,
}

/// How many integers the input needs for a system of this size.
#[must_use]
pub fn input_words(cpus: usize, tasks: usize, resources: usize) -> usize {
    // Each task waits for one resource at most.
    HEAD + 2 * cpus + 2 * resources + tasks + tasks * (1 + TASK_WORDS) + TERMS_WORDS
}

/// The most acts and assignments of an answer.
#[must_use]
pub fn answer_rows(cpus: usize, tasks: usize, timers: u16) -> usize {
    64 + 16 * tasks + 8 * cpus + 4 * usize::from(timers)
}

/// -1 for what is absent.
#[must_use]
pub fn optional(number: Option<u32>) -> i64 {
    number.map_or(-1, i64::from)
}

/// A task or CPU that may be absent.
#[must_use]
pub fn number(word: i64) -> Option<u32> {
    u32::try_from(word).ok()
}

impl Question {
    /// The kind and its arguments.
    #[must_use]
    pub fn words(&self) -> [i64; 4] {
        let task = |task: TaskId| i64::from(task.0);
        match *self {
            Question::Start => [0, 0, 0, 0],
            Question::Decide => [1, 0, 0, 0],
            Question::Event(event) => match event {
                Event::Release { task: t, job } => [2, task(t), job as i64, 0],
                Event::Finish { task: t, job, consumed } => [3, task(t), job as i64, consumed.ns()],
                Event::BudgetExpired { task: t, consumed } => [4, task(t), consumed.ns(), 0],
                Event::Block { task: t, consumed } => [5, task(t), consumed.ns(), 0],
                Event::Wake { task: t } => [6, task(t), 0, 0],
                Event::Deadline { task: t, job } => [7, task(t), job as i64, 0],
                Event::Lock { task: t, resource, granted } => [8, task(t), i64::from(resource.0), i64::from(granted)],
                Event::Unlock { task: t, resource } => [9, task(t), i64::from(resource.0), 0],
                Event::Handler { task: t, job, consumed } => [10, task(t), job as i64, consumed.ns()],
                Event::Yield { task: t, consumed } => [11, task(t), consumed.ns(), 0],
                Event::Changed { task: t } => [12, task(t), 0, 0],
                Event::Timer { timer, due } => [13, i64::from(timer), due.ns(), 0],
                Event::Exit { task: t } => [14, task(t), 0, 0],
            },
        }
    }

    /// Reads them back.
    #[must_use]
    pub fn read([kind, first, second, third]: [i64; 4]) -> Option<Question> {
        let work = |ns: i64| Work::nominal(Span::from_ns(ns));
        let task = TaskId(first as u32);
        let (job, resource) = (second as u64, ResourceId(second as u16));
        Some(Question::Event(match kind {
            0 => return Some(Question::Start),
            1 => return Some(Question::Decide),
            2 => Event::Release { task, job },
            3 => Event::Finish { task, job, consumed: work(third) },
            4 => Event::BudgetExpired { task, consumed: work(second) },
            5 => Event::Block { task, consumed: work(second) },
            6 => Event::Wake { task },
            7 => Event::Deadline { task, job },
            8 => Event::Lock { task, resource, granted: third == 1 },
            9 => Event::Unlock { task, resource },
            10 => Event::Handler { task, job, consumed: work(third) },
            11 => Event::Yield { task, consumed: work(second) },
            12 => Event::Changed { task },
            13 => Event::Timer { timer: first as u16, due: Time::from_ns(second) },
            14 => Event::Exit { task },
            _ => return None,
        }))
    }
}

/// A row of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Row {
    /// An act of the policy.
    Act(Act),
    /// A part of its decision.
    Assign(Assignment),
}

fn clock(clock: Clock) -> i64 {
    i64::from(clock == Clock::Cpu)
}

impl Row {
    /// The row as integers. An act that no policy of jobs has is a row that no host reads.
    #[must_use]
    pub fn words(&self) -> [i64; ROW] {
        let task = |task: TaskId| i64::from(task.0);
        match *self {
            Row::Assign(Assignment { task: t, place, budget: None }) => [0, task(t), i64::from(place.0), 0, 0],
            Row::Assign(Assignment { task: t, place, budget: Some(Budget { amount, clock: of }) }) => {
                [1 + clock(of), task(t), i64::from(place.0), amount.ns(), 0]
            }
            Row::Act(act) => match act {
                Act::Visited { tasks } => [3, tasks as i64, 0, 0, 0],
                Act::SetTimer { timer, at } => [4, i64::from(timer), at.ns(), 0, 0],
                Act::CancelTimer { timer } => [5, i64::from(timer), 0, 0, 0],
                Act::Replenish { task: t, budget } => [6, task(t), budget.amount.ns(), clock(budget.clock), 0],
                Act::GrantOwn { task: t } => [7, task(t), 0, 0, 0],
                Act::Finish { task: t, outcome: Outcome::Aborted } => [8, task(t), 0, 0, 0],
                Act::Urgency { task: t, urgency } => [9, task(t), urgency, 0, 0],
                Act::Remind { task: t } => [10, task(t), 0, 0, 0],
                Act::Record { what: RecordKind::Round { place, set_point, measured, correction } } => {
                    [11, i64::from(place.0), set_point.ns(), measured.ns(), correction.ns()]
                }
                Act::Record { what: RecordKind::Burst { task: t, set_point, measured, next } } => {
                    [12, task(t), set_point.ns(), measured.ns(), next.ns()]
                }
                // Those of a window table.
                Act::Finish { .. } | Act::Record { .. } | Act::SetBorder { .. } => [-1, 0, 0, 0, 0],
            },
        }
    }

    /// Reads a row, whatever wrote it.
    #[must_use]
    pub fn read([kind, first, second, third, fourth]: [i64; ROW]) -> Option<Row> {
        let task = || u32::try_from(first).ok().map(TaskId);
        let timer = || u16::try_from(first).ok();
        let place = |word: i64| u16::try_from(word).ok().map(Place);
        let span = Span::from_ns;
        let budget = |amount, is_cpu| {
            Some(Budget { amount: span(amount), clock: *[Clock::Elapsed, Clock::Cpu].get(is_cpu as usize)? })
        };
        Some(Row::Act(match kind {
            0 => return Some(Row::Assign(Assignment { task: task()?, place: place(second)?, budget: None })),
            1 | 2 => {
                let budget = budget(third, kind - 1)?;
                return Some(Row::Assign(Assignment { task: task()?, place: place(second)?, budget: Some(budget) }));
            }
            3 => Act::Visited { tasks: u64::try_from(first).ok()? },
            4 => Act::SetTimer { timer: timer()?, at: Time::from_ns(second) },
            5 => Act::CancelTimer { timer: timer()? },
            6 => Act::Replenish { task: task()?, budget: budget(second, third)? },
            7 => Act::GrantOwn { task: task()? },
            8 => Act::Finish { task: task()?, outcome: Outcome::Aborted },
            9 => Act::Urgency { task: task()?, urgency: second },
            10 => Act::Remind { task: task()? },
            11 => {
                let (set_point, measured, correction) = (span(second), span(third), span(fourth));
                Act::Record { what: RecordKind::Round { place: place(first)?, set_point, measured, correction } }
            }
            12 => {
                let (set_point, measured, next) = (span(second), span(third), span(fourth));
                Act::Record { what: RecordKind::Burst { task: task()?, set_point, measured, next } }
            }
            _ => return None,
        }))
    }
}
