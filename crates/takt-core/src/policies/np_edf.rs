//! Non-preemptive earliest deadline first.
//!
//! Jeffay, Stanat, Martel, "On Non-Preemptive Scheduling of Periodic and Sporadic Tasks", RTSS 1991; ChronOS' G-NP-EDF.
//! Invariant: a job that has started keeps its CPU until it ends, blocks or yields; a free CPU takes the waiting job whose
//! absolute deadline is earliest.

use crate::model::{CpuTest, Fact, Need, Order, Profile, TaskId};
use crate::policies::edf;
use crate::policies::scope::{self, Ordering};
use crate::policy::{Build, Context, Entry};

struct NonPreemptiveEdf {
    keeps_cpu: bool,
}

impl Ordering for NonPreemptiveEdf {
    const PREEMPTIVE: bool = false;
    const TRACKS_RUNNING: bool = true;

    fn new(build: &Build<'_>) -> Self {
        NonPreemptiveEdf { keeps_cpu: scope::keeps_cpu(&build.spec) }
    }
    fn rank(&mut self, task: TaskId, cx: &Context<'_>) -> i64 {
        edf::deadline(task, cx)
    }
    fn if_released_now(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        edf::floor(task, cx)
    }
    fn keeps_cpu(&self) -> bool {
        self.keeps_cpu
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "np-edf",
        summary: "earliest deadline first without preemption",
        scopes: scope::SCOPES,
        needs: &[Need::Deadline],
        facts: &[Fact::Order { by: Order::AbsoluteDeadline, preemptive: false }],
        test: CpuTest::Utilisation,
        settings: &[scope::SUCCESSOR],
    },
    manual: manual!(
        "\
Whenever a CPU is free, starts the ready job whose absolute deadline is earliest. A job that has started keeps its CPU until
it ends, blocks or yields.

**When.** Preemption is expensive or not possible. On one CPU it is optimal for sporadic tasks among the non-preemptive
policies that never idle. But a long job can make any short job miss its deadline, at any load. Under overload `g-np-edf`
switches and migrates less than `g-edf` and collapses like it.

**Ties.** The earlier release first, then the lower task number. Every task needs a deadline; background work can have a long one.

**Late jobs.** If the next job of a task has been released when a job ends, it queues with the others, like a new segment of
ChronOS. With `successor: keep` the job continues at once on the same CPU, like a task that never leaves it between two jobs.

**Resources.** Protocols matter only for jobs that block while they hold a resource, because a running job is not preempted.

**Windows.** In a partition of a window table, a job that was stopped by the end of a window is the first to continue in the
next one.

**Cost.** O(ready jobs) per release and completion, O(m) per decision.

**Source.** Jeffay, Stanat, Martel, RTSS 1991; ChronOS Linux, DAC 2011 (G-NP-EDF).

**Example.** `policy: np-edf` with `tasks: [{name: l, runtime: 5ms, period: 10ms}, {name: s, runtime: 1ms, period: 10ms,
deadline: 3ms, offset: 1ms}]`: `s` waits until 5 ms and misses its deadline at 4 ms; `edf` meets both."
    ),
    build: scope::build::<NonPreemptiveEdf>,
};
