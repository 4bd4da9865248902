//! The schedulability tests, by name.
//!
//! [`TESTS`] is the list that the command line, the documentation and the experiments walk. Each test says what it can prove and
//! gives a verdict with its ground. Verdicts are computed in whole numbers; where a search would take too long or a test is
//! not made for a set, the verdict is [`Verdict::Unknown`].

pub mod edf;
pub mod fixed_priority;
mod global_edf;
mod global_fp;
mod growth;

use crate::assign::{self, Fit, Placed, Split, Strategy};
use crate::taskset::{TIME_MAX, Task, TaskSet, utilisation};
use crate::verdict::Kind;
use edf::Demand;
use fixed_priority::{Peer, Priorities, Ranked, Response};
use std::fmt::Write;

pub(crate) use fixed_priority::{Above, Search, response};
pub use global_edf::tardiness;
pub(crate) use global_fp::{deadline_analysis, response_times as global_responses};
pub use growth::Growth;

/// Whether a set with deadlines within the periods is within the density bound of `gfb`.
pub(crate) fn gfb_holds(set: &TaskSet, cpus: u64) -> bool {
    global_edf::gfb(&set.tasks, cpus)
}

pub(crate) use takt_core::policies::split::demand::Effort;

/// The result of a test for a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// All deadlines are met.
    Schedulable,
    /// Shown to miss a deadline.
    Unschedulable,
    /// The test cannot show that all deadlines are met.
    NotShown,
    /// The test does not apply to the set, or would take too long.
    Unknown,
}

impl Verdict {
    /// As in a table of results: `1` schedulable, `0` not, or not shown by a sufficient test, or `unknown`.
    #[must_use]
    pub fn cell(self) -> &'static str {
        match self {
            Verdict::Schedulable => "1",
            Verdict::Unschedulable | Verdict::NotShown => "0",
            Verdict::Unknown => "unknown",
        }
    }

    /// In words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Schedulable => "yes",
            Verdict::Unschedulable => "no",
            Verdict::NotShown => "not shown",
            Verdict::Unknown => "unknown",
        }
    }
}

/// The ground of a verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The utilisation is within the bound.
    LoadWithin,
    /// The utilisation is above this number of CPUs.
    Overload(u64),
    /// A utilisation bound is not kept (inconclusive).
    BoundExceeded,
    /// The demand never exceeds the available time.
    DemandWithin,
    /// By this time more is due than there is time.
    Demand {
        /// Since the common release.
        at: u64,
        /// The demand that is due.
        due: u64,
    },
    /// This task's runtime is above its deadline or period.
    TooLong(usize),
    /// Every response is in time; the times or their bounds.
    Responses(Vec<u64>),
    /// This task can respond that late; nothing where its response time takes too long to be searched, but is above its deadline.
    Late(usize, Option<u64>),
    /// The condition holds for every task.
    Condition,
    /// The condition fails for this task.
    Fails(usize),
    /// Every task has its place; so many are split.
    Placed(usize),
    /// There was no place for this task.
    NoPlace(usize),
    /// Nothing speaks against it.
    Nothing,
    /// The search would take too long, or its numbers grow too large.
    Search,
    /// The test is not made for this.
    Beyond(&'static str),
}

