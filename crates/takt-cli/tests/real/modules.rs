//! Policies that are loaded into a run as WebAssembly modules.

use super::control::{ctl, status, under_way};
use crate::common::{Room, attempts, ensure, until};
use crate::machine::on_cpus;
use crate::modules::{ByHand, edzl, on, rows};
use serde_json::Value;
use std::fs;
use std::process::Command;

const LOAD: &str = "\
policy: edf
cpus: 0
tasks:
- {name: left, period: 20ms, runtime: 4ms, cmd: exec takt burn --runtime 2ms}
- {name: right, period: 50ms, runtime: 10ms, cmd: exec takt burn --runtime 4ms}
";

fn completed(room: &Room) -> u64 {
    status(room).and_then(|status| status["tasks"][0]["completed"].as_u64()).unwrap_or(0)
}

fn policy(room: &Room) -> String {
    let status = status(room).expect("a status");
    status["policies"][0]["policy"].as_str().unwrap_or_default().to_owned()
}

/// All jobs that are decided were met.
fn all_met(run: &Value) -> Result<(), String> {
    let tasks = run["tasks"].as_array().expect("a list");
    ensure(tasks.iter().all(|task| task["missed"] == 0 && task["met"].as_u64() > Some(5)), || run.to_string())
}

#[test]
fn a_policy_is_loaded_into_a_run_and_its_record_replays() {
    let Some(module) = edzl() else { return };
    on_cpus(|| {
        attempts(3, || {
            let room = Room::with(LOAD);
            fs::copy(module, room.path("edzl.wasm")).expect("a copy");
            let running = under_way(&room, &["--record", "w.steps", "--trace", "w.jsonl", "--json"]);
            // A file that names a module brings its fallback.
            fs::write(room.path("other.yaml"), LOAD.replace("policy: edf", "policy: edzl.wasm")).expect("a file");
            assert!(ctl(&room, &["reload", "other.yaml"]).expect(0).stdout.starts_with("changed"));
            assert!(policy(&room).starts_with("edzl@"), "{}", policy(&room));
            ctl(&room, &["policy", "rm"]).expect(0);
            assert!(ctl(&room, &["policy", "edzl.wasm"]).expect(0).stdout.starts_with("changed"));
            assert!(policy(&room).starts_with("edzl@"), "{}", policy(&room));
            let before = completed(&room);
            until("jobs complete under it", || completed(&room) > before + 10);
            ctl(&room, &["policy", "rm"]).expect(0);
            assert!(ctl(&room, &["policy", "edzl.wasm:fallback=edf"]).expect(0).stdout.starts_with("changed"));
            assert_eq!(ctl(&room, &["policy", "edzl.wasm:fallback=edf"]).expect(0).stdout, "unchanged\n");
            until("jobs complete under it again", || completed(&room) > before + 20);
            ctl(&room, &["stop"]).expect(0);
            let run = running.wait().json();
            let replay = |more: &[&str]| {
                let args = ["sim", "w.yaml", "--replay", "w.steps", "--trace", "r.jsonl"];
                room.takt(&[&args, more].concat())
            };
            replay(&["--module", "edzl.wasm"]).expect(0);
            let records = |name| room.trace(name).records.into_iter().map(|s| s.record).collect::<Vec<_>>();
            assert!(records("w.jsonl") == records("r.jsonl"), "the replay is the run");
            let refused = replay(&[]).expect(2).stderr;
            assert!(refused.contains("error[other-record]") && refused.contains("SHA-256 "), "{refused}");
            // The same policy in another file: a section of its own that means nothing.
            let other = [fs::read(module).expect("a module"), b"\0\x05\x04note".to_vec()].concat();
            fs::write(room.path("other.wasm"), other).expect("a file");
            assert!(replay(&["--module", "other.wasm"]).expect(2).stderr.contains("error[other-record]"));
            all_met(&run)
        });
    });
}

