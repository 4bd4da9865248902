//! The experiment: scenarios in turn, round by round, with every change of the machine undone after each.

use super::cyclictest;
use super::internal::Measured;
use super::measure::{Method, WakeUp};
use super::options::Sweep;
use super::scenario::{Place, Scenario};
use super::stress::{Load, Running, reason};
use super::tracer::{Account, Tracer};
use super::windows::Plan;
use crate::commands::isolate::common::look;
use crate::failure::Failure;
use crate::interruption::Interruption;
use crate::progress::Progress;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_latency::{Agreement, MIN_ROUNDS, ORDERED, PROGRAMS, Pair, Results, Source, Sum};
use takt_linux::isolate::{self, Request};
use takt_linux::leftovers::OnCrash;
use takt_linux::{Halves, Raised, RunId, rt, watcher};
use takt_workload::Code;

/// Load has this time to become load.
const RAMP: Duration = Duration::from_millis(100);
/// The gap detector takes at most this time of a round, and so does the tracer `timerlat` but for one period. Neither takes more than a scenario does.
const GAPS: Span = Span::from_ms(200);
/// So many sources of noise are named.
const SOURCES: usize = 6;
/// So many late samples of a scenario are explained when the order is checked.
const CHECKED: u16 = 3;
/// Wake-ups that are measured, and not counted, at the begin of each round. Beside cyclictest they count, because its first wake-ups do.
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
    interruption: Interruption,
    tracer: Option<Tracer>,
    /// Whether cyclictest measures, too: the same wake-ups count for both.
    beside_peer: bool,
    /// The isolation that has the CPU: its name and its set, in which the task is.
    isolated: Option<(String, PathBuf)>,
}

/// The body of a measuring process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Body {
    /// The task of a scenario.
    Task,
    /// A loop that looks for gaps.
    Gaps,
    /// A task that the kernel's tracer `timerlat` measures.
    Timerlat,
}

/// The numbers of one scenario in one round.
struct Taken {
    stolen: i64,
    late: Vec<i64>,
    account: Account,
}

/// The scenarios of an experiment.
fn chosen(args: &Sweep) -> Vec<Scenario> {
    match &args.scenario[..] {
        [] if args.check_cyclictest => PROGRAMS.iter().filter_map(|name| Scenario::named(name)).collect(),
        [] if args.check_order => ORDERED.iter().filter_map(|name| Scenario::named(name)).collect(),
        [] => Scenario::by_default(),
        chosen => chosen.to_vec(),
    }
}

/// The CPU of the task, and the isolation that has it. `here` are the CPUs of this process.
///
/// # Errors
/// It is none of these, and not isolated.
fn target<'i>(
    wanted: Option<usize>,
    here: &CpuSet,
    isolations: &'i [isolate::Status],
) -> Result<(usize, Option<&'i isolate::Status>), Failure> {
    // That of a run is the run's.
    let open = || isolations.iter().filter(|isolation| isolation.complete && !isolation.of_run);
    let default = || open().flat_map(|isolation| isolation.cpus.iter()).max().or_else(|| here.iter().last());
    let cpu = wanted.or_else(default).unwrap_or(0);
    match open().find(|isolation| isolation.cpus.contains(cpu)) {
        None if !here.contains(cpu) => {
            let message = format!("CPU {cpu} is not one of CPU {here}, which this process may use");
            Err(Failure::machine(Code::MissingCpu, message, "choose another --cpu"))
        }
        isolation => Ok((cpu, isolation)),
    }
}

/// Whether the command of the load works at all, found before anything is measured.
fn try_load(load: &Load) -> Result<(), Failure> {
    let mut running = load.start(Duration::from_secs(10), None, None)?;
    std::thread::sleep(RAMP);
    match running.ended() {
        Some(why) => {
            Err(Failure::input(Code::MissingProgram, why, "give a command that keeps running as --stress-command"))
        }
        None => Ok(()),
    }
}

/// Load takes at most half of the memory that is available, so it ends no other program.
fn check_memory(load: &Load) -> Result<(), Failure> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    let (needs, has) = (load.memory() >> 20, available.map_or(usize::MAX, |kib| kib >> 10));
    if needs > has / 2 {
        let message = format!("the load takes {needs} MiB, more than half of the {has} MiB that are available");
        return Err(Failure::machine(Code::OutOfRange, message, "choose fewer --stress-threads"));
    }
    Ok(())
}

