//! The programs of simulated tasks: steps and execution times.
//!
//! A program is one pointer, null for a task without steps whose jobs take their declared runtime. Separate lists of tasks and programs
//! were rejected: priority ceilings are computed from the steps, and every reader would have to keep both lists consistent.

use super::calls::Call;
use super::ids::{ResourceId, TaskId};
use super::load::scaled;
use crate::rng;
use crate::time::Span;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

// Draws for different purposes must not be the same numbers.
const EXECUTION: u64 = 0x4558_4543_5554_494f;

/// One thing that a program does; the simulator carries it out. On Linux a job does what its program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It needs the CPU for so long.
    Run(Span),
    /// It blocks itself for so long: it sleeps or waits for a device.
    Sleep(Span),
    /// It asks for a resource and blocks until it has it.
    Lock(ResourceId),
    /// It gives a resource back.
    Unlock(ResourceId),
    /// It lets others run and stays ready.
    Yield,
    /// It asks for other terms, and keeps its present terms if the request is refused.
    Call(Call),
    /// Its job is done, and it continues with the next one (AIRS: `wait_period`).
    WaitPeriod,
}

/// How much CPU time jobs really need, whatever is declared. A job that needs more than its task's runtime overruns it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Execution {
    /// The declared runtime.
    #[default]
    Declared,
    /// Drawn evenly by (seed, task, job).
    Uniform {
        /// The least; above zero.
        least: Span,
        /// The most.
        most: Span,
    },
    /// Job k needs entry k, again from the start after the last one.
    Series(Vec<Span>),
}

/// The steps and demands of the jobs of a task.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Behaviour {
    /// The steps of the program, in order and again from the start after the end; empty is to run for the task's runtime. Each
    /// job does the steps up to the next [`Step::WaitPeriod`] or the end. The sum of its runs is what a job really needs and may
    /// differ from the runtime.
    pub steps: Vec<Step>,
    /// The execution times of jobs without `steps`.
    pub execution: Execution,
}

/// The program part of a task, which only a simulated program needs: a word for one whose jobs need what is declared. Memory for
/// more is allocated when it is written.
#[derive(Clone, Default, Debug)]
pub struct Program(Option<Box<Behaviour>>);

static AS_DECLARED: Behaviour = Behaviour { steps: Vec::new(), execution: Execution::Declared };

impl Program {
    /// One whose jobs need what is declared.
    pub const AS_DECLARED: Program = Program(None);

    /// One that does these steps.
    #[must_use]
    pub fn doing(steps: Vec<Step>) -> Program {
        Program::new(steps, Execution::Declared)
    }

    /// One whose jobs need so much.
    #[must_use]
    pub fn needing(execution: Execution) -> Program {
        Program::new(Vec::new(), execution)
    }

    /// Both, for a task of which one is empty.
    #[must_use]
    pub fn new(steps: Vec<Step>, execution: Execution) -> Program {
        let behaviour = Behaviour { steps, execution };
        Program((behaviour != AS_DECLARED).then(|| Box::new(behaviour)))
    }
}

impl Deref for Program {
    type Target = Behaviour;
    fn deref(&self) -> &Behaviour {
        self.0.as_deref().unwrap_or(&AS_DECLARED)
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Behaviour {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        **self == **other
    }
}
impl Eq for Program {}

impl Behaviour {
    /// The steps of its jobs in turn: one list, unless a [`Step::WaitPeriod`] lets the program continue with the next job.
    pub fn turns(&self) -> impl Iterator<Item = &[Step]> {
        let steps = match self.steps.split_last() {
            // The end of a program ends a job anyway.
            Some((Step::WaitPeriod, others)) => others,
            _ => &self.steps,
        };
        steps.split(|step| *step == Step::WaitPeriod)
    }

    /// Whether its steps lock this resource. O(steps).
    pub(crate) fn locks(&self, resource: usize) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Lock(r) if usize::from(r.0) == resource))
    }

    /// The execution time of job number `job` of the task when there are no `steps`, and so much is declared.
    pub(super) fn demand(&self, declared: Option<Span>, seed: u64, task: TaskId, job: u64) -> Option<Span> {
        match &self.execution {
            Execution::Declared => declared,
            Execution::Uniform { least, most } => {
                let spread = (*most - *least).ns().max(0) as u64;
                let drawn = rng::draw_up_to(spread, seed ^ EXECUTION, u64::from(task.0), job);
                Some(*least + Span::from_ns(drawn as i64))
            }
            Execution::Series(spans) => spans.get((job % spans.len().max(1) as u64) as usize).copied().or(declared),
        }
    }

    /// Multiplies what its jobs need by a factor in millionths; what a call asks for is a need, too, unless the task reserves it.
    pub(super) fn scale(&mut self, factor: u32, reserves: bool) {
        let times = |span: &mut Span| *span = scaled(*span, factor);
        for step in &mut self.steps {
            match step {
                Step::Run(span) => times(span),
                // A reservation is no demand.
                Step::Call(Call::Runtime(span)) if !reserves => times(span),
                _ => {}
            }
        }
        match &mut self.execution {
            Execution::Declared => {}
            Execution::Uniform { least, most } => [least, most].into_iter().for_each(times),
            Execution::Series(spans) => spans.iter_mut().for_each(times),
        }
    }
}
