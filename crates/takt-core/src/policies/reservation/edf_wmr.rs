//! EDF-WMR: reservations under semi-partitioned EDF (AIRS).
//!
//! Kato, Rajkumar and Ishikawa, "AIRS: Supporting Interactive Real-Time Applications on Multicore Platforms", ECRTS 2010,
//! section 5.2. Servers are assigned to CPUs as EDF-WM assigns tasks ([`crate::policies::split`]), and each CPU by itself goes by
//! FCBS ([`super::fcbs`]). Invariant: on each CPU a server gets a budget no more often than once a period by its deadlines, and
//! the rest of one is used, by whomever, with a deadline that is no earlier. So what the assignment admits on a CPU is never
//! late there, whatever jobs need, and however they come and sleep.
//!
//! The paper's figure 5 leaves open what the manual page calls resolved.

use super::fcbs::{Fcbs, Grant, own};
use super::servers::Servers;
use super::{Rule, build};
use crate::model::{
    CpuTest, Fact, Kind, Need, Profile, Reservation, Reservations, Scope, Setting, Split, TaskId, When,
};
use crate::policies::split::{Routes, Stop};
use crate::policy::{Build, Context, Entry};
use crate::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;

/// Where a split server is on its route.
#[derive(Clone, Copy, Debug)]
struct Journey {
    /// The period for which it was assigned.
    period: Span,
    /// When the present windows began, or the last ones; others begin no earlier than a period later.
    start: Option<Time>,
    /// It has a job, so that it moves at the borders.
    under_way: bool,
    /// The present stop.
    stop: usize,
    /// The last budget on the last CPU, which may be that of a window to come.
    last: Option<Grant>,
}

impl Journey {
    fn new(period: Span) -> Journey {
        Journey { period, start: None, under_way: false, stop: 0, last: None }
    }
}

struct Wmr {
    fcbs: Fcbs,
    /// Whether the rest of budgets is given away.
    gifts: bool,
    routes: Routes,
    /// By task of the system; only those of split tasks mean something.
    journeys: Vec<Journey>,
    /// By task of the system: since when its server has had no job that could run.
    idle_since: Vec<Time>,
}

impl Wmr {
    fn is_split(&self, task: TaskId) -> bool {
        self.routes.of(task).len() > 1
    }

    fn is_at_last(&self, task: TaskId) -> bool {
        self.journeys[task.index()].stop + 1 == self.routes.of(task).len()
    }

    /// Where the server is, and when the window there begins.
    fn window(&self, task: TaskId) -> (Stop, Time) {
        let journey = self.journeys[task.index()];
        let stop = self.routes.of(task)[journey.stop];
        (stop, journey.start.unwrap_or(Time::ZERO).saturating_add(stop.offset))
    }

    /// The server is on the CPU of its stop from now on, with the piece and the deadline that it has there.
    fn arrive(&mut self, task: TaskId, servers: &mut Servers, cx: &Context<'_>) {
        let Journey { period, start, stop, last, .. } = self.journeys[task.index()];
        let (Stop { place, window, piece, .. }, begins) = self.window(task);
        servers.move_to(task, place);
        let deadline = begins.saturating_add(window);
        let unit = servers.unit;
        // A job that overran may have used of this window's piece on the last CPU already, or of later ones.
        let ahead = last.filter(|last| self.is_at_last(task) && last.deadline.saturating_add(period) > deadline);
        let left = match ahead {
            None => i128::from(piece.ns()) * unit,
            Some(Grant { left, deadline }) => {
                // From the start of its own window on it shrinks, as if it had been used since then.
                let late = (cx.now().saturating_add(window) - deadline).or_zero();
                (left - i128::from(late.ns()) * unit).max(0)
            }
        };
        let server = servers.get_mut(task);
        (server.budget, server.period, server.relative) = (piece, period, period);
        // An overrun before that was noticed is paid for.
        server.left = server.left.min(0) + left;
        server.deadline = ahead.map_or(deadline, |last| last.deadline);
        self.idle_since[task.index()] = cx.now();
        let start = start.unwrap_or(Time::ZERO);
        let border = self.routes.of(task).get(stop + 1).map_or(period, |next| next.offset);
        servers.set_alarm(task, Some(start.saturating_add(border)));
    }

