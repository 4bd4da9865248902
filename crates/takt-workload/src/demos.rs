//! DEmOS's normal form of a configuration, as `demos-sched -d` prints it, byte for byte.
//!
//! Scripts compare this text. So it keeps the order of the keys in the file and the spelling of CPU lists, which a [`Workload`](crate::Workload)
//! does not hold, and it is written from the tree of the text. A value is quoted where the YAML library of DEmOS quotes it.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::{self, Kind, Node};
use crate::settings::Options;
use crate::source::Source;
use crate::table::{PARTITION_KEYS, SLICE_KEYS, WINDOW_KEYS};
use crate::value::{self, NS_PER_MS, duration_text, parse_bool};
use crate::yaml;
use std::fmt::Write;
use std::rc::Rc;
use takt_core::model::TableRules;
use takt_core::time::Span;

/// The keys of DEmOS in a process, in the order in which it takes those of a partition of one process.
const PROCESS_KEYS: [&str; 5] = ["cmd", "budget", "jitter", "init", "frequency"];
/// The keys of a file. The last two are Takt's: they hold anyway in DEmOS.
const FILE_KEYS: [&str; 6] = ["set_cwd", "demos_cpu", "partitions", "windows", "rules", "missing_cpus"];
/// Keys of DEmOS's past, which it partly accepts and drops.
const STALE_KEYS: [&str; 2] = ["_a53_freq", "_a72_freq"];

/// Writes DEmOS's normal form of a configuration. A configuration without windows, which DEmOS prints, too, has one.
///
/// # Errors
/// The faults of the file, or a key that the form does not have.
pub fn demos_form(source: &Source, options: &Options) -> Result<String, Vec<Diagnostic>> {
    source.check().map_err(|fault| vec![fault])?;
    let (root, faults) = node::parse(&source.text).map_err(|fault| vec![fault])?;
    let empty =
        |key: &str| root.get(key).is_none_or(|e| e.value.is_null() || list(&e.value).is_some_and(<[_]>::is_empty));
    let nothing = matches!(root.kind, Kind::Map(_)) && empty("windows") && empty("partitions");
    if nothing && faults.is_empty() {
        yaml::check_settings(source, &root, TableRules::Demos)?;
    } else {
        let options = Options { rules: Some(TableRules::Demos), ..options.clone() };
        yaml::load(source, &options)?;
    }
    foreign_key(&root).map_or(Ok(()), |fault| Err(vec![fault]))?;
    Ok(Form::default().file(&root, source))
}

fn list(node: &Node) -> Option<&[Rc<Node>]> {
    match &node.kind {
        Kind::List(items) => Some(items),
        _ => None,
    }
}

fn text(node: &Node) -> &str {
    match &node.kind {
        Kind::Scalar { text, .. } => text,
        _ => "",
    }
}

/// The first key that only Takt has.
fn foreign_key(root: &Node) -> Option<Diagnostic> {
    let mut open: Vec<(&Node, &[&str])> = vec![(root, &FILE_KEYS)];
    let process = [PROCESS_KEYS.as_slice(), &STALE_KEYS].concat();
    let partition: Vec<&str> = PARTITION_KEYS[..2].iter().chain(&process).copied().collect();
    while let Some((node, known)) = open.pop() {
        if let Some(items) = list(node) {
            open.extend(items.iter().rev().map(|item| (&**item, known)));
            continue;
        }
        for entry in node.entries() {
            let key = entry.key.as_str();
            if !known.contains(&key) {
                return Some(
                    Diagnostic::error(
                        Code::NotSupportedHere,
                        &entry.key_span,
                        format!("DEmOS's normal form has no `{key}`"),
                    )
                    .label("a key of Takt")
                    .hint("write the file in Takt's canonical form: `takt check FILE --canonical`"),
                );
            }
            // Processes in place of a partition.
            let listed = list(&entry.value).is_some() && key.ends_with("_partition");
            let inside: [(&str, &[&str]); 8] = [
                ("windows", &WINDOW_KEYS),
                ("slices", &SLICE_KEYS),
                ("processes", &process),
                ("sc_processes", &process),
                ("be_processes", &process),
                ("partitions", &partition),
                ("sc_partition", if listed { &process } else { &partition }),
                ("be_partition", if listed { &process } else { &partition }),
            ];
            let Some((_, inside)) = inside.into_iter().find(|(known, _)| *known == key) else { continue };
            open.push((&entry.value, inside));
        }
    }
    None
}

