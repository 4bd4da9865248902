//! Perfetto's trace format, written by hand: a stream of `TracePacket` messages.
//!
//! The viewer shows:
//! * CPU tracks with who runs, from *generic kernel task state events*. A task on several CPUs at once is shown there
//!   as several threads ("lanes"), since a thread can only be on one; the first keeps the task's own number.
//! * One track per task, grouped by partition as threads of a process: a slice per job from its release (or, if it had
//!   to wait for its predecessor, from its first start) to its end, slices inside it while it runs, and instants.
//! * The handler of an aborted job is a slice of its own after the job's, with the job's number.
//! * A `windows` track.
//! * Counter tracks of frequency domains and thermal zones, where a power policy manages them.
//! * Counter tracks of regulators: the duration and set point of each CPU's rounds, and of each task's bursts.
//!
//! Timestamps are those of carrying out, in order. Field numbers are those of Perfetto's `trace_packet.proto`,
//! `track_event.proto`, `track_descriptor.proto`, `interned_data.proto` and `generic_task.proto`.

mod wire;

use crate::out::Out;
use crate::timeline::{Asked, Policies, Switch};
use crate::{Change, Footer, Header, Measured, Stamped, TaskLabel, Writer, names};
use std::collections::{HashSet, VecDeque};
use std::io;
use takt_core::cpus::MAX_CPUS;
use takt_core::model::Completion;
use takt_core::record::{JobId, Outcome, Place, RecordKind, StopReason};
use takt_core::time::{Span, Time};
use wire::{
    COUNTER, Encode, INSTANT, NEEDS_STATE, Open, RUNNABLE, RUNNING, SEQUENCE, SLEEPING, SLICE_BEGIN, SLICE_END,
    STATE_CLEARED, STOPPED, UNIT_TIME_NS, event, key,
};

