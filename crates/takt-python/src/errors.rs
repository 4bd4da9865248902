//! Exceptions, in words of Python's arguments.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use takt::Error;

/// The module of the exceptions. They are written in Python, since the stable interface of Python 3.10 extends no exceptions.
const MODULE: &str = "takt_rt._errors";

static WORKLOAD: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static POLICY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static DIAGNOSTIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The exception of an error.
pub(crate) fn raised(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Workload(faults) => workload(py, &faults).unwrap_or_else(|failure| failure),
        Error::Argument { message, hint, .. } => value(format!("{message}\nhint: {hint}")),
        Error::Policy { at_ns, message } => policy(py, at_ns, &message, None).unwrap_or_else(|failure| failure),
        Error::Stopped => PyRuntimeError::new_err(error.to_string()),
    }
}

/// A `ValueError` about an argument.
pub(crate) fn value(message: impl AsRef<str>) -> PyErr {
    PyValueError::new_err(in_python(message.as_ref()))
}

fn workload(py: Python<'_>, faults: &takt::error::Faults) -> PyResult<PyErr> {
    let mut faults = faults.clone();
    for fault in &mut faults.found {
        fault.message = in_python(&fault.message);
        fault.hint = fault.hint.as_deref().map(in_python);
    }
    let class = DIAGNOSTIC.import(py, MODULE, "Diagnostic")?;
    let found = faults
        .diagnostics()
        .into_iter()
        .map(|d| class.call1((d.message, d.code, d.severity, d.line, d.column, d.label, d.hint)));
    let found: Vec<_> = found.collect::<PyResult<_>>()?;
    let raised = WORKLOAD.import(py, MODULE, "WorkloadError")?.call1((faults.to_string(), found))?;
    Ok(PyErr::from_value(raised))
}

/// A `PolicyError`: a policy's answer at an instant that is no schedule.
pub(crate) fn policy(py: Python<'_>, at_ns: i64, why: &str, answer: Option<Py<PyAny>>) -> PyResult<PyErr> {
    let at = takt::Span::from_ns(at_ns);
    let message = format!("the policy's answer at {at} is no schedule: {why}");
    Ok(PyErr::from_value(POLICY.import(py, MODULE, "PolicyError")?.call1((message, at_ns, answer))?))
}

/// Options of the command line become arguments of Python: `--on-abort` becomes `on_abort`, and `--cpus 1` becomes `cpus=1`.
pub(crate) fn in_python(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '-';
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("--") {
        let (before, option) = (&rest[..at], &rest[at + 2..]);
        let length = option.find(|c| !is_name(c)).unwrap_or(option.len());
        let name = option[..length].trim_end_matches('-');
        // An option of a quoted command stays what it is: `takt sim --trace`. So does a name with hyphens.
        let all = &text[..text.len() - rest.len() + at];
        let in_command =
            all.rfind('`').is_some_and(|tick| all[tick..].starts_with("`takt ")) && all.matches('`').count() % 2 == 1;
        let begins = all.chars().next_back().is_none_or(|c| c.is_whitespace() || matches!(c, '`' | '(' | '"'));
        if name.is_empty() || in_command || !begins {
            out += &rest[..at + 2];
            rest = option;
            continue;
        }
        let quoted = before.ends_with('`');
        let word = match name {
            "test" => "tests".to_owned(),
            name => name.replace('-', "_"),
        };
        out += before;
        rest = &option[name.len()..];
        if !quoted {
            out += &format!("`{word}`");
            continue;
        }
        out += &word;
        if let Some((value, after)) = rest.strip_prefix(' ').and_then(|rest| rest.split_once('`')) {
            let number = value.bytes().all(|c| c.is_ascii_digit());
            out += &if number { format!("={value}`") } else { format!("=\"{value}\"`") };
            rest = after;
        }
    }
    out + rest
}
