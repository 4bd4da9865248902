//! Whether a workload is good, and whether its schedule is.

mod control;
mod online;
mod table;
mod witness;
mod words;

pub use control::{ControlCpu, ControlEntry, ControlTask, Gains, Loops, Pole};
pub use online::{DomainVerdict, OnlineCheck, TaskBound};
pub use table::{CpuLoad, CutOff, PartitionLoad, PartitionVerdict, SliceLoad, TableCheck, WindowLoad};
pub use witness::{Offset, Search, Witness, witness};
pub(crate) use words::left_out;
pub use words::{CheckText, not_realtime};

use crate::error::Error;
use crate::load::engine;
use serde::Serialize;
use std::io::{self, Write};
use takt_analysis::online::Answer;
use takt_workload::{TaskInfo, Workload};

/// The result of [`check`]: the keys of `takt check --json`.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Check {
    /// Of tasks under a policy.
    Online(Box<OnlineCheck>),
    /// Of a window table.
    Table(Box<TableCheck>),
}

/// Checks a workload.
///
/// # Errors
/// The policy cannot schedule the workload at all.
pub fn check(workload: &Workload) -> Result<Check, Error> {
    suits(workload)?;
    Ok(judge(workload))
}

/// Whether the policy can schedule the workload at all, on which the engine has the last word.
///
/// # Errors
/// Why it cannot.
pub fn suits(workload: &Workload) -> Result<(), Error> {
    let mut handed = workload.clone();
    handed.hand_over();
    engine(handed.system).map(|_| ()).map_err(|error| Error::unsuitable(workload, &error))
}

/// The verdict about a workload that its policy can schedule ([`suits`]).
#[must_use]
pub fn judge(workload: &Workload) -> Check {
    if !workload.system.windows.is_empty() {
        return Check::Table(Box::new(TableCheck::of(workload)));
    }
    let class = |task: &TaskInfo| task.class.map(|class| format!("{} ({class})", task.name));
    let of_kernel: Vec<String> = workload.tasks.iter().filter_map(class).collect();
    Check::Online(Box::new(OnlineCheck::of(workload.without_classes(), of_kernel)))
}

impl Check {
    /// Whether every deadline is met.
    #[must_use]
    pub fn answer(&self) -> Answer {
        match self {
            Check::Online(check) => check.schedulable,
            Check::Table(check) => check.schedulable,
        }
    }

    /// The text of `takt check`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        // Memory takes everything.
        let _ = self.print(&CheckText::default(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Writes the text of `takt check`.
    ///
    /// # Errors
    /// Those of the output.
    pub fn print(&self, with: &CheckText, out: &mut impl Write) -> io::Result<()> {
        match self {
            Check::Online(check) => check.print(with, out),
            Check::Table(check) => check.print(with, out),
        }
    }
}
