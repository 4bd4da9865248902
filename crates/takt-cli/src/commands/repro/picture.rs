//! The curves of an experiment as SVG.

use super::form::{Experiment, Publication, Shown, Test};
use super::judge::{Judged, Value};
use super::rows::Table;
use crate::commands::sweep::curves::{self, Dot, Panel, Picture};
use std::collections::{BTreeMap, BTreeSet};

/// The name of a line, and its dots by position in millionths.
type Curve = (String, BTreeMap<u64, Dot>);

/// In millionths, which are never negative in a picture.
fn millionths(value: f64) -> u64 {
    (value * 1e6).round().clamp(0.0, 1e18) as u64
}

fn dot(value: Value) -> Dot {
    Dot::around(millionths(value.value), millionths(value.half.unwrap_or(0.0)))
}

/// The next of 1, 2, 5, 10, 20, 50 …, also below one, in millionths.
fn round_up(most: u64) -> u64 {
    let powers = (0..18).map(|digits| 10_u64.pow(digits));
    powers.flat_map(|power| [1, 2, 5].map(|n| n * power)).find(|end| *end >= most).unwrap_or(most)
}

/// Draws the curves of an experiment, or its single values if it has no curve.
pub(super) fn svg(
    publication: &Publication,
    shown: &Shown,
    experiment: &Experiment,
    tables: &[Table],
    judged: &[Judged],
) -> String {
    let mut panels: Vec<(String, Vec<usize>)> = Vec::new();
    for claim in &experiment.claims {
        for series in claim.test.series() {
            let own = experiment.series[series].quantity.as_ref();
            let name = own.or(claim.quantity.as_ref()).unwrap_or(&experiment.quantity);
            match panels.iter_mut().find(|(quantity, _)| quantity == name) {
                Some((_, all)) if all.contains(&series) => {}
                Some((_, all)) => all.push(series),
                None => panels.push((name.clone(), vec![series])),
            }
        }
    }
    let curve = |name: &str, series: usize| -> BTreeMap<u64, Dot> {
        let dots = experiment.curve(tables, &experiment.series[series], name);
        dots.into_iter().map(|(at, value)| (millionths(at), dot(value))).collect()
    };
    let curves: Vec<(String, Vec<Curve>)> = panels
        .into_iter()
        .map(|(name, all)| {
            let lines = all.iter().map(|series| (experiment.series[*series].name.clone(), curve(&name, *series)));
            let lines: Vec<_> = lines.filter(|(_, dots)| dots.len() > 1).collect();
            (name, lines)
        })
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    let (across, curves) = match (&experiment.over, curves.is_empty()) {
        (Some(over), false) => (over.clone(), curves),
        _ => ("value".into(), vec![(experiment.quantity.clone(), single(experiment, judged))]),
    };
    let curves = rounded(curves);
    let points: BTreeSet<u64> =
        curves.iter().flat_map(|(_, lines)| lines).flat_map(|(_, dots)| dots.keys().copied()).collect();
    let points: Vec<u64> = points.into_iter().collect();
    // The legend is that of all panels.
    let mut names: Vec<String> = Vec::new();
    for (name, _) in curves.iter().flat_map(|(_, lines)| lines) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let panel = |(title, lines): (String, Vec<Curve>)| {
        let most = lines.iter().flat_map(|(_, dots)| dots.values()).map(|dot| dot.top()).max().unwrap_or(0);
        let top = round_up(most);
        let line = |name: &String| {
            let dots = lines.iter().find(|(other, _)| other == name).map(|(_, dots)| dots);
            (name.clone(), points.iter().map(|at| dots.and_then(|dots| dots.get(at).copied())).collect())
        };
        let of_claim = experiment.claims.iter().find(|claim| claim.quantity.as_ref() == Some(&title));
        let unit = of_claim.and_then(|claim| claim.unit.clone()).unwrap_or_else(|| experiment.unit.clone());
        Panel { title, unit, top, lines: names.iter().map(line).collect() }
    };
    let panels: Vec<Panel> = curves.into_iter().map(panel).collect();
    let title = format!("{}, {}", publication.authors, shown.figure);
    let bars = "bars: 95 % confidence intervals of the means";
    let note = format!("Takt's simulation: {}", shown.shows);
    let (title, note, across) = (&title, &note, &across);
    curves::svg(&Picture { title, note, bars, across, points: &points, panels: &panels, whole: false, size: None })
}

/// Positions of a picture with more of them are rounded.
const EXACT_MOST: usize = 40;

/// Rounds many positions to a part of their range, so that the labels of the axis are short.
fn rounded(mut curves: Vec<(String, Vec<Curve>)>) -> Vec<(String, Vec<Curve>)> {
    let all = || curves.iter().flat_map(|(_, lines)| lines).flat_map(|(_, dots)| dots.keys().copied());
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    if all().collect::<BTreeSet<_>>().len() <= EXACT_MOST {
        return curves;
    }
    let part = (0..18).map(|digits| 10_u64.pow(digits)).take_while(|unit| *unit <= (most - least) / 5_000).last();
    let unit = part.unwrap_or(1);
    for (_, dots) in curves.iter_mut().flat_map(|(_, lines)| lines) {
        *dots = dots.iter().map(|(at, dot)| ((at + unit / 2) / unit * unit, *dot)).collect();
    }
    curves
}

/// Single values side by side, each a line of its own: simulated, and where they are known those of the publication.
fn single(experiment: &Experiment, judged: &[Judged]) -> Vec<Curve> {
    let mut lines: Vec<Curve> = Vec::new();
    let mut seen: Vec<usize> = Vec::new();
    for (claim, judged) in experiment.claims.iter().zip(judged) {
        for (series, value) in judged.points.iter().flat_map(|point| &point.values) {
            if seen.contains(series) {
                continue;
            }
            seen.push(*series);
            let (at, name) = (seen.len() as u64 * 1_000_000, &experiment.series[*series].name);
            lines.push((name.clone(), BTreeMap::from([(at, dot(*value))])));
            let Test::Values(values, _) = &claim.test else { continue };
            if let Some((_, value)) = values.iter().find(|(other, _)| other == series) {
                let published = Dot::around(millionths(*value), 0);
                lines.push((format!("{name}, publication"), BTreeMap::from([(at, published)])));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [0, 1, 3, 900_000, 1_000_000, 51_000_000].map(super::round_up);
        assert_eq!(ends, [1, 1, 5, 1_000_000, 1_000_000, 100_000_000]);
    }
}
