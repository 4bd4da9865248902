//! Inputs in any order, early, late and repeated, make no engine panic, and its counts add up.

#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::{Corpus, fuzz_target};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Ending, Engine, Input};
use takt_core::model::*;
use takt_core::record::{JobId, Place};
use takt_core::registry::REGISTRY;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;
use takt_core::work::Work;

const RESOURCES: u16 = 2;

fn span(u: &mut Unstructured<'_>, least: i64, most: i64) -> Result<Span> {
    Ok(Span::from_us(u.int_in_range(least..=most)?))
}

fn maybe<T>(u: &mut Unstructured<'_>, draw: impl FnOnce(&mut Unstructured<'_>) -> Result<T>) -> Result<Option<T>> {
    if u.arbitrary()? { draw(u).map(Some) } else { Ok(None) }
}

fn task(u: &mut Unstructured<'_>, cpus: usize) -> Result<Task> {
    let (offset, period) = (span(u, 0, 20)?, span(u, 1, 60)?);
    let arrival = match u.int_in_range(0..=2)? {
        0 => Arrival::Periodic { offset, period },
        1 => Arrival::Sporadic { offset, period, spread: span(u, 0, 20)? },
        _ => Arrival::Listed { instants: (0..u.int_in_range(1..=5)?).map(|k| offset + period * k).collect() },
    };
    let handler = |u: &mut Unstructured<'_>| {
        Ok(Handler { runtime: span(u, 1, 9)?, deadline: maybe(u, |u| span(u, 1, 30))?, utility: 1 })
    };
    let reservation = |u: &mut Unstructured<'_>| {
        let budget = span(u, 1, 20)?;
        Ok(Reservation::new(budget, budget + span(u, 0, 40)?))
    };
    Ok(Task {
        arrival,
        deadline: maybe(u, |u| span(u, 1, 70))?,
        runtime: maybe(u, |u| span(u, 1, 30))?,
        budget: maybe(u, |u| span(u, 1, 30))?,
        handler: maybe(u, handler)?,
        reservation: maybe(u, reservation)?,
        utility: maybe(u, |u| Ok(Utility::Step(u.int_in_range(0..=9)?)))?,
        priority: u.int_in_range(0..=3)?,
        share: maybe(u, |u| u.int_in_range(1..=500_000))?,
        affinity: if u.arbitrary()? { CpuSet::first(cpus) } else { CpuSet::single(u.int_in_range(0..=cpus - 1)?) },
        ..Task::default()
    })
}

fn system(u: &mut Unstructured<'_>) -> Result<System> {
    let entry = *u.choose(REGISTRY)?;
    let scope = *u.choose(entry.profile.scopes)?;
    let policy = PolicySpec::new(&entry.profile, scope);
    let cpus = if scope == Scope::Uniprocessor { 1 } else { u.int_in_range(1..=3)? };
    let tasks = (0..u.int_in_range(1..=5)?).map(|_| task(u, cpus)).collect::<Result<_>>()?;
    Ok(System {
        tasks,
        resources: RESOURCES,
        late: *u.choose(&[Late::Continue, Late::Abort, Late::AbortAtEvent])?,
        backlog: *u.choose(&[Backlog::Queue, Backlog::Skip, Backlog::Chronos, Backlog::Hartstone])?,
        locking: *u.choose(&[Locking::Fifo, Locking::Inheritance, Locking::Ceiling])?,
        ..System::new(CpuSet::first(cpus), policy)
    })
}

fn input(u: &mut Unstructured<'_>, engine: &Engine) -> Result<Input> {
    let tasks = engine.system().tasks.len() as u32;
    let task = TaskId(u.int_in_range(0..=tasks - 1)?);
    let resource = ResourceId(u.int_in_range(0..=RESOURCES - 1)?);
    let job: JobId = match u.int_in_range(0..=3)? {
        0 => u.int_in_range(0..=9)?,
        _ => engine.at(task).unwrap_or(0),
    };
    Ok(match u.int_in_range(0..=17)? {
        0..=3 => Input::Complete { task, job },
        4 => Input::Block { task },
        5 => Input::Wake { task },
        6 => Input::Hold { task },
        7 => Input::Lock { task, resource },
        8 => Input::Unlock { task, resource },
        9 => Input::Yield { task },
        10 => Input::Abort { task },
        11 => Input::Leave { task },
        12 => Input::Enter { task },
        13 => {
            let call = [Call::Period(span(u, -1, 60)?), Call::Deadline(span(u, -1, 60)?), Call::Runtime(span(u, -1, 60)?)];
            Input::Call { task, call: *u.choose(&call)? }
        }
        14 => {
            let (period, deadline, runtime) = (span(u, -1, 60)?, maybe(u, |u| span(u, 0, 60))?, maybe(u, |u| span(u, 0, 30))?);
            Input::Retime { task, period, deadline, runtime }
        }
        15 => Input::Usage { task, consumed: Work::nominal(span(u, 0, 40)?) },
        16 => Input::Dispatched { task, place: Place(0), at: engine.now() },
        _ => Input::Exit { task, ending: Ending { regular: u.arbitrary()?, replaced: u.arbitrary()? } },
    })
}

fn play(u: &mut Unstructured<'_>) -> Result<()> {
    let Ok(mut engine) = Engine::new(system(u)?) else { return Ok(()) };
    while !u.is_empty() {
        let due = engine.next_due().unwrap_or(Time::MAX);
        let soon = engine.now() + span(u, 0, 30)?;
        let now = if u.arbitrary()? { due.min(soon) } else { soon };
        let inputs = (0..u.int_in_range(0..=3)?).map(|_| input(u, &engine)).collect::<Result<Vec<_>>>()?;
        let _ = engine.step(now, &inputs, &mut ());
    }
    engine.close(engine.now(), &[], &mut ());
    let totals = engine.totals();
    assert!(totals.met + totals.missed <= totals.released, "{totals:?}");
    assert!(totals.completed <= totals.released, "{totals:?}");
    Ok(())
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let _ = play(&mut Unstructured::new(bytes));
    Corpus::Keep
});
