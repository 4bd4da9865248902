//! Earliest deadline first.
//!
//! Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment", JACM 20(1), 1973.
//! Invariant: on the CPUs that it is lent, no ready job waits while a job with a later absolute deadline runs.

use crate::model::{CpuTest, Fact, Need, Order, Profile, Scope, TaskId};
use crate::policies::scope::{self, Ordering};
use crate::policy::{Build, Context, Entry};
use crate::time::Time;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Edf;

/// The policy of this ordering, under any scope.
pub(crate) type EdfPolicy = scope::Scoped<Edf>;

/// The absolute deadline of the task's job; without one it is last.
#[inline]
pub(super) fn deadline(task: TaskId, cx: &Context<'_>) -> i64 {
    cx.deadline_of(task).map_or(i64::MAX, Time::ns)
}

/// The absolute deadline of a job that would be released now (Burns, 2012: the deadline floor of a resource).
pub(super) fn floor(task: TaskId, cx: &Context<'_>) -> i64 {
    cx.task(task).deadline.map_or(i64::MAX, |deadline| cx.now().saturating_add(deadline).ns())
}

impl Ordering for Edf {
    fn new(_: &Build<'_>) -> Self {
        Edf
    }
    fn rank(&mut self, task: TaskId, cx: &Context<'_>) -> i64 {
        deadline(task, cx)
    }
    fn if_released_now(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        floor(task, cx)
    }
}

const PROFILE: Profile = Profile {
    name: "edf",
    summary: "earliest deadline first",
    scopes: scope::SCOPES,
    needs: &[Need::Deadline],
    facts: &[Fact::Order { by: Order::AbsoluteDeadline, preemptive: true }],
    test: CpuTest::Demand,
    settings: &[],
};

/// EDF on one CPU and global EDF alone, for programs that have no use for the other forms, such as those of microcontrollers: a third
/// of the code.
pub static ONE_QUEUE: Entry = Entry {
    profile: Profile { scopes: &[Scope::Uniprocessor, Scope::Global], ..PROFILE },
    manual: manual!("EDF on one CPU (`edf`) or for all CPUs (`g-edf`)."),
    build: scope::build_one_queue::<Edf>,
};

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: PROFILE,
    manual: manual!(
        "\
Runs the ready job whose absolute deadline is earliest.

**When.** On one CPU it meets all deadlines if any policy does (implicit deadlines: whenever the utilisation is at
most 1). Global EDF (`g-edf`) keeps all CPUs busy but can miss deadlines at low utilisation when one task is heavy (Dhall's
effect). Partitioned EDF (`p-edf`) keeps the uniprocessor guarantee on each CPU: a CPU accepts a task only if the processor
demand allows it. Under overload EDF does not control which job is late.

**Ties.** The earlier release first, then the lower task number. A job that yields goes behind those of equal deadline. The
handler of an aborted job counts with its own deadline, and comes last without one. Every task needs a deadline; background
work can have a long one.

**Resources.** With `locking: ceiling` the holder of a resource has a deadline floor from the lock on. It is the earliest
deadline of any user of the resource that would be released at that instant.

**Cost.** O(ready jobs) per release and completion, O(m) per decision.

**Source.** Liu and Layland, JACM 20(1), 1973; Dhall and Liu, Operations Research 26(1), 1978; Burns, technical report
YCS-2012-476, University of York, 2012.

**Example.** `policy: edf` with `tasks: [{name: a, runtime: 2ms, period: 5ms}, {name: b, runtime: 4ms, period: 7ms}]`
has a utilisation of 0.97; EDF meets every deadline, rate monotonic misses one."
    ),
    build: scope::build::<Edf>,
};
