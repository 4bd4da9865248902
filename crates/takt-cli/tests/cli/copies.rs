//! `takt sweep copies`, and the movies of AIRS: known acceptance, the same bytes however it is computed, bad input.

use crate::common::{Room, workloads};
use serde_json::Value;
use std::fs;

/// A room with the movies.
fn room() -> Room {
    let room = Room::new();
    fs::create_dir_all(room.path("series")).unwrap();
    for name in ["movies-h264.yaml", "movies-lossless.yaml", "series/h264.csv", "series/lossless.csv"] {
        fs::copy(workloads().join(name), room.path(name)).unwrap();
    }
    room
}

const MOVIES: &[&str] = &["sweep", "copies", "movies-h264.yaml", "--copies", "player=4..7", "--policies"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    [MOVIES, more].concat()
}

/// Rows as (copies, policy, proven, worst, typical).
fn rows(csv: &str) -> Vec<(usize, String, bool, f64, f64)> {
    let mut lines = csv.lines();
    let head = "copies,policy,proven,runs,worst,worst_ci95,typical,typical_ci95,dsr,dsr_ci95";
    assert_eq!(lines.next(), Some(head));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().unwrap();
        (cells[0].parse().unwrap(), cells[1].to_owned(), cells[2] == "yes", number(4), number(6))
    };
    lines.map(row).collect()
}

#[test]
fn as_many_movies_are_proven_as_in_the_paper() {
    let room = room();
    for (file, most) in [("movies-h264.yaml", 6), ("movies-lossless.yaml", 14)] {
        let copies = format!("player={}..{}", most - 1, most + 1);
        let args =
            ["sweep", "copies", file, "--copies", &copies, "--policies", "edf-wmr", "--seeds", "1", "--duration", "3s"];
        let proven: Vec<(usize, bool)> =
            rows(&room.takt(&args).expect(0).stdout).into_iter().map(|r| (r.0, r.2)).collect();
        assert_eq!(proven, [(most - 1, true), (most, true), (most + 1, false)], "{file}");
    }
    // These frames never need more than is reserved, so the check proves it for the file itself.
    let check = |copies: &str| {
        let done = room.takt(&["check", "movies-lossless.yaml", "--copies", copies, "--json"]);
        serde_json::from_str::<Value>(&done.stdout).unwrap()["schedulable"].clone()
    };
    assert_eq!(check("player=14"), true);
    assert_ne!(check("player=15"), true);
}

#[test]
fn movies_that_fit_show_every_frame() {
    let room = room();
    let args = ["sweep", "copies", "movies-lossless.yaml", "--copies", "player=12..14", "--policies", "p-cbs,edf-wmr"];
    for (copies, policy, proven, worst, _) in rows(&room.takt(&args).expect(0).stdout) {
        // A frame every 33 ms is 30 or 31 in a second.
        assert!(!proven || worst >= 29.0, "{copies} under {policy}: {worst}");
    }
}

#[test]
fn more_players_are_no_better_off() {
    let rows = rows(&room().takt(&with(&["p-cbs,edf-wmr"])).expect(0).stdout);
    for pair in rows.chunks(2).collect::<Vec<_>>().windows(2) {
        for (fewer, more) in pair[0].iter().zip(pair[1]) {
            assert!((fewer.0 + 1, &fewer.1) == (more.0, &more.1) && more.3 <= fewer.3, "{fewer:?} {more:?}");
        }
    }
    // Seven need more than four CPUs have.
    assert!(rows.iter().all(|row| row.0 < 7 || row.4 < 23.0), "{rows:?}");
}

