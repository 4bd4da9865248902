//! Client programs that misbehave harm their own tasks only, and the report names them.

use super::clients::{compiled_text, counts};
use crate::common::{Room, attempts, ensure, has_cpus};
use crate::machine::on_cpus;
use serde_json::Value;

/// One program, which misbehaves as its argument says.
const ROGUE: &str = r#"
#define _GNU_SOURCE
#include "takt.h"
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long rounds;
static uint32_t *page;
static int bell;

static void compute(void)
{
	unsigned long n;

	for (n = 0; n < 1000; n++)
		rounds++;
}

static void *spin(void *argument)
{
	for (;;)
		compute();
	return argument;
}

static void start_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, spin, NULL) != 0)
		exit(3);
}

static void ring(void)
{
	uint64_t one = 1;

	if (write(bell, &one, 8) != 8)
		compute();
}

/* For half a millisecond of CPU time. */
static void handle(int number)
{
	struct timespec began, now;

	(void)number;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
	do {
		compute();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec < 500000);
}

/* A request without a wait for its answer. */
static void ask(uint32_t kind)
{
	page[7] = kind;
	__atomic_add_fetch(&page[5], 1, __ATOMIC_RELEASE);
	ring();
}

int main(int count, char **arguments)
{
	struct takt_segment short_one = { 1, 1, 0 }, liar = { 15000000, 1, 0 };
	const char *text = getenv("TAKT_CLIENT"), *how = count > 1 ? arguments[1] : "";
	struct takt_job job;
	int file, init;

	if (!text || sscanf(text, "%d,%d,%d", &file, &bell, &init) != 3)
		return 1;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (page == MAP_FAILED || takt_ready(&job) != TAKT_OK)
		return 2;
	if (strcmp(how, "dies") == 0) {
		for (;;) {
			if (takt_lock(0) != TAKT_OK)
				return 4;
			while (job.number == 2 && rounds < 10000000)
				compute();
			if (job.number == 2)
				raise(SIGKILL);
			takt_next_job(&job);
		}
	}
	if (strcmp(how, "understates") == 0 && takt_set_runtime(1) != TAKT_OK)
		return 5;
	if (strcmp(how, "rings") == 0)
		for (;;)
			ring();
	if (strcmp(how, "requests") == 0)
		for (;;)
			ask(9);
	if (strcmp(how, "locks") == 0)
		ask(3);
	if (strcmp(how, "pauses") == 0)
		for (;;)
			pause();
	if (strcmp(how, "spins") == 0) {
		start_thread();
		while (takt_next_job(NULL) == TAKT_OK)
			;
	}
	if (strcmp(how, "stays") == 0)
		for (;;) {
			((uint64_t *)page)[4] = ((uint64_t *)page)[17];
			ask(1);
			while (__atomic_load_n(&page[6], __ATOMIC_ACQUIRE) != page[5])
				compute();
		}
	if (strcmp(how, "alarms") == 0) {
		struct itimerval often = { { 0, 1000 }, { 0, 1000 } };

		signal(SIGALRM, handle);
		setitimer(ITIMER_REAL, &often, NULL);
		while (takt_next_job(NULL) == TAKT_OK)
			;
	}
	if (strcmp(how, "begins") == 0)
		for (;;)
			takt_begin(&short_one, NULL);
	if (strcmp(how, "lies") == 0)
		while (takt_begin(&liar, NULL) == TAKT_OK)
			while (!takt_aborted())
				compute();
	if (strcmp(how, "thread") == 0 && takt_begin(NULL, NULL) == TAKT_OK) {
		start_thread();
		takt_end();
	}
	for (;;)
		compute();
}
"#;

fn named<'r>(run: &'r Value, name: &str) -> &'r Value {
    let tasks = run["tasks"].as_array().expect("a list");
    tasks.iter().find(|task| task["name"] == name).expect("the task")
}

fn number(run: &Value, key: &str) -> u64 {
    named(run, "rogue")[key].as_u64().expect("a count")
}

