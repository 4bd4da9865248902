//! Standard output that the program was started without (`>&-`).
//!
//! The Rust runtime opens `/dev/null` in its place before `main`, and what is printed is lost without an error. So the descriptor is looked at
//! before the runtime begins.

use crate::sys;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::io;

/// Whether standard output was closed when this program was started.
#[must_use]
pub fn output_was_closed() -> bool {
    sys::output_was_closed()
}

/// Lets each write to a standard output that was closed fail with an error. Processes that are started do not inherit it.
///
/// `EBADF` would be no error: the standard library takes it as success on standard output.
///
/// # Errors
/// When the kernel gives no descriptor.
pub fn fail_if_closed() -> io::Result<()> {
    if output_was_closed() {
        let file = memfd_create("takt-closed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK)?;
        rustix::stdio::dup2_stdout(&file)?;
    }
    Ok(())
}
