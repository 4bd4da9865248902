//! The structure from which the multiprocessor policies of utility accrual build schedules: trees of dependent jobs, with a job that can run
//! at each root, and a list of jobs for each CPU.
//!
//! Garyali, "On Best-Effort Utility Accrual Real-Time Scheduling on Multiprocessors", thesis, Virginia Tech, 2010, for
//! dependencies by global density and temporary deadline, after the priority inheritance of Sha, Rajkumar, Lehoczky, "Priority
//! Inheritance Protocols", IEEE Transactions on Computers 39(9), 1990. Jobs whose deadline has passed are lost: they add nothing to
//! a tree, save that those on the way from a live job to its root must be run for it.

use crate::policies::accrual::{Candidate, Density, View};
use crate::time::{Span, Time};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A job that can be put on a CPU, with what depends on it.
#[derive(Clone, Copy)]
pub(super) struct Root {
    /// Its index into the candidates, which stands for the tie rule.
    pub(super) job: usize,
    /// Its own remaining runtime.
    pub(super) left: Span,
    /// The utility of its tree over the time that the tree needs: ChronOS's global density.
    pub(super) density: Density,
    /// The earliest deadline in its tree: the temporary deadline.
    pub(super) deadline: Time,
}

impl Root {
    /// `Less` if this one is denser; among equals the earlier release, then the lower task.
    pub(super) fn densest_first(&self, other: &Root) -> Ordering {
        self.density.densest_first(&other.density).then(self.job.cmp(&other.job))
    }
}

/// The trees whose edges lead from who holds a resource to who waits for it. A job waits for one resource at most, so each job is
/// in one tree, and the root of a tree is ready.
pub(super) struct Forest {
    roots: Vec<Root>,
    /// By candidate: its time is in the density of its root.
    counted: Vec<bool>,
}

impl Forest {
    /// For so many jobs.
    pub(super) fn new(jobs: usize) -> Forest {
        Forest { roots: Vec::with_capacity(jobs), counted: Vec::with_capacity(jobs) }
    }

    /// The ready jobs in whose trees some deadline has not passed. O(n d) for n candidates in trees of depth d.
    pub(super) fn roots(&mut self, view: &View<'_, '_>) -> &mut [Root] {
        let Forest { roots, counted } = self;
        let root =
            |(job, c): (usize, &Candidate)| Root { job, left: c.left, density: Density::NONE, deadline: Time::MAX };
        roots.clear();
        roots.extend(view.jobs.iter().enumerate().map(root));
        counted.clear();
        counted.resize(view.jobs.len(), false);
        for (job, live) in view.jobs.iter().enumerate().filter(|(_, c)| c.deadline >= view.now) {
            let mut added = Density { utility: u128::from(live.potential), left: 0 };
            let mut at = job;
            loop {
                if !core::mem::replace(&mut counted[at], true) {
                    added.left += view.jobs[at].density().left;
                }
                match view.jobs[at].owner {
                    Some(owner) => at = owner,
                    None => break,
                }
            }
            roots[at].density = roots[at].density.plus(added);
            roots[at].deadline = roots[at].deadline.min(live.deadline);
        }
        roots.retain(|root| view.jobs[root.job].owner.is_none() && root.density.left > 0);
        roots
    }

    /// All candidates whose deadline has not passed, each for itself. O(n).
    pub(super) fn singles(&mut self, view: &View<'_, '_>) -> &mut [Root] {
        let live = view.jobs.iter().enumerate().filter(|(_, c)| c.deadline >= view.now);
        self.roots.clear();
        self.roots.extend(live.map(|(job, c)| Root { job, left: c.left, density: c.density(), deadline: c.deadline }));
        &mut self.roots
    }
}

const NONE: usize = usize::MAX;

/// A list of roots for each CPU in order of deadline, linked through one array so that memory is O(n + m).
pub(super) struct Lists {
    /// By CPU.
    first: Vec<usize>,
    last: Vec<usize>,
    /// By CPU: when it would be through with its list by the cost of each root, counted from now.
    load: Vec<Time>,
    /// CPUs by load, then by number.
    by_load: Vec<usize>,
    /// By root.
    next: Vec<usize>,
}

