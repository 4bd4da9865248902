//! The experiment: scenarios in turn, round by round, with every change of the machine undone after each.

use super::options::Sweep;
use super::scenario::{ALL, Place, Scenario};
use super::stress::Load;
use crate::failure::Failure;
use crate::progress::Progress;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_latency::Results;
use takt_linux::isolate::{Isolator, Linux, Request};
use takt_linux::leftovers::OnCrash;
use takt_linux::{Halves, RunId, rt, watcher};
use takt_workload::Code;

/// With fewer rounds an interval says nothing.
pub(super) const MIN_ROUNDS: usize = 3;
/// Load has this time to become load.
const RAMP: Duration = Duration::from_millis(100);
/// The share of a round that the gap detector takes at most.
const GAPS: Span = Span::from_ms(200);
/// Wake-ups that are measured, and not counted, at the begin of each round.
const WARM_UP: usize = 10;

/// Why a scenario was not measured, or why all ends.
enum Trouble {
    Skipped(String),
    Ends(Failure),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Ends(Failure::status(1, Code::SystemError, error))
    }
}

struct Experiment<'a> {
    args: &'a Sweep,
    run: RunId,
    cpu: usize,
    load: Load,
    interrupted: Arc<AtomicBool>,
}

pub(super) fn measure(args: &Sweep) -> Result<Results, Failure> {
    let here = rt::affinity(0)?;
    let last = here.iter().last().unwrap_or(0);
    let cpu = args.cpu.unwrap_or(last);
    if !here.contains(cpu) {
        let message = format!("CPU {cpu} is not one of CPU {here}, which this process may use");
        return Err(Failure::machine(Code::MissingCpu, message, "choose another --cpu"));
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let run = RunId::new()?;
    let load = Load {
        kinds: args.stress.clone(),
        threads: usize::from(args.stress_threads),
        command: args.stress_command.clone(),
    };
    let experiment = Experiment { args, run, cpu, load, interrupted };
    // It undoes isolations when this process is killed.
    watcher::spawn_watcher(&run, OnCrash::Kill)?;
    experiment.rounds()
}

impl Experiment<'_> {
    fn rounds(&self) -> Result<Results, Failure> {
        let args = self.args;
        let chosen = if args.scenario.is_empty() { ALL.to_vec() } else { args.scenario.clone() };
        let way = match args.echo {
            Some(echo) => format!("answers of a second process ({echo:?})"),
            None => format!("{:?}", args.method),
        };
        let task = format!(
            "period {}, CPU {}, {}, priority {} in SCHED_FIFO, no timer slack",
            args.period,
            self.cpu,
            way.to_lowercase(),
            args.priority
        );
        let mut results = Results::new(machine(), task, self.load.text(), args.limit.ns());
        results.scenarios = chosen
            .iter()
            .map(|scenario| takt_latency::Scenario {
                name: scenario.name.into(),
                meaning: scenario.meaning.into(),
                rounds: Vec::new(),
                stolen: Vec::new(),
                skipped: None,
            })
            .collect();
        let progress = Progress::of(u64::from(args.rounds) * chosen.len() as u64, "measurements");
        let (mut gaps, mut watched) = (Vec::new(), Span::ZERO);
        for round in 0..args.rounds as usize {
            // Each round begins with another scenario, so none always follows the same one.
            for turn in 0..chosen.len() {
                let index = (round + turn) % chosen.len();
                let entry = &mut results.scenarios[index];
                if entry.skipped.is_none() {
                    let samples = args.samples as usize;
                    let count = samples * (round + 1) / args.rounds as usize - samples * round / args.rounds as usize;
                    match self.once(chosen[index], count) {
                        Ok((stolen, late)) => {
                            entry.rounds.push(late);
                            entry.stolen.push(stolen);
                        }
                        Err(Trouble::Skipped(why)) => entry.skipped = Some(why),
                        Err(Trouble::Ends(failure)) => return Err(failure),
                    }
                }
                progress.inc(1);
            }
            if let Some((length, found)) = self.gaps() {
                watched += length;
                gaps.extend(found);
            }
        }
        progress.finish();
        results.notes.extend(gap_note(self.cpu, watched, &gaps));
        results.notes.extend(noise(&results, args.seed));
        Ok(results)
    }

    /// One scenario for one round: stolen time and lateness.
    fn once(&self, scenario: Scenario, count: usize) -> Result<(i64, Vec<i64>), Trouble> {
        if self.interrupted.load(Ordering::Relaxed) {
            let failure = Failure::status(130, Code::CommandRefused, "interrupted: the machine is as it was before");
            return Err(Trouble::Ends(failure));
        }
        let isolation = match scenario.place {
            Place::Shared | Place::Half(_) => None,
            Place::Set | Place::Isolated => Some(self.isolate(scenario)?),
        };
        let halves = match scenario.place {
            Place::Half(half) => Some(Halves::create(&self.run, half).map_err(|e| Trouble::Skipped(e.to_string()))?),
            _ => None,
        };
        let group = halves.as_ref().map(Halves::task).or_else(|| isolation.as_ref().map(|i| (&i.group).into()));
        let beside = halves.as_ref().map(Halves::load);
        let place = beside.as_deref().map(|group| (group, self.cpu));
        let length = Duration::from_nanos((self.args.period.ns() as u64).saturating_mul((count + WARM_UP) as u64));
        let load = scenario.stress.then(|| self.load.start(length * 4 + Duration::from_secs(10), place)).transpose()?;
        if load.is_some() {
            std::thread::sleep(RAMP);
        }
        let measured = self.process(scenario, count + WARM_UP, group.as_deref(), false);
        drop(load);
        drop(halves);
        if let Some(isolation) = isolation {
            isolation.undo().map_err(Trouble::Ends)?;
        }
        let (stolen, mut late) = measured?;
        late.drain(..WARM_UP.min(late.len()));
        Ok((stolen, late))
    }

    /// The numbers of a measuring process.
    fn process(
        &self,
        scenario: Scenario,
        count: usize,
        enter: Option<&Path>,
        gaps: bool,
    ) -> Result<(i64, Vec<i64>), Trouble> {
        use clap::ValueEnum;
        let args = self.args;
        let word =
            |value: Option<clap::builder::PossibleValue>| value.map_or(String::new(), |v| v.get_name().to_owned());
        let mut command = Command::new("/proc/self/exe");
        command.args(["__latency", "measure", scenario.name]).arg(self.cpu.to_string());
        command.arg(args.period.ns().to_string()).arg(count.to_string()).arg(args.priority.to_string());
        command.arg(word(args.method.to_possible_value()));
        if let Some(echo) = args.echo {
            command.args(["--echo", &word(echo.to_possible_value())]);
        }
        if let Some(group) = enter {
            command.arg("--enter").arg(group);
        }
        command.args(gaps.then_some("--gaps"));
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
        if self.interrupted.load(Ordering::Relaxed) {
            let failure = Failure::status(130, Code::CommandRefused, "interrupted: the machine is as it was before");
            return Err(Trouble::Ends(failure));
        }
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let line = said.lines().next().unwrap_or("no message");
            // The kernel refuses a class or a priority to this user, or a reservation to a full CPU.
            return Err(Trouble::Skipped(line.rsplit_once("output: ").map_or(line, |(_, why)| why).to_owned()));
        }
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_le_bytes);
        let mut numbers = output.stdout.chunks_exact(8).map(number);
        let stolen = numbers.next().unwrap_or(0);
        Ok((stolen, numbers.collect()))
    }

    fn isolate(&self, scenario: Scenario) -> Result<Isolation, Trouble> {
        let skipped = |why: &dyn std::fmt::Display| Trouble::Skipped(why.to_string());
        let linux = Linux::open().map_err(|_| Trouble::Skipped("CPU sets need root".into()))?;
        let mut isolator = Isolator::new(linux).map_err(|e| skipped(&e))?;
        let name = format!("latency-{}", std::process::id());
        let request = Request {
            name: name.clone(),
            cpus: CpuSet::single(self.cpu),
            steps: scenario.steps(),
            balanced: false,
            owner: Some(self.run),
        };
        let created = isolator.create(&request).map_err(|e| skipped(&e))?;
        Ok(Isolation { name, group: created.group })
    }

    /// Pauses of a spinning thread beside the scenarios, where this user may have a real-time class.
    fn gaps(&self) -> Option<(Span, Vec<i64>)> {
        let length = GAPS.min(self.args.period * i64::from(self.args.samples));
        let count = (length.ns() / self.args.period.ns()).max(1);
        let floor = Scenario::named("idle-fifo")?;
        let (_, found) = self.process(floor, count as usize, None, true).ok()?;
        Some((self.args.period * count, found))
    }
}

