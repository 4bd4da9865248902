//! The run's end of the control socket: a thread that reads requests, hands commands to the supervisor, and writes answers.
//!
//! No client holds it up, and none takes memory without end. A client is cut off when its line is too long, when half a line waits too
//! long, or when it does not read its answers. Files are read by a second thread, so that a large one does not delay `stop`.

use super::wire::{self, About, Done, Fault, LINE_MAX, NOT_ADMITTED, NOT_STARTED, OVER, Reply, Request};
pub(crate) use crate::additions::Finder;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use takt_core::cpus::CpuSet;
use takt_core::time::{Span, Time};
use takt_exec::{Answer, Command, Handle, Issuer, NewTerms, Order, Refusal, Target};
use takt_linux::service::ServiceManager;
use takt_linux::socket::{self, ControlSocket, Peer};
use takt_trace::live::Live;
use takt_workload::Code;

/// The most connections at one time. With all places taken, a new connection takes that of the one that is idle for the longest.
const CLIENTS_MAX: usize = 16;
/// The most connections that watch. They are never idle, so the other places stay open to commands.
const WATCHERS_MAX: usize = 12;
/// The most connections that watch or wait for the answer to a change. The others are left for `status`, and the last one for `stop`.
const HELD_MAX: usize = CLIENTS_MAX - 2;
/// As [`HELD_MAX`], if one of them waits for a status.
const HELD_WITH_STATUS_MAX: usize = CLIENTS_MAX - 1;
/// The most bytes of answers that wait for a client.
const OUTPUT_MAX: usize = 4 << 20;
/// How long half a line, unread answers or an idle connection may last.
const PATIENCE: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(60);
/// The stack of each thread, which is locked in memory.
const STACK: usize = 256 << 10;
/// The hint about a request that cannot be read.
const FORM: &str = "see docs/operation.md for the form of requests";
/// The time of grace of `stop`.
const GRACE: Span = takt_exec::GRACE;
/// The longest one.
const GRACE_MAX_MS: u64 = 60_000;

/// Reads another version of the workload, and reports the parts of it that cannot change in a run.
pub(crate) type Loader = Arc<dyn Fn(&str) -> Result<Target, Fault> + Send + Sync>;

/// The thread, until this value is dropped. The socket goes with it.
pub(crate) struct Server {
    over: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// The service of the thread.
pub(crate) struct Service {
    pub(crate) socket: ControlSocket,
    pub(crate) about: About,
    pub(crate) run: Handle,
    pub(crate) load: Loader,
    pub(crate) find: Finder,
    /// The figures for `takt top`.
    pub(crate) live: Arc<Mutex<Live>>,
    /// The thread keeps off these CPUs where there are others.
    pub(crate) schedule: CpuSet,
    /// The workload, which SIGHUP reads again.
    pub(crate) path: PathBuf,
    /// Begins another file of the trace when it is set; `None` for a trace of one file, or none.
    pub(crate) rotate: Option<Arc<AtomicBool>>,
    /// Learns that SIGHUP is carried out.
    pub(crate) manager: Option<Arc<ServiceManager>>,
}

impl Server {
    /// # Errors
    /// When the operating system has no thread or descriptor left.
    pub(crate) fn start(service: Service) -> io::Result<Server> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let over = Arc::new(AtomicBool::new(false));
        let (answers, answered) = channel();
        let reload = Arc::new(AtomicBool::new(false));
        let state = State {
            service,
            clients: Vec::new(),
            next: 0,
            answers,
            answered,
            errands: None,
            reload: reload.clone(),
            wake: wake.clone(),
        };
        let stop = over.clone();
        let builder = std::thread::Builder::new().name("takt-control".into()).stack_size(STACK);
        let thread = builder.spawn(move || state.run(&stop))?;
        Ok(Server { over, reload, wake, thread: Some(thread) })
    }

