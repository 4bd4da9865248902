//! Runs that are watched, changed and ended through their sockets, and clients that misbehave there.

use super::security::{OTHER, OWNER, as_user, public};
use crate::common::{Done, Room, Running, TAKT, attempts, ensure, kill, state, until, until_in};
use crate::machine::{always, on_cpus};
use crate::tmux::Tmux;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use takt_core::model::TaskId;
use takt_core::record::{Record, RecordKind};
use takt_core::time::Time;
use takt_trace::{Change, Trace};

const LOAD: &str = "\
policy: edf
cpus: 0
tasks:
- {name: left, period: 20ms, runtime: 4ms, cmd: exec takt burn --runtime 2ms}
- {name: right, period: 50ms, runtime: 10ms, cmd: exec takt burn --runtime 4ms}
- {name: event, event: {signal: USR1}, deadline: 40ms, runtime: 3ms, cmd: exec takt burn --runtime 1ms}
";

/// `takt` with the sockets of its runs in this room.
pub(super) fn command(room: &Room, args: &[&str]) -> Command {
    let mut command = room.command(args);
    command.env("XDG_RUNTIME_DIR", room.path(""));
    command
}

/// `takt ctl` for the run of the room: this machine may have others.
pub(super) fn ctl(room: &Room, args: &[&str]) -> Done {
    let own = sockets(room).first().map(|path| path.to_string_lossy().into_owned());
    let run = own.as_deref().filter(|_| !args.contains(&"--run")).map(|path| ["--run", path]);
    let run = run.as_ref().map_or(&[][..], |run| run.as_slice());
    Running::start(&mut command(room, &[&["ctl"], run, args].concat())).wait()
}

/// Starts a run of the workload of the room, and waits until its jobs complete.
pub(super) fn under_way(room: &Room, more: &[&str]) -> Running {
    let args = [&["run", "w.yaml", "--duration", "30s"], more].concat();
    let mut running = Running::start(&mut command(room, &args));
    until_in(&mut running, "jobs complete", || {
        let done = ctl(room, &["status", "--json"]);
        ensure(done.code() == 0, || done.stderr.clone())?;
        ensure(done.json()["tasks"][0]["completed"].as_u64() > Some(2), || done.stdout)
    });
    running
}

pub(super) fn status(room: &Room) -> Option<Value> {
    let done = ctl(room, &["status", "--json"]);
    (done.code() == 0).then(|| done.json())
}

fn sockets(room: &Room) -> Vec<PathBuf> {
    let entries = fs::read_dir(room.path("takt")).into_iter().flatten().flatten();
    // The files that show which runs live are beside them.
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_none_or(|ending| ending != "life")).collect()
}

#[test]
fn commands_change_a_run_and_its_record_replays() {
    on_cpus(|| {
        attempts(3, || {
            let room = Room::with(LOAD);
            let running = under_way(&room, &["--record", "w.steps", "--trace", "w.jsonl", "--json"]);
            for accepted in [
                &["set", "left.period=40ms", "left.importance=2"] as &[&str],
                &["policy", "fifo"],
                &["trigger", "event"],
                &["remove", "right"],
                &["policy", "llf"],
            ] {
                ctl(&room, accepted).expect(0);
            }
            until("it has left", || status(&room).is_some_and(|status| status["tasks"][1]["state"] == "gone"));
            // A job that is open keeps the terms of its task.
            until("the event has been handled", || {
                status(&room).is_some_and(|status| status["tasks"][2]["completed"] == 1)
            });
            ctl(&room, &["set", "event.deadline=30ms"]).expect(0);
            ctl(&room, &["add", "right"]).expect(0);
            fs::write(room.path("other.yaml"), LOAD.replace("20ms", "30ms")).expect("a file");
            ctl(&room, &["reload", "other.yaml"]).expect(0);
            assert_eq!(ctl(&room, &["reload", "other.yaml"]).expect(0).stdout, "unchanged\n");
            let status = status(&room).expect("a status");
            let task = |index: usize, key: &str| status["tasks"][index][key].clone();
            assert_eq!((task(0, "period_ns"), task(0, "importance")), (30_000_000.into(), 1.into()));
            assert_eq!(
                (task(2, "deadline_ns"), status["policies"][0]["policy"].clone()),
                (40_000_000.into(), "edf".into())
            );
            ctl(&room, &["stop"]).expect(0);
            let run = running.wait().json();
            assert_eq!(run["ended"], "command");
            assert_eq!(sockets(&room), Vec::<PathBuf>::new(), "the socket goes with the run");
            let steps = room.text("w.steps");
            let changes: Vec<&str> = steps.lines().filter(|line| line.contains("\"change\"")).collect();
            assert_eq!(changes.len(), 8, "{changes:?}");
            assert!(changes[0].contains("set left.period=40ms left.importance=2") && changes[0].contains("\"uid\":"));
            let replay = room.takt(&["sim", "w.yaml", "--replay", "w.steps", "--trace", "r.jsonl", "--json"]).json();
            let of = |run: &Value| {
                run["tasks"].as_array().expect("a list").iter().map(|task| task["released"].clone()).collect::<Vec<_>>()
            };
            assert_eq!(of(&replay), of(&run));
            let last = room.trace("w.jsonl").changes.pop().expect("changes");
            assert!(
                last.command == "stop" && last.pid > 0 && last.uid == rustix::process::getuid().as_raw(),
                "{last:?}"
            );
            let [ran, again] = ["w.jsonl", "r.jsonl"].map(|name| room.trace(name).records);
            let records = |records: Vec<takt_trace::Stamped>| {
                records.into_iter().map(|stamped| stamped.record).collect::<Vec<_>>()
            };
            assert!(records(ran) == records(again), "the replay is the run, bit for bit");
            ensure(run["tasks"][0]["missed"] == 0 && run["tasks"][1]["missed"] == 0, || run.to_string())
        });
    });
}

/// Tasks of other files. The program of the third one fails in its initialisation.
const MORE: &str = "\
policy: edf
cpus: 0
tasks:
- {name: more, period: 30ms, runtime: 3ms, init: yes, on_exit: restart, cmd: 'takt done; exec takt burn --runtime 1ms'}
- {name: follower, event: {after: left}, deadline: 15ms, runtime: 2ms, cmd: exec takt burn --runtime 500us}
- {name: fails, period: 30ms, runtime: 3ms, init: yes, cmd: exit 3}
- {name: kernel, period: 30ms, runtime: 3ms, class: other, cmd: exec sleep 9}
- {name: outside, event: {signal: USR2}, deadline: 9ms, runtime: 1ms, cmd: exec sleep 9}
- {name: left, period: 20ms, runtime: 4ms, cmd: exec takt burn --runtime 2ms}
";

