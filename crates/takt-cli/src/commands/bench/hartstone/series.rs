//! The PH series of Hartstone: a baseline of periodic, harmonic tasks and four ways in which it grows.
//!
//! Weiderman and Kamenoff, "Hartstone Uniprocessor Benchmark: Definitions and Experiments for Real-Time Systems",
//! Real-Time Systems 4, 1992; in the form of Terraneo, "Control based design of OS components" (thesis, Politecnico di
//! Milano, 2011), whose load of one kilo-Whetstone is a busy wait of 1.25 ms.

use takt_core::model::{Arrival, Program, Task};
use takt_core::time::{Span, Time};

/// One kilo-Whetstone.
const KILO_WHET: Span = Span::from_us(1250);
/// The warm-up before the first iteration, and the length of an iteration.
pub(super) const WARM_UP: Span = Span::from_secs(2);
pub(super) const ITERATION: Span = Span::from_secs(1);
/// The extended form: the overload begins, it ends, the run ends.
pub(super) const OVERLOAD: Span = Span::from_secs(30);
pub(super) const RECOVERY: Span = Span::from_secs(45);
pub(super) const EXTENDED: Span = Span::from_secs(120);

/// The four ways of growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Experiment {
    /// The fastest task becomes faster: by a quarter of its frequency per step.
    Frequency = 1,
    /// All tasks become faster: by a tenth of their frequencies per step.
    Rates = 2,
    /// All tasks need more: by half of what the lightest one needs per step.
    Loads = 3,
    /// More tasks like the one whose period is in the middle: one per step.
    Tasks = 4,
}

impl Experiment {
    pub(super) const ALL: [Experiment; 4] =
        [Experiment::Frequency, Experiment::Rates, Experiment::Loads, Experiment::Tasks];

    pub(super) fn number(self) -> usize {
        self as usize
    }
}

/// How far a set has grown, in thousandths of a step.
pub(super) type Growth = i64;
pub(super) const STEP: Growth = 1000;

/// A set of tasks that is to grow.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) name: String,
    pub(super) names: Vec<String>,
    /// Periodic tasks with runtimes.
    tasks: Vec<Task>,
    /// Whether it is Hartstone's own, for which the thesis names the levels and importances of the extended form.
    pub(super) own: bool,
}

