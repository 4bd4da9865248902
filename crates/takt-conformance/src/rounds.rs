//! The order of I+PI: in a round each task runs once at most, the newest first.

use crate::ledger::Ledger;
use takt_core::engine::{Engine, Input};
use takt_core::model::TaskId;
use takt_core::record::{Place, Record, RecordKind};

/// Facts about the rounds.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// By task: the later it came to its CPU, the higher; and which one that is.
    age: Vec<i64>,
    place: Vec<Option<Place>>,
    gone: Vec<bool>,
    /// By CPU: the task that ran last in the present round.
    last: Vec<Option<TaskId>>,
    /// By CPU: the round began by other settings.
    unsure: Vec<bool>,
    came: i64,
}

impl Rounds {
    pub(crate) fn follow(
        &mut self,
        ledger: &Ledger,
        inputs: &[Input],
        records: &[Record],
        begins: &[bool],
        engine: &Engine,
    ) {
        let tasks = begins.len();
        if self.age.is_empty() {
            (self.age, self.place, self.gone) = (vec![0; tasks], vec![None; tasks], vec![false; tasks]);
            let places = ledger.places.len();
            (self.last, self.unsure, self.came) = (vec![None; places], vec![false; places], tasks as i64);
        }
        if begins.contains(&true) {
            self.last.fill(None);
        }
        for (index, _) in begins.iter().enumerate().filter(|(_, begins)| **begins) {
            (self.age[index], self.place[index]) = (index as i64, engine.home(TaskId(index as u32)));
        }
        for input in inputs {
            if let Input::Enter { task } = *input
                && self.gone[task.index()]
            {
                self.joins(task);
            }
        }
        for (gone, account) in self.gone.iter_mut().zip(&ledger.accounts) {
            *gone = account.gone;
        }
        for index in 0..tasks {
            let task = TaskId(index as u32);
            if ledger.policy_of(task).0.profile.name != "ipi" {
                continue;
            }
            let home = engine.home(task);
            if core::mem::replace(&mut self.place[index], home) != home {
                self.joins(task);
            }
        }
        for record in records {
            match record.kind {
                RecordKind::Round { place, .. } => {
                    (self.last[place.index()], self.unsure[place.index()]) = (None, false);
                }
                RecordKind::Configure { .. } => self.unsure.fill(true),
                RecordKind::Start { task, place, .. } => self.start(ledger, task, place),
                _ => {}
            }
        }
    }

    fn joins(&mut self, task: TaskId) {
        self.age[task.index()] = self.came;
        self.came += 1;
    }

    fn start(&mut self, ledger: &Ledger, task: TaskId, place: Place) {
        let (spec, _) = ledger.policy_of(task);
        if spec.profile.name != "ipi" {
            return;
        }
        // Where tasks run out of turn that wake up, the order is no order.
        let by_default = if spec.value("preset") == Some(1) { 3 } else { 0 };
        if spec.value("wake").unwrap_or(by_default) > 1 || self.unsure[place.index()] {
            return;
        }
        let Some(before) = self.last[place.index()].replace(task).filter(|before| *before != task) else { return };
        // Each band of the CPU has rounds of its own.
        if ledger.domain_of(before) != ledger.domain_of(task) {
            return;
        }
        let (older, newer) = (self.age[task.index()], self.age[before.index()]);
        assert!(older < newer, "{task:?} runs after {before:?} in a round although it is ahead of it");
    }
}
