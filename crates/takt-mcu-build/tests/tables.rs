//! Tables of all workloads of the project, and the faults of others with their places.

use std::fs;
use std::path::Path;
use takt_core::wire;
use takt_mcu_build::{Builder, Settings, identifiers, source, table, workload};
use takt_workload::{Code, Diagnostic, Options, Source};

fn load(text: &str) -> takt_workload::Workload {
    let source = Source { name: "test.yaml".into(), text: text.into() };
    takt_workload::load(source, &Options::default()).expect("a workload")
}

fn faults(text: &str, settings: &Settings) -> Vec<(Code, String, String)> {
    let workload = load(text);
    let shown = |fault: &Diagnostic| {
        let place = workload.source.text.get(fault.span.clone()).unwrap_or_default();
        (fault.code, place.to_owned(), fault.message.clone())
    };
    table(&workload, settings).expect_err("it has faults").iter().map(shown).collect()
}

const TASK: &str = "tasks: [{name: a, period: 10ms, runtime: 1ms}]\n";

#[test]
fn a_table_is_the_system_again() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let (mut made, mut refused) = (0, 0);
    for entry in fs::read_dir(directory).expect("the workloads") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let source = Source::read(&path).expect("a text");
        let Ok(workload) = takt_workload::load(source, &Options::default()) else { continue };
        let settings = Settings { allow_unschedulable: true, ..Settings::default() };
        match table(&workload, &settings) {
            Ok(made_of_it) => {
                made += 1;
                let again = wire::get_system(&made_of_it.bytes, &made_of_it.policy.profile).expect("bytes of a system");
                assert_eq!(again, made_of_it.system, "{}", path.display());
                assert_eq!(made_of_it.hash, wire::hash(&made_of_it.bytes));
                // Bytes that are cut off are none.
                let cut = &made_of_it.bytes[..made_of_it.bytes.len() - 1];
                assert!(wire::get_system(cut, &made_of_it.policy.profile).is_none());
                assert!(source::has_all(&made_of_it), "{}", path.display());
            }
            Err(faults) => {
                refused += 1;
                assert!(faults.iter().all(|fault| fault.hint.is_some()), "{}: {faults:?}", path.display());
            }
        }
    }
    assert!(made >= 5 && refused >= 5, "{made} tables, {refused} refused");
}

mod source {
    use super::{identifiers, source};

    /// The text names the policy and each task.
    pub(crate) fn has_all(table: &takt_mcu_build::Table) -> bool {
        let text = source(table, "TABLE");
        let idents = identifiers(&table.tasks);
        text.contains(&table.path) && idents.iter().all(|ident| text.contains(&format!("pub const {ident}:")))
    }
}

#[test]
fn keys_of_simulations_and_processes_are_refused_at_their_places() {
    for (key, text) in [
        ("tick", format!("policy: edf\ntick: 1ms\n{TASK}")),
        ("timer_resolution", format!("policy: edf\ntimer_resolution: 1ms\n{TASK}")),
        ("timer_lateness", format!("policy: edf\ntimer_lateness: 1ms\n{TASK}")),
    ] {
        let found = faults(&text, &Settings::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].0, found[0].1.starts_with(key)), (Code::NotSupportedHere, true), "{found:?}");
    }
}

#[test]
fn several_cpus_domains_and_windows_are_refused_at_their_places() {
    let several = format!("policy: g-edf\ncpus: 0,1\n{TASK}");
    let domains =
        "domains:\n  - {name: d, cpus: 0, policy: edf}\ntasks: [{name: a, domain: d, period: 10ms, runtime: 1ms}]\n";
    let windows = "partitions: [{name: P, processes: [{name: a, cmd: /bin/true, budget: 4}]}]\n\
                   windows:\n  - {length: 10, slices: [{cpu: 0, sc_partition: P}]}\n";
    for (key, text) in [("cpus", several.as_str()), ("domains", domains), ("windows", windows)] {
        let found = faults(text, &Settings::default());
        let at = |(code, place, _): &&(Code, String, String)| *code == Code::NotSupportedHere && place.starts_with(key);
        assert_eq!(found.iter().filter(at).count(), 1, "{key}: {found:?}");
        // No verdict about a system that the kernel cannot have.
        assert!(found.iter().all(|(code, ..)| *code != Code::Overload), "{key}: {found:?}");
    }
}