impl Why {
    /// In words; `name` names the task at a position.
    #[must_use]
    pub fn text(&self, set: &TaskSet, name: &dyn Fn(usize) -> String) -> String {
        match self {
            Why::LoadWithin => "the utilisation is within the bound".into(),
            Why::Overload(1) => "the utilisation is above 1".into(),
            Why::Overload(cpus) => format!("the utilisation is above {cpus}"),
            Why::BoundExceeded => "the bound is exceeded (inconclusive)".into(),
            Why::DemandWithin => "the demand never exceeds the available time".into(),
            Why::Demand { at, due } => format!("by {}, {} of work are due", set.span(*at), set.span(*due)),
            Why::TooLong(task) => format!("{} needs more than its deadline or period allows", name(*task)),
            Why::Responses(times) => {
                let margin = |i: &usize| i128::from(set.tasks[*i].deadline) - i128::from(times[*i]);
                let Some(tightest) = (0..times.len()).min_by_key(margin) else { return String::new() };
                let mut text = format!("{} responds within {}", name(tightest), set.span(times[tightest]));
                if times.len() > 1 {
                    let _ = write!(text, ", and the other tasks have more slack");
                }
                text
            }
            Why::Late(task, Some(response)) => {
                format!("{} can respond as late as {}", name(*task), set.span(*response))
            }
            Why::Late(task, None) => {
                format!("{} can respond later than {}", name(*task), set.span(set.tasks[*task].deadline))
            }
            Why::Condition => "the condition holds for every task".into(),
            Why::Fails(task) => format!("the condition fails for {} (inconclusive)", name(*task)),
            Why::Placed(0) => "every task has a CPU".into(),
            Why::Placed(1) => "every task has its place, one of them in pieces".into(),
            Why::Placed(n) => format!("every task has its place, {n} of them in pieces"),
            Why::NoPlace(task) => format!("no place was found for {}", name(*task)),
            Why::Nothing => "no more work than CPUs and no job too long (inconclusive)".into(),
            Why::Search => "gave up: the search takes too long, or its numbers grow too large".into(),
            Why::Beyond(what) => (*what).into(),
        }
    }
}

/// A verdict and its ground.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// Its ground.
    pub why: Why,
}

fn found(verdict: Verdict, why: Why) -> Finding {
    Finding { verdict, why }
}

/// A schedulability test.
pub struct Test {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// The strength of its proof, for tasks released together.
    pub kind: Kind,
    /// Whether it is about one CPU; on several it says nothing.
    pub one_cpu: bool,
    /// The scheduler that it is about and the method.
    pub title: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    method: Method,
}

enum Method {
    Plain(fn(&TaskSet, u64) -> Finding),
    /// Processor demand of EDF on one CPU.
    Demand,
    /// Response times on one CPU; the lower this, the more important.
    Ranked(fn(&Task) -> u64),
    Assign(Strategy),
}

impl Test {
    /// Tests a set on so many CPUs.
    ///
    /// # Panics
    /// When there is no CPU.
    #[must_use]
    pub fn run(&self, set: &TaskSet, cpus: usize) -> Finding {
        assert!(cpus > 0, "a machine has a CPU");
        if let Some(why) = set.beyond {
            return found(Verdict::Unknown, Why::Beyond(why));
        }
        if self.one_cpu && cpus > 1 {
            return found(Verdict::Unknown, Why::Beyond("the test is about one CPU"));
        }
        let finding = match self.method {
            Method::Plain(run) => run(set, cpus as u64),
            Method::Demand => edf_exact(set),
            Method::Ranked(key) => rta(set, &set.priorities(key)),
            Method::Assign(strategy) => placed(set, cpus, strategy),
        };
        // Tasks that are never released together may get along where the worst case would not.
        let relies = matches!(finding.why, Why::Demand { .. } | Why::Late(..));
        let unproven = set.lighter || relies && self.kind_for(set) != Kind::Exact;
        if finding.verdict == Verdict::Unschedulable && unproven {
            let verdict = if self.kind == Kind::Necessary { Verdict::Unknown } else { Verdict::NotShown };
            return found(verdict, finding.why);
        }
        finding
    }

    /// How a partitioned or semi-partitioned test assigns tasks.
    #[must_use]
    pub fn strategy(&self) -> Option<Strategy> {
        match self.method {
            Method::Plain(_) | Method::Demand | Method::Ranked(_) => None,
            Method::Assign(strategy) => Some(strategy),
        }
    }

    /// The strength of its proof about this set. Exact is a test whose `no` means that some releases which may happen lead to a miss.
    #[must_use]
    pub fn kind_for(&self, set: &TaskSet) -> Kind {
        let proves = match self.method {
            // With deadlines at the ends of the periods or later only the utilisation counts, whenever jobs come.
            Method::Demand => set.can_meet() || set.tasks.iter().all(|t| t.deadline >= t.period),
            Method::Ranked(key) => set.can_meet() && set.priorities(key).is_settled(),
            Method::Plain(_) | Method::Assign(_) => return self.kind,
        };
        if proves && !set.lighter { Kind::Exact } else { Kind::Sufficient }
    }
}

