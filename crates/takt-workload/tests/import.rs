//! Task sets of other systems: what they become, that what is written of them reads back as the same, and what is said about
//! broken ones.

use proptest::prelude::*;
use std::path::Path;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Backlog, Execution, Handler, Late, Locking, PolicySpec, ResourceId, Step};
use takt_core::time::Span;
use takt_core::utility::{UNIT, Utility};
use takt_workload::import::chronos::{self, Run};
use takt_workload::import::litmus;
use takt_workload::{Code, Diagnostic, Options, Source, Workload, canonical, load};

fn source(text: &str) -> Source {
    Source { name: "set.ts".to_owned(), text: text.to_owned() }
}

fn under(policy: &str) -> Options {
    Options { policy: Some(PolicySpec::from_name(policy).expect("a policy")), ..Options::default() }
}

fn texts(source: &Source, faults: &[Diagnostic]) -> String {
    faults.iter().map(|f| f.render(source, false) + "\n").collect()
}

/// The workload, which must be the same when what is written of it is read.
#[track_caller]
fn whole(source: &Source, read: Result<Workload, Vec<Diagnostic>>) -> Workload {
    let workload = read.unwrap_or_else(|faults| panic!("{}", texts(source, &faults)));
    let text = canonical(&workload);
    let yaml = Source { name: "again.yaml".to_owned(), text };
    let again =
        load(yaml.clone(), &Options::default()).unwrap_or_else(|f| panic!("{}\n{}", yaml.text, texts(&yaml, &f)));
    assert_eq!(again.system, workload.system, "{}", yaml.text);
    assert_eq!((&again.tasks, &again.resources), (&workload.tasks, &workload.resources));
    assert_eq!(again.settings.duration, workload.settings.duration);
    workload
}

#[track_caller]
fn imported(text: &str, run: &Run, options: &Options) -> Workload {
    let source = source(text);
    whole(&source, chronos::load(&source, run, options))
}

fn us(n: i64) -> Span {
    Span::from_us(n)
}

/// Two tasks of the set 5t_5l of ChronOS's test application; the second has only one lock, the third has none.
const LOCKS: &str = "\
#the number of locks
L\t5
#\tCPUs\tThread group\tTask WSS (b)\tPeriod (us)\tUsage (us)\tUtility\tLocks\tHUA Ut.
T\t0\t1\t\t0\t\t500000\t\t150000\t\t17\t1,2\t2
T\t0\t1\t\t0\t\t1000000\t\t227000\t\t4\t0
T\t0\t1\t\t0\t\t1500000\t\t410000\t\t24
G\t1\t4096
";

#[test]
fn periods_are_deadlines_and_utilities_steps() {
    let w = imported(LOCKS, &Run::default(), &under("edf"));
    assert_eq!((w.system.cpus, w.system.backlog, w.system.late), (CpuSet::single(0), Backlog::Chronos, Late::Continue));
    let [first, ..] = &w.system.tasks[..] else { panic!("tasks") };
    assert_eq!(first.arrival, Arrival::Periodic { offset: Span::ZERO, period: us(500_000) });
    assert_eq!((first.deadline, first.runtime), (Some(us(500_000)), Some(us(150_000))));
    assert_eq!(
        (&first.utility, &first.program.steps[..], first.handler),
        (&Some(Utility::Step(17 * UNIT)), &[][..], None)
    );
    assert_eq!(w.tasks.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["T1", "T2", "T3"]);
    // The locks are left out, and that is said.
    assert_eq!((w.system.resources, w.warnings.len()), (0, 1));
    assert_eq!(w.warnings[0].code, Code::NotImported);
}

#[test]
fn policies_that_go_by_utility_abort_what_is_late() {
    assert_eq!(imported(LOCKS, &Run::default(), &under("dasa-nd")).system.late, Late::AbortAtEvent);
}

#[test]
fn the_usage_is_cut_to_whole_microseconds() {
    let run = Run { usage: 133, ..Run::default() };
    let w = imported("L 0\nT 0 1 0 300000 11667 285\n", &run, &under("edf"));
    assert_eq!(w.system.tasks[0].runtime, Some(us(15_517)), "11667 * 1.33 = 15517.11");
}

