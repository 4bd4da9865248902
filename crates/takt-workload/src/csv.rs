//! Task sets in CSV: `set_id,task_id,C_us,D_us,T_us`, times in microseconds.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity};
use crate::machine::{fit_machine, machine_of, needs_a_table, no_copies, no_policy};
use crate::node::Place;
use crate::reader::Reader;
use crate::text::clipped;
use crate::value::{self, BadNumber, choices, nearest};
use crate::{MAX_TASKS, Options, Settings, Source, TaskInfo, Workload, policy, rules, task, tasks};
use std::borrow::Cow;
use std::collections::HashMap;
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{Arrival, Scope, System, Task};
use takt_core::time::Span;

const COLUMNS: [&str; 5] = ["set_id", "task_id", "C_us", "D_us", "T_us"];

struct Row {
    set: u64,
    set_place: Place,
    id: String,
    place: Place,
    task: Task,
    runtime: Place,
    deadline: Place,
}

/// A cell: its text without the quotes around it, and its place with them.
struct Cell<'t> {
    text: Cow<'t, str>,
    place: Place,
}

/// A line that is not empty.
struct Line<'t> {
    cells: Vec<Cell<'t>>,
    place: Place,
}

/// Reads the cell that begins at a byte. Returns its end: a comma, the end of the line, or the end of the text. Quotes are those of
/// RFC 4180: a quoted cell may hold commas, and a quote in it is doubled. Spaces around a cell are ignored.
///
/// Crates for CSV report the text of a cell without its place, which diagnostics need.
fn cell<'t>(reader: &mut Reader, text: &'t str, from: usize) -> (Cell<'t>, usize) {
    let end_from = |at: usize| text[at..].find([',', '\n']).map_or(text.len(), |more| at + more);
    let start = text.len() - text[from..].trim_start_matches([' ', '\t']).len();
    if !text[start..].starts_with('"') {
        let end = end_from(from);
        let (part, inner) = (&text[from..end], text[from..end].trim());
        let start = from + part.len() - part.trim_start().len();
        return (Cell { text: inner.into(), place: start..start + inner.len() }, end);
    }
    let (inside, mut close) = (start + 1, start + 1);
    loop {
        let Some(quote) = text[close..].find('"') else {
            let fault = Diagnostic::error(Code::SyntaxError, &(start..end_from(inside)), "a quoted cell does not end");
            reader.push(
                fault.label("its quote is not closed").hint("write `\"` at its end, and a quote in it as `\"\"`"),
            );
            return (Cell { text: "".into(), place: start..text.len() }, text.len());
        };
        close += quote;
        if !text[close + 1..].starts_with('"') {
            break;
        }
        close += 2;
    }
    let end = end_from(close + 1);
    if !text[close + 1..end].trim().is_empty() {
        let fault = Diagnostic::error(Code::SyntaxError, &(start..end), "a quoted cell is followed by more text");
        reader.push(fault.label("in this cell").hint("write a quote within a quoted cell as `\"\"`"));
    }
    let quoted = &text[inside..close];
    let text = if quoted.contains('"') { quoted.replace("\"\"", "\"").into() } else { quoted.into() };
    (Cell { text, place: start..close + 1 }, end)
}

/// The lines that are not empty.
fn lines<'t>(reader: &mut Reader, text: &'t str) -> Vec<Line<'t>> {
    let mut lines = Vec::new();
    // A byte order mark, as spreadsheets write it, is no part of the first column's name.
    let mut at = text.len() - text.trim_start_matches('\u{feff}').len();
    while at < text.len() {
        let (start, mut cells) = (at, Vec::new());
        loop {
            let (cell, end) = cell(reader, text, at);
            cells.push(cell);
            at = end;
            if !text[at..].starts_with(',') {
                break;
            }
            at += 1;
        }
        let place = start..start + text[start..at].trim_end_matches('\r').len();
        at += 1;
        if !text[place.clone()].trim().is_empty() {
            lines.push(Line { cells, place });
        }
    }
    lines
}

/// Which column each of [`COLUMNS`] is, and how many there are; `None` where the header has a fault.
fn columns(reader: &mut Reader, header: &Line<'_>) -> Option<([usize; COLUMNS.len()], usize)> {
    let (titles, header) = (&header.cells, &header.place);
    let wanted = format!("a task set starts with the header `{}`", COLUMNS.join(","));
    if titles.iter().all(|title| !COLUMNS.contains(&&*title.text)) {
        let fault = Diagnostic::error(Code::WrongFormat, header, "this is not a task set")
            .label("none of its columns are there");
        reader.push(fault.hint(format!("{wanted}; `takt import` reads those of other systems")));
        return None;
    }
    let mut columns = [0; COLUMNS.len()];
    for (at, name) in columns.iter_mut().zip(COLUMNS) {
        let mut found = titles.iter().enumerate().filter(|(_, c)| c.text == name);
        match (found.next(), found.next()) {
            (Some((i, _)), None) => *at = i,
            (Some(_), Some((_, again))) => reader.push(
                Diagnostic::error(Code::DuplicateKey, &again.place, format!("the column `{name}` is there twice"))
                    .label("the second one"),
            ),
            (None, _) => {
                let near = nearest(name, titles.iter().map(|c| &*c.text).filter(|t| !COLUMNS.contains(t)));
                let near = near.map_or(String::new(), |n| format!("; did you mean it by `{}`?", clipped(n)));
                reader.push(
                    Diagnostic::error(Code::MissingKey, header, format!("the column `{name}` is missing"))
                        .label(format!("the header{near}"))
                        .hint(&wanted),
                );
            }
        }
    }
    reader.diagnostics.is_empty().then_some((columns, titles.len()))
}