/// The length of the window in which a partition is defined, in milliseconds, and whether the partition is safety-critical there; `None`
/// outside of windows.
type Inside = Option<(f32, bool)>;

#[derive(Default)]
struct Form {
    /// The lines of all partitions.
    partitions: String,
    windows: String,
    anonymous: usize,
}

/// Appends a line. Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => {
        writeln!($out, $($arg)*).expect("a string takes any text")
    };
}

impl Form {
    fn file(mut self, root: &Node, source: &Source) -> String {
        let stated = root.get("set_cwd").and_then(|e| parse_bool(text(&e.value)));
        let set_cwd = stated.unwrap_or(!source.is_pipe()) && !source.is_pipe();
        let cpus = root.get("demos_cpu").map_or("all", |e| text(&e.value));
        let items = |key: &str| root.get(key).and_then(|e| list(&e.value)).unwrap_or_default();
        for partition in items("partitions") {
            self.partition(partition, None);
        }
        for window in items("windows") {
            self.window(window);
        }
        let list = |lines: &str| if lines.is_empty() { " ~\n".to_owned() } else { format!("\n{lines}") };
        format!(
            "set_cwd: {set_cwd}\ndemos_cpu: {}\npartitions:{}windows:{}",
            scalar(cpus),
            list(&self.partitions),
            list(&self.windows)
        )
    }

    fn window(&mut self, node: &Node) {
        let length = node.get("length").map_or("", |e| text(&e.value));
        let milliseconds = milliseconds(length).map(|length| (length.ns() / NS_PER_MS) as f32);
        let mut lines = Vec::new();
        let mut has_slices = false;
        // The keys of the only slice stand for it, in an order of their own.
        let mut implied: Vec<&node::Entry> = Vec::new();
        for entry in node.entries() {
            match entry.key.as_str() {
                "length" => lines.push(format!("length: {}", time(length))),
                "slices" => {
                    has_slices = true;
                    let slices = list(&entry.value).unwrap_or_default();
                    let slices: String =
                        slices.iter().map(|slice| self.slice(slice.entries().iter(), milliseconds)).collect();
                    lines.push(if slices.is_empty() {
                        "slices: ~".into()
                    } else {
                        format!("slices:\n{}", slices.trim_end())
                    });
                }
                _ => implied.push(entry),
            }
        }
        if !has_slices && !implied.is_empty() {
            implied.sort_by_key(|e| SLICE_KEYS.iter().position(|key| *key == e.key));
            let slice = self.slice(implied.into_iter(), milliseconds);
            let slice = match node.get("cpu") {
                Some(_) => slice,
                None => format!("      - cpu: all\n{}", slice.replacen("      - ", "        ", 1)),
            };
            lines.push(format!("slices:\n{}", slice.trim_end()));
        }
        for (n, text) in lines.iter().enumerate() {
            line!(self.windows, "  {} {text}", if n == 0 { "-" } else { " " });
        }
    }

