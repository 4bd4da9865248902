//! The outcomes of real runs are those of the simulation of the same file.
//!
//! For every policy that can abort, shed or reserve, drawn workloads ([`instances`]) are simulated and run. What was released, met,
//! missed, aborted, cut off and behind, the utility, and the order in which jobs began and ended must be equal. The workloads are
//! chosen so that these do not depend on microseconds ([`robust`]), so equality is exact.
//!
//! A run that differs is repeated, and how many were equal at once is printed. A workload fails that differs in three runs. A run in which
//! the machine stalled for longer than the workload bears ([`backend::Delays::stall`]) says nothing: after eight runs the workload is left
//! out, and the figures are printed. Of each family one workload has to be equal, and nine of ten in all; among many, one family
//! may have stalled. No stall is accepted under
//! virtual time (`TAKT_OUTCOMES=v2`, which `cargo xtask vm` sets in its virtual machine).
//!
//! Each mechanism runs every other workload, those in even or in odd places, by the seed (`TAKT_SEED`). `TAKT_OUTCOMES=all` lets each run all of them.
//!
//! Jobs that block in their middle have workloads of their own: they sleep, or write to a program outside of the schedule and wait for its
//! answer, which the simulation has as a sleep of that length.
//!
//! Each run, equal or not, is recorded. Its replay must give the same records and the same counts: no stall excuses a difference.

mod backend;
mod instances;
#[path = "../machine/mod.rs"]
mod machine;
mod robust;

use backend::{Backend, Processes, Simulator};
use instances::Instance;
use machine::{Capability, Watch, calm, on_cpus, skip};
use std::borrow::Borrow;
use std::io::Write;
use takt_core::model::TaskId;
use takt_core::record::{Record, RecordKind};
use takt_core::time::{Span, Time};
use takt_linux::{Choice, Mechanism, RunId, rt};

/// How many runs that differ without a stall are a failure, and how many runs there are at most.
const DIFFERENT: usize = 3;
const ATTEMPTS: usize = 8;
/// Where so many workloads are equal, one family may have none that is.
const MANY: usize = 40;
/// Workloads in a virtual machine, which has one CPU and emulates it.
const IN_VM: usize = 24;

/// Writes a line that is shown also when the test passes.
fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// How the comparisons of one backend went.
#[derive(Default)]
struct Tally {
    at_once: usize,
    /// The families of the workloads that were equal.
    equal: Vec<String>,
    /// The families of those left out, because the machine stalled again and again.
    stalled: Vec<String>,
    failures: Vec<String>,
}

/// How a run compares with the simulation.
enum Compared {
    Equal,
    /// The differences, and by how much the machine was stalled, if it was.
    Differs(String, Option<String>),
}

/// Compares one workload, `run` by `run`.
fn compare(instance: &Instance, on: &str, mut run: impl FnMut() -> Compared, tally: &mut Tally) {
    let (name, mut different) = (&instance.name, Vec::new());
    for attempt in 1..=ATTEMPTS {
        let (difference, stall) = match run() {
            Compared::Equal => {
                tally.at_once += usize::from(attempt == 1);
                return tally.equal.push(instance.family().to_owned());
            }
            Compared::Differs(difference, stall) => (difference, stall),
        };
        let why = stall.as_deref().unwrap_or("nothing stalled");
        let text = format!("{name} on {on}, attempt {attempt}: {why}: {difference}");
        say(&text);
        if stall.is_none() {
            different.push(text);
        }
        if different.len() == DIFFERENT {
            let repeat = format!("repeat with: TAKT_OUTCOMES_ONLY={name} cargo test -p takt-rt-cli --test outcomes");
            return tally.failures.push(format!("{}\n{}{repeat}", different.join("\n"), instance.text));
        }
    }
    tally.stalled.push(instance.family().to_owned());
}

