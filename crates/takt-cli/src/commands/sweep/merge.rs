//! `takt sweep merge`: the options of a merge, and where its experiment takes them.

use super::curves::{Size, size};
use super::experiment::Common;
use super::parts::Parts;
use crate::failure::Failure;
use crate::files::{self, Outputs};
use std::path::PathBuf;

/// Print the results of an experiment whose parts were computed with `--shard`
///
/// Prints what the same command prints in one piece, byte for byte. A part holds its command, so no option of the experiment is given
/// again. It also holds its files, unless these are longer than 1 MiB: those must be where that command has found them. If a part is missing or incomplete, the exit status is 1.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The states of the parts, in any order
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,
    /// Write the whole experiment as one state, which the command without `--shard` continues
    #[arg(long, value_name = "WHOLE", conflicts_with = "partial")]
    state: Option<PathBuf>,
    /// Print the results of the sets that are there, with their number
    #[arg(long)]
    partial: bool,
    /// Draw the curves
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
    /// Write the curves as an HTML page that needs no network: curves can be hidden and enlarged, and the pointer shows values
    #[arg(long, value_name = "OUT.html")]
    html: Option<PathBuf>,
    /// Draw the fewest jobs of each second over time (`copies`)
    #[arg(long, value_name = "OUT.svg")]
    pub(super) over_time: Option<PathBuf>,
    /// Title of the pictures
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Width and height of the pictures in pixels, such as 900x500
    #[arg(long, value_name = "WxH", value_parser = size)]
    size: Option<Size>,
    /// Write a row for every run, or for every set of `schedulability`
    #[arg(long, value_name = "OUT.csv")]
    pub(super) runs: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Reads the parts.
    ///
    /// # Errors
    /// As [`Parts::read`].
    pub(super) fn parts(&self) -> Result<Parts, Failure> {
        Parts::read(&self.parts, self.partial, self.state.clone())
    }
    /// Checks the files that it writes.
    ///
    /// # Errors
    /// As [`files::ready`].
    pub(super) fn ready(&self, parts: &Parts) -> Result<Outputs, Failure> {
        let read: Vec<PathBuf> = self.parts.iter().cloned().chain(parts.beside()).collect();
        let written = self.state.iter().chain(&self.svg).chain(&self.html).chain(&self.over_time).chain(&self.runs);
        files::ready(&read, written)
    }

    /// Puts the parts in place of the work of an experiment.
    pub(super) fn set(&self, parts: Parts, common: &mut Common) {
        (common.merge, common.state, common.shard) = (Some(parts), None, None);
        (common.svg, common.html, common.json) = (self.svg.clone(), self.html.clone(), self.json);
        (common.title, common.size) = (self.title.clone(), self.size);
    }
}
