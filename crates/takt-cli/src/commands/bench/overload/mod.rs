//! `takt bench overload`: the utility that policies accrue at 130 % of their CPUs, beside the simulation with the supply of the same run.

mod supply;

use super::lab::{Claim, Lab, RunOptions};
use super::options::Common;
use crate::failure::Failure;
use crate::outcome::Outcome;
use serde_json::{Value, json};
use std::process::Command;
use supply::Supply;
use takt::report::Cell;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;

/// Measure the utility that DASA, NG-GUA and EDF accrue from real processes that need 130 % of their CPUs
///
/// Each run is compared with the simulation of the same tasks. CPU time that the processes lost is stolen time of the simulation.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Length of each run
    #[arg(long, default_value = "10s", value_parser = crate::input::duration)]
    duration: Span,
}

/// A periodic task; its deadline is its period. Microseconds.
struct Task {
    period: i64,
    runtime: i64,
    /// Utility of each job that is in time.
    utility: u32,
}

const fn task(period: i64, runtime: i64, utility: u32) -> Task {
    Task { period, runtime, utility }
}

/// U = 1.3. The periods have few common multiples, so a run has many phases between them.
const ONE: [Task; 6] = [
    task(20_000, 5_000, 3),
    task(23_000, 6_900, 12),
    task(31_000, 7_750, 2),
    task(41_000, 8_200, 8),
    task(59_000, 11_800, 5),
    task(73_000, 7_300, 9),
];
/// U = 2.6.
const TWO: [Task; 10] = [
    task(20_000, 6_000, 3),
    task(23_000, 6_900, 12),
    task(27_000, 5_400, 4),
    task(31_000, 9_300, 2),
    task(37_000, 11_100, 6),
    task(41_000, 8_200, 8),
    task(47_000, 14_100, 5),
    task(53_000, 10_600, 10),
    task(59_000, 17_700, 7),
    task(73_000, 14_600, 9),
];

/// How far the accrued utility may be from the simulated one, per cent.
const TOLERANCE: i64 = 5;
/// Below this part of their CPUs the processes were disturbed too much for a simulation whose supply is even. Per cent.
const SUPPLIED: i64 = 90;

/// A set of tasks under policies; the first is compared with the last, which is EDF.
struct Set {
    name: &'static str,
    cpus: CpuSet,
    tasks: &'static [Task],
    /// As in a workload.
    realtime: &'static str,
    variants: [Variant; 2],
}

struct Variant {
    policy: &'static str,
    rounds: Vec<Round>,
}

/// A run, and its simulation.
struct Round {
    supply: Supply,
    real: Jobs,
    simulated: Jobs,
}

/// Counts of jobs, and their accrued utility.
#[derive(Clone, Copy, Default)]
struct Jobs {
    accrued: i64,
    released: i64,
    met: i64,
    missed: i64,
    aborted: i64,
}

impl Jobs {
    fn of(summary: &Value) -> Jobs {
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        let jobs = |key: &str| number(&summary["jobs"][key]);
        Jobs {
            accrued: number(&summary["utility"]["accrued"]),
            released: jobs("released"),
            met: jobs("met"),
            missed: jobs("missed"),
            aborted: jobs("aborted"),
        }
    }

    fn json(&self) -> Value {
        let Jobs { accrued, released, met, missed, aborted } = self;
        json!({"accrued": accrued, "released": released, "met": met, "missed": missed, "aborted": aborted})
    }
}

impl Variant {
    fn sum(&self, of: impl Fn(&Round) -> i64) -> i64 {
        self.rounds.iter().map(of).sum()
    }

    fn supply(&self) -> Supply {
        self.rounds.iter().fold(Supply::default(), |sum, round| sum + round.supply)
    }

    /// Accrued utility of the processes as a part of the simulated one, per mille.
    fn ratio(&self) -> i64 {
        self.sum(|r| r.real.accrued) * 1000 / self.sum(|r| r.simulated.accrued).max(1)
    }

