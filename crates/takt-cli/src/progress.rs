//! Progress of work that can take more than a second: a bar on a terminal, and without one a line every ten seconds, both on
//! standard error.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{self, IsTerminal, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Shorter work shows nothing.
const FIRST: Duration = Duration::from_secs(1);
/// Between two pictures of the bar.
const TICK: Duration = Duration::from_millis(200);
/// Between two lines where there is no terminal.
pub(crate) const LINE: Duration = Duration::from_secs(10);

/// Shows how far some work is, until it is finished or dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// The thread that shows the progress, and the channel whose end stops it.
    shown: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl Progress {
    /// Progress through `total` pieces of work, such as `sets`.
    pub(crate) fn of(total: u64, unit: &'static str) -> Progress {
        let style = format!("{{wide_bar}} {{pos}} of {{len}} {unit}{{left}}");
        Progress::new(ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()), &style, move |bar| {
            counted(bar.position(), total, unit, bar.eta())
        })
    }

    /// Progress as a part of `total`, such as `read`: percent are shown, and not numbers.
    pub(crate) fn part(total: u64, what: &'static str) -> Progress {
        let style = format!("{{wide_bar}} {{percent}} % {what}{{left}}");
        Progress::new(ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()), &style, move |bar| {
            let percent = u128::from(bar.position()) * 100 / u128::from(total.max(1));
            format!("{percent} % {what}{}", left(bar.position(), bar.eta()))
        })
    }

    /// Work whose end is not known, such as `checking`.
    pub(crate) fn busy(what: &'static str) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Progress::new(bar, &format!("{{spinner}} {what}, {{elapsed}}"), move |bar| {
            format!("{what}, {} so far", HumanDuration(bar.elapsed()))
        })
    }

    /// Shows nothing.
    pub(crate) fn none() -> Progress {
        Progress { bar: ProgressBar::hidden(), shown: Mutex::new(None) }
    }

    fn new(bar: ProgressBar, style: &str, line: impl Fn(&ProgressBar) -> String + Send + 'static) -> Progress {
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let remaining = |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&left(state.pos(), state.eta()));
        };
        let bar = bar.with_style(style.with_key("left", remaining));
        let (end, ended) = mpsc::channel();
        let own = bar.clone();
        let show = move || {
            let waits = |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if !waits(FIRST) {
                return;
            }
            if io::stderr().is_terminal() {
                own.set_draw_target(ProgressDrawTarget::stderr());
                own.tick();
                while waits(TICK) {
                    own.tick();
                }
                return;
            }
            lines(&own, &ended, LINE - FIRST, LINE, &mut io::stderr(), line);
        };
        // Without a thread nothing is shown.
        let thread = std::thread::Builder::new().name("progress".into()).spawn(show).ok();
        Progress { bar, shown: Mutex::new(thread.map(|thread| (end, thread))) }
    }

    pub(crate) fn inc(&self, pieces: u64) {
        self.bar.inc(pieces);
    }

    pub(crate) fn set(&self, pieces: u64) {
        self.bar.set_position(pieces);
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some((end, thread)) = self.shown.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(end);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Writes a line after each of these times, until the work ends.
fn lines(
    bar: &ProgressBar,
    ended: &Receiver<()>,
    first: Duration,
    later: Duration,
    out: &mut impl Write,
    line: impl Fn(&ProgressBar) -> String,
) {
    let mut time = first;
    while ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
        time = later;
        // The work continues without it.
        let _ = writeln!(out, "progress: {}", line(bar));
    }
}

/// A line without a terminal.
fn counted(position: u64, total: u64, unit: &str, eta: Duration) -> String {
    let percent = u128::from(position) * 100 / u128::from(total.max(1));
    format!("{position} of {total} {unit} ({percent} %){}", left(position, eta))
}

/// The remaining time; unknown before the first piece is done.
fn left(position: u64, eta: Duration) -> String {
    if position == 0 { String::new() } else { format!(", {} left", HumanDuration(eta)) }
}

/// Counts the bytes that are read.
pub(crate) struct Counted<'p, R> {
    pub(crate) inner: R,
    pub(crate) progress: &'p Progress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.progress.inc(read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn lines_say_how_far_it_is() {
        assert_eq!(counted(0, 200, "sets", Duration::from_secs(9)), "0 of 200 sets (0 %)");
        assert_eq!(counted(50, 200, "sets", Duration::from_secs(40)), "50 of 200 sets (25 %), 40 seconds left");
        assert_eq!(
            counted(u64::MAX, u64::MAX, "x", Duration::ZERO),
            format!("{0} of {0} x (100 %), 0 seconds left", u64::MAX)
        );
    }

    #[test]
    fn lines_come_until_the_work_ends() {
        let (bar, count) = (ProgressBar::hidden(), Cell::new(0));
        let (end, ended) = mpsc::channel();
        let end = RefCell::new(Some(end));
        let line = |_: &ProgressBar| {
            count.set(count.get() + 1);
            // The work ends after the third line.
            end.borrow_mut().take_if(|_| count.get() == 3);
            format!("line {}", count.get())
        };
        let (mut out, time) = (Vec::new(), Duration::from_millis(1));
        lines(&bar, &ended, time, time, &mut out, line);
        assert_eq!(String::from_utf8(out).unwrap(), "progress: line 1\nprogress: line 2\nprogress: line 3\n");
    }

    #[test]
    fn it_ends_at_once() {
        let began = std::time::Instant::now();
        let progress = Progress::of(10, "sets");
        progress.inc(3);
        progress.finish();
        progress.finish();
        drop(progress);
        let (busy, part) = (Progress::busy("checking"), Progress::part(100, "read"));
        let mut text = Vec::new();
        Counted { inner: &b"abc"[..], progress: &part }.read_to_end(&mut text).unwrap();
        assert_eq!((text.as_slice(), part.bar.position()), (&b"abc"[..], 3));
        drop((busy, part, Progress::none()));
        assert!(began.elapsed() < FIRST, "the thread does not end at once");
    }
}
