//! A run as a service: the settings of its processes, and what it tells its manager.

use super::control::ctl;
use super::jobs::{counts, on_each_mechanism};
use crate::common::{Room, TAKT, attempts, ensure, mechanisms, pause, processes, until};
use crate::machine::{Capability, on_cpus, skip};
use rustix::process::Signal;
use std::collections::HashMap;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const USER: u32 = 65_533;
const GROUP: u32 = 65_532;

/// A directory that other users can enter.
fn open_room(text: &str) -> Room {
    let room = Room::with(text);
    let top = room.path("");
    fs::set_permissions(top, fs::Permissions::from_mode(0o755)).unwrap();
    room
}

/// The lines `key: value` of a process's report.
fn report(text: &str) -> HashMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key, value.trim())).collect()
}

/// Every setting of a process is what the process sees, whatever stops it.
#[test]
fn a_process_has_exactly_the_settings_of_its_workload() {
    if !Capability::Users.is_present() {
        return skip(Capability::Users, "the user of a process");
    }
    let text = format!(
        "policy: fp\ncpus: 0\ntasks:\n  - name: a\n    batch: yes\n    user: {USER}\n    group: {GROUP}\n    cwd: home\n    umask: 027\n    \
         env: {{COLOUR: 'deep  blue', REMOVED: ~, PATH: /usr/bin:/bin}}\n    \
         limits: {{nofile: '64:128', core: 0, as: 512M, rtprio: 0, memlock: 64K}}\n    \
         output: {{file: seen, truncate: yes}}\n    cmd: 'touch /tmp/takt-$$ && stat -c \"file: %u %g %a\" /tmp/takt-$$; rm -f /tmp/takt-$$; \
         cat /proc/self/status; echo cwd: $(pwd); echo colour: \"$COLOUR\"; echo removed: \"${{REMOVED-none}}\"; \
         echo takt: $(command -v takt); echo nofile: $(ulimit -Sn) $(ulimit -Hn); echo as: $(ulimit -v); echo core: $(ulimit -c); \
         echo memlock: $(ulimit -l); echo notify: \"${{NOTIFY_SOCKET-none}}\"; echo descriptors: $(ls /proc/self/fd | tr \"\\n\" \" \")'\n"
    );
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = open_room(&text);
            fs::create_dir(room.path("home")).unwrap();
            fs::write(room.path("seen"), "old\n").unwrap();
            std::os::unix::fs::chown(room.path("seen"), Some(USER), Some(GROUP)).unwrap();
            let mut command = room.command(&["run", "w.yaml", "--mechanism", mechanism, "--json"]);
            command.env("REMOVED", "not").env("NOTIFY_SOCKET", "@takt-without-manager");
            crate::common::Running::start(&mut command).wait().json();
            let text = room.text("seen");
            let seen = report(&text);
            let four = |id: u32| format!("{id}\t{id}\t{id}\t{id}");
            assert_eq!((seen["Uid"], seen["Gid"]), (four(USER).as_str(), four(GROUP).as_str()), "{mechanism}: {text}");
            assert_eq!(seen["Groups"], GROUP.to_string());
            for capabilities in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(seen[capabilities], "0000000000000000", "{capabilities}");
            }
            assert_eq!(seen["file"], format!("{USER} {GROUP} 640"));
            assert_eq!(seen["cwd"], room.path("home").canonicalize().unwrap().to_str().unwrap());
            assert_eq!((seen["colour"], seen["removed"], seen["notify"]), ("deep  blue", "none", "none"));
            assert_eq!((seen["nofile"], seen["as"], seen["core"], seen["memlock"]), ("64 128", "524288", "0", "64"));
            assert_eq!(Path::new(seen["takt"]), Path::new(TAKT), "{text}");
            assert!(!text.contains("old"), "the file was emptied");
        }
    });
}

