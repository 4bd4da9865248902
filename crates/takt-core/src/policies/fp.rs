//! Fixed priorities as the workload gives them.
//!
//! Audsley, Burns, Davis, Tindell, Wellings, "Fixed Priority Pre-emptive Scheduling: An Historical Perspective",
//! Real-Time Systems 8, 1995. Invariant: on the CPUs that it is lent, no ready job waits while one of lower priority runs.

use crate::model::{CpuTest, Fact, Order, Profile, Task, TaskId};
use crate::policies::scope::{self, Ordering};
use crate::policy::{Build, Context, Entry};

struct FixedPriority;

fn rank(task: &Task) -> i64 {
    -i64::from(task.priority)
}

impl Ordering for FixedPriority {
    fn new(_: &Build<'_>) -> Self {
        FixedPriority
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
        name: "fp",
        summary: "fixed priorities as given by `priority:`, higher numbers first",
        scopes: scope::SCOPES,
        needs: &[],
        facts: &[Fact::Order { by: Order::Priority, preemptive: true }],
        test: CpuTest::ResponseTimes(|_, task| rank(task)),
        settings: &[],
    },
    manual: manual!(
        "\
Runs the ready job of the task with the highest `priority:`.

**When.** The order is known from elsewhere: from an analysis, from a criticality, or because the system exists on
another kernel. Like SCHED_FIFO, a higher number is more important. Tasks without a priority have 0. Random task sets and those in
CSV state none: `--priorities` assigns them, by default rate-monotonic ones.

**Ties.** The earlier release first, then the lower task number. A job that yields goes behind those of the same priority.

**Resources.** With `locking: inheritance` the holder of a resource has the highest priority of the jobs that wait for it.
With `locking: ceiling` it has the highest priority of all tasks that use the resource, from the lock on.

**Partitioned.** Under `p-fp` a CPU accepts a task only if all response times there stay within the deadlines.

**Cost.** O(ready jobs) per release and completion, O(m) per decision.

**Source.** Audsley and others, Real-Time Systems 8, 1995; Sha, Rajkumar, Lehoczky, IEEE Transactions on Computers 39(9), 1990.

**Example.** `policy: fp` with `tasks: [{name: logger, runtime: 3ms, period: 10ms, priority: 1},
{name: control, runtime: 2ms, period: 20ms, priority: 2}]` runs `control` first although its period is longer."
    ),
    build: scope::build::<FixedPriority>,
};
