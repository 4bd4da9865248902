//! Schedulability tests and simulated policies by name, as `analyze` and `sweep` ask for them.

use crate::error::Error;
use crate::load::{assign_priorities, engine};
use takt_analysis::online::Kind;
use takt_analysis::priorities::Rule;
use takt_analysis::taskset::TaskSet;
use takt_analysis::tests::{self, TESTS, Test, Verdict, Why};
use takt_core::cpus::CpuSet;
use takt_core::model::{Placement, PolicySpec, Scope, System, Task};
use takt_core::policies::edf;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_workload::{AssignedPriorities, Code};

/// A way to a verdict.
pub enum Method {
    /// A schedulability test.
    Test(&'static Test),
    /// A policy, simulated.
    Simulated(String, Box<PolicySpec>),
}

/// A verdict and its ground.
pub struct Said {
    /// The verdict.
    pub verdict: Verdict,
    /// Its ground.
    pub ground: Ground,
    /// The priorities that a simulated policy was given, if it ranks by them.
    pub priorities: Option<AssignedPriorities>,
}

/// The ground of a verdict.
pub enum Ground {
    /// That of a test.
    Test(Why),
    /// Counts of a simulation.
    Simulated {
        /// The released jobs.
        jobs: u64,
        /// The missed ones.
        missed: u64,
        /// The simulated time.
        length: Span,
    },
    /// The policy cannot schedule the set.
    Refused(String),
}

/// The prefix of a simulated policy's name.
const SIMULATED: &str = "sim:";
/// Global EDF, simulated.
const GLOBAL_EDF: &str = "gedf_sim";

impl Method {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Method::Test(test) => test.name,
            Method::Simulated(name, _) => name,
        }
    }

    /// How it places tasks, for a simulated policy that does so.
    #[must_use]
    pub fn placement(&self) -> Option<Placement> {
        match self {
            Method::Simulated(_, policy) if matches!(policy.scope, Scope::Partitioned | Scope::Clustered) => {
                Some(policy.placement)
            }
            _ => None,
        }
    }

    /// The strength of a verdict about this set.
    #[must_use]
    pub fn kind(&self, set: &TaskSet) -> Kind {
        match self {
            Method::Test(test) => test.kind_for(set),
            Method::Simulated(..) => Kind::Necessary,
        }
    }

    /// Whether the test accepts no set, so that those that it does not refuse are what there is to count.
    #[must_use]
    pub fn only_refuses(&self) -> bool {
        matches!(self, Method::Test(test) if test.kind == Kind::Necessary)
    }

    /// The reason for which it applies to no set on so many CPUs.
    #[must_use]
    pub fn beyond(&self, cpus: usize) -> Option<&'static str> {
        match self {
            Method::Test(test) if test.one_cpu && cpus > 1 => Some("the test is about one CPU"),
            Method::Simulated(_, policy) if policy.scope == Scope::Uniprocessor && cpus > 1 => {
                Some("the policy schedules one CPU")
            }
            Method::Simulated(_, policy) if policy.scope == Scope::Table => {
                Some("a task set has no windows or domains")
            }
            Method::Test(_) | Method::Simulated(..) => None,
        }
    }

    /// The failure of a test that applies to none of the sets.
    #[must_use]
    pub fn refused(&self, why: &str) -> Error {
        let other = match self {
            Method::Simulated(_, policy) if policy.scope == Scope::Uniprocessor => {
                let forms = ["g-", "p-"].map(|prefix| format!("{prefix}{}", policy.profile.name));
                let known = forms.iter().filter(|name| takt_workload::registry().spec(name).is_some());
                let known: Vec<String> = known.map(|name| format!("`{SIMULATED}{name}`")).collect();
                known.join(" or ")
            }
            _ => String::new(),
        };
        let other = if other.is_empty() { "another test".to_owned() } else { other };
        let hint = format!("leave it out of `--test`, name {other}, or change `--cpus` or the task sets");
        Error::argument(Code::NotApplicable, format!("`{}` applies to none of the task sets: {why}", self.name()), hint)
    }

    /// The verdict in a word.
    #[must_use]
    pub fn word(&self, verdict: Verdict) -> &'static str {
        match (self, verdict) {
            (Method::Simulated(..), Verdict::Schedulable) => "no miss",
            _ => verdict.word(),
        }
    }

    /// The policy that it simulates.
    #[must_use]
    pub fn policy(&self) -> Option<&PolicySpec> {
        match self {
            Method::Test(_) => None,
            Method::Simulated(_, policy) => Some(policy),
        }
    }

    /// Asks about a set on so many CPUs. `system` gives the same tasks to the simulator, which runs for `length`. Where its policy
    /// ranks by priority, the tasks have those of `priorities`: the rule, the seed and the number of the set. `None` leaves theirs.
    pub fn ask(
        &self,
        set: &TaskSet,
        cpus: usize,
        system: impl Fn() -> System,
        priorities: Option<(Rule, u64, u64)>,
        length: Span,
    ) -> Said {
        self.ask_by(set, cpus, system, priorities, |system| simulated(&system, length))
    }

    /// As [`Method::ask`], where only the verdict counts: a simulation ends soon after its first miss, and its counts are those up to there.
    pub fn decide(
        &self,
        set: &TaskSet,
        cpus: usize,
        system: impl Fn() -> System,
        priorities: Option<(Rule, u64, u64)>,
        length: Span,
    ) -> Said {
        self.ask_by(set, cpus, system, priorities, |system| simulated_to_a_miss(system, length))
    }

    fn ask_by(
        &self,
        set: &TaskSet,
        cpus: usize,
        system: impl Fn() -> System,
        priorities: Option<(Rule, u64, u64)>,
        simulate: impl Fn(System) -> Said,
    ) -> Said {
        match self {
            Method::Test(test) => {
                let found = test.run(set, cpus);
                Said { verdict: found.verdict, ground: Ground::Test(found.why), priorities: None }
            }
            Method::Simulated(_, policy) => {
                let mut system = System { policy: **policy, ..system() };
                let assigned = priorities.and_then(|(rule, seed, set)| assign_priorities(rule, &mut system, seed, set));
                Said { priorities: assigned, ..simulate(system) }
            }
        }
    }
}

