//! `cargo xtask site`: the documents and a gallery of all workloads as a site with search, made by mdBook.
//!
//! `source/` has the pages in the folders of the repository, `html/` the site. A link to a file that is no page leads to a copy of that file, and a link to a
//! workload leads to its page in the gallery. A link that leads nowhere is a failure, in the sources and in the site. Without mdBook the sources are made all the
//! same, with the command that installs it, and the exit status is 3.

mod gallery;
mod pages;

use crate::deb::output;
use crate::workspace::{Outcome, built, root};
use anyhow::{Context, Result, bail, ensure};
use pages::{Site, page_name};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use takt_testing::links;

/// The configuration of mdBook.
const BOOK: &str = include_str!("../site/book.toml");

/// Rules for tables, pictures and the gallery.
const STYLE: &str = include_str!("../site/style.css");

/// Marks a folder as that of a site, so that the next call may replace it.
const MARK: &str = ".takt-site";

/// How mdBook is installed.
const INSTALL: &str = "mdBook is not installed: cargo install mdbook --locked, or pip install -r .ci/tools.txt";

/// The folder of the site.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    directory: PathBuf,
}

impl Options {
    /// `None`: such a call is not known.
    pub(crate) fn parse(arguments: &[&str]) -> Option<Options> {
        match *arguments {
            [] => Some(Options { directory: root().join("target/site") }),
            ["--out", directory] => Some(Options { directory: std::path::absolute(directory).ok()? }),
            _ => None,
        }
    }
}

