//! What is wrong with a file, where, and what to do about it.

use crate::Source;
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
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line without a full stop.
    pub message: String,
    /// Where: bytes of [`Source::text`].
    pub span: Range<usize>,
    /// What stands at the place; may be empty.
    pub label: String,
    /// Other places that belong to the fault, each with its label.
    pub related: Vec<(Range<usize>, String)>,
    /// What to do.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// An error at `span`.
    #[must_use]
    pub fn error(span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
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
    pub fn warning(span: &Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
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
        let title = level.primary_title(printable(&self.message));
        let report = if source.text.is_empty() {
            // Nothing to show: an empty file, or one that could not be read at all.
            [title.element(Origin::path(source.name.as_str()))]
        } else {
            // The library prints control characters and very long lines as they are; a binary file must not
            // reach the terminal.
            let text: String = source.text.chars().map(visible).collect();
            let place = |span: &Range<usize>| {
                let start = text_offset(&source.text, span.start);
                let end = text_offset(&source.text, span.end.max(span.start));
                // One marked line says enough, also of a long list or block.
                let line_end = text[start..].find('\n').map_or(text.len(), |n| start + n);
                start..end.min(line_end).max(start)
            };
            let mut primary = AnnotationKind::Primary.span(place(&self.span));
            if !self.label.is_empty() {
                primary = primary.label(printable(&self.label));
            }
            let mut snippet = Snippet::source(text.clone()).path(source.name.as_str()).annotation(primary);
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

/// A printable stand-in of the same length in UTF-8, so that offsets stay valid.
fn visible(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        c if c.is_control() && c.len_utf8() == 1 => '?',
        c if c.is_control() => '\u{bf}',
        c => c,
    }
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
