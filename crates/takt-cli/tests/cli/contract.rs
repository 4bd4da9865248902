//! The contract with scripts: exit statuses, the JSON object, where output goes, where files are written.

use crate::common::{Room, attempts, ensure, workloads};
use crate::machine::{Capability, on_cpus, skip};
use serde_json::Value;
use std::fs;

const BURN: &str = "\
windows: [{length: 50ms, cpu: 0, sc_partition: SC}]
partitions: [{name: SC, processes: [{cmd: exec takt burn, budget: 20ms}]}]
";

fn feature(name: &str) -> String {
    workloads().join("features").join(name).to_str().unwrap().to_string()
}

#[test]
fn two_is_bad_input_or_usage() {
    let room = Room::with(BURN);
    fs::write(room.path("tasks.csv"), "set_id,task_id,C_us,D_us,T_us\n0,0,1000,5000,5000\n").unwrap();
    fs::write(room.path("long.yaml"), "policy: edf\ntasks: [{runtime: 5ms, period: 10ms, deadline: 3ms}]\n").unwrap();
    fs::write(room.path("note.txt"), "no trace").unwrap();
    fs::write(room.path("undated.yaml"), "policy: rr\ntasks: [{name: left, period: 10ms, cmd: x}]\n").unwrap();
    room.takt(&["sim", "w.yaml", "--duration", "100ms", "--trace", "t.jsonl"]).expect(0);
    for (args, says) in [
        (&["run", "nothing.yaml"][..], "error[unreadable-file]: "),
        (&["sim", "w.yaml", "--policy", "efd"], "`edf`"),
        (&["sim", "w.yaml", "--policy", "g-emf"], "`g-edf`"),
        (&["sim", "w.yaml", "--duration", "10"], "unit"),
        (&["sim", "w.yaml", "--duration", "0s"], "above zero"),
        (&["sim", "w.yaml", "--duration", "-5ms"], "above zero"),
        (&["sim", "w.yaml", "--cpus", "0"], "--cpus"),
        (&["sim", "w.yaml", "--cpus", "-3"], "1..="),
        (&["sim", "w.yaml", "--nonsense"], "--nonsense"),
        (&["run", "w.yaml", "--mechanism", "v3"], "v3"),
        (&["run", "tasks.csv", "--policy", "edf"], "error[missing-key]: "),
        (&["sim", "tasks.csv"], "[missing-policy]"),
        (&["sim", "tasks.csv", "--policy", "edf", "--copies", "T0=2"], "[not-supported-here]"),
        (&["sim", "w.yaml", "--copies", "a=2"], "[not-supported-here]"),
        (&["analyze", "undated.yaml"], "error[not-applicable]: "),
        (&["check", "."], "[unreadable-file]"),
        (&["sim", "w.yaml", "--replay", "."], "[unreadable-file]"),
        (&["check", "t.jsonl"], "[wrong-format]"),
        (&["trace", "show", "t.jsonl", "--from", "20ms", "--to", "10ms"], "[empty-range]"),
        (&["trace", "show", "t.jsonl", "--from", "2s"], "[empty-range]"),
        (&["trace", "show", "t.jsonl", "--width", "3"], "--width"),
        (&["check", "long.yaml"], "[impossible-deadline]"),
        (&["sim", "w.yaml", "--trace", "t.txt"], "[wrong-format]"),
        (&["sim", "w.yaml", "--trace", "missing/t.jsonl"], "[unwritable-file]"),
        (&["run", "w.yaml", "--gantt", "missing/t.svg"], "[unwritable-file]"),
        (&["sim", "w.yaml", "--replay", "w.yaml"], "[damaged-file]"),
        (&["trace", "show", "note.txt"], "[wrong-format]"),
        (&["trace", "check", "nothing.jsonl"], "[unreadable-file]"),
        (&["policies", "efd"], "[unknown-policy]"),
        (&["frobnicate"], "frobnicate"),
        (&[], "Usage"),
    ] {
        let done = room.takt(args).expect(2);
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
        assert!(done.stdout.is_empty(), "{args:?}: {}", done.stdout);
    }
}

