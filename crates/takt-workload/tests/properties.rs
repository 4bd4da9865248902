//! Properties over many files: the canonical form means the same, and no text makes the reader panic.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_workload::{
    Options, Source, Workload, canonical, load, load_sets, parse_cpus, parse_duration, policy_from_text, policy_text,
};

fn source(name: &str, text: String) -> Source {
    Source { name: name.to_owned(), text }
}

/// Loads the canonical form and compares everything but the source.
fn assert_round_trip(first: &Workload, options: &Options) {
    let text = canonical(first);
    let second = match load(source(&first.source.name, text.clone()), options) {
        Ok(workload) => workload,
        Err(faults) => panic!("{faults:#?}\n{text}"),
    };
    assert_eq!(second.system, first.system, "{text}");
    assert_eq!(second.tasks, first.tasks, "{text}");
    assert_eq!(second.partitions, first.partitions, "{text}");
    assert_eq!(second.domains, first.domains, "{text}");
    assert_eq!(second.servers, first.servers, "{text}");
    assert_eq!(second.slice_frequencies_mhz, first.slice_frequencies_mhz, "{text}");
    assert_eq!(second.settings, first.settings, "{text}");
    assert_eq!(second.resources, first.resources, "{text}");
    assert_eq!(second.scenario, first.scenario, "{text}");
    assert_eq!(canonical(&second), text);
}

/// Found by the fuzz target `workload`: the longest job of a program is longer than its first period.
#[test]
fn a_program_that_asks_for_a_longer_period_has_a_canonical_form() {
    let text = "policy: fcbs\ntasks:\n  - name: player\n    period: 20ms\n    reservation: {budget: 7ms, period: 20ms}\n    \
                steps: [run 6ms, set-period 40ms, set-runtime 16ms, wait-period, run 30ms, wait-period]\n";
    let options = Options::default();
    let workload = load(source("a.yaml", text.into()), &options).unwrap_or_else(|faults| panic!("{faults:#?}"));
    assert_round_trip(&workload, &options);
}

/// JSON strings are YAML strings.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() || c == '\u{feff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn duration() -> impl Strategy<Value = String> {
    prop_oneof![
        (1_i64..5_000).prop_map(|ms| format!("{ms}ms")),
        (1_i64..5_000_000).prop_map(|ns| format!("{ns}ns")),
        (1_i64..900).prop_map(|n| format!("{n}.25us")),
    ]
}

fn command() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z./]{1,12}", "[ -~]{0,20}x", "\\PC{0,12}x", "(a|\n|\t| |'|\"|#|: |\\\\|yes|null|~){1,6}x",]
        .prop_map(|text| quoted(&text))
}

/// The keys about the process of a task that is started `once`, or for each job; `online` says whether aborts can be spoken of.
fn life(once: bool, init: bool, online: bool) -> impl Strategy<Value = String> {
    let completion: &[&str] = match (once, init) {
        (false, _) => &["", "completion: exit"],
        (true, true) => &["", "completion: signal", "completion: yield"],
        (true, false) => &["", "completion: signal", "completion: sleep", "completion: none", "client: none"],
    };
    let abort = ["", "on_abort: finish", "on_abort: restart", "on_abort: signal", "on_abort: signal=SIGHUP"];
    let exit: &[&str] = if once { &["", "on_exit: end", "on_exit: restart", "on_exit: stop"] } else { &[""] };
    let abort = prop::sample::select(if online { abort.to_vec() } else { vec![""] });
    (prop::sample::select(completion), abort, prop::sample::select(exit)).prop_map(|(completion, abort, exit)| {
        [completion, abort, exit].iter().filter(|key| !key.is_empty()).map(|key| format!(", {key}")).collect()
    })
}

/// A process, its keys in the given kind of partition.
fn process(online: bool) -> impl Strategy<Value = String> {
    let flag = any::<bool>().prop_flat_map(move |flag| (Just(flag), life(!(online && flag), !online && flag, online)));
    (command(), duration(), prop::option::of(1_u32..9_000), flag, any::<u32>(), prop::option::of(duration())).prop_map(
        move |(cmd, time, frequency, (flag, life), number, offset)| {
            let mut fields = vec![format!("cmd: {cmd}")];
            if online {
                fields.push(format!("period: {time}, priority: {number}"));
                fields.extend(offset.map(|o| format!("offset: {o}")));
                if flag {
                    fields.push("spawn: per-job, output: o.txt".to_owned());
                }
            } else {
                if flag {
                    fields.push(format!("budget: {time}, jitter: 1ns, init: yes"));
                }
                fields.extend(offset.map(|o| format!("runtime: {o}")));
            }
            fields.extend(frequency.map(|f| format!("frequency: {f}.5")));
            format!("{{{}{life}}}", fields.join(", "))
        },
    )
}

