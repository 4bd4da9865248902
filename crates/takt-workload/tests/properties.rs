//! Properties over many files: the canonical form means the same, and no text makes the reader panic.

use proptest::prelude::*;
use takt_core::cpus::CpuSet;
use takt_workload::{
    Options, Source, Workload, canonical, load, load_sets, parse_cpus, parse_duration, policy_from_text,
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
    assert_eq!(second.slice_frequencies_mhz, first.slice_frequencies_mhz, "{text}");
    assert_eq!(second.settings, first.settings, "{text}");
    assert_eq!(canonical(&second), text);
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

/// A process, its keys in the given kind of partition.
fn process(online: bool) -> impl Strategy<Value = String> {
    (command(), duration(), prop::option::of(1_u32..9_000), any::<bool>(), any::<u32>(), prop::option::of(duration()))
        .prop_map(move |(cmd, time, frequency, flag, number, offset)| {
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
            format!("{{{}}}", fields.join(", "))
        })
}

fn table() -> impl Strategy<Value = String> {
    let partition = prop_oneof![
        prop::collection::vec(process(false), 1..4).prop_map(|p| format!("processes: [{}]", p.join(", "))),
        prop::collection::vec(process(true), 1..4)
            .prop_map(|p| format!("policy: g-edf, processes: [{}]", p.join(", "))),
    ];
    let window = (duration(), 0_usize..5, 0_usize..5, any::<bool>(), prop::option::of(1_u32..3_000));
    (
        prop::collection::vec(partition, 4),
        prop::collection::vec(window, 1..5),
        prop::option::of(any::<u64>()),
        any::<[bool; 4]>(),
    )
        .prop_map(|(partitions, windows, seed, flags)| {
            let mut text = String::from("partitions:\n");
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

fn task_list() -> impl Strategy<Value = String> {
    let policy = prop_oneof![Just("g-edf"), Just("g-rm"), Just("g-fp"), Just("p-edf, placement: bf")];
    let task = (duration(), prop::option::of(duration()), prop::option::of(0_usize..3), any::<bool>(), command());
    (policy, prop::collection::vec(task, 1..6)).prop_map(|(policy, tasks)| {
        let mut text = format!("{{policy: {policy}, cpus: 0-3, duration: 3s, on_crash: release, tasks: [");
        for (i, (period, offset, cpu, named, cmd)) in tasks.into_iter().enumerate() {
            text += &format!("\n  {{period: {period}, runtime: 1ns, cmd: {cmd}");
            if named {
                text += &format!(", name: \"task {i}: #'\", deadline: 1h, budget: 3, jitter: 250us");
            }
            text += &offset.map_or(String::new(), |o| format!(", offset: {o}"));
            text += &cpu.map_or(String::new(), |c| format!(", cpu: {c}-3"));
            text += "},";
        }
        text + "\n]}\n"
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_canonical_form_means_the_same(text in prop_oneof![table(), task_list()], machine in prop::option::of(1_usize..4)) {
        let options = Options { machine: machine.map(CpuSet::first), ..Options::default() };
        match load(source("a/b.yaml", text.clone()), &options) {
            Ok(workload) => assert_round_trip(&workload, &options),
            Err(faults) => panic!("{faults:#?}\n{text}"),
        }
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,80}", csv in any::<bool>()) {
        check(if csv { "x.csv" } else { "x.yaml" }, text);
    }

    #[test]
    fn any_heap_of_yaml_marks_is_answered(parts in prop::collection::vec(prop::sample::select(MARKS), 0..60)) {
        check("x.yaml", parts.concat());
    }

    #[test]
    fn a_damaged_file_is_answered(text in table(), cut in any::<prop::sample::Index>(), put in prop::sample::select(MARKS)) {
        let mut at = cut.index(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        check("x.yaml", format!("{}{put}{}", &text[..at], &text[at..]));
        check("x.yaml", text[..at].to_owned());
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Err(fault) = Source::from_bytes("x.yaml", bytes) {
            prop_assert!(!fault.render(true).is_empty());
        }
    }

    #[test]
    fn single_values_never_panic(text in "\\PC{0,24}|[0-9.,a-z -]{0,30}") {
        let _ = parse_duration(&text);
        if let Ok(cpus) = parse_cpus(&text) {
            prop_assert_eq!(parse_cpus(&cpus.to_string()), Ok(cpus));
        }
        let _ = policy_from_text(&text);
    }
}

const MARKS: &[&str] = &[
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
                assert!(shown.starts_with("error: ") && shown.ends_with('\n'), "{shown}");
                assert!(!shown.contains(['\u{1b}', '\r', '\0']), "{shown:?}");
            }
        }
    }
}
