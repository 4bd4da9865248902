//! Programs that signal nothing: `completion: yield` and `completion: sleep`.

use crate::common::{Room, Running, attempts, ensure, mechanisms, until};
use crate::machine::{Capability, on_cpus, skip};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

fn is_observed() -> bool {
    let is_observed = Capability::Tracepoints.is_present();
    if !is_observed {
        skip(Capability::Tracepoints, "ends of jobs cannot be observed");
    }
    is_observed
}

fn counts(run: &Value) -> Vec<[Option<u64>; 6]> {
    let of = |task: &Value| {
        ["released", "completed", "met", "missed", "aborted", "activations"].map(|key| task[key].as_u64())
    };
    run["tasks"].as_array().unwrap().iter().map(of).collect()
}

/// Runs a workload for a second with every mechanism. The counts of each task are those of the simulation, and `holds`.
fn as_simulated(text: &str, holds: impl Fn(&Value) -> Result<(), String>) {
    on_cpus(|| {
        if !is_observed() {
            return;
        }
        for mechanism in mechanisms() {
            let room = Room::with(text);
            let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
            let args = ["run", "w.yaml", "--duration", "1s", "--json", "--trace", "t.jsonl", "--mechanism", mechanism];
            attempts(3, || {
                let run = room.takt(&args).json();
                ensure(counts(&run) == counts(&sim), || format!("{mechanism}: {run}\nsimulated {sim}"))?;
                holds(&run).map_err(|why| format!("{mechanism}: {why}: {run}"))?;
                room.check("t.jsonl", "w.yaml")
            });
        }
    });
}

/// `long` is preempted within its jobs; under cgroup v2 each stop looks like a sleep to the kernel. `start` sleeps at the end of its
/// initialisation, too.
const PERIODIC: &str = "\
policy: edf
cpus: 0
tasks:
- {name: yields, period: 20ms, runtime: 5ms, completion: yield, init: yes, cmd: exec takt burn --runtime 5ms --init 1ms --yield}
- {name: long, period: 100ms, deadline: 90ms, runtime: 30ms, completion: sleep, cmd: exec takt burn --runtime 30ms --sleep 1ms}
- {name: start, period: 50ms, runtime: 8ms, completion: sleep, init: yes, cmd: exec takt burn --runtime 8ms --init 2ms --sleep 200us}
- {name: y, period: 250ms, runtime: 8ms, completion: yield, init: yes, cmd: exec takt burn --runtime 8ms --init 2ms --yield}
";

/// The jobs of [`PERIODIC`] are preempted, and none ends before its work is done: the processes have used that CPU time.
fn is_done(run: &Value) -> Result<(), String> {
    ensure(run["preemptions"].as_u64() > Some(10), || "preemptions".into())?;
    for (task, need) in run["tasks"].as_array().unwrap().iter().zip([5, 30, 8, 8]) {
        let (jobs, used) = (task["completed"].as_u64().unwrap(), task["cpu_ns"].as_u64().unwrap());
        ensure(used >= jobs * need * 950_000, || format!("{jobs} jobs of {need} ms in {used} ns"))?;
    }
    Ok(())
}

#[test]
fn periodic_tasks_have_the_outcomes_of_the_simulation() {
    as_simulated(PERIODIC, is_done);
}

#[test]
fn dispatch_by_priority_has_the_outcomes_of_the_simulation() {
    if !takt_linux::rt::rt_allowed() || takt_linux::rt::preempt_rt() {
        return skip(Capability::RealTime, "dispatch by priority needs SCHED_FIFO");
    }
    as_simulated(&format!("dispatch: priority\nrealtime: yes\n{PERIODIC}"), is_done);
}

/// Each second activation of `sleeps` is cut off, and continues in its next window.
#[test]
fn a_job_in_a_window_table_is_what_one_sleep_ends() {
    let text = "\
windows: [{length: 25ms, cpu: 0, sc_partition: A}, {length: 25ms, cpu: 0, sc_partition: B}]
partitions:
- {name: A, processes: [{name: yields, completion: yield, init: yes, budget: 12ms, runtime: 4ms, cmd: exec takt burn --runtime 4ms --init 1ms --yield}]}
- {name: B, processes: [{name: sleeps, completion: sleep, init: yes, budget: 10ms, runtime: 15ms, cmd: exec takt burn --runtime 15ms --init 1ms --sleep 1ms}]}
";
    as_simulated(text, |run| ensure(run["tasks"][1]["cut_off"] == 10, || "activations that are cut off".into()));
}

