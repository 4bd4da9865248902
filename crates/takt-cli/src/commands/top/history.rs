//! The last minutes of each task, sampled from snapshots.

use std::collections::VecDeque;
use takt_core::time::Span;
use takt_trace::live::Snapshot;

/// Samples of a task that are kept.
pub(super) const SAMPLES: usize = 240;

/// A task between one sample and the next.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    pub(super) utilisation_ppm: u64,
    pub(super) missed: u64,
    pub(super) completed: u64,
    /// The latest response time.
    pub(super) response_ns: u64,
}

/// Samples of all tasks at regular instants.
pub(super) struct History {
    every: Span,
    /// The instant of the last sample, and the missed and completed jobs of each task until then.
    last: Option<(i64, Vec<(u64, u64)>)>,
    tasks: Vec<VecDeque<Sample>>,
}

impl History {
    pub(super) fn new(every: Span) -> History {
        History { every, last: None, tasks: Vec::new() }
    }

    pub(super) fn every(&self) -> Span {
        self.every
    }

    pub(super) fn clear(&mut self) {
        *self = History::new(self.every);
    }

    /// The samples of a task, oldest first.
    pub(super) fn of(&self, task: usize) -> impl Iterator<Item = &Sample> {
        self.tasks.get(task).into_iter().flatten()
    }

    /// Takes a snapshot. One that comes before the next sample is due is not used.
    pub(super) fn take(&mut self, status: &Snapshot) {
        if self.last.as_ref().is_some_and(|(at, _)| status.now_ns < at.saturating_add(self.every.ns())) {
            return;
        }
        self.tasks.resize_with(status.tasks.len(), VecDeque::new);
        let totals = status.tasks.iter().map(|task| (task.missed, task.completed)).collect();
        let before = self.last.replace((status.now_ns, totals)).map(|(_, totals)| totals);
        for (index, (task, samples)) in status.tasks.iter().zip(&mut self.tasks).enumerate() {
            // Jobs before the first sample are not part of it.
            let known = before.as_ref().and_then(|totals| totals.get(index)).copied();
            let (missed, completed) = known.unwrap_or((task.missed, task.completed));
            let completed = task.completed.saturating_sub(completed);
            if samples.len() == SAMPLES {
                samples.pop_front();
            }
            samples.push_back(Sample {
                utilisation_ppm: task.utilisation_ppm.unwrap_or(0),
                missed: task.missed.saturating_sub(missed),
                completed,
                response_ns: task.last_response_ns.filter(|_| completed > 0).map_or(0, |ns| ns.max(0) as u64),
            });
        }
    }
}
