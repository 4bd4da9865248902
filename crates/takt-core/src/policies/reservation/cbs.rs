//! The constant bandwidth server, soft and hard.
//!
//! Abeni and Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems", RTSS 1998, for the soft server; Linux,
//! `Documentation/scheduler/sched-deadline.rst` and `kernel/sched/deadline.c`, for the hard one (SCHED_DEADLINE); Abeni, Lipari and
//! Lelli, "Constant bandwidth server revisited", SIGBED Review 11(4), 2015, for waking up with a deadline before the end of the period.
//! Invariant: up to any instant, and in any interval, the jobs of a server consume no more with deadlines in it than a periodic task
//! with the runtime Q and the period P could demand there. With a relative deadline D < P that is, in an interval of k P + x, k Q and
//! the lesser of Q and x Q / D.
//!
//! The kernel's functions here: `dl_next_period` is `Server::next_period`, `update_dl_revised_wakeup` and `dl_check_constrained_dl` are
//! `Server::revise`, `replenish_dl_entity` is `Servers::replenish`. A soft server goes by the same rules, and where a hard one
//! waits for its next period it has the budget and the deadline of that at once; the same demand covers that, since work which comes
//! sooner with the same deadline adds to no interval.

use super::server::Server;
use super::servers::Servers;
use super::{Rule, build};
use crate::model::{CpuTest, Fact, Kind, Need, PolicySpec, Profile, Reservations, Setting, TaskId, When};
use crate::policies::scope;
use crate::policy::{Build, Entry};
use crate::time::Time;

/// Which form of server; the setting `enforcement`.
pub(super) const ENFORCEMENT: Setting = Setting {
    name: "enforcement",
    kind: Kind::Choice(&["soft", "hard"]),
    default: "soft",
    summary: "whether a server without budget continues with a later deadline, or waits for its deadline",
};

/// Servers are hard under one value of [`ENFORCEMENT`].
pub(super) const HARD: When = When::Is(ENFORCEMENT.name, 1);

/// A CPU idles while its jobs wait only if servers are hard.
pub(super) const SOFT: Fact = Fact::WorkConserving(When::IsNot(ENFORCEMENT.name, 1));

/// Whether the setting `enforcement` says so.
pub(super) fn is_hard(spec: &PolicySpec) -> bool {
    spec.holds(HARD)
}

struct Cbs {
    hard: bool,
    /// A server that wakes up with just its share of the time until its deadline begins again.
    renews_equal: bool,
}

impl Rule for Cbs {
    const CONSTRAINED: bool = true;

    fn new(build: &Build<'_>, _: &mut Servers) -> Self {
        let hard = is_hard(&build.spec);
        let renews_equal = match build.spec.value("equality") {
            Some(1) => true,
            Some(2) => false,
            _ => !hard,
        };
        Cbs { hard, renews_equal }
    }
    fn is_hard(&self) -> bool {
        self.hard
    }
    fn is_stale(&self, _: TaskId, server: &Server, now: Time) -> bool {
        server.is_stale(now, self.renews_equal)
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "cbs",
        summary: "constant bandwidth server: each task has a budget in each period, and no more at the expense of others",
        scopes: scope::SCOPES,
        needs: &[Need::Reservation],
        facts: &[Fact::Reservations(Reservations { isolated: true, reclaimed: false, constrained: true, hard: HARD }), SOFT],
        test: CpuTest::Utilisation,
        settings: &[
        ENFORCEMENT,
        Setting {
            name: "equality",
            kind: Kind::Choice(&["auto", "renew", "keep"]),
            default: "auto",
            summary: "what a server does that wakes up with just its share of the time until its deadline",
        },
    ],
    },
    manual: manual!(
        "\
Every task has a server with a budget of Q in each period of P, and a relative deadline D. They are its `reservation`, or its
`runtime` and `period`. D is P unless the reservation has a `deadline`; the next two paragraphs are about D = P. Jobs are
ranked by the deadline s of their server, not by their own. e is the remaining budget.

A server wakes up when a job is released or resumes. It keeps e and s if e is less than (s - now) Q / P. Else it gets s = now
+ P and e = Q. While its jobs run, e shrinks. When the budget of a *soft* server is exhausted, it gets another Q at once, and
s moves by P: it continues, but behind others. A *hard* server is throttled: it does not run until s, even on an idle CPU.
Then s moves by P and Q is added. An overrun before the exhaustion was detected is subtracted from the next budgets. A server
without a job at s gets its Q there, too, before the test whether it keeps e and s. Queued jobs of one task follow each other
with the same e and s. A job that yields gives up the remaining budget of a hard server, and waits for s.

**Deadlines before the ends of periods.** With D < P a server that starts again gets s = now + D. Its next period begins at s
- D + P. A hard server waits for this instant; then s moves by P and Q is added. A server that wakes up earlier does not
start again. Until s it keeps s, and at most (s - now) Q / D of e (the revised wake-up rule). After s it has no budget, and a
hard server waits for its next period. Whenever a hard server would wait, a soft one gets the budget of the next period at
once, with s + P. A hard server with an exhausted budget gets the next one at its next period, with or without a job, as in
the kernel. A job released later gets only (s - now) Q / D of it, or none until the period after. A task that uses slightly
less than Q is not affected. Other policies refuse such reservations.

**When.** Tasks whose runtimes are not known well, such as players of films, run beside others that must not suffer. On one
CPU the sum of Q / P must be at most 1. Then a task that stays within Q in each P meets its deadlines, independently of other
tasks. With D < P that sum is not sufficient: two servers of 4 ms in 12 ms, both with deadlines of 5 ms, are late.
SCHED_DEADLINE nevertheless uses it for admission. The sum of Q / D is sufficient. `takt check` tests the demand of the
servers in each interval, which is less. Hard servers correspond to SCHED_DEADLINE of Linux (`takt bench deadline` compares
the two). They also limit a task to its share.

**Settings.** `enforcement`, by default `soft`. `equality` is the rule for an e of exactly (s - now) Q / P. `renew` is the
rule of the paper and of soft servers, `keep` that of Linux and of hard servers. `auto` depends on `enforcement`. Both are
safe.

**Budgets of tasks.** A `budget` of a task limits each of its jobs, as under other policies: a job that exhausts it is
aborted. The budget of a server aborts no job.

**Several CPUs.** `g-cbs` ranks all servers together, as SCHED_DEADLINE does; the guarantee is then that of global EDF.
`p-cbs` packs servers on CPUs by Q / D and keeps the guarantee on each. Calls for more are granted by Q / D, too.

**Resources.** They are granted to the earliest server deadline, without priority inheritance. The holder of a resource is
throttled, too.

**Ties.** The earlier release first, then the lower task number; a job of a soft server that yields goes behind those of equal
deadline.

**Cost.** O(ready jobs) per event, O(m) per decision, and one timer for each cluster of CPUs.

**Source.** Abeni and Buttazzo, RTSS 1998; the kernel's documentation of SCHED_DEADLINE, and `kernel/sched/deadline.c`;
Abeni, Lipari and Lelli, SIGBED Review 11(4), 2015.

**Example.** `policy: cbs` with `tasks: [{name: film, runtime: 6ms, period: 10ms, reservation: {budget: 4ms, period: 10ms}},
{name: loop, runtime: 6ms, period: 10ms}]`: `loop` meets all deadlines. `film` needs more than its reservation and falls behind."
    ),
    build: build::<Cbs>,
};
