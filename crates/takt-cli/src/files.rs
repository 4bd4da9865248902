//! Files that commands write.
//!
//! A file is locked (`flock`) while a command writes it, so that a second command does not destroy it. The kernel releases the lock when the process
//! ends, however that happens. A file system without such locks is used without them.
//!
//! No regular file is opened with a wait. Another user could put a pipe without a reader in its place, or hold a lease of it (fcntl(2)), for which an
//! open waits 45 s. A named pipe of another user is refused, since its owner decides how long each write waits. Root's may be written by all users.

use crate::failure::Failure;
use rustix::fs::OFlags;
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use takt_workload::Code;

/// A process that was just killed may still hold its locks, and a server of files ends its lease on request. They are waited for so often, for so long each.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// The most that is read of a pipe or a device, which can be endless, in bytes.
const LARGEST: u64 = 256 << 20;

/// Device and number of a file.
type Identity = (u64, u64);

/// The files that this process has locked. A lock belongs to an open file, so a second one of the same process would be refused.
static OWN: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

fn own() -> MutexGuard<'static, BTreeSet<Identity>> {
    OWN.lock().unwrap_or_else(|e| e.into_inner())
}

fn identity(known: &Metadata) -> Identity {
    (known.dev(), known.ino())
}

/// A locked file, until it is dropped. A file that was created for the lock and is empty then is removed.
#[derive(Debug)]
pub(crate) struct Locked {
    file: File,
    path: PathBuf,
    identity: Identity,
    is_new: bool,
}

impl Locked {
    /// The file stays although it is empty.
    pub(crate) fn keep(&mut self) {
        self.is_new = false;
    }

    /// Whether the command has created the file.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// The file has another name now.
    pub(crate) fn renamed(&mut self, path: &Path) {
        self.path = path.to_owned();
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let is_empty = self.file.metadata().is_ok_and(|known| known.len() == 0);
        let is_there = fs::metadata(&self.path).is_ok_and(|known| identity(&known) == self.identity);
        if self.is_new && is_empty && is_there {
            // Nothing is left behind by an experiment that does not come to its end.
            let _ = fs::remove_file(&self.path);
        }
        own().remove(&self.identity);
    }
}

/// Why a file cannot be locked.
#[derive(Debug)]
pub(crate) enum Unlocked {
    /// Another process writes it, or has a lease of it: the rest of a sentence about the file.
    InUse(String),
    /// A named pipe of this user: neither that of the process nor root.
    PipeOf(u32),
    Failed(io::Error),
}

impl Unlocked {
    /// The failure of a command that has to read or write (`action`) this file.
    pub(crate) fn failure(self, action: &str, path: &Path) -> Failure {
        match self {
            Unlocked::Failed(e) => Failure::file(action, path, &e),
            Unlocked::InUse(how) => {
                let message = format!("`{}` {how}", path.display());
                Failure::machine(Code::FileInUse, message, "name another file, or wait for the end of that process")
            }
            Unlocked::PipeOf(user) => {
                let message = format!("`{}` is a pipe of user {user}, which can delay each write", path.display());
                Failure::input(
                    Code::UnwritableFile,
                    message,
                    "make the pipe as the user of this command, or name a file",
                )
            }
        }
    }
}

impl From<Unlocked> for io::Error {
    fn from(why: Unlocked) -> io::Error {
        match why {
            Unlocked::Failed(e) => e,
            Unlocked::InUse(_) => io::Error::new(io::ErrorKind::ResourceBusy, "another process has it in use"),
            Unlocked::PipeOf(user) => {
                io::Error::new(io::ErrorKind::PermissionDenied, format!("it is a pipe of user {user}"))
            }
        }
    }
}

/// Tests an output that is no regular file.
///
/// # Errors
/// [`Unlocked::PipeOf`]. A pipe without a name, as of a shell's pipeline, is not refused: a descriptor of it was passed on purpose.
fn special(known: &Metadata) -> Result<(), Unlocked> {
    let is_own = [0, rustix::process::geteuid().as_raw()].contains(&known.uid());
    if !known.file_type().is_fifo() || is_own {
        return Ok(());
    }
    let nameless = rustix::pipe::pipe().and_then(|(end, _)| rustix::fs::fstat(end)).map_err(io::Error::from);
    match nameless.map_err(Unlocked::Failed)?.st_dev == known.dev() {
        true => Ok(()),
        false => Err(Unlocked::PipeOf(known.uid())),
    }
}

