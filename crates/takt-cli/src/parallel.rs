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

/// Carries out `work` for each item in turn, on at most so many threads, until one fails.
///
/// # Errors
/// The failure of the first item that fails, whatever the number of threads.
pub(crate) fn each<I: Send, E: Send>(
    items: impl Iterator<Item = I> + Send,
    threads: usize,
    work: impl Fn(I) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let items = Mutex::new(items.enumerate());
    let failed = Mutex::new(None::<(usize, E)>);
    let worker = || {
        while failed.lock().expect("no worker panics here").is_none() {
            let next = items.lock().expect("no worker panics while it takes an item").next();
            let Some((index, item)) = next else { return };
            if let Err(e) = work(item) {
                // All items before this one have been taken, so the first failure is reported, too.
                let mut failed = failed.lock().expect("no worker panics here");
                if failed.as_ref().is_none_or(|(first, _)| index < *first) {
                    *failed = Some((index, e));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    let failed = failed.into_inner().expect("a worker that panics ends the scope first");
    failed.map_or(Ok(()), |(_, e)| Err(e))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_failure_is_reported() {
        for threads in [1, 3, 20] {
            let work = |i: u32| if i == 7 || i > 8 { Err(i) } else { Ok(()) };
            assert_eq!(super::each(0..50, threads, work), Err(7));
            assert_eq!(super::each(0..7, threads, work), Ok(()));
        }
    }

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
