//! The flexible constant bandwidth server (AIRS).
//!
//! Kato, Rajkumar and Ishikawa, "AIRS: Supporting Interactive Real-Time Applications on Multicore Platforms", ECRTS 2010,
//! section 4.2. What a job leaves of its server's budget is given to another server, with a deadline that is no earlier than
//! that of the budget. Invariant: until any instant, the budgets with deadlines up to it are those that CBS would have handed out.
//!
//! The paper's figure 4 does not keep this as it stands. The manual page says what is resolved, and how the literal form goes
//! wrong.

use super::servers::Servers;
use super::{Rule, build};
use crate::model::{CpuTest, Fact, Kind, Need, Profile, Reservations, Setting, TaskId, When};
use crate::policies::scope;
use crate::policy::{Build, Context, Entry};
use crate::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// A budget with the deadline by which it is to be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) left: i128,
    pub(super) deadline: Time,
}

/// The rest of the last job before its CPUs became idle, and since when they are.
#[derive(Clone, Copy, Debug)]
struct Bonus {
    grant: Grant,
    since: Time,
}

pub(super) struct Fcbs {
    /// Figure 4 as it is printed.
    literal: bool,
    /// By task of the system: its own budget and deadline while it has another one's.
    saved: Vec<Option<Grant>>,
    /// By task of the system: its own remaining budget before the last addition. The rest is a gift, which its jobs use first.
    /// `i128::MAX` if nothing was added to the present budget.
    unaided: Vec<i128>,
    /// By cluster.
    bonus: Vec<Option<Bonus>>,
}

/// The budget of the server.
pub(super) fn own(task: TaskId, servers: &Servers) -> Grant {
    let server = servers.get(task);
    Grant { left: server.left, deadline: server.deadline }
}

fn set(task: TaskId, grant: Grant, servers: &mut Servers) {
    let server = servers.get_mut(task);
    (server.left, server.deadline) = (grant.left, grant.deadline);
}

impl Fcbs {
    /// For so many tasks of the system and clusters.
    pub(super) fn of_size(tasks: usize, clusters: usize, literal: bool) -> Fcbs {
        Fcbs { literal, saved: vec![None; tasks], unaided: vec![i128::MAX; tasks], bonus: vec![None; clusters] }
    }

    /// Whether the server runs on what another one left.
    pub(super) fn has_gift(&self, task: TaskId) -> bool {
        self.saved[task.index()].is_some()
    }

    /// Adds a gift to the server's budget, with its deadline.
    fn add(&mut self, task: TaskId, gift: i128, servers: &mut Servers) {
        let left = &mut servers.get_mut(task).left;
        // A server that runs on a gift has put its own budget aside.
        if self.saved[task.index()].is_none() {
            let unaided = &mut self.unaided[task.index()];
            *unaided = (*unaided).min(*left);
        }
        *left += gift;
    }

    /// Donates the rest of a finished job's budget. Whether a server receives it.
    fn donate(&mut self, task: TaskId, gift: Grant, servers: &mut Servers, cx: &mut Context<'_>) -> bool {
        let (home, now) = (servers.home(task), cx.now());
        let free = |k: TaskId| self.literal || self.saved[k.index()].is_none();
        let after = |k: TaskId| self.literal || servers.get(k).deadline > gift.deadline;
        let lags = |k: TaskId| servers.get(k).deadline > now.saturating_add(servers.get(k).period);
        let no_earlier = |j: TaskId| self.literal || servers.get(j).deadline >= gift.deadline;
        let behind = servers.ready(home).chain(servers.held(home)).filter(|k| lags(*k) && after(*k) && free(*k));
        let lagging = behind.min_by_key(|k| servers.get(*k).deadline);
        let next = servers.ready(home).find(|j| no_earlier(*j));
        if let Some(k) = lagging {
            // On several CPUs it may run already.
            servers.sync(k, cx);
            self.saved[k.index()] = Some(own(k, servers));
            set(k, gift, servers);
            servers.leave(k);
            servers.rank(k, cx);
            return true;
        }
        if let Some(j) = next {
            self.add(j, gift.left, servers);
            return true;
        }
        let idle = servers.ready(home).next().is_none();
        if idle {
            self.bonus[home] = Some(Bonus { grant: gift, since: now });
        }
        idle
    }
}

impl Rule for Fcbs {
    fn new(build: &Build<'_>, servers: &mut Servers) -> Self {
        Fcbs::of_size(build.system.tasks.len(), servers.clusters(), build.spec.value("variant") == Some(1))
    }

    /// An added gift is lost while a server sleeps: the CPU could be idle meanwhile. With the gift, the rule of CBS could bring a server
    /// that has used its budget the next one early. Without that rule, the server could have more than its share of the time until
    /// its deadline.
    fn wakes(&mut self, task: TaskId, servers: &mut Servers, cx: &mut Context<'_>) {
        let (now, unit) = (cx.now(), servers.unit);
        let unaided = core::mem::replace(&mut self.unaided[task.index()], i128::MAX);
        let server = servers.get_mut(task);
        if !self.literal {
            server.left = server.left.min(unaided);
        }
        if server.is_stale(now, true) {
            server.renew(now, unit);
        }
    }

