//! Tasks with servers of their own.
//!
//! A server of Q every P keeps to itself what its jobs need beyond that, so that only the servers count: on one CPU the sum of
//! their shares must be at most 1 (Abeni and Buttazzo, "Integrating Multimedia Applications in Hard Real-Time Systems", RTSS
//! 1998, for CBS; Lipari and Baruah, "Greedy reclamation of unused bandwidth in constant-bandwidth servers", ECRTS 2000, for
//! GRUB), on m CPUs within the bound of GFB (Baruah, Goossens and Lipari, "Implementing constant-bandwidth servers upon
//! multiprocessor platforms", RTAS 2002; for GRUB Abeni, Lipari, Parri and Sun, "Multicore CPU reclaiming: parallel or
//! sequential?", SAC 2016). With deadlines before the ends of periods, which CBS knows, the demand of the servers decides instead
//! ([`demand`]). Where all jobs stay within Q and come P apart, CBS is EDF with a deadline D after each release, which
//! is P unless the reservation has another one, and the other tests of that apply.
//!
//! The guarantee holds for a task whose jobs need no more than Q, come no sooner than P after each other, and have deadlines
//! no earlier than D. There is one exception: a hard server with D < P whose budget is just exhausted gets the next one when its
//! period begins, whether there is a job or not, and a job that comes later has only part of it. No proof is known to us for FCBS, which hands budgets on.
//!
//! Under EDF-WMR servers fit if EDF-WM finds a CPU or a route for each ([`crate::split`]). It hands budgets on, too, but what is
//! handed on is used by who could run instead, with a deadline no earlier, and on each CPU the deadlines of a server's budgets are
//! at least a period apart; so the work that is due by any instant is never more than under EDF with jobs that all use their
//! budgets, for which the assignment is tested exactly. (The paper says the same in short: Kato, Rajkumar and Ishikawa, "AIRS",
//! ECRTS 2010, section 5.2.)

mod demand;

use crate::demand::{Demand, impossible};
use crate::global;
use crate::homes::homes;
use crate::need::only_runs;
use crate::parts::is_absent;
use crate::split;
use crate::taskset::TaskSet;
use crate::tests;
use crate::utilisation::Utilisation;
use crate::verdict::{Answer, Finding, Kind, beyond, first_of};
use takt_core::cpus::CpuSet;
use takt_core::model::{Reservation, Reservations, Scope, Step, System, Task, TaskId, Timing};
use takt_core::policies::split::demand::Times;
use takt_core::time::Span;

/// A task that has jobs, and its server.
struct Served<'a> {
    id: TaskId,
    task: &'a Task,
    server: Reservation,
    /// Whether it waits for its next period when its budget is exhausted.
    hard: bool,
}

impl Served<'_> {
    fn times(&self) -> Times {
        let [runtime, deadline, period] =
            [self.server.budget, self.server.relative_deadline(), self.server.period].map(|span| span.ns() as u64);
        Times { runtime, deadline, period }
    }

    fn is_constrained(&self) -> bool {
        self.server.relative_deadline() < self.server.period
    }

    /// Why its jobs may not all run with a budget and a deadline of their own, given at their releases; `None` where they do, if
    /// no server is late.
    fn strays(&self, demand: Option<&Demand>) -> Option<String> {
        let (id, Reservation { budget, period, .. }) = (self.id.0, self.server);
        let Some(demand) = demand else { return Some(format!("task {id} is neither periodic nor sporadic")) };
        if !only_runs(self.task) {
            Some(format!("task {id} sleeps, and can resume too late for its deadline"))
        } else if demand.runtime > i128::from(budget.ns()) {
            Some(format!("task {id} can need more than its budget of {budget}"))
        } else if demand.period < i128::from(period.ns()) {
            Some(format!("task {id} is released more often than once in the period of its reservation, {period}"))
        } else if self.hard
            && self.is_constrained()
            && demand.runtime == i128::from(budget.ns())
            && !(demand.regular && demand.period == i128::from(period.ns()))
        {
            Some(format!(
                "task {id} can use up its budget of {budget}, and get the next one before its next job comes, which then has \
                 only part of it (a little more `budget` than it needs avoids that)"
            ))
        } else {
            None
        }
    }

    /// Why nothing is promised to this task, which is then at its own expense; `None` for one that is promised all its deadlines.
    /// With `constrained` a reservation may have another deadline than the end of its period.
    fn excess(&self, constrained: bool, demand: Option<&Demand>) -> Option<String> {
        if let Some(why) = self.strays(demand) {
            return Some(why);
        }
        let (id, Reservation { budget, period, .. }, least) = (self.id.0, self.server, self.server.relative_deadline());
        let deadline =
            demand?.deadline.and_then(|d| i64::try_from(d).ok()).map(Span::from_ns).filter(|d| *d < least)?;
        // Without a `reservation` of its own it has its runtime in each of its periods.
        let budget = budget.min(deadline);
        let what = if constrained && self.is_constrained() { "deadline" } else { "period" };
        let way =
            if constrained { format!("deadline: {deadline}, period: {period}") } else { format!("period: {deadline}") };
        Some(format!(
            "task {id} has a deadline of {deadline}, shorter than the {what} of its reservation, {least} (with `reservation: \
             {{budget: {budget}, {way}}}` more is promised)"
        ))
    }
}