/// Jobs of 30 ms every 20 ms, aborted at their deadlines. The yield at the end of the abandoned work completes no other job.
#[test]
fn a_yield_of_abandoned_work_is_late() {
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: slow, period: 20ms, runtime: 5ms, execution: 30ms, \
                completion: yield, init: yes, cmd: exec takt burn --runtime 30ms --init 1ms --yield}]";
    as_simulated(text, |run| {
        let late = run["tasks"][0]["late_signals"].as_u64();
        ensure(late >= Some(25), || format!("{late:?} yields of abandoned work"))
    });
}

/// A program whose jobs are shorter than the time until it is stopped yields more than once for a job. The first job includes the start of the program, which
/// can take 25 ms where the host gives this machine its pages one by one.
#[test]
fn a_yield_without_a_job_is_ignored() {
    let text = "policy: g-edf\ncpus: 0-1\ntasks:\n\
                - {name: a, period: 50ms, runtime: 100us, completion: yield, cmd: exec takt burn --runtime 1us --yield}\n\
                - {name: b, period: 100ms, runtime: 100us, completion: yield, cmd: exec takt burn --runtime 1us --yield}\n";
    if crate::common::has_cpus(2) {
        as_simulated(text, |run| {
            ensure(run["tasks"][0]["late_signals"] == 0, || "a yield without a job is no late signal".into())
        });
    }
}

/// The process ends after three jobs, in the fourth one. Its successor initialises in idle time, and is observed as well.
#[test]
fn a_replacement_is_observed() {
    let text = |releases: &str, end: &str, option: &str| {
        format!(
            "policy: edf\ncpus: 0\ntasks: [{{name: a, {releases}, deadline: 50ms, runtime: 4ms, completion: {end}, init: yes, on_exit: restart, \
             cmd: exec takt burn --runtime 3ms --init 1ms --jobs 3 {option}}}]"
        )
    };
    on_cpus(|| {
        if !is_observed() {
            return;
        }
        let wakeup = "event: {wakeup: yes, distance: 50ms}";
        let kinds = [
            ("period: 50ms", "yield", "--yield"),
            ("period: 50ms", "sleep", "--sleep 1ms"),
            (wakeup, "sleep", "--sleep 60ms"),
        ];
        for (mechanism, (releases, end, option)) in mechanisms().into_iter().flat_map(|m| kinds.map(|kind| (m, kind))) {
            let room = Room::with(&text(releases, end, option));
            attempts(3, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "2s", "--json", "--mechanism", mechanism]).json();
                let task = &run["tasks"][0];
                let (replaced, met) = (task["restarts"].as_u64(), task["met"].as_u64());
                ensure(replaced >= Some(1) && met >= Some(4), || format!("{mechanism} {releases} {end}: {run}"))
            });
        }
    });
}

/// Nothing is mounted or set for a run, so nothing can be left of one.
#[test]
fn nothing_is_left() {
    let mounts = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.lines().filter(|line| line.contains("tracefs")).count()
    };
    let under_way = |room: &Room, mechanism| -> Running {
        let running = room.start(&["run", "w.yaml", "--trace", "t.jsonl", "--mechanism", mechanism]);
        until("the schedule runs", || room.text("t.jsonl").lines().count() > 20);
        running
    };
    on_cpus(|| {
        if !is_observed() {
            return;
        }
        let before = mounts();
        for mechanism in mechanisms() {
            let room = Room::with(PERIODIC);
            let running = under_way(&room, mechanism);
            assert_eq!(mounts(), before);
            running.signal(Signal::INT);
            running.wait().expect(0);
            let room = Room::with(PERIODIC);
            let running = under_way(&room, mechanism);
            let took = running.kill_and_wait();
            println!("{mechanism}: gone {took:?} after kill -9");
            assert!(took < Duration::from_secs(5));
        }
        assert_eq!(mounts(), before);
    });
}

/// Another user has no right to observe processes.
#[test]
fn a_machine_that_cannot_observe_is_refused() {
    on_cpus(|| {
        let mut takt = Command::new(env!("CARGO_BIN_EXE_takt"));
        takt.args(["run", "-", "--duration", "100ms", "--mechanism", "signal"]).current_dir("/");
        if Capability::Tracepoints.is_present() {
            takt.uid(65534).gid(65534);
        }
        let mut takt = takt.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let text = "policy: edf\ncpus: 0\ntasks: [{name: a, period: 20ms, runtime: 1ms, completion: sleep, cmd: exec sleep 10}]\n";
        takt.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let ended = takt.wait_with_output().unwrap();
        let why = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(3), "{why}");
        let head = "error[missing-capability]: the ends of jobs of a cannot be observed: ";
        assert!(why.starts_with(head) && why.contains("\nfix: "), "{why}");
    });
}