/// A command adds a task that the file of the run does not have. Its name is in all outputs, a replay is the run, and a command that is refused
/// leaves no process.
#[test]
fn a_task_of_another_file_is_added() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        fs::write(room.path("more.yaml"), MORE).expect("a file");
        let outputs = ["--record", "w.steps", "--trace", "w.jsonl", "--json", "--spare-tasks", "2"];
        let running = under_way(&room, &[&outputs[..], &["--trace-size", "4M"]].concat());
        let add = |task: &str| ctl(&room, &["add", task, "--from", "more.yaml"]);
        let tasks = || status(&room).expect("a status")["tasks"].as_array().expect("a list").len();
        let said = add("fails").expect(1).stderr;
        assert!(said.starts_with("error[init-failed]") && said.contains("ended with status 3"), "{said}");
        for (task, words) in [
            ("kernel", "`class`"),
            ("outside", "source of events"),
            ("left", "the run has a task `left`"),
            ("mroe", "did you mean `more`?"),
        ] {
            let said = add(task).expect(2).stderr;
            assert!(said.starts_with("error[command-refused]") && said.contains(words), "{task}: {said}");
        }
        assert!(ctl(&room, &["add", "more"]).expect(2).stderr.contains("no task `more`"));
        assert!(ctl(&room, &["add", "more", "--from", "w.yaml"]).expect(2).stderr.contains("has no task `more`"));
        assert!(ctl(&room, &["add", "more", "--from", "none.yaml"]).expect(2).stderr.contains("none.yaml"));
        fs::write(room.path("bad.yaml"), MORE.replace("period: 30ms", "period: 0ms")).expect("a file");
        let bad = ctl(&room, &["add", "more", "--from", "bad.yaml"]).expect(2).stderr;
        assert!(bad.contains("bad.yaml:4") && bad.contains("period"), "{bad}");
        assert_eq!(tasks(), 3, "nothing has changed");
        // The place of a program that has failed is free again.
        assert!(add("more").expect(0).stdout.starts_with("changed at "));
        add("follower").expect(0);
        let completed = |index: usize| status(&room).and_then(|status| status["tasks"][index]["completed"].as_u64());
        until("both run", || completed(3) > Some(2) && completed(4) > Some(2));
        let known = status(&room).expect("a status");
        assert_eq!((&known["tasks"][3]["name"], &known["tasks"][4]["name"]), (&"more".into(), &"follower".into()));
        let pid = known["tasks"][3]["pid"].as_i64().expect("a process");
        // The process is replaced as one of the file.
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).expect("a number"), Signal::KILL)
            .expect("it is there");
        let before = completed(3);
        until("another one runs", || completed(3) > before.map(|completed| completed + 2));
        assert!(add("outside").expect(2).stderr.contains("cannot be added"));
        fs::write(room.path("more.yaml"), MORE.replace("name: more", "name: third")).expect("a file");
        let full = add("third").expect(2).stderr;
        assert!(full.contains("no place") && full.contains("--spare-tasks"), "{full}");
        ctl(&room, &["set", "more.period=40ms"]).expect(0);
        ctl(&room, &["remove", "more"]).expect(0);
        until("it has left", || status(&room).is_some_and(|status| status["tasks"][3]["state"] == "gone"));
        ctl(&room, &["add", "more"]).expect(0);
        ctl(&room, &["policy", "fifo"]).expect(0);
        let before = completed(3);
        until("it is back", || completed(3) > before);
        ctl(&room, &["stop"]).expect(0);
        let run = running.wait().json();
        assert_eq!((&run["ended"], &run["dropped_records"]), (&"command".into(), &0.into()));
        let names = |run: &Value| {
            let tasks = run["tasks"].as_array().expect("a list").clone();
            tasks.iter().map(|task| task["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&run), ["left", "right", "event", "more", "follower"]);
        let replayed = room.takt(&["sim", "w.yaml", "--replay", "w.steps", "--trace", "r.jsonl", "--json"]).json();
        assert_eq!(names(&replayed), names(&run));
        let records = |name| room.trace(name).records.into_iter().map(|stamped| stamped.record).collect::<Vec<_>>();
        assert!(records("w.jsonl") == records("r.jsonl"), "the replay is the run, bit for bit");
        let trace = room.trace("w.jsonl");
        let label = &trace.header.tasks[3];
        assert!(label.added && label.name == "more" && label.pid == Some(pid as u32), "{label:?}");
        assert!(trace.changes.iter().any(|change| change.command.starts_with("add more --from /")));
        // The same changes at the same instants, with the programs of the files.
        let changed = room.takt(&["sim", "w.yaml", "--changes", "w.steps", "--json"]).json();
        assert_eq!(names(&changed), names(&run));
        let task = |run: &Value, key: &str| run["tasks"][4][key].as_u64().expect("a number");
        assert!(task(&changed, "released") > 2 && task(&changed, "missed") == 0, "{changed}");
        room.takt(&["trace", "check", "w.jsonl", "w.yaml", "--tolerance", "5s"]).expect(0);
        fs::write(room.path("other.yaml"), LOAD.replace("20ms", "25ms")).expect("a file");
        let other = room.takt(&["sim", "other.yaml", "--changes", "w.steps"]).expect(2).stderr;
        assert!(other.starts_with("error[other-record]"), "{other}");
    });
}

/// A reload makes the tasks of the file those of the run, in one step: new ones are added, missing ones leave, and return with the next file. If one
/// program fails, nothing has changed.
#[test]
fn a_reload_adds_and_removes_tasks() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        let running = under_way(&room, &["--record", "w.steps", "--trace", "w.jsonl", "--json"]);
        let more = |name: &str| MORE.lines().find(|line| line.contains(&format!("name: {name},"))).expect("a line");
        // The order of the file is another one than that of the numbers, and a task follows a later one.
        let (head, tasks) = LOAD.split_once("tasks:\n").expect("a list");
        let own: Vec<&str> = tasks.lines().filter(|line| !line.contains("name: right")).collect();
        let after = more("follower").replace("after: left", "after: more");
        let write = |name: &str, tasks: &[&str]| {
            fs::write(room.path(name), format!("{head}tasks:\n{}\n", tasks.join("\n"))).expect("a file");
        };
        write("other.yaml", &[&[after.as_str(), more("more")], &own[..]].concat());
        let fails = more("fails").replace("cmd: exit", "cmd: sleep 0.3; exit");
        write("fails.yaml", &[&own[..], &[more("more"), more("fails")]].concat());
        write("fails-later.yaml", &[&own[..], &[more("more"), fails.as_str()]].concat());
        let task = |name: &str, key: &str| {
            let status = status(&room)?;
            let tasks = status["tasks"].as_array()?.clone();
            Some(tasks.into_iter().find(|task| task["name"] == name)?[key].clone())
        };
        // At the second failure the other new process has initialised.
        for file in ["fails.yaml", "fails-later.yaml"] {
            let mut failed = String::new();
            until("the other new process of the failure before is gone", || {
                failed = ctl(&room, &["reload", file]).expect(1).stderr;
                !failed.contains("`more`") && !failed.contains("try again")
            });
            assert!(failed.starts_with("error[init-failed]") && failed.contains("task `fails`"), "{failed}");
            assert_eq!((task("right", "state") == Some("gone".into()), task("more", "state")), (false, None));
        }
        until("the other new process is gone", || ctl(&room, &["reload", "other.yaml"]).code() == 0);
        let completed = |name: &str| task(name, "completed").and_then(|completed| completed.as_u64());
        until("both run", || completed("more") > Some(2) && completed("follower") > Some(2));
        until("it has left", || task("right", "state") == Some("gone".into()));
        assert_eq!(ctl(&room, &["reload", "other.yaml"]).expect(0).stdout, "unchanged\n");
        let before = completed("right");
        ctl(&room, &["reload", "w.yaml"]).expect(0);
        until("it is back", || completed("right") > before && task("more", "state") == Some("gone".into()));
        ctl(&room, &["stop"]).expect(0);
        let run = running.wait().json();
        let names = |run: &Value| {
            let tasks = run["tasks"].as_array().expect("a list").clone();
            tasks.iter().map(|task| task["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&run), ["left", "right", "event", "more", "follower"]);
        let steps = room.text("w.steps");
        assert_eq!(steps.matches("{\"change\":").count(), 2, "one for each reload that changed something");
        assert_eq!(steps.matches("\"text\":").count(), 1, "the tasks of a file share its text");
        let adding: Vec<&str> = steps.lines().filter(|line| line.contains("[\"add\",")).collect();
        assert!(adding.len() == 1 && adding[0].matches("[\"add\",").count() == 2, "{adding:?}");
        assert!(adding[0].contains("[\"leave\",1]"), "{adding:?}");
        let replayed = room.takt(&["sim", "w.yaml", "--replay", "w.steps", "--trace", "r.jsonl", "--json"]).json();
        assert_eq!(names(&replayed), names(&run));
        let records = |name| room.trace(name).records.into_iter().map(|stamped| stamped.record).collect::<Vec<_>>();
        assert!(records("w.jsonl") == records("r.jsonl"), "the replay is the run, bit for bit");
        let changed = room.takt(&["sim", "w.yaml", "--changes", "w.steps", "--json"]).json();
        assert_eq!(names(&changed), names(&run));
        assert!((3..5).all(|task| changed["tasks"][task]["met"].as_u64() > Some(2)), "{changed}");
        let trace = room.trace("w.jsonl");
        assert!(trace.changes.iter().filter(|change| change.command.starts_with("reload /")).count() == 2);
    });
}

