//! The results of an experiment so far, in a file, so that a second call continues where the first one ended.
//!
//! Neighbouring blocks of a point are one row, with the sum of their results. Sums are exact, so no order of blocks changes them.

use super::fingerprint::fingerprint;
use super::part::{Layout, Part};
use super::singles::{Extent, Rows, beside};
use crate::failure::Failure;
use crate::files::{self, Locked};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use takt_workload::{Code, Source, shell_word};

/// The results of some blocks of one point.
pub(super) trait Found: Clone + PartialEq + Send + Sync {
    /// The results of no block, for so many questions.
    fn zero(questions: usize) -> Self;

    /// Adds the results of other blocks. `None` if the sum is out of range.
    fn add(&mut self, other: &Self) -> Option<()>;

    /// As the last cells of its row in the file.
    fn cells(&self) -> Vec<Value>;

    /// From the cells of a row.
    fn read(cells: &[Value]) -> Option<Self>;

    /// Whether it can be the result of so many sets, with so many questions.
    fn is_sound(&self, sets: u64, questions: usize) -> bool;
}

/// The experiment of a state.
pub(super) struct Subject {
    /// The name of the subcommand.
    pub(super) command: &'static str,
    /// All that the result depends on, but for the number of sets: more of them continue a smaller experiment.
    pub(super) setup: Value,
    /// The files that it reads.
    pub(super) files: Vec<Source>,
    /// A point has many of these: `sets` or `runs`.
    pub(super) unit: &'static str,
    /// Tests or policies that are asked about each set.
    pub(super) questions: usize,
    pub(super) layout: Layout,
}

/// The results of an experiment.
pub(super) struct Results<T> {
    /// The number of sets or runs and the results of each point.
    pub(super) points: Vec<(u64, T)>,
    /// The rows of single sets or runs, where they are wanted.
    pub(super) rows: Rows,
}

/// Marks the file as a state.
const FORMAT: &str = "takt sweep state 4";
/// Marks the states of all versions.
const ANY: &str = "takt sweep ";

/// A state has the texts of its files, unless they are longer than this together, in bytes.
const TEXTS_MOST: usize = 1 << 20;

/// All of a state's file but its rows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) command: String,
    pub(super) version: String,
    pub(super) part: Part,
    /// As that of [`Subject`].
    pub(super) unit: String,
    /// The number of sets of a block.
    pub(super) block: u64,
    /// The number of sets of each point, in all parts.
    pub(super) sets: Vec<u64>,
    pub(super) setup: Value,
    /// The command without the options that say where results are kept and drawn.
    pub(super) arguments: Vec<String>,
    /// Paths and texts of the files that the experiment reads.
    pub(super) files: Vec<(String, String)>,
    /// How much of the file beside the state is its own; `None` if it does not keep single sets or runs.
    pub(super) singles: Option<Extent>,
}

impl Header {
    fn of(subject: &Subject, keeps: bool) -> Header {
        let layout = &subject.layout;
        let length: usize = subject.files.iter().map(|file| file.text.len()).sum();
        let files = subject.files.iter().filter(|_| length <= TEXTS_MOST);
        Header {
            command: subject.command.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            part: layout.part,
            unit: subject.unit.into(),
            block: layout.size,
            sets: layout.sets.clone(),
            setup: subject.setup.clone(),
            arguments: own_arguments(),
            files: files.map(|file| (file.name.clone(), file.text.clone())).collect(),
            singles: keeps.then_some(Extent::EMPTY),
        }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.sets.clone(), self.block, self.part)
    }

    /// Whether parts can be computed from it.
    fn is_sound(&self) -> bool {
        let part = self.part;
        self.block > 0
            && (1..=super::part::PARTS_MOST).contains(&part.of)
            && (1..=part.of).contains(&part.number)
            && self.sets.iter().all(|sets| *sets <= super::part::SETS_MOST)
    }

    /// The command that makes the state of a part.
    pub(super) fn command_of(&self, part: Part, path: &Path) -> String {
        with_state(&self.made_by(part), path)
    }

    /// The way out of a damaged part.
    pub(super) fn again(&self, path: &Path) -> String {
        format!("remove it, and make it again: `{}`", self.command_of(self.part, path))
    }

    /// The way out of a damaged file beside it.
    pub(super) fn both_again(&self, path: &Path) -> String {
        format!("remove it and `{}`, and make both again: `{}`", path.display(), self.command_of(self.part, path))
    }

    /// The same without the name of the state.
    fn made_by(&self, part: Part) -> String {
        let shard = if part == Part::WHOLE { String::new() } else { format!(" --shard {part}") };
        let keep = self.singles.map_or_else(String::new, |_| format!(" --keep-{}", self.unit));
        command_of(&self.arguments) + &keep + &shard
    }
}

