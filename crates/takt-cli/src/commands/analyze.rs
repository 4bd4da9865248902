//! `takt analyze`: schedulability tests, one verdict per task set and test.

use super::sets::{self, EVERY, unsuitable};
use super::verdicts::{self, Method, Said};
use crate::failure::Failure;
use crate::input::{Input, Priorities, duration, placement, priorities_of_sets, warn, without_kernel};
use crate::outcome::{Outcome, Verdict};
use crate::parallel;
use crate::progress::Progress;
use crate::report::assignment::{self, Piece, Placed};
use crate::report::{aligned, lateness};
use serde_json::{Value, json};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use takt_analysis::taskset::{Task, TaskSet};
use takt_analysis::tests::edf;
use takt_analysis::tests::{Growth, TESTS, Verdict as Says, fixed_priority};
use takt_analysis::utilisation::Utilisation;
use takt_analysis::{assign, tardiness};
use takt_core::cpus::MAX_CPUS;
use takt_core::model::{Placement, System};
use takt_core::time::Span;
use takt_workload::Code;

/// Schedulability tests, one verdict per task set and test
///
/// Task sets in CSV give CSV. A cell is `1` for schedulable, or `unknown`. It is `0` if a test shows a miss, or if a sufficient test is inconclusive.
/// A test that applies to no set is refused. A workload in YAML, or one set with `--table`, gives a table with the kind of each test and the
/// reason of each verdict. Status 1: there is one set, no test accepts it, and one shows that it misses a deadline.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Task sets in CSV (`set_id,task_id,C_us,D_us,T_us`), or a workload in YAML
    #[arg(required_unless_present = "list")]
    file: Option<PathBuf>,
    /// List the tests. Exact tests are exact for tasks that can be released together (see `kind` in the table of one set)
    #[arg(long, exclusive = true)]
    list: bool,
    /// Number of CPUs; by default one, or as many as the workload names
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_CPUS as i64))]
    cpus: Option<u16>,
    /// Tests by name, with commas between; `sim:POLICY` simulates a policy, `all` is every test for so many CPUs
    #[arg(long, value_name = "NAMES", default_value = "all")]
    test: String,
    /// How simulated policies place tasks on CPUs, as in `sim:p-edf`: ff, bf, wf, ffd, bfd or wfd; by default ffd
    #[arg(long, value_parser = placement)]
    placement: Option<Placement>,
    /// Simulated time, beginning with a release of all tasks together
    #[arg(long, value_parser = duration, default_value = "60s")]
    duration: Span,
    /// Rule that assigns priorities to tasks in CSV, for simulated policies that rank by priority; by default rm
    #[arg(long, value_enum)]
    priorities: Option<Priorities>,
    /// Seed of random priorities, and of the random values of a workload; by default 0, or that of the workload
    #[arg(long)]
    seed: Option<u64>,
    /// Largest factor for all runtimes that a test still accepts, exact for `edf`, `rm-rta` and `dm-rta` on one CPU. If the search
    /// would take too long, bounds are printed (in CSV `>=` and the lower one)
    #[arg(long)]
    sensitivity: bool,
    /// Bound of the tardiness under global EDF with deadlines at the ends of the periods, as a column of CSV. On several CPUs tables and
    /// JSON always have it
    #[arg(long)]
    tardiness: bool,
    /// The CPU of each task, and the pieces of split tasks, by each test that assigns tasks to CPUs. For one set JSON always has it,
    /// and a table has it if a task is split
    #[arg(long)]
    assignment: bool,
    /// Print a table of one set
    #[arg(long, conflicts_with = "json")]
    table: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One set with what is said about it.
