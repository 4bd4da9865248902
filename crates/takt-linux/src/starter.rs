//! A small process that starts the processes of a run.
//!
//! A fork copies the page tables, mappings and descriptors of its caller. In a large run these grow with every process, so the time of
//! the start would grow with the square of their number. After the start it would have the memory of the scheduler thread shared with
//! the child, and each first write there would be a page fault. This process has neither: it is a new instance of the program with one descriptor. Its
//! children are those of its parent (`CLONE_PARENT` in clone(2)), which reaps them. On x86-64 they share its memory until their programs begin, so that
//! nothing is copied (`sys::sharing`).

use crate::control::processes;
use crate::environments;
use crate::identity::{Identity, Limit};
#[cfg(target_arch = "x86_64")]
use crate::rt::has_huge_pages;
use crate::run_id::{RunId, stat};
use crate::sys::{self, Child, Hold};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, setrlimit};
use std::ffi::{CStr, CString};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use takt_core::time::Span;

/// Name of the hidden subcommand: `takt __start RUN`, which has to call [`serve`].
pub const SUBCOMMAND: &str = "__start";
/// Name of the process.
const NAME: &CStr = c"takt-starter";
/// The kernel's limit of descriptors in a message (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;

/// The process, and the way to it. When this is dropped, it ends.
#[derive(Debug)]
pub struct Starter {
    socket: UnixStream,
    /// Frozen children have copies of the other end, so that its closing says nothing.
    alive: OwnedFd,
    process: process::Child,
    lost: AtomicBool,
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Start {
    /// The answer: a process id.
    Answered(io::Result<i32>),
    /// Nothing was started.
    Cannot,
    /// The starter has died, maybe after it had started the process. Later requests are answered by [`Start::Cannot`].
    Died,
}

impl Starter {
    /// Starts it. To be called by a thread that lives as long as the run.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn open(run: &RunId) -> io::Result<Starter> {
        let (socket, its) = UnixStream::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.args([SUBCOMMAND, &run.to_string()]).env_clear();
        command.stdin(OwnedFd::from(its)).stdout(Stdio::null()).stderr(Stdio::null());
        // Not in the foreground group of the terminal, whose signals are for the run.
        let process = command.process_group(0).spawn()?;
        let alive = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
        Ok(Starter { socket, alive, process, lost: AtomicBool::new(false) })
    }

    /// CPU time that the process has used; `None` if it has ended.
    pub(crate) fn cpu_time(&self) -> Option<Span> {
        sys::process_cpu_time(self.process.id() as i32).map(Span::from_ns)
    }

    /// Starts a child of this process, in the v2 group `cgroup` if given.
    pub(crate) fn spawn(&self, child: &Child<'_>, cgroup: Option<BorrowedFd<'_>>) -> Start {
        let (request, descriptors) = encode(child, cgroup);
        if self.lost.load(Relaxed) || descriptors.len() > DESCRIPTORS_MAX {
            return Start::Cannot;
        }
        match send(&self.socket, &request, &descriptors).and_then(|()| self.answer()) {
            Ok(answer) if answer > 0 => Start::Answered(Ok(answer)),
            Ok(answer) => Start::Answered(Err(io::Error::from_raw_os_error(-answer))),
            Err(_) => {
                self.lost.store(true, Relaxed);
                Start::Died
            }
        }
    }

    /// The processes that it has started and whose programs have not begun. O(processes of the machine).
    pub(crate) fn unborn(&self, run: &RunId) -> Vec<i32> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let is_child = |pid: &i32| stat(*pid).is_some_and(|stat| stat.parent == own);
        processes().filter(|pid| *pid != self.process.id() as i32 && is_child(pid) && is_unborn(*pid, run)).collect()
    }

    /// The process id, or an error number below zero.
    fn answer(&self) -> io::Result<i32> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.alive, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
        if !fds[0].revents().contains(PollFlags::IN) {
            return Err(Errno::PIPE.into());
        }
        let mut answer = [0; 4];
        (&self.socket).read_exact(&mut answer)?;
        Ok(i32::from_ne_bytes(answer))
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}

/// Whether this process starts those of a run.
pub(crate) fn starts(pid: i32, run: &RunId) -> bool {
    matches!(&environments::arguments(pid)[..], [_, command, of, ..] if command == SUBCOMMAND && *of == run.to_string())
}

/// Whether the program of this child has not begun.
pub(crate) fn is_unborn(pid: i32, run: &RunId) -> bool {
    // A child that has its user already is known by the name of the starter alone.
    starts(pid, run) || environments::arguments(pid).is_empty() && environments::name(pid) == NAME.to_string_lossy()
}

