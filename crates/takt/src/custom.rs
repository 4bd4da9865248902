//! A policy that is a value of the calling program.

use crate::error::Error;
use crate::simulation::{SimulateOptions, Simulation, simulate_while};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use takt_core::model::{CpuTest, Invalid, PolicySpec, Profile, Scope, TaskId};
use takt_core::policies::mapping::{MAPPER, Mapper};
use takt_core::policy::{Build, Context, Decision, Entry, Event, Policy};
use takt_core::record::Place;
use takt_core::time::Time;
use takt_workload::Workload;

/// A ready job, as [`Choose`] sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyJob {
    /// The index of its task.
    pub task: usize,
    /// Its number within its task.
    pub job: u64,
    /// Its release time.
    pub release_ns: i64,
    /// Its absolute deadline, if it has one.
    pub deadline_ns: Option<i64>,
    /// The rest of its declared runtime; `None` without one.
    pub remaining_ns: Option<i64>,
    /// The work that it has done.
    pub consumed_ns: i64,
    /// The priority of its task.
    pub priority: i64,
    /// Whether it runs at present.
    pub running: bool,
}

/// A scheduling policy of the calling program.
pub trait Choose: Send {
    /// Chooses the jobs that run from now on, by the indices of their tasks: at most `cpus` of the ready ones, the most urgent first. It is
    /// called whenever something happened. On several CPUs, the three passes of [`takt_core::policies::mapping`] give each job its CPU.
    ///
    /// # Errors
    /// The program's own failure, which ends the simulation ([`Error::Policy`]).
    fn choose(&mut self, now: Time, ready: &[ReadyJob], cpus: usize, chosen: &mut Vec<usize>) -> Result<(), String>;
}

impl<F> Choose for F
where
    F: FnMut(Time, &[ReadyJob], usize, &mut Vec<usize>) + Send,
{
    fn choose(&mut self, now: Time, ready: &[ReadyJob], cpus: usize, chosen: &mut Vec<usize>) -> Result<(), String> {
        self(now, ready, cpus, chosen);
        Ok(())
    }
}

/// The first failure of a policy, and when it happened.
type Failed = Arc<Mutex<Option<(Time, String)>>>;

/// A policy of the program, for the engine that is built next on this thread.
#[derive(Clone)]
struct Given {
    choose: Arc<Mutex<Box<dyn Choose>>>,
    failed: Failed,
}

thread_local! {
    static GIVEN: RefCell<Option<Given>> = const { RefCell::new(None) };
}

static ENTRY: Entry = Entry {
    profile: Profile {
        name: "custom",
        summary: "a policy of the calling program",
        scopes: &[Scope::Uniprocessor, Scope::Global],
        needs: &[],
        facts: &[],
        test: CpuTest::Utilisation,
        settings: &[MAPPER],
    },
    manual: "",
    build,
};

fn build(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    let given = GIVEN.with_borrow(Clone::clone);
    let given =
        given.ok_or(Invalid::Unsuitable("a policy of the program is given to `takt::custom::simulate` alone"))?;
    let n = build.system.tasks.len();
    Ok(Box::new(Custom {
        given,
        tasks: build.tasks.to_vec(),
        ready: Vec::with_capacity(build.tasks.len()),
        chosen: Vec::with_capacity(build.places.len()),
        named: vec![false; n],
        mapper: Mapper::new(build, build.tasks, build.places),
    }))
}

struct Custom {
    given: Given,
    tasks: Vec<TaskId>,
    ready: Vec<ReadyJob>,
    chosen: Vec<usize>,
    /// By task: it is chosen.
    named: Vec<bool>,
    /// Gives the chosen jobs their CPUs, as for a global policy of Takt.
    mapper: Mapper,
}