/// A refused command leaves everything as it was.
#[test]
fn nothing_is_overwritten_or_left_behind() {
    let room =
        Room::with("policy: edf\ntasks: [{name: a, runtime: 1ms, period: 10ms, cmd: exec takt burn}]\ncpus: \"900\"\n");
    fs::write(room.path("set.csv"), "set_id,task_id,C_us,D_us,T_us\n0,0,1000,5000,5000\n").unwrap();
    room.takt(&["sim", "w.yaml", "--trace", "t.jsonl"]).expect(0);
    let files = || {
        let all = fs::read_dir(room.path(".")).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> =
            all.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        all.sort();
        all
    };
    let before = files();
    let set = ["sim", "set.csv", "--policy", "edf"];
    for (status, args, says) in [
        (2, &["sim", "w.yaml", "--emit-windows", "w.yaml"][..], "error[same-file]: "),
        (2, &[&set[..], &["--trace", "./set.csv"]].concat(), "error[same-file]: "),
        (2, &[&set[..], &["--rounds", "set.csv"]].concat(), "error[same-file]: "),
        (2, &["run", "w.yaml", "--record", "w.yaml"], "error[same-file]: "),
        (2, &["trace", "convert", "t.jsonl", "t.jsonl"], "error[same-file]: "),
        (2, &["sim", "w.yaml", "--trace", "a.csv", "--rounds", "a.csv"], "error[same-file]: "),
        (2, &["sim", "w.yaml", "--trace", "a.jsonl", "--gantt", "a.png"], "[wrong-format]"),
        (2, &["sim", "w.yaml", "--trace", "a.jsonl", "--rounds", "a.png"], "[wrong-format]"),
        (2, &["sim", "w.yaml", "--trace", "a.jsonl", "--gantt", "missing/a.svg"], "[unwritable-file]"),
        (2, &["sim", "w.yaml", "--gantt", "a.svg", "--emit-windows", "."], "[unwritable-file]"),
        (3, &["run", "w.yaml", "--trace", "a.jsonl", "--gantt", "a.svg", "--record", "a.steps"], "w.yaml: CPU 900"),
    ] {
        let done = room.takt(args).expect(status);
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
        assert!(files() == before, "{args:?}");
    }
}

/// Copies are called after their task, so a trace tells how many there were.
#[test]
fn a_trace_of_copies_is_checked_against_their_file() {
    let tasks = "policy: edf\ntasks:\n- {name: a, period: 20ms, runtime: 1ms}\n- {name: b, period: 20ms, runtime: 2ms, copies: 2}\n";
    let room = Room::with(tasks);
    for copies in [&["a=3"][..], &["b=1"], &["b=4", "a=1"]] {
        let copies: Vec<&str> = copies.iter().flat_map(|copies| ["--copies", copies]).collect();
        room.takt(&[&["sim", "w.yaml", "--trace", "t.jsonl"], &copies[..]].concat()).expect(0);
        room.takt(&["trace", "check", "t.jsonl", "w.yaml"]).expect(0);
    }
    fs::write(room.path("w.yaml"), tasks.replace("name: a", "name: c")).unwrap();
    let done = room.takt(&["trace", "check", "t.jsonl", "w.yaml"]).expect(2);
    assert!(done.stderr.contains("[other-record]") && done.stderr.contains("`c`, `b-1`, `b-2`"), "{}", done.stderr);
}

#[test]
fn check_says_which_runtime_it_takes_from_steps() {
    let room = Room::with(
        "policy: edf\ntasks:\n- {name: a, period: 20ms, steps: [run 1ms, wait-period, run 2ms, sleep 1ms, run 3ms]}\n\
         - {name: b, period: 20ms, runtime: 2ms}\n- {name: c, period: 20ms, runtime: 9ms, steps: [run 2ms]}\n",
    );
    let said = room.takt(&["check", "w.yaml"]).expect(0).stdout;
    assert!(said.contains("note: runtime from `steps`, that of the longest job, at any time: a 5ms\n"), "{said}");
    let json = room.takt(&["check", "w.yaml", "--json"]).json();
    assert_eq!(
        (&json["tasks"][0]["runtime_of_steps_ns"], &json["tasks"][2]["runtime_of_steps_ns"]),
        (&5_000_000.into(), &Value::Null)
    );
}

#[test]
fn three_is_a_machine_that_cannot() {
    let room = Room::with(&BURN.replace("cpu: 0", "cpu: \"0,900\""));
    let done = room.takt(&["run", "w.yaml", "--duration", "100ms"]).expect(3);
    assert!(done.stderr.contains("error[missing-cpu]: w.yaml: CPU 900"), "{}", done.stderr);
    assert!(done.stderr.contains("fix: "), "{}", done.stderr);
    room.takt(&["sim", "w.yaml"]).expect(0);
    room.takt(&["check", "w.yaml"]).expect(0);
}

#[test]
fn one_is_no() {
    let room = Room::with("policy: edf\ntasks: [{runtime: 6ms, period: 10ms}, {runtime: 6ms, period: 11ms}]\n");
    let said = room.takt(&["check", "w.yaml"]).expect(1).stdout;
    assert!(said.contains("not schedulable"), "{said}");
    let json: Value = serde_json::from_str(&room.takt(&["check", "w.yaml", "--json"]).expect(1).stdout).unwrap();
    assert_eq!(json["schedulable"], false);
    room.takt(&["sim", "w.yaml", "--duration", "1s"]).expect(0);
    room.takt(&["sim", "w.yaml", "--duration", "1s", "--strict"]).expect(1);
    room.takt(&["sim", &feature("edf.yaml"), "--strict"]).expect(0);
    room.takt(&["sim", &feature("edf.yaml"), "--policy", "rm", "--strict"]).expect(1);
}