/// The value of an annotation.
#[derive(Clone, Copy)]
enum Note {
    Int(i64),
    Bool(bool),
    Word(&'static str),
    /// An interned CPU set.
    Cpus(Place),
}

struct TaskState {
    name: String,
    /// Where it runs, with the job.
    running: Option<(JobId, Place)>,
    /// A slice of a job is open on its track, and inside it possibly one of running.
    job_open: Option<JobId>,
    running_open: bool,
    /// Released jobs that are not over, with their deadlines. As long as the engine's own backlog.
    jobs: VecDeque<(JobId, Option<Time>)>,
    /// Lanes that have a track.
    lanes: u64,
    /// Its bursts have tracks.
    bursts: bool,
    /// The deadline of the handler that it is at.
    handler: Option<Time>,
    /// It is known to signal its completions.
    signals: bool,
}

impl TaskState {
    fn new(name: String, label: &TaskLabel) -> TaskState {
        TaskState {
            name,
            signals: label.completion == Some(Completion::Signal),
            running: None,
            job_open: None,
            running_open: false,
            jobs: VecDeque::new(),
            lanes: 1,
            bursts: false,
            handler: None,
        }
    }
}

/// Where the numbers of tracks and names of added tasks begin, above those of all others.
const ADDED: u64 = 1 << 40;
/// The numbers of an added task: its lanes, and a pair of counters.
const STRIDE: u64 = MAX_CPUS as u64 + 3;

/// The kinds of counters about power.
#[derive(Clone, Copy)]
enum PowerCounter {
    Frequency,
    Temperature,
    IdleLatency,
    Meter,
}

/// The begin of each file, after the length of its first packet: the sequence, its cleared state, and the interned data.
pub(crate) const HEAD: &[u8] = b"\x50\x01\x68\x01\xb8\x05\x01\x62";

/// Title of the instant that names the source and the workload.
pub(crate) const ABOUT: &str = "about this trace";
/// So many bytes follow the title until both names have ended, without the names.
pub(crate) const NAMES_MAX: usize = 40;

/// The contents of the first packet. Another file is returned as it is.
pub(crate) fn without_length(start: &[u8]) -> &[u8] {
    let Some((0x0a, rest)) = start.split_first() else { return start };
    let length = rest.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    rest.get(length..).unwrap_or_default()
}

pub(crate) struct Perfetto {
    out: Out,
    tasks: Vec<TaskState>,
    /// How many tasks the header has. The others were added later.
    known: usize,
    /// The groups of tasks, in the order of their processes.
    groups: Vec<String>,
    /// The CPUs of each place.
    cpus: Vec<Vec<u32>>,
    /// The name of the counters of rounds, and whether they have tracks.
    rounds: Vec<(String, bool)>,
    /// The process (pid) of each task.
    process: Vec<u64>,
    processes: u64,
    windows: u64,
    window_open: bool,
    policies: Policies,
    /// Titles of the counters of frequency domains and of thermal zones, and the partitions.
    titles: Header,
    /// The tracks of these counters that have been declared.
    counters: HashSet<u64>,
    last: u64,
}

impl Perfetto {
    pub(crate) fn new(header: &Header, out: Box<dyn io::Write + Send>) -> io::Result<Perfetto> {
        let mut groups: Vec<&str> = Vec::new();
        let fallback = if header.workload.is_empty() { "tasks" } else { header.workload.as_str() };
        let process = header.tasks.iter().map(|task| {
            let group = task.partition.as_deref().unwrap_or(fallback);
            let known = groups.iter().position(|g| *g == group);
            known.unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            }) as u64
                + 1
        });
        let process: Vec<u64> = process.collect();
        let state = |(name, label): (String, &TaskLabel)| TaskState::new(name, label);
        let mut p = Perfetto {
            out: Out::new(out),
            known: header.tasks.len(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            tasks: header.labels().into_iter().zip(&header.tasks).map(state).collect(),
            cpus: (header.places.iter())
                .map(|p| p.difference(&header.kernel_cpus).iter().map(|c| c as u32).collect())
                .collect(),
            rounds: header.places.iter().map(|p| (names::cpus_title(p), false)).collect(),
            process,
            processes: groups.len() as u64,
            windows: header.window_lengths.len() as u64,
            window_open: false,
            policies: Policies::of(header),
            titles: Header {
                frequency_domains: header.frequency_domains.clone(),
                zones: header.zones.clone(),
                meters: header.meters.clone(),
                partitions: header.partitions.clone(),
                ..Header::default()
            },
            counters: HashSet::new(),
            last: 0,
        };
        p.preamble(header);
        for (i, group) in groups.iter().enumerate() {
            let (packet, track) = p.open_track(p.process_track(i as u64));
            let b = &mut p.out.buffer;
            let process = b.open(3);
            b.number(1, i as u64 + 1);
            b.bytes(6, group.as_bytes());
            b.close(process);
            b.close(track);
            b.close(packet);
        }
        for task in 0..p.tasks.len() {
            p.describe_lane(task, 0);
            p.out.spill()?;
        }
        for (uuid, name) in [(p.windows_track(), "windows"), (p.about_track(), "takt")] {
            let (packet, track) = p.open_track(uuid);
            p.out.buffer.bytes(2, name.as_bytes());
            p.out.buffer.close(track);
            p.out.buffer.close(packet);
        }
        p.about(header);
        p.out.spill()?;
        Ok(p)
    }

    // Track uuids: tasks first because theirs are the ones that are written all the time.
    fn task_track(&self, task: usize) -> u64 {
        self.added(task).map_or(task as u64 + 1, |index| ADDED + STRIDE * index)
    }
    fn windows_track(&self) -> u64 {
        self.known as u64 + 1
    }
    fn about_track(&self) -> u64 {
        self.known as u64 + 2
    }
    fn process_track(&self, process: u64) -> u64 {
        self.known as u64 + 3 + process
    }
    fn lane_track(&self, task: usize, lane: u64) -> u64 {
        match lane {
            0 => self.task_track(task),
            _ if self.added(task).is_some() => self.task_track(task) + lane,
            _ => self.process_track(self.processes) + (lane - 1) * self.known as u64 + task as u64,
        }
    }
    /// Tracks of counters come in pairs: what was measured, and what it should have been. They lie above all lanes.
    fn burst_track(&self, task: usize) -> u64 {
        match self.added(task) {
            Some(_) => self.task_track(task) + MAX_CPUS as u64 + 1,
            None => self.first_counter() + 2 * task as u64,
        }
    }
    fn first_counter(&self) -> u64 {
        self.process_track(self.processes) + (MAX_CPUS * self.known) as u64
    }
    fn round_track(&self, place: Place) -> u64 {
        self.first_counter() + 2 * self.known as u64 + 2 * u64::from(place.0)
    }
    /// Tracks of frequency domains, thermal zones and idle latencies lie above those.
    fn power_track(&self, kind: PowerCounter, index: u16) -> u64 {
        self.round_track(Place(u16::MAX)) + 2 + ((kind as u64) << 16) + u64::from(index)
    }
    /// Thread numbers lie above the processes', because a process's number is also that of its first thread.
    fn tid(&self, task: usize, lane: u64) -> u64 {
        let known = self.known as u64;
        match self.added(task) {
            None => self.processes + 1 + lane * known + task as u64,
            Some(index) => self.processes + 1 + (MAX_CPUS as u64 + 1) * (known + index) + lane,
        }
    }
    /// The index of a task among the tasks that the header lacks.
    fn added(&self, task: usize) -> Option<u64> {
        task.checked_sub(self.known).map(|index| index as u64)
    }
    fn task_name(&self, task: usize) -> u64 {
        self.added(task).map_or(event::FIRST_FREE + task as u64, |index| ADDED + index)
    }
    fn first_place_name(&self) -> u64 {
        event::FIRST_FREE + self.known as u64
    }
    fn place_name(&self, place: Place) -> u64 {
        self.first_place_name() + u64::from(place.0)
    }
    fn window_name(&self, window: u64) -> u64 {
        self.first_place_name() + self.cpus.len() as u64 + window.min(self.windows)
    }

