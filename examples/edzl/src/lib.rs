//! EDZL: earliest deadline first until zero laxity.
//!
//! Lee, "On-Line Multiprocessor Scheduling Algorithms for Real-Time Tasks", TENCON 1994; Cho, Lee, Han, Lin, "Efficient Real-Time
//! Scheduling Algorithms for Multiprocessor Systems", IEICE Transactions on Communications E85-B(12), 2002.

use takt_core::model::{CpuTest, Fact, Need, Profile, TaskId, When};
use takt_core::policies::scope::{self, Key, Ordering};
use takt_core::policy::{Build, Context, Entry};
use takt_core::time::{Span, Time};

/// The rank of a job that has no time to lose.
const FIRST: i64 = i64::MIN;

struct Edzl;

/// The last instant at which the task's job could start or continue and still meet its deadline.
fn latest_start(task: TaskId, cx: &Context<'_>) -> Time {
    let deadline = cx.deadline_of(task).unwrap_or(Time::MAX);
    if deadline == Time::MAX { deadline } else { deadline - cx.time_left(task).unwrap_or(Span::ZERO) }
}

impl Ordering for Edzl {
    const TRACKS_RUNNING: bool = true;
    const BY_TERMS: bool = true;
    const TIMED: bool = true;
    const PROMOTES: bool = true;

    fn new(_: &Build<'_>) -> Self {
        Edzl
    }
    fn rank(&mut self, task: TaskId, cx: &Context<'_>) -> i64 {
        self.promoted(task, cx).unwrap_or_else(|| cx.deadline_of(task).map_or(i64::MAX, Time::ns))
    }
    fn if_released_now(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        cx.task(task).deadline.map_or(i64::MAX, |deadline| cx.now().saturating_add(deadline).ns())
    }
    fn promoted(&mut self, task: TaskId, cx: &Context<'_>) -> Option<i64> {
        (latest_start(task, cx) <= cx.now()).then_some(FIRST)
    }
    /// When the first of the jobs that wait has no time to lose.
    fn alarm(&mut self, running: &[TaskId], ready: &[Key], cx: &Context<'_>) -> Option<Time> {
        let waiting = ready.iter().filter(|key| key.rank > FIRST && !running.contains(&key.task));
        waiting.map(|key| latest_start(key.task, cx)).filter(|at| *at > cx.now()).min()
    }
}

/// Its line in a registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "edzl",
        summary: "earliest deadline first until zero laxity",
        scopes: scope::SCOPES,
        needs: &[Need::Deadline, Need::Runtime],
        facts: &[Fact::WorkConserving(When::Always)],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: "\
Runs jobs in the order of their absolute deadlines, as EDF does, until one that waits has no time to lose: its deadline less what it
still needs by its declared runtime is now. It then goes before all others.

**When.** On several CPUs (`g-edzl`), with true runtimes: it meets all deadlines that global EDF meets, and many more.

**Ties.** The earlier release first, then the lower task number.

**Cost.** O(ready jobs) per decision, and one timer for the next job that has no time to lose.

**Source.** Lee, TENCON 1994; Cho, Lee, Han, Lin, IEICE Transactions on Communications E85-B(12), 2002.",
    build: scope::build::<Edzl>,
};
