//! Policies with settings, and everything that tasks, machines and scenarios can be told, against the model that it means.

mod common;

use common::{fault, load_with, ms, ok, source};
use takt_core::input::Input;
use takt_core::model::{
    Arrival, Backlog, Execution, Handler, Kind, Late, Load, Locking, PolicySpec, Program, ResourceId, Scope, Step,
    Task, TaskId, Timing,
};
use takt_core::registry::REGISTRY;
use takt_core::scenario::{Costs, Deciding, Scenario, Steal};
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;
use takt_workload::{Code, EventSource, MAX_ENTRIES, Options, Source, canonical, load, policy_from_text, policy_text};

#[track_caller]
fn spec(text: &str) -> PolicySpec {
    policy_from_text(text).unwrap_or_else(|why| panic!("{why}"))
}

#[track_caller]
fn task(keys: &str) -> Task {
    let w = ok(&format!("policy: fp\ntasks: [{{name: a, {keys}}}]"));
    w.system.tasks[0].clone()
}

/// The policy `ipi` with a gain in millionths, whether that is stable or not.
fn ipi_with(gain: &str, value: i64) -> PolicySpec {
    let mut ipi = spec("ipi");
    ipi.values.set(ipi.profile.settings.iter().position(|s| s.name == gain).unwrap(), Some(value));
    ipi
}

/// A value of each setting, above its lower bound where there is room.
fn values(entry: &takt_core::policy::Entry) -> Vec<i64> {
    let value = |kind: &Kind| match *kind {
        Kind::Duration(low, high) => (low.ns() + 1_000).min(high.ns()),
        Kind::Ratio(low, high) | Kind::Count(low, high) => (low + 1).min(high),
        Kind::Choice(words) => words.len() as i64 - 1,
    };
    entry.profile.settings.iter().map(|s| value(&s.kind)).collect()
}

#[test]
fn every_policy_and_each_of_its_settings_reads_back() {
    for entry in REGISTRY {
        for &scope in entry.profile.scopes {
            let plain = PolicySpec::new(&entry.profile, scope);
            assert_eq!(spec(&policy_text(&plain)), plain);
            let mut all = plain;
            for (n, value) in values(entry).into_iter().enumerate() {
                let mut one = plain;
                one.values.set(n, Some(value));
                all.values.set(n, Some(value));
                assert_eq!(spec(&policy_text(&one)), one, "{}", policy_text(&one));
            }
            all.cluster = if scope == Scope::Clustered { 7 } else { all.cluster };
            all.mapper = u8::from(all.maps());
            assert_eq!(spec(&policy_text(&all)), all, "{}", policy_text(&all));
        }
    }
}

#[test]
fn a_policy_has_its_settings_in_a_text_or_in_a_mapping() {
    let rr = spec("rr:quantum=2ms");
    assert_eq!((rr.profile.name, rr.value("quantum")), ("rr", Some(2_000_000)));
    assert_eq!(policy_text(&rr), "rr:quantum=2ms");
    let ipi = spec(" ipi : preset = improved , kpi = 50% ");
    assert_eq!(policy_text(&ipi), "ipi:preset=improved,kpi=0.5");
    assert_eq!(spec("c-edf:cluster=4").cluster, 4);
    assert_eq!(spec("g-edf:mapper=in-order").mapper, 1);
    assert_eq!(policy_from_text("p-edf:mapper=in-order").unwrap_err().code, Code::UnknownSetting);
    for (key, text) in [
        ("policy: rr:quantum=2ms", "rr:quantum=2ms"),
        ("policy: {name: rr, quantum: 2ms}", "rr:quantum=2ms"),
        ("policy: 'ipi:preset=improved,kpi=0.5'", "ipi:preset=improved,kpi=0.5"),
        (
            "policy:\n  name: ipi\n  kpi: 0.5\n  preset: improved\n  feedback: off",
            "ipi:preset=improved,kpi=0.5,feedback=no",
        ),
        ("policy: {name: c-edf, cluster: 1}\ncpus: 0-3\nplacement: wf", "c-edf:cluster=1"),
        ("policy: {name: g-rr, mapper: in-order, quantum: 1ms}\ncpus: 0-3", "g-rr:quantum=1ms,mapper=in-order"),
    ] {
        let w = ok(&format!("{key}\ntasks: [{{name: a, period: 10ms, runtime: 1ms}}]"));
        assert_eq!(PolicySpec { placement: spec(text).placement, ..w.system.policy }, spec(text));
        assert_eq!(ok(&canonical(&w)).system, w.system, "{}", canonical(&w));
    }
    let options = Options { policy: Some(spec("rr:quantum=3ms")), ..Options::default() };
    let csv = Source { name: "a.csv".to_owned(), text: "set_id,task_id,C_us,D_us,T_us\n0,1,2,3,4\n".to_owned() };
    assert_eq!(load(csv.clone(), &options).unwrap().system.policy.value("quantum"), Some(3_000_000));
    let options = Options { policy: Some(ipi_with("kpi", 3_000_000)), ..Options::default() };
    let faults = load(csv, &options).unwrap_err();
    assert_eq!(faults[0].code, Code::UnstableGains, "{faults:?}");
}

