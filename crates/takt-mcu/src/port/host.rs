//! The host: threads of the kernel as threads of the operating system, one of which runs at a time, in virtual time.
//!
//! It is for tests. Code of the kernel takes no time here; [`burn`] lets a thread use CPU time, in which the alarm and interrupts
//! come. Interrupts come between any two critical sections, too, where the machine says so.

use crate::board::{Board, Ending};
use crate::fault::{Cause, Fault};
use crate::shared::{Scheduler, Shared};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// An interrupt of the machine.
pub type Interrupt = Box<dyn FnMut() + Send>;

/// A machine to run on.
#[derive(Default)]
pub struct Machine {
    /// Ticks of its clock in a second; 10^9 by default.
    pub frequency: Option<u32>,
    /// The counter at the start.
    pub counter: u32,
    /// Interrupts and their ticks after the start, in ascending order.
    pub interrupts: Vec<(u64, Interrupt)>,
    /// Called after each critical section outside of interrupts. It may act as an interrupt does.
    pub between: Option<Interrupt>,
    /// The value that tasks find under [`data`].
    pub data: Option<Arc<dyn Any + Send + Sync>>,
}

/// The outcome of a run.
#[derive(Debug)]
pub struct Ended {
    /// The bytes of the trace.
    pub stream: Vec<u8>,
    /// The texts that were reported for people.
    pub report: String,
    /// How it ended.
    pub ending: Ending,
}

/// Ends a thread of a machine whose run is over.
struct Over;
/// Ends a thread that begins again.
struct Again;

/// The thread that runs, before the first thread runs.
const NONE: usize = usize::MAX;

struct State {
    turn: usize,
    over: Option<Ending>,
    /// By thread: it begins again, with its handler or without.
    again: Vec<Option<bool>>,
    scheduler: Option<Sent>,
    threads: Vec<JoinHandle<()>>,
    ticks: u64,
    alarm: Option<u64>,
    interrupts: VecDeque<(u64, Interrupt)>,
    between: Option<Interrupt>,
    stream: Vec<u8>,
    report: String,
}

/// The kernel, which is passed from thread to thread.
struct Sent(Box<dyn Scheduler>);

// SAFETY: one thread of a machine runs at a time, and each hands its changes to the next through a mutex.
unsafe impl Send for Sent {}

struct Context {
    state: Mutex<State>,
    turns: Condvar,
    shared: Shared,
    frequency: u32,
    counter: u32,
    data: Option<Arc<dyn Any + Send + Sync>>,
}

std::thread_local! {
    /// The machine of this thread, and the thread's number.
    static MACHINE: RefCell<Option<&'static Context>> = const { RefCell::new(None) };
    static NUMBER: Cell<usize> = const { Cell::new(NONE) };
    static PENDED: Cell<bool> = const { Cell::new(false) };
    static IN_INTERRUPT: Cell<bool> = const { Cell::new(false) };
    static IN_KERNEL: Cell<bool> = const { Cell::new(false) };
    static BETWEEN: Cell<bool> = const { Cell::new(false) };
}

fn machine() -> Option<&'static Context> {
    MACHINE.with(|machine| *machine.borrow())
}

fn here() -> &'static Context {
    machine().expect("it is called by a thread of a machine")
}

impl Context {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `main`, which starts the kernel, on a machine. The memory of the machine is not given back.
///
/// # Panics
/// When `main` returns without having started the kernel, or panics before.
pub fn run(machine: Machine, main: impl FnOnce()) -> Ended {
    let Machine { frequency, counter, interrupts, between, data } = machine;
    let context: &'static Context = Box::leak(Box::new(Context {
        state: Mutex::new(State {
            turn: NONE,
            over: None,
            again: Vec::new(),
            scheduler: None,
            threads: Vec::new(),
            ticks: 0,
            alarm: None,
            interrupts: interrupts.into(),
            between,
            stream: Vec::new(),
            report: String::new(),
        }),
        turns: Condvar::new(),
        shared: Shared::new(),
        frequency: frequency.unwrap_or(1_000_000_000),
        counter,
        data,
    }));
    enroll(context, NONE);
    let ended = catch_unwind(AssertUnwindSafe(main));
    MACHINE.with(|machine| machine.replace(None));
    match ended {
        Ok(()) => panic!("the kernel was not started"),
        Err(why) if why.is::<Over>() => {}
        Err(why) => resume_unwind(why),
    }
    let threads = core::mem::take(&mut context.lock().threads);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let mut state = context.lock();
    let ending = state.over.unwrap_or(Ending::Failed);
    // The kernel holds memory that nothing else refers to.
    state.scheduler = None;
    Ended { stream: core::mem::take(&mut state.stream), report: core::mem::take(&mut state.report), ending }
}

