//! Random systems and random inputs. Times are few and small so that things coincide often.

use crate::subject::specs;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Engine, Input};
use takt_core::model::*;
use takt_core::model::{Kind as Value, MAX_SETTINGS, Need, Placement, PolicySpec, Scope};
use takt_core::policies::mapping::MAPPERS;
use takt_core::time::Span;
use takt_core::utility::{self, Utility};
use takt_core::work::Work;
use takt_sim::Step;

const RESOURCES: u16 = 3;

/// All times are multiples of this many nanoseconds, so that the shortest durations that settings allow matter.
const UNIT: i64 = 250;

/// A system, what the driver does, and perhaps a switch of policies before one of its turns.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) system: System,
    pub(crate) turns: Vec<Turn>,
    pub(crate) switch: Option<(usize, PolicySpec)>,
    end_gap: i64,
}

/// One step of the driver, described without knowing the engine's state.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    when: When,
    inputs: Vec<(Kind, usize, u16, i64)>,
}

#[derive(Clone, Copy, Debug)]
enum When {
    /// When the engine is due.
    Due,
    /// So long after the previous step, but not after the engine is due.
    Early(i64),
    /// So long after the engine was due.
    Late(i64),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// A running task completes.
    Complete,
    /// Any task claims to be complete, in its turn or not.
    Claim,
    Block,
    Wake,
    Abort,
    /// A task's coming and going, at most one in a turn.
    Exit,
    Leave,
    Enter,
    Release,
    Terms,
    Usage,
    Request,
    Withdraw,
    Return,
    Yield,
    Skew,
    Share,
    Retime,
    Call,
    Configure,
    /// The system or a domain has another policy, or one that does not suit it.
    Switch,
}

impl Case {
    /// Whether consumption is measured anywhere; budgets are then not elapsed time.
    pub(crate) fn metered(&self) -> bool {
        self.turns.iter().any(|t| t.inputs.iter().any(|i| i.0 == Kind::Usage))
    }
    /// The most by which budgets end later than planned because of inputs.
    pub(crate) fn skew(&self) -> Span {
        let skews = self.turns.iter().flat_map(|t| &t.inputs).filter(|i| i.0 == Kind::Skew).map(|i| i.3);
        units(skews.max().unwrap_or(0).max(0))
    }
    /// The end of the run: some running jobs complete then.
    pub(crate) fn last(&self, engine: &Engine) -> Step {
        let running = engine.running().iter().filter(|t| (i64::from(t.0) + self.end_gap) % 3 == 0);
        let inputs = running.map(|&task| complete(engine, task)).collect();
        Step { now: engine.now() + units(self.end_gap), inputs }
    }
}

