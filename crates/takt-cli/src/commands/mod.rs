//! The subcommands.

pub(crate) mod analyze;
mod assignment;
pub(crate) mod bench;
pub(crate) mod burn;
pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod done;
pub(crate) mod freeze;
pub(crate) mod import;
pub(crate) mod output;
pub(crate) mod policies;
pub(crate) mod probe;
pub(crate) mod reference;
pub(crate) mod run;
pub(crate) mod sim;
pub(crate) mod steps;
pub(crate) mod sweep;
pub(crate) mod trace;
pub(crate) mod verdicts;
pub(crate) mod watch;
