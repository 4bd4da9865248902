//! What `sim` and `run` can do with a trace while it comes into being: write it, keep it to draw.

use crate::failure::Failure;
use crate::files;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use takt_core::time::Time;
use takt_trace::{Footer, Format, Header, Stamped, Trace, Writer, gantt};

/// More records than this are not drawn: such a picture shows nothing.
const DRAWN_MAX: usize = 200_000;
/// A run with at most this many records is drawn in the terminal.
const TEXT_MAX: usize = 400;

/// Options about traces.
#[derive(clap::Args, Debug)]
pub(crate) struct OutputArgs {
    /// Write a trace: .pftrace (Perfetto), .jsonl or .csv by its ending; `-` is JSON lines on standard output
    #[arg(long, value_name = "OUT")]
    pub(crate) trace: Option<PathBuf>,
    /// Draw a Gantt chart as SVG
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) gantt: Option<PathBuf>,
    /// Print one JSON object and nothing else on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with status 1 when a deadline was missed, an activation was cut off, or a process failed
    #[arg(long)]
    pub(crate) strict: bool,
}

impl OutputArgs {
    /// The files that are written, once it is known that their endings name what can be written.
    pub(crate) fn files(&self) -> Result<impl Iterator<Item = &PathBuf>, Failure> {
        if self.json && self.to_stdout() {
            let message = "`--json` and `--trace -` would both write to standard output";
            return Err(Failure::input(message, "write the trace to a file, or leave `--json` out"));
        }
        let trace = self.trace.iter().filter(|_| !self.to_stdout());
        if let Some(path) = trace.clone().find(|path| Format::from_path(path).is_none()) {
            let hint = "name it .pftrace (Perfetto), .jsonl or .csv";
            return Err(Failure::input(format!("the ending of `{}` names no trace format", path.display()), hint));
        }
        if let Some(path) = self.gantt.iter().find(|path| path.extension().is_none_or(|e| e != "svg")) {
            let message = format!("`{}` does not end in .svg", path.display());
            return Err(Failure::input(message, "a Gantt chart is written as SVG: name it .svg"));
        }
        Ok(trace.chain(&self.gantt))
    }

    pub(crate) fn to_stdout(&self) -> bool {
        self.trace.as_deref() == Some(Path::new("-"))
    }
    /// Whether the summary for people is wanted on standard output.
    pub(crate) fn for_people(&self) -> bool {
        !self.json && !self.to_stdout()
    }
}

/// A run's trace may pile up to so many bytes before nobody is taken to read it.
const PILE_MAX: usize = 64 << 20;

/// Writes on a thread of its own: a reader that stops, or a disk that does, must not hold up who watches the run.
struct Behind {
    chunks: mpsc::Sender<Vec<u8>>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    piled: AtomicUsize,
    error: Mutex<Option<io::Error>>,
}

impl State {
    fn take_error(&self) -> Option<io::Error> {
        self.error.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

/// The other end of [`Behind`].
struct Thread {
    state: Arc<State>,
    done: mpsc::Receiver<()>,
}

impl Thread {
    /// Waits until everything is written, at most for `limit`. Returns what went wrong.
    fn finish(&self, limit: Option<Duration>) -> Option<io::Error> {
        let written = match limit {
            Some(limit) => self.done.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout),
            None => self.done.recv().is_ok(),
        };
        let unread = || Some(io::Error::new(io::ErrorKind::TimedOut, "nobody reads it"));
        self.state.take_error().or_else(|| if written { None } else { unread() })
    }
}

fn behind(mut out: Box<dyn Write + Send>) -> (Behind, Thread) {
    let (chunks, to_write) = mpsc::channel::<Vec<u8>>();
    let (tell, done) = mpsc::channel();
    let state = Arc::new(State::default());
    let shared = state.clone();
    std::thread::spawn(move || {
        for chunk in to_write {
            let written = out.write_all(&chunk).and_then(|()| out.flush());
            shared.piled.fetch_sub(chunk.len(), Ordering::AcqRel);
            if let Err(e) = written {
                *shared.error.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
                break;
            }
        }
        // Nobody listens any more when the wait for it was given up.
        let _ = tell.send(());
    });
    (Behind { chunks, state: state.clone() }, Thread { state, done })
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(e) = self.state.take_error() {
            return Err(e);
        }
        if self.state.piled.fetch_add(bytes.len(), Ordering::AcqRel) > PILE_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads it"));
        }
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.chunks.send(bytes.to_vec()).map(|()| bytes.len()).map_err(gone)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes the records of one simulation or run.
pub(crate) struct Recorder {
    path: Option<PathBuf>,
    file: Option<File>,
    writer: Option<Box<dyn Writer + Send>>,
    thread: Option<Thread>,
    kept: Vec<Stamped>,
    keep: usize,
    overflow: bool,
    gantt: Option<PathBuf>,
    text: bool,
    header: Header,
    error: Option<io::Error>,
}

impl Recorder {
    /// Its files are [`files::ready`]. A trace is created when it begins, so that nothing is left behind where nothing comes of it; but a
    /// pipe is opened here, since that may wait for who reads it.
    pub(crate) fn new(args: &OutputArgs, header: Header) -> Result<Recorder, Failure> {
        let pipe = args.trace.as_deref().filter(|path| !args.to_stdout() && path.exists() && !path.is_file());
        let file = pipe.map(|path| File::create(path).map_err(|e| Failure::file("write", path, &e))).transpose()?;
        let text = args.for_people();
        let keep = if args.gantt.is_some() {
            DRAWN_MAX
        } else if text {
            TEXT_MAX
        } else {
            0
        };
        Ok(Recorder {
            path: args.trace.clone(),
            file,
            writer: None,
            thread: None,
            kept: Vec::new(),
            keep,
            overflow: false,
            gantt: args.gantt.clone(),
            text,
            header,
            error: None,
        })
    }

