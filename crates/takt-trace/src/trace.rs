//! The parts of a trace, and its writers.

use crate::names;
use crate::quantity::Quantity;
use std::collections::BTreeMap;
use std::io;
use takt_core::cpus::CpuSet;
use takt_core::model::{Completion, PartitionId, ResourceId, WindowTable};
use takt_core::record::Record;
use takt_core::time::{Span, Time};

/// The header of a trace before its first record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The source of the records: `sim`, `run` or `kernel`.
    pub source: String,
    /// Name of the workload, usually its file.
    pub workload: String,
    /// The policy's name.
    pub policy: String,
    /// The policy's settings, as `quantum=2ms,cluster=4`; empty when all have their defaults.
    pub settings: String,
    /// The policy's scope: `uniprocessor`, `global`, `partitioned`, `clustered`, `table`.
    pub scope: String,
    /// Seed of everything that was drawn at random.
    pub seed: u64,
    /// The CPU sets that records name by index ([`takt_core::model::System::places`]); no set twice.
    pub places: Vec<CpuSet>,
    /// The CPUs that had the processes of these places in a real run, where the machine lacked some (`missing_cpus: remap`); empty
    /// where each place is itself.
    pub real_places: Vec<CpuSet>,
    /// The imaginary CPUs of tasks that the kernel schedules: such a task is on its own from the release of a job to the end.
    pub kernel_cpus: CpuSet,
    /// The tasks that records name by index. Tasks that were added during a run follow those of the workload.
    pub tasks: Vec<TaskLabel>,
    /// Names of the shared resources that records name by number; empty when they are unknown.
    pub resources: Vec<String>,
    /// The domains that records of switches name by number; empty without domains.
    pub domains: Vec<DomainLabel>,
    /// The policies that records of switches name by number, as the command line takes them; empty when none can be switched to.
    pub alternatives: Vec<String>,
    /// The frequency domains that records name by number, each with its CPUs; empty without a power policy.
    pub frequency_domains: Vec<String>,
    /// The thermal zones that records name by number; empty without a power policy.
    pub zones: Vec<String>,
    /// The meters that measured values name by number; empty where nothing is measured.
    pub meters: Vec<MeterLabel>,
    /// The partitions that records of skipped starts name by number; empty without a power policy.
    pub partitions: Vec<String>,
    /// Lengths of the windows of the major frame; empty without a window table.
    pub window_lengths: Vec<Span>,
    /// The window tables that records name, by number. A run learns of them while it runs. A trace need not have all of them.
    pub tables: BTreeMap<u16, WindowTable>,
    /// The window table that holds at the first record, if another one than that of the workload does: an earlier file of the trace has its takeover.
    pub table: Option<u16>,
    /// How long the run was to last.
    pub duration: Option<Span>,
    /// Wall-clock time at time zero, in nanoseconds since 1970.
    pub start_unix_ns: Option<u64>,
    /// `CLOCK_MONOTONIC` at time zero, in nanoseconds.
    pub start_monotonic_ns: Option<u64>,
}

/// How a task is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLabel {
    /// Its name. Names may repeat; then [`Header::labels`] tells tasks apart.
    pub name: String,
    /// The partition that it belongs to.
    pub partition: Option<String>,
    /// Its process, in a real run.
    pub pid: Option<u32>,
    /// The class of the kernel that schedules its process in a real run, as the workload has it; `None` if Takt does.
    pub class: Option<String>,
    /// The rule by which the end of jobs of a process of a window table is known: each of its releases is an activation, and a job is what
    /// one completion signal ends. `None` where each release is a job.
    pub completion: Option<Completion>,
    /// It was added during the run, so that the file of the workload need not have it.
    pub added: bool,
}

/// A part of the machine with a policy of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainLabel {
    /// Its name.
    pub name: String,
    /// Its policy at the start, as the command line takes it: `g-edf`.
    pub policy: String,
}

