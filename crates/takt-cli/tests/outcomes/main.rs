//! The outcomes of real runs are those of the simulation of the same file.
//!
//! For every policy that can abort, shed or reserve, drawn workloads ([`instances`]) are simulated and run. What was released, met,
//! missed, aborted, cut off and behind, the utility, and the order in which jobs began and ended must be equal. The workloads are
//! chosen so that these do not depend on microseconds ([`robust`]), so equality is exact.
//!
//! A run that differs is repeated, at most twice, if its delays together exceed what the workload bears; the figures are printed. After
//! the last attempt one kind of delay must exceed it, or the test fails. Such workloads are left out, but at most one in ten. No stall
//! is accepted under virtual time (`TAKT_OUTCOMES=v2`, which `cargo xtask vm` sets in its virtual machine).

mod backend;
mod instances;
#[path = "../machine/mod.rs"]
mod machine;
mod robust;

use backend::{Backend, Processes, Simulator};
use instances::Instance;
use machine::{calm, on_cpus, skip};
use std::io::Write;
use takt_core::time::Span;
use takt_linux::{Choice, Mechanism, RunId, rt};

/// How often a run that differs is tried.
const ATTEMPTS: usize = 3;
/// Workloads in a virtual machine, which has one CPU and emulates it.
const IN_VM: usize = 24;

/// Writes a line that is shown also when the test passes.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// How the comparisons of one backend went.
#[derive(Default)]
struct Tally {
    equal: usize,
    at_once: usize,
    /// Left out, because the machine stalled each time.
    stalled: usize,
    failures: Vec<String>,
}

/// Compares one workload, and says why if it differs.
fn compare(instance: &Instance, backend: &Processes, tally: &mut Tally) {
    let expected = Simulator.outcomes(instance);
    for attempt in 1..=ATTEMPTS {
        let run = backend.outcomes(instance);
        let (name, on) = (&instance.name, backend.name());
        let Some(difference) = expected.difference(&run) else {
            tally.equal += 1;
            tally.at_once += usize::from(attempt == 1);
            return;
        };
        let last = attempt == ATTEMPTS;
        let stall = if last { run.stall() } else { run.delay() };
        if stall > instance.slack && backend.stalls() {
            say(&format!(
                "{name} on {on}, attempt {attempt}: stalled by {stall}, bears {}: {difference}",
                instance.slack
            ));
            tally.stalled += usize::from(last);
            calm();
            continue;
        }
        let text = &instance.text;
        let repeat = format!("repeat with: TAKT_OUTCOMES_ONLY={name} cargo test -p takt-cli --test outcomes");
        return tally
            .failures
            .push(format!("{name} on {on}, attempt {attempt}, stalled by {stall}: {difference}\n{text}{repeat}"));
    }
}

fn compare_all(instances: &[Instance], backend: &Processes) {
    let mut tally = Tally::default();
    instances.iter().for_each(|instance| compare(instance, backend, &mut tally));
    let (n, Tally { equal, at_once, stalled, failures }) = (instances.len(), &tally);
    let on = backend.name();
    say(&format!(
        "outcomes on {on}: {equal} of {n} workloads equal the simulation, {at_once} at the first attempt, {stalled} stalled"
    ));
    assert!(failures.is_empty(), "{} of {n} differ:\n{}", failures.len(), failures.join("\n"));
    assert!(stalled * 10 <= n, "{stalled} of {n} workloads stalled in each attempt");
}

#[test]
fn real_runs_have_the_outcomes_of_the_simulation() {
    let here = rt::affinity(0).expect("the CPUs of this thread");
    if std::env::var("TAKT_OUTCOMES").is_ok_and(|name| name == "v2") {
        // On the only CPU the processes need a real-time class, or they share it with what else Takt does.
        let some: Vec<Instance> = instances::for_emulation(true).into_iter().take(IN_VM).collect();
        assert_eq!(some.len(), IN_VM);
        return compare_all(&some, &Processes::virtual_time("v2"));
    }
    on_cpus(|| {
        // With a real-time class other load does not delay the processes. They leave a CPU to everything else.
        let realtime = rt::rt_allowed() && !rt::preempt_rt() && here.contains(0) && here.len() > 1;
        let mut all = instances::all(realtime);
        if !here.contains(1) {
            skip("CPUs 0 and 1 are needed for the workloads on several CPUs");
            all.retain(|instance| instance.cpus == 1);
        }
        for (name, choice) in [("v1", Choice::V1), ("signal", Choice::Signal)] {
            match Mechanism::open(choice, &RunId::new().expect("a name")) {
                Ok(_) => compare_all(&all, &Processes::new(name)),
                Err(e) => skip(&format!("mechanism {name}: {e}")),
            }
        }
    });
}

/// A run that differs is not excused by a stall that the workload bears, and a difference is found in each figure.
#[test]
fn differences_are_found() {
    let instance = &instances::all(false)[0];
    let base = Simulator.outcomes(instance);
    assert_eq!(base.difference(&base), None);
    for change in 0..4 {
        let mut other = base.clone();
        match change {
            0 => other.order.swap(0, 1),
            1 => drop(other.order.pop()),
            2 => other.tasks[0].1 += "x",
            _ => other.tasks[0].0 += "x",
        }
        assert!(base.difference(&other).is_some(), "change {change}");
    }
    assert!(instance.slack >= Span::from_us(200));
}
