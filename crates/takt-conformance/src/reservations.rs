//! The deadlines of servers, by the rules of the constant bandwidth server: Abeni and Buttazzo, RTSS 1998; Abeni, Lipari and Lelli,
//! SIGBED Review 11(4), 2015, for deadlines before the ends of periods.
//!
//! The rest of a budget is known from the budgets that are recorded. What other policies do with budgets (GRUB, FCBS) is not
//! modelled, so a deadline has two bounds: where a server may or may not have got a new budget, both cases are kept.

use crate::ledger::Ledger;
use crate::rules;
use crate::standing::{LAST, Seen, Standing};
use takt_core::engine::Engine;
use takt_core::model::{Backlog, Reservation, TaskId};
use takt_core::record::{JobId, Outcome, Record, RecordKind};
use takt_core::time::Time;

/// A server as far as it is known.
#[derive(Clone, Debug)]
struct Server {
    reserved: Option<Reservation>,
    /// Bounds of its deadline; `None` when nothing is known.
    deadline: Option<(i64, i64)>,
    /// The rest of its budget.
    left: Option<i64>,
    /// The earliest deadline of a budget that another server may have left to it.
    gift: Option<i64>,
    /// It waits for its next period, or may do so.
    throttled: bool,
    /// It has a job that is not blocked.
    busy: bool,
    /// Up to when consumption has been taken off, and whether it ran since then.
    since: Time,
    ran: bool,
    /// How long that was.
    passed: i64,
    /// Its jobs, and whether it is at the handler of another one.
    jobs: Vec<JobId>,
    handler: bool,
    /// A job of it has ended in this step.
    ended: bool,
    /// Another server may have left something for its budget in this step.
    helped: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Reservations {
    servers: Vec<Server>,
    /// By task: it has its CPU for good.
    whole: Vec<bool>,
}

const UNKNOWN: Server = Server {
    reserved: None,
    deadline: None,
    left: None,
    gift: None,
    throttled: false,
    busy: false,
    since: Time::ZERO,
    ran: false,
    passed: 0,
    jobs: Vec::new(),
    handler: false,
    ended: false,
    helped: false,
};

/// How many budgets of `whole` are needed for something to be left.
fn budgets(left: i64, whole: i64) -> i64 {
    ((1 - left).max(1) + whole - 1) / whole
}

fn hull(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    let ((a, b), (c, d)) = (a?, b?);
    Some((a.min(c), b.max(d)))
}

impl Server {
    fn terms(&self) -> (i64, i64, i64) {
        let r = self.reserved.expect("only servers with a reservation are followed");
        (r.budget.ns(), r.period.ns(), r.relative_deadline().ns())
    }

    fn later(&self, least: i64, most: i64) -> Option<(i64, i64)> {
        self.deadline.and_then(|(a, b)| Some((a.checked_add(least)?, b.checked_add(most)?)))
    }