/// The verdict about servers on the clusters of the policy's scope. `tasks` are what jobs need at most, `least` what at least; what
/// is reserved for tasks, by which they are packed, is in `declared`.
pub(crate) fn judge(system: &System, declared: &System, tasks: &[Demand], least: &[Demand]) -> (&'static str, Finding) {
    let cpus = system.cpus.len();
    if let Some(no) = impossible(least, cpus as u64) {
        return no;
    }
    let (policy, name) = (&system.policy, system.policy.profile.name);
    let Some(reservations) = policy.reservations() else { return beyond("the policy has no servers for tasks") };
    let splits = split::has_routes(policy);
    let unknown = |why| {
        // An assignment is its own test; for the others there are several.
        let test = if splits { name } else { "reservation" };
        (test, Finding::new(Answer::Unknown, Kind::Sufficient, why))
    };
    if system.tasks.iter().any(|t| t.program.steps.iter().any(|s| matches!(s, Step::Lock(_)))) {
        return beyond("the guarantee of servers is for jobs that do not wait for each other");
    }
    if system.timing != Timing::default() {
        return beyond("the guarantee of servers needs a clock that is never late");
    }
    let mut served = Vec::with_capacity(system.tasks.len());
    for (id, task) in (0..).map(TaskId).zip(&system.tasks).filter(|(_, task)| !is_absent(task)) {
        // A reservation does not change with the load.
        let Some(server) = declared.tasks[id.index()].reserved() else {
            return beyond(format!("task {} has no reservation", id.0));
        };
        let hard = policy.holds(reservations.hard);
        served.push(Served { id, task, server, hard });
    }
    let fit = if splits {
        split::servers(declared).map(|split| ((name, Vec::new()), format!("{split}, the servers fit on every CPU")))
    } else {
        on_clusters(system, declared, &served, tasks, reservations)
    };
    let ((test, responses), fit) = match fit {
        Ok(fit) => fit,
        Err(why) => return unknown(why),
    };
    let demand = |id: TaskId| tasks.iter().find(|d| d.task == id);
    let dated = served.iter().filter(|s| s.task.deadline.is_some());
    if let Some(first) = first_of(dated.filter_map(|s| s.excess(reservations.constrained, demand(s.id)))) {
        let found = unknown(format!("{first}; the servers fit, so the others meet their deadlines in any case"));
        return (test, Finding { responses, ..found.1 });
    }
    // Nothing is promised to tasks without a deadline, and their jobs cannot delay the others.
    let spills = served.iter().any(|s| s.task.deadline.is_none() && s.strays(demand(s.id)).is_some());
    let job = if spills { "job with a deadline" } else { "job" };
    let why = format!("{fit}, and no {job} needs more than its own");
    (test, Finding { responses, ..Finding::new(Answer::Yes, Kind::Sufficient, why) })
}

