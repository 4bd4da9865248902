//! `takt isolate advise`: the worth of each step on this machine, and the shortest list of steps that are worth something.

use super::super::latency::measure::{self, Method};
use super::common::{check_steps, failure, look, open, step};
use crate::failure::Failure;
use crate::input::duration;
use crate::interruption::Interruption;
use crate::outcome::{Outcome, Verdict};
use crate::progress::Progress;
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_latency::{Figure, Gain, Interval, Results, Scenario};
use takt_linux::isolate::{Created, Isolation, Kernel, Linux, Step};
use takt_linux::leftovers::OnCrash;
use takt_linux::rt::{self, Class};
use takt_linux::{RunId, watcher};
use takt_workload::Code;

/// Measure what each step is worth on this machine, and propose the shortest list
///
/// A task on the CPU records its lateness: without isolation, and with each step alone. All of these are measured in turn for several rounds, and undone after
/// each. The steps are then added to each other, the best one first, and measured again: a large disturbance hides small ones. The machine should have its
/// usual load.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// CPU of the task; by default the last one
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Time for measuring; creating and undoing the steps takes some more
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Rounds; each figure and interval needs at least three
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=1000))]
    rounds: u32,
    /// Period of the task
    #[arg(long, default_value = "1ms", value_parser = duration)]
    period: Span,
    /// Scheduling class of the task
    #[arg(long, value_enum, default_value_t = TaskClass::Fifo)]
    class: TaskClass,
    /// Priority of the task in SCHED_FIFO
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(1..=98))]
    priority: u8,
    /// Figure that the steps are to lower: mean, p50, p99, p99.9 or max
    #[arg(long, value_name = "FIGURE", default_value = "p99", value_parser = |text: &str| text.parse::<Figure>())]
    figure: Figure,
    /// Leave a step out
    #[arg(long, value_name = "STEP", value_parser = step())]
    without: Vec<Step>,
    /// Measure a step, too, whose gain shows after minutes (huge-pages, swap) or that costs safety (throttling)
    #[arg(long, value_name = "STEP", value_parser = step())]
    with: Vec<Step>,
    /// Of no effect since 0.2: intervals need no seed
    #[arg(long = "seed", value_name = "SEED", hide = true)]
    _seed: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The class of the measured task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum TaskClass {
    /// SCHED_FIFO
    Fifo,
    /// The ordinary class, without timer slack
    Other,
}

/// Internal: the measured task. It writes its samples to standard output, eight bytes each.
#[derive(clap::Args, Debug)]
pub(crate) struct Sample {
    cpu: usize,
    period: i64,
    count: usize,
    /// 0 is the ordinary class.
    priority: u8,
    /// Directory of the set to enter
    #[arg(long)]
    enter: Option<PathBuf>,
}

/// The name of the scenario without isolation.
const NONE: &str = "none";
/// Wake-ups that are measured, and not counted, at the begin of each measurement.
const WARM_UP: usize = 5;
/// The least samples of a measurement.
const SAMPLES_MIN: usize = 20;
/// The least samples may take so many times the time for measuring.
const MORE: i128 = 4;
/// The share of the time for the steps alone, in percent; the rest is for their sums.
const ALONE: i64 = 50;

/// Steps that are measured together.
#[derive(Clone, Debug)]
struct Candidate {
    name: String,
    steps: Vec<Step>,
    /// Why it is not measured.
    skipped: Option<String>,
}

impl Candidate {
    fn of(name: &str, steps: &[Step]) -> Candidate {
        Candidate { name: name.to_owned(), steps: steps.to_vec(), skipped: None }
    }
    fn scenario(&self) -> Scenario {
        let steps: Vec<&str> = self.steps.iter().map(|step| step.name()).collect();
        Scenario {
            name: self.name.clone(),
            meaning: steps.join(", "),
            rounds: Vec::new(),
            stolen: Vec::new(),
            worst: Vec::new(),
            agreement: None,
            skipped: self.skipped.clone(),
        }
    }
}

