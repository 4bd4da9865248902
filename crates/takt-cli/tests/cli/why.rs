//! `takt trace why`: the response of a job, divided by its causes.

use crate::common::{Room, workloads};
use serde_json::Value;

/// A task of high priority waits for the lock of a task of low priority, and misses its deadline.
const LOCK: &str = "policy: fp
tasks:
  - {name: high, period: 20ms, offset: 1ms, deadline: 6ms, priority: 2, steps: [run 1ms, lock bus, run 2ms, unlock bus]}
  - {name: low, period: 20ms, priority: 1, steps: [lock bus, run 5ms, unlock bus, run 1ms]}
";

#[test]
fn a_late_job_is_explained_as_text_and_as_json() {
    let room = Room::with(LOCK);
    room.takt(&["sim", "w.yaml", "--duration", "40ms", "--trace", "t.jsonl"]).expect(0);
    let text = room.takt(&["trace", "why", "t.jsonl", "high#1"]).expect(0).stdout;
    let expected = "high#1: missed its deadline by 1.000ms
released 21.00ms, deadline 27.00ms, completed 28.00ms

time     share  cause
 4ms   57.14 %  blocked by low on bus
 3ms   42.86 %  own work
 7ms  100.00 %  response
";
    assert_eq!(text, expected);
    let json = room.takt(&["trace", "why", "t.jsonl", "high#1", "--json"]).json();
    let parts = serde_json::json!([{"cause": "blocking", "time_ns": 4_000_000, "task": "low", "resource": "bus"},
        {"cause": "own", "time_ns": 3_000_000}]);
    assert_eq!(json["parts"], parts);
    assert_eq!((&json["missed"], &json["response_ns"]), (&true.into(), &7_000_000.into()));
    for (job, says) in [
        ("high", "[unknown-name]"),
        ("high#9", "the jobs 0 to 1 of `high`"),
        ("hihg#0", "did you mean `high#0`?"),
        ("high#x", "[unknown-name]"),
    ] {
        let said = room.takt(&["trace", "why", "t.jsonl", job]).expect(2).stderr;
        assert!(said.contains(says), "{job}: {said}");
    }
}

/// Under the priority ceiling a job waits for no lock, but for the less urgent holder of one; so does a job between both under inheritance. A job that
/// is less urgent than the holder waits for the holder alone.
#[test]
fn blocking_by_a_raised_priority_names_the_resource() {
    const TASKS: &str = "tasks:
  - {name: low, priority: 2, period: 40ms, steps: [run 1ms, lock bus, run 4ms, unlock bus, run 1ms]}
  - {name: middle, priority: 3, period: 40ms, offset: 3ms, steps: [run 5ms]}
  - {name: high, priority: 4, period: 40ms, offset: 2ms, steps: [run 1ms, lock bus, run 2ms, unlock bus, run 1ms]}
  - {name: lowest, priority: 1, period: 40ms, offset: 3ms, steps: [run 1ms]}
";
    for (locking, causes) in [
        ("ceiling", [("high#0", "3ms", "blocked by low on bus"), ("middle#0", "2ms", "blocked by low on bus")]),
        ("inheritance", [("high#0", "3ms", "blocked by low on bus"), ("middle#0", "3ms", "blocked by low on bus")]),
    ] {
        let room = Room::with(&format!("policy: fp\nlocking: {locking}\nresources: [bus]\n{TASKS}"));
        room.takt(&["sim", "w.yaml", "--duration", "40ms", "--trace", "t.jsonl"]).expect(0);
        for (job, time, cause) in causes {
            let said = room.takt(&["trace", "why", "t.jsonl", job]).expect(0).stdout;
            let line =
                said.lines().find(|line| line.contains(cause)).unwrap_or_else(|| panic!("{locking}, {job}: {said}"));
            assert!(line.trim_start().starts_with(time), "{locking}, {job}: {said}");
        }
        let said = room.takt(&["trace", "why", "t.jsonl", "lowest#0"]).expect(0).stdout;
        assert!(said.contains("waiting for low") && !said.contains("blocked"), "{locking}: {said}");
    }
}

/// Every job of the repository's workloads: its parts add up to the response that the table of jobs has.
#[test]
fn the_parts_are_the_responses_of_the_table_of_jobs() {
    let mut late = 0;
    for name in ["overload.yaml", "overload-abort.yaml", "aperiodic-requests.yaml", "ipi-blocking.yaml"] {
        let room = Room::new();
        let file = workloads().join(name);
        let file = file.to_str().unwrap();
        room.takt(&["sim", file, "--duration", "300ms", "--trace", "t.jsonl", "--jobs", "jobs.csv"]).expect(0);
        let jobs = room.text("jobs.csv");
        let rows = jobs.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        let missed: Vec<_> =
            rows.filter(|row| row[9] == "0" && !row[6].is_empty()).take(5).map(|r| r.join(",")).collect();
        for row in &missed {
            let row: Vec<_> = row.split(',').collect();
            let json = room.takt(&["trace", "why", "t.jsonl", &format!("{}#{}", row[0], row[1]), "--json"]).json();
            let sum: i64 = json["parts"].as_array().unwrap().iter().filter_map(|part| part["time_ns"].as_i64()).sum();
            assert_eq!(sum.to_string(), row[6], "{name}: {json}");
            assert_eq!(json["missed"], Value::from(true));
            late += 1;
        }
    }
    assert!(late > 0, "no job was late");
}

/// A budget cuts off the first activation, and the second one completes the same job after its deadline.
#[test]
fn an_activation_that_completes_a_cut_off_job_is_missed() {
    let room = Room::with(
        "windows: [{length: 50ms, cpu: 0, sc_partition: p}]\n\
         partitions: [{name: p, processes: [{name: act, cmd: x, runtime: 12ms, budget: 10ms, completion: signal}]}]\n",
    );
    let sim =
        room.takt(&["sim", "w.yaml", "--duration", "200ms", "--trace", "t.jsonl", "--jobs", "jobs.csv", "--json"]);
    assert_eq!((&sim.json()["jobs"]["met"], &sim.json()["jobs"]["missed"]), (&0.into(), &2.into()));
    let why = |job: &str| room.takt(&["trace", "why", "t.jsonl", job]).expect(0).stdout;
    assert!(why("act#0").starts_with("act#0: missed\n"), "{}", why("act#0"));
    assert!(why("act#1").starts_with("act#1: missed: it continues act#0, which was cut off\n"), "{}", why("act#1"));
    let json = |job: &str| {
        let json = room.takt(&["trace", "why", "t.jsonl", job, "--json"]).json();
        (json["missed"].clone(), json["continues"].clone())
    };
    let all = ["act#0", "act#1", "act#2", "act#3"].map(json);
    assert_eq!(all, [Value::Null, 0.into(), Value::Null, 2.into()].map(|first| (true.into(), first)));
    let jobs = room.text("jobs.csv");
    let met: Vec<_> = jobs.lines().skip(1).map(|row| row.split(',').nth(9).unwrap()).collect();
    assert_eq!(met, ["0"; 4], "{jobs}");
}
