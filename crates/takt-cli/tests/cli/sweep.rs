//! `takt sweep`: known success ratios, the same bytes however it is computed, interrupted experiments, bad input.

use crate::common::{Room, sealed, until};
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

/// Random task sets have four CPUs, which a policy for one CPU cannot have.
#[test]
fn a_policy_for_one_cpu_is_refused_with_the_number_of_cpus_by_default() {
    let room = Room::new();
    let sweep = ["sweep", "load", "--policies", "g-edf,edf", "--loads", "0.5", "--sets", "1", "--duration", "100ms"];
    let said = room.takt(&sweep).expect(2).stderr;
    let hint = "hint: task sets have 4 CPUs by default: add `--cpus 1`, or leave `edf` out of `--policies`";
    assert!(said.contains(hint), "{said}");
    let said = room.takt(&[&sweep[..], &["--cpus", "2"]].concat()).expect(2).stderr;
    assert!(said.contains("hint: leave it out of `--policies`, or change `--cpus`"), "{said}");
    room.takt(&[&sweep[..], &["--cpus", "1"]].concat()).expect(0);
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
fn completed_sets_are_not_repeated() {
    let room = Room::new();
    let whole = room.takt(&with(&[])).expect(0).stdout;
    assert_eq!(room.takt(&with(&["--state", "s.json"])).expect(0).stdout, whole);
    let state: Value = serde_json::from_str(&room.text("s.json")).unwrap();
    // The full blocks of a point are one row, and its last block is another.
    let rows: Vec<Value> =
        state["done"].as_array().unwrap().iter().map(|row| json!([row[0], row[1], row[2]])).collect();
    assert_eq!(rows, [json!([0, 0, 40]), json!([0, 2, 10]), json!([1, 0, 40]), json!([1, 2, 10])]);
    // A block is lost, and is found again.
    let mut less = state.clone();
    less["done"].as_array_mut().unwrap().remove(2);
    fs::write(room.path("s.json"), sealed(less.clone())).unwrap();
    assert_eq!(room.takt(&with(&["--state", "s.json"])).expect(0).stdout, whole);
    assert_eq!(serde_json::from_str::<Value>(&room.text("s.json")).unwrap(), state);
    // The state is believed: nothing was computed here.
    let mut other = state.clone();
    (0..4).for_each(|row| other["done"][row][3] = json!(vec![2; 11]));
    fs::write(room.path("s.json"), sealed(other)).unwrap();
    let said = room.takt(&with(&["--state", "s.json"])).expect(0).stdout;
    assert_eq!(said.lines().nth(1).unwrap(), format!("3.0,50{}", ",0.0800".repeat(11)));
    // More sets continue from there, another experiment does not.
    fs::write(room.path("s.json"), sealed(state.clone())).unwrap();
    let more = ["sweep", "schedulability", "--points", "3.0,3.6", "--sets", "60", "--duration", "1s"];
    let fresh = room.takt(&more).expect(0).stdout;
    assert_eq!(room.takt(&[&more[..], &["--state", "s.json"]].concat()).expect(0).stdout, fresh);
    for (change, says) in [
        (&["--seed", "2"][..], "its `seed` is 1"),
        (&["--cpus", "5"], "its `cpus` is 4"),
        (&["--shard", "1/2"], "its `shard` is \"1/1\", and now it is \"1/2\""),
        (&[], "`s.json` is of 60 sets or runs at a point, and now there are 50"),
    ] {
        let done = room.takt(&[SMALL, &["--state", "s.json"], change].concat()).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{}", done.stderr);
    }
    for text in ["{}", "a", r#"{"format": "takt sweep schedulability 2", "done": []}"#] {
        fs::write(room.path("s.json"), text).unwrap();
        let done = room.takt(&with(&["--state", "s.json"])).expect(2);
        assert!(done.stderr.contains("[wrong-format]"), "{}", done.stderr);
    }
    let mut broken = state;
    broken["done"][0][3] = json!([99]);
    fs::write(room.path("s.json"), sealed(broken)).unwrap();
    assert!(room.takt(&with(&["--state", "s.json"])).expect(2).stderr.contains("[damaged-file]"));
    room.takt(&with(&["--state", "missing/s.json"])).expect(2);
}

#[test]
fn an_interrupted_experiment_continues() {
    let room = Room::new();
    let args =
        ["sweep", "schedulability", "--points", "2.0,2.2", "--sets", "100000", "--test", "gedf_sim,ff", "--state", "s"];
    let rows = || {
        let state = serde_json::from_str::<Value>(&room.text("s")).unwrap_or_default();
        state["done"].as_array().cloned().unwrap_or_default()
    };
    let first = || rows().into_iter().find(|row| row[0] == 0 && row[1] == 0);
    let running = room.start(&args);
    until("the first block is done", || first().is_some());
    running.signal(Signal::KILL);
    running.wait_unchecked();
    let done: u64 = rows().iter().map(|row| row[2].as_u64().unwrap()).sum();
    assert!((1..200_000).contains(&done), "{done} sets of 200,000");
    // A fresh experiment, small enough to end here, says the same of these sets.
    let row = first().unwrap();
    let sets = row[2].to_string();
    let fresh =
        room.takt(&["sweep", "schedulability", "--points", "2.0,2.2", "--sets", &sets, "--test", "ff", "--json"]);
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

/// A test that applies to none of the sets is refused before the work where the machine is the reason, and after it else.
#[test]
fn a_test_that_applies_to_no_set_is_refused() {
    let room = Room::new();
    let base = ["sweep", "schedulability", "--sets", "5", "--duration", "100ms", "--test"];
    for (more, says) in [
        (&["ff,sim:edf", "--cpus", "4"][..], "`sim:edf`"),
        (&["sim:edf", "--cpus", "4"], "`sim:g-edf` or `sim:p-edf`"),
        (&["edf", "--cpus", "2"], "`edf`"),
        (&["sim:windows"], "`sim:windows`"),
        (&["ll", "--cpus", "1", "--deadlines", "constrained"], "`ll`"),
        (&["sim:pd2", "--periods", "uniform:100us..900us"], "`sim:pd2`"),
    ] {
        let done = room.takt(&[&base[..], more, &["--svg", "x.svg"]].concat()).expect(2);
        assert!(done.stdout.is_empty() && done.stderr.contains(says), "{more:?}: {}", done.stderr);
        assert!(done.stderr.contains("error[not-applicable]: "), "{more:?}: {}", done.stderr);
        assert!(!room.path("x.svg").exists(), "{more:?}");
    }
    // The default tests are those that apply.
    let done =
        room.takt(&["sweep", "schedulability", "--cpus", "1", "--deadlines", "constrained", "--sets", "5"]).expect(0);
    assert!(done.stdout.starts_with("utilisation,sets,rm-rta,dm-rta,edf\n"), "{}", done.stdout);
}

/// The verdict `unknown` is a value of its own: PD² refuses sets with a period below its quantum.
#[test]
fn unknown_verdicts_are_no_zero() {
    let room = Room::new();
    let base = ["sweep", "schedulability", "--points", "0.5,3.9", "--sets", "20", "--duration", "50ms"];
    let of = [&base[..], &["--test", "sim:pd2,ff", "--periods", "uniform:600us..1500us"]].concat();
    let done = room.takt(&[&of[..], &["--svg", "curves.svg"]].concat()).expect(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[0], "utilisation,sets,sim:pd2,ff,sim:pd2_unknown");
    let cells: Vec<Vec<&str>> = lines[1..].iter().map(|line| line.split(',').collect()).collect();
    let json = room.takt(&[&of[..], &["--json"]].concat()).json();
    let mut unknown = 0;
    for (row, point) in cells.iter().zip(json["points"].as_array().unwrap()) {
        let test = &point["tests"][0];
        let [least, most] = ["ratio_at_least", "ratio_at_most"].map(|key| test[key].as_f64().unwrap());
        let part = test["unknown"].as_f64().unwrap() / 20.0;
        assert!(part > 0.0 && test["ratio"].is_null() && (most - least - part).abs() < 1e-9, "{test}");
        let cell = if part < 1.0 { format!("{least:.4}") } else { String::new() };
        assert_eq!((row[2], row[4].parse::<f64>().unwrap()), (cell.as_str(), part), "{row:?}");
        assert_eq!(row[3].parse::<f64>().ok(), point["tests"][1]["ratio"].as_f64(), "{row:?}");
        unknown += test["unknown"].as_u64().unwrap();
    }
    assert!(cells[0][2].parse::<f64>().is_ok() && cells[1][2].is_empty(), "{cells:?}");
    let note = format!("the verdict of sim:pd2 is unknown for {unknown} of 40 sets");
    let svg = room.text("curves.svg");
    assert!(done.stderr.contains(&note) && svg.contains(&note), "{}", done.stderr);
    assert_eq!(json["notes"][0], note);
    assert!(svg.contains(r#"class="bar""#) && svg.contains("bars: 95 % confidence intervals (Wilson), up to"), "{svg}");
    // A point without any verdict has no marker: PD² is drawn at one of two points. The legend has two.
    assert_eq!(svg.matches(r#"class="mark""#).count(), 3 + 2);
}

/// Random sets state no priorities: under `fp` they have those of `--priorities`, by default by their periods.
#[test]
fn random_sets_have_priorities() {
    let room = Room::new();
    let base = ["sweep", "schedulability", "--points", "2.0,2.4", "--sets", "40", "--duration", "500ms"];
    let kind = ["--deadlines", "constrained", "--generator", "uunifast-discard", "--tasks", "12"];
    let done = |more: &[&str]| room.takt(&[&base[..], &kind, more].concat()).expect(0);
    let columns = |csv: &str| -> Vec<Vec<String>> {
        let mut lines = csv.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
        let header = lines.next().unwrap();
        let rows: Vec<Vec<String>> = lines.collect();
        (2..header.len()).map(|column| rows.iter().map(|row| row[column].clone()).collect()).collect()
    };
    // Without priorities the order is that of `rm`, and a note reports it.
    let by_default = done(&["--test", "sim:g-fp,sim:g-rm,sim:g-fifo", "--svg", "fp.svg"]);
    let ratios = columns(&by_default.stdout);
    assert_eq!(ratios[0], ratios[1]);
    assert_ne!(ratios[0], ratios[2], "no FIFO in disguise: {ratios:?}");
    let note = "sim:g-fp has priorities assigned by `--priorities rm`";
    assert!(by_default.stderr.contains(note) && room.text("fp.svg").contains(note), "{}", by_default.stderr);
    let json = room.takt(&[&base[..], &kind, &["--test", "sim:g-fp", "--json"]].concat()).json();
    assert_eq!((&json["setup"]["priorities"], &json["notes"][0]), (&json!("rm"), &json!(note)));
    let json = room.takt(&[&base[..], &kind, &["--test", "sim:g-rm", "--json"]].concat()).json();
    assert!(json["setup"]["priorities"].is_null() && json["notes"] == json!([]), "{json}");
    let monotonic = columns(&done(&["--test", "sim:g-fp,sim:g-dm", "--priorities", "dm"]).stdout);
    assert_eq!(monotonic[0], monotonic[1]);
    // The optimal assignment schedules more sets than both, and says for how many it found none.
    let optimal = done(&["--test", "sim:g-fp", "--priorities", "opa"]);
    let accepted = |column: &[String]| column.iter().map(|cell| cell.parse::<f64>().unwrap()).sum::<f64>();
    let best = accepted(&columns(&optimal.stdout)[0]);
    assert!(best > accepted(&monotonic[0]) + 0.1 && best > accepted(&ratios[0]) + 0.1, "{best}");
    let says = optimal.stderr.lines().find(|line| line.contains("it found none for")).expect("a note");
    assert!(says.contains("of 80 sets, which have deadline-monotonic ones"), "{says}");
    // Random ones are drawn by the seed.
    let random = |seed| done(&["--test", "sim:g-fp", "--priorities", "random", "--seed", seed]).stdout;
    assert_eq!(random("1"), random("1"));
    assert!(accepted(&columns(&random("1"))[0]) < accepted(&ratios[0]));
    // The same priorities under rising loads.
    let load = |more: &[&str]| {
        let base =
            ["sweep", "load", "--policies", "g-fp,g-rm,g-dm", "--loads", "3.5", "--sets", "10", "--duration", "500ms"];
        let done = room.takt(&[&base[..], &kind, more].concat()).expect(0);
        let met = rows(&done.stdout).iter().map(|row| row["dsr"].clone()).collect::<Vec<_>>();
        (met, done.stderr)
    };
    let (met, says) = load(&["--svg", "load.svg"]);
    assert!(met[0] == met[1] && met[0] != met[2], "{met:?}");
    let note = "g-fp has priorities assigned by `--priorities rm`";
    assert!(says.contains(note) && room.text("load.svg").contains(note), "{says}");
    let (met, _) = load(&["--priorities", "dm"]);
    assert!(met[0] == met[2] && met[0] != met[1], "{met:?}");
    let (_, says) = load(&["--priorities", "opa"]);
    assert!(says.contains("it found none for 10 of 10 sets"), "{says}");
}

/// PD² is optimal on its grid of quanta alone: what is said of that, and the grid itself.
#[test]
fn periods_can_be_on_a_grid() {
    let room = Room::new();
    let csv =
        room.takt(&["sweep", "generate", "--utilisation", "3", "--sets", "20", "--grid", "1500us"]).expect(0).stdout;
    let periods: Vec<u64> = csv.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse().unwrap()).collect();
    assert!(periods.len() > 60 && periods.iter().all(|period| period % 1500 == 0), "{periods:?}");
    let sweep = |more: &[&str]| {
        let base = ["sweep", "schedulability", "--points", "2.0,3.0", "--sets", "30", "--duration", "1s"];
        let done =
            room.takt(&[&base[..], &["--test", "sim:pd2,sim:llref", "--svg", "pd2.svg"], more].concat()).expect(0);
        let ratio = |row: &std::collections::HashMap<String, String>| number(row, "sim:pd2");
        (rows(&done.stdout).iter().map(ratio).collect::<Vec<f64>>(), done.stderr, room.text("pd2.svg"))
    };
    let (off, says, picture) = sweep(&[]);
    let note = "sim:pd2 works in quanta of 1ms and is optimal only for periods that are multiples of them, which these are not";
    assert!(says.contains(&format!("note: {note}; `--grid 1ms` draws such periods")), "{says}");
    assert!(picture.contains(note) && !says.contains("llref"), "{says}");
    assert!(off.iter().all(|ratio| *ratio < 1.0), "{off:?}");
    let (on, says, picture) = sweep(&["--grid", "1ms"]);
    assert_eq!(on, [1.0, 1.0]);
    let note = "sim:pd2 works in quanta of 1ms and rounds runtimes up to them";
    assert!(says.contains(note) && picture.contains(note) && picture.contains("in multiples of 1ms"), "{says}");
    // On the grid PD² is optimal: it schedules exactly the sets whose utilisations sum to at most 4 with runtimes in whole quanta.
    let of_kind = ["--sets", "30", "--grid", "1ms"];
    let csv = room.takt(&[&["sweep", "generate", "--utilisation", "3.9"], &of_kind[..]].concat()).expect(0).stdout;
    let mut loads = [0.0_f64; 30];
    for line in csv.lines().skip(1) {
        let cells: Vec<u32> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        loads[cells[0] as usize] += f64::from(cells[2].div_ceil(1000)) / f64::from(cells[4] / 1000);
    }
    let fitting = loads.iter().filter(|load| **load <= 4.0 + 1e-9).count();
    let of = ["sweep", "schedulability", "--points", "3.9", "--duration", "1s", "--test", "sim:pd2", "--json"];
    let json = room.takt(&[&of[..], &of_kind].concat()).json();
    assert_eq!(json["points"][0]["tests"][0]["accepted"], fitting, "{loads:?}");
    assert!((1..30).contains(&fitting));
    // A grid of another length is none for the policy; its own quantum counts.
    assert!(sweep(&["--grid", "1500us"]).1.contains("which these are not"));
    let load =
        ["sweep", "load", "--policies", "pd2:quantum=500us", "--loads", "2", "--sets", "2", "--duration", "100ms"];
    let json = room.takt(&[&load[..], &["--grid", "1500us", "--json"]].concat()).json();
    assert_eq!(json["notes"], json!(["pd2:quantum=500us works in quanta of 500us and rounds runtimes up to them"]));
    assert_eq!(json["setup"]["grid"], "1.5ms");
    // So it is with files.
    for (period, says) in [("10ms", ""), ("10500us", "which these are not")] {
        let tasks =
            format!("policy: pd2\ntasks: [{{runtime: 1ms, period: {period}}}, {{runtime: 2ms, period: 10ms}}]\n");
        let room = Room::with(&tasks);
        let done = room
            .takt(&["sweep", "load", "w.yaml", "--policies", "pd2", "--loads", "1", "--duration", "100ms"])
            .expect(0);
        assert_eq!(done.stderr.contains("works in quanta"), !says.is_empty(), "{}", done.stderr);
        assert!(done.stderr.contains(says), "{}", done.stderr);
    }
}

#[test]
fn bad_experiments_are_told() {
    let room = Room::new();
    for (args, says) in [
        (&["sweep", "generate", "--utilisation", "5", "--generator", "uunifast", "--tasks", "4"][..], "[out-of-range]"),
        (&["sweep", "generate", "--utilisation", "5", "--generator", "randfixedsum", "--tasks", "100000"], "2000"),
        (&["sweep", "generate", "--utilisation", "0"], "is no utilisation"),
        (&["sweep", "generate", "--utilisation", "1", "--periods", "even:1ms..2ms"], "uniform"),
        (&["sweep", "schedulability", "--points", "2..4"], "needs a step"),
        (&["sweep", "schedulability", "--points", "11", "--generator", "randfixedsum"], "[out-of-range]"),
        (&["sweep", "schedulability", "--test", "efd"], "[unknown-name]"),
        (&["sweep", "schedulability", "--sets", "0"], "--sets"),
        (&["sweep", "schedulability", "--priorities", "edf"], "--priorities"),
        (&["sweep", "schedulability", "--grid", "0ms"], "--grid"),
        (&["sweep", "schedulability", "--grid", "200ms"], "no multiple of the grid"),
        (&["sweep"], "Usage"),
    ] {
        let done = room.takt(args).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{args:?}: {}", done.stderr);
    }
}

/// Three jobs of which one CPU cannot do all: EDF completes `a` alone, its like that aborts late jobs `a` and `c`, and who goes by
/// utility completes `b` and `c`.
const THREE: &str = "\
policy: edf
tasks:
  - {name: a, period: 100ms, deadline: 4ms, runtime: 3ms, utility: 3}
  - {name: b, period: 100ms, deadline: 5ms, runtime: 3ms, utility: 9}
  - {name: c, period: 100ms, deadline: 7ms, runtime: 2ms, utility: 4}
";

/// The rows of a CSV without quoted cells, each by its header.
fn rows(csv: &str) -> Vec<std::collections::HashMap<String, String>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let row = |cells: Vec<String>| {
        assert_eq!(cells.len(), header.len(), "{cells:?}");
        header.iter().cloned().zip(cells).collect()
    };
    lines.map(row).collect()
}

fn number(row: &std::collections::HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {row:?}"))
}

#[test]
fn a_file_is_scaled_and_counted() {
    let room = Room::with(THREE);
    let base = ["sweep", "load", "w.yaml", "--policies", "edf,dasa-nd", "--loads", "0.5,1.0", "--duration", "200ms"];
    let csv = room.takt(&[&base[..], &["--runs", "runs.csv"]].concat()).expect(0).stdout;
    let found: Vec<String> = rows(&csv)
        .iter()
        .map(|row| ["load", "utilisation", "policy", "runs", "dsr", "aur", "aborted"].map(|c| row[c].clone()).join(" "))
        .collect();
    assert_eq!(
        found,
        [
            "0.5 0.04 edf 1 1.0000 1.0000 0.0000",
            "0.5 0.04 dasa-nd 1 1.0000 1.0000 0.0000",
            "1.0 0.08 edf 1 0.3333 0.1875 0.0000",
            "1.0 0.08 dasa-nd 1 0.6667 0.8125 0.3333",
        ]
    );
    // A single run has no interval.
    assert!(rows(&csv).iter().all(|row| row["dsr_ci95"].is_empty()));
    let runs = room.text("runs.csv");
    assert!(runs.contains("\n1.0,1,edf,6,2,4,0,6000000,32000000,"), "{runs}");
    let late = |rule: &'static str| {
        let csv = room.takt(&[&base[..], &["--late", rule]].concat()).expect(0).stdout;
        rows(&csv)[2..].iter().map(|row| number(row, "aur")).collect::<Vec<f64>>()
    };
    assert_eq!((late("abort"), late("continue")), (vec![0.4375, 0.8125], vec![0.1875, 0.8125]));
    // With switches that long only two of them fit at half the load.
    let costs = room.takt(&[&base[..], &["--costs", "context_switch=1100us"]].concat()).expect(0).stdout;
    assert!(number(&rows(&costs)[0], "dsr") < 1.0, "{costs}");
}

#[test]
fn a_load_is_that_of_the_simulator() {
    // Scaling comes before the placement: at 1.5 c no longer fits beside a.
    let text = "\
policy: g-edf
tasks:
  - {name: a, period: 5ms, spread: 3ms, runtime: 3ms, execution: {least: 1ms, most: 3ms}}
  - {name: b, period: 7ms, spread: 1ms, runtime: 4ms}
  - {name: c, period: 11ms, runtime: 3ms, steps: [run 1ms, sleep 1ms, run 2ms]}
";
    let room = Room::with(text);
    let base = ["--cpus", "2", "--duration", "1s"];
    let sweep = ["sweep", "load", "w.yaml", "--policies", "g-edf,p-edf", "--loads", "1.5", "--seeds", "4..6"];
    let csv = room.takt(&[&sweep[..], &base, &["--runs", "runs.csv"]].concat()).expect(0).stdout;
    assert!(rows(&csv).iter().all(|row| number(row, "dsr_ci95") > 0.0), "seeds differ: {csv}");
    let runs = rows(&room.text("runs.csv"));
    assert_eq!(runs.len(), 6);
    for run in runs {
        let sim = ["sim", "w.yaml", "--load", "1.5", "--count", "decided", "--json", "--seed", &run["seed"]];
        let object = room.takt(&[&sim[..], &["--policy", &run["policy"]], &base].concat()).json();
        for (column, path) in [
            ("released", "/jobs/released"),
            ("met", "/jobs/met"),
            ("missed", "/jobs/missed"),
            ("preemptions", "/preemptions"),
            ("migrations", "/migrations"),
            ("context_switches", "/context_switches"),
        ] {
            assert_eq!(
                object.pointer(path).unwrap().as_u64(),
                Some(run[column].parse().unwrap()),
                "{column}: {object}"
            );
        }
    }
}

/// Random overloaded sets for two CPUs.
const OVERLOAD: &[&str] = &[
    "sweep",
    "load",
    "--policies",
    "g-edf,ng-gua,g-gua",
    "--loads",
    "2.5,3.0",
    "--cpus",
    "2",
    "--generator",
    "uunifast-discard",
    "--tasks",
    "8",
    "--duration",
    "500ms",
];

fn overload(more: &[&'static str]) -> Vec<&'static str> {
    [OVERLOAD, more].concat()
}

#[test]
fn utility_accrual_gains_under_overload() {
    let room = Room::new();
    let more = ["--sets", "60", "--against", "ng-gua", "--runs", "runs.csv"];
    let csv = room.takt(&overload(&more)).expect(0).stdout;
    let runs = rows(&room.text("runs.csv"));
    for row in rows(&csv) {
        // The means, intervals and gains once more, from the single runs.
        let aur = |policy: &str| -> Vec<f64> {
            let of = |run: &&std::collections::HashMap<String, String>| {
                run["load"] == row["load"] && run["policy"] == policy
            };
            runs.iter().filter(of).map(|run| number(run, "utility") / number(run, "utility_total")).collect()
        };
        let moments = |numbers: &[f64]| {
            let n = numbers.len() as f64;
            let mean = numbers.iter().sum::<f64>() / n;
            let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
            // Student's t of 59 degrees of freedom.
            (mean, 2.001 * (variance / n).sqrt())
        };
        let (own, other) = (aur(&row["policy"]), aur("ng-gua"));
        assert_eq!(own.len(), 60);
        let gains: Vec<f64> = own.iter().zip(&other).map(|(a, b)| a - b).collect();
        for (numbers, mean, half) in [(own, "aur", "aur_ci95"), (gains, "aur_gain", "aur_gain_ci95")] {
            let (known, width) = moments(&numbers);
            assert!((number(&row, mean) - known).abs() < 1e-4, "{row:?}: {known}");
            assert!((number(&row, half) - width).abs() < 1e-4, "{row:?}: {width}");
        }
        let (gain, half) = (number(&row, "aur_gain"), number(&row, "aur_gain_ci95"));
        match row["policy"].as_str() {
            "g-edf" => assert!(gain + half < 0.0, "{row:?}"),
            "ng-gua" => assert_eq!((gain, half), (0.0, 0.0)),
            _ => assert!(gain - half > 0.0, "{row:?}"),
        }
        assert_eq!(number(&row, "missed"), ((1.0 - number(&row, "dsr")) * 1e4).round() / 1e4);
    }
}

#[test]
fn loads_are_resumed_and_repeated() {
    let room = Room::new();
    let few = |more: &[&'static str]| overload(&[&["--sets", "7"], more].concat());
    let whole = room.takt(&few(&["--threads", "1", "--svg", "a.svg"])).expect(0).stdout;
    assert_eq!(room.takt(&few(&["--threads", "5", "--svg", "b.svg", "--state", "s.json"])).expect(0).stdout, whole);
    assert_eq!(room.text("a.svg"), room.text("b.svg"));
    assert_eq!(room.text("a.svg").matches("<polyline").count(), 9);
    assert_ne!(room.takt(&few(&["--seed", "2"])).expect(0).stdout, whole);
    let object = room.takt(&few(&["--json", "--state", "s.json"])).json();
    assert_eq!(object["setup"]["utilities"], "uniform:1..100");
    let aur = object["points"][1]["policies"][2]["aur"]["mean"].as_f64().unwrap();
    assert!((aur - number(&rows(&whole)[5], "aur")).abs() < 1e-4);
    // A block is lost and found again; what is there is believed.
    let state: Value = serde_json::from_str(&room.text("s.json")).unwrap();
    let mut less = state.clone();
    assert_eq!(less["done"].as_array_mut().unwrap().remove(1)[1], 1);
    // No job of its five runs met its deadline.
    less["done"][0][3][2][0] = json!("5 0 0");
    fs::write(room.path("s.json"), sealed(less.clone())).unwrap();
    let said = room.takt(&few(&["--state", "s.json"])).expect(0).stdout;
    assert!(number(&rows(&said)[0], "dsr") <= 2.0 / 7.0, "{said}");
    assert_eq!(said.lines().skip(4).collect::<Vec<_>>(), whole.lines().skip(4).collect::<Vec<_>>());
    // More sets continue it; another experiment is refused, and so is what cannot be.
    room.takt(&overload(&["--sets", "8", "--state", "s.json"])).expect(0);
    for (change, says) in [(&["--seed", "2"][..], "its `seed` is 1"), (&["--late", "abort"], "its `late` is \"auto\"")]
    {
        let done = room.takt(&few(&[&["--state", "s.json"], change].concat())).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{}", done.stderr);
    }
    less["done"][0][3][2][0] = json!("6 0 0");
    fs::write(room.path("s.json"), sealed(less.clone())).unwrap();
    assert!(room.takt(&few(&["--state", "s.json"])).expect(2).stderr.contains("[damaged-file]"));
    let other = room.takt(&with(&["--state", "s.json"])).expect(2);
    assert!(other.stderr.contains("[wrong-format]"), "{}", other.stderr);
}

#[test]
fn a_state_is_that_of_its_file_and_costs() {
    let room = Room::with(THREE);
    let base = ["sweep", "load", "--policies", "edf", "--loads", "1.0", "--duration", "200ms", "--state", "s.json"];
    let sweep = |more: &[&str]| room.takt(&[&base[..], more].concat());
    let file = ["w.yaml", "--costs", "context_switch=1us"];
    let first = sweep(&file).expect(0).stdout;
    let kept = room.text("s.json");
    let refused = |more: &[&str], says: &str| {
        let done = sweep(more).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{more:?}: {}", done.stderr);
        assert_eq!(room.text("s.json"), kept, "{more:?}");
    };
    // The same file by its name, with other jobs in it.
    fs::write(room.path("w.yaml"), THREE.replace("runtime: 2ms", "runtime: 1ms")).unwrap();
    refused(&file, "its `fingerprint` is");
    fs::write(room.path("w.yaml"), THREE).unwrap();
    for costs in [&["--costs", "context_switch=2us"][..], &["--costs", "migration=1us"], &[]] {
        refused(&[&["w.yaml"], costs].concat(), "its `costs_ns` is [1000,0,");
    }
    // The same costs in other words.
    assert_eq!(sweep(&["w.yaml", "--costs", "lock=0us,context_switch=1000ns"]).expect(0).stdout, first);
    // Random sets have no file, and costs nevertheless.
    let random = ["--sets", "1", "--cpus", "1", "--generator", "uunifast-discard", "--tasks", "3"];
    fs::remove_file(room.path("s.json")).unwrap();
    let _ = sweep(&random).expect(0);
    let done = sweep(&[&random[..], &["--costs", "interrupt=3us"]].concat()).expect(2);
    assert!(done.stderr.contains("its `costs_ns` is null, and now it is [0,0,"), "{}", done.stderr);
}

#[test]
fn bad_loads_are_told() {
    let room = Room::with(THREE);
    fs::write(room.path("plain.yaml"), "policy: edf\ntasks:\n  - {name: a, period: 5ms}\n").unwrap();
    for (args, says) in [
        (&["w.yaml", "--policies", "edf"][..], "--loads"),
        (&["w.yaml", "--loads", "1"], "--policies"),
        (&["w.yaml", "--loads", "1", "--policies", "efd"], "`efd`"),
        (&["w.yaml", "--loads", "0", "--policies", "edf"], "a number above zero"),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--sets", "5"], "cannot be used with"),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--tasks", "5"], "cannot be used with"),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--utilities", "equal"], "cannot be used with"),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--against", "rm"], "[unknown-name]"),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--columns", "dsr,mised"], "there is no column `mised`"),
        (
            &["w.yaml", "--loads", "1", "--policies", "edf", "--columns", "x"],
            "the columns are dsr, aur, missed, aborted, ",
        ),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--costs", "swap=1us"], "`swap`"),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--costs", "lock=1us,lock=2us"], "`lock`"),
        (&["w.yaml", "--loads", "1,100%", "--policies", "edf"], "1.0"),
        (&["w.yaml", "--loads", "1", "--policies", "edf,rm,edf"], "`edf`"),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--svg", "missing/a.svg"], "error[unwritable-file]: "),
        (&["w.yaml", "--loads", "1", "--policies", "edf", "--runs", "missing/a.csv"], "error[unwritable-file]: "),
        (&["plain.yaml", "--loads", "1", "--policies", "edf,dasa-nd"], "plain.yaml"),
        (&["none.yaml", "--loads", "1", "--policies", "edf"], "none.yaml"),
        (&["--loads", "1", "--policies", "g-edf", "--seeds", "1..2"], "FILE"),
        (&["--loads", "3", "--policies", "edf"], "[unsuitable-policy]"),
        (&["--loads", "5", "--policies", "g-edf", "--generator", "uunifast", "--tasks", "4"], "[out-of-range]"),
        (&["--loads", "2", "--policies", "g-edf", "--utilities", "uniform:9..1"], "[out-of-range]"),
    ] {
        let done = room.takt(&[&["sweep", "load"], args].concat()).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{args:?}: {}", done.stderr);
    }
}

