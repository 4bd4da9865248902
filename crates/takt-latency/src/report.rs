//! A report as one HTML file, which needs no network.

use crate::chart::{density, escaped, tails};
use crate::figures::{Figures, QUANTILES};
use crate::results::{Results, Scenario};
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:76em;margin:2em auto;padding:0 1em;color:#111}\
    .wide{overflow-x:auto}table{border-collapse:collapse;margin:1em 0;font-size:13px}\
    th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid #ddd}\
    th:first-child,td:first-child{text-align:left;min-width:15em}small{color:#555}td+td,th small{white-space:nowrap}\
    svg{width:100%;height:auto}";

/// The report: settings, a table with 95 % confidence intervals, both charts, what was not measured and why, and notes.
#[must_use]
pub fn html(results: &Results) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Takt: lateness</title>\n\
         <style>{STYLE}</style></head><body>\n<h1>Lateness of a process on this machine</h1>\n\
         <p>{}<br>Task: {}<br>Stress: {}</p>\n",
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
    }
    list(&mut put, "Notes", results.notes.iter().cloned());
    page + "</body></html>\n"
}

fn list(put: &mut impl FnMut(String), title: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.map(|entry| format!("<li>{}</li>", escaped(&entry))).collect();
    if !entries.is_empty() {
        put(format!("<h2>{title}</h2>\n<ul>{}</ul>", entries.join("\n")));
    }
}

fn us(ns: f64) -> String {
    format!("{:.1}", ns / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_stands_alone_and_has_every_part() {
        let mut results = Results::new("Linux <6>".into(), "period 1 ms".into(), "16 loops".into(), 100_000);
        for (name, rounds, skipped) in
            [("idle", vec![vec![10_000, 250_000]], None), ("fifo", vec![], Some("no right".into()))]
        {
            results.scenarios.push(Scenario {
                name: name.into(),
                meaning: "m".into(),
                rounds,
                stolen: vec![0],
                skipped,
                worst: Vec::new(),
                agreement: None,
            });
        }
        results.notes.push("loud".into());
        let page = html(&results);
        for part in [
            "Linux &lt;6&gt;",
            "16 loops",
            "<td>idle<br>",
            "250.0",
            "over 100.0 us",
            "fifo: no right",
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
