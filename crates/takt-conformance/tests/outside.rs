//! A construction and a server rule from outside of the core keep what every policy must keep.

use takt_conformance::{Suite, Waiting};
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::*;
use takt_core::policies::accrual::{self, Construction, View};
use takt_core::policies::aperiodic::{self, BACKGROUND, BY, CONSERVING, RANKED_BY, Rule, SCOPES, SERVED_LAST};
use takt_core::policies::scope::{self, Ordering};
use takt_core::policy::{Build, Context, Decision, Entry, Event, Policy, Registry};
use takt_core::record::{Place, Record, RecordKind};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;

/// Jobs by deadline; while one of them would be late, the one that is worth least is left out.
struct Shed;

impl Construction for Shed {
    fn new(_: &Build<'_>) -> Self {
        Shed
    }
    fn construct(&mut self, view: &View<'_, '_>, schedule: &mut Vec<usize>) {
        schedule.extend(0..view.jobs.len());
        schedule.sort_unstable_by_key(|job| (view.jobs[*job].deadline, *job));
        while !view.in_time(schedule.iter().copied()) {
            let worth = |at: &usize| (view.jobs[schedule[*at]].potential, std::cmp::Reverse(*at));
            let least = (0..schedule.len()).min_by_key(worth).expect("no job is late in an empty schedule");
            schedule.remove(least);
        }
    }
}

static SHED: Entry = Entry {
    profile: Profile {
        name: "shed",
        summary: "by deadline, without the jobs that are worth least",
        scopes: &[Scope::Uniprocessor, Scope::Partitioned, Scope::Global],
        needs: &[Need::Deadline, Need::Runtime, Need::Utility],
        facts: &[Fact::WorkConserving(When::Always)],
        test: CpuTest::Demand,
        settings: &[],
    },
    manual: "",
    build: accrual::build::<Shed>,
};

/// A budget at each multiple of the period, lost unless there is work in its first half.
struct Morning {
    reserved: Reservation,
    period: Time,
    left: Span,
    works: bool,
}

impl Morning {
    fn noon(&self) -> Time {
        self.period + self.reserved.period / 2
    }
    fn lose(&mut self, now: Time) {
        if !self.works && now >= self.noon() {
            self.left = Span::ZERO;
        }
    }
}

impl Rule for Morning {
    fn new(reserved: Reservation, _: &PolicySpec) -> Self {
        Morning { reserved, period: Time::ZERO, left: reserved.budget, works: false }
    }
    fn restart(&mut self, reserved: Reservation, now: Time) {
        *self = Morning { reserved, period: now.round_down(reserved.period), left: reserved.budget, works: false };
        self.lose(now);
    }
    fn advance(&mut self, now: Time) {
        let period = now.round_down(self.reserved.period);
        if period > self.period {
            (self.period, self.left) = (period, self.reserved.budget);
        }
        self.lose(now);
    }
    fn wakes(&mut self, now: Time) {
        self.lose(now);
        self.works = true;
    }
    fn idles(&mut self, _: Time) {
        self.works = false;
    }
    fn consume(&mut self, amount: Span) {
        self.left -= amount;
    }
    fn left(&self, _: Time) -> Span {
        self.left
    }
    fn next(&self, _: Time) -> Option<Time> {
        Some(self.deadline())
    }
    fn deadline(&self) -> Time {
        self.period + self.reserved.period
    }
}

static MORNING: Entry = Entry {
    profile: Profile {
        name: "morning",
        summary: "servers whose budgets are lost at noon",
        scopes: SCOPES,
        needs: &[],
        facts: &[
            Fact::Servers(Servers {
                ranked_by: RANKED_BY,
                back_to_back: false,
                premature: When::Never,
                background: SERVED_LAST,
            }),
            CONSERVING,
        ],
        test: CpuTest::Utilisation,
        settings: &[BY, BACKGROUND],
    },
    manual: "",
    build: aperiodic::build::<Morning>,
};

/// Fixed ranks by the period or by the relative deadline, as a setting says.
struct Monotonic {
    spec: PolicySpec,
}

fn monotonic_rank(spec: &PolicySpec, task: &Task) -> i64 {
    let length = if spec.value("by") == Some(1) { task.deadline } else { task.arrival.period() };
    length.map_or(i64::MAX, Span::ns)
}

impl Ordering for Monotonic {
    const BY_TERMS: bool = true;

    fn new(build: &Build<'_>) -> Self {
        Monotonic { spec: build.spec }
    }
    fn rank(&mut self, task: TaskId, cx: &Context<'_>) -> i64 {
        self.if_released_now(task, cx)
    }
    fn if_released_now(&self, task: TaskId, cx: &Context<'_>) -> i64 {
        monotonic_rank(&self.spec, cx.task(task))
    }
}

static MONOTONIC: Entry = Entry {
    profile: Profile {
        name: "monotonic",
        summary: "rate or deadline monotonic",
        scopes: scope::SCOPES,
        needs: &[Need::Period],
        facts: &[Fact::WorkConserving(When::Always)],
        test: CpuTest::ResponseTimes(monotonic_rank),
        settings: &[Setting {
            name: "by",
            kind: Kind::Choice(&["period", "deadline"]),
            default: "period",
            summary: "length that ranks tasks",
        }],
    },
    manual: "",
    build: scope::build::<Monotonic>,
};

