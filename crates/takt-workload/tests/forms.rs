//! Every form of DEmOS's configuration, and Takt's own keys, against the system that they mean.

mod common;

use common::{load_with, ms, ok, source};
use takt_core::cpus::CpuSet;
use takt_core::model::{
    Arrival, Backlog, BestEffortStart, Completion, Late, OnAbort, OnExit, PartitionId, PolicySpec, Scope, Slice, System,
};
use takt_core::time::Span;
use takt_workload::{
    Code, Dispatch, OnCrash, Options, Realtime, Source, Spawn, Workload, canonical, load, load_sets, policy_from_text,
};

/// The code of the only fault.
#[track_caller]
fn fault(text: &str, options: &Options) -> Code {
    common::fault(text, options).code
}

/// Loads a short form and the canonical form that it stands for; both must mean the same.
#[track_caller]
fn same(short: &str, long: &str) {
    let (short, long) = (ok(short), ok(long));
    assert_eq!(short.system, long.system);
    assert_eq!(short.tasks, long.tasks);
    assert_eq!(short.partitions, long.partitions);
    assert_eq!(short.slice_frequencies_mhz, long.slice_frequencies_mhz);
}

#[test]
fn preferences_of_cpus_are_read_and_written() {
    let with = |epp: &str| {
        format!(
            "epp: {epp}\nwindows: [{{length: 10ms, slices: [{{cpu: 0-3, sc_partition: A}}]}}]\n\
             partitions: [{{name: A, processes: [{{cmd: x, budget: 1ms}}]}}]\n"
        )
    };
    let all = ok(&with("balance_power"));
    assert_eq!(all.settings.epp, [(cpus(&[0, 1, 2, 3]), "balance_power")]);
    let some = ok(&with("{\"0,2\": power, 3: default}"));
    assert_eq!(some.settings.epp, [(cpus(&[0, 2]), "power"), (cpus(&[3]), "default")]);
    for workload in [all, some] {
        let text = canonical(&workload);
        assert_eq!(ok(&text).settings.epp, workload.settings.epp, "{text}");
    }
}

fn budgets(system: &System) -> Vec<Option<Span>> {
    system.tasks.iter().map(|t| t.budget).collect()
}

fn names(workload: &Workload) -> Vec<&str> {
    workload.tasks.iter().map(|t| t.name.as_str()).collect()
}

fn cpus(list: &[usize]) -> CpuSet {
    list.iter().copied().collect()
}

/// The example of the DEmOS thesis, appendix 2, in its own layout.
const CANONICAL: &str = "
set_cwd: yes
partitions:
  - name: SC1
    processes:
      - cmd: ./safety_critical_application
        budget: 300
        init: yes
  - name: BE1
    processes:
      - cmd: ./best_effort_application1
        budget: 200
  - name: BE2
    processes:
      - cmd: ./best_effort_application2
        budget: 200
      - cmd: ./best_effort_application3
        budget: 200
windows:
  - length: 500
    slices:
      - cpu: 1
        sc_partition: SC1
        be_partition: BE1
      - cpu: 2,5-7
        be_partition: BE2
";