/// `khugepaged` would hold a lock that the scheduler needs. The programs keep the setting of their user, also programs that start during the schedule.
#[test]
fn only_takt_itself_is_without_huge_pages() {
    let text = "policy: edf\ncpus: 0\ntasks: [{name: a, period: 50ms, runtime: 20ms, spawn: per-job, output: seen, \
                cmd: 'grep -h THP_enabled /proc/self/status /proc/$PPID/status'}]";
    let own = report(&fs::read_to_string("/proc/self/status").unwrap()).get("THP_enabled").map(|own| (*own).to_owned());
    on_cpus(|| {
        let room = Room::with(text);
        room.takt(&["run", "w.yaml", "--duration", "500ms"]);
        let seen = room.text("seen");
        let values: Vec<&str> = seen.lines().filter_map(|line| line.strip_prefix("THP_enabled:\t")).collect();
        assert!(values.len() >= 6, "{seen}");
        for two in values.chunks_exact(2) {
            assert_eq!((Some(two[0]), two[1]), (own.as_deref(), "0"), "{seen}");
        }
    });
}

/// The user by name has the groups of the database, and the variables of a login.
#[test]
fn a_user_by_name_has_the_groups_and_variables_of_the_database() {
    if !Capability::Users.is_present() {
        return skip(Capability::Users, "the user of a process");
    }
    let text = "policy: fp\ncpus: 0\ntasks: [{name: a, batch: yes, user: daemon, output: seen, cmd: 'id -u; id -G; echo $USER $LOGNAME $HOME'}]";
    let expected = Command::new("sh").args(["-c", "id -u daemon; id -G daemon"]).output().unwrap().stdout;
    on_cpus(|| {
        let room = open_room(text);
        fs::set_permissions(room.path(""), fs::Permissions::from_mode(0o777)).unwrap();
        room.takt(&["run", "w.yaml"]).expect(0);
        let seen = room.text("seen");
        let (ids, variables) = seen.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(format!("{ids}\n").as_bytes(), expected);
        assert!(variables.starts_with("daemon daemon /"), "{variables}");
    });
}

/// Another user's process keeps its page and its descriptors: it signals its jobs, and meets the deadlines of the simulation.
#[test]
fn the_process_of_another_user_meets_the_deadlines_of_the_simulation() {
    if !Capability::Users.is_present() {
        return skip(Capability::Users, "the user of a process");
    }
    let text = format!(
        "policy: edf\ncpus: 0\ntasks:\n\
         - {{name: a, period: 20ms, runtime: 4ms, init: yes, user: {USER}, group: {GROUP}, cmd: exec takt burn --runtime 2ms}}\n\
         - {{name: b, period: 50ms, runtime: 10ms, init: yes, cmd: exec takt burn --runtime 5ms}}\n"
    );
    let room = open_room(&text);
    let simulated = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
    let expected: Vec<[u64; 3]> =
        (0..2).map(|task| counts(&simulated["tasks"][task], ["released", "met", "missed"])).collect();
    assert_eq!(expected, [[50, 50, 0], [20, 20, 0]]);
    on_each_mechanism(&text, &["--duration", "1s"], |run, _| {
        let found: Vec<[u64; 3]> =
            (0..2).map(|task| counts(&run["tasks"][task], ["released", "met", "missed"])).collect();
        ensure(found == expected, || format!("{found:?}"))
    });
}

/// A process that writes to a full disk receives an error, and the schedule continues.
#[test]
fn a_full_disk_of_an_output_does_not_stop_the_schedule() {
    if !Capability::DevFull.is_present() {
        return skip(Capability::DevFull, "the output of a process");
    }
    let text = "policy: edf\ncpus: 0\ntasks:\n\
                - {name: a, period: 20ms, runtime: 6ms, init: yes, output: /dev/full, cmd: 'takt done; while :; do echo text 2>> errors; takt done; done'}\n\
                - {name: b, period: 50ms, runtime: 5ms, init: yes, output: 'null', cmd: exec takt burn --runtime 2ms}\n";
    on_each_mechanism(text, &["--duration", "500ms"], |run, room| {
        let errors = room
            .text("errors")
            .lines()
            .filter(|line| line.contains("I/O error") || line.contains("No space left"))
            .count();
        let _ = fs::remove_file(room.path("errors"));
        ensure(errors > 5 && counts(&run["tasks"][1], ["met", "missed"]) == [10, 0], || format!("{errors} errors"))
    });
}

