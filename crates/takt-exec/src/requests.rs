//! The scheduler's requests to the supervisor: a word for each task, which neither thread ever waits for.
//!
//! Unlike the ring of records they cannot be full: a process would wait for ever for a request that was dropped. A model test goes
//! through all interleavings of the two threads (`tests/requests.rs`).

use crate::sync::{AtomicBool, AtomicU64, Ordering};

const KINDS: u64 = 0xff;

/// For each task a number that the requests are about, an *incarnation*, and a set of kinds, as bits.
pub(crate) struct Requests {
    any: AtomicBool,
    words: Vec<AtomicU64>,
    /// The reason for the end of the run, above zero, and its job.
    end: [AtomicU64; 2],
}

impl Requests {
    pub(crate) fn new(tasks: usize) -> Requests {
        Requests {
            any: AtomicBool::new(false),
            words: (0..tasks).map(|_| AtomicU64::new(0)).collect(),
            end: [0; 2].map(AtomicU64::new),
        }
    }

    /// Asks for one kind, a single bit, about an incarnation. Requests about an earlier one that were not taken yet are void.
    pub(crate) fn ask(&self, task: usize, incarnation: u32, kind: u8) {
        let about = u64::from(incarnation) << 8;
        let add = |word: u64| {
            let others = if word & !KINDS == about { word & KINDS } else { 0 };
            Some(about | others | u64::from(kind))
        };
        let _ = self.words[task].fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        // Only now: who takes this finds the word.
        self.any.swap(true, Ordering::AcqRel);
    }

    /// Asks for the end of the run, about something above zero and a job. The first request counts, of the only thread that asks.
    pub(crate) fn ask_end(&self, about: u64, job: u64) {
        let [why, number] = &self.end;
        if why.load(Ordering::Relaxed) == 0 {
            number.store(job, Ordering::Relaxed);
            why.store(about, Ordering::Release);
        }
    }

    /// The request for the end of the run, if there is one.
    pub(crate) fn end(&self) -> Option<(u64, u64)> {
        let [why, number] = &self.end;
        let about = why.load(Ordering::Acquire);
        (about != 0).then(|| (about, number.load(Ordering::Relaxed)))
    }

    /// Takes the requests that have come since the last call: a task, an incarnation, and the kinds. O(tasks) if there are any.
    pub(crate) fn take(&self, mut each: impl FnMut(usize, u32, u8)) {
        if self.any.swap(false, Ordering::AcqRel) {
            for (task, word) in self.words.iter().enumerate() {
                let word = word.swap(0, Ordering::AcqRel);
                if word & KINDS != 0 {
                    each(task, (word >> 8) as u32, (word & KINDS) as u8);
                }
            }
        }
    }
}
