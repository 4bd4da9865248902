//! `cargo xtask tidy`: what no compiler checks. It also runs as a test.

use crate::circles;
use crate::phrases;
use crate::policy_names;
use crate::python;
use crate::sentences;
use crate::workspace::{Outcome, metadata, metadata_of, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const MAP: &str = "ARCHITECTURE.md";

/// Prints what is wrong.
pub(crate) fn run() -> Outcome {
    match findings(&root()) {
        Ok(findings) if findings.is_empty() => Outcome::Passed,
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            Outcome::Failed(format!("{} findings", findings.len()))
        }
        Err(e) => Outcome::Failed(format!("{e:#}")),
    }
}

fn findings(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut findings = Vec::new();
    let map = fs::read_to_string(root.join(MAP)).map_err(|e| anyhow::anyhow!("{MAP}: {e}"))?;
    let mut crates = crates(&metadata()?, root);
    crates.extend(self::crates(&metadata_of(python::MANIFEST)?, root));
    dependencies(&map, &crates, &mut findings);
    named_files(&map, root, &mut findings);
    for c in &crates {
        for group in circles::find(&root.join(&c.path).join("src"))? {
            let short = |file: &Path| file.strip_prefix(root).unwrap_or(file).display().to_string();
            findings.push(format!("{}: files import each other:", c.name));
            for (from, to, paths) in group {
                let paths: Vec<String> = paths.into_iter().collect();
                findings.push(format!("  {} -> {} ({})", short(&from), short(&to), paths.join(", ")));
            }
        }
    }
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    // Binary files are exempt from these rules.
    let texts = files.iter().filter_map(|file| Some((file.as_path(), fs::read_to_string(root.join(file)).ok()?)));
    let texts: Vec<(&Path, String)> = texts.collect();
    texts.iter().for_each(|(file, text)| source_file(file, text, &mut findings));
    findings.extend(policy_names::findings(texts.iter().map(|(file, text)| (*file, text.as_str())))?);
    findings.extend(sentences::findings(texts.iter().map(|(file, text)| (*file, text.as_str()))));
    findings.extend(phrases::findings(texts.iter().map(|(file, text)| (*file, text.as_str())))?);
    Ok(findings)
}

/// A crate, for the comparison with the map.
struct Crate {
    name: String,
    /// Relative to the root.
    path: String,
    description: String,
    dependencies: BTreeSet<String>,
}

fn crates(metadata: &Value, root: &Path) -> Vec<Crate> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let crates = list(&metadata["packages"]).into_iter().map(|package| {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let path = manifest.parent().and_then(|dir| dir.strip_prefix(root).ok()).unwrap_or(Path::new(""));
        // Dependencies of tests have a kind; they do not shape what a user gets.
        let dependencies = list(&package["dependencies"]).into_iter().filter(|d| d["kind"].is_null());
        Crate {
            name: text(&package["name"]),
            path: path.to_string_lossy().into_owned(),
            description: text(&package["description"]),
            // By the name in the sources.
            dependencies: dependencies
                .map(|d| text(if d["rename"].is_null() { &d["name"] } else { &d["rename"] }))
                .collect(),
        }
    });
    crates.collect()
}

/// The rows of the map: path and what may be depended on.
fn rows(map: &str) -> BTreeMap<String, Vec<String>> {
    let cells = |line: &str| line.trim().trim_matches('|').split('|').map(|c| c.trim().to_string()).collect::<Vec<_>>();
    let mut lines = map.lines().filter(|line| line.trim_start().starts_with('|'));
    let column = lines.by_ref().find_map(|line| cells(line).iter().position(|cell| cell == "may depend on"));
    let Some(column) = column else { return BTreeMap::new() };
    let row = |line: &str| {
        let cells = cells(line);
        let path = cells.first()?.strip_prefix('`')?.strip_suffix('`')?.trim_end_matches('/').to_string();
        let names = cells.get(column)?.split(',').map(|name| name.trim().trim_matches('`').to_string());
        Some((path, names.filter(|name| !name.is_empty() && name != "nothing").collect()))
    };
    lines.filter_map(row).collect()
}

