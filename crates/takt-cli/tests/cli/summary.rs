//! A simulation's summary of regulators, settings, locks, handlers and the time of the machine.

use crate::common::{Room, state, until, workloads};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::Stdio;

/// A round's end in nanoseconds, its set point and its duration, and the bursts by task, in milliseconds.
struct Round {
    at: f64,
    set_point: f64,
    measured: f64,
    bursts: BTreeMap<String, f64>,
}

/// The rounds of `ipi-tracking.yaml`.
fn tracking(more: &[&str]) -> Vec<Round> {
    rounds("ipi-tracking.yaml", more)
}

/// The rounds of a workload, as `--rounds` writes them.
fn rounds(file: &str, more: &[&str]) -> Vec<Round> {
    let room = Room::new();
    let file = workloads().join(file);
    let args = [&["sim", file.to_str().unwrap(), "--rounds", "rounds.csv"], more].concat();
    room.takt(&args).expect(0);
    let mut rounds: Vec<Round> = Vec::new();
    for line in room.text("rounds.csv").lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |column: usize| cells[column].parse::<f64>().unwrap() / 1e6;
        match cells[3] {
            "" => rounds.push(Round {
                at: number(2) / 1e3,
                set_point: number(4),
                measured: number(5),
                bursts: BTreeMap::new(),
            }),
            task => drop(rounds.last_mut().unwrap().bursts.insert(task.into(), number(5))),
        }
    }
    rounds
}

/// The story of Terraneo's figure 2.5: the round after a sleep of 300 ms is more than three times as long without a countermeasure, little longer
/// with feedforward, and as long as each other one with feedforward and reinitialisation.
#[test]
fn feedforward_reduces_the_spike_after_a_sleep_and_reinitialisation_removes_it() {
    let rounds = rounds("ipi-blocking.yaml", &[]);
    let longest = |from: f64| {
        // A sleep ends some 600 ms after each second.
        let after =
            |r: &&Round| (0..3).any(|n| (from + f64::from(n) + 0.55..from + f64::from(n) + 0.75).contains(&r.at));
        rounds.iter().filter(after).map(|r| r.measured).fold(0.0, f64::max)
    };
    let [none, feedforward, both] = [1.0, 5.0, 9.0].map(longest);
    assert!((25.0..28.0).contains(&none), "{none} ms");
    assert!((9.0..11.0).contains(&feedforward), "{feedforward} ms");
    assert!((both - 8.0).abs() < 0.1, "{both} ms");
}

/// Between two events of the file, in seconds: rounds until the last one that is off by more than 2 %, and the longest one.
fn phase(rounds: &[Round], from: f64, to: f64) -> (usize, f64) {
    let phase: Vec<&Round> = rounds.iter().filter(|r| r.at > from && r.at <= to).collect();
    let last = phase.last().expect("there are rounds");
    assert!((last.measured - last.set_point).abs() < 0.04, "{} against {} at {to}", last.measured, last.set_point);
    let off = phase.iter().rposition(|r| (r.measured - r.set_point).abs() > 0.02 * r.set_point);
    (off.map_or(0, |o| o + 1), phase.iter().map(|r| r.measured).fold(0.0, f64::max))
}

