//! Random workload files over all features.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt::{self, Debug, Write};
use std::sync::OnceLock;
use takt_core::model::{Kind, Need, PolicySpec, Scope};

/// One unit of drawn times. Divided by 3 it is no whole number of nanoseconds, and PD² has no shorter quantum here.
pub(crate) const UNIT: i64 = 1_000;
/// A multiple of all drawn periods, in units.
pub(crate) const HYPERPERIOD: i64 = 120;

/// All names of policies that schedule tasks.
pub(crate) fn forms() -> &'static [String] {
    static FORMS: OnceLock<Vec<String>> = OnceLock::new();
    FORMS.get_or_init(|| {
        let hosts = ["windows", "domains"];
        let names = takt_workload::registry().names().filter(|(_, plain)| !hosts.contains(plain));
        names.map(|(prefix, plain)| format!("{prefix}{plain}")).collect()
    })
}

/// Forms for which there are tests, so that most files get a verdict.
const TESTED: [&str; 24] = [
    "edf",
    "edf",
    "rm",
    "dm",
    "fp",
    "fp",
    "np-edf",
    "rr",
    "fifo",
    "g-edf",
    "g-fp",
    "g-rm",
    "p-edf",
    "p-fp",
    "p-rm",
    "edf-wm",
    "edf-cd",
    "polling-server",
    "sporadic-server",
    "deferrable-server",
    "cbs",
    "g-cbs",
    "p-cbs",
    "dasa",
];

/// A policy with values of its settings.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    name: String,
    /// By setting, a number that chooses its value, if any.
    values: Vec<Option<u8>>,
    placement: &'static str,
}

fn form() -> impl Strategy<Value = Form> {
    let name = prop_oneof![5 => select(&TESTED[..]).prop_map(str::to_owned), 4 => select(forms())];
    let values = vec(prop::option::weighted(0.4, any::<u8>()), 26);
    let placement = select(&["ffd", "ffd", "ff", "bf", "wf", "bfd", "wfd"][..]);
    (name, values, placement).prop_map(|(name, values, placement)| Form { name, values, placement })
}

impl Form {
    fn spec(&self) -> PolicySpec {
        let mut spec = takt_workload::registry().spec(&self.name).expect("a name of the list");
        let mut values = self.values.iter();
        for (index, setting) in spec.profile.settings.iter().enumerate() {
            let Some(Some(n)) = values.next() else { continue };
            let n = i64::from(*n);
            let value = match setting.kind {
                Kind::Duration(least, most) => {
                    [1, 2, 3, 5, 8][n as usize % 5].clamp(least.ns() / UNIT, most.ns() / UNIT) * UNIT
                }
                // Most gains of a control loop do not go together.
                Kind::Ratio(..) if n % 4 > 0 => continue,
                Kind::Ratio(least, most) => least + (most - least) / 255 * n,
                Kind::Count(least, most) => (least + n % 4).min(most),
                Kind::Choice(words) => n % words.len() as i64,
            };
            spec.values.set(index, Some(value));
        }
        // The guarantee needs periods that are multiples of the quantum.
        if let Some(index) = spec.profile.settings.iter().position(|s| spec.is_optimal() && s.name == "quantum") {
            spec.values.set(index, Some(UNIT));
        }
        if let (Scope::Clustered, Some(Some(n))) = (spec.scope, values.next()) {
            spec.cluster = 1 + u16::from(*n) % 3;
        }
        if let (true, Some(Some(n))) = (spec.maps(), values.next()) {
            spec.mapper = n % 2;
        }
        spec
    }
}

/// How jobs are released.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Releases {
    Periodic,
    /// Up to so much later.
    Sporadic(i64),
    /// Events at least a period apart, up to so much more; `None` is any time apart.
    Event(Option<i64>),
    /// A completed job of the task before.
    After,
    /// So many instants, a period apart.
    Listed(i64),
    Batch,
}

/// The program of the jobs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    Plain,
    /// The end of the job holds a resource.
    Locked(u8),
    /// It holds a resource and then the other one, too.
    Nested(u8),
    /// It sleeps for so long in the middle.
    Asleep(i64),
    /// It sleeps for so long and then holds a resource.
    AsleepLocked(i64, u8),
    /// It holds a resource while it sleeps for so long.
    LockedAsleep(i64, u8),
    Yields,
    /// Jobs take turns between a third and two thirds of the runtime.
    Turns,
    /// It requests a longer period, or a shorter one.
    Calls(bool),
    /// Jobs need from half of the runtime to all of it.
    Uniform,
    /// Jobs need the runtime and half of it in turn.
    Series,
    /// Every second job needs more than the runtime.
    Overruns,
}

