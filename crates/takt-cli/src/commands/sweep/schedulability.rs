//! `takt sweep schedulability`: the part of random task sets that each test accepts, over the total utilisation.

use super::curves;
use super::generate::{self, SetArgs, total};
use super::state::{Block, Counts, State};
use crate::commands::verdicts::{self, Method};
use crate::failure::Failure;
use crate::input::duration;
use crate::parallel;
use crate::{Outcome, Verdict};
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use takt_analysis::generate::Impossible;
use takt_analysis::taskset::TaskSet;
use takt_analysis::tests::Verdict as Says;
use takt_core::cpus::MAX_CPUS;
use takt_core::model::{Arrival, Task};
use takt_core::time::Span;

/// The part of random task sets that each test accepts, over the total utilisation
///
/// Without options this is figure 13 of AIRS (Kato, Rajkumar, Ishikawa, ECRTS 2010) in smaller steps: four CPUs, 1000 sets for
/// each point. Prints CSV: a row for each point, with the part of its sets that each test accepts (a simulated policy: that met
/// all deadlines). The same seed gives the same bytes, whatever the number of threads.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Number of CPUs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    cpus: u16,
    /// Total utilisations: `2.0..4.0:0.2`, or a list with commas; by default from half of the CPUs to all of them in ten steps
    #[arg(long, value_name = "POINTS", value_parser = points)]
    points: Option<Points>,
    /// Number of sets for each point
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    sets: u64,
    /// Tests by name, with commas between; `sim:POLICY` simulates a policy. By default a choice for so many CPUs
    #[arg(long, value_name = "NAMES")]
    test: Option<String>,
    /// Simulated time, from a release of all tasks together on
    #[arg(long, value_parser = duration, default_value = "60s")]
    duration: Span,
    #[command(flatten)]
    kind: SetArgs,
    /// Keep what is found in this file, and go on from there when called again
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Draw the curves
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
    /// Number of threads; by default one for each CPU of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Total utilisations in millionths, ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Points(Vec<u64>);

/// No experiment has more points.
const POINTS_MAX: u64 = 10_000;
/// Sets that one thread takes at a time.
const BLOCK: u64 = 20;
/// Between two writes of the state.
const SAVE_EVERY: Duration = Duration::from_secs(2);

fn points(text: &str) -> Result<Points, String> {
    let mut points = match text.split_once("..") {
        None => text.split(',').map(|p| total(p.trim())).collect::<Result<Vec<u64>, _>>()?,
        Some((low, rest)) => {
            let (high, step) = rest.split_once(':').ok_or("a range needs a step, as in `2.0..4.0:0.2`")?;
            let (low, high, step) = (total(low)?, total(high)?, total(step)?);
            if low > high {
                return Err("the range is upside down".into());
            }
            if (high - low) / step >= POINTS_MAX {
                return Err(format!("more than {POINTS_MAX} points"));
            }
            (low..=high).step_by(step as usize).collect()
        }
    };
    points.sort_unstable();
    points.dedup();
    Ok(Points(points))
}

/// The default choice of tests.
fn default_tests(cpus: usize) -> &'static str {
    match cpus {
        1 => "ll,hyperbolic,rm-rta,dm-rta,edf",
        _ => "gfb,bcl,gedf_sim,wf,ff,ffd,wm_wf,wm_ff,wm_ffd,ceqd_ff,ceqd_ffd",
    }
}

/// What is to be found out.
struct Experiment<'a> {
    args: &'a Args,
    cpus: usize,
    points: Vec<u64>,
    methods: Vec<Method>,
}

impl Experiment<'_> {
    /// All that the result depends on, but for the number of sets: more of them continue a smaller experiment.
    fn setup(&self) -> Value {
        let mut setup = self.args.kind.json();
        setup["cpus"] = json!(self.cpus);
        setup["points"] = self.points.iter().map(|p| curves::ratio(*p)).collect();
        setup["tests"] = self.methods.iter().map(Method::name).collect();
        setup["simulated_ns"] = json!(self.args.duration.ns());
        setup
    }

    fn blocks(&self) -> Vec<Block> {
        let sets = self.args.sets;
        let of_point =
            |point: usize| (0..sets).step_by(BLOCK as usize).map(move |first| (point, first, BLOCK.min(sets - first)));
        (0..self.points.len()).flat_map(of_point).collect()
    }

    /// What the tests say about a block of sets.
    fn ask(&self, (point, first, sets): Block) -> Result<Counts, Impossible> {
        let tests = self.methods.len();
        let mut counts = Counts { accepted: vec![0; tests], unknown: vec![0; tests] };
        let generator = self.args.kind.generator();
        for index in first..first + sets {
            let tasks = generator.set(self.points[point], self.args.kind.seed, index)?;
            let set = TaskSet::new(tasks, Span::from_us(1)).map_err(|_| Impossible::Periods)?;
            let system = || verdicts::machine(self.cpus, set.tasks.iter().map(|t| described(t, &set)).collect());
            for (test, method) in self.methods.iter().enumerate() {
                match method.ask(&set, self.cpus, system, self.args.duration).verdict {
                    Says::Schedulable => counts.accepted[test] += 1,
                    Says::Unknown => counts.unknown[test] += 1,
                    Says::Unschedulable | Says::NotShown => {}
                }
            }
        }
        Ok(counts)
    }
}

