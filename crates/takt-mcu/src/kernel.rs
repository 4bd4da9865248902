//! The kernel: from calls, notes and the clock to inputs of the engine, and from its commands to threads.
//!
//! An interrupt writes one word for its task and pends the kernel. Merged notes are counted. A thread announces its wait within the
//! critical section in which it finds the count at zero, and the kernel reads the count again before it blocks the job. So no wake-up is
//! lost. An unlock comes before the end of a wait in the same step: its grant makes the withdrawal void.
//!
//! An entry ends when no input has arrived since its last step. The end of a budget is an exception: only the next entry measures the
//! job, whose time stands still while the kernel runs. Interrupts are masked from the moment at which tasks have slots until the idle
//! thread runs, because no thread has a stack before.

use crate::board::{Board, Ending};
use crate::error::Error;
use crate::fault::{Cause, Fault};
use crate::port::{self, free};
use crate::shared::{self, Call, FIGURES, IDLE, RELEASE, Scheduler, WAKE};
use crate::trace::Tracer;
use crate::wait::Waiting;
use alloc::vec;
use alloc::vec::Vec;
use takt_core::engine::{Activity, Answer, Command, Engine, Input, Question};
use takt_core::model::{ResourceId, TaskId};
use takt_core::record::{JobId, Place};
use takt_core::time::{Span, Time};
use takt_core::wire::{Figure, FigureKind, Message};
use takt_core::work::Work;

/// The reason for which a thread is blocked.
#[derive(Clone, Copy)]
struct Wait {
    /// `None`: a wake-up, or an instant alone.
    on: Option<&'static Waiting>,
    until: Option<Time>,
    /// The end of this wait is no failure: it sleeps.
    sleeps: bool,
    /// Its place in the order of waiting threads.
    order: u32,
}

/// A task's thread.
#[derive(Clone, Default)]
struct Thread {
    wait: Option<Wait>,
    /// The instant at which it gives up waiting for a lock. The engine, and not the kernel, knows who is next.
    #[cfg(feature = "timed-locks")]
    gives_up: Option<(ResourceId, Time)>,
    /// A wake-up came while the thread did not wait for it.
    token: bool,
    /// CPU time of the job with this number, and how much of it the engine knows.
    job: JobId,
    used: Span,
    known: Span,
    total: Span,
    locks: u16,
    /// It has begun again, and has not run since.
    restarted: bool,
    /// It is at the handler of an aborted job, or will be.
    handler: bool,
}

/// A resource as the kernel knows it. The engine decides about its holder.
#[derive(Clone, Copy, Default)]
struct Lock {
    owner: Option<TaskId>,
    poisoned: bool,
}

/// The kinds of steps whose costs are counted: three by their first input, and two by the task that runs afterwards.
const KINDS: usize = 5;
const SAME_TASK: usize = 3;
const OTHER_TASK: usize = 4;

/// The kind of a step by its first input.
fn kind(input: &Input) -> usize {
    match input {
        Input::Release { .. } => 0,
        Input::Complete { .. } => 1,
        _ => 2,
    }
}

/// Counts of the kernel itself.
#[derive(Default)]
struct Costs {
    entries: u32,
    steps: u32,
    misuses: u32,
    /// By kind: how many entries with a step, their ticks in all, and the most.
    of: [(u32, u64, u32); KINDS],
}

impl Costs {
    fn add(&mut self, kind: usize, ticks: u32) {
        let (count, sum, most) = &mut self.of[kind];
        (*count, *sum, *most) = (*count + 1, *sum + u64::from(ticks), (*most).max(ticks));
    }
}

pub(crate) struct Kernel {
    engine: Engine,
    board: &'static dyn Board,
    tracer: Tracer,
    threads: Vec<Thread>,
    locks: Vec<Lock>,
    inputs: Vec<Input>,
    replies: Vec<(TaskId, ResourceId, Answer)>,
    restarts: Vec<bool>,
    /// The task that runs.
    current: Option<TaskId>,
    /// The task that ran last.
    last: Option<TaskId>,
    /// Since when it runs.
    resumed: Time,
    /// How many threads wait for something that the kernel watches.
    waiting: usize,
    order: u32,
    end: Option<Time>,
    /// Changes of the table that have not taken place yet.
    changes: &'static [(Time, Input)],
    /// The next entry is the first one, which measures what an entry takes outside of the kernel, and does nothing else.
    empty: bool,
    tick: (u32, u32),
    costs: Costs,
}

