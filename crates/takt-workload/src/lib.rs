//! Workload files: what is to be scheduled, and what to run for it.
//!
//! [`load`] reads a YAML file (DEmOS's configuration files load as they are, Takt adds keys of its own) or a
//! task set in CSV, and gives the [`System`](takt_core::model::System) for the engine beside the names, commands and settings that the
//! engine does not need. Everything wrong with a file comes back at once, each fault as a [`Diagnostic`] that
//! knows its place in the text.
//!
//! This crate opens files only through [`Source::read`]; it starts nothing and prints nothing.
//!
//! # Layers
//! Each line uses only lines below it.
//! ```text
//! open.rs                                     a file of any form
//! demos.rs
//! document.rs yaml.rs csv.rs import/*.rs      the forms
//! runtimes.rs                                 other runtimes in a text
//! scenario.rs domains.rs table.rs tasks.rs rules.rs kernel.rs machine.rs power.rs platform.rs
//! events.rs
//! task.rs class.rs threads.rs process_settings.rs steps.rs calls.rs reactions.rs servers.rs load.rs policy.rs
//! keys.rs quantity.rs words.rs                the keys of a file and their values
//! reader.rs declared.rs                       keys, and the objects that the file has declared
//! task_names.rs
//! diagnostic.rs node.rs                       a fault with its place; the tree of a text
//! workload.rs process.rs settings.rs source.rs limits.rs
//! ```

mod calls;
mod canonical;
mod class;
mod code;
mod copies;
mod csv;
mod declared;
mod demos;
mod diagnostic;
mod domains;
mod drivers;
mod events;
mod freeze;
mod kernel;
pub mod keys;
mod known;
mod limits;
mod load;
mod machine;
mod node;
mod open;
mod platform;
mod policy;
mod power;
mod process;
mod process_settings;
pub mod quantity;
mod reactions;
mod reader;
mod reading;
mod rules;
mod runtimes;
mod scenario;
mod series;
mod servers;
mod settings;
mod simulated;
mod source;
mod steps;
mod switches;
mod table;
mod task;
mod task_names;
mod tasks;
mod text;
mod threads;
mod unbounded;
mod utility;
mod value;
mod words;
mod workload;
mod yaml;

pub mod document;
pub mod import;

pub use canonical::canonical;
pub use code::Code;
pub use copies::shift;
pub use csv::{TaskRows, load_sets};
pub use demos::demos_form;
pub use diagnostic::{Diagnostic, Severity};
pub use drivers::Driver;
pub use freeze::frozen;
pub use keys::keys_of;
pub use known::{know, know_power, power_registry, registry};
pub use limits::{
    DEFAULT_EXEC_LIMIT, DEFAULT_INIT_TIMEOUT, MAX_DIAGNOSTICS, MAX_ENTRIES, MAX_SERIES, MAX_TASKS, MAX_WINDOWS,
};
pub use load::{MAX_LOAD, parse_factor, scale};
pub use machine::number_not_count;
pub use open::load;
pub use platform::Description;
pub use policy::{ModuleFault, ModuleLoader, PolicyFault, load_modules_by, policy_from_text, policy_text};
pub use power::{power_argument, power_from_text, power_text, power_usage};
pub use process::{Class, EventSource, Observed, Output, ProcessSettings, Reaction, ResourceLimit, Spawn, TaskInfo};
pub use reading::Unreadable;
pub use runtimes::with_runtimes;
pub use settings::{
    AssignedPriorities, Client, Descriptors, Dispatch, MissingCpus, OnCrash, Options, Realtime, Settings,
};
pub use source::{INLINE, MAX_BYTES, Source, remedy};
pub use steps::runtime_of_steps;
pub use text::{shell_word, visible};
pub use utility::utility_text;
pub use value::{MAX_DURATION, duration_text, nearest, parse_cpus, parse_duration, parse_ratio};
pub use words::{LIMITS, LIMITS_IN_BYTES};
pub use workload::{Handed, Workload};
