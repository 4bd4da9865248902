//! Shared parts of importers.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, Severity, sort};
use crate::node::Place;
use crate::process::TaskInfo;
use crate::reader::Reader;
use crate::rules;
use crate::text::clipped;
use crate::workload::Workload;

/// The words of a line with their places.
pub(super) fn words(text: &str, line: Place) -> Vec<Place> {
    let mut words = Vec::new();
    let mut at = line.start;
    for part in text[line].split(char::is_whitespace) {
        if !part.is_empty() {
            words.push(at..at + part.len());
        }
        // Separators of words may be longer than a byte.
        at += part.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
    words
}

/// Reads a whole number between two bounds. `what` is as in "the period".
pub(super) fn whole(reader: &mut Reader, text: &str, place: &Place, what: &str, least: u64, most: u64) -> Option<u64> {
    let word = &text[place.clone()];
    let digits = word.bytes().all(|b| b.is_ascii_digit());
    let value = word.parse::<u64>().ok().filter(|n| digits && (least..=most).contains(n));
    if value.is_none() {
        let code = if digits { Code::OutOfRange } else { Code::WrongType };
        let message = format!("{what} must be a whole number from {least} to {most}");
        reader.push(Diagnostic::error(code, place, message).label(format!("this is `{}`", clipped(word))));
    }
    value
}

pub(super) fn task_info(name: String, cmd: Option<String>) -> TaskInfo {
    TaskInfo { name, cmd, ..TaskInfo::default() }
}

/// The workload if nothing is wrong with it. `heads` is where messages about each task point, `policy` where those about the
/// policy do.
pub(super) fn finish(
    reader: Reader,
    mut workload: Workload,
    heads: Vec<Place>,
    policy: &Place,
) -> Result<Workload, Vec<Diagnostic>> {
    let (mut errors, mut warnings): (Vec<_>, Vec<_>) =
        reader.diagnostics.into_iter().partition(|d| d.severity == Severity::Error);
    workload.places = heads;
    workload.settle_processes();
    if errors.is_empty() {
        errors.extend(rules::buildable(&workload, policy).err());
    }
    if !errors.is_empty() {
        sort(&mut errors);
        return Err(errors);
    }
    sort(&mut warnings);
    workload.warnings = warnings;
    Ok(workload)
}
