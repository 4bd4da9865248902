//! A recorded run, fed to the simulator, gives the same records: only when they became real is lost.

use crate::common::{Room, attempts, cpus, ensure};
use takt_core::record::{Record, What};

/// Runs a workload, replays it, and returns the records of the run after checking that the replay gave the same.
fn replayed(text: &str) -> Vec<Record> {
    let room = Room::with(text);
    room.takt(&["run", "w.yaml", "--duration", "1s", "--record", "r.steps", "--trace", "run.jsonl", "--json"])
        .expect(0);
    let sim = room.takt(&["sim", "w.yaml", "--replay", "r.steps", "--trace", "sim.jsonl", "--json"]).json();
    let records = |name| room.trace(name).records.iter().map(|r| r.record).collect::<Vec<_>>();
    let (run, again) = (records("run.jsonl"), records("sim.jsonl"));
    let first = run.iter().zip(&again).position(|(a, b)| a != b);
    assert_eq!(first, None, "{:?} became {:?}", first.map(|i| run[i]), first.map(|i| again[i]));
    assert_eq!(run.len(), again.len());
    assert_eq!((&sim["source"], &sim["duration_ns"]), (&"sim".into(), &1_000_000_000.into()));
    run
}

fn count(records: &[Record], wanted: impl Fn(&What) -> bool) -> usize {
    records.iter().filter(|r| wanted(&r.what)).count()
}

#[test]
fn a_window_table_with_signals_and_overruns_replays() {
    let _cpus = cpus();
    attempts(5, || {
        let records = replayed(
            "seed: 7\n\
         windows:\n\
         - {length: 20ms, cpu: 0, sc_partition: A, be_partition: C}\n\
         - {length: 10ms, cpu: 0, sc_partition: B, be_partition: C}\n\
         partitions:\n\
         - {name: A, processes: [{cmd: exec takt burn --runtime 3ms, budget: 10ms, jitter: 5ms}, {cmd: 'sleep 0.3', budget: 4ms}]}\n\
         - {name: B, processes: [{cmd: exec takt burn, budget: 20ms}]}\n\
         - {name: C, processes: [{cmd: exec takt burn --runtime 7ms, budget: 15ms}, {cmd: exec takt burn --runtime 2ms --jobs 5, budget: 5ms}]}\n",
        );
        use takt_core::record::Outcome::{Completed, Overrun};
        let overruns = count(&records, |w| matches!(w, What::Finish { outcome: Overrun, .. }));
        let completions = count(&records, |w| matches!(w, What::Finish { outcome: Completed, .. }));
        let exits = count(&records, |w| matches!(w, What::Exit { .. }));
        ensure(overruns >= 20 && completions >= 20 && exits >= 1, || {
            format!("{overruns} overruns, {completions} completions, {exits} exits")
        })
    });
}

#[test]
fn earliest_deadline_first_replays() {
    let _cpus = cpus();
    attempts(5, || {
        let records = replayed(
            "policy: edf\n\
         tasks:\n\
         - {cmd: exec takt burn --runtime 3ms, period: 20ms, runtime: 3ms}\n\
         - {cmd: exec takt burn --runtime 10ms, period: 70ms, runtime: 10ms, budget: 8ms}\n\
         - {cmd: exec takt burn --runtime 2ms --jobs 1, period: 90ms, runtime: 5ms, spawn: per-job}\n",
        );
        let starts = count(&records, |w| matches!(w, What::Start { .. }));
        ensure(starts >= 40, || format!("{starts} starts"))
    });
}
