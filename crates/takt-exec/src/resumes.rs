//! The descriptors by which processes continue after a completion, as far as the scheduler holds them.
//!
//! A process that signals by its page needs none. Of the others each has one, which the supervisor fetches at its first signal. Where there may not
//! be so many, the oldest one is closed, and is fetched again when its process is to continue. That process then begins later, by the time of a
//! wake-up of the supervisor.

use std::collections::VecDeque;
use takt_core::model::TaskId;

/// The tasks whose descriptors are there, in the order in which they came. It allocates nothing after [`Resumes::new`].
#[derive(Debug)]
pub(crate) struct Resumes {
    /// At most so many; `None` is one for each task.
    most: Option<usize>,
    held: VecDeque<TaskId>,
}

impl Resumes {
    /// At most `most` descriptors, and at least one, of so many tasks.
    pub(crate) fn new(most: usize, tasks: usize) -> Resumes {
        let most = Some(most.max(1)).filter(|most| *most < tasks);
        Resumes { most, held: VecDeque::with_capacity(most.unwrap_or(0)) }
    }

    /// Whether there is room for another one.
    pub(crate) fn has_room(&self) -> bool {
        self.most.is_none_or(|most| self.held.len() < most)
    }

    /// The descriptor of a task is there. Returns the task whose descriptor is to be closed for that; it may have lost that already.
    pub(crate) fn add(&mut self, task: TaskId) -> Option<TaskId> {
        let most = self.most?;
        let oldest = if self.held.len() < most { None } else { self.held.pop_front() };
        self.held.push_back(task);
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_one_makes_room() {
        let mut resumes = Resumes::new(2, 5);
        let capacity = resumes.held.capacity();
        let closed: Vec<_> = [0, 1, 2, 0, 3].map(|task| resumes.add(TaskId(task)).map(|task| task.0)).to_vec();
        assert_eq!(closed, [None, None, Some(0), Some(1), Some(2)]);
        assert!(!resumes.has_room() && resumes.held.capacity() == capacity);
        for (most, tasks) in [(5, 5), (9, 5)] {
            let mut resumes = Resumes::new(most, tasks);
            assert!((0..100).all(|task| resumes.add(TaskId(task % 5)).is_none() && resumes.has_room()));
            assert_eq!(resumes.held.capacity(), 0);
        }
        assert_eq!(Resumes::new(0, 5).most, Some(1));
    }
}
