//! The figures of a run in the text format of Prometheus, version 0.0.4.

use std::fmt::Write;
use takt_trace::live::{Distribution, Live, Snapshot, TaskState, TaskStatus};

/// The content type of a body in this format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The figures that are exposed, taken from a run at one instant.
pub(super) struct Exposed {
    status: Snapshot,
    responses: Vec<Distribution>,
    lateness: Distribution,
}

impl Exposed {
    pub(super) fn of(live: &Live) -> Exposed {
        Exposed {
            status: live.snapshot(),
            responses: live.responses().cloned().collect(),
            lateness: live.lateness().clone(),
        }
    }

    /// The text.
    pub(super) fn text(&self) -> String {
        let mut page = Page(String::with_capacity(1 << 16));
        self.run(&mut page);
        self.jobs(&mut page);
        self.tasks(&mut page);
        page.0
    }

    fn run(&self, page: &mut Page) {
        let status = &self.status;
        page.family("takt_info", "gauge", "The workload and its policy; the value is always 1.");
        let version = env!("CARGO_PKG_VERSION");
        let labels = [("version", version), ("workload", &status.workload), ("policy", &status.policy)];
        page.sample("takt_info", &labels, 1);
        page.one(
            "takt_elapsed_seconds",
            "gauge",
            "Time since the start of the schedule.",
            seconds(status.now_ns.into()),
        );
        let switches = "Changes of the running task of a CPU.";
        page.one("takt_context_switches_total", "counter", switches, status.context_switches);
        page.one("takt_windows_lost_total", "counter", "Windows that passed unserved.", status.windows_lost);
        let lost = "Trace records that were lost; other figures lack them.";
        page.one("takt_records_lost_total", "counter", lost, status.lost_records);
        page.one("takt_overloads_total", "counter", "Overloads that have begun.", status.overloads);
        page.one("takt_overload", "gauge", "1 during an overload, else 0.", u8::from(status.overload.is_some()));
        let lateness = "takt_scheduler_lateness_seconds";
        page.family(lateness, "histogram", "Lateness of the scheduler at planned instants.");
        page.histogram(lateness, None, &self.lateness);
        page.family("takt_cpu_load_ratio", "gauge", "The busy part of a CPU of the schedule in the last second.");
        for cpu in &status.cpus {
            page.sample("takt_cpu_load_ratio", &[("cpu", &cpu.cpu.to_string())], millionths(cpu.load_ppm));
        }
    }

    fn jobs(&self, page: &mut Page) {
        let with_jobs = || self.status.tasks.iter().filter(|task| !task.jobless);
        page.family("takt_jobs_total", "counter", "Jobs whose outcome is known: met or missed their deadline.");
        for task in with_jobs() {
            page.sample("takt_jobs_total", &[("task", &task.name), ("outcome", "met")], task.met);
            page.sample("takt_jobs_total", &[("task", &task.name), ("outcome", "missed")], task.missed);
        }
        let mut each = |name, kind, help, value: fn(&TaskStatus) -> u64| {
            page.family(name, kind, help);
            with_jobs().for_each(|task| page.sample(name, &[("task", &task.name)], value(task)));
        };
        let undecided = "Jobs that are released, unfinished and not late.";
        each("takt_jobs_undecided", "gauge", undecided, |task| task.released.saturating_sub(task.met + task.missed));
        each("takt_jobs_completed_total", "counter", "Jobs that completed, in time or late.", |task| task.completed);
        each("takt_jobs_aborted_total", "counter", "Missed jobs that were aborted.", |task| task.aborted);
        each("takt_jobs_skipped_total", "counter", "Missed jobs that never ran.", |task| task.skipped);
        each("takt_events_lost_total", "counter", "Events that released no job.", |task| task.lost);
        let name = "takt_response_seconds";
        page.family(name, "histogram", "Time from the release of a job to its completion.");
        for (task, responses) in self.status.tasks.iter().zip(&self.responses).filter(|(task, _)| !task.jobless) {
            page.histogram(name, Some(&task.name), responses);
        }
    }

