//! Traces in a series of files with a bound on the disk (`--trace-size`, `--trace-files`).
//!
//! The file of `--trace` is the one that is written. When the next record might not fit, `t.jsonl` becomes `t.1.jsonl`, `t.1.jsonl` becomes
//! `t.2.jsonl` and so on, and the oldest file is removed. Each file begins with the header of the trace. The files are renamed by the
//! thread that writes them, since a disk may hold that up.
//!
//! Only traces of the same source and workload are renamed or removed. A file with such a name that holds something else is refused before the first record,
//! and ends the trace when it comes later. The file that is written is locked at any instant ([`files`]), so that no other command takes its name.

use super::behind::{Behind, Sink};
use crate::failure::Failure;
use crate::files::{self, Locked, Unlocked};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use takt_core::model::WindowTable;
use takt_core::record::RecordKind;
use takt_core::time::Time;
use takt_trace::timeline::Policies;
use takt_trace::{Change, Footer, Format, Header, Measured, Stamped, TaskLabel, Writer};
use takt_workload::Code;

/// The least size of a file: a header, and room for a few records.
pub(crate) const LEAST: u64 = 64 << 10;
/// The most files of a series.
pub(crate) const FILES_MAX: u64 = 10_000;
/// The room that a record and the end of a file take at most, and for each task the end of its slice.
const RESERVE: u64 = 4 << 10;
const RESERVE_OF_TASK: u64 = 256;
/// A writer keeps less than this for itself before it hands it over.
const BUFFER: u64 = 256 << 10;

/// The bound on the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Bytes of each file.
    pub(crate) size: u64,
    /// The number of files, with the one that is written: two at least.
    pub(crate) files: u64,
}

/// Reads a number of bytes with K, M or G.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let (digits, shift) =
        units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift))).unwrap_or((text, 0));
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.ok_or("write a number of bytes, as in `64M`; the units are K, M and G")?;
    if bytes < LEAST { Err(format!("a file has at least {}K", LEAST >> 10)) } else { Ok(bytes) }
}

/// The name of an older file: `t.3.jsonl` of `t.jsonl`.
pub(crate) fn older(path: &Path, number: u64) -> PathBuf {
    let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    path.with_extension(format!("{number}.{ending}"))
}

/// The files of a series that are there, the oldest first.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let numbered = (1..FILES_MAX).map(|number| older(path, number)).take_while(|file| file.is_file());
    let mut files: Vec<PathBuf> = numbered.collect();
    files.reverse();
    files.push(path.to_owned());
    files
}

/// The source and the workload of a series, which the header of each of its files names.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) source: String,
    pub(crate) workload: String,
}

impl Origin {
    pub(crate) fn of(header: &Header) -> Origin {
        Origin { source: header.source.clone(), workload: header.workload.clone() }
    }

    /// Whether a file begins as a trace of this origin does that has its name.
    fn has(&self, path: &Path) -> Result<bool, Unlocked> {
        let Some(format) = Format::from_path(path) else { return Ok(false) };
        let Some(file) = files::open(File::options().read(true), path)? else { return Ok(false) };
        let mut start = Vec::new();
        file.take(takt_trace::START as u64).read_to_end(&mut start).map_err(Unlocked::Failed)?;
        Ok(takt_trace::is_trace_of(format, &self.source, &self.workload, &start))
    }
}

/// Whether a series can have this name: each file that it would rename or remove is a trace of the same source and workload.
///
/// # Errors
/// Status 2 when one is something else.
pub(crate) fn ready(path: &Path, bound: Bound, origin: &Origin) -> Result<(), Failure> {
    let numbered = (1..bound.files).map(|number| older(path, number)).filter(|file| file.exists());
    let beyond = (bound.files..FILES_MAX).map(|number| older(path, number)).take_while(|file| file.exists());
    // An empty file is written and not renamed.
    let own =
        Some(path.to_owned()).filter(|path| path.metadata().is_ok_and(|known| !known.is_file() || known.len() > 0));
    for file in own.into_iter().chain(numbered).chain(beyond) {
        if file.is_file() && origin.has(&file).map_err(|why| why.failure("read", &file))? {
            continue;
        }
        let message = format!(
            "`--trace-size` would rename or remove `{}`, which is no trace of `{}` in that format",
            file.display(),
            origin.workload
        );
        return Err(Failure::input(
            Code::WrongFormat,
            message,
            "name another file by `--trace`, or move that one away",
        ));
    }
    Ok(())
}

