//! `takt bench calls`: how long a program's requests of its scheduler take, from the call to its return.

use super::figures::{Figures, cell};
use super::lab::{Claim, Lab, RunOptions};
use super::options::Common;
use crate::failure::Failure;
use crate::files;
use crate::outcome::Outcome;
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::thread::futex;
use serde_json::json;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use takt::report::Cell;
use takt_client::{Client, Error, Segment};
use takt_core::cpus::CpuSet;
use takt_core::engine::Input;
use takt_core::model::{Arrival, Completion, System, Task, TaskId};
use takt_core::time::{Span, Time};
use takt_linux::rt::{self, Class};
use takt_linux::timer::now;
use takt_linux::{Mechanism, SpawnSpec};
use takt_workload::Code;

/// Measure the calls of the client library on the CPU of the scheduler, beside a futex round trip and the engine's step
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Number of calls of each kind in a round
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=50_000))]
    calls: u32,
}

/// Calls that are not measured, before the others.
const WARM_UP: usize = 50;

/// The rows, by their names in the probe's file.
const ROWS: [(&str, &str); 19] = [
    ("futex", "floor: futex round trip of two threads"),
    ("step", "floor: the engine's step at a job boundary"),
    ("next", "job boundary, the next job is released"),
    ("yield", "yield"),
    ("lock", "lock, free"),
    ("unlock", "unlock"),
    ("set-runtime", "set-runtime"),
    ("statistics", "statistics"),
    ("begin", "begin of a segment, to its dispatch"),
    ("end", "end of a segment"),
    ("abort", "abort of a segment, from its deadline to its program"),
    ("freeze", "preemption by freezing: the group is frozen and thawed"),
    ("priority", "preemption by priority: the other one's is raised"),
    ("window", "switch of windows on one CPU"),
    ("move", "switch of windows to another CPU"),
    ("gettid", "gettid under Takt"),
    ("getcwd", "getcwd under Takt"),
    ("setscheduler", "sched_setscheduler under Takt"),
    ("outside", "gettid, getcwd and sched_setscheduler outside Takt"),
];

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("calls", &args.common)?;
    let count = if lab.session.quick { 200 } else { args.calls as usize };
    let mut rounds: Vec<Vec<(String, Figures)>> = Vec::new();
    for round in 1..=lab.session.rounds {
        lab.session.round(round, "futex round trip");
        let mut figures = vec![("futex".to_owned(), futex_round_trip(lab.cpu, count)?)];
        lab.session.round(round, "engine");
        figures.push(("step".to_owned(), step(count)));
        lab.session.round(round, "takt run");
        figures.extend(under_takt(&lab, count)?);
        lab.session.round(round, "segments");
        figures.extend(segments(&lab, count)?);
        lab.session.round(round, "preemption and migration");
        figures.extend(preemption(&lab, count.min(2000))?);
        figures.extend(switches(&lab, count)?);
        lab.session.round(round, "outside Takt");
        figures.push(("outside".to_owned(), outside(count)));
        rounds.push(figures);
    }
    let of = |name: &str| {
        let found = rounds.iter().filter_map(|round| round.iter().find(|(n, _)| n == name).map(|(_, f)| *f));
        Figures::median(&found.collect::<Vec<_>>())
    };
    let mut rows = vec![["", "p50", "p99", "max", "calls"].map(Cell::from).to_vec()];
    rows.extend(ROWS.map(|(name, text)| {
        let figures = of(name);
        let [p50, p99, max] = figures.cells();
        vec![text.into(), p50, p99, max, figures.count.to_string().into()]
    }));
    let (boundary, trip, step) = (of("next").p50, of("futex").p50, of("step").p50);
    let (freeze, priority) = (of("freeze").p50, of("priority").p50);
    let claims = [
        Claim {
            what: "job boundary, p50".into(),
            measured: cell(boundary),
            limit: vec!["2 x ".into(), cell(trip), " + ".into(), cell(step), " = ".into(), cell(2 * trip + step)],
            holds: Some(boundary <= 2 * trip + step),
        },
        Claim {
            what: "preemption by priority, p50".into(),
            measured: cell(priority),
            limit: vec!["half of ".into(), cell(freeze)],
            holds: Some(2 * priority <= freeze),
        },
    ];
    let settings =
        format!("{count} calls of each kind per round; program and scheduler on one CPU, the scheduler SCHED_FIFO 80");
    let results =
        json!({"calls": count, "figures_ns": ROWS.map(|(name, _)| json!({"name": name, "figures": of(name).json()}))});
    lab.show(&settings, &[("from the call to its return, as medians over the rounds".into(), rows)], &claims, &results)
}

