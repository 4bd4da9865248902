//! The settings from before a run, in the journal of all settings that Takt changes ([`crate::isolate`]).
//!
//! They are noted before the first change, and restored by the run at its end, by its watcher when the run has died, and by `takt doctor --clean` when both
//! have. A setting that an isolation has, too, then gets the value of that.

use super::root::Root;
use crate::isolate;
use crate::run_id::RunId;
use std::io;

/// Settings of a run, until they are restored.
#[derive(Debug)]
pub(super) struct Held(RunId);

impl Held {
    /// Notes the present values of files, in the order in which they are to be restored.
    ///
    /// # Errors
    /// A file cannot be read, an isolation of another user has it, or there is no room for the journal.
    pub(super) fn note(run: &RunId, root: &Root, paths: &[String]) -> io::Result<Held> {
        let paths: Vec<String> = paths.iter().map(|path| isolate::named(root, path)).collect();
        isolate::hold(run, &paths).map(|()| Held(*run))
    }

    /// Restores the values. It can be repeated.
    ///
    /// # Errors
    /// The first value that the kernel refused, after all were tried.
    pub(super) fn restore(&self) -> io::Result<()> {
        isolate::release(&self.0).map(drop)
    }
}
