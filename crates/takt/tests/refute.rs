//! Files over all features whose printed verdicts a simulation tries to refute.
//!
//! A yes must have no miss, an exact no must have one, and no response may be above its bound, under several releases and execution times
//! that the file allows. `TAKT_CASES` and `TAKT_SEED` choose other cases; `cargo xtask campaign --only verdicts` draws them without end.

mod files;

use files::{File, HYPERPERIOD, UNIT, file, forms, text};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use takt::analysis::Subject;
use takt::check::Check;
use takt::load::engine;
use takt::{Answer, LoadOptions};
use takt_analysis::densest::{densest, is_placed, meeting};
use takt_analysis::online::{self, Kind, Verdict};
use takt_analysis::tests::{self, Why};
use takt_core::model::*;
use takt_core::stats::Responses;
use takt_core::time::Span;
use takt_workload::Workload;

/// Behaviours that the file allows, with the name of each: sporadic jobs and events at random, or as densely as they may.
fn behaviours(workload: &Workload) -> Vec<(&'static str, Workload)> {
    let system = &workload.system;
    let with = |system: System| Workload { system, ..workload.clone() };
    let mut all = vec![("as described", workload.clone())];
    let shifted =
        |by: i64| (0..system.tasks.len() as i64).map(|task| Span::from_ns(UNIT * by * (task * 7 % 5))).collect();
    let starts = [
        ("densest", Some(shifted(0))),
        ("densest, shifted", Some(shifted(1))),
        ("densest, shifted by much", Some(shifted(3))),
        ("densest, together", meeting(system)),
    ];
    for (how, later) in starts.into_iter().filter_map(|(how, later): (_, Option<Vec<Span>>)| Some((how, later?))) {
        let close = densest(system, |task| later[task]);
        let dense_events = |(index, task): (usize, &Task)| match task.arrival {
            Arrival::Event { distance, after: None, .. } if distance > Span::ZERO => {
                let (offset, spread) = (later[index], Span::ZERO);
                Some((TaskId(index as u32), Arrival::Sporadic { offset, period: distance, spread }))
            }
            _ => None,
        };
        let events: Vec<_> = system.tasks.iter().enumerate().filter_map(dense_events).collect();
        if close.is_some() || !events.is_empty() {
            let mut behaviour = with(close.unwrap_or_else(|| system.clone()));
            behaviour.scenario.events.retain(|(of, _)| events.iter().all(|(task, _)| task != of));
            behaviour.scenario.events.extend(events);
            behaviour.scenario.events.sort_by_key(|(task, _)| *task);
            all.push((how, behaviour));
        }
    }
    let drawn = |t: &Task| {
        t.jitter > Span::ZERO
            || t.program.execution != Execution::Declared
            || matches!(t.arrival, Arrival::Sporadic { .. } | Arrival::Event { .. })
    };
    if system.tasks.iter().any(drawn) || system.timing.lateness > Span::ZERO {
        all.extend(
            [1, 2].map(|n| ("another seed", with(System { seed: system.seed.wrapping_add(n), ..system.clone() }))),
        );
    }
    all
}

/// Missed jobs and the longest response of each task in a simulation.
struct Seen {
    missed: Vec<u64>,
    cut_off: Vec<u64>,
    longest: Vec<Span>,
}

/// `None` where the policy refuses the system.
fn simulate(workload: &Workload, length: i64) -> Option<Seen> {
    let mut workload = workload.clone();
    workload.settle_platform();
    workload.settle_simulation(None);
    let system = &workload.system;
    let mut engine = engine(system.clone()).ok()?;
    let mut responses = Responses::new(system.tasks.len());
    takt_sim::simulate(&mut engine, &workload.scenario, Span::from_ns(length * UNIT), &mut responses, |_| ());
    let ids = || (0..system.tasks.len() as u32).map(TaskId);
    // A job that has not ended has taken as long as it is old. Under Hartstone's rule it is not counted as missed yet.
    let age = |task: TaskId| engine.job(task).map_or(Span::ZERO, |job| engine.now() - job.release);
    let is_late = |task: TaskId| engine.job(task).is_some_and(|job| job.deadline < engine.now());
    let hartstone = system.backlog == Backlog::Hartstone;
    Some(Seen {
        missed: ids().map(|t| engine.counts(t).missed + u64::from(hartstone && is_late(t))).collect(),
        cut_off: ids().map(|t| engine.counts(t).cut_off).collect(),
        longest: ids().map(|t| responses.0[t.index()].max().max(age(t))).collect(),
    })
}

