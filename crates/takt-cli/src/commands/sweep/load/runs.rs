//! One run of one policy: what was counted, and what is read from it.

use super::super::state::Found;
use super::super::statistics::{self, Mean, Sums, WHOLE};
use serde_json::{Value, json};
use takt_core::model::{Invalid, System};
use takt_core::scenario::Scenario;
use takt_core::time::Span;

/// How many numbers a run gives.
pub(super) const NUMBERS: usize = 12;

/// Their names in the list of single runs.
pub(super) const NAMES: [&str; NUMBERS] = [
    "released",
    "met",
    "missed",
    "aborted",
    "utility",
    "utility_total",
    "dispatches",
    "preemptions",
    "migrations",
    "context_switches",
    "scheduler_runs",
    "interrupts",
];

/// The counts of one run, in the order of [`NAMES`]; utilities are in millionths.
pub(super) type Run = [u128; NUMBERS];

/// Simulates.
///
/// # Errors
/// Why the policy cannot schedule the system.
pub(super) fn simulate(system: System, scenario: &Scenario, length: Span) -> Result<Run, Invalid> {
    let mut engine = takt::load::engine(system)?;
    let report = takt_sim::simulate(&mut engine, scenario, length, &mut (), |_| ());
    let c = engine.totals();
    let [released, met, missed, aborted] = [c.released, c.met, c.missed, c.aborted].map(u128::from);
    let [dispatches, preemptions, migrations] = [c.dispatches, c.preemptions, c.migrations].map(u128::from);
    let [switches, runs, interrupts] =
        [engine.context_switches(), report.scheduler_runs, report.interrupts].map(u128::from);
    let jobs = [released, met, missed, aborted, c.utility, c.utility_total];
    let machine = [dispatches, preemptions, migrations, switches, runs, interrupts];
    let mut run = [0; NUMBERS];
    run.iter_mut().zip(jobs.into_iter().chain(machine)).for_each(|(to, from)| *to = from);
    Ok(run)
}

/// A number of a run, of ratios in parts of [`WHOLE`]; nothing of a run that cannot say.
type Read = fn(&Run) -> Option<i128>;

/// One thing that is read from runs and averaged.
pub(super) struct Measure {
    pub(super) name: &'static str,
    /// Title of its panel.
    pub(super) title: &'static str,
    /// Its unit, beside the axis.
    pub(super) unit: &'static str,
    of: Read,
    /// A part of a whole, so between 0 and 1.
    pub(super) ratio: bool,
}

impl Measure {
    /// The mean of a sum of its values.
    pub(super) fn mean(&self, sums: &Sums) -> Option<Mean> {
        sums.mean(if self.ratio { WHOLE } else { 1 })
    }
}

/// Whether any job was counted. A run without one says nothing about a policy.
fn counts(run: &Run) -> bool {
    run[0] > 0
}

/// A part of nothing is unknown.
fn part(run: &Run, of: usize, whole: usize) -> Option<i128> {
    (counts(run) && run[whole] > 0).then(|| statistics::ratio(run[of], run[whole]))
}

/// Columns that have intervals in every output: the first so many.
pub(super) const WITH_INTERVALS: usize = 2;
/// The column that figure 7 of ChronOS shows.
pub(super) const MIGRATIONS: usize = 5;

/// How many columns there are.
const COUNT: usize = 9;
/// The columns, in the order of the table.
pub(super) const MEASURES: [Measure; COUNT] = [
    ratio("dsr", "deadline satisfaction ratio", JOBS, |run| part(run, 1, 0)),
    ratio("aur", "accrued utility ratio", "part of the utility", |run| part(run, 4, 5)),
    ratio("missed", "missed deadlines", JOBS, |run| part(run, 1, 0).map(|met| WHOLE - met)),
    ratio("aborted", "aborted jobs", JOBS, |run| part(run, 3, 0)),
    number("preemptions", "preemptions", |run| counted(run, 7)),
    number("migrations", "migrations", |run| counted(run, 8)),
    number("context_switches", "context switches", |run| counted(run, 9)),
    number("scheduler_runs", "runs of the scheduler", |run| counted(run, 10)),
    number("interrupts", "interrupts", |run| counted(run, 11)),
];

