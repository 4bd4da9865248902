//! `takt repro`: published results beside simulated ones, by experiments that are data.

mod catalogue;
mod form;
mod judge;
mod output;
mod pages;
mod picture;
mod rows;
mod runs;

use crate::arguments::negative_values;
use crate::failure::Failure;
use crate::files;
use crate::outcome::{Outcome, Verdict};
use crate::scratch::Scratch;
use clap::Command;
use form::{Length, Publication, Shown, Status};
use output::Finding;
use runs::Runner;
use serde_json::Value;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use takt_workload::Code;

/// Put published results beside simulated ones
///
/// Without NAME, lists the results of all publications. NAME is one of them, such as `chronos-fig5`, a publication, such as `chronos`, or a file
/// with a publication of your own (`docs/experiments.md`). Prints each claim with the value of the publication, the simulated one, and
/// the verdict. The same command gives the same bytes. Status 1: a claim does not hold.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A result, a publication, or FILE.yaml; by default a list of all
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The shortest form, of seconds
    #[arg(long)]
    short: bool,
    /// The full form, which may take hours
    #[arg(long, conflicts_with = "short")]
    full: bool,
    /// Draw the curves of one result
    #[arg(long, value_name = "OUT.svg", requires = "name")]
    svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, requires = "name")]
    json: bool,
    /// Keep the results of runs in this file; the same command continues from there
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Number of threads; by default one for each CPU of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Carry out all experiments, and write a page for each publication with its pictures, and a summary
    #[arg(long, value_name = "DIR", conflicts_with_all = ["name", "svg", "json"])]
    write_docs: Option<PathBuf>,
}

impl Args {
    fn length(&self) -> Length {
        match (self.short, self.full) {
            (true, _) => Length::Short,
            (_, true) => Length::Full,
            _ => Length::Usual,
        }
    }
}

/// Whether a name is the path of a file.
fn is_path(name: &str) -> bool {
    let extension = Path::new(name).extension();
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml"))
}

/// `command` is the whole command line.
pub(crate) fn run(args: &Args, command: Command) -> Outcome {
    let cli = negative_values(command);
    let is_own = args.name.as_deref().is_some_and(is_path);
    let publications = match &args.name {
        Some(name) if is_own => vec![catalogue::of_file(Path::new(name), &cli)?],
        _ => catalogue::all(&cli)?,
    };
    let chosen: Vec<(&Publication, &Shown)> = match &args.name {
        None if args.write_docs.is_none() => {
            let mut out = BufWriter::new(io::stdout().lock());
            output::list(&mut out, &publications)?;
            out.flush()?;
            return Ok(Verdict::Done);
        }
        Some(name) if !is_own => named(name, &publications)?,
        _ => publications.iter().flat_map(|of| of.results.iter().map(move |shown| (of, shown))).collect(),
    };
    let tested = chosen.iter().filter(|(_, shown)| matches!(shown.state, Status::Tested(_))).count();
    if args.svg.is_some() && tested != 1 {
        let message = format!("`--svg` draws one result, and {tested} are tested");
        return Err(Failure::input(Code::ConflictingOptions, message, "name one, such as `chronos-fig5`"));
    }
    if let Some((_, shown)) = chosen.first().filter(|_| tested == 0) {
        let message = match &shown.state {
            Status::NotYet(why) => format!("`{}` is not yet done: {why}", shown.name),
            Status::Impossible(why) => format!("`{}` cannot be tested here: {why}", shown.name),
            Status::Tested(_) => unreachable!("none is tested"),
        };
        return Err(Failure::input(Code::NotApplicable, message, "`takt repro` lists the results with their states"));
    }
    let own = args.name.iter().filter(|_| is_own).map(PathBuf::from).collect::<Vec<_>>();
    let _outputs = files::ready(own.iter().chain(&args.state), &args.svg)?;
    let room = Scratch::new("takt-repro-")?;
    let directory = match own.first() {
        Some(path) => path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned(),
        None => {
            catalogue::write_files(room.path())?;
            room.path().join(catalogue::FOLDER)
        }
    };
    let mut runner = Runner::new(&directory, args.length(), args.threads, args.state.as_deref())?;
    let with_pictures = args.svg.is_some() || args.write_docs.is_some();
    let mut findings = Vec::new();
    for (publication, shown) in chosen {
        if let Status::Tested(experiment) = &shown.state {
            findings.push(find(&mut runner, publication, shown, experiment, with_pictures)?);
        }
    }
    if let Some(directory) = &args.write_docs {
        let form = if args.short {
            " --short"
        } else if args.full {
            " --full"
        } else {
            ""
        };
        pages::write(directory, &publications, &findings, form)?;
        return Ok(Verdict::Done);
    }
    if let (Some(path), [finding, ..]) = (&args.svg, findings.as_slice()) {
        files::write(path, finding.svg.as_deref().unwrap_or_default())?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        let all: Value = findings.iter().map(Finding::json).collect();
        writeln!(out, "{}", serde_json::json!({"results": all}))?;
    } else {
        for (index, finding) in findings.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            finding.text(&mut out)?;
        }
    }
    out.flush()?;
    let is_no = findings.iter().any(|finding| finding.verdict() == judge::Verdict::DoesNot);
    Ok(if is_no { Verdict::No } else { Verdict::Done })
}

/// The results of a name: one, or all of a publication.
fn named<'p>(name: &str, publications: &'p [Publication]) -> Result<Vec<(&'p Publication, &'p Shown)>, Failure> {
    let all = || publications.iter().flat_map(|of| of.results.iter().map(move |shown| (of, shown)));
    let found: Vec<_> = all().filter(|(of, shown)| of.name == name || shown.name == name).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names = publications.iter().map(|of| of.name.as_str()).chain(all().map(|(_, shown)| shown.name.as_str()));
    let hint = takt_workload::nearest(name, names)
        .map_or("`takt repro` lists all of them".to_owned(), |near| format!("did you mean `{near}`?"));
    Err(Failure::input(Code::UnknownName, format!("there is no result `{name}`"), &hint))
}

/// Carries out the runs of an experiment, and judges its claims.
fn find<'a>(
    runner: &mut Runner,
    publication: &'a Publication,
    shown: &'a Shown,
    experiment: &'a form::Experiment,
    with_picture: bool,
) -> Result<Finding<'a>, Failure> {
    let tables = experiment.runs.iter().map(|run| runner.table(publication, run)).collect::<Result<Vec<_>, _>>()?;
    let judged = experiment.claims.iter().map(|claim| experiment.judge(&tables, claim)).collect::<Result<Vec<_>, _>>();
    let judged = judged.map_err(|fault| Failure::diagnostics(&publication.source, &[fault]))?;
    let svg = with_picture.then(|| picture::svg(publication, shown, experiment, &tables, &judged));
    let commands = Finding::commands(experiment, runner);
    Ok(Finding { publication, shown, experiment, judged, commands, svg })
}
