//! Rules about a workload as a whole.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::known::registry;
use crate::node::{Node, Place};
use crate::policy::policy_name;
use crate::reader::Reader;
use crate::text::{clipped, cpus_text};
use crate::value::ratio_text;
use crate::{Workload, kernel, task};
use takt_core::cpus::CpuSet;
use takt_core::model::{Arrival, Backlog, Invalid, Locking, PolicySpec, Step, System, Task, TaskId};
use takt_core::policy::Build;
use takt_core::record::Place as CpuPlace;

/// Checks what can be seen only when all tasks are known; `heads` is where messages about each of them point.
pub(crate) fn whole(reader: &mut Reader, root: &Node, workload: &Workload, heads: &[Place]) {
    if workload.system.backlog == Backlog::Hartstone {
        let infos = workload.tasks.iter().map(|t| t.name.as_str());
        for ((task, name), head) in workload.system.tasks.iter().zip(infos).zip(heads) {
            hartstone(reader, task, name, head);
        }
    }
    if let Some(list) = root.get("tasks") {
        shares(reader, &list.key_span, workload);
    }
    if let Some(entry) = root.get("locking").or(root.get("resources")) {
        protocol(reader, &entry.key_span, workload);
    }
}

/// Whether the policy takes the system. The rules of this crate are finer than the engine's and name a place; a rule of a policy
/// alone is found here, by building it.
pub(crate) fn buildable(workload: &Workload, policy: &Place) -> Result<(), Diagnostic> {
    if workload.has_classes() && workload.handed.is_none() {
        kernel::can_hand_over(workload)?;
        let mut handed = workload.clone();
        handed.hand_over();
        return buildable(&handed, policy);
    }
    let system = &workload.system;
    let fault =
        |at: &Place, why: &dyn std::fmt::Display| Err(Diagnostic::error(Code::UnsuitablePolicy, at, why.to_string()));
    system.validate().or_else(|e| fault(policy, &workload.named(&e.to_string())))?;
    let tasks: Vec<TaskId> = (0..system.tasks.len() as u32).map(TaskId).collect();
    let whole = (&tasks, system.cpus, system.policy);
    let parts = system.domains.iter().map(|d| (&d.tasks, d.cpus, d.policy));
    let refused = parts.chain([whole]).find_map(|(t, c, p)| builds(system, &p, t, &c).err().map(|why| (why, p)));
    let Some((why, spec)) = refused else { return Ok(()) };
    let name = policy_name(&spec);
    let (Invalid::Needs(task, _) | Invalid::Affinity(task) | Invalid::Apart(task, _) | Invalid::Constrained(task)) =
        why
    else {
        return fault(policy, &why).map_err(|e| {
            e.label(format!("the policy `{name}` does not take this")).hint("change it, or use another policy")
        });
    };
    let (head, called) = (&workload.place(task), clipped(&workload.tasks[task.index()].name));
    let (code, message, hint) = match why {
        Invalid::Apart(_, what) => {
            let fault =
                Diagnostic::error(Code::UnsuitablePolicy, head, format!("task `{called}` cannot share its server"));
            let fault = fault.label(format!("it has no {what} in common with the tasks before it behind that server"));
            let hint = if what == "CPU" { "change its `cpu`" } else { "put all of them into one" };
            return Err(fault.hint(format!("{hint}, or give it another server")));
        }
        Invalid::Constrained(_) => {
            let fault = Diagnostic::error(
                Code::UnsuitablePolicy,
                head,
                format!("the reservation of task `{called}` has a `deadline`"),
            );
            let fault = fault.label(format!("under `{name}` that is always the end of its period"));
            return Err(fault.hint("remove `deadline` from the reservation, or use `cbs`"));
        }
        Invalid::Needs(_, what) => (
            Code::MissingKey,
            format!("task `{called}` has no `{what}`"),
            format!("add `{what}: {}`", task::example(what)),
        ),
        _ => (
            Code::UnsuitablePolicy,
            format!("task `{called}` may run on no CPU of its policy"),
            "change its `cpu`".to_owned(),
        ),
    };
    let fault = Diagnostic::error(code, head, message).label(format!("the policy `{name}` needs it"));
    Err(fault.hint(format!("{hint}, or use another policy")))
}

/// Whether the policy takes these tasks on these CPUs.
pub(crate) fn builds(system: &System, spec: &PolicySpec, tasks: &[TaskId], cpus: &CpuSet) -> Result<(), Invalid> {
    let there = system.cpus.iter().enumerate().filter(|(_, cpu)| cpus.contains(*cpu));
    let places: Vec<CpuPlace> = there.map(|(index, _)| CpuPlace(index as u16)).collect();
    Build { system, tasks, places: &places, spec: *spec, first_timer: 0, registry: registry() }.policy().map(drop)
}

/// Hartstone's preset counts misses by periods.
fn hartstone(reader: &mut Reader, task: &Task, name: &str, place: &Place) {
    let (label, hint) = match (&task.arrival, task.deadline) {
        (Arrival::Event { .. }, _) => ("its jobs are released by events".to_owned(), "remove `event`"),
        (_, None) => return,
        (Arrival::Periodic { period, .. }, Some(deadline)) if deadline == *period => return,
        (Arrival::Periodic { period, .. }, Some(deadline)) => {
            (format!("its deadline is {deadline}, its period {period}"), "remove `deadline`")
        }
        (Arrival::Sporadic { .. }, _) => ("its releases have a `spread`".to_owned(), "remove `spread`"),
        (_, Some(deadline)) => (format!("it has a deadline of {deadline} and no period"), "remove `deadline`"),
    };
    reader.push(
        Diagnostic::error(
            Code::PresetMismatch,
            place,
            format!("task `{}` does not suit `preset: hartstone`", clipped(name)),
        )
        .label(label)
        .hint(format!("that preset counts a miss for each period that has passed: {hint}, or the preset")),
    );
}

/// A protocol for resources under a policy that knows none.
fn protocol(reader: &mut Reader, place: &Place, workload: &Workload) {
    let system = &workload.system;
    let policies = system.partitions.iter().filter_map(|p| p.policy);
    let policies = policies.chain([system.policy]).chain(system.domains.iter().map(|d| d.policy));
    let policies = policies.chain(system.alternatives.iter().copied());
    let Some(deaf) = policies.into_iter().find(|p| p.ignores_locking()) else { return };
    let locks = system.tasks.iter().any(|t| t.program.steps.iter().any(|s| matches!(s, Step::Lock(_))));
    if locks && system.locking != Locking::Fifo {
        let name = policy_name(&deaf);
        reader.push(
            Diagnostic::warning(
                Code::NoEffect,
                place,
                format!("the policy `{name}` hands out resources in the order of asking"),
            )
            .label("and who holds one gets no more urgent by it")
            .hint("write `locking: fifo` to say so, or use another policy"),
        );
    }
}

/// Shares that cannot all be had.
fn shares(reader: &mut Reader, place: &Place, workload: &Workload) {
    let sum: u64 = workload.system.tasks.iter().filter_map(|t| t.share).map(u64::from).sum();
    let cpus = &workload.system.cpus;
    if sum > cpus.len() as u64 * 1_000_000 {
        let percent = ratio_text(sum as i64 * 100);
        reader.push(
            Diagnostic::warning(Code::Overload, place, "the shares are more than the machine has")
                .label(format!("together {percent} % of a CPU, and the machine is {}", cpus_text(cpus)))
                .hint(
                    "a policy that hands out shares scales them down by `importance` (overload rescaling); lower them if \
                     each is to be had",
                ),
        );
    }
}