const JOBS: &str = "ratio of jobs";

fn counted(run: &Run, of: usize) -> Option<i128> {
    counts(run).then(|| i128::try_from(run[of]).ok()).flatten()
}

const fn ratio(name: &'static str, title: &'static str, unit: &'static str, of: Read) -> Measure {
    Measure { name, title, unit, of, ratio: true }
}

const fn number(name: &'static str, title: &'static str, of: Read) -> Measure {
    Measure { name, title, unit: "number per run", of, ratio: false }
}

/// A run, and whether no priorities were found for it, so that they are deadline-monotonic.
pub(super) type Counted = (Run, bool);

/// The runs of one load under one policy.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct OfPolicy {
    /// Runs in which a job was counted.
    pub(super) counted: u64,
    /// Runs for which no priorities were found.
    pub(super) fallbacks: u64,
    /// The values of each measure.
    pub(super) sums: [Sums; COUNT],
    /// The differences from the policy that is compared with, of the same jobs.
    pub(super) gains: [Sums; COUNT],
}

impl OfPolicy {
    fn add(&mut self, other: &OfPolicy) -> Option<()> {
        self.counted = self.counted.checked_add(other.counted)?;
        self.fallbacks = self.fallbacks.checked_add(other.fallbacks)?;
        let own = self.sums.iter_mut().chain(&mut self.gains);
        own.zip(other.sums.iter().chain(&other.gains)).try_for_each(|(sum, more)| sum.add(more))
    }
}

/// The runs of one load, by policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Runs(pub(super) Vec<OfPolicy>);

impl Runs {
    /// Adds a run under each policy. `None` if a sum is out of range.
    pub(super) fn insert(&mut self, runs: &[Counted], against: Option<usize>) -> Option<()> {
        for (sums, (run, fallback)) in self.0.iter_mut().zip(runs) {
            sums.counted += u64::from(counts(run));
            sums.fallbacks += u64::from(*fallback);
            for (at, measure) in MEASURES.iter().enumerate() {
                let Some(value) = (measure.of)(run) else { continue };
                sums.sums[at].insert(value)?;
                if let Some(other) = against.and_then(|against| (measure.of)(&runs[against].0)) {
                    sums.gains[at].insert(value - other)?;
                }
            }
        }
        Some(())
    }
}

impl Found for Runs {
    fn zero(policies: usize) -> Runs {
        Runs(vec![OfPolicy::default(); policies])
    }

    fn add(&mut self, other: &Runs) -> Option<()> {
        self.0.iter_mut().zip(&other.0).try_for_each(|(sums, more)| sums.add(more))
    }

    fn cells(&self) -> Vec<Value> {
        let texts = |sums: &[Sums]| sums.iter().map(Sums::text).collect::<Vec<String>>();
        self.0.iter().map(|of| json!([of.counted, of.fallbacks, texts(&of.sums), texts(&of.gains)])).collect()
    }

    fn read(cells: &[Value]) -> Option<Runs> {
        let sums = |cell: &Value| -> Option<[Sums; COUNT]> {
            let texts = cell.as_array()?.iter().map(|text| Sums::read(text.as_str()?));
            texts.collect::<Option<Vec<Sums>>>()?.try_into().ok()
        };
        let policy = |cell: &Value| {
            let (counted, fallbacks) = (cell[0].as_u64()?, cell[1].as_u64()?);
            Some(OfPolicy { counted, fallbacks, sums: sums(&cell[2])?, gains: sums(&cell[3])? })
        };
        cells.iter().map(policy).collect::<Option<_>>().map(Runs)
    }

    fn is_sound(&self, sets: u64, questions: usize) -> bool {
        let sound = |of: &OfPolicy| {
            let counts = of.sums.iter().chain(&of.gains).map(|sums| sums.count);
            of.counted <= sets && of.fallbacks <= sets && counts.max().unwrap_or(0) <= of.counted
        };
        self.0.len() == questions && self.0.iter().all(sound)
    }
}
