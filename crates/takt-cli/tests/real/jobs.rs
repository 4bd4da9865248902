//! A job of a real run is met only if its work was done in time, and counted only if there was one.

use crate::common::{Room, attempts, ensure, has_cpus, mechanisms};
use crate::machine::on_cpus;
use serde_json::Value;
use takt_core::record::RecordKind;
use takt_core::time::Span;

/// Numbers of a task in a summary.
pub(super) fn counts<const N: usize>(task: &Value, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| task[key].as_u64().unwrap_or_else(|| panic!("{key} of {task}")))
}

/// Runs a workload with every mechanism until `holds` says no more why not.
pub(super) fn on_each_mechanism(text: &str, more: &[&str], holds: impl Fn(&Value, &Room) -> Result<(), String>) {
    on_cpus(|| {
        for mechanism in mechanisms() {
            let room = Room::with(text);
            let args = ["run", "w.yaml", "--json", "--trace", "t.jsonl", "--mechanism", mechanism];
            attempts(3, || {
                let run: Value = serde_json::from_str(&room.takt(&[&args, more].concat()).stdout).expect("an object");
                holds(&run, &room).map_err(|why| format!("{mechanism}: {why}: {run}"))?;
                room.check("t.jsonl", "w.yaml")
            });
        }
    });
}

/// Jobs of 30 ms every 20 ms, aborted at their deadlines: none is met, whatever the process signals.
#[test]
fn work_of_an_aborted_job_completes_no_other() {
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: slow, period: 20ms, runtime: 5ms, execution: 30ms, \
                init: yes, cmd: exec takt burn --runtime 30ms}]";
    on_each_mechanism(text, &["--duration", "1s"], |run, _| {
        let task = &run["tasks"][0];
        let [released, completed, met, missed, aborted, behind] =
            counts(task, ["released", "completed", "met", "missed", "aborted", "behind"]);
        // The job that is released at the end of the run is beyond it.
        ensure((released, completed, met, missed, aborted) == (50, 0, 0, 50, 50), || "counts".into())?;
        ensure((40..50).contains(&behind), || format!("{behind} jobs began behind"))?;
        ensure(task["late_signals"].as_u64() >= Some(25), || "signals of abandoned work".into())
    });
}

/// 8 ms of work with a budget of 5 ms.
#[test]
fn a_budget_below_the_work_meets_no_deadline() {
    let text = "policy: edf\ncpus: 0\ntasks: [{name: bad, init: yes, period: 50ms, runtime: 4ms, execution: 8ms, budget: 5ms, \
                cmd: exec takt burn --runtime 8ms --init 1ms}]";
    on_each_mechanism(text, &["--duration", "1s"], |run, _| {
        let all = counts(&run["tasks"][0], ["released", "completed", "met", "missed", "aborted"]);
        ensure(all == [20, 0, 0, 20, 20], || "counts".into())
    });
}

/// A process per job that is aborted is killed, and its successor is another process.
#[test]
fn a_process_per_job_that_is_aborted_is_replaced() {
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: pj, period: 20ms, runtime: 4ms, execution: 30ms, spawn: per-job, \
                cmd: 'echo $$ >> pids; exec takt burn --runtime 30ms --jobs 1'}]";
    on_each_mechanism(text, &["--duration", "400ms"], |run, room| {
        let all = counts(&run["tasks"][0], ["released", "completed", "met", "missed", "aborted", "failures"]);
        let started = room.text("pids").lines().count();
        std::fs::remove_file(room.path("pids")).map_err(|e| e.to_string())?;
        ensure(all == [20, 0, 0, 20, 20, 0], || "counts".into())?;
        // A process that Takt killed has not ended by itself, nor has one that is killed at the end.
        ensure(run["ends"][0].is_null(), || "ends".into())?;
        ensure((15..=21).contains(&started), || format!("{started} processes"))
    });
}

