//! Power policies by name, and the input of their construction.

use super::interface::PowerPolicy;
use super::platform::{Demander, Demands, Platform};
use super::spec::{Point, PowerSpec, Profile, Value};
use crate::model::System;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The argument about demands that disagree.
const ON_CONFLICT: &str = "on_conflict";

/// Why a power policy cannot be used here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The policy is about windows, and the system has none.
    NeedsWindows,
    /// The policy chooses frequencies, and none is known.
    NoFrequencies,
    /// A policy needs an argument that was not given.
    Missing(&'static str),
    /// There is no thermal zone of this name or number.
    UnknownZone(String),
    /// The number of frequencies in the arguments is not that of the domains, times so many.
    Points {
        /// How many were given.
        given: usize,
        /// How many there must be.
        wanted: usize,
    },
    /// A domain has no frequency with this index.
    NoSuchIndex {
        /// The domain.
        domain: usize,
        /// The index.
        index: u32,
    },
    /// A domain does not have this frequency.
    NotAvailable {
        /// The domain.
        domain: usize,
        /// The frequency in kilohertz.
        khz: u32,
        /// The part of the workload, or the argument, that asks for it.
        by: Demander,
    },
    /// Two that can run at the same time ask for different frequencies of one domain.
    Conflict {
        /// The domain.
        domain: usize,
        /// The one, and its frequency in kilohertz.
        first: (Demander, u32),
        /// The other one.
        second: (Demander, u32),
    },
    /// Another reason.
    Unsuitable(&'static str),
}

/// The input of the construction of a power policy.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The whole system.
    pub system: &'a System,
    /// The machine.
    pub platform: &'a Platform,
    /// The frequencies that slices and processes ask for.
    pub demands: &'a Demands,
    /// The policy with its arguments.
    pub spec: &'a PowerSpec,
}