    /// Lets the thread read the workload of the run again. Standard error has the answer.
    pub(crate) fn reload(&self) {
        self.reload.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Client {
    token: u64,
    peer: Peer,
    stream: UnixStream,
    input: Vec<u8>,
    output: VecDeque<u8>,
    /// A command of it has not been answered. Further lines wait.
    asked: bool,
    /// The interval between statuses, and when the next is due.
    watch: Option<(Duration, Instant)>,
    /// It gets the figures of `takt top`, and no statuses.
    figures: bool,
    /// The last time that a line began, or that it took bytes.
    active: Instant,
    /// It is to be closed when its output is written.
    closing: bool,
    /// It will say nothing more.
    ended: bool,
}

/// A request whose file is to be read, by the token of its client.
type Errand = (u64, Issuer, Request);

/// The answer for the client with this token, or why its file is no command.
type Said = (u64, Result<Answer, Fault>);

struct State {
    service: Service,
    clients: Vec<Client>,
    next: u64,
    answers: Sender<Said>,
    answered: Receiver<Said>,
    /// Requests for the thread that reads files. It is started for the first one.
    errands: Option<SyncSender<Errand>>,
    reload: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

/// The token of the run itself, which no client has.
const OWN: u64 = 0;

impl State {
    fn run(mut self, over: &AtomicBool) {
        // Its wake-ups would delay processes of the schedule.
        let others = takt_linux::rt::affinity(0).ok().map(|all| all.difference(&self.service.schedule));
        if let Some(others) = others.filter(|others| !others.is_empty()) {
            let _ = takt_linux::rt::set_affinity(0, &others);
        }
        while !over.load(Ordering::Acquire) {
            self.wait();
            self.take_answers();
            if self.reload.swap(false, Ordering::AcqRel) {
                self.read_again();
            }
            self.accept();
            self.serve_all(Instant::now());
        }
        // The run is over: all commands have been answered.
        self.take_answers();
        self.clients.iter_mut().for_each(|client| {
            client.write();
        });
    }

    fn wait(&self) {
        let now = Instant::now();
        let watched = self.clients.iter().filter_map(|client| client.watch).map(|(_, due)| due);
        let left = watched.min().map_or(Duration::from_secs(1), |due| due.saturating_duration_since(now));
        let left = left.min(Duration::from_secs(1));
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = vec![PollFd::new(&*self.wake, PollFlags::IN)];
        fds.push(PollFd::new(self.service.socket.listener(), PollFlags::IN));
        for client in &self.clients {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, client.reads());
            wanted.set(PollFlags::OUT, !client.output.is_empty());
            // The end of a connection is always reported. One that waits for the answer to its command would end each wait at once.
            if !wanted.is_empty() {
                fds.push(PollFd::new(&client.stream, wanted));
            }
        }
        let _ = poll(&mut fds, Some(&limit));
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
    }

    fn accept(&mut self) {
        // Not without end: a flood of connections must not keep the others from being served.
        for _ in 0..CLIENTS_MAX {
            let stream = match self.service.socket.listener().accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Without descriptors the listener stays readable.
                    std::thread::sleep(Duration::from_millis(100));
                    return;
                }
            };
            let Ok(peer) = socket::peer(&stream) else { continue };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let refused = match peer.is_allowed() {
                false => Some(("not-allowed", "only the user of the run and root may control it", "become that user")),
                true if self.clients.len() >= CLIENTS_MAX && !self.make_room() => {
                    Some(("busy", "the run has too many connections", "close one of them, or try again"))
                }
                true => None,
            };
            if let Some((code, message, hint)) = refused {
                let fault = Fault { code: code.into(), message: message.into(), hint: hint.into() };
                // A new connection has room for a line.
                let _ = (&stream).write(&Reply::Error(fault).line());
                continue;
            }
            self.next += 1;
            self.clients.push(Client {
                token: self.next,
                peer,
                stream,
                input: Vec::new(),
                output: VecDeque::new(),
                asked: false,
                watch: None,
                figures: false,
                active: Instant::now(),
                closing: false,
                ended: false,
            });
        }
    }

