//! The measured task: it wakes in each period, and records its lateness.

use crate::clock::sleep_until;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use takt_core::time::Span;
use takt_linux::timer::{SignalTimer, Timer, now};

/// How the task waits for its next period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Method {
    /// clock_nanosleep to an absolute instant, as cyclictest does
    Nanosleep,
    /// A POSIX timer that sends a signal
    Timer,
    /// A timer descriptor
    Timerfd,
}

/// The way to a second process and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Echo {
    /// Over two pipes
    Pipe,
    /// Over UDP on the loopback device
    Udp,
}

/// A wake-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WakeUp {
    /// Its planned instant of the monotonic clock, in nanoseconds.
    pub(crate) planned: i64,
    /// Its lateness in nanoseconds.
    pub(crate) late: i64,
}

impl WakeUp {
    const NONE: WakeUp = WakeUp { planned: 0, late: 0 };
    /// One that is observed at this instant.
    fn now(planned: Span) -> WakeUp {
        WakeUp { planned: planned.ns(), late: (now() - planned).ns() }
    }
}

/// So many wake-ups. An instant that is missed altogether counts with its whole delay.
pub(crate) fn wake(method: Method, period: Span, count: usize) -> io::Result<Vec<WakeUp>> {
    // The memory is touched before the first wake-up.
    let mut all = vec![WakeUp::NONE; count];
    let mut at = now() + period;
    match method {
        Method::Nanosleep => {
            for one in &mut all {
                sleep_until(at);
                *one = WakeUp::now(at);
                at += period;
            }
        }
        Method::Timerfd => {
            let timer = Timer::new()?;
            for one in &mut all {
                timer.arm(at)?;
                while poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).is_err() {}
                *one = WakeUp::now(at);
                at += period;
            }
        }
        Method::Timer => {
            let timer = SignalTimer::start(at, period)?;
            let mut next = 0;
            while next < count {
                let (expired, woken) = (timer.wait()?, now());
                for _ in 0..expired {
                    if let Some(one) = all.get_mut(next) {
                        *one = WakeUp { planned: at.ns(), late: (woken - at).ns() };
                    }
                    next += 1;
                    at += period;
                }
            }
        }
    }
    Ok(all)
}

/// Periods in a frame of the schedule of windows; the first half of a frame is the window of the task.
pub(crate) const FRAME: i64 = 10;

/// Pauses from which the beginning of windows is found.
const PAUSES: usize = 8;

/// As [`wake`], within the windows of this process: the periods that begin inside its window, without the first one. The process is frozen outside of
/// it, and the ends of such pauses are the beginnings of windows.
pub(crate) fn wake_in_windows(period: Span, count: usize) -> io::Result<Vec<WakeUp>> {
    let (frame, window) = (period * FRAME, period * (FRAME / 2));
    let (give_up, mut before) = (now() + frame * 100, now());
    let mut ends: Vec<i64> = Vec::new();
    while ends.len() < PAUSES {
        let at = now();
        if at - before >= window.scaled(4, 5) {
            ends.push(at.ns());
        }
        if at > give_up {
            return Err(io::Error::other("the schedule's windows were not observed"));
        }
        before = at;
    }
    let begin = Span::from_ns(common_phase(&ends, frame.ns()));
    let each = FRAME / 2 - 1;
    let mut all = vec![WakeUp::NONE; count];
    // The first frame that has not begun.
    let first = (now() - begin).ns() / frame.ns() + 1;
    for (index, one) in (0i64..).zip(&mut all) {
        let at = begin + frame * (first + index / each) + period * (1 + index % each);
        sleep_until(at);
        *one = WakeUp::now(at);
    }
    Ok(all)
}

/// The earliest of those instants that agree best about their place in a frame. Other load can pause the process at any instant.
fn common_phase(instants: &[i64], frame: i64) -> i64 {
    let near = |a: i64, b: i64| {
        let apart = (a - b).rem_euclid(frame);
        apart.min(frame - apart) < frame / 20
    };
    let agree = |one: &i64| instants.iter().filter(|other| near(*one, **other)).count();
    let best = instants.iter().copied().max_by_key(|one| (agree(one), std::cmp::Reverse(*one)));
    // The instant with the least delay after the beginning of its window, among the instants that agree.
    let best = best.unwrap_or(0);
    let delay = |one: i64| (one - best + frame / 2).rem_euclid(frame) - frame / 2;
    best + instants.iter().filter(|one| near(**one, best)).map(|one| delay(*one)).min().unwrap_or(0)
}

