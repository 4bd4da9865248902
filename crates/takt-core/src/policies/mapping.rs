//! Mapping: which of the chosen jobs runs on which CPU.
//!
//! The three passes of ChronOS: Garyali, "On Best-Effort Utility Accrual Real-Time Scheduling on Multiprocessors", thesis,
//! Virginia Tech, 2010; Dellinger, Garyali, Ravindran, "ChronOS Linux: A Best-Effort Real-Time Multiprocessor Linux
//! Kernel", DAC 2011, section 5.3. First a chosen job that runs stays where it is; then a free CPU takes a chosen job that ran
//! there last; then the jobs left over take the CPUs left over. Invariants: no two jobs on one CPU; as many run as there are CPUs
//! for them; and a chosen job that runs does not move, unless it is moved so that a job bound to some CPUs can run, too.
//!
//! Every global policy maps with this, or by another rule of [`MAPPERS`] that its setting `mapper` names. A policy that hosts
//! several groups of CPUs has one [`Mapper`] for each.
//!
//! The three passes are inlined as the default, because a global policy maps at every event. Another mapper costs a call through a table.
//! `in-order` is the baseline that shows their benefit.

mod in_order;
mod rule;

pub use rule::{MapperEntry, Mapping, Seats};

use crate::cpus::CpuSet;
use crate::model::{Kind, Setting, TaskId};
use crate::policy::{Build, Context, Decision};
use crate::record::Place;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Every mapper of Takt; the first one is the default. Adding one is a file in `policies/mapping/` and a line here.
pub const MAPPERS: &[MapperEntry] = &[THREE_PASS, in_order::ENTRY];

const THREE_PASS: MapperEntry = MapperEntry {
    name: "three-pass",
    summary: "running jobs stay, then a CPU's last job, then others (ChronOS)",
    manual: manual!(
        "\
A running job that is chosen keeps its CPU. Then each free CPU takes a chosen job that ran there last; among several, the
least urgent one, as in the paper's figure 4. Then the remaining jobs take the remaining CPUs. So no running job moves, and
of m jobs that ran last on one CPU m - 1 migrate. If jobs are bound to CPUs, a running job moves only if another job has no
other CPU. O(m) for m CPUs, O(m²) for each chosen job where jobs are bound. Garyali, \"On Best-Effort Utility Accrual Real-Time
Scheduling on Multiprocessors\", thesis, Virginia Tech, 2010."
    ),
    build: || None,
};

/// The names of all mappers, in the order of [`MAPPERS`].
const NAMES: [&str; MAPPERS.len()] = {
    let mut names = [""; MAPPERS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = MAPPERS[index].name;
        index += 1;
    }
    names
};

/// The setting of every policy that has several CPUs for one queue: its mapper.
pub const MAPPER: Setting = Setting {
    name: "mapper",
    kind: Kind::Choice(&NAMES),
    default: "three-pass",
    summary: "which of the chosen jobs runs on which CPU, for the global (g-) and clustered (c-) forms",
};

/// Maps chosen jobs to CPUs by the rule of the policy's setting; it holds the scratch memory for that.
pub struct Mapper {
    /// Whether every task may run on every CPU, so that the first m jobs always fit.
    unrestricted: bool,
    seats: Seats,
    /// Jobs not yet mapped, in their order.
    unmapped: Vec<TaskId>,
    /// Another rule than the three passes.
    rule: Option<Box<dyn Mapping>>,
}

impl Mapper {
    /// A mapper for these tasks of a policy and the single-CPU places that they may ever be lent. This allocates; [`Mapper::map`]
    /// does not.
    #[must_use]
    pub fn new(build: &Build<'_>, tasks: &[TaskId], places: &[Place]) -> Mapper {
        let system = build.system;
        let unrestricted = || {
            let machine: Vec<usize> = system.cpus.iter().collect();
            let cpus: CpuSet = places.iter().map(|p| machine[p.index()]).collect();
            tasks.iter().all(|t| cpus.is_subset(&system.tasks[t.index()].affinity))
        };
        if !cfg!(feature = "multiprocessor") {
            let unrestricted = unrestricted();
            return Mapper { unrestricted, seats: Seats::new(&[]), unmapped: Vec::new(), rule: None };
        }
        let entry = MAPPERS.get(usize::from(build.spec.mapper)).unwrap_or(&THREE_PASS);
        Mapper {
            // Most clusters of a large machine may have no task, and then need not know their CPUs.
            unrestricted: tasks.is_empty() || unrestricted(),
            seats: Seats::new(places),
            unmapped: Vec::with_capacity(places.len()),
            // On one CPU all rules are the same.
            rule: if places.len() > 1 { (entry.build)() } else { None },
        }
    }

