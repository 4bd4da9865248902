//! Checking a trace against the rules of scheduling.
//!
//! Every rule is judged from the records alone, so that a fault of an engine, a policy or a driver shows. Rules about
//! the order of records are exact. Rules about time use the instants of carrying out and allow a tolerance, which is
//! zero for a simulation and the machine's latency for a real run. A job that ran in pieces may be late with each.
//!
//! | rule | what it says |
//! |---|---|
//! | `overlap` | the CPU sets of what runs at one moment are disjoint |
//! | `alternation` | starts and stops of a task alternate, and a stop names the job and place of its start |
//! | `release` | a job starts and ends only after its release; job numbers increase |
//! | `job-order` | a task's jobs run one at a time in their order; none runs after its end |
//! | `finish` | a job ends once; one that completed has run |
//! | `behind` | a job whose program is at the work of an earlier job completes only after the signal of that one |
//! | `handler` | a handler follows the abort of its job, once, in the same instant, and ends once |
//! | `resource` | a resource has one owner; only what is held is given back; who waits for one does not run on |
//! | `deadlock` | a deadlock is recorded where a request closes a cycle, and nowhere else |
//! | `round` | the bursts of a round sum to its duration, and no task has two of them |
//! | `budget` | no job runs longer than the budget it was granted |
//! | `window-order` | windows follow each other in the order and at the distances of the table |
//! | `window` | a task runs only in windows, and on CPUs, of its partition (needs the system) |
//! | `skipped-start` | no task of a partition that is skipped in a window starts in it |
//! | `affinity` | a task runs only on CPUs that it may run on (needs the system) |
//! | `fifo` | tasks of a partition without a policy run one at a time, in order if it is safety-critical (needs the system) |
//! | `best-effort` | where best effort waits for all, it does not start beside safety-critical work (needs the system) |
//! | `system` | trace and system have the same tasks |
//! | `arrival` | jobs are released, and due, when the workload says ([`arrivals`]) |
//! | `missing` | a job is recorded whose release the workload plans before the end ([`arrivals`]) |
//! | `dropped` | no records are missing |
//!
//! [`schedule`] has the rules that need the policy and the workload:
//!
//! | rule | what it says |
//! |---|---|
//! | `idle` | under a work-conserving policy no CPU is idle while a ready job that may use it waits |
//! | `order` | no ready job waits while a job behind it runs, in the order of the policy, with what holders of resources inherit |
//! | `band` | no ready job waits while a job of a lower band runs on its CPUs |
//! | `preemption` | a policy that does not preempt leaves a job its CPU until it ends or blocks |
//! | `home` | a task of a partitioned or clustered policy runs on the CPUs of one group |
//! | `consumption` | a job consumes as much as it had CPUs, or at most that in a real run |
//! | `abort` | a job is aborted at its deadline, at the end of its budget, or in a deadlock |
//! | `late` | with `late: abort` no job completes after its deadline |
//! | `grant` | a job with a budget is granted it before it runs, and not more |
//! | `block` | blocks and wake-ups of a job alternate, and none runs while it is blocked |
//! | `stop` | a job leaves its CPUs for the reason that its record has |

mod arrivals;
mod checker;
mod finding;
mod round;
mod rules;
mod schedule;

pub use arrivals::{Arrivals, arrivals};
pub use checker::{Checker, check};
pub use finding::Finding;
pub use schedule::{Conditions, Consumption, Judgement, Schedule, schedule};