impl Turn {
    /// The turn as a step of this engine.
    pub(crate) fn step(&self, engine: &Engine) -> Step {
        let far = engine.now() + units(5);
        let due = engine.next_due().unwrap_or(far).max(engine.now());
        let now = match self.when {
            When::Due => due,
            When::Early(gap) => due.min(engine.now() + units(gap)),
            When::Late(gap) => due + units(gap),
        };
        let count = engine.system().tasks.len();
        let settings = engine.system().policy.profile.settings;
        let mut inputs: Vec<Input> = Vec::new();
        for &(kind, which, resource, amount) in &self.inputs {
            let any = TaskId((which % count) as u32);
            let running = engine.running();
            let task = if running.is_empty() { any } else { running[which % running.len()] };
            let resource = ResourceId(resource);
            inputs.push(match kind {
                Kind::Complete => complete(engine, task),
                Kind::Claim => complete(engine, any),
                Kind::Block => Input::Block { task },
                Kind::Wake => Input::Wake { task: any },
                Kind::Abort => Input::Abort { task: any },
                Kind::Exit => Input::Exit { task: any, ending: Ending { regular: true, replaced: false } },
                Kind::Leave => Input::Leave { task: any },
                Kind::Enter => Input::Enter { task: any },
                Kind::Release => Input::Release { task: any },
                Kind::Terms => {
                    let described = &engine.system().tasks[any.index()];
                    let deadline = described.deadline.map(|_| units(amount + 5));
                    let runtime = described.runtime.map(|_| units(1 + (amount + 4) / 2));
                    Input::Terms { task: any, deadline, runtime, utility: (amount + 4) as u64 * utility::UNIT }
                }
                Kind::Usage => {
                    let consumed = engine.job(task).map_or(Span::ZERO, |j| j.consumed.nominal_time());
                    Input::Usage { task, consumed: Work::nominal(consumed - units(1).min(consumed)) }
                }
                Kind::Request => Input::Lock { task, resource },
                Kind::Withdraw => withdraw(engine, which, any, resource),
                Kind::Return => Input::Unlock { task, resource },
                Kind::Yield => Input::Yield { task },
                Kind::Skew => Input::Skew { task, by: units(amount) },
                Kind::Share => {
                    let share = (amount > -3).then(|| (amount + 3) as u32 * 150_000);
                    Input::Share { task: any, share, importance: amount.unsigned_abs() as u32 + 1 }
                }
                Kind::Retime => {
                    // Settings that the policy requires stay there.
                    let described = &engine.system().tasks[any.index()];
                    let period = units(2 + 4 * (amount + 4) / 2 + i64::from(resource.0));
                    let deadline = described.deadline.map(|_| units(amount + 5));
                    let runtime = described.runtime.map(|_| units(1 + (amount + 4) / 2));
                    Input::Retime { task: any, period, deadline, runtime }
                }
                Kind::Call => {
                    let span = units((amount + 4).max(0) + 1);
                    let call = match resource.0 {
                        0 => Call::Period(span + units(2)),
                        1 => Call::Deadline(span + units(2)),
                        _ => Call::Runtime(span),
                    };
                    Input::Call { task, call }
                }
                Kind::Configure if settings.is_empty() => Input::Wake { task: any },
                Kind::Configure => {
                    let setting = which % settings.len();
                    let value = (amount != 0).then(|| value(settings[setting].kind, amount));
                    Input::Configure { setting: setting as u8, value }
                }
                Kind::Switch if engine.system().alternatives.is_empty() => Input::Wake { task: any },
                Kind::Switch => {
                    // There is one domain too few for some, and one alternative.
                    let (domains, others) = (engine.system().domains.len(), engine.system().alternatives.len());
                    let domain = (domains > 0 && resource.0 > 0).then(|| (which % (domains + 1)) as u16);
                    Input::Switch { domain, to: (amount + 4) as u16 % (others as u16 + 1) }
                }
            });
        }
        let comes_or_goes = |i: &Input| matches!(i, Input::Exit { .. } | Input::Leave { .. } | Input::Enter { .. });
        let mut once = false;
        inputs.retain(|i| !comes_or_goes(i) || !core::mem::replace(&mut once, true));
        // Facts from inputs come before the ends of jobs.
        let rank = |i: &Input| match i {
            Input::Usage { .. } => 0,
            Input::Retime { .. } | Input::Terms { .. } | Input::Release { .. } => 1,
            i if comes_or_goes(i) => 2,
            Input::Switch { .. } => 3,
            _ => 4,
        };
        inputs.sort_by_key(rank);
        Step { now, inputs }
    }
}

/// The program signals that it has done what it is at; one that is at nothing claims the last job.
fn complete(engine: &Engine, task: TaskId) -> Input {
    let job = engine.at(task).or(engine.job(task).map(|job| job.number)).unwrap_or(0);
    Input::Complete { task, job }
}

/// A request is withdrawn, if a task waits for something; otherwise one that was never made.
fn withdraw(engine: &Engine, which: usize, any: TaskId, resource: ResourceId) -> Input {
    let tasks = (0..engine.system().tasks.len()).map(|t| TaskId(t as u32));
    let waiting: Vec<(TaskId, ResourceId)> = tasks.filter_map(|task| Some((task, engine.waits_for(task)?))).collect();
    let request = waiting.get(which % waiting.len().max(1)).copied();
    let (task, resource) = request.unwrap_or((any, resource));
    Input::Withdraw { task, resource }
}

