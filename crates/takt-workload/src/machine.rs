//! The machine and the policy of a workload: whether they suit each other.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::{Node, Place};
use crate::policy::policy_name;
use crate::reader::Reader;
use crate::text::cpus_text;
use crate::value::choices;
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::model::{Placement, PolicySpec, Scope};

/// A machine of so many CPUs, or why `--cpus` cannot have it.
pub(crate) fn machine_of(count: usize, place: &Place) -> Result<CpuSet, Diagnostic> {
    if (1..=MAX_CPUS).contains(&count) {
        return Ok(CpuSet::first(count));
    }
    Err(Diagnostic::error(Code::OutOfRange, place, format!("a machine of {count} CPUs cannot be had"))
        .label("asked for with `--cpus`")
        .hint(format!("`--cpus` takes 1 to {MAX_CPUS}")))
}

/// A uniprocessor policy takes one CPU: the lowest there is, unless the file or the user says that there are more.
pub(crate) fn fit_machine(
    reader: &mut Reader,
    policy: &PolicySpec,
    machine: &mut CpuSet,
    from_all: bool,
    place: &Place,
) {
    if policy.scope != Scope::Uniprocessor || machine.len() <= 1 {
        return;
    }
    if from_all {
        *machine = machine.iter().take(1).collect();
        return;
    }
    reader.push(one_cpu_only(
        policy,
        "the machine",
        machine,
        place,
        "the machine one CPU with `cpus: 0` or `--cpus 1`",
    ));
}

/// A policy for one CPU where there are more. `whose` says of what, `make` how to have one.
pub(crate) fn one_cpu_only(policy: &PolicySpec, whose: &str, cpus: &CpuSet, place: &Place, make: &str) -> Diagnostic {
    let name = policy.profile.name;
    let others: Vec<String> = policy
        .profile
        .scopes
        .iter()
        .filter(|scope| **scope != Scope::Uniprocessor)
        .map(|scope| policy_name(&PolicySpec::new(policy.profile, *scope)))
        .collect();
    let instead = if others.is_empty() {
        String::new()
    } else {
        format!("use {}, or ", choices(others.iter().map(String::as_str), "or"))
    };
    Diagnostic::error(
        Code::UnsuitablePolicy,
        place,
        format!("the policy `{name}` is for one CPU, and {whose} has {}", cpus.len()),
    )
    .label(format!("{whose} is {}", cpus_text(cpus)))
    .hint(format!("{instead}make {make}"))
}

/// CPUs that the machine does not have. `named` is the part of the file that names them, as in `the window`.
pub(crate) fn foreign_cpus(place: &Place, foreign: &CpuSet, machine: &CpuSet, named: &str) -> Diagnostic {
    Diagnostic::error(Code::CpuOutside, place, format!("{} outside the machine", cpus_text(foreign)))
        .label(format!("the machine is {}", cpus_text(machine)))
        .hint(number_not_count(machine).unwrap_or_else(|| {
            format!("give {named} CPUs of the machine, or add CPUs to the machine: `cpus` in the file, or `--cpus`")
        }))
}

/// The difference between `cpus: 2` and `--cpus 2`, if the machine is one CPU whose number may have been meant as a count.
#[must_use]
pub fn number_not_count(machine: &CpuSet) -> Option<String> {
    let number = machine.iter().next().filter(|number| machine.len() == 1 && *number > 0)?;
    let so_many = match number {
        1 => "one CPU is `cpus: 0`".to_owned(),
        _ => format!("{number} CPUs are `cpus: 0-{}`", number - 1),
    };
    Some(format!(
        "`cpus: {number}` is a list that names CPU {number} alone; {so_many}, or `--cpus {number}` for this command"
    ))
}

/// The policy of window tables, or of domains, for tasks alone.
pub(crate) fn needs_a_table(policy: &PolicySpec, place: &Place, label: &str) -> Diagnostic {
    Diagnostic::error(Code::MissingKey, place, format!("the policy `{0}` needs `{0}`", policy.profile.name))
        .label(label)
        .hint("choose an online policy such as `edf`; `takt policies` lists them")
}

/// `--copies` where nothing can be copied.
pub(crate) fn no_copies(place: &Place, what: &str) -> Diagnostic {
    Diagnostic::error(Code::NotSupportedHere, place, format!("`--copies` says nothing of {what}"))
        .label("no task with `copies`")
        .hint("leave it out; the `tasks` of a YAML file can have copies")
}

pub(crate) fn no_policy(place: &Place) -> Diagnostic {
    Diagnostic::error(Code::MissingPolicy, place, "no policy is set for these tasks")
        .label("nothing says how to schedule them")
        .hint("add `policy: edf` to the file, or `--policy edf` to the command line")
}

pub(crate) fn with_placement(mut policy: PolicySpec, placement: Option<Placement>) -> PolicySpec {
    if policy.placement == Placement::DEFAULT {
        policy.placement = placement.unwrap_or(policy.placement);
    }
    policy
}

/// Warns of a `placement` beside a policy that assigns no tasks to CPUs.
pub(crate) fn placement_matters(reader: &mut Reader, node: &Node, policy: &PolicySpec) {
    if let Some(entry) = node.get("placement").filter(|_| !policy.uses_placement()) {
        let name = policy_name(policy);
        let fault =
            Diagnostic::warning(Code::NoEffect, &entry.key_span, format!("`placement` has no effect under `{name}`"));
        let label = "a rule for policies that assign tasks to CPUs";
        reader.push(fault.label(label).hint("remove it, or use a partitioned policy such as `p-edf`"));
    }
}
