//! The isolation of the CPUs of one run, from its begin to its end.

use super::change::{Created, Isolator, Request, Undone};
use super::machine::Linux;
use super::refusal::Refusal;
use super::step::Step;
use crate::life::Outlasts;
use crate::rt;
use crate::run_id::RunId;
use std::io;
use std::path::{Path, PathBuf};
use takt_core::cpus::CpuSet;

/// The CPUs of a run, isolated. Dropping this undoes it. If the process dies, its watcher or `takt doctor --clean` does.
#[derive(Debug)]
pub struct Isolation {
    run: RunId,
    name: String,
    cpus: CpuSet,
    created: Created,
    /// It is not undone yet.
    exists: bool,
}

/// This machine for changes.
///
/// # Errors
/// This user is not root, or the journal cannot be used.
pub fn open() -> Result<Isolator<Linux>, Refusal> {
    let linux = Linux::open().map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => Refusal::Machine(
            "CPU sets, interrupts and kernel threads belong to root: nothing was changed".into(),
            "run it as root: sudo takt …".into(),
        ),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Refusal::Full(format!(
            "the journal {} cannot be written: {e}; nothing was changed",
            Linux::journal().display()
        )),
        io::ErrorKind::TimedOut => Refusal::Machine(
            format!("another process changes isolations: {e}; nothing was changed"),
            "wait for the end of that process, or end it".into(),
        ),
        _ => Refusal::Machine(
            format!("the journal {} cannot be used: {e}; nothing was changed", Linux::journal().display()),
            "let root alone own and write /run and that directory; remove a foreign one".into(),
        ),
    })?;
    Isolator::new(linux)
}

impl Isolation {
    /// Isolates CPUs until the end of a run. Its processes have to be started in the set ([`Isolation::set`]); Takt itself stays on the other CPUs.
    ///
    /// # Errors
    /// No CPU would remain, the CPUs have another use, or the machine or the user cannot. Nothing is changed then.
    pub fn create(run: &RunId, cpus: &CpuSet, steps: &[Step]) -> Result<Isolation, Refusal> {
        let mut isolator = open()?;
        let here = rt::affinity(0).map_err(|e| Refusal::Machine(e.to_string(), "see `takt doctor`".into()))?;
        if here.difference(cpus).is_empty() {
            return Err(Refusal::Request(
                format!(
                    "CPU {cpus} is all that Takt may use (CPU {here}): none would remain for all other tasks and for Takt itself"
                ),
                "give the schedule fewer CPUs (`cpus` in the file, or --cpus), or run it without --isolate".into(),
            ));
        }
        let request = Request {
            name: format!("run-{run}"),
            cpus: *cpus,
            steps: steps.to_vec(),
            // A slice of several CPUs is balanced among them by the kernel.
            balanced: cpus.len() > 1,
            owner: Some(*run),
        };
        // Only the death of the run lets others undo it.
        run.outlast(Outlasts::Isolation).map_err(|e| match e.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Refusal::Full(e.to_string()),
            _ => Refusal::Machine(e.to_string(), "make /run writable for root".into()),
        })?;
        let created = isolator.create(&request)?;
        Ok(Isolation { run: *run, name: request.name, cpus: *cpus, created, exists: true })
    }

    /// The directory of the set.
    #[must_use]
    pub fn set(&self) -> PathBuf {
        Path::new(&self.created.group).to_owned()
    }
    /// Its CPUs.
    #[must_use]
    pub fn cpus(&self) -> CpuSet {
        self.cpus
    }
    /// The changes of the machine.
    #[must_use]
    pub fn created(&self) -> &Created {
        &self.created
    }

    /// Undoes it.
    ///
    /// # Errors
    /// Something could not be restored. It remains in the journal.
    pub fn undo(mut self) -> Result<Undone, Refusal> {
        self.exists = false;
        let undone = undo(&self.name)?;
        self.run.settle(Outlasts::Isolation);
        Ok(undone)
    }
}

fn undo(name: &str) -> Result<Undone, Refusal> {
    match open()?.undo(name) {
        // Another process has undone it.
        Err(Refusal::Unknown(_)) => Ok(Undone::default()),
        done => done,
    }
}

impl Drop for Isolation {
    fn drop(&mut self) {
        if self.exists {
            let _ = undo(&self.name);
        }
    }
}