    /// Whether every task may run on every CPU, so that no job beyond the first m chosen jobs matters.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.unrestricted
    }

    /// Whether one job that comes moves no other: every task may run on every CPU, and the three passes are the rule.
    #[must_use]
    pub(crate) fn seats_one_by_one(&self) -> bool {
        self.unrestricted && self.rule.is_none()
    }

    /// The CPU, of `lent`, of the one job that comes where `leaves` gives up its own and all others stay: as [`Mapper::map`] would
    /// choose it. O(m) for m CPUs.
    #[cfg_attr(target_pointer_width = "64", inline(always))]
    pub(crate) fn seat(&self, comes: TaskId, leaves: Option<TaskId>, lent: &[Place], cx: &Context<'_>) -> Place {
        if let &[only] = lent {
            return only;
        }
        if !cfg!(feature = "multiprocessor") {
            return Place(0);
        }
        let left = leaves.and_then(|task| cx.place_of(task));
        let is_free = |place: Place| left == Some(place) || cx.running_on(place).is_none();
        // All CPUs of the machine, or CPUs that follow each other, as a rule.
        let is_lent = |place: Place| match lent.len() == cx.cpus() {
            true => place.index() < lent.len(),
            false => lent.get(place.index().wrapping_sub(lent[0].index())) == Some(&place) || lent.contains(&place),
        };
        if let Some(last) = cx.last_place(comes)
            && is_lent(last)
            && is_free(last)
        {
            return last;
        }
        for &place in lent {
            if is_free(place) {
                return place;
            }
        }
        unreachable!("there are no more jobs than CPUs")
    }

    /// Adds to `decision` who of `chosen` runs where.
    ///
    /// `chosen` are ready jobs, the most urgent first, each at most once; those that find no CPU wait, so it may be longer
    /// than `lent`. `lent` are places that the mapper was built for. O(m) for m CPUs when every task may run on every CPU;
    /// else O(n m²) at worst for n chosen jobs. (These are those of the three passes; another rule may cost more.)
    pub fn map(
        &mut self,
        chosen: impl IntoIterator<Item = TaskId>,
        lent: &[Place],
        cx: &Context<'_>,
        decision: &mut Decision,
    ) {
        let mut chosen = chosen.into_iter();
        if !cfg!(feature = "multiprocessor") {
            let only = lent.first().copied();
            let able = only.and_then(|place| chosen.find(|task| self.unrestricted || cx.may_run(*task, place)));
            if let (Some(place), Some(task)) = (only, able) {
                decision.run(task, place);
            }
            return;
        }
        if let (&[place], true) = (lent, self.unrestricted) {
            if let Some(task) = chosen.next() {
                decision.run(task, place);
            }
            return;
        }
        lent.iter().for_each(|p| self.seats.free[p.index() - self.seats.first] = true);
        let before = decision.assignments().len();
        if self.unrestricted && self.rule.is_none() {
            self.map_anywhere(chosen.take(lent.len()), lent, cx, decision);
        } else {
            self.choose(chosen, lent, cx);
            let Mapper { seats, unmapped, rule, .. } = self;
            match rule {
                None => seats.keep_and_find(unmapped, lent, cx),
                Some(rule) => rule.map(unmapped, lent, seats, cx),
            }
            for &place in lent {
                if let Some(task) = seats.holder[place.index() - seats.first] {
                    seats.give(task, place, decision);
                }
            }
        }
        // A CPU that was given away is marked already.
        if decision.assignments().len() - before < lent.len() {
            lent.iter().for_each(|p| self.seats.free[p.index() - self.seats.first] = false);
        }
    }

    /// The three passes.
    fn map_anywhere(
        &mut self,
        chosen: impl Iterator<Item = TaskId>,
        lent: &[Place],
        cx: &Context<'_>,
        decision: &mut Decision,
    ) {
        let Mapper { seats, unmapped, .. } = self;
        unmapped.clear();
        for task in chosen {
            match cx.place_of(task).filter(|p| seats.is_free(*p)) {
                Some(place) => seats.give(task, place, decision),
                None => unmapped.push(task),
            }
        }
        if unmapped.is_empty() {
            return;
        }
        // Among several that ran last on the same CPU it takes the last of the list, as in the paper's example.
        unmapped.reverse();
        unmapped.retain(|&task| match cx.last_place(task).filter(|p| seats.is_free(*p)) {
            Some(place) => {
                seats.give(task, place, decision);
                false
            }
            None => true,
        });
        unmapped.reverse();
        let mut rest = lent.iter();
        for &task in &*unmapped {
            let free = rest.find(|p| seats.is_free(**p));
            seats.give(task, *free.expect("there are no more jobs than CPUs"), decision);
        }
    }

    /// Fills `unmapped` with those who are to run. Where tasks are bound to some CPUs each job in order of urgency is given a CPU
    /// that it may use, if need be by moving others to CPUs that they may use, along an augmenting path: those that are given one
    /// are the most urgent of those that can run at once, since what can be matched is a matroid.
    fn choose(&mut self, chosen: impl Iterator<Item = TaskId>, lent: &[Place], cx: &Context<'_>) {
        let Mapper { seats, unmapped, unrestricted, .. } = self;
        unmapped.clear();
        seats.holder.fill(None);
        if *unrestricted {
            return unmapped.extend(chosen.take(lent.len()));
        }
        for task in chosen {
            if unmapped.len() == lent.len() {
                break;
            }
            if seats.find(task, lent, true, cx) {
                unmapped.push(task);
            }
        }
        seats.holder.fill(None);
    }
}