struct Answered {
    id: u64,
    set: TaskSet,
    names: Vec<String>,
    said: Vec<Said>,
    /// With `--sensitivity`: for each test the factor, or why there is none.
    growth: Vec<Result<Growth, &'static str>>,
    /// For each test that places tasks where they are, if all have a place; for others nothing.
    placed: Vec<Option<Vec<Placed>>>,
    /// How late jobs can be under global EDF, or why that is not known.
    late: Result<Vec<Span>, &'static str>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Some(file) = args.file.as_deref() else { return list() };
    let is_csv = sets::is_csv(file);
    let (sets, cpus) = if is_csv { from_csv(args, file)? } else { from_yaml(args, file)? };
    let methods = verdicts::methods(&args.test, cpus, args.placement)?;
    let as_csv = is_csv && !args.table && !args.json;
    if args.assignment && as_csv {
        return Err(Failure::input(
            Code::ConflictingOptions,
            "CSV has no room for assignments",
            "add `--json`, or for one set `--table`",
        ));
    }
    if args.sensitivity && !methods.iter().any(grows) {
        let _ = writeln!(io::stderr(), "note: only edf, rm-rta and dm-rta say how far runtimes may grow");
    }
    let places = args.assignment || sets.len() == 1 && !as_csv;
    let progress = Progress::of(sets.len() as u64, "sets");
    let answer = |index: usize| {
        let (id, names, set, system) = &sets[index];
        // The sets of a file are numbered as those of `takt sweep generate`, so that they get the same priorities as in a sweep.
        let priorities = is_csv.then(|| (args.priorities.unwrap_or_default(), args.seed.unwrap_or(0), index as u64));
        let said = methods.iter().map(|m| m.ask(set, cpus, || system.clone(), priorities, args.duration)).collect();
        let growth = if args.sensitivity { methods.iter().map(|m| growth(m, set, cpus)).collect() } else { Vec::new() };
        let place = |m: &Method| placed(m, set, names, cpus).filter(|_| places);
        let placed = methods.iter().map(place).collect();
        let (set, names, late) = (set.clone(), names.clone(), tardiness::of_set(set, cpus));
        Answered { id: *id, set, names, said, growth, placed, late }
    };
    let answered = parallel::map(sets.len(), parallel::threads(), answer, |_, _| progress.inc(1));
    progress.finish();
    if is_csv {
        without_verdict(&answered, &methods, as_csv)?;
    }
    let notes = notes(&answered, &methods, &sets, args, is_csv);
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        let mut object = json(&answered, &methods, cpus, args.sensitivity);
        object["notes"] = json!(notes);
        writeln!(out, "{object}")?;
    } else if as_csv {
        csv(&answered, &methods, args, &mut out)?;
        for note in notes {
            // The verdicts stand without it.
            let _ = writeln!(io::stderr(), "note: {note}");
        }
    } else if let [one] = &answered[..] {
        table(one, &methods, cpus, args, &file.display().to_string(), &mut out)?;
        for (index, note) in notes.iter().enumerate() {
            writeln!(out, "{}note: {note}", if index == 0 { "\n" } else { "" })?;
        }
    } else {
        let message = format!("`{}` holds {} task sets, and a table shows one", file.display(), answered.len());
        return Err(Failure::input(Code::NotSupportedHere, message, "leave `--table` out, or keep one of the sets"));
    }
    out.flush()?;
    let no = match &answered[..] {
        [one] => {
            let says = |verdict| one.said.iter().any(|s| s.verdict == verdict);
            says(Says::Unschedulable) && !says(Says::Schedulable)
        }
        _ => false,
    };
    Ok(if no { Verdict::No } else { Verdict::Done })
}

/// Lists the notes about simulated policies: assigned priorities and grids of quanta.
fn notes(answered: &[Answered], methods: &[Method], sets: &[Set], args: &Args, is_csv: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for (test, method) in methods.iter().enumerate() {
        let Some(policy) = method.policy() else { continue };
        if is_csv && policy.ranks_by_priority() {
            let fallback = |one: &&Answered| one.said[test].priorities.is_some_and(|assigned| assigned.fallback);
            let (fallback, all) = (answered.iter().filter(fallback).count() as u64, answered.len() as u64);
            notes.push(priorities_of_sets(method.name(), args.priorities.unwrap_or_default(), fallback, all));
        }
        notes.extend(sets.iter().find_map(|(.., system)| verdicts::grid_note_of(method.name(), policy, &system.tasks)));
    }
    notes
}

