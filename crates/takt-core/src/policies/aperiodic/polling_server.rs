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
A task with a `reservation` of a budget Q and a period P has a server. Its jobs run at the rank of the server, which is that
of a task with the period P. All others are periodic tasks beside it. A task without either has the lowest rank.

At each multiple of P the server has Q, if it has a job. Its jobs use the budget; when the last one completes, the rest is
lost. Jobs released later wait for the next multiple of P, even on an idle CPU.

**When.** Aperiodic jobs run beside periodic tasks that must meet their deadlines, and the simplest server is enough. For the
others the server is one more periodic task, as `takt check` assumes. A job can wait for P before it begins.

",
        shared!(),
        "\
**Cost.** O(ready jobs) per event, and for each task of a server when its budget ends or is replenished. A timer of each CPU
expires once in a period while there is work.

**Source.** Lehoczky, Sha and Strosnider, RTSS 1987; Buttazzo, Hard Real-Time Computing Systems.

**Example.** `policy: polling-server` with `tasks: [{name: requests, releases: [2ms], runtime: 1ms, reservation: {budget: 1ms,
period: 5ms}}, {name: control, runtime: 3ms, period: 10ms}]`: the request of 2 ms runs from 5 to 6 ms."
    ),
    build: build::<Periods<true>>,
};