/// A command that keeps its results in a state.
fn with_state(command: &str, path: &Path) -> String {
    format!("{command} --state {}", shell_word(&path.display().to_string()))
}

/// The begin of a state, before the checksum of all that follows it.
const CHECKSUM: &str = r#"{"checksum":""#;
/// Between the checksum and the command that makes the state, which comes first so that a state that is cut still has it.
const MADE_BY: &str = r#"","made_by":"#;

/// The text of a state with its checksum, from an object with its format, header and rows.
fn sealed(whole: &Value, made_by: &str) -> String {
    let body = format!("{},{}", json!(made_by), &whole.to_string()[1..]);
    format!("{CHECKSUM}{}{MADE_BY}{body}", fingerprint(&body))
}

/// The command that has made a state, as far as it can be read, and whether its text is as it was written. `None` if it does not begin as one.
fn unsealed(text: &str) -> Option<(Option<String>, bool)> {
    let (checksum, body) = text.strip_prefix(CHECKSUM)?.split_once(MADE_BY)?;
    let command = serde_json::Deserializer::from_str(body).into_iter::<String>().next();
    Some((command.and_then(Result::ok), fingerprint(body.trim_end_matches('\n')) == checksum))
}

/// The arguments of this process without the options of [`ELSEWHERE`].
pub(super) fn own_arguments() -> Vec<String> {
    arguments(crate::life::arguments().into_iter().skip(1).map(|text| text.to_string_lossy().into_owned()))
}

/// The command with these arguments, for a shell.
pub(super) fn command_of(arguments: &[String]) -> String {
    let words = ["takt".to_owned()].into_iter().chain(arguments.iter().map(|word| shell_word(word)));
    words.collect::<Vec<String>>().join(" ")
}

/// Options that change no result, each with whether a value follows.
const ELSEWHERE: [(&str, bool); 12] = [
    ("--shard", true),
    ("--state", true),
    ("--threads", true),
    ("--svg", true),
    ("--html", true),
    ("--over-time", true),
    ("--runs", true),
    ("--title", true),
    ("--size", true),
    ("--json", false),
    ("--keep-runs", false),
    ("--keep-sets", false),
];

