//! Workloads that are drawn for each family of policies and rules. The same draw gives the same workload.

use crate::robust::{Bears, is_robust};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use takt_core::rng::draw_up_to;
use takt_core::time::Span;

/// A workload to simulate and to run.
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) duration: Span,
    pub(crate) cpus: usize,
    /// How much longer jobs may take without another outcome.
    pub(crate) slack: Span,
    /// The tasks that read answers to what they write, and how long an answer takes.
    pub(crate) answers: Vec<(String, Span)>,
}

impl Instance {
    /// Whether jobs block in their middle.
    pub(crate) fn blocks(&self) -> bool {
        self.text.contains(", sleep ")
    }

    /// The name of its family, of which it is one draw.
    pub(crate) fn family(&self) -> &str {
        self.name.rsplit_once('-').map_or(&self.name, |(family, _)| family)
    }
}

/// How the tasks of a family look.
#[derive(Clone, Copy, Default)]
struct Shape {
    tasks: u64,
    /// Their load, in percent of a CPU.
    load: (u64, u64),
    utility: bool,
    priority: bool,
    /// Deadlines before the end of the period.
    constrained: bool,
    /// Budgets, and reservations, below what jobs need.
    budget: bool,
    reservation: bool,
    /// The addition to each task.
    keys: &'static str,
    handler: bool,
    /// The middle third of a job is a critical section of this resource.
    locks: bool,
    /// Every second job asks for another period or runtime.
    calls: bool,
    /// Jobs sleep in their middle, or write and wait for an answer.
    blocks: bool,
    /// The programs signal completions only.
    signals: bool,
    /// The programs signal nothing: the end of their jobs, and the option of `takt burn` for that.
    observed: Option<(&'static str, &'static str)>,
    events: Events,
}

/// The tasks that events release.
#[derive(Clone, Copy, Default, PartialEq)]
enum Events {
    #[default]
    None,
    /// All but the first one, each by the completions of the one before.
    After,
    /// The last one, at instants of the file.
    Listed,
}