/// Properties that only a simulation knows take a verdict its yes, and are named.
#[test]
fn check_names_what_its_verdict_leaves_out() {
    let dated = "tasks: [{name: a, runtime: 1ms, period: 10ms}]\n";
    let free = "tasks: [{name: a, runtime: 1ms, batch: yes}]\n";
    let retimed = "changes: [{at: 50ms, task: a, period: 10ms, deadline: 1ms}]\n";
    for (tasks, keys, known, says) in [
        (dated, "", true, ""),
        (dated, "timer_lateness: 50us\n", false, "leaves out `timer_lateness`"),
        (dated, "timer_resolution: 1ms\n", false, "leaves out `timer_resolution`"),
        (dated, "tick: 1ms\nsteal: {period: 5ms, length: 1ms}\n", false, "leaves out `tick` and `steal`"),
        (
            dated,
            "tick: 1ms\ncosts: {context_switch: 1us}\nchanges: [{at: 1s, task: a, leave: yes}]\n",
            false,
            "leaves out `tick`, `costs` and `changes`",
        ),
        (free, "timer_lateness: 50us\n", true, ""),
        ("tasks: [{name: a, runtime: 1ms, period: 10ms, deadline: none}]\n", retimed, false, "leaves out `changes`"),
    ] {
        let room = Room::with(&format!("policy: fp\ncpus: 0\n{keys}{tasks}"));
        let said = room.takt(&["check", "w.yaml"]).expect(0).stdout;
        assert_eq!(said.contains("not known to be schedulable"), !known, "{keys}: {said}");
        assert!(said.contains(says), "{keys}: {said}");
    }
}

#[test]
fn a_merely_sufficient_test_that_says_nothing_is_no_failure() {
    let task = "{runtime: 6ms, period: 10ms}";
    let room = Room::with(&format!("policy: g-edf\ncpus: 0-1\ntasks: [{task}, {task}, {task}]\n"));
    let json = room.takt(&["check", "w.yaml", "--json"]).json();
    assert_eq!(json["schedulable"], "unknown", "{json}");
}

#[test]
fn a_run_is_strict_too() {
    on_cpus(|| {
        let file = feature("sc-overrun.yaml");
        let room = Room::new();
        room.takt(&["run", &file, "--duration", "1s"]).expect(0);
        let done = room.takt(&["run", &file, "--duration", "1s", "--strict"]).expect(1);
        assert!(done.stdout.contains("warning: SC-2 overran its window"), "{}", done.stdout);
    });
}

/// The keys that are fixed. A task without jobs has them, too, but those about jobs are null; so are the sums where no task has jobs.
fn assert_keys(object: &Value) {
    let jobs = ["released", "completed", "met", "missed", "aborted", "behind", "handlers", "cut_off", "late_signals"];
    for task in object["tasks"].as_array().expect("a list of tasks") {
        let jobless = task["released"].is_null();
        assert!(jobs.iter().all(|key| task.get(key).is_some_and(|v| v.is_null() == jobless)), "{task}");
        let completed = task["completed"].as_u64() > Some(0);
        assert!(task.get("response_ns").is_some_and(|v| v.is_null() != completed), "{task}");
        assert!(task["activations"].is_u64() && task["overruns"].is_u64(), "{task}");
    }
    let jobless = object["tasks"].as_array().unwrap().iter().all(|task| task["released"].is_null());
    assert_eq!((object["utility"].is_null(), object["jobs"]["released"].is_null()), (jobless, jobless), "{object}");
    for (pointer, of) in [
        ("", "policy scope cpus duration_ns jobs dispatches preemptions migrations context_switches notes tasks"),
        ("/jobs", if jobless { "" } else { "released completed met missed aborted" }),
        ("/utility", if jobless { "" } else { "accrued total" }),
        ("/tasks/0", "name activations dispatches"),
        ("/tasks/0/response_ns", if object["tasks"][0]["response_ns"].is_null() { "" } else { "min mean p99 max" }),
    ] {
        let part = object.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {object}"));
        for key in of.split(' ').filter(|key| !key.is_empty()) {
            assert!(part.get(key).is_some_and(|v| !v.is_null()), "{pointer}/{key} in {object}");
        }
    }
}