/// Whether all servers fit on the clusters of the policy's scope: the test that shows it, and in words.
fn on_clusters(
    system: &System,
    declared: &System,
    served: &[Served<'_>],
    tasks: &[Demand],
    reservations: Reservations,
) -> Result<(Shown, String), String> {
    let cpus = system.cpus.len();
    let size = match system.policy.scope {
        Scope::Partitioned => 1,
        Scope::Clustered => usize::from(system.policy.cluster).clamp(1, cpus),
        _ => cpus,
    };
    let machine: Vec<usize> = system.cpus.iter().collect();
    let clusters: Vec<CpuSet> = machine.chunks(size).map(|cpus| cpus.iter().copied().collect()).collect();
    let home = if clusters.len() > 1 { homes(declared) } else { vec![0; system.tasks.len()] };
    let (mut responses, mut test) = (Vec::new(), None);
    for (index, cluster) in clusters.iter().enumerate() {
        let here: Vec<&Served<'_>> = served.iter().filter(|s| usize::from(home[s.id.index()]) == index).collect();
        if let Some(bound) = here.iter().find(|s| !cluster.is_subset(&s.task.affinity)) {
            return Err(format!("task {} may not run on every CPU of its cluster", bound.id.0));
        }
        match fits(reservations, &here, tasks, cluster.len() as u64) {
            Ok((name, bounds)) => {
                responses.extend(bounds);
                test = Some(test.map_or(name, |before| if before == name { name } else { "reservation" }));
            }
            Err(why) if clusters.len() > 1 => return Err(format!("on CPU {cluster}, {why}")),
            Err(why) => return Err(why),
        }
    }
    let place = if clusters.len() == 1 { "" } else { " on every cluster of CPUs" };
    Ok(((test.unwrap_or("reservation"), responses), format!("the servers fit{place}")))
}

/// The test that shows it, and bounds of response times where it gives them.
type Shown = (&'static str, Vec<(TaskId, Span)>);

/// Whether these servers get their budgets by their deadlines on so many CPUs. The error says why that is not shown.
fn fits(reservations: Reservations, here: &[&Served<'_>], tasks: &[Demand], cpus: u64) -> Result<Shown, String> {
    let demand = |s: &&Served<'_>| tasks.iter().find(|d| d.task == s.id).filter(|d| s.strays(Some(d)).is_none());
    let constrained = here.iter().any(|s| s.is_constrained());
    if constrained && cpus == 1 {
        let claims: Vec<demand::Claim> =
            here.iter().map(|s| demand::Claim { times: s.times(), strays: demand(s).is_none() }).collect();
        return demand::fits(&claims).map(|()| ("reservation", Vec::new()));
    }
    let stray = here.iter().find(|s| demand(s).is_none());
    if let Some(stray) = stray.filter(|_| constrained) {
        return Err(format!(
            "no proof is known to us for reservations with a `deadline` on {cpus} CPUs beside task {}, which may not keep to its own",
            stray.id.0
        ));
    }
    let mut sum = Utilisation::default();
    here.iter().for_each(|s| sum.add(s.server.budget.ns() as u64, s.server.period.ns() as u64));
    if here.is_empty() || cpus == 1 && sum.at_most(1) == Some(true) {
        return Ok(("reservation", Vec::new()));
    }
    if cpus == 1 {
        return Err(format!("reservations of {sum} are more than the CPU (inconclusive)"));
    }
    let servers = TaskSet::new(here.iter().map(|s| s.times()).collect(), Span::from_ns(1));
    if servers.as_ref().is_ok_and(|set| tests::gfb_holds(set, cpus)) {
        return Ok(("gfb", Vec::new()));
    }
    // With jobs that keep to their servers, and budgets that stay with them, that is EDF by the servers' deadlines (CBS).
    let kept: Option<Vec<Demand>> = here.iter().map(|s| demand(s).copied()).collect();
    if let Some(mut kept) = kept.filter(|_| !reservations.reclaimed) {
        let by =
            |d: &Demand| here.iter().find(|s| s.id == d.task).map(|s| i128::from(s.server.relative_deadline().ns()));
        kept.iter_mut().for_each(|d| d.deadline = by(d));
        if let (name, Finding { answer: Answer::Yes, responses, .. }) = global::by_edf_alone(&kept, cpus) {
            return Ok((name, responses));
        }
    }
    Err(format!("reservations of {sum} are above the bound of GFB for {cpus} CPUs (inconclusive)"))
}