/// DASA sheds the job of less utility each time, as simulated. The other one leaves the CPU to it.
#[test]
fn shed_jobs_accrue_nothing() {
    let text = "policy: dasa\ncpus: 0\nlate: abort\ntasks:\n\
                - {name: x, period: 20ms, runtime: 12ms, utility: 1, init: yes, cmd: exec takt burn --runtime 12ms}\n\
                - {name: y, period: 20ms, runtime: 12ms, utility: 10, init: yes, cmd: exec takt burn --runtime 12ms}\n";
    on_each_mechanism(text, &["--duration", "1s"], |run, room| {
        let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
        ensure(sim["utility"]["accrued"] == 500 && run["utility"] == sim["utility"], || format!("{}", sim["utility"]))
    });
}

/// 4 ms of work with a budget of 3 ms in each window: every second activation ends with the signal of a job that is late.
#[test]
fn an_activation_without_its_signal_is_cut_off() {
    let text = "windows: [{length: 50ms, slices: [{cpu: 0, sc_partition: A}]}]\n\
                partitions: [{name: A, processes: [{name: s, init: yes, budget: 3ms, runtime: 4ms, cmd: exec takt burn --runtime 4ms}]}]\n";
    let keys = ["activations", "cut_off", "released", "completed", "met", "missed", "overruns"];
    on_each_mechanism(text, &["--duration", "2s"], |run, room| {
        let sim = room.takt(&["sim", "w.yaml", "--duration", "2s", "--json"]).json();
        assert_eq!(counts(&sim["tasks"][0], keys), [40, 20, 20, 20, 0, 20, 0]);
        ensure(counts(&run["tasks"][0], keys) == counts(&sim["tasks"][0], keys), || "counts".into())
    });
    on_cpus(|| {
        let room = Room::with(text);
        room.takt(&["run", "w.yaml", "--duration", "300ms", "--strict"]).expect(1);
    });
}

/// A safety-critical process that fails misses its jobs until the end of the run; one that ends with status 0 is done.
#[test]
fn a_process_that_fails_misses_its_jobs() {
    let text = |status: u8| {
        format!(
            "windows: [{{length: 40ms, slices: [{{cpu: 0, sc_partition: A}}]}}]\n\
             partitions: [{{name: A, processes: [{{name: control, budget: 10ms, cmd: 'takt done; takt done; takt done; exit {status}'}}]}}]\n"
        )
    };
    let keys = ["released", "completed", "met", "missed", "activations", "failures"];
    on_each_mechanism(&text(3), &["--duration", "1s"], |run, _| {
        let (task, ended) = (&run["tasks"][0], &run["ended"]);
        ensure(counts(task, keys) == [25, 3, 3, 22, 4, 1], || "counts".into())?;
        ensure(task["ended"] == false && ended == "duration", || format!("ended {ended}"))
    });
    on_each_mechanism(&text(0), &["--duration", "1s"], |run, _| {
        let (task, ended) = (&run["tasks"][0], &run["ended"]);
        ensure(counts(task, keys) == [3, 3, 3, 0, 4, 0], || "counts".into())?;
        ensure(task["ended"] == true && ended == "all exited", || format!("ended {ended}"))
    });
    on_cpus(|| {
        Room::with(&text(3)).takt(&["run", "w.yaml", "--duration", "300ms", "--strict"]).expect(1);
        // A program that starts late on a busy machine uses up its budget, which is a reason for status 1, too.
        attempts(5, || {
            let run = Room::with(&text(0)).takt(&["run", "w.yaml", "--duration", "300ms", "--strict"]);
            ensure(run.code() == 0, || run.stdout.clone())
        });
    });
}

/// A failed initialisation is reported before anything is scheduled, unless the file tolerates the missing process.
#[test]
fn a_failed_initialisation_ends_the_run_before_it_begins() {
    if !has_cpus(2) {
        return;
    }
    let text = |key: &str| {
        format!(
            "policy: g-edf\ncpus: 0-1\ntasks:\n\
             - {{name: a, period: 20ms, runtime: 5ms, init: yes{key}, cmd: 'sleep 0.1; exit 3'}}\n\
             - {{name: b, period: 20ms, runtime: 5ms, cmd: exec takt burn --runtime 1ms}}\n"
        )
    };
    on_cpus(|| {
        for key in ["", ", on_exit: restart", ", on_exit: stop"] {
            let done = Room::with(&text(key)).takt(&["run", "w.yaml", "--duration", "200ms"]).expect(1);
            let why = "error[init-failed]: w.yaml: a ended with status 3 ";
            assert!(done.stderr.contains(why) && done.stdout.is_empty(), "{key}: {}", done.stderr);
        }
        let room = Room::with(&text(", on_exit: end"));
        let run = room.takt(&["run", "w.yaml", "--duration", "200ms", "--json"]).json();
        assert_eq!(counts(&run["tasks"][0], ["released", "missed", "failures"]), [10, 10, 1]);
    });
}

