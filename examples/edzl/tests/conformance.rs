//! EDZL keeps what every policy must keep, and its order.

use takt_conformance::{Suite, Waiting};
use takt_core::policy::Registry;
use takt_core::time::Time;

#[test]
fn edzl_conforms() {
    let order = |job: &Waiting<'_>| {
        let deadline = job.deadline.unwrap_or(Time::MAX);
        let promoted = deadline != Time::MAX && deadline - job.left <= job.now;
        Some((if promoted { i64::MIN } else { deadline.ns() }, deadline.ns()))
    };
    Suite::new(Registry::standard().with(&edzl::ENTRY)).stating("edzl", order).check("edzl").unwrap();
}
