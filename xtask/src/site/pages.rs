//! The pages of the site, their links and their order.

use super::gallery::{self, Workload};
use crate::workspace::root;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use takt_testing::links::{anchor, prose, targets};

/// The page whose lists have all others.
const INDEX: &str = "docs/README.md";

/// The page of files that are no pages, by their folders.
const FILES: &str = "files.md";

/// Endings of files that a browser shows as they are; others are copied as text.
const SHOWN: [&str; 3] = ["svg", "png", "txt"];

/// Where a page is in the sources of the site. mdBook names the page of a folder `index`.
pub(crate) fn page_name(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// Pages by their paths in the repository, and the files that they link to.
pub(crate) struct Site {
    files: BTreeSet<String>,
    pages: BTreeMap<String, String>,
    /// Pages of workloads.
    gallery: BTreeMap<String, String>,
    pictures: BTreeSet<String>,
    copies: BTreeMap<String, String>,
    /// Linked folders that have no page.
    folders: BTreeSet<String>,
    /// Headings of the index with the pages that each of them names.
    sections: Vec<(String, Vec<String>)>,
}

impl Site {
    /// The documents of the repository, without its workloads.
    pub(crate) fn new(files: BTreeSet<String>, workloads: &[Workload]) -> Result<Site> {
        let is_page = |path: &&String| path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'));
        let page = |path: &String| Ok((path.clone(), fs::read_to_string(root().join(path))?));
        let pages = files.iter().filter(is_page).map(page).collect::<Result<BTreeMap<_, _>>>()?;
        let sections = sections(pages.get(INDEX).with_context(|| format!("{INDEX} is missing"))?, &pages);
        Ok(Site {
            gallery: workloads.iter().map(|workload| (workload.path().to_owned(), workload.page())).collect(),
            pictures: workloads.iter().map(Workload::picture).collect(),
            copies: BTreeMap::new(),
            folders: BTreeSet::new(),
            files,
            pages,
            sections,
        })
    }

    pub(crate) fn add(&mut self, path: String, text: String) {
        self.pages.insert(path, text);
    }

    pub(crate) fn files(&self) -> &BTreeSet<String> {
        &self.files
    }

    pub(crate) fn pages(&self) -> &BTreeMap<String, String> {
        &self.pages
    }

    /// Files of the repository, with their paths in the sources.
    pub(crate) fn copies(&self) -> &BTreeMap<String, String> {
        &self.copies
    }

    /// Makes each link lead to a page or a copy of the site.
    ///
    /// # Errors
    /// A link that leads to nothing of the repository.
    pub(crate) fn link(&mut self) -> Result<()> {
        for path in self.pages.keys().cloned().collect::<Vec<_>>() {
            let text = self.linked(&path)?;
            self.pages.insert(path, text);
        }
        if self.folders.is_empty() {
            return Ok(());
        }
        // The linked folders are known now.
        let mut text = "# Files\n\nFolders of the repository that pages name.\n".to_owned();
        for folder in self.folders.clone() {
            write!(text, "\n## {folder}\n\n")?;
            let prefix = format!("{folder}/");
            for file in self.files.iter().filter(|file| file.starts_with(&prefix)) {
                writeln!(text, "- [{}]({file})", &file[prefix.len()..])?;
            }
        }
        self.pages.insert(FILES.into(), text);
        let text = self.linked(FILES)?;
        self.pages.insert(FILES.into(), text);
        Ok(())
    }

    /// The text of a page with links of the site.
    fn linked(&mut self, page: &str) -> Result<String> {
        let text = self.pages[page].clone();
        let mut outside = prose(&text).into_iter().peekable();
        let mut lines = Vec::new();
        for line in text.lines() {
            // Lines of a block are not in the prose.
            let is_prose = outside.next_if(|next| std::ptr::eq(next.as_ptr(), line.as_ptr())).is_some();
            let mut parts = line.split("](");
            let mut linked = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                if is_prose {
                    let (target, after) = part.split_once(')').with_context(|| format!("{page}: `{part}`"))?;
                    write!(linked, "]({}){after}", self.target(page, target)?)?;
                } else {
                    write!(linked, "]({part}")?;
                }
            }
            lines.push(linked);
        }
        Ok(lines.join("\n") + "\n")
    }

    /// Where a link of a page leads in the site.
    fn target(&mut self, page: &str, target: &str) -> Result<String> {
        if target.contains("://") || target.starts_with('#') {
            return Ok(target.to_owned());
        }
        let (file, fragment) = target.split_once('#').map_or((target, String::new()), |(f, at)| (f, format!("#{at}")));
        let path = resolved(page, file);
        let is_folder = self.files.iter().any(|file| file.starts_with(&format!("{path}/")));
        let (to, fragment) = if self.pages.contains_key(&path) {
            (page_name(&path), fragment)
        } else if let Some(page) = self.gallery.get(&path) {
            (page.clone(), String::new())
        } else if self.pictures.contains(&path) {
            (path, String::new())
        } else if self.files.contains(&path) {
            let shown = path.rsplit_once('.').is_some_and(|(_, ending)| SHOWN.contains(&ending));
            let copy = if shown { path.clone() } else { format!("{path}.txt") };
            self.copies.insert(path, copy.clone());
            (copy, String::new())
        } else if is_folder && path.starts_with(gallery::FOLDER) {
            (page_name(gallery::INDEX), String::new())
        } else if is_folder {
            let fragment = format!("#{}", anchor(&path));
            self.folders.insert(path);
            (FILES.to_owned(), fragment)
        } else {
            bail!("{page}: `{target}` leads to no file of the repository");
        };
        Ok(relative(page, &to) + &fragment)
    }

    /// The pages in the order of the index, for mdBook.
    ///
    /// # Errors
    /// When a page has no heading.
    pub(crate) fn summary(&self, workloads: &[Workload]) -> Result<String> {
        let mut text = "# Summary\n\n".to_owned();
        let line = |path: &str| -> Result<String> {
            let text = self.pages.get(path).with_context(|| format!("{path} is no page"))?;
            let title = prose(text).into_iter().find_map(|line| line.strip_prefix("# "));
            Ok(format!("[{}]({})", title.with_context(|| format!("{path} has no heading"))?, page_name(path)))
        };
        for (heading, pages) in &self.sections {
            if heading.is_empty() {
                // These are above all parts.
                for page in pages {
                    writeln!(text, "{}", line(page)?)?;
                }
                write!(text, "\n# Examples\n\n- {}\n", line(gallery::INDEX)?)?;
                for workload in workloads {
                    writeln!(text, "  - {}", line(&workload.page())?)?;
                }
                continue;
            }
            write!(text, "\n# {heading}\n\n")?;
            for page in pages {
                writeln!(text, "- {}", line(page)?)?;
                let own = page.strip_suffix("README.md").filter(|folder| !folder.is_empty());
                let others = self.pages.keys().filter(|other| own.is_some_and(|folder| other.starts_with(folder)));
                for other in others.filter(|other| *other != page) {
                    writeln!(text, "  - {}", line(other)?)?;
                }
            }
        }
        if self.pages.contains_key(FILES) {
            write!(text, "\n---\n\n{}\n", line(FILES)?)?;
        }
        Ok(text)
    }
}

