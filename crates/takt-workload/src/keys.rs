//! The keys of a workload file: each with the kind of its value, its meaning, and its use in each driver.
//!
//! The reader accepts these keys, the warnings of the drivers come from them, the tables of `docs/workload.md` are written from them, and `takt schema`
//! prints them. A new key is a row here, and its treatment by the reader.

use crate::limits::{MAX_ENTRIES, MAX_PRIORITY, MAX_TASKS, MOST_EXEC, MOST_QUEUED};
use crate::quantity::{self, Quantity};
use crate::value::UNITS;
use crate::words::{self, PREFERENCES, SIGNALS_TO_PROGRAMS, SIGNALS_TO_RUNS, words};
use takt_core::model::Placement;

/// The meaning of a key for a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// It is carried out.
    Honoured,
    /// It describes the side of the other driver, and means nothing here.
    OtherSide,
    /// It is not carried out. Jobs end as they would without it.
    Ignored,
    /// It is carried out in the partitions that have a policy, and means nothing in the others.
    InPart,
    /// It is not carried out, and with it jobs would end otherwise.
    Differs,
    /// One of the above, by the workload.
    Depends,
}
use Use::{Depends, Honoured, OtherSide};

/// The kind of the values of a key.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A single value.
    Text,
    /// The same, as the name of something else in the file or the machine.
    Name,
    /// An address with a port: `127.0.0.1:5000`, or `[::1]:5000`.
    Address,
    /// Nothing.
    Empty,
    /// One of these words. `yes` and `no` are also the other words of YAML 1.1 for them.
    Word {
        /// The words.
        words: &'static [&'static str],
        /// The one that holds without the key.
        default: Option<&'static str>,
    },
    /// A word, an equals sign, and a value: `signal=USR1`.
    Named {
        /// The word with the sign.
        prefix: &'static str,
        /// A beginning that the value may have.
        optional: &'static str,
        /// The values.
        values: &'static [&'static str],
    },
    /// A word, an equals sign, and a whole number: `fifo=20`.
    Numbered {
        /// The word with the sign.
        prefix: &'static str,
        /// The highest number; the lowest one is 1.
        most: u64,
    },
    /// Yes or no, in the words of YAML 1.1.
    Boolean {
        /// The one that holds without the key.
        default: Option<bool>,
    },
    /// Yes alone, in the words of YAML 1.1.
    Yes,
    /// A whole number.
    Whole {
        /// The lowest one.
        least: u64,
        /// The highest one.
        most: u64,
    },
    /// A number with a unit of time.
    Duration {
        /// Whether a number without a unit is milliseconds.
        bare: bool,
        /// Whether it can be zero.
        zero: bool,
    },
    /// A duration that can be negative.
    Signed,
    /// A number with at most six decimals.
    Ratio {
        /// Whether it can be zero.
        zero: bool,
        /// Whether it can be a percentage.
        percent: bool,
        /// The highest one.
        most: u32,
    },
    /// A number of megahertz above zero.
    Frequency,
    /// A temperature in degrees Celsius from -40 to 150.
    Celsius,
    /// A number with a unit of this quantity.
    Quantity {
        /// The quantity.
        of: &'static Quantity,
        /// Whether it can be zero.
        zero: bool,
    },
    /// Numbers and ranges of CPUs.
    Cpus {
        /// Whether it can be `all`.
        all: bool,
    },
    /// An octal number up to 777.
    Octal,
    /// A policy, as text or mapping.
    Policy,
    /// The settings of a policy, without its name. Each can be `default`.
    Settings,
    /// A power policy, as text or mapping.
    Power,
    /// A step of a job: one of these keys as a mapping, or with its value as text.
    Step,
    /// A process: its command, or a mapping.
    Process,
    /// A partition: a mapping, or a list of processes.
    Partition,
    /// Variables of an environment; an empty one is removed.
    Variables,
    /// Limits of a process by their names.
    Limits,
    /// A mapping from sets of CPUs.
    ByCpus(&'static Kind),
    /// A mapping from names.
    ByName(&'static Kind),
    /// A mapping with these keys.
    Map {
        /// Its name in the manual.
        name: &'static str,
        /// Its keys.
        keys: &'static [Key],
    },
    /// A mapping with exactly one of these keys.
    One {
        /// Its name in the manual.
        name: &'static str,
        /// The keys.
        keys: &'static [Key],
    },
    /// A list.
    List {
        /// The kind of its entries.
        of: &'static Kind,
        /// Whether it can be empty.
        empty: bool,
    },
    /// A list of two.
    Pair(&'static [Kind; 2]),
    /// One of these kinds.
    Either(&'static [Kind]),
}

impl Kind {
    /// Its name in the type column of a table of the manual; empty if each key writes it by itself.
    fn text(&self) -> String {
        let marked = |word: &str, default: bool| if default { format!("**{word}**") } else { word.to_owned() };
        match self {
            Kind::Text => "text".into(),
            Kind::Name => "name".into(),
            Kind::Word { words, default } => {
                let all = words.iter().map(|word| marked(&format!("`{word}`"), *default == Some(word)));
                all.collect::<Vec<_>>().join(", ")
            }
            Kind::Boolean { default } => {
                format!("{}/{}", marked("yes", *default == Some(true)), marked("no", *default == Some(false)))
            }
            Kind::Yes => "yes".into(),
            Kind::Whole { .. } => "whole number".into(),
            Kind::Duration { bare: true, .. } => "ms".into(),
            Kind::Duration { .. } => "duration".into(),
            Kind::Signed => "duration, may be negative".into(),
            Kind::Ratio { .. } => "ratio".into(),
            Kind::Frequency => "number of MHz".into(),
            Kind::Cpus { .. } => "CPUs".into(),
            Kind::Policy => "[policy](#policy)".into(),
            Kind::Power => "power policy".into(),
            Kind::Step => "[step](#step)".into(),
            Kind::Process => "[process](#process)".into(),
            Kind::Partition => "[partition](#partition)".into(),
            Kind::Map { name, .. } => format!("[{name}](#{name})"),
            Kind::List { of, .. } => {
                let one = of.text();
                let several = one.strip_prefix('[').and_then(|link| link.split_once(']'));
                match several {
                    Some((name, target)) => format!("list of [{name}s]{target}"),
                    None => format!("list of {one}s"),
                }
            }
            Kind::Either(kinds) => kinds.iter().map(Kind::text).collect::<Vec<_>>().join(", or "),
            _ => String::new(),
        }
    }
}

/// A key of a mapping in a workload file.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As it is written in the file.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Its values in Markdown, where they are not those of the kind.
    written: Option<&'static str>,
    /// A remark on its values in Markdown, such as a default in parentheses.
    note: &'static str,
    /// Its meaning in Markdown, with links of `docs/workload.md`.
    pub meaning: &'static str,
    /// Whether the mapping must have it.
    pub required: bool,
    /// Its use in a simulation.
    pub simulation: Use,
    /// Its use in a run over processes.
    pub run: Use,
}

/// A key that both drivers carry out.
const fn key(name: &'static str, kind: Kind, note: &'static str, meaning: &'static str) -> Key {
    Key { name, kind, written: None, note, meaning, required: false, simulation: Honoured, run: Honoured }
}

/// A key with a meaning that its manual explains elsewhere.
const fn part(name: &'static str, kind: Kind, meaning: &'static str) -> Key {
    key(name, kind, "", meaning)
}

impl Key {
    /// The mapping must have it.
    const fn required(self) -> Key {
        Key { required: true, ..self }
    }
    /// The manual writes its values so.
    const fn written(self, values: &'static str) -> Key {
        Key { written: Some(values), ..self }
    }
    /// It describes the simulated machine, or simulated work.
    const fn simulated(self) -> Key {
        self.used(Honoured, OtherSide)
    }
    /// It describes processes, or Takt's work on them.
    const fn real(self) -> Key {
        self.used(OtherSide, Honoured)
    }
    const fn used(self, simulation: Use, run: Use) -> Key {
        Key { simulation, run, ..self }
    }

    /// Its values in Markdown. A default is bold or in parentheses.
    #[must_use]
    pub fn values(&self) -> String {
        let kind = self.written.map_or_else(|| self.kind.text(), str::to_owned);
        let required = if self.required { "(required)" } else { "" };
        let mut text = kind;
        for remark in [self.note, required].into_iter().filter(|remark| !remark.is_empty()) {
            if !remark.starts_with(',') {
                text.push(' ');
            }
            text.push_str(remark);
        }
        text
    }

    /// Its row in a table of the manual: key, values, meaning. *S* marks keys of simulations, *R* keys of runs.
    fn row(&self) -> [String; 3] {
        let mark = match (self.simulation, self.run) {
            (Honoured, OtherSide) => "*S*",
            (OtherSide, Honoured) => "*R*",
            _ => "",
        };
        let meaning = match (mark, self.meaning.ends_with('.')) {
            ("", _) => self.meaning.to_owned(),
            (_, true) => format!("{} {mark}", self.meaning),
            (_, false) => format!("{}. {mark}", self.meaning),
        };
        [format!("`{}`", self.name), self.values(), meaning]
    }
}

/// The names of keys.
pub(crate) const fn names<const N: usize>(keys: &[Key; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = keys[at].name;
        at += 1;
    }
    names
}

/// All tables, each with its name in the manual.
pub const ALL: [(&str, &[Key]); 11] = [
    ("file", &FILE),
    ("domain", &DOMAIN),
    ("server", &SERVER),
    ("window", &WINDOW),
    ("slice", &SLICE),
    ("partition", &PARTITION),
    ("process", &PROCESS),
    ("task", &TASK),
    ("event", &EVENT),
    ("costs", &COSTS),
    ("change", &CHANGE),
];

/// Whether the keys of this table of [`ALL`] have their own uses in the drivers. The other tables have the use of the key whose values they are.
#[must_use]
pub fn has_drivers(table: &str) -> bool {
    !["event", "costs", "change"].contains(&table)
}

/// The keys that drivers may treat differently, each name once. O(keys²).
pub(crate) fn of_drivers() -> Vec<Key> {
    let mut found: Vec<Key> = Vec::new();
    for key in ALL.iter().filter(|(table, _)| has_drivers(table)).flat_map(|(_, keys)| *keys) {
        if !found.iter().any(|other| other.name == key.name) {
            found.push(*key);
        }
    }
    found
}

/// A table of the manual by its name in [`ALL`], as lines of Markdown with aligned columns.
///
/// # Errors
/// There is no table of this name.
pub fn manual(name: &str) -> Result<String, String> {
    let (_, keys) =
        ALL.iter().find(|(of, _)| *of == name).ok_or_else(|| format!("there is no table `{name}` of keys"))?;
    let last = if name == "costs" { "paid" } else { "meaning" };
    let head = ["key", "type (default)", last].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(head).chain(keys.iter().map(Key::row)).collect();
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2].map(widest);
    // Wide rows would only be wider.
    let widths = if widths.iter().sum::<usize>() < LINE { widths } else { [0; 3] };
    let line = |[key, values, meaning]: &[String; 3]| {
        let [first, second, third] = widths;
        let line = format!("| {key:first$} | {values:second$} | {meaning:third$} |\n");
        // An empty cell is no two spaces.
        if first == 0 { line.replace("|  |", "| |") } else { line }
    };
    let rule = widths.map(|width| "-".repeat(if width == 0 { 3 } else { width + 2 }));
    let (head, rows) = rows.split_first().expect("the head");
    Ok(line(head) + &format!("|{}|\n", rule.join("|")) + &rows.iter().map(line).collect::<String>())
}

/// The longest line of a table whose columns are aligned, without the borders.
const LINE: usize = 160;

/// The names of all keys at a place of a workload file: `"a workload"`, `"a task"`, `"a process"` or `"a partition"`. Empty for another place.
#[must_use]
pub fn keys_of(place: &str) -> Vec<&'static str> {
    let keys = match place {
        "a workload" => FILE.to_vec(),
        "a task" => TASK.to_vec(),
        "a process" => process(),
        "a partition" => partition(),
        _ => Vec::new(),
    };
    keys.iter().map(|key| key.name).collect()
}

