//! The constant bandwidth server, soft and hard.
//!
//! Abeni and Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems", RTSS 1998, for the soft server; Linux,
//! `Documentation/scheduler/sched-deadline.rst` and `kernel/sched/deadline.c`, for the hard one (SCHED_DEADLINE); Abeni, Lipari and
//! Lelli, "Constant bandwidth server revisited", SIGBED Review 11(4), 2015, for waking up with a deadline before the end of the period.
//! Invariant: up to any instant, and in any interval, the jobs of a server consume no more with deadlines in it than a periodic task
//! with the runtime Q and the period P could demand there. With a relative deadline D < P that is, in an interval of k P + x, k Q and
//! the lesser of Q and x Q / D.
//!
//! Of the kernel's functions, `dl_next_period` is `Server::next_period`, `update_dl_revised_wakeup` and `dl_check_constrained_dl` are
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
    summary: "whether a server whose budget is used up goes on with a later deadline, or waits for its deadline",
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
    /// A server that wakes up with just its share of the time until its deadline begins anew.
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
Every task has a server with a budget of Q in each period of P, and a relative deadline D: its `reservation`, or its `runtime` and
`period`. D is P unless the reservation has a `deadline`; the next two paragraphs are about D = P. Jobs are ranked by the deadline s of their server, and not by their own; e is what is left of the budget.

A server that wakes up, because a job comes or goes on, keeps e and s if e is less than (s - now) Q / P; else it gets s = now + P
and e = Q. While its jobs run, e shrinks. When it is used up, a *soft* server gets another Q at once, and s moves by P: it goes
on, but behind others. A *hard* one is throttled, which means that it does not run, also on an idle CPU, until s; then s moves
by P and Q is added. What was overrun before that was noticed is taken off the next budgets; a server that had no job at s has got
its Q there all the same, before it is asked whether it keeps e and s. Jobs of one task that have piled up follow each other with
the same e and s. A job that yields gives up what is left of the budget of a hard server, and waits for s.

**Deadlines before the ends of periods.** With D < P a server that begins anew gets s = now + D. Its next period begins at s - D + P,
and where a hard server waits, it waits for that; then s moves by P and Q is added. A server that wakes up does not begin anew
before that. Until s it keeps s, and of e no more than (s - now) Q / D (the revised rule of waking up). After s it has nothing, and a
hard one waits for its next period; a soft one, there and wherever else a hard one waits, gets that period's budget at once, with
s + P. A hard server whose budget is just used up gets the next one when its next period begins, as in the kernel, if it has a job
then or not: a job that comes later has only (s - now) Q / D of it, or none until the period after. Who needs a little less than Q
is spared that. Other policies refuse such reservations.

**When.** Tasks whose runtimes are not known well, such as players of films, beside others that must not suffer from it. Whoever
stays within Q in each P meets its deadlines on one CPU if the sum of Q / P is at most 1, whatever the others do. With D < P that
sum says too little: two servers of 4 ms in 12 ms, both due within 5 ms, are late. SCHED_DEADLINE admits by it all the same. The sum
of Q / D is enough, and `takt check` looks at the demand of the servers in each interval, which is less. Hard servers
are what SCHED_DEADLINE of Linux does (`takt bench deadline` compares the two); they also keep a task from getting more than its
share.

**Settings.** `enforcement`, `soft` when nothing is said. `equality` says what is done where e is exactly (s - now) Q / P: `renew`
it, as in the paper and soft servers, or `keep` it, as Linux and hard servers do; `auto` is by `enforcement`. Both are safe.

**Budgets of their own.** A `budget` of a task is a limit for each of its jobs, as under other policies: a job that has used it is
aborted. That of the server is not.

**Several CPUs.** `g-cbs` ranks all servers together, as SCHED_DEADLINE does; the guarantee is then that of global EDF. `p-cbs` packs
servers on CPUs by Q / D and keeps the guarantee on each. Calls for more are granted by Q / D, too.

**Resources.** They are handed out to the earliest server deadline; who holds one gets no more urgent by it, and is throttled all
the same.

**Ties.** The earlier release first, then the lower task number; a job of a soft server that yields goes behind those of equal
deadline.

**Cost.** O(ready jobs) per event, O(m) per decision, and one timer for each cluster of CPUs.

**Source.** Abeni and Buttazzo, RTSS 1998; the kernel's documentation of SCHED_DEADLINE, and `kernel/sched/deadline.c`; Abeni, Lipari
and Lelli, SIGBED Review 11(4), 2015.

**Example.** `policy: cbs` with `tasks: [{name: film, runtime: 6ms, period: 10ms, reservation: {budget: 4ms, period: 10ms}},
{name: loop, runtime: 6ms, period: 10ms}]`: `loop` meets all deadlines, and `film`, which needs more than is reserved, falls behind."
    ),
    build: build::<Cbs>,
};
