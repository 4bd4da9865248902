//! Checks of a window table: does what is promised fit, who gets how much, and how long does a partition wait.

use crate::need::{budgets, least_of, most};
use crate::parts::extremes;
use std::fmt;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Load, PartitionId, Slice, System, Task, TaskId};
use takt_core::time::Span;

/// The figures of a window table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableReport {
    /// Length of the major frame.
    pub major_frame: Span,
    /// Its windows in order.
    pub windows: Vec<WindowReport>,
    /// By partition.
    pub partitions: Vec<PartitionReport>,
    /// By CPU in ascending order.
    pub cpus: Vec<CpuReport>,
    /// The tasks whose jobs need more than an activation gives them, in ascending order. A process that signals no completion
    /// has no jobs.
    pub short: Vec<Shortage>,
    /// Whether every CPU is idle for at least a tenth of each frame even if every budget is used: then a real-time class
    /// leaves room for the rest of the machine.
    pub cpus_with_10_percent_idle: bool,
}

/// A task whose activations are cut off by its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortage {
    /// Which.
    pub task: TaskId,
    /// The most that its jobs use.
    pub need: Span,
    /// The least supply of an activation.
    pub budget: Span,
    /// Whether every job needs more than any activation gives, so that none is met.
    pub always: bool,
}

/// One window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowReport {
    /// Its length.
    pub length: Span,
    /// Its slices in order.
    pub slices: Vec<SliceReport>,
    /// Whether the safety-critical side of every slice fits.
    pub fits: bool,
}

/// One slice of a window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceReport {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Load of the safety-critical side as (time needed, window length): the sum of budgets and half jitters, the most
    /// that can be drawn. A partition with a policy of its own has no such sum and needs at most the window.
    pub load: (Span, Span),
    /// Whether the first is at most the second.
    pub fits: bool,
}

/// The supply of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionReport {
    /// Which.
    pub partition: PartitionId,
    /// CPU time per major frame that its budgets allow in its windows; the whole windows where it has a policy of its own. Times CPUs.
    pub cpu_time: Span,
    /// The windows that it appears in, ascending.
    pub windows: Vec<usize>,
    /// Whether no window names it.
    pub never_scheduled: bool,
    /// The longest time between two of its windows, across the end of the frame; `None` when it has none.
    pub gap_max: Option<Span>,
    /// Whether it is best-effort somewhere. Its share then depends on what the safety-critical side leaves: `cpu_time` and
    /// `gap_max` describe the grid of windows and are no guarantee.
    pub best_effort: bool,
}

/// The load of one CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuReport {
    /// Its number.
    pub cpu: usize,
    /// Busy time per major frame if every budget is used, in each window at most the window.
    pub busy: Span,
    /// Idle share of the frame in thousandths, rounded down.
    pub idle_per_mille: u32,
}

/// Reports on the window table of a system; a system without windows gives an empty frame in which every CPU is idle.
/// O(slices × CPUs + tasks), where a partition is in few windows; else times its tasks.
#[must_use]
pub fn report(system: &System) -> TableReport {
    let major_frame = system.major_frame();
    let windows: Vec<WindowReport> = system
        .windows
        .iter()
        .map(|w| {
            let slices: Vec<SliceReport> = w
                .slices
                .iter()
                .map(|s| {
                    let needed = s.sc.map_or(Span::ZERO, |p| need(system, p, w.length));
                    SliceReport { cpus: s.cpus, load: (needed, w.length), fits: needed <= w.length }
                })
                .collect();
            WindowReport { length: w.length, fits: slices.iter().all(|s| s.fits), slices }
        })
        .collect();
    let cpus: Vec<CpuReport> = system.cpus.iter().map(|cpu| cpu_report(system, cpu, major_frame)).collect();
    TableReport {
        major_frame,
        windows,
        partitions: partition_reports(system, major_frame),
        short: (0..).map(TaskId).take(system.tasks.len()).filter_map(|task| shortage(system, task)).collect(),
        cpus_with_10_percent_idle: cpus.iter().all(|c| c.idle_per_mille >= 100),
        cpus,
    }
}

/// The most that one activation of a task can take.
fn budget_max(task: &Task) -> Span {
    task.budget.unwrap_or(Span::ZERO) + (task.jitter - task.jitter / 2)
}

