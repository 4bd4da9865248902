//! The host of all servers for aperiodic work.

use super::queues::Queues;
use super::rule::Rule;
use crate::cpus::CpuSet;
use crate::model::{Invalid, TaskId, Terms};
use crate::policies::scope;
#[cfg(feature = "order")]
use crate::policy::Standing;
use crate::policy::{Build, Context, Decision, Event, Policy};
use crate::record::Place;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Builds the policy that goes by this rule.
///
/// # Errors
/// A uniprocessor scope over several CPUs, a task that may run on none of the CPUs lent, and tasks that cannot stand behind one
/// server.
pub fn build<R: Rule>(build: &Build<'_>) -> Result<Box<dyn Policy>, Invalid> {
    scope::check(build)?;
    build.knows_whole_periods()?;
    together(build)?;
    Ok(Box::new(Aperiodic::<R>(Queues::new(build))))
}

/// Whether all tasks of a shared server have this policy, and a CPU in common. O(tasks + servers).
fn together(build: &Build<'_>) -> Result<(), Invalid> {
    let system = build.system;
    let numbers: Vec<usize> = system.cpus.iter().collect();
    let cpus: CpuSet = build.places.iter().map(|p| numbers[p.index()]).collect();
    // A partition that no window names is lent nothing at all, which is for the table check to say.
    let cpus = if cpus.is_empty() { system.cpus } else { cpus };
    let mut mine = vec![false; system.tasks.len()];
    build.tasks.iter().for_each(|task| mine[task.index()] = true);
    let mut before: Vec<Option<(bool, CpuSet)>> = vec![None; system.servers.len()];
    for (id, task) in (0..).map(TaskId).zip(&system.tasks) {
        let Some(server) = task.server else { continue };
        let (here, usable) = (mine[id.index()], task.affinity.intersection(&cpus));
        match &mut before[server.index()] {
            first @ None => *first = Some((here, usable)),
            Some((others, _)) if *others != here => return Err(Invalid::Apart(id, "domain or partition")),
            Some((_, common)) => {
                *common = common.intersection(&usable);
                if here && common.is_empty() {
                    return Err(Invalid::Apart(id, "CPU"));
                }
            }
        }
    }
    Ok(())
}

struct Aperiodic<R>(Queues<R>);

impl<R: Rule> Policy for Aperiodic<R> {
    fn start(&mut self, cx: &mut Context<'_>) {
        self.0.reset(cx);
    }

    fn event(&mut self, event: &Event, cx: &mut Context<'_>) {
        #[cfg(feature = "order")]
        if let Event::Wake { task } | Event::Finish { task, .. } | Event::Handler { task, .. } = *event {
            self.0.is_not_blocked(task);
        }
        match *event {
            Event::Release { task, .. } | Event::Wake { task } => self.0.enter(task, cx),
            Event::Finish { task, consumed, .. } => {
                self.0.charge(task, consumed);
                self.0.over(task, cx);
            }
            Event::Block { task, consumed } => {
                self.0.charge(task, consumed);
                self.0.leave(task, cx);
                #[cfg(feature = "order")]
                self.0.blocks(task, cx);
            }
            Event::BudgetExpired { task, consumed } => {
                self.0.charge(task, consumed);
                self.0.told(task);
                self.0.settle_of(task, cx);
            }
            Event::Handler { task, consumed, .. } => {
                self.0.charge(task, consumed);
                self.0.over(task, cx);
                self.0.enter(task, cx);
            }
            Event::Yield { task, consumed } => {
                self.0.charge(task, consumed);
                self.0.yields(task, cx);
            }
            Event::Timer { timer, .. } => self.0.timer(timer, cx),
            Event::Changed { task } => self.0.place(task, cx),
            // A job that holds a resource is no more urgent by it.
            Event::Lock { .. } | Event::Unlock { .. } | Event::Deadline { .. } | Event::Exit { .. } => return,
        }
        self.0.arm_timers(cx);
    }

    fn decide(&mut self, lent: &[Place], cx: &mut Context<'_>, decision: &mut Decision) {
        self.0.decide(lent, cx, decision);
        self.0.arm_timers(cx);
    }

    fn home(&self, task: TaskId) -> Option<Place> {
        self.0.first_cpu(task)
    }

    #[cfg(feature = "order")]
    fn order(&self, cx: &Context<'_>, show: &mut dyn FnMut(Standing<'_>)) {
        self.0.order(cx, show);
    }

    fn timers(&self) -> u16 {
        self.0.timers()
    }

    fn meters(&self) -> bool {
        true
    }

    /// The reservation stays as it is.
    fn admits(&self, task: TaskId, terms: &Terms, cx: &Context<'_>) -> bool {
        terms.reservation == cx.task(task).reservation
    }
}

/// The common part of the manual pages of all servers.
macro_rules! shared {
    () => {
        "\
**Several tasks.** Tasks with `server: NAME` share the server of that name, with one budget and one queue. Their jobs are
served in the order of their releases; at the same instant the job of the lower task is first. While a job sleeps, the next
one runs; when it wakes up, it goes ahead of later ones. Such a server has a `priority` of its own, and its tasks have a CPU
in common.

**Settings.** `by` is the rank of tasks and servers: `period` (rate monotonic; the default), `priority` of the task (a higher
number first), or `deadline` (EDF). With `background: yes` jobs of a server without budget run after all others, which is not
charged.

**Budgets of tasks.** A `budget` of a task limits each of its jobs, as under other policies: a job that exhausts it is
aborted. The budget of the server aborts no job and is constant: a call that would change the reservation is refused.

**Several CPUs.** The partitioned form packs servers by Q / P, each with all its tasks, and other tasks by runtime and
period. The guarantee then holds on each CPU. There is no global form.

**Resources.** They are granted to the most urgent waiting job, without priority inheritance. The holder of a resource waits
for its server's budget, too.

**Ties.** The earlier release first, then the lower task number; a job that yields goes behind those of the same rank.

"
    };
}
pub(super) use shared;
