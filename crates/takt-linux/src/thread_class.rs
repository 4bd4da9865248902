//! The scheduling class of a thread as a setting of the journal: it has the name `class:THREAD:START` in place of a path, so it is restored after a
//! crash, too. In a PID namespace of its own, its name ends with `:NAMESPACE`. Source: sched(7).

use crate::namespace;
use crate::run_id::start_time;
use crate::sys::{self, SchedAttr};
use std::fmt;
use std::io;
use std::str::FromStr;

/// Begin of the name of a setting that is the class of a thread.
const CLASS: &str = "class:";

/// A thread whose class is a setting: its number, and the start time that tells it from a later thread of that number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClassOf {
    thread: i32,
    start: u64,
    /// The PID namespace in which it has this number.
    namespace: u64,
}

impl ClassOf {
    pub(crate) fn new(thread: i32, start: u64) -> ClassOf {
        ClassOf { thread, start, namespace: namespace::own() }
    }

    /// The thread of such a name.
    pub(crate) fn named(path: &str) -> Option<ClassOf> {
        let (thread, start) = path.strip_prefix(CLASS)?.split_once(':')?;
        let (start, namespace) = match start.split_once(':') {
            Some((start, namespace)) => (start, namespace.parse().ok()?),
            None => (start, namespace::FIRST),
        };
        Some(ClassOf { thread: thread.parse().ok()?, start: start.parse().ok()?, namespace })
    }

    fn lives(self) -> io::Result<()> {
        if self.namespace != namespace::own() {
            // A thread that is not seen has not ended.
            return Err(namespace::foreign(&format!("thread {}", self.thread), self.namespace));
        }
        match start_time(self.thread) == Some(self.start) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::NotFound, format!("thread {} has ended", self.thread))),
        }
    }

    /// Its class as text, such as `SCHED_FIFO 50`.
    pub(crate) fn read(self) -> io::Result<String> {
        self.lives()?;
        Ok(Parameters::of(self.thread)?.to_string())
    }

    /// Gives it the class of such a text.
    pub(crate) fn write(self, text: &str) -> io::Result<()> {
        let parameters: Parameters = text.parse()?;
        self.lives()?;
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("thread {}: {text}: {e}", self.thread));
        sys::sched_setattr(self.thread, parameters.attributes()).map_err(failed)
    }
}

impl fmt::Display for ClassOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CLASS}{}:{}", self.thread, self.start)?;
        if self.namespace != namespace::FIRST {
            write!(f, ":{}", self.namespace)?;
        }
        Ok(())
    }
}

/// The policies whose parameters are one number, by their names in sched(7), and whether the number is a priority. Otherwise it is a nice value.
const POLICIES: [(i32, &str, bool); 5] = [
    (libc::SCHED_OTHER, "SCHED_OTHER", false),
    (libc::SCHED_BATCH, "SCHED_BATCH", false),
    (libc::SCHED_IDLE, "SCHED_IDLE", false),
    (libc::SCHED_FIFO, "SCHED_FIFO", true),
    (libc::SCHED_RR, "SCHED_RR", true),
];
/// The end of the text of a thread whose children do not inherit its class.
const RESET: &str = " reset-on-fork";

/// The class of a thread, but SCHED_DEADLINE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parameters {
    policy: i32,
    /// The priority of a real-time policy, or the nice value.
    number: i32,
    reset_on_fork: bool,
}

impl Parameters {
    /// SCHED_FIFO with a priority.
    pub(crate) fn fifo(priority: u8) -> Parameters {
        Parameters { policy: libc::SCHED_FIFO, number: priority.into(), reset_on_fork: false }
    }

    /// The class of a thread.
    ///
    /// # Errors
    /// There is no such thread, or it is in SCHED_DEADLINE.
    pub(crate) fn of(thread: i32) -> io::Result<Parameters> {
        let SchedAttr { policy, flags, nice, priority, .. } = sys::sched_getattr(thread)?;
        let policy = policy as i32;
        let Some((.., urgent)) = POLICIES.iter().find(|known| known.0 == policy) else {
            let message = format!("thread {thread} is in SCHED_DEADLINE or in an unknown class");
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        };
        let number = if *urgent { priority as i32 } else { nice };
        Ok(Parameters { policy, number, reset_on_fork: flags & libc::SCHED_FLAG_RESET_ON_FORK as u64 != 0 })
    }

