//! Shared parts of all pictures: the page, texts and coordinates.

use crate::names;
use std::fmt::Display;

/// A coordinate without useless digits.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A picture of this size on white, in pixels: `head` is its style and what it defines, `body` what is drawn. O(length).
#[must_use]
pub fn page(width: &dyn Display, height: &dyn Display, head: &str, body: &str) -> String {
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">
{head}
<rect width="100%" height="100%" fill="#fff"/>
{body}</svg>
"##
    )
}

/// Text as written in XML, between tags or in an attribute. Control characters become U+FFFD. O(length).
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no place for other control characters; marks of direction would reorder the text.
            c if names::is_hidden(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
