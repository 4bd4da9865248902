//! Modules that this process has loaded.

use crate::fault::Failed;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use takt_core::policy::Entry;

/// The setting that names the policy in place of a module that fails.
pub(crate) const FALLBACK: &str = "fallback";
/// The setting that bounds the instructions of an answer.
pub(crate) const FUEL: &str = "fuel";
/// Its default. An answer of EDF about ten tasks takes some thousands.
pub(crate) const DEFAULT_FUEL: i64 = 2_000_000;

/// A module that was loaded. It stays for the life of the process, as schedules refer to it.
pub struct Loaded {
    pub(crate) entry: Entry,
    pub(crate) sha256: String,
    pub(crate) path: PathBuf,
    pub(crate) engine: wasmi::Engine,
    pub(crate) module: wasmi::Module,
    /// Why the first of its policies that failed did.
    pub(crate) failed: OnceLock<Failed>,
}

impl Loaded {
    /// Its line in a registry. The name of the policy is that in the module and the beginning of the hash, as `edzl@0123456789ab`.
    #[must_use]
    pub fn entry(&'static self) -> &'static Entry {
        &self.entry
    }
    /// The SHA-256 of the file, in hexadecimal digits.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Why and when a policy of it was replaced by its fallback, if one was.
    #[must_use]
    pub fn failed(&self) -> Option<Failed> {
        self.failed.get().copied()
    }
}

static LOADED: Mutex<Vec<&'static Loaded>> = Mutex::new(Vec::new());

pub(crate) fn loaded() -> MutexGuard<'static, Vec<&'static Loaded>> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The policy of this plain name, if its module was loaded ([`with_loaded`](takt_core::policy::Registry::with_loaded)).
#[must_use]
pub fn entry(plain: &str) -> Option<&'static Entry> {
    find(plain).map(Loaded::entry)
}

/// The module of the policy of this plain name.
#[must_use]
pub fn find(plain: &str) -> Option<&'static Loaded> {
    // All names of loaded policies have it.
    plain.contains('@').then(|| loaded().iter().copied().find(|module| module.entry.profile.name == plain))?
}

/// All modules that this process has loaded, in this order.
#[must_use]
pub fn all() -> Vec<&'static Loaded> {
    loaded().clone()
}
