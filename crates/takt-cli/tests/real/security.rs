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