/// The test of this name.
#[must_use]
pub fn test(name: &str) -> Option<&'static Test> {
    TESTS.iter().find(|t| t.name == name)
}

/// A test of one CPU that is exact for tasks released together.
const fn exact(name: &'static str, title: &'static str, paper: &'static str, method: Method) -> Test {
    Test { name, kind: Kind::Exact, one_cpu: true, title, paper, method }
}

/// A utilisation bound for one CPU.
const fn one(name: &'static str, title: &'static str, paper: &'static str, run: fn(&TaskSet, u64) -> Finding) -> Test {
    Test { name, kind: Kind::Sufficient, one_cpu: true, title, paper, method: Method::Plain(run) }
}

const fn many(
    name: &'static str,
    kind: Kind,
    title: &'static str,
    paper: &'static str,
    run: fn(&TaskSet, u64) -> Finding,
) -> Test {
    Test { name, kind, one_cpu: false, title, paper, method: Method::Plain(run) }
}

/// A partitioned or semi-partitioned test.
const fn place(
    name: &'static str,
    title: &'static str,
    paper: &'static str,
    fit: Fit,
    decreasing: bool,
    split: Split,
) -> Test {
    let strategy = Strategy { fit, decreasing, split };
    Test { name, kind: Kind::Sufficient, one_cpu: false, title, paper, method: Method::Assign(strategy) }
}

const WM: &str = "Kato, Yamasaki, Ishikawa, ECRTS 2009; Kato, Rajkumar, Ishikawa (AIRS), ECRTS 2010";
const CEQD: &str = "Burns, Davis, Wang, Zhang, Real-Time Systems 48, 2012";

/// All tests.
pub static TESTS: &[Test] = &[
    many("necessary", Kind::Necessary, "any scheduler: no more work than CPUs, no job too long", "", necessary),
    exact("edf", "EDF: processor demand, by QPA", "Zhang, Burns, IEEE TC 58(9), 2009", Method::Demand),
    one("ll", "rate-monotonic: utilisation bound", "Liu, Layland, JACM 20(1), 1973", liu_layland),
    one("hyperbolic", "rate-monotonic: hyperbolic bound", "Bini, Buttazzo, Buttazzo, IEEE TC 52(7), 2003", hyperbolic),
    exact(
        "rm-rta",
        "rate-monotonic: response times",
        "Joseph, Pandya, Computer Journal 29(5), 1986; Lehoczky, RTSS 1990",
        Method::Ranked(|t| t.period),
    ),
    exact(
        "dm-rta",
        "deadline-monotonic: response times",
        "Joseph, Pandya, Computer Journal 29(5), 1986; Lehoczky, RTSS 1990",
        Method::Ranked(|t| t.deadline),
    ),
    many(
        "gfb",
        Kind::Sufficient,
        "global EDF: density bound",
        "Goossens, Funk, Baruah, Real-Time Systems 25, 2003",
        gfb,
    ),
    many("bcl", Kind::Sufficient, "global EDF: interference", "Bertogna, Cirinei, Lipari, ECRTS 2005", |set, cpus| {
        per_task(set, cpus, global_edf::bcl)
    }),
    many("bak", Kind::Sufficient, "global EDF: busy interval", "Baker, RTSS 2003", |set, cpus| {
        per_task(set, cpus, global_edf::bak)
    }),
    many("gedf-rta", Kind::Sufficient, "global EDF: response times", "Bertogna, Cirinei, RTSS 2007", |set, cpus| {
        bounds(set, |tasks| global_edf::response_times(tasks, cpus))
    }),
    many(
        "grm-rta",
        Kind::Sufficient,
        "global rate-monotonic: response times",
        "Bertogna, Cirinei, RTSS 2007",
        |set, cpus| bounds(set, |tasks| global_fp::response_times(tasks, &tied(tasks, |t| t.period), cpus)),
    ),
    many(
        "gdm-rta",
        Kind::Sufficient,
        "global deadline-monotonic: response times",
        "Bertogna, Cirinei, RTSS 2007",
        |set, cpus| bounds(set, |tasks| global_fp::response_times(tasks, &tied(tasks, |t| t.deadline), cpus)),
    ),
    place("ff", "partitioned EDF: first fit", "", Fit::First, false, Split::Never),
    place("wf", "partitioned EDF: worst fit", "", Fit::Worst, false, Split::Never),
    place("bf", "partitioned EDF: best fit", "", Fit::Best, false, Split::Never),
    place("ffd", "partitioned EDF: first fit, decreasing", "", Fit::First, true, Split::Never),
    place("wfd", "partitioned EDF: worst fit, decreasing", "", Fit::Worst, true, Split::Never),
    place("bfd", "partitioned EDF: best fit, decreasing", "", Fit::Best, true, Split::Never),
    place("wm_ff", "semi-partitioned EDF-WM: first fit", WM, Fit::First, false, Split::Windows),
    place("wm_wf", "semi-partitioned EDF-WM: worst fit", WM, Fit::Worst, false, Split::Windows),
    place("wm_ffd", "semi-partitioned EDF-WM: first fit, decreasing", WM, Fit::First, true, Split::Windows),
    place("ceqd_ff", "semi-partitioned C=D: first fit", CEQD, Fit::First, false, Split::Tight),
    place("ceqd_ffd", "semi-partitioned C=D: first fit, decreasing", CEQD, Fit::First, true, Split::Tight),
];

