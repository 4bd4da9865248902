//! `takt sweep schedulability`: the part of task sets that each test accepts, over the total utilisation.

use super::curves::{Dot, Panel, Picture};
use super::experiment::{self, Common, Singles};
use super::fingerprint::fingerprint;
use super::generate::{self, SetArgs};
use super::part::{Block, SETS_MOST};
use super::points::{Points, points, ratio};
use super::singles;
use super::state::{Found, Results, Subject};
use crate::failure::Failure;
use crate::files::{self, ready};
use crate::input::{Priorities, duration, placement, priorities_of_sets};
use crate::outcome::{Outcome, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use takt::sets;
use takt::verdicts::{self, Method, Said};
use takt_analysis::generate::Impossible;
use takt_analysis::priorities::Rule;
use takt_analysis::taskset::TaskSet;
use takt_analysis::tests::Verdict as Says;
use takt_core::cpus::MAX_CPUS;
use takt_core::model::{Placement, PolicySpec};
use takt_core::time::Span;
use takt_workload::{Code, Source};

/// The part of task sets that each test accepts, over the total utilisation
///
/// Without options this is figure 13 of AIRS (Kato, Rajkumar, Ishikawa, ECRTS 2010) in smaller steps: four CPUs, 1000 sets for
/// each point. Prints CSV: a row for each point, with the part of its sets that each test accepts. A simulated policy accepts a set in
/// which all deadlines are met; `necessary` counts the sets that it does not refuse. The same seed gives the same bytes, whatever
/// the number of threads.
///
/// With FILE, the sets are those of a CSV file. A set counts at the point nearest to its total utilisation; of two points as near, the
/// lower one. By default the points are the utilisations of the sets, rounded to tenths.
///
/// Every cell is a number, or empty where no verdict is known. If the verdict is unknown for some sets, a column `TEST_unknown` has their
/// part. The test then accepts at least the part of its own column. A test that applies to none of the sets is refused.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Task sets in CSV (`set_id,task_id,C_us,D_us,T_us`); without it, random ones
    #[arg(value_name = "FILE", conflicts_with_all = ["sets", "generator", "tasks", "periods", "grid", "deadlines"])]
    file: Option<PathBuf>,
    /// Number of CPUs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    cpus: u16,
    /// Total utilisations: `2.0..4.0:0.2`, or a list with commas. By default from half of the CPUs to all of them in ten steps, or
    /// those of FILE
    #[arg(long, value_name = "POINTS", value_parser = points)]
    points: Option<Points>,
    /// Number of sets for each point
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=SETS_MOST))]
    sets: u64,
    /// Tests by name, with commas between; `sim:POLICY` simulates a policy. By default a choice for so many CPUs
    #[arg(long, value_name = "NAMES")]
    test: Option<String>,
    /// How simulated policies place tasks on CPUs, as in `sim:p-edf`: ff, bf, wf, ffd, bfd or wfd; by default ffd
    #[arg(long, value_parser = placement)]
    placement: Option<Placement>,
    /// Simulated time, beginning with a release of all tasks together
    #[arg(long, value_parser = duration, default_value = "60s")]
    duration: Span,
    /// Rule that assigns priorities for simulated policies that rank by priority
    #[arg(long, value_enum, default_value_t = Priorities::Rm)]
    priorities: Priorities,
    /// Write a row for every set, with its utilisation, seed and verdicts: 1 accepted, 0 not, empty unknown
    #[arg(long, value_name = "OUT.csv", conflicts_with = "shard")]
    pub(super) runs: Option<PathBuf>,
    /// Keep the verdicts about each set, in a file beside `--state`, for `--runs` of a later call or of `takt sweep merge`
    #[arg(long)]
    keep_sets: bool,
    #[command(flatten)]
    kind: SetArgs,
    #[command(flatten)]
    pub(super) common: Common,
}

/// The name of the subcommand in a state.
pub(super) const COMMAND: &str = "schedulability";
/// Sets that one thread takes at a time.
const BLOCK: u64 = 20;
/// The verdicts about single sets are kept for so many of each point.
const SETS_KEPT: u64 = 100_000;
/// A tenth of a CPU, in millionths.
const TENTH: u64 = 100_000;

