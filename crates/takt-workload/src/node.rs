//! A YAML document as a tree whose nodes know their place in the text.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// The deepest nesting that is read; the format needs six levels.
pub(crate) const MAX_DEPTH: usize = 32;
/// The most nodes, aliases counted with all that they stand for.
pub(crate) const MAX_NODES: usize = 2_000_000;

/// A place in the text, in bytes.
pub type Place = Range<usize>;

/// A value of a document.
#[derive(Debug)]
pub struct Node {
    /// Its place in the text.
    pub span: Place,
    /// The value.
    pub kind: Kind,
    /// Number of nodes in this tree, aliases expanded.
    size: usize,
}

/// The value of a [`Node`].
#[derive(Debug)]
pub enum Kind {
    /// A single value.
    Scalar {
        /// The text, whatever type YAML would give it.
        text: String,
        /// Whether it has no quotes.
        plain: bool,
    },
    /// A list.
    List(Vec<Rc<Node>>),
    /// A mapping, in the order of the text.
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The place of the key.
    pub key_span: Place,
    /// The value.
    pub value: Rc<Node>,
}

impl Node {
    /// The value of a key; `None` when this is no mapping or has no such key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|e| e.key == key)
    }

    /// The entries of a mapping; empty for everything else.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Whether the value is empty.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Where a message about the node as a whole points: the first key of a mapping, else the node.
    #[must_use]
    pub fn head(&self) -> Place {
        match &self.kind {
            Kind::Map(entries) if !entries.is_empty() => entries[0].key_span.clone(),
            Kind::List(items) if !items.is_empty() => items[0].head(),
            _ => self.span.clone(),
        }
    }

    /// The kind of the node, in words.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            Kind::Map(_) => "a mapping",
            Kind::List(_) => "a list",
            Kind::Scalar { .. } if self.is_null() => "empty",
            Kind::Scalar { .. } => "a single value",
        }
    }
}

/// Byte offsets of characters; the parser counts characters.
struct Offsets<'t> {
    text: &'t str,
    bytes: Option<Vec<usize>>,
}

impl<'t> Offsets<'t> {
    fn new(text: &'t str) -> Offsets<'t> {
        let bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Offsets { text, bytes }
    }
    fn byte(&self, index: usize) -> usize {
        match &self.bytes {
            Some(bytes) => bytes.get(index).copied().unwrap_or(self.text.len()),
            None => index.min(self.text.len()),
        }
    }
    fn place(&self, span: saphyr_parser::Span) -> Place {
        let start = self.byte(span.start.index());
        start..self.byte(span.end.index()).max(start)
    }
}

enum Open {
    List {
        start: usize,
        anchor: usize,
        items: Vec<Rc<Node>>,
    },
    Map {
        start: usize,
        anchor: usize,
        entries: Vec<Entry>,
        key: Option<(Option<String>, Place)>,
        seen: HashMap<String, Place>,
    },
}

struct Builder {
    stack: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    root: Option<Rc<Node>>,
    nodes: usize,
    faults: Vec<Diagnostic>,
}

impl Builder {
    fn add(&mut self, node: Rc<Node>, place: Place) -> Result<(), Diagnostic> {
        self.nodes = self.nodes.saturating_add(node.size);
        if self.nodes > MAX_NODES {
            return Err(Diagnostic::error(
                Code::LimitExceeded,
                &place,
                format!("the file has more than {MAX_NODES} values"),
            )
            .label("counted up to here, with every alias expanded"));
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, seen, .. }) => match key.take() {
                None => match &node.kind {
                    Kind::Scalar { text, .. } => *key = Some((Some(text.clone()), place)),
                    _ => {
                        self.faults.push(
                            Diagnostic::error(Code::WrongType, &place, "a key must be a single word")
                                .label(format!("this is {}", node.describe())),
                        );
                        *key = Some((None, place));
                    }
                },
                Some((None, _)) => {}
                Some((Some(name), key_span)) => match seen.get(&name) {
                    Some(first) => self.faults.push(
                        Diagnostic::error(Code::DuplicateKey, &key_span, format!("the key `{name}` is given twice"))
                            .label("given again here")
                            .also(first, "first given here")
                            .hint("remove one of them"),
                    ),
                    None => {
                        seen.insert(name.clone(), key_span.clone());
                        entries.push(Entry { key: name, key_span, value: node });
                    }
                },
            },
        }
        Ok(())
    }

    fn close(&mut self, kind: Kind, span: Place, anchor: usize) -> Result<(), Diagnostic> {
        let size = match &kind {
            Kind::Scalar { .. } => 1,
            // The inside was counted when it was added; the size matters again only for aliases.
            Kind::List(items) => items.iter().fold(1_usize, |n, i| n.saturating_add(i.size)),
            Kind::Map(entries) => entries.iter().fold(1_usize, |n, e| n.saturating_add(e.value.size)),
        };
        let node = Rc::new(Node { span: span.clone(), kind, size });
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.nodes = self.nodes.saturating_sub(size - 1);
        self.add(node, span)
    }
}