/// Settings that the machine or the user does not allow are found before anything starts.
#[test]
fn settings_that_cannot_be_are_refused_before_anything_starts() {
    let refused = |keys: &str, user: Option<u32>| {
        let text = format!(
            "policy: fp\ncpus: 0\ntasks: [{{name: first, period: 1s, cmd: touch started}}, {{name: a, period: 1s, cmd: x, {keys}}}]"
        );
        let room = open_room(&text);
        let args = ["run", "w.yaml", "--duration", "10ms", "--trace", "/tmp/takt-never.jsonl"];
        let done = match user {
            None => room.takt(&args),
            Some(user) => {
                let ids = [format!("--reuid={user}"), format!("--regid={user}")];
                let mut command = Command::new("setpriv");
                command.args(ids).args(["--clear-groups", TAKT]).args(args).current_dir(room.path(""));
                crate::common::Running::start(&mut command).wait()
            }
        };
        let done = done.expect(2);
        assert!(!room.path("started").exists() && !Path::new("/tmp/takt-never.jsonl").exists());
        assert!(done.stderr.contains("w.yaml:3:") || done.stderr.contains("w.yaml:"), "{}", done.stderr);
        done.stderr
    };
    assert!(refused("user: no-such-user", None).contains("error[unknown-user]"));
    assert!(refused("user: root, group: no-such-group", None).contains("error[unknown-user]"));
    assert!(refused("user: 3999999999", None).contains("hint: add `group`"));
    assert!(refused("cwd: no-such-directory", None).contains("error[missing-directory]"));
    if !Capability::Users.is_present() {
        return skip(Capability::Users, "refusals to a user without rights");
    }
    let refusal = refused("user: root", Some(USER));
    assert!(
        refusal.contains("error[missing-capability]") && refusal.contains("only root may change users"),
        "{refusal}"
    );
    assert!(refused("limits: {nofile: unlimited}", Some(USER)).contains("only root may raise the hard limit"));
}

/// A service manager: the datagrams that it receives, and when.
struct Manager {
    socket: UnixDatagram,
    began: Instant,
    received: Vec<(Duration, String)>,
}

impl Manager {
    fn new(socket: UnixDatagram) -> Manager {
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        Manager { socket, began: Instant::now(), received: Vec::new() }
    }
    fn hear(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(n) = self.socket.recv(&mut buffer) {
            self.received.push((self.began.elapsed(), String::from_utf8_lossy(&buffer[..n]).into_owned()));
        }
    }
    /// When datagrams came that begin so.
    fn times(&self, start: &str) -> Vec<Duration> {
        self.received.iter().filter(|(_, text)| text.starts_with(start)).map(|(at, _)| *at).collect()
    }
}

const SLOW: &str = "policy: edf\ncpus: 0\ntasks:\n\
    - {name: a, period: 20ms, runtime: 5ms, init: yes, cmd: exec takt burn --runtime 1ms}\n\
    - {name: b, period: 100ms, runtime: 5ms, init: yes, cmd: 'sleep 0.4; touch initialised; exec takt burn --runtime 1ms'}\n";

/// Readiness is that of the first frame, in a socket with a path and in one with an abstract name; the end comes before the end.
#[test]
fn a_manager_learns_of_the_first_frame_and_of_the_end() {
    on_cpus(|| {
        for is_abstract in [false, true] {
            let room = Room::with(SLOW);
            let (socket, name) = if is_abstract {
                let name = format!("takt-manager-{}", std::process::id());
                (UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(), format!("@{name}"))
            } else {
                let path = room.path("manager");
                (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned())
            };
            let mut manager = Manager::new(socket);
            let mut command = room.command(&["run", "w.yaml", "--json"]);
            command.env("NOTIFY_SOCKET", name);
            let running = crate::common::Running::start(&mut command);
            until("it is ready", || {
                let before = room.path("initialised").exists();
                manager.hear();
                assert!(before || manager.times("READY=1").is_empty() || room.path("initialised").exists());
                !manager.times("READY=1").is_empty()
            });
            // None of its processes has the address.
            let with_address = |pid: i32| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                String::from_utf8_lossy(&environment).contains("NOTIFY_SOCKET=")
            };
            let own = processes(running.pid());
            assert!(own.len() >= 2 && !own.iter().any(|pid| with_address(*pid)), "{own:?}");
            running.signal(Signal::TERM);
            running.wait().json();
            manager.hear();
            let order: Vec<&str> = manager.received.iter().filter_map(|(_, text)| text.split('\n').next()).collect();
            let starting = order.iter().position(|text| text.starts_with("STATUS=w.yaml: starting 2 processes"));
            let ready = order.iter().position(|text| *text == "READY=1");
            let extended = order.iter().position(|text| text.starts_with("EXTEND_TIMEOUT_USEC="));
            assert!(starting < extended && extended < ready, "the initialisation has its limit: {order:?}");
            let stopping: Vec<usize> =
                order.iter().enumerate().filter(|(_, t)| **t == "STOPPING=1").map(|(i, _)| i).collect();
            assert!(starting < ready && ready < stopping.first().copied() && stopping.len() == 1, "{order:?}");
            assert!(manager.times("WATCHDOG=1").is_empty(), "there is no watchdog");
        }
    });
}

