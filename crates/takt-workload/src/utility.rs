//! `utility`: what a job is worth by when it completes.

use crate::MAX_ENTRIES;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::UTILITY_SHAPES;
use crate::node::{Kind, Node, Place};
use crate::reader::{Bare, Reader, bounded};
use crate::value::{BadNumber, duration_text, number_fault, parse_decimal, ratio_text};
use takt_core::time::Span;
use takt_core::utility::{MOST, UNIT, Utility};

const HINT: &str = "write `utility: 5` (up to the deadline), `{linear: 5, until: 20ms}`, `{exponential: 5, half_life: 5ms}` or \
     `{table: [[0ms, 5], [8ms, 0]]}`";
const TABLE_HINT: &str = "write points of time after the release and utility, as in `table: [[0ms, 5], [8ms, 0]]`";

/// Reads `utility`.
pub(crate) fn utility(reader: &mut Reader, node: &Node) -> Option<Utility> {
    match &node.kind {
        Kind::Map(entries) if !entries.is_empty() => {}
        Kind::Scalar { .. } if !node.is_null() => return amount(reader, node, "utility").map(Utility::Step),
        _ => {
            let fault = Diagnostic::error(Code::WrongType, &node.head(), "`utility` must be a number, or a shape");
            reader.push(fault.label(format!("this is {}", node.describe())).hint(HINT));
            return None;
        }
    }
    let given: Vec<_> = UTILITY_SHAPES.iter().filter_map(|keys| Some((node.get(keys[0].name)?, *keys))).collect();
    let &[(shape, keys)] = given.as_slice() else {
        match given.as_slice() {
            [(first, _), (second, _), ..] => reader.push(
                Diagnostic::error(
                    Code::ConflictingKeys,
                    &second.key_span,
                    format!("a utility is both `{}` and `{}`", first.key, second.key),
                )
                .label("one shape too many")
                .also(&first.key_span, "the other one")
                .hint("keep one of them; a `table` can have any shape"),
            ),
            _ => {
                let all: Vec<&str> = UTILITY_SHAPES.iter().flat_map(|keys| keys.iter().map(|key| key.name)).collect();
                reader.keys(node, "a utility", &all);
                if UTILITY_SHAPES.iter().all(|keys| reader.lacks(node, keys[0].name)) {
                    let fault = Diagnostic::error(Code::MissingKey, &node.head(), "a utility has no shape")
                        .label("in this mapping");
                    reader.push(fault.hint(HINT));
                }
            }
        }
        return None;
    };
    let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
    reader.keys(node, &format!("a utility that is `{}`", shape.key), &known);
    let faults = reader.diagnostics.len();
    let mut span = || Some(node.get(known.get(1)?)?).map(|e| reader.span(&e.value, &e.key, Bare::Refused, false));
    let span = span();
    let utility = match shape.key.as_str() {
        "linear" => {
            let height = amount(reader, &shape.value, "linear")?;
            Utility::Linear { height, until: span.flatten() }
        }
        "exponential" => {
            let height = amount(reader, &shape.value, "exponential");
            let label = "it does not say how fast it falls";
            reader.required(node, "a utility that is `exponential`", "half_life", label, "add `half_life: 5ms`");
            Utility::Exponential { height: height?, half_life: span.flatten()? }
        }
        _ => Utility::Table(table(reader, &shape.value)?),
    };
    (reader.diagnostics.len() == faults).then_some(utility)
}

/// Reads an amount of utility into millionths.
pub(crate) fn amount(reader: &mut Reader, node: &Node, key: &str) -> Option<u64> {
    let text = reader.scalar(node, key, "a number such as `5` or `0.25`")?.trim();
    let fault = |code: Code, message: String, label: &str| Diagnostic::error(code, &node.span, message).label(label);
    // A decimal counts what its unit is made of: nanoseconds elsewhere, millionths here.
    let fault = match parse_decimal(text, UNIT as i64).map(Span::ns) {
        Ok(millionths) if millionths < 0 => {
            fault(Code::OutOfRange, format!("`{key}` must not be negative"), "below zero")
                .hint("a job that is worth nothing has 0")
        }
        Ok(millionths) if millionths as u64 > MOST => {
            fault(Code::OutOfRange, format!("`{key}` must be at most {}", MOST / UNIT), "above that")
                .hint("only the ratios between utilities count: divide all of them by the same number")
        }
        Ok(millionths) => return Some(millionths as u64),
        Err(why) => {
            let why = match why {
                BadNumber::TooFine => format!("`{text}` has more than six decimals"),
                other => number_fault(other, text),
            };
            fault(Code::WrongType, format!("`{key}` must be a number such as `5` or `0.25`"), &why)
        }
    };
    reader.push(fault);
    None
}