impl Build<'_> {
    /// The index of the thermal zone that an argument names. O(zones).
    ///
    /// # Errors
    /// When the argument is missing, or there is no such zone.
    pub fn zone(&self, name: &'static str) -> Result<u16, Fault> {
        let Some(Value::Zone(text)) = self.spec.value(name) else { return Err(Fault::Missing(name)) };
        let named = self.platform.zones.iter().position(|zone| zone == text);
        let numbered = || text.parse::<usize>().ok().filter(|zone| *zone < self.platform.zones.len());
        let zone = named.or_else(numbered).and_then(|zone| u16::try_from(zone).ok());
        zone.ok_or_else(|| Fault::UnknownZone(text.clone()))
    }

    /// A number that must be given. O(arguments).
    ///
    /// # Errors
    /// When the argument is missing.
    pub fn number(&self, name: &'static str) -> Result<i64, Fault> {
        match self.spec.value(name) {
            Some(Value::Number(number)) => Ok(*number),
            _ => Err(Fault::Missing(name)),
        }
    }

    /// The indexes of the frequencies that an argument names, `each` of them for each domain. O(domains × log frequencies).
    ///
    /// # Errors
    /// When the argument is missing, has another number of frequencies, or names one that a domain does not have.
    pub fn points(&self, name: &'static str, each: usize) -> Result<Vec<u16>, Fault> {
        let Some(Value::Points(points)) = self.spec.value(name) else { return Err(Fault::Missing(name)) };
        let wanted = each * self.platform.domains.len();
        if points.len() != wanted {
            return Err(Fault::Points { given: points.len(), wanted });
        }
        let index = |(nth, point): (usize, &Point)| {
            let domain = nth / each;
            let known = &self.platform.domains[domain];
            let index = match *point {
                Point::Index(index) if (index as usize) < known.points.len() => index as usize,
                Point::Index(index) => return Err(Fault::NoSuchIndex { domain, index }),
                Point::Khz(khz) => {
                    known.index(khz).ok_or(Fault::NotAvailable { domain, khz, by: Demander::Argument })?
                }
            };
            Ok(index as u16)
        };
        points.iter().enumerate().map(index).collect()
    }

    /// The index of the frequency that a demand asks for. O(log frequencies).
    ///
    /// # Errors
    /// When the domain does not have it.
    pub fn demanded(&self, domain: usize, khz: u32, by: Demander) -> Result<u16, Fault> {
        let index = self.platform.domains[domain].index(khz);
        index.map(|index| index as u16).ok_or(Fault::NotAvailable { domain, khz, by })
    }

    /// By window: the frequencies in kilohertz that its slices ask for, by domain. An argument `on_conflict` of the policy decides about slices that disagree.
    /// O(windows × slices × domains).
    ///
    /// # Errors
    /// A domain does not have a frequency, or slices of one domain disagree.
    pub fn slice_frequencies(&self) -> Result<Vec<Vec<(u16, u32)>>, Fault> {
        let takes_highest = self.spec.profile.parameters.iter().any(|parameter| parameter.name == ON_CONFLICT);
        let highest = takes_highest && self.spec.number(ON_CONFLICT, 0) == 1;
        let mut windows = Vec::with_capacity(self.system.windows.len());
        let mut wanted: Vec<Option<(Demander, u32)>> = vec![None; self.platform.domains.len()];
        for (w, window) in self.system.windows.iter().enumerate() {
            wanted.fill(None);
            for (s, slice) in window.slices.iter().enumerate() {
                let Some(khz) = self.demands.slice(w, s) else { continue };
                let by = Demander::Slice(w, s);
                for (domain, of) in self.platform.domains.iter().enumerate() {
                    if of.cpus.is_disjoint(&slice.cpus) {
                        continue;
                    }
                    self.demanded(domain, khz, by)?;
                    match &mut wanted[domain] {
                        Some((first, other)) if *other != khz && !highest => {
                            return Err(Fault::Conflict { domain, first: (*first, *other), second: (by, khz) });
                        }
                        Some((_, other)) if *other >= khz => {}
                        entry => *entry = Some((by, khz)),
                    }
                }
            }
            let domains = wanted.iter().enumerate();
            windows.push(domains.filter_map(|(domain, wanted)| Some((domain as u16, (*wanted)?.1))).collect());
        }
        Ok(windows)
    }

    /// Builds the policy.
    ///
    /// # Errors
    /// When the policy cannot be used for this system on this machine.
    pub fn policy(&self, registry: &Registry) -> Result<Box<dyn PowerPolicy>, Fault> {
        let entry = registry.entry(self.spec.profile.name);
        let entry = entry.ok_or(Fault::Unsuitable("the registry does not hold this power policy"))?;
        let uses = &entry.profile.uses;
        if uses.windows && self.system.windows.is_empty() {
            return Err(Fault::NeedsWindows);
        }
        if uses.frequencies && self.platform.domains.is_empty() {
            return Err(Fault::NoFrequencies);
        }
        (entry.build)(self)
    }
}

/// One power policy of a registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name and its arguments.
    pub profile: Profile,
    /// Its manual page, in Markdown; empty without the feature `manuals`.
    pub manual: &'static str,
    /// Builds it.
    pub build: fn(&Build<'_>) -> Result<Box<dyn PowerPolicy>, Fault>,
}

/// Power policies by name. A copy costs O(policies added).
#[derive(Clone, Debug)]
pub struct Registry {
    listed: &'static [&'static Entry],
    added: Vec<&'static Entry>,
}

impl Registry {
    /// A registry of these policies.
    #[must_use]
    pub const fn of(listed: &'static [&'static Entry]) -> Registry {
        Registry { listed, added: Vec::new() }
    }

    /// The registry with one more policy, which replaces one of the same name.
    #[must_use]
    pub fn with(mut self, entry: &'static Entry) -> Registry {
        self.added.retain(|known| known.profile.name != entry.profile.name);
        self.added.push(entry);
        self
    }

    /// All policies, in the order of the list; added ones come last.
    pub fn entries(&self) -> impl Iterator<Item = &'static Entry> + use<'_> {
        let replaced = |entry: &&'static Entry| self.added.iter().all(|added| added.profile.name != entry.profile.name);
        self.listed.iter().copied().filter(replaced).chain(self.added.iter().copied())
    }

    /// The policy of this name, in any case of its letters, or the one that DEmOS calls so. O(policies).
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&'static Entry> {
        self.entries().find(|entry| entry.profile.is_called(name))
    }
}