#[derive(Default)]
struct Tally {
    drawn: u32,
    files: u32,
    said: u32,
    features: BTreeMap<&'static str, u32>,
    forms: BTreeMap<String, u32>,
    kinds: BTreeMap<String, u32>,
}

/// Whether a no has to show in the densest behaviour: all tasks can meet there. Hartstone's rule counts misses by
/// periods, so a miss of another deadline does not show. Workload files refuse such deadlines.
fn must_show(system: &System, verdict: &Verdict) -> bool {
    let drawn =
        |t: &Task| matches!(t.arrival, Arrival::Sporadic { .. } | Arrival::Event { .. } | Arrival::Listed { .. });
    let apart = |t: &Task| !matches!(t.arrival, Arrival::Event { distance, .. } if distance <= Span::ZERO);
    let together = system.tasks.iter().all(apart) && meeting(system).is_some();
    let together = together && (!is_placed(system) || !system.tasks.iter().any(drawn));
    let by_period = |t: &Task| t.deadline == t.arrival.period();
    let counted = system.backlog != Backlog::Hartstone || system.tasks.iter().all(by_period);
    let proven = matches!(verdict.kind, Kind::Exact | Kind::Necessary);
    // A little too much work takes long to show, and calls can make it less.
    let calls = system.tasks.iter().flat_map(|t| &t.program.steps).any(|s| matches!(s, Step::Call(_)));
    let slow = verdict.reason.contains("utilisation")
        || system.tasks.iter().any(|t| t.deadline > t.arrival.period())
            && verdict.reason.contains("deadline or period");
    together && counted && proven && !calls && !slow
}

fn check(file: &File, tally: &RefCell<Tally>) -> Result<(), TestCaseError> {
    let text = text(file);
    tally.borrow_mut().drawn += 1;
    let Ok(workload) = takt::load_text("drawn.yaml", &text, &LoadOptions::default()) else { return Ok(()) };
    let Ok(check) = takt::check(&workload) else { return Ok(()) };
    if workload
        .ignored_by(takt_workload::Driver::Simulation)
        .iter()
        .any(|d| d.severity == takt_workload::Severity::Error)
    {
        return Ok(());
    }
    note(&workload, &check, tally);
    refute(&workload, &check)
}

/// Tries to refute what `takt check` and `takt analyze` print about a workload.
fn refute(workload: &Workload, check: &Check) -> Result<(), TestCaseError> {
    let printed = || format!("\n{}", check.text());
    let seen: Vec<(&str, Seen)> = behaviours(workload)
        .into_iter()
        .filter_map(|(how, behaviour)| Some((how, simulate(&behaviour, 6 * HYPERPERIOD)?)))
        .collect();
    match check {
        Check::Online(found) => {
            for (how, seen) in &seen {
                let any = seen.missed.iter().any(|missed| *missed > 0);
                prop_assert!(
                    !(any && found.schedulable == Answer::Yes),
                    "{how}: {:?} missed{}",
                    seen.missed,
                    printed()
                );
                for (index, (task, bound)) in workload.system.tasks.iter().zip(&found.tasks).enumerate() {
                    let longest = seen.longest[index];
                    if let Some(bound) = bound.response_bound_ns.map(Span::from_ns) {
                        prop_assert!(
                            longest <= bound,
                            "{how}: task {index} responds in {longest}, above {bound}{}",
                            printed()
                        );
                    }
                    let late = found.gedf_tardiness_of_tasks_ns.as_ref().map(|late| Span::from_ns(late[index]));
                    if let (Some(late), Some(deadline)) = (late, task.deadline) {
                        prop_assert!(
                            longest <= deadline + late,
                            "{how}: task {index} in {longest}, later than {late}{}",
                            printed()
                        );
                    }
                }
                for (domain, part) in workload.system.domains.iter().zip(&found.domains) {
                    let missed = domain.tasks.iter().any(|t| seen.missed[t.index()] > 0);
                    prop_assert!(
                        !(missed && part.schedulable == Answer::Yes),
                        "{how}: {:?} missed{}",
                        seen.missed,
                        printed()
                    );
                }
            }
            let verdict = online::verdict(&workload.system);
            if found.schedulable == Answer::No && must_show(&workload.system, &verdict) {
                let missed = seen.iter().any(|(_, seen)| seen.missed.iter().any(|missed| *missed > 0));
                prop_assert!(missed, "nothing is missed{}", printed());
            }
            analyzed(workload)?;
        }
        Check::Table(found) => {
            for (how, seen) in &seen {
                let partitions = workload.system.partitions.iter().zip(&found.partitions);
                for (partition, load) in partitions {
                    let lost = |t: &TaskId| {
                        seen.missed[t.index()] > 0 || load.verdict.is_none() && seen.cut_off[t.index()] > 0
                    };
                    let own = load.verdict.as_ref().map(|verdict| verdict.schedulable);
                    let promised = own == Some(Answer::Yes) || found.schedulable == Answer::Yes && !load.best_effort;
                    let lost = partition.tasks.iter().any(lost);
                    prop_assert!(!(lost && promised), "{how}: {} missed{}", load.name, printed());
                }
            }
        }
    }
    Ok(())
}

