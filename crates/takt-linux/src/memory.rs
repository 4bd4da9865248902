//! An allocator that ends the program with a message when memory is exhausted, as under `ulimit -v`.

use crate::sys;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// The system's allocator. When it has no memory left, the process writes a message to standard error and ends with status 1.
///
/// Rust's own reaction is an abort with a core dump. A run that ends so is cleaned up by its watcher, in both cases.
/// The field is the code of the message.
#[derive(Debug)]
pub struct OrExit(pub &'static str);

// SAFETY: the system's allocator does the work. No call returns a null pointer.
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is that of the system's allocator.
        self.or_exit(unsafe { System.alloc(layout) }, layout.size())
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        self.or_exit(unsafe { System.realloc(at, layout, size) }, size)
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

impl OrExit {
    fn or_exit(&self, at: *mut u8, size: usize) -> *mut u8 {
        if at.is_null() {
            exhausted(self.0, size);
        }
        at
    }
}

/// Whether this process can allocate so many bytes at once. No page is touched, also where all memory of the process is locked (mlockall(2)).
#[must_use]
pub fn can_allocate(bytes: usize) -> bool {
    sys::can_map(bytes)
}

/// Writes the message without an allocation.
#[cold]
fn exhausted(code: &str, size: usize) -> ! {
    let mut text = [0; 192];
    let mut rest = &mut text[..];
    let _ = writeln!(rest, "error[{code}]: memory is exhausted: {size} more bytes are not available");
    let _ = writeln!(rest, "hint: raise the limit (`ulimit -v`), or make the workload smaller");
    let left = rest.len();
    let end = text.len() - left;
    sys::exit_with(&text[..end], 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_asked_for_is_not_touched() {
        assert!(can_allocate(1) && can_allocate(64 << 20));
        assert!(!can_allocate(usize::MAX) && !can_allocate(1 << 60));
        // In a process of its own, whose memory is locked: the peak of its resident memory does not grow.
        let Ok(own) = std::env::current_exe() else { return };
        if std::env::var_os("TAKT_TEST_LOCKED").is_none() {
            let name = "memory::tests::memory_that_is_asked_for_is_not_touched";
            let mut again = std::process::Command::new(own);
            let status = again.args([name, "--exact"]).env("TAKT_TEST_LOCKED", "1").status().unwrap();
            return assert!(status.success());
        }
        if crate::rt::lock_memory().is_err() {
            return println!("skipped: memory may not be locked");
        }
        let peak = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
        };
        let before = peak();
        assert!(can_allocate(256 << 20));
        assert!(peak() - before < 16 << 10, "{before} KiB before, then {}", peak());
    }
}