/// The steps that are measured, each alone. With cgroup v2 a partition is the mechanism of three of them, which the step `exclusive` makes.
fn candidates(with: &[Step], without: &[Step], v2: bool) -> Vec<Candidate> {
    let partition = [Step::Exclusive, Step::Domain, Step::Tasks];
    // These gain within a second if at all, and cost energy for the time of the measurement only.
    let asked = |step: &Step| step.is_default() || matches!(step, Step::Idle | Step::Frequency) || with.contains(step);
    let lacks = |step: &Step| v2 && partition.contains(step) && without.contains(&Step::Exclusive);
    let chosen = Step::all().filter(|step| asked(step) && !without.contains(step) && !lacks(step));
    let mut all: Vec<Candidate> = Vec::new();
    for step in chosen {
        match (v2 && partition.contains(&step), all.first_mut()) {
            (true, Some(first)) if partition.contains(&first.steps[0]) => first.steps.push(step),
            _ => all.push(Candidate::of(step.name(), &[step])),
        }
    }
    if let Some(first) = all.first_mut().filter(|first| first.steps.len() > 1) {
        first.name = "partition".into();
    }
    all
}

/// Candidates that are added to each other, in this order: the first one, the first two, and so on.
fn sums(order: &[&Candidate]) -> Vec<Candidate> {
    let sum = |length: usize| {
        let names: Vec<&str> = order[..length].iter().map(|candidate| candidate.name.as_str()).collect();
        let mut steps: Vec<Step> = order[..length].iter().flat_map(|candidate| &candidate.steps).copied().collect();
        steps.sort_unstable();
        Candidate::of(&names.join("+"), &steps)
    };
    (1..=order.len()).map(sum).collect()
}

/// Threads and interrupts of a CPU now.
#[derive(Default)]
struct Reading {
    tasks: usize,
    kernel_threads: usize,
    bound: usize,
    interrupts: usize,
}

impl Reading {
    /// O(threads + interrupts).
    fn of(cpu: usize) -> Reading {
        let kernel = Linux::look();
        let mut reading = Reading::default();
        for thread in kernel.threads().into_iter().filter(|thread| thread.cpus.contains(cpu)) {
            match (thread.kernel, thread.fixed) {
                (true, false) => reading.kernel_threads += 1,
                (true, true) => reading.bound += usize::from(thread.cpus.len() == 1),
                (false, _) => reading.tasks += 1,
            }
        }
        let here = |name: &String| {
            let list = kernel.read(&format!("/proc/irq/{name}/effective_affinity_list"));
            list.ok().and_then(|list| takt_workload::parse_cpus(&list).ok()).is_some_and(|cpus| cpus.contains(cpu))
        };
        reading.interrupts = kernel.names("/proc/irq").iter().filter(|name| here(name)).count();
        reading
    }
}

struct Advisor<'a> {
    args: &'a Args,
    run: RunId,
    cpu: usize,
    interruption: Interruption,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.period < Span::from_us(50) {
        let message = format!("a period of {} leaves the CPU no time for anything else", args.period);
        return Err(Failure::input(Code::OutOfRange, message, "choose a period of at least 50us"));
    }
    check_steps(&args.with, &args.without)?;
    // A user who is not root, and a machine without CPU sets, are refused before anything is measured.
    drop(open()?);
    let here = rt::affinity(0)?;
    let cpu = args.cpu.unwrap_or_else(|| here.iter().last().unwrap_or(0));
    if !here.contains(cpu) {
        let message = format!("CPU {cpu} is not one of CPU {here}, which this process may use");
        return Err(Failure::machine(Code::MissingCpu, message, "choose another --cpu"));
    }
    if here.len() == 1 {
        let message =
            format!("CPU {cpu} is the only one that this process may use: none would remain for everything else");
        let fix = "allow this process more CPUs, for instance by taskset(1)";
        return Err(Failure::machine(Code::MissingCpu, message, fix));
    }
    if let Some(name) = look()?.names().first() {
        let message = format!("there is an isolation `{name}`, so this machine without isolation cannot be measured");
        let fix = format!("takt isolate undo --name {name}");
        return Err(Failure::machine(Code::CpuInUse, message, &fix));
    }
    let interruption = Interruption::wait().map_err(|e| Failure::thread(&e))?;
    let run = RunId::new()?;
    // It undoes isolations when this process is killed.
    watcher::spawn_watcher(&run, OnCrash::Kill)?;
    Advisor { args, run, cpu, interruption }.advise()
}

