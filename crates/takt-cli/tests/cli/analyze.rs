//! `takt analyze`: the CSV that scripts read, known verdicts, the table, and bad input.

use crate::common::{Room, workloads};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Task sets with known verdicts; see the tests of takt-analysis for their source.
fn known(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../takt-analysis/tests/data").join(name);
    path.to_str().unwrap().to_string()
}

const HEADER: &str = "set_id,task_id,C_us,D_us,T_us\n";

fn csv(room: &Room, rows: &str) {
    fs::write(room.path("w.csv"), format!("{HEADER}{rows}")).unwrap();
}

#[test]
fn the_simulated_column_is_the_known_one() {
    let room = Room::new();
    for of in ["3.0", "3.6"] {
        let done = room.takt(&["analyze", &known(&format!("airs_W{of}.csv")), "--cpus", "4", "--test", "gedf_sim,gfb"]);
        let verdicts = fs::read_to_string(known(&format!("airs_W{of}_verdicts.csv"))).unwrap();
        let wanted: Vec<String> = verdicts
            .lines()
            .map(|line| {
                let cells: Vec<&str> = line.split(',').collect();
                format!("{},{},{}", cells[0], cells[15], cells[1])
            })
            .collect();
        assert_eq!(done.expect(0).stdout.lines().collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn the_output_is_a_row_per_set() {
    let room = Room::new();
    let done = room.takt(&["analyze", &known("sweep_n10.csv"), "--test", "edf,ff"]).expect(0);
    let verdicts = fs::read_to_string(known("sweep_n10.verdicts")).unwrap();
    let mut wanted = String::from("set_id,edf,ff\n");
    verdicts.lines().enumerate().for_each(|(set, v)| writeln!(wanted, "{set},{v},{v}").unwrap());
    assert_eq!(done.stdout, wanted);
    // Sets keep their numbers and their order; extra columns do not matter.
    let rows = "set_id,task_id,U,C_us,D_us,T_us\n7,0,0.5,5,10,10\n3,0,0.6,6,10,10\n7,1,0.5,5,10,10\n3,1,0.5,5,10,10\n";
    fs::write(room.path("w.csv"), rows).unwrap();
    let done = room.takt(&["analyze", "w.csv", "--test", "edf, hyperbolic", "--sensitivity"]).expect(0);
    assert_eq!(done.stdout, "set_id,edf,hyperbolic,edf_growth\n7,1,0,1.000000\n3,0,0,0.909090\n");
}

#[test]
fn one_infeasible_set_of_many_decides_the_status() {
    let room = Room::new();
    csv(&room, "0,0,5,4,10\n1,0,1,4,10\n2,0,12,12,10\n3,0,5,4,4\n");
    let done = room.takt(&["analyze", "w.csv", "--sensitivity", "--test", "all"]).expect(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines[0], "set_id,necessary,edf,ll,hyperbolic,rm-rta,dm-rta,edf_growth,rm-rta_growth,dm-rta_growth");
    // The bounds of `ll` and `hyperbolic` are not for deadlines before the ends of the periods.
    assert!(lines[1].starts_with("0,0,0,unknown,unknown,0,0,0.8"), "{}", lines[1]);
    assert!(lines[2].starts_with("1,unknown,1,unknown,unknown,1,1,4.0"), "{}", lines[2]);
    assert!(lines[4].starts_with("3,0,0,0,0,0,0,0.8"), "{}", lines[4]);
    let of = ["analyze", "w.csv", "--cpus", "2", "--duration", "100ms", "--test"];
    let tests = "necessary,gfb,bcl,bak,gedf-rta,grm-rta,gdm-rta,ff,wf,bf,ffd,wfd,bfd,wm_ff,wm_wf,wm_ffd,ceqd_ff,ceqd_ffd,gedf_sim";
    let done = room.takt(&[&of[..], &[tests]].concat()).expect(0);
    let first = done.stdout.lines().nth(1).unwrap();
    assert_eq!(first, format!("0{}", ",0".repeat(tests.split(',').count())));
}

#[test]
fn one_set_that_misses_is_a_no() {
    let room = Room::new();
    csv(&room, "0,a,6,10,10\n0,b,6,10,10\n");
    assert_eq!(room.takt(&["analyze", "w.csv", "--test", "edf"]).expect(1).stdout, "set_id,edf\n0,0\n");
    // On two CPUs there is nothing to object to, and a sufficient test that fails objects to nothing.
    room.takt(&["analyze", "w.csv", "--test", "ff", "--cpus", "2"]).expect(0);
    csv(&room, "0,a,1,2,2\n0,b,1,2,2\n0,c,501,1000,1000\n");
    assert_eq!(room.takt(&["analyze", "w.csv", "--test", "gfb", "--cpus", "2"]).expect(0).stdout, "set_id,gfb\n0,0\n");
    // Rate-monotonic priorities miss, EDF does not.
    csv(&room, "0,a,10,20,20\n0,b,20,50,50\n0,c,7,70,70\n");
    room.takt(&["analyze", "w.csv", "--test", "rm-rta"]).expect(1);
    room.takt(&["analyze", "w.csv", "--test", "rm-rta,edf"]).expect(0);
    room.takt(&["analyze", "w.csv", "--test", "sim:rm", "--duration", "10ms"]).expect(1);
}

#[test]
fn a_test_of_one_cpu_says_nothing_about_two() {
    let room = Room::new();
    csv(&room, "0,a,6,10,10\n0,b,6,10,10\n");
    let of = ["analyze", "w.csv", "--cpus", "2", "--sensitivity", "--test", "edf,ll,hyperbolic,rm-rta,dm-rta,ff"];
    let done = room.takt(&of).expect(0);
    let row = done.stdout.lines().nth(1).unwrap();
    assert_eq!(row, "0,unknown,unknown,unknown,unknown,unknown,1,unknown,unknown,unknown");
    assert!(
        done.stderr.contains("note: edf applies to none of the task sets: the test is about one CPU"),
        "{}",
        done.stderr
    );
    let said = room.takt(&[&of[..], &["--table"]].concat()).expect(0).stdout;
    assert!(said.contains("the test is about one CPU") && !said.contains("multiplied"), "{said}");
    // Where nothing else is asked there is nothing to report.
    for (test, why) in [("edf", "the test is about one CPU"), ("sim:edf", "one CPU"), ("sim:windows", "")] {
        let done = room.takt(&["analyze", "w.csv", "--cpus", "2", "--test", test]).expect(2);
        assert!(done.stdout.is_empty() && done.stderr.contains("error[not-applicable]: "), "{}", done.stderr);
        assert!(done.stderr.contains(why), "{}", done.stderr);
    }
    room.takt(&["analyze", "w.csv", "--cpus", "2", "--test", "sim:p-edf", "--duration", "100ms"]).expect(0);
}

#[test]
fn inexact_growth_has_bounds_or_reasons() {
    let room = Room::new();
    // Coprime periods and one early deadline: the demand comes closest to the time there is after hours of hours.
    csv(&room, "0,a,300000,999983,999983\n0,b,300000,999979,999979\n0,c,290000,900000,999961\n");
    let of = ["analyze", "w.csv", "--sensitivity", "--test", "edf,rm-rta"];
    let said = room.takt(&of).expect(0).stdout;
    assert!(said.lines().nth(1).unwrap().starts_with("0,1,1,>=1.1235"), "{said}");
    let said = room.takt(&[&of[..], &["--table"]].concat()).expect(0).stdout;
    assert!(
        said.contains("edf: every runtime may be multiplied by 1.1235") && said.contains(" at most; the search"),
        "{said}"
    );
    let json = room.takt(&[&of[..], &["--json"]].concat()).json();
    let test = &json["sets"][0]["tests"][0];
    assert!(test["growth"].is_null() && test["growth_at_least"].as_str() < test["growth_at_most"].as_str(), "{json}");
    // A reason, where there is not even a bound.
    csv(&room, "0,a,1,12,10\n");
    let said = room.takt(&[&of[..], &["--table"]].concat()).expect(0).stdout;
    assert!(said.contains("rm-rta: how far runtimes may grow is not known: a deadline is beyond the period"), "{said}");
    let done = room.takt(&["analyze", "w.csv", "--sensitivity", "--test", "ll"]).expect(0);
    assert!(done.stderr.contains("only edf, rm-rta and dm-rta"), "{}", done.stderr);
}

#[test]
fn tardiness_bounds_are_in_every_form() {
    let room = Room::new();
    csv(&room, "0,a,2,3,3\n0,b,2,3,3\n0,c,2,3,3\n1,a,2,2,3\n");
    let of = ["analyze", "w.csv", "--cpus", "2", "--test", "gfb"];
    let said = room.takt(&[&of[..], &["--tardiness"]].concat()).expect(0).stdout;
    assert_eq!(said, "set_id,gfb,gedf_tardiness_ns\n0,0,2000\n1,1,unknown\n");
    let json = room.takt(&[&of[..], &["--json"]].concat()).json();
    assert_eq!(json["sets"][0]["gedf_tardiness_ns"], 2000, "{json}");
    assert!(json["sets"][1]["gedf_tardiness_ns"].is_null(), "{json}");
    let task = "{runtime: 2ms, period: 3ms}";
    let three = format!("tasks: [{task}, {task}, {task}]\n");
    let room = Room::with(&format!("policy: g-edf\ncpus: 0-1\n{three}"));
    let said = room.takt(&["check", "w.yaml"]).expect(0).stdout;
    assert!(said.contains("no job is later than 2ms"), "{said}");
    assert_eq!(room.takt(&["check", "w.yaml", "--json"]).json()["gedf_tardiness_ns"], 2_000_000);
    // The bound loses the part that it does not count.
    let room = Room::with(&format!("policy: g-edf\ncpus: 0-1\ncosts: {{context_switch: 10us}}\n{three}"));
    assert!(!room.takt(&["check", "w.yaml"]).expect(0).stdout.contains("later than"));
}

#[test]
fn the_pieces_of_split_tasks_are_shown() {
    let task = "runtime: 6ms, period: 10ms";
    let file = |policy: &str| {
        format!("policy: {policy}\ncpus: 0-1\ntasks: [{{name: a, {task}}}, {{name: b, {task}}}, {{name: c, {task}}}]\n")
    };
    // EDF-WM has windows of equal length, C=D a piece as long as its window; the rest comes after it.
    for (policy, first, last) in
        [("edf-wm", (4, 0, 5), (2, 5, 10)), ("edf-cd", (4, 0, 4), (2, 4, 10)), ("edf-wmr", (4, 0, 5), (2, 5, 10))]
    {
        let room = Room::with(&file(policy));
        let json = room.takt(&["check", "w.yaml", "--json"]).json();
        let pieces = &json["assignment"][2]["pieces"];
        for (index, (budget, from, to)) in [first, last].into_iter().enumerate() {
            let piece = &pieces[index];
            assert_eq!(piece["cpu"], index, "{json}");
            assert_eq!(piece["budget_ns"], budget * 1_000_000, "{json}");
            assert_eq!(
                (piece["from_ns"].as_i64(), piece["to_ns"].as_i64()),
                (Some(from * 1_000_000), Some(to * 1_000_000)),
                "{json}"
            );
        }
        let said = room.takt(&["check", "w.yaml"]).expect(0).stdout;
        assert!(said.lines().any(|l| l.starts_with("c ") && l.ends_with("40.00 %")), "{said}");
    }
    // Beside another domain, tasks and CPUs keep their names.
    let domains = format!(
        "domains:\n  - {{name: A, cpus: 0, policy: edf}}\n  - {{name: C, cpus: 1-2, policy: edf-wm}}\ntasks:\n  - {{name: x, domain: A, {task}}}\n{}",
        ["a", "b", "c"].map(|name| format!("  - {{name: {name}, domain: C, {task}}}\n")).concat()
    );
    let json = Room::with(&domains).takt(&["check", "w.yaml", "--json"]).json();
    let of_c = json["assignment"].as_array().unwrap().iter().find(|t| t["task"] == "c").unwrap();
    assert_eq!((&of_c["pieces"][0]["cpu"], &of_c["pieces"][1]["cpu"]), (&1.into(), &2.into()), "{json}");
    // Whole tasks have their CPU on request, and a policy that gives them none says so.
    let room = Room::with(&file("p-edf").replace("6ms", "3ms"));
    assert!(!room.takt(&["check", "w.yaml"]).expect(0).stdout.contains("of the CPU"));
    assert!(room.takt(&["check", "w.yaml", "--assignment"]).expect(0).stdout.contains("30.00 %"));
    let room = Room::with(&file("g-edf").replace("6ms", "3ms"));
    assert!(room.takt(&["check", "w.yaml", "--assignment"]).expect(0).stdout.contains("no task a CPU of its own"));
    let table = workloads().join("demos-example.yaml");
    let said = room.takt(&["check", table.to_str().unwrap(), "--assignment"]).expect(0).stdout;
    assert!(said.starts_with("note: under a window table"), "{said}");
    // The tests by name, from the same set.
    let room = Room::new();
    csv(&room, "0,a,6,10,10\n0,b,6,10,10\n0,c,6,10,10\n");
    let of = ["analyze", "w.csv", "--cpus", "2", "--test", "wm_ff,ff"];
    let json = room.takt(&[&of[..], &["--json"]].concat()).json();
    let tests = &json["sets"][0]["tests"];
    assert_eq!(tests[0]["assignment"][2]["pieces"][1]["budget_ns"], 2_000, "{json}");
    assert!(tests[1]["assignment"].is_null(), "{json}");
    let said = room.takt(&[&of[..], &["--table"]].concat()).expect(0).stdout;
    assert!(said.contains("assignment by wm_ff:") && !said.contains("by ff:"), "{said}");
    let done = room.takt(&[&of[..], &["--assignment"]].concat()).expect(2);
    assert!(done.stderr.contains("[conflicting-options]"), "{}", done.stderr);
}

/// A task set in CSV states no priorities: `analyze`, `check` and `sim` give it those of `--priorities`, and say so.
#[test]
fn a_task_set_has_priorities() {
    let room = Room::new();
    // By release `b` is late behind `a`; by period or deadline it is in time.
    csv(&room, "0,a,8,40,40\n0,b,4,10,10\n");
    let of = ["analyze", "w.csv", "--duration", "100ms", "--test", "sim:fp,sim:rm,sim:fifo"];
    let done = room.takt(&of).expect(0);
    assert_eq!(done.stdout, "set_id,sim:fp,sim:rm,sim:fifo\n0,1,1,0\n");
    let note = "note: sim:fp has priorities assigned by `--priorities rm`";
    assert!(done.stderr.contains(note), "{}", done.stderr);
    assert!(room.takt(&[&of[..], &["--table"]].concat()).expect(0).stdout.contains(note));
    let json = room.takt(&[&of[..], &["--json"]].concat()).json();
    let tests = &json["sets"][0]["tests"];
    assert_eq!(tests[0]["priorities"]["rule"], "rm", "{json}");
    assert!(tests[1]["priorities"].is_null() && json["notes"].as_array().unwrap().len() == 1, "{json}");
    let met = |args: &[&str]| {
        let json = room.takt(&[&["sim", "w.csv", "--duration", "400us", "--json"], args].concat()).json();
        (json["jobs"]["missed"].as_u64().unwrap(), json["priorities"].clone())
    };
    assert_eq!(met(&["--policy", "fp"]), (0, serde_json::json!({"rule": "rm", "fallback": false})));
    assert_eq!(met(&["--policy", "rm"]), (0, serde_json::Value::Null));
    assert!(met(&["--policy", "fifo"]).0 > 0);
    let said =
        room.takt(&["sim", "w.csv", "--duration", "400us", "--policy", "fp", "--priorities", "dm"]).expect(0).stdout;
    assert!(said.contains("note: the file states no priorities; they were assigned by `--priorities dm`"), "{said}");
    let said = room.takt(&["check", "w.csv", "--policy", "fp", "--priorities", "opa"]).expect(0).stdout;
    assert!(said.contains("assigned by `--priorities opa`") && said.contains("schedulable (exact"), "{said}");
    // Both orders are drawn by some seed.
    let random = |seed: &str| {
        let drawn = ["--policy", "fp", "--priorities", "random", "--seed", seed];
        let missed = met(&drawn).0;
        assert_eq!(met(&drawn).0, missed);
        let of =
            ["analyze", "w.csv", "--duration", "400us", "--test", "sim:fp", "--priorities", "random", "--seed", seed];
        assert_eq!(room.takt(&of).stdout.ends_with("0,1\n"), missed == 0, "analyze and sim draw the same");
        missed
    };
    let drawn = ["1", "2", "3", "4", "5", "6", "7", "8"].map(random);
    assert!(drawn.contains(&0) && drawn.iter().any(|missed| *missed > 0), "{drawn:?}");
    // Without an order that passes, priorities are by deadlines.
    csv(&room, "0,a,6,11,11\n0,b,6,10,10\n0,c,6,12,12\n");
    let json =
        room.takt(&["check", "w.csv", "--policy", "g-fp", "--cpus", "2", "--priorities", "opa", "--json"]).json();
    assert_eq!(json["priorities"], serde_json::json!({"rule": "opa", "fallback": true}));
    let canonical = ["check", "w.csv", "--policy", "g-fp", "--cpus", "2", "--priorities", "opa", "--canonical"];
    let yaml = room.takt(&canonical).expect(0).stdout;
    let given: Vec<&str> = yaml.lines().filter(|line| line.contains("priority:")).map(str::trim).collect();
    assert_eq!(given, ["priority: 2", "priority: 3", "priority: 1"], "{yaml}");
    // A workload states its own.
    let room = Room::with("policy: fp\ntasks: [{runtime: 1ms, period: 10ms}]\n");
    for of in ["sim", "check", "analyze"] {
        let done = room.takt(&[of, "w.yaml", "--priorities", "rm"]).expect(2);
        assert!(done.stdout.is_empty() && done.stderr.contains("[not-supported-here]"), "{}", done.stderr);
    }
}

#[test]
fn a_necessary_test_counts_what_it_does_not_refuse() {
    let room = Room::new();
    let of = ["sweep", "schedulability", "--test", "necessary,ff", "--sets", "20", "--points", "3.0"];
    let done = room.takt(&of).expect(0);
    assert_eq!(done.stdout, "utilisation,sets,necessary,ff\n3.0,20,1.0000,1.0000\n");
    assert!(!done.stderr.contains("unknown"), "{}", done.stderr);
    let json = room.takt(&[&of[..], &["--json"]].concat()).json();
    assert_eq!(json["points"][0]["tests"][0]["counts"], "not refused", "{json}");
    assert_eq!(json["points"][0]["tests"][1]["counts"], "accepted", "{json}");
}

#[test]
fn a_workload_gives_a_table() {
    let room = Room::new();
    let file = workloads().join("features/edf.yaml");
    let said = room.takt(&["analyze", file.to_str().unwrap(), "--sensitivity"]).expect(0).stdout;
    for part in ["test        verdict", "edf         yes        exact", "(35/33)", "rm-rta      no         exact"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let json = room.takt(&["analyze", file.to_str().unwrap(), "--test", "edf,rm-rta", "--json"]).json();
    assert_eq!(json["sets"][0]["tests"][0]["schedulable"], true, "{json}");
    assert_eq!(json["sets"][0]["tests"][1]["says"], "no", "{json}");
    // Properties that no test takes into account are reported and not ignored.
    let room = Room::with("policy: edf\ntasks: [{runtime: 1ms, period: 10ms, budget: 500us}]\n");
    let said = room.takt(&["analyze", "w.yaml", "--test", "edf"]).expect(0).stdout;
    assert!(said.contains("unknown") && said.contains("budget"), "{said}");
}

#[test]
fn offsets_make_an_exact_test_sufficient() {
    let task = "runtime: 5ms, period: 10ms, deadline: 6ms";
    let room = Room::with(&format!("policy: edf\ntasks: [{{{task}}}, {{{task}, offset: 5ms}}]\n"));
    let said = room.takt(&["analyze", "w.yaml", "--test", "edf,sim:edf"]).expect(0).stdout;
    assert!(said.contains("not shown  sufficient") && said.contains("no miss"), "{said}");
    // The real demand of jobs counts, and where they may need less nothing is shown to miss.
    let room = Room::with("policy: edf\ntasks: [{runtime: 1ms, execution: {least: 1ms, most: 11ms}, period: 10ms}]\n");
    let said = room.takt(&["analyze", "w.yaml", "--test", "edf,necessary"]).expect(0).stdout;
    assert!(said.contains("not shown  sufficient") && said.contains("unknown"), "{said}");
}

#[test]
fn bad_input_is_reported_with_its_place() {
    let room = Room::new();
    for (rows, says) in [
        ("", "[nothing-to-schedule]"),
        ("0,0,1,10,0\n", "w.csv:2:10"),
        ("0,0,0,10,10\n", "w.csv:2:5"),
        ("0,0,1,-10,10\n", "w.csv:2:7"),
        ("0,0,1,10,99999999999999999999\n", "w.csv:2:10"),
        ("0,0,1,10,31622400000001\n", "[out-of-range]"),
        ("0,0,1,10,10\n0,1,3,2,9\n", "w.csv:3:7"),
        ("0,0,1,10\n", "[syntax-error]"),
        ("0,0,1,10,10\n0,0,1,10,10\n", "[duplicate-name]"),
    ] {
        csv(&room, rows);
        let done = room.takt(&["analyze", "w.csv", "--test", "edf"]).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{rows}: {}", done.stderr);
    }
    csv(&room, "0,0,1,10,10\n");
    for (args, says) in [
        (&["--test", "efd"][..], "[unknown-name]"),
        (&["--test", "sim:efd"], "[unknown-policy]"),
        (&["--test", ""], "[empty-value]"),
        (&["--cpus", "0"], "--cpus"),
    ] {
        let done = room.takt(&[&["analyze", "w.csv"], args].concat()).expect(2);
        assert!(done.stderr.contains(says) && done.stdout.is_empty(), "{args:?}: {}", done.stderr);
    }
    let done = room.takt(&["analyze", "nothing.csv"]).expect(2);
    assert!(done.stderr.contains("[unreadable-file]") && done.stderr.contains("nothing.csv"), "{}", done.stderr);
    fs::write(room.path("table.yaml"), "windows: [{length: 10ms}]\n").unwrap();
    let done = room.takt(&["analyze", "table.yaml"]).expect(2);
    assert!(done.stderr.contains("[not-applicable]"), "{}", done.stderr);
    csv(&room, "0,0,1,10,10\n1,0,1,10,10\n");
    room.takt(&["analyze", "w.csv", "--table"]).expect(2);
}

#[test]
fn absurd_sizes_get_right_answers() {
    let room = Room::new();
    let verdict = |rows: &str, tests: &str, cpus: &str| {
        csv(&room, rows);
        let done = room.takt(&["analyze", "w.csv", "--test", tests, "--cpus", cpus]);
        done.stdout.lines().nth(1).unwrap_or_default().to_string()
    };
    let all = "edf,rm-rta,dm-rta,ll,hyperbolic,gfb,bcl,bak,ff,wm_ff,ceqd_ff";
    let huge = "0,a,1000000000000,2000000000000,2000000000000\n0,b,500000000000,1000000000000,1000000000000\n";
    assert_eq!(verdict(huge, all, "1"), "0,1,1,1,0,0,1,0,1,1,1,1");
    // More than there is, by one part in 10^12, beside tiny periods.
    let over = "0,a,1000000000001,2000000000000,2000000000000\n0,b,1,2,2\n";
    assert_eq!(verdict(over, "edf,rm-rta,gfb,ff", "1"), "0,0,0,0,0");
    let many: String = (0..10_000).map(|i| format!("0,{i},9,{0},{0}\n", 100_000 + i)).collect();
    assert_eq!(verdict(&many, "edf,gfb,bcl,ff,wf,ll,hyperbolic", "1"), "0,1,1,0,1,1,0,0");
    let many: String = (0..10_000).map(|i| format!("0,{i},9,{0},{0}\n", 80_000 + i)).collect();
    assert_eq!(verdict(&many, "edf,gfb,ff", "1"), "0,0,0,0");
}

/// The policy does not schedule these tasks, so no verdict about it holds, and no simulation has them.
#[test]
fn tasks_of_the_kernels_classes_are_refused() {
    let room = Room::new();
    let text = "policy: edf\ncpus: 0\ntasks:\n\
                - {name: a, period: 10ms, runtime: 2ms}\n\
                - {name: b, class: other, period: 20ms, runtime: 2ms}\n";
    fs::write(room.path("w.yaml"), text).unwrap();
    let sweep = ["sweep", "copies", "w.yaml", "--copies", "a=1..2", "--policies", "edf"];
    for (args, instead) in [(&["analyze", "w.yaml"][..], "takt check"), (&sweep[..], "takt run")] {
        let refused = room.takt(args);
        assert_eq!((refused.code(), &*refused.stdout), (2, ""), "{}", refused.stderr);
        let said = &refused.stderr;
        assert!(said.contains("error[not-applicable]") && said.contains("w.yaml:5") && said.contains("`b`"), "{said}");
        assert!(said.contains(instead) && !said.contains("takt sim"), "{said}");
    }
    fs::write(room.path("w.yaml"), text.replace("class: other, ", "")).unwrap();
    for args in [&["analyze", "w.yaml"][..], &sweep[..]] {
        room.takt(args).expect(0);
    }
}
