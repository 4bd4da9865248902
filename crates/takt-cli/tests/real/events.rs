//! Jobs that are released by events, and real-time segments, which their programs begin.

use super::clients::{compiled_text, counts};
use crate::common::{Room, attempts, ensure, until};
use crate::machine::on_cpus;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

fn task<'r>(run: &'r Value, name: &str) -> &'r Value {
    let tasks = run["tasks"].as_array().expect("a list");
    tasks.iter().find(|task| task["name"] == name).unwrap_or_else(|| panic!("no task {name}: {run}"))
}

/// A replay of the recorded inputs counts the jobs of the run.
fn replays(room: &Room, run: &Value) -> Result<(), String> {
    let replay = room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--json"]).json();
    let same = |key: &str| replay["tasks"].as_array().map(|all| all.iter().map(|t| t[key].clone()).collect::<Vec<_>>());
    let ran = |key: &str| run["tasks"].as_array().map(|all| all.iter().map(|t| t[key].clone()).collect::<Vec<_>>());
    for key in ["released", "completed", "met", "missed", "aborted", "response_ns"] {
        ensure(same(key) == ran(key), || format!("{key}: {replay}\n{run}"))?;
    }
    room.check("t.jsonl", "w.yaml")
}

/// A free port of this machine.
fn free_address() -> std::net::SocketAddr {
    UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port")
}

#[test]
fn each_source_releases_a_job_per_event() {
    on_cpus(|| {
        attempts(3, || {
            let address = free_address();
            let room = Room::with(&format!(
                "policy: edf\ncpus: 0\nrealtime: yes\ntasks:\n\
                 - {{name: udp, event: {{udp: \"{address}\"}}, deadline: 60ms, runtime: 1ms, init: yes, output: out, \
                    cmd: 'echo $TAKT_EVENT; exec takt burn --runtime 1ms'}}\n\
                 - {{name: pipe, event: {{pipe: p, distance: 20ms}}, deadline: 60ms, runtime: 1ms, init: yes, cmd: exec takt burn --runtime 1ms}}\n\
                 - {{name: signal, event: {{signal: USR2}}, deadline: 60ms, runtime: 1ms, init: yes, cmd: exec takt burn --runtime 1ms}}\n\
                 - {{name: second, event: {{after: udp}}, deadline: 60ms, runtime: 1ms, init: yes, cmd: exec takt burn --runtime 1ms}}\n\
                 - {{name: third, event: {{after: second}}, deadline: 60ms, runtime: 1ms, init: yes, cmd: exec takt burn --runtime 1ms}}\n"
            ));
            rustix::fs::mkfifoat(rustix::fs::CWD, room.path("p"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
                .unwrap();
            let args = ["run", "w.yaml", "--duration", "1s", "--json", "--trace", "t.jsonl", "--record", "r.steps"];
            let running = room.start(&args);
            until("the schedule runs", || room.text("t.jsonl").lines().count() > 0 && !room.text("r.steps").is_empty());
            let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let open = |_| {
                OpenOptions::new()
                    .write(true)
                    .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
                    .open(room.path("p"))
            };
            let mut pipe = (0..1).map(open).next().expect("one").map_err(|e| e.to_string())?;
            for _ in 0..4 {
                sender.send_to(b"event", address).expect("it is sent");
                // Two changes within the least distance are two jobs, the second one delayed.
                for _ in 0..2 {
                    pipe.write_all(b"event").map_err(|e| e.to_string())?;
                    std::thread::sleep(std::time::Duration::from_millis(3));
                }
                running.signal(Signal::USR2);
                std::thread::sleep(std::time::Duration::from_millis(60));
            }
            let run = running.wait().json();
            for (name, jobs) in [("udp", 4), ("pipe", 8), ("signal", 4), ("second", 4), ("third", 4)] {
                ensure(counts(task(&run, name)) == [jobs, jobs, 0, 0], || format!("{name}: {run}"))?;
                ensure(task(&run, name)["lost"] == 0, || format!("{name}: {run}"))?;
            }
            // The descriptor of its source, by its number.
            ensure(room.text("out").trim().parse::<i32>().is_ok_and(|number| number > 2), || room.text("out"))?;
            replays(&room, &run)
        });
    });
}

#[test]
fn an_inherited_descriptor_releases_jobs_and_another_one_is_refused() {
    on_cpus(|| {
        let room = Room::with(
            "policy: edf\ncpus: 0\nrealtime: yes\ntasks:\n\
             - {name: a, event: {fd: 7, queue: 2}, deadline: 200ms, runtime: 1ms, init: yes, cmd: exec takt burn --runtime 1ms}\n",
        );
        // Nothing is open there.
        let refused = room.takt(&["run", "w.yaml", "--duration", "100ms"]);
        let said = |done: &str| {
            done.contains("[unreadable-file]") && done.contains("descriptor 7") && done.contains("w.yaml:5")
        };
        assert!(refused.code() == 2 && said(&refused.stderr), "{}", refused.stderr);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec \"$TAKT\" run w.yaml --duration 100ms 7<w.yaml"])
            .env("TAKT", env!("CARGO_BIN_EXE_takt"));
        let refused = shell.current_dir(room.path("")).output().expect("sh starts");
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said(&text) && text.contains("always readable"), "{text}");
        attempts(3, || {
            // A change every 40 ms.
            let script = "(sleep 0.4; for i in 1 2 3; do echo; sleep 0.04; done; sleep 1) | exec \"$TAKT\" run w.yaml --duration 900ms --json 7<&0";
            let mut shell = Command::new("sh");
            shell.args(["-c", script]).env("TAKT", env!("CARGO_BIN_EXE_takt")).current_dir(room.path(""));
            let done = shell.output().expect("sh starts");
            let run: Value = serde_json::from_slice(&done.stdout).map_err(|e| e.to_string())?;
            ensure(counts(task(&run, "a")) == [3, 3, 0, 0], || run.to_string())
        });
    });
}

