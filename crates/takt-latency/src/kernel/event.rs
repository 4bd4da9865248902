//! Events of the trace as values.

use super::format::{Field, Format, Head, Unexpected, formats};
use super::page::records;
use std::collections::BTreeMap;
use std::fmt;

/// The events that explanations need, as `system/name`. A kernel may lack some of them, such as the vectors of x86.
pub const EVENTS: [&str; 20] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "timer/hrtimer_start",
    "timer/hrtimer_expire_entry",
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "irq_vectors/local_timer_entry",
    "irq_vectors/local_timer_exit",
    "irq_vectors/reschedule_entry",
    "irq_vectors/reschedule_exit",
    "irq_vectors/call_function_entry",
    "irq_vectors/call_function_exit",
    "irq_vectors/call_function_single_entry",
    "irq_vectors/call_function_single_exit",
    "irq_vectors/irq_work_entry",
    "irq_vectors/irq_work_exit",
    "irq_vectors/x86_platform_ipi_entry",
    "irq_vectors/x86_platform_ipi_exit",
];

/// The returns of the system calls in which a task waits for its timer. They are recorded only to compare wake-ups (`agreement.rs`).
pub const RETURNS: [&str; 3] =
    ["syscalls/sys_exit_clock_nanosleep", "syscalls/sys_exit_poll", "syscalls/sys_exit_ppoll"];

/// The events of the kernel's tracer `osnoise`, which count the own time of each source of noise.
pub const NOISE: [&str; 4] =
    ["osnoise/irq_noise", "osnoise/softirq_noise", "osnoise/nmi_noise", "osnoise/thread_noise"];

/// The records of the kernel's tracer `timerlat`, which are among the events `ftrace`.
pub const TIMERLAT: &str = "timerlat";

/// A thread's name (comm): at most 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Name([u8; 16]);

impl Name {
    fn of(bytes: &[u8]) -> Name {
        let mut name = [0; 16];
        for (to, from) in name[..15].iter_mut().zip(bytes.iter().take_while(|byte| **byte != 0)) {
            *to = *from;
        }
        Name(name)
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name::of(text.as_bytes())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        f.write_str(&String::from_utf8_lossy(&self.0[..length]))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A thread of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thread {
    /// Its number; 0 is the idle thread of a CPU.
    pub pid: u32,
    /// The kernel's priority: -1 for SCHED_DEADLINE, 99 minus the priority for real-time classes, 120 plus the nice value for others.
    pub prio: i32,
    /// Its name.
    pub name: Name,
}

impl Thread {
    /// Whether it is the idle thread of a CPU.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.pid == 0
    }
    /// Whether its class is SCHED_DEADLINE or a real-time one.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.prio < 100
    }
}

/// A kind of interrupt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Interrupt {
    /// The handler of a device, by its number.
    Device(i64),
    /// A softirq, by its number.
    Soft(i64),
    /// A vector of the processor, by its name.
    Vector(&'static str),
    /// An interrupt of which only the tracer `osnoise` knows, by its name.
    Other(Name),
    /// A non-maskable interrupt.
    NonMaskable,
}

/// A source of noise on a CPU, as the tracer `osnoise` has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// An interrupt, by its name.
    Interrupt(Name),
    /// A softirq, by its number.
    Soft(i64),
    /// A thread.
    Thread {
        /// Its number.
        pid: u32,
        /// Its name.
        name: Name,
    },
    /// A non-maskable interrupt.
    NonMaskable,
}

/// A stage of a wake-up, as the tracer `timerlat` has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The interrupt of the timer.
    Interrupt,
    /// The process has the CPU, in the kernel.
    Thread,
    /// The process has been in user space, and calls the kernel again.
    User,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Stage; 3] = [Stage::Interrupt, Stage::Thread, Stage::User];
}

impl Interrupt {
    /// A name for people. `devices` has the names of the handlers.
    #[must_use]
    pub fn name(self, devices: &BTreeMap<i64, String>) -> String {
        // The order of `enum` in include/linux/interrupt.h.
        const SOFT: [&str; 10] =
            ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
        match self {
            Interrupt::Device(number) => match devices.get(&number) {
                Some(name) => format!("interrupt {number} ({name})"),
                None => format!("interrupt {number}"),
            },
            Interrupt::Soft(number) => {
                let name = usize::try_from(number).ok().and_then(|number| SOFT.get(number));
                format!("softirq {}", name.map_or_else(|| number.to_string(), |name| (*name).to_owned()))
            }
            Interrupt::Vector("local_timer") => "timer interrupt".into(),
            Interrupt::Vector(name) => name.replace('_', " "),
            Interrupt::Other(name) => format!("interrupt {name}"),
            Interrupt::NonMaskable => "non-maskable interrupt".into(),
        }
    }
}