#[test]
fn wrong_texts_of_policies_say_what_is_right() {
    for (text, code, part) in [
        ("g-edff", Code::UnknownPolicy, "`g-edf`?"),
        ("rr:quantm=2ms", Code::UnknownSetting, "`quantum`?"),
        ("rr:quantum=2", Code::WrongType, "`2ms`?"),
        ("rr:quantum=0ms", Code::OutOfRange, "from 1us to 3600s"),
        ("rr:", Code::SyntaxError, "no `=` here"),
        ("rr:quantum=2ms,", Code::SyntaxError, "no `=` here"),
        ("rr:quantum=2ms,quantum=3ms", Code::DuplicateKey, "`quantum`"),
        ("edf:cluster=2", Code::UnknownSetting, "`c-edf`"),
        ("ipi:kpi=2", Code::UnstableGains, "`kpi` is 2 and must be above 0 and below 2"),
        ("ipi:least=3ms,most=2ms", Code::UnstableGains, "above the longest"),
        ("ipi:preset=improve", Code::UnknownValue, "`improved`?"),
    ] {
        let why = policy_from_text(text).unwrap_err();
        assert!(why.code == code && why.to_string().contains(part), "{text}: {} {why}", why.code);
    }
}

#[test]
fn a_loop_without_feedback_has_no_gains_to_fault() {
    let file = |policy: &str| format!("policy: {policy}\ntasks: [{{name: a, period: 10ms, runtime: 1ms}}]");
    ok(&file("{name: ipi, kpi: 3, feedback: no}"));
    ok(&file("{name: ipi, krr: 4.255319}"));
    let options = Options { policy: Some(ipi_with("krr", 4_255_320)), ..Options::default() };
    let fault = fault(&file("edf"), &options);
    assert!(fault.label.contains("at most 4.255319"), "{fault:?}");
}

#[test]
fn jobs_come_periodically_sporadically_from_a_list_or_once() {
    assert_eq!(task("period: 10ms").arrival, Arrival::Periodic { offset: Span::ZERO, period: ms(10) });
    let sporadic = task("period: 10ms, spread: 4ms, offset: 1ms");
    assert_eq!(sporadic.arrival, Arrival::Sporadic { offset: ms(1), period: ms(10), spread: ms(4) });
    assert_eq!(sporadic.deadline, Some(ms(10)));
    assert_eq!(task("period: 10ms, spread: 0s").arrival, task("period: 10ms").arrival);
    let listed = task("releases: [0ms, 3ms, 3ms, 10ms], deadline: 2ms");
    assert_eq!(listed.arrival, Arrival::Listed { instants: vec![Span::ZERO, ms(3), ms(3), ms(10)] });
    assert_eq!(listed.deadline, Some(ms(2)));
    assert_eq!(task("releases: never").arrival, Arrival::Listed { instants: vec![] });
    assert_eq!(task("releases: 3ms").arrival, Arrival::Listed { instants: vec![ms(3)] });
    let batch = task("batch: yes, offset: 2ms");
    assert_eq!((batch.arrival, batch.deadline, batch.runtime), (Arrival::Listed { instants: vec![ms(2)] }, None, None));
    assert_eq!(task("batch: no, period: 10ms").arrival, task("period: 10ms").arrival);
    assert_eq!(task("period: 10ms, deadline: none").deadline, None);
}

