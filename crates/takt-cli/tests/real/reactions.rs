//! Reactions to missed deadlines and overruns (`on_miss`, `on_overrun`). No process of them outlives the run.

use super::jobs::{counts, on_each_mechanism};
use crate::common::{Room, attempts, ensure, mechanisms, processes, until};
use crate::machine::on_cpus;
use rustix::process::Signal;
use serde_json::Value;

/// The counts of the first task's reaction: jobs, done, suppressed, failed.
fn reacted(run: &Value) -> [u64; 4] {
    ["jobs", "done", "suppressed", "failed"].map(|key| run["reactions"][0][key].as_u64().unwrap_or(u64::MAX))
}

/// A late job's program learns of that while it is late, and not when the job ends: this one never ends.
#[test]
fn a_signal_tells_a_program_of_its_missed_deadline() {
    let text = "policy: edf\ncpus: 0\ntasks: [{name: a, batch: yes, deadline: 300ms, on_miss: signal=USR2, \
                cmd: \"trap 'echo late > hit; exit 0' USR2; while :; do :; done\"}]";
    on_each_mechanism(text, &["--duration", "5s"], |run, room| {
        let hit = room.text("hit");
        std::fs::remove_file(room.path("hit")).map_err(|e| e.to_string())?;
        ensure(hit == "late\n" && run["ended"] == "all exited", || format!("{hit:?}"))?;
        ensure(run["reactions"][0]["cause"] == "miss" && reacted(run) == [1, 1, 0, 0], || "reactions".into())?;
        ensure(counts(&run["tasks"][0], ["missed"]) == [1], || "missed".into())
    });
}

/// A process that has not run has no handler yet. The signal would end it before its first instruction.
#[test]
fn a_process_that_has_not_run_receives_no_signal() {
    let text = "policy: fp\ncpus: 0\ntasks:\n\
                - {name: b, batch: yes, deadline: 50ms, on_miss: signal, cmd: exec takt burn}\n\
                - {name: a, batch: yes, priority: 2, cmd: exec takt burn}\n";
    on_each_mechanism(text, &["--duration", "200ms"], |run, _| {
        ensure(reacted(run) == [1, 0, 0, 1] && run["ends"][0].is_null(), || "reactions".into())
    });
}

/// A command is no part of the schedule: it has the ordinary class and no group of the run.
#[test]
fn each_missed_job_starts_a_command_beside_the_schedule() {
    let text = "policy: edf\ncpus: 0\nexec_limit: 1000\ntasks: [{name: a, period: 40ms, deadline: 5ms, runtime: 5ms, init: yes, \
                cmd: exec takt burn --runtime 15ms, on_miss: {exec: 'echo \"$TAKT_TASK $TAKT_JOB $TAKT_CAUSE\" >> hits; \
                grep -o takt- /proc/$$/cgroup >> groups; chrt -p $$ | head -n 1 >> classes'}}]";
    on_each_mechanism(text, &["--duration", "1s"], |run, room| {
        let [hits, classes, groups] = ["hits", "classes", "groups"].map(|name| room.text(name));
        for name in ["hits", "classes", "groups"] {
            std::fs::remove_file(room.path(name)).map_err(|e| e.to_string())?;
        }
        let [missed, met] = counts(&run["tasks"][0], ["missed", "met"]);
        let [jobs, done, suppressed, failed] = reacted(run);
        ensure(missed == 25 && met == 0 && jobs == missed, || format!("{jobs} reactions"))?;
        // The last one may have come with the end.
        ensure(done + 1 >= jobs && (suppressed, failed) == (jobs - done, 0), || format!("{done} done"))?;
        let mut numbers = hits.lines().map(|line| line.strip_prefix("a ")?.strip_suffix(" miss")?.parse::<u64>().ok());
        let mut all: Vec<u64> = Vec::new();
        ensure(
            numbers.all(|number| {
                number.is_some_and(|number| {
                    all.push(number);
                    number < 25
                })
            }),
            || hits.clone(),
        )?;
        all.sort_unstable();
        all.dedup();
        ensure(all.len() + 1 >= done as usize, || format!("{all:?}"))?;
        ensure(groups.is_empty() && classes.lines().all(|line| line.ends_with("SCHED_OTHER")), || classes.clone())
    });
}

/// The run ends at the first missed job, with status 1, and names it.
#[test]
fn a_missed_job_can_end_the_run() {
    let text = "policy: edf\ncpus: 0\ntasks: [{name: brake, period: 50ms, runtime: 5ms, init: yes, on_miss: stop, cmd: exec takt burn \
                --runtime 80ms}]";
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(text);
            let all = ["run", "w.yaml", "--duration", "100s", "--mechanism", mechanism];
            let said = room.takt(&all).expect(1).stdout;
            assert!(said.contains("stopped because job 0 of brake missed its deadline"), "{said}");
            let run = room.takt(&[&all[..], &["--json"]].concat()).expect(1);
            let run: Value = serde_json::from_str(&run.stdout).expect("an object");
            let ended = (&run["ended"], &run["ended_by"], &run["ended_by_job"]);
            assert_eq!(ended, (&"miss".into(), &"brake".into(), &0.into()), "{run}");
            assert_eq!(reacted(&run)[1], 1, "{run}");
        }
    });
}

