//! Random task sets.

use crate::error::Error;
use serde::Serialize;
use std::io::{self, Write};
use takt_analysis::generate::Impossible;
pub use takt_analysis::generate::{Deadlines, Generator, Periods, Utilisations};
use takt_workload::{Code, parse_duration};

/// The kind of the drawn sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// How utilisations, periods and deadlines are drawn, in microseconds.
    pub generator: Generator,
    /// Total utilisation of a set in millionths.
    pub total: u64,
    /// Periods are multiples of this many microseconds.
    pub grid: u64,
    /// Seed of all sets.
    pub seed: u64,
}

/// A drawn task: a row of the CSV of `takt sweep generate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// The number of its set, from 0.
    pub set_id: u64,
    /// Its number in the set, from 0.
    pub task_id: u32,
    /// Runtime in microseconds.
    #[serde(rename = "C_us")]
    pub runtime_us: u64,
    /// Relative deadline in microseconds.
    #[serde(rename = "D_us")]
    pub deadline_us: u64,
    /// Period in microseconds.
    #[serde(rename = "T_us")]
    pub period_us: u64,
}

/// The first line of the CSV.
pub const HEAD: &str = "set_id,task_id,C_us,D_us,T_us";

/// Draws set number `set` of a recipe.
///
/// # Errors
/// Such sets cannot be drawn.
///
/// ```
/// use takt_analysis::generate::Generator;
/// let recipe = takt::generate::Recipe { generator: Generator::AIRS, total: 2_000_000, grid: 1, seed: 1 };
/// let rows = takt::generate::generate(&recipe, 0)?;
/// assert!(rows.iter().all(|row| row.runtime_us <= row.period_us));
/// # Ok::<(), takt::Error>(())
/// ```
pub fn generate(recipe: &Recipe, set: u64) -> Result<Vec<Row>, Error> {
    let Recipe { generator, total, grid, seed } = *recipe;
    let tasks = generator.set_on(grid, total, seed, set).map_err(impossible)?;
    let row = |(task_id, task): (u32, takt_analysis::taskset::Task)| Row {
        set_id: set,
        task_id,
        runtime_us: task.runtime,
        deadline_us: task.deadline,
        period_us: task.period,
    };
    Ok((0..).zip(tasks).map(row).collect())
}

/// Writes the rows of a set as CSV, without the first line.
///
/// # Errors
/// Those of the output.
pub fn write_csv(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    rows.iter().try_for_each(|Row { set_id, task_id, runtime_us, deadline_us, period_us }| {
        writeln!(out, "{set_id},{task_id},{runtime_us},{deadline_us},{period_us}")
    })
}

/// Whole microseconds above zero.
///
/// # Errors
/// The text is not that.
pub fn us(text: &str) -> Result<u64, String> {
    let span = parse_duration(text)?;
    match u64::try_from(span.ns()) {
        Ok(ns) if ns > 0 && ns.is_multiple_of(1_000) => Ok(ns / 1_000),
        _ => Err(format!("`{text}` is not a whole number of microseconds above zero")),
    }
}

/// Periods as the command line takes them: `uniform:1ms..100ms` or `log-uniform:10ms..1s`.
///
/// # Errors
/// Why the text is not that.
pub fn periods(text: &str) -> Result<Periods, String> {
    let form = "write `uniform:1ms..100ms` or `log-uniform:10ms..1s`";
    let (kind, range) = text.split_once(':').ok_or(form)?;
    let (low, high) = range.split_once("..").ok_or(form)?;
    let (low, high) = (us(low)?, us(high)?);
    if low > high {
        return Err("the shortest period is longer than the longest".into());
    }
    match kind {
        "uniform" => Ok(Periods::Uniform(low, high)),
        "log-uniform" => Ok(Periods::LogUniform(low, high)),
        _ => Err(form.into()),
    }
}

/// The error that says why sets cannot be drawn.
#[must_use]
pub fn impossible(why: Impossible) -> Error {
    Error::argument(
        Code::OutOfRange,
        format!("such sets cannot be drawn: {why}"),
        "change the total utilisation, `--tasks`, `--generator`, `--periods`, `--grid` or `--utilities`",
    )
}

/// A total utilisation or load in millionths; also in percent.
///
/// # Errors
/// The text is no such number.
pub fn total(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is no utilisation or factor: a number above zero and at most 1000, such as 3.2 or 320%");
    if let Some(percent) = text.strip_suffix('%') {
        let (whole, fraction) = percent.split_once('.').unwrap_or((percent, ""));
        if whole.is_empty() || !whole.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong());
        }
        // The point moves two digits to the left.
        let whole = format!("{whole:0>3}");
        let (ones, hundredths) = whole.split_at(whole.len() - 2);
        return total(&format!("{ones}.{hundredths}{fraction}")).map_err(|_| wrong());
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 4 || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let value: u64 = format!("{whole}{fraction:0<6}").parse().map_err(|_| wrong())?;
    if (1..=1_000_000_000).contains(&value) { Ok(value) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(periods("uniform:1ms..100ms"), Ok(Periods::Uniform(1_000, 100_000)));
        assert_eq!(periods("log-uniform:10us..1s"), Ok(Periods::LogUniform(10, 1_000_000)));
        for wrong in ["uniform", "uniform:1ms", "uniform:2ms..1ms", "even:1ms..2ms", "uniform:1ns..2ms", "uniform:1..2"]
        {
            assert!(periods(wrong).is_err(), "{wrong}");
        }
    }
}
