//! Entries into the scheduler: for a step of the engine, which CPUs run it, which are interrupted, and which wait.
//!
//! The crate's documentation defines the counts and charges. CPUs are indexes into those of the system.

use takt_core::engine::Engine;
use takt_core::model::{PolicySpec, Scope, TaskId};
use takt_core::record::Place;
use takt_core::scenario::Deciding;

/// The cost of an entry for the CPU that enters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) cpu: u16,
    /// For how many runs of the scheduler it stands still, its own and those that it waits for.
    pub(crate) runs: u32,
    /// The scheduler's queue is shared, so that a run takes a lock.
    pub(crate) locks: bool,
    pub(crate) interrupted: bool,
}

/// The CPUs that share a ready queue, and who came to it in the present step.
#[derive(Default)]
struct Queue {
    /// Ascending.
    cpus: Vec<u16>,
    /// Those on which something happened, in that order.
    acted: Vec<u16>,
    touched: bool,
}

pub(crate) struct Entries {
    deciding: Deciding,
    /// By place: its CPUs.
    places: Vec<Vec<u16>>,
    queues: Vec<Queue>,
    /// By CPU: the index of its queue.
    queue_of: Vec<u16>,
    /// The queues touched in this step.
    touched: Vec<u16>,
    /// By CPU: the steps in which something happened on it, and in which its job changed, last.
    acted: Vec<u64>,
    changed: Vec<u64>,
    step: u64,
    /// Takes the place of the lists and numbers above where no entry costs anything.
    bits: Option<Bits>,
    /// How often a CPU ran the scheduler, was interrupted by another one to enter it, and waited for another one in it.
    pub(crate) runs: u64,
    pub(crate) interrupts: u64,
    pub(crate) blocked: u64,
}

/// The CPUs of up to [`Bits::MOST`] as bits: counting entries then costs O(1) instead of O(CPUs) for each queue, but the order in
/// which CPUs came is lost.
#[derive(Default)]
struct Bits {
    /// By queue, and by place: its CPUs.
    queues: Vec<u64>,
    places: Vec<u64>,
    /// The CPUs on which something happened in this step, and whose job changed.
    acted: u64,
    changed: u64,
    /// Those that have a job.
    busy: u64,
    /// Jobs have moved in this step, in whatever order, so that `busy` is found again.
    moved: bool,
}

impl Bits {
    const MOST: usize = 64;
}

impl Entries {
    /// For so many CPUs and the CPUs of each place, and whether entries are charged; [`Entries::regroup`] comes next.
    pub(crate) fn new(m: usize, places: &[Vec<u16>], deciding: Deciding, charges: bool) -> Entries {
        let mask = |cpus: &Vec<u16>| cpus.iter().fold(0, |mask, cpu| mask | 1 << cpu);
        let bits = || Bits { places: places.iter().map(mask).collect(), ..Bits::default() };
        Entries {
            bits: (!charges && m <= Bits::MOST).then(bits),
            places: places.to_vec(),
            deciding,
            queues: Vec::new(),
            queue_of: vec![0; m],
            touched: Vec::with_capacity(m),
            acted: vec![0; m],
            changed: vec![0; m],
            step: 1,
            runs: 0,
            interrupts: 0,
            blocked: 0,
        }
    }

