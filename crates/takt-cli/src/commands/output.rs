//! The uses of a trace in `sim` and `run` during the schedule: write it, keep it to draw.

use super::behind::{Single, Thread, behind};
use super::series::{self, Bound, Current, Origin, Series};
use crate::failure::Failure;
use crate::files;
use crate::progress::Progress;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use takt_core::model::WindowTable;
use takt_core::time::Time;
use takt_trace::gantt::{self, SvgOptions};
use takt_trace::jobs::JobTable;
use takt_trace::page::PageWriter;
use takt_trace::{Change, Footer, Format, Header, Measured, Stamped, TaskLabel, Trace, Writer};
use takt_workload::{Code, Workload};

/// More records than this are not drawn: such a picture shows nothing.
const DRAWN_MAX: usize = 200_000;
/// More changes from outside are not drawn.
const CHANGES_MAX: usize = 1000;
/// More measured values are not drawn.
const MEASURED_MAX: usize = 100_000;
/// A run with at most this many records is drawn in the terminal.
const TEXT_MAX: usize = 400;

/// Options about traces.
#[derive(clap::Args, Default, Debug)]
pub(crate) struct OutputArgs {
    /// Write a trace; the ending is the format: .pftrace (Perfetto), .jsonl, .csv or .html (a page). `-` is JSON lines on standard output
    #[arg(long, value_name = "OUT")]
    pub(crate) trace: Option<PathBuf>,
    /// Begin another file when the trace has so many bytes, such as 64M: the last one becomes OUT with the number 1 before its ending
    #[arg(long, value_name = "SIZE", requires = "trace", value_parser = series::size)]
    pub(crate) trace_size: Option<u64>,
    /// How many files of a trace are kept, with the one that is written; older ones are removed
    #[arg(long, value_name = "N", requires = "trace_size", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(2..series::FILES_MAX))]
    pub(crate) trace_files: u64,
    /// Write a table of jobs: release, start, finish, response time and its parts, outcome, CPU and preemptions of each
    #[arg(long, value_name = "OUT.csv")]
    pub(crate) jobs: Option<PathBuf>,
    /// Draw a Gantt chart as SVG
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) gantt: Option<PathBuf>,
    /// First and last instant of the chart, such as `100ms..250ms`; either may be left out
    #[arg(long, value_name = "FROM..TO", requires = "gantt", value_parser = range)]
    pub(crate) gantt_range: Option<Range>,
    /// Width of the chart in pixels
    #[arg(long, value_name = "PIXELS", requires = "gantt", default_value_t = 1200,
          value_parser = clap::value_parser!(u32).range(400..=20_000))]
    pub(crate) gantt_width: u32,
    /// Print one JSON object and nothing else on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with status 1 when a deadline was missed, an activation was cut off, or a process failed
    #[arg(long)]
    pub(crate) strict: bool,
    /// Neither a summary nor a chart: standard output is that of the processes (`takt demos`).
    #[arg(skip)]
    pub(crate) quiet: bool,
}

/// A range of instants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) from: Time,
    pub(crate) to: Option<Time>,
}

fn range(text: &str) -> Result<Range, String> {
    let (from, to) = text.split_once("..").ok_or("write two instants, as in `100ms..250ms`")?;
    let instant = |text: &str| match text.trim() {
        "" => Ok(None),
        text => takt_workload::parse_duration(text).map(|span| Some(Time::ZERO + span)),
    };
    let (from, to) = (instant(from)?.unwrap_or(Time::ZERO), instant(to)?);
    if to.is_some_and(|to| to <= from) {
        return Err("the range ends before it begins".into());
    }
    Ok(Range { from, to })
}

