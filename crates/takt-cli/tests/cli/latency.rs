//! `takt latency` and `takt isolate`: bad input is refused with its reason, and nothing is started or changed.

use crate::common::Room;
use std::fs;
use takt_linux::isolate::Linux;
use takt_linux::rt;

/// Arguments, the exit status, and what the message names.
type Case<'a> = (&'a [&'a str], i32, &'a str);

fn refused(room: &Room, cases: &[Case]) {
    for (args, status, said) in cases {
        let done = room.takt(args).expect(*status);
        assert!(done.stdout.is_empty() && done.stderr.contains(said), "{args:?}: {}", done.stderr);
        let way_out = ["hint: ", "fix: "].iter().any(|word| done.stderr.contains(word));
        assert!(way_out, "{args:?} has no way out: {}", done.stderr);
    }
}

#[test]
fn options_without_sense_are_refused() {
    let room = Room::new();
    let missing = (rt::affinity(0).unwrap().iter().last().unwrap() + 1).to_string();
    refused(
        &room,
        &[
            (&["latency", "--period", "10us"], 2, "leaves the CPU no time for anything else"),
            (&["latency", "--cpu", &missing], 3, "missing-cpu"),
            (&["latency", "--check-trace", "--method", "timer"], 2, "conflicting-options"),
            (&["latency", "--scenario", "idle", "--output", "none/there.json"], 2, "none/there.json"),
            (&["latency", "--period", "1000000s", "--samples", "100"], 2, "100 samples with a period of"),
            (&["latency", "--check-order", "--rounds", "2"], 2, "2 rounds give none"),
            (&["latency", "--check-cyclictest", "--rounds", "1"], 2, "1 rounds give none"),
            (&["latency", "--check-cyclictest", "--method", "timerfd"], 2, "cyclictest waits by nanosleep"),
            (&["latency", "--scenario", "idle,cyclictest", "--echo", "pipe"], 2, "measures no answers"),
            (&["latency", "--check-cyclictest", "--period", "100500ns"], 2, "whole microseconds"),
            (&["isolate", "advise", "--with", "swap", "--without", "swap"], 2, "`swap` is asked for and left out"),
        ],
    );
    for args in [
        &["latency", "--scenario", "isolatd"][..],
        &["latency", "--samples", "0"],
        &["latency", "--rounds", "0"],
        &["latency", "--priority", "99"],
        &["latency", "--period", "5"],
        &["latency", "--check-trace", "--echo", "pipe"],
        &["latency", "--check-trace=1parsec"],
        &["latency", "--check-order", "--scenario", "idle"],
        &["latency", "--check-order", "--check-cyclictest"],
        &["isolate", "create"],
        &["isolate", "create", "--cpus", "one"],
        &["isolate", "create", "--cpus", "1", "--without", "tsks"],
        &["isolate", "move", "0"],
        &["isolate", "run"],
        &["isolate", "undo", "--all", "--name", "x"],
    ] {
        let done = room.takt(args).expect(2);
        assert!(done.stdout.is_empty() && done.stderr.contains("error"), "{args:?}: {}", done.stderr);
    }
}

/// A load that is none is found before anything is measured, and no file is written.
#[test]
fn a_load_that_fails_is_refused() {
    let room = Room::new();
    for (command, said) in [("no-such-program-of-takt", "not found"), ("echo why >&2; exit 7", "why")] {
        let args = ["latency", "--scenario", "stressed", "--output", "a.json", "--stress-command", command];
        refused(&room, &[(&args, 2, said)]);
        assert!(!room.path("a.json").exists());
    }
    // One that ends well starts again, and is a load.
    let lasts = ["latency", "--scenario", "stressed", "--samples", "20", "--rounds", "1", "--stress-command", "true"];
    room.takt(&lasts).expect(0);
}

