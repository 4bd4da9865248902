//! A policy from outside of the core, word for word as `docs/writing-policies.md` shows it.

// begin
use takt_core::model::{CpuTest, Need, Scope};
use takt_core::model::{Invalid, Profile, TaskId};
use takt_core::policy::{Build, Context, Decision, Entry, Event, Policy};
use takt_core::record::Place;

/// Shortest remaining time first, on one CPU.
struct ShortestFirst {
    tasks: Vec<TaskId>,
}

impl Policy for ShortestFirst {
    // It keeps nothing of what happened before, so it can take over at any instant.
    fn start(&mut self, _: &mut Context<'_>) {}

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        // A task's own budget is a limit for each of its jobs, which the engine enforces.
        if let Event::Release { task, .. } = *event {
            cx.grant_own(task);
        }
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let ready = self.tasks.iter().copied().filter(|task| cx.is_ready(*task));
        let first = ready.min_by_key(|task| (cx.remaining(*task), *task));
        cx.visited(self.tasks.len());
        if let (Some(task), Some(cpu)) = (first, lent.first()) {
            decision.run(task, *cpu);
        }
    }
}

fn build(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    Ok(Box::new(ShortestFirst { tasks: build.tasks.to_vec() }))
}

static ENTRY: Entry = Entry {
    profile: Profile {
        name: "srtf",
        summary: "shortest remaining time first",
        scopes: &[Scope::Uniprocessor],
        needs: &[Need::Runtime],
        facts: &[],
        test: CpuTest::Utilisation,
        settings: &[],
    },
    manual: "Runs the job that needs the least until it is done. **Cost.** O(n) per decision.",
    build,
};
// end

use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::PolicySpec;
use takt_core::model::{Arrival, System, Task};
use takt_core::policy::Registry;
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::scenario::Scenario;
use takt_core::time::Span;

/// Ends of jobs as (instant, task), all in milliseconds, of jobs (release, runtime, budget).
fn ends(jobs: &[(i64, i64, Option<i64>)]) -> Vec<(i64, u32, Outcome)> {
    let task = |&(release, runtime, budget): &(i64, i64, Option<i64>)| Task {
        arrival: Arrival::Listed { instants: vec![Span::from_ms(release)] },
        runtime: Some(Span::from_ms(runtime)),
        budget: budget.map(Span::from_ms),
        ..Task::default()
    };
    let policy = PolicySpec::new(&ENTRY.profile, Scope::Uniprocessor);
    let system = System { tasks: jobs.iter().map(task).collect(), ..System::new(CpuSet::first(1), policy) };
    let mut records: Vec<Record> = Vec::new();
    let mut engine =
        Engine::with_registry(system, Registry::standard().with(&ENTRY)).expect("every task has a runtime");
    takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ms(100), &mut records, |_| {});
    let end = |r: &Record| match r.kind {
        RecordKind::Finish { task, outcome, .. } => Some((r.at.ns() / 1_000_000, task.0, outcome)),
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

#[test]
fn it_schedules() {
    let done = Outcome::Completed;
    // At 2, the 5 of the second are less than the 8 that the first still needs; at 4, the last needs 3, as the second does.
    let (a, b, c) = ((0, 10, None), (2, 5, None), (4, 3, None));
    assert_eq!(ends(&[a, b, c]), [(7, 1, done), (10, 2, done), (18, 0, done)]);
    // Exhausted: the second is given up after 4 of its 5.
    let b = (2, 5, Some(4));
    assert_eq!(ends(&[a, b, c]), [(6, 1, Outcome::Aborted), (9, 2, done), (17, 0, done)]);
}

#[test]
fn needs_of_a_policy_are_checked() {
    let policy = PolicySpec::new(&ENTRY.profile, Scope::Uniprocessor);
    let system = System { tasks: vec![Task::default()], ..System::new(CpuSet::first(1), policy) };
    assert!(matches!(
        Engine::with_registry(system, Registry::standard().with(&ENTRY)),
        Err(Invalid::Needs(TaskId(0), "runtime"))
    ));
}

/// An engine around a policy that has been built decides as one that has found it in a registry.
#[test]
fn a_policy_that_has_been_built_needs_no_registry() {
    let policy = PolicySpec::new(&ENTRY.profile, Scope::Uniprocessor);
    let task = |period: i64| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(period) },
        runtime: Some(Span::from_ms(period / 3)),
        ..Task::default()
    };
    let tasks = [7, 12, 20].map(task).to_vec();
    let system = || System { tasks: tasks.clone(), ..System::new(CpuSet::first(1), policy) };
    let built = Build::whole(&system(), &Registry::default(), |build| (ENTRY.build)(build)).expect("all have runtimes");
    let engines =
        [Engine::with_policy(system(), built), Engine::with_registry(system(), Registry::standard().with(&ENTRY))];
    let [alone, listed] = engines.map(|engine| {
        let mut records: Vec<Record> = Vec::new();
        let mut engine = engine.expect("a sound system");
        takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ms(500), &mut records, |_| {});
        records
    });
    assert!(alone.len() > 300 && alone == listed, "{} and {} records", alone.len(), listed.len());
}

#[test]
fn the_manual_shows_it() {
    let text = include_str!("own_policy.rs");
    let (_, rest) = text.split_once("// begin\n").expect("it begins");
    let (code, _) = rest.split_once("// end\n").expect("it ends");
    let page = include_str!("../../../docs/writing-policies.md");
    assert!(page.contains(&format!("```rust\n{code}```")), "docs/writing-policies.md shows another policy");
}