    fn tasks(&self, page: &mut Page) {
        let mut each = |name, kind, help, value: fn(&TaskStatus) -> Option<String>| {
            page.family(name, kind, help);
            for task in &self.status.tasks {
                if let Some(value) = value(task) {
                    page.sample(name, &[("task", &task.name)], value);
                }
            }
        };
        let utilisation = "The part of the last second that the task had its CPUs.";
        each("takt_utilisation_ratio", "gauge", utilisation, |task| task.utilisation_ppm.map(millionths));
        let ran = "Time that the task had its CPUs.";
        each("takt_run_seconds_total", "counter", ran, |task| {
            task.utilisation_ppm.map(|_| seconds(task.ran_ns.into()))
        });
        let left = "The rest of the budget of the current job, without its time on CPUs.";
        each("takt_budget_left_seconds", "gauge", left, |task| task.budget_left_ns.map(|ns| seconds(ns.into())));
        each("takt_activations_total", "counter", "Activations of a process in a window table.", |task| {
            of_table(task).then(|| task.activations.to_string())
        });
        let cut_off = "Activations that ended before the completion signal.";
        each("takt_cut_off_total", "counter", cut_off, |task| of_table(task).then(|| task.cut_off.to_string()));
        each("takt_dispatches_total", "counter", "Dispatches of the task.", |task| Some(task.dispatches.to_string()));
        let preemptions = "Preemptions of the task.";
        each("takt_preemptions_total", "counter", preemptions, |task| Some(task.preemptions.to_string()));
        let migrations = "Migrations of the task.";
        each("takt_migrations_total", "counter", migrations, |task| Some(task.migrations.to_string()));
        let gone = "1 if the program of the task has ended for good, else 0.";
        each("takt_task_gone", "gauge", gone, |task| Some(u8::from(task.state == TaskState::Gone).to_string()));
    }
}

fn of_table(task: &TaskStatus) -> bool {
    task.jobless || task.activations > 0
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: i128) -> String {
    let (sign, ns) = if ns < 0 { ("-", -ns) } else { ("", ns) };
    decimal(sign, ns / 1_000_000_000, ns % 1_000_000_000, 9)
}

fn millionths(ppm: u64) -> String {
    decimal("", (ppm / 1_000_000).into(), (ppm % 1_000_000).into(), 6)
}

fn decimal(sign: &str, whole: i128, part: i128, digits: usize) -> String {
    let text = format!("{sign}{whole}.{part:0digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The text, family by family.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if index == 0 { '{' } else { ',' });
            for c in value.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn histogram(&mut self, name: &str, task: Option<&str>, spans: &Distribution) {
        let (bucket, sum, count) = (format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count"));
        let labels: Vec<(&str, &str)> = task.iter().map(|task| ("task", *task)).collect();
        let all = spans.histogram().count();
        for (bound, value) in spans.cumulative() {
            self.sample(&bucket, &[&labels[..], &[("le", &seconds(bound.into()))]].concat(), value);
        }
        self.sample(&bucket, &[&labels[..], &[("le", "+Inf")]].concat(), all);
        self.sample(&sum, &labels, seconds(spans.sum_ns()));
        self.sample(&count, &labels, all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_trace::{Header, TaskLabel};

    #[test]
    fn the_page_about_metrics_has_them_all() {
        let page = include_str!("../../../../../docs/operation.md");
        let header = Header { tasks: vec![TaskLabel::default()], ..Header::default() };
        let text = Exposed::of(&Live::new(&header)).text();
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        for name in &names {
            assert!(page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}{{")), "{name}");
        }
        let told = page.split('`').filter_map(|word| word.split('{').next()).filter(|word| word.starts_with("takt_"));
        let others = ["takt_control", "takt_log"];
        let unknown: Vec<&str> = told.filter(|word| !others.contains(word) && !names.contains(word)).collect();
        assert_eq!(unknown, [""; 0]);
    }

    #[test]
    fn seconds_are_exact() {
        let texts = [0, 1, 1_500_000_000, -2_000_000, 86_400_000_000_000].map(seconds);
        assert_eq!(texts, ["0", "0.000000001", "1.5", "-0.002", "86400"]);
        assert_eq!([0, 5, 1_000_000, 250_000].map(millionths), ["0", "0.000005", "1", "0.25"]);
    }
}
