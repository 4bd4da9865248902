//! Schedulability tests and simulated policies, asked about task sets.

use crate::check::left_out;
use crate::error::Error;
use crate::load::priorities_of_sets;
use crate::report::assignment::{Piece, Placed, print, splits};
use crate::report::{Priorities, aligned, lateness};
use crate::sets::{EVERY, Set, unsuitable};
use crate::verdicts::{self, Method, Said};
use serde::{Serialize, Serializer};
use std::io::{self, Write};
use takt_analysis::priorities::Rule;
use takt_analysis::taskset::{Task, TaskSet};
use takt_analysis::tests::{Growth, Verdict as Says, edf, fixed_priority};
use takt_analysis::utilisation::Utilisation;
use takt_analysis::{assign, tardiness};
use takt_core::model::System;
use takt_core::time::Span;
use takt_workload::{Code, Workload};

/// A task set, and the same tasks for the simulator.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The number of the set.
    pub id: u64,
    /// The names of its tasks.
    pub names: Vec<String>,
    /// Its tasks for the tests.
    pub set: TaskSet,
    /// Its tasks for the simulator.
    pub system: System,
}

impl Subject {
    /// A set of a file, on so many CPUs.
    #[must_use]
    pub fn of_set(set: Set, cpus: usize) -> Subject {
        Subject { id: set.id, names: set.names, set: set.set, system: verdicts::machine(cpus, set.tasks) }
    }

    /// The tasks of a workload.
    ///
    /// # Errors
    /// A window table, and a task that the tests cannot take.
    pub fn of_workload(workload: Workload) -> Result<Subject, Error> {
        if !workload.system.windows.is_empty() {
            let message =
                format!("`{}` is a window table, and these tests are for online policies", workload.source.name);
            let hint = "`takt check` says whether the budgets fit their windows";
            return Err(Error::argument(Code::NotApplicable, message, hint));
        }
        let names: Vec<String> = workload.tasks.iter().map(|t| t.name.clone()).collect();
        let mut set = TaskSet::from_system(&workload.system).map_err(|why| {
            let (task, why) = unsuitable(why, &names);
            Error::at(Code::NotApplicable, &workload, task, why, EVERY)
        })?;
        if !left_out(&workload).is_empty() {
            let why = "the file has costs, a late clock or changes (`takt check` names them)";
            set.beyond = set.beyond.or(Some(why));
        }
        Ok(Subject { id: 0, names, set, system: workload.system })
    }
}

/// The question: tests, machine, and what is wanted besides the verdicts.
pub struct Question {
    /// The tests and simulated policies ([`verdicts::methods`]).
    pub methods: Vec<Method>,
    /// Number of CPUs.
    pub cpus: usize,
    /// Simulated time, which begins with a release of all tasks together.
    pub duration: Span,
    /// The rule and the seed that assign priorities to each set, for simulated policies that rank by priority. `None` leaves those of the
    /// tasks.
    pub priorities: Option<(Rule, u64)>,
    /// The largest factor for all runtimes.
    pub sensitivity: bool,
    /// The CPU of each task, by tests that assign tasks to CPUs.
    pub places: bool,
}

/// One set with its verdicts.
pub struct Answered {
    id: u64,
    set: TaskSet,
    names: Vec<String>,
    /// By test.
    pub said: Vec<Said>,
    /// With sensitivity: for each test the factor, or why there is none.
    growth: Vec<Result<Growth, &'static str>>,
    /// For each test that places tasks where they are, if all have a place; for others nothing.
    placed: Vec<Option<Vec<Placed>>>,
    /// How late jobs can be under global EDF, or why that is not known.
    late: Result<Vec<Span>, &'static str>,
}

impl Question {
    /// Asks about one set, number `index` of all.
    #[must_use]
    pub fn ask(&self, index: usize, subject: &Subject) -> Answered {
        let (set, cpus) = (&subject.set, self.cpus);
        // The sets of a file are numbered as those of `takt sweep generate`, so that they get the same priorities as in a sweep.
        let priorities = self.priorities.map(|(rule, seed)| (rule, seed, index as u64));
        let ask = |m: &Method| m.ask(set, cpus, || subject.system.clone(), priorities, self.duration);
        let place = |m: &Method| placed(m, set, &subject.names, cpus).filter(|_| self.places);
        Answered {
            id: subject.id,
            set: set.clone(),
            names: subject.names.clone(),
            said: self.methods.iter().map(ask).collect(),
            growth: match self.sensitivity {
                true => self.methods.iter().map(|m| growth(m, set, cpus)).collect(),
                false => Vec::new(),
            },
            placed: self.methods.iter().map(place).collect(),
            late: tardiness::of_set(set, cpus),
        }
    }
}

/// The question and the answers about all sets.
pub struct Analysis {
    question: Question,
    answered: Vec<Answered>,
    notes: Vec<String>,
}

