//! The other end of the control socket: `takt ctl`, and whatever else asks a run.

use super::wire::{Reply, Request};
use crate::failure::Failure;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use takt_linux::RunId;
use takt_linux::socket;
use takt_workload::Code;

/// How long most answers may take. Changes wait for the next step of the engine, and a policy may take long to build.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a process may initialise, or a table may wait for the end of its major frame. The file of the run decides, and its lengths are shorter.
const LONG_PATIENCE: Duration = Duration::from_secs(3600);

/// The longest line of an answer: more than the status of as many tasks as a file can have. Another program may listen at a path.
const ANSWER_MAX: u64 = 256 << 20;

/// How long the next line of an answer may take as a whole. If the run ends, it closes the connection.
fn patience(request: &Request) -> Duration {
    match request {
        Request::Add { .. } | Request::Reload { .. } => LONG_PATIENCE,
        Request::Watch { interval_ms } | Request::Top { interval_ms } => PATIENCE + Duration::from_millis(*interval_ms),
        _ => PATIENCE,
    }
}

/// Reads a line of at most `most` bytes until an instant. `wait` bounds how long the next read may take. Empty at the end of the input.
///
/// # Errors
/// The line is longer, or takes longer.
fn line<R: BufRead>(
    input: &mut R,
    most: u64,
    until: Instant,
    wait: impl Fn(&R, Duration) -> io::Result<()>,
) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the answer takes too long"));
        }
        wait(input, left)?;
        let bytes = match input.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            bytes => bytes?,
        };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(bytes.len(), |end| end + 1);
        line.extend_from_slice(&bytes[..taken]);
        input.consume(taken);
        if line.len() as u64 > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the answer exceeds {} MiB", most >> 20)));
        }
        if taken == 0 || end.is_some() {
            return String::from_utf8(line).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"));
        }
    }
}

/// A connection to a run.
pub(crate) struct Connection {
    lines: BufReader<UnixStream>,
    path: PathBuf,
    /// How long each line may take since the last request.
    patience: Duration,
}

/// The live runs of this user: their names and sockets.
pub(crate) fn runs() -> Vec<(RunId, PathBuf)> {
    let mut all = socket::sockets();
    all.retain(|(_, path)| socket::answers(path));
    all
}

/// The socket of the named run, or of the only one.
///
/// # Errors
/// There is none, or there are several.
pub(crate) fn find(run: Option<&str>) -> Result<PathBuf, Failure> {
    let runs = runs();
    let names = || runs.iter().map(|(run, _)| run.to_string()).collect::<Vec<_>>().join(", ");
    match run {
        Some(path) if path.contains('/') => Ok(path.into()),
        Some(name) => {
            let is = |run: &RunId| run.to_string() == name || run.pid().to_string() == name;
            let found = runs.iter().find(|(run, _)| is(run)).map(|(_, path)| path.clone());
            found.ok_or_else(|| {
                let hint = if runs.is_empty() {
                    "no run of this user is there".to_owned()
                } else {
                    format!("runs are {}", names())
                };
                Failure::input(Code::NoRun, format!("there is no run `{name}`"), &hint)
            })
        }
        None => match runs.as_slice() {
            [(_, path)] => Ok(path.clone()),
            [] => Err(Failure::input(Code::NoRun, "no run of this user is there", "start one with `takt run`")),
            _ => {
                let hint = format!("name one of them by `--run`: {}", names());
                Err(Failure::input(Code::NoRun, format!("there are {} runs", runs.len()), &hint))
            }
        },
    }
}

impl Connection {
    /// # Errors
    /// When no process listens there.
    pub(crate) fn open(path: &Path) -> Result<Connection, Failure> {
        let stream = socket::connect(path, PATIENCE);
        let stream = stream.map_err(|e| {
            let message = format!("cannot reach a run at `{}`: {e}", path.display());
            Failure::input(Code::NoRun, message, "only its own user and root reach a run; has it ended?")
        })?;
        Ok(Connection { lines: BufReader::new(stream), path: path.to_owned(), patience: PATIENCE })
    }

