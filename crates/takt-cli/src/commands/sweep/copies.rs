//! `takt sweep copies`: how many instances of a program policies bear, and how often each gets its work done.

use super::curves::{self, Dot, Panel, Picture};
use super::experiment::{self, Common, Singles};
use super::fingerprint::fingerprint;
use super::load::{Policies, Seeds, cells, described, late_text, millionths, policies, runs_of, seeds};
use super::part::Block;
use super::singles::quoted;
use super::state::{Found, Results, Subject};
use super::statistics::{self, Mean, WHOLE, mean};
use crate::failure::Failure;
use crate::files::{self, ready};
use crate::input::{Input, duration, placement, warn, without_kernel};
use crate::outcome::{Outcome, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use takt_analysis::online::{self, Answer};
use takt_core::cpus::MAX_CPUS;
use takt_core::model::{Arrival, Execution, Placement, Program, System, Task};
use takt_core::rng;
use takt_core::stats::Rates;
use takt_core::time::{Span, Time};
use takt_workload::{Code, Source, Workload, canonical};

/// Compare policies as the number of instances of one program rises, such as players of a movie
///
/// For each number of copies and each policy, the copies complete some jobs in each second: frames per second where a job is a frame.
/// Each second is judged by the copy that completed the fewest. Jobs count whether in time or late. Under each seed, a copy begins at
/// another instant of its period. Where the file lists execution times (`execution`), it also begins at another place of that list.
/// Both depend on the seed and the copy alone. Seconds count in which all copies are at work.
///
/// Prints CSV: a row for each number and policy, with means over the seeds. `worst` is the fewest of all seconds, `typical` the mean
/// over the seconds of the fewest. `dsr` is the part of all jobs that met their deadline. A column `_ci95` is half the width of the 95 %
/// confidence interval of the mean before it (Student's t). `proven` says whether a test of `takt check` proves that all deadlines
/// are met. The proof assumes that no job exceeds its reservation, or its runtime where nothing is reserved. Where `runs` is 0,
/// the policy refuses so many.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Workload with the task
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The task and the numbers of its copies: `player=1..7`, or `player=6`
    #[arg(long, value_name = "TASK=FIRST..LAST", value_parser = numbers)]
    copies: Numbers,
    /// Policies with commas between, such as `g-cbs,g-fcbs,edf-wm`
    #[arg(long, value_name = "NAMES", value_parser = policies)]
    policies: Policies,
    /// Number of CPUs; by default as many as the file names
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    cpus: Option<u16>,
    /// Simulated time of each run
    #[arg(long, value_parser = duration, default_value = "30s")]
    duration: Span,
    /// Seeds of the runs, such as `1..5`
    #[arg(long, value_name = "FIRST..LAST", value_parser = seeds, default_value = "1..5")]
    seeds: Seeds,
    /// How partitioned policies place tasks; by default as the file says, or ffd
    #[arg(long, value_parser = placement)]
    placement: Option<Placement>,
    /// Draw the fewest jobs of each second over time, with a panel for each number of copies
    #[arg(long, value_name = "OUT.svg", conflicts_with = "shard")]
    pub(super) over_time: Option<PathBuf>,
    /// Write a row for every run
    #[arg(long, value_name = "OUT.csv", conflicts_with = "shard")]
    pub(super) runs: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// The name of a task, and the first and last number of its copies.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Numbers {
    name: String,
    first: usize,
    last: usize,
}

/// The name of the subcommand in a state.
pub(super) const COMMAND: &str = "copies";
/// More copies make no picture.
const MOST: usize = 1_000;
/// The unit of rates.
const SECOND: Span = Span::from_secs(1);
/// Runs of one number that one thread takes at a time.
const BLOCK: u64 = 1;