    /// Closes the connection that is idle for the longest. `false` if each one watches or waits for the answer to its command.
    fn make_room(&mut self) -> bool {
        let now = Instant::now();
        // A line that has arrived makes its connection a busy one.
        self.serve_all(now);
        if self.clients.len() < CLIENTS_MAX {
            return true;
        }
        let idle = self.clients.iter().enumerate().filter(|(_, client)| !client.asked && client.watch.is_none());
        let Some((index, _)) = idle.min_by_key(|(_, client)| (client.active, client.token)) else { return false };
        let mut client = self.clients.swap_remove(index);
        let message = format!("the run has at most {CLIENTS_MAX} connections, and this one was idle for the longest");
        client.refuse("busy", &message, "connect again");
        client.write();
        true
    }

    fn serve_all(&mut self, now: Instant) {
        let mut index = 0;
        while index < self.clients.len() {
            if self.serve(index, now) {
                index += 1;
            } else {
                self.clients.swap_remove(index);
            }
        }
    }

    /// Carries out SIGHUP.
    fn read_again(&mut self) {
        let file = self.service.path.to_string_lossy().into_owned();
        self.service.manager.iter().for_each(|manager| manager.reloading("the workload is read again"));
        let issuer = Issuer { uid: rustix::process::geteuid().as_raw(), pid: std::process::id() as i32 };
        if let Err(fault) = self.read_file((OWN, issuer, Request::Reload { file })) {
            report(&Reply::Error(fault));
            self.reloaded();
        }
    }