/// As [`wake`], to the answer of a second process: each wake-up sends a message, and the answer is observed by this process's clock.
pub(crate) fn round_trips(echo: Echo, period: Span, count: usize) -> io::Result<Vec<WakeUp>> {
    let mut peer = Peer::start(echo)?;
    let mut all = vec![WakeUp::NONE; count];
    let mut at = now() + period;
    for one in &mut all {
        sleep_until(at);
        peer.round_trip()?;
        *one = WakeUp::now(at);
        at += period;
    }
    Ok(all)
}

/// The second process answers within this time.
const ANSWER: Duration = Duration::from_secs(5);

/// The second process, which ends with its input.
struct Peer {
    child: Child,
    socket: Option<UdpSocket>,
}

impl Peer {
    fn start(echo: Echo) -> io::Result<Peer> {
        let name = if echo == Echo::Pipe { "pipe" } else { "udp" };
        let mut command = Command::new("/proc/self/exe");
        command.args(["__latency", "echo", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut peer = Peer { child: command.spawn()?, socket: None };
        if echo == Echo::Udp {
            let mut port = [0; 2];
            peer.child.stdout.as_mut().expect("it is piped").read_exact(&mut port)?;
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(("127.0.0.1", u16::from_le_bytes(port)))?;
            // A datagram of the loopback device is lost only where memory lacks.
            socket.set_read_timeout(Some(ANSWER))?;
            peer.socket = Some(socket);
        }
        Ok(peer)
    }
    fn round_trip(&mut self) -> io::Result<()> {
        let mut byte = [1];
        if let Some(socket) = &self.socket {
            socket.send(&byte)?;
            return match socket.recv(&mut byte) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    Err(io::Error::other(format!("the second process did not answer within {ANSWER:?}")))
                }
                received => received.map(drop),
            };
        }
        let Child { stdin, stdout, .. } = &mut self.child;
        stdin.as_mut().expect("it is piped").write_all(&byte)?;
        stdout.as_mut().expect("it is piped").read_exact(&mut byte)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of the second process.
pub(crate) fn answer(echo: Echo) -> io::Result<()> {
    let mut byte = [0];
    match echo {
        Echo::Pipe => {
            let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
            while input.read(&mut byte)? == 1 {
                output.write_all(&byte)?;
                output.flush()?;
            }
            Ok(())
        }
        Echo::Udp => {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            let mut output = io::stdout().lock();
            output.write_all(&socket.local_addr()?.port().to_le_bytes())?;
            output.flush()?;
            // Its parent ends it.
            loop {
                let (_, from) = socket.recv_from(&mut byte)?;
                socket.send_to(&byte, from)?;
            }
        }
    }
}

/// Reads a file so many times, each of which waits in the kernel.
pub(crate) fn wait_in(path: &Path, count: usize) -> io::Result<()> {
    let failed = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let mut file = File::open(path).map_err(failed)?;
    (0..count).try_for_each(|_| file.read(&mut [0]).map(drop).map_err(failed))
}

/// Pauses of a loop that reads the clock, from `least` on: time that nothing but the kernel, its host and threads of a higher class can take.
pub(crate) fn gaps(length: Span, least: Span) -> Vec<i64> {
    let end = now() + length;
    let (mut gaps, mut before) = (Vec::new(), now());
    while before < end {
        let at = now();
        if at - before >= least {
            gaps.push((at - before).ns());
        }
        before = at;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_method_wakes_early_or_loses_a_period() {
        // Alone in its thread, because the signal of the timer goes to any thread that does not block it.
        for method in [Method::Nanosleep, Method::Timerfd] {
            let all = wake(method, Span::from_us(500), 20).unwrap();
            assert!(all.len() == 20 && all.iter().all(|one| one.late > 0), "{method:?}: {all:?}");
            assert!(all.windows(2).all(|pair| pair[1].planned - pair[0].planned == 500_000), "{all:?}");
        }
    }

    #[test]
    fn the_beginning_of_windows_is_what_most_pauses_agree_about() {
        // Windows begin at 3 in frames of 100; two pauses have another cause.
        assert_eq!(common_phase(&[150, 204, 303, 377, 505], 100) % 100, 3);
        assert_eq!(common_phase(&[99, 201, 300], 100) % 100, 99, "across the end of a frame");
        assert_eq!(common_phase(&[], 100), 0);
    }

    #[test]
    fn gaps_are_at_least_as_long_as_asked_for() {
        let all = gaps(Span::from_ms(5), Span::from_ns(1));
        assert!(!all.is_empty() && all.iter().all(|gap| *gap >= 1));
        assert!(gaps(Span::from_ms(2), Span::from_secs(3600)).is_empty());
    }
}
