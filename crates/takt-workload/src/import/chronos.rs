//! ChronOS task sets, as its test application `sched_test_app` reads them and what it makes of them.
//!
//! ```text
//! # a comment
//! L 5                                              so many locks; before the first task
//! T cpus group wss period usage utility [locks [handler's utility]]
//! T cpus period usage utility [locks [handler's utility]]         the older form
//! G group wss                                      after the last task
//! ```
//! `cpus` and `locks` are lists such as `0,2`, or `all`; times are microseconds. Working sets and thread groups, which say what
//! memory jobs touch, have no counterpart.
//!
//! The jobs follow the source of that program (`task.c` and `tester.c` of its C version, in the public repository
//! vadixidav/chronos-project): it needs `usage * c / 100`, of which `l` percent are in critical sections; they come first, then
//! the rest. One after another each lock is held for the whole of that time, so that a job with several locks needs more than it
//! declares, and one without locks less; nested, all are held together and for that time once. Deadlines are periods, all tasks
//! start together, and the successor of a late or aborted job begins at once (`preset: chronos`).
//!
//! The rule for late jobs depends on the kernel: see [`Version`].

use super::finish::{finish, task_info, whole, words};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::domains::domains_policy;
use crate::machine::foreign_cpus;
use crate::machine::{fit_machine, no_policy, one_cpu_only};
use crate::node::Place;
use crate::reader::Reader;
use crate::tasks::too_many;
use crate::text::clipped;
use crate::value::{MAX_DURATION, parse_cpus};
use crate::{MAX_TASKS, Options, Settings, Source, Workload, steps, task};
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{
    Arrival, Backlog, Domain, Handler, Late, Locking, Need, PolicySpec, Program, ResourceId, Scope, Step, System, Task,
    TaskId,
};
use takt_core::time::Span;
use takt_core::utility::{MOST, UNIT, Utility};

/// The most locks of a task set.
const MAX_LOCKS: u64 = steps::MAX_RESOURCES as u64;
/// The most that a job may need of its usage, in percent, as in the test application.
pub const MAX_USAGE: u32 = 10_000;

/// ChronOS's schedulers by the names of its test application, and what they are called here; and GUS, which it
/// lacks, in its manner.
const SCHEDULERS: [(&str, &str); 17] = [
    ("FIFO", "fifo"),
    ("RMA", "rm"),
    ("EDF", "edf"),
    ("HVDF", "hvdf"),
    ("LBESA", "lbesa"),
    ("DASA_ND", "dasa-nd"),
    ("DASA", "dasa"),
    ("GUS", "gus"),
    ("GFIFO", "g-fifo"),
    ("GRMA", "g-rm"),
    ("GEDF", "g-edf"),
    ("GNP_EDF", "g-np-edf"),
    ("GHVDF", "g-hvdf"),
    ("GNP_HVDF", "g-np-hvdf"),
    ("GMUA", "gmua"),
    ("GGUA", "g-gua"),
    ("NGGUA", "ng-gua"),
];

/// The policy that ChronOS calls so, as in `GNP_EDF` or `GNP-EDF`.
#[must_use]
pub fn scheduler(name: &str) -> Option<PolicySpec> {
    let name = name.replace('-', "_");
    SCHEDULERS.iter().find(|(theirs, _)| *theirs == name).and_then(|(_, ours)| PolicySpec::from_name(ours))
}

/// Which ChronOS kernel schedules the task set. Read in the sources of both.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Version {
    /// ChronOS 3.0, with all its schedulers. Those that maximise utility abort a late job at the next scheduling event
    /// (`check_task_failure` in `chronos/hvdf.c` and the others).
    #[default]
    V3_0,
    /// The course tree of 2017 (vadixidav/chronos-linux), in which the public measurements were made. It has the schedulers of
    /// `COURSE`. Its HVDF does not look at deadlines, so late jobs continue.
    Course2017,
}

/// The schedulers of [`Version::Course2017`], by the names of [`SCHEDULERS`].
const COURSE: [&str; 6] = ["FIFO", "RMA", "EDF", "HVDF", "GFIFO", "GRMA"];

