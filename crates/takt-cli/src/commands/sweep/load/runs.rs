//! One run of one policy: what was counted, and what is read from it.

use super::super::state::Found;
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
    let mut engine = crate::input::engine(system)?;
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

const JOBS: &str = "part of the jobs";

fn counted(run: &Run, of: usize) -> Option<f64> {
    counts(run).then(|| run[of] as f64)
}

const fn ratio(name: &'static str, title: &'static str, unit: &'static str, of: Read) -> Measure {
    Measure { name, title, unit, of, ratio: true }
}

const fn number(name: &'static str, title: &'static str, of: Read) -> Measure {
    Measure { name, title, unit: "number per run", of, ratio: false }
}

/// The runs of a block: those of the first case by policy, then those of the next.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Runs {
    pub(super) runs: Vec<Run>,
    /// For each run whether no priorities were found, so that they are deadline-monotonic.
    pub(super) fallbacks: Vec<bool>,
}

impl Found for Runs {
    /// A text for each run, since its numbers may be longer than those of JSON.
    fn cells(&self) -> Vec<Value> {
        let text = |run: &Run| json!(run.map(|n| n.to_string()).join(" "));
        vec![self.runs.iter().map(text).collect(), json!(self.fallbacks)]
    }

    fn read(cells: &[Value]) -> Option<Runs> {
        let run = |value: &Value| -> Option<Run> {
            let numbers: Vec<u128> = value.as_str()?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
            numbers.try_into().ok()
        };
        let [runs, fallbacks] = cells else { return None };
        let runs = runs.as_array()?.iter().map(run).collect::<Option<_>>()?;
        Some(Runs { runs, fallbacks: fallbacks.as_array()?.iter().map(Value::as_bool).collect::<Option<_>>()? })
    }

    fn is_sound(&self, sets: u64, questions: usize) -> bool {
        let sound = |run: &Run| run[1] + run[2] <= run[0] && run[3] <= run[2] && run[4] <= run[5];
        let whole = |count: usize| u64::try_from(count).is_ok_and(|n| n == sets * questions as u64);
        whole(self.runs.len()) && whole(self.fallbacks.len()) && self.runs.iter().all(sound)
    }
}
