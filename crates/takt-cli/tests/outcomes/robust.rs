//! Whether the outcomes of a workload depend on microseconds.

use takt_core::engine::Engine;
use takt_core::model::{Completion, Execution, Handler, OnAbort, Step, Task};
use takt_core::record::{Outcome, Record, RecordKind};
use takt_core::rng::draw_up_to;
use takt_core::scenario::Scenario;
use takt_core::stats::Counts;
use takt_core::time::{Span, Time};
use takt_workload::{Options, Source, Workload, load};

/// The effects of the machine on a run: longer jobs, switches that cost time, budgets that end late.
#[derive(Clone, Copy, Default)]
struct Disturbance {
    /// Added to what each job needs.
    longer: Span,
    /// Up to so much is added to that, drawn for each job.
    varies: Span,
    /// Only jobs of this task need more.
    only: Option<u64>,
    /// Added too, in thousandths of what each job needs: time that interrupts take.
    slower: i64,
    switch: Span,
    /// Added to each sleep: the time until a job that wakes up has its CPU again, and an answer that comes late.
    sleeps: Span,
    /// Added to each part of a job before a sleep: its CPU is idle until the block is seen.
    blocks: Span,
    /// The time that each pass of the scheduler takes from the CPU.
    scheduler: Span,
    /// The time of a program between the signal of an abort and its completion.
    returns: Span,
    late: Span,
    /// Releases and deadlines are noticed at multiples of this, so that what is due at nearly the same time coincides.
    tick: Span,
    /// Planned changes come so much later, and with them the releases and deadlines of events.
    changes: Span,
    /// A program that receives the signal of an abort has no handler but its own.
    plain: bool,
    seed: u64,
}

