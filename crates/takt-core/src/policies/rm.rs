//! Rate monotonic: fixed priorities by period.
//!
//! Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment", JACM 20(1), 1973.
//! Invariant: on the CPUs that it is lent, no ready job waits while a job of a task with a longer period runs.

use crate::model::{CpuTest, Fact, Need, Order, Profile, Task, TaskId};
use crate::policies::scope::{self, Ordering};
use crate::policy::{Build, Context, Entry};
use crate::time::Span;

struct Rm;

/// The period of the task; without one it is last.
fn rank(task: &Task) -> i64 {
    task.arrival.period().map_or(i64::MAX, Span::ns)
}

impl Ordering for Rm {
    const BY_TERMS: bool = true;

    fn new(_: &Build<'_>) -> Self {
        Rm
    }
    fn rank(&mut self, task: TaskId, cx: &Context<'_>) -> i64 {
        self.if_released_now(task, cx)
    }
    fn if_released_now(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        rank(cx.task(task))
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "rm",
        summary: "rate monotonic: the shortest period first",
        scopes: scope::SCOPES,
        needs: &[Need::Period],
        facts: &[Fact::Order { by: Order::Period, preemptive: true }],
        test: CpuTest::ResponseTimes(|_, task| rank(task)),
        settings: &[],
    },
    manual: manual!(
        "\
Gives each task a fixed priority by its period: the shorter, the more urgent.

**When.** The best fixed-priority order on one CPU when deadlines equal periods and tasks can be released together. Guaranteed up to a utilisation of
n(2^(1/n) - 1), 69 % for many tasks, and often beyond. Under overload the tasks with short periods keep their deadlines.

**Ties.** The earlier release first, then the lower task number. A job that yields goes behind those of the same rank. Every
task needs a period, or a least time between releases.

**Partitioned.** Under `p-rm` a CPU accepts a task only if all response times there stay within the deadlines.

**Cost.** O(ready jobs) per release and completion, O(m) per decision.

**Source.** Liu and Layland, JACM 20(1), 1973.

**Example.** `policy: rm` with `tasks: [{name: a, runtime: 2ms, period: 5ms}, {name: b, runtime: 4ms, period: 7ms}]`
has a utilisation of 0.97; the first job of `b` needs until 8 ms and misses its deadline at 7 ms."
    ),
    build: scope::build::<Rm>,
};