/// Another program of the machine takes all idle time. A new process initialises nevertheless, in the second half of its limit.
#[test]
fn a_new_process_initialises_on_a_cpu_that_others_use() {
    on_cpus(|| {
        let room = Room::with(&LOAD.replace("cpus: 0\n", "cpus: 0\ninit_timeout: 4s\n"));
        let work = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; takt done; exec takt burn --runtime 1ms";
        let more = format!(
            "policy: edf\ncpus: 0\ntasks:\n- {{name: more, period: 30ms, runtime: 3ms, init: yes, cmd: '{work}'}}\n"
        );
        fs::write(room.path("more.yaml"), more).expect("a file");
        let running = under_way(&room, &[]);
        let mut other = Command::new("taskset");
        let other = Running::start(other.args(["-c", "0", "timeout", "20", "sh", "-c", "while :; do :; done"]));
        let added = ctl(&room, &["add", "more", "--from", "more.yaml"]);
        kill(other.pid(), Signal::TERM);
        other.wait();
        added.expect(0);
        until("it runs", || status(&room).is_some_and(|status| status["tasks"][3]["completed"].as_u64() > Some(2)));
        ctl(&room, &["stop"]).expect(0);
        running.wait().expect(0);
    });
}

/// A policy that reserves CPU time admits a new task only beside the others.
#[test]
fn a_policy_refuses_a_task_that_does_not_fit() {
    on_cpus(|| {
        let text = LOAD.replace("policy: edf", "policy: cbs").replace("runtime: 10ms", "runtime: 30ms");
        let text =
            text.lines().filter(|line| !line.contains("USR1")).map(|line| format!("{line}\n")).collect::<String>();
        let room = Room::with(&text);
        let task = |runtime: &str| {
            format!(
                "policy: cbs\ncpus: 0\ntasks:\n- {{name: new, period: 20ms, runtime: {runtime}, cmd: exec takt burn --runtime 1ms}}\n"
            )
        };
        let running = under_way(&room, &["--record", "w.steps"]);
        let add = |runtime: &str| {
            fs::write(room.path("new.yaml"), task(runtime)).expect("a file");
            ctl(&room, &["add", "new", "--from", "new.yaml"])
        };
        let said = add("9ms").expect(1).stderr;
        assert!(said.starts_with("error[not-admitted]") && said.contains("`new`"), "{said}");
        add("2ms").expect(0);
        let completed = || status(&room).and_then(|status| status["tasks"][2]["completed"].as_u64());
        until("it runs", || completed() > Some(2));
        ctl(&room, &["stop"]).expect(0);
        running.wait().expect(0);
        assert_eq!(room.text("w.steps").matches("{\"task\":").count(), 1, "the one that was refused is not recorded");
        // A window table takes none.
        let room = Room::with(TABLE);
        fs::write(room.path("new.yaml"), task("2ms")).expect("a file");
        let running = under_way(&room, &[]);
        let said = ctl(&room, &["add", "new", "--from", "new.yaml"]).expect(2).stderr;
        assert!(said.contains("window table"), "{said}");
        ctl(&room, &["stop"]).expect(0);
        running.wait().expect(0);
    });
}

/// Two windows of 5 ms, one for each partition.
const TABLE: &str = "\
windows:
- {length: 5ms, cpu: 0, sc_partition: A}
- {length: 5ms, cpu: 0, sc_partition: B}
partitions:
- {name: A, processes: [{name: left, budget: 3ms, cmd: exec takt burn --runtime 1ms}]}
- {name: B, processes: [{name: right, budget: 3ms, cmd: exec takt burn --runtime 1ms}]}
";

/// The same partitions in three windows, in another order and with other budgets.
fn other_table() -> String {
    let [first, second] = ["- {length: 5ms, cpu: 0, sc_partition: A}\n", "- {length: 5ms, cpu: 0, sc_partition: B}\n"];
    let windows = format!("{second}{first}{first}");
    TABLE.replace(&format!("{first}{second}"), &windows).replace("budget: 3ms", "budget: 2ms")
}

/// Memory of a reload is that of its file, however many tasks it adds. A file that is being read delays no end. `TAKT_LARGE` is a number of rounds, in which
/// times are limited, too: that needs the released program and a quiet machine.
#[test]
fn a_large_file_delays_no_end() {
    let measured = std::env::var("TAKT_LARGE").ok().map(|rounds| rounds.parse().expect("a number"));
    let rounds = measured.unwrap_or(3);
    // New tasks, seconds until they are refused, and MiB; seconds until an end.
    let (tasks, refusal, memory, end) = if measured.is_some() { (10_000, 2, 200, 1) } else { (4_000, 30, 300, 15) };
    let (mut longest_refusal, mut largest, mut longest_end) = (Duration::ZERO, 0, Duration::ZERO);
    let with = |tasks: usize| {
        let task = |index: usize| format!("- {{name: t{index}, period: 1s, runtime: 1us, cmd: exec takt burn}}\n");
        LOAD.to_owned() + &(0..tasks).map(task).collect::<String>()
    };
    let (many, more) = (with(tasks), with(60_000));
    for round in 0..rounds {
        let seen = std::cell::Cell::new((Duration::ZERO, 0, Duration::ZERO));
        on_cpus(|| {
            let room = Room::with(LOAD);
            let running = under_way(&room, &["--json"]);
            fs::write(room.path("many.yaml"), &many).expect("a file");
            fs::write(room.path("more.yaml"), &more).expect("a file");
            let begun = Instant::now();
            let refused = ctl(&room, &["reload", "many.yaml"]).expect(2).stderr;
            let took = begun.elapsed();
            assert!(refused.contains(&format!("4 places for the {tasks} new ones")), "{refused}");
            always(took < Duration::from_secs(refusal), || format!("a reload of {tasks} tasks took {took:?}"));
            // With a copy of the text for each task it would be a gigabyte.
            let status = fs::read_to_string(format!("/proc/{}/status", running.pid())).expect("it runs");
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
            let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
            assert!(peak < memory << 10, "{peak} KiB");
            let socket = sockets(&room).pop().expect("a socket");
            let run = socket.to_str().expect("a path");
            let mut reload = Running::start(&mut command(&room, &["ctl", "--run", run, "reload", "more.yaml"]));
            until_in(&mut reload, "the file is read", || {
                let tasks = fs::read_dir(format!("/proc/{}/task", running.pid())).expect("it runs").flatten();
                let stat = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                ensure(tasks.map(stat).any(|stat| stat.contains("(takt-reader) R")), String::new)
            });
            let begun = Instant::now();
            let ended = match round % 3 {
                0 => {
                    ctl(&room, &["stop"]).expect(0);
                    "command"
                }
                1 => {
                    running.signal(Signal::TERM);
                    "signal"
                }
                _ => {
                    running.signal(Signal::INT);
                    "signal"
                }
            };
            assert_eq!(running.wait().json()["ended"], ended);
            let ending = begun.elapsed();
            always(ending < Duration::from_secs(end), || format!("an end by a {ended} took {ending:?}"));
            seen.set((took, peak, ending));
            // Its answer is that of the end, which comes before the file has been read.
            let answer = reload.wait();
            assert!(answer.code() != 0 && !answer.stderr.contains("new ones"), "{}", answer.stderr);
        });
        let (took, peak, ending) = seen.get();
        longest_refusal = longest_refusal.max(took);
        largest = largest.max(peak >> 10);
        longest_end = longest_end.max(ending);
    }
    println!(
        "{rounds} reloads of {tasks} tasks: at most {longest_refusal:.2?} and {largest} MiB; an end took at most {longest_end:.2?}"
    );
}