/// Opens a regular file. `None` if it is no regular file.
///
/// # Errors
/// It cannot be opened, or another process has a lease of it.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> Result<Option<File>, Unlocked> {
    options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    let mut tries = 0;
    let file = loop {
        tries += 1;
        match options.open(path) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && tries < TRIES => std::thread::sleep(PAUSE),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(Unlocked::InUse("is leased by another process (fcntl(2))".into()));
            }
            // A pipe without a reader.
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => return Ok(None),
            opened => break opened.map_err(Unlocked::Failed)?,
        }
    };
    let is_file = file.metadata().map_err(Unlocked::Failed)?.is_file();
    Ok(is_file.then_some(file))
}

/// Creates or empties a regular file.
///
/// # Errors
/// As [`open`]; it is no regular file.
pub(crate) fn fresh(path: &Path) -> Result<File, Unlocked> {
    let other = || Unlocked::Failed(io::Error::other("it is no regular file any more"));
    open(File::options().write(true).create(true).truncate(true), path)?.ok_or_else(other)
}

/// Locks a file that is open for writing. `None` if this process has locked it already.
///
/// # Errors
/// Another process writes it.
pub(crate) fn lock_open(file: File, path: &Path, is_new: bool) -> Result<Option<Locked>, Unlocked> {
    let known = file.metadata().map_err(Unlocked::Failed)?;
    let identity = identity(&known);
    if own().contains(&identity) {
        return Ok(None);
    }
    let mut tries = 0;
    // An error means that the file system has no locks.
    while let Ok(false) = takt_linux::lock_as_writer(&file) {
        tries += 1;
        if tries == TRIES {
            return Err(Unlocked::InUse(format!("is being written by {}", takt_linux::lock_holder(&known))));
        }
        std::thread::sleep(PAUSE);
    }
    // It names this process to others, and refuses nothing.
    let _ = file.try_lock();
    own().insert(identity);
    Ok(Some(Locked { file, path: path.to_owned(), identity, is_new }))
}

/// Opens and locks a file, and creates it unless it is there. Its contents stay. `None` if it is no regular file, or if this process has locked it already.
fn open_locked(path: &Path) -> Result<Option<Locked>, Unlocked> {
    loop {
        let is_new = !path.exists();
        let Some(file) = open(File::options().append(true).create(true), path)? else { return Ok(None) };
        let known = file.metadata().map_err(Unlocked::Failed)?;
        let locked = lock_open(file, path, is_new)?;
        // The file may have been replaced or removed meanwhile, by the process that had the lock.
        if locked.is_none() || fs::metadata(path).is_ok_and(|now| identity(&now) == identity(&known)) {
            return Ok(locked);
        }
    }
}

/// The files of a command, locked until this value is dropped.
#[must_use = "the locks end with it"]
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    _locked: Vec<Locked>,
}

/// Locks a file, found before the work and not after it. Its contents stay.
///
/// # Errors
/// It cannot be written, or another process writes it.
pub(crate) fn writable(path: &Path) -> Result<Outputs, Failure> {
    let locked = open_locked(path).map_err(|why| why.failure("write", path))?;
    Ok(Outputs { _locked: locked.into_iter().collect() })
}

/// Whether files can be written, found before anything starts or is created: none of them is one that is read, or named twice, or written by
/// another process.
///
/// # Errors
/// Why one cannot.
pub(crate) fn ready<'p>(
    read: impl IntoIterator<Item = &'p PathBuf>,
    written: impl IntoIterator<Item = &'p PathBuf>,
) -> Result<Outputs, Failure> {
    let real = |path: &Path| {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        path.canonicalize().unwrap_or_else(|_| absolute(path))
    };
    // A hard link, or another mount, is another path of the same file.
    let known = |path: &Path| fs::metadata(path).ok().map(|known| identity(&known));
    let read: Vec<_> = read.into_iter().map(|path| (real(path), known(path))).collect();
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut outputs = Outputs::default();
    for path in written {
        // A pipe and other special files can be written repeatedly, and are not opened for a test.
        if let Ok(about) = fs::metadata(path)
            && !about.is_file()
            && !about.is_dir()
        {
            special(&about).map_err(|why| why.failure("write", path))?;
            continue;
        }
        let own = real(path);
        let file = known(path);
        if read.iter().any(|(path, of)| *path == own || file.is_some() && *of == file) {
            let message = format!("`{}` is read, and would be overwritten", path.display());
            return Err(Failure::input(Code::SameFile, message, "name another file"));
        }
        if seen.contains(&own) {
            let message = format!("`{}` is to be written twice", path.display());
            return Err(Failure::input(Code::SameFile, message, "name a file for each"));
        }
        outputs._locked.extend(writable(path)?._locked);
        seen.push(own);
    }
    Ok(outputs)
}