impl Lists {
    /// For so many CPUs and jobs.
    pub(super) fn new(cpus: usize, jobs: usize) -> Lists {
        Lists {
            first: vec![NONE; cpus],
            last: vec![NONE; cpus],
            load: vec![Time::ZERO; cpus],
            by_load: Vec::with_capacity(cpus),
            next: vec![NONE; jobs],
        }
    }

    fn clear(&mut self, now: Time, cpus: usize) {
        self.first.fill(NONE);
        self.last.fill(NONE);
        self.load.fill(now);
        self.by_load.clear();
        self.by_load.extend(0..cpus);
    }

    /// Adds to the load of the CPU at this rank of `by_load`. O(m).
    fn charge(&mut self, mut rank: usize, cost: Span) {
        let cpu = self.by_load[rank];
        self.load[cpu] = self.load[cpu].saturating_add(cost);
        let key = |cpu: usize, load: &[Time]| (load[cpu], cpu);
        while self.by_load.get(rank + 1).is_some_and(|&other| key(other, &self.load) < key(cpu, &self.load)) {
            self.by_load.swap(rank, rank + 1);
            rank += 1;
        }
    }

    /// Deals roots in order of deadline, each to the CPU with the least load, and then takes the least dense from each list until
    /// everything in it is in time, or one is left. O(n² + n m).
    pub(super) fn balance(&mut self, roots: &mut [Root], now: Time, cpus: usize, cost: impl Fn(&Root) -> Span) {
        self.clear(now, cpus);
        if cpus == 0 {
            return;
        }
        roots.sort_unstable_by_key(|root| (root.deadline, root.job));
        for (index, root) in roots.iter().enumerate() {
            let cpu = self.by_load[0];
            match self.last[cpu] {
                NONE => self.first[cpu] = index,
                last => self.next[last] = index,
            }
            self.last[cpu] = index;
            self.next[index] = NONE;
            self.charge(0, cost(root));
        }
        for cpu in 0..cpus {
            while self.shed(cpu, roots, now) {}
        }
    }

    /// Takes the least dense root from the list of a CPU if something in it would be late and it is not the only one.
    fn shed(&mut self, cpu: usize, roots: &[Root], now: Time) -> bool {
        let (mut end, mut late) = (now, false);
        // Each with the root before it.
        let (mut worst, mut before, mut at) = ((NONE, NONE), NONE, self.first[cpu]);
        while at != NONE {
            end = end.saturating_add(roots[at].left);
            late |= end > roots[at].deadline;
            if worst.0 == NONE || roots[worst.0].densest_first(&roots[at]) == Ordering::Less {
                worst = (at, before);
            }
            (before, at) = (at, self.next[at]);
        }
        if !late || self.next[self.first[cpu]] == NONE {
            return false;
        }
        match worst.1 {
            NONE => self.first[cpu] = self.next[worst.0],
            before => self.next[before] = self.next[worst.0],
        }
        true
    }

    /// Takes roots by density, the densest first, and puts each on the CPU with the least load on which everything is still in time
    /// with it; a root for which there is none is left out. O(n² + n m).
    pub(super) fn pack(&mut self, roots: &mut [Root], now: Time, cpus: usize) {
        self.clear(now, cpus);
        roots.sort_unstable_by(Root::densest_first);
        for (index, root) in roots.iter().enumerate() {
            let fits = |rank: &usize| self.insert(self.by_load[*rank], index, roots, now);
            if let Some(rank) = (0..cpus).find(fits) {
                self.charge(rank, root.left);
            }
        }
    }

    /// Puts a root into the list of a CPU, after those of equal deadline, if everything in it is then in time.
    fn insert(&mut self, cpu: usize, new: usize, roots: &[Root], now: Time) -> bool {
        let (mut end, mut before, mut at) = (now, NONE, self.first[cpu]);
        while at != NONE && roots[at].deadline <= roots[new].deadline {
            end = end.saturating_add(roots[at].left);
            (before, at) = (at, self.next[at]);
        }
        let after = at;
        end = end.saturating_add(roots[new].left);
        if end > roots[new].deadline {
            return false;
        }
        while at != NONE {
            end = end.saturating_add(roots[at].left);
            if end > roots[at].deadline {
                return false;
            }
            at = self.next[at];
        }
        self.next[new] = after;
        match before {
            NONE => self.first[cpu] = new,
            before => self.next[before] = new,
        }
        true
    }

