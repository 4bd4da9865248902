//! The canonical form of a workload: every default written out, in YAML.

use crate::value::{duration_text, parse_bool, policy_text};
use crate::{DEFAULT_INIT_TIMEOUT, OnCrash, Realtime, Settings, Spawn, Workload};
use std::fmt::Write;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Backlog, BestEffortStart, Late, PartitionId, Task};
use takt_core::policy::{Placement, PolicySpec, Scope};
use takt_core::time::Span;

/// Writes the workload out in full: partitions with names, slices with CPUs, processes with budgets. Loaded
/// with the same [`crate::Options`] it gives the same system, names and settings. A workload that uses nothing
/// but what DEmOS has is written with nothing but DEmOS's keys, as long as its times are whole milliseconds.
#[must_use]
pub fn canonical(workload: &Workload) -> String {
    let mut out = String::new();
    write_settings(&mut out, workload);
    if workload.system.windows.is_empty() {
        write_tasks(&mut out, workload);
    } else {
        write_partitions(&mut out, workload);
        write_windows(&mut out, workload);
    }
    out
}

/// Appends a line. Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes any text")
    };
}

fn write_settings(out: &mut String, workload: &Workload) {
    let (system, settings) = (&workload.system, &workload.settings);
    let default = Settings::default();
    line!(out, "set_cwd: {}", if settings.directory.is_some() { "yes" } else { "no" });
    if let Some(cpus) = &settings.scheduler_cpus {
        line!(out, "demos_cpu: {cpus}");
    }
    if system.windows.is_empty() {
        line!(out, "policy: {}", policy_text(&system.policy));
        write_placement(out, "", &system.policy);
    }
    let named = match system.windows.is_empty() {
        false => system.windows.iter().flat_map(|w| &w.slices).fold(CpuSet::EMPTY, |all, s| all.union(&s.cpus)),
        true => CpuSet::EMPTY,
    };
    if !settings.cpus_from_all && named != system.cpus {
        line!(out, "cpus: {}", system.cpus);
    }
    if system.seed != 0 {
        line!(out, "seed: {}", system.seed);
    }
    if let Some(duration) = settings.duration {
        line!(out, "duration: {}", duration_text(duration));
    }
    if system.late == Late::Abort {
        line!(out, "late: abort");
    }
    if system.backlog == Backlog::Skip {
        line!(out, "backlog: skip");
    }
    if system.be_start == BestEffortStart::SliceDone {
        line!(out, "be_start: slice");
    }
    if settings.init_timeout != DEFAULT_INIT_TIMEOUT {
        line!(out, "init_timeout: {}", duration_text(settings.init_timeout));
    }
    if settings.realtime != default.realtime {
        line!(out, "realtime: {}", if settings.realtime == Realtime::Yes { "yes" } else { "no" });
    }
    if settings.on_crash == OnCrash::Release {
        line!(out, "on_crash: release");
    }
}

fn write_placement(out: &mut String, indent: &str, policy: &PolicySpec) {
    if policy.scope == Scope::Partitioned
        && policy.placement != Placement::DEFAULT
        && let Some((name, _)) = Placement::ALL.iter().find(|(_, p)| *p == policy.placement)
    {
        line!(out, "{indent}placement: {name}");
    }
}

fn write_partitions(out: &mut String, workload: &Workload) {
    if workload.partitions.is_empty() {
        return;
    }
    line!(out, "partitions:");
    for (partition, name) in workload.system.partitions.iter().zip(&workload.partitions) {
        line!(out, "  - name: {}", scalar(name));
        if let Some(policy) = &partition.policy {
            line!(out, "    policy: {}", policy_text(policy));
            write_placement(out, "    ", policy);
        }
        line!(out, "    processes:");
        for (k, id) in partition.tasks.iter().enumerate() {
            let own = format!("{name}-{}", k + 1);
            write_task(out, workload, id.index(), &own, None);
        }
    }
}

fn write_tasks(out: &mut String, workload: &Workload) {
    line!(out, "tasks:");
    for i in 0..workload.tasks.len() {
        // A name is what a reader looks for in a list of tasks, so it is always there.
        write_task(out, workload, i, "", Some(&workload.system.cpus));
    }
}