    fn lost(&self, why: impl std::fmt::Display) -> Failure {
        let message = format!("the run at `{}` gave no answer: {why}", self.path.display());
        Failure::status(1, Code::NoRun, format!("{message}\nhint: it has ended, or is busy"))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// The run has gone.
    pub(crate) fn send(&mut self, request: &Request) -> Result<(), Failure> {
        self.patience = patience(request);
        let written = self.lines.get_mut().write_all(request.line().as_bytes());
        written.map_err(|e| self.lost(e))
    }

    /// The next line of the run. `None` at the end of the connection.
    ///
    /// # Errors
    /// The run does not answer, or in another version.
    pub(crate) fn next(&mut self) -> Result<Option<Reply>, Failure> {
        let until = Instant::now() + self.patience;
        let wait = |lines: &BufReader<UnixStream>, left: Duration| lines.get_ref().set_read_timeout(Some(left));
        match line(&mut self.lines, ANSWER_MAX, until, wait) {
            Ok(line) if line.is_empty() => Ok(None),
            Ok(line) => Reply::parse(&line).map(Some).map_err(|e| self.lost(e)),
            Err(e) => Err(self.lost(e)),
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// Those of [`Connection::send`] and [`Connection::next`].
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        // A refused connection has its answer already, and takes no request.
        let sent = self.send(request);
        match self.next()? {
            Some(reply) => Ok(reply),
            None => {
                sent?;
                Err(self.lost("the connection was closed"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::wire::INTERVAL_MS;
    use std::os::unix::net::UnixListener;

    /// A status each minute is no answer that is late.
    #[test]
    fn a_connection_that_watches_waits_for_its_interval() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let longest = Duration::from_millis(*INTERVAL_MS.end());
        for (request, least) in [
            (Request::Watch { interval_ms: *INTERVAL_MS.end() }, longest),
            (Request::Top { interval_ms: *INTERVAL_MS.end() }, longest),
            (Request::Status {}, Duration::from_secs(1)),
            (Request::Add { task: "a".into(), file: None }, Duration::from_secs(600)),
        ] {
            let mut run = Connection::open(&path).unwrap();
            run.send(&request).unwrap();
            assert!(run.patience >= least, "{request:?}: {:?}", run.patience);
        }
    }

    /// An input that never ends a line.
    struct Endless;

    impl io::Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.fill(b'x');
            Ok(into.len())
        }
    }

    /// A program at a path may write without end, or a byte now and then.
    #[test]
    fn an_answer_has_limits_of_size_and_time() {
        fn free<R>(_: &R, _: Duration) -> io::Result<()> {
            Ok(())
        }
        let late = Instant::now() + LONG_PATIENCE;
        let why = |result: io::Result<String>| result.unwrap_err().kind();
        let mut endless = BufReader::new(Endless);
        assert_eq!(why(line(&mut endless, 1 << 20, late, free)), io::ErrorKind::InvalidData);
        assert_eq!(why(line(&mut endless, u64::MAX, Instant::now(), free)), io::ErrorKind::TimedOut);
        // Each wait ends with the time of the whole line.
        let bounded = |_: &BufReader<&[u8]>, left: Duration| {
            if left > LONG_PATIENCE { Err(io::Error::other("long")) } else { Ok(()) }
        };
        let mut two = BufReader::with_capacity(2, &b"12345\nab\n"[..]);
        assert_eq!(line(&mut two, 8, late, bounded).unwrap(), "12345\n");
        assert_eq!(line(&mut two, 2, late, free).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(line(&mut BufReader::new(&b""[..]), 8, late, free).unwrap(), "");
        assert_eq!(why(line(&mut BufReader::new(&b"\xff\n"[..]), 8, late, free)), io::ErrorKind::InvalidData);
    }
}
