//! Names and arguments of power policies.

use crate::time::Span;
use alloc::string::String;
use alloc::vec::Vec;

/// The kind of value of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A thermal zone, by its name or its number.
    Zone,
    /// A temperature in thousandths of a degree Celsius, between two bounds.
    Temperature(i32, i32),
    /// A difference of temperatures in thousandths of a degree, between two bounds.
    Difference(i32, i32),
    /// So many frequencies for each frequency domain, in the order of the domains. Such an argument is the only one.
    Points(usize),
    /// A duration between two bounds.
    Duration(Span, Span),
    /// A whole number between two bounds.
    Count(i64, i64),
    /// One of these words, as its index.
    Choice(&'static [&'static str]),
}

/// An argument of a power policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: Kind,
    /// Its default in words; `None` where it must be given.
    pub default: Option<&'static str>,
    /// One line about it.
    pub summary: &'static str,
}

/// The parts of a workload that a power policy uses.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Uses {
    /// The key `frequency` of slices.
    pub slices: bool,
    /// The key `frequency` of processes.
    pub processes: bool,
    /// Budgets of safety-critical processes: they are work at nominal speed, and last longer at lower frequencies.
    pub budgets: bool,
    /// It is about windows, so that there must be some.
    pub windows: bool,
    /// It changes frequencies, so that there must be some to choose from.
    pub frequencies: bool,
    /// It limits the latency of idle states.
    pub latencies: bool,
}

/// Static facts about a power policy.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Other names, from DEmOS.
    pub aliases: &'static [&'static str],
    /// One line about it.
    pub summary: &'static str,
    /// Its arguments, in their order.
    pub parameters: &'static [Parameter],
    /// The parts of a workload that it uses.
    pub uses: Uses,
}

impl Profile {
    /// Whether the policy is called so, or was in DEmOS; in any case of its letters.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        core::iter::once(&self.name).chain(self.aliases).any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// A frequency of a domain, as an argument names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// By its index in ascending order.
    Index(u32),
    /// In kilohertz.
    Khz(u32),
}

/// The value of an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A thermal zone by its name, or its number in digits.
    Zone(String),
    /// Thousandths of a degree, nanoseconds, a count, or the index of a word.
    Number(i64),
    /// Frequencies.
    Points(Vec<Point>),
}

/// A power policy as a workload or the command line names it.
#[derive(Clone, Debug)]
pub struct PowerSpec {
    /// The policy.
    pub profile: &'static Profile,
    /// Its arguments, in the order of [`Profile::parameters`]; `None` is the default.
    pub values: Vec<Option<Value>>,
}

impl PartialEq for PowerSpec {
    fn eq(&self, other: &Self) -> bool {
        self.profile.name == other.profile.name && self.values == other.values
    }
}
impl Eq for PowerSpec {}

impl PowerSpec {
    /// The policy with the defaults of its arguments.
    #[must_use]
    pub fn new(profile: &'static Profile) -> PowerSpec {
        PowerSpec { profile, values: profile.parameters.iter().map(|_| None).collect() }
    }

    /// The value of an argument, if it was given. O(arguments).
    ///
    /// # Panics
    /// When the policy has no such argument: a fault of the program.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        let index = self.profile.parameters.iter().position(|parameter| parameter.name == name);
        self.values.get(index.expect("a policy asks for its own arguments"))?.as_ref()
    }

    /// The number of an argument, or else `default`. O(arguments).
    ///
    /// # Panics
    /// As [`PowerSpec::value`].
    #[must_use]
    pub fn number(&self, name: &str, default: i64) -> i64 {
        match self.value(name) {
            Some(Value::Number(number)) => *number,
            _ => default,
        }
    }
}