/// The events of jobs in order, with the counts of all tasks.
type Course = (Vec<(&'static str, u32, u64)>, Vec<Counts>);

/// The disturbances that a workload has to bear.
#[derive(Clone, Copy)]
pub(crate) struct Bears {
    /// How much longer jobs may take.
    pub(crate) slack: Span,
    /// The most that a switch may cost.
    pub(crate) switch: Span,
    /// The most that each pass of the scheduler may take from the CPU.
    pub(crate) pass: Span,
    /// How much longer the jobs of one task may take while those of the others do not.
    pub(crate) one: Span,
    /// How much later sleeps and answers may end.
    pub(crate) wakes: Span,
    /// How much later blocks may be seen.
    pub(crate) blocks: Span,
    /// How many times as long all its times are.
    pub(crate) stretch: i64,
}

/// Whether the outcomes stay the same when jobs, switches and the scheduler take so much more, and budgets end late; and whether
/// something is missed at all.
pub(crate) fn is_robust(
    text: &str,
    duration: Span,
    Bears { slack, switch, pass, one, wakes, blocks: seen, .. }: Bears,
) -> bool {
    let source = Source { name: "w.yaml".into(), text: text.into() };
    let mut workload = match load(source, &Options::default()) {
        Ok(workload) => workload,
        Err(faults) => panic!("{faults:?}\n{text}"),
    };
    workload.settle_simulation(None);
    let us = Span::from_us;
    let base = course(&workload, duration, Disturbance::default());
    let sum = base.1.iter().fold((0, 0), |(met, missed), c| (met + c.met, missed + c.missed + c.cut_off));
    let jobless = base.1.iter().all(|c| c.jobless);
    // A part of the shed work remains.
    if !jobless && (sum.1 == 0 || sum.0 == 0 && base.1.len() > 1) {
        return false;
    }
    // A return that takes no time changes nothing.
    let plain = course(&workload, duration, Disturbance { plain: true, ..Disturbance::default() });
    let ends = |course: &Course| course.1.iter().map(|c| (c.completed, c.met, c.missed, c.aborted)).collect::<Vec<_>>();
    if ends(&plain) != ends(&base) {
        return false;
    }
    // Jobs that block bear a little more time of each job, and waits that end late.
    let blocks = |task: &Task| task.program.steps.iter().any(|step| matches!(step, Step::Sleep(_)));
    let mut disturbed: Vec<Disturbance> = Vec::new();
    if workload.system.tasks.iter().any(blocks) {
        let late = [(30, Span::ZERO), (0, wakes * 3 / 8), (0, wakes), (30, wakes * 3 / 4)];
        disturbed.extend(late.map(|(slower, sleeps)| Disturbance { slower, sleeps, ..Disturbance::default() }));
        if seen != Span::ZERO {
            let late = [(10, 4, 0, 4), (20, 2, 2, 2), (10, 0, 4, 0), (30, 2, 4, 4), (40, 4, 4, 4)];
            disturbed.extend(late.map(|(slower, sleeps, blocks, switches)| Disturbance {
                slower,
                sleeps: wakes * sleeps / 4,
                blocks: seen * blocks / 4,
                switch: switch * switches / 4,
                ..Disturbance::default()
            }));
        }
    }
    // Each block, wake-up and exhausted budget costs a pass, and a host can be slow for seconds.
    if workload.system.tasks.iter().any(|task| blocks(task) && task.reservation.is_some()) {
        disturbed.push(Disturbance {
            slower: 30,
            scheduler: us(120),
            sleeps: us(300),
            switch,
            late: us(100),
            ..Disturbance::default()
        });
    }
    // Disturbances that few workloads bear come first, for the sake of the others.
    disturbed.extend([(20, pass, 17), (15, us(80), 3)].map(|(slower, scheduler, seed)| {
        let late = us(100);
        Disturbance { slower, scheduler, switch, late, seed, ..Disturbance::default() }
    }));
    disturbed.extend([
        Disturbance { longer: us(-20), ..Disturbance::default() },
        // More is not always worse: another job may be shed.
        Disturbance { longer: slack / 4, ..Disturbance::default() },
        Disturbance { longer: slack / 2, ..Disturbance::default() },
        Disturbance { longer: slack * 3 / 4, ..Disturbance::default() },
        Disturbance { longer: slack, ..Disturbance::default() },
        Disturbance { switch, ..Disturbance::default() },
        Disturbance { late: us(150), seed: 1, ..Disturbance::default() },
        Disturbance { late: us(450), seed: 8, ..Disturbance::default() },
        Disturbance { late: us(300), switch, seed: 9, ..Disturbance::default() },
        Disturbance { late: us(150), longer: slack / 4, switch: us(40), seed: 2, ..Disturbance::default() },
    ]);
    disturbed.extend([150, 400].map(|time| Disturbance { returns: us(time), ..Disturbance::default() }));
    disturbed.extend([30, 200].map(|time| Disturbance { changes: us(time), ..Disturbance::default() }));
    // Where jobs are always behind, what the scheduler takes of each adds up.
    disturbed.extend([5, 10].map(|slower| Disturbance { slower, scheduler: us(50), ..Disturbance::default() }));
    disturbed.extend([70, 130, 170].map(|tick| Disturbance { tick: us(tick), ..Disturbance::default() }));
    disturbed.extend((3..7).map(|seed| {
        let (longer, varies, switch) = (us(-10), slack, switch / 2);
        Disturbance { longer, varies, switch, late: us(100), seed, ..Disturbance::default() }
    }));
    // A delay of one CPU does not reach the others.
    if one != Span::ZERO {
        let of_task = |n| Disturbance { longer: one, only: Some(n), ..Disturbance::default() };
        disturbed.extend((0..workload.system.tasks.len() as u64).map(of_task));
    }
    // One job needs a little more while another needs less: a preempted process spends time that its scheduler does not see.
    disturbed.extend((10..16).map(|seed| {
        let (longer, varies) = (us(-80), us(200));
        Disturbance { longer, varies, seed, ..Disturbance::default() }
    }));
    disturbed.into_iter().all(|disturbance| course(&workload, duration, disturbance) == base)
}

fn course(workload: &Workload, duration: Span, disturbance: Disturbance) -> Course {
    let Disturbance {
        longer,
        varies,
        only,
        slower,
        switch,
        sleeps,
        blocks,
        scheduler,
        returns,
        late,
        tick,
        changes,
        plain,
        seed,
    } = disturbance;
    let mut system = workload.system.clone();
    // Budgets with jitter would be drawn by another seed, too; no instance has any.
    system.seed = seed;
    (system.timing.lateness, system.timing.tick) = (late, tick);
    for (n, task) in (0..).zip(&mut system.tasks) {
        let longer = if only.is_none_or(|only| only == n) { longer } else { Span::ZERO };
        if !task.program.steps.is_empty() {
            let total = task.program.steps.iter_mut().filter_map(run).fold(Span::ZERO, |sum, span| sum + *span);
            let extra = longer + Span::from_ns(draw_up_to(varies.ns() as u64, seed, 7, n) as i64);
            for span in task.program.steps.iter_mut().filter_map(run) {
                let part = extra.ns() * span.ns() / total.ns().max(1);
                *span = (*span + Span::from_ns(part) + *span * slower / 1000).max(Span::from_ns(1));
            }
            let steps = &mut task.program.steps;
            for n in 0..steps.len() {
                if let Step::Sleep(span) = &mut steps[n] {
                    *span += sleeps;
                    n.checked_sub(1)
                        .and_then(|before| run(&mut steps[before]))
                        .into_iter()
                        .for_each(|span| *span += blocks);
                }
            }
        } else if let Some(need) = need(task) {
            let least = (need + longer + need * slower / 1000).max(Span::from_ns(1));
            task.program.execution = Execution::Uniform { least, most: least + varies };
        }
        if task.on_abort == OnAbort::Signal && task.handler.is_none() && !plain {
            task.handler = Some(Handler { runtime: Span::from_ns(1) + returns, deadline: None, utility: 0 });
        }
        if let Some(handler) = &mut task.handler {
            handler.runtime = (handler.runtime + longer).max(Span::from_ns(1));
        }
    }
    let planned = workload.scenario.changes.iter().map(|(at, change)| (*at + changes, *change));
    let mut scenario = Scenario { changes: planned.collect(), ..Scenario::default() };
    (scenario.costs.context_switch, scenario.costs.scheduler) = (switch, scheduler);
    let mut engine = Engine::with_registry(system, takt_workload::registry().clone()).expect("a sound workload");
    let mut records: Vec<Record> = Vec::new();
    takt_sim::simulate(&mut engine, &scenario, duration, &mut records, |_: Time| ());
    let mut begun = std::collections::HashSet::new();
    let happened = |record: &Record| match record.kind {
        RecordKind::Start { task, job, .. } => begun.insert((task, job)).then_some(("begins", task.0, job)),
        RecordKind::Finish { outcome: Outcome::Skipped, .. } => None,
        RecordKind::Finish { task, job, outcome, .. } => Some((
            match outcome {
                Outcome::Completed => "completed",
                Outcome::Aborted => "aborted",
                Outcome::BudgetUsed => "budget used",
                Outcome::Overrun => "overrun",
                Outcome::Exited | Outcome::Skipped => "other",
            },
            task.0,
            job,
        )),
        RecordKind::Behind { task, job, .. } => Some(("behind", task.0, job)),
        RecordKind::LateSignal { task, job } => Some(("late", task.0, job)),
        RecordKind::Handler { task, job, .. } => Some(("handler", task.0, job)),
        RecordKind::Lock { task, granted: false, .. } => Some(("waits", task.0, 0)),
        RecordKind::Call { task, job, granted, .. } => Some((if granted { "granted" } else { "refused" }, task.0, job)),
        _ => None,
    };
    let order = records.iter().filter_map(happened).collect();
    let neutral = |counts: Counts| Counts { dispatches: 0, preemptions: 0, migrations: 0, ..counts };
    let tasks = (0..engine.system().tasks.len() as u32).map(takt_core::model::TaskId);
    let counts = tasks.map(|task| neutral(engine.counts(task))).collect();
    (order, counts)
}

/// The execution time of a step.
fn run(step: &mut Step) -> Option<&mut Span> {
    if let Step::Run(span) = step { Some(span) } else { None }
}

/// The demand of each job of the task, if it is declared.
fn need(task: &Task) -> Option<Span> {
    match &task.program.execution {
        _ if task.completion == Completion::None => None,
        Execution::Uniform { least, .. } => Some(*least),
        Execution::Series(spans) => spans.first().copied(),
        Execution::Declared => task.runtime,
    }
}