    fn is_urgent(self) -> bool {
        POLICIES.iter().any(|(policy, _, urgent)| *policy == self.policy && *urgent)
    }

    /// Whether it is less urgent than a real-time class.
    pub(crate) fn is_below(self, other: Parameters) -> bool {
        !self.is_urgent() || self.number < other.number
    }

    fn attributes(self) -> SchedAttr {
        let flags = if self.reset_on_fork { libc::SCHED_FLAG_RESET_ON_FORK as u64 } else { 0 };
        let attributes = SchedAttr { policy: self.policy as u32, flags, ..SchedAttr::default() };
        match self.is_urgent() {
            true => SchedAttr { priority: self.number as u32, ..attributes },
            false => SchedAttr { nice: self.number, ..attributes },
        }
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = POLICIES.iter().find(|known| known.0 == self.policy).map_or("", |known| known.1);
        write!(f, "{name} {}{}", self.number, if self.reset_on_fork { RESET } else { "" })
    }
}

impl FromStr for Parameters {
    type Err = io::Error;
    fn from_str(text: &str) -> io::Result<Parameters> {
        let unknown = || io::Error::new(io::ErrorKind::InvalidInput, format!("`{text}` is no class of a thread"));
        let (rest, reset_on_fork) = text.strip_suffix(RESET).map_or((text, false), |rest| (rest, true));
        let (name, number) = rest.split_once(' ').ok_or_else(unknown)?;
        let policy = POLICIES.iter().find(|known| known.1 == name).ok_or_else(unknown)?.0;
        Ok(Parameters { policy, number: number.parse().map_err(|_| unknown())?, reset_on_fork })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{InvalidInput, NotFound};

    #[test]
    fn classes_are_read_as_they_were_written() {
        for text in ["SCHED_OTHER -5", "SCHED_BATCH 0", "SCHED_IDLE 3", "SCHED_FIFO 50", "SCHED_RR 1 reset-on-fork"] {
            assert_eq!(text.parse::<Parameters>().unwrap().to_string(), text);
        }
        for text in ["", "SCHED_FIFO", "SCHED_FIFO x", "SCHED_DEADLINE 0", "FIFO 1"] {
            assert_eq!(text.parse::<Parameters>().unwrap_err().kind(), InvalidInput, "{text}");
        }
        for (name, namespace) in [("class:7:99", namespace::FIRST), ("class:7:99:12", 12)] {
            assert_eq!(ClassOf::named(name), Some(ClassOf { thread: 7, start: 99, namespace }));
            assert_eq!(ClassOf::named(name).unwrap().to_string(), name);
        }
        assert!(ClassOf::named("/proc/7").is_none() && ClassOf::named("class:7").is_none());
    }

    /// The class of a thread is changed and restored, and a thread of another start time is another thread.
    #[test]
    fn a_thread_has_its_class_again() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let pid = child.id() as i32;
        let class = ClassOf::new(pid, start_time(pid).unwrap());
        let before = class.read().unwrap();
        class.write("SCHED_BATCH 7").unwrap();
        let changed = class.read();
        let back = class.write("SCHED_OTHER 7").and_then(|()| class.read());
        let other = ClassOf { start: class.start + 1, ..class };
        // It may live where this process does not see it.
        let elsewhere = ClassOf { namespace: class.namespace + 1, ..class };
        assert_eq!(elsewhere.read().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(elsewhere.write("SCHED_OTHER 0").unwrap_err().kind(), io::ErrorKind::Unsupported);
        let gone = (other.read().unwrap_err().kind(), other.write("SCHED_OTHER 0").unwrap_err().kind());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((before.split(' ').next(), changed.unwrap()), (Some("SCHED_OTHER"), "SCHED_BATCH 7".to_owned()));
        assert_eq!((back.unwrap(), gone), ("SCHED_OTHER 7".to_owned(), (NotFound, NotFound)));
        assert_eq!(class.read().unwrap_err().kind(), NotFound, "it has ended");
    }
}