/// A quantity that the machine of a real run measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterLabel {
    /// Its name: `policy0`, `coretemp:Package id 0`, `package-0`.
    pub name: String,
    /// Its kind.
    pub quantity: Quantity,
}

/// The name with this index, or else a number.
fn named(names: &[String], index: usize, kind: &str) -> String {
    let name = names.get(index).filter(|name| !name.is_empty());
    name.cloned().unwrap_or_else(|| format!("{kind} {index}"))
}

impl Header {
    /// The policy with the prefix of its scope, as the command line takes it, without settings: `g-edf`.
    #[must_use]
    pub fn policy_name(&self) -> String {
        names::policy(&self.policy, &self.scope)
    }

    /// The title of a frequency domain: its name, or else its number.
    #[must_use]
    pub fn frequency_domain(&self, domain: u16) -> String {
        named(&self.frequency_domains, domain.into(), "frequency domain")
    }

    /// The title of a thermal zone: its name, or else its number.
    #[must_use]
    pub fn zone(&self, zone: u16) -> String {
        named(&self.zones, zone.into(), "zone")
    }

    /// The title of a meter: its name with what it measures, or else its number.
    #[must_use]
    pub fn meter(&self, meter: u16) -> String {
        let Some(label) = self.meters.get(usize::from(meter)) else { return format!("meter {meter}") };
        format!("{} {}, measured", label.name, label.quantity.title())
    }

    /// The title of a partition: its name, or else its number.
    #[must_use]
    pub fn partition(&self, partition: PartitionId) -> String {
        named(&self.partitions, partition.index(), "partition")
    }

    /// How a resource is called: by its name if it has one, else by its number.
    #[must_use]
    pub fn resource(&self, resource: ResourceId) -> String {
        let name = self.resources.get(usize::from(resource.0)).filter(|name| !name.is_empty());
        name.cloned().unwrap_or_else(|| format!("resource {}", resource.0))
    }

    /// The name of a place for people.
    #[must_use]
    pub(crate) fn place_title(&self, set: &CpuSet) -> String {
        if self.is_of_kernel(set) { "kernel".to_owned() } else { names::cpus_title(set) }
    }

    /// Whether a place is an imaginary CPU.
    pub(crate) fn is_of_kernel(&self, set: &CpuSet) -> bool {
        !set.is_disjoint(&self.kernel_cpus)
    }

    /// One name per task, no two alike: the task's name, with its number (`camera#3`) where names repeat.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let mut taken = std::collections::HashSet::new();
        let repeated: std::collections::HashSet<&str> =
            self.tasks.iter().map(|t| t.name.as_str()).filter(|n| !taken.insert(*n)).collect();
        let mut used: std::collections::HashSet<String> =
            self.tasks.iter().filter(|t| !repeated.contains(&*t.name)).map(|t| t.name.clone()).collect();
        let label = |(i, task): (usize, &TaskLabel)| {
            if !repeated.contains(&*task.name) {
                return task.name.clone();
            }
            let mut label = format!("{}#{i}", task.name);
            while !used.insert(label.clone()) {
                label.push('#');
            }
            label
        };
        self.tasks.iter().enumerate().map(label).collect()
    }
}

/// A record and when it became real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The decision of the engine, with the engine's instant.
    pub record: Record,
    /// When the driver had carried it out; the engine's instant in a simulation.
    pub applied: Time,
}

/// A change of a run from outside, and its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The instant of the engine's step that took it.
    pub at: Time,
    /// The sender's user.
    pub uid: u32,
    /// The sender's process.
    pub pid: u32,
    /// The command, as the command line has it.
    pub command: String,
}

/// `uid 0 pid 12: set left.period=40ms`.
impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Change { uid, pid, command, .. } = self;
        // A name in a command must not control a terminal.
        write!(f, "uid {uid} pid {pid}: ")?;
        command.chars().try_for_each(|c| if c.is_control() { f.write_str("?") } else { write!(f, "{c}") })
    }
}

