//! The longest time that a module delays a schedule by its default fuel, for several kinds of instructions: `cargo run --release -p takt-rt-wasm --example worst`.

use std::path::Path;
use std::time::Instant;
use takt_core::cpus::CpuSet;
use takt_core::engine::Engine;
use takt_core::model::{Arrival, Need, PolicySpec, Scope, System, Task};
use takt_core::policy::Registry;
use takt_core::time::{Span, Time};
use takt_wasm_module::wire::{self, Areas, Built, Profile};

/// A module whose first answer is an endless loop with this body.
fn module(name: &str, body: &str, pages: u32) -> Vec<u8> {
    let profile = Profile {
        name: name.to_owned(),
        summary: String::new(),
        manual: String::new(),
        scopes: vec![Scope::Uniprocessor],
        needs: vec![Need::Period],
        has_demand_test: false,
        settings: Vec::new(),
    };
    let areas = Areas { input: 0x1_0000, input_words: 0x8000, output: 0x8_0000, output_words: 0x8000 };
    let built = wire::bytes(&(Some(Built { timers: 1, meters: false, areas }), String::new()));
    let profile = wire::bytes(&profile);
    let data = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:02x}")).collect::<String>();
    let packed = |at: i64, bytes: &[u8]| at << 32 | bytes.len() as i64;
    let text = format!(
        "(module (memory (export \"memory\") {pages})
           (data (i32.const 1024) \"{}\") (data (i32.const 4096) \"{}\")
           (func (export \"takt_abi\") (result i32) (i32.const {}))
           (func (export \"takt_profile\") (result i64) (i64.const {}))
           (func (export \"takt_reserve\") (param i32) (result i32) (i32.const 0x200000))
           (func (export \"takt_build\") (result i64) (memory.fill (i32.const 0x300000) (i32.const 1) (i32.const {})) (i64.const {}))
           (func $big (local {locals}))
           (func (export \"takt_ask\") (result i32) (local $i i32) (local $x f64) (local $n i64)
             (local.set $i (i32.const 12345)) (local.set $n (i64.const -1234567890123456789)) (local.set $x (f64.const 1.5))
             (loop $l {body} (br $l)) (i32.const 0))
           (func (export \"takt_admits\") (result i32) (i32.const 1))
           (func (export \"takt_home\") (param i32) (result i32) (i32.const -1)))",
        data(&profile),
        data(&built),
        takt_wasm_module::ABI,
        packed(1024, &profile),
        (pages << 16) - 0x30_0000,
        packed(4096, &built),
        locals = "i64 ".repeat(1_000),
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Milliseconds of the step in which the module fails, the least and the most of five runs.
fn delay(name: &str, body: &str) -> (f64, f64) {
    let bytes = module(name, body, 1024);
    let module = takt_wasm::load_bytes(Path::new("worst.wasm"), &bytes).unwrap_or_else(|error| panic!("{error}"));
    let once = || {
        let period = Span::from_ms(10);
        let arrival = Arrival::Periodic { offset: Span::ZERO, period };
        let task = Task { arrival, deadline: Some(period), runtime: Some(Span::from_ms(1)), ..Task::default() };
        let policy = PolicySpec::new(&module.entry().profile, Scope::Uniprocessor);
        let system = System { tasks: vec![task], ..System::new(CpuSet::first(1), policy) };
        let mut engine =
            Engine::with_registry(system, Registry::standard().with_loaded(takt_wasm::entry)).expect("an engine");
        let begin = Instant::now();
        engine.step(Time::ZERO, &[], &mut ());
        begin.elapsed().as_secs_f64() * 1e3
    };
    let runs: Vec<f64> = (0..5).map(|_| once()).collect();
    assert_eq!(module.failed().map(|failed| failed.fault), Some(takt_wasm::Fault::Fuel));
    (runs.iter().copied().fold(f64::MAX, f64::min), runs.iter().copied().fold(0.0, f64::max))
}

fn main() {
    let random = "(local.set $i (i32.and (i32.add (i32.mul (local.get $i) (i32.const 1664525)) (i32.const 1013904223)) (i32.const 0x3ffffff)))";
    let chase: String = (0..16)
        .map(|_| format!("{random} (local.set $i (i32.add (local.get $i) (i32.load8_u (local.get $i))))"))
        .collect();
    let kinds = [
        ("loop", "(local.set $i (i32.add (local.get $i) (i32.const 1)))".to_owned()),
        (
            "divide",
            "(local.set $n (i64.div_s (i64.const -9223372036854775807) (i64.or (local.get $n) (i64.const 3))))"
                .repeat(16),
        ),
        ("square-root", "(local.set $x (f64.sqrt (local.get $x)))".repeat(16)),
        ("load", chase),
        ("fill", "(memory.fill (i32.const 0x300000) (i32.const 1) (i32.const 0x3c00000))".to_owned()),
        ("copy", "(memory.copy (i32.const 0x300000) (i32.const 0x2000000) (i32.const 0x1c00000))".to_owned()),
        ("call", "(call $big)".to_owned()),
        ("grow", "(drop (memory.grow (i32.const 1)))".to_owned()),
    ];
    println!("instructions  least  most  (ms until the default fuel is exhausted)");
    for (name, body) in kinds {
        let (least, most) = delay(name, &body);
        println!("{name:12}  {least:5.1} {most:5.1}");
    }
}
