//! Results for people and for programs.

use serde_json::{Value, json};
use std::io::{self, Write};
use takt::report::{Cell, aligned};
use takt_core::time::Span;
use takt_latency::{Agreement, Claim, Difference, Figures, Interval, QUANTILES, Results, difference};
use takt_trace::page::Document;

/// A time of a table, in microseconds with a decimal.
fn us(ns: f64) -> Cell {
    format!("{:.1}", ns / 1e3).into()
}

/// The difference of `idle-fifo` and the peer, where both were measured: the name of the quantile and the interval.
fn beside(results: &Results) -> Vec<(&'static str, Interval)> {
    let of = |name: &str| results.measured().find(|scenario| scenario.name == name && scenario.has_intervals());
    let Some((own, peer)) = of("idle-fifo").zip(of("cyclictest")) else { return Vec::new() };
    QUANTILES.iter().take(2).map(|(quantile, name)| (*name, difference(own, peer, *quantile))).collect()
}

/// A time with its interval, in microseconds.
fn with_interval(interval: &Interval) -> String {
    let us = |ns: i64| ns as f64 / 1e3;
    let ends = interval.ends.map(|(low, high)| format!(" (95 %: {:.1} to {:.1})", us(low), us(high)));
    format!("{:.1} us{}", us(interval.value), ends.unwrap_or_default())
}

/// The comparison of a scenario with the kernel's trace, in words.
fn agreement(scenario: &str, found: &Agreement, limit: Span) -> String {
    let verdict = if found.holds(limit.ns()) { "agrees" } else { "DOES NOT AGREE" };
    let us = |ns: i64| format!("{:.3} us", ns as f64 / 1e3);
    let mut text = format!(
        "kernel's trace: {verdict} with {scenario} (limit {limit}): {} wake-ups differ by at most {}, quantiles by at most {}",
        found.pairs,
        us(found.each),
        us(found.quantile)
    );
    if found.interrupted > 0 {
        text += &format!("; {} were interrupted after the return, and differ for each piece", found.interrupted);
    }
    if found.behind > 0 {
        text += &format!("; {} began late and had no timer", found.behind);
    }
    if found.missing > 0 {
        text += &format!("; {} are not in the trace", found.missing);
    }
    text
}

/// Both ends of an interval, in microseconds.
fn between(ends: Option<(i64, i64)>) -> String {
    ends.map_or("-".to_owned(), |(low, high)| format!("{:.1} to {:.1}", low as f64 / 1e3, high as f64 / 1e3))
}

