//! `takt schema`: the keys of a workload file for editors.

use crate::outcome::{Outcome, Verdict};
use std::io::{self, Write};

/// Print the keys of a workload file as a JSON Schema, so that an editor completes and checks it
///
/// Editors with the YAML language server find the schema by the first line of a workload file, `# yaml-language-server:
/// $schema=takt.schema.json`, after `takt schema > takt.schema.json`. A schema describes each value by itself; `takt check` also checks
/// names and the rules between keys.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

/// Names of policies are those of this program.
pub(crate) fn run(_: &Args) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{:#}", takt::schema())?;
    Ok(Verdict::Done)
}