fn table() -> impl Strategy<Value = String> {
    let partition = prop_oneof![
        prop::collection::vec(process(false), 1..4).prop_map(|p| format!("processes: [{}]", p.join(", "))),
        prop::collection::vec(process(true), 1..4)
            .prop_map(|p| format!("policy: g-edf, processes: [{}]", p.join(", "))),
        prop::collection::vec(keys(), 1..4).prop_map(|p| {
            let processes: Vec<String> = p.into_iter().map(|(_, keys)| format!("{{{keys}}}")).collect();
            format!("policy: {{name: g-rr, quantum: 3ms}}, processes: [{}]", processes.join(", "))
        }),
    ];
    let window = (duration(), 0_usize..5, 0_usize..5, any::<bool>(), prop::option::of(1_u32..3_000));
    (
        prop::collection::vec(partition, 4),
        prop::collection::vec(window, 1..5),
        prop::option::of(any::<u64>()),
        any::<[bool; 4]>(),
    )
        .prop_map(|(partitions, windows, seed, flags)| {
            let mut text = format!("{SERVERS}partitions:\n");
            for (i, partition) in partitions.iter().enumerate() {
                text += &format!("  - {{name: P{i}, {partition}}}\n");
            }
            text += "windows:\n";
            for (length, sc, be, all, frequency) in windows {
                let mut slice = String::from(if all { "cpu: all" } else { "cpu: 1-2" });
                // Four is no partition at all, and one partition is not used twice.
                if sc < 4 {
                    slice += &format!(", sc_partition: P{sc}");
                }
                if be < 4 && be != sc {
                    slice += &format!(", be_partition: P{be}");
                }
                if let Some(f) = frequency {
                    slice += &format!(", frequency: {f}");
                }
                text += &format!("  - {{length: {length}, slices: [{{{slice}}}]}}\n");
            }
            // So that every partition is used.
            text += "  - length: 77\n    slices:\n";
            for i in 0..4 {
                text += &format!("      - {{cpu: {}, sc_partition: P{i}}}\n", 10 + i);
            }
            text += &seed.map_or(String::new(), |s| format!("seed: {s}\n"));
            for (flag, line) in flags.into_iter().zip(["late: abort", "be_start: slice", "cpus: 0-20", "set_cwd: no"]) {
                if flag {
                    text += &format!("{line}\n");
                }
            }
            text
        })
}

/// Steps whose locks and unlocks match, of resources `r 0` to `r 2`.
fn steps() -> impl Strategy<Value = String> {
    let step = (0_u8..5, 0_usize..3, 1_u32..900);
    prop::collection::vec(step, 1..9).prop_map(|list| {
        let mut held: Vec<usize> = Vec::new();
        let mut steps = vec!["run 1ns".to_owned()];
        for (what, r, n) in list {
            match what {
                0 => steps.push(format!("run {n}ns")),
                1 => steps.push(format!("{{sleep: {n}us}}")),
                2 if !held.contains(&r) => {
                    held.push(r);
                    steps.push(format!("lock r {r}"));
                }
                3 => steps.push("yield".to_owned()),
                _ => steps.extend(held.pop().map(|r| format!("{{unlock: r {r}}}"))),
            }
        }
        steps.extend(held.into_iter().map(|r| format!("unlock r {r}")));
        format!("steps: [{}]", steps.join(", "))
    })
}

/// The demand of a job, with or without a word about it.
fn need() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("runtime: 1ns".to_owned()),
        steps(),
        (steps(), duration()).prop_map(|(steps, runtime)| format!("{steps}, runtime: {runtime}")),
        prop::collection::vec(duration(), 1..4).prop_map(|l| format!("runtime: 2ns, execution: [{}]", l.join(", "))),
        (1_u32..90, 0_u32..90)
            .prop_map(|(n, more)| { format!("runtime: 1ns, execution: {{least: {n}ns, most: {}ns}}", n + more) }),
    ]
}