enum Kind {
    /// Tasks under this policy and these rules.
    Online(Shape),
    /// Processes in the windows of a table: the best-effort one, and whether they signal.
    Table { signals: bool, slice: bool },
    /// Tasks in two domains of the same CPUs, `high` and `low`.
    Bands(Shape, Shape),
    /// Tasks in a partition with this policy.
    Inside(&'static str, Shape),
    /// Aperiodic work behind servers, beside a periodic task.
    Aperiodic,
    /// A process for each job.
    PerJob,
}

struct Family {
    name: &'static str,
    head: &'static str,
    cpus: usize,
    kind: Kind,
    /// The most that a machine adds to a job, when all is well.
    slack: Span,
}

impl Family {
    /// Whether jobs block in their middle.
    fn blocks(&self) -> bool {
        matches!(self.kind, Kind::Online(Shape { blocks: true, .. }))
    }
}

const SLACK: Span = Span::from_us(400);
/// On all CPUs of a machine its other work meets the processes, which have no real-time class there.
const WIDE: Span = Span::from_us(800);
/// Starting a program takes CPU time of its job.
const START: Span = Span::from_us(3500);

fn online(name: &'static str, head: &'static str, shape: Shape) -> Family {
    let cpus = if head.contains("cpus: 0-1") { 2 } else { 1 };
    // A job that waits for a critical section bears what is added to that, too.
    let wide = (cpus == 2 && !shape.blocks) || shape.locks || shape.calls;
    let slack = if wide { WIDE } else { SLACK };
    Family { name, head, cpus, kind: Kind::Online(shape), slack }
}

/// An overload of three tasks on one CPU.
const OVER: Shape = Shape {
    tasks: 3,
    load: (110, 200),
    utility: false,
    priority: false,
    constrained: false,
    budget: false,
    reservation: false,
    keys: "",
    handler: false,
    locks: false,
    calls: false,
    blocks: false,
    signals: false,
    events: Events::None,
    observed: None,
};
const YIELDS: Shape = Shape { observed: Some(("yield", "--yield")), ..OVER };
const SLEEPS: Shape = Shape { observed: Some(("sleep", "--sleep 100us")), ..OVER };
const WORTH: Shape = Shape { utility: true, ..OVER };
const LOCKS: Shape = Shape { locks: true, load: (90, 150), keys: ", on_abort: signal", ..OVER };
const TWO_CPUS: Shape = Shape { tasks: 4, load: (210, 330), utility: true, ..OVER };

const BLOCKS: Shape = Shape { blocks: true, load: (60, 140), ..OVER };
const BLOCKS_WORTH: Shape = Shape { utility: true, ..BLOCKS };
const BLOCKS_RESERVED: Shape = Shape { reservation: true, load: (60, 120), ..BLOCKS };
const BLOCKS_TWO_CPUS: Shape = Shape { tasks: 4, load: (190, 320), ..BLOCKS };

/// Two bands on one CPU under these policies, with these rules.
macro_rules! bands {
    ($high:literal, $low:literal, $rules:literal) => {
        concat!(
            "domains: [{name: low, cpus: 0, policy: ",
            $low,
            "}, {name: high, cpus: 0, band: 1, policy: ",
            $high,
            "}]",
            $rules
        )
    };
}

fn families() -> Vec<Family> {
    let reserved = Shape { reservation: true, load: (80, 130), ..OVER };
    let mut all = vec![
        online("edf-abort", "policy: edf\nlate: abort", OVER),
        online("edf-continue", "policy: edf", Shape { load: (110, 150), ..OVER }),
        online("edf-skip", "policy: edf\nbacklog: skip", OVER),
        online("edf-abort-skip", "policy: edf\nlate: abort\nbacklog: skip", OVER),
        online("edf-constrained", "policy: edf\nlate: abort", Shape { constrained: true, ..OVER }),
        online("rm-abort", "policy: rm\nlate: abort", OVER),
        online("dm-abort", "policy: dm\nlate: abort", Shape { constrained: true, ..OVER }),
        online("fp-continue", "policy: fp", Shape { priority: true, load: (110, 150), ..OVER }),
        online("fp-abort", "policy: fp\nlate: abort", Shape { priority: true, ..OVER }),
        online("fifo-abort", "policy: fifo\nlate: abort", OVER),
        online("np-edf-abort", "policy: np-edf\nlate: abort", OVER),
        online("edf-budgets", "policy: edf", Shape { budget: true, load: (60, 130), ..OVER }),
        online("rm-budgets", "policy: rm\nlate: abort", Shape { budget: true, load: (60, 130), ..OVER }),
        online("dasa-abort", "policy: dasa\nlate: abort", WORTH),
        online("dasa-continue", "policy: dasa", WORTH),
        online("dasa-at-event", "policy: dasa\nlate: abort-at-event", WORTH),
        online("dasa-nd", "policy: dasa-nd\nlate: abort", WORTH),
        online("lbesa", "policy: lbesa\nlate: abort", WORTH),
        online("gus", "policy: gus\nlate: abort", WORTH),
        online("hvdf", "policy: hvdf\nlate: abort", WORTH),
        online("hvdf-chronos", "policy: hvdf\npreset: chronos", Shape { load: (110, 150), ..WORTH }),
        online("np-hvdf", "policy: np-hvdf\nlate: abort", WORTH),
        online("cbs-soft", "policy: {name: cbs, enforcement: soft}", reserved),
        online("cbs-hard", "policy: {name: cbs, enforcement: hard}", reserved),
        online("cbs-hard-abort", "policy: {name: cbs, enforcement: hard}\nlate: abort", reserved),
        online("fcbs", "policy: fcbs", reserved),
        online("grub", "policy: grub", reserved),
        online("signal", "policy: edf\nlate: abort", Shape { keys: ", on_abort: signal", ..OVER }),
        online("handler", "policy: edf\nlate: abort", Shape { handler: true, ..OVER }),
        online("signals-only", "policy: edf\nlate: abort", Shape { signals: true, keys: ", on_abort: signal", ..OVER }),
        online("signals-only-continue", "policy: rm", Shape { signals: true, load: (110, 150), ..OVER }),
        online("edf-locks", "policy: edf\nlocking: fifo\nlate: abort", LOCKS),
        online("edf-locks-continue", "policy: edf\nlocking: inheritance", Shape { keys: "", ..LOCKS }),
        online("edf-locks-handler", "policy: edf\nlocking: inheritance\nlate: abort", Shape { handler: true, ..LOCKS }),
        online("rm-locks", "policy: rm\nlocking: inheritance\nlate: abort", LOCKS),
        online("rm-locks-fifo", "policy: rm\nlocking: fifo\nlate: abort", LOCKS),
        online("dm-locks", "policy: dm\nlocking: inheritance\nlate: abort", Shape { constrained: true, ..LOCKS }),
        online("dm-ceiling", "policy: dm\nlocking: ceiling\nlate: abort", Shape { constrained: true, ..LOCKS }),
        online("fp-locks", "policy: fp\nlocking: inheritance\nlate: abort", Shape { priority: true, ..LOCKS }),
        online("fp-ceiling", "policy: fp\nlocking: ceiling\nlate: abort", Shape { priority: true, ..LOCKS }),
        online("fp-ceiling-continue", "policy: fp\nlocking: ceiling", Shape { priority: true, keys: "", ..LOCKS }),
        online(
            "fp-locks-finish",
            "policy: fp\nlocking: inheritance\nlate: abort",
            Shape { priority: true, keys: ", on_abort: finish", ..LOCKS },
        ),
        online("fifo-locks", "policy: fifo\nlate: abort", LOCKS),
        online("np-edf-locks", "policy: np-edf\nlate: abort", LOCKS),
        online("dasa-locks", "policy: dasa\nlate: abort", Shape { utility: true, ..LOCKS }),
        online("dasa-nd-locks", "policy: dasa-nd\nlate: abort", Shape { utility: true, ..LOCKS }),
        online("gus-locks", "policy: gus\nlate: abort", Shape { utility: true, ..LOCKS }),
        online("lbesa-locks", "policy: lbesa\nlate: abort", Shape { utility: true, ..LOCKS }),
        online("hvdf-locks", "policy: hvdf\nlate: abort", Shape { utility: true, ..LOCKS }),
        online("edf-calls", "policy: edf\nlate: abort", Shape { calls: true, ..OVER }),
        online("rm-calls", "policy: rm\nlate: abort", Shape { calls: true, ..OVER }),
        online("fp-calls", "policy: fp\nlate: abort", Shape { calls: true, priority: true, ..OVER }),
        online("cbs-calls", "policy: {name: cbs, enforcement: hard}\nlate: abort", Shape { calls: true, ..reserved }),
        online("fcbs-calls", "policy: fcbs\nlate: abort", Shape { calls: true, ..reserved }),
        online("switch-rm", "policy: edf\nlate: abort\nchanges: [{at: 81ms, policy: rm}]", OVER),
        online(
            "switch-edf",
            "policy: rm\nlate: abort\nchanges: [{at: 63.3ms, policy: edf}, {at: 121ms, policy: rm}]",
            OVER,
        ),
        online("switch-dasa", "policy: edf\nlate: abort\nchanges: [{at: 71ms, policy: dasa}]", WORTH),
        online("switch-hvdf", "policy: dasa\nlate: abort\nchanges: [{at: 90.7ms, policy: hvdf}]", WORTH),
        online(
            "retimed",
            "policy: edf\nlate: abort\nchanges: [{at: 75ms, task: t0, period: 55ms}, {at: 140ms, task: t1, period: 60ms}]",
            OVER,
        ),
        online(
            "leaves",
            "policy: edf\nlate: abort\nchanges: [{at: 66ms, task: t1, leave: yes}, {at: 131ms, task: t1, enter: yes}]",
            OVER,
        ),
        online("load", "policy: edf\nlate: abort\nload: 1.4", Shape { load: (80, 140), ..OVER }),
        online(
            "load-ramp",
            "policy: rm\nlate: abort\nload: {points: [[0ms, 0.7], [100ms, 1.6], [200ms, 0.9]]}",
            Shape { load: (90, 140), ..OVER },
        ),
        online("after-edf", "policy: edf\nlate: abort", Shape { events: Events::After, ..OVER }),
        online("after-edf-continue", "policy: edf", Shape { events: Events::After, load: (90, 120), ..OVER }),
        online("after-fp", "policy: fp\nlate: abort", Shape { events: Events::After, priority: true, ..OVER }),
        online("after-dasa", "policy: dasa\nlate: abort", Shape { events: Events::After, ..WORTH }),
        online("events-edf", "policy: edf\nlate: abort", Shape { events: Events::Listed, ..OVER }),
        online("events-dm", "policy: dm\nbacklog: skip", Shape { events: Events::Listed, ..OVER }),
        online("events-hvdf", "policy: hvdf\nlate: abort", Shape { events: Events::Listed, ..WORTH }),
        online("g-edf", "policy: g-edf\ncpus: 0-1\nlate: abort", TWO_CPUS),
        online("p-edf", "policy: p-edf\ncpus: 0-1\nlate: abort", TWO_CPUS),
        online("gmua", "policy: gmua\ncpus: 0-1\nlate: abort", TWO_CPUS),
        online("ng-gua", "policy: ng-gua\ncpus: 0-1\nlate: abort", TWO_CPUS),
        online("g-gua", "policy: g-gua\ncpus: 0-1\nlate: abort", TWO_CPUS),
        online("g-hvdf", "policy: g-hvdf\ncpus: 0-1\nlate: abort", TWO_CPUS),
    ];
    let family = |name, head, kind| Family { name, head, cpus: 1, kind, slack: SLACK };
    for name in ["polling-server", "deferrable-server", "sporadic-server", "periodic-server"] {
        let head = match name {
            "polling-server" => "policy: polling-server",
            "deferrable-server" => "policy: deferrable-server",
            "sporadic-server" => "policy: sporadic-server",
            _ => "policy: periodic-server",
        };
        all.push(family(name, head, Kind::Aperiodic));
    }
    let table = |signals, slice| Kind::Table { signals, slice };
    all.push(family("table-signals", "", table(true, false)));
    all.push(family("table-slice", "be_start: slice", table(true, true)));
    all.push(family("table-without-signals", "", table(false, false)));
    let (high, low) = (Shape { tasks: 2, load: (40, 70), ..OVER }, Shape { tasks: 2, load: (50, 100), ..OVER });
    let valued = Shape { utility: true, ..low };
    let (urgent, ranked) = (Shape { priority: true, ..high }, Shape { priority: true, ..low });
    let wide = (Shape { load: (80, 130), ..high }, Shape { tasks: 3, load: (110, 180), ..low });
    for (name, head, high, low) in [
        ("bands-edf-rm", bands!("edf", "rm", "\nlate: abort"), high, low),
        ("bands-rm-edf", bands!("rm", "edf", ""), high, low),
        ("bands-fp-fp", bands!("fp", "fp", "\nlate: abort"), urgent, ranked),
        ("bands-edf-dasa", bands!("edf", "dasa", "\nlate: abort"), high, valued),
        ("bands-dm-np-edf", bands!("dm", "np-edf", "\nlate: abort"), Shape { constrained: true, ..high }, low),
        ("bands-overload", bands!("edf", "fifo", "\nlate: abort"), Shape { load: (70, 130), ..high }, low),
        (
            "bands-switch",
            bands!("edf", "rm", "\nlate: abort\nchanges: [{at: 71ms, domain: low, policy: edf}]"),
            high,
            low,
        ),
    ] {
        all.push(family(name, head, Kind::Bands(high, low)));
    }
    let head =
        "domains: [{name: high, cpus: 0-1, band: 1, policy: g-edf}, {name: low, cpus: 0-1, policy: g-rm}]\nlate: abort";
    all.push(Family { cpus: 2, slack: WIDE, ..family("bands-g-edf-g-rm", head, Kind::Bands(wide.0, wide.1)) });
    let inside = Shape { load: (60, 110), ..OVER };
    all.push(family("inside-edf", "late: abort", Kind::Inside("edf", inside)));
    all.push(family("inside-dasa", "late: abort", Kind::Inside("dasa", Shape { utility: true, ..inside })));
    all.push(Family { slack: START, ..family("per-job", "policy: edf\nlate: abort", Kind::PerJob) });
    all.push(online("observed-yield", "policy: edf\nlate: abort", YIELDS));
    all.push(online("observed-yield-continue", "policy: rm", Shape { load: (110, 150), ..YIELDS }));
    all.push(online("observed-sleep", "policy: edf\nlate: abort", SLEEPS));
    all.push(online("observed-sleep-continue", "policy: rm", Shape { load: (110, 150), ..SLEEPS }));
    all
}

/// The families whose jobs block in their middle. The first ones have policies with an order of all ready jobs.
fn blocking() -> Vec<Family> {
    let fixed = Shape { priority: true, ..BLOCKS };
    let short = Shape { constrained: true, ..BLOCKS };
    vec![
        online("blocks-edf", "policy: edf", BLOCKS),
        online("blocks-edf-abort", "policy: edf\nlate: abort", BLOCKS),
        online("blocks-edf-skip", "policy: edf\nbacklog: skip", BLOCKS),
        online("blocks-edf-constrained", "policy: edf\nlate: abort", short),
        online("blocks-rm", "policy: rm", BLOCKS),
        online("blocks-rm-abort", "policy: rm\nlate: abort", BLOCKS),
        online("blocks-dm-abort", "policy: dm\nlate: abort", short),
        online("blocks-fp", "policy: fp", fixed),
        online("blocks-fp-abort", "policy: fp\nlate: abort", fixed),
        online("blocks-fifo-abort", "policy: fifo\nlate: abort", BLOCKS),
        online("blocks-cbs-soft", "policy: {name: cbs, enforcement: soft}", BLOCKS_RESERVED),
        online("blocks-cbs-hard", "policy: {name: cbs, enforcement: hard}", BLOCKS_RESERVED),
        online("blocks-fcbs", "policy: fcbs", BLOCKS_RESERVED),
        online("blocks-grub", "policy: grub", BLOCKS_RESERVED),
        online("blocks-p-edf", "policy: p-edf\ncpus: 0-1\nlate: abort", BLOCKS_TWO_CPUS),
        online("blocks-p-rm", "policy: p-rm\ncpus: 0-1\nlate: abort", BLOCKS_TWO_CPUS),
        online("blocks-g-edf", "policy: g-edf\ncpus: 0-1\nlate: abort", BLOCKS_TWO_CPUS),
        online("blocks-g-rm", "policy: g-rm\ncpus: 0-1\nlate: abort", BLOCKS_TWO_CPUS),
        online("blocks-np-edf-abort", "policy: np-edf\nlate: abort", BLOCKS),
        online("blocks-dasa-abort", "policy: dasa\nlate: abort", BLOCKS_WORTH),
        online("blocks-lbesa", "policy: lbesa\nlate: abort", BLOCKS_WORTH),
        online("blocks-gus", "policy: gus\nlate: abort", BLOCKS_WORTH),
        online("blocks-hvdf", "policy: hvdf\nlate: abort", BLOCKS_WORTH),
        online("blocks-np-hvdf", "policy: np-hvdf\nlate: abort", BLOCKS_WORTH),
    ]
}

/// Workloads whose jobs block, so many of each wanted family, in the order of their families. `TAKT_OUTCOMES_ONLY` as for [`all`].
pub(crate) fn all_blocking(each: usize, wanted: impl Fn(&str) -> bool) -> Vec<Instance> {
    blocking_that(each, true, real, |family| wanted(family.name))
}

/// The same for one CPU and a user without rights. Processes have no real-time class.
pub(crate) fn blocking_without_rights(each: usize) -> Vec<Instance> {
    blocking_that(each, false, by_states, |family| family.cpus == 1)
}

fn blocking_that(
    each: usize,
    realtime: bool,
    bears: fn(&Family) -> Bears,
    wanted: impl Fn(&Family) -> bool,
) -> Vec<Instance> {
    let only = std::env::var("TAKT_OUTCOMES_ONLY").unwrap_or_default();
    let families: Vec<(usize, Family)> = (1000..).zip(blocking()).collect();
    let is_meant = |family: &Family| wanted(family) && (family.name.contains(&only) || only.starts_with(family.name));
    let families: Vec<_> = families.into_iter().filter(|(_, family)| is_meant(family)).collect();
    let mut all = robust_of(&families, |(number, family)| {
        chosen(family, *number, realtime, DRAWS_BLOCKING, bears(family)).take(each).collect()
    });
    all.retain(|instance| instance.name.contains(&only));
    all
}

/// The workloads that are found for each family, in their order. The search has two threads.
///
/// # Panics
/// When a family has none.
fn robust_of(families: &[(usize, Family)], find: impl Fn(&(usize, Family)) -> Vec<Instance> + Sync) -> Vec<Instance> {
    let next = AtomicUsize::new(0);
    let search = || {
        let mut found = Vec::new();
        while let Some(family) = families.get(next.fetch_add(1, Ordering::Relaxed)) {
            let workloads = find(family);
            assert!(!workloads.is_empty(), "robust workloads of {}", family.1.name);
            found.push((family.0, workloads));
        }
        found
    };
    let mut found = std::thread::scope(|scope| {
        let other = scope.spawn(search);
        let mut found = search();
        found.extend(other.join().expect("robust workloads of each family"));
        found
    });
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().flat_map(|(_, workloads)| workloads).collect()
}

/// How many workloads of a family are drawn, at most, until enough are robust.
const DRAWS: u64 = 60_000;
/// A simulation with sleeps takes longer, and few workloads on two CPUs bear what these do.
const DRAWS_BLOCKING: u64 = 6_000;
/// The search takes a hundred times as much of an emulated processor's time.
const DRAWS_EMULATED: u64 = 1_500;
/// How many workloads of a family there are.
const EACH: usize = 2;

/// All workloads, in the order of their families; with processes in a real-time class or without. `TAKT_OUTCOMES_ONLY` names a part of
/// the name of some.
pub(crate) fn all(realtime: bool) -> Vec<Instance> {
    let families: Vec<_> = families().into_iter().enumerate().collect();
    let mut all = robust_of(&families, |(number, family)| {
        chosen(family, *number, realtime, DRAWS, real(family)).take(EACH).collect()
    });
    assert_eq!(all.len(), families.len() * EACH, "robust workloads of all families");
    let only = std::env::var("TAKT_OUTCOMES_ONLY").unwrap_or_default();
    all.retain(|instance| instance.name.contains(&only));
    all
}

/// The effects of a real machine on a workload of the family, when all is well.
fn real(family: &Family) -> Bears {
    // All that a run may wait can fall on one job, where processes have no real-time class.
    let one = if family.cpus > 1 && !family.blocks() { family.slack * 2 } else { Span::ZERO };
    // Few workloads with jobs that block bear more.
    let (switch, pass) = if family.blocks() { (80, 120) } else { (120, 180) };
    let [switch, pass, wakes] = [switch, pass, 400].map(Span::from_us);
    Bears { slack: family.slack, switch, pass, one, wakes, blocks: Span::ZERO, stretch: 1 }
}

/// The same where blocks and wake-ups are seen by the states of processes, in workloads whose times are longer. Without a real-time class, other load
/// delays the processes, the looks at them and the scheduler.
fn by_states(family: &Family) -> Bears {
    let look = takt_linux::blocking::INTERVAL;
    Bears { slack: look * 3, switch: look / 2, wakes: look * 3, blocks: look * 3 / 2, stretch: 8, ..real(family) }
}

/// The same of an emulated processor.
fn emulated(family: &Family) -> Bears {
    let slack = family.slack.max(Span::from_us(1500));
    Bears { slack, switch: Span::from_us(500), pass: Span::from_us(80), one: Span::ZERO, ..real(family) }
}

/// The first workload, for tests of the comparison itself.
pub(crate) fn first() -> Instance {
    let family = &families()[0];
    chosen(family, 0, false, DRAWS, real(family)).next().expect("a robust workload")
}

/// One workload of each of so many families on one CPU that bears an emulated processor, where it takes long to switch and to signal.
/// Families of which few bear that are passed over.
pub(crate) fn for_emulation(realtime: bool, families_wanted: usize) -> Vec<Instance> {
    let families = families();
    let found = |(number, family): (usize, &Family)| {
        (family.cpus == 1).then(|| chosen(family, number, realtime, DRAWS_EMULATED, emulated(family)).next()).flatten()
    };
    families.iter().enumerate().filter_map(found).take(families_wanted).collect()
}

/// The workloads of a family that bear this, of so many that are drawn.
fn chosen(family: &Family, number: usize, realtime: bool, draws: u64, bears: Bears) -> impl Iterator<Item = Instance> {
    (0..draws).filter_map(move |draw| drawn(family, number as u64, draw, realtime, bears))
}

/// A stream of numbers.
struct Draws {
    family: u64,
    draw: u64,
    next: u64,
}

impl Draws {
    fn number(&mut self, least: u64, most: u64) -> u64 {
        self.next += 1;
        least + draw_up_to(most - least, self.family, self.draw, self.next)
    }
    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.number(0, list.len() as u64 - 1) as usize]
    }
}

