//! Explains a late sample by the kernel's trace: which part of the way from the timer to the task took the time, and what ran instead.
//!
//! The way has three parts. Up to the wake-up, the timer's interrupt has to come, and other timers may be handled first. From the wake-up to the
//! switch, the task is runnable, and other threads have the CPU. From the switch on, interrupts can still take time. Each part is cut at the events of
//! its CPU, and each piece counts for the thread or the interrupt that had the CPU.

use crate::kernel::{Event, Interrupt, KernelTrace, Thread, What};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A sample to explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The planned instant. Nanoseconds of the trace's clock.
    pub planned: i64,
    /// Its lateness in nanoseconds.
    pub late: i64,
    /// The number of the task's thread.
    pub pid: u32,
}

/// Facts about the round of a sample that no event shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Circumstances {
    /// How many times a quota has throttled a group of the task.
    pub throttled: u64,
    /// Time that the host of a virtual machine took from the CPU. Nanoseconds.
    pub stolen: i64,
}

/// The kind of a cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The timer's interrupt came late: interrupts were off, an idle state ended, or the host had the CPU.
    TimerLate,
    /// Interrupts, softirqs and the handlers of other timers.
    Interrupts,
    /// A thread of a more urgent class or priority.
    Preempted,
    /// A thread of the same real-time priority.
    SamePriority,
    /// A less urgent thread that the scheduler chose although the task was runnable: the fair server, or real-time throttling.
    FairServer,
    /// A less urgent thread that the kernel did not preempt.
    NotPreemptible,
    /// An ordinary thread beside an ordinary task.
    Turn,
    /// The quota of a group of the task was exhausted.
    Quota,
    /// The CPU was idle while the task was runnable.
    IdleCpu,
    /// The task was on the CPU.
    Own,
}

/// A part of a lateness.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// Its kind.
    pub kind: Kind,
    /// Nanoseconds.
    pub ns: i64,
    /// The thread that had the CPU, if it is about one: number and name.
    pub thread: Option<(u32, String)>,
    /// The part in words.
    pub text: String,
}

/// Why a sample was late.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The lateness in nanoseconds.
    pub late: i64,
    /// Its parts, the largest first. Together they are the lateness.
    pub parts: Vec<Part>,
    /// The parts that matter, in words.
    pub text: String,
}

/// Parts below this share of the lateness are left out of the words, but not the first.
const SHARE: i64 = 10;
/// Words for so many parts at most.
const SAID: usize = 3;
/// On a CPU, a task needs less than that from its switch to its reading of the clock. More is a sign of page faults or of the host.
const READING: i64 = 30_000;
/// A runnable task that waits for an idle CPU less than that waits for the end of an idle state.
const IDLE_END: i64 = 200_000;

/// What had the CPU in a piece of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    Interrupt(Interrupt),
    /// A thread, and whether the scheduler chose it although an urgent thread was runnable.
    Thread(Thread, bool),
}

/// The state of one CPU between two events.
#[derive(Default)]
struct Cpu {
    thread: Option<Thread>,
    over_urgent: bool,
    interrupts: Vec<Interrupt>,
}

impl Cpu {
    fn take(&mut self, what: What) {
        match what {
            What::Switch { prev, runnable, next } => {
                self.thread = Some(next);
                self.over_urgent = runnable && prev.is_urgent() && prev.prio < next.prio;
                // A switch happens in no interrupt. One whose end was lost does not last.
                self.interrupts.clear();
            }
            What::Enter(interrupt) => self.interrupts.push(interrupt),
            What::Leave(interrupt) => {
                if let Some(place) = self.interrupts.iter().rposition(|open| *open == interrupt) {
                    self.interrupts.truncate(place);
                }
            }
            What::Waking(_) | What::TimerStart { .. } | What::TimerExpire { .. } => {}
        }
    }
    fn holder(&self) -> Option<Holder> {
        match self.interrupts.last() {
            Some(interrupt) => Some(Holder::Interrupt(*interrupt)),
            None => self.thread.map(|thread| Holder::Thread(thread, self.over_urgent)),
        }
    }
}

/// A piece of time on a CPU.
struct Piece {
    from: i64,
    to: i64,
    holder: Holder,
}

