//! `takt measure`: measured runtimes in a copy of the workload.

use crate::common::{Room, workloads};
use std::fs;
use std::path::{Path, PathBuf};
use takt_workload::{Options, Source};

const TASKS: &str = "# A controller.
policy: edf
tasks:
  - name: control   # the loop
    period: 10ms    # 100 Hz
    runtime:  9ms   # a guess
    execution: [1ms, 2.5ms, 1ms, 1ms]
  # The log has no runtime yet.
  - {name: log, period: 20ms, execution: [3ms], runtime: 4ms}
  - name: idle
    event: {from: none}
    runtime: 1ms
";

fn tasks() -> String {
    TASKS.replace("    event: {from: none}\n", "    releases: [90ms]\n    deadline: 9ms\n")
}

/// The maximum or a quantile replaces the runtimes, and nothing else changes.
#[test]
fn measured_runtimes_are_written_into_a_copy() {
    let room = Room::with(&tasks());
    room.takt(&["sim", "w.yaml", "--duration", "80ms", "--trace", "t.jsonl"]).expect(0);
    let missing = room.takt(&["measure", "t.jsonl"]).expect(2).stderr;
    for says in ["error[not-measured]: task `idle` has no measured job in `t.jsonl`", "w.yaml:10:11", "--keep"] {
        assert!(missing.contains(says), "{says}: {missing}");
    }
    assert!(!room.path("w.measured.yaml").exists());
    let said = room.takt(&["measure", "t.jsonl", "--keep"]).expect(0).stdout;
    let expected = "task     jobs  runtime before  runtime\ncontrol     8             9ms    2.5ms\n\
        log         4             4ms      3ms\nidle        0             1ms      1ms\nwritten: w.measured.yaml\n";
    assert_eq!(said, expected);
    let new = tasks().replace(" 9ms ", " 2.5ms ").replace("runtime: 4ms", "runtime: 3ms");
    assert_eq!(room.text("w.measured.yaml"), new);
    assert_eq!(room.text("w.yaml"), tasks());
    // Six of eight jobs take 1 ms.
    let json =
        room.takt(&["measure", "t.jsonl", "w.yaml", "--keep", "--quantile", "75%", "-o", "q.yaml", "--json"]).json();
    assert_eq!(json["tasks"][0]["runtime_ns"], 1_000_000, "{json}");
    assert_eq!(room.text("q.yaml"), new.replace(" 2.5ms ", " 1ms "));
    let exists = room.takt(&["measure", "t.jsonl", "--keep"]).expect(2).stderr;
    assert!(exists.contains("error[file-exists]: `w.measured.yaml` exists already"), "{exists}");
    assert_eq!(room.text("w.measured.yaml"), new);
}

#[test]
fn traces_that_measure_nothing_here_are_refused() {
    let room = Room::with("policy: edf\ntasks: [{name: a, period: 10ms, runtime: 3ms}]\n");
    room.takt(&["sim", "w.yaml", "--duration", "20ms", "--trace", "t.jsonl"]).expect(0);
    fs::write(room.path("o.yaml"), "policy: edf\ntasks: [{name: b, period: 10ms, runtime: 3ms}]\n").unwrap();
    fs::write(room.path("s.csv"), "set_id,task_id,C_us,D_us,T_us\n0,0,1000,4000,4000\n").unwrap();
    room.takt(&["sim", "s.csv", "--policy", "edf", "--duration", "20ms", "--trace", "s.jsonl"]).expect(0);
    room.takt(&["sim", "w.yaml", "--duration", "2ms", "--trace", "short.jsonl"]).expect(0);
    for (arguments, says) in [
        ("t.jsonl o.yaml", "error[other-record]"),
        ("t.jsonl gone.yaml", "error[unreadable-file]"),
        ("s.jsonl", "error[wrong-format]"),
        ("short.jsonl --keep", "error[not-measured]: no task has a measured job"),
        ("t.jsonl --quantile 0", "no quantile"),
    ] {
        let words: Vec<&str> = ["measure"].into_iter().chain(arguments.split(' ')).chain(["-o", "n.yaml"]).collect();
        let said = room.takt(&words).expect(2).stderr;
        assert!(said.contains(says), "{arguments}: {said}");
        assert!(!room.path("n.yaml").exists());
    }
}

