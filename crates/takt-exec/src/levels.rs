//! FIFO priorities of processes that are dispatched by priority (`dispatch: priority`).
//!
//! A dispatched task has a priority above all other thawed tasks of its CPUs. A preempted task stays thawed, and the kernel keeps it off
//! the CPU. A process with several threads or processes is dispatched by freezing, at the [`highest`] priority: its threads cannot be raised one by one
//! in constant time.

use takt_core::cpus::CpuSet;
use takt_core::model::TaskId;
use takt_core::record::Place;

/// The most that the highest priority of a process is above the lowest one.
const RANGE: u8 = 60;
/// Below the priority of the scheduler, which is 80.
const MOST: u8 = 79;

/// The priority of a process that is new, or dispatched by freezing, where `lowest` is the lowest priority of a process.
pub(crate) fn highest(lowest: u8) -> u8 {
    MOST.min(lowest.saturating_add(RANGE))
}

/// Levels for tasks in an order: the more urgent task has the higher FIFO priority. Tasks keep their levels where they can.
pub(crate) struct Ladder {
    lowest: u8,
    /// The first priority above those of ranks.
    end: u8,
    /// By task in the order: its level before, if that is in use or may be kept, and its level from now on.
    before: Vec<(u8, bool)>,
    levels: Vec<u8>,
    /// Scratch: by task in the order, the length of the longest chain of kept levels that ends with it, and its predecessor there.
    chains: Vec<(usize, usize)>,
    kept: Vec<bool>,
}

impl Ladder {
    /// Levels from `lowest` up to below `end`.
    pub(crate) fn new(lowest: u8, end: u8) -> Ladder {
        let most = usize::from(end - lowest);
        Ladder {
            lowest,
            end,
            before: Vec::with_capacity(most),
            levels: Vec::with_capacity(most),
            chains: Vec::with_capacity(most),
            kept: Vec::with_capacity(most),
        }
    }

    /// The number of levels.
    pub(crate) fn levels(&self) -> usize {
        usize::from(self.end - self.lowest)
    }

    /// Places so many tasks, at most [`Ladder::levels`], the most urgent one first. `before` gives the level of each, and whether it is thawed: then
    /// its place among the others must hold all the time. O(tasks) where the order of thawed tasks holds, and O(tasks²) otherwise.
    pub(crate) fn place(&mut self, tasks: usize, before: impl Fn(usize) -> (u8, bool)) {
        self.before.clear();
        self.before.extend((0..tasks).map(before));
        self.keep();
        self.levels.clear();
        let mut upper = self.end;
        let mut index = 0;
        while index < tasks {
            if self.kept[index] {
                upper = self.before[index].0;
                self.levels.push(upper);
                index += 1;
                continue;
            }
            let length = self.kept[index..].iter().take_while(|kept| !**kept).count();
            let next = index + length;
            let lower = if next < tasks { self.before[next].0 } else { self.lowest - 1 };
            if usize::from(upper - lower - 1) < length {
                // No room: all are spread evenly, so that this is rare.
                self.levels.clear();
                return self.spread(tasks, self.end, self.lowest - 1, false, false);
            }
            let mut above = upper;
            let fits = self.before[index..next].iter().all(|(level, _)| {
                let fits = lower < *level && *level < above;
                above = *level;
                fits
            });
            match fits {
                true => self.levels.extend(self.before[index..next].iter().map(|(level, _)| level)),
                false => self.spread(length, upper, lower, index == 0, next == tasks),
            }
            index = next;
        }
    }

