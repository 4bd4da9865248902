//! Files in a directory that another user may look into: a lock that only its owner can open, and a text that only its owner could have written.
//!
//! `flock` needs no right but that of opening a file. So every user who could read a lock could also hold it, and keep its owner waiting (flock(2)).

use crate::environments;
use rustix::fs::{OFlags, major, minor};
use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long another process of this user is waited for. An isolation on a machine with many threads takes some seconds.
pub(crate) const WAIT: Duration = Duration::from_secs(10);

/// Bits of a mode by which other users write.
const WRITE: u32 = 0o022;

fn refused(what: String) -> io::Error {
    io::Error::other(what)
}

/// Makes a directory that all users may look into and this one alone may write, unless it is there. Another mode of an own directory is corrected.
///
/// # Errors
/// It cannot be made, it is a symbolic link or no directory, or it belongs to another user.
pub(crate) fn make_readable(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let (name, known) = (directory.display(), fs::symlink_metadata(directory)?);
    if known.is_symlink() {
        return Err(refused(format!("{name} is a symbolic link")));
    }
    if !known.is_dir() {
        return Err(refused(format!("{name} is no directory")));
    }
    if known.uid() != own() {
        return Err(refused(format!("{name} belongs to the user {}", known.uid())));
    }
    if known.mode() & 0o7777 != 0o755 {
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Takes the lock with this path, which is made with the mode 0600. The lock ends with the value, or with the process.
///
/// # Errors
/// The file is none of this user alone; after `wait`, another process has the lock: its name is in the text.
pub(crate) fn lock(path: &Path, wait: Duration) -> io::Result<File> {
    let began = Instant::now();
    let mut open = File::options();
    open.read(true)
        .write(true)
        .create(true)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let file = open.open(path).map_err(|e| named(path, &e))?;
    let known = file.metadata()?;
    if !known.is_file() || known.uid() != own() {
        return Err(refused(format!("{} is no file of this user", path.display())));
    }
    if known.mode() & 0o077 != 0 {
        // A process that has it open keeps it, and is named if it holds the lock.
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(named(path, &e)),
            Err(TryLockError::WouldBlock) if began.elapsed() < wait => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::WouldBlock) => {
                let what = format!("{} has been locked for {} s by {}", path.display(), wait.as_secs(), holder(&known));
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
        }
    }
}

/// The process of this user or of root that holds a lock of a writer (`flock`) on a file, in words. A process of another user may only read the file.
#[must_use]
pub fn holder(file: &Metadata) -> String {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let identity = format!("{:02x}:{:02x}:{}", major(file.dev()), minor(file.dev()), file.ino());
    let is_trusted =
        |pid: &i32| environments::users(*pid).is_some_and(|users| users.iter().all(|user| [0, own()].contains(user)));
    let Some(pid) = locks.lines().filter_map(|line| holder_in(line, &identity)).find(is_trusted) else {
        return "another process".into();
    };
    let command = Some(environments::arguments(pid).join(" ")).filter(|line| !line.is_empty());
    let command = command.unwrap_or_else(|| environments::name(pid));
    let user = fs::metadata(format!("/proc/{pid}")).map_or(String::new(), |known| format!(", user {}", known.uid()));
    format!("process {pid} ({}{user})", command.chars().take(80).collect::<String>())
}

/// The process in a line of `/proc/locks` (proc_locks(5)) that holds this file (device and number) alone, and does not only wait for it (`->`). Processes
/// outside of this PID namespace have no number.
fn holder_in(line: &str, file: &str) -> Option<i32> {
    let fields: Vec<&str> = line.split_ascii_whitespace().skip(1).take(5).collect();
    let ["FLOCK", _, "WRITE", pid, of] = fields[..] else { return None };
    pid.parse().ok().filter(|pid| *pid > 0 && of == file)
}

/// The text of a file that only root or this user can have written; `None` where it is missing.
///
/// # Errors
/// It is a link, or another user could have written it.
pub(crate) fn read_own(path: &Path) -> io::Result<Option<String>> {
    let mut open = File::options();
    open.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let mut file = match open.open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| named(path, &e))?,
    };
    let known = file.metadata()?;
    // A second name would be a hard link that another user has made of a file elsewhere.
    let is_own =
        known.is_file() && [0, own()].contains(&known.uid()) && known.mode() & WRITE == 0 && known.nlink() == 1;
    if !is_own {
        return Err(refused(format!(
            "{} may have been written by another user (user {}, mode {:o})",
            path.display(),
            known.uid(),
            known.mode() & 0o7777
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    /// A directory that is removed with this value.
    struct Room(std::path::PathBuf);

    impl Room {
        fn new(name: &str) -> Room {
            let path = std::env::temp_dir().join(format!("takt-lock-{name}-{}", std::process::id()));
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Room(path)
        }
    }

    impl Drop for Room {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_lock_is_closed_to_others_and_a_wait_for_it_names_its_holder() {
        let room = Room::new("wait");
        let path = room.0.join("lock");
        // As it was left by a version that did not care.
        File::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let held = lock(&path, Duration::ZERO).unwrap();
        assert_eq!(held.metadata().unwrap().mode() & 0o7777, 0o600);
        let refused = lock(&path, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        let said = refused.to_string();
        assert!(said.starts_with(path.to_str().unwrap()), "{said}");
        assert!(said.contains(&format!("process {} (", std::process::id())), "{said}");
        drop(held);
        lock(&path, Duration::ZERO).unwrap();
        symlink(&path, room.0.join("link")).unwrap();
        assert!(lock(&room.0.join("link"), Duration::ZERO).is_err());
    }

    #[test]
    fn a_directory_is_made_or_corrected_and_a_link_is_refused() {
        let room = Room::new("directory");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        let directory = room.0.join("d");
        make_readable(&directory).unwrap();
        for wrong in [0o777, 0o700, 0o1755] {
            fs::set_permissions(&directory, Permissions::from_mode(wrong)).unwrap();
            make_readable(&directory).unwrap();
            assert_eq!(mode(&directory), 0o755);
        }
        symlink(&directory, room.0.join("link")).unwrap();
        assert!(make_readable(&room.0.join("link")).unwrap_err().to_string().ends_with("is a symbolic link"));
        fs::write(room.0.join("file"), "").unwrap();
        assert!(make_readable(&room.0.join("file")).unwrap_err().to_string().ends_with("is no directory"));
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&directory, Some(65_532), None).unwrap();
            let refused = make_readable(&directory).unwrap_err().to_string();
            assert!(refused.ends_with("belongs to the user 65532"), "{refused}");
        }
    }

    #[test]
    fn a_text_that_others_could_have_written_is_refused() {
        let room = Room::new("text");
        let path = room.0.join("text");
        assert_eq!(read_own(&path).unwrap(), None);
        fs::write(&path, "text").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read_own(&path).unwrap().as_deref(), Some("text"));
        symlink(&path, room.0.join("link")).unwrap();
        assert!(read_own(&room.0.join("link")).is_err());
        fs::hard_link(&path, room.0.join("hard")).unwrap();
        assert!(read_own(&path).is_err());
        fs::remove_file(room.0.join("hard")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        assert!(read_own(&path).unwrap_err().to_string().contains("mode 664"));
    }

    #[test]
    fn a_line_of_the_kernel_names_its_process() {
        let file = "fe:00:5540076";
        assert_eq!(holder_in("2: FLOCK  ADVISORY  WRITE 3986 fe:00:5540076 0 EOF", file), Some(3986));
        for other in [
            "2: FLOCK  ADVISORY  WRITE 3986 fe:00:554007 0 EOF",
            "2: FLOCK  ADVISORY  WRITE 3986 fe:01:5540076 0 EOF",
            "2: FLOCK  ADVISORY  READ  3986 fe:00:5540076 0 EOF",
            "2: -> FLOCK  ADVISORY  WRITE 3987 fe:00:5540076 0 EOF",
            "1: POSIX  ADVISORY  WRITE 3986 fe:00:5540076 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 0 fe:00:5540076 0 EOF",
        ] {
            assert_eq!(holder_in(other, file), None, "{other}");
        }
    }

    /// `flock` needs no right to write.
    #[test]
    fn a_reader_of_another_user_is_not_named_as_the_writer() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: another user needs root");
        }
        if Command::new("flock").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return println!("skipped: `flock` is not installed");
        }
        let room = Room::new("reader");
        fs::set_permissions(&room.0, Permissions::from_mode(0o755)).unwrap();
        let path = room.0.join("file");
        let file = File::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        for (user, is_named) in [(65_532, false), (0, true)] {
            let mut command = Command::new("flock");
            let mut child = command.arg(&path).arg("cat").uid(user).gid(user).stdin(Stdio::piped()).spawn().unwrap();
            while file.try_lock().is_ok() {
                file.unlock().unwrap();
                assert!(child.try_wait().unwrap().is_none(), "it ends before it has the lock");
                std::thread::sleep(Duration::from_millis(1));
            }
            let said = holder(&file.metadata().unwrap());
            // The end of its input ends it.
            assert!(child.wait().unwrap().success());
            assert_eq!(said.starts_with(&format!("process {} (flock", child.id())), is_named, "{said}");
            assert_eq!(said == "another process", !is_named, "{said}");
        }
    }
}
