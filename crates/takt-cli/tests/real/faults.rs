//! SIGKILL for a client or Takt itself at seeded moments. Nothing is left, and the other tasks' jobs are met.
//!
//! Some cases in each run of the tests; `cargo xtask campaign --only faults` tries 500.

use super::clients::{compiled_text, counts};
use crate::common::{Room, attempts, ensure, kill, pause, processes, until, watchers};
use crate::machine::{always, on_cpus};
use rustix::process::Signal;
use std::fs;
use takt_core::rng;

const WORKER: &str = r#"
#include "takt.h"
#include <string.h>

static volatile unsigned long rounds;

int main(int count, char **arguments)
{
	int segments = count > 1 && strcmp(arguments[1], "segments") == 0;
	unsigned long n;

	takt_ready(NULL);
	for (;;) {
		if (segments && takt_begin(NULL, NULL) == TAKT_ESYSTEM)
			return 2;
		if (!segments)
			takt_lock(0);
		for (n = 0; n < 500000; n++)
			rounds++;
		if (!segments)
			takt_unlock(0);
		for (n = 0; n < 200000; n++)
			rounds++;
		if (segments ? takt_end() == TAKT_ESYSTEM : takt_next_job(NULL) != TAKT_OK)
			return 3;
	}
}
"#;

/// A workload, and the process that is killed at a moment.
struct Case {
    text: String,
    /// `None`: Takt itself.
    victim: Option<&'static str>,
    restarts: bool,
    moment: u64,
}

fn case(seed: u64) -> Case {
    let draw = |number: u64, most: u64| rng::draw_up_to(most, seed, 7, number);
    let pick = |number: u64, of: [&'static str; 2]| of[draw(number, 1) as usize];
    let dispatch = ["freeze", "priority", "rank"][draw(1, 2) as usize];
    let (policy, exit) = (pick(2, ["edf", "fp"]), pick(3, ["end", "restart"]));
    let init = pick(4, ["", ", init: yes"]);
    let crash = pick(5, ["", "on_crash: kill\n"]);
    // Others run while it sleeps.
    let work = pick(
        8,
        ["run 1ms, lock r, run 1ms, unlock r, run 1ms", "run 1ms, sleep 2ms, lock r, run 1ms, unlock r, run 1ms"],
    );
    let text = format!(
        "{crash}policy: {policy}\ndispatch: {dispatch}\ncpus: 0\nrealtime: yes\nlocking: inheritance\nresources: [r]\ntasks:\n\
         - {{name: good, priority: 9, period: 40ms, steps: [{work}], init: yes, cmd: \"exec takt burn --steps '{work}'\"}}\n\
         - {{name: jobs, priority: 5, period: 25ms, runtime: 3ms, on_exit: {exit}{init}, cmd: exec ./worker jobs}}\n\
         - {{name: after, priority: 4, event: {{after: jobs, distance: 25ms}}, deadline: 60ms, runtime: 3ms, on_exit: {exit}, cmd: exec ./worker after}}\n\
         - {{name: segments, priority: 3, event: {{segments: yes, distance: 30ms}}, deadline: 90ms, runtime: 3ms, on_exit: {exit}, \
            cmd: exec ./worker segments}}\n"
    );
    let victim = [None, Some("jobs"), Some("after"), Some("segments")][draw(6, 3) as usize];
    Case { text, victim, restarts: exit == "restart", moment: draw(7, 250) }
}

/// The process of a task.
fn worker(takt: i32, task: &str) -> Option<i32> {
    let of_task = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == format!("./worker\0{task}\0")
    };
    processes(takt).into_iter().find(of_task)
}

/// How many descriptors and shared pages a process has.
fn holds(pid: i32) -> (usize, usize) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    (descriptors, maps.matches("memfd:takt-page").count())
}

/// Whether a process has a shared page, mapped or open.
fn has_page(pid: i32) -> bool {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    holds(pid).1 > 0 || open.into_iter().any(|path| path.to_string_lossy().contains("takt-page"))
}

fn killed(room: &Room, case: &Case) -> Result<(), String> {
    fs::write(room.path("w.yaml"), &case.text).expect("a file");
    let _ = fs::remove_file(room.path("t.jsonl"));
    let running = room.start(&["run", "w.yaml", "--duration", "600ms", "--json", "--trace", "t.jsonl"]);
    until("the schedule runs", || room.text("t.jsonl").lines().count() > 2);
    pause(case.moment);
    let pid = running.pid();
    let watcher = watchers(pid);
    always(watcher.iter().all(|watcher| !has_page(*watcher)), || "the watcher has a page".into());
    let Some(task) = case.victim else {
        running.kill_and_wait();
        return ensure(locks(pid) == 0, || "a CPU is locked".into());
    };
    let victim = worker(pid, task).ok_or("the process has not begun")?;
    let before = holds(pid);
    kill(victim, Signal::KILL);
    if case.restarts {
        until("another one is there", || worker(pid, task).is_some_and(|next| next != victim) || holds(pid).0 == 0);
        pause(20);
    }
    let after = holds(pid);
    let run = running.wait().json();
    always(locks(pid) == 0, || "a CPU is locked".into());
    // The run may have ended meanwhile. Of a process that has initialised as a replacement, the scheduler has its descriptor CONTINUE.
    ensure(after.0 <= before.0 + usize::from(case.restarts) && after.1 <= before.1, || {
        format!("descriptors and pages: {before:?}, then {after:?}")
    })?;
    let of = |name: &str| run["tasks"].as_array().expect("a list").iter().find(|t| t["name"] == name).expect("a task");
    let [released, met, missed, _] = counts(of("good"));
    ensure(released == 15 && met == 15 && missed == 0, || format!("the other task: {run}"))?;
    ensure(of(task)["failures"] == 1, || format!("the end is not recorded: {run}"))?;
    ensure(of(task)["restarts"] == u64::from(case.restarts), || format!("restarts: {run}"))?;
    let [released, met, missed, _] = counts(of("jobs"));
    if task == "jobs" && !case.restarts {
        ensure(missed >= 1 && released == 24, || format!("the jobs of a dead process are missed: {run}"))?;
    }
    ensure(task == "jobs" || met == 24, || format!("the other client: {run}"))?;
    room.check("t.jsonl", "w.yaml")
}

/// The names of sockets by which a run locks its CPUs.
fn locks(pid: i32) -> usize {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    sockets.lines().filter(|line| line.contains(&format!("takt/run/{pid}-"))).count()
}

#[test]
fn kills_at_seeded_moments_leave_nothing() {
    let cases = std::env::var("TAKT_KILLS").map_or(40, |cases| cases.parse().expect("a number"));
    let first = takt_testing::seed();
    on_cpus(|| {
        let room = Room::with("");
        if compiled_text(&room, "worker", WORKER, true).is_none() {
            return;
        }
        let (mut takt, mut clients) = (0, 0);
        for seed in first..first + cases {
            let case = case(seed);
            println!(
                "{} after {} ms; repeat with: TAKT_SEED={seed} TAKT_KILLS=1 cargo test -p takt-rt-cli --test real -- kills_at_seeded",
                case.victim.unwrap_or("takt"),
                case.moment
            );
            attempts(4, || killed(&room, &case));
            *if case.victim.is_none() { &mut takt } else { &mut clients } += 1;
        }
        println!("{cases} kills: {takt} of Takt, {clients} of clients; nothing was left");
    });
}