/// The utility of a job, with or without a word about it.
fn utility() -> impl Strategy<Value = String> {
    let amount =
        || prop_oneof![(0_u32..90).prop_map(|n| n.to_string()), (1_u32..99).prop_map(|n| format!("3.0{n:02}"))];
    let table = prop::collection::vec((0_u32..9_000, amount()), 1..5).prop_map(|mut points| {
        points.sort_by_key(|(at, _)| *at);
        let points: Vec<String> = points.iter().map(|(at, value)| format!("[{at}us, {value}]")).collect();
        format!("{{table: [{}]}}", points.join(", "))
    });
    let utility = prop_oneof![
        amount(),
        (amount(), duration()).prop_map(|(height, until)| format!("{{linear: {height}, until: {until}}}")),
        (amount(), duration()).prop_map(|(height, half)| format!("{{exponential: {height}, half_life: {half}}}")),
        table,
    ];
    prop::option::of(utility).prop_map(|u| u.map_or(String::new(), |u| format!(", utility: {u}")))
}

/// Servers, of which only the first one is ever used.
const SERVERS: &str = "servers:\n  - {name: 'the others', budget: 2us, period: 7ms, priority: 3}\n  - {name: yes, budget: 1ns, \
                       period: 1ns}\n";

/// Keys of a task under an online policy that needs no deadlines, and whether it has a period.
fn keys() -> impl Strategy<Value = (bool, String)> {
    let arrival = prop_oneof![
        (duration(), prop::option::of(duration()), prop::option::of(duration())).prop_map(
            |(period, spread, offset)| {
                let spread = spread.map_or(String::new(), |s| format!(", spread: {s}"));
                let offset = offset.map_or(String::new(), |o| format!(", offset: {o}"));
                (true, format!("period: {period}{spread}{offset}"))
            }
        ),
        prop::collection::vec(0_u32..9_000, 1..5).prop_map(|mut list| {
            list.sort_unstable();
            let list: Vec<String> = list.iter().map(|n| format!("{n}us")).collect();
            (false, format!("releases: [{}]", list.join(", ")))
        }),
        Just((false, "releases: never".to_owned())),
        duration().prop_map(|offset| (false, format!("batch: yes, offset: {offset}"))),
    ];
    let life = life(true, false, false);
    let handler = prop::option::of((1_u32..9, prop::option::of(9_u32..99), prop::option::of(0_u32..9)));
    let share = prop::option::of((1_u32..=1_000_000, 1_u32..5));
    let words = (arrival, need(), handler, share, utility(), any::<bool>(), life);
    words.prop_map(|((periodic, arrival), need, handler, share, utility, hard, life)| {
        let mut text = format!("{arrival}, {need}{utility}{life}, deadline: {}", if hard { "1h" } else { "none" });
        match (hard, share) {
            (true, Some((_, 1))) => text += ", reservation: {budget: 3us, deadline: 5ms, period: 7ms}",
            (true, Some(_)) => text += ", reservation: {budget: 3us, period: 7ms}",
            (true, None) => text += ", server: 'the others'",
            _ => {}
        }
        if let Some((runtime, deadline, utility)) = handler {
            text += if periodic { ", on_abort: signal=IO" } else { ", on_abort: restart" };
            text += &match (deadline, utility) {
                (None, None) => format!(", handler: {runtime}us"),
                (deadline, utility) => {
                    let deadline = deadline.map_or(String::new(), |d| format!(", deadline: {d}us"));
                    let utility = utility.map_or(String::new(), |u| format!(", utility: {u}.5"));
                    format!(", handler: {{runtime: {runtime}us{deadline}{utility}}}")
                }
            };
        }
        if let Some((share, importance)) = share {
            text += &format!(", share: 0.{share:06}, importance: {importance}").replace("0.1000000", "1");
        }
        (periodic, text)
    })
}