/// A time in microseconds, above zero.
fn time(reader: &mut Reader, cell: &Cell<'_>, column: &str) -> Option<Span> {
    let (digits, place) = (&*cell.text, &cell.place);
    let found = value::parse_decimal(digits, 1_000);
    let long = match found {
        Ok(span) if span > Span::ZERO && span <= value::MAX_DURATION => return Some(span),
        Ok(span) => span > value::MAX_DURATION,
        Err(fault) => fault == BadNumber::TooLarge && !digits.starts_with('-'),
    };
    reader.push(if long {
        let most = value::MAX_DURATION.ns() / 1_000;
        Diagnostic::error(Code::OutOfRange, place, format!("`{column}` may be at most {most} microseconds, a year"))
            .label("longer")
    } else {
        let message = format!("`{column}` must be a number of microseconds above zero");
        Diagnostic::error(Code::WrongType, place, message).label("not such a number")
    });
    None
}

fn rows(reader: &mut Reader, source: &Source) -> Vec<Row> {
    let lines = lines(reader, source.text.as_str());
    if !reader.diagnostics.is_empty() {
        return Vec::new();
    }
    let Some((header, lines)) = lines.split_first() else {
        reader.push(
            Diagnostic::error(Code::NothingToSchedule, &(0..0), "the file is empty")
                .hint(format!("a task set starts with the header `{}`", COLUMNS.join(","))),
        );
        return Vec::new();
    };
    let Some((columns, width)) = columns(reader, header) else { return Vec::new() };
    let mut seen: HashMap<(u64, &str), Place> = HashMap::new();
    let mut rows = Vec::new();
    for Line { cells, place } in lines {
        if cells.len() != width {
            reader.push(
                Diagnostic::error(
                    Code::SyntaxError,
                    place,
                    format!("a line has {} cells, the header has {width}", cells.len()),
                )
                .label("in this line"),
            );
            continue;
        }
        let cell = |column: usize| &cells[columns[column]];
        let place = |column: usize| cell(column).place.clone();
        let Ok(set) = cell(0).text.parse::<u64>() else {
            reader.push(
                Diagnostic::error(Code::WrongType, &place(0), "`set_id` must be a whole number")
                    .label("not such a number"),
            );
            continue;
        };
        let id = &*cell(1).text;
        if id.is_empty() || id.chars().any(char::is_control) {
            reader.push(
                Diagnostic::error(Code::InvalidCharacter, &place(1), "`task_id` must be a word")
                    .label("not such a word"),
            );
            continue;
        }
        if let Some(first) = seen.insert((set, id), place(1)) {
            reader.push(
                Diagnostic::error(Code::DuplicateName, &place(1), format!("set {set} has two tasks `{}`", clipped(id)))
                    .label("the second one")
                    .also(&first, "the first one"),
            );
        }
        let mut time = |column: usize| time(reader, cell(column), COLUMNS[column]);
        let (Some(runtime), Some(deadline), Some(period)) = (time(2), time(3), time(4)) else { continue };
        let task = Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period },
            deadline: Some(deadline),
            runtime: Some(runtime),
            affinity: CpuSet::first(MAX_CPUS),
            ..Task::default()
        };
        let (runtime, deadline) = (place(2), place(3));
        rows.push(Row { set, set_place: place(0), id: id.to_owned(), place: place(1), task, runtime, deadline });
    }
    if rows.is_empty() && reader.diagnostics.is_empty() {
        reader.push(
            Diagnostic::error(Code::NothingToSchedule, &header.place, "there are no tasks below the header")
                .label("nothing follows"),
        );
    }
    rows
}

/// One of the task sets of a CSV file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRows {
    /// Its `set_id`.
    pub id: u64,
    /// The names of its tasks, parallel to `tasks`: `T` and their `task_id`, as in a [`Workload`].
    pub names: Vec<String>,
    /// Its tasks.
    pub tasks: Vec<Task>,
}

/// The name of a task: its number is no name.
fn name(id: &str) -> String {
    format!("T{id}")
}

