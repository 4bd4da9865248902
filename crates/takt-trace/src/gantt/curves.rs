//! Frequencies and temperatures as curves under a chart, and the shares of frequencies.

use super::xml::{escape, px};
use crate::timeline::{Sample, Timeline};
use crate::{MeterLabel, Quantity, Trace};
use std::fmt::Write;
use takt_core::time::{Span, Time};

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

/// Readings of one domain closer than this are parts of one reading, which takes some microseconds. Times are read once a second.
const READING: Span = Span::from_ms(250);

/// The shares of a domain's frequencies between readings of `time_in_state`, one above the other.
pub(super) struct Shares {
    label: String,
    /// The names of the frequencies, such as `800 MHz`, from the lowest.
    frequencies: Vec<String>,
    /// By interval: its end points, and the time at each frequency in ms.
    intervals: Vec<(Time, Time, Vec<i64>)>,
}

/// The shares of each domain whose times at frequencies were measured: meters with the names `DOMAIN at FREQUENCY`. O(samples × meters).
fn shares(trace: &Trace) -> Vec<Shares> {
    let mut domains: Vec<(&str, Vec<(u16, &str)>)> = Vec::new();
    for (index, label) in (0..).zip(&trace.header.meters) {
        let Some((domain, frequency)) = label.name.rsplit_once(" at ").filter(|_| label.quantity == Quantity::Time)
        else {
            continue;
        };
        match domains.iter_mut().find(|(name, _)| *name == domain) {
            Some((_, meters)) => meters.push((index, frequency)),
            None => domains.push((domain, vec![(index, frequency)])),
        }
    }
    let of = |(domain, mut meters): (&str, Vec<(u16, &str)>)| {
        let number = |name: &str| name.split(' ').next().and_then(|mhz| mhz.parse::<u32>().ok());
        meters.sort_by_key(|(_, name)| number(name));
        let place = |meter: u16| meters.iter().position(|(index, _)| *index == meter);
        // A value holds until it is reported again.
        let (mut values, mut readings) = (vec![0; meters.len()], Vec::<(Time, Vec<i64>)>::new());
        for measured in &trace.measured {
            let Some(place) = place(measured.meter) else { continue };
            values[place] = measured.value;
            match readings.last_mut().filter(|(at, _)| measured.at - *at < READING) {
                Some((_, last)) => last.clone_from(&values),
                None => readings.push((measured.at, values.clone())),
            }
        }
        let between = |pair: &[(Time, Vec<i64>)]| {
            let [(from, before), (to, after)] = pair else { return None };
            let times: Vec<i64> = after.iter().zip(before).map(|(after, before)| (after - before).max(0)).collect();
            times.iter().any(|ms| *ms > 0).then_some((*from, *to, times))
        };
        let intervals = readings.windows(2).filter_map(between).collect();
        let frequencies = meters.iter().map(|(_, name)| (*name).to_owned()).collect();
        Shares { label: format!("{domain} time at frequencies"), frequencies, intervals }
    };
    domains.into_iter().map(of).filter(|shares| !shares.intervals.is_empty()).collect()
}

/// A drawing in a lane under the chart.
pub(super) enum Lane {
    Curve(Curve),
    Shares(Shares),
}

impl Lane {
    /// How many letters its label has.
    pub(super) fn letters(&self) -> usize {
        match self {
            Lane::Curve(curve) => curve.label.chars().count(),
            Lane::Shares(shares) => shares.label.chars().count(),
        }
    }

    /// Draws it at height `y`, with its label at `margin` and instants from `from` to `to` at `x` up to `right`.
    pub(super) fn draw(&self, place: (f64, f64, f64), range: (Time, Time), x: &dyn Fn(Time) -> f64, out: &mut String) {
        match self {
            Lane::Curve(curve) => curve.draw(place, range, x, out),
            Lane::Shares(shares) => shares.draw(place, range, x, out),
        }
    }
}

/// The lanes of a trace: its curves, and then the shares of frequencies. O(samples × meters).
pub(super) fn lanes(trace: &Trace, line: &Timeline) -> Vec<Lane> {
    let curves = curves(trace, line).into_iter().map(Lane::Curve);
    curves.chain(shares(trace).into_iter().map(Lane::Shares)).collect()
}