/// The keys of a process.
#[must_use]
pub fn process() -> Vec<Key> {
    let own = |name: &str| PROCESS.iter().chain(&TASK).find(|key| key.name == name).copied();
    ["name"].into_iter().chain(of_processes()).filter_map(own).collect()
}

/// The keys of a partition. With keys of a process and without `processes` it is one process.
#[must_use]
pub fn partition() -> Vec<Key> {
    PARTITION.into_iter().chain(process().into_iter().skip(1)).collect()
}

/// The keys of a process beside its name, and of a partition that is one process. Its CPUs are those of its slices.
pub(crate) fn of_processes() -> impl Iterator<Item = &'static str> {
    names(&TASK).into_iter().filter(|key| !["name", "copies", "cpu", "domain", "class"].contains(key))
}

/// Keys of DEmOS's past that its own test files still have, in processes and partitions; `frequency` took their place.
pub const STALE: [&str; 2] = ["_a53_freq", "_a72_freq"];

/// The units of durations.
pub fn units_of_time() -> impl Iterator<Item = &'static str> {
    UNITS.into_iter().map(|(name, _)| name)
}

const U32: u64 = u32::MAX as u64;
const DURATION: Kind = Kind::Duration { bare: false, zero: false };
const INSTANT: Kind = Kind::Duration { bare: false, zero: true };
const MS: Kind = Kind::Duration { bare: true, zero: false };
const MS_OR_ZERO: Kind = Kind::Duration { bare: true, zero: true };
const CPUS: Kind = Kind::Cpus { all: true };
const SHARE: Kind = Kind::Ratio { zero: false, percent: true, most: 1 };
/// A factor of a load.
const FACTOR: Kind = Kind::Ratio { zero: false, percent: true, most: 100 };
/// A factor of a series, and the speed of a CPU.
const SCALE: Kind = Kind::Ratio { zero: false, percent: true, most: 1000 };
/// An amount of utility.
const AMOUNT: Kind = Kind::Ratio { zero: true, percent: false, most: 1_000_000_000 };

