//! Files of records that a thread of their own writes.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// A run's trace may pile up to so many bytes until its reader counts as gone.
const PILE_MAX: usize = 64 << 20;

/// Where such a thread writes.
pub(crate) trait Sink: Write {
    /// Ends the file, and begins the next one.
    fn next(&mut self) -> io::Result<()>;
}

/// A single file, or a pipe.
pub(crate) struct Single(pub(crate) Box<dyn Write + Send>);

impl Write for Single {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Sink for Single {
    fn next(&mut self) -> io::Result<()> {
        Err(io::Error::other("a single file has no next one"))
    }
}

enum Chunk {
    Bytes(Vec<u8>),
    /// The next file begins.
    Next,
}

/// Writes on a thread of its own: a reader that stops, or a disk that does, must not hold up who watches the run.
#[derive(Clone)]
pub(crate) struct Behind {
    chunks: mpsc::Sender<Chunk>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    piled: AtomicUsize,
    error: Mutex<Option<io::Error>>,
}

impl State {
    fn take_error(&self) -> Option<io::Error> {
        self.error.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

/// The other end of [`Behind`].
pub(crate) struct Thread {
    state: Arc<State>,
    done: mpsc::Receiver<()>,
}

impl Thread {
    /// Waits until everything is written, at most for `limit`. Returns what went wrong.
    pub(crate) fn finish(&self, limit: Option<Duration>) -> Option<io::Error> {
        let written = match limit {
            Some(limit) => self.done.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout),
            None => self.done.recv().is_ok(),
        };
        let unread = || Some(io::Error::new(io::ErrorKind::TimedOut, "no reader takes it"));
        self.state.take_error().or_else(|| if written { None } else { unread() })
    }
}

/// Starts the thread that writes, with both of its other ends.
pub(crate) fn behind(mut out: Box<dyn Sink + Send>) -> (Behind, Thread) {
    let (chunks, to_write) = mpsc::channel::<Chunk>();
    let (tell, done) = mpsc::channel();
    let state = Arc::new(State::default());
    let shared = state.clone();
    let write = move || {
        for chunk in to_write {
            let written = match chunk {
                Chunk::Bytes(bytes) => {
                    let written = out.write_all(&bytes).and_then(|()| out.flush());
                    shared.piled.fetch_sub(bytes.len(), Ordering::AcqRel);
                    written
                }
                Chunk::Next => out.next(),
            };
            if let Err(e) = written {
                *shared.error.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
                break;
            }
        }
        // The receiver is gone when the wait for the answer was given up.
        let _ = tell.send(());
    };
    if let Err(e) = std::thread::Builder::new().name("takt-files".into()).spawn(write) {
        // The first write reports it.
        let error = io::Error::new(e.kind(), format!("its thread cannot be started: {e}"));
        *state.error.lock().unwrap_or_else(|e| e.into_inner()) = Some(error);
    }
    (Behind { chunks, state: state.clone() }, Thread { state, done })
}

impl Behind {
    /// Later bytes are written into the next file.
    pub(crate) fn next(&self) -> io::Result<()> {
        self.chunks.send(Chunk::Next).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(e) = self.state.take_error() {
            return Err(e);
        }
        if self.state.piled.fetch_add(bytes.len(), Ordering::AcqRel) > PILE_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no reader takes it"));
        }
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.chunks.send(Chunk::Bytes(bytes.to_vec())).map(|()| bytes.len()).map_err(gone)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
