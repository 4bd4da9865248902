//! The allocator under a module: none of its answers reaches it, after the policy was built and the interpreter has been used once.

mod common;

use std::alloc::{GlobalAlloc, Layout, System as Heap};
use std::cell::Cell;
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, PolicySpec, Scope, System, Task};
use takt_core::policy::Registry;
use takt_core::time::{Span, Time};

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        unsafe { Heap.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        unsafe { Heap.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn answers_of_a_module_do_not_allocate() {
    let Some(path) = common::edzl() else { return };
    let module = takt_wasm::load(path).expect("a module");
    let task = |i: i64| Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_us(100 + 30 * i) },
        deadline: Some(Span::from_us(100 + 30 * i)),
        runtime: Some(Span::from_us(20)),
        ..Task::default()
    };
    let policy = PolicySpec::new(&module.entry().profile, Scope::Global);
    let system = System { tasks: (0..12).map(task).collect(), ..System::new(CpuSet::first(3), policy) };
    let registry = Registry::standard().with_loaded(takt_wasm::entry);
    let mut engine = Engine::with_registry(system, registry).expect("an engine");
    let (mut now, mut steps, mut before) = (Time::ZERO, 0, 0);
    let mut inputs = Vec::with_capacity(16);
    while steps < 20_000 {
        if steps == 100 {
            before = CALLS.with(Cell::get);
        }
        engine.step(now, &inputs, &mut ());
        inputs.clear();
        let due = engine.next_due().expect("releases continue");
        now = due.min(now + Span::from_us(20));
        if now < due {
            let job = |task: &takt_core::model::TaskId| Input::Complete {
                task: *task,
                job: engine.job(*task).map_or(0, |job| job.number),
            };
            inputs.extend(engine.running().iter().map(job));
        }
        steps += 1;
    }
    let calls = CALLS.with(Cell::get) - before;
    assert_eq!(module.failed(), None);
    assert_eq!(calls, 0, "calls of the allocator in {steps} steps");
}
