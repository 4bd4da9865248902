//! Users of one machine: a run of one user is closed to another one, and gives its own programs no more than its workload does.
//!
//! As root, these tests run `takt` and the attacker as two users without rights, by setpriv.

use super::clients::compiled_text;
use crate::common::{Room, Running, attempts, ensure, groups, kill, processes, program, starters, until, watchers};
use crate::machine::{Capability, always, on_cpus, skip};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const OWNER: u32 = 65_533;
pub(super) const OTHER: u32 = 65_532;

/// Tries everything against processes, and prints what succeeds.
const ATTACKER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	char path[64], text[64], byte = 0;
	int n, fd, process;

	/* Within one session the kernel lets every user send SIGCONT. */
	setsid();
	for (n = 1; n < count; n++) {
		int pid = atoi(arguments[n]), own = 0, got = 0;
		struct sched_param fifo = { 1 };
		struct iovec here = { &byte, 1 }, there = { (void *)0x10000, 1 };

		for (fd = 0; fd < 256; fd++) {
			snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
			own += open(path, O_RDWR) >= 0 || readlink(path, text, sizeof text) > 0;
		}
		process = syscall(SYS_pidfd_open, pid, 0);
		for (fd = 0; process >= 0 && fd < 256; fd++)
			got += syscall(SYS_pidfd_getfd, process, fd, 0) >= 0;
		if (own)
			printf("opened ");
		if (got)
			printf("copied ");
		snprintf(path, sizeof path, "/proc/%d/mem", pid);
		if (open(path, O_RDWR) >= 0)
			printf("memory ");
		snprintf(path, sizeof path, "/proc/%d/maps", pid);
		fd = open(path, O_RDONLY);
		if (fd >= 0 && read(fd, &byte, 1) == 1)
			printf("maps ");
		if (process_vm_writev(pid, &here, 1, &there, 1, 0) == 1)
			printf("wrote ");
		if (sched_setscheduler(pid, SCHED_FIFO, &fifo) == 0 || setpriority(PRIO_PROCESS, pid, -5) == 0)
			printf("raised ");
		/* It changes no state, but would be delivered. */
		if (kill(pid, 0) == 0)
			printf("signalled ");
		if (kill(pid, SIGCONT) == 0)
			printf("continued ");
	}
	printf(".\n");
	return 0;
}
"#;

/// A client that asks for more than it has.
const GREEDY: &str = r#"
#define _GNU_SOURCE
#include "takt.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

int main(void)
{
	struct sched_param fifo = { 99 }, now;
	const char *text = getenv("TAKT_CLIENT");
	int file, bell, init, cut, grow, seal, class, nice;

	if (!text || sscanf(text, "%d,%d,%d", &file, &bell, &init) != 3)
		return 1;
	file = dup(file);
	takt_ready(NULL);
	cut = ftruncate(file, 0);
	grow = ftruncate(file, 1 << 20);
	seal = fcntl(file, F_ADD_SEALS, F_SEAL_WRITE);
	class = sched_setscheduler(0, SCHED_FIFO, &fifo);
	nice = setpriority(PRIO_PROCESS, 0, -20);
	takt_set_share(1000000, 1000000);
	takt_set_deadline(1);
	takt_set_runtime(1);
	takt_next_job(NULL);
	sched_getparam(0, &now);
	printf("%d %d %d %d %d %d %d %lld\n", cut, grow, seal, class, nice, sched_getscheduler(0), now.sched_priority,
	       (long long)lseek(file, 0, SEEK_END));
	fflush(stdout);
	for (;;)
		takt_next_job(NULL);
}
"#;

/// As a user without rights.
pub(super) fn as_user(user: u32, program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups", "--no-new-privs"]);
    command.args(["--inh-caps=-all", "--bounding-set=-all", "--", program]);
    command
}

