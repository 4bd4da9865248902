//! Modules of policies: those of Takt's own policies schedule as these do, and bad ones are refused or replaced.

mod common;

use common::{ByHand, INPUT, OUTPUT, of_registry, on, rows};
use std::path::Path;
use takt_conformance::Suite;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, Domain, PolicySpec, Scope, System, Task, TaskId};
use takt_core::policy::{Entry, Registry};
use takt_core::record::{Record, RecordKind};
use takt_core::registry::REGISTRY;
use takt_core::scenario::Scenario;
use takt_core::time::Span;
use takt_wasm::{Fault, LoadError, Loaded, load_bytes};

fn registry() -> Registry {
    Registry::standard().with(&edzl::ENTRY).with_loaded(takt_wasm::entry)
}

fn loaded(bytes: &[u8]) -> &'static Loaded {
    load_bytes(Path::new("test.wasm"), bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// The module agrees with the policy in each of its forms.
fn agrees(entry: &'static Entry, module: &'static Loaded) {
    let suite = Suite::new(registry());
    for &scope in entry.profile.scopes {
        let form = PolicySpec::new(&entry.profile, scope);
        suite.agrees(form, &module.entry().profile).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(module.failed(), None, "{}", entry.profile.name);
    }
}

#[test]
fn edzl_as_a_module_schedules_as_edzl() {
    let Some(path) = common::edzl() else { return };
    let module = takt_wasm::load(path).expect("a module");
    assert!(module.entry().profile.name.starts_with("edzl@"), "{}", module.entry().profile.name);
    assert_eq!(module.sha256().len(), 64);
    agrees(&edzl::ENTRY, module);
}

#[test]
fn every_policy_of_jobs_schedules_as_a_module_as_it_does_itself() {
    let of_jobs = REGISTRY.iter().enumerate().filter(|(_, entry)| !entry.profile.scopes.contains(&Scope::Table));
    for (number, entry) in of_jobs {
        let Some(bytes) = of_registry(number) else { return };
        let module = loaded(&bytes);
        let name = module.entry().profile.name;
        assert_eq!(name.split_once('@').map(|(plain, _)| plain), Some(entry.profile.name));
        agrees(entry, module);
    }
}

#[test]
fn policies_of_tables_and_domains_are_no_modules() {
    let Some(bytes) = of_registry(0) else { return };
    assert!(matches!(load_bytes(Path::new("windows.wasm"), &bytes), Err(LoadError::Profile(_))));
}

fn task(period: i64, runtime: i64) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(period) },
        deadline: Some(Span::from_ms(period)),
        runtime: Some(Span::from_ms(runtime)),
        ..Task::default()
    }
}

/// Two domains of one CPU, and three tasks: the last one belongs to the other domain.
fn divided(policy: PolicySpec) -> System {
    let fifo = PolicySpec::from_name("fifo").expect("a policy");
    let domain = |cpu, tasks: &[u32], policy| Domain {
        cpus: CpuSet::single(cpu),
        band: 0,
        tasks: tasks.iter().map(|task| TaskId(*task)).collect(),
        policy,
    };
    let domains = vec![domain(0, &[0, 1], policy), domain(1, &[2], fifo)];
    let tasks = vec![task(10, 3), task(20, 7), task(15, 5)];
    let all = PolicySpec::from_name("domains").expect("a policy");
    System { tasks, domains, alternatives: vec![fifo], ..System::new(CpuSet::first(2), all) }
}

fn simulated(system: System) -> Vec<Record> {
    let mut engine = Engine::with_registry(system, registry()).unwrap_or_else(|error| panic!("{error}"));
    let mut records: Vec<Record> = Vec::new();
    takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ms(200), &mut records, |_| ());
    records
}

fn without_switches(records: &[Record]) -> Vec<Record> {
    records.iter().copied().filter(|record| !matches!(record.kind, RecordKind::Switch { .. })).collect()
}

/// Reads the instant of the question.
fn now() -> String {
    format!("(i64.load (i32.const {}))", INPUT + 4 * 8)
}

/// Writes a word that is computed into the output.
fn store(index: i32, word: &str) -> String {
    format!("(i64.store (i32.const {}) {word})", OUTPUT + 8 * index)
}

