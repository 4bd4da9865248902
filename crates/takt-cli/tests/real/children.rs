//! Processes and surroundings that do not behave.

use crate::common::{
    Room, Running, TAKT, attempts, ensure, groups, has_cpus, kill, mechanisms, pause, processes, starters, state,
    until, watchers,
};
use crate::machine::{Capability, on_cpus, skip};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use takt_core::record::RecordKind;

/// One process in windows of 20 ms.
fn alone(cmd: &str) -> Room {
    Room::with(&format!(
        "windows: [{{length: 20ms, cpu: 0, sc_partition: SC}}]\n\
         partitions: [{{name: SC, processes: [{{cmd: '{cmd}', budget: 15ms}}]}}]\n"
    ))
}

#[test]
fn processes_that_ignore_signals_fork_or_hide_are_ended() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            for (what, cmd) in [
                ("ignores signals", "trap \"\" TERM INT HUP QUIT; touch here; while :; do sleep 0.01; done"),
                ("forks on", "touch here; while :; do sleep 100 & sleep 0.005; done"),
                (
                    "is a daemon",
                    "trap \"\" HUP; setsid sh -c \"(setsid sleep 100 &) & exit\" < /dev/null & touch here; exit 0",
                ),
            ] {
                let room = alone(cmd);
                let running = room.start(&["run", "w.yaml", "--mechanism", mechanism]);
                until("it runs", || room.path("here").exists());
                pause(100);
                assert!(!processes(running.pid()).is_empty(), "{mechanism}: who {what} lives");
                running.signal(Signal::TERM);
                // By itself it would not end.
                running.wait().expect(0);
            }
        }
    });
}

#[test]
fn a_daemon_keeps_its_run_alive() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = alone("(setsid sh -c \"sleep 0.3; touch late\" &) ; exit 0");
            let done = room.takt(&["run", "w.yaml", "--mechanism", mechanism, "--json"]);
            assert_eq!(done.json()["ended"], "all exited", "{mechanism}");
            assert!(room.path("late").exists(), "{mechanism}: it was given its windows until it had ended");
        }
    });
}

#[test]
fn a_process_that_ends_at_once_ends_the_run() {
    on_cpus(|| {
        let done = alone("exit 0").takt(&["run", "w.yaml"]).expect(0);
        assert!(done.stdout.contains("all processes ended"), "{}", done.stdout);
        let done = alone("exit 7").takt(&["run", "w.yaml"]).expect(1);
        assert!(done.stdout.contains("warning: SC-1 ended with status 7"), "{}", done.stdout);
    });
}

#[test]
fn a_command_that_is_not_there_is_a_failure() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let done = alone("/nonexistent/program").takt(&["run", "w.yaml", "--mechanism", mechanism]).expect(1);
            let warning = "warning: SC-1 ended with status 127: its command was not found";
            assert!(done.stdout.contains(warning), "{mechanism}: {}", done.stdout);
        }
        let room = Room::with(
            "windows: [{length: 20ms, cpu: 0, sc_partition: SC}]\n\
         partitions: [{name: SC, processes: [{cmd: /nonexistent/program, budget: 5ms}, {cmd: exec takt burn --runtime 1ms --jobs 2, budget: 5ms}]}]\n",
        );
        let done = room.takt(&["run", "w.yaml"]).expect(0);
        assert!(done.stdout.contains("status 127"), "one of two failed: {}", done.stdout);
    });
}

/// A pipe that is full, and has no reader: both its ends.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let flags = rustix::fs::fcntl_getfl(&write).unwrap();
    rustix::fs::fcntl_setfl(&write, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&write, &[b'x'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&write, flags).unwrap();
    (read, write)
}

