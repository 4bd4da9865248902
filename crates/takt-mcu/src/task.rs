//! Tasks: what their threads call, and what others may do to them.

use crate::error::Error;
use crate::port::{self, free};
use crate::shared::{Call, IDLE, RELEASE, WAKE};
use takt_core::input::Input;
use takt_core::model::TaskId;
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};

/// Asks the kernel for something on behalf of the running thread, and returns when it is done.
pub(crate) fn call(call: Call) -> Result<(), Error> {
    call_if(|_| Some(call))
}

/// As [`call`], unless `make` finds within the same critical section that there is nothing to ask.
pub(crate) fn call_if(make: impl FnOnce(critical_section::CriticalSection<'_>) -> Option<Call>) -> Result<(), Error> {
    if port::in_interrupt() {
        return Err(Error::InInterrupt);
    }
    let shared = port::shared();
    let asked = free(|cs| {
        let current = shared.current.borrow(cs).get();
        if current == IDLE {
            return Err(Error::NotATask);
        }
        let Some(call) = make(cs) else { return Ok(None) };
        shared.call.borrow(cs).set(call);
        port::pend();
        Ok(Some(current))
    })?;
    // Here the kernel has run.
    let answer = |current| free(|cs| shared.slot(cs, current).and_then(|slot| slot.answer.take()));
    asked.and_then(answer).map_or(Ok(()), Err)
}

/// The present instant, since time zero of the schedule.
#[must_use]
pub fn now() -> Time {
    port::now()
}

/// Reports a figure of the application at the end of the trace. There are 16, and the last value counts.
pub fn figure(index: usize, value: u64) {
    free(|cs| port::shared().set_own(cs, index, value));
}

/// A task as its own thread sees it. Its methods are for that thread.
#[derive(Debug)]
pub struct Task {
    reference: TaskRef,
}

impl Task {
    pub(crate) const fn new(number: u32) -> Task {
        Task { reference: TaskRef::new(number) }
    }

    /// The name by which others know the task.
    #[must_use]
    pub const fn reference(&self) -> TaskRef {
        self.reference
    }

    /// Ends the job. It returns when the next one runs.
    ///
    /// # Errors
    /// [`Error::HoldsLock`]: the job has a lock, and does not end.
    pub fn wait_period(&self) -> Result<(), Error> {
        call(Call::Complete)
    }

    /// Sleeps until an instant; returns at once if it has passed.
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn sleep_until(&self, until: Time) -> Result<(), Error> {
        call(Call::Sleep(until))
    }

    /// Sleeps for so long.
    ///
    /// # Errors
    /// As [`Task::sleep_until`].
    pub fn sleep(&self, span: Span) -> Result<(), Error> {
        call(Call::Sleep(now().saturating_add(span)))
    }

    /// Lets jobs run that are as urgent.
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn yield_now(&self) -> Result<(), Error> {
        call(Call::Yield)
    }

    /// Waits for [`TaskRef::wake`]. A wake-up that came since the last wait ends it at once.
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn block(&self) -> Result<(), Error> {
        call(Call::Block)
    }
}

/// The name of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskRef(u32);

impl TaskRef {
    /// The task with this number in the table.
    #[must_use]
    pub const fn new(number: u32) -> TaskRef {
        TaskRef(number)
    }

    const fn id(self) -> TaskId {
        TaskId(self.0)
    }

    /// The number in the table.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    fn note(self, what: u8) -> Result<(), Error> {
        let noted = free(|cs| {
            let noted = port::shared().note(cs, self.id().index(), what);
            if noted {
                port::pend();
            }
            noted
        });
        if noted { Ok(()) } else { Err(Error::NotATask) }
    }

    /// An event: it releases a job of the task, whose arrival in the table is `event`. Interrupts and tasks may call it. Events that
    /// come before the kernel has run are one; the others are counted as merged.
    ///
    /// # Errors
    /// [`Error::NotATask`]: the kernel has not started, or there is no such task.
    pub fn release(self) -> Result<(), Error> {
        self.note(RELEASE)
    }

    /// Ends the task's [`Task::block`], or its next one. Interrupts and tasks may call it.
    ///
    /// # Errors
    /// As [`TaskRef::release`].
    pub fn wake(self) -> Result<(), Error> {
        self.note(WAKE)
    }

    /// Gives the task another share of the CPU, in millionths, and another importance.
    ///
    /// # Errors
    /// [`Error::Refused`] for a share that is not from 1 to a million, or no importance; [`Error::InInterrupt`].
    pub fn set_share(self, share: Option<u32>, importance: u32) -> Result<(), Error> {
        if share.is_some_and(|share| !(1..=1_000_000).contains(&share)) || importance == 0 {
            return Err(Error::Refused);
        }
        call(Call::Input(Input::Share { task: self.id(), share, importance }))
    }

    /// Gives the task another period, relative deadline and runtime from its next release on ([`Input::Retime`]).
    ///
    /// # Errors
    /// [`Error::Refused`] for a time that is not above zero; [`Error::InInterrupt`].
    pub fn retime(self, period: Span, deadline: Option<Span>, runtime: Option<Span>) -> Result<(), Error> {
        if [Some(period), deadline, runtime].into_iter().flatten().any(|span| span <= Span::ZERO) {
            return Err(Error::Refused);
        }
        call(Call::Input(Input::Retime { task: self.id(), period, deadline, runtime }))
    }

    /// The task has no further jobs until [`TaskRef::enter`].
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn leave(self) -> Result<(), Error> {
        call(Call::Input(Input::Leave { task: self.id() }))
    }

    /// The task that left has jobs again.
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn enter(self) -> Result<(), Error> {
        call(Call::Input(Input::Enter { task: self.id() }))
    }

    /// The counts of the task's jobs.
    ///
    /// # Errors
    /// [`Error::InInterrupt`].
    pub fn counts(self) -> Result<Counts, Error> {
        call(Call::Counts(self.0))?;
        free(|cs| port::shared().counts.borrow(cs).take()).ok_or(Error::NotATask)
    }

    /// CPU time of the task until the last entry of the kernel.
    #[must_use]
    pub fn cpu_time(self) -> Span {
        free(|cs| port::shared().slot(cs, self.id().index()).map_or(Span::ZERO, |slot| slot.cpu_time.get()))
    }
}

/// Gives a setting of the policy another value, or its default ([`Input::Configure`]). A policy that cannot take it over keeps the
/// old one.
///
/// # Errors
/// [`Error::InInterrupt`].
pub fn configure(setting: u8, value: Option<i64>) -> Result<(), Error> {
    call(Call::Input(Input::Configure { setting, value }))
}