/// Whether the budget of a task that is activated can cut its jobs off, at the highest load; all of them are at the lowest.
fn shortage(system: &System, id: TaskId) -> Option<Shortage> {
    let task = &system.tasks[id.index()];
    let (smallest, largest) = budgets(task).filter(|_| task.arrival == Arrival::Activated)?;
    let (lowest, highest) = system.load.as_ref().map_or((Load::ONE, Load::ONE), extremes);
    let at = |factor| {
        let mut task = task.clone();
        task.scale(factor);
        task
    };
    let need = most(&at(highest)).filter(|need| *need > smallest)?;
    let always = least_of(&at(lowest)) > i128::from(largest.ns());
    Some(Shortage { task: id, need, budget: smallest, always })
}

/// The most that a partition can ask of one window of this length.
fn need(system: &System, partition: PartitionId, length: Span) -> Span {
    let partition = &system.partitions[partition.index()];
    if partition.policy.is_some() {
        return length;
    }
    let budget = |t: &TaskId| budget_max(&system.tasks[t.index()]);
    partition.tasks.iter().map(budget).fold(Span::ZERO, |sum, b| Span::from_ns(sum.ns().saturating_add(b.ns())))
}

fn cpu_report(system: &System, cpu: usize, frame: Span) -> CpuReport {
    let mut busy = Span::ZERO;
    for window in &system.windows {
        for slice in window.slices.iter().filter(|s| s.cpus.contains(cpu)) {
            let side = |p: Option<PartitionId>| p.map_or(Span::ZERO, |p| need(system, p, window.length));
            let wanted = side(slice.sc).ns().saturating_add(side(slice.be).ns());
            busy += Span::from_ns(wanted).min(window.length);
        }
    }
    let idle = i128::from((frame - busy).ns());
    let share = if frame == Span::ZERO { 1000 } else { idle * 1000 / i128::from(frame.ns()) };
    CpuReport { cpu, busy, idle_per_mille: share as u32 }
}

/// The windows of each partition, ascending, with the instants at which they begin.
fn windows_of(system: &System) -> Vec<Vec<(usize, Span)>> {
    let mut windows: Vec<Vec<(usize, Span)>> = vec![Vec::new(); system.partitions.len()];
    let mut start = Span::ZERO;
    for (index, window) in system.windows.iter().enumerate() {
        for partition in window.slices.iter().flat_map(|slice| [slice.sc, slice.be]).flatten() {
            let of = &mut windows[partition.index()];
            if of.last().is_none_or(|(last, _)| *last != index) {
                of.push((index, start));
            }
        }
        start += window.length;
    }
    windows
}

fn partition_reports(system: &System, frame: Span) -> Vec<PartitionReport> {
    let partitions = (0..).map(PartitionId).zip(windows_of(system));
    partitions.map(|(partition, windows)| partition_report(system, partition, &windows, frame)).collect()
}

fn partition_report(
    system: &System,
    partition: PartitionId,
    windows: &[(usize, Span)],
    frame: Span,
) -> PartitionReport {
    let mut report = PartitionReport {
        partition,
        cpu_time: Span::ZERO,
        windows: Vec::new(),
        never_scheduled: true,
        gap_max: None,
        best_effort: false,
    };
    let of = |s: &&Slice| s.sc == Some(partition) || s.be == Some(partition);
    let (mut first, mut last) = (None, Span::ZERO);
    let mut gap = Span::ZERO;
    for &(index, start) in windows {
        let window = &system.windows[index];
        if let Some(slice) = window.slices.iter().find(of) {
            report.windows.push(index);
            let most = need(system, partition, window.length).min(window.length);
            report.cpu_time += most * slice.cpus.len() as i64;
            report.best_effort |= slice.be == Some(partition);
            match first {
                None => first = Some(start),
                Some(_) => gap = gap.max(start - last),
            }
            last = start + window.length;
        }
    }
    report.never_scheduled = first.is_none();
    // From its last window over the end of the frame to its first.
    report.gap_max = first.map(|first| gap.max(frame - last + first));
    report
}

