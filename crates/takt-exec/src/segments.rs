//! Real-time segments: the jobs of a program that otherwise runs as an ordinary process (`docs/protocol.md`).
//!
//! A program begins a segment by a request that names its terms. That is an event, which releases a job of its task. The job ends with the
//! segment. Outside of segments the process is not frozen, and has the ordinary class. After an abort the program leaves the segment as an
//! ordinary process, so it delays no other job.
//!
//! As everything that the scheduler thread does, this neither allocates nor blocks.
//!
//! A process is frozen when it begins a segment, although it waits by protocol: its class changes there, and a program that does not wait
//! gains nothing.

use crate::actuator::Actuator;
use crate::life::{Program, Resume};
use crate::scheduler::{Refused, Scheduler, Setup};
use crate::slot::Awaited;
use crate::terms::Terms;
use std::io;
use takt_abi::{Kind, Request, Status};
use takt_core::engine::Input;
use takt_core::model::TaskId;
use takt_core::record::JobId;
use takt_linux::rt::Class;

impl<A: Actuator> Setup<A> {
    /// The process leaves its segment, or has none yet: it runs as an ordinary one. `job` is the segment if it was aborted.
    pub(crate) fn leave_segment(&mut self, task: TaskId, job: Option<JobId>) -> io::Result<()> {
        let Setup { actuator, slots, dispatcher, .. } = self;
        let slot = &mut slots[task.index()];
        slot.program = Program::Outside { job };
        dispatcher.changed_class(task);
        actuator.set_leader_class(slot.group, Class::Other)?;
        actuator.start(slot.group)
    }

    /// The process waits for the dispatch of its segment, frozen and in the class of the schedule.
    pub(crate) fn enter_segment(&mut self, task: TaskId) -> io::Result<()> {
        let Setup { actuator, slots, classes, dispatcher, .. } = self;
        dispatcher.changed_class(task);
        let slot = &slots[task.index()];
        actuator.stop(slot.group)?;
        match classes[task.index()] {
            Class::Other => Ok(()),
            class => actuator.set_leader_class(slot.group, class),
        }
    }

    /// A new process of a task with segments begins to run outside of them.
    pub(crate) fn begin_outside(&mut self, task: TaskId) -> io::Result<()> {
        let left = self.leave_segment(task, None);
        if self.slots[task.index()].asked.waits_for == Some(Awaited::Job) {
            self.answer(task, Status::Done);
        }
        if let Resume::Here(by) = &self.slots[task.index()].resume {
            let _ = self.actuator.resume(by);
        }
        left
    }
}

impl<A: Actuator> Scheduler<A> {
    /// All programs with segments begin to run.
    pub(crate) fn begin_segments(&mut self) {
        for task in (0..self.setup.slots.len() as u32).map(TaskId) {
            let slot = &self.setup.slots[task.index()];
            if slot.segments.is_some() && matches!(slot.program, Program::New | Program::Waiting) {
                let done = self.setup.begin_outside(task);
                self.note(task, Refused::Leave, done);
            }
        }
    }

    /// Handles a request of a program that is outside of its segments. `job` is the one that was aborted and not ended. Its fields are untrusted.
    pub(crate) fn asked_outside(&mut self, task: TaskId, request: Request, job: Option<JobId>) {
        let slot = &mut self.setup.slots[task.index()];
        let Some(declared) = slot.segments else { return };
        slot.asked.number = request.number;
        match request.kind {
            Some(Kind::Begin) => {
                let Some(terms) = declared.with(request.arguments) else {
                    return self.setup.answer(task, Status::Invalid);
                };
                let Terms { deadline, runtime, utility } = terms;
                slot.program = Program::Waiting;
                slot.asked.waits_for = Some(Awaited::Job);
                // A segment that begins ends the one before.
                self.inputs.extend(job.map(|job| Input::Complete { task, job }));
                self.inputs.push(Input::Terms { task, deadline, runtime, utility });
                self.inputs.push(Input::Release { task });
                let done = self.setup.enter_segment(task);
                self.note(task, Refused::Enter, done);
            }
            Some(Kind::End) if job.is_some() => {
                slot.program = Program::Outside { job: None };
                self.inputs.extend(job.map(|job| Input::Complete { task, job }));
                self.setup.answer(task, Status::Aborted);
            }
            Some(Kind::Statistics) => self.ask_step(task, Kind::Statistics),
            Some(Kind::End) => self.setup.answer(task, Status::Refused),
            _ => self.setup.answer(task, Status::Invalid),
        }
    }

    /// The program ends its segment.
    pub(crate) fn end_segment(&mut self, task: TaskId, job: JobId) {
        self.inputs.push(Input::Complete { task, job });
        let done = self.setup.leave_segment(task, None);
        self.note(task, Refused::Leave, done);
        self.setup.slots[task.index()].rings.ended_segment();
        self.setup.answer(task, Status::Done);
    }

    /// Jobs of tasks with segments whose programs have not begun them: the process that did has been replaced. They are aborted in the next step.
    pub(crate) fn abort_orphans(&mut self) {
        for index in 0..self.segmented.len() {
            let task = self.segmented[index];
            let open = self.setup.engine.job(task).map(|job| job.number);
            if let Program::Outside { job } = self.setup.slots[task.index()].program
                && open.is_some()
                && open != job
            {
                self.inputs.push(Input::Abort { task });
            }
        }
    }

    /// After a step: programs leave segments that were aborted or will never begin.
    pub(crate) fn leave_aborted(&mut self) {
        for index in 0..self.segmented.len() {
            let task = self.segmented[index];
            let (engine, slot) = (&self.setup.engine, &self.setup.slots[task.index()]);
            let open = engine.job(task).map(|job| job.number);
            let left = match slot.program {
                Program::At { job, .. } if open != Some(job) => Some(job),
                Program::Waiting if open.is_none() && !engine.is_planned(task) => None,
                _ => continue,
            };
            let (abort_signal, waits) = (slot.abort_signal.filter(|_| left.is_some()), slot.asked.waits_for);
            self.setup.actuator.abort(task, left.unwrap_or(slot.asked.told));
            let done = self.setup.leave_segment(task, left);
            self.note(task, Refused::Leave, done);
            if waits.is_some() {
                self.setup.answer(task, Status::Aborted);
            }
            if let Some(signal) = abort_signal {
                // It concerns this process only, which may have ended.
                let _ = self.setup.actuator.signal(self.setup.slots[task.index()].group, signal);
            }
        }
    }
}
