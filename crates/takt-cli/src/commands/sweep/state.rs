//! What an experiment has found so far, in a file, so that a second call goes on where the first one ended.

use crate::failure::Failure;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A block of sets of one point: the point, the first set, and how many.
pub(super) type Block = (usize, u64, u64);

/// What each test said about a block: how many sets it accepted, and about how many it could not say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    pub(super) accepted: Vec<u64>,
    pub(super) unknown: Vec<u64>,
}

/// The blocks that are done.
pub(super) struct State {
    path: Option<PathBuf>,
    setup: Value,
    pub(super) done: BTreeMap<Block, Counts>,
}

/// Marks a file as ours, and says how it is laid out.
const FORMAT: &str = "takt sweep schedulability 1";

impl State {
    /// Reads the file if there is one. Its setup must be this one: what was found under another does not belong here.
    pub(super) fn open(path: Option<&Path>, setup: Value, tests: usize) -> Result<State, Failure> {
        let mut state = State { path: path.map(Path::to_path_buf), setup, done: BTreeMap::new() };
        let Some(path) = path else { return Ok(state) };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(state),
            Err(e) => return Err(Failure::file("read", path, &e)),
        };
        let name = path.display();
        let other = "name another file with `--state`, or remove this one";
        let Some(file) = serde_json::from_str::<Value>(&text).ok().filter(|v| v["format"] == FORMAT) else {
            return Err(Failure::input(format!("`{name}` is not the state of an experiment"), other));
        };
        let mut settings = state.setup.as_object().into_iter().flatten();
        if let Some((key, now)) = settings.find(|(key, now)| file["setup"][key.as_str()] != **now) {
            let then = &file["setup"][key.as_str()];
            let message = format!("`{name}` is of another experiment: its `{key}` is {then}, and now it is {now}");
            return Err(Failure::input(message, other));
        }
        let blocks = file["done"].as_array().into_iter().flatten().map(|row| read(row, tests));
        match blocks.collect::<Option<_>>() {
            Some(done) => state.done = done,
            None => return Err(Failure::input(format!("`{name}` is damaged"), other)),
        }
        Ok(state)
    }

    /// Writes everything into a new file and puts it in the place of the old one, so that whoever is interrupted leaves one of
    /// the two.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let fault = |e: &io::Error| Failure::file("write", path, e);
        let rows: Vec<Value> = self
            .done
            .iter()
            .map(|((point, first, sets), c)| json!([point, first, sets, c.accepted, c.unknown]))
            .collect();
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|e| fault(&e))?;
        writeln!(file, "{}", json!({"format": FORMAT, "setup": self.setup, "done": rows})).map_err(|e| fault(&e))?;
        file.as_file().sync_data().map_err(|e| fault(&e))?;
        file.persist(path).map_err(|e| fault(&e.error))?;
        Ok(())
    }
}

fn read(row: &Value, tests: usize) -> Option<(Block, Counts)> {
    let list = |value: &Value| value.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
    let block = (usize::try_from(row[0].as_u64()?).ok()?, row[1].as_u64()?, row[2].as_u64()?);
    let counts = Counts { accepted: list(&row[3])?, unknown: list(&row[4])? };
    let whole = |counts: &[u64]| counts.len() == tests && counts.iter().all(|n| *n <= block.2);
    (whole(&counts.accepted) && whole(&counts.unknown)).then_some((block, counts))
}
