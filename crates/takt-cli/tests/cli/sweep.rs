//! `takt sweep`: known success ratios, the same bytes however it is computed, interrupted experiments, bad input.

use crate::common::{Room, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;

const SMALL: &[&str] = &["sweep", "schedulability", "--points", "3.0,3.6", "--sets", "50", "--duration", "1s"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    [SMALL, more].concat()
}

/// Success ratios for four CPUs under the generator of AIRS, from 1000 sets per point, computed once by an independent program:
/// EDF-WM with the exact piece, C=D, partitioned EDF, BCL, and global EDF simulated for 60 s without overhead.
const NAMES: [&str; 7] = ["bcl", "ff", "wf", "wm_ff", "wm_wf", "ceqd_ff", "gedf_sim"];
const KNOWN: [(&str, [f64; 7]); 3] = [
    ("3.4", [0.014, 0.813, 0.392, 0.977, 0.840, 0.991, 0.305]),
    ("3.6", [0.004, 0.572, 0.182, 0.894, 0.675, 0.949, 0.138]),
    ("3.8", [0.000, 0.200, 0.050, 0.632, 0.368, 0.737, 0.034]),
];

/// Compares 300 sets per point with what is known of these tests.
fn compare(names: &[&str], known: &[(&str, [f64; 7])]) {
    let room = Room::new();
    let points = known.iter().map(|(point, _)| *point).collect::<Vec<_>>().join(",");
    let list = names.join(",");
    let done = room.takt(&["sweep", "schedulability", "--points", &points, "--sets", "300", "--test", &list]).expect(0);
    let mut lines = done.stdout.lines();
    assert_eq!(lines.next(), Some(format!("utilisation,sets,{list}").as_str()));
    assert_eq!(done.stdout.lines().count(), 1 + known.len());
    for ((point, known), line) in known.iter().zip(lines) {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells[..2], [*point, "300"]);
        for (name, cell) in names.iter().zip(&cells[2..]) {
            let known = known[NAMES.iter().position(|n| n == name).unwrap()];
            let found: f64 = cell.parse().unwrap();
            // Three standard deviations of 300 sets; docs/analysis.md has the comparison with 10,000, which is within 0.04.
            let spread = 3.0 * (known * (1.0 - known) / 300.0).sqrt();
            assert!((found - known).abs() <= spread + 0.02, "{name} at {point}: {found}, known {known}");
        }
    }
}

#[test]
fn the_ratios_are_the_known_ones() {
    compare(&NAMES[..6], &KNOWN);
}

#[test]
fn the_simulated_ratios_are_the_known_ones() {
    // Long simulations are those without a miss, so where there are few it is quick.
    compare(&NAMES[6..], &KNOWN[2..]);
}

#[test]
fn the_seed_alone_decides() {
    let room = Room::new();
    let first = room.takt(&with(&["--threads", "1", "--svg", "a.svg"])).expect(0).stdout;
    let again = room.takt(&with(&["--threads", "7", "--svg", "b.svg"])).expect(0).stdout;
    assert_eq!(first, again);
    assert_eq!(room.text("a.svg"), room.text("b.svg"));
    assert!(room.text("a.svg").starts_with("<svg") && room.text("a.svg").contains("wm_ff"));
    assert_ne!(first, room.takt(&with(&["--seed", "2"])).expect(0).stdout);
    let object = room.takt(&with(&["--json"])).json();
    assert_eq!(object["setup"]["seed"], 1);
    let ratio = first.lines().nth(1).unwrap().split(',').nth(6).unwrap().parse::<f64>().unwrap();
    assert_eq!(object["points"][0]["tests"][4]["test"], "ff");
    assert_eq!(object["points"][0]["tests"][4]["accepted"].as_f64().unwrap() / 50.0, ratio);
}