/// Further keys of a task.
#[derive(Clone, Debug)]
pub(crate) struct More {
    /// No deadline.
    undated: bool,
    /// A budget so much above the runtime, and its jitter.
    budget: Option<(i64, i64)>,
    /// A handler of so long, with a deadline.
    handler: Option<(i64, Option<i64>)>,
    on_abort: &'static str,
    /// Budget and period of a reservation in percent of runtime and period, and whether it has a deadline.
    reserved: Option<(i64, i64, bool)>,
    /// It is behind the shared server.
    shares: bool,
    /// It may run on CPU 0 alone.
    bound: bool,
    /// It never completes.
    endless: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    period: i64,
    /// Its part of the utilisation.
    weight: f64,
    tight: f64,
    offset: i64,
    releases: Releases,
    shape: Shape,
    priority: u32,
    more: More,
}

fn row() -> impl Strategy<Value = Row> {
    let periods = select(&[4i64, 5, 6, 8, 10, 12, 20, 24, 30][..]);
    let releases = prop_oneof![
        20 => Just(Releases::Periodic),
        6 => (1i64..12).prop_map(Releases::Sporadic),
        2 => prop::option::weighted(0.8, 0i64..6).prop_map(Releases::Event),
        1 => Just(Releases::After),
        1 => (1i64..4).prop_map(Releases::Listed),
        1 => Just(Releases::Batch),
    ];
    let shape = prop_oneof![
        40 => Just(Shape::Plain),
        5 => (0u8..2).prop_map(Shape::Locked),
        2 => (0u8..2).prop_map(Shape::Nested),
        5 => (1i64..8).prop_map(Shape::Asleep),
        1 => (1i64..4, 0u8..2).prop_map(|(by, r)| Shape::AsleepLocked(by, r)),
        1 => (1i64..4, 0u8..2).prop_map(|(by, r)| Shape::LockedAsleep(by, r)),
        2 => Just(Shape::Yields),
        2 => Just(Shape::Turns),
        1 => any::<bool>().prop_map(Shape::Calls),
        2 => Just(Shape::Uniform),
        1 => Just(Shape::Series),
        1 => Just(Shape::Overruns),
    ];
    let more = (
        prop::bool::weighted(0.06),
        prop::option::weighted(0.06, (0i64..3, select(&[0i64, 0, 1][..]))),
        prop::option::weighted(0.05, (1i64..3, prop::option::of(2i64..6))),
        select(&["", "", "", "", "", "", "", "", "", "finish", "restart"][..]),
        prop::option::weighted(0.4, (50i64..160, select(&[50i64, 100, 100, 110][..]), prop::bool::weighted(0.6))),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.08),
        prop::bool::weighted(0.005),
    );
    let more = more.prop_map(|(undated, budget, handler, on_abort, reserved, shares, bound, endless)| More {
        undated,
        budget,
        handler,
        on_abort,
        reserved,
        shares,
        bound,
        endless,
    });
    (periods, 0.05f64..1.0, 0.0f64..1.8, 0i64..8, releases, shape, 0u32..4, more).prop_map(
        |(period, weight, tight, offset, releases, shape, priority, more)| Row {
            period,
            weight,
            tight,
            offset,
            releases,
            shape,
            priority,
            more,
        },
    )
}

/// How the machine is divided.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Layout {
    One,
    /// Domains side by side.
    Domains,
    /// Bands of all CPUs.
    Bands,
    /// Two bands of all CPUs but the last, and a domain of that one.
    Mixed,
    Windows,
}

/// A window: its length, and by number the safety-critical and the best-effort partition; 2 and more are none.
pub(crate) type Window = (i64, u8, u8);

#[derive(Clone)]
pub(crate) struct File {
    rows: Vec<Row>,
    /// Utilisation of each CPU.
    utilisation: f64,
    forms: Vec<Form>,
    cpus: i64,
    layout: Layout,
    windows: Vec<Window>,
    /// Whether each partition has a policy.
    guests: (bool, bool),
    offsets: bool,
    plain: bool,
    rules: Rules,
    machine: Machine,
}

