//! The stability of I+PI by exact conditions, by poles, and by running it.

use takt_analysis::control::{Characteristic, Gains, Loops, Pole, Timing, report};
use takt_core::cpus::CpuSet;
use takt_core::engine::{Engine, Input};
use takt_core::model::{Arrival, PolicySpec, System, Task, TaskId};
use takt_core::policies::ipi::stability;
use takt_core::record::{Record, RecordKind};
use takt_core::time::{Span, Time};

/// The upper half of the poles under each timing.
type Poles = [&'static [(f64, f64)]; 2];

const TIMINGS: [Timing; 2] = [Timing::AsItRuns, Timing::AsModelled];

fn gains(kpi: f64, krr: f64, zrr: f64) -> Gains {
    let millionths = |gain: f64| (gain * 1e6).round() as i64;
    Gains { kpi: millionths(kpi), krr: millionths(krr), zrr: millionths(zrr) }
}

fn spec(settings: &[(&str, i64)]) -> PolicySpec {
    let mut spec = PolicySpec::from_name("ipi").expect("ipi");
    for (name, value) in settings {
        let index = spec.profile.settings.iter().position(|s| s.name == *name).expect("a setting");
        spec.values.set(index, Some(*value));
    }
    spec
}

fn batch(share: u32, importance: u32) -> Task {
    let arrival = Arrival::Listed { instants: vec![Span::ZERO] };
    Task { arrival, share: Some(share), importance, ..Task::default() }
}

fn periodic(period: i64, runtime: i64) -> Task {
    let arrival = Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(period) };
    Task { arrival, runtime: Some(Span::from_ms(runtime)), ..Task::default() }
}

#[test]
fn the_poles_are_those_of_the_literature() {
    // Gains of the thesis (2010 and 2011), of its first and of its last outer gain; poles computed with another program.
    let table: [(Gains, Poles, Poles); 3] = [
        (
            gains(0.25, 1.4, 0.88),
            [&[(0.825, 0.107)], &[(0.700, 0.0), (0.650, 0.132)]],
            [&[(0.75, 0.0)], &[(0.5, 0.0), (0.5, 0.0)]],
        ),
        (gains(0.5, 0.9, 0.88), [&[(0.775, 0.058)], &[(0.822, 0.0), (0.589, 0.367)]], [&[(0.5, 0.0)], &[(0.5, 0.5)]]),
        (
            gains(0.5, 1.4, 0.88),
            [&[(0.846, 0.0), (0.454, 0.0)], &[(0.854, 0.0), (0.573, 0.627)]],
            [&[(0.5, 0.0)], &[(0.5, 0.5)]],
        ),
    ];
    let close = |pole: f64, expected: f64| (pole - expected).abs() < 0.000_6;
    for (gains, outer, inner) in table {
        for (timing, (outer, inner)) in TIMINGS.into_iter().zip(outer.into_iter().zip(inner)) {
            let loops = Loops::new(gains, timing);
            assert!(loops.stable);
            for (poles, expected) in [(&loops.outer, outer), (&loops.inner, inner)] {
                let upper: Vec<&Pole> = poles.iter().filter(|p| p.im >= 0.0).collect();
                assert_eq!(upper.len(), expected.len(), "{gains:?} {timing:?}: {poles:?}");
                for (pole, (re, im)) in upper.into_iter().zip(expected) {
                    assert!(close(pole.re, *re) && close(pole.im, *im), "{gains:?} {timing:?}: {poles:?}");
                }
            }
        }
    }
}

#[test]
fn the_limits_of_the_gain_are_known() {
    // zrr = 0.88: g < (2 zrr - 1) / zrr² with the extra delay, g < 4 / (1 + zrr) without; and kpi < 1 and < 2.
    let stable = |timing, kpi, krr, zrr| Loops::new(gains(kpi, krr, zrr), timing).stable;
    let [runs, model] = TIMINGS;
    assert!(stable(model, 0.5, 1.9628, 0.88) && !stable(model, 0.5, 1.9629, 0.88));
    assert!(stable(runs, 0.5, 4.255_319, 0.88) && !stable(runs, 0.5, 4.255_320, 0.88));
    assert!(stable(model, 0.999_999, 0.1, 0.88) && !stable(model, 1.0, 0.1, 0.88));
    assert!(stable(runs, 1.999_999, 0.1, 0.88) && !stable(runs, 2.0, 0.1, 0.88));
    assert!(!stable(model, 0.5, 0.1, 0.5) && stable(model, 0.5, 0.1, 0.6));
    assert!(!stable(runs, 0.5, 0.1, 1.0) && stable(runs, 0.5, 0.1, 0.999_999));
    // Dead beat, and both poles at 0.5.
    assert_eq!(Loops::new(gains(1.0, 2.0, 0.5), runs).settling, Some(2));
    assert_eq!(Loops::new(gains(1.0, 1.0, 0.75), runs).outer, [Pole { re: 0.5, im: 0.0 }; 2]);
    assert_eq!(Loops::new(gains(0.5, 0.9, 0.88), runs).settling, Some(16));
    assert_eq!(Loops::new(gains(0.5, 4.3, 0.88), runs).settling, None);
}

