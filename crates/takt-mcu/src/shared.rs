//! The state that threads, interrupts and the kernel share. All of it is read and written with interrupts masked, for a few instructions.

use crate::board::{Board, Ending};
use crate::error::Error;
use crate::fault::{Cause, Fault};
use crate::wait::Waiting;
use alloc::boxed::Box;
use core::cell::{Cell, OnceCell};
use critical_section::{CriticalSection, Mutex};
use takt_core::input::Input;
use takt_core::model::ResourceId;
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};

/// A call of the running thread.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    /// The job is done.
    Complete,
    /// To wait for a wake-up.
    Block,
    Sleep(Time),
    Yield,
    Lock(ResourceId),
    /// As `Lock`, unless another task has it.
    TryLock(ResourceId),
    /// As `Lock`, and to give up at an instant.
    #[cfg(feature = "timed-locks")]
    LockUntil(ResourceId, Time),
    Unlock(ResourceId),
    /// To take one of a count, and to give a lock back in the same instant.
    Wait {
        on: &'static Waiting,
        until: Option<Time>,
        unlock: Option<ResourceId>,
    },
    /// An input that the engine takes as it is.
    Input(Input),
    /// Counts of a task, by its number.
    Counts(u32),
}

/// Bits of a task's word.
pub(crate) const RELEASE: u8 = 1;
pub(crate) const WAKE: u8 = 2;

/// The notes about a task until the kernel runs.
#[derive(Default)]
pub(crate) struct Slot {
    /// Which of [`RELEASE`] and [`WAKE`].
    noted: Cell<u8>,
    /// Notes that found the same note there.
    pub(crate) merged: Cell<u32>,
    /// The answer to the thread's call.
    pub(crate) answer: Cell<Option<Error>>,
    pub(crate) cpu_time: Cell<Span>,
}

/// How many figures an application may report.
pub(crate) const FIGURES: usize = 16;

/// A thread that runs, or none of the tasks.
pub(crate) const IDLE: usize = usize::MAX;

/// Room for a value. The empty one is zeros, so that a static needs no copy in flash.
pub(crate) struct Room<T> {
    is_full: Cell<bool>,
    held: Cell<Held<T>>,
}

#[repr(u8)]
#[derive(Clone, Copy)]
enum Held<T> {
    Nothing = 0,
    Value(T) = 1,
}

impl<T: Copy> Room<T> {
    const fn empty() -> Room<T> {
        Room { is_full: Cell::new(false), held: Cell::new(Held::Nothing) }
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        self.held.set(Held::Value(value));
        self.is_full.set(true);
    }

    /// The value, which leaves the room empty.
    pub(crate) fn take(&self) -> Option<T> {
        // The usual room is empty, and its value is long.
        if !self.is_full.take() {
            return None;
        }
        match self.held.get() {
            Held::Nothing => None,
            Held::Value(value) => Some(value),
        }
    }
}

/// The thread that runs. [`IDLE`] is zero in memory.
pub(crate) struct Current(Cell<usize>);

impl Current {
    pub(crate) fn get(&self) -> usize {
        !self.0.get()
    }

    pub(crate) fn set(&self, thread: usize) {
        self.0.set(!thread);
    }
}

/// The kernel, as a port calls it when it was pended.
pub(crate) trait Scheduler {
    /// Runs the kernel, with interrupts enabled and never within itself. Returns the thread that runs next; the last one is idle.
    fn enter(&mut self) -> usize;
}

/// The program that threads run.
pub(crate) trait Program: Sync {
    /// The code of a thread: its number, and whether it begins with the handler of an aborted job.
    fn run(&self, thread: usize, handler: bool) -> !;
}

/// The shared state of one kernel.
pub(crate) struct Shared {
    pub(crate) board: Mutex<OnceCell<&'static dyn Board>>,
    pub(crate) slots: Mutex<OnceCell<Box<[Slot]>>>,
    pub(crate) program: Mutex<OnceCell<&'static dyn Program>>,
    pub(crate) call: Mutex<Room<Call>>,
    pub(crate) current: Mutex<Current>,
    pub(crate) fault: Mutex<Room<Fault>>,
    pub(crate) counts: Mutex<Room<Counts>>,
    noted: Mutex<Cell<bool>>,
    own: Mutex<[Cell<u64>; FIGURES]>,
    clock: Mutex<Cell<Clock>>,
    /// Ticks of the first entry within the kernel, and later those outside of it.
    outside: Mutex<Cell<u32>>,
}

