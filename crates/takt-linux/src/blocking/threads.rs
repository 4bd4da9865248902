//! Which threads belong to which task, and which of them are runnable. A task is blocked when it has no runnable thread.

use super::decode::{Change, Switch};
use takt_core::time::Span;

#[derive(Clone, Copy, Debug)]
struct Thread {
    number: i32,
    task: usize,
    runnable: bool,
    /// Its last record.
    last: Span,
}

#[derive(Clone, Copy, Default, Debug)]
struct Task {
    runnable: u32,
    threads: u32,
    /// It has threads that there was no room for, which may be runnable.
    unknown: bool,
    /// Threads and children that its threads create are not its own.
    closed: bool,
}

/// A task has blocked, or is runnable again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// Its index.
    pub task: usize,
    /// Whether it has no runnable thread from now on.
    pub blocked: bool,
}

/// The threads of all tasks. All memory is there from the beginning.
#[derive(Debug)]
pub struct Threads {
    /// By number.
    threads: Vec<Thread>,
    tasks: Vec<Task>,
}

impl Threads {
    /// No thread yet, and room for so many threads of so many tasks. A task whose threads do not fit counts as runnable from then on.
    #[must_use]
    pub fn with_room(tasks: usize, threads: usize) -> Threads {
        Threads { threads: Vec::with_capacity(threads), tasks: vec![Task::default(); tasks] }
    }

    /// From now on this thread is one of the task. Its state is that of `since`, so earlier records of it do not count. O(threads).
    pub fn follow(&mut self, task: usize, thread: i32, runnable: bool, since: Span) {
        match self.find(thread) {
            Ok(index) => {
                let known = self.threads[index];
                if known.task == task {
                    return self.set(index, runnable, since);
                }
                self.remove(index);
                self.insert(Thread { number: thread, task, runnable, last: since });
            }
            Err(_) => self.insert(Thread { number: thread, task, runnable, last: since }),
        }
    }

    /// The task has no thread any more. O(threads).
    pub fn forget(&mut self, task: usize) {
        self.threads.retain(|thread| thread.task != task);
        self.tasks[task] = Task { closed: self.tasks[task].closed, ..Task::default() };
    }

    /// Threads and children that a thread of the task creates are not followed.
    pub fn close(&mut self, task: usize) {
        self.tasks[task].closed = true;
    }

    /// Takes in a record. Returns whether a task has blocked by it, or is runnable again. The records of a thread come in the order of their instants; one
    /// that comes too late is ignored. O(log threads), or O(threads) where one begins or ends.
    pub fn take_in(&mut self, switch: &Switch) -> Option<Transition> {
        if let Change::Begins { by } = switch.change {
            let parent = self.threads[self.find(by).ok()?];
            if self.tasks[parent.task].closed {
                return None;
            }
            return self.changing(parent.task, |all| all.follow(parent.task, switch.thread, true, switch.at));
        }
        let index = self.find(switch.thread).ok()?;
        let thread = self.threads[index];
        if switch.at < thread.last {
            return None;
        }
        self.changing(thread.task, |all| match switch.change {
            Change::Ends => all.remove(index),
            // A thread that runs is runnable, also where its wake-up was not reported.
            change => all.set(index, matches!(change, Change::Wakes | Change::Runs), switch.at),
        })
    }

    /// Whether the task has threads, and none of them is runnable.
    #[must_use]
    pub fn is_blocked(&self, task: usize) -> bool {
        let Task { runnable, unknown, .. } = self.tasks[task];
        self.is_followed(task) && runnable == 0 && !unknown
    }

    /// Whether a thread of the task has been named.
    #[must_use]
    pub fn is_followed(&self, task: usize) -> bool {
        self.tasks[task].threads > 0 || self.tasks[task].unknown
    }

    /// Records were lost: each thread may be runnable, and its next record says whether it is. O(threads).
    pub fn doubt(&mut self) {
        for index in 0..self.threads.len() {
            let last = self.threads[index].last;
            self.set(index, true, last);
        }
    }

    fn find(&self, thread: i32) -> Result<usize, usize> {
        self.threads.binary_search_by_key(&thread, |thread| thread.number)
    }

    fn insert(&mut self, thread: Thread) {
        let task = &mut self.tasks[thread.task];
        if self.threads.len() == self.threads.capacity() {
            task.unknown = true;
            return;
        }
        task.threads += 1;
        task.runnable += u32::from(thread.runnable);
        if let Err(index) = self.find(thread.number) {
            self.threads.insert(index, thread);
        }
    }

    fn remove(&mut self, index: usize) {
        let thread = self.threads.remove(index);
        let task = &mut self.tasks[thread.task];
        task.threads -= 1;
        task.runnable -= u32::from(thread.runnable);
    }

    fn set(&mut self, index: usize, runnable: bool, at: Span) {
        let thread = &mut self.threads[index];
        let task = &mut self.tasks[thread.task];
        task.runnable = task.runnable + u32::from(runnable) - u32::from(thread.runnable);
        (thread.runnable, thread.last) = (runnable, at);
    }

    fn changing(&mut self, task: usize, change: impl FnOnce(&mut Threads)) -> Option<Transition> {
        let before = self.is_blocked(task);
        change(self);
        let blocked = self.is_blocked(task);
        (before != blocked).then_some(Transition { task, blocked })
    }
}
