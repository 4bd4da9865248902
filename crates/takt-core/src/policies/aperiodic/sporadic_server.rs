//! The sporadic server, as it was corrected.
//!
//! Sprunt, Sha and Lehoczky, "Aperiodic Task Scheduling for Hard-Real-Time Systems", Real-Time Systems 1, 1989; Stanovich, Baker,
//! Wang and González Harbour, "Defects of the POSIX Sporadic Server and How to Correct Them", RTAS 2010, for the rules; Spuri and
//! Buttazzo, "Scheduling Aperiodic Tasks in Dynamic Priority Systems", Real-Time Systems 10, 1996, for deadlines. Invariant: of
//! each part of the budget the instants from which on it could be used are at least P apart, so that to everybody else the server
//! is a sporadic task with the runtime Q and the period P.
//!
//! A part of the budget joins others that are available, and none to come. The published correction also joins parts that return while
//! the first one is used. That saves a part, but then only the whole schedule shows that each nanosecond is used once per period. The
//! server is activated by its work, as in POSIX, and not by tasks of higher priority, as in the paper of 1989.

use super::posix::Posix;
use super::refills::Refills;
use super::{BACKGROUND, BY, CONSERVING, RANKED_BY, Rule, SCOPES, SERVED_LAST, build, shared};
use crate::model::{CpuTest, Fact, Kind, PolicySpec, Profile, Reservation, Servers, Setting, When};
use crate::policy::Entry;
use crate::time::{Span, Time};

/// The default number of parts of a budget that are kept apart.
const PARTS: i64 = 8;

const REPLENISHMENTS: Setting = Setting {
    name: "replenishments",
    kind: Kind::Count(1, 64),
    default: "8",
    summary: "into how many parts a budget may fall that come back at different instants",
};

const VARIANT: Setting = Setting {
    name: "variant",
    kind: Kind::Choice(&["corrected", "posix"]),
    default: "corrected",
    summary: "the rules that make it a sporadic task to others, or those of SCHED_SPORADIC in POSIX, which do not",
};

enum Sporadic {
    Corrected(Refills),
    Posix(Posix),
}

impl Rule for Sporadic {
    fn new(reserved: Reservation, spec: &PolicySpec) -> Self {
        let most = spec.value(REPLENISHMENTS.name).unwrap_or(PARTS) as usize;
        match spec.value(VARIANT.name) {
            Some(1) => Sporadic::Posix(Posix::new(reserved, most)),
            _ => Sporadic::Corrected(Refills::new(reserved, most)),
        }
    }
    fn restart(&mut self, reserved: Reservation, now: Time) {
        match self {
            Sporadic::Corrected(refills) => refills.restart(reserved, now),
            Sporadic::Posix(posix) => posix.restart(reserved, now),
        }
    }
    fn advance(&mut self, now: Time) {
        if let Sporadic::Posix(posix) = self {
            posix.advance(now);
        }
    }
    fn wakes(&mut self, now: Time) {
        match self {
            Sporadic::Corrected(refills) => refills.activate(now),
            Sporadic::Posix(posix) => posix.activate(now),
        }
    }
    fn idles(&mut self, at: Time) {
        match self {
            Sporadic::Corrected(refills) => refills.split(at),
            Sporadic::Posix(posix) => posix.schedule(),
        }
    }
    fn consume(&mut self, amount: Span) {
        match self {
            Sporadic::Corrected(refills) => refills.consume(amount),
            Sporadic::Posix(posix) => posix.consume(amount),
        }
    }
    fn left(&self, now: Time) -> Span {
        match self {
            Sporadic::Corrected(refills) => refills.left(now),
            Sporadic::Posix(posix) => posix.left(),
        }
    }
    fn next(&self, now: Time) -> Option<Time> {
        match self {
            Sporadic::Corrected(refills) => Some(refills.at()).filter(|at| *at > now),
            Sporadic::Posix(posix) => posix.next(),
        }
    }
    fn deadline(&self) -> Time {
        match self {
            Sporadic::Corrected(refills) => refills.back(),
            Sporadic::Posix(posix) => posix.back(),
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "sporadic-server",
        summary: "rate monotonic with sporadic servers: used budget is replenished a period after it could be used",
        scopes: SCOPES,
        needs: &[],
        facts: &[Fact::Servers(Servers { ranked_by: RANKED_BY, back_to_back: false, premature: When::Is(VARIANT.name, 1), background: SERVED_LAST }), CONSERVING],
        test: CpuTest::Utilisation,
        settings: &[BY, BACKGROUND, REPLENISHMENTS, VARIANT],
    },
    manual: concat!(
        "\
As `polling-server`, but the server keeps its budget as long as it has no job. A task with a `reservation` of Q and P has a
server, the others are periodic tasks beside it. Each part of the budget is replenished P after the instant from which on it
could be used.

When a job is released and the server has budget, that instant is the release. When the server has no more jobs, the used
budget becomes a part of its own. It is replenished P after that instant; the rest waits for the next job. If a part is
exhausted before the last job completes, the next part follows if it is available. Otherwise the server waits for it. So a
budget is divided into parts. Their number is limited by `replenishments`; beyond that, the rest waits with the next part.

**When.** Aperiodic jobs should start at once, without a cost for others. For them the server is a sporadic task. It is
SCHED_SPORADIC of POSIX without the defects of the standard, which `variant: posix` has for comparison. POSIX keeps one
instant for all parts, so some are replenished too early. Its budget does not fall below zero, so an overrun is replenished
although it was never charged. Here each part has its own instant, and an overrun is subtracted from the next part. A server
of POSIX has no budget while the number of pending replenishments is `replenishments`, whatever remains.

",
        shared!(),
        "\
**Cost.** O(ready jobs + parts) per event, and for each task of a server when its budget ends or is replenished. A timer of
each CPU expires when a waiting server has a budget again.

**Source.** Sprunt, Sha and Lehoczky, Real-Time Systems 1, 1989; Stanovich, Baker, Wang and González Harbour, RTAS 2010; by deadline
Spuri and Buttazzo, Real-Time Systems 10, 1996.

**Example.** `policy: sporadic-server` with `tasks: [{name: requests, releases: [2ms, 4ms, 6ms], runtime: 1ms, reservation:
{budget: 2ms, period: 5ms}}, {name: control, runtime: 3ms, period: 10ms}]`: the requests run at 2, 4 and 7 ms, when the first
part is back."
    ),
    build: build::<Sporadic>,
};