#[test]
fn the_canonical_form_loads() {
    let w = ok(CANONICAL);
    assert_eq!(names(&w), ["SC1-1", "BE1-1", "BE2-1", "BE2-2"]);
    assert_eq!(w.partitions, ["SC1", "BE1", "BE2"]);
    assert_eq!(w.system.cpus, cpus(&[1, 2, 5, 6, 7]));
    assert_eq!(budgets(&w.system), [Some(ms(300)), Some(ms(200)), Some(ms(200)), Some(ms(200))]);
    assert_eq!(w.tasks.iter().map(|t| t.init).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(w.tasks[3].cmd.as_deref(), Some("./best_effort_application3"));
    assert_eq!(w.tasks[3].partition, Some(2));
    assert_eq!(w.system.tasks[0].affinity, cpus(&[1]));
    assert_eq!(w.system.tasks[2].affinity, cpus(&[2, 5, 6, 7]));
    assert_eq!(w.system.windows.len(), 1);
    assert_eq!(
        w.system.windows[0].slices,
        [
            Slice { cpus: cpus(&[1]), sc: Some(PartitionId(0)), be: Some(PartitionId(1)) },
            Slice { cpus: cpus(&[2, 5, 6, 7]), sc: None, be: Some(PartitionId(2)) },
        ]
    );
    assert_eq!(w.system.policy.scope, Scope::Table);
    assert!(w.system.tasks.iter().all(|t| t.arrival == Arrival::Activated && t.deadline.is_none()));
    assert_eq!(w.settings.directory.as_deref(), Some(std::path::Path::new("dir")));
    assert!(w.warnings.is_empty() && !w.settings.cpus_from_all);
}

#[test]
fn a_window_without_slices_is_one_slice_on_all_cpus() {
    same(
        "{partitions: [{name: SC, processes: [{cmd: echo, budget: 100}]}], windows: [{length: 500, sc_partition: SC}]}",
        "
partitions: [{name: SC, processes: [{cmd: echo, budget: 100}]}]
windows: [{length: 500, slices: [{cpu: all, sc_partition: SC}]}]",
    );
    let w = ok("windows: [{length: 500, sc_partition: [{cmd: a, budget: 1}]}]");
    assert!(w.settings.cpus_from_all);
    assert_eq!(w.system.cpus, CpuSet::single(0));
}

#[test]
fn a_window_of_a_length_only_is_idle() {
    let w = ok("windows: [{length: 500}, {length: 10, slices: []}, {length: 10, slices: }]");
    assert!(w.system.windows.iter().all(|w| w.slices.is_empty()));
    assert_eq!(w.system.major_frame(), ms(520));
    let w = ok("windows: [{length: 500, cpu: 3}]");
    assert_eq!(w.system.windows[0].slices, [Slice { cpus: cpus(&[3]), sc: None, be: None }]);
}

#[test]
fn a_partition_may_be_defined_in_a_window() {
    same(
        "windows: [ {length: 500, sc_partition: [{cmd: proc1, budget: 500}] } ]",
        "
partitions: [{name: anonymous_0, processes: [{cmd: proc1, budget: 500}]}]
windows: [{length: 500, slices: [{cpu: all, sc_partition: anonymous_0}]}]",
    );
    same(
        "
windows:
  - {length: 100, cpu: 0, be_partition: {name: video, processes: [{cmd: a, budget: 5}]}}
  - {length: 200, cpu: 1, sc_partition: video}",
        "
partitions: [{name: video, processes: [{cmd: a, budget: 5}]}]
windows:
  - {length: 100, slices: [{cpu: 0, be_partition: video}]}
  - {length: 200, slices: [{cpu: 1, sc_partition: video}]}",
    );
}

#[test]
fn anonymous_partitions_are_numbered_as_demos_does() {
    // Those under `partitions` come first; in a slice the order of its keys counts, in a window's own keys
    // the safety-critical side comes first.
    let w = ok("
partitions:
  - processes: [{cmd: a, budget: 1}]
windows:
  - {length: 100, be_processes: [b], cpu: 0, sc_processes: [c]}
  - length: 100
    slices:
      - {be_partition: [d], cpu: 0, sc_partition: [e]}
      - {cpu: 1, sc_partition: {name: named, processes: [f]}, be_partition: {cmd: g}}");
    assert_eq!(
        w.partitions,
        ["anonymous_0", "anonymous_1", "anonymous_2", "anonymous_3", "anonymous_4", "named", "anonymous_5"]
    );
    let commands: Vec<_> = w.tasks.iter().map(|t| t.cmd.as_deref().unwrap()).collect();
    assert_eq!(commands, ["a", "c", "b", "d", "e", "f", "g"]);
}

#[test]
fn default_budgets_are_exact() {
    let w = ok("windows: [{length: 500, sc_processes: [proc1, proc2], be_processes: proc3}]");
    assert_eq!(budgets(&w.system), [Some(ms(150)), Some(ms(150)), Some(ms(500))]);
    // DEmOS counts whole milliseconds and rejects both of these.
    let w = ok("windows: [{length: 1, sc_processes: [a], be_processes: [b]}]");
    assert_eq!(budgets(&w.system), [Some(Span::from_us(600)), Some(ms(1))]);
    let w = ok("windows: [{length: 10, be_processes: [a, b, c, d, e, f, g]}]");
    assert_eq!(budgets(&w.system)[6], Some(Span::from_ns(1_428_571)));
    // One budget given: the default of the other stays its share of all.
    let w = ok("windows: [{length: 100, sc_partition: [{cmd: a, budget: 5}, {cmd: b}]}]");
    assert_eq!(budgets(&w.system), [Some(ms(5)), Some(ms(30))]);
}

#[test]
fn a_named_partition_takes_its_default_from_the_shortest_window() {
    let w = ok("
partitions: [{name: A, processes: [a]}]
windows: [{length: 100, sc_partition: A}, {length: 40, be_partition: A}]");
    assert_eq!(budgets(&w.system), [Some(ms(40))]);
    assert_eq!(w.warnings.len(), 1);
    let w = ok("
partitions: [{name: A, processes: [a]}]
windows: [{length: 100, sc_partition: A}, {length: 60, be_partition: A}]");
    assert!(w.warnings.is_empty(), "both suggest 60 ms");
}

#[test]
fn processes_have_all_their_short_forms() {
    let long = "
partitions: [{name: SC, processes: [{cmd: ./a, budget: 60}]}]
windows: [{length: 100, slices: [{cpu: 0, sc_partition: SC}]}]";
    for partition in [
        "{name: SC, processes: [./a]}",
        "{name: SC, processes: ./a}",
        "{name: SC, processes: {cmd: ./a}}",
        "{name: SC, processes: {cmd: ./a, budget: 60, jitter: 0, init: no}}",
        "{name: SC, cmd: ./a}",
        "{name: SC, cmd: ./a, budget: 60}",
    ] {
        same(&format!("partitions: [{partition}]\nwindows: [{{length: 100, cpu: 0, sc_partition: SC}}]"), long);
        same(&format!("windows: [{{length: 100, cpu: 0, sc_partition: {partition}}}]"), long);
    }
    let anonymous = "
partitions: [{name: anonymous_0, processes: [{cmd: ./a, budget: 60}]}]
windows: [{length: 100, slices: [{cpu: 0, sc_partition: anonymous_0}]}]";
    for window in [
        "sc_partition: [./a]",
        "sc_partition: {cmd: ./a}",
        "sc_processes: ./a",
        "sc_processes: [./a]",
        "sc_processes: {cmd: ./a}",
        "sc_processes: [{cmd: ./a, budget: 60}]",
    ] {
        same(&format!("windows: [{{length: 100, cpu: 0, {window}}}]"), anonymous);
        same(&format!("windows: [{{length: 100, slices: [{{cpu: 0, {window}}}]}}]"), anonymous);
    }
}

#[test]
fn jitter_may_be_twice_the_budget() {
    let w =
        ok("windows: [{length: 100, cpu: 0, be_processes: [{cmd: a, budget: 10, jitter: 20}, {cmd: b, jitter: 7}]}]");
    assert_eq!(w.system.tasks[0].jitter, ms(20));
    assert_eq!(w.system.tasks[1].jitter, ms(7));
}

#[test]
fn frequencies_are_kept_in_every_form() {
    let w = ok("
partitions:
  - {name: A, cmd: ./a, budget: 10, frequency: 1200}
  - {name: B, processes: [{cmd: ./b, budget: 10, frequency: 1.2e3}]}
windows:
  - {length: 100, cpu: 0, frequency: 600.5, sc_partition: A}
  - length: 100
    slices:
      - {cpu: 0, frequency: 896}
      - {cpu: 1, sc_partition: B}
  - {length: 50}");
    assert_eq!(w.tasks.iter().map(|t| t.frequency_mhz).collect::<Vec<_>>(), [Some(1200.0), Some(1200.0)]);
    assert_eq!(w.slice_frequencies_mhz, [vec![Some(600.5)], vec![Some(896.0), None], vec![]]);
}

#[test]
fn booleans_are_those_of_yaml_1_1() {
    for (word, truth) in
        [("yes", true), ("Yes", true), ("on", true), ("TRUE", true), ("y", true), ("no", false), ("Off", false)]
    {
        let w =
            ok(&format!("set_cwd: {word}\nwindows: [{{length: 100, cpu: 0, sc_processes: {{cmd: a, init: {word}}}}}]"));
        assert_eq!((w.settings.directory.is_some(), w.tasks[0].init), (truth, truth), "{word}");
    }
}

#[test]
fn words_that_yaml_would_type_stay_text() {
    let w = ok("windows: [{length: 100, cpu: 1, sc_processes: [true, 12, 'no']}]");
    let commands: Vec<_> = w.tasks.iter().map(|t| t.cmd.as_deref().unwrap()).collect();
    assert_eq!(commands, ["true", "12", "no"]);
    let w = ok("partitions: [{name: 1, processes: [a]}]\nwindows: [{length: 100, cpu: 0, sc_partition: 1}]");
    assert_eq!(names(&w), ["1-1"]);
}

#[test]
fn anchors_and_aliases_work() {
    let w = ok("
partitions:
  - {name: A, processes: &load [{cmd: ./a, budget: 10}]}
  - {name: B, processes: *load}
windows:
  - {length: 100, cpu: 0, sc_partition: A, be_partition: B}");
    assert_eq!(names(&w), ["A-1", "B-1"]);
    assert_eq!(w.system.tasks[0], w.system.tasks[1]);
}

#[test]
fn a_partition_runs_where_its_slices_are() {
    let w = ok("
partitions: [{name: A, processes: [{cmd: a, budget: 10}]}]
windows:
  - {length: 100, cpu: 0-4, sc_partition: A}
  - {length: 100, cpu: 6, sc_partition: A}
  - {length: 100, cpu: 7}");
    assert_eq!(w.system.tasks[0].affinity, cpus(&[0, 1, 2, 3, 4, 6]));
    assert_eq!(w.system.cpus, cpus(&[0, 1, 2, 3, 4, 6, 7]));
}

#[test]
fn times_may_have_units_in_demos_keys() {
    let w = ok(
        "windows: [{length: 2ms, cpu: 0, sc_partition: [{cmd: a, budget: 250us, jitter: 1.5us}, {cmd: b, budget: 0.5}]}]",
    );
    assert_eq!(w.system.windows[0].length, ms(2));
    assert_eq!(budgets(&w.system), [Some(Span::from_us(250)), Some(Span::from_us(500))]);
    assert_eq!(w.system.tasks[0].jitter, Span::from_ns(1_500));
}

#[test]
fn the_machine_is_the_option_the_key_or_what_is_named() {
    let table = "windows: [{length: 100, cpu: 1, sc_processes: [a]}, {length: 100, sc_processes: [b]}]";
    let machine = |text: &str, cpus, machine| {
        let w = load_with(text, &Options { cpus, machine, ..Options::default() });
        (w.system.cpus, w.settings.cpus_from_all)
    };
    assert_eq!(machine(table, None, None), (cpus(&[1]), false));
    assert_eq!(machine(table, Some(3), None), (cpus(&[0, 1, 2]), false));
    assert_eq!(machine(table, None, Some(cpus(&[0, 1]))), (cpus(&[0, 1]), false));
    let with_key = format!("cpus: 1-2\n{table}");
    assert_eq!(machine(&with_key, None, Some(cpus(&[0, 1]))), (cpus(&[1, 2]), false));
    assert_eq!(machine(&with_key, Some(4), None), (cpus(&[0, 1, 2, 3]), false));
    let all = "windows: [{length: 100, sc_processes: [a]}]";
    assert_eq!(machine(all, None, None), (cpus(&[0]), true));
    assert_eq!(machine(all, None, Some(cpus(&[0, 1]))), (cpus(&[0, 1]), true));
    assert_eq!(machine(all, Some(2), None), (cpus(&[0, 1]), false));
    let tasks = "policy: edf\ntasks: [{name: a, period: 10ms}]";
    assert_eq!(machine(tasks, None, Some(cpus(&[2, 3]))), (cpus(&[2]), true), "one CPU is enough for `edf`");
    let tasks = "policy: g-edf\ntasks: [{name: a, period: 10ms}]";
    assert_eq!(machine(tasks, None, Some(cpus(&[2, 3]))), (cpus(&[2, 3]), true));
    let options = Options { cpus: Some(1), ..Options::default() };
    assert_eq!(fault(table, &options), Code::CpuOutside);
    for cpus in [0, 1025] {
        let options = Options { cpus: Some(cpus), ..Options::default() };
        assert_eq!(fault(all, &options), Code::OutOfRange);
    }
}

#[test]
fn online_tasks_load() {
    let w = ok("
policy: p-edf
placement: wf
cpus: 0-3
seed: 42
duration: 1min
late: abort
backlog: skip
init_timeout: 500ms
realtime: yes
dispatch: priority
on_crash: release
scheduler_cpu: 3
set_cwd: no
tasks:
  - name: camera
    cmd: ./camera
    period: 10ms
    deadline: 8ms
    runtime: 3ms
    offset: 1ms
    budget: 4
    priority: 7
    cpu: 0-1
    init: yes
    output: camera.log
  - {period: 20ms, runtime: 1ms, spawn: per-job}");
    let spec = PolicySpec {
        placement: takt_core::model::Placement::from_name("wf").unwrap(),
        ..policy_from_text("p-edf").unwrap()
    };
    assert_eq!(w.system.policy, spec);
    assert_eq!((w.system.late, w.system.backlog, w.system.seed), (Late::Abort, Backlog::Skip, 42));
    let camera = &w.system.tasks[0];
    assert_eq!(camera.arrival, Arrival::Periodic { offset: ms(1), period: ms(10) });
    assert_eq!((camera.deadline, camera.runtime, camera.budget), (Some(ms(8)), Some(ms(3)), Some(ms(4))));
    assert_eq!((camera.priority, camera.affinity), (7, cpus(&[0, 1])));
    assert_eq!((w.tasks[0].init, w.tasks[1].spawn), (true, Spawn::PerJob));
    let file = takt_workload::Output::File { path: "camera.log".into(), truncate: false };
    assert_eq!(w.tasks[0].output.as_deref(), Some(&file));
    assert_eq!(w.system.tasks[1].deadline, Some(ms(20)), "the period");
    assert_eq!(w.system.tasks[1].affinity, CpuSet::first(4));
    assert_eq!(names(&w), ["camera", "T2"]);
    let s = &w.settings;
    assert_eq!(s.dispatch, Dispatch::Priority);
    assert_eq!((s.realtime, s.on_crash, s.init_timeout), (Realtime::Yes, OnCrash::Release, ms(500)));
    assert_eq!((s.duration, s.scheduler_cpus), (Some(Span::from_secs(60)), Some(CpuSet::single(3))));
    assert_eq!(s.directory, None);
}

#[test]
fn the_command_line_wins_over_the_file() {
    let text = "policy: rm\nseed: 1\nplacement: bf\ntasks: [{name: a, period: 10ms, runtime: 1ms}]";
    let policy = policy_from_text("p-edf").unwrap();
    let w = load_with(text, &Options { policy: Some(policy), seed: Some(2), ..Options::default() });
    assert_eq!((w.system.policy.profile.name, w.system.seed), ("edf", 2));
    assert_eq!(Some(w.system.policy.placement), takt_core::model::Placement::from_name("bf"));
    let windows = "windows: [{length: 100, cpu: 0, sc_processes: [a]}]";
    let options = |name: &str| Options { policy: Some(policy_from_text(name).unwrap()), ..Options::default() };
    assert_eq!(fault(windows, &options("edf")), Code::UnsuitablePolicy);
    assert_eq!(load_with(windows, &options("windows")).system.policy.scope, Scope::Table);
    assert_eq!(fault(text, &options("windows")), Code::MissingKey);
}

#[test]
fn a_partition_may_have_a_policy_of_its_own() {
    let w = ok("
be_start: slice
partitions:
  - name: flight
    policy: edf
    processes:
      - {cmd: ./a, period: 10ms, runtime: 2ms}
      - {name: slow, cmd: ./b, period: 40ms, deadline: 30ms, offset: 5ms, priority: 3, spawn: per-job, budget: 5}
  - name: logs
    policy: fifo
    processes: [{runtime: 3ms, budget: 10, output: logs.txt}]
windows:
  - {length: 100, cpu: 0, sc_partition: flight, be_partition: logs}");
    assert_eq!(w.system.be_start, BestEffortStart::SliceDone);
    assert_eq!(w.system.partitions[0].policy, PolicySpec::from_name("edf"));
    assert_eq!(w.system.partitions[1].policy, None);
    assert_eq!(names(&w), ["flight-1", "slow", "logs-1"]);
    let [a, b, c] = &w.system.tasks[..] else { panic!("three tasks") };
    assert_eq!(a.arrival, Arrival::Periodic { offset: Span::ZERO, period: ms(10) });
    assert_eq!((a.deadline, a.budget), (Some(ms(10)), None));
    assert_eq!((b.deadline, b.budget, b.priority), (Some(ms(30)), Some(ms(5)), 3));
    assert_eq!((c.arrival.clone(), c.runtime, c.budget), (Arrival::Activated, Some(ms(3)), Some(ms(10))));
    assert_eq!((w.tasks[1].spawn, w.tasks[2].cmd.as_deref()), (Spawn::PerJob, None));
}

#[test]
fn task_sets_load_from_csv() {
    let csv = |text: &str| Source { name: "sets/a.CSV".to_owned(), text: text.to_owned() };
    let options = Options { policy: policy_from_text("g-edf").ok(), cpus: Some(2), ..Options::default() };
    let text = "\u{feff}set_id,U,task_id, C_us,D_us,T_us\r\n7,0.1,0,1000,5000,6000\r\n\r\n7,0.2,b,1.5,7,8\r\n";
    let w = load(csv(text), &options).unwrap();
    assert_eq!(names(&w), ["T0", "Tb"]);
    assert_eq!(w.system.tasks[0].arrival, Arrival::Periodic { offset: Span::ZERO, period: ms(6) });
    assert_eq!((w.system.tasks[0].runtime, w.system.tasks[0].deadline), (Some(ms(1)), Some(ms(5))));
    assert_eq!(w.system.tasks[1].runtime, Some(Span::from_ns(1_500)));
    assert_eq!(w.system.cpus, CpuSet::first(2));
    assert_eq!(w.system.tasks[0].affinity, CpuSet::first(2));
    let many = "set_id,task_id,C_us,D_us,T_us\n9,0,1,2,3\n4,0,2,2,3\n9,1,1,2,3\n";
    let sets = load_sets(&csv(many)).unwrap();
    assert_eq!(sets.iter().map(|set| (set.id, set.tasks.len())).collect::<Vec<_>>(), [(9, 2), (4, 1)]);
    assert_eq!(sets[0].names, ["T0", "T1"]);
    // A set among several that cannot meet its deadlines is one to be judged.
    let sets = load_sets(&csv(&many.replace("4,0,2,2,3", "4,0,9,2,3"))).unwrap();
    assert_eq!((sets[1].id, sets[1].tasks[0].runtime), (4, Some(Span::from_us(9))));
    let one = "set_id,task_id,C_us,D_us,T_us\n4,1,1,2,3\n4,0,9,2,3\n";
    let faults = load_sets(&csv(one)).unwrap_err();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].code, Code::ImpossibleDeadline);
    assert_eq!(one[..faults[0].span.start].lines().count(), 3, "its row");
    let faults = load(csv(text), &Options::default()).unwrap_err();
    assert_eq!(faults[0].code, Code::MissingPolicy);
}

/// RFC 4180: quoted cells, doubled quotes, commas and line breaks inside; spaces around cells as everywhere in such a file.
#[test]
fn quoted_cells_of_task_sets_are_read() {
    let csv = |text: &str| Source { name: "a.csv".to_owned(), text: text.to_owned() };
    let text = "\"set_id\",task_id,\"a note, \"\"quoted\"\"\",C_us,D_us,\"T_us\"\r\n\
                1,\"left, \"\"inner\"\"\",\"x\ny\",1, \"2\" ,3\r\n\"1\",\"\",z,1,2,3\n2,plain\"quote,,\"4\",5,6";
    let faults = load_sets(&csv(text)).unwrap_err();
    // An empty name, with its place in the file.
    assert_eq!((faults.len(), faults[0].message.as_str()), (1, "`task_id` must be a word"));
    assert_eq!(&text[faults[0].span.clone()], "\"\"");
    let sets = load_sets(&csv(&text.replace("1\",\"\"", "1\",\"b\""))).unwrap();
    assert_eq!(sets[0].names, ["Tleft, \"inner\"", "Tb"]);
    assert_eq!(sets[0].tasks[0].deadline, Some(Span::from_us(2)));
    assert_eq!((sets[1].names[0].as_str(), sets[1].tasks[0].runtime), ("Tplain\"quote", Some(Span::from_us(4))));
}

#[test]
fn the_directory_is_that_of_the_file() {
    let at = |name: &str| {
        let text = "windows: [{length: 1}]".to_owned();
        load(Source { name: name.to_owned(), text }, &Options::default()).unwrap().settings.directory.unwrap()
    };
    assert_eq!(at("a.yaml").to_str(), Some("."));
    assert_eq!(at("/x/y/a.yaml").to_str(), Some("/x/y"));
}

#[test]
fn the_canonical_form_is_demos_own_where_that_is_enough() {
    let w = ok("
windows:
  - {length: 500, cpu: 1, sc_processes: [\"./control --rate 5\", proc2]}
  - {length: 20}");
    let expected = "\
set_cwd: yes
partitions:
  - name: anonymous_0
    processes:
      - cmd: ./control --rate 5
        budget: 150
      - cmd: proc2
        budget: 150
windows:
  - length: 500
    slices:
      - cpu: 1
        sc_partition: anonymous_0
  - length: 20
";
    assert_eq!(canonical(&w), expected);
}

#[test]
fn offsets_survive_a_byte_order_mark_and_carriage_returns() {
    let text = "\u{feff}windows:\r\n  - length: 100\r\n    cup: 0\r\n";
    let faults = load(source(text), &Options::default()).unwrap_err();
    assert_eq!(&text[faults[0].span.clone()], "cup");
    let shown = faults[0].render(&source(text), false);
    assert!(shown.contains("dir/test.yaml:3:5") && !shown.contains('\r'), "{shown}");
}

/// The rules that follow from the keys about the process, each as (on_abort, completion).
#[test]
fn rules_of_processes_follow_from_what_the_file_says() {
    use Completion::{Exit, Signal, Undeclared};
    use OnAbort::{Finish, Restart};
    let rules = |keys: &str| {
        let w = ok(&format!("policy: edf\ntasks: [{{period: 10ms, runtime: 1ms, {keys}}}]"));
        (w.system.tasks[0].on_abort, w.system.tasks[0].completion)
    };
    // Without a program nothing is there to finish the work, and a process per job ends with it.
    assert_eq!(rules("name: a"), (Restart, Undeclared));
    assert_eq!(rules("cmd: a"), (Finish, Undeclared));
    assert_eq!(rules("cmd: a, init: yes"), (Finish, Signal));
    assert_eq!(rules("cmd: a, spawn: per-job"), (Restart, Exit));
    assert_eq!(rules("handler: 1ms"), (Restart, Undeclared));
    assert_eq!(rules("cmd: a, handler: 1ms"), (OnAbort::Signal, Undeclared));
    assert_eq!(rules("cmd: a, on_abort: restart, completion: signal"), (Restart, Signal));
    assert_eq!(rules("on_abort: finish, completion: none"), (Finish, Completion::None));
    assert_eq!(rules("cmd: a, spawn: per-job, completion: exit, on_abort: finish"), (Finish, Exit));
    assert_eq!(rules("cmd: a, on_abort: signal=SIGUSR2").0, OnAbort::Signal);
    assert_eq!(rules("handler: 1ms, on_abort: restart").0, Restart);
    let told = |keys: &str| {
        let w = ok(&format!("policy: edf\ntasks: [{{period: 10ms, cmd: a, {keys}}}]"));
        (w.tasks[0].abort_signal, w.tasks[0].on_exit, canonical(&w).lines().last().map(|l| l.trim().to_owned()))
    };
    assert_eq!(told("on_abort: signal=SIGWINCH"), (Some("WINCH"), None, Some("on_abort: signal=WINCH".into())));
    assert_eq!(told("on_abort: signal"), (None, None, Some("on_abort: signal".into())));
    assert_eq!(told("on_exit: restart"), (None, Some(OnExit::Restart), Some("on_exit: restart".into())));
    assert_eq!(told("on_exit: stop"), (None, Some(OnExit::Stop), Some("on_exit: stop".into())));
    assert_eq!(told("on_exit: end").1, Some(OnExit::End));
}

#[test]
fn a_process_of_a_table_is_not_advised_to_use_a_key_of_online_policies() {
    let hint = |text: &str| common::fault(text, &Options::default()).hint.unwrap();
    let process = "{cmd: a, completion: exit}";
    let table = hint(&format!("windows: [{{length: 10, cpu: 0, sc_processes: [{process}]}}]"));
    assert_eq!(table, "write `completion: signal`");
    let online = hint("policy: edf\ntasks: [{period: 10ms, cmd: a, completion: exit}]");
    assert_eq!(online, "add `spawn: per-job`, or write `completion: signal`");
}

#[test]
fn a_simulated_process_of_a_table_signals_if_the_file_says_what_its_jobs_need() {
    let settled = |keys: &str, on_abort: Option<OnAbort>| {
        let process = format!("{{cmd: a, budget: 5, {keys}}}");
        let mut w = ok(&format!("windows: [{{length: 10, cpu: 0, sc_processes: [{process}]}}]"));
        w.settle_simulation(on_abort);
        w.system.tasks[0].completion
    };
    for (keys, expected) in [
        ("jitter: 1ms", Completion::None),
        ("init: yes", Completion::None),
        ("runtime: 3ms", Completion::Signal),
        ("execution: 3ms, runtime: 4ms", Completion::Signal),
        ("completion: signal", Completion::Signal),
        ("completion: none, runtime: 3ms", Completion::None),
    ] {
        assert_eq!(settled(keys, None), expected, "{keys}");
    }
    // `on_abort` of the command line is for all tasks but those with a handler.
    let mut w = ok("policy: edf\ntasks: [{period: 9ms, cmd: a}, {period: 9ms, cmd: b, handler: 1ms}, {period: 9ms}]");
    w.settle_simulation(None);
    let rules = |w: &takt_workload::Workload| w.system.tasks.iter().map(|t| t.on_abort).collect::<Vec<_>>();
    assert_eq!(rules(&w), [OnAbort::Finish, OnAbort::Signal, OnAbort::Restart]);
    w.settle_simulation(Some(OnAbort::Finish));
    assert_eq!(rules(&w), [OnAbort::Finish, OnAbort::Signal, OnAbort::Finish]);
    w.settle_simulation(Some(OnAbort::Restart));
    assert_eq!(rules(&w), [OnAbort::Restart, OnAbort::Signal, OnAbort::Restart]);
}

#[test]
fn a_process_without_a_client_is_one_by_its_own_key_its_partition_or_the_file() {
    use takt_workload::{Client, Descriptors};
    let clients = |file: &str, partition: &str, process: &str| {
        let w = ok(&format!(
            "{file}\nwindows: [{{length: 10, cpu: 0, sc_partition: A, be_processes: [b]}}]\n\
             partitions: [{{name: A, {partition} processes: [{{cmd: a, {process}}}, c]}}]"
        ));
        // The normal form means the same.
        assert_eq!(ok(&canonical(&w)).tasks, w.tasks);
        w.tasks.iter().map(|task| (task.client, task.completion_rule())).collect::<Vec<_>>()
    };
    let (auto, none) = ((Client::Auto, Completion::Undeclared), (Client::None, Completion::None));
    // Processes of `A`, and that of the window.
    assert_eq!(clients("", "", ""), [auto, auto, auto]);
    assert_eq!(clients("", "", "client: none"), [none, auto, auto]);
    assert_eq!(clients("", "client: none,", ""), [none, none, auto]);
    assert_eq!(clients("client: none", "", ""), [none, none, none]);
    assert_eq!(clients("client: none", "client: auto,", ""), [auto, auto, none]);
    assert_eq!(clients("client: none", "", "client: auto, init: yes")[0], (Client::Auto, Completion::Signal));
    // A partition that is one process has the key for both.
    let whole = ok("windows: [{length: 10, cpu: 0, sc_partition: {cmd: a, client: none}}]");
    assert_eq!(whole.tasks[0].client, Client::None);
    let tasks = ok(
        "client: none\npolicy: edf\ntasks: [{cmd: a, period: 10ms, completion: yield}, {cmd: b, period: 10ms, spawn: per-job}]",
    );
    let rules: Vec<_> = tasks.tasks.iter().map(|task| (task.client, task.completion_rule())).collect();
    assert_eq!(rules, [(Client::None, Completion::Signal), (Client::None, Completion::Exit)]);
    let few = ok("descriptors: few\nwindows: [{length: 10, cpu: 0, sc_processes: [a]}]");
    assert_eq!(few.settings.descriptors, Descriptors::Few);
    assert!(canonical(&few).contains("descriptors: few\n"));
    // A simulation knows that it cannot signal.
    let mut w = ok("windows: [{length: 10, cpu: 0, sc_processes: [{cmd: a, runtime: 1ms, client: none}]}]");
    w.settle_simulation(None);
    assert_eq!(w.system.tasks[0].completion, Completion::None);
}

#[test]
fn a_process_that_signals_needs_a_client() {
    for (file, process) in
        [("", "init: yes, client: none"), ("", "completion: signal, client: none"), ("client: none", "init: yes")]
    {
        let text = format!("{file}\nwindows: [{{length: 10, cpu: 0, sc_processes: [{{cmd: a, {process}}}]}}]");
        let fault = common::fault(&text, &Options::default());
        assert_eq!(fault.code, Code::ConflictingKeys, "{text}");
        assert_eq!(fault.hint.unwrap().contains("client: auto"), file == "client: none", "{text}");
    }
    let segments = "policy: edf\ntasks: [{cmd: a, event: segments, client: none}]";
    assert_eq!(common::fault(segments, &Options::default()).code, Code::ConflictingKeys);
    for (text, word) in [("client: never", "client"), ("descriptors: 7", "descriptors")] {
        let text = format!("{text}\nwindows: [{{length: 10, cpu: 0, sc_processes: [a]}}]");
        let fault = common::fault(&text, &Options::default());
        assert!(fault.code == Code::UnknownValue && fault.message.contains(word), "{fault:?}");
    }
}