/// The figures are those of an independent simulation of the law with these gains: 16 rounds with a peak of 19.1 ms after the step
/// of the set point, none after that of the parts, 9 after each of the disturbance, about 29 after the blocking, and a round of
/// twice the length after the waking up.
#[test]
fn the_regulators_alone_follow_their_set_points_as_computed() {
    let rounds = tracking(&[]);
    let near = |found: usize, expected: usize| assert!(found.abs_diff(expected) <= 1, "{found} rounds, not {expected}");
    let (settled, peak) = phase(&rounds, 1.0, 2.0);
    near(settled, 16);
    assert!((19.0..19.2).contains(&peak), "{peak}");
    assert_eq!(phase(&rounds, 2.0, 3.0).0, 0, "the parts of a round do not change its length");
    let parts = &rounds.iter().rev().find(|r| r.at <= 3.0).unwrap().bursts;
    for (task, part) in [("one", 0.5), ("two", 0.3), ("three", 0.2)] {
        assert!((parts[task] / 18.0 - part).abs() < 1e-4, "{task}: {} of 18 ms", parts[task]);
    }
    near(phase(&rounds, 3.0, 4.0).0, 9);
    near(phase(&rounds, 4.0, 5.0).0, 9);
    near(phase(&rounds, 5.0, 6.0).0, 29);
    let (settled, peak) = phase(&rounds, 6.0, 7.0);
    assert!((10..=13).contains(&settled) && (36.0..40.0).contains(&peak), "{settled} rounds, {peak} ms");
}

#[test]
fn feedforward_and_reinitialisation_take_the_spikes_away() {
    let rounds = tracking(&["--policy", "ipi:most=20ms"]);
    assert!(phase(&rounds, 1.0, 2.0).0 <= 1);
    // No set point changes here, so that only feedback helps.
    assert!((8..=10).contains(&phase(&rounds, 3.0, 4.0).0));
    let (settled, peak) = phase(&rounds, 6.0, 7.0);
    assert!(settled <= 3 && peak < 24.0, "{settled} rounds, {peak} ms");
}

#[test]
fn without_feedback_a_disturbance_stays() {
    let rounds = tracking(&["--policy", "ipi:most=20ms,feedback=no"]);
    let last = rounds.iter().rev().find(|r| r.at <= 4.0).unwrap();
    assert!((last.measured - (last.set_point - 2.0)).abs() < 0.01, "{} of {}", last.measured, last.set_point);
}

#[test]
fn rounds_are_drawn_and_other_endings_refused() {
    let room = Room::new();
    let file = workloads().join("ipi-mixed.yaml");
    let file = file.to_str().unwrap();
    room.takt(&["sim", file, "--rounds", "rounds.svg", "--duration", "1s"]).expect(0);
    let svg = room.text("rounds.svg");
    assert!(svg.contains("round duration") && svg.contains("control") && svg.ends_with("</svg>\n"));
    let refused = room.takt(&["sim", file, "--rounds", "rounds.txt"]).expect(2);
    assert!(refused.stderr.contains("[wrong-format]"), "{}", refused.stderr);
    let none = room.takt(&["sim", file, "--policy", "rr", "--rounds", "none.svg", "--duration", "1s"]).expect(0);
    assert!(none.stderr.contains("there were no rounds"), "{}", none.stderr);
}

#[test]
fn settings_and_shares_are_in_the_object() {
    let room = Room::new();
    let file = workloads().join("ipi-mixed.yaml");
    let sim = |policy| room.takt(&["sim", file.to_str().unwrap(), "--json", "--policy", policy]).json();
    let rr = sim("rr:quantum=2ms");
    assert_eq!((&rr["policy"], &rr["settings"]), (&"rr".into(), &serde_json::json!({"quantum": "2ms"})));
    assert!(sim("rr").get("settings").is_none());
    assert!(rr["tasks"][3]["share_millionths"]["predicted"].is_null());
    let ipi = sim("ipi:preset=improved");
    for task in ipi["tasks"].as_array().unwrap() {
        let share = |key: &str| task["share_millionths"][key].as_i64().unwrap();
        // The operator comes less often than it might, which leaves the others a little more.
        let off = (share("received") - share("predicted")).abs();
        assert!(off < 40_000, "{} is off by {off}", task["name"]);
        assert_eq!(share("received"), task["received_ns"].as_i64().unwrap() / 20_000);
    }
}

