//! One run of one policy: what was counted, and what is read from it.

use super::super::state::Found;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// A number of a run; nothing of a run that cannot say.
type Read = fn(&Run) -> Option<f64>;

/// One thing that is read from runs and averaged.
pub(super) struct Measure {
    pub(super) name: &'static str,
    /// Title of its panel.
    pub(super) title: &'static str,
    /// Its unit, beside the axis.
    pub(super) unit: &'static str,
    pub(super) of: Read,
    /// A part of a whole, so between 0 and 1.
    pub(super) ratio: bool,
}

/// Whether any job was counted. A run without one says nothing about a policy.
pub(super) fn counts(run: &Run) -> bool {
    run[0] > 0
}

/// A part of nothing is unknown.
fn part(run: &Run, of: usize, whole: usize) -> Option<f64> {
    (counts(run) && run[whole] > 0).then(|| run[of] as f64 / run[whole] as f64)
}

/// Columns that have intervals in every output: the first so many.
pub(super) const WITH_INTERVALS: usize = 2;
/// The column that figure 7 of ChronOS shows.
pub(super) const MIGRATIONS: usize = 5;

/// The columns, in the order of the table.
pub(super) const MEASURES: [Measure; 9] = [
    ratio("dsr", "deadline satisfaction ratio", JOBS, |run| part(run, 1, 0)),
    ratio("aur", "accrued utility ratio", "part of the utility", |run| part(run, 4, 5)),
    ratio("missed", "missed deadlines", JOBS, |run| part(run, 1, 0).map(|met| 1.0 - met)),
    ratio("aborted", "aborted jobs", JOBS, |run| part(run, 3, 0)),
    number("preemptions", "preemptions", |run| counted(run, 7)),
    number("migrations", "migrations", |run| counted(run, 8)),
    number("context_switches", "context switches", |run| counted(run, 9)),
    number("scheduler_runs", "runs of the scheduler", |run| counted(run, 10)),
    number("interrupts", "interrupts", |run| counted(run, 11)),
];

const JOBS: &str = "ratio of jobs";

fn counted(run: &Run, of: usize) -> Option<f64> {
    counts(run).then(|| run[of] as f64)
}

const fn ratio(name: &'static str, title: &'static str, unit: &'static str, of: Read) -> Measure {
    Measure { name, title, unit, of, ratio: true }
}

const fn number(name: &'static str, title: &'static str, of: Read) -> Measure {
    Measure { name, title, unit: "number per run", of, ratio: false }
}

/// A run, and whether no priorities were found for it, so that they are deadline-monotonic.
pub(super) type Counted = (Run, bool);

/// Runs of one load by the number of the set or seed, each by policy.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Runs(pub(super) BTreeMap<u64, Vec<Counted>>);

impl Found for Runs {
    fn zero(_: usize) -> Runs {
        Runs::default()
    }

    fn add(&mut self, other: &Runs) -> Option<()> {
        self.0.extend(other.0.iter().map(|(number, runs)| (*number, runs.clone())));
        Some(())
    }

    /// A text for each run, since its numbers may be longer than those of JSON.
    fn cells(&self) -> Vec<Value> {
        let text = |run: &Run| json!(run.map(|n| n.to_string()).join(" "));
        let runs = || self.0.values().flatten();
        vec![
            runs().map(|(run, _)| text(run)).collect(),
            runs().map(|(_, fallback)| json!(fallback)).collect(),
            self.0.keys().map(|number| json!(number)).collect(),
        ]
    }

    fn read(cells: &[Value]) -> Option<Runs> {
        let run = |(run, fallback): (&Value, &Value)| -> Option<Counted> {
            let numbers: Vec<u128> = run.as_str()?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
            Some((numbers.try_into().ok()?, fallback.as_bool()?))
        };
        let [runs, fallbacks, numbers] = cells else { return None };
        let (runs, fallbacks) = (runs.as_array()?, fallbacks.as_array()?);
        let numbers: Vec<u64> = numbers.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
        let policies = runs.len().checked_div(numbers.len()).filter(|n| *n > 0)?;
        let runs: Vec<Counted> = runs.iter().zip(fallbacks).map(run).collect::<Option<_>>()?;
        Some(Runs(numbers.into_iter().zip(runs.chunks(policies).map(<[Counted]>::to_vec)).collect()))
    }

    fn is_sound(&self, sets: u64, questions: usize) -> bool {
        let sound = |(run, _): &Counted| run[1] + run[2] <= run[0] && run[3] <= run[2] && run[4] <= run[5];
        self.0.len() as u64 == sets && self.0.values().all(|runs| runs.len() == questions && runs.iter().all(sound))
    }
}
