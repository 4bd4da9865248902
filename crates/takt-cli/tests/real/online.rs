//! Online policies over real processes.

use crate::common::{Room, Running, TAKT, attempts, ensure, has_cpus, mechanisms, workloads};
use crate::machine::{Capability, calm, on_cpus, skip};
use serde_json::Value;
use serde_json::json;
use takt_core::record::RecordKind;
use takt_core::time::Span;
use takt_trace::diff;

#[test]
fn the_online_workloads_release_as_simulated() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        for name in ["edf", "rm", "g-edf", "partition-edf"] {
            let file = workloads().join(format!("features/{name}.yaml"));
            let file = file.to_str().unwrap();
            let room = Room::new();
            let sim = room.takt(&["sim", file, "--duration", "1500ms", "--json"]).json();
            attempts(5, || {
                let run = room.takt(&["run", file, "--duration", "1500ms", "--trace", "t.jsonl", "--json"]).json();
                for (a, b) in sim["tasks"].as_array().unwrap().iter().zip(run["tasks"].as_array().unwrap()) {
                    for key in ["name", "released", "completed", "met", "missed", "aborted"] {
                        ensure(a[key] == b[key], || format!("{name}: {key}, simulated {a}, run {b}"))?;
                    }
                }
                room.check("t.jsonl", file)
            });
        }
    });
}

/// Nothing in these sets happens at nearly the same time as something else, and the processes have initialised, so a real
/// machine takes the same decisions.
#[test]
fn online_policies_decide_as_simulated() {
    on_cpus(|| {
        let tasks = "tasks:\n\
                 - {name: a, cmd: exec takt burn --runtime 4ms --init 1ms, init: yes, period: 40ms, runtime: 4ms}\n\
                 - {name: b, cmd: exec takt burn --runtime 10ms --init 1ms, init: yes, period: 80ms, runtime: 10ms}\n\
                 - {name: c, cmd: exec takt burn --runtime 50ms --init 1ms, init: yes, period: 160ms, runtime: 50ms}\n";
        for policy in ["rm", "edf", "fp"] {
            let tasks = match policy {
                // Backwards, so that it differs from rate monotonic.
                "fp" => ["40ms, runtime", "80ms, runtime", "160ms, runtime"]
                    .iter()
                    .enumerate()
                    .fold(tasks.to_string(), |text, (i, at)| {
                        text.replace(at, &at.replace(", ", &format!(", priority: {}, ", i + 1)))
                    }),
                _ => tasks.to_string(),
            };
            let room = Room::with(&format!("policy: {policy}\n{tasks}"));
            room.takt(&["sim", "w.yaml", "--duration", "960ms", "--trace", "sim.jsonl"]).expect(0);
            let mut tries = 0;
            let diff = loop {
                tries += 1;
                room.takt(&["run", "w.yaml", "--duration", "960ms", "--trace", "run.jsonl", "--json"]).expect(0);
                let diff = diff::diff(&room.trace("sim.jsonl"), &room.trace("run.jsonl"), Span::from_ms(1));
                println!("{policy}: {} of {} points beyond 1 ms, largest {}", diff.beyond, diff.compared, diff.largest);
                // The real-time class keeps other load away, if it may be used; the host of a virtual machine it does not.
                if diff.order_equal || tries == 5 {
                    break diff;
                }
                calm();
            };
            if !takt_linux::rt::rt_allowed() && !diff.order_equal {
                skip(Capability::RealTime, "without a real-time class other load changes the order");
                continue;
            }
            assert!(diff.order_equal, "{policy}: {diff:?}");
            assert!(diff.compared >= 100, "{policy}: {}", diff.compared);
        }
    });
}

