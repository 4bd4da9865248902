//! Compares measured lateness with the kernel's own trace of the same wake-ups.
//!
//! The kernel's account of a wake-up has two events of the task's thread: the arming of a timer, with the instant of its expiry, and the return of the
//! system call in which the thread waited. The measured lateness is that of the next reading of the clock, so it is longer by the way from the kernel
//! to that reading. Interrupts and other threads in between are in the trace, too, and are part of the kernel's account. Each of them cuts that way: its
//! entry and exit have instructions outside of its events, so the limit for a wake-up grows with the pieces.

use crate::explain::{Sample, number};
use crate::kernel::{Action, Event, KernelTrace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One wake-up in both accounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The lateness that the task measured. Nanoseconds.
    pub measured: i64,
    /// The lateness by the kernel's trace: that of the return from the kernel, and the time that was taken from the task after it. Nanoseconds.
    pub traced: i64,
    /// How many pieces of time the task had between its return and its reading: one, and one more after each interruption.
    pub pieces: i64,
}

/// How well two accounts of the same wake-ups agree. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Agreement {
    /// Wake-ups in both accounts.
    pub pairs: usize,
    /// Wake-ups without a timer, because the task was still late for the one before.
    pub behind: usize,
    /// Wake-ups that the trace lacks.
    pub missing: usize,
    /// The greatest difference of one wake-up, divided by its pieces.
    pub each: i64,
    /// Wake-ups that were interrupted between the return and the reading, so they have several pieces.
    #[serde(default)]
    pub interrupted: usize,
    /// The greatest difference of one quantile of the two distributions of all others.
    pub quantile: i64,
}

impl Agreement {
    /// Compares the pairs. O(n log n).
    #[must_use]
    pub fn of(pairs: &[Pair], behind: usize, missing: usize) -> Agreement {
        let sorted = |of: fn(&Pair) -> i64| {
            let mut all: Vec<i64> = pairs.iter().filter(|pair| pair.pieces == 1).map(of).collect();
            all.sort_unstable();
            all
        };
        let (measured, traced) = (sorted(|pair| pair.measured), sorted(|pair| pair.traced));
        let apart = |(a, b): (i64, i64)| (a - b).abs();
        Agreement {
            pairs: pairs.len(),
            behind,
            missing,
            interrupted: pairs.len() - measured.len(),
            each: pairs.iter().map(|pair| apart((pair.measured, pair.traced)) / pair.pieces).max().unwrap_or(0),
            quantile: measured.into_iter().zip(traced).map(apart).max().unwrap_or(0),
        }
    }

    /// Whether no wake-up is missing, and none differs by more than `limit` nanoseconds for each of its pieces. So no quantile of [`Agreement::quantile`] does.
    /// Without any pair, nothing was shown.
    #[must_use]
    pub fn holds(&self, limit: i64) -> bool {
        self.pairs > 0 && self.missing == 0 && self.each <= limit
    }
}

/// The wake-ups of one round, which are in the order of their instants, in both accounts. Further the number of wake-ups for which the task was still
/// late, and the number of samples that the trace lacks. The measured lateness takes no part in finding the return. O(events + n log n).
#[must_use]
pub fn pairs(trace: &KernelTrace, samples: &[Sample]) -> (Vec<Pair>, usize, usize) {
    let Some(pid) = samples.first().map(|sample| number(trace, *sample)) else { return (Vec::new(), 0, 0) };
    let mut armed: BTreeMap<i64, i64> = BTreeMap::new();
    let mut returns: Vec<usize> = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        match event.action {
            Action::TimerStart { pid: by, expires, .. } if by == pid => drop(armed.insert(expires, event.at)),
            Action::Return { pid: of } if of == pid => returns.push(index),
            _ => {}
        }
    }
    let (mut pairs, mut behind, mut missing) = (Vec::new(), 0, 0);
    let mut read = i64::MIN;
    for sample in samples {
        let armed = armed.get(&sample.planned).copied();
        // A signal can interrupt a wait before its timer expires.
        let returned = armed.and_then(|armed| {
            let from = armed.max(sample.planned);
            returns.get(returns.partition_point(|index| trace.events[*index].at < from)).copied()
        });
        match returned {
            Some(index) => {
                let late = trace.events[index].at - sample.planned;
                let (taken, pieces) = taken(&trace.events[index..], pid, sample.planned + sample.late);
                pairs.push(Pair { measured: sample.late, traced: late + taken, pieces });
            }
            None if read >= sample.planned => behind += 1,
            None => missing += 1,
        }
        read = sample.planned + sample.late;
    }
    (pairs, behind, missing)
}

