//! The policies that names in files and on the command line stand for.

use std::sync::OnceLock;
use takt_core::policy::Registry;

static KNOWN: OnceLock<Registry> = OnceLock::new();

/// The policies that this process knows by name: those that were handed to [`know`], or else Takt's own.
pub fn registry() -> &'static Registry {
    KNOWN.get_or_init(Registry::standard)
}

/// Names stand for the policies of this registry from now on. A program that has other policies than Takt's calls it first of all, since
/// whoever parses an argument has no place to hand a registry to.
///
/// # Errors
/// The registry, if names have been looked up already, or another one was handed in.
pub fn know(registry: Registry) -> Result<(), Registry> {
    KNOWN.set(registry)
}