/// Reads the points of a table.
fn table(reader: &mut Reader, node: &Node) -> Option<Vec<(Span, u64)>> {
    let items = bounded(reader, node, "table", TABLE_HINT, MAX_ENTRIES)?;
    if items.is_empty() {
        reader.push(
            Diagnostic::error(Code::EmptyValue, &node.head(), "`table` is empty").label("no point").hint(TABLE_HINT),
        );
        return None;
    }
    let faults = reader.diagnostics.len();
    let mut points: Vec<(Span, u64)> = Vec::with_capacity(items.len());
    for item in items {
        let Some((at, value)) = point(reader, item, TABLE_HINT) else { continue };
        let (span, value) = (reader.span(at, "table", Bare::Refused, true), amount(reader, value, "table"));
        let (Some(span), Some(value)) = (span, value) else { continue };
        in_order(reader, points.last().map(|(at, _)| *at), span, &at.span, "table");
        if let [.., (first, _), (second, _)] = points[..]
            && first == span
            && second == span
        {
            reader.push(
                Diagnostic::error(Code::NotAscending, &at.span, format!("`table` has three points at {span}"))
                    .label("the third one")
                    .hint("a jump has two: what the job is worth up to then, and what it is worth from then on"),
            );
        }
        points.push((span, value));
    }
    (reader.diagnostics.len() == faults).then_some(points)
}

/// A list of two: a time and what holds then.
pub(crate) fn point<'n>(reader: &mut Reader, node: &'n Node, hint: &str) -> Option<(&'n Node, &'n Node)> {
    if let Kind::List(items) = &node.kind
        && let [at, value] = items.as_slice()
    {
        return Some((at, value));
    }
    let label = match &node.kind {
        Kind::List(items) => format!("this is a list of {}", items.len()),
        _ => format!("this is {}", node.describe()),
    };
    reader.push(
        Diagnostic::error(Code::WrongType, &node.head(), "a point must be a list of two").label(label).hint(hint),
    );
    None
}

/// Reports a point that comes before the one in front of it.
pub(crate) fn in_order(reader: &mut Reader, before: Option<Span>, at: Span, place: &Place, key: &str) {
    if let Some(before) = before.filter(|before| *before > at) {
        reader.push(
            Diagnostic::error(Code::NotAscending, place, format!("the points of `{key}` must be in ascending order"))
                .label(format!("earlier than {before}, the one before"))
                .hint("sort them"),
        );
    }
}

/// Reports a utility that would never fall: that of a task which has no deadline to fall to.
pub(crate) fn check(reader: &mut Reader, utility: &Utility, deadline: Option<Span>, name: &str, place: &Place) {
    if deadline.is_none() && matches!(utility, Utility::Linear { until: None, .. }) {
        reader.push(
            Diagnostic::error(Code::MissingKey, place, format!("the utility of task `{name}` has no end"))
                .label("it falls to its deadline, and the task has none")
                .hint("add `until: 20ms`, or a `deadline` to the task"),
        );
    }
}

/// Writes an amount so that [`amount`] reads it back.
pub(crate) fn amount_text(millionths: u64) -> String {
    ratio_text(millionths as i64)
}

/// Writes a utility as the key `utility` takes it. O(points).
#[must_use]
pub fn utility_text(utility: &Utility) -> String {
    match utility {
        Utility::Step(height) => amount_text(*height),
        Utility::Linear { height, until } => {
            let until = until.map_or(String::new(), |until| format!(", until: {}", duration_text(until)));
            format!("{{linear: {}{until}}}", amount_text(*height))
        }
        Utility::Exponential { height, half_life } => {
            format!("{{exponential: {}, half_life: {}}}", amount_text(*height), duration_text(*half_life))
        }
        Utility::Table(points) => {
            let points = points.iter().map(|(at, value)| format!("[{}, {}]", duration_text(*at), amount_text(*value)));
            format!("{{table: [{}]}}", points.collect::<Vec<_>>().join(", "))
        }
    }
}
