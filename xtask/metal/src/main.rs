//! The engine with EDF and no registry, as a program of a microcontroller has it: it allocates before it starts, and then feeds
//! inputs to the engine. The instants and inputs come from a device that only the linker knows of.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec;
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{read_volatile, write_volatile};
use core::sync::atomic::{AtomicUsize, Ordering};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, PolicySpec, Scope, System, Task, TaskId};
use takt_core::policies::edf;
use takt_core::policy::{Build, Registry};
use takt_core::record::{Place, Record, Sink};
use takt_core::time::{Span, Time};

/// Gives memory away and takes none back.
struct Bump;

/// The heap, which counts as no static memory: its size is the program's choice.
const HEAP: usize = 0x2004_0000;
const HEAP_END: usize = 0x200f_0000;
static NEXT: AtomicUsize = AtomicUsize::new(HEAP);

// SAFETY: each call gets bytes of the heap that no other call has.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let at = NEXT.load(Ordering::Relaxed).next_multiple_of(layout.align());
        if at + layout.size() > HEAP_END {
            return core::ptr::null_mut();
        }
        NEXT.store(at + layout.size(), Ordering::Relaxed);
        at as *mut u8
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static BUMP: Bump = Bump;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

/// Registers of a device: the time in nanoseconds, the job whose completion was signalled, its task, and the task that is to run.
const DEVICE: usize = 0x4000_0000;

fn register(offset: usize) -> u64 {
    // SAFETY: a register of the device.
    unsafe { read_volatile((DEVICE + offset) as *const u64) }
}

struct Silent;

impl Sink for Silent {
    fn record(&mut self, _: Record) {}
    fn wants_records(&self) -> bool {
        false
    }
}

fn engine() -> Option<Engine> {
    let cpus = CpuSet::single(0);
    let spec = PolicySpec::new(&edf::ONE_QUEUE.profile, Scope::Uniprocessor);
    let mut system = System::new(cpus, spec);
    for period in [5, 10, 20].map(Span::from_ms) {
        system.tasks.push(Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period },
            deadline: Some(period),
            runtime: Some(Span::from_ms(1)),
            affinity: cpus,
            ..Task::default()
        });
    }
    let policy = Build::whole(&system, &Registry::default(), |build| (edf::ONE_QUEUE.build)(build)).ok()?;
    Engine::with_policy(system, policy).ok()
}

#[unsafe(no_mangle)]
extern "C" fn reset() -> ! {
    let Some(mut engine) = engine() else { loop {} };
    let mut inputs = vec![];
    loop {
        inputs.clear();
        let done = register(8);
        if done > 0 {
            inputs.push(Input::Complete { task: TaskId(register(16) as u32), job: done });
        }
        engine.step(Time::from_ns(register(0) as i64), &inputs, &mut Silent);
        let running = engine.running_on(Place(0)).map_or(u32::MAX, |task| task.0);
        let due = engine.next_due().map_or(i64::MAX, |due| due.ns());
        // SAFETY: registers of the device.
        unsafe {
            write_volatile((DEVICE + 24) as *mut u32, running);
            write_volatile((DEVICE + 32) as *mut i64, due);
        }
    }
}

macro_rules! sizes {
    ($($name:ident = $size:expr;)*) => {
        $(
            #[used]
            #[unsafe(no_mangle)]
            #[unsafe(link_section = ".sizes")]
            static $name: [u8; $size] = [0; $size];
        )*
    };
}

sizes! {
    SIZE_OF_TASK = size_of::<Task>();
    SIZE_OF_TASK_STATE = Engine::TASK_STATE;
    SIZE_OF_POLICY_SPEC = size_of::<PolicySpec>();
    SIZE_OF_ENGINE = size_of::<Engine>();
}
