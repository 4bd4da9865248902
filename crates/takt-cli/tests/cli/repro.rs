//! `takt repro`: the experiments of the program, those of files, and verdicts that follow the data.

use crate::common::{Done, Room, until, workloads};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;

/// A room with the workloads, and an experiment of the repository after some replacements, each of which must apply.
fn changed(file: &str, replacements: &[(&str, &str)]) -> Room {
    let room = Room::new();
    fs::create_dir(room.path("experiments")).unwrap();
    std::os::unix::fs::symlink(workloads().canonicalize().unwrap(), room.path("workloads")).unwrap();
    let mut text = fs::read_to_string(workloads().join("../experiments").join(file)).unwrap();
    for (from, to) in replacements {
        assert!(text.contains(from), "{file} has no {from}");
        text = text.replace(from, to);
    }
    fs::write(room.path("experiments").join(file), text).unwrap();
    room
}

/// The verdict of a claim that begins so.
#[track_caller]
fn verdict(done: &Done, experiment: &str, says: &str) -> String {
    let json: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.stderr));
    let result = json["results"].as_array().unwrap().iter().find(|r| r["experiment"] == experiment).unwrap();
    let is_it = |claim: &&Value| claim["says"].as_str().unwrap().starts_with(says);
    let claim = result["claims"].as_array().unwrap().iter().find(is_it).unwrap_or_else(|| panic!("{says}: {result}"));
    claim["verdict"].as_str().unwrap().to_owned()
}

/// The verdicts of a claim before and after some replacements in its file.
#[track_caller]
fn verdicts(file: &str, experiment: &str, says: &str, replacements: &[(&str, &str)]) -> [String; 2] {
    [&[][..], replacements].map(|replacements| {
        let room = changed(file, replacements);
        let done = room.takt(&["repro", &format!("experiments/{file}"), "--short", "--json"]);
        assert!(matches!(done.code(), 0 | 1), "{}", done.stderr);
        verdict(&done, experiment, says)
    })
}

#[test]
fn a_swapped_policy_has_another_verdict() {
    let swapped = [("NG-GUA: {run: four, policy: ng-gua}", "NG-GUA: {run: four, policy: g-np-edf:successor=keep}")];
    let says = "In overloads G-EDF has the domino effect";
    assert_eq!(verdicts("chronos.yaml", "chronos-fig5", says, &swapped), ["holds", "does not hold"]);
    let swapped = [(
        "low: {command: sim, file: ../workloads/adasmark.yaml, options: {power: low",
        "low: {command: sim, file: ../workloads/adasmark.yaml, options: {power: high",
    )];
    let says = "Temperature at the lowest frequencies";
    assert_eq!(verdicts("demos.yaml", "demos-temperature", says, &swapped), ["holds", "does not hold"]);
}

#[test]
fn swapped_series_have_another_verdict() {
    let swapped = [("RM: {policy: rm}", "RM: {policy: edf}")];
    let says = "At high utilisations RM preempts more often";
    assert_eq!(verdicts("buttazzo.yaml", "buttazzo-preemptions", says, &swapped), ["holds", "does not hold"]);
}

/// Bursts end up to 6 ms late: rounds no longer have their set point.
#[test]
fn a_planted_delay_has_another_verdict() {
    let says = "Both together eliminate the longer round";
    let verdicts = [None, Some("timer_lateness: 6ms\n")].map(|delay| {
        let room = changed("ipi.yaml", &[("../workloads/ipi-blocking.yaml", "delayed.yaml")]);
        let workload = fs::read_to_string(workloads().join("ipi-blocking.yaml")).unwrap();
        fs::write(room.path("experiments/delayed.yaml"), workload + delay.unwrap_or_default()).unwrap();
        let done = room.takt(&["repro", "experiments/ipi.yaml", "--short", "--json"]);
        verdict(&done, "ipi-fig2-5", says)
    });
    assert_eq!(verdicts, ["holds", "does not hold"]);
}

/// Distances decide between the first two verdicts, the order about the third.
#[test]
fn an_order_without_its_distance_is_in_order_only() {
    for (by, expected) in [("5%", "holds"), ("500%", "holds in order only")] {
        let room = changed("buttazzo.yaml", &[("order: [RM, EDF], by: 5%", &format!("order: [RM, EDF], by: {by}"))]);
        let done = room.takt(&["repro", "experiments/buttazzo.yaml", "--short", "--json"]);
        assert_eq!(verdict(&done, "buttazzo-preemptions", "At high"), expected);
    }
}

