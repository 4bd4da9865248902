//! The run as a service: what its manager learns, and the sign of life of the scheduler thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use takt_linux::service::ServiceManager;

/// The number of times the scheduler thread has begun to wait. It counts what that thread has finished, not that it exists.
#[derive(Clone, Default, Debug)]
pub(crate) struct Heartbeat(Arc<AtomicU64>);

impl Heartbeat {
    /// The scheduler thread has handled all that it knew of.
    pub(crate) fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The supervisor's side: it reports to the service manager, if there is one.
pub(crate) struct Service {
    manager: Option<Arc<ServiceManager>>,
    heart: Heartbeat,
    /// The beats at the last sign of life.
    seen: u64,
    next: Instant,
    /// The scheduler thread was asked for a beat since the last sign of life.
    asked: bool,
    stopping: bool,
}

impl Service {
    pub(crate) fn new(manager: Option<Arc<ServiceManager>>) -> Service {
        let (heart, next) = (Heartbeat::default(), Instant::now());
        Service { manager, heart, seen: 0, next, asked: false, stopping: false }
    }

    pub(crate) fn heart(&self) -> Heartbeat {
        self.heart.clone()
    }

    pub(crate) fn status(&self, text: impl FnOnce() -> String) {
        if let Some(manager) = &self.manager {
            manager.status(&text());
        }
    }

    /// The first frame has begun.
    pub(crate) fn ready(&self, text: impl FnOnce() -> String) {
        if let Some(manager) = &self.manager {
            manager.ready(&text());
        }
    }

    /// The run ends. Only the first call has an effect.
    pub(crate) fn stopping(&mut self, text: impl FnOnce() -> String) {
        let first = !std::mem::replace(&mut self.stopping, true);
        if let Some(manager) = self.manager.as_ref().filter(|_| first) {
            manager.stopping(&text());
        }
    }

    /// The initialisation or the end of the run takes up to so long.
    pub(crate) fn extend(&self, by: Duration) {
        if let Some(manager) = &self.manager {
            manager.extend(by);
        }
    }

    /// Sends the sign of life at half of the manager's interval, `slack` earlier, if the scheduler thread has beaten since the last one.
    /// Returns whether that thread is to be woken, once: one that sleeps until a distant instant does not beat by itself.
    pub(crate) fn watch(&mut self, now: Instant, slack: Duration) -> bool {
        let Some((manager, interval)) = self.manager.as_ref().and_then(|m| Some((m, m.watchdog()?))) else {
            return false;
        };
        if now < self.next {
            return false;
        }
        let beats = self.heart.count();
        if beats == self.seen {
            return !std::mem::replace(&mut self.asked, true);
        }
        manager.alive();
        (self.seen, self.asked) = (beats, false);
        self.next = now + (interval / 2).saturating_sub(slack);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    const SLACK: Duration = Duration::from_millis(50);

    /// A manager of this interval, and the socket where it listens.
    fn manager(name: &str, watchdog: Option<Duration>) -> (UnixDatagram, Service) {
        let name = format!("takt-{name}-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let manager = ServiceManager::at(format!("@{name}").as_ref(), watchdog).unwrap();
        (socket, Service::new(Some(Arc::new(manager))))
    }

    fn messages(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 256];
        let next = || {
            let n = socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..n].to_vec()).unwrap())
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn signs_of_life_come_at_half_of_the_interval_while_the_scheduler_beats() {
        let (socket, mut service) = manager("beats", Some(Duration::from_secs(1)));
        let heart = service.heart();
        let begin = Instant::now();
        let mut sent = Vec::new();
        for ms in (0..3000).step_by(50) {
            heart.beat();
            assert!(!service.watch(begin + Duration::from_millis(ms), SLACK));
            sent.extend(messages(&socket).into_iter().map(|text| (ms, text)));
        }
        let times: Vec<u64> = sent.iter().map(|(ms, _)| *ms).collect();
        assert_eq!(times, [0, 450, 900, 1350, 1800, 2250, 2700]);
        assert!(sent.iter().all(|(_, text)| text == "WATCHDOG=1"));
    }

    #[test]
    fn a_stalled_scheduler_is_asked_once_and_gets_no_sign_of_life() {
        let (socket, mut service) = manager("stalled", Some(Duration::from_secs(1)));
        let heart = service.heart();
        let begin = Instant::now();
        heart.beat();
        service.watch(begin, SLACK);
        assert_eq!(messages(&socket).len(), 1);
        let asked: Vec<bool> = (1..100).map(|n| service.watch(begin + Duration::from_millis(50 * n), SLACK)).collect();
        assert_eq!(asked.iter().position(|asked| *asked), Some(8), "at 450 ms");
        assert_eq!(asked.iter().filter(|asked| **asked).count(), 1);
        assert!(messages(&socket).is_empty());
        // It was only late.
        heart.beat();
        assert!(!service.watch(begin + Duration::from_secs(6), SLACK));
        assert_eq!(messages(&socket), ["WATCHDOG=1"]);
    }

    #[test]
    fn without_an_interval_there_are_no_signs_of_life_and_the_end_is_reported_once() {
        let (socket, mut service) = manager("plain", None);
        service.heart().beat();
        assert!(!service.watch(Instant::now() + Duration::from_secs(9), SLACK));
        service.ready(|| "on".into());
        service.stopping(|| "off".into());
        service.stopping(|| "off again".into());
        assert_eq!(messages(&socket), ["READY=1\nSTATUS=on", "STOPPING=1\nSTATUS=off"]);
    }
}