/// Two threads of one CPU wake each other in turn.
fn futex_round_trip(cpu: usize, count: usize) -> Result<Figures, Failure> {
    let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let total = (count + WARM_UP) as u32;
    let prepare = move || rt::set_affinity(0, &CpuSet::single(cpu)).and_then(|()| rt::set_class(0, Class::Fifo(20)));
    let await_turn = |word: &AtomicU32, turn: u32| {
        while word.load(Ordering::Acquire) < turn {
            let _ = futex::wait(word, futex::Flags::empty(), turn - 1, None);
        }
    };
    let give_turn = |word: &AtomicU32, turn: u32| {
        word.store(turn, Ordering::Release);
        let _ = futex::wake(word, futex::Flags::empty(), 1);
    };
    let peer = words.clone();
    let other = std::thread::spawn(move || {
        let ready = prepare();
        for turn in 1..=total {
            await_turn(&peer[0], turn);
            give_turn(&peer[1], turn);
        }
        ready
    });
    let measuring = std::thread::spawn(move || {
        let ready = prepare();
        let trip = |turn| {
            let began = now();
            give_turn(&words[0], turn);
            await_turn(&words[1], turn);
            (now() - began).ns()
        };
        let times: Vec<i64> = (1..=total).map(trip).skip(WARM_UP).collect();
        ready.map(|()| times)
    });
    let times = measuring.join().expect("a thread that only measures")?;
    other.join().expect("a thread that only answers")?;
    Ok(Figures::of(times))
}

/// The engine of the measured workload, without Linux.
fn step(count: usize) -> Figures {
    let jobs = count + WARM_UP + 1;
    let task = Task {
        arrival: Arrival::Listed { instants: vec![Span::ZERO; jobs] },
        deadline: Some(Span::from_secs(3600)),
        runtime: Some(Span::from_us(1)),
        completion: Completion::Signal,
        ..Task::default()
    };
    let policy = takt_workload::policy_from_text("edf").expect("EDF is a policy");
    let system = System { tasks: vec![task], ..System::new(CpuSet::single(0), policy) };
    let mut engine = takt::load::engine(system).expect("a system that can be scheduled");
    engine.step(Time::ZERO, &[], &mut ());
    let mut times = Vec::with_capacity(jobs);
    for job in 0..(jobs - 1) as u64 {
        let complete = [Input::Complete { task: TaskId(0), job }];
        let began = now();
        engine.step(Time::from_ns(job as i64 + 1), &complete, &mut ());
        times.push((now() - began).ns());
    }
    Figures::of(times.into_iter().skip(WARM_UP))
}

/// A run with one program, all of whose jobs are released at the beginning.
fn under_takt(lab: &Lab, count: usize) -> Result<Vec<(String, Figures)>, Failure> {
    let out = lab.path("calls");
    let cmd = lab.cmd(&lab.probe(&["calls", &count.to_string(), &out.to_string_lossy()]));
    let releases = vec!["0ms"; count + WARM_UP + 2].join(", ");
    let file = lab.workload(&format!(
        "policy: edf\ncpus: {}\nresources: [r]\ntasks:\n\
         - {{name: client, releases: [{releases}], runtime: 1us, deadline: 3600s, init: yes, cmd: {cmd}}}\n",
        lab.cpu
    ))?;
    lab.run(&file, RunOptions::default())?;
    written(&out)
}

/// The figures that a probe has written.
fn written(out: &Path) -> Result<Vec<(String, Figures)>, Failure> {
    let text = fs::read_to_string(out)?;
    let lines = text.lines().map(|line| {
        let (name, values) = line.split_once(' ').unwrap_or((line, ""));
        (name.to_owned(), Figures::of(values.split(' ').filter_map(|value| value.parse().ok())))
    });
    Ok(lines.collect())
}