/// The ends of all jobs: all that run complete, and all that are blocked but wait for nothing are woken.
pub(crate) fn draining(engine: &Engine) -> Vec<Input> {
    let tasks = (0..engine.system().tasks.len()).map(|t| TaskId(t as u32));
    let blocked = |t: &TaskId| engine.job(*t).is_some_and(|job| !job.ready) && !engine.waits(*t);
    let woken = tasks.filter(blocked).map(|task| Input::Wake { task });
    woken.chain(engine.running().iter().map(|&task| complete(engine, task))).collect()
}

/// A value that a setting allows; small durations, so that they matter.
fn value(kind: Value, n: i64) -> i64 {
    match kind {
        Value::Duration(least, most) => (UNIT * (n.rem_euclid(9) + 1)).clamp(least.ns(), most.ns()),
        Value::Ratio(least, most) => least + (most - least) / 4 * n.rem_euclid(5),
        Value::Count(least, most) => (least + n.rem_euclid(4)).min(most),
        Value::Choice(words) => n.rem_euclid(words.len() as i64),
    }
}

/// With `tangled` jobs rather ask for resources than complete, so that many wait for each other when policies are switched.
fn turns(late: bool, tangled: bool) -> impl Strategy<Value = Vec<Turn>> {
    let [complete, request, give_back, switch] = if tangled { [8, 24, 3, 6] } else { [24, 10, 8, 1] };
    let lateness = if late { 1 } else { 0 };
    let when = prop_oneof![
        6 => Just(When::Due),
        4 => (0i64..6).prop_map(When::Early),
        lateness => (1i64..25).prop_map(When::Late),
    ];
    let kind = prop_oneof![
        complete => Just(Kind::Complete),
        4 => Just(Kind::Claim),
        5 => Just(Kind::Block),
        12 => Just(Kind::Wake),
        3 => Just(Kind::Abort),
        1 => Just(Kind::Exit),
        1 => Just(Kind::Leave),
        2 => Just(Kind::Enter),
        5 => Just(Kind::Release),
        2 => Just(Kind::Terms),
        1 => Just(Kind::Usage),
        request => Just(Kind::Request),
        give_back => Just(Kind::Return),
        4 => Just(Kind::Withdraw),
        3 => Just(Kind::Yield),
        1 => Just(Kind::Skew),
        1 => Just(Kind::Share),
        3 => Just(Kind::Retime),
        3 => Just(Kind::Call),
        1 => Just(Kind::Configure),
        switch => Just(Kind::Switch),
    ];
    let input = (kind, 0usize..64, 0..RESOURCES, -4i64..5);
    let inputs = prop_oneof![3 => Just(vec![]), 3 => vec(input, 1..4)];
    vec((when, inputs).prop_map(|(when, inputs)| Turn { when, inputs }), 1..90)
}

fn units(n: i64) -> Span {
    Span::from_ns(UNIT * n)
}

fn span(range: std::ops::Range<i64>) -> impl Strategy<Value = Span> {
    range.prop_map(units)
}

fn some_cpus(cpus: usize) -> impl Strategy<Value = CpuSet> {
    prop_oneof![
        2 => Just(CpuSet::first(cpus)),
        1 => vec(0..cpus, 1..=cpus).prop_map(|list| list.into_iter().collect()),
    ]
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let listed = vec(span(0..40), 0..8).prop_map(|mut instants| {
        instants.sort_unstable();
        Arrival::Listed { instants }
    });
    prop_oneof![
        5 => (span(0..9), span(2..20)).prop_map(|(offset, period)| Arrival::Periodic { offset, period }),
        2 => (span(0..9), span(2..15), span(0..9))
            .prop_map(|(offset, period, spread)| Arrival::Sporadic { offset, period, spread }),
        1 => listed,
        1 => (span(0..12), 1u32..4, weighted(0.5, Just(TaskId(0))))
            .prop_map(|(distance, queue, after)| Arrival::Event { distance, queue, after }),
    ]
}