/// An overrun is known when it happens: at the end of the budget, or of an activation, and where only a runtime is declared, at the
/// job's end at the latest.
#[test]
fn overruns_are_found_by_budget_runtime_and_window() {
    let online = |keys: &str, runtime: &str| {
        format!(
            "policy: edf\ncpus: 0\nexec_limit: 1000\ntasks: [{{name: a, period: 50ms, init: yes, cmd: exec takt burn --runtime {runtime}, \
             on_overrun: {{exec: 'echo $TAKT_CAUSE >> hits'}}, {keys}}}]"
        )
    };
    let table = "exec_limit: 1000\nwindows: [{length: 50ms, cpu: 0, sc_partition: A}]\npartitions: [{name: A, processes: [{name: a, budget: \
                 10ms, init: yes, cmd: exec takt burn --runtime 15ms, on_overrun: {exec: 'echo $TAKT_CAUSE >> hits'}}]}]";
    // The work of an aborted job is done by its successor, which then begins its own.
    for (text, most, least) in [
        (online("runtime: 10ms", "20ms"), 20, 19),
        (online("runtime: 20ms", "10ms"), 1, 0),
        (online("budget: 10ms, runtime: 10ms, on_abort: signal", "20ms"), 20, 19),
        (online("budget: 20ms", "10ms"), 1, 0),
        (table.to_owned(), 10, 8),
    ] {
        on_each_mechanism(&text, &["--duration", "1s"], |run, room| {
            let hits = room.text("hits").lines().filter(|line| *line == "overrun").count() as u64;
            let _ = std::fs::remove_file(room.path("hits"));
            let [jobs, done, ..] = reacted(run);
            ensure((least..=most).contains(&jobs) && done + 1 >= jobs && hits + 1 >= done, || {
                format!("{hits} hits: {text}")
            })
        });
    }
}

/// However many jobs are missed and however long commands live, few are started, and the rest is counted.
#[test]
fn a_thousand_misses_in_a_second_start_few_commands() {
    // Ten in any second, and 64 at one time.
    for (limit, least, most) in [("", 10, 30), ("exec_limit: 1000\n", 64, 64)] {
        let text = format!(
            "{limit}policy: edf\ncpus: 0\nbacklog: skip\ntasks: [{{name: a, period: 1ms, runtime: 500us, \
             cmd: exec takt burn --runtime 1000s, on_miss: {{exec: sleep 1000}}}}]"
        );
        on_each_mechanism(&text, &["--duration", "2500ms"], |run, _| {
            let [jobs, done, suppressed, failed] = reacted(run);
            ensure(jobs >= 2000 && (least..=most).contains(&done), || format!("{done} of {jobs}"))?;
            let notes = run["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let told = notes.filter(|note| note.contains("were not started") && note.contains("exec_limit")).count();
            ensure(done + suppressed == jobs && failed == 0 && told == 1, || "counts".into())
        });
    }
}

/// Commands that never end, with a daemon of their own, do not hold up the end of a run and do not outlive it: not after its duration,
/// not after Ctrl-C, and not after `kill -9`.
#[test]
fn commands_do_not_outlive_the_run() {
    let text = "policy: edf\ncpus: 0\ntasks: [{name: a, period: 50ms, deadline: 5ms, runtime: 5ms, init: yes, cmd: exec takt burn \
                --runtime 10ms, on_miss: {exec: 'setsid sleep 1000 & touch hit; trap \"\" INT TERM; exec sleep 1000'}}]";
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(text);
            let running = room.start(&["run", "w.yaml", "--mechanism", mechanism, "--duration", "1s"]);
            let pid = running.pid();
            running.wait().expect(0);
            assert!(room.path("hit").exists() && processes(pid).is_empty(), "{mechanism}: {:?}", processes(pid));
            for signal in [Signal::INT, Signal::KILL] {
                attempts(3, || {
                    let room = Room::with(text);
                    let running = room.start(&["run", "w.yaml", "--mechanism", mechanism]);
                    let pid = running.pid();
                    until("a command runs", || room.path("hit").exists());
                    if signal == Signal::KILL {
                        running.kill_and_wait();
                    } else {
                        running.signal(signal);
                        running.wait().expect(0);
                    }
                    ensure(processes(pid).is_empty(), || format!("{mechanism}: {:?}", processes(pid)))
                });
            }
        }
    });
}