pub(super) fn results(results: &Results, claims: &[Claim], check: Option<Span>, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let figures = results.measured().map(|scenario| (scenario, Figures::of(scenario, results.limit)));
    if json {
        let range = |i: &Interval| json!({"value": i.value, "low": i.ends.map(|ends| ends.0), "high": i.ends.map(|ends| ends.1)});
        let of = |(scenario, f): (&takt_latency::Scenario, Figures)| {
            let quantiles = f.quantiles.iter().zip(QUANTILES).map(|(q, (_, name))| (name.to_owned(), range(q)));
            json!({"scenario": scenario.name, "count": f.count, "min_ns": f.min, "mean_ns": f.mean, "variance_ns2": f.variance,
                "quantiles_ns": quantiles.collect::<serde_json::Map<String, Value>>(), "over_limit": f.over,
                "stolen_ns": f.stolen, "worst": scenario.worst, "agreement": scenario.agreement})
        };
        let skipped =
            results.scenarios.iter().filter_map(|s| Some(json!({"scenario": s.name, "reason": s.skipped.as_ref()?})));
        let beside: serde_json::Map<String, Value> =
            beside(results).iter().map(|(name, interval)| ((*name).to_owned(), range(interval))).collect();
        let claims: Vec<Value> = claims
            .iter()
            .map(|claim| json!({"claim": claim.text, "measured_ns": claim.measured.as_ref().map(range), "holds": claim.holds}))
            .collect();
        let object = json!({"beside_cyclictest_ns": beside, "checks": claims,
            "machine": results.machine, "task": results.task, "stress": results.stress, "limit_ns": results.limit,
            "scenarios": figures.map(of).collect::<Vec<_>>(), "skipped": skipped.collect::<Vec<_>>(), "notes": results.notes});
        return writeln!(out, "{object}");
    }
    writeln!(out, "{}\ntask: {}\nstress: {}\n", results.machine, results.task, results.stress)?;
    let over = format!("over {}", Span::from_ns(results.limit));
    let head = [
        "scenario",
        "samples",
        "min",
        "mean",
        "sd",
        "p50",
        "p50 (95 %)",
        "p99",
        "p99 (95 %)",
        "p99.9",
        "max",
        &over,
        "stolen",
    ];
    let mut rows = vec![head.map(Cell::from).to_vec()];
    for (scenario, f) in figures {
        let q = |index: usize| f.quantiles[index];
        let ends = |index: usize| Cell::from(between(q(index).ends));
        let value = |index| us(q(index).value as f64);
        rows.push(vec![
            scenario.name.as_str().into(),
            f.count.to_string().into(),
            us(f.min as f64),
            us(f.mean),
            us(f.variance.sqrt()),
            value(0),
            ends(0),
            value(1),
            ends(1),
            value(2),
            value(3),
            f.over.to_string().into(),
            Cell::Measured(Span::from_ns(f.stolen)),
        ]);
    }
    aligned(&mut out, &rows, |column| column == 0)?;
    writeln!(out, "lateness in microseconds; sd: standard deviation; 95 %: confidence intervals by rounds")?;
    for scenario in &results.scenarios {
        if let Some(why) = scenario.unmeasured() {
            writeln!(out, "not measured: {why}")?;
        }
    }
    for (name, interval) in beside(results) {
        writeln!(out, "idle-fifo - cyclictest, {name}: {}", with_interval(&interval))?;
    }
    for scenario in results.measured().filter(|scenario| !scenario.worst.is_empty()) {
        writeln!(out, "the latest of {}:", scenario.name)?;
        scenario.worst.iter().try_for_each(|worst| writeln!(out, "  {worst}"))?;
    }
    for claim in claims {
        let verdict = if claim.holds { "holds" } else { "DOES NOT HOLD" };
        let measured =
            claim.measured.as_ref().map_or(String::new(), |interval| format!("; {}", with_interval(interval)));
        writeln!(out, "check: {verdict}: {}{measured}", claim.text)?;
    }
    for (scenario, found) in results.agreements() {
        writeln!(out, "{}", agreement(&scenario.name, found, check.unwrap_or(Span::ZERO)))?;
    }
    for note in &results.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

pub(super) fn differences(
    [first, second]: [&Results; 2],
    all: &[Difference],
    notes: &[String],
    json: bool,
) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        let of = |d: &Difference| {
            json!({"scenario": d.scenario, "quantile": d.quantile, "first_ns": d.first, "second_ns": d.second,
                "low_ns": d.ends.map(|ends| ends.0), "high_ns": d.ends.map(|ends| ends.1), "differs": d.differs})
        };
        let object = json!({"differences": all.iter().map(of).collect::<Vec<_>>(), "notes": notes});
        return writeln!(out, "{object}");
    }
    writeln!(out, "first:  {}; {}\nsecond: {}; {}\n", first.machine, first.task, second.machine, second.task)?;
    let head = ["scenario", "quantile", "first", "second", "second - first (95 %)", "verdict"];
    let mut rows = vec![head.map(Cell::from).to_vec()];
    for d in all {
        let verdict = match (d.differs, d.second > d.first) {
            (false, _) => "within noise",
            (true, true) => "later",
            (true, false) => "earlier",
        };
        rows.push(vec![
            d.scenario.as_str().into(),
            d.quantile.into(),
            us(d.first as f64),
            us(d.second as f64),
            between(d.ends).into(),
            verdict.into(),
        ]);
    }
    aligned(&mut out, &rows, |column| column == 0 || column == 5)?;
    writeln!(
        out,
        "lateness in microseconds; each interval is of one figure, and all verdicts together are wrong with at most 5 %"
    )?;
    notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

/// Colours of the charts follow those of the page.
const STYLE: &str = include_str!("report.css");