/// The resources that a task says it uses; the driver has it ask for any.
fn steps() -> impl Strategy<Value = Vec<takt_core::model::Step>> {
    use takt_core::model::Step;
    weighted(0.5, vec(any::<bool>(), usize::from(RESOURCES))).prop_map(|uses| {
        let used = uses.into_iter().flatten().enumerate().filter(|(_, uses)| *uses);
        let lock =
            |r: usize| [Step::Lock(ResourceId(r as u16)), Step::Run(units(1)), Step::Unlock(ResourceId(r as u16))];
        used.flat_map(|(r, _)| lock(r)).collect()
    })
}

/// Every kind of time-utility function; heights are small, so that densities are equal often, and may be nothing.
fn time_utility() -> impl Strategy<Value = Utility> {
    let height = || (0u64..6).prop_map(|h| h * utility::UNIT);
    let points = vec((span(0..30), height()), 1..5).prop_map(|mut points| {
        points.sort_by_key(|(at, _)| *at);
        Utility::Table(points)
    });
    prop_oneof![
        4 => height().prop_map(Utility::Step),
        1 => (height(), weighted(0.5, span(1..30))).prop_map(|(height, until)| Utility::Linear { height, until }),
        1 => (height(), span(1..20)).prop_map(|(height, half_life)| Utility::Exponential { height, half_life }),
        1 => points,
    ]
}

/// A task whose jobs the engine releases.
fn timed(cpus: usize) -> impl Strategy<Value = Task> {
    let times = (
        arrival(),
        weighted(0.9, span(1..25)),
        weighted(0.8, span(1..6)),
        weighted(0.3, (span(1..8), weighted(0.3, 0i64..2000))),
    );
    let handler = weighted(0.4, (span(1..4), weighted(0.7, span(1..9)), 0..4 * utility::UNIT));
    let rest = (0u32..4, some_cpus(cpus), steps(), weighted(0.3, 1u32..1_000_000), 1u32..4);
    let worth = (weighted(0.6, time_utility()), any::<prop::sample::Index>());
    (times, handler, worth, rest).prop_map(|((arrival, deadline, runtime, budget), handler, worth, rest)| {
        let (utility, rule) = worth;
        let on_abort = *rule.get(&[OnAbort::Restart, OnAbort::Finish, OnAbort::Signal]);
        let (priority, affinity, steps, share, importance) = rest;
        let handler = handler.map(|(runtime, deadline, utility)| Handler { runtime, deadline, utility });
        // In thousandths of the budget.
        let jitter = budget.and_then(|(b, j)| Some(b * j? / 1000)).unwrap_or(Span::ZERO);
        let budget = budget.map(|(b, _)| b);
        #[rustfmt::skip]
        let task = Task {
            arrival, deadline, runtime, program: Program::doing(steps), handler, utility, budget, jitter, priority, share, importance, affinity,
            reservation: None, server: None, on_abort, completion: Completion::Undeclared,
        };
        task
    })
}

fn process(cpus: usize) -> impl Strategy<Value = Task> {
    (1i64..9, 0.0..1.0f64, any::<bool>()).prop_map(move |(budget, share, jitter)| Task {
        budget: Some(units(budget)),
        jitter: Span::from_ns(if jitter { (2.0 * (budget * UNIT) as f64 * share).round() as i64 } else { 0 }),
        affinity: CpuSet::first(cpus),
        ..Task::default()
    })
}

