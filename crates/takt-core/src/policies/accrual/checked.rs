//! The invariants of every schedule that a construction builds, checked on each one that it really builds: in engines to which
//! everything happens that can.

use super::{Construction, Density, View, build};
use crate::cpus::CpuSet;
use crate::engine::{Engine, Input};
use crate::model::*;
use crate::model::{CpuTest, PolicySpec, Profile, Scope};
use crate::policies::dasa::Dasa;
use crate::policies::dasa_nd::DasaNd;
use crate::policies::gus::Gus;
use crate::policies::lbesa::Lbesa;
use crate::policy::{Build, Entry, Registry};
use crate::time::{Span, Time};
use crate::utility::{UNIT, Utility};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

/// The invariants of a construction.
trait Rules: Construction {
    fn check(view: &View<'_, '_>, schedule: &[usize]);
}

struct Checked<C>(C);

impl<C: Rules> Construction for Checked<C> {
    const PREEMPTIVE: bool = C::PREEMPTIVE;
    const DEPENDENCIES: bool = C::DEPENDENCIES;

    fn new(build: &Build<'_>) -> Self {
        Checked(C::new(build))
    }

    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        self.0.construct(view, schedule);
        assert!(view.jobs.is_sorted_by_key(|job| (view.cx.job(job.task).map(|j| j.release), job.task)));
        assert!(view.jobs.iter().all(|job| job.owner.is_none() == view.cx.is_ready(job.task)));
        let once: BTreeSet<usize> = schedule.iter().copied().collect();
        assert_eq!(once.len(), schedule.len(), "{schedule:?}");
        C::check(view, schedule);
    }
}

/// Whether each completes by its deadline in this order.
fn feasible(view: &View<'_, '_>, order: &[usize]) -> bool {
    let mut end = view.now;
    order.iter().all(|&job| {
        end += view.jobs[job].left;
        end <= view.jobs[job].deadline
    })
}

fn by_deadline(view: &View<'_, '_>, mut jobs: Vec<usize>) -> Vec<usize> {
    jobs.sort_by_key(|&job| view.jobs[job].deadline);
    jobs
}

/// Itself, who holds what it waits for, and so on, the last of them first.
fn owners_first(view: &View<'_, '_>, job: usize) -> Vec<usize> {
    let mut chain = vec![job];
    while let Some(owner) = view.jobs[chain[chain.len() - 1]].owner {
        chain.push(owner);
    }
    chain.reverse();
    chain
}

fn owners_come_before_dependents(view: &View<'_, '_>, schedule: &[usize]) {
    let place = |job| schedule.iter().position(|&other| other == job);
    for &job in schedule {
        let before = view.jobs[job].owner.is_none_or(|owner| place(owner).is_some_and(|p| Some(p) < place(job)));
        assert!(before, "{job} comes before its owner in {schedule:?}: {:?}", view.jobs);
    }
}

/// The sum of utilities over the time needed if these jobs run in this order from `start`.
fn density(view: &View<'_, '_>, start: Time, order: &[usize], worth: impl Fn(TaskId, Time) -> u64) -> Density {
    let mut end = start;
    let mut sum = Density::NONE;
    for &job in order {
        end += view.jobs[job].left;
        sum = sum.plus(Density {
            utility: u128::from(worth(view.jobs[job].task, end)),
            left: view.jobs[job].left.ns() as u128,
        });
    }
    sum
}

/// The first of the densest.
fn densest(jobs: impl Iterator<Item = usize>, of: impl Fn(usize) -> Density) -> Option<usize> {
    jobs.min_by(|a, b| of(*a).densest_first(&of(*b)).then(a.cmp(b)))
}

impl Rules for DasaNd {
    fn check(view: &View<'_, '_>, schedule: &[usize]) {
        assert!(feasible(view, schedule) && by_deadline(view, schedule.to_vec()) == schedule, "{schedule:?}");
        let others = || (0..view.jobs.len()).filter(|job| !schedule.contains(job));
        for job in others() {
            let more = by_deadline(view, [schedule, &[job]].concat());
            assert!(!feasible(view, &more), "{job} could be added to {schedule:?}: {:?}", view.jobs);
        }
        let alone = (0..view.jobs.len()).filter(|&job| feasible(view, &[job]));
        let best = densest(alone, |job| view.jobs[job].density());
        assert!(best.is_none_or(|best| schedule.contains(&best)), "{best:?} is not in {schedule:?}: {:?}", view.jobs);
    }
}

