//! A group of cgroup v2 that was delegated to this process, such as that of a service with `Delegate=yes`.
//!
//! Once a group with processes gives its children a cpuset, it is the root of a threaded subtree: its children hold no processes
//! (`cgroup_is_thread_root` in the kernel's cgroup.c), and `clone3` into them fails with `EOPNOTSUPP`. So the processes of Takt itself move
//! into a group of their own, beside that of the run. Where other processes are in the delegated group, nothing of this happens: they are
//! not Takt's to move.

use crate::control;
use crate::environments;
use crate::life::{self, GroupLock};
use crate::run_id::{RunId, SUBCOMMAND};
use crate::starter;
use rustix::process::getpid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The controller that the run gives its groups.
const CONTROLLER: &str = "cpuset";
/// Prefix of the group that Takt moves into.
const LEAF: &str = "supervisor-";
/// End of the name of that group, if the children of the delegated group had no cpuset before.
const ENABLED: &str = "+cpuset";

/// The children of a group have a cpuset. When this is dropped, the group is as before: Takt is in it, and no group of Takt.
#[derive(Debug)]
pub(crate) struct Delegated {
    own: PathBuf,
    /// Where Takt is meanwhile; `None` in the root of the tree, which may hold processes beside its children.
    leaf: Option<(PathBuf, GroupLock)>,
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
            let leaf = own.join(format!("{LEAF}{run}{}", if delegated.enabled { ENABLED } else { "" }));
            delegated.leaf = Some((leaf.clone(), life::make_group(&leaf)?));
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
            disable(&self.own);
        }
        if let Some((leaf, _)) = &self.leaf {
            // A process that cannot move back keeps its group, which the service manager removes with that of the service.
            let _ = leave(leaf);
        }
    }
}

/// The run whose supervisor has moved into a group of this name.
pub(crate) fn run_of(leaf: &Path) -> Option<RunId> {
    let name = leaf.file_name()?.to_str()?.strip_prefix(LEAF)?;
    name.strip_suffix(ENABLED).unwrap_or(name).parse().ok()
}

/// Does for a dead run, whose groups are gone, what the end of a run does: its watcher moves back, and the delegated group is as before.
///
/// # Errors
/// When the group cannot be removed.
pub(crate) fn clean(leaf: &Path) -> io::Result<()> {
    if let (true, Some(own)) = (leaf.as_os_str().as_encoded_bytes().ends_with(ENABLED.as_bytes()), leaf.parent()) {
        disable(own);
    }
    leave(leaf)
}

/// Another run in this group may need the controller, and then keeps it.
fn disable(own: &Path) {
    let _ = control::write(&own.join("cgroup.subtree_control"), &format!("-{CONTROLLER}"));
}

fn leave(leaf: &Path) -> io::Result<()> {
    if let Some(own) = leaf.parent() {
        for pid in control::pids(&leaf.join("cgroup.procs")) {
            let _ = control::write(&own.join("cgroup.procs"), &pid.to_string());
        }
    }
    match fs::remove_dir(leaf) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Whether a process is the watcher of a run.
fn watches(pid: i32, run: &RunId) -> bool {
    matches!(&environments::arguments(pid)[..], [_, command, _, of, ..] if command == SUBCOMMAND && *of == run.to_string())
}

/// This process with the watcher and the starter of its run, and all others.
fn of_takt(pids: Vec<i32>, run: &RunId) -> [Vec<i32>; 2] {
    let own = getpid().as_raw_nonzero().get();
    let is_mine = |pid: &i32| *pid == own || watches(*pid, run) || starter::starts(*pid, run);
    let (mine, others) = pids.into_iter().partition(is_mine);
    [mine, others]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    #[test]
    fn the_group_of_a_supervisor_names_its_run() {
        let run = RunId::new().unwrap();
        for end in ["", ENABLED] {
            assert_eq!(run_of(Path::new(&format!("/a/{LEAF}{run}{end}"))), Some(run));
        }
        for name in ["supervisor", "supervisor-", "supervisor-1-2-cpuset", "takt-1-2"] {
            assert_eq!(run_of(&Path::new("/a").join(name)), None, "{name}");
        }
    }

    /// A user could have the reader of a command line wait.
    #[test]
    fn the_command_line_of_another_user_is_not_read() {
        use std::process::{Command, Stdio};
        if !rustix::process::geteuid().is_root() {
            return takt_testing::skip(takt_testing::Capability::Users, "a second user needs root");
        }
        let run = RunId::new().unwrap();
        let room = tempfile::tempdir().unwrap();
        fs::set_permissions(room.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for script in [starter::SUBCOMMAND, SUBCOMMAND] {
            fs::write(room.path().join(script), "printf \"$NAME\" >/proc/$$/comm; echo; read -r end").unwrap();
        }
        // Whether it is one of Takt, and whether it is one whose program has not begun.
        let seen = |arguments: &[&str], user: u32, name: &str| {
            let mut command = Command::new("sh");
            command.args(arguments).env("NAME", name).uid(user).current_dir(room.path());
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            // Its program has begun.
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
            let pid = child.id() as i32;
            let seen = (of_takt(vec![pid], &run)[0] == [pid], starter::is_unborn(pid, &run));
            drop(child.stdin.take());
            child.wait().unwrap();
            seen
        };
        let of = run.to_string();
        let (starts, watches) = ([starter::SUBCOMMAND, &of], [SUBCOMMAND, "1", &of, "kill"]);
        assert_eq!(seen(&starts, 0, "sh"), (true, true));
        assert_eq!(seen(&starts, 65_532, "sh"), (false, false));
        assert_eq!(seen(&starts, 65_532, "takt-starter"), (false, true));
        assert_eq!(seen(&[starter::SUBCOMMAND, "1-1"], 0, "takt-starter"), (false, false), "that of another run");
        assert_eq!(seen(&watches, 0, "sh"), (true, false));
        assert_eq!(seen(&watches, 65_532, "sh"), (false, false));
        run.end();
    }
}
