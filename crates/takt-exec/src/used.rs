//! The CPU time that jobs use where no budget needs it. It is read once for each job, at its end, and only the report has it.

use takt_core::model::TaskId;
use takt_core::record::JobId;
use takt_core::time::Span;

#[derive(Clone, Copy, Default, Debug)]
struct OfTask {
    /// The job that was dispatched last, and the CPU time of the process before it.
    job: Option<(JobId, Span)>,
    /// The CPU time of the process at the end of that job. The next job begins with it.
    last: Option<Span>,
    /// The job that used most, and how much.
    most: Option<(JobId, Span)>,
}

/// The CPU time of the jobs of all tasks.
#[derive(Debug)]
pub(crate) struct Used {
    tasks: Vec<OfTask>,
    /// The tasks that were read before the present step, with their jobs and CPU times.
    read: Vec<(TaskId, JobId, Span)>,
}

impl Used {
    /// For so many tasks, of which so many may end in a step. Nothing is allocated later.
    pub(crate) fn new(tasks: usize, ends: usize) -> Used {
        Used { tasks: vec![OfTask::default(); tasks], read: Vec::with_capacity(ends) }
    }

    /// A job of the task is dispatched. `total` reads the CPU time of its process, for a job that does not follow the end of one.
    pub(crate) fn dispatched(&mut self, task: TaskId, job: JobId, total: impl FnOnce() -> Option<Span>) {
        let of = &mut self.tasks[task.index()];
        if of.job.is_none_or(|(before, _)| before != job) {
            of.job = of.last.take().or_else(total).map(|base| (job, base));
        }
    }

    /// The process of the task has used `total` before a step that may end this job.
    pub(crate) fn read(&mut self, task: TaskId, job: JobId, total: Span) {
        if self.read.len() < self.read.capacity() {
            self.read.push((task, job, total));
        }
    }

    /// The step was taken. `job` gives the job of a task after it.
    pub(crate) fn stepped(&mut self, job: impl Fn(TaskId) -> Option<JobId>) {
        for (task, number, total) in self.read.drain(..) {
            let of = &mut self.tasks[task.index()];
            if job(task) == Some(number) {
                continue;
            }
            of.last = Some(total);
            if let Some((_, base)) = of.job.filter(|(dispatched, _)| *dispatched == number)
                && of.most.is_none_or(|(_, most)| total - base > most)
            {
                of.most = Some((number, total - base));
            }
        }
    }

    /// The CPU time since the end of the last job belongs to no job, or the process is another one.
    pub(crate) fn forget(&mut self, task: TaskId) {
        self.tasks[task.index()].last = None;
    }

    /// The job of the task that used most CPU time, and how much.
    pub(crate) fn most(&self, task: TaskId) -> Option<(JobId, Span)> {
        self.tasks[task.index()].most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_uses_what_its_process_uses_from_the_end_of_the_job_before() {
        let (ms, task) = (Span::from_ms, TaskId(0));
        let mut used = Used::new(1, 4);
        used.dispatched(task, 0, || Some(ms(3)));
        used.dispatched(task, 0, || panic!("the job was dispatched before"));
        // A step that does not end the job.
        used.read(task, 0, ms(5));
        used.stepped(|_| Some(0));
        assert_eq!(used.most(task), None);
        used.read(task, 0, ms(7));
        used.stepped(|_| None);
        assert_eq!(used.most(task), Some((0, ms(4))));
        used.dispatched(task, 1, || panic!("the end of the job before is known"));
        used.read(task, 1, ms(17));
        used.stepped(|_| Some(2));
        assert_eq!(used.most(task), Some((1, ms(10))));
        // A job that ends without a reading, as one that is aborted while another one runs.
        used.dispatched(task, 2, || panic!("the end of the job before is known"));
        used.dispatched(task, 3, || Some(ms(90)));
        used.read(task, 3, ms(95));
        used.stepped(|_| None);
        assert_eq!(used.most(task), Some((1, ms(10))), "the CPU time of job 2 is not that of job 3");
        used.forget(task);
        used.dispatched(task, 4, || Some(ms(200)));
        used.read(task, 4, ms(201));
        used.stepped(|_| None);
        assert_eq!(used.most(task), Some((1, ms(10))));
    }
}
