//! `takt top` over recorded traces, and the addresses that `takt run --metrics` refuses.

use crate::common::{Room, TAKT, kill, until};
use crate::tmux::Tmux;
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

/// A workload of which `late` misses each deadline, and its trace of ten seconds.
fn recorded() -> Room {
    let room = Room::with(
        "policy: edf\ncpus: 0\ntasks:\n- {name: steady, period: 10ms, runtime: 2ms}\n\
         - {name: late, period: 50ms, runtime: 11ms, deadline: 12ms, offset: 9ms}\n",
    );
    room.takt(&["sim", "w.yaml", "--duration", "10s", "--trace", "t.jsonl"]).expect(0);
    room
}

#[test]
fn one_instant_of_a_trace_is_a_table_or_an_object() {
    let room = recorded();
    let summary = room.takt(&["sim", "w.yaml", "--duration", "10s", "--json"]).json();
    let object = room.takt(&["top", "t.jsonl", "--json"]).json();
    for (task, own) in object["tasks"].as_array().unwrap().iter().zip(summary["tasks"].as_array().unwrap()) {
        for key in ["name", "released", "completed", "met", "missed", "aborted"] {
            assert_eq!(task[key], own[key], "{key} of {task}");
        }
        assert_eq!(task["response"]["max_ns"], own["response_ns"]["max"]);
    }
    assert_eq!((&object["takt_status"], &object["now_ns"]), (&1.into(), &10_000_000_000_i64.into()));
    let table = room.takt(&["top", "t.jsonl", "--once", "--at", "1s", "--sort", "missed"]).expect(0).stdout;
    let first = table.lines().find(|line| line.contains("idle") || line.contains("running")).unwrap_or_default();
    assert!(first.starts_with("late"), "{table}");
    let half = room.takt(&["top", "t.jsonl", "--json", "--at", "5s"]).json();
    assert_eq!(half["tasks"][0]["met"], 500);
}

#[test]
fn wrong_uses_are_refused_with_the_reason() {
    let room = recorded();
    std::fs::write(room.path("bad.jsonl"), "{}\n").unwrap();
    for (args, code) in [
        (&["top", "t.jsonl"][..], "error[no-terminal]"),
        (&["top", "none.jsonl", "--once"], "error[unreadable-file]"),
        (&["top", "bad.jsonl", "--once"], "error[damaged-file]"),
        (&["top", "w.yaml", "--once"], "error[wrong-format]"),
        (&["top", "--run", "no-such-run", "--once"], "error[no-run]"),
        (&["top", "--run", "./no.sock", "--once"], "error[no-run]"),
    ] {
        let said = room.takt(args).expect(2);
        assert!(said.stderr.starts_with(code) && said.stdout.is_empty(), "{args:?}: {}", said.stderr);
    }
    for args in [
        &["top", "t.jsonl", "--run", "x"][..],
        &["top", "--at", "1s"],
        &["top", "--speed", "2"],
        &["top", "t.jsonl", "--speed", "0"],
        &["top", "t.jsonl", "--speed", "nan"],
        &["top", "t.jsonl", "--interval", "1ms"],
    ] {
        room.takt(args).expect(2);
    }
}

/// Nothing is started, and no file is changed.
#[test]
fn addresses_for_metrics_are_checked_before_anything_starts() {
    let room = Room::with("policy: edf\ncpus: 0\ntasks: [{name: a, period: 1s, runtime: 1ms, cmd: touch started}]");
    std::fs::write(room.path("file"), "kept").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let holder = TcpListener::bind(&taken).unwrap();
    let _served = UnixListener::bind(room.path("served.sock")).unwrap();
    let wrong = ["0.0.0.0:0", "8.8.8.8:9000", "[::]:9000", "9000", "host:80", "unix:", "127.0.0.1:70000", ""];
    let refused = ["unix:file", "unix:none/m.sock", "unix:served.sock", taken.as_str()];
    for address in wrong.into_iter().chain(refused) {
        let said = room.takt(&["run", "w.yaml", "--duration", "1s", "--metrics", address]).expect(2);
        assert!(said.stderr.starts_with("error[unusable-address]"), "{address}: {}", said.stderr);
        assert!(said.stdout.is_empty() && !room.path("started").exists(), "{address}");
    }
    assert_eq!(room.text("file"), "kept");
    assert!(room.path("served.sock").exists());
    drop(holder);
}

/// The figure after a word on the screen.
fn figure(screen: &str, row: &str, column: usize) -> Option<u64> {
    let line = screen.lines().find(|line| line.trim_start().starts_with(row))?;
    line.split_whitespace().nth(column)?.parse().ok()
}