#[test]
fn a_process_per_job() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(
                "policy: edf\n\
             tasks:\n\
             - {name: a, cmd: 'echo $$ >> pids; exec takt burn --runtime 2ms --jobs 1', period: 100ms, runtime: 10ms, spawn: per-job}\n",
            );
            let args = ["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"];
            let (run, completed) = attempts(5, || {
                let _ = std::fs::remove_file(room.path("pids"));
                let run = room.takt(&args).json();
                let (released, completed) =
                    (run["jobs"]["released"].as_u64().unwrap(), run["jobs"]["completed"].as_u64().unwrap());
                assert_eq!(released, 10, "{mechanism}");
                ensure(completed >= 6, || format!("{mechanism}: {run}"))?;
                Ok((run, completed))
            });
            let mut pids: Vec<_> = room.text("pids").lines().map(String::from).collect();
            assert!(pids.len() as u64 >= completed && pids.len() as u64 <= completed + 1, "{mechanism}: {pids:?}");
            pids.sort();
            pids.dedup();
            assert!(pids.len() as u64 >= completed, "{mechanism}: each job is another process");
            assert_eq!(run["ends"][0]["exited"], 0, "{mechanism}");
        }
    });
}

#[test]
fn a_budget_of_cpu_time_is_enforced() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(
                "policy: edf\n\
             tasks:\n\
             - {name: good, cmd: exec takt burn --runtime 3ms --init 1ms, init: yes, period: 50ms, runtime: 4ms, budget: 6ms}\n\
             - {name: bad, cmd: exec takt burn --runtime 20ms --init 1ms, init: yes, period: 100ms, runtime: 4ms, budget: 5ms}\n",
            );
            let args = ["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--trace", "t.jsonl", "--json"];
            attempts(5, || {
                let run = room.takt(&args).json();
                let (good, bad) = (&run["tasks"][0], &run["tasks"][1]);
                let counts = |task: &Value| ["released", "met", "missed", "aborted"].map(|key| task[key].as_u64());
                ensure(counts(bad) == [10, 0, 10, 10].map(Some), || format!("{mechanism}: {run}"))?;
                ensure(counts(good) == [20, 20, 0, 0].map(Some), || format!("{mechanism}: {run}"))?;
                let trace = room.trace("t.jsonl");
                let mut over = Span::ZERO;
                for record in &trace.records {
                    if let RecordKind::Finish { task, outcome: takt_core::record::Outcome::Aborted, consumed, .. } =
                        record.record.kind
                    {
                        assert_eq!(task.0, 1);
                        over = over.max(consumed.nominal_time() - Span::from_ms(5));
                    }
                }
                println!("{mechanism}: at most {over} over a budget of 5 ms of CPU time");
                ensure(over < Span::from_ms(5), || format!("{mechanism}: {over}"))
            });
        }
    });
}

/// A job that is stopped and continued many times is still one process, and its successor is there before it is needed.
#[test]
fn a_preempted_process_per_job_starts_once_per_job() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(
                "policy: edf\n\
             tasks:\n\
             - {name: h, cmd: exec takt burn --runtime 100us, period: 1ms, runtime: 200us}\n\
             - {name: j, cmd: 'echo $$ >> pids; exec takt burn --runtime 1ms --jobs 1', period: 200ms, runtime: 10ms, spawn: per-job}\n",
            );
            let args = ["run", "w.yaml", "--duration", "2s", "--mechanism", mechanism, "--json"];
            attempts(5, || {
                let _ = std::fs::remove_file(room.path("pids"));
                let run = room.takt(&args).json();
                let [released, completed] = ["released", "completed"].map(|key| run["tasks"][1][key].as_u64().unwrap());
                let started = room.text("pids").lines().count() as u64;
                println!("{mechanism}: {released} released, {completed} completed, {started} processes");
                assert_eq!(released, 10, "{mechanism}");
                assert!(started <= released + 1, "{mechanism}: {started} processes for {released} jobs");
                ensure(completed + 1 >= released, || format!("{mechanism}: {run}"))
            });
        }
    });
}

