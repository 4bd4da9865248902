//! Outputs that cannot be written: closed, full, limited, or in the hands of another process.

use crate::common::{Done, Room, Running};
use std::fs::{self, File};
use std::process::Command;

const TEXT: &str = "policy: edf\ncpus: 0\ntasks:\n- {name: a, period: 1ms, runtime: 200us}\n";

/// `takt` after the words of a shell that change its surroundings, with `after` behind its arguments.
fn within(room: &Room, before: &str, args: &[&str], after: &str) -> Done {
    let script = format!("{before} exec \"$0\" \"$@\" {after}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(room.command(&[]).get_program()).args(args).current_dir(room.path(""));
    Running::start(&mut shell).wait()
}

fn room() -> Room {
    let room = Room::with(TEXT);
    room.takt(&["sim", "w.yaml", "--duration", "20ms", "--trace", "t.jsonl", "--json"]).expect(0);
    room
}

/// Each command that prints fails when its output cannot be written.
#[test]
fn a_standard_output_that_takes_nothing_is_a_failure() {
    let room = room();
    for args in [
        &["--help"][..],
        &["--version"],
        &["sim", "--help"],
        &["check", "w.yaml"],
        &["check", "w.yaml", "--json"],
        &["check", "w.yaml", "--canonical"],
        &["sim", "w.yaml"],
        &["sim", "w.yaml", "--json"],
        &["sim", "w.yaml", "--trace", "-"],
        &["analyze", "w.yaml"],
        &["policies"],
        &["policies", "edf"],
        &["trace", "show", "t.jsonl"],
        &["trace", "check", "t.jsonl"],
        &["sweep", "schedulability", "--points", "1.0", "--sets", "2", "--test", "gedf_sim"],
        &["mcu", "table", "w.yaml"],
    ] {
        // A command that this list misspells must not pass.
        room.takt(args).expect(0);
        for (output, why) in [(">&-", "it is closed"), (">/dev/full", "No space left")] {
            let done = within(&room, "", args, output).expect(1);
            assert!(
                done.stderr.contains("[unwritable-file]") && done.stderr.contains(why),
                "{args:?}: {}",
                done.stderr
            );
        }
    }
    // Nothing is lost where nothing is printed.
    for args in [&["trace", "convert", "t.jsonl", "t.csv"][..], &["check", "missing.yaml"]] {
        let open = room.takt(args);
        let closed = within(&room, "", args, ">&-");
        assert_eq!((closed.code(), closed.stderr), (open.code(), open.stderr), "{args:?}");
    }
}

/// The files of a command whose standard output fails are whole.
#[test]
fn a_closed_standard_output_costs_no_file() {
    let room = Room::with(TEXT);
    let sim = ["sim", "w.yaml", "--duration", "3s", "--trace"];
    room.takt(&[&sim[..], &["open.jsonl", "--jobs", "open.csv", "--gantt", "open.svg"]].concat()).expect(0);
    let files = ["closed.jsonl", "--jobs", "closed.csv", "--gantt", "closed.svg"];
    within(&room, "", &[&sim[..], &files].concat(), ">&-").expect(1);
    for ending in ["jsonl", "csv", "svg"] {
        assert!(room.text(&format!("closed.{ending}")) == room.text(&format!("open.{ending}")), "{ending}");
    }
}

#[test]
fn a_limit_of_the_process_is_named() {
    let room = room();
    let long = ["sim", "w.yaml", "--duration", "100s", "--trace", "long.jsonl", "--json"];
    for (limit, args, status, says) in [
        // 32 KiB, in blocks of 512 bytes.
        ("ulimit -f 64;", &long[..], 1, "RLIMIT_FSIZE"),
        ("ulimit -f 0;", &["trace", "convert", "t.jsonl", "small.csv"], 1, "RLIMIT_FSIZE"),
        // The trace and its lock need two descriptors.
        ("ulimit -n 4;", &["sim", "w.yaml", "--trace", "few.jsonl", "--json"], 1, "RLIMIT_NOFILE"),
        ("ulimit -s 64;", &["sim", "w.yaml"], 0, ""),
        ("ulimit -s 64;", &["check", "w.yaml"], 0, ""),
        ("ulimit -s 64;", &["check", "missing.yaml"], 2, "[unreadable-file]"),
        // One with an action for SIGTERM, and one without.
        ("ulimit -S -t 1;", &["sweep", "schedulability", "--sets", "1000000", "--json"], 3, "RLIMIT_CPU"),
        ("ulimit -S -t 1;", &["sim", "w.yaml", "--duration", "100000s", "--trace", "endless.jsonl"], 3, "RLIMIT_CPU"),
    ] {
        // A pipe, since the limit of file sizes holds for the files of the test, too.
        let output = Command::new("sh")
            .args(["-c", &format!("{limit} exec \"$0\" \"$@\"")])
            .arg(room.command(&[]).get_program())
            .args(args)
            .current_dir(room.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{limit} {args:?}: {} {said}", output.status);
        assert!(said.contains(says), "{limit} {args:?}: {said}");
    }
}

/// Two commands do not write one file at the same time, whichever option names it.
#[test]
fn a_file_that_another_process_writes_is_refused() {
    let room = room();
    let ipi = "policy: ipi\ncpus: 0\ntasks:\n- {name: a, period: 10ms, runtime: 2ms}\n";
    fs::write(room.path("rounds.yaml"), ipi).unwrap();
    let sweep = ["sweep", "schedulability", "--points", "1.0", "--sets", "2", "--test", "gedf_sim"];
    let sim = ["sim", "w.yaml", "--duration", "20ms"];
    for (args, option, file) in [
        (&sim[..], "--trace", "out.jsonl"),
        (&sim, "--jobs", "out.csv"),
        (&sim, "--gantt", "out.svg"),
        (&sim, "--emit-windows", "out.yaml"),
        (&["sim", "rounds.yaml", "--duration", "1s"], "--rounds", "out.csv"),
        (&sweep, "--svg", "out.svg"),
        (&sweep, "--state", "out.state"),
        (&["trace", "convert", "t.jsonl"], "", "out.csv"),
        (&["sim", "w.yaml", "--trace-size", "64K"], "--trace", "out.jsonl"),
    ] {
        let given: Vec<&str> = args.iter().copied().chain([option, file]).filter(|word| !word.is_empty()).collect();
        let path = room.path(file);
        fs::write(&path, "").unwrap();
        // A user who may only read a file cannot keep its writer away.
        let reader = File::open(&path).unwrap();
        reader.try_lock().unwrap();
        assert!(!room.takt(&given).stderr.contains("[file-in-use]"), "{given:?}");
        drop(reader);
        fs::write(&path, "").unwrap();
        let held = File::options().append(true).open(&path).unwrap();
        // A child of another test has the reader's lock until it executes its program.
        assert!(takt_linux::lock_as_writer(&held).unwrap() && held.lock().is_ok());
        let done = room.takt(&given).expect(3);
        let own = format!("process {}", std::process::id());
        assert!(done.stderr.contains("[file-in-use]") && done.stderr.contains(&own), "{given:?}: {}", done.stderr);
        assert_eq!(room.text(file), "", "{given:?}");
        fs::remove_file(&path).unwrap();
        drop(held);
        room.takt(&given).expect(0);
        assert!(!room.text(file).is_empty(), "{given:?}");
        // A lock leaves nothing behind, nor does a command that is refused for another reason.
        room.takt(&given).expect(0);
        fs::remove_file(&path).unwrap();
    }
    room.takt(&["sim", "w.yaml", "--trace", "new.jsonl", "--gantt", "missing/t.svg"]).expect(2);
    assert!(!room.path("new.jsonl").exists());
}

/// `--trace-size` renames and removes traces only.
#[test]
fn a_series_of_traces_spares_other_files() {
    let room = Room::with(TEXT);
    let series = ["sim", "w.yaml", "--duration", "10s", "--trace", "data.csv", "--trace-size", "64K"];
    for name in ["data.csv", "data.1.csv", "data.4.csv", "data.5.csv"] {
        fs::write(room.path(name), "at,value\n1,2\n").unwrap();
        let done = room.takt(&series).expect(2);
        assert!(done.stderr.contains("[wrong-format]") && done.stderr.contains(name), "{}", done.stderr);
        assert_eq!(room.text(name), "at,value\n1,2\n", "{name}");
        let files =
            fs::read_dir(room.path("")).unwrap().flatten().filter(|f| f.path().extension() == Some("csv".as_ref()));
        assert_eq!(files.count(), 1, "{name}");
        fs::remove_file(room.path(name)).unwrap();
    }
    // A file that the series does not reach stays.
    fs::write(room.path("data.7.csv"), "mine").unwrap();
    room.takt(&series).expect(0);
    room.takt(&series).expect(0);
    assert_eq!(room.text("data.7.csv"), "mine");
    room.takt(&["trace", "show", "data.4.csv"]).expect(0);
}
