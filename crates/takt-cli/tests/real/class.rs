//! Tasks of the kernel's classes (`class`) beside Takt's own.

use super::replay::{count, replayed};
use crate::common::{Room, attempts, ensure, has_cpus, mechanisms, pause, until};
use crate::machine::{Capability, on_cpus, skip};
use serde_json::Value;
use takt_core::record::{Outcome, RecordKind};

fn has_real_time() -> bool {
    let has = takt_linux::rt::rt_allowed() && !takt_linux::rt::preempt_rt();
    if !has {
        skip(Capability::RealTime, "real-time classes of tasks need the right to use them");
    }
    has
}

/// A task of `takt burn`, with these keys.
fn task(name: &str, burns: &str, keys: &str) -> String {
    format!("- {{name: {name}, init: yes, cmd: exec takt burn --runtime {burns} --init 1ms, {keys}}}\n")
}

fn of(run: &Value, task: usize, key: &str) -> u64 {
    run["tasks"][task][key].as_u64().unwrap_or_else(|| panic!("{key} of task {task} in {run}"))
}

/// SCHED_DEADLINE gives a task its runtime in each period before all others, and no more.
#[test]
fn a_deadline_task_has_its_reservation_and_no_more() {
    on_cpus(|| {
        if !has_real_time() {
            return;
        }
        for mechanism in mechanisms() {
            let tasks = [
                task("fits", "4ms", "class: deadline, period: 40ms, runtime: 12ms"),
                task("greedy", "12ms", "class: deadline, period: 40ms, runtime: 4ms"),
                // In Takt's own class, of a lower urgency than both.
                task("own", "10ms", "period: 40ms, runtime: 10ms"),
                task("fair", "30ms", "class: other, period: 40ms, runtime: 30ms"),
            ];
            let room = Room::with(&format!("policy: edf\ncpus: 0\ntasks:\n{}", tasks.concat()));
            attempts(5, || {
                let args =
                    ["run", "w.yaml", "--duration", "1200ms", "--mechanism", mechanism, "--trace", "t.jsonl", "--json"];
                let run = room.takt(&args).json();
                let name = |task: usize| run["tasks"][task]["class"].as_str().unwrap_or("-").to_owned();
                assert_eq!([0, 1, 2, 3].map(name), ["deadline", "deadline", "-", "other"], "{run}");
                assert!(run["notes"].to_string().contains("the kernel scheduled fits (deadline)"), "{run}");
                assert_eq!((of(&run, 0, "released"), of(&run, 1, "released")), (30, 30), "{mechanism}");
                let counts = |task| ["met", "missed"].map(|key| of(&run, task, key));
                ensure(counts(0) == [30, 0], || format!("{mechanism}: {run}"))?;
                // A job takes three of its periods.
                assert_eq!(of(&run, 1, "met"), 0, "{mechanism}: {run}");
                let (used, most) = (of(&run, 1, "cpu_ns"), of(&run, 1, "most_used_ns"));
                println!("{mechanism}: greedy used {used} ns in 30 periods of 4 ms, and {most} ns in one job");
                ensure((6..=14).contains(&of(&run, 1, "completed")), || format!("{mechanism}: {run}"))?;
                ensure(used < 150_000_000, || format!("{mechanism}: used {used} ns"))?;
                // Measured, not the time since the release.
                ensure((12_000_000..24_000_000).contains(&most), || format!("{mechanism}: one job used {most} ns"))?;
                room.check("t.jsonl", "w.yaml")
            });
        }
    });
}

#[test]
fn fifo_tasks_run_before_fair_ones_by_priority() {
    on_cpus(|| {
        if !has_real_time() {
            return;
        }
        for mechanism in mechanisms() {
            let tasks = [
                task("low", "20ms", "class: fifo=20, cpu: 0, period: 40ms, deadline: 22ms, runtime: 20ms"),
                task("high", "10ms", "class: fifo=30, cpu: 0, period: 40ms, deadline: 30ms, runtime: 10ms"),
                task("fair", "20ms", "class: other, cpu: 0, period: 40ms, runtime: 20ms"),
            ];
            let room = Room::with(&format!("policy: edf\ncpus: 0\ntasks:\n{}", tasks.concat()));
            attempts(5, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]).json();
                let met = [0, 1, 2].map(|task| of(&run, task, "met"));
                println!("{mechanism}: met {met:?} of 25 jobs each");
                assert_eq!(of(&run, 0, "released"), 25, "{mechanism}");
                // EDF would meet the deadlines of both. By priority `low` ends after 30 ms.
                assert_eq!(met[0], 0, "{mechanism}: {run}");
                ensure(met[1] == 25, || format!("{mechanism}: {run}"))?;
                // It has 10 ms of each 40 ms.
                ensure(met[2] <= 2, || format!("{mechanism}: {run}"))
            });
        }
    });
}

