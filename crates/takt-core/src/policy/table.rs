//! A window table as the policy of window tables follows it: with places instead of CPU sets, so that a step looks up none.

use crate::cpus::CpuSet;
use crate::model::{self, BestEffortStart, Invalid, PartitionId, WindowTable};
use crate::record::Place;
use crate::time::Span;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) length: Span,
    pub(crate) slices: Vec<Slice>,
}

#[derive(Debug)]
pub(crate) struct Slice {
    /// The whole CPU set, for a `fifo` partition.
    pub(crate) place: Place,
    /// Its CPUs one by one, for a partition with a policy.
    pub(crate) lent: Vec<Place>,
    pub(crate) sc: Option<usize>,
    pub(crate) be: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) windows: Vec<Window>,
    pub(crate) be_start: BestEffortStart,
    /// Scratch: whether the safety-critical side of each slice still has something to run.
    pub(crate) busy: Vec<bool>,
    /// By slice of the present window, for power policies.
    #[cfg(feature = "power")]
    pub(crate) sides: Vec<Side>,
}

/// The state of a slice of the present window, as the power policy knows it.
#[cfg(feature = "power")]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Side {
    /// Whether it is on its safety-critical side, as the policy last learnt.
    pub(crate) critical: Option<bool>,
    /// Whether the best-effort partition may run in this window, once it was asked.
    pub(crate) may_start: Option<bool>,
}

/// The single-CPU places of a set, in a system of these CPUs.
pub(crate) fn lent(set: &CpuSet, cpus: CpuSet) -> Vec<Place> {
    cpus.iter().zip(0..).filter(|(cpu, _)| set.contains(*cpu)).map(|(_, i)| Place(i)).collect()
}

impl Table {
    /// # Errors
    /// When a slice has a set of CPUs that is none of the places.
    pub(crate) fn new(
        windows: &[model::Window],
        be_start: BestEffortStart,
        cpus: CpuSet,
        places: &[CpuSet],
    ) -> Result<Table, Invalid> {
        let place_of: BTreeMap<CpuSet, Place> = places.iter().copied().zip((0..).map(Place)).collect();
        let unknown = Invalid::Unsuitable("a slice has a set of CPUs that the system did not begin with");
        let slice = |slice: &model::Slice| {
            Ok(Slice {
                place: *place_of.get(&slice.cpus).ok_or(unknown)?,
                lent: lent(&slice.cpus, cpus),
                sc: slice.sc.map(PartitionId::index),
                be: slice.be.map(PartitionId::index),
            })
        };
        let window = |window: &model::Window| {
            let slices = window.slices.iter().map(slice).collect::<Result<_, Invalid>>()?;
            Ok(Window { length: window.length, slices })
        };
        let most = windows.iter().map(|w| w.slices.len()).max().unwrap_or(0);
        let windows = windows.iter().map(window).collect::<Result<_, Invalid>>()?;
        Ok(Table {
            windows,
            be_start,
            busy: Vec::with_capacity(most),
            #[cfg(feature = "power")]
            sides: alloc::vec![Side::default(); most],
        })
    }
}

/// A window table that was built for the system of an engine, to be installed in it ([`crate::engine::Engine::install_table`]).
#[derive(Debug)]
pub struct PreparedTable(pub(crate) Box<Content>);

#[derive(Debug)]
pub(crate) struct Content {
    /// Its number among [`crate::model::System::tables`].
    pub(crate) to: u16,
    pub(crate) table: Table,
    pub(crate) described: WindowTable,
    /// It has not taken over; otherwise it is the table that was replaced.
    pub(crate) waits: bool,
}

impl PreparedTable {
    pub(crate) fn new(to: u16, table: Table, described: WindowTable) -> PreparedTable {
        PreparedTable(Box::new(Content { to, table, described, waits: true }))
    }
}
