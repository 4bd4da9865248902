//! Systems as bytes, as far as an online policy needs them. The policy itself is not among them; who reads them names it.

use super::bytes::{Output, Reader, VERSION};
use crate::cpus::CpuSet;
use crate::model::{
    Arrival, Backlog, Completion, Fit, Handler, Late, Load, Locking, MAX_SETTINGS, OnAbort, Placement, PolicySpec,
    Profile, Program, Reservation, ResourceId, Scope, Server, ServerId, Step, System, Task, TaskId, Timing,
};
use crate::time::{Span, Time};
use crate::utility::Utility;
use alloc::vec::Vec;

/// The part of a system that has no form in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotEncoded(pub &'static str);

/// Writes a system. Of the steps of programs it keeps the locks, which declare the users of resources.
///
/// # Errors
/// The part of the system that has no form: window tables, domains, other policies that may take over, speeds of CPUs, execution times.
pub fn put_system(out: &mut impl Output, system: &System) -> Result<(), NotEncoded> {
    let System { removed, partitions, windows, domains, alternatives, tables, speeds, .. } = system;
    let absent = |empty: bool, what| if empty { Ok(()) } else { Err(NotEncoded(what)) };
    absent(partitions.is_empty() && windows.is_empty() && tables.is_empty(), "window tables")?;
    absent(domains.is_empty(), "domains")?;
    absent(alternatives.is_empty(), "policies that may take over")?;
    absent(speeds.is_empty(), "speeds of CPUs")?;
    absent(removed.is_empty(), "removed tasks")?;
    let activated = system.tasks.iter().any(|task| task.arrival == Arrival::Activated);
    absent(!activated, "processes of window tables")?;
    out.unsigned(VERSION);
    put_policy(out, &system.policy);
    put_cpus(out, &system.cpus);
    out.put(system.late as u8);
    out.put(system.backlog as u8);
    out.put(system.locking as u8);
    out.unsigned(u64::from(system.resources));
    let Timing { tick, resolution, lateness } = system.timing;
    [tick, resolution, lateness].into_iter().for_each(|span| out.signed(span.ns()));
    out.unsigned(system.seed);
    out.maybe(system.horizon.map(Time::ns));
    put_load(out, system.load.as_ref());
    out.unsigned(system.servers.len() as u64);
    for server in &system.servers {
        put_reservation(out, &server.reservation);
        out.unsigned(u64::from(server.priority));
    }
    out.unsigned(system.tasks.len() as u64);
    system.tasks.iter().for_each(|task| put_task(out, task));
    Ok(())
}

/// Reads a system that `profile` schedules; `None` for bytes that are none, or of another version.
#[must_use]
pub fn get_system(bytes: &[u8], profile: &'static Profile) -> Option<System> {
    let mut input = Fields { reader: Reader::new(bytes), damaged: false };
    let input = &mut input;
    let version = input.unsigned();
    let policy = get_policy(input, profile);
    let cpus = get_cpus(input);
    let late = input.choice(&[Late::Continue, Late::Abort, Late::AbortAtEvent]);
    let backlog = input.choice(&[Backlog::Queue, Backlog::Skip, Backlog::Chronos, Backlog::Hartstone]);
    let locking = input.choice(&[Locking::Fifo, Locking::Inheritance, Locking::Ceiling]);
    let resources = input.small();
    let timing = Timing { tick: input.span(), resolution: input.span(), lateness: input.span() };
    let seed = input.unsigned();
    let horizon = input.maybe().map(Time::from_ns);
    let load = if input.truth() { Some(get_load(input)) } else { None };
    let servers = input.list(|input| Server { reservation: get_reservation(input), priority: input.small() });
    let tasks = input.list(get_task);
    let system = System {
        tasks,
        servers,
        late,
        backlog,
        resources,
        locking,
        timing,
        load,
        horizon,
        seed,
        ..System::new(cpus, policy)
    };
    (version == VERSION && !input.damaged && input.reader.is_at_end()).then_some(system)
}

/// Reads values one after the other. A value that is damaged is read as zero and remembered, so that one check at the end does for all:
/// a check of each value takes kilobytes of a microcontroller's flash.
struct Fields<'a> {
    reader: Reader<'a>,
    damaged: bool,
}

