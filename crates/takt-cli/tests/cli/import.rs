//! `takt import`: the way of a task set from another system's file to counted jobs.

use crate::common::{Room, TAKT, workloads};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn takt(dir: &Path, args: &[&str]) -> Output {
    Command::new(TAKT).args(args).current_dir(dir).output().unwrap()
}

#[track_caller]
fn said(output: &Output, status: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{out}{err}");
    (out, err)
}

/// Five of the runs in crates/takt-sim/tests/data/chronos_measured_20t.csv, which names their source.
#[test]
fn the_measurements_of_chronos_are_reproduced() {
    let room = Room::new();
    let set = workloads().join("chronos/20t_nl.ts");
    for (policy, usage, met, utility) in [
        ("EDF", "115%", 302, 354_269),
        ("EDF", "150", 160, 172_991),
        ("RMA", "100", 306, 363_054),
        ("RMA", "130", 301, 324_804),
        ("RMA", "250", 275, 203_798),
    ] {
        let set = set.to_str().unwrap();
        let args = ["import", "chronos", set, "--policy", policy, "--usage", usage, "--duration", "20s"];
        let (yaml, err) = said(&takt(&room.path("."), &args), 0);
        assert_eq!(err, "");
        fs::write(room.path("set.yaml"), yaml).unwrap();
        // The machine's own costs, as one factor.
        let (json, _) = said(&takt(&room.path("."), &["sim", "set.yaml", "--load", "1.002", "--json"]), 0);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["jobs"]["met"], &json["jobs"]["released"]), (&met.into(), &307.into()), "{policy} {usage}");
        assert_eq!(json["utility"]["accrued"], Value::from(utility), "{policy} {usage}");
    }
}

/// Runs of HVDF in the course tree of 2017, which `crates/takt-sim/tests/data/chronos_measured_hvdf_20t.csv` holds with their
/// source: late jobs continue there. ChronOS 3.0 aborts them.
#[test]
fn late_jobs_of_hvdf_depend_on_the_version_of_chronos() {
    let room = Room::new();
    let set = workloads().join("chronos/20t_nl.ts");
    let import = |version: &[&str], policy: &str, usage: &str| {
        let set = set.to_str().unwrap();
        let args = ["import", "chronos", set, "--policy", policy, "--usage", usage, "--duration", "5s"];
        let (yaml, err) = said(&takt(&room.path("."), &[&args, version].concat()), 0);
        assert_eq!(err, "");
        yaml
    };
    let jobs = |yaml: &str, more: &[&str]| {
        fs::write(room.path("h.yaml"), yaml).unwrap();
        let (json, _) =
            said(&takt(&room.path("."), &[&["sim", "h.yaml", "--load", "1.002", "--json"], more].concat()), 0);
        let json: Value = serde_json::from_str(&json).unwrap();
        [&json["jobs"]["met"], &json["jobs"]["aborted"], &json["utility"]["accrued"]].map(|n| n.as_u64().unwrap())
    };
    for (usage, met, utility) in [("120", 42, 60_771), ("190", 31, 50_663), ("250", 24, 47_837)] {
        let course = import(&["--version", "2017"], "HVDF", usage);
        assert!(course.contains("for the ChronOS course tree of 2017.\n") && course.contains("\nlate: continue\n"));
        assert_eq!(jobs(&course, &[]), [met, 0, utility], "{usage} %");
        let released = import(&["--version", "3.0"], "HVDF", usage);
        assert!(released.contains("for ChronOS 3.0.\n") && released.contains("\nlate: abort-at-event\n"));
        assert_eq!(import(&[], "HVDF", usage), released, "3.0 is the default");
        assert!(jobs(&released, &[])[1] > 0, "{usage} %");
        // One simulation is as good as the other with the rule of the command line.
        assert_eq!(jobs(&released, &["--late", "continue"]), [met, 0, utility], "{usage} %");
        assert_eq!(jobs(&course, &["--late", "abort-at-event"]), jobs(&released, &[]), "{usage} %");
        assert_ne!(jobs(&course, &["--late", "abort"]), jobs(&course, &[]), "{usage} %");
    }
    // The other schedulers of that tree are those of 3.0.
    let strip = |yaml: String| yaml.lines().skip(1).map(String::from).collect::<Vec<_>>();
    assert_eq!(strip(import(&["--version", "2017"], "EDF", "130")), strip(import(&[], "EDF", "130")));
}

