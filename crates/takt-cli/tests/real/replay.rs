//! A recorded run, fed to the simulator, gives the same records: only when they became real is lost.

use crate::common::{Room, attempts, ensure, has_cpus};
use crate::machine::on_cpus;
use serde_json::json;
use std::fs;
use takt_core::record::{Record, RecordKind};

/// Runs a workload, replays it, and returns the records of the run after checking that the replay gave the same.
pub(super) fn replayed(text: &str) -> Vec<Record> {
    replayed_in(&Room::with(text))
}

/// As [`replayed`], for a room with a workload.
pub(super) fn replayed_in(room: &Room) -> Vec<Record> {
    let args = ["--record", "r.steps", "--trace", "run.jsonl", "--json", "--allow-differences"];
    room.takt(&[&["run", "w.yaml", "--duration", "1s"][..], &args].concat()).expect(0);
    let sim = room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--trace", "sim.jsonl", "--json"]).json();
    let records = |name| room.trace(name).records.iter().map(|r| r.record).collect::<Vec<_>>();
    let (run, again) = (records("run.jsonl"), records("sim.jsonl"));
    let first = run.iter().zip(&again).position(|(a, b)| a != b);
    assert_eq!(first, None, "{:?} became {:?}", first.map(|i| run[i]), first.map(|i| again[i]));
    assert_eq!(run.len(), again.len());
    assert_eq!((&sim["source"], &sim["duration_ns"]), (&"sim".into(), &1_000_000_000.into()));
    run
}

pub(super) fn count(records: &[Record], wanted: impl Fn(&RecordKind) -> bool) -> usize {
    records.iter().filter(|r| wanted(&r.kind)).count()
}

/// `tests/records` holds what version 0.1.0 recorded before the core had layers: workloads, the steps of a run of each, and its trace.
#[test]
fn records_of_an_earlier_version_replay_bit_for_bit() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/records");
    for name in ["edf", "windows"] {
        let room = Room::with("");
        for file in ["yaml", "steps", "jsonl"].map(|ending| format!("{name}.{ending}")) {
            fs::copy(folder.join(&file), room.path(&file)).expect("a file of the records");
        }
        let (workload, steps) = (format!("{name}.yaml"), format!("{name}.steps"));
        room.takt(&["sim", &workload, "--replay", &steps, "--trace", "sim.jsonl"]).expect(0);
        let records = |name: &str| room.trace(name).records.iter().map(|r| r.record).collect::<Vec<_>>();
        let run = records(&format!("{name}.jsonl"));
        assert!(run.len() > 40, "{name}");
        assert!(run == records("sim.jsonl"), "{name}");
    }
}

#[test]
fn a_window_table_with_signals_and_overruns_replays() {
    on_cpus(|| {
        attempts(5, || {
            let records = replayed(
                "seed: 7\n\
         windows:\n\
         - {length: 20ms, cpu: 0, sc_partition: A, be_partition: C}\n\
         - {length: 10ms, cpu: 0, sc_partition: B, be_partition: C}\n\
         partitions:\n\
         - {name: A, processes: [{cmd: exec takt burn --runtime 3ms, budget: 10ms, jitter: 5ms}, {cmd: 'sleep 0.3', budget: 4ms}]}\n\
         - {name: B, processes: [{cmd: exec takt burn, budget: 20ms}]}\n\
         - {name: C, processes: [{cmd: exec takt burn --runtime 7ms, budget: 15ms}, {cmd: exec takt burn --runtime 2ms --jobs 5, budget: 5ms}]}\n",
            );
            use takt_core::record::Outcome::{Completed, Overrun};
            let overruns = count(&records, |w| matches!(w, RecordKind::Finish { outcome: Overrun, .. }));
            let completions = count(&records, |w| matches!(w, RecordKind::Finish { outcome: Completed, .. }));
            let exits = count(&records, |w| matches!(w, RecordKind::Exit { .. }));
            ensure(overruns >= 20 && completions >= 20 && exits >= 1, || {
                format!("{overruns} overruns, {completions} completions, {exits} exits")
            })
        });
    });
}

