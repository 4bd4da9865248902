//! Typed access to the nodes of a file; every fault becomes a diagnostic and reading continues.

use crate::MAX_DIAGNOSTICS;
use crate::code::Code;
use crate::declared::{Resources, Servers};
use crate::diagnostic::{self, Diagnostic};
use crate::node::{Entry, Kind, Node, Place};
use crate::settings::Client;
use crate::source::Source;
use crate::text::clipped;
use crate::value::{self, NS_PER_MS, choices, nearest};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, TableRules, TaskId};
use takt_core::time::Span;

/// Keys whose places a reader keeps, since they may be reported.
pub(crate) const PLACED: [&str; 9] =
    ["late", "backlog", "preset", "load", "changes", "frequency", "event", "class", "epp"];

/// Which bare numbers a duration key takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bare {
    /// DEmOS's keys: milliseconds.
    Milliseconds,
    /// Takt's own keys: none, the unit is written.
    Refused,
}

impl Bare {
    fn expected(self) -> &'static str {
        match self {
            Bare::Milliseconds => "a number of milliseconds, or a duration such as `10ms`",
            Bare::Refused => "a duration such as `10ms`",
        }
    }
}

/// A list of CPUs as the file has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Cpus {
    /// `all`
    All,
    /// Numbers.
    Set(CpuSet),
}

/// Reads typed values, and collects the faults.
#[derive(Default)]
pub struct Reader {
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Unknown keys, by their place in the text, with the key that was suggested instead.
    misspelt: HashMap<usize, String>,
    /// The shared resources, as far as they are known.
    pub(crate) resources: Resources,
    /// The servers that tasks share.
    pub(crate) servers: Servers,
    /// Tasks that are released after others, the names of these, and where they stand.
    pub(crate) followers: Vec<(TaskId, String, Place)>,
    /// Tasks that are threads of the program of another one, by its name.
    pub(crate) threads: Vec<(TaskId, String, Place)>,
    /// When events come in a simulation.
    pub(crate) events: Vec<(TaskId, Arrival)>,
    /// Where relative names of other files begin.
    pub(crate) directory: PathBuf,
    /// Texts that are read instead of other files.
    pub(crate) texts: Vec<Source>,
    /// The other files that were read.
    pub(crate) files: Vec<Source>,
    /// Entries of execution times that came from files and copies.
    pub(crate) entries: usize,
    /// Where keys are that a driver may not carry out.
    pub(crate) places: Vec<(&'static str, Place)>,
    /// The rules of the window table.
    pub(crate) rules: TableRules,
    /// The value of `client` for processes that do not have the key: that of their partition, or of the file.
    pub(crate) client: Client,
}

impl Reader {
    /// All faults, in the order of the text.
    #[must_use]
    pub fn faults(mut self) -> Vec<Diagnostic> {
        diagnostic::sort(&mut self.diagnostics);
        self.diagnostics
    }

    /// Adds a fault.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reads something, and adds a hint to the faults of that which have none.
    pub fn hinted<T>(&mut self, hint: &str, read: impl FnOnce(&mut Reader) -> T) -> T {
        let before = self.diagnostics.len();
        let value = read(self);
        for fault in &mut self.diagnostics[before..] {
            fault.hint.get_or_insert_with(|| hint.to_owned());
        }
        value
    }

    /// The name nearest to `wrong`. After as many faults as are shown no name is looked for: each costs a pass over all names.
    pub(crate) fn nearest<'a>(&self, wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        if self.diagnostics.len() < MAX_DIAGNOSTICS { nearest(wrong, names) } else { None }
    }

    /// Reports keys that do not belong here. `of` says whose keys they are: "a window".
    pub fn keys(&mut self, map: &Node, of: &str, known: &[&str]) {
        self.keys_but(map, of, known, &[]);
    }

    /// The same, with keys that are let through and not recommended.
    pub(crate) fn keys_but(&mut self, map: &Node, of: &str, known: &[&str], tolerated: &[&str]) {
        for entry in map.entries() {
            if let Some(key) = PLACED.into_iter().find(|key| *key == entry.key) {
                self.places.push((key, entry.key_span.clone()));
            }
            if known.contains(&entry.key.as_str()) || tolerated.contains(&entry.key.as_str()) {
                continue;
            }
            let fault = Diagnostic::error(
                Code::UnknownKey,
                &entry.key_span,
                format!("unknown key `{}` in {of}", clipped(&entry.key)),
            );
            let list = list_of_keys(of, known);
            let fault = match nearest(&entry.key, known.iter().copied()) {
                Some(near) => {
                    self.misspelt.insert(entry.key_span.start, near.to_owned());
                    let fault = fault.label(format!("did you mean `{near}`?"));
                    // A long list would bury the answer.
                    if known.len() <= 12 { fault.hint(list) } else { fault }
                }
                // In braces a comma ends a plain text.
                None if entry.key.contains('=') => fault
                    .label("the comma before it ends the text of the policy")
                    .hint("quote a policy together with its settings, as in `\"ipi:preset=improved,kpi=0.5\"`"),
                None if entry.key == "<<" => fault.label("merge keys are not part of the format").hint(list),
                None => fault.hint(list),
            };
            self.push(fault);
        }
    }

