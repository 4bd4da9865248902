//! The program compares two policies, and reports the faults of a file.

use std::path::Path;
use std::process::{Command, Output};

fn embed(arguments: &[&str]) -> Output {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    Command::new(env!("CARGO_BIN_EXE_embed")).args(arguments).current_dir(workloads).output().unwrap()
}

#[test]
fn two_policies_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let said = embed(&["overload.yaml", "edf", "dasa-nd", folder.path().to_str().unwrap()]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success(), "{text}{}", String::from_utf8_lossy(&said.stderr));
    assert!(text.starts_with("overload.yaml: "), "{text}");
    let jobs = |policy: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{policy}: "))).expect("a line");
    assert!(jobs("edf").starts_with("{\"released\":"), "{text}");
    assert_ne!(jobs("edf"), jobs("dasa-nd"), "an overload tells them apart");
    for policy in ["edf", "dasa-nd"] {
        let chart = std::fs::read_to_string(folder.path().join(format!("{policy}.svg"))).unwrap();
        assert!(chart.starts_with("<svg") && chart.trim_end().ends_with("</svg>"), "{policy}");
    }
}

#[test]
fn bad_input_is_reported_with_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.yaml");
    std::fs::write(&file, "policy: edf\ntasks:\n- {name: a, perid: 10ms, runtime: 1ms}\n").unwrap();
    for (arguments, wanted) in [
        (&[file.to_str().unwrap(), "edf", "rm", "."][..], "w.yaml:3:13: "),
        (&["quickstart.yaml", "edg", "rm", "."], "did you mean `edf`"),
        (&["quickstart.yaml"], "usage: "),
    ] {
        let said = embed(arguments);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(2), "{text}");
        assert!(text.contains(wanted), "{text}");
    }
}
