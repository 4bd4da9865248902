//! `takt sweep schedulability`: the part of random task sets that each test accepts, over the total utilisation.

use super::curves::{self, Dot, Panel, Picture};
use super::experiment::{self, Common};
use super::generate::{self, SetArgs};
use super::points::{Points, points, ratio};
use super::state::{Block, Found, Subject};
use crate::commands::output::{self, ready};
use crate::commands::verdicts::{self, Method};
use crate::input::duration;
use crate::{Outcome, Verdict};
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use takt_analysis::generate::Impossible;
use takt_analysis::taskset::TaskSet;
use takt_analysis::tests::Verdict as Says;
use takt_core::cpus::MAX_CPUS;
use takt_core::time::Span;

/// The part of random task sets that each test accepts, over the total utilisation
///
/// Without options this is figure 13 of AIRS (Kato, Rajkumar, Ishikawa, ECRTS 2010) in smaller steps: four CPUs, 1000 sets for
/// each point. Prints CSV: a row for each point, with the part of its sets that each test accepts (a simulated policy: that met
/// all deadlines; `necessary`: that it does not refuse). The same seed gives the same bytes, whatever the number of threads.
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
    #[command(flatten)]
    common: Common,
}

/// Sets that one thread takes at a time.
const BLOCK: u64 = 20;
/// What each test said about a block: how many sets it accepted, and about how many it could not say.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Counts {
    accepted: Vec<u64>,
    unknown: Vec<u64>,
}

impl Found for Counts {
    fn cells(&self) -> Vec<Value> {
        vec![json!(self.accepted), json!(self.unknown)]
    }

    fn read(cells: &[Value]) -> Option<Counts> {
        let list = |value: &Value| value.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
        let [accepted, unknown] = cells else { return None };
        Some(Counts { accepted: list(accepted)?, unknown: list(unknown)? })
    }

    fn is_sound(&self, sets: u64, questions: usize) -> bool {
        let whole = |counts: &[u64]| counts.len() == questions && counts.iter().all(|n| *n <= sets);
        whole(&self.accepted) && whole(&self.unknown)
    }
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
        setup["points"] = self.points.iter().map(|p| ratio(*p)).collect();
        setup["tests"] = self.methods.iter().map(Method::name).collect();
        setup["simulated_ns"] = json!(self.args.duration.ns());
        setup
    }

    /// What the tests say about a block of sets.
    fn ask(&self, (point, first, sets): Block) -> Result<Counts, Impossible> {
        let tests = self.methods.len();
        let mut counts = Counts { accepted: vec![0; tests], unknown: vec![0; tests] };
        let generator = self.args.kind.generator();
        for index in first..first + sets {
            let tasks = generator.set(self.points[point], self.args.kind.seed, index)?;
            let set = TaskSet::new(tasks, Span::from_us(1)).map_err(|_| Impossible::Periods)?;
            let system =
                || verdicts::machine(self.cpus, set.tasks.iter().map(|t| generate::described(t, &set)).collect());
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

pub(super) fn run(args: &Args) -> Outcome {
    let cpus = usize::from(args.cpus);
    let all = |cpus: u64| (0..=10).map(|step| cpus * 500_000 + step * cpus * 50_000).collect();
    let points = args.points.clone().map_or_else(|| all(cpus as u64), |p| p.0);
    let methods = verdicts::methods(args.test.as_deref().unwrap_or(default_tests(cpus)), cpus)?;
    let experiment = Experiment { args, cpus, points, methods };
    ready(&args.common.state, &args.common.svg)?;
    // What cannot be drawn or simulated is told before the work, and not after it.
    for (point, _) in experiment.points.iter().enumerate() {
        experiment
            .args
            .kind
            .generator()
            .set(experiment.points[point], args.kind.seed, 0)
            .map_err(generate::impossible)?;
    }
    let blocks = experiment::blocks(experiment.points.len(), args.sets, BLOCK);
    let subject = Subject {
        format: "takt sweep schedulability 1",
        setup: experiment.setup(),
        questions: experiment.methods.len(),
    };
    let found = experiment::carry_out(&args.common, &subject, &blocks, |block| {
        experiment.ask(block).map_err(generate::impossible)
    })?;
    report(&experiment, &counted(&experiment, sums(&experiment, &blocks, &found)))
}

/// The counts of whole points.
fn sums(experiment: &Experiment<'_>, blocks: &[Block], found: &[Counts]) -> Vec<Counts> {
    let tests = experiment.methods.len();
    let empty = || Counts { accepted: vec![0; tests], unknown: vec![0; tests] };
    let mut sums: Vec<Counts> = experiment.points.iter().map(|_| empty()).collect();
    for (block, counts) in blocks.iter().zip(found) {
        let sum = &mut sums[block.0];
        sum.accepted.iter_mut().zip(&counts.accepted).for_each(|(a, b)| *a += b);
        sum.unknown.iter_mut().zip(&counts.unknown).for_each(|(a, b)| *a += b);
    }
    sums
}

/// What is counted for a test: sets that it accepts, and of one that accepts none those that it does not refuse. The others of which it
/// says nothing stay as they are.
fn counted(experiment: &Experiment<'_>, mut sums: Vec<Counts>) -> Vec<Counts> {
    for (test, method) in experiment.methods.iter().enumerate() {
        if method.only_refuses() {
            sums.iter_mut().for_each(|sum| sum.accepted[test] += std::mem::take(&mut sum.unknown[test]));
        }
    }
    sums
}

fn report(experiment: &Experiment<'_>, sums: &[Counts]) -> Outcome {
    let (args, sets) = (experiment.args, experiment.args.sets);
    let names = || experiment.methods.iter().map(Method::name);
    if let Some(path) = &args.common.svg {
        let dots = |test: usize| sums.iter().map(|s| Some(Dot { value: s.accepted[test], half: 0 })).collect();
        let name =
            |m: &Method| if m.only_refuses() { format!("{}: not refused", m.name()) } else { m.name().to_owned() };
        let lines = experiment.methods.iter().enumerate().map(|(test, m)| (name(m), dots(test))).collect();
        let panels = [Panel { title: String::new(), top: sets, worth: 1_000_000, lines }];
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
        let (title, across) = ("Task sets accepted", "total utilisation");
        let picture = Picture { title, note: &note, across, points: &experiment.points, panels: &panels };
        output::write(path, curves::svg(&picture))?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.common.json {
        let point = |(point, sum): (&u64, &Counts)| {
            let tests = experiment.methods.iter().enumerate().map(|(t, method)| {
                let counts = if method.only_refuses() { "not refused" } else { "accepted" };
                json!({"test": method.name(), "accepted": sum.accepted[t], "unknown": sum.unknown[t], "counts": counts})
            });
            json!({"utilisation": ratio(*point), "sets": sets, "tests": tests.collect::<Vec<_>>()})
        };
        let points: Vec<Value> = experiment.points.iter().zip(sums).map(point).collect();
        writeln!(out, "{}", json!({"setup": experiment.setup(), "points": points}))?;
    } else {
        writeln!(out, "utilisation,sets,{}", names().collect::<Vec<_>>().join(","))?;
        for (point, sum) in experiment.points.iter().zip(sums) {
            write!(out, "{},{sets}", ratio(*point))?;
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
