//! `--html` of `takt sweep`: the page of curves, opened in a browser without a network and driven by its own test.

use crate::common::Room;
use crate::view::tested;
use std::collections::BTreeMap;

/// The rows of a table in CSV, each by column.
fn rows(csv: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().expect("a table has a head").split(',').collect();
    lines.map(|line| head.iter().copied().zip(line.split(',')).collect()).collect()
}

/// The texts of a page's tables, by row.
fn cells(page: &str) -> Vec<Vec<String>> {
    let cells = |row: &str| {
        let row = row.split("</tr>").next().unwrap_or_default().replace("</th>", "</td>");
        row.split("</td>").filter_map(|cell| cell.rsplit_once('>')).map(|(_, text)| text.to_owned()).collect()
    };
    page.split("<tr>").skip(1).map(cells).collect()
}

/// The page opens without an error, all its checks hold, and the pointer and the table show these texts, by panel, point and curve.
fn shows(room: &Room, page: &str, expected: &[Vec<Vec<String>>]) {
    let text = room.text(page);
    assert!(text.contains("default-src 'none'; script-src 'sha256-"), "{page}");
    for word in ["src=", "href=", "@import", "url("] {
        assert!(!text.contains(word), "{page}: {word}");
    }
    let in_tables = cells(&text);
    let values: Vec<&[String]> = in_tables.iter().map(|row| &row[1..]).collect();
    let mut from = 0;
    for panel in expected {
        // The first row has the names.
        let found = &values[from + 1..=from + panel.len()];
        assert_eq!(found, panel.iter().map(Vec::as_slice).collect::<Vec<_>>(), "{page}");
        from += 1 + panel.len();
    }
    assert_eq!(from, values.len(), "{page}");
    let Some(result) = tested(&room.path(page)) else { return };
    for (check, holds) in result["checks"].as_object().unwrap() {
        assert_eq!(holds, true, "{page}: {check}");
    }
    let of = |value: &serde_json::Value| value.as_array().unwrap().clone();
    let hovers: Vec<Vec<Vec<String>>> = of(&result["hovers"])
        .iter()
        .map(|panel| {
            of(panel).iter().map(|at| of(at).iter().map(|row| row[1].as_str().unwrap().to_owned()).collect()).collect()
        })
        .collect();
    assert_eq!(hovers, expected, "{page}");
}

/// Rows of a table, in groups of so many curves, as texts of a mean, its interval and the number of runs.
fn means(rows: &[BTreeMap<&str, &str>], curves: usize, column: &str) -> Vec<Vec<String>> {
    let text = |row: &BTreeMap<&str, &str>| {
        let interval = row[format!("{column}_ci95").as_str()];
        format!("{} ± {interval}, {} runs", row[column], row["runs"])
    };
    rows.chunks(curves).map(|rows| rows.iter().map(text).collect()).collect()
}

#[test]
fn the_page_of_loads_has_the_values_of_the_table() {
    let room = Room::new();
    let args = "sweep load --cpus 2 --generator uunifast-discard --tasks 6 --loads 1.0,2.0,2.5 --sets 4 --duration 200ms \
        --policies g-edf,ng-gua,g-fifo --columns dsr,migrations";
    let args: Vec<&str> = args.split_whitespace().collect();
    let more = ["--html", "a.html", "--svg", "a.svg", "--title", "</script><b>x"];
    let csv = room.takt(&[&args[..], &more, &["--threads", "1"]].concat()).expect(0).stdout;
    let rows = rows(&csv);
    shows(&room, "a.html", &[means(&rows, 3, "dsr"), means(&rows, 3, "migrations")]);
    let page = room.text("a.html");
    assert!(!page.contains("<b>x") && page.contains("<h1>&lt;/script&gt;&lt;b&gt;x</h1>"), "{page}");
    assert!(page.contains(&format!("<code>takt {}</code>", args.join(" "))), "{page}");
    for setting in
        ["<dt>simulated</dt><dd>200ms</dd>", "<dt>loads</dt><dd>1.0, 2.0, 2.5</dd>", "Permission is hereby granted"]
    {
        assert!(page.contains(setting), "{setting}: {page}");
    }
    // Browsers without JavaScript show the picture.
    let picture = room.text("a.svg");
    let body = picture.split_once("</style>").expect("the picture has a style").1;
    assert!(page.split_once("<noscript>").unwrap().1.contains(body));
    // Threads change no byte, nor does a merge of parts.
    room.takt(&[&args[..], &["--html", "b.html", "--title", "</script><b>x", "--threads", "3"]].concat()).expect(0);
    assert_eq!(room.text("b.html"), page);
    for part in ["1", "2"] {
        room.takt(&[&args[..], &["--shard", &format!("{part}/2"), "--state", &format!("p{part}")]].concat()).expect(0);
    }
    room.takt(&["sweep", "merge", "p2", "p1", "--html", "m.html", "--title", "</script><b>x"]).expect(0);
    assert_eq!(room.text("m.html"), page);
    let refused = room.takt(&[&args[..], &["--html", "missing/a.html"]].concat()).expect(2);
    assert!(refused.stderr.contains("[unwritable-file]"), "{}", refused.stderr);
    room.takt(&[&args[..], &["--html", "a.svg", "--svg", "a.svg"]].concat()).expect(2);
}

#[test]
fn the_page_of_verdicts_has_the_ratios_and_counts() {
    let room = Room::new();
    let args = ["sweep", "schedulability", "--points", "2.0,3.4,4.0", "--sets", "12", "--test", "gfb,ff,wm_ff"];
    let csv = room.takt(&[&args[..], &["--html", "a.html"]].concat()).expect(0).stdout;
    let object = room.takt(&[&args[..], &["--json"]].concat()).expect(0).stdout;
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    let page = cells(&room.text("a.html"));
    let mut points = Vec::new();
    for (at, row) in rows(&csv).iter().enumerate() {
        let text = |(test, name): (usize, &str)| {
            let accepted = &object["points"][at]["tests"][test]["accepted"];
            let cell = &page[at + 1][test + 1];
            assert!(cell.starts_with(row[name]) && cell.ends_with(&format!("), {accepted} of 12 sets")), "{cell}");
            cell.clone()
        };
        points.push(["gfb", "ff", "wm_ff"].into_iter().enumerate().map(text).collect());
    }
    // By Wilson, the interval of 12 of 12 begins at 1 / (1 + 1.96² / 12).
    assert_eq!(page[1][2], "1.0000 (0.7575 to 1.0000), 12 of 12 sets");
    shows(&room, "a.html", &[points]);
}

#[test]
fn the_page_of_copies_says_which_numbers_are_refused() {
    let room = Room::with(
        "policy: g-cbs\ncpus: 0-1\ntasks:\n  - {name: p, period: 40ms, runtime: 12ms, reservation: {budget: 14ms, period: 40ms}}\n",
    );
    let args = [
        "sweep",
        "copies",
        "w.yaml",
        "--copies",
        "p=4..6",
        "--policies",
        "g-cbs,p-edf",
        "--seeds",
        "1..2",
        "--duration",
        "3s",
    ];
    let csv = room.takt(&[&args[..], &["--html", "a.html"]].concat()).expect(0).stdout;
    let rows = rows(&csv);
    let refused = |panel: Vec<Vec<String>>| -> Vec<Vec<String>> {
        let text = |text: String| if text.ends_with(" 0 runs") { "refused".to_owned() } else { text };
        panel.into_iter().map(|row| row.into_iter().map(text).collect()).collect()
    };
    shows(&room, "a.html", &[refused(means(&rows, 2, "worst")), refused(means(&rows, 2, "typical"))]);
}