/// The headings of the index, each with the pages that it is the first to name. The first one is empty, and has the index itself.
fn sections(text: &str, pages: &BTreeMap<String, String>) -> Vec<(String, Vec<String>)> {
    let mut sections = vec![(String::new(), Vec::new())];
    let mut seen = BTreeSet::new();
    for line in prose(text) {
        if let Some(heading) = line.strip_prefix("## ") {
            sections.push((heading.to_owned(), Vec::new()));
        }
        for target in targets(line) {
            let path = resolved(INDEX, target.split('#').next().unwrap_or_default());
            let Some((_, named)) = sections.last_mut() else { continue };
            if pages.contains_key(&path) && seen.insert(path.clone()) {
                named.push(path);
                // The index follows the first page, which is that of the whole site.
                if seen.len() == 1 {
                    named.push(INDEX.to_owned());
                }
            }
        }
    }
    sections.retain(|(_, pages)| !pages.is_empty());
    sections
}

/// The path in the repository of a link on a page.
fn resolved(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The link on a page to a path of the site.
fn relative(page: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (page.split('/').collect(), to.split('/').collect());
    let folders = from.len().min(to.len()) - 1;
    let same = (0..folders).take_while(|&at| from[at] == to[at]).count();
    "../".repeat(from.len() - 1 - same) + &to[same..].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_and_made_relative_again() {
        for (page, link, path) in [
            ("docs/a.md", "../workloads/x.yaml", "workloads/x.yaml"),
            ("docs/how-to/a.md", "../b.md", "docs/b.md"),
            ("README.md", "docs/images/a.svg", "docs/images/a.svg"),
            ("docs/a.md", "b.md", "docs/b.md"),
        ] {
            assert_eq!(resolved(page, link), path);
            assert_eq!(relative(page, path), link);
        }
        assert_eq!(resolved("docs/a.md", "../workloads/"), "workloads");
    }

    fn site(pages: &[(&str, &str)], files: &[&str]) -> Site {
        let files = files.iter().chain(pages.iter().map(|(path, _)| path)).map(|path| path.to_string()).collect();
        let pages: BTreeMap<String, String> = pages.iter().map(|(p, text)| (p.to_string(), text.to_string())).collect();
        let sections = sections(&pages[INDEX], &pages);
        let gallery = BTreeMap::from([("workloads/w.yaml".to_owned(), "workloads/w.md".to_owned())]);
        let pictures = BTreeSet::from(["workloads/w.svg".to_owned()]);
        Site { files, pages, gallery, pictures, copies: BTreeMap::new(), folders: BTreeSet::new(), sections }
    }

    const PAGES: [(&str, &str); 6] = [
        (INDEX, "# Index\n\n[a](../README.md)\n\n## Part\n\n- [b](a.md#x) [again](a.md), [c](r/README.md)\n"),
        ("README.md", "# Takt\n[index](docs/README.md#part), [w](workloads/w.yaml), [all](workloads)\n"),
        ("docs/a.md", "# A\n[code](../crates/x.rs) [folder](../contrib/d) ![p](p.svg)\n```\n[no](link)\n```\n"),
        ("docs/r/README.md", "# R\n[up](../a.md#a), [web](https://x.y/z.md), [here](#r)\n"),
        ("docs/r/b.md", "# B\n"),
        (gallery::INDEX, "# Gallery\n![w](w.svg)\n"),
    ];

    #[test]
    fn links_lead_to_pages_copies_and_the_gallery() {
        let mut site = site(&PAGES, &["crates/x.rs", "contrib/d/u.service", "docs/p.svg", "workloads/w.yaml"]);
        site.link().unwrap();
        let text = |path: &str| site.pages[path].as_str();
        assert_eq!(
            text("README.md"),
            "# Takt\n[index](docs/index.md#part), [w](workloads/w.md), [all](workloads/index.md)\n"
        );
        let expected =
            "# A\n[code](../crates/x.rs.txt) [folder](../files.md#contribd) ![p](p.svg)\n```\n[no](link)\n```\n";
        assert_eq!(text("docs/a.md"), expected);
        assert_eq!(text("docs/r/README.md"), PAGES[3].1);
        assert!(text(FILES).ends_with("\n## contrib/d\n\n- [u.service](contrib/d/u.service.txt)\n"));
        let copies: Vec<_> = site.copies.values().map(String::as_str).collect();
        assert_eq!(copies, ["contrib/d/u.service.txt", "crates/x.rs.txt", "docs/p.svg"]);
        let summary = site.summary(&[]).unwrap();
        let expected = "# Summary\n\n[Takt](index.md)\n[Index](docs/index.md)\n\n# Examples\n\n- [Gallery](workloads/index.md)\n\
                        \n# Part\n\n- [A](docs/a.md)\n- [R](docs/r/index.md)\n  - [B](docs/r/b.md)\n\n---\n\n[Files](files.md)\n";
        assert_eq!(summary, expected);
    }

    #[test]
    fn a_link_to_nothing_of_the_repository_is_refused() {
        let mut pages = PAGES;
        pages[4].1 = "# B\n[x](../gone.md)\n";
        let files = ["crates/x.rs", "contrib/d/u.service", "docs/p.svg", "workloads/w.yaml"];
        let error = site(&pages, &files).link().unwrap_err();
        assert_eq!(error.to_string(), "docs/r/b.md: `../gone.md` leads to no file of the repository");
    }
}
