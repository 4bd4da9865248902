//! Round robin.
//!
//! Kleinrock, "Analysis of a Time-Shared Processor", Naval Research Logistics Quarterly 11(1), 1964; POSIX.1-2024, section
//! 2.8.4 (SCHED_RR). Invariants: a job that has run for a quantum continues only when no job waits for its CPU. An interrupted job
//! completes the unexpired part of its quantum, so that no interruption favours a job.

use crate::model::{CpuTest, Fact, Kind, Order, PolicySpec, Profile, Setting, TaskId};
use crate::policies::fifo::Line;
use crate::policies::scope::{self, Ordering, Urgency};
use crate::policy::{Build, Context, Entry};
use crate::queue::Key;
use crate::time::{Span, Time};
use crate::work::Work;
use alloc::vec;
use alloc::vec::Vec;

/// The quantum of a job.
#[derive(Clone, Copy)]
enum Quantum {
    /// The job needs a new one.
    Fresh,
    /// The job was dispatched with a quantum of this length, which ends then, when it had done this work.
    Begun { length: Span, end: Time, done: Work },
    /// The job was interrupted and has this left.
    Rest(Span),
}

struct RoundRobin {
    line: Line,
    quantum: Span,
    /// Whether quanta end at multiples of the quantum.
    grid: bool,
    /// By task of the system.
    quanta: Vec<Quantum>,
    /// How many jobs have queued again: among jobs that do so at one instant the first in turn stays the first.
    again: i64,
}

impl RoundRobin {
    fn set(&mut self, spec: &PolicySpec) {
        self.quantum = spec.value("quantum").map_or(Span::from_ms(1), Span::from_ns);
        self.grid = spec.value("grid") == Some(1);
    }
}

impl Ordering for RoundRobin {
    const TRACKS_RUNNING: bool = true;
    const TIMED: bool = true;
    const WAKES_LAST: bool = true;

    fn new(build: &Build<'_>) -> Self {
        let quanta = vec![Quantum::Fresh; build.system.tasks.len()];
        let mut new = RoundRobin { line: Line::default(), quantum: Span::ZERO, grid: false, quanta, again: 0 };
        new.set(&build.spec);
        new
    }
    fn rank(&mut self, task: TaskId, _: &Context<'_>) -> i64 {
        self.quanta[task.index()] = Quantum::Fresh;
        self.line.newcomer()
    }
    fn if_released_now(&self, _: TaskId, _: &Context<'_>) -> i64 {
        self.line.newcomer()
    }
    fn requeue(&mut self, task: TaskId, cx: &Context<'_>) -> Urgency {
        self.quanta[task.index()] = Quantum::Fresh;
        self.again += 1;
        Urgency { release: Time::from_ns(self.again), ..self.line.again(task, cx) }
    }
    /// An interrupted job keeps its place, and what it has left of its quantum.
    fn rerank(&mut self, task: TaskId, runs: bool, cx: &Context<'_>) -> Option<Urgency> {
        let Quantum::Begun { end, .. } = self.quanta[task.index()] else { return None };
        // A blocked job queues again when it wakes up.
        if runs || !cx.is_ready(task) {
            return None;
        }
        if end <= cx.now() {
            return Some(self.requeue(task, cx));
        }
        self.quanta[task.index()] = Quantum::Rest(end - cx.now());
        None
    }
    fn turn_is_over(&self, task: TaskId, cx: &Context<'_>) -> bool {
        let ended = |quantum: &Quantum| matches!(*quantum, Quantum::Begun { end, .. } if end <= cx.now());
        cx.place_of(task).is_some() && ended(&self.quanta[task.index()])
    }
    fn alarm(&mut self, running: &[TaskId], _: &[Key], cx: &Context<'_>) -> Option<Time> {
        let now = cx.now();
        let start = if self.grid { now.round_down(self.quantum) } else { now };
        let fresh = start.saturating_add(self.quantum);
        let mut first = None;
        for &task in running {
            let done = cx.consumed(task).unwrap_or(Work::ZERO);
            let end = match self.quanta[task.index()] {
                Quantum::Begun { end, .. } if cx.place_of(task).is_some() => end,
                // Its CPU was taken while this policy was not asked, at the end of a window: the work that it has done counts.
                Quantum::Begun { length, done: before, .. } => {
                    now + (length - (done - before).nominal_time()).max(Span::ZERO)
                }
                Quantum::Rest(left) => now + left,
                Quantum::Fresh => fresh,
            };
            if !(matches!(self.quanta[task.index()], Quantum::Begun { .. }) && cx.place_of(task).is_some()) {
                self.quanta[task.index()] = Quantum::Begun { length: end - now, end, done };
            }
            first = Some(first.map_or(end, |f: Time| f.min(end)));
        }
        first
    }
    fn turn(&self) -> Option<Span> {
        Some(self.quantum)
    }
    fn decided(&mut self) {
        self.line.decided();
    }
    /// Quanta that have begun end as they were to.
    fn configure(&mut self, spec: &PolicySpec) -> bool {
        self.set(spec);
        true
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "rr",
        summary: "round robin: ready jobs run for a quantum each",
        scopes: scope::SCOPES,
        needs: &[],
        facts: &[Fact::Order { by: Order::Turn, preemptive: true }],
        test: CpuTest::Utilisation,
        settings: &[
        Setting {
            name: "quantum",
            kind: Kind::Duration(Span::from_us(1), Span::from_secs(3600)),
            default: "1ms",
            summary: "how long a job runs before the next one",
        },
        Setting {
            name: "grid",
            kind: Kind::Choice(&["no", "yes"]),
            default: "no",
            summary: "whether quanta end at multiples of the quantum on the clock",
        },
    ],
    },
    manual: manual!(
        "\
Runs jobs in the order in which they became ready, each for at most `quantum`. A job that has used its quantum goes to the
end of the queue. A job that is interrupted, by a higher band, the end of a window or the holder of a resource, keeps its place and
completes the unexpired part of its quantum. A job that wakes up has a whole quantum.

**When.** No job may wait long for its first instruction, and nothing is known about deadlines; the baseline of the Hartstone
measurements. The shorter the quantum, the more switches, and the closer it comes to sharing the CPU evenly.

**Settings.** `quantum`, by default 1 ms. With `grid: yes` quanta end at multiples of the quantum on the clock, as on a
kernel that switches at every tick. A job that starts between two ticks gets only the rest. The rest of an interrupted quantum can end
between two ticks. The job then has a short quantum up to the next tick, and it queues behind the jobs whose quanta ended at the tick.
So shares on a grid can be unequal: 5 to 1 was seen where windows end in the middle of quanta. Without a grid they differ by at most
three quanta.

**Ties.** Among jobs that become ready at the same instant, the earlier release first, then the lower task number. A job
whose quantum ends at that instant, or that yields, goes behind them. Of jobs whose quanta end at one instant, the first in turn
stays the first, so that endless jobs on several CPUs get equal shares.

**Resources.** With `locking: inheritance` the holder of a resource runs in the quanta of the jobs that wait for it. With
`locking: ceiling` it keeps its CPU until it unlocks the resource.

**Cost.** O(ready jobs) per release, completion and quantum, O(m) per decision, and one timer per quantum.

**Source.** Kleinrock, Naval Research Logistics Quarterly 11(1), 1964; POSIX.1-2024, section 2.8.4 (SCHED_RR).

**Example.** `policy: {name: rr, quantum: 2ms}` with two tasks of 3 ms that are released together. The first runs from 0 to 2
and from 4 to 5 ms, the second from 2 to 4 and from 5 to 6 ms."
    ),
    build: scope::build::<RoundRobin>,
};
