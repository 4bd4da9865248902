//! Completion and initialisation signals, from a script and from a program that speaks the protocol itself.

use crate::common::{Room, attempts, ensure};
use crate::machine::on_cpus;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use takt_core::record::{Outcome, RecordKind};
use takt_core::time::Span;

#[test]
fn a_script_completes_its_jobs_with_takt_done() {
    on_cpus(|| {
        let room = Room::with(
            "windows: [{length: 100ms, cpu: 0, sc_partition: SC}]\n\
         partitions: [{name: SC, processes: [{cmd: 'while takt done; do echo job >> jobs; done', budget: 90ms}]}]\n",
        );
        attempts(5, || {
            let _ = std::fs::remove_file(room.path("jobs"));
            let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--json"]).json();
            let [released, completed] = ["released", "completed"].map(|key| run["jobs"][key].as_u64().unwrap());
            assert_eq!(released + run["windows_lost"].as_u64().unwrap(), 10);
            let jobs = room.text("jobs").lines().count() as u64;
            assert!(
                (completed.saturating_sub(1)..=completed).contains(&jobs),
                "{jobs} lines after {completed} completions"
            );
            // The first one has to start a shell as well; a busy machine may take its time for that.
            ensure(completed >= 8, || run.to_string())?;
            let fastest = run["tasks"][0]["response_ns"]["min"].as_i64().unwrap();
            ensure(fastest < 60_000_000, || format!("the window is exhausted: {run}"))
        });
    });
}

#[test]
fn the_next_process_starts_when_one_completes() {
    on_cpus(|| {
        let room = Room::with(
            "windows: [{length: 100ms, cpu: 0, sc_partition: SC, be_partition: BE}]\n\
         partitions:\n\
         - {name: SC, processes: [{cmd: exec takt burn --runtime 5ms, budget: 40ms}, {cmd: exec takt burn, budget: 20ms}]}\n\
         - {name: BE, processes: [{cmd: exec takt burn, budget: 100ms}]}\n",
        );
        attempts(5, || {
            let run = room.takt(&["run", "w.yaml", "--duration", "800ms", "--trace", "t.jsonl", "--json"]).json();
            ensure(run["windows_lost"] == 0, || run.to_string())?;
            let trace = room.trace("t.jsonl");
            let (mut early, mut finished) = (0, None);
            for record in trace.records.iter().map(|r| r.record) {
                match record.kind {
                    RecordKind::Finish { task, outcome: Outcome::Completed, consumed, .. } if task.0 == 0 => {
                        let consumed = consumed.nominal_time();
                        // Where a host takes time away, the kernel may have charged it to no process.
                        ensure(consumed >= Span::from_us(4900), || format!("5 ms of CPU time took {consumed}"))?;
                        early += usize::from(consumed < Span::from_ms(30));
                        finished = Some(record.at);
                    }
                    RecordKind::Start { task, .. } if task.0 == 1 => {
                        if let Some(at) = finished.take() {
                            ensure(record.at == at, || {
                                format!("at {}, not at the instant of the completion, {at}", record.at)
                            })?;
                        }
                    }
                    _ => {}
                }
            }
            ensure(early >= 5, || format!("only {early} of 8 jobs gave budget back"))?;
            room.check("t.jsonl", "w.yaml")
        });
    });
}

/// The monotonic clock.
fn now() -> i64 {
    takt_linux::timer::now().ns()
}

/// The work of a program of DEmOS, without a library: it reads three numbers, writes to one descriptor and reads the other.
fn be_a_client(parameters: &str) {
    let numbers: Vec<i32> = parameters.split(',').map(|n| n.parse().unwrap()).collect();
    // SAFETY: the protocol hands these two open descriptors to this process, and nothing else here uses them.
    let [mut done, mut proceed] = [numbers[0], numbers[1]].map(|fd| unsafe { File::from_raw_fd(fd) });
    let mut log = File::options().create(true).append(true).open("log").unwrap();
    writeln!(log, "start {} {}", numbers[2], now()).unwrap();
    loop {
        done.write_all(&1u64.to_ne_bytes()).unwrap();
        let mut counter = [0; 8];
        proceed.read_exact(&mut counter).unwrap();
        assert_eq!(u64::from_ne_bytes(counter), 1, "a semaphore counts down by one");
        writeln!(log, "job - {}", now()).unwrap();
    }
}

