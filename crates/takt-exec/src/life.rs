//! The life cycle of a task's process, on each side of the ring, and what the two threads say to each other.
//!
//! `docs/protocol.md` has the states and messages as a table. The scheduler knows what the process is *at* ([`Program`]); the
//! supervisor knows whether it *lives* ([`Life`]). A process of a task has a number, its *incarnation*, which counts up with each
//! replacement. Every message names the incarnation that it is about, so that one about a process that is gone is recognised.
//!
//! The first signal classifies a process that declares nothing: activations before it belong to its first job. Activations keep their
//! numbers in traces, and a job has the number of its first activation.

#[cfg(doc)]
use crate::actuator::Actuator;
use crate::change::Change;
use takt_core::model::TaskId;
use takt_core::record::JobId;
use takt_core::time::Time;

/// Number of a process within its task, from zero.
pub(crate) type Incarnation = u32;

/// The work of a task's process, as the scheduler knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    /// It was born frozen and has not run.
    New,
    /// It has signalled and waits for its next job.
    Waiting,
    /// It is at the work of this job.
    At {
        job: JobId,
        /// It has received the signal that its job was aborted (`on_abort: signal`).
        notified: bool,
    },
    /// It runs as an ordinary process, outside of its real-time segments.
    Outside {
        /// The segment that was aborted, until the program ends it.
        job: Option<JobId>,
    },
    /// It has ended, or is to be replaced: until the next one is ready, the task's jobs are blocked.
    Absent {
        /// The engine knows, and blocks the task's jobs.
        held: bool,
        /// The supervisor has been asked for the next one. From then on the group is the supervisor's.
        asked: bool,
    },
    /// It has ended, and no other follows.
    Gone,
}

/// The way to let a process continue that has signalled: an `R` of the machine below ([`Actuator::Resume`]).
#[derive(Debug)]
pub(crate) enum Resume<R> {
    /// It has not signalled yet, so nothing has been fetched.
    Unknown,
    /// Its descriptor has been asked for.
    Asked {
        /// It should have continued before its descriptor was here.
        again: bool,
    },
    Here(R),
}

/// The process of a task, as the supervisor knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// It initialises, until its first signal.
    Initialising,
    /// It, or a process that it left behind, lives.
    Alive,
    /// It is being killed, and another one is started when the group is empty.
    Dying,
    /// It has ended, as the scheduler knows, which may ask for another one.
    Ended,
    /// It has ended, and no other follows.
    Gone,
}

/// From the supervisor to the scheduler.
#[derive(Debug)]
pub(crate) enum Message<R> {
    /// The task's process has ended by itself.
    Exit { task: TaskId, incarnation: Incarnation, regular: bool, replaced: bool },
    /// A process that is one job has ended by itself.
    JobDone { task: TaskId, incarnation: Incarnation, regular: bool },
    /// The next process waits in its frozen group: before its first instruction, or, with a descriptor, initialised.
    Ready { task: TaskId, incarnation: Incarnation, resume: Option<R> },
    /// A copy of the descriptor that lets the process continue after a completion.
    Resume { task: TaskId, incarnation: Incarnation, resume: R },
    /// Whether the process has several threads or processes. Without `several` it has run, and may be dispatched by priority.
    Threads { task: TaskId, incarnation: Incarnation, several: bool },
    /// A sample of a thermal zone; without a valid value it has none.
    Temperature { zone: u16, millidegrees: Option<i32> },
    /// Inputs from outside, for one step.
    Change { change: Box<Change> },
    /// End the run.
    Stop,
}

/// From the scheduler to the supervisor, about the present incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// The descriptor that lets the process continue is needed.
    Resume = 1,
    /// Another process is needed. If this one lives, it is killed first.
    Next = 2,
    /// A replacement has signalled the end of its initialisation.
    Initialised = 4,
}

impl Request {
    /// All of them.
    pub(crate) const ALL: [Request; 3] = [Request::Resume, Request::Next, Request::Initialised];
}