#[test]
fn late_jobs_can_be_aborted_by_the_command_line() {
    let room = Room::new();
    let task = "{runtime: 30ms, deadline: 40ms, period: 40ms}";
    fs::write(room.path("w.yaml"), format!("policy: edf\nduration: 400ms\ntasks: [{task}, {task}]\n")).unwrap();
    let aborted = |more: &[&str]| {
        let (json, _) = said(&takt(&room.path("."), &[&["sim", "w.yaml", "--json"], more].concat()), 0);
        serde_json::from_str::<Value>(&json).unwrap()["jobs"]["aborted"].as_u64().unwrap()
    };
    assert_eq!((aborted(&[]), aborted(&["--late", "continue"]), aborted(&["--late", "abort"])), (0, 0, 10));
    fs::write(room.path("h.yaml"), format!("policy: edf\npreset: hartstone\ntasks: [{task}]\n")).unwrap();
    for (args, says) in [
        (&["sim", "w.yaml", "--late", "never"][..], "--late"),
        (&["sim", "h.yaml", "--late", "abort"], "contradicts the file's `preset: hartstone`"),
        (&["sim", "w.yaml", "--late", "abort", "--replay", "x.steps"], "--replay"),
    ] {
        let (out, err) = said(&takt(&room.path("."), args), 2);
        assert!(out.is_empty() && err.contains(says), "{args:?}: {err}");
    }
}

/// Every set of the repository can be simulated as it is.
#[test]
fn chronos_sets_are_workloads() {
    let mut sets = 0;
    for entry in fs::read_dir(workloads().join("chronos")).unwrap().flatten() {
        let path = entry.path();
        let args = ["sim", path.to_str().unwrap(), "--policy", "g-edf", "--duration", "30s", "--json"];
        let (json, _) = said(&takt(&workloads(), &args), 0);
        let json: Value = serde_json::from_str(&json).unwrap();
        assert!(json["jobs"]["released"].as_u64().unwrap() > 50, "{}", path.display());
        sets += 1;
    }
    assert!(sets >= 6);
}

#[test]
fn scripts_become_workloads_that_check_takes() {
    let room = Room::new();
    fs::write(room.path("x.sh"), "setsched GSN-EDF\nrtspin -w 10 100 4 &\nrtspin -w 20 100 4 &\n").unwrap();
    let (yaml, _) = said(&takt(&room.path("."), &["import", "litmus", "x.sh", "--cpus", "2"]), 0);
    assert!(yaml.starts_with("# Imported from the calls of rtspin and rt_launch in x.sh.\n"), "{yaml}");
    fs::write(room.path("x.yaml"), yaml).unwrap();
    let (out, _) = said(&takt(&room.path("."), &["check", "x.yaml"]), 0);
    assert!(out.contains("schedulable"), "{out}");
}

#[test]
fn bad_input_ends_with_2_and_its_place() {
    let room = Room::new();
    fs::write(room.path("x.ts"), "L 0\nT 0 1 0 100\n").unwrap();
    fs::write(room.path("x.sh"), "setsched GSN-EDF\nrtspin -w ten 100 4 &\n").unwrap();
    fs::write(room.path("y.ts"), "L 0\nT 0 1 0 100 10 1\n").unwrap();
    for (args, place) in [
        (&["import", "chronos", "x.ts", "--policy", "EDF"][..], "x.ts:2:7"),
        (&["sim", "x.ts", "--policy", "edf"], "x.ts:2:7"),
        (&["import", "litmus", "x.sh"], "x.sh:2:11"),
        (&["import", "chronos", "none.ts", "--policy", "EDF"], "none.ts"),
        (&["import", "chronos", "x.ts", "--policy", "XEDF"], "--policy"),
        (&["import", "chronos", "x.ts", "--policy", "EDF", "--usage", "0"], "--usage"),
        (&["import", "chronos", "x.ts", "--policy", "EDF", "--nested"], "--locks"),
        (&["import", "chronos", "y.ts", "--policy", "DASA", "--version", "2017"], "has no scheduler `dasa`"),
        (&["import", "chronos", "x.ts", "--policy", "EDF", "--version", "2"], "--version"),
    ] {
        let (out, err) = said(&takt(&room.path("."), args), 2);
        assert!(out.is_empty() && err.contains(place), "{args:?}: {err}");
    }
}