#[test]
fn each_lock_is_held_for_the_whole_critical_section() {
    let run = Run { locks: Some(10), handlers: Some(us(40)), inheritance: true, ..Run::default() };
    let w = imported(LOCKS, &run, &under("edf"));
    let [a, b, c] = &w.system.tasks[..] else { panic!("tasks") };
    let [lock, unlock] = [|n| Step::Lock(ResourceId(n)), |n| Step::Unlock(ResourceId(n))];
    let cs = Step::Run(us(15_000));
    assert_eq!(a.program.steps, [lock(1), cs, unlock(1), lock(2), cs, unlock(2), Step::Run(us(135_000))]);
    assert_eq!(a.runtime, Some(us(150_000)), "declared as if there were one critical section");
    assert_eq!(b.program.steps, [lock(0), Step::Run(us(22_700)), unlock(0), Step::Run(us(204_300))]);
    assert_eq!(c.program.steps, [Step::Run(us(369_000))], "without a lock there is no critical section");
    assert_eq!((w.system.resources, w.system.locking), (5, Locking::Inheritance));
    assert_eq!(w.resources, ["L0", "L1", "L2", "L3", "L4"]);
    // The time for a lock, for each lock of the set; only who has a utility for it.
    let handler = Handler { runtime: us(200), deadline: None, utility: 2 * UNIT };
    assert_eq!([a.handler, b.handler, c.handler], [Some(handler), None, None]);
}

#[test]
fn nested_locks_are_held_together() {
    let run = Run { locks: Some(100), nested: true, ..Run::default() };
    let w = imported(LOCKS, &run, &under("edf"));
    let [lock, unlock] = [|n| Step::Lock(ResourceId(n)), |n| Step::Unlock(ResourceId(n))];
    assert_eq!(w.system.tasks[0].program.steps, [lock(1), lock(2), Step::Run(us(150_000)), unlock(2), unlock(1)]);
    assert_eq!(w.system.tasks[2].program.steps, [Step::Run(us(410_000))]);
    assert_eq!(w.system.locking, Locking::Fifo);
}

#[test]
fn the_older_form_means_the_same() {
    let older = "L 5\nT 0 500000 150000 17 1,2 2\nT 0 1000000 227000 4 0\nT 0 1500000 410000 24\n";
    let run = Run { locks: Some(20), handlers: Some(us(1)), ..Run::default() };
    let (new, old) = (imported(LOCKS, &run, &under("edf")), imported(older, &run, &under("edf")));
    assert_eq!(new.system, old.system);
    // A lone line of six fields is recognised by its fifth one.
    let old = imported("L 3\nT 0 500000 150000 17 2 1\n", &Run::default(), &under("edf"));
    assert_eq!(old.system.tasks[0].utility, Some(Utility::Step(17 * UNIT)));
    let new = imported("L 3\nT 0 1 0 500000 150000 17\n", &Run::default(), &under("edf"));
    assert_eq!(new.system.tasks, old.system.tasks);
}

#[test]
fn all_cpus_are_those_of_the_machine() {
    let set = "L 0\nT all 1 0 400000 58195 285\nT all 1 0 750000 53963 68\n";
    let four = Options { cpus: Some(4), ..under("g-edf") };
    let w = imported(set, &Run::default(), &four);
    assert_eq!((w.system.cpus, w.system.tasks[1].affinity), (CpuSet::first(4), CpuSet::first(4)));
    let open = imported(set, &Run::default(), &under("g-edf"));
    assert!(open.settings.cpus_from_all && !canonical(&open).contains("cpus:"));
}

#[test]
fn each_set_of_cpus_is_a_domain() {
    let set = "L 0\nT 0 1 0 500000 150000 17\nT 1,2 1 0 1000000 227000 4\nT 0 1 0 1500000 410000 24\n";
    let w = imported(set, &Run::default(), &under("g-edf"));
    assert_eq!(takt_workload::policy_text(&w.system.policy), "domains");
    let of = |n: usize| (w.system.domains[n].cpus.to_string(), w.system.domains[n].tasks.iter().map(|t| t.0).collect());
    assert_eq!([of(0), of(1)], [("0".to_owned(), vec![0, 2]), ("1-2".to_owned(), vec![1])]);
    assert_eq!((&w.domains[..], w.system.tasks[1].affinity.len()), (&["D1".to_owned(), "D2".to_owned()][..], 2));
}