const LATE_WORDS: [&str; 3] = words(&words::LATE);
const DECIDING_WORDS: [&str; 4] = words(&words::DECIDING);
const BACKLOG_WORDS: [&str; 2] = words(&words::BACKLOG);
const PRESET_WORDS: [&str; 2] = words(&words::PRESET);
const LOCKING_WORDS: [&str; 3] = words(&words::LOCKING);
const BE_START_WORDS: [&str; 2] = words(&words::BE_START);
const REALTIME_WORDS: [&str; 3] = words(&words::REALTIME);
const DISPATCH_WORDS: [&str; 3] = words(&words::DISPATCH);
const RULES_WORDS: [&str; 2] = words(&words::RULES);
const MISSING_CPUS_WORDS: [&str; 2] = words(&words::MISSING_CPUS);
const DESCRIPTORS_WORDS: [&str; 2] = words(&words::DESCRIPTORS);
const ON_CRASH_WORDS: [&str; 2] = words(&words::ON_CRASH);
const CLIENT_WORDS: [&str; 2] = words(&words::CLIENT);
const COMPLETION_WORDS: [&str; 5] = words(&words::COMPLETION);
const ON_EXIT_WORDS: [&str; 3] = words(&words::ON_EXIT);
const SPAWN_WORDS: [&str; 2] = words(&words::SPAWN);
const ON_ABORT_WORDS: [&str; 3] = words(&words::ON_ABORT);
const CLASS_WORDS: [&str; 3] = words(&words::CLASS);
const REACTION_WORDS: [&str; 3] = words(&words::REACTION);
const PLACEMENT_WORDS: [&str; 6] = words(&Placement::ALL);

const fn word(words: &'static [&'static str], default: Option<&'static str>) -> Kind {
    Kind::Word { words, default }
}

const fn map(name: &'static str, keys: &'static [Key]) -> Kind {
    Kind::Map { name, keys }
}

/// A list, with entries or without.
const fn list(of: &'static Kind) -> Kind {
    Kind::List { of, empty: true }
}

/// A list that has an entry.
const fn filled(of: &'static Kind) -> Kind {
    Kind::List { of, empty: false }
}

const fn quantity(of: &'static Quantity, zero: bool) -> Kind {
    Kind::Quantity { of, zero }
}

const NONE: Kind = word(&["none"], None);
const DEADLINE: Kind = Kind::Either(&[DURATION, NONE]);
const RELEASES: Kind = Kind::Either(&[filled(&INSTANT), word(&["never"], None), INSTANT]);
const PROCESSES: Kind = Kind::Either(&[filled(&Kind::Process), Kind::Process]);
const PART: Kind = Kind::Either(&[Kind::Name, Kind::Partition]);
const EPP: Kind = Kind::Either(&[word(&PREFERENCES, None), Kind::ByCpus(&word(&PREFERENCES, None))]);
const PLATFORM: Kind = Kind::Either(&[map("platform", &PLATFORM_KEYS), Kind::Text]);
const LOAD: Kind = Kind::Either(&[
    FACTOR,
    Kind::One { name: "shape of a load", keys: &LOAD_SHAPES },
    map("points of a load", &LOAD_POINTS),
]);
const UTILITY: Kind = Kind::Either(&[
    AMOUNT,
    map("linear utility", &LINEAR),
    map("exponential utility", &EXPONENTIAL),
    map("table of a utility", &UTILITY_TABLE),
]);
const EVENTS: Kind =
    Kind::Either(&[Kind::Named { prefix: "", optional: "", values: &["yes", "segments"] }, map("event", &EVENT)]);
const EXECUTION: Kind =
    Kind::Either(&[DURATION, filled(&DURATION), map("series", &SERIES), map("bounds of an execution", &BOUNDS)]);
const COPIES: Kind = Kind::Either(&[Kind::Whole { least: 1, most: MAX_TASKS as u64 }, map("copies", &COPIES_KEYS)]);
const HANDLER: Kind = Kind::Either(&[DURATION, map("handler", &HANDLER_KEYS)]);
const CLASSES: Kind =
    Kind::Either(&[word(&CLASS_WORDS, None), Kind::Numbered { prefix: "fifo=", most: MAX_PRIORITY as u64 }]);
