//! Where the time of a simulated machine went.

use takt_core::scenario::Costs;
use takt_core::time::Span;

/// The costs of a simulation, and the use of the CPUs. For each CPU `worked + overhead + stolen + idle` is the simulated time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// How often the engine was asked for a decision.
    pub steps: u64,
    /// How often a CPU ran the scheduler.
    pub scheduler_runs: u64,
    /// How often a CPU was interrupted by another one, to enter the scheduler.
    pub interrupts: u64,
    /// How often a CPU came to the scheduler and waited there for another one.
    pub blocked_entries: u64,
    /// The charges of each kind, summed over the jobs. A job that is aborted or cut off takes along what it has not paid,
    /// so this may be more than what the CPUs spent.
    pub charged: Costs,
    /// By index of the CPU in the system.
    pub cpus: Vec<CpuTime>,
    /// By task.
    pub tasks: Vec<TaskTime>,
    /// Energy and temperatures, where the scenario has a power model.
    pub power: Option<PowerReport>,
}

/// Energy and temperatures of a simulated machine. Attojoules are 10^-18 J.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PowerReport {
    /// By frequency domain.
    pub domains: Vec<DomainEnergy>,
    /// Energy outside the CPUs that is drawn at any time.
    pub base_aj: u128,
    /// Energy outside the CPUs while some CPU ran something.
    pub outside_aj: u128,
    /// By task: the energy of the CPUs that it held, while it held them.
    pub tasks_aj: Vec<u128>,
    /// By thermal zone.
    pub zones: Vec<ZoneTemperatures>,
}

impl PowerReport {
    /// The energy of all CPUs, idle ones included, and of what is outside them.
    #[must_use]
    pub fn total_aj(&self) -> u128 {
        self.domains.iter().map(|domain| domain.energy_aj).sum::<u128>() + self.base_aj + self.outside_aj
    }
}

/// The energy of a frequency domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainEnergy {
    /// Energy of its CPUs, busy and idle.
    pub energy_aj: u128,
    /// By frequency: for how long the domain had it.
    pub times: Vec<Span>,
}

/// Temperatures of a thermal zone in thousandths of a degree Celsius.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneTemperatures {
    /// At the start.
    pub first: i32,
    /// At the end.
    pub last: i32,
    /// The highest one.
    pub highest: i32,
}

/// The use of a CPU.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CpuTime {
    /// It was held by a job that made progress.
    pub worked: Span,
    /// It was held by a job that paid for what the machine costs.
    pub overhead: Span,
    /// It was held by a job while another job had it.
    pub stolen: Span,
    /// No job of the system held it.
    pub idle: Span,
}

impl CpuTime {
    pub(crate) fn add(&mut self, spent: CpuTime) {
        self.worked += spent.worked;
        self.overhead += spent.overhead;
        self.stolen += spent.stolen;
        self.idle += spent.idle;
    }
}

/// The share of a task, on whatever CPUs; a task on several CPUs at once counts once.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TaskTime {
    /// Time that its jobs held a CPU, which is what budgets count.
    pub received: Span,
    /// The part of it in which they made progress.
    pub worked: Span,
}

impl core::ops::AddAssign for TaskTime {
    fn add_assign(&mut self, other: TaskTime) {
        self.received += other.received;
        self.worked += other.worked;
    }
}
