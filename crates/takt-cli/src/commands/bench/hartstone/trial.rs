//! One trial: one experiment under one policy from one set of phases, in virtual time.
//!
//! The whole series is one run of one engine. The border of an iteration is a list of mode changes
//! ([`Input::Retime`], [`Input::Enter`], [`Input::Leave`]), so jobs that are under way, the order of a round and
//! what a regulator remembers pass from one iteration to the next, as they do where the benchmark runs on a real kernel. As
//! in its task loop, a period is fixed when the job before it ends, and a load when the job begins.

use super::series::{EXTENDED, Experiment, Growth, ITERATION, OVERLOAD, RECOVERY, STEP, Set, WARM_UP};
use takt_core::cpus::CpuSet;
use takt_core::input::Input;
use takt_core::model::{Arrival, Backlog, Invalid, PolicySpec, System, Task, TaskId, Timing};
use takt_core::record::{Outcome, Record, RecordKind, Sink};
use takt_core::rng::draw_up_to;
use takt_core::scenario::{Costs, Scenario, Steal};
use takt_core::time::{Span, Time};

// Phases and the engine's own draws must not be the same numbers.
const PHASES: u64 = 0x5048_4153_4553;
/// The share of the benchmark's own thread, which starts the tasks and sleeps.
const MAIN: u32 = 50_000;

/// The machine that is simulated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) timing: Timing,
    pub(super) costs: Costs,
    /// Costs are no consumption ([`Scenario::metered`]).
    pub(super) metered: bool,
    pub(super) steal: Option<Steal>,
    /// The end of each burst is noticed so much later.
    pub(super) skew: Span,
    pub(super) seed: u64,
}

/// Everything that a trial depends on besides the set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub(super) machine: Machine,
    pub(super) policy: PolicySpec,
    pub(super) experiment: Experiment,
    /// The form with a transient overload.
    pub(super) extended: bool,
    /// In the extended form: the importances of the set instead of one for all.
    pub(super) weighted: bool,
    /// Number of the random phases; `None`: all tasks start together.
    pub(super) phase: Option<u32>,
}

/// The result of a trial.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Findings {
    /// The iteration in which the first miss was noticed; zero is the warm-up. `None` in the extended form, and when there was none.
    pub(super) iteration: Option<usize>,
    /// Changes of the running thread in that iteration, or per second of the extended form; the idle thread counts as one.
    pub(super) switches: u64,
    /// Misses by task until the end of that iteration, or of the extended form. Copies come after the set.
    pub(super) misses: Vec<u64>,
    /// Misses noticed before, during and after the overload.
    pub(super) parts: [u64; 3],
}

/// A stage of the series: from an instant on, the set has grown so far.
struct Stage {
    from: Time,
    growth: Growth,
}

impl Conditions {
    /// The warm-up, the stages after it, and the end of the run.
    fn stages(&self, set: &Set) -> (Vec<Stage>, Span) {
        let tick = self.machine.timing.tick;
        let warm_up = std::iter::once(Stage { from: Time::ZERO, growth: 0 });
        let at = |from: Span, growth| Stage { from: Time::ZERO + WARM_UP + from, growth };
        if self.extended {
            let (quiet, over) = set.levels(self.experiment, tick);
            let stages = [at(Span::ZERO, quiet), at(OVERLOAD, over), at(RECOVERY, quiet)];
            return (warm_up.chain(stages).collect(), WARM_UP + EXTENDED);
        }
        let count = set.iterations(self.experiment, tick);
        let iteration = |k: usize| at(ITERATION * (k as i64 - 1), k as Growth * STEP);
        (warm_up.chain((1..=count).map(iteration)).collect(), WARM_UP + ITERATION * count as i64)
    }

    /// The first release of a task after it has come: whole milliseconds, below its period. Copies begin when they come.
    fn offset(&self, task: usize, set: &Set, period: Span) -> Span {
        let milliseconds = (period.ns() / 1_000_000).max(1) as u64;
        let drawn = |n: u32| draw_up_to(milliseconds - 1, self.machine.seed ^ PHASES, u64::from(n), task as u64);
        Span::from_ms(self.phase.filter(|_| task < set.len()).map_or(0, drawn) as i64)
    }

