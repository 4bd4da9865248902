//! The gallery: a page for each workload, with its picture, its command and its summary.

use crate::workspace::root;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The folder of the workloads.
pub(crate) const FOLDER: &str = "workloads";

/// The page with all pictures.
pub(crate) const INDEX: &str = "workloads/README.md";

/// Folders of the workloads with their headings.
const GROUPS: [(&str, &str); 3] =
    [("workloads", "Systems"), ("workloads/features", "Features"), ("workloads/chronos", "Task sets of ChronOS")];

/// Options for task sets, which name no policy.
const OF_TASK_SETS: [&str; 2] = ["--policy", "edf"];

/// A file that `takt sim` reads, by its path in the repository.
#[derive(Debug, PartialEq)]
pub(crate) struct Workload(String);

/// The workloads among the files of the repository, by folders.
pub(crate) fn workloads(files: &BTreeSet<String>) -> Vec<Workload> {
    let of_group = |(group, _): &(&'static str, _)| {
        let group = *group;
        let is_one = move |path: &&String| {
            let (folder, name) = path.rsplit_once('/').unwrap_or_default();
            folder == group && (name.ends_with(".yaml") || name.ends_with(".ts"))
        };
        files.iter().filter(is_one).cloned().map(Workload)
    };
    GROUPS.iter().flat_map(of_group).collect()
}

impl Workload {
    pub(crate) fn path(&self) -> &str {
        &self.0
    }

    /// The path without the ending of a workload. The ending of a task set stays in the name, since a workload may have the same one.
    fn stem(&self) -> String {
        match self.0.strip_suffix(".yaml") {
            Some(stem) => stem.to_owned(),
            None => self.0.replace(".ts", "-ts"),
        }
    }

    pub(crate) fn page(&self) -> String {
        self.stem() + ".md"
    }

    pub(crate) fn picture(&self) -> String {
        self.stem() + ".svg"
    }

    /// The name of the file, without the usual ending.
    fn name(&self) -> &str {
        let file = self.0.rsplit_once('/').map_or(self.path(), |(_, file)| file);
        file.strip_suffix(".yaml").unwrap_or(file)
    }

