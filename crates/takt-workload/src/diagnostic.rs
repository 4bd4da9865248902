//! Faults of a file: message, place, and remedy.

use crate::Source;
use crate::code::Code;
use crate::text::{clipped, visible};
use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use std::ops::Range;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not mean what its author wants.
    Warning,
}

/// One fault of a source file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The kind of the fault.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The fault, in one line without a full stop.
    pub message: String,
    /// Where: bytes of [`Source::text`].
    pub span: Range<usize>,
    /// The label at the place; may be empty.
    pub label: String,
    /// Other places that belong to the fault, each with its label.
    pub related: Vec<(Range<usize>, String)>,
    /// The remedy.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at `span`.
    #[must_use]
    pub fn error(code: Code, span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            span: span.clone(),
            label: String::new(),
            related: Vec::new(),
            hint: None,
        }
    }

    /// A warning at `span`.
    #[must_use]
    pub fn warning(code: Code, span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Says what stands at the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Points at another place, too.
    #[must_use]
    pub fn also(mut self, span: &Range<usize>, label: impl Into<String>) -> Diagnostic {
        self.related.push((span.clone(), label.into()));
        self
    }

    /// The text for a terminal: message, place, the marked line, hint. It ends with a newline.
    #[must_use]
    pub fn render(&self, source: &Source, color: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(printable(&self.message)).id(self.code.name());
        let whole = self.span == (0..0) && self.label.is_empty() && self.related.is_empty();
        let report = if source.text.is_empty() || whole {
            // Nothing to show: an empty file, one that could not be read at all, or something about the file as a whole.
            [title.element(Origin::path(source.name.as_str()))]
        } else {
            // Only the lines between the first and the last place: the library reads all that it is given.
            let places = || self.related.iter().map(|(span, _)| span).chain([&self.span]);
            let text = source.text.as_str();
            let first = places().map(|span| text_offset(text, span.start)).min().unwrap_or(0);
            let last = places().map(|span| text_offset(text, span.start)).max().unwrap_or(0);
            let from = text[..first].rfind('\n').map_or(0, |n| n + 1);
            let to = text[last..].find('\n').map_or(text.len(), |n| last + n);
            let place = |span: &Range<usize>| {
                let start = text_offset(text, span.start);
                let end = text_offset(text, span.end).max(start);
                // One marked line says enough, also of a long list or block.
                let line_end = text[start..to].find('\n').map_or(to, |n| start + n);
                start - from..end.min(line_end) - from
            };
            let mut primary = AnnotationKind::Primary.span(place(&self.span));
            if !self.label.is_empty() {
                primary = primary.label(printable(&self.label));
            }
            // Control characters must not reach the terminal.
            let shown: String = text[from..to].chars().map(visible).collect();
            let line = 1 + text[..from].matches('\n').count();
            let mut snippet = Snippet::source(shown).line_start(line).path(source.name.as_str()).annotation(primary);
            for (span, label) in &self.related {
                snippet = snippet.annotation(AnnotationKind::Context.span(place(span)).label(printable(label)));
            }
            [title.element(snippet)]
        };
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let mut out = renderer.render(&report);
        out.push('\n');
        if let Some(hint) = &self.hint {
            let (on, off) = if color { ("\u{1b}[1m\u{1b}[96m", "\u{1b}[0m") } else { ("", "") };
            out.push_str(&format!("{on}hint{off}: {}\n", printable(hint)));
        }
        out
    }
}

/// In the order of the file, and no more than are shown.
pub(crate) fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|d| d.span.start);
    diagnostics.truncate(crate::limits::MAX_DIAGNOSTICS);
}

/// The text with the names of tasks that stand there as numbers, as in `task 3`. `name` is that of a number.
pub(crate) fn named<'n>(text: &str, name: impl Fn(usize) -> Option<&'n str>) -> String {
    const WORD: &str = "task ";
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(WORD) {
        let (before, number) = rest.split_at(at + WORD.len());
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(before);
        rest = match number[..digits].parse().ok().and_then(&name) {
            Some(name) => {
                out.push_str(&format!("`{}`", clipped(name)));
                &number[digits..]
            }
            None => number,
        };
    }
    out + rest
}

fn printable(text: &str) -> String {
    let mut out: String = text.chars().map(visible).collect();
    if out.contains('\n') {
        out = out.replace('\n', " ");
    }
    out
}

/// The nearest character boundary at or before a byte offset.
fn text_offset(text: &str, offset: usize) -> usize {
    text.floor_char_boundary(offset.min(text.len()))
}
