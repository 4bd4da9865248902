//! Systems that an engine refuses, and switches of policy that it allows.

use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::*;
use takt_core::model::{Need, PolicySpec};
use takt_core::policies::split::Routes;
use takt_core::policies::split::assign::Split;
use takt_core::policy::{Build, Registry};
use takt_core::record::Place;
use takt_core::registry::REGISTRY;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;

fn ms(ms: i64) -> Span {
    Span::from_ms(ms)
}

fn spec(name: &str) -> PolicySpec {
    PolicySpec::from_name(name).unwrap()
}

/// One window of 10 ms on CPU 0 of two, with one partition of one periodic task under `inner`.
fn table(inner: Option<&str>) -> System {
    let task = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ms(20) },
        deadline: Some(ms(20)),
        runtime: Some(ms(2)),
        budget: Some(ms(2)),
        affinity: CpuSet::first(2),
        ..Task::default()
    };
    let slice = Slice { cpus: CpuSet::single(0), sc: Some(PartitionId(0)), be: None };
    System {
        tasks: vec![task],
        partitions: vec![Partition { tasks: vec![TaskId(0)], policy: inner.map(spec) }],
        windows: vec![Window { length: ms(10), slices: vec![slice] }],
        ..System::new(CpuSet::first(2), spec("windows"))
    }
}

fn refusal(system: System) -> Option<Invalid> {
    Engine::new(system).err()
}

#[test]
fn a_setting_out_of_its_range_is_refused_and_later_on_changes_nothing() {
    let with = |name: &str, value: i64| {
        let mut policy = spec(name);
        policy.values.set(0, Some(value));
        System { policy, ..table(Some("edf")) }
    };
    assert_eq!(refusal(with("pd2", 0)), Some(Invalid::Setting("quantum")));
    assert_eq!(refusal(with("pd2", 1_000_000)), None);
    // A value for the setting of that number of another policy, and one for a policy that has none.
    for (system, value) in [(with("pd2", 1_000_000), 0), (System { policy: spec("g-edf"), ..table(Some("edf")) }, 5)] {
        let before = system.policy;
        let mut engine = Engine::new(system).unwrap();
        let _ = engine.step(Time::ZERO, &[Input::Configure { setting: 0, value: Some(value) }], &mut ());
        assert_eq!(engine.system().policy, before);
    }
}

#[test]
fn machine_wide_policies_are_refused_in_a_partition() {
    for name in ["windows", "domains"] {
        assert!(matches!(refusal(table(Some(name))), Some(Invalid::Unsuitable(_))), "{name}");
    }
}

#[test]
fn jobs_of_a_partition_have_one_source_of_releases() {
    assert_eq!(refusal(table(Some("edf"))), None);
    assert!(matches!(refusal(table(None)), Some(Invalid::Unsuitable(_))));
    let mut activated = table(Some("edf"));
    activated.tasks[0].arrival = Arrival::Activated;
    assert_eq!(refusal(activated), Some(Invalid::Needs(TaskId(0), "period")));
}

#[test]
fn policies_of_partitions_have_no_more_timers_than_there_are_numbers() {
    // Round robin has a timer for each CPU, and the table one of its own.
    let system = |partitions: u32, cpus: usize| {
        let one = table(Some("p-rr"));
        let all: Vec<u32> = (0..partitions).collect();
        let partition = |&p: &u32| Partition { tasks: vec![TaskId(p)], policy: Some(spec("p-rr")) };
        let window = |&p: &u32| {
            let slice = Slice { cpus: CpuSet::first(cpus), sc: Some(PartitionId(p)), be: None };
            Window { length: ms(1), slices: vec![slice] }
        };
        System {
            cpus: CpuSet::first(cpus),
            tasks: vec![one.tasks[0].clone(); all.len()],
            partitions: all.iter().map(partition).collect(),
            windows: all.iter().map(window).collect(),
            ..one
        }
    };
    let mut engine = Engine::new(system(63, 1024)).unwrap();
    let _ = engine.step(Time::ZERO, &[], &mut ());
    assert!(matches!(refusal(system(64, 1024)), Some(Invalid::Unsuitable(_))));
}

#[test]
fn a_table_names_no_more_sets_of_cpus_than_there_are_numbers() {
    // All subsets of 16 CPUs, among them those of one CPU, which the machine has anyway; the seventeenth CPU is one more.
    let system = |cpus: usize| {
        let window = |bits: u32| {
            let cpus: CpuSet = (0..16).filter(|cpu| bits >> cpu & 1 == 1).collect();
            Window { length: ms(1), slices: vec![Slice { cpus, sc: None, be: Some(PartitionId(0)) }] }
        };
        System { cpus: CpuSet::first(cpus), windows: (1..1 << 16).map(window).collect(), ..table(Some("g-edf")) }
    };
    let most = system(16);
    let places = most.places();
    assert_eq!(places.len(), 65535);
    assert!(places[..16].iter().enumerate().all(|(cpu, set)| *set == CpuSet::single(cpu)));
    // In the order of the slices: 3, 5, 6 and 7 are the first that are no powers of two.
    assert_eq!(places[16..20].iter().map(ToString::to_string).collect::<Vec<_>>(), ["0-1", "0,2", "1-2", "0-2"]);
    assert!(Engine::new(most).is_ok());
    assert!(matches!(refusal(system(17)), Some(Invalid::Unsuitable(_))));
}