#[test]
fn workloads_may_be_such_sets() {
    let options = Options { cpus: Some(2), seed: Some(7), ..under("g-edf") };
    let w = load(source("# comment\n\nL 0 # none\nT all 1 0 400000 58195 285\n"), &options).expect("a task set");
    assert_eq!((w.system.seed, w.system.tasks.len(), w.system.cpus.len()), (7, 1, 2));
    for other in ["tasks: []\n", "L\n", "L 1 2\n", "L x\n", "", "# L 0\n"] {
        assert!(!chronos::is_task_set(other), "{other}");
    }
}

#[test]
fn schedulers_have_their_names() {
    let of = |name| chronos::scheduler(name).map(|spec| takt_workload::policy_text(&spec));
    assert_eq!(of("RMA").as_deref(), Some("rm"));
    assert_eq!(of("GNP_EDF").as_deref(), Some("g-np-edf"));
    assert_eq!(of("DASA-ND").as_deref(), Some("dasa-nd"));
    assert_eq!(of("GUS").as_deref(), Some("gus"));
    assert_eq!(of("edf"), None);
    // All that the test application of the last version knows.
    for name in "FIFO RMA EDF HVDF LBESA DASA_ND DASA GFIFO GRMA GEDF GNP_EDF GHVDF GNP_HVDF GMUA GGUA NGGUA".split(' ')
    {
        assert!(of(name).is_some(), "{name}");
    }
}

/// Every file under `imports/` beside what is said about it, in `imports/NAME.snap`.
#[test]
fn broken_files_are_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("imports");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder").map(|e| e.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e != "snap"));
    files.sort();
    assert!(files.len() >= 5);
    for path in files {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let source = Source { name: name.clone(), text: std::fs::read_to_string(&path).expect("a text") };
        let run = Run { locks: Some(10), ..Run::default() };
        let policy = if name.contains("no-policy") { Options::default() } else { under("edf") };
        let faults = match name.ends_with(".sh") {
            true => litmus::load(&source, &Options::default()),
            false => chronos::load(&source, &run, &policy),
        };
        let faults = faults.expect_err(&name);
        settings.bind(|| insta::assert_snapshot!(name, texts(&source, &faults)));
    }
}

#[track_caller]
fn script(text: &str, options: &Options) -> Workload {
    let source = Source { name: "run.sh".to_owned(), text: text.to_owned() };
    whole(&source, litmus::load(&source, options))
}

/// Lines as experiments have them.
const SCRIPT: &str = "\
#!/bin/bash
PROT=PCP
TIME=60
setsched PSN-EDF || exit 1
st-trace-schedule demo > /dev/null 2>&1 &
./rtspin -w -p 0 -o 0.3 -X $PROT -L 0.2 -Q 3 -q 4 0.49 5 $TIME > log &
sleep 1
/usr/bin/rtspin -wv -p1 -d 8 -s 1 -u 0.25 1.5 10 \"${TIME}\" &
rtspin -w -p 1 -e -E 20 -D 50.5 2 40 60 &
rt_launch -p 2 -q 1 10 100 -- /opt/bin/camera --mode 'day light' -p 3 &
release_ts -f 4
";

