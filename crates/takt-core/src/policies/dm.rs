//! Deadline monotonic: fixed priorities by relative deadline.
//!
//! Leung and Whitehead, "On the Complexity of Fixed-Priority Scheduling of Periodic, Real-Time Tasks", Performance Evaluation
//! 2(4), 1982. Invariant: on the CPUs that it is lent, no ready job waits while one of a task with a longer relative deadline
//! runs.

use crate::model::{CpuTest, Fact, Need, Order, Profile, Task, TaskId};
use crate::policies::scope::{self, Ordering};
use crate::policy::{Build, Context, Entry};
use crate::time::Span;

struct Dm;

fn relative(deadline: Option<Span>) -> i64 {
    deadline.map_or(i64::MAX, Span::ns)
}

fn rank(task: &Task) -> i64 {
    relative(task.deadline)
}

impl Ordering for Dm {
    const BY_TERMS: bool = true;

    fn new(_: &Build<'_>) -> Self {
        Dm
    }
    fn rank(&mut self, task: TaskId, cx: &Context<'_>) -> i64 {
        let described = cx.task(task);
        let handler = described.handler.filter(|_| cx.in_handler(task));
        relative(handler.map_or(described.deadline, |h| h.deadline))
    }
    fn if_released_now(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        rank(cx.task(task))
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "dm",
        summary: "deadline monotonic: the shortest relative deadline first",
        scopes: scope::SCOPES,
        needs: &[Need::Deadline],
        facts: &[Fact::Order { by: Order::RelativeDeadline, preemptive: true }],
        test: CpuTest::ResponseTimes(|_, task| rank(task)),
        settings: &[],
    },
    manual: manual!(
        "\
Gives each task a fixed priority by its relative deadline: the shorter, the more urgent.

**When.** The best fixed-priority order on one CPU when deadlines are at most the periods and tasks can be released together; the same as rate monotonic when
they are equal. Whether a set meets its deadlines is decided by its response times.

**Ties.** The earlier release first, then the lower task number. A job that yields goes behind those of the same rank. The
handler of an aborted job ranks by the handler's deadline, and last without one.

**Partitioned.** Under `p-dm` a CPU accepts a task only if all response times there stay within the deadlines.

**Cost.** O(ready jobs) per release and completion, O(m) per decision.

**Source.** Leung and Whitehead, Performance Evaluation 2(4), 1982.

**Example.** `policy: dm` with `tasks: [{name: a, runtime: 2ms, period: 5ms}, {name: b, runtime: 2ms, period: 10ms,
deadline: 3ms}]`: `b` runs first although its period is longer, and both meet their deadlines; under `rm` `b` ends at 4 ms."
    ),
    build: scope::build::<Dm>,
};
