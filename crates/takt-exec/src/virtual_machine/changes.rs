//! A run that is changed from outside is the simulation of its workload with the same changes at the same instants.

#![cfg(test)]

use super::drive::{self, Commands, Ran};
use super::tests::{Records, engine, load, plan};
use super::{Faults, Machine};
use crate::control::{Answer, Command, Control, Done, NewTerms, Refusal, Target};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use takt_core::engine::Input;
use takt_core::model::{Arrival, PolicySpec, Program, Scope, System};
use takt_core::record::Record;
use takt_core::rng;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_workload::Source;

/// Numbers from a seed.
struct Draw {
    seed: u64,
    drawn: u64,
}

impl Draw {
    fn up_to(&mut self, most: u64) -> u64 {
        self.drawn += 1;
        rng::draw_up_to(most, self.seed, 11, self.drawn)
    }
    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.up_to(list.len() as u64 - 1) as usize]
    }
}

/// A workload: on one CPU, on two, in domains, with tasks that events release, or in windows.
fn drawn(draw: &mut Draw) -> String {
    let mut task = |name: &str, more: &str| {
        let (period, runtime, utility) = (5 + draw.up_to(20), 1 + draw.up_to(2), 1 + draw.up_to(5));
        format!("- {{name: {name}, cmd: x, period: {period}ms, runtime: {runtime}ms, utility: {utility}{more}}}\n")
    };
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| task(name, ""));
    let follower = "- {name: f, cmd: x, event: {after: a}, deadline: 9ms, runtime: 1ms, utility: 2}\n";
    match draw.up_to(5) {
        0 => {
            let policy = draw.of(&["edf", "rm", "cbs", "dasa", "llf", "rr", "grub"]);
            format!("policy: {policy}\ncpus: 0\ntasks:\n{a}{b}{c}")
        }
        1 => {
            let policy = draw.of(&["edf", "dasa", "fifo"]);
            format!("policy: {policy}\ncpus: 0\ntasks:\n{a}{b}{follower}")
        }
        2 => {
            let policy = draw.of(&["g-edf", "p-edf", "p-rm", "g-llf", "g-gua", "p-cbs"]);
            format!("policy: {policy}\ncpus: 0-1\ntasks:\n{a}{b}{c}{d}")
        }
        3 => {
            let first = draw.of(&["edf", "dasa", "rr"]);
            let domain = |text: &str, name: &str| text.replace('}', &format!(", domain: {name}}}"));
            let (a, b, c) = (domain(&a, "left"), domain(&b, "left"), domain(&c, "right"));
            format!(
                "domains: [{{name: left, cpus: 0, policy: {first}}}, {{name: right, cpus: 1, policy: edf}}]\ntasks:\n{a}{b}{c}"
            )
        }
        4 => {
            let late = draw.of(&["continue", "abort"]);
            format!("policy: edf\ncpus: 0\nlate: {late}\ntasks:\n{a}{b}{c}{d}")
        }
        _ => "windows: [{length: 5ms, cpu: 0, sc_partition: A}, {length: 4ms, cpu: 0, sc_partition: B}]\n\
              partitions: [{name: A, processes: [{name: a, cmd: a, budget: 3ms, runtime: 2ms}]}, \
              {name: B, processes: [{name: b, cmd: b, budget: 3ms, runtime: 2ms}]}]\n"
            .to_owned(),
    }
}

fn spec(name: &str) -> PolicySpec {
    takt_workload::registry().spec(name).expect("it is in the registry")
}

