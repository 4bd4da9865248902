//! Whether the loops of I+PI are stable: the test of Jury, exactly, in integers.
//!
//! With g = kpi · krr the inner loop has the pole 1 - kpi, and the outer one the poles of z² + (g-2) z + 1 - g·zrr, for
//! bursts that are computed at the end of a round and run in the next one (Terraneo 2011, algorithm 1; his equation 2.7 has
//! one round of delay more). All lie inside the unit cycle if and only if 0 < kpi < 2, 0 < zrr < 1 and
//! 0 < g < min(2 / zrr, 4 / (1 + zrr)).

use super::parameters::UNIT;

/// Which gain makes a loop unstable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unstable {
    /// `kpi`, which must be above 0 and below 2: the inner loops.
    Inner,
    /// `zrr`, which must be above 0 and below 1: the outer loop.
    Zero,
    /// `krr`, with these `kpi` and `zrr`: the outer loop.
    Outer {
        /// In millionths: `krr` must be above 0 and below the bound that this is, rounded down to the last stable one.
        most: i64,
    },
}

/// Whether both loops are stable with these gains, in millionths. O(1).
///
/// # Errors
/// The gain that is at fault, the inner loop's first.
pub fn stable(kpi: i64, krr: i64, zrr: i64) -> Result<(), Unstable> {
    if kpi <= 0 || kpi >= 2 * UNIT {
        return Err(Unstable::Inner);
    }
    if zrr <= 0 || zrr >= UNIT {
        return Err(Unstable::Zero);
    }
    let (unit, kpi, krr, zrr) = (i128::from(UNIT), i128::from(kpi), i128::from(krr), i128::from(zrr));
    // krr < 2 / (kpi zrr) and krr < 4 / (kpi (1 + zrr)), all in millionths; the last integer below either bound.
    let below = |bound: i128, by: i128| (bound * unit * unit * unit - 1) / by;
    let most = below(2, kpi * zrr).min(below(4, kpi * (unit + zrr)));
    if krr <= 0 || krr > most {
        return Err(Unstable::Outer { most: most as i64 });
    }
    Ok(())
}