/// Runs a workload for a second, replays what it recorded, and gives its report.
fn run(room: &Room, text: &str) -> Result<Value, String> {
    std::fs::write(room.path("w.yaml"), text).expect("a file");
    let args = ["run", "w.yaml", "--duration", "1s", "--json", "--trace", "t.jsonl", "--record", "r.steps"];
    let run = room.takt(&args).json();
    room.check("t.jsonl", "w.yaml").map_err(|why| format!("{why}\n{run}"))?;
    let replay = room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--json"]).json();
    let all = |report: &Value| report["tasks"].as_array().expect("a list").iter().map(counts).collect::<Vec<_>>();
    ensure(all(&run) == all(&replay), || format!("{replay}\n{run}"))?;
    Ok(run)
}

const GOOD: &str =
    "- {name: good, priority: 5, period: 20ms, runtime: 6ms, init: yes, cmd: exec takt burn --runtime 6ms}\n";

/// The rogue is more urgent than the other task, and has a budget.
fn with_budget(dispatch: &str, how: &str) -> String {
    format!(
        "policy: fp\ncpus: 0\nrealtime: yes\ndispatch: {dispatch}\nresources: [r]\ntasks:\n{GOOD}\
         - {{name: rogue, priority: 9, period: 20ms, runtime: 2ms, budget: 3ms, init: yes, cmd: exec ./rogue {how}}}\n"
    )
}

/// A condition on the report about the rogue.
type Recorded = fn(&Value) -> bool;

#[test]
fn a_budget_contains_each_rogue() {
    on_cpus(|| {
        let room = Room::with("");
        if compiled_text(&room, "rogue", ROGUE, true).is_none() {
            return;
        }
        // All but the last jobs, which may end with the run.
        let is_aborted: Recorded = |run| number(run, "aborted") >= 45 && number(run, "met") == 0;
        let floods: Recorded = |run| number(run, "aborted") >= 45 && number(run, "floods") >= 20;
        // It sleeps for ever, which consumes no CPU time.
        let sleeps: Recorded = |run| number(run, "missed") >= 45 && number(run, "met") == 0;
        // The thread has only the time of the first one's jobs.
        let spins: Recorded = |run| number(run, "met") >= 45 && number(run, "cpu_ns") < 200_000_000;
        // It requests its next job in time, and does not sleep until that.
        let stays: Recorded = |run| number(run, "met") >= 45 && number(run, "cpu_ns") < 150_000_000;
        // Its handlers have half of the time at most in which nothing else has the CPU.
        let alarms: Recorded = |run| number(run, "met") >= 45 && number(run, "cpu_ns") < 500_000_000;
        let rogues = [
            ("understates", is_aborted),
            ("locks", is_aborted),
            ("requests", is_aborted),
            ("pauses", sleeps),
            ("rings", floods),
            ("spins", spins),
            ("stays", stays),
            ("alarms", alarms),
        ];
        for (how, recorded) in rogues {
            for dispatch in ["freeze", "priority"] {
                attempts(3, || {
                    let run = run(&room, &with_budget(dispatch, how))?;
                    ensure(counts(named(&run, "good")) == [50, 50, 0, 0], || format!("{how}, {dispatch}: {run}"))?;
                    println!("{how}, {dispatch}: {} ns", number(&run, "cpu_ns"));
                    ensure(recorded(&run), || format!("{how}, {dispatch}: {run}"))
                });
            }
        }
    });
}

/// The time for which a flooding program is frozen is no CPU time, and no job exceeds its budget by it.
#[test]
fn a_frozen_program_uses_no_cpu_time() {
    on_cpus(|| {
        let room = Room::with("");
        if compiled_text(&room, "rogue", ROGUE, true).is_none() {
            return;
        }
        attempts(3, || {
            let run = run(&room, &with_budget("freeze", "rings"))?;
            let (all, most) = (number(&run, "cpu_ns"), number(&run, "most_used_ns"));
            println!("{all} ns, and {most} ns in one job");
            let checked = room.takt(&["trace", "check", "t.jsonl", "w.yaml", "--tolerance", "3ms"]);
            let over = checked.stdout.lines().filter(|line| line.contains("consumed") || line.contains("budget"));
            let over: Vec<&str> = over.collect();
            ensure(number(&run, "floods") >= 20 && most < all && over.is_empty(), || format!("{over:?} {run}"))
        });
    });
}