/// The task for the simulator.
fn described(task: &takt_analysis::taskset::Task, set: &TaskSet) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: set.span(task.period) },
        deadline: Some(set.span(task.deadline)),
        runtime: Some(set.span(task.runtime)),
        ..Task::default()
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let cpus = usize::from(args.cpus);
    let all = |cpus: u64| (0..=10).map(|step| cpus * 500_000 + step * cpus * 50_000).collect();
    let points = args.points.clone().map_or_else(|| all(cpus as u64), |p| p.0);
    let methods = verdicts::methods(args.test.as_deref().unwrap_or(default_tests(cpus)), cpus)?;
    let experiment = Experiment { args, cpus, points, methods };
    // What cannot be drawn or simulated is told before the work, and not after it.
    for (point, _) in experiment.points.iter().enumerate() {
        experiment
            .args
            .kind
            .generator()
            .set(experiment.points[point], args.kind.seed, 0)
            .map_err(generate::impossible)?;
    }
    let blocks = experiment.blocks();
    let state = State::open(args.state.as_deref(), experiment.setup(), experiment.methods.len())?;
    // Whoever cannot keep the state learns it now.
    state.save()?;
    let missing: Vec<Block> = blocks.iter().copied().filter(|b| !state.done.contains_key(b)).collect();
    let progress = parallel::bar(blocks.iter().map(|b| b.2).sum());
    progress.inc(blocks.iter().filter(|b| state.done.contains_key(b)).map(|b| b.2).sum());
    let shared = Mutex::new((state, Instant::now(), None::<Failure>));
    let found = parallel::map(
        missing.len(),
        args.threads.map_or_else(parallel::threads, usize::from),
        |index| experiment.ask(missing[index]),
        |index, counts| {
            progress.inc(missing[index].2);
            let Ok(counts) = counts else { return };
            let mut shared = shared.lock().expect("no worker panics while it holds the state");
            let (state, saved, failed) = &mut *shared;
            state.done.insert(missing[index], counts.clone());
            if saved.elapsed() >= SAVE_EVERY && failed.is_none() {
                *failed = state.save().err();
                *saved = Instant::now();
            }
        },
    );
    progress.finish_and_clear();
    let (state, _, failed) = shared.into_inner().expect("the workers have ended");
    found.into_iter().find_map(Result::err).map_or(Ok(()), |why| Err(generate::impossible(why)))?;
    failed.map_or(Ok(()), Err)?;
    if !missing.is_empty() {
        state.save()?;
    }
    report(&experiment, &sums(&experiment, &blocks, &state))
}

/// The counts of whole points.
fn sums(experiment: &Experiment<'_>, blocks: &[Block], state: &State) -> Vec<Counts> {
    let tests = experiment.methods.len();
    let empty = || Counts { accepted: vec![0; tests], unknown: vec![0; tests] };
    let mut sums: Vec<Counts> = experiment.points.iter().map(|_| empty()).collect();
    for block in blocks {
        let counts = &state.done[block];
        let sum = &mut sums[block.0];
        sum.accepted.iter_mut().zip(&counts.accepted).for_each(|(a, b)| *a += b);
        sum.unknown.iter_mut().zip(&counts.unknown).for_each(|(a, b)| *a += b);
    }
    sums
}

fn report(experiment: &Experiment<'_>, sums: &[Counts]) -> Outcome {
    let (args, sets) = (experiment.args, experiment.args.sets);
    let names = || experiment.methods.iter().map(Method::name);
    if let Some(path) = &args.svg {
        let lines: Vec<(String, Vec<u64>)> = names()
            .enumerate()
            .map(|(t, name)| (name.to_string(), sums.iter().map(|s| s.accepted[t]).collect()))
            .collect();
        let kind = args.kind.json();
        let text = |key: &str| kind[key].as_str().unwrap_or_default().to_string();
        let note = format!(
            "{} CPUs, {sets} sets per point, {}, periods {}, {} deadlines, seed {}",
            experiment.cpus,
            text("generator"),
            text("periods"),
            text("deadlines"),
            args.kind.seed
        );
        let picture = curves::svg("Task sets accepted", &note, &experiment.points, sets, &lines);
        std::fs::write(path, picture).map_err(|e| Failure::file("write", path, &e))?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        let point = |(point, sum): (&u64, &Counts)| {
            let tests = names()
                .enumerate()
                .map(|(t, name)| json!({"test": name, "accepted": sum.accepted[t], "unknown": sum.unknown[t]}));
            json!({"utilisation": curves::ratio(*point), "sets": sets, "tests": tests.collect::<Vec<_>>()})
        };
        let points: Vec<Value> = experiment.points.iter().zip(sums).map(point).collect();
        writeln!(out, "{}", json!({"setup": experiment.setup(), "points": points}))?;
    } else {
        writeln!(out, "utilisation,sets,{}", names().collect::<Vec<_>>().join(","))?;
        for (point, sum) in experiment.points.iter().zip(sums) {
            write!(out, "{},{sets}", curves::ratio(*point))?;
            for accepted in &sum.accepted {
                // Four decimals, rounded to the nearest.
                let parts = (accepted * 20_000 / sets).div_ceil(2);
                write!(out, ",{}.{:04}", parts / 10_000, parts % 10_000)?;
            }
            writeln!(out)?;
        }
    }
    out.flush()?;
    for (test, name) in names().enumerate() {
        let unknown: u64 = sums.iter().map(|s| s.unknown[test]).sum();
        if unknown > 0 {
            // The result stands; it only counts them as not accepted.
            let _ = writeln!(io::stderr(), "note: {name} could not say anything about {unknown} sets");
        }
    }
    Ok(Verdict::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_a_list_or_a_range() {
        assert_eq!(points("3,2.5, 3").unwrap().0, [2_500_000, 3_000_000]);
        assert_eq!(points("2.0..2.5:0.2").unwrap().0, [2_000_000, 2_200_000, 2_400_000]);
        for wrong in ["", "2..4", "4..2:0.1", "1..1000:0.000001", "2..4:0", "a..b:c"] {
            assert!(points(wrong).is_err(), "{wrong}");
        }
    }
}
