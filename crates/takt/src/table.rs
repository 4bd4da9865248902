//! Tables with columns of numbers and texts, for programs.

use crate::analysis::AnalysisResult;
use crate::generate::Row;
use crate::simulation::{Simulation, SimulationResult, TaskResult};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use takt_trace::jobs::JobTable;
use takt_trace::{Footer, Format, Writer};

/// A table. All columns have the same length.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// The columns, in their order.
    pub columns: Vec<Column>,
}

/// A column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its name. Those of times end in `_ns`.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// The values of a column; `None` where a row has none.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// Whole numbers.
    Numbers(Vec<Option<i64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
}

impl Values {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Values::Numbers(values) => values.len(),
            Values::Texts(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The name of a column, and its value of a row.
type Named<T, V> = (&'static str, fn(&T) -> V);

impl Table {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    fn numbers<T>(&mut self, name: &str, rows: &[T], value: impl Fn(&T) -> Option<i64>) {
        let values = Values::Numbers(rows.iter().map(value).collect());
        self.columns.push(Column { name: name.into(), values });
    }

    fn texts<T>(&mut self, name: &str, rows: &[T], value: impl Fn(&T) -> Option<String>) {
        let values = Values::Texts(rows.iter().map(value).collect());
        self.columns.push(Column { name: name.into(), values });
    }

    /// The tasks of a simulation: a row for each, with the keys of `takt sim --json` as columns.
    #[must_use]
    pub fn of_tasks(result: &SimulationResult) -> Table {
        let (mut table, rows) = (Table::default(), &result.tasks[..]);
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        table.texts("name", rows, |t| Some(t.counts.name.clone()));
        table.texts("partition", rows, |t| t.counts.partition.clone());
        let jobs: [Named<TaskResult, Option<u64>>; 13] = [
            ("released", |t| t.counts.released),
            ("completed", |t| t.counts.completed),
            ("met", |t| t.counts.met),
            ("missed", |t| t.counts.missed),
            ("aborted", |t| t.counts.aborted),
            ("behind", |t| t.counts.behind),
            ("handlers", |t| t.counts.handlers),
            ("activations", |t| Some(t.counts.activations)),
            ("cut_off", |t| t.counts.cut_off),
            ("overruns", |t| Some(t.counts.overruns)),
            ("dispatches", |t| Some(t.counts.dispatches)),
            ("preemptions", |t| Some(t.counts.preemptions)),
            ("migrations", |t| Some(t.counts.migrations)),
        ];
        for (name, of) in jobs {
            table.numbers(name, rows, |t| of(t).map(whole));
        }
        let times: [Named<TaskResult, Option<i64>>; 6] = [
            ("response_min_ns", |t| t.counts.response_ns.map(|r| r.min)),
            ("response_mean_ns", |t| t.counts.response_ns.map(|r| r.mean)),
            ("response_p99_ns", |t| t.counts.response_ns.map(|r| r.p99)),
            ("response_max_ns", |t| t.counts.response_ns.map(|r| r.max)),
            ("received_ns", |t| t.simulated.received_ns),
            ("worked_ns", |t| t.simulated.worked_ns),
        ];
        for (name, of) in times {
            table.numbers(name, rows, of);
        }
        table
    }

    /// The verdicts of an analysis: a row for each set, a column for each test with `yes`, `no` or `unknown`.
    #[must_use]
    pub fn of_analysis(result: &AnalysisResult) -> Table {
        let (mut table, rows) = (Table::default(), &result.sets[..]);
        table.numbers("set_id", rows, |set| i64::try_from(set.set).ok());
        table.numbers("tasks", rows, |set| i64::try_from(set.tasks).ok());
        table.numbers("utilisation_per_mille", rows, |set| i64::try_from(set.utilisation_per_mille).ok());
        let tests = rows.first().map_or(&[][..], |set| &set.tests[..]);
        for (index, test) in tests.iter().enumerate() {
            table.texts(&test.test, rows, |set| Some(set.tests[index].answer().to_owned()));
        }
        table
    }

    /// Drawn task sets: a row for each task.
    #[must_use]
    pub fn of_sets(rows: &[Row]) -> Table {
        let mut table = Table::default();
        let columns: [Named<Row, u64>; 5] = [
            ("set_id", |row| row.set_id),
            ("task_id", |row| row.task_id.into()),
            ("C_us", |row| row.runtime_us),
            ("D_us", |row| row.deadline_us),
            ("T_us", |row| row.period_us),
        ];
        for (name, of) in columns {
            table.numbers(name, rows, |row| i64::try_from(of(row)).ok());
        }
        table
    }

    /// A table that was written as CSV. Columns whose cells are all numbers or empty are numbers, but for those that are texts by their name.
    fn from_csv(text: &str, keep: impl Fn(&[String]) -> bool) -> Table {
        let mut lines = Rows { rest: text };
        let Some(names) = lines.next() else { return Table::default() };
        let mut cells: Vec<Vec<String>> = vec![Vec::new(); names.len()];
        for row in lines.filter(|row| keep(row)) {
            for (column, cell) in cells.iter_mut().zip(row) {
                column.push(cell);
            }
        }
        let values = |(name, cells): (&String, Vec<String>)| {
            let number = |cell: &String| cell.is_empty() || cell.parse::<i64>().is_ok();
            let is_text = |name: &str| ["task", "type", "cpus", "detail", "outcome"].contains(&name);
            match !is_text(name) && cells.iter().all(number) {
                true => Values::Numbers(cells.iter().map(|cell| cell.parse().ok()).collect()),
                false => {
                    Values::Texts(cells.into_iter().map(|cell| Some(cell).filter(|cell| !cell.is_empty())).collect())
                }
            }
        };
        let column = |(name, cells): (String, Vec<String>)| Column { values: values((&name, cells)), name };
        Table { columns: names.into_iter().zip(cells).map(column).collect() }
    }
}

/// The rows of CSV.
struct Rows<'a> {
    rest: &'a str,
}

impl Iterator for Rows<'_> {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        if self.rest.is_empty() {
            return None;
        }
        let (mut row, mut cell, mut quoted) = (Vec::new(), String::new(), false);
        let mut chars = self.rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if quoted && chars.peek().is_some_and(|(_, next)| *next == '"') => {
                    chars.next();
                    cell.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => row.push(std::mem::take(&mut cell)),
                '\n' if !quoted => {
                    self.rest = &self.rest[at + 1..];
                    row.push(cell);
                    return Some(row);
                }
                c => cell.push(c),
            }
        }
        self.rest = "";
        row.push(cell);
        Some(row)
    }
}