/// A file that is written from its begin, locked.
#[derive(Debug)]
pub(crate) struct Output {
    file: File,
    _locked: Option<Locked>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Creates a file, or empties it.
///
/// # Errors
/// Status 2 when the file cannot be created, 3 when another process writes it.
pub(crate) fn create(path: &Path) -> Result<Output, Failure> {
    created(path).map_err(|why| why.failure("write", path))
}

/// As [`create`], with the error of the system.
pub(crate) fn created(path: &Path) -> Result<Output, Unlocked> {
    // A pipe is opened once, since that may wait for its reader.
    if path.exists() && !path.is_file() {
        // The tested file is the one that is written, although its name may lead to another one by now.
        let tested = File::options().read(true).custom_flags(OFlags::PATH.bits() as i32).open(path);
        let tested = tested.map_err(Unlocked::Failed)?;
        special(&tested.metadata().map_err(Unlocked::Failed)?)?;
        let file = File::create(format!("/proc/self/fd/{}", tested.as_raw_fd())).map_err(Unlocked::Failed)?;
        return Ok(Output { file, _locked: None });
    }
    let locked = open_locked(path)?;
    let file = fresh(path)?;
    let keep = |mut locked: Locked| {
        locked.keep();
        locked
    };
    Ok(Output { file, _locked: locked.map(keep) })
}

/// Locks a file for as long as the state in it is read and replaced.
///
/// # Errors
/// It cannot be written, or another process writes it.
pub(crate) fn lock(path: &Path) -> Result<Option<Locked>, Failure> {
    open_locked(path).map_err(|why| why.failure("write", path))
}

/// The bytes of a whole file.
///
/// # Errors
/// Status 2 when it cannot be read, or is no regular file and longer than 256 MiB.
pub(crate) fn contents(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
        let most = if file.metadata()?.is_file() { u64::MAX } else { LARGEST };
        Ok(file.take(most.saturating_add(1)).read_to_end(&mut bytes)? as u64 > most)
    });
    match read.map_err(|error| Failure::file("read", path, &error))? {
        true => {
            let message = format!("`{}` is longer than {} MiB", path.display(), LARGEST >> 20);
            Err(Failure::input(Code::LimitExceeded, message, "name a file that Takt has written"))
        }
        false => Ok(bytes),
    }
}

/// Locks the file of a state, which [`replace`] writes.
///
/// # Errors
/// As those of [`lock`], and status 2 when it is a device, a pipe or a folder.
pub(crate) fn lock_state(path: &Path) -> Result<Option<Locked>, Failure> {
    regular(path)?;
    lock(path)
}

/// Refuses a device, a pipe or a folder, in whose place a state would be put.
fn regular(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(known) if !known.is_file() => {
            let message = format!("`{}` is no regular file, as a state is", path.display());
            Err(Failure::input(Code::WrongFormat, message, "name another file with `--state`"))
        }
        _ => Ok(()),
    }
}

/// Cuts a regular file off at this length, or creates it, and writes a text behind. The text is on the disk when this returns.
///
/// # Errors
/// Status 2 when it cannot be opened or is no regular file, 1 when it cannot be written, as on a full disk.
pub(crate) fn write_from(path: &Path, length: u64, text: &str) -> Result<(), Failure> {
    regular(path)?;
    let opened = open(File::options().write(true).create(true).truncate(false), path);
    let Some(mut file) = opened.map_err(|why| why.failure("write", path))? else { return regular(path) };
    let written = file
        .set_len(length)
        .and_then(|()| file.seek(SeekFrom::End(0)))
        .and_then(|_| file.write_all(text.as_bytes()))
        .and_then(|()| file.sync_data());
    written.map_err(|e| Failure::write(path, &e))
}