    /// Writes the header, once what it says is known. In a run, what follows is written by another thread.
    pub(crate) fn begin(&mut self, in_run: bool, change: impl FnOnce(&mut Header)) {
        change(&mut self.header);
        let Some(path) = &self.path else { return };
        let (format, mut out): (_, Box<dyn Write + Send>) = if path == Path::new("-") {
            (Format::JsonLines, Box::new(io::stdout()))
        } else {
            match self.file.take().map_or_else(|| File::create(path), Ok) {
                Ok(file) => (Format::from_path(path).unwrap_or(Format::JsonLines), Box::new(file)),
                Err(e) => return self.error = Some(e),
            }
        };
        if in_run {
            let (writer, thread) = behind(out);
            (out, self.thread) = (Box::new(writer), Some(thread));
        }
        match takt_trace::writer(format, &self.header, out) {
            Ok(writer) => self.writer = Some(writer),
            Err(e) => self.error = Some(e),
        }
    }

    /// Whether nobody wants records.
    pub(crate) fn is_idle(&self) -> bool {
        self.writer.is_none() && self.keep == 0
    }

    pub(crate) fn record(&mut self, record: &Stamped) {
        if let Some(writer) = &mut self.writer
            && let Err(e) = writer.record(record)
        {
            self.writer = None;
            self.error = Some(e);
        }
        if self.kept.len() < self.keep {
            self.kept.push(*record);
        } else {
            self.overflow = true;
        }
    }

    /// Hands what was written so far to the operating system.
    pub(crate) fn flush(&mut self) {
        if let Some(writer) = &mut self.writer
            && let Err(e) = writer.flush()
        {
            self.writer = None;
            self.error = Some(e);
        }
    }

    /// Ends the trace and draws what is to be drawn. Returns what went wrong with the files. A run that was asked to end waits
    /// only so `long` for who reads its trace.
    pub(crate) fn finish(
        mut self,
        end: Time,
        dropped: u64,
        long: Option<Duration>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let footer = Footer { end, dropped };
        if let Some(writer) = self.writer.take()
            && let Err(e) = writer.finish(&footer)
        {
            self.error = Some(e);
        }
        if let Some(e) = self.thread.take().and_then(|thread| thread.finish(long)) {
            self.error.get_or_insert(e);
        }
        let truncated = self.overflow;
        let footer = if truncated { None } else { Some(footer) };
        let mut trace = Trace { header: self.header, records: self.kept, footer };
        if truncated {
            // Drawn as far as it was kept.
            trace.header.duration = None;
        }
        if self.text && !truncated && !trace.records.is_empty() {
            writeln!(out, "\n{}", gantt::text(&trace, &gantt::TextOptions::default()))?;
        }
        if let Some(path) = &self.gantt {
            let svg = gantt::svg(&trace, &gantt::SvgOptions::default());
            files::write(path, svg)?;
        }
        match (self.error, self.path) {
            (Some(e), Some(path)) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::file("write", &path, &e)),
            _ => Ok(()),
        }
    }
}
