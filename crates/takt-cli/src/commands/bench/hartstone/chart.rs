//! The results as bars: one panel for what was asked, one for context switches, a group of bars for each test.

use super::report::{Results, Spread};
use std::fmt::Write;
use takt_trace::gantt::{escape, page};

/// Fills in turn, from the palette of Okabe and Ito, which colour-blind eyes tell apart.
const FILLS: [&str; 8] = ["#0072b2", "#e69f00", "#009e73", "#56b4e9", "#cc79a7", "#d55e00", "#999999", "#f0e442"];
const LEFT: f64 = 64.0;
const PANEL: f64 = 220.0;
const GAP: f64 = 56.0;
const LINE: f64 = 18.0;
const BAR: f64 = 24.0;
const BETWEEN: f64 = 32.0;

/// The smallest of 1, 2, 5 times a power of ten that gives at most six steps up to `most`.
fn step(most: f64) -> f64 {
    let mut unit = 1.0;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if most <= 6.0 * factor * unit {
                return factor * unit;
            }
        }
        unit *= 10.0;
    }
}

/// Draws the results with all their settings above.
pub(super) fn svg(results: &Results<'_>) -> String {
    let names = results.names();
    let group = BAR * names.len() as f64 + BETWEEN;
    let head = results.head();
    let longest = head.iter().chain(&names).map(|text| text.chars().count()).max().unwrap_or(0);
    let width = (LEFT + group * results.tests.len() as f64 + 24.0).max(32.0 + 6.0 * longest as f64);
    let plot = width - LEFT - 24.0;
    let group = plot / results.tests.len() as f64;
    let top = 34.0 + LINE * (head.len() + names.len()) as f64 + 28.0;
    let height = top + 2.0 * PANEL + GAP + 40.0;
    let mut body = String::new();
    let mut add = |element: std::fmt::Arguments<'_>| {
        body.write_fmt(element).expect("a string takes all");
        body.push('\n');
    };
    add(format_args!(r#"<text x="16" y="22" class="title">hartstone: {}</text>"#, results.what()));
    let mut y = 34.0;
    for text in &head {
        y += LINE;
        let indent = if text.starts_with(' ') { 28 } else { 16 };
        add(format_args!(r#"<text x="{indent}" y="{}">{}</text>"#, y - 6.0, escape(text.trim_start())));
    }
    for (n, name) in names.iter().enumerate() {
        y += LINE;
        let fill = FILLS[n % FILLS.len()];
        add(format_args!(r#"<rect x="16" y="{}" width="12" height="12" fill="{fill}"/>"#, y - 10.0));
        add(format_args!(r#"<text x="34" y="{y}">{}</text>"#, escape(name)));
    }
    type Value<'a> = &'a dyn Fn(usize, usize) -> Spread;
    let score: Value<'_> = &|line, test| results.score(line, test);
    let switches: Value<'_> = &|line, test| results.switches(line, test);
    for (panel, (title, value)) in
        [(results.what(), score), ("context switches per second", switches)].iter().enumerate()
    {
        let floor = top + PANEL + (PANEL + GAP) * panel as f64;
        let spreads = || (0..names.len()).flat_map(|line| (0..results.tests.len()).map(move |test| (line, test)));
        let most = spreads().map(|(line, test)| value(line, test).most).max().unwrap_or(0).max(1) as f64;
        let step = step(most);
        let end = (most / step).ceil() * step;
        let at = |value: f64| floor - value / end * (PANEL - 30.0);
        add(format_args!(r#"<text x="{LEFT}" y="{}" class="panel">{title}</text>"#, floor - PANEL + 10.0));
        for k in 0..=(end / step).round() as u32 {
            let value = step * f64::from(k);
            let y = at(value);
            add(format_args!(r#"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" class="grid"/>"#, LEFT + plot));
            add(format_args!(r#"<text x="{}" y="{:.1}" text-anchor="end">{value}</text>"#, LEFT - 6.0, y + 4.0));
        }
        for (test, experiment) in results.tests.iter().enumerate() {
            let middle = LEFT + group * (test as f64 + 0.5);
            let left = middle - BAR * names.len() as f64 / 2.0;
            let label = experiment.number();
            add(format_args!(
                r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle">test {label}</text>"#,
                floor + 16.0
            ));
            for (line, name) in names.iter().enumerate() {
                let spread = value(line, test);
                let (x, y) = (left + BAR * line as f64, at(spread.mean()));
                let (fill, high) = (FILLS[line % FILLS.len()], floor - y);
                add(format_args!(
                    r#"<rect x="{:.1}" y="{y:.1}" width="{:.1}" height="{high:.1}" fill="{fill}"><title>{}, test {label}: {}</title></rect>"#,
                    x + 1.0,
                    BAR - 2.0,
                    escape(name),
                    spread.text()
                ));
                let centre = x + BAR / 2.0;
                if spread.least != spread.most {
                    let (low, high) = (at(spread.least as f64), at(spread.most as f64));
                    add(format_args!(r#"<path d="M{centre:.1} {low:.1}V{high:.1}" class="range"/>"#));
                }
                let above = at(spread.most as f64) - 4.0;
                add(format_args!(r#"<text x="{centre:.1}" y="{above:.1}" class="value">{:.0}</text>"#, spread.mean()));
            }
        }
    }
    let head = "<style>text{font:11px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}.panel{font-size:12px;font-weight:bold}\
         .value{font-size:8px;text-anchor:middle}.grid{stroke:#ddd}.range{stroke:#222;fill:none}</style>";
    page(&format_args!("{width:.0}"), &format_args!("{height:.0}"), head, &body)
}

#[cfg(test)]
mod tests {
    use super::step;

    #[test]
    fn axes_have_at_most_six_steps() {
        assert_eq!([1.0, 6.0, 7.0, 28.0, 60.0, 61.0, 3000.0].map(step), [1.0, 1.0, 2.0, 5.0, 10.0, 20.0, 500.0]);
    }
}
