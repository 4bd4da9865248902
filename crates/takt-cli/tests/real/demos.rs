//! `takt demos` over real processes: schedules, messages, groups, ends and exit statuses as scripts for DEmOS expect them.

use crate::common::{
    Done, Room, Running, attempts, ensure, has_cpus, kill, mechanisms, pause, processes, until, watchers,
};
use crate::machine::{always, on_cpus};
use crate::schedules::{HARDER, SCHEDULES};
use rustix::process::Signal;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use takt_core::record::RecordKind;

/// Takes the CPU in its window, and never ends.
const ENDLESS: &str = "windows: [{length: 10, cpu: 0, sc_processes: {cmd: exec sleep 1000, budget: 4}}]";

/// `takt demos` with log lines that have no time.
fn demos(room: &Room, args: &[&str]) -> Command {
    let mut command = room.command(&[&["demos"], args].concat());
    command.env("DEMOS_PLAIN_LOG", "1").env_remove("SPDLOG_LEVEL");
    command
}

fn run(room: &Room, args: &[&str]) -> Done {
    Running::start(&mut demos(room, args)).wait()
}

fn has_line(done: &Done, line: &str) -> bool {
    done.stderr.lines().any(|known| known == format!(">>> {line}"))
}

#[test]
fn schedules_have_the_lines_of_demos() {
    if !has_cpus(2) {
        return;
    }
    on_cpus(|| {
        for (text, duration, expected) in SCHEDULES.iter().chain(&HARDER) {
            attempts(4, || {
                let room = Room::new();
                let mut command = demos(&room, &["-t", duration, "-C", text]);
                let done = Running::start(command.env("DEMOS_SCHEDULE_LOG", "log").env("DEMOS_RAND_SEED", "2")).wait();
                let done = done.expect(0);
                assert_eq!(done.stdout, "");
                assert!(has_line(&done, "[info] Timed out, stopping all processes"), "{}", done.stderr);
                ensure(room.text("log") == *expected, || format!("{text}\n{}", room.text("log")))
            });
        }
    });
}

/// A process that ends leaves its budget unused, and a run without processes ends, although its end has not come.
#[test]
fn a_process_that_has_ended_leaves_the_rest_of_its_budget_unused() {
    on_cpus(|| {
        attempts(3, || {
            let room = Room::new();
            let text = "windows: [{length: 200, cpu: 0, sc_processes: [{cmd: exit 3, budget: 60}, {cmd: exec sleep 1000, budget: 50}]}]";
            let done = Running::start(demos(&room, &["-t", "190", "-C", text]).env("DEMOS_SCHEDULE_LOG", "log")).wait();
            let done = done.expect(0);
            assert!(
                done.stderr.contains("exited with status 3 (partition: 'anonymous_0', cmd: 'exit 3')"),
                "{}",
                done.stderr
            );
            let expected = "     0: cpus=0 cmd='exit 3' budget=60\n    60: cpus=0 cmd='exec sleep 1000' budget=50\n";
            ensure(room.text("log") == expected, || room.text("log"))
        });
    });
}

#[test]
fn messages_come_before_the_processes_of_their_window() {
    on_cpus(|| {
        attempts(3, || {
            let room = Room::new();
            let text = "\
windows:
  - {length: 250, slices: [{cpu: 0, sc_partition: A}]}
  - {length: 150, slices: [{cpu: 0, sc_partition: A}]}
  - {length: 150, slices: [{cpu: 0, sc_partition: A}]}
partitions: [{name: A, processes: [{budget: 1000, cmd: 'for i in 1 2 3; do echo $i; takt done; done'}]}]";
            let done = run(&room, &["-m", "<WINDOW>", "-M", "<MF>", "-C", text]).expect(0);
            assert!(has_line(&done, "[info] All processes exited, stopping scheduler"), "{}", done.stderr);
            let expected = "<MF>\n<WINDOW>\n1\n<WINDOW>\n2\n<WINDOW>\n3\n<MF>\n<WINDOW>\n";
            ensure(done.stdout == expected, || done.stdout.clone())
        });
    });
}