/// Whether a module that fails has this fault.
type Expected = fn(Fault) -> bool;

/// The modules that fail, and why.
fn bad() -> Vec<(ByHand, Expected)> {
    const RELEASE: i64 = 2;
    const DECIDE: i64 = 1;
    const START: i64 = 0;
    let run = |task: i64, cpu: i64| [0, task, cpu, 0, 0];
    let bad = |name, kind, answer: &str| ByHand::new(name, &on(kind, answer));
    let endless = "(loop $l (result i32) (br $l))";
    let grow = "(loop $l (result i32) (drop (memory.grow (i32.const 1))) (br $l))";
    let need = "(if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable))) (i32.const 0)";
    let deep = ByHand {
        more: "(func $deep (result i32) (i32.add (call $deep) (i32.const 1)))".into(),
        ..bad("deep", DECIDE, "(call $deep)")
    };
    // A timer at the present instant, when it starts and whenever it goes off.
    let again =
        format!("{} {} {} (i32.const 1)", store(0, "(i64.const 4)"), store(1, "(i64.const 0)"), store(2, &now()));
    vec![
        (bad("loop-at-start", START, endless), |fault| fault == Fault::Fuel),
        (bad("loop-at-event", RELEASE, endless), |fault| fault == Fault::Fuel),
        (bad("loop-at-decision", DECIDE, endless), |fault| fault == Fault::Fuel),
        (bad("grow", DECIDE, grow), |fault| matches!(fault, Fault::Fuel | Fault::Memory)),
        (bad("need", DECIDE, need), |fault| matches!(fault, Fault::Trap(_) | Fault::Memory)),
        (bad("trap", DECIDE, "(unreachable)"), |fault| matches!(fault, Fault::Trap(_))),
        (bad("divide", RELEASE, "(i32.div_u (i32.const 1) (i32.const 0))"), |fault| matches!(fault, Fault::Trap(_))),
        (bad("beyond", DECIDE, "(i32.load (i32.const 0x7fffffff))"), |fault| matches!(fault, Fault::Trap(_))),
        (deep, |fault| matches!(fault, Fault::Trap(_))),
        (bad("negative", DECIDE, "(i32.const -1)"), |fault| fault == Fault::Row),
        (bad("many", DECIDE, "(i32.const 30000)"), |fault| fault == Fault::TooMuch),
        (bad("garbage", DECIDE, &rows(&[[77, 0, 0, 0, 0]])), |fault| fault == Fault::Row),
        (bad("border", DECIDE, &rows(&[[-1, 0, 0, 0, 0]])), |fault| fault == Fault::Row),
        (bad("decides-early", RELEASE, &rows(&[run(0, 0)])), |fault| fault == Fault::Row),
        (bad("unknown-task", DECIDE, &rows(&[run(99, 0)])), |fault| fault == Fault::ForeignTask(TaskId(99))),
        (bad("foreign-task", DECIDE, &rows(&[run(2, 0)])), |fault| fault == Fault::ForeignTask(TaskId(2))),
        (bad("twice", DECIDE, &rows(&[run(0, 0), run(0, 0)])), |fault| fault == Fault::TwiceTask(TaskId(0))),
        (bad("one-cpu", DECIDE, &rows(&[run(0, 0), run(1, 0)])), |fault| fault == Fault::TwiceCpu),
        (bad("foreign-cpu", DECIDE, &rows(&[run(0, 1)])), |fault| fault == Fault::NotLent(TaskId(0))),
        (bad("no-cpu", DECIDE, &rows(&[run(0, 9)])), |fault| fault == Fault::NotLent(TaskId(0))),
        (bad("always-first", DECIDE, &rows(&[run(0, 0)])), |fault| fault == Fault::NotReady(TaskId(0))),
        (bad("ends-in-decision", DECIDE, &rows(&[[8, 0, 0, 0, 0]])), |fault| fault == Fault::Moment),
        (bad("ends-another", RELEASE, &rows(&[[8, 2, 0, 0, 0]])), |fault| fault == Fault::ForeignTask(TaskId(2))),
        (bad("grants-another", RELEASE, &rows(&[[6, 2, 5, 1, 0]])), |fault| fault == Fault::ForeignTask(TaskId(2))),
        (bad("grants-early", START, &rows(&[[6, 0, 5, 1, 0]])), |fault| fault == Fault::NoJob(TaskId(0))),
        (bad("ranks-another", DECIDE, &rows(&[[9, 2, 5, 0, 0]])), |fault| fault == Fault::ForeignTask(TaskId(2))),
        (bad("foreign-timer", START, &rows(&[[4, 5, 100, 0, 0]])), |fault| fault == Fault::Timer(5)),
        (bad("far-timer", START, &rows(&[[4, 0, i64::MAX - 1, 0, 0]])), |fault| fault == Fault::Amount),
        (bad("huge-budget", RELEASE, &rows(&[[6, 0, i64::MAX, 1, 0]])), |fault| {
            fault == Fault::NoJob(TaskId(0)) || fault == Fault::Amount
        }),
        (bad("reminds", DECIDE, &rows(&[[10, 0, 0, 0, 0]])), |fault| fault == Fault::Moment),
        (ByHand::new("timer-for-ever", &again), |fault| fault == Fault::Livelock),
    ]
}

