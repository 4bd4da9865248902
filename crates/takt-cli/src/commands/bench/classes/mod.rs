//! `takt bench classes`: periodic sets under Takt's partitioned EDF and under the kernel's classes, beside stress.

mod judge;
mod steal;

use super::figures::cell;
use super::lab::{Child, Claim, Lab, RunOptions};
use super::options::Common;
use crate::failure::Failure;
use crate::outcome::Outcome;
use judge::Miss;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::process::{Command, Stdio};
use steal::Sampler;
use takt::report::Cell;
use takt_core::cpus::CpuSet;
use takt_core::model::TaskId;
use takt_core::record::JobId;
use takt_core::time::{Span, Time};

/// Measure periodic sets under partitioned EDF and under the kernel's classes, with stress on all CPUs
///
/// Each miss is judged: its tardiness must not exceed the scheduler's lateness and the steal that were recorded in its busy period. A job that the
/// simulation misses, too, is not judged.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Length of each run
    #[arg(long, default_value = "30s", value_parser = crate::input::duration)]
    duration: Span,
    /// Let each job sleep in its middle, for as long as it works
    #[arg(long)]
    sleeps: bool,
}

/// A periodic task; its deadline is its period. Microseconds.
struct Task {
    period: i64,
    runtime: i64,
}

const fn task(period: i64, runtime: i64) -> Task {
    Task { period, runtime }
}

/// U = 0.85.
const ONE: [Task; 5] =
    [task(10_000, 2_000), task(20_000, 4_000), task(40_000, 7_000), task(50_000, 8_000), task(100_000, 11_500)];
/// U = 0.75 on each of two CPUs.
const TWO: [&[Task]; 2] = [
    &[task(10_000, 2_000), task(25_000, 5_000), task(50_000, 8_000), task(100_000, 19_000)],
    &[task(15_000, 3_000), task(30_000, 6_000), task(60_000, 9_000), task(100_000, 20_000)],
];

/// Busy processes for each CPU.
const STRESS: usize = 2;
/// The lowest priority of a rate-monotonic order in the class FIFO.
const LOWEST: usize = 10;

/// The scheduler of the set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The partitioned EDF, with this `dispatch`.
    Takt(&'static str),
    Deadline,
    Fifo,
    Fair,
}

/// In the order of the tables, with the key for programs. Two dispatchers differ most where jobs sleep.
const BY: [(By, &str, &str); 5] = [
    (By::Takt("freeze"), "takt_p_edf", "takt p-edf"),
    (By::Takt("rank"), "takt_p_edf_rank", "takt p-edf, by rank"),
    (By::Deadline, "deadline", "SCHED_DEADLINE"),
    (By::Fifo, "fifo_rm", "SCHED_FIFO by RM"),
    (By::Fair, "other", "SCHED_OTHER"),
];

/// A set of tasks, in parts that have a CPU each.
struct Set {
    name: String,
    parts: Vec<(usize, &'static [Task])>,
    /// Each job sleeps in its middle.
    sleeps: bool,
    /// The jobs of the simulation, and those of them that miss.
    simulated: (i64, HashSet<(TaskId, JobId)>),
    results: Vec<Vec<Round>>,
}

/// The result of one run.
struct Round {
    jobs: i64,
    missed: i64,
    misses: Vec<Miss>,
    latency_p99: i64,
    latency_max: i64,
    /// The class of Takt's scheduler.
    scheduler: String,
}

impl Set {
    fn cpus(&self) -> CpuSet {
        self.parts.iter().map(|(cpu, _)| *cpu).collect()
    }

    /// The workload with all tasks scheduled `by`.
    fn workload(&self, lab: &Lab, by: By) -> String {
        let mut yaml = format!("policy: p-edf\ncpus: {}\nrealtime: yes\ninit_timeout: 30s\n", self.cpus());
        if let By::Takt(dispatch) = by {
            yaml += &format!("dispatch: {dispatch}\n");
        }
        yaml += "tasks:\n";
        for (cpu, tasks) in &self.parts {
            for (rank, Task { period, runtime }) in tasks.iter().enumerate() {
                let steps = format!("run {0}us, sleep {runtime}us, run {0}us", runtime / 2);
                let work = match self.sleeps {
                    true => ["--steps", &steps],
                    false => ["--runtime", &format!("{runtime}us")],
                };
                let cmd = lab.cmd(&lab.own(&[&["burn", "--init", "1ms"][..], &work].concat()));
                let steps = if self.sleeps { format!(", steps: [{steps}]") } else { String::new() };
                // The kernel throttles a job at its reserved runtime, which also pays for the end of the job before. More would leave
                // no reservation for the scheduler.
                let declared = if by == By::Deadline { runtime * 103 / 100 + 100 } else { *runtime };
                let class = match by {
                    By::Takt(_) => format!("cpu: {cpu}"),
                    By::Deadline => "class: deadline".to_owned(),
                    // The tasks are in the order of their periods.
                    By::Fifo => format!("cpu: {cpu}, class: fifo={}", LOWEST + tasks.len() - rank),
                    By::Fair => format!("cpu: {cpu}, class: other"),
                };
                yaml += &format!(
                    "  - {{name: c{cpu}-t{period}, {class}, period: {period}us, runtime: {declared}us, init: yes, cmd: {cmd}{steps}}}\n"
                );
            }
        }
        yaml
    }