/// The board's counter, continued to 64 bits.
#[derive(Clone, Copy, Default)]
struct Clock {
    last: u32,
    high: u32,
    zero: u64,
    /// Nanoseconds of so many ticks, in lowest terms; no ticks before the start.
    nanoseconds: u32,
    ticks: u32,
}

impl Clock {
    /// Ticks since time zero. An interrupt may have read a later counter meanwhile, which is no wrap.
    fn read(&mut self, counter: u32) -> u64 {
        // Far more ticks than an interrupt takes, and far fewer than are left of a turn after the longest alarm.
        const RECENT: u32 = 1 << 20;
        if self.last.wrapping_sub(counter) < RECENT {
            return (u64::from(self.high) << 32 | u64::from(self.last)) - self.zero;
        }
        self.high += u32::from(counter < self.last);
        self.last = counter;
        (u64::from(self.high) << 32 | u64::from(counter)) - self.zero
    }
}

/// The greatest common divisor.
const fn divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Nanoseconds and ticks that last as long, in lowest terms.
pub(crate) const fn tick_length(frequency: u32) -> (u32, u32) {
    let common = divisor(1_000_000_000, frequency);
    (1_000_000_000 / common, frequency / common)
}

impl Shared {
    pub(crate) const fn new() -> Shared {
        Shared {
            board: Mutex::new(OnceCell::new()),
            slots: Mutex::new(OnceCell::new()),
            program: Mutex::new(OnceCell::new()),
            call: Mutex::new(Room::empty()),
            current: Mutex::new(Current(Cell::new(!IDLE))),
            fault: Mutex::new(Room::empty()),
            counts: Mutex::new(Room::empty()),
            noted: Mutex::new(Cell::new(false)),
            own: Mutex::new([const { Cell::new(0) }; FIGURES]),
            clock: Mutex::new(Cell::new(Clock { last: 0, high: 0, zero: 0, nanoseconds: 0, ticks: 0 })),
            outside: Mutex::new(Cell::new(0)),
        }
    }

    pub(crate) fn set_inside(&self, cs: CriticalSection<'_>, ticks: u32) {
        self.outside.borrow(cs).set(ticks);
    }

    /// The first entry took so many ticks in all.
    pub(crate) fn set_whole(&self, cs: CriticalSection<'_>, ticks: u32) {
        let outside = self.outside.borrow(cs);
        outside.set(ticks.saturating_sub(outside.get()));
    }

    /// Ticks of an entry that the kernel itself does not see.
    pub(crate) fn outside(&self, cs: CriticalSection<'_>) -> u32 {
        self.outside.borrow(cs).get()
    }

    /// Runs a thread from its beginning.
    pub(crate) fn run(&self, thread: usize, handler: bool) -> ! {
        let program = critical_section::with(|cs| self.program.borrow(cs).get().copied());
        program.expect("threads begin after the program is known").run(thread, handler)
    }

    pub(crate) fn slot<'a>(&'a self, cs: CriticalSection<'a>, task: usize) -> Option<&'a Slot> {
        self.slots.borrow(cs).get()?.get(task)
    }

    /// Starts the clock: the present tick is time zero.
    pub(crate) fn start_clock(&self, cs: CriticalSection<'_>, counter: u32, frequency: u32) {
        let (nanoseconds, ticks) = tick_length(frequency);
        self.clock.borrow(cs).set(Clock { last: counter, high: 0, zero: counter.into(), nanoseconds, ticks });
    }

    /// The present instant; time zero before the start.
    pub(crate) fn now(&self, cs: CriticalSection<'_>) -> Time {
        let Some(board) = self.board.borrow(cs).get() else { return Time::ZERO };
        self.at(cs, board.ticks())
    }

    /// The instant of the board's counter, which was read a moment ago and not before an earlier call's one.
    pub(crate) fn at(&self, cs: CriticalSection<'_>, counter: u32) -> Time {
        let cell = self.clock.borrow(cs);
        let mut clock = cell.get();
        if clock.ticks == 0 {
            return Time::ZERO;
        }
        let ticks = clock.read(counter);
        cell.set(clock);
        instant(ticks, (clock.nanoseconds, clock.ticks))
    }

    /// A fault for which no job can be aborted: it is reported, and the kernel stops.
    pub(crate) fn stop(&self, fault: &Fault) -> ! {
        let board = critical_section::with(|cs| self.board.borrow(cs).get().copied());
        match board {
            Some(board) => {
                board.report(fault.text(&mut Fault::room()));
                board.end(Ending::Failed)
            }
            None => loop {
                core::hint::spin_loop();
            },
        }
    }

