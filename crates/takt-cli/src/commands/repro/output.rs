//! The results of an experiment as text and as JSON.

use super::form::{Claim, Experiment, Invocation, Publication, Rows, Shown, Status};
use super::judge::{self, Judged, Point, Verdict};
use super::runs::Runner;
use serde_json::{Value, json};
use std::io::{self, Write};
use takt::report::tables::{aligned, visible};
use takt_workload::shell_word;

/// A tested result with what was found.
pub(super) struct Finding<'a> {
    pub(super) publication: &'a Publication,
    pub(super) shown: &'a Shown,
    pub(super) experiment: &'a Experiment,
    pub(super) judged: Vec<Judged>,
    /// The commands of its runs.
    pub(super) commands: Vec<String>,
    /// The picture, if one is wanted.
    pub(super) svg: Option<String>,
}

impl Finding<'_> {
    /// The weakest verdict of all claims.
    pub(super) fn verdict(&self) -> Verdict {
        self.judged.iter().map(|judged| judged.verdict).max().unwrap_or(Verdict::Holds)
    }

    pub(super) fn commands(experiment: &Experiment, runner: &Runner) -> Vec<String> {
        let command = |run: &Invocation| {
            let words: Vec<String> = runner.words(run).iter().map(|word| shell_word(word)).collect();
            let rounds = if run.table == Rows::Rounds { " --rounds rounds.csv" } else { "" };
            format!("takt {}{rounds}", words.join(" "))
        };
        experiment.runs.iter().map(command).collect()
    }

    pub(super) fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let (publication, shown) = (self.publication, self.shown);
        writeln!(out, "{}: {}", visible(&shown.name), visible(&shown.shows))?;
        writeln!(out, "{}", visible(&format!("{}; {}", publication.citation(), shown.place(None))))?;
        for command in &self.commands {
            writeln!(out, "run: {}", visible(command))?;
        }
        writeln!(out)?;
        let mut rows = vec![["claim", "publication", "simulated", "verdict"].map(String::from).to_vec()];
        for (claim, judged) in self.experiment.claims.iter().zip(&self.judged) {
            let cells = [claim.says.as_str(), &judged.claimed, &judged.simulated, judged.verdict.words()];
            rows.push(cells.map(String::from).to_vec());
        }
        aligned(out, &rows, |_| true)?;
        for (name, text) in [("scale", &self.experiment.scale), ("differs", &self.experiment.differs)] {
            if let Some(text) = text {
                writeln!(out, "{name}: {}", visible(text))?;
            }
        }
        Ok(())
    }

    pub(super) fn json(&self) -> Value {
        let (experiment, shown) = (self.experiment, self.shown);
        let claim = |(claim, judged): (&Claim, &Judged)| {
            let value = |(series, value): &(usize, judge::Value)| {
                let series = &experiment.series[*series].name;
                json!({"series": series, "value": value.value, "ci95": value.half})
            };
            let point =
                |point: &Point| json!({"at": point.at, "values": point.values.iter().map(value).collect::<Vec<_>>()});
            json!({
                "says": claim.says,
                "unit": claim.unit.as_ref().unwrap_or(&experiment.unit),
                "page": claim.page.or(shown.page),
                "publication": judged.claimed,
                "simulated": judged.simulated,
                "verdict": judged.verdict.words(),
                "points": judged.points.iter().map(point).collect::<Vec<_>>(),
            })
        };
        json!({
            "experiment": shown.name,
            "authors": self.publication.authors,
            "title": self.publication.title,
            "published": self.publication.published,
            "figure": shown.figure,
            "section": shown.section,
            "page": shown.page,
            "shows": shown.shows,
            "runs": self.commands,
            "scale": experiment.scale,
            "factor": experiment.factor,
            "differs": experiment.differs,
            "claims": experiment.claims.iter().zip(&self.judged).map(claim).collect::<Vec<_>>(),
            "verdict": self.verdict().words(),
        })
    }
}

impl Shown {
    /// The place in the publication: figure, section and page. A claim can have a page of its own.
    pub(super) fn place(&self, page: Option<u64>) -> String {
        let section = self.section.iter().map(|section| format!("section {section}"));
        let page = page.or(self.page).map(|page| format!("page {page}"));
        std::iter::once(self.figure.clone()).chain(section).chain(page).collect::<Vec<_>>().join(", ")
    }
}

/// The list of all results.
pub(super) fn list(out: &mut impl Write, publications: &[Publication]) -> io::Result<()> {
    let mut rows = vec![["name", "publication", "shows", "state"].map(String::from).to_vec()];
    for publication in publications {
        for shown in &publication.results {
            let state = match &shown.state {
                Status::Tested(experiment) => match experiment.claims.len() {
                    1 => "1 claim".to_owned(),
                    n => format!("{n} claims"),
                },
                Status::NotYet(_) => "not yet done".to_owned(),
                Status::Impossible(_) => "cannot be tested here".to_owned(),
            };
            let figure = format!("{}, {}", publication.authors, shown.figure);
            rows.push(vec![shown.name.clone(), figure, shown.shows.clone(), state]);
        }
    }
    aligned(out, &rows, |_| true)
}
