//! `sched_setaffinity`, thread by thread: of those that can be found without searching the whole machine. These are the threads of the
//! group where cgroup v2 lists them, else those of the process that was started.

use super::CpuBinder;
use crate::control::Text;
use crate::group::{Group, Member, PartitionHandle, Tree};
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
            if member.thread.get().is_some() {
                apply(member.leader.load(Acquire));
            } else if let Some(tree) = &self.tree {
                let path = tree.file(Group { partition, index: index as u32 }, "cgroup.threads")?;
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&tree.dir, path.c_str()?, flags, Mode::empty())?;
                each_number(&file, apply)?;
            } else if let leader @ 1.. = member.leader.load(Acquire) {
                let path = Text::<64>::format(format_args!("/proc/{leader}/task"))?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let Ok(dir) = rustix::fs::open(path.c_str()?, flags, Mode::empty()) else { continue };
                let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
                let mut threads = rustix::fs::RawDir::new(dir, &mut buffer);
                while let Some(Ok(entry)) = threads.next() {
                    if let Some(thread) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) {
                        apply(thread);
                    }
                }
            }
        }
        Ok(())
    }
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
