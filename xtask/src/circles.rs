//! Circles of imports between the files of a crate.
//!
//! A file imports another one where a path leads to it, in a `use` or inside the code. A path is followed to the file that defines the
//! name: a parent that only declares and re-exports its children is no file of its own here. Unit tests are left out.

use anyhow::{Context, Result};
use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, UseTree};

/// The segments of a path.
type Segments = Vec<String>;

#[derive(Default)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names that `use` brings into the module.
    uses: BTreeMap<String, Segments>,
    /// Modules of which it takes all names.
    globs: Vec<Segments>,
    /// Paths in its code.
    paths: BTreeSet<Segments>,
    /// It defines something itself.
    defines: bool,
}

/// One file's imports of another one: the two files, and the paths.
pub(crate) type Import = (PathBuf, PathBuf, BTreeSet<String>);

/// The imports that make files depend on each other, by group of files, in the order of names.
///
/// # Errors
/// When a file cannot be read or parsed.
pub(crate) fn find(source: &Path) -> Result<Vec<Vec<Import>>> {
    let mut all = Vec::new();
    for name in ["lib.rs", "main.rs"].map(|name| source.join(name)).into_iter().filter(|file| file.exists()) {
        let mut modules = Vec::new();
        read(&name, None, &mut modules)?;
        all.extend(circles(&modules));
    }
    Ok(all)
}

/// Reads a file and the files of its children. Returns its module.
fn read(file: &Path, parent: Option<usize>, modules: &mut Vec<Module>) -> Result<usize> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let parsed = syn::parse_file(&text).with_context(|| file.display().to_string())?;
    let stem = file.file_stem().unwrap_or_default();
    let dir = file.parent().unwrap_or(Path::new(""));
    let own = if stem == "lib" || stem == "main" || stem == "mod" { dir.to_path_buf() } else { dir.join(stem) };
    add(file, &own, parsed.items, parent, modules)
}

fn add(file: &Path, dir: &Path, items: Vec<Item>, parent: Option<usize>, modules: &mut Vec<Module>) -> Result<usize> {
    let index = modules.len();
    modules.push(Module { file: file.to_path_buf(), parent, ..Module::default() });
    for item in items {
        match item {
            Item::Mod(module) if is_test(&module.attrs) => {}
            Item::Mod(module) => {
                let name = module.ident.to_string();
                let child = if let Some((_, items)) = module.content {
                    modules[index].defines = true;
                    add(file, &dir.join(&name), items, Some(index), modules)?
                } else {
                    let beside = dir.join(&name).with_extension("rs");
                    let file = if beside.exists() { beside } else { dir.join(&name).join("mod.rs") };
                    read(&file, Some(index), modules)?
                };
                modules[index].children.insert(name, child);
            }
            Item::Use(item) if is_test(&item.attrs) || is_doc(&item.attrs) => {}
            Item::Use(item) => bring(&item.tree, &[], &mut modules[index]),
            Item::ExternCrate(_) => {}
            item => {
                modules[index].defines = true;
                let mut paths = BTreeSet::new();
                scan(item.to_token_stream(), &mut paths);
                modules[index].paths.extend(paths);
            }
        }
    }
    Ok(index)
}

/// Whether an item is built for tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    let is_test = |a: &Attribute| {
        let text = a.to_token_stream().to_string().replace(' ', "");
        a.path().is_ident("cfg") && text.contains("(test)") && !text.contains("not(test)")
    };
    attributes.iter().any(is_test)
}

/// An import for links in documentation.
fn is_doc(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| a.path().is_ident("cfg") && a.to_token_stream().to_string().contains("(doc)"))
}

fn bring(tree: &UseTree, before: &[String], module: &mut Module) {
    let with = |name: String| before.iter().cloned().chain([name]).collect::<Segments>();
    match tree {
        UseTree::Path(path) => bring(&path.tree, &with(path.ident.to_string()), module),
        UseTree::Name(name) if name.ident == "self" => {
            module.uses.insert(before.last().cloned().unwrap_or_default(), before.to_vec());
        }
        UseTree::Name(name) => {
            module.uses.insert(name.ident.to_string(), with(name.ident.to_string()));
        }
        // A trait that is only imported for its methods has no name of its own.
        UseTree::Rename(name) if name.rename == "_" => {
            module.paths.insert(with(name.ident.to_string()));
        }
        UseTree::Rename(name) => {
            module.uses.insert(name.rename.to_string(), with(name.ident.to_string()));
        }
        UseTree::Glob(_) => module.globs.push(before.to_vec()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| bring(tree, before, module)),
    }
}

/// Finds paths of at least two segments, in macros too.
fn scan(tokens: TokenStream, paths: &mut BTreeSet<Segments>) {
    let (mut path, mut colons) = (Vec::new(), 0);
    let mut end = |path: &mut Segments| {
        let path = std::mem::take(path);
        if path.len() > 1 {
            paths.insert(path);
        }
    };
    let mut groups = Vec::new();
    let mut visibility = false;
    for token in tokens {
        let restricts = std::mem::replace(&mut visibility, matches!(&token, TokenTree::Ident(name) if name == "pub"));
        match token {
            // `pub(in path)` names a parent, and needs nothing of it.
            TokenTree::Group(_) if restricts => end(&mut path),
            TokenTree::Ident(name) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                end(&mut path);
                groups.push(group.stream());
                colons = 0;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                end(&mut path);
                colons = 0;
            }
        }
    }
    end(&mut path);
    groups.into_iter().for_each(|group| scan(group, paths));
}

