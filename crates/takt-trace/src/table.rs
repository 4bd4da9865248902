//! The jobs of a process of a window table, counted from its records.

use takt_core::model::Completion;
use takt_core::record::{JobId, Outcome, RecordKind};
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};

/// The jobs of a process of a window table. A completion signal ends a job, which can take several activations.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// The process signals its completions, so that it has jobs.
    pub(crate) signals: bool,
    /// The release of the job that no signal has ended, and whether an activation of it was cut off.
    open: Option<(Time, bool)>,
    /// An activation is not over.
    active: bool,
    /// The first activation of that job that was dispatched: its signals carry this number.
    at: Option<JobId>,
    /// The process has ended. If it failed, it misses jobs, but has no activations.
    gone: bool,
}

impl Table {
    pub(crate) fn new(completion: Completion) -> Table {
        Table {
            signals: matches!(completion, Completion::Signal | Completion::Exit),
            open: None,
            active: false,
            at: None,
            gone: false,
        }
    }

    fn open(&mut self, at: Time, counts: &mut Counts) {
        if self.open.is_none() {
            self.open = Some((at, false));
            counts.released += 1;
        }
    }

    /// Counts a record; returns the response time of a job that it completes.
    pub(crate) fn record(&mut self, at: Time, what: &RecordKind, counts: &mut Counts) -> Option<Span> {
        let mut complete = |open: &mut Option<(Time, bool)>| {
            let (release, missed) = open.take()?;
            counts.completed += 1;
            counts.met += u64::from(!missed);
            Some(at - release)
        };
        match *what {
            RecordKind::Release { .. } => {
                self.open(at, counts);
                counts.activations += u64::from(!self.gone);
                self.active = true;
            }
            RecordKind::Start { job, .. } => _ = self.at.get_or_insert(job),
            RecordKind::LateSignal { job, .. } => {
                self.signals = true;
                // One that names another job is only counted.
                self.at.take_if(|at| *at == job)?;
                let done = complete(&mut self.open);
                if self.active {
                    self.open(at, counts);
                }
                return done;
            }
            RecordKind::Finish { outcome, .. } => {
                self.active = false;
                let cut = matches!(outcome, Outcome::BudgetUsed | Outcome::Overrun);
                self.at = self.at.filter(|_| cut);
                if outcome == Outcome::Completed {
                    self.signals = true;
                    return complete(&mut self.open);
                }
                counts.cut_off += u64::from(cut);
                counts.overruns += u64::from(outcome == Outcome::Overrun);
                let (release, missed) = self.open.take()?;
                if outcome == Outcome::Exited {
                    counts.released -= u64::from(!missed);
                } else {
                    counts.missed += u64::from(!missed);
                    counts.aborted += u64::from(outcome == Outcome::Aborted);
                    self.open = cut.then_some((release, true));
                }
            }
            RecordKind::Exit { failed, .. } => {
                (self.at, self.gone) = (None, true);
                let (_, missed) = self.open.take()?;
                if failed {
                    counts.missed += u64::from(!missed);
                    counts.aborted += 1;
                } else {
                    counts.released -= u64::from(!missed);
                }
            }
            _ => {}
        }
        None
    }
}

/// The work of a process of a window table over its activations, for readers of single activations. [`Table`] counts by the same rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// The first activation of the work that was cut off and has not ended.
    open: Option<JobId>,
    /// The activation that is not over.
    active: Option<JobId>,
    /// The first activation of the work that was dispatched: its signals carry this number.
    dispatched: Option<JobId>,
}

impl Work {
    /// The activation in which the work began that the process continues, if that was cut off.
    pub(crate) fn continues(&self) -> Option<JobId> {
        self.open
    }

    /// Takes a record of the process. Returns an activation for which [`Work::continues`] is known now.
    pub(crate) fn record(&mut self, kind: &RecordKind) -> Option<(JobId, Option<JobId>)> {
        match *kind {
            RecordKind::Release { job, .. } => {
                self.active = Some(job);
                return Some((job, self.open));
            }
            RecordKind::Start { job, .. } => _ = self.dispatched.get_or_insert(job),
            RecordKind::Finish { job, outcome, .. } => {
                let cut = matches!(outcome, Outcome::BudgetUsed | Outcome::Overrun);
                self.active = None;
                self.open = self.open.or(Some(job)).filter(|_| cut);
                self.dispatched = self.dispatched.filter(|_| cut);
            }
            RecordKind::LateSignal { job, .. } if self.dispatched == Some(job) => {
                (self.open, self.dispatched) = (None, None);
                return self.active.map(|active| (active, None));
            }
            RecordKind::Exit { .. } => (self.open, self.dispatched) = (None, None),
            _ => {}
        }
        None
    }
}
