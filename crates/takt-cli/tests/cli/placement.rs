//! Placement of tasks on CPUs: by the exact test of each CPU, reported where no CPU accepts a task, and by the rule of `--placement`.

use crate::common::Room;
use crate::machine::on_cpus;
use serde_json::{Value, json};
use std::fs;

const TIGHT: &str = "period: 100ms, deadline: 10ms, runtime: 8ms";

fn tight(policy: &str, tasks: &[&str]) -> String {
    let tasks: Vec<String> = tasks.iter().map(|name| format!("{{name: {name}, {TIGHT}}}")).collect();
    format!("policy: {policy}\ncpus: 0-1\ntasks: [{}]\n", tasks.join(", "))
}

#[test]
fn two_short_deadlines_get_a_cpu_each() {
    for policy in ["p-edf", "p-rm", "p-dm", "p-fp"] {
        let room = Room::with(&tight(policy, &["a", "b"]));
        let jobs = &room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json()["jobs"];
        assert_eq!((&jobs["met"], &jobs["missed"]), (&20.into(), &0.into()), "{policy}");
        let check = room.takt(&["check", "w.yaml", "--json"]).expect(0).json();
        assert_eq!(check["schedulable"], true, "{check}");
        assert!(check.get("not_accepted").is_none(), "{check}");
    }
}

#[test]
fn a_task_that_no_cpu_accepts_is_reported() {
    for policy in ["p-edf", "p-dm"] {
        let room = Room::with(&tight(policy, &["a", "b", "c"]));
        let warning = "warning: no CPU accepts this task, so it is on the least utilised one: c (CPU 0)\n";
        let wanted = json!([{"task": "c", "cpu": 0, "inconclusive": false}]);
        assert!(room.takt(&["check", "w.yaml"]).expect(1).stdout.contains(warning), "{policy}");
        let check = room.takt(&["check", "w.yaml", "--json"]).expect(1);
        let check: Value = serde_json::from_str(&check.stdout).unwrap();
        assert_eq!((&check["not_accepted"], &check["assignment"][2]["fits"]), (&wanted, &false.into()), "{check}");
        let said = room.takt(&["sim", "w.yaml", "--duration", "1s"]).expect(0).stdout;
        assert!(said.contains(warning), "{said}");
        let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
        assert_eq!((&sim["not_accepted"], &sim["jobs"]["missed"]), (&wanted, &10.into()), "{sim}");
    }
    // By utilisation where there is no exact test.
    let task = |name: &str| format!("{{name: {name}, period: 10ms, runtime: 6ms}}");
    let tasks = ["a", "b", "c", "d"].map(task).join(", ");
    let room = Room::with(&format!("policy: p-fifo\ncpus: 0-1\ntasks: [{tasks}]\n"));
    let said = room.takt(&["check", "w.yaml"]);
    let warning = "warning: no CPU accepts these tasks, so each is on the least utilised one: c (CPU 0), d (CPU 1)\n";
    assert!(said.stdout.contains(warning), "{}", said.stdout);
}

#[test]
fn a_run_reports_it_too() {
    on_cpus(|| {
        let task = |name: &str| format!("{{name: {name}, {TIGHT}, cmd: sleep 9}}");
        let room = Room::with(&format!("policy: p-edf\ncpus: 0\ntasks: [{}, {}]\n", task("a"), task("b")));
        let run = ["run", "w.yaml", "--duration", "100ms", "--mechanism", "signal"];
        let told = room.takt(&[&run[..], &["--json"]].concat()).expect(0).json();
        assert_eq!(told["not_accepted"], json!([{"task": "b", "cpu": 0, "inconclusive": false}]), "{told}");
        assert!(room.takt(&run).expect(0).stdout.contains("b (CPU 0)\n"));
    });
}

#[test]
fn simulated_policies_place_by_the_rule_that_is_named() {
    let room = Room::new();
    let head = "set_id,task_id,C_us,D_us,T_us\n";
    // First fit leaves no room for the last two of the first set, worst fit does; the other way round in the second.
    let first = "0,a,2,10,10\n0,b,2,10,10\n0,c,8,10,10\n0,d,8,10,10\n";
    let second = "1,a,3,10,10\n1,b,3,10,10\n1,c,4,10,10\n1,d,10,10,10\n";
    fs::write(room.path("w.csv"), format!("{head}{first}{second}")).unwrap();
    for (rule, wanted) in [("ff", ["0", "1"]), ("wf", ["1", "0"]), ("ffd", ["1", "1"])] {
        let tests = format!("{rule},sim:p-edf");
        let of = ["analyze", "w.csv", "--cpus", "2", "--duration", "1ms", "--placement", rule, "--test", &tests];
        let said = room.takt(&of).expect(0).stdout;
        let [one, two] = wanted;
        assert_eq!(said, format!("set_id,{tests}\n0,{one},{one}\n1,{two},{two}\n"));
    }
    // Without a policy that places tasks it is a mistake.
    for of in [&["analyze", "w.csv", "--test", "ff,sim:g-edf"][..], &["sweep", "schedulability", "--sets", "1"]] {
        let done = room.takt(&[of, &["--placement", "ff"]].concat()).expect(2);
        assert!(done.stderr.contains("[no-effect]") && done.stdout.is_empty(), "{}", done.stderr);
    }
    let sweep = ["sweep", "schedulability", "--sets", "1", "--points", "2", "--duration", "1ms", "--json", "--test"];
    let setup = |more: &[&str]| room.takt(&[&sweep[..], more].concat()).json()["setup"]["placement"].clone();
    assert_eq!(setup(&["sim:p-edf", "--placement", "wfd"]), "wfd");
    assert_eq!((setup(&["sim:p-edf"]), setup(&["sim:g-edf"])), ("ffd".into(), json!(null)));
}

#[test]
fn more_utilisation_is_never_easier_to_place() {
    let room = Room::new();
    let sweep = ["sweep", "schedulability", "--points", "1.6..4.0:0.2", "--sets", "300", "--duration", "500ms"];
    for kind in [&["--deadlines", "implicit"][..], &["--deadlines", "constrained"]] {
        let said = room.takt(&[&sweep[..], kind, &["--test", "sim:p-rm,sim:p-edf,ffd"]].concat()).expect(0).stdout;
        let row = |line: &str| line.split(',').skip(2).map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>();
        let rows: Vec<Vec<f64>> = said.lines().skip(1).map(row).collect();
        assert_eq!(rows.len(), 13, "{said}");
        for pair in rows.windows(2) {
            for (before, after) in pair[0].iter().zip(&pair[1]) {
                // Three standard deviations of the difference.
                let variance = |p: f64| p * (1.0 - p) / 300.0;
                assert!(after - before <= 3.0 * (variance(*before) + variance(*after)).sqrt(), "{said}");
            }
        }
        // Each of them succeeds at first and fails at last, and the simulation misses nothing that the test accepts.
        assert!(rows[0].iter().all(|p| *p == 1.0) && rows[12].iter().all(|p| *p == 0.0), "{said}");
        assert!(rows.iter().all(|row| row[1] >= row[2]), "{said}");
    }
}
