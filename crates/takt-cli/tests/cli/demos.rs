//! `takt demos` without a run: normal forms, exit statuses, help, bad input; and the schedule logs of simulations with `rules: demos`.

use crate::common::{Done, Room, Running, TAKT};
use crate::schedules::{HARDER, SCHEDULES};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Configurations in each form of DEmOS, with the normal forms that DEmOS's own reader and its YAML library have written for them.
fn configurations() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/demos");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    files.sort();
    files
}

#[test]
fn normal_forms_are_those_of_demos_byte_for_byte() {
    let files = configurations();
    assert_eq!(files.len(), 15);
    let room = Room::new();
    for file in files {
        let done = room.takt(&["demos", "-d", "-c", file.to_str().unwrap()]).expect(0);
        assert_eq!(done.stdout, fs::read_to_string(file.with_extension("txt")).unwrap(), "{}", file.display());
        // The normal form is a configuration, and its own normal form.
        fs::write(room.path("again.yaml"), &done.stdout).unwrap();
        assert_eq!(room.takt(&["demos", "-dc", "again.yaml"]).expect(0).stdout, done.stdout);
    }
}

#[test]
fn a_text_has_a_normal_form_too() {
    let form = |text: &str| Room::new().takt(&["demos", "-d", "-C", text]).expect(0).stdout;
    assert_eq!(form("{}"), "set_cwd: false\ndemos_cpu: all\npartitions: ~\nwindows: ~\n");
    assert_eq!(form("{windows: [{length: 1000}]}").lines().last(), Some("  - length: 1000"));
    let room = Room::with("{}");
    assert!(room.takt(&["demos", "-d", "-c", "w.yaml"]).expect(0).stdout.starts_with("set_cwd: true\n"));
    // Standard input is a text of no directory. A file wins over a text.
    let done = room.takt_with_input(&["demos", "-d", "-c", "-"], "windows: [{length: 7}]").expect(0);
    assert!(done.stdout.starts_with("set_cwd: false\n") && done.stdout.ends_with("- length: 7\n"), "{}", done.stdout);
    let done = room.takt(&["demos", "-d", "-C", "windows: [{length: 7}]", "-c", "w.yaml"]).expect(0);
    assert!(done.stdout.ends_with("windows: ~\n") && done.stderr.contains("text of -C is ignored"), "{}", done.stderr);
}

/// The forms that DEmOS's own test of normal forms (0200-config) compares.
#[test]
fn short_forms_are_written_out_as_in_the_test_of_demos() {
    // Partitions as (name, [(command, budget, jitter)]), and the length of the only window.
    let form = |name: &str, processes: &[(&str, u32, u32)], length: u32| {
        let processes: String = processes
            .iter()
            .map(|(cmd, budget, jitter)| {
                format!("      - cmd: {cmd}\n        budget: {budget}\n        jitter: {jitter}\n        init: false\n")
            })
            .collect();
        format!(
            "set_cwd: false\ndemos_cpu: all\npartitions:\n  - name: {name}\n    processes:\n{processes}windows:\n  - length: {length}\n    \
             slices:\n      - cpu: all\n        sc_partition: {name}\n"
        )
    };
    let room = Room::new();
    for (text, expected) in [
        (
            "{windows: [{length: 500, sc_partition: SC}], partitions: [{name: SC, processes: [{cmd: echo, budget: 100}]}]}",
            form("SC", &[("echo", 100, 0)], 500),
        ),
        (
            "{windows: [{length: 500, sc_partition: [{cmd: a, budget: 500}]}]}",
            form("anonymous_0", &[("a", 500, 0)], 500),
        ),
        ("{windows: [{length: 500, sc_partition: {cmd: a, budget: 500}}]}", form("anonymous_0", &[("a", 500, 0)], 500)),
        ("{windows: [{length: 500, sc_partition: [{cmd: a}]}]}", form("anonymous_0", &[("a", 300, 0)], 500)),
        ("{windows: [{length: 500, sc_processes: a}]}", form("anonymous_0", &[("a", 300, 0)], 500)),
        ("{windows: [{length: 500, sc_processes: [a, b]}]}", form("anonymous_0", &[("a", 150, 0), ("b", 150, 0)], 500)),
        (
            "{windows: [{length: 100, sc_partition: SC}], partitions: [{name: SC, processes: [{cmd: echo, budget: 100, jitter: 50}]}]}",
            form("SC", &[("echo", 100, 50)], 100),
        ),
    ] {
        assert_eq!(room.takt(&["demos", "-d", "-C", text]).expect(0).stdout, expected, "{text}");
    }
}

