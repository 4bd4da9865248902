//! `takt sweep --shard` and `takt sweep merge`: the bytes of the experiment in one piece, killed parts, bad input.

use crate::common::{Done, Room, Running, pause, sealed, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const ANALYTIC: &[&str] =
    &["sweep", "schedulability", "--points", "3.0,3.3,3.6", "--sets", "130", "--test", "gfb,ff,wm_ff,necessary"];
const LOADS: &[&str] = &[
    "sweep",
    "load",
    "--policies",
    "g-edf,g-gua",
    "--loads",
    "2.5,3.0",
    "--cpus",
    "2",
    "--sets",
    "12",
    "--duration",
    "100ms",
    "--against",
    "g-edf",
];

/// Computes all parts, in the files `p1` to `pN`.
fn parts(room: &Room, args: &[&str], of: usize, threads: &str) -> Vec<String> {
    let part = |number: usize| {
        let (path, shard) = (format!("p{number}"), format!("{number}/{of}"));
        // An earlier experiment with other parts may have left it.
        let _ = fs::remove_file(room.path(&path));
        let done = room.takt(&[args, &["--shard", &shard, "--state", &path, "--threads", threads]].concat()).expect(0);
        assert!(done.stdout.is_empty() && done.stderr.contains(&format!("has part {number}/{of}")), "{}", done.stderr);
        path
    };
    (1..=of).map(part).collect()
}

fn merge(room: &Room, parts: &[String], more: &[&str]) -> Done {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    room.takt(&[&["sweep", "merge"][..], &parts, more].concat())
}

/// Puts them into a random order: the same one for a seed and a number.
fn shuffled(mut parts: Vec<String>, number: u64) -> Vec<String> {
    for end in (1..parts.len()).rev() {
        let other = takt_core::rng::draw_up_to(end as u64, takt_testing::seed(), number, end as u64);
        parts.swap(end, other as usize);
    }
    parts
}

/// For every number of parts, in any order and with any number of threads, the output is that of the experiment in one piece.
/// `keep` makes parts hold what `runs` needs.
fn gives_the_whole(room: &Room, args: &[&str], numbers: &[usize], keep: &[&str], runs: &[&str]) {
    println!("seed {}", takt_testing::seed());
    let whole = room.takt(&[args, &["--svg", "whole.svg"], runs].concat()).expect(0);
    let object = room.takt(&[args, &["--json"]].concat()).expect(0);
    let of_runs = room.text("runs.csv");
    assert_eq!(of_runs.is_empty(), runs.is_empty());
    let kept = [args, keep].concat();
    for (of, threads) in numbers.iter().flat_map(|of| [(*of, "1"), (*of, "4")]) {
        let parts = shuffled(parts(room, &kept, of, threads), of as u64);
        let merged = merge(room, &parts, &[&["--svg", "merged.svg", "--state", "merged"], runs].concat()).expect(0);
        assert_eq!((&merged.stdout, &merged.stderr), (&whole.stdout, &whole.stderr), "{of} parts");
        assert_eq!(room.text("merged.svg"), room.text("whole.svg"), "{of} parts");
        assert_eq!(room.text("runs.csv"), of_runs, "{of} parts");
        assert_eq!(merge(room, &parts, &["--json"]).expect(0).stdout, object.stdout, "{of} parts");
        // The parts in one file are the experiment in one piece.
        fs::write(room.path("runs.csv"), "").unwrap();
        let again = room.takt(&[args, &["--state", "merged"], runs].concat()).expect(0);
        assert_eq!((again.stdout, room.text("runs.csv")), (whole.stdout.clone(), of_runs.clone()), "{of} parts");
        let again = merge(room, &["merged".into()], runs).expect(0);
        assert_eq!((again.stdout, room.text("runs.csv")), (whole.stdout.clone(), of_runs.clone()), "{of} parts");
    }
}

const NUMBERS: [usize; 5] = [1, 2, 3, 7, 64];

#[test]
fn parts_of_verdicts_give_the_whole() {
    gives_the_whole(&Room::new(), ANALYTIC, &NUMBERS, &["--keep-sets"], &["--runs", "runs.csv"]);
}

#[test]
fn parts_of_loads_give_the_whole() {
    gives_the_whole(&Room::new(), LOADS, &NUMBERS, &["--keep-runs"], &["--runs", "runs.csv"]);
}

const MOVIES: &str = "policy: g-cbs\ncpus: 2\ntasks:\n- {name: player, period: 40ms, runtime: 10ms, reservation: {budget: 12ms, period: 40ms}, \
                      execution: {file: times.csv}}\n";

/// A workload, and a series that it names.
fn movies() -> Room {
    let room = Room::new();
    fs::write(room.path("movies.yaml"), MOVIES).unwrap();
    fs::write(room.path("times.csv"), "time_ms\n4\n9\n12\n7\n3\n").unwrap();
    room
}

const COPIES: &[&str] = &[
    "sweep",
    "copies",
    "movies.yaml",
    "--copies",
    "player=1..3",
    "--policies",
    "g-cbs,g-edf",
    "--duration",
    "3s",
    "--seeds",
    "1..5",
];

#[test]
fn parts_of_copies_give_the_whole() {
    gives_the_whole(&movies(), COPIES, &[1, 2, 3, 7], &[], &["--runs", "runs.csv", "--over-time", "over.svg"]);
}

/// A part has the texts of its files, so that these may be gone or changed.
#[test]
fn a_merge_needs_no_file() {
    let csv = ["sweep", "generate", "--utilisation", "3.5", "--sets", "90"];
    let loads = ["--policies", "g-edf,g-rm", "--loads", "0.5,1.5", "--duration", "1s"];
    let experiments: [Vec<&str>; 4] = [
        COPIES.to_vec(),
        [&["sweep", "load", "movies.yaml", "--seeds", "1..4"][..], &loads].concat(),
        [&["sweep", "load", "sets.csv", "--seeds", "1"][..], &loads].concat(),
        vec!["sweep", "schedulability", "sets.csv", "--points", "3.4,3.5", "--test", "ff,wf"],
    ];
    for args in experiments {
        let room = movies();
        fs::write(room.path("sets.csv"), room.takt(&csv).expect(0).stdout).unwrap();
        let whole = room.takt(&[&args[..], &["--svg", "a.svg"]].concat()).expect(0);
        let parts = parts(&room, &args, 2, "2");
        for name in ["movies.yaml", "times.csv", "sets.csv"] {
            fs::remove_file(room.path(name)).unwrap();
        }
        let merged = merge(&room, &parts, &["--svg", "b.svg"]).expect(0);
        assert_eq!((&merged.stdout, &merged.stderr), (&whole.stdout, &whole.stderr), "{args:?}");
        assert_eq!(room.text("a.svg"), room.text("b.svg"), "{args:?}");
        // The command itself needs it, and a changed one is another experiment.
        refused(room.takt(&[&args[..], &["--state", "p1", "--shard", "1/2"]].concat()), 2, &["error[unreadable-file]"]);
    }
    // A series is a part of the experiment.
    for args in [COPIES, &["sweep", "load", "movies.yaml", "--policies", "g-edf", "--loads", "1", "--duration", "1s"]] {
        let room = movies();
        parts(&room, args, 2, "2");
        fs::write(room.path("times.csv"), "time_ms\n5\n").unwrap();
        let again = room.takt(&[args, &["--state", "p1", "--shard", "1/2"]].concat());
        refused(again, 2, &["error[other-record]: ", "its `fingerprint` is "]);
    }
}

/// The verdicts about single sets are those of the ratios, and of any number of parts.
#[test]
fn verdicts_of_single_sets() {
    let room = Room::new();
    let args = [
        "sweep",
        "schedulability",
        "--points",
        "3.0,3.6",
        "--sets",
        "90",
        "--test",
        "ff,wm_ff,gedf_sim",
        "--seed",
        "5",
    ];
    let whole = room.takt(&[&args[..], &["--runs", "whole.csv"]].concat()).expect(0);
    let kept = [&args[..], &["--keep-sets"]].concat();
    let parts = parts(&room, &kept, 4, "2");
    let merged = merge(&room, &parts, &["--runs", "merged.csv", "--state", "merged"]).expect(0);
    assert_eq!((&merged.stdout, room.text("merged.csv")), (&whole.stdout, room.text("whole.csv")));
    room.takt(&[&kept[..], &["--state", "merged", "--runs", "again.csv"]].concat()).expect(0);
    assert_eq!(room.text("again.csv"), room.text("whole.csv"));
    let rows: Vec<Vec<String>> =
        room.text("whole.csv").lines().map(|line| line.split(',').map(String::from).collect()).collect();
    assert_eq!(rows[0].join(","), "point,set,seed,utilisation,ff,wm_ff,gedf_sim");
    assert_eq!(rows.len(), 1 + 2 * 90);
    for (line, point) in whole.stdout.lines().skip(1).zip(["3.0", "3.6"]) {
        let of_point: Vec<_> = rows.iter().filter(|row| row[0] == point).collect();
        let cells: Vec<&str> = line.split(',').collect();
        for test in 0..3 {
            let accepted = of_point.iter().filter(|row| row[4 + test] == "1").count();
            assert_eq!(format!("{:.4}", accepted as f64 / 90.0), cells[2 + test], "{line}");
        }
        let near = |text: &str| (text.parse::<f64>().unwrap() - point.parse::<f64>().unwrap()).abs() < 0.01;
        assert!(of_point.iter().all(|row| row[2] == "5" && near(&row[3])), "{of_point:?}");
    }
    // A set is that of the generator with this seed.
    let args = ["sweep", "generate", "--utilisation", "3.6", "--sets", "90", "--seed", "5"];
    fs::write(room.path("sets.csv"), room.takt(&args).expect(0).stdout).unwrap();
    let args =
        ["sweep", "schedulability", "sets.csv", "--points", "3.6", "--test", "ff,wm_ff,gedf_sim", "--runs", "file.csv"];
    room.takt(&args).expect(0);
    let without_seed = |row: &Vec<String>| [&row[1..2], &row[4..]].concat();
    let drawn: Vec<_> = rows.iter().filter(|row| row[0] == "3.6").map(without_seed).collect();
    let text = room.text("file.csv");
    let read: Vec<Vec<String>> = text.lines().skip(1).map(|line| line.split(',').map(String::from).collect()).collect();
    assert_eq!(text.lines().next(), Some("point,set,utilisation,ff,wm_ff,gedf_sim"));
    assert_eq!(read.iter().map(|row| [&row[1..2], &row[3..]].concat()).collect::<Vec<_>>(), drawn);
    let many = ["sweep", "schedulability", "--sets", "100001", "--runs", "r.csv"];
    refused(room.takt(&many), 2, &["error[out-of-range]: ", "`--keep-sets`"]);
    refused(room.takt(&["sweep", "schedulability", "--keep-sets"]), 2, &["error[no-effect]: "]);
}

#[test]
fn parts_of_a_file_give_the_whole() {
    let room = Room::new();
    let csv = room.takt(&["sweep", "generate", "--utilisation", "3.5", "--sets", "90"]).expect(0).stdout;
    fs::write(room.path("sets.csv"), csv).unwrap();
    let args = ["sweep", "schedulability", "sets.csv", "--points", "3.4,3.5", "--test", "ff,wf"];
    let whole = room.takt(&[&args[..], &["--svg", "a.svg"]].concat()).expect(0);
    let parts = parts(&room, &args, 4, "2");
    assert_eq!(merge(&room, &parts, &["--svg", "b.svg"]).expect(0).stdout, whole.stdout);
    assert_eq!(room.text("a.svg"), room.text("b.svg"));
    // The sets of the file are a part of the experiment.
    fs::write(room.path("sets.csv"), room.text("sets.csv") + "90,0,1000,2000,2000\n").unwrap();
    let again = room.takt(&[&args[..], &["--shard", "1/4", "--state", "p1"]].concat());
    refused(again, 2, &["error[other-record]: ", "`fingerprint`"]);
    // A text of more than 1 MiB is not kept.
    let rows: String = (0..40_000).map(|set| format!("{set},0,1000000,10000000,10000000\n")).collect();
    fs::write(room.path("sets.csv"), "set_id,task_id,C_us,D_us,T_us\n".to_owned() + &rows).unwrap();
    let parts = self::parts(&room, &["sweep", "schedulability", "sets.csv", "--test", "ff"], 2, "2");
    assert!(room.text("p1").len() < 8 << 10);
    merge(&room, &parts, &[]).expect(0);
    fs::remove_file(room.path("sets.csv")).unwrap();
    refused(merge(&room, &parts, &[]), 2, &["error[unreadable-file]: ", "sets.csv"]);
}

/// A part that is killed at any instant and called again gives the same bytes.
#[test]
fn killed_parts_continue() {
    let room = Room::new();
    let args = [
        "sweep",
        "schedulability",
        "--points",
        "2.0,3.4",
        "--sets",
        "600",
        "--test",
        "gedf_sim,ff",
        "--duration",
        "20s",
    ];
    let whole = room.takt(&args).expect(0).stdout;
    let whole_sets = room.takt(&[&args[..], &["--runs", "whole.csv"]].concat()).expect(0).stdout;
    assert_eq!(whole, whole_sets);
    let shard = |number: &'static str, path: &'static str| {
        [&args[..], &["--keep-sets", "--shard", number, "--state", path]].concat()
    };
    let mut killed = 0;
    for instant in instants() {
        let running = room.start(&shard("1/2", "p1"));
        pause(instant);
        running.signal(Signal::KILL);
        let (_, done) = running.wait_unchecked();
        killed += usize::from(done.status.code().is_none());
    }
    assert!(killed > 0, "no part was killed before its end");
    // SIGTERM saves the sets that are done.
    let running = room.start(&shard("2/2", "p2"));
    until("the part has begun", || !room.text("p2").is_empty());
    running.signal(Signal::TERM);
    let (_, done) = running.wait_unchecked();
    // The part may have ended before the signal.
    assert!(done.status.success() || done.stderr.contains("interrupted: `p2` keeps "), "{}", done.stderr);
    room.takt(&shard("1/2", "p1")).expect(0);
    room.takt(&shard("2/2", "p2")).expect(0);
    assert_eq!(merge(&room, &["p1".into(), "p2".into()], &["--runs", "merged.csv"]).expect(0).stdout, whole);
    assert_eq!(room.text("merged.csv"), room.text("whole.csv"));
}

/// Twenty random instants, in milliseconds: before the first save, and the last three of them after it.
fn instants() -> impl Iterator<Item = u64> {
    println!("seed {}", takt_testing::seed());
    (0..20_u64)
        .map(|n| takt_core::rng::draw_up_to(400, takt_testing::seed(), 0x4b49_4c4c, n) + if n < 17 { 0 } else { 2_100 })
}

#[test]
fn states_are_small() {
    let room = Room::new();
    let args = ["sweep", "schedulability", "--sets", "2000", "--test", "ll,hyperbolic,edf", "--cpus", "1"];
    let done = room.takt(&[&args[..], &["--shard", "2/3", "--state", "p"]].concat()).expect(0);
    assert!(done.stderr.contains("part 2/3"), "{}", done.stderr);
    // A row for each point, and one more for an incomplete last block.
    let state: Value = serde_json::from_str(&room.text("p")).unwrap();
    assert!(state["done"].as_array().unwrap().len() <= 22, "{state}");
    assert!(room.text("p").len() < 8 << 10, "{}", room.text("p").len());
    // Runs of loads are sums, too.
    let args =
        ["sweep", "load", "--policies", "g-edf,g-rm", "--loads", "1,2", "--duration", "10ms", "--against", "g-rm"];
    let length = |sets: &str| {
        room.takt(&[&args[..], &["--sets", sets, "--state", sets]].concat()).expect(0);
        room.text(sets).len()
    };
    let (few, many) = (length("50"), length("1000"));
    assert!(many < few + 500, "{few} bytes of 50 runs, {many} of 1000");
}

/// Rows of single sets are in a file beside the state. Bytes that an interruption leaves at its end are cut off, and other damage is refused.
#[test]
fn rows_beside_a_state() {
    let room = Room::new();
    let args = [ANALYTIC, &["--keep-sets", "--shard", "1/1", "--state", "p1"]].concat();
    room.takt(&args).expect(0);
    let good = room.text("p1.rows");
    let runs = |room: &Room| merge(room, &["p1".into()], &["--runs", "r.csv"]);
    runs(&room).expect(0);
    let rows = room.text("r.csv");
    assert_eq!(rows.lines().count(), 1 + 390);
    fs::write(room.path("p1.rows"), good.clone() + "[0,7,\"3.0,7").unwrap();
    runs(&room).expect(0);
    assert_eq!(room.text("r.csv"), rows);
    // More sets cut it off.
    let more: Vec<&str> = args.iter().map(|word| if *word == "130" { "150" } else { word }).collect();
    room.takt(&more).expect(0);
    assert!(room.text("p1.rows").starts_with(&good));
    runs(&room).expect(0);
    assert_eq!(room.text("r.csv").lines().count(), 1 + 450);
    let all = room.text("p1.rows");
    for damaged in [all.replacen("3.0,7", "3.0,8", 1), all[..all.len() - 9].into(), String::new()] {
        fs::write(room.path("p1.rows"), damaged).unwrap();
        let again = "remove it and `p1`, and make both again: `takt sweep schedulability";
        refused(runs(&room), 2, &["error[damaged-file]: `p1.rows`", again, "--keep-sets --state p1`"]);
        refused(room.takt(&more), 2, &["error[damaged-file]: `p1.rows`"]);
    }
    // Without the rows, the results stand.
    merge(&room, &["p1".into()], &[]).expect(0);
    // A file of another kind is not overwritten, and the rows are no output.
    fs::write(room.path("p2.rows"), "mine").unwrap();
    let other = [ANALYTIC, &["--keep-sets", "--state", "p2"]].concat();
    refused(room.takt(&other), 2, &["error[file-exists]: `p2.rows`"]);
    assert_eq!(room.text("p2.rows"), "mine");
    refused(room.takt(&[ANALYTIC, &["--state", "p3", "--runs", "p3.rows"]].concat()), 2, &["error[same-file]: "]);
    // A state that does not have them is refused before the work.
    room.takt(&[ANALYTIC, &["--state", "p4"]].concat()).expect(0);
    let says = ["error[other-record]: `p4` has no rows of single sets", "`--keep-sets`"];
    refused(room.takt(&[ANALYTIC, &["--state", "p4", "--runs", "r4.csv"]].concat()), 2, &says);
    refused(room.takt(&[LOADS, &["--keep-runs"]].concat()), 2, &["error[no-effect]: `--keep-runs`"]);
}

/// Changes a state's file.
fn edit(room: &Room, path: &str, change: impl Fn(&mut Value)) {
    let mut state: Value = serde_json::from_str(&room.text(path)).unwrap();
    change(&mut state);
    fs::write(room.path(path), sealed(state)).unwrap();
}

/// A state with a changed byte, or without its end, is refused with the command that makes it again.
#[test]
fn a_damaged_state_is_refused_with_its_command() {
    let room = Room::new();
    let parts = parts(&room, ANALYTIC, 2, "2");
    let good = room.text("p2");
    let state: Value = serde_json::from_str(&good).unwrap();
    assert_eq!(sealed(state.clone()), good);
    let again = format!("make it again: `{} --state p2`", state["made_by"].as_str().unwrap());
    assert!(again.contains("takt sweep schedulability") && again.contains("--shard 2/2"), "{again}");
    let begin = good.find("\"arguments\"").unwrap();
    let whole = good.trim_end().len();
    for at in (0..20).map(|n| begin + n * 7_919 % (whole - begin)) {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
        for bytes in [&changed[..], &good.as_bytes()[..at]] {
            fs::write(room.path("p2"), bytes).unwrap();
            refused(merge(&room, &parts, &[]), 2, &["error[damaged-file]: `p2`", &again]);
            refused(
                room.takt(&[ANALYTIC, &["--shard", "2/2", "--state", "p2"]].concat()),
                2,
                &["error[damaged-file]: `p2`", &again],
            );
            assert_eq!(fs::read(room.path("p2")).unwrap(), bytes);
        }
    }
}

fn refused(done: Done, status: i32, says: &[&str]) {
    let done = done.expect(status);
    assert!(done.stdout.is_empty(), "{}", done.stdout);
    for part in says {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
}

#[test]
fn parts_of_other_experiments_are_refused() {
    let room = Room::new();
    let parts = parts(&room, ANALYTIC, 3, "2");
    let with = |other: &str| merge(&room, &["p1".into(), "p2".into(), other.into()], &[]);
    let shard = |more: &[&str], shard: &str| {
        let args: Vec<&str> = if more.contains(&"--sets") {
            ANALYTIC.iter().copied().filter(|w| !["--sets", "130"].contains(w)).collect()
        } else {
            ANALYTIC.to_vec()
        };
        room.takt(&[&args[..], more, &["--shard", shard, "--state", "o"]].concat()).expect(0);
        let done = with("o");
        fs::remove_file(room.path("o")).unwrap();
        done
    };
    refused(shard(&["--seed", "2"], "3/3"), 2, &["error[other-record]: `o`", "its `seed` is 2, and that of `p1` is 1"]);
    refused(shard(&["--sets", "150"], "3/3"), 2, &["`sets of each point` is [150,150,150]"]);
    refused(shard(&[], "3/4"), 2, &["its `number of parts` is 4, and that of `p1` is 3"]);
    fs::copy(room.path("p3"), room.path("o")).unwrap();
    edit(&room, "o", |state| state["version"] = json!("0.0.1"));
    refused(with("o"), 2, &["its `version` is \"0.0.1\""]);
    // All of them are of another version.
    ["p1", "p2", "o"].iter().for_each(|path| edit(&room, path, |state| state["version"] = json!("0.0.1")));
    refused(with("o"), 2, &["`p1` is of version 0.0.1 of takt"]);
    let load = room.takt(&[LOADS, &["--shard", "3/3", "--state", "l"]].concat());
    load.expect(0);
    refused(merge(&room, &["p3".into(), "l".into()], &[]), 2, &["error[other-record]: `l`"]);
    assert_eq!(parts.len(), 3);
}

#[test]
fn missing_parts_are_named() {
    let room = Room::new();
    let parts = parts(&room, ANALYTIC, 3, "2");
    let rest = [parts[0].clone(), parts[2].clone()];
    let says = [
        "of 390 sets are missing: part 2/3 is missing (130 sets)",
        "--shard 2/3 --state part-2` computes",
        "`--partial`",
    ];
    refused(merge(&room, &rest, &[]), 1, &says);
    let csv = merge(&room, &rest, &["--partial"]).expect(0).stdout;
    let sets: u64 = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sets, 260, "{csv}");
    merge(&room, &rest, &["--partial", "--svg", "a.svg"]).expect(0);
    assert!(room.text("a.svg").contains(" sets per point"));
    merge(&room, &rest, &["--partial", "--state", "whole"]).expect(2);
    edit(&room, "p2", |state| {
        state["done"].as_array_mut().unwrap().remove(0);
    });
    let done = merge(&room, &parts, &[]).expect(1);
    assert!(done.stderr.contains("part 2/3 (`p2`) has ") && done.stderr.contains("--state p2`"), "{}", done.stderr);
    // The command of the hint completes it.
    let command = done.stderr.split("hint: `takt ").nth(1).unwrap().split('`').next().unwrap();
    room.takt(&command.split(' ').collect::<Vec<_>>()).expect(0);
    merge(&room, &parts, &[]).expect(0);
    // Most of so many parts have no block, and are not missing.
    let many = [ANALYTIC, &["--shard", "1/100000", "--state", "many"]].concat();
    room.takt(&many).expect(0);
    refused(merge(&room, &["many".into()], &[]), 1, &["of 390 sets are missing: part 2/100000 is missing"]);
}

#[test]
fn a_part_counts_once() {
    let room = Room::new();
    let mut parts = parts(&room, ANALYTIC, 2, "2");
    let whole = merge(&room, &parts, &[]).expect(0).stdout;
    fs::copy(room.path("p2"), room.path("copy")).unwrap();
    parts.push("copy".into());
    let done = merge(&room, &parts, &[]).expect(0);
    assert_eq!(done.stdout, whole);
    assert!(done.stderr.contains("note: part 2/2 is in "), "{}", done.stderr);
    // An incomplete copy counts less.
    edit(&room, "copy", |state| {
        state["done"].as_array_mut().unwrap().remove(0);
    });
    assert_eq!(merge(&room, &parts, &[]).expect(0).stdout, whole);
    fs::copy(room.path("p2"), room.path("copy")).unwrap();
    edit(&room, "copy", |state| {
        let accepted = state["done"][0][3][1].as_u64().unwrap();
        state["done"][0][3][1] = json!(accepted - 1);
    });
    refused(
        merge(&room, &parts, &[]),
        2,
        &["error[other-record]: ", "`copy`", "`p2`", "different results of part 2/2, at point \"3.0\" in "],
    );
}

/// Two files of one part that were interrupted at different sets are the whole part together.
#[test]
fn unfinished_copies_of_a_part_are_united() {
    let room = Room::new();
    let kept = [ANALYTIC, &["--keep-sets"]].concat();
    let mut parts = parts(&room, &kept, 2, "2");
    let whole = merge(&room, &parts, &["--runs", "whole.csv"]).expect(0).stdout;
    for name in ["", ".rows"] {
        fs::copy(room.path(&format!("p2{name}")), room.path(&format!("copy{name}"))).unwrap();
    }
    parts.push("copy".into());
    let lacks = |path: &str, row: usize| {
        edit(&room, path, |state| {
            state["done"].as_array_mut().unwrap().remove(row);
        });
    };
    lacks("p2", 0);
    lacks("copy", 1);
    let done = merge(&room, &parts, &["--runs", "merged.csv"]).expect(0);
    assert_eq!((&done.stdout, room.text("merged.csv")), (&whole, room.text("whole.csv")));
    assert!(done.stderr.contains("note: part 2/2 is in ") && done.stderr.contains("count once"), "{}", done.stderr);
    // Sets that both lack are missing.
    lacks("copy", 0);
    refused(merge(&room, &parts, &[]), 1, &["error[incomplete-record]: ", "part 2/2 (`p2`"]);
    let csv = merge(&room, &parts, &["--partial", "--runs", "merged.csv"]).expect(0).stdout;
    let sets: u64 = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(room.text("merged.csv").lines().count() as u64, 1 + sets);
}

#[test]
fn damaged_parts_and_wrong_calls_are_refused() {
    let room = Room::new();
    let parts = parts(&room, ANALYTIC, 2, "2");
    let good = room.text("p2");
    let with = |text: &str| {
        fs::write(room.path("p2"), text).unwrap();
        merge(&room, &parts, &[])
    };
    for text in ["", "{}", "a,b\n", &good[..20], r#"{"format": "takt sweep schedulability 2", "done": []}"#] {
        refused(with(text), 2, &["error[wrong-format]: `p2`"]);
    }
    for (from, to) in [
        (r#""part":{"number":2,"of":2}"#, r#""part":{"number":3,"of":2}"#),
        (r#""block":20"#, r#""block":0"#),
        (r#""done":["#, r#""done":[[0,0,7,[1,1,1,1],[0,0,0,0],[0,0,0,0],[0,0,0,0]],"#),
        (r#""done":["#, r#""done":[[9,0,20,[1,1,1,1],[0,0,0,0],[0,0,0,0],[0,0,0,0]],"#),
        (r#""done":["#, r#""done":[7,"#),
    ] {
        let state: Value = serde_json::from_str(&good).unwrap();
        let text = state.to_string();
        assert!(text.contains(from), "{from}: {text}");
        let changed: Value = serde_json::from_str(&text.replace(from, to)).unwrap();
        refused(with(&sealed(changed)), 2, &["error[damaged-file]: `p2`"]);
    }
    fs::write(room.path("p2"), &good).unwrap();
    edit(&room, "p1", |state| state["arguments"] = json!(["sweep", "generate", "--utilisation", "1"]));
    edit(&room, "p2", |state| state["arguments"] = json!(["sweep", "generate", "--utilisation", "1"]));
    refused(merge(&room, &parts, &[]), 2, &["error[damaged-file]: `p1`"]);
    refused(room.takt(&["sweep", "merge", "none"]), 2, &["error[unreadable-file]: "]);
    refused(room.takt(&["sweep", "merge"]), 2, &["PART"]);
    for shard in ["0/4", "5/4", "1/0", "1", "a/b"] {
        refused(room.takt(&[ANALYTIC, &["--state", "s", "--shard", shard]].concat()), 2, &["as in `1/4`"]);
    }
    refused(room.takt(&[ANALYTIC, &["--shard", "1/4"]].concat()), 2, &["--state"]);
    refused(room.takt(&[ANALYTIC, &["--shard", "1/4", "--state", "s", "--json"]].concat()), 2, &["--json"]);
    // The limit counts the sets of one part.
    let many = ["sweep", "schedulability", "--points", "1.0", "--test", "ff", "--sets", "20000001", "--state", "s"];
    refused(room.takt(&[&many[..], &["--shard", "1/2"]].concat()), 2, &["error[out-of-range]: ", "`--shard 1/3`"]);
}

/// A new file would be put in their place. Symbolic links serve, since a command that does it then replaces the link alone.
#[test]
fn a_state_is_a_regular_file() {
    let room = Room::new();
    assert!(Command::new("mkfifo").arg(room.path("pipe")).status().unwrap().success());
    for device in ["null", "full", "zero"] {
        std::os::unix::fs::symlink(format!("/dev/{device}"), room.path(device)).unwrap();
    }
    let part = parts(&room, ANALYTIC, 1, "1");
    for state in ["pipe", "null", "full", "zero"] {
        let says = format!("error[wrong-format]: `{state}` is no regular file");
        refused(room.takt(&[ANALYTIC, &["--state", state]].concat()), 2, &[&says]);
        refused(room.takt(&["repro", "airs-fig2", "--state", state]), 2, &[&says]);
        refused(merge(&room, &part, &["--state", state]), 2, &[&says]);
    }
    let endless = room.takt(&["sweep", "merge", "zero"]);
    refused(endless, 2, &["error[limit-exceeded]: `zero` is longer than 256 MiB"]);
    // A state has no such limit.
    fs::File::create(room.path("long")).unwrap().set_len(257 << 20).unwrap();
    refused(room.takt(&["sweep", "merge", "long"]), 2, &["error[wrong-format]: `long` is not the state"]);
}

#[test]
fn options_of_other_commands_are_refused() {
    let room = Room::new();
    let parts = parts(&room, ANALYTIC, 1, "2");
    refused(merge(&room, &parts, &["--runs", "r.csv"]), 2, &["error[other-record]: `p1` has no rows", "`--keep-sets`"]);
    refused(merge(&room, &parts, &["--title", "T"]), 2, &["error[no-effect]: ", "`--title`"]);
    refused(merge(&room, &parts, &["--over-time", "t.svg"]), 2, &["`takt sweep copies`"]);
    refused(merge(&room, &parts, &["--svg", "p1"]), 2, &["error[same-file]: "]);
    assert!(!room.path("r.csv").exists());
}

/// A full disk is imitated by the limit of the size of files.
#[test]
fn a_full_disk_leaves_the_last_state() {
    let room = Room::new();
    let args = ["sweep", "load", "--policies", "g-edf", "--loads", "2", "--duration", "50ms", "--state", "p", "--sets"];
    let part = |sets: &str, limit: &str| {
        let script = format!("ulimit -f {limit}; exec \"$@\"");
        let program = room.command(&[]).get_program().to_owned();
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(program).args(args).arg(sets).current_dir(room.path(""));
        Running::start(&mut command).wait()
    };
    part("5", "unlimited").expect(0);
    let kept = room.text("p");
    let done = part("40", "1").expect(1);
    assert!(done.stderr.contains("error[unwritable-file]: cannot write `p`"), "{}", done.stderr);
    assert!(kept.len() > 512 && room.text("p") == kept);
    part("40", "unlimited").expect(0);
}