    /// The first packet resets the sequence's state and introduces all interned strings.
    fn preamble(&mut self, header: &Header) {
        let task_names: Vec<(u64, String)> =
            (0..self.tasks.len()).map(|t| (self.task_name(t), self.tasks[t].name.clone())).collect();
        let place_names: Vec<(u64, String)> = header
            .places
            .iter()
            .zip(0..)
            .map(|(set, p)| (self.place_name(Place(p)), header.place_title(set)))
            .collect();
        // One more than there are, for a window that the header does not know.
        let window_names: Vec<(u64, String)> = (0..=self.windows)
            .map(|w| (self.window_name(w), if w < self.windows { format!("window {w}") } else { "window".into() }))
            .collect();
        let b = &mut self.out.buffer;
        let packet = b.open(1);
        b.number(10, SEQUENCE);
        b.number(13, STATE_CLEARED);
        b.number(87, 1);
        let interned = b.open(12);
        let mut intern = |field: u32, iid: u64, name: &str| {
            let entry = b.open(field);
            b.number(1, iid);
            b.bytes(2, name.as_bytes());
            b.close(entry);
        };
        event::ALL.iter().for_each(|(iid, name)| intern(2, *iid, name));
        for (iid, name) in task_names.iter().chain(&place_names).chain(&window_names) {
            intern(2, *iid, name);
        }
        key::ALL.iter().for_each(|(iid, name)| intern(3, *iid, name));
        for (set, iid) in header.places.iter().zip(1..) {
            intern(29, iid, &set.to_string());
        }
        b.close(interned);
        b.close(packet);
        if let Some(unix) = header.start_unix_ns {
            // The viewer's default clock is BOOTTIME (6), which here starts at zero; REALTIME is 1, MONOTONIC 3.
            let clocks = [(6, Some(0)), (1, Some(unix)), (3, header.start_monotonic_ns)];
            let packet = b.open(1);
            b.number(10, SEQUENCE);
            let snapshot = b.open(6);
            for (clock, now) in clocks {
                if let Some(now) = now {
                    let entry = b.open(1);
                    b.number(1, clock);
                    b.number(2, now);
                    b.close(entry);
                }
            }
            b.close(snapshot);
            b.close(packet);
        }
    }

    /// The header, as an instant at time zero.
    fn about(&mut self, header: &Header) {
        let seed = header.seed.to_string();
        let about = [
            ("source", &*header.source),
            ("workload", &header.workload),
            ("policy", &header.policy),
            ("settings", &header.settings),
            ("scope", &header.scope),
            ("seed", &seed),
        ];
        let said = about.into_iter().filter(|(name, value)| *name != "settings" || !value.is_empty());
        self.tell(ABOUT, said);
    }

    /// Another policy takes over, as an instant beside what the header says.
    fn switched(&mut self, switch: &Switch) {
        let domain = switch.domain.as_deref().map(|name| ("domain", name));
        let policies = [("from", &*switch.from), ("to", &*switch.to)];
        self.tell(&format!("switch {switch}"), domain.into_iter().chain(policies));
    }

