//! Schedulability tests about task sets, and random task sets.

use crate::arguments::{self, csv};
use crate::background::native;
use crate::errors::{self, raised};
use crate::table::Table;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::path::PathBuf;
use takt::analysis::{Question, Subject};
use takt::generate::{Deadlines, Generator, Recipe, Utilisations};
use takt::{Placement, Rule, Span};

/// The most sets that one call draws.
const MAX_SETS: u64 = 10_000_000;

/// The simulated time of simulated policies, unless the caller gives another.
const SIMULATED: Span = Span::from_secs(60);

/// The question about task sets.
pub(crate) struct Asked {
    /// The tests by name, with commas between.
    pub(crate) tests: String,
    pub(crate) cpus: usize,
    pub(crate) placement: Option<Placement>,
    /// The rule and the seed that assign priorities.
    pub(crate) priorities: Option<(Rule, u64)>,
    pub(crate) sensitivity: bool,
}

/// The verdicts about task sets.
#[pyclass(frozen, module = "takt_rt")]
pub(crate) struct Analysis {
    analysis: takt::analysis::Analysis,
    name: String,
}

/// Asks tests about task sets.
#[pyfunction]
#[pyo3(signature = (sets, *, tests=None, cpus=1, duration=None, placement=None, priorities=None, seed=0, sensitivity=false))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn analyze(
    py: Python<'_>,
    sets: &Bound<'_, PyAny>,
    tests: Option<&Bound<'_, PyAny>>,
    cpus: i64,
    duration: Option<&Bound<'_, PyAny>>,
    placement: Option<&str>,
    priorities: Option<&str>,
    seed: u64,
    sensitivity: bool,
) -> PyResult<Analysis> {
    let rule = arguments::rule(priorities)?.unwrap_or(Rule::RateMonotonic);
    let cpus = arguments::cpus(Some(cpus))?.unwrap_or(1);
    let asked = Asked {
        tests: arguments::tests(tests)?,
        cpus,
        placement: arguments::placement(placement)?,
        priorities: Some((rule, seed)),
        sensitivity,
    };
    let (name, read): (String, Box<dyn FnOnce() -> _ + Send>) = match sets.extract::<PathBuf>() {
        Ok(path) => {
            if !takt::sets::is_csv(&path) {
                let message = format!("`{}` is no file of task sets: its name does not end in .csv", path.display());
                return Err(errors::value(format!("{message}\nhint: for a workload, use load(path).analyze()")));
            }
            (path.display().to_string(), Box::new(move || takt::sets::read(&path).map(|(_, sets)| sets)))
        }
        Err(_) => {
            let text = csv(sets)?;
            ("task sets".into(), Box::new(move || takt::sets::of_text("sets.csv", &text)))
        }
    };
    let sets = native(py, move |_| read())?.map_err(|error| raised(py, error))?;
    let subjects = sets.into_iter().map(|set| Subject::of_set(set, cpus)).collect();
    self::asked(py, name, subjects, asked, duration)
}

/// Asks about these sets; `name` is the name of their file.
pub(crate) fn asked(
    py: Python<'_>,
    name: String,
    subjects: Vec<Subject>,
    asked: Asked,
    duration: Option<&Bound<'_, PyAny>>,
) -> PyResult<Analysis> {
    let Asked { tests, cpus, placement, priorities, sensitivity } = asked;
    let methods = takt::verdicts::methods(&tests, cpus, placement).map_err(|error| raised(py, error))?;
    let duration = duration.map_or(Ok(SIMULATED), |given| arguments::span("duration", given))?;
    let question = Question { methods, cpus, duration, priorities, sensitivity, places: subjects.len() == 1 };
    let analysis = native(py, move |wanted| {
        // After an interrupt the remaining sets are left out, and nothing receives the result.
        let wanted = subjects.iter().enumerate().take_while(|_| wanted.holds());
        let answered = wanted.map(|(index, subject)| question.ask(index, subject)).collect();
        let analysis = takt::analysis::Analysis::new(question, answered, &subjects);
        analysis.silent().map(|_| analysis)
    })?;
    Ok(Analysis { analysis: analysis.map_err(|error| raised(py, error))?, name })
}