/// The body of the hidden subcommand. It starts what its parent asks for at standard input, until that has ended.
///
/// To be called before any thread is started.
pub fn serve() -> ! {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE, libc::SIGTSTP] {
        sys::ignore(signal);
    }
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    let _ = rustix::thread::set_name(NAME);
    // The numbers of descriptors are the parent's, which has raised its limit.
    let own = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: own.maximum, maximum: own.maximum });
    let limit = Limit { resource: Resource::Nofile, soft: own.current, hard: own.maximum };
    let socket = sys::own_fd(0);
    let mut children = Children::new();
    while let Ok(request) = receive(socket) {
        let answer = match request.start(limit, parent, &mut children) {
            Ok(pid) => pid,
            Err(e) => -e.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()),
        };
        if rustix::io::write(socket, &answer.to_ne_bytes()).is_err() {
            break;
        }
    }
    process::exit(0)
}

/// Starts children of the parent of this process.
#[cfg(target_arch = "x86_64")]
struct Children(sys::sharing::Sharing);

#[cfg(target_arch = "x86_64")]
impl Children {
    fn new() -> Children {
        Children(sys::sharing::Sharing::new())
    }

    fn spawn(&mut self, child: &Child<'_>, cgroup: Option<BorrowedFd<'_>>, parent: i32) -> io::Result<i32> {
        // A change of the user, or of the setting of huge pages, would also be one of the common memory.
        if child.identity.is_some() || child.huge_pages != has_huge_pages() {
            return sys::spawn(child, cgroup, Some(parent));
        }
        let child = Child { huge_pages: false, ..*child };
        self.0.spawn(sys::sharing::Birth::of(&child, parent, cgroup.is_some()), cgroup)
    }
}

/// Starts children of the parent of this process.
#[cfg(not(target_arch = "x86_64"))]
struct Children;

#[cfg(not(target_arch = "x86_64"))]
impl Children {
    fn new() -> Children {
        Children
    }

    fn spawn(&mut self, child: &Child<'_>, cgroup: Option<BorrowedFd<'_>>, parent: i32) -> io::Result<i32> {
        sys::spawn(child, cgroup, Some(parent))
    }
}

/// A request to a starter. Numbers are 64 bits wide, in the byte order of the machine; absent is the largest.
struct Request {
    text: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

const ABSENT: u64 = u64::MAX;

fn encode<'a>(child: &'a Child<'a>, cgroup: Option<BorrowedFd<'a>>) -> (Vec<u8>, Vec<BorrowedFd<'a>>) {
    let mut text = Vec::new();
    let mut number = |n: u64| text.extend(n.to_ne_bytes());
    let (hold, gate) = match &child.hold {
        Hold::Frozen => (0, None),
        Hold::Gate(gate) => (1, Some(*gate)),
        Hold::Stop => (2, None),
    };
    number(hold);
    number(u64::from(cgroup.is_some()));
    number(child.umask.map_or(ABSENT, u64::from));
    number(u64::from(child.huge_pages));
    number(child.pass.len() as u64);
    child.pass.iter().for_each(|(_, target)| number(*target as u64));
    number(child.limits.len() as u64);
    for Limit { resource, soft, hard } in child.limits {
        number(*resource as u64);
        [soft, hard].iter().for_each(|limit| number(limit.unwrap_or(ABSENT)));
    }
    match child.identity {
        Some(Identity { uid, gid, groups, .. }) => {
            number(groups.len() as u64);
            [uid, gid].into_iter().chain(groups).for_each(|id| number(u64::from(*id)));
        }
        None => number(ABSENT),
    }
    let [cwd, enters] =
        [child.cwd, child.enters].map(|path| path.map(CStr::to_owned).into_iter().collect::<Vec<CString>>());
    for list in [child.programs, child.argv, child.env, &cwd, &enters] {
        text.extend((list.len() as u64).to_ne_bytes());
        list.iter().for_each(|entry| text.extend(entry.as_bytes_with_nul()));
    }
    let descriptors = cgroup.into_iter().chain(gate).chain(child.stdio).chain(child.pass.iter().map(|(fd, _)| *fd));
    (text, descriptors.collect())
}

fn send(socket: &UnixStream, text: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    let length = (text.len() as u64).to_ne_bytes();
    let message = [&length[..], text].concat();
    let sent =
        rustix::io::retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&message)], &mut ancillary, SendFlags::NOSIGNAL))?;
    let mut socket = socket;
    socket.write_all(&message[sent..])
}

