//! The periodic server, whose budget is exhausted also by time without work.
//!
//! Davis and Burns, "Hierarchical Fixed Priority Pre-Emptive Scheduling", RTSS 2005. Invariant: to everybody else it is a
//! periodic task with the runtime Q and the period P that may need less.
//!
//! In the paper an idle task of the server uses the budget up, so that the CPU is lost to all other servers. Here those
//! that are ready run in that time, which delays no task: a fixed-priority schedule of jobs that do not block each other only
//! gets shorter where work is left out.

use super::periods::Periods;
use super::{BACKGROUND, BY, CONSERVING, RANKED_BY, Rule, SCOPES, SERVED_LAST, build, shared};
use crate::model::{CpuTest, Fact, PolicySpec, Profile, Reservation, Servers, When};
use crate::policy::Entry;
use crate::time::{Span, Time};

struct Periodic {
    periods: Periods<false>,
    /// From when on an idle server, which could run, has used its budget up to now.
    idle_from: Option<Time>,
}

impl Rule for Periodic {
    const DRAINS: bool = true;

    fn new(reserved: Reservation, _: &PolicySpec) -> Self {
        Periodic { periods: Periods::begun(reserved, Time::ZERO), idle_from: None }
    }
    fn restart(&mut self, reserved: Reservation, now: Time) {
        *self = Periodic { periods: Periods::begun(reserved, now), idle_from: None };
    }
    fn advance(&mut self, now: Time) {
        self.periods.advance(now);
        if let Some(from) = &mut self.idle_from {
            let idle = now - (*from).max(self.periods.begin);
            *from = now;
            self.periods.left = self.periods.left.min((self.periods.left - idle).or_zero());
        }
    }
    fn consume(&mut self, amount: Span) {
        self.periods.consume(amount);
    }
    fn left(&self, _: Time) -> Span {
        self.periods.left
    }
    fn next(&self, _: Time) -> Option<Time> {
        Some(self.periods.end())
    }
    fn deadline(&self) -> Time {
        self.periods.end()
    }
    fn stands_by(&mut self, could: bool, now: Time) {
        self.advance(now);
        self.idle_from = could.then_some(now);
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "periodic-server",
        summary: "rate monotonic with periodic servers: a budget in each period that shrinks also while there is no work",
        scopes: SCOPES,
        needs: &[],
        facts: &[Fact::Servers(Servers { ranked_by: RANKED_BY, back_to_back: false, premature: When::Never, background: SERVED_LAST }), CONSERVING],
        test: CpuTest::Utilisation,
        settings: &[BY, BACKGROUND],
    },
    manual: concat!(
        "\
As `polling-server`, but the server keeps its budget while it has no job. A task with a `reservation` of Q and P has a
server, the others are periodic tasks beside it. An unused budget shrinks with time while no job ahead of the server is
ready. Others run in that time. At each multiple of P the server has Q again.

**When.** Jobs released shortly after a multiple of P should not wait for the next one, without a cost for others. For them
the server is a periodic task, like a polling server. In a hierarchy of fixed priorities it is the server that leaves the
most capacity for others.

",
        shared!(),
        "\
**Cost.** O(ready jobs) per event, and for each task of a server when its budget ends or is replenished. O(servers of the
CPU) per decision. A timer of each CPU expires once in a period while there is work; with the rank `deadline`, always.

**Source.** Davis and Burns, RTSS 2005.

**Example.** `policy: periodic-server` with `tasks: [{name: requests, releases: [1ms], runtime: 2ms, reservation: {budget: 2ms,
period: 5ms}}, {name: control, runtime: 3ms, period: 10ms}]`: the request runs from 1 to 2 ms and from 5 to 6 ms."
    ),
    build: build::<Periodic>,
};
