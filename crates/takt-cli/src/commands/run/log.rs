//! `--log json`: a line on standard error for each event of a run that an operator may have to act on.
//!
//! Lines are written by a thread of their own, because a terminal or a pipe that takes nothing must not hold up the supervisor.

use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::Duration;
use takt_core::time::{Span, Time};
use takt_exec::TaskEnd;
use takt_trace::live::{Event, EventKind};

/// The version of the lines. Keys that are only added do not change it.
const VERSION: u32 = 1;
/// At most so many lines of one kind in a second of the schedule.
pub(super) const LINES_MAX: u32 = 50;
/// Lines that wait for standard error.
const WAITING: usize = 1024;
const SECOND: Span = Span::from_secs(1);
/// The kinds, which have a limit each.
const KINDS: [&str; 5] = ["miss", "overrun", "exit", "overload_begin", "overload_end"];

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// JSON lines
    Json,
}

#[derive(Clone, Copy, Default)]
struct Limit {
    /// The second that is counted.
    second: i64,
    lines: u32,
    suppressed: u64,
}

/// The log of a run.
pub(super) struct Log {
    labels: Vec<String>,
    /// Per-job processes: only failures are logged.
    per_job: Vec<bool>,
    start_unix_ns: u64,
    limits: [Limit; KINDS.len()],
    lines: SyncSender<String>,
    written: Receiver<()>,
}

impl Log {
    /// A log of these tasks. `per_job` may have further elements, for tasks that are not there yet.
    ///
    /// # Errors
    /// Its thread cannot be started.
    pub(super) fn new(labels: Vec<String>, mut per_job: Vec<bool>, mut out: Box<dyn Write + Send>) -> io::Result<Log> {
        per_job.truncate(labels.len());
        let (lines, to_write) = sync_channel::<String>(WAITING);
        let (done, written) = channel();
        std::thread::Builder::new().name("takt-log".into()).spawn(move || {
            for line in to_write {
                if out.write_all(line.as_bytes()).is_err() {
                    break;
                }
            }
            let _ = done.send(());
        })?;
        Ok(Log { labels, per_job, start_unix_ns: 0, limits: [Limit::default(); KINDS.len()], lines, written })
    }

    /// A task is added.
    pub(super) fn add(&mut self, label: &str, per_job: bool) {
        self.labels.push(label.to_owned());
        self.per_job.push(per_job);
    }

    /// Time zero in nanoseconds since 1970.
    pub(super) fn begin(&mut self, start_unix_ns: u64) {
        self.start_unix_ns = start_unix_ns;
    }

    /// Logs an event, if it is one for the log.
    pub(super) fn event(&mut self, event: &Event) {
        let mut more = Map::new();
        match event.kind {
            EventKind::Miss(_) => _ = more.insert("cause".into(), event.kind.detail().into()),
            EventKind::OverloadEnd { length, misses } => {
                more.insert("length_ns".into(), length.ns().into());
                more.insert("misses".into(), misses.into());
            }
            EventKind::Overrun | EventKind::OverloadBegin => {}
            // The ends of processes say more.
            _ => return,
        }
        self.line(event.at, event.kind.name(), event.task.map(|task| task.index()), event.job, more);
    }

    /// Logs the end of a process.
    pub(super) fn exited(&mut self, at: Time, task: usize, end: TaskEnd) {
        if end == TaskEnd::Exited(0) && self.per_job.get(task) == Some(&true) {
            return;
        }
        let (key, number) = match end {
            TaskEnd::Exited(status) => ("status", status),
            TaskEnd::Signalled(signal) => ("signal", signal),
        };
        self.line(at, "exit", Some(task), None, Map::from_iter([(key.to_owned(), number.into())]));
    }

    /// The clock shows this instant: counts of lines that were suppressed in earlier seconds are written.
    pub(super) fn tick(&mut self, now: Time) {
        let second = (now - Time::ZERO).ns().div_euclid(SECOND.ns());
        for kind in 0..KINDS.len() {
            self.roll(kind, second, now);
        }
    }

    /// Writes the counts of suppressed lines, and waits for the lines to be written, but not for long.
    pub(super) fn finish(mut self, end: Time) {
        for kind in 0..KINDS.len() {
            self.roll(kind, i64::MAX, end);
        }
        let Log { lines, written, .. } = self;
        drop(lines);
        let _: Result<(), RecvTimeoutError> = written.recv_timeout(Duration::from_secs(1));
    }

