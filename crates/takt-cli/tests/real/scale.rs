//! Many clients, and many that come and go. `cargo xtask campaign --only faults` takes longer (`TAKT_SCALE=full`).

use super::clients::compiled_text;
use crate::common::{Room, Running, attempts, ensure, pause, processes, until};
use crate::machine::on_cpus;
use serde_json::Value;
use std::fs;

/// It completes jobs, or ends after the first one.
const TICK: &str = r#"
#include "takt.h"
#include <stddef.h>

int main(int count, char **arguments)
{
	(void)arguments;
	if (takt_ready(NULL) != TAKT_OK)
		return 1;
	while (count == 1 && takt_next_job(NULL) == TAKT_OK)
		;
	return 0;
}
"#;

fn is_full() -> bool {
    std::env::var("TAKT_SCALE").is_ok_and(|scale| scale == "full")
}

/// The use of Takt: resident memory in KiB, descriptors, mappings, and the CPU time of its scheduler thread in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Use {
    memory: u64,
    descriptors: usize,
    mappings: usize,
    cpu: u64,
}

fn used(pid: i32) -> Option<Use> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let memory =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?.parse().ok()?;
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let name = |thread: &fs::DirEntry| fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
    let scheduler = threads.into_iter().find(|thread| name(thread).trim() == "takt-scheduler")?;
    let times = fs::read_to_string(scheduler.path().join("schedstat")).ok()?;
    let cpu: u64 = times.split(' ').next()?.parse().ok()?;
    Some(Use {
        memory,
        descriptors: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count(),
        mappings: fs::read_to_string(format!("/proc/{pid}/maps")).ok()?.lines().count(),
        cpu: cpu / 1_000_000,
    })
}

/// The use of a run after its beginning and before its end, `seconds` later.
fn watched(running: &Running, seconds: u64) -> Result<[Use; 2], String> {
    // Its first records and messages take memory that it keeps.
    pause(1000);
    let first = used(running.pid()).ok_or("the run has ended")?;
    pause(seconds * 1000);
    let last = used(running.pid()).ok_or("the run has ended")?;
    println!("{:>24} {:>12} {:>12} {:>12}", "", "begin", "end", "growth");
    let rows = [
        ("resident memory, KiB", first.memory, last.memory),
        ("descriptors", first.descriptors as u64, last.descriptors as u64),
        ("mappings", first.mappings as u64, last.mappings as u64),
        ("scheduler thread, CPU ms", first.cpu, last.cpu),
    ];
    rows.iter().for_each(|(name, a, b)| println!("{name:>24} {a:>12} {b:>12} {:>12}", *b as i64 - *a as i64));
    println!("{:>24} {:>25.1} % of a CPU", "scheduler thread", (last.cpu - first.cpu) as f64 / (seconds * 10) as f64);
    Ok([first, last])
}

fn sum(run: &Value, key: &str) -> u64 {
    run["tasks"].as_array().expect("a list").iter().map(|task| task[key].as_u64().expect("a count")).sum()
}

/// 1000 clients are attached, each fifth with a period of 10 ms.
#[test]
fn a_thousand_clients_take_no_more_memory_with_time() {
    let seconds = if is_full() { 60 } else { 3 };
    let clients = 1000;
    let tasks: String = (0..clients)
        .map(|n| {
            let period = if n % 5 == 0 { "10ms" } else { "1s" };
            let cpu = usize::from(n % 2 == 1 && std::thread::available_parallelism().is_ok_and(|n| n.get() > 1));
            format!("- {{name: t{n}, cpu: {cpu}, period: {period}, offset: {}us, runtime: 10us, init: yes, cmd: exec ./tick}}\n", n * 7)
        })
        .collect();
    let cpus = if tasks.contains("cpu: 1") { "0-1" } else { "0" };
    let text = format!("policy: p-edf\ncpus: {cpus}\nrealtime: yes\ninit_timeout: 120s\ntasks:\n{tasks}");
    on_cpus(|| {
        let room = Room::with(&text);
        if compiled_text(&room, "tick", TICK, true).is_none() {
            return;
        }
        attempts(2, || {
            let _ = fs::remove_file(room.path("r.steps"));
            let duration = format!("{}s", seconds + 3);
            let running = room.start(&["run", "w.yaml", "--duration", &duration, "--json", "--record", "r.steps"]);
            until("the schedule runs", || room.text("r.steps").len() > 1 << 16 || running.stderr().contains("error"));
            let there = processes(running.pid()).len();
            let [first, last] = watched(&running, seconds)?;
            let run = running.wait().json();
            println!(
                "{} jobs, {} missed; lateness {}",
                sum(&run, "completed"),
                sum(&run, "missed"),
                run["lateness_ns"]
            );
            ensure(there >= clients, || format!("{there} clients"))?;
            ensure(last.memory <= first.memory + 1024, || format!("{first:?} {last:?}"))?;
            ensure(last.descriptors == first.descriptors, || format!("{first:?} {last:?}"))?;
            ensure(sum(&run, "failures") == 0 && sum(&run, "completed") > 0, || "clients failed".into())
        });
    });
}