/// The content of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A CPU changes from one thread to another.
    Switch {
        /// The thread that leaves the CPU.
        prev: Thread,
        /// Whether it remains runnable.
        runnable: bool,
        /// The thread that comes.
        next: Thread,
    },
    /// A thread becomes runnable.
    Waking(Thread),
    /// A high-resolution timer is armed.
    TimerStart {
        /// The thread that was on the CPU.
        pid: u32,
        /// The timer's address.
        timer: i64,
        /// The instant for which it is armed. Nanoseconds of its clock.
        expires: i64,
    },
    /// The handler of a high-resolution timer begins.
    TimerExpire {
        /// The timer's address.
        timer: i64,
    },
    /// An interrupt begins.
    Enter(Interrupt),
    /// An interrupt ends.
    Leave(Interrupt),
    /// The tracer `osnoise` has seen the end of a source of noise.
    Noise {
        /// The source.
        source: Source,
        /// Its time in nanoseconds, without that of other sources within it.
        ns: i64,
    },
    /// The tracer `timerlat` has seen its timer or the process that waits for it.
    Timerlat {
        /// How far the wake-up is.
        stage: Stage,
        /// Nanoseconds since the planned instant.
        ns: i64,
    },
    /// A system call of [`RETURNS`] returns to its thread.
    Return {
        /// The thread.
        pid: u32,
    },
}

/// An event on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Nanoseconds of the trace's clock.
    pub at: i64,
    /// The CPU on which it was recorded.
    pub cpu: usize,
    /// Its content.
    pub action: Action,
}

/// Events in the order of their instants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelTrace {
    /// The events.
    pub events: Vec<Event>,
    /// The instant of the first event of each CPU that has one: nothing is known of the time before.
    pub from: BTreeMap<usize, i64>,
    /// Names of the handlers of devices.
    pub devices: BTreeMap<i64, String>,
}

/// Which fields an event of interest has.
enum Reader {
    Switch {
        prev: [Field; 3],
        state: Field,
        next: [Field; 3],
    },
    Waking([Field; 3]),
    TimerStart {
        pid: Field,
        timer: Field,
        expires: Field,
    },
    TimerExpire(Field),
    Device {
        enter: bool,
        number: Field,
        name: Option<Field>,
    },
    Soft {
        enter: bool,
        number: Field,
    },
    Vector {
        enter: bool,
        name: &'static str,
    },
    Return(Field),
    /// Its stage and its time.
    Timerlat([Field; 2]),
    /// Its source, and the fields of its start and its own time.
    Noise {
        of: Noise,
        start: Field,
        ns: Field,
    },
}

/// The source of an event of the tracer `osnoise`.
enum Noise {
    Interrupt(Field),
    Soft(Field),
    NonMaskable,
    Thread { name: Field, pid: Field },
}

impl Reader {
    fn of(format: &Format) -> Result<Option<Reader>, Unexpected> {
        let field = |name: &str| format.field(name);
        let thread = |comm: &str, pid: &str, prio: &str| Ok([field(comm)?, field(pid)?, field(prio)?]);
        Ok(Some(match format.name.as_str() {
            "sched_switch" => Reader::Switch {
                prev: thread("prev_comm", "prev_pid", "prev_prio")?,
                state: field("prev_state")?,
                next: thread("next_comm", "next_pid", "next_prio")?,
            },
            "sched_waking" => Reader::Waking(thread("comm", "pid", "prio")?),
            "hrtimer_start" => Reader::TimerStart {
                pid: field("common_pid")?,
                timer: field("hrtimer")?,
                expires: field("softexpires")?,
            },
            "hrtimer_expire_entry" => Reader::TimerExpire(field("hrtimer")?),
            "irq_handler_entry" => {
                Reader::Device { enter: true, number: field("irq")?, name: format.field("name").ok() }
            }
            "irq_handler_exit" => Reader::Device { enter: false, number: field("irq")?, name: None },
            "softirq_entry" => Reader::Soft { enter: true, number: field("vec")? },
            "softirq_exit" => Reader::Soft { enter: false, number: field("vec")? },
            "irq_noise" | "softirq_noise" | "nmi_noise" | "thread_noise" => {
                let of = match format.name.as_str() {
                    "irq_noise" => Noise::Interrupt(field("desc")?),
                    "softirq_noise" => Noise::Soft(field("vector")?),
                    "thread_noise" => Noise::Thread { name: field("comm")?, pid: field("pid")? },
                    _ => Noise::NonMaskable,
                };
                Reader::Noise { of, start: field("start")?, ns: field("duration")? }
            }
            TIMERLAT => Reader::Timerlat([field("context")?, field("timer_latency")?]),
            name if RETURNS.iter().any(|known| known.strip_prefix("syscalls/") == Some(name)) => {
                Reader::Return(field("common_pid")?)
            }
            name => return Ok(vector(name).map(|(name, enter)| Reader::Vector { enter, name })),
        }))
    }