impl Rules for Dasa {
    fn check(view: &View<'_, '_>, schedule: &[usize]) {
        assert!(feasible(view, schedule), "{schedule:?}: {:?}", view.jobs);
        owners_come_before_dependents(view, schedule);
        let alone = (0..view.jobs.len()).filter(|&job| feasible(view, &owners_first(view, job)));
        let potential = |task, at| view.cx.potential(task, at);
        let best = densest(alone, |job| density(view, view.now, &owners_first(view, job), potential));
        assert!(best.is_none_or(|best| schedule.contains(&best)), "{best:?} is not in {schedule:?}: {:?}", view.jobs);
        if view.jobs.iter().all(|job| job.owner.is_none()) {
            DasaNd::check(view, schedule);
        }
    }
}

impl Rules for Lbesa {
    fn check(view: &View<'_, '_>, schedule: &[usize]) {
        let mut dense: Vec<usize> = (0..view.jobs.len()).collect();
        dense.sort_by(|a, b| view.jobs[*a].density().densest_first(&view.jobs[*b].density()).then(a.cmp(b)));
        let mut kept = dense[..schedule.len()].to_vec();
        kept.sort_unstable();
        assert_eq!(by_deadline(view, kept), schedule, "not the densest by deadline: {:?}", view.jobs);
        assert!(feasible(view, schedule) || schedule.len() == 1, "{schedule:?}: {:?}", view.jobs);
        if let Some(more) = dense.get(..=schedule.len()) {
            assert!(!feasible(view, &by_deadline(view, more.to_vec())), "{more:?} would do: {:?}", view.jobs);
        }
    }
}

impl Rules for Gus {
    fn check(view: &View<'_, '_>, schedule: &[usize]) {
        owners_come_before_dependents(view, schedule);
        let worth = |task, at| view.cx.worth(task, at);
        // Each piece, up to a job that does not hold what the next one waits for, is the densest at its place.
        let mut placed: Vec<usize> = Vec::new();
        let mut end = view.now;
        loop {
            let open = |job| owners_first(view, job).into_iter().filter(|j| !placed.contains(j)).collect::<Vec<_>>();
            let rest = (0..view.jobs.len()).filter(|job| !placed.contains(job));
            let accruing = rest.filter(|&job| density(view, end, &open(job), worth).utility > 0);
            let Some(best) = densest(accruing, |job| density(view, end, &open(job), worth)) else { break };
            let piece = open(best);
            assert!(schedule[placed.len()..].starts_with(&piece), "{piece:?} is not next in {schedule:?}");
            piece.iter().for_each(|&job| end += view.jobs[job].left);
            placed.extend(piece);
        }
        assert_eq!(placed, schedule, "what follows accrues nothing");
    }
}

/// Something that happens in a step: what, to whom, and with which resource.
type Act = (u8, u32, u16);

#[derive(Clone, Debug)]
struct Case {
    tasks: Vec<Task>,
    late: Late,
    locking: Locking,
    /// How much later than the step before, but no later than the engine is due; and what happens then.
    turns: Vec<(i64, Vec<Act>)>,
}

const RESOURCES: u16 = 3;

fn ms(ms: i64) -> Span {
    Span::from_ms(ms)
}

