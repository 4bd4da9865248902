//! A group of cgroup v2 that was delegated to this process, such as that of a service with `Delegate=yes`.
//!
//! Once a group with processes gives its children a cpuset, it is the root of a threaded subtree: its children hold no processes
//! (`cgroup_is_thread_root` in the kernel's cgroup.c), and `clone3` into them fails with `EOPNOTSUPP`. So the processes of Takt itself move
//! into a group of their own, beside that of the run. Where other processes are in the delegated group, nothing of this happens: they are
//! not Takt's to move.

use crate::control;
use crate::run_id::RunId;
use crate::starter;
use crate::watcher;
use rustix::process::getpid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The controller that the run gives its groups.
const CONTROLLER: &str = "cpuset";

/// The children of a group have a cpuset. When this is dropped, the group is as before: Takt is in it, and no group of Takt.
#[derive(Debug)]
pub(crate) struct Delegated {
    own: PathBuf,
    /// Where Takt is meanwhile; `None` in the root of the tree, which may hold processes beside its children.
    leaf: Option<PathBuf>,
    /// The children had no cpuset before.
    enabled: bool,
}

impl Delegated {
    /// Gives the children of this process's group a cpuset.
    ///
    /// # Errors
    /// When the group has none itself, holds other processes, or belongs to another user.
    pub(crate) fn enter(own: &Path, run: &RunId) -> io::Result<Delegated> {
        let has = |file: &str| -> io::Result<bool> {
            Ok(control::read(&own.join(file))?.split(' ').any(|name| name == CONTROLLER))
        };
        if !has("cgroup.controllers")? {
            return Err(io::Error::other(format!("{} has no cpuset", own.display())));
        }
        let mut delegated = Delegated { own: own.to_owned(), leaf: None, enabled: !has("cgroup.subtree_control")? };
        // The root of the tree has no such file.
        if own.join("cgroup.type").exists() {
            let [mine, others] = of_takt(control::pids(&own.join("cgroup.procs")), run);
            if !others.is_empty() {
                return Err(io::Error::other(format!("other processes are in {}", own.display())));
            }
            let leaf = own.join(format!("supervisor-{run}"));
            fs::create_dir(&leaf)?;
            delegated.leaf = Some(leaf.clone());
            for pid in mine {
                control::write(&leaf.join("cgroup.procs"), &pid.to_string())?;
            }
        }
        control::write(&own.join("cgroup.subtree_control"), &format!("+{CONTROLLER}"))?;
        Ok(delegated)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        if self.enabled {
            // Another run in this group may need it.
            let _ = control::write(&self.own.join("cgroup.subtree_control"), &format!("-{CONTROLLER}"));
        }
        if let Some(leaf) = &self.leaf {
            // A process that cannot move back keeps its group, which the service manager removes with that of the service.
            for pid in control::pids(&leaf.join("cgroup.procs")) {
                let _ = control::write(&self.own.join("cgroup.procs"), &pid.to_string());
            }
            let _ = fs::remove_dir(leaf);
        }
    }
}

/// This process with the watcher and the starter of its run, and all others.
fn of_takt(pids: Vec<i32>, run: &RunId) -> [Vec<i32>; 2] {
    let own = getpid().as_raw_nonzero().get();
    let is_mine = |pid: &i32| *pid == own || watcher::watches(*pid, run) || starter::starts(*pid, run);
    let (mine, others) = pids.into_iter().partition(is_mine);
    [mine, others]
}