#[test]
fn a_run_begins_under_a_module_and_its_record_has_the_hash() {
    let Some(module) = edzl() else { return };
    on_cpus(|| {
        attempts(3, || {
            let room = Room::with(LOAD);
            fs::copy(module, room.path("edzl.wasm")).expect("a copy");
            let args = ["--policy", "edzl.wasm", "--duration", "500ms", "--record", "w.steps", "--json"];
            let run = room.takt(&[&["run", "w.yaml"], &args[..]].concat()).expect(0).json();
            assert!(run["policy"].as_str().is_some_and(|name| name.starts_with("edzl@")), "{}", run["policy"]);
            assert!(room.text("w.steps").lines().next().is_some_and(|line| line.contains("SHA-256 ")));
            let replay = ["sim", "w.yaml", "--replay", "w.steps", "--policy"];
            room.takt(&[&replay[..], &["edzl.wasm"]].concat()).expect(0);
            let other = [fs::read(module).expect("a module"), b"\0\x05\x04note".to_vec()].concat();
            fs::write(room.path("other.wasm"), other).expect("a file");
            let refused = room.takt(&[&replay[..], &["other.wasm"]].concat()).expect(2).stderr;
            assert!(
                refused.contains("error[other-record]") && refused.contains("module: recorded SHA-256"),
                "{refused}"
            );
            all_met(&run)
        });
    });
}

/// Modules that fail in a run: FIFO takes over, all deadlines are met, and the record replays with the same failure.
#[test]
fn a_bad_module_is_replaced_in_a_run() {
    let endless = on(1, "(loop $l (result i32) (br $l))");
    let twice = on(1, &rows(&[[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]));
    for (name, ask, says) in [("endless", endless, "more instructions"), ("twice", twice, "task `left`")] {
        on_cpus(|| {
            attempts(3, || {
                let room = Room::with(LOAD);
                fs::write(room.path("bad.wasm"), ByHand::new(name, &ask).bytes()).expect("a file");
                let running = under_way(&room, &["--record", "w.steps", "--trace", "w.jsonl", "--json"]);
                assert!(ctl(&room, &["policy", "bad.wasm:fuel=200000"]).expect(0).stdout.starts_with("changed"));
                until("it is replaced", || policy(&room) == "fifo");
                let before = completed(&room);
                until("jobs complete under the fallback", || completed(&room) > before + 10);
                ctl(&room, &["stop"]).expect(0);
                let run = running.wait().json();
                assert!(run["notes"].to_string().contains(says), "{name}: {}", run["notes"]);
                let replay = ["sim", "w.yaml", "--replay", "w.steps", "--module", "bad.wasm", "--trace", "r.jsonl"];
                room.takt(&replay).expect(0);
                let records = |name| room.trace(name).records.into_iter().map(|s| s.record).collect::<Vec<_>>();
                assert!(records("w.jsonl") == records("r.jsonl"), "{name}: the replay is the run");
                all_met(&run)
            });
        });
    }
}

#[test]
fn files_that_are_no_policies_change_nothing_in_a_run() {
    on_cpus(|| {
        let room = Room::with(LOAD);
        let good = || ByHand::new("refused", "(i32.const 0)");
        let write = |name: &str, bytes: &[u8]| fs::write(room.path(name), bytes).expect("a file");
        write("text.wasm", b"policy: edf");
        write("old.wasm", &ByHand { abi: 0, ..good() }.bytes());
        write("half.wasm", &ByHand { without: "takt_ask", ..good() }.bytes());
        write("good.wasm", &good().bytes());
        write("table.wasm", &ByHand { more: "(table 0xffffffff funcref)".into(), ..good() }.bytes());
        let grows = "(table $t 1 funcref) (func (drop (table.grow $t (ref.null func) (i32.const 1))))";
        write("grows.wasm", &ByHand { more: grows.into(), ..good() }.bytes());
        // Without a writer, its reader would wait for ever.
        let made = Command::new("mkfifo").arg(room.path("pipe.wasm")).status();
        assert!(made.is_ok_and(|status| status.success()));
        let running = under_way(&room, &["--record", "w.steps"]);
        for (policy, says) in [
            ("text.wasm", "[unsuitable-module] "),
            ("old.wasm", "version 0"),
            ("half.wasm", "`takt_ask`"),
            ("absent.wasm", "absent.wasm"),
            ("pipe.wasm", "no regular file"),
            ("table.wasm", "it has 4294967295 entries of tables, and a policy has at most 65536"),
            ("grows.wasm", "the instruction `table.grow`"),
            ("good.wasm:fuel=1", "`fuel` must be"),
            ("good.wasm:fallback=efd", "did you mean `edf`?"),
            ("good.wasm:nothing=1", "no setting `nothing`"),
            ("p-good.wasm", "no policy is called"),
        ] {
            let done = ctl(&room, &["policy", policy]).expect(2);
            assert!(done.stderr.starts_with("error[") && done.stderr.contains(says), "{policy}: {}", done.stderr);
        }
        assert_eq!(policy(&room), "edf");
        ctl(&room, &["stop"]).expect(0);
        running.wait().expect(0);
        assert!(!room.text("w.steps").contains("\"change\""));
    });
}
