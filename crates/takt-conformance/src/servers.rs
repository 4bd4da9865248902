//! The order of policies with servers for aperiodic work: one queue for each CPU, by the ranks of tasks and of servers.

use crate::ledger::Ledger;
use crate::standing::{LAST, Standing};
use takt_core::engine::Engine;
use takt_core::model::TaskId;
use takt_core::time::{Span, Time};

/// Where the task's job stands. Whether a server has a budget is not known, so nothing is wrong if its job waits for others; but
/// its jobs are served in their order, and none runs before a task of a higher rank.
pub(crate) fn standing(ledger: &Ledger, task: TaskId, engine: &Engine) -> Option<Standing> {
    let (a, system) = (ledger.account(task), engine.system());
    let (spec, _) = ledger.policy_of(task);
    let (_, open) = a.current()?;
    let release = a.yielded.unwrap_or(open.release);
    let key = |rank: i64| [rank, release.ns(), i64::from(task.0), 0, 0];
    let (by_priority, by_deadline) = (spec.value("by") == Some(1), spec.value("by") == Some(2));
    let Some(server) = system.server(task) else {
        return Some(Standing::exactly(key(match () {
            () if by_priority => -i64::from(a.task.priority),
            () if by_deadline => open.deadline.unwrap_or(Time::MAX).ns(),
            () => a.task.arrival.period().map_or(i64::MAX, Span::ns),
        })));
    };
    let least = match () {
        () if by_priority => -i64::from(server.priority),
        () if by_deadline => i64::MIN,
        () => server.reservation.period.ns(),
    };
    let shared =
        system.tasks[task.index()].server.map_or(u64::from(task.0), |s| u64::from(u32::MAX) + 1 + s.index() as u64);
    Some(Standing { server: Some(shared), turn: (release, task), ..Standing::between(key(least), LAST) })
}