/// Each window of each table is there once, at its instant, and each reload takes over at the end of a frame. The senders are in the trace.
#[test]
fn a_hundred_window_tables_take_over_one_after_the_other() {
    const RELOADS: usize = 100;
    on_cpus(|| {
        attempts(3, || {
            let room = Room::with(TABLE);
            fs::write(room.path("first.yaml"), TABLE).expect("a file");
            fs::write(room.path("other.yaml"), other_table()).expect("a file");
            let running = under_way(&room, &["--record", "w.steps", "--trace", "w.jsonl", "--json"]);
            for reload in 0..RELOADS {
                let done = ctl(&room, &["reload", ["other.yaml", "first.yaml"][reload % 2]]).expect(0);
                assert!(done.stdout.contains("window table from "), "{}", done.stdout);
            }
            assert_eq!(ctl(&room, &["reload", "first.yaml"]).expect(0).stdout, "unchanged\n");
            ctl(&room, &["stop"]).expect(0);
            let run = running.wait().json();
            let trace = room.trace("w.jsonl");
            // The instant at which the next window is due, its number and that of its frame.
            let (mut windows, mut due, mut next, mut tables, mut lost) = (2, 0, (0, 0), 0, 0);
            for record in &trace.records {
                let at = record.record.at.ns();
                match record.record.kind {
                    RecordKind::WindowsLost { count } => lost += count,
                    RecordKind::Table { .. } if lost == 0 => {
                        assert_eq!((at, next.0), (due, 0), "a table takes over at the end of a frame");
                        (windows, tables) = (5 - windows, tables + 1);
                    }
                    RecordKind::Window { window, frame } if lost == 0 => {
                        assert_eq!((at, window, frame), (due, next.0, next.1));
                        due += 5_000_000;
                        next = if window + 1 == windows { (0, frame + 1) } else { (window + 1, frame) };
                    }
                    _ => {}
                }
            }
            let changes: Vec<_> = trace.changes.iter().filter(|change| change.command.starts_with("reload ")).collect();
            assert_eq!(changes.len(), RELOADS);
            assert!(changes.iter().all(|change| change.pid > 0 && change.uid == rustix::process::getuid().as_raw()));
            // Without an instant, a long trace opens with its first frame.
            let shown = room.takt(&["trace", "show", "w.jsonl", "--from", "0ms"]).expect(0).stdout;
            assert!(shown.contains(": reload ") && shown.contains("81 more changes"), "{shown}");
            room.takt(&["trace", "check", "w.jsonl", "w.yaml", "--tolerance", "5s"]).expect(0);
            room.takt(&["sim", "w.yaml", "--replay", "w.steps", "--trace", "r.jsonl", "--json"]).expect(0);
            let records = |name| room.trace(name).records.into_iter().map(|stamped| stamped.record).collect::<Vec<_>>();
            assert!(records("w.jsonl") == records("r.jsonl"), "the replay is the run, bit for bit");
            assert_eq!(run["dropped_records"], 0);
            ensure(lost == 0 && tables == RELOADS, || format!("{lost} windows lost, {tables} tables"))
        });
    });
}

/// The refusal of a window table names the parts that cannot change in place, and nothing is changed.
#[test]
fn a_window_table_that_does_not_fit_is_refused() {
    on_cpus(|| {
        let room = Room::with(TABLE);
        let running = under_way(&room, &["--record", "w.steps"]);
        let cases = [
            (TABLE.replace("name: right", "name: other"), ["`other` is new", "`right` is missing"]),
            (
                TABLE.replace("cpu: 0, sc_partition: B", "cpu: 1, sc_partition: B"),
                ["CPU 1 for the partition of `right`"; 2],
            ),
            (LOAD.to_owned(), ["`windows`", "`event` is new"]),
            (TABLE.replace("burn --runtime 1ms", "burn --runtime 2ms"), ["the process of task `left`", "task `right`"]),
        ];
        for (text, words) in cases {
            fs::write(room.path("other.yaml"), &text).expect("a file");
            let said = ctl(&room, &["reload", "other.yaml"]).expect(2).stderr;
            assert!(words.iter().all(|word| said.contains(word)), "{said}\n{text}");
        }
        fs::write(room.path("other.yaml"), TABLE.replace("length: 5ms", "length: 0ms")).expect("a file");
        assert!(ctl(&room, &["reload", "other.yaml"]).expect(2).stderr.contains("other.yaml"));
        ctl(&room, &["stop"]).expect(0);
        running.wait().expect(0);
        let steps = room.text("w.steps");
        assert!(!steps.contains("{\"table\"") && !steps.contains("{\"change\""), "nothing has changed");
    });
}

/// The commands of docs/operation.md, one after the other.
#[test]
fn the_commands_of_the_document_are_carried_out() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operation.md")).expect("the page");
    let commands: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| Some(line.strip_prefix("takt ctl ")?.split_ascii_whitespace().collect()))
        .collect();
    assert!(commands.len() >= 9, "{commands:?}");
    on_cpus(|| {
        let names = [("left", "video"), ("right", "audio"), ("name: event", "name: button")];
        let load =
            names.iter().fold(LOAD.to_owned(), |text, (from, to)| text.replace(from, to)).replace("USR1", "USR2");
        let room = Room::with(&load);
        fs::write(room.path("other.yaml"), load.replace("20ms", "30ms")).expect("a file");
        let running = under_way(&room, &["--trace", "w.jsonl", "--trace-size", "1M"]);
        for command in &commands {
            if command[0] == "add" {
                until("it has left", || status(&room).is_some_and(|status| status["tasks"][1]["state"] == "gone"));
            }
            ctl(&room, command).expect(0);
            if command[0] == "trace" {
                until("the next record is in another file", || room.path("w.1.jsonl").exists());
            }
        }
        running.wait().expect(0);
    });
}

/// The releases of a task up to the end of the first job from `since` on that leaves no other one waiting. There a mode change takes effect.
fn releases_before_effect(records: &[Record], of: TaskId, since: Time) -> Option<usize> {
    let (mut releases, mut last) = (0, None);
    for record in records {
        match record.kind {
            RecordKind::Release { task, job, .. } if task == of => (releases, last) = (releases + 1, Some(job)),
            RecordKind::Finish { task, job, .. } if task == of && record.at >= since && last == Some(job) => {
                return Some(releases);
            }
            _ => {}
        }
    }
    None
}

/// The number of releases of a task that no execution time has an effect on, in a run and in the simulation of its changes.
fn independent_releases(both: [&[Record]; 2], changes: &[Change], of: TaskId, name: &str) -> usize {
    let count = |records: &[Record], wanted: &dyn Fn(&RecordKind) -> bool, until: Time| {
        records.iter().filter(|record| record.at <= until && wanted(&record.kind)).count()
    };
    for change in changes {
        let is_of = |command: &str| change.command.split([' ', '.']).take(2).eq([command, name]);
        let comes = is_of("add") || change.command.starts_with("reload ");
        if !comes && !is_of("set") && !is_of("remove") {
            continue;
        }
        let effects = both.map(|records| releases_before_effect(records, of, change.at));
        // A task leaves after its present job, and returns only then.
        let left = both.map(|records| {
            count(records, &|kind| matches!(kind, RecordKind::Exit { task, .. } if *task == of), change.at)
        });
        if comes && left[0] != left[1] {
            let is_earlier = |record: &&Record| {
                record.at < change.at && matches!(record.kind, RecordKind::Release { task, .. } if task == of)
            };
            return both[0].iter().filter(is_earlier).count();
        }
        if effects[0] != effects[1] {
            return effects.into_iter().flatten().min().unwrap_or(0);
        }
    }
    usize::MAX
}

/// The run and `takt sim` of its first file with the same changes at the same instants. These are equal, whatever the execution times are:
/// * the tasks, and when each policy and each window table takes over;
/// * the instants, numbers and deadlines of all releases by time, and the instants of all events, released or lost;
/// * each window, its frame, and the partitions' processes that it starts.
///
/// These depend on execution times, and are not compared: starts, ends and misses of jobs; releases by ends of jobs; the deadlines of events, whose terms
/// stay while a job is open. A mode change takes effect at the end of a job. If another number of releases precedes that end in the simulation,
/// the task's releases from there on are not compared. The same holds if the task returns, and only one of the two had seen it leave. Windows after lost
/// ones are not compared, nor is a window's process after it has left.
fn simulates_alike(room: &Room, again: &str) {
    room.takt(&["sim", "w.yaml", "--changes", "w.steps", "--trace", "c.jsonl"]).expect(0);
    let [run, simulated] = ["w.jsonl", "c.jsonl"].map(|name| room.trace(name));
    let names = |trace: &Trace| trace.header.tasks.iter().map(|task| task.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&run), names(&simulated), "{again}");
    let records =
        [&run, &simulated].map(|trace| trace.records.iter().map(|stamped| stamped.record).collect::<Vec<_>>());
    let both = [&records[0][..], &records[1][..]];
    let lost = |record: &&Record| matches!(record.kind, RecordKind::WindowsLost { .. });
    let until = both[0].iter().find(lost).map_or(Time::MAX, |record| record.at);
    let takeovers = both.map(|records| {
        let is_one = |record: &&Record| match record.kind {
            RecordKind::Switch { .. } => true,
            RecordKind::Table { .. } | RecordKind::Window { .. } => record.at < until,
            _ => false,
        };
        records.iter().filter(is_one).copied().collect::<Vec<_>>()
    });
    assert_eq!(takeovers[0], takeovers[1], "{again}");
    for (index, name) in names(&run).iter().enumerate() {
        let of = TaskId(index as u32);
        let has_windows = takeovers[0].iter().any(|record| matches!(record.kind, RecordKind::Window { .. }));
        if has_windows {
            let exit = |record: &&Record| matches!(record.kind, RecordKind::Exit { task, .. } if task == of);
            let until = both.into_iter().flatten().filter(exit).map(|record| record.at).fold(until, Time::min);
            let windows = both.map(|records| {
                let (mut window, mut windows) = (Time::ZERO, BTreeSet::new());
                for record in records.iter().take_while(|record| record.at < until) {
                    match record.kind {
                        RecordKind::Window { .. } => window = record.at,
                        RecordKind::Start { task, .. } if task == of => drop(windows.insert(window)),
                        _ => {}
                    }
                }
                windows
            });
            assert_eq!(windows[0], windows[1], "windows of {name}; {again}");
            continue;
        }
        if name == "follower" {
            continue;
        }
        let is_event = name == "event";
        let releases = both.map(|records| {
            let release = |record: &Record| match record.kind {
                RecordKind::Release { task, .. } if task == of && is_event => Some((record.at, None)),
                RecordKind::Lost { task } if task == of => Some((record.at, None)),
                RecordKind::Release { task, job, deadline } if task == of => Some((record.at, Some((job, deadline)))),
                _ => None,
            };
            records.iter().filter_map(release).collect::<Vec<_>>()
        });
        let most = if is_event { usize::MAX } else { independent_releases(both, &run.changes, of, name) };
        let [ran, simulated] = releases.each_ref().map(|releases| &releases[..most.min(releases.len())]);
        assert_eq!(ran, simulated, "releases of {name}; {again}");
    }
}

