//! How every experiment is carried out: in blocks, on all CPUs, resumable.

use super::curves::{self, Picture, Size, size};
use super::page::{self, Texts};
use super::part::{Block, Layout, Part, part};
use super::parts::Parts;
use super::singles::{Rows, beside};
use super::state::{Found, Results, State, Subject, command_of, out_of_range, own_arguments};
use crate::failure::Failure;
use crate::files;
use crate::parallel;
use crate::processes::is_ignored;
use crate::progress::Progress;
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use takt_workload::{Code, Source};

/// The options of every experiment.
#[derive(clap::Args, Debug)]
pub(super) struct Common {
    /// Keep the results in this file; the same command continues from there
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Compute part I of N only, into `--state`; `takt sweep merge` prints the results of all parts
    #[arg(long, value_name = "I/N", value_parser = part, requires = "state", conflicts_with_all = ["svg", "html", "json"])]
    pub(super) shard: Option<Part>,
    /// Draw the curves
    #[arg(long, value_name = "OUT.svg")]
    pub(super) svg: Option<PathBuf>,
    /// Write the curves as an HTML page that needs no network: curves can be hidden and enlarged, and the pointer shows values
    #[arg(long, value_name = "OUT.html")]
    pub(super) html: Option<PathBuf>,
    /// Title of the pictures
    #[arg(long, value_name = "TEXT", conflicts_with = "shard")]
    pub(super) title: Option<String>,
    /// Width and height of the pictures in pixels, such as 900x500. A picture is larger where its panels do not fit
    #[arg(long, value_name = "WxH", value_parser = size, conflicts_with = "shard")]
    pub(super) size: Option<Size>,
    /// Number of threads; by default one for each CPU of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// The parts in place of the work.
    #[arg(skip)]
    pub(super) merge: Option<Parts>,
}

/// Between two writes of the state.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// The sets of one point in one part are no more than this.
const SETS_OF_PART: u64 = 10_000_000;

impl Common {
    /// The files of its curves.
    pub(super) fn pictures(&self) -> impl Iterator<Item = &PathBuf> {
        self.svg.iter().chain(&self.html)
    }

    /// The texts of files that the parts of the experiment hold, which a merge reads instead of the files.
    pub(super) fn texts(&self) -> Vec<Source> {
        self.merge.as_ref().map_or_else(Vec::new, Parts::texts)
    }

    /// The text of a file of the experiment.
    ///
    /// # Errors
    /// As [`Source::among`].
    pub(super) fn source(&self, file: &Path) -> Result<Source, Failure> {
        Source::among(&self.texts(), file).map_err(|unreadable| Failure::unreadable(&unreadable))
    }

    /// The files that are read beside those of the experiment: the state, and the rows of single sets or runs.
    pub(super) fn states(&self) -> Vec<PathBuf> {
        let state = self.state.iter().flat_map(|state| [state.clone(), beside(state)]);
        state.chain(self.merge.iter().flat_map(Parts::beside)).collect()
    }

    /// Refuses to keep single sets or runs (`unit`) without a state.
    ///
    /// # Errors
    /// Status 2 with the option.
    pub(super) fn kept(&self, keep: bool, unit: &str) -> Result<(), Failure> {
        if !keep || self.state.is_some() || self.merge.is_some() {
            return Ok(());
        }
        let message = format!("`--keep-{unit}` has no effect without `--state`");
        Err(Failure::input(Code::NoEffect, message, "name a state, or leave the option out"))
    }

    /// Writes the curves as SVG and as a page, where they are requested.
    ///
    /// # Errors
    /// As [`files::write`].
    pub(super) fn draw(&self, picture: &Picture<'_>, setup: &Value, texts: Texts<'_>) -> Result<(), Failure> {
        if let Some(path) = &self.svg {
            files::write(path, curves::svg(picture))?;
        }
        if let Some(path) = &self.html {
            let arguments = self.merge.as_ref().map_or_else(own_arguments, |parts| parts.command().1.to_vec());
            files::write(path, page::html(picture, setup, &command_of(&arguments), texts))?;
        }
        Ok(())
    }

    /// Refuses options of pictures where none is drawn.
    ///
    /// # Errors
    /// Status 2 with the option.
    pub(super) fn drawn(&self, is_drawn: bool) -> Result<(), Failure> {
        let options = [("--title", self.title.is_some()), ("--size", self.size.is_some())];
        match options.iter().find(|(_, given)| *given && !is_drawn) {
            Some((option, _)) => {
                let message = format!("`{option}` has no effect: no picture is drawn");
                Err(Failure::input(
                    Code::NoEffect,
                    message,
                    "name a picture with `--svg` or `--html`, or leave the option out",
                ))
            }
            None => Ok(()),
        }
    }

    /// The blocks of an experiment with so many sets or runs at each point, as far as they belong to its part.
    ///
    /// # Errors
    /// The part has too many of them.
    pub(super) fn layout(&self, sets: Vec<u64>, size: u64) -> Result<Layout, Failure> {
        let part = self.shard.unwrap_or(Part::WHOLE);
        let most = sets.iter().copied().max().unwrap_or(0);
        let parts = most.div_ceil(SETS_OF_PART);
        if self.merge.is_none() && parts > part.of {
            let message = format!("{most} sets at a point are more than {SETS_OF_PART} in one part");
            let hint = format!("take fewer, or at least {parts} parts (`--shard 1/{parts}`)");
            return Err(Failure::input(Code::OutOfRange, message, &hint));
        }
        Ok(Layout::new(sets, size, part))
    }
}

