//! EDZL keeps what every policy must keep, and its order.

use takt_conformance::{Suite, Waiting};
use takt_core::policy::Registry;
use takt_core::time::Time;

fn order(job: &Waiting<'_>) -> Option<(i64, i64)> {
    let deadline = job.deadline.unwrap_or(Time::MAX);
    let promoted = deadline != Time::MAX && deadline - job.left <= job.now;
    Some((if promoted { i64::MIN } else { deadline.ns() }, deadline.ns()))
}

#[test]
fn edzl_conforms() {
    Suite::new(Registry::standard().with(&edzl::ENTRY)).stating("edzl", order).check("edzl").unwrap();
}

/// Drawn workloads, one of which shortens the runtime of a job that has been promoted.
#[test]
fn a_changed_runtime_changes_the_rank() {
    let suite = Suite::new(Registry::standard().with(&edzl::ENTRY)).stating("edzl", order);
    suite.seed(226_184_900).cases(200).check("edzl").unwrap();
}
