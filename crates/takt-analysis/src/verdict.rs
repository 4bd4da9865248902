//! Verdicts about a system: the answer, the test that gave it, and the strength of that test.

use crate::utilisation::Utilisation;
use std::fmt;
use takt_core::model::TaskId;
use takt_core::time::Span;

/// Whether every deadline is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Every one.
    Yes,
    /// At least one is missed, if sporadic jobs come as densely as they may.
    No,
    /// The test does not say.
    Unknown,
}

/// The strength of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Both yes and no.
    Exact,
    /// Only yes.
    Sufficient,
    /// Only no.
    Necessary,
    /// Nothing: no test applies.
    Nothing,
}

impl Kind {
    /// The verdict where a no is no proof any more, or a yes holds for other reasons besides.
    #[must_use]
    pub fn weakened(self) -> Kind {
        if self == Kind::Exact { Kind::Sufficient } else { self }
    }
}

/// The result of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The answer.
    pub schedulable: Answer,
    /// The test that gave it: `edf`, `np-edf`, `edf-wm`, `edf-cd`, `edf-wmr`, `rta` (response-time analysis), `reservation`
    /// (shares of servers), `busy-period`, `gfb`, `bcl`, `bak`, `gedf-rta`, `grm-rta`, `gdm-rta`, `gfp-rta`, `optimal`,
    /// `utilisation`, `budget` (no job is done within it), `completion` (no job completes), `one-cpu-each`, `no-deadlines`; `domains` where those of domains
    /// differ; `none` where no test applies.
    pub test: &'static str,
    /// The strength of that test.
    pub kind: Kind,
    /// The ground of the answer in plain words.
    pub reason: String,
    /// Sum of runtime over period of the tasks that have both.
    pub utilisation: Utilisation,
    /// Least common multiple of the periods; `None` when it does not fit.
    pub hyperperiod: Option<Span>,
    /// Bound of each task's response time, where the test gives one.
    pub responses: Vec<Option<Span>>,
    /// Whether a tenth of the time is left idle: of each CPU under a partitioned policy, of all together otherwise.
    /// False when a runtime is not known ([`crate::idle::obstacle`]).
    pub idle_10_percent: bool,
}

/// One sentence: `schedulable (exact test edf): utilisation 0.971 (34/35) is at most 1`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentence(f, self.schedulable, self.test, self.kind, &self.reason)
    }
}

/// A verdict in a sentence, which says so where no test applies.
pub(crate) fn sentence(
    f: &mut fmt::Formatter<'_>,
    schedulable: Answer,
    test: &str,
    kind: Kind,
    reason: &str,
) -> fmt::Result {
    f.write_str(match schedulable {
        Answer::Yes => "schedulable",
        Answer::No => "not schedulable",
        Answer::Unknown => "not known to be schedulable",
    })?;
    match kind {
        Kind::Nothing => write!(f, " (no test applies): {reason}"),
        _ => write!(f, " ({kind} test {test}): {reason}"),
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Exact => "exact",
            Kind::Sufficient => "sufficient",
            Kind::Necessary => "necessary",
            Kind::Nothing => "none",
        })
    }
}

/// The result of a test for one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) answer: Answer,
    pub(crate) kind: Kind,
    pub(crate) reason: String,
    /// Bounds of response times, for tests that give them.
    pub(crate) responses: Vec<(TaskId, Span)>,
    /// How these bounds count suspensions, where jobs suspend themselves.
    pub(crate) suspensions: Vec<String>,
}

impl Finding {
    pub(crate) fn new(answer: Answer, kind: Kind, reason: impl Into<String>) -> Finding {
        Finding { answer, kind, reason: reason.into(), responses: Vec::new(), suspensions: Vec::new() }
    }
}

/// That no test applies, and why.
pub(crate) fn beyond(why: impl Into<String>) -> (&'static str, Finding) {
    ("none", Finding::new(Answer::Unknown, Kind::Nothing, why))
}

/// The first of some tasks' reasons, and how many more there are.
pub(crate) fn first_of(mut reasons: impl Iterator<Item = String>) -> Option<String> {
    let first = reasons.next()?;
    Some(match reasons.count() {
        0 => first,
        1 => format!("{first} (and another task is in doubt)"),
        n => format!("{first} (and {n} other tasks are in doubt)"),
    })
}