/// The workload of a draw, if it bears such a slack and such costs of a switch.
fn drawn(family: &Family, number: u64, draw: u64, realtime: bool, bears: Bears) -> Option<Instance> {
    let mut draws = Draws { family: number + 1, draw, next: 0 };
    let Family { name, head, cpus, .. } = *family;
    // Where the schedule has all CPUs, nothing else would run beside processes in a real-time class, unless jobs block.
    let class = if realtime && (cpus == 1 || family.blocks()) { "yes" } else { "no" };
    let mut text = format!("# {name}, draw {draw}\nrealtime: {class}\n");
    if !head.is_empty() {
        writeln!(text, "{head}").expect("text");
    }
    if cpus == 1 && !matches!(family.kind, Kind::Table { .. } | Kind::Inside(..)) {
        text += "cpus: 0\n";
    }
    let mut answers = Vec::new();
    match family.kind {
        Kind::Online(shape) => {
            text += "tasks:\n";
            answers = tasks(&mut text, &mut draws, shape, "  ", 0);
        }
        Kind::Bands(high, low) => {
            text += "tasks:\n";
            tasks(&mut text, &mut draws, Shape { keys: ", domain: high", ..high }, "  ", 0);
            tasks(&mut text, &mut draws, Shape { keys: ", domain: low", ..low }, "  ", high.tasks as usize);
        }
        Kind::Inside(policy, shape) => {
            writeln!(text, "partitions:\n  - name: inner\n    policy: {policy}\n    processes:").expect("text");
            tasks(&mut text, &mut draws, shape, "      ", 0);
            text += "  - {name: other, processes: [{name: other, budget: 5ms, cmd: exec takt burn}]}\n";
            let (own, rest) = (draws.number(12, 25), draws.number(5, 9));
            write!(text, "windows:\n  - {{length: {own}ms, slices: [{{cpu: 0, sc_partition: inner}}]}}\n")
                .expect("text");
            writeln!(text, "  - {{length: {rest}ms, slices: [{{cpu: 0, sc_partition: other}}]}}").expect("text");
        }
        Kind::Table { signals, slice } => table(&mut text, &mut draws, signals, slice),
        Kind::Aperiodic => aperiodic(&mut text, &mut draws),
        Kind::PerJob => per_job(&mut text, &mut draws),
    }
    // On several CPUs small differences grow faster.
    let (least, most) = if cpus > 1 { (130, 200) } else { (230, 320) };
    let stretch = bears.stretch;
    let duration = Span::from_ms(draws.number(least, most) as i64) * stretch;
    text = stretched(&text, stretch);
    answers.iter_mut().for_each(|(_, time)| *time = *time * stretch);
    let instance = Instance { name: format!("{name}-{draw}"), text, duration, cpus, slack: bears.slack, answers };
    is_robust(&instance.text, duration, bears).then_some(instance)
}