    /// An instant about the whole trace, with its notes.
    fn tell<'n>(&mut self, title: &str, notes: impl Iterator<Item = (&'n str, &'n str)>) {
        self.tell_on(self.about_track(), title, notes);
    }

    /// An instant on a track, with its notes.
    fn tell_on<'n>(&mut self, track: u64, title: &str, notes: impl Iterator<Item = (&'n str, &'n str)>) {
        let (packet, event) = self.open_event(INSTANT, track);
        let b = &mut self.out.buffer;
        b.bytes(23, title.as_bytes());
        for (name, value) in notes {
            let note = b.open(4);
            b.bytes(10, name.as_bytes());
            b.bytes(6, value.as_bytes());
            b.close(note);
        }
        b.close(event);
        b.close(packet);
    }

    /// A job asks for other terms, as an instant that says for which.
    fn asked(&mut self, asked: &Asked) {
        let (packet, event) = self.open_event(INSTANT, self.task_track(asked.task.index()));
        let b = &mut self.out.buffer;
        b.bytes(23, asked.to_string().as_bytes());
        let note = b.open(4);
        b.bytes(10, b"job");
        b.number(4, asked.job);
        b.close(note);
        b.close(event);
        b.close(packet);
    }

    fn open_track(&mut self, uuid: u64) -> (Open, Open) {
        let b = &mut self.out.buffer;
        let packet = b.open(1);
        b.number(10, SEQUENCE);
        b.number(13, NEEDS_STATE);
        let track = b.open(60);
        b.number(1, uuid);
        (packet, track)
    }

    fn describe_lane(&mut self, task: usize, lane: u64) {
        let (tid, process) = (self.tid(task, lane), self.process[task]);
        let (packet, track) = self.open_track(self.lane_track(task, lane));
        let b = &mut self.out.buffer;
        let thread = b.open(4);
        b.number(1, process);
        b.number(2, tid);
        b.bytes(5, self.tasks[task].name.as_bytes());
        b.close(thread);
        b.close(track);
        b.close(packet);
    }

    /// Declares a pair of counters; `parent` is the track that they belong to.
    fn describe_counters(&mut self, first: u64, names: [String; 2], parent: Option<u64>) {
        for (uuid, name) in (first..).zip(names) {
            let (packet, track) = self.open_track(uuid);
            let b = &mut self.out.buffer;
            b.bytes(2, name.as_bytes());
            if let Some(parent) = parent {
                b.number(5, parent);
            }
            let counter = b.open(8);
            b.number(3, UNIT_TIME_NS);
            b.close(counter);
            b.close(track);
            b.close(packet);
        }
    }

    /// Values of a pair of counters.
    fn count(&mut self, first: u64, values: [Span; 2]) {
        for (track, value) in (first..).zip(values) {
            let (packet, event) = self.open_event(COUNTER, track);
            let b = &mut self.out.buffer;
            b.number(30, value.ns() as u64);
            b.close(event);
            b.close(packet);
        }
    }

    /// The unit of a meter.
    fn meter_unit(&self, meter: u16) -> &'static str {
        self.titles.meters.get(usize::from(meter)).map_or("", |label| label.quantity.unit())
    }

    /// A value of a frequency domain, a thermal zone or the idle latency of a CPU.
    fn power(&mut self, kind: PowerCounter, index: u16, value: i64) {
        let track = self.power_track(kind, index);
        if self.counters.insert(track) {
            let (name, unit) = match kind {
                PowerCounter::Frequency => (format!("{} frequency", self.titles.frequency_domain(index)), "kHz"),
                PowerCounter::Temperature => (format!("{} temperature", self.titles.zone(index)), "m°C"),
                PowerCounter::Meter => (self.titles.meter(index), self.meter_unit(index)),
                PowerCounter::IdleLatency => {
                    let cpus = &self.rounds[usize::from(index)].0;
                    (format!("{cpus} idle latency limit, -1 for none"), "us")
                }
            };
            let (packet, description) = self.open_track(track);
            let b = &mut self.out.buffer;
            b.bytes(2, name.as_bytes());
            let counter = b.open(8);
            b.bytes(6, unit.as_bytes());
            b.close(counter);
            b.close(description);
            b.close(packet);
        }
        let (packet, event) = self.open_event(COUNTER, track);
        let b = &mut self.out.buffer;
        // Protobuf writes a negative int64 as its two's complement.
        b.number(30, value as u64);
        b.close(event);
        b.close(packet);
    }

    fn round(&mut self, place: Place, measured: Span, set_point: Span) {
        let track = self.round_track(place);
        if !std::mem::replace(&mut self.rounds[place.index()].1, true) {
            let cpus = &self.rounds[place.index()].0;
            let names = [format!("{cpus} round"), format!("{cpus} round set point")];
            self.describe_counters(track, names, None);
        }
        self.count(track, [measured, set_point]);
    }

    fn burst(&mut self, task: usize, measured: Span, set_point: Span) {
        let track = self.burst_track(task);
        if !std::mem::replace(&mut self.tasks[task].bursts, true) {
            let name = &self.tasks[task].name;
            let names = [format!("{name} burst"), format!("{name} burst set point")];
            self.describe_counters(track, names, Some(self.task_track(task)));
        }
        self.count(track, [measured, set_point]);
    }

    fn begin_handler(&mut self, task: usize, job: JobId, deadline: Option<Time>) {
        self.end_job(task, &[]);
        if self.tasks[task].running.is_none() {
            self.task_state(task, 0, None, RUNNABLE);
        }
        self.begin_slice(task, event::HANDLER, job, deadline);
        self.tasks[task].handler = deadline;
    }

    fn end_handler(&mut self, at: Time, task: usize, job: JobId, consumed: i64) {
        let late = self.tasks[task].handler.take().filter(|d| at > *d);
        if self.tasks[task].job_open == Some(job) {
            let lateness = late.map_or(0, |d| (at - d).ns());
            let notes = [(key::CONSUMED, Note::Int(consumed)), (key::LATENESS, Note::Int(lateness))];
            self.end_job(task, if late.is_some() { &notes } else { &notes[..1] });
        }
    }

    #[inline]
    fn open_event(&mut self, kind: u64, track: u64) -> (Open, Open) {
        let b = &mut self.out.buffer;
        let packet = b.open(1);
        b.number(8, self.last);
        b.number(10, SEQUENCE);
        b.number(13, NEEDS_STATE);
        let event = b.open(11);
        b.number(9, kind);
        b.number(11, track);
        (packet, event)
    }

    #[inline]
    fn event(&mut self, kind: u64, track: u64, name: Option<u64>, notes: &[(u64, Note)]) {
        let (packet, event) = self.open_event(kind, track);
        let b = &mut self.out.buffer;
        if let Some(name) = name {
            b.number(10, name);
        }
        for (key, value) in notes {
            let note = b.open(4);
            b.number(1, *key);
            match *value {
                // Protobuf writes a negative int64 as its two's complement.
                Note::Int(value) => b.number(4, value as u64),
                Note::Bool(value) => b.number(2, value.into()),
                Note::Word(word) => b.bytes(6, word.as_bytes()),
                Note::Cpus(place) => b.number(17, u64::from(place.0) + 1),
            }
            b.close(note);
        }
        b.close(event);
        b.close(packet);
    }

    fn instant(&mut self, task: usize, name: u64, notes: &[(u64, Note)]) {
        self.event(INSTANT, self.task_track(task), Some(name), notes);
    }

    #[inline]
    fn task_state(&mut self, task: usize, lane: u64, cpu: Option<u32>, state: u64) {
        let tid = self.tid(task, lane);
        let b = &mut self.out.buffer;
        let packet = b.open(1);
        b.number(8, self.last);
        b.number(10, SEQUENCE);
        b.number(13, NEEDS_STATE);
        let event = b.open(117);
        if let Some(cpu) = cpu {
            b.number(1, cpu.into());
        }
        b.bytes(2, self.tasks[task].name.as_bytes());
        b.number(3, tid);
        b.number(4, state);
        b.close(event);
        b.close(packet);
    }

    fn start(&mut self, task: usize, job: JobId, place: Place) {
        // Only after lost records: a second RUNNING state of a running thread would be an error.
        self.stop(task, StopReason::Migrated);
        let lanes = self.cpus[place.index()].len() as u64;
        while self.tasks[task].lanes < lanes {
            self.describe_lane(task, self.tasks[task].lanes);
            self.tasks[task].lanes += 1;
        }
        for lane in 0..lanes {
            let cpu = self.cpus[place.index()][lane as usize];
            self.task_state(task, lane, Some(cpu), RUNNING);
        }
        if self.tasks[task].job_open != Some(job) {
            self.end_job(task, &[]);
            let deadline = self.tasks[task].jobs.iter().find(|(j, _)| *j == job).and_then(|(_, d)| *d);
            self.begin_job(task, job, deadline);
        }
        let track = self.task_track(task);
        self.event(SLICE_BEGIN, track, Some(self.place_name(place)), &[(key::CPUS, Note::Cpus(place))]);
        let state = &mut self.tasks[task];
        state.running = Some((job, place));
        state.running_open = true;
    }

    fn stop(&mut self, task: usize, reason: StopReason) {
        let Some((job, place)) = self.tasks[task].running.take() else { return };
        self.end_running(task, &[(key::REASON, Note::Word(names::reason(reason)))]);
        let more = self.tasks[task].jobs.iter().any(|(j, _)| *j != job);
        let state = match reason {
            StopReason::Preempted | StopReason::Migrated => RUNNABLE,
            StopReason::Suspended => STOPPED,
            StopReason::Finished if more => RUNNABLE,
            StopReason::Finished | StopReason::Blocked => SLEEPING,
        };
        for lane in 0..self.cpus[place.index()].len() {
            // The further lanes exist only while the task runs on several CPUs.
            let state = if lane == 0 { state } else { SLEEPING };
            let cpu = self.cpus[place.index()][lane];
            self.task_state(task, lane as u64, Some(cpu), state);
        }
    }

    fn begin_job(&mut self, task: usize, job: JobId, deadline: Option<Time>) {
        self.begin_slice(task, self.task_name(task), job, deadline);
    }

    fn begin_slice(&mut self, task: usize, name: u64, job: JobId, deadline: Option<Time>) {
        let notes = [(key::JOB, Note::Int(job as i64)), (key::DEADLINE, Note::Int(deadline.map_or(0, Time::ns)))];
        let notes = if deadline.is_some() { &notes[..] } else { &notes[..1] };
        let track = self.task_track(task);
        self.event(SLICE_BEGIN, track, Some(name), notes);
        self.tasks[task].job_open = Some(job);
    }

    fn end_running(&mut self, task: usize, notes: &[(u64, Note)]) {
        if std::mem::take(&mut self.tasks[task].running_open) {
            self.event(SLICE_END, self.task_track(task), None, notes);
        }
    }

    fn end_job(&mut self, task: usize, notes: &[(u64, Note)]) {
        if self.tasks[task].job_open.is_some() {
            self.end_running(task, &[]);
            self.tasks[task].job_open = None;
            self.event(SLICE_END, self.task_track(task), None, notes);
        }
    }

    fn finished(&mut self, at: Time, task: usize, job: JobId, outcome: Outcome, consumed: i64) {
        let jobs = &mut self.tasks[task].jobs;
        // A job that ends is the oldest, unless it was skipped; then it is the newest.
        let index = match outcome {
            Outcome::Skipped => jobs.iter().rposition(|(j, _)| *j == job),
            _ => jobs.iter().position(|(j, _)| *j == job),
        };
        let deadline = index.and_then(|i| jobs.remove(i)).and_then(|(_, deadline)| deadline);
        let this = (key::JOB, Note::Int(job as i64));
        match outcome {
            Outcome::Skipped => self.instant(task, event::SKIPPED, &[this]),
            Outcome::Overrun => self.instant(task, event::OVERRUN, &[this]),
            Outcome::Aborted => self.instant(task, event::ABORTED, &[this]),
            Outcome::Completed => self.tasks[task].signals = true,
            Outcome::BudgetUsed if self.tasks[task].signals => self.instant(task, event::CUT_OFF, &[this]),
            Outcome::BudgetUsed | Outcome::Exited => {}
        }
        if let Some(deadline) = deadline.filter(|d| at > *d && outcome != Outcome::Skipped) {
            let lateness = (key::LATENESS, Note::Int((at - deadline).ns()));
            self.instant(task, event::MISS, &[this, (key::DEADLINE, Note::Int(deadline.ns())), lateness]);
        }
        if self.tasks[task].job_open == Some(job) {
            let outcome = (key::OUTCOME, Note::Word(names::outcome(outcome)));
            self.end_job(task, &[outcome, (key::CONSUMED, Note::Int(consumed))]);
        }
    }
}