#[test]
fn every_run_with_windows_has_such_messages() {
    on_cpus(|| {
        let room = Room::with(
            "windows: [{length: 10ms, cpu: 0, sc_processes: {cmd: exec sleep 1000, budget: 4ms}}, {length: 10ms}]",
        );
        let args = ["run", "w.yaml", "--duration", "35ms", "--on-window", "window", "--on-frame", "frame"];
        let done = room.takt(&args).expect(0);
        assert!(done.stdout.starts_with("frame\nwindow\nwindow\nframe\nwindow\nwindow\n"), "{}", done.stdout);
        let done = room.takt(&[&args[..], &["--json"]].concat()).expect(2);
        assert!(done.stderr.contains("error[conflicting-options]"), "{}", done.stderr);
        fs::write(room.path("w.yaml"), "policy: edf\ntasks: [{cmd: a, period: 10ms, runtime: 1ms}]").unwrap();
        assert!(room.takt(&args).expect(2).stderr.contains("error[not-applicable]"));
    });
}

/// Output without a reader: 300 windows, each with a message of 1000 bytes and a line on standard error.
#[test]
fn a_reader_that_does_not_read_delays_nothing() {
    on_cpus(|| {
        attempts(3, || {
            let room = Room::new();
            let message = "m".repeat(999);
            let comment = "c".repeat(500);
            let text = format!(
                "windows: [{{length: 5, cpu: 0, sc_processes: {{cmd: 'exec sleep 1000 # {comment}', budget: 9}}}}]"
            );
            let mut command = demos(&room, &["-t", "1500", "-m", &message, "--trace", "t.jsonl", "-C", &text]);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let began = std::time::Instant::now();
            let status = loop {
                if let Some(status) = child.try_wait().unwrap() {
                    break status;
                }
                always(began.elapsed() < Duration::from_secs(60), || "it waits for its reader".into());
                pause(5);
            };
            assert_eq!(status.code(), Some(0));
            let (mut out, mut log) = (String::new(), String::new());
            child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
            child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
            // Lines are whole or missing.
            assert!(out.lines().count() > 20 && out.lines().all(|line| line == message), "{}", out.lines().count());
            assert!(
                log.lines().filter(|line| line.contains("Window ended before all SC partitions finished")).count() > 20
            );
            let trace = room.trace("t.jsonl");
            let windows = trace.records.iter().filter(|r| matches!(r.record.kind, RecordKind::Window { .. })).count();
            let lost = trace.records.iter().any(|r| matches!(r.record.kind, RecordKind::WindowsLost { .. }));
            ensure(windows == 301 && !lost, || format!("{windows} windows"))
        });
    });
}

#[test]
fn the_end_of_the_run_also_ends_an_initialisation() {
    on_cpus(|| {
        let room = Room::new();
        // No time at all is left for the schedule, so no window begins.
        let ready = "windows: [{length: 10, cpu: 0, sc_processes: {cmd: takt done; exec sleep 1000, init: yes}}]";
        let done = run(&room, &["-t", "0", "-m", "window", "-C", ready]).expect(0);
        assert_eq!(done.stdout, "");
        for line in ["[info] Initializing 1 process", "[info] Zero timeout set, stopping immediately"] {
            assert!(has_line(&done, line), "{line}: {}", done.stderr);
        }
        let never =
            "init_timeout: 300ms\nwindows: [{length: 10, cpu: 0, sc_processes: {cmd: exec sleep 1000, init: yes}}]";
        let done = run(&room, &["-t", "50", "-C", never]).expect(0);
        assert!(has_line(&done, "[info] Timed out, stopping all processes"), "{}", done.stderr);
        assert!(run(&room, &["-C", never]).expect(1).stderr.contains("error[init-failed]"));
        // A process that ends in its initialisation does not keep the schedule from its beginning.
        let ends = "windows: [{length: 50, cpu: 0, sc_processes: [{cmd: exit 1, init: yes}, {cmd: echo here}]}]";
        assert_eq!(run(&room, &["-C", ends]).expect(0).stdout, "here\n");
    });
}

