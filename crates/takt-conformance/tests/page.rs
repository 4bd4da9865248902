//! A test of a policy, word for word as `docs/writing-policies.md` shows it.

// begin
use takt_conformance::{Suite, Waiting};
use takt_core::policy::Registry;
use takt_core::time::Time;

#[test]
fn it_conforms() {
    let rank = |job: &Waiting<'_>| {
        let deadline = job.deadline.unwrap_or(Time::MAX).ns();
        Some((deadline, deadline))
    };
    // Here the crate's own: `Registry::standard().with(&ENTRY)`.
    let suite = Suite::new(Registry::standard()).stating("edf", rank);
    suite.check("edf").unwrap();
}
// end

#[test]
fn the_page_shows_this() {
    let own = include_str!("page.rs");
    let code = own.split("// begin\n").nth(1).and_then(|rest| rest.split("// end\n").next()).expect("marks");
    let page = include_str!("../../../docs/writing-policies.md");
    assert!(page.contains(&format!("```rust\n{code}```")), "docs/writing-policies.md shows another test");
}

#[test]
fn an_order_that_is_another_is_found() {
    let late_first = |job: &Waiting<'_>| {
        let deadline = job.deadline.unwrap_or(Time::MAX).ns();
        Some((-deadline, -deadline))
    };
    let suite = Suite::new(Registry::standard()).stating("edf", late_first);
    let failure = suite.check("edf").expect_err("EDF does not run the latest deadline first");
    assert!(failure.to_string().contains("although it is ahead"), "{failure}");
}