    fn row(&self) -> Vec<Cell> {
        let sums = [
            self.sum(|r| r.real.met),
            self.sum(|r| r.simulated.met),
            self.sum(|r| r.real.missed),
            self.sum(|r| r.simulated.missed),
            self.sum(|r| r.real.aborted),
            self.sum(|r| r.simulated.aborted),
        ];
        let accrued = [self.sum(|r| r.real.accrued), self.sum(|r| r.simulated.accrued)].map(|n| n.to_string());
        let parts = [self.policy.to_owned(), part(self.supply().per_mille())];
        let cells = parts.into_iter().chain(accrued).chain([part(self.ratio())]);
        cells.chain(sums.map(|n| n.to_string())).map(Cell::from).collect()
    }

    fn json(&self) -> Value {
        let round = |r: &Round| {
            let (held, used) = (r.supply.held.ns(), r.supply.used.ns());
            json!({"held_ns": held, "used_ns": used, "real": r.real.json(), "simulated": r.simulated.json()})
        };
        json!({"policy": self.policy, "supply_per_mille": self.supply().per_mille(), "ratio_per_mille": self.ratio(),
               "rounds": self.rounds.iter().map(round).collect::<Vec<_>>()})
    }
}

impl Set {
    /// The workload; stolen time is a key of the simulation alone.
    fn workload(&self, lab: &Lab, stolen: &str) -> String {
        let Set { cpus, realtime, .. } = self;
        let mut yaml =
            format!("cpus: \"{cpus}\"\nrealtime: {realtime}\nlate: abort\ninit_timeout: 30s\n{stolen}tasks:\n");
        for Task { period, runtime, utility } in self.tasks {
            let cmd = lab.cmd(&lab.own(&["burn", "--init", "1ms", "--runtime", &format!("{runtime}us")]));
            yaml += &format!(
                "  - {{name: t{period}, period: {period}us, runtime: {runtime}us, utility: {utility}, init: yes, on_abort: signal, \
                 cmd: {cmd}}}\n"
            );
        }
        yaml
    }

    fn round(&self, lab: &Lab, policy: &'static str, duration: Span) -> Result<Round, Failure> {
        let options = RunOptions { policy: Some(policy), duration: Some(duration), power: None };
        let (file, trace) = (lab.workload(&self.workload(lab, ""))?, lab.path("jsonl"));
        let takt = lab.takt_run(&file, &trace, options);
        let (run, trace) = lab.traced(ahead(lab, &takt), &trace)?;
        let supply = Supply::of(&run.json, &trace);
        let file = lab.workload(&self.workload(lab, &supply.stolen()))?;
        let simulated = lab.simulate(&file, options)?;
        Ok(Round { supply, real: Jobs::of(&run.json), simulated: Jobs::of(&simulated) })
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let heading = [
            "policy",
            "supply",
            "accrued",
            "simulated",
            "ratio",
            "met",
            "simulated",
            "missed",
            "simulated",
            "aborted",
            "simulated",
        ];
        let heading = heading.map(Cell::from).to_vec();
        std::iter::once(heading).chain(self.variants.iter().map(Variant::row)).collect()
    }

    fn claims(&self) -> [Claim; 2] {
        let [best, edf] = &self.variants;
        let [most, least] = [best, edf].map(|variant| variant.sum(|r| r.real.accrued));
        let supplied = |variant: &Variant| variant.supply().per_mille() >= SUPPLIED * 10;
        let off = (best.ratio() - 1000).abs();
        [
            Claim {
                what: format!("{}: accrued by {}, beside the simulation", self.name, best.policy),
                measured: part(best.ratio()).into(),
                limit: vec![format!("{TOLERANCE} % from 100 %").into()],
                holds: supplied(best).then_some(off <= TOLERANCE * 10),
            },
            Claim {
                what: format!("{}: accrued by {}, which is less than that of {}", self.name, edf.policy, best.policy),
                measured: least.to_string().into(),
                limit: vec![format!("below {most}").into()],
                holds: (supplied(best) && supplied(edf)).then_some(least < most),
            },
        ]
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "cpus": self.cpus.to_string(), "realtime": self.realtime,
               "policies": self.variants.iter().map(Variant::json).collect::<Vec<_>>()})
    }
}

/// Per mille as per cent.
fn part(per_mille: i64) -> String {
    format!("{}.{} %", per_mille / 1000 * 100 + per_mille % 1000 / 10, per_mille % 10)
}