const SIGNAL: Kind = Kind::Named { prefix: "signal=", optional: "SIG", values: &SIGNALS_TO_PROGRAMS };
const ABORTS: Kind = Kind::Either(&[word(&ON_ABORT_WORDS, None), SIGNAL]);
const REACTIONS: Kind = Kind::Either(&[word(&REACTION_WORDS, Some("log")), SIGNAL, map("command", &COMMAND)]);
const OUTPUTS: Kind =
    Kind::Either(&[word(&["inherit", "null"], Some("inherit")), Kind::Text, Kind::Empty, map("output", &OUTPUT)]);
const POLICY_OR_SETTINGS: Kind = Kind::Either(&[Kind::Policy, Kind::Settings]);

/// The keys of the file itself.
pub const FILE: [Key; 41] = [
    key("windows", filled(&map("window", &WINDOW)), "", "the major frame, repeated. At least one window"),
    key("partitions", list(&Kind::Partition), "", "needs `windows`"),
    key("tasks", filled(&map("task", &TASK)), "", "not with `windows` or `partitions`"),
    key("domains", filled(&map("domain", &DOMAIN)), "", "in place of `policy`; needs `tasks`"),
    key("servers", list(&map("server", &SERVER)), "", "servers that several tasks share"),
    key("policy", Kind::Policy, "", "required with `tasks`, except with `domains` or `--policy`. With `windows` it can only be `windows`, with `domains` only `domains`"),
    key("fallback", Kind::Name, "(`fifo`)", "takes over when the module of `policy` fails").written("policy"),
    key("placement", word(&PLACEMENT_WORDS, Some("ffd")), "", "first, best or worst fit of tasks on CPUs, `d` by decreasing utilisation; for partitioned and clustered policies"),
    key("cpus", CPUS, "(those named by slices, domains and tasks; without a name CPU 0, in `takt run` all that the policy can use)", "CPU numbers, not a count: `2` is CPU 2. `--cpus N`, a count from CPU 0, wins"),
    key("seed", Kind::Whole { least: 0, most: u64::MAX }, "(0)", "seed of all random values; `--seed` wins"),
    key("duration", DURATION, "", "length of a simulation or run; `--duration` wins"),
    key("late", word(&LATE_WORDS, Some("continue")), "", "rule for unfinished jobs at their deadline ([late jobs](#late-jobs))").used(Depends, Depends),
    key("backlog", word(&BACKLOG_WORDS, Some("queue")), "", "rule for a release while an earlier job is unfinished ([late jobs](#late-jobs))").used(Depends, Depends),
    key("preset", word(&PRESET_WORDS, None), "", "the rule of another system, in place of `backlog` ([late jobs](#late-jobs))").used(Depends, Depends),
    key("locking", word(&LOCKING_WORDS, Some("inheritance")), "", "protocol of [shared resources](#shared-resources)"),
    key("resources", list(&Kind::Name), "(all names in steps)", "if given, steps can name only these"),
    key("tick", INSTANT, "(0)", "releases, deadlines, windows and policy timers are noticed only at multiples of it. 0 is exact.").simulated(),
    key("timer_resolution", INSTANT, "(0)", "ends of budgets and bursts, and policy timers, are noticed only at multiples of it.").simulated(),
    key("timer_lateness", INSTANT, "(0)", "the same are noticed up to so much later, drawn evenly.").simulated(),
    key("load", LOAD, "(1)", "factor on execution times. *S*").written("[load](#load)").used(Honoured, Depends),
    key("costs", map("costs", &COSTS), "", "overheads.").simulated(),
    key("deciding", word(&DECIDING_WORDS, Some("one")), "", "decisions of a shared ready queue. `one` (`stop-the-world`): one CPU decides while the others, interrupted, wait. `each` (`concurrent`): each CPU decides for itself.").simulated(),
    key("steal", map("steal", &STEAL), "", "time that a hypervisor or interrupt takes from each CPU.").written("`{period: 10ms, length: 100us}`").simulated(),
    key("changes", list(&map("change", &CHANGE)), "", "changes of the simulated system").used(Honoured, Depends),
    key("be_start", word(&BE_START_WORDS, Some("all")), "", "best-effort partitions start after the safety-critical ones of the window (as DEmOS), or of their slice. Needs `windows`"),
    key("rules", word(&RULES_WORDS, Some("takt")), "", "of activations: Takt's, or [DEmOS's](demos.md#rules), in whole milliseconds and with `realtime: no`. Needs `windows`"),
    key("missing_cpus", word(&MISSING_CPUS_WORDS, Some("refuse")), "", "if the machine lacks CPUs of a slice, the run is refused, or the slice has its other CPUs, or else the lowest one. Needs `windows`.").real(),
    key("power", Kind::Power, "", "such as `minbe`, `skip_be:soc,80` or a mapping with a `name` ([power](power.md)); `--power` wins"),
    key("epp", EPP, "", "[energy performance preference](power.md#energy-performance-preference): `performance`, `balance_performance`, `default`, `balance_power`, `power`. *R*").written("a preference, or CPUs with preferences").used(Depends, Honoured),
    key("platform", PLATFORM, "", "[clusters, frequencies, power and temperatures](power.md#in-a-simulation) of the simulated machine").written("mapping, or name of a file").simulated(),
    key("set_cwd", Kind::Boolean { default: Some(true) }, "", "processes run in the directory of this file; otherwise in Takt's").real(),
    key("scheduler_cpu", CPUS, "(with a real-time class the schedule's CPU if it is only one)", "CPUs of the scheduler thread; otherwise Linux places it").real(),
    key("demos_cpu", CPUS, "", "DEmOS's name of `scheduler_cpu`; only one of the two").real(),
    key("init_timeout", DURATION, "(`10s`; [other](demos.md#options) under `takt demos`)", "limit for the initialisation of all processes with `init: yes` together").real(),
    key("client", word(&CLIENT_WORDS, Some("auto")), "", "whether processes can signal ([clients and descriptors](#clients-and-descriptors))"),
    key("descriptors", word(&DESCRIPTORS_WORDS, Some("many")), "", "open descriptors of `takt run` ([clients and descriptors](#clients-and-descriptors))").real(),
    key("exec_limit", Kind::Whole { least: 0, most: MOST_EXEC }, "(10)", "commands of `on_miss` and `on_overrun` that start in a second; at most 1000 ([reactions](#reactions))").real(),
    key("realtime", word(&REALTIME_WORDS, Some("auto")), "", "class `SCHED_FIFO` for processes. `auto`: if allowed, every CPU keeps 10 % idle, and the kernel is not PREEMPT_RT").real(),
    key("priority", Kind::Whole { least: 1, most: MAX_PRIORITY as u64 }, "(10)", "[`SCHED_FIFO` priority](dispatch.md#ordinary-real-time-processes) of the processes. With `dispatch: priority` or `rank`: the lowest one, at most 69. No effect without a real-time class. *R*").written("1 to 79"),
    key("dispatch", word(&DISPATCH_WORDS, Some("freeze")), "", "preempted processes are frozen, or have lower `SCHED_FIFO` priorities (implies `realtime: yes`, [conditions](dispatch.md#preemption-by-priority)), or priorities by [rank](dispatch.md#jobs-that-wait-in-their-middle). With `rank` a CPU is not idle while a job sleeps.").real(),
    key("on_crash", word(&ON_CRASH_WORDS, Some("kill")), "", "if Takt dies, processes are killed, or left to Linux").real(),
];

