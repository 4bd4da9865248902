//! A run that is changed from outside is the simulation of its workload with the same changes at the same instants.

#![cfg(test)]

use super::drive::{self, Commands, Ran};
use super::tests::{Records, engine, load, plan};
use super::{Faults, Machine};
use crate::control::{Answer, Command, Control, Done, NewTerms, Refusal, Target};
use crate::plan::{NewTask, Plan, Process, Reaction, reserve};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, OnAbort, PolicySpec, Program, Scope, System, Task, TaskId, Window};
use takt_core::record::{Record, RecordKind};
use takt_core::rng;
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;
use takt_core::work::Work;
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
        _ => "windows: [{length: 5ms, cpu: 0, sc_partition: A}, {length: 4ms, slices: [{cpu: 0, sc_partition: B, be_partition: A}]}]\n\
              partitions: [{name: A, processes: [{name: a, cmd: a, budget: 3ms, runtime: 2ms}]}, \
              {name: B, processes: [{name: b, cmd: b, budget: 3ms, runtime: 2ms}]}]\n"
            .to_owned(),
    }
}

/// Places for further tasks.
const PLACES: usize = 4;

fn spec(name: &str) -> PolicySpec {
    takt_workload::registry().spec(name).expect("it is in the registry")
}

/// Another window table: other lengths, windows and budgets, or once in a while one that cannot take over.
fn alter_table(draw: &mut Draw, target: &mut System) {
    let windows = (1 + draw.up_to(3)).max(2);
    target.windows = (0..windows)
        .map(|index| {
            let mut window = target.windows[(index as usize + draw.up_to(1) as usize) % target.windows.len()].clone();
            window.length = Span::from_us(1500 + 500 * draw.up_to(8) as i64);
            window
        })
        .collect();
    for task in &mut target.tasks {
        task.budget = Some(Span::from_us(500 + draw.up_to(3000) as i64));
    }
    match draw.up_to(9) {
        0 => target.windows[0].slices[0].cpus = CpuSet::single(1),
        1 => target.partitions.swap(0, 1),
        2 => target.tasks[0].runtime = Some(Span::from_us(1)),
        _ => {}
    }
}

/// Another set of tasks: without one that no other follows, or with new ones.
fn alter_tasks(draw: &mut Draw, target: &mut Target) {
    let n = target.tasks.len();
    let removed = draw.up_to(3 * n as u64) as usize;
    let is_followed =
        |task: &Task| matches!(task.arrival, Arrival::Event { after: Some(first), .. } if first.index() == removed);
    if removed < n && !target.system.tasks.iter().any(is_followed) {
        target.tasks.remove(removed);
        target.system.tasks.remove(removed);
        let moved = |task: TaskId| TaskId(task.0 - u32::from(task.index() > removed));
        for domain in &mut target.system.domains {
            domain.tasks.retain(|task| task.index() != removed);
            domain.tasks.iter_mut().for_each(|task| *task = moved(*task));
        }
        for task in &mut target.system.tasks {
            if let Arrival::Event { after: Some(first), .. } = &mut task.arrival {
                *first = moved(*first);
            }
        }
    }
    for _ in 0..draw.up_to(3).saturating_sub(1) {
        let new = new_task(draw, &target.tasks, &target.domains);
        if target.tasks.contains(&new.process.name) {
            continue;
        }
        let id = TaskId(target.tasks.len() as u32);
        target.system.tasks.push(new.described(&target.tasks).expect("it follows a task of the list"));
        target.tasks.push(new.process.name.clone());
        let named = target.domains.iter().position(|domain| Some(domain) == new.domain.as_ref());
        if let Some(domain) = target.system.domains.get_mut(named.unwrap_or_default()) {
            domain.tasks.push(id);
        }
        target.new.push(new);
    }
}

