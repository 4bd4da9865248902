//! Random systems and random inputs. Times are few and small so that things coincide often.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::*;
use takt_core::policy::{Need, Placement, PolicySpec, REGISTRY, Scope};
use takt_core::time::{Span, Time};
use takt_sim::Step;

const RESOURCES: u16 = 2;

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
    inputs: Vec<(Kind, usize, u16)>,
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
    Exit,
    Usage,
    Request,
    Return,
}

/// Every entry of the registry under each of its scopes.
pub(crate) fn specs() -> Vec<PolicySpec> {
    let spec = |entry, scope| PolicySpec::new(entry, scope);
    REGISTRY.iter().flat_map(|entry| entry.scopes.iter().map(move |&scope| spec(entry, scope))).collect()
}

impl Case {
    /// Whether consumption is measured anywhere; budgets are then not elapsed time.
    pub(crate) fn metered(&self) -> bool {
        self.turns.iter().any(|t| t.inputs.iter().any(|i| i.0 == Kind::Usage))
    }
    pub(crate) fn end(&self, engine: &Engine) -> Time {
        engine.now() + Span::from_ns(self.end_gap)
    }
}

impl Turn {
    /// The turn as a step of this engine.
    pub(crate) fn step(&self, engine: &Engine) -> Step {
        let far = engine.now() + Span::from_ns(5);
        let due = engine.next_due().unwrap_or(far).max(engine.now());
        let now = match self.when {
            When::Due => due,
            When::Early(gap) => due.min(engine.now() + Span::from_ns(gap)),
            When::Late(gap) => due + Span::from_ns(gap),
        };
        let count = engine.system().tasks.len();
        let mut inputs: Vec<Input> = Vec::new();
        for &(kind, which, resource) in &self.inputs {
            let any = TaskId((which % count) as u32);
            let running = engine.running();
            let task = if running.is_empty() { any } else { running[which % running.len()] };
            let resource = ResourceId(resource);
            inputs.push(match kind {
                Kind::Complete => Input::Complete { task },
                Kind::Claim => Input::Complete { task: any },
                Kind::Block => Input::Block { task },
                Kind::Wake => Input::Wake { task: any },
                Kind::Abort => Input::Abort { task: any },
                Kind::Exit => Input::Exit { task: any },
                Kind::Usage => {
                    let consumed = engine.job(task).map_or(Span::ZERO, |j| j.consumed);
                    Input::Usage { task, consumed: consumed - Span::from_ns(1).min(consumed) }
                }
                Kind::Request => Input::Request { task, resource },
                Kind::Return => Input::Return { task, resource },
            });
        }
        inputs.sort_by_key(|i| !matches!(i, Input::Usage { .. }));
        Step { now, inputs }
    }
}

fn turns(late: bool) -> impl Strategy<Value = Vec<Turn>> {
    let lateness = if late { 1 } else { 0 };
    let when = prop_oneof![
        6 => Just(When::Due),
        4 => (0i64..6).prop_map(When::Early),
        lateness => (1i64..25).prop_map(When::Late),
    ];
    let kind = prop_oneof![
        12 => Just(Kind::Complete),
        2 => Just(Kind::Claim),
        3 => Just(Kind::Block),
        6 => Just(Kind::Wake),
        1 => Just(Kind::Abort),
        1 => Just(Kind::Exit),
        1 => Just(Kind::Usage),
        3 => Just(Kind::Request),
        3 => Just(Kind::Return),
    ];
    let inputs = prop_oneof![3 => Just(vec![]), 2 => vec((kind, 0usize..64, 0..RESOURCES), 1..4)];
    vec((when, inputs).prop_map(|(when, inputs)| Turn { when, inputs }), 1..90)
}

fn span(range: std::ops::Range<i64>) -> impl Strategy<Value = Span> {
    range.prop_map(Span::from_ns)
}

fn some_cpus(cpus: usize) -> impl Strategy<Value = CpuSet> {
    prop_oneof![
        2 => Just(CpuSet::first(cpus)),
        1 => vec(0..cpus, 1..=cpus).prop_map(|list| list.into_iter().collect()),
    ]
}

fn periodic(cpus: usize) -> impl Strategy<Value = Task> {
    let times =
        (span(0..9), span(2..20), prop::option::weighted(0.9, span(1..25)), prop::option::weighted(0.8, span(1..6)));
    let rest = (prop::option::weighted(0.3, span(1..8)), 0u32..4, some_cpus(cpus));
    (times, rest).prop_map(|((offset, period, deadline, runtime), (budget, priority, affinity))| Task {
        arrival: Arrival::Periodic { offset, period },
        deadline,
        runtime,
        budget,
        jitter: Span::ZERO,
        priority,
        affinity,
        ..Task::default()
    })
}

fn process(cpus: usize) -> impl Strategy<Value = Task> {
    (1i64..9, 0.0..1.0f64, any::<bool>()).prop_map(move |(budget, share, jitter)| Task {
        arrival: Arrival::Activated,
        deadline: None,
        runtime: None,
        budget: Some(Span::from_ns(budget)),
        jitter: Span::from_ns(if jitter { (2.0 * budget as f64 * share).round() as i64 } else { 0 }),
        priority: 0,
        affinity: CpuSet::first(cpus),
        ..Task::default()
    })
}

/// Gives the tasks what the policy needs of each.
fn provide(spec: PolicySpec, tasks: &mut [Task]) {
    for task in tasks {
        for need in spec.entry.needs {
            match need {
                Need::Period => {}
                Need::Deadline => task.deadline = task.deadline.or(Some(Span::from_ns(11))),
                Need::Runtime => task.runtime = task.runtime.or(Some(Span::from_ns(2))),
            }
        }
    }
}