fn dependencies(map: &str, crates: &[Crate], findings: &mut Vec<String>) {
    let rows = rows(map);
    let folder = |c: &'_ Crate| c.path.rsplit('/').next().unwrap_or_default().to_owned();
    let own: BTreeSet<String> = crates.iter().flat_map(|c| [c.name.clone(), folder(c)]).collect();
    for c in crates {
        if c.description.split(' ').count() < 3 {
            findings.push(format!("{}: its Cargo.toml has no `description` that says what it is", c.name));
        }
        let Some(allowed) = rows.get(&c.path) else {
            findings.push(format!("{MAP}: there is no row for `{}`", c.path));
            continue;
        };
        let is_allowed = |dependency: &String| {
            let short = dependency.strip_prefix("takt-").unwrap_or(dependency);
            let all = if own.contains(dependency.as_str()) { "all" } else { "any library" };
            allowed.iter().any(|name| name == dependency || name == short || name == all)
        };
        for dependency in c.dependencies.iter().filter(|d| !is_allowed(d)) {
            findings.push(format!("{}: depends on {dependency}, which its row in {MAP} does not allow", c.name));
        }
        let used = |name: &String| {
            matches!(name.as_str(), "all" | "any library")
                || c.dependencies.iter().any(|d| d == name || d.strip_prefix("takt-") == Some(name))
        };
        for name in allowed.iter().filter(|name| !used(name)) {
            findings.push(format!("{MAP}: the row of `{}` allows {name}, which it does not use", c.path));
        }
    }
}

/// A path in the map must exist: from the root, or from the room whose row names it.
fn named_files(map: &str, root: &Path, findings: &mut Vec<String>) {
    for line in map.lines() {
        let spans = || line.split('`').skip(1).step_by(2);
        let room = spans().next().filter(|_| line.starts_with('|')).unwrap_or_default();
        for span in spans() {
            let known = [".rs", ".md", ".toml", ".yaml", ".sh"].iter().any(|ending| span.ends_with(ending));
            if span.starts_with('/') || span.contains(' ') || !(known || span.contains('/') || span == room) {
                continue;
            }
            // `policies/*.rs` says that there is a folder with such files.
            let path = span.split('*').next().unwrap_or_default();
            let places = [root.to_path_buf(), root.join(room), root.join(room).join("src")];
            if !path.is_empty() && !places.iter().any(|place| place.join(path).exists()) {
                findings.push(format!("{MAP}: `{span}` does not exist"));
            }
        }
    }
}

/// All files of the repository but those that are built.
fn walk(root: &Path, dir: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
        if hidden || name == "target" || name == "Cargo.lock" || entry.file_type()?.is_symlink() {
            continue;
        }
        let path = entry.path();
        if path.is_dir() {
            walk(root, &path, files)?;
        } else if let Ok(path) = path.strip_prefix(root) {
            files.push(path.to_path_buf());
        }
    }
    files.sort();
    Ok(())
}