/// A file of the series that may be renamed or removed.
///
/// # Errors
/// It is no trace of this origin, or another process writes it.
fn movable(file: PathBuf, origin: &Origin) -> io::Result<PathBuf> {
    let opened = if origin.has(&file)? { files::open(File::options().append(true), &file)? } else { None };
    let Some(opened) = opened else {
        return Err(io::Error::other(format!("`{}` is no file of this series", file.display())));
    };
    match files::lock_open(opened, &file, false) {
        Err(Unlocked::InUse(_)) => Err(io::Error::other(format!("another process writes `{}`", file.display()))),
        _ => Ok(file),
    }
}

/// Makes room for the number 1: each older file gets the next number, and those beyond the bound are removed.
fn shift(path: &Path, files: u64, origin: &Origin) -> io::Result<()> {
    // Also those of an earlier run with more files.
    for file in (files - 1..FILES_MAX).map(|number| older(path, number)).take_while(|file| file.exists()) {
        fs::remove_file(movable(file, origin)?)?;
    }
    for number in (1..files - 1).rev().filter(|number| older(path, *number).exists()) {
        fs::rename(movable(older(path, number), origin)?, older(path, number + 1))?;
    }
    Ok(())
}

/// Makes a file with the begin of a header, so that it belongs to the series also where this process dies here.
fn placeholder(path: &Path, origin: &Origin) -> io::Result<File> {
    let format = Format::from_path(path).unwrap_or(Format::JsonLines);
    let mut file = File::create_new(path)?;
    file.write_all(&takt_trace::start_of(format, &origin.source, &origin.workload))?;
    Ok(file)
}

/// Begins a new file in the place of one that gets the number 1. The name always belongs to a locked file.
fn replace(path: &Path, files: u64, origin: &Origin) -> io::Result<Option<Locked>> {
    shift(path, files, origin)?;
    let first = older(path, 1);
    let locked = files::lock_open(placeholder(&first, origin)?, &first, true)?;
    match renameat_with(CWD, &first, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        // The file system cannot exchange two files.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            // This removes the new file, too.
            drop(locked);
            fs::rename(path, &first)?;
            return Ok(files::lock_open(File::create_new(path)?, path, true)?);
        }
        Err(e) => return Err(e.into()),
    }
    Ok(locked.map(|mut locked| {
        locked.renamed(path);
        locked
    }))
}

/// The file that is written, at the thread that writes.
pub(crate) struct Current {
    path: PathBuf,
    files: u64,
    origin: Origin,
    file: File,
    locked: Option<Locked>,
}

impl Current {
    /// Creates the first file. One of an earlier run becomes an older file of the series.
    pub(crate) fn create(path: &Path, bound: Bound, origin: Origin) -> io::Result<Current> {
        let mut locked = None;
        if path.is_file() && fs::metadata(path)?.len() > 0 {
            locked = replace(path, bound.files, &origin)?;
        }
        Ok(Current { path: path.to_owned(), files: bound.files, origin, file: files::fresh(path)?, locked })
    }
}

impl Write for Current {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Current {
    fn next(&mut self) -> io::Result<()> {
        // The lock of the old file ends after the new one is in its place.
        self.locked = replace(&self.path, self.files, &self.origin)?;
        self.file = files::fresh(&self.path)?;
        Ok(())
    }
}

/// Counts what the file that is written will hold.
struct Counted {
    behind: Behind,
    count: Arc<AtomicU64>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.behind.write(bytes)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.behind.flush()
    }
}

/// The writer of a series.
pub(crate) struct Series {
    format: Format,
    header: Header,
    behind: Behind,
    size: u64,
    reserve: u64,
    /// Bytes of the file that is written, as far as the writer has handed them over.
    count: Arc<AtomicU64>,
    writer: Option<Box<dyn Writer + Send>>,
    /// The window tables that may take over, and the numbers of those in the file that is written.
    tables: BTreeMap<u16, WindowTable>,
    in_file: BTreeSet<u16>,
    /// The policies that hold, which the header of a later file has.
    policies: Policies,
    /// The file has records.
    begun: bool,
    last: Time,
    rotate: Arc<AtomicBool>,
}

impl Series {
    /// A series whose files the other end of `behind` writes. It begins another file when `rotate` is set.
    pub(crate) fn new(
        format: Format,
        header: &Header,
        behind: Behind,
        bound: Bound,
        rotate: Arc<AtomicBool>,
    ) -> io::Result<Series> {
        let reserve = RESERVE + RESERVE_OF_TASK * header.tasks.len() as u64;
        let mut series = Series {
            format,
            header: header.clone(),
            behind,
            size: bound.size,
            reserve,
            count: Arc::default(),
            writer: None,
            tables: BTreeMap::new(),
            in_file: BTreeSet::new(),
            policies: Policies::of(header),
            begun: false,
            last: Time::ZERO,
            rotate,
        };
        series.begin()?;
        if series.count.load(Ordering::Relaxed) + 2 * reserve > bound.size {
            return Err(io::Error::other("the header of the trace does not fit into `--trace-size`"));
        }
        Ok(series)
    }