#[test]
fn earliest_deadline_first_replays() {
    on_cpus(|| {
        attempts(5, || {
            let records = replayed(
                "policy: edf\n\
         tasks:\n\
         - {cmd: exec takt burn --runtime 3ms, period: 20ms, runtime: 3ms}\n\
         - {cmd: exec takt burn --runtime 10ms, period: 70ms, runtime: 10ms, budget: 8ms}\n\
         - {cmd: exec takt burn --runtime 2ms --jobs 1, period: 90ms, runtime: 5ms, spawn: per-job}\n",
            );
            let starts = count(&records, |w| matches!(w, RecordKind::Start { .. }));
            ensure(starts >= 40, || format!("{starts} starts"))
        });
    });
}

#[test]
fn simulated_effects_are_left_out_of_a_run_and_its_replay() {
    on_cpus(|| {
        attempts(5, || {
            let records = replayed(
                "policy: edf\n\
             tick: 64ms\n\
             timer_resolution: 50ms\n\
             timer_lateness: 50ms\n\
             costs: {context_switch: 1ms}\n\
             steal: {period: 10ms, length: 5ms}\n\
             changes: [{at: 100ms, task: a, period: 500ms}]\n\
             resources: [r]\n\
             tasks:\n\
             - {name: a, cmd: exec takt burn --runtime 20ms, period: 40ms, runtime: 3ms, budget: 5ms, execution: 1ms}\n\
             - {name: b, cmd: exec takt burn --runtime 1ms, period: 100ms, runtime: 2ms, steps: [lock r, run 50ms, unlock r]}\n",
            );
            let aborted =
                |w: &RecordKind| matches!(w, RecordKind::Finish { outcome: takt_core::record::Outcome::Aborted, .. });
            // By a timer of that resolution they would end first.
            let aborts = count(&records, aborted);
            ensure(aborts >= 5, || format!("{aborts} jobs were aborted at the end of their budget"))
        });
    });
}

/// The handler of a real program is what it does after the signal until it completes.
#[test]
fn the_handlers_of_a_program_replay() {
    on_cpus(|| {
        attempts(5, || {
            let records = replayed(
                "policy: edf\n\
         tasks:\n\
         - name: a\n\
         \x20 cmd: 'late=; trap late=1 USR1; while takt done; do late=; while [ -z \"$late\" ]; do :; done; done'\n\
         \x20 init: yes\n\
         \x20 period: 50ms\n\
         \x20 budget: 5ms\n\
         \x20 handler: 20ms\n",
            );
            let handlers = count(&records, |w| matches!(w, RecordKind::Handler { .. }));
            let ended = count(&records, |w| matches!(w, RecordKind::HandlerEnd { .. }));
            assert_eq!(count(&records, |w| matches!(w, RecordKind::Exit { .. })), 0, "it handles the signal");
            assert_eq!(
                count(&records, |w| matches!(w, RecordKind::Behind { .. })),
                0,
                "nothing is left after its handler"
            );
            ensure(handlers >= 15 && ended + 1 >= handlers, || format!("{ended} of {handlers} handlers ended"))
        });
    });
}

