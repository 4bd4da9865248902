//! Expected texts: the simulated Gantt chart of every workload in `workloads/`, and what `check` says about it.

use crate::common::{Room, TAKT, workloads};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every workload of the repository, by its path below `workloads/`.
pub(crate) fn names() -> Vec<String> {
    let mut names = Vec::new();
    for below in ["", "features/"] {
        for entry in fs::read_dir(workloads().join(below)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if let Some(name) = name.strip_suffix(".yaml") {
                names.push(format!("{below}{name}"));
            }
        }
    }
    names.sort();
    assert!(names.len() >= 16, "{names:?}");
    names
}

/// Output of `takt`, called in `workloads/`, after the line that called it.
fn said(args: &[&str]) -> String {
    let output = Command::new(TAKT).args(args).current_dir(workloads()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    // It depends on this machine.
    let out: String =
        out.lines().filter(|line| !line.starts_with("SCHED_DEADLINE: ")).map(|line| format!("{line}\n")).collect();
    let mut said = format!("$ takt {}\n{out}", args.join(" "));
    if !err.is_empty() {
        said += &format!("-- standard error:\n{err}");
    }
    match output.status.code() {
        Some(0) => said,
        code => format!("{said}-- exit status {}\n", code.expect("no signal")),
    }
}

/// Compares with the expected text, or writes it when `UPDATE` is set.
fn compare(path: &Path, text: &str, wrong: &mut Vec<String>) {
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected != text {
        let line = expected.lines().zip(text.lines()).take_while(|(a, b)| a == b).count();
        let at = |text: &str| text.lines().nth(line).unwrap_or("(nothing)").to_string();
        wrong.push(format!("{}:{}\n  expected: {}\n  now:      {}", path.display(), line + 1, at(&expected), at(text)));
    }
}

fn compare_all(file: impl Fn(&str) -> PathBuf, text: impl Fn(&str) -> String) {
    let mut wrong = Vec::new();
    for name in names() {
        compare(&file(&name), &text(&format!("{name}.yaml")), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 rewrites the files", wrong.join("\n"));
}

fn own(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected").join(name)
}

#[test]
fn every_workload_is_simulated_as_expected() {
    let expected = workloads().join("expected");
    compare_all(|name| expected.join(format!("{name}.txt")), |file| said(&["sim", file]));
    for below in ["", "features"] {
        for entry in fs::read_dir(expected.join(below)).unwrap().flatten().filter(|e| e.path().is_file()) {
            let workload = workloads().join(below).join(entry.file_name()).with_extension("yaml");
            assert!(workload.exists(), "{} has no workload", entry.path().display());
        }
    }
}

#[test]
fn every_workload_is_judged_as_expected() {
    compare_all(|name| own(&format!("check/{name}.txt")), |file| said(&["check", file]));
}

#[test]
fn every_workload_has_its_canonical_form_and_that_is_a_fixed_point() {
    compare_all(|name| own(&format!("canonical/{name}.txt")), |file| said(&["check", "--canonical", file]));
    for name in names() {
        let room = Room::new();
        let first = room.takt(&["check", "--canonical", workloads().join(format!("{name}.yaml")).to_str().unwrap()]);
        fs::write(room.path("w.yaml"), &first.expect(0).stdout).unwrap();
        let second = room.takt(&["check", "--canonical", "w.yaml"]).expect(0);
        assert_eq!(second.stdout, room.text("w.yaml"), "{name}");
    }
}

#[test]
fn the_registry_is_listed_as_expected() {
    let mut wrong = Vec::new();
    compare(&own("policies.txt"), &said(&["policies"]), &mut wrong);
    compare(&own("policies-edf.txt"), &said(&["policies", "g-edf"]), &mut wrong);
    compare(&own("policies-rr.txt"), &said(&["policies", "rr"]), &mut wrong);
    assert!(wrong.is_empty(), "{}\nUPDATE=1 rewrites the files", wrong.join("\n"));
}
