//! Charts as SVG: the density of the lateness, and the share of samples above a lateness. The axis of time is logarithmic.

use crate::results::Results;
use std::fmt::Write;

/// Colours that people with colour blindness can tell apart (Okabe and Ito), and some more.
pub(crate) const COLOURS: [&str; 10] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b", "#7f7f7f", "#bcbd22"];
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 220.0;
const BOTTOM: f64 = 55.0;
/// Classes of the density in a decade of time.
const CLASSES: f64 = 20.0;
/// On an axis with so many decades at most, there is room for more labels.
const LABELLED: f64 = 3.0;
/// So many densities at most are drawn over each other. More of them are one above the other.
const OVER: usize = 4;
/// The height of a row of a density.
const ROW: f64 = 44.0;
/// So many ticks at most are above zero on an axis of shares.
const TICKS: f64 = 5.0;
/// Lateness below one microsecond is drawn as one microsecond.
const LEAST_NS: i64 = 1000;

/// One line of a chart: its name, and points of lateness in nanoseconds and of the other axis.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// The share of samples in each class of lateness, of which a decade has twenty.
#[must_use]
pub fn density(results: &Results) -> String {
    let lines = sorted(results).map(|(name, samples)| {
        let class = |ns: &i64| (((*ns).max(LEAST_NS) as f64).log10() * CLASSES).floor() as i64;
        let mut points: Vec<(f64, f64)> = Vec::new();
        let bounds = samples.first().map(class).zip(samples.last().map(class));
        let at = |class: f64| 10f64.powf(class / CLASSES);
        // The line begins and ends at the edges of its classes, at zero.
        if let Some((first, last)) = bounds {
            points.push((at(first as f64), 0.0));
            for number in first..=last {
                let count = samples.iter().filter(|ns| class(ns) == number).count();
                points.push((at(number as f64 + 0.5), count as f64 / samples.len() as f64));
            }
            points.push((at(last as f64 + 1.0), 0.0));
        }
        Line { name, points }
    });
    let lines: Vec<Line> = lines.collect();
    let highest = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max).max(1e-9);
    let (top, ticks) = shares(highest);
    let labels = ["Density of the lateness", "share of samples, a class of 1/20 decade"];
    // More lines over each other cannot be distinguished.
    let layout = if lines.len() > OVER { Layout::Rows } else { Layout::Over };
    draw(labels, &lines, &ticks, layout, |share| share / top)
}

/// The share of samples that exceed a lateness, with both axes logarithmic: the tails.
#[must_use]
pub fn tails(results: &Results) -> String {
    let longest = results.measured().map(|s| s.rounds.iter().map(Vec::len).sum::<usize>()).max().unwrap_or(1).max(10);
    let decades = (longest as f64).log10().ceil();
    let lines = sorted(results).map(|(name, samples)| {
        let total = samples.len() as f64;
        let mut points = Vec::new();
        for (index, ns) in samples.iter().enumerate() {
            // The last sample of a value says how many exceed the value.
            if samples.get(index + 1) != Some(ns) {
                points.push(((*ns).max(LEAST_NS) as f64, (total - index as f64 - 1.0) / total));
            }
        }
        Line { name, points: thinned(points) }
    });
    let lines: Vec<Line> = lines.collect();
    let ticks = (0..=decades as i32).map(|decade| {
        // 100 %, 10 %, 1 %, 0.1 %, and so on.
        let label = format!("{:.*} %", (decade - 2).max(0) as usize, 10f64.powi(2 - decade));
        (1.0 - f64::from(decade) / decades, label)
    });
    let labels = ["Tails of the lateness", "share of samples that are later (log scale)"];
    let ticks: Vec<_> = ticks.collect();
    draw(labels, &lines, &ticks, Layout::Over, |share| (1.0 + share.max(1e-12).log10() / decades).max(0.0))
}

/// An axis of shares from zero to a round value that is not below `highest`: that value, and ticks with their labels. The ticks are 1, 2 or 5 times a power
/// of ten apart.
fn shares(highest: f64) -> (f64, Vec<(f64, String)>) {
    let least = highest / TICKS;
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|part| part * power).into_iter().find(|step| *step >= least).unwrap_or(10.0 * power);
    // A value that is a tick but for rounding needs no further one.
    let count = (highest / step - 1e-6).ceil().max(1.0);
    let decimals = (-(step * 100.0).log10() - 1e-6).ceil().max(0.0) as usize;
    let tick = |index: i32| (f64::from(index) / count, format!("{:.decimals$} %", step * f64::from(index) * 100.0));
    (step * count, (0..=count as i32).map(tick).collect())
}

/// The samples of each scenario in ascending order.
fn sorted(results: &Results) -> impl Iterator<Item = (String, Vec<i64>)> {
    results.measured().map(|scenario| {
        let mut samples: Vec<i64> = scenario.rounds.iter().flatten().copied().collect();
        samples.sort_unstable();
        (scenario.name.clone(), samples)
    })
}