#[test]
fn json_is_one_object_and_nothing_else() {
    on_cpus(|| {
        let room = Room::with(&BURN.replace("exec takt burn", "'echo told; exec takt burn'"));
        for args in [
            &["sim", "w.yaml", "--duration", "200ms", "--json"][..],
            &["run", "w.yaml", "--duration", "200ms", "--json", "--gantt", "g.svg", "--trace", "t.jsonl"],
        ] {
            attempts(5, || {
                let done = room.takt(args);
                let object = done.json();
                ensure(args[0] == "sim" || object["windows_lost"] == 0, || object.to_string())?;
                assert_keys(&object);
                assert_eq!(done.stdout.lines().count(), 1);
                assert_eq!(
                    (&object["policy"], &object["scope"], &object["cpus"]),
                    (&"windows".into(), &"table".into(), &1.into())
                );
                // It never signals, so it has activations and no jobs.
                assert_eq!((&object["duration_ns"], &object["activations"]), (&200_000_000.into(), &4.into()));
                let task = &object["tasks"][0];
                assert_eq!((&task["activations"], &task["released"]), (&4.into(), &Value::Null));
                assert_eq!((&object["jobs"]["released"], &object["jobs"]["missed"]), (&Value::Null, &Value::Null));
                if args[0] == "run" {
                    assert_eq!(done.stderr, "told\n", "a process's output gives way to the object");
                }
                Ok(())
            });
        }
        assert!(room.text("g.svg").starts_with("<svg") && room.text("t.jsonl").lines().count() > 10);
        for file in [feature("g-edf.yaml"), feature("partition-edf.yaml")] {
            let object = room.takt(&["sim", &file, "--json"]).json();
            assert_keys(&object);
            assert!(object["tasks"][0]["released"].is_u64(), "{object}");
        }
        let signals = BURN.replace("budget: 20ms", "budget: 20ms, runtime: 15ms");
        fs::write(room.path("signals.yaml"), signals).unwrap();
        let object = room.takt(&["sim", "signals.yaml", "--duration", "200ms", "--json"]).json();
        assert_keys(&object);
        assert_eq!((&object["tasks"][0]["met"], &object["tasks"][0]["cut_off"]), (&4.into(), &0.into()));
        for args in [
            &["check", "w.yaml", "--json"][..],
            &["trace", "check", "t.jsonl", "w.yaml", "--tolerance", "20ms", "--json"],
        ] {
            assert!(room.takt(args).json().is_object(), "{args:?}");
        }
        let diff = room.takt(&["trace", "diff", "t.jsonl", "t.jsonl", "--json"]).json();
        assert_eq!((&diff["beyond"], &diff["order_equal"]), (&0.into(), &true.into()));
    });
}