/// The time until then in which the CPU of the first event, a return to the thread, had interrupts or other threads, and the number of pieces into which
/// these cut the rest. O(events until then).
fn taken(events: &[Event], pid: u32, until: i64) -> (i64, i64) {
    let Some(first) = events.first() else { return (0, 1) };
    let (mut open, mut runs, mut since, mut sum, mut pieces) = (Vec::new(), true, first.at, 0, 1);
    for event in events.iter().take_while(|event| event.at < until).filter(|event| event.cpu == first.cpu) {
        let had = runs && open.is_empty();
        if !had {
            sum += event.at - since;
        }
        since = event.at;
        match event.action {
            Action::Enter(interrupt) => open.push(interrupt),
            Action::Leave(interrupt) => {
                if let Some(place) = open.iter().rposition(|other| *other == interrupt) {
                    open.truncate(place);
                }
            }
            Action::Switch { next, .. } => {
                runs = next.pid == pid;
                open.clear();
            }
            _ => {}
        }
        pieces += i64::from(had && !(runs && open.is_empty()));
    }
    // After its last event, the task reads the clock.
    (sum, pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Interrupt, Thread};

    /// Wake-ups each 1000 ns from 1000 on, which return after the planned instant by these times.
    fn trace(returns: &[i64]) -> KernelTrace {
        let mut trace = KernelTrace::default();
        for (index, late) in (1..).zip(returns) {
            let planned = index * 1000;
            let timer = Action::TimerStart { pid: 7, timer: 1, expires: planned };
            let other = Action::TimerStart { pid: 7, timer: 2, expires: planned + 500 };
            for (at, action) in [
                (planned - 900, timer),
                (planned - 880, other),
                // Another thread, and a wait that a signal has interrupted.
                (planned + 1, Action::Return { pid: 8 }),
                (planned - 850, Action::Return { pid: 7 }),
                (planned + late, Action::Return { pid: 7 }),
            ] {
                trace.events.push(Event { at, cpu: 0, action });
            }
        }
        trace.events.sort_by_key(|event| event.at);
        trace
    }

    fn samples(late: &[i64]) -> Vec<Sample> {
        (1..).zip(late).map(|(index, late)| Sample { planned: index * 1000, late: *late, pid: 7 }).collect()
    }

    #[test]
    fn both_accounts_of_each_wake_up_are_found() {
        let (found, behind, missing) = pairs(&trace(&[20, 80, 30]), &samples(&[25, 81, 39]));
        let of = |measured, traced| Pair { measured, traced, pieces: 1 };
        assert_eq!((&found[..], behind, missing), (&[of(25, 20), of(81, 80), of(39, 30)][..], 0, 0));
        let agreement = Agreement::of(&found, 0, 0);
        assert_eq!((agreement.pairs, agreement.each, agreement.quantile), (3, 9, 9));
        assert!(agreement.holds(9) && !agreement.holds(8));
    }

    #[test]
    fn samples_that_are_not_those_of_the_trace_do_not_agree() {
        // Two lists with equal distributions in another order: the quantiles agree, and the wake-ups do not.
        let (found, ..) = pairs(&trace(&[20, 80]), &samples(&[80, 20]));
        let agreement = Agreement::of(&found, 0, 0);
        assert!(agreement.quantile == 0 && agreement.each == 60 && !agreement.holds(50));
        // A planned instant that the kernel does not know.
        let mut shifted = samples(&[20, 80]);
        shifted.iter_mut().for_each(|sample| sample.planned += 1);
        let (found, behind, missing) = pairs(&trace(&[20, 80]), &shifted);
        assert!(found.is_empty() && behind == 0 && missing == 2);
        assert!(!Agreement::of(&found, behind, missing).holds(i64::MAX));
    }

    /// An interrupt and a thread between the return and the reading are in both accounts. Time without events is a difference.
    #[test]
    fn time_that_is_taken_after_the_return_is_in_the_kernels_account() {
        let timer = Interrupt::Vector("local_timer");
        let thread = |pid| Thread { pid, prio: 9, name: "t".into() };
        let switch = |prev, next| Action::Switch { prev: thread(prev), runnable: true, next: thread(next) };
        let mut disturbed = trace(&[20]);
        for (at, action) in [
            (1030, Action::Enter(timer)),
            (1050, Action::Leave(timer)),
            (1060, switch(7, 8)),
            (1100, switch(8, 7)),
            (1180, Action::Enter(timer)),
        ] {
            disturbed.events.push(Event { at, cpu: 0, action });
        }
        let (found, ..) = pairs(&disturbed, &samples(&[110]));
        assert_eq!(found, [Pair { measured: 110, traced: 20 + 20 + 40, pieces: 3 }]);
        // The difference is 30 in three pieces, and no quantile is that of an interrupted wake-up.
        let agreement = Agreement::of(&found, 0, 0);
        assert_eq!((agreement.each, agreement.interrupted, agreement.quantile), (10, 1, 0));
        assert!(agreement.holds(10) && !agreement.holds(9));
    }

    #[test]
    fn a_late_task_arms_no_timer_for_the_instant_that_has_passed() {
        let mut late = trace(&[20, 80]);
        late.events.retain(|event| !matches!(event.action, Action::TimerStart { expires: 2000, .. }));
        let (found, behind, missing) = pairs(&late, &samples(&[1005, 90]));
        assert_eq!((found.len(), behind, missing), (1, 1, 0));
    }
}