    /// The name of the vector whose event this is.
    fn vector(&self) -> Option<&'static str> {
        if let Reader::Vector { name, .. } = self { Some(name) } else { None }
    }

    fn read(&self, record: &[u8], devices: &mut BTreeMap<i64, String>) -> Option<Action> {
        let thread = |[name, pid, prio]: &[Field; 3]| {
            let pid = u32::try_from(pid.number(record)?).ok()?;
            Some(Thread { pid, prio: prio.number(record)? as i32, name: Name::of(name.bytes(record)?) })
        };
        let edge = |enter: bool, interrupt| if enter { Action::Enter(interrupt) } else { Action::Leave(interrupt) };
        Some(match self {
            // TASK_RUNNING is 0; a flag above the states says that the thread was preempted.
            Reader::Switch { prev, state, next } => {
                Action::Switch { prev: thread(prev)?, runnable: state.number(record)? & 0xff == 0, next: thread(next)? }
            }
            Reader::Waking(fields) => Action::Waking(thread(fields)?),
            Reader::TimerStart { pid, timer, expires } => Action::TimerStart {
                pid: u32::try_from(pid.number(record)?).ok()?,
                timer: timer.number(record)?,
                expires: expires.number(record)?,
            },
            Reader::TimerExpire(timer) => Action::TimerExpire { timer: timer.number(record)? },
            Reader::Device { enter, number, name } => {
                let number = number.number(record)?;
                if let Some(text) = name.as_ref().and_then(|name| elsewhere(*name, record))
                    && !devices.contains_key(&number)
                {
                    devices.insert(number, String::from_utf8_lossy(text).into_owned());
                }
                edge(*enter, Interrupt::Device(number))
            }
            Reader::Soft { enter, number } => edge(*enter, Interrupt::Soft(number.number(record)?)),
            Reader::Vector { enter, name } => edge(*enter, Interrupt::Vector(name)),
            Reader::Noise { of, start, ns } => {
                // A source that had the CPU when the tracer began has no start, and its time is that since boot.
                if start.number(record)? == 0 {
                    return None;
                }
                let source = match of {
                    Noise::Interrupt(name) => Source::Interrupt(Name::of(elsewhere(*name, record)?)),
                    Noise::Soft(number) => Source::Soft(number.number(record)?),
                    Noise::NonMaskable => Source::NonMaskable,
                    Noise::Thread { name, pid } => {
                        let pid = u32::try_from(pid.number(record)?).ok()?;
                        Source::Thread { pid, name: Name::of(name.bytes(record)?) }
                    }
                };
                Action::Noise { source, ns: ns.number(record)? }
            }
            Reader::Timerlat([context, ns]) => {
                // IRQ_CONTEXT, THREAD_CONTEXT and THREAD_URET of kernel/trace/trace_osnoise.c.
                let stage = Stage::ALL.get(usize::try_from(context.number(record)?).ok()?)?;
                Action::Timerlat { stage: *stage, ns: ns.number(record)? }
            }
            Reader::Return(pid) => Action::Return { pid: u32::try_from(pid.number(record)?).ok()? },
        })
    }
}

/// A text that is elsewhere in the record. The field has its place, and its length in the upper half.
fn elsewhere(field: Field, record: &[u8]) -> Option<&[u8]> {
    let begin = (field.number(record)? & 0xffff) as usize;
    record.get(begin..)?.split(|byte| *byte == 0).next()
}

/// The vector of an event of `irq_vectors`, and whether it begins.
fn vector(event: &str) -> Option<(&'static str, bool)> {
    let known = EVENTS.iter().filter_map(|name| name.strip_prefix("irq_vectors/"));
    let name = known.filter(|name| *name == event).collect::<Vec<_>>().pop()?;
    Some(match name.strip_suffix("_entry") {
        Some(name) => (name, true),
        None => (name.strip_suffix("_exit")?, false),
    })
}