    /// Lets the second thread carry out a request with a file. The answer comes as that of any command.
    fn read_file(&mut self, errand: Errand) -> Result<(), Fault> {
        let busy = |why: String| wrong("busy", why, "try again");
        if self.errands.is_none() {
            let (errands, queue) = sync_channel::<Errand>(CLIENTS_MAX + 1);
            let (run, load, find) = (self.service.run.clone(), self.service.load.clone(), self.service.find.clone());
            let (answers, wake) = (self.answers.clone(), self.wake.clone());
            // It inherits the CPUs of this one. No end waits for it: it may be in the middle of a large file.
            let builder = std::thread::Builder::new().name("takt-reader".into()).stack_size(STACK);
            let begun = builder.spawn(move || {
                while let Ok((token, issuer, request)) = queue.recv() {
                    let text = if token == OWN { request.text() + " (SIGHUP)" } else { request.text() };
                    match from_file(&request, &load, &find) {
                        Ok(command) => run.send(order(issuer, text, command, token, &answers, &wake)),
                        Err(fault) => say(&answers, &wake, (token, Err(fault))),
                    }
                }
            });
            begun.map_err(|why| busy(format!("no thread can be started: {why}")))?;
            self.errands = Some(errands);
        }
        let sent = self.errands.as_ref().map(|errands| errands.try_send(errand));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(busy("too many files are to be read".into())),
        }
    }

    fn reloaded(&self) {
        self.service
            .manager
            .iter()
            .for_each(|manager| manager.ready(&format!("{} is scheduled", self.service.about.file)));
    }

    fn take_answers(&mut self) {
        while let Ok((token, said)) = self.answered.try_recv() {
            let reply = said.map_or_else(Reply::Error, |answer| reply(&self.service.about, answer));
            if token == OWN {
                report(&reply);
                self.reloaded();
                continue;
            }
            // One that has gone does not want it.
            let Some(client) = self.clients.iter_mut().find(|client| client.token == token) else { continue };
            client.asked = false;
            client.say(&reply);
        }
    }

    /// Reads and writes as far as possible. `false` closes the connection.
    fn serve(&mut self, index: usize, now: Instant) -> bool {
        let watchers = self.clients.iter().filter(|client| client.watch.is_some()).count();
        // Without this one, unless it is one of them already.
        let held = self.clients.iter().filter(|client| client.asked || client.watch.is_some()).count();
        let mut errand = None;
        let client = &mut self.clients[index];
        if client.reads() && !client.read(now) {
            return false;
        }
        while !client.asked && client.watch.is_none() && !client.closing {
            let Some(end) = client.input.iter().position(|byte| *byte == b'\n') else {
                if client.input.len() > LINE_MAX {
                    client.refuse("too-long", &format!("a request has at most {LINE_MAX} bytes"), FORM);
                }
                break;
            };
            let rest = client.input.split_off(end + 1);
            let mut line = std::mem::replace(&mut client.input, rest);
            line.pop();
            if line.len() > LINE_MAX {
                client.refuse("too-long", &format!("a request has at most {LINE_MAX} bytes"), FORM);
                break;
            }
            client.active = now;
            match wire::parse(&line).and_then(|request| {
                if let (Request::TraceRotate {}, Some(rotate)) = (&request, &self.service.rotate) {
                    rotate.store(true, Ordering::Release);
                    return Ok((request, Command::Status));
                }
                // Its command is in the file.
                let command = if has_file(&request) { Command::Status } else { command(&request)? };
                Ok((request, command))
            }) {
                // Whatever the run is at, one connection is free to stop it.
                Ok((request, _)) if held >= most_held(&request) => client.say(&Reply::Error(Fault {
                    code: "busy".into(),
                    message: format!("{held} connections watch the run or wait for their answers"),
                    hint: "close one of them, or try again; `stop` is carried out at any time".into(),
                })),
                Ok((Request::Watch { .. } | Request::Top { .. }, _)) if watchers >= WATCHERS_MAX => {
                    let message = format!("{WATCHERS_MAX} connections watch the run already");
                    client.refuse("busy", &message, "end one of them, or use `takt ctl status`");
                }
                Ok((request @ (Request::Watch { interval_ms } | Request::Top { interval_ms }), _)) => {
                    client.figures = matches!(request, Request::Top { .. });
                    client.watch = Some((Duration::from_millis(interval_ms), now));
                    client.input.clear();
                }
                Ok((Request::TraceRotate {}, _)) => {
                    client.say(&Reply::Done(Done { result: "rotating".into(), ..Done::default() }))
                }
                Ok((request, _)) if has_file(&request) => {
                    client.asked = true;
                    errand = Some((client.token, client.issuer(), request));
                }
                Ok((request, command)) => {
                    client.asked = true;
                    send(&self.service.run, client, request.text(), command, &self.answers, &self.wake);
                }
                Err(fault) => client.say(&Reply::Error(fault)),
            }
        }
        if let Some(errand) = errand
            && let Err(fault) = self.read_file(errand)
        {
            self.clients[index].asked = false;
            self.clients[index].say(&Reply::Error(fault));
        }
        let client = &mut self.clients[index];
        if let Some((interval, due)) = client.watch
            && now >= due
        {
            // A client that has not taken the last status gets no other before.
            if client.figures && client.output.is_empty() {
                let figures = self.service.live.lock().unwrap_or_else(|e| e.into_inner()).snapshot();
                client.say(&Reply::Figures(Box::new(figures)));
            } else if !client.figures && !client.asked && client.output.is_empty() {
                client.asked = true;
                send(&self.service.run, client, "watch".into(), Command::Status, &self.answers, &self.wake);
            }
            client.watch = Some((interval, now + interval));
        }
        if !client.write() {
            return false;
        }
        let waits = !client.output.is_empty() || (!client.input.is_empty() && !client.asked);
        let limit = if waits { PATIENCE } else { IDLE };
        let late = now.saturating_duration_since(client.active) > limit;
        let idle = client.watch.is_some() || client.asked;
        let over = client.ended && !client.asked && !client.input.contains(&b'\n');
        let done = (client.closing || over) && client.output.is_empty();
        !(done || late && (waits || !idle))
    }
}

impl Client {
    fn issuer(&self) -> Issuer {
        Issuer { uid: self.peer.uid, pid: self.peer.pid }
    }

    /// Whether it is to be read: not while a command of it is carried out and the next one is there.
    fn reads(&self) -> bool {
        !self.closing && !self.ended && self.input.len() <= LINE_MAX
    }