fn numbers(text: &str) -> Result<Numbers, String> {
    let form = || "write the name of a task and numbers, as in `player=1..7`".to_owned();
    let (name, range) = text.rsplit_once('=').ok_or_else(form)?;
    let (first, last) = range.split_once("..").unwrap_or((range, range));
    let number = |text: &str| text.parse::<usize>().map_err(|_| form());
    let (first, last) = (number(first)?, number(last)?);
    match (first, last) {
        _ if first > last => Err("the range is upside down".into()),
        (0, _) => Err("without any copy there is nothing to count".into()),
        (_, MOST..) if last > MOST => Err(format!("more than {MOST} copies")),
        _ => Ok(Numbers { name: name.to_owned(), first, last }),
    }
}

/// The result of one seed under one policy; nothing when the policy refused.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    released: u64,
    met: u64,
    /// The fewest jobs of a copy in each second.
    fewest: Vec<u32>,
}

/// The runs of one number of copies, by the number of the seed, each by policy.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Runs(BTreeMap<u64, Vec<Option<Run>>>);

impl Found for Runs {
    fn zero(_: usize) -> Runs {
        Runs::default()
    }

    fn add(&mut self, other: &Runs) -> Option<()> {
        self.0.extend(other.0.iter().map(|(number, runs)| (*number, runs.clone())));
        Some(())
    }

    fn cells(&self) -> Vec<Value> {
        let cell = |run: &Option<Run>| json!(run.as_ref().map(|r| json!([r.released, r.met, r.fewest])));
        let runs =
            |(number, runs): (&u64, &Vec<Option<Run>>)| json!([number, runs.iter().map(cell).collect::<Vec<_>>()]);
        vec![self.0.iter().map(runs).collect()]
    }

    fn read(cells: &[Value]) -> Option<Runs> {
        let run = |value: &Value| -> Option<Option<Run>> {
            if value.is_null() {
                return Some(None);
            }
            let fewest = value[2].as_array()?.iter().map(|n| u32::try_from(n.as_u64()?).ok()).collect::<Option<_>>()?;
            Some(Some(Run { released: value[0].as_u64()?, met: value[1].as_u64()?, fewest }))
        };
        let of_seed = |row: &Value| -> Option<(u64, Vec<Option<Run>>)> {
            Some((row[0].as_u64()?, row[1].as_array()?.iter().map(run).collect::<Option<_>>()?))
        };
        let [runs] = cells else { return None };
        Some(Runs(runs.as_array()?.iter().map(of_seed).collect::<Option<_>>()?))
    }

    fn is_sound(&self, sets: u64, questions: usize) -> bool {
        let sound = |run: &Option<Run>| run.as_ref().is_none_or(|r| r.met <= r.released);
        self.0.len() as u64 == sets && self.0.values().all(|runs| runs.len() == questions && runs.iter().all(sound))
    }
}

/// The file with so many copies under one policy, and which of its tasks they are.
struct Case {
    workload: Workload,
    copies: Range<u32>,
    proven: bool,
}

/// Whether all deadlines are met as long as no job needs more than what is reserved for it.
fn proven(system: &System) -> bool {
    let mut system = system.clone();
    for task in &mut system.tasks {
        task.runtime = task.reservation.map(|reserved| reserved.budget).or(task.runtime);
        task.program = Program::AS_DECLARED;
    }
    online::verdict(&system).schedulable == Answer::Yes
}

/// All cases: by number of copies, then by policy.
struct Cases<'a> {
    args: &'a Args,
    cases: Vec<Vec<Case>>,
}

