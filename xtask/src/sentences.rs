//! Length of the sentences of documents. A sentence has at most 25 words.
//!
//! A code span is one word, and the target of a link is none. Blocks of code do not count. Each cell of a table and each item of a list is
//! read by itself.

use std::path::Path;

const MOST_WORDS: usize = 25;

/// Documents with a limit: the percentage of their sentences that may be longer.
const LIMITS: [(&str, usize); 3] = [("README.md", 0), ("docs/cli.md", 0), ("docs/guide.md", 2)];

/// Names each long sentence of a document that has more of them than allowed.
pub(crate) fn findings<'t>(texts: impl Iterator<Item = (&'t Path, &'t str)>) -> Vec<String> {
    let limited = texts.filter_map(|(file, text)| {
        let (name, percent) = LIMITS.iter().find(|(name, _)| file == Path::new(name))?;
        Some((*name, *percent, text))
    });
    limited.flat_map(|(name, percent, text)| too_long(name, percent, text)).collect()
}

fn too_long(name: &str, percent: usize, text: &str) -> Vec<String> {
    let all = sentences(text);
    let long: Vec<&Sentence> = all.iter().filter(|sentence| sentence.words.len() > MOST_WORDS).collect();
    if long.len() * 100 <= percent * all.len() {
        return Vec::new();
    }
    let finding = |sentence: &&Sentence| {
        let (line, count) = (sentence.line, sentence.words.len());
        format!("{name}:{line}: a sentence has {count} words, {MOST_WORDS} are allowed: {}", sentence.words.join(" "))
    };
    let mut findings: Vec<String> = long.iter().map(finding).collect();
    if percent > 0 {
        let (long, all) = (long.len(), all.len());
        findings.push(format!("{name}: {long} of {all} sentences are too long, {percent} % are allowed"));
    }
    findings
}

/// `line` is the line of the first word.
struct Sentence {
    line: usize,
    words: Vec<String>,
}

fn sentences(text: &str) -> Vec<Sentence> {
    let (mut found, mut block, mut code) = (Vec::new(), Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if line.starts_with("```") {
            code = !code;
        }
        let row = line.strip_prefix('|');
        if line.is_empty() || line.starts_with("```") || line.starts_with('#') || row.is_some() || item(line).is_some()
        {
            split(&std::mem::take(&mut block), &mut found);
        }
        match (code || line.starts_with("```"), row) {
            (true, _) => {}
            (false, Some(row)) => cells(row).for_each(|cell| split(&[(number, &cell)], &mut found)),
            (false, None) if line.starts_with('#') => split(&[(number, line.trim_start_matches('#'))], &mut found),
            (false, None) => block.push((number, item(line).unwrap_or(line))),
        }
    }
    split(&block, &mut found);
    found
}

/// The text of a line that begins an item of a list.
fn item(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = digits.strip_prefix(". ").filter(|_| digits.len() < line.len());
    numbered.or_else(|| line.strip_prefix("- ")).or_else(|| line.strip_prefix("* "))
}

/// The cells of a row; `\|` is a character of a cell.
fn cells(row: &str) -> impl Iterator<Item = String> {
    let cells: Vec<String> = row.replace("\\|", "\u{0}").split('|').map(|cell| cell.replace('\u{0}', "|")).collect();
    cells.into_iter()
}

/// Splits a block of lines into sentences. A sentence ends with a full stop, and the next one begins with a capital, code or a mark.
fn split(block: &[(usize, &str)], found: &mut Vec<Sentence>) {
    let begins = |word: &str| word.starts_with(|c: char| c.is_uppercase() || "`*([".contains(c));
    let ends = |word: &str| word.trim_end_matches([')', '*', '"']).ends_with(['.', '!', '?']);
    let mut words = words(block).into_iter().peekable();
    let mut sentence = Vec::new();
    let mut first = 0;
    while let Some((line, word)) = words.next() {
        if sentence.is_empty() {
            first = line;
        }
        let last = words.peek().is_none_or(|(_, next)| ends(&word) && begins(next));
        sentence.push(word);
        if last {
            found.push(Sentence { line: first, words: std::mem::take(&mut sentence) });
        }
    }
}

/// The words of a block with their lines.
fn words(block: &[(usize, &str)]) -> Vec<(usize, String)> {
    let (mut words, mut word, mut first): (Vec<(usize, String)>, String, usize) = (Vec::new(), String::new(), 0);
    // Number of backquotes that opened a code span.
    let mut open = 0;
    for (line, text) in block {
        let mut rest = *text;
        while let Some(c) = rest.chars().next() {
            if word.is_empty() {
                first = *line;
            }
            let quotes = rest.len() - rest.trim_start_matches('`').len();
            let taken = match () {
                () if quotes > 0 => {
                    open = if open == 0 {
                        quotes
                    } else if open == quotes {
                        0
                    } else {
                        open
                    };
                    word += &rest[..quotes];
                    quotes
                }
                () if open == 0 && rest.starts_with("](") => rest.find(')').map_or(rest.len(), |end| end + 1),
                () if open == 0 && c.is_whitespace() => {
                    words.extend((!word.is_empty()).then(|| (first, std::mem::take(&mut word))));
                    c.len_utf8()
                }
                () => {
                    word.push(c);
                    c.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        match open {
            0 => words.extend((!word.is_empty()).then(|| (first, std::mem::take(&mut word)))),
            _ => word.push(' '),
        }
    }
    words.extend((!word.is_empty()).then_some((first, word)));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Vec<(usize, usize)> {
        sentences(text).iter().map(|sentence| (sentence.line, sentence.words.len())).collect()
    }

    #[test]
    fn sentences_are_counted_by_paragraph_item_and_cell() {
        assert_eq!(counted("One two. Three\nfour five.\n\nSix"), [(1, 2), (1, 3), (4, 1)]);
        assert_eq!(
            counted("# A title\ntext\n- one\n  two\n- three\n1. four"),
            [(1, 2), (2, 1), (3, 2), (5, 1), (6, 1)]
        );
        assert_eq!(counted("| a b | c \\| d |\n|---|---|\n").iter().filter(|(line, _)| *line == 1).count(), 2);
        assert_eq!(
            counted("3.5 ms, e.g. 2 of 7.1 jobs (a. b)"),
            [(1, 9)],
            "only a capital, code or a mark begins a sentence"
        );
    }

    #[test]
    fn a_code_span_is_a_word_and_blocks_and_targets_are_none() {
        assert_eq!(counted("Use `takt sim --cpus 4\nFILE.yaml` or ``a ` b``."), [(1, 4)]);
        assert_eq!(counted("See [the guide](docs/a b.md#c). `x` is next."), [(1, 3), (1, 3)]);
        assert_eq!(counted("before\n```console\n$ a b c. D\n```\nafter it"), [(1, 1), (5, 2)]);
    }

    #[test]
    fn long_sentences_are_named_with_file_and_line() {
        let long = format!("Short.\n\nA{}.", " word".repeat(MOST_WORDS));
        let findings = too_long("a.md", 0, &long);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].starts_with("a.md:3: a sentence has 26 words, 25 are allowed: A word word"),
            "{findings:?}"
        );
        assert_eq!(too_long("a.md", 50, &long), [""; 0], "one of two is allowed");
        assert_eq!(too_long("a.md", 49, &long).len(), 2);
        assert_eq!(findings_of("docs/other.md", &long), [""; 0]);
        assert_eq!(findings_of("README.md", &long).len(), 1);
    }

    fn findings_of(file: &str, text: &str) -> Vec<String> {
        findings([(Path::new(file), text)].into_iter())
    }
}
