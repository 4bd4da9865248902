//! All cores for many independent jobs. What comes out does not depend on how many there are.

use crate::progress::Progress;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does all jobs and returns their results in the order of the jobs.
pub(super) fn all<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let progress = Progress::of(jobs.len() as u64, "trials");
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
                    *results[index].lock().expect("no worker panics with it") = Some(result);
                    progress.inc(1);
                }
            });
        }
    });
    progress.finish();
    let result = |slot: Mutex<Option<R>>| slot.into_inner().expect("no worker panics with it").expect("it was done");
    results.into_iter().map(result).collect()
}