/// The parts of which the kernel is built.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) board: &'static dyn Board,
    pub(crate) tracer: Tracer,
    pub(crate) restarts: Vec<bool>,
    pub(crate) duration: Option<Span>,
    pub(crate) table: u64,
    pub(crate) changes: &'static [(Time, Input)],
}

impl Kernel {
    /// The kernel at time zero, after the engine's first step, which costs most. Allocates all that it ever needs.
    pub(crate) fn new(parts: Parts) -> Kernel {
        let Parts { engine, board, mut tracer, restarts, duration, table, changes } = parts;
        let (tasks, resources) = (engine.system().tasks.len(), engine.system().resources);
        let tick = shared::tick_length(board.frequency());
        let (nanoseconds, ticks) = tick;
        tracer.message(&Message::Header { table, nanoseconds, ticks });
        let mut kernel = Kernel {
            engine,
            board,
            tracer,
            threads: vec![Thread::default(); tasks],
            locks: vec![Lock::default(); usize::from(resources)],
            // A call can be two inputs, each task can have a release, a wake-up and a change, and a measurement comes first.
            inputs: Vec::with_capacity(3 * tasks + 4),
            replies: Vec::with_capacity(2 * tasks + 16),
            restarts,
            current: None,
            last: None,
            resumed: Time::ZERO,
            waiting: 0,
            order: 0,
            end: duration.map(|duration| Time::ZERO + duration),
            changes,
            empty: true,
            tick,
            costs: Costs::default(),
        };
        kernel.change(Time::ZERO);
        kernel.step(Time::ZERO);
        kernel
    }

    /// Ascribes the time since the last entry to the task that ran. Kernel time is no task's.
    fn account(&mut self, now: Time) {
        let Some(task) = self.current else { return };
        let thread = &mut self.threads[task.index()];
        thread.restarted = false;
        let job = self.engine.job_number(task).unwrap_or(thread.job);
        if thread.job != job {
            (thread.job, thread.used, thread.known) = (job, Span::ZERO, Span::ZERO);
        }
        let ran = (now - self.resumed).or_zero();
        self.resumed = self.resumed.max(now);
        thread.used += ran;
        thread.total += ran;
        let total = thread.total;
        free(|cs| {
            if let Some(slot) = port::shared().slot(cs, task.index()) {
                slot.cpu_time.set(total);
            }
        });
        if self.engine.wants_usage(task) && thread.used != thread.known {
            self.inputs.push(Input::Usage { task, consumed: Work::nominal(thread.used) });
        }
    }

    /// A call that is refused, or that is answered without the engine.
    fn answer(&mut self, task: TaskId, answer: Result<(), Error>) {
        if let Some(error) = answer.err().filter(|error| error.is_misuse()) {
            self.costs.misuses += 1;
            self.tracer.message(&Message::Misuse { task: task.0, error: error as u8 });
        }
        free(|cs| port::shared().answer(cs, task.index(), answer));
    }

    /// Makes an input of the running thread's call, or answers it.
    fn call(&mut self, now: Time, call: Call) {
        let Some(task) = self.current else { return };
        let answer = match call {
            Call::Complete => self.complete(task),
            Call::Block if core::mem::take(&mut self.threads[task.index()].token) => Ok(()),
            Call::Block => self.wait(task, None, None, false),
            Call::Sleep(until) if until <= now => Ok(()),
            Call::Sleep(until) => self.wait(task, None, Some(until), true),
            Call::Yield => self.input(Input::Yield { task }),
            Call::Lock(resource) => self.lock(task, resource, false),
            Call::TryLock(resource) => self.lock(task, resource, true),
            #[cfg(feature = "timed-locks")]
            Call::LockUntil(resource, until) => self.lock_until(now, task, resource, until),
            Call::Unlock(resource) => self.unlock(task, resource),
            Call::Wait { on, until, unlock } => self.wait_for(now, task, on, until, unlock),
            Call::Input(input) => self.input(input),
            Call::Counts(of) => {
                let counts = self.engine.counts(TaskId(of));
                free(|cs| port::shared().counts.borrow(cs).set(counts));
                Ok(())
            }
        };
        self.answer(task, answer);
    }

    fn input(&mut self, input: Input) -> Result<(), Error> {
        self.inputs.push(input);
        Ok(())
    }

    fn complete(&mut self, task: TaskId) -> Result<(), Error> {
        if self.threads[task.index()].locks > 0 {
            return Err(Error::HoldsLock);
        }
        let job = self.engine.at(task).ok_or(Error::Refused)?;
        if core::mem::take(&mut self.threads[task.index()].handler) {
            self.locks.iter_mut().filter(|lock| lock.owner == Some(task)).for_each(|lock| lock.owner = None);
        }
        self.input(Input::Complete { task, job })
    }

