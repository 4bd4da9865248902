//! Every file under `broken/` beside the diagnostics that it gets, in `broken/NAME.snap`.

use std::path::{Path, PathBuf};
use takt_workload::{Options, Source, load, policy_from_text};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder exists");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml" || e == "csv"));
    files.sort();
    files
}

/// All diagnostics of a file, and whether it can be used.
fn diagnose(path: &Path, options: &Options) -> (String, bool) {
    let bytes = std::fs::read(path).expect("a readable file");
    let name = path.file_name().expect("a file").to_string_lossy().into_owned();
    let source = match Source::from_bytes(name, bytes) {
        Ok(source) => source,
        Err(fault) => return (fault.render(false), false),
    };
    match load(source.clone(), options) {
        Ok(workload) => (workload.warnings.iter().map(|d| d.render(&source, false)).collect(), true),
        Err(faults) => (faults.iter().map(|d| d.render(&source, false) + "\n").collect(), false),
    }
}

/// The line, with the list of the many settings of a policy replaced by a word.
fn without_settings(line: &str) -> String {
    match line.split_once(" are `").map(|(start, rest)| (start, rest.split('`').next())) {
        Some(("hint: its settings", Some("preset"))) => "hint: its settings are SETTINGS\n".to_owned(),
        _ => line.to_owned(),
    }
}

fn snapshots(folder: &str, usable: bool) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let files = files(folder);
    assert!(!files.is_empty());
    for path in files {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        // A task set says nothing of its policy; without one that would be the only fault.
        let policy = name.ends_with(".csv").then(|| policy_from_text("edf").expect("a policy"));
        let (text, is_usable) = diagnose(&path, &Options { policy, ..Options::default() });
        assert_eq!(is_usable, usable, "{name}: {text}");
        // A new policy or setting must not touch these files.
        let text: String = text.split_inclusive('\n').map(without_settings).collect();
        settings.bind(|| insta::assert_snapshot!(name, text));
    }
}

#[test]
fn broken_files_are_explained() {
    snapshots("broken", false);
}

#[test]
fn suspicious_files_load_with_a_warning() {
    snapshots("suspicious", true);
}

#[test]
fn there_are_enough_broken_files() {
    assert!(files("broken").len() >= 30);
}

#[test]
fn colour_marks_the_severity_and_the_hint() {
    let source = Source { name: "a.yaml".to_owned(), text: "tasks:\n  - {name: a, period: 10ms}\n".to_owned() };
    let faults = load(source.clone(), &Options::default()).unwrap_err();
    let (plain, colored) = (faults[0].render(&source, false), faults[0].render(&source, true));
    assert!(!plain.contains('\u{1b}'));
    assert!(colored.contains("\u{1b}[") && colored.contains("hint"), "{colored:?}");
}
