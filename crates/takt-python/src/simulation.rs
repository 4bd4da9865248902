//! The result of a simulation, and its chart.

use crate::arguments;
use crate::background::native;
use crate::errors;
use crate::table::Table;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::path::PathBuf;
use std::sync::Arc;
use takt::{Span, SvgOptions, Time};

/// A simulation that has ended.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Simulation {
    simulation: Arc<takt::Simulation>,
}

impl Simulation {
    pub(crate) fn new(simulation: takt::Simulation) -> Simulation {
        Simulation { simulation: Arc::new(simulation) }
    }

    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.simulation.result()).map_err(|why| PyRuntimeError::new_err(why.to_string()))
    }
}

/// The settings of a chart.
pub(crate) fn chart(
    start: Option<&Bound<'_, PyAny>>,
    end: Option<&Bound<'_, PyAny>>,
    width: u32,
    title: Option<String>,
) -> PyResult<SvgOptions> {
    let instant = |name: &str, given: Option<&Bound<'_, PyAny>>| -> PyResult<Option<Time>> {
        given.map(|given| Ok(Time::ZERO + arguments::instant(name, given)?)).transpose()
    };
    let (from, to) = (instant("start", start)?.unwrap_or(Time::ZERO), instant("end", end)?);
    if to.is_some_and(|to| to <= from) {
        return Err(errors::value("`end` is not after `start`"));
    }
    if width < 400 {
        return Err(errors::value(format!("`width` is {width} pixels, and a chart has at least 400")));
    }
    Ok(SvgOptions { width, from, to, title, note: None })
}

fn without_trace(what: &str) -> PyErr {
    errors::value(format!("`{what}` needs the records of the simulation\nhint: write simulate(…, trace=True)"))
}

#[pymethods]
impl Simulation {
    #[getter]
    fn tasks(&self) -> PyResult<Table> {
        Table::new(takt::table::Table::of_tasks(&self.simulation.result()))
    }

    #[getter]
    fn jobs(&self, py: Python<'_>) -> PyResult<Table> {
        let simulation = self.simulation.clone();
        let table = crate::background::native(py, move |_| simulation.job_table())??;
        Table::new(table.ok_or_else(|| without_trace("jobs"))?)
    }

    #[getter]
    fn trace(&self, py: Python<'_>) -> PyResult<Table> {
        let simulation = self.simulation.clone();
        let table = crate::background::native(py, move |_| simulation.record_table())??;
        Table::new(table.ok_or_else(|| without_trace("trace"))?)
    }

    #[getter]
    fn text(&self) -> String {
        errors::in_python(&self.simulation.text())
    }

    #[getter]
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        arguments::object(py, &self.json()?)
    }

    #[getter]
    fn duration(&self) -> i64 {
        self.simulation.length.ns()
    }

    #[getter]
    fn notes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let notes: Vec<String> = self.simulation.general().iter().map(|note| errors::in_python(note)).collect();
        arguments::list(py, &notes)
    }

    #[pyo3(signature = (*, start=None, end=None, width=1200, title=None))]
    fn gantt(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        width: u32,
        title: Option<String>,
    ) -> PyResult<Gantt> {
        let (simulation, options) = (self.simulation.clone(), chart(start, end, width, title)?);
        let svg = native(py, move |_| simulation.gantt(&options))?;
        Ok(Gantt { svg: svg.ok_or_else(|| without_trace("gantt"))? })
    }

    fn __repr__(&self) -> String {
        let jobs = self.simulation.result().totals.jobs;
        let count = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
        let (name, length) = (&self.simulation.workload.source.name, Span::to_string(&self.simulation.length));
        format!(
            "<Simulation of {name}, {length}: {} jobs released, {} missed>",
            count(jobs.released),
            count(jobs.missed)
        )
    }
}

/// A chart of a schedule, drawn in notebooks.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Gantt {
    #[pyo3(get)]
    pub(crate) svg: String,
}

#[pymethods]
impl Gantt {
    fn save(&self, path: PathBuf) -> PyResult<()> {
        Ok(std::fs::write(path, &self.svg)?)
    }
    fn _repr_svg_(&self) -> &str {
        &self.svg
    }
    fn _repr_html_(&self) -> String {
        format!("<div style=\"overflow-x: auto\">{}</div>", self.svg)
    }
    fn __repr__(&self) -> String {
        format!("<Gantt: {} bytes of SVG>", self.svg.len())
    }
}