    /// Whether a key is missing, and not just misspelt: that was reported.
    pub(crate) fn lacks(&self, map: &Node, key: &str) -> bool {
        let slip = |start: &usize| self.misspelt.get(start).is_some_and(|meant| meant == key);
        map.get(key).is_none() && !map.entries().iter().any(|e| slip(&e.key_span.start))
    }

    /// The entry of a key that `what` must have. Reports that it is missing, unless it is just misspelt.
    pub fn required<'n>(&mut self, map: &'n Node, what: &str, key: &str, label: &str, hint: &str) -> Option<&'n Entry> {
        if self.lacks(map, key) {
            self.push(
                Diagnostic::error(Code::MissingKey, &map.head(), format!("{what} has no `{key}`"))
                    .label(label)
                    .hint(hint),
            );
        }
        map.get(key)
    }

    /// Reports that the node should be a mapping, unless it is one.
    pub fn is_map(&mut self, node: &Node, what: &str, hint: &str) -> bool {
        let is_map = matches!(node.kind, Kind::Map(_));
        if !is_map {
            self.wrong_kind(node, what, "a mapping of keys and values", hint);
        }
        is_map
    }

    /// The items of a list. Nothing counts as an empty list, as in `partitions:` without more.
    pub fn items<'n>(&mut self, node: &'n Node, what: &str, hint: &str) -> &'n [Rc<Node>] {
        match &node.kind {
            Kind::List(items) => items,
            _ if node.is_null() => &[],
            _ => {
                self.wrong_kind(node, what, "a list", hint);
                &[]
            }
        }
    }

    fn wrong_kind(&mut self, node: &Node, what: &str, expected: &str, hint: &str) {
        let fault = Diagnostic::error(Code::WrongType, &node.head(), format!("{what} must be {expected}"));
        self.push(fault.label(format!("this is {}", node.describe())).hint(hint));
    }

    /// The text of a single value; whatever type YAML would give it.
    pub fn scalar<'n>(&mut self, node: &'n Node, key: &str, expected: &str) -> Option<&'n str> {
        match &node.kind {
            Kind::Scalar { text, .. } if !node.is_null() => Some(text),
            _ => {
                self.push(
                    Diagnostic::error(Code::WrongType, &node.head(), format!("`{key}` must be {expected}"))
                        .label(format!("this is {}", node.describe())),
                );
                None
            }
        }
    }

    /// A text that is not empty.
    pub fn text(&mut self, node: &Node, key: &str, expected: &str) -> Option<String> {
        let text = self.scalar(node, key, expected)?;
        if text.trim().is_empty() {
            self.push(
                Diagnostic::error(Code::EmptyValue, &node.span, format!("`{key}` is empty")).label("nothing here"),
            );
            return None;
        }
        if text.contains('\0') {
            let label = "no program can be given such a text";
            self.push(
                Diagnostic::error(Code::InvalidCharacter, &node.span, format!("`{key}` holds a zero byte"))
                    .label(label)
                    .hint("remove `\\0`"),
            );
            return None;
        }
        Some(text.to_owned())
    }

    /// Whether the name at this place is one that can be printed; reports one that is not.
    pub(crate) fn is_name(&mut self, name: &str, place: &Place) -> bool {
        let sound = !name.chars().any(char::is_control);
        if !sound {
            let fault = Diagnostic::error(Code::InvalidCharacter, place, "a name cannot hold control characters");
            self.push(fault.label("such a character is in here"));
        }
        sound
    }

    /// Yes or no.
    pub fn boolean(&mut self, node: &Node, key: &str) -> Option<bool> {
        let text = self.scalar(node, key, "yes or no")?;
        let value = value::parse_bool(text);
        if value.is_none() {
            self.push(
                Diagnostic::error(Code::WrongType, &node.span, format!("`{key}` must be yes or no"))
                    .label("neither of them")
                    .hint("write `yes`, `true`, `on`, or `no`, `false`, `off`"),
            );
        }
        value
    }

    /// A whole number up to `most`.
    pub fn whole(&mut self, node: &Node, key: &str, most: u64) -> Option<u64> {
        let text = self.scalar(node, key, "a whole number")?;
        let value = text.parse::<u64>().ok().filter(|n| *n <= most);
        if value.is_none() || text.starts_with('+') {
            let code = if text.bytes().all(|b| b.is_ascii_digit()) { Code::OutOfRange } else { Code::WrongType };
            self.push(
                Diagnostic::error(code, &node.span, format!("`{key}` must be a whole number from 0 to {most}"))
                    .label("not such a number"),
            );
            return None;
        }
        value
    }

    pub(crate) fn frequency(&mut self, node: &Node) -> Option<f64> {
        let text = self.scalar(node, "frequency", "a number of megahertz")?;
        let value = text.parse::<f64>().ok().filter(|f| f.is_finite() && *f > 0.0);
        if value.is_none() {
            self.push(
                Diagnostic::error(Code::WrongType, &node.span, "`frequency` must be a number of megahertz above zero")
                    .label("not such a number"),
            );
        }
        value
    }

    /// One of the known words.
    pub fn choice<T: Copy>(&mut self, node: &Node, key: &str, known: &[(&str, T)]) -> Option<T> {
        let names = || known.iter().map(|(name, _)| *name);
        let list = choices(names(), "or");
        let text = self.scalar(node, key, &list)?;
        // `realtime: yes` and `realtime: true` say the same.
        let word = match value::parse_bool(text) {
            Some(true) => "yes",
            Some(false) => "no",
            None => text,
        };
        let found = known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        if found.is_none() {
            let fault = Diagnostic::error(Code::UnknownValue, &node.span, format!("`{key}` must be {list}"));
            let label = nearest(text, names()).map_or("none of them".to_owned(), |n| format!("did you mean `{n}`?"));
            self.push(fault.label(label));
        }
        found
    }

    pub(crate) fn cpus(&mut self, node: &Node, key: &str) -> Option<Cpus> {
        let text = self.scalar(node, key, "a list of CPUs such as `0,2,5-7`, or `all`")?;
        if text.trim() == "all" {
            return Some(Cpus::All);
        }
        match value::parse_cpus(text) {
            Ok(set) => Some(Cpus::Set(set)),
            Err(why) => {
                self.push(
                    Diagnostic::error(Code::WrongType, &node.span, format!("`{key}` is not a list of CPUs"))
                        .label(why)
                        .hint("write numbers and ranges from 0 to 1023, as in `0,2,5-7`, or `all`"),
                );
                None
            }
        }
    }

    /// A duration from zero to [`value::MAX_DURATION`]; `zero` says whether zero itself is allowed.
    pub(crate) fn span(&mut self, node: &Node, key: &str, bare: Bare, zero: bool) -> Option<Span> {
        let text = self.scalar(node, key, bare.expected())?;
        self.span_text(text, &node.span, key, bare, zero)
    }

    /// The same of a text at a place.
    pub(crate) fn span_text(&mut self, text: &str, place: &Place, key: &str, bare: Bare, zero: bool) -> Option<Span> {
        let (text, expected) = (text.trim(), bare.expected());
        let as_ms = value::parse_decimal(text, NS_PER_MS);
        let result = match (bare, as_ms) {
            (Bare::Milliseconds, Ok(span)) => Ok(span),
            (Bare::Refused, Ok(_)) => {
                self.push(
                    Diagnostic::error(Code::MissingUnit, place, format!("`{key}` needs a unit of time"))
                        .label("a bare number")
                        .hint(format!("did you mean `{text}ms`?")),
                );
                return None;
            }
            (Bare::Milliseconds, Err(fault)) if fault != value::BadNumber::NotANumber => {
                Err(value::number_fault(fault, text))
            }
            _ => value::parse_signed(text),
        };
        let fault = match result {
            Err(why) => Diagnostic::error(Code::WrongType, place, format!("`{key}` must be {expected}")).label(why),
            Ok(span) if span < Span::ZERO => {
                Diagnostic::error(Code::OutOfRange, place, format!("`{key}` must not be negative")).label("below zero")
            }
            Ok(span) if span == Span::ZERO && !zero => {
                Diagnostic::error(Code::OutOfRange, place, format!("`{key}` must be above zero"))
                    .label("no time at all")
            }
            Ok(span) if span > value::MAX_DURATION => {
                Diagnostic::error(Code::OutOfRange, place, format!("`{key}` is longer than a year"))
                    .label(format!("this is {} days", span.ns() / Span::from_secs(86_400).ns()))
                    .hint("bare numbers are milliseconds; other units are written, as in `250us`")
            }
            Ok(span) => return Some(span),
        };
        self.push(fault);
        None
    }
}