/// Faults of DEmOS's tests 0200-config and 0210-config_validation that are not among the faults below.
#[test]
fn configurations_that_the_tests_of_demos_refuse_are_refused() {
    let room = Room::new();
    for (text, code) in [
        ("{windows: [{length: 1, cpu: 0, sc_partition: NON_EXISTENT}], partitions: []}", "unknown-name"),
        (
            "{windows: [{length: 1, slices: [{cpu: 0, sc_partition: SC1}, {cpu: 0, sc_partition: SC2}]}], partitions: [{name: SC1, \
             processes: {cmd: echo, budget: 1}}, {name: SC2, processes: {cmd: echo, budget: 1}}]}",
            "cpu-overlap",
        ),
        (
            "{windows: [{length: 500, sc_partition: SC}], partitions: [{name: SC, processes: [{cmd: echo, budget: 100, jitter: 250}]}]}",
            "out-of-range",
        ),
    ] {
        let done = room.takt(&["demos", "-d", "-C", text]).expect(1);
        assert!(done.stdout.is_empty() && done.stderr.contains(&format!("error[{code}]")), "{text}: {}", done.stderr);
    }
    let outside = Running::start(room.command(&["done"]).env_remove("DEMOS_PARAMETERS")).wait();
    outside.expect(100);
}

/// Runs the link `demos-sched`.
fn link(room: &Room, args: &[&str]) -> Done {
    let link = room.path("demos-sched");
    if !link.exists() {
        std::os::unix::fs::symlink(TAKT, &link).unwrap();
    }
    Running::start(Command::new(link).args(args).current_dir(room.path("")).stdin(Stdio::null())).wait()
}

#[test]
fn a_link_named_demos_sched_is_takt_demos() {
    let room = Room::new();
    let help = link(&room, &["-h"]).expect(0).stdout;
    assert!(help.starts_with("Usage: demos-sched"), "{help}");
    for option in ["-c", "-C", "-p", "-g", "-m", "-M", "-t", "-s", "-d", "-V", "-h"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(option)), "{option}");
    }
    assert_eq!(link(&room, &["-V"]).expect(0).stdout.split(' ').next(), Some("demos-sched"));
    // Without a configuration DEmOS prints its help, too, and fails.
    assert_eq!(link(&room, &[]).expect(1).stdout, help);
    assert_eq!(link(&room, &["-x"]).expect(1).stdout, help);
    assert_eq!(link(&room, &["-d", "-C", "{}"]).expect(0).stdout, room.takt(&["demos", "-d", "-C", "{}"]).stdout);
}

