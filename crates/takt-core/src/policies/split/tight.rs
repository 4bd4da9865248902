//! C=D splitting: Burns, Davis, Wang, Zhang, "Partitioned EDF Scheduling for Multiprocessors Using a C=D Task Splitting
//! Scheme", Real-Time Systems 48, 2012.
//!
//! A task that fits nowhere fills up one CPU after the other with pieces whose deadline is their length. Such a piece runs at
//! once and to its end, so the rest of the task, released after it, has lost as much of its deadline as of its runtime.
//! Invariant: the pieces follow each other without overlap, and each CPU passes the exact test with what it has got.

use super::bins::{Bins, Cpu, Piece};
use super::demand::{Times, Window, largest_piece_with};
use alloc::vec::Vec;

/// Splits a task over these CPUs in their order; `false` when something is left at the end.
pub(super) fn split(bins: &mut Bins, task: usize, whole: Times, on: &[usize]) -> bool {
    // Two jobs of a task never run at once, so the pieces of one end before those of the next begin.
    let mut rest = Times { deadline: whole.deadline.min(whole.period), ..whole };
    if rest.runtime > rest.deadline {
        return false;
    }
    let mut placed = Vec::new();
    for &cpu in on {
        let offset = whole.runtime - rest.runtime;
        match bins.cpus[cpu].accepts(&rest, &mut bins.effort) {
            Some(true) => {
                placed.push((cpu, Piece { task, offset, load: rest }));
                for (cpu, piece) in placed {
                    bins.cpus[cpu].put(piece);
                }
                return true;
            }
            Some(false) => {}
            None => bins.gave_up = true,
        }
        // Something has to be left for the last piece.
        let there = &bins.cpus[cpu].loads;
        let piece = largest_piece_with(there, Window::Tight, rest.period, rest.runtime - 1, &mut bins.effort);
        bins.gave_up |= piece.is_none();
        let Some(runtime) = piece.filter(|length| *length > 0) else { continue };
        placed.push((cpu, Piece { task, offset, load: Times { runtime, deadline: runtime, period: rest.period } }));
        rest = Times { runtime: rest.runtime - runtime, deadline: rest.deadline - runtime, period: rest.period };
    }
    false
}
