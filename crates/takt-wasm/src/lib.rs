//! Scheduling policies that are loaded as WebAssembly modules.
//!
//! [`load`] compiles a module and makes an [`Entry`](takt_core::policy::Entry) of it, which registries find by its name ([`entry`]). Its policy runs in
//! an interpreter, with a bound on the instructions of each answer and without more memory than it has when it is built. A module that does not
//! answer, or answers what no policy may, is replaced by the policy of its setting `fallback`, at the instant of that answer. Invariant: nothing
//! that a module does ends the engine, or reaches another task than its own.
//!
//! `takt-wasm-module` describes the interface.
#![forbid(unsafe_code)]

mod contents;
mod fault;
mod instance;
mod loaded;
mod module;
mod policy;

pub use contents::ask_for_memory_by;
pub use fault::{Failed, Fault, LoadError};
pub use loaded::{Loaded, all, entry, find};
pub use module::{load, load_bytes};
pub use policy::fallback;
