//! The kernel's own trace of a measurement, read from the pages of its rings (`trace_pipe_raw` of tracefs).
//!
//! Nothing here opens a file: the caller hands over the pages, and the texts by which the kernel describes its events.
//!
//! The pages have nanoseconds, where the text has microseconds, and the kernel formats nothing. Its descriptions (`format`,
//! `header_page`) give the places of the fields.

mod event;
mod format;
mod page;

pub use event::{
    Action, EVENTS, Event, Interrupt, KernelTrace, NOISE, Name, RETURNS, Source, Stage, Sum, TIMERLAT, Thread,
};
pub use format::Unexpected;