/// The verdicts of `analyze`, each against the policy that it is about.
fn analyzed(workload: &Workload) -> Result<(), TestCaseError> {
    if !workload.system.domains.is_empty() {
        return Ok(());
    }
    let Ok(subject) = Subject::of_workload(workload.clone()) else { return Ok(()) };
    let cpus = workload.system.cpus.len();
    for test in tests::TESTS {
        let Some(policy) = takt_testing::policy_of_test(test.name).filter(|_| test.one_cpu == (cpus == 1)) else {
            continue;
        };
        let found = test.run(&subject.set, cpus);
        if found.verdict != tests::Verdict::Schedulable {
            continue;
        }
        let policy = PolicySpec::from_name(policy).expect("a policy of the list");
        let system = System { policy, ..workload.system.clone() };
        for (how, behaviour) in behaviours(&Workload { system, ..workload.clone() }) {
            let Some(seen) = simulate(&behaviour, 6 * HYPERPERIOD) else { continue };
            let missed = seen.missed.iter().any(|missed| *missed > 0);
            prop_assert!(!missed, "{how}: {:?} missed by `{}` of `takt analyze`", seen.missed, test.name);
            if let Why::Responses(bounds) = &found.why {
                for (longest, bound) in seen.longest.iter().zip(bounds) {
                    let bound = subject.set.span(*bound);
                    prop_assert!(
                        *longest <= bound,
                        "{how}: {longest} above {bound} by `{}` of `takt analyze`",
                        test.name
                    );
                }
            }
        }
    }
    Ok(())
}