#[test]
fn a_full_pipe_holds_up_neither_the_schedule_nor_its_end() {
    on_cpus(|| {
        for which in ["stdout", "stderr"] {
            for by_signal in [false, true] {
                // One writes into the pipe for ever; the other continues, and shows it.
                let room = Room::with(
                    "windows: [{length: 20ms, cpu: 0, sc_partition: SC}]\n\
                 partitions:\n\
                 - name: SC\n  \
                   processes: [{cmd: 'yes; yes >&2', budget: 5ms},\n              \
                   {cmd: 'while takt done; do echo job >> jobs; done', budget: 10ms}]\n",
                );
                let (_read, write) = full_pipe();
                let duration = if by_signal { "1000s" } else { "2s" };
                let mut command = room.command(&["run", "w.yaml", "--duration", duration, "--trace", "t.jsonl"]);
                let (stdout, stderr) = match which {
                    "stdout" => (Stdio::from(write), Stdio::null()),
                    _ => (Stdio::null(), Stdio::from(write)),
                };
                let running = Running::start_with_own_output(command.stdout(stdout).stderr(stderr));
                drop(command);
                let pid = running.pid();
                if by_signal {
                    until("the schedule continues", || room.text("jobs").lines().count() >= 5);
                    running.signal(Signal::TERM);
                } else {
                    // Its two seconds may be over before there are so many jobs.
                    until("the schedule runs", || room.text("t.jsonl").matches("\"type\":\"window\"").count() >= 5);
                }
                until("everything of the run is gone", || processes(pid).is_empty() && groups(pid).is_empty());
                if !by_signal {
                    // The summary waits for a reader of the pipe, as any program's output; but it can be interrupted.
                    pause(200);
                    running.signal(Signal::TERM);
                }
                running.wait_unchecked();
                until("the watcher has ended", || watchers(pid).is_empty());
                let trace = room.trace("t.jsonl");
                let windows =
                    trace.records.iter().filter(|r| matches!(r.record.kind, RecordKind::Window { .. })).count();
                assert!(windows >= 5, "{which}: {windows} windows");
            }
        }
    });
}

#[test]
fn a_full_disk_ends_a_run_at_once_and_loses_nothing_else() {
    on_cpus(|| {
        if !Path::new("/dev/full").exists() {
            skip(Capability::DevFull, "there is no /dev/full");
            return;
        }
        for (option, file) in
            [("--trace", "t.jsonl"), ("--trace", "t.pftrace"), ("--record", "t.steps"), ("--jobs", "t.csv")]
        {
            let room = alone("exec takt burn");
            std::os::unix::fs::symlink("/dev/full", room.path(file)).unwrap();
            let others = if option == "--trace" { ["--jobs", "whole.csv"] } else { ["--trace", "whole.jsonl"] };
            let done =
                room.takt(&[&["run", "w.yaml", "--duration", "20s", option, file], &others[..]].concat()).expect(1);
            let error = format!("error[unwritable-file]: cannot write `{file}`");
            assert!(done.stderr.contains(&error), "{option}: {}", done.stderr);
            assert!(done.stdout.contains("SC-1"), "{option}: the summary is there: {}", done.stdout);
            assert!(done.stdout.contains("stopped because a file could not be written"), "{option}: {}", done.stdout);
            assert!(done.took < Duration::from_secs(15), "{option}: {:?}", done.took);
            // The other file has its end.
            if option != "--trace" {
                assert!(room.trace("whole.jsonl").footer.is_some(), "{option}");
            }
        }
        let room = alone("exec takt burn");
        std::os::unix::fs::symlink("/dev/full", room.path("t.svg")).unwrap();
        let done = room.takt(&["run", "w.yaml", "--duration", "400ms", "--gantt", "t.svg"]).expect(1);
        assert!(done.took >= Duration::from_millis(400), "a picture is drawn at the end");
    });
}

#[test]
fn windows_that_a_stopped_scheduler_missed_are_lost_and_counted() {
    on_cpus(|| {
        attempts(5, stopped_for_a_while);
    });
}