impl Cases<'_> {
    fn new(args: &Args) -> Result<Cases<'_>, Failure> {
        let mut cases = Vec::new();
        for count in args.copies.first..=args.copies.last {
            let case = |policy| {
                let copies = vec![(args.copies.name.clone(), count)];
                let (file, placement) = (args.file.clone(), args.placement);
                let input = Input {
                    file,
                    policy: Some(policy),
                    placement,
                    cpus: args.cpus,
                    priorities: None,
                    seed: None,
                    copies,
                    texts: args.common.texts(),
                    ..Input::default()
                };
                let workload = input.load_quietly(None)?;
                without_kernel(&workload, "a simulation has no kernel", "takt run")?;
                let first = format!("{}-1", args.copies.name);
                let at = workload.tasks.iter().position(|t| t.name == first).unwrap_or(0) as u32;
                let proven = proven(&workload.system);
                Ok(Case { workload, copies: at..at + count as u32, proven })
            };
            cases.push(args.policies.0.iter().map(|policy| case(*policy)).collect::<Result<Vec<Case>, Failure>>()?);
        }
        if let Some(case) = cases.last().and_then(|cases| cases.first()) {
            warn(&case.workload.source, &case.workload.warnings);
        }
        Ok(Cases { args, cases })
    }

    fn names(&self) -> Vec<String> {
        self.args.policies.0.iter().map(takt_workload::policy_text).collect()
    }

    fn seeds(&self) -> u64 {
        self.args.seeds.1 - self.args.seeds.0 + 1
    }

    /// Seconds from which on all copies are at work: after the first deadline of the last one.
    fn warm_up(&self) -> usize {
        let begins = |task: &Task| match &task.arrival {
            Arrival::Periodic { offset, period } => *offset + *period * 2,
            Arrival::Sporadic { offset, period, spread } => *offset + (*period + *spread) * 2,
            _ => Span::ZERO,
        };
        let last = self.cases.last().and_then(|cases| cases.first());
        let copies = last.into_iter().flat_map(|case| &case.workload.system.tasks[range(&case.copies)]);
        let latest = copies.map(begins).max().unwrap_or(Span::ZERO).ns();
        (latest as u64).div_ceil(SECOND.ns() as u64) as usize
    }

    /// The workload and the files that it names.
    fn files(&self) -> Vec<Source> {
        self.cases[0].first().map_or_else(Vec::new, |case| case.workload.sources())
    }

    /// All that the result depends on, but for the number of seeds.
    fn setup(&self) -> Value {
        let args = self.args;
        let text = |case: &Case| fingerprint(&canonical(&case.workload));
        let fingerprints: Vec<String> = self.cases.iter().flatten().map(text).collect();
        json!({
            "file": args.file.display().to_string(), "fingerprint": fingerprint(&fingerprints.concat()),
            "task": args.copies.name, "copies": [args.copies.first, args.copies.last], "policies": self.names(),
            "seed": args.seeds.0, "simulated_ns": args.duration.ns(),
        })
    }

    fn run_block(&self, (number, first, count): Block) -> Result<Runs, Failure> {
        let run =
            |index| self.cases[number].iter().map(|case| self.simulate(case, self.args.seeds.0 + index)).collect();
        Ok(Runs((first..first + count).map(|index| (index, run(index))).collect()))
    }

    /// One seed under one policy; nothing when that refuses.
    fn simulate(&self, case: &Case, seed: u64) -> Option<Run> {
        let length = self.args.duration;
        let mut system = System { seed, horizon: Some(Time::ZERO + length), ..case.workload.system.clone() };
        for (copy, task) in system.tasks[range(&case.copies)].iter_mut().enumerate() {
            let period = task.arrival.period().unwrap_or(Span::from_ns(1)).ns() as u64;
            let entries = match &task.program.execution {
                Execution::Series(entries) => entries.len() as u64,
                _ => 1,
            };
            let draw = |below: u64, what| rng::draw_up_to(below.saturating_sub(1), seed ^ COPIES, copy as u64, what);
            takt_workload::shift(task, Span::from_ns(draw(period, 0) as i64), draw(entries, 1));
        }
        let mut engine = takt::load::engine(system).ok()?;
        let mut rates = Rates::new(case.copies.clone(), SECOND, length);
        takt_sim::simulate(&mut engine, &case.workload.scenario, length, &mut rates, |_| ());
        let totals = engine.totals();
        let fewest = rates.worst().skip(self.warm_up()).collect();
        Some(Run { released: totals.released, met: totals.met, fewest })
    }
}