impl OutputArgs {
    /// The files that are written, once it is known that their endings name what can be written. The trace has this source and workload.
    pub(crate) fn files(&self, source: &str, workload: &str) -> Result<impl Iterator<Item = &PathBuf>, Failure> {
        if self.json && self.to_stdout() {
            let message = "`--json` and `--trace -` would both write to standard output";
            return Err(Failure::input(
                Code::ConflictingOptions,
                message,
                "write the trace to a file, or leave `--json` out",
            ));
        }
        let trace = self.trace.iter().filter(|_| !self.to_stdout());
        let is_file = |path: &Path| !self.to_stdout() && (!path.exists() || path.is_file());
        if let Some(path) = self.trace.iter().find(|path| self.trace_size.is_some() && !is_file(path)) {
            let message = format!("`--trace-size` divides a file, and `{}` is none", path.display());
            return Err(Failure::input(
                Code::ConflictingOptions,
                message,
                "write the trace to a file, or leave `--trace-size` out",
            ));
        }
        let bound = self.trace_bound();
        if let (Some(path), Some(bound)) = (trace.clone().find(|path| Format::from_path(path).is_some()), bound) {
            series::ready(path, bound, &Origin { source: source.into(), workload: workload.into() })?;
        }
        if let Some(path) = trace.clone().find(|path| self.trace_size.is_some() && is_page(path)) {
            let message = format!("`--trace-size` divides a trace, and `{}` is a page", path.display());
            let hint = "write the trace as .jsonl or .csv, or leave `--trace-size` out";
            return Err(Failure::input(Code::ConflictingOptions, message, hint));
        }
        if let Some(path) = trace.clone().find(|path| Format::from_path(path).is_none() && !is_page(path)) {
            let hint = "name it .pftrace (Perfetto), .jsonl, .csv or .html";
            return Err(Failure::input(
                Code::WrongFormat,
                format!("the ending of `{}` names no trace format", path.display()),
                hint,
            ));
        }
        if let Some(path) = self.gantt.iter().find(|path| path.extension().is_none_or(|e| e != "svg")) {
            let message = format!("`{}` does not end in .svg", path.display());
            return Err(Failure::input(Code::WrongFormat, message, "a Gantt chart is written as SVG: name it .svg"));
        }
        if let Some(path) = self.jobs.iter().find(|path| path.extension().is_none_or(|e| e != "csv")) {
            let message = format!("`{}` does not end in .csv", path.display());
            return Err(Failure::input(Code::WrongFormat, message, "a table of jobs is written as CSV: name it .csv"));
        }
        Ok(trace.chain(&self.jobs).chain(&self.gantt))
    }

    /// The bound on the files of the trace, if it is a series.
    fn trace_bound(&self) -> Option<Bound> {
        self.trace_size.map(|size| Bound { size, files: self.trace_files })
    }

    pub(crate) fn to_stdout(&self) -> bool {
        self.trace.as_deref() == Some(Path::new("-"))
    }
    /// Whether the summary for people is wanted on standard output.
    pub(crate) fn for_people(&self) -> bool {
        !self.takes_stdout() && !self.quiet
    }
    /// Whether standard output is for a program, so that processes write elsewhere.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.json || self.to_stdout()
    }
}

/// Whether the ending of a path is that of a page.
fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "html")
}

/// The contents of a file of records.
#[derive(Clone, Copy)]
enum Kind {
    Trace,
    Jobs,
}

/// A file of records that is written while they come into being.
struct Written {
    kind: Kind,
    path: PathBuf,
    /// The text of the workload's file, for a page.
    workload: String,
    /// A trace in a series of files: its bound, and the wish for another file.
    series: Option<(Bound, Arc<AtomicBool>)>,
    /// A pipe is opened before the run.
    file: Option<File>,
    writer: Option<Box<dyn Writer + Send>>,
    thread: Option<Thread>,
    error: Option<io::Error>,
}

impl Written {
    /// A file is created when its records begin, so that nothing is left behind where nothing comes of it; but a pipe is opened here, since
    /// that may wait for its reader.
    fn new(kind: Kind, path: &Path, workload: &str) -> Result<Written, Failure> {
        let is_pipe = path != Path::new("-") && path.exists() && !path.is_file();
        let file = is_pipe.then(|| File::create(path).map_err(|e| Failure::write(path, &e))).transpose()?;
        let (path, workload) = (path.to_owned(), workload.to_owned());
        Ok(Written { kind, path, workload, series: None, file, writer: None, thread: None, error: None })
    }

    fn begin(&mut self, in_run: bool, header: &Header) {
        match self.begun(in_run, header) {
            Ok(writer) => self.writer = Some(writer),
            Err(e) => self.error = Some(e),
        }
    }