/// A directory that all users can enter, with a copy of `takt`. `None` where there are no other users.
pub(super) fn public(text: &str) -> Option<Room> {
    if !Capability::Users.is_present() {
        skip(Capability::Users, "a second user needs root and setpriv");
        return None;
    }
    let room = Room::with(text);
    fs::set_permissions(room.path(""), fs::Permissions::from_mode(0o777)).expect("its owner");
    fs::copy(program(), room.path("takt")).expect("a copy");
    Some(room)
}

fn owned(room: &Room, args: &[&str]) -> Running {
    let takt: PathBuf = room.path("takt");
    let mut command = as_user(OWNER, takt.to_str().expect("a path"));
    Running::start(command.args(args).current_dir(room.path("")))
}

const WORKLOAD: &str = "policy: edf\ncpus: 0\ntasks:\n\
    - {name: a, period: 20ms, runtime: 2ms, init: yes, output: out, cmd: exec ./greedy}\n\
    - {name: b, period: 30ms, runtime: 2ms, init: yes, cmd: exec ./greedy >/dev/null}\n";

#[test]
fn another_user_reaches_no_page_no_bell_and_no_process() {
    on_cpus(|| {
        let Some(room) = public(WORKLOAD) else { return };
        if compiled_text(&room, "greedy", GREEDY, true).is_none() {
            return;
        }
        compiled_text(&room, "attacker", ATTACKER, false).expect("a compiler");
        let attack = |user: u32, takt: i32| {
            let mut targets = processes(takt);
            targets.push(takt);
            assert!(targets.len() >= 3, "{targets:?}");
            let mut command = as_user(user, room.path("attacker").to_str().expect("a path"));
            let done = command.args(targets.iter().map(i32::to_string)).output().expect("it starts");
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        // A run of another user without rights, and one of root.
        let started: [fn(&Room) -> Running; 2] = [
            |room| owned(room, &["run", "w.yaml", "--duration", "20s", "--trace", "t.jsonl", "--mechanism", "signal"]),
            |room| room.start(&["run", "w.yaml", "--duration", "20s", "--trace", "t.jsonl"]),
        ];
        for (start, roots) in started.into_iter().zip([false, true]) {
            let _ = fs::remove_file(room.path("t.jsonl"));
            let _ = fs::remove_file(room.path("out"));
            let running = start(&room);
            until("the schedule runs", || room.text("t.jsonl").lines().count() > 10);
            assert_eq!(attack(OTHER, running.pid()), ".\n", "another user, a run of root: {roots}");
            if !roots {
                // The kernel grants this to the same user, so the attacker can do what it tries.
                let said = attack(OWNER, running.pid());
                assert!(said.contains("opened") && said.contains("continued"), "{said}");
                assert!(!said.contains("raised"), "a right that no user of this test has: {said}");
            }
            running.signal(rustix::process::Signal::TERM);
            running.wait();
        }
    });
}

#[test]
fn a_client_gets_no_more_than_its_workload_gives() {
    on_cpus(|| {
        let Some(room) = public(WORKLOAD) else { return };
        if compiled_text(&room, "greedy", GREEDY, true).is_none() {
            return;
        }
        attempts(3, || {
            let _ = fs::remove_file(room.path("out"));
            owned(&room, &["run", "w.yaml", "--duration", "400ms", "--mechanism", "signal"]).wait().expect(0);
            // Sealed, in the ordinary class, and as long as before.
            ensure(room.text("out") == "-1 -1 -1 -1 -1 0 0 4096\n", || room.text("out"))
        });
    });
}

/// `takt` with a `/run` of its own, so that no other run of this machine is involved. The process has the number of the command.
fn with_own_run(room: &Room, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o mode=755 takt-test /run && exec \"$@\"";
    let program = room.command(&[]).get_program().to_owned();
    command.args(["-m", "sh", "-c", script, "sh"]).arg(program).args(args);
    command.current_dir(room.path("")).stdin(std::process::Stdio::null());
    command
}

/// The lock of root's journal can be opened by root alone. A process that has it delays no process of a run that has died: the watcher thaws and kills
/// before it waits.
#[test]
fn no_lock_keeps_a_process_of_a_dead_run() {
    if !Capability::Mounts.is_present() {
        return skip(Capability::Mounts, "a /run of one's own needs root and unshare");
    }
    on_cpus(|| {
        let room = Room::with(
            "policy: edf\ncpus: 0\ntasks: [{name: a, period: 20ms, runtime: 2ms, init: yes, cmd: exec takt burn --runtime 1ms}]",
        );
        let running =
            Running::start(&mut with_own_run(&room, &["run", "w.yaml", "--duration", "60s", "--trace", "t.jsonl"]));
        until("the schedule runs", || room.text("t.jsonl").lines().count() > 10);
        // Another process of root has the lock, and there is a journal, which the watcher has to read.
        let directory = PathBuf::from(format!("/proc/{}/root", running.pid())).join("run/takt-isolate");
        fs::create_dir_all(&directory).expect("root");
        fs::write(directory.join("journal"), "takt-isolate 1\nend\n").expect("root");
        let lock = fs::File::create(directory.join("lock")).expect("root");
        lock.lock().expect("a lock");
        let pid = running.pid();
        assert!(!processes(pid).is_empty());
        running.signal(rustix::process::Signal::KILL);
        let (_, _) = running.wait_unchecked();
        until("the processes have ended", || processes(pid).is_empty());
        until("the groups are removed", || groups(pid).is_empty());
        drop(lock);
        until("the watcher has ended", || watchers(pid).is_empty());
    });
}

/// Another user cannot open the lock. A wait for another process of root is bounded, and ends with the name of that.
#[test]
fn the_lock_of_the_journal_is_roots_alone() {
    let Some(room) = public("") else { return };
    if !Capability::Mounts.is_present() {
        return skip(Capability::Mounts, "a /run of one's own needs root and unshare");
    }
    let script = "mount -t tmpfs -o mode=755 takt-test /run\n\
        \"$1\" isolate undo --all >undone 2>&1; stat -c '%a %U' /run/takt-isolate /run/takt-isolate/lock\n\
        setpriv --reuid=65532 --regid=65532 --clear-groups flock -n /run/takt-isolate/lock echo held 2>/dev/null || echo refused\n\
        flock /run/takt-isolate/lock \"$1\" isolate undo --all; echo $?\n\
        rm -r /run/takt-isolate; mkdir -m 777 /run/takt-isolate; chown 65532 /run/takt-isolate\n\
        \"$1\" isolate undo --all; echo $?\n\
        rmdir /run/takt-isolate; ln -s \"$PWD\" /run/takt-isolate; \"$1\" isolate undo --all; echo $?; ls journal lock 2>/dev/null\n";
    let takt = room.path("takt");
    let output =
        Command::new("unshare").args(["-m", "sh", "-c", script, "sh"]).arg(takt).current_dir(room.path("")).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "755 root\n600 root\nrefused\n3\n3\n3\n", "{said}");
    for part in ["lock has been locked for 10 s by process", "belongs to the user 65532", "is a symbolic link"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Attempts of another user.
const ACTOR: &str = include_str!("other_user.c");

/// A program as another user, where the `/run` of a process is.
fn beside(process: i32, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args([
        "-m",
        "-t",
        &process.to_string(),
        "setpriv",
        &format!("--reuid={OTHER}"),
        &format!("--regid={OTHER}"),
    ]);
    command.args(["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--", program]);
    command.stdin(Stdio::null());
    command
}

/// The rounds of the campaign, and one without it.
fn rounds() -> u32 {
    std::env::var("TAKT_OTHER_USER").map_or(1, |rounds| rounds.parse().expect("a number"))
}

/// A run of root under the mechanism without groups, where membership is decided by search, and one with groups.
#[test]
fn another_user_succeeds_in_no_attempt() {
    if !Capability::Mounts.is_present() {
        return skip(Capability::Mounts, "a /run of one's own needs root and unshare");
    }
    on_cpus(|| {
        for _ in 0..rounds() {
            for mechanism in ["signal", "auto"] {
                let text = "policy: edf\ncpus: 0\nrealtime: yes\ntasks:\n\
                    - {name: a, period: 20ms, runtime: 2ms, init: yes, cmd: 'echo $$ >> a; while [ ! -e go ]; do sleep 0.01; done; exec takt burn --runtime 1ms'}\n\
                    - {name: b, period: 30ms, runtime: 2ms, on_exit: restart, cmd: 'echo $$ >> b; exec takt burn --runtime 1ms'}\n";
                let Some(room) = public(text) else { return };
                if compiled_text(&room, "actor", ACTOR, false).is_none() {
                    return;
                }
                attempts_of_another_user(&room, mechanism);
            }
        }
    });
}

/// The number of lines of a file in which the processes of a task have written their numbers, and the last number.
fn written(room: &Room, name: &str) -> (usize, i32) {
    let text = room.text(name);
    (text.lines().count(), text.lines().last().and_then(|line| line.parse().ok()).unwrap_or(0))
}

/// In seconds.
fn patience() -> u64 {
    if std::env::var_os("TAKT_OTHER_USER").is_some() { 1 } else { 8 }
}

/// Nothing that another user does makes root wait for more than a second. Without `TAKT_OTHER_USER`, the machine may have other work, and the wait for a lock,
/// 10 s, is excluded.
fn bounded(what: &str, begun: Instant) {
    let took = begun.elapsed();
    println!("{what}: {} ms", took.as_millis());
    always(took < Duration::from_secs(patience()), || format!("{what} took {took:?} beside another user"));
}

fn attempts_of_another_user(room: &Room, mechanism: &str) {
    let (actor, takt) = (room.path("actor"), room.path("takt"));
    let (actor, takt) = (actor.to_str().expect("a path"), takt.to_str().expect("a path"));
    let folder = room.path("").to_str().expect("a path").to_owned();
    // The names of the CPU, of which root takes no notice.
    // A file of root, whose readers may lock it as readers.
    fs::write(room.path("t.jsonl"), "").expect("a file");
    let mut names = as_user(OTHER, actor);
    let mut names =
        names.args(["hold", &folder, "takt/cpu/0", "takt/run/1-1/shared/0/theirs"]).spawn().expect("it starts");
    until("the names are taken", || room.path("held").exists());
    let args = ["run", "w.yaml", "--duration", "60s", "--mechanism", mechanism, "--trace", "t.jsonl"];
    let begun = Instant::now();
    let running = Running::start(&mut with_own_run(room, &args));
    let pid = running.pid();
    until("a process initialises", || written(room, "a").0 == 1);
    bounded("the start of a run of root", begun);
    let (watcher, starter) = (watchers(pid)[0], starters(pid)[0]);
    let line = fs::read_to_string(format!("/proc/{watcher}/cmdline")).expect("a watcher");
    let run = line.split('\0').nth(3).expect("the name of the run").to_owned();
    // Root's journal, and a lock that root has used.
    let as_root = |args: &[&str]| {
        let mut command = Command::new("nsenter");
        command.args(["-m", "-t", &pid.to_string(), takt]).args(args).stdin(Stdio::null());
        let began = Instant::now();
        let output = command.output().expect("it starts");
        bounded(&format!("takt {} of root", args.join(" ")), began);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    as_root(&["isolate", "undo", "--all"]);
    let journal = PathBuf::from(format!("/proc/{pid}/root")).join("run/takt-isolate/journal");
    fs::write(&journal, "takt-isolate 1\nend\n").expect("root");
    // Processes that carry the marks of groups, before their processes get a class.
    let forge = |group: &str| -> Child {
        beside(pid, actor).args(["forge", &run, group, &folder]).stdout(Stdio::piped()).spawn().expect("it starts")
    };
    let forged: Vec<Child> = ["p0/t0", "p0/t1", "p1/t0", "p1/t1"].into_iter().map(forge).collect();
    let is_forged = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("forged-");
    let count =
        || fs::read_dir(room.path("")).expect("a folder").flatten().filter(|e| is_forged(&e.file_name())).count();
    until("the marks are there", || count() == forged.len());
    let mut held = beside(pid, "flock").args(["/run/takt-isolate", "sleep", "60"]).spawn().expect("it starts");
    fs::write(room.path("go"), "").expect("a file");
    until("the schedule runs", || written(room, "b").0 == 1);
    // Neither the marks nor the lock of a folder delay anything.
    kill(written(room, "b").1, rustix::process::Signal::KILL);
    until("the task is started again beside forged marks", || written(room, "b").0 == 2);
    as_root(&["isolate", "undo", "--all"]);
    as_root(&["doctor", "--clean"]);
    let targets = [written(room, "a").1, pid, watcher, starter].map(|pid| pid.to_string());
    let tried = beside(pid, actor).args(["try", &run, &folder]).args(targets).output().expect("it starts");
    let mut table = String::from_utf8_lossy(&tried.stdout).into_owned();
    // A pipe without a writer in the place of a file of root's series holds nothing up.
    let pipes = format!("mkfifo {folder}/pipe.jsonl {folder}/other.1.jsonl");
    assert!(as_user(OTHER, "sh").args(["-c", &pipes]).status().expect("it starts").success());
    for name in ["pipe.jsonl", "other.jsonl"] {
        let args = ["sim", "w.yaml", "--duration", "1s", "--trace", name, "--trace-size", "64K"];
        let begun = Instant::now();
        let mut command = Command::new("timeout");
        command.args(["20", takt]).args(args).current_dir(room.path("")).stdin(Stdio::null());
        let output = command.output().expect("it starts");
        bounded(&args.join(" "), begun);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    fs::write(room.path("over"), "").expect("a file");
    for child in forged {
        let output = child.wait_with_output().expect("it ends");
        table += &String::from_utf8_lossy(&output.stdout);
    }
    assert!(names.wait().expect("it ends").success(), "it had the names");
    println!("{table}");
    let failed: Vec<&str> = table.lines().filter(|line| !line.ends_with("\trefused")).collect();
    assert!(failed.is_empty(), "{mechanism}: {failed:?}");
    assert!(table.lines().count() >= 100, "{mechanism}: {table}");
    // A mark of commands beside the schedule would delay the end.
    fs::remove_file(room.path("over")).expect("it is there");
    let mut late = forge("commands");
    until("the mark is there", || count() == 5);
    let begun = Instant::now();
    running.signal(rustix::process::Signal::TERM);
    let (_, done) = running.wait_unchecked();
    bounded("the end of the run", begun);
    let done = done.expect(0);
    assert!(!room.text("t.jsonl").is_empty(), "a lock of a reader keeps root from writing");
    assert!(done.stdout.contains("CPUs were shared with theirs"), "{}", done.stdout);
    fs::write(room.path("over"), "").expect("a file");
    let _ = (late.wait(), held.kill(), held.wait());
    until("nothing is left", || processes(pid).is_empty() && groups(pid).is_empty() && watchers(pid).is_empty());
}

/// A lease of another user (fcntl(2)) delays no output of root: the kernel lets an open wait for it for 45 s.
#[test]
fn a_lease_of_another_user_delays_no_output() {
    let Some(room) = public("policy: edf\ncpus: 0\ntasks: [{name: a, period: 10ms, runtime: 2ms}]") else { return };
    if compiled_text(&room, "actor", ACTOR, false).is_none() {
        return;
    }
    let (actor, takt, folder) = (room.path("actor"), room.path("takt"), room.path(""));
    let (actor, takt) = (actor.to_str().expect("a path"), takt.to_str().expect("a path"));
    let mut actor = as_user(OTHER, actor);
    actor.arg("lease").arg(&folder).args(["t.jsonl", "s.jsonl", "o.1.jsonl"]).stdin(Stdio::null());
    let mut leases = actor.spawn().expect("it starts");
    until("the leases are there", || {
        assert!(leases.try_wait().expect("a child").is_none(), "no leases");
        room.path("held").exists()
    });
    let series: &[&str] = &["--trace-size", "64K"];
    let outputs = [("t.jsonl", &[][..]), ("s.jsonl", series), ("o.jsonl", series)].map(|(file, more)| {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", "20", takt, "sim", "w.yaml", "--duration", "1s", "--trace", file]).args(more);
        (file, command.current_dir(&folder).stdin(Stdio::null()).output().expect("it starts"))
    });
    fs::write(room.path("over"), "").expect("a file");
    assert!(leases.wait().expect("it ends").success());
    for (file, output) in outputs {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{file}: {said}");
        assert!(said.contains("[file-in-use]") && said.contains("is leased by another process"), "{file}: {said}");
    }
}

/// Dead runs in any number: a process with the mark of each, and a file without a lock that proves its death.
const DEAD: &str = "mkdir -p -m 700 /tmp/takt-$(id -u) || exit\n\
    for i in $(seq 400); do : > /tmp/takt-$(id -u)/$i-1.life; TAKT_RUN=$i-1 sleep 60 & done\n\
    echo ready > dead; while [ ! -e over ]; do sleep 0.05; done\n\
    kill $(jobs -p) 2>/dev/null; rm -r /tmp/takt-$(id -u)\n";

/// Groups of as many more, and a group that is filled while it is removed.
const GROUPS: &str = "cd \"$1\"; for i in $(seq 401 700); do mkdir takt-$i-1; done; echo ready > \"$2/groups\"\n\
    while [ ! -e \"$2/over\" ]; do mkdir -p takt-401-1/a/b takt-401-1/c; done\n";

/// A start removes remains of dead runs. Another user can leave as many as this user may have processes and groups.
#[test]
fn dead_runs_of_another_user_delay_no_start() {
    on_cpus(|| {
        let Some(room) = public("policy: edf\ncpus: 0\ntasks: [{name: a, period: 20ms, runtime: 2ms, cmd: sleep 60}]")
        else {
            return;
        };
        let layout = takt_linux::Layout::read().expect("/proc");
        let hierarchy = layout.freezer.or(layout.unified).expect("control groups");
        let delegated = hierarchy.own.join(format!("test-dead-{}", std::process::id()));
        fs::create_dir(&delegated).expect("root");
        chown(&delegated, Some(OTHER), Some(OTHER)).expect("root");
        let mut dead = as_user(OTHER, "sh");
        let mut dead = dead.args(["-c", DEAD]).current_dir(room.path("")).spawn().expect("it starts");
        let mut groups = as_user(OTHER, "sh");
        groups.args(["-c", GROUPS, "sh"]).arg(&delegated).arg(room.path("")).stderr(Stdio::null());
        let mut groups = groups.spawn().expect("it starts");
        let is_ready = |name: &str| room.path(name).exists();
        until("the dead runs are there", || is_ready("dead") && is_ready("groups"));
        let timed = |args: &[&str]| {
            let begun = Instant::now();
            let done = Running::start(&mut room.command(args)).wait();
            (args.join(" "), begun.elapsed(), done.status)
        };
        let run = ["run", "w.yaml", "--duration", "100ms"];
        let all = [timed(&run), timed(&["doctor", "--clean"]), timed(&run)];
        fs::write(room.path("over"), "").expect("a file");
        let _ = (dead.wait(), groups.wait());
        let _ = takt_linux::leftovers::clean(takt_linux::leftovers::OnCrash::Kill);
        let _ = fs::remove_dir(&delegated);
        for (what, took, status) in all {
            println!("takt {what}: {status}, {} ms", took.as_millis());
            assert!(status.success() || what.starts_with("doctor"), "takt {what}: {status}");
            always(took < Duration::from_secs(patience()), || format!("takt {what} took {took:?}"));
        }
        assert!(!delegated.exists(), "groups are left");
    });
}

/// Processes whose environments cannot be read without a wait that has no end.
const SLOW: &str = include_str!("slow_page.c");
/// They have lower numbers than the processes of the runs, so a search asks them first.
const SLOW_ONES: u32 = 20;

/// Neither a page that never comes nor a lock of mappings that is never free delays root, who looks for marks in the environments of all processes.
#[test]
fn an_environment_that_cannot_be_read_delays_no_clean_up() {
    if !Capability::Mounts.is_present() || fs::File::open("/dev/fuse").is_err() {
        return skip(Capability::Mounts, "a file system that never answers needs root, unshare and /dev/fuse");
    }
    on_cpus(|| {
        let text = format!(
            "policy: edf\ncpus: 0\ntasks: [{{name: a, period: 20ms, runtime: 2ms, user: {OTHER}, group: {OTHER}, cmd: 'echo $$ > number; exec sleep 60'}}]"
        );
        let Some(room) = public(&text) else { return };
        if compiled_text(&room, "slow", SLOW, false).is_none() {
            return;
        }
        let mut server = Command::new("unshare");
        server.arg("-m").arg(room.path("slow")).arg(room.path("")).args([OTHER, SLOW_ONES].map(|n| n.to_string()));
        let mut server = server.stdin(Stdio::null()).spawn().expect("it starts");
        until("pages are held up", || {
            assert!(server.try_wait().expect("a child").is_none(), "no file system");
            room.path("mapped").exists() && room.text("mapped").lines().count() == SLOW_ONES as usize
        });
        let slow = room.text("mapped").lines().next().expect("a process").to_owned();
        // A reader waits. So would the helper functions of these tests, which look for processes.
        let mut reader = Command::new("cat");
        let mut reader = reader.arg(format!("/proc/{slow}/environ")).stdout(Stdio::null()).spawn().expect("cat");
        std::thread::sleep(Duration::from_millis(300));
        let waits = reader.try_wait().expect("a child").is_none();
        let takt = |args: &[&str]| {
            let mut command = Command::new("timeout");
            command.args(["--signal=KILL", "8"]).arg(room.path("takt")).args(args).current_dir(room.path(""));
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let timed = |args: &[&str]| {
            let begun = Instant::now();
            let status = takt(args).status().expect("it starts");
            let what = args.join(" ");
            println!("takt {what}: {status}, {} ms", begun.elapsed().as_millis());
            (what, begun.elapsed(), status)
        };
        let mut done = vec![timed(&["doctor", "--clean"])];
        let mut all_ended = true;
        for mechanism in ["signal", "auto"] {
            let run = ["run", "w.yaml", "--mechanism", mechanism, "--duration"];
            let mut killed = takt(&[&run[..], &["60s"]].concat()).spawn().expect("it starts");
            let number = || room.text("number").trim().parse::<i32>().unwrap_or(0);
            let end = Instant::now() + Duration::from_secs(4);
            while number() == 0 && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            let task = number();
            let children = format!("/proc/{0}/task/{0}/children", killed.id());
            let children = fs::read_to_string(children).unwrap_or_default();
            children
                .split_whitespace()
                .for_each(|pid| kill(pid.parse().expect("a number"), rustix::process::Signal::KILL));
            let _ = killed.wait();
            // The processes of that user are found, too: by the watcher, or by this.
            done.push(timed(&["doctor", "--clean"]));
            let ended = || "XZ".contains(crate::common::state(task));
            let end = Instant::now() + Duration::from_secs(2);
            while !ended() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            all_ended &= task > 0 && ended();
            println!("{mechanism}: process {task} has ended: {}", ended());
            fs::write(room.path("number"), "").expect("a file");
            done.push(timed(&[&run[..], &["100ms"]].concat()));
        }
        fs::write(room.path("over"), "").expect("a file");
        let _ = (server.wait(), reader.wait());
        assert!(waits, "neither the page nor the lock holds a reader up");
        assert!(all_ended, "a process of a dead run is left");
        for (what, took, status) in done {
            assert!(status.success(), "takt {what}: {status}");
            always(took < Duration::from_secs(patience()), || format!("takt {what} took {took:?} beside another user"));
        }
    });
}

/// Files of a process with another user are opened with the rights of that user. So links in a folder of that user lead to no file of root.
#[test]
fn links_of_another_user_lead_to_no_file_of_root() {
    let settings = |keys: &str| {
        format!(
            "policy: fp\ncpus: 0\ntasks: [{{name: a, batch: yes, user: {OTHER}, group: {OTHER}, cmd: 'pwd; echo \"${{SECRET-none}} $PATH\"; env', {keys}}}]"
        )
    };
    let cases = [
        ("output: theirs/link", 3, "Permission denied"),
        ("output: {file: theirs/link, truncate: yes}", 3, "Permission denied"),
        ("output: theirs/folder/new", 3, "Permission denied"),
        ("output: theirs/descriptor", 3, "symbolic links"),
        ("cwd: theirs/folder, output: 'null'", 2, "may not enter"),
    ];
    on_cpus(|| {
        for (keys, status, said) in cases {
            let Some(room) = public(&settings(keys)) else { return };
            let theirs = room.path("theirs");
            fs::create_dir(&theirs).expect("a folder");
            fs::create_dir(room.path("roots")).expect("a folder");
            fs::set_permissions(room.path("roots"), fs::Permissions::from_mode(0o700)).expect("root");
            fs::write(room.path("roots/file"), "kept\n").expect("a file");
            symlink(room.path("roots/file"), theirs.join("link")).expect("a link");
            symlink(room.path("roots"), theirs.join("folder")).expect("a link");
            symlink("/proc/self/fd/2", theirs.join("descriptor")).expect("a link");
            chown(&theirs, Some(OTHER), Some(OTHER)).expect("root");
            let done = room.takt(&["run", "w.yaml"]).expect(status);
            assert!(done.stderr.contains(said), "{keys}: {}", done.stderr);
            assert_eq!(room.text("roots/file"), "kept\n", "{keys}");
            assert_eq!(fs::read_dir(room.path("roots")).expect("a folder").count(), 1, "{keys}");
        }
        // A file that the user may make is the user's.
        let Some(room) = public(&settings("cwd: theirs, output: theirs/new, env: {LANG: C}")) else { return };
        fs::create_dir(room.path("theirs")).expect("a folder");
        chown(room.path("theirs"), Some(OTHER), Some(OTHER)).expect("root");
        let mut command = room.command(&["run", "w.yaml"]);
        Running::start(command.env("SECRET", "of root").env("LANG", "de_DE")).wait().expect(0);
        let seen = room.text("theirs/new");
        let known = fs::metadata(room.path("theirs/new")).expect("it is there");
        assert_eq!((known.uid(), known.gid()), (OTHER, OTHER));
        let own = room.path("theirs").canonicalize().expect("a folder");
        assert_eq!(seen.lines().next(), own.to_str());
        let path = format!(
            "none /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{}",
            program().parent().expect("a folder").display()
        );
        assert_eq!(seen.lines().nth(1), Some(path.as_str()));
        // The shell adds some.
        let names = seen.lines().skip(2).filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        let foreign: Vec<&str> = names
            .filter(|name| {
                !["LANG", "PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)
                    && !name.starts_with("TAKT_")
                    && *name != "DEMOS_PARAMETERS"
            })
            .collect();
        assert!(foreign.is_empty() && seen.contains("\nLANG=C\n"), "{foreign:?}: {seen}");
    });
}
