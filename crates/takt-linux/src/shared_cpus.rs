//! A CPU set that two threads share without ever waiting for each other. A model test goes through the interleavings
//! (`tests/shared_cpus.rs`).

use crate::sync::{AtomicU32, AtomicU64, Ordering::*, WORDS, yield_now};
use takt_core::cpus::CpuSet;

/// A CPU set that one thread writes and others read without ever holding it up: readers repeat when the version moved.
pub(crate) struct SharedCpus {
    version: AtomicU32,
    words: [AtomicU64; WORDS],
}

impl SharedCpus {
    /// The empty set.
    pub(crate) fn new() -> SharedCpus {
        SharedCpus { version: AtomicU32::new(0), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    fn words(cpus: &CpuSet) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        cpus.iter().for_each(|cpu| words[cpu / 64] |= 1 << (cpu % 64));
        words
    }
    /// Stores the set and says whether it is another one. One writer at a time.
    pub(crate) fn replace(&self, cpus: &CpuSet) -> bool {
        let words = Self::words(cpus);
        if self.words.iter().zip(&words).all(|(old, new)| old.load(Relaxed) == *new) {
            return false;
        }
        self.version.fetch_add(1, AcqRel);
        self.words.iter().zip(&words).for_each(|(old, new)| old.store(*new, Release));
        self.version.fetch_add(1, Release);
        true
    }
    /// Makes the next [`SharedCpus::replace`] see a change.
    pub(crate) fn forget(&self) {
        self.version.fetch_add(1, AcqRel);
        self.words.iter().for_each(|word| word.store(0, Release));
        self.version.fetch_add(1, Release);
    }
    pub(crate) fn load(&self) -> (u32, CpuSet) {
        loop {
            let version = self.version.load(Acquire);
            let words = self.words.each_ref().map(|word| word.load(Acquire));
            if version.is_multiple_of(2) && self.version.load(Acquire) == version {
                let in_word = |(i, word): (usize, &u64)| {
                    let word = *word;
                    (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| i * 64 + bit)
                };
                return (version, words.iter().enumerate().flat_map(in_word).collect());
            }
            yield_now();
        }
    }
}
