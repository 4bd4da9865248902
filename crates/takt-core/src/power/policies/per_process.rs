//! The frequencies of processes.

use super::per_slice::ON_CONFLICT;
use crate::cpus::CpuSet;
use crate::model::{BestEffortStart, PartitionId, TaskId};
use crate::power::{Build, Demander, Entry, Event, Fault, PowerPolicy, Profile, Requests, Uses};
use crate::record::Place;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

struct PerProcess {
    /// By domain and task: the index of the frequency that it asks for there.
    points: Vec<Vec<Option<u16>>>,
    /// The running tasks that ask for one.
    running: Vec<(TaskId, Place)>,
}

/// The demands of a domain that were found so far in those parts of a window that are active at the same time. Two that differ are enough.
type Found = [Option<(Demander, u32)>; 2];

/// Notes a demand.
///
/// # Errors
/// A demand of another part that differs.
fn note(found: &mut Found, earlier: &Found, domain: usize, by: Demander, khz: u32) -> Result<(), Fault> {
    if let Some(first) = earlier.iter().flatten().find(|(_, other)| *other != khz) {
        return Err(Fault::Conflict { domain, first: *first, second: (by, khz) });
    }
    if found.iter().flatten().all(|(_, other)| *other != khz)
        && let Some(free) = found.iter_mut().find(|free| free.is_none())
    {
        *free = Some((by, khz));
    }
    Ok(())
}

impl PerProcess {
    fn new(build: &Build<'_>) -> Result<PerProcess, Fault> {
        let (tasks, domains) = (build.system.tasks.len(), build.platform.domains.len());
        let mut points = vec![vec![None; tasks]; domains];
        let reach = reach(build);
        for (index, cpus) in reach.iter().enumerate() {
            let task = TaskId(index as u32);
            let Some(khz) = build.demands.task(task) else { continue };
            for (domain, of) in build.platform.domains.iter().enumerate() {
                if !of.cpus.is_disjoint(cpus) {
                    points[domain][index] = Some(build.demanded(domain, khz, Demander::Task(task))?);
                }
            }
        }
        if build.spec.number(ON_CONFLICT.name, 0) == 0 {
            agree(build, &reach)?;
        }
        Ok(PerProcess { points, running: Vec::with_capacity(build.system.cpus.len()) })
    }

    /// The highest frequency that the running tasks ask for, where some ask for one.
    fn request(&self, requests: &mut Requests<'_>) {
        for (domain, of) in self.points.iter().enumerate() {
            let here = |place: &Place| requests.domains_of(*place).contains(&(domain as u16));
            let point =
                |(task, place): &(TaskId, Place)| of.get(task.index()).copied().flatten().filter(|_| here(place));
            if let Some(point) = self.running.iter().filter_map(point).max() {
                requests.set_point(domain, usize::from(point));
            }
        }
    }
}

/// By task: the CPUs on which it may ever run.
fn reach(build: &Build<'_>) -> Vec<CpuSet> {
    let system = build.system;
    let mut reach: Vec<CpuSet> = system.tasks.iter().map(|task| task.affinity.intersection(&system.cpus)).collect();
    if system.windows.is_empty() {
        return reach;
    }
    let mut partitions = vec![CpuSet::EMPTY; system.partitions.len()];
    for slice in system.windows.iter().flat_map(|window| &window.slices) {
        for partition in [slice.sc, slice.be].into_iter().flatten() {
            partitions[partition.index()] = partitions[partition.index()].union(&slice.cpus);
        }
    }
    for (partition, cpus) in system.partitions.iter().zip(partitions) {
        partition.tasks.iter().for_each(|task| reach[task.index()] = cpus);
    }
    reach
}

/// Finds tasks that may run at the same time and ask for different frequencies of one domain.
fn agree(build: &Build<'_>, reach: &[CpuSet]) -> Result<(), Fault> {
    let (system, domains) = (build.system, &build.platform.domains);
    let demand = |task: TaskId| build.demands.task(task);
    if system.windows.is_empty() {
        for (domain, of) in domains.iter().enumerate().filter(|(_, of)| of.cpus.intersection(&system.cpus).len() > 1) {
            let mut found: Found = [None; 2];
            for index in (0..system.tasks.len()).filter(|index| !of.cpus.is_disjoint(&reach[*index])) {
                let task = TaskId(index as u32);
                if let Some(khz) = demand(task) {
                    let earlier = found;
                    note(&mut found, &earlier, domain, Demander::Task(task), khz)?;
                }
            }
        }
        return Ok(());
    }
    let mut earlier: Vec<Found> = vec![[None; 2]; domains.len()];
    for window in &system.windows {
        // Both sides of a window are active at the same time only where each slice is independent of the others.
        let passes: &[&[bool]] = match system.be_start {
            BestEffortStart::AllDone => &[&[true], &[false]],
            BestEffortStart::SliceDone => &[&[true, false]],
        };
        for sides in passes {
            earlier.fill([None; 2]);
            for slice in &window.slices {
                let of_side = |critical: &bool| if *critical { slice.sc } else { slice.be };
                let partitions = || sides.iter().filter_map(of_side).map(PartitionId::index);
                for (domain, of) in domains.iter().enumerate().filter(|(_, of)| !of.cpus.is_disjoint(&slice.cpus)) {
                    let mut found = earlier[domain];
                    for partition in partitions().map(|index| &system.partitions[index]) {
                        // With a policy of its own, several tasks of a partition can run.
                        let several = partition.policy.is_some() && of.cpus.intersection(&slice.cpus).len() > 1;
                        for &task in &partition.tasks {
                            if let Some(khz) = demand(task) {
                                let others = if several { found } else { earlier[domain] };
                                note(&mut found, &others, domain, Demander::Task(task), khz)?;
                            }
                        }
                    }
                    earlier[domain] = found;
                }
            }
        }
    }
    Ok(())
}

impl PowerPolicy for PerProcess {
    fn event(&mut self, event: &Event, requests: &mut Requests<'_>) {
        match *event {
            Event::ProcessStart { task, place } => {
                let asks = self.points.iter().any(|of| of.get(task.index()).is_some_and(Option::is_some));
                if asks && self.running.len() < self.running.capacity() {
                    self.running.push((task, place));
                    self.request(requests);
                }
            }
            Event::ProcessEnd { task, .. } => {
                let before = self.running.len();
                self.running.retain(|(running, _)| *running != task);
                if self.running.len() < before {
                    self.request(requests);
                }
            }
            _ => {}
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "per_process",
        aliases: &["imx8_per_process"],
        summary: "the frequency that the running process asks for",
        parameters: &[ON_CONFLICT],
        uses: Uses { slices: false, processes: true, budgets: false, windows: false, frequencies: true, latencies: false },
    },
    manual: manual!(
        "\
When a process starts, the domains of its CPUs get its frequency, by the key `frequency` in megahertz. A process without one leaves the
frequencies as they are. Processes that can run at the same time and ask for different frequencies of one domain are refused before
anything starts; with `on_conflict=highest` the domain gets the highest of them while they run.

**When.** Processes are known to need different frequencies.

**Cost.** O(CPUs × domains) per start of such a process.

**Source.** The DEmOS program, which ends in the middle of the schedule at such a conflict.

**Example.** `partitions: [{name: A, processes: [{cmd: ./control, budget: 40, frequency: 1200}]}]`"
    ),
    build: |build| Ok(Box::new(PerProcess::new(build)?)),
};