impl Set {
    /// The baseline: 2 to 32 Hz, 64 kilo-Whetstones per second each. Priorities are rate monotonic, of copies by their number, so
    /// that `fp` is `rm` with ties broken by task and not by release.
    pub(super) fn baseline() -> Set {
        let task = |i: i64| Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(500) / (1 << i) },
            deadline: Some(Span::from_ms(500) / (1 << i)),
            runtime: Some(KILO_WHET * (32 >> i)),
            priority: 100 * (i as u32 + 1),
            ..Task::default()
        };
        Set {
            name: "PH baseline".into(),
            names: (1..=5).map(|n| format!("task {n}")).collect(),
            tasks: (0..5).map(task).collect(),
            own: true,
        }
    }

    /// Tasks of a file, without their budgets and CPUs: each job needs its declared runtime. `None` if one of them is not
    /// periodic, declares no need, or has steps; a task without a deadline has its period as one.
    pub(super) fn custom(name: &str, names: Vec<String>, tasks: &[Task]) -> Option<Set> {
        let sound = |t: &Task| {
            matches!(t.arrival, Arrival::Periodic { .. }) && t.runtime.is_some() && t.program.steps.is_empty()
        };
        let implicit = |t: &Task| Task {
            deadline: t.deadline.or(t.arrival.period()),
            program: Program::AS_DECLARED,
            budget: None,
            affinity: Task::default().affinity,
            ..t.clone()
        };
        (!tasks.is_empty() && tasks.iter().all(sound)).then(|| Set {
            name: name.into(),
            names,
            tasks: tasks.iter().map(implicit).collect(),
            own: false,
        })
    }

    /// Tasks of the set before it grows.
    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// The task that multiplies in [`Experiment::Tasks`].
    fn middle(&self) -> usize {
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        order.sort_by_key(|&i| self.tasks[i].arrival.period());
        order[self.tasks.len() / 2]
    }

    /// The name of a task; those beyond the set are copies.
    pub(super) fn task_name(&self, index: usize) -> String {
        match self.names.get(index) {
            Some(name) => name.clone(),
            None => format!("{} copy {}", self.names[self.middle()], index + 1 - self.names.len()),
        }
    }

    /// The tasks at some growth; periods are whole ticks.
    pub(super) fn grown(&self, experiment: Experiment, growth: Growth, tick: Span) -> Vec<Task> {
        let mut tasks = self.tasks.clone();
        let scale = |task: &mut Task, numerator: i64, denominator: i64| {
            let Arrival::Periodic { period, .. } = &mut task.arrival else { return };
            let old = *period;
            *period = floor(period.scaled(numerator, denominator), tick);
            task.deadline = task.deadline.map(|d| floor(period.scaled(d.ns(), old.ns()), tick));
        };
        let period = |task: &Task| task.arrival.period().unwrap_or(Span::MAX);
        let fastest = tasks.iter().enumerate().min_by_key(|(i, t)| (period(t), usize::MAX - i)).map_or(0, |(i, _)| i);
        let lightest = tasks.iter().filter_map(|t| t.runtime).min().unwrap_or(KILO_WHET);
        match experiment {
            Experiment::Frequency => tasks.iter_mut().enumerate().for_each(|(i, task)| {
                scale(task, 4 * STEP, 4 * STEP + if i == fastest { growth } else { 0 });
            }),
            Experiment::Rates => tasks.iter_mut().for_each(|task| scale(task, 10 * STEP, 10 * STEP + growth)),
            Experiment::Loads => tasks.iter_mut().for_each(|task| {
                scale(task, 1, 1);
                task.runtime = task.runtime.map(|c| c + lightest.scaled(growth, 2 * STEP));
            }),
            Experiment::Tasks => {
                tasks.iter_mut().for_each(|task| scale(task, 1, 1));
                let copy = tasks[self.middle()].clone();
                let priority = |n: u32| if self.own { copy.priority - n } else { copy.priority };
                tasks.extend((1..=(growth / STEP) as u32).map(|n| Task { priority: priority(n), ..copy.clone() }));
            }
        }
        tasks
    }

    /// Utilisation at some growth, in millionths.
    pub(super) fn utilisation(&self, experiment: Experiment, growth: Growth, tick: Span) -> i64 {
        self.grown(experiment, growth, tick).iter().map(|t| i64::from(millionths(t))).sum()
    }

    /// The growth of the iterations after the warm-up, one step each, until no policy can have met every deadline: what
    /// was too much in them adds up to more than the longest period.
    pub(super) fn iterations(&self, experiment: Experiment, tick: Span) -> usize {
        let longest = self.tasks.iter().filter_map(|t| t.arrival.period()).max().unwrap_or(ITERATION);
        let mut surplus = Span::ZERO;
        let mut k = 0;
        while surplus <= longest && k < MOST_ITERATIONS {
            k += 1;
            let over = self.utilisation(experiment, k as Growth * STEP, tick) - 1_000_000;
            surplus += ITERATION.scaled(over.max(0), 1_000_000);
        }
        k + 1
    }

    /// The growths of the extended form: the quiet one (48 % of the baseline's CPU) and that of the overload (about 120 %).
    pub(super) fn levels(&self, experiment: Experiment, tick: Span) -> (Growth, Growth) {
        if self.own {
            // 64 and 333 Hz; 1.2 and 3.125 times; 1 and 11 kilo-Whetstones more; 6 and 15 tasks.
            return match experiment {
                Experiment::Frequency => (4 * STEP, 37_625),
                Experiment::Rates => (2 * STEP, 21_250),
                Experiment::Loads => (STEP, 11 * STEP),
                Experiment::Tasks => (STEP, 10 * STEP),
            };
        }
        let steps = || (0..MOST_ITERATIONS as Growth).map(|k| k * STEP);
        let used = |g: &Growth| self.utilisation(experiment, *g, tick);
        let quiet = steps().take_while(|g| used(g) <= 480_000).last().unwrap_or(0);
        let over = steps().find(|g| used(g) >= 1_200_000).unwrap_or(MOST_ITERATIONS as Growth * STEP);
        (quiet, over)
    }

    /// The importances that the thesis' program gives the tasks in the extended form; for a set of one's own, those of its file.
    pub(super) fn importances(&self, experiment: Experiment, tasks: usize) -> Vec<u32> {
        let own: &[u32] = match experiment {
            Experiment::Frequency => &[1, 1, 1, 1, 125],
            Experiment::Rates => &[1, 2, 10, 10, 10],
            Experiment::Loads => &[10, 10, 10, 10, 1],
            Experiment::Tasks => &[1, 1, 100, 100, 100, 100, 100],
        };
        if self.own {
            (0..tasks).map(|i| own.get(i).copied().unwrap_or(1)).collect()
        } else {
            let of = |i: usize| self.tasks.get(i).unwrap_or(&self.tasks[self.middle()]).importance;
            (0..tasks).map(of).collect()
        }
    }
}

/// No experiment continues for longer.
const MOST_ITERATIONS: usize = 200;

/// Whole ticks, at least one.
fn floor(span: Span, tick: Span) -> Span {
    if tick == Span::ZERO { span } else { ((Time::ZERO + span).round_down(tick) - Time::ZERO).max(tick) }
}