    /// The server's job is over, or blocks, or moves: the rest of its budget is given away if it `gives`, and what else is left
    /// of a gift is lost.
    fn part(&mut self, task: TaskId, gives: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        let server = servers.get_mut(task);
        if server.deadline <= cx.now() {
            server.left = server.left.min(0);
        }
        if self.gifts {
            self.fcbs.idles(task, gives, servers, cx);
        }
        if self.is_split(task) && self.is_at_last(task) {
            // Budget of other servers cannot be kept for later, so no more than a piece stays.
            let Grant { left, deadline } = own(task, servers);
            let piece = i128::from(servers.get(task).budget.ns()) * servers.unit;
            self.journeys[task.index()].last = Some(Grant { left: left.min(piece), deadline });
        }
    }
}

impl Rule for Wmr {
    fn new(build: &Build<'_>, servers: &mut Servers) -> Self {
        let routes = Routes::of_servers(build).expect("everybody has a server and a CPU");
        servers.route(build, |task, index, places| match routes.of(task) {
            [] => index == 0,
            stops => stops.iter().any(|stop| places.contains(&stop.place)),
        });
        let n = build.system.tasks.len();
        let mut journeys = vec![Journey::new(Span::ZERO); n];
        for &task in build.tasks {
            journeys[task.index()] = Journey::new(servers.get(task).period);
            if let Some(first) = routes.of(task).first() {
                servers.move_to(task, first.place);
            }
        }
        Wmr {
            fcbs: Fcbs::of_size(n, servers.clusters(), false),
            gifts: build.spec.value("gifts") != Some(1),
            routes,
            journeys,
            idle_since: vec![Time::ZERO; n],
        }
    }

    /// Others count on it that budgets are a period apart, and that one is used from the start of its period on or not at all: the
    /// share of the time until the deadline, by which CBS goes, is too much beside windows that end before their periods.
    fn wakes(&mut self, task: TaskId, servers: &mut Servers, cx: &mut Context<'_>) {
        let now = cx.now();
        if self.is_split(task) && !self.journeys[task.index()].under_way {
            let Journey { period, start, last, .. } = self.journeys[task.index()];
            let earliest = start.map_or(Time::ZERO, |start| start.saturating_add(period));
            self.journeys[task.index()] =
                Journey { period, start: Some(now.max(earliest)), under_way: true, stop: 0, last };
            return self.arrive(task, servers, cx);
        }
        let (split, unit, idle) = (self.is_split(task), servers.unit, now - self.idle_since[task.index()]);
        let server = servers.get_mut(task);
        if server.deadline > now {
            let drained = server.left - i128::from(idle.ns()) * unit;
            server.left = drained.max(server.left.min(0));
        } else if split {
            server.left = server.left.min(0);
        } else {
            server.renew(now, unit);
        }
    }

    fn woken(&mut self, task: TaskId, released: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        self.fcbs.woken(task, released, servers, cx);
    }

    fn idles(&mut self, task: TaskId, finished: bool, servers: &mut Servers, cx: &mut Context<'_>) {
        self.idle_since[task.index()] = cx.now();
        self.part(task, finished, servers, cx);
        if self.is_split(task) && cx.job(task).is_none() {
            self.journeys[task.index()].under_way = false;
            servers.set_alarm(task, None);
        }
    }

    fn restores(&mut self, task: TaskId, servers: &mut Servers) -> bool {
        self.fcbs.restores(task, servers)
    }

    /// Before the last CPU a server waits for the border, with a deadline by which it lags.
    fn holds(&mut self, task: TaskId, servers: &mut Servers) -> bool {
        if !self.is_split(task) || self.is_at_last(task) {
            return false;
        }
        let (Stop { window, .. }, begins) = self.window(task);
        servers.get_mut(task).deadline =
            begins.saturating_add(window).saturating_add(self.journeys[task.index()].period);
        true
    }

    /// A window has ended, or after the last one the period.
    fn alarm(&mut self, task: TaskId, servers: &mut Servers, cx: &mut Context<'_>) {
        servers.sync(task, cx);
        servers.leave(task);
        let (busy, last) = (servers.get(task).busy, self.is_at_last(task));
        self.part(task, busy && self.fcbs.has_gift(task), servers, cx);
        let journey = &mut self.journeys[task.index()];
        if last {
            journey.start = journey.start.map(|start| start.saturating_add(journey.period));
        }
        journey.stop = if last { 0 } else { journey.stop + 1 };
        self.arrive(task, servers, cx);
        if busy {
            self.fcbs.woken(task, true, servers, cx);
        }
    }

    /// The assigned room suffices for less.
    fn admits(&self, task: TaskId, wanted: Reservation, _: &Servers, _: &Context<'_>) -> bool {
        let assigned = self.routes.of(task).iter().fold(Span::ZERO, |sum, stop| sum + stop.piece);
        wanted.budget <= assigned && wanted.period >= self.journeys[task.index()].period
    }

