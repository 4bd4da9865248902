//! `--metrics`: the figures of a run for scrapers, over HTTP at a loopback address or a Unix socket.
//!
//! One thread serves all clients and waits for none of them: each has a buffer, a deadline and a place in a table of fixed size.

use super::exposition::{CONTENT_TYPE, Exposed};
use crate::failure::Failure;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_trace::live::Live;
use takt_workload::Code;

/// Clients at one time; a further one takes the place of the oldest.
const CLIENTS_MAX: usize = 16;
/// From the connection to its end.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request.
const REQUEST_MAX: usize = 8 << 10;
/// Figures are taken from the run at most so often.
const FRESH: Duration = Duration::from_millis(100);

/// An address to serve at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

fn unusable(message: impl std::fmt::Display, hint: &str) -> Failure {
    Failure::input(Code::UnusableAddress, message, hint)
}

impl Address {
    fn parse(text: &str) -> Result<Address, Failure> {
        let form = "write `unix:PATH` or `127.0.0.1:PORT`";
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(unusable("`--metrics unix:` names no socket", form)),
                path => Ok(Address::Unix(path.into())),
            };
        }
        let address = match text.strip_prefix("localhost:") {
            Some(port) => port.parse().ok().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
            None => text.parse().ok(),
        };
        let address = address.ok_or_else(|| unusable(format!("`{text}` is not an address for `--metrics`"), form))?;
        if !address.ip().is_loopback() {
            let hint = "use `127.0.0.1:PORT` or `unix:PATH`; a proxy can serve other machines";
            return Err(unusable(format!("`{text}` is not a loopback address"), hint));
        }
        Ok(Address::Tcp(address))
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    fn bind(address: &Address) -> io::Result<Listener> {
        let listener = match address {
            Address::Tcp(address) => Listener::Tcp(TcpListener::bind(address)?),
            Address::Unix(path) => Listener::Unix(bind_unix(path)?),
        };
        match &listener {
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
            Listener::Unix(listener) => listener.set_nonblocking(true)?,
        }
        Ok(listener)
    }

    fn accept(&self) -> io::Result<Stream> {
        let stream = match self {
            Listener::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Listener::Unix(listener) => Stream::Unix(listener.accept()?.0),
        };
        match &stream {
            Stream::Tcp(stream) => stream.set_nonblocking(true)?,
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(stream)
    }
}

/// Binds a socket with mode 0600. The socket of a run that has died is replaced; any other file is not.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    if let Ok(known) = fs::symlink_metadata(path) {
        if !known.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of this name"));
        }
        match UnixStream::connect(path) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            Ok(_) => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another program serves there")),
            Err(e) => return Err(e),
        }
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(bytes),
            Stream::Unix(stream) => stream.read(bytes),
        }
    }
}

impl Stream {
    /// Writes without a signal when the other end is closed: the standard library sends with `MSG_NOSIGNAL`.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn end_writing(&self) {
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

/// The server of a run. With this value, its thread and its socket end.
pub(super) struct Server {
    end: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    socket: Option<PathBuf>,
}

impl Server {
    /// Serves at an address. The thread keeps off the CPUs of the schedule where there are others.
    ///
    /// # Errors
    /// The address is none, is not a loopback address, or is in use.
    pub(super) fn start(address: &str, live: Arc<Mutex<Live>>, schedule: CpuSet) -> Result<Server, Failure> {
        let place = Address::parse(address)?;
        let refused = |e: &io::Error| {
            let hint = "choose a free port, or a path in a directory that exists and is writable";
            unusable(format!("cannot serve metrics at `{address}`: {e}"), hint)
        };
        let listener = Listener::bind(&place).map_err(|e| refused(&e))?;
        let socket = if let Address::Unix(path) = place { Some(path) } else { None };
        let mut server = Server {
            end: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| refused(&e.into()))?),
            thread: None,
            socket,
        };
        if let Listener::Tcp(listener) = &listener
            && address.ends_with(":0")
            && let Ok(chosen) = listener.local_addr()
        {
            let _ = writeln!(io::stderr(), "note: metrics at http://{chosen}/metrics");
        }
        let end = server.end.clone();
        let serving = Serving { listener, clients: Vec::new(), page: None, live, schedule };
        let thread = std::thread::Builder::new().name("takt-metrics".into()).spawn(move || serving.run(&end));
        server.thread = Some(thread.map_err(|e| refused(&e))?);
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.end, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(path) = &self.socket {
            let _ = fs::remove_file(path);
        }
    }
}

enum State {
    /// The request so far.
    Reading(Vec<u8>),
    /// The answer, and how much of it was sent.
    Writing(Vec<u8>, usize),
    /// The answer was sent. The rest of its input is read, since a connection that is closed before loses the answer.
    Draining,
}

