//! Runs: commands of this program, whose results are read as tables and kept.

use super::form::{Invocation, Length, Publication, Rows};
use super::rows::{Row, Table};
use crate::commands::sweep::experiment::Ends;
use crate::commands::sweep::fingerprint::fingerprint;
use crate::failure::Failure;
use crate::files::{self, Locked};
use crate::scratch::{self, Scratch};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use takt_workload::{Code, Diagnostic, shell_word};

/// Marks the file as a state.
const FORMAT: &str = "takt repro state 1";

/// The results of runs, by their commands and files.
#[derive(Serialize, Deserialize)]
struct State {
    format: String,
    version: String,
    runs: BTreeMap<String, Vec<Row>>,
}

/// Carries out runs, each only once.
pub(super) struct Runner {
    directory: PathBuf,
    scratch: Scratch,
    length: Length,
    threads: Option<u16>,
    path: Option<PathBuf>,
    /// The file that was read or written last.
    locked: Option<Locked>,
    state: State,
}

impl Runner {
    /// Runs work in this directory. With the path of a state, results are read from there and kept there.
    ///
    /// # Errors
    /// The state cannot be read or kept, or there is no room for temporary files.
    pub(super) fn new(
        directory: &Path,
        length: Length,
        threads: Option<u16>,
        path: Option<&Path>,
    ) -> Result<Runner, Failure> {
        let directory = std::path::absolute(directory)?;
        let empty =
            || State { format: FORMAT.into(), version: env!("CARGO_PKG_VERSION").into(), runs: BTreeMap::new() };
        let mut state = empty();
        let locked = path.map(files::lock_state).transpose()?.flatten();
        if let Some(path) = path {
            let bytes = files::contents(path)?;
            if !bytes.is_empty() {
                state = serde_json::from_slice(&bytes).ok().filter(|state: &State| state.format == FORMAT).ok_or_else(
                    || {
                        let message = format!("`{}` is not the state of reproductions", path.display());
                        Failure::input(
                            Code::WrongFormat,
                            message,
                            "name another file with `--state`, or remove this one",
                        )
                    },
                )?;
                if state.version != env!("CARGO_PKG_VERSION") {
                    state = empty();
                }
            }
        }
        let path = path.map(std::path::absolute).transpose()?;
        let scratch = Scratch::new("takt-repro-")?;
        Ok(Runner { directory, scratch, length, threads, path, locked, state })
    }

    /// The words of a run's command after `takt`, as a user would give them.
    pub(super) fn words(&self, run: &Invocation) -> Vec<String> {
        let arguments = &run.arguments[self.length as usize];
        let words = run.command.words().map(String::from).chain(run.file.clone());
        words.chain(arguments.iter().cloned()).collect()
    }

    /// The results of a run.
    ///
    /// # Errors
    /// It failed, at its place in the text of the publication.
    pub(super) fn table(&mut self, publication: &Publication, run: &Invocation) -> Result<Table, Failure> {
        let words = self.words(run);
        let contents = run.file.as_ref().map(|file| fs::read_to_string(self.directory.join(file)).unwrap_or_default());
        let print = contents.map_or_else(String::new, |text| fingerprint(&text));
        let key = format!("{} {:?} {print}", words.join(" "), run.table);
        if let Some(rows) = self.state.runs.get(&key) {
            return Ok(Table(rows.clone()));
        }
        let failed = |label: &str| {
            let shown: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
            let message = format!("the run `{}` failed", run.name);
            let fault = Diagnostic::error(Code::NotApplicable, &run.place, message).label(label);
            Failure::diagnostics(&publication.source, &[fault.hint(format!("try `takt {}`", shown.join(" ")))])
        };
        let table = self.carry_out(run, &words)?.map_err(|text| failed(&text))?;
        self.state.runs.insert(key, table.0.clone());
        self.save()?;
        Ok(table)
    }

    /// Starts the command. The inner error is the reason for which it failed.
    fn carry_out(&self, run: &Invocation, words: &[String]) -> Result<Result<Table, String>, Failure> {
        let rounds = self.scratch.path().join("rounds.csv");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).current_dir(&self.directory);
        if run.table == Rows::Rounds {
            command.arg("--rounds").arg(&rounds);
        } else {
            command.arg("--json");
        }
        let inner = self.path.as_ref().filter(|_| run.command.is_resumable()).map(|path| {
            let mut name = path.clone().into_os_string();
            name.push(format!(".{}", fingerprint(&words.join(" "))));
            PathBuf::from(name)
        });
        if run.command.is_resumable() {
            command.args(self.threads.map(|n| format!("--threads={n}")));
        }
        if let Some(path) = &inner {
            command.arg("--state").arg(path);
        }
        let output = wait(&mut command)?;
        if !matches!(output.status.code(), Some(0 | 1)) {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text.lines().find(|line| line.starts_with("error")).unwrap_or("its messages are above");
            return Ok(Err(line.to_owned()));
        }
        let table = if run.table == Rows::Rounds {
            fs::read_to_string(&rounds).ok().and_then(|text| Table::of_lines(&text))
        } else {
            serde_json::from_slice(&output.stdout).ok().map(|json| Table::of(run.command, run.table, &json))
        };
        if let Some(path) = inner {
            // The results are kept with those of the other runs.
            let _ = fs::remove_file(path);
        }
        Ok(table.filter(|table| !table.0.is_empty()).ok_or_else(|| "it has no results".to_owned()))
    }

    /// Writes the results.
    fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        self.locked = files::replace(path, &serde_json::json!(self.state).to_string())?;
        Ok(())
    }
}

/// Runs a command to its end. A signal that ends this process ends the command first, which keeps its state.
fn wait(command: &mut Command) -> Result<Output, Failure> {
    let messages = if io::stderr().is_terminal() { Stdio::inherit() } else { Stdio::piped() };
    let (signals, ends) = Ends::hear().unzip();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(messages).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (output, signal) = std::thread::scope(|scope| {
        let hearing = scope.spawn(move || {
            let signal = signals?.forever().next()?;
            if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
                let _ = kill_process(pid, signal);
            }
            Some(signal)
        });
        let output = child.wait_with_output();
        drop(ends);
        (output, hearing.join().ok().flatten())
    });
    if let Some(signal) = signal {
        let _ = io::stdout().flush();
        scratch::remove_all();
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    Ok(output?)
}
