//! One CPU: schedules by hand.

use super::*;

/// Everyone wants more than there is: A (3, deadline 4, utility 3), B (3, 5, 9), C (2, 7, 4), all at 0.
fn overload() -> Vec<Task> {
    vec![worth(3, once(0, 3, 4)), worth(9, once(0, 3, 5)), worth(4, once(0, 2, 7))]
}

#[track_caller]
fn earns(told: &Told, chart: &str, missed: &str, units: (u128, u128)) {
    expect(told, chart, missed);
    assert_eq!(accrued(told), units);
}

#[test]
fn edf_earns_little_under_overload() {
    earns(&tell(system(1, "edf", overload()), 20), "a0-3 b3-6 c6-8", "bc", (3, 16));
    let aborts = System { late: Late::Abort, ..system(1, "edf", overload()) };
    earns(&tell(aborts, 20), "a0-3 b3-5x c5-7", "b", (7, 16));
}

#[test]
fn dasa_gives_up_what_is_worth_least_for_its_time() {
    let aborts = System { late: Late::Abort, ..system(1, "dasa-nd", overload()) };
    earns(&tell(aborts, 20), "b0-3 c3-5", "a", (13, 16));
}
