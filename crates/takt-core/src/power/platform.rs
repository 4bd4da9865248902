//! A machine for power policies: groups of CPUs with one frequency, and thermal zones.

use crate::cpus::CpuSet;
use crate::model::TaskId;
use crate::work::Speed;
use alloc::string::String;
use alloc::vec::Vec;

/// A frequency at which a group of CPUs can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatingPoint {
    /// The frequency in kilohertz.
    pub khz: u32,
    /// How much work a CPU does at this frequency.
    pub speed: Speed,
}

/// CPUs whose frequencies change together: what Linux calls a cpufreq policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrequencyDomain {
    /// Its name, as in `a53`.
    pub name: String,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// The frequencies, in ascending order; at least one.
    pub points: Vec<OperatingPoint>,
}

impl FrequencyDomain {
    /// The index of the lowest frequency that is not below `khz`, or of the highest one. O(log points).
    #[must_use]
    pub fn at_least(&self, khz: u32) -> usize {
        let index = self.points.partition_point(|point| point.khz < khz);
        index.min(self.points.len() - 1)
    }

    /// The index of exactly this frequency. O(log points).
    #[must_use]
    pub fn index(&self, khz: u32) -> Option<usize> {
        self.points.binary_search_by_key(&khz, |point| point.khz).ok()
    }

    /// The index of the lowest frequency whose speed is at least `millionths` of the nominal one, or of the highest one. O(points).
    #[must_use]
    pub fn fast_enough(&self, millionths: u64) -> usize {
        let enough = |point: &OperatingPoint| u64::from(point.speed.millionths()) >= millionths;
        self.points.iter().position(enough).unwrap_or(self.points.len() - 1)
    }
}

/// A machine for power policies.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Platform {
    /// Groups of CPUs with one frequency each, disjoint.
    pub domains: Vec<FrequencyDomain>,
    /// The names of the thermal zones.
    pub zones: Vec<String>,
    /// Whether jobs progress at the speeds of the frequencies: so in a simulation. A real machine does that by itself, and the engine
    /// must not count it a second time.
    pub simulated: bool,
}

/// The origin of a demand for a frequency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demander {
    /// An argument of the policy.
    Argument,
    /// A slice of a window, by their indexes.
    Slice(usize, usize),
    /// A process of a window table, or a task.
    Task(TaskId),
}

/// The frequencies that slices and processes ask for, in kilohertz.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Demands {
    /// By window and slice.
    pub slices: Vec<Vec<Option<u32>>>,
    /// By task.
    pub tasks: Vec<Option<u32>>,
}

impl Demands {
    /// The frequency of a slice.
    #[must_use]
    pub fn slice(&self, window: usize, slice: usize) -> Option<u32> {
        self.slices.get(window)?.get(slice).copied().flatten()
    }
    /// The frequency of a task.
    #[must_use]
    pub fn task(&self, task: TaskId) -> Option<u32> {
        self.tasks.get(task.index()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_is_the_lowest_that_is_not_below_what_is_asked_for() {
        let point =
            |khz, millionths| OperatingPoint { khz, speed: Speed::from_millionths(millionths).expect("not zero") };
        let points = [(600, 400_000), (900, 700_000), (1200, 1_000_000)].map(|(khz, speed)| point(khz, speed));
        let domain = FrequencyDomain { name: String::new(), cpus: CpuSet::first(1), points: points.to_vec() };
        assert_eq!([0, 600, 601, 900, 1200, 1201].map(|khz| domain.at_least(khz)), [0, 0, 1, 1, 2, 2]);
        assert_eq!([600, 601, 1200].map(|khz| domain.index(khz)), [Some(0), None, Some(2)]);
        assert_eq!([0, 400_000, 400_001, 2_000_000].map(|speed| domain.fast_enough(speed)), [0, 0, 1, 2]);
    }
}