/// One such run; an error if more windows than a stall or two explain follow one another too closely.
fn stopped_for_a_while() -> Result<(), String> {
    const LENGTH: i64 = 20_000_000;
    let room = alone("exec takt burn");
    let running = room.start(&["run", "w.yaml", "--trace", "t.jsonl", "--json"]);
    let windows = || room.text("t.jsonl").matches("\"type\":\"window\"").count();
    until("the schedule runs", || windows() >= 10);
    running.signal(Signal::STOP);
    pause(500);
    let before = windows();
    running.signal(Signal::CONT);
    until("the schedule continues", || windows() >= before + 30);
    running.signal(Signal::INT);
    let run = running.wait().json();
    let lost = run["windows_lost"].as_u64().unwrap();
    assert!(lost >= 20, "{run}");
    let trace = room.trace("t.jsonl");
    let (mut windows, mut counted, mut next) = (0, 0, 0);
    let (mut before, mut now) = (0, 0);
    for r in &trace.records {
        let at = r.record.at.ns();
        if at > now {
            (before, now) = (now, at);
        }
        match r.record.kind {
            RecordKind::Window { frame, .. } => {
                assert_eq!(frame, next, "each window once, none of the lost ones");
                assert_eq!(at / LENGTH, frame as i64, "each in its place");
                // The window that was going on when the scheduler came back begins there; all others on the grid.
                assert!(at % LENGTH == 0 || at - before >= LENGTH, "at {at}, after {before}");
                next += 1;
                windows += 1;
            }
            RecordKind::WindowsLost { count } => {
                counted += count;
                next += count;
            }
            _ => {}
        }
    }
    assert_eq!((counted, windows + lost), (lost, next), "each window is there or lost");
    let all: Vec<_> = trace.records.iter().filter(|r| matches!(r.record.kind, RecordKind::Window { .. })).collect();
    let close = all.windows(2).filter(|w| (w[1].applied - w[0].applied).ns() < LENGTH / 2).count();
    // A stall of the machine makes one window late, and so the next one close.
    ensure(close <= 10, || format!("a burst: {close} windows follow within half a length"))
}

/// `count` partitions of one process each, in windows of a millisecond each, after one idle window.
fn many(count: usize, idle: &str, cmd: impl Fn(usize) -> String) -> String {
    let (mut windows, mut partitions) = (format!("windows:\n- {{length: {idle}}}\n"), "partitions:\n".to_string());
    for i in 0..count {
        writeln!(windows, "- {{length: 2ms, cpu: 0, be_partition: P{i}}}").unwrap();
        writeln!(partitions, "- {{name: P{i}, processes: [{{cmd: '{}', budget: 2ms}}]}}", cmd(i)).unwrap();
    }
    windows + &partitions
}

#[test]
fn a_child_has_its_own_descriptors_only() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let cmd = |i| format!("echo $DEMOS_PARAMETERS,$TAKT_CLIENT > par{i}; exec ls /proc/self/fd > fds{i}");
            let room = Room::with(&many(50, "1ms", cmd));
            room.takt(&["run", "w.yaml", "--mechanism", mechanism]).expect(0);
            for i in 0..50 {
                let parameters = room.text(&format!("par{i}"));
                let [completed, resume, _, page, ..] = parameters.trim().split(',').collect::<Vec<_>>()[..] else {
                    panic!("{parameters}");
                };
                let own = ["0", "1", "2", completed, resume, page].into_iter();
                let mut own: BTreeSet<i32> = own.map(|n| n.parse().unwrap()).collect();
                // `ls` has the directory open that it lists.
                own.extend((3..).find(|n| !own.contains(n)));
                let there = room.text(&format!("fds{i}"));
                let there = there.split_whitespace().map(|n| n.parse().unwrap()).collect::<BTreeSet<i32>>();
                assert_eq!(there, own, "{mechanism}: process {i}");
            }
        }
    });
}

#[test]
fn three_hundred_partitions_take_one_descriptor_each() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(&many(300, "300ms", |_| "exec sleep 100".into()));
            let running = room.start(&["run", "w.yaml", "--mechanism", mechanism, "--trace", "t.jsonl"]);
            until("the schedule runs", || room.text("t.jsonl").lines().count() > 1000);
            let count = fs::read_dir(format!("/proc/{}/fd", running.pid())).unwrap().count();
            println!("{mechanism}: {count} descriptors for 300 partitions");
            running.signal(Signal::INT);
            running.wait().expect(0);
            assert!(count <= 300 + 40, "{mechanism}: {count}");
        }
    });
}