/// A process that is restarted initialises again, and its task continues; the job in which it died is missed.
#[test]
fn a_process_that_dies_is_restarted_or_ends_the_run() {
    // It dies in its third job; each new process does two jobs before.
    let text = |rule: &str| {
        format!(
            "policy: edf\ncpus: 0\ntasks: [{{name: a, period: 50ms, runtime: 2ms, init: yes, on_exit: {rule}, \
             cmd: 'echo $$ >> pids; takt done; takt done; takt done; exit 5'}}]"
        )
    };
    on_each_mechanism(&text("restart"), &["--duration", "1s"], |run, room| {
        let task = &run["tasks"][0];
        let [released, met, aborted, failures, restarts] =
            counts(task, ["released", "met", "aborted", "failures", "restarts"]);
        let started = room.text("pids").lines().count() as u64;
        std::fs::remove_file(room.path("pids")).map_err(|e| e.to_string())?;
        ensure(released == 20 && (5..=7).contains(&failures) && aborted == failures, || "counts".into())?;
        ensure(restarts == failures && started == restarts + 1, || format!("{started} processes"))?;
        ensure(met >= 12, || "jobs between two deaths".into())
    });
    on_cpus(|| {
        let room = Room::with(&text("stop"));
        let done = room.takt(&["run", "w.yaml", "--duration", "5s", "--json"]).expect(1);
        let run: Value = serde_json::from_str(&done.stdout).expect("an object");
        assert_eq!((&run["ended"], &run["ended_by"]), (&"exit".into(), &"a".into()), "{run}");
        assert!(run["duration_ns"].as_u64() < Some(2_000_000_000), "{run}");
    });
}

/// The signal of an aborted job is delivered when its task is dispatched again; the program returns to its job loop.
#[test]
fn a_signal_tells_a_program_of_the_abort() {
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: a, period: 20ms, runtime: 5ms, execution: 30ms, on_abort: signal, \
                init: yes, cmd: exec takt burn --runtime 30ms}]";
    on_each_mechanism(text, &["--duration", "1s"], |run, room| {
        let sim = room.takt(&["sim", "w.yaml", "--duration", "1s", "--json"]).json();
        let keys = ["released", "completed", "met", "missed", "aborted", "behind", "late_signals"];
        let [simulated, run] = [&sim, run].map(|summary| counts(&summary["tasks"][0], keys));
        ensure(simulated == run && run[5] == 49, || format!("simulated {simulated:?}"))
    });
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: a, period: 20ms, deadline: 12ms, runtime: 5ms, execution: 30ms, \
                handler: 2ms, init: yes, cmd: exec takt burn --runtime 30ms --handler 2ms}]";
    on_each_mechanism(text, &["--duration", "1s"], |run, room| {
        let task = &run["tasks"][0];
        let all = counts(task, ["released", "handlers", "behind", "late_signals"]);
        let records = room.trace("t.jsonl").records;
        let handled = records.iter().filter_map(|r| match r.record.kind {
            RecordKind::HandlerEnd { consumed, .. } => Some(consumed.nominal_time()),
            _ => None,
        });
        let handled: Vec<Span> = handled.collect();
        ensure(all == [50, 50, 0, 0] && handled.len() == 50, || format!("{} handlers", handled.len()))?;
        let long = |consumed: &&Span| **consumed < Span::from_ms(2) || **consumed > Span::from_ms(5);
        ensure(handled.iter().filter(long).count() <= 2, || format!("{handled:?}"))
    });
}