    /// The lines of a slice.
    fn slice<'n>(&mut self, entries: impl Iterator<Item = &'n node::Entry>, length: Option<f32>) -> String {
        let mut out = String::new();
        for entry in entries {
            let inside = length.map(|length| (length, entry.key.starts_with("sc")));
            let (key, value) = match entry.key.as_str() {
                "sc_partition" => ("sc_partition", self.target(&entry.value, inside)),
                "be_partition" => ("be_partition", self.target(&entry.value, inside)),
                "sc_processes" => ("sc_partition", self.unnamed(&entry.value, inside)),
                "be_processes" => ("be_partition", self.unnamed(&entry.value, inside)),
                "frequency" => ("frequency", double(text(&entry.value))),
                _ => ("cpu", scalar(text(&entry.value))),
            };
            line!(out, "      {} {key}: {value}", if out.is_empty() { "-" } else { " " });
        }
        out
    }

    /// The name of a partition of a slice, which may be defined there.
    fn target(&mut self, node: &Node, inside: Inside) -> String {
        match &node.kind {
            Kind::Scalar { text, .. } => scalar(text),
            Kind::List(_) => self.unnamed(node, inside),
            Kind::Map(_) => self.partition(node, inside),
        }
    }

    /// A partition of these processes without a name. Returns the name that DEmOS gives it.
    fn unnamed(&mut self, node: &Node, inside: Inside) -> String {
        let name = self.anonymous_name();
        let processes = processes(node, inside);
        self.add(&name, &processes);
        name
    }

    fn partition(&mut self, node: &Node, inside: Inside) -> String {
        let name = match node.get("name") {
            Some(entry) => scalar(text(&entry.value)),
            None => self.anonymous_name(),
        };
        let lines = match node.get("processes") {
            _ if list(node).is_some() => processes(node, inside),
            Some(entry) => processes(&entry.value, inside),
            // One process in place of a partition.
            None => {
                let keys = PROCESS_KEYS.iter().filter_map(|key| node.get(key));
                process(keys.map(|e| (e.key.as_str(), text(&e.value))), inside, 1)
            }
        };
        self.add(&name, &lines);
        name
    }

    fn add(&mut self, name: &str, processes: &str) {
        line!(self.partitions, "  - name: {name}");
        line!(self.partitions, "    processes:\n{}", processes.trim_end());
    }

    fn anonymous_name(&mut self) -> String {
        self.anonymous += 1;
        format!("anonymous_{}", self.anonymous - 1)
    }
}

/// The lines of a list of processes, or of a single one.
fn processes(node: &Node, inside: Inside) -> String {
    let one = |node: &Node, number: usize| match &node.kind {
        Kind::Scalar { text, .. } => process([("cmd", text.as_str())].into_iter(), inside, number),
        _ => process(node.entries().iter().map(|e| (e.key.as_str(), text(&e.value))), inside, number),
    };
    match list(node) {
        Some(items) => items.iter().map(|item| one(item, items.len())).collect(),
        None => one(node, 1),
    }
}

/// The lines of a process, one of so many: its keys in the order of the file, then the missing ones.
fn process<'n>(keys: impl Iterator<Item = (&'n str, &'n str)>, inside: Inside, number: usize) -> String {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for (key, value) in keys.filter(|(key, _)| PROCESS_KEYS.contains(key)) {
        fields.push(match key {
            "budget" => ("budget", time(value)),
            "jitter" => ("jitter", time(value)),
            "init" => ("init", parse_bool(value).unwrap_or(false).to_string()),
            "frequency" => ("frequency", double(value)),
            _ => ("cmd", scalar(value)),
        });
    }
    let has = |fields: &[(&str, String)], key: &str| fields.iter().any(|(known, _)| *known == key);
    if !has(&fields, "budget") {
        let (length, safety_critical) = inside.unwrap_or_default();
        fields.push(("budget", value::demos_budget(length, safety_critical, number).to_string()));
    }
    for (key, value) in [("jitter", "0"), ("init", "false")] {
        if !has(&fields, key) {
            fields.push((key, value.to_owned()));
        }
    }
    let mut out = String::new();
    for (n, (key, value)) in fields.iter().enumerate() {
        line!(out, "      {} {key}: {value}", if n == 0 { "-" } else { " " });
    }
    out
}

