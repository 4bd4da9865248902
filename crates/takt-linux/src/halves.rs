//! Two groups that share a CPU by the kernel's ordinary class: by equal weights, by a quota for one of them, or by a quota for both.
//!
//! They are named after their run, so the watcher and `takt doctor --clean` remove them with their processes. Sources:
//! `Documentation/scheduler/sched-bwc.rst` and `Documentation/admin-guide/cgroup-v2.rst` (cpu) of Linux.

use crate::control;
use crate::group::Unavailable;
use crate::layout::Layout;
use crate::life::{self, GroupLock};
use crate::run_id::RunId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use takt_core::time::Span;

/// How the load is held to half of the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// Both groups have the same weight.
    Weight,
    /// The load has half of each period of this length.
    Quota(Span),
    /// Both groups are in a container, and have one CPU in each period of this length together.
    Container(Span),
}

/// The groups; they are removed when this is dropped.
#[derive(Debug)]
pub struct Halves {
    top: PathBuf,
    /// Shows that the run lives.
    _lock: GroupLock,
}

impl Halves {
    /// Makes the groups of a run of this process.
    ///
    /// # Errors
    /// There is no cpu controller in which this user may make groups.
    pub fn create(run: &RunId, half: Half) -> Result<Halves, Unavailable> {
        let fix = "run as root where the cpu controller is mounted, or is delegated in cgroup.subtree_control";
        let unavailable = |reason: String| Unavailable { reason, fix: fix.into() };
        let layout = Layout::read().map_err(|e| unavailable(e.to_string()))?;
        let v2 = layout.cpu.is_none();
        let parent = layout.cpu.or(layout.unified).map(|hierarchy| hierarchy.own);
        let parent = parent.ok_or_else(|| unavailable("there is no cpu controller".into()))?;
        let failed = |e: io::Error| unavailable(format!("groups of the cpu controller cannot be made: {e}"));
        let top = parent.join(run.group_name());
        let halves = Halves { _lock: life::make_group(&top).map_err(failed)?, top };
        halves.set_up(half, v2).map_err(failed).map(|()| halves)
    }

    fn set_up(&self, half: Half, v2: bool) -> io::Result<()> {
        if v2 {
            control::write(&self.top.join("cgroup.subtree_control"), "+cpu")?;
        }
        fs::create_dir(self.task())?;
        fs::create_dir(self.load())?;
        match half {
            Half::Weight => [self.task(), self.load()].iter().try_for_each(|group| equal(group, v2)),
            Half::Quota(period) => limit(&self.load(), v2, period.scaled(1, 2), period),
            Half::Container(period) => limit(&self.top, v2, period, period),
        }
    }

    /// The group of the measured task.
    #[must_use]
    pub fn task(&self) -> PathBuf {
        self.top.join("task")
    }

    /// The group of the load.
    #[must_use]
    pub fn load(&self) -> PathBuf {
        self.top.join("load")
    }
}

fn equal(group: &Path, v2: bool) -> io::Result<()> {
    let (file, weight) = if v2 { ("cpu.weight", "100") } else { ("cpu.shares", "1024") };
    control::write(&group.join(file), weight)
}

fn limit(group: &Path, v2: bool, quota: Span, period: Span) -> io::Result<()> {
    let (quota, period) = (quota.ns() / 1000, period.ns() / 1000);
    if v2 {
        return control::write(&group.join("cpu.max"), &format!("{quota} {period}"));
    }
    control::write(&group.join("cpu.cfs_period_us"), &period.to_string())?;
    control::write(&group.join("cpu.cfs_quota_us"), &quota.to_string())
}

impl Drop for Halves {
    fn drop(&mut self) {
        // A group that still has a member is left to the watcher.
        let _ = control::remove_tree(&self.top, Instant::now() + Duration::from_secs(1));
    }
}