impl Version {
    /// Its name on the command line and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Version::V3_0 => "3.0",
            Version::Course2017 => "2017",
        }
    }

    /// The version as it is written in the comment of an imported workload.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Version::V3_0 => "ChronOS 3.0",
            Version::Course2017 => "the ChronOS course tree of 2017",
        }
    }

    /// The rule for late jobs under this policy.
    fn late(self, policy: &PolicySpec) -> Late {
        match self {
            Version::V3_0 if policy.profile.needs.contains(&Need::Utility) => Late::AbortAtEvent,
            Version::V3_0 | Version::Course2017 => Late::Continue,
        }
    }

    /// Reports whether this kernel can be imitated under the policy. Version 3.0 stands for every policy, also for those of Takt that it
    /// does not have.
    fn has(self, policy: &PolicySpec) -> bool {
        self == Version::V3_0
            || COURSE
                .iter()
                .filter_map(|name| scheduler(name))
                .any(|own| (own.profile.name, own.scope) == (policy.profile.name, policy.scope))
    }
}

/// The options of the test application beside the file. In brackets the letters of its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// How much of their usage jobs need, in percent (`-c`); from 1 to [`MAX_USAGE`].
    pub usage: u32,
    /// How much of that is spent in critical sections, in percent from 1 to 100 (`-l`); `None` leaves locks out.
    pub locks: Option<u32>,
    /// Locks are held together and not one after another (`-n`).
    pub nested: bool,
    /// The holder of a lock inherits the urgency of the waiting tasks (`-p`).
    pub inheritance: bool,
    /// Aborted jobs have handlers (`-h`), which need so long for each lock of the set: that program measures what taking and
    /// giving back a lock costs.
    pub handlers: Option<Span>,
    /// Length of the run (`-r`).
    pub duration: Option<Span>,
}

impl Default for Run {
    fn default() -> Run {
        Run { usage: 100, locks: None, nested: false, inheritance: false, handlers: None, duration: None }
    }
}

/// Whether the text is such a task set: its first line that says something is the number of locks.
#[must_use]
pub fn is_task_set(text: &str) -> bool {
    let line = text.lines().map(|l| l.split('#').next().unwrap_or("").trim()).find(|l| !l.is_empty());
    let mut words = line.unwrap_or("").split_whitespace();
    let number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    words.next() == Some("L") && words.next().is_some_and(number) && words.next().is_none()
}

/// A task as the file has it. No CPUs are all.
struct Row {
    head: Place,
    cpus: Option<CpuSet>,
    cpus_place: Place,
    period: Span,
    usage: u64,
    usage_place: Place,
    utility: u64,
    locks: Vec<ResourceId>,
    handler: u64,
}

/// The file as it is.
#[derive(Default)]
struct File {
    locks: Option<(u64, Place)>,
    rows: Vec<Row>,
}

/// Reads a task set as [`Version::V3_0`] schedules it.
///
/// # Errors
/// The faults of the file in its order.
pub fn load(source: &Source, run: &Run, options: &Options) -> Result<Workload, Vec<Diagnostic>> {
    load_for(Version::V3_0, source, run, options)
}

/// Reads a task set. The policy is that of `options`, and the rule for late jobs that of the version.
///
/// # Errors
/// The faults of the file in its order; that this version does not have the policy.
pub fn load_for(version: Version, source: &Source, run: &Run, options: &Options) -> Result<Workload, Vec<Diagnostic>> {
    source.check().map_err(|fault| vec![fault])?;
    let mut reader = Reader::default();
    let file = read(&mut reader, &source.text);
    if !reader.diagnostics.is_empty() {
        crate::diagnostic::sort(&mut reader.diagnostics);
        return Err(reader.diagnostics);
    }
    build(reader, file, source, version, run, options)
}