/// Marks of unfinished work, and what only exists on one machine. Put together here, so that this file keeps the rules.
fn forbidden_everywhere() -> [(String, &'static str); 9] {
    let word = |a: &str, b: &str| format!("{a}{b}");
    let unfinished = "unfinished work";
    let elsewhere = "a place on one machine";
    [
        (word("TO", "DO"), unfinished),
        (word("FIX", "ME"), unfinished),
        (word("to", "do!"), unfinished),
        (word("unimple", "mented!"), unfinished),
        (word("#[ig", "nore"), "a test that does not run"),
        (word("/wo", "rk/"), elsewhere),
        (word("/ho", "me/"), elsewhere),
        (word("/ro", "ot/"), elsewhere),
        (word("../sha", "red"), elsewhere),
    ]
}

/// Names that the core must not use.
const NOT_IN_CORE: [(&str, &str); 6] = [
    ("std", "the core is no_std"),
    ("unsafe", "the core has no unsafe code"),
    ("f32", "integers are exact"),
    ("f64", "integers are exact"),
    ("Instant", "time is handed in"),
    ("SystemTime", "time is handed in"),
];
const PRINTING: [&str; 5] = ["println", "print", "eprintln", "eprint", "dbg"];

fn source_file(file: &Path, text: &str, findings: &mut Vec<String>) {
    let name = file.display();
    for (number, line) in text.lines().enumerate() {
        for (pattern, what) in forbidden_everywhere().iter().filter(|(pattern, _)| line.contains(pattern.as_str())) {
            findings.push(format!("{name}:{}: `{pattern}`: {what}", number + 1));
        }
    }
    let mut parts = file.iter().map(|part| part.to_string_lossy());
    let (top, room, folder) = (parts.next(), parts.next(), parts.next());
    let library = file.extension().is_some_and(|e| e == "rs") && top.as_deref() == Some("crates");
    if !library || folder.as_deref() != Some("src") {
        return;
    }
    let code = code(text);
    let room = room.as_deref().unwrap_or_default();
    for (number, line) in code.lines().enumerate() {
        let number = number + 1;
        for (word, why) in NOT_IN_CORE {
            if room == "takt-core" && has_word(line, word) {
                findings.push(format!("{name}:{number}: `{word}`: {why}"));
            }
        }
        if file.starts_with("crates/takt-core/src/policies") && line.contains("cx.state") {
            findings.push(format!(
                "{name}:{number}: `cx.state`: a policy reads the state through the methods of `Context`"
            ));
        }
        let prints = |word: &&str| has_word(line, word) && line.contains(&format!("{word}!"));
        if let Some(word) = PRINTING.iter().find(|word| room != "takt-cli" && prints(word)) {
            findings.push(format!("{name}:{number}: `{word}!`: only the command line prints"));
        }
    }
    if room == "takt-core" && file.ends_with("src/lib.rs") {
        for attribute in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            if !code.contains(attribute) {
                findings.push(format!("{name}: `{attribute}` is missing"));
            }
        }
    }
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let after = &line[at + word.len()..];
        !line[..at].ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// A source without comments, texts and its module of tests, in the same lines. Nothing is left of a file that is such a module.
fn code(text: &str) -> String {
    let plain = without_comments_and_texts(text);
    if plain.lines().any(|line| line == "#![cfg(test)]") {
        return String::new();
    }
    let Some(start) = plain.find("#[cfg(test)]\nmod tests {") else { return plain };
    let mut depth = 0;
    let end = plain[start..].char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => return None,
        }
        (depth == 0).then_some(start + at + 1)
    });
    let end = end.unwrap_or(plain.len());
    let blank: String = plain[start..end].chars().filter(|c| *c == '\n').collect();
    [&plain[..start], &blank, &plain[end..]].concat()
}

/// Blanks what is no code, and keeps every line's number.
fn without_comments_and_texts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_text(rest).filter(|_| !out.ends_with(|c: char| c.is_alphanumeric())) {
            length
        } else if c == '"' {
            quoted(rest, '"').unwrap_or(rest.len())
        } else if let Some(length) = character(rest) {
            length
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(rest[..length].chars().filter(|c| *c == '\n'));
        rest = &rest[length..];
    }
    out
}

/// The length of a text up to its closing quote.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().skip(1).find_map(|(at, c)| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at + 1)
    })
}