/// The scheduler may take its CPU time from a task on another CPU than that of the flood.
#[test]
fn a_flood_harms_no_other_cpu() {
    on_cpus(|| {
        let room = Room::with("");
        if !has_cpus(2) || compiled_text(&room, "rogue", ROGUE, true).is_none() {
            return;
        }
        for how in ["rings", "requests"] {
            let text = format!(
                "policy: p-edf\ncpus: 0-1\nrealtime: yes\ntasks:\n\
                 - {{name: good, cpu: 0, period: 20ms, runtime: 12ms, init: yes, cmd: exec takt burn --runtime 12ms}}\n\
                 - {{name: rogue, cpu: 1, period: 200ms, runtime: 100ms, init: yes, cmd: exec ./rogue {how}}}\n"
            );
            attempts(3, || {
                let run = run(&room, &text)?;
                ensure(counts(named(&run, "good")) == [50, 50, 0, 0] && number(&run, "floods") >= 20, || {
                    format!("{how}: {run}")
                })
            });
        }
    });
}

/// The waiting job gets the lock, and the job of the dead program is missed.
#[test]
fn a_lock_outlives_no_holder() {
    on_cpus(|| {
        let room = Room::with("");
        if compiled_text(&room, "rogue", ROGUE, true).is_none() {
            return;
        }
        for (exit, expected) in [("end", [10, 2, 8]), ("restart", [10, 9, 1])] {
            for dispatch in ["freeze", "priority"] {
                let text = format!(
                    "policy: fp\ncpus: 0\nrealtime: yes\ndispatch: {dispatch}\nlocking: inheritance\nresources: [r]\ntasks:\n\
                     - {{name: waiter, priority: 9, period: 50ms, offset: 2ms, init: yes, steps: [lock r, run 1ms, unlock r, run 1ms], \
                        cmd: \"exec takt burn --steps 'lock r, run 1ms, unlock r, run 1ms'\"}}\n\
                     - {{name: rogue, priority: 1, period: 100ms, runtime: 30ms, init: yes, on_exit: {exit}, cmd: exec ./rogue dies}}\n"
                );
                attempts(3, || {
                    let run = run(&room, &text)?;
                    let [released, met, missed, _] = counts(named(&run, "rogue"));
                    ensure(counts(named(&run, "waiter")) == [20, 20, 0, 0], || format!("{exit}, {dispatch}: {run}"))?;
                    ensure([released, met, missed] == expected, || format!("{exit}, {dispatch}: {run}"))?;
                    let waited = room.text("t.jsonl").contains("\"type\":\"block\",\"task\":\"waiter\"");
                    ensure(waited, || format!("the lock was free: {run}"))
                });
            }
        }
    });
}

/// Outside of segments a program has no right to a CPU, and within them no more than its budget.
#[test]
fn segments_give_no_more_than_their_budget() {
    on_cpus(|| {
        let room = Room::with("");
        if compiled_text(&room, "rogue", ROGUE, true).is_none() {
            return;
        }
        let lies: Recorded = |run| (10..=50).contains(&number(run, "aborted")) && number(run, "met") == 0;
        let begins: Recorded = |run| number(run, "aborted") >= 10 && (20..=110).contains(&number(run, "floods"));
        let thread: Recorded = |run| number(run, "met") == 1 && number(run, "released") == 1;
        for (how, distance, recorded) in [("lies", "20ms", lies), ("begins", "1us", begins), ("thread", "20ms", thread)]
        {
            for dispatch in ["freeze", "priority"] {
                let text = format!(
                    "policy: edf\ncpus: 0\nrealtime: yes\nlate: abort\ndispatch: {dispatch}\ntasks:\n{GOOD}\
                     - {{name: rogue, event: {{segments: yes, distance: {distance}}}, deadline: 20ms, runtime: 2ms, budget: 3ms, \
                        init: yes, cmd: exec ./rogue {how}}}\n"
                );
                attempts(3, || {
                    let run = run(&room, &text.replace("priority: 5, ", ""))?;
                    ensure(counts(named(&run, "good")) == [50, 50, 0, 0], || format!("{how}, {dispatch}: {run}"))?;
                    ensure(recorded(&run), || format!("{how}, {dispatch}: {run}"))
                });
            }
        }
    });
}
