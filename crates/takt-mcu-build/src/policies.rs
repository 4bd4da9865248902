//! The policies for one CPU, with the paths by which a program names them.

use takt_core::policies as p;
use takt_core::policy::Entry;

macro_rules! paths {
    ($($name:literal $($part:ident)::+;)*) => {
        /// The policy's name, its path below `takt_core::policies`, and itself.
        pub(crate) static PATHS: &[(&str, &str, &Entry)] = &[$(($name, stringify!($($part)::+), &p::$($part)::+)),*];
    };
}

paths! {
    "fifo" fifo::ENTRY;
    "rr" rr::ENTRY;
    "fp" fp::ENTRY;
    "rm" rm::ENTRY;
    "dm" dm::ENTRY;
    "edf" edf::ONE_QUEUE;
    "np-edf" np_edf::ENTRY;
    "llf" llf::ENTRY;
    "ipi" ipi::ENTRY;
    "cbs" reservation::cbs::ENTRY;
    "fcbs" reservation::fcbs::ENTRY;
    "grub" reservation::grub::ENTRY;
    "polling-server" aperiodic::polling_server::ENTRY;
    "periodic-server" aperiodic::periodic_server::ENTRY;
    "deferrable-server" aperiodic::deferrable_server::ENTRY;
    "sporadic-server" aperiodic::sporadic_server::ENTRY;
    "hvdf" hvdf::ENTRY;
    "np-hvdf" np_hvdf::ENTRY;
    "lbesa" lbesa::ENTRY;
    "dasa-nd" dasa_nd::ENTRY;
    "dasa" dasa::ENTRY;
    "gus" gus::ENTRY;
}

/// The path of a policy's entry, and the entry; `None` for a policy that is not for one CPU.
pub(crate) fn path(name: &str) -> Option<(String, &'static Entry)> {
    let (_, path, entry) = PATHS.iter().find(|(known, ..)| *known == name)?;
    Some((path.replace(' ', ""), *entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::model::Scope;
    use takt_core::registry::REGISTRY;

    #[test]
    fn every_policy_for_one_cpu_has_its_path() {
        let one_cpu: Vec<&str> = REGISTRY
            .iter()
            .filter(|entry| entry.profile.scopes.contains(&Scope::Uniprocessor))
            .map(|entry| entry.profile.name)
            .collect();
        let known: Vec<&str> = PATHS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(known, one_cpu);
        assert!(PATHS.iter().all(|(name, _, entry)| entry.profile.name == *name));
    }
}
