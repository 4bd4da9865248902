//! Parts of an experiment: the blocks of sets, and the part to which each belongs.

/// A block of sets of one point: the point, the first set, and how many.
pub(super) type Block = (usize, u64, u64);

/// The sets of one point in all parts are no more than this.
pub(super) const SETS_MOST: u64 = 1_000_000_000_000;

/// One of several parts, numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Part {
    pub(super) number: u64,
    pub(super) of: u64,
}

impl Part {
    /// The only part of an experiment in one piece.
    pub(super) const WHOLE: Part = Part { number: 1, of: 1 };
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// No experiment has more parts.
pub(super) const PARTS_MOST: u64 = 100_000;

/// A part as text, such as `1/4`.
pub(super) fn part(text: &str) -> Result<Part, String> {
    let form = || format!("write the part and the number of parts, at most {PARTS_MOST}, as in `1/4`");
    let (number, of) = text.split_once('/').ok_or_else(form)?;
    let read = |text: &str| text.parse().map_err(|_| form());
    let part = Part { number: read(number)?, of: read(of)? };
    match part {
        Part { of, .. } if !(1..=PARTS_MOST).contains(&of) => Err(form()),
        Part { number, of } if !(1..=of).contains(&number) => {
            Err(format!("the parts of {of} are 1/{of} to {of}/{of}; {}", form()))
        }
        _ => Ok(part),
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// The blocks of one part.
///
/// Block `b` of point `p`, of `P` points, has the number `n = b P + p`. It belongs to part `(n + n / L) mod N` of `N`, where `L` is the least
/// common multiple of `P` and `N`. The numbers of parts differ by at most one block. Without the second summand, a part would have few of the
/// points if `P` and `N` have a common divisor. A point's blocks of one part have numbers of their own, 0, 1, 2 …, without gaps.
/// More sets add blocks, and change none but an incomplete last one.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The number of sets of each point, in all parts.
    pub(super) sets: Vec<u64>,
    /// The number of sets of a block.
    pub(super) size: u64,
    pub(super) part: Part,
    /// The common divisor of `P` and `N`.
    common: u64,
    /// Blocks of one point in a cycle of `L` numbers.
    cycle: u64,
    /// The inverse of `P / common` modulo `cycle`.
    inverse: u64,
}

impl Layout {
    pub(super) fn new(sets: Vec<u64>, size: u64, part: Part) -> Layout {
        let points = (sets.len() as u64).max(1);
        let common = divisor(points, part.of);
        let cycle = part.of / common;
        let inverse = (0..cycle).find(|x| x * (points / common) % cycle == 1 % cycle).unwrap_or(0);
        Layout { sets, size, part, common, cycle, inverse }
    }

    /// The blocks of another part of the same experiment.
    pub(super) fn of_part(&self, number: u64) -> Layout {
        Layout { part: Part { number, ..self.part }, ..self.clone() }
    }

    /// The first cycle with a block of this point and part; there is one in every `common`-th.
    fn first_cycle(&self, point: usize) -> u64 {
        let common = self.common;
        (self.part.number - 1 + common - point as u64 % common) % common
    }

    /// The number `b` of a block among all blocks of its point.
    pub(super) fn index(&self, point: usize, block: u64) -> u64 {
        let of = self.part.of;
        let cycle = self.first_cycle(point) + block * self.common;
        let rest = (self.part.number - 1 + 2 * of - cycle % of - point as u64 % of) % of;
        cycle * self.cycle + rest / self.common * self.inverse % self.cycle
    }

    /// The number of blocks of a point.
    pub(super) fn blocks_at(&self, point: usize) -> u64 {
        let all = self.sets[point].div_ceil(self.size);
        let cycles = all.div_ceil(self.cycle).saturating_sub(self.first_cycle(point));
        let most = cycles.div_ceil(self.common);
        // The last cycle may be incomplete.
        if most > 0 && self.index(point, most - 1) >= all { most - 1 } else { most }
    }

    /// A block as its point, its first set and its number of sets.
    pub(super) fn block(&self, point: usize, block: u64) -> Block {
        let first = self.index(point, block) * self.size;
        (point, first, self.size.min(self.sets[point] - first))
    }

    /// The number of sets of a point.
    pub(super) fn sets_at(&self, point: usize) -> u64 {
        let blocks = self.blocks_at(point);
        blocks.checked_sub(1).map_or(0, |last| last * self.size + self.block(point, last).2)
    }

    /// The number of sets of all points.
    pub(super) fn total(&self) -> u64 {
        (0..self.sets.len()).map(|point| self.sets_at(point)).sum()
    }

    /// All blocks, as the point and the number among its blocks: first the first block of each point.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (usize, u64)> + Send + use<> {
        let counts: Vec<u64> = (0..self.sets.len()).map(|point| self.blocks_at(point)).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        (0..most).flat_map(move |block| {
            let here = |(point, count): (usize, &u64)| (block < *count).then_some((point, block));
            counts.iter().enumerate().filter_map(here).collect::<Vec<_>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn parts_are_read() {
        assert_eq!((part("1/1"), part("3/4")), (Ok(Part::WHOLE), Ok(Part { number: 3, of: 4 })));
        assert!(part("100000/100000").is_ok());
        for wrong in ["", "1", "0/4", "5/4", "1/0", "0/0", "-1/4", "1/4/2", "a/b", "1/100001"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }

    /// Every block is in one part, each part has as many as the others but for one, and each point is in many parts.
    #[test]
    fn parts_divide_an_experiment() {
        for points in [1, 2, 3, 6, 11, 12] {
            for of in [1, 2, 3, 4, 6, 7, 11, 12, 64] {
                for sets in [1, 20, 21, 250, 1_999] {
                    let mut seen = BTreeMap::new();
                    let mut counts = Vec::new();
                    for number in 1..=of {
                        let layout = Layout::new(vec![sets; points], 20, Part { number, of });
                        let blocks: Vec<_> = layout.blocks().collect();
                        counts.push(blocks.len());
                        let mut total = 0;
                        for (point, block) in blocks {
                            let (_, first, count) = layout.block(point, block);
                            assert!(layout.index(point, block + 1) > layout.index(point, block));
                            assert_eq!(seen.insert((point, first), (count, number)), None, "{points} {of} {sets}");
                            total += count;
                        }
                        assert_eq!(total, layout.total());
                    }
                    let sum: u64 = seen.values().map(|(count, _)| count).sum();
                    assert_eq!(sum, sets * points as u64, "{points} {of} {sets}");
                    assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
                    if sets == 1_999 && of <= 12 {
                        let parts = seen.range((0, 0)..(1, 0)).map(|(_, (_, number))| *number);
                        assert_eq!(parts.collect::<std::collections::BTreeSet<_>>().len() as u64, of);
                    }
                }
            }
        }
    }

    #[test]
    fn more_sets_change_no_block() {
        let of = |sets| Layout::new(vec![sets, sets + 30, 0], 20, Part { number: 2, of: 5 });
        let (few, many) = (of(400), of(10_000));
        for (point, block) in few.blocks() {
            assert_eq!(few.block(point, block).1, many.block(point, block).1);
        }
    }
}