/// Under EDF no CPU time is measured. The server of a job begins with the CPU time of that job, and not with that of its process.
#[test]
fn a_policy_that_takes_over_knows_what_jobs_have_used() {
    on_cpus(|| {
        let text = "policy: edf\ncpus: 0\ntasks:\n\
                    - {name: control, period: 20ms, runtime: 6ms, cmd: exec takt burn --runtime 2ms}\n\
                    - {name: video, period: 50ms, runtime: 12ms, cmd: exec takt burn --runtime 5ms}\n";
        for policy in ["cbs", "grub", "ipi"] {
            attempts(3, || {
                let room = Room::with(text);
                let running = under_way(&room, &["--record", "w.steps", "--trace", "w.jsonl"]);
                // Each process has used the budgets of many jobs.
                let met = |task: usize| status(&room).and_then(|status| status["tasks"][task]["met"].as_u64());
                until("jobs are met", || met(0) > Some(15));
                ctl(&room, &["policy", policy]).expect(0);
                let before = status(&room).expect("it runs");
                until("more jobs are met", || met(0) > before["tasks"][0]["met"].as_u64().map(|met| met + 15));
                let after = status(&room).expect("it runs");
                let socket = sockets(&room)[0].to_string_lossy().into_owned();
                let top = Running::start(&mut command(&room, &["top", "--run", &socket, "--json"])).wait().json();
                assert_eq!(top["policy"], policy, "{top}");
                ctl(&room, &["stop"]).expect(0);
                let summary = running.wait().expect(0).stdout;
                let head = format!("w.yaml: policy edf (uniprocessor), {policy} since ");
                assert!(summary.starts_with(&head), "{summary}");
                room.takt(&["trace", "check", "w.jsonl", "w.yaml", "--tolerance", "5s"]).expect(0);
                room.takt(&["sim", "w.yaml", "--replay", "w.steps"]).expect(0);
                for (task, runtime) in [(0, 6_000_000), (1, 12_000_000)] {
                    let of = |status: &Value, key: &str| status["tasks"][task][key].as_i64().expect("a number");
                    let missed = of(&after, "missed") - of(&before, "missed");
                    ensure(missed == 0, || format!("{policy}: {missed} jobs of task {task} missed"))?;
                    // From the takeover on; before, the time for which a job had its CPU counts.
                    let jobs = of(&after, "released") - of(&before, "released") + 1;
                    let consumed = of(&after, "consumed_ns") - of(&before, "consumed_ns");
                    ensure(consumed <= jobs * runtime, || {
                        format!("{policy}: {jobs} jobs of task {task}: {consumed} ns")
                    })?;
                }
                Ok(())
            });
        }
    });
}

/// Random commands over real processes: the replay of the record is the run, only accepted commands are recorded, and a simulation with the same
/// changes has the same schedule apart from execution times. `cargo xtask campaign --only soak` tries 50 sequences.
#[test]
fn random_commands_replay() {
    let sequences: u64 = std::env::var("TAKT_SEQUENCES").ok().map_or(3, |text| text.parse().expect("a number"));
    on_cpus(|| {
        let seed = takt_testing::seed();
        for sequence in 0..sequences {
            let mut drawn = 0;
            let mut draw = |most: u64| {
                drawn += 1;
                takt_core::rng::draw_up_to(most, seed, sequence, drawn)
            };
            let again = || format!("TAKT_SEED={seed}, sequence {sequence}");
            // Each third one is of a window table, which is reloaded.
            let is_table = sequence % 3 == 2;
            let room = Room::with(if is_table { TABLE } else { LOAD });
            println!("{}", again());
            let running = under_way(&room, &["--record", "w.steps", "--trace", "w.jsonl"]);
            let mut made = 0;
            fs::write(room.path("more.yaml"), MORE).expect("a file");
            for _ in 0..10 {
                let task = ["left", "right", "event", "nothing"][draw(3) as usize];
                let term = ["period", "deadline", "runtime"][draw(2) as usize];
                let terms = format!("{task}.{term}={}ms", 1 + draw(60));
                let policy = ["edf", "fifo", "llf", "rr", "np-edf", "cbs", "dasa", "windows"][draw(7) as usize];
                let importance = format!("{task}.importance={}", 1 + draw(3));
                if is_table {
                    let other = if draw(1) == 0 { TABLE.to_owned() } else { other_table() };
                    let text = other.replace("budget: 2ms", &format!("budget: {}ms", 1 + draw(3)));
                    // Some have a window of another length, and some a process that is not there.
                    let text = match draw(5) {
                        0 => text.replacen("5ms", "7ms", 1),
                        1 => text.replace("name: right", "name: wrong"),
                        _ => text,
                    };
                    fs::write(room.path("other.yaml"), text).expect("a file");
                }
                if !is_table {
                    // Any set of tasks with `left`, which keeps the run from ending.
                    let lines = [LOAD, MORE].map(|text| text.split_once("tasks:\n").expect("a list").1.lines());
                    let [mut own, more] = lines;
                    let mut text = format!("policy: edf\ncpus: 0\ntasks:\n{}\n", own.next().expect("a line"));
                    for line in own.chain(more.take(3)) {
                        let is_there = draw(2) > 0 && (draw(3) == 0 || !line.contains("fails"));
                        text.extend(
                            is_there.then(|| format!("{}\n", line.replace("50ms", &format!("{}ms", 50 + draw(9))))),
                        );
                    }
                    fs::write(room.path("other.yaml"), text).expect("a file");
                }
                let command: &[&str] = match draw(7) {
                    0..=3 if is_table => &["reload", "other.yaml"],
                    4 if is_table => &["set", &importance],
                    0 | 1 => &["set", &terms],
                    2 => &["policy", policy],
                    3 => &["trigger", task],
                    4 => &["add", task],
                    7 => &["reload", "other.yaml"],
                    5 => &["add", ["more", "follower", "fails", "left"][draw(3) as usize], "--from", "more.yaml"],
                    // The run would end if all left.
                    _ => &["remove", "right"],
                };
                let done = ctl(&room, command);
                assert!([0, 1, 2].contains(&done.code()), "{command:?}: {}; {}", done.stderr, again());
                made += usize::from(done.stdout.starts_with("changed"));
            }
            ctl(&room, &["stop"]).expect(0);
            running.wait().expect(0);
            let steps = room.text("w.steps");
            let changes = steps.lines().filter(|line| line.contains("{\"change\":")).collect::<Vec<_>>();
            let again = || format!("{}; changes of this run:\n{}", again(), changes.join("\n"));
            assert_eq!(changes.len(), made, "{}", again());
            room.takt(&["sim", "w.yaml", "--replay", "w.steps", "--trace", "r.jsonl"]).expect(0);
            let [ran, replayed] = ["w.jsonl", "r.jsonl"].map(|name| room.trace(name).records);
            let records = |records: Vec<takt_trace::Stamped>| {
                records.into_iter().map(|stamped| stamped.record).collect::<Vec<_>>()
            };
            assert!(records(ran) == records(replayed), "{}", again());
            let checked = room.takt(&["trace", "check", "w.jsonl", "w.yaml", "--tolerance", "5s"]);
            assert_eq!(checked.code(), 0, "{}\n{}", checked.stdout, again());
            simulates_alike(&room, &again());
        }
    });
}

