//! Physical quantities of a machine, with their units.

/// A physical quantity, which a file writes as a number with a unit.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Its name in messages.
    pub(crate) called: &'static str,
    /// Its units, each with the number of the smallest unit.
    pub(crate) units: &'static [(&'static str, i64)],
    /// A value.
    pub(crate) example: &'static str,
}

/// Counted in nanowatts.
pub(crate) const POWER: Quantity =
    Quantity { called: "power", units: &[("uW", 1_000), ("mW", 1_000_000), ("W", 1_000_000_000)], example: "1.5W" };
/// Counted in femtofarads.
pub(crate) const CAPACITANCE: Quantity =
    Quantity { called: "capacitance", units: &[("pF", 1_000), ("nF", 1_000_000)], example: "100pF" };
/// Counted in microvolts.
pub(crate) const VOLTAGE: Quantity =
    Quantity { called: "voltage", units: &[("uV", 1), ("mV", 1_000), ("V", 1_000_000)], example: "0.9V" };
/// Counted in nanoamperes.
pub(crate) const CURRENT: Quantity =
    Quantity { called: "current", units: &[("uA", 1_000), ("mA", 1_000_000)], example: "5mA" };
/// Counted in millijoules per kelvin.
pub(crate) const CAPACITY: Quantity =
    Quantity { called: "heat capacity", units: &[("mJ/K", 1), ("J/K", 1_000)], example: "4J/K" };
/// Counted in millikelvins per watt.
pub(crate) const RESISTANCE: Quantity =
    Quantity { called: "thermal resistance", units: &[("K/W", 1_000)], example: "7.5K/W" };

impl Quantity {
    /// The names of its units.
    pub fn unit_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.units.iter().map(|(name, _)| *name)
    }
}