#[test]
fn outputs_that_cannot_be_written_are_told_before_the_work() {
    let room = Room::with(THREE);
    fs::write(room.path("old.svg"), "old").unwrap();
    // It would take hours.
    let long = ["sweep", "load", "w.yaml", "--policies", "edf", "--loads", "0.1..900:0.1", "--duration", "100000s"];
    let paths = ["--svg", "old.svg", "--runs", "missing/runs.csv"];
    let done = room.takt(&[&long[..], &paths].concat()).expect(2);
    assert!(done.stderr.contains("[unwritable-file]") && done.stderr.contains("`missing/runs.csv`"), "{}", done.stderr);
    assert_eq!(room.text("old.svg"), "old");
    let wrong =
        ["sweep", "load", "w.yaml", "--policies", "edf,ng-gua", "--loads", "1", "--svg", "new.svg", "--cpus", "1"];
    room.takt(&[&wrong[..], &["--against", "rm"]].concat()).expect(2);
    assert!(!room.path("new.svg").exists());
}

#[test]
fn an_interrupted_experiment_says_what_it_keeps() {
    let room = Room::with(THREE);
    let args = [
        "sweep",
        "load",
        "w.yaml",
        "--policies",
        "edf",
        "--loads",
        "1,900",
        "--duration",
        "100000s",
        "--state",
        "s.json",
    ];
    let running = room.start(&args);
    // The first save comes after the signals are heard.
    until("it has begun", || fs::read_to_string(room.path("s.json")).is_ok_and(|text| !text.is_empty()));
    // A shell that runs the tests in the background makes them ignore SIGINT.
    running.signal(Signal::TERM);
    let (_, done) = running.wait_unchecked();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&done.status), Some(Signal::TERM.as_raw()));
    assert!(done.stderr.contains("interrupted: `s.json` keeps "), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
}