#[test]
fn wrong_commands_say_what_was_meant_and_change_nothing() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        let running = under_way(&room, &["--record", "w.steps"]);
        let outside = "- {name: outside, event: {signal: USR2}, deadline: 9ms, runtime: 1ms, cmd: exec sleep 9}\n";
        fs::write(room.path("other.yaml"), LOAD.replace("left, period", "left, offset: 3ms, period") + outside)
            .expect("a file");
        let many: String =
            (0..5).map(|n| format!("- {{name: m{n}, period: 50ms, runtime: 1ms, cmd: sleep 9}}\n")).collect();
        fs::write(room.path("many.yaml"), LOAD.to_owned() + &many).expect("a file");
        fs::write(room.path("bad.yaml"), LOAD.to_owned() + "- nonsense").expect("a file");
        let cases: [(&[&str], i32, &[&str]); 17] = [
            (&["set", "lfet.period=5ms"], 2, &["no task `lfet`", "did you mean `left`?", "left, right, event"]),
            (&["set", "left.perod=5ms"], 2, &["no term `perod`", "did you mean `period`?"]),
            (&["set", "left.period=5"], 2, &["period=5", "no unit"]),
            (&["set", "left.period=0ms"], 2, &["above zero"]),
            (&["set", "left.runtime=50ms"], 2, &["could never meet its deadline", "50ms", "20ms"]),
            (&["set", "left=5ms"], 2, &["TASK.TERM=VALUE"]),
            (&["set", "left.period=5ms", "right.period=5ms"], 2, &["another task"]),
            (&["set", "event.period=5ms"], 2, &["no period"]),
            (&["policy", "efd"], 2, &["did you mean `edf`?"]),
            (&["policy", "g-dasa-x"], 2, &["no policy"]),
            (&["policy", "there", "edf"], 2, &["no domain `there`"]),
            (&["policy", "dasa"], 1, &["cannot take over", "task `left`", "utility"]),
            (&["trigger", "left"], 2, &["not released by events"]),
            (&["add", "left"], 2, &["there already"]),
            (
                &["reload", "other.yaml"],
                2,
                &["task `outside` has a source of events", "is new", "event` of task `left`"],
            ),
            (&["reload", "many.yaml"], 2, &["4 places", "5 new", "--spare-tasks"]),
            (&["reload", "bad.yaml"], 2, &["bad.yaml"]),
        ];
        for (args, code, words) in cases {
            let done = ctl(&room, args).expect(code);
            let kind = if code == 1 { "error[not-admitted]" } else { "error[" };
            assert!(done.stderr.starts_with(kind), "{args:?}: {}", done.stderr);
            for word in words {
                assert!(done.stderr.contains(word), "{args:?}: `{word}` in {}", done.stderr);
            }
        }
        let rotated = ctl(&room, &["trace", "rotate"]).expect(2).stderr;
        assert!(rotated.starts_with("error[command-refused]") && rotated.contains("rotate"), "{rotated}");
        assert!(
            ctl(&room, &["--run", "1", "status"]).expect(2).stderr.starts_with("error[no-run]: there is no run `1`")
        );
        running.signal(Signal::INT);
        running.wait().expect(0);
        assert!(!room.text("w.steps").contains("change"), "nothing has changed");
        assert!(ctl(&room, &["status"]).expect(2).stderr.contains("no run of this user"));
    });
}

fn connect(path: &std::path::Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    stream
}

/// The output of the run until it closes the connection.
fn until_closed(mut stream: &UnixStream) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => text.extend_from_slice(&buffer[..n]),
            // Closed before everything that was sent has been read.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(e) => panic!("it is not closed: {e}"),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_client_that_misbehaves_delays_no_other() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        let running = under_way(&room, &["--json"]);
        let path = sockets(&room).remove(0);
        let descriptors = || fs::read_dir(format!("/proc/{}/fd", running.pid())).expect("it runs").count();
        let before = descriptors();
        let half = connect(&path);
        (&half).write_all(b"{\"takt_control\":1,\"com").expect("room");
        let garbage = connect(&path);
        (&garbage)
            .write_all(b"\x00\xff\xfe garbage\n{}\n[1]\n{\"takt_control\":2,\"command\":\"status\"}\n")
            .expect("room");
        let long = connect(&path);
        // The run closes it before it has taken all of that.
        let _ = (&long).write_all(&vec![b'x'; 1 << 20]);
        let deaf = connect(&path);
        deaf.set_nonblocking(true).expect("a socket");
        // Statuses without a reader, more than the kernel buffers.
        let line = b"{\"takt_control\":1,\"command\":\"status\"}\n".repeat(1500);
        let _ = (&deaf).write(&line);
        let watcher = connect(&path);
        (&watcher).write_all(b"{\"takt_control\":1,\"command\":\"watch\",\"interval_ms\":10}\n").expect("room");
        for _ in 0..5 {
            let began = Instant::now();
            assert!(status(&room).is_some());
            assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        }
        assert!(until_closed(&long).contains("too-long"));
        assert_eq!(until_closed(&half), "", "half a line is given up");
        until("a client that reads nothing is cut off", || descriptors() <= before + 3);
        // An error for each line, and the connection stays.
        let mut answers = [0; 4096];
        let n = (&garbage).read(&mut answers).expect("answers");
        assert_eq!(String::from_utf8_lossy(&answers[..n]).matches("wrong-request").count(), 4);
        drop((garbage, watcher, deaf));
        until("all are gone", || descriptors() <= before);
        // Watching and idle connections beyond the limits, and a status before and after the idle ones.
        let watch = b"{\"takt_control\":1,\"command\":\"top\",\"interval_ms\":10}\n";
        let watching: Vec<UnixStream> = (0..16).map(|_| connect(&path)).collect();
        watching.iter().for_each(|mut stream| stream.write_all(watch).expect("room"));
        let first_lines = watching.iter().map(|stream| {
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).expect("an answer");
            line
        });
        let refused = first_lines.filter(|line| line.contains("12 connections watch the run already")).count();
        assert_eq!(refused, 4, "the connections that watch have a limit");
        assert!(status(&room).is_some());
        let mut idle: Vec<UnixStream> = (0..30).map(|_| connect(&path)).collect();
        assert!(status(&room).is_some(), "idle connections make room for it");
        let newest = idle.split_off(27);
        for stream in &idle {
            assert!(until_closed(stream).contains("idle for the longest"));
        }
        ctl(&room, &["stop"]).expect(0);
        drop((watching, newest));
        let run = running.wait().json();
        assert_eq!((&run["ended"], &run["dropped_records"]), (&"command".into(), &0.into()));
    });
}

#[test]
fn another_user_is_refused() {
    on_cpus(|| {
        let Some(room) = public(LOAD) else { return };
        let takt = room.path("takt-copy");
        fs::copy(TAKT, &takt).expect("a copy");
        fs::remove_file(room.path("takt")).expect("it is there");
        let program = takt.to_str().expect("a path");
        let as_them = |user: u32, args: &[&str]| {
            let mut command = as_user(user, program);
            command.args(args).current_dir(room.path("")).env("XDG_RUNTIME_DIR", room.path(""));
            Running::start(&mut command)
        };
        let text = LOAD.replace("exec takt", "exec ./takt-copy");
        fs::write(room.path("w.yaml"), text).expect("a file");
        let running = as_them(OWNER, &["run", "w.yaml", "--duration", "30s", "--mechanism", "signal"]);
        until("its socket is there", || !sockets(&room).is_empty());
        let path = sockets(&room).remove(0);
        let socket = path.to_str().expect("a path");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        as_them(OWNER, &["ctl", "--run", socket, "status"]).wait().expect(0);
        as_them(OTHER, &["ctl", "--run", socket, "status"]).wait().expect(2);
        // Even where the files would let them in.
        fs::set_permissions(room.path("takt"), fs::Permissions::from_mode(0o755)).expect("root");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("root");
        let refused = as_them(OTHER, &["ctl", "--run", socket, "stop"]).wait().expect(2);
        assert!(refused.stderr.contains("only the user of the run"), "{}", refused.stderr);
        // Root may.
        ctl(&room, &["--run", socket, "stop"]).expect(0);
        running.wait();
    });
}

