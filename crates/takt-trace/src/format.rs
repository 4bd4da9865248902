//! The formats of traces.

use crate::trace::{Header, ReadError, Trace, Writer};
use crate::{csv, jsonl, perfetto};
use std::io;
use std::path::Path;

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