#[test]
fn a_class_of_linux_is_refused_at_the_task() {
    let text = "policy: edf\ntasks:\n  - {name: a, period: 10ms, runtime: 1ms}\n  \
                - {name: b, class: fifo=20, cmd: /bin/true, init: yes, period: 10ms, runtime: 1ms}\n";
    let found = faults(text, &Settings::default());
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [Code::NotSupportedHere], "{found:?}");
    assert!(found[0].1.contains('b') && found[0].2.contains("`b`"), "{found:?}");
}

/// The text that cargo shows of a build script with this workload; `None` if there is a table.
fn script(name: &str, text: &str, settings: impl FnOnce(Builder) -> Builder) -> Option<String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("a file");
    settings(workload(&path)).table().err().map(|why| format!("{why:?}"))
}

#[test]
fn a_build_script_shows_the_place_in_the_file() {
    let plain = format!("policy: edf\n{TASK}");
    assert_eq!(script("sound.yaml", &plain, |builder| builder), None);
    let heavy = "policy: edf\ncosts: {scheduler: 100us}\ntasks: [{name: a, period: 1ms, runtime: 0.9ms}]\n";
    assert_eq!(script("allowed.yaml", heavy, Builder::allow_unschedulable), None);
    for (file, text, place, what) in [
        ("unknown.yaml", format!("policy: edff\n{TASK}"), "unknown.yaml:1:9", "edff"),
        ("heavy.yaml", heavy.to_owned(), "heavy.yaml:3:1", "allow_unschedulable()"),
        ("tick.yaml", format!("policy: edf\ntick: 1ms\n{TASK}"), "tick.yaml:2:1", "remove the key"),
    ] {
        let shown = script(file, &text, |builder| builder).expect("it fails");
        assert!(shown.contains(place) && shown.contains(what), "{shown}");
    }
    // A policy of the script has no place in the file.
    let shown = script("script.yaml", &plain, |builder| builder.policy("edff")).expect("it fails");
    assert!(shown.contains("edff"), "{shown}");
    let several = script("several.yaml", &plain, |builder| builder.policy("llref")).expect("it fails");
    assert!(several.contains("not for one CPU") && several.contains("sporadic-server"), "{several}");
    let absent = workload("absent.yaml").table().err().map(|why| format!("{why:?}")).expect("it fails");
    assert!(absent.contains("absent.yaml"), "{absent}");
}

#[test]
fn a_thread_cannot_complete_aborted_work() {
    for rule in ["finish", "signal"] {
        let text = format!("policy: edf\ntasks: [{{name: a, period: 10ms, runtime: 1ms, on_abort: {rule}}}]\n");
        let found = faults(&text, &Settings::default());
        assert_eq!(found.len(), 1);
        assert!(found[0].2.contains(rule) && !found[0].1.is_empty(), "{found:?}");
    }
}

#[test]
fn policies_for_several_cpus_are_refused() {
    let found = faults(&format!("policy: llref\n{TASK}"), &Settings::default());
    assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [Code::UnsuitablePolicy]);
    assert!(found[0].1.starts_with("policy"), "{found:?}");
}

#[test]
fn stacks_and_names_of_the_build_script_are_checked() {
    let text = format!("policy: edf\n{TASK}");
    let stack = |bytes| Settings { stacks: vec![("a".into(), bytes)], ..Settings::default() };
    for bytes in [0, 255, 248, 260] {
        let found = faults(&text, &stack(bytes));
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [Code::OutOfRange], "{bytes}");
        assert!(found[0].1.contains('a'), "it points at the task: {found:?}");
    }
    assert!(table(&load(&text), &stack(256)).is_ok());
    for bytes in [248, 260] {
        let found = faults(&text, &Settings { stack: bytes, ..Settings::default() });
        assert_eq!(found.iter().map(|f| f.0).collect::<Vec<_>>(), [Code::OutOfRange], "{bytes}");
        assert!(found[0].2.contains("default stack"), "{found:?}");
    }
    let unknown = Settings { restarts: vec!["b".into()], ..Settings::default() };
    assert_eq!(faults(&text, &unknown)[0].0, Code::UnknownName);
}