/// Writes a whole state into a new file and puts it in the place of the old one, so that an interruption leaves one of the two. Returns the lock of the
/// new file.
///
/// # Errors
/// Status 2 when it is no regular file, or none can be created beside it, 1 when it cannot be written, as on a full disk.
pub(crate) fn replace(path: &Path, text: &str) -> Result<Option<Locked>, Failure> {
    regular(path)?;
    let fault = |e: &io::Error| Failure::write(path, e);
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(|e| Failure::file("write", path, &e))?;
    writeln!(file, "{text}").map_err(|e| fault(&e))?;
    file.as_file().sync_data().map_err(|e| fault(&e))?;
    // Another process that waits for the old file finds the new one locked.
    let own = file.as_file().try_clone().map_err(|e| fault(&e))?;
    let locked = lock_open(own, path, false).map_err(|why| fault(&why.into()))?;
    file.persist(path).map_err(|e| fault(&e.error))?;
    Ok(locked)
}

/// Writes a whole file.
///
/// # Errors
/// Status 2 when the file cannot be created, 1 when it cannot be written, as on a full disk, 3 when another process writes it.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
    create(path)?.write_all(contents.as_ref()).map_err(|e| Failure::write(path, &e))
}

/// Writes a whole file that does not exist yet. One that cannot be written completely is removed.
///
/// # Errors
/// Status 2 when it exists, with this hint, or cannot be created; 1 when it cannot be written.
pub(crate) fn write_new(path: &Path, text: &str, hint: &str) -> Result<(), Failure> {
    let mut file = File::create_new(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::input(Code::FileExists, format!("`{}` exists already", path.display()), hint)
        }
        _ => Failure::file("write", path, &error),
    })?;
    file.write_all(text.as_bytes()).map_err(|error| {
        let _ = fs::remove_file(path);
        Failure::write(path, &error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::sync::mpsc::channel;

    /// A pipe can replace a file after the path was looked at.
    #[test]
    fn a_pipe_in_the_place_of_a_file_is_an_error_and_no_wait() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let (sender, received) = channel();
        // Without an end, if it waits for a reader.
        let thread = path.clone();
        std::thread::spawn(move || {
            let outcomes = (fresh(&thread).is_err(), matches!(open_locked(&thread), Ok(None)));
            sender.send(outcomes).unwrap();
        });
        assert_eq!(received.recv_timeout(Duration::from_secs(20)).unwrap(), (true, true));
        // With a reader it can be opened, and is no file all the same.
        let _reader = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&path).unwrap();
        assert!(fresh(&path).is_err() && open_locked(&path).unwrap().is_none());
        assert!(fresh(&dir.path().join("file")).unwrap().metadata().unwrap().is_file());
    }

    /// An output may be a pipe. Another user's could keep the command waiting, and is found before anything starts.
    #[test]
    fn a_pipe_of_another_user_is_refused() {
        if !takt_testing::Capability::Users.is_present() {
            return takt_testing::skip(takt_testing::Capability::Users, "a pipe of another user");
        }
        let dir = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = dir.path().join(name);
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            path
        };
        let (own, other) = (pipe("own"), pipe("other"));
        std::os::unix::fs::chown(&other, Some(65534), None).unwrap();
        let reader =
            |path: &Path| File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).unwrap();
        // Without readers, both would be waited for.
        let _readers = [reader(&own), reader(&other)];
        let refusal = ready([], [&other]).unwrap_err();
        assert!(refusal.text().contains("is a pipe of user 65534, which can delay each write"), "{}", refusal.text());
        assert!(matches!(created(&other), Err(Unlocked::PipeOf(65534))));
        assert!(ready([], [&own]).is_ok() && created(&own).is_ok());
        // The pipe of a shell's pipeline.
        let (_end, nameless) = rustix::pipe::pipe().unwrap();
        rustix::fs::fchown(&nameless, Some(rustix::fs::Uid::from_raw(65534)), None).unwrap();
        assert!(created(Path::new(&format!("/proc/self/fd/{}", nameless.as_raw_fd()))).is_ok());
    }
}
