//! A browser without a screen and without a network, for tests of pages.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A browser may take so many seconds before it is ended.
const PATIENCE: &str = "180";

/// Programs that can show pages without a screen.
pub(crate) const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The path of the first installed browser.
fn installed() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| {
        let mut version = Command::new(name);
        version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    })
}

/// Opens a file with a fragment, such as `#selftest` or nothing, and returns what the browser has written: with `--dump-dom` the document on standard output.
/// Messages of the page's console are lines with `CONSOLE` on standard error. `None` if no browser is installed.
///
/// # Panics
/// When the browser cannot be started.
#[must_use]
pub fn browse(page: &Path, fragment: &str, arguments: &[&str]) -> Option<Output> {
    let name = installed()?;
    let profile = page.parent()?.join("profile");
    let apart = Command::new("unshare").args(["--net", "true"]).status().is_ok_and(|status| status.success());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE]);
    if apart {
        command.args(["unshare", "--net"]);
    }
    command.arg(name);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr"]);
    command.arg(format!("--user-data-dir={}", profile.display())).args(arguments);
    command.arg(format!("file://{}{fragment}", page.display())).stdin(Stdio::null());
    Some(command.output().expect("timeout is a program of every Linux"))
}