    /// The server wakes up.
    fn wakes(&mut self, rule: Rule, now: i64) {
        let (q, p, d) = self.terms();
        let renewed = Some((now + d, now + d));
        self.busy = true;
        if self.throttled {
            return;
        }
        // The budget that a hard server got meanwhile, when its next period began.
        if rule.hard
            && let (Some((a, b)), Some(left)) = (self.deadline, self.left)
            && left <= 0
        {
            let next = |deadline: i64| deadline - d + p;
            if next(b) <= now {
                let times = budgets(left, q);
                (self.deadline, self.left) = (self.later(times * p, times * p), Some(left + times * q));
            } else if next(a) <= now {
                (self.deadline, self.left) = (self.later(0, budgets(left, q) * p), None);
            }
        }
        let exact = self.deadline.filter(|(a, b)| a == b).zip(self.left).map(|((at, _), left)| (at, left));
        let (renews, keeps) = match (rule.kind, exact) {
            // The revised rule of waking up.
            (Kind::Cbs { .. }, Some((at, left))) if d < p => {
                if at - d + p <= now {
                    (true, false)
                } else {
                    let share = i128::from((at - now).max(0)) * i128::from(q) / i128::from(d);
                    self.left = Some(left.min(share as i64));
                    (false, true)
                }
            }
            (Kind::Cbs { renews_equal }, Some((at, left))) => {
                let (left, share) = (i128::from(left) * i128::from(p), i128::from(at - now) * i128::from(q));
                let stale = at < now || left > share || (renews_equal && (at == now || left == share));
                (stale, !stale)
            }
            (Kind::Cbs { .. }, None) => {
                let over = self.deadline.is_some_and(|(_, b)| b - d + p < now);
                (true, !over)
            }
            (Kind::Fcbs, _) => (true, self.deadline.is_none_or(|(_, b)| b > now)),
            (Kind::Wmr, _) => {
                let known = self.deadline;
                (known.is_none_or(|(a, _)| a <= now), known.is_none_or(|(_, b)| b > now))
            }
            (Kind::Grub { settled }, _) => (true, !settled || self.deadline.is_none_or(|(_, b)| b >= now)),
        };
        let certain = exact.is_some() && matches!(rule.kind, Kind::Cbs { .. });
        let times = self.left.map_or(1, |left| budgets(left, q));
        let kept = match (rule.kind, self.left) {
            // It gets the next budget at once.
            _ if certain && self.left <= Some(0) => self.later(times * p, times * p),
            (Kind::Cbs { .. }, Some(1..)) if certain || d == p => self.deadline,
            // It may have nothing left.
            _ => self.later(0, times * p),
        };
        match (renews, keeps) {
            (true, false) => (self.deadline, self.left) = (renewed, Some(q)),
            (false, true) => {
                let empty = self.left.is_none_or(|left| left <= 0) || !certain;
                if rule.hard && empty {
                    // It waits for its next period, from where it is.
                    self.throttled = true;
                } else {
                    self.deadline = kept;
                    if empty {
                        self.left = None;
                    }
                }
            }
            _ => {
                self.throttled |= rule.hard;
                (self.deadline, self.left) = (hull(renewed, kept), None);
            }
        }
    }

    /// Another budget, if nothing is left.
    fn settles(&mut self, rule: Rule, now: i64) {
        let (q, p, d) = self.terms();
        let Some(left) = self.left.filter(|left| *left <= rule.least_left()) else { return };
        let times = budgets(left, q);
        let slow = matches!(rule.kind, Kind::Grub { .. }) && left >= 0;
        if rule.hard && left < 0 {
            // An overrun is charged to one budget or to several, as its end was noticed.
            (self.deadline, self.left, self.throttled) = (None, None, true);
            return;
        }
        if rule.hard {
            // It waits for its next period, unless that has begun.
            let begun = |deadline: i64| deadline - d + p <= now;
            let waits = self.deadline.filter(|_| slow || !self.deadline.is_some_and(|(a, _)| begun(a)));
            let certain = matches!(rule.kind, Kind::Cbs { .. });
            let next = self.later(if certain { times * p } else { p }, times * p);
            // One that comes too late for it begins again.
            let next = next.map(|(a, b)| if a < now { (a.min(now + d), b.max(now + d)) } else { (a, b) });
            let may_begin = self.deadline.is_none_or(|(_, b)| begun(b)) || slow;
            match (waits, may_begin) {
                (Some(_), false) => self.throttled = true,
                (None, true) => (self.deadline, self.left) = (next, None),
                _ => {
                    self.throttled = true;
                    (self.deadline, self.left) = (hull(self.deadline, next), None);
                }
            }
            return;
        }
        // GRUB may take off less, and its server may have a nanosecond left; another server may have left something.
        let less = if self.gift.is_some() || self.helped || slow { 0 } else { 1 };
        let exact = matches!(rule.kind, Kind::Cbs { .. });
        self.deadline = self.later(if exact { times * p } else { less * p }, times * p);
        // One of this step may have come after that.
        self.gift = self.gift.filter(|_| self.helped);
        self.left = Some(left + times * q).filter(|_| exact);
    }
}

/// Which rules its policy goes by.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Cbs {
        /// A server begins again that wakes up with just its share of the time until the deadline.
        renews_equal: bool,
    },
    Fcbs,
    Grub {
        /// Everything due before this instant has been done at its time.
        settled: bool,
    },
    Wmr,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    kind: Kind,
    hard: bool,
}