/// Reads one document. Faults that leave a usable tree (a key given twice) come back beside it.
pub(crate) fn parse(text: &str) -> Result<(Rc<Node>, Vec<Diagnostic>), Diagnostic> {
    let offsets = Offsets::new(text);
    let mut builder = Builder { stack: Vec::new(), anchors: HashMap::new(), root: None, nodes: 0, faults: Vec::new() };
    let mut parser = Parser::new_from_str(text);
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|e| syntax_fault(text, &offsets, &e))?;
        let place = offsets.place(span);
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(Diagnostic::error(
                        Code::NotSupportedHere,
                        &place,
                        "the file holds more than one YAML document",
                    )
                    .label("the second one starts here")
                    .hint("put every workload into a file of its own"));
                }
            }
            Event::Scalar(value, style, anchor, _) => {
                // The parser's buffer has room for far more than most scalars need.
                let mut text = value.into_owned();
                text.shrink_to_fit();
                let kind = Kind::Scalar { text, plain: style == ScalarStyle::Plain };
                builder.close(kind, place, anchor)?;
            }
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) if builder.stack.len() >= MAX_DEPTH => {
                let _ = anchor;
                return Err(Diagnostic::error(
                    Code::LimitExceeded,
                    &place,
                    format!("values are nested more than {MAX_DEPTH} deep"),
                )
                .label("this level is too deep"));
            }
            Event::SequenceStart(anchor, _) => {
                builder.stack.push(Open::List { start: place.start, anchor, items: Vec::new() });
            }
            Event::MappingStart(anchor, _) => builder.stack.push(Open::Map {
                start: place.start,
                anchor,
                entries: Vec::new(),
                key: None,
                seen: HashMap::new(),
            }),
            Event::SequenceEnd | Event::MappingEnd => match builder.stack.pop() {
                Some(Open::List { start, anchor, mut items }) => {
                    items.shrink_to_fit();
                    builder.close(Kind::List(items), start..place.end.max(start), anchor)?;
                }
                Some(Open::Map { start, anchor, mut entries, .. }) => {
                    entries.shrink_to_fit();
                    builder.close(Kind::Map(entries), start..place.end.max(start), anchor)?;
                }
                None => {}
            },
            Event::Alias(anchor) => match builder.anchors.get(&anchor) {
                Some(node) => {
                    let node = Rc::clone(node);
                    builder.add(node, place)?;
                }
                None => {
                    return Err(Diagnostic::error(
                        Code::SyntaxError,
                        &place,
                        "an alias stands inside the value that it names",
                    )
                    .label("this would never end"));
                }
            },
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
    }
    match builder.root {
        Some(root) if !root.is_null() => Ok((root, builder.faults)),
        _ => Err(Diagnostic::error(Code::NothingToSchedule, &(0..0), "the file is empty")
            .hint("a workload has `windows` and `partitions`, or `tasks` and a `policy`")),
    }
}

fn syntax_fault(text: &str, offsets: &Offsets<'_>, error: &saphyr_parser::ScanError) -> Diagnostic {
    let at = offsets.byte(error.marker().index());
    if let Some(tab) = tab_indentation(text, at) {
        return Diagnostic::error(Code::SyntaxError, &(tab..tab + 1), "a tab is used for indentation")
            .label("this is a tab")
            .hint("YAML indents with spaces only: replace the tabs by spaces");
    }
    // At the end of the text there is nothing to mark; the last line that has something is the better place.
    let at = if at >= text.len() { text.trim_end().len().saturating_sub(1) } else { at };
    let end = text[text.floor_char_boundary(at)..].chars().next().map_or(at, |c| at + c.len_utf8());
    let fault = Diagnostic::error(Code::SyntaxError, &(at..end), "this is not valid YAML").label(error.info());
    if error.info().contains("mapping values are not allowed") {
        fault.hint("quote a text that holds `: `, and check the indentation")
    } else {
        fault.hint("check the indentation, the brackets and the quotes around here")
    }
}

/// The first tab in the indentation of the faulty line or the one before or after it.
fn tab_indentation(text: &str, at: usize) -> Option<usize> {
    let at = text.floor_char_boundary(at.min(text.len()));
    let before = text[..at].rfind('\n').map_or(0, |n| text[..n].rfind('\n').map_or(0, |n| n + 1));
    let mut start = before;
    for line in text[before..].split_inclusive('\n').take(3) {
        let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line[..indentation].find('\t') {
            return Some(start + tab);
        }
        start += line.len();
    }
    None
}
