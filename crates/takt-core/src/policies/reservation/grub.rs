//! Greedy reclamation of unused bandwidth.
//!
//! Lipari and Baruah, "Greedy reclamation of unused bandwidth in constant-bandwidth servers", ECRTS 2000; for several CPUs Abeni,
//! Lipari, Parri and Sun, "Multicore CPU reclaiming: parallel or sequential?", SAC 2016 (parallel); for the states
//! Linux, `Documentation/scheduler/sched-deadline.rst`. Invariant: the budget of a server that runs drains at the rate at which
//! active servers together were promised time, so that what inactive ones do not use is not counted against it.
//!
//! Rates are fractions with the product of a common multiple of all periods and the number of CPUs as their denominator, so
//! that budgets are exact. If that multiple is beyond 2^50 ns, shares are rounded up to units of 2^-50 of a CPU, which only lets
//! budgets drain faster.

use super::cbs::{ENFORCEMENT, HARD, SOFT, is_hard};
use super::server::Server;
use super::servers::Servers;
use super::{Rule, build};
use crate::model::{CpuTest, Fact, Need, Profile, Reservations, TaskId};
use crate::policies::scope;
use crate::policy::{Build, Context, Entry};
use crate::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// Where rates are no longer exact.
const FINEST: i128 = 1 << 50;

struct Grub {
    hard: bool,
    /// By task of the system: whether its bandwidth is counted. A server stays active after its work until the rest of its
    /// budget is no more than its share of the time until its deadline (the 0-lag time).
    active: Vec<bool>,
    /// By task of the system: Q / P, in parts of [`Grub::whole`], or what it was before while the server has not been inactive
    /// since: it may have used of that ahead of time.
    shares: Vec<i128>,
    /// One CPU.
    whole: i128,
    /// By cluster: the sum of the active servers' shares, and the largest share of any.
    sums: Vec<i128>,
    largest: Vec<i128>,
}

fn greatest_common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Grub {
    /// The denominator, for the present periods.
    fn denominator(servers: &Servers) -> i128 {
        let mut multiple = 1;
        for &task in &servers.tasks {
            let period = i128::from(servers.get(task).period.ns());
            multiple = multiple / greatest_common_divisor(multiple, period) * period;
            if multiple > FINEST {
                return FINEST;
            }
        }
        multiple
    }

    /// Works out shares, and in them the rest of each budget. O(tasks log period).
    fn share_out(&mut self, servers: &mut Servers) {
        let most = (0..servers.clusters()).map(|c| servers.cpus(c)).max().unwrap_or(1).max(1) as i128;
        let before = core::mem::replace(&mut self.whole, Self::denominator(servers));
        let (old, new) = (servers.unit, self.whole * most);
        servers.unit = new;
        for index in 0..servers.tasks.len() {
            let task = servers.tasks[index];
            let own = self.share_of(servers.get(task));
            let server = servers.get_mut(task);
            let had = (self.shares[task.index()] * self.whole + before - 1) / before;
            let share = if self.active[task.index()] { own.max(had) } else { own };
            self.shares[task.index()] = share;
            // A server drains no slower than at its own share.
            server.least_rate = share * most;
            let (whole, rest) = (server.left.div_euclid(old), server.left.rem_euclid(old));
            server.left = whole * new + rest * new / old;
        }
        self.sums.fill(0);
        self.largest.fill(0);
        for &task in &servers.tasks {
            let (home, share) = (servers.home(task), self.shares[task.index()]);
            self.largest[home] = self.largest[home].max(share);
            self.sums[home] += if self.active[task.index()] { share } else { 0 };
        }
    }

    /// Sets the rate of a cluster: (the active servers' shares + (m - 1) times the largest share) / m, and no more than one.
    fn set_rate(&self, cluster: usize, servers: &mut Servers, cx: &Context<'_>) {
        let m = servers.cpus(cluster).max(1) as i128;
        let promised = self.sums[cluster] + (m - 1) * self.largest[cluster];
        // Rounded up where a last, smaller cluster does not divide the unit.
        let rate = (promised * (servers.unit / self.whole) + m - 1) / m;
        servers.set_rate(cluster, rate.clamp(1, servers.unit), cx);
    }

    fn set_active(&mut self, task: TaskId, active: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        if core::mem::replace(&mut self.active[task.index()], active) != active {
            let (home, share) = (servers.home(task), self.shares[task.index()]);
            self.sums[home] += if active { share } else { -share };
            self.set_rate(home, servers, cx);
            if !active && self.is_less(task, servers) {
                self.retuned(servers, cx);
            }
        }
    }

    /// Whether the server has a larger share than is reserved for it now.
    fn is_less(&self, task: TaskId, servers: &Servers) -> bool {
        self.share_of(servers.get(task)) < self.shares[task.index()]
    }

    /// Q / P of the present reservation, in parts of [`Grub::whole`], rounded up.
    fn share_of(&self, server: &Server) -> i128 {
        let (q, p) = (i128::from(server.budget.ns()), i128::from(server.period.ns()));
        (q * self.whole + p - 1) / p
    }
}