/// Points that differ on paper: at most a hundred in a decade of either axis.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let place = |point: &(f64, f64)| {
        let of = |value: f64| (value.max(1e-12).log10() * 100.0) as i64;
        (of(point.0), of(point.1))
    };
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if kept.last().is_none_or(|last| place(last) != place(&point)) {
            kept.push(point);
        }
    }
    kept
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 0.99e9 => format!("{:.0} s", ns / 1e9),
        ns if ns >= 0.99e6 => format!("{:.0} ms", ns / 1e6),
        ns => format!("{:.0} us", ns / 1e3),
    }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The place of the lines: one above the other, or over each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Over,
    Rows,
}

/// Draws lines. `height` maps a value to a part of the height, from 0 to 1. In rows, a part of the height is one of the row.
fn draw(
    labels: [&str; 2],
    lines: &[Line],
    ticks: &[(f64, String)],
    layout: Layout,
    height: impl Fn(f64) -> f64,
) -> String {
    let times = || lines.iter().flat_map(|line| &line.points).map(|point| point.0.max(LEAST_NS as f64).log10());
    let first = times().fold(f64::INFINITY, f64::min).min(9.0).floor();
    let last = times().fold(f64::NEG_INFINITY, f64::max).max(first + 1.0).ceil();
    let rows = layout == Layout::Rows;
    let right = WIDTH - RIGHT;
    let bottom = if rows { TOP + lines.len() as f64 * ROW } else { HEIGHT - BOTTOM };
    let whole = bottom + BOTTOM;
    let x = |ns: f64| LEFT + (ns.max(LEAST_NS as f64).log10() - first) / (last - first) * (right - LEFT);
    let y = |part: f64| bottom - part * (bottom - TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {whole}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{0}</title>\n<rect width=\"{WIDTH}\" height=\"{whole}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\" font-weight=\"bold\">{0}</text>\n",
        escaped(labels[0]),
    );
    // Writing to a string cannot fail.
    let mut put = |text: String| _ = writeln!(svg, "{text}");
    let mut mark = |ns: f64, colour: &str, has_label: bool| {
        let at = x(ns);
        put(format!("<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"{colour}\"/>"));
        if has_label {
            put(format!("<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>", bottom + 17.0, time(ns)));
        }
    };
    for decade in first as i32..last as i32 {
        // Where there is room, 2 and 5 have labels, too.
        let labels = last - first <= LABELLED;
        (2..=9).for_each(|part: i32| {
            mark(10f64.powi(decade) * f64::from(part), "#f0f0f0", labels && matches!(part, 2 | 5));
        });
    }
    (first as i32..=last as i32).for_each(|decade| mark(10f64.powi(decade), "#ccc", true));
    for (part, label) in ticks.iter().filter(|_| !rows) {
        let at = y(*part);
        put(format!("<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>"));
        put(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 6.0, at + 4.0));
    }
    put(format!("<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>"));
    let middle = (LEFT + right) / 2.0;
    let axis = format!("x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\"", whole - 14.0);
    put(format!("<text {axis}>lateness (log scale)</text>"));
    let centre = (TOP + bottom) / 2.0;
    let turned = format!("transform=\"translate(16 {centre:.1}) rotate(-90)\" text-anchor=\"middle\"");
    let scale = ticks.last().filter(|_| rows).map_or(String::new(), |(_, top)| format!("; a row is {top} high"));
    put(format!("<text {turned}>{}{scale}</text>", escaped(labels[1])));
    for (index, line) in lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let foot = TOP + (index + 1) as f64 * ROW;
        let y = |part: f64| if rows { foot - part * ROW } else { y(part) };
        let points: Vec<String> =
            line.points.iter().map(|(ns, value)| format!("{:.1},{:.1}", x(*ns), y(height(*value)))).collect();
        // Beyond the colours, lines are dashed.
        let dash = if rows || index < COLOURS.len() { "" } else { " stroke-dasharray=\"5 3\"" };
        let fill = if rows { format!("{colour}\" fill-opacity=\"0.25") } else { "none".to_owned() };
        let shape = format!("fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.6\"{dash}");
        // A browser shows the title where the pointer is on the line.
        let title = escaped(&line.name);
        put(format!("<polyline points=\"{}\" {shape}><title>{title}</title></polyline>", points.join(" ")));
        if rows {
            put(format!("<path d=\"M{LEFT} {foot}H{right}\" stroke=\"#ccc\"/>"));
            put(format!("<text x=\"{:.1}\" y=\"{:.1}\">{title}</text>", right + 14.0, foot - 4.0));
        } else {
            let at = TOP + 10.0 + index as f64 * 18.0;
            put(format!("<path d=\"M{:.1} {at:.1}h22\" {shape}/>", right + 14.0));
            put(format!("<text x=\"{:.1}\" y=\"{:.1}\">{title}</text>", right + 42.0, at + 4.0));
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Scenario;

    fn results() -> Results {
        let mut results = Results::new(String::new(), String::new(), String::new(), 0);
        for (name, scale) in [("idle", 1), ("a<b", 100)] {
            results.scenarios.push(Scenario {
                name: name.into(),
                meaning: String::new(),
                rounds: vec![(1..=1000).map(|i| i * 1000 * scale).collect()],
                stolen: Vec::new(),
                skipped: None,
                worst: Vec::new(),
                agreement: None,
            });
        }
        results
    }

    /// The points of the lines of a chart.
    fn lines(svg: &str) -> Vec<Vec<(f64, f64)>> {
        let number = |text: &str| text.parse::<f64>().unwrap();
        let line = |rest: &str| {
            let points = rest.split('"').next().unwrap();
            points.split(' ').map(|point| point.split_once(',').unwrap()).map(|(x, y)| (number(x), number(y))).collect()
        };
        svg.split("<polyline points=\"").skip(1).map(line).collect()
    }

    #[test]
    fn charts_have_titles_units_and_legends_and_stay_inside() {
        for svg in [density(&results()), tails(&results())] {
            for part in ["<title>", ">lateness (log scale)<", ">100 us<", ">100 ms<", ">idle<", ">a&lt;b<"] {
                assert!(svg.contains(part), "{part}: {svg}");
            }
            let lines = lines(&svg);
            assert_eq!(lines.len(), 2);
            for (x, y) in lines.into_iter().flatten() {
                assert!(
                    (LEFT - 0.1..=WIDTH - RIGHT + 0.1).contains(&x) && (TOP - 0.1..=HEIGHT).contains(&y),
                    "{x} {y}"
                );
            }
        }
    }

    #[test]
    fn the_tail_falls_and_has_half_of_the_samples_at_the_median() {
        let svg = tails(&results());
        let idle = &lines(&svg)[0];
        assert!(idle.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1), "{idle:?}");
        // The axis has three decades of shares, and five of time from 1 us on.
        let (x, y) =
            (LEFT + 500f64.log10() / 5.0 * (WIDTH - RIGHT - LEFT), TOP + 2f64.log10() / 3.0 * (HEIGHT - BOTTOM - TOP));
        assert!(idle.iter().any(|point| (point.0 - x).abs() < 3.0 && (point.1 - y).abs() < 3.0), "{x} {y}: {idle:?}");
    }

    /// Samples from 10 us to 100 us have an axis of this decade, with its labels.
    #[test]
    fn the_axes_have_no_decade_without_samples() {
        let mut results = results();
        results.scenarios.truncate(1);
        results.scenarios[0].rounds = vec![(0..2000).map(|i| 10_100 + i * 44).collect()];
        let (tails, density) = (tails(&results), density(&results));
        for svg in [&tails, &density] {
            for part in [">10 us<", ">20 us<", ">50 us<", ">100 us<"] {
                assert!(svg.contains(part), "{part}: {svg}");
            }
            assert!(!svg.contains(">1 us<") && !svg.contains(">1 ms<"), "{svg}");
        }
        for part in [">100 %<", ">10 %<", ">1 %<", ">0.1 %<", ">0.01 %<"] {
            assert!(tails.contains(part), "{part}: {tails}");
        }
        let line = &lines(&density)[0];
        assert!(line.first().unwrap().1 == line.last().unwrap().1 && line.first().unwrap().0 == LEFT, "{line:?}");
    }

    /// Many densities are one above the other, each with its name, and none leaves its row.
    #[test]
    fn many_densities_have_a_row_each() {
        let mut results = results();
        for index in 0..8 {
            let name = format!("more-{index}");
            results.scenarios.push(Scenario { name, ..results.scenarios[0].clone() });
        }
        let svg = density(&results);
        for (index, line) in lines(&svg).iter().enumerate() {
            let (top, foot) = (TOP + index as f64 * ROW, TOP + (index + 1) as f64 * ROW);
            assert!(line.iter().all(|point| (top - 0.1..=foot + 0.1).contains(&point.1)), "{index}: {line:?}");
            assert!(line.iter().any(|point| point.1 < foot - 1.0), "{index}: {line:?}");
        }
        assert_eq!(lines(&svg).len(), 10);
        for part in [
            ">more-7</text>",
            "; a row is ",
            ">lateness (log scale)<",
            &format!("0 {WIDTH} {}", TOP + 10.0 * ROW + BOTTOM),
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!tails(&results).contains("a row is"), "tails are over each other");
    }

    #[test]
    fn shares_have_round_ticks() {
        for (highest, top, labels) in [
            (0.402, 0.5, &["0 %", "10 %", "20 %", "30 %", "40 %", "50 %"][..]),
            (1.0, 1.0, &["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
            (0.2, 0.2, &["0 %", "5 %", "10 %", "15 %", "20 %"]),
            (0.021, 0.025, &["0.0 %", "0.5 %", "1.0 %", "1.5 %", "2.0 %", "2.5 %"]),
        ] {
            let (found, ticks) = shares(highest);
            let found_labels: Vec<&str> = ticks.iter().map(|tick| &*tick.1).collect();
            assert!((found - top).abs() < 1e-9 && ticks.last().unwrap().0 == 1.0, "{highest}: {found}");
            assert_eq!(found_labels, labels, "{highest}");
        }
    }

    #[test]
    fn nothing_measured_is_an_empty_chart() {
        let none = Results::new(String::new(), String::new(), String::new(), 0);
        assert!(lines(&tails(&none)).is_empty() && density(&none).contains("</svg>"));
    }
}
