//! `takt bench calls`: how long a program's requests of its scheduler take, from the call to its return.

use super::figures::{Figures, cell};
use super::lab::{Claim, Lab, RunOptions};
use super::options::Common;
use crate::failure::Failure;
use crate::files;
use crate::outcome::Outcome;
use crate::report::Cell;
use rustix::thread::futex;
use serde_json::json;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use takt_client::{Client, Error};
use takt_core::cpus::CpuSet;
use takt_core::engine::Input;
use takt_core::model::{Arrival, Completion, System, Task, TaskId};
use takt_core::time::{Span, Time};
use takt_linux::rt::{self, Class};
use takt_linux::timer::now;
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
const ROWS: [(&str, &str); 12] = [
    ("futex", "floor: futex round trip of two threads"),
    ("step", "floor: the engine's step at a job boundary"),
    ("next", "job boundary, the next job is released"),
    ("yield", "yield"),
    ("lock", "lock, free"),
    ("unlock", "unlock"),
    ("set-runtime", "set-runtime"),
    ("statistics", "statistics"),
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
    let claims = [Claim {
        what: "job boundary, p50".into(),
        measured: cell(boundary),
        limit: vec!["2 x ".into(), cell(trip), " + ".into(), cell(step), " = ".into(), cell(2 * trip + step)],
        holds: Some(boundary <= 2 * trip + step),
    }];
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
    let mut engine = crate::input::engine(system).expect("a system that can be scheduled");
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
    let text = fs::read_to_string(&out)?;
    let lines = text.lines().map(|line| {
        let (name, values) = line.split_once(' ').unwrap_or((line, ""));
        (name.to_owned(), Figures::of(values.split(' ').filter_map(|value| value.parse().ok())))
    });
    Ok(lines.collect())
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