/// A loop that works for 2 ms and sleeps for 20 ms, whose wake-ups release its jobs, beside a task that uses half of the CPU.
const LOOP: &str = "policy: edf\ncpus: 0\nrealtime: yes\ntasks:\n\
    - {name: loop, cmd: exec takt burn --runtime 2ms --init 1ms --sleep 20ms, completion: sleep, init: yes, \
       event: {wakeup: yes, distance: 15ms}, deadline: 10ms, runtime: 3ms}\n\
    - {name: cpu, cmd: exec takt burn --runtime 32ms, init: yes, period: 60ms, runtime: 40ms}\n";

/// Instants of the jobs of a task in a table of jobs, in ns: release and finish.
fn jobs(room: &Room, task: &str) -> Vec<(i64, i64)> {
    let table = room.text("jobs.csv");
    let rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>()).filter(|row| row[0] == task);
    rows.filter_map(|row| Some((row[2].parse().ok()?, row[5].parse().ok()?))).collect()
}

/// Runs a workload for a second with this mechanism and dispatch. Its trace has no findings, and its replay the same counts.
fn run_loop(text: &str, mechanism: &str, dispatch: &str, holds: impl Fn(&Room, &Value) -> Result<(), String>) {
    let room = Room::with(&format!("dispatch: {dispatch}\n{text}"));
    attempts(5, || {
        let files = ["--record", "r.steps", "--trace", "t.jsonl", "--jobs", "jobs.csv"];
        let run = ["run", "w.yaml", "--duration", "1s", "--json", "--mechanism", mechanism];
        let run = room.takt(&[&run[..], &files].concat()).json();
        let replay = room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--json"]).json();
        assert_eq!(counts(&replay), counts(&run), "{mechanism}, {dispatch}");
        room.check("t.jsonl", "w.yaml")?;
        holds(&room, &run).map_err(|why| format!("{mechanism}, {dispatch}: {why}: {run}"))
    });
}

fn each_dispatch(text: &str, holds: impl Fn(&Room, &Value) -> Result<(), String>) {
    on_cpus(|| {
        if !is_observed() || !takt_linux::rt::rt_allowed() || takt_linux::rt::preempt_rt() {
            return skip(Capability::RealTime, "wake-ups are observed of real-time processes");
        }
        let all = mechanisms();
        let others = all.first().into_iter().flat_map(|mechanism| [(*mechanism, "priority"), (*mechanism, "rank")]);
        for (mechanism, dispatch) in all.iter().map(|mechanism| (*mechanism, "freeze")).chain(others) {
            run_loop(text, mechanism, dispatch, &holds);
        }
    });
}

#[test]
fn a_wake_up_releases_the_next_job() {
    each_dispatch(LOOP, |room, run| {
        let [looped, other] = [&run["tasks"][0], &run["tasks"][1]];
        // A job takes 2 ms, and more where the other one is more urgent.
        ensure((40..=46).contains(&looped["released"].as_u64().unwrap()), || "releases".into())?;
        ensure(looped["missed"] == 0 && other["missed"] == 0 && other["completed"].as_u64() >= Some(16), || {
            "misses".into()
        })?;
        // Each release is the end of a sleep that began with the end of the job before. A host can stall the CPU after the timer of the sleep is set,
        // and before the process leaves the CPU.
        for pair in jobs(room, "loop").windows(2) {
            let slept = pair[1].0 - pair[0].1;
            ensure((19_000_000..22_000_000).contains(&slept), || format!("{slept} ns between {pair:?}"))?;
        }
        Ok(())
    });
}

/// The clock releases jobs before the sleeps are over. They are blocked until then, so the other task has the CPU.
#[test]
fn a_job_is_blocked_for_the_rest_of_a_sleep() {
    let text = LOOP.replace("event: {wakeup: yes, distance: 15ms}, deadline: 10ms", "period: 20ms");
    each_dispatch(&text, |_, run| {
        let [looped, other] = [&run["tasks"][0], &run["tasks"][1]];
        ensure(other["missed"] == 0 && other["completed"].as_u64() >= Some(16), || "the other task".into())?;
        // The loop needs 22 ms for a job, and falls behind.
        ensure(looped["missed"].as_u64() > Some(20) && looped["completed"].as_u64() >= Some(38), || "the loop".into())?;
        ensure(looped["response_parts_ns"]["blocked"].as_i64() > Some(10_000_000), || "blocked".into())?;
        ensure(run["notes"].to_string().contains("`event: wakeup`"), || "no note".into())
    });
}