/// The curves of a trace: frequency domains, thermal zones, and then what the machine measured. O(samples × meters).
fn curves(trace: &Trace, line: &Timeline) -> Vec<Curve> {
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

/// The name of a lane, and the range of its values below.
fn caption(label: &str, range: &str, (x, y): (f64, f64), out: &mut String) {
    let x = px(x);
    let _ = writeln!(out, r#"<text x="{x}" y="{}">{label}</text>"#, px(y + 12.0));
    let _ = writeln!(out, r#"<text x="{x}" y="{}" class="small">{range}</text>"#, px(y + 26.0));
}

impl Curve {
    fn draw(
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
        let range = if low == high { decimal(low) } else { format!("{} – {}", decimal(low), decimal(high)) };
        caption(&label, &format!("{range} {unit}"), (margin, y), out);
        let _ = writeln!(
            out,
            r#"<path d="{path}" fill="none" stroke="{color}" stroke-width="1.5"><title>{title}</title></path>"#
        );
        let _ = writeln!(out, r##"<path d="M{} {f}H{}" stroke="#ddd"/>"##, px(x(from)), px(right), f = px(foot + 3.0));
    }
}

impl Shares {
    /// The highest frequency is at the top, in the darkest color.
    fn draw(
        &self,
        (margin, y, right): (f64, f64, f64),
        (from, to): (Time, Time),
        x: &dyn Fn(Time) -> f64,
        out: &mut String,
    ) {
        let shown = self.intervals.iter().filter(|(begin, end, _)| *end > from && *begin < to);
        let mut used: Vec<usize> = Vec::new();
        for (begin, end, times) in shown {
            let (left, width) = (x((*begin).max(from)), x((*end).min(to)) - x((*begin).max(from)));
            let total = times.iter().sum::<i64>().max(1);
            let mut foot = y + HEIGHT;
            for (index, ms) in times.iter().enumerate().filter(|(_, ms)| **ms > 0) {
                let height = *ms as f64 * HEIGHT / total as f64;
                foot -= height;
                let opacity = (index + 1) as f64 / times.len() as f64;
                let percent = (ms * 100 + total / 2) / total;
                let _ = writeln!(
                    out,
                    r#"<rect x="{}" y="{}" width="{}" height="{}" fill="{FREQUENCY}" fill-opacity="{}"><title>{}: {percent} %</title></rect>"#,
                    px(left),
                    px(foot),
                    px(width),
                    px(height),
                    px(opacity),
                    escape(&self.frequencies[index])
                );
                if !used.contains(&index) {
                    used.push(index);
                }
            }
        }
        let name = |index: Option<&usize>| index.map_or("", |index| self.frequencies[*index].as_str());
        let (low, high) = (name(used.iter().min()), name(used.iter().max()));
        let range = if low == high { low.to_owned() } else { format!("{} – {high}", low.trim_end_matches(" MHz")) };
        let (label, range) = (escape(&self.label), escape(&range));
        caption(&label, &range, (margin, y), out);
        let foot = px(y + HEIGHT + 3.0);
        let _ = writeln!(out, r##"<path d="M{} {foot}H{}" stroke="#ddd"/>"##, px(x(from)), px(right));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;

    #[test]
    fn power_is_the_slope_of_the_energy() {
        let at = |ms| Time::ZERO + Span::from_ms(ms);
        // 3 J within two seconds are 1.5 W, and nothing more 0 W.
        let samples = [(at(0), 0), (at(2000), 3_000_000), (at(2000), 3_000_000), (at(2500), 3_000_000)];
        assert_eq!(power(&samples), [(at(0), 1500), (at(2000), 0)]);
    }

    #[test]
    fn times_at_frequencies_are_shares_of_the_time_between_readings() {
        let mut trace = Trace::default();
        let meter = |name: &str, quantity| MeterLabel { name: name.into(), quantity };
        trace.header.meters = vec![
            meter("cpu at 2400 MHz", Quantity::Time),
            meter("cpu", Quantity::Frequency),
            meter("cpu at 800 MHz", Quantity::Time),
        ];
        let at = |us| Time::ZERO + Span::from_us(us);
        let values =
            [(0, 2, 0), (1, 0, 0), (900, 1, 800_000), (1_000_000, 0, 250), (1_000_003, 2, 750), (2_000_000, 0, 1250)];
        trace.measured = values.map(|(us, meter, value)| Measured { at: at(us), meter, value }).into();
        let [shares] = &shares(&trace)[..] else { panic!("one domain") };
        assert_eq!(shares.frequencies, ["800 MHz", "2400 MHz"]);
        let expected = [(at(0), at(1_000_000), vec![750, 250]), (at(1_000_000), at(2_000_000), vec![0, 1000])];
        assert_eq!(shares.intervals, expected);
        let mut out = String::new();
        shares.draw((0.0, 0.0, 20.0), (at(500_000), at(2_000_000)), &|t| t.ns() as f64 / 1e8, &mut out);
        for part in [
            // Three quarters of 28 pixels at the foot, and the rest above.
            r##"<rect x="5" y="7" width="5" height="21" fill="#0072b2" fill-opacity="0.5"><title>800 MHz: 75 %</title>"##,
            r##"<rect x="5" y="0" width="5" height="7" fill="#0072b2" fill-opacity="1"><title>2400 MHz: 25 %</title>"##,
            r##"<rect x="10" y="0" width="10" height="28" fill="#0072b2" fill-opacity="1"><title>2400 MHz: 100 %</title>"##,
            "800 – 2400 MHz",
        ] {
            assert!(out.contains(part), "{part} is not in {out}");
        }
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