    /// The kernel cannot start.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse(&self, cause: Cause, detail: u32) -> ! {
        self.stop(&Fault { cause, task: None, pc: 0, lr: 0, detail, at: Time::ZERO })
    }

    /// Notes something about a task. Returns whether the kernel has to run.
    pub(crate) fn note(&self, cs: CriticalSection<'_>, task: usize, what: u8) -> bool {
        let Some(slot) = self.slot(cs, task) else { return false };
        let before = slot.noted.get();
        if before & what != 0 {
            slot.merged.set(slot.merged.get() + 1);
        }
        slot.noted.set(before | what);
        self.noted.borrow(cs).set(true);
        true
    }

    /// A figure of the application.
    pub(crate) fn own(&self, cs: CriticalSection<'_>, index: usize) -> u64 {
        self.own.borrow(cs).get(index).map_or(0, Cell::get)
    }

    pub(crate) fn set_own(&self, cs: CriticalSection<'_>, index: usize, value: u64) {
        if let Some(place) = self.own.borrow(cs).get(index) {
            place.set(value);
        }
    }

    /// Whether something was noted since the last call.
    pub(crate) fn take_noted(&self, cs: CriticalSection<'_>) -> bool {
        self.noted.borrow(cs).take()
    }

    /// Whether something was noted since the last call of [`Shared::take_noted`].
    pub(crate) fn has_noted(&self, cs: CriticalSection<'_>) -> bool {
        self.noted.borrow(cs).get()
    }

    /// The notes about a task since the last call.
    pub(crate) fn take_notes(&self, cs: CriticalSection<'_>, task: usize) -> u8 {
        self.slot(cs, task).map_or(0, |slot| slot.noted.take())
    }

    pub(crate) fn answer(&self, cs: CriticalSection<'_>, task: usize, answer: Result<(), Error>) {
        if let Some(slot) = self.slot(cs, task) {
            slot.answer.set(answer.err());
        }
    }
}

/// An instant of the clock. Where a tick is a whole number of nanoseconds, as at 25 MHz, there is no division.
pub(crate) fn instant(ticks: u64, (nanoseconds, per): (u32, u32)) -> Time {
    let scaled = ticks * u64::from(nanoseconds);
    Time::from_ns(if per == 1 { scaled as i64 } else { (scaled / u64::from(per)) as i64 })
}

/// The ticks of a span, rounded up, at least 1 and at most 2^31.
pub(crate) fn ticks_of(span: Span, (nanoseconds, per): (u32, u32)) -> u32 {
    const MOST: u32 = 1 << 31;
    let ns = span.ns().max(1) as u64;
    // The usual case needs no division of 64 bits.
    if let (1, Ok(ns)) = (per, u32::try_from(ns)) {
        return ns.div_ceil(nanoseconds).min(MOST);
    }
    let ticks = match ns.checked_mul(u64::from(per)) {
        Some(scaled) => scaled.div_ceil(u64::from(nanoseconds)),
        None => u64::from(MOST),
    };
    ticks.min(u64::from(MOST)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_time_and_back() {
        for frequency in [25_000_000, 72_000_000, 16_000_000, 84_000_000, 1_000_000] {
            let length = tick_length(frequency);
            for ns in [1, 39, 40, 41, 1_000_003, 4_000_000_000, 10_000_000_000] {
                let ticks = ticks_of(Span::from_ns(ns), length);
                assert!(instant(ticks.into(), length).ns() + 1 >= ns, "{frequency} {ns}: an alarm is not early");
                assert!(instant(u64::from(ticks) - 1, length).ns() < ns, "{frequency} {ns}: nor a tick late");
            }
        }
        assert_eq!(ticks_of(Span::MAX, (40, 1)), 1 << 31);
    }

    #[test]
    fn the_clock_continues_when_the_counter_wraps() {
        let mut clock = Clock { last: u32::MAX - 1, zero: u64::from(u32::MAX - 1), nanoseconds: 40, ticks: 1, high: 0 };
        let counters = [u32::MAX, 3, 9, 7, 1 << 31, 1 << 28];
        let expected = [1, 5, 11, 11, (1 << 31) + 2, (1 << 32) + (1 << 28) + 2];
        assert_eq!(counters.map(|counter| clock.read(counter)), expected);
    }
}