// Draws of the same seed for other ends must not be the same numbers.
const COPIES: u64 = 0x434f_5049_4553;

fn range(copies: &Range<u32>) -> Range<usize> {
    copies.start as usize..copies.end as usize
}

pub(super) fn run(args: &Args) -> Outcome {
    let cases = Cases::new(args)?;
    if args.duration.ns() / SECOND.ns() <= cases.warm_up() as i64 {
        let message = format!("within {} there is no whole second in which all copies are at work", args.duration);
        return Err(Failure::input(Code::OutOfRange, message, "raise `--duration`"));
    }
    args.common.drawn(args.common.pictures().chain(&args.over_time).next().is_some())?;
    let written = args.common.pictures().chain(&args.over_time).chain(&args.runs);
    let read = [vec![args.file.clone()], args.common.states()].concat();
    let _outputs = ready(&read, written)?;
    let names = cases.names();
    let layout = args.common.layout(vec![cases.seeds(); cases.cases.len()], BLOCK)?;
    let (setup, files) = (cases.setup(), cases.files());
    let subject = Subject { command: COMMAND, setup, files, unit: "runs", questions: names.len(), layout };
    // The results hold each run.
    let singles = Singles { kept: false, wanted: false };
    let found =
        experiment::carry_out(&args.common, &subject, singles, |block, _| Ok((cases.run_block(block)?, Vec::new())))?;
    let Some(Results { points: found, .. }) = found else { return Ok(Verdict::Done) };
    let counts: Vec<u64> = found.iter().map(|(runs, _)| *runs).collect();
    let table = Table::new(&cases, found.into_iter().map(|(_, runs)| runs));
    if let Some(path) = &args.runs {
        files::write(path, table.single_runs())?;
    }
    table.draw(&subject.setup)?;
    if let Some(path) = &args.over_time {
        files::write(path, table.over_time())?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.common.json {
        let points: Vec<Value> = (0..table.runs.len()).map(|number| table.point(number)).collect();
        let ends = (counts.iter().copied().min().unwrap_or(0), counts.iter().copied().max().unwrap_or(0));
        let runs = runs_of(ends, counts.into_iter());
        writeln!(out, "{}", json!({"setup": subject.setup, "runs": runs, "points": points}))?;
    } else {
        out.write_all(table.csv().as_bytes())?;
    }
    out.flush()?;
    Ok(Verdict::Done)
}

/// A figure that is read from a run in some unit, and averaged over the seeds.
#[derive(Clone, Copy)]
struct Measure {
    name: &'static str,
    of: fn(&Run) -> Option<i128>,
    unit: i128,
}

/// The unit of means over the seconds of a run.
const BILLION: i128 = 1_000_000_000;
const WORST: Measure = Measure { name: "worst", of: |run| run.fewest.iter().min().map(|n| i128::from(*n)), unit: 1 };
const TYPICAL: Measure = Measure { name: "typical", of: typical, unit: BILLION };
const DSR: Measure = Measure { name: "dsr", of: satisfied, unit: WHOLE };
const MEASURES: [Measure; 3] = [WORST, TYPICAL, DSR];

/// The mean over the seconds.
fn typical(run: &Run) -> Option<i128> {
    let sum: i128 = run.fewest.iter().map(|n| i128::from(*n)).sum();
    let seconds = Some(run.fewest.len() as i128).filter(|seconds| *seconds > 0)?;
    Some((sum * BILLION + seconds / 2) / seconds)
}

/// The part of the jobs that met their deadline.
fn satisfied(run: &Run) -> Option<i128> {
    (run.released > 0).then(|| statistics::ratio(run.met.into(), run.released.into()))
}

/// All runs, by number of copies, policy and seed.
struct Table<'a> {
    cases: &'a Cases<'a>,
    names: Vec<String>,
    runs: Vec<Vec<Vec<Option<Run>>>>,
    /// By number of copies, the seed of each run.
    seeds: Vec<Vec<u64>>,
}