/// Its text: a failed property prints the file.
impl Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self))
    }
}

/// Rules of the whole system.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    backlog: &'static str,
    late: &'static str,
    locking: &'static str,
    be_start: &'static str,
    seed: u8,
}

/// Properties of the simulated machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Tick, resolution and lateness, in half units.
    timing: (i64, i64, i64),
    load: Option<(u32, u32)>,
    /// The cost with this number, how much, and whether it consumes budgets.
    costs: Option<(usize, i64, bool)>,
    each: bool,
    steal: Option<i64>,
    change: Option<u8>,
    /// Speed of the CPUs in percent.
    speed: Option<i64>,
}

const COSTS: [&str; 7] =
    ["context_switch", "migration", "cache_reload", "scheduler", "scheduler_task", "lock", "interrupt"];

pub(crate) fn file() -> impl Strategy<Value = File> {
    let rules = (
        prop_oneof![
            8 => Just(""),
            1 => Just("backlog: skip\n"),
            1 => Just("preset: chronos\n"),
            1 => Just("preset: hartstone\n"),
        ],
        prop_oneof![4 => Just("continue"), 1 => Just("abort"), 1 => Just("abort-at-event")],
        select(&["inheritance", "ceiling", "fifo"][..]),
        select(&["all", "slice"][..]),
        any::<u8>(),
    );
    let rules =
        rules.prop_map(|(backlog, late, locking, be_start, seed)| Rules { backlog, late, locking, be_start, seed });
    let machine = (
        prop_oneof![
            20 => Just((0i64, 0i64, 0i64)),
            1 => (1i64..4).prop_map(|tick| (tick, 0, 0)),
            1 => (0i64..2, 0i64..3, 0i64..3),
        ],
        prop::option::weighted(0.05, (60u32..130, 60u32..130)),
        prop::option::weighted(0.05, (0usize..7, 50i64..600, any::<bool>())),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.03, 100i64..900),
        prop::option::weighted(0.05, any::<u8>()),
        prop::option::weighted(0.03, select(&[50i64, 80, 100, 130][..])),
    );
    let machine = machine.prop_map(|(timing, load, costs, each, steal, change, speed)| Machine {
        timing,
        load,
        costs,
        each,
        steal,
        change,
        speed,
    });
    let layout = prop_oneof![
        12 => Just(Layout::One),
        2 => Just(Layout::Domains),
        2 => Just(Layout::Bands),
        1 => Just(Layout::Mixed),
        3 => Just(Layout::Windows),
    ];
    let windows = (vec((2i64..12, 0u8..3, 0u8..6), 2..5), (prop::bool::weighted(0.8), prop::bool::weighted(0.6)));
    let size = (vec(row(), 1..7), 0.1f64..1.2, 1i64..5);
    let flags = (prop::bool::weighted(0.3), prop::bool::weighted(0.5));
    (size, vec(form(), 3), layout, windows, flags, rules, machine).prop_map(
        |((rows, utilisation, cpus), forms, layout, (windows, guests), (offsets, plain), rules, machine)| File {
            rows,
            utilisation,
            forms,
            cpus,
            layout,
            windows,
            guests,
            offsets,
            plain,
            rules,
            machine,
        },
    )
}

fn units(n: i64) -> String {
    format!("{}ns", n * UNIT)
}

