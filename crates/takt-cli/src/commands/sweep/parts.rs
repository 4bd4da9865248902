//! The results of all parts of an experiment, from their states.

use super::part::{Layout, Part};
use super::state::{self, Done, Found, Header, Row, Subject, difference, out_of_range};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use takt_workload::Code;

/// One file.
#[derive(Clone, Debug)]
struct File {
    path: PathBuf,
    header: Header,
    rows: Vec<Value>,
}

/// The files of the parts, and the options of their merge.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    files: Vec<File>,
    partial: bool,
    whole: Option<PathBuf>,
}

/// The rows of one part, and the file that has them.
type OfPart<'m, T> = (&'m File, Layout, Done<T>);

const WAY_OUT: &str =
    "give states that `--shard I/N --state FILE` has written, or make this one again with its command";

/// The failure for a file of another experiment than the first one.
fn other_experiment(first: &File, file: &File) -> Option<Failure> {
    let all = |header: &Header| {
        let mut all = header.setup.clone();
        all["command"] = json!(header.command);
        all["version"] = json!(header.version);
        all["number of parts"] = json!(header.part.of);
        all["sets of each point"] = json!(header.sets);
        all["sets of a block"] = json!(header.block);
        all
    };
    let arguments = |header: &Header| json!({"arguments": header.arguments});
    // The arguments differ wherever a setting does, so they are the last difference to report.
    let settings = difference(&all(&first.header), &all(&file.header));
    let differ = settings.or_else(|| difference(&arguments(&first.header), &arguments(&file.header)));
    let (key, of_first, of_file) = differ?;
    let (name, first) = (file.path.display(), first.path.display());
    let message =
        format!("`{name}` is of another experiment: its `{key}` is {of_file}, and that of `{first}` is {of_first}");
    Some(Failure::input(Code::OtherRecord, message, "give the parts of one experiment"))
}

impl Parts {
    /// Reads the parts of one experiment.
    ///
    /// # Errors
    /// Files that are no states or damaged, and states of different experiments.
    pub(super) fn read(paths: &[PathBuf], partial: bool, whole: Option<PathBuf>) -> Result<Parts, Failure> {
        let read = |path: &PathBuf| {
            let (header, rows) = state::read(path, WAY_OUT)?;
            Ok(File { path: path.clone(), header, rows })
        };
        let files = paths.iter().map(read).collect::<Result<Vec<File>, Failure>>()?;
        match files[1..].iter().find_map(|file| other_experiment(&files[0], file)) {
            Some(why) => Err(why),
            None => Ok(Parts { files, partial, whole }),
        }
    }

    /// The name of the subcommand and the arguments that made the parts.
    pub(super) fn command(&self) -> (&str, &[String]) {
        let header = &self.files[0].header;
        (&header.command, &header.arguments)
    }

    /// The failure for parts whose arguments are no command.
    pub(super) fn without_command(&self) -> Failure {
        let message = format!("`{}` is damaged: it has no command", self.files[0].path.display());
        Failure::input(Code::DamagedFile, message, WAY_OUT)
    }

    /// The number of sets and the results of each point.
    ///
    /// # Errors
    /// Files that are damaged or disagree, and parts that are missing.
    pub(super) fn totals<T: Found>(&self, subject: &Subject, unit: &str) -> Result<Vec<(u64, T)>, Failure> {
        let first = &self.files[0];
        let name = first.path.display();
        if let Some((key, now, then)) = difference(&subject.setup, &first.header.setup) {
            let message = format!("`{name}` is of another experiment: its `{key}` is {then}, and now it is {now}");
            let hint = "use the version of `takt` that has made the parts, with the same files";
            return Err(Failure::input(Code::OtherRecord, message, hint));
        }
        if first.header.version != env!("CARGO_PKG_VERSION") {
            let message = format!(
                "`{name}` is of version {} of takt, and this is {}",
                first.header.version,
                env!("CARGO_PKG_VERSION")
            );
            return Err(Failure::input(Code::OtherRecord, message, "merge with the version that has made the parts"));
        }
        let mut parts: BTreeMap<u64, OfPart<'_, T>> = BTreeMap::new();
        for file in &self.files {
            let layout = file.header.layout();
            let Some(done) = Done::<T>::read(&file.rows, &layout, subject.questions) else {
                let (part, path) = (file.header.part, &file.path);
                let hint = format!("remove it, and make it again: `{}`", file.header.command_of(part, path));
                return Err(Failure::input(Code::DamagedFile, format!("`{}` is damaged", path.display()), &hint));
            };
            let number = file.header.part.number;
            let chosen = match parts.remove(&number) {
                None => (file, layout, done),
                Some(other) => same_part(other, (file, layout, done), &subject.setup)?,
            };
            parts.insert(number, chosen);
        }
        if !self.partial {
            self.complete(&parts, unit)?;
        }
        let rows: Vec<(Layout, Done<T>)> = parts.into_values().map(|(_, layout, done)| (layout, done)).collect();
        if let Some(whole) = &self.whole {
            state::write_whole(whole, &first.header, &rows)?;
        }
        let points = subject.layout.sets.len();
        let mut totals = vec![(0, T::zero(subject.questions)); points];
        for (_, done) in &rows {
            let of_part = done.totals(points, subject.questions).ok_or_else(out_of_range)?;
            for (sum, (sets, found)) in totals.iter_mut().zip(of_part) {
                sum.0 += sets;
                sum.1.add(&found).ok_or_else(out_of_range)?;
            }
        }
        Ok(totals)
    }

