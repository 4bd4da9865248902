//! The schema of workload files accepts each file that the reader accepts, and refuses unknown keys and wrong kinds as the reader does.

use jsonschema::Validator;
use serde_json::{Map, Number, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use takt_workload::document::{Kind, Node, parse};
use takt_workload::keys::{ALL, keys_of};
use takt_workload::{Code, Options, Source};

fn validator() -> Validator {
    jsonschema::draft202012::options().build(&takt::schema()).expect("a schema of draft 2020-12")
}

/// The value in JSON by the core schema of YAML 1.2 (section 10.3.2), as editors read it.
fn in_json(node: &Node) -> Value {
    match &node.kind {
        Kind::List(items) => items.iter().map(|item| in_json(item)).collect(),
        Kind::Map(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), in_json(&entry.value))).collect::<Map<_, _>>())
        }
        Kind::Scalar { text, plain: false } => json!(text),
        Kind::Scalar { text, plain: true } => match text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => Value::Null,
            "true" | "True" | "TRUE" => json!(true),
            "false" | "False" | "FALSE" => json!(false),
            text => number(text).map_or_else(|| json!(text), Value::Number),
        },
    }
}

fn number(text: &str) -> Option<Number> {
    let radix = |prefix, radix| Some(i64::from_str_radix(text.strip_prefix(prefix)?, radix).ok()?.into());
    let decimal = || {
        let begins = text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let digits = text.trim_start_matches('+');
        let whole = digits.parse::<i64>().map(Number::from).or_else(|_| digits.parse::<u64>().map(Number::from));
        whole.ok().or_else(|| Number::from_f64(digits.parse().ok()?)).filter(|_| begins)
    };
    radix("0o", 8).or_else(|| radix("0x", 16)).or_else(decimal)
}

fn value(text: &str) -> Value {
    in_json(&parse(text, "").unwrap_or_else(|fault| panic!("{text}: {fault:?}")).0)
}

/// The faults of the reader.
fn faults(name: &str, text: &str) -> Vec<takt_workload::Diagnostic> {
    let source = Source { name: name.to_owned(), text: text.to_owned() };
    takt_workload::load(source, &Options::default()).err().unwrap_or_default()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The workload files below a folder.
fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "yaml") {
            all.push(path);
        }
    }
}

#[test]
fn the_schema_is_one_of_its_draft() {
    let schema = takt::schema();
    jsonschema::draft202012::meta::validate(&schema).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(schema, takt::schema());
}

