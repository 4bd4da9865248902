//! The cpuset of cgroup v1.

use super::{CpuBinder, put_through};
use crate::control::{self, Text};
use crate::group::{Member, PartitionHandle, Tree};
use crate::layout::Layout;
use crate::run_id::RunId;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use takt_core::cpus::CpuSet;

pub(crate) struct V1 {
    pub(crate) tree: Arc<Tree>,
}

impl CpuBinder for V1 {
    fn add(&self, number: usize, cpus: &CpuSet) -> io::Result<()> {
        let mems = control::read(&self.tree.path.join("cpuset.mems"))?;
        prepare_cpuset(&self.tree.partition(number), &mems, cpus)
    }
    fn take_in(&self, partition: PartitionHandle, child: i32) -> io::Result<()> {
        control::write(&self.tree.partition(partition.0 as usize).join("cgroup.procs"), &child.to_string())
    }
    fn take_in_thread(&self, partition: PartitionHandle, thread: i32) -> io::Result<()> {
        control::write(&self.tree.partition(partition.0 as usize).join("tasks"), &thread.to_string())
    }
    fn binds_threads(&self) -> bool {
        false
    }
    fn open(&self, partition: PartitionHandle) -> Result<Option<OwnedFd>, Errno> {
        let path = Text::<64>::format(format_args!("p{}/cpuset.cpus", partition.0))?;
        control::open_below(&self.tree.dir, path.c_str()?).map(Some)
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

/// Creates the run's v1 cpuset if that is possible, and tells the CPUs in it.
pub(crate) fn open_cpuset(
    layout: &Layout,
    run: &RunId,
    notes: &mut Vec<String>,
) -> (Option<Arc<Tree>>, Option<CpuSet>) {
    let made =
        layout.cpuset.as_ref().ok_or_else(|| "no cpuset controller can be used".to_string()).and_then(|parent| {
            let cpus = control::read(&parent.own.join("cpuset.cpus")).map_err(|e| e.to_string())?;
            let mems = control::read(&parent.own.join("cpuset.mems")).map_err(|e| e.to_string())?;
            let mut cpus = control::parse_cpus(&cpus);
            for (name, taken) in exclusive_siblings(&parent.own) {
                if !taken.is_disjoint(&cpus) {
                    notes.push(format!("CPUs {taken} belong exclusively to the cpuset {name}"));
                    cpus = cpus.difference(&taken);
                }
            }
            let tree = Tree::create(parent, &run.group_name()).map_err(|e| e.reason)?;
            prepare_cpuset(&tree.path, &mems, &cpus).map_err(|e| e.to_string())?;
            Ok((tree, cpus))
        });
    match made {
        Ok((tree, cpus)) => (Some(Arc::new(tree)), Some(cpus)),
        Err(why) => {
            notes.push(format!("CPU sets are set by sched_setaffinity, thread by thread ({why})"));
            (None, None)
        }
    }
}

fn prepare_cpuset(dir: &Path, mems: &str, cpus: &CpuSet) -> io::Result<()> {
    // First, while the set is empty: a balanced v1 cpuset makes the kernel rebuild its scheduling domains at each change
    // of its CPUs. Tasks are still balanced, in the parent's domain.
    control::write(&dir.join("cpuset.sched_load_balance"), "0")?;
    // Without memory nodes no task can enter.
    control::write(&dir.join("cpuset.mems"), mems)?;
    control::write(&dir.join("cpuset.cpus"), &cpus.to_string())
}

/// Child cpusets of `parent` that exclude others from their CPUs.
fn exclusive_siblings(parent: &Path) -> Vec<(String, CpuSet)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let exclusive = |dir: &Path| control::read(&dir.join("cpuset.cpu_exclusive")).is_ok_and(|flag| flag == "1");
    entries
        .filter(|entry| exclusive(&entry.path()))
        .filter_map(|entry| {
            let cpus = control::read(&entry.path().join("cpuset.cpus")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), control::parse_cpus(&cpus)))
        })
        .collect()
}
