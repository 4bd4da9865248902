//! The trace of a run agrees with the kernel's own account of who ran (`sched_switch` in tracefs).

use crate::common::{Room, attempts, ensure};
use crate::machine::{Capability, on_cpus, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use takt_core::record::RecordKind;
use takt_core::time::{Span, Time};
use takt_trace::{Trace, kernel};

/// How far the two may be apart before the test fails. The measured distance is printed.
const LIMIT: Span = Span::from_ms(20);

/// A tracefs, mounted for this test if it is not mounted already.
struct Tracefs {
    path: PathBuf,
    mounted: Option<Room>,
}

impl Tracefs {
    fn find() -> Result<Tracefs, String> {
        for path in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            if Path::new(path).join("instances").exists() {
                return Ok(Tracefs { path: path.into(), mounted: None });
            }
        }
        let room = Room::new();
        let path = room.path("tracing");
        fs::create_dir(&path).unwrap();
        let output = Command::new("mount").args(["-t", "tracefs", "takt-test"]).arg(&path).output();
        match output {
            Ok(output) if output.status.success() => Ok(Tracefs { path, mounted: Some(room) }),
            Ok(output) => Err(format!("no tracefs: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(e) => Err(format!("no tracefs, and mount cannot be run: {e}")),
        }
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if self.mounted.is_some() {
            let _ = Command::new("umount").arg(&self.path).status();
        }
    }
}

/// An instance of its own, so that no other user's tracing is disturbed; removed on drop.
struct Instance(PathBuf);

impl Instance {
    fn new(tracefs: &Tracefs) -> Result<Instance, String> {
        let path = tracefs.path.join(format!("instances/takt-test-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| format!("no instance of tracefs: {e}"))?;
        let instance = Instance(path);
        instance.write("buffer_size_kb", "8192")?;
        instance.write("trace_clock", "mono")?;
        instance.write("events/sched/sched_switch/enable", "1")?;
        Ok(instance)
    }
    fn write(&self, file: &str, value: &str) -> Result<(), String> {
        fs::write(self.0.join(file), value).map_err(|e| format!("tracefs: {file}: {e}"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Start and stop of each job of a task: from the decision to start until the stop had been carried out.
fn intervals(trace: &Trace, task: u32) -> Vec<(Time, Time)> {
    let (mut found, mut start) = (Vec::new(), None);
    for r in &trace.records {
        match r.record.kind {
            RecordKind::Start { task: t, .. } if t.0 == task => start = Some(r.record.at),
            RecordKind::Stop { task: t, .. } if t.0 == task => found.push((start.take().unwrap(), r.applied)),
            _ => {}
        }
    }
    found
}

#[test]
fn a_run_agrees_with_the_kernels_own_trace() {
    on_cpus(|| {
        let made = Tracefs::find().and_then(|tracefs| Instance::new(&tracefs).map(|instance| (tracefs, instance)));
        let (_tracefs, instance) = match made {
            Ok(made) => made,
            Err(why) => return skip(Capability::Tracefs, &why),
        };
        let room = Room::with(
            "windows:\n\
         - {length: 20ms, cpu: 0, sc_partition: A}\n\
         - {length: 10ms, cpu: 0, sc_partition: B}\n\
         partitions:\n\
         - {name: A, processes: [{cmd: exec takt burn, budget: 15ms}]}\n\
         - {name: B, processes: [{cmd: exec takt burn, budget: 8ms}]}\n",
        );
        attempts(5, || compare(&room, &instance));
    });
}

/// One run under the eyes of the kernel. An error is what a stall of this machine can bring about: a lost window, a process
/// that is stopped late or is not run.
fn compare(room: &Room, instance: &Instance) -> Result<(), String> {
    instance.write("trace", "").unwrap();
    instance.write("tracing_on", "1").unwrap();
    let args = ["run", "w.yaml", "--duration", "1200ms", "--trace", "t.jsonl", "--json"];
    let run = room.takt(&args).json();
    instance.write("tracing_on", "0").unwrap();
    let lost = run["windows_lost"].as_u64().unwrap();
    ensure(lost == 0, || format!("{lost} windows lost"))?;
    let text = String::from_utf8_lossy(&fs::read(instance.0.join("trace")).unwrap()).into_owned();
    let trace = room.trace("t.jsonl");
    let switches = kernel::parse(&text, trace.header.start_monotonic_ns.unwrap());
    assert!(switches.lines > 40, "the kernel has recorded: {}", switches.lines);

    let end = trace.end();
    let (mut largest, mut sum, mut seen, mut share) = (Span::ZERO, Span::ZERO, 0, 100);
    let mut turns = Vec::new();
    for task in 0..2 {
        let pid = trace.header.tasks[task].pid.unwrap();
        let planned = intervals(&trace, task as u32);
        assert_eq!(planned.len(), 40, "one turn in each of 40 major frames");
        // Outside of the schedule it is being born or has been killed.
        let of_task = |i: &&kernel::Interval| i.pid == pid && i.to > Time::ZERO && i.from < end;
        let mut ran = vec![Span::ZERO; planned.len()];
        for interval in switches.intervals.iter().filter(of_task) {
            assert_eq!(interval.cpu, 0, "it ran where it was told to");
            // This kernel leaves out most switches from the idle thread, so the start of an interval may be a guess.
            let from = if interval.exact { interval.from } else { interval.to };
            let outside = |(start, stop): (Time, Time)| (start - from).max(interval.to - stop).max(Span::ZERO);
            let (turn, outside) =
                planned.iter().map(|p| outside(*p)).enumerate().min_by_key(|(_, distance)| *distance).unwrap();
            ensure(outside < LIMIT, || {
                format!("task {task} ran from {} to {}, {outside} outside", interval.from, interval.to)
            })?;
            largest = largest.max(outside);
            sum += outside;
            seen += 1;
            ran[turn] += interval.to - interval.from.max(planned[turn].0);
            turns.push((interval.to, task));
        }
        // The other way round: in each turn it did run. Other load and a virtual machine's host may take some of it.
        let turns_with_run = planned.iter().zip(&ran).filter(|(p, ran)| **ran * 2 > p.1 - p.0).count();
        share = share.min(100 * turns_with_run / planned.len());
    }
    turns.sort();
    turns.dedup_by_key(|(_, task)| *task);
    println!(
        "{seen} intervals of the kernel: at most {largest} outside of the run's, {} on average",
        sum / seen.max(1)
    );
    println!("in at least {share} % of the turns the kernel saw the task run for most of its time");
    assert!(turns.len() <= 80, "they take turns: {} turns", turns.len());
    ensure(seen >= 40 && share >= 50 && turns.len() >= 70, || {
        format!("{seen} intervals, {share} % of the turns, {} turns", turns.len())
    })
}