#[test]
fn every_file_of_workloads_is_valid() {
    let (validator, mut all) = (validator(), Vec::new());
    files(&root().join("workloads"), &mut all);
    let mut seen = 0;
    for path in all {
        let text = std::fs::read_to_string(&path).expect("a text");
        // A platform is a part of a workload, and a file of its own there.
        if path.parent().is_some_and(|folder| folder.ends_with("platforms")) {
            let mut part = takt::schema();
            let own = json!({"$ref": "#/$defs/platform", "$defs": part["$defs"].take()});
            let platform = value(&text);
            let platform = platform.get("platform").unwrap_or(&platform);
            let validator = jsonschema::draft202012::options().build(&own).expect("a schema");
            validator
                .validate(platform)
                .unwrap_or_else(|fault| panic!("{path:?}: {fault} at {}", fault.instance_path()));
            continue;
        }
        let faults = faults(&path.display().to_string(), &text);
        assert!(faults.is_empty(), "{path:?}: {faults:?}");
        validator
            .validate(&value(&text))
            .unwrap_or_else(|fault| panic!("{path:?}: {fault} at {}", fault.instance_path()));
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

/// Every table that the schema can reach, each with a file that has `KEY: VALUE` in it.
const PLACES: [(&str, &str); 11] = [
    ("file", "policy: edf\ntasks: [{period: 10ms}]\nKEY: VALUE\n"),
    ("domain", "domains: [{name: a, cpus: 0, policy: edf, KEY: VALUE}]\ntasks: [{period: 10ms}]\n"),
    ("server", "policy: edf\nservers: [{name: a, budget: 1ms, period: 10ms, KEY: VALUE}]\ntasks: [{period: 10ms}]\n"),
    ("window", "windows: [{length: 10, KEY: VALUE}]\n"),
    ("slice", "windows: [{length: 10, slices: [{cpu: 0, KEY: VALUE}]}]\n"),
    ("partition", "windows: [{length: 10}]\npartitions: [{name: a, processes: [x], KEY: VALUE}]\n"),
    ("process", "windows: [{length: 10}]\npartitions: [{policy: edf, processes: [{cmd: x, KEY: VALUE}]}]\n"),
    ("task", "policy: edf\ntasks: [{name: a, period: 10ms, KEY: VALUE}]\n"),
    ("event", "policy: edf\ntasks: [{event: {KEY: VALUE}}]\n"),
    ("costs", "policy: edf\ntasks: [{period: 10ms}]\ncosts: {KEY: VALUE}\n"),
    ("change", "policy: edf\ntasks: [{name: a, period: 10ms}]\nchanges: [{at: 1s, task: a, KEY: VALUE}]\n"),
];

/// Values of every kind, wrong for most keys.
const VALUES: [&str; 46] = [
    "5",
    "0",
    "-5",
    "0.5",
    "30%",
    "10ms",
    "0ms",
    "-2ms",
    "10 us",
    "3 parsecs",
    "yes",
    "no",
    "true",
    "off",
    "none",
    "never",
    "all",
    "0-3",
    "1,3-7:2",
    "5000",
    "7-",
    "text of words",
    "abort",
    "auto",
    "edf",
    "g-edf",
    "\"rr:quantum=2ms\"",
    "g-edff",
    "~",
    "[]",
    "[1ms, 2ms]",
    "[x]",
    "[5]",
    "[[0ms, 1]]",
    "{}",
    "{zzz: 1}",
    "{name: rr, quantum: 2ms}",
    "{runtime: 1ms}",
    "{budget: 1ms, period: 10ms}",
    "{exec: x}",
    "{file: x}",
    "{linear: 5}",
    "{count: 2}",
    "signal=USR1",
    "fifo=20",
    "minbe",
];

/// Faults of a value by itself.
const OF_A_VALUE: [Code; 4] = [Code::WrongType, Code::UnknownKey, Code::UnknownValue, Code::MissingUnit];

/// The file with a key, in place of the same key that it may have.
fn with(file: &str, key: &str, value: &str) -> String {
    let begin = file.find("KEY: VALUE").expect("a place");
    let line = file[..begin].rfind('\n').map_or(0, |at| at + 1);
    let mut text = file.to_owned();
    // The innermost mapping before the place, or the whole file.
    let inside = file[line..begin].rfind('{').map(|at| line + at + 1);
    match inside {
        Some(open) => {
            let others: Vec<&str> = file[open..begin]
                .split(", ")
                .map(str::trim)
                .filter(|part| !part.is_empty() && !part.starts_with(&format!("{key}: ")))
                .collect();
            let others: String = others.iter().map(|part| format!("{part}, ")).collect();
            text.replace_range(open..begin, &others);
        }
        None => {
            let others: String = file[..begin]
                .lines()
                .filter(|l| !l.starts_with(&format!("{key}: ")))
                .map(|l| format!("{l}\n"))
                .collect();
            text.replace_range(..begin, &others);
        }
    }
    text.replace("KEY: VALUE", &format!("{key}: {value}"))
}

/// A key whose value the reader refuses by itself is refused by the schema, and one that the reader accepts is accepted. The exceptions are the limits of a
/// schema.
#[test]
fn the_schema_has_the_kinds_of_the_reader() {
    let validator = validator();
    let (mut refused, mut accepted) = (BTreeSet::new(), BTreeSet::new());
    let mut wrong = Vec::new();
    for (table, file) in PLACES {
        let (_, keys) = ALL.iter().find(|(name, _)| *name == table).expect("a table");
        let of = match table {
            "process" => keys_of("a process"),
            "partition" => keys_of("a partition"),
            _ => keys.iter().map(|key| key.name).collect(),
        };
        for key in of.into_iter().chain(["zzz"]) {
            for value_text in VALUES {
                let text = with(file, key, value_text);
                let Ok((tree, _)) = parse(&text, "") else { continue };
                let faults = faults("a.yaml", &text);
                // Faults of this key's value stand in it or at its key.
                let at = text.rfind(&format!("{key}: {value_text}")).expect("the key");
                let place = at..at + key.len() + 2 + value_text.len();
                let own =
                    faults.iter().any(|fault| OF_A_VALUE.contains(&fault.code) && place.contains(&fault.span.start));
                let valid = validator.is_valid(&in_json(&tree));
                // `output: ~` and `output: null` are one value in JSON.
                let one_value = (key, value_text) == ("output", "~");
                if own && valid && !one_value {
                    wrong.push(format!("accepted: {text}{faults:?}"));
                } else if faults.is_empty() && !valid {
                    let fault = validator.validate(&in_json(&tree)).expect_err("a fault").to_string();
                    wrong.push(format!("refused: {text}{fault}"));
                }
                if own {
                    refused.insert((table, key));
                } else if faults.is_empty() {
                    accepted.insert((table, key));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} faults\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    // The values reach most keys in both ways.
    assert!(refused.len() > 150 && accepted.len() > 90, "{} {}", refused.len(), accepted.len());
}

#[test]
fn broken_files_are_refused() {
    let validator = validator();
    for text in [
        "policy: edf\ntasks: [{name: a, perid: 10ms}]",
        "policy: edf\ntasks: [{name: a, period: 10}]",
        "policy: edf\ntasks: [{name: a, period: 10parsecs}]",
        "policy: edf\ntasks: [{name: a, period: -10ms}]",
        "policy: edf\ntasks: {name: a, period: 10ms}",
        "policy: edf\ntasks: []",
        "policy: edff\ntasks: [{period: 10ms}]",
        "policy: {quantum: 2ms}\ntasks: [{period: 10ms}]",
        "policy: {name: rr, quantun: 2ms}\ntasks: [{period: 10ms}]",
        "policy: edf\nzzz: 1\ntasks: [{period: 10ms}]",
        "policy: edf\nlate: never\ntasks: [{period: 10ms}]",
        "policy: edf\ncpus: [0, 1]\ntasks: [{period: 10ms}]",
        "policy: edf\ncpus: 1024\ntasks: [{period: 10ms}]",
        "policy: edf\ntasks: [{period: 10ms, steps: [walk 2ms]}]",
        "policy: edf\ntasks: [{period: 10ms, steps: [run]}]",
        "policy: edf\ntasks: [{period: 10ms, steps: [{run: 1ms, sleep: 1ms}]}]",
        "policy: edf\ntasks: [{period: 10ms, reservation: {budget: 1ms}}]",
        "policy: edf\ntasks: [{period: 10ms, handler: {runtime: 1ms, dedline: 5ms}}]",
        "policy: edf\ntasks: [{period: 10ms, limits: {nofiles: 5}}]",
        "policy: edf\ntasks: [{period: 10ms, env: {TAKT_SHARE: 5}}]",
        "policy: edf\ntasks: [{period: 10ms, umask: 888}]",
        "policy: edf\nload: {ramp: {from: 1, to: 2}}\ntasks: [{period: 10ms}]",
        "policy: edf\nload: {ramp: {from: 1, to: 2, over: 1s}, step: {from: 1, to: 2, at: 1s}}\ntasks: [{period: 10ms}]",
        "policy: edf\nepp: {0-3: strong}\ntasks: [{period: 10ms}]",
        "policy: edf\nplatform: {clusters: [{cpus: 0, capacitance: 100, frequencies: [{mhz: 1, voltage: 1V}]}]}\ntasks: [{period: 10ms}]",
        "policy: edf\nduration: 10s\n",
        "windows: [{slices: [{cpu: 0}]}]",
        "windows: [{length: 10, slices: [{cpus: 0}]}]",
        "windows: [{length: 10, sc_partition: {processes: [{cmd: x, bugdet: 5}]}}]",
    ] {
        assert!(!faults("a.yaml", text).is_empty(), "{text}");
        assert!(!validator.is_valid(&value(text)), "{text}");
    }
}

/// Files with which the reader's messages are tested: the schema refuses those with an unknown key or a wrong kind, except for its limits.
#[test]
fn files_with_unknown_keys_or_wrong_kinds_are_refused() {
    // JSON has no list as a key, and a frequency is one of the platform.
    const LIMITS: [&str; 4] =
        ["key-is-a-list.yaml", "power-domains.yaml", "power-frequency.yaml", "power-process.yaml"];
    let (validator, mut all) = (validator(), Vec::new());
    files(&root().join("crates/takt-workload/tests/broken"), &mut all);
    let (mut seen, mut accepted) = (0, Vec::new());
    for path in all {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let faults = faults(&path.display().to_string(), &text);
        if !faults.iter().any(|fault| OF_A_VALUE.contains(&fault.code)) {
            continue;
        }
        let Ok((tree, _)) = parse(&text, "") else { continue };
        seen += 1;
        if validator.is_valid(&in_json(&tree)) {
            accepted.push(path.file_name().expect("a name").to_string_lossy().into_owned());
        }
    }
    assert_eq!(accepted, LIMITS);
    assert!(seen > 30, "{seen}");
}
