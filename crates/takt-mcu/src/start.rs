//! The start of the kernel.

use crate::board::Board;
use crate::fault::Cause;
use crate::kernel::{Kernel, Parts};
use crate::port::{self, free};
use crate::shared::{self, Call, IDLE, Slot};
use crate::table::Table;
use crate::task::{Task, TaskRef, call};
use crate::trace::{Ring, Trace, Tracer};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::ManuallyDrop;
use takt_core::engine::Engine;
use takt_core::policy::{Build, Registry};
use takt_core::wire;

/// The function of a task. It never returns: it ends its jobs by [`Task::wait_period`].
pub type Main = fn(&Task) -> !;
/// The handler of a task's aborted jobs.
pub type Handler = fn(&Task);

/// Bytes of the idle thread's stack.
const IDLE_STACK: u32 = 512;

/// The functions of the tasks, in the order of the table.
#[derive(Clone, Copy, Debug)]
pub struct Threads<const N: usize> {
    mains: [Main; N],
    handlers: [Option<Handler>; N],
}

impl<const N: usize> From<[Main; N]> for Threads<N> {
    fn from(mains: [Main; N]) -> Threads<N> {
        Threads { mains, handlers: [None; N] }
    }
}

impl<const N: usize> Threads<N> {
    /// The tasks with these functions.
    #[must_use]
    pub const fn new(mains: [Main; N]) -> Threads<N> {
        Threads { mains, handlers: [None; N] }
    }

    /// The handler of a task, for a table that describes one.
    ///
    /// # Panics
    /// When there is no such task.
    #[must_use]
    pub const fn handler(mut self, task: TaskRef, handler: Handler) -> Threads<N> {
        self.handlers[task.number() as usize] = Some(handler);
        self
    }
}

/// The kernel, which is never dropped: code that drops an engine would take flash.
struct Forever(ManuallyDrop<Kernel>);

impl shared::Scheduler for Forever {
    fn enter(&mut self) -> usize {
        self.0.enter()
    }
}

/// The functions that threads look up when they begin.
struct Program {
    threads: Vec<(Main, Option<Handler>)>,
    ring: Option<&'static Ring>,
    board: &'static dyn Board,
}

/// Starts the kernel: builds the engine from the table, allocates everything, and begins with the first jobs. Too little memory
/// or a missing handler is reported before that.
///
/// Each task has a function:
///
/// ```
/// # use takt_mcu::{Board, Main, Table, Trace};
/// fn begin(board: &'static dyn Board, table: &'static Table<2>, task: Main) -> ! {
///     takt_mcu::start(board, table, [task, task], Trace::OFF)
/// }
/// ```
///
/// A program in which a task lacks one does not compile:
///
/// ```compile_fail,E0277
/// # use takt_mcu::{Board, Main, Table, Trace};
/// fn begin(board: &'static dyn Board, table: &'static Table<2>, task: Main) -> ! {
///     takt_mcu::start(board, table, [task], Trace::OFF)
/// }
/// ```
pub fn start<const N: usize>(
    board: &'static dyn Board,
    table: &'static Table<N>,
    threads: impl Into<Threads<N>>,
    trace: Trace,
) -> ! {
    let kernel = build(board, table, &threads.into(), trace);
    // Interrupts can pend the kernel as soon as tasks have slots, and its first entry needs the stack of a thread.
    port::mask();
    free(|cs| {
        let shared = port::shared();
        let _ = shared.slots.borrow(cs).set((0..N).map(|_| Slot::default()).collect());
        shared.start_clock(cs, board.ticks(), board.frequency());
    });
    port::start(kernel)
}

/// Makes all that there is before time zero. Its own frame is large, and gone when the kernel starts.
#[inline(never)]
fn build<const N: usize>(
    board: &'static dyn Board,
    table: &'static Table<N>,
    threads: &Threads<N>,
    trace: Trace,
) -> Box<Forever> {
    let Threads { mains, handlers } = *threads;
    let shared = port::shared();
    free(|cs| {
        let _ = shared.board.borrow(cs).set(board);
    });
    let Some(engine) = engine(table, &handlers) else { shared.refuse(Cause::Table, 0) };
    let ring = Ring::new(trace);
    let parts = Parts {
        engine,
        board,
        tracer: Tracer::new(ring, trace),
        restarts: table.restarts.to_vec(),
        duration: table.duration,
        changes: table.changes,
        table: wire::hash(table.system),
    };
    let kernel = Box::new(Forever(ManuallyDrop::new(Kernel::new(parts))));
    let threads = mains.into_iter().zip(handlers).collect();
    let program: &'static Program = Box::leak(Box::new(Program { threads, ring, board }));
    free(|cs| {
        let _ = shared.program.borrow(cs).set(program);
    });
    let stacks: Vec<u32> = table.stacks.iter().copied().chain([IDLE_STACK]).collect();
    port::prepare(&stacks);
    kernel
}

/// The engine of the table; `None` if the table is damaged, cannot be scheduled, or describes a handler that the program lacks.
fn engine<const N: usize>(table: &Table<N>, handlers: &[Option<Handler>; N]) -> Option<Engine> {
    let system = wire::get_system(table.system, &table.policy.profile)?;
    let lacks = system.tasks.iter().zip(handlers).any(|(task, handler)| task.handler.is_some() && handler.is_none());
    if system.tasks.len() != N || lacks {
        return None;
    }
    let policy = Build::whole(&system, &Registry::default(), |build| (table.policy.build)(build)).ok()?;
    // The build script has validated the system whose bytes these are.
    Some(Engine::with_validated(system, policy))
}

impl shared::Program for Program {
    fn run(&self, number: usize, handler: bool) -> ! {
        let Some((main, own)) = self.threads.get(number) else { idle(self) };
        let task = Task::new(number as u32);
        if let Some(own) = own.filter(|_| handler) {
            own(&task);
            let _ = task.wait_period();
        }
        main(&task)
    }
}

/// The idle thread empties the trace, and waits for interrupts.
fn idle(program: &Program) -> ! {
    measure(program.board);
    // The next entry lets the first job run.
    free(|_| port::pend());
    loop {
        if program.ring.is_none_or(|ring| ring.drain(program.board)) {
            port::wait();
        }
    }
}

/// Makes the first entry as a call of a task does, and measures it. The kernel measures its own part.
fn measure(board: &dyn Board) {
    let shared = port::shared();
    let stand_for = |task| free(|cs| shared.current.borrow(cs).set(task));
    stand_for(0);
    let before = board.ticks();
    // It cannot fail: the kernel takes the call, and does nothing.
    let _ = call(Call::Yield);
    let after = board.ticks();
    stand_for(IDLE);
    free(|cs| shared.set_whole(cs, after.wrapping_sub(before)));
}

/// The interrupt of the board's alarm calls it.
pub fn alarm() {
    port::pend();
}
