//! The cost of the regulator of I+PI on a board.

use super::bench::Bench;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::fs;

/// Instructions for each task and round that the regulator may take.
const LIMIT: u64 = 2_500;
/// The numbers of tasks that are compared.
const TASKS: [u64; 2] = [4, 8];

/// Tasks that run for ever, and regulators that never start again: each round has both control loops.
fn workload(tasks: u64) -> String {
    let mut text = "policy: {name: ipi, feedforward: no, reinit: no}\nduration: 1s\ntasks:\n".to_owned();
    for task in 0..tasks {
        // Unequal shares, so that no division is a special one. Writing to a string cannot fail.
        let _ = writeln!(text, "  - {{name: r{task}, batch: yes, share: {}%}}", 8 + task);
    }
    text
}

impl Bench {
    /// Instructions of the longest entry into the kernel: the one that ends a round, with the regulator.
    fn longest_entry(&self, tasks: u64) -> Result<u64> {
        let file = self.images.join(format!("regulator-{tasks}.yaml"));
        fs::write(&file, workload(tasks))?;
        let variables = [("TAKT_WORKLOAD", &*file.to_string_lossy()), ("TAKT_TRACE", "figures")];
        let image = self.build("tracking", "s", &variables)?;
        let summary = self.emulate(&image, &file, None, &[])?;
        let entries = summary["figures"]["entries_with_steps"].as_array().context("no costs of entries")?;
        let sum = |key: &str| entries.iter().filter_map(|entry| entry[key].as_u64()).sum::<u64>();
        ensure!(sum("count") > 100, "only {} entries into the kernel: {summary}", sum("count"));
        // QEMU counts 32 ns for an instruction.
        Ok(entries.iter().filter_map(|entry| entry["most_ns"].as_u64()).max().unwrap_or(0) / 32)
    }

    /// Instructions of the regulator for each task and round, by rounds of four and of eight tasks.
    pub(super) fn regulator(&self) -> Result<u64> {
        let [few, many] = [self.longest_entry(TASKS[0])?, self.longest_entry(TASKS[1])?];
        let each = many.saturating_sub(few) / (TASKS[1] - TASKS[0]);
        println!("the regulator takes {each} instructions for each task and round, at most {LIMIT}");
        ensure!((1..=LIMIT).contains(&each), "the regulator takes {each} instructions for each task and round");
        Ok(each)
    }
}