fn enroll(context: &'static Context, number: usize) {
    MACHINE.with(|machine| machine.replace(Some(context)));
    NUMBER.with(|own| own.set(number));
    PENDED.with(|pended| pended.set(false));
    IN_INTERRUPT.with(|inside| inside.set(false));
    IN_KERNEL.with(|inside| inside.set(false));
    BETWEEN.with(|inside| inside.set(false));
}

/// The value that the machine was given for its tasks.
#[must_use]
pub fn data<T: Send + Sync + 'static>() -> Option<Arc<T>> {
    machine()?.data.clone()?.downcast().ok()
}

/// Lets the calling thread use so much CPU time, in nanoseconds. Interrupts come meanwhile, and other threads may run.
pub fn burn(nanoseconds: u64) {
    let context = here();
    let mut rest = (u128::from(nanoseconds) * u128::from(context.frequency)).div_ceil(1_000_000_000) as u64;
    while rest > 0 {
        let mut state = context.lock();
        let next = next_event(&state).unwrap_or(u64::MAX);
        let passed = rest.min(next.saturating_sub(state.ticks));
        state.ticks += passed;
        rest -= passed;
        // A thread that is done in the very instant of an interrupt comes first.
        let due = next <= state.ticks && rest > 0;
        drop(state);
        if due {
            interrupt(context);
        }
    }
}

/// When the alarm or an interrupt comes.
fn next_event(state: &State) -> Option<u64> {
    let interrupt = state.interrupts.front().map(|(at, _)| *at);
    [state.alarm, interrupt].into_iter().flatten().min()
}

/// Serves what is due, and lets the kernel run.
fn interrupt(context: &'static Context) {
    IN_INTERRUPT.with(|inside| inside.set(true));
    loop {
        let mut state = context.lock();
        let now = state.ticks;
        if state.alarm.is_some_and(|at| at <= now) {
            state.alarm = None;
            pend();
        }
        let Some((_, mut handler)) = state.interrupts.pop_front_if(|(at, _)| *at <= now) else { break };
        drop(state);
        handler();
    }
    IN_INTERRUPT.with(|inside| inside.set(false));
    settle();
}

pub(super) fn shared() -> &'static Shared {
    &here().shared
}

pub(super) fn pend() {
    PENDED.with(|pended| pended.set(true));
}

pub(super) fn unpend() {
    PENDED.with(|pended| pended.set(false));
}

pub(super) fn in_interrupt() -> bool {
    IN_INTERRUPT.with(Cell::get) || machine().is_none()
}

/// After a critical section: interrupts come that were masked, and then the kernel.
pub(super) fn settle() {
    let Some(context) = machine() else { return };
    if IN_INTERRUPT.with(Cell::get) || NUMBER.with(Cell::get) == NONE {
        return;
    }
    if !BETWEEN.with(|inside| inside.replace(true)) {
        let between = context.lock().between.take();
        if let Some(mut between) = between {
            IN_INTERRUPT.with(|inside| inside.set(true));
            between();
            IN_INTERRUPT.with(|inside| inside.set(false));
            context.lock().between = Some(between);
        }
        BETWEEN.with(|inside| inside.set(false));
    }
    if !IN_KERNEL.with(Cell::get) {
        kernel(context);
    }
}

/// Runs the kernel while it is pended, and lets the thread that it names run.
fn kernel(context: &'static Context) {
    let own = NUMBER.with(Cell::get);
    while PENDED.with(Cell::take) {
        let Some(mut scheduler) = context.lock().scheduler.take() else { return };
        IN_KERNEL.with(|inside| inside.set(true));
        let next = catch_unwind(AssertUnwindSafe(|| scheduler.0.enter()));
        IN_KERNEL.with(|inside| inside.set(false));
        let mut state = context.lock();
        state.scheduler = Some(scheduler);
        let next = match next {
            Ok(next) => next,
            Err(why) => {
                state.over.get_or_insert(Ending::Failed);
                drop(state);
                context.turns.notify_all();
                resume_unwind(why);
            }
        };
        state.turn = next;
        if next != own {
            context.turns.notify_all();
        }
        drop(state);
        wait_for_turn(context, own);
    }
}