/// Pieces of a CPU between two instants, and how many timers were handled and interrupts begun.
fn pieces(trace: &KernelTrace, cpu: usize, from: i64, to: i64) -> Vec<Piece> {
    let (mut state, mut pieces, mut since) = (Cpu::default(), Vec::new(), from);
    for event in trace.events.iter().filter(|event| event.cpu == cpu) {
        if event.at >= to {
            break;
        }
        // Before its first switch, the trace does not say what runs: the events themselves do, where they name the thread that leaves.
        if let (What::Switch { prev, .. }, None) = (event.what, state.thread) {
            state.thread = Some(prev);
        }
        if event.at > since {
            pieces.extend(state.holder().map(|holder| Piece { from: since, to: event.at, holder }));
            since = event.at;
        }
        state.take(event.what);
    }
    if to > since {
        pieces.extend(state.holder().map(|holder| Piece { from: since, to, holder }));
    }
    pieces
}

/// Where the task was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Sleeping,
    Runnable,
    On(usize),
}

/// The way of the task to its sample.
struct Way {
    /// The task was late from the sample before.
    behind: bool,
    /// The CPU of its timer, and that on which it waited.
    timer_cpu: usize,
    cpu: usize,
    /// The instant at which it became runnable; the planned one if it was already.
    runnable: i64,
    task: Thread,
}

fn way(trace: &KernelTrace, sample: Sample) -> Option<Way> {
    let (planned, read) = (sample.planned, sample.planned + sample.late);
    let (mut state, mut last_cpu, mut task) = (State::Sleeping, None, None);
    let (mut waking, mut switched): (Option<Event>, Option<usize>) = (None, None);
    for event in trace.events.iter().take_while(|event| event.at < read) {
        let before = event.at < planned;
        match event.what {
            What::Switch { prev, runnable, .. } if prev.pid == sample.pid => {
                if before {
                    state = if runnable { State::Runnable } else { State::Sleeping };
                }
                task = Some(prev);
                last_cpu = Some(event.cpu);
            }
            What::Switch { next, .. } if next.pid == sample.pid => {
                if before {
                    state = State::On(event.cpu);
                } else {
                    switched = switched.or(Some(event.cpu));
                }
                task = Some(next);
                last_cpu = Some(event.cpu);
            }
            What::Waking(thread) if thread.pid == sample.pid => {
                if before {
                    state = State::Runnable;
                } else if waking.is_none() {
                    waking = Some(*event);
                }
                task = task.or(Some(thread));
            }
            _ => {}
        }
    }
    let task = task?;
    Some(match state {
        State::Sleeping => {
            let waking = waking?;
            Way { behind: false, timer_cpu: waking.cpu, cpu: switched?, runnable: waking.at, task }
        }
        State::Runnable | State::On(_) => {
            let on = if let State::On(cpu) = state { Some(cpu) } else { None };
            let cpu = on.or(switched).or(last_cpu)?;
            Way { behind: true, timer_cpu: cpu, cpu, runnable: planned, task }
        }
    })
}