impl Writer for Perfetto {
    fn record(&mut self, r: &Stamped) -> io::Result<()> {
        // Never backwards within the sequence, whatever order a driver stamps in.
        self.last = self.last.max(r.applied.ns().max(0) as u64);
        let job_note = |job: JobId| (key::JOB, Note::Int(job as i64));
        match r.record.kind {
            RecordKind::Window { window, frame } => {
                let track = self.windows_track();
                if std::mem::replace(&mut self.window_open, true) {
                    self.event(SLICE_END, track, None, &[]);
                }
                let notes = [(key::WINDOW, Note::Int(window.into())), (key::FRAME, Note::Int(frame as i64))];
                self.event(SLICE_BEGIN, track, Some(self.window_name(window.into())), &notes);
            }
            RecordKind::WindowsLost { count } => {
                let notes = [(key::COUNT, Note::Int(count as i64))];
                self.event(INSTANT, self.windows_track(), Some(event::WINDOWS_LOST), &notes);
            }
            RecordKind::Release { task, job, deadline } => {
                let task = task.index();
                let busy = !self.tasks[task].jobs.is_empty() || self.tasks[task].job_open.is_some();
                self.tasks[task].jobs.push_back((job, deadline));
                if busy {
                    let release = (key::RELEASE, Note::Int(r.record.at.ns()));
                    self.instant(task, event::RELEASE, &[job_note(job), release]);
                } else {
                    if self.tasks[task].running.is_none() {
                        self.task_state(task, 0, None, RUNNABLE);
                    }
                    self.begin_job(task, job, deadline);
                }
            }
            RecordKind::Budget { task, job, amount } => {
                let amount = amount.map_or(Note::Word("none"), |amount| Note::Int(amount.ns()));
                self.instant(task.index(), event::BUDGET, &[job_note(job), (key::AMOUNT, amount)]);
            }
            RecordKind::Start { task, job, place } => self.start(task.index(), job, place),
            RecordKind::Stop { task, reason, .. } => self.stop(task.index(), reason),
            RecordKind::Finish { task, job, outcome, consumed } => {
                self.finished(r.record.at, task.index(), job, outcome, consumed.ns());
            }
            RecordKind::Block { task, job } => self.instant(task.index(), event::BLOCK, &[job_note(job)]),
            RecordKind::Wake { task, job } => {
                if self.tasks[task.index()].running.is_none() {
                    self.task_state(task.index(), 0, None, RUNNABLE);
                }
                self.instant(task.index(), event::WAKE, &[job_note(job)]);
            }
            RecordKind::Lock { task, resource, granted } => {
                let notes = [(key::RESOURCE, Note::Int(resource.0.into())), (key::GRANTED, Note::Bool(granted))];
                self.instant(task.index(), event::REQUEST, &notes);
            }
            RecordKind::Unlock { task, resource } => {
                self.instant(task.index(), event::RETURN, &[(key::RESOURCE, Note::Int(resource.0.into()))]);
            }
            RecordKind::Withdraw { task, resource } => {
                self.instant(task.index(), event::WITHDRAW, &[(key::RESOURCE, Note::Int(resource.0.into()))]);
            }
            RecordKind::Behind { task, job, abandoned } => {
                let notes = [job_note(job), (key::ABANDONED, Note::Int(abandoned as i64))];
                self.instant(task.index(), event::BEHIND, &notes);
            }
            RecordKind::LateSignal { task, job } => {
                self.tasks[task.index()].signals = true;
                self.instant(task.index(), event::LATE_SIGNAL, &[job_note(job)]);
            }
            // A release that never was.
            RecordKind::Lost { task } => self.instant(task.index(), event::SKIPPED, &[]),
            RecordKind::Handler { task, job, deadline } => self.begin_handler(task.index(), job, deadline),
            RecordKind::HandlerEnd { task, job, consumed } => {
                self.end_handler(r.record.at, task.index(), job, consumed.ns())
            }
            RecordKind::Yield { task, job } => self.instant(task.index(), event::YIELD, &[job_note(job)]),
            RecordKind::Deadlock { task, resource } => {
                self.instant(task.index(), event::DEADLOCK, &[(key::RESOURCE, Note::Int(resource.0.into()))]);
            }
            RecordKind::Round { place, set_point, measured, .. } => self.round(place, measured, set_point),
            RecordKind::Burst { task, set_point, measured, .. } => self.burst(task.index(), measured, set_point),
            RecordKind::Switch { domain, to } => {
                let switch = self.policies.switch(r.applied, domain, to);
                self.switched(&switch);
            }
            RecordKind::Table { to } => {
                let switch = self.policies.table(r.applied, to);
                self.switched(&switch);
            }
            RecordKind::Configure { setting, value } => {
                let switch = self.policies.configure(r.applied, setting, value);
                self.switched(&switch);
            }
            RecordKind::Call { task, job, call, granted } => {
                self.asked(&Asked { at: r.applied, task, job, call, granted });
            }
            RecordKind::Frequency { domain, khz } => self.power(PowerCounter::Frequency, domain, khz.into()),
            RecordKind::Temperature { zone, millidegrees } => {
                // A sample without a value leaves the curve as it is.
                if let Some(value) = millidegrees {
                    self.power(PowerCounter::Temperature, zone, value.into());
                }
            }
            RecordKind::IdleLatency { place, limit_us } => {
                self.power(PowerCounter::IdleLatency, place.0, limit_us.map_or(-1, i64::from));
            }
            RecordKind::StartSkipped { partition, window } => {
                let title = format!("{} skipped: too hot", self.titles.partition(partition));
                let window = window.to_string();
                let track = self.windows_track();
                self.tell_on(track, &title, std::iter::once(("window", window.as_str())));
            }
            RecordKind::Exit { task, failed } => {
                let how = failed.then_some((key::OUTCOME, Note::Word(crate::names::FAILED)));
                self.instant(task.index(), event::EXIT, how.as_slice());
            }
        }
        self.out.spill()
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        self.last = self.last.max(change.at.ns().max(0) as u64);
        let (uid, pid) = (change.uid.to_string(), change.pid.to_string());
        let notes = [("command", change.command.as_str()), ("uid", &uid), ("pid", &pid)];
        self.tell(&format!("change {}", change.command), notes.into_iter());
        self.out.spill()
    }