/// Each module is replaced by FIFO in the instant in which it fails, and the schedule from then on is that of FIFO. The other domain does not notice.
#[test]
fn bad_modules_are_replaced_in_the_instant() {
    let fifo = PolicySpec::from_name("fifo").expect("a policy");
    let by_fifo = simulated(divided(fifo));
    for (bad, why) in bad() {
        let (name, bytes) = (bad.name, bad.bytes());
        let module = loaded(&bytes);
        let records = simulated(divided(PolicySpec::new(&module.entry().profile, Scope::Uniprocessor)));
        let failed = module.failed().unwrap_or_else(|| panic!("{name} does not fail"));
        assert!(why(failed.fault), "{name}: {:?}", failed.fault);
        let switches: Vec<&Record> =
            records.iter().filter(|record| matches!(record.kind, RecordKind::Switch { .. })).collect();
        let [Record { at, kind: RecordKind::Switch { domain: Some(0), to: 0 } }] = *switches else {
            panic!("{name}: {switches:?}")
        };
        assert_eq!(*at, failed.at, "{name}");
        let ended = |records: &[Record]| {
            let ends = |record: &&Record| matches!(record.kind, RecordKind::Finish { .. });
            records.iter().filter(ends).count()
        };
        if failed.at.ns() == 0 {
            assert_eq!(without_switches(&records), by_fifo, "{name}");
        }
        assert_eq!(ended(&records), ended(&by_fifo), "{name}: all jobs are served");
        let other = |records: &[Record]| {
            let of = |record: &&Record| format!("{:?}", record.kind).contains("TaskId(2)");
            records.iter().filter(of).copied().collect::<Vec<_>>()
        };
        assert_eq!(other(&records), other(&by_fifo), "{name}: the other domain");
    }
}

/// A question about terms leaves no trace: a module that fails at it, or counts the questions, schedules as before.
#[test]
fn questions_about_terms_change_nothing() {
    let counts = "(i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))) (i32.load (i32.const 0))";
    for (name, admits, answer) in [("trap-at-terms", "(unreachable)", false), ("counts", counts, true)] {
        let module = loaded(&ByHand { admits, ..ByHand::new(name, "(i32.const 0)") }.bytes());
        let system = divided(PolicySpec::new(&module.entry().profile, Scope::Uniprocessor));
        let mut engine = Engine::with_registry(system, registry()).unwrap_or_else(|error| panic!("{error}"));
        let terms = engine.agreed(TaskId(0));
        // Each question is the first one.
        assert!((0..3).all(|_| engine.admits(TaskId(0), &terms) == answer), "{name}");
        let mut records: Vec<Record> = Vec::new();
        takt_sim::simulate(&mut engine, &Scenario::default(), Span::from_ms(200), &mut records, |_| ());
        assert_eq!(module.failed(), None, "{name}");
        assert_eq!(without_switches(&records), records, "{name}: the module schedules to the end");
    }
}

