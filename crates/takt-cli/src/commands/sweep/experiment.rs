//! How every experiment is carried out: in blocks, on all CPUs, resumable.

use super::state::{Block, Found, State, Subject};
use crate::failure::Failure;
use crate::parallel;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The options of every experiment.
#[derive(clap::Args, Debug)]
pub(super) struct Common {
    /// Keep what is found in this file, and go on from there when called again
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
    let of_point =
        |point: usize| (0..sets).step_by(size as usize).map(move |first| (point, first, size.min(sets - first)));
    (0..points).flat_map(of_point).collect()
}

/// Finds out about each block, but for those that the state knows. The results stand in the order of `blocks`, whatever the
/// number of threads.
///
/// # Errors
/// The first one of `work` by the order of blocks, or that of a state which cannot be read or kept.
pub(super) fn carry_out<T: Found>(
    common: &Common,
    subject: &Subject,
    blocks: &[Block],
    work: impl Fn(Block) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let state = State::open(common.state.as_deref(), subject)?;
    // Whoever cannot keep the state learns it now.
    state.save()?;
    let missing: Vec<Block> = blocks.iter().copied().filter(|b| !state.done.contains_key(b)).collect();
    let progress = parallel::bar(blocks.iter().map(|b| b.2).sum());
    progress.inc(blocks.iter().filter(|b| state.done.contains_key(b)).map(|b| b.2).sum());
    let shared = Mutex::new((state, Instant::now(), None::<Failure>));
    let found = parallel::map(
        missing.len(),
        common.threads.map_or_else(parallel::threads, usize::from),
        |index| work(missing[index]),
        |index, found| {
            progress.inc(missing[index].2);
            let Ok(found) = found else { return };
            let mut shared = shared.lock().expect("no worker panics while it holds the state");
            let (state, saved, failed) = &mut *shared;
            state.done.insert(missing[index], found.clone());
            if saved.elapsed() >= SAVE_EVERY && failed.is_none() {
                *failed = state.save().err();
                *saved = Instant::now();
            }
        },
    );
    progress.finish_and_clear();
    let (state, _, failed) = shared.into_inner().expect("the workers have ended");
    found.into_iter().find_map(Result::err).map_or(Ok(()), Err)?;
    failed.map_or(Ok(()), Err)?;
    if !missing.is_empty() {
        state.save()?;
    }
    Ok(blocks.iter().map(|block| state.done[block].clone()).collect())
}
