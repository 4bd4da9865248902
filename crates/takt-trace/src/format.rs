//! The formats of traces.

use crate::trace::{Header, ReadError, Trace, Writer};
use crate::{csv, jsonl, perfetto};
use std::io;
use std::path::Path;

/// So many bytes at the begin of a file tell whether it is a trace.
pub const START: usize = 256;

/// A format of trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Perfetto's protobuf, `.pftrace`: for its viewer; it cannot be read back.
    Perfetto,
    /// One JSON object a line, `.jsonl`.
    JsonLines,
    /// Comma-separated values, `.csv`.
    Csv,
}

impl Format {
    /// The format that a file's ending names.
    #[must_use]
    pub fn from_path(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "pftrace" => Some(Format::Perfetto),
            "jsonl" => Some(Format::JsonLines),
            "csv" => Some(Format::Csv),
            _ => None,
        }
    }
}

/// Whether a file with these first bytes is a trace of Takt in this format, or the begin of one whose writer died within the header.
///
/// `start` has to hold [`START`] bytes, or the whole file.
#[must_use]
pub fn is_trace(format: Format, start: &[u8]) -> bool {
    let (head, start) = match format {
        Format::JsonLines => (jsonl::HEAD.into(), start),
        Format::Csv => (csv::head(), start),
        Format::Perfetto => (perfetto::HEAD.into(), perfetto::without_length(start)),
    };
    let common = head.len().min(start.len());
    head[..common] == start[..common]
}

/// Starts a trace: writes the header and returns what takes the records.
///
/// The writer collects up to 64 KiB before it calls `out`, so `out` need not be buffered.
///
/// # Errors
/// What the output says.
pub fn writer(format: Format, header: &Header, out: Box<dyn io::Write + Send>) -> io::Result<Box<dyn Writer + Send>> {
    Ok(match format {
        Format::Perfetto => Box::new(perfetto::Perfetto::new(header, out)?),
        Format::JsonLines => Box::new(jsonl::JsonLines::new(header, out)?),
        Format::Csv => Box::new(csv::Csv::new(header, out)?),
    })
}

/// Reads a trace. One that was cut off (its writer crashed) yields what it holds, without a footer.
///
/// # Errors
/// When the input fails, the format cannot be read, or a line before the last breaks the format.
pub fn read(mut input: impl io::Read, format: Format) -> Result<Trace, ReadError> {
    if format == Format::Perfetto {
        return Err(ReadError::WriteOnly);
    }
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    match format {
        Format::Csv => csv::read(&bytes),
        _ => jsonl::read(&bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn traces_are_known_by_their_first_bytes() {
        let formats = [Format::Perfetto, Format::JsonLines, Format::Csv];
        let start = |format| {
            let out = Shared::default();
            writer(format, &Header::default(), Box::new(out.clone())).unwrap().flush().unwrap();
            let mut bytes = out.0.lock().unwrap().clone();
            bytes.truncate(START);
            bytes
        };
        for format in formats {
            let own = start(format);
            assert!((0..own.len()).all(|length| is_trace(format, &own[..length])), "{format:?}");
            for other in formats.into_iter().filter(|other| *other != format) {
                assert!(!is_trace(format, &start(other)), "{format:?} {other:?}");
            }
            for text in ["at,value\n1,2\n", "at_ns,value\n", "{\"takt\": 1}\n", "\n\u{10}\u{8}\u{1}"] {
                assert!(!is_trace(format, text.as_bytes()), "{format:?} {text:?}");
            }
        }
    }
}