    /// Refuses an experiment that is not complete.
    fn complete<T: Found>(&self, parts: &BTreeMap<u64, OfPart<'_, T>>, unit: &str) -> Result<(), Failure> {
        /// More parts are counted only.
        const NAMED: usize = 8;
        let header = &self.files[0].header;
        let (mut lines, mut missing, mut command) = (Vec::new(), 0, None);
        let layout = header.layout();
        for number in 1..=header.part.of {
            let part = Part { number, ..header.part };
            let (total, line, path) = match parts.get(&number) {
                None => {
                    let total = layout.of_part(number).total();
                    (total, format!("part {part} is missing ({total} {unit})"), PathBuf::from(format!("part-{number}")))
                }
                Some((file, layout, done)) => {
                    let (total, done) = (layout.total(), done.sets());
                    let line = format!("part {part} (`{}`) has {done} of {total} {unit}", file.path.display());
                    (total - done, line, file.path.clone())
                }
            };
            if total > 0 {
                missing += total;
                command.get_or_insert_with(|| header.command_of(part, &path));
                lines.push(line);
            }
        }
        let Some(command) = command else { return Ok(()) };
        let more = lines.len().saturating_sub(NAMED);
        lines.truncate(NAMED);
        if more > 0 {
            lines.push(format!("{more} more parts are missing or incomplete"));
        }
        let all: u64 = header.sets.iter().sum();
        let message = format!(
            "{missing} of {all} {unit} are missing: {}\nhint: `{command}` computes the first of them; `--partial` prints the others",
            lines.join("; ")
        );
        Err(Failure::status(1, Code::DamagedFile, message))
    }
}

/// Which of two files of one part counts: either if they have the same blocks, and the one with more of them otherwise.
fn same_part<'m, T: Found>(one: OfPart<'m, T>, other: OfPart<'m, T>, setup: &Value) -> Result<OfPart<'m, T>, Failure> {
    let (less, more) = if one.2.sets() < other.2.sets() { (one, other) } else { (other, one) };
    let (less_path, more_path) = (less.0.path.display(), more.0.path.display());
    let differ = |(point, block): (usize, u64), sets: u64| {
        let (_, first, _) = less.1.block(point, block);
        let points = ["points", "loads", "copies"].iter().find_map(|key| setup[*key].as_array());
        let point = points.and_then(|points| points.get(point)).map_or(json!(point), Value::clone);
        let message = format!(
            "`{less_path}` and `{more_path}` have different results of part {}, at point {point} in {sets} sets from {first} on",
            less.1.part
        );
        Failure::input(Code::OtherRecord, message, "make both again, or leave one of them out")
    };
    for (&at, row) in &less.2.rows {
        let within = |(key, around): (&(usize, u64), &Row<T>)| {
            let end = |first: u64, row: &Row<T>| first + row.sets.div_ceil(less.1.size);
            key.0 == at.0 && end(at.1, row) <= end(key.1, around)
        };
        // A row that is a part of a longer one cannot be compared with it.
        let around = more.2.rows.range(..=at).next_back();
        let is_same = around.is_some_and(|(key, around)| *key != at || around.sets != row.sets || around == row);
        if !is_same || !around.is_some_and(within) {
            return Err(differ(at, row.sets));
        }
    }
    let _ = writeln!(
        io::stderr(),
        "note: part {} is in `{less_path}` and in `{more_path}`: it counts once, as in the latter",
        less.1.part
    );
    Ok(more)
}