/// Explains a sample. `class` names the scheduling policy of a thread that still lives, such as `SCHED_RR`. `None` if the trace does not cover the sample.
/// O(events).
#[must_use]
pub fn explain(
    trace: &KernelTrace,
    sample: Sample,
    about: &Circumstances,
    class: &dyn Fn(u32) -> Option<&'static str>,
) -> Option<Explanation> {
    let read = sample.planned + sample.late;
    let way = way(trace, sample)?;
    let covered = |cpu: &usize| trace.from.get(cpu).is_some_and(|from| *from <= sample.planned);
    if !covered(&way.cpu) || !covered(&way.timer_cpu) {
        return None;
    }
    let mut sums: Vec<(Kind, Option<Thread>, i64)> = Vec::new();
    let mut add = |kind: Kind, thread: Option<Thread>, ns: i64| match sums
        .iter_mut()
        .find(|sum| sum.0 == kind && sum.1.map(|t| t.pid) == thread.map(|t| t.pid))
    {
        Some(sum) => sum.2 += ns,
        None => sums.push((kind, thread, ns)),
    };
    let mut known = 0;
    for piece in pieces(trace, way.timer_cpu, sample.planned, way.runnable) {
        known += piece.to - piece.from;
        match piece.holder {
            Holder::Interrupt(_) => add(Kind::Interrupts, None, piece.to - piece.from),
            Holder::Thread(thread, _) => add(Kind::TimerLate, Some(thread), piece.to - piece.from),
        }
    }
    let mut idle = 0;
    for piece in pieces(trace, way.cpu, way.runnable, read) {
        let ns = piece.to - piece.from;
        known += ns;
        match piece.holder {
            Holder::Interrupt(_) => add(Kind::Interrupts, None, ns),
            Holder::Thread(thread, _) if thread.pid == sample.pid => add(Kind::Own, None, ns),
            Holder::Thread(thread, _) if thread.is_idle() => idle += ns,
            Holder::Thread(thread, over_urgent) => {
                let since_runnable = trace.events.iter().any(|event| {
                    event.cpu == way.cpu
                        && (way.runnable..=piece.from).contains(&event.at)
                        && matches!(event.what, What::Switch { next, .. } if next.pid == thread.pid)
                });
                add(instead(way.task, thread, over_urgent || since_runnable, about), Some(thread), ns);
            }
        }
    }
    if idle > 0 {
        let throttled = !way.task.is_urgent() && about.throttled > 0 && idle > IDLE_END;
        add(if throttled { Kind::Quota } else { Kind::IdleCpu }, None, idle);
    }
    // Time of which the trace says nothing: before the first event in the interval.
    if sample.late > known {
        add(Kind::TimerLate, None, sample.late - known);
    }
    sums.sort_by_key(|sum| (std::cmp::Reverse(sum.2), sum.0, sum.1.map_or(0, |thread| thread.pid)));
    let words = Words { trace, sample, about, way: &way, class };
    let parts: Vec<Part> = sums.into_iter().map(|(kind, thread, ns)| words.part(kind, thread, ns)).collect();
    let chosen = parts.iter().enumerate().filter(|(i, part)| *i == 0 || part.ns * 100 >= sample.late * SHARE);
    let mut said: Vec<&str> = chosen.map(|(_, part)| part.text.as_str()).take(SAID).collect();
    if way.behind {
        said.insert(0, "the task was still late from the instant before");
    }
    let text = format!("{} late: {}", time(sample.late), said.join("; "));
    Some(Explanation { late: sample.late, parts, text })
}

/// Why another thread had the CPU while the task was runnable. `chosen`: the scheduler gave it the CPU in that time, or over an urgent thread.
fn instead(task: Thread, other: Thread, chosen: bool, about: &Circumstances) -> Kind {
    if other.prio < task.prio && other.is_urgent() {
        return Kind::Preempted;
    }
    if !task.is_urgent() {
        return if about.throttled > 0 { Kind::Quota } else { Kind::Turn };
    }
    match other.prio == task.prio {
        true => Kind::SamePriority,
        false if chosen => Kind::FairServer,
        false => Kind::NotPreemptible,
    }
}

/// A time for people: whole microseconds, or milliseconds with a decimal.
fn time(ns: i64) -> String {
    if ns >= 10_000_000 { format!("{:.1} ms", ns as f64 / 1e6) } else { format!("{:.0} us", ns as f64 / 1e3) }
}

/// The facts from which parts are put into words.
struct Words<'a> {
    trace: &'a KernelTrace,
    sample: Sample,
    about: &'a Circumstances,
    way: &'a Way,
    class: &'a dyn Fn(u32) -> Option<&'static str>,
}