/// The rows of single runs have the means of the table.
#[test]
fn single_runs_are_written() {
    let room = room();
    let draw = ["g-fcbs,edf-wmr", "--seeds", "3..5", "--duration", "4s"];
    let table = room.takt(&with(&[&draw[..], &["--runs", "runs.csv"]].concat())).expect(0).stdout;
    let runs = room.text("runs.csv");
    let mut lines = runs.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap().join(","), "copies,seed,policy,released,met,worst,typical");
    let lines: Vec<Vec<String>> = lines.collect();
    assert_eq!(lines.len(), 4 * 3 * 2);
    for (copies, policy, _, worst, typical) in rows(&table) {
        let own: Vec<_> = lines.iter().filter(|row| row[0] == copies.to_string() && row[2] == policy).collect();
        assert_eq!(own.iter().map(|row| row[1].as_str()).collect::<Vec<_>>(), ["3", "4", "5"]);
        let mean = |column: usize| own.iter().map(|row| row[column].parse::<f64>().unwrap()).sum::<f64>() / 3.0;
        assert!((mean(5) - worst).abs() < 1e-3 && (mean(6) - typical).abs() < 1e-3, "{copies} {policy}");
    }
    let part = ["--shard", "1/2", "--state"];
    room.takt(&with(&[&draw[..], &part, &["p1"]].concat())).expect(0);
    room.takt(&with(&[&draw[..], &["--shard", "2/2", "--state", "p2"]].concat())).expect(0);
    room.takt(&["sweep", "merge", "p2", "p1", "--runs", "merged.csv"]).expect(0);
    assert_eq!(room.text("merged.csv"), runs);
}

#[test]
fn the_seeds_alone_decide() {
    let room = room();
    let draw = ["g-fcbs,edf-wmr", "--seeds", "1..3", "--duration", "5s", "--svg", "a.svg", "--over-time", "t.svg"];
    let first = room.takt(&with(&[&draw[..], &["--threads", "1"]].concat())).expect(0).stdout;
    let (a, t) = (room.text("a.svg"), room.text("t.svg"));
    assert!(a.starts_with("<svg") && a.contains("edf-wmr") && t.contains("player: 6"), "{t}");
    let again = room.takt(&with(&[&draw[..], &["--threads", "5"]].concat())).expect(0).stdout;
    assert_eq!((&first, &a, &t), (&again, &room.text("a.svg"), &room.text("t.svg")));
    // One seed is kept, and the others are added to it.
    let kept = ["g-fcbs,edf-wmr", "--duration", "5s", "--state", "s.json", "--seeds"];
    room.takt(&with(&[&kept[..], &["1"]].concat())).expect(0);
    assert_eq!(room.takt(&with(&[&kept[..], &["1..3"]].concat())).expect(0).stdout, first);
    let object = room.takt(&with(&[&draw[..5], &["--json"]].concat())).json();
    let policy = &object["points"][0]["policies"][1];
    assert_eq!((&object["points"][0]["copies"], &policy["policy"]), (&4.into(), &"edf-wmr".into()));
    // The first second is the one in which they begin.
    assert!(policy["fewest"].as_array().unwrap().iter().all(|run| run.as_array().unwrap().len() == 4), "{policy}");
    // The parts give what the whole gives, with both pictures, and in one file.
    let parts = ["p1", "p2", "p3"].map(|path| {
        let shard = format!("{}/3", &path[1..]);
        room.takt(&[&with(&draw[..5])[..], &["--shard", &shard, "--state", path]].concat()).expect(0);
        path
    });
    let merge = ["sweep", "merge", parts[1], parts[2], parts[0]];
    let pictures = ["--svg", "a.svg", "--over-time", "t.svg"];
    let merged = room.takt(&[&merge[..], &pictures, &["--state", "whole"]].concat()).expect(0).stdout;
    assert_eq!((&first, &a, &t), (&merged, &room.text("a.svg"), &room.text("t.svg")));
    assert_eq!(room.takt(&[&merge[..], &["--json"]].concat()).json(), object);
    assert_eq!(room.takt(&with(&[&draw[..5], &["--state", "whole"]].concat())).expect(0).stdout, first);
    // The series is part of the experiment.
    fs::write(room.path("series/h264.csv"), "cpu_us\n3000\n").unwrap();
    let other = room.takt(&with(&[&kept[..], &["1..3"]].concat())).expect(2);
    assert!(other.stderr.contains("[other-record]"), "{}", other.stderr);
}

#[test]
fn wrong_calls_are_told() {
    let room = room();
    for (args, part) in [
        (&["--copies", "player", "--policies", "g-cbs"][..], "write the name of a task and numbers"),
        (&["--copies", "player=3..1", "--policies", "g-cbs"], "upside down"),
        (&["--copies", "plaier=3", "--policies", "g-cbs"], "`player`"),
        (&["--copies", "player=3", "--policies", "g-cbs", "--duration", "500ms"], "[out-of-range]"),
    ] {
        let done = room.takt(&[&["sweep", "copies", "movies-h264.yaml"], args].concat()).expect(2);
        assert!(done.stderr.contains(part), "{args:?}: {}", done.stderr);
    }
}
