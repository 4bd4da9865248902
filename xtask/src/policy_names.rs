//! Comparisons with the names of policies. A policy that is known by name somewhere else than in its own file gets nothing there when
//! another one is like it: it states facts instead (`crates/takt-core/src/model/facts.rs`).
//!
//! The names are those of the profiles in the sources. A text that equals one, with or without the prefix of a scope, is refused
//! beside `==`, in a pattern, in a list of such names, and as the argument of a look-up; so is `ENTRY.profile.name`. Tests may compare.

use crate::circles::is_test;
use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::Item;

/// Comparisons that are about something else, or must be: file, text, reason.
const ALLOWED: [(&str, &str, &str); 4] = [
    ("crates/takt-cli/src/commands/bench/view.rs", "g-edf", "the policy of a measurement"),
    ("crates/takt-trace/src/why.rs", "edf", "a part of the name in a header, which has no facts"),
    ("crates/takt/src/analysis.rs", "edf", "the schedulability test of that name"),
    ("crates/takt-workload/src/steps.rs", "none", "a word of the steps, and not the power policy"),
];

/// Where names are compared by nature: other tools' names beside ours, and the orders of policies stated a second time.
const ROOMS: [&str; 2] = ["import", "takt-conformance"];

/// Functions and methods that are given a name to look it up or to compare it.
const LOOK_UPS: [&str; 9] =
    ["from_name", "spec", "entry", "eq", "ne", "contains", "starts_with", "ends_with", "strip_prefix"];
/// Macros that compare all of their texts.
const COMPARING: [&str; 5] = ["matches", "assert_eq", "assert_ne", "debug_assert_eq", "debug_assert_ne"];

/// The same comparison without a text.
const OF_ENTRY: &str = "ENTRY.profile.name";

/// A source file without its tests.
struct Source {
    file: PathBuf,
    code: TokenStream,
}

/// Says what is wrong in these files, which are given with their texts.
///
/// # Errors
/// When a file cannot be parsed.
pub(crate) fn findings<'a>(files: impl Iterator<Item = (&'a Path, &'a str)>) -> Result<Vec<String>> {
    findings_but(files, &ALLOWED)
}

fn findings_but<'a>(
    files: impl Iterator<Item = (&'a Path, &'a str)>,
    allowed: &[(&str, &str, &str)],
) -> Result<Vec<String>> {
    let mut sources = Vec::new();
    for (file, text) in files.filter(|(file, _)| is_source(file)) {
        let parsed = syn::parse_file(text).with_context(|| file.display().to_string())?;
        let items = if is_test(&parsed.attrs) { Vec::new() } else { parsed.items };
        sources.push(Source { file: file.to_path_buf(), code: without_tests(items) });
    }
    let mut homes: BTreeMap<String, BTreeSet<&Path>> = BTreeMap::new();
    for Source { file, code } in &sources {
        let mut names = BTreeSet::new();
        profiles(code.clone(), &mut names);
        names.into_iter().for_each(|name| _ = homes.entry(name).or_default().insert(file));
    }
    let (mut findings, mut used) = (Vec::new(), BTreeSet::new());
    for Source { file, code } in &sources {
        if file.iter().any(|part| ROOMS.iter().any(|room| part == *room)) {
            continue;
        }
        let mut found = BTreeSet::new();
        Scan { names: &|text| home_of(&homes, text).is_some(), found: &mut found }.tokens(code.clone(), false);
        for (line, text) in found {
            let own = home_of(&homes, &text).is_some_and(|homes| homes.contains(file.as_path()));
            match allowed.iter().find(|(at, what, _)| file == Path::new(at) && *what == text) {
                _ if own => {}
                Some(entry) => _ = used.insert(*entry),
                None => findings.push(format!(
                    "{}:{line}: `{text}`: a policy is asked for its facts and not known by its name",
                    file.display()
                )),
            }
        }
    }
    let stale = allowed.iter().filter(|entry| !used.contains(*entry));
    findings.extend(stale.map(|(file, text, _)| format!("{file}: `{text}` is allowed and not compared")));
    Ok(findings)
}

/// Sources of crates but those of tests.
fn is_source(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let has = |name: &str| parts.iter().any(|part| part == name);
    file.extension().is_some_and(|e| e == "rs") && has("src") && !has("tests") && !has("benches")
}

fn without_tests(items: Vec<Item>) -> TokenStream {
    let mut code = TokenStream::new();
    for item in items {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Mod(module) => code.extend(without_tests(module.content.map_or_else(Vec::new, |(_, items)| items))),
            Item::Fn(function) if is_test(&function.attrs) => {}
            item => item.to_tokens(&mut code),
        }
    }
    code
}