fn milliseconds(text: &str) -> Option<Span> {
    let text = text.trim();
    value::parse_decimal(text, NS_PER_MS).ok().or_else(|| value::parse_duration(text).ok())
}

/// A number of milliseconds. `rules: demos` takes whole ones only.
fn time(text: &str) -> String {
    milliseconds(text).map_or_else(String::new, |span| match span.ns() % NS_PER_MS {
        0 => (span.ns() / NS_PER_MS).to_string(),
        _ => duration_text(span),
    })
}

/// A number with the 17 digits of a `double`, as a C++ stream prints it (`%.17g`).
fn double(text: &str) -> String {
    const DIGITS: i32 = 17;
    let number: f64 = text.trim().parse().unwrap_or_default();
    let scientific = format!("{number:.*e}", DIGITS as usize - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        return without_zeros(&format!("{number:.*}", (DIGITS - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

/// A text in the quotes of the YAML library of DEmOS, which are double ones, or without quotes where that library needs none.
fn scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{80}'..='\u{a0}' => {
                write!(out, "\\x{:02x}", u32::from(c)).expect("a string takes any text");
            }
            '\u{feff}' => out.push_str("\\ufeff"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether that library writes the text without quotes outside of brackets.
fn is_plain(text: &str) -> bool {
    let is_blank = |c: Option<char>| c.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    let mut chars = text.chars();
    let first = chars.next();
    let starts = match first {
        None => false,
        Some('-' | '?' | ':') => !is_blank(chars.next()),
        Some(c) => !is_blank(Some(c)) && !",[]{}#&*!|>'\"%@`".contains(c),
    };
    let is_null = matches!(text, "" | "~" | "null" | "Null" | "NULL");
    let ends_key = |at: usize| is_blank(text[at + 1..].chars().next());
    let begins_comment = |at: usize| text[at + 1..].starts_with('#');
    let refused = text.char_indices().any(|(at, c)| match c {
        ':' => ends_key(at),
        ' ' => begins_comment(at),
        '\t' | '\n' | '\r' | '\u{feff}' | '\u{7f}' => true,
        c => c < ' ' || (c != '\u{85}' && ('\u{80}'..='\u{9f}').contains(&c)),
    });
    starts && !is_null && !text.ends_with(' ') && !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures are those of `std::cout << std::setprecision(17)`.
    #[test]
    fn numbers_are_those_of_a_stream() {
        for (text, expected) in [
            ("1200", "1200"),
            ("345.6", "345.60000000000002"),
            ("652.8", "652.79999999999995"),
            ("0.5", "0.5"),
            ("1e20", "1e+20"),
            ("1e-7", "9.9999999999999995e-08"),
            ("123456789012345678", "1.2345678901234568e+17"),
            ("12345678901234567", "12345678901234568"),
        ] {
            assert_eq!(double(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_quoted_only_where_the_library_quotes() {
        for (text, expected) in [
            ("yes > /dev/null", "yes > /dev/null"),
            ("echo proc0; while true; do sleep 0.1; done", "echo proc0; while true; do sleep 0.1; done"),
            ("echo a && b", "echo a && b"),
            ("true", "true"),
            ("2,5-7", "2,5-7"),
            ("echo 'x'", "echo 'x'"),
            ("'x'", "\"'x'\""),
            ("echo a: b", "\"echo a: b\""),
            ("echo a:b", "echo a:b"),
            ("a # b", "\"a # b\""),
            ("a #", "\"a #\""),
            ("a#b", "a#b"),
            ("-x", "-x"),
            ("- x", "\"- x\""),
            ("a\nb", "\"a\\nb\""),
            ("say \"x\"\t\\", "\"say \\\"x\\\"\\t\\\\\""),
            ("~", "\"~\""),
            ("", "\"\""),
            ("a ", "\"a \""),
            ("è", "è"),
        ] {
            assert_eq!(scalar(text), expected, "{text}");
        }
    }
}
