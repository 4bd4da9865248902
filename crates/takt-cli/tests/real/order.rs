//! The same order of starts and stops in the simulator and over real processes.

use crate::common::{Room, attempts, ensure, has_cpus, workloads};
use crate::machine::{Capability, calm, on_cpus, skip};
use serde_json::Value;
use takt_core::record::{Outcome, RecordKind};
use takt_core::time::Span;
use takt_trace::diff::{self, Diff};

/// Simulates and runs a workload. Returns the comparison of the two traces and the run's summary, if the machine could.
///
/// Where the machine's own latency reaches the distance between two instants, their order may change, and windows may be
/// lost; such a run is repeated.
fn both(file: &str, duration: &str) -> Option<(Diff, Value)> {
    let room = Room::new();
    room.takt(&["sim", file, "--duration", duration, "--trace", "sim.jsonl"]).expect(0);
    let mut tries = 0;
    loop {
        tries += 1;
        let run = room.takt(&["run", file, "--duration", duration, "--trace", "run.jsonl", "--json"]).json();
        let diff = diff::diff(&room.trace("sim.jsonl"), &room.trace("run.jsonl"), Span::from_ms(1));
        println!("{file}: {} of {} points beyond 1 ms, largest {}", diff.beyond, diff.compared, diff.largest);
        let said = room.takt(&["trace", "diff", "sim.jsonl", "run.jsonl", "--json"]);
        let said: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(said["order_equal"], diff.order_equal, "the command and the library agree");
        let lost = &run["windows_lost"];
        // Instants of these workloads are at least 0.2 ms apart; who is later than that may do things in another order.
        let late = run["lateness_ns"]["max"].as_u64().unwrap();
        let disturbed = *lost != 0 || run["overruns"] != 0 || late > 200_000;
        let check = room.takt(&["trace", "check", "run.jsonl", file, "--tolerance", "20ms"]);
        let good = diff.order_equal && check.code() == 0;
        if disturbed && !good && tries < 5 {
            println!("disturbed: {lost} windows lost, up to {late} ns late; once more");
            calm();
            continue;
        }
        if disturbed && !good && !takt_linux::rt::rt_allowed() {
            skip(
                Capability::RealTime,
                &format!("the scheduler has no real-time class here, and was up to {late} ns late"),
            );
            return None;
        }
        check.expect(0);
        return Some((diff, run));
    }
}

#[test]
fn the_seed_example_runs_as_simulated() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        let file = workloads().join("demos-example.yaml");
        let Some((diff, run)) = both(file.to_str().unwrap(), "2s") else { return };
        assert!(diff.order_equal, "{diff:?}");
        assert_eq!(diff.compared, 120, "four activations in ten windows, each a start, a stop and an end");
        // Its processes never signal, so these are no jobs.
        assert_eq!((&run["activations"], &run["jobs"]["released"]), (&40.into(), &Value::Null));
    });
}

#[test]
fn every_window_table_runs_as_simulated() {
    on_cpus(|| {
        if !has_cpus(2) {
            return;
        }
        // `init` has a test of its own, since its process ends its jobs itself.
        for (name, duration) in [
            ("be-after-all-sc", "600ms"),
            ("be-after-slice", "600ms"),
            ("be-continues", "800ms"),
            ("idle-window", "500ms"),
            ("jitter", "800ms"),
            ("sc-budget", "500ms"),
            ("sub-millisecond", "100ms"),
            ("two-sc-slices", "500ms"),
        ] {
            let file = workloads().join(format!("features/{name}.yaml"));
            calm();
            let Some((diff, _)) = both(file.to_str().unwrap(), duration) else { continue };
            assert!(diff.order_equal && diff.compared >= 12, "{name}: {diff:?}");
        }
    });
}

/// A simulation cannot know how much of its budget a script will give back. All else is the same.
#[test]
fn a_process_that_signals_starts_as_simulated() {
    on_cpus(|| {
        let file = workloads().join("features/init.yaml");
        let (file, room) = (file.to_str().unwrap(), Room::new());
        let starts = |command, name| {
            room.takt(&[command, file, "--duration", "1s", "--trace", name]).expect(0);
            let what = room.trace(name).records.into_iter().map(|r| r.record.kind);
            what.filter(|what| {
                matches!(what, RecordKind::Start { .. } | RecordKind::Release { .. } | RecordKind::Window { .. })
            })
            .collect::<Vec<_>>()
        };
        let simulated = starts("sim", "sim.jsonl");
        attempts(5, || {
            let run = starts("run", "run.jsonl");
            ensure(run == simulated, || format!("{run:?}\ninstead of {simulated:?}"))?;
            let records = room.trace("run.jsonl").records.into_iter();
            let finished = records
                .filter(|r| matches!(r.record.kind, RecordKind::Finish { outcome: Outcome::Completed, .. }))
                .count();
            ensure(finished >= 15, || format!("{finished} of 20 jobs ended by their signal"))?;
            room.check("run.jsonl", file)
        });
    });
}