/// The module of the file that a path leads to; `None` where it leads out of the crate, or to the module's own names.
fn resolve(modules: &[Module], from: usize, path: &[String], depth: usize) -> Option<usize> {
    let (first, mut rest) = path.split_first()?;
    let here = &modules[from];
    let mut at = match first.as_str() {
        "crate" => root(modules, from),
        "self" => from,
        "super" => here.parent?,
        name => match (here.children.get(name), here.uses.get(name)) {
            (Some(child), _) => *child,
            (None, Some(other)) if depth > 0 && other.as_slice() != path => {
                let whole: Segments = other.iter().chain(rest).cloned().collect();
                return resolve(modules, from, &whole, depth - 1);
            }
            _ => return None,
        },
    };
    while let Some((name, after)) = rest.split_first() {
        let module = &modules[at];
        if name == "super" {
            at = module.parent?;
        } else if let Some(child) = module.children.get(name) {
            at = *child;
        } else if module.defines || depth == 0 {
            break;
        } else {
            let renamed = module.uses.get(name).map(|other| other.iter().chain(after).cloned().collect::<Segments>());
            let globs = module.globs.iter().map(|glob| glob.iter().chain(rest).cloned().collect::<Segments>());
            return renamed.into_iter().chain(globs).find_map(|path| resolve(modules, at, &path, depth - 1));
        }
        rest = after;
    }
    Some(at)
}

fn root(modules: &[Module], mut at: usize) -> usize {
    while let Some(parent) = modules[at].parent {
        at = parent;
    }
    at
}

fn circles(modules: &[Module]) -> Vec<Vec<Import>> {
    let mut graph: DiGraph<&Path, BTreeSet<String>> = DiGraph::new();
    let mut nodes: BTreeMap<&Path, NodeIndex> = BTreeMap::new();
    for module in modules {
        nodes.entry(&module.file).or_insert_with(|| graph.add_node(&module.file));
    }
    for (index, module) in modules.iter().enumerate().filter(|(_, module)| module.defines) {
        for path in module.uses.values().chain(&module.globs).chain(&module.paths) {
            let Some(target) = resolve(modules, index, path, 16) else { continue };
            let (from, to) = (nodes[module.file.as_path()], nodes[modules[target].file.as_path()]);
            if modules[target].defines && from != to {
                let edge = graph.find_edge(from, to).unwrap_or_else(|| graph.add_edge(from, to, BTreeSet::new()));
                graph[edge].insert(path.join("::"));
            }
        }
    }
    let groups = tarjan_scc(&graph).into_iter().filter(|group| group.len() > 1).map(|group| {
        let within = graph.edge_references().filter(|e| group.contains(&e.source()) && group.contains(&e.target()));
        let import = |e: petgraph::graph::EdgeReference<'_, BTreeSet<String>>| {
            (graph[e.source()].to_path_buf(), graph[e.target()].to_path_buf(), e.weight().clone())
        };
        let mut imports: Vec<Import> = within.map(import).collect();
        imports.sort();
        imports
    });
    let mut groups: Vec<_> = groups.collect();
    groups.sort();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate with these files, by name.
    fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let name = |file: PathBuf| file.strip_prefix(dir.path()).unwrap().display().to_string();
        let files = |group: Vec<Import>| group.into_iter().map(|(from, ..)| name(from)).collect::<BTreeSet<_>>();
        find(dir.path()).unwrap().into_iter().map(|group| files(group).into_iter().collect()).collect()
    }

    #[test]
    fn circles_are_found_by_imports_and_by_paths_in_code() {
        let found = [vec!["a.rs".to_owned(), "b.rs".to_owned()]];
        assert_eq!(
            of(&[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "use crate::b::B; fn f() {}"),
                ("b.rs", "use super::a; struct B;")
            ]),
            found
        );
        assert_eq!(
            of(&[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "fn f() { vec![crate::b::g()]; }"),
                ("b.rs", "fn g() { super::a::f() }")
            ]),
            found
        );
        assert_eq!(
            of(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B; fn f() {}"), ("b.rs", "struct B;")]),
            [[""; 0]; 0]
        );
    }

    #[test]
    fn a_parent_that_only_re_exports_is_no_file_of_its_own() {
        let child = ("p/x.rs", "use super::Y; pub struct X(Y);");
        let other = ("p/y.rs", "pub struct Y;");
        assert_eq!(
            of(&[("lib.rs", "mod p;"), ("p.rs", "mod x; mod y; pub use x::X; pub use y::Y;"), child, other]),
            [[""; 0]; 0]
        );
        let parent = ("p.rs", "mod x; mod y; use x::X; pub use y::Y; fn f(_: X) {}");
        assert_eq!(of(&[("lib.rs", "mod p;"), parent, child, other]), [["p.rs", "p/x.rs"]]);
        let through = [
            ("lib.rs", "mod p; mod q;"),
            ("q.rs", "use crate::p::X; pub fn g(_: X) {}"),
            ("p.rs", "mod x; pub use x::X;"),
        ];
        assert_eq!(
            of(&[through[0], through[1], through[2], ("p/x.rs", "pub struct X; fn h() { crate::q::g(X) }")]),
            [["p/x.rs", "q.rs"]]
        );
    }

    #[test]
    fn tests_and_other_crates_are_left_out() {
        let tests = ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }");
        assert_eq!(
            of(&[("lib.rs", "mod a; mod b;"), tests, ("b.rs", "use crate::a::A; use std::fmt; pub struct B;")]),
            [[""; 0]; 0]
        );
    }
}