#[test]
fn calls_of_rtspin_are_tasks() {
    let w = script(SCRIPT, &Options::default());
    let [a, b, c, d] = &w.system.tasks[..] else { panic!("four tasks") };
    assert_eq!(takt_workload::policy_text(&w.system.policy), "p-edf");
    assert_eq!((w.system.cpus, w.settings.duration), (CpuSet::first(3), Some(Span::from_secs(60))));
    assert_eq!(w.warnings, []);
    // 0.95 of the declared time, with the critical section in the middle.
    assert_eq!(a.arrival, Arrival::Periodic { offset: us(300), period: us(5_000) });
    assert_eq!((a.runtime, a.deadline, a.priority), (Some(us(490)), Some(us(5_000)), 508));
    let [before, after] = [Span::from_ns(132_750); 2];
    let lock = [Step::Lock(ResourceId(0)), Step::Run(us(200)), Step::Unlock(ResourceId(0))];
    assert_eq!(a.program.steps, [&[Step::Run(before)][..], &lock, &[Step::Run(after)]].concat());
    assert_eq!((&w.resources[..], w.system.locking), (&["R3".to_owned()][..], Locking::Ceiling));
    assert_eq!((b.deadline, b.affinity, b.budget), (Some(us(8_000)), CpuSet::single(1), None));
    assert_eq!(b.program.execution, Execution::Uniform { least: us(1_250), most: us(1_500) });
    assert_eq!(c.arrival, Arrival::Sporadic { offset: Span::ZERO, period: us(20_000), spread: us(30_500) });
    assert_eq!((c.deadline, c.budget), (Some(us(40_000)), Some(us(2_000))));
    assert_eq!(c.program.execution, Execution::Series(vec![us(1_900)]));
    // rt_launch enforces budgets unless told otherwise.
    assert_eq!((d.budget, d.priority, d.affinity), (Some(us(10_000)), 511, CpuSet::single(2)));
    assert_eq!(w.tasks[3].cmd.as_deref(), Some("exec /opt/bin/camera --mode 'day light' -p 3"));
    assert_eq!(w.tasks[2].cmd.as_deref(), Some("exec takt burn --runtime 1.9ms"));
    assert_eq!(
        w.tasks.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(),
        ["rtspin-1", "rtspin-2", "rtspin-3", "camera-4"]
    );
}

#[test]
fn plugins_say_what_a_partition_is() {
    let text = |plugin: &str| format!("setsched {plugin}\nrtspin 1 10 5 &\nrtspin -p 1 1 10 5\n");
    let four = Options { cpus: Some(4), ..Options::default() };
    let homes = |w: &Workload| w.system.tasks.iter().map(|t| t.affinity.to_string()).collect::<Vec<_>>();
    let global = script(&text("GSN-EDF"), &four);
    assert_eq!(homes(&global), ["0-3", "0-3"]);
    let fixed = script(&text("P-FP"), &Options::default());
    assert_eq!((homes(&fixed), fixed.system.tasks[0].priority), (vec!["0".to_owned(), "1".to_owned()], 1));
    let clusters = takt_workload::policy_from_text("c-edf:cluster=2").expect("a policy");
    let clustered = script(&text("C-EDF"), &Options { policy: Some(clusters), ..Options::default() });
    assert_eq!((homes(&clustered), clustered.system.cpus.len()), (vec!["0-1".to_owned(), "2-3".to_owned()], 4));
    for name in ["GSN-EDF", "PSN-EDF", "C-EDF", "P-FP", "PFAIR"] {
        assert!(litmus::plugin(name).is_some(), "{name}");
    }
}

#[test]
fn losses_of_an_import_are_reported() {
    let text = "\
setsched GSN-EDF
resctl -n 100 -c 0 -t table-driven
taskset -c 1 rtspin -C times.csv -r 100 2 10 &
rtspin -X FMLP -u 0.5 -S/tmp/in -O/tmp/out 2 10 30 &
rtspin -X FMLP -L 5 2 10 30 &
rtspin -B -m 100 &
rtspin 1 10 $1
";
    let w = script(text, &Options::default());
    let source = Source { name: "run.sh".to_owned(), text: text.to_owned() };
    insta::with_settings!({snapshot_path => "imports", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("warnings.sh", texts(&source, &w.warnings));
    });
    // A critical section that is longer than the job is all of it.
    let lock = [Step::Lock(ResourceId(0)), Step::Run(us(5_000)), Step::Unlock(ResourceId(0))];
    assert_eq!((w.system.tasks.len(), &w.system.tasks[2].program.steps[..]), (4, &lock[..]));
}

