//! `sched_setaffinity`, thread by thread: of those that can be found without searching the whole machine. These are the threads of the
//! group where cgroup v2 lists them, else those of the process that was started. A thread that is a task is bound for itself, and the
//! other threads of its program with the first one.

use super::CpuBinder;
use crate::control::Text;
use crate::group::{Group, LONGEST, Member, PartitionHandle, Tree};
use crate::sys;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use takt_core::cpus::CpuSet;

pub(crate) struct Affinity {
    /// The tree of cgroup v2, if there is one.
    pub(crate) tree: Option<Arc<Tree>>,
}

impl CpuBinder for Affinity {
    fn add(&self, _: usize, _: &CpuSet) -> io::Result<()> {
        Ok(())
    }
    fn take_in(&self, _: PartitionHandle, _: i32) -> io::Result<()> {
        Ok(())
    }
    fn take_in_thread(&self, _: PartitionHandle, _: i32) -> io::Result<()> {
        Ok(())
    }
    fn binds_threads(&self) -> bool {
        true
    }
    fn open(&self, _: PartitionHandle) -> Result<Option<OwnedFd>, Errno> {
        Ok(None)
    }
    fn set(
        &self,
        partition: PartitionHandle,
        _: Option<&OwnedFd>,
        members: &[Member],
        is_task: &dyn Fn(i32) -> bool,
        cpus: &CpuSet,
    ) -> Result<(), Errno> {
        let mut set = rustix::thread::CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(cpu));
        // A thread that is gone is no error, nor one that was restricted to other CPUs by the kernel.
        let apply = |thread: i32| {
            if let Some(id) = Pid::from_raw(thread) {
                let _ = rustix::thread::sched_setaffinity(Some(id), &set);
            }
        };
        for (index, member) in members.iter().enumerate() {
            let leader = member.leader.load(Acquire);
            match (member.thread.get(), &self.tree) {
                (Some(thread), Some(tree)) if thread.file.is_some() => {
                    let below = thread.list.strip_prefix(&tree.path).map_err(|_| Errno::INVAL)?;
                    let below = Text::<LONGEST>::format(format_args!("{}", below.display()))?;
                    each_number(&open(tree, below.c_str()?)?, apply)?;
                }
                // The list of a v1 group has a lock, for which this thread must not wait.
                (Some(thread), _) => {
                    let process = thread.process.load(Acquire);
                    // The number of a thread that has ended may be one of another process.
                    if leader == 0 || sys::signal_thread(process, leader, 0).is_err() {
                        continue;
                    }
                    apply(leader);
                    if leader == process {
                        each_thread(process, |thread| {
                            if !is_task(thread) {
                                apply(thread)
                            }
                        })?;
                    }
                }
                (None, Some(tree)) => {
                    let group = Group { partition, index: index as u32 };
                    each_number(&open(tree, tree.file(group, "cgroup.threads")?.c_str()?)?, apply)?;
                }
                (None, None) if leader > 0 => each_thread(leader, apply)?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

fn open(tree: &Tree, below: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(&tree.dir, below, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Calls `f` for each thread of a process, without allocating. A process that is gone has none.
fn each_thread(process: i32, f: impl Fn(i32)) -> Result<(), Errno> {
    let path = Text::<64>::format(format_args!("/proc/{process}/task"))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::open(path.c_str()?, flags, Mode::empty()) else { return Ok(()) };
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut threads = rustix::fs::RawDir::new(dir, &mut buffer);
    while let Some(Ok(entry)) = threads.next() {
        if let Some(thread) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) {
            f(thread);
        }
    }
    Ok(())
}

/// Calls `f` for each number in a file of one number per line, without allocating.
fn each_number(file: &OwnedFd, f: impl Fn(i32)) -> Result<(), Errno> {
    let mut buffer = [0u8; 1024];
    let mut number = 0;
    loop {
        let len = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut buffer))?;
        if len == 0 {
            return Ok(());
        }
        for byte in &buffer[..len] {
            match byte {
                b'0'..=b'9' => number = number * 10 + i32::from(byte - b'0'),
                _ => f(std::mem::take(&mut number)),
            }
        }
    }
}
