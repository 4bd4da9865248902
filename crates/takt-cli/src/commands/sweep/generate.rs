//! `takt sweep generate`: random task sets as CSV, and the options that say what kind of sets.

use crate::failure::Failure;
use crate::outcome::{Outcome, Verdict};
use crate::progress::Progress;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::io::{self, BufWriter, IsTerminal, Write};
use takt::generate::{self, HEAD, Recipe, periods, total, us};
use takt::verdicts;
use takt_analysis::generate::{Deadlines, Generator, Impossible, Periods, Utilisations};
use takt_analysis::taskset::TaskSet;
use takt_core::model::{Arrival, PolicySpec, Task};
use takt_core::time::Span;
use takt_workload::{MAX_TASKS, duration_text};

/// Random task sets as CSV
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Total utilisation of a set
    #[arg(long, value_name = "U", value_parser = total)]
    utilisation: u64,
    /// Number of sets
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    sets: u64,
    #[command(flatten)]
    kind: SetArgs,
}

/// The kind of the drawn sets.
#[derive(clap::Args, Debug)]
pub(super) struct SetArgs {
    /// How utilisations are drawn
    #[arg(long, value_enum, default_value_t = Name::Airs)]
    generator: Name,
    /// Number of tasks; `airs` ignores it and draws tasks until the total is reached
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=MAX_TASKS as i64))]
    tasks: u32,
    /// Periods: `uniform:1ms..100ms` or `log-uniform:10ms..1s`, in whole microseconds
    #[arg(long, value_name = "RANGE", default_value = "uniform:1ms..100ms", value_parser = periods)]
    periods: Periods,
    /// Draw periods that are multiples of this, such as the 1ms of the quantum of pd2
    #[arg(long, value_name = "SPAN", value_parser = us)]
    grid: Option<u64>,
    /// Relative deadlines
    #[arg(long, value_enum, default_value_t = Ends::Implicit)]
    deadlines: Ends,
    /// Seed of all sets
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Name {
    /// Each between 0.1 and 1 until the total is reached, the last one trimmed (Kato, Rajkumar, Ishikawa 2010)
    Airs,
    /// Uniformly among all sets with this total (Bini, Buttazzo 2005)
    Uunifast,
    /// As `uunifast`, without sets that have a utilisation above 1 (Davis, Burns 2009)
    UunifastDiscard,
    /// Uniformly among all sets with this total and no utilisation above 1 (Emberson, Stafford, Davis 2010)
    Randfixedsum,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum Ends {
    /// At the end of the period
    Implicit,
    /// Uniformly between runtime and period
    Constrained,
}

impl SetArgs {
    /// Set number `index` of those with a total utilisation of `total` millionths.
    ///
    /// # Errors
    /// Why there is no such set.
    pub(super) fn draw(&self, total: u64, index: u64) -> Result<Vec<takt_analysis::taskset::Task>, Impossible> {
        let Recipe { generator, total, grid, seed } = self.recipe(total);
        generator.set_on(grid, total, seed, index)
    }

    /// The recipe of sets with this total utilisation in millionths.
    fn recipe(&self, total: u64) -> Recipe {
        Recipe { generator: self.generator(), total, grid: self.grid.unwrap_or(1), seed: self.seed }
    }

    /// The note about a policy that works in quanta, for these sets.
    pub(super) fn grid_note(&self, name: &str, policy: &PolicySpec) -> Option<String> {
        let quantum = policy.grid()?;
        let on = self.is_on(quantum);
        let note = verdicts::grid_note(name, policy, on, false)?;
        Some(if on { note } else { format!("{note}; `--grid {}` draws such periods", duration_text(quantum)) })
    }

    /// Reports whether all periods are multiples of a quantum.
    fn is_on(&self, quantum: Span) -> bool {
        let us = match self.periods {
            Periods::Uniform(low, high) | Periods::LogUniform(low, high) if low == high => low,
            _ => self.grid.unwrap_or(1),
        };
        Span::from_us(us as i64).ns() % quantum.ns() == 0
    }

    fn generator(&self) -> Generator {
        let tasks = self.tasks as usize;
        Generator {
            utilisations: match self.generator {
                Name::Airs => Utilisations::Airs,
                Name::Uunifast => Utilisations::UUniFast { tasks },
                Name::UunifastDiscard => Utilisations::UUniFastDiscard { tasks },
                Name::Randfixedsum => Utilisations::RandFixedSum { tasks },
            },
            periods: self.periods,
            deadlines: match self.deadlines {
                Ends::Implicit => Deadlines::Implicit,
                Ends::Constrained => Deadlines::Constrained,
            },
        }
    }

    /// Reports whether deadlines are at the ends of the periods.
    pub(super) fn is_implicit(&self) -> bool {
        self.deadlines == Ends::Implicit
    }

    /// The generator, what it draws from, and the seed, for people.
    pub(super) fn text(&self) -> String {
        let kind = self.json();
        let text = |key: &str| kind[key].as_str().unwrap_or_default().to_string();
        let tasks = kind["tasks"].as_u64().map_or(String::new(), |tasks| format!(" of {tasks} tasks"));
        let grid = kind["grid"].as_str().map_or(String::new(), |grid| format!(" in multiples of {grid}"));
        let (generator, periods, deadlines) = (text("generator"), text("periods"), text("deadlines"));
        format!("{generator}{tasks}, periods {periods}{grid}, {deadlines} deadlines, seed {}", self.seed)
    }

    /// All that the sets depend on.
    pub(super) fn json(&self) -> Value {
        let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            value().map_or(String::new(), |v| v.get_name().to_string())
        };
        let (kind, low, high) = match self.periods {
            Periods::Uniform(low, high) => ("uniform", low, high),
            Periods::LogUniform(low, high) => ("log-uniform", low, high),
        };
        let text = |us: u64| duration_text(Span::from_us(us as i64));
        let grid = self.grid.map(text);
        let tasks = (self.generator != Name::Airs).then_some(self.tasks);
        json!({
            "generator": name(&|| self.generator.to_possible_value()), "tasks": tasks,
            "periods": format!("{kind}:{}..{}", text(low), text(high)), "grid": grid,
            "deadlines": name(&|| self.deadlines.to_possible_value()), "seed": self.seed,
        })
    }
}

/// The failure that says why sets cannot be drawn.
pub(super) fn impossible(why: Impossible) -> Failure {
    generate::impossible(why).into()
}

/// A drawn task for the simulator.
pub(super) fn described(task: &takt_analysis::taskset::Task, set: &TaskSet) -> Task {
    Task {
        arrival: Arrival::Periodic { offset: Span::ZERO, period: set.span(task.period) },
        deadline: Some(set.span(task.deadline)),
        runtime: Some(set.span(task.runtime)),
        ..Task::default()
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    // A bar would be between the lines.
    let progress = if io::stdout().is_terminal() { Progress::none() } else { Progress::of(args.sets, "sets") };
    let mut out = BufWriter::new(io::stdout().lock());
    let recipe = args.kind.recipe(args.utilisation);
    for set in 0..args.sets {
        let rows = generate::generate(&recipe, set)?;
        if set == 0 {
            writeln!(out, "{HEAD}")?;
        }
        generate::write_csv(&rows, &mut out)?;
        progress.inc(1);
    }
    out.flush()?;
    Ok(Verdict::Done)
}
