//! Tasks that can overload their CPUs, because their events have no least distance.

use crate::Workload;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::policy::policy_name;
use crate::process::EventSource;
use crate::text::clipped;
use takt_core::model::{Arrival, Order, PolicySpec, Task, TaskId};
use takt_core::time::Span;

impl Workload {
    /// Warnings about tasks whose events can come so often that other tasks of the same policy miss their deadlines. O(tasks²).
    #[must_use]
    pub fn unbounded_events(&self) -> Vec<Diagnostic> {
        let all: Vec<TaskId> = (0..self.system.tasks.len() as u32).map(TaskId).collect();
        let parts = self.system.domains.iter().map(|domain| (&domain.tasks, domain.policy));
        let parts: Vec<_> = match self.system.domains.is_empty() {
            true => vec![(&all, self.system.policy)],
            false => parts.collect(),
        };
        let mut found = Vec::new();
        for (tasks, policy) in parts.into_iter().filter(|_| self.system.windows.is_empty()) {
            let is_of_kernel = |task: TaskId| self.tasks[task.index()].class.is_some();
            // Changes of the file and commands come as often as their authors say, and the budget of a segment bounds it.
            let is_outside = |task: &TaskId| {
                let source = self.tasks[task.index()].event.as_deref();
                source.is_some_and(|source| *source != EventSource::Segments)
            };
            let own: Vec<TaskId> = tasks.iter().copied().filter(|task| !is_of_kernel(*task)).collect();
            let task_of = |task: &TaskId| &self.system.tasks[task.index()];
            for id in own.iter().filter(|task| is_outside(task)) {
                let task = task_of(id);
                let suffers = |other: &TaskId| other != id && can_delay(&policy, task, task_of(other));
                let Some(other) = own.iter().find(|other| suffers(other)) else { continue };
                let [name, other] = [id, other].map(|task| clipped(&self.tasks[task.index()].name));
                let policy = policy_name(&policy);
                let message = format!("task `{name}` is released by events without a least distance");
                let fault = Diagnostic::warning(Code::UnboundedEvents, &self.place(*id), message);
                let label = format!("when they come fast enough, its jobs make `{other}` late under `{policy}`");
                let hint = "write `distance: 10ms` into its `event`, or give it a server or a policy with reservations, such as `cbs`";
                found.push(fault.label(label).hint(hint));
            }
        }
        found
    }
}

/// Whether events without a least distance let one task delay another one, which has a deadline, without a bound.
fn can_delay(policy: &PolicySpec, task: &Task, other: &Task) -> bool {
    let unbounded = matches!(task.arrival, Arrival::Event { distance: Span::ZERO, after: None, .. });
    let apart = other.deadline.is_none() || other.affinity.is_disjoint(&task.affinity);
    // A budget bounds what its jobs take.
    let bounded = task.server.is_some() || policy.reservations().is_some() || policy.gives_shares();
    if !unbounded || apart || bounded {
        return false;
    }
    match policy.order() {
        // Jobs of a task take turns with those of others, one at a time.
        Some(Order::Turn) => false,
        Some(Order::Priority) => task.priority >= other.priority,
        Some(Order::Readiness) => true,
        // Without a deadline its jobs come after all others.
        _ => task.deadline.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Code, Options, Source};

    /// The tasks that are warned of.
    fn found(policy: &str, tasks: &str) -> Vec<String> {
        let text = format!("policy: {policy}\ntasks:\n{tasks}");
        let source = Source { name: "w.yaml".into(), text: text.clone() };
        let workload = crate::load(source, &Options::default()).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        let warnings = workload.unbounded_events();
        assert!(warnings.iter().all(|warning| warning.code == Code::UnboundedEvents));
        let name = |message: &str| message.split('`').nth(1).unwrap_or_default().to_owned();
        warnings.iter().map(|warning| name(&warning.message)).collect()
    }

    #[test]
    fn events_without_a_distance_are_reported_where_the_policy_lets_them_delay_others() {
        let event = |more: &str| {
            format!(
                "- {{name: e, event: {{signal: USR1{}}}, runtime: 1ms, deadline: 5ms{more}}}\n\
                 - {{name: p, period: 20ms, runtime: 2ms, priority: 3}}\n",
                if more.contains("apart") { ", distance: 10ms" } else { "" }
            )
            .replace(", apart: yes", "")
        };
        for (policy, more, warned) in [
            ("edf", "", true),
            ("edf", ", apart: yes", false),
            ("fifo", "", true),
            ("llf", "", true),
            ("np-edf", "", true),
            ("dm", "", true),
            ("fp", ", priority: 3", true),
            ("fp", ", priority: 2", false),
            ("rr", "", false),
            ("cbs", ", reservation: {budget: 1ms, period: 10ms}", false),
        ] {
            let tasks = event(more);
            assert_eq!(found(policy, &tasks), if warned { vec!["e"] } else { vec![] }, "{policy} {more}");
        }
        let alone = "- {name: e, event: {signal: USR1}, runtime: 1ms, deadline: 5ms}\n";
        assert!(found("edf", alone).is_empty(), "there is no other task");
        let after =
            "- {name: e, event: {after: p}, runtime: 1ms, deadline: 9ms}\n- {name: p, period: 20ms, runtime: 2ms}\n";
        assert!(found("edf", after).is_empty(), "its events come as often as jobs of the other task");
    }
}
