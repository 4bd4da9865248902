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
    use crate::model::{Arrival, CpuTest, Fact, Kind, Need, Order, Profile, Reservations, Scope, Servers, Task, When};
    use crate::time::Span;
    use alloc::boxed::Box;
    use alloc::format;
    use alloc::vec::Vec;

    /// A setting has the value, and another one by default.
    fn takes(profile: &Profile, (name, value): (&str, i64)) {
        let setting = profile.settings.iter().find(|s| s.name == name).expect("the setting of a fact");
        assert!(setting.kind.takes(value), "{}: {name}", profile.name);
        let is_default = matches!(setting.kind, Kind::Choice(words) if setting.default == words[value as usize]);
        assert!(!is_default, "{}: a setting that is not set has no value for {name}", profile.name);
    }

    fn holds_with(profile: &Profile, when: When) {
        if let When::Is(setting, value) | When::IsNot(setting, value) = when {
            takes(profile, (setting, value));
        }
    }

    #[test]
    fn facts_are_about_settings_of_their_policies() {
        for Entry { profile, .. } in REGISTRY {
            for fact in profile.facts {
                match *fact {
                    Fact::Grid { setting, default } => {
                        let setting = profile.settings.iter().find(|s| s.name == setting).expect("the quantum");
                        assert!(setting.kind.takes(default.ns()));
                    }
                    Fact::WorkConserving(when) | Fact::UnderloadEdf { when, .. } => holds_with(profile, when),
                    Fact::Reservations(Reservations { hard, .. }) => holds_with(profile, hard),
                    Fact::Servers(Servers { ranked_by: (name, orders), premature, background, .. }) => {
                        let setting = profile.settings.iter().find(|s| s.name == name).expect("the ranking");
                        assert!(matches!(setting.kind, Kind::Choice(words) if words.len() == orders.len()));
                        holds_with(profile, premature);
                        holds_with(profile, background);
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn no_policy_states_a_fact_twice() {
        for Entry { profile, .. } in REGISTRY {
            let mut kinds: Vec<_> = profile.facts.iter().map(core::mem::discriminant).collect();
            while let Some(kind) = kinds.pop() {
                assert!(!kinds.contains(&kind), "{}", profile.name);
            }
        }
    }

    /// Each policy is in exactly one class, so that one reader does not contradict another.
    #[test]
    fn every_policy_has_one_class() {
        for (prefix, name) in Registry::standard().names() {
            let spec = PolicySpec::from_name(&format!("{prefix}{name}")).expect("it is a name");
            let accrues = spec.profile.needs.contains(&Need::Utility) && spec.order().is_none();
            let classes = [
                spec.order().is_some(),
                accrues,
                spec.is_optimal(),
                spec.gives_shares(),
                spec.reservations().is_some(),
                spec.servers().is_some(),
                spec.splits().is_some() && spec.reservations().is_none(),
                spec.hosts().is_some(),
            ];
            assert_eq!(classes.iter().filter(|class| **class).count(), 1, "{prefix}{name}: {classes:?}");
            assert_eq!(spec.hosts().is_some(), spec.scope == Scope::Table, "{prefix}{name}");
            assert_eq!(
                spec.reservations().is_some(),
                spec.profile.needs.contains(&Need::Reservation),
                "{prefix}{name}"
            );
        }
    }

    /// The exact test of one CPU ranks tasks as the policy ranks their jobs.
    #[test]
    fn fixed_priorities_are_those_of_the_order() {
        let (period, deadline) = (Span::from_ms(7), Span::from_ms(5));
        let arrival = Arrival::Periodic { offset: Span::ZERO, period };
        let task = Task { arrival, deadline: Some(deadline), priority: 3, ..Task::default() };
        for Entry { profile, .. } in REGISTRY {
            let spec = PolicySpec::new(profile, profile.scopes[0]);
            let expected = match spec.order() {
                Some(Order::Period) => Some(period.ns()),
                Some(Order::RelativeDeadline) => Some(deadline.ns()),
                Some(Order::Priority) => Some(-3),
                _ => None,
            };
            let rank = match profile.test {
                CpuTest::ResponseTimes(rank) => Some(rank(&spec, &task)),
                CpuTest::Utilisation | CpuTest::Demand => None,
            };
            assert_eq!(rank, expected, "{}", profile.name);
        }
    }

    #[test]
    fn unstated_facts_are_unknown() {
        let silent = Profile { facts: &[], ..REGISTRY[0].profile };
        let silent = PolicySpec::new(Box::leak(Box::new(silent)), Scope::Global);
        assert_eq!((silent.order(), silent.server_order(), silent.grid()), (None, None, None));
        assert!(!silent.is_work_conserving() && !silent.is_underload_edf(false) && !silent.is_optimal());
        assert!(silent.reservations().is_none() && silent.servers().is_none() && silent.splits().is_none());
    }

    #[test]
    fn facts_follow_the_settings() {
        let mut pd2 = PolicySpec::from_name("pd2").unwrap();
        assert_eq!(pd2.grid(), Some(Span::from_ms(1)));
        pd2.values.set(0, Some(100_000));
        assert_eq!((pd2.grid(), pd2.ranks_by_priority()), (Some(Span::from_us(100)), false));
        let mut server = PolicySpec::from_name("sporadic-server").unwrap();
        assert_eq!((server.server_order(), server.is_work_conserving()), (Some(Order::Period), false));
        (0..2).for_each(|index| server.values.set(index, Some(1)));
        assert_eq!((server.server_order(), server.is_work_conserving()), (Some(Order::Priority), true));
        assert!(server.ranks_by_priority() && PolicySpec::from_name("p-fp").unwrap().ranks_by_priority());
        assert_eq!(PolicySpec::from_name("llref").unwrap().grid(), None);
        let mut cbs = PolicySpec::from_name("cbs").unwrap();
        assert!(cbs.is_work_conserving());
        cbs.values.set(0, Some(1));
        assert!(!cbs.is_work_conserving() && cbs.holds(cbs.reservations().unwrap().hard));
        let mut ng_gua = PolicySpec::from_name("ng-gua").unwrap();
        assert!(ng_gua.is_underload_edf(true));
        ng_gua.values.set(0, Some(1));
        assert!(!ng_gua.is_underload_edf(false));
        assert!(PolicySpec::from_name("p-edf").unwrap().is_edf() && !PolicySpec::from_name("np-edf").unwrap().is_edf());
    }
}