impl Fields<'_> {
    fn sound<T: Default>(&mut self, value: Option<T>) -> T {
        self.damaged |= value.is_none();
        value.unwrap_or_default()
    }

    #[inline(never)]
    fn byte(&mut self) -> u8 {
        let byte = self.reader.byte();
        self.sound(byte)
    }

    #[inline(never)]
    fn unsigned(&mut self) -> u64 {
        let number = self.reader.unsigned();
        self.sound(number)
    }

    #[inline(never)]
    fn signed(&mut self) -> i64 {
        let number = self.reader.signed();
        self.sound(number)
    }

    #[inline(never)]
    fn maybe(&mut self) -> Option<i64> {
        let number = self.reader.maybe();
        self.sound(number)
    }

    #[inline(never)]
    fn word(&mut self) -> u32 {
        let number = self.reader.small();
        self.sound(number)
    }

    fn small<T: TryFrom<u32> + Default>(&mut self) -> T {
        let word = self.word();
        self.sound(T::try_from(word).ok())
    }

    fn truth(&mut self) -> bool {
        let byte = self.byte();
        self.damaged |= byte > 1;
        byte == 1
    }

    fn span(&mut self) -> Span {
        Span::from_ns(self.signed())
    }

    fn maybe_span(&mut self) -> Option<Span> {
        self.maybe().map(Span::from_ns)
    }

    /// A number that may be missing and has 32 bits.
    fn maybe_word(&mut self) -> Option<u32> {
        let number = self.maybe()?;
        Some(self.sound(u32::try_from(number).ok()))
    }

    fn choice<T: Copy>(&mut self, all: &[T]) -> T {
        let chosen = all.get(usize::from(self.byte()));
        self.damaged |= chosen.is_none();
        *chosen.unwrap_or(&all[0])
    }

    /// A list of what `get` reads. Each entry has a byte at least, so that a damaged length allocates no more than there are bytes.
    fn list<T>(&mut self, mut get: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let length = self.word() as usize;
        let mut all = Vec::with_capacity(length.min(1024));
        while all.len() < length && !self.damaged {
            all.push(get(self));
        }
        all
    }
}

fn put_policy(out: &mut impl Output, spec: &PolicySpec) {
    out.put(spec.scope as u8);
    out.put(spec.placement.fit as u8);
    out.put(u8::from(spec.placement.decreasing));
    out.unsigned(u64::from(spec.cluster));
    out.put(spec.mapper);
    let given = || spec.values.iter().enumerate().filter_map(|(index, value)| Some((index, value?)));
    out.unsigned(given().count() as u64);
    for (index, value) in given() {
        out.put(index as u8);
        out.signed(value);
    }
}

fn get_policy(input: &mut Fields<'_>, profile: &'static Profile) -> PolicySpec {
    let scopes = [Scope::Uniprocessor, Scope::Global, Scope::Partitioned, Scope::Clustered, Scope::Table];
    let mut spec = PolicySpec::new(profile, input.choice(&scopes));
    let fit = input.choice(&[Fit::First, Fit::Best, Fit::Worst]);
    spec.placement = Placement { fit, decreasing: input.truth() };
    spec.cluster = input.small();
    spec.mapper = input.byte();
    let mut settings = input.word();
    while settings > 0 && !input.damaged {
        settings -= 1;
        let (index, value) = (usize::from(input.byte()), input.signed());
        if index < MAX_SETTINGS {
            spec.values.set(index, Some(value));
        } else {
            input.damaged = true;
        }
    }
    spec
}

fn put_cpus(out: &mut impl Output, cpus: &CpuSet) {
    out.unsigned(cpus.len() as u64);
    cpus.iter().for_each(|cpu| out.unsigned(cpu as u64));
}

fn get_cpus(input: &mut Fields<'_>) -> CpuSet {
    let mut cpus = CpuSet::EMPTY;
    let mut rest = input.word();
    while rest > 0 && !input.damaged {
        rest -= 1;
        let cpu = input.word() as usize;
        if cpu < crate::cpus::MAX_CPUS {
            cpus = cpus.union(&CpuSet::single(cpu));
        } else {
            input.damaged = true;
        }
    }
    cpus
}

fn put_reservation(out: &mut impl Output, reservation: &Reservation) {
    out.signed(reservation.budget.ns());
    out.signed(reservation.period.ns());
    out.maybe(reservation.deadline.map(Span::ns));
}

fn get_reservation(input: &mut Fields<'_>) -> Reservation {
    Reservation { budget: input.span(), period: input.span(), deadline: input.maybe_span() }
}

fn put_load(out: &mut impl Output, load: Option<&Load>) {
    out.put(u8::from(load.is_some()));
    let Some(Load { points, repeat }) = load else { return };
    out.maybe(repeat.map(Span::ns));
    out.unsigned(points.len() as u64);
    for (at, factor) in points {
        out.signed(at.ns());
        out.unsigned(u64::from(*factor));
    }
}

fn get_load(input: &mut Fields<'_>) -> Load {
    let repeat = input.maybe_span();
    Load { points: input.list(|input| (input.span(), input.small())), repeat }
}

fn put_utility(out: &mut impl Output, utility: Option<&Utility>) {
    match utility {
        None => out.put(0),
        Some(Utility::Step(height)) => {
            out.put(1);
            out.unsigned(*height);
        }
        Some(Utility::Linear { height, until }) => {
            out.put(2);
            out.unsigned(*height);
            out.maybe(until.map(Span::ns));
        }
        Some(Utility::Exponential { height, half_life }) => {
            out.put(3);
            out.unsigned(*height);
            out.signed(half_life.ns());
        }
        Some(Utility::Table(points)) => {
            out.put(4);
            out.unsigned(points.len() as u64);
            for (at, value) in points {
                out.signed(at.ns());
                out.unsigned(*value);
            }
        }
    }
}