    /// The tasks that share CPUs, by number, and these CPUs.
    fn groups(&self, by: By, all: &CpuSet) -> Vec<(Vec<usize>, CpuSet)> {
        let count = self.parts.iter().map(|(_, tasks)| tasks.len()).sum();
        if by == By::Deadline {
            return vec![((0..count).collect(), *all)];
        }
        let mut first = 0;
        let group = |(cpu, tasks): &(usize, &'static [Task])| {
            let from = first;
            first += tasks.len();
            ((from..first).collect(), CpuSet::single(*cpu))
        };
        self.parts.iter().map(group).collect()
    }

    /// The jobs of a simulation that are missed, and how many it has.
    fn simulate(&self, lab: &Lab, duration: Span) -> Result<(i64, HashSet<(TaskId, JobId)>), Failure> {
        let file = lab.workload(&self.workload(lab, By::Takt("freeze")))?;
        let options = RunOptions { policy: None, duration: Some(duration), power: None };
        let (json, trace) = lab.traced_simulation(&file, options)?;
        let missed = self.groups(By::Fifo, &lab.all()).into_iter();
        let missed = missed.flat_map(|(tasks, _)| judge::misses(&trace, &tasks, false, |_| Span::ZERO));
        Ok((json["jobs"]["released"].as_i64().unwrap_or(0), missed.map(|miss| miss.job).collect()))
    }

    /// The misses that neither the machine nor the simulation explains.
    fn unexplained(&self, rounds: &[Round]) -> usize {
        let all = rounds.iter().flat_map(|round| &round.misses);
        all.filter(|miss| !miss.is_explained() && !self.simulated.1.contains(&miss.job)).count()
    }

    fn round(&self, lab: &Lab, by: By, duration: Span) -> Result<Round, Failure> {
        let file = lab.workload(&self.workload(lab, by))?;
        let groups = self.groups(by, &lab.all());
        let _stress = stress(lab)?;
        let samplers: Vec<Sampler> = groups.iter().map(|(_, cpus)| Sampler::start(*cpus)).collect();
        let run = lab.traced_run(&file, RunOptions { policy: None, duration: Some(duration), power: None });
        let samples: Vec<_> = samplers.into_iter().map(Sampler::finish).collect();
        let (run, trace) = run?;
        let mut misses = Vec::new();
        for ((tasks, _), samples) in groups.iter().zip(&samples) {
            let since = |at: Time| run.start + (at - Time::ZERO);
            let stolen = |(from, to)| samples.within(since(from), since(to));
            misses.extend(judge::misses(&trace, tasks, by == By::Takt("rank"), stolen));
        }
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        Ok(Round {
            jobs: number(&run.json["jobs"]["released"]),
            missed: number(&run.json["jobs"]["missed"]),
            misses,
            latency_p99: number(&run.json["lateness_ns"]["p99"]),
            latency_max: number(&run.json["lateness_ns"]["max"]),
            scheduler: run.json["scheduler_class"].as_str().unwrap_or_default().to_owned(),
        })
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let heading = ["", "jobs", "missed", "unexplained", "tardiness", "recorded", "latency p99", "max", "scheduler"];
        let mut rows = vec![heading.map(Cell::from).to_vec()];
        for ((_, _, name), rounds) in BY.iter().zip(&self.results) {
            let sum = |of: fn(&Round) -> i64| rounds.iter().map(of).sum::<i64>().to_string();
            let most = |of: fn(&Round) -> i64| cell(rounds.iter().map(of).max().unwrap_or(0));
            let mut row: Vec<Cell> = vec![(*name).into(), sum(|r| r.jobs).into(), sum(|r| r.missed).into()];
            row.push(self.unexplained(rounds).to_string().into());
            row.extend(match self.worst(rounds) {
                Some(miss) => [Cell::Measured(miss.tardiness), Cell::Measured(miss.recorded)],
                None => ["-", "-"].map(Cell::from),
            });
            row.extend([most(|r| r.latency_p99), most(|r| r.latency_max)]);
            row.push(rounds.last().map_or_else(String::new, |round| round.scheduler.clone()).into());
            rows.push(row);
        }
        let (jobs, missed) = &self.simulated;
        let mut simulated =
            ["simulated p-edf".to_owned(), jobs.to_string(), missed.len().to_string()].map(Cell::from).to_vec();
        simulated.resize(rows[0].len(), "-".into());
        rows.push(simulated);
        rows
    }