/// A module that leaves all CPUs idle, and fails after 50 ms: FIFO serves the jobs that wait by then.
#[test]
fn a_module_that_fails_in_the_middle_loses_no_job() {
    let late = format!("(i64.ge_s {} (i64.const 50000000))", now());
    let idle = format!("(if (result i32) {late} (then (unreachable)) (else (i32.const 0)))");
    let module = loaded(&ByHand::new("idle", &idle).bytes());
    let records = simulated(divided(PolicySpec::new(&module.entry().profile, Scope::Uniprocessor)));
    let at = module.failed().expect("it fails").at;
    let of_domain = |task: TaskId| task.0 < 2;
    let started = |record: &&Record| matches!(record.kind, RecordKind::Start { task, .. } if of_domain(task));
    assert_eq!(at.ns(), 50_000_000);
    assert_eq!(
        records.iter().find(started).map(|record| record.at),
        Some(at),
        "the fallback decides in the same instant"
    );
    let count = |what: fn(&RecordKind) -> Option<TaskId>| {
        records.iter().filter_map(|record| what(&record.kind)).filter(|task| of_domain(*task)).count()
    };
    let released = count(|kind| if let RecordKind::Release { task, .. } = kind { Some(*task) } else { None });
    let ended = count(|kind| if let RecordKind::Finish { task, .. } = kind { Some(*task) } else { None });
    assert_eq!((released, ended), (30, 30), "the backlog is served by the end");
}

#[test]
fn the_setting_names_the_fallback() {
    let module = loaded(&ByHand::new("falls-to-edf", "(unreachable)").bytes());
    let profile = &module.entry().profile;
    let index = profile.settings.iter().position(|setting| setting.name == "fallback").expect("a setting");
    let takt_core::model::Kind::Choice(names) = profile.settings[index].kind else { panic!("words") };
    let mut spec = PolicySpec::new(profile, Scope::Uniprocessor);
    spec.values.set(index, names.iter().position(|name| *name == "edf").map(|index| index as i64));
    assert_eq!(takt_wasm::fallback(&spec), PolicySpec::from_name("edf").expect("a policy"));
    let edf = simulated(divided(PolicySpec::from_name("edf").expect("a policy")));
    assert_eq!(without_switches(&simulated(divided(spec))), edf);
    assert!(names.contains(&"fifo") && !names.contains(&"dasa"), "{names:?}");
}

/// The page shows the command with which these tests build the module.
#[test]
fn the_page_has_the_command_of_these_tests() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/writing-policies.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let command = format!("cargo build {} -p edzl-wasm", common::BUILD.join(" "));
    assert!(page.lines().any(|line| line == command), "{command}");
}

#[test]
fn files_that_are_no_modules_are_refused() {
    let good = || ByHand::new("refused", "(i32.const 0)");
    let refused = |bytes: &[u8]| match load_bytes(Path::new("bad.wasm"), bytes) {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error,
    };
    assert!(matches!(refused(b"\x7fELF"), LoadError::NotWasm(_)));
    assert!(matches!(refused(b"\0asm\x01\0\0"), LoadError::NotWasm(_)));
    assert!(matches!(refused(&ByHand { abi: 7, ..good() }.bytes()), LoadError::Version(7)));
    for name in ["takt_abi", "takt_profile", "takt_reserve", "takt_build", "takt_ask", "takt_admits", "takt_home"] {
        let error = refused(&ByHand { without: name, ..good() }.bytes());
        assert!(matches!(error, LoadError::Lacks(lacks) if lacks == name), "{name}: {error}");
    }
    let imports = wat::parse_str("(module (import \"env\" \"clock\" (func)))").expect("a module");
    assert!(matches!(refused(&imports), LoadError::Imports(what) if what == "env.clock"));
    let endless = ByHand { more: "(start $s) (func $s (loop $l (br $l)))".into(), ..good() };
    assert!(matches!(refused(&endless.bytes()), LoadError::Fails(Fault::Fuel)));
    let huge = wat::parse_str("(module (memory (export \"memory\") 20000))").expect("a module");
    assert!(matches!(refused(&huge), LoadError::TooMuch { what: "bytes of memory", .. }));
    let name = ByHand { name: "no name", ..good() };
    assert!(matches!(refused(&name.bytes()), LoadError::Profile(_)));
    assert!(matches!(takt_wasm::load(Path::new("absent.wasm")), Err(LoadError::Unreadable(_))));
}

