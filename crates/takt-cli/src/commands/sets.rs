//! Task sets of a CSV file, as `analyze` and `sweep` take them.

use crate::failure::Failure;
use std::path::Path;
use takt_analysis::taskset::{TaskSet, Unsuitable};
use takt_core::model::{Task, TaskId};
use takt_workload::{Code, Source, TaskRows};

/// One set of a file.
pub(crate) struct Set {
    /// Its `set_id`.
    pub(crate) id: u64,
    /// The names of its tasks.
    pub(crate) names: Vec<String>,
    /// Its tasks for the simulator.
    pub(crate) tasks: Vec<Task>,
    /// Its tasks for the tests.
    pub(crate) set: TaskSet,
}

/// The hint about a task that the tests cannot take.
pub(crate) const EVERY: &str = "every task needs `runtime`, `deadline` and `period`";

/// Whether a file is read as task sets: its name ends in `.csv`.
pub(crate) fn is_csv(file: &Path) -> bool {
    file.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
}

/// Reads all sets of a file, in its order.
///
/// # Errors
/// The faults of the file, and a set that the tests cannot be asked about.
pub(crate) fn read(file: &Path) -> Result<(Source, Vec<Set>), Failure> {
    let source = Source::read(file).map_err(|u| Failure::unreadable(&u))?;
    let rows = takt_workload::load_sets(&source).map_err(|faults| Failure::diagnostics(&source, &faults))?;
    let ready = |TaskRows { id, names, tasks }: TaskRows| {
        let wrong =
            |(_, why)| Failure::input(Code::NotApplicable, format!("`{}`, set {id}: {why}", source.name), EVERY);
        let set = TaskSet::from_tasks(&tasks).map_err(|why| wrong(unsuitable(why, &names)))?;
        Ok(Set { id, names, tasks, set })
    };
    let sets = rows.into_iter().map(ready).collect::<Result<_, Failure>>()?;
    Ok((source, sets))
}

/// The total utilisation of a set in millionths, to the nearest.
pub(crate) fn utilisation(set: &TaskSet) -> u64 {
    // In 10^-12, rounded only at the end.
    let part = |runtime: u64, period: u64| u128::from(runtime) * 1_000_000_000_000 / u128::from(period);
    let sum: u128 = set.tasks.iter().map(|t| part(t.runtime, t.period)).sum();
    u64::try_from((sum + 500_000) / 1_000_000).unwrap_or(u64::MAX)
}

/// The reason why the tests cannot take a set, and the task that it is about.
pub(crate) fn unsuitable(why: Unsuitable, names: &[String]) -> (Option<TaskId>, String) {
    let of = |task: usize, text: String| (Some(TaskId(task as u32)), text);
    match why {
        Unsuitable::Without(task, what) => of(task, format!("task `{}` has no `{what}`", names[task])),
        Unsuitable::Range(task) => of(task, format!("a time of task `{}` is out of range", names[task])),
        Unsuitable::Empty => (None, "there are no tasks".to_owned()),
    }
}