/// Asks about task sets.
///
/// # Errors
/// No test applies to any of the sets.
pub fn analyze(subjects: &[Subject], question: Question) -> Result<Analysis, Error> {
    let answered = subjects.iter().enumerate().map(|(index, subject)| question.ask(index, subject)).collect();
    let analysis = Analysis::new(question, answered, subjects);
    analysis.silent()?;
    Ok(analysis)
}

/// The result of an analysis: the keys of `takt analyze --json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AnalysisResult {
    /// Number of CPUs.
    pub cpus: usize,
    /// By set.
    pub sets: Vec<SetResult>,
    /// Notes about simulated policies.
    pub notes: Vec<String>,
}

/// The verdicts about a set.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SetResult {
    /// The number of the set.
    pub set: u64,
    /// Number of its tasks.
    pub tasks: usize,
    /// Sum of runtime over period.
    pub utilisation_per_mille: u64,
    /// Bound of the tardiness under global EDF; `None` where it is not known.
    pub gedf_tardiness_ns: Option<i64>,
    /// The same by task.
    pub gedf_tardiness_of_tasks_ns: Option<Vec<i64>>,
    /// By test.
    pub tests: Vec<TestResult>,
}

/// The verdict of a test.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TestResult {
    /// Its name.
    pub test: String,
    /// `true`, `false` or `"unknown"`. It is `false` if the test shows a miss, or if a sufficient test is inconclusive.
    #[serde(serialize_with = "verdict")]
    pub schedulable: Says,
    /// The verdict in a word.
    pub says: &'static str,
    /// The strength of the verdict.
    pub kind: String,
    /// The ground of the verdict.
    pub why: String,
    /// With sensitivity, the largest factor for all runtimes.
    #[serde(flatten)]
    pub growth: Option<GrowthResult>,
    /// The rule that assigned priorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priorities: Option<Priorities>,
    /// The CPU of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignment: Option<Vec<Placed>>,
}

impl TestResult {
    /// The verdict as `yes`, `no` or `unknown`. It is `unknown` if a sufficient test is inconclusive.
    #[must_use]
    pub fn answer(&self) -> &'static str {
        match self.schedulable {
            Says::Schedulable => "yes",
            Says::Unschedulable => "no",
            Says::NotShown | Says::Unknown => "unknown",
        }
    }
}

/// The largest factor for all runtimes that a test still accepts, as decimal numbers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GrowthResult {
    /// The factor, if it was found.
    pub growth: Option<String>,
    /// A lower bound.
    pub growth_at_least: Option<String>,
    /// An upper bound.
    pub growth_at_most: Option<String>,
    /// Why it is not known.
    pub growth_unknown: Option<&'static str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn verdict<S: Serializer>(says: &Says, serializer: S) -> Result<S::Ok, S::Error> {
    match says {
        Says::Schedulable => serializer.serialize_bool(true),
        Says::Unschedulable | Says::NotShown => serializer.serialize_bool(false),
        Says::Unknown => serializer.serialize_str("unknown"),
    }
}

impl Analysis {
    /// The answers of [`Question::ask`], in the order of the subjects.
    #[must_use]
    pub fn new(question: Question, answered: Vec<Answered>, subjects: &[Subject]) -> Analysis {
        let mut analysis = Analysis { question, answered, notes: Vec::new() };
        analysis.notes = analysis.notes_about(subjects);
        analysis
    }

    /// Notes about simulated policies.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The number of sets.
    #[must_use]
    pub fn sets(&self) -> usize {
        self.answered.len()
    }

    /// Whether there is one set, no test accepts it, and one shows that it misses a deadline.
    #[must_use]
    pub fn is_no(&self) -> bool {
        let [one] = &self.answered[..] else { return false };
        let says = |verdict| one.said.iter().any(|s| s.verdict == verdict);
        says(Says::Unschedulable) && !says(Says::Schedulable)
    }

    /// The notes: assigned priorities and grids of quanta.
    fn notes_about(&self, subjects: &[Subject]) -> Vec<String> {
        let (answered, mut notes) = (&self.answered, Vec::new());
        for (test, method) in self.question.methods.iter().enumerate() {
            let Some(policy) = method.policy() else { continue };
            if let Some((rule, _)) = self.question.priorities.filter(|_| policy.ranks_by_priority()) {
                let fallback = |one: &&Answered| one.said[test].priorities.is_some_and(|assigned| assigned.fallback);
                let (fallback, all) = (answered.iter().filter(fallback).count() as u64, answered.len() as u64);
                notes.push(priorities_of_sets(method.name(), rule, fallback, all));
            }
            let note = |one: &Subject| verdicts::grid_note_of(method.name(), policy, &one.system.tasks);
            notes.extend(subjects.iter().find_map(note));
        }
        notes
    }