/// The keys of a task, without its name and place.
fn keys(file: &File, index: usize, row: &Row, utilisation: f64, specs: &[PolicySpec], shared: bool) -> Option<String> {
    let needs = |need: Need| specs.iter().any(|spec| spec.profile.needs.contains(&need));
    let servers = specs.iter().any(|spec| spec.servers().is_some() || spec.reservations().is_some());
    let constrained = specs.iter().all(|spec| spec.reservations().is_some_and(|r| r.constrained));
    let hartstone = file.rules.backlog.contains("hartstone");
    let (period, shape) = (row.period, if file.plain { Shape::Plain } else { row.shape });
    let all: f64 = file.rows.iter().map(|row| row.weight).sum();
    let runtime = ((period as f64 * utilisation * row.weight / all).round() as i64).clamp(1, period);
    let deadline = match row.tight {
        _ if hartstone => period,
        t if t <= 0.8 => runtime + (t / 0.8 * (period - runtime) as f64) as i64,
        t if t <= 1.5 => period,
        t => period + ((t - 1.5) * 6.0 * period as f64) as i64,
    };
    let mut text = String::new();
    let offset = if file.offsets { row.offset } else { 0 };
    let mut key = |name: &str, value: String| write!(text, ", {name}: {value}").is_ok();
    let periods = file.plain || hartstone || needs(Need::Period) && !matches!(row.releases, Releases::Sporadic(_));
    let releases = if periods { Releases::Periodic } else { row.releases };
    match releases {
        Releases::Periodic => key("period", units(period)),
        Releases::Sporadic(spread) => key("period", units(period)) && key("spread", units(spread)),
        Releases::Event(Some(spread)) => {
            key("event", format!("{{distance: {}, spread: {}}}", units(period), units(spread)))
        }
        Releases::Event(None) => key("event", format!("{{releases: [{}, {}]}}", units(offset), units(offset + period))),
        Releases::After if index > 0 => key("event", format!("{{after: t{}, distance: {}}}", index - 1, units(period))),
        Releases::After => key("period", units(period)),
        Releases::Listed(jobs) => {
            let instants: Vec<String> = (0..jobs).map(|job| units(offset + period * job)).collect();
            key("releases", format!("[{}]", instants.join(", ")))
        }
        Releases::Batch => key("batch", "yes".into()),
    };
    if offset > 0 && matches!(releases, Releases::Periodic | Releases::Sporadic(_) | Releases::Batch) {
        key("offset", units(offset));
    }
    let repeats = !matches!(releases, Releases::Listed(_) | Releases::Batch | Releases::Event(None));
    key(
        "deadline",
        if !needs(Need::Deadline) && (row.more.undated || !repeats && row.tight < 1.0) {
            "none".into()
        } else {
            units(deadline)
        },
    );
    let [all, third] = [runtime * UNIT, runtime * UNIT / 3];
    let rest = all - third;
    let run = |span: i64| format!("run {span}ns");
    let steps = match shape {
        Shape::Locked(r) => vec![run(third), format!("lock r{r}"), run(rest), format!("unlock r{r}")],
        Shape::Nested(r) => {
            let [outer, inner] = [r, 1 - r];
            let locks = [format!("lock r{outer}"), run(third), format!("lock r{inner}"), run(rest)];
            [&locks[..], &[format!("unlock r{inner}"), format!("unlock r{outer}")]].concat()
        }
        Shape::Asleep(by) => vec![run(third), format!("sleep {}", units(by)), run(rest)],
        Shape::AsleepLocked(by, r) => {
            let sleep = [run(third), format!("sleep {}", units(by))];
            [&sleep[..], &[format!("lock r{r}"), run(rest), format!("unlock r{r}")]].concat()
        }
        Shape::LockedAsleep(by, r) => {
            let sleep = [format!("lock r{r}"), run(third), format!("sleep {}", units(by))];
            [&sleep[..], &[run(rest), format!("unlock r{r}")]].concat()
        }
        Shape::Yields => vec![run(third), "yield".into(), run(rest)],
        Shape::Turns => vec![run(third), "wait-period".into(), run(rest)],
        Shape::Calls(longer) => {
            vec![run(third), format!("set-period {}", units(if longer { period * 2 } else { period })), run(rest)]
        }
        _ => Vec::new(),
    };
    key("runtime", format!("{all}ns"));
    match shape {
        Shape::Uniform => key("execution", format!("{{least: {}ns, most: {all}ns}}", (all / 2).max(1))),
        Shape::Series => key("execution", format!("[{all}ns, {}ns]", (all / 2).max(1))),
        Shape::Overruns => key("execution", format!("[{all}ns, {}ns]", all + UNIT)),
        _ if !steps.is_empty() => key("steps", format!("[{}]", steps.join(", "))),
        _ => true,
    };
    if !file.plain {
        let more = &row.more;
        if let Some((more, jitter)) = more.budget {
            key("budget", units(runtime + more));
            if jitter > 0 {
                key("jitter", units(jitter));
            }
        }
        match more.handler {
            Some((runtime, None)) => key("handler", units(runtime)),
            Some((runtime, Some(by))) => {
                key("handler", format!("{{runtime: {}, deadline: {}}}", units(runtime), units(by)))
            }
            None if !more.on_abort.is_empty() => key("on_abort", more.on_abort.into()),
            None => true,
        };
        if row.more.bound && file.layout == Layout::One {
            key("cpu", "0".into());
        }
        if row.more.endless {
            key("completion", "none".into());
        }
    }
    if shared && row.more.shares {
        key("server", "served".into());
    } else if let (true, Some((budget, every, with))) = (servers, row.more.reserved) {
        let every = row.period * UNIT * every / 100;
        let budget = (all * budget / 100).max(1).min(every);
        let within =
            if with && constrained { format!(", deadline: {}ns", (budget + every) / 2) } else { String::new() };
        key("reservation", format!("{{budget: {budget}ns, period: {every}ns{within}}}"));
    }
    key("priority", row.priority.to_string());
    if needs(Need::Utility) {
        key("utility", (row.priority + 1).to_string());
    }
    Some(text)
}