#[test]
fn a_trace_is_watched_in_a_terminal() {
    let room = recorded();
    let trace = room.path("t.jsonl");
    let Some(tmux) = Tmux::start(100, 24, &format!("{TAKT} top {}; echo status $?", trace.display())) else { return };
    tmux.until("it plays", |screen| figure(screen, "steady", 4).is_some_and(|met| met > 20));
    tmux.keys(&["Space"]);
    tmux.until("it pauses", |screen| screen.contains("PAUSED"));
    tmux.keys(&["End"]);
    tmux.until("the end", |screen| figure(screen, "steady", 4) == Some(1000) && screen.contains("10.000s of 10.000s"));
    tmux.keys(&["Left", "Left"]);
    tmux.until("two seconds before", |screen| figure(screen, "steady", 4) == Some(800));
    tmux.keys(&["m", "j", "Enter"]);
    tmux.until("the history", |screen| screen.contains("one character for"));
    tmux.resize(60, 15);
    tmux.until("a smaller picture", |screen| screen.contains("late") && !screen.contains("budget  "));
    tmux.keys(&["q"]);
    tmux.until("the end", |screen| screen.contains("status 0"));
    tmux.is_restored();
}

/// A signal ends it like a key does.
#[test]
fn a_signal_restores_the_terminal() {
    let room = recorded();
    let (trace, pid) = (room.path("t.jsonl"), room.path("pid"));
    let command = format!("sh -c 'echo $$ > {}; exec {TAKT} top {}'; echo status $?", pid.display(), trace.display());
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let Some(tmux) = Tmux::start(80, 20, &command) else { return };
        tmux.until("it plays", |screen| screen.contains("last events"));
        kill(room.text("pid").trim().parse().unwrap(), signal);
        tmux.until("its end", |screen| screen.contains("status 0"));
        tmux.is_restored();
    }
}

/// Without its terminal it would read for ever.
#[test]
fn it_ends_with_its_terminal() {
    let room = recorded();
    let (trace, pid) = (room.path("t.jsonl"), room.path("pid"));
    // The shell hangs up, and its program ignores that.
    let command = format!("trap '' HUP; sh -c 'echo $$ > {}; exec {TAKT} top {}'", pid.display(), trace.display());
    let Some(tmux) = Tmux::start(80, 20, &command) else { return };
    tmux.until("it plays", |screen| screen.contains("last events"));
    drop(tmux);
    let process = format!("/proc/{}", room.text("pid").trim());
    until("it has ended", || !std::path::Path::new(&process).exists());
}

/// Control characters in the names of a trace are shown as escapes.
#[test]
fn names_of_a_trace_do_not_reach_the_terminal_as_they_are() {
    let room = recorded();
    let text = room.text("t.jsonl").replace("steady", "a\\u001b[2J\\u0007\\u202eb");
    std::fs::write(room.path("x.jsonl"), text).unwrap();
    let table = room.takt(&["top", "x.jsonl", "--once"]).expect(0).stdout;
    assert!(table.contains("a\\u{1b}[2J\\u{7}\\u{202e}b"), "{table}");
    assert!(table.chars().all(|c| c == '\n' || !c.is_control()), "{table:?}");
    let object: Value = room.takt(&["top", "x.jsonl", "--json"]).json();
    assert_eq!(object["tasks"][0]["name"], "a\u{1b}[2J\u{7}\u{202e}b");
}

/// A simulation whose policy changes, in its summary and in the events of its trace.
#[test]
fn a_policy_that_takes_over_is_named() {
    let room = Room::with(
        "policy: edf\ncpus: 0\ntasks: [{name: a, period: 10ms, runtime: 2ms}]\nchanges: [{at: 50ms, policy: 'rr:quantum=2ms'}]\n",
    );
    let told = room.takt(&["sim", "w.yaml", "--duration", "100ms", "--trace", "t.jsonl"]).expect(0).stdout;
    assert!(told.starts_with("w.yaml: policy edf (uniprocessor), rr:quantum=2ms since 50.00ms, CPU 0,"), "{told}");
    let json = room.takt(&["top", "t.jsonl", "--json"]).json();
    let event = &json["events"][0];
    let expected = ("policy", "edf → rr:quantum=2ms");
    assert_eq!((event["event"].as_str().unwrap(), event["detail"].as_str().unwrap()), expected, "{json}");
    let once = room.takt(&["top", "t.jsonl", "--once"]).expect(0).stdout;
    assert!(once.contains("50ms  policy  edf → rr:quantum=2ms"), "{once}");
}