    fn begin(&mut self) -> io::Result<()> {
        self.count.store(0, Ordering::Relaxed);
        let counted = Counted { behind: self.behind.clone(), count: self.count.clone() };
        let mut writer = takt_trace::writer(self.format, &self.header, Box::new(counted))?;
        writer.flush()?;
        self.begun = false;
        self.in_file = self.header.tables.keys().copied().collect();
        self.writer = Some(writer);
        Ok(())
    }

    /// Ends the file, and begins another one.
    fn rotate(&mut self) -> io::Result<()> {
        if let Some(writer) = self.writer.take() {
            writer.finish(&Footer { end: self.last, dropped: 0 })?;
        }
        self.behind.next()?;
        self.begin()
    }

    /// Begins another file if the next record might not fit, or if that is wished.
    fn make_room(&mut self) -> io::Result<()> {
        // The buffer of the writer counts only after it has handed that over.
        if self.count.load(Ordering::Relaxed) + BUFFER + self.reserve > self.size {
            self.writer()?.flush()?;
        }
        let full = self.count.load(Ordering::Relaxed) + 2 * self.reserve > self.size;
        let asked = self.rotate.swap(false, Ordering::AcqRel);
        if self.begun && (full || asked) {
            self.rotate()?;
        }
        Ok(())
    }

    /// A window table takes over, which the file may not have. One that would take up a large part of the bound is left out.
    fn take_over(&mut self, at: Time, to: u16) -> io::Result<()> {
        let known = self.in_file.contains(&to);
        let table = self.tables.get(&to).cloned();
        let length =
            table.as_ref().map_or(0, |table| 2 * takt_trace::window_table::to_json(table).to_string().len() as u64);
        let fits = length <= self.size / 4;
        if let (Some(table), false, true) = (&table, known, fits) {
            if self.begun && self.count.load(Ordering::Relaxed) + BUFFER + length + 2 * self.reserve > self.size {
                self.writer()?.flush()?;
                if self.count.load(Ordering::Relaxed) + length + 2 * self.reserve > self.size {
                    self.rotate()?;
                }
            }
            self.writer()?.table(at, to, table)?;
            self.in_file.insert(to);
        }
        // It holds at the begin of a later file.
        self.header.table = Some(to);
        self.header.tables = table.filter(|_| fits).map(|table| (to, table)).into_iter().collect();
        Ok(())
    }

    fn writer(&mut self) -> io::Result<&mut (dyn Writer + Send)> {
        match &mut self.writer {
            Some(writer) => Ok(&mut **writer),
            None => Err(io::Error::other("the trace could not be continued in another file")),
        }
    }
}

impl Writer for Series {
    fn record(&mut self, record: &Stamped) -> io::Result<()> {
        self.make_room()?;
        if let RecordKind::Table { to } = record.record.kind {
            self.take_over(record.record.at, to)?;
        }
        let at = record.record.at;
        match record.record.kind {
            RecordKind::Switch { domain, to } => {
                self.policies.switch(at, domain, to);
                self.policies.head(&mut self.header);
            }
            RecordKind::Configure { setting, value } => {
                self.policies.configure(at, setting, value);
                self.policies.head(&mut self.header);
            }
            _ => {}
        }
        self.writer()?.record(record)?;
        self.begun = true;
        self.last = self.last.max(record.record.at);
        Ok(())
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        self.make_room()?;
        self.writer()?.change(change)?;
        self.begun = true;
        self.last = self.last.max(change.at);
        Ok(())
    }

    fn measured(&mut self, measured: &Measured) -> io::Result<()> {
        self.make_room()?;
        self.writer()?.measured(measured)
    }

    fn task(&mut self, at: Time, task: &TaskLabel) -> io::Result<()> {
        self.make_room()?;
        self.writer()?.task(at, task)?;
        self.header.tasks.push(TaskLabel { added: true, ..task.clone() });
        self.reserve += RESERVE_OF_TASK;
        Ok(())
    }

