//! The simulated systems: a workload whose jobs are scaled, task sets of a file, or random ones.

use super::super::fingerprint::fingerprint;
use super::super::generate::{described, impossible};
use super::super::part::Block;
use super::super::points::ratio;
use super::super::singles::quoted;
use super::super::state::{Found, out_of_range};
use super::args::{Args, LateRule, Seeds, late_text, utilities_text};
use super::runs::{self, Counted, Runs};
use crate::failure::Failure;
use crate::input::{Input, Priorities, priorities_of_sets, warn};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::PathBuf;
use takt::sets::{self, Set};
use takt::verdicts;
use takt_analysis::generate::Utilities;
use takt_analysis::priorities::Rule;
use takt_analysis::taskset::TaskSet;
use takt_core::model::{Arrival, Execution, Late, Load, Placement, PolicySpec, Scope, System, Task};
use takt_core::scenario::Scenario;
use takt_core::time::{Span, Time};
use takt_core::utility::Utility;
use takt_workload::{Code, Diagnostic, Source, Workload};

/// All that is simulated for all loads.
pub(super) struct Cases<'a> {
    pub(super) args: &'a Args,
    pub(super) cpus: usize,
    /// The policy that the others are compared with.
    pub(super) against: Option<usize>,
    policies: Vec<PolicySpec>,
    /// The file as each policy has it; none for task sets.
    workloads: Vec<Workload>,
    /// The task sets of a file.
    sets: Option<(Source, Vec<Set>)>,
}

/// CPUs of task sets without `--cpus`.
const CPUS: u16 = 4;