    fn woken(&mut self, task: TaskId, released: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        if self.literal && released {
            self.saved[task.index()] = None;
        }
        if self.literal && !released {
            return;
        }
        // From now on the CPUs are not idle.
        let Some(Bonus { grant, since }) = self.bonus[servers.home(task)].take() else { return };
        let left = grant.left - i128::from((cx.now() - since).ns());
        let in_time = self.literal || servers.get(task).deadline >= grant.deadline;
        // A job that wakes up as another one ends, for example with its resource, is ready at that instant.
        if (released || since == cx.now()) && left > 0 && in_time {
            self.add(task, left, servers);
        }
    }

    fn idles(&mut self, task: TaskId, finished: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        let mut gift = own(task, servers);
        let saved = if finished || !self.literal { self.saved[task.index()].take() } else { None };
        if let Some(mut saved) = saved {
            // An overrun of the gift is paid for.
            saved.left += gift.left.min(0);
            // The literal form gives its own budget up, and the rest of the other one gets its own deadline.
            gift.deadline = if self.literal { saved.deadline } else { gift.deadline };
            set(task, if self.literal { gift } else { saved }, servers);
        }
        let given = finished && gift.left > 0 && self.donate(task, gift, servers, cx);
        if given && saved.is_none() && !self.literal {
            servers.get_mut(task).left = 0;
        }
    }

    fn restores(&mut self, task: TaskId, servers: &mut Servers) -> bool {
        let saved = self.saved[task.index()];
        if !self.literal {
            self.saved[task.index()] = None;
        }
        let Some(mut saved) = saved else {
            // The next budget is its own.
            self.unaided[task.index()] = i128::MAX;
            return false;
        };
        // An overrun before that was noticed is paid for.
        saved.left += servers.get(task).left.min(0);
        set(task, saved, servers);
        saved.left > 0
    }

    fn latest(&self, task: TaskId, servers: &Servers) -> Time {
        let saved = self.saved[task.index()].map_or(Time::ZERO, |saved| saved.deadline);
        saved.max(servers.get(task).deadline)
    }

    fn start(&mut self, _: &mut Servers) {
        self.saved.fill(None);
        self.unaided.fill(i128::MAX);
        self.bonus.fill(None);
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "fcbs",
        summary: "flexible CBS: what jobs leave of their budgets goes to those that lag behind (AIRS)",
        scopes: scope::SCOPES,
        needs: &[Need::Reservation],
        facts: &[Fact::Reservations(Reservations { isolated: false, reclaimed: true, constrained: false, hard: When::Never }), Fact::WorkConserving(When::Always)],
        test: CpuTest::Utilisation,
        settings: &[Setting {
        name: "variant",
        kind: Kind::Choice(&["resolved", "literal"]),
        default: "resolved",
        summary: "the rules that keep the guarantee of CBS, or figure 4 of the paper as printed, which does not",
    }],
    },
    manual: manual!(
        "\
Soft CBS (see `cbs`: e is the remaining budget of a server, s its deadline, Q and P its reservation). If the last job of a
task ends with e > 0, the server gives e away.

1. The first server, by deadline, that lags (s > now + P: it exhausted a budget early) runs with the gift and the
   giver's deadline. It keeps its own budget and deadline and uses them again when the gift is exhausted.
2. If there is none, the gift is added to the budget of the first ready server.
3. If no server is ready, the gift is a bonus for the next released job, and shrinks with time. A job that wakes up at the same
   instant counts as ready.

The rest of a gift is given away again. Under `p-fcbs` and `c-fcbs` gifts stay within the cluster.

**When.** Players and other interactive tasks whose execution times vary. Unused budgets of short jobs help long ones, so
fewer jobs are late than under CBS. It is the scheduler of AIRS. Random sets with a sum of Q / P of at most 1 were tested on
one CPU. In all of them, tasks that stay within Q in each P still meet their deadlines. A proof is not known to us, so `takt
check` does not claim it.

**Resolved.** The paper's figure 4 as printed (`variant: literal`) breaks that guarantee. The default, `resolved`, keeps it
by these rules. A gift no longer belongs to the giver. A kept budget comes back once, and when it is exhausted, the next budget
is that of CBS. Only servers with a deadline after (1) or no earlier than (2) that of the gift get it. A gift keeps its
deadline when it is given on, and a server that runs on a gift does not lose its own budget. A bonus is only for a job whose
server has a deadline no earlier, and is lost when any other job becomes ready. A server gets no second gift while it has
one, and loses it when its job blocks. A gift without a receiver stays with its server, by the rules of CBS. Jobs use an
added gift before the server's own budget. The rest of the gift is lost when the server wakes up again, before the rule of CBS
is applied. With the gift, a server that has used its budget could get the next one early, and more than Q / P.

**Settings.** `variant`, by default `resolved`.

**Several CPUs, resources, ties, budgets of tasks.** As `cbs`.

**Cost.** O(ready jobs) per event, O(m) per decision, and one timer for each cluster of CPUs.

**Source.** Kato, Rajkumar and Ishikawa, ECRTS 2010, section 4.2.

**Example.** Three servers of 40 ms in 100 ms, 5 ms in 10 ms and 1 ms in 10 ms fill a CPU. A job of the first one ends at 10
ms and leaves 30 ms. A job of the second is released at 20 ms and gets 20 ms of it under `literal`. It runs until 45 ms with
a deadline of 30 ms. A job of the third one, released at 21 ms, misses its deadline of 31 ms. Resolved, the deadline of 100
ms is too late for the second server to have that bonus, and the third one meets its deadline."
    ),
    build: build::<Fcbs>,
};
