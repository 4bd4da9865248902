//! Partitions and groups of a run, and their directories in a hierarchy of control groups.

use crate::control;
use crate::layout::Hierarchy;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32};

/// This machine cannot do what was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// What is missing.
    pub reason: String,
    /// What to do about it, as an exact command where there is one.
    pub fix: String,
}

/// A partition of a run, in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PartitionHandle(pub u32);

/// A process group of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Group {
    /// Its partition.
    pub partition: PartitionHandle,
    /// Its place in the partition.
    pub index: u32,
}

/// The run's directory in one hierarchy. Dropping it removes the directory if it is empty.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) path: PathBuf,
    pub(crate) dir: OwnedFd,
}

impl Thread {
    pub(crate) fn new(list: PathBuf, file: Option<OwnedFd>) -> Thread {
        Thread { process: AtomicI32::new(0), list, file, clock: OnceLock::new() }
    }
}

impl Tree {
    pub(crate) fn create(hierarchy: &Hierarchy, name: &str) -> Result<Tree, Unavailable> {
        let path = hierarchy.own.join(name);
        let made = fs::create_dir(&path).and_then(|()| control::open_dir(&path));
        made.map(|dir| Tree { path: path.clone(), dir }).map_err(|e| Unavailable {
            reason: format!("cannot create a group in {}: {e}", hierarchy.own.display()),
            fix: match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes takt …".into()
                }
                _ => format!("mkdir {} must succeed", path.display()),
            },
        })
    }

    /// The directory of a partition.
    pub(crate) fn partition(&self, number: usize) -> PathBuf {
        self.path.join(format!("p{number}"))
    }

    /// The directory of a group.
    pub(crate) fn group(&self, group: Group) -> PathBuf {
        self.path.join(format!("p{}/t{}", group.partition.0, group.index))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// The processes of a group, as far as they are known.
#[derive(Default)]
pub(crate) struct Member {
    /// Process id of the process that was started, 0 when there is none (any more).
    pub(crate) leader: AtomicI32,
    /// Process group for signals; outlives the leader as long as the group is populated.
    pub(crate) process_group: AtomicI32,
    /// Set once the group is being killed: freezing it again would keep its processes alive under v1.
    pub(crate) killed: AtomicBool,
    /// Its open freezer file in small runs.
    pub(crate) file: Option<OwnedFd>,
    /// For a thread of a program with several tasks, the first one included.
    pub(crate) thread: OnceLock<Thread>,
}

/// A thread that is frozen and bound for itself. [`Member::leader`] is its number.
#[derive(Debug)]
pub(crate) struct Thread {
    /// Its process, 0 before that is there.
    pub(crate) process: AtomicI32,
    /// The file that lists the threads of its group.
    pub(crate) list: PathBuf,
    /// Its open freezer file, where that is not the one of its group.
    pub(crate) file: Option<OwnedFd>,
    /// Its CPU time.
    pub(crate) clock: OnceLock<OwnedFd>,
}
