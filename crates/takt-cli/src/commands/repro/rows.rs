//! Results of runs as rows with named cells.

use super::form::{Pattern, Rows, Tool, number};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A row: texts of cells by column. `dsr.mean` is the member `mean` of `dsr`.
pub(super) type Row = BTreeMap<String, String>;

/// The results of a run.
#[derive(Clone, Default, PartialEq, Debug)]
pub(super) struct Table(pub(super) Vec<Row>);

/// Adds the members of a value below this name, without lists.
fn flatten(name: &str, value: &Value, row: &mut Row) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let below = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&below, member, row);
            }
        }
        Value::Array(_) | Value::Null => {}
        Value::String(text) => drop(row.insert(name.into(), text.clone())),
        other => drop(row.insert(name.into(), other.to_string())),
    }
}

/// A row for each member of the innermost list, with the cells of the values around it.
fn nested(value: &Value, path: &[&str], around: &Row, rows: &mut Vec<Row>) {
    let mut row = around.clone();
    let Some((list, rest)) = path.split_first() else {
        flatten("", value, &mut row);
        rows.push(row);
        return;
    };
    // Members of other names are cells of all rows below.
    for (key, member) in value.as_object().into_iter().flatten().filter(|(_, member)| !member.is_object()) {
        flatten(key, member, &mut row);
    }
    for member in value[*list].as_array().into_iter().flatten() {
        nested(member, rest, &row, rows);
    }
}

impl Table {
    /// From the JSON of a command.
    pub(super) fn of(tool: Tool, rows: Rows, json: &Value) -> Table {
        let path: &[&str] = match (tool, rows) {
            (Tool::Load | Tool::Copies, _) => &["points", "policies"],
            (Tool::Schedulability, _) => &["points", "tests"],
            (Tool::Hartstone, _) => &["results"],
            (Tool::Sim, Rows::Zones) => &["zones"],
            (Tool::Sim, _) => &["tasks"],
        };
        let root = if rows == Rows::Zones { &json["power"] } else { json };
        let mut table = Table::default();
        nested(root, path, &Row::new(), &mut table.0);
        table
    }

    /// From lines with commas, whose cells have no quotes. `None` if a line has another number of cells than the first.
    pub(super) fn of_lines(text: &str) -> Option<Table> {
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let columns = lines.next()?;
        let row = |cells: Vec<&str>| {
            let named = columns.iter().zip(&cells).map(|(column, cell)| ((*column).to_owned(), (*cell).to_owned()));
            (cells.len() == columns.len()).then(|| named.collect())
        };
        lines.map(row).collect::<Option<_>>().map(Table)
    }

    /// The rows of a selection.
    pub(super) fn select<'t>(&'t self, cells: &'t [(String, Pattern)]) -> impl Iterator<Item = &'t Row> {
        self.0.iter().filter(|row| cells.iter().all(|(column, pattern)| matches(row, column, pattern)))
    }

    /// The different cells of a column, in order.
    pub(super) fn cells(&self, column: &str) -> BTreeSet<&str> {
        self.0.iter().filter_map(|row| row.get(column)).map(String::as_str).collect()
    }

    /// All columns.
    pub(super) fn columns(&self) -> BTreeSet<&str> {
        self.0.iter().flat_map(BTreeMap::keys).map(String::as_str).collect()
    }
}

fn matches(row: &Row, column: &str, pattern: &Pattern) -> bool {
    let cell = row.get(column).map(String::as_str);
    match pattern {
        Pattern::Is(text) => {
            let equal = |cell: &str| match (number(cell), number(text)) {
                (Some(a), Some(b)) => is_near(a, b),
                _ => cell == text,
            };
            cell.map_or(text.is_empty(), equal)
        }
        Pattern::Between(low, high) => cell.and_then(number).is_some_and(|value| (*low..=*high).contains(&value)),
    }
}

/// Whether two positions are the same but for rounding.
pub(super) fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// A number of a row, and half of the width of its confidence interval.
pub(super) fn quantity(row: &Row, name: &str) -> Option<(f64, Option<f64>)> {
    let read = |column: &str| row.get(column).and_then(|cell| number(cell));
    let value = read(name).or_else(|| read(&format!("{name}.mean")))?;
    Some((value, read(&format!("{name}.ci95"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_have_the_cells_around_them() {
        let json = json!({"setup": {"cpus": 4}, "points": [
            {"load": "1.0", "policies": [{"policy": "edf", "dsr": {"mean": 0.5, "ci95": 0.1}}, {"policy": "rm", "dsr": {"mean": 1, "ci95": null}}]},
            {"load": "2.0", "policies": [{"policy": "edf", "dsr": {"mean": 0.25, "ci95": null}}]},
        ]});
        let table = Table::of(Tool::Load, Rows::Usual, &json);
        let select = |policy: &str, load: &str| {
            let cells = [("policy".into(), Pattern::Is(policy.into())), ("load".into(), Pattern::Is(load.into()))];
            table.select(&cells).filter_map(|row| quantity(row, "dsr")).collect::<Vec<_>>()
        };
        assert_eq!(select("edf", "1"), [(0.5, Some(0.1))]);
        assert_eq!((select("rm", "1.0"), select("edf", "2")), (vec![(1.0, None)], vec![(0.25, None)]));
        assert_eq!(select("rm", "2.0"), []);
        assert_eq!(table.cells("policy").into_iter().collect::<Vec<_>>(), ["edf", "rm"]);
    }

    #[test]
    fn lines_have_as_many_cells_as_columns() {
        let table = Table::of_lines("at_ns,task,n\n5,,1\n2000000,a,2\n").unwrap();
        let of = |cells: &[(String, Pattern)]| table.select(cells).filter_map(|row| quantity(row, "n")).count();
        assert_eq!(of(&[("task".into(), Pattern::Is(String::new()))]), 1);
        assert_eq!(of(&[("at_ns".into(), Pattern::Between(1e6, 3e6))]), 1);
        assert!(Table::of_lines("a,b\n1\n").is_none() && Table::of_lines("").is_none());
    }
}