/// A necessary condition for every scheduler.
fn impossible(set: &TaskSet, cpus: u64) -> Option<Finding> {
    if let Some(task) = set.tasks.iter().position(|t| t.runtime > t.deadline) {
        return Some(found(Verdict::Unschedulable, Why::TooLong(task)));
    }
    // One job of a task at a time: two CPUs do not help a task that needs more than one.
    if let Some(task) = set.tasks.iter().position(|t| t.runtime > t.period) {
        return Some(found(Verdict::Unschedulable, Why::TooLong(task)));
    }
    let over = utilisation(&set.tasks).compare_whole(u128::from(cpus)).is_gt();
    over.then(|| found(Verdict::Unschedulable, Why::Overload(cpus)))
}

fn necessary(set: &TaskSet, cpus: u64) -> Finding {
    impossible(set, cpus).unwrap_or(found(Verdict::Unknown, Why::Nothing))
}

fn edf_exact(set: &TaskSet) -> Finding {
    match edf::demand(&set.tasks) {
        Demand::Within => found(Verdict::Schedulable, Why::DemandWithin),
        Demand::Above { at, due } => found(Verdict::Unschedulable, Why::Demand { at, due }),
        Demand::Overload => found(Verdict::Unschedulable, Why::Overload(1)),
        Demand::Unknown => found(Verdict::Unknown, Why::Search),
    }
}

const EARLY: &str = "a deadline is before the end of the period";
const BEYOND: &str = "a deadline is beyond the period";

/// A verdict of a bound that holds for deadlines at the end of the period or later.
fn bound(set: &TaskSet, holds: impl Fn(&[Task]) -> Option<bool>) -> Finding {
    if set.tasks.iter().any(|t| t.deadline < t.period) {
        return found(Verdict::Unknown, Why::Beyond(EARLY));
    }
    match holds(&set.tasks) {
        Some(true) => found(Verdict::Schedulable, Why::LoadWithin),
        Some(false) => impossible(set, 1).unwrap_or(found(Verdict::NotShown, Why::BoundExceeded)),
        None => found(Verdict::Unknown, Why::Search),
    }
}

fn liu_layland(set: &TaskSet, _: u64) -> Finding {
    bound(set, fixed_priority::liu_layland)
}

fn hyperbolic(set: &TaskSet, _: u64) -> Finding {
    bound(set, fixed_priority::hyperbolic)
}

/// Priorities among which equals wait for each other, in any order of release.
fn tied(tasks: &[Task], key: fn(&Task) -> u64) -> Priorities {
    Priorities::by_key(tasks.len(), |i| key(&tasks[i]), |_| Peer::default())
}