#[test]
fn deadlocks_and_handlers_are_told_by_name() {
    let room = Room::new();
    let yaml = "policy: fp\nlocking: inheritance\nlate: abort\nduration: 100ms\ncosts: {context_switch: 10us}\ntasks:\n\
                \x20 - {name: left, priority: 1, period: 50ms, deadline: 30ms, handler: {runtime: 1ms}, \
                steps: [lock bus, run 4ms, lock disk, run 1ms, unlock disk, unlock bus]}\n\
                \x20 - {name: right, priority: 2, period: 50ms, offset: 1ms, deadline: 40ms, \
                steps: [lock disk, run 1ms, lock bus, run 1ms, unlock bus, unlock disk]}\n";
    fs::write(room.path("w.yaml"), yaml).unwrap();
    let said = room.takt(&["sim", "w.yaml"]).expect(0).stdout;
    for line in [
        "deadlock: at 5.02ms left waits for disk, held by right; right waits for bus, held by left",
        "note: 2 handlers of left began",
        "costs: context_switch 10us; they took ",
    ] {
        assert!(said.contains(line), "{line} is not in\n{said}");
    }
    let json = room.takt(&["sim", "w.yaml", "--json"]).json();
    assert_eq!((&json["deadlocks"], &json["handlers"]), (&2.into(), &2.into()));
    assert_eq!(json["notes"], serde_json::json!(["note: 2 handlers of left began"]));
    assert_eq!(json["first_deadlocks"][0]["task"], "left");
    assert_eq!(json["first_deadlocks"][0]["resource"], "disk");
    assert_eq!(
        json["first_deadlocks"][0]["circle"],
        serde_json::json!([
            {"task": "left", "waits_for": "disk", "held_by": "right"},
            {"task": "right", "waits_for": "bus", "held_by": "left"},
        ])
    );
    assert_eq!(json["costs"]["context_switch_ns"], 10_000);
    let times = &json["cpu_time"][0];
    let all: i64 =
        ["worked_ns", "overhead_ns", "stolen_ns", "idle_ns"].iter().map(|k| times[k].as_i64().unwrap()).sum();
    assert_eq!(all, 100_000_000, "every nanosecond of the CPU is accounted for");
}

#[test]
fn schedulers_interrupts_and_loads() {
    let room = Room::new();
    let file = workloads().join("features/deciding.yaml");
    let each = room.takt(&["sim", file.to_str().unwrap(), "--json"]).json();
    let scheduler = serde_json::json!({"deciding": "each", "runs": 12, "interrupts": 2, "blocked": 0});
    assert_eq!(each["scheduler"], scheduler);
    // Two interrupted CPUs, and ten calls after which the CPU has a job: `lock` is half of `scheduler`.
    assert_eq!((&each["charged"]["interrupt_ns"], &each["charged"]["lock_ns"]), (&400_000.into(), &800_000.into()));
    let one = fs::read_to_string(&file).unwrap().replace("deciding: each", "deciding: one");
    fs::write(room.path("one.yaml"), one).unwrap();
    let said = room.takt(&["sim", "one.yaml"]).expect(0).stdout;
    let line = "scheduler: one CPU decides for all; runs 9, interrupts 7, blocked entries 8\n";
    assert!(said.contains(line), "{line} is not in\n{said}");
    // One CPU has no other one to interrupt, and each step is a run of its scheduler.
    let alone = room.takt(&["sim", "one.yaml", "--cpus", "1", "--policy", "edf", "--json"]).json();
    assert_eq!((&alone["scheduler"]["interrupts"], &alone["scheduler"]["blocked"]), (&0.into(), &0.into()));

    let load = |yaml: &str, more: &[&str]| {
        fs::write(room.path("load.yaml"), yaml).unwrap();
        room.takt(&[&["sim", "load.yaml", "--json"], more].concat()).json()
    };
    let yaml = "policy: edf\nduration: 25ms\nload: 0.5\ntasks:\n  - {name: a, period: 10ms, runtime: 4ms}\n";
    let took = |json: &serde_json::Value| json["tasks"][0]["response_ns"]["max"].clone();
    assert_eq!(took(&load(yaml, &[])), 2_000_000);
    assert_eq!(took(&load(yaml, &["--load", "150%"])), 3_000_000);
    assert_eq!(took(&load(&yaml.replace("load: 0.5\n", ""), &["--load", "1.5"])), 6_000_000);
    let counted = |yaml: &str, more: &[&str]| load(yaml, more)["jobs"]["released"].clone();
    assert_eq!(counted(yaml, &[]), 3);
    assert_eq!(counted(yaml, &["--count", "decided"]), 2);
    // By ChronOS's rules the periods that end within the run count.
    let chronos = yaml.replace("policy: edf", "policy: edf\npreset: chronos");
    assert_eq!((counted(&chronos, &[]), counted(&chronos, &["--count", "all"])), (2.into(), 3.into()));
    fs::write(room.path("load.yaml"), yaml.replace("0.5", "2")).unwrap();
    let refused = room.takt(&["sim", "load.yaml", "--load", "60"]).expect(2).stderr;
    assert!(refused.contains("[out-of-range]") && refused.contains("above 100"), "{refused}");
}