/// A module by hand with these fields beside its own, and why it is refused.
fn refused(more: &str) -> LoadError {
    let module = ByHand { more: more.to_owned(), ..ByHand::new("bounded", "(i32.const 0)") };
    match load_bytes(Path::new("bounded.wasm"), &module.bytes()) {
        Ok(_) => panic!("{}: it was loaded", more.get(..60).unwrap_or(more)),
        Err(error) => error,
    }
}

/// Memory that a module needs to be compiled and to run is bounded, of whatever kind it is.
#[test]
fn modules_that_need_much_memory_are_refused() {
    let many = |part: &str, times: usize| part.repeat(times);
    let blocks = format!("(func {} {})", many("(block ", 1_100), many(")", 1_100));
    let long = format!("(func {})", many("(drop (f64.const 1))", 450_000));
    let types: String = (0..100_u64 * 101)
        .map(|n| {
            let bit = |bit: u64| if n >> bit & 1 == 0 { "i32 " } else { "i64 " };
            format!("(type (func (param {})))", (0..14).map(bit).collect::<String>())
        })
        .collect();
    let results = format!("(type (func (result {})))", many("i32 ", 101));
    for (more, what) in [
        ("(table 0xffffffff funcref)", "entries of tables"),
        ("(table 200000000 funcref)", "entries of tables"),
        ("(table 40000 funcref) (table 40000 externref)", "entries of tables"),
        (&many("(table 1 funcref)", 5), "tables"),
        (&many("(global i64 (i64.const 0))", 1_001), "globals"),
        (&many("(data \"\")", 1_001), "data segments"),
        (&many("(elem func)", 1_001), "element segments"),
        (&format!("(func $f) (elem func {})", many("$f ", 65_537)), "entries of element segments"),
        (&many("(func)", 20_001), "functions"),
        (&format!("(func (local {}))", many("i64 ", 1_001)), "locals of a function"),
        (&format!("(func (param {}))", many("i64 ", 101)), "parameters of a function"),
        (&results, "results of a function"),
        (&types, "types"),
        (&blocks, "blocks in each other"),
        (&long, "bytes of functions"),
    ] {
        let error = refused(more);
        assert!(matches!(error, LoadError::TooMuch { what: found, .. } if found == what), "{what}: {error}");
    }
    let memory = wat::parse_str("(module (memory 1025))").expect("a module");
    let error = load_bytes(Path::new("memory.wasm"), &memory).err().expect("it is too large");
    assert!(matches!(error, LoadError::TooMuch { what: "bytes of memory", count: 0x401_0000, .. }), "{error}");
    assert!(matches!(refused("(memory 1)"), LoadError::TooMuch { what: "memories", .. }));
    for more in ["(func (drop (memory.size)))", "(table 65536 funcref)"] {
        let module = ByHand { more: more.into(), ..ByHand::new("small", "(i32.const 0)") };
        loaded(&module.bytes());
    }
}

/// No policy needs these instructions, and none of them takes a bounded time or memory.
#[test]
fn instructions_for_tables_and_segments_are_refused() {
    let table = "(table $t 1 funcref) (elem $e func) (data $d \"a\")";
    let numbers = "(i32.const 0) (i32.const 0) (i32.const 0)";
    for (code, name) in [
        (format!("(memory.init $d {numbers})"), "memory.init"),
        (format!("(table.init $t $e {numbers})"), "table.init"),
        (format!("(table.copy $t $t {numbers})"), "table.copy"),
        ("(table.fill $t (i32.const 0) (ref.null func) (i32.const 1))".to_owned(), "table.fill"),
        ("(drop (table.grow $t (ref.null func) (i32.const 1)))".to_owned(), "table.grow"),
    ] {
        let error = refused(&format!("{table} (func {code})"));
        assert!(matches!(error, LoadError::Instruction(found) if found == name), "{name}: {error}");
    }
}

