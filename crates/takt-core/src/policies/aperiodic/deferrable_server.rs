//! The deferrable server.
//!
//! Lehoczky, Sha and Strosnider, "Enhanced Aperiodic Responsiveness in Hard Real-Time Environments", RTSS 1987; Strosnider,
//! Lehoczky and Sha, "The Deferrable Server Algorithm for Enhanced Aperiodic Responsiveness in Hard Real-Time Environments", IEEE
//! Transactions on Computers 44(1), 1995. Invariant: between two multiples of P its jobs consume Q at most.

use super::periods::Periods;
use super::{BACKGROUND, BY, CONSERVING, RANKED_BY, SCOPES, SERVED_LAST, build, shared};
use crate::model::{CpuTest, Fact, Profile, Servers, When};
use crate::policy::Entry;

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "deferrable-server",
        summary: "rate monotonic with deferrable servers: a budget in each period, kept until the end of it",
        scopes: SCOPES,
        needs: &[],
        facts: &[Fact::Servers(Servers { ranked_by: RANKED_BY, back_to_back: true, premature: When::Never, background: SERVED_LAST }), CONSERVING],
        test: CpuTest::Utilisation,
        settings: &[BY, BACKGROUND],
    },
    manual: concat!(
        "\
As `polling-server`, but the server keeps its budget while it has no job. A task with a `reservation` of Q and P has a
server, the others are periodic tasks beside it. At the next multiple of P it has Q again and not more.

**When.** Aperiodic jobs should start at once. The others bear the cost. A server that uses its budget at the end of one
period and again at the beginning of the next delays them for 2Q. So fewer of them are schedulable than beside a polling
server. `takt check` treats the server as a periodic task with a release jitter of P - Q.

",
        shared!(),
        "\
**Cost.** O(ready jobs) per event, and for each task of a server when its budget ends or is replenished. A timer of each CPU
expires once in a period while there is work.

**Source.** Lehoczky, Sha and Strosnider, RTSS 1987; Strosnider, Lehoczky and Sha, IEEE Transactions on Computers 44(1),
1995; Bernat and Burns, RTSS 1999, for the release jitter.

**Example.** `policy: deferrable-server` with `tasks: [{name: requests, releases: [4ms], runtime: 2ms, reservation: {budget: 1ms,
period: 5ms}}, {name: control, runtime: 3ms, period: 10ms}]`: the request runs from 4 to 6 ms, on two budgets."
    ),
    build: build::<Periods<false>>,
};
