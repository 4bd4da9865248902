//! Opens files, and tells texts from what is none.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::reader::Reader;
use crate::source::{INLINE, MAX_BYTES, Source, remedy};
use std::io::Read;
use std::path::Path;

/// The path that is standard input.
const STANDARD_INPUT: &str = "-";

/// A file that could not be read as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Its name, and as much of its text as helps to show the fault.
    pub source: Source,
    /// The fault.
    pub diagnostic: Diagnostic,
}

impl Unreadable {
    fn new(source: Source, diagnostic: Diagnostic) -> Box<Unreadable> {
        Box::new(Unreadable { source, diagnostic })
    }

    /// The text for a terminal.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        self.diagnostic.render(&self.source, color)
    }
}

impl Reader {
    /// Reads another file that the text names.
    pub(crate) fn file(&mut self, name: &str) -> Result<Source, Box<Unreadable>> {
        let source = Source::among(&self.texts, &self.directory.join(name))?;
        if !self.files.contains(&source) {
            self.files.push(source.clone());
        }
        Ok(source)
    }
}

impl Source {
    /// Opens and reads a file, at most [`MAX_BYTES`] of it; `-` is standard input. Its format is found in its text.
    ///
    /// # Errors
    /// Why it cannot be read as text.
    pub fn read(path: &Path) -> Result<Source, Box<Unreadable>> {
        let (name, mut bytes) = (path.display().to_string(), Vec::new());
        let limit = MAX_BYTES as u64 + 1;
        let read = match path == Path::new(STANDARD_INPUT) {
            true => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
            false => std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
        };
        match read {
            Ok(_) => Source::from_bytes(name, bytes),
            Err(why) => {
                let fault = Diagnostic::error(Code::UnreadableFile, &(0..0), format!("cannot read `{name}`: {why}"))
                    .hint(remedy(&why));
                Err(Unreadable::new(Source { name, text: String::new() }, fault))
            }
        }
    }

    /// The text with this path, or the text of the file if there is none.
    ///
    /// # Errors
    /// As [`Source::read`].
    pub fn among(texts: &[Source], path: &Path) -> Result<Source, Box<Unreadable>> {
        let given = texts.iter().find(|source| Path::new(&source.name) == path);
        given.map_or_else(|| Source::read(path), |source| Ok(source.clone()))
    }

    /// A source of bytes that were read elsewhere.
    ///
    /// # Errors
    /// That they are no text.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Source, Box<Unreadable>> {
        let name = name.into();
        match String::from_utf8(bytes) {
            Ok(text) => {
                let source = Source { name, text };
                match source.check() {
                    Ok(()) => Ok(source),
                    Err(fault) => Err(Unreadable::new(source, fault)),
                }
            }
            Err(why) => {
                let at = why.utf8_error().valid_up_to();
                let bytes = why.into_bytes();
                if bytes.contains(&0) {
                    return Err(Unreadable::new(Source { name, text: String::new() }, binary(0)));
                }
                // Text before the fault keeps its offsets; the replacement character stands at the fault.
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let fault = Diagnostic::error(Code::WrongFormat, &(at..at + 3), "the file is not UTF-8 text")
                    .label(format!("byte 0x{:02x} here", bytes[at]))
                    .hint("save the file as UTF-8");
                Err(Unreadable::new(Source { name, text }, fault))
            }
        }
    }

    /// Reports whether the file can state priorities. A task set in CSV or in ChronOS's form cannot.
    #[must_use]
    pub fn states_priorities(&self) -> bool {
        !self.is_csv() && !crate::import::chronos::is_task_set(&self.text)
    }

    /// Whether the text came from standard input or through a pipe, and not from a file.
    pub fn is_pipe(&self) -> bool {
        let is_special = |found: std::fs::Metadata| !found.is_file() && !found.is_dir();
        !self.may_be_special() || std::fs::metadata(&self.name).is_ok_and(is_special)
    }

    /// Whether the name is the path of a file, which may be a pipe, too.
    pub(crate) fn may_be_special(&self) -> bool {
        self.name != STANDARD_INPUT && self.name != INLINE
    }

    pub(crate) fn is_csv(&self) -> bool {
        if self.name == STANDARD_INPUT {
            // A header of columns has commas, and none of the marks of YAML.
            let first = self.text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
            return first.is_some_and(|line| line.contains(',') && !line.contains([':', '{', '[']));
        }
        Path::new(&self.name).extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
    }

    /// Whether this is a text of a bearable length with something in it.
    pub(crate) fn check(&self) -> Result<(), Diagnostic> {
        if self.text.len() > MAX_BYTES {
            return Err(Diagnostic::error(
                Code::LimitExceeded,
                &(0..0),
                format!("the file is longer than {} MiB", MAX_BYTES >> 20),
            ));
        }
        if let Some(at) = self.text.find('\0') {
            return Err(binary(at));
        }
        let first = self.text.lines().next().unwrap_or("");
        for (mark, what, hint) in OTHERS {
            if let Some(at) = first.find(mark) {
                let fault = Diagnostic::error(
                    Code::WrongFormat,
                    &(at..at + mark.len()),
                    format!("this is {what}, not a workload"),
                );
                return Err(fault.label("it begins like one").hint(hint));
            }
        }
        Ok(())
    }
}

/// The first lines of other files of Takt, the kinds of these files, and the commands that read them.
const OTHERS: [(&str, &str, &str); 3] = [
    ("{\"takt_trace\":", "a trace", "`takt trace show` draws it"),
    ("at_ns,applied_ns,", "a trace", "`takt trace show` draws it"),
    ("\"takt_steps\":", "a record of steps", "`takt sim WORKLOAD --replay FILE` replays it"),
];

fn binary(at: usize) -> Diagnostic {
    Diagnostic::error(Code::WrongFormat, &(at..at + 1), "this looks like a binary file, not a workload")
        .label("a zero byte")
        .hint("a workload is a YAML text, or a task set whose name ends in .csv")
}