const SMALL: &str = "\
authors: A
title: T
published: P
results:
  - id: fig1
    figure: Figure 1
    page: 3
    shows: deadlines met
    runs:
      one: {command: sweep load, options: {cpus: 1, policies: [edf, rm], loads: [0.5, 1.5], sets: 8, duration: 200ms}}
    over: load
    quantity: dsr
    series:
      EDF: {policy: edf}
      RM: {policy: rm}
    claims:
      - {says: equal when feasible, at: [0.5], equal: [EDF, RM], within: 10%}
      - {says: published values, at: [0.5], values: {EDF: 1}, within: 0.01}
      - {says: bounds, at: [1.5], below: {EDF: 1}}
";

#[test]
fn an_experiment_of_a_file_has_its_table_and_its_picture() {
    let room = Room::with(SMALL);
    let done = room.takt(&["repro", "w.yaml", "--svg", "a.svg"]).expect(0);
    for part in [
        "w-fig1: deadlines met",
        "Figure 1, page 3",
        "claim",
        "publication",
        "simulated",
        "verdict",
        "EDF = RM within 10 %",
    ] {
        assert!(done.stdout.contains(part), "{part}: {}", done.stdout);
    }
    assert_eq!(done.stdout.matches("holds").count(), 3, "{}", done.stdout);
    let svg = room.text("a.svg");
    assert!(svg.contains(">EDF<") && svg.contains(">RM<") && svg.contains(">load<"), "{svg}");
    // The number of threads changes nothing.
    let again = room.takt(&["repro", "w.yaml", "--threads", "3"]).expect(0);
    assert_eq!(again.stdout, done.stdout);
}

#[test]
fn a_state_keeps_the_results_of_runs() {
    let room = Room::with(SMALL);
    let first = room.takt(&["repro", "w.yaml", "--state", "s.json", "--json"]).expect(0).stdout;
    let kept = room.text("s.json");
    // A result that only the state can have.
    let planted = kept.replace("\"dsr.mean\":\"1.0\"", "\"dsr.mean\":\"0.25\"");
    assert_ne!(planted, kept);
    fs::write(room.path("s.json"), planted).unwrap();
    let second = room.takt(&["repro", "w.yaml", "--state", "s.json", "--json"]).expect(1).stdout;
    assert!(second != first && second.contains("0.25"), "{second}");
    fs::write(room.path("s.json"), "{}").unwrap();
    let done = room.takt(&["repro", "w.yaml", "--state", "s.json"]).expect(2);
    assert!(done.stderr.contains("error[wrong-format]") && done.stderr.contains("hint: "), "{}", done.stderr);
}

/// The command of a run keeps what it has, and continues from there.
#[test]
fn an_interrupted_run_continues() {
    let room = Room::with(&SMALL.replace("sets: 8", "sets: 900000"));
    let sets = || -> u64 {
        let inner = fs::read_dir(room.path(".")).unwrap().flatten().find(|entry| {
            let name = entry.file_name().into_string().unwrap();
            name.starts_with("s.json.")
        });
        let text = inner.and_then(|entry| fs::read_to_string(entry.path()).ok()).unwrap_or_default();
        let state = serde_json::from_str::<Value>(&text).unwrap_or_default();
        state["done"].as_array().into_iter().flatten().filter_map(|row| row[2].as_u64()).sum()
    };
    let mut before = 0;
    for _ in 0..2 {
        let running = room.start(&["repro", "w.yaml", "--state", "s.json"]);
        until("the run has more sets", || sets() > before);
        running.signal(Signal::TERM);
        let (_, done) = running.wait_unchecked();
        assert_eq!(ExitStatusExt::signal(&done.status), Some(Signal::TERM.as_raw()), "{}", done.stderr);
        before = sets();
        assert!(before < 900_000);
    }
}