#[test]
fn rows_show_the_policy_that_they_name() {
    let changes = "changes:\n  - {at: 1ms, policy: rm}\n  - {at: 2ms, policy: dasa-nd}\n";
    let room = Room::with(THREE);
    let base = ["sweep", "load", "w.yaml", "--policies", "edf,dasa-nd", "--loads", "1.0", "--duration", "200ms"];
    let plain = room.takt(&base).expect(0).stdout;
    fs::write(room.path("w.yaml"), format!("{THREE}{changes}")).unwrap();
    let switching = room.takt(&base).expect(0);
    assert_eq!(switching.stdout, plain);
    for policy in ["edf", "dasa-nd"] {
        let stays = format!("the policy stays `{policy}`, named by `--policy`");
        assert_eq!(switching.stderr.matches(&stays).count(), 2, "{}", switching.stderr);
    }
    let met = |args: &[&str]| {
        let all = [&["sim", "w.yaml", "--duration", "200ms", "--json"][..], args].concat();
        room.takt(&all).json()["jobs"]["met"].as_u64().unwrap()
    };
    assert_eq!((met(&["--policy", "edf"]), met(&[])), (2, 4));
}

#[test]
fn the_file_says_what_becomes_of_late_jobs() {
    let room = Room::new();
    let base = ["sweep", "load", "w.yaml", "--policies", "edf,dasa-nd", "--loads", "1.0", "--duration", "200ms"];
    let aborted = |late: &str, more: &[&str]| {
        fs::write(room.path("w.yaml"), format!("{late}{THREE}")).unwrap();
        let csv = room.takt(&[&base[..], more].concat()).expect(0).stdout;
        rows(&csv).iter().map(|row| number(row, "aborted") > 0.0).collect::<Vec<bool>>()
    };
    assert_eq!(aborted("", &[]), [false, true]);
    assert_eq!(aborted("late: abort\n", &[]), [true, true]);
    assert_eq!(aborted("late: continue\n", &[]), [false, false]);
    assert_eq!(aborted("late: continue\n", &["--late", "abort"]), [true, true]);
}