fn read(reader: &mut Reader, text: &str) -> File {
    let mut file = File::default();
    let (mut lines, mut start) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let content = line.split(['#', '\n']).next().unwrap_or("");
        let words = words(text, start..start + content.len());
        if !words.is_empty() {
            lines.push(words);
        }
        start += line.len();
    }
    let known = |words: &[Place]| matches!(&text[words[0].clone()], "L" | "T" | "G");
    if let Some(words) = lines.iter().find(|words| !known(words)) {
        let fault =
            Diagnostic::error(Code::SyntaxError, &words[0], "a line of a task set begins with `L`, `T`, `G` or `#`");
        reader.push(fault.label(format!("this is `{}`", clipped(&text[words[0].clone()]))));
        return file;
    }
    let of = |kind: &str| {
        let kind = kind.to_owned();
        lines.iter().filter(move |words| text[words[0].clone()] == kind)
    };
    match (of("L").next(), of("L").nth(1)) {
        (Some(words), None) if words.len() == 2 => {
            let locks = whole(reader, text, &words[1], "the number of locks", 0, MAX_LOCKS);
            file.locks = locks.map(|locks| (locks, words[0].start..words[1].end));
        }
        (Some(words), None) => {
            let line = words[0].start..words[words.len() - 1].end;
            reader.push(
                Diagnostic::error(Code::MissingValue, &line, "a line `L` says how many locks there are")
                    .hint("write `L 0`"),
            );
        }
        (Some(first), Some(second)) => reader.push(
            Diagnostic::error(Code::DuplicateKey, &second[0], "the number of locks is said twice")
                .label("the second time")
                .also(&first[0], "the first time"),
        ),
        (None, _) => {
            let first = lines.first().map_or(0..0, |words| words[0].clone());
            let fault = Diagnostic::error(Code::MissingKey, &first, "the number of locks is missing");
            reader.push(fault.label("before the first task").hint("begin with a line `L 0`"));
        }
    }
    let Some((locks, _)) = file.locks else { return file };
    let first = of("T").next();
    if let (Some(task), Some(number)) = (first, of("L").next())
        && task[0].start < number[0].start
    {
        let fault = Diagnostic::error(Code::SyntaxError, &task[0], "a task stands before the number of locks")
            .label("this one");
        reader.push(fault.also(&number[0], "the number").hint("move the line `L` to the front"));
    }
    // In the older form the fifth of six fields is the list of locks, in the newer one the usage.
    let newer = |words: &&Vec<Place>| words.len() > 7 || words.len() == 7 && !is_locks(&text[words[5].clone()], locks);
    let newer = of("T").any(|words| newer(&words));
    for words in of("T") {
        file.rows.extend(row(reader, text, words, newer, locks));
    }
    if first.is_none() {
        let end = text.trim_end().len();
        reader.push(
            Diagnostic::error(Code::NothingToSchedule, &(end..end), "there are no tasks")
                .hint("a task is a line that begins with `T`"),
        );
    } else if file.rows.len() > MAX_TASKS {
        reader.push(too_many(&file.rows[MAX_TASKS].head));
    }
    groups(reader, text, of("T"), of("G"), newer);
    file
}

/// Whether a field can only be a list of locks.
fn is_locks(field: &str, locks: u64) -> bool {
    field == "all" || field.contains(',') || field.parse::<u64>().is_ok_and(|n| n < locks)
}

/// Checks the lines `G`, of which nothing else is needed.
fn groups<'l>(
    reader: &mut Reader,
    text: &str,
    tasks: impl Iterator<Item = &'l Vec<Place>> + Clone,
    groups: impl Iterator<Item = &'l Vec<Place>>,
    newer: bool,
) {
    let last = tasks.clone().last().map_or(0, |words| words[0].start);
    for words in groups {
        let group = words.get(1).map_or("", |place| &text[place.clone()]);
        let is_there = newer && tasks.clone().any(|t| t.get(2).is_some_and(|place| text[place.clone()] == *group));
        let fault = if words.len() != 3 {
            Diagnostic::error(Code::SyntaxError, &words[0], "a group has a number and a working set")
                .hint("write `G 1 0`")
        } else if words[0].start < last {
            Diagnostic::error(Code::SyntaxError, &words[0], "a group stands before a task")
                .hint("move the lines `G` to the end")
        } else if !is_there {
            Diagnostic::error(Code::UnusedName, &words[1], format!("no task is in group {}", clipped(group)))
                .label("an empty group")
        } else {
            continue;
        };
        reader.push(fault);
    }
}