/// Pages for packages, from the same description as the help.
#[test]
fn every_command_has_a_manual_page() {
    let room = Room::new();
    room.takt(&["__reference", "--manual", "."]).expect(0);
    let page = room.text("takt-demos.1");
    for part in [".TH takt", "DEmOS", "\\-c", "\\-\\-strict\\-demos\\-exit", "demos\\-sched"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(room.text("demos-sched.1"), ".so man1/takt-demos.1\n");
    assert!(room.text("takt-run.1").contains("\\-\\-on\\-window"));
    assert!(!room.path("takt-__watch.1").exists(), "internal commands have none");
    room.takt(&["__reference", "--manual", "not-there"]).expect(1);
}

#[test]
fn faults_have_status_1_a_reason_and_the_form_of_demos() {
    let room = Room::with("");
    let one = "windows: [{length: 10, cpu: 0, sc_processes: [{cmd: a, budget: 5}]}]";
    let two = format!("{one}\n---\n{one}");
    for (args, code) in [
        (vec!["-C", "bad config"], "wrong-type"),
        (vec!["-C", "-d"], "wrong-type"),
        (vec!["-C", "{windows: [], partitions: []}"], "empty-value"),
        (vec!["-C", "{windows: [{length: 5}], garbage: 1}"], "unknown-key"),
        (vec!["-C", "{windows: [{length: 5}]}"], "nothing-to-schedule"),
        (vec!["-d", "-C", "set_cwd: yes"], "not-supported-here"),
        (vec!["-C", "windows: [{length: 5, slices: [{}]}]"], "missing-key"),
        (
            vec!["-C", "{partitions: [{name: p, processes: [a]}], windows: [{length: 100, sc_partition: p}]}"],
            "missing-key",
        ),
        (vec!["-C", "windows: [{length: 1, sc_processes: a}]"], "missing-key"),
        (vec!["-C", "windows: [{length: 10, sc_processes: {cmd: a, budget: 250us}}]"], "out-of-range"),
        (vec!["-C", "windows: [{length: 10, sc_processes: {cmd: a, budget: 5, jitter: 11}}]"], "out-of-range"),
        (vec!["-C", "windows: [{length: 0, sc_processes: a}]"], "out-of-range"),
        (vec!["-C", &two], "not-supported-here"),
        (vec!["-c", "w.yaml"], "nothing-to-schedule"),
        (vec!["-c", "missing.yaml"], "unreadable-file"),
        (vec!["-c", "/"], "unreadable-file"),
        (vec!["-C", one, "-t", "abc"], "out-of-range"),
        (vec!["-C", one, "-t", "-1"], "out-of-range"),
        (vec!["-C", one, "-g", "a/b"], "invalid-character"),
        (vec!["-C", one, "-g", "takt-1"], "invalid-character"),
        (vec!["-C", one, "-p", "Race"], "unknown-policy"),
        (vec!["-C", one, "-m", &"x".repeat(5000)], "out-of-range"),
    ] {
        let done = room.takt(&[&["demos"], args.as_slice()].concat()).expect(1);
        assert_eq!(done.stdout, "", "{args:?}");
        assert!(done.stderr.contains(&format!("error[{code}]")), "{args:?}: {}", done.stderr);
        // Some reasons say the way out themselves.
        let ways = ["hint: ", "fix: ", "must be above zero"];
        assert!(ways.iter().any(|way| done.stderr.contains(way)), "{args:?}: {}", done.stderr);
    }
    let done = Running::start(room.command(&["demos", "-C", "bad config"]).env("DEMOS_PLAIN_LOG", "1")).wait();
    assert!(done.stderr.starts_with(">>> [error] Exception: "), "{}", done.stderr);
    let done =
        Running::start(room.command(&["demos", "-d", "-C", "{}"]).env("DEMOS_RAND_SEED", "abc")).wait().expect(1);
    assert!(done.stderr.contains("DEMOS_RAND_SEED=abc"), "{}", done.stderr);
}

/// A pipe has no directory, so DEmOS wants `set_cwd: no` for it, and `takt run` refuses `set_cwd: yes`.
#[test]
fn a_pipe_needs_set_cwd_no() {
    let room = Room::new();
    let through = |command: &str, text: &str| {
        let script = format!("printf '%s' '{text}' | {command}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(room.path("")).env("TAKT", TAKT);
        Running::start(&mut shell).wait()
    };
    let done = through("\"$TAKT\" demos -d -c /dev/stdin", "{}").expect(1);
    assert!(done.stderr.contains("error[not-supported-here]"), "{}", done.stderr);
    through("\"$TAKT\" demos -d -c /dev/stdin", "set_cwd: no").expect(0);
    let text = "set_cwd: yes\nwindows: [{length: 10, cpu: 0, sc_processes: true}]";
    let done = through("\"$TAKT\" run /dev/stdin", text).expect(2);
    assert!(done.stderr.contains("error[not-supported-here]"), "{}", done.stderr);
}

/// Simulates with `rules: demos`, and gives the schedule log.
fn schedule(text: &str, duration: &str, seed: Option<&str>) -> String {
    let room = Room::with(&format!("rules: demos\n{text}"));
    let mut args = vec!["sim", "w.yaml", "--duration", duration];
    args.extend(seed.iter().flat_map(|seed| ["--seed", seed]));
    Running::start(room.command(&args).env("DEMOS_SCHEDULE_LOG", "log")).wait().expect(0);
    room.text("log")
}

#[test]
fn simulated_schedules_have_the_lines_of_demos() {
    for (text, duration, expected) in SCHEDULES.iter().chain(&HARDER) {
        assert_eq!(schedule(text, &format!("{duration}ms"), Some("2")), *expected, "{text}");
    }
}

#[test]
fn the_rules_are_a_key_of_the_file() {
    let text = "windows: [{length: 7, cpu: 0, sc_processes: [./a, ./b]}]";
    let budgets = |rules: &str| {
        let room = Room::with(&format!("{rules}\n{text}"));
        let done = room.takt(&["check", "w.yaml", "--canonical"]).expect(0);
        let budgets = done.stdout.lines().filter_map(|line| Some(line.trim().strip_prefix("budget: ")?.to_owned()));
        (budgets.collect::<Vec<_>>(), done.stdout)
    };
    assert_eq!(budgets("rules: takt").0, ["2.1ms", "2.1ms"]);
    let (demos, form) = budgets("rules: demos");
    assert_eq!(demos, ["2", "2"], "rounded down");
    assert!(form.contains("rules: demos\n") && form.contains("realtime: no\n"), "{form}");
    // The canonical form means the same.
    let room = Room::with(&form);
    assert_eq!(room.takt(&["check", "w.yaml", "--canonical"]).expect(0).stdout, form);
    // Tasks have no windows.
    let room = Room::with("rules: demos\npolicy: edf\ntasks: [{name: a, period: 10ms, runtime: 1ms}]");
    assert!(room.takt(&["check", "w.yaml"]).expect(2).stderr.contains("`rules` needs `windows`"));
    // Without these rules there is no log.
    let room = Room::with(text);
    Running::start(room.command(&["sim", "w.yaml"]).env("DEMOS_SCHEDULE_LOG", "log")).wait().expect(0);
    assert!(!room.path("log").exists());
}