/// Everything that an online workload may say.
fn laboratory() -> impl Strategy<Value = String> {
    let load = prop_oneof![
        Just(String::new()),
        (1_u32..9_000).prop_map(|n| format!("load: {n}%\n")),
        (duration(), duration()).prop_map(|(at, over)| format!(
            "load: {{ramp: {{at: {at}, from: 0.5, to: 1.75, over: {over}}}}}\ndeciding: each\n"
        )),
        duration().prop_map(|at| format!("load: {{step: {{from: 0.5, to: 2, at: {at}}}}}\n")),
        (1_u32..500, 0_u32..500).prop_map(|(n, at)| format!(
            "load: {{burst: {{base: 0.5, peak: 2, every: 1ms, for: {n}us, at: {at}us}}}}\n"
        )),
        Just("load: {points: [[1ms, 2], [1ms, 1], [2ms, 0.000001]], repeat: 2ms}\n".to_owned()),
    ];
    let policy = prop_oneof![
        Just("g-fp"),
        Just("'g-rr:quantum=2ms,grid=yes'"),
        Just("{name: c-rr, cluster: 3, quantum: 1.5us}"),
        Just("{name: p-ipi, preset: improved, nominal: 2ms, kpi: 0.123456, feedforward: no}"),
        Just("p-ipi"),
    ];
    let rules = prop_oneof![
        Just(""),
        Just("preset: chronos\n"),
        Just("late: abort\nbacklog: skip\nlocking: fifo\n"),
        Just("late: abort-at-event\n"),
        Just("late: abort\npreset: chronos\nlocking: ceiling\nresources: [spare, r 2, r 0, r 1]\n"),
    ];
    let machine = (prop::option::of(duration()), prop::option::of(duration()), any::<[bool; 4]>());
    let change = (0_u8..8, any::<prop::sample::Index>(), duration(), 1_u32..=1_000_000);
    (policy, rules, (machine, load), prop::collection::vec(keys(), 1..6), prop::collection::vec(change, 0..6)).prop_map(
        |(policy, rules, ((first, second, flags), load), tasks, changes)| {
            let mut text = format!("policy: {policy}\ncpus: 0-3\n{rules}{load}{SERVERS}");
            if let (Some(first), [true, ..]) = (&first, flags) {
                text += &format!(
                    "tick: {first}\ncosts: {{scheduler: {first}, cache_reload: 1us, lock: 2us, consumed: no}}\n"
                );
            }
            if let (Some(second), [_, true, ..]) = (&second, flags) {
                text += &format!("timer_resolution: {second}\ntimer_lateness: 3us\n");
                text += &format!("steal: {{period: 1h, length: {second}}}\n");
            }
            text += "tasks:\n";
            for (i, (_, keys)) in tasks.iter().enumerate() {
                text += &format!("  - {{name: 't: {i}', {keys}}}\n");
            }
            text += if changes.is_empty() { "" } else { "changes:\n" };
            for (what, index, at, n) in changes {
                let task = index.index(tasks.len());
                let what = match what {
                    0 => format!("share: 0.{n:06}").replace("0.1000000", "1"),
                    1 => format!("importance: {n}"),
                    2 => format!("skew: -{n}us"),
                    3 if tasks[task].0 => format!("period: {n}us, deadline: none"),
                    4 => "block: yes".to_owned(),
                    5 => "wake: yes".to_owned(),
                    6 => "leave: yes".to_owned(),
                    _ => "enter: yes".to_owned(),
                };
                text += &format!("  - {{at: {at}, task: 't: {task}', {what}}}\n");
                if policy.contains("ipi") {
                    text += &format!("  - {{at: {at}, policy: {{nominal: {n}us, least: default}}}}\n");
                }
            }
            text
        },
    )
}

/// Domains, with the changes of their policies.
fn parts() -> impl Strategy<Value = String> {
    const POLICIES: [&str; 4] = ["g-fp", "'g-rr:quantum=2ms,grid=yes'", "{name: p-rr, quantum: 3ms}", "c-fifo"];
    let switch = (duration(), any::<bool>(), prop::sample::select(&POLICIES[..]));
    let tasks = prop::collection::vec((keys(), any::<bool>(), any::<bool>()), 1..6);
    let policies = (prop::sample::select(&POLICIES[..]), prop::sample::select(&POLICIES[..]));
    (policies, tasks, prop::collection::vec(switch, 0..6)).prop_map(|((first, second), tasks, switches)| {
        let mut text = format!(
            "domains:\n  - {{name: 'the: first', cpus: '0,5', policy: {first}, placement: bf}}\n  \
             - {{name: yes, cpus: 1-3, policy: {second}}}\ncpus: 0-6\n{SERVERS}tasks:\n"
        );
        for (i, ((_, keys), second, narrow)) in tasks.iter().enumerate() {
            let home = match (second, narrow) {
                (false, false) => "domain: 'the: first'",
                (false, true) => "cpu: 5",
                (true, false) => "domain: yes",
                (true, true) => "cpu: 2-3, domain: yes",
            };
            text += &format!("  - {{name: t{i}, {keys}, {home}}}\n");
        }
        text += if switches.is_empty() { "" } else { "changes:\n" };
        for (at, second, policy) in switches {
            let domain = if second { "yes" } else { "'the: first'" };
            text += &format!("  - {{at: {at}, domain: {domain}, policy: {policy}}}\n");
        }
        text
    })
}

