//! The policies of Takt. This file alone knows them all.

use crate::engine::Engine;
use crate::model::{Invalid, PolicySpec, System};
use crate::policies;
use crate::policy::{Entry, Registry};

/// Every policy of Takt; the steps to add one are in ARCHITECTURE.md. The command line, the documentation, the
/// conformance tests and the benches walk this slice.
pub static REGISTRY: &[&Entry] = &[
    &policies::windows::ENTRY,
    &policies::domains::ENTRY,
    &policies::fifo::ENTRY,
    &policies::rr::ENTRY,
    &policies::fp::ENTRY,
    &policies::rm::ENTRY,
    &policies::dm::ENTRY,
    &policies::edf::ENTRY,
    &policies::np_edf::ENTRY,
    &policies::llf::ENTRY,
    &policies::llref::ENTRY,
    &policies::pd2::ENTRY,
    &policies::ipi::ENTRY,
    &policies::split::edf_wm::ENTRY,
    &policies::split::edf_cd::ENTRY,
    &policies::reservation::cbs::ENTRY,
    &policies::reservation::fcbs::ENTRY,
    &policies::reservation::grub::ENTRY,
    &policies::reservation::edf_wmr::ENTRY,
    &policies::aperiodic::polling_server::ENTRY,
    &policies::aperiodic::periodic_server::ENTRY,
    &policies::aperiodic::deferrable_server::ENTRY,
    &policies::aperiodic::sporadic_server::ENTRY,
    &policies::hvdf::ENTRY,
    &policies::np_hvdf::ENTRY,
    &policies::lbesa::ENTRY,
    &policies::dasa_nd::ENTRY,
    &policies::dasa::ENTRY,
    &policies::gus::ENTRY,
    &policies::gmua::ENTRY,
    &policies::ng_gua::ENTRY,
    &policies::g_gua::ENTRY,
];

impl Registry {
    /// The registry of Takt's own policies.
    #[must_use]
    pub const fn standard() -> Registry {
        Registry::of(REGISTRY)
    }
}

impl PolicySpec {
    /// Looks up one of Takt's own policies ([`Registry::spec`]).
    #[must_use]
    pub fn from_name(name: &str) -> Option<PolicySpec> {
        Registry::standard().spec(name)
    }
}

impl Engine {
    /// An engine under one of Takt's own policies ([`Engine::with_registry`]).
    ///
    /// # Errors
    /// Those of [`Engine::with_registry`].
    pub fn new(system: System) -> Result<Engine, Invalid> {
        Engine::with_registry(system, Registry::standard())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Fact, Profile};
    use crate::time::Span;

    #[test]
    fn facts_are_about_settings_of_their_policies() {
        let named = |entry: &Profile, name: &str, value: i64| {
            let setting = entry.settings.iter().find(|s| s.name == name).expect("the setting of a fact");
            assert!(setting.kind.takes(value), "{}: {name}", entry.name);
        };
        let (mut grids, mut ranking) = (0, 0);
        for Entry { profile: entry, .. } in REGISTRY {
            for fact in entry.facts {
                match *fact {
                    Fact::Grid { setting, default } => {
                        named(entry, setting, default.ns());
                        grids += 1;
                    }
                    Fact::Priorities { when } => {
                        when.into_iter().for_each(|(setting, value)| named(entry, setting, value));
                        ranking += 1;
                    }
                }
            }
        }
        assert!(grids > 0 && ranking > 0);
    }

    #[test]
    fn facts_follow_the_settings() {
        let mut pd2 = PolicySpec::from_name("pd2").unwrap();
        assert_eq!(pd2.grid(), Some(Span::from_ms(1)));
        pd2.values[0] = Some(100_000);
        assert_eq!((pd2.grid(), pd2.ranks_by_priority()), (Some(Span::from_us(100)), false));
        let mut server = PolicySpec::from_name("sporadic-server").unwrap();
        assert!(!server.ranks_by_priority());
        server.values[0] = Some(1);
        assert!(server.ranks_by_priority() && PolicySpec::from_name("p-fp").unwrap().ranks_by_priority());
        assert_eq!(PolicySpec::from_name("llref").unwrap().grid(), None);
    }
}