/// The process of a kernel's class is not stopped at its deadline, so the signal has to reach it there.
#[test]
fn late_jobs_are_aborted_by_signal_at_once() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let program = "'trap \"echo abort >> aborts\" USR1; \
                           while :; do i=0; while [ $i -lt 8 ]; do sleep 0.01; i=$((i+1)); done; echo end >> ends; takt done; done'";
            let keys = "class: other, cpu: 0, period: 200ms, deadline: 30ms, on_abort: signal";
            let tasks = format!("- {{name: late, cmd: {program}, {keys}}}\n");
            let room = Room::with(&format!("policy: edf\nlate: abort\ncpus: 0\ntasks:\n{tasks}"));
            attempts(5, || {
                for file in ["aborts", "ends"] {
                    let _ = std::fs::remove_file(room.path(file));
                }
                let args =
                    ["run", "w.yaml", "--duration", "950ms", "--mechanism", mechanism, "--trace", "t.jsonl", "--json"];
                let run = room.takt(&args).json();
                let lines = |file: &str| room.text(file).lines().count() as u64;
                let [released, aborted, late] = ["released", "aborted", "late_signals"].map(|key| of(&run, 0, key));
                println!("{mechanism}: {released} released, {aborted} aborted, {} signals received", lines("aborts"));
                assert_eq!((released, aborted), (5, 5), "{mechanism}: {run}");
                // The program ends each job before the release of the next one, though Takt has nothing dispatched then.
                ensure(lines("aborts") >= 4 && lines("ends") >= 4 && late >= 4, || format!("{mechanism}: {run}"))?;
                ensure(of(&run, 0, "behind") == 0, || format!("{mechanism}: {run}"))?;
                room.check("t.jsonl", "w.yaml")
            });
        }
    });
}

#[test]
fn a_run_with_classes_replays() {
    on_cpus(|| {
        attempts(5, || {
            let tasks = [
                task("own", "4ms", "period: 20ms, runtime: 4ms"),
                task("fair", "5ms", "class: other, period: 30ms, runtime: 5ms"),
                task("late", "12ms", "class: other, period: 40ms, deadline: 10ms, runtime: 8ms"),
            ];
            let event = "- {name: after, class: other, event: {after: fair}, deadline: 20ms, cmd: exec takt burn --runtime 1ms}\n";
            let head =
                "policy: edf\ncpus: 0\nchanges: [{at: 500ms, policy: rm}, {at: 600ms, task: fair, share: 20%}]\n";
            let records = replayed(&format!("{head}tasks:\n{}{event}", tasks.concat()));
            assert_eq!(count(&records, |kind| matches!(kind, RecordKind::Switch { .. })), 1);
            let completed = |wanted: u32| {
                let is = |kind: &RecordKind| matches!(kind, RecordKind::Finish { task, outcome: Outcome::Completed, .. } if task.0 == wanted);
                count(&records, is)
            };
            let completed = [0, 1, 2, 3].map(completed);
            ensure(completed.iter().all(|count| *count >= 10), || format!("completed {completed:?}"))
        });
    });
}