/// The same text with all durations so many times as long. They are in milliseconds with at most one decimal.
fn stretched(text: &str, by: i64) -> String {
    let mut longer = String::new();
    let mut rest = text;
    while let Some(end) = rest.find("ms") {
        let begin = rest[..end].rfind(|c: char| !c.is_ascii_digit() && c != '.').map_or(0, |before| before + 1);
        let (whole, tenths) = rest[begin..end].split_once('.').unwrap_or((&rest[begin..end], "0"));
        longer += &rest[..begin];
        match (whole.parse::<u64>(), tenths.parse::<u64>()) {
            (Ok(whole), Ok(tenths)) => longer += &ms((whole * 10 + tenths) * by.unsigned_abs()),
            _ => longer += &format!("{}ms", &rest[begin..end]),
        }
        rest = &rest[end + 2..];
    }
    longer + rest
}

/// Tenths of a millisecond as a duration.
fn ms(tenths: u64) -> String {
    format!("{}.{}ms", tenths / 10, tenths % 10)
}

/// The tasks of a shape; the first one has this number.
/// The result has the tasks that wait for answers, and how long these take.
fn tasks(text: &mut String, draws: &mut Draws, shape: Shape, indent: &str, first: usize) -> Vec<(String, Span)> {
    let mut answers = Vec::new();
    let load = draws.number(shape.load.0, shape.load.1);
    let weights: Vec<u64> = (0..shape.tasks).map(|_| draws.number(1, 4)).collect();
    let total: u64 = weights.iter().sum();
    for (n, weight) in weights.iter().enumerate() {
        let period = draws.of(&[160, 200, 250, 300, 400, 500]);
        let deadline = if shape.constrained { period * draws.number(6, 9) / 10 } else { period };
        let need = (period * load * weight / total / 100).clamp(15, deadline * 9 / 10);
        let offset = draws.number(0, 30);
        let name = first + n;
        let last = n as u64 + 1 == shape.tasks;
        match shape.events {
            Events::After if n > 0 => {
                let (before, queue) = (n - 1, draws.number(1, 3));
                write!(
                    text,
                    "{indent}- {{name: t{name}, event: {{after: t{before}, queue: {queue}}}, deadline: {}",
                    ms(deadline)
                )
            }
            Events::Listed if last => {
                write!(
                    text,
                    "{indent}- {{name: t{name}, event: {{distance: {}}}, deadline: {}",
                    ms(period / 3),
                    ms(deadline)
                )
            }
            _ => write!(text, "{indent}- {{name: t{name}, period: {}, offset: {}", ms(period), ms(offset)),
        }
        .expect("text");
        if shape.constrained {
            write!(text, ", deadline: {}", ms(deadline)).expect("text");
        }
        if shape.budget && n % 2 == 0 {
            // A job that needs more than its budget.
            let budget = need * draws.number(5, 8) / 10;
            write!(text, ", runtime: {}, execution: {}, budget: {}", ms(budget), ms(need), ms(budget)).expect("text");
        } else {
            write!(text, ", runtime: {}", ms(need)).expect("text");
        }
        if shape.reservation {
            // Servers together have less than a CPU; one has less than its jobs need.
            let budget = (period * 85 / 100 / shape.tasks).max(10);
            write!(text, ", reservation: {{budget: {}, period: {}}}", ms(budget), ms(period)).expect("text");
        }
        if shape.utility {
            write!(text, ", utility: {}", draws.number(1, 30)).expect("text");
        }
        if shape.priority {
            write!(text, ", priority: {}", n + 1).expect("text");
        }
        let handler = if shape.handler { " --handler 1.5ms" } else { "" };
        if shape.handler {
            text.push_str(", handler: 1.5ms");
        }
        text.push_str(shape.keys);
        if let Some(steps) = steps(draws, shape, need, period, n) {
            writeln!(text, ", steps: [{steps}], init: yes, cmd: \"exec takt burn --steps '{steps}'{handler}\"}}")
                .expect("text");
            continue;
        }
        if shape.blocks {
            // The first task always blocks.
            let kind = draws.number(u64::from(n == 0), 3);
            let (steps, burns, answer) = blocking_steps(draws, kind, need, deadline);
            let files = answer.map_or(String::new(), |_| format!(" 3<>t{name}.answers 4<>t{name}.questions"));
            answers.extend(answer.map(|time| (format!("t{name}"), time)));
            writeln!(text, ", steps: [{steps}], init: yes, cmd: \"exec takt burn --steps '{burns}'{files}\"}}")
                .expect("text");
            continue;
        }
        if let Some((end, option)) = shape.observed {
            let need = ms(need);
            let cmd = format!("exec takt burn --runtime {need} --init 1ms {option}");
            writeln!(text, ", completion: {end}, init: yes, cmd: {cmd}}}").expect("text");
            continue;
        }
        let env = if shape.signals { "env -u TAKT_CLIENT " } else { "" };
        writeln!(text, ", init: yes, cmd: exec {env}takt burn --runtime {}{handler}}}", ms(need)).expect("text");
    }
    if shape.events == Events::Listed {
        text.push_str("changes:\n");
        let mut at = draws.number(20, 150);
        while at < 2200 {
            // Two events close to each other, which the distance separates.
            for at in [at, at + draws.number(5, 15)] {
                writeln!(text, "  - {{at: {}.5ms, task: t{}, release: yes}}", at / 10, shape.tasks - 1).expect("text");
            }
            at += draws.number(150, 500);
        }
    }
    answers
}

