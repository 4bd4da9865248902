//! Sets of CPU numbers.

use core::fmt;

/// The number of CPUs that a set can hold, from number 0 on: 1024, and 64 on processors of 32 bits, whose memory is small.
/// A WebAssembly module schedules the CPUs of its host.
pub const MAX_CPUS: usize = if cfg!(any(target_pointer_width = "64", target_family = "wasm")) { 1024 } else { 64 };
const WORDS: usize = MAX_CPUS / 64;

/// A set of CPU numbers below [`MAX_CPUS`]. Copying and comparing cost a constant 128 bytes, or 8.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet([u64; WORDS]);

impl CpuSet {
    /// The empty set.
    pub const EMPTY: CpuSet = CpuSet([0; WORDS]);

    /// The set of one CPU.
    ///
    /// # Panics
    /// When `cpu` is not below [`MAX_CPUS`].
    #[must_use]
    pub fn single(cpu: usize) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        set.insert(cpu);
        set
    }
    /// CPUs 0 to `n - 1`.
    ///
    /// # Panics
    /// When `n` is above [`MAX_CPUS`].
    #[must_use]
    pub fn first(n: usize) -> CpuSet {
        assert!(n <= MAX_CPUS, "CPU {n} is beyond the last one");
        let mut set = CpuSet::default();
        for (index, word) in set.0.iter_mut().enumerate() {
            let count = n.saturating_sub(64 * index);
            *word = if count < 64 { (1 << count) - 1 } else { u64::MAX };
        }
        set
    }
    /// Adds a CPU.
    ///
    /// # Panics
    /// When `cpu` is not below [`MAX_CPUS`].
    pub fn insert(&mut self, cpu: usize) {
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }
    /// Removes a CPU.
    pub fn remove(&mut self, cpu: usize) {
        self.0[cpu / 64] &= !(1 << (cpu % 64));
    }
    /// Whether the CPU is in the set.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        cpu < MAX_CPUS && self.0[cpu / 64] & (1 << (cpu % 64)) != 0
    }
    /// Whether no CPU is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }
    /// Number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }
    /// Whether every CPU of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }
    /// Whether the sets have no CPU in common.
    #[must_use]
    pub fn is_disjoint(&self, other: &CpuSet) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & b == 0)
    }
    /// CPUs in either set.
    #[must_use]
    pub fn union(mut self, other: &CpuSet) -> CpuSet {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
        self
    }
    /// CPUs in both sets.
    #[must_use]
    pub fn intersection(mut self, other: &CpuSet) -> CpuSet {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
        self
    }
    /// CPUs of this set that are not in `other`.
    #[must_use]
    pub fn difference(mut self, other: &CpuSet) -> CpuSet {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
        self
    }
    /// The CPU numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            core::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    i * 64 + bit
                })
            })
        })
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::EMPTY;
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

/// Prints the kernel's list form: `0,2,5-7`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}
impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_set_prints_as_the_kernel_lists_it() {
        let set: CpuSet = [0, 2, 5, 6, 7, 63, 64, 1023].into_iter().collect();
        assert_eq!(set.to_string(), "0,2,5-7,63-64,1023");
        assert_eq!(set.len(), 8);
        assert!(CpuSet::EMPTY.to_string().is_empty());
    }

    #[test]
    fn sets_are_compared_and_combined() {
        let (a, b): (CpuSet, CpuSet) = ((0..4).collect(), (2..6).collect());
        assert_eq!(a.intersection(&b), (2..4).collect());
        assert_eq!(a.union(&b), CpuSet::first(6));
        assert_eq!(a.difference(&b), CpuSet::first(2));
        assert!(!a.is_disjoint(&b) && !a.is_subset(&b) && CpuSet::first(2).is_subset(&a));
    }
}