/// A task that the workload does not have, with a name that a task may have already.
fn new_task(draw: &mut Draw, names: &[String], domains: &[String]) -> NewTask {
    let name = draw.of(&["new", "newer", "newest", "a"]).to_owned();
    let period = Span::from_ms(5 + draw.up_to(20) as i64);
    let offset = draw.of(&[Span::ZERO, Span::from_ms(3)]);
    let (arrival, after) = match draw.up_to(3) {
        0 => {
            let after = draw.of(&[Some(0), Some(names.len() - 1), None]).map(|index: usize| names[index].clone());
            (Arrival::Event { distance: Span::ZERO, queue: 1, after: None }, after)
        }
        _ => (Arrival::Periodic { offset, period }, None),
    };
    let task = Task {
        arrival,
        deadline: Some(period),
        runtime: Some(Span::from_us(200 + draw.up_to(2500) as i64)),
        utility: Some(Utility::Step(1 + draw.up_to(5))),
        on_abort: OnAbort::Finish,
        ..Task::default()
    };
    let domain = match (domains, draw.up_to(8)) {
        ([], 0) | (_, 1) => Some("nowhere".to_owned()),
        ([], _) => None,
        (_, 0) => None,
        (domains, n) => Some(domains[n as usize % domains.len()].clone()),
    };
    let reaction = || Some(Reaction::Stop);
    let process = Process {
        name,
        init: draw.up_to(2) == 0,
        on_miss: reaction().filter(|_| draw.up_to(1) == 0),
        on_overrun: reaction().filter(|_| draw.up_to(1) == 0),
        is_reserved: false,
        ..Process::reserved()
    };
    NewTask { task, after, domain, process, file: "".into(), text: "".into() }
}