impl KernelTrace {
    /// Reads the pages of all CPUs, those of a CPU in order. `header` is the text of `events/header_page`, and `described` has the `format` files of
    /// all events, one after the other. O(events · log events).
    ///
    /// # Errors
    /// A description or a page has an unexpected form.
    pub fn read(header: &str, described: &str, pages: &[(usize, &[u8])]) -> Result<KernelTrace, Unexpected> {
        let head = Head::read(header)?;
        let mut readers: BTreeMap<u16, (Reader, Field)> = BTreeMap::new();
        for format in formats(described)? {
            if let Some(reader) = Reader::of(&format)? {
                readers.insert(format.id, (reader, format.field("common_pid")?));
            }
        }
        let (mut trace, mut events) = (KernelTrace::default(), Vec::new());
        for (cpu, page) in pages {
            records(head, page, |at, record| {
                let id = record.get(..2).map(|id| u16::from_le_bytes([id[0], id[1]]));
                let Some((reader, pid)) = id.and_then(|id| readers.get(&id)) else { return };
                if let Some(action) = reader.read(record, &mut trace.devices) {
                    trace.from.entry(*cpu).or_insert(at);
                    // The noise of a thread is recorded while the next one is on its way to the CPU.
                    let pid = pid.number(record).and_then(|pid| u32::try_from(pid).ok());
                    let pid = pid.filter(|_| !matches!(action, Action::Noise { .. }));
                    events.push((Event { at, cpu: *cpu, action }, pid));
                }
            })?;
        }
        let known: Vec<&'static str> = readers.values().filter_map(|(reader, _)| reader.vector()).collect();
        let added: Vec<(Event, Option<u32>)> = events
            .iter()
            .filter_map(|(event, _)| trace.only_noise(event, &known))
            .flatten()
            .map(|event| (event, None))
            .collect();
        events.extend(added);
        // A stable order: events of one CPU at one instant stay as they were.
        events.sort_by_key(|(event, _)| event.at);
        trace.events = with_switches_from_idle(&events);
        Ok(trace)
    }

    /// The begin and the end of an interrupt of which only the tracer `osnoise` knows: non-maskable ones, and vectors without events of their own.
    fn only_noise(&self, event: &Event, known: &[&'static str]) -> Option<[Event; 2]> {
        let Action::Noise { source, ns } = event.action else { return None };
        let interrupt = match source {
            Source::NonMaskable => Interrupt::NonMaskable,
            Source::Interrupt(name) => {
                // A name has at most 15 bytes.
                let is_known = |other: &str| Name::from(other) == name || name == Name::default();
                if known.iter().any(|vector| is_known(vector)) || self.devices.values().any(|device| is_known(device)) {
                    return None;
                }
                Interrupt::Other(name)
            }
            Source::Soft(_) | Source::Thread { .. } => return None,
        };
        // Its start is in another clock than the events.
        let begin = Event { at: event.at - ns, action: Action::Enter(interrupt), ..*event };
        Some([begin, Event { action: Action::Leave(interrupt), ..*event }])
    }

    /// The sources of noise on a CPU with their own times, in the order of the sources. Threads with the numbers of `without` are left
    /// out. O(events · log sources).
    #[must_use]
    pub fn noise(&self, cpu: usize, without: &[u32]) -> Vec<(Source, Sum)> {
        let mut sums: BTreeMap<Source, Sum> = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.cpu == cpu) {
            let Action::Noise { source, ns } = event.action else { continue };
            if matches!(source, Source::Thread { pid, .. } if pid == 0 || without.contains(&pid)) {
                continue;
            }
            sums.entry(source).or_default().add(Sum { count: 1, ns, longest: ns });
        }
        sums.into_iter().collect()
    }
}

impl KernelTrace {
    /// The times of a stage by the tracer `timerlat` on a CPU, in the order of their instants. Nanoseconds. O(events).
    #[must_use]
    pub fn stage(&self, cpu: usize, wanted: Stage) -> Vec<i64> {
        let of = |event: &Event| match event.action {
            Action::Timerlat { stage, ns } if event.cpu == cpu && stage == wanted => Some(ns),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }
}

/// Times of one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// All of them together. Nanoseconds.
    pub ns: i64,
    /// The longest one. Nanoseconds.
    pub longest: i64,
}