#[test]
fn events_beyond_the_queue_are_lost_and_counted() {
    on_cpus(|| {
        // Each job of `slow` takes longer than three jobs of `fast`.
        let room = Room::with(
            "policy: edf\ncpus: 0\nrealtime: yes\ntasks:\n\
             - {name: fast, period: 20ms, deadline: 10ms, runtime: 1ms, init: yes, cmd: exec takt burn --runtime 1ms}\n\
             - {name: slow, event: {after: fast, queue: 1}, deadline: 500ms, runtime: 70ms, init: yes, cmd: exec takt burn --runtime 70ms}\n",
        );
        attempts(3, || {
            let args = ["run", "w.yaml", "--duration", "1s", "--json", "--trace", "t.jsonl", "--record", "r.steps"];
            let run = room.takt(&args).json();
            let (fast, slow) = (task(&run, "fast"), task(&run, "slow"));
            ensure(counts(fast) == [50, 50, 0, 0], || run.to_string())?;
            // Each event released a job, waits for its release, or was lost.
            let (released, lost) = (slow["released"].as_u64().unwrap(), slow["lost"].as_u64().unwrap());
            ensure(released + lost >= 49 && released + lost <= 50 && (11..=15).contains(&released), || {
                run.to_string()
            })?;
            ensure(slow["missed"] == 0, || run.to_string())?;
            replays(&room, &run)
        });
    });
}

/// It executes segments of two lengths, and ordinary work in between. The third segment never ends by itself.
const SEGMENTS: &str = r#"
#include "takt.h"
#include <sched.h>
#include <stdio.h>
#include <time.h>

static volatile unsigned long rounds;

static void compute(unsigned long n)
{
	while (n--)
		rounds++;
}

static void pause_ms(long ms)
{
	struct timespec span = { 0, ms * 1000000 };
	nanosleep(&span, NULL);
}

int main(void)
{
	struct takt_segment terms = { 30000000, 2000000, 7000000 }, bad = { -5, 0, 0 };
	struct takt_job job, next;
	struct takt_statistics s;
	int inside, outside, end, none, nothing, invalid, next_job;

	takt_ready(NULL);
	none = takt_end();
	invalid = takt_begin(&bad, NULL);
	next_job = takt_next_job(NULL);
	outside = sched_getscheduler(0) & ~0x40000000; /* SCHED_RESET_ON_FORK */
	takt_begin(&terms, &job);
	inside = sched_getscheduler(0) & ~0x40000000;
	compute(100000);
	end = takt_end();
	printf("%d %d %d %d %d %d %lld\n", none, invalid, next_job, outside, inside, end, (long long)(job.deadline - job.release));
	pause_ms(30);
	/* The terms of the workload. */
	takt_begin(NULL, &next);
	compute(100000);
	nothing = takt_end();
	printf("%lld %lld %d\n", (long long)next.number, (long long)(next.deadline - next.release), nothing);
	/* It is aborted at its deadline, and continues as an ordinary process. */
	takt_begin(&terms, NULL);
	while (!takt_aborted())
		compute(1000);
	outside = sched_getscheduler(0) & ~0x40000000; /* SCHED_RESET_ON_FORK */
	end = takt_end();
	takt_statistics(&s);
	printf("%d %d %lld %lld %lld\n", outside, end, (long long)s.released, (long long)s.met, (long long)s.aborted);
	fflush(stdout);
	/* Another one begins without an end of the aborted one. */
	takt_begin(&terms, NULL);
	while (!takt_aborted())
		compute(1000);
	takt_begin(&terms, NULL);
	takt_end();
	return 0;
}
"#;