    /// Finds out which CPUs share a ready queue, at the start and after a policy was switched. Returns by task the CPU that the
    /// policy has it on, or the first one of its queue.
    pub(crate) fn regroup(&mut self, engine: &Engine) -> Vec<u16> {
        let system = engine.system();
        let cpus: Vec<usize> = system.cpus.iter().collect();
        let mut homes = vec![0; system.tasks.len()];
        self.queues.clear();
        let everyone: Vec<TaskId> = (0..system.tasks.len()).map(|t| TaskId(t as u32)).collect();
        let whole: Vec<Place> = (0..cpus.len()).map(|c| Place(c as u16)).collect();
        let mut add = |spec: PolicySpec, tasks: &[TaskId], places: &[Place]| {
            let size = match spec.scope {
                Scope::Partitioned | Scope::Table => 1,
                Scope::Clustered => usize::from(spec.cluster).max(1),
                Scope::Uniprocessor | Scope::Global => places.len().max(1),
            };
            for chunk in places.chunks(size) {
                let cpus: Vec<u16> = chunk.iter().map(|p| p.0).collect();
                cpus.iter().for_each(|&c| self.queue_of[usize::from(c)] = self.queues.len() as u16);
                self.queues.push(Queue { acted: Vec::with_capacity(cpus.len()), cpus, touched: false });
            }
            for task in tasks {
                let home = engine.home(*task).or(places.first().copied());
                homes[task.index()] = home.map_or(0, |place| place.0);
            }
        };
        if system.policy.scope == Scope::Table && !system.domains.is_empty() {
            for domain in &system.domains {
                let places: Vec<Place> =
                    whole.iter().copied().filter(|p| domain.cpus.contains(cpus[p.index()])).collect();
                add(domain.policy, &domain.tasks, &places);
            }
            // CPUs of no domain have nothing to share.
            let rest = |p: &Place| !system.domains.iter().any(|d| d.cpus.contains(cpus[p.index()]));
            for place in whole.iter().filter(|p| rest(p)) {
                add(system.policy, &[], &[*place]);
            }
        } else {
            add(system.policy, &everyone, &whole);
        }
        if let Some(bits) = &mut self.bits {
            let mask = |queue: &Queue| queue.cpus.iter().fold(0, |mask, cpu| mask | 1 << cpu);
            bits.queues = self.queues.iter().map(mask).collect();
        }
        homes
    }

    /// Something happened on the first CPU of a place.
    #[inline(always)]
    pub(crate) fn act(&mut self, place: Place) {
        if let Some(bits) = &mut self.bits {
            let cpus = bits.places[place.index()];
            bits.acted |= cpus & cpus.wrapping_neg();
        } else if let Some(&cpu) = self.places[place.index()].first() {
            self.act_on(cpu);
        }
    }

    /// A job has left a place, and after this step it may be free.
    #[inline(always)]
    pub(crate) fn leave(&mut self, place: Place) {
        match &mut self.bits {
            Some(bits) => {
                let cpus = bits.places[place.index()];
                bits.changed |= cpus;
                bits.busy &= !cpus;
            }
            None => self.change(place),
        }
    }

    /// A place has another job, or the next one of its task.
    #[inline(always)]
    pub(crate) fn take(&mut self, place: Place) {
        match &mut self.bits {
            Some(bits) => {
                let cpus = bits.places[place.index()];
                bits.changed |= cpus;
                bits.busy |= cpus;
            }
            None => self.change(place),
        }
    }

    /// A job has moved. Others may have moved before it to where it was.
    pub(crate) fn shift(&mut self, from: Place, to: Place) {
        self.take(to);
        self.leave(from);
        if let Some(bits) = &mut self.bits {
            bits.moved = true;
        }
    }

    /// The jobs of the CPUs of a place have changed.
    fn change(&mut self, place: Place) {
        for index in 0..self.places[place.index()].len() {
            let cpu = self.places[place.index()][index];
            self.changed[usize::from(cpu)] = self.step;
            self.touch(cpu);
        }
    }

    fn act_on(&mut self, cpu: u16) {
        if core::mem::replace(&mut self.acted[usize::from(cpu)], self.step) != self.step {
            let queue = self.touch(cpu);
            self.queues[queue].acted.push(cpu);
        }
    }

    fn touch(&mut self, cpu: u16) -> usize {
        let queue = self.queue_of[usize::from(cpu)];
        if !core::mem::replace(&mut self.queues[usize::from(queue)].touched, true) {
            self.touched.push(queue);
        }
        usize::from(queue)
    }