/// Gives the tasks what the policy needs of each on these CPUs.
fn provide(spec: PolicySpec, tasks: &mut [Task], cpus: CpuSet) {
    for task in tasks {
        for need in spec.profile.needs {
            match need {
                Need::Period if task.arrival.period().is_none() => {
                    task.arrival = Arrival::Periodic { offset: units(1), period: units(7) };
                }
                Need::Period => {}
                Need::Deadline => task.deadline = task.deadline.or(Some(units(11))),
                Need::Runtime => task.runtime = task.runtime.or(Some(units(2))),
                Need::Reservation => {
                    // One in three that could do without has one.
                    let enough = task.runtime.is_some() && task.arrival.period().is_some() && task.priority > 0;
                    let (budget, period) = (units(1 + i64::from(task.importance)), units(7));
                    task.reservation = (!enough).then_some(Reservation::new(budget, period));
                    task.server = None;
                }
                Need::Utility => {
                    let worth = || Utility::Step(u64::from(1 + task.priority * 3) * utility::UNIT);
                    task.utility = task.utility.take().or_else(|| Some(worth()));
                }
            }
        }
        // Servers for aperiodic work need no task to serve.
        if spec.servers().is_some() && task.importance > 1 && task.server.is_none() {
            let budget = units(i64::from(task.importance));
            task.reservation = task.reservation.or(Some(Reservation::new(budget, units(6 + i64::from(task.priority)))));
        }
        let everywhere = ["llref", "pd2"].contains(&spec.profile.name);
        let homes = matches!(spec.scope, Scope::Partitioned | Scope::Clustered);
        if everywhere || (homes && task.affinity.is_disjoint(&cpus)) {
            task.affinity = task.affinity.union(&cpus);
        }
    }
}

/// Gives reservations deadlines of their own where every policy that goes by reservations knows them.
fn constrain(specs: &[PolicySpec], system: &mut System) {
    let reserves = |spec: &PolicySpec| spec.servers().is_some() || spec.profile.needs.contains(&Need::Reservation);
    if specs.iter().all(|spec| spec.profile.name == "cbs" || !reserves(spec)) {
        for task in system.tasks.iter_mut().filter(|task| task.importance > 1) {
            let within = |r: Reservation| r.budget + (r.period - r.budget) / i64::from(task.importance);
            task.reservation = task.reservation.map(|r| Reservation { deadline: Some(within(r)), ..r });
        }
    }
}

/// Has tasks that have a reservation, if not all of them do, share one server where policies have such.
fn share(specs: &[PolicySpec], system: &mut System) {
    let serves = |spec: &PolicySpec| spec.servers().is_some();
    let relies = |spec: &PolicySpec| spec.profile.needs.contains(&Need::Reservation);
    if !specs.iter().any(serves) || specs.iter().any(relies) {
        return;
    }
    let cpus = system.cpus;
    for task in system.tasks.iter_mut().filter(|task| task.share.is_none()) {
        let Some(reservation) = task.reservation.take() else { continue };
        if system.servers.is_empty() {
            system.servers.push(Server { reservation, priority: task.priority });
        }
        task.server = Some(ServerId(0));
        task.affinity = task.affinity.union(&cpus);
    }
}

/// The policy with some of its settings set, with which it may refuse a system.
fn tuned(spec: PolicySpec) -> impl Strategy<Value = PolicySpec> {
    let values = vec(weighted(0.5, -4i64..5), MAX_SETTINGS);
    let mapper = 0..MAPPERS.len() as u8;
    (values, 1u16..4, mapper, select(&Placement::ALL[..])).prop_map(move |(values, cluster, mapper, placement)| {
        let mut spec = PolicySpec { cluster, mapper, placement: placement.1, ..plain(spec) };
        for ((index, setting), n) in spec.profile.settings.iter().enumerate().zip(values) {
            if let Some(n) = n {
                spec.values.set(index, Some(value(setting.kind, n)));
            }
        }
        spec
    })
}

/// The policy with short durations: it takes every system that meets its needs.
fn plain(mut spec: PolicySpec) -> PolicySpec {
    for (index, setting) in spec.profile.settings.iter().enumerate() {
        spec.values.set(index, matches!(setting.kind, Value::Duration(..)).then(|| value(setting.kind, 0)));
    }
    spec
}

