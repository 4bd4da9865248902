//! Phrases that the project's language avoids, and how often they are still there. Counts may only fall (`xtask/phrases.txt`).
//!
//! Each has a word of the field in its place: *release* and not "comes into being", *inconclusive* and not "proves nothing". Phrases are counted
//! in sources and documents, whatever their case; names of code (in backquotes in the list) only where they are whole identifiers.

use crate::workspace::root;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The list: a phrase, a tab, and how often it may be there.
const LIST: &str = "xtask/phrases.txt";

/// The findings: phrases that are there more often than allowed, or less often, so that the list is out of date. `UPDATE=1` lowers the list.
pub(crate) fn findings<'t>(texts: impl Iterator<Item = (&'t Path, &'t str)>) -> Result<Vec<String>> {
    let path = root().join(LIST);
    let list = fs::read_to_string(&path).with_context(|| LIST.to_owned())?;
    let allowed = parse(&list)?;
    let mut counts: BTreeMap<&str, usize> = allowed.iter().map(|(phrase, _)| (*phrase, 0)).collect();
    texts.filter(|(file, _)| is_counted(file)).for_each(|(_, text)| count(text, &mut counts));
    let (mut found, mut updated) = (Vec::new(), String::new());
    for (phrase, most) in &allowed {
        let now = counts[phrase];
        if now > *most {
            found.push(format!("{LIST}: {phrase} is there {now} times, {most} are allowed: use the word of the field"));
        } else if now < *most {
            found.push(format!(
                "{LIST}: {phrase} is there {now} times, and not {most}: UPDATE=1 cargo xtask tidy lowers it"
            ));
        }
        updated += &format!("{phrase}\t{}\n", now.min(*most));
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, updated)?;
        found.retain(|finding| finding.contains("are allowed"));
    }
    Ok(found)
}

/// Sources and documents, but for history and the list's own tests.
fn is_counted(file: &Path) -> bool {
    let extension = file.extension().and_then(|e| e.to_str());
    matches!(extension, Some("rs" | "md")) && file != Path::new("CHANGELOG.md") && !file.ends_with("phrases.rs")
}

fn parse(list: &str) -> Result<Vec<(&str, usize)>> {
    let entry = |line: &'_ str| -> Result<(usize, usize)> {
        let tab = line.find('\t').with_context(|| format!("{LIST}: `{line}` has no tab"))?;
        Ok((tab, line[tab + 1..].parse().with_context(|| format!("{LIST}: `{line}` has no number"))?))
    };
    list.lines().map(|line| entry(line).map(|(tab, most)| (&line[..tab], most))).collect()
}

fn count(text: &str, counts: &mut BTreeMap<&str, usize>) {
    let lower = text.to_lowercase();
    // Phrases may go on in the next line, behind the mark of a comment.
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty()).collect();
    let running = format!(" {} ", words.join(" "));
    let mut identifiers: BTreeMap<&str, usize> = BTreeMap::new();
    for name in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
        *identifiers.entry(name).or_default() += 1;
    }
    for (phrase, count) in counts {
        *count += match phrase.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
            Some(name) => identifiers.get(name).copied().unwrap_or(0),
            None => running.matches(&format!(" {phrase} ")).count(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_counted_over_lines_and_names_as_whole_words() {
        let mut counts: BTreeMap<&str, usize> = [("what is left", 0), ("`owed`", 0), ("anew", 0)].into();
        count("/// What is\n/// left, anew. `owed` and disowed, renewed\nlet owed = 1;", &mut counts);
        assert_eq!(counts, [("what is left", 1), ("`owed`", 2), ("anew", 1)].into());
    }

    #[test]
    fn a_list_is_phrases_and_numbers() {
        assert_eq!(parse("a b\t3\n`c`\t0\n").unwrap(), [("a b", 3), ("`c`", 0)]);
        assert!(parse("a b 3").is_err() && parse("a\tb").is_err());
    }
}
