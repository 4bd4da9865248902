//! A report as the content of an HTML page.

use crate::chart::{COLOURS, density, escaped, tails};
use crate::figures::{Figures, QUANTILES};
use crate::results::{Results, Scenario};
use std::fmt::Write;

/// The height of the lane of a sample, the place of its beginning, and the width of the longest one.
const LANE: usize = 22;
const LEFT: f64 = 90.0;
const WIDTH: f64 = 700.0;

/// The report as HTML within a page, without a heading: settings, a table with 95 % confidence intervals, both charts, what was not measured and why, and notes.
#[must_use]
pub fn report(results: &Results) -> String {
    let mut page = format!(
        "<p>{}<br>Task: {}<br>Stress: {}</p>\n",
        escaped(&results.machine),
        escaped(&results.task),
        escaped(&results.stress),
    );
    // Writing to a string cannot fail.
    let mut put = |text: String| _ = writeln!(page, "{text}");
    put("<h2>Figures in microseconds</h2>\n<div class=\"wide\"><table><tr><th>scenario</th><th>samples</th><th>min</th><th>mean</th>"
        .into());
    put("<th>standard deviation</th>".into());
    QUANTILES.iter().for_each(|(_, name)| put(format!("<th>{name} <small>(95 %)</small></th>")));
    put(format!("<th>over {} us</th><th>stolen ms</th></tr>", us(results.limit as f64)));
    for scenario in results.measured() {
        let f = Figures::of(scenario, results.limit);
        put(format!(
            "<tr><td>{}<br><small>{}</small></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
            escaped(&scenario.name),
            escaped(&scenario.meaning),
            f.count,
            us(f.min as f64),
            us(f.mean),
            us(f.variance.sqrt()),
        ));
        for q in &f.quantiles {
            let ends =
                q.ends.map_or("-".to_owned(), |(low, high)| format!("{} to {}", us(low as f64), us(high as f64)));
            put(format!("<td>{}<br><small>{ends}</small></td>", us(q.value as f64)));
        }
        put(format!("<td>{}</td><td>{:.1}</td></tr>", f.over, f.stolen as f64 / 1e6));
    }
    put("</table></div>\n<h2>Tails</h2>".into());
    put(tails(results));
    put("<h2>Density</h2>".into());
    put(density(results));
    list(&mut put, "Not measured", results.scenarios.iter().filter_map(Scenario::unmeasured));
    for scenario in results.measured().filter(|scenario| !scenario.worst.is_empty()) {
        let title = format!("The worst samples of {}", escaped(&scenario.name));
        list(&mut put, &title, scenario.worst.iter().map(ToString::to_string));
        put(lanes(scenario));
    }
    list(&mut put, "Notes", results.notes.iter().cloned());
    page
}

fn list(put: &mut impl FnMut(String), title: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.map(|entry| format!("<li>{}</li>", escaped(&entry))).collect();
    if !entries.is_empty() {
        put(format!("<h2>{title}</h2>\n<ul>{}</ul>", entries.join("\n")));
    }
}

/// A lane for each of the worst samples, from the planned instant to the first instruction, divided into its parts with the largest first.
fn lanes(scenario: &Scenario) -> String {
    let longest = scenario.worst.iter().map(|worst| worst.why.late).max().unwrap_or(1).max(1) as f64;
    let height = scenario.worst.len() * LANE + 8;
    let title = format!("Parts of the worst samples of {}", escaped(&scenario.name));
    let mut svg =
        format!("<svg viewBox=\"0 0 880 {height}\" font-size=\"12\" class=\"lanes\"><title>{title}</title>\n");
    for (worst, y) in scenario.worst.iter().zip((4..).step_by(LANE)) {
        let mut x = LEFT;
        for (part, colour) in worst.why.parts.iter().zip(COLOURS.iter().cycle()) {
            let width = part.ns.max(0) as f64 / longest * WIDTH;
            let text = escaped(&format!("{}: {} us", part.text, us(part.ns as f64)));
            _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"><title>{text}</title></rect>",
                LANE - 6
            );
            x += width;
        }
        let (at, late) = (format!("{:.3} s", worst.at as f64 / 1e9), us(worst.why.late as f64));
        _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{0}\">{at}</text><text x=\"{1:.1}\" y=\"{0}\">{late} us</text>",
            y + 13,
            x + 6.0
        );
    }
    svg + "</svg>"
}

fn us(ns: f64) -> String {
    format!("{:.1}", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Explanation, Kind, Part};
    use crate::results::Worst;

    #[test]
    fn the_report_needs_no_other_file_and_has_every_part() {
        let mut results = Results::new("Linux <6>".into(), "period 1 ms".into(), "16 loops".into(), 100_000);
        let part = |ns, text: &str| Part { kind: Kind::Preempted, ns, thread: None, text: text.into() };
        let parts = vec![part(150_000, "a thread <t>"), part(100_000, "its switch")];
        let why = Explanation { late: 250_000, parts, text: "250 us late".into() };
        let worst = Worst { round: 1, at: 1_500_000_000, why };
        for (name, rounds, skipped) in
            [("idle", vec![vec![10_000, 250_000]], None), ("fifo", vec![], Some("no right".into()))]
        {
            results.scenarios.push(Scenario {
                name: name.into(),
                meaning: "m".into(),
                rounds,
                stolen: vec![0],
                skipped,
                worst: vec![worst.clone()],
                agreement: None,
            });
        }
        results.notes.push("loud".into());
        let page = report(&results);
        for part in [
            "Linux &lt;6&gt;",
            "16 loops",
            "<td>idle<br>",
            "250.0",
            "over 100.0 us",
            "fifo: no right",
            "<li>at 1.500 s: 250 us late</li>",
            // Three fifths of the lane, and the rest.
            "x=\"90.0\" y=\"4\" width=\"420.0\"",
            "<title>a thread &lt;t&gt;: 150.0 us</title>",
            "x=\"510.0\" y=\"4\" width=\"280.0\"",
            "loud",
            "</svg>",
        ] {
            assert!(page.contains(part), "{part}");
        }
        // The only address is the name of SVG's vocabulary, which is not fetched.
        let addresses: Vec<&str> =
            page.match_indices("://").map(|(at, _)| &page[at..(at + 20).min(page.len())]).collect();
        assert!(addresses.iter().all(|address| address.starts_with("://www.w3.org/2000/s")), "{addresses:?}");
        assert!(["src=", "href=", "@import", "url(", "<script"].iter().all(|part| !page.contains(part)));
    }
}