/// The system itself if its policies take it, or with plain settings.
fn accepted(mut system: System) -> System {
    if let Some(Arrival::Event { after, .. }) = system.tasks.first_mut().map(|task| &mut task.arrival) {
        *after = None;
    }
    if system.backlog == Backlog::Hartstone {
        for task in system.tasks.iter_mut().filter(|task| matches!(task.arrival, Arrival::Event { .. })) {
            task.arrival = Arrival::Periodic { offset: units(1), period: units(7) };
        }
    }
    if crate::subject::engine(system.clone()).is_err() {
        system.policy = plain(system.policy);
        for guest in system.partitions.iter_mut().filter_map(|p| p.policy.as_mut()) {
            *guest = plain(*guest);
        }
        system.domains.iter_mut().for_each(|domain| domain.policy = plain(domain.policy));
    }
    system
}

/// Everything about a system but its tasks.
fn frame(spec: PolicySpec) -> impl Strategy<Value = System> {
    let rules = (
        select(&[Late::Continue, Late::Abort, Late::AbortAtEvent][..]),
        select(&[Backlog::Queue, Backlog::Skip, Backlog::Chronos, Backlog::Hartstone][..]),
        select(&[BestEffortStart::AllDone, BestEffortStart::SliceDone][..]),
        select(&[Locking::Fifo, Locking::Inheritance, Locking::Ceiling][..]),
    );
    // A tick is not longer than the shortest period. A window table is built for a clock that shows where windows end.
    let tick = if tabled(spec) { &[0][..] } else { &[0, 0, 0, UNIT, 300, 2 * UNIT][..] };
    let timing = (select(tick), select(&[0, 0, 0, UNIT, 600][..]), select(&[0, 0, 0, UNIT, 700][..]));
    (rules, timing, tuned(spec), any::<u64>()).prop_map(
        |((late, backlog, be_start, locking), (tick, resolution, lateness), policy, seed)| System {
            // The ledger cannot tell an abort before the releases of an instant from one after them, which is what
            // Hartstone's successors depend on.
            late: if (late, backlog) == (Late::AbortAtEvent, Backlog::Hartstone) { Late::Abort } else { late },
            backlog,
            be_start,
            locking,
            timing: Timing {
                tick: Span::from_ns(tick),
                resolution: Span::from_ns(resolution),
                lateness: Span::from_ns(lateness),
            },
            resources: RESOURCES,
            seed,
            ..System::new(CpuSet::first(1), policy)
        },
    )
}

fn online(specs: Vec<PolicySpec>) -> impl Strategy<Value = System> {
    let one = specs.iter().any(|s| s.scope == Scope::Uniprocessor);
    let cpus = if one { 1..=1usize } else { 1..=4 };
    let tasks = cpus.prop_flat_map(|cpus| (Just(cpus), vec(timed(cpus), 1..8)));
    (tasks, frame(specs[0])).prop_map(move |((cpus, mut tasks), frame)| {
        let cpus = CpuSet::first(cpus);
        specs.iter().for_each(|spec| provide(*spec, &mut tasks, cpus));
        let mut system = System { cpus, tasks, ..frame };
        share(&specs, &mut system);
        constrain(&specs, &mut system);
        accepted(system)
    })
}

/// The partitions of a window: for each slice its share of the CPUs and who has its two sides.
type Layout = Vec<(i64, usize, Vec<usize>)>;