/// A program that does not handle the signal of an abort is ended by it. The summary says where the signal came from.
#[test]
fn an_unhandled_signal_of_an_abort_is_reported() {
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: a, period: 20ms, runtime: 5ms, on_abort: signal=USR2, \
                cmd: 'while :; do :; done'}]";
    on_each_mechanism(text, &["--duration", "200ms"], |run, _| {
        let [released, met, missed, failures] = counts(&run["tasks"][0], ["released", "met", "missed", "failures"]);
        ensure((released, met, missed, failures) == (10, 0, 10, 1), || "counts".into())?;
        let says = "a was ended by signal 12, with which Takt reports an abort";
        let told =
            run["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).any(|note| note.contains(says));
        ensure(told && run["ends"][0]["signal"] == 12, || "notes".into())
    });
}

/// A job of a process that never signals ends only by an abort, and is missed. No test says that its deadlines are met.
#[test]
fn a_process_that_never_signals_completes_nothing() {
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: a, period: 20ms, runtime: 5ms, completion: none, \
                cmd: '[ -z \"$DEMOS_PARAMETERS\" ] && exec takt burn'}]";
    on_each_mechanism(text, &["--duration", "400ms"], |run, room| {
        let sim = room.takt(&["sim", "w.yaml", "--duration", "400ms", "--json"]).json();
        let [simulated, run] =
            [&sim, run].map(|summary| counts(&summary["tasks"][0], ["released", "completed", "missed", "aborted"]));
        ensure(simulated == run && run == [20, 0, 20, 20], || format!("simulated {simulated:?}"))
    });
    for late in ["abort", "continue"] {
        let room = Room::with(&text.replace("late: abort", &format!("late: {late}")));
        let said = room.takt(&["check", "w.yaml"]).expect(1).stdout;
        assert!(said.contains("jobs of task `a` never complete (`completion: none`)"), "{said}");
    }
}

/// The scheduler leaves the group of a process alone while it is replaced, however often it dispatches others meanwhile.
#[test]
fn a_restarted_process_is_scheduled_beside_others() {
    let text = "policy: edf\ncpus: 0\ntasks:\n\
                - {name: often, period: 2ms, runtime: 300us, init: yes, cmd: exec takt burn --runtime 200us}\n\
                - {name: crash, period: 40ms, runtime: 10ms, on_exit: restart, cmd: exec takt burn --runtime 2ms --jobs 2}\n";
    on_each_mechanism(text, &["--duration", "1200ms"], |run, _| {
        let [often, crash] = [0, 1].map(|task| &run["tasks"][task]);
        let [released, met, restarts] = counts(crash, ["released", "met", "restarts"]);
        // Every third job finds a program that ends instead of working; it is not counted.
        ensure((19..=21).contains(&released) && met + 1 >= released, || "crash".into())?;
        ensure((9..=10).contains(&restarts), || "restarts".into())?;
        ensure(counts(often, ["met"]) >= [550], || "often".into())?;
        ensure(crash["ended"].is_null(), || "a task that continues has not ended".into())
    });
}

/// A process that is killed with each job comes back each time, and one whose initialisation is longer than a period gets the time
/// for it: no job begins without a process, so none is aborted with one that is on its way.
#[test]
fn a_process_that_is_aborted_is_started_again() {
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: a, period: 10ms, runtime: 2ms, execution: 60ms, on_abort: restart, \
                cmd: exec takt burn --runtime 60ms}]";
    on_each_mechanism(text, &["--duration", "800ms"], |run, _| {
        let [released, missed, behind, late, restarts, failures] =
            counts(&run["tasks"][0], ["released", "missed", "behind", "late_signals", "restarts", "failures"]);
        ensure((released, missed, behind, late, failures) == (80, 80, 0, 0, 0), || "counts".into())?;
        ensure((20..=80).contains(&restarts), || format!("{restarts} restarts"))
    });
    let text = "policy: edf\ncpus: 0\nlate: abort\ntasks: [{name: a, period: 50ms, runtime: 5ms, on_abort: restart, init: yes, \
                cmd: '[ -e mark ] && R=1ms || R=100ms; touch mark; exec takt burn --init 70ms --runtime $R'}]";
    on_each_mechanism(text, &["--duration", "1500ms"], |run, room| {
        std::fs::remove_file(room.path("mark")).map_err(|e| e.to_string())?;
        let [met, aborted, behind, restarts] = counts(&run["tasks"][0], ["met", "aborted", "behind", "restarts"]);
        ensure((behind, restarts) == (0, 1) && (2..=6).contains(&aborted) && met + aborted == 30, || "counts".into())
    });
}