#[pymethods]
impl Analysis {
    #[getter]
    fn verdicts(&self) -> PyResult<Table> {
        Table::new(takt::table::Table::of_analysis(&self.analysis.result()))
    }

    #[getter]
    fn notes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let notes: Vec<String> = self.analysis.notes().iter().map(|note| errors::in_python(note)).collect();
        arguments::list(py, &notes)
    }

    #[getter]
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let json = serde_json::to_string(&self.analysis.result());
        arguments::object(py, &json.map_err(|why| PyRuntimeError::new_err(why.to_string()))?)
    }

    #[getter]
    fn text(&self) -> PyResult<String> {
        let mut out = Vec::new();
        match self.analysis.sets() {
            1 => self.analysis.table(false, false, &self.name, &mut out)?,
            _ => self.analysis.csv(false, &mut out)?,
        }
        Ok(errors::in_python(&String::from_utf8_lossy(&out)))
    }

    fn __len__(&self) -> usize {
        self.analysis.sets()
    }

    fn __repr__(&self) -> String {
        format!("<Analysis of {} task sets>", self.analysis.sets())
    }
}

/// Draws random task sets.
#[pyfunction]
#[pyo3(signature = (utilisation, sets=1, *, seed=1, generator="airs", tasks=10, periods="uniform:1ms..100ms", grid=None, deadlines="implicit"))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python")]
pub(crate) fn generate(
    py: Python<'_>,
    utilisation: &Bound<'_, PyAny>,
    sets: i64,
    seed: u64,
    generator: &str,
    tasks: usize,
    periods: &str,
    grid: Option<&Bound<'_, PyAny>>,
    deadlines: &str,
) -> PyResult<Table> {
    let total = takt::generate::total(&arguments::number("utilisation", utilisation)?);
    let total = total.map_err(|why| errors::value(format!("`utilisation`: {why}")))?;
    let sets = u64::try_from(sets).ok().filter(|sets| (1..=MAX_SETS).contains(sets));
    let sets = sets.ok_or_else(|| errors::value(format!("`sets` is a number from 1 to {MAX_SETS}")))?;
    if !(1..=takt::MAX_TASKS).contains(&tasks) {
        return Err(errors::value(format!("`tasks` is {tasks}, and a set has 1 to {} tasks", takt::MAX_TASKS)));
    }
    let generators = [
        ("airs", Utilisations::Airs),
        ("uunifast", Utilisations::UUniFast { tasks }),
        ("uunifast-discard", Utilisations::UUniFastDiscard { tasks }),
        ("randfixedsum", Utilisations::RandFixedSum { tasks }),
    ];
    let generator = Generator {
        utilisations: arguments::named("generator", generator, &generators)?,
        periods: takt::generate::periods(periods).map_err(|why| errors::value(format!("`periods`: {why}")))?,
        deadlines: arguments::named(
            "deadlines",
            deadlines,
            &[("implicit", Deadlines::Implicit), ("constrained", Deadlines::Constrained)],
        )?,
    };
    let grid = match grid {
        None => 1,
        Some(given) => {
            let text = match given.cast::<PyString>() {
                Ok(text) => text.to_str()?.to_owned(),
                Err(_) => format!("{}ns", arguments::span("grid", given)?.ns()),
            };
            takt::generate::us(&text).map_err(|why| errors::value(format!("`grid`: {why}")))?
        }
    };
    let recipe = Recipe { generator, total, grid, seed };
    let table = native(py, move |wanted| {
        let mut rows = Vec::new();
        for set in (0..sets).take_while(|_| wanted.holds()) {
            rows.extend(takt::generate::generate(&recipe, set)?);
        }
        Ok(takt::table::Table::of_sets(&rows))
    })?;
    Table::new(table.map_err(|error: takt::Error| raised(py, error))?)
}