/// Makes the site.
pub(crate) fn run(options: &Options) -> ExitCode {
    match made(&options.directory) {
        Ok(true) => {
            println!("{}", options.directory.join("html/index.html").display());
            ExitCode::SUCCESS
        }
        Ok(false) => {
            eprintln!("missing: {INSTALL}");
            ExitCode::from(3)
        }
        Err(error) => {
            eprintln!("failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the site in a new folder, as a step of continuous integration.
pub(crate) fn step() -> Outcome {
    match tempfile::tempdir().map_err(anyhow::Error::from).and_then(|directory| made(directory.path())) {
        Ok(true) => Outcome::Passed,
        Ok(false) => Outcome::Skipped(format!("{INSTALL}; the gallery and the sources of the site are made")),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// Makes the sources, and the site unless mdBook is missing, which is `false`.
fn made(directory: &Path) -> Result<bool> {
    stage(&built()?, directory)?;
    book(directory)
}

/// Writes the sources of the site into a folder: pages, pictures that this `takt` draws, copies of linked files, and the configuration.
fn stage(takt: &Path, directory: &Path) -> Result<()> {
    let (source, mark) = (directory.join("source"), directory.join(MARK));
    fs::create_dir_all(directory)?;
    let is_new = fs::read_dir(directory)?.next().is_none();
    ensure!(
        is_new || mark.exists(),
        "{} has other files than those of a site; name another folder",
        directory.display()
    );
    fs::write(mark, "")?;
    for old in [&source, &directory.join("html")].into_iter().filter(|old| old.exists()) {
        fs::remove_dir_all(old)?;
    }
    fs::create_dir_all(&source)?;
    fs::write(directory.join("book.toml"), BOOK)?;
    fs::write(directory.join("style.css"), STYLE)?;
    let files = repository()?;
    let workloads = gallery::workloads(&files);
    let mut site = Site::new(files, &workloads)?;
    for workload in &workloads {
        let picture = source.join(workload.picture());
        fs::create_dir_all(picture.parent().context("no folder")?)?;
        site.add(workload.page(), gallery::page(workload, takt, &picture)?);
    }
    site.add(gallery::INDEX.into(), gallery::index(&workloads, site.files())?);
    site.link()?;
    let summary = site.summary(&workloads)?;
    for (path, text) in site.pages() {
        write(&source.join(page_name(path)), text.as_bytes())?;
    }
    for (path, copy) in site.copies() {
        write(&source.join(copy), &fs::read(root().join(path))?)?;
    }
    write(&source.join("SUMMARY.md"), summary.as_bytes())?;
    faults_of_sources(&source, &summary)
}

/// The files of the repository, with new ones that git does not ignore.
fn repository() -> Result<BTreeSet<String>> {
    let listed = output(
        Command::new("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root()),
    )
    .context("the files of the repository are listed by git")?;
    let present = listed.split('\0').filter(|path| !path.is_empty() && root().join(path).exists());
    Ok(present.map(str::to_owned).collect())
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("no folder")?)?;
    fs::write(path, content).with_context(|| path.display().to_string())
}

/// Fails if a link of a page leads nowhere, or a page is not named exactly once by the summary.
fn faults_of_sources(source: &Path, summary: &str) -> Result<()> {
    let mut faults = Vec::new();
    let named: Vec<&str> = summary.lines().flat_map(links::targets).collect();
    for path in below(source)?.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let name = path.strip_prefix(source)?.to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)?;
        faults.extend(links::faults(&path, &text).into_iter().map(|fault| format!("{name}: {fault}")));
        let count = named.iter().filter(|page| **page == name).count();
        if name != "SUMMARY.md" && count != 1 {
            faults.push(format!("{name}: named {count} times by the summary"));
        }
    }
    reported(faults)
}

/// Makes the site from its sources, and looks at its links. `false`: mdBook is missing.
fn book(directory: &Path) -> Result<bool> {
    let version = Command::new("mdbook").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !version.is_ok_and(|status| status.success()) {
        return Ok(false);
    }
    output(Command::new("mdbook").arg("build").arg(directory))?;
    faults_of_site(&directory.join("html"))?;
    Ok(true)
}

/// Fails if a link of the site leads to a file or an element that does not exist.
fn faults_of_site(html: &Path) -> Result<()> {
    let mut faults = Vec::new();
    for path in below(html)?.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "html")) {
        let name = path.strip_prefix(html)?.to_string_lossy().into_owned();
        // A server sends this page for any path, so its links begin at the root of the server.
        if name == "404.html" {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let values = ["href", "src"].into_iter().flat_map(|key| values(&text, key)).collect::<BTreeSet<_>>();
        let is_own = |value: &&str| !value.contains(':') && !value.is_empty();
        for value in values.into_iter().filter(is_own) {
            let (file, fragment) = value.split_once('#').unwrap_or((value, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap_or(html).join(file) };
            if !file.is_file() {
                faults.push(format!("{name}: `{value}` leads to no file"));
            } else if !fragment.is_empty() && !values_of_ids(&file)?.contains(fragment) {
                faults.push(format!("{name}: `{value}` leads to no element"));
            }
        }
    }
    reported(faults)
}

/// The values of an attribute in a page of HTML.
fn values<'t>(text: &'t str, key: &str) -> impl Iterator<Item = &'t str> {
    let start = format!(" {key}=\"");
    let starts = text.match_indices(&start).map(|(at, _)| at + start.len()).collect::<Vec<_>>();
    starts.into_iter().filter_map(|at| Some(text[at..].split_once('"')?.0))
}

fn values_of_ids(file: &Path) -> Result<BTreeSet<String>> {
    Ok(values(&fs::read_to_string(file)?, "id").map(str::to_owned).collect())
}

fn reported(faults: Vec<String>) -> Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{} faults of the site:\n{}", faults.len(), faults.join("\n"))
}

/// All files below a folder, in the order of their paths.
fn below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(below(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn options_name_a_directory() {
        assert_eq!(Options::parse(&[]), Some(Options { directory: root().join("target/site") }));
        assert_eq!(Options::parse(&["--out", "/a"]), Some(Options { directory: "/a".into() }));
        assert_eq!(Options::parse(&["--out"]), None);
    }

    /// A `takt` that draws the same picture of each workload.
    fn imitation(folder: &Path, picture: &str) -> PathBuf {
        let takt = folder.join("takt");
        let script =
            format!("#!/bin/sh\nfor picture; do :; done\necho '{picture}' > \"$picture\"\necho summary of $2\n");
        fs::write(&takt, script).unwrap();
        fs::set_permissions(&takt, fs::Permissions::from_mode(0o755)).unwrap();
        takt
    }

    #[test]
    fn the_sources_have_every_document_and_workload() {
        let directory = tempfile::tempdir().unwrap();
        let takt = imitation(directory.path(), "<svg><rect/></svg>");
        let out = directory.path().join("site");
        // A second time, over the first.
        for _ in 0..2 {
            stage(&takt, &out).unwrap();
        }
        let source = |path: &str| fs::read_to_string(out.join("source").join(path)).unwrap();
        let (gallery, summary) = (source("workloads/index.md"), source("SUMMARY.md"));
        let workloads = repository().unwrap().into_iter().filter(|path| path.starts_with("workloads/"));
        let workloads: Vec<_> = workloads.filter(|path| !path.contains("/expected/")).collect();
        assert!(workloads.len() > 80, "{}", workloads.len());
        let linked: BTreeSet<&str> = gallery.lines().flat_map(links::targets).collect();
        for path in &workloads {
            let (name, ending) = path["workloads/".len()..].split_once('.').unwrap();
            let page = name.to_owned() + if ending == "ts" { "-ts.md" } else { ".md" };
            if linked.contains(page.as_str()) {
                assert!(linked.contains(page.replace(".md", ".svg").as_str()), "{path} has no picture");
                let text = source(&format!("workloads/{page}"));
                assert!(
                    text.contains(&format!("$ takt sim {path}")) && text.contains(&format!("\nsummary of {path}\n"))
                );
                assert!(summary.contains(&format!("(workloads/{page})")));
            } else {
                assert!(linked.contains(format!("{name}.{ending}.txt").as_str()), "{path} is not in the gallery");
                assert!(
                    ["platforms/", "series/"].iter().any(|folder| name.starts_with(folder)),
                    "{path} has no picture"
                );
            }
        }
        for page in repository().unwrap().iter().filter(|path| path.starts_with("docs/") && path.ends_with(".md")) {
            assert!(summary.contains(&format!("]({})", page_name(page))), "{page} is not in the summary");
        }
        assert!(source("docs/start.md").contains("../workloads/hello.md"));
    }

    #[test]
    fn a_foreign_folder_and_an_empty_picture_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let foreign = directory.path().join("foreign");
        fs::create_dir_all(foreign.join("source")).unwrap();
        let error = stage(&imitation(directory.path(), "<svg><rect/></svg>"), &foreign).unwrap_err().to_string();
        assert!(error.contains("has other files than those of a site"), "{error}");
        assert!(foreign.join("source").exists() && !foreign.join("book.toml").exists());
        let empty = imitation(directory.path(), "<svg></svg>");
        let error = stage(&empty, &directory.path().join("site")).unwrap_err().to_string();
        assert_eq!(error, "the picture of workloads/adasmark.yaml is empty");
    }

    #[test]
    fn links_of_a_site_that_lead_nowhere_are_found() {
        let html = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(html.path().join(name), text).unwrap();
        write("a.html", "<h1 id=\"x\">A</h1> <a href=\"https://a.b/c\">c</a> <a href=\"#x\">x</a> <img src=\"p.svg\">");
        write("b.html", "<a class=\"l\" href=\"a.html#x\">a</a>");
        write("p.svg", "");
        faults_of_site(html.path()).unwrap();
        write("b.html", "<a href=\"a.html#y\">a</a> <script src=\"gone.js\"></script>");
        let error = faults_of_site(html.path()).unwrap_err().to_string();
        assert_eq!(
            error,
            "2 faults of the site:\nb.html: `a.html#y` leads to no element\nb.html: `gone.js` leads to no file"
        );
    }
}