fn utility() -> impl Strategy<Value = Utility> {
    let height = || (0u64..6).prop_map(|h| h * UNIT);
    prop_oneof![
        3 => height().prop_map(Utility::Step),
        1 => (height(), weighted(0.5, (1i64..20).prop_map(ms)))
            .prop_map(|(height, until)| Utility::Linear { height, until }),
        1 => (height(), (1i64..20).prop_map(ms))
            .prop_map(|(height, half_life)| Utility::Exponential { height, half_life }),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let handler = weighted(0.3, (1i64..4, weighted(0.7, 1i64..9), 0u64..6));
    let task = (0i64..4, 4i64..25, 1i64..7, 1i64..25, utility(), handler);
    let task = task.prop_map(|(offset, period, runtime, deadline, utility, handler)| Task {
        arrival: Arrival::Periodic { offset: ms(offset), period: ms(period) },
        deadline: Some(ms(deadline)),
        runtime: Some(ms(runtime)),
        utility: Some(utility),
        handler: handler.map(|(runtime, deadline, utility)| Handler {
            runtime: ms(runtime),
            deadline: deadline.map(ms),
            utility: utility * UNIT,
        }),
        ..Task::default()
    });
    let late = select(&[Late::Continue, Late::Abort, Late::AbortAtEvent][..]);
    let locking = select(&[Locking::Inheritance, Locking::Fifo][..]);
    let turn = (0i64..4, vec((0u8..13, 0u32..7, 0..RESOURCES), 0..4));
    (vec(task, 1..7), late, locking, vec(turn, 1..40)).prop_map(|(tasks, late, locking, turns)| Case {
        tasks,
        late,
        locking,
        turns,
    })
}

/// The policy of a checked construction on one CPU.
fn entry<C: Rules>() -> &'static Entry {
    Box::leak(Box::new(Entry {
        profile: Profile {
            name: "checked",
            summary: "",
            scopes: &[Scope::Uniprocessor],
            needs: &[],
            facts: &[],
            test: CpuTest::Utilisation,
            settings: &[],
        },
        manual: "",
        build: build::<Checked<C>>,
    }))
}

fn play(entry: &'static Entry, case: Case) {
    let policy = PolicySpec::new(&entry.profile, Scope::Uniprocessor);
    let Case { tasks, late, locking, turns } = case;
    let count = tasks.len() as u32;
    let system = System { tasks, late, locking, resources: RESOURCES, ..System::new(CpuSet::first(1), policy) };
    let mut engine = Engine::with_registry(system, Registry::default().with(entry)).expect("a sound system");
    for (gap, acts) in turns {
        let due = engine.next_due().expect("releases never end");
        let now = due.min(engine.now() + ms(gap)).max(engine.now());
        let input = |&(what, which, resource): &Act| {
            let task = TaskId(which % count);
            let running = engine.running().first().copied().unwrap_or(task);
            let resource = ResourceId(resource);
            match what {
                0..=2 => Input::Complete { task: running, job: engine.at(running).unwrap_or(0) },
                3..=6 => Input::Lock { task, resource },
                7 | 8 => Input::Unlock { task, resource },
                9 => Input::Block { task },
                10 => Input::Wake { task },
                11 => match engine.waits_for(task) {
                    Some(resource) => Input::Withdraw { task, resource },
                    None => Input::Wake { task },
                },
                _ => Input::Abort { task },
            }
        };
        let inputs: Vec<Input> = acts.iter().map(input).collect();
        let _ = engine.step(now, &inputs, &mut ());
    }
}

fn every_schedule_of<C: Rules>() {
    let entry = entry::<C>();
    takt_testing::for_all(400, cases(), |case| {
        play(entry, case);
        Ok(())
    });
}

#[test]
fn dasa_nd_is_feasible_maximal_and_keeps_the_densest() {
    every_schedule_of::<DasaNd>();
}

#[test]
fn dasa_is_feasible_and_has_owners_before_dependents() {
    every_schedule_of::<Dasa>();
}

#[test]
fn lbesa_sheds_no_more_than_it_must() {
    every_schedule_of::<Lbesa>();
}

#[test]
fn gus_appends_the_densest_chain_until_nothing_accrues() {
    every_schedule_of::<Gus>();
}

#[test]
fn densities_are_compared_without_division() {
    let density = |utility: u64, left: i64| Density { utility: utility.into(), left: left as u128 };
    let most = crate::utility::MOST;
    let mut several = [(most, i64::MAX), (0, 1), (most - 1, 1), (most, 1), (most, i64::MAX - 1)];
    several.sort_by(|a, b| density(a.0, a.1).densest_first(&density(b.0, b.1)));
    assert_eq!(several, [(most, 1), (most - 1, 1), (most, i64::MAX - 1), (most, i64::MAX), (0, 1)]);
    assert_eq!(density(2, 4).densest_first(&density(3, 6)), Ordering::Equal);
}
