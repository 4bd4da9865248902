//! Dispatch by priority (`dispatch: priority`) over real processes.

use crate::common::{Room, attempts, ensure, has_cpus, mechanisms};
use crate::machine::{Capability, on_cpus, skip};
use serde_json::Value;
use std::time::{Duration, Instant};

const HEAD: &str = "policy: edf\ncpus: 0\nrealtime: yes\ndispatch: priority\ntasks:\n";

/// Each job of `long` is preempted by two jobs of `short`. Both finish far from their deadlines.
const PREEMPTED: &str = "\
    - {name: short, cmd: 'echo $$ > short.pid; exec takt burn --runtime 4ms --init 1ms', init: yes, period: 20ms, runtime: 4ms}\n\
    - {name: long, cmd: 'echo $$ > long.pid; exec takt burn --runtime 30ms --init 1ms', init: yes, period: 100ms, offset: 10ms, runtime: 30ms}\n";

fn has_real_time() -> bool {
    let has = takt_linux::rt::rt_allowed() && !takt_linux::rt::preempt_rt();
    if !has {
        skip(Capability::RealTime, "dispatch by priority needs SCHED_FIFO");
    }
    has
}

fn counts(run: &Value) -> Vec<[Option<u64>; 5]> {
    let of = |task: &Value| ["released", "completed", "met", "missed", "aborted"].map(|key| task[key].as_u64());
    run["tasks"].as_array().unwrap().iter().map(of).collect()
}

/// The state of a process and its real-time priority (proc_pid_stat(5)).
fn seen(room: &Room, file: &str) -> Option<(char, u32)> {
    let pid = std::fs::read_to_string(room.path(file)).ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.nth(36)?.parse().ok()?))
}

#[test]
fn a_preempted_process_stays_runnable_below_the_other_one() {
    on_cpus(|| {
        if !has_real_time() || !has_cpus(2) {
            return;
        }
        for mechanism in mechanisms() {
            let room = Room::with(&format!("{HEAD}{PREEMPTED}"));
            let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
            attempts(5, || {
                let run = room.start(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]);
                let end = Instant::now() + Duration::from_secs(1);
                let mut preempted = 0;
                while Instant::now() < end {
                    // `long` is read first and last, so that it does not begin in between.
                    let all = [seen(&room, "long.pid"), seen(&room, "short.pid"), seen(&room, "long.pid")];
                    if let [Some(('R', low)), Some(('R', high)), Some(('R', still))] = all
                        && (low, still) == (10, 10)
                        && (11..70).contains(&high)
                    {
                        preempted += 1;
                    }
                    std::thread::sleep(Duration::from_micros(300));
                }
                let run = run.wait().json();
                println!("{mechanism}: both were runnable in {preempted} samples; switches {}", run["switch_ns"]);
                assert_eq!(run["dispatch"], "priority");
                assert!(!run["notes"].to_string().contains("by freezing"), "{run}");
                ensure(counts(&run) == counts(&sim), || format!("{mechanism}: {run}"))?;
                ensure(run["preemptions"] == sim["preemptions"], || format!("{mechanism}: {run}"))?;
                ensure(preempted >= 5, || format!("{mechanism}: both were runnable in {preempted} samples"))
            });
        }
    });
}

#[test]
fn a_process_that_spins_past_its_budget_is_frozen() {
    on_cpus(|| {
        if !has_real_time() {
            return;
        }
        for mechanism in mechanisms() {
            let room = Room::with(&format!(
                "{HEAD}\
                 - {{name: good, cmd: exec takt burn --runtime 3ms --init 1ms, init: yes, period: 50ms, runtime: 4ms, budget: 8ms}}\n\
                 - {{name: bad, cmd: exec takt burn --runtime 1s --init 1ms, init: yes, period: 100ms, offset: 5ms, runtime: 4ms, budget: 6ms}}\n"
            ));
            attempts(5, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]).json();
                let expected = [[20, 20, 20, 0, 0], [10, 0, 0, 10, 10]].map(|counts| counts.map(Some));
                ensure(counts(&run) == expected, || format!("{mechanism}: {run}"))?;
                let used = run["tasks"][1]["cpu_ns"].as_u64();
                println!("{mechanism}: the process with ten budgets of 6 ms used {used:?} ns");
                ensure(used.is_some_and(|used| used < 90_000_000), || format!("{mechanism}: {run}"))
            });
        }
    });
}

