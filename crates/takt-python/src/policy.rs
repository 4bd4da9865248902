//! Policies that are functions of Python.

use crate::arguments::named;
use crate::errors;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::sync::{Arc, Mutex, PoisonError};
use takt::Time;
use takt::custom::{Choose, ReadyJob};

/// The deadline of a job that has none.
pub(crate) const NEVER: i64 = i64::MAX;

/// A ready job, as a policy sees it.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Job {
    #[pyo3(get)]
    task: Py<PyString>,
    job: ReadyJob,
}

#[pymethods]
impl Job {
    #[getter]
    fn index(&self) -> usize {
        self.job.task
    }
    #[getter]
    fn number(&self) -> u64 {
        self.job.job
    }
    #[getter]
    fn release(&self) -> i64 {
        self.job.release_ns
    }
    #[getter]
    fn deadline(&self) -> i64 {
        self.job.deadline_ns.unwrap_or(NEVER)
    }
    #[getter]
    fn remaining(&self) -> Option<i64> {
        self.job.remaining_ns
    }
    #[getter]
    fn consumed(&self) -> i64 {
        self.job.consumed_ns
    }
    #[getter]
    fn priority(&self) -> i64 {
        self.job.priority
    }
    #[getter]
    fn running(&self) -> bool {
        self.job.running
    }
    fn __repr__(&self, py: Python<'_>) -> String {
        let deadline = self.job.deadline_ns.map_or(String::new(), |deadline| format!(", deadline={deadline}"));
        format!("Job({} #{}, release={}{deadline})", self.task.bind(py), self.job.job, self.job.release_ns)
    }
}

/// The CPUs that a policy schedules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    One,
    All,
}

/// A function with the CPUs that it schedules.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Policy {
    function: Py<PyAny>,
    scope: Scope,
}

#[pymethods]
impl Policy {
    #[new]
    #[pyo3(signature = (function, *, scope="global"))]
    fn new(function: Py<PyAny>, scope: &str) -> PyResult<Policy> {
        let scope = named("scope", scope, &[("global", Scope::All), ("uniprocessor", Scope::One)])?;
        Ok(Policy { function, scope })
    }

    #[getter]
    fn scope(&self) -> &'static str {
        match self.scope {
            Scope::One => "uniprocessor",
            Scope::All => "global",
        }
    }

    #[getter]
    fn function(&self, py: Python<'_>) -> Py<PyAny> {
        self.function.clone_ref(py)
    }

    fn __call__<'py>(
        &self,
        py: Python<'py>,
        now: i64,
        ready: Bound<'py, PyAny>,
        cpus: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.function.bind(py).call1((now, ready, cpus))
    }
}

/// The function behind a policy of a caller, for a machine of so many CPUs; `None` for the name of a policy.
pub(crate) fn function<'py>(given: &Bound<'py, PyAny>, cpus: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Ok(policy) = given.cast::<Policy>() else {
        return Ok(given.is_callable().then(|| given.clone()));
    };
    if policy.get().scope == Scope::One && cpus > 1 {
        let message = format!("the policy schedules one CPU, and the machine has {cpus}");
        return Err(errors::value(format!(
            "{message}\nhint: load the workload with cpus=1, or write scope=\"global\""
        )));
    }
    Ok(Some(policy.get().function.bind(given.py()).clone()))
}

/// The exception with which a policy ended a simulation.
pub(crate) type Failed = Arc<Mutex<Option<PyErr>>>;

/// A policy in Python for the engine.
pub(crate) struct InPython {
    function: Py<PyAny>,
    /// By task.
    names: Vec<Py<PyString>>,
    failed: Failed,
}

impl InPython {
    /// The policy, and the place of the exception that it may raise.
    pub(crate) fn new(py: Python<'_>, function: Bound<'_, PyAny>, workload: &takt::Workload) -> (InPython, Failed) {
        let names = workload.tasks.iter().map(|task| PyString::new(py, &task.name).unbind()).collect();
        let failed = Failed::default();
        (InPython { function: function.unbind(), names, failed: failed.clone() }, failed)
    }

    /// Asks the function, and gives the indices of the tasks in its answer.
    fn ask(&self, py: Python<'_>, now: Time, ready: &[ReadyJob], cpus: usize, chosen: &mut Vec<usize>) -> PyResult<()> {
        let job = |job: &ReadyJob| Bound::new(py, Job { task: self.names[job.task].clone_ref(py), job: *job });
        let jobs = PyList::new(py, ready.iter().map(job).collect::<PyResult<Vec<_>>>()?)?;
        let answer = self.function.bind(py).call1((now.ns(), jobs, cpus))?;
        let wrong = |why: String| match errors::policy(py, now.ns(), &why, Some(answer.clone().unbind())) {
            Ok(error) | Err(error) => error,
        };
        let kind =
            |value: &Bound<'_, PyAny>| value.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
        let Ok(members) = answer.try_iter() else {
            return Err(wrong(format!("it is no list of jobs, but of type {}", kind(&answer))));
        };
        for member in members {
            let member = member?;
            let Ok(job) = member.cast::<Job>() else {
                return Err(wrong(format!("it has a member of type {} beside jobs", kind(&member))));
            };
            let (name, job) = (job.get().task.bind(py), &job.get().job);
            if !ready.iter().any(|ready| ready.task == job.task && ready.job == job.job) {
                return Err(wrong(format!("job {} of task `{name}` is not ready", job.job)));
            }
            if chosen.contains(&job.task) {
                return Err(wrong(format!("job {} of task `{name}` is in it twice", job.job)));
            }
            if chosen.len() == cpus {
                let lent = if cpus == 1 { "1 CPU".into() } else { format!("{cpus} CPUs") };
                return Err(wrong(format!("it has more than {cpus} jobs, and there is room on {lent}")));
            }
            chosen.push(job.task);
        }
        Ok(())
    }
}

impl Choose for InPython {
    fn choose(&mut self, now: Time, ready: &[ReadyJob], cpus: usize, chosen: &mut Vec<usize>) -> Result<(), String> {
        Python::attach(|py| self.ask(py, now, ready, cpus, chosen)).map_err(|error| {
            let message = error.to_string();
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            message
        })
    }
}
