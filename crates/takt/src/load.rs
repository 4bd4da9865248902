//! Reads a workload, and assigns priorities to the tasks of a file that cannot state them.

use crate::error::Error;
use std::path::Path;
use takt_analysis::priorities::{self, Rule};
use takt_core::engine::Engine;
use takt_core::model::{Invalid, Placement, PolicySpec, System};
use takt_workload::{AssignedPriorities, Code, Options, Source, Workload};

/// Settings of a caller about a workload; the default changes nothing.
#[derive(Clone, Default, Debug)]
pub struct LoadOptions {
    /// Machine, policy, seed, copies and power policy.
    pub options: Options,
    /// How a partitioned policy places tasks on CPUs.
    pub placement: Option<Placement>,
    /// The rule that assigns priorities, for files that cannot state any; by default rate-monotonic.
    pub priorities: Option<Rule>,
}

/// Reads a workload file; `-` is standard input.
///
/// # Errors
/// The faults of the file, all at once.
pub fn load(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Workload, Error> {
    load_source(Source::read(path.as_ref())?, options)
}

/// Reads the text of a workload. Messages call it `name`; a name that ends in `.csv` makes it a task set in CSV.
///
/// # Errors
/// The faults of the text, all at once.
///
/// ```
/// let text = "policy: edf\ntasks:\n- {name: a, period: 10ms, runtime: 12 ms}\n- {name: b, perid: 20ms}\n";
/// let Err(takt::Error::Workload(faults)) = takt::load_text("tasks.yaml", text, &Default::default()) else { panic!() };
/// let found = faults.diagnostics();
/// assert!(found.iter().any(|fault| fault.code == "unknown-key" && fault.line == 4));
/// ```
pub fn load_text(name: &str, text: &str, options: &LoadOptions) -> Result<Workload, Error> {
    load_source(Source::from_bytes(name, text.as_bytes().to_vec())?, options)
}

fn load_source(source: Source, options: &LoadOptions) -> Result<Workload, Error> {
    let mut given = options.options.clone();
    if let (Some(policy), Some(placement)) = (&mut given.policy, options.placement) {
        policy.placement = placement;
    }
    let mut workload = takt_workload::load(source.clone(), &given).map_err(|found| Error::faults(&source, found))?;
    settle(&mut workload, options.placement, options.priorities)?;
    Ok(workload)
}

/// A policy by its name and settings, as in `edf`, `g-edf` or `rr:quantum=2ms`.
///
/// # Errors
/// A part of it is unknown or out of range; the message has the nearest name.
pub fn policy(text: &str) -> Result<PolicySpec, Error> {
    let hint = "`takt policies` lists the policies";
    takt_workload::policy_from_text(text).map_err(|fault| Error::argument(fault.code, &fault, hint))
}

/// Gives a workload that was just read the placement and the priorities of the caller.
///
/// # Errors
/// Priorities for a file that can state them itself.
pub fn settle(workload: &mut Workload, placement: Option<Placement>, rule: Option<Rule>) -> Result<(), Error> {
    if let Some(placement) = placement {
        workload.system.policy.placement = placement;
    }
    if !workload.source.states_priorities() {
        let seed = workload.system.seed;
        let rule = rule.unwrap_or(Rule::RateMonotonic);
        workload.settings.priorities = assign_priorities(rule, &mut workload.system, seed, 0);
    } else if rule.is_some() {
        let name = &workload.source.name;
        return Err(Error::argument(
            Code::NotSupportedHere,
            format!("`--priorities` is for task sets, and `{name}` can state priorities itself"),
            "write `priority:` to each task, or leave `--priorities` out",
        ));
    }
    Ok(())
}

/// Assigns priorities by a rule where a policy of the system ranks by priority. `set` is the number of the task set.
pub fn assign_priorities(rule: Rule, system: &mut System, seed: u64, set: u64) -> Option<AssignedPriorities> {
    priorities::matter(system).then(|| {
        let fallback = priorities::assign(system, rule, seed, set).is_err();
        AssignedPriorities { rule: rule.name(), fallback }
    })
}

/// The note about assigned priorities of one set.
#[must_use]
pub fn priorities_note(assigned: AssignedPriorities) -> String {
    let AssignedPriorities { rule, fallback } = assigned;
    let none = if fallback { "; it found none, so these are deadline-monotonic" } else { "" };
    format!("the file states no priorities; they were assigned by `--priorities {rule}`{none}")
}

/// The note about assigned priorities of many sets, for `fallback` of which the rule found none.
#[must_use]
pub fn priorities_of_sets(policy: &str, rule: Rule, fallback: u64, sets: u64) -> String {
    let rule = rule.name();
    let none = match fallback {
        0 => String::new(),
        _ => format!("; it found none for {fallback} of {sets} sets, which have deadline-monotonic ones"),
    };
    format!("{policy} has priorities assigned by `--priorities {rule}`{none}")
}

/// An engine of this system, with the policies behind the names in files ([`takt_workload::registry`]).
///
/// # Errors
/// Why the policy cannot schedule the system.
pub fn engine(system: System) -> Result<Engine, Invalid> {
    Engine::with_registry(system, takt_workload::registry().clone())
}