/// Removes the options of [`ELSEWHERE`].
fn arguments(given: impl Iterator<Item = String>) -> Vec<String> {
    let (mut kept, mut is_value) = (Vec::new(), false);
    for word in given {
        let skipped = std::mem::replace(&mut is_value, false);
        let option = ELSEWHERE.iter().find(|(name, _)| word == *name);
        is_value = !skipped && option.is_some_and(|(_, value)| *value);
        let joined =
            ELSEWHERE.iter().any(|(name, _)| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')));
        if !skipped && option.is_none() && !joined {
            kept.push(word);
        }
    }
    kept
}

/// The first difference between two experiments, as its key and both values.
pub(super) fn difference(one: &Value, other: &Value) -> Option<(String, Value, Value)> {
    let keys = |value: &Value| value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let all = keys(one).into_iter().chain(keys(other));
    all.map(|key| (one[&key].clone(), other[&key].clone(), key)).find(|(a, b, _)| a != b).map(|(a, b, key)| (key, a, b))
}

/// The text of a state.
///
/// # Errors
/// Status 2 if it is no state, or a damaged one, with this way out.
pub(super) fn read(path: &Path, way_out: &str) -> Result<(Header, Vec<Value>), Failure> {
    let name = path.display();
    let bytes = files::contents(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let file = serde_json::from_str::<Value>(&text).ok();
    let seal = unsealed(&text);
    if let Some((command, false)) = &seal {
        let again = command.as_ref().map(|command| {
            format!("remove it, and make it again: `{}`, as far as it can be read", with_state(command, path))
        });
        let message = format!("`{name}` is damaged: its checksum is another one");
        return Err(Failure::input(Code::DamagedFile, message, again.as_deref().unwrap_or(way_out)));
    }
    let format = file.as_ref().and_then(|file| file["format"].as_str());
    if format.is_some_and(|format| format != FORMAT && format.starts_with(ANY)) {
        let message = format!("`{name}` is a state of another version, which this one cannot continue");
        return Err(Failure::input(
            Code::WrongFormat,
            message,
            "continue it by that version, or make it again under another name",
        ));
    }
    let Some(mut file) = file.filter(|_| seal.is_some()).filter(|file| file["format"] == FORMAT) else {
        return Err(Failure::input(
            Code::WrongFormat,
            format!("`{name}` is not the state of such an experiment"),
            way_out,
        ));
    };
    let damaged = || Failure::input(Code::DamagedFile, format!("`{name}` is damaged"), way_out);
    let Value::Array(rows) = file["done"].take() else { return Err(damaged()) };
    let header = serde_json::from_value::<Header>(file).ok().filter(Header::is_sound);
    Ok((header.ok_or_else(damaged)?, rows))
}

/// Writes a whole state, and returns the lock of its file.
fn write<T: Found>(path: &Path, header: &Header, done: &Done<T>) -> Result<Option<Locked>, Failure> {
    let row = |(point, block): &(usize, u64), row: &Row<T>| -> Value {
        [json!(point), json!(block), json!(row.sets)].into_iter().chain(row.found.cells()).collect()
    };
    let mut whole = json!(header);
    whole["format"] = json!(FORMAT);
    whole["done"] = done.rows.iter().map(|(at, found)| row(at, found)).collect();
    files::replace(path, &sealed(&whole, &header.made_by(header.part)).to_string())
}

/// Neighbouring blocks of one point, with the sum of their results.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row<T> {
    /// A multiple of the size of a block, or fewer than that: an incomplete last block is a row of its own.
    pub(super) sets: u64,
    pub(super) found: T,
}

impl<T: Found> Row<T> {
    /// `None` if the sum is out of range.
    fn add(&mut self, other: &Row<T>) -> Option<()> {
        self.sets = self.sets.checked_add(other.sets)?;
        self.found.add(&other.found)
    }
}

/// The blocks that are done.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Done<T> {
    /// By the point and the number of the first block.
    pub(super) rows: BTreeMap<(usize, u64), Row<T>>,
}

impl<T: Found> Done<T> {
    pub(super) const fn new() -> Done<T> {
        Done { rows: BTreeMap::new() }
    }

    /// Reads the rows of a state. `None` if they cannot be those of such a part.
    pub(super) fn read(rows: &[Value], layout: &Layout, questions: usize) -> Option<Done<T>> {
        let mut done = Done::new();
        let mut end = (0, 0);
        for row in rows {
            let (point, block, sets) = (usize::try_from(row[0].as_u64()?).ok()?, row[1].as_u64()?, row[2].as_u64()?);
            let found = T::read(row.as_array()?.get(3..)?)?;
            let next = block.checked_add(sets.div_ceil(layout.size))?;
            let is_here =
                point < layout.sets.len() && sets > 0 && (point, block) >= end && next <= layout.blocks_at(point);
            let is_whole = is_here && (sets.is_multiple_of(layout.size) || layout.block(point, block).2 == sets);
            let is_full =
                is_whole && (!sets.is_multiple_of(layout.size) || layout.block(point, next - 1).2 == layout.size);
            if !is_full || !found.is_sound(sets, questions) {
                return None;
            }
            end = (point, next);
            done.rows.insert((point, block), Row { sets, found });
        }
        Some(done)
    }

    /// Adds a block that is not there yet. `None` if a sum is out of range.
    pub(super) fn insert(&mut self, (point, block): (usize, u64), sets: u64, found: T, size: u64) -> Option<()> {
        let (mut at, next) = ((point, block), (point, block + 1));
        let mut row = Row { sets, found };
        if sets == size {
            let before = self.rows.range(..at).next_back().map(|(key, row)| (*key, row.sets));
            let is_neighbour = |((p, first), sets): &((usize, u64), u64)| {
                *p == point && first + sets / size == block && sets.is_multiple_of(size)
            };
            if let Some((key, _)) = before.filter(is_neighbour) {
                // The longer row takes the shorter one.
                let mut longer = self.rows.remove(&key)?;
                longer.add(&row)?;
                (at, row) = (key, longer);
            }
            if self.rows.get(&next).is_some_and(|row| row.sets.is_multiple_of(size)) {
                row.add(&self.rows.remove(&next)?)?;
            }
        }
        self.rows.insert(at, row);
        Some(())
    }

