//! Sentences of the documents: at most 25 words each, with few exceptions, and none on the pages that a newcomer reads first.
//!
//! A code span is one word. Code blocks do not count, and cells of tables and items of lists are sentences of their own.

use std::path::Path;

/// The longest sentence, in words.
const MOST_WORDS: usize = 25;

/// The pages (of a name that ends in a slash: all pages of that folder), and how many of a hundred sentences may be longer.
const PAGES: [(&str, usize); 9] = [
    ("README.md", 0),
    ("docs/cli.md", 0),
    ("docs/CAVEATS.md", 0),
    ("docs/README.md", 0),
    ("docs/start.md", 0),
    ("docs/how-to/", 0),
    ("docs/", 2),
    ("DESIGN.md", 2),
    ("ARCHITECTURE.md", 2),
];

/// Pages with more long sentences than allowed: each sentence with its file and line.
pub(crate) fn findings<'t>(texts: impl Iterator<Item = (&'t Path, &'t str)>) -> Vec<String> {
    let mut findings = Vec::new();
    for (file, text) in texts.filter(|(file, _)| file.extension().is_some_and(|ending| ending == "md")) {
        let Some((_, most)) =
            PAGES.iter().find(|(name, _)| Path::new(name) == file || name.ends_with('/') && file.starts_with(name))
        else {
            continue;
        };
        let all = sentences(text);
        let long: Vec<_> = all.iter().filter(|(_, sentence)| words(sentence) > MOST_WORDS).collect();
        if long.len() * 100 > most * all.len() {
            let shown = |(line, text): &&(usize, String)| {
                format!(
                    "{}:{line}: a sentence of {} words, {MOST_WORDS} are allowed: {text}",
                    file.display(),
                    words(text)
                )
            };
            findings.extend(long.iter().map(shown));
        }
    }
    findings
}

/// The sentences of a page in Markdown, each with the line in which its paragraph begins.
fn sentences(page: &str) -> Vec<(usize, String)> {
    let (mut found, mut paragraph, mut begin, mut code) = (Vec::new(), String::new(), 0, false);
    for (line, number) in page.lines().chain([""]).zip(1..) {
        let text = line.trim();
        let fence = text.starts_with("```");
        code ^= fence;
        let (item, text) = match text.split_once(' ') {
            Some((mark, rest)) if is_mark(mark) => (true, rest),
            _ => (false, text),
        };
        let row = text.starts_with('|');
        if fence || code || item || row || text.is_empty() {
            split(&paragraph, begin, &mut found);
            paragraph.clear();
        }
        if row {
            let cells = text.trim_matches('|').replace("<br>", "|");
            cells.split('|').for_each(|cell| split(cell, number, &mut found));
        } else if !fence && !code && !text.is_empty() {
            if paragraph.is_empty() {
                begin = number;
            }
            paragraph.push(' ');
            paragraph.push_str(text);
        }
    }
    found
}

/// Whether a line that begins so is a heading, or an item of a list.
fn is_mark(word: &str) -> bool {
    matches!(word, "-" | "*") || word.trim_matches('#').is_empty() || {
        let number = word.strip_suffix('.');
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    }
}

/// Adds the sentences of a paragraph. One ends at a full stop, an exclamation mark or a question mark before a word that begins another one.
fn split(paragraph: &str, line: usize, found: &mut Vec<(usize, String)>) {
    let mut sentence: Vec<&str> = Vec::new();
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    for (index, word) in words.iter().enumerate() {
        sentence.push(word);
        let ends = word.trim_end_matches(['*', ')', '"']).ends_with(['.', '!', '?']);
        let next = words.get(index + 1).and_then(|next| next.chars().next());
        if next.is_none_or(|c| ends && (c.is_uppercase() || "`*([".contains(c))) {
            found.push((line, sentence.join(" ")));
            sentence.clear();
        }
    }
}

/// Words, where a code span or the target of a link is none of its own.
fn words(sentence: &str) -> usize {
    let spans: String = sentence.split('`').step_by(2).collect::<Vec<_>>().join("X");
    spans.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &str) -> Vec<String> {
        sentences(page).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn sentences_end_at_stops_cells_items_and_blocks() {
        let page = "# A heading\n\nOne sentence of\ntwo lines. `Another` one, e.g. this.\n\n- item one\n- item\n  two. Three.\n```sh\nno. Sentence.\n```\n\
                    | a | b. C |\n|---|---|\n| d<br>e | f |\n1. first\n";
        let expected = [
            "A heading",
            "One sentence of two lines.",
            "`Another` one, e.g. this.",
            "item one",
            "item two.",
            "Three.",
            "a",
            "b.",
            "C",
            "---",
            "---",
            "d",
            "e",
            "f",
            "first",
        ];
        assert_eq!(texts(page), expected);
    }

    #[test]
    fn a_code_span_is_one_word() {
        assert_eq!(words("`takt run --duration 2s` ends after [two seconds](guide.md#run) - at most."), 7);
    }

    #[test]
    fn a_long_sentence_is_found_with_its_line() {
        let long = vec!["word"; 26].join(" ");
        let page = format!("Short.\n\n{long}.\n");
        let found = findings([(Path::new("README.md"), page.as_str())].into_iter());
        assert_eq!(found, [format!("README.md:3: a sentence of 26 words, 25 are allowed: {long}.")]);
        assert_eq!(findings([(Path::new("docs/how-to/a.md"), page.as_str())].into_iter()).len(), 1);
        assert!(findings([(Path::new("CHANGELOG.md"), page.as_str())].into_iter()).is_empty());
        let mostly = "Short. ".repeat(50) + &long;
        assert!(findings([(Path::new("docs/tasks.md"), mostly.as_str())].into_iter()).is_empty());
    }
}
