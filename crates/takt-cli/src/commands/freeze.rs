//! `takt sim --emit-windows`: the schedule of a policy as a window table.

use crate::failure::Failure;
use std::fs;
use std::io::Read;
use std::path::Path;
use takt_core::model::TaskId;
use takt_sim::Unfrozen;
use takt_workload::{Code, MAX_WINDOWS, Workload};

/// The begin of the first line of a table, by which one that was written before is known.
const FIRST: &str = "# One hyperperiod of the schedule under ";

/// A file that is no table of this option is kept: it may be a workload that a person has written.
///
/// # Errors
/// There is such a file.
pub(crate) fn spares(path: &Path) -> Result<(), Failure> {
    let mut begin = Vec::new();
    let read = match path.is_file() {
        true => fs::File::open(path).and_then(|file| file.take(FIRST.len() as u64).read_to_end(&mut begin)),
        false => Ok(0),
    };
    match read {
        Ok(_) if begin.is_empty() || begin == FIRST.as_bytes() => Ok(()),
        _ => {
            let message = format!("`{}` exists, and is no table that `--emit-windows` has written", path.display());
            Err(Failure::input(Code::FileExists, message, "name another file, or remove this one"))
        }
    }
}

/// Freezes the schedule of a workload and writes the table.
pub(crate) fn write(workload: &Workload, path: &Path) -> Result<(), Failure> {
    if let Some((key, tasks)) = workload.simulated_only().first() {
        let of =
            tasks.first().map_or(String::new(), |task| format!(" of task `{}`", workload.tasks[task.index()].name));
        let message = format!("the schedule cannot be frozen: `{key}`{of} has no place in a window table");
        let hint = "a table is made for jobs that take their whole runtime; remove the key";
        return Err(Failure::at(Code::NotFreezable, workload, tasks.first().copied(), message, hint));
    }
    let table = takt_sim::freeze(&workload.system, takt_workload::registry(), MAX_WINDOWS)
        .map_err(|why| refusal(workload, &why))?;
    let policy = takt_workload::policy_text(&workload.system.policy);
    let what = if workload.domains.is_empty() { format!("policy {policy}") } else { "its domains".to_owned() };
    let yaml = takt_workload::canonical(&takt_workload::frozen(workload, table));
    let text = format!("{FIRST}{what}, frozen by takt sim --emit-windows.\n{yaml}");
    crate::files::write(path, text)
}

fn refusal(workload: &Workload, why: &Unfrozen) -> Failure {
    let name = |task: &TaskId| &workload.tasks[task.index()].name;
    let message = match why {
        Unfrozen::NotPeriodic(task) => format!("task `{}` is not periodic", name(task)),
        Unfrozen::Unknown(task) => format!("how long jobs of task `{}` take is not known beforehand", name(task)),
        Unfrozen::Late { task, job, due } => format!("job {job} of task `{}` is not over by {due}", name(task)),
        other => workload.named(&other.to_string()),
    };
    let hint = match why {
        Unfrozen::Table => "freeze the schedule of `tasks` under an online policy",
        Unfrozen::Empty => "a table needs `tasks` with a `period` and a `runtime`",
        Unfrozen::NotPeriodic(_) => "give every task a `period` without a `spread`, or leave the task out",
        Unfrozen::Unknown(_) => "give it a `runtime` without a `jitter`; the table reserves it for every job",
        Unfrozen::Machine => "remove `tick`, `resolution`, `lateness` and `load`",
        Unfrozen::Long => "choose periods with a smaller common multiple",
        Unfrozen::Windows(_) => "choose a policy with fewer preemptions, or periods with a smaller common multiple",
        Unfrozen::Late { .. } => {
            "a table can only promise what the policy does: by the deadline, and before the next release; choose another \
             policy or more CPUs"
        }
        Unfrozen::Changing => "choose another policy",
        Unfrozen::Invalid(_) => "`takt policies` tells what policies need",
    };
    let task = match why {
        Unfrozen::NotPeriodic(task) | Unfrozen::Unknown(task) | Unfrozen::Late { task, .. } => Some(*task),
        _ => None,
    };
    Failure::at(Code::NotFreezable, workload, task, format!("the schedule cannot be frozen: {message}"), hint)
}