    /// The blocks of each row, by their first one.
    pub(super) fn ranges(&self, size: u64) -> BTreeMap<(usize, u64), u64> {
        self.rows.iter().map(|(key, row)| (*key, row.sets.div_ceil(size))).collect()
    }

    /// The number of sets.
    pub(super) fn sets(&self) -> u64 {
        self.rows.values().map(|row| row.sets).sum()
    }

    /// The number of sets and the sum of the results of each point. `None` if a sum is out of range.
    pub(super) fn totals(&self, points: usize, questions: usize) -> Option<Vec<(u64, T)>> {
        let mut totals = vec![(0, T::zero(questions)); points];
        for ((point, _), row) in &self.rows {
            totals[*point].0 += row.sets;
            totals[*point].1.add(&row.found)?;
        }
        Some(totals)
    }
}

/// The blocks that are done, and their file.
pub(super) struct State<'a, T> {
    path: Option<PathBuf>,
    /// The file that was read or written last.
    locked: Option<Locked>,
    header: Header,
    subject: &'a Subject,
    pub(super) done: Done<T>,
    /// Rows that are not in the file beside the state.
    rows: Rows,
}

impl<'a, T: Found> State<'a, T> {
    /// Reads the file if there is one. Its setup must be that of `subject`. `keeps` requires the rows of single sets or runs.
    pub(super) fn open(path: Option<&Path>, subject: &'a Subject, keeps: bool) -> Result<State<'a, T>, Failure> {
        let path_buf = path.map(Path::to_path_buf);
        let header = Header::of(subject, keeps);
        let (done, rows) = (Done::new(), Rows::new());
        let mut state = State { path: path_buf, locked: None, header, subject, done, rows };
        let Some(path) = path else { return Ok(state) };
        state.locked = files::lock_state(path)?;
        // A call that was killed before its first save leaves an empty file.
        let is_empty = || std::fs::metadata(path).is_ok_and(|known| known.is_file() && known.len() == 0);
        if state.locked.as_ref().is_some_and(Locked::is_new) || is_empty() {
            state.check_rows(path)?;
            return Ok(state);
        }
        let other = "name another file with `--state`, or remove this one";
        let (then, rows) = read(path, other)?;
        let name = path.display();
        if then.command != subject.command {
            let message =
                format!("`{name}` is not the state of such an experiment, but of `takt sweep {}`", then.command);
            return Err(Failure::input(Code::WrongFormat, message, other));
        }
        let mut now = subject.setup.clone();
        let mut before = then.setup.clone();
        for (setup, header) in [(&mut now, &state.header), (&mut before, &then)] {
            setup["version"] = json!(header.version);
            setup["shard"] = json!(header.part.to_string());
        }
        if let Some((key, now, then)) = difference(&now, &before) {
            let message = format!("`{name}` is of another experiment: its `{key}` is {then}, and now it is {now}");
            return Err(Failure::input(Code::OtherRecord, message, other));
        }
        let layout = &subject.layout;
        if let Some((then, now)) = then.sets.iter().zip(&layout.sets).find(|(then, now)| then > now) {
            let message = format!("`{name}` is of {then} sets or runs at a point, and now there are {now}");
            let hint = format!("raise `--sets` or `--seeds` to {then}, or name another file with `--state`");
            return Err(Failure::input(Code::OtherRecord, message, &hint));
        }
        let done = Done::read(&rows, &then.layout(), subject.questions);
        let sizes = then.block == layout.size && then.sets.len() == layout.sets.len();
        let Some(done) = done.filter(|_| sizes) else {
            return Err(Failure::input(Code::DamagedFile, format!("`{name}` is damaged"), other));
        };
        state.done = done;
        if then.singles.is_some() || !state.done.rows.is_empty() {
            state.header.singles = then.singles;
        }
        if keeps && state.header.singles.is_none() {
            return Err(without_rows(path, subject.unit));
        }
        state.check_rows(path)?;
        // A block that was the last one may have more sets now.
        state.done.rows.retain(|(point, block), row| {
            row.sets.is_multiple_of(layout.size) || layout.block(*point, *block).2 == row.sets
        });
        Ok(state)
    }

    fn check_rows(&self, path: &Path) -> Result<(), Failure> {
        let Some(extent) = self.header.singles else { return Ok(()) };
        extent.check(&beside(path), &self.header.both_again(path))
    }

    /// Whether the rows of single sets or runs are kept.
    pub(super) fn keeps(&self) -> bool {
        self.header.singles.is_some()
    }

    /// All rows.
    ///
    /// # Errors
    /// The file beside the state is damaged.
    pub(super) fn into_rows(self) -> Result<Rows, Failure> {
        match (&self.path, self.header.singles) {
            (Some(path), Some(extent)) => extent.read(&beside(path), &self.header.both_again(path)),
            _ => Ok(self.rows),
        }
    }

    /// Adds a block, with the rows of its sets or runs where they are kept.
    ///
    /// # Errors
    /// A sum is out of range.
    pub(super) fn insert(&mut self, at: (usize, u64), found: T, rows: Vec<String>) -> Result<(), Failure> {
        let layout = &self.subject.layout;
        let (point, first, sets) = layout.block(at.0, at.1);
        self.rows.extend((first..).zip(rows).map(|(number, row)| ((point, number), row)));
        self.done.insert(at, sets, found, layout.size).ok_or_else(out_of_range)
    }

    /// Writes the state if it has a file.
    ///
    /// # Errors
    /// Status 1 if the file cannot be written. The file has the state from before then.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        // Rows are written before the state. The next call cuts off rows behind the bytes that the state counts.
        if let Some(extent) = &mut self.header.singles
            && !self.rows.is_empty()
        {
            extent.append(&beside(path), &self.rows)?;
            self.rows.clear();
        }
        let mut locked = write(path, &self.header, &self.done)?;
        std::mem::swap(&mut self.locked, &mut locked);
        Ok(())
    }
}

