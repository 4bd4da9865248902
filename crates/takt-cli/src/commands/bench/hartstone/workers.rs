//! All cores for many independent jobs. What comes out does not depend on how many there are.

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does all jobs and returns their results in the order of the jobs. `shown`: with a progress bar, if standard error is a terminal.
pub(super) fn all<J: Sync, R: Send>(jobs: &[J], shown: bool, work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let bar = if shown { ProgressBar::new(jobs.len() as u64) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} trials, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let result = work(job);
                    *results[index].lock().expect("nobody panics with it") = Some(result);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let result = |slot: Mutex<Option<R>>| slot.into_inner().expect("nobody panics with it").expect("it was done");
    results.into_iter().map(result).collect()
}
