//! Takt as a library: real-time schedules for a program that checks, analyzes and simulates them.
//!
//! A program loads a workload, asks whether it is schedulable, and simulates it:
//!
//! ```
//! let text = "policy: edf\ntasks:\n- {name: a, period: 10ms, runtime: 6ms}\n- {name: b, period: 20ms, runtime: 8ms}\n";
//! let workload = takt::load_text("tasks.yaml", text, &takt::LoadOptions::default())?;
//! let check = takt::check(&workload)?;
//! assert_eq!(check.answer(), takt::Answer::Yes);
//!
//! let options = takt::SimulateOptions { trace: true, ..Default::default() };
//! let simulation = takt::simulate(&workload, &options)?;
//! let result = simulation.result();
//! assert_eq!((result.totals.jobs.released, result.totals.jobs.missed), (Some(3), Some(0)));
//! let chart = simulation.gantt(&Default::default()).unwrap();
//! assert!(chart.starts_with("<svg"));
//! # Ok::<(), takt::Error>(())
//! ```
//!
//! # Results
//! [`check()`] gives a [`Check`], [`simulate`] a [`Simulation`] with its [`SimulationResult`], and [`analyze`](analysis::analyze) an
//! [`Analysis`](analysis::Analysis). Each implements [`serde::Serialize`] with the keys of `takt check --json`, `takt sim --json` and
//! `takt analyze --json`, and gives the text of that command. Times are nanoseconds, and their keys end in `_ns`.
//!
//! # Errors
//! An [`Error`] has the faults of a workload with message, code, line, column and hint ([`Diagnostic`]), or an argument that cannot be
//! carried out.
//!
//! # Policies
//! Names of policies stand for those of [`takt_workload::registry`]. [`SimulateOptions::registry`] is another registry for one simulation.
//! [`custom::simulate`] takes a policy of the calling program.
//!
//! # Layers
//! Each line uses only lines below it.
//! ```text
//! custom.rs table.rs
//! check.rs check/*.rs simulation.rs analysis.rs generate.rs   the calls
//! verdicts.rs sets.rs schema.rs
//! aborts.rs report.rs report/*.rs                             results: an object for programs, a table for people
//! load.rs header.rs
//! error.rs
//! ```

mod aborts;
pub mod analysis;
pub mod check;
pub mod custom;
pub mod error;
pub mod generate;
pub mod header;
pub mod load;
pub mod report;
pub mod schema;
pub mod sets;
pub mod simulation;
pub mod table;
pub mod verdicts;

pub use aborts::Abort;
pub use check::{Check, check};
pub use error::{Diagnostic, Error};
pub use load::{LoadOptions, load, load_text, policy};
pub use schema::schema;
pub use simulation::{SimulateOptions, Simulation, SimulationResult, TaskResult, simulate, simulate_while};
pub use takt_analysis::online::Answer;
pub use takt_analysis::priorities::Rule;
pub use takt_core::cpus::MAX_CPUS;
pub use takt_core::model::{Late, OnAbort, Placement, PolicySpec};
pub use takt_core::time::{Span, Time};
pub use takt_trace::gantt::{SvgOptions, svg as trace_svg};
pub use takt_trace::{Format, ReadError, Trace, read as read_trace};
pub use takt_workload::{Diagnostic as Fault, MAX_TASKS, Workload, nearest, parse_duration, parse_factor};
