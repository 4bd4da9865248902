//! The terms of real-time segments, and how programs change them.

use takt_core::engine::Engine;
use takt_core::model::TaskId;
use takt_core::time::Span;
use takt_core::utility::MOST;

/// The longest period, deadline or execution time that a program can request. Sums of such times must not overflow.
pub(crate) const LONGEST: Span = Span::from_secs(365 * 24 * 3600);

/// The shortest period that a program can request. Each release takes the scheduler's time, whether or not the program uses it.
pub(crate) const SHORTEST: Span = Span::from_us(100);

/// The terms of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) deadline: Option<Span>,
    pub(crate) runtime: Option<Span>,
    pub(crate) utility: u64,
}

impl Terms {
    /// The terms of a task as the engine has them before the first segment.
    pub(crate) fn of(engine: &Engine, task: TaskId) -> Terms {
        let described = &engine.system().tasks[task.index()];
        Terms { deadline: described.deadline, runtime: described.runtime, utility: described.height() }
    }

    /// The terms that a segment requests: its relative deadline, execution time and utility. `None` if one is out of range.
    pub(crate) fn with(self, [deadline, runtime, utility]: [i64; 3]) -> Option<Terms> {
        let span = |ns, declared| match ns {
            0 => Some(declared),
            _ => Some(Span::from_ns(ns)).filter(|span| (Span::from_ns(1)..=LONGEST).contains(span)).map(Some),
        };
        let utility = match utility {
            -1 => self.utility,
            utility => u64::try_from(utility).ok().filter(|utility| *utility <= MOST)?,
        };
        Some(Terms { deadline: span(deadline, self.deadline)?, runtime: span(runtime, self.runtime)?, utility })
    }
}