#[test]
fn utilisation_is_that_of_the_highest_load() {
    let room = Room::with(&format!("load: {{points: [[0s, 0.5], [100ms, 2.5]]}}\n{THREE}"));
    let csv = room.takt(&["sweep", "load", "w.yaml", "--policies", "edf", "--loads", "50%,2"]).expect(0).stdout;
    let found: Vec<String> = rows(&csv).iter().map(|row| format!("{} {}", row["load"], row["utilisation"])).collect();
    assert_eq!(found, ["0.5 0.1", "2.0 0.4"]);
}

#[test]
fn copies_of_a_run_are_not_counted() {
    let room = Room::with(THREE);
    let base = ["sweep", "load", "w.yaml", "--policies", "edf", "--loads", "1", "--seeds", "1..3", "--duration", "1s"];
    let done = room.takt(&base).expect(0);
    assert!(done.stderr.contains("all seeds are alike"), "{}", done.stderr);
    let row = &rows(&done.stdout)[0];
    assert_eq!((row["runs"].as_str(), row["dsr_ci95"].as_str()), ("1", ""));
    fs::write(room.path("w.yaml"), THREE.replace("runtime: 2ms", "runtime: 2ms, spread: 5ms")).unwrap();
    let done = room.takt(&base).expect(0);
    assert_eq!((rows(&done.stdout)[0]["runs"].as_str(), done.stderr.as_str()), ("3", ""));
}