/// Whether a process is in a group of the run, in the hierarchy by which the mechanism stops it.
fn is_inside(pid: i32, run: i32, mechanism: &str) -> bool {
    // One that has ended meanwhile did not escape.
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else { return true };
    let stops = |id: &str, controllers: &str| match mechanism {
        "v1" => controllers.split(',').any(|c| c == "freezer"),
        _ => id == "0" && controllers.is_empty(),
    };
    text.lines().any(|line| {
        let mut fields = line.splitn(3, ':');
        let [id, controllers, path] = [(); 3].map(|()| fields.next().unwrap_or_default());
        stops(id, controllers) && path.contains(&format!("/takt-{run}-"))
    })
}

#[test]
fn a_thousand_forking_processes_do_not_escape() {
    on_cpus(|| {
        const EACH: usize = 500;
        let is_program =
            |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"));
        let programs = |run: i32| processes(run).into_iter().filter(is_program).collect::<Vec<_>>();
        for mechanism in mechanisms() {
            if mechanism == "signal" {
                continue;
            }
            for round in 0..2 {
                // No process may run in the idle window that comes first. A check that takes longer sees the next ones.
                let room = Room::with(&many(EACH, "700ms", |_| "sleep 100 & sleep 100".into()));
                let running = room.start(&["run", "w.yaml", "--mechanism", mechanism, "--trace", "t.jsonl"]);
                let pid = running.pid();
                let mut before = Instant::now();
                until("the schedule starts", || {
                    let starts = !room.text("t.jsonl").is_empty();
                    before = if starts { before } else { Instant::now() };
                    starts
                });
                let early = programs(pid);
                let begun = before.elapsed() > Duration::from_millis(500)
                    || room.text("t.jsonl").contains("\"type\":\"start\"");
                assert!(begun || early.is_empty(), "{mechanism}: {} forked before their first window", early.len());
                until("all have forked", || {
                    let all = processes(pid);
                    let outside = all.iter().filter(|p| !is_inside(**p, pid, mechanism)).count();
                    assert_eq!(outside, 0, "{mechanism}: outside of the run's groups");
                    all.len() >= 3 * EACH
                });
                if round == 0 {
                    running.signal(Signal::TERM);
                    running.wait().expect(0);
                } else {
                    let took = running.kill_and_wait();
                    println!("{mechanism}: {} processes were gone {took:?} after kill -9", 3 * EACH);
                }
            }
        }
    });
}

#[test]
fn standard_input_is_empty() {
    on_cpus(|| {
        let room = alone("cat > in; echo read >> in; exec sleep 100");
        let mut command = std::process::Command::new(TAKT);
        command.args(["run", "w.yaml"]).current_dir(room.path(""));
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        rustix::io::write(&write, b"typed").unwrap();
        let running = Running::start(command.stdin(Stdio::from(read)));
        until("it has read what there is", || room.text("in") == "read\n");
        running.signal(Signal::INT);
        running.wait().expect(0);
        assert_eq!(room.text("in"), "read\n");
    });
}

#[test]
fn an_unread_trace_does_not_delay_the_end() {
    on_cpus(|| {
        let room = Room::with(
            "windows: [{length: 1ms, cpu: 0, sc_processes: [{cmd: 'while takt done; do echo job >> jobs; done', budget: 0.8}]}]\n",
        );
        let (_read, write) = full_pipe();
        let mut command = room.command(&["run", "w.yaml", "--duration", "1000s", "--trace", "-"]);
        let running = Running::start_with_own_output(command.stdout(Stdio::from(write)).stderr(Stdio::null()));
        drop(command);
        until("the schedule continues", || room.text("jobs").lines().count() >= 5);
        running.signal(Signal::TERM);
        let (pid, _) = running.wait_unchecked();
        until("everything of the run is gone", || processes(pid).is_empty() && groups(pid).is_empty());
        until("the watcher has ended", || watchers(pid).is_empty());
    });
}