/// Replacements are thawed at their first jobs, and threads of a task of a class are no business of dispatch by priority.
#[test]
fn processes_of_a_class_are_replaced_as_others() {
    on_cpus(|| {
        if !has_real_time() {
            return;
        }
        for mechanism in mechanisms() {
            let job = "- {name: job, class: other, spawn: per-job, cmd: exec takt burn --runtime 2ms --jobs 1, period: 100ms}\n";
            let again = "- {name: again, class: fifo=30, on_exit: restart, cmd: exec takt burn --runtime 2ms --jobs 3, period: 50ms}\n";
            let several =
                "- {name: several, class: other, cmd: 'sleep 100 & while :; do takt done; done', period: 100ms}\n";
            let own = task("own", "2ms", "period: 20ms, runtime: 2ms");
            let head = "policy: edf\ncpus: 0\ndispatch: priority\ntasks:\n";
            let room = Room::with(&format!("{head}{own}{job}{again}{several}"));
            attempts(5, || {
                let args =
                    ["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--trace", "t.jsonl", "--json"];
                let run = room.takt(&args).json();
                assert_eq!([1, 3].map(|task| of(&run, task, "released")), [10, 10], "{mechanism}: {run}");
                // A process that ends between two jobs costs none, and one in a job uncounts it.
                ensure(of(&run, 2, "restarts") >= 4, || format!("{mechanism}: {run}"))?;
                let completed = [0, 1, 2, 3].map(|task| of(&run, task, "completed"));
                println!("{mechanism}: completed {completed:?}");
                let least = [50, 9, 12, 9];
                ensure((0..4).all(|task| completed[task] >= least[task]), || format!("{mechanism}: {run}"))?;
                assert!(!run["notes"].to_string().contains("by freezing"), "{mechanism}: {run}");
                room.check("t.jsonl", "w.yaml")
            });
        }
    });
}

#[test]
fn nothing_starts_without_admission() {
    on_cpus(|| {
        if !has_real_time() {
            return;
        }
        let cpus = takt_linux::rt::affinity(0).unwrap().len();
        let task = |n: usize| {
            format!("- {{name: t{n}, class: deadline, cmd: touch began{n}, period: 10ms, runtime: 9900us}}\n")
        };
        let tasks: String = (0..=cpus).map(task).collect();
        let room = Room::with(&format!("policy: edf\ncpus: 0\ntasks:\n{tasks}"));
        let run = room.takt(&["run", "w.yaml", "--duration", "100ms"]).expect(3);
        assert!(run.stderr.contains("refuses its class to the process of task `t"), "{}", run.stderr);
        assert!(run.stderr.contains("more than") || run.stderr.contains("exceed"), "{}", run.stderr);
        assert!(run.stderr.contains("lower `runtime`"), "{}", run.stderr);
        assert!((0..=cpus).all(|n| !room.path(&format!("began{n}")).exists()));
    });
}

#[test]
fn a_killed_run_leaves_no_task_of_a_class() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let class = if takt_linux::rt::rt_allowed() { "deadline" } else { "other" };
            let tasks = [
                format!(
                    "- {{name: a, class: {class}, cmd: 'touch here; exec takt burn --runtime 3ms', period: 20ms, runtime: 5ms}}\n"
                ),
                "- {name: b, class: other, cmd: exec takt burn, releases: [0ms]}\n".to_owned(),
                "- {name: own, cmd: exec takt burn --runtime 3ms, period: 20ms, runtime: 5ms}\n".to_owned(),
            ];
            let room = Room::with(&format!("policy: edf\ncpus: 0\ntasks:\n{}", tasks.concat()));
            let running = room.start(&["run", "w.yaml", "--duration", "100s", "--mechanism", mechanism]);
            until("it runs", || room.path("here").exists());
            pause(100);
            // Waits until no process and no group is left.
            let took = running.kill_and_wait();
            println!("{mechanism}: gone {took:?} after kill -9");
        }
    });
}

#[test]
fn a_simulation_refuses_a_class() {
    if !has_cpus(1) {
        return;
    }
    let tasks = task("a", "1ms", "class: other, period: 20ms, runtime: 1ms");
    let room = Room::with(&format!("policy: edf\nduration: 100ms\ntasks:\n{tasks}"));
    let sim = room.takt(&["sim", "w.yaml"]).expect(2);
    assert!(sim.stderr.contains("ignored-key") && sim.stderr.contains("`class`"), "{}", sim.stderr);
    // As if the key were not there: the policy schedules the task.
    let sim = room.takt(&["sim", "w.yaml", "--allow-differences", "--json"]).json();
    assert_eq!((of(&sim, 0, "met"), sim["tasks"][0].get("class")), (5, None), "{sim}");
}