/// The same command in a session of its own, before all other processes of the ordinary class.
fn ahead(lab: &Lab, command: &Command) -> Command {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = lab.probe(&[&["ahead".as_ref(), "--".as_ref()], &words.collect::<Vec<_>>()[..]].concat());
    let mut ahead = Command::new(&words[0]);
    ahead.args(&words[1..]).stdin(std::process::Stdio::null());
    ahead
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("overload", &args.common)?;
    let duration = if lab.session.quick { Span::from_secs(2) } else { args.duration };
    let mut sets = sets(&lab);
    for round in 1..=lab.session.rounds {
        for set in &mut sets {
            for index in 0..set.variants.len() {
                let policy = set.variants[index].policy;
                lab.session.round(round, &format!("{}, {policy}", set.name));
                let done = set.round(&lab, policy, duration)?;
                set.variants[index].rounds.push(done);
            }
        }
    }
    let settings = format!(
        "{duration} per run, sums over the rounds; late jobs are aborted; supply: CPU time that the processes used of the time for which they had \
         a CPU"
    );
    let heading = |set: &Set| {
        let class = if set.realtime == "yes" { "SCHED_FIFO" } else { "SCHED_OTHER, nice -20" };
        format!("{}; CPU {}; processes of class {class}", set.name, set.cpus)
    };
    let tables: Vec<_> = sets.iter().map(|set| (heading(set), set.rows())).collect();
    let claims: Vec<_> = sets.iter().flat_map(Set::claims).collect();
    let results = json!({"duration_ns": duration.ns(), "sets": sets.iter().map(Set::json).collect::<Vec<_>>()});
    lab.show(&settings, &tables, &claims, &results)
}

/// The sets that the machine has CPUs for.
fn sets(lab: &Lab) -> Vec<Set> {
    let variant = |policy| Variant { policy, rounds: Vec::new() };
    let variants = |best, edf| [variant(best), variant(edf)];
    let cpus = CpuSet::single(lab.cpu);
    // Real-time processes of this set leave the other CPUs to everything else. On all CPUs they would keep the machine from its user.
    let one = Set { name: "U = 1.3", cpus, tasks: &ONE, realtime: "yes", variants: variants("dasa", "edf") };
    let mut sets = vec![one];
    if let Some(other) = lab.others.iter().next() {
        let cpus = cpus.union(&CpuSet::single(other));
        sets.push(Set { name: "U = 2.6", cpus, tasks: &TWO, realtime: "no", variants: variants("ng-gua", "g-edf") });
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_need_130_per_cent_of_their_cpus() {
        let per_mille = |set: &[Task]| set.iter().map(|t| t.runtime * 1000 / t.period).sum::<i64>();
        assert_eq!((per_mille(&ONE), per_mille(&TWO)), (1300, 2600));
    }

    #[test]
    fn a_part_is_written_in_per_cent() {
        assert_eq!([0, 9, 951, 1000, 1049].map(part), ["0.0 %", "0.9 %", "95.1 %", "100.0 %", "104.9 %"]);
    }

    #[test]
    fn limits_are_judged_by_the_supply() {
        let jobs = |accrued| Jobs { accrued, ..Jobs::default() };
        let variant = |policy, used, accrued| {
            let supply = Supply { held: Span::from_ms(1000), used: Span::from_ms(used) };
            Variant { policy, rounds: vec![Round { supply, real: jobs(accrued), simulated: jobs(1000) }] }
        };
        let holds = |used, [best, edf]: [i64; 2]| {
            let variants = [variant("dasa", used, best), variant("edf", 950, edf)];
            let set = Set { name: "", cpus: CpuSet::single(0), tasks: &ONE, realtime: "no", variants };
            set.claims().map(|claim| claim.holds)
        };
        assert_eq!(holds(950, [951, 700]), [Some(true); 2]);
        assert_eq!(holds(950, [949, 949]), [Some(false); 2]);
        assert_eq!(holds(950, [1051, 1000]), [Some(false), Some(true)]);
        assert_eq!(holds(899, [500, 700]), [None; 2]);
    }
}
