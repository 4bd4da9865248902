//! The file of an experiment: settings, machine, and all samples.

use crate::agreement::Agreement;
use crate::explain::Explanation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of the format.
const FORMAT: &str = "takt-latency 1";

/// With fewer rounds an interval says nothing.
pub const MIN_ROUNDS: usize = 3;

/// One scenario with its samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: String,
    /// Its meaning in a few words.
    pub meaning: String,
    /// The lateness of each wake-up, in nanoseconds, a list for each round.
    pub rounds: Vec<Vec<i64>>,
    /// Time that the host of a virtual machine took from the CPU in each round, in nanoseconds.
    pub stolen: Vec<i64>,
    /// Why it was not measured.
    pub skipped: Option<String>,
    /// The worst samples with their causes, the worst first (`--explain`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<Worst>,
    /// How well it agrees with the kernel's trace (`--check-trace`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

/// A late sample with its causes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Worst {
    /// The round, from 1 on.
    pub round: usize,
    /// Its planned instant after the beginning of the experiment, in nanoseconds.
    pub at: i64,
    /// Why it was late.
    pub why: Explanation,
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.3} s: {}", self.at as f64 / 1e9, self.why.text)
    }
}

impl Scenario {
    /// A scenario that was not measured yet.
    #[must_use]
    pub fn new(name: &str, meaning: &str) -> Scenario {
        Scenario {
            name: name.into(),
            meaning: meaning.into(),
            rounds: Vec::new(),
            stolen: Vec::new(),
            skipped: None,
            worst: Vec::new(),
            agreement: None,
        }
    }

    /// Its name and the reason why it, or its rounds after some, were not measured; `None` if all were.
    #[must_use]
    pub fn unmeasured(&self) -> Option<String> {
        let why = self.skipped.as_ref()?;
        Some(match self.rounds.len() {
            0 => format!("{}: {why}", self.name),
            rounds => format!("{}, after round {rounds}: {why}", self.name),
        })
    }

    /// Whether it has enough rounds for confidence intervals.
    #[must_use]
    pub fn has_intervals(&self) -> bool {
        self.rounds.iter().filter(|round| !round.is_empty()).count() >= MIN_ROUNDS
    }
}

/// A whole experiment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Results {
    format: String,
    /// The description of the machine: kernel, processor, CPUs.
    pub machine: String,
    /// The measured task: period, method, CPU, priority.
    pub task: String,
    /// The load of scenarios under stress.
    pub stress: String,
    /// Samples above it are counted. Nanoseconds.
    pub limit: i64,
    /// The scenarios, in the order of the command line.
    pub scenarios: Vec<Scenario>,
    /// Remarks about the machine and the measurement.
    pub notes: Vec<String>,
}

/// A text is no file of an experiment.
#[derive(Debug)]
pub enum Unreadable {
    /// It is no JSON object of this form.
    Form(serde_json::Error),
    /// It is one of another version.
    Version(String),
    /// It has a lateness that no experiment has: the scenario, and the lateness in nanoseconds.
    Sample(String, i64),
}

/// No lateness, and no stolen time, is longer: some three years in nanoseconds.
const LONGEST: i64 = 100_000_000_000_000_000;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Form(e) => write!(f, "no results of `takt latency --output`: {e}"),
            Unreadable::Sample(scenario, ns) => write!(f, "`{scenario}` has a lateness of {ns} ns, which is none"),
            Unreadable::Version(found) => write!(f, "results in the format `{found}`, and not `{FORMAT}`"),
        }
    }
}

impl Results {
    /// Results without scenarios.
    #[must_use]
    pub fn new(machine: String, task: String, stress: String, limit: i64) -> Results {
        let (scenarios, notes) = (Vec::new(), Vec::new());
        Results { format: FORMAT.to_owned(), machine, task, stress, limit, scenarios, notes }
    }