fn get_utility(input: &mut Fields<'_>) -> Option<Utility> {
    Some(match input.byte() {
        1 => Utility::Step(input.unsigned()),
        2 => Utility::Linear { height: input.unsigned(), until: input.maybe_span() },
        3 => Utility::Exponential { height: input.unsigned(), half_life: input.span() },
        4 => Utility::Table(input.list(|input| (input.span(), input.unsigned()))),
        other => {
            input.damaged |= other != 0;
            return None;
        }
    })
}

fn put_arrival(out: &mut impl Output, arrival: &Arrival) {
    match arrival {
        Arrival::Periodic { offset, period } => {
            out.put(0);
            [offset, period].into_iter().for_each(|span| out.signed(span.ns()));
        }
        Arrival::Sporadic { offset, period, spread } => {
            out.put(1);
            [offset, period, spread].into_iter().for_each(|span| out.signed(span.ns()));
        }
        Arrival::Listed { instants } => {
            out.put(2);
            out.unsigned(instants.len() as u64);
            instants.iter().for_each(|at| out.signed(at.ns()));
        }
        Arrival::Event { distance, queue, after } => {
            out.put(3);
            out.signed(distance.ns());
            out.unsigned(u64::from(*queue));
            out.maybe(after.map(|task| i64::from(task.0)));
        }
        Arrival::Activated => out.put(4),
    }
}

fn get_arrival(input: &mut Fields<'_>) -> Arrival {
    match input.byte() {
        0 => Arrival::Periodic { offset: input.span(), period: input.span() },
        1 => Arrival::Sporadic { offset: input.span(), period: input.span(), spread: input.span() },
        2 => Arrival::Listed { instants: input.list(Fields::span) },
        3 => {
            let (distance, queue) = (input.span(), input.small());
            Arrival::Event { distance, queue, after: input.maybe_word().map(TaskId) }
        }
        _ => {
            input.damaged = true;
            Arrival::Activated
        }
    }
}

fn put_task(out: &mut impl Output, task: &Task) {
    let Task {
        arrival,
        deadline,
        runtime,
        program,
        handler,
        on_abort,
        completion,
        utility,
        budget,
        jitter,
        reservation,
        server,
        priority,
        share,
        importance,
        affinity,
    } = task;
    put_arrival(out, arrival);
    out.maybe(deadline.map(Span::ns));
    out.maybe(runtime.map(Span::ns));
    let locks = || {
        program.steps.iter().filter_map(|step| match step {
            Step::Lock(resource) => Some((resource, true)),
            Step::Unlock(resource) => Some((resource, false)),
            _ => None,
        })
    };
    out.unsigned(locks().count() as u64);
    locks().for_each(|(resource, locked)| out.unsigned(u64::from(resource.0) << 1 | u64::from(locked)));
    out.put(u8::from(handler.is_some()));
    if let Some(handler) = handler {
        out.signed(handler.runtime.ns());
        out.maybe(handler.deadline.map(Span::ns));
        out.unsigned(handler.utility);
    }
    out.put(*on_abort as u8);
    out.put(*completion as u8);
    put_utility(out, utility.as_ref());
    out.maybe(budget.map(Span::ns));
    out.signed(jitter.ns());
    out.put(u8::from(reservation.is_some()));
    reservation.iter().for_each(|reservation| put_reservation(out, reservation));
    out.maybe(server.map(|server| i64::from(server.0)));
    out.unsigned(u64::from(*priority));
    out.maybe(share.map(i64::from));
    out.unsigned(u64::from(*importance));
    put_cpus(out, affinity);
}

fn get_task(input: &mut Fields<'_>) -> Task {
    let arrival = get_arrival(input);
    let (deadline, runtime) = (input.maybe_span(), input.maybe_span());
    let steps = input.list(|input| {
        let lock = input.word();
        let resource = ResourceId(input.sound(u16::try_from(lock >> 1).ok()));
        if lock & 1 == 1 { Step::Lock(resource) } else { Step::Unlock(resource) }
    });
    let handler = if input.truth() {
        Some(Handler { runtime: input.span(), deadline: input.maybe_span(), utility: input.unsigned() })
    } else {
        None
    };
    let on_abort = input.choice(&[OnAbort::Finish, OnAbort::Restart, OnAbort::Signal]);
    let completions = [Completion::Undeclared, Completion::Signal, Completion::Exit, Completion::None];
    let completion = input.choice(&completions);
    let utility = get_utility(input);
    let (budget, jitter) = (input.maybe_span(), input.span());
    let reservation = if input.truth() { Some(get_reservation(input)) } else { None };
    let server = input.maybe_word().map(ServerId);
    let priority = input.small();
    let share = input.maybe_word();
    let importance = input.small();
    let affinity = get_cpus(input);
    let program = Program::doing(steps);
    Task {
        arrival,
        deadline,
        runtime,
        program,
        handler,
        on_abort,
        completion,
        utility,
        budget,
        jitter,
        reservation,
        server,
        priority,
        share,
        importance,
        affinity,
    }
}