/// The key of an epoll registration of a completion descriptor.
pub(crate) fn completion_data(task: TaskId, incarnation: Incarnation) -> u64 {
    // The largest numbers are those of the other registrations; no run replaces a process that often.
    u64::from(incarnation) << 32 | u64::from(task.0)
}

/// The task and the incarnation of a completion.
pub(crate) fn completion_of(data: u64) -> (TaskId, Incarnation) {
    (TaskId(data as u32), (data >> 32) as Incarnation)
}

/// The data of the epoll registration of the records of blocks and wake-ups.
pub(crate) const WAITS: u64 = u64::MAX - 2;

/// The incarnation that stands for the source of a task's events. No run replaces a process that often.
pub(crate) const SOURCE: Incarnation = Incarnation::MAX;

/// Whether the process of a task waits without being frozen.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// It is at a job, or frozen.
    #[default]
    No,
    /// It has requested its next job at this instant.
    Since(Time),
    /// It slept when the kernel was asked last.
    Asleep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_known_again() {
        assert_eq!(completion_of(completion_data(TaskId(7), 9)), (TaskId(7), 9));
    }

    /// The variants of an enum of this file as rustfmt writes them, each with the names of its fields.
    fn variants(name: &str) -> Vec<(String, Vec<String>)> {
        let after = |head: String| include_str!("life.rs").split_once(&head).map(|(_, body)| body);
        let body = after(format!("enum {name} {{\n")).or_else(|| after(format!("enum {name}<R> {{\n")));
        let body = body.expect("an enum of this file");
        let body = body.split("\n}").next().expect("a body");
        let mut variants = Vec::<(String, Vec<String>)>::new();
        for line in body.lines().filter(|line| !line.trim().starts_with("//")) {
            let code = line.trim_start();
            if line.len() - code.len() == 4 && code.starts_with(char::is_uppercase) {
                let name = code.chars().take_while(|c| c.is_alphanumeric()).collect();
                variants.push((name, Vec::new()));
            }
            let fields = code.split(": ").map(|before| before.rsplit([' ', '{']).next().unwrap_or_default().to_owned());
            let last = code.matches(": ").count();
            variants.last_mut().expect("a variant comes first").1.extend(fields.take(last));
        }
        variants
    }

    /// The rows of the table below a heading of docs/protocol.md: the first cell's word, and the words in backticks of the row.
    fn rows(page: &str, heading: &str) -> Vec<(String, Vec<String>)> {
        let section = page.split("\n### ").find(|section| section.lines().next() == Some(heading));
        let section = section.unwrap_or_else(|| panic!("no `### {heading}`")).split("\n## ").next().expect("a part");
        let words = |line: &str| line.split('`').skip(1).step_by(2).map(String::from).collect::<Vec<_>>();
        let rows = section.lines().filter(|line| line.starts_with("| `")).map(words);
        rows.map(|words| (words[0].clone(), words)).collect()
    }

    #[test]
    fn the_page_has_exactly_the_states_and_messages_of_the_code() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
        let page = std::fs::read_to_string(page).expect("docs/protocol.md");
        assert_eq!(variants("Life").len(), 5, "{:?}", variants("Life"));
        assert_eq!(variants("Program")[2], ("At".into(), vec!["job".into(), "notified".into()]));
        for name in ["Program", "Resume", "Life", "Message", "Request"] {
            let (code, page) = (variants(name), rows(&page, name));
            let names = |all: &[(String, Vec<String>)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            assert_eq!(names(&page), names(&code), "the rows of `### {name}` are the variants, in their order");
            for ((variant, fields), (_, words)) in code.iter().zip(&page) {
                for field in fields {
                    assert!(words.contains(field), "`### {name}`: the row of {variant} does not name `{field}`");
                }
            }
        }
        assert!(page.contains(&format!("`{}`", takt_linux::protocol::VARIABLE)));
    }
}
