//! Why a call failed.

use serde::Serialize;
use std::fmt;
use takt_core::model::{Invalid, TaskId};
use takt_core::time::Span;
use takt_workload::{Code, Severity, Source, Unreadable, Workload};

/// Why a call failed.
#[derive(Clone, PartialEq, Debug)]
pub enum Error {
    /// Faults of a workload, or of a file that is no text.
    Workload(Box<Faults>),
    /// An argument, or several that contradict each other.
    Argument {
        /// The kind of the fault.
        code: Code,
        /// The fault.
        message: String,
        /// The remedy.
        hint: String,
    },
    /// A policy of the calling program failed, or its answer is no schedule.
    Policy {
        /// The instant.
        at_ns: i64,
        /// The failure, or the fault of the answer.
        message: String,
    },
    /// The simulation was stopped before its end.
    Stopped,
}

/// Faults of a workload, each with its place in the text.
#[derive(Clone, PartialEq, Debug)]
pub struct Faults {
    /// The text.
    pub source: Source,
    /// The faults, in the order of the text.
    pub found: Vec<takt_workload::Diagnostic>,
}

/// A fault of a text for a program: what, where, and the remedy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diagnostic {
    /// The fault, in one line without a full stop.
    pub message: String,
    /// The kind of the fault, by its stable name: `unknown-key`.
    pub code: &'static str,
    /// `error` or `warning`.
    pub severity: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The label at the place; may be empty.
    pub label: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A fault of this text.
    #[must_use]
    pub fn of(source: &Source, fault: &takt_workload::Diagnostic) -> Diagnostic {
        let before = &source.text[..source.text.floor_char_boundary(fault.span.start.min(source.text.len()))];
        let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
        Diagnostic {
            message: fault.message.clone(),
            code: fault.code.name(),
            severity: match fault.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            line: 1 + before.matches('\n').count(),
            column: 1 + line.chars().count(),
            label: fault.label.clone(),
            hint: fault.hint.clone(),
        }
    }
}

impl Faults {
    /// The faults for a program.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.found.iter().map(|fault| Diagnostic::of(&self.source, fault)).collect()
    }
}

/// Each fault with its line of the text, as `takt` prints it, without colours.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<String> =
            self.found.iter().map(|fault| fault.render(&self.source, false).trim_end().to_owned()).collect();
        f.write_str(&text.join("\n\n"))
    }
}

impl Error {
    /// An argument that cannot be carried out.
    #[must_use]
    pub fn argument(code: Code, message: impl fmt::Display, hint: impl Into<String>) -> Error {
        Error::Argument { code, message: message.to_string(), hint: hint.into() }
    }

    /// Faults of a text.
    #[must_use]
    pub fn faults(source: &Source, found: Vec<takt_workload::Diagnostic>) -> Error {
        Error::Workload(Box::new(Faults { source: source.clone(), found }))
    }

    /// One fault of a workload, at the place of the task, or about the file as a whole.
    #[must_use]
    pub fn at(code: Code, workload: &Workload, task: Option<TaskId>, message: impl Into<String>, hint: &str) -> Error {
        let place = task.map(|task| workload.place(task)).unwrap_or_default();
        Error::faults(&workload.source, vec![takt_workload::Diagnostic::error(code, &place, message).hint(hint)])
    }

    /// The engine refused what the reader of the file accepted.
    #[must_use]
    pub fn unsuitable(workload: &Workload, error: &Invalid) -> Error {
        let hint = "choose another policy with --policy, or another machine with --cpus; `takt policies` lists them";
        let name = takt_workload::policy_text(&workload.system.policy);
        let task = match *error {
            Invalid::Period(task) | Invalid::Length(task) | Invalid::Jitter(task) | Invalid::Reservation(task) => {
                Some(task)
            }
            Invalid::Affinity(task) | Invalid::Instants(task) | Invalid::Steps(task) | Invalid::Utility(task) => {
                Some(task)
            }
            Invalid::Needs(task, _) | Invalid::Constrained(task) => Some(task),
            _ => None,
        };
        let why = workload.named(&error.to_string());
        let message = format!("`{}` cannot be scheduled by {name}: {why}", workload.source.name);
        Error::at(Code::UnsuitablePolicy, workload, task, message, hint)
    }
}

/// A file that cannot be written.
#[must_use]
pub fn unwritable(path: &std::path::Path, error: &std::io::Error) -> Error {
    let message = format!("cannot write `{}`: {error}", path.display());
    Error::argument(Code::UnwritableFile, message, takt_workload::remedy(error))
}

impl From<Box<Unreadable>> for Error {
    fn from(fault: Box<Unreadable>) -> Error {
        let Unreadable { source, diagnostic } = *fault;
        Error::Workload(Box::new(Faults { source, found: vec![diagnostic] }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Workload(faults) => faults.fmt(f),
            Error::Argument { code, message, hint } => write!(f, "error[{code}]: {message}\nhint: {hint}"),
            Error::Policy { at_ns, message } => {
                write!(f, "the policy failed at {}: {message}", Span::from_ns(*at_ns))
            }
            Error::Stopped => f.write_str("the simulation was stopped before its end"),
        }
    }
}

impl std::error::Error for Error {}