#[test]
fn exit_statuses_are_those_of_demos() {
    on_cpus(|| {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let room = Room::new();
            let running = Running::start(&mut demos(&room, &["-C", ENDLESS]));
            until("it schedules", || running.stderr().contains("Starting scheduler"));
            running.signal(signal);
            let done = running.wait().expect(0);
            assert!(done.stderr.contains("[info] Received stop signal"), "{}", done.stderr);
        }
        let room = Room::new();
        let fails = "windows: [{length: 30, cpu: 0, sc_processes: [exit 3, ./not-there]}]";
        let done = run(&room, &["-C", fails]).expect(1);
        assert!(has_line(&done, "[error] Every process failed"), "{}", done.stderr);
        run(&room, &["--strict-demos-exit", "-C", fails]).expect(0);
        // Nothing is waited for without processes.
        let done = run(&room, &["-t", "60000", "-C", fails]).expect(1);
        assert!(done.took < Duration::from_secs(30), "{:?}", done.took);
        run(&room, &["-C", "windows: [{length: 30, cpu: 0, sc_processes: [exit 3, exit]}]"]).expect(0);
        // The figures are on standard error, where they are wanted.
        let done = run(&room, &["-t", "30", "--report", "-C", ENDLESS]).expect(0);
        assert!(done.stdout.is_empty() && done.stderr.contains("scheduling latency"), "{}", done.stderr);
    });
}

/// Directories of control groups with this name, in every hierarchy.
fn named(name: &str) -> Vec<PathBuf> {
    fn find(dir: &Path, name: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                if entry.file_name() == name {
                    found.push(entry.path());
                }
                find(&entry.path(), name, found);
            }
        }
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        if let (Some(mount), Some("cgroup" | "cgroup2")) = (fields.next(), fields.next()) {
            find(Path::new(mount), name, &mut found);
        }
    }
    found
}

#[test]
fn groups_have_the_names_of_demos() {
    on_cpus(|| {
        for mechanism in mechanisms().into_iter().filter(|mechanism| *mechanism != "signal") {
            let room = Room::new();
            let name = format!("demos-test-{}", std::process::id());
            let text = "\
windows: [{length: 10, slices: [{cpu: 0, sc_partition: keep, be_partition: 'a b'}]}]
partitions: [{name: keep, processes: [{cmd: exec sleep 1000, budget: 2}, {cmd: exec sleep 1000, budget: 2}]},
             {name: 'a b', processes: [{cmd: exec sleep 1000, budget: 2}]}]";
            let args = ["-g", &name, "--mechanism", mechanism, "-C", text];
            let running = Running::start(&mut demos(&room, &args));
            until("it schedules", || running.stderr().contains("Starting scheduler"));
            let tops = named(&name);
            assert!(!tops.is_empty(), "{mechanism}: no group has the name");
            // The hierarchy that lists processes has a group for each.
            let listed = |path: &str| {
                tops.iter().any(|top| {
                    fs::read_to_string(top.join(path).join("cgroup.procs")).is_ok_and(|p| p.lines().count() == 1)
                })
            };
            for path in ["keep/proc0", "keep/proc1", "a b/proc0"] {
                assert!(listed(path), "{mechanism}: {path} in {tops:?}");
            }
            // A second run does not touch the groups of a live one.
            let refused = run(&room, &args).expect(1);
            assert!(refused.stderr.contains(&format!("the group `{name}` belongs to a run")), "{}", refused.stderr);
            assert!(listed("keep/proc0"), "{mechanism}");
            running.signal(Signal::TERM);
            running.wait().expect(0);
            assert_eq!(named(&name), Vec::<PathBuf>::new(), "{mechanism}");
            // Those of a dead run are cleaned by the next one, and by the doctor.
            for clean in [["doctor", "--clean"].as_slice(), &["demos", "-t", "20", "-g", &name, "-C", ENDLESS]] {
                let running = Running::start(&mut demos(&room, &args));
                until("it schedules", || running.stderr().contains("Starting scheduler"));
                let pid = running.pid();
                watchers(pid).into_iter().for_each(|watcher| kill(watcher, Signal::KILL));
                until("the watcher is dead", || watchers(pid).is_empty());
                running.signal(Signal::KILL);
                let _ = running.wait_unchecked();
                assert!(
                    !named(&name).is_empty() && !processes(pid).is_empty(),
                    "{mechanism}: there is nothing to clean"
                );
                room.takt(clean).expect(0);
                assert_eq!(named(&name), Vec::<PathBuf>::new(), "{mechanism}: {clean:?}");
                assert_eq!(processes(pid), Vec::<i32>::new(), "{mechanism}: {clean:?}");
            }
            // A group that Takt has not made stays.
            let own = tops[0].clone();
            fs::create_dir(&own).unwrap();
            let refused = run(&room, &args);
            let stays = own.is_dir();
            let _ = fs::remove_dir(&own);
            assert!(stays && refused.expect(1).stderr.contains("no run of Takt has made it"), "{mechanism}");
        }
    });
}

