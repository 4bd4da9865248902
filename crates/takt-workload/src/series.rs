//! Execution times from a file: `execution: {file: frames.csv, scale: 1.5}`.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{SERIES, names};
use crate::node::{Node, Place};
use crate::reader::Reader;
use crate::text::clipped;
use crate::value::{BadNumber, MAX_DURATION, number_fault, parse_decimal, parse_ratio};
use crate::{MAX_ENTRIES, MAX_SERIES};
use takt_core::model::{Execution, scaled};
use takt_core::time::Span;

/// Names of the column end with the unit of its numbers.
const UNITS: [(&str, i64); 4] = [("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000), ("_s", 1_000_000_000)];
const FORM: &str = "a series is a file with one column: its name with the unit at its end, such as `cpu_us`, and then a number on \
                    each line; lines from `#` are comments";
/// As for a load.
const MOST: i64 = 1_000_000_000;

/// Reads the mapping. The file is looked for beside the workload, and multiplied by `scale`, each entry by itself ([`scaled`]).
pub(crate) fn execution(reader: &mut Reader, node: &Node) -> Option<Execution> {
    reader.keys(node, "`execution` from a file", &names(&SERIES));
    let faults = reader.diagnostics.len();
    let entry = node.get("file")?;
    let factor = match node.get("scale") {
        Some(entry) => factor(reader, &entry.value),
        None => Some(1_000_000),
    };
    let name = reader.text(&entry.value, "file", "the name of a file")?;
    let spans = read(reader, &name, &entry.value.span);
    let (mut spans, factor) = (spans?, factor?);
    spans.iter_mut().for_each(|span| *span = scaled(*span, factor));
    if spans.iter().any(|span| *span > MAX_DURATION) {
        let place = node.get("scale").map_or(&entry.value.span, |e| &e.value.span);
        reader.push(
            Diagnostic::error(Code::OutOfRange, place, "`scale` makes an entry longer than a year").label("too large"),
        );
    }
    more(reader, spans.len(), &entry.value.span);
    (reader.diagnostics.len() == faults).then_some(Execution::Series(spans))
}

fn factor(reader: &mut Reader, node: &Node) -> Option<u32> {
    let text = reader.scalar(node, "scale", "a factor such as `1.5` or `150%`")?;
    let fault = |label: String| {
        Diagnostic::error(Code::WrongType, &node.span, "`scale` must be a factor such as `1.5`").label(label)
    };
    let fault = match parse_ratio(text) {
        Ok(factor @ 1..=MOST) => return Some(factor as u32),
        Ok(factor) if factor <= 0 => fault("jobs would need nothing".into()),
        Ok(_) => fault("above 1000".into()),
        Err(why) => fault(why),
    };
    reader.push(fault);
    None
}

/// Counts entries, so that a short file cannot fill the memory.
pub(crate) fn more(reader: &mut Reader, entries: usize, place: &Place) {
    let before = reader.entries;
    reader.entries = before.saturating_add(entries);
    if before <= MAX_SERIES && reader.entries > MAX_SERIES {
        let fault = Diagnostic::error(
            Code::LimitExceeded,
            place,
            format!("more than {MAX_SERIES} execution times from files and copies"),
        );
        reader.push(fault.label("with these").hint("lower the number of copies, or shorten the series"));
    }
}

/// The times of a file, which the workload names at this place.
fn read(reader: &mut Reader, name: &str, place: &Place) -> Option<Vec<Span>> {
    let fault = |message: String| Diagnostic::error(Code::WrongFormat, place, message).hint(FORM);
    let shown = clipped(name);
    let source = match reader.file(name) {
        Ok(source) => source,
        Err(unreadable) => {
            // Faults in its bytes are reported as in any file. A failure to read it names the whole path.
            let why = unreadable.diagnostic.message.rsplit(": ").next().unwrap_or("").to_owned();
            reader.push(
                Diagnostic::error(Code::UnreadableFile, place, format!("the series `{shown}` cannot be read"))
                    .label(why)
                    .hint("a relative name is looked for in the directory of the workload"),
            );
            return None;
        }
    };
    match times(&source.text) {
        Ok(spans) => Some(spans),
        Err((Some(line), why)) => {
            reader.push(fault(format!("line {line} of the series `{shown}` {why}")));
            None
        }
        Err((None, why)) => {
            reader.push(fault(format!("the series `{shown}` {why}")));
            None
        }
    }
}

/// The times of a text, or the line that is wrong and why.
fn times(text: &str) -> Result<Vec<Span>, (Option<usize>, String)> {
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let Some((at, title)) = lines.next() else { return Err((None, "is empty".into())) };
    let Some((_, unit)) = UNITS.iter().find(|(end, _)| title.ends_with(end) && !title.contains([',', ';', '\t']))
    else {
        return Err((Some(at), format!("is no name of a column with a unit: `{}`", clipped(title))));
    };
    let mut spans = Vec::new();
    for (at, line) in lines {
        if spans.len() == MAX_ENTRIES {
            return Err((Some(at), format!("is one too many: a series has at most {MAX_ENTRIES} entries")));
        }
        let wrong = |why: String| (Some(at), format!("is wrong: {why}"));
        spans.push(match parse_decimal(line, *unit) {
            Ok(Span::ZERO) => return Err(wrong("a job needs more than nothing".into())),
            Ok(span) if span < Span::ZERO => return Err(wrong(format!("`{}` is negative", clipped(line)))),
            Ok(span) if span > MAX_DURATION => return Err(wrong(format!("`{}` is longer than a year", clipped(line)))),
            Ok(span) => span,
            Err(BadNumber::NotANumber) => return Err(wrong(format!("`{}` is not a number", clipped(line)))),
            Err(fault) => return Err(wrong(number_fault(fault, &clipped(line)))),
        });
    }
    if spans.is_empty() { Err((None, "has no numbers".into())) } else { Ok(spans) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_of_their_column() {
        let us = |all: &[i64]| Ok(all.iter().map(|n| Span::from_us(*n)).collect::<Vec<_>>());
        assert_eq!(times("# a\n\ncpu_us\n3\n 1.5\n").map(|s| s[1].ns()), Ok(1_500));
        assert_eq!(times("\u{feff}frame_ms\r\n3\r\n1.5\r\n"), us(&[3_000, 1_500]));
        for (text, part) in [
            ("", "is empty"),
            ("# only\n", "is empty"),
            ("cpu_us\n", "no numbers"),
            ("3\n4\n", "no name of a column"),
            ("frame,cpu_us\n1,3\n", "no name of a column"),
            ("cpu_us\n-3\n", "negative"),
            ("cpu_us\n1\n0\n", "more than nothing"),
            ("cpu_us\n3ms\n", "not a number"),
            ("cpu_us\n0.0001\n", "finer"),
            ("cpu_s\n99999999999\n", "too long"),
            ("cpu_s\n99999999\n", "longer than a year"),
        ] {
            let (_, why) = times(text).unwrap_err();
            assert!(why.contains(part), "{text:?}: {why}");
        }
        let many = format!("cpu_us\n{}", "1\n".repeat(MAX_ENTRIES + 1));
        assert_eq!(times(&many).unwrap_err().0, Some(MAX_ENTRIES + 2));
    }
}
