//! Jobs that block in their middle: other tasks run meanwhile, as simulated.

use crate::common::{Room, attempts, ensure, has_cpus, mechanisms};
use crate::machine::{Capability, on_cpus, skip};
use serde_json::Value;

/// Without observation the job of `io` would keep the CPU while it sleeps, and most jobs of `cpu` would be missed.
const TASKS: &str = "policy: edf\ncpus: 0\nrealtime: yes\ntasks:\n\
    - {name: io, cmd: \"exec takt burn --steps 'sleep 20ms, run 1ms'\", init: yes, period: 50ms, runtime: 1ms, steps: [sleep 20ms, run 1ms]}\n\
    - {name: cpu, cmd: exec takt burn --runtime 32ms, init: yes, period: 60ms, runtime: 32ms}\n";

fn can_observe() -> bool {
    for (capability, lack) in
        [(Capability::RealTime, "SCHED_FIFO is refused"), (Capability::Tracepoints, "no right to observe processes")]
    {
        if !capability.is_present() {
            skip(capability, lack);
            return false;
        }
    }
    true
}

fn counts(run: &Value) -> Vec<[Option<u64>; 5]> {
    let of = |task: &Value| ["released", "completed", "met", "missed", "aborted"].map(|key| task[key].as_u64());
    run["tasks"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn other_tasks_run_while_a_job_sleeps() {
    on_cpus(|| {
        if !can_observe() || !has_cpus(2) {
            return;
        }
        let all = mechanisms();
        let others = all.first().into_iter().flat_map(|mechanism| [(*mechanism, "priority"), (*mechanism, "rank")]);
        for (mechanism, dispatch) in all.iter().map(|mechanism| (*mechanism, "freeze")).chain(others) {
            if dispatch != "freeze" && takt_linux::rt::preempt_rt() {
                continue;
            }
            let room = Room::with(&format!("dispatch: {dispatch}\n{TASKS}"));
            let sim = room.takt(&["sim", "w.yaml", "--duration", "350ms", "--json"]).json();
            attempts(5, || {
                let args = ["--mechanism", mechanism, "--record", "r.steps", "--trace", "t.jsonl", "--json"];
                let run = room.takt(&[&["run", "w.yaml", "--duration", "350ms"][..], &args].concat()).json();
                assert_eq!(run["blocking"], "tracepoints");
                ensure(counts(&run) == counts(&sim), || format!("{mechanism}, {dispatch}: {run}"))?;
                room.check("t.jsonl", "w.yaml")?;
                // Each job of `io` sleeps once. It may also wait for a page of its program.
                let trace = room.text("t.jsonl");
                let blocks = trace.lines().filter(|line| line.contains("\"block\"")).count();
                ensure((7..20).contains(&blocks), || format!("{mechanism}, {dispatch}: {blocks} blocks\n{trace}"))?;
                let replay =
                    room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--trace", "r.jsonl", "--json"]).json();
                assert_eq!(counts(&replay), counts(&run), "{mechanism}, {dispatch}");
                ensure(replay["preemptions"] == run["preemptions"], || format!("{replay}\n{run}"))
            });
        }
    });
}

/// Without the right to observe, the run says so and is as before.
#[test]
fn a_run_that_is_not_observed_says_so() {
    on_cpus(|| {
        let text = format!("dispatch: freeze\n{}", TASKS.replace("realtime: yes", "realtime: no"));
        let room = Room::with(&text);
        let run = room.takt(&["run", "w.yaml", "--duration", "200ms", "--json"]).json();
        assert!(run["blocking"].is_null(), "{run}");
    });
}