#[test]
fn slices_of_missing_cpus_run_on_those_that_are_there() {
    on_cpus(|| {
        let room = Room::new();
        let windows = "windows: [{length: 20, slices: [{cpu: 0, sc_processes: {cmd: exec takt burn, budget: 5}}, \
                       {cpu: 62, sc_processes: {cmd: exec takt burn, budget: 5}}, {cpu: '1,61', be_processes: {cmd: exec takt burn}}]}]";
        let done = run(&room, &["-t", "60", "--trace", "t.jsonl", "-C", windows]).expect(0);
        for part in ["run on CPU cores '62', but", "the slice will run on core '", "of window #0 both run on core '"] {
            assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
        }
        // The trace keeps the numbers of the file, and all slices have had their turns.
        let trace = room.trace("t.jsonl");
        let starts = |task: u32| {
            let of = |kind: RecordKind| matches!(kind, RecordKind::Start { task: started, .. } if started.0 == task);
            trace.records.iter().filter(|record| of(record.record.kind)).count()
        };
        assert!((0..3).all(|task| starts(task) >= 3), "{:?}", [0, 1, 2].map(starts));
        let mapped = trace.header.places.iter().zip(&trace.header.real_places);
        let mapped: Vec<String> = mapped.map(|(place, real)| format!("{place} on {real}")).collect();
        for part in ["0 on 0", "1,61 on 1", "62 on 0"] {
            assert!(mapped.iter().any(|known| known == part), "{part}: {mapped:?}");
        }
        fs::write(room.path("w.yaml"), windows).unwrap();
        let refused = room.takt(&["run", "w.yaml", "--duration", "60ms"]).expect(3);
        assert!(refused.stderr.contains("error[missing-cpu]"), "{}", refused.stderr);
        fs::write(room.path("w.yaml"), format!("missing_cpus: remap\n{windows}")).unwrap();
        let done = room.takt(&["run", "w.yaml", "--duration", "60ms"]).expect(0);
        assert!(done.stderr.contains("warning: Slice is supposed to run on CPU cores '62'"), "{}", done.stderr);
    });
}

#[test]
fn a_shared_cpu_is_a_warning_here_and_an_error_for_takt_run() {
    on_cpus(|| {
        let room = Room::with(ENDLESS);
        let first = Running::start(&mut demos(&room, &["-C", ENDLESS]));
        until("it schedules", || first.stderr().contains("Starting scheduler"));
        let second = run(&room, &["-t", "30", "-C", ENDLESS]).expect(0);
        assert!(second.stderr.contains("[warning] CPUs were shared with"), "{}", second.stderr);
        assert!(room.takt(&["run", "w.yaml", "--duration", "30ms"]).expect(3).stderr.contains("error[cpu-in-use]"));
        first.signal(Signal::TERM);
        first.wait().expect(0);
    });
}