#[test]
fn a_task_belongs_to_one_partition() {
    let mut system = table(Some("edf"));
    system.partitions.push(system.partitions[0].clone());
    assert!(matches!(refusal(system), Some(Invalid::Unsuitable(_))));
}

#[test]
fn a_partitioned_policy_needs_a_cpu_for_every_task() {
    let mut system = table(Some("p-edf"));
    assert_eq!(refusal(system.clone()), None);
    // CPU 1 is on the machine, but the partition is never lent it.
    system.tasks[0].affinity = CpuSet::single(1);
    assert_eq!(refusal(system), Some(Invalid::Affinity(TaskId(0))));
}

#[test]
fn a_partition_that_is_never_scheduled_is_no_reason_to_refuse() {
    for inner in ["edf", "g-edf", "p-edf"] {
        let mut system = table(Some(inner));
        system.windows[0].slices.clear();
        assert_eq!(refusal(system), None, "{inner}");
    }
}

#[test]
fn a_table_can_be_left_and_taken_up_again() {
    let mut engine = Engine::new(table(Some("edf"))).unwrap();
    let _ = engine.step(Time::ZERO, &[], &mut ());
    assert!(engine.switch_policy(spec("edf"), &mut ()).is_err(), "two CPUs are too many for plain edf");
    for name in ["g-edf", "windows", "p-rm", "windows"] {
        engine.switch_policy(spec(name), &mut ()).unwrap();
        let due = engine.next_due().unwrap();
        let _ = engine.step(due, &[], &mut ());
        assert_eq!(engine.system().policy, spec(name));
    }
    assert!(engine.totals().released > 0);
}

/// Two tasks with all that a policy may need.
fn provided(policy: PolicySpec) -> System {
    let task = Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: ms(20) },
        deadline: Some(ms(20)),
        runtime: Some(ms(2)),
        utility: Some(Utility::DEFAULT),
        reservation: Some(Reservation::new(ms(3), ms(20))),
        ..Task::default()
    };
    System { tasks: vec![task; 2], ..System::new(CpuSet::single(0), policy) }
}

#[test]
fn a_task_that_lacks_what_its_policy_needs_is_refused() {
    let hosts = ["windows", "domains"];
    for entry in REGISTRY.iter().filter(|entry| !hosts.contains(&entry.profile.name)) {
        for &scope in entry.profile.scopes {
            let policy = PolicySpec::new(&entry.profile, scope);
            assert_eq!(refusal(provided(policy)), None, "{entry:?} {scope:?}");
            for need in entry.profile.needs {
                let mut system = provided(policy);
                let task = &mut system.tasks[1];
                let key = match need {
                    Need::Period => {
                        task.arrival = Arrival::Listed { instants: vec![ms(0)] };
                        "period"
                    }
                    Need::Deadline => {
                        task.deadline = None;
                        "deadline"
                    }
                    Need::Runtime => {
                        task.runtime = None;
                        "runtime"
                    }
                    Need::Utility => {
                        task.utility = None;
                        "utility"
                    }
                    Need::Reservation => {
                        (task.runtime, task.reservation) = (None, None);
                        "reservation"
                    }
                };
                let lacks = Some(Invalid::Needs(TaskId(1), key));
                assert_eq!(refusal(system.clone()), lacks, "{entry:?} {scope:?}");
                // A part of the machine and a policy that is switched to are built in the same way.
                let domain = Domain { band: 0, cpus: system.cpus, tasks: vec![TaskId(0), TaskId(1)], policy };
                let part = System { policy: spec("domains"), domains: vec![domain], ..system.clone() };
                assert_eq!(refusal(part), lacks, "{entry:?} {scope:?} in a domain");
                let mut engine = Engine::new(System { policy: spec("fifo"), ..system }).unwrap();
                assert_eq!(engine.switch_policy(policy, &mut ()).err(), lacks, "a switch to {entry:?} {scope:?}");
            }
        }
    }
}

