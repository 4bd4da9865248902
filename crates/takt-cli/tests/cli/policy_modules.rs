//! Policies as WebAssembly modules on the command line.

use crate::common::Room;
use crate::modules::{ByHand, edzl, of_registry, on};
use std::fs;
use takt_core::registry::REGISTRY;

const LOAD: &str = "\
policy: g-edf
cpus: 0-1
tasks:
- {name: left, period: 30ms, runtime: 18ms}
- {name: middle, period: 30ms, runtime: 18ms}
- {name: right, period: 30ms, runtime: 18ms}
";

#[test]
fn edzl_as_a_module_meets_the_deadlines_that_global_edf_misses() {
    let Some(module) = edzl() else { return };
    let room = Room::with(LOAD);
    fs::copy(module, room.path("edzl.wasm")).expect("a copy");
    room.takt(&["sim", "w.yaml", "--strict"]).expect(1);
    let done = room.takt(&["sim", "w.yaml", "--strict", "--policy", "g-edzl.wasm", "--json"]).expect(0).json();
    assert!(done["policy"].as_str().is_some_and(|name| name.starts_with("edzl@")), "{done}");
    assert_eq!((&done["scope"], &done["jobs"]["met"]), (&"global".into(), &3.into()));
    assert!(!done["notes"].to_string().contains("module"), "{}", done["notes"]);
    let one = room.takt(&["sim", "w.yaml", "--policy", "edzl.wasm"]).expect(2).stderr;
    assert!(one.contains("error[unsuitable-policy]") && one.contains("`g-edzl@"), "{one}");
    room.takt(&["check", "w.yaml", "--policy", "g-edzl.wasm"]).expect(0);
}

/// The program and the module have the same source, so that the traces are the same.
#[test]
fn a_module_of_the_registry_has_the_same_trace() {
    let number = REGISTRY.iter().position(|entry| entry.profile.name == "llf").expect("a policy");
    let Some(bytes) = of_registry(number) else { return };
    let room = Room::with(LOAD);
    fs::write(room.path("llf.wasm"), bytes).expect("a file");
    room.takt(&["sim", "w.yaml", "--policy", "g-llf", "--trace", "own.jsonl"]).expect(0);
    room.takt(&["sim", "w.yaml", "--policy", "g-llf.wasm", "--trace", "module.jsonl"]).expect(0);
    assert_eq!(room.trace("own.jsonl").records, room.trace("module.jsonl").records);
}

#[test]
fn a_module_that_fails_is_replaced_and_the_summary_says_so() {
    let room = Room::with(LOAD);
    fs::write(room.path("endless.wasm"), ByHand::new("endless", &on(1, "(loop $l (result i32) (br $l))")).bytes())
        .expect("a file");
    let args = ["sim", "w.yaml", "--policy", "g-endless.wasm:fallback=edf"];
    let done = room.takt(&[&args[..], &["--trace", "bad.jsonl"]].concat()).expect(0);
    assert!(done.stdout.contains("the module of `endless@") && done.stdout.contains("`fuel`"), "{}", done.stdout);
    assert!(done.stdout.contains("→ g-edf"), "{}", done.stdout);
    let notes = room.takt(&[&args[..], &["--json"]].concat()).expect(0).json()["notes"].to_string();
    assert!(notes.contains("its fallback took over"), "{notes}");
    room.takt(&["sim", "w.yaml", "--trace", "edf.jsonl"]).expect(0);
    let of = |name: &str| {
        let switch = |s: &takt_trace::Stamped| matches!(s.record.kind, takt_core::record::RecordKind::Switch { .. });
        room.trace(name).records.into_iter().filter(|s| !switch(s)).collect::<Vec<_>>()
    };
    assert_eq!(of("bad.jsonl"), of("edf.jsonl"));
}

