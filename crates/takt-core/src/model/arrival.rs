//! Arrivals: when jobs are released.

use super::ids::TaskId;
use crate::rng;
use crate::time::{Span, Time};
use alloc::vec::Vec;

// Draws for different purposes must not be the same numbers.
const SPORADIC: u64 = 0x5350_4f52_4144_4943;

/// How jobs of a task come into being.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Released by the engine at `offset + k * period`, k = 0, 1, 2 …
    Periodic {
        /// First release after the start of the schedule.
        offset: Span,
        /// Time between releases; above zero.
        period: Span,
    },
    /// Released by the engine, each job a random time between `period` and `period + spread` after the one before. The
    /// times are drawn by (seed, task, job), evenly.
    Sporadic {
        /// First release after the start of the schedule.
        offset: Span,
        /// Least time between releases; above zero.
        period: Span,
        /// How much longer it may take at most.
        spread: Span,
    },
    /// Released by the engine at these instants after the start of the schedule, in ascending order. A batch job has one,
    /// its offset.
    Listed {
        /// The instants; none is a task that never has a job.
        instants: Vec<Span>,
    },
    /// Released by events: by [`Input::Release`](crate::input::Input::Release), or by the completion of another task's jobs. An event that
    /// comes too early is delayed until the least distance has passed.
    Event {
        /// Least time between releases; zero for none.
        distance: Span,
        /// How many events and jobs may wait at a time, above zero. A further event is lost.
        queue: u32,
        /// Each completed job of this task is an event.
        after: Option<TaskId>,
    },
    /// Released by its policy: a process of a window table is activated once per window.
    Activated,
}

impl Arrival {
    /// The period, or the least time between releases. `None` where releases are a list, events without a distance, or the policy's business.
    #[must_use]
    pub fn period(&self) -> Option<Span> {
        match self {
            Arrival::Periodic { period, .. } | Arrival::Sporadic { period, .. } => Some(*period),
            Arrival::Event { distance, .. } => Some(*distance).filter(|distance| *distance > Span::ZERO),
            Arrival::Listed { .. } | Arrival::Activated => None,
        }
    }

    /// When job 0 is released by the engine.
    #[must_use]
    pub fn first(&self) -> Option<Time> {
        match self {
            Arrival::Periodic { offset, .. } | Arrival::Sporadic { offset, .. } => Some(Time::ZERO + *offset),
            Arrival::Listed { instants } => instants.first().map(|i| Time::ZERO + *i),
            Arrival::Event { .. } | Arrival::Activated => None,
        }
    }

    /// The earliest instant at which a job can be released; `None` if none ever is, or if that is the policy's business.
    #[must_use]
    pub fn earliest(&self) -> Option<Time> {
        match self {
            Arrival::Event { .. } => Some(Time::ZERO),
            planned => planned.first(),
        }
    }

    /// When the job after number `job` is released, which itself was released at `release`. `None` for events, which are not planned. O(1).
    #[inline]
    #[must_use]
    pub fn next(&self, seed: u64, task: TaskId, job: u64, release: Time) -> Option<Time> {
        match self {
            Arrival::Periodic { period, .. } => Some(release + *period),
            Arrival::Sporadic { period, spread, .. } => {
                let drawn = rng::draw_up_to(spread.ns() as u64, seed ^ SPORADIC, u64::from(task.0), job);
                Some(release + *period + Span::from_ns(drawn as i64))
            }
            Arrival::Listed { instants } => {
                usize::try_from(job).ok().and_then(|j| instants.get(j + 1)).map(|i| Time::ZERO + *i)
            }
            Arrival::Event { .. } | Arrival::Activated => None,
        }
    }
}