#[test]
fn output_goes_to_the_named_files() {
    on_cpus(|| {
        let room = Room::with(
            "windows: [{length: 20ms, cpu: 0, sc_partition: SC}]\n\
         partitions: [{name: SC, processes: [{cmd: echo into a file, output: out.txt, budget: 9ms}, {cmd: echo told, budget: 9ms}]}]\n",
        );
        fs::write(room.path("out.txt"), "before\n").unwrap();
        let done = room.takt(&["run", "w.yaml"]).expect(0);
        assert!(done.stdout.starts_with("told\n"), "{}", done.stdout);
        assert_eq!(room.text("out.txt"), "before\ninto a file\n", "appended");
        let done = room.takt(&["run", "w.yaml", "--trace", "-"]).expect(0);
        assert_eq!(done.stderr, "told\n");
        assert!(done.stdout.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{}", done.stdout);
        fs::write(room.path("t.jsonl"), &done.stdout).unwrap();
        assert!(room.trace("t.jsonl").footer.is_some());
        assert_eq!(room.text("out.txt").lines().count(), 3);
    });
}

#[test]
fn a_trace_is_the_same_in_every_format() {
    let room = Room::new();
    let file = feature("edf.yaml");
    for name in ["t.jsonl", "t.csv", "t.pftrace"] {
        room.takt(&["sim", &file, "--trace", name]).expect(0);
        assert!(fs::metadata(room.path(name)).unwrap().len() > 500);
    }
    assert_eq!(room.trace("t.jsonl"), room.trace("t.csv"));
    room.takt(&["trace", "convert", "t.csv", "u.jsonl"]).expect(0);
    assert_eq!(room.text("u.jsonl"), room.text("t.jsonl"));
    room.takt(&["trace", "convert", "t.csv", "u.pftrace"]).expect(0);
    assert_eq!(fs::read(room.path("u.pftrace")).unwrap(), fs::read(room.path("t.pftrace")).unwrap());
    room.takt(&["trace", "convert", "t.csv", "u.svg"]).expect(0);
    let shown = room.takt(&["trace", "show", "t.jsonl"]).expect(0).stdout;
    assert!(shown.contains("released 12, completed 12, met 12"), "{shown}");
}

/// A trace is copied line by line. A line that is damaged is found late, and no part of the output stays.
#[test]
fn a_damaged_trace_leaves_no_copy() {
    let room = Room::new();
    room.takt(&["sim", &feature("edf.yaml"), "--trace", "t.jsonl"]).expect(0);
    let whole = room.text("t.jsonl");
    for (name, args) in
        [("u.csv", &[][..]), ("u.jsonl", &["--from", "10ms"]), ("u.pftrace", &[]), ("u.csv", &["--jobs"])]
    {
        let copy = |text: &str, status: i32| {
            fs::write(room.path("t.jsonl"), text).unwrap();
            room.takt(&[&["trace", "convert", "t.jsonl", name], args].concat()).expect(status).stderr
        };
        copy(&whole, 0);
        // A crash can cut the last line only.
        copy(whole.strip_suffix("}\n").unwrap(), 0);
        let said = copy(&whole.replace("\"type\":\"end\"", "\"type\":\"ends\""), 2);
        assert!(said.starts_with("error[damaged-file]") && said.contains("`ends` is not a type of record"), "{said}");
        assert!(fs::metadata(room.path(name)).unwrap().len() > 100, "what was there stays: {name}");
        fs::remove_file(room.path(name)).unwrap();
        copy(&whole.replace("\"type\":\"end\"", "\"type\":\"ends\""), 2);
        assert!(!room.path(name).exists(), "{name}");
    }
    let late = ["trace", "convert", "t.jsonl", "u.csv", "--from", "1h"];
    fs::write(room.path("t.jsonl"), &whole).unwrap();
    // Another name of the file that is read.
    fs::hard_link(room.path("t.jsonl"), room.path("linked.jsonl")).unwrap();
    let linked = room.takt(&["trace", "convert", "t.jsonl", "linked.jsonl"]).expect(2).stderr;
    assert!(linked.starts_with("error[same-file]") && room.text("t.jsonl") == whole, "{linked}");
    assert!(room.takt(&late).expect(2).stderr.starts_with("error[empty-range]"));
    assert!(!room.path("u.csv").exists());
}

/// A run learns the name of a policy after the header. A copy has it in its header, also where the command is before `--from`.
#[test]
fn a_copy_has_the_names_of_policies_of_commands() {
    let room = Room::new();
    room.takt(&["sim", &feature("edf.yaml"), "--trace", "t.jsonl"]).expect(0);
    let named = room.text("t.jsonl").replacen("\"tasks\":[", "\"alternatives\":[\"loaded-1\"],\"tasks\":[", 1);
    let (head, rest) = named.split_once('\n').unwrap();
    let switch = "{\"at\":0,\"type\":\"switch\",\"to\":0}";
    let change = "{\"at\":0,\"type\":\"change\",\"uid\":0,\"pid\":7,\"command\":\"policy rm\"}";
    fs::write(room.path("t.jsonl"), format!("{head}\n{switch}\n{change}\n{rest}")).unwrap();
    room.takt(&["trace", "convert", "t.jsonl", "u.csv", "--from", "5ms"]).expect(0);
    assert_eq!(room.trace("u.csv").header.alternatives, ["rm"]);
    assert!(room.trace("u.csv").changes.is_empty());
}

#[test]
fn traces_that_differ_or_break_a_rule_are_told() {
    let room = Room::new();
    let file = feature("edf.yaml");
    room.takt(&["sim", &file, "--trace", "edf.jsonl"]).expect(0);
    room.takt(&["sim", &file, "--policy", "rm", "--trace", "rm.jsonl"]).expect(0);
    let said = room.takt(&["trace", "diff", "edf.jsonl", "rm.jsonl"]).expect(1).stdout;
    assert!(said.contains("a different order"), "{said}");
    // Instants stand below each other in one unit, however exactly they are recorded.
    let (stop, later) = (
        "\"at\":20000000,\"applied\":20000000,\"type\":\"stop\"",
        "\"at\":20000000,\"applied\":22149696,\"type\":\"stop\"",
    );
    let text = room.text("edf.jsonl");
    assert!(text.contains(stop), "{text}");
    fs::write(room.path("late.jsonl"), text.replacen(stop, later, 1)).unwrap();
    let said = room.takt(&["trace", "diff", "edf.jsonl", "late.jsonl"]).expect(1).stdout;
    let table = "task   job  event  cpus/outcome        a        b    b - a\n\
                 short    0  stop   0             20.00ms  22.15ms  2.150ms\n";
    assert!(
        said.ends_with(&format!("1 differ by more than 1ms, largest difference 2.150ms; the same order\n{table}")),
        "{said}"
    );
    room.takt(&["trace", "check", "edf.jsonl", &file, "--tolerance", "0ms"]).expect(0);
    // Another process runs while the first still does.
    let broken = room.text("edf.jsonl").replacen("\"type\":\"stop\"", "\"type\":\"block\"", 1);
    fs::write(room.path("broken.jsonl"), broken).unwrap();
    let said = room.takt(&["trace", "check", "broken.jsonl", &file]).expect(1).stdout;
    assert!(said.contains("[overlap]"), "{said}");
}

#[test]
fn the_seed_decides_what_is_drawn() {
    let room = Room::new();
    let file = feature("jitter.yaml");
    for (name, seed) in [("a.csv", "1"), ("b.csv", "1"), ("c.csv", "2")] {
        let said = room.takt(&["sim", &file, "--seed", seed, "--trace", name]).expect(0).stdout;
        assert!(said.contains(&format!("seed {seed}")), "{said}");
    }
    assert_eq!(room.text("a.csv"), room.text("b.csv"));
    assert_ne!(room.trace("a.csv").records, room.trace("c.csv").records);
}

/// A trace is held against its own file: other tasks are refused, other periods and deadlines are found.
#[test]
fn a_trace_of_another_workload_is_distinguished() {
    let file = |name: &str, period: u32, deadline: u32| {
        format!(
            "policy: edf\ntasks:\n- {{name: {name}, period: {period}ms, deadline: {deadline}ms, runtime: 2ms}}\n\
             - {{name: b, period: 20ms, spread: 5ms, runtime: 3ms}}\n\
             - {{name: c, releases: [1ms, 4ms], deadline: 50ms, runtime: 1ms}}\n"
        )
    };
    let room = Room::with(&file("a", 10, 10));
    room.takt(&["sim", "w.yaml", "--duration", "100ms", "--trace", "t.jsonl"]).expect(0);
    let check = || room.takt(&["trace", "check", "t.jsonl", "w.yaml"]);
    check().expect(0);
    for (period, deadline, said) in [
        (11, 10, "job 1 is released at 10ms, by the workload at 11ms [arrival]"),
        (10, 9, "job 0 has another deadline than in the workload [arrival]"),
    ] {
        fs::write(room.path("w.yaml"), file("a", period, deadline)).unwrap();
        let run = check().expect(1);
        assert!(run.stdout.contains(said), "{}", run.stdout);
    }
    fs::write(room.path("w.yaml"), file("z", 10, 10)).unwrap();
    let run = check().expect(2);
    assert!(run.stderr.contains("[other-record]") && run.stderr.contains("`a`, `b`, `c`"), "{}", run.stderr);
}

#[test]
fn a_swap_of_cpus_is_no_other_order() {
    let room =
        Room::with("policy: g-edf\ncpus: 0-1\ntasks: [{runtime: 4ms, period: 10ms}, {runtime: 7ms, period: 15ms}]\n");
    room.takt(&["sim", "w.yaml", "--duration", "60ms", "--trace", "a.jsonl"]).expect(0);
    let swapped =
        room.text("a.jsonl").replace("\"cpus\":\"0\"", "\"cpus\":\"-\"").replace("\"cpus\":\"1\"", "\"cpus\":\"0\"");
    fs::write(room.path("b.jsonl"), swapped.replace("\"cpus\":\"-\"", "\"cpus\":\"1\"")).unwrap();
    let diff = |more: &[&str]| room.takt(&[&["trace", "diff", "a.jsonl", "b.jsonl"], more].concat());
    let said = diff(&[]).expect(1).stdout;
    assert!(said.contains("; the same order on other CPUs\nonly the CPUs differ, and `--ignore-cpus`"), "{said}");
    let json: Value = serde_json::from_str(&diff(&["--json"]).expect(1).stdout).unwrap();
    assert_eq!((&json["order_equal"], &json["only_cpus"]), (&false.into(), &true.into()));
    let said = diff(&["--ignore-cpus"]).expect(0).stdout;
    assert!(said.ends_with(" 0 differ by more than 1ms, largest difference 0s; the same order\n"), "{said}");
}

/// Such keys were ignored silently, or in one line without their place.
#[test]
fn a_key_that_a_driver_ignores_is_reported_where_it_is() {
    let table = "late: abort\n\
                 windows: [{length: 20ms, cpu: 0, sc_partition: A}]\n\
                 partitions: [{name: A, processes: [{cmd: exec takt burn --runtime 1ms, runtime: 1ms, budget: 9ms}]}]\n";
    let load = "policy: edf\nload: 1.4\ntasks: [{period: 20ms, runtime: 2ms, cmd: exec sleep 1}]\n";
    let described = "policy: edf\ncosts: {context_switch: 1us}\n\
                     tasks: [{period: 20ms, cmd: exec takt burn --runtime 1ms, runtime: 2ms, execution: 1ms}]\n";
    let frequency = table.replace("late: abort\n", "").replace("cpu: 0,", "cpu: 0, frequency: 1400,");
    on_cpus(|| {
        for (text, driver, status, says) in [
            (table, "sim", 2, &["error[ignored-key]: `takt sim` ignores `late`", "w.yaml:1:1"][..]),
            (table, "run", 2, &["error[ignored-key]: `takt run` ignores `late`", "w.yaml:1:1"]),
            (load, "sim", 0, &[]),
            (load, "run", 2, &["error[ignored-key]: `takt run` ignores `load`", "w.yaml:2:1"]),
            (described, "run", 0, &[]),
            (&frequency, "run", 0, &["warning[ignored-key]: `takt run` ignores `frequency`", "w.yaml:1:34"]),
            (&frequency, "sim", 0, &["warning[ignored-key]: `takt sim` ignores `frequency`", "w.yaml:1:34"]),
        ] {
            let room = Room::with(text);
            let run = |more: &[&str]| room.takt(&[&[driver, "w.yaml", "--duration", "100ms"], more].concat());
            let done = run(&[]).expect(status);
            assert!(says.iter().all(|line| done.stderr.contains(line)), "{driver} {text}: {}", done.stderr);
            assert!(!says.is_empty() || done.stderr.is_empty(), "{driver} {text}: {}", done.stderr);
            if status == 2 {
                assert!(done.stderr.contains("`--allow-differences`"), "{}", done.stderr);
                let forced = run(&["--allow-differences"]).expect(0).stderr;
                assert!(forced.contains("warning[ignored-key]: ") && forced.contains(says[1]), "{forced}");
            }
        }
    });
}

#[test]
fn a_workload_comes_from_standard_input() {
    let room = Room::with("policy: edf\ncpus: 0\ntasks: [{name: a, period: 10ms, runtime: 3ms}]\n");
    let from_file = room.takt(&["sim", "w.yaml", "--json"]).expect(0).stdout;
    for (text, arguments, status, part) in [
        (room.text("w.yaml"), &["sim", "-", "--json"][..], 0, "\"completed\":1"),
        (room.text("w.yaml"), &["check", "-"], 0, "-: 1 task"),
        (
            "set_id,task_id,C_us,D_us,T_us\n0,0,1000,10000,10000\n".into(),
            &["check", "-", "--policy", "edf"],
            0,
            "schedulable",
        ),
        ("tasks: [".into(), &["check", "-"], 2, "--> -:1:8"),
        (format!("set_cwd: yes\n{}", room.text("w.yaml")), &["check", "-"], 2, "[not-supported-here]"),
    ] {
        let done = room.takt_with_input(arguments, &text).expect(status);
        assert!((done.stdout.clone() + &done.stderr).contains(part), "{arguments:?}: {}{}", done.stdout, done.stderr);
    }
    let piped = room.takt_with_input(&["sim", "-", "--json"], &room.text("w.yaml")).expect(0).stdout;
    assert_eq!(piped.replace("\"workload\":\"-\"", "\"workload\":\"w.yaml\""), from_file);
}

#[test]
fn marks_of_direction_in_names_are_replaced() {
    let room = Room::with("policy: edf\ntasks: [{name: a\u{202e}b\u{200b}, period: 10ms, runtime: 3ms}]\n");
    let done = room.takt(&["sim", "w.yaml", "--gantt", "a.svg", "--duration", "20ms"]).expect(0);
    let shown = done.stdout + &room.takt(&["check", "w.yaml"]).expect(0).stdout + &room.text("a.svg");
    assert!(shown.contains("a\u{fffd}b\u{fffd}") && !shown.contains(['\u{202e}', '\u{200b}']), "{shown}");
}

#[test]
fn a_range_after_the_end_of_a_run_is_refused() {
    let room = Room::with("policy: edf\ntasks: [{name: a, period: 10ms, runtime: 3ms}]\n");
    let late = ["sim", "w.yaml", "--duration", "100ms", "--gantt", "a.svg", "--gantt-range", "1h..2h"];
    let done = room.takt(&late).expect(2);
    assert!(done.stderr.contains("error[empty-range]: ") && done.stderr.contains("100ms"), "{}", done.stderr);
    assert!(!room.path("a.svg").exists());
}

#[test]
fn exhausted_memory_is_status_1_and_no_backtrace() {
    let room =
        Room::with("policy: g-edf\ncpus: 0-63\ntasks: [{name: a, period: 10ms, runtime: 1us, copies: 100000}]\n");
    let takt = env!("CARGO_BIN_EXE_takt");
    // Enough for the program, and not for a hundred thousand tasks.
    let command = format!("ulimit -v 90000; exec '{takt}' sim w.yaml --duration 100ms");
    let mut shell = std::process::Command::new("sh");
    let done =
        shell.args(["-c", &command]).current_dir(room.path("")).env("RUST_BACKTRACE", "1").output().expect("a shell");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("error[out-of-memory]") && !said.contains("backtrace"), "{said}");
}