#[test]
fn files_that_are_no_policies_are_refused() {
    let room = Room::with(LOAD);
    let good = || ByHand::new("refused", "(i32.const 0)");
    let write = |name: &str, bytes: &[u8]| fs::write(room.path(name), bytes).expect("a file");
    write("text.wasm", b"policy: edf");
    write("old.wasm", &ByHand { abi: 0, ..good() }.bytes());
    write("half.wasm", &ByHand { without: "takt_build", ..good() }.bytes());
    write("good.wasm", &good().bytes());
    for (policy, says) in [
        ("text.wasm", "[unsuitable-module]"),
        ("g-text.wasm", "`text.wasm` cannot be loaded"),
        ("old.wasm", "version 0"),
        ("half.wasm", "`takt_build`"),
        ("absent.wasm", "[unreadable-file]"),
        ("g-good.wasm:fuel=1", "`fuel` must be"),
        ("g-good.wasm:fallback=efd", "did you mean `edf`?"),
        ("c-good.wasm", "no policy is called"),
    ] {
        let done = room.takt(&["sim", "w.yaml", "--policy", policy, "--trace", "t.jsonl"]).expect(2);
        assert!(done.stderr.contains(says), "{policy}: {}", done.stderr);
    }
    assert!(!room.path("t.jsonl").exists());
    let alone = room.takt(&["sim", "w.yaml", "--module", "good.wasm"]).expect(2);
    assert!(alone.stderr.contains("--replay"), "{}", alone.stderr);
}

/// A workload file names a module by a path that begins at the directory of the file, and the policy that takes over from it.
#[test]
fn a_workload_file_names_a_module_and_its_fallback() {
    let room = Room::with(LOAD);
    fs::create_dir(room.path("sub")).expect("a directory");
    let endless = ByHand::new("endless", &on(1, "(loop $l (result i32) (br $l))")).bytes();
    fs::write(room.path("sub/endless.wasm"), endless).expect("a file");
    let write = |text: String| fs::write(room.path("sub/m.yaml"), text).expect("a file");
    let named = LOAD.replace("policy: g-edf", "policy: g-endless.wasm\nfallback: edf");
    write(named.clone());
    let check = room.takt(&["check", "sub/m.yaml"]).expect(0).stdout;
    assert!(check.contains("is a module with SHA-256 "), "{check}");
    let done = room.takt(&["sim", "sub/m.yaml"]).expect(0).stdout;
    assert!(done.contains("the module of `endless@") && done.contains("→ g-edf"), "{done}");
    write(LOAD.replace("policy: g-edf", "policy: {name: g-endless.wasm, fallback: edf, fuel: 1000}"));
    assert!(room.takt(&["sim", "sub/m.yaml"]).expect(0).stdout.contains("→ g-edf"));
    let domains = LOAD
        .replace(
            "policy: g-edf\ncpus: 0-1\n",
            "domains: [{name: all, cpus: 0-1, policy: g-endless.wasm, fallback: rm}]\n",
        )
        .replace("runtime: 18ms}", "runtime: 18ms, domain: all}");
    write(domains);
    let done = room.takt(&["sim", "sub/m.yaml"]).expect(0).stdout;
    assert!(done.contains("→ g-rm"), "{done}");
    let partition = "\
windows: [{length: 10ms, cpu: 0, sc_partition: A}]
partitions: [{name: A, policy: endless.wasm, processes: [{name: a, period: 20ms, runtime: 1ms}]}]
";
    for (text, place, words) in [
        (named.replace("endless", "nothing"), "m.yaml:1:9", "nothing.wasm"),
        (LOAD.replace("policy: g-edf", "policy: g-edf\nfallback: rr"), "m.yaml:2:1", "no effect"),
        (named.replace("fallback: edf", "fallback: efd"), "m.yaml:2:11", "efd"),
        (partition.to_owned(), "m.yaml:1:1", "schedules no partition"),
    ] {
        write(text.clone());
        let said = room.takt(&["check", "sub/m.yaml"]).expect(2).stderr;
        assert!(said.contains(place) && said.contains(words), "{text}\n{said}");
    }
}
