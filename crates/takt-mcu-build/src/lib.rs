//! For build scripts: a workload file becomes a table of the microcontroller kernel (`takt-mcu`).
//!
//! ```no_run
//! fn main() -> Result<(), takt_mcu_build::Failed> {
//!     takt_mcu_build::workload("first.yaml").stack("logger", 1024).write()
//! }
//! ```

mod policies;
mod source;
mod table;

pub use source::{identifiers, source};
pub use table::{DEFAULT_STACK, LEAST_STACK, Settings, Table, read, table};

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use takt_workload::{Diagnostic, Options, Source, policy_from_text};

/// Why there is no table, as text for people. A build script returns it from `main`.
pub struct Failed(String);

/// The text itself, since cargo shows errors of build scripts in this form.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.0)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// A workload on its way to a table.
#[derive(Clone, Debug)]
pub struct Builder {
    path: PathBuf,
    name: String,
    policy: Option<String>,
    settings: Settings,
}

/// Begins with a workload file. The table has the file's name in capitals.
#[must_use]
pub fn workload(path: impl AsRef<Path>) -> Builder {
    let path = path.as_ref().to_path_buf();
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = identifiers(&[stem]).remove(0);
    Builder { path, name, policy: None, settings: Settings::default() }
}

impl Builder {
    /// Gives the table another name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Builder {
        self.name = name.to_owned();
        self
    }
    /// Gives a task a stack of so many bytes.
    #[must_use]
    pub fn stack(mut self, task: &str, bytes: u32) -> Builder {
        self.settings.stacks.push((task.to_owned(), bytes));
        self
    }
    /// Gives all other tasks stacks of so many bytes.
    #[must_use]
    pub fn default_stack(mut self, bytes: u32) -> Builder {
        self.settings.stack = bytes;
        self
    }
    /// A fault in the task aborts its job, and the task begins again.
    #[must_use]
    pub fn on_fault_restart(mut self, task: &str) -> Builder {
        self.settings.restarts.push(task.to_owned());
        self
    }
    /// Takes another policy than that of the file, as the command line of `takt` names it.
    #[must_use]
    pub fn policy(mut self, policy: &str) -> Builder {
        self.policy = Some(policy.to_owned());
        self
    }
    /// A workload that is not schedulable is a warning, and no error.
    #[must_use]
    pub fn allow_unschedulable(mut self) -> Builder {
        self.settings.allow_unschedulable = true;
        self
    }

    /// The table.
    ///
    /// # Errors
    /// Each fault with its place in the file.
    pub fn table(&self) -> Result<(Source, Table), Failed> {
        let (source, workload) = self.read()?;
        let table = table(&workload, &self.settings).map_err(|faults| rendered(&source, &faults))?;
        Ok((source, table))
    }

    /// Writes the steps of the tasks' simulated programs as `takt_steps.rs`, for a program that does the same. `STEPS` has those of each
    /// task as values of `Do`, `EVENTS` the tasks that events release, and `EVENT_PERIOD` the shortest time between events.
    ///
    /// # Errors
    /// Those of [`Builder::table`]; or the file cannot be written.
    pub fn write_steps(&self) -> Result<(), Failed> {
        let directory = std::env::var_os("OUT_DIR");
        let directory = directory.ok_or_else(|| Failed("OUT_DIR is not set: only a build script can write".into()))?;
        let path = Path::new(&directory).join("takt_steps.rs");
        let failed = |why: io::Error| Failed(format!("cannot write {}: {why}", path.display()));
        std::fs::write(&path, source::steps(&self.read()?.1)).map_err(failed)
    }

    /// The file, read with the policy of the build script.
    fn read(&self) -> Result<(Source, takt_workload::Workload), Failed> {
        let source = Source::read(&self.path).map_err(|why| Failed(why.render(false)))?;
        let policy = self.policy.as_deref().map(policy_from_text).transpose().map_err(|why| Failed(why.to_string()))?;
        let options = Options { policy, ..Options::default() };
        let workload = takt_workload::load(source.clone(), &options).map_err(|faults| rendered(&source, &faults))?;
        Ok((source, workload))
    }

    /// Writes the table where `takt_mcu::tables!` finds it, and passes warnings on to cargo.
    ///
    /// # Errors
    /// Those of [`Builder::table`]; or the file cannot be written.
    pub fn write(&self) -> Result<(), Failed> {
        let directory = std::env::var_os("OUT_DIR");
        let directory = directory.ok_or_else(|| Failed("OUT_DIR is not set: only a build script can write".into()))?;
        let (source, table) = self.table()?;
        let path = Path::new(&directory).join("takt_tables.rs");
        let failed = |why: io::Error| Failed(format!("cannot write {}: {why}", path.display()));
        std::fs::write(&path, self::source(&table, &self.name)).map_err(failed)?;
        let mut out = io::stdout().lock();
        writeln!(out, "cargo::rerun-if-changed={}", self.path.display()).map_err(failed)?;
        for warning in &table.warnings {
            for line in warning.render(&source, false).lines() {
                writeln!(out, "cargo::warning={line}").map_err(failed)?;
            }
        }
        Ok(())
    }
}

fn rendered(source: &Source, faults: &[Diagnostic]) -> Failed {
    Failed(faults.iter().map(|fault| fault.render(source, false)).collect::<Vec<_>>().join("\n"))
}