#[test]
fn a_chart_on_a_full_disk_is_status_1() {
    if !std::path::Path::new("/dev/full").exists() {
        return skip(Capability::DevFull, "there is no /dev/full");
    }
    let room = Room::with("policy: edf\ntasks: [{name: a, period: 10ms, runtime: 3ms}]\n");
    std::os::unix::fs::symlink("/dev/full", room.path("full.svg")).unwrap();
    for option in ["--gantt", "--rounds"] {
        let done = room.takt(&["sim", "w.yaml", option, "full.svg"]).expect(1);
        assert!(done.stderr.contains("error[unwritable-file]: cannot write `full.svg`"), "{option}: {}", done.stderr);
    }
}

#[test]
fn standard_output_that_cannot_be_written_is_status_1() {
    if !std::path::Path::new("/dev/full").exists() {
        return skip(Capability::DevFull, "there is no /dev/full");
    }
    let room = Room::with("policy: edf\ncpus: 0\ntasks: [{name: a, period: 10ms, runtime: 3ms}]\n");
    for arguments in ["check w.yaml", "sim w.yaml", "sim w.yaml --json", "sim w.yaml --trace -", "policies"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let done = room.command(&arguments).stdout(full).stderr(std::process::Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("error[unwritable-file]: cannot write standard output"), "{arguments:?}: {stderr}");
    }
}