/// A manager may send SIGHUP as soon as it learns that the run is ready.
#[test]
fn a_hangup_right_after_the_begin_reloads() {
    on_cpus(|| {
        for _ in 0..4 {
            let room = Room::with(QUIET);
            let manager = UnixDatagram::bind(room.path("manager")).unwrap();
            manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let next = |wanted: &str| {
                let mut buffer = [0; 4096];
                loop {
                    let n = manager.recv(&mut buffer).unwrap_or_else(|e| panic!("no {wanted}: {e}"));
                    if buffer[..n].starts_with(wanted.as_bytes()) {
                        break;
                    }
                }
            };
            let mut command = Command::new("setsid");
            command.args([TAKT, "run", "w.yaml", "--json"]).current_dir(room.path(""));
            command.env("XDG_RUNTIME_DIR", room.path("")).env("NOTIFY_SOCKET", room.path("manager"));
            let running = crate::common::Running::start(&mut command);
            next("READY=1");
            running.signal(Signal::HUP);
            next("RELOADING=1");
            next("READY=1");
            ctl(&room, &["stop"]).expect(0);
            assert_eq!(running.wait().json()["ended"], "command");
        }
    });
}

/// A run that fails in its initialisation is never ready.
#[test]
fn a_run_whose_process_fails_is_never_ready() {
    on_cpus(|| {
        let room = Room::with("policy: edf\ncpus: 0\ntasks: [{period: 20ms, runtime: 5ms, init: yes, cmd: exit 3}]");
        let path = room.path("manager");
        let mut manager = Manager::new(UnixDatagram::bind(&path).unwrap());
        let mut command = room.command(&["run", "w.yaml"]);
        command.env("NOTIFY_SOCKET", &path);
        crate::common::Running::start(&mut command).wait().expect(1);
        manager.hear();
        assert!(manager.times("READY=1").is_empty() && !manager.received.is_empty(), "{:?}", manager.received);
    });
}

/// One sleeping scheduler thread: of a schedule whose next instant is far away.
const QUIET: &str =
    "policy: edf\ncpus: 0\ntasks: [{period: 1h, runtime: 5ms, init: yes, cmd: exec takt burn --runtime 1ms}]";

/// A scheduler that lives gives its sign of life at half of the interval, also while it has nothing to do.
#[test]
fn a_living_scheduler_gives_its_sign_of_life_at_half_of_the_interval() {
    on_cpus(|| {
        for text in [SLOW, QUIET] {
            attempts(3, || {
                let room = Room::with(text);
                let path = room.path("manager");
                let mut manager = Manager::new(UnixDatagram::bind(&path).unwrap());
                let mut command = room.command(&["run", "w.yaml", "--duration", "4s"]);
                command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
                let running = crate::common::Running::start(&mut command);
                let pid = running.pid();
                until("it is ready", || {
                    manager.hear();
                    !manager.times("READY=1").is_empty()
                });
                // Another process is meant: the variable says so.
                let end = Instant::now() + Duration::from_secs(5);
                while Instant::now() < end && crate::common::state(pid) != 'Z' {
                    manager.hear();
                }
                running.wait().expect(0);
                manager.hear();
                let signs = manager.times("WATCHDOG=1");
                let gaps: Vec<Duration> = signs.windows(2).map(|two| two[1] - two[0]).collect();
                ensure((7..=12).contains(&signs.len()), || format!("{signs:?}"))?;
                ensure(gaps.iter().all(|gap| *gap < Duration::from_millis(750)), || format!("{gaps:?}"))
            });
        }
    });
}

