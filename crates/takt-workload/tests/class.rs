//! Tasks of the kernel's classes, against the system that they mean.

#[allow(dead_code, reason = "it serves several programs")]
mod common;

use common::{ok, source};
use takt_core::cpus::CpuSet;
use takt_core::input::Input;
use takt_core::model::{Arrival, TaskId};
use takt_workload::{Class, Driver, Options, Severity, Source, Workload, canonical, load};

const BESIDE: &str = "
policy: p-edf
cpus: 0-1
tasks:
  - {name: a, class: deadline, period: 20ms, runtime: 2ms}
  - {name: b, period: 10ms, runtime: 1ms}
  - {name: c, class: fifo=30, cpu: 1, event: {after: a}, deadline: 5ms}
  - {name: d, event: {after: c, distance: 10ms}, deadline: 5ms, runtime: 1ms}
  - {name: e, class: fifo, period: 10ms}
  - {name: f, class: other, period: 10ms}
changes:
  - {at: 1s, task: c, share: 50%}
  - {at: 2s, policy: p-rm}
  - {at: 3s, task: d, leave: yes}
";

fn handed(text: &str) -> Workload {
    let mut workload = ok(text);
    workload.hand_over();
    workload
}

#[test]
fn each_task_of_a_class_has_an_imaginary_cpu_and_the_others_have_the_policy() {
    let w = handed(BESIDE);
    let classes: Vec<Option<Class>> = w.tasks.iter().map(|task| task.class).collect();
    use Class::{Deadline, Fifo, Other};
    assert_eq!(classes, [Some(Deadline), None, Some(Fifo(30)), None, Some(Fifo(10)), Some(Other)]);
    let own = CpuSet::first(2);
    assert_eq!((w.machine(), w.policy().profile.name, w.system.policy.profile.name), (own, "edf", "domains"));
    let domains: Vec<(String, Vec<u32>)> =
        w.system.domains.iter().map(|d| (d.cpus.to_string(), d.tasks.iter().map(|t| t.0).collect())).collect();
    let expected = [("0-1", vec![1, 3]), ("1023", vec![0]), ("1022", vec![2]), ("1021", vec![4]), ("1020", vec![5])];
    assert_eq!(domains, expected.map(|(cpus, tasks)| (cpus.to_owned(), tasks)));
    let handed = w.handed.as_ref().unwrap();
    let only = Some(CpuSet::single(1));
    assert_eq!(handed.affinities, [Some(own), None, only, None, Some(own), Some(own)]);
    assert_eq!((handed.own_domains, handed.one_policy, w.own_domains().count()), (1, true, 0));
    // A budget that no job uses up makes the engine measure consumption.
    assert!(w.system.tasks[0].budget.is_some() && w.system.tasks[1].budget.is_none());
    assert!(matches!(w.scenario.changes[1].1, Input::Switch { domain: Some(0), .. }), "{:?}", w.scenario.changes);
    assert_eq!(w.system.validate(), Ok(()));
}

#[test]
fn handing_over_twice_or_without_classes_changes_nothing() {
    let once = handed(BESIDE);
    let mut twice = once.clone();
    twice.hand_over();
    assert_eq!(twice, once);
    let none = ok("policy: edf\ntasks: [{name: a, period: 10ms, runtime: 1ms}]\n");
    let mut same = none.clone();
    same.hand_over();
    assert_eq!(same, none);
    assert_eq!(none.without_classes(), none);
}

#[test]
fn domains_of_the_file_stay_as_they_are() {
    let w = handed(
        "domains:\n- {name: left, cpus: 0, policy: edf}\n- {name: right, cpus: 1, policy: rr}\n\
         tasks:\n- {name: a, class: other, period: 10ms}\n- {name: b, domain: left, period: 10ms, runtime: 1ms}\n\
         - {name: c, cpu: 1, period: 10ms, runtime: 1ms}\n",
    );
    let own: Vec<(&str, usize)> = w.own_domains().map(|(domain, name)| (name.as_str(), domain.tasks.len())).collect();
    assert_eq!(own, [("left", 1), ("right", 1)]);
    assert_eq!((w.machine(), w.system.domains.len()), (CpuSet::first(2), 3));
    assert_eq!(w.system.validate(), Ok(()));
}

#[test]
fn the_own_part_keeps_what_takt_schedules() {
    let w = ok(BESIDE).without_classes();
    let names: Vec<&str> = w.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!((names, w.system.tasks.len(), w.places.len()), (vec!["b", "d"], 2, 2));
    // The task that releases it is outside of this part.
    assert!(matches!(w.system.tasks[1].arrival, Arrival::Event { after: None, .. }));
    let [(_, Input::Switch { domain: None, .. }), (_, Input::Leave { task: TaskId(1) })] = w.scenario.changes[..]
    else {
        panic!("{:?}", w.scenario.changes)
    };
}

#[test]
fn the_canonical_form_means_the_same() {
    for text in
        [BESIDE, "domains: [{name: left, cpus: 0, policy: edf}]\ntasks: [{name: a, class: fifo, period: 10ms}]\n"]
    {
        let w = ok(text);
        let again = canonical(&w);
        let again = load(Source { text: again.clone(), ..source("") }, &Options::default())
            .unwrap_or_else(|faults| panic!("{faults:?}\n{again}"));
        assert_eq!((&again.system, &again.tasks, &again.scenario), (&w.system, &w.tasks, &w.scenario));
    }
}

#[test]
fn a_simulation_refuses_a_class_unless_it_replays() {
    let errors = |w: &Workload, driver| w.ignored_by(driver).iter().filter(|d| d.severity == Severity::Error).count();
    let (read, handed) = (ok(BESIDE), handed(BESIDE));
    assert_eq!([&read, &handed].map(|w| errors(w, Driver::Simulation)), [1, 0]);
}

/// The policy does not have to take the tasks that it does not schedule.
#[test]
fn a_policy_asks_nothing_of_tasks_of_a_class() {
    ok("policy: cbs\ntasks:\n- {name: a, class: other, releases: [0ms]}\n- {name: b, period: 10ms, runtime: 1ms}\n");
    ok("policy: rm\ncpus: 0\ntasks:\n- {name: a, class: other, releases: [0ms]}\n- {name: b, period: 10ms}\n");
}