#[test]
fn jobs_do_what_their_steps_say() {
    let text = "
policy: fp
locking: ceiling
tasks:
  - name: a
    period: 20ms
    steps: [run 2ms, lock bus, run 1.5ms, unlock bus, sleep 5ms, run 1ms, yield]
  - name: b
    period: 20ms
    runtime: 3ms
    steps:
      - run: 2ms
      - lock: the log
      - lock: bus
      - run: 250us
      - unlock: the log
      - yield:
      - unlock: bus
";
    let w = ok(text);
    let (bus, log) = (ResourceId(0), ResourceId(1));
    assert_eq!(w.resources, ["bus", "the log"]);
    assert_eq!((w.system.resources, w.system.locking), (2, Locking::Ceiling));
    let [a, b] = &w.system.tasks[..] else { panic!("two tasks") };
    assert_eq!(
        a.program.steps,
        [
            Step::Run(ms(2)),
            Step::Lock(bus),
            Step::Run(Span::from_us(1_500)),
            Step::Unlock(bus),
            Step::Sleep(ms(5)),
            Step::Run(ms(1)),
            Step::Yield
        ]
    );
    assert_eq!((a.runtime, b.runtime), (Some(Span::from_us(4_500)), Some(ms(3))));
    assert_eq!(b.program.steps[1..3], [Step::Lock(log), Step::Lock(bus)]);
    assert_eq!(b.program.steps[5..], [Step::Yield, Step::Unlock(bus)]);
    // A list fixes the numbers, and may hold unused ones.
    let w = ok(&format!("resources: [spare, the log, bus]\n{text}"));
    assert_eq!((w.resources.len(), w.system.resources), (3, 3));
    assert_eq!(w.system.tasks[0].program.steps[1], Step::Lock(ResourceId(2)));
}

#[test]
fn executions_may_differ_from_declared_runtimes() {
    assert_eq!(task("period: 10ms, runtime: 1ms").program.execution, Execution::Declared);
    assert_eq!(task("period: 10ms, execution: 3ms").program.execution, Execution::Series(vec![ms(3)]));
    assert_eq!(task("period: 10ms, execution: [2ms, 3ms]").program.execution, Execution::Series(vec![ms(2), ms(3)]));
    let drawn = task("period: 10ms, runtime: 2ms, execution: {least: 1ms, most: 4ms}");
    assert_eq!(
        (drawn.runtime, drawn.program.execution.clone()),
        (Some(ms(2)), Execution::Uniform { least: ms(1), most: ms(4) })
    );
    assert_eq!(
        task("period: 10ms, handler: 1ms").handler,
        Some(Handler { runtime: ms(1), deadline: None, utility: 1_000_000 })
    );
    let handler = task("period: 10ms, handler: {runtime: 1ms, deadline: 5ms}").handler;
    assert_eq!(handler, Some(Handler { runtime: ms(1), deadline: Some(ms(5)), utility: 1_000_000 }));
    let shared = task("period: 10ms, share: 12.5%, importance: 7");
    assert_eq!((shared.share, shared.importance), (Some(125_000), 7));
    assert_eq!((task("period: 10ms, share: 1").share, task("period: 10ms").importance), (Some(1_000_000), 1));
}

