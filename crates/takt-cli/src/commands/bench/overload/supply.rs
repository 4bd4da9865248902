//! The CPU time that the processes of a run really got.

use serde_json::Value;
use std::ops::Add;
use takt_core::record::RecordKind;
use takt_core::time::{Span, Time};
use takt_trace::Trace;

/// In the simulation so often a part is stolen: several times in the shortest job.
const PERIOD: Span = Span::from_ms(1);

/// The CPUs' time that was assigned to jobs, and the part that the processes used.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Supply {
    /// For so long the schedule had assigned CPUs to jobs, all CPUs together.
    pub(super) held: Span,
    /// CPU time of the processes. The rest was lost to the scheduler, to switches, to other processes, to the kernel.
    pub(super) used: Span,
}

impl Add for Supply {
    type Output = Supply;
    fn add(self, other: Supply) -> Supply {
        Supply { held: self.held + other.held, used: self.used + other.used }
    }
}

impl Supply {
    /// The supply of a run, from its summary and its trace.
    pub(super) fn of(summary: &Value, trace: &Trace) -> Supply {
        let tasks = summary["tasks"].as_array().into_iter().flatten();
        let used = tasks.filter_map(|task| task["cpu_ns"].as_i64()).sum();
        let end = Time::ZERO + Span::from_ns(summary["duration_ns"].as_i64().unwrap_or(0));
        let mut since = vec![None; trace.header.tasks.len()];
        let mut held = Span::ZERO;
        for record in &trace.records {
            // The instants of the decisions, because a simulation begins there: the time of a switch is lost.
            let at = record.record.at;
            match record.record.kind {
                RecordKind::Start { task, .. } => since[task.index()] = Some(at),
                RecordKind::Stop { task, .. } => {
                    held += since[task.index()].take().map_or(Span::ZERO, |from: Time| at - from);
                }
                _ => {}
            }
        }
        held += since.into_iter().flatten().fold(Span::ZERO, |sum, from| sum + (end - from).or_zero());
        Supply { held, used: Span::from_ns(used) }
    }

    pub(super) fn per_mille(self) -> i64 {
        (i128::from(self.used.ns()) * 1000 / i128::from(self.held.ns().max(1))) as i64
    }

    /// The line of a workload that takes the lost part from each CPU, evenly; empty where nothing was lost.
    pub(super) fn stolen(self) -> String {
        let lost = i128::from((self.held - self.used).or_zero().ns());
        let length = lost * i128::from(PERIOD.ns()) / i128::from(self.held.ns().max(1));
        if length == 0 { String::new() } else { format!("steal: {{period: {}ns, length: {length}ns}}\n", PERIOD.ns()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use takt_core::model::TaskId;
    use takt_core::record::{Place, Record, StopReason};
    use takt_trace::{Stamped, TaskLabel};

    #[test]
    fn the_supply_is_the_used_part_of_the_assigned_time() {
        let ms = Span::from_ms;
        let at = |n| Time::ZERO + ms(n);
        let place = Place(0);
        let start = |task, n| (n, RecordKind::Start { task: TaskId(task), job: 0, place });
        let stop = |task, n| (n, RecordKind::Stop { task: TaskId(task), job: 0, place, reason: StopReason::Finished });
        let mut trace = Trace::default();
        trace.header.tasks = vec![TaskLabel::default(); 2];
        let stamped = |(n, kind)| Stamped { record: Record { at: at(n), kind }, applied: at(n + 1) };
        // The second is at work when the run ends.
        trace.records = [start(0, 10), stop(0, 40), start(1, 40)].map(stamped).to_vec();
        let summary = json!({"duration_ns": ms(110).ns(), "tasks": [{"cpu_ns": ms(27).ns()}, {"cpu_ns": ms(68).ns()}]});
        let supply = Supply::of(&summary, &trace);
        assert_eq!(supply, Supply { held: ms(100), used: ms(95) });
        assert_eq!((supply.per_mille(), &*supply.stolen()), (950, "steal: {period: 1000000ns, length: 50000ns}\n"));
        let all = Supply { held: ms(100), used: ms(100) };
        assert_eq!((all.per_mille(), &*all.stolen()), (1000, ""));
        assert_eq!((Supply::default().per_mille(), &*Supply::default().stolen()), (0, ""));
    }
}