impl Rule {
    fn least_left(self) -> i64 {
        i64::from(matches!(self.kind, Kind::Grub { .. }))
    }
}

impl Reservations {
    /// The rules for a task; `None` if they are not stated here.
    fn rule(&self, ledger: &Ledger, task: TaskId) -> Option<Rule> {
        let (spec, _) = ledger.policy_of(task);
        let hard = rules::is_hard(spec);
        let kind = match spec.profile.name {
            "cbs" => Kind::Cbs {
                renews_equal: match spec.value("equality") {
                    Some(1) => true,
                    Some(2) => false,
                    _ => !hard,
                },
            },
            // Figure 4 of the paper as it is printed.
            "fcbs" if spec.value("variant") == Some(1) => return None,
            "fcbs" => Kind::Fcbs,
            "grub" => Kind::Grub { settled: ledger.is_punctual() && ledger.was_on_time() },
            "edf-wmr" if self.whole[task.index()] => Kind::Wmr,
            _ => return None,
        };
        // A budget that ends may be that of the job.
        let own_budget = ledger.account(task).task.budget.is_some();
        (!ledger.is_metered() && !own_budget).then_some(Rule { kind, hard })
    }

    pub(crate) fn follow(
        &mut self,
        ledger: &Ledger,
        records: &[Record],
        seen: &[Seen],
        begins: &[bool],
        whole: Vec<bool>,
        engine: &Engine,
    ) {
        self.whole = whole;
        self.servers.resize_with(seen.len(), || UNKNOWN);
        let now = engine.now();
        for (index, seen) in seen.iter().enumerate() {
            let task = TaskId(index as u32);
            let rule = self.rule(ledger, task);
            let reserved = engine.agreed(task).reserved();
            let server = &mut self.servers[index];
            let (jobs, handler, busy) = (server.jobs.clone(), server.handler, server.busy);
            let retimed = seen.retimed > 0 || server.reserved.is_some_and(|before| Some(before) != reserved);
            let unknown = Server { reserved, jobs, handler, busy, since: now, ..UNKNOWN };
            let Some(rule) = rule else {
                *server = unknown;
                continue;
            };
            server.passed = if server.ran { (now - server.since).ns() } else { 0 };
            server.left = server.left.map(|left| left - server.passed);
            (server.since, server.ended, server.helped) = (now, false, false);
            if begins[index] && !retimed {
                *server = unknown;
                let (q, p, d) = server.terms();
                (server.deadline, server.left) = (Some((d - p, d - p)), Some(q));
                let ready = engine.job(task).is_some_and(|job| job.ready);
                if ready || seen.left {
                    server.wakes(rule, now.ns());
                }
                if seen.left {
                    // It woke up before, or it did not, and may have got another budget since.
                    server.deadline = hull(server.later(0, p), Some((d - p, d - p)));
                    server.left = None;
                }
            } else if retimed {
                // Its budget is by the old terms, and perhaps it got something in between.
                *server = unknown;
            }
        }
        for record in records {
            self.record(ledger, record, begins, now);
        }
        for index in 0..self.servers.len() {
            let task = TaskId(index as u32);
            let (rule, a) = (self.rule(ledger, task), ledger.account(task));
            let server = &mut self.servers[index];
            server.busy = a.current().is_some() && !a.blocked;
            let Some(rule) = rule else { continue };
            if server.ran && server.busy {
                server.settles(rule, now.ns());
            }
            if server.throttled {
                server.wait_on(ledger, rule, now.ns());
            }
            server.ran = a.place.is_some() && !a.blocked;
            if a.place.is_some() {
                server.throttled = false;
                server.left = engine.budget_left(task).map(|left| left.ns());
            }
        }
    }