/// A deadline that is missed at all is mostly missed early: a short run first spares the long one.
const FIRST_PART: i64 = 32;

fn simulated(system: &System, length: Span) -> Said {
    let said = |verdict, ground| Said { verdict, ground, priorities: None };
    let mut counts = takt_core::stats::Counts::default();
    for part in [length / FIRST_PART, length] {
        match engine(system.clone()) {
            Err(why) => return said(Verdict::Unknown, Ground::Refused(why.to_string())),
            Ok(mut engine) => {
                takt_sim::simulate(&mut engine, &Scenario::default(), part, &mut (), |_| ());
                counts = engine.totals();
            }
        }
        if counts.missed > 0 {
            let ground = Ground::Simulated { jobs: counts.released, missed: counts.missed, length: part };
            return said(Verdict::Unschedulable, ground);
        }
    }
    said(Verdict::Schedulable, Ground::Simulated { jobs: counts.released, missed: 0, length })
}

fn simulated_to_a_miss(system: System, length: Span) -> Said {
    let said = |verdict, ground| Said { verdict, ground, priorities: None };
    let mut engine = match engine(system) {
        Ok(engine) => engine,
        Err(why) => return said(Verdict::Unknown, Ground::Refused(why.to_string())),
    };
    let reached = takt_sim::simulate_to_a_miss(&mut engine, &Scenario::default(), length);
    let counts = engine.totals();
    let verdict = if counts.missed > 0 { Verdict::Unschedulable } else { Verdict::Schedulable };
    let ground = Ground::Simulated { jobs: counts.released, missed: counts.missed, length: reached - Time::ZERO };
    said(verdict, ground)
}

impl Said {
    /// Reports whether the test is made for the set. Its search may still take too long.
    #[must_use]
    pub fn applies(&self) -> bool {
        !matches!(self.ground, Ground::Refused(_) | Ground::Test(Why::Beyond(_)))
    }

    /// The ground in words.
    #[must_use]
    pub fn why(&self, set: &TaskSet, name: &dyn Fn(usize) -> String) -> String {
        match &self.ground {
            Ground::Test(why) => why.text(set, name),
            Ground::Simulated { jobs, missed: 0, length } => format!("{jobs} jobs in {length}, none missed"),
            Ground::Simulated { jobs, missed, length } => format!("{jobs} jobs in {length}, {missed} missed"),
            Ground::Refused(why) => why.clone(),
        }
    }
}