fn command(draw: &mut Draw, system: &System, names: &[String], domains: &[String]) -> Command {
    let task = match draw.up_to(12) {
        0 => "unknown".to_owned(),
        _ => names[draw.up_to(names.len() as u64 - 1) as usize].clone(),
    };
    let span = |draw: &mut Draw| (draw.up_to(1) == 0).then(|| Span::from_us(500 + draw.up_to(30_000) as i64));
    let policies = [
        "edf",
        "rm",
        "dm",
        "fifo",
        "rr",
        "llf",
        "dasa",
        "hvdf",
        "cbs",
        "np-edf",
        "g-edf",
        "p-edf",
        "g-llf",
        "g-gua",
        "p-rr",
        "sporadic-server",
        "windows",
    ];
    match draw.up_to(8) {
        0..=2 => {
            let mut terms = NewTerms { period: span(draw), deadline: span(draw), ..NewTerms::default() };
            terms.runtime = span(draw).filter(|_| draw.up_to(2) == 0).map(|runtime| Span::from_ns(runtime.ns() / 8));
            terms.share = (draw.up_to(3) == 0).then(|| draw.up_to(1_100_000) as u32);
            terms.importance = (draw.up_to(3) == 0).then(|| draw.up_to(3) as u32);
            terms.utility = (draw.up_to(8) == 0).then(|| draw.up_to(9_000_000));
            Command::Set { task, terms }
        }
        3 | 4 => {
            let domain = match (domains.is_empty(), draw.up_to(8)) {
                (_, 0) => Some("nowhere".to_owned()),
                (true, _) => None,
                (false, n) => Some(domains[n as usize % domains.len()].clone()),
            };
            Command::Policy { domain, to: spec(draw.of(&policies)), fallback: None }
        }
        5 => Command::Remove(task),
        6 => Command::Add(task),
        7 => Command::Trigger(task),
        _ => {
            let mut target = system.clone();
            for task in &mut target.tasks {
                if let Arrival::Periodic { period, .. } = &mut task.arrival
                    && draw.up_to(1) == 0
                {
                    *period = Span::from_ms(10 + draw.up_to(20) as i64);
                    task.deadline = Some(*period);
                }
                task.priority += u32::from(draw.up_to(40) == 0);
            }
            if target.domains.is_empty() && target.windows.is_empty() && draw.up_to(1) == 0 {
                target.policy = PolicySpec { placement: target.policy.placement, ..spec(draw.of(&policies)) };
            }
            let (tasks, domains) = (names.to_vec(), domains.to_vec());
            Command::Reload(Box::new(Target { system: target, tasks, domains, fixed: Vec::new() }))
        }
    }
}

/// All policies with default settings, as `takt run` offers them.
fn offered(system: &System) -> Vec<PolicySpec> {
    let registry = takt_workload::registry();
    let specs = registry.names().filter_map(|(prefix, name)| registry.spec(&format!("{prefix}{name}")));
    let placement = system.policy.placement;
    specs.filter(|spec| spec.scope != Scope::Table).map(|spec| PolicySpec { placement, ..spec }).collect()
}

struct Case {
    text: String,
    system: System,
    programs: Vec<Program>,
    ran: Ran,
    answers: Vec<Answer>,
    commands: usize,
    length: Span,
}

fn run(seed: u64, faults: bool) -> Option<Case> {
    let mut draw = Draw { seed, drawn: 0 };
    let text = drawn(&mut draw);
    let workload = load(Source { name: "changes.yaml".into(), text: text.clone() });
    let length = Span::from_ms(150);
    let (system, plan, programs) = plan(&workload, length);
    let names: Vec<String> = plan.processes.iter().map(|process| process.name.clone()).collect();
    let commands = 1 + draw.up_to(7);
    let mut list: Vec<(Time, Command)> = (0..commands)
        .map(|_| {
            // Odd instants, at which nothing else happens.
            let at = Time::from_ns(3_000_001 + draw.up_to(length.ns() as u64 - 10_000_000) as i64);
            (at, command(&mut draw, &system, &names, &workload.domains))
        })
        .collect();
    list.sort_by_key(|(at, _)| *at);
    let [mut first, mut mirror] = [(); 2].map(|()| engine(system.clone()));
    first.add_alternatives(offered(&system));
    mirror.add_alternatives(offered(&system));
    let (control, handle) = Control::new(mirror, workload.domains.clone(), false).expect("a descriptor");
    let answers = Arc::new(Mutex::new((0, Vec::new())));
    let orders = Commands { control, handle, list: list.into(), answers: answers.clone() };
    let faults = if faults { drive::faults(&plan, seed) } else { Faults::none() };
    let mut machine = Machine::new(plan.clone(), faults);
    let ran = drive::run_controlled(first, &plan, &programs, &mut machine, Some(orders)).ok()?;
    let (commands, answers) = std::mem::take(&mut *answers.lock().expect("no test has failed"));
    Some(Case { text, system, programs, ran, answers, commands, length })
}

/// Whether the input comes from a command: these runs have no other source of such inputs.
fn is_change(input: &Input) -> bool {
    matches!(
        input,
        Input::Retime { .. }
            | Input::Share { .. }
            | Input::Terms { .. }
            | Input::Enter { .. }
            | Input::Leave { .. }
            | Input::Release { .. }
            | Input::Switch { .. }
    )
}

fn again(seed: u64, name: &str) -> String {
    format!("seed {seed}; again: TAKT_CHANGE_SEED={seed} cargo test -p takt-exec --lib {name}")
}

fn seeds(most: u64) -> std::ops::RangeInclusive<u64> {
    let first = std::env::var("TAKT_CHANGE_SEED").ok().map(|seed| seed.parse().expect("a number"));
    first.map_or(1..=most, |seed: u64| seed..=seed)
}

