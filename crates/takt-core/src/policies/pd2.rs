//! PD²: Pfair scheduling by pseudo-deadline with two tie-breaks.
//!
//! Anderson and Srinivasan, "Mixed Pfair/ERfair Scheduling of Asynchronous Periodic Tasks", Journal of Computer and System
//! Sciences 68(1), 2004. Invariant: when the weights sum to at most m, subtask i of a job is scheduled in its window, so that
//! a job has had within one quantum of its share at all times.
//!
//! The proof requires releases on the grid of quanta. Therefore only periods are restricted to it; a runtime off the grid costs its
//! rounding, which is the price of quanta.

use crate::model::{CpuTest, Fact, Invalid, Kind, Need, PolicySpec, Profile, Scope, Setting, Task, TaskId};
use crate::policies::mapping::Mapper;
use crate::policies::pfair::{self, Urgency, Window};
use crate::policy::{Build, Context, Decision, Entry, Event, Policy};
use crate::record::Place;
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

const QUANTUM_DEFAULT: Span = Span::from_ms(1);
const QUANTUM: Setting = Setting {
    name: "quantum",
    kind: Kind::Duration(Span::from_ns(1), Span::from_secs(10)),
    default: "1ms",
    summary: "time between decisions",
};
const EARLY: Setting = Setting {
    name: "early",
    kind: Kind::Choice(&["no", "yes"]),
    default: "no",
    summary: "whether the later subtasks of a job may run before their windows (ERfair)",
};

/// A task's weight: so many quanta in so many.
#[derive(Clone, Copy, Debug)]
struct Weight {
    e: i64,
    p: i64,
}

struct Pd2 {
    tasks: Vec<TaskId>,
    quantum: Span,
    early: bool,
    /// By task of the system, like `base`; only those of `tasks` mean something.
    weights: Vec<Weight>,
    /// The quantum in which the windows of the task's job begin.
    base: Vec<i64>,
    timer: u16,
    /// The quantum that the timer announces; it may be noticed late.
    next: i64,
    /// A quantum begins.
    boundary: bool,
    /// The tasks that run in this quantum, the most urgent first.
    chosen: Vec<TaskId>,
    /// The most CPUs that it is ever lent.
    cpus: usize,
    /// Scratch: eligible subtasks, and jobs that have none left.
    eligible: Vec<Urgency>,
    rest: Vec<(Time, Time, TaskId)>,
    mapper: Mapper,
}

impl Pd2 {
    fn new(build: &Build<'_>) -> Result<Pd2, Invalid> {
        pfair::check(build)?;
        let n = build.tasks.len();
        let mut policy = Pd2 {
            tasks: build.tasks.to_vec(),
            quantum: QUANTUM_DEFAULT,
            early: false,
            weights: vec![Weight { e: 1, p: 1 }; build.system.tasks.len()],
            base: vec![0; build.system.tasks.len()],
            timer: build.first_timer,
            next: i64::MAX,
            boundary: true,
            chosen: Vec::with_capacity(n),
            cpus: build.places.len(),
            eligible: Vec::with_capacity(n),
            rest: Vec::with_capacity(n),
            mapper: Mapper::new(build, build.tasks, build.places),
        };
        policy.tune(&build.spec);
        for &task in build.tasks {
            let described = &build.system.tasks[task.index()];
            let times = [described.deadline, described.arrival.period()];
            if times.into_iter().flatten().any(|t| t < policy.quantum) {
                return Err(Invalid::Unsuitable("a deadline or period is shorter than the quantum of pd2"));
            }
            policy.weigh(task, described);
        }
        Ok(policy)
    }

    fn tune(&mut self, spec: &PolicySpec) {
        self.quantum = spec.value(QUANTUM.name).map_or(QUANTUM_DEFAULT, Span::from_ns);
        self.early = spec.value(EARLY.name) == Some(1);
    }

    /// Rounds a task to whole quanta, to the safe side: its runtime up, its deadline (at most its period) down.
    fn weigh(&mut self, task: TaskId, described: &Task) {
        let (runtime, quantum) = (described.runtime.unwrap_or(self.quantum).ns(), self.quantum.ns());
        let times = [described.deadline, described.arrival.period()];
        let p = times.into_iter().flatten().min().map_or(1, |t| (t.ns() / quantum).max(1));
        self.weights[task.index()] = Weight { e: ((runtime + quantum - 1) / quantum).min(p), p };
    }

    /// The quantum that contains the instant.
    fn slot(&self, at: Time) -> i64 {
        at.ns() / self.quantum.ns()
    }

    /// Which subtask the job is at. What is measured may fall short of whole quanta a little, so it is rounded.
    fn subtask(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        let (quantum, consumed) = (self.quantum.ns(), cx.job(task).map_or(0, |job| job.consumed.ns()));
        consumed / quantum + i64::from(consumed % quantum > quantum / 2)
    }

    /// The task can run, from the next quantum on. The window of its next subtask does not begin earlier: the time that it was
    /// away or late is not made up for at the cost of others.
    fn arrive(&mut self, task: TaskId, cx: &mut Context<'_>) {
        let Weight { e, p } = self.weights[task.index()];
        let slot = self.slot(cx.now() + self.quantum - Span::from_ns(1));
        let i = self.subtask(task, cx).min(e - 1);
        let base = &mut self.base[task.index()];
        *base = (*base).max(slot - Window::new(e, p, i).release);
        if slot < self.next {
            self.announce(slot, cx);
        }
    }

