//! The namespaces in which processes have their numbers and start times (namespaces(7), time_namespaces(7)).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// Number of the first PID namespace (`PROC_PID_INIT_INO` in include/linux/proc_ns.h of Linux).
pub(crate) const FIRST: u64 = 0xEFFF_FFFC;
/// The clock ticks of a second in `/proc` (`USER_HZ`).
const TICKS: i64 = 100;

/// Number of the PID namespace of this process.
pub(crate) fn own() -> u64 {
    // Without such namespaces in the kernel there is only the first one.
    fs::metadata("/proc/self/ns/pid").map_or(FIRST, |known| known.ino())
}

/// Numbers of the PID namespaces that have a process; `None` if this process does not see all processes.
pub(crate) fn all() -> Option<BTreeSet<u64>> {
    if own() != FIRST {
        return None;
    }
    let numbers =
        crate::control::processes().filter_map(|pid| Some(fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino()));
    Some(numbers.collect())
}

/// The start time of a process, as the first time namespace shows it. `/proc` shows it as the namespace of the reader does.
pub(crate) fn start(shown: u64) -> u64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    let offset =
        *OFFSET.get_or_init(|| fs::read_to_string("/proc/self/timens_offsets").map_or(0, |text| offset(&text)));
    shown.saturating_add_signed(-offset)
}

/// The offset of the clock since boot, in ticks. A namespace usually has one of whole seconds.
fn offset(text: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix("boottime"));
    let mut numbers = line.unwrap_or_default().split_ascii_whitespace().filter_map(|number| number.parse::<i64>().ok());
    let (seconds, nanoseconds) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    seconds * TICKS + nanoseconds / (1_000_000_000 / TICKS)
}

/// A process of another PID namespace, which has no number here.
pub(crate) fn foreign(what: &str, namespace: u64) -> io::Error {
    let message =
        format!("{what} has its number in another PID namespace ({namespace}): run `takt doctor --clean` there");
    io::Error::new(io::ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_in_ticks() {
        assert_eq!(offset("monotonic           7         0\nboottime       500000 20000000\n"), 50_000_002);
        assert_eq!(offset("monotonic 7 0\nboottime -3 990000000\n"), -201);
        assert_eq!(offset(""), 0);
    }

    #[test]
    fn the_own_namespace_has_a_process() {
        assert!(all().is_none_or(|all| all.contains(&own())));
    }
}