/// Reports tests that apply to none of the sets. In CSV alone these look like searches that take too long.
///
/// # Errors
/// Fails if none of the tests applies to any set.
fn without_verdict(answered: &[Answered], methods: &[Method], as_csv: bool) -> Result<(), Failure> {
    let none = |test: &usize| answered.iter().all(|one| !one.said[*test].applies());
    let silent: Vec<usize> = (0..methods.len()).filter(none).collect();
    let Some(one) = answered.first() else { return Ok(()) };
    let why = |test: usize| one.said[test].why(&one.set, &|task| one.names[task].clone());
    if let [first, ..] = silent[..]
        && silent.len() == methods.len()
    {
        return Err(methods[first].refused(&why(first)));
    }
    for test in silent.into_iter().filter(|_| as_csv) {
        let name = methods[test].name();
        let _ = writeln!(io::stderr(), "note: {name} applies to none of the task sets: {}", why(test));
    }
    Ok(())
}

/// The tests, one a line.
fn list() -> Outcome {
    let mut rows = vec![["name", "CPUs", "kind", "about", "source"].map(String::from).to_vec()];
    for test in TESTS {
        let cpus = if test.one_cpu { "1" } else { "any" };
        let source = if test.paper.is_empty() { "-" } else { test.paper };
        rows.push([test.name, cpus, &test.kind.to_string(), test.title, source].map(String::from).to_vec());
    }
    let simulated = "a policy, simulated from a common release on";
    rows.push(["sim:POLICY", "any", "necessary", simulated, "-"].map(String::from).to_vec());
    rows.push(["gedf_sim", "any", "necessary", "the same as sim:g-edf", "-"].map(String::from).to_vec());
    let mut out = BufWriter::new(io::stdout().lock());
    aligned(&mut out, &rows, |_| true)?;
    writeln!(
        out,
        "\nexact: for tasks that can be released together; where first releases keep them apart, sufficient"
    )?;
    out.flush()?;
    Ok(Verdict::Done)
}

type Set = (u64, Vec<String>, TaskSet, System);

fn from_csv(args: &Args, file: &Path) -> Result<(Vec<Set>, usize), Failure> {
    let cpus = args.cpus.map_or(1, usize::from);
    let (_, sets) = sets::read(file)?;
    let ready = |one: sets::Set| (one.id, one.names, one.set, verdicts::machine(cpus, one.tasks));
    Ok((sets.into_iter().map(ready).collect(), cpus))
}

fn from_yaml(args: &Args, file: &Path) -> Result<(Vec<Set>, usize), Failure> {
    let input = Input {
        file: file.to_path_buf(),
        policy: None,
        placement: None,
        cpus: args.cpus,
        priorities: args.priorities,
        seed: args.seed,
        ..Input::default()
    };
    let workload = input.load_quietly(None)?;
    without_kernel(&workload, "the tests know the tasks of the policy alone", "takt check")?;
    warn(&workload.source, &workload.warnings);
    if !workload.system.windows.is_empty() {
        let message = format!("`{}` is a window table, and these tests are for online policies", workload.source.name);
        return Err(Failure::input(
            Code::NotApplicable,
            message,
            "`takt check` says whether the budgets fit their windows",
        ));
    }
    let names: Vec<String> = workload.tasks.iter().map(|t| t.name.clone()).collect();
    let set = TaskSet::from_system(&workload.system).map_err(|why| {
        let (task, why) = unsuitable(why, &names);
        Failure::at(Code::NotApplicable, &workload, task, why, EVERY)
    })?;
    let cpus = workload.system.cpus.len();
    Ok((vec![(0, names, set, workload.system)], cpus))
}

/// By what factor every runtime may grow; an error says why the test does not know.
fn growth(method: &Method, set: &TaskSet, cpus: usize) -> Result<Growth, &'static str> {
    if cpus > 1 {
        return Err("the test is about one CPU");
    }
    if let Some(why) = set.beyond {
        return Err(why);
    }
    let by = |key: fn(&Task) -> u64| match set.is_constrained() {
        true => fixed_priority::growth(&set.tasks, &set.priorities(key)).ok_or("there are no tasks"),
        false => Err("a deadline is beyond the period"),
    };
    match method.name() {
        "edf" => edf::growth(&set.tasks).ok_or("there are no tasks"),
        "rm-rta" => by(|t| t.period),
        "dm-rta" => by(|t| t.deadline),
        _ => Err("the test does not say it"),
    }
}

