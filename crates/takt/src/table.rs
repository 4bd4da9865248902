//! Tables with columns of numbers and texts, for programs.

use crate::analysis::AnalysisResult;
use crate::generate::Row;
use crate::report::TaskCounts;
use crate::simulation::{Simulation, SimulationResult, TaskResult, pour};
use serde::Deserialize;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use takt_trace::jobs::JobTable;
use takt_trace::{Format, Trace};

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
    /// Numbers with decimals.
    Decimals(Vec<Option<f64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
}

impl Values {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Values::Numbers(values) => values.len(),
            Values::Decimals(values) => values.len(),
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

    /// Counts and response times of tasks.
    fn counts<T>(&mut self, rows: &[T], counts: impl Fn(&T) -> &TaskCounts) {
        let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.texts("name", rows, |t| Some(counts(t).name.clone()));
        self.texts("partition", rows, |t| counts(t).partition.clone());
        let jobs: [Named<TaskCounts, Option<u64>>; 13] = [
            ("released", |t| t.released),
            ("completed", |t| t.completed),
            ("met", |t| t.met),
            ("missed", |t| t.missed),
            ("aborted", |t| t.aborted),
            ("behind", |t| t.behind),
            ("handlers", |t| t.handlers),
            ("activations", |t| Some(t.activations)),
            ("cut_off", |t| t.cut_off),
            ("overruns", |t| Some(t.overruns)),
            ("dispatches", |t| Some(t.dispatches)),
            ("preemptions", |t| Some(t.preemptions)),
            ("migrations", |t| Some(t.migrations)),
        ];
        for (name, of) in jobs {
            self.numbers(name, rows, |t| of(counts(t)).map(whole));
        }
        let times: [Named<TaskCounts, Option<i64>>; 4] = [
            ("response_min_ns", |t| t.response_ns.map(|r| r.min)),
            ("response_mean_ns", |t| t.response_ns.map(|r| r.mean)),
            ("response_p99_ns", |t| t.response_ns.map(|r| r.p99)),
            ("response_max_ns", |t| t.response_ns.map(|r| r.max)),
        ];
        for (name, of) in times {
            self.numbers(name, rows, |t| of(counts(t)));
        }
    }

    /// The tasks of a simulation: a row for each, with the keys of `takt sim --json` as columns.
    #[must_use]
    pub fn of_tasks(result: &SimulationResult) -> Table {
        let (mut table, rows) = (Table::default(), &result.tasks[..]);
        table.counts(rows, |t: &TaskResult| &t.counts);
        table.numbers("received_ns", rows, |t| t.simulated.received_ns);
        table.numbers("worked_ns", rows, |t| t.simulated.worked_ns);
        table
    }

    /// The tasks in the object of `takt run --json`: a row for each, with its keys as columns.
    ///
    /// # Errors
    /// The text is no such object.
    pub fn of_run(json: &str) -> serde_json::Result<Table> {
        let (mut table, run) = (Table::default(), serde_json::from_str::<RunResult>(json)?);
        let rows = &run.tasks[..];
        table.counts(rows, |t: &RunTask| &t.counts);
        let measured: [Named<RunTask, Option<i64>>; 8] = [
            ("running_ns", |t| t.response_parts_ns.map(|parts| parts.running)),
            ("waiting_ns", |t| t.response_parts_ns.map(|parts| parts.waiting)),
            ("blocked_ns", |t| t.response_parts_ns.map(|parts| parts.blocked)),
            ("cpu_ns", |t| t.cpu_ns),
            ("waited_ns", |t| t.waited_ns),
            ("most_used_ns", |t| t.most_used_ns),
            ("failures", |t| t.failures),
            ("restarts", |t| t.restarts),
        ];
        for (name, of) in measured {
            table.numbers(name, rows, of);
        }
        Ok(table)
    }

    /// The records of a trace: a row for each, with the columns of a trace in CSV.
    ///
    /// # Errors
    /// A record that has no form in CSV.
    pub fn of_records(trace: &Trace) -> io::Result<Table> {
        let memory = Memory::default();
        pour(trace, takt_trace::writer(Format::Csv, &trace.header, Box::new(memory.clone()))?)?;
        let is_record = |row: &[String]| row.get(2).is_none_or(|kind| kind != "meta" && kind != "end");
        Ok(Table::from_csv(&memory.text(), is_record))
    }

