//! `takt check`: a verdict says the condition under which it holds.

use crate::common::Room;

fn verdict(text: &str, status: i32) -> String {
    let done = Room::with(text).takt(&["check", "w.yaml"]).expect(status);
    done.stdout.lines().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_job_that_needs_more_than_its_reservation_is_not_denied() {
    for policy in ["cbs", "grub", "g-cbs", "p-grub"] {
        let said = |execution: &str| {
            let cpus = if policy.contains('-') { "0,1" } else { "0" };
            let text = format!(
                "policy: {policy}\ncpus: {cpus}\ntasks:\n- {{name: a, period: 20ms, execution: {execution}, deadline: none, \
                 reservation: {{budget: 5ms, period: 20ms}}}}\n- {{name: b, period: 40ms, runtime: 5ms}}\n"
            );
            verdict(&text, 0)
        };
        let (within, beyond) = (said("5ms"), said("8ms"));
        assert!(within.ends_with("and no job needs more than its own"), "{policy}: {within}");
        assert!(beyond.ends_with("and no job with a deadline needs more than its own"), "{policy}: {beyond}");
    }
}

#[test]
fn a_bound_behind_a_server_names_the_distance_of_jobs_that_it_needs() {
    let said = |distance: &str| {
        verdict(
            &format!(
                "policy: sporadic-server\ncpus: 0\ntasks:\n- {{name: a, period: 20ms, runtime: 5ms}}\n- {{name: b, event: \
                 {{distance: {distance}}}, deadline: 50ms, runtime: 5ms, reservation: {{budget: 5ms, period: 30ms}}}}\n"
            ),
            0,
        )
    };
    let apart = "task `b` is served within 60ms, which is beyond its deadline of 50ms";
    assert!(said("60ms").contains(apart), "{}", said("60ms"));
    let close = "task `b` is served within 60ms, if jobs of task `b` are at least 60ms apart, which is beyond its deadline of 50ms";
    assert!(said("50ms").contains(close), "{}", said("50ms"));
}

/// A server's budget and period decide where its task is placed.
#[test]
fn a_task_with_a_server_needs_no_runtime_to_be_placed() {
    for policy in ["p-sporadic-server", "p-polling-server", "p-deferrable-server", "p-periodic-server"] {
        let said = |b: &str, status| {
            let text = format!(
                "policy: {policy}\ncpus: 0,1\nservers: [{{name: s, budget: 5ms, period: 30ms}}]\ntasks:\n\
                 - {{name: a, period: 20ms, runtime: 5ms}}\n- {{name: b, event: {{distance: 100ms}}, {b}}}\n"
            );
            let done = Room::with(&text).takt(&["check", "w.yaml"]).expect(status);
            done.stdout + &done.stderr
        };
        said("deadline: 100ms, execution: 3ms, reservation: {budget: 5ms, period: 30ms}", 0);
        said("deadline: 100ms, execution: 3ms, server: s", 0);
        assert!(said("deadline: 100ms, execution: 3ms", 2).contains("`b` has no `runtime`"));
    }
}

/// An exact no has a job that misses its deadline. The written workload misses exactly this deadline.
#[test]
fn a_no_has_a_witness() {
    let text = "policy: rm\ncpus: 0\ntasks:\n- {name: slow, period: 14ms, spread: 6ms, runtime: 6ms}\n\
                - {name: fast, period: 10ms, runtime: 5ms}\n";
    let room = Room::with(text);
    let said = room.takt(&["check", "w.yaml", "--witness=late.yaml"]).expect(1).stdout;
    let (_, witness) = said.split_once("witness: ").unwrap_or_else(|| panic!("{said}"));
    let expected = "slow#0, released at 0s, misses its deadline at 14ms, with releases as close as they may be\n  first releases: all tasks at 0s\n";
    assert_eq!(witness, expected);
    let found = &room.takt(&["check", "w.yaml", "--witness", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    let offsets = serde_json::json!([{"task": "slow", "offset_ns": 0}, {"task": "fast", "offset_ns": 0}]);
    let expected = serde_json::json!({
        "releases": "densest", "task": "slow", "job": 0, "release_ns": 0, "deadline_ns": 14_000_000, "offsets": offsets,
    });
    assert_eq!(found["witness"], expected);
    let late = room.takt(&["sim", "late.yaml", "--json"]).json();
    assert_eq!((&late["jobs"]["missed"], &late["tasks"][0]["missed"]), (&1.into(), &1.into()), "{late}");
    assert_eq!(late["duration_ns"], 14_000_000);

    // A file is kept, and none is written without a miss.
    let before = room.text("late.yaml");
    let refused = room.takt(&["check", "w.yaml", "--witness=late.yaml"]).expect(2).stderr;
    assert!(refused.contains("error[file-exists]"), "{refused}");
    assert_eq!(room.text("late.yaml"), before);
    let room = Room::with(&text.replace("runtime: 6ms", "runtime: 4ms"));
    let said = room.takt(&["check", "w.yaml", "--witness=late.yaml"]).expect(0).stdout;
    assert!(said.ends_with("\nwitness: no job misses its deadline in a simulation of 140ms\n"), "{said}");
    assert!(!room.path("late.yaml").exists());
}

/// Events come as often as their distance lets them, and jobs at listed instants when the file says so.
#[test]
fn a_witness_has_events_and_listed_jobs() {
    let said = |tasks: &str| {
        let room = Room::with(&format!(
            "policy: edf\ncpus: 0\ntasks:\n- {{name: a, period: 10ms, runtime: 6ms}}\n- {tasks}\n"
        ));
        let done = room.takt(&["check", "w.yaml", "--witness=late.yaml", "--json"]);
        let said: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        let missed = room.takt(&["sim", "late.yaml", "--json"]).json()["jobs"]["missed"].as_u64();
        (said["witness"]["task"].clone(), said["witness"]["job"].clone(), missed >= Some(1))
    };
    assert_eq!(said("{name: e, event: {distance: 10ms}, deadline: 10ms, runtime: 5ms}"), ("e".into(), 0.into(), true));
    let listed_event = "{name: e, event: {distance: 8ms, releases: [20ms]}, deadline: 8ms, runtime: 4ms}";
    assert_eq!(said(listed_event), ("e".into(), 3.into(), true));
    let listed = "{name: e, releases: [40ms], deadline: 8ms, runtime: 5ms}";
    assert_eq!(said(listed), ("a".into(), 4.into(), true));
}

/// `takt run` has the same CPUs.
#[test]
fn all_is_this_machine() {
    let room = Room::with(
        "policy: g-edf\ncpus: all\ntasks:\n- {name: a, period: 10ms, runtime: 9ms}\n- {name: b, period: 10ms, runtime: 9ms}\n",
    );
    let here = takt_linux::rt::affinity(0).unwrap();
    let said = room.takt(&["check", "w.yaml"]).expect(if here.len() > 1 { 0 } else { 1 }).stdout;
    assert!(said.starts_with(&format!("w.yaml: 2 tasks, policy g-edf, CPU {here}\n")), "{said}");
    assert!(said.contains(&format!("CPU {here} of this machine")), "{said}");
    let said = room.takt(&["check", "w.yaml", "--machine", "none"]).expect(1).stdout;
    assert!(said.starts_with("w.yaml: 2 tasks, policy g-edf, CPU 0\nnot schedulable"), "{said}");
    let canonical = room.takt(&["check", "w.yaml", "--canonical"]).expect(0).stdout;
    assert!(!canonical.contains("cpus: [") && !canonical.contains("of this machine"), "{canonical}");
}

/// The kernel's rule, whose refusal `takt run` reports with status 3.
#[test]
fn reservations_beyond_the_kernel_are_not_admitted() {
    let Some(here) = takt_linux::admission::Admission::here() else {
        return println!("skipped: SCHED_DEADLINE admits everything here");
    };
    let room = Room::new();
    let check = |runtime: i64, status: i32| {
        let task = |number| {
            format!(
                "- {{name: t{number}, cmd: exec takt burn --runtime 1ms, class: deadline, period: 100ms, runtime: {runtime}us}}\n"
            )
        };
        let tasks: String = (0..here.cpus).map(task).collect();
        std::fs::write(room.path("w.yaml"), format!("policy: g-edf\ncpus: all\ntasks:\n{tasks}")).unwrap();
        let json = room.takt(&["check", "w.yaml", "--json"]).expect(status).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        (room.takt(&["check", "w.yaml"]).expect(status).stdout, json["deadline_class"].clone())
    };
    let (said, json) = check(99_900, 1);
    assert!(said.contains("SCHED_DEADLINE: NOT ADMITTED: ") && said.contains(&here.words()), "{said}");
    assert_eq!((&json["admitted"], &json["admits_millionths"]), (&false.into(), &here.admits().into()));
    let (said, json) = check(1000, 0);
    assert!(said.contains("SCHED_DEADLINE: admitted: "), "{said}");
    assert_eq!((&json["admitted"], &json["needs_millionths"]), (&true.into(), &(10_000 * here.cpus).into()));
    let elsewhere = room.takt(&["check", "w.yaml", "--machine", "none", "--json"]).expect(0).json();
    assert!(elsewhere["deadline_class"].is_null());
}