/// Where a test has placed the tasks; `None` for a test that places none, or not all of them.
fn placed(method: &Method, set: &TaskSet, names: &[String], cpus: usize) -> Option<Vec<Placed>> {
    let Method::Test(test) = method else { return None };
    let strategy = test.strategy().filter(|_| set.beyond.is_none())?;
    let assign::Placed::All(assignment) = assign::assign(&set.tasks, cpus, strategy) else { return None };
    let mut placed: Vec<Placed> = names
        .iter()
        .zip(&set.tasks)
        .map(|(name, t)| Placed {
            task: name.clone(),
            period: Some(set.span(t.period)),
            fits: true,
            pieces: Vec::new(),
        })
        .collect();
    for (cpu, pieces) in assignment.cpus.iter().enumerate() {
        for p in pieces {
            let (from, to) = (set.span(p.offset), set.span(p.offset + p.load.deadline));
            let piece = Piece { cpu, budget: Some(set.span(p.load.runtime)), from, to: Some(to) };
            placed[p.task].pieces.push(piece);
        }
    }
    placed.iter_mut().for_each(|p| p.pieces.sort_by_key(|piece| piece.from));
    Some(placed)
}

fn grows(method: &Method) -> bool {
    matches!(method.name(), "edf" | "rm-rta" | "dm-rta")
}

/// A fraction with six decimals, rounded down: that much growth is safe.
fn decimal((p, q): (u128, u128)) -> String {
    match p.checked_mul(1_000_000) {
        Some(scaled) => format!("{}.{:06}", scaled / q / 1_000_000, scaled / q % 1_000_000),
        None => format!("{}", p / q),
    }
}

/// A fraction with six decimals, rounded up: more growth is not safe.
fn decimal_above((p, q): (u128, u128)) -> String {
    match p.checked_mul(1_000_000) {
        Some(scaled) => decimal((scaled.div_ceil(q), 1_000_000)),
        None => format!("{}", p.div_ceil(q)),
    }
}

/// The factor with six decimals; of two bounds the lower one, marked as such.
fn growth_cell(growth: &Growth) -> String {
    let mark = if growth.factor().is_some() { "" } else { ">=" };
    format!("{mark}{}", decimal(growth.at_least))
}