    /// The step is over: counts the CPUs that entered the scheduler, and appends to `entries` what that costs them, if it is charged.
    /// `busy` reports whether a CPU has a job after the step. O(CPUs of the queues touched).
    #[inline(always)]
    pub(crate) fn settle(&mut self, busy: impl Fn(u16) -> bool, entries: Option<&mut Vec<Entry>>) {
        match self.bits {
            Some(_) => self.settle_bits(busy),
            None => self.settle_lists(busy, entries),
        }
    }

    #[inline(always)]
    fn settle_bits(&mut self, busy: impl Fn(u16) -> bool) {
        let Some(bits) = &mut self.bits else { return };
        if core::mem::take(&mut bits.moved) {
            bits.busy = (0..self.queue_of.len() as u16).filter(|cpu| busy(*cpu)).fold(0, |all, cpu| all | 1 << cpu);
        }
        let changed = core::mem::take(&mut bits.changed);
        // As in the other form, CPU 0 takes what changes nothing.
        let acted = match core::mem::take(&mut bits.acted) {
            0 if changed == 0 => 1,
            acted => acted,
        };
        let busy = bits.busy;
        if let [_] = &*bits.queues {
            return self.enter(acted, changed, u64::MAX, busy);
        }
        let mut rest = acted | changed;
        while rest != 0 {
            let queue = self.queue_of[rest.trailing_zeros() as usize];
            let queue = self.bits.as_ref().map_or(rest, |bits| bits.queues[usize::from(queue)]);
            rest &= !queue;
            self.enter(acted & queue, changed & queue, queue, busy);
        }
    }

    /// Counts the entries of one queue's CPUs, of which some `acted` and the jobs of some have `changed`.
    #[inline(always)]
    fn enter(&mut self, acted: u64, changed: u64, queue: u64, busy: u64) {
        // If none acted, it is the lowest CPU whose job changed.
        let first = if acted == 0 { changed & changed.wrapping_neg() } else { acted };
        let (more, others) = (count(first & (first - 1)), queue & !first);
        match self.deciding {
            Deciding::StopTheWorld => {
                let interrupted = count(others & (changed | busy));
                self.runs += 1;
                self.blocked += more + interrupted;
                self.interrupts += interrupted;
            }
            Deciding::Concurrent => {
                let interrupted = count(others & changed);
                self.runs += 1 + more + interrupted;
                self.blocked += more;
                self.interrupts += interrupted;
            }
        }
    }

    #[inline(never)]
    fn settle_lists(&mut self, busy: impl Fn(u16) -> bool, mut entries: Option<&mut Vec<Entry>>) {
        if self.touched.is_empty() {
            // A timer that has changed nothing, or a release that waits, belongs to no CPU.
            self.act_on(0);
        }
        let Entries { queues, touched, acted, changed, step, .. } = self;
        let (mut runs, mut interrupts, mut blocked) = (0, 0, 0);
        let mut enter = |cpu, runs, locks, interrupted| {
            interrupts += u64::from(interrupted);
            if let Some(entries) = &mut entries {
                entries.push(Entry { cpu, runs, locks, interrupted });
            }
        };
        for queue in touched.drain(..) {
            let queue = &mut queues[usize::from(queue)];
            queue.touched = false;
            let has_changed = |cpu: u16| changed[usize::from(cpu)] == *step;
            if queue.acted.is_empty() {
                // A timer of the policy: its interrupt is taken by the first CPU that it concerns.
                let first = queue.cpus.iter().copied().find(|&cpu| has_changed(cpu));
                let first = first.expect("a queue is touched by something");
                acted[usize::from(first)] = *step;
                queue.acted.push(first);
            }
            let others = queue.cpus.iter().copied().filter(|&cpu| acted[usize::from(cpu)] != *step);
            let shared = queue.cpus.len() > 1;
            match self.deciding {
                Deciding::StopTheWorld => {
                    runs += 1;
                    blocked += queue.acted.len() as u64 - 1;
                    queue.acted.iter().for_each(|&cpu| enter(cpu, 1, shared, false));
                    for cpu in others.filter(|&cpu| has_changed(cpu) || busy(cpu)) {
                        blocked += 1;
                        enter(cpu, 1, shared, true);
                    }
                }
                Deciding::Concurrent => {
                    runs += queue.acted.len() as u64;
                    blocked += queue.acted.len() as u64 - 1;
                    queue.acted.iter().zip(1..).for_each(|(&cpu, turn)| enter(cpu, turn, shared, false));
                    for cpu in others.filter(|&cpu| has_changed(cpu)) {
                        runs += 1;
                        enter(cpu, 1, shared, true);
                    }
                }
            }
            queue.acted.clear();
        }
        self.step += 1;
        self.runs += runs;
        self.interrupts += interrupts;
        self.blocked += blocked;
    }
}