    fn roll(&mut self, kind: usize, second: i64, now: Time) {
        let limit = self.limits[kind];
        if second <= limit.second {
            return;
        }
        let suppressed = limit.suppressed;
        let told = suppressed == 0 || {
            let more = [("kind".to_owned(), KINDS[kind].into()), ("count".to_owned(), suppressed.into())];
            self.send(now, "suppressed", None, None, Map::from_iter(more))
        };
        self.limits[kind] = Limit { second, lines: 0, suppressed: if told { 0 } else { suppressed } };
    }

    fn line(&mut self, at: Time, name: &str, task: Option<usize>, job: Option<u64>, more: Map<String, Value>) {
        let Some(kind) = KINDS.iter().position(|kind| *kind == name) else { return };
        self.roll(kind, (at - Time::ZERO).ns().div_euclid(SECOND.ns()), at);
        let within = self.limits[kind].lines < LINES_MAX && self.send(at, name, task, job, more);
        let limit = &mut self.limits[kind];
        if within {
            limit.lines += 1;
        } else {
            limit.suppressed += 1;
        }
    }

    /// Whether the line was taken.
    fn send(&self, at: Time, name: &str, task: Option<usize>, job: Option<u64>, more: Map<String, Value>) -> bool {
        let at = at.ns();
        let mut line = json!({
            "takt_log": VERSION, "unix_ns": self.start_unix_ns.saturating_add_signed(at), "at_ns": at, "event": name,
        });
        if let Value::Object(line) = &mut line {
            line.extend(task.and_then(|task| Some(("task".to_owned(), self.labels.get(task)?.as_str().into()))));
            line.extend(job.map(|job| ("job".to_owned(), job.into())));
            line.extend(more);
        }
        self.lines.try_send(format!("{line}\n")).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use takt_core::model::TaskId;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Shared {
        fn lines(&self) -> Vec<Value> {
            let bytes = self.0.lock().unwrap();
            bytes.split_inclusive(|b| *b == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect()
        }
    }

    fn miss(ms: i64) -> Event {
        let at = Time::ZERO + Span::from_ms(ms);
        Event { at, task: Some(TaskId(0)), job: Some(7), kind: EventKind::Miss(None) }
    }

    #[test]
    fn lines_beyond_the_limit_are_counted_by_kind_and_second() {
        let out = Shared::default();
        let mut log = Log::new(vec!["a\n\"\u{1b}".into(), "b".into()], vec![false, true], Box::new(out.clone()))
            .expect("a thread");
        log.begin(5);
        for ms in 0..200 {
            log.event(&miss(ms));
        }
        log.exited(Time::ZERO, 0, TaskEnd::Signalled(9));
        log.exited(Time::ZERO, 1, TaskEnd::Exited(0));
        log.event(&miss(1500));
        log.tick(Time::ZERO + Span::from_ms(1900));
        for ms in 2000..2060 {
            log.event(&miss(ms));
        }
        log.finish(Time::ZERO + Span::from_ms(2100));
        let lines = out.lines();
        let of = |event: &str| lines.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
        assert_eq!(of("miss").len(), 101);
        assert_eq!(of("exit").len(), 1);
        let counts: Vec<&Value> = of("suppressed").iter().map(|line| &line["count"]).collect();
        assert_eq!(counts, [150, 10]);
        let first = json!({"takt_log": 1, "unix_ns": 5, "at_ns": 0, "event": "miss", "task": "a\n\"\u{1b}", "job": 7, "cause": "late"});
        assert_eq!(lines[0], first);
        assert!(out.0.lock().unwrap().iter().all(|byte| *byte >= b' ' || *byte == b'\n'));
    }

    /// Free places for further tasks are none of the log's.
    #[test]
    fn the_regular_end_of_a_process_of_an_added_task_is_no_event() {
        let out = Shared::default();
        let mut log = Log::new(vec!["a".into()], vec![false; 5], Box::new(out.clone())).expect("a thread");
        log.add("b", true);
        log.exited(Time::ZERO, 1, TaskEnd::Exited(0));
        log.exited(Time::ZERO, 1, TaskEnd::Exited(3));
        log.finish(Time::ZERO);
        let lines = out.lines();
        assert!(lines.len() == 1 && lines[0]["status"] == 3 && lines[0]["task"] == "b", "{lines:?}");
    }

    /// A writer that takes nothing until it is released.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_delays_no_event() {
        let (_held, stuck) = channel();
        let mut log = Log::new(vec!["a".into()], vec![false], Box::new(Stuck(stuck))).expect("a thread");
        let began = std::time::Instant::now();
        for ms in 0..100_000 {
            log.event(&miss(100 * ms));
        }
        assert!(log.limits[0].suppressed > 90_000);
        log.finish(Time::ZERO);
        assert!(began.elapsed() < Duration::from_secs(8));
    }
}