fn csv(answered: &[Answered], methods: &[Method], args: &Args, out: &mut impl Write) -> io::Result<()> {
    let sensitivity = args.sensitivity;
    write!(out, "set_id")?;
    for method in methods {
        write!(out, ",{}", method.name())?;
    }
    for method in methods.iter().filter(|m| sensitivity && grows(m)) {
        write!(out, ",{}_growth", method.name())?;
    }
    if args.tardiness {
        write!(out, ",gedf_tardiness_ns")?;
    }
    writeln!(out)?;
    for one in answered {
        write!(out, "{}", one.id)?;
        for said in &one.said {
            write!(out, ",{}", said.verdict.cell())?;
        }
        for (_, growth) in methods.iter().zip(&one.growth).filter(|(m, _)| grows(m)) {
            write!(out, ",{}", growth.as_ref().map_or("unknown".into(), growth_cell))?;
        }
        if args.tardiness {
            write!(out, ",{}", latest(one).map_or("unknown".into(), |late| late.ns().to_string()))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The largest of the tardiness bounds of a set.
fn latest(one: &Answered) -> Option<Span> {
    one.late.as_ref().ok().and_then(|late| late.iter().copied().max())
}

fn load(set: &TaskSet) -> Utilisation {
    let mut load = Utilisation::default();
    set.tasks.iter().for_each(|t| load.add(t.runtime, t.period));
    load
}

fn json(answered: &[Answered], methods: &[Method], cpus: usize, sensitivity: bool) -> Value {
    let set = |one: &Answered| {
        let name = |task: usize| one.names[task].clone();
        let row = |(index, (method, said)): (usize, (&Method, &Said))| {
            let verdict = match said.verdict {
                Says::Schedulable => json!(true),
                Says::Unschedulable | Says::NotShown => json!(false),
                Says::Unknown => json!("unknown"),
            };
            let mut row = json!({
                "test": method.name(), "schedulable": verdict, "says": method.word(said.verdict),
                "kind": method.kind(&one.set).to_string(), "why": said.why(&one.set, &name),
            });
            if sensitivity && grows(method) {
                let growth = one.growth[index];
                row["growth"] = json!(growth.ok().and_then(|g| g.factor()).map(decimal));
                row["growth_at_least"] = json!(growth.ok().map(|g| decimal(g.at_least)));
                row["growth_at_most"] = json!(growth.ok().map(|g| decimal_above(g.at_most)));
                row["growth_unknown"] = json!(growth.err());
            }
            if let Some(assigned) = said.priorities {
                row["priorities"] = json!({"rule": assigned.rule, "fallback": assigned.fallback});
            }
            if let Some(placed) = &one.placed[index] {
                row["assignment"] = assignment::json(placed);
            }
            row
        };
        let tests: Vec<Value> = methods.iter().zip(&one.said).enumerate().map(row).collect();
        let of_tasks = one.late.as_ref().ok().map(|late| late.iter().map(|late| late.ns()).collect::<Vec<_>>());
        json!({"set": one.id, "tasks": one.set.tasks.len(), "utilisation_per_mille": load(&one.set).per_mille(),
               "gedf_tardiness_ns": latest(one).map(Span::ns), "gedf_tardiness_of_tasks_ns": of_tasks, "tests": tests})
    };
    json!({"cpus": cpus, "sets": answered.iter().map(set).collect::<Vec<_>>()})
}

fn table(
    one: &Answered,
    methods: &[Method],
    cpus: usize,
    args: &Args,
    file: &str,
    out: &mut impl Write,
) -> io::Result<()> {
    let several = |n: usize, thing: &str| format!("{n} {thing}{}", if n == 1 { "" } else { "s" });
    let set = &one.set;
    writeln!(out, "{file}: {}, {}, utilisation {}", several(set.tasks.len(), "task"), several(cpus, "CPU"), load(set))?;
    if set.lighter || !set.can_meet() {
        writeln!(out, "note: jobs may come or run more favourably than the worst case, which the tests are about")?;
    }
    writeln!(out)?;
    let name = |task: usize| one.names[task].clone();
    let mut rows = vec![["test", "verdict", "kind", "why"].map(String::from).to_vec()];
    for (method, said) in methods.iter().zip(&one.said) {
        let kind = method.kind(set).to_string();
        rows.push(vec![method.name().into(), method.word(said.verdict).into(), kind, said.why(set, &name)]);
    }
    aligned(out, &rows, |_| true)?;
    let asked = methods.iter().zip(&one.growth).filter(|(m, _)| grows(m));
    for (index, (method, growth)) in asked.enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        writeln!(out, "{gap}{}: {}", method.name(), growth_text(growth))?;
    }
    if cpus > 1 || args.tardiness {
        match &one.late {
            Ok(late) => writeln!(out, "\nUnder global EDF {} (Devi, Anderson 2008).", lateness(&one.names, late))?,
            Err(why) if args.tardiness => {
                writeln!(out, "\nHow late jobs can be under global EDF is not known: {why}.")?;
            }
            Err(_) => {}
        }
    }
    for (method, placed) in methods.iter().zip(&one.placed) {
        if let Some(placed) = placed.as_ref().filter(|p| args.assignment || assignment::splits(p)) {
            writeln!(out, "\nassignment by {}:", method.name())?;
            assignment::print(placed, out)?;
        }
    }
    Ok(())
}

/// How far runtimes may grow, in words.
fn growth_text(growth: &Result<Growth, &'static str>) -> String {
    let growth = match growth {
        Ok(growth) => growth,
        Err(why) => return format!("how far runtimes may grow is not known: {why}"),
    };
    match growth.factor() {
        Some((p, q)) => {
            let fraction = if q < 1_000_000 { format!(" ({p}/{q})") } else { String::new() };
            format!("every runtime may be multiplied by {}{fraction}", decimal((p, q)))
        }
        None => {
            let (least, most) = (decimal(growth.at_least), decimal_above(growth.at_most));
            format!(
                "every runtime may be multiplied by {least} at least and {most} at most; the search for the factor is too long"
            )
        }
    }
}
