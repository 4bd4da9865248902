//! Traces: what a simulation or a run did, record by record.
//!
//! A [`Writer`] takes the engine's records as they come and needs no more memory for a long run than for a short one.
//! JSON lines and CSV can be read back without loss ([`read`]); Perfetto's format is for looking at in its viewer.
//! A trace that was read can be drawn ([`gantt`], and [`page`] for a browser), counted ([`summary`]), checked against the rules of scheduling ([`check`])
//! and compared with another trace ([`diff`]). A response is divided by its causes ([`why`]). [`execution_times`] are measured runtimes. [`kernel`] reads the Linux kernel's own account of who ran, and
//! [`kernel_check`] checks a run against it.

pub mod check;
mod csv;
pub mod diff;
mod execution;
mod format;
pub mod gantt;
pub mod jobs;
mod jsonl;
pub mod kernel;
pub mod kernel_check;
pub mod live;
mod names;
mod out;
pub mod page;
mod perfetto;
mod quantity;
pub mod rounds;
mod row;
pub mod summary;
mod table;
pub mod timeline;
mod trace;
pub mod why;
pub mod window_table;

pub use execution::execution_times;
pub use format::{Format, Parts, START, is_trace_of, read, start_of, writer};
pub use quantity::Quantity;
pub use trace::{
    Change, DomainLabel, Footer, Header, Measured, MeterLabel, Part, ReadError, Stamped, TaskLabel, Trace, Writer,
};
