//! The findings of an experiment so far, in a file, so that a second call continues where the first one ended.

use crate::failure::Failure;
use crate::files::{self, Locked};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use takt_workload::Code;

/// A block of sets of one point: the point, the first set, and how many.
pub(super) type Block = (usize, u64, u64);

/// The findings about a block.
pub(super) trait Found: Clone + Send + Sync {
    /// As the last cells of its row in the file.
    fn cells(&self) -> Vec<Value>;

    /// From the cells of a row.
    fn read(cells: &[Value]) -> Option<Self>;

    /// Whether it can be what was found out about a block of so many sets, with so many questions.
    fn is_sound(&self, sets: u64, questions: usize) -> bool;
}

/// The subject of a state.
pub(super) struct Subject {
    /// Marks the file as ours, and says how it is laid out.
    pub(super) format: &'static str,
    /// All that the result depends on, but for the number of sets: more of them continue a smaller experiment.
    pub(super) setup: Value,
    /// How many tests or policies are asked about each set.
    pub(super) questions: usize,
}

/// The blocks that are done.
pub(super) struct State<'a, T> {
    path: Option<PathBuf>,
    /// The file that was read or written last.
    locked: Option<Locked>,
    subject: &'a Subject,
    pub(super) done: BTreeMap<Block, T>,
}

impl<'a, T: Found> State<'a, T> {
    /// Reads the file if there is one. Its setup must be this one: what was found under another does not belong here.
    pub(super) fn open(path: Option<&Path>, subject: &'a Subject) -> Result<State<'a, T>, Failure> {
        let path_buf = path.map(Path::to_path_buf);
        let mut state = State { path: path_buf, locked: None, subject, done: BTreeMap::new() };
        let Some(path) = path else { return Ok(state) };
        state.locked = files::lock(path)?;
        if state.locked.as_ref().is_some_and(Locked::is_new) {
            return Ok(state);
        }
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) => return Err(Failure::file("read", path, &e)),
        };
        let name = path.display();
        let other = "name another file with `--state`, or remove this one";
        let Some(file) = serde_json::from_str::<Value>(&text).ok().filter(|v| v["format"] == subject.format) else {
            return Err(Failure::input(
                Code::WrongFormat,
                format!("`{name}` is not the state of such an experiment"),
                other,
            ));
        };
        let mut settings = subject.setup.as_object().into_iter().flatten();
        if let Some((key, now)) = settings.find(|(key, now)| file["setup"][key.as_str()] != **now) {
            let then = &file["setup"][key.as_str()];
            let message = format!("`{name}` is of another experiment: its `{key}` is {then}, and now it is {now}");
            return Err(Failure::input(Code::OtherRecord, message, other));
        }
        let blocks = file["done"].as_array().into_iter().flatten().map(|row| read(row, subject.questions));
        match blocks.collect::<Option<_>>() {
            Some(done) => state.done = done,
            None => return Err(Failure::input(Code::DamagedFile, format!("`{name}` is damaged"), other)),
        }
        Ok(state)
    }

    /// Writes everything into a new file and puts it in the place of the old one, so that an interrupted process leaves one of
    /// the two.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let fault = |e: &io::Error| Failure::file("write", path, e);
        let row = |((point, first, sets), found): (&Block, &T)| -> Value {
            [json!(point), json!(first), json!(sets)].into_iter().chain(found.cells()).collect()
        };
        let rows: Vec<Value> = self.done.iter().map(row).collect();
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|e| fault(&e))?;
        let whole = json!({"format": self.subject.format, "setup": self.subject.setup, "done": rows});
        writeln!(file, "{whole}").map_err(|e| fault(&e))?;
        file.as_file().sync_data().map_err(|e| fault(&e))?;
        // Another process that waits for the old file finds the new one locked.
        let own = file.as_file().try_clone().map_err(|e| fault(&e))?;
        let mut locked = files::lock_open(own, path, false).map_err(|why| fault(&why.into()))?;
        file.persist(path).map_err(|e| fault(&e.error))?;
        std::mem::swap(&mut self.locked, &mut locked);
        Ok(())
    }
}

fn read<T: Found>(row: &Value, questions: usize) -> Option<(Block, T)> {
    let block = (usize::try_from(row[0].as_u64()?).ok()?, row[1].as_u64()?, row[2].as_u64()?);
    let found = T::read(row.as_array()?.get(3..)?)?;
    found.is_sound(block.2, questions).then_some((block, found))
}
