//! A workload: read, checked, analyzed and simulated.

use crate::analysis::{self, Analysis, Asked};
use crate::arguments::{self, csv};
use crate::background::native;
use crate::errors::{self, raised};
use crate::policy::{InPython, function};
use crate::simulation::Simulation;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use takt::{Answer, LoadOptions, Rule, SimulateOptions};

/// A workload that was read.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Workload {
    workload: Arc<takt::Workload>,
    /// The rule of the caller that assigned priorities.
    rule: Option<Rule>,
}

/// The settings of a caller about a workload.
struct Settings {
    cpus: Option<i64>,
    policy: Option<String>,
    seed: Option<u64>,
    placement: Option<String>,
    priorities: Option<String>,
    copies: Option<BTreeMap<String, usize>>,
}

impl Settings {
    fn options(self, py: Python<'_>) -> PyResult<LoadOptions> {
        let mut options = LoadOptions {
            placement: arguments::placement(self.placement.as_deref())?,
            priorities: arguments::rule(self.priorities.as_deref())?,
            ..LoadOptions::default()
        };
        options.options.cpus = arguments::cpus(self.cpus)?;
        options.options.seed = self.seed;
        options.options.policy =
            self.policy.map(|name| takt::policy(&name).map_err(|error| raised(py, error))).transpose()?;
        options.options.copies = self.copies.unwrap_or_default().into_iter().collect();
        Ok(options)
    }
}

fn read(
    py: Python<'_>,
    options: LoadOptions,
    load: impl FnOnce(&LoadOptions) -> Result<takt::Workload, takt::Error> + Send + 'static,
) -> PyResult<Workload> {
    let rule = options.priorities;
    let loaded = native(py, move |_| load(&options))?;
    Ok(Workload { workload: Arc::new(loaded.map_err(|error| raised(py, error))?), rule })
}

/// Reads a workload file.
#[pyfunction]
#[pyo3(signature = (path, *, cpus=None, policy=None, seed=None, placement=None, priorities=None, copies=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn load(
    py: Python<'_>,
    path: PathBuf,
    cpus: Option<i64>,
    policy: Option<String>,
    seed: Option<u64>,
    placement: Option<String>,
    priorities: Option<String>,
    copies: Option<BTreeMap<String, usize>>,
) -> PyResult<Workload> {
    let options = Settings { cpus, policy, seed, placement, priorities, copies }.options(py)?;
    read(py, options, move |options| takt::load(path, options))
}

/// Reads the text of a workload.
#[pyfunction]
#[pyo3(signature = (text, *, name=None, cpus=None, policy=None, seed=None, placement=None, priorities=None, copies=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn loads(
    py: Python<'_>,
    text: String,
    name: Option<String>,
    cpus: Option<i64>,
    policy: Option<String>,
    seed: Option<u64>,
    placement: Option<String>,
    priorities: Option<String>,
    copies: Option<BTreeMap<String, usize>>,
) -> PyResult<Workload> {
    let options = Settings { cpus, policy, seed, placement, priorities, copies }.options(py)?;
    let name = name.unwrap_or_else(|| "workload.yaml".into());
    read(py, options, move |options| takt::load_text(&name, &text, options))
}

/// A workload of the tasks in a table.
#[pyfunction]
#[pyo3(signature = (table, *, cpus=None, policy=None, seed=None, placement=None, priorities=None))]
pub(crate) fn tasks(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    cpus: Option<i64>,
    policy: Option<String>,
    seed: Option<u64>,
    placement: Option<String>,
    priorities: Option<String>,
) -> PyResult<Workload> {
    let options = Settings { cpus, policy, seed, placement, priorities, copies: None }.options(py)?;
    let text = csv(table)?;
    read(py, options, move |options| takt::load_text("tasks.csv", &text, options))
}

#[pymethods]
impl Workload {
    #[getter]
    fn name(&self) -> &str {
        &self.workload.source.name
    }

    #[getter]
    fn cpus(&self) -> usize {
        self.workload.system.cpus.len()
    }