/// The failure for a sum that is out of range.
pub(super) fn out_of_range() -> Failure {
    Failure::input(Code::OutOfRange, "the sum of all results is out of range", "take fewer sets or shorter runs")
}

/// The failure for rows of single sets or runs that a state does not have.
pub(super) fn without_rows(path: &Path, unit: &str) -> Failure {
    let message = format!("`{}` has no rows of single {unit}", path.display());
    let hint = format!("make it again with `--keep-{unit}`, or leave out `--runs` and `--keep-{unit}`");
    Failure::input(Code::OtherRecord, message, &hint)
}

/// Writes the state of a whole experiment, whose parts these are, and its rows of single sets or runs if it has them.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_whole<T: Found>(
    path: &Path,
    header: &Header,
    parts: &[(Layout, Done<T>)],
    rows: Option<&Rows>,
) -> Result<(), Failure> {
    let size = header.block;
    let mut whole: Done<T> = Done::new();
    for (part, done) in parts {
        for ((point, block), row) in &done.rows {
            let is_full = row.sets.is_multiple_of(size);
            // All blocks are there, so the full blocks are one row.
            let at = if is_full { (*point, 0) } else { (*point, part.index(*point, *block)) };
            match whole.rows.get_mut(&at).filter(|_| is_full) {
                Some(sum) => sum.add(row).ok_or_else(out_of_range)?,
                None => {
                    whole.rows.insert(at, row.clone());
                }
            }
        }
    }
    let mut singles = None;
    if let Some(rows) = rows {
        Extent::EMPTY.check(&beside(path), "")?;
        singles.insert(Extent::EMPTY).append(&beside(path), rows)?;
    }
    write(path, &Header { part: Part::WHOLE, singles, ..header.clone() }, &whole).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_kept_without_their_outputs() {
        let given = "sweep load --shard 1/4 --loads 1 --state=p1 --json --runs a.csv --html=c.html --title t f.yaml --threads 3 --size=3x4";
        let kept = arguments(given.split(' ').map(String::from));
        assert_eq!(kept.join(" "), "sweep load --loads 1 f.yaml");
    }
}
