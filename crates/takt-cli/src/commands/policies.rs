//! `takt policies`: the registry.

use crate::failure::Failure;
use crate::report::table;
use crate::{Outcome, Verdict};
use std::io::{self, Write};
use takt_core::policy::{Need, PolicySpec, REGISTRY, Scope};

/// List the scheduling policies, or show the manual page of one
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Policy to show, with or without its scope's prefix
    name: Option<String>,
    /// Print the manual pages of all policies as Markdown (docs/policies.md)
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut out = io::stdout().lock();
    if args.markdown {
        write!(out, "{}", markdown())?;
    } else if let Some(name) = &args.name {
        let spec: PolicySpec = takt_workload::policy_from_name(name)
            .map_err(|e| Failure::input(e, "`takt policies` lists all of them"))?;
        writeln!(out, "{}: {}\n\n{}\n\n{}", spec.entry.name, spec.entry.summary, names(spec.entry), spec.entry.manual)?;
    } else {
        let mut rows = vec![vec!["name".to_string(), "forms".into(), "needs".into(), "what it does".into()]];
        for entry in REGISTRY {
            rows.push(vec![entry.name.into(), forms(entry), needs(entry), entry.summary.into()]);
        }
        left(&mut rows);
        table(&mut out, &rows)?;
        writeln!(
            out,
            "\n`takt policies NAME` shows one. g- is one queue for all CPUs, p- gives each task a CPU (--placement)."
        )?;
    }
    Ok(Verdict::Done)
}

/// Pads all columns to the left edge: this table holds words.
fn left(rows: &mut [Vec<String>]) {
    for column in 0..rows[0].len() {
        let width = rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
        rows.iter_mut().for_each(|r| r[column] = format!("{:<width$}", r[column]));
    }
}

fn forms(entry: &'static takt_core::policy::Entry) -> String {
    let form = |scope: &Scope| format!("{}{}", PolicySpec::new(entry, *scope).prefix(), entry.name);
    entry.scopes.iter().map(form).collect::<Vec<_>>().join(" ")
}

fn needs(entry: &takt_core::policy::Entry) -> String {
    let need = |need: &Need| match need {
        Need::Period => "period",
        Need::Deadline => "deadline",
        Need::Runtime => "runtime",
    };
    if entry.needs.is_empty() { "-".into() } else { entry.needs.iter().map(need).collect::<Vec<_>>().join(" ") }
}

fn names(entry: &'static takt_core::policy::Entry) -> String {
    format!("Forms: {}. Every task needs: {}.", forms(entry), needs(entry))
}

fn markdown() -> String {
    let mut text = String::from(
        "# Policies\n\n<!-- Written by `takt policies --markdown`; do not edit. -->\n\n| name | forms | needs | what it does |\n|---|---|---|---|\n",
    );
    for entry in REGISTRY {
        text +=
            &format!("| [`{0}`](#{0}) | `{1}` | {2} | {3} |\n", entry.name, forms(entry), needs(entry), entry.summary);
    }
    for entry in REGISTRY {
        text += &format!("\n## {}\n\n{}\n", entry.name, entry.manual);
    }
    text
}