    fn lock(&mut self, task: TaskId, resource: ResourceId, only_if_free: bool) -> Result<(), Error> {
        let lock = self.locks.get(usize::from(resource.0)).ok_or(Error::Refused)?;
        match lock.owner {
            Some(owner) if owner == task => Err(Error::Held),
            Some(_) if only_if_free => Err(Error::WouldBlock),
            _ => self.input(Input::Lock { task, resource }),
        }
    }

    /// As [`Kernel::lock`]. If another task has the lock, its waiting ends with the grant or at that instant.
    #[cfg(feature = "timed-locks")]
    fn lock_until(&mut self, now: Time, task: TaskId, resource: ResourceId, until: Time) -> Result<(), Error> {
        let is_over = until <= now;
        match self.lock(task, resource, is_over) {
            Err(Error::WouldBlock) => Err(Error::TimedOut),
            Ok(()) if !is_over => {
                self.threads[task.index()].gives_up = Some((resource, until));
                self.waiting += 1;
                Ok(())
            }
            answer => answer,
        }
    }

    /// The thread's request for a lock is granted or over.
    #[inline]
    fn settled(&mut self, task: usize) {
        #[cfg(feature = "timed-locks")]
        if self.threads[task].gives_up.take().is_some() {
            self.waiting -= 1;
        }
        #[cfg(not(feature = "timed-locks"))]
        let _ = task;
    }

    /// Withdraws the requests of threads that give up now. A lock that is unlocked in the same step is granted all the same: the engine then
    /// ignores the withdrawal, and its grant replaces the answer.
    #[cfg(feature = "timed-locks")]
    fn give_up(&mut self, now: Time) {
        for index in 0..self.threads.len() {
            if let Some((resource, _)) = self.threads[index].gives_up.filter(|(_, until)| *until <= now) {
                self.settled(index);
                free(|cs| port::shared().answer(cs, index, Err(Error::TimedOut)));
                self.inputs.push(Input::Withdraw { task: TaskId(index as u32), resource });
            }
        }
    }

    fn unlock(&mut self, task: TaskId, resource: ResourceId) -> Result<(), Error> {
        let lock = self.locks.get_mut(usize::from(resource.0)).filter(|lock| lock.owner == Some(task));
        lock.ok_or(Error::NotHeld)?.owner = None;
        let thread = &mut self.threads[task.index()];
        thread.locks = thread.locks.saturating_sub(1);
        self.input(Input::Unlock { task, resource })
    }

    /// The thread waits: the engine learns that its job is blocked.
    fn wait(
        &mut self,
        task: TaskId,
        on: Option<&'static Waiting>,
        until: Option<Time>,
        sleeps: bool,
    ) -> Result<(), Error> {
        self.order = self.order.wrapping_add(1);
        self.threads[task.index()].wait = Some(Wait { on, until, sleeps, order: self.order });
        self.waiting += 1;
        self.input(Input::Block { task })
    }

    /// The thread wants one of a count. Since it asked, an interrupt may have given one.
    fn wait_for(
        &mut self,
        now: Time,
        task: TaskId,
        on: &'static Waiting,
        until: Option<Time>,
        unlock: Option<ResourceId>,
    ) -> Result<(), Error> {
        if let Some(resource) = unlock {
            self.unlock(task, resource).inspect_err(|_| free(|cs| on.leave(cs)))?;
        }
        if free(|cs| on.take(cs)) {
            free(|cs| on.leave(cs));
            return Ok(());
        }
        if until.is_some_and(|until| until <= now) {
            free(|cs| on.leave(cs));
            return Err(Error::TimedOut);
        }
        self.wait(task, Some(on), until, false)
    }

    /// The thread does not wait any longer.
    fn stop_waiting(&mut self, task: usize) {
        self.settled(task);
        if let Some(wait) = self.threads[task].wait.take() {
            self.waiting -= 1;
            if let Some(on) = wait.on {
                free(|cs| on.leave(cs));
            }
        }
    }

    fn wake(&mut self, task: usize, answer: Result<(), Error>) {
        self.stop_waiting(task);
        free(|cs| port::shared().answer(cs, task, answer));
        self.inputs.push(Input::Wake { task: TaskId(task as u32) });
    }

