//! Other runtimes in the text of a workload, whose comments and layout stay.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::{self, Entry, Kind, Node, Place};
use crate::value::duration_text;
use std::collections::{BTreeMap, HashMap};
use takt_core::time::Span;

/// Keys after which a new `runtime` is written, the first that is there.
const BEFORE: [&str; 4] = ["period", "budget", "cmd", "name"];

/// The text of a YAML workload with these values of `runtime`, each with the [place](crate::Workload::place) of its task. Of several values at one
/// place, as for copies of a task, the largest one counts. O(length).
///
/// # Errors
/// A task has no place for the key, since it is written without keys.
pub fn with_runtimes(text: &str, runtimes: &[(Place, Span)]) -> Result<String, Box<Diagnostic>> {
    let (root, _) = node::parse(text)?;
    let mut tasks = HashMap::new();
    collect(&root, &mut tasks);
    let mut values: BTreeMap<(usize, usize), Span> = BTreeMap::new();
    for (place, runtime) in runtimes {
        let value = values.entry((place.start, place.end)).or_insert(*runtime);
        *value = (*value).max(*runtime);
    }
    let mut edits: Vec<(Place, String)> = Vec::new();
    for ((start, end), runtime) in values {
        let Some(task) = tasks.get(&(start, end)) else {
            let fault =
                Diagnostic::error(Code::NotSupportedHere, &(start..end), "a task without keys has no `runtime`");
            return Err(Box::new(fault.label("this is a command alone").hint("write it as `{cmd: …}`")));
        };
        edits.push(edit(text, task, &duration_text(runtime)));
    }
    edits.sort_by_key(|(place, _)| place.start);
    let mut new = text.to_owned();
    for (place, value) in edits.into_iter().rev() {
        new.replace_range(place, &value);
    }
    Ok(new)
}

/// All mappings by the places at which tasks are named: their name, and their first key.
fn collect<'n>(node: &'n Node, tasks: &mut HashMap<(usize, usize), &'n Node>) {
    let name = node.get("name").map(|entry| entry.value.span.clone());
    for place in name.into_iter().chain((!node.entries().is_empty()).then(|| node.head())) {
        tasks.entry((place.start, place.end)).or_insert(node);
    }
    node.entries().iter().for_each(|entry| collect(&entry.value, tasks));
    if let Kind::List(items) = &node.kind {
        items.iter().for_each(|item| collect(item, tasks));
    }
}

/// The text of a value. The place of an alias is that of the value that it names.
fn value(text: &str, entry: &Entry) -> Place {
    let place = &entry.value.span;
    let after = entry.key_span.end;
    if place.start >= after {
        // The place begins with an anchor, which stays.
        let anchored = text[place.clone()]
            .strip_prefix('&')
            .and_then(|rest| Some(rest.len() - rest.split_once(' ')?.1.trim_start().len() + 1));
        let start = place.start + anchored.unwrap_or(0);
        return start..start + length(&text[start..place.end]);
    }
    let start = after + text[after..].find('*').unwrap_or(0);
    let end = text[start..].find(|c: char| c.is_whitespace() || ",]}".contains(c));
    start..end.map_or(text.len(), |end| start + end)
}

