//! Checking a run's trace against the kernel's own account of who ran ([`crate::kernel`]).
//!
//! A trace says what the scheduler ordered. Only the kernel knows whether the processes obeyed:
//!
//! | rule | what it says |
//! |---|---|
//! | `kernel-outside` | a process runs only while the trace has it running |
//! | `kernel-place` | it runs only on the CPUs that the trace gives it |
//! | `kernel-idle` | it runs all the time that it is given (only for processes that never sleep) |
//!
//! Only the first thread of its process is looked at. Time before the schedule's start and after its end does not
//! count.

use crate::Trace;
use crate::check::Finding;
use crate::kernel::{self, Switches};
use crate::timeline::{self, Timeline};
use takt_core::time::{Span, Time};

/// The statements of both sides about one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its label.
    pub task: String,
    /// Its process; `None` when the trace does not know it, so that nothing is compared.
    pub pid: Option<u32>,
    /// How long it was running as the trace has it.
    pub given: Span,
    /// How long it ran as the kernel has it.
    pub ran: Span,
    /// How much of that was outside of what it was given.
    pub outside: Span,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Per task.
    pub accounts: Vec<Account>,
    /// The differences above the tolerance.
    pub findings: Vec<Finding>,
}

/// Compares; a difference up to `tolerance` at each start and stop is no finding. `busy` says that the processes never sleep.
#[must_use]
pub fn compare(trace: &Trace, switches: &Switches, tolerance: Span, busy: bool) -> Comparison {
    let line = Timeline::of(trace);
    let mut result = Comparison::default();
    for (index, (task, label)) in trace.header.tasks.iter().zip(trace.header.labels()).enumerate() {
        let given: Vec<_> = line.intervals.iter().filter(|i| i.task.index() == index).copied().collect();
        let ran: Vec<_> = switches.intervals.iter().filter(|i| Some(i.pid) == task.pid).copied().collect();
        let side = Side { trace, line: &line, label: &label, tolerance, given: &given, ran: &ran };
        // The trace says nothing of when the kernel runs its own tasks.
        let of_kernel = task.class.is_some();
        let outside = if of_kernel { Span::ZERO } else { side.outside(&mut result.findings) };
        if task.pid.is_some() && !of_kernel {
            side.place(&mut result.findings);
            if busy {
                side.idle(&mut result.findings);
            }
        }
        let length = |from: Time, to: Time| (to.min(line.end) - from.max(Time::ZERO)).or_zero();
        result.accounts.push(Account {
            task: label,
            pid: task.pid,
            given: given.iter().fold(Span::ZERO, |sum, i| sum + length(i.from, i.to)),
            ran: ran.iter().fold(Span::ZERO, |sum, i| sum + length(i.from, i.to)),
            outside,
        });
    }
    result.findings.sort_by_key(|finding| finding.at);
    result
}

struct Side<'a> {
    trace: &'a Trace,
    line: &'a Timeline,
    label: &'a str,
    tolerance: Span,
    given: &'a [timeline::Interval],
    ran: &'a [kernel::Interval],
}

impl Side<'_> {
    fn finding(&self, at: Time, rule: &'static str, message: String) -> Finding {
        Finding { at, task: Some(self.label.to_string()), rule, message }
    }

    /// Where it ran and was not to. An interval of which one end was not seen is inconclusive.
    fn outside(&self, findings: &mut Vec<Finding>) -> Span {
        let given: Vec<_> = self.given.iter().map(|i| (i.from, i.to)).collect();
        let mut sum = Span::ZERO;
        for ran in self.ran.iter().filter(|i| i.exact) {
            for (from, to) in without((ran.from.max(Time::ZERO), ran.to.min(self.line.end)), &given) {
                sum += to - from;
                if to - from > self.tolerance {
                    let message =
                        format!("the kernel has it run on CPU {} for {}, the trace does not", ran.cpu, to - from);
                    findings.push(self.finding(from, "kernel-outside", message));
                }
            }
        }
        sum
    }

    fn place(&self, findings: &mut Vec<Finding>) {
        for given in self.given {
            let cpus = self.trace.header.places[given.place.index()];
            for ran in self.ran.iter().filter(|i| i.exact && !cpus.contains(i.cpu as usize)) {
                let (from, to) = (ran.from.max(given.from), ran.to.min(given.to));
                if to - from > self.tolerance {
                    let message =
                        format!("the kernel has it run on CPU {} for {}, and not on {cpus}", ran.cpu, to - from);
                    findings.push(self.finding(from, "kernel-place", message));
                }
            }
        }
    }

    fn idle(&self, findings: &mut Vec<Finding>) {
        let ran: Vec<_> = self.ran.iter().map(|i| (i.from, i.to)).collect();
        for given in self.given {
            for (from, to) in without((given.from, given.to), &ran) {
                if to - from > self.tolerance {
                    let job = given.job;
                    let message =
                        format!("job {job} is given a CPU for {}, in which the kernel does not run it", to - from);
                    findings.push(self.finding(from, "kernel-idle", message));
                }
            }
        }
    }
}

