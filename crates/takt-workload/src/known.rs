//! The policies that names in files and on the command line stand for.

use std::sync::OnceLock;
use takt_core::policy::Registry;
use takt_core::power;

static KNOWN: OnceLock<Registry> = OnceLock::new();
static POWER: OnceLock<power::Registry> = OnceLock::new();

/// The power policies that this process knows by name: the ones given to [`know_power`], or else Takt's own.
pub fn power_registry() -> &'static power::Registry {
    POWER.get_or_init(power::Registry::standard)
}

/// Names of power policies stand for those of this registry from now on, as with [`know`].
///
/// # Errors
/// The registry, if names have been looked up already, or another one was handed in.
pub fn know_power(registry: power::Registry) -> Result<(), power::Registry> {
    POWER.set(registry)
}

/// The policies that this process knows by name: those that were handed to [`know`], or else Takt's own.
pub fn registry() -> &'static Registry {
    KNOWN.get_or_init(Registry::standard)
}

/// Names stand for the policies of this registry from now on. A program that has other policies than Takt's calls it first of all, since
/// a parser of an argument has no parameter for a registry.
///
/// # Errors
/// The registry, if names have been looked up already, or another one was handed in.
pub fn know(registry: Registry) -> Result<(), Registry> {
    KNOWN.set(registry)
}
