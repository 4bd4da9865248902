//! Plays a case: an engine takes its steps under the eyes of a ledger.

use crate::case::{self, Case};
use crate::judge::Judge;
use crate::rules;
use crate::subject;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Once;
use takt_core::engine::Engine;
use takt_core::model::Invalid;
use takt_core::record::{Record, Sink};
use takt_sim::Step;

thread_local! {
    static ATTEMPT: Cell<bool> = const { Cell::new(false) };
    /// The last steps of the present case, for the message when it fails.
    static STEPS: RefCell<VecDeque<(Step, Vec<Record>)>> = const { RefCell::new(VecDeque::new()) };
}

/// The fault, if `f` panics. That prints nothing: while the smallest failing case is searched, the failures on the way mean nothing.
pub(crate) fn in_silence(f: impl FnOnce()) -> Result<(), String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !ATTEMPT.get() {
                report(panic);
            }
        }));
    });
    ATTEMPT.set(true);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    ATTEMPT.set(false);
    outcome.map_err(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        text.or_else(|| cause.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default()
    })
}

fn note(step: &Step, records: &[Record]) {
    STEPS.with_borrow_mut(|steps| {
        if steps.len() == 12 {
            steps.pop_front();
        }
        steps.push_back((step.clone(), records.to_vec()));
    });
}

/// The steps logged, as lines.
pub(crate) fn logged() -> String {
    let mut lines = String::from("last steps:");
    STEPS.with_borrow(|steps| {
        for (step, records) in steps {
            write!(lines, "\n  {} {:?}", step.now, step.inputs).expect("a string takes everything");
            for record in records {
                write!(lines, "\n    {} {:?}", record.at, record.kind).expect("a string takes everything");
            }
        }
    });
    lines
}

/// The records of a run, so many of one step at most: what never ends is found out.
#[derive(Default)]
struct Log {
    records: Vec<Record>,
    most: usize,
}

/// More than any step of these small systems needs, however late it comes.
const RECORDS_PER_STEP: usize = 20_000;

impl Sink for Log {
    fn record(&mut self, record: Record) {
        assert!(self.records.len() < self.most, "a step does not end: {:?}", &self.records[self.most - 20..]);
        self.records.push(record);
    }
}

/// Plays a case under the eyes of a ledger. Returns the steps taken and the records.
pub(crate) fn play(case: &Case) -> (Vec<Step>, Vec<Record>) {
    play_and(case, false)
}

/// The same; if `drains`, all jobs that can complete do so before the end.
pub(crate) fn play_and(case: &Case, drains: bool) -> (Vec<Step>, Vec<Record>) {
    let mut engine = subject::engine(case.system.clone()).unwrap_or_else(|e| panic!("{e}"));
    let mut judge = Judge::new(&case.system, case.metered(), case.skew());
    let (mut steps, mut log) = (Vec::new(), Log::default());
    STEPS.with_borrow_mut(VecDeque::clear);
    let mut take = |step: Step, engine: &mut Engine, judge: &mut Judge, log: &mut Log| {
        let before = log.records.len();
        log.most = before + RECORDS_PER_STEP;
        let on_time = engine.next_due().is_none_or(|due| due >= step.now);
        judge.ledger.time_passes(step.now, on_time);
        let commands = engine.step(step.now, &step.inputs, log).commands.to_vec();
        note(&step, &log.records[before..]);
        judge.stepped(&step.inputs, &commands, &log.records[before..], engine);
        steps.push(step);
    };
    for (number, turn) in case.turns.iter().enumerate() {
        if let Some((_, to)) = case.switch.filter(|(at, _)| *at == number) {
            let before = log.records.len();
            log.most = before + RECORDS_PER_STEP;
            match engine.switch_policy(to, &mut log) {
                Ok(()) => judge.switched(to, &log.records[before..], &engine),
                // It refuses the system or wants more than there is; the old one continues.
                Err(Invalid::Unsuitable(_) | Invalid::Setting(_)) => assert_eq!(log.records.len(), before),
                Err(error) => panic!("{}{}: {error}", to.prefix(), to.profile.name),
            }
        }
        take(turn.step(&engine), &mut engine, &mut judge, &mut log);
    }
    if drains && !judge.ledger.tabled() {
        // Time stands still, so that nothing is released: each step brings at least one job to its end.
        let most = 10 + 2 * engine.totals().released;
        for round in 0.. {
            let inputs = case::draining(&engine);
            if inputs.is_empty() {
                break;
            }
            assert!(round < most, "{inputs:?} never end");
            take(Step { now: engine.now(), inputs }, &mut engine, &mut judge, &mut log);
        }
        rules::drained(&judge.ledger);
    }
    let last = case.last(&engine);
    let before = log.records.len();
    log.most = before + RECORDS_PER_STEP;
    engine.close(last.now, &last.inputs, &mut log);
    note(&last, &log.records[before..]);
    judge.ledger.closed(last.now, &log.records[before..], &engine);
    steps.push(last);
    (steps, log.records)
}

/// Plays a case in silence; what is wrong with it.
pub(crate) fn attempt(case: &Case) -> Result<(), String> {
    in_silence(|| drop(play(case)))
}