/// Shares are CPU time as it is measured, so load from elsewhere does not change them.
#[test]
fn shares_are_kept_over_real_processes() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(
                "policy: ipi\ncpus: 0\n\
             tasks:\n\
             - {name: a, cmd: exec takt burn --runtime 100s --init 1ms, init: yes, batch: yes, share: 60%}\n\
             - {name: b, cmd: exec takt burn --runtime 100s --init 1ms, init: yes, batch: yes, share: 40%}\n",
            );
            let args = ["run", "w.yaml", "--duration", "2s", "--mechanism", mechanism, "--trace", "t.jsonl", "--json"];
            attempts(5, || {
                let _ = room.takt(&args).json();
                let (mut rounds, mut used) = (0, [Span::ZERO; 2]);
                for record in &room.trace("t.jsonl").records {
                    match record.record.kind {
                        RecordKind::Round { .. } => rounds += 1,
                        RecordKind::Burst { task, measured, .. } => used[task.index()] += measured,
                        _ => {}
                    }
                }
                println!("{mechanism}: {rounds} rounds, {} and {}", used[0], used[1]);
                // Rounds of 8 ms: 250 where nothing else wants the CPU.
                ensure(rounds >= 60, || format!("{mechanism}: {rounds} rounds"))?;
                let part = used[0].ns() * 100 / (used[0] + used[1]).ns();
                ensure((55..=65).contains(&part), || format!("{mechanism}: {part} % and not 60 %"))
            });
        }
    });
}

#[test]
fn every_policy_runs_real_processes() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        for entry in takt_core::registry::REGISTRY.iter().filter(|e| !["windows", "domains"].contains(&e.profile.name))
        {
            for scope in entry.profile.scopes {
                let spec = takt_core::model::PolicySpec::new(&entry.profile, *scope);
                let policy = format!("{}{}", spec.prefix(), entry.profile.name);
                let machine = if *scope == takt_core::model::Scope::Uniprocessor { "0" } else { "0-1" };
                let room = Room::with(&format!(
                    "policy: {policy}\ncpus: {machine}\n\
                 tasks:\n\
                 - {{name: a, cmd: exec takt burn --runtime 2ms --init 1ms, init: yes, period: 30ms, runtime: 3ms, utility: 1}}\n\
                 - {{name: b, cmd: exec takt burn --runtime 5ms --init 1ms, init: yes, period: 60ms, runtime: 6ms, utility: 1}}\n"
                ));
                attempts(5, || {
                    let run =
                        room.takt(&["run", "w.yaml", "--duration", "400ms", "--trace", "t.jsonl", "--json"]).json();
                    let completed = |t: usize| run["tasks"][t]["completed"].as_u64().unwrap();
                    println!("{policy}: {} and {} completed", completed(0), completed(1));
                    ensure(completed(0) >= 8 && completed(1) >= 4, || format!("{policy}: {run}"))?;
                    room.check("t.jsonl", "w.yaml")
                });
            }
        }
    });
}

/// Each domain keeps to its own CPU and policy, and what jobs are worth is counted as in a simulation.
#[test]
fn domains_run_real_processes() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        let room = Room::with(
            "domains:\n\
         - {name: control, cpus: 0, policy: dasa}\n\
         - {name: media, cpus: 1, policy: rr}\n\
         tasks:\n\
         - {name: a, domain: control, cmd: exec takt burn --runtime 2ms --init 1ms, init: yes, period: 30ms, runtime: 3ms, utility: 2.5}\n\
         - {name: b, domain: media, cmd: exec takt burn --runtime 5ms --init 1ms, init: yes, period: 60ms, runtime: 6ms}\n",
        );
        attempts(5, || {
            let run = room.takt(&["run", "w.yaml", "--duration", "400ms", "--trace", "t.jsonl", "--json"]).json();
            assert_eq!(
                (&run["policy"], &run["domains"][0]["policy"], &run["domains"][1]["cpus"]),
                (&json!("domains"), &json!("dasa"), &json!("1"))
            );
            let met = |t: usize| run["tasks"][t]["met"].as_u64().unwrap();
            let accrued = |t: usize| run["tasks"][t]["utility"]["accrued"].as_f64().unwrap();
            ensure(met(0) >= 8 && met(1) >= 4, || format!("{run}"))?;
            assert_eq!((accrued(0), accrued(1)), (met(0) as f64 * 2.5, met(1) as f64));
            room.check("t.jsonl", "w.yaml")
        });
    });
}

