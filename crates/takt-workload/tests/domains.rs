//! Domains, and switches of policies, against the model that they mean.

mod common;

use common::{fault, load_with, ms, ok, source};
use takt_core::cpus::CpuSet;
use takt_core::input::Input;
use takt_core::model::{Domain, PolicySpec, TaskId};
use takt_core::time::{Span, Time};
use takt_workload::{Code, Options, Source, Workload, canonical, load, policy_from_text};

#[track_caller]
fn spec(text: &str) -> PolicySpec {
    policy_from_text(text).unwrap_or_else(|why| panic!("{why}"))
}

fn cpus(list: &[usize]) -> CpuSet {
    list.iter().copied().collect()
}

/// The canonical form means the same.
#[track_caller]
fn round_trip(w: &Workload) {
    let text = canonical(w);
    let again = load(Source { text: text.clone(), ..source("") }, &Options::default());
    let again = again.unwrap_or_else(|faults| panic!("{faults:?}\n{text}"));
    assert_eq!((&again.system, &again.scenario, &again.domains), (&w.system, &w.scenario, &w.domains), "{text}");
    assert_eq!(canonical(&again), text);
}

const TWO: &str = "
domains:
  - {name: control, cpus: 0, policy: dasa-nd}
  - {name: the media, cpus: 1-3, policy: {name: p-rr, quantum: 2ms}, placement: wf}
tasks:
  - {name: a, period: 10ms, runtime: 1ms, utility: 1, domain: control}
  - {name: b, period: 10ms, runtime: 1ms, domain: the media}
  - {name: c, period: 10ms, runtime: 1ms, utility: 2, cpu: 0}
  - {name: d, period: 10ms, runtime: 1ms, cpu: 2-3}
";

#[test]
fn domains_have_the_tasks_that_name_them_or_have_their_cpus() {
    let w = ok(TWO);
    let mut rr = spec("p-rr:quantum=2ms");
    rr.placement = takt_core::model::Placement::from_name("wf").unwrap();
    let domain = |list: &[usize], tasks: [u32; 2], policy| Domain {
        band: 0,
        cpus: cpus(list),
        tasks: tasks.map(TaskId).to_vec(),
        policy,
    };
    assert_eq!(w.system.domains, [domain(&[0], [0, 2], spec("dasa-nd")), domain(&[1, 2, 3], [1, 3], rr)]);
    assert_eq!(
        (w.domains.as_slice(), w.system.policy),
        (["control", "the media"].map(String::from).as_slice(), spec("domains"))
    );
    assert_eq!(w.system.cpus, CpuSet::first(4));
    let affinities: Vec<CpuSet> = w.system.tasks.iter().map(|t| t.affinity).collect();
    assert_eq!(affinities, [cpus(&[0]), cpus(&[1, 2, 3]), cpus(&[0]), cpus(&[2, 3])]);
    assert!(w.warnings.is_empty() && w.simulated_only().is_empty());
    round_trip(&w);
}

#[test]
fn one_domain_has_all_tasks_and_others_of_the_machine_may_idle() {
    let w = ok("domains: [{name: a, cpus: 2, policy: edf}]\ncpus: 1-3\npolicy: domains\ntasks: [{period: 10ms}]");
    assert_eq!((w.system.domains[0].tasks.as_slice(), w.system.cpus), ([TaskId(0)].as_slice(), cpus(&[1, 2, 3])));
    round_trip(&w);
}

#[test]
fn the_command_line_may_not_take_a_domain_apart() {
    let two = |options: &Options| fault(TWO, options).code;
    let policy = Options { policy: Some(spec("g-edf")), ..Options::default() };
    assert_eq!(two(&policy), Code::UnsuitablePolicy);
    let narrow = Options { cpus: Some(3), ..Options::default() };
    assert!(load(source(TWO), &narrow).unwrap_err().iter().any(|f| f.code == Code::CpuOutside));
    let wide = load_with(TWO, &Options { cpus: Some(6), ..Options::default() });
    assert_eq!((wide.system.cpus, wide.system.domains[0].cpus), (CpuSet::first(6), cpus(&[0])));
}

