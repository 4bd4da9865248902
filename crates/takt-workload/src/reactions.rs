//! `on_miss` and `on_overrun`: reactions to a job that misses its deadline, or uses more than it may.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::keys::{COMMAND, names};
use crate::node::{Kind, Node};
use crate::process::Reaction;
use crate::reader::Reader;
use crate::text::clipped;
use crate::words::{REACTION, React, SIGNALS_TO_PROGRAMS};

/// The signal unless the file names another one.
const SIGNAL: &str = "USR1";

/// The reactions of a task, as far as the file says them.
#[derive(Default)]
pub(crate) struct Reactions {
    pub(crate) on_miss: Option<Reaction>,
    pub(crate) on_overrun: Option<Reaction>,
}

/// Properties of a task on which its reactions depend.
pub(crate) struct Acts {
    /// It has a command.
    pub(crate) process: bool,
    /// It has jobs, and not only activations.
    pub(crate) jobs: bool,
    /// Its jobs have deadlines, or can be aborted by a budget.
    pub(crate) missable: bool,
    /// Its jobs have budgets, or a runtime that their process can be measured against.
    pub(crate) overrunnable: bool,
    /// Each job is a process.
    pub(crate) per_job: bool,
}

/// Reads `log`, `signal`, `signal=NAME`, `stop` or `{exec: CMD}`.
pub(crate) fn read(reader: &mut Reader, value: &Node, key: &str) -> Option<Reaction> {
    if matches!(value.kind, Kind::Map(_)) {
        reader.keys(value, &format!("`{key}`"), &names(&COMMAND));
        let Some(entry) = value.get("exec") else {
            let fault = Diagnostic::error(Code::MissingKey, &value.head(), format!("`{key}` has no command"));
            reader.push(fault.label("a mapping here needs `exec`").hint("write `{exec: \"logger missed\"}`"));
            return None;
        };
        return reader.text(&entry.value, "exec", "a command").map(Reaction::Exec);
    }
    let text = reader.scalar(value, key, "`log`, `signal`, `signal=NAME`, `stop` or `{exec: CMD}`")?;
    if let Some(name) = text.strip_prefix("signal=") {
        return signal(reader, value, name, "reactions").map(Reaction::Signal);
    }
    if text == "exec" || text.starts_with("exec=") {
        let fault = Diagnostic::error(Code::UnknownValue, &value.span, format!("`exec` of `{key}` has no command"));
        let hint = format!("write `{key}: {{exec: \"CMD\"}}`");
        reader.push(fault.label("a command is the value of a key").hint(hint));
        return None;
    }
    let word = reader.choice(value, key, &REACTION);
    if word.is_none()
        && let Some(fault) = reader.diagnostics.pop()
    {
        reader.push(fault.hint(format!("`signal=NAME` names a signal, and `{key}: {{exec: \"CMD\"}}` a command")));
    }
    word.map(|word| match word {
        React::Log => Reaction::Log,
        React::Signal => Reaction::Signal(SIGNAL),
        React::Stop => Reaction::Stop,
    })
}

/// Refuses reactions to what cannot happen, and signals without a process. `who` is "task `a`" or "a process".
pub(crate) fn check(reader: &mut Reader, node: &Node, who: &str, acts: &Acts) {
    let mut refuse = |key: &str, message: String, label: &str, hint: &str| {
        if let Some(entry) = node.get(key) {
            let fault = Diagnostic::error(Code::NotSupportedHere, &entry.value.span, format!("{who} {message}"));
            reader.push(fault.label(label).hint(hint));
        }
    };
    if !acts.jobs {
        let message = "has activations and no jobs, so none misses its deadline".to_owned();
        refuse(
            "on_miss",
            message,
            "a process that never signals has no jobs",
            "remove `on_miss`, or `completion: none`",
        );
    } else if !acts.missable {
        let message = "has neither a deadline nor a budget, so no job of it is missed".to_owned();
        refuse("on_miss", message, "nothing to react to", "add `deadline`, or remove `on_miss`");
    }
    if !acts.overrunnable {
        let (message, label) = match acts.per_job {
            true => ("has a process per job, whose CPU time is limited by a `budget` alone", "the jobs have no budget"),
            false => ("has neither a budget nor a runtime that its jobs could exceed", "nothing to react to"),
        };
        refuse("on_overrun", message.to_owned(), label, "add `budget: 5ms`, or remove `on_overrun`");
    }
    for key in ["on_miss", "on_overrun"] {
        let Some(entry) = node.get(key).filter(|_| !acts.process) else { continue };
        let Kind::Scalar { text, .. } = &entry.value.kind else { continue };
        if text.starts_with("signal") {
            let fault = Diagnostic::error(
                Code::NotSupportedHere,
                &entry.value.span,
                format!("{who} has no process that could receive a signal"),
            );
            reader.push(fault.label("it has no `cmd`").hint(format!("add `cmd`, or write `{key}: log`")));
        }
    }
}

/// Reads the name of a signal to a task's process.
pub(crate) fn signal(reader: &mut Reader, value: &Node, name: &str, purpose: &str) -> Option<&'static str> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    let known = SIGNALS_TO_PROGRAMS.iter().find(|known| **known == name);
    if known.is_none() {
        let fault = Diagnostic::error(
            Code::UnknownValue,
            &value.span,
            format!("`{}` is no signal for {purpose}", clipped(name)),
        );
        let fault = fault.label("a program cannot handle it, or it means something else already");
        reader.push(fault.hint(format!("take one of {}", SIGNALS_TO_PROGRAMS.join(", "))));
    }
    known.copied()
}
