//! `load`: how what jobs need changes in the course of a run.

use crate::MAX_ENTRIES;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{self, LOAD_POINTS, LOAD_SHAPES, names};
use crate::node::{Entry, Kind, Node};
use crate::reader::{Bare, Reader, bounded};
use crate::utility::{in_order, point};
use crate::value::{choices, duration_text, parse_ratio, ratio_text};
use takt_core::input::Input;
use takt_core::model::{Load, System, scaled};
use takt_core::scenario::Scenario;
use takt_core::time::Span;

/// The highest factor: with it a runtime of a year still fits the clock.
const MOST: i64 = 100;
/// The same in millionths.
pub const MAX_LOAD: u32 = MOST as u32 * Load::ONE;

const HINT: &str = "write `load: 1.3`, `{ramp: {from: 0.5, to: 1.5, over: 10s}}`, `{step: {from: 0.8, to: 1.6, at: 5s}}`, \
     `{burst: {base: 0.7, peak: 1.4, every: 5s, for: 1s}}` or `{points: [[0s, 0.5], [10s, 1.5]], repeat: 20s}`";
const POINTS_HINT: &str = "write points of time and factor, as in `points: [[0s, 0.5], [10s, 1.5]]`";

/// Multiplies what all tasks declare and need by a factor in millionths, as if the file said so, in its `changes` too: policies
/// place tasks and reserve time by what is declared then. The `load` of the file stays and comes on top. O(tasks + steps +
/// changes).
pub fn scale(system: &mut System, scenario: &mut Scenario, factor: u32) {
    system.tasks.iter_mut().for_each(|task| task.scale(factor));
    for (_, change) in &mut scenario.changes {
        if let Input::Retime { runtime: Some(runtime), .. } = change {
            *runtime = scaled(*runtime, factor);
        }
    }
}

/// Reads `load`.
pub(crate) fn load(reader: &mut Reader, entry: &Entry) -> Option<Load> {
    let node = &entry.value;
    let entries = match &node.kind {
        Kind::Map(entries) if !entries.is_empty() => entries,
        Kind::Scalar { .. } if !node.is_null() => {
            return Some(Load { points: vec![(Span::ZERO, factor(reader, node, "load")?)], repeat: None });
        }
        _ => {
            let fault = Diagnostic::error(Code::WrongType, &node.head(), "`load` must be a factor, or a shape");
            reader.push(fault.label(format!("this is {}", node.describe())).hint(HINT));
            return None;
        }
    };
    if node.get("points").is_some() || node.get("repeat").is_some() {
        return points(reader, node);
    }
    reader.keys(node, "a load", &[&names(&LOAD_SHAPES)[..], &names(&LOAD_POINTS)].concat());
    let named = |e: &&Entry| LOAD_SHAPES.iter().any(|shape| shape.name == e.key);
    let mut given = entries.iter().filter(named);
    let shape = given.next()?;
    if let Some(second) = given.next() {
        reader.push(
            Diagnostic::error(
                Code::ConflictingKeys,
                &second.key_span,
                format!("a load is both a `{}` and a `{}`", shape.key, second.key),
            )
            .label("one shape too many")
            .also(&shape.key_span, "the other one")
            .hint("keep one of them; `points` can have any shape"),
        );
        return None;
    }
    shaped(reader, shape)
}

/// One of [`LOAD_SHAPES`].
fn shaped(reader: &mut Reader, shape: &Entry) -> Option<Load> {
    let form = LOAD_SHAPES.iter().find(|form| form.name == shape.key)?;
    let keys::Kind::Map { keys, .. } = form.kind else { return None };
    let (name, all) = (form.name, keys.iter().map(|key| key.name).collect::<Vec<_>>());
    let must = || keys.iter().filter(|key| key.required).map(|key| key.name);
    let (node, of) = (&shape.value, format!("a `{name}` of the load"));
    if !reader.is_map(node, &of, HINT) {
        return None;
    }
    let faults = reader.diagnostics.len();
    reader.keys(node, &of, &all);
    let hint = format!("its keys are {}", choices(must(), "and"));
    for key in must() {
        reader.required(node, &of, key, "in this mapping", &hint);
    }
    let mut number = |key: &str| node.get(key).and_then(|e| factor(reader, &e.value, key));
    let (from, to, base, peak) = (number("from"), number("to"), number("base"), number("peak"));
    let mut span = |key: &str, zero: bool| node.get(key).map(|e| reader.span(&e.value, key, Bare::Refused, zero));
    let (over, every, length) = (span("over", false), span("every", false), span("for", false));
    let at = span("at", true).unwrap_or(Some(Span::ZERO));
    if reader.diagnostics.len() > faults {
        return None;
    }
    let at = at?;
    let (points, repeat) = match name {
        "ramp" => (vec![(at, from?), (at + over??, to?)], None),
        "step" => (vec![(at, from?), (at, to?)], None),
        _ => {
            let (every, end) = (every??, at + length??);
            if end > every {
                let place = node.get("for").map_or_else(|| node.head(), |e| e.value.span.clone());
                reader.push(
                    Diagnostic::error(Code::OutOfRange, &place, "a burst of the load goes beyond its period")
                        .label(format!("it ends after {end}, and the next period begins after {every}"))
                        .hint("lower `for` or `at`, or raise `every`"),
                );
                return None;
            }
            (vec![(at, base?), (at, peak?), (end, peak?), (end, base?)], Some(every))
        }
    };
    Some(Load { points, repeat })
}