/// The levels of both loggers, and a service manager that is not there.
#[test]
fn the_environment_chooses_the_lines() {
    on_cpus(|| {
        let room = Room::new();
        let mut command = demos(&room, &["-t", "20", "-C", ENDLESS]);
        let done = Running::start(command.env("SPDLOG_LEVEL", "debug,process=off")).wait().expect(0);
        assert!(has_line(&done, "[debug] Starting DEmOS") && !done.stderr.contains("Spawning"), "{}", done.stderr);
        let mut command = demos(&room, &["-t", "20", "-C", ENDLESS]);
        let done = Running::start(command.env("SPDLOG_LEVEL", "off,process=info")).wait().expect(0);
        assert_eq!(done.stderr, ">>> [info] Spawning scheduled processes\n>>> [info] Scheduled processes spawned\n");
        let mut command = demos(&room, &["-s", "-t", "20", "-C", ENDLESS]);
        let done = Running::start(command.env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("XDG_RUNTIME_DIR")).wait();
        let done = done.expect(1);
        assert!(done.stderr.contains("`-s` needs a service manager of this user"), "{}", done.stderr);
    });
}

/// The runs of DEmOS's tests 0020-basic and 0100-api, with the output that these expect. Its program `api-test` prints each of its arguments
/// and completes after it.
#[test]
fn the_runs_of_the_tests_of_demos_print_the_same() {
    on_cpus(|| {
        let api_test = "for word in first second; do echo $word; takt done; done";
        let api_init = "echo init start; sleep 0.05; echo init done; takt done; exec sleep 0.01";
        for (args, text, expected) in [
            (
                &[][..],
                "{windows: [{length: 50, slices: [{cpu: 0, sc_partition: SC1}]}], partitions: [{name: SC1, processes: [{cmd: echo hello, \
                 budget: 500}]}]}"
                    .to_owned(),
                "hello\n",
            ),
            (&[], "{windows: [{length: 100, sc_partition: [ true ]}]}".into(), ""),
            (
                &[],
                format!("{{windows: [{{length: 250, slices: [{{cpu: 0, sc_partition: SC1}}]}}], partitions: [{{name: SC1, processes: [{{cmd: '{api_test}', budget: 500}}]}}]}}"),
                "first\nsecond\n",
            ),
            // The process that ends in its initialisation does not hold up the other one.
            (
                &[],
                "windows: [{length: 1, slices: [{cpu: 0, sc_partition: SC1}]}]\npartitions: [{name: SC1, processes: [{cmd: exit, budget: 100, \
                 init: yes}, {cmd: exit, budget: 100}]}]"
                    .into(),
                "",
            ),
            // Both initialise before the first window, at the same time.
            (
                &["-m", "<test>"],
                format!(
                    "windows: [{{length: 250, slices: [{{cpu: 0, sc_partition: SC1}}, {{cpu: 1, sc_partition: SC2}}]}}]\npartitions:\n\
                     - {{name: SC1, processes: [{{cmd: '{api_init}', budget: 250, init: yes}}]}}\n\
                     - {{name: SC2, processes: [{{cmd: '{api_init}', budget: 250, init: yes}}]}}"
                ),
                "init start\ninit start\ninit done\ninit done\n<test>\n",
            ),
            (
                &["-m", "<win>"],
                "windows: [{length: 250, slices: [{cpu: 0, sc_processes: {init: yes, cmd: 'echo init && takt done && echo done'}}]}]".into(),
                "init\n<win>\ndone\n",
            ),
        ] {
            if text.contains("SC2") && !has_cpus(2) {
                continue;
            }
            attempts(3, || {
                let room = Room::new();
                let done = run(&room, &[args, &["-C", &text]].concat()).expect(0);
                ensure(done.stdout == expected, || format!("{text}\n{}", done.stdout))
            });
        }
    });
}