#[test]
fn a_policy_is_switched_to_by_name_or_with_settings() {
    let w = ok("
policy: g-edf
cpus: 0-1
changes:
  - {at: 3s, policy: {quantum: 5ms}}
  - {at: 1s, policy: g-llf}
  - {at: 4s, policy: 'g-rr:quantum=2ms,grid=yes'}
  - {at: 2s, policy: {name: g-rr, quantum: 2ms, grid: yes}}
  - {at: 5s, policy: g-llf}
tasks: [{name: a, period: 10ms, runtime: 1ms}]
");
    let rr = spec("g-rr:quantum=2ms,grid=yes");
    assert_eq!(w.system.alternatives, [spec("g-llf"), rr]);
    let quantum = rr.profile.settings.iter().position(|s| s.name == "quantum").unwrap() as u8;
    let switch = |to| Input::Switch { domain: None, to };
    let configure = Input::Configure { setting: quantum, value: Some(ms(5).ns()) };
    let at = |seconds, what| (Time::ZERO + Span::from_secs(seconds), what);
    // The settings are those of the policy at that time.
    let all = [at(1, switch(0)), at(2, switch(1)), at(3, configure), at(4, switch(1)), at(5, switch(0))];
    assert_eq!(w.scenario.changes, all);
    assert_eq!(w.simulated_only(), [("changes", vec![])]);
    round_trip(&w);
    let mut real = w.clone();
    real.clear_simulated();
    assert_eq!((&real.system.alternatives, &real.scenario.changes), (&w.system.alternatives, &w.scenario.changes));
    real.scenario.changes.retain(|(_, change)| matches!(change, Input::Configure { .. }));
    real.clear_simulated();
    assert_eq!((real.system.alternatives.len(), real.scenario.changes.len()), (0, 1));
    let fault =
        fault("policy: edf\nchanges: [{at: 1s, policy: {quantum: 5ms}}]\ntasks: [{period: 10ms}]", &Options::default());
    assert_eq!(fault.code, Code::UnknownSetting);
}

#[test]
fn a_domain_is_switched_to_policies_that_suit_it() {
    let changes = "
changes:
  - {at: 1s, domain: control, policy: edf}
  - {at: 2s, domain: the media, policy: p-fp}
  - {at: 3s, domain: control, policy: dasa-nd}
  - {at: 3s, domain: control, policy: edf}
";
    let w = ok(&format!("{TWO}{changes}"));
    let mut fp = spec("p-fp");
    // The placement stays that of the domain.
    fp.placement = w.system.domains[1].policy.placement;
    assert_eq!(w.system.alternatives, [spec("edf"), fp, spec("dasa-nd")]);
    let switches: Vec<_> = w.scenario.changes.iter().map(|(_, what)| *what).collect();
    let switch = |domain, to| Input::Switch { domain: Some(domain), to };
    assert_eq!(switches, [switch(0, 0), switch(1, 1), switch(0, 2), switch(0, 0)]);
    round_trip(&w);
}

#[test]
fn the_command_line_s_policy_stays() {
    let text = "policy: rr\nchanges: [{at: 1s, policy: {quantum: 2ms}}, {at: 2s, policy: fp}, {at: 3s, policy: rr}, {at: 4s, policy: {quantum: 3ms}}]\n\
                tasks: [{name: a, period: 10ms, runtime: 1ms}]";
    let w = load_with(text, &Options { policy: Some(spec("edf")), ..Options::default() });
    // The settings mean nothing to `edf`, and it is not switched away from.
    assert_eq!((w.warnings.len(), w.scenario.changes.len(), w.system.alternatives.len()), (4, 0, 0));
}

#[test]
fn domains_of_the_same_cpus_are_bands() {
    let w = ok("
domains:
  - {name: low, cpus: 0-1, policy: g-edf}
  - {name: high, cpus: 0-1, band: 4000000000, policy: p-rm}
  - {name: beside, cpus: 2, policy: edf}
tasks:
  - {name: a, period: 10ms, runtime: 1ms, domain: high}
  - {name: b, period: 10ms, runtime: 1ms, domain: low, cpu: 1}
  - {name: c, period: 10ms, runtime: 1ms, cpu: 2}
changes: [{at: 5ms, domain: low, policy: g-fp}]
");
    let bands: Vec<_> = w.system.domains.iter().map(|domain| (domain.band, w.system.band(domain))).collect();
    assert_eq!(bands, [(0, Some(0)), (4_000_000_000, Some(4_000_000_000)), (0, None)]);
    assert!(w.system.domains[1].is_above(&w.system.domains[0]) && !w.system.domains[1].is_above(&w.system.domains[2]));
    let homes: Vec<_> = w.system.domains.iter().map(|domain| domain.tasks.clone()).collect();
    assert_eq!(homes, [[TaskId(1)], [TaskId(0)], [TaskId(2)]]);
    assert!(w.warnings.is_empty(), "{:?}", w.warnings);
    round_trip(&w);
}

#[test]
fn the_linux_priority_of_a_schedule() {
    let of = |keys: &str| {
        let w = ok(&format!("{keys}\npolicy: edf\ntasks: [{{period: 10ms, runtime: 1ms}}]"));
        round_trip(&w);
        (w.settings.priority, w.warnings.len())
    };
    assert_eq!(of(""), (10, 0));
    assert_eq!((of("priority: 1"), of("priority: 79")), ((1, 0), (79, 0)));
    assert_eq!(of("priority: 69\ndispatch: priority"), (69, 0));
    assert_eq!(of("priority: 20\nrealtime: no"), (20, 1));
    for (keys, code) in [
        ("priority: 0", Code::OutOfRange),
        ("priority: 80", Code::OutOfRange),
        ("priority: 70\ndispatch: priority", Code::OutOfRange),
        ("priority: high", Code::WrongType),
        ("priority: [1]", Code::WrongType),
    ] {
        let text = format!("{keys}\npolicy: edf\ntasks: [{{period: 10ms, runtime: 1ms}}]");
        assert_eq!(fault(&text, &Options::default()).code, code, "{keys}");
    }
}
