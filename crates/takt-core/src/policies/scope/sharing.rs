//! How urgent a job is that holds shared resources: priority inheritance and the immediate priority ceiling.
//!
//! Sha, Rajkumar, Lehoczky, "Priority Inheritance Protocols: An Approach to Real-Time Synchronization", IEEE Transactions on
//! Computers 39(9), 1990; Baker, "Stack-Based Scheduling of Realtime Processes", Real-Time Systems 3, 1991, for the ceiling
//! that holds from the moment of locking; Burns, "A Deadline-Floor Inheritance Protocol for EDF Scheduled Real-Time Systems
//! with Resource Sharing", technical report YCS-2012-476, University of York, 2012, for what that is under EDF.
//! Invariant: a job is at least as urgent as each job that waits for what it holds, through any number of others.

use super::urgency::Urgency;
use crate::model::{Locking, ResourceId, TaskId};
use crate::policy::{Build, Context};
use crate::time::Time;
use alloc::vec;
use alloc::vec::Vec;

/// Urgency of a task that has no job.
const NONE: Urgency = Urgency { rank: i64::MAX, release: Time::MAX };

/// Facts about jobs that share resources.
#[derive(Debug)]
pub(super) struct Sharing {
    ceilings: bool,
    /// By task: its tasks are those of this policy.
    mine: Vec<bool>,
    /// By task: what its job would have without resources, and what it has.
    own: Vec<Urgency>,
    effective: Vec<Urgency>,
    /// By task: what it waits for, as far as this policy was told.
    waits: Vec<Option<ResourceId>>,
    /// By resource: what its owner has had at least from the moment of locking.
    ceiling: Vec<Option<Urgency>>,
}

impl Sharing {
    /// `None` where jobs that hold resources rank like others: there are none, or they are handed out first come first served.
    pub(super) fn new(build: &Build<'_>) -> Option<Sharing> {
        let system = build.system;
        let n = system.tasks.len();
        let mut mine = vec![false; n];
        build.tasks.iter().for_each(|t| mine[t.index()] = true);
        (system.resources > 0 && system.locking != Locking::Fifo).then(|| Sharing {
            ceilings: system.locking == Locking::Ceiling,
            mine,
            own: vec![NONE; n],
            effective: vec![NONE; n],
            waits: vec![None; n],
            ceiling: vec![None; usize::from(system.resources)],
        })
    }

    /// The task's job now ranks so without resources; its effective urgency is to be settled.
    pub(super) fn set_own(&mut self, task: TaskId, own: Urgency) {
        self.own[task.index()] = own;
    }

    pub(super) fn own(&self, task: TaskId) -> Urgency {
        self.own[task.index()]
    }

    pub(super) fn effective(&self, task: TaskId) -> Urgency {
        self.effective[task.index()]
    }

    /// Notes what the task waits for, and says what it waited for before.
    pub(super) fn waits(&mut self, task: TaskId, resource: Option<ResourceId>) -> Option<ResourceId> {
        core::mem::replace(&mut self.waits[task.index()], resource)
    }

    /// Whether a resource that was just locked wants a ceiling: under that protocol, and the first time that its owner asks.
    pub(super) fn wants_ceiling(&self, resource: ResourceId) -> bool {
        self.ceilings && self.ceiling[usize::from(resource.0)].is_none()
    }

    pub(super) fn set_ceiling(&mut self, resource: ResourceId, ceiling: Option<Urgency>) {
        self.ceiling[usize::from(resource.0)] = ceiling;
    }

    pub(super) fn is_mine(&self, task: TaskId) -> bool {
        self.mine[task.index()]
    }

    /// The holder of a resource, if this policy ranks it: a partition of a window table leaves the others' jobs alone.
    pub(super) fn holder(&self, resource: ResourceId, cx: &Context<'_>) -> Option<TaskId> {
        cx.owner(resource).filter(|t| self.is_mine(*t))
    }

    /// Works out the task's urgency from those that wait for what it holds. Whether it has changed. O(resources + waiters).
    pub(super) fn refresh(&mut self, task: TaskId, cx: &mut Context<'_>) -> bool {
        let mut urgency = self.own[task.index()];
        for resource in (0..self.ceiling.len()).map(|r| ResourceId(r as u16)) {
            if cx.owner(resource) == Some(task) {
                urgency = self.ceiling[usize::from(resource.0)].map_or(urgency, |c| urgency.min(c));
                let waiters = cx.waiters(resource).filter(|w| self.mine[w.index()]);
                urgency = waiters.map(|w| self.effective[w.index()]).fold(urgency, Urgency::min);
            }
        }
        cx.set_urgency(task, urgency.rank);
        core::mem::replace(&mut self.effective[task.index()], urgency) != urgency
    }
}
