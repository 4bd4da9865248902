//! The scenario `windows`: half of a CPU by a window table of `takt run`, with the measured task as a process of it.

use super::internal::Measured;
use super::measure::FRAME;
use super::stress::Load;
use crate::interruption::Interruption;
use crate::scratch::Scratch;
use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;
use takt_core::time::Span;

/// The measurement of one round.
pub(super) struct Plan<'a> {
    pub(super) cpu: usize,
    pub(super) period: Span,
    pub(super) count: usize,
    pub(super) load: &'a Load,
}

impl Plan<'_> {
    /// A frame has a window for the task, and one of the same length for the load.
    fn window(&self) -> Span {
        self.period * (FRAME / 2)
    }

    /// Enough for all samples, of which a frame has four, and for the start of a run.
    pub(super) fn longest(&self) -> Span {
        self.period * FRAME * (self.count as i64 / (FRAME / 2 - 1) + 1) * 2 + Span::from_secs(5)
    }

    /// The workload file. `measure` has the arguments of the task.
    fn workload(&self, program: &str, measure: &[String]) -> String {
        let (cpu, window) = (self.cpu, self.window().ns());
        let loads = self.load.commands(Duration::from_nanos(self.longest().ns() as u64));
        let each = window / loads.len().max(1) as i64;
        let process = |budget: i64, words: &[String], more: &str| {
            let words = std::iter::once(program).chain(words.iter().map(String::as_str));
            let words: Vec<String> = words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            // A JSON string is a YAML string.
            let command = serde_json::Value::from(format!("exec {}", words.join(" ")));
            format!("    - {{budget: {budget}ns, cmd: {command}{more}}}\n")
        };
        let mut yaml = String::from("windows:\n");
        for name in ["task", "load"] {
            yaml += &format!("- {{length: {window}ns, cpu: {cpu}, sc_partition: {name}}}\n");
        }
        yaml += "partitions:\n- name: task\n  processes:\n";
        yaml += &process(window, measure, ", on_exit: stop");
        yaml += "- name: load\n  processes:\n";
        loads.iter().for_each(|load| yaml += &process(each, load, ""));
        yaml
    }

    /// Runs the schedule until the task has its samples. The inner error is the reason why this machine cannot.
    pub(super) fn measure(
        &self,
        arguments: &[String],
        interruption: &Interruption,
    ) -> io::Result<Result<Measured, String>> {
        let room = Scratch::new("takt-latency-")?;
        let (file, output) = (room.path().join("windows.yaml"), room.path().join("samples"));
        let program = std::env::current_exe()?.to_string_lossy().into_owned();
        let measure = [arguments, &["--output".into(), output.to_string_lossy().into_owned()]].concat();
        fs::write(&file, self.workload(&program, &measure))?;
        let mut run = Command::new("/proc/self/exe");
        run.args(["__latency", "schedule"]).arg(&file).arg("--json");
        run.args(["--duration", &format!("{}ns", self.longest().ns())]);
        run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let done = interruption.output(&mut run)?;
        let samples = fs::read(&output).unwrap_or_default();
        if !samples.is_empty() {
            return Ok(Ok(Measured::read(&samples)));
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let error = said.lines().find(|line| line.starts_with("error"));
        Ok(Err(error.map_or("the task did not get its windows in time".into(), |line| {
            format!("the schedule did not run: {line}")
        })))
    }
}