    fn measured(&mut self, measured: &Measured) -> io::Result<()> {
        self.last = self.last.max(measured.at.ns().max(0) as u64);
        self.power(PowerCounter::Meter, measured.meter, measured.value);
        self.out.spill()
    }

    fn task(&mut self, _: Time, task: &TaskLabel) -> io::Result<()> {
        let index = self.tasks.len();
        let known = |group: &String| self.groups.iter().position(|g| g == group);
        // A group of its own would be another process.
        self.process.push(task.partition.as_ref().and_then(known).unwrap_or(0) as u64 + 1);
        self.tasks.push(TaskState::new(task.name.clone(), task));
        let name = self.task_name(index);
        let b = &mut self.out.buffer;
        let packet = b.open(1);
        b.number(10, SEQUENCE);
        b.number(13, NEEDS_STATE);
        let interned = b.open(12);
        let entry = b.open(2);
        b.number(1, name);
        b.bytes(2, task.name.as_bytes());
        b.close(entry);
        b.close(interned);
        b.close(packet);
        self.describe_lane(index, 0);
        self.out.spill()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.finish()
    }

    fn finish(mut self: Box<Self>, footer: &Footer) -> io::Result<()> {
        self.last = self.last.max(footer.end.ns().max(0) as u64);
        for task in 0..self.tasks.len() {
            self.stop(task, StopReason::Suspended);
            // Jobs that are over have told of their misses; these never will.
            while let Some((job, deadline)) = self.tasks[task].jobs.pop_front() {
                if let Some(deadline) = deadline.filter(|d| *d <= footer.end) {
                    let notes = [(key::JOB, Note::Int(job as i64)), (key::DEADLINE, Note::Int(deadline.ns()))];
                    self.instant(task, event::MISS, &notes);
                }
            }
            self.end_job(task, &[]);
        }
        if self.window_open {
            self.event(SLICE_END, self.windows_track(), None, &[]);
        }
        if footer.dropped > 0 {
            let notes = [(key::COUNT, Note::Int(footer.dropped as i64))];
            self.event(INSTANT, self.about_track(), Some(event::DROPPED), &notes);
        }
        self.out.finish()
    }
}