/// Tells in plain words, with numbers for windows and partitions.
impl fmt::Display for TableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "major frame {}, windows {}", self.major_frame, self.windows.len())?;
        for (index, window) in self.windows.iter().enumerate() {
            for slice in window.slices.iter().filter(|s| !s.fits) {
                let (needed, length) = slice.load;
                writeln!(f, "window {index}, CPUs {}: budgets of {needed} do not fit its {length}", slice.cpus)?;
            }
        }
        for p in &self.partitions {
            write!(f, "partition {}: ", p.partition.0)?;
            match p.gap_max {
                None => writeln!(f, "never scheduled")?,
                Some(gap) => {
                    write!(f, "{} of CPU time per frame, at most {gap} without a window", p.cpu_time)?;
                    writeln!(f, "{}", if p.best_effort { " (best effort: no guarantee)" } else { "" })?;
                }
            }
        }
        for c in &self.cpus {
            let idle = c.idle_per_mille;
            writeln!(f, "CPU {}: busy {} per frame, {}.{} % idle", c.cpu, c.busy, idle / 10, idle % 10)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::model::{Partition, PolicySpec, Window};

    fn ms(ms: i64) -> Span {
        Span::from_ms(ms)
    }

    fn system(budgets: &[(i64, i64)], partitions: &[&[u32]], windows: Vec<Window>, cpus: usize) -> System {
        System {
            tasks: (budgets.iter())
                .map(|&(budget, jitter)| Task {
                    budget: Some(ms(budget)),
                    jitter: ms(jitter),
                    affinity: CpuSet::first(cpus),
                    ..Task::default()
                })
                .collect(),
            partitions: (partitions.iter())
                .map(|tasks| Partition { tasks: tasks.iter().map(|&t| TaskId(t)).collect(), policy: None })
                .collect(),
            windows,
            ..System::new(CpuSet::first(cpus), PolicySpec::from_name("windows").unwrap())
        }
    }

    fn slice(cpu: usize, sc: Option<u32>, be: Option<u32>) -> Slice {
        Slice { cpus: CpuSet::single(cpu), sc: sc.map(PartitionId), be: be.map(PartitionId) }
    }

    #[test]
    fn loads_gaps_and_idle_time_by_hand() {
        // Tasks: 30±5, 40, 50, 200 ms; window 0 on CPU 0 holds the first two as SC (75 of 100 ms) and task 2 as BE,
        // on CPU 1 only task 3 as SC, which cannot fit; window 1 is idle; window 2 (50 ms) repeats the BE partition.
        let windows = vec![
            Window { length: ms(100), slices: vec![slice(0, Some(0), Some(1)), slice(1, Some(2), None)] },
            Window { length: ms(20), slices: vec![] },
            Window { length: ms(50), slices: vec![slice(0, None, Some(1))] },
        ];
        let r = report(&system(&[(30, 10), (40, 0), (50, 0), (200, 0)], &[&[0, 1], &[2], &[3], &[]], windows, 2));
        assert_eq!(r.major_frame, ms(170));
        assert_eq!(r.windows[0].slices[0].load, (ms(75), ms(100)));
        assert_eq!(r.windows[0].slices[1].load, (ms(200), ms(100)));
        assert_eq!(r.windows.iter().map(|w| w.fits).collect::<Vec<_>>(), [false, true, true]);
        let gaps: Vec<_> = r.partitions.iter().map(|p| p.gap_max).collect();
        // Partition 1 waits from 100 to 120 ms; partition 0 from 100 ms to the next frame.
        assert_eq!(gaps, [Some(ms(70)), Some(ms(20)), Some(ms(70)), None]);
        assert_eq!(r.partitions[1].windows, [0, 2]);
        assert!(r.partitions[1].best_effort && !r.partitions[0].best_effort && r.partitions[3].never_scheduled);
        // Its budget of 50 ms in each of two windows.
        assert_eq!(r.partitions[1].cpu_time, ms(100));
        // CPU 0: min(75 + 50, 100) + 50 of 170; CPU 1: 100 of 170.
        assert_eq!((r.cpus[0].busy, r.cpus[0].idle_per_mille), (ms(150), 117));
        assert_eq!((r.cpus[1].busy, r.cpus[1].idle_per_mille), (ms(100), 411));
        assert!(r.cpus_with_10_percent_idle);
        assert!(r.to_string().contains("budgets of 200ms do not fit its 100ms"), "{r}");
    }

    #[test]
    fn a_partition_in_every_window_never_waits_and_a_full_cpu_has_no_idle_time() {
        let window = || Window { length: ms(10), slices: vec![slice(0, Some(0), None)] };
        let r = report(&system(&[(10, 0)], &[&[0]], vec![window(), window()], 1));
        assert_eq!(r.partitions[0].gap_max, Some(Span::ZERO));
        assert!(r.windows[0].fits && !r.cpus_with_10_percent_idle);
        assert_eq!(r.cpus[0].idle_per_mille, 0);
    }

    #[test]
    fn several_cpus_of_a_slice_count_as_cpu_time() {
        let both = Slice { cpus: CpuSet::first(2), sc: Some(PartitionId(0)), be: None };
        let r = report(&system(&[(4, 0)], &[&[0]], vec![Window { length: ms(10), slices: vec![both] }], 2));
        assert_eq!(r.partitions[0].cpu_time, ms(8));
        assert_eq!((r.cpus[1].busy, r.cpus[1].idle_per_mille), (ms(4), 600));
    }
}