/// Verdicts of each test about a block.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Counts {
    /// Sets that it accepts.
    accepted: Vec<u64>,
    /// Sets for which its verdict is unknown.
    unknown: Vec<u64>,
    /// Sets among these that it is not made for.
    beyond: Vec<u64>,
    /// Sets for which no priorities were found, so that they have deadline-monotonic ones.
    fallback: Vec<u64>,
}

impl Found for Counts {
    fn zero(tests: usize) -> Counts {
        let zero = || vec![0; tests];
        Counts { accepted: zero(), unknown: zero(), beyond: zero(), fallback: zero() }
    }

    fn add(&mut self, other: &Counts) -> Option<()> {
        let lists = [&mut self.accepted, &mut self.unknown, &mut self.beyond, &mut self.fallback];
        for (sum, more) in lists.into_iter().zip([&other.accepted, &other.unknown, &other.beyond, &other.fallback]) {
            for (a, b) in sum.iter_mut().zip(more) {
                *a = a.checked_add(*b)?;
            }
        }
        Some(())
    }

    fn cells(&self) -> Vec<Value> {
        vec![json!(self.accepted), json!(self.unknown), json!(self.beyond), json!(self.fallback)]
    }

    fn read(cells: &[Value]) -> Option<Counts> {
        let list = |value: &Value| value.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
        let [accepted, unknown, beyond, fallback] = cells else { return None };
        let [accepted, unknown, beyond, fallback] = [list(accepted)?, list(unknown)?, list(beyond)?, list(fallback)?];
        Some(Counts { accepted, unknown, beyond, fallback })
    }

    fn is_sound(&self, sets: u64, questions: usize) -> bool {
        let lists = [&self.accepted, &self.unknown, &self.beyond, &self.fallback];
        lists.iter().all(|counts| counts.len() == questions)
            && self.accepted.iter().zip(&self.unknown).all(|(a, b)| a.checked_add(*b).is_some_and(|n| n <= sets))
            && self.fallback.iter().all(|n| *n <= sets)
            && self.beyond.iter().zip(&self.unknown).all(|(some, all)| some <= all)
    }
}

/// The default choice of tests, which all apply to the sets.
fn default_tests(cpus: usize, implicit: bool) -> &'static str {
    match cpus {
        1 if !implicit => "rm-rta,dm-rta,edf",
        1 => "ll,hyperbolic,rm-rta,dm-rta,edf",
        _ => "gfb,bcl,gedf_sim,wf,ff,ffd,wm_wf,wm_ff,wm_ffd,ceqd_ff,ceqd_ffd",
    }
}

/// The questions of the experiment.
struct Experiment<'a> {
    args: &'a Args,
    cpus: usize,
    points: Vec<u64>,
    methods: Vec<Method>,
    file: Option<Sets>,
    /// The number of sets of each point that have been asked about, once that is known.
    asked: Option<Vec<u64>>,
}

/// The task sets of a file.
struct Sets {
    source: Source,
    sets: Vec<TaskSet>,
    /// The `set_id` of each.
    ids: Vec<u64>,
    /// The numbers of the sets, by point.
    at: Vec<Vec<usize>>,
}

/// The utilisation in whole steps, to the nearest.
fn rounded(utilisation: u64, step: u64) -> u64 {
    (utilisation + step / 2) / step * step
}

