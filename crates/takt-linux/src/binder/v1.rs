//! The cpuset of cgroup v1.

use super::{CpuBinder, put_through};
use crate::control::{self, Text};
use crate::group::{Member, Names, PartitionHandle, Tree};
use crate::layout::Layout;
use crate::run_id::RunId;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use takt_core::cpus::CpuSet;

/// A change of a cpuset makes the kernel look at all its siblings (`validate_change` in cpuset.c). So that a start takes a time in
/// proportion to the number of partitions, these are children of the run's set only up to here, and further ones of sets of so many.
const SIBLINGS: usize = 64;

pub(crate) struct V1 {
    pub(crate) tree: Arc<Tree>,
}

impl V1 {
    /// The set of a partition. Groups that have names of their own are where scripts look for them.
    fn set_of(&self, number: usize) -> PathBuf {
        match number / SIBLINGS {
            block if block > 0 && !self.tree.is_named() => self.tree.path.join(format!("b{block}/p{number}")),
            _ => self.tree.partition(number),
        }
    }
    fn list(&self, partition: PartitionHandle, name: &str) -> PathBuf {
        self.set_of(partition.0 as usize).join(name)
    }
}

impl CpuBinder for V1 {
    fn add(&self, number: usize, cpus: &CpuSet) -> io::Result<()> {
        let of_run = |file: &str| control::read(&self.tree.path.join(file));
        let mems = of_run("cpuset.mems")?;
        let set = self.set_of(number);
        if let Some(block) = set.parent().filter(|block| *block != self.tree.path && !block.exists()) {
            fs::create_dir(block)?;
            prepare_cpuset(block, &mems, &control::parse_cpus(&of_run("cpuset.cpus")?))?;
        }
        fs::create_dir(&set)?;
        prepare_cpuset(&set, &mems, cpus)
    }
    fn take_in(&self, partition: PartitionHandle, child: i32) -> io::Result<()> {
        control::write(&self.list(partition, "cgroup.procs"), &child.to_string())
    }
    fn home(&self, partition: PartitionHandle) -> Option<PathBuf> {
        Some(self.set_of(partition.0 as usize))
    }
    fn take_in_thread(&self, partition: PartitionHandle, thread: i32) -> io::Result<()> {
        control::write(&self.list(partition, "tasks"), &thread.to_string())
    }
    fn binds_threads(&self) -> bool {
        false
    }
    fn open(&self, partition: PartitionHandle) -> Result<Option<OwnedFd>, Errno> {
        let (number, block) = (partition.0, partition.0 as usize / SIBLINGS);
        if self.tree.is_named() || block == 0 {
            return control::open_below(&self.tree.dir, self.tree.partition_file(partition, "cpuset.cpus")?.c_str()?)
                .map(Some);
        }
        let path = Text::<64>::format(format_args!("b{block}/p{number}/cpuset.cpus"))?;
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
    names: Option<&Arc<Names>>,
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
            let tree = Tree::create(parent, run, names).map_err(|e| e.reason)?;
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