    /// A wake-up, which a thread that does not wait for one keeps until it does.
    fn signal(&mut self, task: usize) {
        match self.threads[task].wait {
            Some(Wait { on: None, sleeps: false, .. }) => self.wake(task, Ok(())),
            _ => self.threads[task].token = true,
        }
    }

    /// Makes inputs of all that has happened until now besides the running thread's call.
    fn gather(&mut self, now: Time) {
        port::unpend();
        self.notes();
        self.watch(now);
        self.change(now);
    }

    /// Whether something has come up since the last step: a note, or an instant of the engine, unless the run is over. The end of a budget is for
    /// the next entry, which measures the job.
    fn came_up(&self, now: Time) -> bool {
        let is_due = |due: Option<Time>| due.is_some_and(|due| due <= now);
        // The first question is the cheaper one.
        let due = || is_due(self.engine.next_due()) && is_due(self.engine.next_due_with_budgets_from(Time::MAX));
        (due() || free(|cs| port::shared().has_noted(cs))) && self.end.is_none_or(|end| now < end)
    }

    /// Makes inputs of what interrupts and threads have noted. O(tasks) if there is something.
    fn notes(&mut self) {
        if !free(|cs| port::shared().take_noted(cs)) {
            return;
        }
        for index in 0..self.threads.len() {
            let task = TaskId(index as u32);
            let noted = free(|cs| port::shared().take_notes(cs, index));
            if noted & WAKE != 0 {
                self.signal(index);
            }
            if noted & RELEASE != 0 {
                if self.engine.is_released_by_events(task) {
                    self.inputs.push(Input::Release { task });
                } else {
                    self.costs.misuses += 1;
                    self.tracer.message(&Message::Misuse { task: task.0, error: Error::NoEvents as u8 });
                }
            }
        }
    }

    /// Wakes threads that have what they wait for, in the order in which they came, and those whose time has come. O(waiting tasks²).
    fn watch(&mut self, now: Time) {
        if self.waiting == 0 {
            return;
        }
        let there = |thread: &Thread| {
            thread.wait.filter(|wait| wait.on.is_some_and(|on| free(|cs| on.count(cs) > 0))).map(|wait| wait.order)
        };
        let newest = self.order;
        let next = |threads: &[Thread]| {
            let found = threads.iter().enumerate().filter_map(|(index, thread)| Some((there(thread)?, index)));
            // Order numbers wrap around: the distance to the newest counts.
            found.max_by_key(|(order, _)| newest.wrapping_sub(*order)).map(|(_, index)| index)
        };
        while let Some(index) = next(&self.threads) {
            if let Some(on) = self.threads[index].wait.and_then(|wait| wait.on) {
                free(|cs| on.take(cs));
            }
            self.wake(index, Ok(()));
        }
        for index in 0..self.threads.len() {
            let due = |wait: &Wait| wait.until.is_some_and(|until| until <= now);
            if let Some(wait) = self.threads[index].wait.filter(due) {
                self.wake(index, if wait.sleeps { Ok(()) } else { Err(Error::TimedOut) });
            }
        }
        #[cfg(feature = "timed-locks")]
        self.give_up(now);
    }

    /// Makes inputs of the table's changes until `now`, as many as there is room for. The others follow in the next entry.
    fn change(&mut self, now: Time) {
        while let [(at, change), rest @ ..] = self.changes {
            if *at > now || self.inputs.len() == self.inputs.capacity() {
                return;
            }
            self.changes = rest;
            match *change {
                Input::Wake { task } if self.threads[task.index()].wait.is_some() => self.signal(task.index()),
                input => self.inputs.push(input),
            }
        }
    }

    /// A fault of the running thread: the job is aborted, or the kernel stops.
    #[cold]
    #[inline(never)]
    fn fault(&mut self, fault: &Fault) {
        let Fault { cause, task, pc, lr, detail, at } = *fault;
        self.tracer.message(&Message::Fault { task, cause: cause as u8, pc, lr, detail, at });
        let known = self.current.filter(|current| Some(current.0) == task && self.restarts[current.index()]);
        let Some(task) = known else {
            self.tracer.finish(self.board);
            port::shared().stop(fault)
        };
        self.inputs.push(Input::Abort { task });
    }

    /// The stack of the running thread has overflowed, which no hardware noticed.
    #[cold]
    #[inline(never)]
    fn overflow(&mut self, task: TaskId, at: Time) {
        self.fault(&Fault { cause: Cause::StackOverflow, task: Some(task.0), pc: 0, lr: 0, detail: 0, at });
    }

