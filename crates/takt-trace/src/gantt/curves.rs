//! Frequencies and temperatures as curves under a chart.

use super::xml::{escape, px};
use crate::timeline::{Sample, Timeline};
use crate::{MeterLabel, Quantity, Trace};
use std::fmt::Write;
use takt_core::time::Time;

/// Height of a curve's lane, and of the curve in it.
pub(super) const LANE: f64 = 40.0;
const HEIGHT: f64 = 28.0;
/// Points closer than this, in pixels, are drawn as one.
const FINEST: f64 = 0.6;
const FREQUENCY: &str = "#0072b2";
const TEMPERATURE: &str = "#d55e00";
const ENERGY: &str = "#009e73";

/// A curve with its unit.
pub(super) struct Curve {
    label: String,
    samples: Vec<(Time, i64)>,
    unit: &'static str,
    color: &'static str,
    /// The value holds until the next one.
    steps: bool,
}

/// The power between two readings of energy, in mW, from the end of the first to that of the second.
fn power(samples: &[(Time, i64)]) -> Vec<(Time, i64)> {
    let between = |pair: &[(Time, i64)]| {
        let [(from, before), (to, after)] = *pair else { return None };
        let ns = i128::from((to - from).ns());
        // Microjoules over nanoseconds are 10^6 mW.
        let mw = i128::from(after - before) * 1_000_000 / Some(ns).filter(|ns| *ns > 0)?;
        Some((from, i64::try_from(mw).ok()?))
    };
    samples.windows(2).filter_map(between).collect()
}

/// The curves of what the machine measured: frequencies, temperatures, and power from energy. O(samples × meters).
fn measured(trace: &Trace) -> impl Iterator<Item = Curve> {
    let curve = |(index, label): (u16, &MeterLabel)| {
        let own = trace.measured.iter().filter(|measured| measured.meter == index);
        let samples: Vec<(Time, i64)> = own.map(|measured| (measured.at, measured.value)).collect();
        let (unit, color, steps, samples) = match label.quantity {
            Quantity::Frequency => ("MHz", FREQUENCY, true, samples),
            Quantity::Temperature => ("°C", TEMPERATURE, false, samples),
            Quantity::Energy => ("W", ENERGY, true, power(&samples)),
            Quantity::Time => return None,
        };
        let what = if label.quantity == Quantity::Energy { " power" } else { "" };
        let label = format!("{}{what} (measured)", label.name);
        (!samples.is_empty()).then_some(Curve { label, samples, unit, color, steps })
    };
    (0..).zip(&trace.header.meters).filter_map(curve).collect::<Vec<_>>().into_iter()
}

/// The curves of a trace: frequency domains, thermal zones, and then what the machine measured. O(samples × meters).
pub(super) fn curves(trace: &Trace, line: &Timeline) -> Vec<Curve> {
    let header = &trace.header;
    let split = |samples: &[Sample], title: &dyn Fn(u16) -> String, unit, color, steps| {
        let mut indexes: Vec<u16> = samples.iter().map(|sample| sample.of).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let curve = |index: u16| Curve {
            label: title(index),
            samples: samples.iter().filter(|s| s.of == index).map(|s| (s.at, s.value)).collect(),
            unit,
            color,
            steps,
        };
        indexes.into_iter().map(curve).collect::<Vec<_>>()
    };
    let mut all = split(&line.frequencies, &|domain| header.frequency_domain(domain), "MHz", FREQUENCY, true);
    all.extend(split(&line.temperatures, &|zone| header.zone(zone), "°C", TEMPERATURE, false));
    all.extend(measured(trace));
    all
}

/// Thousandths as a decimal.
fn decimal(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let value = value.unsigned_abs();
    let text = format!("{sign}{}.{:03}", value / 1000, value % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Curve {
    /// How many letters its label has.
    pub(super) fn letters(&self) -> usize {
        self.label.chars().count()
    }

    /// Draws it at height `y`, with its label at `margin` and instants from `from` to `to` at `x` up to `right`.
    pub(super) fn draw(
        &self,
        (margin, y, right): (f64, f64, f64),
        (from, to): (Time, Time),
        x: &dyn Fn(Time) -> f64,
        out: &mut String,
    ) {
        let before = self.samples.iter().rev().find(|(at, _)| *at <= from).map(|(_, value)| (from, *value));
        let inside = self.samples.iter().copied().filter(|(at, _)| *at > from && *at <= to);
        let shown: Vec<(Time, i64)> = before.into_iter().chain(inside).collect();
        let values = || shown.iter().map(|(_, value)| *value);
        let (Some(low), Some(high)) = (values().min(), values().max()) else { return };
        let foot = y + HEIGHT;
        let height = |value: i64| match high - low {
            0 => foot - HEIGHT / 2.0,
            range => foot - (value - low) as f64 * HEIGHT / range as f64,
        };
        let mut path = String::new();
        let mut last = f64::NEG_INFINITY;
        for (n, (at, value)) in shown.iter().enumerate() {
            let at = x(*at);
            if at - last < FINEST && n + 1 < shown.len() {
                continue;
            }
            last = at;
            let (at, level) = (px(at), px(height(*value)));
            let _ = match (path.is_empty(), self.steps) {
                (true, _) => write!(path, "M{at} {level}"),
                (false, true) => write!(path, "H{at}V{level}"),
                (false, false) => write!(path, "L{at} {level}"),
            };
        }
        if self.steps {
            let _ = write!(path, "H{}", px(x(to)));
        }
        let label = escape(&self.label);
        let (unit, color) = (self.unit, self.color);
        let title = format!("{label}: {} to {} {unit}", decimal(low), decimal(high));
        let _ = writeln!(out, r#"<text x="{}" y="{}">{label}</text>"#, px(margin), px(y + 12.0));
        let range = if low == high { decimal(low) } else { format!("{} – {}", decimal(low), decimal(high)) };
        let _ = writeln!(out, r#"<text x="{}" y="{}" class="small">{range} {unit}</text>"#, px(margin), px(y + 26.0));
        let _ = writeln!(
            out,
            r#"<path d="{path}" fill="none" stroke="{color}" stroke-width="1.5"><title>{title}</title></path>"#
        );
        let _ = writeln!(out, r##"<path d="M{} {f}H{}" stroke="#ddd"/>"##, px(x(from)), px(right), f = px(foot + 3.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_the_slope_of_the_energy() {
        let at = |ms| Time::ZERO + takt_core::time::Span::from_ms(ms);
        // 3 J within two seconds are 1.5 W, and nothing more 0 W.
        let samples = [(at(0), 0), (at(2000), 3_000_000), (at(2000), 3_000_000), (at(2500), 3_000_000)];
        assert_eq!(power(&samples), [(at(0), 1500), (at(2000), 0)]);
    }

    #[test]
    fn a_curve_holds_its_value_until_the_next_one() {
        let at = |ns| Time::from_ns(ns);
        let samples = vec![(at(0), 600_000), (at(50), 1_200_000)];
        let curve = Curve { label: "a<b".into(), samples, unit: "MHz", color: FREQUENCY, steps: true };
        let mut out = String::new();
        let x = |t: Time| t.ns() as f64;
        curve.draw((0.0, 0.0, 100.0), (at(0), at(100)), &x, &mut out);
        assert!(out.contains(r#"d="M0 28H50V0H100""#) && out.contains("a&lt;b: 600 to 1200 MHz"), "{out}");
    }
}