fn row(reader: &mut Reader, text: &str, words: &[Place], newer: bool, locks: u64) -> Option<Row> {
    let (least, skipped) = if newer { (6, 2) } else { (3, 0) };
    let fields = &words[1..];
    if fields.len() < least || fields.len() > 6 + skipped {
        let names =
            if newer { "CPUs, group, working set, period, usage, utility" } else { "CPUs, period, usage, utility" };
        reader.push(
            Diagnostic::error(
                Code::SyntaxError,
                &(words[0].start..words[words.len() - 1].end),
                format!("a task has {} fields", fields.len()),
            )
            .label(if newer { "6 to 8 are wanted" } else { "3 to 6 are wanted" })
            .hint(format!("they are {names}, and if it uses locks their list and its handler's utility")),
        );
        return None;
    }
    let faults = reader.diagnostics.len();
    for (place, what) in fields[1..=skipped].iter().zip(["the group", "the working set"]) {
        let _ = whole(reader, text, place, what, 0, i64::MAX as u64);
    }
    let field = |n: usize| fields.get(if n == 0 { 0 } else { n + skipped });
    let cpus_place = fields[0].clone();
    let cpus = match &text[cpus_place.clone()] {
        "all" => Ok(None),
        list => parse_cpus(list).map(Some),
    };
    let cpus = cpus.map_err(|why| {
        let fault = Diagnostic::error(Code::WrongType, &cpus_place, "a task's CPUs are a list such as `0,2`, or `all`");
        reader.push(fault.label(why));
    });
    let most = MAX_DURATION.ns() as u64 / 1000;
    let mut number = |n: usize, what: &str, least: u64, most: u64| match field(n) {
        Some(place) => whole(reader, text, place, what, least, most),
        None => Some(0),
    };
    let period = number(1, "the period in microseconds", 1, most);
    let usage = number(2, "the usage in microseconds", 1, most);
    let utility = number(3, "the utility", 0, MOST / UNIT);
    let handler = number(5, "the utility of the handler", 0, MOST / UNIT);
    let list = field(4).map_or(Some(Vec::new()), |place| lock_list(reader, text, place, locks));
    if reader.diagnostics.len() > faults {
        return None;
    }
    Some(Row {
        head: words[0].clone(),
        cpus: cpus.ok()?,
        cpus_place,
        period: Span::from_us(period? as i64),
        usage: usage?,
        usage_place: field(2)?.clone(),
        utility: utility?,
        locks: list?,
        handler: handler?,
    })
}

fn lock_list(reader: &mut Reader, text: &str, place: &Place, locks: u64) -> Option<Vec<ResourceId>> {
    let word = &text[place.clone()];
    if word == "all" {
        return Some((0..locks as u16).map(ResourceId).collect());
    }
    let mut list = Vec::new();
    let mut start = place.start;
    for part in word.split(',') {
        let at = start..start + part.len();
        start = at.end + 1;
        let number = part.parse::<u64>().ok().filter(|n| *n < locks && part.bytes().all(|b| b.is_ascii_digit()));
        let fault = match number.map(|n| ResourceId(n as u16)) {
            Some(lock) if !list.contains(&lock) => {
                list.push(lock);
                continue;
            }
            Some(_) => Diagnostic::error(Code::DuplicateName, &at, format!("lock {part} is listed twice"))
                .label("the job would wait for itself"),
            None if locks == 0 => Diagnostic::error(Code::UnknownName, &at, "the task set has no locks")
                .label(format!("this is `{}`", clipped(part)))
                .hint("the line `L` says how many there are"),
            None => Diagnostic::error(Code::OutOfRange, &at, format!("a lock is a number from 0 to {}", locks - 1))
                .label(format!("this is `{}`", clipped(part)))
                .hint("the line `L` says how many there are"),
        };
        reader.push(fault);
        return None;
    }
    Some(list)
}