/// The fuel of bulk instructions is that of their length: of the same fuel, a module fills or copies a bounded number of bytes.
#[test]
fn bulk_instructions_cost_fuel_by_their_length() {
    const FUEL: i64 = 1_000_000;
    const BLOCK: i64 = 100_000;
    // Counts the blocks at the address 0 until its fuel is exhausted.
    let count = "(i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))";
    let blocks = |name: &'static str, instruction: &str, most: i64| {
        // With more turns than this it ends, and the module does not fail.
        let more = format!(
            "(func $bulk (result i32) (local $left i32) (local.set $left (i32.const {most}))
               (loop $l {instruction} {count}
                 (local.set $left (i32.sub (local.get $left) (i32.const 1))) (br_if $l (local.get $left)))
               (i32.const 0))"
        );
        let module = loaded(&ByHand { more, ..ByHand::new(name, &on(1, "(call $bulk)")) }.bytes());
        let profile = &module.entry().profile;
        let mut spec = PolicySpec::new(profile, Scope::Uniprocessor);
        let fuel = profile.settings.iter().position(|setting| setting.name == "fuel").expect("a setting");
        spec.values.set(fuel, Some(FUEL));
        simulated(divided(spec));
        module.failed().map(|failed| failed.fault)
    };
    let fill = format!("(memory.fill (i32.const 0x210000) (i32.const 1) (i32.const {BLOCK}))");
    let copy = format!("(memory.copy (i32.const 0x210000) (i32.const 0x230000) (i32.const {BLOCK}))");
    // At 8 bytes for each unit of fuel it is exhausted, and at 2 bytes it is not.
    let most = 8 * FUEL / BLOCK;
    for (names, instruction) in [(["fill-much", "fill-some"], &fill), (["copy-much", "copy-some"], &copy)] {
        assert_eq!(blocks(names[0], instruction, most), Some(Fault::Fuel), "{instruction}");
        assert_eq!(blocks(names[1], instruction, 2 * FUEL / BLOCK), None, "{instruction}");
    }
}

/// Bulk instructions do as before: overlapping copies, a length of zero, and traps beyond the end of memory.
#[test]
fn bulk_instructions_keep_their_meaning() {
    let byte = |at: i32, value: i32| {
        format!("(if (i32.ne (i32.load8_u (i32.const {at})) (i32.const {value})) (then (unreachable)))")
    };
    let base = 0x21_0000;
    let bulk = |name: &str, a: i32, b: i32, n: i32| format!("({name} (i32.const {a}) (i32.const {b}) (i32.const {n}))");
    let store = |at: i32, value: i32| format!("(i32.store8 (i32.const {at}) (i32.const {value}))");
    let end = 64 << 16;
    let code = [
        bulk("memory.fill", base, 7, 100),
        byte(base + 99, 7),
        byte(base + 100, 0),
        (0..100).map(|at| store(base + at, at)).collect::<String>(),
        bulk("memory.copy", base + 1, base, 99),
        byte(base + 1, 0),
        byte(base + 99, 98),
        bulk("memory.copy", base, base + 1, 99),
        byte(base + 98, 98),
        bulk("memory.fill", end, 1, 0),
        bulk("memory.copy", end, end, 0),
    ]
    .concat();
    let sound = loaded(&ByHand::new("meaning", &on(1, &format!("{code} (i32.const 0)"))).bytes());
    simulated(divided(PolicySpec::new(&sound.entry().profile, Scope::Uniprocessor)));
    assert_eq!(sound.failed(), None);
    for (name, bulk) in [
        ("fills-beyond", bulk("memory.fill", end - 10, 1, 11)),
        ("copies-beyond", bulk("memory.copy", end - 10, 0, 11)),
        ("copies-from-beyond", bulk("memory.copy", 0, end - 10, 11)),
    ] {
        let module = loaded(&ByHand::new(name, &on(1, &format!("{bulk} (i32.const 0)"))).bytes());
        simulated(divided(PolicySpec::new(&module.entry().profile, Scope::Uniprocessor)));
        assert_eq!(module.failed().map(|failed| failed.fault), Some(Fault::Trap("it left its memory")), "{name}");
    }
}
