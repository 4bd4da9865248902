//! The sporadic server, as it was corrected.
//!
//! Sprunt, Sha and Lehoczky, "Aperiodic Task Scheduling for Hard-Real-Time Systems", Real-Time Systems 1, 1989; Stanovich, Baker,
//! Wang and González Harbour, "Defects of the POSIX Sporadic Server and How to Correct Them", RTAS 2010, for the rules; Spuri and
//! Buttazzo, "Scheduling Aperiodic Tasks in Dynamic Priority Systems", Real-Time Systems 10, 1996, for deadlines. Invariant: of
//! each part of the budget the instants from which on it could be used are at least P apart, so that to everybody else the server
//! is a sporadic task with the runtime Q and the period P.

use super::posix::Posix;
use super::refills::Refills;
use super::{BACKGROUND, BY, CONSERVING, RANKED_BY, Rule, SCOPES, SERVED_LAST, build, shared};
use crate::model::{CpuTest, Fact, Kind, PolicySpec, Profile, Reservation, Servers, Setting, When};
use crate::policy::Entry;
use crate::time::{Span, Time};

/// How many parts of a budget are kept apart when nobody says.
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
        summary: "rate monotonic with sporadic servers: what was used comes back a period after it could be used",
        scopes: SCOPES,
        needs: &[],
        facts: &[Fact::Servers(Servers { ranked_by: RANKED_BY, back_to_back: false, premature: When::Is(VARIANT.name, 1), background: SERVED_LAST }), CONSERVING],
        test: CpuTest::Utilisation,
        settings: &[BY, BACKGROUND, REPLENISHMENTS, VARIANT],
    },
    manual: concat!(
        "\
As `polling-server` (a task with a `reservation` of Q and P is served, the others are periodic tasks beside it), but the server
keeps its budget for as long as there is no work, and gets each part back P after the instant from which on it could be used.

When work comes and something of the budget is there, that instant is now. When the work is done, what was used of the budget is a
part of its own, which comes back P after that instant; the rest waits for the next work. A part that is used up before the
work is done is followed by the next one, if that is there, and otherwise the server waits for it. So a budget falls into
parts. There are as many as `replenishments` says; beyond that, the rest waits with the next part.

**When.** Work that should begin at once when it comes, beside others that must not pay for it: to them the server is a sporadic task.
It is SCHED_SPORADIC of POSIX without the defects of that, which `variant: posix` has for comparison. There one instant is kept
for all parts, so that some come back too early; and a budget does not fall below zero, so that an overrun comes back without having
been paid for. Here each part has its own instant, and an overrun is taken off the next part. While as many parts are to come back as
`replenishments` says, a server of POSIX has no budget, whatever is left.

",
        shared!(),
        "\
**Cost.** O(ready jobs + parts) per event, for each task of a server when its budget ends or comes, and a timer for each CPU that goes
off when a server that waits has a budget again.

**Source.** Sprunt, Sha and Lehoczky, Real-Time Systems 1, 1989; Stanovich, Baker, Wang and González Harbour, RTAS 2010; by deadline
Spuri and Buttazzo, Real-Time Systems 10, 1996.

**Example.** `policy: sporadic-server` with `tasks: [{name: requests, releases: [2ms, 4ms, 6ms], runtime: 1ms, reservation: {budget: 2ms,
period: 5ms}}, {name: control, runtime: 3ms, period: 10ms}]`: the requests run at 2, 4 and 7 ms, when the first part is back."
    ),
    build: build::<Sporadic>,
};
