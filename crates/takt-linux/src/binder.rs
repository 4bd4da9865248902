//! Ways to bind the processes of a partition to CPUs, one file each.

pub(crate) mod affinity;
pub(crate) mod v1;
pub(crate) mod v2;

use crate::control::{self, Text};
use crate::group::{Member, PartitionHandle};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use takt_core::cpus::CpuSet;

/// Binds partitions to CPUs. [`CpuBinder::open`] and [`CpuBinder::set`] are for the scheduler thread and do not allocate.
pub(crate) trait CpuBinder: Send + Sync {
    /// Binds a new partition, which has a directory in each tree.
    fn add(&self, number: usize, cpus: &CpuSet) -> io::Result<()>;
    /// Takes a new process into its partition.
    fn take_in(&self, partition: PartitionHandle, child: i32) -> io::Result<()>;
    /// The directory that holds the processes of a partition, if that is one of the binder alone.
    fn home(&self, partition: PartitionHandle) -> Option<PathBuf> {
        let _ = partition;
        None
    }
    /// Takes a thread of a process of another partition into its own.
    fn take_in_thread(&self, partition: PartitionHandle, thread: i32) -> io::Result<()>;
    /// Whether a new process must be given its CPUs, since the partition does not bind it.
    fn binds_threads(&self) -> bool;
    /// Opens what [`CpuBinder::set`] writes to; `None` if it needs no file.
    fn open(&self, partition: PartitionHandle) -> Result<Option<OwnedFd>, Errno>;
    /// Binds the partition to other CPUs, by its open file or else by one that is opened for that. `is_task` says of a thread that it is
    /// bound for itself.
    fn set(
        &self,
        partition: PartitionHandle,
        file: Option<&OwnedFd>,
        members: &[Member],
        is_task: &dyn Fn(i32) -> bool,
        cpus: &CpuSet,
    ) -> Result<(), Errno>;
}

/// Writes to the file, or to the one that is opened for that.
fn put_through(
    binder: &impl CpuBinder,
    partition: PartitionHandle,
    file: Option<&OwnedFd>,
    cpus: &CpuSet,
) -> Result<(), Errno> {
    match file {
        Some(file) => put(file, cpus),
        None => binder.open(partition)?.map_or(Ok(()), |file| put(file, cpus)),
    }
}

fn put(file: impl AsFd, cpus: &CpuSet) -> Result<(), Errno> {
    // The longest list of 1024 CPUs names every second one.
    control::put(file, Text::<4096>::format(format_args!("{cpus}"))?.bytes())
}
