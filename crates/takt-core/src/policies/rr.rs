//! Round robin.
//!
//! Kleinrock, "Analysis of a Time-Shared Processor", Naval Research Logistics Quarterly 11(1), 1964; POSIX.1-2024, section
//! 2.8.4 (SCHED_RR). Invariant: a job that has run for a quantum runs on only when nobody waits for its CPU.

use crate::model::{CpuTest, Fact, Kind, Order, PolicySpec, Profile, Setting, TaskId};
use crate::policies::fifo::Line;
use crate::policies::scope::{self, Ordering, Urgency};
use crate::policy::{Build, Context, Entry};
use crate::queue::Key;
use crate::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;

struct RoundRobin {
    line: Line,
    quantum: Span,
    /// Whether quanta end at multiples of the quantum.
    grid: bool,
    /// By task of the system: the end of the quantum that its job was last dispatched with; `None` when it needs a new one.
    ends: Vec<Option<Time>>,
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

    fn new(build: &Build<'_>) -> Self {
        let ends = vec![None; build.system.tasks.len()];
        let mut new = RoundRobin { line: Line::default(), quantum: Span::ZERO, grid: false, ends };
        new.set(&build.spec);
        new
    }
    fn rank(&mut self, task: TaskId, _: &Context<'_>) -> i64 {
        self.ends[task.index()] = None;
        self.line.newcomer()
    }
    fn if_released_now(&self, _: TaskId, _: &Context<'_>) -> i64 {
        self.line.newcomer()
    }
    fn requeue(&mut self, task: TaskId, cx: &Context<'_>) -> Urgency {
        self.ends[task.index()] = None;
        self.line.again(task, cx)
    }
    fn turn_is_over(&self, task: TaskId, cx: &Context<'_>) -> bool {
        cx.place_of(task).is_some() && self.ends[task.index()].is_some_and(|end| end <= cx.now())
    }
    fn alarm(&mut self, running: &[TaskId], _: &[Key], cx: &Context<'_>) -> Option<Time> {
        let start = if self.grid { cx.now().round_down(self.quantum) } else { cx.now() };
        let fresh = start.saturating_add(self.quantum);
        let mut first = None;
        for &task in running {
            // A job that comes back to a CPU has a whole quantum before it.
            let kept = self.ends[task.index()].filter(|_| cx.place_of(task).is_some());
            let end = *self.ends[task.index()].insert(kept.unwrap_or(fresh));
            first = Some(first.map_or(end, |f: Time| f.min(end)));
        }
        first
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
            summary: "how long a job runs before it is the next one's turn",
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
end of the queue. Every dispatch starts a whole quantum, also after a wake-up.

**When.** No job may wait long for its first instruction, and nothing is known about deadlines; the baseline of the Hartstone
measurements. The shorter the quantum, the more switches, and the closer it comes to sharing the CPU evenly.

**Settings.** `quantum`, by default 1 ms. With `grid: yes` quanta end at multiples of the quantum on the clock, as on a
kernel that switches at every tick. A job that starts between two ticks gets only the rest.

**Ties.** Among jobs that become ready at the same instant, the earlier release first, then the lower task number. A job
whose quantum ends at that instant, or that yields, goes behind them.

**Resources.** With `locking: inheritance` the holder of a resource runs in the quanta of the jobs that wait for it. With
`locking: ceiling` it keeps its CPU until it unlocks the resource.

**Cost.** O(ready jobs) per release, completion and quantum, O(m) per decision, and one timer per quantum.

**Source.** Kleinrock, Naval Research Logistics Quarterly 11(1), 1964; POSIX.1-2024, section 2.8.4 (SCHED_RR).

**Example.** `policy: {name: rr, quantum: 2ms}` with two tasks of 3 ms that are released together. The first runs from 0 to 2
and from 4 to 5 ms, the second from 2 to 4 and from 5 to 6 ms."
    ),
    build: scope::build::<RoundRobin>,
};