/// The steps of a job that needs so much, as the simulation and as its program has them, and how long the answer takes that it waits for.
fn blocking_steps(draws: &mut Draws, kind: u64, need: u64, deadline: u64) -> (String, String, Option<Span>) {
    let first = draws.number(1, need - 2);
    let rest = need - first;
    // A job that has its CPU whenever it is ready meets its deadline.
    let pause = draws.number(10, 60).min((deadline * 9 / 10).saturating_sub(need)).max(5);
    let (before, after, wait) = (ms(first), ms(rest), ms(pause));
    let sleeps = format!("run {before}, sleep {wait}, run {after}");
    match kind {
        0 => (format!("run {}", ms(need)), format!("run {}", ms(need)), None),
        1 => (sleeps.clone(), sleeps, None),
        2 => {
            let (one, other) = (ms(pause / 2), ms(pause - pause / 2));
            let middle = draws.number(1, rest - 1);
            let (middle, last) = (ms(middle), ms(rest - middle));
            let twice = format!("run {before}, sleep {one}, run {middle}, sleep {other}, run {last}");
            (twice.clone(), twice, None)
        }
        _ => {
            let answer = Span::from_us(pause as i64 * 100);
            (sleeps, format!("run {before}, write 4, read 3, run {after}"), Some(answer))
        }
    }
}