impl Sets {
    /// Reads a text, and puts each set to its point. Returns the points as well.
    fn read(source: Source, points: Option<&Points>) -> Result<(Sets, Vec<u64>), Failure> {
        let sets = sets::of_source(&source)?;
        let (ids, sets): (Vec<u64>, Vec<TaskSet>) = sets.into_iter().map(|one| (one.id, one.set)).unzip();
        let utilisations: Vec<u64> = sets.iter().map(sets::utilisation).collect();
        let own = || {
            // No point is zero.
            let mut own: Vec<u64> = utilisations.iter().map(|u| rounded(*u, TENTH).max(TENTH)).collect();
            own.sort_unstable();
            own.dedup();
            own
        };
        let points = points.map_or_else(own, |points| points.0.clone());
        let mut at: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, utilisation) in utilisations.iter().enumerate() {
            let nearest = (0..points.len()).min_by_key(|point| points[*point].abs_diff(*utilisation));
            at.entry(nearest.unwrap_or(0)).or_default().push(number);
        }
        let at = (0..points.len()).map(|point| at.remove(&point).unwrap_or_default()).collect();
        Ok((Sets { source, sets, ids, at }, points))
    }
}

impl Experiment<'_> {
    /// How many sets a point has.
    fn sets(&self, point: usize) -> u64 {
        if let Some(asked) = &self.asked {
            return asked[point];
        }
        self.file.as_ref().map_or(self.args.sets, |file| file.at[point].len() as u64)
    }

    /// How many there are at all points.
    fn all(&self) -> u64 {
        (0..self.points.len()).map(|point| self.sets(point)).sum()
    }

    /// A set of a point, and its number for random priorities.
    fn set(&self, point: usize, index: u64) -> Result<(TaskSet, u64), Impossible> {
        if let Some(file) = &self.file {
            let number = file.at[point][index as usize];
            return Ok((file.sets[number].clone(), number as u64));
        }
        let tasks = self.args.kind.draw(self.points[point], index)?;
        let set = TaskSet::new(tasks, Span::from_us(1)).map_err(|_| Impossible::Periods)?;
        Ok((set, index))
    }

    /// All that the result depends on, but for the number of sets: more of them continue a smaller experiment.
    fn setup(&self) -> Value {
        let mut setup = match &self.file {
            Some(file) => {
                let Source { name, text } = &file.source;
                json!({"file": name, "fingerprint": fingerprint(text), "seed": self.args.kind.seed})
            }
            None => self.args.kind.json(),
        };
        setup["cpus"] = json!(self.cpus);
        setup["points"] = self.points.iter().map(|p| ratio(*p)).collect();
        setup["tests"] = self.methods.iter().map(Method::name).collect();
        setup["priorities"] = json!(self.rule());
        // Only where it matters, so that the states of other experiments stay valid.
        let placement = self.methods.iter().find_map(Method::placement);
        if let Some((name, _)) = Placement::ALL.iter().find(|(_, rule)| Some(*rule) == placement) {
            setup["placement"] = json!(name);
        }
        setup["simulated_ns"] = json!(self.args.duration.ns());
        setup
    }

    /// The verdicts of the tests about a block of sets, and the rows of these if they are kept.
    fn ask(&self, (point, first, sets): Block, keeps: bool) -> Result<(Counts, Vec<String>), Impossible> {
        let mut counts = Counts::zero(self.methods.len());
        let mut rows = Vec::new();
        for index in first..first + sets {
            let (set, number) = self.set(point, index)?;
            let mut cells = String::new();
            for (test, method) in self.methods.iter().enumerate() {
                let said = self.said(method, &set, number);
                counts.fallback[test] += u64::from(said.priorities.is_some_and(|assigned| assigned.fallback));
                counts.beyond[test] += u64::from(!said.applies());
                match said.verdict {
                    Says::Schedulable => counts.accepted[test] += 1,
                    Says::Unknown => counts.unknown[test] += 1,
                    Says::Unschedulable | Says::NotShown => {}
                }
                cells += match said.verdict {
                    Says::Schedulable => ",1",
                    Says::Unknown if said.applies() && method.only_refuses() => ",1",
                    Says::Unknown => ",",
                    Says::Unschedulable | Says::NotShown => ",0",
                };
            }
            if keeps {
                let id = self.file.as_ref().map_or(index, |file| file.ids[number as usize]);
                let (point, utilisation) = (ratio(self.points[point]), ratio(sets::utilisation(&set)));
                rows.push(format!(
                    "{point},{id}{},{utilisation}{cells}\n",
                    self.seed(&self.args.kind.seed.to_string())
                ));
            }
        }
        Ok((counts, rows))
    }

    /// A cell of the seed. The sets of a file have none.
    fn seed(&self, cell: &str) -> String {
        if self.file.is_some() { String::new() } else { format!(",{cell}") }
    }

    /// The title of the rows of single sets.
    fn title(&self) -> String {
        let names: Vec<&str> = self.methods.iter().map(Method::name).collect();
        format!("point,set{},utilisation,{}", self.seed("seed"), names.join(","))
    }

    fn said(&self, method: &Method, set: &TaskSet, index: u64) -> Said {
        let tasks = || set.tasks.iter().map(|t| generate::described(t, set)).collect();
        let priorities = Some((self.args.priorities.into(), self.args.kind.seed, index));
        method.decide(set, self.cpus, || verdicts::machine(self.cpus, tasks()), priorities, self.args.duration)
    }

    /// The simulated policies, each with the place of its test.
    fn policies(&self) -> impl Iterator<Item = (usize, &Method, &PolicySpec)> {
        self.methods.iter().enumerate().filter_map(|(test, m)| Some((test, m, m.policy()?)))
    }

    /// The rule by which tasks have priorities, if a simulated policy ranks by them.
    fn rule(&self) -> Option<&'static str> {
        let any = self.policies().any(|(.., policy)| policy.ranks_by_priority());
        any.then(|| Rule::from(self.args.priorities).name())
    }

    /// Lists the notes about unknown verdicts, assigned priorities and grids of quanta.
    fn notes(&self, sums: &[Counts]) -> Vec<String> {
        let all = self.all();
        let total = |of: fn(&Counts) -> &Vec<u64>, test: usize| sums.iter().map(|sum| of(sum)[test]).sum::<u64>();
        let mut notes: Vec<String> = Vec::new();
        for (test, method) in self.methods.iter().enumerate() {
            let unknown = total(|c| &c.unknown, test);
            if unknown > 0 {
                notes.push(format!("the verdict of {} is unknown for {unknown} of {all} sets", method.name()));
            }
        }
        for (test, method, policy) in self.policies() {
            if policy.ranks_by_priority() {
                notes.push(priorities_of_sets(method.name(), self.args.priorities, total(|c| &c.fallback, test), all));
            }
            notes.extend(match &self.file {
                Some(file) => file.sets.iter().find_map(|set| {
                    let tasks: Vec<_> = set.tasks.iter().map(|t| generate::described(t, set)).collect();
                    verdicts::grid_note_of(method.name(), policy, &tasks)
                }),
                None => self.args.kind.grid_note(method.name(), policy),
            });
        }
        notes
    }

    /// Refuses a test that applies to none of the sets: nothing would be counted.
    fn applicable(&self, sums: &[Counts]) -> Result<(), Failure> {
        let all = self.all();
        for (test, method) in self.methods.iter().enumerate() {
            if all > 0 && sums.iter().map(|sum| sum.beyond[test]).sum::<u64>() == all {
                let first = (0..self.points.len()).find(|point| self.sets(*point) > 0);
                let set = first.and_then(|point| self.set(point, 0).ok());
                let why =
                    set.map(|(set, number)| self.said(method, &set, number).why(&set, &|task| format!("task {task}")));
                return Err(method.refused(&why.unwrap_or_default()).into());
            }
        }
        Ok(())
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let cpus = usize::from(args.cpus);
    let all = |cpus: u64| (0..=10).map(|step| cpus * 500_000 + step * cpus * 50_000).collect();
    let (file, points) = match &args.file {
        Some(file) => {
            let (sets, points) = Sets::read(args.common.source(file)?, args.points.as_ref())?;
            (Some(sets), points)
        }
        None => (None, args.points.clone().map_or_else(|| all(cpus as u64), |p| p.0)),
    };
    let implicit = file.as_ref().map_or(args.kind.is_implicit(), |file| file.sets.iter().all(TaskSet::is_implicit));
    let tests = args.test.as_deref().unwrap_or(default_tests(cpus, implicit));
    let methods = verdicts::methods(tests, cpus, args.placement)?;
    methods.iter().find_map(|m| m.beyond(cpus).map(|why| m.refused(why))).map_or(Ok(()), Err)?;
    let experiment = Experiment { args, cpus, points, methods, file, asked: None };
    args.common.drawn(args.common.pictures().next().is_some())?;
    args.common.kept(args.keep_sets, "sets")?;
    let most = (0..experiment.points.len()).map(|point| experiment.sets(point)).max().unwrap_or(0);
    if (args.runs.is_some() || args.keep_sets) && most > SETS_KEPT {
        let message =
            format!("{most} sets at a point are more than {SETS_KEPT}, for which verdicts about single sets are kept");
        return Err(Failure::input(Code::OutOfRange, message, "take fewer, or leave out `--runs` and `--keep-sets`"));
    }
    let _outputs = ready(args.file.iter().chain(&args.common.states()), args.common.pictures().chain(&args.runs))?;
    // Sets that cannot be drawn or simulated are reported before the work.
    for point in experiment.points.iter().filter(|_| args.file.is_none()) {
        args.kind.draw(*point, 0).map_err(generate::impossible)?;
    }
    let sets: Vec<u64> = (0..experiment.points.len()).map(|point| experiment.sets(point)).collect();
    let subject = Subject {
        command: COMMAND,
        setup: experiment.setup(),
        files: experiment.file.iter().map(|file| file.source.clone()).collect(),
        unit: "sets",
        questions: experiment.methods.len(),
        layout: args.common.layout(sets, BLOCK)?,
    };
    let singles = Singles { kept: args.keep_sets, wanted: args.runs.is_some() };
    let found = experiment::carry_out(&args.common, &subject, singles, |block, keeps| {
        experiment.ask(block, keeps).map_err(generate::impossible)
    })?;
    let Some(Results { points, rows }) = found else { return Ok(Verdict::Done) };
    let (asked, sums): (Vec<u64>, Vec<Counts>) = points.into_iter().unzip();
    let experiment = Experiment { asked: Some(asked), ..experiment };
    experiment.applicable(&sums)?;
    if let Some(path) = &args.runs {
        files::write(path, singles::csv(&experiment.title(), &rows))?;
    }
    report(&experiment, &counted(&experiment, sums), &subject.setup)
}

