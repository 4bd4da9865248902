//! Whether a tenth of each CPU is left to others, which decides whether processes get a real-time class.

use crate::homes::homes;
use crate::need::most;
use crate::parts;
use crate::servers::ranks;
use crate::split;
use crate::utilisation::Utilisation;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Domain, PolicySpec, Reservation, Scope, System, Task, TaskId};
use takt_core::policies::fifo;
use takt_core::time::Span;

/// The kernel throttles real-time processes by what they take of each second.
const SECOND: Span = Span::from_ms(1000);

/// The reasons against real-time processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obstacle {
    /// The task that is to blame most, if one is.
    pub task: Option<TaskId>,
    /// The reason, and a way out.
    pub reason: String,
}

/// Why a tenth of each CPU (of all together, unless the policy is partitioned) may not be left; `None` where it is.
///
/// A job counts with its largest need; jobs at listed instants with as many as come within any one second. Where a server
/// never takes more than its reservation, that counts if it is less. Under a load that changes, its highest counts. Takes time
/// in proportion to tasks, CPUs and instants.
#[must_use]
pub fn obstacle(system: &System) -> Option<Obstacle> {
    let loaded = system.load.as_ref().map(|load| parts::at_load(system, parts::extremes(load).1));
    let heavy = loaded.as_ref().unwrap_or(system);
    if system.domains.is_empty() {
        return in_whole(heavy, system, None);
    }
    let domains = parts::domains(heavy).into_iter().zip(parts::domains(system));
    domains
        .into_iter()
        .find_map(|(heavy, declared)| in_whole(&heavy, &declared, None))
        .or_else(|| of_bands(heavy, system))
}

/// The same about CPUs that domains share in an order of bands: all of these CPUs together.
pub(crate) fn of_bands(system: &System, declared: &System) -> Option<Obstacle> {
    let together = |system: &System, domain: &Domain| {
        let same = system.domains.iter().filter(|other| other.cpus == domain.cpus);
        let tasks: Vec<TaskId> = same.flat_map(|other| other.tasks.iter().copied()).collect();
        let policy = PolicySpec::new(&fifo::ENTRY.profile, Scope::Global);
        System { policy, ..parts::alone(system, domain, &tasks) }
    };
    let lowest = |domain: &&Domain| {
        let above = |other: &Domain| domain.is_above(other);
        parts::above(system, domain).next().is_some() && !system.domains.iter().any(above)
    };
    let mut sets = system.domains.iter().filter(lowest);
    sets.find_map(|domain| in_whole(&together(system, domain), &together(declared, domain), None))
}

/// The same without load and domains, with tasks placed as those of `declared` are: in these homes, where they are known.
pub(crate) fn in_whole(system: &System, declared: &System, home: Option<Vec<u16>>) -> Option<Obstacle> {
    let mut shares = Vec::with_capacity(system.tasks.len());
    for (id, task) in (0..).map(TaskId).zip(&system.tasks) {
        let Some(share) = share(system, declared, id, task) else {
            let reason = "no `runtime` says how much of a CPU it takes (give it one, or a server that never takes more than \
                          its reservation, such as those of `cbs:enforcement=hard`)";
            return Some(Obstacle { task: Some(id), reason: reason.to_owned() });
        };
        shares.push(share);
    }
    let leads = ranks::ranking(&system.policy).map(|_| declared.leads());
    if let Some(leads) = leads.as_ref().filter(|_| bounds(system)) {
        cap(&mut shares, leads, declared);
    }
    let cpus = system.cpus.len();
    if system.policy.scope != Scope::Partitioned || split::has_routes(&system.policy) {
        return crowded(system, (0..shares.len()).collect(), &shares, cpus as u64);
    }
    let home = match ranks::ranking(&declared.policy) {
        Some(by) => homes(&ranks::as_tasks(declared, by)),
        None => home.unwrap_or_else(|| homes(declared)),
    };
    let home = |t: usize| usize::from(home[leads.as_ref().map_or(t, |leads| leads[t].0.index())]);
    let on = |cpu: usize| (0..shares.len()).filter(|t| home(*t) == cpu).collect();
    (0..cpus).find_map(|cpu| crowded(system, on(cpu), &shares, 1))
}