    /// `false` at the end of the connection.
    fn read(&mut self, now: Instant) -> bool {
        let mut buffer = [0; 4096];
        // A bounded part, so that the other clients are served, too.
        for _ in 0..16 {
            match self.stream.read(&mut buffer) {
                // The requests that are there are carried out.
                Ok(0) => {
                    self.ended = true;
                    return self.input.contains(&b'\n') || self.asked || !self.output.is_empty();
                }
                // A client that watches has nothing more to say.
                Ok(_) if self.watch.is_some() => {}
                Ok(n) => {
                    if self.input.is_empty() {
                        self.active = now;
                    }
                    self.input.extend_from_slice(&buffer[..n]);
                    if self.input.len() > LINE_MAX {
                        return true;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn say(&mut self, reply: &Reply) {
        if self.output.is_empty() {
            self.active = Instant::now();
        }
        let line = reply.line();
        if self.output.len() + line.len() > OUTPUT_MAX {
            self.output.clear();
            self.closing = true;
            return;
        }
        self.output.extend(line);
    }

    fn refuse(&mut self, code: &str, message: &str, hint: &str) {
        self.say(&Reply::Error(Fault { code: code.into(), message: message.into(), hint: hint.into() }));
        self.input.clear();
        self.closing = true;
    }

    /// `false` when the other end is closed.
    fn write(&mut self) -> bool {
        while !self.output.is_empty() {
            let (bytes, _) = self.output.as_slices();
            match self.stream.write(bytes) {
                Ok(0) => return false,
                Ok(n) => {
                    self.output.drain(..n);
                    self.active = Instant::now();
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        if self.output.capacity() > OUTPUT_MAX / 4 {
            self.output = VecDeque::new();
        }
        true
    }
}

/// With so many other connections that are held, this request is refused.
fn most_held(request: &Request) -> usize {
    match request {
        // Its answer comes at once.
        Request::TraceRotate {} => usize::MAX,
        Request::Stop { .. } => CLIENTS_MAX,
        Request::Status {} => HELD_WITH_STATUS_MAX,
        _ => HELD_MAX,
    }
}

/// Hands a command of a client to the run. The answer wakes the thread.
fn send(run: &Handle, client: &Client, text: String, command: Command, answers: &Sender<Said>, wake: &Arc<OwnedFd>) {
    run.send(order(client.issuer(), text, command, client.token, answers, wake));
}

fn order(
    issuer: Issuer,
    text: String,
    command: Command,
    token: u64,
    answers: &Sender<Said>,
    wake: &Arc<OwnedFd>,
) -> Order {
    let (answers, wake) = (answers.clone(), wake.clone());
    let answer = move |answer| say(&answers, &wake, (token, Ok(answer)));
    Order { issuer, text, command, answer: Box::new(answer) }
}

/// Hands an answer to the thread that writes it.
fn say(answers: &Sender<Said>, wake: &OwnedFd, said: Said) {
    let _ = answers.send(said);
    let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
}

/// Whether the command of a request is in a file.
fn has_file(request: &Request) -> bool {
    match request {
        Request::Reload { .. } | Request::Add { file: Some(_), .. } => true,
        Request::Policy { policy, .. } => crate::modules::is_file(policy),
        _ => false,
    }
}

/// The command in the file of a request.
fn from_file(request: &Request, load: &Loader, find: &Finder) -> Result<Command, Fault> {
    match request {
        Request::Reload { file } => Ok(Command::Reload(Box::new(load(file)?))),
        Request::Add { task, file: Some(file) } => Ok(Command::New(Box::new(find(task, file)?))),
        request => command(request),
    }
}

/// Reports the result of SIGHUP on standard error, if that has a reader.
fn report(reply: &Reply) {
    let text = match reply {
        Reply::Error(fault) => format!("SIGHUP: nothing has changed: {}\nhint: {}", fault.message, fault.hint),
        Reply::Done(Done { result, note: Some(note), .. }) => format!("SIGHUP: {result}\nnote: {note}"),
        Reply::Done(done) => format!("SIGHUP: {}", done.result),
        Reply::Status(_) | Reply::Figures(_) => return,
    };
    if takt_exec::is_writable(io::stderr()) {
        let text: String = text.lines().map(|line| format!("{}\n", takt::report::visible(line))).collect();
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// The terms that can be set.
pub(crate) const TERMS: [&str; 6] = ["period", "deadline", "runtime", "share", "importance", "utility"];

fn wrong(code: &str, message: String, hint: impl Into<String>) -> Fault {
    Fault { code: code.into(), message, hint: hint.into() }
}

/// Reads terms as the command line has them.
fn terms(list: &[(String, String)]) -> Result<NewTerms, Fault> {
    let mut terms = NewTerms::default();
    let mut named: Vec<&str> = Vec::new();
    for (term, value) in list {
        if named.contains(&term.as_str()) {
            return Err(wrong("duplicate-key", format!("`{term}` is given twice"), "keep one of them"));
        }
        named.push(term);
        let bad = |why: String| wrong("wrong-type", format!("`{term}={value}`: {why}"), "write it as in the file");
        let duration = || takt_workload::parse_duration(value).map_err(bad);
        let millionths = || takt_workload::parse_ratio(value).map_err(bad);
        match term.as_str() {
            "period" => terms.period = Some(duration()?),
            "deadline" => terms.deadline = Some(duration()?),
            "runtime" => terms.runtime = Some(duration()?),
            "share" => {
                let share = u32::try_from(millionths()?).ok().filter(|share| (1..=1_000_000).contains(share));
                terms.share = Some(share.ok_or_else(|| bad("a share is above 0 and at most 1".into()))?);
            }
            "importance" => {
                let importance = value.parse().ok().filter(|n| *n > 0);
                terms.importance = Some(importance.ok_or_else(|| bad("a whole number above 0 is expected".into()))?);
            }
            "utility" => {
                let utility = u64::try_from(millionths()?);
                terms.utility = Some(utility.map_err(|_| bad("a utility is not negative".into()))?);
            }
            _ => {
                let near = takt_workload::nearest(term, TERMS).map(|near| format!("did you mean `{near}`? "));
                let hint = format!("{}terms are {}", near.unwrap_or_default(), TERMS.join(", "));
                return Err(wrong("unknown-key", format!("a task has no term `{term}`"), hint));
            }
        }
    }
    if named.is_empty() {
        return Err(wrong("missing-value", "nothing is set".into(), "write for example `set a.period=5ms`"));
    }
    Ok(terms)
}

/// A time of grace in milliseconds.
fn grace(ms: u64) -> Result<Span, Fault> {
    if ms > GRACE_MAX_MS {
        let hint = format!("choose at most {}", Span::from_ms(GRACE_MAX_MS as i64));
        return Err(wrong("out-of-range", "the time of grace is too long".into(), hint));
    }
    Ok(Span::from_ms(ms as i64))
}

/// The command of a request. Tasks of files are those of [`from_file`].
fn command(request: &Request) -> Result<Command, Fault> {
    Ok(match request {
        Request::Status {} | Request::Watch { .. } | Request::Top { .. } | Request::Reload { .. } => Command::Status,
        Request::Set { task, terms: list } => Command::Set { task: task.clone(), terms: terms(list)? },
        Request::Policy { domain, policy } => {
            let to = crate::modules::policy(policy).map_err(|fault| {
                let (code, hint) = match fault.code {
                    Code::UnreadableFile | Code::UnsuitableModule => (fault.code.name(), "nothing has changed"),
                    _ => ("unknown-policy", "`takt policies` lists them all"),
                };
                wrong(code, fault.to_string(), hint)
            })?;
            let fallback = crate::modules::module(&to).map(|_| Box::new(takt_wasm::fallback(&to)));
            Command::Policy { domain: domain.clone(), to, fallback }
        }
        Request::Add { task, .. } => Command::Add(task.clone()),
        Request::Remove { task, end_grace_ms } => {
            Command::Remove { task: task.clone(), end: end_grace_ms.map(grace).transpose()? }
        }
        Request::Trigger { task } => Command::Trigger(task.clone()),
        Request::Stop { grace_ms } => Command::Stop { grace: grace_ms.map_or(Ok(GRACE), grace)? },
        Request::TraceRotate {} => {
            let hint = "give `takt run` the option `--trace-size`, which divides a trace into files";
            return Err(wrong("not-supported-here", "this run does not rotate its trace".into(), hint));
        }
    })
}

/// The answer as a line says it.
fn reply(about: &About, answer: Answer) -> Reply {
    let ns = |at: Time| (at - Time::ZERO).ns();
    let done = |result: &str, at: Option<Time>| {
        Reply::Done(Done { result: result.into(), at_ns: at.map(ns), ..Done::default() })
    };
    match answer {
        Ok(takt_exec::Done::Status(status)) => Reply::Status(Box::new(wire::Status::new(about, &status))),
        Ok(takt_exec::Done::Changed(at)) => done("changed", Some(at)),
        Ok(takt_exec::Done::Overloaded { at, cpus, per_mille }) => {
            let percent = |per_mille: u64| format!("{}.{} %", per_mille / 10, per_mille % 10);
            let (needed, there) = (percent(per_mille), percent(cpus.len() as u64 * 1000));
            let note = format!("the utilisation of CPU {cpus} is {needed} of {there} now, so jobs will miss deadlines");
            Reply::Done(Done { result: "changed".into(), at_ns: Some(ns(at)), note: Some(note), ..Done::default() })
        }
        Ok(takt_exec::Done::Table { at, from }) => {
            let (at_ns, from_ns) = (Some(ns(at)), from.map(ns));
            Reply::Done(Done { result: "changed".into(), at_ns, from_ns, ..Done::default() })
        }
        Ok(takt_exec::Done::Unchanged) => done("unchanged", None),
        Ok(takt_exec::Done::Stopping) => done("stopping", None),
        Err(refusal) => Reply::Error(fault(refusal)),
    }
}

fn fault(refusal: Refusal) -> Fault {
    match refusal {
        Refusal::Unknown { what, name, known } if known.is_empty() => {
            wrong("unknown-name", format!("the run has no {what} `{name}`"), format!("it has no {what}s"))
        }
        Refusal::Unknown { what, name, known } if name.is_empty() => wrong(
            "missing-value",
            format!("the command names no {what}"),
            format!("its {what}s are {}", listed(&known)),
        ),
        Refusal::Unknown { what, name, known } => {
            let near = takt_workload::nearest(&name, known.iter().map(String::as_str));
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            wrong(
                "unknown-name",
                format!("the run has no {what} `{name}`"),
                format!("{near}its {what}s are {}", listed(&known)),
            )
        }
        Refusal::Impossible { reason, hint } => wrong("cannot-change", reason, hint),
        Refusal::NotAdmitted(reason) => {
            wrong(NOT_ADMITTED, reason, "ask for less, remove another task, or choose another policy")
        }
        Refusal::NotStarted { task, reason } => {
            wrong(NOT_STARTED, format!("task `{task}` is not added: {reason}"), "correct its `cmd` or its settings")
        }
        Refusal::Busy(why) => wrong("busy", why.into(), "try again"),
        Refusal::Over(why) => wrong(OVER, why.into(), "start it again: the file of a run stays as it is"),
    }
}

/// Names for a message, not without end.
fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    let more = names.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("and {more} more"));
    names.iter().take(MOST).cloned().chain(more).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_core::cpus::CpuSet;

    #[test]
    fn an_overload_is_a_note_of_the_answer() {
        let about = About { run: "7-1".into(), file: "w.yaml".into(), duration: None };
        let at = Time::from_ns(5);
        let note = |done: takt_exec::Done| match reply(&about, Ok(done)) {
            Reply::Done(done) => (done.result, done.at_ns, done.note),
            other => panic!("{other:?}"),
        };
        let overload = takt_exec::Done::Overloaded { at, cpus: CpuSet::single(3), per_mille: 1120 };
        let text = "the utilisation of CPU 3 is 112.0 % of 100.0 % now, so jobs will miss deadlines".to_owned();
        assert_eq!(note(overload), ("changed".into(), Some(5), Some(text)));
        assert_eq!(note(takt_exec::Done::Changed(at)), ("changed".into(), Some(5), None));
    }
}
