//! Verdicts: the values of series, and whether they agree with the claims.

use super::form::{Claim, Experiment, Series, Take, Test, Tolerance};
use super::rows::{Row, Table, is_near, quantity};
use takt_workload::{Code, Diagnostic};

/// Whether a claim holds in the results.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Verdict {
    Holds,
    InOrder,
    DoesNot,
}

impl Verdict {
    pub(super) fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InOrder => "holds in order only",
            Verdict::DoesNot => "does not hold",
        }
    }
}

/// A value of the results with half of the width of its confidence interval, in the unit of the experiment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) half: Option<f64>,
}

/// A judged claim.
pub(super) struct Judged {
    /// The publication's side.
    pub(super) claimed: String,
    /// The simulated side.
    pub(super) simulated: String,
    pub(super) verdict: Verdict,
    /// The simulated values, at each position.
    pub(super) points: Vec<Point>,
}

/// The values of a claim's series at one position.
pub(super) struct Point {
    pub(super) at: Option<f64>,
    /// By the place of the series.
    pub(super) values: Vec<(usize, Value)>,
}

/// A number for people: four significant digits.
pub(super) fn short(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0).min(6);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Several numbers with the unit of all.
fn with_unit(values: &[f64], unit: &str) -> String {
    let texts = values.iter().map(|value| short(*value)).collect::<Vec<_>>().join(" / ");
    if unit.is_empty() { texts } else { format!("{texts} {unit}") }
}

impl Experiment {
    /// The value of a series at a position of the publication.
    ///
    /// # Errors
    /// The fault of a selection that has no row or several, at this claim.
    fn value(&self, tables: &[Table], series: &Series, at: Option<f64>, claim: &Claim) -> Result<Value, Diagnostic> {
        let table = &tables[series.run];
        let name = series.quantity.as_ref().or(claim.quantity.as_ref()).unwrap_or(&self.quantity);
        let here = |row: &&Row| match (at, &self.over) {
            (Some(at), Some(over)) => quantity(row, over).is_some_and(|(cell, _)| is_near(cell, at * self.factor)),
            _ => true,
        };
        let rows: Vec<&Row> = table.select(&series.rows).filter(here).collect();
        let place = at.map_or_else(String::new, |at| format!(" at {}", short(at)));
        let fault = |message: String, label: String, hint: &str| {
            Diagnostic::error(Code::UnknownName, &claim.place, message).label(label).hint(hint)
        };
        if rows.is_empty() {
            let unknown = series.rows.iter().find(|(column, pattern)| {
                table.select(std::slice::from_ref(&(column.clone(), pattern.clone()))).next().is_none()
            });
            let label = match (unknown, &self.over, at) {
                (Some((column, _)), ..) => listed(table, column),
                (None, Some(over), Some(_)) => listed(table, over),
                _ => "no row has all of its cells".into(),
            };
            let message = format!("the series `{}` has no row{place}", series.name);
            return Err(fault(message, label, "correct the series, the positions, or the options of the run"));
        }
        let values: Vec<(f64, Option<f64>)> = rows.iter().filter_map(|row| quantity(row, name)).collect();
        if values.is_empty() {
            let columns = table.columns().into_iter().collect::<Vec<_>>().join(", ");
            let message = format!("the series `{}` has no number `{name}`{place}", series.name);
            return Err(fault(
                message,
                format!("the columns are {columns}"),
                "name a column with numbers as `quantity`",
            ));
        }
        let numbers = || values.iter().map(|(value, _)| *value);
        let (value, half) = match series.take {
            Take::Only if values.len() > 1 => {
                let message = format!("the series `{}` has {} rows{place}", series.name, values.len());
                let hint = "add cells, or `take: mean`, `least`, `most` or `last`";
                let fault = fault(message, "one value is needed".into(), hint);
                return Err(Diagnostic { code: Code::NotApplicable, ..fault });
            }
            Take::Only => values[0],
            Take::Least => (numbers().fold(f64::INFINITY, f64::min), None),
            Take::Most => (numbers().fold(f64::NEG_INFINITY, f64::max), None),
            Take::Mean => (numbers().sum::<f64>() / values.len() as f64, None),
            Take::Last => values[values.len() - 1],
        };
        Ok(Value { value: value / self.per_unit, half: half.map(|half| half / self.per_unit) })
    }