    /// The jobs of a trace: a row for each, with the columns of `takt sim --jobs`.
    ///
    /// # Errors
    /// As [`Table::of_records`].
    pub fn of_jobs(trace: &Trace) -> io::Result<Table> {
        let memory = Memory::default();
        pour(trace, Box::new(JobTable::new(&trace.header, Box::new(memory.clone()))?))?;
        Ok(Table::of_csv(&memory.text()))
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
    #[must_use]
    pub fn of_csv(text: &str) -> Table {
        Table::from_csv(text, |_| true)
    }

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
            let decimal = |cell: &String| cell.is_empty() || cell.parse::<f64>().is_ok_and(f64::is_finite);
            let is_text = |name: &str| ["task", "type", "cpus", "detail", "outcome"].contains(&name);
            if !is_text(name) && cells.iter().all(number) {
                Values::Numbers(cells.iter().map(|cell| cell.parse().ok()).collect())
            } else if !is_text(name) && cells.iter().all(decimal) {
                Values::Decimals(cells.iter().map(|cell| cell.parse().ok()).collect())
            } else {
                Values::Texts(cells.into_iter().map(|cell| Some(cell).filter(|cell| !cell.is_empty())).collect())
            }
        };
        let column = |(name, cells): (String, Vec<String>)| Column { values: values((&name, cells)), name };
        Table { columns: names.into_iter().zip(cells).map(column).collect() }
    }
}

/// The part of the object of `takt run --json` that a table of tasks has.
#[derive(Deserialize)]
struct RunResult {
    tasks: Vec<RunTask>,
}

/// A task of a run.
#[derive(Deserialize)]
struct RunTask {
    #[serde(flatten)]
    counts: TaskCounts,
    response_parts_ns: Option<Parts>,
    cpu_ns: Option<i64>,
    waited_ns: Option<i64>,
    most_used_ns: Option<i64>,
    failures: Option<i64>,
    restarts: Option<i64>,
}

/// The parts of a mean response time.
#[derive(Clone, Copy, Deserialize)]
struct Parts {
    running: i64,
    waiting: i64,
    blocked: i64,
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
    /// The records ([`Table::of_records`]). `None` without a trace.
    ///
    /// # Errors
    /// A record that has no form in CSV.
    pub fn record_table(&self) -> io::Result<Option<Table>> {
        self.trace.as_ref().map(Table::of_records).transpose()
    }

    /// The jobs ([`Table::of_jobs`]). `None` without a trace.
    ///
    /// # Errors
    /// As [`Simulation::record_table`].
    pub fn job_table(&self) -> io::Result<Option<Table>> {
        self.trace.as_ref().map(Table::of_jobs).transpose()
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

        let table = Table::of_csv("load,task,name\n0.5,1.5,inf\n,2,1\n");
        assert_eq!(table.columns[0].values, Values::Decimals(vec![Some(0.5), None]));
        assert_eq!(table.columns[1].values, texts(&["1.5", "2"]));
        assert_eq!(table.columns[2].values, texts(&["inf", "1"]));
    }

    #[test]
    fn a_run_has_the_columns_of_a_simulation_and_its_own() {
        let text = "policy: edf\ntasks:\n- {name: a, period: 10ms, runtime: 6ms}\n";
        let workload = crate::load_text("a.yaml", text, &crate::LoadOptions::default()).unwrap();
        let simulated = crate::simulate(&workload, &crate::SimulateOptions::default()).unwrap().result();
        let mut json = serde_json::to_value(&simulated).unwrap();
        json["tasks"][0]["cpu_ns"] = 7.into();
        json["tasks"][0]["response_parts_ns"] = serde_json::json!({"running": 1, "waiting": 2, "blocked": 3});
        let (run, simulation) = (Table::of_run(&json.to_string()).unwrap(), Table::of_tasks(&simulated));
        assert_eq!(run.columns[..19], simulation.columns[..19]);
        let own = |name: &str| run.columns.iter().find(|column| column.name == name).unwrap().values.clone();
        assert_eq!(
            (own("cpu_ns"), own("blocked_ns")),
            (Values::Numbers(vec![Some(7)]), Values::Numbers(vec![Some(3)]))
        );
        assert_eq!(own("waited_ns"), Values::Numbers(vec![None]));
        assert!(Table::of_run("{}").is_err());
    }
}