#[test]
fn a_client_of_its_own_speaks_the_protocol() {
    if let Ok(parameters) = std::env::var("DEMOS_PARAMETERS") {
        return be_a_client(&parameters);
    }
    on_cpus(|| {
        let me = std::env::current_exe().unwrap();
        let this = "real::protocol::a_client_of_its_own_speaks_the_protocol";
        let room = Room::with(&format!(
            "windows: [{{length: 50ms, cpu: 0, sc_partition: SC}}]\n\
         partitions: [{{name: SC, processes: [{{cmd: 'exec {} --exact {this} --nocapture', budget: 40ms, init: yes}}]}}]\n",
            me.display()
        ));
        attempts(5, || {
            let _ = std::fs::remove_file(room.path("log"));
            let run = room.takt(&["run", "w.yaml", "--duration", "1s", "--trace", "t.jsonl", "--json"]).json();
            let trace = room.trace("t.jsonl");
            let start = trace.header.start_monotonic_ns.unwrap() as i64;
            let log = room.text("log");
            let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
            let at = |line: &[&str]| line[2].parse::<i64>().unwrap();
            assert_eq!(lines[0][..2], ["start", "1"], "it is asked to initialise: {log}");
            assert!(at(&lines[0]) < start, "and does so before the schedule starts");
            assert!(
                lines[1..].iter().all(|line| line[0] == "job" && at(line) >= start),
                "no job before the start: {log}"
            );
            let (jobs, released) = (lines.len() as u64 - 1, run["jobs"]["released"].as_u64().unwrap());
            assert_eq!(released + run["windows_lost"].as_u64().unwrap(), 20);
            assert!(jobs <= released, "{jobs} jobs of {released}");
            ensure(jobs >= 15, || format!("{jobs} jobs of {released}"))
        });
    });
}

#[test]
fn initialisation_that_takes_too_long_ends_the_run() {
    on_cpus(|| {
        let room = Room::with(
            "init_timeout: 2s\n\
         windows: [{length: 50ms, cpu: 0, sc_partition: SC}]\n\
         partitions:\n\
         - name: SC\n  \
           processes: [{name: ready, cmd: exec takt burn --init 1ms, init: yes, budget: 10ms},\n              \
           {name: sleeper, cmd: 'touch ran; exec sleep 100', init: yes, budget: 10ms},\n              \
           {name: other, cmd: 'touch other; exec takt burn', budget: 10ms}]\n",
        );
        let done = attempts(5, || {
            let done = room.takt(&["run", "w.yaml", "--duration", "20s"]).expect(1);
            // Within the limit a machine that is held up may not even start it, or the other one that should be ready.
            ensure(room.path("ran").exists() && !done.stderr.contains("ready"), || done.stderr.clone())?;
            Ok(done)
        });
        let error = "error[init-failed]: w.yaml: sleeper ";
        assert!(done.stderr.starts_with(error), "{}", done.stderr);
        assert!(done.stderr.contains("hint:") && done.stderr.contains("init_timeout"), "{}", done.stderr);
        assert!(!room.path("other").exists(), "only those that initialise run");
    });
}

#[test]
fn a_process_that_ends_instead_of_initialising_is_an_obstacle_unless_the_file_says_otherwise() {
    on_cpus(|| {
        let workload = "windows: [{length: 50ms, cpu: 0, sc_partition: SC}]\n\
         partitions: [{name: SC, processes: [{cmd: exit 3, init: yes, budget: 10ms}, {cmd: exec takt burn, budget: 20ms}]}]\n";
        // The schedule does not start without it, unless the file says that it may.
        let room = Room::with(workload);
        let said = room.takt(&["run", "w.yaml", "--duration", "500ms", "--trace", "t.jsonl"]).expect(1).stderr;
        assert!(said.contains("SC-1 ended with status 3 before it had signalled"), "{said}");
        assert!(said.contains("on_exit: end"), "{said}");
        let room = Room::with(&workload.replace("init: yes", "init: yes, on_exit: end"));
        let run = room.takt(&["run", "w.yaml", "--duration", "500ms", "--json"]).json();
        assert_eq!(run["ends"][0]["exited"], 3);
        assert_eq!(run["tasks"][0]["dispatches"], 0, "it is no part of the schedule any more: {run}");
        assert_eq!((&run["tasks"][0]["ended"], &run["tasks"][0]["failures"]), (&false.into(), &1.into()));
        let [activations, lost] = [&run["tasks"][1]["activations"], &run["windows_lost"]].map(|n| n.as_u64().unwrap());
        assert_eq!((activations + lost, &run["ended"]), (10, &"duration".into()));
        room.takt(&["run", "w.yaml", "--duration", "500ms", "--strict"]).expect(1);
    });
}

#[test]
fn done_without_a_scheduler_says_so() {
    let room = Room::new();
    let done = room.takt(&["done"]).expect(100);
    assert!(done.stderr.contains("error[client-protocol]: DEMOS_PARAMETERS"), "{}", done.stderr);
    let mut command = room.command(&["done"]);
    let done = crate::common::Running::start(command.env("DEMOS_PARAMETERS", "1,2")).wait().expect(101);
    assert!(done.stderr.contains("[client-protocol]"), "{}", done.stderr);
}