/// Each fault has its code, its place and a hint, and the status is 2.
#[test]
fn faults_of_a_file_have_their_places() {
    for (from, to, code, place) in [
        ("authors: A\n", "", "missing-key", "w.yaml:1:1"),
        ("authors: A", "author: A", "unknown-key", "w.yaml:1:1"),
        ("id: fig1", "id: a b", "invalid-character", "w.yaml:5:9"),
        ("sweep load", "run", "unknown-value", "w.yaml:10:22"),
        ("sets: 8", "set: 8", "unknown-key", "w.yaml:10:"),
        ("sets: 8", "runs: a.csv", "not-supported-here", "w.yaml:10:"),
        ("[edf, rm]", "[edf, mr]", "wrong-type", "w.yaml:10:22"),
        ("EDF: {policy: edf}", "EDF: {run: two, policy: edf}", "unknown-name", "w.yaml:14:18"),
        ("EDF: {policy: edf}", "EDF: {policy: fifo}", "unknown-name", "w.yaml:17:"),
        ("EDF: {policy: edf}", "EDF: {load: 0.5}", "not-applicable", "w.yaml:17:"),
        ("quantity: dsr", "quantity: dsrr", "unknown-name", "w.yaml:17:"),
        ("[EDF, RM], within: 10%", "[EDF, RN], within: 10%", "unknown-name", "w.yaml:17:"),
        ("[EDF, RM], within: 10%", "[EDF], within: 10%", "empty-value", "w.yaml:17:"),
        ("[EDF, RM], within: 10%", "[EDF, RM]", "missing-key", "w.yaml:17:"),
        ("[EDF, RM], within: 10%", "[EDF, RM], within: x", "wrong-type", "w.yaml:17:"),
        ("below: {EDF: 1}", "below: {EDF: 1}, by: 1", "no-effect", "w.yaml:19:"),
        ("below: {EDF: 1}", "below: {EDF: 1}, order: [EDF, RM]", "conflicting-keys", "w.yaml:19:"),
        ("below: {EDF: 1}", "within: 1", "missing-key", "w.yaml:19:"),
        ("at: [1.5]", "at: [x]", "wrong-type", "w.yaml:19:"),
        ("at: [1.5]", "at: [1.25]", "unknown-name", "w.yaml:19:"),
        ("    over: load\n", "", "no-effect", "w.yaml:16:"),
        ("    page: 3", "    not_yet: hard", "conflicting-keys", "w.yaml:9:5"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let room = Room::with(&SMALL.replace(from, to));
        let done = room.takt(&["repro", "w.yaml"]).expect(2);
        let begins = format!("error[{code}]");
        assert!(done.stderr.starts_with(&begins), "{to}: {}", done.stderr);
        assert!(done.stderr.contains(place) && done.stderr.contains("hint: "), "{to}: {}", done.stderr);
        assert!(done.stdout.is_empty(), "{to}: {}", done.stdout);
    }
}

#[test]
fn unknown_and_untested_results_are_refused() {
    let room = Room::new();
    for (args, code, says) in [
        (&["repro", "chronos-fig55"][..], "unknown-name", "did you mean `chronos-fig5`?"),
        (&["repro", "isolation-fig2"], "not-applicable", "is not yet done"),
        (&["repro", "ipi-table4-1"], "not-applicable", "cannot be tested here"),
        (&["repro", "ipi", "--svg", "a.svg"], "conflicting-options", "name one"),
        (&["repro", "none.yaml"], "unreadable-file", "none.yaml"),
    ] {
        let done = room.takt(args).expect(2);
        assert!(done.stderr.contains(&format!("[{code}]")) && done.stderr.contains(says), "{args:?}: {}", done.stderr);
    }
    // There is no other form than the simulated one.
    assert!(room.takt(&["repro", "chronos-fig5", "--real"]).expect(2).stderr.contains("--real"));
}

/// Each numbered figure and table of the five documents that shows a result.
#[test]
fn the_list_has_all_results_of_the_documents() {
    let list = Room::new().takt(&["repro"]).expect(0).stdout;
    let all = |publication: &str, ids: &[&str]| {
        for id in ids {
            let name = format!("{publication}-{id} ");
            assert!(list.lines().any(|line| line.starts_with(&name)), "{name}: {list}");
        }
    };
    all("airs", &["fig1", "fig2", "fig3", "fig6", "fig7", "fig8", "fig9", "fig10", "fig11", "fig12", "fig13"]);
    all("chronos", &["fig5", "fig6", "fig7", "fig8"]);
    all("demos", &["fig9", "startup", "temperature"]);
    all("ipi", &["fig2-3", "fig2-5", "table4-1", "table4-2", "fig4-2", "fig4-3"]);
    all("isolation", &["fig2", "fig3", "fig4", "fig5", "half"]);
}