#[test]
fn processes_under_a_policy_have_the_same_keys() {
    let w = ok("
resources: [bus]
partitions:
  - name: mixed
    policy: {name: rr, quantum: 2ms}
    processes:
      - {cmd: ./a, period: 10ms, spread: 5ms, share: 20%, importance: 3, handler: 1ms, deadline: none}
      - {releases: [0ms, 7ms], steps: [lock bus, run 1ms, unlock bus]}
      - {name: background, batch: yes, cmd: ./b}
  - {name: plain, processes: [{steps: [run 1ms, sleep 1ms, run 1ms], budget: 5}, {execution: 1ms}]}
windows: [{length: 100, cpu: 0, sc_partition: mixed, be_partition: plain}]");
    assert_eq!(w.system.partitions[0].policy, Some(spec("rr:quantum=2ms")));
    let [a, b, c, d, e] = &w.system.tasks[..] else { panic!("five tasks") };
    assert_eq!(a.arrival, Arrival::Sporadic { offset: Span::ZERO, period: ms(10), spread: ms(5) });
    assert_eq!((a.share, a.importance, a.deadline, a.handler.is_some()), (Some(200_000), 3, None, true));
    assert_eq!((b.runtime, b.program.steps.len()), (Some(ms(1)), 3));
    assert_eq!(c.arrival, Arrival::Listed { instants: vec![Span::ZERO] });
    assert_eq!((d.arrival.clone(), d.runtime, d.program.steps.len()), (Arrival::Activated, Some(ms(2)), 3));
    assert_eq!(e.program.execution, Execution::Series(vec![ms(1)]));
    let again = ok(&canonical(&w));
    assert_eq!((again.system, again.resources), (w.system, w.resources));
}

/// A loop whose wake-ups release its jobs comes as often as it may, unless the file plans its events.
#[test]
fn wake_ups_of_a_simulation_come_a_distance_apart() {
    let text = |event: &str| {
        format!(
            "policy: edf\ntasks: [{{name: a, cmd: ./a, completion: sleep, event: {event}, deadline: 5ms, runtime: 1ms}}]"
        )
    };
    let every = |spread| Arrival::Sporadic { offset: Span::ZERO, period: ms(10), spread };
    for (event, simulated) in [
        ("{wakeup: yes, distance: 10ms}", Some(every(Span::ZERO))),
        ("{wakeup: yes, distance: 10ms, spread: 2ms}", Some(every(ms(2)))),
        ("{wakeup: yes, distance: 10ms, releases: [3ms]}", Some(Arrival::Listed { instants: vec![ms(3)] })),
        ("wakeup", None),
    ] {
        let w = ok(&text(event));
        assert_eq!(w.scenario.events.first().map(|(_, arrival)| arrival.clone()), simulated, "{event}");
        assert_eq!(w.tasks[0].event.as_deref(), Some(&EventSource::WakeUp));
        let again = ok(&canonical(&w));
        assert_eq!((&again.system, &again.scenario.events), (&w.system, &w.scenario.events), "{event}");
        assert_eq!(again.tasks[0].event, w.tasks[0].event);
    }
}

#[test]
fn a_partitions_fifo_is_its_order_however_it_is_written() {
    for (policy, online) in [("fifo", false), ("{name: fifo}", false), ("p-fifo", true), ("{name: p-fifo}", true)] {
        let period = if online { ", period: 10ms, runtime: 1ms" } else { "" };
        let w = ok(&format!(
            "partitions: [{{name: A, policy: {policy}, processes: [{{cmd: a, budget: 5{period}}}]}}]
windows: [{{length: 10, cpu: 0, sc_partition: A}}]"
        ));
        assert_eq!(w.system.partitions[0].policy.is_some(), online, "{policy}");
        assert_eq!(ok(&canonical(&w)).system, w.system);
    }
}

#[test]
fn presets_are_rules_for_late_jobs() {
    let rules = |keys: &str| {
        let w = ok(&format!("{{policy: edf, {keys}, tasks: [{{name: a, period: 10ms, runtime: 1ms}}]}}"));
        assert_eq!(ok(&canonical(&w)).system, w.system);
        (w.system.late, w.system.backlog)
    };
    assert_eq!(rules("preset: chronos"), (Late::Continue, Backlog::Chronos));
    assert_eq!(rules("preset: chronos, late: abort"), (Late::Abort, Backlog::Chronos));
    assert_eq!(rules("preset: hartstone"), (Late::Continue, Backlog::Hartstone));
    assert_eq!(rules("preset: hartstone, late: continue"), (Late::Continue, Backlog::Hartstone));
}

const SURROUNDINGS: &str = "
policy: {name: ipi, nominal: 4ms}
tick: 1ms
timer_resolution: 10us
timer_lateness: 50us
costs: {context_switch: 10us, migration: 8us, cache_reload: 7us, scheduler: 5us, scheduler_task: 1us}
steal: {period: 10ms, length: 100us}
tasks:
  - {name: a, period: 10ms, runtime: 1ms, share: 20%}
  - {name: b, period: 30ms, deadline: 20ms, runtime: 2ms, execution: 3ms}
  - {name: 'c: d', batch: yes}
changes:
  - {at: 3s, task: a, skew: -2ms}
  - {at: 1s, task: a, share: 0.3}
  - {at: 2s, policy: {nominal: 6ms, kpi: 0.25}}
  - {at: 1s, task: b, importance: 4}
  - {at: 4s, task: a, importance: 2}
  - {at: 2s, policy: {nominal: default}}
  - {at: 5s, task: 'c: d', block: yes}
  - {at: 6s, task: 'c: d', wake: on}
  - {at: 7s, task: a, period: 5ms}
  - {at: 8s, task: a, runtime: 2ms, deadline: 4ms}
  - {at: 9s, task: a, period: 20ms}
  - {at: 7s, task: b, period: 60ms}
  - {at: 9s, task: b, deadline: none}
  - {at: 0s, task: b, leave: yes}
  - {at: 10ms, task: b, enter: yes}
";

#[test]
fn a_scenario_is_sorted_and_keeps_what_it_does_not_name() {
    let w = ok(SURROUNDINGS);
    assert_eq!(w.system.timing, Timing { tick: ms(1), resolution: Span::from_us(10), lateness: Span::from_us(50) });
    let us = Span::from_us;
    let costs = Costs {
        context_switch: us(10),
        migration: us(8),
        cache_reload: us(7),
        scheduler: us(5),
        scheduler_task: us(1),
        ..Costs::default()
    };
    assert_eq!((w.scenario.costs, w.scenario.steal), (costs, Some(Steal { period: ms(10), length: us(100) })));
    let (a, b, c) = (TaskId(0), TaskId(1), TaskId(2));
    let setting = |name: &str| w.system.policy.profile.settings.iter().position(|s| s.name == name).unwrap() as u8;
    let (nominal, kpi) = (setting("nominal"), setting("kpi"));
    let retime = |task, period, deadline: Option<i64>, runtime| Input::Retime {
        task,
        period: ms(period),
        deadline: deadline.map(ms),
        runtime: Some(ms(runtime)),
    };
    let expected = [
        (0, Input::Leave { task: b }),
        (10, Input::Enter { task: b }),
        (1000, Input::Share { task: a, share: Some(300_000), importance: 1 }),
        (1000, Input::Share { task: b, share: None, importance: 4 }),
        (2000, Input::Configure { setting: nominal, value: Some(6_000_000) }),
        (2000, Input::Configure { setting: kpi, value: Some(250_000) }),
        (2000, Input::Configure { setting: nominal, value: None }),
        (3000, Input::Skew { task: a, by: ms(-2) }),
        (4000, Input::Share { task: a, share: Some(300_000), importance: 2 }),
        (5000, Input::Block { task: c }),
        (6000, Input::Wake { task: c }),
        // A deadline that is the period follows it; one of its own stays, as does a runtime.
        (7000, retime(a, 5, Some(5), 1)),
        (7000, retime(b, 60, Some(20), 2)),
        (8000, retime(a, 5, Some(4), 2)),
        (9000, retime(a, 20, Some(4), 2)),
        (9000, retime(b, 60, None, 2)),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(at, what)| (Time::ZERO + ms(at), what)).collect();
    assert_eq!(w.scenario.changes, expected);
    let again = ok(&canonical(&w));
    assert_eq!((again.system, again.scenario), (w.system.clone(), w.scenario.clone()));
    let only = [
        ("execution", vec![TaskId(1)]),
        ("tick", vec![]),
        ("timer_resolution", vec![]),
        ("timer_lateness", vec![]),
        ("costs", vec![]),
        ("steal", vec![]),
        ("changes", vec![]),
    ];
    assert_eq!(w.simulated_only(), only);
    let mut real = w.clone();
    real.clear_simulated();
    let mut changes = w.scenario.changes.clone();
    changes.retain(|(_, what)| !matches!(what, Input::Block { .. } | Input::Wake { .. } | Input::Skew { .. }));
    assert!(changes.len() < w.scenario.changes.len() && !changes.is_empty());
    assert_eq!(real.scenario, Scenario { changes, ..Scenario::default() });
    let without = SURROUNDINGS
        .replace(", execution: 3ms", "")
        .replace("\ntick: 1ms\ntimer_resolution: 10us\ntimer_lateness: 50us", "");
    assert_eq!(real.system, ok(&without).system);
    let mut real = ok(
        "policy: fp\nresources: [r]\ntasks: [{period: 9ms, runtime: 3ms, steps: [lock r, run 1ms, unlock r], handler: 1ms}]",
    );
    assert_eq!(real.simulated_only().iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["steps"]);
    real.clear_simulated();
    // A real program has its handler and its locks, too.
    let mut without = ok("policy: fp\nresources: [r]\ntasks: [{period: 9ms, runtime: 3ms, handler: 1ms}]").system;
    without.tasks[0].program = Program::doing(vec![Step::Lock(ResourceId(0)), Step::Unlock(ResourceId(0))]);
    assert_eq!(real.system, without);
    assert_eq!(ok("policy: edf\ntasks: [{name: a, period: 10ms, runtime: 1ms}]").simulated_only(), []);
}

#[test]
fn changes_of_another_policys_settings_are_left_out() {
    let options = Options { policy: Some(spec("rm")), ..Options::default() };
    let text = SURROUNDINGS.replace("batch: yes", "period: 1s, runtime: 1ms");
    let w = load_with(&text, &options);
    assert!(w.scenario.changes.iter().all(|(_, what)| !matches!(what, Input::Configure { .. })));
    assert_eq!((w.scenario.changes.len(), w.warnings.len()), (13, 3));
    assert_eq!(w.warnings[0].code, Code::UnknownSetting);
    // The same name, but another kind.
    let text =
        "policy: pd2\ntasks: [{name: a, period: 100ms, runtime: 1ms}]\nchanges: [{at: 1s, policy: {quantum: 5ms}}]";
    let options_rr = Options { policy: Some(spec("rr")), ..Options::default() };
    let w = load_with(text, &options_rr);
    assert_eq!((w.scenario.changes.len(), w.warnings.len()), (0, 1));
    // A setting of the same policy with other values still changes.
    let options = Options { policy: Some(spec("ipi:nominal=2ms")), ..Options::default() };
    assert_eq!(load_with(SURROUNDINGS, &options).scenario.changes.len(), 16);
}

#[test]
fn a_policy_of_one_scope_takes_any_number_of_cpus() {
    for policy in ["llref", "pd2"] {
        let w = ok(&format!("policy: {policy}\ncpus: 0-3\ntasks: [{{name: a, period: 10ms, runtime: 1ms}}]"));
        assert_eq!((w.system.cpus.len(), w.system.policy.scope), (4, Scope::Global));
    }
}

#[test]
fn a_task_without_utilisation_needs_no_runtime_to_be_placed() {
    let file = |policy: &str, keys: &str| format!("policy: {policy}\ncpus: 0-3\ntasks: [{{name: a, {keys}}}]");
    ok(&file("p-fp", "batch: yes"));
    ok(&file("c-fp", "releases: [1ms]"));
    for policy in ["p-fp", "c-fp"] {
        let fault = fault(&file(policy, "period: 10ms"), &Options::default());
        assert_eq!(fault.code, Code::MissingKey);
    }
    ok(&file("c-fp:cluster=4", "period: 10ms"));
}

#[test]
fn long_lists_have_an_end() {
    let list = |n: usize, item: &str| vec![item; n].join(", ");
    let tasks = |keys: &str| format!("policy: fp\ntasks:\n  - {{name: a, {keys}}}\n");
    ok(&tasks(&format!("period: 1h, steps: [{}]", list(10_000, "run 1us"))));
    ok(&tasks(&format!("releases: [{}]", list(MAX_ENTRIES, "1ms"))));
    for (text, key) in [
        (tasks(&format!("period: 1h, steps: [{}]", list(100_000, "run 1us"))), "steps"),
        (tasks(&format!("releases: [{}]", list(MAX_ENTRIES + 1, "1ms"))), "releases"),
        (tasks(&format!("period: 1h, execution: [{}]", list(MAX_ENTRIES + 1, "1ms"))), "execution"),
        (tasks("period: 1h") + &format!("changes: [{}]\n", list(MAX_ENTRIES + 1, "x")), "changes"),
        (tasks("period: 1h") + &format!("resources: [{}]\n", list(10_001, "x")), "resources"),
    ] {
        let fault = fault(&text, &Options::default());
        assert!(fault.code == Code::LimitExceeded && fault.message.contains(&format!("`{key}`")), "{}", fault.message);
        assert!(fault.render(&source(&text), false).len() < 1_000);
    }
}

#[test]
fn many_faults_among_many_names_are_answered() {
    // Were each name compared with each other one, this would take minutes.
    let tasks: String = (0..3_000).map(|i| format!("  - {{name: camera-{i}, period: 1h}}\n")).collect();
    let changes: String = (0..3_000).map(|i| format!("  - {{at: 1s, task: camrea-{i}, block: yes}}\n")).collect();
    let faults = load(source(&format!("policy: fp\ntasks:\n{tasks}changes:\n{changes}")), &Options::default());
    let faults = faults.unwrap_err();
    assert_eq!(faults.len(), takt_workload::MAX_DIAGNOSTICS);
    assert_eq!((faults[7].code, faults[7].label.as_str()), (Code::UnknownName, "did you mean `camera-7`?"));
    let resources = (0..2_000).map(|i| format!("res-{i}")).collect::<Vec<_>>().join(", ");
    let steps: String = (0..4_000).map(|i| format!("lock rse-{i}, unlock rse-{i}, ")).collect();
    let text = format!("policy: fp\nresources: [{resources}]\ntasks: [{{period: 1h, steps: [{steps}]}}]");
    let faults = load(source(&text), &Options::default()).unwrap_err();
    assert_eq!((faults.len(), faults[0].label.as_str()), (takt_workload::MAX_DIAGNOSTICS, "did you mean `res-0`?"));
}

#[test]
fn a_utility_is_a_number_or_a_shape() {
    for (text, utility) in [
        ("5", Utility::Step(5_000_000)),
        ("0.000001", Utility::Step(1)),
        ("0", Utility::Step(0)),
        ("1000000000", Utility::Step(1_000_000_000_000_000)),
        ("{linear: 10}", Utility::Linear { height: 10_000_000, until: None }),
        ("{linear: 0.5, until: 20ms}", Utility::Linear { height: 500_000, until: Some(ms(20)) }),
        ("{exponential: 3, half_life: 5ms}", Utility::Exponential { height: 3_000_000, half_life: ms(5) }),
        (
            "{table: [[0ms, 10], [5ms, 10], [5ms, 2], [8ms, 0]]}",
            Utility::Table(vec![(ms(0), 10_000_000), (ms(5), 10_000_000), (ms(5), 2_000_000), (ms(8), 0)]),
        ),
    ] {
        assert_eq!(task(&format!("period: 10ms, utility: {text}")).utility, Some(utility), "{text}");
    }
    assert_eq!(task("period: 10ms").utility, None);
    let handler = |text: &str| task(&format!("period: 10ms, handler: {text}")).handler.map(|h| h.utility);
    assert_eq!(handler("2ms"), Some(1_000_000));
    assert_eq!(handler("{runtime: 2ms, utility: 0.5}"), Some(500_000));
    assert_eq!(ok("policy: fp\nlate: abort-at-event\ntasks: [{period: 1ms}]").system.late, Late::AbortAtEvent);
}

#[test]
fn a_load_is_a_factor_or_a_shape() {
    const TASKS: &str = "tasks: [{period: 10ms, runtime: 1ms}]";
    let s = Span::from_secs;
    for (text, points, repeat) in [
        ("1.3", vec![(s(0), 1_300_000)], None),
        ("130%", vec![(s(0), 1_300_000)], None),
        ("{ramp: {from: 0.5, to: 1.5, over: 10s}}", vec![(s(0), 500_000), (s(10), 1_500_000)], None),
        ("{ramp: {from: 0.5, to: 1, over: 10s, at: 2s}}", vec![(s(2), 500_000), (s(12), 1_000_000)], None),
        ("{step: {from: 0.8, to: 1.6, at: 5s}}", vec![(s(5), 800_000), (s(5), 1_600_000)], None),
        (
            "{burst: {base: 1, peak: 2, every: 5s, for: 1s}}",
            vec![(s(0), 1_000_000), (s(0), 2_000_000), (s(1), 2_000_000), (s(1), 1_000_000)],
            Some(s(5)),
        ),
        ("{points: [[0s, 0.5], [10s, 1.5]], repeat: 20s}", vec![(s(0), 500_000), (s(10), 1_500_000)], Some(s(20))),
    ] {
        let w = ok(&format!("policy: edf\nload: {text}\n{TASKS}"));
        assert_eq!(w.system.load, Some(Load { points, repeat }), "{text}");
        assert_eq!(w.simulated_only(), [("load", vec![])]);
    }
    // A burst is at its peak at its beginning and over at its end.
    let w = ok(&format!("policy: edf\nload: {{burst: {{base: 1, peak: 2, every: 5s, for: 1s, at: 4s}}}}\n{TASKS}"));
    let factor = |seconds: i64| w.system.load.as_ref().unwrap().factor(Time::ZERO + s(seconds)) / Load::ONE;
    assert_eq!([0, 3, 4, 5, 9, 10].map(factor), [1, 1, 2, 1, 2, 1]);
}

#[test]
fn simulated_effects_can_be_removed() {
    let mut w =
        ok("policy: g-edf\ncpus: 0-1\nload: 2\ndeciding: each\ncosts: {lock: 1us, interrupt: 2us}\ntick: 1ms\n\
         tasks: [{name: a, period: 10ms, runtime: 1ms, utility: 3, handler: 1ms}]");
    assert_eq!((w.scenario.deciding, w.scenario.costs.lock), (Deciding::Concurrent, Span::from_us(1)));
    let keys: Vec<&str> = w.simulated_only().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["tick", "load", "costs", "deciding"]);
    let handler = w.system.tasks[0].handler;
    assert_eq!(handler.map(|h| h.runtime), Some(ms(1)));
    w.clear_simulated();
    assert_eq!(w.system.tasks[0].handler, handler);
    assert_eq!(w.simulated_only(), []);
    assert_eq!((w.system.load.as_ref(), w.system.tasks[0].utility.as_ref()), (None, Some(&Utility::Step(3_000_000))));
}

