//! The results of all parts of an experiment, from their states.

use super::part::{Layout, Part};
use super::singles::{Rows, beside};
use super::state::{self, Done, Found, Header, Results, Subject, difference, out_of_range, without_rows};
use crate::failure::Failure;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use takt_workload::{Code, Source};

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

/// One part, and the files that have it, the one with most of it first.
struct OfPart<'m, T> {
    files: Vec<&'m File>,
    layout: Layout,
    done: Done<T>,
}

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

    /// The texts of the files that the experiment has read.
    pub(super) fn texts(&self) -> Vec<Source> {
        let files = self.files[0].header.files.iter();
        files.map(|(name, text)| Source { name: name.clone(), text: text.clone() }).collect()
    }

    /// The files beside the states.
    pub(super) fn beside(&self) -> impl Iterator<Item = PathBuf> {
        let kept = self.files.iter().filter(|file| file.header.singles.is_some());
        kept.map(|file| beside(&file.path))
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

    /// The results of each point, and the rows of single sets or runs if they are `wanted`.
    ///
    /// # Errors
    /// Files that are damaged or disagree, parts that are missing, and parts without such rows.
    pub(super) fn totals<T: Found>(&self, subject: &Subject, wanted: bool) -> Result<Results<T>, Failure> {
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
                let message = format!("`{}` is damaged", file.path.display());
                return Err(Failure::input(Code::DamagedFile, message, &file.header.again(&file.path)));
            };
            let number = file.header.part.number;
            let own = OfPart { files: vec![file], layout, done };
            let chosen = match parts.remove(&number) {
                None => own,
                Some(other) => same_part(other, own, &subject.setup)?,
            };
            parts.insert(number, chosen);
        }
        if !self.partial {
            self.complete(&parts, subject.unit)?;
        }
        let has_rows = || parts.values().flat_map(|part| &part.files).all(|file| file.header.singles.is_some());
        let rows = if wanted || self.whole.is_some() && has_rows() { Some(rows(&parts, subject.unit)?) } else { None };
        let done: Vec<(Layout, Done<T>)> = parts.into_values().map(|part| (part.layout, part.done)).collect();
        if let Some(whole) = &self.whole {
            state::write_whole(whole, &first.header, &done, rows.as_ref())?;
        }
        let points = subject.layout.sets.len();
        let mut totals = vec![(0, T::zero(subject.questions)); points];
        for (_, done) in &done {
            let of_part = done.totals(points, subject.questions).ok_or_else(out_of_range)?;
            for (sum, (sets, found)) in totals.iter_mut().zip(of_part) {
                sum.0 += sets;
                sum.1.add(&found).ok_or_else(out_of_range)?;
            }
        }
        Ok(Results { points: totals, rows: rows.unwrap_or_default() })
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
                Some(OfPart { files, layout, done }) => {
                    let (total, done) = (layout.total(), done.sets());
                    let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.path.display())).collect();
                    let line = format!("part {part} ({}) has {done} of {total} {unit}", names.join(", "));
                    (total - done, line, files[0].path.clone())
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
        Err(Failure::status(1, Code::IncompleteRecord, message))
    }
}

/// The rows of single sets or runs of the blocks that are done.
fn rows<T: Found>(parts: &BTreeMap<u64, OfPart<'_, T>>, unit: &str) -> Result<Rows, Failure> {
    let mut all = Rows::new();
    for OfPart { files, layout, done } in parts.values() {
        let ranges = done.ranges(layout.size).into_iter();
        let blocks: BTreeSet<(usize, u64)> = ranges
            .flat_map(|((point, first), count)| (first..first + count).map(move |block| (point, block)))
            .map(|(point, block)| (point, layout.index(point, block)))
            .collect();
        for file in files {
            let extent = file.header.singles.ok_or_else(|| without_rows(&file.path, unit))?;
            let rows = extent.read(&beside(&file.path), &file.header.both_again(&file.path))?;
            all.extend(rows.into_iter().filter(|((point, set), _)| blocks.contains(&(*point, set / layout.size))));
        }
    }
    Ok(all)
}

/// Unites two files of one part. A row of the file with fewer sets counts if no block of it is in the other one. It takes the place of rows that are
/// parts of it. If two rows share only some blocks, the row of the file with more sets counts.
fn same_part<'m, T: Found>(one: OfPart<'m, T>, other: OfPart<'m, T>, setup: &Value) -> Result<OfPart<'m, T>, Failure> {
    let (less, mut more) = if one.done.sets() < other.done.sets() { (one, other) } else { (other, one) };
    let (less_path, more_path) = (less.files[0].path.display(), more.files[0].path.display());
    let differ = |(point, block): (usize, u64), sets: u64| {
        let (_, first, _) = less.layout.block(point, block);
        let points = ["points", "loads", "copies"].iter().find_map(|key| setup[*key].as_array());
        let point = points.and_then(|points| points.get(point)).map_or(json!(point), Value::clone);
        let message = format!(
            "`{less_path}` and `{more_path}` have different results of part {}, at point {point} in {sets} sets from {first} on",
            less.layout.part
        );
        Failure::input(Code::OtherRecord, message, "make both again, or leave one of them out")
    };
    let size = less.layout.size;
    let mut taken = false;
    for (&(point, first), row) in &less.done.rows {
        let end = first + row.sets.div_ceil(size);
        let shared: Vec<(u64, u64)> = (more.done.rows.range((point, 0)..(point, end)))
            .map(|((_, from), row)| (*from, from + row.sets.div_ceil(size)))
            .filter(|(_, to)| *to > first)
            .collect();
        if let [same] = shared[..]
            && same == (first, end)
        {
            if more.done.rows.get(&(point, first)) != Some(row) {
                return Err(differ((point, first), row.sets));
            }
        } else if shared.iter().all(|(from, to)| (first..=end).contains(from) && *to <= end) {
            shared.iter().for_each(|(from, _)| drop(more.done.rows.remove(&(point, *from))));
            more.done.rows.insert((point, first), row.clone());
            taken = true;
        }
    }
    let part = less.layout.part;
    let counts = if taken { "its sets count once" } else { "it counts once, as in the latter" };
    let _ = writeln!(io::stderr(), "note: part {part} is in `{less_path}` and in `{more_path}`: {counts}");
    if taken {
        more.files.extend(less.files);
    }
    Ok(more)
}
