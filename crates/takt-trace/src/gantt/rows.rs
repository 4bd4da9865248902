//! The common parts of charts of both forms: the part that is drawn, the heading, the rows.

use crate::names;
use crate::timeline::Timeline;
use crate::{Header, TaskLabel, Trace};
use std::collections::{BTreeMap, HashMap};
use takt_core::cpus::CpuSet;
use takt_core::model::Hosts;
use takt_core::time::{Span, Time};

/// The part of a trace that is drawn.
pub(super) fn range(line: &Timeline, from: Time, to: Option<Time>) -> Option<(Time, Time)> {
    let to = to.unwrap_or(line.end);
    (from < to).then_some((from, to))
}

/// The heading of a chart: policy, scope, source, workload.
pub(super) fn heading(trace: &Trace) -> String {
    heading_of(&trace.header)
}

pub(crate) fn heading_of(h: &Header) -> String {
    // Domains are of no scope themselves.
    let of_domains = names::hosts(&h.policy) == Some(Hosts::Domains);
    let scope = if h.scope.is_empty() || of_domains { String::new() } else { format!(" ({})", h.scope) };
    let source = match h.source.as_str() {
        "sim" => "simulated",
        "run" => "measured",
        other => other,
    };
    let settings = if h.settings.is_empty() { String::new() } else { format!(":{}", h.settings) };
    let parts = [format!("{}{settings}{scope}", h.policy_name()), h.workload.clone(), source.to_string()];
    parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Tasks by partition: each group's name and its tasks, in the order of first appearance. Without partitions one group. O(tasks).
pub(super) fn groups(trace: &Trace) -> Vec<(Option<&str>, Vec<usize>)> {
    let mut groups: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
    let mut known: HashMap<Option<&str>, usize> = HashMap::new();
    for (i, task) in trace.header.tasks.iter().enumerate() {
        let partition = task.partition.as_deref();
        let group = *known.entry(partition).or_insert(groups.len());
        match groups.get_mut(group) {
            Some((_, tasks)) => tasks.push(i),
            None => groups.push((partition, vec![i])),
        }
    }
    groups
}

/// The names of the tasks, with the classes of tasks that the kernel schedules.
pub(super) fn titles(trace: &Trace, name: impl Fn(&str) -> String) -> Vec<String> {
    let title = |(label, task): (&String, &TaskLabel)| match &task.class {
        Some(class) => format!("{} ({class})", name(label)),
        None => name(label),
    };
    trace.header.labels().iter().zip(&trace.header.tasks).map(title).collect()
}

/// A row per set of CPUs that did the same all the time.
pub(super) fn cpu_rows(trace: &Trace, line: &Timeline, from: Time, to: Time) -> Vec<(String, CpuSet)> {
    let mut story: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, interval) in line.intervals.iter().enumerate() {
        if interval.to > from && interval.from < to {
            for cpu in trace.header.places[interval.place.index()].difference(&trace.header.kernel_cpus).iter() {
                story.entry(cpu).or_default().push(index);
            }
        }
    }
    let mut rows: Vec<(Vec<usize>, CpuSet)> = Vec::new();
    for (cpu, intervals) in story {
        match rows.iter_mut().find(|(i, _)| *i == intervals) {
            Some((_, set)) => set.insert(cpu),
            None => rows.push((intervals, CpuSet::single(cpu))),
        }
    }
    rows.into_iter().map(|(_, set)| (crate::names::cpus_title(&set), set)).collect()
}

/// The smallest of `mantissas * 10^k` nanoseconds that is not below `least`; mantissas are in tenths.
pub(crate) fn nice(least: Span, tenths: &[i64]) -> Span {
    let mut scale: i64 = 1;
    loop {
        for tenth in tenths {
            if let Some(value) = tenth.checked_mul(scale).filter(|v| v % 10 == 0) {
                if value / 10 >= least.ns() {
                    return Span::from_ns(value / 10);
                }
            } else if tenth.checked_mul(scale).is_none() {
                return least;
            }
        }
        scale = scale.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_numbers() {
        for (least, step) in [(1, 1), (3, 4), (21, 25), (26, 40), (81, 100), (100, 100), (1_200_001, 2_000_000)] {
            assert_eq!(nice(Span::from_ns(least), &[10, 20, 25, 40, 50, 80]), Span::from_ns(step));
        }
        assert_eq!(nice(Span::MAX, &[10]), Span::MAX);
    }
}
