//! The control socket of a run: a file `RUN.sock` in a directory that belongs to one user.
//!
//! The directory is `takt` in `$XDG_RUNTIME_DIR`, or `/run/takt` without that variable, or if that directory belongs to another user. It is used only if no
//! other user can enter it.

use crate::places::{self, directory, make_private};
use crate::run_id::RunId;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, getsockopt, sockopt};
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SUFFIX: &str = ".sock";

/// A listening socket. The file is removed with this value.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// The process at the other end of a connection, as the kernel names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its process id when it connected; 0 where it has none in this process's PID namespace.
    pub pid: i32,
}

/// The sockets in a directory, with their runs. Nothing else there counts.
fn sockets_in(directory: &Path) -> Vec<(RunId, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let socket = |entry: fs::DirEntry| {
        let run = entry.file_name().to_str()?.strip_suffix(SUFFIX)?.parse().ok()?;
        entry.file_type().ok()?.is_socket().then(|| (run, entry.path()))
    };
    let mut found: Vec<_> = entries.filter_map(socket).collect();
    found.sort();
    found
}

/// All control sockets that this user finds, those of dead runs included.
#[must_use]
pub fn sockets() -> Vec<(RunId, PathBuf)> {
    places::of_sockets().iter().flat_map(|directory| sockets_in(directory)).collect()
}

impl ControlSocket {
    /// The control socket of a run of this process: in a directory of mode 0700, itself of mode 0600. It does not block.
    ///
    /// # Errors
    /// The directory cannot be made, belongs to another user, or others may enter it.
    pub fn bind(run: &RunId) -> io::Result<ControlSocket> {
        ControlSocket::bind_in(&directory(), run)
    }

    fn bind_in(directory: &Path, run: &RunId) -> io::Result<ControlSocket> {
        make_private(directory)?;
        let path = directory.join(format!("{run}{SUFFIX}"));
        // The name belongs to this run, so another file of that name is of a dead one. A container may use the directory without its locks.
        if !answers(&path) {
            let _ = fs::remove_file(&path);
        }
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("cannot make `{}`: {e}", path.display()));
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let socket = ControlSocket { listener, path };
        fs::set_permissions(&socket.path, Permissions::from_mode(0o600))?;
        socket.listener.set_nonblocking(true)?;
        Ok(socket)
    }

    /// The listening end.
    #[must_use]
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Where the socket is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a process listens at a socket, in any namespace.
#[must_use]
pub fn answers(path: &Path) -> bool {
    let connected = UnixAddr::new(path).and_then(|address| {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        nix::sys::socket::connect(socket.as_raw_fd(), &address)
    });
    // A full queue has a listener. Where this user may not connect, nothing is known.
    !matches!(connected, Err(nix::Error::ECONNREFUSED | nix::Error::ENOENT))
}

/// Connects to the socket at a path. This, and each read and write, may take so long.
///
/// # Errors
/// No process listens there, or none takes the connection in time (`EAGAIN`).
pub fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    // A listener that takes no connections holds up `connect` for ever; the time of sends bounds it, too (unix(7)).
    let socket = nix::sys::socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let stream = UnixStream::from(socket);
    stream.set_write_timeout(Some(patience))?;
    stream.set_read_timeout(Some(patience))?;
    nix::sys::socket::connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(stream)
}

/// The process that has connected.
///
/// # Errors
/// When the kernel does not say.
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    // The type of rustix for this has no process 0.
    let credentials = getsockopt(stream, sockopt::PeerCredentials)?;
    Ok(Peer { uid: credentials.uid(), pid: credentials.pid() })
}

impl Peer {
    /// Whether it may control runs of this process: the same user, or root.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

/// Control sockets without a listener.
pub(crate) fn remains() -> Vec<(RunId, PathBuf)> {
    let mut all = sockets();
    all.retain(|(_, path)| !answers(path));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::DirBuilder;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    fn directory(name: &str, mode: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("takt-socket-{name}-{}", std::process::id()));
        DirBuilder::new().mode(mode).create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_socket_is_the_users_own_and_is_removed() {
        let directory = directory("own", 0o700);
        let run = RunId::new().unwrap();
        let socket = ControlSocket::bind_in(&directory, &run).unwrap();
        assert_eq!(fs::metadata(socket.path()).unwrap().mode() & 0o777, 0o600);
        fs::write(directory.join("1-2.sock"), "no socket").unwrap();
        assert_eq!(sockets_in(&directory), [(run, socket.path().to_owned())]);
        let client = UnixStream::connect(socket.path()).unwrap();
        let (served, _) = socket.listener().accept().unwrap();
        let found = peer(&served).unwrap();
        assert_eq!((found.uid, found.pid), (rustix::process::geteuid().as_raw(), run.pid()));
        assert!(found.is_allowed());
        assert!(!Peer { uid: found.uid.max(1) + 1, ..found }.is_allowed());
        drop((client, socket));
        assert_eq!(sockets_in(&directory), []);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_listener_that_takes_no_connection_is_given_up() {
        let directory = directory("full", 0o700);
        let path = directory.join("s.sock");
        let listener = UnixListener::bind(&path).unwrap();
        // The usual queue is longer than the limit of open files can be.
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(8).unwrap()).unwrap();
        let connect = || connect(&path, Duration::from_millis(1));
        // The queue of the listener fills up.
        let taken: Vec<_> = std::iter::repeat_with(connect).take(100).take_while(Result::is_ok).collect();
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::WouldBlock, "{}", taken.len());
        drop(taken);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let run = RunId::new().unwrap();
        let open = directory("open", 0o755);
        let refused = ControlSocket::bind_in(&open, &run).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let link = open.join("link");
        let own = directory("linked", 0o700);
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert_eq!(ControlSocket::bind_in(&link, &run).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(sockets_in(&own), []);
        fs::remove_dir_all(open).unwrap();
        fs::remove_dir_all(own).unwrap();
    }
}
