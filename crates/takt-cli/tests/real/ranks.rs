//! Dispatch by rank (`dispatch: rank`) over real processes.

use crate::common::{Room, attempts, ensure, mechanisms};
use crate::machine::{Capability, on_cpus, skip};
use serde_json::Value;

fn has_real_time() -> bool {
    let has = takt_linux::rt::rt_allowed() && !takt_linux::rt::preempt_rt();
    if !has {
        skip(Capability::RealTime, "dispatch by rank needs SCHED_FIFO");
    }
    has
}

fn outcomes(run: &Value) -> Vec<[Option<u64>; 4]> {
    let of = |task: &Value| ["released", "met", "missed", "aborted"].map(|key| task[key].as_u64());
    run["tasks"].as_array().unwrap().iter().map(of).collect()
}

/// The jobs of `io` sleep for 20 of 50 ms. With a CPU that idles meanwhile, a tenth of all jobs would be met. Every 300 ms `io` waits for `cpu`, and has 3 ms to
/// spare then.
#[test]
fn a_job_that_sleeps_leaves_its_cpu_to_others() {
    on_cpus(|| {
        if !has_real_time() {
            return;
        }
        for mechanism in mechanisms() {
            let room = Room::with(
                "policy: edf\ncpus: 0\ndispatch: rank\ntasks:\n\
                 - {name: io, cmd: \"exec takt burn --steps 'sleep 20ms, run 1ms'\", init: yes, period: 50ms, steps: [sleep 20ms, run 1ms]}\n\
                 - {name: cpu, cmd: exec takt burn --runtime 36ms, init: yes, period: 60ms, runtime: 40ms, steps: [run 36ms]}\n",
            );
            let sim = room.takt(&["sim", "w.yaml", "--duration", "3s", "--json"]).json();
            assert_eq!(outcomes(&sim), [[60, 60, 0, 0], [50, 50, 0, 0]].map(|counts| counts.map(Some)));
            attempts(5, || {
                let args =
                    ["run", "w.yaml", "--duration", "3s", "--mechanism", mechanism, "--json", "--trace", "t.jsonl"];
                let run = room.takt(&args).json();
                println!("{mechanism}: {:?}", outcomes(&run));
                assert_eq!(run["dispatch"], "rank");
                assert_eq!(room.takt(&["trace", "check", "t.jsonl"]).code(), 0);
                ensure(outcomes(&run) == outcomes(&sim), || format!("{mechanism}: {run}"))
            });
        }
    });
}