    /// The thread's job was aborted. Its locks are poisoned, and the engine has unlocked them, unless a handler follows.
    fn aborted(&mut self, task: TaskId) {
        let described = self.engine.system().tasks[task.index()].handler.is_some();
        let thread = &mut self.threads[task.index()];
        thread.handler = described && !thread.handler;
        let owner = Some(task).filter(|_| thread.handler);
        for lock in self.locks.iter_mut().filter(|lock| lock.owner == Some(task)) {
            *lock = Lock { owner, poisoned: true };
        }
        self.begin_again(task, false);
    }

    /// The thread begins again, and waits for nothing.
    fn begin_again(&mut self, task: TaskId, handler: bool) {
        self.stop_waiting(task.index());
        let thread = &mut self.threads[task.index()];
        (thread.locks, thread.restarted, thread.used, thread.known) = (0, true, Span::ZERO, Span::ZERO);
        port::restart(task.index(), handler);
    }

    /// One step of the engine, and what follows from it.
    fn step(&mut self, now: Time) {
        if let Some(Input::Usage { task, consumed }) = self.inputs.first() {
            self.threads[task.index()].known = consumed.nominal_time();
        }
        self.tracer.step(&Message::Step { now }, &self.inputs);
        let reaction = self.engine.step(now, &self.inputs, &mut self.tracer);
        let commands = reaction.commands.len();
        for reply in reaction.replies {
            if let Question::Resource(resource) = reply.question {
                self.replies.push((reply.task, resource, reply.answer));
            }
        }
        self.costs.steps += 1;
        for index in 0..commands {
            match self.engine.commands()[index] {
                Command::Replace { task } => self.aborted(task),
                Command::Start { task, work: Activity::Handler, .. }
                | Command::Continue { task, work: Activity::Handler, .. } => {
                    self.threads[task.index()].handler = true;
                    self.begin_again(task, true);
                }
                _ => {}
            }
        }
        while let Some((task, resource, answer)) = self.replies.pop() {
            match answer {
                Answer::Granted => self.granted(task, resource),
                Answer::Refused => {
                    self.settled(task.index());
                    self.answer(task, Err(Error::Refused));
                }
                Answer::Waits => {}
            }
        }
        self.inputs.clear();
        self.current = self.engine.running_on(Place(0));
    }

    fn granted(&mut self, task: TaskId, resource: ResourceId) {
        self.settled(task.index());
        let (lock, thread) = (&mut self.locks[usize::from(resource.0)], &mut self.threads[task.index()]);
        // The job can have been aborted in the same step. Then the lock is free again, or its handler keeps it, which has made no call.
        if !thread.restarted || thread.handler {
            lock.owner = Some(task);
        }
        if thread.restarted {
            return;
        }
        let poisoned = core::mem::take(&mut lock.poisoned);
        thread.locks += 1;
        self.answer(task, if poisoned { Err(Error::Poisoned) } else { Ok(()) });
    }

    /// The end of the run: the engine is closed, and the figures follow.
    fn close(&mut self, end: Time) -> ! {
        // Time does not count any longer, and the last messages need room.
        self.tracer.finish(self.board);
        self.tracer.step(&Message::Close { end }, &self.inputs);
        self.engine.close(end, &self.inputs, &mut self.tracer);
        self.tracer.finish(self.board);
        self.figures();
        self.tracer.message(&Message::End);
        self.tracer.finish(self.board);
        self.board.end(Ending::Completed)
    }

    fn figures(&mut self) {
        let (arena, late) = port::memory();
        let Costs { entries, steps, misuses, of } = core::mem::take(&mut self.costs);
        let mut figure = |kind, index: usize, value: u64| {
            self.tracer.message(&Message::Figure(Figure { kind, index: index as u32, value }));
        };
        figure(FigureKind::Arena, 0, arena.into());
        figure(FigureKind::LateAllocations, 0, late.into());
        figure(FigureKind::HandlerStack, 0, port::handler_stack_used().into());
        figure(FigureKind::Entries, 0, entries.into());
        figure(FigureKind::Steps, 0, steps.into());
        figure(FigureKind::Misuses, 0, misuses.into());
        figure(FigureKind::Outside, 0, free(|cs| port::shared().outside(cs)).into());
        for (kind, (count, ticks, most)) in of.into_iter().enumerate() {
            figure(FigureKind::StepCount, kind, count.into());
            figure(FigureKind::StepTicks, kind, ticks);
            figure(FigureKind::StepMost, kind, most.into());
        }
        for index in 0..=self.threads.len() {
            figure(FigureKind::Stack, index, port::stack_used(index).into());
        }
        for (index, thread) in self.threads.iter().enumerate() {
            let merged = free(|cs| port::shared().slot(cs, index).map_or(0, |slot| slot.merged.get()));
            figure(FigureKind::CpuTime, index, thread.total.ns() as u64);
            figure(FigureKind::Merged, index, merged.into());
        }
        for index in 0..FIGURES {
            let value = free(|cs| port::shared().own(cs, index));
            if value > 0 {
                figure(FigureKind::Own, index, value);
            }
        }
    }