    /// Consumption before the first decision is charged later.
    pub(crate) fn undecided(&mut self) {
        self.servers.iter_mut().filter(|server| server.ran).for_each(|server| server.deadline = None);
    }

    fn record(&mut self, ledger: &Ledger, record: &Record, begins: &[bool], now: Time) {
        let task = match record.kind {
            RecordKind::Release { task, .. }
            | RecordKind::Finish { task, .. }
            | RecordKind::Handler { task, .. }
            | RecordKind::HandlerEnd { task, .. }
            | RecordKind::Block { task, .. }
            | RecordKind::Wake { task, .. }
            | RecordKind::Yield { task, .. } => task,
            _ => return,
        };
        let rule = self.rule(ledger, task);
        let hard = rule.is_some_and(|rule| rule.hard);
        let rule = rule.filter(|_| !begins[task.index()]);
        let early = matches!(ledger.system.backlog, Backlog::Chronos | Backlog::Hartstone);
        let server = &mut self.servers[task.index()];
        let idle = server.jobs.is_empty() && !server.handler;
        let stops =
            matches!(record.kind, RecordKind::Finish { .. } | RecordKind::HandlerEnd { .. } | RecordKind::Block { .. });
        let slow = rule.is_some_and(|rule| matches!(rule.kind, Kind::Grub { .. }));
        if let (true, true, Some(left), Some(rule)) = (stops, server.busy, server.left, rule)
            && (left <= 0 || slow)
        {
            let (q, p, d) = server.terms();
            // The deduction of GRUB depends on the servers that it has heard of before.
            let left = if slow { left.min(0) - server.passed } else { left };
            if left < 0 || d < p || rule.hard || !matches!(rule.kind, Kind::Cbs { .. }) {
                // Perhaps the end of the budget was noticed first, and it has another one.
                server.deadline = server.later(0, budgets(left, q) * p);
                if rule.hard && left < 0 {
                    (server.deadline, server.throttled) = (None, true);
                } else if rule.hard {
                    server.deadline = hull(server.deadline, Some((now.ns() + d, now.ns() + d)));
                    server.throttled = true;
                }
                server.left = None;
            }
        }
        match record.kind {
            RecordKind::Release { job, .. } => {
                server.jobs.push(job);
                let Some(rule) = rule.filter(|_| idle) else {
                    server.busy |= idle;
                    return;
                };
                // As it would continue.
                let times = server.left.filter(|left| *left <= 0).map_or(0, |left| budgets(left, server.terms().0));
                let before = server.later(0, times * server.terms().1);
                server.wakes(rule, now.ns());
                if server.ended && early {
                    // It may have begun as the one before ended, and continues with what that had.
                    server.deadline = hull(server.deadline, before);
                    server.left = None;
                    server.throttled |= rule.hard;
                }
            }
            RecordKind::Wake { .. } => match rule {
                Some(rule) => server.wakes(rule, now.ns()),
                None => server.busy = true,
            },
            RecordKind::Handler { .. } => {
                server.handler = true;
                match rule {
                    Some(rule) if !server.busy => server.wakes(rule, now.ns()),
                    _ => server.busy = true,
                }
            }
            // It waited behind another one.
            RecordKind::Finish { job, .. } if server.handler || server.jobs.first() != Some(&job) => {
                server.jobs.retain(|j| *j != job);
            }
            RecordKind::Finish { .. } | RecordKind::HandlerEnd { .. } => {
                let outcome = match record.kind {
                    RecordKind::Finish { outcome, .. } => {
                        server.jobs.remove(0);
                        Some(outcome)
                    }
                    _ => None,
                };
                (server.handler, server.ended) = (false, true);
                let handles = outcome == Some(Outcome::Aborted) && ledger.account(task).task.handler.is_some();
                let exited = matches!(outcome, Some(Outcome::Exited | Outcome::Skipped)) || ledger.account(task).gone;
                let follows = !exited && !server.jobs.is_empty();
                if handles {
                } else if !follows {
                    let gives = core::mem::replace(&mut server.busy, false);
                    self.donates(ledger, task, gives, now);
                } else if let (Some(rule), false) = (rule, server.busy) {
                    server.wakes(rule, now.ns());
                } else {
                    server.busy = true;
                }
            }
            RecordKind::Block { .. } => (server.busy, server.gift) = (false, None),
            // It gives up the rest, and may have got another budget just before.
            RecordKind::Yield { .. } if hard => {
                (server.throttled, server.deadline, server.left) = (true, None, None);
            }
            _ => {}
        }
    }