/// The length of `r"…"` or `r#"…"#`.
fn raw_text(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r')?;
    let marks = after.len() - after.trim_start_matches('#').len();
    let body = after[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    Some(body.find(&end).map_or(text.len(), |at| 1 + marks + 1 + at + end.len()))
}

/// The length of a character in quotes; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.strip_prefix('\'')?.chars();
    match (chars.next()?, chars.next()?) {
        ('\\', _) => quoted(text, '\''),
        (c, '\'') => Some(2 + c.len_utf8()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings = findings(&root()).unwrap();
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }

    const TABLE: &str = "\
| path | lives there | may depend on | absent |
|---|---|---|---|
| `crates/a` | `x/*.rs` | nothing | |
| `crates/b` | | a, `serde` | |
| `crates/c` | | all, any library | |
";

    fn one(name: &str, dependencies: &[&str]) -> Crate {
        Crate {
            name: format!("takt-{name}"),
            path: format!("crates/{name}"),
            description: "What it is".into(),
            dependencies: dependencies.iter().map(ToString::to_string).collect(),
        }
    }

    fn compared(crates: &[Crate]) -> Vec<String> {
        let mut findings = Vec::new();
        dependencies(TABLE, crates, &mut findings);
        findings
    }

    #[test]
    fn dependencies_have_to_be_in_the_map() {
        let good = || vec![one("a", &[]), one("b", &["takt-a", "serde"]), one("c", &["takt-a", "takt-b", "libc"])];
        assert_eq!(compared(&good()), [""; 0]);
        let mut more = good();
        more[0].dependencies.insert("libc".into());
        assert_eq!(compared(&more), ["takt-a: depends on libc, which its row in ARCHITECTURE.md does not allow"]);
        let mut less = good();
        less[1].dependencies.remove("serde");
        assert_eq!(compared(&less), ["ARCHITECTURE.md: the row of `crates/b` allows serde, which it does not use"]);
        let mut unknown = good();
        unknown.push(one("d", &[]));
        assert_eq!(compared(&unknown), ["ARCHITECTURE.md: there is no row for `crates/d`"]);
        let mut silent = good();
        silent[0].description = String::new();
        assert_eq!(compared(&silent).len(), 1);
    }

    fn faults(file: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        source_file(Path::new(file), text, &mut findings);
        findings
    }

    #[test]
    fn the_core_is_pure_and_only_the_command_line_prints() {
        let core = "crates/takt-core/src/time.rs";
        assert_eq!(faults(core, "use std::time::Instant;").len(), 2);
        assert_eq!(faults(core, "let a = 1.0f64 as f64; unsafe {}").len(), 2);
        assert_eq!(
            faults(core, "// std f64\nlet a = \"std \\\" f64\"; let c = '\"'; r#\"f32 \"\" \"#; core::unsafely()"),
            [""; 0]
        );
        assert_eq!(faults(core, "#![cfg(test)]\nuse std::vec;").len(), 0,);
        assert_eq!(
            faults(core, "#[cfg(test)]\nmod tests {\n use std::vec; {}\n}\nuse std::a;").len(),
            1,
            "after the tests"
        );
        assert_eq!(faults("crates/takt-core/src/policies/edf.rs", "cx.state.now").len(), 1);
        assert_eq!(faults("crates/takt-sim/src/lib.rs", "fn f<'a>() { println!(\"\") }").len(), 1);
        assert_eq!(faults("crates/takt-sim/tests/x.rs", "fn f() { println!(\"\") }"), [""; 0]);
        assert_eq!(faults("crates/takt-cli/src/main.rs", "fn f() { println!(\"\") }"), [""; 0]);
        assert_eq!(faults("crates/takt-core/src/lib.rs", "#![no_std]").len(), 1, "unsafe is not forbidden");
    }

    #[test]
    fn unfinished_work_and_foreign_places_are_found_in_any_text() {
        for (pattern, _) in forbidden_everywhere() {
            assert!(!faults("docs/a.md", &format!("see {pattern}x")).is_empty(), "{pattern}");
        }
    }

    #[test]
    fn named_files_have_to_exist() {
        let mut findings = Vec::new();
        let map = "`xtask/vm/init.sh` `/proc/self` `cargo xtask ci` `v1` `no/such.rs`\n| `xtask` | `tidy.rs` `vm/*.rs` `a.md` |";
        named_files(map, &root(), &mut findings);
        assert_eq!(
            findings,
            ["ARCHITECTURE.md: `no/such.rs` does not exist", "ARCHITECTURE.md: `a.md` does not exist"]
        );
    }
}