/// The program is awake 5 ms after a job, and waits, stopped, until the least distance has passed.
#[test]
fn a_wake_up_before_the_least_distance_waits_for_it() {
    let text = LOOP.replace("--sleep 20ms", "--sleep 5ms").replace("distance: 15ms", "distance: 20ms");
    each_dispatch(&text, |room, run| {
        ensure(run["tasks"][0]["missed"] == 0 && run["tasks"][1]["missed"] == 0, || "misses".into())?;
        let jobs = jobs(room, "loop");
        ensure((48..=51).contains(&jobs.len()), || format!("{} jobs", jobs.len()))?;
        for pair in jobs.windows(2) {
            let apart = pair[1].0 - pair[0].0;
            ensure((20_000_000..22_000_000).contains(&apart), || format!("{apart} ns between {pair:?}"))?;
        }
        let used = run["tasks"][0]["cpu_ns"].as_i64().unwrap();
        // It does not work between its jobs.
        ensure((used - jobs.len() as i64 * 2_000_000).abs() < 15_000_000, || format!("used {used} ns"))
    });
}

/// The third job needs 12 ms. It is aborted after 5 ms, and so is the next one, which continues its work. The one after that completes it.
#[test]
fn an_aborted_job_continues_without_a_wake_up() {
    let text = LOOP
        .replace(
            "--runtime 2ms --init 1ms --sleep 20ms",
            "--steps 'run 2ms, sleep 20ms, run 2ms, sleep 20ms, run 12ms, sleep 20ms, run 1us'",
        )
        .replace("cmd: exec takt burn --steps", "cmd: \"exec takt burn --steps")
        .replace("run 1us'", "run 1us'\"")
        .replace("runtime: 3ms}", "runtime: 3ms, budget: 5ms}");
    each_dispatch(&text, |_, run| {
        let task = &run["tasks"][0];
        let count = |key: &str| task[key].as_u64().unwrap();
        ensure(count("aborted") >= 12, || "aborted jobs".into())?;
        ensure(count("met") == count("completed") && count("met") > 20, || "met jobs".into())?;
        ensure(count("missed") == count("aborted"), || "misses".into())
    });
}

/// Without a real-time class the wake-up is seen by the states of processes, and the release is at most what the process has used before that.
#[test]
fn a_wake_up_of_an_ordinary_process_releases_the_next_job() {
    on_cpus(|| {
        if !is_observed() || !crate::common::has_cpus(2) {
            return;
        }
        let text = LOOP.replace("realtime: yes", "realtime: no");
        for mechanism in mechanisms() {
            run_loop(&text, mechanism, "freeze", |room, run| {
                ensure(run["blocking"] == "states", || "blocking".into())?;
                ensure(run["tasks"][0]["missed"] == 0 && run["tasks"][1]["missed"] == 0, || "misses".into())?;
                let jobs = jobs(room, "loop");
                ensure((38..=46).contains(&jobs.len()), || format!("{} jobs", jobs.len()))?;
                // The job before the start of the schedule has begun before that.
                let shortest = jobs.iter().skip(1).map(|(release, finish)| finish - release).min();
                ensure(shortest >= Some(1_900_000), || format!("a response time of {shortest:?} ns"))
            });
        }
    });
}

/// A loop alone: no other task's step has the scheduler look at it. Its overruns send it a signal while it sleeps, or it starts a thread in the middle of
/// the schedule.
#[test]
fn a_loop_without_other_tasks_has_all_its_jobs() {
    let task = |rest: &str| {
        format!(
            "policy: edf\ncpus: 0\nrealtime: yes\ntasks: [{{name: loop, completion: sleep, init: yes, event: {{wakeup: yes, distance: 15ms}}, {rest}}}]\n"
        )
    };
    let overruns =
        task("runtime: 1ms, on_overrun: signal=URG, cmd: exec takt burn --runtime 2ms --init 1ms --sleep 20ms");
    let program = "import threading, time\nfor n in range(10**9):\n    if n == 12:\n        \
                   threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n    time.sleep(0.02)\n";
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let python = python.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let threads = task(&format!("runtime: 5ms, cmd: exec {} loop.py", python.trim()));
    let texts = if python.trim().is_empty() { vec![overruns] } else { vec![overruns, threads] };
    on_cpus(|| {
        if !is_observed() || !takt_linux::rt::rt_allowed() || takt_linux::rt::preempt_rt() {
            return skip(Capability::RealTime, "wake-ups are observed of real-time processes");
        }
        for (text, mechanism) in texts.iter().flat_map(|text| mechanisms().into_iter().map(move |m| (text, m))) {
            let room = Room::with(text);
            std::fs::write(room.path("loop.py"), program).unwrap();
            attempts(3, || {
                let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--json", "--mechanism", mechanism]).json();
                let completed = run["tasks"][0]["completed"].as_u64();
                ensure(completed > Some(35), || format!("{mechanism}: {text}: {run}"))
            });
        }
    });
}