#[test]
fn a_policy_of_the_command_line_stays() {
    let text = "\
policy: g-edf
cpus: 0-1
changes:
  - {at: 1s, policy: {name: g-rr, quantum: 2ms}}
  - {at: 2s, policy: {quantum: 3ms}}
  - {at: 3s, policy: g-gua}
tasks:
  - {name: a, period: 5ms, runtime: 1ms, utility: 1}
";
    let own = ok(text);
    assert_eq!((own.scenario.changes.len(), own.system.alternatives.len(), own.warnings.len()), (3, 2, 0));
    for name in ["g-rm", "g-edf", "rr"] {
        let options = Options { policy: Some(spec(name)), cpus: Some(1), ..Options::default() };
        let w = load_with(text, &options);
        let told: Vec<Code> = w.warnings.iter().map(|w| w.code).collect();
        let (stays, setting) = (Code::NoEffect, Code::UnknownSetting);
        assert!(w.system.alternatives.is_empty(), "{name}");
        if name == "rr" {
            assert_eq!((told, w.scenario.changes.len()), (vec![stays; 2], 1));
        } else {
            assert_eq!((told, w.scenario.changes.len()), (vec![stays, setting, stays], 0));
        }
    }
    // Without a policy of the file, too.
    let options = Options { policy: Some(spec("edf")), ..Options::default() };
    let w =
        load_with("changes:\n  - {at: 1s, policy: rm}\ntasks:\n  - {name: a, period: 5ms, runtime: 1ms}\n", &options);
    assert_eq!((w.scenario.changes.len(), w.warnings.len()), (0, 1));
}