impl Words<'_> {
    fn class(&self, thread: Thread) -> String {
        let policy = (self.class)(thread.pid);
        match thread.prio {
            ..0 => "SCHED_DEADLINE".into(),
            // A thread that inherits a priority keeps its own policy.
            prio @ 0..100 => format!("{} {}", policy.filter(|p| is_real_time(p)).unwrap_or("real-time"), 99 - prio),
            120 => policy.filter(|p| !is_real_time(p)).unwrap_or("SCHED_OTHER").into(),
            prio => format!(
                "{} with nice {}",
                policy.filter(|p| !is_real_time(p)).unwrap_or("SCHED_OTHER"),
                i64::from(prio) - 120
            ),
        }
    }

    fn part(&self, kind: Kind, thread: Option<Thread>, ns: i64) -> Part {
        let name = thread.map(|thread| match thread.is_idle() {
            true => "the idle CPU".to_owned(),
            false => format!("`{}` ({}) at {}", thread.name, thread.pid, self.class(thread)),
        });
        let (name, cpu, length) = (name.unwrap_or_default(), self.way.cpu, time(ns));
        let own = self.class(self.way.task);
        let stolen = match self.about.stolen {
            0 => String::new(),
            stolen => format!("; the host took {} in this round", time(stolen)),
        };
        let waited = format!("{length} {name} on CPU {cpu} while the task waited at {own}");
        let text = match kind {
            Kind::TimerLate => {
                let during = match thread {
                    None => String::new(),
                    Some(thread) if thread.is_idle() => " of an idle CPU, which had to wake up".into(),
                    Some(_) => format!(" while {name} ran with interrupts off, or the host had the CPU"),
                };
                format!("{length} until the timer interrupt came on CPU {}{during}{stolen}", self.way.timer_cpu)
            }
            Kind::Interrupts => format!("{length} in interrupts: {}", self.interrupts()),
            Kind::Preempted => waited,
            Kind::SamePriority => format!("{waited}, the same priority"),
            Kind::FairServer => format!("{waited}, behind the fair server or real-time throttling"),
            Kind::NotPreemptible => format!("{waited}, in a part of the kernel that is not preempted"),
            Kind::Turn => format!("{waited}, for its turn"),
            Kind::Quota => {
                let times = self.about.throttled;
                let during = if name.is_empty() { "the CPU was idle".into() } else { format!("{name} ran") };
                format!(
                    "{length} throttled: the quota of its group was exhausted ({times} times in this round), and {during} on CPU {cpu}"
                )
            }
            Kind::IdleCpu if self.way.task.is_urgent() && ns > IDLE_END => {
                format!(
                    "{length} throttled: CPU {cpu} was idle while the task was runnable at {own} (real-time throttling){stolen}"
                )
            }
            Kind::IdleCpu => format!("{length} until the idle CPU {cpu} ran the task{stolen}"),
            Kind::Own if ns > READING => {
                format!("{length} on the CPU itself: page faults, or the host had the CPU{stolen}")
            }
            Kind::Own => format!("{length} on the CPU itself"),
        };
        let thread = thread.filter(|thread| !thread.is_idle()).map(|thread| (thread.pid, thread.name.to_string()));
        Part { kind, ns, thread, text }
    }

    /// The interrupts in the interval by kinds, and the handlers of timers.
    fn interrupts(&self) -> String {
        let (from, to) = (self.sample.planned, self.sample.planned + self.sample.late);
        let (mut kinds, mut timers): (BTreeMap<Interrupt, u64>, u64) = (BTreeMap::new(), 0);
        let cpus = [self.way.timer_cpu, self.way.cpu];
        let begun = |cpu: &usize| {
            let mut state = Cpu::default();
            let before = self.trace.events.iter().filter(|event| event.cpu == *cpu).take_while(|event| event.at < from);
            before.for_each(|event| state.take(event.what));
            state.interrupts.last().copied()
        };
        // One that had begun before the planned instant counts, too.
        begun(&cpus[0]).into_iter().for_each(|interrupt| *kinds.entry(interrupt).or_default() += 1);
        let within =
            self.trace.events.iter().filter(|event| (from..to).contains(&event.at) && cpus.contains(&event.cpu));
        for event in within {
            match event.what {
                What::Enter(interrupt) => *kinds.entry(interrupt).or_default() += 1,
                What::TimerExpire { .. } => timers += 1,
                _ => {}
            }
        }
        let kinds = kinds.into_iter().map(|(kind, count)| format!("{count} x {}", kind.name(&self.trace.devices)));
        let mut all: Vec<String> = kinds.collect();
        if timers > 0 {
            all.push(format!("handlers of {timers} timers"));
        }
        all.join(", ")
    }
}

fn is_real_time(policy: &str) -> bool {
    ["SCHED_FIFO", "SCHED_RR", "SCHED_DEADLINE"].contains(&policy)
}
