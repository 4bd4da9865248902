//! Kinds of measured values.

/// The kind of a measured value, with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A frequency in kHz.
    Frequency,
    /// A temperature in thousandths of a degree Celsius.
    Temperature,
    /// Energy since the start, in µJ.
    Energy,
    /// Time at a frequency since the start, in ms.
    Time,
}

/// Each with its word in text formats, its title, and its unit.
const QUANTITIES: [(Quantity, &str, &str, &str); 4] = [
    (Quantity::Frequency, "frequency_khz", "frequency", "kHz"),
    (Quantity::Temperature, "temperature_millidegrees", "temperature", "m°C"),
    (Quantity::Energy, "energy_uj", "energy", "uJ"),
    (Quantity::Time, "time_ms", "time", "ms"),
];

impl Quantity {
    fn row(self) -> &'static (Quantity, &'static str, &'static str, &'static str) {
        &QUANTITIES[self as usize]
    }
    /// Its word in text formats, with its unit: `frequency_khz`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }
    pub(crate) fn from_name(name: &str) -> Option<Quantity> {
        QUANTITIES.iter().find(|row| row.1 == name).map(|row| row.0)
    }
    /// Its title for people.
    pub(crate) fn title(self) -> &'static str {
        self.row().2
    }
    pub(crate) fn unit(self) -> &'static str {
        self.row().3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quantity_is_read_by_its_word() {
        for (quantity, name, ..) in QUANTITIES {
            assert_eq!((quantity.name(), Quantity::from_name(name)), (name, Some(quantity)));
        }
        assert_eq!(Quantity::from_name("frequency"), None);
    }
}