/// An isolation, undone when this is dropped.
struct Isolation {
    name: String,
    group: String,
}

impl Isolation {
    fn undo(&self) -> Result<(), Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::machine(Code::CleanupFailed, why, "takt isolate undo --all # as root")
        };
        let mut isolator = Isolator::new(Linux::open().map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;
        match isolator.undo(&self.name) {
            Ok(_) | Err(takt_linux::isolate::Refusal::Unknown(_)) => Ok(()),
            Err(e) => Err(failed(&e)),
        }
    }
}

impl Drop for Isolation {
    fn drop(&mut self) {
        // The way of failures; it was tried before where all went well, and does nothing then.
        let _ = self.undo();
    }
}

/// The description of this machine.
fn machine() -> String {
    let name = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or_else(|| text(name.machine()), |(_, model)| model.to_owned());
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kind = if rt::preempt_rt() { ", PREEMPT_RT" } else { "" };
    format!("Linux {}{kind}, {model}, {cpus} CPUs", text(name.release()))
}

fn gap_note(cpu: usize, watched: Span, gaps: &[i64]) -> Option<String> {
    if watched == Span::ZERO {
        return None;
    }
    let lost: i64 = gaps.iter().sum();
    let per_mille = lost.saturating_mul(1000) / watched.ns().max(1);
    let longest = Span::from_ns(gaps.iter().copied().max().unwrap_or(0));
    Some(format!(
        "gap detector: a SCHED_FIFO loop on CPU {cpu} lost {}.{} % of {watched} in {} gaps over 5 us, the longest {longest}: interrupts, the host of a \
         virtual machine, throttling",
        per_mille / 10,
        per_mille % 10,
        gaps.len()
    ))
}

/// A warning where the machine's own noise is as large as what is measured.
fn noise(results: &Results, seed: u64) -> Option<String> {
    let floor = results.measured().find(|s| s.name == "idle-fifo").or_else(|| results.measured().next())?;
    let p99 = takt_latency::Figures::of(floor, results.limit, seed).quantiles[1];
    let of = Span::from_ns;
    if floor.rounds.len() < MIN_ROUNDS {
        return Some(format!(
            "fewer than {MIN_ROUNDS} rounds say nothing about noise: there are no confidence intervals"
        ));
    }
    (p99.high - p99.low > p99.value.max(1)).then(|| {
        format!(
            "noise: p99 of `{}` lies between {} and {}; differences of that size between scenarios mean nothing",
            floor.name,
            of(p99.low),
            of(p99.high)
        )
    })
}
