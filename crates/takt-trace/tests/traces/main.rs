//! Tests of the crate from outside, in one program.

mod common;
mod formats;
mod gantt;
mod perfetto;