#[test]
fn processes_are_asked_to_end_before_they_are_killed() {
    on_cpus(|| {
        let text = "policy: edf\ncpus: 0\ntasks:\n\
            - {name: polite, period: 20ms, runtime: 5ms, cmd: 'trap \"echo bye > bye; exit 0\" TERM; while :; do sleep 0.002; takt done; done'}\n";
        for by_signal in [false, true] {
            let room = Room::with(text);
            let running = Running::start(&mut command(&room, &["run", "w.yaml", "--duration", "30s", "--json"]));
            until("it runs", || status(&room).is_some_and(|status| status["tasks"][0]["completed"].as_u64() > Some(2)));
            if by_signal {
                running.signal(Signal::TERM);
            } else {
                ctl(&room, &["stop"]).expect(0);
            }
            let done = running.wait();
            assert_eq!(done.json()["ended"], if by_signal { "signal" } else { "command" });
            assert_eq!(room.text("bye"), "bye\n", "its handler has run");
        }
        // One that does not end is killed: after the time of grace, or by a second signal.
        for second in [false, true] {
            let stubborn = text.replace("echo bye > bye; exit 0", "echo bye > bye");
            let room = Room::with(&stubborn);
            let running = Running::start(&mut command(&room, &["run", "w.yaml", "--duration", "30s"]));
            until("it runs", || status(&room).is_some_and(|status| status["tasks"][0]["completed"].as_u64() > Some(2)));
            let began = Instant::now();
            if second {
                // The second one counts from the first one on, also before processes are asked to end.
                running.signal(Signal::TERM);
                std::thread::sleep(Duration::from_millis(2));
                running.signal(Signal::TERM);
            } else {
                ctl(&room, &["stop", "--grace", "1s"]).expect(0);
                until("it was asked", || room.text("bye") == "bye\n");
                // In the meantime a command has an answer at once, and not at the end.
                let refused = ctl(&room, &["status"]);
                assert!(refused.code() != 0 && refused.stderr.contains("the run ends"), "{}", refused.stderr);
                assert!(!sockets(&room).is_empty(), "the run is still there");
            }
            running.wait().expect(0);
            let took = began.elapsed();
            assert!(second == (took < Duration::from_millis(950)), "{second}: {took:?}");
        }
    });
}

/// A command to stop ends a run whose processes initialise, and is not kept for later.
#[test]
fn a_run_is_stopped_while_its_processes_initialise() {
    on_cpus(|| {
        let text = "policy: edf\ninit_timeout: 60s\ncpus: 0\ntasks:\n\
            - {name: slow, period: 20ms, runtime: 5ms, init: true, cmd: 'touch began; exec sleep 50'}\n";
        let room = Room::with(text);
        let running = Running::start(&mut command(&room, &["run", "w.yaml", "--duration", "30s"]));
        until("it initialises", || room.path("began").exists());
        // Changes and statuses wait for the schedule, and leave a connection for the end.
        let path = sockets(&room).remove(0);
        let ask = |line: &[u8]| {
            let client = connect(&path);
            (&client).write_all(line).expect("room");
            client
        };
        let set = b"{\"takt_control\":1,\"command\":\"set\",\"task\":\"slow\",\"terms\":[[\"period\",\"30ms\"]]}\n";
        let status = b"{\"takt_control\":1,\"command\":\"status\"}\n";
        let mut waiting: Vec<UnixStream> = (0..14).map(|_| ask(set)).collect();
        waiting.push(ask(status));
        let top = b"{\"takt_control\":1,\"command\":\"top\",\"interval_ms\":10}\n";
        for line in [&set[..], status, top] {
            let mut answer = String::new();
            BufReader::new(&ask(line)).read_line(&mut answer).expect("an answer at once");
            assert!(answer.contains("\"busy\"") && answer.contains("15 connections"), "{answer}");
        }
        ctl(&room, &["stop"]).expect(0);
        let done = running.wait();
        assert!(done.took < Duration::from_secs(30), "{:?}: {}", done.took, done.stderr);
        for client in &waiting {
            assert!(until_closed(client).contains("takt_control"), "each one has its answer");
        }
    });
}

/// A client that is gone costs nothing while its command waits.
#[test]
fn a_client_that_dies_while_its_command_waits_costs_no_time() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        let slow = "policy: edf\ncpus: 0\ntasks:\n- {name: slow, period: 100ms, runtime: 1ms, init: true, cmd: exec sleep 60}\n";
        fs::write(room.path("more.yaml"), slow).expect("a file");
        let running = under_way(&room, &["--spare-tasks", "2"]);
        let client = Running::start(&mut command(&room, &["ctl", "add", "slow", "--from", "more.yaml"]));
        std::thread::sleep(Duration::from_millis(500));
        drop(client);
        let time = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", running.pid())).expect("it runs").flatten();
            let of = |name: &str, file: &str| fs::read_to_string(format!("/proc/{}/task/{name}/{file}", running.pid()));
            let mut names = tasks.map(|task| task.file_name().to_string_lossy().into_owned());
            let own =
                names.find(|name| of(name, "comm").is_ok_and(|comm| comm == "takt-control\n")).expect("its thread");
            let text = of(&own, "schedstat").expect("times");
            text.split_ascii_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).expect("a time")
        };
        let before = time();
        std::thread::sleep(Duration::from_secs(1));
        let used = Duration::from_nanos(time() - before);
        assert!(used < Duration::from_millis(200), "{used:?} of a second");
        ctl(&room, &["stop", "--grace", "10ms"]).expect(0);
        running.wait();
    });
}

/// The process of a task that leaves while it is being replaced ends, too.
#[test]
fn a_process_that_initialises_ends_after_its_task_has_left() {
    on_cpus(|| {
        let text = "policy: edf\ncpus: 0\ntasks:\n\
            - {name: stays, period: 20ms, runtime: 2ms, cmd: exec takt burn --runtime 1ms}\n\
            - {name: comes, period: 50ms, runtime: 5ms, init: true, on_exit: restart, cmd: 'echo $$ >> pids; sleep 0.6; takt done; takt done; exit 1'}\n";
        let room = Room::with(text);
        let running = under_way(&room, &[]);
        let pids = || room.text("pids").lines().map(String::from).collect::<Vec<_>>();
        let have_ended = || pids().iter().all(|pid| !PathBuf::from(format!("/proc/{pid}")).exists());
        until("a second process initialises", || pids().len() > 1);
        ctl(&room, &["remove", "comes", "--end", "--grace", "200ms"]).expect(0);
        until("its processes have ended", have_ended);
        std::thread::sleep(Duration::from_millis(300));
        assert!(have_ended(), "no other one was started");
        ctl(&room, &["stop"]).expect(0);
        running.wait().expect(0);
    });
}

