//! How figures and names are written.

use takt::report::{percent, short};
use takt_core::time::Span;
use takt_trace::live::{EventStatus, Snapshot, TaskStatus};

/// A name of a file or program, with escapes for the characters that a terminal would obey or hide: a trace can hold any.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if takt_workload::visible(c) == c && !c.is_control() {
            shown.push(c);
        } else {
            shown.extend(c.escape_default());
        }
    }
    shown
}

pub(super) fn time(ns: i64) -> String {
    short(Span::from_ns(ns))
}

/// A time if something was measured.
pub(super) fn measured(count: u64, ns: i64) -> String {
    if count == 0 { "-".into() } else { time(ns) }
}

/// An instant of the schedule: from a second on in seconds with milliseconds.
pub(super) fn instant(ns: i64) -> String {
    match ns.unsigned_abs() {
        0..=9_999_999 => Span::from_ns(ns).to_string(),
        10_000_000..=999_999_999 => Span::from_ns(ns / 1_000 * 1_000).to_string(),
        ms => format!("{}{}.{:03}s", if ns < 0 { "-" } else { "" }, ms / 1_000_000_000, ms / 1_000_000 % 1_000),
    }
}

pub(super) fn share(ppm: Option<u64>) -> String {
    ppm.map_or_else(|| "-".into(), |ppm| percent(i64::try_from(ppm).unwrap_or(i64::MAX)))
}

/// The cell of a task in a column, by the column's name.
pub(super) fn cell(task: &TaskStatus, column: &str) -> String {
    let jobs = |value: u64| if task.jobless { "-".into() } else { value.to_string() };
    let response = |ns: i64| measured(task.response.count, ns);
    match column {
        "task" => escaped(&task.name),
        "state" => task.state.name().into(),
        "cpu" => task.cpus.clone().unwrap_or_else(|| "-".into()),
        "job" => task.job.map_or_else(|| "-".into(), |job| job.to_string()),
        "util" => share(task.utilisation_ppm),
        "met" => jobs(task.met),
        "missed" => jobs(task.missed),
        "p50" => response(task.response.p50_ns),
        "p99" => response(task.response.p99_ns),
        "max" => response(task.response.max_ns),
        "budget" => task.budget_left_ns.map_or_else(|| "-".into(), time),
        _ => String::new(),
    }
}

/// `1.25s  miss  camera  job 3  late`.
pub(super) fn event(event: &EventStatus, status: &Snapshot) -> String {
    let task = event.task.and_then(|task| status.tasks.get(task)).map(|task| format!("  {}", escaped(&task.name)));
    let job = event.job.map(|job| format!("  job {job}"));
    let detail = if event.detail.is_empty() { String::new() } else { format!("  {}", escaped(&event.detail)) };
    let kind = escaped(&event.event).replace('_', " ");
    format!("{:>12}  {kind}{}{}{detail}", instant(event.at_ns), task.unwrap_or_default(), job.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_move_the_cursor() {
        let name = "a\u{1b}[2J\n\u{202e}\u{7}b\u{9b}31m";
        assert_eq!(escaped(name), "a\\u{1b}[2J\\n\\u{202e}\\u{7}b\\u{9b}31m");
        assert_eq!(escaped("kamera-ü 日本"), "kamera-ü 日本");
    }
}