/// One process or task; `own` is the name that it has anyway, `machine` the affinity.
fn write_task(out: &mut String, workload: &Workload, index: usize, own: &str, machine: Option<&CpuSet>) {
    let (task, info): (&Task, _) = (&workload.system.tasks[index], &workload.tasks[index]);
    let mut fields: Vec<(&str, String)> = Vec::new();
    if info.name != own {
        fields.push(("name", scalar(&info.name)));
    }
    if let Some(cmd) = &info.cmd {
        fields.push(("cmd", scalar(cmd)));
    }
    if let Arrival::Periodic { offset, period } = task.arrival {
        fields.push(("period", duration_text(period)));
        if task.deadline != Some(period) {
            fields.extend(task.deadline.map(|d| ("deadline", duration_text(d))));
        }
        if offset != Span::ZERO {
            fields.push(("offset", duration_text(offset)));
        }
    }
    fields.extend(task.runtime.map(|r| ("runtime", duration_text(r))));
    fields.extend(task.budget.map(|b| ("budget", milliseconds(b))));
    if task.jitter != Span::ZERO {
        fields.push(("jitter", milliseconds(task.jitter)));
    }
    if task.priority != 0 {
        fields.push(("priority", task.priority.to_string()));
    }
    if let Some(machine) = machine
        && task.affinity != *machine
    {
        fields.push(("cpu", task.affinity.to_string()));
    }
    if info.init {
        fields.push(("init", "yes".to_owned()));
    }
    if info.spawn == Spawn::PerJob {
        fields.push(("spawn", "per-job".to_owned()));
    }
    fields.extend(info.output.as_ref().map(|o| ("output", scalar(&o.to_string_lossy()))));
    fields.extend(info.frequency_mhz.map(|f| ("frequency", f.to_string())));
    let indent = if machine.is_some() { "  " } else { "      " };
    for (n, (key, text)) in fields.iter().enumerate() {
        let dash = if n == 0 { "- " } else { "  " };
        line!(out, "{indent}{dash}{key}: {text}");
    }
}

fn write_windows(out: &mut String, workload: &Workload) {
    line!(out, "windows:");
    for (w, window) in workload.system.windows.iter().enumerate() {
        line!(out, "  - length: {}", milliseconds(window.length));
        if window.slices.is_empty() {
            continue;
        }
        line!(out, "    slices:");
        for (s, slice) in window.slices.iter().enumerate() {
            match workload.settings.cpus_from_all {
                true => line!(out, "      - cpu: all"),
                false => line!(out, "      - cpu: {}", slice.cpus),
            }
            let name = |id: PartitionId| scalar(&workload.partitions[id.index()]);
            if let Some(id) = slice.sc {
                line!(out, "        sc_partition: {}", name(id));
            }
            if let Some(id) = slice.be {
                line!(out, "        be_partition: {}", name(id));
            }
            let frequency = workload.slice_frequencies_mhz.get(w).and_then(|f| *f.get(s)?);
            if let Some(f) = frequency {
                line!(out, "        frequency: {f}");
            }
        }
    }
}

/// DEmOS's bare number of milliseconds where that is exact, else a duration with its unit.
fn milliseconds(span: Span) -> String {
    if span.ns() % 1_000_000 == 0 { (span.ns() / 1_000_000).to_string() } else { duration_text(span) }
}

/// A YAML scalar that every reader takes for this very text.
fn scalar(text: &str) -> String {
    let plain_char = |c: char| c.is_ascii_alphanumeric() || "_-./ ".contains(c);
    let plain = text.chars().all(plain_char)
        && (text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') || text.starts_with("./"))
        && !text.ends_with(' ')
        && !text.contains("  ")
        && !matches!(text.to_ascii_lowercase().as_str(), "null" | "nan" | "inf")
        && parse_bool(text).is_none();
    if plain {
        return text.to_owned();
    }
    if text.chars().all(|c| !c.is_control() && !"\u{85}\u{2028}\u{2029}\u{feff}".contains(c)) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || "\u{2028}\u{2029}\u{feff}".contains(c) => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes any text");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