impl Advisor<'_> {
    /// The least number of samples of each measurement.
    fn samples(&self) -> usize {
        self.args.figure.samples().max(SAMPLES_MIN)
    }

    fn advise(&self) -> Outcome {
        let args = self.args;
        let v2 = Linux::look().hierarchy().is_some_and(|(v2, _)| v2);
        let reading = Reading::of(self.cpu);
        let mut candidates = candidates(&args.with, &args.without, v2);
        // Each step alone and all sums, beside the machine without isolation.
        let measurements = (candidates.len() as i64 + 1) * 2 * i64::from(args.rounds);
        let samples = self.samples();
        let least = i128::from(args.period.ns()) * (samples + WARM_UP) as i128 * i128::from(measurements);
        let total = Span::from_secs(i64::from(args.seconds));
        if least > i128::from(total.ns()) * MORE {
            let message = format!(
                "{measurements} measurements of {samples} samples with a period of {} take {} s, and not {} s",
                args.period,
                least / 1_000_000_000,
                args.seconds
            );
            let hint = "choose a shorter --period, fewer --rounds or more --seconds, or leave steps out (--without)";
            return Err(Failure::input(Code::OutOfRange, message, hint));
        }
        let boot = self.try_out(&mut candidates)?;
        let all: Vec<Candidate> = [Candidate::of(NONE, &[])].into_iter().chain(candidates.iter().cloned()).collect();
        let alone = self.measure(&all, total.scaled(ALONE, 100))?;
        let gains = takt_latency::ranked(&alone, args.figure);
        // One that is worth nothing alone may be worth something when the larger disturbances are gone.
        let order: Vec<&Candidate> = gains
            .iter()
            .filter(|gain| !gain.is_loss())
            .filter_map(|gain| candidates.iter().find(|candidate| candidate.name == gain.name))
            .collect();
        let sums: Vec<Candidate> = [Candidate::of(NONE, &[])].into_iter().chain(sums(&order)).collect();
        let results = self.measure(&sums, total.scaled(100 - ALONE, 100))?;
        let added = takt_latency::successive(&results, args.figure);
        let worth = |index: usize| added.get(index).is_some_and(Gain::is_gain);
        let chosen: Vec<&Candidate> = order.iter().enumerate().filter(|(i, _)| worth(*i)).map(|(_, c)| *c).collect();
        let mut steps: Vec<Step> = chosen.iter().flat_map(|candidate| &candidate.steps).copied().collect();
        steps.sort_unstable();
        let baseline = alone.measured().next().ok_or_else(|| {
            Failure::machine(Code::SystemError, "this machine without isolation was not measured", "try again")
        })?;
        let baseline = takt_latency::figure(baseline, args.figure);
        let advice = Advice {
            reading,
            candidates: &candidates,
            baseline,
            gains,
            order,
            added,
            steps,
            boot,
            cpu: self.cpu,
            args,
        };
        let mut out = io::stdout().lock();
        match args.json {
            true => writeln!(out, "{}", advice.object())?,
            false => advice.print(&mut out)?,
        }
        Ok(Verdict::Done)
    }

    /// Creates and undoes each candidate once. A candidate that this machine cannot carry out, or that changes nothing, is not measured. Returns boot parameters.
    fn try_out(&self, candidates: &mut [Candidate]) -> Result<Vec<String>, Failure> {
        let mut boot = Vec::new();
        for candidate in candidates {
            self.check_interrupted()?;
            match Isolation::create(&self.run, &CpuSet::single(self.cpu), &candidate.steps) {
                Ok(isolation) => {
                    let created = isolation.created().clone();
                    isolation.undo().map_err(failure)?;
                    candidate.skipped = idle(candidate, &created);
                    boot = created.boot;
                }
                // The same for all of them.
                Err(refusal @ takt_linux::isolate::Refusal::Request(..)) => return Err(failure(refusal)),
                Err(refusal) => candidate.skipped = Some(refusal.to_string()),
            }
        }
        Ok(boot)
    }

    /// Measures candidates in turn, round by round, within about so much time.
    fn measure(&self, all: &[Candidate], time: Span) -> Result<Results, Failure> {
        let (args, measured) = (self.args, all.iter().filter(|candidate| candidate.skipped.is_none()).count().max(1));
        let slots = measured as i64 * i64::from(args.rounds);
        let count = usize::try_from(time.ns() / slots / args.period.ns().max(1)).unwrap_or(0).max(self.samples());
        let mut results = Results::new(String::new(), String::new(), String::new(), 0);
        results.scenarios = all.iter().map(Candidate::scenario).collect();
        let progress = Progress::of(slots as u64, "measurements");
        for round in 0..args.rounds as usize {
            // Each round begins with another one, so none always follows the same one.
            for turn in 0..all.len() {
                let index = (round + turn) % all.len();
                if all[index].skipped.is_none() {
                    let samples = self.once(&all[index].steps, count)?;
                    results.scenarios[index].rounds.push(samples);
                    progress.inc(1);
                }
            }
        }
        progress.finish();
        Ok(results)
    }

    fn check_interrupted(&self) -> Result<(), Failure> {
        if self.interruption.is_wanted() {
            let message = "interrupted: every step is undone";
            return Err(Failure::status(130, Code::CommandRefused, message));
        }
        Ok(())
    }

    /// The lateness of a task with these steps, which are undone afterwards.
    fn once(&self, steps: &[Step], count: usize) -> Result<Vec<i64>, Failure> {
        self.check_interrupted()?;
        let cpus = CpuSet::single(self.cpu);
        let isolation = match steps {
            [] => None,
            _ => Some(Isolation::create(&self.run, &cpus, steps).map_err(failure)?),
        };
        let set = isolation.as_ref().map(Isolation::set);
        let samples = self.task(count + WARM_UP, set.as_deref());
        isolation.map_or(Ok(()), |isolation| isolation.undo().map(drop).map_err(failure))?;
        let mut samples = samples?;
        samples.drain(..WARM_UP.min(samples.len()));
        Ok(samples)
    }

    fn task(&self, count: usize, set: Option<&Path>) -> Result<Vec<i64>, Failure> {
        let args = self.args;
        let priority = if args.class == TaskClass::Fifo { args.priority } else { 0 };
        let mut command = Command::new("/proc/self/exe");
        command.args(["isolate", "__sample"]).arg(self.cpu.to_string()).arg(args.period.ns().to_string());
        command.args([count.to_string(), priority.to_string()]);
        if let Some(set) = set {
            command.arg("--enter").arg(set);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.interruption.output(&mut command)?;
        self.check_interrupted()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let line = said.lines().next().unwrap_or("no message").to_owned();
            let fix = "use --class other, or see `takt doctor` for real-time classes";
            return Err(Failure::machine(Code::MissingCapability, format!("the task cannot be measured: {line}"), fix));
        }
        Ok(output.stdout.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0, i64::from_le_bytes)).collect())
    }
}