/// Its threads have priorities of their own, so it is frozen when it is preempted.
#[test]
fn a_process_that_starts_others_is_preempted_by_freezing() {
    on_cpus(|| {
        if !has_real_time() {
            return;
        }
        for mechanism in mechanisms() {
            let more = PREEMPTED.replace("'echo $$ > long.pid; exec", "'sleep 100 & exec");
            let room = Room::with(&format!("{HEAD}{more}"));
            let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
            attempts(5, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]).json();
                assert!(run["notes"].to_string().contains("several threads or processes: long"), "{mechanism}: {run}");
                ensure(counts(&run) == counts(&sim), || format!("{mechanism}: {run}"))
            });
        }
    });
}

/// A preempted process stays bound to its CPU, and migrates when it is dispatched on the other one.
#[test]
fn a_global_policy_decides_as_simulated() {
    on_cpus(|| {
        if !has_real_time() || !has_cpus(2) {
            return;
        }
        for mechanism in mechanisms() {
            let task = |name: &str, runtime: u32, period: u32, offset: u32| {
                format!(
                    "- {{name: {name}, cmd: exec takt burn --runtime {runtime}ms --init 1ms, init: yes, period: {period}ms, \
                     offset: {offset}ms, runtime: {runtime}ms}}\n"
                )
            };
            let tasks =
                [task("a", 4, 20, 0), task("b", 6, 30, 3), task("c", 30, 100, 5), task("d", 40, 120, 5)].concat();
            let head = HEAD.replace("policy: edf\ncpus: 0\n", "policy: g-edf\ncpus: 0-1\n");
            let room = Room::with(&format!("{head}{tasks}"));
            let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
            assert!(sim["migrations"].as_u64() > Some(5), "{sim}");
            attempts(5, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"]).json();
                ensure(counts(&run) == counts(&sim), || format!("{mechanism}: {run}"))?;
                ensure(run["migrations"] == sim["migrations"], || format!("{mechanism}: {run}"))
            });
        }
    });
}

#[test]
fn without_the_class_nothing_starts() {
    let text = format!("{HEAD}- {{name: a, cmd: touch began, period: 20ms, runtime: 1ms}}\n");
    let room = Room::with(&text.replace("realtime: yes", "realtime: no"));
    let run = room.takt(&["run", "w.yaml", "--duration", "100ms"]).expect(3);
    assert!(run.stderr.contains("needs SCHED_FIFO") && run.stderr.contains("fix: remove"), "{}", run.stderr);
    assert!(!room.path("began").exists());
}