    /// Sets the alarm to the next instant at which the kernel has something to do. The counter was read at the instant `now`.
    fn plan(&mut self, counter: u32, now: Time) {
        self.resumed = now;
        // The budget of the thread that runs lasts from now on: its job has not run since it was stopped, and the kernel's time is not its own.
        let left = self.current.filter(|task| self.engine.wants_usage(*task)).and_then(|task| {
            let thread = &self.threads[task.index()];
            Some(self.engine.budget_noticed_in(task)? - (thread.used - thread.known))
        });
        let due = match left {
            Some(left) => self.engine.next_due_with_budgets_from(self.resumed + left.or_zero()),
            None => self.engine.next_due(),
        };
        let mut due = due.unwrap_or(Time::MAX).min(self.end.unwrap_or(Time::MAX));
        due = self.changes.first().map_or(due, |(at, _)| due.min(*at));
        if self.waiting > 0 {
            let until = |thread: &Thread| thread.wait.and_then(|wait| wait.until);
            due = self.threads.iter().filter_map(until).fold(due, Time::min);
            #[cfg(feature = "timed-locks")]
            {
                let until = |thread: &Thread| thread.gives_up.map(|(_, until)| until);
                due = self.threads.iter().filter_map(until).fold(due, Time::min);
            }
        }
        let ticks = shared::ticks_of(due.max(self.resumed) - self.resumed, self.tick);
        // The time that this took is over.
        let passed = self.board.ticks().wrapping_sub(counter);
        self.board.alarm(ticks.saturating_sub(passed).max(1));
    }
}

impl Scheduler for Kernel {
    fn enter(&mut self) -> usize {
        let before = self.board.ticks();
        if core::mem::take(&mut self.empty) {
            free(|cs| port::shared().call.borrow(cs).take());
            let inside = self.board.ticks().wrapping_sub(before);
            free(|cs| port::shared().set_inside(cs, inside));
            return self.threads.len();
        }
        // One after the other: interrupts are masked for as long as one takes.
        let now = free(|cs| port::shared().at(cs, before));
        let call = free(|cs| port::shared().call.borrow(cs).take());
        let fault = free(|cs| port::shared().fault.borrow(cs).take());
        self.costs.entries += 1;
        self.inputs.clear();
        self.account(now);
        if let Some(end) = self.end.filter(|end| *end <= now) {
            // A job that ends with the run is completed.
            if let (Some(Call::Complete), Some(task)) = (call, self.current.filter(|_| end == now)) {
                let _ = self.complete(task);
            }
            self.close(end);
        }
        let measured = self.inputs.len();
        if let Some(fault) = &fault {
            self.fault(fault);
        } else if let Some(task) = self.current.filter(|task| port::overflowed(task.index())) {
            self.overflow(task, now);
        } else if let Some(call) = call {
            self.call(now, call);
        }
        self.gather(now);
        let kind = self.inputs.get(measured).map_or(0, kind);
        let mut steps = 0;
        if self.inputs.len() > measured || self.engine.next_due().is_some_and(|due| due <= now) {
            self.step(now);
            steps += 1;
        }
        // Events during the step do not wait for an entry of their own.
        loop {
            let counter = self.board.ticks();
            let now = free(|cs| port::shared().at(cs, counter));
            if !self.came_up(now) {
                self.plan(counter, now);
                break;
            }
            self.gather(now);
            self.step(now);
            steps += 1;
        }
        if steps == 1 {
            let ticks = self.board.ticks().wrapping_sub(before);
            self.costs.add(kind, ticks);
            if self.current.is_some() {
                self.costs.add(if self.last == self.current { SAME_TASK } else { OTHER_TASK }, ticks);
            }
        }
        if steps > 0 {
            self.last = self.current.or(self.last);
        }
        free(|cs| port::shared().current.borrow(cs).set(self.current.map_or(IDLE, TaskId::index)));
        self.current.map_or(self.threads.len(), TaskId::index)
    }
}