/// Points in words of the file, and the time after which they begin again.
fn points(reader: &mut Reader, node: &Node) -> Option<Load> {
    reader.keys(node, "a load of points", &names(&LOAD_POINTS));
    let faults = reader.diagnostics.len();
    let repeat = node.get("repeat").map(|e| reader.span(&e.value, "repeat", Bare::Refused, false));
    let list = reader.required(node, "a load that repeats", "points", "nothing to repeat", POINTS_HINT)?;
    let items = bounded(reader, &list.value, "points", POINTS_HINT, MAX_ENTRIES)?;
    if items.is_empty() {
        reader.push(
            Diagnostic::error(Code::EmptyValue, &list.value.head(), "`points` is empty")
                .label("no point")
                .hint(POINTS_HINT),
        );
    }
    let mut points: Vec<(Span, u32)> = Vec::with_capacity(items.len());
    for item in items {
        let Some((at, value)) = point(reader, item, POINTS_HINT) else { continue };
        let (span, value) = (reader.span(at, "points", Bare::Refused, true), factor(reader, value, "points"));
        let (Some(span), Some(value)) = (span, value) else { continue };
        in_order(reader, points.last().map(|(at, _)| *at), span, &at.span, "points");
        if let Some(repeat) = repeat.flatten().filter(|repeat| span > *repeat) {
            reader.push(
                Diagnostic::error(Code::NeverReached, &at.span, "a point of the load is never reached")
                    .label(format!("the points repeat after {repeat}"))
                    .hint("raise `repeat`, or remove the point"),
            );
        }
        points.push((span, value));
    }
    let repeat = repeat.flatten();
    (reader.diagnostics.len() == faults).then_some(Load { points, repeat })
}

/// A factor, in millionths.
fn factor(reader: &mut Reader, node: &Node, key: &str) -> Option<u32> {
    let text = reader.scalar(node, key, "a factor such as `1.3` or `130%`")?;
    let fault = match parse_ratio(text) {
        Ok(factor) if factor <= 0 => {
            Diagnostic::error(Code::OutOfRange, &node.span, format!("`{key}` must be above zero"))
                .label("no load at all")
                .hint("a task that needs nothing at some time is one that leaves and enters (`changes`)")
        }
        Ok(factor) if factor > MOST * i64::from(Load::ONE) => {
            Diagnostic::error(Code::OutOfRange, &node.span, format!("`{key}` must be at most {MOST}"))
                .label("above that")
                .hint("1 is what the tasks declare")
        }
        Ok(factor) => return Some(factor as u32),
        Err(why) => {
            Diagnostic::error(Code::WrongType, &node.span, format!("`{key}` must be a factor such as `1.3` or `130%`"))
                .label(why)
        }
    };
    reader.push(fault);
    None
}

/// Reads a factor of a load as the command line takes it, such as `1.3` or `130%`, into millionths.
///
/// # Errors
/// Why the text is no factor that a load may have, in words for the user.
pub fn parse_factor(text: &str) -> Result<u32, String> {
    match parse_ratio(text)? {
        factor if factor <= 0 => Err("a load must be above zero".into()),
        factor if factor > MOST * i64::from(Load::ONE) => Err(format!("a load must be at most {MOST}")),
        factor => Ok(factor as u32),
    }
}

/// Writes a load so that [`load`] reads it back.
pub(crate) fn load_text(load: &Load) -> String {
    let factor = |factor: u32| ratio_text(i64::from(factor));
    if let ([(Span::ZERO, only)], None) = (load.points.as_slice(), load.repeat) {
        return factor(*only);
    }
    let points: Vec<String> =
        load.points.iter().map(|(at, value)| format!("[{}, {}]", duration_text(*at), factor(*value))).collect();
    let repeat = load.repeat.map_or(String::new(), |repeat| format!(", repeat: {}", duration_text(repeat)));
    format!("{{points: [{}]{repeat}}}", points.join(", "))
}