#[test]
fn the_page_shows_the_rank_that_depends_on_a_setting() {
    let (page, own) = (include_str!("../../../docs/writing-policies.md"), include_str!("outside.rs"));
    let code = own
        .split("\n\n")
        .skip_while(|part| !part.starts_with("/// Fixed ranks"))
        .take_while(|part| !part.starts_with("#[test]"));
    let code: Vec<&str> = code.collect();
    assert!(
        page.contains(&format!("```rust\n{}\n```", code.join("\n\n"))),
        "docs/writing-policies.md shows another ordering"
    );
}

#[test]
fn a_rank_that_depends_on_a_setting_conforms() {
    let stated = |job: &Waiting<'_>| {
        let rank = monotonic_rank(&job.policy, job.task);
        Some((rank, rank))
    };
    let registry = Registry::standard().with(&MONOTONIC);
    Suite::new(registry.clone()).stating("monotonic", stated).check("monotonic").unwrap();
    // The order by periods alone is wrong for the other value of the setting.
    let by_period = |job: &Waiting<'_>| {
        let rank = job.task.arrival.period().map_or(i64::MAX, Span::ns);
        Some((rank, rank))
    };
    let fault = Suite::new(registry).stating("monotonic", by_period).check("monotonic").expect_err("deadlines rank");
    assert!(fault.to_string().contains("although it is ahead"), "{fault}");
}

/// First come, first served, on one CPU.
struct Forgetful {
    tasks: Vec<TaskId>,
    remembers: bool,
}

impl Policy for Forgetful {
    fn start(&mut self, _: &mut Context<'_>) {}
    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        if let (Event::Release { task, .. }, true) = (*event, self.remembers) {
            cx.grant_own(task);
        }
    }
    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let ready = self.tasks.iter().copied().filter(|task| cx.is_ready(*task));
        let first = ready.min_by_key(|task| (cx.job(*task).map(|job| job.release), *task));
        if let (Some(task), Some(cpu)) = (first, lent.first()) {
            decision.run(task, *cpu);
        }
    }
}

const fn forgetful(name: &'static str, build: fn(&Build<'_>) -> Result<Box<dyn Policy>, Invalid>) -> Entry {
    let profile = Profile {
        name,
        summary: "first come, first served",
        scopes: &[Scope::Uniprocessor],
        needs: &[],
        facts: &[],
        test: CpuTest::Utilisation,
        settings: &[],
    };
    Entry { profile, manual: "", build }
}

static FORGETS: Entry =
    forgetful("forgets", |build| Ok(Box::new(Forgetful { tasks: build.tasks.to_vec(), remembers: false })));
static REMEMBERS: Entry =
    forgetful("remembers", |build| Ok(Box::new(Forgetful { tasks: build.tasks.to_vec(), remembers: true })));

#[test]
fn a_policy_that_grants_no_task_its_own_budget_does_not_conform() {
    // Each alone, or one could be switched to the other.
    Suite::new(Registry::standard().with(&REMEMBERS)).check("remembers").unwrap();
    let fault = Suite::new(Registry::standard().with(&FORGETS)).check("forgets").expect_err("budgets limit nothing");
    assert!(fault.to_string().contains("runs without a budget"), "{fault}");
}

fn registry() -> Registry {
    Registry::standard().with(&SHED).with(&MORNING)
}

/// When jobs end, as (task, instant, whether completed), of tasks with one job each.
fn ends(policy: &str, tasks: Vec<Task>) -> Vec<(u32, i64, bool)> {
    let policy = registry().spec(policy).expect("it is in the registry");
    let system = System { tasks, late: Late::Abort, ..System::new(CpuSet::first(1), policy) };
    let mut engine = Engine::with_registry(system, registry()).expect("a system that runs");
    let mut records: Vec<Record> = Vec::new();
    takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ns(40), &mut records, |_| ());
    let end = |record: &Record| match record.kind {
        RecordKind::Finish { task, outcome, .. } => {
            Some((task.0, record.at.ns(), outcome == takt_core::record::Outcome::Completed))
        }
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

fn once(at: i64, runtime: i64) -> Task {
    let instants = vec![Span::from_ns(at)];
    Task { arrival: Arrival::Listed { instants }, runtime: Some(Span::from_ns(runtime)), ..Task::default() }
}

#[test]
fn a_construction_from_outside_schedules_and_conforms() {
    let job = |runtime, deadline, worth| Task {
        deadline: Some(Span::from_ns(deadline)),
        utility: Some(Utility::Step(worth)),
        ..once(0, runtime)
    };
    let tasks = vec![job(3, 4, 3), job(3, 5, 9), job(2, 7, 4)];
    assert_eq!(ends("shed", tasks), [(1, 3, true), (0, 4, false), (2, 5, true)]);
    Suite::new(registry()).check("shed").unwrap();
}

#[test]
fn a_server_rule_from_outside_serves_and_conforms() {
    let served = |at| Task { reservation: Some(Reservation::new(Span::from_ns(2), Span::from_ns(10))), ..once(at, 3) };
    // In the morning at once, and the rest in the next period; in the afternoon in the next period, and the rest after that.
    assert_eq!(ends("morning", vec![served(3)]), [(0, 11, true)]);
    assert_eq!(ends("morning", vec![served(6)]), [(0, 21, true)]);
    Suite::new(registry()).check("morning").unwrap();
}