pub(super) fn measure(args: &Sweep) -> Result<Results, Failure> {
    let isolations = look().map(|isolator| isolator.status()).unwrap_or_default();
    let (cpu, isolation) = target(args.cpu, &rt::affinity(0)?, &isolations)?;
    let isolated = isolation.map(|isolation| (isolation.name.clone(), PathBuf::from(&isolation.group)));
    if let Some((name, group)) = &isolated
        && let Err(e) = rustix::fs::access(group.join("cgroup.procs"), rustix::fs::Access::WRITE_OK)
    {
        let message =
            format!("this process cannot enter the isolation `{name}` of CPU {cpu}: {}: {e}", group.display());
        return Err(Failure::machine(Code::MissingCapability, message, "run it as root, or choose another --cpu"));
    }
    let interruption = Interruption::wait().map_err(|e| Failure::thread(&e))?;
    let run = RunId::new()?;
    let load = Load {
        kinds: args.stress.clone(),
        threads: usize::from(args.stress_threads),
        command: args.stress_command.clone(),
    };
    check_memory(&load)?;
    if load.command.is_some() && chosen(args).iter().any(|scenario| scenario.stress) {
        try_load(&load)?;
    }
    // It undoes isolations, and removes the instance of tracing, when this process is killed.
    watcher::spawn_watcher(&run, OnCrash::Kill)?;
    let traced = |most: u16| Tracer::create(&run, cpu, usize::from(most), args.check_trace.is_some());
    let mut untraced = None;
    let tracer = match args.explain {
        Some(most) => Some(traced(most)?),
        None if args.check_trace.is_some() => Some(traced(if args.check_order { CHECKED } else { 0 })?),
        // The check of the order is not about causes, so it does without where the kernel shows none.
        None if args.check_order => match traced(CHECKED) {
            Ok(tracer) => Some(tracer),
            Err(failure) => {
                untraced = Some(format!("the order is checked without the causes of late samples: {}", failure.text()));
                None
            }
        },
        None => None,
    };
    let beside_peer = chosen(args).iter().any(|scenario| scenario.place == Place::Peer);
    let experiment = Experiment { args, run, cpu, load, interruption, tracer, beside_peer, isolated };
    let mut results = experiment.rounds()?;
    results.notes.extend(untraced);
    Ok(results)
}