fn task_list() -> impl Strategy<Value = String> {
    let policy = prop_oneof![Just("g-edf"), Just("g-rm"), Just("g-fp"), Just("p-edf, placement: bf")];
    let task = (duration(), prop::option::of(duration()), prop::option::of(0_usize..3), any::<bool>(), command());
    let task = (task, life(true, false, true));
    (policy, prop::collection::vec(task, 1..6)).prop_map(|(policy, tasks)| {
        let mut text = format!("{{policy: {policy}, cpus: 0-3, duration: 3s, on_crash: release, tasks: [");
        for (i, ((period, offset, cpu, named, cmd), life)) in tasks.into_iter().enumerate() {
            text += &format!("\n  {{period: {period}, runtime: 1ns, cmd: {cmd}");
            if named {
                text += &format!(", name: \"task {i}: #'\", deadline: 1h, budget: 3, jitter: 250us");
            }
            text += &offset.map_or(String::new(), |o| format!(", offset: {o}"));
            text += &cpu.map_or(String::new(), |c| format!(", cpu: {c}-3"));
            text += &format!("{life}}},");
        }
        text + "\n]}\n"
    })
}

#[test]
fn the_canonical_form_means_the_same() {
    takt_testing::for_all(
        256,
        (prop_oneof![table(), task_list(), laboratory(), parts()], prop::option::of(1_usize..4)),
        |(text, machine)| {
            let options = Options { machine: machine.map(CpuSet::first), ..Options::default() };
            match load(source("a/b.yaml", text.clone()), &options) {
                Ok(workload) => assert_round_trip(&workload, &options),
                Err(faults) => panic!("{faults:#?}\n{text}"),
            }
            Ok(())
        },
    );
}

#[test]
fn any_text_is_answered() {
    takt_testing::for_all(256, ("\\PC{0,80}", any::<bool>()), |(text, csv)| {
        check(if csv { "x.csv" } else { "x.yaml" }, text);
        Ok(())
    });
}

/// Names with commas, quotes, spaces and line ends, quoted as RFC 4180 has it, are read as they were written.
#[test]
fn quoted_cells_are_read_as_they_were_written() {
    let names = prop::collection::vec("[a-c,\" é;]{0,5}", 1..6);
    takt_testing::for_all(256, (names, any::<bool>()), |(names, all)| {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let number = |text: &str| if all { quoted(text) } else { text.to_owned() };
        let mut text = ["set_id", "task_id", "C_us", "D_us", "T_us"].map(number).join(",") + "\r\n";
        // Numbers tell names apart.
        let names: Vec<String> = names.iter().enumerate().map(|(i, name)| format!("{name}{i}")).collect();
        for name in &names {
            text += &[number("7"), quoted(name), number("1"), number("2"), number("3")].join(",");
            text.push('\n');
        }
        let source = Source { name: "x.csv".to_owned(), text: text.clone() };
        let sets = load_sets(&source).unwrap_or_else(|faults| panic!("{faults:#?}\n{text}"));
        let expected: Vec<String> = names.iter().map(|name| format!("T{name}")).collect();
        prop_assert_eq!(&sets[0].names, &expected, "{}", text);
        Ok(())
    });
}

#[test]
fn any_heap_of_cells_is_answered() {
    const PARTS: [&str; 11] =
        ["\"", "\"\"", ",", "\n", "\r\n", " ", "1", "set_id,task_id,C_us,D_us,T_us\n", "é", "\u{feff}", "-"];
    takt_testing::for_all(256, prop::collection::vec(prop::sample::select(&PARTS[..]), 0..40), |cells| {
        let text = cells.concat();
        check("x.csv", format!("set_id,task_id,C_us,D_us,T_us\n{text}"));
        check("x.csv", text);
        Ok(())
    });
}

#[test]
fn any_heap_of_yaml_marks_is_answered() {
    takt_testing::for_all(256, prop::collection::vec(prop::sample::select(MARKS), 0..60), |parts| {
        check("x.yaml", parts.concat());
        Ok(())
    });
}

