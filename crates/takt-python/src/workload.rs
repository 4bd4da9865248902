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
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use takt::{Answer, LoadOptions, Rule, SimulateOptions};

/// A workload that was read.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Workload {
    workload: Arc<takt::Workload>,
    /// The rule of the caller that assigned priorities.
    rule: Option<Rule>,
    /// The absolute path of its file; `None` for a text, and for a pipe.
    path: Option<PathBuf>,
    /// The caller's settings, as options of the command line.
    settings: Vec<(&'static str, String)>,
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
    /// The settings as options of the command line.
    fn words(&self) -> Vec<(&'static str, String)> {
        let copies = self.copies.iter().flatten().map(|(task, count)| ("copies", format!("{task}={count}")));
        let texts = [("policy", &self.policy), ("placement", &self.placement), ("priorities", &self.priorities)];
        let numbers = [("cpus", self.cpus.map(|n| n.to_string())), ("seed", self.seed.map(|n| n.to_string()))];
        let texts = texts.into_iter().map(|(name, value)| (name, value.clone()));
        let given = texts.chain(numbers).filter_map(|(name, value)| Some((name, value?)));
        given.chain(copies).collect()
    }

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
    settings: Settings,
    path: Option<PathBuf>,
    load: impl FnOnce(&LoadOptions) -> Result<takt::Workload, takt::Error> + Send + 'static,
) -> PyResult<Workload> {
    let (words, options) = (settings.words(), settings.options(py)?);
    let rule = options.priorities;
    let loaded = native(py, move |_| load(&options))?.map_err(|error| raised(py, error))?;
    let path = path.filter(|_| !loaded.source.is_pipe()).map(std::path::absolute).transpose()?;
    Ok(Workload { workload: Arc::new(loaded), rule, path, settings: words })
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
    let settings = Settings { cpus, policy, seed, placement, priorities, copies };
    read(py, settings, Some(path.clone()), move |options| takt::load(path, options))
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
    let settings = Settings { cpus, policy, seed, placement, priorities, copies };
    let name = name.unwrap_or_else(|| "workload.yaml".into());
    read(py, settings, None, move |options| takt::load_text(&name, &text, options))
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
    let settings = Settings { cpus, policy, seed, placement, priorities, copies: None };
    let text = csv(table)?;
    read(py, settings, None, move |options| takt::load_text("tasks.csv", &text, options))
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

    #[pyo3(signature = (duration=None, *, policy=None, seed=None, trace=false, mechanism="auto", scheduler_class=None, share_cpus=false, allow_differences=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn run<'py>(
        &self,
        py: Python<'py>,
        duration: Option<&Bound<'py, PyAny>>,
        policy: Option<&Bound<'py, PyAny>>,
        seed: Option<u64>,
        trace: bool,
        mechanism: &str,
        scheduler_class: Option<&str>,
        share_cpus: bool,
        allow_differences: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut words = self.settings.clone();
        let mut set = |name: &'static str, value: String| {
            words.retain(|(known, _)| *known != name);
            words.push((name, value));
        };
        if let Some(given) = duration {
            set("duration", format!("{}ns", arguments::span("duration", given)?.ns()));
        }
        if let Some(given) = policy {
            let name = given.cast::<PyString>();
            let name =
                name.map_err(|_| errors::value("a real run has a policy by its name: `policy` is no function"))?;
            set("policy", name.to_str()?.to_owned());
        }
        if let Some(seed) = seed {
            set("seed", seed.to_string());
        }
        let known = ["auto", "v2", "v1", "signal"].map(|name| (name, name));
        set("mechanism", arguments::named("mechanism", mechanism, &known)?.to_owned());
        if let Some(given) = scheduler_class {
            let known = ["fifo", "deadline"].map(|name| (name, name));
            set("scheduler-class", arguments::named("scheduler_class", given, &known)?.to_owned());
        }
        let flags = [("share-cpus", share_cpus), ("allow-differences", allow_differences)];
        let flags = flags.iter().filter(|(_, given)| *given).map(|(name, _)| format!("--{name}"));
        let options: Vec<String> = words.iter().map(|(name, value)| format!("--{name}={value}")).chain(flags).collect();
        let source = &self.workload.source;
        let path = self.path.as_ref().map(|path| self.unchanged(path)).transpose()?;
        let given = (&source.name, path, &source.text, options, trace);
        py.import("takt_rt._run")?.getattr("run")?.call1(given)
    }

    fn __repr__(&self) -> String {
        let (tasks, cpus) = (self.workload.tasks.len(), self.cpus());
        format!("<Workload {}: {tasks} tasks, {cpus} CPUs>", self.workload.source.name)
    }
}

impl Workload {
    /// The path of the file for a real run: as the caller wrote it, where that is still the same file.
    fn unchanged(&self, path: &Path) -> PyResult<PathBuf> {
        let source = &self.workload.source;
        if std::fs::read(path)? != source.text.as_bytes() {
            let message = format!("`{}` has changed since it was loaded", source.name);
            return Err(errors::value(format!("{message}\nhint: load it again")));
        }
        let is_same = std::path::absolute(&source.name).is_ok_and(|found| found == path);
        Ok(if is_same { PathBuf::from(&source.name) } else { path.to_owned() })
    }

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