/// A value with a second use is not changed in silence; an alias in the place of a runtime is replaced.
#[test]
fn aliases_keep_their_other_uses() {
    let text = "policy: edf\ntasks:\n  - {name: a, period: 10ms, runtime: &r 3ms, execution: [2ms]}\n  - {name: b, period: 10ms, runtime: *r}\n";
    let room = Room::with(text);
    room.takt(&["sim", "w.yaml", "--duration", "40ms", "--trace", "t.jsonl"]).expect(0);
    room.takt(&["measure", "t.jsonl", "-o", "n.yaml"]).expect(0);
    assert_eq!(room.text("n.yaml"), text.replace("&r 3ms", "&r 2ms").replace("*r", "3ms"));
    let text = "policy: edf\ntasks:\n  - {name: a, period: 10ms, runtime: &r 3ms, execution: [2ms]}\n  - {name: b, period: 10ms, offset: *r, runtime: 1ms}\n";
    fs::write(room.path("w.yaml"), text).unwrap();
    let said = room.takt(&["measure", "t.jsonl", "-o", "m.yaml"]).expect(2).stderr;
    assert!(said.contains("another value changes with the runtime") && !room.path("m.yaml").exists(), "{said}");
}

/// Copies a directory; names in workloads are relative. Returns its files.
fn copied(from: &Path, to: &Path) -> Vec<PathBuf> {
    fs::create_dir(to).unwrap();
    let mut files = Vec::new();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if old.is_dir() {
            files.extend(copied(&old, &new));
        } else {
            fs::copy(&old, &new).unwrap();
            files.push(new);
        }
    }
    files
}

/// The runtimes of a text that is read as that of a file.
fn runtimes(path: &Path, text: String) -> Vec<(String, Option<takt_core::time::Span>)> {
    let source = Source { name: path.display().to_string(), text };
    let options = Options { policy: takt_workload::policy_from_text("edf").ok(), ..Options::default() };
    let read = |options: &Options| takt_workload::load(source.clone(), options);
    let workload = read(&Options::default()).or_else(|_| read(&options)).unwrap();
    workload.tasks.iter().zip(&workload.system.tasks).map(|(info, task)| (info.name.clone(), task.runtime)).collect()
}

/// Every workload of the repository: its copy has the measured runtimes, and all its comments.
#[test]
fn the_workloads_keep_their_comments() {
    let (mut written, room) = (0, Room::new());
    let mut files = copied(&workloads(), &room.path("workloads"));
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    for file in files {
        let name = file.to_str().unwrap();
        if room.takt(&["sim", name, "--duration", "200ms", "--trace", "t.jsonl"]).code() != 0 {
            continue;
        }
        let done = room.takt(&["measure", "t.jsonl", "--keep", "--json"]);
        if done.code() != 0 {
            println!("{name}: {}", done.stderr);
            let known =
                ["no task has a measured job", "a task without keys", "[other-record]", "[impossible-deadline]"];
            assert!(known.iter().any(|why| done.stderr.contains(why)), "{name}: {}", done.stderr);
            continue;
        }
        let json = done.json();
        let old = fs::read_to_string(&file).unwrap();
        let new = fs::read_to_string(file.with_extension("measured.yaml")).unwrap();
        let (before, after) = (runtimes(&file, old.clone()), runtimes(&file, new.clone()));
        for ((task, old), (said, (_, new))) in before.iter().zip(json["tasks"].as_array().unwrap().iter().zip(&after)) {
            let measured = said["measured_ns"].as_i64();
            assert_eq!(said["task"], task.as_str(), "{name}");
            assert!(measured.map_or(new == old, |ns| new.is_some_and(|new| new.ns() >= ns)), "{name}: {task} {said}");
        }
        let comments = |text: &str| {
            let comment = |line: &str| {
                line.split_once(" #")
                    .map(|(_, rest)| rest.to_owned())
                    .or_else(|| line.strip_prefix('#').map(String::from))
            };
            text.lines().filter_map(comment).collect::<Vec<_>>()
        };
        assert_eq!(comments(&old), comments(&new), "{name}");
        written += 1;
    }
    assert!(written > 30, "{written}");
}