    #[getter]
    fn tasks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.workload.tasks.iter().map(|task| &task.name))
    }

    fn check(&self, py: Python<'_>) -> PyResult<Check> {
        let workload = self.workload.clone();
        let check = native(py, move |_| takt::check(&workload))?;
        Ok(Check { check: check.map_err(|error| raised(py, error))? })
    }

    #[pyo3(signature = (tests=None, *, duration=None, sensitivity=false))]
    fn analyze(
        &self,
        py: Python<'_>,
        tests: Option<&Bound<'_, PyAny>>,
        duration: Option<&Bound<'_, PyAny>>,
        sensitivity: bool,
    ) -> PyResult<Analysis> {
        let workload = takt::Workload::clone(&self.workload);
        let (name, cpus) = (workload.source.name.clone(), workload.system.cpus.len());
        let subject = takt::analysis::Subject::of_workload(workload).map_err(|error| raised(py, error))?;
        let asked = Asked { tests: arguments::tests(tests)?, cpus, placement: None, priorities: None, sensitivity };
        analysis::asked(py, name, vec![subject], asked, duration)
    }

    #[pyo3(signature = (duration=None, *, policy=None, seed=None, trace=false, load=None, late=None, decided=None, allow_differences=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn simulate(
        &self,
        py: Python<'_>,
        duration: Option<&Bound<'_, PyAny>>,
        policy: Option<&Bound<'_, PyAny>>,
        seed: Option<u64>,
        trace: bool,
        load: Option<&Bound<'_, PyAny>>,
        late: Option<&str>,
        decided: Option<bool>,
        allow_differences: bool,
    ) -> PyResult<Simulation> {
        let factor = |given: &Bound<'_, PyAny>| -> PyResult<u32> {
            let text = arguments::number("load", given)?;
            takt::parse_factor(&text).map_err(|why| errors::value(format!("`load`: {why}")))
        };
        let mut options = SimulateOptions {
            duration: duration.map(|given| arguments::span("duration", given)).transpose()?,
            load: load.map(factor).transpose()?,
            late: arguments::late(late)?,
            priorities: self.rule,
            decided,
            allow_differences,
            trace,
            ..SimulateOptions::default()
        };
        let workload = match seed {
            None => self.workload.clone(),
            Some(seed) => Arc::new(self.seeded(seed)),
        };
        let own = match policy {
            None => None,
            Some(given) => function(given, workload.system.cpus.len())?,
        };
        let simulated = if let Some(own) = own {
            let (own, failed) = InPython::new(py, own, &workload);
            // The function needs the interpreter's lock at each decision, and signals are seen between its instructions.
            let mut interrupted = None;
            let simulated = takt::custom::simulate(&workload, Box::new(own), &options, |_| {
                interrupted = py.check_signals().err();
                interrupted.is_none()
            });
            let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(error) = failed.or(interrupted) {
                return Err(error);
            }
            simulated
        } else {
            if let Some(given) = policy {
                let Ok(name) = given.cast::<PyString>() else {
                    return Err(errors::value(format!(
                        "`policy` is the name of a policy or a function, not {}",
                        given.get_type().name()?
                    )));
                };
                options.policy = Some(takt::policy(name.to_str()?).map_err(|error| raised(py, error))?);
            }
            native(py, move |wanted| takt::simulate_while(&workload, &options, |_| wanted.holds()))?
        };
        Ok(Simulation::new(simulated.map_err(|error| raised(py, error))?))
    }

    fn __repr__(&self) -> String {
        let (tasks, cpus) = (self.workload.tasks.len(), self.cpus());
        format!("<Workload {}: {tasks} tasks, {cpus} CPUs>", self.workload.source.name)
    }
}

impl Workload {
    /// The workload with another seed.
    fn seeded(&self, seed: u64) -> takt::Workload {
        let mut workload = takt::Workload::clone(&self.workload);
        workload.system.seed = seed;
        if workload.settings.priorities.is_some() {
            let rule = self.rule.unwrap_or(Rule::RateMonotonic);
            workload.settings.priorities = takt::load::assign_priorities(rule, &mut workload.system, seed, 0);
        }
        workload
    }
}

/// The verdict about a workload.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Check {
    check: takt::Check,
}

#[pymethods]
impl Check {
    #[getter]
    fn verdict(&self) -> &'static str {
        match self.check.answer() {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::Unknown => "unknown",
        }
    }

    #[getter]
    fn schedulable(&self) -> Option<bool> {
        match self.check.answer() {
            Answer::Yes => Some(true),
            Answer::No => Some(false),
            Answer::Unknown => None,
        }
    }

    #[getter]
    fn text(&self) -> String {
        errors::in_python(&self.check.text())
    }

    #[getter]
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let json = serde_json::to_string(&self.check).map_err(|why| PyRuntimeError::new_err(why.to_string()))?;
        arguments::object(py, &json)
    }

    fn __repr__(&self) -> String {
        format!("<Check: {}>", self.verdict())
    }
}