    /// The most tasks whose levels can stay: a longest descending chain of the levels of thawed tasks.
    fn keep(&mut self) {
        let Ladder { before, chains, kept, lowest, end, .. } = self;
        let is_level = |level: u8| (*lowest..*end).contains(&level);
        kept.clear();
        kept.extend(before.iter().map(|(level, thawed)| *thawed && is_level(*level)));
        let mut last = *end;
        let descends = before.iter().zip(&*kept).filter(|(_, kept)| **kept).all(|((level, _), _)| {
            let below = *level < last;
            last = *level;
            below
        });
        if descends {
            return;
        }
        chains.clear();
        for index in 0..before.len() {
            let ahead = (0..index).filter(|other| kept[*other] && before[*other].0 > before[index].0);
            let best = ahead.max_by_key(|other| chains[*other].0);
            chains.push(best.map_or((1, usize::MAX), |other| (chains[other].0 + 1, other)));
        }
        let longest = (0..before.len()).filter(|index| kept[*index]).max_by_key(|index| chains[*index].0);
        let mut at = longest.unwrap_or(usize::MAX);
        kept.fill(false);
        while at != usize::MAX {
            kept[at] = true;
            at = chains[at].1;
        }
    }

    /// Levels for so many tasks between two others. At an open end most of the room is left for later tasks.
    fn spread(&mut self, length: usize, upper: u8, lower: u8, first: bool, last: bool) {
        let gap = usize::from(upper - lower);
        let level = |number: usize| match (first, last) {
            (true, false) if length == 1 => lower + gap.div_ceil(4) as u8,
            (false, true) if length == 1 => upper - gap.div_ceil(4) as u8,
            _ => lower + ((length - number) * gap / (length + 1)) as u8,
        };
        self.levels.extend((0..length).map(level));
    }

    /// Calls `set` with each task whose level changes. The order of tasks that keep their places holds meanwhile.
    ///
    /// # Errors
    /// The first error of `set`.
    pub(crate) fn changes<E>(&self, mut set: impl FnMut(usize, u8) -> Result<(), E>) -> Result<(), E> {
        let all = || self.before.iter().zip(&self.levels).enumerate();
        let down = all().rev().filter(|(_, ((before, _), level))| *level < before);
        for (index, (_, level)) in down {
            set(index, *level)?;
        }
        for (index, (_, level)) in all().filter(|(_, ((before, _), level))| *level > before) {
            set(index, *level)?;
        }
        Ok(())
    }
}

/// The process of a task.
#[derive(Clone, Copy)]
struct Known {
    /// Its FIFO priority in the kernel.
    level: u8,
    thawed: bool,
    by_freezing: bool,
    /// Where it may run since its last dispatch, and the CPUs of that place.
    place: Option<Place>,
    cpus: CpuSet,
}

/// The priorities of all tasks' processes.
pub(crate) struct Levels {
    tasks: Vec<Known>,
    thawed: Vec<TaskId>,
    lowest: u8,
    /// The priority of a process that is new, or dispatched by freezing.
    highest: u8,
}

impl Levels {
    /// A frozen process.
    fn new_process(highest: u8) -> Known {
        Known { level: highest, thawed: false, by_freezing: true, place: None, cpus: CpuSet::EMPTY }
    }

    /// Frozen processes that are dispatched by freezing until [`Levels::set_by_freezing`] says otherwise.
    pub(crate) fn new(tasks: usize, lowest: u8) -> Levels {
        let highest = highest(lowest);
        let known = vec![Levels::new_process(highest); tasks];
        Levels { tasks: known, thawed: Vec::with_capacity(tasks), lowest, highest }
    }

    /// The task's process is gone, or replaced by a frozen one.
    pub(crate) fn replaced(&mut self, task: TaskId) {
        self.frozen(task);
        self.tasks[task.index()] = Levels::new_process(self.highest);
    }

    /// The process has changed its class, so it has no priority of a dispatch.
    pub(crate) fn changed_class(&mut self, task: TaskId) {
        self.frozen(task);
        self.tasks[task.index()].level = self.highest;
    }

    pub(crate) fn set_by_freezing(&mut self, task: TaskId, by_freezing: bool) {
        self.tasks[task.index()].by_freezing = by_freezing;
    }

    #[cfg(test)]
    pub(crate) fn is_by_freezing(&self, task: TaskId) -> bool {
        self.tasks[task.index()].by_freezing
    }