    fn folder(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    fn text(&self) -> Result<String> {
        fs::read_to_string(root().join(&self.0)).with_context(|| self.0.clone())
    }
}

/// Draws a workload, and writes its page.
///
/// # Errors
/// When the simulation fails or draws nothing.
pub(crate) fn page(workload: &Workload, takt: &Path, picture: &Path) -> Result<String> {
    let text = workload.text()?;
    let (name, picture_path) = (workload.name(), workload.picture());
    let file = picture_path.rsplit_once('/').map_or(picture_path.as_str(), |(_, file)| file);
    let is_set = workload.path().ends_with(".ts");
    let mut options: Vec<&str> = if is_set { OF_TASK_SETS.to_vec() } else { Vec::new() };
    let mut done = simulated(takt, workload, &options, picture)?;
    // Programs of the kernel's classes, for example, only a run schedules.
    if done.status.code() == Some(2) && String::from_utf8_lossy(&done.stderr).contains("[ignored-key]") {
        options.push("--allow-differences");
        done = simulated(takt, workload, &options, picture)?;
    }
    let (output, errors) = (String::from_utf8(done.stdout)?, String::from_utf8(done.stderr)?);
    ensure!(done.status.success(), "takt sim {}: {}: {errors}", workload.path(), done.status);
    let drawn = fs::read_to_string(picture).with_context(|| format!("no picture of {}", workload.path()))?;
    ensure!(drawn.contains("<svg") && drawn.contains("<rect"), "the picture of {} is empty", workload.path());

    let options: String = options.iter().map(|option| format!(" {option}")).collect();
    let command = format!("takt sim {}{options} --gantt {file}", workload.path());
    let mut page = format!("# {name}\n\n{}", prose(&text));
    write!(page, "\n[![Schedule of {name}, simulated]({file})]({file})\n")?;
    write!(page, "\n```console\n$ {command}\n{}{}\n```\n", errors, output.trim_end())?;
    let kind = if is_set { "text" } else { "yaml" };
    write!(page, "\n`{}`:\n\n```{kind}\n{}\n```\n", workload.path(), text.trim_end())?;
    Ok(page)
}

fn simulated(takt: &Path, workload: &Workload, options: &[&str], picture: &Path) -> Result<std::process::Output> {
    let mut command = Command::new(takt);
    command.arg("sim").arg(workload.path()).args(options).arg("--gantt").arg(picture);
    command.current_dir(root()).stdin(Stdio::null()).output().with_context(|| takt.display().to_string())
}

/// The page with all pictures, and the other files of the folder.
pub(crate) fn index(workloads: &[Workload], files: &BTreeSet<String>) -> Result<String> {
    let mut page = "# Gallery\n\nEach workload of the repository, as `takt sim` draws it. Its page has the command, the summary and the file.\n".to_owned();
    let below = |path: &str| path[FOLDER.len() + 1..].to_owned();
    for (folder, heading) in GROUPS {
        write!(page, "\n## {heading}\n\n<div class=\"gallery\">\n")?;
        for workload in workloads.iter().filter(|workload| workload.folder() == folder) {
            let (name, own, picture) = (workload.name(), below(&workload.page()), below(&workload.picture()));
            let sentence = sentence(&prose(&workload.text()?));
            write!(
                page,
                "<div>\n\n[**{name}**]({own})\n\n[![Schedule of {name}]({picture})]({own})\n\n{sentence}\n\n</div>\n"
            )?;
        }
        page += "</div>\n";
    }
    page += "\n## Files that workloads name\n\n";
    let drawn: BTreeSet<&str> = workloads.iter().map(Workload::path).collect();
    for file in files.iter().filter(|file| file.starts_with("workloads/") && !file.starts_with("workloads/expected/")) {
        if !drawn.contains(file.as_str()) {
            writeln!(page, "- [{0}]({0})", below(file))?;
        }
    }
    Ok(page)
}

/// The comment at the head of a file as Markdown. Lines that are set in are commands.
fn prose(text: &str) -> String {
    let mut page = String::new();
    for line in text.lines().map_while(|line| line.strip_prefix('#')) {
        match line.strip_prefix("  ") {
            Some(command) => page += &format!("    {}\n", command.trim()),
            None => page += &format!("{}\n", escaped(line.trim())),
        }
    }
    page
}

/// Text whose signs of Markdown are shown as they are, except code in backticks.
fn escaped(line: &str) -> String {
    let part = |(number, part): (usize, &str)| match number % 2 {
        0 => part.replace('*', "\\*").replace('_', "\\_").replace('[', "\\[").replace('<', "&lt;"),
        _ => format!("`{part}`"),
    };
    line.split('`').enumerate().map(part).collect()
}

/// The first sentence of a comment.
fn sentence(prose: &str) -> String {
    let paragraph = prose.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    paragraph.find(". ").map_or(paragraph.trim(), |end| &paragraph[..=end]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_prose() {
        let text = "# One CPU: `a_b` has_it <now>. Then\n# another.\n#\n#   takt import x\npolicy: edf\n# no more\n";
        let prose = prose(text);
        assert_eq!(prose, "One CPU: `a_b` has\\_it &lt;now>. Then\nanother.\n\n    takt import x\n");
        assert_eq!(sentence(&prose), "One CPU: `a_b` has\\_it &lt;now>.");
        assert_eq!(sentence("No end\nof it\n"), "No end of it");
    }

    #[test]
    fn a_task_set_and_a_workload_of_one_name_have_pages_of_their_own() {
        let files =
            ["workloads/chronos/a.ts", "workloads/chronos/a.yaml", "workloads/expected/b.txt", "workloads/b.yaml"];
        let found = workloads(&files.map(str::to_owned).into());
        let pages: Vec<_> = found.iter().map(Workload::page).collect();
        assert_eq!(pages, ["workloads/b.md", "workloads/chronos/a-ts.md", "workloads/chronos/a.md"]);
    }
}
