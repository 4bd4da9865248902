//! Whether a run lives: its process holds a lock, and the loss of that lock proves its death.
//!
//! `/proc` shows the processes of one PID namespace, and start times of one time namespace. A process that is not seen there may live elsewhere, as in
//! another container over the same control groups. So a run is never judged by `/proc`. Two kinds of files carry locks:
//!
//! * A file `RUN.life` of mode 0600 in the directory of the control sockets. Byte 0 belongs to the process that drives the run, byte 1 to the process
//!   that cleans up after it, which is its watcher in general.
//! * In each directory of control groups that the run makes, a file of the kernel. All mounts of a hierarchy share it, in all namespaces.
//!
//! The lock of the driver is a record lock of POSIX (fcntl(2)). A child does not inherit it, so a frozen child that has not begun its program cannot keep a
//! dead run alive. Such a lock is lost when its process closes any descriptor of the file. So a process never opens these files of its own runs again:
//! it knows them by name.

use crate::places::{self, SESSION};
use crate::record_lock::{claim, is_locked, lock};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

const SUFFIX: &str = ".life";
/// The byte that belongs to the process that drives the run.
const DRIVER: i64 = 0;
/// The byte that belongs to the process that cleans up after the run.
const CLEANER: i64 = 1;
/// Files of a control group that carry its lock: of cgroup v2, and of v1. Takt uses them for nothing else.
const OF_GROUP: [&str; 2] = ["cgroup.max.depth", "notify_on_release"];
/// How long a new group is tried that another process removes as one of a dead run.
const CREATION: Duration = Duration::from_millis(200);

/// The state of a run, as far as it is known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// The process that drives it lives.
    Lives,
    /// That process has died, and another one cleans up.
    Ends,
    /// That process has died.
    Ended,
    /// Neither its life nor its death can be seen from here.
    Unseen,
}

impl Life {
    /// The process that drives the run is proven to be dead.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Life::Ends | Life::Ended)
    }
}

/// A run of this process.
struct Own {
    run: String,
    /// Its file; `None` where no directory takes one.
    file: Option<(PathBuf, File)>,
    /// The failure in the best directory without a file.
    failure: Option<(PathBuf, io::Error)>,
    /// Reasons for which the file outlives this process.
    lasts: Vec<Outlasts>,
}

/// Why the file of a run outlives its process: what the run leaves behind is judged by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outlasts {
    /// Its watcher removes the file, after everything else.
    Watcher,
    /// It has changed settings of the machine.
    Settings,
    /// It has isolated CPUs.
    Isolation,
}

static OWN: Mutex<Vec<Own>> = Mutex::new(Vec::new());

fn own() -> MutexGuard<'static, Vec<Own>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the life of a run of this process. `false` if another run has the name.
pub(crate) fn begin(run: &str) -> bool {
    static AT_EXIT: Once = Once::new();
    let mut own = own();
    if own.iter().any(|known| known.run == run) {
        return false;
    }
    let mut failure = None;
    for directory in places::of_lives() {
        let path = directory.join(format!("{run}{SUFFIX}"));
        match places::make_private(&directory).and_then(|()| create(&path)) {
            Ok(Some(file)) => {
                own.push(Own { run: run.to_owned(), file: Some((path, file)), failure: None, lasts: Vec::new() });
                drop(own);
                AT_EXIT.call_once(|| crate::sys::at_exit(end_all));
                return true;
            }
            Ok(None) => return false,
            // A full or read-only directory.
            Err(e) => drop(failure.get_or_insert((directory, e))),
        }
    }
    own.push(Own { run: run.to_owned(), file: None, failure, lasts: Vec::new() });
    true
}

/// Makes the file and takes the lock of its driver; `None` if the name is in use.
fn create(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::EXIST) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    // Until it has its lock, the file looks like that of a dead run, and another process may remove it.
    match lock(&file, DRIVER, 1) {
        Ok(locked) => Ok((locked && file.metadata()?.nlink() > 0).then_some(file)),
        Err(e) => {
            // A file without a lock would prove the death of a live run.
            let _ = fs::remove_file(path);
            Err(e)
        }
    }
}

/// The file of a run of this process remains when the process ends.
///
/// # Errors
/// The run has no file: the failure when it was to be made, with its kind.
pub(crate) fn outlast(run: &str, why: Outlasts) -> io::Result<()> {
    let mut own = own();
    let known = own.iter_mut().find(|known| known.run == run);
    let (kind, reason) = match known {
        Some(known) if known.file.is_some() => {
            known.lasts.push(why);
            return Ok(());
        }
        Some(Own { failure: Some((place, e)), .. }) => (e.kind(), format!("in {}: {e}", place.display())),
        _ => (ErrorKind::Other, "that this process drives".to_owned()),
    };
    Err(io::Error::new(kind, format!("there is no lock of this run {reason}")))
}