/// A run with one program that executes segments. Each of the last ones is aborted.
fn segments(lab: &Lab, count: usize) -> Result<Vec<(String, Figures)>, Failure> {
    let out = lab.path("segments");
    let cmd = lab.cmd(&lab.probe(&["segments", &count.to_string(), &out.to_string_lossy()]));
    let file = lab.workload(&format!(
        "policy: edf\ncpus: {}\nlate: abort\nrealtime: yes\ntasks:\n\
         - {{name: client, event: segments, runtime: 1us, deadline: 3600s, init: yes, cmd: {cmd}}}\n",
        lab.cpu
    ))?;
    lab.run(&file, RunOptions::default())?;
    written(&out)
}

/// How long the scheduler's acts take at the border of two windows, on one CPU and between two.
fn switches(lab: &Lab, count: usize) -> Result<Vec<(String, Figures)>, Failure> {
    let cpu = lab.cpu;
    let other = rt::affinity(0)?.iter().find(|other| *other != cpu).unwrap_or(cpu);
    let run = |second: usize| {
        let file = lab.workload(&format!(
            "windows:\n- {{length: 2ms, cpu: {cpu}, sc_partition: A}}\n- {{length: 2ms, cpu: {second}, sc_partition: A}}\n\
             partitions:\n- {{name: A, processes: [{{budget: 1ms, cmd: exec takt burn --runtime 500us}}]}}\n"
        ))?;
        let duration = Some(Span::from_ms(2) * count.min(2000) as i64);
        let run = lab.run(&file, RunOptions { duration, ..RunOptions::default() })?;
        let figure = |key: &str| run.json["switch_ns"][key].as_i64().unwrap_or_default();
        let count = run.json["switch_ns"]["count"].as_u64().unwrap_or_default() as usize;
        Ok::<Figures, Failure>(Figures { p50: figure("p50"), p99: figure("p99"), max: figure("max"), count })
    };
    Ok(vec![("window".to_owned(), run(cpu)?), ("move".to_owned(), run(other)?)])
}

/// The two ways to preempt a process that has the CPU of the scheduler: its group is frozen, and thawed when it resumes; or the other process
/// receives a higher priority, which it then keeps.
fn preemption(lab: &Lab, count: usize) -> Result<Vec<(String, Figures)>, Failure> {
    let mut mechanism = Mechanism::open(lab.choice, &lab.run_id)
        .map_err(|e| Failure::machine(Code::MissingCapability, &e.reason, &e.fix))?;
    let partition = mechanism.add_partition(&CpuSet::single(lab.cpu), 1)?;
    let group = mechanism.group(partition, 0);
    let mut spec = SpawnSpec::new(&lab.probe(&["hog", &lab.cpu.to_string()]))?;
    spec.class = Class::Fifo(10);
    let pid = mechanism.spawn(group, &spec)?;
    let (mechanism, cpu) = (Arc::new(mechanism), lab.cpu);
    let acts = mechanism.clone();
    // It is bounded: the process has the CPU for 200 us between two measurements.
    let measuring = std::thread::spawn(move || -> std::io::Result<[Vec<i64>; 2]> {
        rt::set_affinity(0, &CpuSet::single(cpu))?;
        rt::set_class(0, Class::Fifo(80))?;
        let mut times: [Vec<i64>; 2] = [Vec::with_capacity(count), Vec::with_capacity(count)];
        acts.thaw(group)?;
        for n in 0..count {
            std::thread::sleep(std::time::Duration::from_micros(200));
            let began = now();
            acts.freeze(group)?;
            acts.thaw(group)?;
            times[0].push((now() - began).ns());
            std::thread::sleep(std::time::Duration::from_micros(200));
            let began = now();
            acts.set_priority(group, 11 + (n % 2) as u8)?;
            times[1].push((now() - began).ns());
        }
        Ok(times)
    });
    let times = measuring.join().expect("a thread that only measures");
    mechanism.destroy()?;
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = waitpid(Some(pid), WaitOptions::empty());
    }
    let [freeze, priority] = times?;
    Ok(vec![("freeze".to_owned(), Figures::of(freeze)), ("priority".to_owned(), Figures::of(priority))])
}

