//! Tasks that the kernel schedules (`class`), as a part of the engine's system.
//!
//! The engine releases their jobs and counts their outcomes like those of all tasks. So each of them has a domain of its own with one
//! imaginary CPU, on which the engine dispatches each job at its release. Imaginary CPUs have the highest numbers, so they depend on the
//! file alone, and a replay has the same.
//!
//! The imaginary CPUs are added when a workload is run or replayed, and not when it is read, so checks leave these tasks out. Their
//! budget without end makes the engine ask for their CPU time. The supervisor sets the class while the process is frozen, so a refusal
//! comes before anything has run.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::domains::domains_policy;
use crate::process::Class;
use crate::value::MAX_DURATION;
use crate::workload::{Handed, Workload};
use takt_core::cpus::{CpuSet, MAX_CPUS};
use takt_core::input::Input;
use takt_core::model::{Arrival, Domain, Late, OnAbort, PolicySpec, Scope, TaskId};
use takt_core::policies::fp;

/// Whether [`Workload::hand_over`] can be done.
pub(crate) fn can_hand_over(workload: &Workload) -> Result<(), Diagnostic> {
    let of_kernel = || {
        let tasks = (0..).map(TaskId).zip(&workload.tasks);
        tasks.filter_map(|(id, info)| info.class.map(|class| (id, info, class)))
    };
    let highest = workload.system.cpus.iter().last().unwrap_or(0);
    if let Some((task, ..)) = of_kernel().nth(MAX_CPUS - 1 - highest) {
        let message = "there are too many tasks of the kernel's classes".to_owned();
        let fault = Diagnostic::error(Code::LimitExceeded, &workload.place(task), message);
        let label = format!("with this one, tasks and CPUs of the machine are more than {MAX_CPUS}");
        return Err(fault.label(label).hint("split the workload into several runs"));
    }
    for (task, info, _) in of_kernel() {
        let signalled = info.on_abort == Some(OnAbort::Signal) || workload.system.tasks[task.index()].handler.is_some();
        if workload.system.late != Late::Continue && !signalled {
            let message = format!("task `{}` is not stopped at its deadline", info.name);
            return Err(Diagnostic::error(Code::NotSupportedHere, &workload.place(task), message)
                .label("`late: abort` stops jobs, and Takt never stops a process of the kernel's classes")
                .hint("add `on_abort: signal` to the task, or write `late: continue`"));
        }
    }
    let at = workload.key_places.iter().find(|(key, _)| *key == "changes").map_or(0..0, |(_, place)| place.clone());
    for (_, change) in &workload.scenario.changes {
        match *change {
            Input::Configure { .. } => {
                let message = "a workload with `class` changes no settings of its policy";
                return Err(Diagnostic::error(Code::NotSupportedHere, &at, message)
                    .label("the policy is that of a domain then, which has no such changes")
                    .hint("change to the policy with the other settings, as in `policy: \"rr:quantum=2ms\"`"));
            }
            Input::Retime { task, .. } if workload.tasks[task.index()].class == Some(Class::Deadline) => {
                let name = &workload.tasks[task.index()].name;
                return Err(Diagnostic::error(
                    Code::NotSupportedHere,
                    &at,
                    format!("the period of task `{name}` cannot change"),
                )
                .label("its process keeps the parameters of SCHED_DEADLINE that it was given")
                .hint("remove the change, or use another class"));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Workload {
    /// Gives each task of the kernel's classes a domain with an imaginary CPU, and the other tasks a domain with the policy of the file, if
    /// the file has no domains. A workload without such tasks stays as it is. O(tasks).
    pub fn hand_over(&mut self) {
        if self.handed.is_some() || !self.has_classes() {
            return;
        }
        let of_kernel = |task: &TaskId| self.tasks[task.index()].class.is_some();
        let (machine, system) = (self.system.cpus, &mut self.system);
        let one_policy = system.domains.is_empty();
        if one_policy {
            let policy = std::mem::replace(&mut system.policy, domains_policy());
            let tasks = (0..system.tasks.len() as u32).map(TaskId).collect();
            system.domains.push(Domain { cpus: machine, tasks, policy, band: 0 });
            self.domains.push("takt".to_owned());
            for (_, change) in &mut self.scenario.changes {
                if let Input::Switch { domain: domain @ None, .. } = change {
                    *domain = Some(0);
                }
            }
        }
        system.domains.iter_mut().for_each(|domain| domain.tasks.retain(|task| !of_kernel(task)));
        let own_domains = system.domains.len();
        let (mut cpus, mut affinities) = (CpuSet::EMPTY, vec![None; system.tasks.len()]);
        for task in (0..system.tasks.len() as u32).map(TaskId).filter(of_kernel) {
            let cpu = CpuSet::single(MAX_CPUS - 1 - cpus.len());
            affinities[task.index()] = Some(system.tasks[task.index()].affinity);
            system.tasks[task.index()].affinity = cpu;
            // No job uses it up. With a budget of CPU time, what a job consumes is measured.
            system.tasks[task.index()].budget = Some(MAX_DURATION);
            let policy = PolicySpec::new(&fp::ENTRY.profile, Scope::Uniprocessor);
            system.domains.push(Domain { cpus: cpu, tasks: vec![task], policy, band: 0 });
            self.domains.push(self.tasks[task.index()].name.clone());
            cpus = cpus.union(&cpu);
        }
        system.cpus = machine.union(&cpus);
        self.handed = Some(Box::new(Handed { cpus, affinities, own_domains, one_policy }));
    }

    /// The part of the workload that Takt schedules: without the tasks of the kernel's classes. Jobs that they release are released by events from outside.
    /// O(size of the workload).
    #[must_use]
    pub fn without_classes(&self) -> Workload {
        if !self.has_classes() || self.handed.is_some() {
            return self.clone();
        }
        let mut own = self.clone();
        let mut next = 0;
        let numbers: Vec<Option<TaskId>> = (self.tasks.iter())
            .map(|task| {
                task.class.is_none().then(|| {
                    next += 1;
                    TaskId(next - 1)
                })
            })
            .collect();
        let number = |task: &TaskId| numbers[task.index()];
        let mut stays = numbers.iter().map(Option::is_some);
        own.tasks.retain(|task| task.class.is_none());
        own.system.tasks.retain(|_| stays.next().unwrap_or(true));
        let mut stays = numbers.iter().map(Option::is_some);
        own.places.retain(|_| stays.next().unwrap_or(true));
        for task in &mut own.system.tasks {
            if let Arrival::Event { after, .. } = &mut task.arrival {
                *after = after.as_ref().and_then(number);
            }
        }
        for domain in &mut own.system.domains {
            domain.tasks = domain.tasks.iter().filter_map(number).collect();
        }
        own.scenario.events.retain_mut(|(task, _)| number(task).map(|number| *task = number).is_some());
        own.scenario.changes.retain_mut(|(_, change)| match changed_task(change) {
            Some(task) => number(task).map(|number| *task = number).is_some(),
            None => true,
        });
        own
    }
}

/// The task that a change of the file is about.
fn changed_task(change: &mut Input) -> Option<&mut TaskId> {
    match change {
        Input::Share { task, .. }
        | Input::Retime { task, .. }
        | Input::Skew { task, .. }
        | Input::Block { task }
        | Input::Wake { task }
        | Input::Enter { task }
        | Input::Leave { task }
        | Input::Release { task } => Some(task),
        _ => None,
    }
}