impl Rule for Grub {
    fn new(build: &Build<'_>, servers: &mut Servers) -> Self {
        let n = build.system.tasks.len();
        let clusters = servers.clusters();
        let mut new = Grub {
            hard: is_hard(&build.spec),
            active: vec![false; n],
            shares: vec![0; n],
            whole: 1,
            sums: vec![0; clusters],
            largest: vec![0; clusters],
        };
        new.share_out(servers);
        new
    }

    fn is_hard(&self) -> bool {
        self.hard
    }

    /// An active server continues with what it has, unless that is seen to be out of date.
    fn is_stale(&self, task: TaskId, server: &Server, now: Time) -> bool {
        !self.active[task.index()] || (self.hard && server.deadline < now)
    }

    fn woken(&mut self, task: TaskId, _: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        servers.set_alarm(task, None);
        self.set_active(task, true, servers, cx);
    }

    fn idles(&mut self, task: TaskId, _: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        let server = servers.get(task);
        if server.throttled {
            return;
        }
        // The share that the budget was granted for. By a larger one from before it, the server could keep a budget until shortly
        // before its deadline, and others have that share already.
        let rate = match server.deadline <= server.claim.1 {
            true => server.least_rate,
            false => self.share_of(server) * (servers.unit / self.whole),
        };
        // The 0-lag time: the deadline less the rest, at that share; rounded up.
        let ahead = server.left.max(0) / rate.max(1);
        let lag = i128::from(server.deadline.ns()) - ahead;
        let lag = Time::from_ns(i64::try_from(lag).unwrap_or(i64::MAX));
        if lag > cx.now() {
            servers.set_alarm(task, Some(lag));
        } else {
            self.set_active(task, false, servers, cx);
        }
    }

    fn alarm(&mut self, task: TaskId, servers: &mut Servers, cx: &mut Context<'_>) {
        self.set_active(task, false, servers, cx);
    }

    fn start(&mut self, servers: &mut Servers) {
        self.active.fill(false);
        self.share_out(servers);
    }

    fn retuned(&mut self, servers: &mut Servers, cx: &mut Context<'_>) {
        for cluster in 0..servers.clusters() {
            for index in 0..servers.running(cluster).len() {
                servers.sync(servers.running(cluster)[index], cx);
            }
        }
        self.share_out(servers);
        (0..servers.clusters()).for_each(|cluster| self.set_rate(cluster, servers, cx));
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "grub",
        summary: "greedy reclamation of unused bandwidth: budgets last longer while other servers are inactive",
        scopes: scope::SCOPES,
        needs: &[Need::Reservation],
        facts: &[Fact::Reservations(Reservations { isolated: true, reclaimed: true, constrained: false, hard: HARD }), SOFT],
        test: CpuTest::Utilisation,
        settings: &[ENFORCEMENT],
    },
    manual: manual!(
        "\
CBS (see `cbs`: e is the remaining budget of a server, s its deadline, Q and P its reservation) with reclaiming. The budget
of a running server drains at the rate U instead of 1. U is the sum of Q / P over the active servers. So a running server
gets all time that no other server needs, and its deadline moves no further than this use justifies.

A server is active from its wake-up until its 0-lag time after its last job, s - e P / Q. Until then it has run ahead of its
share. A server that wakes up before its 0-lag time continues with e and s. An inactive server gets e = Q and s = now + P.

**When.** Tasks whose load varies. `cbs` would move the deadlines of tasks that overrun, although the CPU has idle time. On
one CPU with a sum of Q / P of at most 1, a task within Q in each P meets its deadlines.

**Settings.** `enforcement`: `soft`, the default, is the rule of the paper, `hard` that of the kernel's reclaiming
(SCHED_FLAG_RECLAIM). There is no extra bandwidth to reclaim (Uextra), because all of the CPU is reclaimed already.

**Several CPUs.** Each server of a cluster of m CPUs drains at the larger of its own Q / P and (U + (m - 1) Umax) / m, where
Umax is the largest Q / P (parallel reclaiming). A server gets at least its Q at any load.

**Arithmetic.** Rates and budgets are exact fractions, if a common multiple of all periods is at most 2^50 ns (13 days). Else
shares are rounded up to 2^-50 of a CPU. A budget is exhausted when less than a nanosecond remains, which is lost.

**Resources, ties, budgets of tasks.** As `cbs`.

**Cost.** O(ready jobs + m) per event, O(m) per decision, and one timer for each cluster of CPUs; O(tasks) when a reservation
changes.

**Source.** Lipari and Baruah, ECRTS 2000; Abeni, Lipari, Parri and Sun, SAC 2016; the kernel's documentation of
SCHED_DEADLINE.

**Example.** Two servers of 4 ms in 8 ms. The first one blocks at 2 ms with 2 ms left: its 0-lag time is 4 ms. The second drains
at 1 until then, and at 1/2 after it: it runs from 2 to 8 ms on 4 ms of budget. Under `cbs` these end at 6 ms."
    ),
    build: build::<Grub>,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Denominators are least common multiples, or they would overflow.
    #[test]
    fn divisors_are_the_greatest() {
        assert_eq!([(12, 18), (18, 12), (7, 13), (5, 0)].map(|(a, b)| greatest_common_divisor(a, b)), [6, 6, 1, 5]);
    }
}
