//! `takt` in a terminal that a test can look at and type into: tmux, with a server of its own.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use takt_testing::{Capability, skip};

/// No picture takes longer, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal. Dropped, it ends with all that runs in it.
pub(crate) struct Tmux {
    server: String,
}

impl Tmux {
    /// A terminal of this size in which a command of the shell runs; `None` where there is no tmux.
    pub(crate) fn start(width: u16, height: u16, command: &str) -> Option<Tmux> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !Capability::Tmux.is_present() {
            skip(Capability::Tmux, "tmux is not there to look at a terminal");
            return None;
        }
        let server = format!("takt-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let tmux = Tmux { server };
        let (x, y) = (width.to_string(), height.to_string());
        // Without options of the user; the output of a command that has ended stays on the screen.
        let command = format!("{command}; exec sleep 300");
        let started = tmux.run(&["-f", "/dev/null", "-u", "new-session", "-d", "-x", &x, "-y", &y, &command]);
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-L").arg(&self.server).args(args).env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        command.output().expect("tmux runs")
    }

    /// The text on the screen.
    pub(crate) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.run(&["capture-pane", "-p"]).stdout).into_owned()
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        let sent = self.run(&[&["send-keys"], keys].concat());
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    }

    #[allow(dead_code, reason = "each test program uses its part")]
    pub(crate) fn resize(&self, width: u16, height: u16) {
        let (x, y) = (width.to_string(), height.to_string());
        assert!(self.run(&["resize-window", "-x", &x, "-y", &y]).status.success());
    }

    /// Waits for a picture.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether the terminal shows its main screen and its cursor, as before.
    #[track_caller]
    pub(crate) fn is_restored(&self) {
        let shown = self.run(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        assert_eq!(String::from_utf8_lossy(&shown.stdout).trim(), "0 1");
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.run(&["kill-server"]);
    }
}
