//! The registry: policies by name, and what they are built from.

use super::interface::Policy;
use crate::model::{Invalid, PolicySpec, Profile, System, TaskId};
use crate::record::Place;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// One policy of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, its settings and the facts on which its results depend.
    pub profile: Profile,
    /// Its manual page, in Markdown; empty without the feature `manuals`.
    pub manual: &'static str,
    /// Builds it.
    pub build: fn(&Build<'_>) -> Result<Box<dyn Policy>, Invalid>,
}

/// Policies by name. A copy costs O(policies added).
#[derive(Clone, Debug, Default)]
pub struct Registry {
    listed: &'static [&'static Entry],
    added: Vec<&'static Entry>,
    /// Finds policies that this process has loaded since.
    #[cfg(feature = "remote")]
    loaded: Option<fn(&str) -> Option<&'static Entry>>,
}

impl Registry {
    /// A registry of these policies.
    #[must_use]
    pub const fn of(listed: &'static [&'static Entry]) -> Registry {
        Registry {
            listed,
            added: Vec::new(),
            #[cfg(feature = "remote")]
            loaded: None,
        }
    }

    /// The registry with one more policy, which replaces one of the same name. `Box::leak` gives an entry that is made at run time
    /// the lifetime that it needs.
    #[must_use]
    pub fn with(mut self, entry: &'static Entry) -> Registry {
        debug_assert!(
            entry.profile.name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)),
            "the name of a policy has letters, digits and hyphens"
        );
        self.added.retain(|e| e.profile.name != entry.profile.name);
        self.added.push(entry);
        self
    }

    /// The registry with the policies that `find` knows by their plain names. They are not listed ([`Registry::entries`]).
    #[cfg(feature = "remote")]
    #[must_use]
    pub fn with_loaded(mut self, find: fn(&str) -> Option<&'static Entry>) -> Registry {
        self.loaded = Some(find);
        self
    }

    /// All policies, in the order of the list; added ones come last.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry> + use<'_> {
        let replaced = |e: &&'static Entry| self.added.iter().all(|a| a.profile.name != e.profile.name);
        self.listed.iter().copied().filter(replaced).chain(self.added.iter().copied())
    }

    /// The policy of this plain name. O(policies).
    #[must_use]
    pub fn entry(&self, plain: &str) -> Option<&'static Entry> {
        let found = |entries: &[&'static Entry]| entries.iter().copied().find(|e| e.profile.name == plain);
        let known = found(&self.added).or_else(|| found(self.listed));
        #[cfg(feature = "remote")]
        let known = known.or_else(|| self.loaded.and_then(|find| find(plain)));
        known
    }

    /// Looks up a name such as `edf`, `g-edf` or `p-rm`. Settings are not part of it. O(policies).
    #[must_use]
    pub fn spec(&self, name: &str) -> Option<PolicySpec> {
        if let Some(entry) = self.entry(name) {
            return Some(PolicySpec::new(&entry.profile, entry.profile.plain_scope()));
        }
        let (prefix, plain) = name.split_once('-')?;
        let profile = &self.entry(plain)?.profile;
        let specs = profile.scopes.iter().map(|scope| PolicySpec::new(profile, *scope));
        specs.into_iter().find(|spec| spec.prefix().strip_suffix('-') == Some(prefix))
    }

    /// All names that [`Registry::spec`] knows, each as its prefix and its plain name.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<'_> {
        let forms = |e: &'static Entry| {
            e.profile.scopes.iter().map(|scope| (PolicySpec::new(&e.profile, *scope).prefix(), e.profile.name))
        };
        self.entries().flat_map(forms)
    }
}

/// The parts from which a policy is built.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The whole system.
    pub system: &'a System,
    /// The tasks that it schedules: all, or those of one partition.
    pub tasks: &'a [TaskId],
    /// The single-CPU places that it may ever be lent.
    pub places: &'a [Place],
    /// Scope and placement.
    pub spec: PolicySpec,
    /// Number of the first timer that it may use.
    pub first_timer: u16,
    /// The policies that it may host.
    pub registry: &'a Registry,
}

impl Build<'_> {
    /// Calls `use_it` with what the policy of the whole system is built from: all tasks, and all CPUs.
    pub fn whole<T>(system: &System, registry: &Registry, use_it: impl FnOnce(&Build<'_>) -> T) -> T {
        let all = (0..system.tasks.len()).map(|i| TaskId(i as u32));
        let tasks: Vec<TaskId> = all.filter(|task| !system.is_removed(*task)).collect();
        let places: Vec<Place> = (0..system.cpus.len()).map(|i| Place(i as u16)).collect();
        use_it(&Build { system, tasks: &tasks, places: &places, spec: system.policy, first_timer: 0, registry })
    }

    /// Builds the policy. What it costs beside is O(settings + tasks).
    ///
    /// # Errors
    /// When the registry does not hold the policy, a setting is out of its range, a task lacks what the policy needs of each ([`Profile::needs`](crate::model::Profile::needs)), the policy cannot
    /// schedule the system, or there are not enough numbers for its timers.
    pub fn policy(&self) -> Result<Box<dyn Policy>, Invalid> {
        let profile = self.spec.profile;
        let entry = self.registry.entry(profile.name).filter(|entry| core::ptr::eq(&raw const entry.profile, profile));
        let entry = entry.ok_or(Invalid::Unsuitable("the registry does not hold this policy"))?;
        self.spec.check_values()?;
        for &id in self.tasks {
            let task = &self.system.tasks[id.index()];
            if let Some(key) = profile.needs.iter().find_map(|need| need.lacking(task)) {
                return Err(Invalid::Needs(id, key));
            }
        }
        let policy = (entry.build)(self)?;
        // Policies that host others add up what each of them needs.
        match self.first_timer.checked_add(policy.timers()) {
            Some(_) => Ok(policy),
            None => Err(Invalid::Unsuitable("the policies of all parts together need more than 65535 timers")),
        }
    }

    /// For policies whose servers have their deadlines at the ends of their periods.
    ///
    /// # Errors
    /// The first task whose reservation says another one.
    pub(crate) fn knows_whole_periods(&self) -> Result<(), Invalid> {
        let own = |task: &&TaskId| self.system.tasks[task.index()].reservation.is_some_and(|r| r.deadline.is_some());
        self.tasks.iter().find(own).map_or(Ok(()), |task| Err(Invalid::Constrained(*task)))
    }

    /// The number of the policy's timer `index`. There is none past the last number, which [`Build::policy`] finds when the policy
    /// is built.
    pub(crate) fn timer(&self, index: usize) -> u16 {
        self.first_timer.wrapping_add(index as u16)
    }
}
