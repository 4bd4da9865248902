//! EDF-WM: Kato, Yamasaki, Ishikawa, "Semi-Partitioned Scheduling of Sporadic Task Systems on Multiprocessors", ECRTS 2009; in
//! the form that AIRS uses (Kato, Rajkumar, Ishikawa, "AIRS: Supporting Interactive Real-Time Applications on Multicore
//! Platforms", ECRTS 2010, section 5.1).
//!
//! A task on n CPUs has its deadline cut into n windows of equal length. Its k-th piece is released at the start of the k-th
//! window and has to be done by its end, so pieces never overlap and each CPU can be tested by itself. Invariant: the pieces of
//! a task add up to its runtime, and each CPU passes the exact test with what it has got.
//!
//! The piece that a CPU can take is computed exactly ([`super::demand::largest_piece`]). The paper says that for deadlines
//! at the ends of the periods only the first deadline of each task has to be looked at; that admits pieces that miss.

use super::bins::{Bins, Piece};
use super::demand::{Times, Window, largest_piece_with};
use alloc::vec::Vec;

/// Splits a task over as few of these CPUs as possible; `false` when they do not suffice.
pub(super) fn split(bins: &mut Bins, task: usize, whole: Times, on: &[usize]) -> bool {
    // Two jobs of a task never run at once, so the windows of one end before those of the next begin.
    let deadline = whole.deadline.min(whole.period);
    for n in 2..=on.len() as u64 {
        // The rest of the division is unused slack.
        let window = deadline / n;
        if window == 0 {
            return false;
        }
        let Some(pieces) = pieces(bins, whole, on, window, n as usize) else { continue };
        for (k, &(cpu, runtime)) in pieces.iter().enumerate() {
            let load = Times { runtime, deadline: window, period: whole.period };
            bins.cpus[cpu].put(Piece { task, offset: k as u64 * window, load });
        }
        return true;
    }
    false
}

/// The CPUs in the order of their numbers, each with what it takes; together exactly the runtime.
fn pieces(bins: &mut Bins, whole: Times, on: &[usize], window: u64, n: usize) -> Option<Vec<(usize, u64)>> {
    let mut room = Vec::with_capacity(on.len());
    for &cpu in on {
        let bin = &bins.cpus[cpu];
        let piece =
            largest_piece_with(&bin.loads, Window::Fixed(window), whole.period, whole.runtime, &mut bins.effort);
        bins.gave_up |= piece.is_none();
        room.push((cpu, piece.unwrap_or(0)));
    }
    room.sort_by_key(|&(cpu, length)| (core::cmp::Reverse(length), cpu));
    room.truncate(n);
    let total: u128 = room.iter().map(|&(_, length)| u128::from(length)).sum();
    // The surplus is taken from the smallest pieces, so that a piece may vanish and a migration with it.
    let mut excess = total.checked_sub(u128::from(whole.runtime))?;
    for (_, length) in room.iter_mut().rev() {
        let cut = excess.min(u128::from(*length));
        *length -= cut as u64;
        excess -= cut;
    }
    room.retain(|&(_, length)| length > 0);
    room.sort_unstable();
    Some(room)
}