impl Cases<'_> {
    /// Reads the file, if there is one, once for each policy: what one of them needs may be missing.
    ///
    /// # Errors
    /// The fault of the file.
    pub(super) fn new(args: &Args) -> Result<Cases<'_>, Failure> {
        let mut policies = args.policies.0.clone();
        if let Some(placement) = args.placement {
            policies.iter_mut().for_each(|p| p.placement = placement);
        }
        let mut workloads = Vec::new();
        let read = |file: &PathBuf| -> Result<_, Failure> {
            let source = args.common.source(file)?;
            let sets = sets::of_source(&source)?;
            Ok((source, sets))
        };
        let sets = args.file.as_ref().filter(|file| sets::is_csv(file)).map(read).transpose()?;
        if sets.is_some() && args.seeds.0 != args.seeds.1 {
            let message = "`--seeds` gives several seeds, and each task set of a CSV file is a run of its own";
            return Err(Failure::input(Code::ConflictingOptions, message, "give one seed, such as `--seeds 1`"));
        }
        if let Some(file) = args.file.as_ref().filter(|_| sets.is_none()) {
            if args.utilities.is_some() {
                let message =
                    format!("`--utilities` cannot be used with `{}`, which is no task set in CSV", file.display());
                return Err(Failure::input(
                    Code::ConflictingOptions,
                    message,
                    "write `utility:` to each task, or leave `--utilities` out",
                ));
            }
            for policy in &policies {
                let (policy, placement) = (Some(*policy), args.placement);
                let input = Input {
                    file: file.clone(),
                    policy,
                    placement,
                    cpus: args.cpus,
                    priorities: args.priorities,
                    seed: None,
                    texts: args.common.texts(),
                    ..Input::default()
                };
                workloads.push(input.load_quietly(None)?);
            }
            // Most policies hear the same warnings.
            let mut told: Vec<Diagnostic> = Vec::new();
            for warning in workloads.iter().flat_map(|w| &w.warnings) {
                if !told.contains(warning) {
                    told.push(warning.clone());
                }
            }
            if let Some(first) = workloads.first() {
                warn(&first.source, &told);
            }
        }
        let random = || usize::from(args.cpus.unwrap_or(CPUS));
        let cpus = workloads.first().map_or_else(random, |w| w.system.cpus.len());
        let mut cases = Cases { args, cpus, against: None, policies, workloads, sets };
        cases.against = args.against.as_deref().map(|name| cases.position(name)).transpose()?;
        Ok(cases)
    }

    /// Which of the policies this is.
    fn position(&self, name: &str) -> Result<usize, Failure> {
        let names = self.names();
        let unknown = || {
            let message = format!("`--against {name}` is none of the policies");
            Failure::input(Code::UnknownName, message, &format!("name one of {}", names.join(", ")))
        };
        names.iter().position(|n| n == name).ok_or_else(unknown)
    }

    /// Says on standard error what may surprise.
    pub(super) fn notes(&self) {
        let several = |p: &PolicySpec| p.scope != Scope::Uniprocessor;
        let Seeds(first, last) = self.args.seeds;
        if first != last && self.alike() {
            let note = "note: the file draws nothing at random, so all seeds are alike: it ran once for each load";
            let _ = writeln!(io::stderr(), "{note}");
        }
        if self.workloads.iter().any(|w| w.settings.cpus_from_all) && self.policies.iter().any(several) {
            let note = "note: the file names no CPU by number, so one CPU was simulated; --cpus N takes more";
            // The result stands without it.
            let _ = writeln!(io::stderr(), "{note}");
        }
    }

    /// Lists the notes about policies. `fallbacks` counts the runs of each policy, of `all`, for which no priorities were found.
    pub(super) fn remarks(&self, fallbacks: &[u64], all: u64) -> Vec<String> {
        let mut remarks = Vec::new();
        for (number, (policy, name)) in self.policies.iter().zip(self.names()).enumerate() {
            let workload = self.workloads.get(number);
            if self.assigns(number) {
                remarks.push(priorities_of_sets(&name, self.priorities(), fallbacks[number], all));
            }
            remarks.extend(match workload {
                Some(workload) => verdicts::grid_note_of(&name, policy, &workload.system.tasks),
                None => match &self.sets {
                    Some((_, sets)) => sets.iter().find_map(|s| verdicts::grid_note_of(&name, policy, &s.tasks)),
                    None => self.args.kind.grid_note(&name, policy),
                },
            });
        }
        remarks
    }

    fn priorities(&self) -> Priorities {
        self.args.priorities.unwrap_or_default()
    }

    /// Reports whether priorities are assigned to the tasks under a policy.
    fn assigns(&self, policy: usize) -> bool {
        match self.workloads.get(policy) {
            Some(workload) => workload.settings.priorities.is_some(),
            None => self.policies[policy].ranks_by_priority(),
        }
    }

    /// The policies' names with their settings.
    pub(super) fn names(&self) -> Vec<String> {
        self.policies.iter().map(takt_workload::policy_text).collect()
    }

    /// Runs for each load. Copies of one run would make it look sure.
    pub(super) fn runs(&self) -> u64 {
        let Seeds(first, last) = self.args.seeds;
        match (&self.sets, self.workloads.is_empty()) {
            (Some((_, sets)), _) => sets.len() as u64,
            (None, true) => self.args.sets,
            (None, false) if self.alike() => 1,
            (None, false) => last - first + 1,
        }
    }

    /// Whether every seed gives the same run: the file draws nothing.
    fn alike(&self) -> bool {
        let draws = |task: &Task| {
            let comes = matches!(task.arrival, Arrival::Sporadic { spread, .. } if spread > Span::ZERO);
            let needs = matches!(task.program.execution, Execution::Uniform { least, most } if least != most);
            comes || needs || task.jitter > Span::ZERO
        };
        let still = |w: &Workload| w.system.timing.lateness == Span::ZERO && !w.system.tasks.iter().any(draws);
        !self.workloads.is_empty() && self.workloads.iter().all(still)
    }

    /// The name of a run: its seed, or the number of its set.
    pub(super) fn run_name(&self, index: u64) -> u64 {
        match &self.sets {
            Some((_, sets)) => sets[index as usize].id,
            None if self.workloads.is_empty() => index,
            None => self.args.seeds.0 + index,
        }
    }

    /// Whether each run is a task set.
    pub(super) fn of_sets(&self) -> bool {
        self.workloads.is_empty()
    }

    fn utilities(&self) -> Utilities {
        self.args.utilities.unwrap_or(Utilities::Uniform(1, 100))
    }

    /// The seed of random priorities and utilities of task sets.
    fn seed(&self) -> u64 {
        if self.sets.is_some() { self.args.seeds.0 } else { self.args.kind.seed }
    }

    /// The caption of a picture with so many `runs` per point: source, generator, seeds, machine, and the rule for late jobs.
    pub(super) fn caption(&self, runs: &str) -> String {
        let args = self.args;
        let of_file = || {
            let name = args.file.as_ref().and_then(|file| file.file_name());
            name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        let (cpus, utilities) = (self.cpus, utilities_text(self.utilities()));
        let (source, kind) = match (&self.sets, self.workloads.is_empty()) {
            (Some(_), _) => {
                let source = format!("task sets of {}, utilities {utilities}, seed {}", of_file(), self.seed());
                (source, format!("sets per point: {runs}"))
            }
            (None, true) => {
                let kind = args.kind.text();
                (format!("random task sets: {kind}, utilities {utilities}"), format!("sets per point: {runs}"))
            }
            (None, false) => {
                let Seeds(first, last) = args.seeds;
                let seeds = if self.runs() > 1 { format!("seeds {first} to {last}") } else { format!("seed {first}") };
                (of_file(), format!("runs per point: {runs}, {seeds}"))
            }
        };
        let stated = self.workloads.first().filter(|w| w.settings.late_stated).map(|w| w.system.late);
        let late = match (args.late, stated) {
            (LateRule::Auto, Some(late)) => format!("{}, as the file says", late_text(late)),
            (LateRule::Auto, None) => {
                "aborted at their deadlines under policies that go by utility, continued under the others".into()
            }
            (LateRule::Continue, _) => late_text(Late::Continue).into(),
            (LateRule::Abort, _) => late_text(Late::Abort).into(),
            (LateRule::AbortAtEvent, _) => late_text(Late::AbortAtEvent).into(),
        };
        format!("{source}\nCPUs: {cpus}, {kind}, each {}; late jobs: {late}", args.duration)
    }

    /// The file, and the files that it names.
    pub(super) fn files(&self) -> Vec<Source> {
        let sets = self.sets.iter().map(|(source, _)| source.clone());
        sets.chain(self.workloads.first().iter().flat_map(|workload| workload.sources())).collect()
    }

    /// All that the result depends on, but for the number of runs.
    pub(super) fn setup(&self) -> Value {
        let args = self.args;
        let files = self.files();
        let texts: String = files.iter().map(|file| file.text.as_str()).collect();
        let mut setup = match files.first() {
            Some(file) => json!({"file": file.name, "fingerprint": fingerprint(&texts), "seed": args.seeds.0}),
            None => args.kind.json(),
        };
        if self.of_sets() {
            setup["utilities"] = json!(utilities_text(self.utilities()));
        }
        let c = args.costs.unwrap_or_default();
        let costs = [c.context_switch, c.migration, c.cache_reload, c.scheduler, c.scheduler_task, c.lock, c.interrupt];
        setup["cpus"] = json!(self.cpus);
        setup["loads"] = args.loads.0.iter().map(|l| ratio(*l)).collect();
        setup["policies"] = json!(self.names());
        // Differences are sums, as all else, so that a state has those from one policy alone.
        if let Some(against) = &args.against {
            setup["against"] = json!(against);
        }
        setup["late"] = json!(args.late.name());
        let placement = Placement::ALL.iter().find(|(_, placement)| Some(*placement) == args.placement);
        setup["placement"] = json!(placement.map(|(name, _)| name));
        let assigns = (0..self.policies.len()).any(|policy| self.assigns(policy));
        setup["priorities"] = json!(assigns.then(|| Rule::from(self.priorities()).name()));
        setup["costs_ns"] = json!(args.costs.map(|_| costs.map(Span::ns)));
        setup["simulated_ns"] = json!(args.duration.ns());
        setup
    }

    /// The total utilisation at a load, in millionths: of a file by the runtimes and periods that it declares, where its own
    /// `load` is highest; of task sets the mean.
    pub(super) fn utilisation(&self, load: u64) -> u64 {
        if let Some((_, sets)) = &self.sets {
            let sum: u128 = sets.iter().map(|one| u128::from(sets::utilisation(&one.set))).sum();
            let scaled = sum * u128::from(load) / sets.len().max(1) as u128;
            return u64::try_from((scaled + 50_000_000) / 100_000_000 * 100).unwrap_or(u64::MAX);
        }
        let Some(workload) = self.workloads.first() else { return load };
        let of = |task: &Task| {
            let (Some(runtime), Some(period)) = (task.runtime, task.arrival.period()) else { return 0 };
            // In 10^-12, rounded only at the end.
            u128::from(load) * 1_000_000 * runtime.ns() as u128 / period.ns() as u128
        };
        let factors = workload.system.load.iter().flat_map(|load| &load.points).map(|(_, factor)| *factor);
        let highest = u128::from(factors.max().unwrap_or(Load::ONE));
        let sum = workload.system.tasks.iter().map(of).sum::<u128>() * highest / u128::from(Load::ONE);
        // To four decimals, as everything else that is printed.
        u64::try_from((sum + 50_000_000) / 100_000_000 * 100).unwrap_or(u64::MAX)
    }

    /// Simulates the runs of a block under each policy for `length`. Jobs are counted whose deadline is within `duration`.
    ///
    /// # Errors
    /// A set that cannot be drawn, or the policy that cannot schedule it.
    pub(super) fn run_block(
        &self,
        (load, first, count): Block,
        length: Span,
        keeps: bool,
    ) -> Result<(Runs, Vec<String>), Failure> {
        let load = self.args.loads.0[load];
        let (mut found, mut rows) = (Runs::zero(self.policies.len()), Vec::new());
        for index in first..first + count {
            let mut of_run: Vec<Counted> = Vec::new();
            let tasks = if self.of_sets() { self.tasks(load, index)? } else { Vec::new() };
            for (number, policy) in self.policies.iter().enumerate() {
                let (system, scenario) = match self.workloads.get(number) {
                    Some(workload) => self.scaled(workload, load, index),
                    None => {
                        let (mut system, mut scenario) =
                            (verdicts::machine(self.cpus, tasks.clone()), Scenario::default());
                        if self.sets.is_some() {
                            takt_workload::scale(&mut system, &mut scenario, load as u32);
                        }
                        (system, scenario)
                    }
                };
                let scenario = Scenario { costs: self.args.costs.unwrap_or(scenario.costs), ..scenario };
                let stated = self.workloads.get(number).filter(|w| w.settings.late_stated).map(|w| w.system.late);
                let (late, horizon) = (self.args.late.of(policy, stated), Some(Time::ZERO + self.args.duration));
                let mut system = System { policy: *policy, late, horizon, ..system };
                // The best order of priorities depends on the load.
                let assigned = self.assigns(number).then(|| {
                    let (seed, set) = if self.of_sets() { (self.seed(), index) } else { (system.seed, 0) };
                    self.priorities().assign(&mut system, seed, set)
                });
                let run = runs::simulate(system, &scenario, length).map_err(|why| {
                    let name = takt_workload::policy_text(policy);
                    let message = format!("{name} cannot schedule this at a load of {}: {why}", ratio(load));
                    let hint = match (policy.scope, self.args.cpus) {
                        (Scope::Uniprocessor, None) if self.of_sets() => format!(
                            "task sets have {CPUS} CPUs by default: add `--cpus 1`, or leave `{name}` out of `--policies`"
                        ),
                        _ => "leave it out of `--policies`, or change `--cpus` or `--loads`".to_owned(),
                    };
                    Failure::input(Code::UnsuitablePolicy, message, &hint)
                })?;
                let fallback = assigned.flatten().is_some_and(|assigned| assigned.fallback);
                of_run.push((run, fallback));
            }
            found.insert(&of_run, self.against).ok_or_else(out_of_range)?;
            if keeps {
                rows.push(self.rows(load, index, &of_run));
            }
        }
        Ok((found, rows))
    }

    /// The rows of a run as CSV, one for each policy; utilities in millionths.
    fn rows(&self, load: u64, index: u64, runs: &[Counted]) -> String {
        let (load, run) = (ratio(load), self.run_name(index));
        let row = |(name, (numbers, _)): (String, &Counted)| {
            let numbers = numbers.map(|n| n.to_string()).join(",");
            format!("{load},{run},{},{numbers}\n", quoted(&name))
        };
        self.names().into_iter().zip(runs).map(row).collect()
    }

    /// The title of these rows.
    pub(super) fn title(&self) -> String {
        let what = if self.of_sets() { "set" } else { "seed" };
        format!("load,{what},policy,{}", runs::NAMES.join(","))
    }

    /// The tasks of a set with their utilities: one of the file, not yet scaled, or a random one.
    fn tasks(&self, load: u64, index: u64) -> Result<Vec<Task>, Failure> {
        let of = |tasks: &[_]| self.utilities().of(tasks, self.seed(), index).map_err(impossible);
        if let Some((_, sets)) = &self.sets {
            let one = &sets[index as usize];
            let with = |(task, utility): (&Task, u64)| Task { utility: Some(Utility::Step(utility)), ..task.clone() };
            return Ok(one.tasks.iter().zip(of(&one.set.tasks)?).map(with).collect());
        }
        let tasks = self.args.kind.draw(load, index).map_err(impossible)?;
        let utilities = of(&tasks)?;
        let why = |_| Failure::input(Code::OutOfRange, "such periods are too long", "shorten `--periods`");
        let set = TaskSet::new(tasks, Span::from_us(1)).map_err(why)?;
        let with = |(task, utility)| Task { utility: Some(Utility::Step(utility)), ..described(task, &set) };
        Ok(set.tasks.iter().zip(utilities).map(with).collect())
    }

    /// The file at a load, under the seed of a run.
    fn scaled(&self, workload: &Workload, load: u64, index: u64) -> (System, Scenario) {
        let (mut system, mut scenario) = (workload.system.clone(), workload.scenario.clone());
        // A factor is 1000 at most.
        takt_workload::scale(&mut system, &mut scenario, load as u32);
        system.seed = self.args.seeds.0 + index;
        (system, scenario)
    }
}
