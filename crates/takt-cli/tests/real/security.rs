//! Users of one machine: a run of one user is closed to another one, and gives its own programs no more than its workload does.
//!
//! As root, these tests run `takt` and the attacker as two users without rights, by setpriv.

use super::clients::compiled_text;
use crate::common::{Room, Running, TAKT, attempts, ensure, processes, until};
use crate::machine::{Capability, on_cpus, skip};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

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
    fs::copy(TAKT, room.path("takt")).expect("a copy");
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
    let script = "mount -t tmpfs takt-test /run && exec \"$@\"";
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
        until("the groups are removed", || crate::common::groups(pid).is_empty());
        drop(lock);
        until("the watcher has ended", || crate::common::watchers(pid).is_empty());
    });
}

/// Another user cannot open the lock. A wait for another process of root is bounded, and ends with the name of that.
#[test]
fn the_lock_of_the_journal_is_roots_alone() {
    let Some(room) = public("") else { return };
    if !Capability::Mounts.is_present() {
        return skip(Capability::Mounts, "a /run of one's own needs root and unshare");
    }
    let script = "mount -t tmpfs takt-test /run\n\
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