fn settings() -> impl Strategy<Value = (Late, Backlog, BestEffortStart, u64)> {
    (
        select(&[Late::Continue, Late::Abort][..]),
        select(&[Backlog::Queue, Backlog::Skip][..]),
        select(&[BestEffortStart::AllDone, BestEffortStart::SliceDone][..]),
        any::<u64>(),
    )
}

fn online(specs: Vec<PolicySpec>) -> impl Strategy<Value = System> {
    let one = specs.iter().any(|s| s.scope == Scope::Uniprocessor);
    let cpus = if one { 1..=1usize } else { 1..=4 };
    let placement = select(&Placement::ALL[..]);
    let tasks = cpus.prop_flat_map(|cpus| (Just(cpus), vec(periodic(cpus), 1..8)));
    (tasks, settings(), placement).prop_map(move |((cpus, mut tasks), (late, backlog, be_start, seed), placement)| {
        specs.iter().for_each(|spec| provide(*spec, &mut tasks));
        System {
            cpus: CpuSet::first(cpus),
            tasks,
            partitions: vec![],
            windows: vec![],
            be_start,
            policy: PolicySpec { placement: placement.1, ..specs[0] },
            late,
            backlog,
            resources: RESOURCES,
            locking: Default::default(),
            timing: Default::default(),
            seed,
        }
    })
}

/// The partitions of a window: for each slice its share of the CPUs and who has its two sides.
type Layout = Vec<(i64, usize, Vec<usize>)>;

/// Window tables. With `guests` every partition has a policy of its own, so that all tasks are periodic.
fn table(spec: PolicySpec, guests: bool) -> impl Strategy<Value = System> {
    let inner: Vec<PolicySpec> = specs().into_iter().filter(|s| s.scope != Scope::Table).collect();
    let cpus = 1..=3usize;
    cpus.prop_flat_map(move |cpus| {
        let guest = (select(inner.clone()), vec(periodic(cpus), 1..4)).prop_map(|(spec, tasks)| (Some(spec), tasks));
        let fifo = vec(process(cpus), 1..4).prop_map(|tasks| (None, tasks));
        let partition = if guests { guest.boxed() } else { prop_oneof![2 => fifo, 1 => guest].boxed() };
        let layout = vec((1i64..14, 1..=cpus, Just((0..8usize).collect::<Vec<_>>()).prop_shuffle()), 1..4);
        (Just(cpus), vec(partition, 1..5), layout, settings())
    })
    .prop_map(move |(cpus, members, layout, (late, backlog, be_start, seed))| {
        let mut system = System {
            cpus: CpuSet::first(cpus),
            tasks: vec![],
            partitions: vec![],
            windows: windows(cpus, members.len(), &layout),
            be_start,
            policy: spec,
            late,
            backlog,
            resources: RESOURCES,
            locking: Default::default(),
            timing: Default::default(),
            seed,
        };
        for (index, (policy, mut tasks)) in members.into_iter().enumerate() {
            let policy = policy.map(|guest| {
                provide(guest, &mut tasks);
                suit(guest, &mut tasks, reach(&system.windows, PartitionId(index as u32)))
            });
            let first = system.tasks.len();
            system.tasks.extend(tasks);
            let tasks = (first..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
            system.partitions.push(Partition { tasks, policy });
        }
        system
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
        Window { length: Span::from_ns(*length), slices: (0..*slices).map(slice).collect() }
    };
    layout.iter().map(window).collect()
}

fn reach(windows: &[Window], partition: PartitionId) -> CpuSet {
    let slices = windows.iter().flat_map(|w| &w.slices);
    let of = slices.filter(|s| s.sc == Some(partition) || s.be == Some(partition));
    of.fold(CpuSet::EMPTY, |all, s| all.union(&s.cpus))
}

/// Makes a guest possible on the CPUs that its partition reaches.
fn suit(guest: PolicySpec, tasks: &mut [Task], reach: CpuSet) -> PolicySpec {
    if guest.scope == Scope::Uniprocessor && reach.len() > 1 {
        return PolicySpec { scope: Scope::Global, ..guest };
    }
    if guest.scope == Scope::Partitioned {
        for task in tasks.iter_mut().filter(|t| t.affinity.is_disjoint(&reach)) {
            task.affinity = task.affinity.union(&reach);
        }
    }
    guest
}

/// Random cases for one policy.
pub(crate) fn cases(spec: PolicySpec) -> impl Strategy<Value = Case> {
    let system = if spec.scope == Scope::Table { table(spec, false).boxed() } else { online(vec![spec]).boxed() };
    let turns = any::<bool>().prop_flat_map(turns);
    (system, turns, 0i64..20).prop_map(|(system, turns, end_gap)| Case { system, turns, switch: None, end_gap })
}

/// Random cases that go over from one policy to another.
pub(crate) fn switches(from: PolicySpec, to: PolicySpec) -> impl Strategy<Value = Case> {
    let tables = (from.scope == Scope::Table, to.scope == Scope::Table);
    let system = match tables {
        (true, true) => table(from, false).boxed(),
        (true, false) => table(from, true)
            .prop_filter("an only CPU for a uniprocessor policy", move |s| {
                to.scope != Scope::Uniprocessor || s.cpus.len() == 1
            })
            .prop_map(move |mut s| {
                provide(to, &mut s.tasks);
                s
            })
            .boxed(),
        _ => online(vec![from, to]).boxed(),
    };
    let turns = any::<bool>().prop_flat_map(turns);
    (system, turns, 0i64..20, 0usize..90).prop_map(move |(system, turns, end_gap, at)| {
        let switch = Some((at % turns.len(), to));
        Case { system, turns, switch, end_gap }
    })
}