#[test]
fn a_failed_process_has_not_met_its_deadline() {
    on_cpus(|| {
        // A program that is not there, started again for every job: no job is met, and every process failed.
        let room = Room::with(
            "policy: edf\ntasks: [{name: j, spawn: per-job, period: 50ms, cmd: exec /nonexistent 2> /dev/null}]\n",
        );
        attempts(5, || {
            let done = room.takt(&["run", "w.yaml", "--duration", "400ms", "--json"]);
            let json: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
            let jobs = &json["jobs"];
            assert_eq!((&jobs["met"], &jobs["completed"]), (&0.into(), &0.into()), "{jobs}");
            ensure(jobs["aborted"].as_u64().unwrap() > 0, || jobs.to_string())?;
            done.expect(1);
            Ok(())
        });
        // A crash beside a task that lives is reported, and its job is missed.
        let room = Room::with(
            "policy: edf\ntasks: [{name: j, period: 50ms, cmd: 'kill -SEGV $$'}, {name: k, period: 50ms, cmd: exec takt burn --runtime 1ms}]\n",
        );
        attempts(5, || {
            let json = room.takt(&["run", "w.yaml", "--duration", "400ms", "--json"]).json();
            ensure(json["tasks"][0]["aborted"] == 1, || json.to_string())?;
            assert!(json["notes"].to_string().contains("j was ended by signal 11"), "{json}");
            Ok(())
        });
    });
}

#[test]
fn an_idle_table_and_a_pipe_without_a_reader() {
    on_cpus(|| {
        let done = Room::with("windows: [{length: 10ms}]\n").takt(&["run", "w.yaml", "--duration", "100ms", "--json"]);
        assert_eq!(done.expect(0).json()["duration_ns"], 100_000_000);
        let room = Room::with("policy: edf\ntasks: [{name: j, period: 50ms, cmd: echo, output: pipe}]\n");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            room.path("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let done = room.takt(&["run", "w.yaml", "--duration", "100ms"]).expect(3);
        assert!(done.stderr.contains("error[system-error]: ") && done.stderr.contains(" j, "), "{}", done.stderr);
    });
}

/// The starter is killed: it is no part of the schedule, and later processes are started all the same.
#[test]
fn a_run_survives_the_end_of_its_starter() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(
                "policy: edf\ncpus: 0\ntasks:\n\
             - {name: once, period: 20ms, runtime: 4ms, init: yes, on_exit: restart, cmd: exec takt burn --runtime 1ms --jobs 14}\n\
             - {name: ever, period: 10ms, runtime: 2ms, init: yes, cmd: exec takt burn --runtime 1ms}\n",
            );
            attempts(3, || {
                let running = room.start(&[
                    "run",
                    "w.yaml",
                    "--duration",
                    "1200ms",
                    "--json",
                    "--trace",
                    "t.jsonl",
                    "--mechanism",
                    mechanism,
                ]);
                until("the schedule runs", || room.text("t.jsonl").lines().count() > 10);
                // A process that it has just started has its name, too, until the first thaw.
                let starter = starters(running.pid()).into_iter().min().expect("a process");
                kill(starter, Signal::KILL);
                until("it is gone", || matches!(state(starter), 'X' | 'Z'));
                let run = running.wait().json();
                let _ = fs::remove_file(room.path("t.jsonl"));
                let [once, ever] = [0, 1].map(|task| &run["tasks"][task]);
                let count = |task: &serde_json::Value, key: &str| task[key].as_u64().expect("a count");
                // The first process ends after 280 ms, when the starter is gone.
                ensure((3..=4).contains(&count(once, "restarts")), || format!("{mechanism}: {run}"))?;
                ensure(count(ever, "met") + 1 >= count(ever, "released") && count(ever, "met") >= 110, || {
                    format!("{mechanism}: {run}")
                })
            });
        }
    });
}