    /// A line for each test that applies to none of the sets. In CSV alone these look like searches that take too long.
    ///
    /// # Errors
    /// No test applies to any set.
    pub fn silent(&self) -> Result<Vec<String>, Error> {
        let (answered, methods) = (&self.answered, &self.question.methods);
        let none = |test: &usize| answered.iter().all(|one| !one.said[*test].applies());
        let silent: Vec<usize> = (0..methods.len()).filter(none).collect();
        let Some(one) = answered.first() else { return Ok(Vec::new()) };
        let why = |test: usize| one.said[test].why(&one.set, &|task| one.names[task].clone());
        if let [first, ..] = silent[..]
            && silent.len() == methods.len()
        {
            return Err(methods[first].refused(&why(first)));
        }
        let line = |test: usize| format!("{} applies to none of the task sets: {}", methods[test].name(), why(test));
        Ok(silent.into_iter().map(line).collect())
    }

    /// The result for a program.
    #[must_use]
    pub fn result(&self) -> AnalysisResult {
        let set = |one: &Answered| {
            let name = |task: usize| one.names[task].clone();
            let test = |(index, (method, said)): (usize, (&Method, &Said))| TestResult {
                test: method.name().to_owned(),
                schedulable: said.verdict,
                says: method.word(said.verdict),
                kind: method.kind(&one.set).to_string(),
                why: said.why(&one.set, &name),
                growth: one.growth.get(index).filter(|_| grows(method)).map(|growth| GrowthResult {
                    growth: growth.ok().and_then(|g| g.factor()).map(decimal),
                    growth_at_least: growth.ok().map(|g| decimal(g.at_least)),
                    growth_at_most: growth.ok().map(|g| decimal_above(g.at_most)),
                    growth_unknown: growth.err(),
                }),
                priorities: said.priorities.map(Priorities::from),
                assignment: one.placed[index].clone(),
            };
            let in_ns = |late: &Vec<Span>| late.iter().map(|late| late.ns()).collect();
            SetResult {
                set: one.id,
                tasks: one.set.tasks.len(),
                utilisation_per_mille: load(&one.set).per_mille(),
                gedf_tardiness_ns: latest(one).map(Span::ns),
                gedf_tardiness_of_tasks_ns: one.late.as_ref().ok().map(in_ns),
                tests: self.question.methods.iter().zip(&one.said).enumerate().map(test).collect(),
            }
        };
        AnalysisResult {
            cpus: self.question.cpus,
            sets: self.answered.iter().map(set).collect(),
            notes: self.notes.clone(),
        }
    }

    /// Writes the verdicts as CSV: a row for each set, a column for each test.
    ///
    /// # Errors
    /// Those of the output.
    pub fn csv(&self, tardiness: bool, out: &mut impl Write) -> io::Result<()> {
        let (answered, methods, sensitivity) = (&self.answered, &self.question.methods, self.question.sensitivity);
        write!(out, "set_id")?;
        for method in methods {
            write!(out, ",{}", method.name())?;
        }
        for method in methods.iter().filter(|m| sensitivity && grows(m)) {
            write!(out, ",{}_growth", method.name())?;
        }
        if tardiness {
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
            if tardiness {
                write!(out, ",{}", latest(one).map_or("unknown".into(), |late| late.ns().to_string()))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Writes the table of the first set: each test with its verdict, kind and reason. `file` is its name.
    ///
    /// # Errors
    /// Those of the output.
    pub fn table(&self, tardiness: bool, assignment: bool, file: &str, out: &mut impl Write) -> io::Result<()> {
        let Some(one) = self.answered.first() else { return Ok(()) };
        let (methods, cpus) = (&self.question.methods, self.question.cpus);
        let several = |n: usize, thing: &str| format!("{n} {thing}{}", if n == 1 { "" } else { "s" });
        let set = &one.set;
        writeln!(
            out,
            "{file}: {}, {}, utilisation {}",
            several(set.tasks.len(), "task"),
            several(cpus, "CPU"),
            load(set)
        )?;
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
        if cpus > 1 || tardiness {
            match &one.late {
                Ok(late) => writeln!(out, "\nUnder global EDF {} (Devi, Anderson 2008).", lateness(&one.names, late))?,
                Err(why) if tardiness => {
                    writeln!(out, "\nHow late jobs can be under global EDF is not known: {why}.")?;
                }
                Err(_) => {}
            }
        }
        for (method, placed) in methods.iter().zip(&one.placed) {
            if let Some(placed) = placed.as_ref().filter(|p| assignment || splits(p)) {
                writeln!(out, "\nassignment by {}:", method.name())?;
                print(placed, out)?;
            }
        }
        Ok(())
    }
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

/// Whether a test knows how far runtimes may grow.
#[must_use]
pub fn grows(method: &Method) -> bool {
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

/// The largest of the tardiness bounds of a set.
fn latest(one: &Answered) -> Option<Span> {
    one.late.as_ref().ok().and_then(|late| late.iter().copied().max())
}

fn load(set: &TaskSet) -> Utilisation {
    let mut load = Utilisation::default();
    set.tasks.iter().for_each(|t| load.add(t.runtime, t.period));
    load
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