    /// The system with every task that there will ever be, and what happens to it.
    fn system(&self, set: &Set, stages: &[Stage]) -> (System, Scenario) {
        let machine = &self.machine;
        let grown: Vec<Vec<Task>> =
            stages.iter().map(|s| set.grown(self.experiment, s.growth, machine.timing.tick)).collect();
        let most = grown.iter().max_by_key(|tasks| tasks.len()).map_or(&[][..], |tasks| tasks);
        let importances = set.importances(self.experiment, most.len());
        let described = |i: usize| {
            let task = grown[0].get(i).unwrap_or(&most[i]).clone();
            let period = task.arrival.period().unwrap_or(Span::MAX);
            let arrival = Arrival::Periodic { offset: self.offset(i, set, period), period };
            let importance = if self.extended && self.weighted { importances[i] } else { 1 };
            Task { arrival, importance, ..task }
        };
        let mut tasks: Vec<Task> = (0..most.len()).map(described).collect();
        // It counts for regulators that count threads, and has nothing to do. A policy that must know periods cannot have it.
        if self.policy.profile.needs.is_empty() {
            let arrival = Arrival::Listed { instants: Vec::new() };
            tasks.push(Task { arrival, share: Some(MAIN), ..Task::default() });
        }
        let ids = || (0..tasks.len() as u32).map(TaskId);
        let mut changes: Vec<(Time, Input)> = Vec::new();
        if machine.skew != Span::ZERO {
            changes.extend(ids().map(|task| (Time::ZERO, Input::Skew { task, by: machine.skew })));
        }
        let mut before: &[Task] = most;
        for (stage, now) in stages.iter().zip(&grown) {
            for (i, task) in ids().enumerate().take(most.len()) {
                let change = match (before.get(i), now.get(i)) {
                    (Some(_), None) => Input::Leave { task },
                    (None, Some(_)) => Input::Enter { task },
                    (Some(old), Some(new)) if old != new && stage.from > Time::ZERO => {
                        let period = new.arrival.period().unwrap_or(Span::MAX);
                        Input::Retime { task, period, deadline: new.deadline, runtime: new.runtime }
                    }
                    _ => continue,
                };
                changes.push((stage.from, change));
            }
            before = now;
        }
        let system = System {
            tasks,
            backlog: Backlog::Hartstone,
            timing: machine.timing,
            seed: machine.seed,
            ..System::new(CpuSet::first(1), self.policy)
        };
        let Machine { costs, metered, steal, .. } = *machine;
        (system, Scenario { costs, metered, steal, changes, ..Scenario::default() })
    }

    /// Carries the trial out.
    ///
    /// # Errors
    /// When the policy cannot schedule the set.
    pub(super) fn run(&self, set: &Set) -> Result<Findings, Invalid> {
        let (stages, length) = self.stages(set);
        let (system, scenario) = self.system(set, &stages);
        let watched = system.tasks.iter().filter(|t| t.deadline.is_some()).count();
        let mut watch = Watch::new(stages.iter().map(|s| s.from).collect(), watched, self.machine.timing.tick);
        let mut engine = takt::load::engine(system)?;
        takt_sim::simulate(&mut engine, &scenario, length, &mut watch, |_| ());
        debug_assert_eq!(watch.misses.iter().flatten().sum::<u64>(), engine.totals().missed);
        let sum = |stages: &[Vec<u64>]| -> Vec<u64> {
            (0..watched).map(|task| stages.iter().map(|stage| stage[task]).sum()).collect()
        };
        if self.extended {
            let part = |n: usize| watch.misses[n].iter().sum();
            return Ok(Findings {
                iteration: None,
                switches: per(EXTENDED, watch.switches[1..].iter().sum()),
                misses: sum(&watch.misses[1..]),
                parts: [part(1), part(2), part(3)],
            });
        }
        let first = watch.misses.iter().position(|stage| stage.iter().any(|n| *n > 0));
        let last = first.unwrap_or(stages.len() - 1);
        Ok(Findings {
            iteration: first,
            switches: per(if last == 0 { WARM_UP } else { ITERATION }, watch.switches[last]),
            misses: sum(&watch.misses[..=last]),
            parts: [0; 3],
        })
    }
}