/// The steps of a task of such a shape, if it has any.
fn steps(draws: &mut Draws, shape: Shape, need: u64, period: u64, n: usize) -> Option<String> {
    if shape.locks {
        let section = (need / 3).max(4);
        let (before, after) = (draws.number(1, need - section - 2), need - section);
        // Two of three tasks end with their critical sections.
        let (before, after) = if n == 2 { (after, 0) } else { (before, after - before) };
        let tail = if after > 0 { format!(", run {}", ms(after)) } else { String::new() };
        return Some(format!("run {}, lock r, run {}, unlock r{tail}", ms(before), ms(section)));
    }
    if shape.calls && n != 1 {
        let other = period * draws.number(11, 15) / 10;
        let (first, call) = match n {
            0 => (period, format!("set-period {}", ms(other))),
            _ => (period, format!("set-runtime {}", ms(need * 9 / 10))),
        };
        let back = if n == 0 { format!("set-period {}", ms(first)) } else { format!("set-runtime {}", ms(need)) };
        let (half, rest) = (need / 2, need - need / 2);
        return Some(format!(
            "run {half}, {call}, run {rest}, wait-period, run {half}, {back}, run {rest}",
            half = ms(half),
            rest = ms(rest)
        ));
    }
    None
}

fn table(text: &mut String, draws: &mut Draws, signals: bool, slice: bool) {
    let length = draws.number(250, 500);
    let process = |text: &mut String, name: &str, draws: &mut Draws| {
        let budget = draws.number(30, length / 3);
        let need = budget * draws.number(4, 22) / 10;
        if signals {
            let (budget, need) = (ms(budget), ms(need));
            let cmd = format!("exec takt burn --runtime {need}");
            writeln!(text, "      - {{name: {name}, budget: {budget}, runtime: {need}, init: yes, cmd: {cmd}}}")
        } else {
            let keys = "completion: none, cmd: exec takt burn";
            writeln!(text, "      - {{name: {name}, budget: {}, {keys}}}", ms(budget))
        }
        .expect("text");
    };
    text.push_str("partitions:\n");
    for (partition, names) in [("A", ["a1", "a2"]), ("B", ["b1", "b2"])] {
        writeln!(text, "  - name: {partition}\n    processes:").expect("text");
        names.iter().for_each(|name| process(text, name, draws));
    }
    text.push_str("windows:\n");
    let lengths = if slice { vec![length, length / 2] } else { vec![length] };
    for length in lengths {
        let slices = "[{cpu: 0, sc_partition: A, be_partition: B}]";
        writeln!(text, "  - {{length: {}, slices: {slices}}}", ms(length)).expect("text");
    }
}

