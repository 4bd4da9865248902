//! A page in one file that loads nothing.

use super::columns::{base64, write_base64};
use crate::gantt::escape;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io;

/// Colours in light and dark, texts and tables of all pages.
const THEME: &str = include_str!("theme.css");

/// The parts of a page. Its content policy allows its own programs and its own style by their hashes, and nothing else.
pub struct Document<'a> {
    /// Title and heading, as plain text.
    pub title: &'a str,
    /// The style besides that of all pages.
    pub style: &'a str,
    /// Programs, in their order.
    pub scripts: &'a [&'a str],
    /// Data for the programs.
    pub data: &'a [Data],
    /// The content as HTML.
    pub body: &'a str,
    /// An SVG for browsers without JavaScript, or nothing. The page has its style.
    pub drawing: &'a str,
    /// The line above this SVG, as plain text.
    pub drawing_note: &'a str,
}

/// Data for the programs of a page.
pub struct Data {
    /// The name of their element.
    pub id: &'static str,
    /// A value as JSON.
    pub value: Value,
    /// Deflated columns, each as base64 in an element with its name behind that of the value: `trace-pTask`.
    pub columns: Vec<(&'static str, Vec<u8>)>,
}

impl Data {
    /// A value without columns.
    #[must_use]
    pub fn new(id: &'static str, value: Value) -> Data {
        Data { id, value, columns: Vec::new() }
    }

    fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        // No element can end within the text, whatever a task is called.
        let text = self.value.to_string().replace('<', "\\u003c");
        writeln!(out, "<script type=\"application/json\" id=\"{}\">{text}</script>", self.id)?;
        for (name, bytes) in &self.columns {
            write!(out, "<script type=\"text/plain\" id=\"{}-{name}\">", self.id)?;
            write_base64(bytes, out)?;
            writeln!(out, "</script>")?;
        }
        Ok(())
    }
}

impl Document<'_> {
    /// The page as HTML.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = Vec::new();
        self.write(&mut text).expect("memory takes all");
        String::from_utf8(text).expect("a page is text")
    }

    /// Writes the page as HTML.
    ///
    /// # Errors
    /// The error of the output.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let (drawing, drawing_style) = without_style(self.drawing);
        let style = format!("{THEME}{}{drawing_style}", self.style);
        let scripts: String = self.scripts.iter().map(|script| format!("<script>{script}</script>\n")).collect();
        let mut sources: Vec<String> = self.scripts.iter().map(|script| format!("'{}'", hash(script))).collect();
        if sources.is_empty() {
            sources.push("'none'".to_owned());
        }
        let without_script = match self.drawing {
            "" => String::new(),
            _ => format!("<noscript>\n<p>{}</p>\n{drawing}</noscript>\n", escape(self.drawing_note)),
        };
        write!(
            out,
            r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src {}; style-src '{}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{}
{without_script}"#,
            sources.join(" "),
            hash(&style),
            self.body,
            title = escape(self.title),
        )?;
        self.data.iter().try_for_each(|data| data.write(out))?;
        write!(out, "{scripts}</body>\n</html>\n")
    }
}

/// Text with line breaks and tabs as HTML.
#[must_use]
pub fn preformatted(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(escape).collect::<Vec<_>>().join("\t") + "\n";
    text.lines().map(line).collect()
}

/// An SVG without its style, and the style.
fn without_style(picture: &str) -> (String, &str) {
    let split = picture.split_once("<style>");
    let split = split.and_then(|(before, rest)| Some((before, rest.split_once("</style>")?)));
    split.map_or((picture.to_owned(), ""), |(before, (style, after))| (format!("{before}{after}"), style))
}

/// The source of a content policy that allows exactly this text.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_standard() {
        // SHA-256 of "abc" in FIPS 180-4, in base64.
        assert_eq!(hash("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }

    #[test]
    fn every_program_and_the_style_of_the_drawing_are_allowed() {
        let page = Document {
            title: "a<b",
            style: "",
            scripts: &["abc", "void 0"],
            data: &[Data { columns: vec![("c", b"foobar".to_vec())], ..Data::new("d", Value::from("</script>")) }],
            body: "",
            drawing: "<svg><style>text{x:y}</style></svg>",
            drawing_note: "n",
        };
        let text = page.text();
        let allowed = format!(
            "script-src '{}' '{}'; style-src '{}'",
            hash("abc"),
            hash("void 0"),
            hash(&format!("{THEME}text{{x:y}}"))
        );
        assert!(text.contains(&allowed) && text.contains("<svg></svg>"), "{text}");
        assert!(text.contains("<h1>a&lt;b</h1>") && text.contains(r#""\u003c/script>""#), "{text}");
        assert!(text.contains(r#"<script type="text/plain" id="d-c">Zm9vYmFy</script>"#), "{text}");
    }
}
