//! The bytes of a trace, read back.

use crate::failure::Failure;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use takt_core::input::Input;
use takt_core::record::Record;
use takt_core::time::{Span, Time};
use takt_core::wire::{Damage, Figure, FigureKind, Message, Reader, next_message};
use takt_mcu_build::Table;
use takt_sim::Step;
use takt_trace::Stamped;
use takt_workload::{Code, Workload};

/// A fault of a task, as the kernel reported it.
pub(super) struct Fault {
    task: Option<u32>,
    cause: u8,
    pc: u32,
    lr: u32,
    detail: u32,
    at: Time,
}

/// The causes of faults, by the kernel's numbers from 1.
const CAUSES: [&str; 8] = [
    "stack overflow",
    "memory protection fault",
    "bus fault",
    "usage fault",
    "hard fault",
    "panic",
    "out of memory",
    "unsuitable table",
];

/// The contents of a stream, up to its end or its damage.
pub(super) struct Decoded {
    /// The last one is the close.
    pub(super) steps: Vec<Step>,
    pub(super) records: Vec<Stamped>,
    pub(super) figures: BTreeMap<(FigureKind, u32), u64>,
    pub(super) faults: Vec<Fault>,
    pub(super) misuses: u64,
    pub(super) dropped: u64,
    /// The byte at which the stream cannot be read further, and why.
    pub(super) damage: Option<(usize, &'static str)>,
    /// Nanoseconds of so many ticks.
    tick: (u32, u32),
}

/// Reads a stream of this table.
///
/// # Errors
/// Status 2: it is no stream, or that of another table.
pub(super) fn decode(name: &str, bytes: &[u8], table: &Table) -> Result<Decoded, Failure> {
    let mut reader = Reader::new(bytes);
    let mut base = Time::ZERO;
    let tick = match next_message(&mut reader, &mut base) {
        Ok(Some(Message::Header { table: hash, nanoseconds, ticks })) if nanoseconds > 0 && ticks > 0 => {
            if hash != table.hash {
                let message = format!(
                    "{name}: the trace is of a table with hash {hash:016x}, and this workload has {:016x}",
                    table.hash
                );
                let hint = "give the workload and the policy with which the image was built";
                return Err(Failure::input(Code::OtherRecord, message, hint));
            }
            (nanoseconds, ticks)
        }
        _ => {
            let message = format!("{name}: this is no trace of the microcontroller kernel");
            return Err(Failure::input(Code::WrongFormat, message, "give the bytes that the board's UART wrote"));
        }
    };
    let mut decoded = Decoded {
        steps: Vec::new(),
        records: Vec::new(),
        figures: BTreeMap::new(),
        faults: Vec::new(),
        misuses: 0,
        dropped: 0,
        damage: None,
        tick,
    };
    let (mut ended, mut closed) = (false, false);
    loop {
        let message = match next_message(&mut reader, &mut base) {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(why) => {
                decoded.damage = Some((reader.at(), reason(why)));
                break;
            }
        };
        closed |= matches!(message, Message::Close { .. });
        match message {
            Message::Header { .. } => {
                decoded.damage = Some((reader.at(), "another trace begins: the board was reset"));
                break;
            }
            Message::Step { now } | Message::Close { end: now } => {
                decoded.steps.push(Step { now, inputs: Vec::new() });
            }
            Message::Input(input) => decoded.steps.last_mut().into_iter().for_each(|step| step.inputs.push(input)),
            Message::Record(record) => decoded.records.push(Stamped { record, applied: base }),
            Message::Dropped { count } => decoded.dropped += count,
            Message::Misuse { .. } => decoded.misuses += 1,
            Message::Fault { task, cause, pc, lr, detail, at } => {
                decoded.faults.push(Fault { task, cause, pc, lr, detail, at });
            }
            Message::Figure(Figure { kind, index, value }) => {
                decoded.figures.insert((kind, index), value);
            }
            Message::End => ended = true,
        }
    }
    // A replay closes the engine with the last step.
    if let Some(last) = decoded.steps.last().filter(|_| !closed) {
        decoded.steps.push(Step { now: last.now, inputs: Vec::new() });
    }
    if !ended && decoded.damage.is_none() {
        decoded.damage = Some((bytes.len(), "the trace has no end: it was cut off, or the kernel stopped"));
    }
    Ok(decoded)
}

fn reason(damage: Damage) -> &'static str {
    match damage {
        Damage::CutOff => "the trace ends within a message",
        Damage::Check => "the bytes of a message are damaged",
        Damage::Unknown => "a message is of another version",
    }
}

impl Decoded {
    /// How many records a replay does not have in the same place. A trace that is cut off may lack the last ones.
    pub(super) fn differing(&self, replayed: &[Record]) -> usize {
        if self.dropped > 0 {
            return 0;
        }
        let pairs = self.records.iter().zip(replayed);
        let same = pairs.take_while(|(own, other)| own.record == **other).count();
        let whole = self.damage.is_none();
        if same == self.records.len() && (!whole || same == replayed.len()) {
            return 0;
        }
        self.records.len().max(replayed.len()) - same
    }

