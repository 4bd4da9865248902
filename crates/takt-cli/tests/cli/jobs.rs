//! Messages of `takt check`, `sim` and `run` about jobs before anything is started.

use crate::common::Room;
use serde_json::Value;

/// A budget below what jobs need cuts each off, and a budget that varies may.
#[test]
fn check_says_which_jobs_are_cut_off() {
    let table = |process: &str| {
        Room::with(&format!(
            "windows: [{{length: 50ms, slices: [{{cpu: 0, sc_partition: A}}]}}]\npartitions: [{{name: A, processes: [{process}]}}]\n"
        ))
    };
    let process = |keys: &str| table(&format!("{{name: s, cmd: x, init: yes, {keys}}}"));
    for (keys, status, schedulable, says) in [
        (
            "budget: 3ms, runtime: 4ms",
            1,
            Value::from(false),
            "process s: jobs need up to 4ms of a budget of 3ms, so each is cut off",
        ),
        ("budget: 4ms, jitter: 2ms, runtime: 4ms", 0, "unknown".into(), "so some can be cut off"),
        ("budget: 3ms, runtime: 1ms, execution: [2ms, 4ms]", 0, "unknown".into(), "so some can be cut off"),
        ("budget: 4ms, runtime: 4ms", 0, true.into(), "schedulable: the SC budgets fit"),
        ("budget: 4ms", 0, true.into(), "schedulable: the SC budgets fit"),
    ] {
        let room = process(keys);
        let said = room.takt(&["check", "w.yaml"]).expect(status).stdout;
        assert!(said.contains(says), "{keys}: {said}");
        let json: Value = serde_json::from_str(&room.takt(&["check", "w.yaml", "--json"]).stdout).unwrap();
        assert_eq!(json["schedulable"], schedulable, "{keys}: {json}");
        let simulated = room.takt(&["sim", "w.yaml", "--duration", "10s", "--json"]).json();
        let cut_off = simulated["tasks"][0]["cut_off"].as_u64();
        assert_eq!(cut_off > Some(0), schedulable != true, "{keys}: {simulated}");
    }
    // A process without signals has no jobs that could be cut off.
    table("{name: s, cmd: x, completion: none, budget: 3ms, runtime: 4ms}").takt(&["check", "w.yaml"]).expect(0);
}

/// Options without an effect are reported before anything is done.
#[test]
fn options_without_effect_are_refused_or_reported() {
    let refused = |text: &str, args: &[&str], says: &str| {
        let done = Room::with(text).takt(&[&[args[0], "w.yaml"], &args[1..]].concat()).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{args:?}: {}", done.stderr);
    };
    let table = "windows: [{length: 50ms, slices: [{cpu: 0, sc_partition: A}]}]\n\
                 partitions: [{name: A, processes: [{name: s, budget: 3ms, cmd: x}]}]\n";
    let tasks = "policy: edf\ntasks: [{name: a, period: 20ms, runtime: 5ms, handler: 1ms, cmd: x}]\n";
    refused(table, &["sim", "--on-abort", "finish"], "[no-effect]");
    refused(tasks, &["sim", "--on-abort", "finish"], "[no-effect]");
    for (text, policy) in [(tasks, "edf"), (table, "windows")] {
        let says = format!("error[no-effect]: `--placement` has no effect under `{policy}");
        for command in ["check", "sim", "run"] {
            refused(text, &[command, "--placement", "wf"], &says);
        }
    }
    refused(tasks, &["sim", "--json", "--trace", "-"], "[conflicting-options]");
    refused(tasks, &["run", "--json", "--trace", "-"], "[conflicting-options]");

    let told = |text: &str, args: &[&str], says: &str| {
        let done = Room::with(text).takt(&[&["check", "w.yaml"], args].concat()).expect(0);
        assert!(done.stderr.contains(says), "{says} is not in {}", done.stderr);
    };
    told(&format!("placement: wf\n{tasks}"), &[], "warning[no-effect]: ");
    told(&format!("load: 1.2\n{tasks}"), &[], "warning[ignored-key]: ");
    let mixed = "late: abort\nwindows: [{length: 20ms, cpu: 0, sc_partition: A}, {length: 20ms, cpu: 0, sc_partition: B}]\n\
                 partitions:\n- {name: A, processes: [{cmd: x, budget: 1ms}]}\n\
                 - {name: B, policy: edf, processes: [{cmd: x, period: 40ms, runtime: 1ms}]}\n";
    told(mixed, &[], "warning[ignored-key]: ");
    let late = Room::with(&mixed.replace("late: abort\n", "")).takt(&["sim", "w.yaml", "--late", "abort"]).expect(0);
    let says = "warning[ignored-key]: ";
    assert!(late.stderr.contains(says) && !late.stderr.contains("w.yaml:1:1"), "{}", late.stderr);
    // Facts unknown to a simulation are no findings about the process.
    let said = Room::with(table).takt(&["sim", "w.yaml"]).expect(0).stdout;
    assert!(
        said.contains("s states no `runtime`, `execution` or `steps`, so it has activations and no jobs here"),
        "{said}"
    );
}

/// A program of steps does what it can do without a scheduler, and refuses the rest before its first job.
#[test]
fn burn_has_steps_that_wait() {
    let room = Room::with("");
    for (steps, status, says) in [
        ("run 1ms, sleep 1ms, run 1ms", 0, ""),
        // Standard input is at its end.
        ("run 1us, read 0", 0, ""),
        (
            "run 1ms, read 97",
            2,
            "`read 97`: the descriptor 97 is not open\nhint: open it in the command, as in `97< FILE`",
        ),
        ("write 0", 2, "`write 0`: the descriptor 0 is open for reading only"),
        ("read", 2, "`read` names no descriptor; write its number, as in `read 3`"),
        ("sleep", 2, "`sleep`:"),
        (
            "sleep 1ms, lock r, run 1ms",
            100,
            "steps other than `run`, `sleep`, `read`, `write` and `wait-period` need `takt run`",
        ),
    ] {
        let done = room.takt(&["burn", "--steps", steps, "--jobs", "2"]).expect(status);
        assert!(done.stdout.is_empty() && done.stderr.contains(says), "{steps}: {}", done.stderr);
    }
}