    /// Judges a claim by the results of all runs.
    ///
    /// # Errors
    /// The fault of a selection.
    pub(super) fn judge(&self, tables: &[Table], claim: &Claim) -> Result<Judged, Diagnostic> {
        let series = claim.test.series();
        let positions: Vec<Option<f64>> =
            if claim.at.is_empty() { vec![None] } else { claim.at.iter().copied().map(Some).collect() };
        let mut points = Vec::new();
        for at in positions {
            let value = |index: &usize| Ok((*index, self.value(tables, &self.series[*index], at, claim)?));
            points.push(Point { at, values: series.iter().map(value).collect::<Result<_, Diagnostic>>()? });
        }
        let unit = claim.unit.as_ref().unwrap_or(&self.unit);
        let (claimed, simulated, verdict) = match &claim.test {
            Test::Order(_, by) => self.order(&points, unit, *by),
            Test::Equal(_, within) => self.equal(&points, unit, *within),
            Test::Values(values, within) => self.values(&points, unit, values, *within),
            Test::Above(bounds) => self.bounds(&points, unit, bounds, 1.0),
            Test::Below(bounds) => self.bounds(&points, unit, bounds, -1.0),
        };
        Ok(Judged { claimed, simulated, verdict, points })
    }

    fn names(&self, point: &Point, between: &str) -> String {
        point.values.iter().map(|(series, _)| self.series[*series].name.as_str()).collect::<Vec<_>>().join(between)
    }

    /// Values with their unit, and the position among how many. `which` says why this one is shown.
    fn texts(&self, point: &Point, unit: &str, which: &str, of: usize) -> String {
        let values: Vec<f64> = point.values.iter().map(|(_, value)| value.value).collect();
        let over = self.over.as_deref().unwrap_or_default();
        let place = match (point.at, of) {
            (None, _) => String::new(),
            (Some(at), 1) => format!(" at {over} {}", short(at)),
            (Some(at), of) => format!(" at {over} {}, the {which} of {of}", short(at)),
        };
        format!("{}{place}", with_unit(&values, unit))
    }

    fn order(&self, points: &[Point], unit: &str, by: Tolerance) -> (String, String, Verdict) {
        let worst = |point: &Point| {
            let pairs = point.values.windows(2).map(|pair| (pair[0].1.value, pair[1].1.value));
            // By how much the difference exceeds what is needed, and the difference.
            pairs.fold((f64::INFINITY, f64::INFINITY), |(spare, least), (above, below)| {
                let difference = above - below;
                (spare.min(difference - by.of(below)), least.min(difference))
            })
        };
        let closest = points.iter().min_by(|a, b| worst(a).0.total_cmp(&worst(b).0)).expect("a claim has a position");
        let (spare, _) = worst(closest);
        let is_ordered = points.iter().all(|point| worst(point).1 > 0.0);
        let verdict = match (is_ordered, spare >= 0.0) {
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::InOrder,
            (false, _) => Verdict::DoesNot,
        };
        let more = if by == Tolerance::Absolute(0.0) { String::new() } else { format!(" by {}", by.text()) };
        (
            format!("{}{more}", self.names(&points[0], " > ")),
            self.texts(closest, unit, "closest", points.len()),
            verdict,
        )
    }

    fn equal(&self, points: &[Point], unit: &str, within: Tolerance) -> (String, String, Verdict) {
        let worst = |point: &Point| {
            let first = point.values[0].1.value;
            let far = point.values.iter().map(|(_, value)| (value.value - first).abs()).fold(0.0, f64::max);
            far - within.of(first)
        };
        let furthest = points.iter().max_by(|a, b| worst(a).total_cmp(&worst(b))).expect("a claim has a position");
        let verdict = if worst(furthest) <= 0.0 { Verdict::Holds } else { Verdict::DoesNot };
        let claimed = format!("{} within {}", self.names(&points[0], " = "), within.text());
        (claimed, self.texts(furthest, unit, "furthest", points.len()), verdict)
    }