impl Experiment<'_> {
    fn rounds(&self) -> Result<Results, Failure> {
        let args = self.args;
        let chosen = chosen(args);
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
        results.scenarios =
            chosen.iter().map(|scenario| takt_latency::Scenario::new(scenario.name, scenario.meaning)).collect();
        let progress = Progress::of(u64::from(args.rounds) * chosen.len() as u64, "measurements");
        let (mut gaps, mut watched, mut uncovered) = (Vec::new(), Span::ZERO, 0);
        let (mut sources, mut no_gaps) = (BTreeMap::new(), None);
        let (mut stages, mut no_timerlat) = (<[Vec<i64>; 3]>::default(), None);
        // By scenario: the wake-ups in both accounts, and how many have no timer, or are not in the trace.
        let mut compared: Vec<(Vec<Pair>, usize, usize)> = vec![Default::default(); chosen.len()];
        for round in 0..args.rounds as usize {
            // Each round begins with another scenario, so none always follows the same one.
            for turn in 0..chosen.len() {
                let index = (round + turn) % chosen.len();
                let entry = &mut results.scenarios[index];
                if entry.skipped.is_none() {
                    let samples = args.samples as usize;
                    let count = samples * (round + 1) / args.rounds as usize - samples * round / args.rounds as usize;
                    match self.once(chosen[index], round + 1, count) {
                        Ok(taken) => {
                            entry.rounds.push(taken.late);
                            entry.stolen.push(taken.stolen);
                            let Account { worst, uncovered: round, pairs, behind, missing } = taken.account;
                            entry.worst.extend(worst);
                            uncovered += round;
                            compared[index].0.extend(pairs);
                            compared[index].1 += behind;
                            compared[index].2 += missing;
                        }
                        Err(Trouble::Skipped(why)) => entry.skipped = Some(why),
                        Err(Trouble::Ends(failure)) => return Err(failure),
                    }
                }
                progress.inc(1);
            }
            match self.gaps(&mut sources) {
                Ok((length, found)) => {
                    watched += length;
                    gaps.extend(found);
                }
                Err(Trouble::Skipped(why)) => no_gaps = Some(format!("the gap detector is not used: {why}")),
                Err(Trouble::Ends(failure)) => return Err(failure),
            }
            match self.timerlat(&mut stages) {
                Ok(()) => {}
                Err(Trouble::Skipped(why)) => no_timerlat = Some(format!("the tracer `timerlat` is not used: {why}")),
                Err(Trouble::Ends(failure)) => return Err(failure),
            }
        }
        progress.finish();
        let most = args.explain.unwrap_or(CHECKED);
        for scenario in &mut results.scenarios {
            scenario.worst.sort_by_key(|worst| (std::cmp::Reverse(worst.why.late), worst.at));
            scenario.worst.truncate(usize::from(most));
        }
        if args.check_trace.is_some() {
            let measured =
                |scenario: &takt_latency::Scenario| scenario.skipped.is_none() && scenario.name != "cyclictest";
            for (scenario, (pairs, behind, missing)) in results.scenarios.iter_mut().zip(compared) {
                scenario.agreement = measured(scenario).then(|| Agreement::of(&pairs, behind, missing));
            }
        }
        if uncovered > 0 {
            results.notes.push(format!(
                "{uncovered} late samples are not explained: the kernel's trace of their round was longer than its ring. More --rounds are shorter ones"
            ));
        }
        let isolated = self.isolated.as_ref().map(|(name, _)| format!("the task is in the isolation `{name}`"));
        results.notes.extend(isolated);
        results.notes.extend(gap_note(self.cpu, watched, &gaps).or(no_gaps));
        results.notes.extend(noise_note(self.cpu, sources));
        results.notes.extend(timerlat_note(self.cpu, args.priority, stages).or(no_timerlat));
        let without = self.tracer.as_ref().filter(|_| args.explain.is_some()).and_then(Tracer::without_osnoise);
        results.notes.extend(without.map(|why| format!("the tracer `osnoise` is not used: {why}")));
        results.notes.extend(noise(&results));
        Ok(results)
    }

    /// One scenario for one round.
    fn once(&self, scenario: Scenario, round: usize, count: usize) -> Result<Taken, Trouble> {
        if self.interruption.is_wanted() {
            return Err(interrupted());
        }
        if let Some((name, _)) = self.isolated.as_ref().filter(|_| scenario.place != Place::Shared) {
            let why = format!("CPU {} is isolated by `{name}`, and this scenario places its task itself", self.cpu);
            return Err(Trouble::Skipped(why));
        }
        if scenario.place == Place::Peer {
            return self.peer(count);
        }
        let isolation = match scenario.place {
            Place::Set | Place::Isolated | Place::IsolatedTwo => Some(self.isolate(scenario)?),
            _ => None,
        };
        let halves = match scenario.place {
            Place::Half(half) => Some(Halves::create(&self.run, half).map_err(|e| Trouble::Skipped(e.to_string()))?),
            _ => None,
        };
        let raised = scenario.raises_threads().then(|| Raised::create(self.cpu, self.args.priority + 1)).transpose();
        let raised = raised.map_err(|e| Trouble::Skipped(e.to_string()))?;
        let group = halves.as_ref().map(Halves::task).or_else(|| isolation.as_ref().map(|i| (&i.group).into()));
        let beside = halves.as_ref().map(Halves::load);
        // The load of a container is on all CPUs; otherwise it shares the CPU of the task.
        let load_cpu = beside.as_ref().filter(|_| !scenario.is_container()).map(|_| self.cpu);
        let period = self.args.period.ns() as u64;
        let count = if self.beside_peer { count } else { count + WARM_UP };
        let length = Duration::from_nanos(period.saturating_mul(count as u64));
        let load = scenario.stress && scenario.place != Place::Windows;
        let start = || self.load.start(length * 4 + Duration::from_secs(10), beside.as_deref(), load_cpu);
        let mut load = load.then(start).transpose()?;
        if load.is_some() {
            std::thread::sleep(RAMP);
        }
        if let Some(why) = load.as_mut().and_then(Running::ended) {
            return Err(Trouble::Skipped(why));
        }
        if let Some(tracer) = &self.tracer {
            tracer.start()?;
        }
        let measured = self.process(scenario, self.args.period, count, group.as_deref(), Body::Task);
        let explained = match (&self.tracer, &measured) {
            (Some(tracer), Ok(measured)) => {
                tracer.stop()?;
                let class = scenario.class(self.args.priority, self.args.period)?;
                tracer.account(&counted(measured, self.beside_peer), round, class)
            }
            _ => Ok(Account::default()),
        };
        // Samples beside less load than was asked for would count for another scenario.
        let ended = load.as_mut().and_then(Running::ended);
        drop(load);
        drop(halves);
        if let Some(raised) = raised {
            let failed = |e| Failure::machine(Code::CleanupFailed, e, "takt doctor --clean # as root");
            raised.undo().map_err(|e| Trouble::Ends(failed(e)))?;
        }
        if let Some(isolation) = isolation {
            isolation.undo().map_err(Trouble::Ends)?;
        }
        let account = explained.map_err(Trouble::Ends)?;
        let measured = counted(&measured?, self.beside_peer);
        if let Some(why) = ended {
            return Err(Trouble::Skipped(why));
        }
        let late = measured.samples.iter().map(|one| one.late).collect();
        Ok(Taken { stolen: measured.stolen, late, account })
    }

    /// A round of cyclictest.
    fn peer(&self, count: usize) -> Result<Taken, Trouble> {
        if !cyclictest::is_installed() {
            if self.args.check_cyclictest {
                let fix = "apt-get install rt-tests";
                return Err(Trouble::Ends(Failure::machine(Code::MissingProgram, "cyclictest is not installed", fix)));
            }
            return Err(Trouble::Skipped("cyclictest is not installed: apt-get install rt-tests".into()));
        }
        if !rt::rt_allowed() {
            let why = "cyclictest needs SCHED_FIFO: root, CAP_SYS_NICE or a higher `ulimit -r`";
            return Err(Trouble::Skipped(why.into()));
        }
        let args = self.args;
        let late = cyclictest::measure(self.cpu, args.priority, args.period, count, &self.interruption);
        if self.interruption.is_wanted() {
            return Err(interrupted());
        }
        let late = late.map_err(|e| Trouble::Skipped(e.text().to_owned()))?;
        Ok(Taken { stolen: 0, late, account: Account::default() })
    }

    /// The numbers of a measuring process.
    fn process(
        &self,
        scenario: Scenario,
        period: Span,
        count: usize,
        enter: Option<&Path>,
        body: Body,
    ) -> Result<Measured, Trouble> {
        use clap::ValueEnum;
        let args = self.args;
        let word =
            |value: Option<clap::builder::PossibleValue>| value.map_or(String::new(), |v| v.get_name().to_owned());
        let numbers = [self.cpu.to_string(), period.ns().to_string(), count.to_string(), args.priority.to_string()];
        let mut arguments = ["__latency", "measure", scenario.name].map(str::to_owned).to_vec();
        arguments.extend(numbers);
        arguments.push(word(args.method.to_possible_value()));
        if let Some(echo) = args.echo {
            arguments.extend(["--echo".into(), word(echo.to_possible_value())]);
        }
        if scenario.place == Place::Windows {
            if args.method != Method::Nanosleep {
                return Err(Trouble::Skipped("in windows, a task waits by nanosleep alone".into()));
            }
            if args.echo.is_some() {
                return Err(Trouble::Skipped("the second process of --echo would need a window of its own".into()));
            }
            let plan = Plan { cpu: self.cpu, period: args.period, count, load: &self.load };
            let measured = plan.measure(&arguments, &self.interruption)?;
            return if self.interruption.is_wanted() { Err(interrupted()) } else { measured.map_err(Trouble::Skipped) };
        }
        let mut command = Command::new("/proc/self/exe");
        command.args(arguments);
        if let Some(group) = enter.or(self.isolated.as_ref().map(|(_, set)| set.as_path())) {
            command.arg("--enter").arg(group);
        }
        command.args(match body {
            Body::Task => None,
            Body::Gaps => Some("--gaps"),
            Body::Timerlat => Some("--timerlat"),
        });
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.interruption.output(&mut command)?;
        if self.interruption.is_wanted() {
            return Err(interrupted());
        }
        if !output.status.success() {
            // The kernel refuses a class or a priority to this user, or a reservation to a full CPU.
            return Err(Trouble::Skipped(reason(&output.stderr)));
        }
        Ok(Measured::read(&output.stdout))
    }

    fn isolate(&self, scenario: Scenario) -> Result<Isolation, Trouble> {
        let skipped = |why: &dyn std::fmt::Display| Trouble::Skipped(why.to_string());
        let mut isolator = isolate::open().map_err(|e| skipped(&e))?;
        let name = format!("latency-{}", std::process::id());
        let request = Request {
            name: name.clone(),
            cpus: self.own_cpus(scenario)?,
            steps: scenario.steps(),
            balanced: false,
            owner: Some(self.run),
        };
        let created = isolator.create(&request).map_err(|e| skipped(&e))?;
        Ok(Isolation { name, group: created.group })
    }

    /// The CPUs of the task's set.
    fn own_cpus(&self, scenario: Scenario) -> Result<CpuSet, Trouble> {
        let own = CpuSet::single(self.cpu);
        if scenario.place != Place::IsolatedTwo {
            return Ok(own);
        }
        let others = rt::affinity(0)?.difference(&own);
        match (others.iter().last(), others.len()) {
            (Some(second), 2..) => Ok(own.union(&CpuSet::single(second))),
            _ => Err(Trouble::Skipped("two isolated CPUs need a third one for everything else".into())),
        }
    }

    /// The times of the kernel's tracer `timerlat` for a task in SCHED_FIFO without load, by stages. The tracer's own task would be a second one, so no
    /// scenario is measured meanwhile.
    fn timerlat(&self, times: &mut [Vec<i64>; 3]) -> Result<(), Trouble> {
        let Some((tracer, timerlat)) = self.tracer.as_ref().and_then(|t| Some((t, t.timerlat(self.args.period)?)))
        else {
            return Ok(());
        };
        let _timerlat = timerlat.map_err(Trouble::Skipped)?;
        let floor = Scenario::named("idle-fifo").ok_or_else(|| io::Error::other("no floor"))?;
        let count = self.beside() as usize;
        tracer.start()?;
        let done = self.process(floor, self.args.period, count + 1, None, Body::Timerlat);
        tracer.stop()?;
        done?;
        tracer.stages(times).map_err(Trouble::Ends)
    }

    /// So many periods of each round are for what is measured beside the scenarios.
    fn beside(&self) -> i64 {
        let of_a_round = i64::from(self.args.samples / self.args.rounds);
        (GAPS.ns() / self.args.period.ns()).min(of_a_round).max(1)
    }

    /// Pauses of a spinning thread beside the scenarios. The sources get the noise on its CPU.
    fn gaps(&self, sources: &mut BTreeMap<Source, Sum>) -> Result<(Span, Vec<i64>), Trouble> {
        // A long period would be a loop as long.
        let (period, count) = if self.args.period > GAPS { (GAPS, 1) } else { (self.args.period, self.beside()) };
        let floor = Scenario::named("idle-fifo").ok_or_else(|| io::Error::other("no floor"))?;
        if let Some(tracer) = &self.tracer {
            tracer.start()?;
        }
        let found = self.process(floor, period, count as usize, None, Body::Gaps);
        if let Some(tracer) = &self.tracer {
            tracer.stop()?;
        }
        let found = found?;
        if let Some(tracer) = &self.tracer {
            tracer.noise(found.pid, sources).map_err(Trouble::Ends)?;
        }
        Ok((period * count, found.samples.into_iter().map(|gap| gap.late).collect()))
    }
}

