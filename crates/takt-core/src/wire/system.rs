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
    let mut reader = Reader::new(bytes);
    let reader = &mut reader;
    (reader.unsigned()? == VERSION).then_some(())?;
    let policy = get_policy(reader, profile)?;
    let cpus = get_cpus(reader)?;
    let late = choice(reader, &[Late::Continue, Late::Abort, Late::AbortAtEvent])?;
    let backlogs = [Backlog::Queue, Backlog::Skip, Backlog::Chronos, Backlog::Hartstone];
    let backlog = choice(reader, &backlogs)?;
    let locking = choice(reader, &[Locking::Fifo, Locking::Inheritance, Locking::Ceiling])?;
    let resources = reader.small()?;
    let timing = Timing { tick: span(reader)?, resolution: span(reader)?, lateness: span(reader)? };
    let seed = reader.unsigned()?;
    let horizon = reader.maybe()?.map(Time::from_ns);
    let load = get_load(reader)?;
    let servers =
        list(reader, |reader| Some(Server { reservation: get_reservation(reader)?, priority: reader.small()? }))?;
    let tasks = list(reader, get_task)?;
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
    reader.is_at_end().then_some(system)
}

fn choice<T: Copy>(reader: &mut Reader<'_>, all: &[T]) -> Option<T> {
    all.get(usize::from(reader.byte()?)).copied()
}

fn span(reader: &mut Reader<'_>) -> Option<Span> {
    reader.signed().map(Span::from_ns)
}

fn maybe_span(reader: &mut Reader<'_>) -> Option<Option<Span>> {
    Some(reader.maybe()?.map(Span::from_ns))
}

/// A list of what `get` reads. Each entry has a byte at least, so that a damaged length allocates no more than there are bytes.
fn list<T>(reader: &mut Reader<'_>, mut get: impl FnMut(&mut Reader<'_>) -> Option<T>) -> Option<Vec<T>> {
    let length = reader.small::<usize>()?;
    let mut all = Vec::with_capacity(length.min(1024));
    for _ in 0..length {
        all.push(get(reader)?);
    }
    Some(all)
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

fn get_policy(reader: &mut Reader<'_>, profile: &'static Profile) -> Option<PolicySpec> {
    let scopes = [Scope::Uniprocessor, Scope::Global, Scope::Partitioned, Scope::Clustered, Scope::Table];
    let mut spec = PolicySpec::new(profile, choice(reader, &scopes)?);
    let fit = choice(reader, &[Fit::First, Fit::Best, Fit::Worst])?;
    spec.placement = Placement { fit, decreasing: reader.truth()? };
    spec.cluster = reader.small()?;
    spec.mapper = reader.byte()?;
    for _ in 0..reader.unsigned()? {
        let index = usize::from(reader.byte()?);
        let value = reader.signed()?;
        (index < MAX_SETTINGS).then(|| spec.values.set(index, Some(value)))?;
    }
    Some(spec)
}

fn put_cpus(out: &mut impl Output, cpus: &CpuSet) {
    out.unsigned(cpus.len() as u64);
    cpus.iter().for_each(|cpu| out.unsigned(cpu as u64));
}

fn get_cpus(reader: &mut Reader<'_>) -> Option<CpuSet> {
    let mut cpus = CpuSet::EMPTY;
    for _ in 0..reader.unsigned()? {
        let cpu = reader.small::<usize>()?;
        (cpu < crate::cpus::MAX_CPUS).then_some(())?;
        cpus = cpus.union(&CpuSet::single(cpu));
    }
    Some(cpus)
}

fn put_reservation(out: &mut impl Output, reservation: &Reservation) {
    out.signed(reservation.budget.ns());
    out.signed(reservation.period.ns());
    out.maybe(reservation.deadline.map(Span::ns));
}

fn get_reservation(reader: &mut Reader<'_>) -> Option<Reservation> {
    Some(Reservation { budget: span(reader)?, period: span(reader)?, deadline: maybe_span(reader)? })
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

fn get_load(reader: &mut Reader<'_>) -> Option<Option<Load>> {
    if !reader.truth()? {
        return Some(None);
    }
    let repeat = maybe_span(reader)?;
    let points = list(reader, |reader| Some((span(reader)?, reader.small()?)))?;
    Some(Some(Load { points, repeat }))
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

fn get_utility(reader: &mut Reader<'_>) -> Option<Option<Utility>> {
    Some(Some(match reader.byte()? {
        0 => return Some(None),
        1 => Utility::Step(reader.unsigned()?),
        2 => Utility::Linear { height: reader.unsigned()?, until: maybe_span(reader)? },
        3 => Utility::Exponential { height: reader.unsigned()?, half_life: span(reader)? },
        4 => Utility::Table(list(reader, |reader| Some((span(reader)?, reader.unsigned()?)))?),
        _ => return None,
    }))
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

fn get_arrival(reader: &mut Reader<'_>) -> Option<Arrival> {
    Some(match reader.byte()? {
        0 => Arrival::Periodic { offset: span(reader)?, period: span(reader)? },
        1 => Arrival::Sporadic { offset: span(reader)?, period: span(reader)?, spread: span(reader)? },
        2 => Arrival::Listed { instants: list(reader, span)? },
        3 => {
            let (distance, queue) = (span(reader)?, reader.small()?);
            let after = match reader.maybe()? {
                Some(task) => Some(TaskId(u32::try_from(task).ok()?)),
                None => None,
            };
            Arrival::Event { distance, queue, after }
        }
        _ => return None,
    })
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

fn get_task(reader: &mut Reader<'_>) -> Option<Task> {
    let arrival = get_arrival(reader)?;
    let (deadline, runtime) = (maybe_span(reader)?, maybe_span(reader)?);
    let steps = list(reader, |reader| {
        let lock = reader.small::<u32>()?;
        let resource = ResourceId(u16::try_from(lock >> 1).ok()?);
        Some(if lock & 1 == 1 { Step::Lock(resource) } else { Step::Unlock(resource) })
    })?;
    let handler = match reader.truth()? {
        true => Some(Handler { runtime: span(reader)?, deadline: maybe_span(reader)?, utility: reader.unsigned()? }),
        false => None,
    };
    let on_abort = choice(reader, &[OnAbort::Finish, OnAbort::Restart, OnAbort::Signal])?;
    let completions = [Completion::Undeclared, Completion::Signal, Completion::Exit, Completion::None];
    let completion = choice(reader, &completions)?;
    let utility = get_utility(reader)?;
    let (budget, jitter) = (maybe_span(reader)?, span(reader)?);
    let reservation = if reader.truth()? { Some(get_reservation(reader)?) } else { None };
    let server = match reader.maybe()? {
        Some(server) => Some(ServerId(u32::try_from(server).ok()?)),
        None => None,
    };
    let priority = reader.small()?;
    let share = match reader.maybe()? {
        Some(share) => Some(u32::try_from(share).ok()?),
        None => None,
    };
    let importance = reader.small()?;
    let affinity = get_cpus(reader)?;
    let program = Program::doing(steps);
    Some(Task {
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
    })
}
