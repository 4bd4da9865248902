//! Tests of the crate from outside, in one program.
mod common;
mod compare;
mod counting;
mod engine;
mod formats;
mod gantt;
mod live;
mod mutations;
mod rules;
mod tracking;
mod why;