#[test]
fn a_run_and_its_replay_count_the_jobs_that_a_simulation_counts() {
    on_cpus(|| {
        let room = Room::with(
            "preset: chronos\n\
         policy: edf\n\
         tasks: [{name: a, cmd: exec takt burn --runtime 1ms, period: 400ms, runtime: 2ms, utility: 3}]\n",
        );
        let args = |more: &[&'static str]| [more, &["w.yaml", "--json"]].concat();
        let counted = |more: &[&'static str]| room.takt(&args(more)).json();
        let run = counted(&["run", "--duration", "1s", "--record", "r.steps"]);
        // Those released at 0 and 400 ms: the next one is due after the end.
        assert_eq!((&run["jobs"]["released"], &run["utility"]["total"]), (&2.into(), &6.into()), "{run}");
        assert_eq!(counted(&["sim", "--duration", "1s"])["jobs"]["released"], 2);
        let again = counted(&["sim", "--replay", "r.steps"]);
        assert_eq!((&again["jobs"], &again["utility"]), (&run["jobs"], &run["utility"]));
    });
}

#[test]
fn a_trace_of_a_run_is_judged_without_what_is_only_simulated() {
    let room = Room::with(
        "timer_lateness: 2ms\n\
         windows: [{length: 10ms, slices: [{cpu: 0, sc_partition: P}]}]\n\
         partitions: [{name: P, processes: [{cmd: a, budget: 4ms}]}]\n",
    );
    room.takt(&["sim", "w.yaml", "--duration", "100ms", "--trace", "sim.jsonl"]).expect(0);
    room.takt(&["trace", "check", "sim.jsonl", "w.yaml"]).expect(0);
    let claimed = room.text("sim.jsonl").replacen("\"source\":\"sim\"", "\"source\":\"run\"", 1);
    std::fs::write(room.path("run.jsonl"), claimed).unwrap();
    // The lateness of timers is simulated only, so it excuses no budget of a run.
    let done = room.takt(&["trace", "check", "run.jsonl", "w.yaml"]).expect(1);
    assert!(done.stdout.contains("[budget]"), "{}", done.stdout);
}

#[test]
fn a_record_of_steps_that_no_run_writes_is_refused_at_its_line() {
    let room = Room::with("policy: edf\ntasks: [{name: a, runtime: 1ms, period: 10ms}]\n");
    let replay = |horizon: &str, lines: &[&str]| {
        let header = format!("{{\"takt_steps\":1,\"workload\":\"w\",\"tasks\":1,\"seed\":0,\"horizon_ns\":{horizon}}}");
        fs::write(room.path("r.steps"), [&[&*header], lines].concat().join("\n")).unwrap();
        room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--what-if", "--trace", "t.jsonl"])
    };
    let refused = |horizon: &str, lines: &[&str], says: &str| {
        let done = replay(horizon, lines).expect(2);
        assert!(done.stderr.contains(says), "{lines:?}: {}", done.stderr);
    };
    // 366 days are the longest run; nothing is beyond that, or before its start.
    let year = "31622400000000000";
    replay(year, &["[0,[]]", &format!("[{year},[[\"complete\",0,0]]]")]).expect(0);
    room.takt(&["trace", "show", "t.jsonl"]).expect(0);
    room.takt(&["trace", "check", "t.jsonl"]).expect(0);
    for instant in ["-5", "31622400000000001", "9223372036854775807", "1e300", "null", "\"0\""] {
        refused("null", &[&format!("[{instant},[]]")], "r.steps:2: this is not a step");
    }
    refused("9223372036854775807", &["[0,[]]"], "r.steps:1: its horizon");
    refused("null", &["[5,[]]", "[4,[]]"], "r.steps:3: time runs backwards");
    for input in [
        "[\"complete\",0]",
        "[\"complete\",0,-1]",
        "[\"exit\",0]",
        "[\"exit\",0,true]",
        "[\"exit\",0,0,1]",
        "[\"request\",0,5]",
        "[\"return\",0,5]",
        "[\"usage\",0,-1]",
        "[\"usage\",0,9223372036854775807]",
        "[\"skew\",0,-9223372036854775808]",
        "[\"share\",0,0,1]",
        "[\"share\",0,null,0]",
        "[\"retime\",0,9223372036854775807,null,null]",
        "[\"retime\",0,0,null,null]",
        "[\"retime\",0,1000000,0,null]",
        "[\"retime\",0,1000000,null,-1]",
        "[\"call\",0,\"set_period\",9223372036854775807]",
        "[\"call\",0,\"set_deadline\",0]",
        "[\"configure\",24,1]",
        "[\"configure\",0,\"one\"]",
        "[\"switch\",65536,0]",
        "[\"switch\",null,-1]",
        "[\"dance\",0]",
    ] {
        refused("null", &["[0,[]]", &format!("[1,[{input}]]"), "[2,[]]"], "r.steps:3: this is not a step");
    }
}

/// Issue 11, row 7: `takt sim` fed the record of one policy or workload to any other, with status 0 and figures of no run.
#[test]
fn a_record_is_replayed_by_the_system_that_was_recorded_and_by_no_other() {
    on_cpus(|| {
        let text = "policy: edf\ncpus: 0\n\
                    tasks: [{name: a, period: 10ms, runtime: 2ms, init: yes, cmd: exec takt burn --runtime 2ms}, \
                    {name: b, period: 14ms, runtime: 3ms, init: yes, cmd: exec takt burn --runtime 3ms}]\n";
        let room = Room::with(text);
        let run = room.takt(&["run", "w.yaml", "--duration", "200ms", "--record", "r.steps", "--json"]).json();
        let replay = |more: &[&str]| room.takt(&[&["sim", "w.yaml", "--replay", "r.steps"], more].concat());
        let own = replay(&["--json"]).json();
        assert_eq!((&own["jobs"], &own["replay"]["what_if"]), (&run["jobs"], &false.into()));
        assert_eq!((&own["replay"]["differences"], &own["replay"]["doubts"]), (&json!([]), &json!([])));
        assert!(replay(&[]).stdout.starts_with("w.yaml: policy edf (uniprocessor), CPU 0, replayed 200ms, seed 0\n"));

        let refused = |more: &[&str], says: &[&str]| {
            let stderr = replay(more).expect(2).stderr;
            let lines: Vec<&str> = stderr.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert_eq!(lines, says, "{more:?}: {stderr}");
            assert!(stderr.starts_with("error[other-record]: r.steps"), "{stderr}");
            assert!(stderr.contains("hint: ") && stderr.contains("`--what-if`"), "{stderr}");
        };
        refused(&["--policy", "rm"], &["policy: recorded edf, now rm"]);
        refused(&["--seed", "7"], &["seed: recorded 0, now 7"]);
        refused(
            &["--policy", "p-edf", "--cpus", "2", "--placement", "wf"],
            &[
                "cpus: recorded 0, now 0-1",
                "placement: recorded ffd, now wf",
                "policy: recorded edf, now p-edf",
                "scope: recorded uniprocessor, now partitioned",
            ],
        );
        let edited = |from: &str, to: &str, says: &[&str]| {
            assert!(text.contains(from));
            fs::write(room.path("w.yaml"), text.replacen(from, to, 1)).unwrap();
            refused(&[], says);
        };
        edited("runtime: 2ms", "runtime: 2500us", &["task `a`: runtime: recorded 2ms, now 2.5ms"]);
        edited("period: 14ms", "period: 14ms, budget: 4ms", &["task `b`: budget: recorded not set, now 4ms"]);
        edited("policy: edf", "policy: edf\nlate: abort", &["late: recorded continue, now abort"]);
        edited("policy: edf", "policy: edf\nbacklog: skip", &["backlog: recorded queue, now skip"]);
        edited(
            "policy: edf",
            "policy: 'rr:quantum=3ms'",
            &["policy: recorded edf, now rr", "settings: quantum: recorded not set, now 3ms"],
        );
        edited(
            "{name: a, period: 10ms",
            "{name: c, releases: [5ms, 10ms], deadline: 10ms",
            &[
                "task `c`: name: recorded a, now c",
                "task `c`: offset: recorded 0s, now not set",
                "task `c`: period: recorded 10ms, now not set",
                "task `c`: releases: recorded not set, now [\"5ms\",\"10ms\"]",
            ],
        );
        edited("]\n", ", {period: 1s, runtime: 1ms, cmd: 'true'}]\n", &["tasks: number: recorded 2, now 3"]);
        fs::write(room.path("w.yaml"), text.replacen("takt burn", "takt  burn", 2)).unwrap();
        replay(&[]).expect(0);

        fs::write(room.path("w.yaml"), text).unwrap();
        let what_if = replay(&["--policy", "rm", "--what-if"]).expect(0).stdout;
        let headline = "w.yaml: policy rm (uniprocessor), CPU 0, what-if replay of 200ms, seed 0\n";
        assert!(what_if.starts_with(headline) && what_if.contains("  policy: recorded edf, now rm\n"), "{what_if}");
        let what_if = replay(&["--policy", "rm", "--what-if", "--json"]).json();
        let differences = json!([{"key": "policy", "recorded": "edf", "now": "rm"}]);
        assert_eq!((&what_if["replay"]["what_if"], &what_if["replay"]["differences"]), (&true.into(), &differences));

        let one = text.split(", {name: b").next().expect("its first task");
        fs::write(room.path("w.yaml"), format!("{one}]\n")).unwrap();
        let stderr = replay(&["--what-if"]).expect(2).stderr;
        assert!(stderr.contains("[other-record]") && stderr.contains("task 1 (from 0)"), "{stderr}");
        fs::write(room.path("w.yaml"), text).unwrap();

        let whole = room.text("r.steps");
        let spoiled = |text: &str, says: &str, what_if: i32| {
            fs::write(room.path("r.steps"), text).unwrap();
            let stderr = replay(&[]).expect(2).stderr;
            assert!(stderr.contains(says), "{stderr}");
            let done = replay(&["--what-if"]).expect(what_if);
            assert!(what_if == 2 || done.stdout.contains(says), "{}", done.stdout);
        };
        let lines: Vec<&str> = whole.lines().collect();
        let ten = lines[..10].join("\n");
        spoiled(&ten, "the record ends at line 10 without an end", 0);
        spoiled(&ten[..ten.len() - 3], "r.steps:10: this is not a step", 2);
        let [before, after] = [&lines[..4], &lines[5..]].map(|part| part.join("\n"));
        spoiled(&format!("{before}\n{after}\n"), "the record was changed after it was written", 2);
        spoiled(&whole.replacen("\"runtime\":\"2ms\"", "\"runtime\":\"9ms\"", 1), "is the record of another system", 2);
        spoiled(&format!("{whole}[9000000000,[]]\n"), "there are lines after the end of the record", 2);
        spoiled(&whole.replacen("\"dropped\":0", "\"dropped\":3", 1), "the run lost 3 records", 0);
        spoiled(&whole.replacen("\"version\":1", "\"version\":2", 1), "of another version of Takt", 2);
        let earlier = "{\"takt_steps\":1,\"workload\":\"w\",\"tasks\":2,\"seed\":0,\"horizon_ns\":null}\n[0,[]]\n[1000000000,[]]\n";
        spoiled(earlier, "the record has no fingerprint: it was written by an earlier version of Takt", 0);
        spoiled(&earlier.replace("\"seed\":0", "\"seed\":5"), "seed: recorded 5, now 0", 0);
    });
}

/// A file that names no CPU by its number runs on all CPUs of the machine, and its replay takes as many.
#[test]
fn a_replay_has_the_cpus_of_the_run() {
    if !has_cpus(2) {
        return;
    }
    on_cpus(|| {
        let room = Room::with(
            "policy: g-edf\ncpus: all\ntasks: [{name: a, period: 10ms, runtime: 2ms, cmd: exec takt burn --runtime 1ms}]\n",
        );
        let run = room.takt(&["run", "w.yaml", "--duration", "100ms", "--record", "r.steps", "--json"]).json();
        let again = room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--json"]).json();
        assert_eq!((&again["cpus"], &again["jobs"]), (&run["cpus"], &run["jobs"]));
        assert_ne!(again["cpus"], 1);
    });
}