/// The process of a task that leaves for good is asked to end, then killed. The run continues, whatever `on_exit` says, and its record replays.
#[test]
fn the_process_of_a_removed_task_ends() {
    on_cpus(|| {
        let looping = |trap: &str| format!("trap \"{trap}\" TERM; while :; do sleep 0.002; takt done; done");
        // Each job of a shell starts two programs.
        let task = |name: &str, more: &str, cmd: &str| {
            format!("- {{name: {name}, period: 250ms, runtime: 40ms, {more}cmd: '{cmd}'}}\n")
        };
        let text = format!(
            "policy: edf\ncpus: 0\ntasks:\n{}{}{}{}",
            "- {name: stays, period: 20ms, runtime: 2ms, cmd: exec takt burn --runtime 1ms}\n",
            task("polite", "on_exit: stop, ", &looping("echo bye > bye; exit 0")),
            task("stubborn", "", &looping("echo no > no")),
            task("back", "", &looping("exit 3")),
        );
        let room = Room::with(&text);
        let running = under_way(&room, &["--record", "w.steps", "--trace", "w.jsonl", "--json"]);
        let completed = |index: usize| status(&room).and_then(|status| status["tasks"][index]["completed"].as_u64());
        until("all run", || (1..4).all(|index| completed(index) > Some(1)));
        let known = status(&room).expect("a status");
        let pid = |index: usize| known["tasks"][index]["pid"].as_u64().expect("a process");
        let lives = |index: usize| PathBuf::from(format!("/proc/{}", pid(index))).exists();
        ctl(&room, &["remove", "polite", "--end"]).expect(0);
        until("it has ended", || !lives(1));
        assert_eq!(room.text("bye"), "bye\n", "its handler has run");
        let began = Instant::now();
        ctl(&room, &["remove", "stubborn", "--end", "--grace", "500ms"]).expect(0);
        until("it is killed", || !lives(2));
        assert!(began.elapsed() >= Duration::from_millis(500) && room.text("no") == "no\n", "{:?}", began.elapsed());
        // One that has left is still there, and may end later.
        ctl(&room, &["remove", "back"]).expect(0);
        until("it has left", || status(&room).is_some_and(|status| status["tasks"][3]["state"] == "gone"));
        assert!(lives(3));
        assert_eq!(ctl(&room, &["remove", "back", "--end"]).expect(0).stdout, "unchanged\n");
        until("it has ended, too", || !lives(3));
        for name in ["polite", "back"] {
            assert!(ctl(&room, &["add", name]).expect(2).stderr.contains("has ended"), "{name}");
            assert!(ctl(&room, &["remove", name, "--end"]).expect(2).stderr.contains("has left already"), "{name}");
        }
        let before = completed(0);
        until("the run continues", || completed(0) > before);
        ctl(&room, &["stop"]).expect(0);
        let run = running.wait().json();
        assert_eq!((&run["ended"], &run["dropped_records"]), (&"command".into(), &0.into()));
        room.takt(&["sim", "w.yaml", "--replay", "w.steps", "--trace", "r.jsonl"]).expect(0);
        let records = |name| room.trace(name).records.into_iter().map(|stamped| stamped.record).collect::<Vec<_>>();
        assert!(records("w.jsonl") == records("r.jsonl"), "the replay is the run, bit for bit");
    });
}

#[test]
fn without_a_terminal_sighup_reads_the_file_again() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        let start = |more: &[&str]| {
            let mut command = Command::new("setsid");
            command.arg(TAKT).args(["run", "w.yaml", "--duration", "30s"]).args(more);
            command.current_dir(room.path("")).env("XDG_RUNTIME_DIR", room.path(""));
            Running::start(&mut command)
        };
        let running = start(&[]);
        until("it runs", || status(&room).is_some());
        fs::write(room.path("w.yaml"), LOAD.replace("20ms", "35ms")).expect("a file");
        running.signal(Signal::HUP);
        until("it has changed", || status(&room).is_some_and(|status| status["tasks"][0]["period_ns"] == 35_000_000));
        fs::write(room.path("w.yaml"), "nonsense").expect("a file");
        running.signal(Signal::HUP);
        until("it is refused", || running.stderr().contains("nothing has changed"));
        assert!(status(&room).is_some(), "the run continues");
        running.signal(Signal::TERM);
        running.wait().expect(0);
        // Without a socket there is no reload.
        fs::write(room.path("w.yaml"), LOAD).expect("a file");
        let running = start(&["--no-control", "--trace", "t.jsonl"]);
        until("it runs", || room.text("t.jsonl").lines().count() > 10);
        assert!(sockets(&room).is_empty());
        running.signal(Signal::HUP);
        running.wait().expect(0);
    });
}

/// A run that began with SIGHUP ignored, as by `nohup`, outlives its terminal.
#[test]
fn a_run_outlives_its_terminal_if_hangups_are_ignored_from_the_begin() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        let dir = room.path("");
        let dir = dir.display();
        let run = format!("cd {dir}; (trap '' HUP; XDG_RUNTIME_DIR={dir} exec {TAKT} run w.yaml --duration 60s)");
        let Some(tmux) = Tmux::start(80, 20, &run) else { return };
        let completed = || status(&room).and_then(|status| status["tasks"][0]["completed"].as_u64());
        until("jobs complete", || completed() > Some(2));
        let pid = status(&room).and_then(|status| status["pid"].as_i64()).expect("a status") as i32;
        kill(pid, Signal::HUP);
        drop(tmux);
        let before = completed();
        until("jobs complete without the terminal", || completed() > before.map(|completed| completed + 10));
        ctl(&room, &["stop"]).expect(0);
        until("it has ended", || matches!(state(pid), 'Z' | 'X'));
    });
}

#[test]
fn a_killed_run_leaves_no_socket() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        let running = under_way(&room, &[]);
        assert_eq!(sockets(&room).len(), 1);
        running.kill_and_wait();
        until("the watcher has removed the socket", || sockets(&room).is_empty());
    });
}

/// Changes come each few milliseconds, and clients go in the middle of their commands: memory, descriptors and the schedule stay as they are.
#[test]
fn a_run_that_is_changed_all_the_time_stays_as_it_is() {
    on_cpus(|| {
        let seconds: u64 = std::env::var("TAKT_SOAK").ok().map_or(3, |text| text.parse().expect("seconds"));
        changed_all_the_time(LOAD, seconds, |room, changes| {
            let terms = format!("left.period={}ms", 20 + changes % 20);
            ctl(room, &["set", &terms]).expect(0);
            ctl(room, &["policy", ["fifo", "edf", "llf", "rr"][changes as usize % 4]]).expect(0);
            2
        });
    });
}

/// As before, with window tables.
#[test]
fn a_run_whose_tables_are_reloaded_all_the_time_stays_as_it_is() {
    on_cpus(|| {
        let seconds: u64 = std::env::var("TAKT_SOAK").ok().map_or(3, |text| text.parse().expect("seconds"));
        changed_all_the_time(TABLE, seconds, |room, changes| {
            let tables = [TABLE.to_owned(), other_table(), TABLE.replacen("5ms", "8ms", 1)];
            fs::write(room.path("other.yaml"), &tables[(changes as usize + 1) % 3]).expect("a file");
            ctl(room, &["reload", "other.yaml"]).expect(0);
            1
        });
    });
}

/// Memory, descriptors and the disk of a run with changes: these, and one of a client that is cut off. `change` returns how many it has made.
fn changed_all_the_time(load: &str, seconds: u64, mut change: impl FnMut(&Room, u64) -> u64) {
    const FILES: u64 = 3;
    const SIZE: u64 = 64 << 10;
    let room = Room::with(load);
    let length = format!("{}s", seconds + 60);
    let trace = ["--trace", "t.jsonl", "--trace-size", "64K", "--trace-files", "3"];
    let args = [&["run", "w.yaml", "--duration", &length, "--json"][..], &trace].concat();
    let running = Running::start(&mut command(&room, &args));
    until("it runs", || status(&room).is_some_and(|status| status["tasks"][0]["completed"].as_u64() > Some(2)));
    let pid = running.pid();
    let disk = || {
        let files = fs::read_dir(room.path("")).expect("a room").flatten();
        let files = files.filter(|file| file.path().extension().is_some_and(|ending| ending == "jsonl"));
        files.filter_map(|file| file.metadata().ok()).map(|known| known.len()).sum::<u64>()
    };
    let path = sockets(&room).remove(0);
    let memory = || {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = text.lines().find(|line| line.starts_with("VmRSS:")).expect("a line").to_owned();
        line.split_ascii_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number")
    };
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count();
    let (began, mut changes, mut baseline, mut most) = (Instant::now(), 0u64, None, 0);
    // The second file of the series, with the lock of the first one, is part of the baseline.
    while began.elapsed() < Duration::from_secs(seconds) || baseline.is_none() {
        changes += change(&room, changes);
        // A client that is killed in the middle of a command.
        let cut = connect(&path);
        let _ = (&cut).write_all(b"{\"takt_control\":1,\"command\":\"set\",\"task\":\"left\",\"terms\":[]}\n{\"tak");
        drop(cut);
        most = most.max(disk());
        assert!(most <= FILES * SIZE, "{most} bytes of traces");
        if baseline.is_none() && began.elapsed() > Duration::from_secs(1) && room.path("t.1.jsonl").exists() {
            baseline = Some((memory(), descriptors()));
        }
        if seconds > 60 {
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    let (memory_before, descriptors_before) = baseline.expect("a baseline");
    until("no connection is left", || descriptors() <= descriptors_before);
    let grown = memory().saturating_sub(memory_before);
    assert!(grown < 2048, "{changes} changes take {grown} KiB");
    ctl(&room, &["stop"]).expect(0);
    let run = running.wait().json();
    assert_eq!(run["dropped_records"], 0);
    println!("{changes} changes, {grown} KiB, at most {most} bytes of traces");
}