/// The keys of a domain.
pub const DOMAIN: [Key; 6] = [
    key("name", Kind::Text, "", "unique").required(),
    key("cpus", Kind::Cpus { all: false }, "", "its CPUs, by number; not `all`").required(),
    key(
        "band",
        Kind::Whole { least: 0, most: U32 },
        "(0)",
        "order of domains with the same CPUs: the highest runs first",
    ),
    key("policy", Kind::Policy, "", "schedules its tasks, with the same conditions as in a file of their own")
        .required(),
    key("fallback", Kind::Name, "(`fifo`)", "takes over when the module of `policy` fails").written("policy"),
    key("placement", word(&PLACEMENT_WORDS, Some("ffd")), "(`ffd`)", "for a partitioned or clustered `policy`")
        .written("as for the file"),
];

/// The keys of a shared server.
pub const SERVER: [Key; 4] = [
    key("name", Kind::Text, "", "unique").required(),
    key("budget", DURATION, "", "CPU time in each period for all its tasks together; at most the period").required(),
    key("period", DURATION, "", "its period").required(),
    key(
        "priority",
        Kind::Whole { least: 0, most: U32 },
        "(0)",
        "with the setting `by: priority`, that of all its jobs in place of their tasks'; a higher number is more important",
    ),
];

/// The keys of a window.
pub const WINDOW: [Key; 8] = [
    key("length", MS, "", "above zero. A window with a length alone is idle").required(),
    key("slices", list(&map("slice", &SLICE)), "", "not with the keys below"),
    key("cpu", CPUS, "(`all`)", "this and the following: [keys](#slice) of its only slice"),
    key("sc_partition", PART, "", "").written(""),
    key("be_partition", PART, "", "").written(""),
    key("sc_processes", PROCESSES, "", "").written(""),
    key("be_processes", PROCESSES, "", "").written(""),
    key("frequency", Kind::Frequency, "", "").written("").used(Depends, Depends),
];

/// The keys of a slice.
pub const SLICE: [Key; 6] = [
    key("cpu", CPUS, "", "the CPUs that it lends").required(),
    key("sc_partition", PART, "", "safety-critical: runs from the start of the window")
        .written("name, or a [partition](#partition) in place"),
    key("be_partition", PART, "", "best effort: runs after safety-critical work (`be_start`)")
        .written("name, or a [partition](#partition) in place"),
    key("sc_processes", PROCESSES, "", "unnamed partition in place of `sc_partition`")
        .written("a [process](#process) or a list of them"),
    key("be_processes", PROCESSES, "", "unnamed partition in place of `be_partition`")
        .written("a [process](#process) or a list of them"),
    key("frequency", Kind::Frequency, "", "frequency of its CPUs under the power policy [`per_slice`](power.md)")
        .used(Depends, Depends),
];

/// The keys of a partition.
pub const PARTITION: [Key; 4] = [
    key("name", Kind::Text, "(`anonymous_0`, `anonymous_1` …)", "unique; without `/` and control characters"),
    key("processes", PROCESSES, "(required)", "in their order").written("a [process](#process) or a list of them"),
    key(
        "policy",
        Kind::Policy,
        "(`fifo`)",
        "`fifo`: in their order, one at a time, each once per window. Otherwise an online policy; the online FIFO has a form in front, such as `p-fifo`",
    ),
    key("placement", word(&PLACEMENT_WORDS, Some("ffd")), "(`ffd`)", "for a partitioned `policy`")
        .written("as for the file"),
];

/// The keys of a process that mean something else than those of a task, or have another default.
pub const PROCESS: [Key; 6] = [
    key("name", Kind::Text, "(partition's name and number, `SC1-1`)", "unique in the file"),
    key("cmd", Kind::Text, "(required unless only simulated)", "command for `/bin/sh -c`; `exec` saves the shell. Only simulated: with `runtime`, `steps`, `execution`, `batch` or `releases`").real(),
    key("budget", MS, "([below](#default-budgets))", "elapsed time of an activation. At its end without a signal the activation is cut off, and the next one continues the job. With a `policy`: as for a task"),
    key("jitter", MS_OR_ZERO, "(0)", "each activation's budget is drawn evenly from budget ± jitter/2; at most twice the budget"),
    key("completion", word(&COMPLETION_WORDS, None), "", "see [ends of jobs](#ends-of-jobs-and-processes)"),
    key("client", word(&CLIENT_WORDS, None), "(that of the partition, or of the file)", "as for a task"),
];

