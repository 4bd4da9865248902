//! First in, first out.
//!
//! The order in which Linux's SCHED_FIFO runs threads of one priority (POSIX.1-2024, section 2.8.4), and ChronOS' FIFO and
//! G-FIFO. Invariant: no ready job waits while one runs that became ready later.

use crate::model::{CpuTest, Fact, Order, Profile, TaskId};
use crate::policies::scope::{self, Ordering, Urgency};
use crate::policy::{Build, Context, Entry};

/// The queue that jobs join at its end: those that become ready between two decisions have the same rank, and those that give
/// way at the same time come right behind them.
#[derive(Default)]
pub(super) struct Line {
    end: i64,
}

impl Line {
    /// The rank of a job that becomes ready now.
    pub(super) fn newcomer(&self) -> i64 {
        self.end
    }
    /// The place of a job that has run and queues again.
    pub(super) fn again(&self, task: TaskId, cx: &Context<'_>) -> Urgency {
        Urgency { rank: self.end + 1, release: cx.job(task).expect("it is ready").release }
    }
    /// A job that is released from now on comes later.
    pub(super) fn decided(&mut self) {
        self.end += 2;
    }
}

struct Fifo {
    line: Line,
    keeps_cpu: bool,
}

impl Ordering for Fifo {
    const WAKES_LAST: bool = true;

    fn new(build: &Build<'_>) -> Self {
        Fifo { line: Line::default(), keeps_cpu: scope::keeps_cpu(&build.spec) }
    }
    fn rank(&mut self, _: TaskId, _: &Context<'_>) -> i64 {
        self.line.newcomer()
    }
    fn if_released_now(&self, _: TaskId, _: &Context<'_>) -> i64 {
        self.line.newcomer()
    }
    fn requeue(&mut self, task: TaskId, cx: &Context<'_>) -> Urgency {
        self.line.again(task, cx)
    }
    fn decided(&mut self) {
        self.line.decided();
    }
    fn keeps_cpu(&self) -> bool {
        self.keeps_cpu
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "fifo",
        summary: "first in, first out: the job that became ready first runs until it ends or blocks",
        scopes: scope::SCOPES,
        needs: &[],
        facts: &[Fact::Order { by: Order::Readiness, preemptive: false }],
        test: CpuTest::Utilisation,
        settings: &[scope::SUCCESSOR],
    },
    manual: manual!(
        "\
Runs jobs in the order in which they became ready, by their release or by waking up. A running job continues until it ends,
blocks or yields, so there are no preemptions.

**When.** All jobs are equally important and short, or a baseline is needed. A long job delays all jobs released after it.
Jobs do not need a period or a deadline. (In a partition of a window table, `policy: fifo` is the table's own order: the
partition's processes one after the other.)

**Ties.** Among jobs that become ready at the same instant, the earlier release first, then the lower task number. A job that
yields, and the handler of an aborted job, go to the end of the queue.

**Late jobs.** If the next job of a task has been released when a job ends, it goes to the end of the queue, too. A new
segment of ChronOS does the same. With `successor: keep` the job continues at once on the same CPU, like a task that never
leaves it between two jobs.

**Resources.** With `locking: inheritance` the holder of a resource has the place in the queue of the first job that waits for it.

**Cost.** O(ready jobs) per release and completion, O(m) per decision.

**Source.** POSIX.1-2024, section 2.8.4 (SCHED_FIFO); ChronOS Linux, DAC 2011 (FIFO, G-FIFO).

**Example.** `policy: fifo` with `tasks: [{name: l, runtime: 5ms, period: 20ms}, {name: s, runtime: 1ms, period: 20ms,
offset: 1ms, deadline: 3ms}]`: `s` waits until 5 ms and misses its deadline at 4 ms."
    ),
    build: scope::build::<Fifo>,
};