    /// A file has the tables that take over in it.
    fn table(&mut self, _: Time, number: u16, table: &WindowTable) -> io::Result<()> {
        self.tables.insert(number, table.clone());
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer()?.flush()
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> io::Result<()> {
        self.writer.take().map_or(Ok(()), |writer| writer.finish(footer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_a_least_value() {
        assert_eq!((size("64K"), size("2M"), size("1G")), (Ok(64 << 10), Ok(2 << 20), Ok(1 << 30)));
        assert_eq!(size("100000"), Ok(100_000));
        assert!(size("63K").unwrap_err().contains("at least 64K"));
        for text in ["", "M", "1.5M", "64k", "-1M", "99999999999999G"] {
            assert!(size(text).unwrap_err().contains("units"), "{text}");
        }
    }

    #[test]
    fn older_files_have_numbers_before_their_ending() {
        assert_eq!(older(Path::new("d/t.jsonl"), 12), Path::new("d/t.12.jsonl"));
    }

    const HEAD: &str = r#"{"takt_trace":1,"source":"run","workload":"w.yaml","#;

    fn origin() -> Origin {
        Origin { source: "run".into(), workload: "w.yaml".into() }
    }

    #[test]
    fn no_file_is_left_beyond_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let write = |round: &str| fs::write(&path, format!("{HEAD}{round}")).unwrap();
        for round in 0..9 {
            write(&round.to_string());
            drop(replace(&path, 4, &origin()).unwrap());
        }
        let texts = || {
            let texts = files(&path).into_iter().filter_map(|file| fs::read_to_string(file).ok());
            texts.map(|text| text.replace(HEAD, "")).collect::<Vec<_>>()
        };
        // The last new file holds the begin of a header.
        assert_eq!(texts(), ["6", "7", "8", ""]);
        // An earlier run had more.
        write("9");
        drop(replace(&path, 2, &origin()).unwrap());
        assert_eq!(texts(), ["9", ""]);
    }

    /// A file of another program, or of another run, that has a name of the series stays, before the first record and later.
    #[test]
    fn only_traces_of_the_workload_are_renamed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let others = [
            "data.csv at_ns,value\n1,2\n",
            "data.csv ",
            r#"data.jsonl {"takt_trace":1,"source":"run","workload":"v.yaml","policy":"edf","#,
            r#"data.jsonl {"takt_trace":1,"source":"sim","workload":"w.yaml","policy":"edf","#,
        ];
        for (name, text) in others.into_iter().map(|other| other.split_once(' ').unwrap()) {
            let path = dir.path().join(name);
            let bound = Bound { size: LEAST, files: 5 };
            let ready = || ready(&path, bound, &origin());
            ready().unwrap();
            let format = Format::from_path(&path).unwrap();
            let own = takt_trace::start_of(format, "run", "w.yaml");
            for number in [0, 1, 4, 5, 7] {
                let file = if number == 0 { path.clone() } else { older(&path, number) };
                fs::write(&file, text).unwrap();
                // The number 7 is reached only where 5 and 6 are there. An empty file that is written loses nothing.
                let unharmed = number == 7 || number == 0 && text.is_empty();
                assert_eq!(ready().is_err(), !unharmed, "{number} {text}");
                let before = [5, 6].into_iter().filter(|before| *before < number);
                before.clone().for_each(|before| fs::write(older(&path, before), &own).unwrap());
                assert_eq!(ready().is_err(), number != 0 || !text.is_empty(), "{number} {text}");
                before.for_each(|before| fs::remove_file(older(&path, before)).unwrap());
                fs::remove_file(&file).unwrap();
            }
            fs::write(older(&path, 4), text).unwrap();
            fs::write(&path, &own).unwrap();
            let refused = replace(&path, 5, &origin()).unwrap_err().to_string();
            assert!(refused.contains("data.4."), "{refused}");
            assert_eq!(fs::read_to_string(older(&path, 4)).unwrap(), text);
            assert!(!older(&path, 1).exists());
            fs::remove_file(older(&path, 4)).unwrap();
            // The begin of its own header is that of a run that was killed there.
            ready().unwrap();
            drop(replace(&path, 5, &origin()).unwrap());
            ready().unwrap();
            [path.clone(), older(&path, 1)].iter().for_each(|file| fs::remove_file(file).unwrap());
        }
    }

    /// The name of the series always belongs to a locked file, however often the file changes.
    #[test]
    fn the_file_that_is_written_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.jsonl");
        let mut current = Current::create(&path, Bound { size: LEAST, files: 3 }, origin()).unwrap();
        for round in 0..4 {
            current.write_all(HEAD.as_bytes()).unwrap();
            current.next().unwrap();
            assert!(File::open(&path).unwrap().try_lock().is_err(), "{round}");
            // An older file is free.
            File::open(older(&path, 1)).unwrap().try_lock().unwrap();
        }
    }
}
