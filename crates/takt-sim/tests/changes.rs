//! A decision that names who comes and who goes has the effect of one that names everyone who runs, and so has an exchange in its place: a policy
//! under a host that passes these on, and the same one under a host that requires the complete form, give the same records and the same account of CPUs.

mod story;

use proptest::prelude::*;
use story::*;
use takt_core::engine::Engine;
use takt_core::model::{Domain, Invalid, Late, PolicySpec, ResourceId, Step, System, Task, TaskId, Terms};
use takt_core::policy::{Build, Context, Decision, Event, Exchange, Policy, Registry};
use takt_core::record::{Place, Record};
use takt_core::scenario::Scenario;
use takt_sim::Report;

/// The answers of its policy that a host passes on.
#[derive(Clone, Copy, PartialEq)]
enum Passes {
    Whole,
    Changes,
    Exchanges,
}

/// A host of one policy for everything.
struct Host {
    policy: Box<dyn Policy>,
    passes: Passes,
}

impl Policy for Host {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.policy.start(cx);
    }
    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        self.policy.event(event, cx);
    }
    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        assert_eq!(decision.takes_changes(), self.passes != Passes::Whole);
        self.policy.decide(lent, cx, decision);
    }
    fn exchange(&mut self, lent: &[Place], cx: &mut Context<'_>) -> Option<Exchange> {
        assert!(self.passes != Passes::Whole);
        if self.passes == Passes::Exchanges { self.policy.exchange(lent, cx) } else { None }
    }
    fn passes_changes(&self) -> bool {
        self.passes != Passes::Whole
    }
    fn timers(&self) -> u16 {
        self.policy.timers()
    }
    fn home(&self, task: TaskId) -> Option<Place> {
        self.policy.home(task)
    }
    fn meters(&self) -> bool {
        self.policy.meters()
    }
    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        self.policy.admits(task, terms, cx)
    }
    fn prepare_domain(&self, domain: usize, to: &PolicySpec, system: &System) -> Result<Box<dyn Policy>, Invalid> {
        self.policy.prepare_domain(domain, to, system)
    }
    fn replace_domain(
        &mut self,
        domain: usize,
        with: (PolicySpec, Box<dyn Policy>),
        cx: &mut Context<'_>,
    ) -> Result<Box<dyn Policy>, Box<dyn Policy>> {
        self.policy.replace_domain(domain, with, cx)
    }
}

fn simulated(system: &System, passes: Passes) -> (Vec<Record>, Report) {
    let policy = Build::whole(system, &Registry::standard(), |build| build.policy()).expect("it suits the system");
    let mut engine = Engine::with_policy(system.clone(), Box::new(Host { policy, passes })).expect("a valid system");
    let mut records = Vec::new();
    let report = takt_sim::simulate(&mut engine, &Scenario::default(), ns(2000), &mut records, |_| ());
    (records, report)
}

/// Where a task may run, and what it locks.
fn task(cpus: usize) -> impl Strategy<Value = Task> {
    let lock = prop::option::weighted(0.2, (0u16..2, 1i64..5));
    let bound = prop::option::weighted(0.1, 0..cpus);
    (simple_task(), lock, bound, prop::option::weighted(0.2, 1i64..15)).prop_map(
        move |(mut task, lock, bound, budget)| {
            if let Some((resource, length)) = lock {
                let resource = ResourceId(resource);
                task.program.steps.extend([Step::Lock(resource), run(length), Step::Unlock(resource), Step::Yield]);
            }
            task.affinity = match bound {
                Some(cpu) => takt_core::cpus::CpuSet::single(cpu),
                None => takt_core::cpus::CpuSet::first(cpus),
            };
            task.budget = budget.map(ns);
            task
        },
    )
}

const POLICIES: [&str; 8] = ["g-edf", "g-rm", "g-fp", "c-edf", "p-edf", "p-fp", "g-fifo", "domains"];

fn described() -> impl Strategy<Value = System> {
    let named = (prop::sample::select(POLICIES.to_vec()), 2usize..6);
    let late = prop::sample::select(vec![Late::Continue, Late::Abort, Late::AbortAtEvent]);
    (named, late).prop_flat_map(|((name, cpus), late)| {
        prop::collection::vec(task(cpus), 1..12).prop_map(move |tasks| {
            let mut system = System { late, ..system(cpus, name, tasks) };
            if name == "domains" {
                into_domains(&mut system);
            }
            system
        })
    })
}

/// CPU 0 has a domain of its own with every third task.
fn into_domains(system: &mut System) {
    let own = takt_core::cpus::CpuSet::single(0);
    let others = system.cpus.iter().skip(1).collect();
    let part = |of: bool| (0..system.tasks.len()).filter(|i| (i % 3 == 0) == of).map(|i| TaskId(i as u32)).collect();
    let policy = |name| PolicySpec::from_name(name).expect("a policy");
    system.domains = vec![
        Domain { band: 0, cpus: own, tasks: part(true), policy: policy("edf") },
        Domain { band: 0, cpus: others, tasks: part(false), policy: policy("g-rm") },
    ];
    for (index, task) in system.tasks.iter_mut().enumerate() {
        task.affinity = if index % 3 == 0 { own } else { others };
    }
}

#[test]
fn changes_have_the_effect_of_the_whole_picture() {
    takt_testing::for_all(600, described(), |system| {
        let (whole, whole_report) = simulated(&system, Passes::Whole);
        for passes in [Passes::Changes, Passes::Exchanges] {
            let (changes, report) = simulated(&system, passes);
            let differs = whole.iter().zip(&changes).position(|(a, b)| a != b);
            prop_assert_eq!(differs.map(|i| (&whole[i], &changes[i])), None);
            prop_assert_eq!(whole.len(), changes.len());
            prop_assert_eq!(&whole_report, &report);
        }
        Ok(())
    });
}
