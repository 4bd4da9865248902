//! Jobs that block in their middle: other tasks run meanwhile, as simulated.

use super::security::{OTHER, as_user, public};
use crate::common::{Room, Running, attempts, ensure, has_cpus, mechanisms};
use crate::machine::{Capability, on_cpus, skip};
use serde_json::Value;
use std::fs;

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

/// Each job of `io` sleeps for 20 ms, and none of `cpu` does. The parts are those of the mean response.
fn parts_are_those_of_the_steps(run: &Value) -> Result<(), String> {
    for (index, least) in [20_000_000, 0].into_iter().enumerate() {
        let (parts, whole) = (&run["tasks"][index]["response_parts_ns"], &run["tasks"][index]["response_ns"]["mean"]);
        let part = |name: &str| parts[name].as_i64().ok_or_else(|| format!("{parts}"));
        let [running, waiting, blocked] = [part("running")?, part("waiting")?, part("blocked")?];
        let whole = whole.as_i64().ok_or("a mean")?;
        ensure((whole - running - waiting - blocked).abs() < 10, || format!("{parts} of {whole}"))?;
        // Other load may lengthen a sleep, and a page of a program may have to be read.
        ensure((least - 1_000_000..least + 3_000_000).contains(&blocked), || format!("{index}: {parts}"))?;
    }
    let said = format!("{}", run["notes"]);
    ensure(said.contains("the mean response time of io, "), || said.clone())
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
                parts_are_those_of_the_steps(&run)?;
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

/// Processes without a real-time class, of root and of a user without rights: their states are looked at.
#[test]
fn other_tasks_run_while_an_ordinary_process_sleeps() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        let text = TASKS.replace("realtime: yes", "realtime: no").replace("takt burn", "./takt burn");
        let Some(room) = public(&text) else { return };
        let sim = room.takt(&["sim", "w.yaml", "--duration", "350ms", "--json"]).json();
        let run = ["run", "w.yaml", "--duration", "350ms", "--record", "r.steps", "--json"];
        for (user, mechanism) in mechanisms().into_iter().map(|mechanism| (0, mechanism)).chain([(OTHER, "signal")]) {
            attempts(5, || {
                let args = [&run[..], &["--mechanism", mechanism]].concat();
                let run = match user {
                    0 => room.takt(&args),
                    _ => Running::start(as_user(user, "./takt").args(&args).current_dir(room.path(""))).wait(),
                };
                let run = run.json();
                assert_eq!(run["blocking"], "states", "{run}");
                ensure(counts(&run) == counts(&sim), || format!("{user}, {mechanism}: {run}\n{sim}"))?;
                let replay = room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--json"]).json();
                assert_eq!(counts(&replay), counts(&run), "{mechanism}");
                fs::remove_file(room.path("r.steps")).unwrap();
                Ok(())
            });
        }
    });
}

/// The bursts of the round that follows each wake-up of `sleeper`, in ns, by the records of a trace.
fn rounds_after_sleeps(trace: &str) -> Vec<Vec<f64>> {
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    for record in trace.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        match record["type"].as_str() {
            Some("wake") if record["task"] == "sleeper" => rounds.push(Vec::new()),
            Some("budget") => {
                let present = rounds.last_mut().filter(|round| round.len() < 2);
                present.into_iter().for_each(|round| round.push(record["amount"].as_f64().unwrap()));
            }
            _ => {}
        }
    }
    rounds
}

/// I+PI, as in figure 2.5 of the thesis (Terraneo, Politecnico di Milano): a task that sleeps for 0.3 s leaves the other one the CPU, and the round after
/// that is the one of the simulation, without its countermeasures and with both.
#[test]
fn the_round_after_a_sleep_is_the_one_of_the_simulation() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        for countermeasures in ["feedforward: no, reinit: no", "feedforward: yes, reinit: always"] {
            let room = Room::with(&format!(
                "policy: {{name: ipi, {countermeasures}}}\ncpus: 0\ntasks:\n\
                 - {{name: constant, batch: yes, share: 0.5, completion: none, cmd: exec takt burn}}\n\
                 - {{name: sleeper, period: 1s, share: 0.5, steps: [run 150ms, sleep 300ms, run 150ms], init: yes, \
                      cmd: \"exec takt burn --steps 'run 150ms, sleep 300ms, run 150ms'\"}}\n"
            ));
            room.takt(&["sim", "w.yaml", "--duration", "2s", "--trace", "s.jsonl"]).expect(0);
            let simulated = rounds_after_sleeps(&room.text("s.jsonl"));
            assert_eq!(simulated.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
            attempts(5, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "2s", "--trace", "r.jsonl", "--json"]).json();
                // Of the first 2 s the sleeper needs 600 ms.
                let used = run["tasks"][0]["cpu_ns"].as_u64();
                ensure(used > Some(1_150_000_000), || {
                    format!("{countermeasures}: the other one used {used:?} ns: {run}")
                })?;
                let rounds = rounds_after_sleeps(&room.text("r.jsonl"));
                let near = |(run, simulated): (&f64, &f64)| (run / simulated - 1.0).abs() < 0.05;
                let same = |(run, simulated): (&Vec<f64>, &Vec<f64>)| {
                    run.len() == simulated.len() && run.iter().zip(simulated).all(near)
                };
                let same = rounds.len() == simulated.len() && rounds.iter().zip(&simulated).all(same);
                ensure(same, || format!("{countermeasures}: {rounds:?}, simulated {simulated:?}"))
            });
        }
    });
}
