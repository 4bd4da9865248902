//! The points of an experiment: total utilisations or loads, in millionths.

use takt::generate::total;

/// In millionths, ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Points(pub(super) Vec<u64>);

/// No experiment has more points.
const POINTS_MAX: u64 = 10_000;

/// A list with commas, or a range with a step.
pub(super) fn points(text: &str) -> Result<Points, String> {
    let mut points = match text.split_once("..") {
        None => text.split(',').map(|p| total(p.trim())).collect::<Result<Vec<u64>, _>>()?,
        Some((low, rest)) => {
            let (high, step) = rest.split_once(':').ok_or("a range needs a step, as in `2.0..4.0:0.2`")?;
            let (low, high, step) = (total(low)?, total(high)?, total(step)?);
            if low > high {
                return Err("the range is upside down".into());
            }
            if (high - low) / step >= POINTS_MAX {
                return Err(format!("more than {POINTS_MAX} points"));
            }
            (low..=high).step_by(step as usize).collect()
        }
    };
    points.sort_unstable();
    if let Some(twice) = points.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("{} is there twice", ratio(twice[0])));
    }
    Ok(Points(points))
}

/// Millionths without useless digits, with at least one decimal.
pub(super) fn ratio(millionths: u64) -> String {
    let text = takt::report::decimal(millionths.into());
    if text.contains('.') { text } else { text + ".0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written() {
        assert_eq!((total("3.2"), total("4"), total("0.000001")), (Ok(3_200_000), Ok(4_000_000), Ok(1)));
        let percents = ["130%", "5%", "99.9999%", "100000%"].map(|text| total(text).unwrap());
        assert_eq!(percents, [1_300_000, 50_000, 999_999, 1_000_000_000]);
        for wrong in
            ["", "-1", "0", "1.0000001", "1001", "a", "1,5", ".", "%", "0%", "-1%", "1%%", "1.00001%", "100001%"]
        {
            assert!(total(wrong).is_err(), "{wrong}");
        }
        assert_eq!((ratio(2_000_000), ratio(3_250_000), ratio(1)), ("2.0".into(), "3.25".into(), "0.000001".into()));
    }

    #[test]
    fn points_are_a_list_or_a_range() {
        assert_eq!(points("3,2.5").unwrap().0, [2_500_000, 3_000_000]);
        assert_eq!(points("50%..150%:50%").unwrap().0, [500_000, 1_000_000, 1_500_000]);
        assert_eq!(points("3,2.5, 3.0"), Err("3.0 is there twice".into()));
        assert_eq!(points("2.0..2.5:0.2").unwrap().0, [2_000_000, 2_200_000, 2_400_000]);
        for wrong in ["", "2..4", "4..2:0.1", "1..1000:0.000001", "2..4:0", "a..b:c"] {
            assert!(points(wrong).is_err(), "{wrong}");
        }
    }
}
