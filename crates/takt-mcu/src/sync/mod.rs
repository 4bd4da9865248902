//! Locks, semaphores, condition variables and queues.

mod condvar;
mod lock;
mod queue;
mod semaphore;

pub use condvar::Condvar;
pub use lock::Lock;
pub use queue::Queue;
pub use semaphore::Semaphore;