/// Hears the signals that end an experiment, until it is dropped.
pub(in crate::commands) struct Ends {
    /// No listener is left, so that the signals mean again what they mean to any program.
    unheard: Arc<AtomicBool>,
    handle: Handle,
}

impl Ends {
    /// Catches the signals, except a signal that this process has ignored since its start. `None` if they cannot be caught.
    pub(in crate::commands) fn hear() -> Option<(Signals, Ends)> {
        let wanted: Vec<i32> = [SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal)).collect();
        let unheard = Arc::new(AtomicBool::new(false));
        for signal in &wanted {
            signal_hook::flag::register_conditional_default(*signal, unheard.clone()).ok()?;
        }
        let signals = Signals::new(wanted).ok()?;
        let handle = signals.handle();
        Some((signals, Ends { unheard, handle }))
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.unheard.store(true, Ordering::SeqCst);
        self.handle.close();
    }
}

/// Whether single sets or runs are to be kept, and whether they are an output.
#[derive(Clone, Copy)]
pub(super) struct Singles {
    pub(super) kept: bool,
    pub(super) wanted: bool,
}

/// Asks about each block of sets or runs of the part, but for those in the state. `work` gives the results of a block, and rows of its sets or runs
/// if these are kept. The results are the same whatever the number of threads; `None` of a part, whose results are in its state alone.
///
/// # Errors
/// The first one of `work` by the order of blocks, or that of a state which cannot be read or kept.
pub(super) fn carry_out<T: Found>(
    common: &Common,
    subject: &Subject,
    singles: Singles,
    work: impl Fn(Block, bool) -> Result<(T, Vec<String>), Failure> + Sync,
) -> Result<Option<Results<T>>, Failure> {
    if let Some(merge) = &common.merge {
        return merge.totals(subject, singles.wanted).map(Some);
    }
    let unit = subject.unit;
    let mut state = State::open(common.state.as_deref(), subject, singles.kept || singles.wanted)?;
    let keeps = state.keeps();
    // The message at the end of the process says what the state keeps.
    let (mut signals, ends) = common.state.as_ref().and_then(|_| Ends::hear()).unzip();
    // A state that cannot be kept is reported before the work.
    state.save()?;
    let (layout, before) = (&subject.layout, state.done.ranges(subject.layout.size));
    let is_done = |(point, block): (usize, u64)| {
        let row = before.range(..=(point, block)).next_back();
        row.is_some_and(|((p, first), blocks)| *p == point && block < first + blocks)
    };
    let (total, done) = (layout.total(), state.done.sets());
    let progress = Progress::of(total, unit);
    progress.inc(done);
    let shared = Mutex::new((state, Instant::now()));
    let lock = || -> MutexGuard<'_, _> { shared.lock().expect("no worker panics while it holds the state") };
    let worked = std::thread::scope(|scope| {
        // The thread below waits until this is gone, even if a worker panics.
        let _ends = ends;
        if let (Some(signals), Some(path)) = (&mut signals, &common.state) {
            scope.spawn(|| {
                let Some(signal) = signals.forever().next() else { return };
                // The lock is held until the process ends.
                let mut shared = lock();
                progress.finish();
                if shared.0.save().is_ok() {
                    let (path, done) = (path.display(), shared.0.done.sets());
                    let _ = writeln!(
                        io::stderr(),
                        "interrupted: `{path}` keeps {done} of {total}; the same command continues"
                    );
                }
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            });
        }
        let threads = common.threads.map_or_else(parallel::threads, usize::from);
        let blocks = total.div_ceil(layout.size).try_into().unwrap_or(usize::MAX);
        parallel::each(layout.blocks().filter(|at| !is_done(*at)), threads.min(blocks), |(point, block)| {
            let block_of = layout.block(point, block);
            let (found, rows) = work(block_of, keeps)?;
            progress.inc(block_of.2);
            let mut shared = lock();
            let (state, saved) = &mut *shared;
            state.insert((point, block), found, rows)?;
            if saved.elapsed() >= SAVE_EVERY {
                state.save()?;
                *saved = Instant::now();
            }
            Ok(())
        })
    });
    progress.finish();
    let (mut state, _) = shared.into_inner().expect("the workers have ended");
    if let Err(why) = worked {
        // The failure of the work is the one to report.
        let _ = state.save();
        return Err(why);
    }
    if state.done.sets() > done {
        state.save()?;
    }
    if let (Some(part), Some(path)) = (common.shard, &common.state) {
        let path = path.display();
        let _ = writeln!(
            io::stderr(),
            "note: `{path}` has part {part}: {total} {unit}; `takt sweep merge` prints the results of all parts"
        );
        return Ok(None);
    }
    let points = state.done.totals(layout.sets.len(), subject.questions).ok_or_else(out_of_range)?;
    let rows = if singles.wanted { state.into_rows()? } else { Rows::new() };
    Ok(Some(Results { points, rows }))
}
