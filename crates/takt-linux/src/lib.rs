//! The mechanism that Takt needs from Linux, and nothing else: it can freeze a group of processes; it cannot want to.
//!
//! [`Mechanism`] holds the process groups of one run over cgroup v2, over the v1 freezer and cpuset
//! (with v2 for killing and events where it is mounted), or over signals. The other modules are the
//! pieces beside it: scheduling classes ([`rt`]), timers ([`timer`]), the completion protocol of
//! processes ([`protocol`]), ends of jobs that the kernel reports ([`JobEnds`]), the page that a program shares with its scheduler ([`SharedPage`]), what this machine can do ([`probe`]), what removes the remains of a
//! run that died ([`leftovers`], [`watcher`]), the socket by which a run is controlled ([`socket`]), the locks that keep two runs off one CPU ([`CpuLock`]), frequencies, idle states and sensors ([`power`]), what the machine does to a run ([`disturbance`]), the kernel's trace of it ([`tracing`], [`Osnoise`]), and an exact count of
//! instructions ([`count`]).
//!
//! There is no policy, no engine and no printing here.

mod binder;
mod commands;
mod control;
mod control_files;
mod cpu_lock;
mod delegated;
mod freezer;
mod group;
mod halves;
mod identity;
mod job_end;
mod layout;
mod life;
mod lock_file;
mod mechanism;
mod members;
mod namespace;
mod osnoise;
mod page;
mod places;
mod raised;
mod rights;
mod run_id;
mod shared_cpus;
mod spawn;
mod sync;
mod sys;
mod thread_class;
mod unwaiting;

pub mod admission;
pub mod blocking;
pub mod count;
pub mod descriptors;
pub mod disturbance;
pub mod environments;
pub mod isolate;
pub mod leftovers;
pub mod memory;
pub mod power;
pub mod probe;
pub mod protocol;
mod record_lock;
pub mod rt;
pub mod service;
pub mod socket;
mod socket_names;
pub mod starter;
pub mod stdio;
pub mod timer;
pub mod tracing;
pub mod watcher;

pub use commands::Commands;
pub use cpu_lock::{CpuLock, Holder};
pub use group::{Group, Names, PartitionHandle, Unavailable};
pub use halves::{Half, Halves};
pub use identity::{Identity, Limit, UnknownIdentity};
pub use job_end::{JobEnd, JobEnds, Tracepoints};
pub use layout::{Hierarchy, Layout, LayoutKind};
pub use lock_file::holder as lock_holder;
pub use mechanism::{Choice, Mechanism, ThreadState};
pub use osnoise::{Osnoise, Timerlat, timerlat_file};
pub use page::SharedPage;
pub use raised::Raised;
pub use record_lock::lock_as_writer;
pub use run_id::RunId;
pub use rustix::process::Signal;
pub use spawn::{Output, SpawnSpec};
pub use unwaiting::{Announcer, Unwaiting, WHOLE_MAX};