/// A real-time process that fills a CPU is stopped for a twentieth of each second, and the summary says so. Without the class it is not.
#[test]
fn a_run_that_the_kernel_throttles_says_so() {
    if !matches!(takt_linux::rt::throttle(), Ok((Some(_), _))) || !takt_linux::rt::rt_allowed() {
        return;
    }
    on_cpus(|| {
        for (realtime, throttled) in [("yes", 1), ("no", 0)] {
            let text = format!(
                "policy: fp\ncpus: 0\nrealtime: {realtime}\ntasks: [{{name: hog, batch: yes, cmd: exec takt burn}}]\n"
            );
            attempts(3, || {
                let run = Room::with(&text).takt(&["run", "w.yaml", "--duration", "3s", "--json"]).json();
                let notes = run["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let said = notes.filter(|note| note.contains("real-time throttling probably cut the supply")).count();
                ensure(said == throttled, || format!("realtime: {realtime}: {run}"))
            });
        }
    });
}

/// How a workload with this Linux priority fares beside an ordinary real-time process of priority 40 on its CPU: missed jobs of its only
/// task. Each job of the process takes 12 ms of 20 ms, and each job of the task 10 ms, for the 200 ms from the start of the process.
fn missed_beside_another(room: &Room, keys: &str) -> u64 {
    let task = "{name: a, cmd: exec takt burn --runtime 10ms --init 1ms, init: yes, period: 20ms, runtime: 10ms}";
    std::fs::write(room.path("w.yaml"), format!("policy: edf\ncpus: 0\nrealtime: yes\n{keys}\ntasks:\n- {task}\n"))
        .unwrap();
    let run = room.start(&["run", "w.yaml", "--duration", "1s", "--json"]);
    let start = (takt_linux::timer::now() + takt_core::time::Span::from_ms(500)).ns().to_string();
    let other = room.start(&[
        "__probe",
        "periodic",
        "other",
        "--period",
        "20ms",
        "--runtime",
        "12ms",
        "--count",
        "10",
        "--cpu",
        "0",
        "--priority",
        "40",
        "--start",
        &start,
    ]);
    let run = run.wait().json();
    other.wait().expect(0);
    assert_eq!(run["tasks"][0]["released"], 50, "{run}");
    run["tasks"][0]["missed"].as_u64().expect("a number")
}

#[test]
fn an_ordinary_real_time_process_runs_before_or_after_the_schedule_by_its_priority() {
    on_cpus(|| {
        if !has_real_time() || !has_cpus(2) {
            return;
        }
        let room = Room::new();
        for dispatch in ["freeze", "priority"] {
            attempts(5, || {
                let above = missed_beside_another(&room, &format!("priority: 45\ndispatch: {dispatch}"));
                ensure(above == 0, || format!("{dispatch}: {above} missed behind a process of a lower priority"))
            });
            attempts(5, || {
                let below = missed_beside_another(&room, &format!("priority: 35\ndispatch: {dispatch}"));
                ensure((5..=30).contains(&below), || format!("{dispatch}: {below} missed"))
            });
        }
    });
}

/// Under both dispatches the outcomes of bands are those of the simulation.
#[test]
fn bands_are_dispatched_as_simulated() {
    on_cpus(|| {
        if !has_real_time() {
            return;
        }
        let task = |name: &str, domain: &str, runtime: u32, period: u32, offset: u32| {
            format!(
                "- {{name: {name}, domain: {domain}, cmd: exec takt burn --runtime {runtime}ms --init 1ms, init: yes, period: {period}ms, \
                 offset: {offset}ms, runtime: {runtime}ms}}\n"
            )
        };
        // `c` is due first and waits for `a`, whose period is longer; without bands it would meet its deadlines.
        let tasks = [task("a", "high", 30, 100, 0), task("b", "low", 10, 100, 5), task("c", "low", 4, 20, 5)].concat();
        let domains = "domains: [{name: low, cpus: 0, policy: edf}, {name: high, cpus: 0, band: 3, policy: fifo}]";
        for dispatch in ["freeze", "priority"] {
            for mechanism in mechanisms() {
                let head =
                    format!("{domains}\nrealtime: yes\npriority: 20\ndispatch: {dispatch}\nlate: abort\ntasks:\n");
                let room = Room::with(&format!("{head}{tasks}"));
                let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
                assert_eq!(sim["tasks"][2]["missed"], 10, "{sim}");
                attempts(5, || {
                    let args = ["run", "w.yaml", "--duration", "1s", "--mechanism", mechanism, "--json"];
                    let run = room.takt(&args).json();
                    assert_eq!((&run["dispatch"], &run["priority"]), (&dispatch.into(), &20.into()), "{run}");
                    ensure(counts(&run) == counts(&sim), || format!("{dispatch}, {mechanism}: {run}"))
                });
            }
        }
    });
}
