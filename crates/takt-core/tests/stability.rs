//! The stability test of I+PI against its own recurrences, and against the bounds that are known.

use takt_core::policies::ipi::stability::{Unstable, stable};

/// Whether y(k+2) = -a y(k+1) - b y(k) dies out from y = (1, 1), or cannot be told within 20,000 steps.
fn dies_out(a: f64, b: f64) -> Option<bool> {
    let (mut before, mut now) = (1.0_f64, 1.0_f64);
    for _ in 0..20_000 {
        (before, now) = (now, -a * now - b * before);
        let size = before.abs() + now.abs();
        if size < 1e-9 {
            return Some(true);
        }
        if size > 1e9 {
            return Some(false);
        }
    }
    None
}

#[test]
fn the_bounds_are_those_of_the_recurrences() {
    let (mut stable_ones, mut unstable_ones) = (0, 0);
    for kpi in (50_000..2_400_000).step_by(77_777) {
        for krr in (40_000..9_000_000).step_by(222_222) {
            for zrr in (30_000..1_200_000).step_by(61_111) {
                let (p, r, z) = (kpi as f64 / 1e6, krr as f64 / 1e6, zrr as f64 / 1e6);
                let g = p * r;
                let (Some(outer), Some(inner)) = (dies_out(g - 2.0, 1.0 - g * z), dies_out(-(1.0 - p), 0.0)) else {
                    continue;
                };
                assert_eq!(stable(kpi, krr, zrr).is_ok(), outer && inner, "kpi {kpi}, krr {krr}, zrr {zrr}");
                *if outer && inner { &mut stable_ones } else { &mut unstable_ones } += 1;
            }
        }
    }
    assert!(stable_ones > 1_000 && unstable_ones > 1_000, "{stable_ones} stable, {unstable_ones} not");
}

#[test]
fn the_bound_of_krr_is_the_last_stable_value() {
    // The thesis' zero and inner gain: g below 2 / (1 + 0.88) · 2 = 2.1277, so krr below 4.2553.
    assert_eq!(stable(500_000, 5_000_000, 880_000), Err(Unstable::Outer { most: 4_255_319 }));
    for (kpi, zrr) in [(500_000, 880_000), (1_000_000, 500_000), (250_000, 999_999), (1_999_999, 1)] {
        let Err(Unstable::Outer { most }) = stable(kpi, i64::MAX, zrr) else { panic!("stable") };
        assert_eq!(stable(kpi, most, zrr), Ok(()));
        assert_eq!(stable(kpi, most + 1, zrr), Err(Unstable::Outer { most }));
    }
    // With zrr = 0.5 and kpi = 1 the bound is 4 / 1.5; with zrr = 0.6 and kpi = 0.625 it is 4 exactly, on the cycle.
    assert_eq!(stable(1_000_000, 2_666_666, 500_000), Ok(()));
    assert_eq!(stable(1_000_000, 2_666_667, 500_000), Err(Unstable::Outer { most: 2_666_666 }));
    assert_eq!(stable(625_000, 4_000_000, 600_000), Err(Unstable::Outer { most: 3_999_999 }));
}

#[test]
fn each_gain_has_its_own_fault() {
    assert_eq!(stable(500_000, 900_000, 880_000), Ok(()));
    assert_eq!(stable(1_000_000, 1_000_000, 500_000), Ok(()));
    assert_eq!(stable(2_000_000, 900_000, 880_000), Err(Unstable::Inner));
    assert_eq!(stable(0, 900_000, 880_000), Err(Unstable::Inner));
    assert_eq!(stable(500_000, 900_000, 1_000_000), Err(Unstable::Zero));
    assert_eq!(stable(500_000, 900_000, 0), Err(Unstable::Zero));
    assert!(matches!(stable(500_000, 0, 880_000), Err(Unstable::Outer { .. })));
}