/// The keys of a task. Processes have them, too, but for `name`, `copies`, `cpu`, `domain` and `class`.
pub const TASK: [Key; 42] = [
    key("name", Kind::Text, "(`T1`, `T2` …)", "unique in the file"),
    key("cmd", Kind::Text, "", "command for `/bin/sh -c`; without it the task is only simulated").real(),
    key("thread_of", Kind::Name, "", "in place of `cmd`: a thread of [that task's program](programs.md#several-tasks-in-one-program), which has `init: yes`. Needs `dispatch: priority` or `rank` in the file. No `init`, `output`, `spawn`, `class`, restart, segments, or `event` with a descriptor").written("name of a task").real(),
    key("period", DURATION, "", "time between releases"),
    key("spread", INSTANT, "(0)", "sporadic task: releases are `period` to `period` + `spread` apart, drawn evenly"),
    key("releases", RELEASES, "", "aperiodic task: ascending release times. With `never` it has no job, but policies count it").written("list of durations, or `never`"),
    key("batch", Kind::Boolean { default: Some(false) }, "", "one job, at the `offset`; it never ends without a `runtime` or `steps`"),
    key("event", EVENTS, "", "each event releases a job").written("[event](#event)").used(Honoured, Depends),
    key("offset", INSTANT, "(0)", "first release"),
    key("deadline", DEADLINE, "(the period, or the `distance` of events)", "relative deadline"),
    key("runtime", DURATION, "(that of its `steps` (the longest job))", "declared CPU time of a job, for policies and placements; without `execution` and `steps` also for simulated jobs and checks"),
    key("steps", list(&Kind::Step), "", "the program of simulated jobs; its runs are their execution time").simulated(),
    key("execution", EXECUTION, "(the `runtime`)", "execution time of simulated jobs: constant, in turn, a [series](#series), or drawn evenly. Not with `steps`").written("duration, list, `{file: frames.csv, scale: 1.5}`, or `{least: 1ms, most: 4ms}`").simulated(),
    key("copies", COPIES, "", "tasks `NAME-1`, `NAME-2` …, each `apart` later, and `skip` entries further in `execution`. `--copies NAME=N` wins. Not for processes").written("whole number, or `{count: 6, apart: 5ms, skip: 100}`"),
    key("handler", HANDLER, "", "CPU time after an abort, with a deadline after it. A process is signalled (`on_abort`), and its next completion ends the handler. `utility` (1) only ranks it").written("duration, or `{runtime: 1ms, deadline: 5ms, utility: 2}`"),
    key("utility", UTILITY, "", "required by utility policies").written("[utility](#utility)"),
    key("budget", MS, "", "CPU time of a job; when exhausted, the job is [aborted](#aborted-jobs)"),
    key("reservation", map("reservation", &RESERVATION), "(`runtime` and `period`)", "budget, at most the period, in each period, under policies with [servers](reservations.md). Jobs beyond it come behind those of other tasks. Only `cbs` takes a `deadline`: `{budget: 5ms, deadline: 10ms, period: 20ms}`. Under `polling-server` and its relatives tasks without one have no server").written("`{budget: 5ms, period: 20ms}`"),
    key("server", Kind::Name, "", "the shared [server](#server), in place of a `reservation`"),
    key("jitter", MS_OR_ZERO, "(0)", "each job's `budget` is drawn evenly from budget ± jitter/2, at least 1 ns; at most twice the `budget`, which it needs"),
    key("priority", Kind::Whole { least: 0, most: U32 }, "(0)", "for `fp`; a higher number is more important"),
    key("share", SHARE, "", "part of a CPU, at most 1; for `ipi`"),
    key("importance", Kind::Whole { least: 1, most: U32 }, "(1)", "weight of its share in an overload, above 0; for `ipi`"),
    key("cpu", CPUS, "(all, or those of its domain)", "CPUs that it may run on"),
    key("domain", Kind::Name, "(by its `cpu`)", "its [domain](#domain)"),
    key("class", CLASSES, "", "[class of the kernel](dispatch.md#comparison-with-the-kernels-own-classes) in place of the policy. `takt run` only. Not with `domain` or `budget`. `deadline` needs a `runtime` and a period, and takes no `cpu`").written("`deadline`, `fifo`, `fifo=PRIORITY`, `other`").used(Depends, Honoured),
    key("init", Kind::Boolean { default: Some(false) }, "", "the process runs before the schedule until it signals").real(),
    key("spawn", word(&SPAWN_WORDS, Some("once")), "", "one process for all jobs, or one for each job, which ends with it").real(),
    key("completion", word(&COMPLETION_WORDS, None), "(`exit` with `spawn: per-job`, `signal` with `init: yes`, else by the first signal)", "see [ends of jobs](#ends-of-jobs-and-processes)"),
    key("client", word(&CLIENT_WORDS, None), "(that of the file)", "see [clients](#clients-and-descriptors). `none` implies `completion: none` unless another end is known. Not with `init`, `completion: signal`, `thread_of` or `event: segments`"),
    key("on_abort", ABORTS, "([see there](#aborted-jobs))", "rule for the work of an aborted job").written("`finish`, `restart`, `signal`, `signal=NAME`"),
    key("on_exit", word(&ON_EXIT_WORDS, Some("end")), "", "see [ends of processes](#ends-of-jobs-and-processes). Not with `spawn: per-job`").real(),
    key("on_miss", REACTIONS, "", "[reaction](#reactions) to a missed deadline").written("**`log`**, `signal`, `signal=NAME`, `stop`, `{exec: CMD}`").real(),
    key("on_overrun", REACTIONS, "", "[reaction](#reactions) to an overrun").written("**`log`**, `signal`, `signal=NAME`, `stop`, `{exec: CMD}`").real(),
    key("output", OUTPUTS, "", "standard output: Takt's, none, or appended to a file (`truncate` empties it). This and the next six: [settings of processes](#settings-of-processes)").written("**`inherit`**, `null`, file, `{file: a.log, truncate: yes}`").real(),
    key("user", Kind::Text, "(that of Takt)", "with the groups of the database of users. Only root can change users").written("name or number").real(),
    key("group", Kind::Text, "(that of the user)", "in place of the user's own; needs `user`").written("name or number").real(),
    key("env", Kind::Variables, "(that of Takt)", "variables. One without a value is removed. `TAKT_*` is refused").written("map of texts").real(),
    key("cwd", Kind::Text, "(that of `set_cwd`)", "relative to that of the file").written("directory").real(),
    key("umask", Kind::Octal, "(that of Takt)", "such as `027`").written("octal number").real(),
    key("limits", Kind::Limits, "(those of Takt)", "by their names in `prlimit`: `{nofile: 1024, core: 0, as: 512M, stack: 1M:8M}`").written("map of limits").real(),
    key("frequency", Kind::Frequency, "", "frequency of its CPU while it runs, under the power policy [`per_process`](power.md)").used(Depends, Depends),
];