/// Experiments with other settings are compared, and the difference is named.
#[test]
fn unlike_experiments_are_named() {
    let room = Room::new();
    let experiment = |stress: &str| {
        format!(
            r#"{{"format":"takt-latency 1","machine":"m","task":"t","stress":"{stress}","limit":1,"notes":[],"scenarios":[{{"name":"idle",
            "meaning":"","rounds":[[1,2],[3,4]],"stolen":[0,0],"skipped":null}}]}}"#
        )
    };
    fs::write(room.path("a.json"), experiment("cpu")).unwrap();
    fs::write(room.path("b.json"), experiment("memory")).unwrap();
    let said = room.takt(&["latency", "compare", "a.json", "b.json"]).expect(0).stdout;
    assert!(said.contains("note: the experiments differ in their stress: cpu and memory"), "{said}");
    assert!(
        said.contains("note: `idle`: 2 and 2 rounds cannot carry a verdict about 4 quantiles; 5 rounds of each can"),
        "{said}"
    );
    let json = room.takt(&["latency", "compare", "a.json", "a.json", "--json"]).expect(0).stdout;
    assert!(json.contains(r#""notes":["`idle`: 2 and 2 rounds cannot carry"#), "{json}");
}

#[test]
fn files_that_are_no_experiments_are_refused() {
    let room = Room::new();
    let experiment = |version: &str, scenario: &str| {
        format!(
            r#"{{"format":"takt-latency {version}","machine":"m","task":"t","stress":"s","limit":1,"notes":[],"scenarios":[{{"name":"{scenario}",
            "meaning":"","rounds":[[1,2],[3,4]],"stolen":[0,0],"skipped":null}}]}}"#
        )
    };
    for (name, text) in [
        ("a.json", experiment("1", "idle")),
        ("b.json", experiment("1", "fifo")),
        ("later.json", experiment("9", "idle")),
        ("broken.json", experiment("1", "idle")[..40].to_owned()),
    ] {
        fs::write(room.path(name), text).unwrap();
    }
    let endless = experiment("1", "idle").replace("[1,2]", "[9223372036854775807,-9223372036854775808]");
    fs::write(room.path("endless.json"), endless).unwrap();
    room.takt(&["latency", "compare", "a.json", "a.json"]).expect(0);
    refused(
        &room,
        &[
            (&["latency", "compare", "a.json", "b.json"], 2, "no scenario in common"),
            (&["latency", "compare", "later.json", "a.json"], 2, "takt-latency 9"),
            (&["latency", "compare", "a.json", "broken.json"], 2, "broken.json"),
            (&["latency", "compare", "a.json", "missing.json"], 2, "missing.json"),
            (&["latency", "compare", "a.json", "endless.json"], 2, "`idle` has a lateness of 9223372036854775807 ns"),
        ],
    );
}

/// Requests that root could not have carried out either. Another user is refused before, with status 3.
#[test]
fn isolations_that_cannot_be_are_refused() {
    if !rustix::process::geteuid().is_root() || Linux::journal().exists() {
        return println!("skipped: needs root and no isolation");
    }
    let (room, here) = (Room::new(), rt::affinity(0).unwrap());
    let (all, missing) = (here.to_string(), (here.iter().last().unwrap() + 1).to_string());
    let create = |cpus| ["isolate", "create", "--cpus", cpus];
    for (args, status, said) in [
        (&create(&missing)[..], 3, "missing-cpu"),
        (&create(&all), 2, "no CPU would remain"),
        (&[&create("0")[..], &["--name", "a/b"]].concat(), 2, "cannot have the name"),
        (&[&create("0")[..], &["--with", "swap", "--without", "swap"]].concat(), 2, "asked for and left out"),
        (
            &["isolate", "advise", "--seconds", "10", "--period", "1s"],
            2,
            "measurements of 200 samples with a period of 1s",
        ),
        (&["isolate", "undo", "--name", "none"], 2, "there is no isolation `none`"),
        (&["isolate", "undo", "none"], 2, "there is no isolation `none`"),
        (&["isolate", "verify", "none"], 2, "there is no isolation `none`"),
        (&["isolate", "verify", "--name", "none"], 2, "there is no isolation `none`"),
        (&["isolate", "move", "1", "--name", "none"], 2, "there is no isolation `none`"),
        (&["isolate", "run", "--name", "none", "--", "true"], 2, "there is no isolation `none`"),
    ] {
        refused(&room, &[(args, status, said)]);
        assert!(!Linux::journal().exists(), "{args:?} has left a journal");
    }
}
