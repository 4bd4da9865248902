//! Window tables as JSON, in traces and in records of steps.

use crate::names;
use serde_json::{Value, json};
use takt_core::model::{BestEffortStart, PartitionId, Slice, Window, WindowTable};
use takt_core::time::Span;

/// The longest window or budget, as that of a time in a trace: 2^56 ns or 834 days.
const LONGEST: i64 = 1 << 56;

/// The table as a JSON object: `frame`, a list of windows with their slices; `be_start`; `budgets`, with the jitter of each; and `frequencies_khz` of slices by
/// window, each with its domain, if there are any. O(size of the table).
#[must_use]
pub fn to_json(table: &WindowTable) -> Value {
    let slice = |slice: &Slice| json!({"cpus": slice.cpus.to_string(), "sc": slice.sc.map(|p| p.0), "be": slice.be.map(|p| p.0)});
    let window = |window: &Window| json!({"length_ns": window.length.ns(), "slices": window.slices.iter().map(slice).collect::<Vec<_>>()});
    let budgets = table.budgets.iter().map(|(budget, jitter)| json!([budget.map(Span::ns), jitter.ns()]));
    let mut object = json!({"frame": table.windows.iter().map(window).collect::<Vec<_>>(), "be_start": be_start(table.be_start),
           "budgets": budgets.collect::<Vec<_>>()});
    if !table.frequencies.is_empty() {
        object["frequencies_khz"] = json!(table.frequencies);
    }
    object
}

fn be_start(rule: BestEffortStart) -> &'static str {
    match rule {
        BestEffortStart::AllDone => "all",
        BestEffortStart::SliceDone => "slice",
    }
}

/// The table of such an object; `None` for any other value. Whether a system can have it is another question
/// ([`System::check_table`](takt_core::model::System::check_table)). O(size of the table).
#[must_use]
pub fn from_json(value: &Value) -> Option<WindowTable> {
    let span =
        |value: &Value, least: i64| value.as_i64().filter(|ns| (least..=LONGEST).contains(ns)).map(Span::from_ns);
    let partition = |value: &Value| match value {
        Value::Null => Some(None),
        value => Some(Some(PartitionId(u32::try_from(value.as_u64()?).ok()?))),
    };
    let slice = |value: &Value| {
        let cpus = names::cpus_from(value["cpus"].as_str()?)?;
        Some(Slice { cpus, sc: partition(&value["sc"])?, be: partition(&value["be"])? })
    };
    let window = |value: &Value| {
        let slices = value["slices"].as_array()?.iter().map(slice).collect::<Option<_>>()?;
        Some(Window { length: span(&value["length_ns"], 1)?, slices })
    };
    let budget = |value: &Value| {
        let budget = if value[0].is_null() { None } else { Some(span(&value[0], 1)?) };
        Some((budget, span(&value[1], 0)?))
    };
    let frequency = |value: &Value| {
        let number = |value: &Value| value.as_u64();
        Some((u16::try_from(number(&value[0])?).ok()?, u32::try_from(number(&value[1])?).ok()?))
    };
    let frequencies = |value: &Value| value.as_array()?.iter().map(frequency).collect::<Option<_>>();
    let rules = [BestEffortStart::AllDone, BestEffortStart::SliceDone];
    Some(WindowTable {
        windows: value["frame"].as_array()?.iter().map(window).collect::<Option<_>>()?,
        be_start: rules.into_iter().find(|rule| value["be_start"] == be_start(*rule))?,
        budgets: value["budgets"].as_array()?.iter().map(budget).collect::<Option<_>>()?,
        frequencies: match &value["frequencies_khz"] {
            Value::Null => Vec::new(),
            windows => windows.as_array()?.iter().map(frequencies).collect::<Option<_>>()?,
        },
    })
}