/// The parts of an interval that are in none of the others, which are in the order of their starts.
fn without((from, to): (Time, Time), others: &[(Time, Time)]) -> Vec<(Time, Time)> {
    let mut parts = Vec::new();
    let mut at = from;
    for (start, end) in others {
        if *start >= to {
            break;
        }
        if *start > at {
            parts.push((at, *start));
        }
        at = at.max(*end);
    }
    if at < to {
        parts.push((at, to));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Footer, Header, Stamped, TaskLabel};
    use takt_core::cpus::CpuSet;
    use takt_core::model::TaskId;
    use takt_core::record::{Place, Record, RecordKind, StopReason};

    fn ms(ms: i64) -> Time {
        Time::from_ns(ms * 1_000_000)
    }

    /// One task with process 7, given CPU 1 from 10 to 20 ms and from 30 to 40 ms of a run of 50 ms.
    fn trace() -> Trace {
        let task = TaskLabel { name: "a".into(), pid: Some(7), ..TaskLabel::default() };
        let places = vec![[1].into_iter().collect::<CpuSet>()];
        let header = Header { tasks: vec![task], places, ..Header::default() };
        let (task, place) = (TaskId(0), Place(0));
        let records = [(10, 20), (30, 40)].iter().flat_map(|(from, to)| {
            let (job, reason) = (0, StopReason::Suspended);
            let start = Record { at: ms(*from), kind: RecordKind::Start { task, job, place } };
            let stop = Record { at: ms(*to), kind: RecordKind::Stop { task, job, place, reason } };
            [start, stop].map(|record| Stamped { record, applied: record.at })
        });
        Trace {
            header,
            records: records.collect(),
            footer: Some(Footer { end: ms(50), dropped: 0 }),
            ..Trace::default()
        }
    }

    fn switches(intervals: &[(i64, i64, u32)]) -> Switches {
        let interval = |(from, to, cpu): &(i64, i64, u32)| kernel::Interval {
            pid: 7,
            cpu: *cpu,
            from: ms(*from),
            to: ms(*to),
            exact: true,
        };
        Switches { intervals: intervals.iter().map(interval).collect(), ..Switches::default() }
    }

    fn rules(ran: &[(i64, i64, u32)], busy: bool) -> Vec<(&'static str, Time)> {
        let comparison = compare(&trace(), &switches(ran), Span::from_ms(1), busy);
        comparison.findings.iter().map(|f| (f.rule, f.at)).collect()
    }

    #[test]
    fn a_process_that_obeys_is_not_reported() {
        let ran = [(-5, -1, 0), (10, 15, 1), (15, 21, 1), (29, 40, 1), (60, 70, 0)];
        assert_eq!(rules(&ran, true), [], "with a tolerance, and before and after the run it may do what it likes");
        let comparison = compare(&trace(), &switches(&ran), Span::from_ms(1), true);
        let account = Account {
            task: "a".into(),
            pid: Some(7),
            given: Span::from_ms(20),
            ran: Span::from_ms(22),
            outside: Span::from_ms(2),
        };
        assert_eq!(comparison.accounts, [account]);
    }

    #[test]
    fn every_rule_can_be_broken() {
        assert_eq!(rules(&[(10, 23, 1)], false), [("kernel-outside", ms(20))]);
        assert_eq!(rules(&[(20, 30, 1)], false), [("kernel-outside", ms(20))]);
        assert_eq!(rules(&[(10, 20, 0)], false), [("kernel-place", ms(10))]);
        assert_eq!(rules(&[(10, 12, 1), (15, 20, 1)], true), [("kernel-idle", ms(12)), ("kernel-idle", ms(30))]);
        assert_eq!(rules(&[], true), [("kernel-idle", ms(10)), ("kernel-idle", ms(30))]);
    }

    #[test]
    fn unseen_intervals_are_inconclusive() {
        let mut vague = switches(&[(0, 50, 1)]);
        vague.intervals[0].exact = false;
        assert_eq!(compare(&trace(), &vague, Span::from_ms(1), true).findings, []);
    }
}