/// Each job is the only one of its process, so clients attach and detach without end.
#[test]
fn clients_that_come_and_go_leave_nothing_in_takt() {
    let (seconds, least) = if is_full() { (120, 10_000) } else { (3, 100) };
    let tasks: String = (0..10)
        .map(|n| {
            format!(
                "- {{name: t{n}, period: 20ms, offset: {n}ms, runtime: 1ms, on_exit: restart, cmd: exec ./tick once}}\n"
            )
        })
        .collect();
    on_cpus(|| {
        let room = Room::with(&format!("policy: edf\ncpus: 0\ntasks:\n{tasks}"));
        if compiled_text(&room, "tick", TICK, true).is_none() {
            return;
        }
        attempts(3, || {
            let duration = format!("{}s", seconds + 3);
            let running = room.start(&["run", "w.yaml", "--duration", &duration, "--json"]);
            until("it runs", || used(running.pid()).is_some());
            let [first, last] = watched(&running, seconds)?;
            let run = running.wait().json();
            let restarts = sum(&run, "restarts");
            println!("{restarts} clients attached and detached");
            ensure(restarts >= least, || run.to_string())?;
            ensure(last.memory <= first.memory + 1024, || format!("{first:?} {last:?}"))?;
            // The channels of the clients that are being started.
            ensure(last.descriptors <= first.descriptors + 20, || format!("{first:?} {last:?}"))?;
            ensure(last.mappings <= first.mappings + 8, || format!("{first:?} {last:?}"))
        });
    });
}

/// Six hundred partitions without clients, and a fixed number of descriptors.
#[test]
fn many_partitions_without_clients_have_few_descriptors() {
    let partitions = 600;
    let window =
        |n: usize| format!("- {{length: 5ms, cpu: 0, sc_processes: {{cmd: 'exec sleep 1000 # {n}', budget: 5ms}}}}\n");
    let windows: String = (0..partitions).map(window).collect();
    let text = format!("client: none\ndescriptors: few\nrealtime: no\nwindows:\n{windows}");
    on_cpus(|| {
        attempts(3, || {
            let room = Room::with(&text);
            let running = room.start(&["run", "w.yaml", "--duration", "3s", "--json", "--record", "r.steps"]);
            until("the schedule runs", || room.text("r.steps").len() > 1 << 12 || running.stderr().contains("error"));
            // A process that has had no window yet is a copy of its starter.
            pause(700);
            let of_run: Vec<i32> = processes(running.pid()).into_iter().filter(|pid| comm(*pid) == "sleep").collect();
            // A process that was stopped while it was loaded has a library open, too.
            let open = |pid: i32| {
                let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
                open.map(|fd| fs::read_link(fd.path()).unwrap_or_default().display().to_string()).collect::<Vec<_>>()
            };
            let descriptors = open(running.pid()).len();
            let own: Vec<Vec<String>> = of_run.iter().take(20).map(|pid| open(*pid)).collect();
            let environments =
                of_run.iter().take(20).map(|pid| fs::read(format!("/proc/{pid}/environ")).unwrap_or_default());
            let named = environments.map(|text| String::from_utf8_lossy(&text).into_owned());
            let named =
                named.filter(|text| text.contains("DEMOS_PARAMETERS=") || text.contains("TAKT_CLIENT=")).count();
            let run = running.wait().json();
            assert!((1..=512).contains(&descriptors), "{descriptors} descriptors");
            let of_client = |target: &String| target.contains("eventfd") || target.contains("memfd");
            assert!(!own.iter().flatten().any(of_client) && named == 0, "{own:?}");
            assert!(run["startup_cpu_ns"].as_u64() > Some(0), "{run}");
            ensure(own.len() > 5 && run["refused"] == 0, || format!("{} processes have run: {run}", own.len()))
        });
    });
}

fn comm(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}
