//! The scenarios: which load, which class, and which CPUs.

use std::fmt;
use std::io;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;
use takt_linux::Half;
use takt_linux::disturbance;
use takt_linux::isolate::Step;
use takt_linux::rt::Class;

/// Where the measured task runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// On its CPU, with everything else.
    Shared,
    /// In a CPU set of its own, and nothing is moved away from its CPU.
    Set,
    /// In a group with half of its CPU, beside the group of the load.
    Half(Half),
    /// In an exclusive CPU set, from which everything movable is moved away.
    Isolated,
    /// The same with a second CPU, so that the task can move.
    IsolatedTwo,
    /// In the window of a schedule of `takt run`. The load is in the other window of its CPU.
    Windows,
    /// Outside: cyclictest measures.
    Peer,
}

/// A scenario by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) stress: bool,
    class: Kind,
    pub(super) place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Other,
    Nice,
    Fifo,
    Deadline,
    /// Above the threads of interrupts.
    Above,
    /// Below them.
    Below,
    /// With the threads of timers, softirqs and interrupts of its CPU raised above it.
    Raised,
}

const fn scenario(name: &'static str, stress: bool, class: Kind, place: Place, meaning: &'static str) -> Scenario {
    Scenario { name, meaning, stress, class, place }
}

const WEIGHT: Place = Place::Half(Half::Weight);
const QUOTA: Place = Place::Half(Half::Quota(Span::from_ms(10)));
const CONTAINER: Place = Place::Half(Half::Container(Span::from_ms(100)));

pub(super) const ALL: [Scenario; 20] = [
    scenario("idle", false, Kind::Other, Place::Shared, "no load, ordinary class"),
    scenario("idle-fifo", false, Kind::Fifo, Place::Shared, "no load, SCHED_FIFO: the floor of this machine"),
    scenario("stressed", true, Kind::Other, Place::Shared, "load, ordinary class"),
    scenario("nice", true, Kind::Nice, Place::Shared, "load, ordinary class with nice -20"),
    scenario("fifo", true, Kind::Fifo, Place::Shared, "load, SCHED_FIFO"),
    scenario("rt-above", true, Kind::Above, Place::Shared, "load, SCHED_FIFO above the threads of interrupts"),
    scenario("rt-below", true, Kind::Below, Place::Shared, "load, SCHED_FIFO below the threads of interrupts"),
    scenario(
        "rt-raised",
        true,
        Kind::Raised,
        Place::Shared,
        "load, SCHED_FIFO, threads of timers, softirqs and interrupts raised above it",
    ),
    scenario("deadline", true, Kind::Deadline, Place::Shared, "load, half of a CPU by the budget of SCHED_DEADLINE"),
    scenario("weight", true, Kind::Other, WEIGHT, "load with an equal weight on the same CPU, ordinary class"),
    scenario("quota", true, Kind::Other, QUOTA, "load with a quota of 5 ms in 10 ms on the same CPU, ordinary class"),
    scenario("windows", true, Kind::Other, Place::Windows, "half of the CPU by windows of `takt run`, ordinary class"),
    scenario("container", true, Kind::Other, CONTAINER, "task and load in a container with a quota of one CPU"),
    scenario("set", true, Kind::Other, Place::Set, "load, ordinary class, own CPU set, nothing moved away"),
    scenario("set-fifo", true, Kind::Fifo, Place::Set, "load, SCHED_FIFO, own CPU set, nothing moved away"),
    scenario("isolated", true, Kind::Other, Place::Isolated, "load, ordinary class, isolated CPU"),
    scenario("isolated-fifo", true, Kind::Fifo, Place::Isolated, "load, SCHED_FIFO, isolated CPU"),
    scenario("isolated-two", true, Kind::Other, Place::IsolatedTwo, "load, ordinary class, two isolated CPUs"),
    scenario("isolated-two-fifo", true, Kind::Fifo, Place::IsolatedTwo, "load, SCHED_FIFO, two isolated CPUs"),
    scenario(
        "cyclictest",
        false,
        Kind::Fifo,
        Place::Peer,
        "no load, SCHED_FIFO, measured by cyclictest; not by default",
    ),
];

impl Scenario {
    pub(super) fn named(name: &str) -> Option<Scenario> {
        ALL.into_iter().find(|scenario| scenario.name == name)
    }
    /// The scenarios that are measured when none is named.
    pub(super) fn by_default() -> Vec<Scenario> {
        ALL.into_iter().filter(|scenario| scenario.place != Place::Peer).collect()
    }
    /// The class of the measured task.
    ///
    /// # Errors
    /// The kernel has no threads of interrupts with which its priority could be compared.
    pub(super) fn class(self, priority: u8, period: Span) -> io::Result<Class> {
        let interrupts = || {
            let none = "this kernel has no threads of interrupts: it is no PREEMPT_RT kernel, and was booted without `threadirqs`";
            disturbance::interrupt_priority().ok_or_else(|| io::Error::other(none))
        };
        Ok(match self.class {
            Kind::Other | Kind::Nice => Class::Other,
            Kind::Fifo | Kind::Raised => Class::Fifo(priority),
            Kind::Above => Class::Fifo(interrupts()?.saturating_add(1).min(98)),
            Kind::Below => Class::Fifo(interrupts()?.saturating_sub(1).max(1)),
            Kind::Deadline => Class::Deadline { runtime: period.scaled(1, 2), deadline: period, period },
        })
    }
    /// Whether the threads of timers, softirqs and interrupts of its CPU have a priority above its own.
    pub(super) fn raises_threads(self) -> bool {
        self.class == Kind::Raised
    }
    /// Whether the load is in the task's container.
    pub(super) fn is_container(self) -> bool {
        matches!(self.place, Place::Half(Half::Container(_)))
    }
    pub(super) fn nice(self) -> i32 {
        if self.class == Kind::Nice { -20 } else { 0 }
    }
    /// The CPUs that the task is bound to; `None` where the kernel refuses that (SCHED_DEADLINE) or the set does it.
    pub(super) fn bound(self, cpus: &CpuSet) -> Option<CpuSet> {
        (self.class != Kind::Deadline && matches!(self.place, Place::Shared | Place::Half(_))).then_some(*cpus)
    }
    /// The steps of its isolation.
    pub(super) fn steps(self) -> Vec<Step> {
        match self.place {
            Place::Shared | Place::Set | Place::Half(_) | Place::Windows | Place::Peer => Vec::new(),
            Place::Isolated | Place::IsolatedTwo => Step::all().filter(|step| step.is_default()).collect(),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}
