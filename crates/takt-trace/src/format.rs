//! The formats of traces.

use crate::trace::{Header, Part, ReadError, Trace, Writer};
use crate::{csv, jsonl, perfetto};
use std::io;
use std::path::Path;

/// So many bytes at the begin of a file tell whether it is a trace, and of which workload.
pub const START: usize = 64 << 10;

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

/// Whether a file with these first bytes is a trace in this format from the same source and of the same workload, or the begin of one whose writer died
/// within the header. An empty file is none.
///
/// `start` has to hold [`START`] bytes, or the whole file. A Perfetto trace with thousands of tasks names its workload later, and then counts as one of any
/// workload.
#[must_use]
pub fn is_trace_of(format: Format, source: &str, workload: &str, start: &[u8]) -> bool {
    let header = Header { source: source.into(), workload: workload.into(), ..Header::default() };
    match format {
        Format::JsonLines => agrees(&jsonl::start(&header), start),
        Format::Csv => {
            // Columns that were added later are left out of the comparison.
            let own = csv::start(&header);
            let rest = |bytes: &[u8]| Some(bytes[bytes.iter().position(|byte| *byte == b'\n')?..].to_vec());
            agrees(&csv::head(), start)
                && rest(start).is_none_or(|found| agrees(&rest(&own).unwrap_or_default(), &found))
        }
        Format::Perfetto => {
            let contents = perfetto::without_length(start);
            let about = contents.windows(perfetto::ABOUT.len()).position(|bytes| bytes == perfetto::ABOUT.as_bytes());
            let notes = about.and_then(|at| {
                contents.get(at..at + perfetto::ABOUT.len() + perfetto::NAMES_MAX + source.len() + workload.len())
            });
            let names = |notes: &[u8], text: &str| notes.windows(text.len().max(1)).any(|n| n == text.as_bytes());
            agrees(perfetto::HEAD, contents) && notes.is_none_or(|notes| names(notes, source) && names(notes, workload))
        }
    }
}

/// The first bytes of each trace in this format from this source and of this workload, or some of them.
#[must_use]
pub fn start_of(format: Format, source: &str, workload: &str) -> Vec<u8> {
    let header = Header { source: source.into(), workload: workload.into(), ..Header::default() };
    match format {
        Format::JsonLines => jsonl::start(&header),
        Format::Csv => csv::start(&header),
        Format::Perfetto => perfetto::HEAD.into(),
    }
}

/// Whether two texts are the same, as far as both reach. An empty one agrees with none.
fn agrees(head: &[u8], start: &[u8]) -> bool {
    let common = head.len().min(start.len());
    common > 0 && head[..common] == start[..common]
}

/// Starts a trace: writes the header and returns what takes the records.
///
/// The writer collects up to 64 KiB before it calls `out`, so `out` need not be buffered.
///
/// # Errors
/// The error of the output.
pub fn writer(format: Format, header: &Header, out: Box<dyn io::Write + Send>) -> io::Result<Box<dyn Writer + Send>> {
    Ok(match format {
        Format::Perfetto => Box::new(perfetto::Perfetto::new(header, out)?),
        Format::JsonLines => Box::new(jsonl::JsonLines::new(header, out)?),
        Format::Csv => Box::new(csv::Csv::new(header, out)?),
    })
}

/// The parts of a trace in the order of its file, in constant memory. One that was cut off (its writer crashed) yields what it holds, without an end.
pub struct Parts<R>(Source<R>);

enum Source<R> {
    JsonLines(jsonl::Lines<R>),
    Csv(csv::Table<R>),
}

impl<R: io::BufRead> Parts<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// When the input fails, the format cannot be read, or the header breaks it.
    pub fn open(input: R, format: Format) -> Result<Parts<R>, ReadError> {
        Ok(Parts(match format {
            Format::Perfetto => return Err(ReadError::WriteOnly),
            Format::JsonLines => Source::JsonLines(jsonl::Lines::open(input)?),
            Format::Csv => Source::Csv(csv::Table::open(input)?),
        }))
    }

    /// The header, with the tasks, window tables and names of policies of the parts so far.
    #[must_use]
    pub fn header(&self) -> &Header {
        match &self.0 {
            Source::JsonLines(lines) => &lines.rows.header,
            Source::Csv(table) => &table.rows.header,
        }
    }
}

impl<R: io::BufRead> Iterator for Parts<R> {
    type Item = Result<Part, ReadError>;
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::JsonLines(lines) => lines.part(),
            Source::Csv(table) => table.part(),
        }
        .transpose()
    }
}

/// Reads a trace. One that was cut off (its writer crashed) yields what it holds, without a footer.
///
/// # Errors
/// When the input fails, the format cannot be read, or a line before the last breaks the format.
pub fn read(input: impl io::Read, format: Format) -> Result<Trace, ReadError> {
    let mut parts = Parts::open(io::BufReader::with_capacity(START, input), format)?;
    let mut trace = Trace::default();
    for part in &mut parts {
        match part? {
            Part::Record(record) => trace.records.push(record),
            Part::Change(change) => trace.changes.push(change),
            Part::Measured(measured) => trace.measured.push(measured),
            Part::Task(..) | Part::Table(..) => {}
            Part::End(footer) => trace.footer = Some(footer),
        }
    }
    trace.header = parts.header().clone();
    Ok(trace)
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
        let header = Header { source: "sim".into(), workload: "w.yaml".into(), ..Header::default() };
        let is_trace = |format, start: &[u8]| is_trace_of(format, "sim", "w.yaml", start);
        let start = |format| {
            let out = Shared::default();
            writer(format, &header, Box::new(out.clone())).unwrap().flush().unwrap();
            let mut bytes = out.0.lock().unwrap().clone();
            bytes.truncate(START);
            bytes
        };
        for format in formats {
            let own = start(format);
            assert!((16..own.len()).all(|length| is_trace(format, &own[..length])), "{format:?}");
            assert!(!is_trace(format, b""), "{format:?}: nothing shows whose it is");
            for (source, workload) in [("run", "w.yaml"), ("sim", "v.yaml")] {
                assert!(!is_trace_of(format, source, workload, &own), "{format:?}: {source} {workload}");
            }
            for other in formats.into_iter().filter(|other| *other != format) {
                assert!(!is_trace(format, &start(other)), "{format:?} {other:?}");
            }
            for text in ["at,value\n1,2\n", "at_ns,value\n", "{\"takt\": 1}\n", "\n\u{10}\u{8}\u{1}"] {
                assert!(!is_trace(format, text.as_bytes()), "{format:?} {text:?}");
            }
        }
    }
}