fn outside(count: usize) -> Figures {
    Figures::of((0..count).map(|_| {
        let began = now();
        system_calls();
        (now() - began).ns()
    }))
}

/// The system calls that are measured in figure 8 of Dellinger, Garyali, Ravindran, "ChronOS Linux: a best-effort real-time multiprocessor
/// Linux kernel" (DAC 2011).
fn system_calls() {
    let _ = rustix::thread::gettid();
    let _ = std::env::current_dir();
    let _ = rt::set_class(0, Class::Other);
}

/// The program that calls, and writes its times to a file (`takt __probe calls`).
pub(crate) fn probe(count: usize, out: &Path) -> Result<(), Failure> {
    let mut client = Client::attach().map_err(failed)?;
    let resource = client.resource("r").map_err(failed)?;
    client.ready().map_err(failed)?;
    let mut times = Times { count, text: String::new() };
    times.measure("yield", || client.yield_now())?;
    let mut locks: [Vec<i64>; 2] = Default::default();
    for _ in 0..count {
        for (times, locks) in locks.iter_mut().zip([true, false]) {
            let began = now();
            if locks { client.lock(resource) } else { client.unlock(resource) }.map_err(failed)?;
            times.push((now() - began).ns());
        }
    }
    times.add("lock", &locks[0]);
    times.add("unlock", &locks[1]);
    times.measure("set-runtime", || client.set_runtime(1000))?;
    times.measure("statistics", || client.statistics().map(drop))?;
    times.measure("gettid", || {
        let _ = rustix::thread::gettid();
        Ok(())
    })?;
    times.measure("getcwd", || {
        let _ = std::env::current_dir();
        Ok(())
    })?;
    times.measure("next", || client.next_job().map(drop))?;
    times.measure("setscheduler", || Ok(rt::set_class(0, Class::Other)?))?;
    files::write(out, &times.text)?;
    Ok(())
}

/// The program that executes segments, and writes its times to a file (`takt __probe segments`).
pub(crate) fn probe_segments(count: usize, out: &Path) -> Result<(), Failure> {
    let mut client = Client::attach().map_err(failed)?;
    client.ready().map_err(failed)?;
    let mut times = Times { count, text: String::new() };
    let mut both: [Vec<i64>; 2] = Default::default();
    for _ in 0..count {
        let began = now();
        client.begin(Segment::default()).map_err(failed)?;
        both[0].push((now() - began).ns());
        let began = now();
        client.end().map_err(failed)?;
        both[1].push((now() - began).ns());
    }
    times.add("begin", &both[0]);
    times.add("end", &both[1]);
    let mut aborts = Vec::with_capacity(count);
    while aborts.len() < count.min(1000) {
        let short = Segment { deadline: Some(500_000), ..Segment::default() };
        let job = match client.begin(short) {
            Ok(job) => job,
            // The machine stood still until its deadline.
            Err(Error::Aborted) => continue,
            Err(error) => return Err(failed(error)),
        };
        while !client.is_aborted() {
            std::hint::spin_loop();
        }
        aborts.push(now().ns() - job.deadline);
        let _ = client.end();
    }
    times.add("abort", &aborts);
    files::write(out, &times.text)?;
    Ok(())
}

/// The measured times: a line for each kind of call.
struct Times {
    count: usize,
    text: String,
}

impl Times {
    fn measure(&mut self, name: &str, mut call: impl FnMut() -> Result<(), Error>) -> Result<(), Failure> {
        let mut times = Vec::with_capacity(self.count + WARM_UP);
        for _ in 0..self.count + WARM_UP {
            let began = now();
            call().map_err(failed)?;
            times.push((now() - began).ns());
        }
        self.add(name, &times[WARM_UP..]);
        Ok(())
    }

    fn add(&mut self, name: &str, times: &[i64]) {
        self.text += name;
        for time in times {
            let _ = write!(self.text, " {time}");
        }
        self.text.push('\n');
    }
}

fn failed(error: Error) -> Failure {
    Failure::status(1, Code::ClientProtocol, error)
}
