//! The log of DEmOS on standard error: its lines, and the environment variables that choose among them.
//!
//! A line for which standard error has no room is dropped and counted: DEmOS waits there, and its schedule with it.

use anstream::ColorChoice;
use std::io::{self, Write};
use takt_linux::{Unwaiting, timer};

/// The weight of a line, as the library of DEmOS names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    Trace,
    Debug,
    Info,
    Warning,
    Error,
    Critical,
    Off,
}

impl Level {
    fn named(name: &str) -> Option<Level> {
        Some(match name {
            "trace" => Level::Trace,
            "debug" => Level::Debug,
            "info" => Level::Info,
            "warning" | "warn" => Level::Warning,
            "error" | "err" => Level::Error,
            "critical" => Level::Critical,
            "off" => Level::Off,
            _ => return None,
        })
    }

    /// Its name, and the code of its colour on a terminal.
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Level::Trace => ("trace", "37"),
            Level::Debug => ("debug", "36"),
            Level::Info => ("info", "32"),
            Level::Warning => ("warning", "33;1"),
            Level::Error => ("error", "31;1"),
            Level::Critical | Level::Off => ("critical", "1;41"),
        }
    }
}

/// The two loggers of DEmOS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Logger {
    Main,
    Process,
}

/// The levels from which on the loggers write, by the value of `SPDLOG_LEVEL`: `debug,process=info`.
fn levels(text: &str) -> (Level, Level) {
    let (mut main, mut process) = (None, None);
    let mut all = None;
    for part in text.split(',').map(str::trim) {
        let (name, level) =
            part.split_once('=').map_or((None, part), |(name, level)| (Some(name.trim()), level.trim()));
        // As in that library, a word that is no level is ignored.
        let Some(level) = Level::named(&level.to_ascii_lowercase()) else { continue };
        match name {
            None => all = Some(level),
            Some("main") => main = Some(level),
            Some("process") => process = Some(level),
            Some(_) => {}
        }
    }
    (main.or(all).unwrap_or(Level::Info), process.or(all).unwrap_or(Level::Warning))
}

/// The log of a run.
pub(super) struct Log {
    /// `None` where standard error cannot be opened again: then it is looked at before it is written to.
    out: Option<Unwaiting>,
    main: Level,
    process: Level,
    plain: bool,
    colour: bool,
    dropped: u64,
}

impl Log {
    pub(super) fn from_env() -> Log {
        let (main, process) = levels(&std::env::var("SPDLOG_LEVEL").unwrap_or_default());
        let plain = std::env::var_os("DEMOS_PLAIN_LOG").is_some();
        let forced = std::env::var_os("DEMOS_FORCE_COLOR_LOG").is_some();
        let colour = forced || anstream::AutoStream::choice(&io::stderr()) != ColorChoice::Never;
        Log { out: Unwaiting::reopen(io::stderr()).ok(), main, process, plain, colour: colour && !plain, dropped: 0 }
    }

    /// Whether a logger writes lines of this level.
    pub(super) fn writes(&self, logger: Logger, level: Level) -> bool {
        level >= if logger == Logger::Main { self.main } else { self.process }
    }

    pub(super) fn line(&mut self, logger: Logger, level: Level, text: &str) {
        if !self.writes(logger, level) {
            return;
        }
        let line = self.form(level, text, timer::time_of_day());
        let written = match &self.out {
            Some(out) => out.write(line.as_bytes()),
            None => takt_exec::is_writable(io::stderr()) && io::stderr().write_all(line.as_bytes()).is_ok(),
        };
        self.dropped += u64::from(!written);
    }

    fn form(&self, level: Level, text: &str, (hour, minute, second, millisecond): (i32, i32, i32, u32)) -> String {
        // A command of the file may hold what a terminal would obey.
        let text: String = text.chars().map(|c| if c == '\n' { c } else { takt_workload::visible(c) }).collect();
        let (name, code) = level.text();
        match (self.plain, self.colour) {
            (true, _) => format!(">>> [{name}] {text}\n"),
            (false, colour) => {
                let name = if colour { format!("\x1b[{code}m{name}\x1b[m") } else { name.to_owned() };
                format!(">>> {hour:02}:{minute:02}:{second:02}.{millisecond:03} [{name}] {text}\n")
            }
        }
    }

    pub(super) fn debug(&mut self, text: &str) {
        self.line(Logger::Main, Level::Debug, text);
    }
    pub(super) fn info(&mut self, text: &str) {
        self.line(Logger::Main, Level::Info, text);
    }
    pub(super) fn warning(&mut self, text: &str) {
        self.line(Logger::Main, Level::Warning, text);
    }
    pub(super) fn error(&mut self, text: &str) {
        self.line(Logger::Main, Level::Error, text);
    }

    /// Lines for which there was no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_chooses_levels_as_in_demos() {
        for (text, expected) in [
            ("", (Level::Info, Level::Warning)),
            ("debug", (Level::Debug, Level::Debug)),
            ("debug,process=info", (Level::Debug, Level::Info)),
            ("process=trace", (Level::Info, Level::Trace)),
            ("main=off", (Level::Off, Level::Warning)),
            ("Warning", (Level::Warning, Level::Warning)),
            ("loud,process=err", (Level::Info, Level::Error)),
        ] {
            assert_eq!(levels(text), expected, "{text}");
        }
    }

    #[test]
    fn a_line_has_the_form_of_demos() {
        let mut log =
            Log { out: None, main: Level::Info, process: Level::Warning, plain: false, colour: false, dropped: 0 };
        let at = (7, 8, 9, 10);
        assert_eq!(log.form(Level::Info, "Starting scheduler", at), ">>> 07:08:09.010 [info] Starting scheduler\n");
        log.colour = true;
        assert_eq!(log.form(Level::Warning, "x\x1b[2J", at), ">>> 07:08:09.010 [\x1b[33;1mwarning\x1b[m] x?[2J\n");
        log.plain = true;
        assert_eq!(log.form(Level::Error, "a\nb", at), ">>> [error] a\nb\n");
        assert!(log.writes(Logger::Main, Level::Info) && !log.writes(Logger::Process, Level::Info));
    }
}