    /// The first job of each list, by number of the CPU.
    pub(super) fn heads(&self, roots: &[Root], schedule: &mut Vec<usize>) {
        schedule.extend(self.first.iter().filter(|first| **first != NONE).map(|first| roots[*first].job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng;

    const NOW: Time = Time::from_ns(1000);

    /// Roots and CPUs of a random case, by its number.
    fn case(number: u64) -> (Vec<Root>, usize) {
        let draw = |most: u64, index: u64| rng::draw_up_to(most, 1, number, index);
        let root = |job: usize| {
            let at = 4 * job as u64;
            let left = 1 + draw(5, at + 2);
            Root {
                job,
                left: Span::from_ns(left as i64),
                density: Density { utility: u128::from(draw(20, at + 3)), left: u128::from(left) },
                deadline: NOW + Span::from_ns(1 + draw(14, at + 4) as i64),
            }
        };
        ((0..draw(11, 0) as usize).map(root).collect(), 1 + draw(3, 1) as usize)
    }

    fn list(lists: &Lists, cpu: usize) -> Vec<usize> {
        let first = Some(lists.first[cpu]).filter(|root| *root != NONE);
        core::iter::successors(first, |root| Some(lists.next[*root]).filter(|root| *root != NONE)).collect()
    }

    fn in_time(list: &[usize], roots: &[Root]) -> bool {
        let mut end = NOW;
        list.iter().all(|root| {
            end += roots[*root].left;
            end <= roots[*root].deadline
        })
    }

    /// The list with another root, which goes behind those of equal deadline.
    fn with(list: &[usize], root: usize, roots: &[Root]) -> Vec<usize> {
        let at = list.partition_point(|other| roots[*other].deadline <= roots[root].deadline);
        [&list[..at], &[root], &list[at..]].concat()
    }

    /// The lists of all CPUs after the checks that hold for both ways of filling them.
    fn sound(lists: &Lists, roots: &[Root], cpus: usize, number: u64) -> Vec<Vec<usize>> {
        let lists: Vec<Vec<usize>> = (0..cpus).map(|cpu| list(lists, cpu)).collect();
        let mut all = lists.concat();
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "case {number}: a job is in two lists");
        let ordered = |list: &Vec<usize>| list.is_sorted_by_key(|root| roots[*root].deadline);
        assert!(lists.iter().all(ordered), "case {number}: not in order of deadline");
        lists
    }

    #[test]
    fn packed_jobs_are_in_time_and_no_other_fits() {
        for number in 0..3000 {
            let (mut roots, cpus) = case(number);
            let mut lists = Lists::new(cpus, roots.len());
            lists.pack(&mut roots, NOW, cpus);
            let lists = sound(&lists, &roots, cpus, number);
            for list in &lists {
                assert!(in_time(list, &roots), "case {number}: late");
                let out = (0..roots.len()).filter(|root| !lists.concat().contains(root));
                let fits = out.filter(|root| in_time(&with(list, *root, &roots), &roots));
                assert_eq!(fits.count(), 0, "case {number}: another one fits");
            }
            let feasible = roots.iter().position(|root| NOW + root.left <= root.deadline);
            assert!(feasible.is_none_or(|densest| lists.concat().contains(&densest)), "case {number}: not the densest");
        }
    }

    #[test]
    fn balanced_jobs_are_in_time_or_alone_and_none_is_left_out_needlessly() {
        for number in 0..3000 {
            let (mut roots, cpus) = case(number);
            let mut lists = Lists::new(cpus, roots.len());
            lists.balance(&mut roots, NOW, cpus, |root| root.left);
            let lists = sound(&lists, &roots, cpus, number);
            assert!(lists.iter().all(|list| list.len() == 1 || in_time(list, &roots)), "case {number}: late");
            // Global EDF without new arrivals: in order of deadline, each on the CPU that is free first.
            let mut free = vec![NOW; cpus];
            let met = roots.iter().all(|root| {
                let cpu = (0..cpus).min_by_key(|cpu| free[*cpu]).expect("there is one");
                free[cpu] += root.left;
                free[cpu] <= root.deadline
            });
            assert!(!met || lists.concat().len() == roots.len(), "case {number}: global EDF meets all");
            let some = roots.len().min(cpus);
            assert_eq!(lists.iter().filter(|list| !list.is_empty()).count(), some, "case {number}: an idle CPU");
        }
    }
}