#[test]
fn execution_times_come_from_a_file_beside_the_workload() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/series/");
    let from = |execution: &str| {
        let text = format!("policy: edf\ntasks:\n  - {{name: a, period: 10ms, execution: {execution}}}\n");
        let source = Source { name: format!("{directory}w.yaml"), text };
        load(source, &Options::default()).expect("a sound workload").system.tasks[0].program.execution.clone()
    };
    let us = |all: &[i64]| Execution::Series(all.iter().map(|n| Span::from_us(*n)).collect());
    assert_eq!(from("{file: two.csv}"), us(&[3_000, 4_500]));
    assert_eq!(from("{file: ./two.csv, scale: 150%}"), us(&[4_500, 6_750]));
    assert_eq!(from(&format!("{{file: {directory}two.csv, scale: 0.5}}")), us(&[1_500, 2_250]));
}

#[test]
fn copies_differ_in_when_they_begin_and_where_they_are() {
    let text = "policy: g-edf\ncpus: 0-1\ntasks:\n  - {name: a, period: 10ms, offset: 1ms, execution: [1ms, 2ms, 3ms], \
                copies: {count: 3, apart: 4ms, skip: 2}}\n  - {name: b, releases: [1ms], runtime: 1ms, deadline: 5ms}\n";
    let with = |copies: &[(&str, usize)]| {
        let copies = copies.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let source = Source { name: "w.yaml".to_owned(), text: text.to_owned() };
        load(source, &Options { copies, ..Options::default() })
    };
    let w = with(&[]).expect("a sound workload");
    let names: Vec<&str> = w.tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a-1", "a-2", "a-3", "b"]);
    for (task, (offset, series)) in w.system.tasks.iter().zip([(1, [1, 2, 3]), (5, [3, 1, 2]), (9, [2, 3, 1])]) {
        assert_eq!(task.arrival, Arrival::Periodic { offset: ms(offset), period: ms(10) });
        assert_eq!(task.program.execution, Execution::Series(series.iter().map(|n| ms(*n)).collect()));
    }
    // The command line wins, and makes copies of a task that has none in the file.
    let w = with(&[("a", 1), ("b", 2)]).expect("a sound workload");
    let names: Vec<&str> = w.tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a-1", "b-1", "b-2"]);
    let refused = |copies: &[(&str, usize)]| with(copies).expect_err("a fault").remove(0).code;
    assert_eq!(refused(&[("c", 2)]), Code::UnknownName);
    assert_eq!(refused(&[("a", 100_000)]), Code::LimitExceeded);
}