/// The report as a page that loads nothing.
pub(super) fn page(results: &Results) -> String {
    let document = Document {
        title: "Lateness of a process on this machine",
        style: STYLE,
        scripts: &[],
        data: &[],
        body: &takt_latency::report(results),
        drawing: "",
        drawing_note: "",
    };
    document.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_latency::{Explanation, Scenario, Worst};
    use takt_testing::{Capability, browse, skip};

    /// The report has the parts of all pages: a policy that allows nothing but its own style, and colours in light and dark.
    #[test]
    fn the_report_is_a_page_that_loads_nothing() {
        let mut results = Results::new("Linux <6>".into(), "period 1 ms".into(), "none".into(), 100_000);
        let mut scenario = Scenario::new("idle", "nothing else");
        scenario.rounds = vec![vec![10_000, 250_000]];
        scenario.stolen = vec![0];
        results.scenarios.push(scenario);
        let page = page(&results);
        for part in [
            "default-src 'none'; script-src 'none'; style-src 'sha256-",
            "prefers-color-scheme: dark",
            "Linux &lt;6&gt;",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(
            page.contains("<title>Tails of the lateness</title>")
                && page.contains("<title>Density of the lateness</title>")
        );
        assert!(
            ["src=", "href=", "@import", "url(", "<script", "<noscript"].iter().all(|part| !page.contains(part)),
            "{page}"
        );
    }

    /// Three scenarios with two thousand samples each, and one that was not measured.
    fn results() -> Results {
        let mut results = Results::new("Linux <6>".into(), "period 1ms".into(), "cpu".into(), 100_000);
        for (scale, name) in [(1, "idle"), (4, "fifo"), (90, "stressed")] {
            let mut scenario = Scenario::new(name, "a scenario");
            let round = |r: i64| (1..=200).map(|i| scale * (10_000 + 2_000_000 / (i + r))).collect();
            scenario.rounds = (0..10).map(round).collect();
            scenario.stolen = vec![0; 10];
            let text = "412 us late: 380 us `kworker/1:2` (7) at SCHED_OTHER <b>".to_owned();
            scenario.worst.push(Worst {
                round: 1,
                at: 12_300_000_000,
                why: Explanation { late: 412_000, parts: Vec::new(), text },
            });
            results.scenarios.push(scenario);
        }
        let mut skipped = Scenario::new("isolated", "a scenario");
        skipped.skipped = Some("CPU sets need root".into());
        results.scenarios.push(skipped);
        results
    }

    #[test]
    fn the_report_opens_in_a_browser_without_a_network() {
        let room = tempfile::tempdir().unwrap();
        let page = room.path().join("report.html");
        std::fs::write(&page, super::page(&results())).unwrap();
        let picture = room.path().join("report.png");
        let screenshot = format!("--screenshot={}", picture.display());
        let Some(shown) = browse(&page, "", &["--dump-dom", "--window-size=1200,2200"]) else {
            return skip(Capability::Browser, "neither chromium nor google-chrome is installed");
        };
        let dom = String::from_utf8_lossy(&shown.stdout);
        let said = String::from_utf8_lossy(&shown.stderr);
        // The browser writes the document as it has understood it: a wrong nesting or a missing end would show here.
        for part in [
            "<title>Lateness of a process on this machine</title>",
            "<td>stressed<br>",
            "isolated: CPU sets need root",
            "at 12.300 s: 412 us late: 380 us `kworker/1:2` (7) at SCHED_OTHER &lt;b&gt;",
            "lateness (log scale)</text>",
        ] {
            assert!(dom.contains(part), "{part}: {dom}\n{said}");
        }
        for (part, count) in [("<polyline", 6), ("<tr>", 4), ("<table>", 1)] {
            assert_eq!(dom.matches(part).count(), count, "{part}: {dom}");
        }
        assert!(!said.contains("net::ERR"), "{said}");
        let taken = browse(&page, "", &[&screenshot, "--window-size=1200,2200"]).unwrap();
        let bytes = std::fs::metadata(&picture).map_or(0, |file| file.len());
        // A blank page of that size has some kilobytes.
        assert!(bytes > 40_000, "{bytes} bytes: {}", String::from_utf8_lossy(&taken.stderr));
        if let Some(keep) = std::env::var_os("TAKT_KEEP_PICTURE") {
            std::fs::copy(&picture, keep).unwrap();
        }
    }
}