/// Counts the sets that a test accepts. For a test that accepts none, counts the sets that it does not refuse.
fn counted(experiment: &Experiment<'_>, mut sums: Vec<Counts>) -> Vec<Counts> {
    for (test, method) in experiment.methods.iter().enumerate() {
        if method.only_refuses() {
            for sum in &mut sums {
                sum.accepted[test] += sum.unknown[test] - sum.beyond[test];
                sum.unknown[test] = sum.beyond[test];
            }
        }
    }
    sums
}

/// A part of the sets with four decimals, rounded to the nearest.
fn part(count: u64, sets: u64) -> String {
    let parts = (count * 20_000 / sets).div_ceil(2);
    format!("{}.{:04}", parts / 10_000, parts % 10_000)
}

fn report(experiment: &Experiment<'_>, sums: &[Counts], setup: &Value) -> Outcome {
    let args = experiment.args;
    let names = || experiment.methods.iter().map(Method::name);
    let unknown = |test: usize| sums.iter().map(|sum| sum.unknown[test]).sum::<u64>();
    let doubtful: Vec<usize> = (0..experiment.methods.len()).filter(|test| unknown(*test) > 0).collect();
    let notes = experiment.notes(sums);
    draw(experiment, sums, &notes, setup)?;
    let mut out = BufWriter::new(io::stdout().lock());
    if args.common.json {
        let point = |(index, (point, sum)): (usize, (&u64, &Counts))| {
            let sets = experiment.sets(index);
            let tests = experiment.methods.iter().enumerate().map(|(t, method)| {
                let (accepted, unknown) = (sum.accepted[t], sum.unknown[t]);
                let counts = if method.only_refuses() { "not refused" } else { "accepted" };
                let ratio = |n: u64| (sets > 0).then(|| n as f64 / sets as f64);
                json!({"test": method.name(), "accepted": accepted, "unknown": unknown, "counts": counts,
                       "ratio": ratio(accepted).filter(|_| unknown == 0),
                       "ratio_at_least": ratio(accepted), "ratio_at_most": ratio(accepted + unknown)})
            });
            json!({"utilisation": ratio(*point), "sets": sets, "tests": tests.collect::<Vec<_>>()})
        };
        let points: Vec<Value> = experiment.points.iter().zip(sums).enumerate().map(point).collect();
        writeln!(out, "{}", json!({"setup": setup, "notes": notes, "points": points}))?;
    } else {
        let unknown = doubtful.iter().map(|&test| format!("{}_unknown", experiment.methods[test].name()));
        writeln!(out, "utilisation,sets,{}", names().map(String::from).chain(unknown).collect::<Vec<_>>().join(","))?;
        for (index, (point, sum)) in experiment.points.iter().zip(sums).enumerate() {
            let sets = experiment.sets(index);
            write!(out, "{},{sets}", ratio(*point))?;
            let cell = |count: u64| if sets > 0 { part(count, sets) } else { String::new() };
            for (accepted, unknown) in sum.accepted.iter().zip(&sum.unknown) {
                write!(out, ",{}", if *unknown < sets { cell(*accepted) } else { String::new() })?;
            }
            for &test in &doubtful {
                write!(out, ",{}", cell(sum.unknown[test]))?;
            }
            writeln!(out)?;
        }
    }
    out.flush()?;
    for note in notes {
        // The result stands without it.
        let _ = writeln!(io::stderr(), "note: {note}");
    }
    Ok(Verdict::Done)
}