    fn values(
        &self,
        points: &[Point],
        unit: &str,
        claimed: &[(usize, f64)],
        within: Tolerance,
    ) -> (String, String, Verdict) {
        let far = |point: &Point| {
            let pairs = point.values.iter().zip(claimed);
            pairs.map(|((_, here), (_, there))| (here.value - there).abs() - within.of(*there)).fold(f64::MIN, f64::max)
        };
        let furthest = points.iter().max_by(|a, b| far(a).total_cmp(&far(b))).expect("a claim has a position");
        let pairs = || {
            claimed
                .iter()
                .enumerate()
                .flat_map(|(n, a)| claimed[..n].iter().enumerate().map(move |(m, b)| (n, a.1, m, b.1)))
        };
        let is_same_order = |point: &Point| {
            let value = |n: usize| point.values[n].1.value;
            pairs().all(|(n, a, m, b)| a.total_cmp(&b) == value(n).total_cmp(&value(m)) || is_near(a, b))
        };
        let has_order = pairs().any(|(_, a, _, b)| !is_near(a, b));
        let verdict = match (far(furthest) <= 0.0, has_order && points.iter().all(is_same_order)) {
            (true, _) => Verdict::Holds,
            (false, true) => Verdict::InOrder,
            (false, false) => Verdict::DoesNot,
        };
        let texts: Vec<f64> = claimed.iter().map(|(_, value)| *value).collect();
        let names = if claimed.len() > 1 { format!("{}: ", self.names(&points[0], " / ")) } else { String::new() };
        let text = format!("{names}{} within {}", with_unit(&texts, unit), within.text());
        (text, self.texts(furthest, unit, "furthest", points.len()), verdict)
    }

    /// `sign` is that of the difference which agrees.
    fn bounds(&self, points: &[Point], unit: &str, bounds: &[(usize, f64)], sign: f64) -> (String, String, Verdict) {
        let spare = |point: &Point| {
            let pairs = point.values.iter().zip(bounds);
            pairs.map(|((_, here), (_, bound))| sign * (here.value - bound)).fold(f64::INFINITY, f64::min)
        };
        let closest = points.iter().min_by(|a, b| spare(a).total_cmp(&spare(b))).expect("a claim has a position");
        let verdict = if spare(closest) > 0.0 { Verdict::Holds } else { Verdict::DoesNot };
        let texts: Vec<f64> = bounds.iter().map(|(_, bound)| *bound).collect();
        let word = if sign > 0.0 { "above" } else { "below" };
        let text = format!("{} {word} {}", self.names(&points[0], " / "), with_unit(&texts, unit));
        (text, self.texts(closest, unit, "closest", points.len()), verdict)
    }

    /// The values of a series over the column of positions, for a picture: each row that it selects, in the units of the publication.
    pub(super) fn curve(&self, tables: &[Table], series: &Series, name: &str) -> Vec<(f64, Value)> {
        let Some(over) = &self.over else { return Vec::new() };
        let name = series.quantity.as_deref().unwrap_or(name);
        let dot = |row: &Row| {
            let ((at, _), (value, half)) = (quantity(row, over)?, quantity(row, name)?);
            let of = |value: f64| value / self.per_unit;
            Some((at / self.factor, Value { value: of(value), half: half.map(of) }))
        };
        tables[series.run].select(&series.rows).filter_map(dot).collect()
    }
}

/// The different cells of a column, for a message.
fn listed(table: &Table, column: &str) -> String {
    const MOST: usize = 12;
    let cells = table.cells(column);
    if cells.is_empty() {
        let columns = table.columns().into_iter().collect::<Vec<_>>().join(", ");
        return format!("there is no column `{column}`; the columns are {columns}");
    }
    let shown: Vec<&str> = cells.iter().copied().take(MOST).collect();
    let more = if cells.len() > MOST { ", …" } else { "" };
    format!("`{column}` is {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let texts = [0.0, 1.0, 0.123_456, 51.833, 1234.6, 0.000_012, -0.5, 335.0].map(short);
        assert_eq!(texts, ["0", "1", "0.1235", "51.83", "1235", "0.000012", "-0.5", "335"]);
    }
}
