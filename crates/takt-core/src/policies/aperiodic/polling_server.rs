//! The polling server.
//!
//! Lehoczky, Sha and Strosnider, "Enhanced Aperiodic Responsiveness in Hard Real-Time Environments", RTSS 1987, where it is what the
//! deferrable server is compared with; Buttazzo, "Hard Real-Time Computing Systems", chapter 5. Invariant: to everybody else it is
//! a periodic task with the runtime Q and the period P that may need less.

use super::periods::Periods;
use super::{BACKGROUND, BY, Rule, SCOPES, build, shared};
use crate::model::Reservation;
use crate::policy::{Entry, PolicySpec};
use crate::time::{Span, Time};

struct Polling(Periods);

impl Rule for Polling {
    fn new(reserved: Reservation, _: &PolicySpec) -> Self {
        Polling(Periods::new(reserved, Time::ZERO))
    }
    fn restart(&mut self, reserved: Reservation, now: Time) {
        self.0 = Periods::new(reserved, now);
    }
    fn advance(&mut self, now: Time) {
        self.0.advance(now);
    }
    fn wakes(&mut self, now: Time) {
        self.0.advance(now);
        // The work has missed the poll.
        if self.0.begin < now {
            self.0.left = self.0.left.min(Span::ZERO);
        }
    }
    fn consume(&mut self, amount: Span) {
        self.0.left -= amount;
    }
    fn left(&self, _: Time) -> Span {
        self.0.left
    }
    fn next(&self, _: Time) -> Option<Time> {
        Some(self.0.end())
    }
    fn deadline(&self) -> Time {
        self.0.end()
    }
}

/// Its line in the registry.
pub const ENTRY: Entry = Entry {
    name: "polling-server",
    summary: "rate monotonic with polling servers: a budget at each multiple of the period, lost when there is no work",
    manual: concat!(
        "\
A task with a `reservation` of a budget Q and a period P is served: its jobs run at the rank of its server, which is that of a task
with the period P. All others are periodic tasks beside it. A task without either has the lowest rank.

At each multiple of P the server has Q, if there is work. Its jobs use that up; when none is left to do, the rest is lost. What
comes after that waits for the next multiple of P, also on an idle CPU.

**When.** Work that comes at any time, beside periodic tasks that must meet their deadlines, and the simplest thing will do. For the
others the server is one more periodic task, of which `takt check` makes use; work can wait for P before it begins.

",
        shared!(),
        "\
**Cost.** O(ready jobs) per event, and a timer for each CPU that goes off once in a period while there is work.

**Source.** Lehoczky, Sha and Strosnider, RTSS 1987; Buttazzo, Hard Real-Time Computing Systems.

**Example.** `policy: polling-server` with `tasks: [{name: requests, releases: [2ms], runtime: 1ms, reservation: {budget: 1ms,
period: 5ms}}, {name: control, runtime: 3ms, period: 10ms}]`: the request of 2 ms runs from 5 to 6 ms."
    ),
    scopes: SCOPES,
    needs: &[],
    settings: &[BY, BACKGROUND],
    build: build::<Polling>,
};
