//! However a run ends, nothing of it is left: no process, no frozen one, no group.

use crate::common::{
    Room, Running, TAKT, attempts, ensure, groups, has_cpus, kill, mechanisms, processes, state, until, watchers,
};
use crate::machine::on_cpus;
use rustix::process::Signal;
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Three processes, each with children: one runs now and then, one best effort, one never.
const LOAD: &str = "\
windows: [{length: 20ms, cpu: 0, sc_partition: SC, be_partition: BE}]
partitions:
- {name: SC, processes: [{cmd: 'sleep 1000 & exec takt burn', budget: 10ms}]}
- {name: BE, processes: [{cmd: 'sleep 1000 & while :; do sleep 0.01; done', budget: 20ms}]}
- {name: never, processes: [{cmd: 'sleep 1000 & exec takt burn', budget: 10ms}]}
";

/// Starts a run of [`LOAD`] or another workload and waits until it is well under way.
fn under_way(room: &Room, more: &[&str]) -> Running {
    has_forked(room, room.start(&[&["run", "w.yaml", "--trace", "t.jsonl"], more].concat()))
}

fn has_forked(room: &Room, running: Running) -> Running {
    until("the schedule runs", || room.text("t.jsonl").lines().count() > 20);
    // A machine that is held up passes windows without a process in them having run.
    until("they have forked", || processes(running.pid()).len() >= 4);
    running
}

#[test]
fn a_run_ends_after_its_duration() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(LOAD);
            let run = room.takt(&["run", "w.yaml", "--duration", "400ms", "--mechanism", mechanism, "--json"]).json();
            assert_eq!(run["mechanism"], mechanism);
            assert_eq!((&run["ended"], &run["duration_ns"]), (&"duration".into(), &400_000_000.into()));
        }
    });
}

/// The scheduler leaves its real-time class at the end. A process that still ran in one would keep the CPU until the kernel throttles it,
/// 950 ms later.
#[test]
fn a_run_ends_at_once_while_a_real_time_process_has_the_cpu() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            attempts(3, || {
                let room = Room::with(
                    "windows: [{length: 50ms, slices: [{cpu: 0, be_partition: BE}]}]\n\
                     partitions: [{name: BE, processes: [{cmd: 'while :; do :; done', budget: 40ms}]}]\n",
                );
                let run = room.takt(&["run", "w.yaml", "--duration", "205ms", "--mechanism", mechanism]).expect(0);
                ensure(run.took < Duration::from_millis(800), || format!("{mechanism}: {:?}", run.took))
            });
        }
    });
}

#[test]
fn a_run_ends_with_its_last_process() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(
                "windows: [{length: 20ms, cpu: 0, sc_partition: SC, be_partition: BE}]\n\
             partitions:\n\
             - {name: SC, processes: [{cmd: exec takt burn --runtime 1ms --jobs 3, budget: 10ms}]}\n\
             - {name: BE, processes: [{cmd: 'sleep 0.3 & exit 0', budget: 20ms}]}\n",
            );
            let done = room.takt(&["run", "w.yaml", "--mechanism", mechanism, "--json"]);
            let run = done.json();
            assert_eq!((&run["ended"], &run["ends"][0]["exited"]), (&"all exited".into(), &0.into()), "{mechanism}");
            assert!(done.took > Duration::from_millis(300), "{mechanism}: a child of a process that ended counts, too");
        }
    });
}

#[test]
fn signals_end_a_run_in_order() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            // Without a terminal SIGHUP reads the file again, where there is a socket.
            for (signal, more) in [
                (Signal::INT, "--allow-differences"),
                (Signal::TERM, "--allow-differences"),
                (Signal::HUP, "--no-control"),
            ] {
                let room = Room::with(LOAD);
                // With a terminal, SIGHUP would be ignored in tests below `nohup`.
                let mut command = Command::new("setsid");
                command.args([TAKT, "run", "w.yaml", "--trace", "t.jsonl", "--mechanism", mechanism, "--json", more]);
                let running = has_forked(&room, Running::start(command.current_dir(room.path(""))));
                running.signal(signal);
                assert_eq!(running.wait().json()["ended"], "signal", "{mechanism} {signal:?}");
                assert!(room.trace("t.jsonl").footer.is_some(), "the trace is complete");
            }
        }
    });
}