/// Whether these tasks take more than nine tenths of so many CPUs.
fn crowded(system: &System, tasks: Vec<usize>, shares: &[(u64, u64)], cpus: u64) -> Option<Obstacle> {
    let (mut sum, mut tenfold) = (Utilisation::default(), Utilisation::default());
    for &(part, whole) in tasks.iter().map(|t| &shares[*t]) {
        sum.add(part, whole);
        (0..10).for_each(|_| tenfold.add(part, whole));
    }
    if tenfold.at_most(9 * cpus) == Some(true) {
        return None;
    }
    // The rest is plain from the file.
    let listed = tasks.iter().filter(|t| matches!(system.tasks[**t].arrival, Arrival::Listed { .. }));
    let most =
        listed.max_by_key(|t| u128::from(shares[**t].0) * u128::from(SECOND.ns() as u64) / u128::from(shares[**t].1));
    let of = if cpus == 1 { "a CPU".to_owned() } else { format!("{cpus} CPUs") };
    match most.filter(|t| shares[**t].0 > 0) {
        Some(&task) => {
            let span = Span::from_ns(i64::try_from(shares[task].0).unwrap_or(i64::MAX));
            let per = Span::from_ns(i64::try_from(shares[task].1).unwrap_or(i64::MAX));
            let reason = format!(
                "it can take {span} in {per}, by which {sum} of {of} is used, more than nine tenths (fewer releases \
                 within a second, a shorter `runtime`, or a server that never takes more than its reservation)"
            );
            Some(Obstacle { task: Some(TaskId(task as u32)), reason })
        }
        None => Some(Obstacle { task: None, reason: format!("{sum} of {of} is used, more than nine tenths") }),
    }
}

/// Whether servers never take more than what is reserved for them.
fn bounds(system: &System) -> bool {
    let policy = &system.policy;
    match policy.servers() {
        Some(servers) => !policy.holds(servers.background),
        // A server that has what others leave takes more than its reservation.
        None => policy.reservations().is_some_and(|servers| policy.holds(servers.hard) && !servers.reclaimed),
    }
}

/// Tasks that share a server take no more than that together. Where they would, the first has it all.
fn cap(shares: &mut [(u64, u64)], leads: &[(TaskId, CpuSet)], declared: &System) {
    let units = |(part, whole): (u64, u64)| (u128::from(part) << 62) / u128::from(whole);
    let mut sums = vec![0_u128; shares.len()];
    for (share, (lead, _)) in shares.iter().zip(leads) {
        sums[lead.index()] = sums[lead.index()].saturating_add(units(*share) + 1);
    }
    for (t, (lead, _)) in leads.iter().enumerate() {
        let shared = declared.tasks[t].server.and(declared.server(*lead));
        let Some(Reservation { budget, period, .. }) = shared.map(|server| server.reservation) else { continue };
        let reserved = (budget.ns() as u64, period.ns() as u64);
        if sums[lead.index()] > units(reserved) {
            shares[t] = if lead.index() == t { reserved } else { (0, 1) };
        }
    }
}

/// The most that a task takes, as CPU time in a span; `None` where nothing bounds it.
fn share(system: &System, declared: &System, id: TaskId, task: &Task) -> Option<(u64, u64)> {
    let need = match &task.arrival {
        Arrival::Listed { instants } if instants.is_empty() => return Some((0, 1)),
        Arrival::Listed { instants } => {
            // Instants are in order: for each, the first of those within the second that ends with it.
            let (mut first, mut jobs) = (0, 0);
            for (last, instant) in instants.iter().enumerate() {
                while *instant - instants[first] >= SECOND {
                    first += 1;
                }
                jobs = jobs.max((last - first + 1) as u64);
            }
            most(task).map(|need| ((need.ns() as u64).saturating_mul(jobs), SECOND.ns() as u64))
        }
        Arrival::Event { distance, .. } if *distance == Span::ZERO => None,
        arrival => match (arrival.period(), arrival.earliest()) {
            (Some(period), Some(_)) => most(task).map(|need| (need.ns() as u64, period.ns() as u64)),
            // Released by its policy, or never.
            _ => return Some((0, 1)),
        },
    };
    let reserved = match ranks::ranking(&system.policy) {
        Some(_) => declared.server(id).map(|server| server.reservation),
        None => declared.tasks[id.index()].reserved(),
    };
    let reserved = reserved.filter(|_| bounds(system)).map(|r| (r.budget.ns() as u64, r.period.ns() as u64));
    let less = |a: (u64, u64), b: (u64, u64)| u128::from(a.0) * u128::from(b.1) < u128::from(b.0) * u128::from(a.1);
    match (need, reserved) {
        (Some(need), Some(reserved)) if less(need, reserved) => Some(need),
        (need, reserved) => reserved.or(need),
    }
}