/// The files whose policy has this name, with the prefix of a scope or without.
fn home_of<'a, 'b>(homes: &'a BTreeMap<String, BTreeSet<&'b Path>>, text: &str) -> Option<&'a BTreeSet<&'b Path>> {
    let plain = ["g-", "p-", "c-"].iter().find_map(|prefix| homes.get(text.strip_prefix(prefix)?));
    homes.get(text).or(plain)
}

/// The text of a literal.
fn text(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|text| text.value())
}

fn is_word(token: Option<&TokenTree>, words: &[&str]) -> bool {
    matches!(token, Some(TokenTree::Ident(name)) if words.iter().any(|word| name == word))
}

fn is_mark(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

/// The names in `Profile { name: "…" }`.
fn profiles(code: TokenStream, names: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = code.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        if at > 0 && is_word(tokens.get(at - 1), &["Profile"]) {
            let fields: Vec<TokenTree> = group.stream().into_iter().collect();
            let value = fields.windows(3).find(|f| is_word(f.first(), &["name"]) && is_mark(f.get(1), ':'));
            names.extend(value.and_then(|f| text(&f[2])));
        }
        profiles(group.stream(), names);
    }
}

struct Scan<'a> {
    names: &'a dyn Fn(&str) -> bool,
    /// Lines and texts.
    found: &'a mut BTreeSet<(usize, String)>,
}

impl Scan<'_> {
    /// `compared` is whether all texts of a group are compared by what is around it.
    fn tokens(&mut self, code: TokenStream, compared: bool) {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            let beside = compared || is_compared(&tokens, at);
            match token {
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    // The braces of a pattern have fields, and those of a body are after its arrow.
                    self.tokens(group.stream(), is_pattern_end(&tokens, at + 1));
                }
                TokenTree::Group(group) => {
                    self.tokens(group.stream(), beside || self.is_list_of_names(group, &tokens, at))
                }
                token => {
                    let name = text(token).filter(|text| beside && (self.names)(text));
                    let name = name.or(is_name_of_entry(&tokens[at..]).then(|| OF_ENTRY.to_owned()));
                    self.found.extend(name.map(|name| (token.span().start().line, name)));
                }
            }
        }
    }

    /// `["a", "b"]`, or `["a"].contains(…)`, with names of policies only.
    fn is_list_of_names(&self, group: &Group, tokens: &[TokenTree], at: usize) -> bool {
        let values = group.stream().into_iter().filter(|token| !is_mark(Some(token), ','));
        let texts: Vec<Option<String>> = values.map(|token| text(&token)).collect();
        let names = texts.iter().all(|value| value.as_deref().is_some_and(self.names));
        let asked = is_mark(tokens.get(at + 1), '.');
        group.delimiter() == Delimiter::Bracket && names && (texts.len() > 1 || asked && texts.len() == 1)
    }
}

fn is_name_of_entry(tokens: &[TokenTree]) -> bool {
    let [entry, _, profile, _, name, ..] = tokens else { return false };
    is_word(Some(entry), &["ENTRY"]) && is_word(Some(profile), &["profile"]) && is_word(Some(name), &["name"])
}

/// Whether `=>`, `|` or a guard follows, as after a pattern, or a single `=` after `let`.
fn is_pattern_end(tokens: &[TokenTree], next: usize) -> bool {
    let arrow = is_mark(tokens.get(next), '=') && is_mark(tokens.get(next + 1), '>');
    let choice = is_mark(tokens.get(next), '|') && !is_mark(tokens.get(next + 1), '|');
    arrow || choice || is_word(tokens.get(next), &["if"])
}