/// An output in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn text(self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Simulation {
    /// The records: a row for each, with the columns of a trace in CSV. `None` without a trace.
    ///
    /// # Errors
    /// A record that has no form in CSV.
    pub fn record_table(&self) -> io::Result<Option<Table>> {
        if self.trace.is_none() {
            return Ok(None);
        }
        let memory = Memory::default();
        self.write_trace(Format::Csv, Box::new(memory.clone()))?;
        let is_record = |row: &[String]| row.get(2).is_none_or(|kind| kind != "meta" && kind != "end");
        Ok(Some(Table::from_csv(&memory.text(), is_record)))
    }

    /// The jobs: a row for each, with the columns of `takt sim --jobs`. `None` without a trace.
    ///
    /// # Errors
    /// As [`Simulation::record_table`].
    pub fn job_table(&self) -> io::Result<Option<Table>> {
        let Some(trace) = &self.trace else { return Ok(None) };
        let memory = Memory::default();
        let mut writer = Box::new(JobTable::new(&trace.header, Box::new(memory.clone()))?);
        trace.records.iter().try_for_each(|record| writer.record(record))?;
        writer.finish(&trace.footer.unwrap_or(Footer { end: trace.end(), dropped: 0 }))?;
        Ok(Some(Table::from_csv(&memory.text(), |_| true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbers_or_texts() {
        let table = Table::from_csv("at_ns,task,detail\n5,\"a,\"\"b\"\"\",\n,7,x\n", |_| true);
        assert_eq!(table.rows(), 2);
        let texts = |values: &[&str]| {
            Values::Texts(values.iter().map(|t| Some((*t).to_owned()).filter(|t| !t.is_empty())).collect())
        };
        assert_eq!(table.columns[0].values, Values::Numbers(vec![Some(5), None]));
        assert_eq!(table.columns[1].values, texts(&["a,\"b\"", "7"]));
        assert_eq!(table.columns[2].values, texts(&["", "x"]));
    }
}