#[test]
fn the_exact_conditions_agree_with_the_roots() {
    let (mut stable, mut points) = (0, 0);
    let mut check = |what: &Characteristic, gains: Gains| {
        let radius = what.roots().iter().map(|p| p.radius()).fold(0.0, f64::max);
        for root in what.roots() {
            // It is a root: the polynomial is zero there.
            let (mut re, mut im) = (1.0, 0.0);
            for c in &what.0 {
                (re, im) = (re * root.re - im * root.im + *c as f64 / 1e18, re * root.im + im * root.re);
            }
            assert!(re.hypot(im) < 1e-6 * radius.max(1.0).powi(3), "{gains:?}: {root:?} of {what:?}");
        }
        if (radius - 1.0).abs() > 1e-9 {
            points += 1;
            stable += usize::from(radius < 1.0);
            assert_eq!(what.stable(), radius < 1.0, "{gains:?}: {what:?} has roots {:?}", what.roots());
        }
    };
    for kpi in (1..24).map(|i| f64::from(i) * 0.1) {
        for krr in (1..26).map(|i| f64::from(i) * 0.17) {
            for zrr in (0..13).map(|i| f64::from(i) * 0.09) {
                let gains = gains(kpi, krr, zrr);
                for timing in TIMINGS {
                    check(&gains.outer(timing), gains);
                    check(&gains.inner(timing), gains);
                }
                // The reader of a workload says the same of the gains.
                let [runs, _] = TIMINGS;
                let refused = stability::stable(gains.kpi, gains.krr, gains.zrr).is_err();
                assert_eq!(Loops::new(gains, runs).stable, !refused, "{gains:?}");
            }
        }
    }
    assert!(points > 20_000 && stable > 5_000 && stable < points, "{stable} of {points}");
}

/// Errors of the round after a step of its set point, from the policy in closed loop with the engine.
fn step_response(gains: Gains, rounds: usize) -> Vec<f64> {
    let wide = [("least", 0), ("most", 1_000_000_000), ("reinit", 2)];
    let given = [("kpi", gains.kpi), ("krr", gains.krr), ("zrr", gains.zrr), ("nominal", 4_000_000_000 / 100)];
    let policy = spec(&[&wide[..], &given[..]].concat());
    let tasks = vec![batch(500_000, 1), batch(300_000, 1), batch(200_000, 1)];
    let mut engine = Engine::new(System { tasks, ..System::new(CpuSet::first(1), policy) }).expect("a sound system");
    let mut records: Vec<Record> = Vec::new();
    let at = Time::ZERO;
    let skew = |task, by| Input::Skew { task: TaskId(task), by: Span::from_ms(by) };
    let _ = engine.step(at, &[skew(0, 3), skew(2, 2)], &mut records);
    let mut errors = Vec::new();
    while errors.len() < rounds {
        let due = engine.next_due().expect("a task runs");
        records.clear();
        let _ = engine.step(due, &[], &mut records);
        for record in &records {
            if let RecordKind::Round { set_point, measured, .. } = record.kind {
                errors.push((set_point - measured).ns() as f64);
            }
        }
    }
    errors
}

#[test]
fn the_policy_has_the_poles_that_are_computed_for_it() {
    for gains in [
        gains(0.25, 1.4, 0.88),
        gains(0.5, 0.9, 0.88),
        gains(0.5, 1.4, 0.88),
        gains(1.0, 1.0, 0.75),
        gains(1.0, 1.0, 0.5),
        gains(0.5, 4.2, 0.88),
        gains(0.5, 4.3, 0.88),
    ] {
        let errors = step_response(gains, 16);
        // e(k+2) + a e(k+1) + b e(k) = 0, fitted by least squares.
        let (mut xx, mut xy, mut yy, mut xz, mut yz) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for e in errors.windows(3) {
            (xx, xy, yy) = (xx + e[1] * e[1], xy + e[1] * e[0], yy + e[0] * e[0]);
            (xz, yz) = (xz - e[1] * e[2], yz - e[0] * e[2]);
        }
        let (a, b) = ((xz * yy - yz * xy) / (xx * yy - xy * xy), (yz * xx - xz * xy) / (xx * yy - xy * xy));
        let measured = Characteristic(vec![(a * 1e18) as i128, (b * 1e18) as i128]).roots();
        let computed = gains.outer(Timing::AsItRuns).roots();
        // A double root is where roots are most sensitive to coefficients: the square root of their error.
        for (m, c) in measured.iter().zip(&computed) {
            assert!((m.re - c.re).hypot(m.im - c.im) < 2e-3, "{gains:?}: measured {measured:?}, computed {computed:?}");
        }
        let grows = errors[15].abs() + errors[14].abs() > errors[1].abs() + errors[0].abs();
        assert_eq!(grows, !Loops::new(gains, Timing::AsItRuns).stable, "{gains:?}: {errors:?}");
    }
}

