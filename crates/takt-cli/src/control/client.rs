//! The other end of the control socket: `takt ctl`, and whatever else asks a run.

use super::wire::{Reply, Request};
use crate::failure::Failure;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use takt_linux::RunId;
use takt_linux::socket;
use takt_workload::Code;

/// How long most answers may take. Changes wait for the next step of the engine, and a policy may take long to build.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the next line of an answer may take; `None` is without a limit. If the run ends, it closes the connection.
fn patience(request: &Request) -> Option<Duration> {
    match request {
        // A process initialises, or a table waits for the end of its major frame, for as long as the file says.
        Request::Add { .. } | Request::Reload { .. } => None,
        Request::Watch { interval_ms } | Request::Top { interval_ms } => {
            Some(PATIENCE + Duration::from_millis(*interval_ms))
        }
        _ => Some(PATIENCE),
    }
}

/// A connection to a run.
pub(crate) struct Connection {
    lines: BufReader<UnixStream>,
    path: PathBuf,
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
        let stream = UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream = stream.map_err(|e| {
            let message = format!("cannot reach a run at `{}`: {e}", path.display());
            Failure::input(Code::NoRun, message, "only its own user and root reach a run; has it ended?")
        })?;
        Ok(Connection { lines: BufReader::new(stream), path: path.to_owned() })
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
        let stream = self.lines.get_mut();
        let written =
            stream.set_read_timeout(patience(request)).and_then(|()| stream.write_all(request.line().as_bytes()));
        written.map_err(|e| self.lost(e))
    }

    /// The next line of the run. `None` at the end of the connection.
    ///
    /// # Errors
    /// The run does not answer, or in another version.
    pub(crate) fn next(&mut self) -> Result<Option<Reply>, Failure> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => Reply::parse(&line).map(Some).map_err(|e| self.lost(e)),
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
            (Request::Watch { interval_ms: *INTERVAL_MS.end() }, Some(longest)),
            (Request::Top { interval_ms: *INTERVAL_MS.end() }, Some(longest)),
            (Request::Status {}, Some(Duration::from_secs(1))),
            (Request::Add { task: "a".into(), file: None }, None),
        ] {
            let mut run = Connection::open(&path).unwrap();
            run.send(&request).unwrap();
            let limit = run.lines.get_ref().read_timeout().unwrap();
            // `None` has no limit.
            assert!(limit.is_none() == least.is_none() && limit >= least, "{request:?}: {limit:?}");
        }
    }
}