    fn begun(&mut self, in_run: bool, header: &Header) -> io::Result<Box<dyn Writer + Send>> {
        if let Some((bound, rotate)) = &self.series {
            let (behind, thread) = behind(Box::new(Current::create(&self.path, *bound, Origin::of(header))?));
            self.thread = Some(thread);
            let format = Format::from_path(&self.path).unwrap_or(Format::JsonLines);
            return Ok(Box::new(Series::new(format, header, behind, *bound, rotate.clone())?));
        }
        let mut out: Box<dyn Write + Send> = match self.file.take() {
            Some(pipe) => Box::new(pipe),
            None if self.path == Path::new("-") => Box::new(io::stdout()),
            None => Box::new(files::fresh(&self.path)?),
        };
        if in_run {
            let (writer, thread) = behind(Box::new(Single(out)));
            (out, self.thread) = (Box::new(writer), Some(thread));
        }
        Ok(match self.kind {
            Kind::Trace if is_page(&self.path) => Box::new(PageWriter::new(header, &self.workload, out)),
            Kind::Trace => takt_trace::writer(Format::from_path(&self.path).unwrap_or(Format::JsonLines), header, out)?,
            Kind::Jobs => Box::new(JobTable::new(header, out)?),
        })
    }

    fn with(&mut self, act: impl FnOnce(&mut (dyn Writer + Send)) -> io::Result<()>) {
        if let Some(writer) = &mut self.writer
            && let Err(e) = act(&mut **writer)
        {
            self.writer = None;
            self.error = Some(e);
        }
    }

    fn finish(&mut self, footer: &Footer, long: Option<Duration>) -> Result<(), Failure> {
        if let Some(writer) = self.writer.take()
            && let Err(e) = writer.finish(footer)
        {
            self.error.get_or_insert(e);
        }
        if let Some(e) = self.thread.take().and_then(|thread| thread.finish(long)) {
            // The thread knows why; the other end only that it has gone.
            self.error = Some(e);
        }
        self.error.take().map_or(Ok(()), |e| Err(Failure::write(&self.path, &e)))
    }
}

/// Lets the drawing of a long trace end with the first hyperperiod, and says so below it. `option` is the option that draws up to an instant.
pub(crate) fn open_on_hyperperiod(trace: &Trace, options: &mut SvgOptions, option: impl Fn(Time) -> String) {
    /// Pieces narrower than this, in pixels, are hard to tell apart.
    const PIECE: u32 = 3;
    options.to = gantt::first_hyperperiod(trace, (options.width / PIECE) as usize);
    options.note = options.to.map(|to| opening(trace, to, option(trace.end())));
}

/// The line about a chart that ends with the first hyperperiod.
pub(crate) fn opening(trace: &Trace, to: Time, option: String) -> String {
    format!("the first hyperperiod, up to {to} of {}; {option} draws all", trace.end())
}

/// Takes the records of one simulation or run.
pub(crate) struct Recorder {
    written: Vec<Written>,
    rotate: Arc<AtomicBool>,
    kept: Vec<Stamped>,
    changes: Vec<Change>,
    measured: Vec<Measured>,
    keep: usize,
    overflow: bool,
    gantt: Option<(PathBuf, SvgOptions)>,
    /// The user has chosen the range of the chart.
    is_ranged: bool,
    text: bool,
    header: Header,
}

impl Recorder {
    /// Its files are [`files::ready`].
    pub(crate) fn new(args: &OutputArgs, header: Header, workload: &Workload) -> Result<Recorder, Failure> {
        let files = [(Kind::Trace, &args.trace), (Kind::Jobs, &args.jobs)];
        let files = files
            .into_iter()
            .filter_map(|(kind, path)| Some(Written::new(kind, path.as_deref()?, &workload.source.text)));
        let mut written: Vec<Written> = files.collect::<Result<_, _>>()?;
        let rotate = Arc::new(AtomicBool::new(false));
        for file in written.iter_mut().filter(|file| matches!(file.kind, Kind::Trace)) {
            file.series = args.trace_bound().map(|bound| (bound, rotate.clone()));
        }
        let text = args.for_people();
        let keep = if args.gantt.is_some() {
            DRAWN_MAX
        } else if text {
            TEXT_MAX
        } else {
            0
        };
        let Range { from, to } = args.gantt_range.unwrap_or(Range { from: Time::ZERO, to: None });
        let options = SvgOptions { width: args.gantt_width, from, to, ..SvgOptions::default() };
        Ok(Recorder {
            written,
            rotate,
            kept: Vec::new(),
            changes: Vec::new(),
            measured: Vec::new(),
            keep,
            overflow: false,
            gantt: args.gantt.clone().map(|path| (path, options)),
            is_ranged: args.gantt_range.is_some(),
            text,
            header,
        })
    }

    /// Writes the header, once what it says is known. In a run, what follows is written by another thread.
    pub(crate) fn begin(&mut self, in_run: bool, change: impl FnOnce(&mut Header)) {
        change(&mut self.header);
        self.written.iter_mut().for_each(|file| file.begin(in_run, &self.header));
    }

