//! Inputs and records as bytes. Each begins with a byte that names its kind.

use super::bytes::{Output, Reader};
use crate::input::{Ending, Input};
use crate::model::{Call, PartitionId, ResourceId, TaskId};
use crate::record::{Outcome, Place, Record, RecordKind, StopReason};
use crate::time::{Span, Time};
use crate::work::Work;

fn begin(out: &mut impl Output, kind: u8, task: TaskId) {
    out.put(kind);
    out.unsigned(u64::from(task.0));
}

fn put_call(out: &mut impl Output, call: Call) {
    let (kind, span) = match call {
        Call::Period(span) => (0, span),
        Call::Deadline(span) => (1, span),
        Call::Runtime(span) => (2, span),
    };
    out.put(kind);
    out.signed(span.ns());
}

fn get_call(reader: &mut Reader<'_>) -> Option<Call> {
    let kind = reader.byte()?;
    let span = get_span(reader)?;
    Some(match kind {
        0 => Call::Period(span),
        1 => Call::Deadline(span),
        2 => Call::Runtime(span),
        _ => return None,
    })
}

fn get_span(reader: &mut Reader<'_>) -> Option<Span> {
    reader.signed().map(Span::from_ns)
}

fn maybe_span(reader: &mut Reader<'_>) -> Option<Option<Span>> {
    Some(reader.maybe()?.map(Span::from_ns))
}

/// Writes an input.
pub fn put_input(out: &mut impl Output, input: &Input) {
    match *input {
        Input::Usage { task, consumed } => {
            begin(out, 0, task);
            out.signed(consumed.ns());
        }
        Input::Dispatched { task, place, at } => {
            begin(out, 1, task);
            out.unsigned(u64::from(place.0));
            out.signed(at.ns());
        }
        Input::Complete { task, job } => {
            begin(out, 2, task);
            out.unsigned(job);
        }
        Input::Block { task } => begin(out, 3, task),
        Input::Hold { task } => begin(out, 4, task),
        Input::Wake { task } => begin(out, 5, task),
        Input::Lock { task, resource } => {
            begin(out, 6, task);
            out.unsigned(u64::from(resource.0));
        }
        Input::Unlock { task, resource } => {
            begin(out, 7, task);
            out.unsigned(u64::from(resource.0));
        }
        Input::Yield { task } => begin(out, 8, task),
        Input::Skew { task, by } => {
            begin(out, 9, task);
            out.signed(by.ns());
        }
        Input::Share { task, share, importance } => {
            begin(out, 10, task);
            out.maybe(share.map(i64::from));
            out.unsigned(u64::from(importance));
        }
        Input::Retime { task, period, deadline, runtime } => {
            begin(out, 11, task);
            out.signed(period.ns());
            out.maybe(deadline.map(Span::ns));
            out.maybe(runtime.map(Span::ns));
        }
        Input::Call { task, call } => {
            begin(out, 12, task);
            put_call(out, call);
        }
        Input::Enter { task } => begin(out, 13, task),
        Input::Release { task } => begin(out, 14, task),
        Input::Terms { task, deadline, runtime, utility } => {
            begin(out, 15, task);
            out.maybe(deadline.map(Span::ns));
            out.maybe(runtime.map(Span::ns));
            out.unsigned(utility);
        }
        Input::Leave { task } => begin(out, 16, task),
        Input::Configure { setting, value } => {
            out.put(17);
            out.put(setting);
            out.maybe(value);
        }
        Input::Switch { domain, to } => {
            out.put(18);
            out.maybe(domain.map(i64::from));
            out.unsigned(u64::from(to));
        }
        Input::Table { to } => {
            out.put(19);
            out.unsigned(u64::from(to));
        }
        Input::Abort { task } => begin(out, 20, task),
        Input::Exit { task, ending } => {
            begin(out, 21, task);
            out.put(u8::from(ending.regular));
            out.put(u8::from(ending.replaced));
        }
        #[cfg(feature = "withdrawals")]
        Input::Withdraw { task, resource } => of_resource(out, 24, task, resource),
        #[cfg(feature = "additions")]
        Input::Add { task, domain } => {
            begin(out, 23, task);
            out.maybe(domain.map(i64::from));
        }
        #[cfg(feature = "power")]
        Input::Temperature { zone, millidegrees } => {
            out.put(22);
            out.unsigned(u64::from(zone));
            out.maybe(millidegrees.map(i64::from));
        }
    }
}

