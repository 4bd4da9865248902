//! `takt check`: a verdict says the condition under which it holds.

use crate::common::Room;

fn verdict(text: &str, status: i32) -> String {
    let done = Room::with(text).takt(&["check", "w.yaml"]).expect(status);
    done.stdout.lines().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_job_that_needs_more_than_its_reservation_is_not_denied() {
    for policy in ["cbs", "grub", "g-cbs", "p-grub"] {
        let said = |execution: &str| {
            let cpus = if policy.contains('-') { "0,1" } else { "0" };
            let text = format!(
                "policy: {policy}\ncpus: {cpus}\ntasks:\n- {{name: a, period: 20ms, execution: {execution}, deadline: none, \
                 reservation: {{budget: 5ms, period: 20ms}}}}\n- {{name: b, period: 40ms, runtime: 5ms}}\n"
            );
            verdict(&text, 0)
        };
        let (within, beyond) = (said("5ms"), said("8ms"));
        assert!(within.ends_with("and no job needs more than its own"), "{policy}: {within}");
        assert!(beyond.ends_with("and no job with a deadline needs more than its own"), "{policy}: {beyond}");
    }
}

#[test]
fn a_bound_behind_a_server_names_the_distance_of_jobs_that_it_needs() {
    let said = |distance: &str| {
        verdict(
            &format!(
                "policy: sporadic-server\ncpus: 0\ntasks:\n- {{name: a, period: 20ms, runtime: 5ms}}\n- {{name: b, event: \
                 {{distance: {distance}}}, deadline: 50ms, runtime: 5ms, reservation: {{budget: 5ms, period: 30ms}}}}\n"
            ),
            0,
        )
    };
    let apart = "task `b` is served within 60ms, which is beyond its deadline of 50ms";
    assert!(said("60ms").contains(apart), "{}", said("60ms"));
    let close = "task `b` is served within 60ms, if jobs of task `b` are at least 60ms apart, which is beyond its deadline of 50ms";
    assert!(said("50ms").contains(close), "{}", said("50ms"));
}

/// A server's budget and period decide where its task is placed.
#[test]
fn a_task_with_a_server_needs_no_runtime_to_be_placed() {
    for policy in ["p-sporadic-server", "p-polling-server", "p-deferrable-server", "p-periodic-server"] {
        let said = |b: &str, status| {
            let text = format!(
                "policy: {policy}\ncpus: 0,1\nservers: [{{name: s, budget: 5ms, period: 30ms}}]\ntasks:\n\
                 - {{name: a, period: 20ms, runtime: 5ms}}\n- {{name: b, event: {{distance: 100ms}}, {b}}}\n"
            );
            let done = Room::with(&text).takt(&["check", "w.yaml"]).expect(status);
            done.stdout + &done.stderr
        };
        said("deadline: 100ms, execution: 3ms, reservation: {budget: 5ms, period: 30ms}", 0);
        said("deadline: 100ms, execution: 3ms, server: s", 0);
        assert!(said("deadline: 100ms, execution: 3ms", 2).contains("`b` has no `runtime`"));
    }
}