fn receive(socket: BorrowedFd<'_>) -> io::Result<Request> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; 8];
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut length)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
        )
    })?;
    if got.bytes != length.len() {
        return Err(Errno::PIPE.into());
    }
    let descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let mut request =
        Request { descriptors: descriptors.collect(), text: vec![0; u64::from_ne_bytes(length) as usize] };
    let mut rest = request.text.as_mut_slice();
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::read(socket, &mut *rest))? {
            0 => return Err(Errno::PIPE.into()),
            n => rest = &mut rest[n..],
        }
    }
    Ok(request)
}

impl Request {
    fn start(self, own: Limit, parent: i32, children: &mut Children) -> io::Result<i32> {
        let mut rest = Rest(&self.text);
        let (hold, in_group, umask) = (rest.number()?, rest.number()? != 0, rest.optional()?);
        let huge_pages = rest.number()? != 0;
        let targets = rest.list(|rest| Ok(rest.number()? as RawFd))?;
        let mut limits = vec![own];
        limits.extend(rest.list(|rest| {
            let resource = resource(rest.number()?).ok_or(Errno::INVAL)?;
            Ok(Limit { resource, soft: rest.optional()?, hard: rest.optional()? })
        })?);
        let identity = match rest.optional()? {
            Some(groups) => {
                let (uid, gid) = (rest.number()? as u32, rest.number()? as u32);
                let groups = (0..groups).map(|_| Ok(rest.number()? as u32)).collect::<io::Result<_>>()?;
                Some(Identity::of_numbers(uid, gid, groups))
            }
            None => None,
        };
        let mut list = || rest.list(Rest::text);
        let [programs, argv, env, cwd, enters] = [list()?, list()?, list()?, list()?, list()?];
        let mut descriptors =
            self.descriptors.into_iter().map(|fd| apart(fd, &targets)).collect::<io::Result<Vec<_>>>()?.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| io::Error::from(Errno::INVAL));
        let cgroup = in_group.then(&mut next).transpose()?;
        let gate = (hold == 1).then(&mut next).transpose()?;
        let stdio = [next()?, next()?, next()?];
        let sources = targets.iter().map(|_| next()).collect::<io::Result<Vec<_>>>()?;
        let pass: Vec<_> = sources.iter().map(AsFd::as_fd).zip(targets).collect();
        let child = Child {
            programs: &programs,
            argv: &argv,
            env: &env,
            cwd: cwd.first().map(CString::as_c_str),
            enters: enters.first().map(CString::as_c_str),
            stdio: [stdio[0].as_fd(), stdio[1].as_fd(), stdio[2].as_fd()],
            pass: &pass,
            limits: &limits,
            umask: umask.map(|umask| umask as u32),
            identity: identity.as_ref(),
            huge_pages,
            hold: match (hold, &gate) {
                (1, Some(gate)) => Hold::Gate(gate.as_fd()),
                (2, _) => Hold::Stop,
                _ => Hold::Frozen,
            },
        };
        children.spawn(&child, cgroup.as_ref().map(AsFd::as_fd), parent)
    }
}

/// The same descriptor with a number that none of the passed ones is to get.
fn apart(fd: OwnedFd, targets: &[RawFd]) -> io::Result<OwnedFd> {
    let (mut fd, mut taken) = (fd, Vec::new());
    while targets.contains(&fd.as_raw_fd()) {
        let other = fd.try_clone()?;
        taken.push(std::mem::replace(&mut fd, other));
    }
    Ok(fd)
}

fn resource(number: u64) -> Option<Resource> {
    Limit::RESOURCES.iter().map(|(_, resource)| *resource).find(|resource| *resource as u64 == number)
}

/// The unread rest of a request.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn number(&mut self) -> io::Result<u64> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*number))
    }
    fn optional(&mut self) -> io::Result<Option<u64>> {
        Ok(Some(self.number()?).filter(|number| *number != ABSENT))
    }
    fn text(&mut self) -> io::Result<CString> {
        let text = CStr::from_bytes_until_nul(self.0).map_err(|_| Errno::INVAL)?;
        self.0 = &self.0[text.count_bytes() + 1..];
        Ok(text.to_owned())
    }
    fn list<T>(&mut self, entry: impl Fn(&mut Self) -> io::Result<T>) -> io::Result<Vec<T>> {
        (0..self.number()?).map(|_| entry(self)).collect()
    }
}
