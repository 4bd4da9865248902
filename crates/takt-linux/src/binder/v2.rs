//! The cpuset of cgroup v2, where it is delegated to this run. Processes are born in it.

use super::{CpuBinder, put_through};
use crate::control;
use crate::group::{Member, PartitionHandle, Tree};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use takt_core::cpus::CpuSet;

pub(crate) struct V2 {
    pub(crate) tree: Arc<Tree>,
}

impl CpuBinder for V2 {
    fn add(&self, number: usize, cpus: &CpuSet) -> io::Result<()> {
        control::write(&self.tree.partition(number).join("cpuset.cpus"), &cpus.to_string())
    }
    fn take_in(&self, _: PartitionHandle, _: i32) -> io::Result<()> {
        Ok(())
    }
    /// The group of a thread is one below that of its program ([`crate::freezer::v2`]), and has no other CPUs than that.
    fn take_in_thread(&self, _: PartitionHandle, _: i32) -> io::Result<()> {
        Err(Errno::NOTSUP.into())
    }
    fn binds_threads(&self) -> bool {
        false
    }
    fn open(&self, partition: PartitionHandle) -> Result<Option<OwnedFd>, Errno> {
        control::open_below(&self.tree.dir, self.tree.partition_file(partition, "cpuset.cpus")?.c_str()?).map(Some)
    }
    fn set(
        &self,
        partition: PartitionHandle,
        file: Option<&OwnedFd>,
        _: &[Member],
        _: &dyn Fn(i32) -> bool,
        cpus: &CpuSet,
    ) -> Result<(), Errno> {
        put_through(self, partition, file, cpus)
    }
}