#[test]
fn a_workload_that_is_not_schedulable_with_its_costs_is_refused() {
    let text = "policy: edf\ncosts: {scheduler: 100us}\ntasks: [{name: a, period: 1ms, runtime: 0.9ms}]\n";
    let found = faults(text, &Settings::default());
    assert_eq!((found[0].0, found[0].1.starts_with("tasks")), (Code::Overload, true), "{found:?}");
    let allowed = table(&load(text), &Settings { allow_unschedulable: true, ..Settings::default() }).expect("a table");
    assert_eq!(allowed.warnings.iter().map(|w| w.code).collect::<Vec<_>>(), [Code::Overload]);
    assert!(table(&load(&text.replace("100us", "10us")), &Settings::default()).is_ok());
}

#[test]
fn commands_are_ignored_with_a_warning() {
    let text = "policy: edf\ntasks: [{name: a, cmd: /bin/true, period: 10ms, runtime: 1ms}]\n";
    let made = table(&load(text), &Settings::default()).expect("a table");
    assert!(made.warnings.iter().any(|w| w.code == Code::IgnoredKey), "{:?}", made.warnings);
}

#[test]
fn names_become_identifiers_that_differ() {
    let names = ["left wheel", "left-wheel", "2nd", "", "µ"].map(str::to_owned);
    assert_eq!(identifiers(&names), ["LEFT_WHEEL", "LEFT_WHEEL_", "N2ND", "N", "N_"]);
}

#[test]
fn changes_become_inputs_of_the_table() {
    let text = "policy: rr\nduration: 5s\ntasks: [{name: a, period: 10ms, runtime: 1ms}, {name: b, event: yes, runtime: 1ms}]\n\
                changes:\n  - {at: 1s, task: a, period: 20ms}\n  - {at: 2s, policy: {quantum: 3ms}}\n  - {at: 3s, task: b, release: yes}\n  \
                - {at: 4s, task: a, leave: yes}\n";
    let made = table(&load(text), &Settings::default()).expect("a table");
    let text = source(&made, "TABLE");
    for part in [
        "from_ns(1000000000), ::takt_mcu::core::input::Input::Retime { task: ::takt_mcu::core::model::TaskId(0), period",
        "Input::Configure { setting: 0, value: Some(3000000) }",
        "from_ns(3000000000), ::takt_mcu::core::input::Input::Release { task: ::takt_mcu::core::model::TaskId(1) }",
        "Input::Leave { task: ::takt_mcu::core::model::TaskId(0) }",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(made.changes.len(), 4);
    let switch = format!("policy: edf\nduration: 5s\n{TASK}changes: [{{at: 1s, policy: rm}}]\n");
    let found = faults(&switch, &Settings::default());
    assert_eq!((found[0].0, found[0].1.starts_with("changes")), (Code::NotSupportedHere, true), "{found:?}");
}

#[test]
fn the_table_of_a_rule_for_late_jobs_needs_a_feature() {
    let plain = format!("policy: edf\n{TASK}");
    for (text, needs) in [(plain.clone(), false), (format!("preset: hartstone\n{plain}"), true)] {
        let made = table(&load(&text), &Settings::default()).expect("a table");
        assert_eq!(source(&made, "TABLE").contains("assert!(::takt_mcu::BACKLOGS"), needs, "{text}");
    }
}

#[test]
fn a_table_that_is_cut_off_or_has_a_damaged_byte_is_no_other_system() {
    let made = table(&load(&format!("policy: edf\nresources: [r]\n{TASK}")), &Settings::default()).expect("a table");
    let profile = &made.policy.profile;
    for length in 0..made.bytes.len() {
        assert!(wire::get_system(&made.bytes[..length], profile).is_none(), "{length} bytes");
    }
    for at in 0..made.bytes.len() {
        let mut bytes = made.bytes.clone();
        bytes[at] = 0xff;
        // The bytes that follow are read as others, and no length makes the reader allocate more than there are.
        assert!(wire::get_system(&bytes, profile).is_none_or(|system| system.tasks.len() <= bytes.len()), "byte {at}");
    }
}