#[test]
fn a_signal_ends_the_initialisation() {
    on_cpus(|| {
        let room = Room::with(
            "windows: [{length: 20ms, cpu: 0, sc_partition: SC}]\n\
         partitions: [{name: SC, processes: [{cmd: 'touch here; exec sleep 1000', init: yes, budget: 10ms}]}]\n",
        );
        let running = room.start(&["run", "w.yaml"]);
        until("it initialises", || room.path("here").exists());
        running.signal(Signal::TERM);
        // It would last a thousand seconds.
        running.wait();
    });
}

#[test]
fn after_kill_nothing_is_left_within_a_second() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            attempts(3, || killed(mechanism));
        }
    });
}

/// One run of [`LOAD`] that is killed; an error if cleaning up took longer than a second.
fn killed(mechanism: &str) -> Result<(), String> {
    // With a daemon: in a session of its own, and not a child of anybody in the run.
    let room = Room::with(&LOAD.replace("{cmd: 'sleep 1000 &", "{cmd: '(setsid sleep 1000 &) ; sleep 1000 &"));
    let running = under_way(&room, &["--mechanism", mechanism]);
    let (pid, started) = (running.pid(), processes(running.pid()).len());
    assert_eq!(groups(pid).is_empty(), mechanism == "signal");
    let took = running.kill_and_wait();
    println!("{mechanism}: {started} processes were gone {took:?} after kill -9");
    let trace = room.trace("t.jsonl");
    assert!(trace.footer.is_none() && trace.records.len() >= 20, "what was written before can be read");
    ensure(took < Duration::from_secs(1), || format!("{mechanism}: {took:?}"))
}

/// Kills the rest of the run of a process that is dead on purpose, also when the test fails.
struct Released(i32);

impl Drop for Released {
    fn drop(&mut self) {
        processes(self.0).into_iter().for_each(|pid| kill(pid, Signal::KILL));
    }
}

#[test]
fn processes_can_be_released_instead() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(&format!("on_crash: release\n{LOAD}"));
            let running = under_way(&room, &["--mechanism", mechanism]);
            let pid = running.pid();
            let before = processes(pid);
            let released = Released(pid);
            running.signal(Signal::KILL);
            running.wait_unchecked();
            until("the watcher is done", || watchers(pid).is_empty());
            let after = processes(pid);
            // A shell that forks waits like a frozen process, but not for long.
            for pid in &after {
                until("it is not frozen", || !matches!(state(*pid), 'T' | 'D'));
            }
            // With the signal mechanism a process that never ran cannot be told from the run itself, and ends with it.
            let kept = before.iter().filter(|pid| after.contains(pid)).count();
            let left = groups(pid);
            drop(released);
            until("they are killed", || processes(pid).is_empty());
            assert!(kept >= 4, "{mechanism}: {before:?} became {after:?}");
            assert!(left.is_empty(), "{mechanism}: {left:?}");
        }
    });
}

#[test]
fn doctor_removes_what_dead_runs_left_and_nothing_else() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let (room, other) = (Room::with(LOAD), Room::with(LOAD));
            let dead = under_way(&room, &["--mechanism", mechanism]);
            let alive = under_way(&other, &["--mechanism", mechanism, "--share-cpus"]);
            let pid = dead.pid();
            let watcher = watchers(pid);
            assert_eq!(watcher.len(), 1);
            kill(watcher[0], Signal::KILL);
            until("no watcher is left", || watchers(pid).is_empty());
            dead.signal(Signal::KILL);
            dead.wait_unchecked();
            // Any other run that starts now on this machine removes the remains as well, so that they are there is not checked.
            let before = processes(alive.pid()).len();
            let said = room.takt(&["doctor", "--clean"]).expect(0).stdout;
            println!("{mechanism}: {}", said.trim());
            assert!(groups(pid).is_empty() && processes(pid).is_empty(), "{mechanism}: {said}");
            assert!(processes(alive.pid()).len() >= before.min(4), "{mechanism}");
            let records = other.text("t.jsonl").lines().count();
            until("the other one continues", || other.text("t.jsonl").lines().count() > records);
            alive.signal(Signal::TERM);
            alive.wait().expect(0);
        }
    });
}