/// Why a candidate that was tried out is not worth a measurement.
fn idle(candidate: &Candidate, created: &Created) -> Option<String> {
    let changes = match candidate.steps[..] {
        [Step::Exclusive | Step::Domain | Step::Tasks, ..] => true,
        [Step::KernelThreads] => created.threads > 0,
        _ => created.settings > 0,
    };
    (!changes).then(|| "there is nothing to change".to_owned())
}

/// The body of the measured process.
pub(crate) fn sample(args: &Sample) -> Outcome {
    // Nothing of a killed experiment remains on the CPU.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(io::Error::from)?;
    match &args.enter {
        Some(set) => std::fs::write(set.join("cgroup.procs"), "0")?,
        None => rt::set_affinity(0, &CpuSet::single(args.cpu))?,
    }
    // Memory that cannot be locked costs a few page faults, and is no failure.
    let _ = rt::lock_memory();
    rt::set_timer_slack(Span::from_ns(1))?;
    rt::set_class(0, if args.priority > 0 { Class::Fifo(args.priority) } else { Class::Other })?;
    let samples = measure::wake(Method::Nanosleep, Span::from_ns(args.period), args.count)?;
    rt::set_class(0, Class::Other)?;
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.late.to_le_bytes()).collect();
    io::stdout().lock().write_all(&bytes)?;
    Ok(Verdict::Done)
}