impl Custom {
    /// Asks the program, and checks its answer.
    fn ask(&mut self, cpus: usize, cx: &Context<'_>) -> Result<(), String> {
        self.ready.clear();
        let ready = self.tasks.iter().filter(|task| cx.is_ready(**task)).filter_map(|&task| {
            let job = cx.job(task)?;
            Some(ReadyJob {
                task: task.index(),
                job: job.number,
                release_ns: job.release.ns(),
                deadline_ns: (job.deadline != Time::MAX).then(|| job.deadline.ns()),
                remaining_ns: cx.remaining(task).map(|left| left.nominal_time().ns()),
                consumed_ns: job.consumed.nominal_time().ns(),
                priority: i64::from(cx.task(task).priority),
                running: cx.place_of(task).is_some(),
            })
        });
        self.ready.extend(ready);
        self.chosen.clear();
        self.named.fill(false);
        if self.ready.is_empty() {
            return Ok(());
        }
        let mut choose = self.given.choose.lock().unwrap_or_else(PoisonError::into_inner);
        choose.choose(cx.now(), &self.ready, cpus, &mut self.chosen)?;
        if self.chosen.len() > cpus {
            return Err(format!("the answer has {} jobs, and there are {cpus} CPUs", self.chosen.len()));
        }
        for &task in &self.chosen {
            if !self.ready.iter().any(|job| job.task == task) {
                return Err(format!("task {task} in the answer has no ready job"));
            }
            if std::mem::replace(&mut self.named[task], true) {
                return Err(format!("task {task} is in the answer twice"));
            }
        }
        Ok(())
    }
}

impl Policy for Custom {
    fn start(&mut self, _: &mut Context<'_>) {}

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        if let Event::Release { task, .. } = *event {
            cx.grant_own(task);
        }
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        let failed = |failed: &Failed| failed.lock().is_ok_and(|failed| failed.is_some());
        if failed(&self.given.failed) {
            return;
        }
        if let Err(why) = self.ask(lent.len(), cx) {
            let mut failed = self.given.failed.lock().unwrap_or_else(PoisonError::into_inner);
            *failed = Some((cx.now(), why));
            return;
        }
        let chosen = self.chosen.iter().map(|task| TaskId(*task as u32));
        self.mapper.map(chosen, lent, cx, decision);
    }
}

/// Simulates a workload under a policy of the calling program, which schedules all tasks. `proceed` is called now and then with the instant
/// reached, and stops the simulation when it returns `false`.
///
/// # Errors
/// As [`simulate`](crate::simulate), and [`Error::Policy`] if the policy fails, or names a job that is not ready.
///
/// ```
/// use takt::custom::{ReadyJob, simulate};
/// let text = "policy: edf\ntasks:\n- {name: a, period: 10ms, runtime: 6ms}\n- {name: b, period: 20ms, runtime: 8ms}\n";
/// let workload = takt::load_text("tasks.yaml", text, &Default::default())?;
/// let mine = |_, ready: &[ReadyJob], _, chosen: &mut Vec<usize>| {
///     chosen.extend(ready.iter().min_by_key(|job| job.deadline_ns).map(|job| job.task));
/// };
/// let simulation = simulate(&workload, Box::new(mine), &Default::default(), |_| true)?;
/// assert_eq!(simulation.result().totals.jobs.met, Some(3));
/// # Ok::<(), takt::Error>(())
/// ```
pub fn simulate(
    workload: &Workload,
    choose: Box<dyn Choose>,
    options: &SimulateOptions,
    mut proceed: impl FnMut(Time) -> bool,
) -> Result<Simulation, Error> {
    let scope = if workload.system.cpus.len() > 1 { Scope::Global } else { Scope::Uniprocessor };
    let registry = options.registry.clone().unwrap_or_else(|| takt_workload::registry().clone()).with(&ENTRY);
    let options = SimulateOptions {
        policy: Some(PolicySpec::new(&ENTRY.profile, scope)),
        registry: Some(registry),
        ..options.clone()
    };
    let failed = Failed::default();
    let given = Given { choose: Arc::new(Mutex::new(choose)), failed: failed.clone() };
    let before = GIVEN.replace(Some(given));
    let of = |failed: &Failed| failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let simulated = simulate_while(workload, &options, |now| proceed(now) && of(&failed).is_none());
    GIVEN.set(before);
    match of(&failed) {
        Some((at, message)) => Err(Error::Policy { at_ns: at.ns(), message }),
        None => simulated,
    }
}