/// Reads an input; `None` for what is none.
#[must_use]
pub fn get_input(reader: &mut Reader<'_>) -> Option<Input> {
    let kind = reader.byte()?;
    match kind {
        17 => return Some(Input::Configure { setting: reader.byte()?, value: reader.maybe()? }),
        18 => return Some(Input::Switch { domain: maybe(reader)?, to: reader.small()? }),
        19 => return Some(Input::Table { to: reader.small()? }),
        #[cfg(feature = "power")]
        22 => return Some(Input::Temperature { zone: reader.small()?, millidegrees: maybe(reader)? }),
        _ => {}
    }
    let task = TaskId(reader.small()?);
    Some(match kind {
        0 => Input::Usage { task, consumed: Work::nominal(get_span(reader)?) },
        1 => Input::Dispatched { task, place: Place(reader.small()?), at: Time::from_ns(reader.signed()?) },
        2 => Input::Complete { task, job: reader.unsigned()? },
        3 => Input::Block { task },
        4 => Input::Hold { task },
        5 => Input::Wake { task },
        6 => Input::Lock { task, resource: ResourceId(reader.small()?) },
        7 => Input::Unlock { task, resource: ResourceId(reader.small()?) },
        8 => Input::Yield { task },
        9 => Input::Skew { task, by: get_span(reader)? },
        10 => {
            let share = match reader.maybe()? {
                Some(share) => Some(u32::try_from(share).ok()?),
                None => None,
            };
            Input::Share { task, share, importance: reader.small()? }
        }
        11 => Input::Retime {
            task,
            period: get_span(reader)?,
            deadline: maybe_span(reader)?,
            runtime: maybe_span(reader)?,
        },
        12 => Input::Call { task, call: get_call(reader)? },
        13 => Input::Enter { task },
        14 => Input::Release { task },
        15 => {
            let (deadline, runtime) = (maybe_span(reader)?, maybe_span(reader)?);
            Input::Terms { task, deadline, runtime, utility: reader.unsigned()? }
        }
        16 => Input::Leave { task },
        20 => Input::Abort { task },
        21 => Input::Exit { task, ending: Ending { regular: reader.truth()?, replaced: reader.truth()? } },
        #[cfg(feature = "additions")]
        23 => Input::Add { task, domain: maybe(reader)? },
        #[cfg(feature = "withdrawals")]
        24 => Input::Withdraw { task, resource: ResourceId(reader.small()?) },
        _ => return None,
    })
}

/// A number of the type that may be missing.
fn maybe<T: TryFrom<i64>>(reader: &mut Reader<'_>) -> Option<Option<T>> {
    match reader.maybe()? {
        Some(number) => T::try_from(number).ok().map(Some),
        None => Some(None),
    }
}

fn of_job(out: &mut impl Output, kind: u8, task: TaskId, job: u64) {
    begin(out, kind, task);
    out.unsigned(job);
}

fn of_resource(out: &mut impl Output, kind: u8, task: TaskId, resource: ResourceId) {
    begin(out, kind, task);
    out.unsigned(u64::from(resource.0));
}