impl Sum {
    /// Adds others of the same source.
    pub fn add(&mut self, other: Sum) {
        self.count += other.count;
        self.ns += other.ns;
        self.longest = self.longest.max(other.longest);
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Interrupt(name) => write!(f, "interrupt `{name}`"),
            Source::Soft(number) => f.write_str(&Interrupt::Soft(*number).name(&BTreeMap::new())),
            Source::Thread { pid, name } => write!(f, "thread `{name}` ({pid})"),
            Source::NonMaskable => f.write_str("non-maskable interrupts"),
        }
    }
}

/// Adds the switches from the idle thread of a CPU to another one, which some kernels do not record. A thread that was woken has an idle CPU as soon as
/// the interrupt has ended, so the switch is put behind the last event of the idle thread and the waking of the other one. Each event has the number
/// of the thread that was on its CPU.
fn with_switches_from_idle(events: &[(Event, Option<u32>)]) -> Vec<Event> {
    let mut all = Vec::with_capacity(events.len());
    let (mut threads, mut woken): (BTreeMap<u32, Thread>, BTreeMap<u32, i64>) = Default::default();
    // By CPU: its idle thread, while that has it, and the instant of its last event.
    let mut idle: BTreeMap<usize, (Thread, i64)> = BTreeMap::new();
    for &(event, pid) in events {
        match event.action {
            Action::Switch { prev, next, .. } => threads.extend([(prev.pid, prev), (next.pid, next)]),
            Action::Waking(thread) => drop(threads.insert(thread.pid, thread)),
            _ => {}
        }
        if let Some(pid) = pid.filter(|pid| *pid != 0)
            && let Some((prev, last)) = idle.remove(&event.cpu)
        {
            let unknown = Thread { pid, prio: 120, name: Name::default() };
            let next = threads.get(&pid).copied().unwrap_or(unknown);
            let at = woken.get(&pid).map_or(last, |at| last.max(*at)).min(event.at);
            all.push(Event { at, cpu: event.cpu, action: Action::Switch { prev, runnable: true, next } });
        }
        if let Action::Waking(thread) = event.action {
            woken.insert(thread.pid, event.at);
        }
        if let Some((_, last)) = idle.get_mut(&event.cpu) {
            *last = event.at;
        }
        match event.action {
            Action::Switch { next, .. } if next.is_idle() => drop(idle.insert(event.cpu, (next, event.at))),
            Action::Switch { .. } => drop(idle.remove(&event.cpu)),
            _ => {}
        }
        all.push(event);
    }
    all.sort_by_key(|event| event.at);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Thread = Thread { pid: 0, prio: 120, name: Name([0; 16]) };

    fn thread(pid: u32) -> Thread {
        Thread { pid, prio: 29, name: "t".into() }
    }

    fn switch(at: i64, prev: Thread, next: Thread) -> (Event, Option<u32>) {
        (Event { at, cpu: 1, action: Action::Switch { prev, runnable: false, next } }, Some(prev.pid))
    }

    fn on(at: i64, cpu: usize, pid: u32, action: Action) -> (Event, Option<u32>) {
        (Event { at, cpu, action }, Some(pid))
    }

    /// The form of events of the tracer `osnoise`, as a PREEMPT_RT kernel 7.3 describes them, and of a vector.
    const FORMS: &str = "name: irq_noise\nID: 508\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:u64 start;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:u64 duration;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] desc;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:int vector;\toffset:28;\tsize:4;\tsigned:1;\n\
        name: nmi_noise\nID: 507\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:u64 start;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:u64 duration;\toffset:16;\tsize:8;\tsigned:0;\n\
        name: local_timer_entry\nID: 9\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

    /// A page whose records begin after each other by these times.
    fn page(records: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut data: Vec<u8> = Vec::new();
        for (delta, record) in records {
            data.extend((delta << 5).to_le_bytes());
            data.extend((record.len() as u32 + 4).to_le_bytes());
            data.extend(record);
        }
        let mut page = 5000u64.to_le_bytes().to_vec();
        page.extend((data.len() as u64).to_le_bytes());
        page.extend(data);
        page
    }

    #[test]
    fn noise_has_its_own_time_and_unknown_interrupts_have_a_begin_and_an_end() {
        let record = |id: u16, start: u64, ns: u64, name: &str| {
            let mut record = [id.to_le_bytes(), [0; 2], [7, 0], [0; 2]].concat();
            record.extend(start.to_le_bytes());
            record.extend(ns.to_le_bytes());
            if id == 508 {
                // The text is behind the fields.
                record.extend((32u32 | 12 << 16).to_le_bytes());
                record.extend(236u32.to_le_bytes());
                record.extend(name.bytes().chain([0; 12]).take(12));
            }
            record
        };
        let page = page(&[
            // It had the CPU when the tracer began: its time is unknown.
            (10, record(508, 0, 9_000_000, "thermal")),
            (100, record(508, 77, 40, "thermal")),
            (100, record(508, 88, 30, "local_timer")),
            (100, record(508, 99, 50, "local_timer")),
            (100, record(507, 111, 60, "")),
        ]);
        let trace = KernelTrace::read(PAGE, FORMS, &[(1, &page)]).unwrap();
        let sum = |count, ns, longest| Sum { count, ns, longest };
        assert_eq!(
            trace.noise(1, &[]),
            [
                (Source::Interrupt("local_timer".into()), sum(2, 80, 50)),
                (Source::Interrupt("thermal".into()), sum(1, 40, 40)),
                (Source::NonMaskable, sum(1, 60, 60)),
            ]
        );
        assert!(trace.noise(0, &[]).is_empty());
        // The vector of the timer has events of its own.
        let edges: Vec<(i64, Action)> = trace
            .events
            .iter()
            .filter(|event| !matches!(event.action, Action::Noise { .. }))
            .map(|event| (event.at, event.action))
            .collect();
        let thermal = Interrupt::Other("thermal".into());
        assert_eq!(
            edges,
            [
                (5070, Action::Enter(thermal)),
                (5110, Action::Leave(thermal)),
                (5350, Action::Enter(Interrupt::NonMaskable)),
                (5410, Action::Leave(Interrupt::NonMaskable)),
            ]
        );
        assert_eq!(thermal.name(&BTreeMap::new()), "interrupt thermal");
    }

    #[test]
    fn stages_of_timerlat_are_read() {
        const FORM: &str = "name: timerlat\nID: 20\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
            \tfield:unsigned int seqnum;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:int context;\toffset:12;\tsize:4;\tsigned:1;\n\
            \tfield:u64 timer_latency;\toffset:16;\tsize:8;\tsigned:0;\n";
        let record = |context: u32, ns: u64| {
            let mut record = 20u32.to_le_bytes().to_vec();
            [7, 1, context].iter().for_each(|number: &u32| record.extend(number.to_le_bytes()));
            record.extend(ns.to_le_bytes());
            record
        };
        // The last one is of a later kernel.
        let page = page(&[(10, record(0, 900)), (20, record(1, 2900)), (5, record(2, 3400)), (9, record(9, 1))]);
        let trace = KernelTrace::read(PAGE, FORM, &[(1, &page)]).unwrap();
        let of = |cpu, stage| trace.stage(cpu, stage);
        assert_eq!(Stage::ALL.map(|stage| of(1, stage)), [vec![900], vec![2900], vec![3400]]);
        assert!(Stage::ALL.iter().all(|stage| of(0, *stage).is_empty()) && trace.events.len() == 3);
    }

    #[test]
    fn a_switch_from_the_idle_thread_that_is_missing_is_added() {
        let timer = Interrupt::Vector("local_timer");
        let [enter, leave] = [Action::Enter(timer), Action::Leave(timer)];
        let waking = Action::Waking(thread(7));
        let mut events = vec![
            switch(10, thread(7), IDLE),
            on(20, 1, 0, enter),
            on(21, 1, 0, waking),
            on(22, 1, 0, leave),
            // An interrupt of the thread itself.
            on(50, 1, 7, enter),
            on(51, 1, 7, leave),
            switch(60, thread(7), IDLE),
            // Woken from another CPU, without an event on its own.
            on(70, 0, 9, waking),
            switch(90, thread(7), IDLE),
        ];
        let added = |events: &[(Event, Option<u32>)]| {
            let all = with_switches_from_idle(events);
            assert!(all.is_sorted_by_key(|event| event.at));
            let from_idle = |event: &&Event| matches!(event.action, Action::Switch { prev, .. } if prev.is_idle());
            all.iter().filter(from_idle).map(|event| event.at).collect::<Vec<_>>()
        };
        assert_eq!(added(&events), [22, 70]);
        // A kernel that records them keeps its own.
        events.insert(4, switch(23, IDLE, thread(7)));
        events.insert(9, switch(71, IDLE, thread(7)));
        assert_eq!(added(&events), [23, 71]);
    }
}