/// Returns when it is the thread's turn; does not, if it begins again or the run is over.
fn wait_for_turn(context: &'static Context, own: usize) {
    let mut state = context.lock();
    while state.turn != own && state.over.is_none() {
        state = context.turns.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    let over = state.over.is_some();
    let again = state.again[own].is_some();
    drop(state);
    if over {
        resume_unwind(Box::new(Over));
    }
    if again {
        resume_unwind(Box::new(Again));
    }
}

pub(super) fn wait() {
    let context = here();
    let mut state = context.lock();
    let Some(next) = next_event(&state) else {
        // Nothing ever happens again.
        state.over = Some(Ending::Completed);
        drop(state);
        context.turns.notify_all();
        resume_unwind(Box::new(Over));
    };
    state.ticks = state.ticks.max(next);
    drop(state);
    interrupt(context);
}

pub(super) fn prepare(stacks: &[u32]) {
    let mut state = here().lock();
    state.again = stacks.iter().map(|_| Some(false)).collect();
}

pub(super) fn restart(thread: usize, handler: bool) {
    here().lock().again[thread] = Some(handler);
}

/// Interrupts come at calls of the clock alone, and none of them before the start.
pub(super) fn mask() {}

pub(super) fn start(scheduler: Box<dyn Scheduler>) -> ! {
    let context = here();
    let mut state = context.lock();
    state.scheduler = Some(Sent(scheduler));
    let threads = state.again.len();
    state.turn = threads - 1;
    let spawned: Vec<_> = (0..threads).map(|number| thread::spawn(move || life(context, number))).collect();
    state.threads.extend(spawned);
    while state.over.is_none() {
        state = context.turns.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
    drop(state);
    resume_unwind(Box::new(Over))
}

/// A thread: it waits for its turn and begins, and again whenever its job was aborted.
fn life(context: &'static Context, number: usize) {
    enroll(context, number);
    loop {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let mut state = context.lock();
            while state.turn != number && state.over.is_none() {
                state = context.turns.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.over.is_some() {
                drop(state);
                resume_unwind(Box::new(Over));
            }
            let handler = state.again[number].take().unwrap_or(false);
            drop(state);
            PENDED.with(|pended| pended.set(false));
            context.shared.run(number, handler)
        }));
        let Err(why) = ended;
        if why.is::<Over>() {
            return;
        }
        if !why.is::<Again>() && !panicked(context, number) {
            return;
        }
    }
}

/// The thread's code has panicked, which is a fault. Returns whether the thread begins again.
fn panicked(context: &'static Context, number: usize) -> bool {
    let threads = context.lock().again.len();
    let task = (number + 1 < threads).then_some(number as u32);
    let survived = catch_unwind(AssertUnwindSafe(|| {
        let at = critical_section::with(|cs| context.shared.now(cs));
        let fault = Fault { cause: Cause::Panic, task, pc: 0, lr: 0, detail: 0, at };
        critical_section::with(|cs| context.shared.fault.borrow(cs).set(fault));
        pend();
        kernel(context);
    }));
    match survived {
        Ok(()) => true,
        Err(why) => why.is::<Again>(),
    }
}

pub(super) fn stack_used(_: usize) -> u32 {
    0
}

pub(super) fn overflowed(_: usize) -> bool {
    false
}

pub(super) fn handler_stack_used() -> u32 {
    0
}

pub(super) fn memory() -> (u32, u32) {
    (0, 0)
}

/// The board of the machine on which the calling thread runs.
#[derive(Clone, Copy, Debug)]
pub struct HostBoard;

impl Board for HostBoard {
    fn ticks(&self) -> u32 {
        let context = here();
        context.counter.wrapping_add(context.lock().ticks as u32)
    }
    fn frequency(&self) -> u32 {
        here().frequency
    }
    fn alarm(&self, ticks: u32) {
        let mut state = here().lock();
        state.alarm = Some(state.ticks + u64::from(ticks));
    }
    fn write(&self, byte: u8) -> bool {
        here().lock().stream.push(byte);
        true
    }
    fn report(&self, text: &[u8]) {
        let mut state = here().lock();
        state.report.push_str(&String::from_utf8_lossy(text));
        state.report.push('\n');
    }
    fn end(&self, ending: Ending) -> ! {
        let context = here();
        context.lock().over = Some(ending);
        context.turns.notify_all();
        resume_unwind(Box::new(Over))
    }
}

/// The board of this thread's machine.
pub static BOARD: HostBoard = HostBoard;