/// A value that the machine of a real run measured. It is no record of the engine: no policy learned of it, and a replay does without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When it was read; the value holds until the next one of its meter.
    pub at: Time,
    /// The meter, as an index into [`Header::meters`].
    pub meter: u16,
    /// The value, in the unit of its [`Quantity`].
    pub value: i64,
}

/// The end of a trace that was closed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The end of the run.
    pub end: Time,
    /// Records that are missing because the driver could not keep up.
    pub dropped: u64,
}

/// A part of a trace after its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A record of the engine.
    Record(Stamped),
    /// A change of the run from outside.
    Change(Change),
    /// A measured value.
    Measured(Measured),
    /// A task that is added at this instant. Later records name it by the next index.
    Task(Time, TaskLabel),
    /// A window table that may take over from this instant on, and its number.
    Table(Time, u16, WindowTable),
    /// The end. No part follows.
    End(Footer),
}

/// A whole trace in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its header.
    pub header: Header,
    /// The records in the engine's order.
    pub records: Vec<Stamped>,
    /// Changes of the run from outside. Each follows the records of its instant.
    pub changes: Vec<Change>,
    /// Measured values, in the order of their instants.
    pub measured: Vec<Measured>,
    /// Its end; `None` when the writer did not get to it.
    pub footer: Option<Footer>,
}

impl Trace {
    /// The end of the run: as the footer says, else as planned if no record is later, else the last record.
    #[must_use]
    pub fn end(&self) -> Time {
        let last = self.records.iter().map(|r| r.applied.max(r.record.at)).max().unwrap_or(Time::ZERO);
        match (self.footer, self.header.duration) {
            (Some(footer), _) => footer.end,
            (None, Some(duration)) => last.max(Time::ZERO + duration),
            (None, None) => last,
        }
    }
}

/// Takes records and writes them somewhere. A writer that is dropped without [`Writer::finish`] leaves a trace without
/// an end, which can be read all the same.
pub trait Writer {
    /// Writes one record.
    ///
    /// # Errors
    /// The error of the output. Output is buffered, so an error may concern an earlier record.
    fn record(&mut self, record: &Stamped) -> io::Result<()>;

    /// Writes a change of the run from outside, after the records up to its instant. Outputs that are no traces ignore it.
    ///
    /// # Errors
    /// As [`Writer::record`].
    fn change(&mut self, change: &Change) -> io::Result<()> {
        let _ = change;
        Ok(())
    }

    /// Writes a measured value. Outputs that are no traces ignore it.
    ///
    /// # Errors
    /// As [`Writer::record`].
    fn measured(&mut self, measured: &Measured) -> io::Result<()> {
        let _ = measured;
        Ok(())
    }

    /// A task is added at this instant. Its records, which follow, name it by the next index. Outputs without names of tasks ignore it.
    ///
    /// # Errors
    /// As [`Writer::record`].
    fn task(&mut self, at: Time, task: &TaskLabel) -> io::Result<()> {
        let _ = (at, task);
        Ok(())
    }

    /// A window table may take over from this instant on. Records name it by this number.
    ///
    /// # Errors
    /// As [`Writer::record`].
    fn table(&mut self, at: Time, number: u16, table: &WindowTable) -> io::Result<()> {
        let _ = (at, number, table);
        Ok(())
    }

    /// Hands what was written so far to the output, so that it survives this process.
    ///
    /// # Errors
    /// The error of the output.
    fn flush(&mut self) -> io::Result<()>;

    /// Writes the end and hands everything to the output.
    ///
    /// # Errors
    /// The error of the output.
    fn finish(self: Box<Self>, footer: &Footer) -> io::Result<()>;
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The format is for writing only.
    #[error("a Perfetto trace cannot be read back; open it in ui.perfetto.dev, or write `.jsonl` or `.csv` instead")]
    WriteOnly,
    /// The trace breaks its format.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from one.
        line: usize,
        /// The fault.
        message: String,
    },
}
