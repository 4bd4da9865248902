//! The table as the file has it.

use crate::node::Place;
use crate::reader::Cpus;
use crate::task::RawTask;
use crate::value::{self, NS_PER_MS};
use takt_core::model::{PolicySpec, TableRules};
use takt_core::time::Span;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Sc,
    Be,
}

impl Role {
    /// The part of a window that the processes of a partition share unless they have budgets: best effort would never
    /// run if the safety-critical side took all.
    pub(super) fn default_budget(self, length: Span, processes: usize, rules: TableRules) -> Span {
        let n = processes.max(1) as i64;
        if rules == TableRules::Demos {
            let length = (length.ns() / NS_PER_MS) as f32;
            return Span::from_ms(value::demos_budget(length, self == Role::Sc, n as usize));
        }
        match self {
            Role::Sc => length.scaled(6, 10 * n),
            Role::Be => length.scaled(1, n),
        }
    }
}

pub(super) struct RawPartition {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) policy: Option<PolicySpec>,
    pub(super) processes: Vec<RawTask>,
    /// The window that it was defined in, and as what.
    pub(super) inside: Option<(Role, Span)>,
}

pub(super) enum Target {
    Name(String),
    Index(usize),
}

pub(super) struct RawSlice {
    pub(super) cpus: Option<Cpus>,
    pub(super) cpus_place: Place,
    pub(super) sc: Option<(Target, Place)>,
    pub(super) be: Option<(Target, Place)>,
    pub(super) frequency: Option<(f64, Place)>,
}

pub(super) struct RawWindow {
    pub(super) place: Place,
    pub(super) length: Option<Span>,
    pub(super) slices: Vec<RawSlice>,
}

/// The table as the file has it, its names not yet looked up.
#[derive(Default)]
pub(crate) struct Table {
    pub(super) partitions: Vec<RawPartition>,
    pub(super) windows: Vec<RawWindow>,
    pub(super) anonymous: usize,
    pub(super) processes: usize,
}