#[test]
fn two_runs_do_not_harm_each_other() {
    on_cpus(|| {
        let (room, other) = (Room::with(LOAD), Room::with(LOAD));
        let first = under_way(&room, &["--json"]);
        // Both are on CPU 0, which the second one shares only with `--share-cpus`.
        other.takt(&["run", "w.yaml", "--duration", "200ms", "--share-cpus"]).expect(0);
        under_way(&other, &["--share-cpus"]).kill_and_wait();
        let records = room.text("t.jsonl").lines().count();
        until("the first continues", || room.text("t.jsonl").lines().count() > records + 20);
        first.signal(Signal::INT);
        let run = first.wait().json();
        assert!(run["ends"].as_array().unwrap().iter().all(serde_json::Value::is_null), "all lived to the end: {run}");
    });
}

#[test]
fn a_crash_of_a_task_ends_only_that_task() {
    on_cpus(|| {
        let room =
            Room::with(&LOAD.replace("'sleep 1000 & while :; do sleep 0.01; done'", "'sleep 0.05; kill -SEGV $$'"));
        attempts(5, || {
            let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--json"]).json();
            assert_eq!(run["ends"][0], serde_json::Value::Null, "{run}");
            let lost = run["windows_lost"].as_u64().unwrap();
            assert_eq!(run["tasks"][0]["activations"].as_u64().unwrap() + lost, 50, "the other one continues");
            assert_eq!(
                (&run["tasks"][0]["ended"], &run["tasks"][0]["failures"]),
                (&serde_json::Value::Null, &0.into())
            );
            ensure(run["ends"][1]["signal"] == 11, || format!("it has not come to its crash: {run}"))?;
            assert_eq!((&run["tasks"][1]["ended"], &run["tasks"][1]["failures"]), (&false.into(), &1.into()));
            Ok(())
        });
    });
}

/// Two runs on one CPU both reported that they met all deadlines.
#[test]
fn a_second_run_on_a_cpu_is_refused_until_the_first_has_ended() {
    let text = |cpu: usize| {
        format!(
            "policy: edf\ncpus: {cpu}\ntasks: [{{period: 10ms, runtime: 2ms, cmd: exec takt burn --runtime 1ms}}]\n"
        )
    };
    on_cpus(|| {
        // Its third process never begins its program.
        let (first, second) = (Room::with(LOAD), Room::new());
        let run = |cpu: usize, more: &[&str]| {
            fs::write(second.path("second.yaml"), text(cpu)).unwrap();
            second.takt(&[&["run", "second.yaml", "--duration", "100ms"], more].concat())
        };
        for mechanism in mechanisms() {
            let running = under_way(&first, &["--mechanism", mechanism]);
            let refused = run(0, &["--record", "r.steps", "--trace", "t.jsonl"]).expect(3);
            let by = format!("error[cpu-in-use]: CPU 0 is in use by w.yaml (process {})\n", running.pid());
            assert!(refused.stderr.contains(&by) && refused.stderr.contains("--share-cpus"), "{}", refused.stderr);
            assert!(!second.path("r.steps").exists() && !second.path("t.jsonl").exists(), "it leaves nothing");
            let shared = run(0, &["--share-cpus"]).expect(0).stdout;
            let note = format!("note: CPUs were shared with w.yaml (process {})", running.pid());
            assert!(shared.contains(&note), "{shared}");
            if has_cpus(2) {
                assert!(!run(1, &[]).expect(0).stdout.contains("shared"), "disjoint CPUs");
            }
            running.signal(Signal::KILL);
            run(0, &[]).expect(0);
            running.kill_and_wait();
        }
    });
}