/// The ends of a 95 % confidence interval of a part, in millionths (Wilson, "Probable Inference, the Law of Succession, and Statistical
/// Inference", JASA 22, 1927).
fn interval(count: u64, sets: u64) -> (u64, u64) {
    const Z: f64 = 1.959_964;
    let (n, p) = (sets as f64, count as f64 / sets as f64);
    let centre = p + Z * Z / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let end = |value: f64| (value / (1.0 + Z * Z / n) * 1e6).clamp(0.0, 1e6).round() as u64;
    // Rounding must not put the part outside.
    let part = count * 1_000_000 / sets;
    (end(centre - half).min(part), end(centre + half).max(part))
}

/// Draws the curves. A bar goes from the part that is accepted to the part that may be, and a point without a verdict has no dot. For random sets,
/// both ends are those of confidence intervals.
fn draw(experiment: &Experiment<'_>, sums: &[Counts], notes: &[String], setup: &Value) -> Result<(), Failure> {
    let args = experiment.args;
    let dot = |point: usize, test: usize| {
        let (accepted, above) = (sums[point].accepted[test], sums[point].unknown[test]);
        let sets = experiment.sets(point);
        let part = |count: u64| count * 1_000_000 / sets;
        (above < sets).then(|| {
            let (least, most) = match experiment.file {
                Some(_) => (part(accepted), part(accepted + above)),
                None => (interval(accepted, sets).0, interval(accepted + above, sets).1),
            };
            let value = part(accepted);
            Dot { value, below: value - least, above: most - value }
        })
    };
    let dots = |test: usize| (0..sums.len()).map(|point| dot(point, test)).collect();
    let name = |m: &Method| if m.only_refuses() { format!("{}: not refused", m.name()) } else { m.name().to_owned() };
    let lines: Vec<(String, Vec<Option<Dot>>)> =
        experiment.methods.iter().enumerate().map(|(test, m)| (name(m), dots(test))).collect();
    let cpus = experiment.cpus;
    let of_each = (0..experiment.points.len()).map(|point| experiment.sets(point));
    let (least, most) = (of_each.clone().min().unwrap_or(0), of_each.max().unwrap_or(0));
    let each = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let mut note = match &experiment.file {
        Some(_) => {
            let name = args.file.as_ref().and_then(|file| file.file_name()).unwrap_or_default().to_string_lossy();
            format!("task sets of {name}: {}, {each} per point, CPUs: {cpus}", experiment.all())
        }
        None => format!("random task sets: {}; CPUs: {cpus}, {each} sets per point", args.kind.text()),
    };
    if experiment.policies().next().is_some() {
        note += &format!(", simulated for {}", args.duration);
    }
    for line in notes {
        note.push('\n');
        note.push_str(line);
    }
    let title = args.common.title.as_deref().unwrap_or("Task sets accepted");
    let (unit, across) = ("part of the sets", "total utilisation (CPUs)");
    let panels = [Panel { title: String::new(), unit: unit.into(), top: 1_000_000, lines }];
    let doubtful = sums.iter().any(|sum| sum.unknown.iter().any(|count| *count > 0));
    let bars = match (&experiment.file, doubtful) {
        (Some(_), _) => "bars: up to the sets accepted if all unknown verdicts were yes",
        (None, false) => "bars: 95 % confidence intervals (Wilson)",
        (None, true) => "bars: 95 % confidence intervals (Wilson), up to that of all unknown verdicts as yes",
    };
    let (points, whole, size) = (&experiment.points, false, args.common.size);
    let picture = Picture { title, note: &note, bars, across, points, panels: &panels, whole, size };
    let text = |_, test: usize, point: usize| {
        let (accepted, above) = (sums[point].accepted[test], sums[point].unknown[test]);
        let (sets, unknown) =
            (experiment.sets(point), if above > 0 { format!(", {above} unknown") } else { String::new() });
        match dot(point, test) {
            None => format!("no verdict, {sets} sets"),
            Some(Dot { value, below, above }) => {
                let shown = |value: u64| part(value, 1_000_000);
                let (least, most) = (shown(value - below), shown(value + above));
                let bar = if below + above > 0 { format!(" ({least} to {most})") } else { String::new() };
                format!("{}{bar}, {accepted} of {sets} sets{unknown}", part(accepted, sets))
            }
        }
    };
    args.common.draw(&picture, setup, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_wilson() {
        // By hand: n = 10, p = 1/2: (0.5 + 0.19207) / 1.38415 ± 1.96 · sqrt(0.025 + 0.009604) / 1.38415.
        assert_eq!(interval(5, 10), (236_593, 763_407));
        assert_eq!(interval(0, 10).0, 0);
        assert_eq!(interval(10, 10), (722_467, 1_000_000));
        for (count, sets) in [(0, 1), (1, 1), (1, 3), (333, 1000), (999_999, 1_000_000)] {
            let (least, most) = interval(count, sets);
            let part = count * 1_000_000 / sets;
            assert!(least <= part && part <= most && most <= 1_000_000, "{count} of {sets}");
        }
    }

    /// Exact sums over the binomial distribution. The table is in docs/analysis.md.
    #[test]
    fn intervals_of_ratios_have_the_true_one_in_95_of_100_experiments() {
        let covered = |sets: u64, ratio: f64| -> f64 {
            // The probability of `count` successes follows from that of one fewer.
            let mut probability = (1.0 - ratio).powi(sets as i32);
            let mut sum = 0.0;
            for count in 0..=sets {
                let (least, most) = interval(count, sets);
                let is_within = (least as f64..=most as f64).contains(&(ratio * 1e6));
                sum += if is_within { probability } else { 0.0 };
                probability *= (sets - count) as f64 / (count + 1) as f64 * ratio / (1.0 - ratio);
            }
            sum
        };
        for sets in [40, 100, 400] {
            let ratios = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5].map(|ratio| covered(sets, ratio));
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            assert!((0.94..=0.96).contains(&mean), "{sets} sets: {mean}, {ratios:?}");
            assert!(ratios.iter().all(|share| (0.91..=0.99).contains(share)), "{sets} sets: {ratios:?}");
        }
    }

    #[test]
    fn utilisations_are_rounded_to_the_nearest() {
        let tenths = [49_999, 50_000, 149_999, 150_000].map(|utilisation| rounded(utilisation, TENTH));
        assert_eq!(tenths, [0, 100_000, 100_000, 200_000]);
    }
}