struct Client {
    stream: Stream,
    state: State,
    limit: Instant,
}

struct Serving {
    listener: Listener,
    clients: Vec<Client>,
    page: Option<(Instant, String)>,
    live: Arc<Mutex<Live>>,
    schedule: CpuSet,
}

impl Serving {
    fn run(mut self, end: &OwnedFd) {
        // Its wake-ups would delay processes of the schedule.
        let others = takt_linux::rt::affinity(0).ok().map(|all| all.difference(&self.schedule));
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            let _ = takt_linux::rt::set_affinity(0, &others);
        }
        loop {
            let mut fds = vec![PollFd::new(end, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
            fds.extend(self.clients.iter().map(|client| {
                let writes = matches!(client.state, State::Writing(..));
                PollFd::new(&client.stream, if writes { PollFlags::OUT } else { PollFlags::IN })
            }));
            let left = self.clients.iter().map(|client| client.limit).min();
            let left = left.map(|limit| limit.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
            let limit = left.and_then(|left| Timespec::try_from(left).ok());
            if !matches!(poll(&mut fds, limit.as_ref()), Ok(_) | Err(rustix::io::Errno::INTR)) {
                return;
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready[0] {
                return;
            }
            let (now, mut clients) = (Instant::now(), std::mem::take(&mut self.clients));
            for (client, ready) in clients.drain(..).zip(&ready[2..]) {
                let client = if *ready { self.serve(client) } else { Some(client) };
                self.clients.extend(client.filter(|client| client.limit > now));
            }
            if ready[1] {
                match self.listener.accept() {
                    Ok(stream) => {
                        if self.clients.len() == CLIENTS_MAX {
                            self.clients.remove(0);
                        }
                        let limit = Instant::now() + PATIENCE;
                        self.clients.push(Client { stream, state: State::Reading(Vec::new()), limit });
                    }
                    Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {}
                    // Without a free descriptor the listener stays ready.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        }
    }

    /// Reads and writes as much as a client's connection allows at once. `None` ends it.
    fn serve(&mut self, mut client: Client) -> Option<Client> {
        let mut bytes = [0; 4096];
        match &mut client.state {
            State::Reading(request) => {
                let read = match client.stream.read(&mut bytes) {
                    Ok(0) => return None,
                    Ok(read) => read,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Some(client),
                    Err(_) => return None,
                };
                request.extend_from_slice(&bytes[..read]);
                let request = std::mem::take(request);
                client.state = match self.answer(&request) {
                    Some(answer) => State::Writing(answer, 0),
                    None => State::Reading(request),
                };
            }
            State::Writing(answer, sent) => match client.stream.write(&answer[*sent..]) {
                Ok(0) => return None,
                Ok(wrote) => {
                    *sent += wrote;
                    if *sent == answer.len() {
                        client.stream.end_writing();
                        client.state = State::Draining;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            },
            State::Draining => match client.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            },
        }
        Some(client)
    }

    /// The answer to a request; `None` while it is incomplete.
    fn answer(&mut self, request: &[u8]) -> Option<Vec<u8>> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Request::new(&mut headers);
        let plain = |status, text: &str| Some(response(status, "text/plain; charset=utf-8", text, true));
        match parsed.parse(request) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) if request.len() < REQUEST_MAX => return None,
            Ok(httparse::Status::Partial) => {
                return plain("431 Request Header Fields Too Large", "The request is too long.\n");
            }
            Err(_) => return plain("400 Bad Request", "This is no HTTP request.\n"),
        }
        let path = parsed.path.unwrap_or_default();
        match (parsed.method.unwrap_or_default(), path.split('?').next().unwrap_or_default()) {
            (method @ ("GET" | "HEAD"), "/metrics") => {
                Some(response("200 OK", CONTENT_TYPE, self.page(), method == "GET"))
            }
            ("GET" | "HEAD", _) => plain("404 Not Found", "The metrics are at /metrics.\n"),
            _ => plain("405 Method Not Allowed", "Metrics are read with GET.\n"),
        }
    }

    fn page(&mut self) -> &str {
        if self.page.as_ref().is_none_or(|(at, _)| at.elapsed() >= FRESH) {
            let exposed = Exposed::of(&self.live.lock().unwrap_or_else(|e| e.into_inner()));
            self.page = Some((Instant::now(), exposed.text()));
        }
        self.page.as_ref().map_or("", |(_, text)| text)
    }
}

fn response(status: &str, kind: &str, body: &str, with_body: bool) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let mut answer = head.into_bytes();
    answer.extend_from_slice(if with_body { body.as_bytes() } else { b"" });
    answer
}