#[test]
fn what_is_done_is_not_done_again() {
    let room = Room::new();
    let whole = room.takt(&with(&[])).expect(0).stdout;
    assert_eq!(room.takt(&with(&["--state", "s.json"])).expect(0).stdout, whole);
    let state: Value = serde_json::from_str(&room.text("s.json")).unwrap();
    assert_eq!(state["done"].as_array().unwrap().len(), 6);
    // One block is lost, and is found again.
    let mut less = state.clone();
    less["done"].as_array_mut().unwrap().remove(3);
    fs::write(room.path("s.json"), less.to_string()).unwrap();
    assert_eq!(room.takt(&with(&["--state", "s.json"])).expect(0).stdout, whole);
    assert_eq!(serde_json::from_str::<Value>(&room.text("s.json")).unwrap(), state);
    // What is there is believed: nothing was computed here.
    let mut other = state.clone();
    (0..6).for_each(|block| other["done"][block][3] = json!(vec![1; 11]));
    fs::write(room.path("s.json"), other.to_string()).unwrap();
    let said = room.takt(&with(&["--state", "s.json"])).expect(0).stdout;
    assert_eq!(said.lines().nth(1).unwrap(), format!("3.0,50{}", ",0.0600".repeat(11)));
    // More sets go on from there, another experiment does not.
    fs::write(room.path("s.json"), state.to_string()).unwrap();
    let more = ["sweep", "schedulability", "--points", "3.0,3.6", "--sets", "60", "--duration", "1s"];
    let fresh = room.takt(&more).expect(0).stdout;
    assert_eq!(room.takt(&[&more[..], &["--state", "s.json"]].concat()).expect(0).stdout, fresh);
    for (change, says) in [(&["--seed", "2"][..], "its `seed` is 1"), (&["--cpus", "5"], "its `cpus` is 4")] {
        let done = room.takt(&[SMALL, &["--state", "s.json"], change].concat()).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{}", done.stderr);
    }
    for (text, says) in [("{}", "is not the state"), ("", "is not the state")] {
        fs::write(room.path("s.json"), text).unwrap();
        let done = room.takt(&with(&["--state", "s.json"])).expect(2);
        assert!(done.stderr.contains(says), "{}", done.stderr);
    }
    let mut broken = state;
    broken["done"][0][3] = json!([99]);
    fs::write(room.path("s.json"), broken.to_string()).unwrap();
    assert!(room.takt(&with(&["--state", "s.json"])).expect(2).stderr.contains("is damaged"));
    room.takt(&with(&["--state", "missing/s.json"])).expect(2);
}

#[test]
fn an_interrupted_experiment_goes_on() {
    let room = Room::new();
    let args =
        ["sweep", "schedulability", "--points", "2.0,2.2", "--sets", "1000", "--test", "gedf_sim,ff", "--state", "s"];
    let blocks = || {
        let state = serde_json::from_str::<Value>(&room.text("s")).unwrap_or_default();
        state["done"].as_array().cloned().unwrap_or_default()
    };
    let first = || blocks().into_iter().find(|row| row[0] == 0 && row[1] == 0);
    let running = room.start(&args);
    until("the first block is done", || first().is_some());
    running.signal(Signal::KILL);
    running.wait_unchecked();
    let done = blocks().len();
    assert!((1..100).contains(&done), "{done} blocks of 100");
    // A fresh experiment, small enough to end here, says the same of these sets.
    let row = first().unwrap();
    let fresh =
        room.takt(&["sweep", "schedulability", "--points", "2.0,2.2", "--sets", "20", "--test", "ff", "--json"]);
    assert_eq!(fresh.json()["points"][0]["tests"][0]["accepted"], row[3][1], "{row}");
}

#[test]
fn sets_are_written_as_they_are_read() {
    let room = Room::new();
    let kinds: [&[&str]; 4] = [
        &["--utilisation", "3.3"],
        &["--utilisation", "0.9", "--generator", "uunifast", "--tasks", "5"],
        &["--utilisation", "2.5", "--generator", "uunifast-discard", "--tasks", "6", "--deadlines", "constrained"],
        &["--utilisation", "5.9", "--generator", "randfixedsum", "--tasks", "7", "--periods", "log-uniform:100us..10s"],
    ];
    for kind in kinds {
        let args = [&["sweep", "generate", "--sets", "20"], kind].concat();
        let csv = room.takt(&args).expect(0).stdout;
        assert_eq!(csv, room.takt(&args).expect(0).stdout);
        fs::write(room.path("sets.csv"), &csv).unwrap();
        let object = room.takt(&["analyze", "sets.csv", "--test", "necessary", "--cpus", "8", "--json"]).json();
        let wanted = kind[1].parse::<f64>().unwrap() * 1000.0;
        let sets = object["sets"].as_array().unwrap();
        assert_eq!(sets.len(), 20);
        for set in sets {
            let found = set["utilisation_per_mille"].as_f64().unwrap();
            assert!((found - wanted).abs() < 0.02 * wanted + 2.0, "{kind:?}: {set}");
        }
    }
}

#[test]
fn bad_experiments_are_told() {
    let room = Room::new();
    for (args, says) in [
        (
            &["sweep", "generate", "--utilisation", "5", "--generator", "uunifast", "--tasks", "4"][..],
            "cannot be drawn",
        ),
        (&["sweep", "generate", "--utilisation", "0"], "is no utilisation"),
        (&["sweep", "generate", "--utilisation", "1", "--periods", "even:1ms..2ms"], "uniform"),
        (&["sweep", "schedulability", "--points", "2..4"], "needs a step"),
        (&["sweep", "schedulability", "--points", "11", "--generator", "randfixedsum"], "cannot be drawn"),
        (&["sweep", "schedulability", "--test", "efd"], "there is no test `efd`"),
        (&["sweep", "schedulability", "--sets", "0"], "--sets"),
        (&["sweep"], "Usage"),
    ] {
        let done = room.takt(args).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{args:?}: {}", done.stderr);
    }
}
