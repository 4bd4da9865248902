//! Arguments of Python: durations, names, and columns of numbers.

use crate::errors::value;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use takt::{Late, Placement, Rule, Span, nearest};

/// A length of time above zero: a text with a unit, or whole nanoseconds.
pub(crate) fn span(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Span> {
    match instant(name, given)? {
        Span::ZERO => Err(value(format!("`{name}`: a duration must be above zero"))),
        span => Ok(span),
    }
}

/// An instant, as the time since the begin: a text with a unit, or whole nanoseconds.
pub(crate) fn instant(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Span> {
    let text = if let Ok(text) = given.cast::<PyString>() {
        text.to_str()?.to_owned()
    } else if given.is_instance_of::<PyFloat>() {
        let message = format!("`{name}` is the float {given}: write whole nanoseconds, or a text such as \"10ms\"");
        return Err(value(message));
    } else if given.is_instance_of::<PyInt>() && !given.is_instance_of::<PyBool>() {
        format!("{given}ns")
    } else {
        let kind = given.get_type();
        let message = format!("`{name}` is a text such as \"10ms\" or whole nanoseconds, not {}", kind.name()?);
        return Err(PyTypeError::new_err(message));
    };
    match takt::parse_duration(&text) {
        Ok(span) if span < Span::ZERO => Err(value(format!("`{name}`: {given} is below zero"))),
        Ok(span) => Ok(span),
        Err(why) => Err(value(format!("`{name}`: {why}"))),
    }
}

/// A number such as `1.3`, or a text such as `130%`, in the words that the command line reads.
pub(crate) fn number(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    let number = given.is_instance_of::<PyFloat>() || given.is_instance_of::<PyInt>();
    if given.is_instance_of::<PyString>() || number && !given.is_instance_of::<PyBool>() {
        return Ok(given.str()?.to_str()?.to_owned());
    }
    let kind = given.get_type();
    Err(PyTypeError::new_err(format!("`{name}` is a number or a text such as \"130%\", not {}", kind.name()?)))
}

/// The value of a name; an unknown one is an error with the nearest.
pub(crate) fn named<T: Copy>(argument: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    if let Some((_, found)) = known.iter().find(|(name, _)| *name == given) {
        return Ok(*found);
    }
    let names = || known.iter().map(|(name, _)| *name);
    let near = nearest(given, names()).map_or(String::new(), |near| format!(": did you mean `{near}`?"));
    let names: Vec<&str> = names().collect();
    Err(value(format!("`{argument}` has no value `{given}`{near}\nhint: its values are {}", names.join(", "))))
}

/// A rule that assigns priorities.
pub(crate) fn rule(given: Option<&str>) -> PyResult<Option<Rule>> {
    let rules = [Rule::RateMonotonic, Rule::DeadlineMonotonic, Rule::Optimal, Rule::Random];
    let known = rules.map(|rule| (rule.name(), rule));
    given.map(|given| named("priorities", given, &known)).transpose()
}

/// A rule that places tasks on CPUs.
pub(crate) fn placement(given: Option<&str>) -> PyResult<Option<Placement>> {
    given.map(|given| named("placement", given, &Placement::ALL)).transpose()
}

/// A rule for late jobs.
pub(crate) fn late(given: Option<&str>) -> PyResult<Option<Late>> {
    let known = [("continue", Late::Continue), ("abort", Late::Abort), ("abort-at-event", Late::AbortAtEvent)];
    given.map(|given| named("late", given, &known)).transpose()
}

/// A number of CPUs.
pub(crate) fn cpus(given: Option<i64>) -> PyResult<Option<usize>> {
    let Some(given) = given else { return Ok(None) };
    let known = usize::try_from(given).ok().filter(|cpus| (1..=takt::MAX_CPUS).contains(cpus));
    let wrong = || value(format!("`cpus` is {given}, and a machine has 1 to {} CPUs", takt::MAX_CPUS));
    known.map(Some).ok_or_else(wrong)
}

/// The columns of task sets, and whether a table may lack them.
const COLUMNS: [(&str, bool); 5] =
    [("set_id", true), ("task_id", true), ("C_us", false), ("D_us", true), ("T_us", false)];

/// Task sets as CSV, from a table of any kind: a `Table`, a data frame, a dictionary of columns. Without `set_id` it is one set, without
/// `task_id` the rows are numbered, without `D_us` the deadline is the period.
pub(crate) fn csv(given: &Bound<'_, PyAny>) -> PyResult<String> {
    let columns = columns(given)?;
    let find = |wanted: &str| columns.iter().find(|(name, _)| name == wanted).map(|(_, values)| values);
    for (name, may_lack) in COLUMNS {
        if !may_lack && find(name).is_none() {
            return Err(value(format!("the task sets have no column `{name}`")));
        }
    }
    let rows = columns.first().map_or(0, |(_, values)| values.len());
    if let Some((name, values)) = columns.iter().find(|(_, values)| values.len() != rows) {
        let first = &columns[0].0;
        let message = format!("column `{name}` has {} rows, and column `{first}` has {rows}", values.len());
        return Err(value(message));
    }
    let mut text = String::from(takt::generate::HEAD);
    for row in 0..rows {
        let cell = |name: &str| find(name).map(|values| values[row]);
        let period = cell("T_us").unwrap_or_default();
        let cells = [
            cell("set_id").unwrap_or(0),
            cell("task_id").unwrap_or(row as u64),
            cell("C_us").unwrap_or_default(),
            cell("D_us").unwrap_or(period),
            period,
        ];
        text += "\n";
        text += &cells.map(|cell| cell.to_string()).join(",");
    }
    Ok(text + "\n")
}

/// The columns of a table by name, all of them whole numbers.
fn columns(given: &Bound<'_, PyAny>) -> PyResult<Vec<(String, Vec<u64>)>> {
    // A table of pyarrow names its columns elsewhere than the others.
    let given = if given.hasattr("to_pydict")? { given.call_method0("to_pydict")? } else { given.clone() };
    let names = if given.is_instance_of::<PyDict>() {
        given.call_method0("keys")?
    } else {
        given.getattr("columns").map_err(|_| {
            let kind = given.get_type().to_string();
            PyTypeError::new_err(format!(
                "task sets are a file, a table, a data frame or a dictionary of columns, not {kind}"
            ))
        })?
    };
    let mut columns = Vec::new();
    for name in names.try_iter()? {
        let name = name?;
        let text = name.str()?.to_str()?.to_owned();
        if !COLUMNS.iter().any(|(known, _)| *known == text) {
            let near = nearest(&text, COLUMNS.map(|(known, _)| known));
            let near = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
            let hint = "the columns are set_id, task_id, C_us, D_us and T_us, in microseconds";
            return Err(value(format!("there is no column `{text}` in task sets{near}\nhint: {hint}")));
        }
        let values = given.get_item(&name)?;
        // A list of a data frame's column has Python's own numbers, at a fraction of the cost.
        let values = match ["to_list", "tolist"].into_iter().find(|list| values.hasattr(*list).unwrap_or(false)) {
            Some(list) => values.call_method0(list)?,
            None => values,
        };
        let (mut cells, mut rest) = (Vec::new(), values.try_iter()?.enumerate());
        while let Some((row, cell)) = rest.next() {
            let cell = cell?;
            cells.push(whole(&text, row, &cell).map_err(|error| {
                // A missing value makes floats of the others in a column of pandas.
                let missing = cell.is_instance_of::<PyFloat>().then(|| rest.find_map(missing_in)).flatten();
                missing.map_or(error, |row| missing_cell(&text, row))
            })?);
        }
        columns.push((text, cells));
    }
    Ok(columns)
}

/// The row of this cell, if its value is missing.
fn missing_in((row, cell): (usize, PyResult<Bound<'_, PyAny>>)) -> Option<usize> {
    cell.is_ok_and(|cell| is_missing(&cell)).then_some(row)
}

fn is_missing(cell: &Bound<'_, PyAny>) -> bool {
    cell.is_none() || cell.cast::<PyFloat>().is_ok_and(|float| float.value().is_nan())
}

fn missing_cell(column: &str, row: usize) -> PyErr {
    wrong_cell(column, row, "the value is missing")
}

fn wrong_cell(column: &str, row: usize, what: &str) -> PyErr {
    value(format!("column `{column}`, row {row}: {what}"))
}

/// A cell: a whole number, not below zero.
fn whole(column: &str, row: usize, cell: &Bound<'_, PyAny>) -> PyResult<u64> {
    if is_missing(cell) {
        return Err(missing_cell(column, row));
    }
    let wrong = |what: String| wrong_cell(column, row, &what);
    if cell.is_instance_of::<PyFloat>() {
        return Err(wrong(format!("{cell} is a float, not a whole number")));
    }
    // Numbers of numpy are no `int`, and give one by `__index__`.
    let number = cell.call_method0("__index__").map_err(|_| wrong(format!("{} is no number", shown(cell))))?;
    number.extract::<u64>().map_err(|_| wrong(format!("{} is not from 0 to {}", shown(cell), u64::MAX)))
}

fn shown(cell: &Bound<'_, PyAny>) -> String {
    cell.repr().map_or_else(|_| "the value".into(), |text| text.to_string())
}

/// The tests of a list or of a text with commas.
pub(crate) fn tests(given: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    let Some(given) = given else { return Ok("all".into()) };
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(text.to_str()?.to_owned());
    }
    let names = given.try_iter()?.map(|name| name?.extract::<String>());
    Ok(names.collect::<PyResult<Vec<String>>>()?.join(","))
}

/// An object of JSON as one of Python.
pub(crate) fn object<'py>(py: Python<'py>, json: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json,))
}

/// A list of texts.
pub(crate) fn list<'py>(py: Python<'py>, texts: &[String]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, texts)
}
