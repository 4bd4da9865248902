//! Power and temperatures of a simulated machine. Integers throughout, so that every architecture computes the same.

use crate::time::Span;
use alloc::string::String;
use alloc::vec::Vec;

/// The power of the CPUs of a frequency domain, each of them, in nanowatts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterPower {
    /// By frequency: of a CPU that runs something.
    pub busy_nw: Vec<u64>,
    /// By frequency: of an idle CPU.
    pub idle_nw: Vec<u64>,
    /// The thermal node that it heats.
    pub node: usize,
}

/// A body of one temperature, which is a thermal zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThermalNode {
    /// The name of the zone.
    pub name: String,
    /// Heat capacity in millijoules per kelvin; above zero.
    pub capacity_mj: u64,
    /// Thermal resistance to the ambient in millikelvins per watt; above zero.
    pub ambient_mk: Option<u64>,
    /// Thermal resistances to other nodes, each pair once.
    pub links: Vec<(usize, u64)>,
    /// The temperature at the start in thousandths of a degree Celsius.
    pub initial: i32,
}

/// A simulated machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    /// By frequency domain.
    pub clusters: Vec<ClusterPower>,
    /// Power outside the CPUs at any time, in nanowatts. It heats the first node.
    pub base_nw: u64,
    /// Power outside the CPUs while at least one CPU runs something, in nanowatts. It heats the first node.
    pub outside_nw: u64,
    /// The thermal nodes; none for a machine without temperatures.
    pub nodes: Vec<ThermalNode>,
    /// The temperature of the surroundings in thousandths of a degree Celsius.
    pub ambient: i32,
    /// The period of temperature samples; above zero.
    pub sample: Span,
}
