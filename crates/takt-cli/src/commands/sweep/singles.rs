//! The rows of single runs or sets, in a file beside the state of their experiment.
//!
//! Rows are appended, and the state says how many bytes are its own. The next call cuts off bytes that an interruption leaves behind these.

use super::fingerprint::{BASIS, continued};
use crate::failure::Failure;
use crate::files;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use takt_workload::Code;

/// CSV rows with their ends of line, by the point and the number of the run or set.
pub(super) type Rows = BTreeMap<(usize, u64), String>;

/// How much of the file belongs to a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Extent {
    bytes: u64,
    /// That of all these bytes.
    fingerprint: u64,
}

/// The first line of the file.
const TITLE: &str = "takt sweep rows 1\n";

/// The file of a state.
pub(super) fn beside(state: &Path) -> PathBuf {
    let mut path = state.as_os_str().to_owned();
    path.push(".rows");
    path.into()
}

impl Extent {
    /// No row.
    pub(super) const EMPTY: Extent = Extent { bytes: 0, fingerprint: BASIS };

    /// Appends rows.
    ///
    /// # Errors
    /// Status 1 if the file cannot be written.
    pub(super) fn append(&mut self, path: &Path, rows: &Rows) -> Result<(), Failure> {
        let mut text = if self.bytes == 0 { TITLE.to_owned() } else { String::new() };
        for ((point, number), row) in rows {
            text += &json!([point, number, row]).to_string();
            text.push('\n');
        }
        files::write_from(path, self.bytes, &text)?;
        self.bytes += text.len() as u64;
        self.fingerprint = continued(self.fingerprint, text.as_bytes());
        Ok(())
    }

    /// Refuses a file that cannot be continued.
    ///
    /// # Errors
    /// Status 2 if it is damaged, with this way out, or of another kind.
    pub(super) fn check(self, path: &Path, way_out: &str) -> Result<(), Failure> {
        if self != Extent::EMPTY {
            return self.text(path, way_out).map(drop);
        }
        let is_own = |bytes: Vec<u8>| bytes.is_empty() || bytes.starts_with(TITLE.as_bytes());
        if !path.exists() || is_own(files::contents(path)?) {
            return Ok(());
        }
        let message = format!("`{}` is no file of rows of an experiment, and would be overwritten", path.display());
        Err(Failure::input(Code::FileExists, message, "move it, or name another file with `--state`"))
    }

    fn text(self, path: &Path, way_out: &str) -> Result<String, Failure> {
        let damaged = |_| Failure::input(Code::DamagedFile, format!("`{}` is damaged", path.display()), way_out);
        let mut bytes = files::contents(path)?;
        bytes.truncate(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        let is_whole = bytes.len() as u64 == self.bytes && continued(BASIS, &bytes) == self.fingerprint;
        is_whole.then_some(()).ok_or(()).map_err(damaged)?;
        String::from_utf8(bytes).map_err(|_| damaged(()))
    }

    /// Reads the rows. A row can be there twice, if its set was computed again with more sets in the block.
    ///
    /// # Errors
    /// Status 2 if the file is damaged, with this way out.
    pub(super) fn read(self, path: &Path, way_out: &str) -> Result<Rows, Failure> {
        if self == Extent::EMPTY {
            return Ok(Rows::new());
        }
        let text = self.text(path, way_out)?;
        let row = |line| serde_json::from_str(line).ok().map(|(point, number, row)| ((point, number), row));
        let rows: Option<Rows> = text.lines().skip(1).map(row).collect();
        rows.ok_or_else(|| Failure::input(Code::DamagedFile, format!("`{}` is damaged", path.display()), way_out))
    }
}

/// The rows as CSV.
pub(super) fn csv(title: &str, rows: &Rows) -> String {
    let rows: String = rows.values().map(String::as_str).collect();
    format!("{title}\n{rows}")
}

/// A cell of CSV: settings have commas between them.
pub(super) fn quoted(name: &str) -> String {
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_string() }
}