#[test]
fn a_damaged_file_is_answered() {
    takt_testing::for_all(
        256,
        (prop_oneof![table(), laboratory(), parts()], any::<prop::sample::Index>(), prop::sample::select(MARKS)),
        |(text, cut, put)| {
            let mut at = cut.index(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            check("x.yaml", format!("{}{put}{}", &text[..at], &text[at..]));
            check("x.yaml", text[..at].to_owned());
            Ok(())
        },
    );
}

#[test]
fn any_bytes_are_answered() {
    takt_testing::for_all(256, prop::collection::vec(any::<u8>(), 0..60), |bytes| {
        if let Err(fault) = Source::from_bytes("x.yaml", bytes) {
            prop_assert!(!fault.render(true).is_empty());
        }
        Ok(())
    });
}

#[test]
fn single_values_never_panic() {
    takt_testing::for_all(256, "\\PC{0,24}|[0-9.,a-z -]{0,30}", |text| {
        let _ = parse_duration(&text);
        if let Ok(cpus) = parse_cpus(&text) {
            prop_assert_eq!(parse_cpus(&cpus.to_string()), Ok(cpus));
        }
        if let Ok(policy) = policy_from_text(&text) {
            prop_assert_eq!(policy_from_text(&policy_text(&policy)), Ok(policy));
        }
        Ok(())
    });
}

#[test]
fn a_text_of_a_policy_reads_back() {
    takt_testing::for_all(256, prop::collection::vec(prop::sample::select(POLICY_MARKS), 0..9), |parts| {
        if let Ok(policy) = policy_from_text(&parts.concat()) {
            prop_assert_eq!(policy_from_text(&policy_text(&policy)), Ok(policy));
        }
        Ok(())
    });
}

const POLICY_MARKS: &[&str] = &[
    "g-",
    "c-",
    "edf",
    "rr",
    "ipi",
    ":",
    ",",
    "=",
    "quantum=2ms",
    "kpi=0.5",
    "cluster=3",
    "preset=improved",
    "nominal=",
    "1us",
    "-",
    " ",
    "9999999999999999999s",
    "%",
    "é",
    ":quantum=2ms",
    ":cluster=1",
    ":kpi=1,krr=1",
];

const MARKS: &[&str] = &[
    "steps",
    "run 1ms",
    "lock r",
    "unlock r",
    "releases",
    "load",
    "domains",
    "domain",
    "burst",
    "points",
    "utility",
    "linear",
    "table",
    "batch",
    "execution",
    "on_abort",
    "completion",
    "on_exit",
    "signal=",
    "changes",
    "at",
    "task",
    "share",
    "resources",
    "preset",
    "hartstone",
    "costs",
    "\n",
    "\r\n",
    "\n  ",
    "\n    - ",
    "- ",
    ": ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&a ",
    "*a",
    "'",
    "\"",
    "|\n",
    ">-\n",
    "# c\n",
    "\t",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "!!str ",
    "!x ",
    "\\",
    "windows",
    "partitions",
    "length",
    "slices",
    "cpu",
    "all",
    "sc_partition",
    "be_processes",
    "processes",
    "cmd",
    "budget",
    "10",
    "-1",
    "0.5ms",
    "tasks",
    "period",
    "policy",
    "edf",
    "\u{feff}",
    "ü",
    "\u{2028}",
    "<<",
    "~",
    "null",
    "name",
    "x",
    "\u{1b}",
];

/// Loads the text; whatever is wrong can be shown, and what loads can be written out and loaded again.
fn check(name: &str, text: String) {
    let options =
        Options { policy: policy_from_text("edf").ok().filter(|_| name.ends_with("csv")), ..Options::default() };
    let source = source(name, text);
    let _ = load_sets(&source);
    match load(source.clone(), &options) {
        Ok(workload) => {
            workload.warnings.iter().for_each(|w| assert!(!w.render(&source, true).is_empty()));
            assert_eq!(workload.system.validate(), Ok(()));
            if name.ends_with("yaml") {
                assert_round_trip(&workload, &options);
            }
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            for fault in &faults {
                let shown = fault.render(&source, false);
                assert!(shown.starts_with("error[") && shown.ends_with('\n'), "{shown}");
                assert!(!shown.contains(['\u{1b}', '\r', '\0']), "{shown:?}");
            }
        }
    }
}