/// A reason of [`outlast`] holds no more.
pub(crate) fn settle(run: &str, why: Outlasts) {
    for known in own().iter_mut().filter(|known| known.run == run) {
        known.lasts.retain(|other| *other != why);
    }
}

/// Ends the life of a run of this process that has left nothing.
pub(crate) fn end(run: &str) {
    let mut own = own();
    if let Some(index) = own.iter().position(|known| known.run == run)
        && let Some((path, _file)) = own.swap_remove(index).file
    {
        // Removed before its lock is given back.
        let _ = fs::remove_file(path);
    }
}

/// Removes the files of this process's runs that leave nothing.
extern "C" fn end_all() {
    // Another thread may hold the lock for good: then a later run removes the files.
    let Ok(own) = OWN.try_lock() else { return };
    for (path, file) in own.iter().filter(|known| known.lasts.is_empty()).filter_map(|known| known.file.as_ref()) {
        // A fork of the process has the list, and none of the locks: to it they look like those of another process.
        if lock(file, DRIVER, 1).unwrap_or(false) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether this process drives a run.
pub(crate) fn is_own(run: &str) -> bool {
    own().iter().any(|known| known.run == run)
}

/// The life of a run that the files in directories of this user show.
pub(crate) fn of(run: &str) -> Life {
    if is_own(run) {
        return Life::Lives;
    }
    let directories = places::of_lives();
    let known = directories.iter().filter(|directory| places::is_private(directory).unwrap_or(false));
    known.filter_map(|directory| look(&directory.join(format!("{run}{SUFFIX}")))).next().unwrap_or(Life::Unseen)
}

/// The life of a run whose mark a process carries, shown by the directories that this process sees.
pub(crate) fn of_marked(pid: i32, run: &str, environment: &[u8]) -> Life {
    if is_own(run) {
        return Life::Lives;
    }
    let session = environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(SESSION.as_bytes())?.strip_prefix(b"=")?;
        Some(PathBuf::from(std::str::from_utf8(value).ok()?).join(places::OF_SESSION))
    });
    let user = fs::metadata(format!("/proc/{pid}")).map_or(0, |known| known.uid());
    let of_user = session.into_iter().chain(places::of_user(user)).map(|directory| (directory, user));
    let directories = [(PathBuf::from(places::SYSTEM), 0)].into_iter().chain(of_user);
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let seen = directories.filter_map(|(directory, owner)| {
        let directory = root.join(directory.strip_prefix("/").ok()?);
        // The file of a third user is ignored: it would have the process killed.
        let is_private = places::is_private_of(&directory, owner).unwrap_or(false);
        if is_private { look(&directory.join(format!("{run}{SUFFIX}"))) } else { None }
    });
    // A directory of the system may show a run that a session does not have.
    seen.into_iter().next().unwrap_or_else(|| of(run))
}

/// The life that a file shows; `None` if it is not there.
fn look(path: &Path) -> Option<Life> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return None,
        Err(_) => return Some(Life::Unseen),
    };
    if !file.metadata().is_ok_and(|known| known.is_file()) {
        return Some(Life::Unseen);
    }
    Some(match (is_locked(&file, DRIVER, 1), is_locked(&file, CLEANER, 1)) {
        (Ok(true), _) => Life::Lives,
        (Ok(false), Ok(true)) => Life::Ends,
        (Ok(false), Ok(false)) => Life::Ended,
        _ => Life::Unseen,
    })
}

/// Names of the runs of this user that have files and have ended.
pub(crate) fn ended() -> Vec<String> {
    let directories = places::of_lives();
    let known = directories.iter().filter(|directory| places::is_private(directory).unwrap_or(false));
    let entries = known.flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
    let names = entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(SUFFIX)?.to_owned()));
    let mut names: Vec<String> = names.filter(|run| of(run).has_ended()).collect();
    names.sort();
    names
}

/// The right to clean up after a run, which one process has at a time.
#[derive(Debug)]
pub(crate) struct Succession {
    path: PathBuf,
    file: File,
}