/// How many bits are set, for processors without an instruction for it: by a table for few CPUs, and otherwise by a loop over the bits, which are few as a
/// rule.
#[inline(always)]
fn count(bits: u64) -> u64 {
    const OF_BYTE: [u8; 256] = {
        let (mut table, mut byte) = ([0; 256], 0);
        while byte < 256 {
            table[byte] = (byte as u8).count_ones() as u8;
            byte += 1;
        }
        table
    };
    if bits < 256 { u64::from(OF_BYTE[bits as usize]) } else { count_many(bits) }
}

#[inline(never)]
fn count_many(mut bits: u64) -> u64 {
    let mut count = 0;
    while bits != 0 {
        bits &= bits - 1;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::rng::draw_up_to;

    /// Queues of so many CPUs each.
    fn entries(deciding: Deciding, charges: bool, sizes: &[u16]) -> Entries {
        let m = sizes.iter().sum::<u16>();
        let single: Vec<Vec<u16>> = (0..m).map(|cpu| vec![cpu]).collect();
        let mut entries = Entries::new(usize::from(m), &single, deciding, charges);
        let mut next = 0;
        for (queue, size) in sizes.iter().enumerate() {
            let cpus: Vec<u16> = (next..next + size).collect();
            cpus.iter().for_each(|cpu| entries.queue_of[usize::from(*cpu)] = queue as u16);
            if let Some(bits) = &mut entries.bits {
                bits.queues.push(cpus.iter().fold(0, |mask, cpu| mask | 1 << cpu));
            }
            entries.queues.push(Queue { cpus, ..Queue::default() });
            next += size;
        }
        entries
    }

    #[test]
    fn both_forms_count_the_same() {
        for deciding in [Deciding::StopTheWorld, Deciding::Concurrent] {
            for sizes in [&[1][..], &[4], &[64], &[1, 1, 1], &[2, 3, 1], &[30, 34]] {
                let [mut bits, mut lists] = [false, true].map(|charges| entries(deciding, charges, sizes));
                assert!(bits.bits.is_some() && lists.bits.is_none());
                let m = u64::from(sizes.iter().sum::<u16>());
                let mut holder = vec![false; m as usize];
                for step in 0..500 {
                    let draw = |what, most| draw_up_to(most, m, step, what);
                    for event in 0..draw(0, 4) {
                        let (cpu, other) = (draw(10 + event, m - 1) as usize, draw(30 + event, m - 1) as usize);
                        let (place, to) = (Place(cpu as u16), Place(other as u16));
                        let (what, held) = (draw(20 + event, 2), holder[cpu]);
                        if what > 1 && held {
                            holder.swap(cpu, other);
                        } else if what > 0 {
                            holder[cpu] = !held;
                        }
                        for entries in [&mut bits, &mut lists] {
                            match (what, held) {
                                (0, _) => entries.act(place),
                                (_, false) => entries.take(place),
                                (1, true) => entries.leave(place),
                                (_, true) => entries.shift(place, to),
                            }
                        }
                    }
                    let busy = |cpu: u16| holder[usize::from(cpu)];
                    bits.settle(busy, None);
                    lists.settle(busy, Some(&mut Vec::new()));
                    let counts = |e: &Entries| [e.runs, e.interrupts, e.blocked];
                    assert_eq!(counts(&bits), counts(&lists), "{deciding:?} {sizes:?}, step {step}");
                }
            }
        }
    }
}
