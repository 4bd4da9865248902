//! How every experiment is carried out: in blocks, on all CPUs, resumable.

use super::state::{Block, Found, State, Subject};
use crate::failure::Failure;
use crate::parallel;
use crate::processes::is_ignored;
use crate::progress::Progress;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The options of every experiment.
#[derive(clap::Args, Debug)]
pub(super) struct Common {
    /// Keep the results in this file; the same command continues from there
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Draw the curves
    #[arg(long, value_name = "OUT.svg")]
    pub(super) svg: Option<PathBuf>,
    /// Number of threads; by default one for each CPU of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(super) threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Between two writes of the state.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// Blocks of at most `size` out of `sets` for each point.
pub(super) fn blocks(points: usize, sets: u64, size: u64) -> Vec<Block> {
    blocks_of(&vec![sets; points], size)
}

/// Blocks of at most `size` out of as many sets as each point has.
pub(super) fn blocks_of(sets: &[u64], size: u64) -> Vec<Block> {
    let of_point = |(point, sets): (usize, &u64)| {
        let sets = *sets;
        (0..sets).step_by(size as usize).map(move |first| (point, first, size.min(sets - first)))
    };
    sets.iter().enumerate().flat_map(of_point).collect()
}

/// Hears the signals that end an experiment, until it is dropped.
struct Ends {
    /// No listener is left, so that the signals mean again what they mean to any program.
    unheard: Arc<AtomicBool>,
    handle: Handle,
}

impl Ends {
    /// All signals but those that this process ignores since its start; none if they cannot be caught.
    fn hear() -> Option<(Signals, Ends)> {
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

/// Finds out about each block of sets or runs (`unit`), but for those that the state knows. The results stand in the order of `blocks`, whatever the
/// number of threads.
///
/// # Errors
/// The first one of `work` by the order of blocks, or that of a state which cannot be read or kept.
pub(super) fn carry_out<T: Found>(
    common: &Common,
    subject: &Subject,
    blocks: &[Block],
    unit: &'static str,
    work: impl Fn(Block) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let mut state = State::open(common.state.as_deref(), subject)?;
    // A user who sees the state may end the experiment, and reads what it keeps.
    let (mut signals, ends) = common.state.as_ref().and_then(|_| Ends::hear()).unzip();
    // A state that cannot be written is an error now.
    state.save()?;
    let missing: Vec<Block> = blocks.iter().copied().filter(|b| !state.done.contains_key(b)).collect();
    let progress = Progress::of(blocks.iter().map(|b| b.2).sum(), unit);
    progress.inc(blocks.iter().filter(|b| state.done.contains_key(b)).map(|b| b.2).sum());
    let shared = Mutex::new((state, Instant::now(), None::<Failure>));
    let lock = || -> MutexGuard<'_, _> { shared.lock().expect("no worker panics while it holds the state") };
    let total: u64 = blocks.iter().map(|b| b.2).sum();
    let found = std::thread::scope(|scope| {
        // The thread below waits until this is gone, even if a worker panics.
        let _ends = ends;
        if let (Some(signals), Some(path)) = (&mut signals, &common.state) {
            scope.spawn(|| {
                let Some(signal) = signals.forever().next() else { return };
                // A waiting thread keeps waiting: this is the end.
                let mut shared = lock();
                progress.finish();
                let done: u64 = blocks.iter().filter(|b| shared.0.done.contains_key(b)).map(|b| b.2).sum();
                if shared.0.save().is_ok() {
                    let path = path.display();
                    let _ = writeln!(
                        io::stderr(),
                        "interrupted: `{path}` keeps {done} of {total}; the same command continues"
                    );
                }
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            });
        }
        parallel::map(
            missing.len(),
            common.threads.map_or_else(parallel::threads, usize::from),
            |index| work(missing[index]),
            |index, found| {
                progress.inc(missing[index].2);
                let Ok(found) = found else { return };
                let mut shared = lock();
                let (state, saved, failed) = &mut *shared;
                state.done.insert(missing[index], found.clone());
                if saved.elapsed() >= SAVE_EVERY && failed.is_none() {
                    *failed = state.save().err();
                    *saved = Instant::now();
                }
            },
        )
    });
    progress.finish();
    let (mut state, _, failed) = shared.into_inner().expect("the workers have ended");
    found.into_iter().find_map(Result::err).map_or(Ok(()), Err)?;
    failed.map_or(Ok(()), Err)?;
    if !missing.is_empty() {
        state.save()?;
    }
    Ok(blocks.iter().map(|block| state.done[block].clone()).collect())
}