/// `takt … | head` ends without a message.
#[test]
fn a_closed_pipe_ends_a_command_silently() {
    let room = Room::with("policy: edf\ncpus: 0\ntasks: [{name: a, period: 10ms, runtime: 3ms}]\n");
    room.takt(&["sim", "w.yaml", "--trace", "t.jsonl"]).expect(0);
    let shown = ["check w.yaml", "sim w.yaml", "policies", "trace show t.jsonl", "trace why t.jsonl a#0"];
    for arguments in shown.into_iter().chain(["sim w.yaml --duration 10s --trace -"]) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let done = room.command(&arguments).stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
        assert_eq!(
            (done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()),
            (Some(1), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_table_of_jobs_is_what_the_trace_says() {
    let room = Room::with(
        "policy: edf\ncpus: 0\ntasks:\n\
         - {name: 'a, b', period: 10ms, runtime: 3ms}\n\
         - {name: long, period: 40ms, deadline: 20ms, runtime: 15ms}\n",
    );
    room.takt(&["sim", "w.yaml", "--duration", "45ms", "--jobs", "j.csv", "--trace", "t.jsonl"]).expect(0);
    let expected = "task,job,release_ns,deadline_ns,start_ns,finish_ns,response_ns,consumed_ns,outcome,met,cpus,preemptions,\
        running_ns,waiting_ns,blocked_ns\n\
        \"a, b\",0,0,10000000,0,3000000,3000000,3000000,completed,1,0,0,3000000,0,0\n\
        long,0,0,20000000,3000000,18000000,18000000,15000000,completed,1,0,0,15000000,3000000,0\n\
        \"a, b\",1,10000000,20000000,18000000,21000000,11000000,3000000,completed,0,0,0,3000000,8000000,0\n\
        \"a, b\",2,20000000,30000000,21000000,24000000,4000000,3000000,completed,1,0,0,3000000,1000000,0\n\
        \"a, b\",3,30000000,40000000,30000000,33000000,3000000,3000000,completed,1,0,0,3000000,0,0\n\
        \"a, b\",4,40000000,50000000,40000000,43000000,3000000,3000000,completed,1,0,0,3000000,0,0\n\
        long,1,40000000,60000000,43000000,,,,unfinished,,0,0,,,\n";
    assert_eq!(room.text("j.csv"), expected);
    room.takt(&["trace", "convert", "t.jsonl", "again.csv", "--jobs"]).expect(0);
    assert_eq!(room.text("again.csv"), expected);
}

/// A long trace opens on its first hyperperiod, in the terminal and as a picture, and both say how to see more.
#[test]
fn a_long_trace_opens_on_its_first_hyperperiod() {
    let tasks = "{name: a, period: 10ms, runtime: 3ms}, {name: b, period: 15ms, runtime: 2ms}";
    let room = Room::with(&format!("policy: edf\ncpus: 0\ntasks: [{tasks}]\n"));
    let draw = ["--gantt", "a.svg", "--trace", "t.jsonl"];
    room.takt(&[&["sim", "w.yaml", "--duration", "6s"][..], &draw].concat()).expect(0);
    let says = |option: &str| format!("the first hyperperiod, up to 30ms of 6s; `{option}` draws all");
    assert!(room.text("a.svg").contains(&says("--gantt-range 0s..6s")), "{}", room.text("a.svg"));
    room.takt(&["trace", "convert", "t.jsonl", "b.svg"]).expect(0);
    assert_eq!(room.text("b.svg"), room.text("a.svg").replace("--gantt-range 0s..6s", "--to 6s"));
    let shown = room.takt(&["trace", "show", "t.jsonl"]).expect(0).stdout;
    assert!(shown.starts_with("edf (uniprocessor), w.yaml, simulated: 0s to 30ms,"), "{shown}");
    assert!(shown.contains(&says("--to 6s")), "{shown}");
    let all = room.takt(&["trace", "show", "t.jsonl", "--to", "6s"]).expect(0).stdout;
    assert!(all.contains(": 0s to 6s,") && !all.contains("hyperperiod"), "{all}");
    // A short trace is shown as a whole.
    room.takt(&["sim", "w.yaml", "--duration", "60ms", "--trace", "s.jsonl"]).expect(0);
    assert!(room.takt(&["trace", "show", "s.jsonl"]).expect(0).stdout.contains(": 0s to 60ms,"));
}

#[test]
fn a_chart_of_a_range_is_the_same_from_a_run_and_from_its_trace() {
    let room = Room::with("policy: edf\ncpus: 0\ntasks: [{name: a, period: 10ms, runtime: 3ms}]\n");
    let range = ["--gantt", "a.svg", "--gantt-range", "20ms..50ms", "--gantt-width", "700"];
    room.takt(&[&["sim", "w.yaml", "--duration", "100ms", "--trace", "t.jsonl"][..], &range].concat()).expect(0);
    room.takt(&["trace", "convert", "t.jsonl", "b.svg", "--from", "20ms", "--to", "50ms", "--width", "700"]).expect(0);
    assert!(room.text("a.svg").contains("width=\"700\""));
    assert_eq!(room.text("a.svg"), room.text("b.svg"));
    room.takt(&["trace", "convert", "t.jsonl", "part.jsonl", "--from", "20ms", "--to", "50ms"]).expect(0);
    let instants = room.trace("part.jsonl").records.iter().map(|r| r.record.at.ns()).collect::<Vec<_>>();
    assert_eq!((instants.first(), instants.last()), (Some(&20_000_000), Some(&50_000_000)));
}

#[test]
fn a_cpu_of_a_window_that_is_not_there_is_one_of_a_window() {
    let room = Room::with(&BURN.replace("cpu: 0", "cpu: 900"));
    let done = room.takt(&["run", "w.yaml", "--mechanism", "signal", "--duration", "100ms"]).expect(3);
    assert!(done.stderr.contains("error[missing-cpu]: w.yaml: CPU 900"), "{}", done.stderr);
    assert!(done.stderr.contains("`cpu`"), "{}", done.stderr);
}