fn command(draw: &mut Draw, system: &System, names: &[String], domains: &[String]) -> Command {
    let task = match draw.up_to(12) {
        0 => "unknown".to_owned(),
        1 => "new".to_owned(),
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
    let kind = if !system.windows.is_empty() && draw.up_to(1) == 0 { 9 } else { draw.up_to(9) };
    match kind {
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
        5 => Command::Remove { task, end: (draw.up_to(4) == 0).then_some(Span::from_ms(20)) },
        6 => Command::Add(task),
        7 => Command::Trigger(task),
        8 => Command::New(Box::new(new_task(draw, names, domains))),
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
            if !target.windows.is_empty() && draw.up_to(3) > 0 {
                alter_table(draw, &mut target);
            }
            if target.domains.is_empty() && target.windows.is_empty() && draw.up_to(1) == 0 {
                target.policy = PolicySpec { placement: target.policy.placement, ..spec(draw.of(&policies)) };
            }
            let (tasks, domains) = (names.to_vec(), domains.to_vec());
            let (fixed, new, excluded, frequencies) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let mut target =
                Target { system: target, tasks, domains, fixed, new, excluded, frequencies, fallbacks: Vec::new() };
            if target.system.windows.is_empty() {
                alter_tasks(draw, &mut target);
                // Both at once are refused.
                if !target.new.is_empty() && draw.up_to(3) > 0 {
                    target.system.policy = system.policy;
                }
            }
            Command::Reload(Box::new(target))
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
    names: Vec<String>,
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
    let (system, plan, _) = plan(&workload, length);
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
    controlled(text, length, list, |plan| {
        if seed.is_multiple_of(2) {
            without_reactions(plan);
        }
        if faults { drive::faults(plan, seed) } else { Faults::none() }
    })
}

/// The CPU time of a job is measured only where its policy limits it, and not for a reaction.
fn without_reactions(plan: &mut Plan) {
    plan.processes.iter_mut().for_each(|process| process.on_overrun = None);
}

/// Runs a workload with commands, in this order, on a machine with these faults. `arrange` may change the plan before.
fn controlled(
    text: String,
    length: Span,
    list: Vec<(Time, Command)>,
    arrange: impl FnOnce(&mut Plan) -> Faults,
) -> Option<Case> {
    let workload = load(Source { name: "changes.yaml".into(), text: text.clone() });
    let (mut system, plan, programs) = plan(&workload, length);
    let mut plan = (*plan).clone();
    // A file with a window table has no places for further tasks.
    let places = if system.windows.is_empty() { PLACES } else { 0 };
    reserve(&mut system, &mut plan.processes, places);
    let faults = arrange(&mut plan);
    let plan = Arc::new(plan);
    let [mut first, mut mirror] = [(); 2].map(|()| engine(system.clone()));
    first.add_alternatives(offered(&system));
    mirror.add_alternatives(offered(&system));
    let (control, handle) = Control::new(mirror, workload.domains.clone(), false).expect("a descriptor");
    let answers = Arc::new(Mutex::new((0, Vec::new())));
    let orders = Commands { control, handle, list: list.into(), answers: answers.clone() };
    let mut machine = Machine::new(plan.clone(), faults);
    let ran = drive::run_controlled(first, &plan, &programs, &mut machine, Some(orders)).ok()?;
    let (commands, answers) = std::mem::take(&mut *answers.lock().expect("no test has failed"));
    let own = plan.processes.iter().filter(|process| !process.is_reserved);
    let names = own.map(|process| process.name.clone()).collect();
    Some(Case { text, system, names, programs, ran, answers, commands, length })
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
            | Input::Table { .. }
            | Input::Add { .. }
    )
}

/// An engine that knows the policies and the window tables of the run.
fn knowing(system: System, names: &[String], ran: &Ran) -> Engine {
    let mut engine = engine(system.clone());
    engine.add_alternatives(offered(&system));
    for table in &ran.tables {
        engine.add_table(table.clone()).expect("the run has it");
    }
    let mut names = names.to_vec();
    for (new, index) in ran.added.iter().zip(names.len() as u32..) {
        let described = new.described(&names).expect("the run has the task that it follows");
        engine.describe(TaskId(index), described).expect("a free number");
        names.push(new.process.name.clone());
    }
    engine
}

fn again(seed: u64, name: &str) -> String {
    format!("seed {seed}; again: TAKT_CHANGE_SEED={seed} cargo test -p takt-rt-exec --lib {name}")
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
    let (mut tables, mut taken, mut added) = (0, 0, 0);
    // Steps in which a reload adds several tasks, removes one beside its other changes, or lets one return so.
    let mut sets = [0; 3];
    for seed in seeds(1000) {
        let again = again(seed, "a_changed_run");
        let case = std::panic::catch_unwind(|| run(seed, false)).unwrap_or_else(|_| panic!("{again}"));
        let case = case.expect("a machine without faults");
        let Case { text, system, names, programs, ran, answers, commands, length } = case;
        assert_eq!(answers.len(), commands, "each command is answered once; {again}\n{text}");
        let mut instants = BTreeSet::new();
        for answer in &answers {
            match answer {
                Ok(Done::Changed(at) | Done::Overloaded { at, .. } | Done::Table { at, .. }) => {
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
                        Refusal::NotStarted { .. } => "not started",
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
        tables += changes.iter().filter(|(_, input)| matches!(input, Input::Table { .. })).count();
        taken += ran.records.iter().filter(|record| matches!(record.kind, RecordKind::Table { .. })).count();
        each_window_once(&ran, &system, || format!("{again}\n{text}"));
        added += ran.added.len();
        for (_, inputs) in &ran.steps {
            let count = |kind: fn(&Input) -> bool| inputs.iter().filter(|input| kind(input)).count();
            let adds = count(|input| matches!(input, Input::Add { .. }));
            let (leaves, enters) = (
                count(|input| matches!(input, Input::Leave { .. })),
                count(|input| matches!(input, Input::Enter { .. })),
            );
            let all = count(is_change);
            let kinds = [adds > 1, leaves > 0 && all > leaves, enters > adds && all > enters + adds];
            sets.iter_mut().zip(kinds).for_each(|(sum, is)| *sum += usize::from(is));
        }
        switched += changes.iter().filter(|(_, input)| matches!(input, Input::Switch { .. })).count();
        // A replay of the recorded steps.
        let mut replayed = Records::default();
        let mut other = knowing(system.clone(), &names, &ran);
        let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
        takt_sim::replay(&mut other, &steps.collect::<Vec<_>>(), &mut replayed);
        same(&ran.records, &replayed.0, || format!("the replay; {again}\n{text}\n{changes:#?}"));
        // A simulation of the workload with these changes.
        let mut simulated = system.clone();
        simulated.tasks.iter_mut().zip(&programs).for_each(|(task, program)| task.program = program.clone());
        let mut other = knowing(simulated, &names, &ran);
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
    println!(
        "{made} changes, of which {switched} policies, {tables} window tables ({taken} taken over) and {added} tasks, {refused} refused: {kinds:?}"
    );
    let all = seeds(1000).count() > 1;
    assert!(!all || made > 1000 && switched > 150 && refused > 500 && kinds.len() >= 3, "{made} {switched} {refused}");
    assert!(!all || added > 100, "{added} tasks added");
    println!("steps that add several tasks, remove some, let some return beside other changes: {sets:?}");
    assert!(!all || sets.iter().all(|count| *count > 5), "{sets:?}");
    assert!(!all || tables > 150 && taken > 140 && taken <= tables, "{tables} {taken}");
}

/// Windows follow each other without a gap, each as long as its table says, and tables take over at the ends of frames only.
fn each_window_once(ran: &Ran, system: &System, again: impl Fn() -> String) {
    let lengths = |windows: &[Window]| windows.iter().map(|window| window.length).collect::<Vec<_>>();
    let mut table = lengths(&system.windows);
    let (mut due, mut next, mut taken) = (Time::ZERO, (0, 0), false);
    for record in &ran.records {
        match record.kind {
            RecordKind::Table { to } => {
                assert!(next.0 == 0 && record.at == due, "table {to} in a frame; {}", again());
                table = lengths(&ran.tables[usize::from(to)].windows);
                taken = true;
            }
            RecordKind::Window { window, frame } => {
                assert_eq!((record.at, window as usize, frame), (due, next.0, next.1), "{taken}; {}", again());
                due += table[next.0];
                next = if next.0 + 1 == table.len() { (0, next.1 + 1) } else { (next.0 + 1, next.1) };
            }
            _ => {}
        }
    }
}

/// The reload of a workload.
fn reload_of(text: &str) -> Command {
    let target = load(Source { name: "target.yaml".into(), text: text.into() });
    let tasks = target.tasks.iter().map(|task| task.name.clone()).collect();
    let (excluded, frequencies) = (Vec::new(), Vec::new());
    let (domains, fixed, new) = (Vec::new(), Vec::new(), Vec::new());
    Command::Reload(Box::new(Target {
        system: target.system,
        tasks,
        domains,
        fixed,
        new,
        excluded,
        frequencies,
        fallbacks: Vec::new(),
    }))
}

/// An instant a nanosecond after a whole number of milliseconds.
fn after_ms(ms: i64) -> Time {
    Time::from_ns(ms * 1_000_000 + 1)
}

/// A machine that stands still over the end of a frame: the timer of that end and the command are there when it continues. The table takes over at the end
/// that follows the instant in the record, as in a simulation.
#[test]
fn a_late_border_and_a_change_have_the_order_of_their_instants() {
    let text = "windows: [{length: 5ms, cpu: 0, sc_partition: A}, {length: 5ms, cpu: 0, sc_partition: B}]\n\
                partitions: [{name: A, processes: [{name: a, cmd: a, budget: 3ms, runtime: 2ms}]}, \
                {name: B, processes: [{name: b, cmd: b, budget: 3ms, runtime: 2ms}]}]\n";
    let length = Span::from_ms(60);
    // Time zero of the schedule on the clock of the machine; with another one no command would come with the timer.
    let begin = Span::from_ms(1002);
    let mut together = 0;
    for (before, pause) in [(100, 101), (100, 900), (500, 501), (1, 2), (1, 4000)] {
        for command in [before / 2, before, before + 1, pause] {
            let from = Span::from_us(20_000 - before);
            let at = Time::ZERO + from + Span::from_us(command);
            let list =
                vec![(at, reload_of(&text.replace("5ms, cpu: 0, sc_partition: B", "7ms, cpu: 0, sc_partition: B")))];
            let case =
                controlled(text.to_owned(), length, list, |_| Faults::pausing([(begin + from, Span::from_us(pause))]));
            let Case { system, names, programs, ran, answers, .. } = case.expect("a machine that only stands still");
            let again =
                format!("a pause of {pause} us from {before} us before the end, the command {command} us later");
            let Ok(Done::Table { at, .. }) = answers[0] else { panic!("{again}: {answers:?}") };
            let borders = ran.records.iter().filter(|record| matches!(record.kind, RecordKind::Table { .. }));
            let taken = borders.map(|record| record.at).collect::<Vec<_>>();
            let end = Time::ZERO + Span::from_ms(if at < Time::ZERO + Span::from_ms(20) { 20 } else { 30 });
            assert_eq!(taken, [end], "{again}: changed at {at:?}");
            together += usize::from(ran.paused > Span::ZERO && at > Time::ZERO + Span::from_ms(20));
            let changes = ran.steps.iter().flat_map(|(at, inputs)| inputs.iter().map(|input| (*at, *input)));
            let changes = changes.filter(|(_, input)| is_change(input)).collect();
            let mut simulated = system.clone();
            simulated.tasks.iter_mut().zip(&programs).for_each(|(task, program)| task.program = program.clone());
            let (mut other, mut records) = (knowing(simulated, &names, &ran), Records::default());
            takt_sim::simulate(&mut other, &Scenario { changes, ..Scenario::default() }, length, &mut records, |_| {});
            let windows = [&ran.records, &records.0].map(|records| {
                let is_one =
                    |record: &&Record| matches!(record.kind, RecordKind::Window { .. } | RecordKind::Table { .. });
                records.iter().filter(is_one).copied().collect::<Vec<_>>()
            });
            same(&windows[0], &windows[1], || again.clone());
        }
    }
    assert!(together >= 10, "{together} commands came with the timer");
}

/// A policy that measures CPU time takes over from one that does not. The consumption of each job begins with the job, and not with its process.
#[test]
fn a_policy_that_takes_over_measures_jobs() {
    let text = "policy: edf\ncpus: 0\ntasks:\n\
                - {name: a, cmd: x, period: 5ms, runtime: 2ms}\n\
                - {name: b, cmd: x, period: 8ms, runtime: 4ms}\n";
    for policy in ["cbs", "fcbs", "grub", "ipi"] {
        for at in [41_200_001, 33_100_001, 52_000_001, 26_300_001] {
            let (at, length) = (Time::from_ns(at), Span::from_ms(150));
            let list = vec![(at, Command::Policy { domain: None, to: spec(policy), fallback: None })];
            let case = controlled(text.to_owned(), length, list, |plan| {
                without_reactions(plan);
                Faults::none()
            });
            let Case { ran, answers, .. } = case.expect("no faults");
            assert!(matches!(answers[0], Ok(Done::Changed(_))), "{policy}: {answers:?}");
            let mut most = [Work::default(); 2];
            for input in ran.steps.iter().flat_map(|(_, inputs)| inputs) {
                if let Input::Usage { task, consumed } = input {
                    most[task.index()] = most[task.index()].max(*consumed);
                }
            }
            assert!(most[0] <= Work::nominal(Span::from_ms(2)), "{policy} at {at}: {most:?}");
            assert!(most[1] <= Work::nominal(Span::from_ms(4)), "{policy} at {at}: {most:?}");
            assert!(most[0] > Work::default(), "{policy} measures");
        }
    }
}

/// Terms that fit only together are admitted together, and terms that fit only one by one are refused.
#[test]
fn a_reload_is_admitted_as_a_whole() {
    let text = |[first, second]: [(i64, i64); 2], policy: &str| {
        let task = |name, (period, runtime)| {
            format!("- {{name: {name}, cmd: x, period: {period}ms, runtime: {runtime}ms, utility: 1}}\n")
        };
        format!("policy: {policy}\ncpus: 0\ntasks:\n{}{}", task("a", first), task("b", second))
    };
    let begin = text([(10, 5), (10, 4)], "cbs");
    let at = Time::from_ns(33_000_001);
    for (target, admitted) in [
        // The second task needs the CPU time that the first one returns.
        (text([(20, 5), (6, 4)], "cbs"), true),
        (text([(40, 30), (40, 8)], "cbs"), true),
        // Each fits beside the present other one.
        (text([(9, 5), (8, 4)], "cbs"), false),
        // The policy of the target has no such promise.
        (text([(9, 5), (8, 4)], "edf"), true),
        (text([(10, 5), (10, 4)], "grub"), true),
    ] {
        let case = controlled(begin.clone(), Span::from_ms(100), vec![(at, reload_of(&target))], |_| Faults::none())
            .expect("no faults");
        match &case.answers[..] {
            [Ok(Done::Changed(_))] => assert!(admitted, "{target}"),
            [Ok(Done::Overloaded { per_mille: 1056, .. })] => assert!(target.starts_with("policy: edf"), "{target}"),
            [Err(Refusal::NotAdmitted(why))] => {
                assert!(!admitted && why.contains("does not accept task"), "{target}: {why}");
                let inputs = case.ran.steps.iter().flat_map(|(_, inputs)| inputs);
                assert!(!inputs.into_iter().any(is_change), "nothing has changed");
            }
            other => panic!("{target}: {other:?}"),
        }
    }
}

/// The job of `b` that is released at 30 ms ends at 36 ms.
const TWO: &str = "policy: edf\ncpus: 0\ntasks:\n\
                   - {name: a, cmd: x, period: 10ms, runtime: 1ms}\n\
                   - {name: b, cmd: x, period: 30ms, runtime: 5ms}\n";

/// The process of a task that was to end stays if the task returns before it was asked to.
#[test]
fn a_task_that_returns_keeps_its_process() {
    for comes in [Command::Add("b".to_owned()), reload_of(TWO)] {
        let leaves = Command::Remove { task: "b".to_owned(), end: Some(Span::from_ms(20)) };
        let list = vec![(after_ms(31), leaves), (after_ms(37), comes.clone())];
        let case = controlled(TWO.to_owned(), Span::from_ms(150), list, |_| Faults::none()).expect("no faults");
        assert!(matches!(case.answers[..], [Ok(Done::Changed(_)), Ok(Done::Changed(_))]), "{:?}", case.answers);
        let b = TaskId(1);
        let later = || case.ran.records.iter().filter(|record| record.at > after_ms(37));
        let ends = later().any(|record| matches!(record.kind, RecordKind::Exit { task, .. } if task == b));
        let jobs = later().filter(|record| matches!(record.kind, RecordKind::Finish { task, .. } if task == b)).count();
        assert!(!ends && jobs == 4, "{comes:?}: {jobs} jobs");
    }
}

/// While a task leaves, it cannot be wanted: it would leave all the same.
#[test]
fn a_task_that_leaves_cannot_be_wanted_before_it_has_left() {
    for comes in [Command::Add("b".to_owned()), reload_of(TWO)] {
        let leaves = Command::Remove { task: "b".to_owned(), end: None };
        let list = vec![(after_ms(31), leaves), (after_ms(32), comes.clone()), (after_ms(37), comes)];
        let case = controlled(TWO.to_owned(), Span::from_ms(100), list, |_| Faults::none()).expect("no faults");
        let answers = &case.answers[..];
        assert!(matches!(answers, [Ok(Done::Changed(_)), Err(Refusal::Busy(_)), Ok(Done::Changed(_))]), "{answers:?}");
    }
}

/// The present window table cannot be wanted while another one waits for the end of the frame: the other one would take over all the same.
#[test]
fn the_present_table_cannot_be_wanted_while_another_one_waits() {
    let text = |first: i64| {
        format!(
            "windows: [{{length: {first}ms, cpu: 0, sc_partition: A}}, {{length: 4ms, cpu: 0, sc_partition: B}}]\n\
             partitions: [{{name: A, processes: [{{name: a, cmd: a, budget: 3ms, runtime: 2ms}}]}}, \
             {{name: B, processes: [{{name: b, cmd: b, budget: 3ms, runtime: 2ms}}]}}]\n"
        )
    };
    // A frame lasts from 27 ms to 36 ms.
    let list = vec![
        (after_ms(28), reload_of(&text(6))),
        (after_ms(29), reload_of(&text(5))),
        (after_ms(40), reload_of(&text(5))),
    ];
    let case = controlled(text(5), Span::from_ms(100), list, |_| Faults::none()).expect("no faults");
    let answers = &case.answers[..];
    assert!(matches!(answers, [Err(Refusal::Busy(_)), Ok(Done::Table { .. }), Ok(Done::Table { .. })]), "{answers:?}");
    let taken = case.ran.records.iter().filter(|record| matches!(record.kind, RecordKind::Table { .. })).count();
    assert_eq!(taken, 2);
}

/// A job is granted a longer runtime in the instant in which a command asks for the rest of the CPU time. The policy is asked again.
#[test]
fn terms_are_admitted_beside_those_that_a_program_has_been_granted_meanwhile() {
    let text = "policy: cbs\ncpus: 0\ntasks:\n\
                - {name: a, cmd: x, period: 10ms, runtime: 2ms, steps: [run 1ms, set-runtime 5ms]}\n\
                - {name: b, cmd: x, period: 10ms, runtime: 4ms}\n";
    let set = |runtime: i64| {
        let terms = NewTerms { runtime: Some(Span::from_ms(runtime)), ..NewTerms::default() };
        Command::Set { task: "b".to_owned(), terms }
    };
    // At this instant the supervisor is first, and knows nothing of the call.
    let at = Time::ZERO + Span::from_ms(1);
    for (runtime, admitted) in [(8, false), (5, true)] {
        let case = controlled(text.to_owned(), Span::from_ms(50), vec![(at, set(runtime))], |_| Faults::none())
            .expect("no faults");
        let called = |record: &&Record| matches!(record.kind, RecordKind::Call { granted: true, .. });
        let first = case.ran.records.iter().find(called).map(|record| record.at);
        assert_eq!(first, Some(at), "the call comes at that instant");
        match &case.answers[..] {
            [Ok(Done::Changed(_))] => assert!(admitted, "{runtime} ms"),
            [Err(Refusal::NotAdmitted(_))] => assert!(!admitted, "{runtime} ms"),
            other => panic!("{other:?}"),
        }
    }
}

/// A policy without a test accepts any terms, and the answer says that the CPU cannot carry them out.
#[test]
fn terms_that_overload_the_cpus_are_reported() {
    let set = |runtime: i64| {
        let terms = NewTerms { runtime: Some(Span::from_ms(runtime)), ..NewTerms::default() };
        (Time::ZERO + Span::from_ms(15), Command::Set { task: "b".to_owned(), terms })
    };
    let tasks = |domains: [&str; 2]| {
        format!(
            "tasks:\n- {{name: a, cmd: x, period: 10ms, runtime: 5ms, steps: [run 1ms]{}}}\n\
             - {{name: b, cmd: x, period: 100ms, runtime: 10ms, steps: [run 1ms]{}}}\n",
            domains[0], domains[1]
        )
    };
    let (one, two) = (", domain: one", ", domain: two");
    let domains = "domains: [{name: one, cpus: 0, policy: edf}, {name: two, cpus: 1, policy: edf}]\n";
    for (head, own, runtime, overload) in [
        ("policy: edf\ncpus: 0\n", ["", ""], 62, Some(1120)),
        ("policy: edf\ncpus: 0\n", ["", ""], 50, None),
        ("policy: g-edf\ncpus: 0,1\n", ["", ""], 62, None),
        (domains, [one, one], 62, Some(1120)),
        (domains, [one, two], 90, None),
    ] {
        let text = format!("{head}{}", tasks(own));
        let case = controlled(text, Span::from_ms(50), vec![set(runtime)], |_| Faults::none());
        let found = match &case.expect("no faults").answers[..] {
            [Ok(Done::Changed(_))] => None,
            [Ok(Done::Overloaded { cpus, per_mille, .. })] => {
                assert_eq!(*cpus, takt_core::cpus::CpuSet::single(0));
                Some(*per_mille)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(found, overload, "{head} {runtime} ms");
    }
}

/// Processes that fail, late supervisors and refused acts in between: the recorded inputs are still the run.
#[test]
fn a_changed_run_with_faults_replays() {
    let mut made = 0;
    for seed in seeds(500) {
        let again = again(seed, "a_changed_run_with_faults");
        let case = std::panic::catch_unwind(|| run(seed, true)).unwrap_or_else(|_| panic!("{again}"));
        let Some(Case { text, system, names, ran, answers, commands, .. }) = case else { continue };
        assert_eq!(answers.len(), commands, "each command is answered once; {again}\n{text}");
        made += answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Done::Changed(_) | Done::Overloaded { .. } | Done::Table { .. })))
            .count();
        let mut replayed = Records::default();
        let mut other = knowing(system.clone(), &names, &ran);
        let steps = ran.steps.iter().map(|(now, inputs)| takt_sim::Step { now: *now, inputs: inputs.clone() });
        takt_sim::replay(&mut other, &steps.collect::<Vec<_>>(), &mut replayed);
        same(&ran.records, &replayed.0, || format!("the replay; {again}\n{text}"));
    }
    assert!(seeds(500).count() == 1 || made > 300, "{made} changes");
}

/// The ring between the threads is too small for a round of the supervisor. The mirror stands still at the gap, and changes are refused.
#[test]
fn a_mirror_takes_no_step_after_a_lost_one() {
    let text = "policy: edf\ncpus: 0\ntasks:\n\
                - {name: a, cmd: x, period: 2ms, runtime: 1ms}\n\
                - {name: b, cmd: x, period: 5ms, runtime: 1ms}\n";
    let workload = load(Source { name: "gap.yaml".into(), text: text.to_owned() });
    let (system, plan, programs) = plan(&workload, Span::from_ms(200));
    let run = |ring: usize| {
        let (control, handle) = Control::new(engine(system.clone()), Vec::new(), false).expect("a descriptor");
        let answers = Arc::new(Mutex::new((0, Vec::new())));
        let at = |ms: i64, command: Command| (Time::ZERO + Span::from_ms(ms), command);
        let list = [at(150, Command::Status), at(160, Command::Remove { task: "a".to_owned(), end: None })];
        let orders = Commands { control, handle, list: list.into(), answers: answers.clone() };
        let mut machine = Machine::new(plan.clone(), Faults::none());
        machine.world().ring = ring;
        let ran = drive::run_controlled(engine(system.clone()), &plan, &programs, &mut machine, Some(orders));
        let (_, mut answers) = std::mem::take(&mut *answers.lock().expect("no test has failed"));
        let removed = answers.pop().expect("two answers");
        let Some(Ok(Done::Status(status))) = answers.pop() else { panic!("no status") };
        (ran.expect("a run"), status, removed)
    };
    let (whole, complete, removed) = run(1 << 12);
    assert!(!complete.is_incomplete && matches!(removed, Ok(Done::Changed(_))));
    let (cut, status, removed) = run(64);
    assert!(cut.outcome.dropped > 0 && status.is_incomplete && matches!(removed, Err(Refusal::Over(_))));
    assert!(Time::ZERO < status.stepped && status.stepped < complete.stepped, "{}", status.stepped - Time::ZERO);
    let mut other = engine(system.clone());
    for (now, inputs) in whole.steps.iter().take_while(|(now, _)| *now <= status.stepped) {
        other.step(*now, inputs, &mut Records::default());
    }
    for (task, index) in status.tasks.iter().zip(0..) {
        assert_eq!(task.counts, other.counts(takt_core::model::TaskId(index)), "{}", task.name);
    }
}