    /// Reads [`Results::json`].
    ///
    /// # Errors
    /// The text is none.
    pub fn read(text: &str) -> Result<Results, Unreadable> {
        let results: Results = serde_json::from_str(text).map_err(Unreadable::Form)?;
        if results.format != FORMAT {
            return Err(Unreadable::Version(results.format));
        }
        for scenario in &results.scenarios {
            let mut times = scenario.rounds.iter().flatten().chain(&scenario.stolen);
            if let Some(wrong) = times.find(|ns| !(-LONGEST..=LONGEST).contains(*ns)) {
                return Err(Unreadable::Sample(scenario.name.clone(), *wrong));
            }
        }
        Ok(results)
    }

    /// The file's text.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// All samples as CSV: scenario, round, number, lateness in nanoseconds.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = String::from("scenario,round,sample,lateness_ns\n");
        for scenario in &self.scenarios {
            for (round, samples) in scenario.rounds.iter().enumerate() {
                for (sample, lateness) in samples.iter().enumerate() {
                    text += &format!("{},{},{sample},{lateness}\n", scenario.name, round + 1);
                }
            }
        }
        text
    }

    /// The number of samples in each microsecond of lateness as CSV: scenario, whole microseconds, samples. Microseconds without samples have no
    /// line. Negative lateness counts as the microsecond below it. O(samples · log microseconds).
    #[must_use]
    pub fn histogram(&self) -> String {
        let mut text = String::from("scenario,lateness_us,samples\n");
        for scenario in &self.scenarios {
            let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
            for lateness in scenario.rounds.iter().flatten() {
                *counts.entry(lateness.div_euclid(1000)).or_default() += 1;
            }
            for (us, count) in counts {
                text += &format!("{},{us},{count}\n", scenario.name);
            }
        }
        text
    }

    /// The scenarios that were compared with the kernel's trace.
    pub fn agreements(&self) -> impl Iterator<Item = (&Scenario, &Agreement)> {
        self.scenarios.iter().filter_map(|scenario| Some((scenario, scenario.agreement.as_ref()?)))
    }

    /// Scenarios that were measured.
    pub fn measured(&self) -> impl Iterator<Item = &Scenario> + Clone {
        self.scenarios.iter().filter(|scenario| scenario.rounds.iter().any(|round| !round.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_as_they_were_written() {
        let mut results = Results::new("m \"1\"".into(), "t".into(), "s".into(), 100_000);
        results.scenarios.push(Scenario {
            name: "idle".into(),
            meaning: "nothing else".into(),
            rounds: vec![vec![1, 2], vec![3]],
            stolen: vec![0, 5],
            skipped: None,
            worst: vec![Worst {
                round: 1,
                at: 12_345_000_000,
                why: Explanation { late: 2, parts: Vec::new(), text: "2 us late: x".into() },
            }],
            agreement: Some(Agreement { pairs: 3, ..Agreement::default() }),
        });
        assert_eq!(results.scenarios[0].worst[0].to_string(), "at 12.345 s: 2 us late: x");
        let text = results.json();
        assert_eq!(Results::read(&text).unwrap(), results);
        assert_eq!(results.csv().lines().last(), Some("idle,2,0,3"));
        results.scenarios[0].rounds = vec![vec![1999, 1000, -1], vec![3_000_000, 1500]];
        assert_eq!(results.histogram(), "scenario,lateness_us,samples\nidle,-1,1\nidle,1,3\nidle,3000,1\n");
        assert!(results.scenarios[0].unmeasured().is_none() && !results.scenarios[0].has_intervals());
        results.scenarios[0].skipped = Some("no right".into());
        assert_eq!(results.scenarios[0].unmeasured().unwrap(), "idle, after round 2: no right");
        results.scenarios[0].rounds.clear();
        assert_eq!(results.scenarios[0].unmeasured().unwrap(), "idle: no right");
        assert!(matches!(Results::read(&text.replace("latency 1", "latency 9")), Err(Unreadable::Version(_))));
        assert!(matches!(Results::read(&text[1..]), Err(Unreadable::Form(_))));
    }
}