/// The length of a scalar. The place of one in quotes also has the comment behind it.
fn length(text: &str) -> usize {
    let Some(quote) = text.chars().next().filter(|c| ['\'', '"'].contains(c)) else { return text.trim_end().len() };
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        let is_escape =
            quote == '"' && c == '\\' || quote == '\'' && c == quote && matches!(chars.peek(), Some((_, '\'')));
        if is_escape {
            chars.next();
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// The part of the text to replace, and its new text.
fn edit(text: &str, task: &Node, runtime: &str) -> (Place, String) {
    if let Some(entry) = task.get("runtime") {
        return (value(text, entry), runtime.to_owned());
    }
    let first = &task.entries()[0];
    let before =
        BEFORE.iter().find_map(|key| task.get(key)).filter(|entry| matches!(entry.value.kind, Kind::Scalar { .. }));
    if text[task.span.start..].starts_with('{') {
        return match before {
            Some(entry) => {
                let end = value(text, entry).end;
                (end..end, format!(", runtime: {runtime}"))
            }
            None => (first.key_span.start..first.key_span.start, format!("runtime: {runtime}, ")),
        };
    }
    // Keys of a block mapping stand in one column.
    let line = text[..first.key_span.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = " ".repeat(text[line..first.key_span.start].chars().count());
    let end_of_line = if text.contains("\r\n") { "\r\n" } else { "\n" };
    match before.map(|entry| value(text, entry)).filter(|place| !text[place.clone()].contains('\n')) {
        Some(place) => {
            let rest = text[place.end..].find(end_of_line).unwrap_or(text.len() - place.end);
            let end = place.end + rest;
            (end..end, format!("{end_of_line}{indent}runtime: {runtime}"))
        }
        None => {
            let start = first.key_span.start;
            (start..start, format!("runtime: {runtime}{end_of_line}{indent}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_layout_stay() {
        for (text, head, new) in [
            ("tasks:\n  - {name: ab, runtime: 2ms} # c\n", "ab", "tasks:\n  - {name: ab, runtime: 3ms} # c\n"),
            (
                "- name: ä # n\n  runtime:   '2ms'   # c\n  period: 9ms",
                "name: ä",
                "- name: ä # n\n  runtime:   3ms   # c\n  period: 9ms",
            ),
            ("[{name: 'a b' , period: 9ms }]", "'a b'", "[{name: 'a b' , period: 9ms, runtime: 3ms }]"),
            (
                "- name: a\r\n  period: 9ms # p\r\n  cmd: x\r\n",
                "name: a",
                "- name: a\r\n  period: 9ms # p\r\n  runtime: 3ms\r\n  cmd: x\r\n",
            ),
            (
                "- name: 'it''s' # n\n  cmd: \"say \\\"''\\\"\" # c\n",
                "'it''s'",
                "- name: 'it''s' # n\n  cmd: \"say \\\"''\\\"\" # c\n  runtime: 3ms\n",
            ),
            ("- steps: [run 2ms]\n", "steps", "- runtime: 3ms\n  steps: [run 2ms]\n"),
            ("- cmd: >\n    a\n    b\n  env: {}\n", "cmd", "- runtime: 3ms\n  cmd: >\n    a\n    b\n  env: {}\n"),
            ("[{name: ab, runtime: &r  2ms }, *r]", "ab", "[{name: ab, runtime: &r  3ms }, *r]"),
            (
                "x: &r 2ms\ny: {name: ab, runtime: *r, cmd: c}\n",
                "ab",
                "x: &r 2ms\ny: {name: ab, runtime: 3ms, cmd: c}\n",
            ),
        ] {
            // The place of a scalar in quotes has the comment behind it.
            let (root, _) = node::parse(text).unwrap();
            let mut tasks = HashMap::new();
            collect(&root, &mut tasks);
            let start =
                text.find(head).unwrap() + head.find(' ').filter(|_| head.ends_with(['a', 'ä'])).map_or(0, |at| at + 1);
            let (_, end) = tasks.keys().find(|(from, _)| *from == start).copied().unwrap();
            let values = [Span::from_ms(1), Span::from_ms(3)].map(|value| (start..end, value));
            let new_text = with_runtimes(text, &values).unwrap();
            assert_eq!(new_text, new, "{text}");
        }
    }

    #[test]
    fn a_command_alone_has_no_runtime() {
        let text = "processes: [./a]";
        let fault = with_runtimes(text, &[(12..15, Span::from_ms(1))]).unwrap_err();
        assert_eq!(fault.code, Code::NotSupportedHere);
    }
}