/// Writes a record. `base` is the instant of its step, which its own usually is.
pub fn put_record(out: &mut impl Output, base: Time, record: &Record) {
    out.signed((record.at - base).ns());
    match record.kind {
        RecordKind::Release { task, job, deadline } => {
            of_job(out, 0, task, job);
            out.maybe(deadline.map(Time::ns));
        }
        RecordKind::Budget { task, job, amount } => {
            of_job(out, 1, task, job);
            out.maybe(amount.map(Span::ns));
        }
        RecordKind::Start { task, job, place } => {
            of_job(out, 2, task, job);
            out.unsigned(u64::from(place.0));
        }
        RecordKind::Stop { task, job, place, reason } => {
            of_job(out, 3, task, job);
            out.unsigned(u64::from(place.0));
            out.put(reason as u8);
        }
        RecordKind::Finish { task, job, outcome, consumed } => {
            of_job(out, 4, task, job);
            out.put(outcome as u8);
            out.signed(consumed.ns());
        }
        RecordKind::Block { task, job } => of_job(out, 5, task, job),
        RecordKind::Wake { task, job } => of_job(out, 6, task, job),
        RecordKind::Lock { task, resource, granted } => {
            of_resource(out, 7, task, resource);
            out.put(u8::from(granted));
        }
        RecordKind::Unlock { task, resource } => of_resource(out, 8, task, resource),
        #[cfg(feature = "withdrawals")]
        RecordKind::Withdraw { task, resource } => of_resource(out, 29, task, resource),
        RecordKind::Handler { task, job, deadline } => {
            of_job(out, 9, task, job);
            out.maybe(deadline.map(Time::ns));
        }
        RecordKind::HandlerEnd { task, job, consumed } => {
            of_job(out, 10, task, job);
            out.signed(consumed.ns());
        }
        RecordKind::Yield { task, job } => of_job(out, 11, task, job),
        RecordKind::Deadlock { task, resource } => of_resource(out, 12, task, resource),
        RecordKind::Round { place, set_point, measured, correction } => {
            out.put(13);
            out.unsigned(u64::from(place.0));
            [set_point, measured, correction].into_iter().for_each(|span| out.signed(span.ns()));
        }
        RecordKind::Burst { task, set_point, measured, next } => {
            begin(out, 14, task);
            [set_point, measured, next].into_iter().for_each(|span| out.signed(span.ns()));
        }
        RecordKind::Configure { setting, value } => {
            out.put(15);
            out.put(setting);
            out.maybe(value);
        }
        RecordKind::Call { task, job, call, granted } => {
            of_job(out, 16, task, job);
            put_call(out, call);
            out.put(u8::from(granted));
        }
        RecordKind::LateSignal { task, job } => of_job(out, 17, task, job),
        RecordKind::Lost { task } => begin(out, 18, task),
        RecordKind::Behind { task, job, abandoned } => {
            of_job(out, 19, task, job);
            out.unsigned(abandoned);
        }
        RecordKind::Exit { task, failed } => {
            begin(out, 20, task);
            out.put(u8::from(failed));
        }
        RecordKind::Switch { domain, to } => {
            out.put(21);
            out.maybe(domain.map(i64::from));
            out.unsigned(u64::from(to));
        }
        RecordKind::Window { window, frame } => {
            out.put(22);
            out.unsigned(u64::from(window));
            out.unsigned(frame);
        }
        RecordKind::WindowsLost { count } => {
            out.put(23);
            out.unsigned(count);
        }
        RecordKind::Table { to } => {
            out.put(24);
            out.unsigned(u64::from(to));
        }
        RecordKind::Frequency { domain, khz } => {
            out.put(25);
            out.unsigned(u64::from(domain));
            out.unsigned(u64::from(khz));
        }
        RecordKind::IdleLatency { place, limit_us } => {
            out.put(26);
            out.unsigned(u64::from(place.0));
            out.maybe(limit_us.map(i64::from));
        }
        RecordKind::Temperature { zone, millidegrees } => {
            out.put(27);
            out.unsigned(u64::from(zone));
            out.maybe(millidegrees.map(i64::from));
        }
        RecordKind::StartSkipped { partition, window } => {
            out.put(28);
            out.unsigned(u64::from(partition.0));
            out.unsigned(u64::from(window));
        }
    }
}

/// Reads a record of a step at `base`; `None` for what is none.
#[must_use]
pub fn get_record(reader: &mut Reader<'_>, base: Time) -> Option<Record> {
    let at = Time::from_ns(base.ns().checked_add(reader.signed()?)?);
    Some(Record { at, kind: get_kind(reader)? })
}