/// The answer.
struct Advice<'a> {
    reading: Reading,
    candidates: &'a [Candidate],
    baseline: Interval,
    /// The worth of each step alone, the best one first.
    gains: Vec<Gain>,
    /// The candidates that make nothing worse, in this order.
    order: Vec<&'a Candidate>,
    /// The worth of each of them beside those before it.
    added: Vec<Gain>,
    /// The shortest list.
    steps: Vec<Step>,
    boot: Vec<String>,
    cpu: usize,
    args: &'a Args,
}

/// Both ends of an interval.
fn between(interval: &Interval) -> String {
    interval.ends.map_or("-".to_owned(), |(low, high)| format!("{} to {}", Span::from_ns(low), Span::from_ns(high)))
}

impl Advice<'_> {
    fn create(&self) -> String {
        let wanted = |step: &Step| self.steps.contains(step);
        let without = Step::all().filter(|step| step.is_default() && !wanted(step));
        let with = Step::all().filter(|step| !step.is_default() && wanted(step));
        let options =
            without.map(|step| format!(" --without {step}")).chain(with.map(|step| format!(" --with {step}")));
        format!("takt isolate create --cpus {}{}", self.cpu, options.collect::<String>())
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Advice { reading, args, cpu, .. } = self;
        let of = Span::from_ns;
        let class = match args.class {
            TaskClass::Fifo => format!("SCHED_FIFO {}", args.priority),
            TaskClass::Other => "the ordinary class".to_owned(),
        };
        writeln!(
            out,
            "CPU {cpu}: {} tasks and {} kernel threads may use it and can be moved, {} kernel threads are bound to it, {} interrupts arrive there",
            reading.tasks, reading.kernel_threads, reading.bound, reading.interrupts
        )?;
        writeln!(
            out,
            "without isolation, in {class}, period {}: {} of the lateness {} (95 %: {})",
            args.period,
            args.figure,
            of(self.baseline.value),
            between(&self.baseline)
        )?;
        writeln!(out, "\n{:<14}  {:>12}  {:<26}  95 %", "step alone", args.figure, "worth")?;
        for gain in &self.gains {
            let value = gain.gain.value;
            let worth = match (gain.is_gain(), gain.is_loss()) {
                (true, _) => of(value).to_string(),
                (_, true) => format!("{} later", of(-value)),
                _ => "nothing here beyond noise".to_owned(),
            };
            let figure = of(gain.figure).to_string();
            writeln!(out, "{:<14}  {figure:>12}  {worth:<26}  {}", gain.name, between(&gain.gain))?;
        }
        for candidate in self.candidates {
            if let Some(why) = &candidate.skipped {
                writeln!(out, "{:<14}  not measured: {why}", candidate.name)?;
            }
        }
        if !self.added.is_empty() {
            writeln!(out, "\nadded to the steps before it")?;
            for (gain, candidate) in self.added.iter().zip(&self.order) {
                let worth = if gain.is_gain() {
                    of(gain.gain.value).to_string()
                } else {
                    "adds nothing beyond noise".to_owned()
                };
                let figure = of(gain.figure).to_string();
                writeln!(out, "{:<14}  {figure:>12}  {worth:<26}  {}", candidate.name, between(&gain.gain))?;
            }
        }
        writeln!(out)?;
        if self.steps.is_empty() {
            writeln!(out, "advice: no step is worth anything here beyond noise; every step is undone")?;
        } else {
            let names: Vec<&str> = self.steps.iter().map(|step| step.name()).collect();
            writeln!(out, "advice: {}", self.create())?;
            writeln!(out, "for the time of a schedule: takt run --isolate={} FILE", names.join(","))?;
            writeln!(out, "every step is undone")?;
        }
        if !self.boot.is_empty() {
            writeln!(out, "not measured, since they need a boot: {}", self.boot.join(" "))?;
        }
        Ok(())
    }

    fn object(&self) -> Json {
        let Advice { reading, args, cpu, .. } = self;
        let interval = |i: &Interval| json!({"value_ns": i.value, "low_ns": i.ends.map(|ends| ends.0), "high_ns": i.ends.map(|ends| ends.1)});
        let gain = |gain: &Gain| {
            json!({"name": gain.name, "figure_ns": gain.figure, "gain": interval(&gain.gain), "is_gain": gain.is_gain(),
                "is_loss": gain.is_loss()})
        };
        let skipped = self.candidates.iter().filter_map(|candidate| {
            let why = candidate.skipped.as_ref()?;
            Some(json!({"name": candidate.name, "reason": why}))
        });
        let steps: Vec<&str> = self.steps.iter().map(|step| step.name()).collect();
        json!({
            "cpu": cpu, "class": if args.class == TaskClass::Fifo { "fifo" } else { "other" }, "period_ns": args.period.ns(),
            "rounds": args.rounds, "figure": args.figure.to_string(), "baseline": interval(&self.baseline),
            "steps": self.gains.iter().map(gain).collect::<Vec<_>>(), "skipped": skipped.collect::<Vec<_>>(),
            "added": self.added.iter().map(gain).collect::<Vec<_>>(), "advice": steps, "create": self.create(),
            "boot_parameters": self.boot,
            "machine": {"tasks": reading.tasks, "kernel_threads": reading.kernel_threads,
                "bound_kernel_threads": reading.bound, "interrupts": reading.interrupts},
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|candidate| candidate.name.as_str()).collect()
    }

    #[test]
    fn each_step_is_measured_alone_and_a_partition_as_one() {
        let v1 = candidates(&[], &[Step::Watchdog], false);
        assert_eq!(
            names(&v1),
            ["exclusive", "domain", "tasks", "kernel-threads", "workqueues", "interrupts", "idle", "frequency"]
        );
        let v2 = candidates(&[Step::Swap], &[Step::Idle, Step::Frequency], true);
        assert_eq!(names(&v2), ["partition", "kernel-threads", "workqueues", "interrupts", "watchdog", "swap"]);
        assert_eq!(v2[0].steps, [Step::Exclusive, Step::Domain, Step::Tasks]);
        let left = candidates(&[], &[Step::Domain], true);
        assert_eq!((names(&left)[0], &left[0].steps[..]), ("partition", &[Step::Exclusive, Step::Tasks][..]));
        let none = candidates(&[], &[Step::Exclusive], true);
        assert_eq!(names(&none)[0], "kernel-threads", "without the step that makes a partition, there is none");
    }

    #[test]
    fn sums_add_one_candidate_after_the_other() {
        let all = candidates(&[], &[], false);
        let sums = sums(&[&all[2], &all[0], &all[5]]);
        assert_eq!(names(&sums), ["tasks", "tasks+exclusive", "tasks+exclusive+interrupts"]);
        assert_eq!(sums[2].steps, [Step::Exclusive, Step::Tasks, Step::Interrupts]);
    }
}