    /// Under FCBS the rest when the last job is over may go to a server that lags behind.
    fn donates(&mut self, ledger: &Ledger, task: TaskId, gives: bool, now: Time) {
        let giver = &mut self.servers[task.index()];
        let from = giver.deadline.map(|(a, _)| giver.gift.map_or(a, |gift| gift.min(a)));
        // Where a job may follow at once, that has the gift.
        giver.gift = giver.gift.filter(|_| matches!(ledger.system.backlog, Backlog::Chronos | Backlog::Hartstone));
        if !["fcbs", "edf-wmr"].contains(&ledger.policy_of(task).0.profile.name) || !gives {
            return;
        }
        // The next budget comes when it wakes up.
        giver.left = None;
        let from = from.unwrap_or(i64::MIN);
        for (index, other) in self.servers.iter_mut().enumerate() {
            let id = TaskId(index as u32);
            if id == task || ledger.domain_of(id) != ledger.domain_of(task) || other.reserved.is_none() {
                continue;
            }
            other.helped = true;
            let (q, p, _) = other.terms();
            // Perhaps it has another budget by now.
            let more = other.left.map_or(0, |left| if left <= 1 { budgets(left, q) * p } else { 0 });
            if other.deadline.is_none_or(|(_, b)| b + more > now.ns() + p && b + more > from) {
                other.gift = Some(other.gift.map_or(from, |gift| gift.min(from)));
            }
        }
    }

    pub(crate) fn standing(&self, ledger: &Ledger, task: TaskId) -> Option<Standing> {
        self.rule(ledger, task)?;
        let server = &self.servers[task.index()];
        let (a, b) = server.deadline?;
        let least = server.gift.map_or(a, |gift| gift.min(a));
        let account = ledger.account(task);
        let (_, open) = account.current()?;
        let key = |deadline: i64, release: Time| [deadline, release.ns(), i64::from(task.0), 0, 0];
        // A job that has yielded is behind those of equal deadline until its server gets another one.
        let most = key(b, account.yielded.unwrap_or(open.release));
        // A hard server that waits for its next period is not ready.
        Some(Standing::between(key(least, open.release), if server.throttled { LAST } else { most }))
    }
}

impl Server {
    /// It waits for its next period, which may have begun.
    fn wait_on(&mut self, ledger: &Ledger, rule: Rule, now: i64) {
        let certain = matches!(rule.kind, Kind::Cbs { .. });
        let (q, p, d) = self.terms();
        let Some((a, b)) = self.deadline else { return };
        if a - d + p > now {
            return;
        }
        // When the timer is noticed is not known, unless that is at once.
        match self.left.filter(|left| certain && *left <= 0 && a == b && ledger.is_punctual()) {
            Some(left) => {
                let next = a + budgets(left, q) * p;
                let next = if next < now { now + d } else { next };
                (self.deadline, self.left, self.throttled) = (Some((next, next)), None, false);
            }
            None => self.deadline = None,
        }
    }
}