/// Counts which features are drawn, and how many files get a yes or a bound.
fn note(workload: &Workload, check: &Check, tally: &RefCell<Tally>) {
    let mut tally = tally.borrow_mut();
    let (system, scenario) = (&workload.system, &workload.scenario);
    tally.files += 1;
    let said = match check {
        Check::Online(found) => {
            let bounds = found.tasks.iter().any(|task| task.response_bound_ns.is_some());
            let parts = found.domains.iter().any(|part| part.schedulable == Answer::Yes);
            *tally.kinds.entry(format!("{} {}", found.test, word(found.schedulable))).or_default() += 1;
            found.schedulable == Answer::Yes || bounds || parts || found.gedf_tardiness_of_tasks_ns.is_some()
        }
        Check::Table(found) => {
            *tally.kinds.entry(format!("{} {}", found.test, word(found.schedulable))).or_default() += 1;
            let part =
                |part: &takt::check::PartitionLoad| part.verdict.as_ref().is_some_and(|v| v.schedulable == Answer::Yes);
            found.schedulable == Answer::Yes || found.partitions.iter().any(part)
        }
    };
    tally.said += u32::from(said);
    let guests = || system.partitions.iter().filter_map(|p| p.policy);
    let own = (system.domains.is_empty() && system.windows.is_empty()).then_some(system.policy);
    let policies: Vec<PolicySpec> =
        own.into_iter().chain(system.domains.iter().map(|d| d.policy)).chain(guests()).collect();
    for policy in policies.iter().map(|p| format!("{}{}", p.prefix(), p.profile.name)).collect::<BTreeSet<_>>() {
        *tally.forms.entry(policy).or_default() += 1;
    }
    let any = |wanted: fn(&Task) -> bool| system.tasks.iter().any(wanted);
    let step = |wanted: fn(&Step) -> bool| move |t: &Task| t.program.steps.iter().any(wanted);
    let (locks, sleeps) = (step(|s| matches!(s, Step::Lock(_))), step(|s| matches!(s, Step::Sleep(_))));
    let does = |wanted: &dyn Fn(&Task) -> bool| system.tasks.iter().any(wanted);
    let states = |wanted: fn(&PolicySpec) -> bool| policies.iter().any(wanted);
    let set = |name: &str| {
        policies.iter().any(|p| p.profile.settings.iter().any(|s| s.name == name) && p.value(name).is_some())
    };
    let shared = system.domains.iter().any(|d| system.band(d).is_some());
    let features = [
        ("one CPU", system.cpus.len() == 1),
        ("several CPUs", system.cpus.len() > 1),
        ("domains", !system.domains.is_empty() && !shared),
        ("bands", shared),
        ("windows", !system.windows.is_empty()),
        ("windows with policies", guests().next().is_some()),
        ("best effort", system.windows.iter().flat_map(|w| &w.slices).any(|s| s.be.is_some())),
        ("offsets", any(|t| matches!(t.arrival, Arrival::Periodic { offset, .. } if offset > Span::ZERO))),
        ("sporadic", any(|t| matches!(t.arrival, Arrival::Sporadic { .. }))),
        ("events", any(|t| matches!(t.arrival, Arrival::Event { after: None, .. }))),
        ("chains of events", any(|t| matches!(t.arrival, Arrival::Event { after: Some(_), .. }))),
        ("resources", does(&locks)),
        ("suspension", does(&sleeps)),
        ("suspension beside resources", does(&locks) && does(&sleeps)),
        ("yields", does(&step(|s| matches!(s, Step::Yield)))),
        ("calls", does(&step(|s| matches!(s, Step::Call(_))))),
        ("turns of steps", does(&step(|s| matches!(s, Step::WaitPeriod)))),
        ("varying execution", any(|t| t.program.execution != Execution::Declared)),
        ("budgets", any(|t| t.arrival != Arrival::Activated && t.budget.is_some())),
        ("jitter", any(|t| t.jitter > Span::ZERO)),
        ("handlers", any(|t| t.handler.is_some())),
        ("work after aborts", any(|t| t.on_abort == OnAbort::Finish)),
        ("listed instants", any(|t| matches!(t.arrival, Arrival::Listed { .. }))),
        ("no deadline", any(|t| t.deadline.is_none())),
        ("deadlines within periods", any(|t| t.deadline < t.arrival.period())),
        ("deadlines beyond periods", any(|t| t.deadline > t.arrival.period())),
        (
            "affinities",
            system.windows.is_empty() && system.domains.is_empty() && does(&|t: &Task| t.affinity != system.cpus),
        ),
        ("skip", system.backlog == Backlog::Skip),
        ("ChronOS's rule", system.backlog == Backlog::Chronos),
        ("Hartstone's rule", system.backlog == Backlog::Hartstone),
        ("aborts", system.late == Late::Abort),
        ("aborts at events", system.late == Late::AbortAtEvent),
        ("FIFO locking", does(&locks) && system.locking == Locking::Fifo),
        ("ceilings", does(&locks) && system.locking == Locking::Ceiling),
        ("tick", system.timing.tick > Span::ZERO),
        ("late timers", system.timing.resolution > Span::ZERO || system.timing.lateness > Span::ZERO),
        ("load", system.load.is_some()),
        ("costs", scenario.costs != takt_core::scenario::Costs::default()),
        ("stolen time", scenario.steal.is_some()),
        ("changes", !scenario.changes.is_empty()),
        ("speeds", workload.platform.is_some()),
        ("servers", states(|p| p.servers().is_some()) && any(|t| t.reservation.is_some())),
        ("shared servers", !system.servers.is_empty()),
        ("reservations", states(|p| p.reservations().is_some())),
        ("reserved deadlines", any(|t| t.reservation.is_some_and(|r| r.deadline.is_some()))),
        ("splits", states(|p| p.splits().is_some())),
        ("placements", states(|p| p.uses_placement() && p.placement != Placement::DEFAULT)),
        ("clusters", states(|p| p.scope == Scope::Clustered)),
        ("mappers", states(|p| p.mapper > 0)),
        ("settings", states(|p| p.values.iter().any(|value| value.is_some()))),
        ("grids of quanta", set("grid")),
        ("overload", online::verdict(system).utilisation.at_most(system.cpus.len() as u64) == Some(false)),
    ];
    features.into_iter().for_each(|(name, has)| *tally.features.entry(name).or_default() += u32::from(has));
}

fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Yes => "yes",
        Answer::No => "no",
        Answer::Unknown => "unknown",
    }
}

#[test]
fn no_verdict_is_refuted_by_simulation() {
    let tally = RefCell::new(Tally::default());
    takt_testing::for_all(1_000, file(), |file| check(&file, &tally));
    let Tally { drawn, files, said, features, forms: seen, kinds } = tally.into_inner();
    println!("{files} files of {drawn} drawn, {said} with a yes or a bound: {features:?}");
    println!("policies: {seen:?}");
    println!("verdicts: {kinds:?}");
    if files >= 500 {
        assert!(said * 10 >= files * 3, "only {said} of {files} files get a yes or a bound");
        // Few files show rare features by chance alone.
        let least = if files >= 5_000 { files / 100 } else { 1 };
        for (feature, count) in features {
            assert!(count >= least, "only {count} of {files} files have {feature}");
        }
        for form in forms() {
            assert!(
                files < 5_000 || seen.get(form).is_some_and(|n| n * 400 >= files),
                "no more than {:?} files have {form}",
                seen.get(form)
            );
        }
    }
}

/// Files with verdicts or bounds that a simulation once refuted, as this property found them: the words that `takt check` now prints, words that it
/// does not print, and the file.
const REFUTED: [(&str, &str, &str); 15] = [
    // Bounds beside costs.
    (
        "not schedulable (exact test rta): task `c` can respond as late as 9us",
        "response at most",
        "policy: rm
costs: {context_switch: 500ns}
tasks:
- {name: a, period: 5us, runtime: 2us}
- {name: b, period: 10us, runtime: 3us}
- {name: c, period: 20us, deadline: 5us, runtime: 2us}
",
    ),
    // A CPU of half the speed.
    (
        "but that leaves out `platform`",
        "",
        "policy: edf
platform: {clusters: [{cpus: 0, capacitance: 1nF, frequencies: [{mhz: 1000, voltage: 1V, speed: 50%}]}]}
tasks: [{name: a, period: 10us, runtime: 6us}]
",
    ),
    // A job without a deadline that never completes, and is aborted.
    (
        "task `a` can be aborted when its budget is used",
        "",
        "policy: p-fp
tasks: [{name: a, releases: [0us], deadline: none, runtime: 1us, budget: 1us, completion: none}]
",
    ),
    // `takt analyze` of jobs that never complete.
    (
        "jobs of task `a` never complete",
        "",
        "policy: edf
tasks: [{name: a, period: 4us, deadline: 1us, runtime: 1us, completion: none}]
",
    ),
    // Skipped releases of a task without a deadline, in a partition.
    (
        "not known to be schedulable",
        "",
        "backlog: skip
partitions:
- {name: p, policy: rm, processes: [{name: a, period: 4us, deadline: none, runtime: 1us}]}
windows: [{length: 4us}, {length: 2us, cpu: 0, sc_partition: p}]
",
    ),
    // A budget in a partition that is shorter than the runtime, and no deadline.
    (
        "task `a` is neither periodic nor sporadic",
        "",
        "partitions:
- {name: p, policy: fp, processes: [{name: a, releases: [0us], deadline: none, runtime: 1us, budget: 1us, jitter: 1us}]}
windows: [{length: 2us, cpu: 0, sc_partition: p}]
",
    ),
    // Budgets of a table beside costs.
    (
        "the SC budgets fit their windows, but that leaves out `costs`",
        "",
        "costs: {context_switch: 50ns}
partitions:
- {name: p, processes: [{name: a, budget: 1us, runtime: 1us}, {name: b, budget: 1us, runtime: 1us}]}
windows: [{length: 2us, cpu: 0, sc_partition: p}]
",
    ),
    // Budgets of a table under a load.
    (
        "process a: jobs need up to 1.01us of a budget of 1us",
        "",
        "load: {ramp: {from: 101%, to: 60%, over: 120us}}
partitions: [{name: p, processes: [{name: a, budget: 1us, runtime: 1us}]}]
windows: [{length: 2us, cpu: 0, sc_partition: p}]
",
    ),
    // Bounds at the lowest load.
    (
        "not schedulable (necessary test utilisation): in domain `x`",
        "response at most",
        "load: {ramp: {from: 101%, to: 102%, over: 120us}}
domains: [{name: x, cpus: 0, policy: llf}, {name: y, cpus: 1, policy: fp}]
tasks:
- {name: a, domain: x, period: 4us, deadline: 1us, runtime: 1us}
- {name: b, domain: y, period: 4us, deadline: 1us, runtime: 1us}
- {name: c, domain: x, period: 4us, deadline: 1us, runtime: 1us}
",
    ),
    // PD² under a load that changes.
    (
        "the guarantee of this policy needs a load that does not change",
        "",
        "load: {ramp: {from: 60%, to: 101%, over: 120us}}
cpus: 0-2
policy: \"pd2:quantum=1us\"
tasks:
- {name: a, period: 8us, deadline: 5us, runtime: 3us}
- {name: b, period: 10us, deadline: 27us, runtime: 1us}
- {name: c, period: 4us, deadline: 5us, runtime: 1us}
- {name: d, period: 4us, deadline: 10us, runtime: 1us}
- {name: e, period: 4us, runtime: 1us}
",
    ),
    // A job that keeps the CPU of the one before.
    (
        "with `successor: keep` a job can be held up by two jobs of another task",
        "",
        "policy: \"np-edf:successor=keep\"
load: 124%
tasks:
- {name: a, period: 10us, deadline: 15us, runtime: 3us}
- {name: b, period: 8us, runtime: 1us}
- {name: c, period: 20us, deadline: 12us, runtime: 5us}
",
    ),
    // A handler that is more urgent than its task.
    (
        "not schedulable (exact test rta)",
        "response at most",
        "late: abort-at-event
policy: dm
tasks:
- {name: a, period: 8us, runtime: 5us, handler: {runtime: 1us, deadline: 2us}}
- {name: b, period: 4us, spread: 1us, deadline: 2us, runtime: 2us}
",
    ),
    // A job that holds a resource for an equal comes after a third equal.
    (
        "schedulable (sufficient test rta)",
        "1.667us",
        "policy: rm
tasks:
- {name: a, period: 4us, steps: [run 333ns, lock r, run 667ns, unlock r]}
- {name: b, period: 4us, runtime: 1us}
- {name: c, period: 6us, spread: 1us, deadline: 5us, steps: [run 333ns, lock r, run 667ns, unlock r]}
",
    ),
    // A budget beside servers that is shorter than the runtime, and no deadline.
    (
        "task `a` can be aborted when its budget is used",
        "",
        "policy: polling-server
tasks: [{name: a, releases: [0us, 4us], deadline: none, runtime: 1us, budget: 1us, jitter: 1us}]
",
    ),
    // Jobs that follow those of a task with a longer period.
    (
        "but jobs that follow those of another task need not come at the worst time",
        "",
        "policy: edf
tasks:
- {name: a, period: 10us, runtime: 1us}
- {name: b, event: {after: a, distance: 5us}, deadline: 5us, runtime: 5us}
- {name: c, period: 20us, runtime: 4us}
",
    ),
];

#[test]
fn verdicts_that_were_refuted_once() {
    for (printed, hidden, text) in REFUTED {
        let workload = takt::load_text("refuted.yaml", text, &LoadOptions::default()).expect(text);
        let check = takt::check(&workload).expect(text);
        let now = check.text();
        assert!(now.contains(printed) && (hidden.is_empty() || !now.contains(hidden)), "{now}\n{text}");
        refute(&workload, &check).unwrap_or_else(|why| panic!("{why}\n{text}"));
    }
}