fn rta(set: &TaskSet, priorities: &Priorities) -> Finding {
    if let Some(no) = impossible(set, 1) {
        return no;
    }
    let found_all = fixed_priority::responses(Ranked { times: &set.tasks, priorities, jitter: &[], blocking: &[] });
    let order = || priorities.order().iter().map(|&i| (i, found_all[i]));
    let late = order().find_map(|(i, r)| match r {
        Response::Late(response) => Some((i, response)),
        Response::Endless => Some((i, None)),
        _ => None,
    });
    if let Some((task, response)) = late {
        return found(Verdict::Unschedulable, Why::Late(task, response));
    }
    let within = |r: &Response| if let Response::Within(time) = *r { Some(time) } else { None };
    match found_all.iter().map(within).collect() {
        Some(times) => found(Verdict::Schedulable, Why::Responses(times)),
        None => found(Verdict::Unknown, Why::Search),
    }
}

fn gfb(set: &TaskSet, cpus: u64) -> Finding {
    if !set.is_constrained() {
        return found(Verdict::Unknown, Why::Beyond(BEYOND));
    }
    match global_edf::gfb(&set.tasks, cpus) {
        true => found(Verdict::Schedulable, Why::LoadWithin),
        false => impossible(set, cpus).unwrap_or(found(Verdict::NotShown, Why::BoundExceeded)),
    }
}

/// Limits of the tests of global policies: deadlines beyond the periods, and runtimes beyond the deadlines, with which
/// their conditions mean nothing.
fn beyond_global_tests(set: &TaskSet) -> Option<Finding> {
    if !set.is_constrained() {
        return Some(found(Verdict::Unknown, Why::Beyond(BEYOND)));
    }
    let task = set.tasks.iter().position(|t| t.runtime > t.deadline)?;
    Some(found(Verdict::NotShown, Why::Fails(task)))
}

/// The verdict of a test that goes from task to task.
fn per_task(set: &TaskSet, cpus: u64, run: fn(&[Task], u64) -> Result<(), Option<usize>>) -> Finding {
    if let Some(no) = beyond_global_tests(set) {
        return no;
    }
    match run(&set.tasks, cpus) {
        Ok(()) => found(Verdict::Schedulable, Why::Condition),
        Err(Some(task)) => found(Verdict::NotShown, Why::Fails(task)),
        Err(None) => found(Verdict::Unknown, Why::Search),
    }
}

/// The verdict of a test that bounds response times.
///
/// These tests count in the least unit of time, and would be a little too generous in a coarser one: releases and the ends of
/// jobs need not keep to it. So they are carried out in nanoseconds, and the bounds rounded up.
fn bounds(set: &TaskSet, run: impl Fn(&[Task]) -> Result<Vec<u64>, Option<usize>>) -> Finding {
    if let Some(no) = beyond_global_tests(set) {
        return no;
    }
    let unit = set.unit.ns().unsigned_abs().max(1);
    let fine = |time: u64| time.checked_mul(unit).filter(|t| *t <= TIME_MAX);
    let finely =
        |t: &Task| Some(Task { runtime: fine(t.runtime)?, deadline: fine(t.deadline)?, period: fine(t.period)? });
    let Some(tasks) = set.tasks.iter().map(finely).collect::<Option<Vec<Task>>>() else {
        return found(Verdict::Unknown, Why::Search);
    };
    match run(&tasks) {
        Ok(times) => {
            let times = times.into_iter().map(|time| time.div_ceil(unit)).collect();
            found(Verdict::Schedulable, Why::Responses(times))
        }
        Err(Some(task)) => found(Verdict::NotShown, Why::Fails(task)),
        Err(None) => found(Verdict::Unknown, Why::Search),
    }
}

fn placed(set: &TaskSet, cpus: usize, strategy: Strategy) -> Finding {
    match assign::assign(&set.tasks, cpus, strategy) {
        Placed::All(assignment) => found(Verdict::Schedulable, Why::Placed(assignment.split.len())),
        Placed::Rejected(task) => impossible(set, cpus as u64).unwrap_or(found(Verdict::NotShown, Why::NoPlace(task))),
        Placed::Unknown(_) => found(Verdict::Unknown, Why::Search),
    }
}