#[test]
fn shares_are_predicted_under_and_over_load() {
    let system = |tasks: Vec<Task>| System { tasks, ..System::new(CpuSet::first(1), spec(&[])) };
    let seen = |tasks: Vec<Task>| {
        let report = report(&system(tasks)).expect("ipi");
        let cpu = &report.cpus[0];
        let parts = cpu.tasks.iter().map(|t| (t.alpha, t.expected)).collect::<Vec<_>>();
        (cpu.declared, cpu.overloaded, parts)
    };
    // The thesis' example: three tasks of 20 % get a third each.
    let third = (333_333, 333_333);
    assert_eq!(seen(vec![batch(200_000, 1); 3]), (600_000, false, vec![third; 3]));
    // Overload with importance 1 to 3.
    let parts = vec![(250_000, 250_000), (750_000, 750_000)];
    assert_eq!(seen(vec![batch(600_000, 1), batch(600_000, 3)]), (1_200_000, true, parts));
    // A periodic task takes its need. Batch tasks share the rest by their parts.
    let parts = vec![(400_000, 200_000), (400_000, 533_333), (200_000, 266_667)];
    assert_eq!(seen(vec![periodic(10, 2), batch(200_000, 1), batch(100_000, 1)]), (500_000, false, parts));
    // In overload an important task is still served no more than it needs: 0.6 of it, and the rest by 1 to 4.
    let tasks = vec![Task { importance: 1000, ..periodic(10, 6) }, batch(100_000, 1), batch(400_000, 1)];
    let (declared, overloaded, parts) = seen(tasks);
    assert_eq!((declared, overloaded, parts[0].1, parts[1].1, parts[2].1), (1_100_000, true, 600_000, 80_000, 320_000));
    // Nothing is important: alike.
    let parts = vec![(500_000, 500_000); 2];
    assert_eq!(seen(vec![batch(700_000, 0), batch(600_000, 0)]), (1_300_000, true, parts));
}

#[test]
fn the_report_is_for_this_policy_only_and_reads_well() {
    let tasks = vec![batch(500_000, 1), batch(300_000, 1), batch(200_000, 1)];
    let edf = PolicySpec::from_name("edf").expect("edf");
    assert_eq!(report(&System { tasks: tasks.clone(), ..System::new(CpuSet::first(1), edf) }), None);
    let system = |settings| System { tasks: tasks.clone(), ..System::new(CpuSet::first(1), spec(settings)) };
    let found = report(&system(&[])).expect("ipi");
    assert!(found.stable());
    assert_eq!(found.cpus[0].round, Span::from_ms(12));
    assert_eq!(
        found.to_string(),
        "kpi 0.5, krr 0.9, zrr 0.88\n\
         as it runs: stable, poles of the round 0.775 ± 0.058i; of the bursts 0.500; an error is below 2 % after about 16 rounds\n\
         as modelled in the thesis: stable, poles of the round 0.822, 0.589 ± 0.367i; of the bursts 0.500 ± 0.500i; \
         an error is below 2 % after about 20 rounds"
    );
    let found = report(&system(&[("krr", 4_300_000)])).expect("ipi");
    assert!(!found.stable());
    assert!(found.to_string().contains("as it runs: UNSTABLE"), "{found}");
    let found = report(&system(&[("krr", 4_300_000), ("feedback", 1)])).expect("ipi");
    assert!(found.stable(), "an open loop cannot be unstable");
    let partitioned = PolicySpec::from_name("p-ipi").expect("p-ipi");
    let found = report(&System { tasks, ..System::new(CpuSet::first(2), partitioned) }).expect("ipi");
    let homes = found.cpus.iter().map(|c| c.tasks.iter().map(|t| t.task.0).collect::<Vec<_>>()).collect::<Vec<_>>();
    assert_eq!(homes, [vec![0], vec![1, 2]]);
}
