//! Why a command could not do its work, and what it says about it.

use std::io::{self, Write};
use std::process::ExitCode;
use takt_core::model::TaskId;
use takt_trace::page::TooLarge;
use takt_workload::{Code, Diagnostic, Source, Unreadable, Workload};

/// Whether what is printed there is coloured: on a terminal, unless `NO_COLOR` and its like say otherwise (`anstream`).
pub(crate) fn colour(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// The text of an error, without characters that a terminal would obey or hide.
fn coded(code: Code, message: &str) -> String {
    format!("error[{code}]: {}", message.chars().map(takt_workload::visible).collect::<String>())
}

/// A failure and its exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    text: String,
}

impl Failure {
    /// Status 2: the input or the way it was called is wrong.
    pub(crate) fn input(code: Code, message: impl std::fmt::Display, hint: &str) -> Failure {
        Failure { status: 2, text: coded(code, &format!("{message}\nhint: {hint}")) }
    }
    /// Status 2: faults of a workload file.
    pub(crate) fn diagnostics(source: &Source, faults: &[Diagnostic]) -> Failure {
        let color = colour(&io::stderr());
        let text: Vec<String> = faults.iter().map(|d| d.render(source, color).trim_end().to_string()).collect();
        Failure { status: 2, text: text.join("\n\n") }
    }
    /// Status 2: one fault of a workload, told at the place of the task that it is about, or as one of the file.
    pub(crate) fn at(
        code: Code,
        workload: &Workload,
        task: Option<TaskId>,
        message: impl Into<String>,
        hint: &str,
    ) -> Failure {
        let place = task.map(|task| workload.place(task)).unwrap_or_default();
        Failure::diagnostics(&workload.source, &[Diagnostic::error(code, &place, message).hint(hint)])
    }
    /// Status 2: a workload file that is no text.
    pub(crate) fn unreadable(fault: &Unreadable) -> Failure {
        Failure { status: 2, text: fault.render(colour(&io::stderr())).trim_end().to_string() }
    }
    /// Status 3: this machine cannot.
    pub(crate) fn machine(code: Code, message: impl std::fmt::Display, fix: &str) -> Failure {
        Failure { status: 3, text: coded(code, &format!("{message}\nfix: {fix}")) }
    }
    /// Status 3: a thread of this command cannot be started.
    pub(crate) fn thread(error: &io::Error) -> Failure {
        let fix = "raise the limits of memory and of processes (`ulimit -v`, `ulimit -u`)";
        Failure::machine(Code::SystemError, format!("a thread cannot be started: {error}"), fix)
    }
    /// Another status, for commands that stand in for DEmOS's.
    pub(crate) fn status(status: u8, code: Code, message: impl std::fmt::Display) -> Failure {
        Failure { status, text: coded(code, &message.to_string()) }
    }
    /// A file could not be written or read.
    pub(crate) fn file(action: &str, path: &std::path::Path, error: &io::Error) -> Failure {
        let code = if action == "read" { Code::UnreadableFile } else { Code::UnwritableFile };
        Failure::input(code, format!("cannot {action} `{}`: {error}", path.display()), takt_workload::remedy(error))
    }

    /// Status 2: a trace has too many pieces for a page.
    pub(crate) fn too_large(large: &TooLarge) -> Failure {
        let hint = "write a .jsonl trace and cut it, as in `takt trace convert TRACE PART.jsonl --from 1s --to 2s`";
        Failure::input(Code::LimitExceeded, large, hint)
    }
    /// Status 1: a file or standard output (`-`) cannot be written any more, or the page of a trace ([`Failure::too_large`]). A reader that has read enough, as `head`, needs no message.
    pub(crate) fn write(path: &std::path::Path, error: &io::Error) -> Failure {
        if let Some(large) = error.get_ref().and_then(|reason| reason.downcast_ref::<TooLarge>()) {
            return Failure::too_large(large);
        }
        let closed = takt_linux::stdio::output_was_closed;
        let text = match path == std::path::Path::new("-") {
            true if error.kind() == io::ErrorKind::BrokenPipe && !closed() => {
                return Failure { status: 1, text: String::new() };
            }
            true if closed() => {
                "cannot write standard output: it is closed\nhint: open it, as in `> FILE` or `> /dev/null`".to_owned()
            }
            true => format!("cannot write standard output: {error}\nhint: {}", takt_workload::remedy(error)),
            false => format!("cannot write `{}`: {error}\nhint: {}", path.display(), takt_workload::remedy(error)),
        };
        Failure { status: 1, text: coded(Code::UnwritableFile, &text) }
    }

    /// The same failure with another status, for a command with the statuses of DEmOS.
    pub(crate) fn with_status(self, status: u8) -> Failure {
        Failure { status, ..self }
    }

    /// Whether it is one of this kind, and not of the lines of a file.
    pub(crate) fn is(&self, code: Code) -> bool {
        self.text.starts_with(&format!("error[{code}]"))
    }

    /// The text, for a user at another terminal.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn report(&self) -> ExitCode {
        if !self.text.is_empty() {
            // Nothing is left to do if even this cannot be said.
            let _ = writeln!(io::stderr(), "{}", self.text);
        }
        ExitCode::from(self.status)
    }
}

/// Status 2: what the library refuses.
impl From<takt::Error> for Failure {
    fn from(error: takt::Error) -> Failure {
        match error {
            takt::Error::Workload(faults) => Failure::diagnostics(&faults.source, &faults.found),
            takt::Error::Argument { code, message, hint } => Failure::input(code, message, &hint),
            failed @ (takt::Error::Stopped | takt::Error::Policy { .. }) => {
                Failure { status: 1, text: failed.to_string() }
            }
        }
    }
}

/// Standard output cannot be written.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::write(std::path::Path::new("-"), &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A page has its limit also where its records are written as they come.
    #[test]
    fn a_page_that_is_too_large_is_no_fault_of_the_disk() {
        let large = io::Error::other(TooLarge);
        let failure = Failure::write(Path::new("w.html"), &large);
        assert!(failure.status == 2 && failure.is(Code::LimitExceeded), "{}", failure.text);
        assert!(failure.text.contains("takt trace convert"), "{}", failure.text);
        let full = Failure::write(Path::new("w.html"), &io::ErrorKind::StorageFull.into());
        assert!(full.status == 1 && full.is(Code::UnwritableFile), "{}", full.text);
    }
}