    fn start(&mut self, servers: &mut Servers) {
        self.fcbs.start(servers);
        self.journeys.iter_mut().for_each(|journey| *journey = Journey::new(journey.period));
    }

    /// A split server keeps its pieces.
    fn retuned(&mut self, servers: &mut Servers, _: &mut Context<'_>) {
        for index in 0..servers.tasks.len() {
            let task = servers.tasks[index];
            if self.is_split(task) {
                let (piece, period) = (self.window(task).0.piece, self.journeys[task.index()].period);
                let server = servers.get_mut(task);
                (server.budget, server.period, server.relative) = (piece, period, period);
            }
        }
    }
}

/// Its line in the registry.
pub static ENTRY: Entry = Entry {
    profile: Profile {
        name: "edf-wmr",
        summary: "semi-partitioned EDF over reservations: flexible CBS on each CPU, split servers move at windows' borders (AIRS)",
        scopes: &[Scope::Partitioned],
        needs: &[Need::Reservation],
        facts: &[Fact::Reservations(Reservations { isolated: true, reclaimed: true, constrained: false, hard: When::Never }), Fact::Splits(Split::Windows)],
        test: CpuTest::Utilisation,
        settings: &[Setting {
        name: "gifts",
        kind: Kind::Choice(&["on", "off"]),
        default: "on",
        summary: "whether what jobs leave of their budgets goes to others on the same CPU",
    }],
    },
    manual: manual!(
        "\
Every task has a server, as under `cbs`, with a budget of Q in each period of P. Servers are assigned to CPUs as `edf-wm`
assigns tasks, with Q for the runtime and P for period and deadline. A server that fits on no CPU is split into n pieces for
n CPUs, each in a window of P / n. Each CPU then follows the rules of `fcbs` (e is the remaining budget of a server, s its
deadline). The unused budgets of jobs go to other servers on the same CPU.

A split server begins on the first CPU of its route, with its piece there as e and the end of the window as s. If this piece
is exhausted before the border, it is not replenished and the server waits. Its deadline s moves a period later, by which it
lags behind all others. So it is among the first servers that receive gifts. With a gift it runs, and without one it waits
again. At the border a timer moves it to the next CPU, with its piece there and the end of the next window as s. It first
gives away the rest of a gift. On the last CPU an exhausted piece is followed by another one, with a later deadline, as under
CBS. When its last job is over it gives away its remaining budget on its present CPU, and the next job begins on the first
one.

**When.** Players and other interactive tasks, if unsplit servers would not fit on the CPUs. A task that stays within Q in
each P meets every deadline if the assignment accepts the set, independently of other tasks. `takt check` reports this. The
argument is given for each rule below, and it held for thousands of random sets; it is not proven. A task that the assignment
refuses goes to the emptiest CPU, which may be overloaded.

**Placement.** `wf` is that of AIRS: it leaves capacity on every CPU for tasks that need more than their reservation. `ff` and the
default, `ffd`, accept more sets.

**Settings.** `gifts`, by default `on`; with `off` no budget is given away.

**Resolved.** The paper's figure 5 leaves the following rules open. If a job is released less than a period after the last
windows began, its windows begin a period after them. It may run before, with the deadlines of those windows. A split server
that still has work at the end of its period begins its route again, so that it gets Q for every P. Budget that it received
in advance on the last CPU is not granted again. With a whole piece at every border beside that budget, the server would
exceed its assignment, and others would be late. The rest of a piece at its own deadline is lost. A server that wakes up
keeps its deadline until that has passed, and its budget has shrunk by the time of its sleep. By the rule of CBS it could
keep its share of the time until the deadline. That rule harms others if windows end before their periods (the example
below).

**Several CPUs, resources, ties, budgets of tasks.** As `p-fcbs`. A task that requests another reservation gets one that is
no larger than its assignment, and no more frequent. That does not move tasks, and a split task keeps its pieces.

**Cost.** O(ready jobs of a CPU) per event, O(log n) for a timer, O(m) per decision, and one timer for each CPU.

**Source.** Kato, Rajkumar and Ishikawa, ECRTS 2010, section 5.2.

**Example.** A CPU has a piece of 5 ms in a window of 5 ms every 10 ms, and a server of 5 ms in 10 ms. Its job runs from 0 to
4 ms and sleeps until 7 ms, where the piece begins. By the rule of CBS it continues with the remaining 1 ms and a deadline of
10 ms. So the piece ends at 13 ms and is late. Here that millisecond is lost: the next 5 ms have a deadline of 20 ms."
    ),
    build: build::<Wmr>,
};
