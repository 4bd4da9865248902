//! Settings that a run changes at will, in the journals of its user.

use super::change::Isolator;
use super::machine::Linux;
use crate::life::Outlasts;
use crate::run_id::RunId;
use std::io;

/// Undoes isolations of dead runs and unfinished ones, and restores settings of dead runs, as far as this user has changed them.
pub(crate) fn recover() -> io::Result<()> {
    let mut result = Ok(());
    for linux in Linux::journals() {
        let recovered = linux.and_then(|linux| {
            Isolator::new(linux).and_then(|mut isolator| isolator.recover()).map_err(io::Error::other)
        });
        result = result.and(recovered.map(drop));
    }
    result
}

/// Notes the values of settings, by their files, which a run of this user is about to change at will ([`super::named`]). The order is that of the restoration.
pub(crate) fn hold(run: &RunId, paths: &[String]) -> io::Result<()> {
    // Only the death of the run lets others restore the settings.
    run.outlast(Outlasts::Settings)?;
    if !rustix::process::geteuid().is_root() {
        // Root's journal can be read, and not written.
        let others = Isolator::new(Linux::look()).map_err(io::Error::other)?;
        if let Some(name) = others.owner_of(paths) {
            return Err(io::Error::other(format!("the isolation `{name}` has set them (`takt isolate status`)")));
        }
    }
    Isolator::new(Linux::of_user()?).and_then(|mut isolator| isolator.hold(run, paths)).map_err(io::Error::other)
}

/// Restores the settings of a run, which writes no more. Returns the number of settings that had another value.
pub(crate) fn release(run: &RunId) -> io::Result<usize> {
    let (mut result, mut restored) = (Ok(()), 0);
    for linux in Linux::journals() {
        let released = linux.and_then(|linux| {
            Isolator::new(linux).and_then(|mut isolator| isolator.release(run)).map_err(io::Error::other)
        });
        match released {
            Ok(settings) => restored += settings,
            Err(e) => result = result.and(Err(e)),
        }
    }
    result.map(|()| {
        run.settle(Outlasts::Settings);
        restored
    })
}

/// The runs with settings in journals of this user, with the number of these settings. Waits for no other process.
pub(crate) fn holders() -> Vec<(RunId, usize)> {
    let isolators = Linux::looks().filter_map(|linux| Isolator::new(linux).ok());
    isolators.flat_map(|isolator| isolator.holders()).collect()
}