/// So many in a span, per second.
fn per(span: Span, count: u64) -> u64 {
    count / (span.ns() / Span::from_secs(1).ns()).max(1) as u64
}

/// Counts by stage what the engine counts for the whole run.
struct Watch {
    borders: Vec<Time>,
    tick: Span,
    stage: usize,
    deadlines: Vec<Time>,
    last: Option<TaskId>,
    stopped: Option<Time>,
    switches: Vec<u64>,
    misses: Vec<Vec<u64>>,
}

impl Watch {
    fn new(borders: Vec<Time>, tasks: usize, tick: Span) -> Watch {
        Watch {
            tick,
            stage: 0,
            deadlines: vec![Time::MAX; tasks],
            last: None,
            stopped: None,
            switches: vec![0; borders.len()],
            misses: vec![vec![0; tasks]; borders.len()],
            borders,
        }
    }
}

impl Sink for Watch {
    fn record(&mut self, record: Record) {
        while self.borders.get(self.stage + 1).is_some_and(|border| *border <= record.at) {
            self.stage += 1;
        }
        match record.kind {
            RecordKind::Release { task, deadline, .. } => self.deadlines[task.index()] = deadline.unwrap_or(Time::MAX),
            RecordKind::Start { task, .. } => {
                let before = self.last.replace(task);
                let idle = self.stopped.take().is_some_and(|at| at < record.at);
                // To the idle thread and back, or from one task to another.
                self.switches[self.stage] += if idle { 2 } else { u64::from(before != Some(task)) };
            }
            RecordKind::Stop { .. } => self.stopped = Some(record.at),
            RecordKind::Finish { task, outcome, .. } => {
                let late = match outcome {
                    Outcome::Completed | Outcome::BudgetUsed | Outcome::Exited => {
                        record.at.round_down(self.tick) > self.deadlines[task.index()]
                    }
                    Outcome::Overrun | Outcome::Aborted | Outcome::Skipped => true,
                };
                self.misses[self.stage][task.index()] += u64::from(late);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(timing: Timing) -> Machine {
        Machine { timing, costs: Costs::default(), metered: false, steal: None, skew: Span::ZERO, seed: 1 }
    }

    fn trial(policy: &str, experiment: Experiment, extended: bool) -> Findings {
        let policy = takt_workload::policy_from_text(policy).expect("a policy");
        let timing = Timing { tick: Span::from_ms(1), ..Timing::default() };
        let conditions =
            Conditions { machine: machine(timing), policy, experiment, extended, weighted: true, phase: None };
        conditions.run(&Set::baseline()).expect("a set that EDF can schedule")
    }

    #[test]
    fn without_costs_edf_meets_every_deadline_until_there_is_too_much() {
        // At 16 iterations utilisation is 1.04; 27 iterations have a period of 4 ms, 28 of 3 ms.
        assert_eq!(trial("edf", Experiment::Rates, false).iteration, Some(16));
        assert_eq!(trial("edf", Experiment::Frequency, false).iteration, Some(28));
        assert_eq!(trial("edf", Experiment::Tasks, false).iteration, Some(8));
    }

    #[test]
    fn the_quiet_parts_of_the_extended_form_miss_nothing_and_the_overload_does() {
        for experiment in Experiment::ALL {
            let found = trial("edf", experiment, true);
            assert_eq!(found.parts[0], 0, "{experiment:?}");
            assert!(found.parts[1] > 100, "{experiment:?}: {:?}", found.parts);
            assert!(found.parts[2] < 60, "{experiment:?}: {:?}", found.parts);
            assert_eq!(found.parts.iter().sum::<u64>(), found.misses.iter().sum::<u64>());
        }
        assert_eq!(trial("edf", Experiment::Tasks, true).misses.len(), 15);
    }
}