#[test]
fn a_program_executes_real_time_segments() {
    on_cpus(|| {
        let room = Room::with(
            "policy: dasa\ncpus: 0\nlate: abort\nrealtime: yes\ntasks:\n\
             - {name: s, event: segments, deadline: 80ms, runtime: 3ms, utility: 2, init: yes, output: out, cmd: exec ./segments}\n\
             - {name: other, period: 40ms, runtime: 2ms, utility: 1, init: yes, cmd: exec takt burn --runtime 2ms}\n",
        );
        if compiled_text(&room, "segments", SEGMENTS, true).is_none() {
            return;
        }
        attempts(3, || {
            let _ = std::fs::remove_file(room.path("out"));
            let args = ["run", "w.yaml", "--duration", "800ms", "--json", "--trace", "t.jsonl", "--record", "r.steps"];
            let run = room.takt(&args).json();
            let said = room.text("out");
            ensure(said == "-5 -7 -7 0 1 0 30000000\n1 80000000 0\n0 -6 3 2 1\n", || format!("{said}\n{run}"))?;
            let (segments, other) = (task(&run, "s"), task(&run, "other"));
            ensure(counts(segments) == [5, 3, 2, 2], || run.to_string())?;
            // 7 of the first and the last segment, 2 of the one with the terms of the workload.
            ensure(segments["utility"]["accrued"] == 16, || run.to_string())?;
            ensure(counts(other) == [20, 20, 0, 0], || run.to_string())?;
            replays(&room, &run)
        });
    });
}

/// The first instance begins a segment and is killed before its dispatch. The next one only sleeps.
const KILLED: &str = r#"
#include "takt.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec span = { 0, 20000000 };
	FILE *pid = fopen("pid", "wx");

	takt_ready(NULL);
	if (pid) {
		nanosleep(&span, NULL);
		fprintf(pid, "%d\n", (int)getpid());
		fclose(pid);
		takt_begin(NULL, NULL);
	}
	for (;;)
		pause();
}
"#;

