//! The page of memory that a scheduled program shares with its scheduler ([`takt_abi`]).
//!
//! It is an anonymous, sealed file. A program that could shrink it would kill the scheduler at the next access (SIGBUS). The file has no
//! name, so only the program that inherits the descriptor can map it.

use crate::sys::{self, Mapping};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use takt_abi::{Page, SIZE};

/// The scheduler's side of a shared page.
#[derive(Debug)]
pub struct SharedPage(Mapping);

impl SharedPage {
    /// A new page, and the descriptor for its program. The descriptor is closed on `exec`. The page remains mapped without it.
    ///
    /// # Errors
    /// When the limit of open files or of memory is reached.
    pub fn new() -> io::Result<(SharedPage, OwnedFd)> {
        let file = memfd_create("takt-page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, SIZE as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((SharedPage(sys::map_page(&file)?), file))
    }

    /// Wakes the program that waits for an answer. One system call; it never blocks.
    pub fn wake(&self) {
        sys::futex_wake(&self.0.page().answered);
    }

    /// Whether the program sleeps until an answer comes: a thread of it, or of a process that it has given the page. One system call; it never
    /// blocks.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        sys::futex_has_waiter(&self.0.page().answered)
    }
}

impl Deref for SharedPage {
    type Target = Page;
    fn deref(&self) -> &Page {
        self.0.page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_abi::{Kind, Status};

    #[test]
    fn two_mappings_are_one_page() {
        let (page, file) = SharedPage::new().unwrap();
        page.reset(0);
        let program = sys::map_page(&file).unwrap();
        let number = program.page().ask(Kind::Next, 0, [0; 3]);
        assert_eq!(page.take(0).unwrap().kind, Some(Kind::Next));
        page.answer(number, Status::Done);
        page.wake();
        assert_eq!(program.page().answered(number), Some(Status::Done));
    }

    #[test]
    fn a_sleep_until_an_answer_is_seen_and_not_ended() {
        use rustix::thread::futex;
        let (page, file) = SharedPage::new().unwrap();
        page.reset(0);
        assert!(!page.is_awaited());
        let program = sys::map_page(&file).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| futex::wait(&program.page().answered, futex::Flags::empty(), 0, None));
            while !page.is_awaited() {
                std::thread::yield_now();
            }
            assert!((0..100).all(|_| page.is_awaited()), "it was woken");
            page.answer(1, Status::Done);
            page.wake();
            waiter.join().unwrap().unwrap();
        });
        assert!(!page.is_awaited());
    }

    #[test]
    fn a_program_cannot_take_the_page_away() {
        let (_page, file) = SharedPage::new().unwrap();
        assert!(ftruncate(&file, 0).is_err());
        assert!(ftruncate(&file, 1 << 20).is_err());
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
    }
}