impl Tally {
    /// The fault: workloads that differ, or too few that could be compared.
    fn verdict(&self) -> Result<(), String> {
        let Tally { equal, stalled, failures, .. } = self;
        let n = equal.len() + stalled.len() + failures.len();
        if !failures.is_empty() {
            return Err(format!("{} of {n} differ:\n{}", failures.len(), failures.join("\n")));
        }
        if stalled.len() * 10 > n {
            return Err(format!("{} of {n} workloads stalled again and again", stalled.len()));
        }
        // One workload has sixteen runs, in which a host can stall.
        let mut missing: Vec<_> = stalled.iter().filter(|family| !equal.contains(family)).collect();
        missing.dedup();
        match missing[..] {
            [] => Ok(()),
            [family] if equal.len() >= MANY => {
                say(&format!("no workload of the family {family} was equal, because the machine stalled"));
                Ok(())
            }
            _ => Err(format!("no workload of these families was equal: {missing:?}")),
        }
    }
}

fn compare_all<I: Borrow<Instance>>(instances: &[I], backend: &Processes) {
    let mut tally = Tally::default();
    let once = |instance: &Instance, tally: &mut Tally| {
        let expected = Simulator.outcomes(instance);
        let run = || {
            // Under virtual time the threads that watch would only take time themselves.
            let watch = backend.stalls().then(Watch::begin);
            let mut run = backend.outcomes(instance);
            run.delays.still = watch.map_or(Span::ZERO, |watch| Span::from_ns(watch.end().longest.as_nanos() as i64));
            let Some(difference) = expected.difference(&run) else { return Compared::Equal };
            let difference = format!("{:?}: {difference}", run.delays);
            let stall = run.delays.stall(instance).filter(|_| backend.stalls());
            stall.iter().for_each(|_| calm());
            Compared::Differs(difference, stall)
        };
        compare(instance, &backend.name(), run, tally);
    };
    let mut stalled = Vec::new();
    for instance in instances.iter().map(Borrow::borrow) {
        once(instance, &mut tally);
        stalled.extend(tally.stalled.pop().map(|_| instance));
    }
    // A host that takes CPUs for some seconds stalls all attempts of a workload, and some families have one only.
    stalled.into_iter().for_each(|instance| once(instance, &mut tally));
    let (n, on, equal) = (instances.len(), backend.name(), tally.equal.len());
    let (at_once, stalled) = (tally.at_once, tally.stalled.len());
    say(&format!(
        "outcomes on {on}: {equal} of {n} workloads equal the simulation, {at_once} at the first attempt, {stalled} stalled"
    ));
    tally.verdict().unwrap_or_else(|why| panic!("{why}"));
}

/// The workloads of the mechanism with this number in a run with this seed: all of them, or every other one. Two mechanisms whose numbers
/// follow each other have all of them together, and so have two seeds that follow each other.
fn share<I>(workloads: impl IntoIterator<Item = I>, mechanism: u64, seed: u64, all: bool) -> Vec<I> {
    let has = |place: u64| all || (place.wrapping_add(mechanism).wrapping_add(seed)).is_multiple_of(2);
    (0..).zip(workloads).filter(|(place, _)| has(*place)).map(|(_, workload)| workload).collect()
}

#[test]
fn real_runs_have_the_outcomes_of_the_simulation() {
    let here = rt::affinity(0).expect("the CPUs of this thread");
    if std::env::var("TAKT_OUTCOMES").is_ok_and(|name| name == "v2") {
        // On the only CPU the processes need a real-time class, or they share it with what else Takt does.
        let some = instances::for_emulation(true, IN_VM);
        assert_eq!(some.len(), IN_VM);
        return compare_all(&some, &Processes::virtual_time("v2"));
    }
    on_cpus(|| {
        // With a real-time class other load does not delay the processes. They leave a CPU to everything else.
        let realtime = rt::rt_allowed() && !rt::preempt_rt() && here.contains(0) && here.len() > 1;
        let mut all = instances::all(realtime);
        if !here.contains(1) {
            skip(Capability::Cpus, "CPUs 0 and 1 are needed for the workloads on several CPUs");
            all.retain(|instance| instance.cpus == 1);
        }
        if !Capability::Tracepoints.is_present() {
            skip(Capability::Tracepoints, "ends of jobs cannot be observed");
            all.retain(|instance| !instance.name.starts_with("observed-"));
        }
        let whole = std::env::var("TAKT_OUTCOMES").is_ok_and(|name| name == "all")
            || std::env::var("TAKT_OUTCOMES_ONLY").is_ok();
        for (number, name, choice, needs) in
            [(0, "v1", Choice::V1, Capability::V1), (1, "signal", Choice::Signal, Capability::Signals)]
        {
            match Mechanism::open(choice, &RunId::new().expect("a name")) {
                Ok(_) => {
                    compare_all(&share(&all, number, takt_testing::seed(), whole), &Processes::new(name));
                    // Without a real-time class there is no priority, and a process on several CPUs is frozen anyway.
                    let one_cpu = all.iter().filter(|instance| instance.cpus == 1);
                    if choice == Choice::V1 && realtime {
                        compare_all(
                            &share(one_cpu, 1, takt_testing::seed(), whole),
                            &Processes::dispatched("v1", "priority"),
                        );
                    }
                }
                Err(e) => skip(needs, &format!("mechanism {name}: {e}")),
            }
        }
    });
}