/// The starter dies after it has started a process and before it has answered. That process is removed, and another one takes its place.
#[test]
fn a_half_started_process_is_replaced() {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(
                "policy: edf\ncpus: 0\ntasks:\n\
             - {name: again, period: 20ms, runtime: 4ms, on_exit: restart, cmd: exec takt burn --runtime 1ms --jobs 10}\n",
            );
            let running = room.start(&["run", "w.yaml", "--duration", "900ms", "--json", "--mechanism", mechanism]);
            until("the schedule runs", || starters(running.pid()).len() == 1);
            let starter = starters(running.pid())[0];
            match killed_in_the_middle(starter) {
                Ok(()) => {}
                Err(Errno::EPERM) => return println!("SKIPPED: this user may not trace processes"),
                Err(e) => panic!("{mechanism}: {e}"),
            }
            until("nothing is left of it", || starters(running.pid()).is_empty());
            let run = running.wait().json();
            let restarts = run["tasks"][0]["restarts"].as_u64().expect("a count");
            assert!(restarts >= 2, "{mechanism}: {run}");
            assert_eq!(run["tasks"][0]["failures"], 0, "{mechanism}: {run}");
        }
    });
}

/// Kills a process when it has started the next one, which begins all the same.
fn killed_in_the_middle(starter: i32) -> nix::Result<()> {
    let starter = Pid::from_raw(starter);
    let events = ptrace::Options::PTRACE_O_TRACECLONE | ptrace::Options::PTRACE_O_TRACEFORK;
    ptrace::seize(starter, events)?;
    loop {
        match waitpid(starter, Some(WaitPidFlag::__WALL))? {
            WaitStatus::PtraceEvent(..) => break,
            WaitStatus::Stopped(_, signal) => ptrace::cont(starter, signal)?,
            _ => return Err(Errno::ESRCH),
        }
    }
    let child = Pid::from_raw(ptrace::getevent(starter)? as i32);
    nix::sys::signal::kill(starter, nix::sys::signal::Signal::SIGKILL)?;
    // A tracer learns of the end before the parent does.
    while !matches!(waitpid(starter, Some(WaitPidFlag::__WALL))?, WaitStatus::Signaled(..)) {}
    if let WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) = waitpid(child, Some(WaitPidFlag::__WALL))? {
        // It may have been killed in between.
        if ptrace::detach(child, None).is_err() {
            waitpid(child, Some(WaitPidFlag::__WALL))?;
        }
    }
    Ok(())
}

/// A partition moves between two CPUs. All threads of its program are in its group, and on its CPU.
#[test]
fn all_threads_of_a_program_move_with_it() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        if !Capability::Python.is_present() {
            return skip(Capability::Python, "the program with threads needs python3");
        }
        let room = Room::with(
            "windows: [{length: 40ms, cpu: 0, sc_partition: A}, {length: 40ms, cpu: 1, sc_partition: A}]\n\
             partitions: [{name: A, processes: [{cmd: exec python3 threads.py, budget: 30ms}]}]\n",
        );
        let program = "import threading, time\n\
                       for _ in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n\
                       open('ready', 'w').close()\n\
                       time.sleep(60)\n";
        fs::write(room.path("threads.py"), program).expect("a file");
        for mechanism in mechanisms() {
            let _ = fs::remove_file(room.path("ready"));
            let running = room.start(&["run", "w.yaml", "--duration", "30s", "--mechanism", mechanism]);
            until("the threads have started", || room.path("ready").exists());
            let pid = processes(running.pid()).into_iter().find(|pid| threads(*pid).len() == 4).expect("a program");
            // Between two windows some threads may be ahead of others.
            for cpu in ["0", "1"] {
                until("all threads are on one CPU", || threads(pid).iter().all(|thread| thread.cpus == cpu));
            }
            let groups: BTreeSet<String> = threads(pid).into_iter().map(|thread| thread.groups).collect();
            assert_eq!(groups.len(), 1, "{mechanism}: {groups:?}");
            if mechanism != "signal" {
                let own = format!("/takt-{}-", running.pid());
                assert!(groups.iter().all(|group| group.contains(&own)), "{mechanism}: {groups:?}");
            }
            running.signal(Signal::INT);
            running.wait().expect(0);
        }
    });
}

/// A thread of a program: the CPUs that it may use, and its control groups.
struct Thread {
    cpus: String,
    groups: String,
}

fn threads(pid: i32) -> Vec<Thread> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let thread = |entry: fs::DirEntry| {
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"))?.to_owned();
        Some(Thread { cpus, groups: fs::read_to_string(entry.path().join("cgroup")).ok()? })
    };
    entries.filter_map(thread).collect()
}
