//! Mappers, and the CPUs that they fill.

use crate::model::TaskId;
use crate::policy::{Context, Decision};
use crate::record::Place;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// A rule that says which of the chosen jobs runs on which CPU. It keeps the memory that it needs from one call to the next, and
/// allocates nothing after it is built.
pub trait Mapping: Send {
    /// Gives each of `chosen` a CPU of `lent`. They are in order of urgency, no more than there are CPUs, and such that they can
    /// all run at once; no CPU is taken yet.
    fn map(&mut self, chosen: &[TaskId], lent: &[Place], seats: &mut Seats, cx: &Context<'_>);
}

/// One mapper of the registry.
pub struct MapperEntry {
    /// Its name, as the setting `mapper` takes it.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Its rule and its costs, in Markdown.
    pub manual: &'static str,
    /// Builds it. `None` is the three passes, which are part of [`Mapper`](crate::policies::mapping::Mapper) so that the default costs no call through a table.
    pub build: fn() -> Option<Box<dyn Mapping>>,
}

/// The CPUs of a mapper while jobs find theirs.
#[derive(Debug)]
pub struct Seats {
    /// Index of the lowest place.
    pub(super) first: usize,
    /// Whether a place is lent and not yet given away, from the lowest place on; all `false` between two calls.
    pub(super) free: Vec<bool>,
    /// By place from the lowest on: who is to run there, and by which CPU the search came.
    pub(super) holder: Vec<Option<TaskId>>,
    pub(super) through: Vec<usize>,
    /// CPUs that the search has reached, in its order.
    pub(super) reached: Vec<usize>,
}

impl Seats {
    pub(super) fn new(places: &[Place]) -> Seats {
        let first = places.iter().map(|p| p.index()).min().unwrap_or(0);
        let end = places.iter().map(|p| p.index() + 1).max().unwrap_or(0);
        Seats {
            first,
            free: vec![false; end - first],
            holder: vec![None; end - first],
            through: vec![NOT_REACHED; end - first],
            reached: Vec::with_capacity(places.len()),
        }
    }

    #[inline]
    pub(super) fn is_free(&self, place: Place) -> bool {
        self.free.get(place.index().wrapping_sub(self.first)) == Some(&true)
    }

    #[inline]
    pub(super) fn give(&mut self, task: TaskId, place: Place, decision: &mut Decision) {
        self.free[place.index() - self.first] = false;
        decision.run(task, place);
    }

    /// The three passes where tasks are bound to some CPUs: who runs stays, and the others find a CPU, first where they ran
    /// last, so that a running job is moved only if it blocks one of them.
    pub(super) fn keep_and_find(&mut self, chosen: &[TaskId], lent: &[Place], cx: &Context<'_>) {
        for &task in chosen {
            if let Some(place) = cx.place_of(task).filter(|p| self.is_free(*p) && cx.may_run(task, *p)) {
                self.holder[place.index() - self.first] = Some(task);
            }
        }
        for &task in chosen {
            if !self.holder.contains(&Some(task)) {
                let found = self.find(task, lent, true, cx);
                debug_assert!(found, "they can run at once");
            }
        }
    }

    /// Finds a CPU of `lent` for one more job, the lowest that it may use and that is free; with `back` first the one where it
    /// ran last. If all are taken, others make room by moving to CPUs that they may use. `false` if that would leave one
    /// without a CPU. Breadth first: each CPU is reached once, and for each one the other CPUs of its holder are tried. O(m²).
    pub fn find(&mut self, task: TaskId, lent: &[Place], back: bool, cx: &Context<'_>) -> bool {
        self.reached.clear();
        self.through.fill(NOT_REACHED);
        let mut from = FIRST;
        let mut next = 0;
        let mut mover = task;
        loop {
            let last = cx.last_place(mover).filter(|p| back && self.is_free(*p));
            for place in last.into_iter().chain(lent.iter().copied()) {
                let index = place.index() - self.first;
                if self.through[index] != NOT_REACHED || !cx.may_run(mover, place) {
                    continue;
                }
                self.through[index] = from;
                if self.holder[index].is_some() {
                    self.reached.push(index);
                    continue;
                }
                // Back along the path everybody moves on by one CPU.
                let mut free = index;
                while self.through[free] != FIRST {
                    let before = self.through[free];
                    self.holder[free] = self.holder[before];
                    free = before;
                }
                self.holder[free] = Some(task);
                return true;
            }
            let Some(&reached) = self.reached.get(next) else { return false };
            next += 1;
            from = reached;
            mover = self.holder[reached].expect("only such CPUs are kept");
        }
    }
}

/// Where the search for a CPU begins, and CPUs that it has not reached.
const FIRST: usize = usize::MAX;
const NOT_REACHED: usize = usize::MAX - 1;