/// A group of the v1 freezer, which stops single threads. It is thawed and removed with this.
struct Freezer(PathBuf);

impl Freezer {
    fn new() -> Option<Freezer> {
        let layout = takt_linux::Layout::read().ok()?;
        let group = layout.freezer?.own.join(format!("test-{}", std::process::id()));
        fs::create_dir(&group).ok()?;
        Some(Freezer(group))
    }
    fn set(&self, state: &str) {
        fs::write(self.0.join("freezer.state"), state).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.set("THAWED");
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            pause(20);
        }
    }
}

/// Only the scheduler thread stands still, and the supervisor lives: there is no sign of life until the scheduler continues.
#[test]
fn a_stalled_scheduler_gives_no_sign_of_life() {
    if !Capability::V1.is_present() {
        return skip(Capability::V1, "a thread that stands still");
    }
    on_cpus(|| {
        let room = Room::with(SLOW);
        let path = room.path("manager");
        let mut manager = Manager::new(UnixDatagram::bind(&path).unwrap());
        let freezer = Freezer::new().expect("a group of the v1 freezer");
        let mut command = room.command(&["run", "w.yaml", "--mechanism", "signal"]);
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "600000");
        let running = crate::common::Running::start(&mut command);
        until("it gives signs of life", || {
            manager.hear();
            manager.times("WATCHDOG=1").len() >= 2
        });
        let threads = fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap().flatten();
        let scheduler = threads
            .map(|entry| entry.path())
            .find(|path| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "takt-scheduler"));
        let scheduler = scheduler.expect("the scheduler thread");
        fs::write(freezer.0.join("tasks"), scheduler.file_name().unwrap().to_str().unwrap()).unwrap();
        freezer.set("FROZEN");
        let frozen = manager.began.elapsed();
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            manager.hear();
        }
        // One may have been due when the thread was stopped.
        let late = manager.times("WATCHDOG=1").into_iter().filter(|at| *at > frozen).collect::<Vec<_>>();
        assert!(
            late.len() <= 1 && late.iter().all(|at| *at < frozen + Duration::from_millis(450)),
            "{late:?} {frozen:?}"
        );
        freezer.set("THAWED");
        let before = manager.times("WATCHDOG=1").len();
        until("it gives signs of life again", || {
            manager.hear();
            manager.times("WATCHDOG=1").len() > before + 1
        });
        running.signal(Signal::TERM);
        running.wait();
    });
}

/// A run divides its trace when it is asked to, by `takt ctl` and by SIGUSR1; the parts are the whole.
#[test]
fn a_trace_is_divided_by_ctl_and_by_signal() {
    on_cpus(|| {
        let room = Room::with(SLOW);
        let running = room.start(&["run", "w.yaml", "--trace", "t.jsonl", "--trace-size", "1M", "--duration", "60s"]);
        until("it has records", || room.text("t.jsonl").lines().count() > 10);
        let pid = running.pid().to_string();
        let said = room.takt(&["ctl", "--run", &pid, "trace", "rotate"]).expect(0);
        until("there is an older file", || {
            room.path("t.1.jsonl").exists() && room.text("t.jsonl").lines().count() > 10
        });
        running.signal(Signal::USR1);
        until("there are two", || room.path("t.2.jsonl").exists() && room.text("t.jsonl").lines().count() > 10);
        running.signal(Signal::TERM);
        running.wait().expect(0);
        assert!(!room.path("t.3.jsonl").exists(), "{}", said.stdout);
        let parts = ["t.2.jsonl", "t.1.jsonl", "t.jsonl"].map(|name| room.trace(name));
        room.takt(&["trace", "convert", "t.jsonl", "whole.jsonl", "--series"]).expect(0);
        let whole = room.trace("whole.jsonl");
        assert_eq!(parts.iter().map(|part| part.records.len()).sum::<usize>(), whole.records.len());
        assert!(whole.records.iter().is_sorted_by_key(|record| record.record.at));
        room.check("whole.jsonl", "w.yaml").unwrap();
    });
}