impl<'a> Table<'a> {
    fn new(cases: &'a Cases<'a>, found: impl Iterator<Item = Runs>) -> Table<'a> {
        let names = cases.names();
        let mut runs = vec![vec![Vec::new(); names.len()]; cases.cases.len()];
        let mut seeds = Vec::new();
        for (of_number, found) in runs.iter_mut().zip(found) {
            seeds.push(found.0.keys().map(|index| cases.args.seeds.0 + index).collect());
            for (policy, run) in found.0.into_values().flat_map(|runs| runs.into_iter().enumerate()) {
                of_number[policy].push(run);
            }
        }
        Table { cases, names, runs, seeds }
    }

    fn count(&self, number: usize) -> usize {
        self.cases.args.copies.first + number
    }

    fn proven(&self, number: usize, policy: usize) -> bool {
        self.cases.cases[number][policy].proven
    }

    fn mean(&self, number: usize, policy: usize, measure: Measure) -> Option<Mean> {
        mean(self.runs[number][policy].iter().flatten().filter_map(measure.of), measure.unit)
    }

    fn csv(&self) -> String {
        let columns = MEASURES.map(|Measure { name, .. }| format!("{name},{name}_ci95")).join(",");
        let mut text = format!("copies,policy,proven,runs,{columns}\n");
        for number in 0..self.runs.len() {
            for (policy, name) in self.names.iter().enumerate() {
                let runs = self.runs[number][policy].iter().flatten().count();
                let proven = if self.proven(number, policy) { "yes" } else { "no" };
                let mut row = vec![self.count(number).to_string(), quoted(name), proven.into(), runs.to_string()];
                row.extend(MEASURES.into_iter().flat_map(|m| cells(self.mean(number, policy, m))));
                writeln!(text, "{}", row.join(",")).expect("a string takes all");
            }
        }
        text
    }

    /// Every run as CSV. A policy that refuses so many copies has no run.
    fn single_runs(&self) -> String {
        let mut text = "copies,seed,policy,released,met,worst,typical\n".to_owned();
        let cell =
            |value: Option<f64>, digits: usize| value.map_or_else(String::new, |value| format!("{value:.digits$}"));
        for (number, seeds) in self.seeds.iter().enumerate() {
            for (index, seed) in seeds.iter().enumerate() {
                for (name, runs) in self.names.iter().zip(&self.runs[number]) {
                    let Some(run) = &runs[index] else { continue };
                    let of = |measure: Measure| (measure.of)(run).map(|value| value as f64 / measure.unit as f64);
                    let (worst, typical) = (cell(of(WORST), 0), cell(of(TYPICAL), 4));
                    let (count, name) = (self.count(number), quoted(name));
                    writeln!(text, "{count},{seed},{name},{},{},{worst},{typical}", run.released, run.met)
                        .expect("a string takes all");
                }
            }
        }
        text
    }

    fn point(&self, number: usize) -> Value {
        let policy = |policy: usize| {
            let mut object = json!({"policy": self.names[policy], "proven": self.proven(number, policy)});
            for measure in MEASURES {
                let mean = self.mean(number, policy, measure);
                object[measure.name] = json!({"mean": mean.map(|m| m.value), "ci95": mean.and_then(|m| m.half)});
            }
            let fewest = self.runs[number][policy].iter().map(|run| run.as_ref().map(|r| &r.fewest));
            object["fewest"] = json!(fewest.collect::<Vec<_>>());
            object
        };
        let policies: Vec<Value> = (0..self.names.len()).map(policy).collect();
        json!({"copies": self.count(number), "policies": policies})
    }

    /// The next multiple of five above all that is shown, in millionths.
    fn top(&self) -> u64 {
        let all = self.runs.iter().flatten().flatten().flatten().flat_map(|run| &run.fewest);
        u64::from(all.copied().max().unwrap_or(0) / 5 + 1) * 5_000_000
    }

    /// Gives the picture of these panels to `with`.
    fn picture<T>(&self, across: &str, points: &[u64], panels: &[Panel], with: impl FnOnce(&Picture<'_>) -> T) -> T {
        let args = self.cases.args;
        let file = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let system = &self.cases.cases[0][0].workload.system;
        let (cpus, late, Seeds(first, last)) = (system.cpus.len(), late_text(system.late), args.seeds);
        let seeds = if first == last { format!("seed {first}") } else { format!("seeds {first} to {last}") };
        let note = format!("{file}, CPUs: {cpus}, {seeds}, each {}; late jobs: {late}", args.duration);
        let usual = || format!("Jobs of the slowest {} per second", args.copies.name);
        let title = args.common.title.clone().unwrap_or_else(usual);
        let bars = "bars: 95 % confidence intervals of the means over the seeds";
        let (whole, size) = (true, args.common.size);
        with(&Picture { title: &title, note: &note, bars, across, points, panels, whole, size })
    }

    /// Draws the worst and the typical second over the number of copies.
    fn draw(&self, setup: &Value) -> Result<(), Failure> {
        let dot = |mean: Mean| Dot::around(millionths(mean.value), millionths(mean.half.unwrap_or(0.0)));
        let line = |policy, measure| (0..self.runs.len()).map(|n| self.mean(n, policy, measure).map(dot)).collect();
        let panel = |title: &str, measure: Measure| Panel {
            title: title.into(),
            unit: "jobs per second".into(),
            top: self.top(),
            lines: self.names.iter().enumerate().map(|(p, name)| (name.clone(), line(p, measure))).collect(),
        };
        let panels = [panel("in the worst second", WORST), panel("mean over the seconds", TYPICAL)];
        let text = |panel: usize, policy: usize, number: usize| {
            let runs = self.runs[number][policy].iter().flatten().count() as u64;
            let mean = self.mean(number, policy, [WORST, TYPICAL][panel]);
            described(mean, runs).unwrap_or_else(|| "refused".into())
        };
        let points: Vec<u64> = (0..self.runs.len()).map(|n| self.count(n) as u64 * 1_000_000).collect();
        let across = format!("copies of {}", self.cases.args.copies.name);
        self.picture(&across, &points, &panels, |picture| self.cases.args.common.draw(picture, setup, &text))
    }

    /// The fewest of each second, the mean over the seeds.
    fn over_time(&self) -> String {
        let first = self.cases.warm_up() + 1;
        let seconds = (self.cases.args.duration.ns() / SECOND.ns()) as usize - first + 1;
        let dot = |number: usize, policy: usize, second: usize| {
            let runs = self.runs[number][policy].iter().flatten();
            let mean = mean(runs.filter_map(|run| run.fewest.get(second)).map(|n| i128::from(*n)), 1)?;
            Some(Dot::around(millionths(mean.value), 0))
        };
        let panel = |number: usize| Panel {
            title: format!("{}: {}", self.cases.args.copies.name, self.count(number)),
            unit: "jobs per second".into(),
            top: self.top(),
            lines: (self.names.iter().enumerate())
                .map(|(policy, name)| (name.clone(), (0..seconds).map(|s| dot(number, policy, s)).collect()))
                .collect(),
        };
        let panels: Vec<Panel> = (0..self.runs.len()).map(panel).collect();
        let points: Vec<u64> = (first..first + seconds).map(|second| second as u64 * 1_000_000).collect();
        self.picture("end of the second (s)", &points, &panels, curves::svg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_copies_are_read() {
        let of = |first, last| Ok(Numbers { name: "a=b".into(), first, last });
        assert_eq!((numbers("a=b=3"), numbers("a=b=1..1000")), (of(3, 3), of(1, 1000)));
        for wrong in ["", "a", "a=", "a=0", "a=0..3", "a=3..1", "a=1..1001", "a=x", "a=1.."] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }
}