#[test]
fn a_deadline_of_a_reservation_is_between_its_budget_and_its_period_and_not_for_every_policy() {
    let reserved = |budget, deadline, period| {
        let mut system = provided(spec("cbs"));
        let whole = Reservation::new(ms(budget), ms(period));
        system.tasks[1].reservation = Some(Reservation { deadline: Some(ms(deadline)), ..whole });
        system
    };
    for (deadline, refused) in [(2, true), (3, false), (9, false), (20, false), (21, true)] {
        let unsound = refused.then_some(Invalid::Reservation(TaskId(1)));
        assert_eq!(refusal(reserved(3, deadline, 20)), unsound, "{deadline}");
    }
    for entry in REGISTRY.iter().filter(|entry| !["windows", "domains"].contains(&entry.profile.name)) {
        let reserves = entry.profile.name.ends_with("-server") || entry.profile.needs.contains(&Need::Reservation);
        let unknown = (reserves && entry.profile.name != "cbs").then_some(Invalid::Constrained(TaskId(1)));
        for &scope in entry.profile.scopes {
            let policy = PolicySpec::new(&entry.profile, scope);
            assert_eq!(refusal(System { policy, ..reserved(3, 10, 20) }), unknown, "{entry:?} {scope:?}");
        }
    }
    // A server that tasks share has none, whatever the policy.
    let reservation = Reservation { deadline: Some(ms(5)), ..Reservation::new(ms(2), ms(10)) };
    let shared = System { servers: vec![Server { reservation, priority: 1 }], ..provided(spec("edf")) };
    assert_eq!(refusal(shared), Some(Invalid::Budget(0)));
}

#[test]
fn tasks_behind_one_server_have_it_and_a_cpu_and_their_policy_in_common() {
    let reservation = Reservation::new(ms(2), ms(10));
    let behind = |cpu: usize| Task {
        arrival: Arrival::Listed { instants: vec![] },
        server: Some(ServerId(0)),
        affinity: CpuSet::single(cpu),
        ..Task::default()
    };
    let servers = |reservation| vec![Server { reservation, priority: 0 }];
    let with = |policy: &str, tasks: Vec<Task>| System {
        tasks,
        servers: servers(reservation),
        ..System::new(CpuSet::first(2), spec(policy))
    };
    for entry in REGISTRY.iter().filter(|entry| entry.profile.name.ends_with("-server")) {
        let policy = &format!("p-{}", entry.profile.name);
        let both = with(policy, vec![behind(1), behind(1)]);
        assert_eq!(refusal(both.clone()), None);
        assert_eq!(refusal(with(policy, vec![behind(0), behind(1)])), Some(Invalid::Apart(TaskId(1), "CPU")));
        let domain = |cpu, task| Domain {
            band: 0,
            cpus: CpuSet::single(cpu),
            tasks: vec![TaskId(task)],
            policy: spec(entry.profile.name),
        };
        let domains = vec![domain(0, 0), domain(1, 1)];
        let apart = System { domains, ..with("domains", vec![behind(0), behind(1)]) };
        assert_eq!(refusal(apart), Some(Invalid::Apart(TaskId(1), "domain or partition")));
    }
    // Whatever the policy, what is described must be sound.
    let sound = with("p-fp", vec![behind(0), behind(1)]);
    assert_eq!(refusal(sound.clone()), None);
    let unknown = Task { server: Some(ServerId(1)), ..behind(0) };
    assert_eq!(refusal(with("p-fp", vec![behind(0), unknown])), Some(Invalid::Server(TaskId(1))));
    let own = Task { reservation: Some(reservation), ..behind(0) };
    assert_eq!(refusal(with("p-fp", vec![own])), Some(Invalid::Server(TaskId(0))));
    for (budget, period) in [(ms(11), ms(10)), (Span::ZERO, ms(10))] {
        let unsound = System { servers: servers(Reservation::new(budget, period)), ..sound.clone() };
        assert_eq!(refusal(unsound), Some(Invalid::Budget(0)));
    }
    // Reservations are the tasks' own.
    for policy in ["p-cbs", "p-grub", "p-fcbs", "edf-wmr"] {
        let task =
            Task { arrival: Arrival::Periodic { offset: ms(0), period: ms(10) }, runtime: Some(ms(1)), ..behind(0) };
        assert_eq!(refusal(with(policy, vec![task])), Some(Invalid::Needs(TaskId(0), "reservation")), "{policy}");
    }
}

/// A request for an assignment alone names the key and the missing value of a task.
#[test]
fn an_assignment_names_the_key_that_a_task_lacks() {
    let whole = provided(spec("edf-wm"));
    let lacking = |lose: &dyn Fn(&mut Task), servers: bool| {
        let mut system = whole.clone();
        lose(&mut system.tasks[1]);
        let (tasks, places) = ([TaskId(0), TaskId(1)], [Place(0)]);
        let build = Build {
            system: &system,
            tasks: &tasks,
            places: &places,
            spec: system.policy,
            first_timer: 0,
            registry: &Registry::default(),
        };
        let routes = if servers { Routes::of_servers(&build) } else { Routes::new(&build, Split::Windows) };
        routes.err().map(|why| why.to_string())
    };
    let told = |key: &str| Some(format!("task 1: the policy needs its {key}"));
    assert_eq!(lacking(&|_| {}, false), None);
    assert_eq!(lacking(&|t| t.runtime = None, false), told("runtime"));
    assert_eq!(lacking(&|t| t.deadline = None, false), told("deadline"));
    assert_eq!(lacking(&|t| t.arrival = Arrival::Listed { instants: Vec::new() }, false), told("period"));
    let unserved = |t: &mut Task| (t.runtime, t.reservation) = (None, None);
    assert_eq!(lacking(&unserved, true), told("reservation"));
}
