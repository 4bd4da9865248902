//! The service manager that started this program, in the protocol of systemd's `sd_notify`: datagrams to the socket in `NOTIFY_SOCKET`.
//!
//! A manager that does not listen, or whose socket is full, delays no caller: each datagram is sent without waiting, and a lost one is lost.
//!
//! Readiness is the first frame of the schedule. The sign of life needs a beat of the scheduler thread, which counts each begin of a
//! wait: a thread that only exists does not beat.

use rustix::process::getpid;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Environment variables of the protocol. No process of a schedule inherits them: the manager would take its messages for those of Takt.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The socket of the service manager.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// The manager expects a sign of life at least this often.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The manager that the environment of this process names; `None` without one.
    ///
    /// # Errors
    /// When `NOTIFY_SOCKET` is no address of a socket, or there is no descriptor left.
    pub fn from_env() -> io::Result<Option<ServiceManager>> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(name) = variable("NOTIFY_SOCKET") else { return Ok(None) };
        let watchdog = watchdog(variable("WATCHDOG_USEC").as_deref(), variable("WATCHDOG_PID").as_deref());
        ServiceManager::at(&name, watchdog).map(Some)
    }

    /// A manager at an address: a path, or with `@` before it an abstract name.
    ///
    /// # Errors
    /// When this is no such address, or there is no descriptor left.
    pub fn at(name: &OsStr, watchdog: Option<Duration>) -> io::Result<ServiceManager> {
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => {
                let what = format!("NOTIFY_SOCKET={} is neither a path nor an abstract name", name.to_string_lossy());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(ServiceManager { socket, address, watchdog })
    }

    /// How often the manager expects [`ServiceManager::alive`] at least; `None` if it has no watchdog for this process.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The service has started.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// The service takes over another configuration, until the next [`ServiceManager::ready`].
    pub fn reloading(&self, status: &str) {
        let now = crate::timer::now().ns() / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS={}", line(status)));
    }

    /// The service ends.
    pub fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", line(status)));
    }

    /// The start or the end, which has begun, takes up to so long, in place of the manager's own limit if that is shorter.
    pub fn extend(&self, by: Duration) {
        self.send(&format!("EXTEND_TIMEOUT_USEC={}", by.as_micros()));
    }

    /// A line for people, in `systemctl status`.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", line(status)));
    }

    /// The sign of life.
    pub fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, text: &str) {
        // Nothing depends on it here: a manager that misses a message acts on that.
        let _ = self.socket.send_to_addr(text.as_bytes(), &self.address);
    }
}

/// A status is one line.
fn line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// The interval of a watchdog, if it is meant for this process.
fn watchdog(usec: Option<&OsStr>, pid: Option<&OsStr>) -> Option<Duration> {
    let number = |text: &OsStr| text.to_str()?.parse::<u64>().ok();
    let own = getpid().as_raw_nonzero().get() as u64;
    let is_own = pid.is_none_or(|pid| number(pid) == Some(own));
    usec.and_then(number).filter(|usec| is_own && *usec > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 512];
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let n = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..n].to_vec()).unwrap()
    }

    #[test]
    fn messages_reach_sockets_with_paths_and_with_abstract_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let of_path = (UnixDatagram::bind(&path).unwrap(), path.as_os_str().to_owned());
        let name = format!("takt-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let abstract_one = (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}").into());
        for (socket, name) in [of_path, abstract_one] {
            let manager = ServiceManager::at(&name, None).unwrap();
            manager.ready("two\nlines");
            assert_eq!(received(&socket), "READY=1\nSTATUS=two lines");
            manager.reloading("new file");
            let reloading = received(&socket);
            let usec = reloading.lines().nth(1).and_then(|l| l.strip_prefix("MONOTONIC_USEC=")?.parse::<i64>().ok());
            assert!(reloading.starts_with("RELOADING=1\n") && usec.is_some_and(|usec| usec > 0), "{reloading}");
            manager.alive();
            manager.stopping("bye");
            assert_eq!((received(&socket), received(&socket)), ("WATCHDOG=1".into(), "STOPPING=1\nSTATUS=bye".into()));
            manager.extend(Duration::from_millis(90_500));
            assert_eq!(received(&socket), "EXTEND_TIMEOUT_USEC=90500000");
        }
    }

    #[test]
    fn a_manager_that_does_not_read_delays_no_caller() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let unread = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::at(path.as_os_str(), None).unwrap();
        let before = std::time::Instant::now();
        (0..10_000).for_each(|_| manager.alive());
        drop(unread);
        manager.alive();
        assert!(before.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn the_watchdog_is_that_of_this_process() {
        let own = std::process::id().to_string();
        let of = |usec: &str, pid: Option<&str>| watchdog(Some(usec.as_ref()), pid.map(OsStr::new));
        assert_eq!(of("3000000", None), Some(Duration::from_secs(3)));
        assert_eq!(of("3000000", Some(&own)), Some(Duration::from_secs(3)));
        assert_eq!(of("3000000", Some("1")), None, "that of another process");
        assert_eq!((of("0", None), of("soon", None), watchdog(None, None)), (None, None, None));
        assert!(ServiceManager::at("relative".as_ref(), None).is_err());
    }
}
