//! `takt sim --emit-windows`: what it writes is a workload, and does what the policy did.

use crate::common::{Room, attempts, ensure, workloads};
use crate::machine::on_cpus;
use takt_core::record::RecordKind;

/// The tasks on the CPUs, as `CPU from to task`.
fn occupancy(room: &Room, trace: &str) -> Vec<String> {
    let trace = room.trace(trace);
    let end = trace.header.duration.expect("a simulation has a length").ns();
    let mut running = vec![None; trace.header.places.len()];
    let mut stretches = Vec::new();
    let mut stop = |place: usize, begin: &mut Option<(i64, u32)>, at: i64| {
        if let Some((from, task)) = begin.take().filter(|(from, _)| *from < at) {
            let name = &trace.header.tasks[task as usize].name;
            stretches.push((trace.header.places[place].to_string(), from, at, name.clone()));
        }
    };
    for record in trace.records.iter().map(|r| r.record) {
        match record.kind {
            RecordKind::Start { task, place, .. } => running[place.index()] = Some((record.at.ns(), task.0)),
            RecordKind::Stop { place, .. } => stop(place.index(), &mut running[place.index()], record.at.ns()),
            _ => {}
        }
    }
    (0..running.len()).for_each(|place| stop(place, &mut running[place], end));
    stretches.sort();
    stretches.dedup_by(|next, last| {
        let joined = (&last.0, &last.3, last.2) == (&next.0, &next.3, next.1);
        if joined {
            last.2 = next.2;
        }
        joined
    });
    stretches.into_iter().map(|(cpu, from, to, task)| format!("{cpu} {from} {to} {task}")).collect()
}

#[test]
fn tables_do_what_the_policies_of_the_workloads_did() {
    for name in ["edf", "rm", "g-edf", "c-edf", "rr-quantum"] {
        let text = std::fs::read_to_string(workloads().join(format!("features/{name}.yaml"))).unwrap();
        let room = Room::with(&text);
        room.takt(&["sim", "w.yaml", "--emit-windows", "table.yaml", "--json"]).expect(0);
        let sim = |file, trace| room.takt(&["sim", file, "--duration", "1s", "--trace", trace, "--json"]).json();
        let (source, table) = (sim("w.yaml", "source.jsonl"), sim("table.yaml", "table.jsonl"));
        assert_eq!(table["policy"], "windows", "{name}");
        assert_eq!(table["jobs"], source["jobs"], "{name}");
        assert_eq!(occupancy(&room, "table.jsonl"), occupancy(&room, "source.jsonl"), "{name}");
    }
}

/// The name of a workload by mistake does not cost that workload.
#[test]
fn a_file_that_is_no_earlier_table_is_kept() {
    let room = Room::with("policy: edf\ncpus: 0\ntasks: [{name: a, period: 5ms, runtime: 2ms}]\n");
    let emit = |file| room.takt(&["sim", "w.yaml", "--emit-windows", file, "--json"]);
    let own = "# One hyperperiod\npolicy: edf\n";
    std::fs::write(room.path("mine.yaml"), own).unwrap();
    let refused = emit("mine.yaml").expect(2);
    assert!(refused.stderr.starts_with("error[file-exists]: `mine.yaml` exists"), "{}", refused.stderr);
    assert_eq!(room.text("mine.yaml"), own);
    emit("table.yaml").expect(0);
    let first = room.text("table.yaml");
    std::fs::write(room.path("table.yaml"), first.clone() + "# more\n").unwrap();
    emit("table.yaml").expect(0);
    assert_eq!(room.text("table.yaml"), first, "an earlier table is replaced");
}

#[test]
fn features_without_a_table_form_are_refused_by_name() {
    let refused = |text: &str, options: &[&str], wanted: &str| {
        let room = Room::with(text);
        let args = [&["sim", "w.yaml", "--emit-windows", "table.yaml"], options].concat();
        let ran = room.takt(&args).expect(2);
        assert!(ran.stderr.contains("error[not-freezable]: ") && ran.stderr.contains(wanted), "{}", ran.stderr);
    };
    let tasks = "tasks: [{name: a, period: 5ms, runtime: 2ms}, {name: b, period: 7ms, runtime: 4ms}]\n";
    refused(&format!("policy: rm\n{tasks}"), &[], "7ms");
    refused(&format!("policy: edf\ncosts: {{migration: 1us}}\n{tasks}"), &[], "`costs`");
    refused(&format!("policy: edf\nload: 50%\n{tasks}"), &[], "`load`");
    // Tasks that were scaled beforehand are as good as others.
    refused(&format!("policy: edf\n{tasks}"), &["--load", "150%"], "task `b`");
    refused("policy: edf\ntasks: [{name: a, period: 5ms, spread: 1ms, runtime: 2ms}]\n", &[], "task `a`");
    refused("windows: [{length: 5, cpu: 0, sc_processes: [{cmd: ./a, budget: 2}]}]\n", &[], "w.yaml");
}

#[test]
fn a_table_runs() {
    on_cpus(|| {
        let text = "policy: edf\ncpus: 0\ntasks:\n\
         - {name: a, period: 20ms, runtime: 5ms, cmd: exec takt burn --runtime 1ms}\n\
         - {name: b, period: 40ms, runtime: 10ms, cmd: exec takt burn --runtime 1ms}\n";
        let room = Room::with(text);
        room.takt(&["sim", "w.yaml", "--emit-windows", "table.yaml"]).expect(0);
        attempts(5, || {
            let ran = room.takt(&["run", "table.yaml", "--duration", "400ms", "--json"]).json();
            let completed = |task: usize| ran["tasks"][task]["completed"].as_u64().unwrap();
            ensure(completed(0) > 10 && completed(1) > 5, || format!("{ran}"))
        });
    });
}
