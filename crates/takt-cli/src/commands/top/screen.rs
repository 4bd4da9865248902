//! The terminal, which is as before when this is over.

use crate::failure::Failure;
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use takt_workload::Code;

/// The whole terminal, in raw mode and with the alternate screen. With this value that ends, also by a panic.
pub(super) struct Screen {
    pub(super) terminal: DefaultTerminal,
    stop: Arc<AtomicBool>,
    signals: Vec<signal_hook::SigId>,
}

/// Whether characters beyond ASCII can be shown, as the locale says.
pub(super) fn unicode() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    (locale.contains("utf-8") || locale.contains("utf8")) && std::env::var("TERM").is_ok_and(|term| term != "linux")
}

/// # Errors
/// There is no terminal, or one that cannot place its cursor.
pub(super) fn is_there() -> Result<(), Failure> {
    let hint = "use `--once` for a table of one instant, or `--json` for an object";
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        let message = "`takt top` needs a terminal as standard input and output";
        return Err(Failure::input(Code::NoTerminal, message, hint));
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        let message = "the terminal cannot place its cursor, as `TERM` says";
        return Err(Failure::input(Code::NoTerminal, message, hint));
    }
    Ok(())
}

impl Screen {
    pub(super) fn open() -> Result<Screen, Failure> {
        is_there()?;
        let stop = Arc::new(AtomicBool::new(false));
        // A second signal ends the process at once, whatever it waits for.
        let at_once = |signal| signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone());
        let first = |signal| signal_hook::flag::register(signal, stop.clone());
        let signals = [SIGHUP, SIGINT, SIGTERM].into_iter().flat_map(|signal| [at_once(signal), first(signal)]);
        let signals = signals.collect::<io::Result<_>>()?;
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Screen { terminal, stop, signals })
    }

    /// A signal has asked for the end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing more.
        let _ = ratatui::try_restore();
        self.signals.drain(..).for_each(|signal| _ = signal_hook::low_level::unregister(signal));
    }
}