/// The note about a policy that works in quanta and is optimal for periods that are multiples of them. `None` for a policy without
/// quanta, and where all periods and runtimes are multiples.
#[must_use]
pub fn grid_note(name: &str, policy: &PolicySpec, periods: bool, runtimes: bool) -> Option<String> {
    let quantum = takt_workload::duration_text(policy.grid()?);
    match (periods, runtimes) {
        (false, _) => Some(format!(
            "{name} works in quanta of {quantum} and is optimal only for periods that are multiples of them, which these are not"
        )),
        (true, false) => Some(format!("{name} works in quanta of {quantum} and rounds runtimes up to them")),
        (true, true) => None,
    }
}

/// The note about these tasks.
#[must_use]
pub fn grid_note_of(name: &str, policy: &PolicySpec, tasks: &[Task]) -> Option<String> {
    let quantum = policy.grid()?;
    let on = |span: Span| span.ns() % quantum.ns() == 0;
    let first = |t: &Task| t.arrival.earliest().is_none_or(|first| on(first - Time::ZERO));
    let periods = tasks.iter().all(|t| first(t) && t.arrival.period().is_none_or(on));
    grid_note(name, policy, periods, tasks.iter().all(|t| t.runtime.is_none_or(on)))
}

/// The machine that the tests and the simulator are asked about, with these tasks.
#[must_use]
pub fn machine(cpus: usize, tasks: Vec<Task>) -> System {
    System { tasks, ..System::new(CpuSet::first(cpus), global_edf()) }
}

fn global_edf() -> PolicySpec {
    PolicySpec::new(&edf::ENTRY.profile, Scope::Global)
}

/// The tests of a comma-separated list; `all` is all that are about a machine of so many CPUs. Simulated policies place tasks by
/// `placement`.
///
/// # Errors
/// An unknown name, no name at all, and a placement where no simulated policy has one.
pub fn methods(list: &str, cpus: usize, placement: Option<Placement>) -> Result<Vec<Method>, Error> {
    let mut methods: Vec<Method> = Vec::new();
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        let more = match name {
            "all" => all(cpus),
            _ => vec![method(name)?],
        };
        for method in more {
            if methods.iter().all(|m| m.name() != method.name()) {
                methods.push(method);
            }
        }
    }
    if methods.is_empty() {
        return Err(Error::argument(Code::EmptyValue, "no test is named", hint()));
    }
    if let Some(placement) = placement {
        place(&mut methods, placement)?;
    }
    Ok(methods)
}

/// Has the simulated policies place tasks by this rule.
fn place(methods: &mut [Method], placement: Placement) -> Result<(), Error> {
    for method in &mut *methods {
        if let Method::Simulated(_, policy) = method {
            policy.placement = placement;
        }
    }
    if methods.iter().any(|method| method.placement().is_some()) {
        return Ok(());
    }
    let message = "`--placement` changes nothing: no simulated policy places tasks on CPUs";
    Err(Error::argument(Code::NoEffect, message, "add a test such as `sim:p-edf`, or leave `--placement` out"))
}

/// Tests of one CPU say little about more of them, and the other way round.
fn all(cpus: usize) -> Vec<Method> {
    let fitting = TESTS.iter().filter(|t| t.one_cpu == (cpus == 1) || t.kind == Kind::Necessary).map(Method::Test);
    let global = || Method::Simulated(GLOBAL_EDF.into(), Box::new(global_edf()));
    fitting.chain((cpus > 1).then(global)).collect()
}

fn method(name: &str) -> Result<Method, Error> {
    if name == GLOBAL_EDF {
        return Ok(Method::Simulated(name.into(), Box::new(global_edf())));
    }
    if let Some(policy) = name.strip_prefix(SIMULATED) {
        let policy = takt_workload::policy_from_text(policy)
            .map_err(|e| Error::argument(e.code, &e, "write `sim:` and a policy, as in `sim:g-edf`"))?;
        return Ok(Method::Simulated(name.into(), Box::new(policy)));
    }
    tests::test(name).map(Method::Test).ok_or_else(|| {
        let near = takt_workload::nearest(name, TESTS.iter().map(|test| test.name).chain([GLOBAL_EDF, "all"]));
        let near = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
        Error::argument(Code::UnknownName, format!("there is no test `{name}`{near}"), hint())
    })
}

fn hint() -> String {
    let names: Vec<&str> = TESTS.iter().map(|t| t.name).chain([GLOBAL_EDF]).collect();
    format!("the tests are {}, and `{SIMULATED}` with a policy, or `all`", names.join(", "))
}