fn get_kind(reader: &mut Reader<'_>) -> Option<RecordKind> {
    let kind = reader.byte()?;
    match kind {
        13 => {
            let place = Place(reader.small()?);
            let (set_point, measured, correction) = (get_span(reader)?, get_span(reader)?, get_span(reader)?);
            return Some(RecordKind::Round { place, set_point, measured, correction });
        }
        15 => return Some(RecordKind::Configure { setting: reader.byte()?, value: reader.maybe()? }),
        21 => return Some(RecordKind::Switch { domain: maybe(reader)?, to: reader.small()? }),
        22 => return Some(RecordKind::Window { window: reader.small()?, frame: reader.unsigned()? }),
        23 => return Some(RecordKind::WindowsLost { count: reader.unsigned()? }),
        24 => return Some(RecordKind::Table { to: reader.small()? }),
        25 => return Some(RecordKind::Frequency { domain: reader.small()?, khz: reader.small()? }),
        26 => return Some(RecordKind::IdleLatency { place: Place(reader.small()?), limit_us: maybe(reader)? }),
        27 => return Some(RecordKind::Temperature { zone: reader.small()?, millidegrees: maybe(reader)? }),
        28 => {
            let partition = PartitionId(reader.small()?);
            return Some(RecordKind::StartSkipped { partition, window: reader.small()? });
        }
        _ => {}
    }
    let task = TaskId(reader.small()?);
    Some(match kind {
        7 => RecordKind::Lock { task, resource: ResourceId(reader.small()?), granted: reader.truth()? },
        8 => RecordKind::Unlock { task, resource: ResourceId(reader.small()?) },
        #[cfg(feature = "withdrawals")]
        29 => RecordKind::Withdraw { task, resource: ResourceId(reader.small()?) },
        12 => RecordKind::Deadlock { task, resource: ResourceId(reader.small()?) },
        14 => {
            let (set_point, measured, next) = (get_span(reader)?, get_span(reader)?, get_span(reader)?);
            RecordKind::Burst { task, set_point, measured, next }
        }
        18 => RecordKind::Lost { task },
        20 => RecordKind::Exit { task, failed: reader.truth()? },
        _ => of_a_job(reader, kind, task)?,
    })
}

