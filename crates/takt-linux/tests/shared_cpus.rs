//! The CPU set that the scheduler moves while the supervisor reads it, in all interleavings of the two threads, by loom.

#[path = "../src/shared_cpus.rs"]
mod shared_cpus;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    pub(crate) use loom::thread::yield_now;
    /// Two words show what more would.
    pub(crate) const WORDS: usize = 2;
}

use loom::sync::Arc;
use loom::thread;
use shared_cpus::SharedCpus;
use takt_core::cpus::CpuSet;

fn set(cpus: [usize; 2]) -> CpuSet {
    cpus.into_iter().collect()
}

/// Two CPUs in different words: a torn read would be a set that was never written.
#[test]
fn a_reader_sees_one_of_the_sets_that_were_written() {
    let (before, after) = (set([1, 65]), set([2, 66]));
    loom::model(move || {
        let shared = Arc::new(SharedCpus::new());
        assert!(shared.replace(&before) && !shared.replace(&before));
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || assert!(shared.replace(&after)))
        };
        let (version, seen) = shared.load();
        assert!(seen == before || seen == after, "{seen}");
        writer.join().unwrap();
        let (later, last) = shared.load();
        assert_eq!(last, after);
        // A comparison of versions shows the change.
        assert_eq!(version == later, seen == after);
    });
}

/// After a change that failed, the next one is seen as a change, whatever it is.
#[test]
fn a_set_that_is_forgotten_is_written_again() {
    loom::model(|| {
        let shared = SharedCpus::new();
        assert!(shared.replace(&set([1, 65])));
        shared.forget();
        assert!(shared.replace(&set([1, 65])));
    });
}