#[test]
fn runs_in_which_nothing_is_counted_are_left_out() {
    let room = Room::with(&THREE.replace("period: 100ms", "period: 100ms, offset: 2ms"));
    let base = ["sweep", "load", "w.yaml", "--policies", "edf", "--loads", "1", "--duration"];
    let row = |length: &'static str| rows(&room.takt(&[&base[..], &[length]].concat()).expect(0).stdout).remove(0);
    let none = row("5ms");
    for (column, cell) in &none {
        let given = ["load", "utilisation", "policy", "runs"].contains(&column.as_str());
        assert!(given || cell.is_empty(), "{column}: {cell}");
    }
    assert_eq!(none["runs"], "0");
    assert_eq!((row("6ms")["runs"].as_str(), row("6ms")["dsr"].as_str()), ("1", "1.0000"));
    let object = room.takt(&[&base[..], &["5ms", "--json"]].concat()).json();
    let policy = &object["points"][0]["policies"][0];
    assert_eq!((&policy["runs"], &policy["dsr"]), (&json!(0), &json!({"mean": null, "ci95": null})));
    room.takt(&[&base[..], &["5ms", "--svg", "a.svg"]].concat()).expect(0);
    assert_eq!(room.text("a.svg").matches("<polyline").count(), 0);
    // One CPU has no panel of migrations, and a single load has markers: in two panels and in the legend.
    room.takt(&[&base[..], &["1s", "--svg", "a.svg"]].concat()).expect(0);
    assert!(!room.text("a.svg").contains("migrations"));
    assert_eq!(room.text("a.svg").matches(r#"class="mark""#).count(), 2 + 1);
}

/// `--columns` names the columns and panels in their order, each with its interval.
#[test]
fn columns_are_chosen() {
    let room = Room::new();
    let base = ["sweep", "load", "--policies", "g-edf,g-gua", "--loads", "2,3", "--sets", "5", "--duration", "200ms"];
    let all = room.takt(&base).expect(0).stdout;
    let chosen = [&base[..], &["--columns", "missed,preemptions,dsr", "--against", "g-edf"]].concat();
    let few = room.takt(&[&chosen[..], &["--svg", "a.svg"]].concat()).expect(0).stdout;
    let header = "load,utilisation,policy,runs,missed,missed_ci95,preemptions,preemptions_ci95,dsr,dsr_ci95,missed_gain,\
                  missed_gain_ci95,preemptions_gain,preemptions_gain_ci95,dsr_gain,dsr_gain_ci95";
    assert_eq!(few.lines().next(), Some(header));
    for (all, few) in rows(&all).iter().zip(rows(&few)) {
        for column in ["load", "policy", "missed", "dsr", "dsr_ci95"] {
            assert_eq!(all[column], few[column], "{column}");
        }
        assert!((number(all, "preemptions") - number(&few, "preemptions")).abs() < 0.051);
        // The jobs that miss their deadlines are those that do not meet them.
        assert_eq!(few["missed_ci95"], few["dsr_ci95"]);
        assert!((number(&few, "missed_gain") + number(&few, "dsr_gain")).abs() < 2e-4);
    }
    let svg = room.text("a.svg");
    let titles: Vec<&str> = svg.split(r#"class="panel">"#).skip(1).filter_map(|rest| rest.split('<').next()).collect();
    assert_eq!(titles, ["missed deadlines", "preemptions", "deadline satisfaction ratio"]);
    for part in [
        "random task sets: airs, periods uniform:1ms..100ms, implicit deadlines, seed 1, utilities uniform:1..100",
        "CPUs: 4, sets per point: 5, each 200ms; late jobs: aborted at their deadlines under policies that go by utility, \
         continued under the others",
        "bars: 95 % confidence intervals of the means",
        r#"class="x">ratio of jobs</text>"#,
        r#"class="x">load (total utilisation in CPUs)</text>"#,
    ] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let object = room.takt(&[&chosen[..], &["--json"]].concat()).json();
    let policy = object["points"][1]["policies"][1].as_object().unwrap();
    assert!(policy.contains_key("missed_gain") && !policy.contains_key("aur"), "{policy:?}");
}

/// Sets that are written and read have the results of the sets that are drawn.
#[test]
fn loads_of_sets_of_a_file() {
    let room = Room::new();
    let kind = ["--generator", "uunifast-discard", "--tasks", "5"];
    let csv = room.takt(&[&["sweep", "generate", "--utilisation", "3", "--sets", "8"], &kind[..]].concat()).expect(0);
    fs::write(room.path("sets.csv"), &csv.stdout).unwrap();
    let load = |more: &[&str]| {
        let base = ["sweep", "load", "--policies", "g-edf,g-gua,g-fp", "--duration", "300ms", "--runs", "runs.csv"];
        let done = room.takt(&[&base[..], more].concat()).expect(0);
        (rows(&done.stdout), room.text("runs.csv"))
    };
    let (drawn, drawn_runs) = load(&[&["--loads", "3", "--sets", "8"], &kind[..]].concat());
    let (read, read_runs) = load(&["sets.csv", "--loads", "1", "--svg", "a.svg"]);
    for (drawn, read) in drawn.iter().zip(&read) {
        for (column, cell) in drawn.iter().filter(|(column, _)| !["load", "utilisation"].contains(&column.as_str())) {
            assert_eq!(cell, &read[column], "{column}");
        }
    }
    assert_eq!(drawn_runs.replace("\n3.0,", "\n1.0,"), read_runs);
    assert!((number(&read[0], "utilisation") - 3.0).abs() < 0.01, "{:?}", read[0]);
    assert!(room.text("a.svg").contains("task sets of sets.csv, utilities uniform:1..100, seed 1"));
    // The load is a factor on all runtimes. The list of runs has the number of each set.
    let text = "set_id,\"task_id\",C_us,D_us,T_us\n7,\"a, b\",4000,10000,10000\n3,c,6000,10000,10000\n";
    fs::write(room.path("two.csv"), text).unwrap();
    let (rows, runs) = load(&["two.csv", "--loads", "1,2", "--cpus", "1", "--columns", "missed"]);
    let found: Vec<_> = rows.iter().map(|row| (row["utilisation"].as_str(), row["missed"].as_str())).collect();
    assert_eq!((found[0], found[3].0), (("0.5", "0.0000"), "1.0"));
    // At a load of 2 the one of 6 of 10 ms cannot be in time; under G-EDF all its jobs but none of the other set's are late.
    assert_eq!((found[3].1, runs.lines().nth(1).unwrap().split(',').nth(1)), ("0.5000", Some("7")));
    for (more, says) in [
        (&["--seeds", "1..2"][..], "each task set of a CSV file is a run of its own"),
        (&["--sets", "5"], "cannot be used with"),
        (&["--policies", "edf", "--cpus", "4"], "edf cannot schedule this"),
    ] {
        let base: &[&str] = &["sweep", "load", "two.csv", "--loads", "1"];
        let policies: &[&str] = if more.contains(&"--policies") { &[] } else { &["--policies", "g-edf"] };
        let done = room.takt(&[base, policies, more].concat()).expect(2);
        assert!(done.stderr.contains(says), "{more:?}: {}", done.stderr);
    }
}

/// Sets of a file have the verdicts of `analyze`, each at the point of its utilisation.
#[test]
fn verdicts_about_sets_of_a_file() {
    let room = Room::new();
    let mut text = String::new();
    for (utilisation, first) in [("2.4", 0), ("3.6", 10)] {
        let csv = room.takt(&["sweep", "generate", "--sets", "10", "--utilisation", utilisation]).expect(0).stdout;
        for (number, line) in csv.lines().enumerate() {
            match line.split_once(',') {
                Some((set, rest)) if number > 0 => {
                    text += &format!("{},{rest}\n", set.parse::<u64>().unwrap() + first);
                }
                _ if text.is_empty() => text = format!("{line}\n"),
                _ => {}
            }
        }
    }
    fs::write(room.path("sets.csv"), text).unwrap();
    let tests = ["--test", "gfb,ff,sim:g-fp", "--cpus", "4", "--duration", "100ms"];
    let verdicts = rows(&room.takt(&[&["analyze", "sets.csv"], &tests[..]].concat()).expect(0).stdout);
    let sweep = |more: &[&str]| {
        room.takt(&[&["sweep", "schedulability", "sets.csv"], &tests[..], more].concat()).expect(0).stdout
    };
    let found = sweep(&["--svg", "a.svg"]);
    let found = rows(&found);
    let points: Vec<(&str, &str)> =
        found.iter().map(|row| (row["utilisation"].as_str(), row["sets"].as_str())).collect();
    assert_eq!(points, [("2.4", "10"), ("3.6", "10")]);
    for (row, verdicts) in found.iter().zip(verdicts.chunks(10)) {
        for test in ["gfb", "ff", "sim:g-fp"] {
            let accepted = verdicts.iter().filter(|verdict| verdict[test] == "1").count();
            assert_eq!(number(row, test), accepted as f64 / 10.0, "{test}");
        }
    }
    let svg = room.text("a.svg");
    assert!(svg.contains("task sets of sets.csv: 20, 10 per point, CPUs: 4, simulated for 100ms"), "{svg}");
    // A set belongs to the nearest point, and a point may have none.
    let found = rows(&sweep(&["--points", "1.0,2.0,2.9,3.0"]));
    let counts: Vec<(&str, &str)> = found.iter().map(|row| (row["sets"].as_str(), row["ff"].as_str())).collect();
    assert_eq!((counts[0], counts[1].0, counts[2].0, counts[3].0), (("0", ""), "10", "0", "10"));
    // It is resumed, and neither the threads nor an interruption changes a byte.
    let whole = sweep(&["--threads", "1", "--state", "s.json"]);
    assert_eq!((sweep(&["--threads", "3"]), sweep(&["--state", "s.json"])), (whole.clone(), whole));
    for more in [&["--sets", "5"][..], &["--generator", "airs"], &["--tasks", "3"]] {
        let done = room.takt(&[&["sweep", "schedulability", "sets.csv"], more].concat()).expect(2);
        assert!(done.stderr.contains("cannot be used with"), "{more:?}: {}", done.stderr);
    }
}

/// Size and title are of the picture alone, and refused without one.
#[test]
fn pictures_have_a_size_and_a_title() {
    let room = Room::new();
    let args = ["sweep", "schedulability", "--points", "3.0,3.5", "--sets", "20", "--test", "ff"];
    let plain = room.takt(&args).expect(0).stdout;
    let more = ["--svg", "a.svg", "--title", "A < B", "--size", "900x500"];
    assert_eq!(room.takt(&[&args[..], &more].concat()).expect(0).stdout, plain);
    let picture = room.text("a.svg");
    assert!(picture.contains(r#"width="900" height="500""#) && picture.contains("A &lt; B</text>"), "{picture}");
    for (option, value) in [("--title", "T"), ("--size", "900x500")] {
        let said = room.takt(&[&args[..], &[option, value]].concat()).expect(2).stderr;
        assert!(said.contains("error[no-effect]") && said.contains(option), "{said}");
    }
    room.takt(&[&args[..], &["--svg", "b.svg", "--size", "900"]].concat()).expect(2);
}
