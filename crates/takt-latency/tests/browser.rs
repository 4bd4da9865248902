//! The report opens in a browser that has no network.

use takt_latency::{Explanation, Results, Scenario, Worst, html};
use takt_testing::{Capability, browse, skip};

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
    std::fs::write(&page, html(&results())).unwrap();
    let picture = room.path().join("report.png");
    let screenshot = format!("--screenshot={}", picture.display());
    let Some(shown) = browse(&page, "", &["--dump-dom", "--window-size=1200,2200"]) else {
        return skip(Capability::Browser, "neither chromium nor google-chrome is installed");
    };
    let dom = String::from_utf8_lossy(&shown.stdout);
    let said = String::from_utf8_lossy(&shown.stderr);
    // The browser writes the document as it has understood it: a wrong nesting or a missing end would show here.
    for part in [
        "<title>Takt: lateness</title>",
        "<td>stressed<br>",
        "isolated: CPU sets need root",
        "at 12.300 s: 412 us late: 380 us `kworker/1:2` (7) at SCHED_OTHER &lt;b&gt;",
        "lateness (log scale)</text>",
    ] {
        assert!(dom.contains(part), "{part}: {dom}\n{said}");
    }
    for (part, count) in [("<svg", 2), ("</svg>", 2), ("<polyline", 6), ("<tr>", 4), ("<table>", 1)] {
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
