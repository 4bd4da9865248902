//! The pages of all publications: a summary, and a page for each with its pictures.

use super::form::{Publication, Status};
use super::judge::Verdict;
use super::output::Finding;
use crate::failure::Failure;
use crate::files;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A cell of Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;").replace('>', "&gt;")
}

/// Writes all pages and pictures.
///
/// # Errors
/// That of the system.
pub(super) fn write(
    directory: &Path,
    publications: &[Publication],
    findings: &[Finding<'_>],
    form: &str,
) -> Result<(), Failure> {
    fs::create_dir_all(directory).map_err(|e| Failure::file("write", directory, &e))?;
    files::write(&directory.join("README.md"), summary(publications, findings, form))?;
    for publication in publications {
        let of: Vec<&Finding<'_>> =
            findings.iter().filter(|found| found.publication.name == publication.name).collect();
        files::write(&directory.join(format!("{}.md", publication.name)), page(publication, &of, form))?;
        for finding in of {
            if let Some(svg) = &finding.svg {
                files::write(&directory.join(format!("{}.svg", finding.shown.name)), svg)?;
            }
        }
    }
    Ok(())
}

fn summary(publications: &[Publication], findings: &[Finding<'_>], form: &str) -> String {
    let count = |verdict| findings.iter().flat_map(|found| &found.judged).filter(|j| j.verdict == verdict).count();
    let [holds, order, not] = [Verdict::Holds, Verdict::InOrder, Verdict::DoesNot].map(count);
    let open = |wanted: fn(&Status) -> bool| {
        publications.iter().flat_map(|publication| &publication.results).filter(|shown| wanted(&shown.state)).count()
    };
    let (not_yet, impossible) =
        (open(|state| matches!(state, Status::NotYet(_))), open(|state| matches!(state, Status::Impossible(_))));
    let mut text = format!(
        "# Reproductions\n\n<!-- Written by `takt repro{form} --write-docs DIR`; do not edit. -->\n\n\
         Published results beside Takt's simulations. Of {} claims, {holds} hold, {order} hold in order only, and {not} do not hold. {not_yet} \
         results are not yet done, and {impossible} cannot be tested here. Nothing is measured on this machine.\n\n\
         | result | claim | verdict |\n|---|---|---|\n",
        holds + order + not
    );
    let mut row = |link: String, claim: &str, verdict: &str| {
        writeln!(text, "| {link} | {} | {verdict} |", cell(claim)).expect("a string takes all");
    };
    for publication in publications {
        for shown in &publication.results {
            let page = format!("[{}, {}]({}.md)", publication.authors, shown.figure, publication.name);
            match &shown.state {
                Status::Tested(experiment) => {
                    let found = findings.iter().find(|found| found.shown.name == shown.name);
                    let judged = found.iter().flat_map(|found| &found.judged);
                    for (claim, judged) in experiment.claims.iter().zip(judged) {
                        row(page.clone(), &claim.says, judged.verdict.words());
                    }
                }
                Status::NotYet(_) => row(page, &shown.shows, "not yet done"),
                Status::Impossible(_) => row(page, &shown.shows, "cannot be tested here"),
            }
        }
    }
    text += "\n## The experiments\n\n\
             `takt repro` lists them, and `takt repro NAME` repeats one. [Experiments as data](../experiments.md#published-results) is about their \
             files.\n\n\
             `within` and `by` in the column *publication* are tolerances of this project, not of the publication. Where a claim is about several \
             positions, the figures are those of the position with the smallest margin (*the closest of*). The commands of a page run in \
             `experiments/`.\n\n\
             | verdict | meaning |\n|---|---|\n\
             | holds | the simulation agrees within the distance that the experiment states |\n\
             | holds in order only | the order is that of the publication, and a distance is not |\n\
             | does not hold | neither |\n\
             | not yet done | Takt has no experiment; the page has what it takes |\n\
             | cannot be tested here | the result needs hardware that a simulation does not have |\n";
    text
}

fn page(publication: &Publication, findings: &[&Finding<'_>], form: &str) -> String {
    let mut text = format!(
        "# {}\n\n<!-- Written by `takt repro{form} --write-docs DIR`; do not edit. -->\n\n{}.\n",
        publication.authors,
        publication.citation()
    );
    let mut add = |args: std::fmt::Arguments<'_>| text.write_fmt(args).expect("a string takes all");
    for shown in &publication.results {
        add(format_args!("\n## {}\n\n{}: {}.\n", shown.figure, shown.place(None), shown.shows));
        let experiment = match &shown.state {
            Status::NotYet(why) => {
                add(format_args!("\n**Not yet done**: {why}\n"));
                continue;
            }
            Status::Impossible(why) => {
                add(format_args!("\n**Cannot be tested here**: {why}\n"));
                continue;
            }
            Status::Tested(experiment) => experiment,
        };
        let Some(found) = findings.iter().find(|found| found.shown.name == shown.name) else { continue };
        add(format_args!("\n| claim | publication | simulated | verdict |\n|---|---|---|---|\n"));
        for (claim, judged) in experiment.claims.iter().zip(&found.judged) {
            let page = claim.page.map_or_else(String::new, |page| format!(" (page {page})"));
            let says = cell(&format!("{}{page}", claim.says));
            let (claimed, simulated) = (cell(&judged.claimed), cell(&judged.simulated));
            add(format_args!("| {says} | {claimed} | {simulated} | **{}** |\n", judged.verdict.words()));
        }
        for note in [&experiment.scale, &experiment.differs].into_iter().flatten() {
            add(format_args!("\n{note}\n"));
        }
        if found.svg.as_ref().is_some_and(|svg| !svg.is_empty()) {
            add(format_args!("\n![{}]({}.svg)\n", cell(&shown.shows), shown.name));
        }
        add(format_args!("\n`takt repro{form} {}`:\n\n", shown.name));
        for command in &found.commands {
            add(format_args!("- `{command}`\n"));
        }
    }
    text
}
