//! The native part of the Python package `takt-rt`: workloads, results and policies of `takt` as classes of Python.
//!
//! `python/takt_rt/_native.pyi` describes each class and function for callers. Native work runs without the interpreter's lock
//! (`background.rs`), and a table is exported by Arrow's C interface (`table.rs`).
//!
//! # Layers
//! Each line uses only lines below it.
//! ```text
//! workload.rs analysis.rs    the calls
//! simulation.rs policy.rs run.rs
//! table.rs arguments.rs
//! background.rs errors.rs
//! ```

#![forbid(unsafe_code)]

mod analysis;
mod arguments;
mod background;
mod errors;
mod policy;
mod run;
mod simulation;
mod table;
mod workload;

use pyo3::prelude::*;

/// The native part of `takt_rt`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("NEVER", policy::NEVER)?;
    module.add_class::<workload::Workload>()?;
    module.add_class::<workload::Check>()?;
    module.add_class::<simulation::Simulation>()?;
    module.add_class::<simulation::Gantt>()?;
    module.add_class::<analysis::Analysis>()?;
    module.add_class::<policy::Policy>()?;
    module.add_class::<policy::Job>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(workload::load, module)?)?;
    module.add_function(wrap_pyfunction!(workload::loads, module)?)?;
    module.add_function(wrap_pyfunction!(workload::tasks, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::analyze, module)?)?;
    module.add_function(wrap_pyfunction!(analysis::generate, module)?)?;
    module.add_class::<run::Records>()?;
    module.add_function(wrap_pyfunction!(run::tasks_of_run, module)?)?;
    module.add_function(wrap_pyfunction!(run::table_of_csv, module)?)?;
    module.add_function(wrap_pyfunction!(run::duration, module)?)?;
    module.add_function(wrap_pyfunction!(run::in_python, module)?)
}