    /// The mean ticks of entries of this kind, and `None` without any.
    pub(super) fn mean(&self, kind: u32) -> Option<u64> {
        self.figure(FigureKind::StepTicks, kind).checked_div(self.figure(FigureKind::StepCount, kind))
    }

    /// A figure of the kernel; zero without it.
    pub(super) fn figure(&self, kind: FigureKind, index: u32) -> u64 {
        self.figures.get(&(kind, index)).copied().unwrap_or(0)
    }

    /// How long so many ticks are.
    pub(super) fn time(&self, ticks: u64) -> Span {
        Span::from_ns((u128::from(ticks) * u128::from(self.tick.0) / u128::from(self.tick.1)) as i64)
    }

    /// The figures of the kernel, and the mean and longest entry of each kind.
    pub(super) fn figures_json(&self) -> Value {
        let whole = |kind| self.figure(kind, 0);
        let steps = ["release", "completion", "other"].iter().zip(0..).map(|(name, index)| {
            let count = self.figure(FigureKind::StepCount, index);
            let mean = self.figure(FigureKind::StepTicks, index).checked_div(count).unwrap_or(0);
            json!({"kind": name, "count": count, "mean_ns": self.time(mean).ns(),
                   "most_ns": self.time(self.figure(FigureKind::StepMost, index)).ns()})
        });
        let events =
            self.steps.iter().flat_map(|step| &step.inputs).filter(|input| matches!(input, Input::Release { .. }));
        let own = self.figures.iter().filter(|((kind, _), _)| *kind == FigureKind::Own);
        json!({"arena": whole(FigureKind::Arena), "late_allocations": whole(FigureKind::LateAllocations),
               "handler_stack": whole(FigureKind::HandlerStack), "entries": whole(FigureKind::Entries),
               "steps": whole(FigureKind::Steps), "outside_ns": self.time(whole(FigureKind::Outside)).ns(),
               "event_inputs": events.count(), "entries_with_steps": steps.collect::<Vec<_>>(),
               "own": own.map(|((_, index), value)| json!([index, value])).collect::<Vec<_>>()})
    }

    pub(super) fn task_json(&self, task: usize) -> Value {
        let of = |kind| self.figure(kind, task as u32);
        json!({"cpu_time_ns": of(FigureKind::CpuTime), "stack_used": of(FigureKind::Stack), "merged": of(FigureKind::Merged)})
    }

    /// Prints the figures that the board reports.
    pub(super) fn print(
        &self,
        workload: &Workload,
        replayed: usize,
        differing: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (steps, records) = (self.steps.len(), self.records.len());
        match differing {
            0 if self.dropped > 0 => writeln!(
                out,
                "trace: {steps} steps, {records} records; {} messages were dropped, so that no replay is possible",
                self.dropped
            )?,
            0 => writeln!(out, "trace: {steps} steps, {records} records; a replay here has the same records")?,
            _ => writeln!(
                out,
                "trace: {steps} steps, {records} records; a replay here has {replayed}, {differing} differ"
            )?,
        }
        if let Some((at, why)) = self.damage {
            writeln!(out, "damaged at byte {at}: {why}")?;
        }
        for fault in &self.faults {
            let cause = CAUSES.get(usize::from(fault.cause).wrapping_sub(1)).copied().unwrap_or("fault");
            let name = fault.task.and_then(|task| workload.tasks.get(task as usize)).map(|info| info.name.as_str());
            let of = name.map_or("outside of tasks".to_owned(), |name| format!("in task `{name}`"));
            writeln!(
                out,
                "{cause} {of} at {}: pc {:#x}, lr {:#x}, detail {:#x}",
                fault.at, fault.pc, fault.lr, fault.detail
            )?;
        }
        if self.misuses > 0 {
            writeln!(out, "misuses of the interface: {}", self.misuses)?;
        }
        if self.figures.is_empty() {
            return Ok(());
        }
        let figure = |kind| self.figure(kind, 0);
        let (arena, late) = (figure(FigureKind::Arena), figure(FigureKind::LateAllocations));
        writeln!(out, "memory: {arena} bytes allocated before the start, {late} allocations after it")?;
        writeln!(out, "handler stack: {} bytes used", figure(FigureKind::HandlerStack))?;
        for (index, name) in ["releases", "completions", "others"].iter().enumerate() {
            let index = index as u32;
            let count = self.figure(FigureKind::StepCount, index);
            if let Some(mean) = self.figure(FigureKind::StepTicks, index).checked_div(count) {
                let most = self.time(self.figure(FigureKind::StepMost, index));
                writeln!(out, "kernel entries for {name}: {count}, mean {}, max {most}", self.time(mean))?;
            }
        }
        for (index, info) in workload.tasks.iter().enumerate() {
            let of = |kind| self.figure(kind, index as u32);
            let (time, stack, merged) = (of(FigureKind::CpuTime), of(FigureKind::Stack), of(FigureKind::Merged));
            writeln!(
                out,
                "task `{}`: CPU time {}, stack {stack} bytes used, {merged} notes merged",
                info.name,
                Span::from_ns(time as i64)
            )?;
        }
        Ok(())
    }
}