/// The utilisation of a task.
fn millionths(task: &Task) -> u32 {
    let (runtime, period) = (task.runtime.unwrap_or(Span::ZERO), task.arrival.period().unwrap_or(Span::MAX));
    let share = i128::from(runtime.ns()) * 1_000_000 / i128::from(period.ns().max(1));
    u32::try_from(share).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Span = Span::from_ms(1);

    fn periods_ms(experiment: Experiment, growth: Growth) -> Vec<i64> {
        let tasks = Set::baseline().grown(experiment, growth, TICK);
        tasks.iter().map(|t| t.arrival.period().expect("periodic").ns() / 1_000_000).collect()
    }

    #[test]
    fn the_baseline_grows_as_the_series_says() {
        assert_eq!(periods_ms(Experiment::Loads, 0), [500, 250, 125, 62, 31]);
        // 32 + 8 k Hz.
        assert_eq!(periods_ms(Experiment::Frequency, STEP)[4], 25);
        assert_eq!(periods_ms(Experiment::Frequency, 28 * STEP)[4], 3);
        assert_eq!(periods_ms(Experiment::Frequency, 27 * STEP)[4], 4);
        assert_eq!(periods_ms(Experiment::Rates, 15 * STEP), [200, 100, 50, 25, 12]);
        assert_eq!(periods_ms(Experiment::Tasks, 2 * STEP), [500, 250, 125, 62, 31, 125, 125]);
        let set = Set::baseline();
        let exact = |e, g| set.utilisation(e, g, Span::ZERO);
        assert_eq!(exact(Experiment::Loads, 0), 400_000);
        assert_eq!([1, 7, 8].map(|k| exact(Experiment::Loads, k * STEP)), [477_500, 942_500, 1_020_000]);
        assert_eq!([30, 31].map(|k| exact(Experiment::Frequency, k * STEP)), [1_000_000, 1_020_000]);
        assert_eq!([15, 16].map(|k| exact(Experiment::Rates, k * STEP)), [1_000_000, 1_040_000]);
        assert_eq!([7, 8].map(|k| exact(Experiment::Tasks, k * STEP)), [960_000, 1_040_000]);
    }

    #[test]
    fn the_extended_levels_are_half_a_cpu_and_more_than_one() {
        let set = Set::baseline();
        // In per cent, with whole milliseconds.
        let expected = [(48, 115), (48, 125), (48, 126), (48, 120)];
        for (experiment, (quiet, over)) in Experiment::ALL.into_iter().zip(expected) {
            let (low, high) = set.levels(experiment, TICK);
            let percent = |g| (set.utilisation(experiment, g, TICK) + 5_000) / 10_000;
            assert!((quiet..=quiet + 1).contains(&percent(low)), "{experiment:?}: {}", percent(low));
            assert!((over..=over + 1).contains(&percent(high)), "{experiment:?}: {}", percent(high));
        }
        assert_eq!(periods_ms(Experiment::Frequency, 37_625)[4], 3);
    }

    #[test]
    fn a_set_of_ones_own_grows_in_the_same_ways() {
        let task = |ms: i64, c: i64, d: Option<i64>| Task {
            arrival: Arrival::Periodic { offset: Span::ZERO, period: Span::from_ms(ms) },
            deadline: d.map(Span::from_ms),
            runtime: Some(Span::from_ms(c)),
            importance: ms as u32,
            ..Task::default()
        };
        let names = || vec!["a".to_string(), "b".into()];
        let set = Set::custom("mine", names(), &[task(100, 10, None), task(40, 4, Some(20))]).expect("periodic");
        let fast = set.grown(Experiment::Frequency, 4 * STEP, TICK);
        assert_eq!([fast[0].arrival.period(), fast[1].arrival.period()], [100, 20].map(|ms| Some(Span::from_ms(ms))));
        assert_eq!([fast[0].deadline, fast[1].deadline], [100, 10].map(|ms| Some(Span::from_ms(ms))));
        let heavy = set.grown(Experiment::Loads, STEP, TICK);
        assert_eq!([heavy[0].runtime, heavy[1].runtime], [12, 6].map(|ms| Some(Span::from_ms(ms))));
        assert_eq!(set.grown(Experiment::Tasks, 3 * STEP, TICK).len(), 5);
        assert_eq!(set.task_name(4), "a copy 3");
        assert_eq!(set.importances(Experiment::Tasks, 3), [100, 40, 100]);
        assert!(Set::custom("mine", names(), &[Task::default()]).is_none());
        let (quiet, over) = set.levels(Experiment::Rates, TICK);
        assert!(set.utilisation(Experiment::Rates, quiet, TICK) <= 480_000);
        assert!(set.utilisation(Experiment::Rates, over, TICK) >= 1_200_000);
    }
}
