//! Servers with deadlines before the ends of their periods, on one CPU.
//!
//! In an interval, a server whose jobs all come with a budget of their own has the demand of a sporadic task (Q, D, P): Q for each
//! deadline, which are at least P apart and none sooner than D (Baruah, Mok and Rosier, "Preemptively Scheduling Hard-Real-Time
//! Sporadic Tasks on One Processor", RTSS 1990). A server whose jobs sleep, overrun or come too early may wake up in the middle of its
//! budget. By the revised rule of waking up it then has no more than Q / D of the time until its deadline (Abeni, Lipari and Lelli,
//! "Constant bandwidth server revisited", SIGBED Review 11(4), 2015), and its next deadline is P later: within x after the k-th
//! multiple of P that is k Q and the lesser of Q and x Q / D. Where D = P that is the line of its share, as for CBS.
//!
//! Deadlines are met if no interval holds more than its length. Between two instants k P + D of any servers the sum less the length
//! is convex, so that these are all that has to be looked at, in the order of QPA (Zhang and Burns, IEEE TC 58(9), 2009), which asks
//! only for a demand that never falls.

use crate::utilisation::gcd;
use takt_core::policies::split::demand::{Effort, HORIZON, Times, deadline_before, fine_slope_bound, utilisation};
use takt_core::time::Span;

/// A server's claim on the CPU.
pub(super) struct Claim {
    pub(super) times: Times,
    /// It may wake up in the middle of a budget.
    pub(super) strays: bool,
}

impl Claim {
    /// The most that it can have by deadlines in an interval of this length, rounded up.
    fn due(&self, length: u64) -> u128 {
        let Times { runtime, deadline, period } = self.times;
        let (whole, rest) = (u128::from(length / period), length % period);
        let part = match (rest >= deadline, self.strays) {
            (true, _) => u128::from(runtime),
            (false, true) => (u128::from(rest) * u128::from(runtime)).div_ceil(u128::from(deadline)),
            (false, false) => 0,
        };
        whole * u128::from(runtime) + part
    }
}

/// Whether all servers have their budgets by their deadlines. The error says why that is not shown. O(n) for each instant that is
/// looked at.
pub(super) fn fits(claims: &[Claim]) -> Result<(), String> {
    let times: Vec<Times> = claims.iter().map(|claim| claim.times).collect();
    let sum = utilisation(&times);
    if sum.compare_whole(1).is_gt() {
        return Err("reservations above one CPU are inconclusive".into());
    }
    let too_long = || "the test of the servers takes too long".to_owned();
    // The demand of the second hyperperiod is due as in the first.
    let multiple = |all: u128, t: &Times| (all / gcd(all, t.period.into())).checked_mul(t.period.into());
    let hyperperiod = times.iter().try_fold(1, multiple).and_then(|all| u64::try_from(all).ok());
    let end = [hyperperiod, fine_slope_bound(&times)].into_iter().flatten().min().filter(|end| *end < HORIZON);
    let end = end.ok_or_else(too_long)?;
    let first = times.iter().map(|t| t.deadline).min().unwrap_or(0);
    let mut effort = Effort::default();
    let mut next = deadline_before(&times, end + 1);
    while let Some(t) = next {
        if !effort.spend(claims.len()) {
            return Err(too_long());
        }
        let due = claims.iter().map(|claim| claim.due(t)).sum::<u128>();
        next = match u64::try_from(due) {
            Ok(due) if due <= first => None,
            Ok(due) if due < t => deadline_before(&times, due + 1),
            Ok(due) if due == t => deadline_before(&times, t),
            _ => {
                let (within, due) = (Span::from_ns(t as i64), i64::try_from(due).map_or(Span::MAX, Span::from_ns));
                return Err(format!("in {within} the servers can need {due} by their deadlines (inconclusive)"));
            }
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(runtime: u64, deadline: u64, period: u64, strays: bool) -> Claim {
        Claim { times: Times { runtime, deadline, period }, strays }
    }

    #[test]
    fn straying_servers_need_part_of_their_budget_sooner() {
        // Two of 2 in 4 every 10, and 1 in 5 every 10: 4 by 4, 5 by 5.
        let three = |strays| [claim(2, 4, 10, strays), claim(2, 4, 10, false), claim(1, 5, 10, false)];
        assert_eq!(fits(&three(false)), Ok(()));
        assert_eq!(fits(&three(true)), Ok(()));
        // By 2 one can have 1 of its 2, which is too much beside 2 in 2, but not beside 1 in 2.
        let beside = |runtime, strays| [claim(2, 4, 10, strays), claim(runtime, 2, 10, false)];
        assert_eq!(fits(&beside(1, true)), Ok(()));
        assert_eq!(fits(&beside(2, false)), Ok(()));
        assert!(fits(&beside(2, true)).is_err());
        // A server of the whole period that strays is the line of its share: 1 of 5 by 2.
        assert!(fits(&[claim(5, 10, 10, true), claim(2, 2, 10, false)]).is_err());
        assert_eq!(fits(&[claim(5, 10, 10, false), claim(2, 2, 10, false)]), Ok(()));
    }

    #[test]
    fn a_full_cpu_is_looked_at_for_a_hyperperiod() {
        assert_eq!(fits(&[claim(1, 1, 2, false), claim(2, 4, 4, false)]), Ok(()));
        assert!(fits(&[claim(1, 1, 2, false), claim(2, 3, 4, false)]).is_err());
        assert!(fits(&[claim(1, 1, 2, false), claim(3, 4, 4, false)]).is_err());
        assert_eq!(fits(&[]), Ok(()));
    }

    /// Looked at instant by instant, for a hyperperiod. Times are multiples of what all deadlines divide, so that nothing is rounded.
    #[test]
    fn the_search_agrees_with_looking_everywhere() {
        const UNIT: u64 = 27_720;
        let due = |c: &Claim, t: u64| -> u64 {
            let [runtime, deadline, period] =
                [c.times.runtime, c.times.deadline, c.times.period].map(|time| time / UNIT);
            let rest = t % period;
            let part = if rest >= deadline { UNIT } else { u64::from(c.strays) * (UNIT / deadline * rest) };
            runtime * (t / period * UNIT + part)
        };
        let (mut fitted, mut refused) = (0, 0);
        for number in 0_u64..6_000 {
            let mut left = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut draw = |most: u64| {
                left = left.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                1 + (left >> 40) % most
            };
            let mut drawn = || {
                let period = [4, 6, 8, 12][draw(4) as usize - 1];
                let deadline = draw(period);
                claim(draw(deadline.div_ceil(2)) * UNIT, deadline * UNIT, period * UNIT, draw(2) == 1)
            };
            let claims = [drawn(), drawn(), drawn()];
            let within = (1..=24).all(|t| claims.iter().map(|c| due(c, t)).sum::<u64>() <= t * UNIT);
            let times = claims.each_ref().map(|c| (c.times, c.strays));
            assert_eq!(fits(&claims).is_ok(), within, "set {number}: {times:?}");
            *if within { &mut fitted } else { &mut refused } += 1;
        }
        assert!(fitted > 500 && refused > 500, "{fitted} {refused}");
    }
}