/// The form for several CPUs of a policy for one.
fn for_several(spec: PolicySpec) -> PolicySpec {
    let scope = [Scope::Partitioned, Scope::Global].into_iter().find(|scope| spec.profile.scopes.contains(scope));
    let alone = spec.scope == Scope::Uniprocessor;
    PolicySpec { scope: scope.filter(|_| alone).unwrap_or(spec.scope), ..spec }
}

/// The file as text.
pub(crate) fn text(file: &File) -> String {
    let mut specs: Vec<PolicySpec> = file.forms.iter().map(Form::spec).collect();
    if file.layout == Layout::Windows && file.offsets
        || [Layout::Domains, Layout::Bands, Layout::Mixed].contains(&file.layout) && file.cpus > 2
    {
        specs.iter_mut().for_each(|spec| *spec = for_several(*spec));
    }
    let named = |part: usize| takt_workload::policy_text(&specs[part]);
    let single = specs[0].scope == Scope::Uniprocessor && !specs[0].is_optimal() && specs[0].splits().is_none();
    let cpus = match file.layout {
        Layout::One if single => 1,
        Layout::Windows => 1 + i64::from(file.cpus > 3),
        Layout::Mixed => file.cpus.max(2),
        _ => file.cpus,
    };
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").is_ok();
    let Rules { backlog, late, locking, be_start, seed } = &file.rules;
    let hartstone = backlog.contains("hartstone");
    line(format!("seed: {seed}"));
    if *late != "continue" && !hartstone {
        line(format!("late: {late}"));
    }
    if !backlog.is_empty() {
        line(backlog.trim_end().to_owned());
    }
    line(format!("locking: {locking}"));
    let Machine { timing: (tick, resolution, lateness), load, costs, each, steal, change, speed } = &file.machine;
    for (key, span) in [("tick", tick), ("timer_resolution", resolution), ("timer_lateness", lateness)] {
        if *span > 0 {
            line(format!("{key}: {}ns", span * UNIT / 2));
        }
    }
    if let Some((from, to)) = load {
        line(match from == to {
            true => format!("load: {from}%"),
            false => format!("load: {{ramp: {{from: {from}%, to: {to}%, over: {}}}}}", units(HYPERPERIOD)),
        });
    }
    if let Some((which, cost, consumed)) = costs {
        let consumed = if *consumed { "" } else { ", consumed: no" };
        line(format!("costs: {{{}: {cost}ns{consumed}}}", COSTS[*which]));
    }
    if *each {
        line("deciding: each".into());
    }
    if let Some(length) = steal {
        line(format!("steal: {{period: {}, length: {length}ns}}", units(5)));
    }
    if let Some(speed) = speed {
        let cluster = format!(
            "{{cpus: 0-{}, capacitance: 1nF, frequencies: [{{mhz: 1000, voltage: 1V, speed: {speed}%}}]}}",
            cpus - 1
        );
        line(format!("platform: {{clusters: [{cluster}]}}"));
    }
    if let Some(change) = change {
        let task = usize::from(*change) % file.rows.len();
        let period = units(file.rows[task].period * 2);
        line("changes:".into());
        match change / 64 {
            0 => line(format!("- {{at: 20us, task: t{task}, block: yes}}\n- {{at: 40us, task: t{task}, wake: yes}}")),
            1 => line(format!("- {{at: 20us, task: t{task}, period: {period}}}")),
            2 => line(format!("- {{at: 20us, task: t{task}, leave: yes}}\n- {{at: 45us, task: t{task}, enter: yes}}")),
            _ => line(format!("- {{at: 20us, task: t{task}, runtime: 1us}}")),
        };
    }
    let shared =
        file.layout == Layout::One && specs[0].servers().is_some() && file.rows.iter().any(|row| row.more.shares);
    // A partition has a part of the time.
    let utilisation = file.utilisation * if file.layout == Layout::Windows { 0.5 } else { cpus as f64 };
    let used = match file.layout {
        Layout::One => &specs[..1],
        Layout::Windows => &specs[..2],
        _ => &specs[..],
    };
    let of = |index: usize| keys(file, index, &file.rows[index], utilisation, used, shared);
    if shared {
        line(format!("servers: [{{name: served, budget: {}, period: {}, priority: 2}}]", units(2), units(8)));
    }
    let shares = specs.iter().any(|spec| spec.gives_shares());
    let share =
        |row: &Row| if shares { format!(", share: {}%", 5 + (row.weight * 40.0) as i64) } else { String::new() };
    if file.layout == Layout::Windows {
        line(format!("be_start: {be_start}"));
        line("partitions:".into());
        for part in 0..2 {
            let hosted = if part == 0 { file.guests.0 } else { file.guests.1 };
            let policy = match named(part) {
                _ if !hosted => String::new(),
                name if name == "fifo" => "policy: p-fifo, ".into(),
                name => format!("policy: \"{name}\", placement: {}, ", file.forms[part].placement),
            };
            line(format!("- {{name: p{part}, {policy}processes: ["));
            for (index, row) in file.rows.iter().enumerate().filter(|(index, _)| index % 2 == part) {
                if hosted {
                    line(format!("  {{name: t{index}{}{}}},", of(index).unwrap_or_default(), share(row)));
                } else {
                    let runtime = ((row.weight * 4.0) as i64).max(1);
                    let jitter = if row.offset > 6 { format!(", jitter: {}", units(1)) } else { String::new() };
                    let slack = row.priority as i64;
                    line(format!(
                        "  {{name: t{index}, budget: {}, runtime: {}{jitter}}},",
                        units(runtime + slack),
                        units(runtime)
                    ));
                }
            }
            line("  ]}".into());
        }
        line("windows:".into());
        let several = specs[0].scope == Scope::Global;
        for (index, (length, sc, be)) in file.windows.iter().enumerate() {
            // Both partitions are in a window.
            let sc = if index < 2 { &(index as u8) } else { sc };
            let name = |part: u8, key: &str| if part < 2 { format!(", {key}: p{part}") } else { String::new() };
            let be = if be == sc { 2 } else { *be };
            let cpu = if cpus > 1 && several { "0-1" } else { "0" };
            let (sc, be) = (name(*sc, "sc_partition"), name(be, "be_partition"));
            let lends = if sc.is_empty() && be.is_empty() { String::new() } else { format!(", cpu: {cpu}") };
            line(format!("- {{length: {}{lends}{sc}{be}}}", units(*length)));
        }
        return text;
    }
    let parts = match file.layout {
        Layout::One => 1,
        Layout::Domains => cpus.min(2) as usize,
        _ => 3,
    };
    let part_cpus = |part: usize| match file.layout {
        Layout::Domains if cpus > 1 && part == 0 => "0".to_owned(),
        Layout::Domains if cpus > 1 => format!("1-{}", cpus - 1),
        Layout::Mixed if part == 2 => format!("{}", cpus - 1),
        Layout::Mixed => format!("0-{}", cpus - 2),
        _ => format!("0-{}", cpus - 1),
    };
    if file.layout == Layout::One {
        line(format!("cpus: 0-{}", cpus - 1));
        line(format!("policy: \"{}\"", named(0)));
        if specs[0].uses_placement() {
            line(format!("placement: {}", file.forms[0].placement));
        }
    } else {
        line("domains:".into());
        for (part, spec) in specs.iter().enumerate().take(parts) {
            let placement = if spec.uses_placement() {
                format!(", placement: {}", file.forms[part].placement)
            } else {
                String::new()
            };
            let (cpus, band) = (part_cpus(part), parts - part);
            line(format!("- {{name: d{part}, cpus: {cpus}, band: {band}, policy: \"{}\"{placement}}}", named(part)));
        }
    }
    line("tasks:".into());
    for (index, row) in file.rows.iter().enumerate() {
        let domain = if file.layout == Layout::One { String::new() } else { format!(", domain: d{}", index % parts) };
        line(format!("- {{name: t{index}{domain}{}{}}}", of(index).unwrap_or_default(), share(row)));
    }
    text
}