/// Lines of a set with four locks, in the newer or the older form.
fn set() -> impl Strategy<Value = String> {
    let task =
        (0_u32..3, 1_u64..5_000_000, 1_u64..100, 0_u64..5_000, prop::sample::subsequence(vec![0, 1, 2, 3], 0..4));
    (prop::collection::vec((task, prop::option::of(0_u64..9)), 1..6), any::<bool>()).prop_map(|(tasks, newer)| {
        let mut text = "L 4\n".to_owned();
        for ((cpu, period, percent, utility, locks), handler) in tasks {
            let (group, usage) = (if newer { " 1 4096" } else { "" }, (period * percent / 100).max(1));
            // Without locks a line of the older form could have as many fields as one of the newer.
            let list: Vec<String> = locks.iter().map(u32::to_string).collect();
            let last = match handler {
                _ if list.is_empty() => String::new(),
                Some(handler) => format!(" {} {handler}", list.join(",")),
                None => format!(" {}", list.join(",")),
            };
            text += &format!("T {cpu}{group} {period} {usage} {utility}{last}\n");
        }
        text
    })
}

const MARKS: &[&str] = &[
    "rtspin",
    "rt_launch",
    " ",
    "\n",
    ";",
    "&",
    "-w",
    "-X PCP",
    "-p 1",
    "-L 3",
    "-Q",
    "-d",
    "-s .5",
    "-u 1",
    "-e",
    "--",
    "10 100 5",
    "1",
    "$A",
    "A=3",
    "setsched",
    "GSN-EDF",
    "P-FP",
    "for i in",
    "done",
    "if",
    "fi",
    "{",
    "}",
    "$(",
    ")",
    "'",
    "\"",
    "\\",
    "`",
    "${",
    ">",
    "2>&1",
    "#",
    "é",
    "\u{3000}",
    "taskset",
    "L 2",
    "T",
    "all",
    "0,1",
    "G",
    "500000",
    "0",
];

#[test]
fn imports_read_back() {
    takt_testing::for_all(
        256,
        (set(), 1_u32..150, prop::option::of(1_u32..=100), any::<bool>(), prop::option::of(1_i64..99)),
        |(text, usage, locks, nested, lock)| {
            let run = Run { usage, locks, nested, inheritance: nested, handlers: lock.map(us), duration: None };
            for policy in ["edf", "g-edf", "dasa-nd"] {
                let source = source(&text);
                match chronos::load(&source, &run, &under(policy)) {
                    Ok(workload) => drop(whole(&source, Ok(workload))),
                    // Too much for a period, or too little to be anything.
                    Err(faults) => prop_assert!(
                        faults.iter().all(|f| matches!(f.code, Code::ImpossibleDeadline | Code::NoExecution)),
                        "{}",
                        texts(&source, &faults)
                    ),
                }
            }
            Ok(())
        },
    );
}

#[test]
fn any_heap_of_words_is_answered() {
    takt_testing::for_all(
        256,
        (prop::collection::vec(prop::sample::select(MARKS), 0..40), prop::sample::select(&[" ", "", "\n"][..])),
        |(parts, glue)| {
            let source = source(&parts.join(glue));
            for read in [
                litmus::load(&source, &Options::default()),
                litmus::load(&source, &under("g-edf")),
                chronos::load(&source, &Run::default(), &under("g-edf")),
            ] {
                match read {
                    Ok(workload) => drop(whole(&source, Ok(workload))),
                    Err(faults) => prop_assert!(!faults.is_empty() && !texts(&source, &faults).is_empty()),
                }
            }
            Ok(())
        },
    );
}

#[test]
fn a_damaged_script_is_answered() {
    takt_testing::for_all(256, (any::<prop::sample::Index>(), prop::sample::select(MARKS)), |(cut, put)| {
        let at = cut.index(SCRIPT.len());
        for text in [format!("{}{put}{}", &SCRIPT[..at], &SCRIPT[at..]), SCRIPT[..at].to_owned()] {
            let source = source(&text);
            match litmus::load(&source, &Options::default()) {
                Ok(workload) => drop(whole(&source, Ok(workload))),
                Err(faults) => prop_assert!(!texts(&source, &faults).is_empty()),
            }
        }
        Ok(())
    });
}