    pub(crate) fn frozen(&mut self, task: TaskId) {
        if std::mem::take(&mut self.tasks[task.index()].thawed) {
            self.thawed.retain(|other| *other != task);
        }
    }

    pub(crate) fn thawed(&mut self, task: TaskId) {
        if !std::mem::replace(&mut self.tasks[task.index()].thawed, true) {
            self.thawed.push(task);
        }
    }

    pub(crate) fn is_thawed(&self, task: TaskId) -> bool {
        self.tasks[task.index()].thawed
    }

    /// All thawed tasks, in no order.
    pub(crate) fn all_thawed(&self) -> &[TaskId] {
        &self.thawed
    }

    /// Where a thawed task was dispatched that may be preempted without being frozen: on a single CPU.
    pub(crate) fn only_place(&self, task: TaskId) -> Option<Place> {
        let known = &self.tasks[task.index()];
        known.place.filter(|_| known.thawed && !known.by_freezing && known.cpus.len() == 1)
    }

    /// Gives a task at this place, on these CPUs, a priority above all other thawed tasks that may run there, if it has none yet. `set` sets a priority. The
    /// common case sets at most one. When the range is exhausted, the priorities of the others are lowered first, in their order.
    ///
    /// # Errors
    /// The first error of `set`. The priorities that were set before are kept.
    pub(crate) fn raise<E>(
        &mut self,
        task: TaskId,
        place: Place,
        cpus: &CpuSet,
        mut set: impl FnMut(TaskId, u8) -> Result<(), E>,
    ) -> Result<(), E> {
        let Levels { lowest, highest, .. } = *self;
        let known = &mut self.tasks[task.index()];
        (known.place, known.cpus) = (Some(place), *cpus);
        let known = *known;
        let limit = if known.by_freezing { highest } else { highest - 1 };
        let mut top = self.highest_other(task);
        let holds = known.level > top && known.by_freezing == (known.level == highest);
        if holds {
            return Ok(());
        }
        if top >= limit {
            self.lower_others(task, top, &mut set)?;
            top = self.highest_other(task);
        }
        let level = if known.by_freezing { highest } else { lowest.max(top + 1) };
        set(task, level)?;
        self.tasks[task.index()].level = level;
        Ok(())
    }

    /// Gives a task the lowest priority, if it has another one.
    ///
    /// # Errors
    /// The error of `set`.
    pub(crate) fn lower<E>(&mut self, task: TaskId, set: impl FnOnce(u8) -> Result<(), E>) -> Result<(), E> {
        let known = &mut self.tasks[task.index()];
        if known.level != self.lowest {
            set(self.lowest)?;
            known.level = self.lowest;
        }
        Ok(())
    }

    /// The other thawed tasks on the CPUs of a task.
    fn others(&self, task: TaskId) -> impl Iterator<Item = TaskId> {
        let cpus = self.tasks[task.index()].cpus;
        let on_cpus = move |other: &TaskId| !self.tasks[other.index()].cpus.is_disjoint(&cpus);
        self.thawed.iter().copied().filter(move |other| *other != task).filter(on_cpus)
    }

    /// The highest priority of the other thawed tasks on the CPUs of a task; 0 without one.
    fn highest_other(&self, task: TaskId) -> u8 {
        self.others(task).map(|other| self.tasks[other.index()].level).max().unwrap_or(0)
    }