/// Reads all task sets of a CSV file, in the order of their first lines. A task may run on every CPU number.
///
/// # Errors
/// The faults of the file in its order, and so are more than [`MAX_TASKS`] tasks in a set. A runtime above the deadline is one in
/// a file with one set; among several, such a set is one that is not schedulable.
pub fn load_sets(source: &Source) -> Result<Vec<TaskRows>, Vec<Diagnostic>> {
    source.check().map_err(|fault| vec![fault])?;
    let mut reader = Reader::default();
    let rows = rows(&mut reader, source);
    let single = rows.windows(2).all(|pair| pair[0].set == pair[1].set);
    for row in rows.iter().filter(|r| single && r.task.deadline < r.task.runtime) {
        let runtime = Some(("runtime", &row.runtime));
        task::check_runtime(&mut reader, &name(&row.id), &row.task, runtime, Some(&row.deadline));
    }
    if !reader.diagnostics.is_empty() {
        crate::diagnostic::sort(&mut reader.diagnostics);
        return Err(reader.diagnostics);
    }
    let mut sets: Vec<TaskRows> = Vec::new();
    let mut index: HashMap<u64, usize> = HashMap::new();
    for row in rows {
        let at = *index.entry(row.set).or_insert_with(|| {
            sets.push(TaskRows { id: row.set, names: Vec::new(), tasks: Vec::new() });
            sets.len() - 1
        });
        let set = &mut sets[at];
        if set.tasks.len() == MAX_TASKS {
            return Err(vec![tasks::too_many(&row.place)]);
        }
        set.names.push(name(&row.id));
        set.tasks.push(row.task);
    }
    Ok(sets)
}

/// That there is one task set, which is all that a workload can be.
fn one_set(rows: &[Row]) -> Result<(), Diagnostic> {
    let first = &rows[0];
    let Some(other) = rows.iter().find(|r| r.set != first.set) else { return Ok(()) };
    let mut sets: Vec<u64> = rows.iter().map(|r| r.set).collect();
    sets.sort_unstable();
    sets.dedup();
    let count = sets.len();
    let some: Vec<String> = sets.iter().take(10).map(u64::to_string).collect();
    let more = if count > some.len() { format!(" and {} more", count - some.len()) } else { String::new() };
    Err(Diagnostic::error(
        Code::NotSupportedHere,
        &other.set_place,
        format!("the file holds {count} task sets, and one is wanted"),
    )
    .label(format!("set {} starts here", other.set))
    .also(&first.set_place, format!("set {} starts here", first.set))
    .hint(format!(
        "keep one of the sets {}{more}, or judge all of them with `takt analyze`",
        choices(some.iter().map(String::as_str), "and")
    )))
}

pub(crate) fn load(source: &Source, options: &Options) -> Result<Workload, Vec<Diagnostic>> {
    let mut reader = Reader::default();
    let rows = rows(&mut reader, source);
    if !reader.diagnostics.is_empty() {
        return Err(reader.diagnostics);
    }
    let header = 0..source.text.find('\n').unwrap_or(source.text.len());
    one_set(&rows).map_err(|fault| vec![fault])?;
    if rows.len() > MAX_TASKS {
        return Err(vec![tasks::too_many(&rows[MAX_TASKS].place)]);
    }
    let Some(policy) = options.policy else {
        let hint =
            "add `--policy edf` to the command line, or ask all tests with `takt analyze`, which needs no policy";
        return Err(vec![no_policy(&header).hint(hint)]);
    };
    if !options.copies.is_empty() {
        return Err(vec![no_copies(&header, "a task set in CSV")]);
    }
    if policy.scope == Scope::Table {
        return Err(vec![needs_a_table(&policy, &header, "a task set has none")]);
    }
    let from_all = options.cpus.is_none();
    let mut machine = match (options.cpus, options.machine) {
        (Some(count), _) => machine_of(count, &header).map_err(|fault| vec![fault])?,
        (None, Some(there)) if !there.is_empty() => there,
        (None, _) => CpuSet::single(0),
    };
    if let Some(fault) = policy::check(&policy) {
        return Err(vec![fault.diagnostic(&header)]);
    }
    fit_machine(&mut reader, &policy, &mut machine, from_all, &header);
    let mut system = System::new(machine, policy);
    system.seed = options.seed.unwrap_or(0);
    let mut infos = Vec::new();
    let heads: Vec<Place> = rows.iter().map(|row| row.place.clone()).collect();
    for row in rows {
        let name = name(&row.id);
        let runtime = Some(("runtime", &row.runtime));
        task::check_runtime(&mut reader, &name, &row.task, runtime, Some(&row.deadline));
        system.tasks.push(Task { affinity: machine, ..row.task });
        infos.push(TaskInfo { name, ..TaskInfo::default() });
    }
    if reader.diagnostics.iter().any(|d| d.severity == Severity::Error) {
        reader.diagnostics.retain(|d| d.severity == Severity::Error);
        return Err(reader.diagnostics);
    }
    let settings = Settings { cpus_from_all: from_all, ..Settings::default() };
    let workload = Workload {
        tasks: infos,
        places: heads,
        warnings: reader.diagnostics,
        ..Workload::new(source, system, settings)
    };
    rules::buildable(&workload, &header).map_err(|fault| vec![fault])?;
    Ok(workload)
}