impl Succession {
    /// Takes the right; `None` if another process has it, or if the run has no file.
    pub(crate) fn take(run: &str) -> Option<Succession> {
        if is_own(run) {
            return None;
        }
        let open = |directory: PathBuf| {
            let path = directory.join(format!("{run}{SUFFIX}"));
            let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Some(Succession { file: rustix::fs::open(&path, flags, Mode::empty()).ok()?.into(), path })
        };
        let found = places::of_lives().into_iter().filter(|place| places::is_private(place).unwrap_or(false));
        found.filter_map(open).next().filter(|right| claim(&right.file, CLEANER, 1).unwrap_or(false))
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Nothing of the run is left.
    pub(crate) fn finish(&self) {
        // Not that of a run which has just been given the name.
        if claim(&self.file, DRIVER, 1).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The lock of a group of control groups, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct GroupLock {
    /// `None` in a directory that is no control group.
    _file: Option<File>,
}

/// Makes a directory of a run of this process, with a lock that other namespaces see.
///
/// # Errors
/// It cannot be made, or is there.
pub(crate) fn make_group(path: &Path) -> io::Result<GroupLock> {
    let deadline = Instant::now() + CREATION;
    loop {
        // No other user may open the file before its mode is 0600.
        DirBuilder::new().mode(0o700).create(path)?;
        match lock_group(path) {
            Ok(Some(lock)) => return Ok(lock),
            // Until it has its lock, it looks like the group of a dead run, and another process may remove it.
            Ok(None) if Instant::now() < deadline => {}
            Ok(None) => return Err(io::Error::other("another process removes it")),
            Err(e) => {
                let _ = fs::remove_dir(path);
                return Err(e);
            }
        }
        while fs::remove_dir(path).is_err() && path.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Takes the lock of a group that was made; `None` if another process has it, which then removes the group.
fn lock_group(path: &Path) -> io::Result<Option<GroupLock>> {
    let Some(file) = open_group(path, true)? else {
        return if path.exists() { Ok(Some(GroupLock { _file: None })) } else { Ok(None) };
    };
    let locked = lock(&file, 0, 0)?;
    // A removed file of a control group cannot be read.
    if !locked || file.read_at(&mut [0; 8], 0).is_err() {
        return Ok(None);
    }
    fs::set_permissions(path, Permissions::from_mode(0o755))?;
    Ok(Some(GroupLock { _file: Some(file) }))
}

/// The file with the lock of a group; `None` if there is none.
fn open_group(path: &Path, private: bool) -> io::Result<Option<File>> {
    for file in OF_GROUP.map(|name| path.join(name)) {
        if private {
            match fs::set_permissions(&file, Permissions::from_mode(0o600)) {
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                done => done?,
            }
        }
        match rustix::fs::open(&file, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => return Ok(Some(file.into())),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(None)
}

/// A group of a dead run. Its run cannot come back while this value lives.
#[derive(Debug)]
pub(crate) struct Seized {
    _file: File,
}

/// The life that the lock of a group shows, with its file where it is free.
fn look_at_group(run: &str, path: &Path) -> (Life, Option<File>) {
    if is_own(run) {
        return (Life::Lives, None);
    }
    let Ok(Some(file)) = open_group(path, false) else { return (Life::Unseen, None) };
    match is_locked(&file, 0, 0) {
        Ok(true) => (Life::Lives, None),
        Ok(false) => (Life::Ended, Some(file)),
        Err(_) => (Life::Unseen, None),
    }
}

/// The life that the lock of a group shows.
pub(crate) fn of_group(run: &str, path: &Path) -> Life {
    look_at_group(run, path).0
}

/// Takes the lock of the group of a dead run. `None` if it has none, or if another process has taken it.
pub(crate) fn seize_group(run: &str, path: &Path) -> Option<Seized> {
    let file = look_at_group(run, path).1?;
    claim(&file, 0, 0).is_ok_and(|taken| taken).then_some(Seized { _file: file })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of this user, as that of control sockets.
    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
        directory
    }

    #[test]
    fn a_name_is_taken_once_and_its_file_has_a_lock() {
        let directory = directory();
        let path = directory.path().join("7-9.life");
        assert_eq!(look(&path), None);
        let file = create(&path).unwrap().unwrap();
        assert!(create(&path).unwrap().is_none(), "the name is in use");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(file);
        assert_eq!(look(&path), Some(Life::Ended));
    }

    /// The locks of one process do not exclude each other, so another open file stands for another process.
    #[test]
    fn life_and_the_one_that_cleans_up_are_seen() {
        let directory = directory();
        let path = directory.path().join("7-9.life");
        fs::write(&path, "").unwrap();
        let other = || File::options().read(true).write(true).open(&path).unwrap();
        let (driver, cleaner) = (other(), other());
        assert!(claim(&driver, DRIVER, 1).unwrap() && claim(&cleaner, CLEANER, 1).unwrap());
        assert_eq!(look(&path), Some(Life::Lives));
        assert!(!claim(&other(), CLEANER, 1).unwrap(), "one at a time");
        drop(driver);
        assert_eq!(look(&path), Some(Life::Ends));
        let right = Succession { path: path.clone(), file: cleaner };
        right.finish();
        assert!(!path.exists());
    }

    #[test]
    fn a_run_that_has_just_begun_keeps_its_file() {
        let directory = directory();
        let path = directory.path().join("7-9.life");
        fs::write(&path, "").unwrap();
        let other = || File::options().read(true).write(true).open(&path).unwrap();
        let (driver, cleaner) = (other(), other());
        let right = Succession { path: path.clone(), file: cleaner };
        assert!(claim(&driver, DRIVER, 1).unwrap());
        right.finish();
        assert!(path.exists());
    }

    /// Other files, links and files of other users prove nothing.
    #[test]
    fn only_a_regular_file_proves_a_death() {
        let directory = directory();
        let path = directory.path().join("7-9.life");
        fs::write(directory.path().join("free"), "").unwrap();
        std::os::unix::fs::symlink(directory.path().join("free"), &path).unwrap();
        assert_eq!(look(&path), Some(Life::Unseen));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(look(&path), Some(Life::Unseen));
    }

    /// The child holds copies of all descriptors and does nothing, as one that is frozen before it begins its program.
    #[test]
    fn a_child_does_not_inherit_a_life() {
        let directory = directory();
        let path = directory.path().join("7-9.life");
        let file = create(&path).unwrap().unwrap();
        let mut child = std::process::Command::new("sleep");
        let inherited = file.try_clone().unwrap();
        let mut child = child.arg("60").stdin(inherited).spawn().unwrap();
        // It has the file at 0. This closes the last descriptor of this process, and with it its lock.
        drop(file);
        let seen = look(&path);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, Some(Life::Ended));
    }

    #[test]
    fn a_run_of_this_process_lives_and_others_are_unseen() {
        let run = format!("1-{}", std::process::id());
        assert_eq!(of(&run), Life::Unseen);
        assert!(begin(&run) && !begin(&run));
        assert_eq!(of(&run), Life::Lives);
        end(&run);
        assert_eq!(of(&run), Life::Unseen);
    }

    /// The life of a group as another namespace sees it: this test runs again there, with `/run` and a root of control groups of its own.
    const SEEN: &str = "TAKT_TEST_GROUP_SEEN";

    /// In a container that shares neither `/run` nor PIDs nor the root of control groups, the lock of a group alone shows the life of its run.
    #[test]
    fn the_lock_of_a_group_is_seen_in_a_container() {
        use std::process::{Command, Stdio};
        if let Ok(seen) = std::env::var(SEEN) {
            let [run, path, expected] = seen.split(' ').collect::<Vec<_>>()[..] else { panic!("{seen}") };
            let path = Path::new(path);
            assert!(path.is_dir(), "{seen}");
            assert_eq!(of(run), Life::Unseen, "no file of the run is in this /run");
            let lives = expected == "lives";
            assert_eq!(of_group(run, path), if lives { Life::Lives } else { Life::Ended }, "{seen}");
            assert_eq!(seize_group(run, path).is_none(), lives, "{seen}");
            // Two cannot have it.
            if let Some(_first) = seize_group(run, path) {
                assert!(seize_group(run, path).is_none() && of_group(run, path) == Life::Lives);
            }
            return;
        }
        let script = "set -e; mount -t tmpfs takt-test /run; mkdir /run/hierarchy; mount -t \"$1\" $2 none /run/hierarchy; shift 2; exec \"$@\"";
        let unshared = ["--fork", "--pid", "--mount-proc", "--mount", "--cgroup", "sh", "-c"];
        let tried =
            Command::new("unshare").args(unshared).arg("mount -t tmpfs takt-test /run").stderr(Stdio::null()).status();
        if !tried.is_ok_and(|status| status.success()) {
            return takt_testing::skip(takt_testing::Capability::Mounts, "needs root and namespaces");
        }
        let layout = crate::layout::Layout::read().unwrap();
        let kinds = [
            (&layout.unified, "cgroup2", ""),
            (&layout.freezer, "cgroup", "-ofreezer"),
            (&layout.cpuset, "cgroup", "-ocpuset"),
        ];
        for (hierarchy, kind, option) in
            kinds.into_iter().filter_map(|(h, kind, option)| Some((h.as_ref()?, kind, option)))
        {
            let run = crate::run_id::RunId::new().unwrap();
            let path = hierarchy.own.join(run.group_name());
            let look = |expected: &str| {
                let inside = format!("{run} /run/hierarchy/{} {expected}", run.group_name());
                let mut again = Command::new("unshare");
                again.args(unshared).args([script, "sh", kind, option]).arg(std::env::current_exe().unwrap());
                let name = "life::tests::the_lock_of_a_group_is_seen_in_a_container";
                let output = again.args([name, "--exact", "--nocapture"]).env(SEEN, inside).output().unwrap();
                let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && said.contains("1 passed"), "{kind} {option} {expected}: {said}");
            };
            let lock = make_group(&path).unwrap();
            assert_eq!(of_group(&run.to_string(), &path), Life::Lives);
            look("lives");
            drop(lock);
            look("ended");
            fs::remove_dir(&path).unwrap();
            run.end();
        }
    }
}