    /// Whether no output takes records.
    pub(crate) fn is_idle(&self) -> bool {
        self.keep == 0 && self.written.iter().all(|file| file.writer.is_none())
    }

    pub(crate) fn record(&mut self, record: &Stamped) {
        self.written.iter_mut().for_each(|file| file.with(|writer| writer.record(record)));
        if self.kept.len() < self.keep {
            self.kept.push(*record);
        } else {
            self.overflow = true;
        }
    }

    /// A change of the run from outside, after the records up to its instant.
    pub(crate) fn change(&mut self, change: Change) {
        self.written.iter_mut().for_each(|file| file.with(|writer| writer.change(&change)));
        if !self.overflow && self.keep > 0 && self.changes.len() < CHANGES_MAX {
            self.changes.push(change);
        }
    }

    /// A value that the machine measured.
    pub(crate) fn measured(&mut self, measured: Measured) {
        self.written.iter_mut().for_each(|file| file.with(|writer| writer.measured(&measured)));
        if !self.overflow && self.keep > 0 && self.measured.len() < MEASURED_MAX {
            self.measured.push(measured);
        }
    }

    /// A task is added at an instant, before its records.
    pub(crate) fn task(&mut self, at: Time, label: &TaskLabel) {
        self.written.iter_mut().for_each(|file| file.with(|writer| writer.task(at, label)));
        self.header.tasks.push(TaskLabel { added: true, ..label.clone() });
    }

    /// A window table may take over from an instant on.
    pub(crate) fn table(&mut self, at: Time, table: &WindowTable) {
        // The tables of a run are numbered in this order, and there are not more numbers.
        let number = self.header.tables.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        self.written.iter_mut().for_each(|file| file.with(|writer| writer.table(at, number, table)));
        self.header.tables.insert(number, table.clone());
    }

    /// Begins another file of the trace with the next record when it is set; without effect unless the trace is a series of files.
    pub(crate) fn rotation(&self) -> Arc<AtomicBool> {
        self.rotate.clone()
    }

    /// Hands what was written so far to the operating system.
    pub(crate) fn flush(&mut self) {
        self.written.iter_mut().for_each(|file| file.with(|writer| writer.flush()));
    }

    /// Whether a file cannot be written any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.written.iter().any(|file| file.error.is_some())
    }

    /// Ends the files and draws what is to be drawn. Returns what went wrong with the first of them. A run that was asked to end waits
    /// only so `long` for who reads its trace.
    pub(crate) fn finish(
        mut self,
        end: Time,
        dropped: u64,
        long: Option<Duration>,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let footer = Footer { end, dropped };
        // All of them are ended before the first error is reported.
        let ends: Vec<_> = self.written.iter_mut().map(|file| file.finish(&footer, long)).collect();
        let written: Result<(), Failure> = ends.into_iter().collect();
        let truncated = self.overflow;
        let footer = if truncated { None } else { Some(footer) };
        let mut trace =
            Trace { header: self.header, records: self.kept, changes: self.changes, measured: self.measured, footer };
        if truncated {
            // Drawn as far as it was kept.
            trace.header.duration = None;
        }
        let shown = match self.text && !truncated && !trace.records.is_empty() {
            true => writeln!(out, "\n{}", gantt::text(&trace, &gantt::TextOptions::default())),
            false => Ok(()),
        };
        if let Some((path, options)) = &mut self.gantt {
            if !self.is_ranged {
                open_on_hyperperiod(&trace, options, |end| format!("`--gantt-range 0s..{end}`"));
            }
            let kept = trace.records.last().map_or(Time::ZERO, |last| last.record.at);
            if truncated && options.from >= kept {
                let message = format!("the chart would begin after its {DRAWN_MAX} records, which end at {kept}");
                let hint = "write a trace with `--trace`, and draw that range with `takt trace convert --from --to`";
                return written.and(Err(Failure::input(Code::EmptyRange, message, hint)));
            }
            if options.from > Time::ZERO && options.from >= end {
                let message = format!("the run ends at {end}, before the range of `--gantt-range`");
                return written.and(Err(Failure::input(Code::EmptyRange, message, "choose a range within the run")));
            }
            let progress = Progress::busy("drawing");
            let picture = gantt::svg(&trace, options);
            progress.finish();
            files::write(path, picture)?;
        }
        shown?;
        written
    }
}
