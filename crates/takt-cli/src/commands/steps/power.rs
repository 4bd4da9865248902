//! The power policy of a recorded run, with the machine that it managed: a replay derives the same requests from them.

use serde_json::{Value, json};
use takt_core::power::{Demands, FrequencyDomain, OperatingPoint, Platform, PowerSpec};
use takt_core::work::Speed;
use takt_workload::{parse_cpus, power_from_text, power_text};

/// A power policy as it was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Recorded {
    pub(crate) spec: PowerSpec,
    pub(crate) platform: Platform,
    pub(crate) demands: Demands,
}

impl Recorded {
    /// For the first line of a record.
    pub(crate) fn to_json(&self) -> Value {
        let point = |point: &OperatingPoint| json!([point.khz, point.speed.millionths()]);
        let domain = |domain: &FrequencyDomain| json!({"name": domain.name, "cpus": domain.cpus.to_string(), "points": domain.points.iter().map(point).collect::<Vec<_>>()});
        json!({"policy": power_text(&self.spec), "clusters": self.platform.domains.iter().map(domain).collect::<Vec<_>>(),
               "zones": self.platform.zones, "slices": self.demands.slices, "tasks": self.demands.tasks})
    }

    /// `None` for what is no power policy of this program, or no machine.
    pub(crate) fn from_json(value: &Value) -> Option<Recorded> {
        let point = |value: &Value| {
            let speed = Speed::from_millionths(u32::try_from(value[1].as_u64()?).ok()?)?;
            Some(OperatingPoint { khz: u32::try_from(value[0].as_u64()?).ok()?, speed })
        };
        let domain = |value: &Value| {
            let points: Vec<OperatingPoint> = value["points"].as_array()?.iter().map(point).collect::<Option<_>>()?;
            let sound = !points.is_empty() && points.is_sorted_by(|a, b| a.khz < b.khz);
            let (name, cpus) = (value["name"].as_str()?.to_owned(), parse_cpus(value["cpus"].as_str()?).ok()?);
            sound.then_some(FrequencyDomain { name, cpus, points })
        };
        let khz = |value: &Value| match value.is_null() {
            true => Some(None),
            false => u32::try_from(value.as_u64()?).ok().map(Some),
        };
        let list = |value: &Value| value.as_array()?.iter().map(khz).collect::<Option<Vec<_>>>();
        let zone = |value: &Value| Some(value.as_str()?.to_owned());
        Some(Recorded {
            spec: power_from_text(value["policy"].as_str()?).ok()?,
            platform: Platform {
                domains: value["clusters"].as_array()?.iter().map(domain).collect::<Option<_>>()?,
                zones: value["zones"].as_array()?.iter().map(zone).collect::<Option<_>>()?,
                simulated: false,
            },
            demands: Demands {
                slices: value["slices"].as_array()?.iter().map(list).collect::<Option<_>>()?,
                tasks: list(&value["tasks"])?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::cpus::CpuSet;

    #[test]
    fn a_power_policy_survives_the_file() {
        let point =
            |khz, millionths| OperatingPoint { khz, speed: Speed::from_millionths(millionths).expect("not zero") };
        let recorded = Recorded {
            spec: power_from_text("skip_be:soc,60,2").expect("a power policy"),
            platform: Platform {
                domains: vec![FrequencyDomain {
                    name: "policy0".into(),
                    cpus: CpuSet::first(2),
                    points: vec![point(600_000, 500_000), point(1_200_000, 1_000_000)],
                }],
                zones: vec!["soc".into()],
                simulated: false,
            },
            demands: Demands { slices: vec![vec![None, Some(600_000)]], tasks: vec![Some(1_200_000), None] },
        };
        let mut json = recorded.to_json();
        assert_eq!(Recorded::from_json(&json).as_ref(), Some(&recorded));
        json["clusters"][0]["points"] = json!([[1, 1], [1, 1]]);
        assert_eq!(Recorded::from_json(&json), None);
    }
}