fn aperiodic(text: &mut String, draws: &mut Draws) {
    let period = draws.of(&[200, 250, 300]);
    let need = draws.number(40, 120);
    let mut at = draws.number(5, 60);
    let mut releases = Vec::new();
    while at < 2200 {
        // Not at an instant of the server.
        releases.push(format!("{}.{}5ms", at / 10, at % 10));
        at += draws.number(150, 700);
    }
    let budget = draws.number(20, 60);
    let (list, reserved) = (releases.join(", "), format!("{{budget: {}, period: {}}}", ms(budget), ms(period)));
    text.push_str("tasks:\n");
    let deadline = ms(draws.number(250, 600));
    let cmd = format!("exec takt burn --runtime {}", ms(need));
    let head = format!("{{name: ap, releases: [{list}], runtime: {}, deadline: {deadline}", ms(need));
    writeln!(text, "  - {head}, reservation: {reserved}, init: yes, cmd: {cmd}}}").expect("text");
    let (period, need) = (draws.of(&[300, 400, 500]), draws.number(100, 250));
    let cmd = format!("exec takt burn --runtime {}", ms(need));
    let head = format!("{{name: loop, period: {}, runtime: {}", ms(period), ms(need));
    writeln!(text, "  - {head}, init: yes, cmd: {cmd}}}").expect("text");
}

fn per_job(text: &mut String, draws: &mut Draws) {
    // The jobs of `long` are aborted, and replaced while the CPU is idle; those of `good` come in the middle. Their programs start
    // within their deadlines, which takes 7 to 14 ms without optimisation.
    let (period, need) = (draws.of(&[600, 700, 800]), draws.number(30, 90));
    let cmd = format!("exec takt burn --jobs 1 --runtime {}", ms(need));
    let head = format!("{{name: good, period: {}, offset: {}, deadline: 29ms", ms(period), ms(period / 2));
    text.push_str("tasks:\n");
    writeln!(text, "  - {head}, runtime: {}, spawn: per-job, cmd: {cmd}}}", ms(need)).expect("text");
    let need = draws.number(850, 990);
    let cmd = format!("exec takt burn --jobs 1 --runtime {}", ms(need));
    let head = format!("{{name: long, period: {}, runtime: 10ms, execution: {}", ms(period), ms(need));
    writeln!(text, "  - {head}, spawn: per-job, cmd: {cmd}}}").expect("text");
}