    /// The miss with the largest tardiness beyond what was recorded. Jobs that miss in the simulation are left out.
    fn worst<'a>(&self, rounds: &'a [Round]) -> Option<&'a Miss> {
        let own = rounds.iter().flat_map(|round| &round.misses).filter(|miss| !self.simulated.1.contains(&miss.job));
        own.max_by_key(|miss| miss.tardiness - miss.recorded)
    }

    fn claims(&self) -> impl Iterator<Item = Claim> {
        let of_takt = BY.iter().zip(&self.results).filter(|((by, ..), _)| matches!(by, By::Takt(_)));
        of_takt.map(|((_, _, name), rounds)| {
            let unexplained = self.unexplained(rounds);
            Claim {
                what: format!("{}, {name}: unexplained misses", self.name),
                measured: unexplained.to_string().into(),
                limit: vec!["0".into()],
                holds: Some(unexplained == 0),
            }
        })
    }

    fn json(&self) -> Value {
        let miss = |m: &Miss| json!({"tardiness_ns": m.tardiness.ns(), "recorded_ns": m.recorded.ns(), "explained": m.is_explained()});
        let round = |r: &Round| {
            json!({"jobs": r.jobs, "missed": r.missed, "misses": r.misses.iter().map(miss).collect::<Vec<_>>(),
                   "scheduler_class": r.scheduler, "latency_ns": {"p99": r.latency_p99, "max": r.latency_max}})
        };
        let variant = |((_, key, _), rounds): (&(By, &str, &str), &Vec<Round>)| json!({"name": key, "unexplained": self.unexplained(rounds), "rounds": rounds.iter().map(round).collect::<Vec<_>>()});
        json!({"name": self.name, "cpus": self.cpus().to_string(), "sleeps": self.sleeps,
               "simulated": {"jobs": self.simulated.0, "missed": self.simulated.1.len()},
               "variants": BY.iter().zip(&self.results).map(variant).collect::<Vec<_>>()})
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let lab = Lab::new("classes", &args.common)?;
    let duration = if lab.session.quick { Span::from_ms(600) } else { args.duration };
    let mut sets = sets(&lab, args.sleeps);
    for set in &mut sets {
        set.simulated = set.simulate(&lab, duration)?;
    }
    for round in 1..=lab.session.rounds {
        for set in &mut sets {
            for (index, (by, _, name)) in BY.into_iter().enumerate() {
                lab.session.round(round, &format!("{}, {name}", set.name));
                let done = set.round(&lab, by, duration)?;
                set.results[index].push(done);
            }
        }
    }
    let settings = format!(
        "{duration} per run, {STRESS} busy processes for each CPU; tardiness and recorded disturbance are those of the worst miss; \
         SCHED_DEADLINE has CPU {}",
        lab.all()
    );
    let heading = |set: &Set| format!("{}; CPU {}", set.name, set.cpus());
    let tables: Vec<_> = sets.iter().map(|set| (heading(set), set.rows())).collect();
    let claims: Vec<_> = sets.iter().flat_map(Set::claims).collect();
    let results = json!({"duration_ns": duration.ns(), "sets": sets.iter().map(Set::json).collect::<Vec<_>>()});
    lab.show(&settings, &tables, &claims, &results)
}

/// The sets that the machine has CPUs for.
fn sets(lab: &Lab, sleeps: bool) -> Vec<Set> {
    let results = || BY.iter().map(|_| Vec::new()).collect();
    let set = |name: &str, parts| {
        let name = if sleeps { format!("{name}, jobs that sleep") } else { name.to_owned() };
        Set { name, parts, sleeps, simulated: (0, HashSet::new()), results: results() }
    };
    let mut sets = vec![set("U = 0.85", vec![(lab.cpu, &ONE[..])])];
    if let Some(other) = lab.others.iter().next() {
        sets.push(set("U = 1.5", [other, lab.cpu].into_iter().zip(TWO).collect()));
    }
    sets
}

/// Busy processes on all CPUs, until they go out of scope.
fn stress(lab: &Lab) -> Result<Vec<Child>, Failure> {
    let cpus = lab.all();
    let words: Vec<String> = std::iter::once("hog".to_string()).chain(cpus.iter().map(|cpu| cpu.to_string())).collect();
    let args = lab.probe(&words);
    let hog = |_| Command::new(&args[0]).args(&args[1..]).stdin(Stdio::null()).spawn().map(Child);
    Ok((0..STRESS * cpus.len()).map(hog).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_have_the_requested_utilisation() {
        let per_mille = |set: &[Task]| set.iter().map(|t| t.runtime * 1000 / t.period).sum::<i64>();
        assert_eq!((per_mille(&ONE), TWO.map(per_mille)), (850, [750, 750]));
        for set in [&ONE[..], TWO[0], TWO[1]] {
            assert!(set.is_sorted_by_key(|t| t.period), "priorities are those of the place in the set");
            assert!(set.iter().all(|t| (10_000..=100_000).contains(&t.period)));
        }
    }
}
