//! The library gives what the commands print: each workload of the repository, checked and simulated by both.

use crate::common::{TAKT, workloads};
use crate::golden::names;
use serde_json::Value;
use std::process::Command;
use takt::{LoadOptions, SimulateOptions};

/// Standard output of a command about a workload.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(TAKT).args(arguments).current_dir(workloads()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn results_of_the_library_are_the_objects_of_the_commands() {
    for name in names() {
        let file = format!("{name}.yaml");
        let mut workload = takt::load(workloads().join(&file), &LoadOptions::default()).unwrap();
        workload.source.name.clone_from(&file);
        let check = takt::check(&workload).unwrap();
        let mut wanted = object(&printed(&["check", "--machine", "none", "--json", &file]));
        // The command adds what it finds on this machine.
        wanted.as_object_mut().unwrap().remove("power");
        assert_eq!(serde_json::to_value(&check).unwrap(), wanted, "check {file}");
        if !printed(&["check", "--machine", "none", "--json", &file]).contains("\"power\"") {
            assert_eq!(check.text(), printed(&["check", "--machine", "none", &file]), "check {file}");
        }
        let simulation = match takt::simulate(&workload, &SimulateOptions { trace: true, ..Default::default() }) {
            Ok(simulation) => simulation,
            // Both refuse it, in the same words.
            Err(error) => {
                let output = Command::new(TAKT).args(["sim", &file]).current_dir(workloads()).output().unwrap();
                assert!(String::from_utf8(output.stderr).unwrap().contains(&error.to_string()), "{error}");
                continue;
            }
        };
        let wanted = object(&printed(&["sim", "--json", &file]));
        assert_eq!(serde_json::to_value(simulation.result()).unwrap(), wanted, "sim {file}");
        let text = printed(&["sim", &file]);
        let shown = simulation.text();
        assert!(text.starts_with(&shown), "sim {file}:\n{shown}");
        let mut records = Vec::new();
        takt_trace_jsonl(&simulation, &mut records);
        assert_eq!(String::from_utf8(records).unwrap(), printed(&["sim", "--trace", "-", &file]), "trace {file}");
    }
}

/// The trace of a simulation as JSON lines.
fn takt_trace_jsonl(simulation: &takt::Simulation, out: &mut Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let file = std::fs::File::create(&path).unwrap();
    simulation.write_trace(takt::Format::JsonLines, Box::new(file)).unwrap();
    out.extend(std::fs::read(path).unwrap());
}