    /// Lowers the priorities of the other thawed tasks on the CPUs of a task, the lowest first, so that their order holds all the time.
    /// Only the highest stay distinct, half as many as there are priorities, so that lowering is rare.
    fn lower_others<E>(
        &mut self,
        task: TaskId,
        top: u8,
        set: &mut impl FnMut(TaskId, u8) -> Result<(), E>,
    ) -> Result<(), E> {
        let kept = (self.highest - self.lowest) / 2;
        // By level, whether it is used. No priority is above the highest.
        let mut used = [false; MOST as usize + 1];
        self.others(task).for_each(|other| used[usize::from(self.tasks[other.index()].level)] = true);
        let distinct = used.iter().filter(|used| **used).count() as u8;
        let mut rank = 0;
        for level in self.lowest..=top {
            if !used[usize::from(level)] {
                continue;
            }
            let lowered = self.lowest + (rank + kept.min(distinct)).saturating_sub(distinct);
            rank += 1;
            for index in 0..self.thawed.len() {
                let other = self.thawed[index];
                let known = self.tasks[other.index()];
                let is_meant = other != task && !known.cpus.is_disjoint(&self.tasks[task.index()].cpus);
                if is_meant && known.level == level && lowered < level {
                    set(other, lowered)?;
                    self.tasks[other.index()].level = lowered;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    const LOWEST: u8 = 10;

    /// The places of two CPUs.
    fn place_of(cpus: &CpuSet) -> Place {
        Place(if cpus.len() > 1 { 2 } else { u16::from(cpus.contains(1)) })
    }

    fn raise(levels: &mut Levels, task: u32, cpus: &CpuSet) -> Vec<(u32, u8)> {
        let mut done = Vec::new();
        let set = |task: TaskId, level| {
            done.push((task.0, level));
            Ok::<(), Infallible>(())
        };
        levels.raise(TaskId(task), place_of(cpus), cpus, set).expect("nothing is refused");
        levels.thawed(TaskId(task));
        done
    }

    fn levels(tasks: u32) -> Levels {
        let mut levels = Levels::new(tasks as usize, LOWEST);
        (0..tasks).map(TaskId).for_each(|task| levels.set_by_freezing(task, false));
        levels
    }

    #[test]
    fn a_preemption_costs_one_act_and_its_repetition_none() {
        let (mut levels, cpu) = (levels(2), CpuSet::single(0));
        assert_eq!(raise(&mut levels, 0, &cpu), [(0, 10)], "a new process has the highest priority");
        assert_eq!(raise(&mut levels, 1, &cpu), [(1, 11)]);
        levels.frozen(TaskId(1));
        assert_eq!(raise(&mut levels, 0, &cpu), [], "it resumes");
        assert_eq!(raise(&mut levels, 1, &cpu), [], "it is above already");
    }

    #[test]
    fn tasks_of_other_cpus_do_not_matter() {
        let mut levels = levels(3);
        raise(&mut levels, 0, &CpuSet::single(0));
        assert_eq!(raise(&mut levels, 1, &CpuSet::single(1)), [(1, 10)]);
        assert_eq!(raise(&mut levels, 2, &CpuSet::first(2)), [(2, 11)]);
        assert_eq!(levels.only_place(TaskId(0)), Some(Place(0)));
        assert_eq!(levels.only_place(TaskId(2)), None);
    }

    #[test]
    fn a_process_that_is_dispatched_by_freezing_has_the_highest_priority() {
        let (mut levels, cpu) = (levels(2), CpuSet::single(0));
        raise(&mut levels, 0, &cpu);
        assert_eq!(raise(&mut levels, 1, &cpu), [(1, 11)]);
        levels.set_by_freezing(TaskId(1), true);
        assert_eq!(raise(&mut levels, 1, &cpu), [(1, 70)]);
        assert_eq!(levels.only_place(TaskId(1)), None);
    }

    #[test]
    fn more_tasks_than_priorities() {
        let (mut levels, cpu) = (levels(200), CpuSet::single(0));
        let acts: usize = (0..200).map(|task| raise(&mut levels, task, &cpu).len()).sum();
        assert!(acts < 1000, "{acts}");
        let level = levels.tasks[199].level;
        assert!(levels.tasks[..199].iter().all(|known| (LOWEST..level).contains(&known.level)));
    }

    /// One act on a machine of two CPUs.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        /// The task is dispatched on these CPUs, and preempts the others there. Whether each setting of a priority is refused.
        Dispatch(u32, u8, u8),
        Freeze(u32),
        Exit(u32),
        Threads(u32, bool),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            8 => (0..80u32, 1..4u8, 0..40u8).prop_map(|(task, cpus, fails)| Act::Dispatch(task, cpus, fails)),
            2 => (0..80u32).prop_map(Act::Freeze),
            1 => (0..80u32).prop_map(Act::Exit),
            1 => (0..80u32, any::<bool>()).prop_map(|(task, several)| Act::Threads(task, several)),
        ];
        prop::collection::vec(act, 1..300)
    }

    /// Orders in which tasks come, go and change their places: each has its order as numbers of tasks.
    fn orders() -> impl Strategy<Value = Vec<Vec<usize>>> {
        let order = (prop::collection::vec(any::<prop::sample::Index>(), 0..60)).prop_map(|picks| {
            let mut order: Vec<usize> = Vec::new();
            for pick in picks {
                let task = pick.index(80);
                if !order.contains(&task) {
                    order.push(task);
                }
            }
            order
        });
        prop::collection::vec(order, 1..20)
    }

    #[test]
    fn a_ladder_has_the_order_of_its_tasks() {
        takt_testing::for_all(300, (orders(), prop::sample::select(&[69, LOWEST, 1][..])), |(orders, lowest)| {
            let highest = highest(lowest);
            let mut ladder = Ladder::new(lowest, highest);
            let mut kernel = [highest; 80];
            let mut before: Vec<usize> = Vec::new();
            for mut order in orders {
                order.truncate(ladder.levels());
                ladder.place(order.len(), |index| (kernel[order[index]], before.contains(&order[index])));
                let chain: Vec<usize> = order.iter().copied().filter(|task| before.contains(task)).collect();
                let held = chain.is_sorted_by(|a, b| kernel[*a] > kernel[*b]);
                let mut sets = 0;
                let done = ladder.changes(|index, level| {
                    kernel[order[index]] = level;
                    sets += 1;
                    // Tasks whose order is the same all the time are never out of it.
                    match !held || chain.is_sorted_by(|a, b| kernel[*a] > kernel[*b]) {
                        true => Ok(()),
                        false => Err(()),
                    }
                });
                prop_assert!(done.is_ok(), "{chain:?}");
                prop_assert!(order.iter().all(|task| (lowest..highest).contains(&kernel[*task])));
                prop_assert!(order.is_sorted_by(|a, b| kernel[*a] > kernel[*b]), "{order:?} {kernel:?}");
                prop_assert!(order != before || sets == 0, "the same order costs nothing");
                before = order;
            }
            Ok(())
        });
    }

    /// A job comes between two others, and then one after the other at the lower end: each costs one act, and seldom more.
    #[test]
    fn a_release_costs_one_level_as_a_rule() {
        let mut ladder = Ladder::new(LOWEST, highest(LOWEST));
        let mut kernel = [highest(LOWEST); 400];
        let mut order: Vec<usize> = Vec::new();
        let mut sets = 0;
        for task in 0..400 {
            let ready = order.clone();
            order.insert(order.len() / 2, task);
            if order.len() > 10 {
                order.remove(0);
            }
            ladder.place(order.len(), |index| (kernel[order[index]], ready.contains(&order[index])));
            let set = |index: usize, level| {
                kernel[order[index]] = level;
                sets += 1;
                Ok::<(), Infallible>(())
            };
            ladder.changes(set).expect("nothing is refused");
        }
        assert!(sets < 1000, "{sets} for 400 releases");
    }

    #[test]
    fn dispatched_tasks_are_above_all_others_of_their_cpus() {
        // The narrowest range that a file may ask for, the usual one, and the lowest one.
        takt_testing::for_all(300, (acts(), prop::sample::select(&[69, LOWEST, 1][..])), |(acts, lowest)| {
            let mut levels = Levels::new(80, lowest);
            (0..80).map(TaskId).for_each(|task| levels.set_by_freezing(task, false));
            let highest = highest(lowest);
            let mut kernel = [highest; 80];
            let mut chosen: Vec<(TaskId, CpuSet)> = Vec::new();
            for act in acts {
                match act {
                    Act::Dispatch(task, cpus, fails) => {
                        let (task, cpus) =
                            (TaskId(task), (0..2).filter(|cpu| cpus & 1 << cpu != 0).collect::<CpuSet>());
                        chosen.retain(|(other, of)| {
                            let stays = *other != task && of.is_disjoint(&cpus);
                            // As the scheduler does with a preempted task that could run elsewhere.
                            if *other != task && !stays && levels.only_place(*other).is_none() {
                                levels.frozen(*other);
                            }
                            stays
                        });
                        let on_cpus = |other: &&TaskId| !levels.tasks[other.index()].cpus.is_disjoint(&cpus);
                        let on_cpus: Vec<usize> =
                            levels.thawed.iter().filter(on_cpus).map(|task| task.index()).collect();
                        let mut count = 0;
                        let done = levels.raise(task, place_of(&cpus), &cpus, |other, level| {
                            count += 1;
                            if count == fails {
                                return Err(());
                            }
                            assert!((lowest..=highest).contains(&level));
                            assert!(other == task || level < kernel[other.index()], "others are lowered");
                            let before = kernel;
                            kernel[other.index()] = level;
                            let order = |a: usize| before[a].cmp(&before[other.index()]) as i8;
                            let now = |a: usize| kernel[a].cmp(&level) as i8;
                            let meant: Vec<usize> = on_cpus.iter().copied().filter(|a| *a != task.index()).collect();
                            let holds = meant.iter().all(|a| other == task || order(*a) * now(*a) >= 0);
                            assert!(holds, "the order of the others holds");
                            Ok(())
                        });
                        // A refused act is repeated, and the task is dispatched only then.
                        let done = done.or_else(|()| {
                            levels.raise(task, place_of(&cpus), &cpus, |other, level| {
                                kernel[other.index()] = level;
                                Ok::<(), ()>(())
                            })
                        });
                        prop_assert!(done.is_ok());
                        levels.thawed(task);
                        chosen.push((task, cpus));
                    }
                    Act::Freeze(task) | Act::Exit(task) => {
                        let id = TaskId(task);
                        chosen.retain(|(other, _)| *other != id);
                        levels.frozen(id);
                        if let Act::Exit(_) = act {
                            levels.replaced(id);
                            kernel[id.index()] = highest;
                        }
                    }
                    Act::Threads(task, several) => {
                        let id = TaskId(task);
                        levels.set_by_freezing(id, several);
                        match chosen.iter().find(|(other, _)| *other == id) {
                            Some((_, cpus)) => {
                                let set = |other: TaskId, level| {
                                    kernel[other.index()] = level;
                                    Ok::<(), ()>(())
                                };
                                prop_assert!(levels.raise(id, place_of(cpus), cpus, set).is_ok());
                            }
                            None if several => levels.frozen(id),
                            None => {}
                        }
                    }
                }
                for (task, known) in (0..).map(TaskId).zip(&levels.tasks) {
                    prop_assert_eq!(known.level, kernel[task.index()]);
                    prop_assert!((lowest..=highest).contains(&known.level));
                    prop_assert_eq!(known.thawed, levels.thawed.contains(&task));
                }
                for (task, cpus) in &chosen {
                    let level = kernel[task.index()];
                    let below = |other: &&TaskId| {
                        *other == task
                            || levels.tasks[other.index()].cpus.is_disjoint(cpus)
                            || kernel[other.index()] < level
                    };
                    prop_assert!(levels.thawed.iter().all(|other| below(&other)), "task {}", task.0);
                    prop_assert!(!levels.tasks[task.index()].by_freezing || level == highest);
                }
            }
            Ok(())
        });
    }
}