    /// Sets the timer to the beginning of a quantum.
    fn announce(&mut self, slot: i64, cx: &mut Context<'_>) {
        self.next = slot;
        cx.set_timer(self.timer, Time::ZERO + self.quantum * slot);
    }

    /// Chooses for the quantum that begins.
    fn choose(&mut self, cx: &mut Context<'_>) {
        cx.visited(self.tasks.len());
        let slot = self.slot(cx.now());
        self.eligible.clear();
        self.rest.clear();
        for &task in self.tasks.iter().filter(|t| cx.is_ready(**t)) {
            let (Weight { e, p }, base) = (self.weights[task.index()], self.base[task.index()]);
            let i = self.subtask(task, cx);
            if i < e {
                let window = Window::new(e, p, i);
                let opens = if self.early { base } else { base + window.release };
                if opens <= slot {
                    self.eligible.push(window.urgency(base, task));
                }
            } else {
                let job = cx.job(task).expect("a ready task has a job");
                self.rest.push((job.deadline, job.release, task));
            }
        }
        self.eligible.sort_unstable();
        self.rest.sort_unstable();
        self.chosen.clear();
        let subtasks = self.eligible.iter().map(|&(.., task)| task);
        self.chosen.extend(subtasks.chain(self.rest.iter().map(|&(.., task)| task)).take(self.cpus));
        if self.tasks.iter().any(|t| cx.is_ready(*t)) {
            self.announce(slot + 1, cx);
        }
    }
}

impl Policy for Pd2 {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.base.fill(i64::MIN);
        self.next = i64::MAX;
        self.chosen.clear();
        for index in 0..self.tasks.len() {
            if cx.is_ready(self.tasks[index]) {
                self.arrive(self.tasks[index], cx);
            }
        }
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        match *event {
            Event::Release { task, .. } => {
                cx.grant_own(task);
                // A mode change may have come with it.
                self.weigh(task, cx.task(task));
                self.base[task.index()] = i64::MIN;
                self.arrive(task, cx);
            }
            Event::Handler { task, .. } => {
                self.chosen.retain(|t| *t != task);
                self.base[task.index()] = i64::MIN;
                self.arrive(task, cx);
            }
            Event::Wake { task } => self.arrive(task, cx),
            Event::Finish { task, .. } | Event::Block { task, .. } => self.chosen.retain(|t| *t != task),
            Event::Timer { .. } => (self.boundary, self.next) = (true, i64::MAX),
            _ => {}
        }
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        if self.boundary || cx.now().ns() % self.quantum.ns() == 0 {
            self.choose(cx);
            self.boundary = false;
        }
        // As many as ever fit are chosen, so that the most urgent have the CPUs that are there in each part of a quantum.
        self.mapper.map(self.chosen.iter().copied(), lent, cx, decision);
    }

    fn timers(&self) -> u16 {
        1
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "pd2",
        summary: "PD² Pfair scheduling in quanta: optimal on several identical CPUs",
        scopes: &[Scope::Global],
        needs: &[Need::Period, Need::Deadline, Need::Runtime],
        facts: &[
            Fact::Grid { setting: QUANTUM.name, default: QUANTUM_DEFAULT },
            Fact::Optimal,
            Fact::TimeDriven,
            Fact::IgnoresLocking,
        ],
        test: CpuTest::Utilisation,
        settings: &[QUANTUM, EARLY],
    },
    manual: manual!(
        "\
Rounds every task to E quanta in P (its runtime up, its deadline or period down) and cuts each job into E subtasks. Subtask
i, counted from zero, has the window from floor(P i / E) to ceil(P (i + 1) / E). In each quantum the m most urgent eligible
subtasks run. The earliest end of the window is first, then a window that overlaps the next one, then the later group
deadline. A chain of such windows ends at the group deadline. With `early: yes` the later subtasks of a job may run before
their windows (ERfair).

**When.** On m identical CPUs it meets every deadline of periodic and sporadic tasks under two conditions. The sum of E / P
is at most m, and the tasks keep to the grid of quanta (see below). Every job gets its share evenly, within one quantum. The
price is a decision in every quantum, and many preemptions and migrations.

**Quanta.** They begin at multiples of the quantum since the start of the schedule. A job that is released or wakes within a
quantum is considered at the next one. A job that ends within a quantum leaves its CPU idle until the next one. So the
guarantee needs releases at multiples of the quantum, and therefore such offsets and periods. A job released between two
multiples, as sporadic jobs may be, can be up to a quantum late. Runtimes and deadlines that are no multiples cost only their
rounding.

**Irregular jobs.** The windows of a job that was blocked or is released late begin when it is ready. So it does not catch up
at the expense of others. A job that uses more than its E quanta runs on CPUs that are otherwise idle, earliest deadline
first. The same holds for handlers beyond E quanta.

**Resources.** They are granted in the order of requests, without priority inheritance.

**Needs.** Periods, deadlines and runtimes, and tasks that may run on every CPU.

**Settings.** `quantum` (1 ms), `early` (no).

**Ties.** The lower task number.

**Cost.** O(n log n) per quantum for n tasks.

**Source.** Anderson and Srinivasan, JCSS 68(1), 2004; Srinivasan and Anderson, \"Optimal Rate-based Scheduling on
Multiprocessors\", STOC 2002, for sporadic jobs.

**Example.** Three tasks with a runtime of 2 ms and a period of 3 ms on two CPUs. The first and second task run in the first
millisecond, the third and first in the second, the second and third in the last. Global EDF misses a deadline there."
    ),
    build: |build| Ok(Box::new(Pd2::new(build)?)),
};