/// The keys of `event`.
pub const EVENT: [Key; 11] = [
    key("after", Kind::Name, "(one source at most)", "each completed job of that task, but no aborted one")
        .written("name of a task"),
    key("udp", Kind::Address, "", "a datagram arrives, as in `udp: \"127.0.0.1:5000\"`").written("address with port"),
    key("pipe", Kind::Text, "", "a named pipe becomes readable; relative to the directory of the processes")
        .written("path"),
    key("fd", Kind::Whole { least: 0, most: 1 << 20 }, "", "a descriptor of `takt run` (`7<&0`) becomes readable"),
    key("signal", word(&SIGNALS_TO_RUNS, None), "", "`takt run` receives the signal"),
    key("segments", Kind::Yes, "", "the program begins a [real-time segment](programs.md#real-time-segments)"),
    key(
        "wakeup",
        Kind::Yes,
        "",
        "the program [wakes up](programs.md#an-unmodified-loop) from the sleep that has ended its job. Needs `completion: sleep`",
    ),
    key(
        "distance",
        INSTANT,
        "(0)",
        "least time between releases; an earlier event is delayed. `takt check` needs it, as the period. Without it, `takt check` and `takt run` warn if other tasks can miss",
    ),
    key(
        "queue",
        Kind::Whole { least: 1, most: MOST_QUEUED },
        ", 1 to 4096 (16)",
        "events and jobs that can wait for the present job. Further events are lost, and counted",
    ),
    key("releases", RELEASES, "", "simulation only: instants of the events; neither this nor `spread` with `after`")
        .written("list of durations"),
    key(
        "spread",
        INSTANT,
        "",
        "simulation only: events are `distance` (required) to `distance` + `spread` apart, drawn evenly",
    ),
];

/// The keys of `costs`.
pub const COSTS: [Key; 8] = [
    key("context_switch", INSTANT, "(0)", "when the running task of a CPU changes"),
    key("migration", INSTANT, "(0)", "in addition, when a job resumes on another CPU"),
    key("cache_reload", INSTANT, "(0)", "in addition, when a preempted job resumes"),
    key(
        "scheduler",
        INSTANT,
        "(0)",
        "at each run of the scheduler; a CPU that waits for another one in it loses the same",
    ),
    key("scheduler_task", INSTANT, "(0)", "in addition, for each task that it visits while it looks at all tasks"),
    key("lock", INSTANT, "(0)", "when a CPU locks a ready queue that it shares, to run the scheduler"),
    key("interrupt", INSTANT, "(0)", "when another CPU interrupts it to enter the scheduler (`deciding`)"),
    key(
        "consumed",
        Kind::Boolean { default: Some(true) },
        "",
        "`no`: costs use up no budget and no burst, as with the meter of `takt-mcu`. On several CPUs the end of a budget may then take a second run of the scheduler",
    ),
];

/// The keys of a change.
pub const CHANGE: [Key; 15] = [
    key("at", INSTANT, "", "instant").required(),
    key("task", Kind::Name, "", "required except for `policy`"),
    key("share", SHARE, "", "its share; alone or with `importance`"),
    key("importance", Kind::Whole { least: 1, most: U32 }, "", "its importance"),
    key("period", DURATION, "", "change of mode: its period from the release after its present job, or the next one. Alone or with the next two keys. A deadline that was the period follows it"),
    key("deadline", DEADLINE, "", "its relative deadline from that release on"),
    key("runtime", DURATION, "", "its declared runtime, at once; a job that has run keeps the one before"),
    key("skew", Kind::Signed, "", "ends of its budgets and bursts are detected so much later, or earlier. A budget or burst lasts at least half of its length"),
    key("block", Kind::Yes, "", "its job blocks until it is woken"),
    key("wake", Kind::Yes, "", "its blocked job can resume"),
    key("leave", Kind::Yes, "", "the task leaves after its present job"),
    key("release", Kind::Yes, "", "an event of the task, which has `event`"),
    key("enter", Kind::Yes, "", "a task that has left enters again; first release after its `offset`, or at the next of its `releases`"),
    key("policy", POLICY_OR_SETTINGS, "", "new settings: `default` restores the default; not with `domains`. Or another policy takes over, and all jobs continue. It must suit all tasks from the start. The `placement` stays").written("mapping of settings, or a [policy](#policy)"),
    key("domain", Kind::Name, "", "the [domain](#domain) of the new policy; required if there are `domains`"),
];

/// The keys of `steal`.
pub(crate) const STEAL: [Key; 2] = [
    part("period", DURATION, "time from one begin to the next").required(),
    part("length", DURATION, "time that is taken; at most the period").required(),
];

/// The keys of `copies`.
pub(crate) const COPIES_KEYS: [Key; 3] = [
    part("count", Kind::Whole { least: 1, most: MAX_TASKS as u64 }, "number of copies").required(),
    part("apart", INSTANT, "from the releases of one copy to those of the next"),
    part(
        "skip",
        Kind::Whole { least: 0, most: MAX_ENTRIES as u64 },
        "from the first entry of one copy's `execution` to that of the next",
    ),
];

/// The keys of `execution` from a file.
pub(crate) const SERIES: [Key; 2] = [
    part("file", Kind::Text, "file with a column of execution times, relative to this one").required(),
    part("scale", SCALE, "factor on each of them"),
];

/// The keys of `execution` between two bounds.
pub(crate) const BOUNDS: [Key; 2] =
    [part("least", DURATION, "the shortest").required(), part("most", DURATION, "the longest").required()];

/// The keys of `handler`.
pub(crate) const HANDLER_KEYS: [Key; 3] = [
    part("runtime", DURATION, "its CPU time").required(),
    part("deadline", DURATION, "its deadline after the abort"),
    part("utility", AMOUNT, "its utility, which only ranks it"),
];