/// Whether the token is an operand of `==` or `!=`, a pattern, or the argument of a look-up.
fn is_compared(tokens: &[TokenTree], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|at| tokens.get(at));
    let equals = |first: Option<&TokenTree>, second: Option<&TokenTree>| {
        (is_mark(first, '=') || is_mark(first, '!')) && is_mark(second, '=')
    };
    let reference = usize::from(is_mark(before(1), '&'));
    let operand =
        equals(before(2 + reference), before(1 + reference)) || equals(tokens.get(at + 1), tokens.get(at + 2));
    let is_let = (1..4).any(|n| is_word(before(n), &["let"])) && is_mark(tokens.get(at + 1), '=');
    let after_choice = is_mark(before(1), '|') && !is_mark(before(2), '|');
    let is_argument = matches!(&tokens[at], TokenTree::Group(_))
        && (is_word(before(1), &LOOK_UPS) || is_mark(before(1), '!') && is_word(before(2), &COMPARING));
    operand || is_let || after_choice || is_pattern_end(tokens, at + 1) || is_argument
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: (&str, &str) = (
        "crates/takt-core/src/policies/edf.rs",
        r#"pub static ENTRY: Entry = Entry { profile: Profile { name: "edf", summary: "fp" } }; fn f() { name == "edf" }"#,
    );
    const OTHER: (&str, &str) =
        ("examples/own/src/main.rs", r#"static ENTRY: Entry = Entry { profile: Profile { name: "own" } };"#);

    /// The texts that are refused in a file with this code, beside two files with policies.
    fn refused(file: &str, code: &str, allowed: &[(&str, &str, &str)]) -> Vec<String> {
        let files = [POLICY, OTHER, (file, code)];
        findings_but(files.iter().map(|(file, text)| (Path::new(*file), *text)), allowed).unwrap()
    }

    fn count(code: &str) -> usize {
        refused("crates/takt-cli/src/a.rs", &format!("fn f() {{ {code} }}"), &[]).len()
    }

    #[test]
    fn comparisons_are_found() {
        for code in [
            r#"if policy.profile.name == "edf" { g() }"#,
            r#"if "p-edf" != name { g() }"#,
            r#"name == &"own""#,
            r#"(name, scope) == ("edf", Scope::Global)"#,
            r#"match name { "edf" => 1, _ => 2 }"#,
            r#"match name { _ if x => 1, "no" | "g-edf" => 1, _ => 2 }"#,
            r#"match (name, 1) { ("edf", 1) => 1, _ => 2 }"#,
            r#"match x { A { name: "edf", .. } => 1, _ => 2 }"#,
            r#"match x { "edf" if late => 1, _ => 2 }"#,
            r#"if let Some("edf") = name { g() }"#,
            r#"if let "edf" = name { g() }"#,
            r#"let it = matches!(name, "edf");"#,
            r#"assert!(name == "edf");"#,
            r#"println!("{}", if name == "edf" { 1 } else { 2 });"#,
            r#"PolicySpec::from_name("edf")"#,
            r#"registry.spec("g-edf")"#,
            r#"["edf"].contains(&name)"#,
            r#"const KNOWN: [&str; 2] = ["edf", "p-own"]; KNOWN.contains(&name)"#,
            r#"name.starts_with("edf")"#,
            r"policy.profile.name != ipi::ENTRY.profile.name",
        ] {
            assert!(count(code) > 0, "{code}");
        }
    }

    #[test]
    fn other_texts_are_left_alone() {
        for code in [
            r#"let name = "edf"; g("edf", |x| x)"#,
            r#"name == "fp""#,
            r#"match name { "gfb" => "edf", _ => "own" }"#,
            r#"let keys = ["edf", "windows"];"#,
            r#"json!({"edf": 1, "name": "edf"})"#,
            r#"if a == b { "edf" } else { "own" }"#,
            r#"let x = if a || "edf".is_empty() { 1 } else { 2 };"#,
        ] {
            assert_eq!(count(code), 0, "{code}");
        }
    }

    #[test]
    fn tests_and_importers_may_compare() {
        let code = r#"fn f() { name == "edf" }"#;
        assert_eq!(refused("crates/takt-cli/src/a.rs", code, &[]).len(), 1);
        assert_eq!(refused("crates/takt-cli/tests/a.rs", code, &[]), [""; 0]);
        assert_eq!(refused("crates/takt-workload/src/import/a.rs", code, &[]), [""; 0]);
        let tests = format!("#[cfg(test)] mod tests {{ {code} }} mod others {{ #[cfg(test)] mod tests {{ {code} }} }}");
        assert_eq!(refused("crates/takt-cli/src/a.rs", &tests, &[]), [""; 0]);
        assert_eq!(refused("crates/takt-cli/src/a.rs", &format!("#![cfg(test)] {code}"), &[]), [""; 0]);
        assert_eq!(refused("crates/takt-cli/src/a.rs", &format!("mod others {{ {code} }}"), &[]).len(), 1);
    }

    #[test]
    fn exceptions_must_be_needed() {
        let allowed = [("crates/takt-cli/src/a.rs", "edf", "a test of that name")];
        assert_eq!(refused("crates/takt-cli/src/a.rs", r#"fn f() { name == "edf" }"#, &allowed), [""; 0]);
        assert_eq!(refused("crates/takt-cli/src/a.rs", r#"fn f() { name == "own" }"#, &allowed).len(), 2);
    }
}