/// A load that no schedule knows of, on CPU 0.
struct Load(std::process::Child);

impl Load {
    fn start() -> Load {
        let load = Load(std::process::Command::new(TAKT).arg("burn").spawn().unwrap());
        takt_linux::rt::set_affinity(load.0.id() as i32, &takt_core::cpus::CpuSet::single(0)).unwrap();
        load
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn waits_for_a_cpu_and_overruns_are_reported() {
    on_cpus(|| {
        if takt_linux::disturbance::waited(std::process::id() as i32).is_none() {
            skip(Capability::WaitingTime, "this kernel does not count how long processes wait");
            return;
        }
        let room = Room::with(
            "policy: cbs:enforcement=hard\ncpus: 0\nrealtime: no\n\
         tasks:\n\
         - {name: fits, cmd: exec takt burn --runtime 4ms --init 1ms, init: yes, period: 20ms, runtime: 8ms}\n\
         - {name: greedy, cmd: exec takt burn --runtime 9ms, period: 30ms, runtime: 3ms}\n",
        );
        let load = Load::start();
        attempts(5, || {
            let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--json"]).json();
            let of = |task: usize, key: &str| run["tasks"][task][key].as_i64();
            assert!(run["stolen_ns"].as_i64().is_some(), "{run}");
            let notes = run["notes"].to_string();
            ensure(of(0, "waited_ns") > Some(20_000_000) && notes.contains("for a CPU in its activations"), || {
                run.to_string()
            })?;
            // A hard server never lets it finish in time.
            ensure(of(1, "most_used_ns") >= Some(9_000_000), || run.to_string())?;
            assert!(of(1, "missed") > Some(0), "{run}");
            assert!(
                notes.contains(" of greedy used ")
                    && notes.contains("of CPU time")
                    && notes.contains("its `runtime` is 3ms"),
                "{notes}"
            );
            Ok(())
        });
        drop(load);
        let room =
            Room::with("windows: [{length: 20ms, cpu: 0, sc_processes: [{cmd: exec takt burn, budget: 10ms}]}]\n");
        let run = room.takt(&["run", "w.yaml", "--duration", "100ms", "--json"]).json();
        assert!(run["tasks"][0]["most_used_ns"].is_null(), "elapsed time is no CPU time: {run}");
        // A shell that is thawed gets ready, and then waits for what it has started, here for most of 160 ms.
        let room = Room::with(
            "realtime: yes\n\
             windows: [{length: 50ms, cpu: 0, sc_processes: [{cmd: 'while :; do takt burn --runtime 50ms --jobs 1; done', budget: 20ms}]}]\n",
        );
        attempts(5, || {
            let run = room.takt(&["run", "w.yaml", "--duration", "400ms", "--json"]).json();
            ensure(run["tasks"][0]["waited_ns"].as_i64() < Some(30_000_000), || run.to_string())
        });
    });
}

/// They are started by the supervisor while the schedule runs, and the first one before it.
#[test]
fn processes_of_later_jobs_have_the_class_and_nice_value_of_the_first() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(
                "policy: edf\nrealtime: no\n\
             tasks: [{name: a, cmd: 'cut -d\" \" -f19,41 /proc/$$/stat >> classes', period: 50ms, spawn: per-job}]\n",
            );
            attempts(5, || {
                let mut command = std::process::Command::new("nice");
                command.args(["-n", "5", TAKT, "run", "w.yaml", "--duration", "600ms", "--mechanism", mechanism]);
                Running::start(command.current_dir(room.path(""))).wait().expect(0);
                let text = room.text("classes");
                assert!(text.lines().all(|line| line == "5 0"), "{mechanism}: {text}");
                ensure(text.lines().count() >= 3, || format!("{mechanism}: {text}"))
            });
        }
    });
}