/// The keys of `reservation`.
pub(crate) const RESERVATION: [Key; 3] = [
    part("budget", DURATION, "CPU time in each period; at most the period").required(),
    part("deadline", DURATION, "relative deadline of the budget, under `cbs`"),
    part("period", DURATION, "its period").required(),
];

/// The shapes of a load, each with its own keys.
pub(crate) const LOAD_SHAPES: [Key; 3] = [
    part("ramp", map("ramp", &RAMP), "rises or falls evenly"),
    part("step", map("step of a load", &LOAD_STEP), "changes once"),
    part("burst", map("burst", &BURST), "is higher in a part of each period"),
];

const RAMP: [Key; 4] = [
    part("from", FACTOR, "factor at its begin").required(),
    part("to", FACTOR, "factor at its end").required(),
    part("over", DURATION, "time from begin to end").required(),
    part("at", INSTANT, "its begin"),
];

const LOAD_STEP: [Key; 3] = [
    part("from", FACTOR, "factor before it").required(),
    part("to", FACTOR, "factor after it").required(),
    part("at", INSTANT, "its instant").required(),
];

const BURST: [Key; 5] = [
    part("base", FACTOR, "factor outside of bursts").required(),
    part("peak", FACTOR, "factor in a burst").required(),
    part("every", DURATION, "period of bursts").required(),
    part("for", DURATION, "length of a burst").required(),
    part("at", INSTANT, "begin of the burst in each period"),
];

/// The keys of a load of points.
pub(crate) const LOAD_POINTS: [Key; 2] = [
    part("points", filled(&Kind::Pair(&[INSTANT, FACTOR])), "instants with factors, in ascending order").required(),
    part("repeat", DURATION, "the points begin again after this time"),
];

/// The keys of each shape of a utility. The first one names the shape.
pub(crate) const UTILITY_SHAPES: [&[Key]; 3] = [&LINEAR, &EXPONENTIAL, &UTILITY_TABLE];

const LINEAR: [Key; 2] = [
    part("linear", AMOUNT, "utility at the release; it falls evenly to 0").required(),
    part("until", DURATION, "time after the release at which it is 0; otherwise the deadline"),
];

const EXPONENTIAL: [Key; 2] = [
    part("exponential", AMOUNT, "utility at the release").required(),
    part("half_life", DURATION, "time in which it is halved").required(),
];

const UTILITY_TABLE: [Key; 1] = [part(
    "table",
    filled(&Kind::Pair(&[INSTANT, AMOUNT])),
    "times after the release with utilities, in ascending order",
)
.required()];

/// The keys of `output`.
pub(crate) const OUTPUT: [Key; 2] = [
    part("file", Kind::Text, "its path, relative to the directory of the processes").required(),
    part("truncate", Kind::Boolean { default: Some(false) }, "the file is emptied when the run starts"),
];

/// The keys of a reaction that starts a command.
pub(crate) const COMMAND: [Key; 1] = [part("exec", Kind::Text, "command for `/bin/sh -c`").required()];

/// The keys of a step, which are its words.
pub const STEP: [Key; 9] = [
    part("run", DURATION, "uses CPU time"),
    part("sleep", DURATION, "blocks: a sleep, or a wait for a device"),
    part("lock", Kind::Name, "blocks until it holds the resource"),
    part("unlock", Kind::Name, "unlocks the resource"),
    part("yield", Kind::Empty, "yields the CPU and stays ready"),
    part("set-period", DURATION, "requests another period"),
    part("set-deadline", DURATION, "requests another relative deadline"),
    part("set-runtime", DURATION, "requests another declared runtime"),
    part("wait-period", Kind::Empty, "completes the job"),
];

/// The keys of `platform`.
pub(crate) const PLATFORM_KEYS: [Key; 5] = [
    part("clusters", filled(&map("cluster", &CLUSTER)), "CPUs that share a frequency").required(),
    part("base", quantity(&quantity::POWER, true), "power of the machine without its CPUs"),
    part("outside", quantity(&quantity::POWER, true), "power that a meter of the CPUs does not see"),
    part("thermal", map("thermal", &THERMAL), "its temperatures"),
    part("sample", DURATION, "time between two temperatures"),
];

/// The keys of a cluster.
pub(crate) const CLUSTER: [Key; 7] = [
    part("name", Kind::Text, "unique"),
    part("cpus", Kind::Cpus { all: false }, "its CPUs").required(),
    part("frequencies", filled(&map("frequency", &POINT)), "its frequencies, in ascending order").required(),
    part("speed", SCALE, "speed of its CPUs at the highest frequency"),
    part("capacitance", quantity(&quantity::CAPACITANCE, true), "effective switched capacitance of a busy CPU")
        .required(),
    part("leakage", quantity(&quantity::CURRENT, true), "leakage of each CPU"),
    part("node", Kind::Text, "the thermal node that it heats"),
];

/// The keys of a frequency of a cluster.
pub(crate) const POINT: [Key; 3] = [
    part("mhz", Kind::Ratio { zero: false, percent: false, most: u32::MAX / 1000 }, "megahertz").required(),
    part("voltage", quantity(&quantity::VOLTAGE, false), "voltage at this frequency").required(),
    part("speed", SCALE, "speed of a CPU at this frequency"),
];

/// The keys of `thermal`.
pub(crate) const THERMAL: [Key; 2] = [
    part("ambient", Kind::Celsius, "temperature of the surroundings").required(),
    part("nodes", list(&map("thermal node", &NODE)), "parts with a temperature").required(),
];

/// The keys of a thermal node.
pub(crate) const NODE: [Key; 5] = [
    part("name", Kind::Text, "unique"),
    part("capacity", quantity(&quantity::CAPACITY, false), "its heat capacity").required(),
    part("ambient", quantity(&quantity::RESISTANCE, false), "its thermal resistance to the surroundings"),
    part("links", Kind::ByName(&quantity(&quantity::RESISTANCE, false)), "its thermal resistance to other nodes"),
    part("initial", Kind::Celsius, "its temperature at the begin"),
];
