//! Independent pieces of work on all CPUs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As many threads as this process has CPUs.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The results of `work` for 0 to `count - 1`, in that order, whatever thread computed them. `done` is called after each one, by
/// the thread that computed it.
pub(crate) fn map<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
    done: impl Fn(usize, &T) + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(count));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let result = work(index);
            done(index, &result);
            results.lock().expect("no worker panics while it holds the results").push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut results = results.into_inner().expect("a worker that panics ends the scope first");
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_order() {
        for threads in [1, 3, 50] {
            let told = std::sync::atomic::AtomicUsize::new(0);
            let squares = super::map(
                20,
                threads,
                |i| i * i,
                |_, _| {
                    told.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                },
            );
            assert_eq!(squares, (0..20).map(|i| i * i).collect::<Vec<_>>());
            assert_eq!(told.into_inner(), 20);
        }
        assert!(super::map(0, 4, |i| i, |_, _| ()).is_empty());
    }
}