fn of_a_job(reader: &mut Reader<'_>, kind: u8, task: TaskId) -> Option<RecordKind> {
    let job = reader.unsigned()?;
    let deadline = |reader: &mut Reader<'_>| Some(reader.maybe()?.map(Time::from_ns));
    Some(match kind {
        0 => RecordKind::Release { task, job, deadline: deadline(reader)? },
        1 => RecordKind::Budget { task, job, amount: maybe_span(reader)? },
        2 => RecordKind::Start { task, job, place: Place(reader.small()?) },
        3 => {
            let place = Place(reader.small()?);
            let reasons = [
                StopReason::Preempted,
                StopReason::Suspended,
                StopReason::Migrated,
                StopReason::Finished,
                StopReason::Blocked,
            ];
            RecordKind::Stop { task, job, place, reason: *reasons.get(usize::from(reader.byte()?))? }
        }
        4 => {
            let outcomes = [
                Outcome::Completed,
                Outcome::BudgetUsed,
                Outcome::Overrun,
                Outcome::Aborted,
                Outcome::Exited,
                Outcome::Skipped,
            ];
            let outcome = *outcomes.get(usize::from(reader.byte()?))?;
            RecordKind::Finish { task, job, outcome, consumed: Work::nominal(get_span(reader)?) }
        }
        5 => RecordKind::Block { task, job },
        6 => RecordKind::Wake { task, job },
        9 => RecordKind::Handler { task, job, deadline: deadline(reader)? },
        10 => RecordKind::HandlerEnd { task, job, consumed: Work::nominal(get_span(reader)?) },
        11 => RecordKind::Yield { task, job },
        16 => RecordKind::Call { task, job, call: get_call(reader)?, granted: reader.truth()? },
        17 => RecordKind::LateSignal { task, job },
        19 => RecordKind::Behind { task, job, abandoned: reader.unsigned()? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_input_and_record_survives() {
        let (task, resource, job, span) = (TaskId(300), ResourceId(2), 70_000, Span::from_us(-5));
        let inputs = [
            Input::Usage { task, consumed: Work::nominal(Span::from_us(5)) },
            Input::Dispatched { task, place: Place(2), at: Time::from_ns(9) },
            Input::Complete { task, job },
            Input::Block { task },
            Input::Hold { task },
            Input::Wake { task },
            Input::Lock { task, resource },
            Input::Unlock { task, resource },
            #[cfg(feature = "withdrawals")]
            Input::Withdraw { task, resource },
            Input::Yield { task },
            Input::Skew { task, by: span },
            Input::Share { task, share: Some(250_000), importance: 3 },
            Input::Retime { task, period: Span::from_ms(3), deadline: None, runtime: Some(Span::from_ms(1)) },
            Input::Call { task, call: Call::Deadline(Span::from_ms(7)) },
            Input::Enter { task },
            Input::Leave { task },
            Input::Release { task },
            Input::Terms { task, deadline: None, runtime: Some(Span::from_us(5)), utility: 3 },
            Input::Configure { setting: 2, value: Some(-5) },
            Input::Switch { domain: Some(1), to: 2 },
            Input::Table { to: 1 },
            #[cfg(feature = "additions")]
            Input::Add { task, domain: Some(1) },
            #[cfg(feature = "additions")]
            Input::Add { task, domain: None },
            Input::Abort { task },
            Input::Exit { task, ending: Ending { regular: true, replaced: false } },
            #[cfg(feature = "power")]
            Input::Temperature { zone: 1, millidegrees: Some(-4_000) },
        ];
        for input in inputs {
            let mut bytes = Vec::new();
            put_input(&mut bytes, &input);
            assert_eq!(get_input(&mut Reader::new(&bytes)), Some(input));
            assert_eq!(get_input(&mut Reader::new(&bytes[..bytes.len() - 1])), None, "{input:?} cut off");
        }
        let (place, consumed) = (Place(1), Work::nominal(Span::from_us(7)));
        let kinds = [
            RecordKind::Release { task, job, deadline: Some(Time::MAX) },
            RecordKind::Budget { task, job, amount: None },
            RecordKind::Start { task, job, place },
            RecordKind::Stop { task, job, place, reason: StopReason::Blocked },
            RecordKind::Finish { task, job, outcome: Outcome::Skipped, consumed },
            RecordKind::Block { task, job },
            RecordKind::Wake { task, job },
            RecordKind::Lock { task, resource, granted: true },
            RecordKind::Unlock { task, resource },
            #[cfg(feature = "withdrawals")]
            RecordKind::Withdraw { task, resource },
            RecordKind::Handler { task, job, deadline: None },
            RecordKind::HandlerEnd { task, job, consumed },
            RecordKind::Yield { task, job },
            RecordKind::Deadlock { task, resource },
            RecordKind::Round { place, set_point: span, measured: span, correction: span },
            RecordKind::Burst { task, set_point: span, measured: span, next: span },
            RecordKind::Configure { setting: 1, value: None },
            RecordKind::Call { task, job, call: Call::Period(Span::from_ms(1)), granted: false },
            RecordKind::LateSignal { task, job },
            RecordKind::Lost { task },
            RecordKind::Behind { task, job, abandoned: 3 },
            RecordKind::Exit { task, failed: true },
            RecordKind::Switch { domain: None, to: 1 },
            RecordKind::Window { window: 4, frame: 1 << 40 },
            RecordKind::WindowsLost { count: 1 },
            RecordKind::Table { to: 1 },
            RecordKind::Frequency { domain: 1, khz: 1_800_000 },
            RecordKind::IdleLatency { place, limit_us: Some(9) },
            RecordKind::Temperature { zone: 1, millidegrees: None },
            RecordKind::StartSkipped { partition: PartitionId(2), window: 5 },
        ];
        let base = Time::from_ns(1_000_000);
        for kind in kinds {
            let record = Record { at: Time::from_ns(999_990), kind };
            let mut bytes = Vec::new();
            put_record(&mut bytes, base, &record);
            assert_eq!(get_record(&mut Reader::new(&bytes), base), Some(record));
            assert_eq!(get_record(&mut Reader::new(&bytes[..bytes.len() - 1]), base), None, "{kind:?} cut off");
        }
    }
}