/// Fails at the first record that differs.
fn same(ran: &[Record], other: &[Record], again: impl Fn() -> String) {
    let at = ran.iter().zip(other).take_while(|(ran, other)| ran == other).count();
    let around =
        |list: &[Record]| format!("{:#?}", &list[at.saturating_sub(2).min(list.len())..(at + 3).min(list.len())]);
    assert!(ran == other, "record {at} differs: {}\nran {}\nother {}", again(), around(ran), around(other));
}

#[test]
fn a_changed_run_is_the_simulation_with_the_same_changes() {
    let (mut made, mut refused, mut kinds, mut switched) = (0, 0, BTreeSet::new(), 0);
    for seed in seeds(1000) {
        let again = again(seed, "a_changed_run");
        let case = std::panic::catch_unwind(|| run(seed, false)).unwrap_or_else(|_| panic!("{again}"));
        let case = case.expect("a machine without faults");
        let Case { text, system, programs, ran, answers, commands, length } = case;
        assert_eq!(answers.len(), commands, "each command is answered once; {again}\n{text}");
        let mut instants = BTreeSet::new();
        for answer in &answers {
            match answer {
                Ok(Done::Changed(at)) => {
                    instants.insert(*at);
                    made += 1;
                }
                Ok(_) => {}
                Err(refusal) => {
                    refused += 1;
                    kinds.insert(match refusal {
                        Refusal::Unknown { .. } => "unknown",
                        Refusal::Impossible { .. } => "impossible",
                        Refusal::NotAdmitted(_) => "not admitted",
                        Refusal::Busy(_) => "busy",
                        Refusal::Over(_) => "over",
                    });
                }
            }
        }
        let changes = ran.steps.iter().flat_map(|(at, inputs)| inputs.iter().map(|input| (*at, *input)));
        let changes: Vec<(Time, Input)> = changes.filter(|(_, input)| is_change(input)).collect();
        // One that was refused has left no input, and one that was made has.
        assert_eq!(changes.iter().map(|(at, _)| *at).collect::<BTreeSet<_>>(), instants, "{again}\n{text}");
        switched += changes.iter().filter(|(_, input)| matches!(input, Input::Switch { .. })).count();
        // A replay of the recorded steps.
        let mut replayed = Records::default();
        let mut other = engine(system.clone());
        other.add_alternatives(offered(&system));
        let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
        takt_sim::replay(&mut other, &steps.collect::<Vec<_>>(), &mut replayed);
        same(&ran.records, &replayed.0, || format!("the replay; {again}\n{text}\n{changes:#?}"));
        // A simulation of the workload with these changes.
        let mut simulated = system.clone();
        simulated.tasks.iter_mut().zip(&programs).for_each(|(task, program)| task.program = program.clone());
        let mut other = engine(simulated);
        other.add_alternatives(offered(&system));
        let mut records = Records::default();
        let scenario = Scenario { changes: changes.clone(), ..Scenario::default() };
        takt_sim::simulate(&mut other, &scenario, length, &mut records, |_| {});
        // A run whose tasks have all left ends before its time, and a simulation continues.
        let end = ran.outcome.end;
        if end < Time::ZERO + length {
            let until = records.0.partition_point(|record| record.at <= end);
            records.0.truncate(until);
        }
        same(&ran.records, &records.0, || format!("the simulation; {again}\n{text}\n{changes:#?}"));
    }
    println!("{made} changes, of which {switched} policies, {refused} refused: {kinds:?}");
    let all = seeds(1000).count() > 1;
    assert!(!all || made > 1000 && switched > 150 && refused > 500 && kinds.len() >= 3, "{made} {switched} {refused}");
}

/// Processes that fail, late supervisors and refused acts in between: the recorded inputs are still the run.
#[test]
fn a_changed_run_with_faults_replays() {
    let mut made = 0;
    for seed in seeds(500) {
        let again = again(seed, "a_changed_run_with_faults");
        let case = std::panic::catch_unwind(|| run(seed, true)).unwrap_or_else(|_| panic!("{again}"));
        let Some(Case { text, system, ran, answers, commands, .. }) = case else { continue };
        assert_eq!(answers.len(), commands, "each command is answered once; {again}\n{text}");
        made += answers.iter().filter(|answer| matches!(answer, Ok(Done::Changed(_)))).count();
        let mut replayed = Records::default();
        let mut other = engine(system.clone());
        other.add_alternatives(offered(&system));
        let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
        takt_sim::replay(&mut other, &steps.collect::<Vec<_>>(), &mut replayed);
        same(&ran.records, &replayed.0, || format!("the replay; {again}\n{text}"));
    }
    assert!(seeds(500).count() == 1 || made > 300, "{made} changes");
}