#[test]
fn a_segment_whose_program_died_before_it_began_keeps_no_cpu() {
    on_cpus(|| {
        attempts(3, || {
            let room = Room::with(
                "policy: fp\ncpus: 0\nrealtime: no\ntasks:\n\
                 - {name: high, priority: 9, period: 200ms, runtime: 120ms, init: yes, cmd: exec takt burn --runtime 120ms}\n\
                 - {name: s, priority: 5, event: segments, on_exit: restart, deadline: 80ms, runtime: 3ms, cmd: exec ./killed}\n\
                 - {name: low, priority: 1, period: 200ms, offset: 5ms, runtime: 10ms, init: yes, cmd: exec takt burn --runtime 10ms}\n",
            );
            if compiled_text(&room, "killed", KILLED, true).is_none() {
                return Ok(());
            }
            // A stopped process dies at once.
            let args = [
                "run",
                "w.yaml",
                "--duration",
                "1s",
                "--json",
                "--mechanism",
                "signal",
                "--trace",
                "t.jsonl",
                "--record",
                "r.steps",
            ];
            let running = room.start(&args);
            until("the segment begins", || {
                std::fs::read_to_string(room.path("pid")).is_ok_and(|pid| pid.ends_with('\n'))
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            let pid = room.text("pid").trim().parse().map_err(|_| "a process id".to_owned())?;
            crate::common::kill(pid, Signal::KILL);
            let run = running.wait().json();
            let (segment, low) = (task(&run, "s"), task(&run, "low"));
            ensure(segment["restarts"] == 1 && segment["released"] == 1 && segment["completed"] == 0, || {
                run.to_string()
            })?;
            ensure(low["released"] == 5 && low["completed"] == 5, || run.to_string())?;
            replays(&room, &run)
        });
    });
}

/// Each of its jobs reads its source, but not more than so much of it, and computes for longer than events need to fill its queue.
const SINK: &str = r#"
#include "takt.h"
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
	const char *event = getenv("TAKT_EVENT");
	int source = event ? atoi(event) : -1, n;
	volatile long rounds;
	char buffer[4096];
	struct takt_job job;

	takt_ready(&job);
	do {
		for (n = 0; source >= 0 && n < 64; n++)
			if (read(source, buffer, sizeof buffer) <= 0)
				break;
		for (rounds = 0; rounds < 400000; rounds++)
			;
	} while (takt_next_job(&job) == TAKT_OK);
	return 0;
}
"#;

/// Writes one event, and says whether it was written.
type Flood = Box<dyn FnMut() -> bool>;

/// A source that changes without a pause, from another CPU where there is one. The task beside it, on the scheduler's CPU, loses nothing.
#[test]
fn a_flood_of_events_harms_no_other_task() {
    on_cpus(|| {
        let room = Room::with("");
        if compiled_text(&room, "sink", SINK, true).is_none() {
            return;
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, room.path("p"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        for source in ["udp", "pipe", "signal"] {
            attempts(3, || {
                let address = free_address();
                let event = match source {
                    "udp" => format!("udp: \"{address}\""),
                    "pipe" => "pipe: p".to_owned(),
                    _ => "signal: USR2".to_owned(),
                };
                let text = format!(
                    "policy: edf\ncpus: 0\nrealtime: yes\ntasks:\n\
                     - {{name: good, period: 10ms, runtime: 4ms, init: yes, cmd: exec takt burn --runtime 4ms}}\n\
                     - {{name: sink, event: {{{event}, queue: 4}}, deadline: 500ms, runtime: 1ms, init: yes, cmd: exec ./sink}}\n"
                );
                std::fs::write(room.path("w.yaml"), text).expect("a file");
                // Those of the run before say nothing about this one.
                for name in ["t.jsonl", "r.steps"] {
                    let _ = std::fs::remove_file(room.path(name));
                }
                let args = ["run", "w.yaml", "--duration", "1s", "--json", "--trace", "t.jsonl", "--record", "r.steps"];
                let running = room.start(&args);
                until("the schedule runs", || {
                    room.text("t.jsonl").lines().count() > 0 && !room.text("r.steps").is_empty()
                });
                let mut write: Flood = match source {
                    "udp" => {
                        let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                        Box::new(move || sender.send_to(b"event", address).is_ok())
                    }
                    "pipe" => {
                        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
                        let pipe = OpenOptions::new().write(true).custom_flags(flags).open(room.path("p"));
                        let mut pipe = pipe.map_err(|e| e.to_string())?;
                        Box::new(move || pipe.write(b"e").is_ok())
                    }
                    _ => {
                        let pid = rustix::process::Pid::from_raw(running.pid()).expect("a process");
                        Box::new(move || rustix::process::kill_process(pid, Signal::USR2).is_ok())
                    }
                };
                let (began, mut written) = (std::time::Instant::now(), 0u64);
                while began.elapsed() < std::time::Duration::from_millis(800) {
                    // A full pipe is none of the floods that are meant here.
                    written += (0..100).filter(|_| write()).count() as u64;
                }
                let run = running.wait().json();
                let (good, sink) = (task(&run, "good"), task(&run, "sink"));
                ensure(counts(good) == [100, 100, 0, 0], || format!("{source}: {run}"))?;
                let [released, lost, floods] =
                    ["released", "lost", "event_floods"].map(|key| sink[key].as_u64().unwrap());
                // At most 128 events are heard in 10 ms, and one when the source is heard again. Each was released, waits, or was lost.
                let heard = released + lost;
                ensure(written > 20_000 && (1_000..=101 * 130).contains(&heard), || {
                    format!("{source}: {written} {run}")
                })?;
                // A signal that is pending already is no other event, so signals may come too rarely for a flood.
                let least = if source == "signal" { 0 } else { 20 };
                ensure(lost > 100 && (least..=101).contains(&floods), || format!("{source}: {written} {run}"))?;
                let note = run["notes"].to_string().contains("changed all the time");
                ensure(note == (floods > 0), || format!("{source}: {run}"))?;
                ensure(run["dropped_records"] == 0, || format!("{source}: {run}"))?;
                println!("{source}: {written} written, {released} released, {lost} lost, {floods} floods");
                replays(&room, &run)
            });
        }
    });
}
