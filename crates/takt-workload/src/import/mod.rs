//! Task sets in the words of other systems: ChronOS's test application, LITMUS^RT's command lines.
//!
//! An importer gives a [`crate::Workload`], which [`crate::canonical()`] writes as YAML. What cannot be carried over is a diagnostic with
//! its place in the file: a fault where the tasks would not be those of the file, a warning where only a detail is lost.

pub mod chronos;
mod finish;
pub mod litmus;
mod shell;