/// Jobs that sleep, or wait for an answer, in their middle: other jobs run meanwhile, as simulated. `TAKT_OUTCOMES_DISPATCH` names the only dispatch to compare.
#[test]
fn real_runs_have_the_outcomes_of_the_simulation_where_jobs_block() {
    if std::env::var("TAKT_OUTCOMES").is_ok_and(|name| name == "v2") {
        return say("outcomes of jobs that block: not compared on one CPU that is emulated");
    }
    for (capability, lack) in [
        (Capability::RealTime, "jobs that block are observed in SCHED_FIFO"),
        (Capability::Tracepoints, "blocks cannot be observed"),
    ] {
        if !capability.is_present() {
            return skip(capability, lack);
        }
    }
    on_cpus(|| {
        let here = rt::affinity(0).expect("the CPUs of this thread");
        let whole = std::env::var("TAKT_OUTCOMES").is_ok_and(|name| name == "all")
            || std::env::var("TAKT_OUTCOMES_ONLY").is_ok();
        // All of them are more than 120 workloads under policies with an order, and 30 under others.
        let mut all = instances::all_blocking(if whole { 7 } else { 2 }, |_| true);
        all.retain(|instance| here.contains(1) || instance.cpus == 1);
        let wanted = std::env::var("TAKT_OUTCOMES_DISPATCH").ok();
        let rows =
            [(0, "v1", Choice::V1, "freeze"), (1, "signal", Choice::Signal, "freeze"), (0, "v1", Choice::V1, "rank")];
        for (number, name, choice, dispatch) in rows {
            let is_wanted = wanted.as_ref().is_none_or(|wanted| wanted == dispatch);
            if is_wanted && Mechanism::open(choice, &RunId::new().expect("a name")).is_ok() {
                let own = share(&all, number, takt_testing::seed(), whole);
                compare_all(&own, &Processes::dispatched(name, dispatch));
            }
        }
    });
}

/// The same for a user without rights, in workloads whose times are longer: blocks are seen by the states of processes.
#[test]
fn real_runs_have_the_outcomes_of_the_simulation_for_a_user_without_rights() {
    if !Capability::Users.is_present() {
        return skip(Capability::Users, "no program can be started for another user");
    }
    if std::env::var("TAKT_OUTCOMES").is_ok_and(|name| name == "v2") {
        return say("outcomes for another user: not compared on one CPU that is emulated");
    }
    on_cpus(|| {
        let whole = std::env::var("TAKT_OUTCOMES").is_ok_and(|name| name == "all")
            || std::env::var("TAKT_OUTCOMES_ONLY").is_ok();
        let all = instances::blocking_without_rights(if whole { 2 } else { 1 });
        let all = share(all, 0, takt_testing::seed(), whole);
        compare_all(&all, &Processes::of_user("signal", 65534));
    });
}

/// Without a run: robust workloads are found whose jobs sleep and wait for answers, and their simulation is that of the file.
#[test]
fn workloads_with_jobs_that_block_are_drawn() {
    const SOME: [&str; 4] = ["blocks-edf-abort", "blocks-fp-abort", "blocks-p-edf", "blocks-hvdf"];
    let all = instances::all_blocking(3, |family| SOME.contains(&family));
    let with = |step: &str| all.iter().filter(|instance| instance.text.contains(step)).count();
    say(&format!("{} workloads, {} with sleeps, {} with answers", all.len(), with("sleep "), with("read 3")));
    assert!(all.len() >= SOME.len() && all.iter().all(Instance::blocks) && with("read 3") > 0);
    assert!(all.iter().all(|instance| instance.answers.len() == instance.text.matches("read 3").count()));
}