fn build(
    mut reader: Reader,
    file: File,
    source: &Source,
    version: Version,
    run: &Run,
    options: &Options,
) -> Result<Workload, Vec<Diagnostic>> {
    let (locks, locks_place) = file.locks.unwrap_or((0, 0..0));
    let top = locks_place.clone();
    let Some(policy) = options.policy else {
        let hint = "say `--policy edf` on the command line; `takt policies` lists what there is";
        return Err(vec![no_policy(&top).hint(hint)]);
    };
    if !version.has(&policy) {
        let name = format!("{}{}", policy.prefix(), policy.profile.name);
        let fault =
            Diagnostic::error(Code::UnsuitablePolicy, &top, format!("{} has no scheduler `{name}`", version.title()));
        let hint =
            format!("choose one of {} with `--policy`, or `--version {}`", COURSE.join(", "), Version::V3_0.name());
        return Err(vec![fault.label("its task set").hint(hint)]);
    }
    let (mut machine, from_all) = machine(&mut reader, &file.rows, options, &top);
    let domains = domains(&mut reader, &file.rows, &machine, policy);
    if domains.is_empty() {
        fit_machine(&mut reader, &policy, &mut machine, from_all, &top);
    }
    let section = match run.locks {
        Some(_) if locks == 0 => {
            let fault =
                Diagnostic::warning(Code::NoEffect, &top, "there are critical sections to simulate and no locks");
            reader.push(fault.label("no locks").hint("leave `--locks` out"));
            None
        }
        None if file.rows.iter().any(|row| !row.locks.is_empty()) => {
            let fault = Diagnostic::warning(Code::NotImported, &top, "the locks of this task set are left out");
            let hint = "`takt import chronos FILE --locks 10` spends a tenth of each job in critical sections";
            reader.push(fault.label("there are so many").hint(hint));
            None
        }
        section => section,
    };
    let mut system = System::new(machine, policy);
    system.seed = options.seed.unwrap_or(0);
    system.backlog = Backlog::Chronos;
    system.late = version.late(&policy);
    if section.is_some() {
        system.resources = locks as u16;
        system.locking = if run.inheritance { Locking::Inheritance } else { Locking::Fifo };
    }
    // The course tree's HVDF is an exception among policies that need utilities, so the workload states it.
    let late_stated = version == Version::Course2017 && policy.profile.needs.contains(&Need::Utility);
    let settings = Settings { duration: run.duration, cpus_from_all: from_all, late_stated, ..Settings::default() };
    let mut workload = Workload::new(source, system, settings);
    if !domains.is_empty() {
        workload.system.policy = domains_policy();
        workload.domains = (1..=domains.len()).map(|n| format!("D{n}")).collect();
        workload.system.domains = domains;
    }
    workload.resources = (0..workload.system.resources).map(|n| format!("L{n}")).collect();
    for (index, row) in file.rows.iter().enumerate() {
        let name = format!("T{}", index + 1);
        let task = row_task(&mut reader, row, &name, run, section, locks, &machine);
        task::check_needs(&mut reader, &policy, &task, &name, &row.head);
        workload.system.tasks.push(task);
        workload.tasks.push(task_info(name, None));
    }
    let heads: Vec<Place> = file.rows.into_iter().map(|row| row.head).collect();
    finish(reader, workload, heads, &top)
}

/// The machine, and whether its number of CPUs is unknown.
fn machine(reader: &mut Reader, rows: &[Row], options: &Options, top: &Place) -> (CpuSet, bool) {
    let named = rows.iter().filter_map(|row| row.cpus).fold(CpuSet::EMPTY, |all, set| all.union(&set));
    let machine = match options.cpus {
        Some(count) if (1..=MAX_CPUS).contains(&count) => CpuSet::first(count),
        Some(count) => {
            let fault = Diagnostic::error(Code::OutOfRange, top, format!("a machine of {count} CPUs cannot be had"));
            reader.push(fault.label("asked for with `--cpus`").hint(format!("`--cpus` takes 1 to {MAX_CPUS}")));
            CpuSet::single(0)
        }
        None if !named.is_empty() => named,
        None => return (options.machine.filter(|there| !there.is_empty()).unwrap_or(CpuSet::single(0)), true),
    };
    for row in rows {
        let foreign = row.cpus.map_or(CpuSet::EMPTY, |set| set.difference(&machine));
        if !foreign.is_empty() {
            reader.push(foreign_cpus(&row.cpus_place, &foreign, &machine, "the task"));
        }
    }
    (machine, false)
}