fn interrupted() -> Trouble {
    let message = "interrupted: the machine is as it was before";
    Trouble::Ends(Failure::status(130, Code::CommandRefused, message))
}

/// The measured samples that count. Beside cyclictest, an instant that passes while the task is still late does not, because cyclictest leaves it out.
fn counted(measured: &Measured, beside_peer: bool) -> Measured {
    let all = &measured.samples;
    let samples: Vec<WakeUp> = if beside_peer {
        let ends = std::iter::once(i64::MIN).chain(all.iter().map(|one| one.planned + one.late));
        all.iter().zip(ends).filter(|(one, before)| one.planned >= *before).map(|(one, _)| *one).collect()
    } else {
        all.iter().skip(WARM_UP).copied().collect()
    };
    Measured { samples, ..*measured }
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
        let mut isolator = isolate::open().map_err(|e| failed(&e))?;
        match isolator.undo(&self.name) {
            Ok(_) | Err(isolate::Refusal::Unknown(_)) => Ok(()),
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

/// The largest sources of noise, as the tracer `osnoise` has them.
fn noise_note(cpu: usize, sources: BTreeMap<Source, Sum>) -> Option<String> {
    let mut sources: Vec<(Source, Sum)> = sources.into_iter().collect();
    sources.sort_by_key(|(source, sum)| (std::cmp::Reverse(sum.ns), *source));
    let of = |(source, sum): &(Source, Sum)| {
        format!(
            "{source} {} times for {}, the longest {}",
            sum.count,
            Span::from_ns(sum.ns),
            Span::from_ns(sum.longest)
        )
    };
    let named: Vec<String> = sources.iter().take(SOURCES).map(of).collect();
    (!named.is_empty())
        .then(|| format!("osnoise: beside the gap detector, CPU {cpu} was taken by {}", named.join("; ")))
}

/// The times of the tracer `timerlat`: the median and the maximum of each stage.
fn timerlat_note(cpu: usize, priority: u8, mut stages: [Vec<i64>; 3]) -> Option<String> {
    let mut said = Vec::new();
    for (times, stage) in
        stages.iter_mut().zip(["the timer interrupt", "the task in the kernel", "the task in user space"])
    {
        times.sort_unstable();
        let (median, max) = (times.get(times.len() / 2)?, times.last()?);
        said.push(format!("{stage} p50 {}, max {}", Span::from_ns(*median), Span::from_ns(*max)));
    }
    let count = stages[0].len();
    Some(format!(
        "timerlat: {count} wake-ups of SCHED_FIFO {priority} on CPU {cpu} without load, from the planned instant to {}",
        said.join("; to ")
    ))
}

/// A warning where the machine's own noise is as large as what is measured.
fn noise(results: &Results) -> Option<String> {
    let floor = results.measured().find(|s| s.name == "idle-fifo").or_else(|| results.measured().next())?;
    let p99 = takt_latency::Figures::of(floor, results.limit).quantiles[1];
    let of = Span::from_ns;
    if !floor.has_intervals() {
        return Some(format!(
            "fewer than {MIN_ROUNDS} rounds say nothing about noise: there are no confidence intervals"
        ));
    }
    p99.ends.filter(|(low, high)| high - low > p99.value.max(1)).map(|(low, high)| {
        format!(
            "noise: p99 of `{}` lies between {} and {}; differences of that size between scenarios mean nothing",
            floor.name,
            of(low),
            of(high)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_wake_ups_count_as_for_cyclictest() {
        let of = |planned, late| WakeUp { planned, late };
        let samples = vec![of(1000, 20), of(2000, 2500), of(3000, 1500), of(4000, 500), of(5000, 30), of(6000, 1000)];
        let measured = Measured { pid: 1, stolen: 0, throttled: 0, samples };
        assert_eq!(counted(&measured, true).samples, [of(1000, 20), of(2000, 2500), of(5000, 30), of(6000, 1000)]);
        assert!(counted(&measured, false).samples.is_empty(), "all of them warm up");
    }

    #[test]
    fn a_cpu_that_is_isolated_is_measured_in_its_isolation() {
        let set = |cpus: &[usize]| cpus.iter().copied().collect::<CpuSet>();
        let isolation = |name: &str, cpus: &[usize], complete, of_run| isolate::Status {
            name: name.into(),
            cpus: set(cpus),
            group: format!("/sys/fs/cgroup/{name}"),
            steps: Vec::new(),
            settings: 0,
            members: Vec::new(),
            complete,
            of_run,
        };
        let here = set(&[0, 1]);
        let found = |wanted, isolations: &[isolate::Status]| {
            let target = target(wanted, &here, isolations);
            target.map(|(cpu, isolation)| (cpu, isolation.map(|i| i.name.clone()))).map_err(|e| e.text().to_owned())
        };
        let rt = || Some("rt".to_owned());
        let isolated = [isolation("rt", &[2, 3], true, false), isolation("run", &[4], true, true)];
        assert_eq!(found(None, &[]), Ok((1, None)));
        assert_eq!(found(None, &isolated), Ok((3, rt())), "the last isolated one");
        assert_eq!(found(Some(2), &isolated), Ok((2, rt())));
        assert_eq!(found(Some(0), &isolated), Ok((0, None)));
        assert!(found(Some(4), &isolated).unwrap_err().contains("CPU 4 is not one of CPU 0-1"), "that of a run");
        assert!(found(Some(9), &isolated).is_err());
        assert_eq!(found(None, &[isolation("rt", &[3], false, false)]), Ok((1, None)), "a part of an isolation");
    }
}