/// The output of `sim` can be read, drawn and checked, whatever is in it.
#[test]
fn traces_with_locks_handlers_and_rounds_keep_the_rules() {
    let room = Room::new();
    let features =
        ["locking-ceiling", "abort-handler", "abort-finish", "cut-off", "steps"].map(|f| format!("features/{f}"));
    for name in ["ipi-tracking", "ipi-overload"].map(String::from).into_iter().chain(features) {
        let file = workloads().join(format!("{name}.yaml"));
        let file = file.to_str().unwrap();
        for trace in ["t.jsonl", "t.csv"] {
            room.takt(&["sim", file, "--trace", trace]).expect(0);
            room.takt(&["trace", "check", trace, file, "--tolerance", "0ms"]).expect(0);
            room.takt(&["trace", "convert", trace, "t.pftrace"]).expect(0);
            room.takt(&["trace", "convert", trace, "t.svg"]).expect(0);
        }
    }
}

#[test]
fn activations_are_counted_beside_the_jobs_of_a_table() {
    let room = Room::new();
    let file = workloads().join("features/cut-off.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let file = file.to_str().unwrap();
    for trace in ["t.jsonl", "t.csv"] {
        let sim = room.takt(&["sim", file, "--trace", trace, "--json"]).json();
        let of = |object: &Value, keys: &str| keys.split(' ').map(|key| object[key].clone()).collect::<Vec<_>>();
        assert_eq!(of(&sim, "activations cut_off behind overruns"), [8, 2, 0, 0]);
        assert_eq!(of(&sim["jobs"], "released completed met missed aborted"), [2, 2, 0, 2, 0]);
        let [filter, poll] = [&sim["tasks"][0], &sim["tasks"][1]];
        assert_eq!(of(filter, "activations cut_off released completed met missed late_signals"), [4, 2, 2, 2, 0, 2, 0]);
        assert_eq!((&poll["activations"], &poll["released"]), (&4.into(), &Value::Null));
        let shown = room.takt(&["trace", "show", trace]).expect(0).stdout;
        let last = "released 2, completed 2, met 0, missed 2, aborted 0, dispatches 8, preemptions 0, migrations 0";
        assert!(shown.contains(&format!("{last}, activations 8, cut off 2\n")), "{shown}");
    }
    let table = room.takt(&["sim", file]).expect(0).stdout;
    let row = |name: &str| table.lines().find(|l| l.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(row("filter")[1..8], ["4", "2", "2", "2", "0", "2", "0"]);
    assert_eq!(row("poll")[1..], ["4", "-", "-", "-", "-", "-", "-", "-", "-", "-", "-"]);
    // `completion: none` says what the note would say.
    assert!(!table.contains("note: poll"), "{table}");
    fs::write(room.path("silent.yaml"), text.replace(", completion: none", "")).unwrap();
    let told = room.takt(&["sim", "silent.yaml"]).expect(0).stdout;
    assert!(
        told.contains(
            "note: poll states no `runtime`, `execution` or `steps`, so it has activations and no jobs here; `completion: signal` \
             declares jobs"
        ),
        "{told}"
    );
    // An activation that was cut off is a failure.
    room.takt(&["sim", file, "--strict"]).expect(1);
    fs::write(room.path("enough.yaml"), text.replace("budget: 3ms", "budget: 4ms")).unwrap();
    room.takt(&["sim", "enough.yaml", "--strict"]).expect(0);
    // Without jobs, an overrun is a failure all the same.
    fs::write(room.path("long.yaml"), text.replace("budget: 2ms", "budget: 9ms").replace("budget: 3ms", "budget: 4ms"))
        .unwrap();
    let long = room.takt(&["sim", "long.yaml", "--strict", "--json"]).expect(1).stdout;
    let long: Value = serde_json::from_str(&long).unwrap();
    assert_eq!((&long["overruns"], &long["cut_off"], &long["jobs"]["missed"]), (&4.into(), &0.into(), &0.into()));
}

#[test]
fn the_command_line_overrides_what_an_abort_does() {
    let room = Room::new();
    let file = workloads().join("features/abort-finish.yaml");
    let counts = |more: &[&str]| {
        let sim = room.takt(&[&["sim", file.to_str().unwrap(), "--json"], more].concat()).json();
        let jobs = ["released", "met", "missed", "aborted"].map(|key| sim["jobs"][key].as_u64().unwrap());
        (jobs, sim["behind"].as_u64().unwrap(), sim["late_signals"].as_u64().unwrap())
    };
    assert_eq!(counts(&[]), ([3, 1, 2, 2], 2, 2));
    assert_eq!(counts(&["--on-abort", "finish"]), counts(&[]));
    // The second job has its own 4 ms for itself, whether the program is replaced or receives a signal.
    assert_eq!(counts(&["--on-abort", "restart"]), ([3, 2, 1, 1], 0, 0));
    assert_eq!(counts(&["--on-abort", "signal"]), ([3, 2, 1, 1], 1, 1));
    // A handler is what follows an abort in the program.
    let text = fs::read_to_string(&file).unwrap().replace("on_abort: finish", "handler: 1ms");
    fs::write(room.path("handler.yaml"), text).unwrap();
    let sim = room.takt(&["sim", "handler.yaml", "--json"]).json();
    assert_eq!((&sim["handlers"], &sim["behind"], &sim["jobs"]["met"]), (&1.into(), &0.into(), &2.into()));
    room.takt(&["sim", "handler.yaml", "--on-abort", "finish"]).expect(2);
}

#[test]
fn utility_is_reported_by_task_and_for_all() {
    let text = "policy: dasa-nd\nlate: abort\nduration: 10ms\ntasks:\n\
         - {name: a, batch: yes, runtime: 3ms, deadline: 4ms, utility: 3}\n\
         - {name: b, batch: yes, runtime: 3ms, deadline: 5ms, utility: {linear: 9, until: 9ms}}\n\
         - {name: c, batch: yes, runtime: 2ms, deadline: 7ms, utility: 0.000125}\n";
    let room = Room::with(text);
    // `b` ends at 3 ms of 9, `c` in time, `a` not at all.
    let sim = room.takt(&["sim", "w.yaml", "--json"]);
    assert!(sim.stdout.contains(r#""accrued":6.000125,"total":12.000125"#), "{}", sim.stdout);
    let sim = sim.json();
    let each: Vec<String> = (0..3).map(|t| sim["tasks"][t]["utility"].to_string()).collect();
    let expected =
        [r#"{"accrued":0,"total":3}"#, r#"{"accrued":6,"total":9}"#, r#"{"accrued":0.000125,"total":0.000125}"#];
    assert_eq!(each, expected);
    let table = room.takt(&["sim", "w.yaml"]).expect(0).stdout;
    let row = |name: &str| table.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{table}")).to_owned();
    assert!(
        row("task").contains("utility") && row("b ").contains(" 6/9 ") && row("all").contains(" 6.000125/12.000125 ")
    );
    assert_eq!(
        row("utility:"),
        "utility: accrued 6.000125 of 12.000125 (AUR 0.5000); deadlines met 2 of 3 (DSR 0.6667)"
    );
    // Without utilities, a job met counts one, and tasks have no such key.
    fs::write(room.path("w.yaml"), "policy: edf\nduration: 10ms\ntasks: [{name: a, period: 5ms, runtime: 3ms}]")
        .unwrap();
    let plain = room.takt(&["sim", "w.yaml", "--json"]).json();
    assert_eq!(plain["utility"].to_string(), r#"{"accrued":2,"total":2}"#);
    assert!(plain["tasks"][0].get("utility").is_none());
    let check = room.takt(&["check", "w.yaml"]).expect(0).stdout;
    assert!(!check.contains("domain"), "{check}");
}

#[test]
fn calls_and_changed_settings_are_seen_everywhere() {
    let room = Room::with(
        "policy: cbs\nduration: 100ms\ntasks:\n\
         - {name: film, period: 20ms, reservation: {budget: 7ms, period: 20ms}, steps: [run 6ms, set-runtime 16ms, wait-period, \
         run 6ms, set-period 40ms]}\n\
         - {name: sound, period: 10ms, runtime: 4ms}\n\
         changes: [{at: 50ms, policy: {enforcement: hard}}]\n",
    );
    let sim = room.takt(&["sim", "w.yaml", "--json", "--trace", "t.jsonl"]).json();
    assert_eq!(sim["switches"].to_string(), r#"[{"at_ns":50000000,"policy":"cbs:enforcement=hard"}]"#);
    assert_eq!((&sim["tasks"][0]["calls"], &sim["tasks"][0]["calls_refused"]), (&3.into(), &1.into()), "{sim}");
    assert!(sim["tasks"][1].get("calls").is_none());
    let trace = room.text("t.jsonl");
    assert!(trace.contains(r#""type":"configure","setting":0,"value":1}"#), "{trace}");
    assert!(
        trace.contains(r#""type":"call","task":"film","job":1,"call":"set-period","value":40000000,"granted":true}"#)
    );
    let told = room.takt(&["sim", "w.yaml"]).expect(0).stdout;
    assert!(told.contains("calls: film requested other terms 3 times, 1 refused"), "{told}");
    assert!(told.contains("switched: at 50ms cbs → cbs:enforcement=hard"), "{told}");
    // Releases that a call has moved are no findings.
    room.takt(&["trace", "check", "t.jsonl", "w.yaml"]).expect(0);
    let check = room.takt(&["check", "w.yaml"]).stdout;
    assert!(check.contains("jobs that request other terms are not covered by the tests"), "{check}");
}

#[test]
fn a_switch_of_policies_is_seen_everywhere() {
    let room = Room::with(
        "domains: [{name: left, cpus: 0-1, policy: g-edf}, {name: right, cpus: 2, policy: edf}]\nduration: 100ms\ntasks:\n\
         - {name: a, domain: left, period: 10ms, runtime: 2ms, utility: 3}\n\
         - {name: b, domain: right, period: 10ms, runtime: 2ms}\n\
         changes: [{at: 50ms, domain: left, policy: g-gua}, {at: 60ms, domain: right, policy: rr:quantum=1ms}]\n",
    );
    let sim = room.takt(&["sim", "w.yaml", "--json", "--trace", "t.jsonl", "--gantt", "t.svg"]).json();
    let expected = r#"[{"at_ns":50000000,"domain":"left","policy":"g-gua"},{"at_ns":60000000,"domain":"right","policy":"rr:quantum=1ms"}]"#;
    assert_eq!(sim["switches"].to_string(), expected);
    let trace = room.text("t.jsonl");
    assert!(trace.contains(r#"{"at":50000000,"applied":50000000,"type":"switch","domain":0,"to":0}"#), "{trace}");
    assert!(room.text("t.svg").contains("<title>at 50ms left: g-edf → g-gua</title>"));
    let said = "at 60ms right: edf → rr:quantum=1ms";
    let told = room.takt(&["sim", "w.yaml"]).expect(0).stdout;
    assert!(told.contains("w.yaml: policy domains, CPU 0-2") && told.contains("domain left: CPU 0-1, g-edf (global)"));
    assert!(told.contains(&format!("switched: {said}")) && told.lines().any(|l| l == said), "{told}");
    for trace in ["t.csv", "t.pftrace"] {
        room.takt(&["trace", "convert", "t.jsonl", trace]).expect(0);
    }
    let shown = room.takt(&["trace", "show", "t.csv"]).expect(0).stdout;
    assert!(shown.lines().any(|l| l == said), "{shown}");
    room.takt(&["trace", "check", "t.csv", "w.yaml"]).expect(0);
    fs::write(room.path("w.yaml"), "policy: edf\nduration: 10ms\ntasks: [{name: a, period: 5ms, runtime: 3ms}]")
        .unwrap();
    assert!(room.takt(&["sim", "w.yaml", "--json"]).json().get("switches").is_none());
}

/// A trace tells on which machine and under which policy it was made; who checks it need not say so again.
#[test]
fn a_trace_is_checked_on_its_machine_and_under_its_policy() {
    let tasks = |head: &str, end: &str| {
        let one = |name: &str| format!("- {{name: {name}, period: 10ms, runtime: 4ms}}\n");
        format!(
            "{head}\nduration: 60ms\ntasks:\n- {{name: a, cpu: 0, period: 10ms, runtime: 4ms}}\n{}{end}",
            one("b") + &one("c")
        )
    };
    let room = Room::new();
    let switches =
        "changes: [{at: 15ms, policy: edf-wm}, {at: 35ms, policy: g-rr}, {at: 45ms, policy: {quantum: 2ms}}]\n";
    for (head, end, args, switched) in [
        // The file names one CPU by the affinity of a task.
        ("policy: g-edf", "", &["--cpus", "2"][..], 0),
        ("policy: g-edf\ncpus: 0-1", "", &["--policy", "edf", "--cpus", "1"], 0),
        ("policy: g-edf\ncpus: 0,3", "", &[], 0),
        ("policy: p-edf\ncpus: 0-1", switches, &[], 2),
        ("policy: p-edf\nplacement: wfd", switches, &["--cpus", "4"], 2),
        // The command line's policy stays, and was told to do so.
        ("policy: p-edf\ncpus: 0-1", switches, &["--policy", "g-rr"], 0),
    ] {
        fs::write(room.path("w.yaml"), tasks(head, end)).unwrap();
        room.takt(&[&["sim", "w.yaml", "--trace", "t.jsonl"], args].concat()).expect(0);
        let told = room.text("t.jsonl").matches(r#""type":"switch""#).count();
        assert_eq!(told, switched, "{head} {args:?}");
        let check = room.takt(&["trace", "check", "t.jsonl", "w.yaml", "--tolerance", "0ms"]).expect(0);
        assert_eq!(check.stderr, "", "{head} {args:?}");
    }
    // On another CPU than the file allows it is a finding.
    fs::write(room.path("w.yaml"), tasks("policy: g-edf\ncpus: 0-1", "").replace("cpu: 0", "cpu: 1")).unwrap();
    let check = room.takt(&["trace", "check", "t.jsonl", "w.yaml"]).expect(1).stdout;
    assert!(check.contains("[affinity]"), "{check}");
}

/// Budgets that a policy has granted do not limit jobs under the next one, and the trace says so.
#[test]
fn a_switch_away_from_a_server_lifts_its_budget() {
    let room = Room::new();
    let from = ["sporadic-server", "polling-server", "periodic-server", "deferrable-server", "cbs:enforcement=hard"];
    for policy in from {
        for to in ["edf", "fp", "rr:quantum=1ms", "dasa"] {
            let text = format!(
                "policy: {policy}\nduration: 80ms\ntasks:\n\
                 - {{name: q, period: 20ms, runtime: 10ms, priority: 2, utility: 1, reservation: {{budget: 2ms, period: 10ms}}}}\n\
                 - {{name: c, period: 40ms, runtime: 4ms, priority: 1, utility: 1}}\nchanges: [{{at: 11ms, policy: '{to}'}}]\n"
            );
            fs::write(room.path("w.yaml"), text).unwrap();
            for trace in ["t.jsonl", "t.csv"] {
                room.takt(&["sim", "w.yaml", "--trace", trace]).expect(0);
                room.takt(&["trace", "check", trace, "w.yaml", "--tolerance", "0ms"]).expect(0);
            }
            let trace = room.text("t.jsonl");
            let lifted = r#"{"at":11000000,"applied":11000000,"type":"budget","task":"q","job":0}"#;
            assert!(trace.contains(lifted), "{policy} to {to}: {trace}");
        }
    }
}

#[test]
fn each_domain_has_a_verdict() {
    let room = Room::with(
        "domains: [{name: control, cpus: 0, policy: dasa}, {name: media, cpus: 1, policy: rm}]\ntasks:\n\
         - {name: a, domain: control, period: 5ms, runtime: 2ms, utility: 3}\n\
         - {name: b, domain: media, period: 5ms, runtime: 2ms}\n\
         - {name: c, domain: media, period: 7ms, runtime: 4ms}\n",
    );
    let check = room.takt(&["check", "w.yaml", "--json"]).expect(1);
    let object: serde_json::Value = serde_json::from_str(&check.stdout).unwrap();
    let part = |index: usize, key: &str| object["domains"][index][key].to_string();
    assert_eq!((part(0, "schedulable"), part(1, "schedulable")), ("true".into(), "false".into()));
    assert_eq!((part(0, "test"), part(1, "test")), (r#""edf""#.into(), r#""rta""#.into()));
    assert_eq!((object["tasks"][0]["utility"].as_u64(), object["tasks"][1]["utility"].as_u64()), (Some(3), Some(1)));
    let told = room.takt(&["check", "w.yaml"]).expect(1).stdout;
    assert!(told.contains("domain control: 1 task, policy dasa, CPU 0: schedulable (exact test edf)"), "{told}");
    assert!(told.contains("in domain `media`, task `c` can respond as late as 8ms"), "{told}");
}

/// A histogram of 29.7 KB for each task made 311 MB of 8000 tasks.
#[test]
fn the_memory_of_a_simulation_of_many_tasks_is_what_the_tasks_need() {
    let peak = |tasks: usize, args: &[&str]| {
        let task = |n| format!("- {{name: t{n}, period: 100ms, runtime: 5us}}\n");
        let tasks: String = (0..tasks).map(task).collect();
        let room = Room::with(&format!("policy: edf\ncpus: 0\ntasks:\n{tasks}"));
        // A writer into a pipe that is not read waits, and can be looked at.
        let mut command = room.command(&[&["sim", "w.yaml"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut first = [0];
        out.read_exact(&mut first).unwrap();
        until("it waits for its reader", || state(child.id() as i32) == 'S');
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the peak of its memory");
        let kilobytes: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
        std::io::copy(&mut out, &mut std::io::sink()).unwrap();
        assert!(child.wait().unwrap().success());
        kilobytes
    };
    let one = peak(1, &["--duration", "10min", "--trace", "-"]);
    for format in [&["--json"][..], &[]] {
        let all = peak(8000, &[&["--duration", "100ms"], format].concat());
        println!("{one} kB for one task, {all} kB for 8000 {format:?}");
        assert!(all - one <= 22_000, "{one} kB for one task, {all} kB for 8000 {format:?}");
    }
}