/// Where tasks have different CPUs, each set of them is a scheduling domain with the policy, in the order of the file.
fn domains(reader: &mut Reader, rows: &[Row], machine: &CpuSet, policy: PolicySpec) -> Vec<Domain> {
    let mut domains: Vec<(Domain, &Place)> = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let cpus = row.cpus.unwrap_or(*machine);
        let task = TaskId(index as u32);
        match domains.iter_mut().find(|(domain, _)| domain.cpus == cpus) {
            Some((domain, _)) => domain.tasks.push(task),
            None => domains.push((Domain { band: 0, cpus, tasks: vec![task], policy }, &row.cpus_place)),
        }
    }
    if domains.len() < 2 {
        return Vec::new();
    }
    for (index, (domain, place)) in domains.iter().enumerate() {
        if let Some((_, first)) = domains[..index].iter().find(|(other, _)| !other.cpus.is_disjoint(&domain.cpus)) {
            let fault = Diagnostic::error(Code::CpuOverlap, place, "scheduling domains overlap")
                .label("some of the CPUs of another one");
            let hint =
                "ChronOS gives each set of CPUs a scheduler of its own; let tasks have the same CPUs or none in common";
            reader.push(fault.also(first, "the other one").hint(hint));
        } else if policy.scope == Scope::Uniprocessor && domain.cpus.len() > 1 {
            reader.push(one_cpu_only(&policy, "a domain of this set", &domain.cpus, place, "a domain of one CPU"));
        }
    }
    domains.into_iter().map(|(domain, _)| domain).collect()
}

/// The task of a row. `section` is the part of critical sections in percent.
fn row_task(
    reader: &mut Reader,
    row: &Row,
    name: &str,
    run: &Run,
    section: Option<u32>,
    locks: u64,
    machine: &CpuSet,
) -> Task {
    // Whole microseconds, each part by itself, as that program cuts them.
    let part = |percent: u32| {
        let us = u128::from(row.usage) * u128::from(run.usage) * u128::from(percent) / 10_000;
        Span::from_us(i64::try_from(us).unwrap_or(i64::MAX / 1000))
    };
    let section = section.unwrap_or(0);
    let (locked, unlocked) = (part(section), part(100 - section.min(100)));
    let runtime = locked + unlocked;
    let (period, usage) = (row.period, run.usage);
    if runtime > period {
        reader.push(
            Diagnostic::error(
                Code::ImpossibleDeadline,
                &row.usage_place,
                format!("task `{name}` can never meet its deadline"),
            )
            .label(format!("{usage} % of this are {runtime}, its period is {period}"))
            .hint("lower `--usage`; `load:` in a workload raises what its jobs need beyond their periods"),
        );
    }
    let mut steps = Vec::new();
    let runs = |span: Span| (span > Span::ZERO).then_some(Step::Run(span));
    if section > 0 && run.nested {
        steps.extend(row.locks.iter().copied().map(Step::Lock));
        steps.extend(runs(locked));
        steps.extend(row.locks.iter().rev().copied().map(Step::Unlock));
    } else if section > 0 {
        for &lock in &row.locks {
            steps.push(Step::Lock(lock));
            steps.extend(runs(locked));
            steps.push(Step::Unlock(lock));
        }
    }
    if section > 0 {
        steps.extend(runs(unlocked));
    }
    let ran = steps.iter().any(|step| matches!(step, Step::Run(_)));
    if runtime == Span::ZERO || section > 0 && !ran {
        let fault =
            Diagnostic::error(Code::NoExecution, &row.usage_place, format!("a job of task `{name}` needs no time"));
        reader.push(fault.label(format!("{usage} % of this is less than a microsecond")).hint("raise `--usage`"));
    }
    let handler = run.handlers.filter(|_| row.handler > 0 && locks > 0).map(|lock| Handler {
        runtime: lock * locks as i64,
        deadline: None,
        utility: row.handler * UNIT,
    });
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period },
        deadline: Some(period),
        runtime: Some(runtime),
        program: Program::doing(steps),
        handler,
        utility: Some(Utility::Step(row.utility * UNIT)),
        affinity: row.cpus.unwrap_or(*machine),
        ..Task::default()
    }
}