/// Window tables. With `guests` every partition has a policy of its own, so that the engine releases all tasks.
fn table(spec: PolicySpec, guests: bool) -> impl Strategy<Value = System> {
    let inner = inner_policies();
    let cpus = 1..=3usize;
    cpus.prop_flat_map(move |cpus| {
        let guest = (select(inner.clone()).prop_flat_map(tuned), vec(timed(cpus), 1..4));
        let guest = guest.prop_map(|(spec, tasks)| (Some(spec), tasks));
        let fifo = vec(process(cpus), 1..4).prop_map(|tasks| (None, tasks));
        let partition = if guests { guest.boxed() } else { prop_oneof![2 => fifo, 1 => guest].boxed() };
        let layout = vec((1i64..14, 1..=cpus, Just((0..8usize).collect::<Vec<_>>()).prop_shuffle()), 1..4);
        (Just(cpus), vec(partition, 1..5), layout, frame(spec))
    })
    .prop_map(move |(cpus, members, layout, frame)| {
        let cpus = CpuSet::first(cpus);
        let mut system = System { cpus, windows: windows(cpus.len(), members.len(), &layout), ..frame };
        for (index, (policy, mut tasks)) in members.into_iter().enumerate() {
            let reach = reach(&system.windows, PartitionId(index as u32));
            let policy = policy.map(|guest| {
                let guest = suitable(guest, reach);
                provide(guest, &mut tasks, reach);
                guest
            });
            let first = system.tasks.len();
            system.tasks.extend(tasks);
            let tasks = (first..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
            system.partitions.push(Partition { tasks, policy });
        }
        accepted(system)
    })
}

/// Domains with policies of their own; their CPUs lie side by side or not, and several may have the same ones in an order of bands.
fn divided(spec: PolicySpec) -> impl Strategy<Value = System> {
    let inner = inner_policies();
    let members = (1..=4usize).prop_flat_map(move |cpus| {
        let member = (select(inner.clone()).prop_flat_map(tuned), vec(timed(cpus), 1..4));
        (Just(cpus), vec(member, 1..=cpus.max(3)), 1..=cpus, any::<bool>(), frame(spec))
    });
    members.prop_map(|(cpus, members, sets, descend, frame)| {
        let mut system = System { cpus: CpuSet::first(cpus), ..frame };
        let (sets, count) = (sets.min(members.len()), members.len() as u32);
        for (index, (guest, mut tasks)) in members.into_iter().enumerate() {
            let own: CpuSet = (0..cpus).filter(|cpu| cpu % sets == index % sets).collect();
            let band = if descend { count - index as u32 } else { index as u32 };
            let policy = suitable(guest, own);
            provide(policy, &mut tasks, own);
            tasks.iter_mut().filter(|t| t.affinity.is_disjoint(&own)).for_each(|t| t.affinity = own);
            let first = system.tasks.len();
            system.tasks.extend(tasks);
            let tasks = (first..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
            system.domains.push(Domain { band, cpus: own, tasks, policy });
        }
        accepted(system)
    })
}

fn windows(cpus: usize, partitions: usize, layout: &Layout) -> Vec<Window> {
    let window = |(length, slices, order): &(i64, usize, Vec<usize>)| {
        // Numbers above the number of partitions leave a side empty.
        let mut sides = order.iter().map(|&p| (p < partitions).then_some(PartitionId(p as u32)));
        let slice = |i: usize| Slice {
            cpus: (0..cpus).filter(|cpu| cpu % slices == i).collect(),
            sc: sides.next().flatten(),
            be: sides.next().flatten(),
        };
        Window { length: units(*length), slices: (0..*slices).map(slice).collect() }
    };
    layout.iter().map(window).collect()
}

fn reach(windows: &[Window], partition: PartitionId) -> CpuSet {
    let slices = windows.iter().flat_map(|w| &w.slices);
    let of = slices.filter(|s| s.sc == Some(partition) || s.be == Some(partition));
    of.fold(CpuSet::EMPTY, |all, s| all.union(&s.cpus))
}

/// The policy with a scope that is possible on the CPUs that its partition reaches. Another one takes the place of a policy for one CPU only.
fn suitable(spec: PolicySpec, reach: CpuSet) -> PolicySpec {
    if spec.scope != Scope::Uniprocessor || reach.len() <= 1 {
        return spec;
    }
    match spec.profile.scopes.iter().find(|scope| **scope != Scope::Uniprocessor) {
        Some(scope) => PolicySpec { scope: *scope, ..spec },
        None => inner_policies().into_iter().find(|other| other.scope != Scope::Uniprocessor).unwrap_or(spec),
    }
}

/// The policies allowed inside of a table or a domain.
fn inner_policies() -> Vec<PolicySpec> {
    specs().into_iter().filter(|s| s.scope != Scope::Table).collect()
}

fn tabled(spec: PolicySpec) -> bool {
    spec.hosts() == Some(Hosts::Windows)
}

fn in_domains(spec: PolicySpec) -> bool {
    spec.hosts() == Some(Hosts::Domains)
}

/// Systems for one policy.
fn systems(spec: PolicySpec) -> BoxedStrategy<System> {
    match () {
        () if tabled(spec) => table(spec, false).boxed(),
        () if in_domains(spec) => divided(spec).boxed(),
        () => online(vec![spec]).boxed(),
    }
}

/// Random cases for one policy.
pub(crate) fn cases(spec: PolicySpec) -> impl Strategy<Value = Case> {
    let system = systems(spec);
    let turns = any::<bool>().prop_flat_map(|late| turns(late, false));
    (system, turns, 0i64..20).prop_map(|(system, turns, end_gap)| Case { system, turns, switch: None, end_gap })
}

/// Systems that begin under `from` and have all that `other` needs.
fn taken_over(
    systems: impl Strategy<Value = System> + 'static,
    from: PolicySpec,
    other: PolicySpec,
) -> BoxedStrategy<System> {
    let one_cpu = other.scope == Scope::Uniprocessor;
    systems
        .prop_filter("an only CPU for a uniprocessor policy", move |s| !one_cpu || s.cpus.len() == 1)
        .prop_map(move |mut s| {
            provide(other, &mut s.tasks, s.cpus);
            s.policy = if s.policy.profile.name == from.profile.name { s.policy } else { from };
            accepted(s)
        })
        .boxed()
}

/// Random cases that go over from one policy to any other.
pub(crate) fn switches(from: PolicySpec) -> impl Strategy<Value = Case> {
    // A table and another policy suit the same system only when every partition has a guest; domains suit every policy.
    let suits = |to: &PolicySpec| tabled(from) && !in_domains(*to) || !tabled(from) && !tabled(*to);
    let targets: Vec<PolicySpec> = specs().into_iter().filter(suits).collect();
    let turns = any::<bool>().prop_flat_map(|late| turns(late, false));
    select(targets)
        .prop_flat_map(tuned)
        .prop_flat_map(move |to| {
            let system = match () {
                () if tabled(to) => systems(from),
                () if tabled(from) => taken_over(table(from, true), from, to),
                () if in_domains(from) => taken_over(divided(from), from, to),
                () if in_domains(to) => taken_over(divided(to), from, from),
                () => online(vec![from, to]).boxed(),
            };
            (system, Just(to))
        })
        .prop_flat_map(move |(system, to)| (Just(system), turns.clone(), 0i64..20, 0usize..90, Just(to)))
        .prop_map(|(system, turns, end_gap, at, to)| {
            let switch = Some((at % turns.len(), to));
            Case { system, turns, switch, end_gap }
        })
}

/// Random cases with everything in them: any policy, tables and domains, loads, and switches to other policies, of the whole system
/// or a domain, again and again.
pub(crate) fn operations() -> impl Strategy<Value = Case> {
    let of = |suits: fn(PolicySpec) -> bool| specs().into_iter().filter(|s| suits(*s)).collect::<Vec<_>>();
    let system = prop_oneof![
        4 => select(inner_policies()).prop_flat_map(systems),
        4 => select(of(in_domains)).prop_flat_map(divided),
        1 => select(of(tabled)).prop_flat_map(|spec| table(spec, true)),
    ];
    let alternatives = vec(select(specs()).prop_flat_map(tuned), 0..5);
    let load = vec((span(0..60), 1u32..3_000_000), 1..4).prop_flat_map(|mut points| {
        points.sort_by_key(|(at, _)| *at);
        weighted(0.5, span(1..50)).prop_map(move |repeat| Load { points: points.clone(), repeat })
    });
    let system = (system, alternatives, weighted(0.3, load)).prop_map(|(mut system, alternatives, load)| {
        for to in alternatives.iter().filter(|to| to.scope != Scope::Table) {
            provide(*to, &mut system.tasks, system.cpus);
        }
        accepted(System { alternatives, load, ..system })
    });
    let turns = any::<(bool, bool)>().prop_flat_map(|(late, tangled)| turns(late, tangled));
    (system, turns, 0i64..20).prop_map(|(system, turns, end_gap)| Case { system, turns, switch: None, end_gap })
}
