//! The behaviour of a regulator: its loops and the resulting shares.

use crate::report::{percent as millionths, table};
use serde::Serialize;
use std::io::{self, Write};
use takt_analysis::control::{self, ControlReport, CpuPlan};
use takt_workload::Workload;

/// The loops of a regulator (policy `ipi`) and the shares that follow from them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ControlEntry {
    /// Whether the loops are stable as they run.
    pub stable: bool,
    /// Whether measurements change bursts at all.
    pub feedback: bool,
    /// The gains.
    pub gains_millionths: Gains,
    /// The loops as they run.
    pub as_it_runs: Loops,
    /// The loops as they are modelled.
    pub as_modelled: Loops,
    /// By CPU.
    pub cpus: Vec<ControlCpu>,
}

/// Gains in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Gains {
    /// Proportional gain of the bursts.
    pub kpi: i64,
    /// Gain of the round.
    pub krr: i64,
    /// Zero of the round.
    pub zrr: i64,
}

/// Stability of one timing.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Loops {
    /// Whether both loops are stable.
    pub stable: bool,
    /// Poles of the loop of the round.
    pub round_poles: Vec<Pole>,
    /// Poles of the loops of the bursts.
    pub burst_poles: Vec<Pole>,
    /// Rounds after which an error should be below 2 %.
    pub settling_rounds: Option<u64>,
}

/// A pole.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Pole {
    /// Its real part.
    pub re: f64,
    /// Its imaginary part.
    pub im: f64,
}

/// The set points of a CPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ControlCpu {
    /// Its number.
    pub cpu: usize,
    /// Set point of a round with all tasks.
    pub round_ns: i64,
    /// Sum of the declared utilisations.
    pub declared_millionths: u64,
    /// Whether that is above 1, so that relative importance counts.
    pub overloaded: bool,
    /// Its tasks.
    pub tasks: Vec<ControlTask>,
}

/// The share of its CPU that a task should get.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ControlTask {
    /// Its name.
    pub name: String,
    /// Its declared utilisation.
    pub declared_millionths: Option<u32>,
    /// Its part of a round in which all tasks are ready.
    pub alpha_millionths: u32,
    /// The part of the CPU that it will use.
    pub predicted_millionths: u32,
}

impl ControlEntry {
    pub(super) fn of(workload: &Workload, report: &ControlReport) -> ControlEntry {
        let poles = |poles: &[control::Pole]| poles.iter().map(|p| Pole { re: p.re, im: p.im }).collect();
        let loops = |loops: &control::Loops| Loops {
            stable: loops.stable,
            round_poles: poles(&loops.outer),
            burst_poles: poles(&loops.inner),
            settling_rounds: loops.settling,
        };
        let task = |p: &control::Prediction| ControlTask {
            name: workload.tasks[p.task.index()].name.clone(),
            declared_millionths: p.declared,
            alpha_millionths: p.alpha,
            predicted_millionths: p.expected,
        };
        let cpu = |cpu: &CpuPlan| ControlCpu {
            cpu: cpu.cpu,
            round_ns: cpu.round.ns(),
            declared_millionths: cpu.declared,
            overloaded: cpu.overloaded,
            tasks: cpu.tasks.iter().map(task).collect(),
        };
        let control::Gains { kpi, krr, zrr } = report.gains;
        ControlEntry {
            stable: report.stable(),
            feedback: report.feedback,
            gains_millionths: Gains { kpi, krr, zrr },
            as_it_runs: loops(&report.loops[0]),
            as_modelled: loops(&report.loops[1]),
            cpus: report.cpus.iter().map(cpu).collect(),
        }
    }
}

/// The behaviour of a regulator: its loops and the resulting shares.
pub(super) fn print(workload: &Workload, report: &ControlReport, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{report}")?;
    for cpu in &report.cpus {
        let declared = millionths(cpu.declared as i64);
        let load = if cpu.overloaded { ", overloaded: importance counts" } else { "" };
        writeln!(out, "\nCPU {}: rounds of {}, declared {declared}{load}", cpu.cpu, cpu.round)?;
        let mut rows = vec![["task", "declared", "part of a round", "predicted of the CPU"].map(String::from).to_vec()];
        for p in &cpu.tasks {
            let declared = p.declared.map_or("-".into(), |d| millionths(d.into()));
            let name = workload.tasks[p.task.index()].name.clone();
            rows.push(vec![name, declared, millionths(p.alpha.into()), millionths(p.expected.into())]);
        }
        table(out, &rows)?;
    }
    Ok(())
}
