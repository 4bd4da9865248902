//! The polling server.
//!
//! Lehoczky, Sha and Strosnider, "Enhanced Aperiodic Responsiveness in Hard Real-Time Environments", RTSS 1987, where it is what
//! the deferrable server is compared with; Buttazzo, "Hard Real-Time Computing Systems", chapter 5. Invariant: to everybody else
//! it is a periodic task with the runtime Q and the period P that may need less.

use super::periods::Periods;
use super::{BACKGROUND, BY, CONSERVING, RANKED_BY, SCOPES, SERVED_LAST, build, shared};
use crate::model::{CpuTest, Fact, Profile, Servers, When};
use crate::policy::Entry;

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "polling-server",
        summary: "rate monotonic with polling servers: a budget at each multiple of the period, lost when there is no work",
        scopes: SCOPES,
        needs: &[],
        facts: &[Fact::Servers(Servers { ranked_by: RANKED_BY, back_to_back: false, premature: When::Never, background: SERVED_LAST }), CONSERVING],
        test: CpuTest::Utilisation,
        settings: &[BY, BACKGROUND],
    },
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
**Cost.** O(ready jobs) per event, for each task of a server when its budget ends or comes, and a timer for each CPU that goes off
once in a period while there is work.

**Source.** Lehoczky, Sha and Strosnider, RTSS 1987; Buttazzo, Hard Real-Time Computing Systems.

**Example.** `policy: polling-server` with `tasks: [{name: requests, releases: [2ms], runtime: 1ms, reservation: {budget: 1ms,
period: 5ms}}, {name: control, runtime: 3ms, period: 10ms}]`: the request of 2 ms runs from 5 to 6 ms."
    ),
    build: build::<Periods<true>>,
};
