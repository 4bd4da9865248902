//! Outputs of the program `takt`, for the parts of the package in Python: `_run.py` and `sweep.py`.

use crate::arguments;
use crate::background::native;
use crate::errors;
use crate::simulation::{Gantt, chart};
use crate::table::Table;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use takt::{Format, Trace};

/// The records of a trace that was written as JSON lines.
#[pyclass(frozen, module = "takt_rt._native", name = "_Records")]
pub(crate) struct Records {
    trace: Arc<Trace>,
}

#[pymethods]
impl Records {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Records> {
        let trace = native(py, move |_| takt::read_trace(File::open(path)?, Format::JsonLines))?;
        let trace = trace.map_err(|why| PyRuntimeError::new_err(format!("the trace cannot be read: {why}")))?;
        Ok(Records { trace: Arc::new(trace) })
    }

    #[getter]
    fn jobs(&self, py: Python<'_>) -> PyResult<Table> {
        let trace = self.trace.clone();
        Table::new(native(py, move |_| takt::table::Table::of_jobs(&trace))??)
    }

    #[getter]
    fn trace(&self, py: Python<'_>) -> PyResult<Table> {
        let trace = self.trace.clone();
        Table::new(native(py, move |_| takt::table::Table::of_records(&trace))??)
    }

    #[pyo3(signature = (*, start, end, width, title))]
    fn gantt(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        width: u32,
        title: Option<String>,
    ) -> PyResult<Gantt> {
        let (trace, options) = (self.trace.clone(), chart(start, end, width, title)?);
        Ok(Gantt { svg: native(py, move |_| takt::trace_svg(&trace, &options))? })
    }
}

/// The tasks in the object of `takt run --json`.
#[pyfunction(name = "_tasks_of_run")]
pub(crate) fn tasks_of_run(json: &str) -> PyResult<Table> {
    let table = takt::table::Table::of_run(json);
    Table::new(table.map_err(|why| PyRuntimeError::new_err(format!("the result of the run cannot be read: {why}")))?)
}

/// A table that the program wrote as CSV.
#[pyfunction(name = "_table_of_csv")]
pub(crate) fn table_of_csv(text: &str) -> PyResult<Table> {
    Table::new(takt::table::Table::of_csv(text))
}

/// A duration above zero, as an option of the command line.
#[pyfunction(name = "_duration")]
pub(crate) fn duration(name: &str, given: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(format!("{}ns", arguments::span(name, given)?.ns()))
}

/// A text in which options of the command line are arguments of Python.
#[pyfunction(name = "_in_python")]
pub(crate) fn in_python(text: &str) -> String {
    errors::in_python(text)
}