/// Two mechanisms, and two seeds, leave no workload out. All of them are run where that is wanted.
#[test]
fn every_workload_has_its_turn() {
    for seed in [0, 7, u64::MAX] {
        let [a, b, later] =
            [(0, seed), (1, seed), (0, seed.wrapping_add(1))].map(|(n, seed)| share(0..7, n, seed, false));
        assert_eq!(b, later);
        let mut both = [a, b].concat();
        both.sort_unstable();
        assert_eq!(both, share(0..7, 0, seed, true));
    }
}

/// A run that differs is not excused by a stall that the workload bears, and a difference is found in each figure.
#[test]
fn differences_are_found() {
    let instance = &instances::first();
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

/// A replay that has another record, one more or one less is found.
#[test]
fn another_replay_is_found() {
    let record =
        |at, task| Record { at: Time::from_ns(at), kind: RecordKind::Exit { task: TaskId(task), failed: false } };
    let run = [record(1, 0), record(2, 1), record(2, 2)];
    assert_eq!(backend::differs(&run, &run), None);
    let later = [run[0], record(3, 1), run[2]];
    let other = [run[0], run[1], record(2, 1)];
    let more = [run[0], run[1], run[2], run[2]];
    for (replay, at) in [(&later[..], 1), (&other, 2), (&more, 3), (&run[..2], 2), (&[], 0)] {
        let difference = backend::differs(&run, replay).expect("a difference");
        assert!(difference.starts_with(&format!("record {at} of 3: ")), "{difference}");
    }
}

/// A workload that differs in three runs without a stall fails, and so does a family that is never equal.
#[test]
fn only_stalls_excuse() {
    let instance = &instances::first();
    let told = |stalls: &[Option<bool>]| {
        let (mut tally, mut attempts) = (Tally::default(), stalls.iter().copied());
        let run = || match attempts.next().expect("no more runs than these") {
            None => Compared::Equal,
            Some(stalled) => Compared::Differs("other".into(), stalled.then(|| "it stalled".into())),
        };
        compare(instance, "test", run, &mut tally);
        assert_eq!(attempts.next(), None, "all runs are made");
        (tally.at_once, tally.equal.len(), tally.stalled.len(), tally.failures.len())
    };
    let (stalled, not) = (Some(true), Some(false));
    assert_eq!(told(&[None]), (1, 1, 0, 0));
    assert_eq!(told(&[not, stalled, not, None]), (0, 1, 0, 0));
    assert_eq!(told(&[stalled; ATTEMPTS]), (0, 0, 1, 0));
    assert_eq!(told(&[stalled, not, stalled, not, not]), (0, 0, 0, 1));
    assert_eq!(told(&[not; DIFFERENT]), (0, 0, 0, 1));

    let families = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let tally = |stalled: &[&str]| {
        let equal = families(&[["a"; 10], ["b"; 10]].concat());
        Tally { equal, stalled: families(stalled), ..Tally::default() }.verdict()
    };
    assert_eq!((tally(&[]), tally(&["a", "b"])), (Ok(()), Ok(())));
    assert!(tally(&["a", "b", "b"]).unwrap_err().contains("3 of 23"));
    assert!(tally(&["c"]).unwrap_err().contains("[\"c\"]"));
    let many = |stalled: &[&str]| {
        Tally { equal: families(&["a"; MANY]), stalled: families(stalled), ..Tally::default() }.verdict()
    };
    assert!(many(&["c"]).is_ok() && many(&["c", "d"]).is_err());

    let ms = Span::from_ms;
    let borne = instance.slack + instance.duration / 64;
    let delays = backend::Delays { waited: borne, lost: borne, ..Default::default() };
    assert_eq!(delays.stall(instance), None);
    for change in 0..6 {
        let mut delays = delays;
        let backend::Delays { lateness, switch, stolen, still, waited, lost } = &mut delays;
        *[lateness, switch, stolen, still, waited, lost].into_iter().nth(change).expect("six kinds") += ms(1);
        assert!(delays.stall(instance).is_some(), "kind {change}");
    }
}