/// The items of a list, if they are not too many.
pub(crate) fn bounded<'n>(
    reader: &mut Reader,
    node: &'n Node,
    key: &str,
    hint: &str,
    most: usize,
) -> Option<&'n [Rc<Node>]> {
    let faults = reader.diagnostics.len();
    let items = reader.items(node, &format!("`{key}`"), hint);
    if items.len() > most {
        reader.push(
            Diagnostic::error(
                Code::LimitExceeded,
                &items[most].head(),
                format!("`{key}` has more than {most} entries"),
            )
            .label("the first one too many")
            .hint("shorten the list"),
        );
    }
    (reader.diagnostics.len() == faults).then_some(items)
}

/// With more keys than this, only the usual ones are listed: a longer list is no answer.
const LISTED: usize = 16;
const USUAL: [&str; 17] = [
    "name",
    "cmd",
    "period",
    "runtime",
    "deadline",
    "priority",
    "offset",
    "budget",
    "completion",
    "policy",
    "cpus",
    "tasks",
    "windows",
    "partitions",
    "duration",
    "locking",
    "realtime",
];

fn list_of_keys(of: &str, known: &[&str]) -> String {
    if known.len() <= LISTED {
        return format!("the keys of {of} are {}", choices(known.iter().copied(), "and"));
    }
    let usual = known.iter().copied().filter(|key| USUAL.contains(key));
    format!("usual keys of {of} are {}; docs/workload.md describes all {}", choices(usual, "and"), known.len())
}
