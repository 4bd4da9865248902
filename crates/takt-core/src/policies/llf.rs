//! Least laxity first, with a threshold against thrashing.
//!
//! Mok, "Fundamental Design Problems of Distributed Systems for the Hard-Real-Time Environment", thesis, MIT, 1983, for the
//! order; Oh and Yang, "A Modified Least-Laxity-First Scheduling Algorithm for Real-Time Tasks", RTCSA 1998, for the need to
//! keep two jobs of equal laxity from taking turns without end. Here a threshold does that.
//!
//! Laxity is deadline - now - remaining. Jobs are compared at one instant, so what counts is deadline - remaining, the latest
//! instant to start: it stays as it is while a job waits, and grows with time while it runs. Invariant: a job waits only while
//! each job that runs on its CPUs has a laxity that is less than the threshold above its own.

use crate::model::{CpuTest, Fact, Kind, Need, Order, PolicySpec, Profile, Setting, TaskId};
use crate::policies::scope::{self, Ordering, Urgency};
use crate::policy::{Build, Context, Entry};
use crate::queue::Key;
use crate::time::{Span, Time};

struct LeastLaxity {
    threshold: Span,
}

/// The last instant at which the task's job could start or continue and still meet its deadline.
fn latest_start(task: TaskId, cx: &Context<'_>) -> i64 {
    let deadline = cx.job(task).map_or(Time::MAX, |job| job.deadline);
    if deadline == Time::MAX { i64::MAX } else { deadline.ns() - cx.time_left(task).unwrap_or(Span::ZERO).ns() }
}

impl LeastLaxity {
    fn set(&mut self, spec: &PolicySpec) {
        self.threshold = spec.value("threshold").map_or(Span::from_ms(1), Span::from_ns);
    }

    /// The key of a running job.
    fn defended(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        latest_start(task, cx).saturating_sub(self.threshold.ns())
    }
}

impl Ordering for LeastLaxity {
    const TRACKS_RUNNING: bool = true;
    const BY_TERMS: bool = true;
    const TIMED: bool = true;

    fn new(build: &Build<'_>) -> Self {
        let mut new = LeastLaxity { threshold: Span::ZERO };
        new.set(&build.spec);
        new
    }
    fn rank(&mut self, task: TaskId, cx: &Context<'_>) -> i64 {
        latest_start(task, cx)
    }
    fn if_released_now(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        let task = cx.task(task);
        let length = task.runtime.unwrap_or(Span::ZERO);
        task.deadline.map_or(i64::MAX, |deadline| (cx.now() + (deadline - length)).ns())
    }
    fn rerank(&mut self, task: TaskId, runs: bool, cx: &Context<'_>) -> Option<Urgency> {
        Some(if runs {
            // Where the difference has reached the threshold, who waits goes first.
            Urgency { rank: self.defended(task, cx), release: Time::MAX }
        } else {
            Urgency { rank: latest_start(task, cx), release: cx.job(task).expect("it is ready").release }
        })
    }
    /// The first instant at which a running job falls behind a waiting one. It does so only while its laxity still grows
    /// against that of others, which ends when it has used its declared runtime.
    fn alarm(&mut self, running: &[TaskId], ready: &[Key], cx: &Context<'_>) -> Option<Time> {
        let crossing = |task: &TaskId| {
            let behind = self.defended(*task, cx);
            let later = &ready[ready.partition_point(|key| key.rank <= behind)..];
            let next = later.iter().find(|key| !running.contains(&key.task))?;
            let gap = Span::from_ns(next.rank.saturating_sub(behind));
            (gap <= cx.time_left(*task)?).then(|| cx.now() + gap)
        };
        running.iter().filter_map(crossing).min()
    }
    fn configure(&mut self, spec: &PolicySpec) -> bool {
        self.set(spec);
        true
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "llf",
        summary: "least laxity first, with a threshold for preemption",
        scopes: scope::SCOPES,
        needs: &[Need::Deadline, Need::Runtime],
        facts: &[Fact::Order { by: Order::Laxity, preemptive: true }],
        test: CpuTest::Utilisation,
        settings: &[Setting {
        name: "threshold",
        kind: Kind::Duration(Span::from_us(1), Span::from_secs(3600)),
        default: "1ms",
        summary: "by how much the laxity of a waiting job must be smaller before it preempts",
    }],
    },
    manual: manual!(
        "\
Runs the ready job with the least laxity: the time until its deadline less what it still needs by its declared runtime. The
laxity of a running job is constant, that of a waiting job decreases. A waiting job preempts when its laxity is less than
that of a running one by `threshold`.

**When.** On several CPUs it often meets deadlines that global EDF misses, because it runs a job before its laxity is
exhausted. On one CPU it meets the deadlines that EDF meets, except for the threshold (see below). It needs true runtimes,
and it switches more often than EDF. Without a threshold, two jobs of the same laxity would preempt each other without end.

**Settings.** `threshold`, by default 1 ms, at least 1 us. On one CPU, the tardiness of a set of n tasks that EDF schedules
is at most (n - 1) thresholds. So deadlines with this much slack are met.

**Ties.** The earlier release first, then the lower task number, among jobs that wait. A job that yields loses the protection
of the threshold and goes behind those of equal laxity. Every task needs a deadline and a runtime; the handler of an aborted job
counts with its own deadline and runtime.

**Cost.** O(m ready jobs) per decision, and one timer for the next preemption.

**Source.** Mok, thesis, MIT, 1983; Oh and Yang, RTCSA 1998.

**Example.** `policy: g-llf` on two CPUs with three tasks of `runtime: 2ms` and `period: 3ms`: the third starts at 1 ms, when
its laxity is smaller by the threshold. All deadlines are met; `g-edf` misses one in each period."
    ),
    build: scope::build::<LeastLaxity>,
};
