//! Task sets of a CSV file, as `analyze` and `sweep` take them.

use crate::error::Error;
use std::path::Path;
use takt_analysis::taskset::{TaskSet, Unsuitable};
use takt_core::model::{Task, TaskId};
use takt_workload::{Code, Source, TaskRows};

/// One set of a file.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its `set_id`.
    pub id: u64,
    /// The names of its tasks.
    pub names: Vec<String>,
    /// Its tasks for the simulator.
    pub tasks: Vec<Task>,
    /// Its tasks for the tests.
    pub set: TaskSet,
}

/// The hint about a task that the tests cannot take.
pub const EVERY: &str = "every task needs `runtime`, `deadline` and `period`";

/// Whether a file is read as task sets: its name ends in `.csv`.
#[must_use]
pub fn is_csv(file: &Path) -> bool {
    file.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
}

/// Reads all sets of a file, in its order.
///
/// # Errors
/// The faults of the file, and a set that the tests cannot be asked about.
pub fn read(file: &Path) -> Result<(Source, Vec<Set>), Error> {
    let source = Source::read(file)?;
    let sets = of_source(&source)?;
    Ok((source, sets))
}

/// As [`read`], from a text that has been read.
///
/// # Errors
/// As [`read`].
pub fn of_source(source: &Source) -> Result<Vec<Set>, Error> {
    let rows = takt_workload::load_sets(source).map_err(|faults| Error::faults(source, faults))?;
    let ready = |TaskRows { id, names, tasks }: TaskRows| {
        let wrong =
            |(_, why)| Error::argument(Code::NotApplicable, format!("`{}`, set {id}: {why}", source.name), EVERY);
        let set = TaskSet::from_tasks(&tasks).map_err(|why| wrong(unsuitable(why, &names)))?;
        Ok(Set { id, names, tasks, set })
    };
    rows.into_iter().map(ready).collect()
}

/// As [`read`], from a text that messages call `name`.
///
/// # Errors
/// As [`read`].
pub fn of_text(name: &str, text: &str) -> Result<Vec<Set>, Error> {
    of_source(&Source::from_bytes(name, text.as_bytes().to_vec())?)
}

/// The total utilisation of a set in millionths, to the nearest.
#[must_use]
pub fn utilisation(set: &TaskSet) -> u64 {
    // In 10^-12, rounded only at the end.
    let part = |runtime: u64, period: u64| u128::from(runtime) * 1_000_000_000_000 / u128::from(period);
    let sum: u128 = set.tasks.iter().map(|t| part(t.runtime, t.period)).sum();
    u64::try_from((sum + 500_000) / 1_000_000).unwrap_or(u64::MAX)
}

/// The reason why the tests cannot take a set, and the task that it is about.
#[must_use]
pub fn unsuitable(why: Unsuitable, names: &[String]) -> (Option<TaskId>, String) {
    let of = |task: usize, text: String| (Some(TaskId(task as u32)), text);
    match why {
        Unsuitable::Without(task, what) => of(task, format!("task `{}` has no `{what}`", names[task])),
        Unsuitable::Range(task) => of(task, format!("a time of task `{}` is out of range", names[task])),
        Unsuitable::Empty => (None, "there are no tasks".to_owned()),
    }
}
