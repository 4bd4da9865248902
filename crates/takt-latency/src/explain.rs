//! Explains a late sample by the kernel's trace: which part of the way from the timer to the task took the time, and what ran instead.
//!
//! The way has three parts. Up to the wake-up, the timer's interrupt has to come, and other timers may be handled first. From the wake-up to the
//! switch, the task is runnable, and other threads have the CPU. From the switch on, interrupts can still take time. Each part is cut at the events of
//! its CPU, and each piece counts for the thread or the interrupt that had the CPU.
//!
//! The timer is found by its instant: `hrtimer_start` has it to the nanosecond, so a frozen task is not taken for a late interrupt. Each
//! nanosecond from the planned instant to the sample belongs to one holder of the CPU.

use crate::kernel::{Action, Event, Interrupt, KernelTrace, Thread};
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
    /// The timer has expired, and the task could not be woken: it was frozen or stopped.
    Stopped,
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
/// From the expiry of its timer, a task is runnable within this time, unless it is frozen or stopped.
const WAKING: i64 = 100_000;
/// A runnable task that waits for an idle CPU less than that waits for the end of an idle state.
const IDLE_END: i64 = 200_000;

/// The holder of a CPU in a piece of time.
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
    fn take(&mut self, action: Action) {
        match action {
            Action::Switch { prev, runnable, next } => {
                self.thread = Some(next);
                self.over_urgent = runnable && prev.is_urgent() && prev.prio < next.prio;
                // A switch happens in no interrupt. One whose end was lost does not last.
                self.interrupts.clear();
            }
            Action::Enter(interrupt) => self.interrupts.push(interrupt),
            Action::Leave(interrupt) => {
                if let Some(place) = self.interrupts.iter().rposition(|open| *open == interrupt) {
                    self.interrupts.truncate(place);
                }
            }
            Action::Waking(_)
            | Action::TimerStart { .. }
            | Action::TimerExpire { .. }
            | Action::Noise { .. }
            | Action::Timerlat { .. }
            | Action::Return { .. } => {}
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
        if let (Action::Switch { prev, .. }, None) = (event.action, state.thread) {
            state.thread = Some(prev);
        }
        if event.at > since {
            pieces.extend(state.holder().map(|holder| Piece { from: since, to: event.at, holder }));
            since = event.at;
        }
        state.take(event.action);
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
        match event.action {
            Action::Switch { prev, runnable, .. } if prev.pid == sample.pid => {
                if before {
                    state = if runnable { State::Runnable } else { State::Sleeping };
                }
                task = Some(prev);
                last_cpu = Some(event.cpu);
            }
            Action::Switch { next, .. } if next.pid == sample.pid => {
                if before {
                    state = State::On(event.cpu);
                } else {
                    switched = switched.or(Some(event.cpu));
                }
                task = Some(next);
                last_cpu = Some(event.cpu);
            }
            Action::Waking(thread) if thread.pid == sample.pid => {
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

/// The instant at which the task's timer expired: that which was armed for the planned instant.
fn expiry(trace: &KernelTrace, sample: Sample) -> Option<i64> {
    let mut armed = None;
    for event in trace.events.iter().take_while(|event| event.at < sample.planned + sample.late) {
        match event.action {
            Action::TimerStart { timer, expires, .. } if expires == sample.planned => armed = Some(timer),
            Action::TimerExpire { timer } if armed == Some(timer) && event.at >= sample.planned => {
                return Some(event.at);
            }
            _ => {}
        }
    }
    None
}

/// The number of the task in the trace. In a PID namespace, the task knows another one; then the thread that armed the timer is the task.
pub(crate) fn number(trace: &KernelTrace, sample: Sample) -> u32 {
    let mut by_timer = None;
    for event in &trace.events {
        match event.action {
            Action::Switch { prev, next, .. } if prev.pid == sample.pid || next.pid == sample.pid => return sample.pid,
            Action::TimerStart { pid, expires, .. } if expires == sample.planned && pid != 0 => by_timer = Some(pid),
            _ => {}
        }
    }
    by_timer.unwrap_or(sample.pid)
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
    let sample = Sample { pid: number(trace, sample), ..sample };
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
    let (mut known, mut interrupts): (i64, BTreeMap<Interrupt, i64>) = (0, BTreeMap::new());
    // A timer that has long expired was not late: the task was not to be woken.
    let expired = expiry(trace, sample).filter(|at| way.runnable - at > WAKING);
    let until = expired.unwrap_or(way.runnable);
    if until < way.runnable {
        known += way.runnable - until;
        add(Kind::Stopped, None, way.runnable - until);
    }
    for piece in pieces(trace, way.timer_cpu, sample.planned, until) {
        known += piece.to - piece.from;
        match piece.holder {
            Holder::Interrupt(kind) => {
                *interrupts.entry(kind).or_default() += piece.to - piece.from;
                add(Kind::Interrupts, None, piece.to - piece.from);
            }
            Holder::Thread(thread, _) => add(Kind::TimerLate, Some(thread), piece.to - piece.from),
        }
    }
    let mut idle = 0;
    for piece in pieces(trace, way.cpu, way.runnable, read) {
        let ns = piece.to - piece.from;
        known += ns;
        match piece.holder {
            Holder::Interrupt(kind) => {
                *interrupts.entry(kind).or_default() += ns;
                add(Kind::Interrupts, None, ns);
            }
            Holder::Thread(thread, _) if thread.pid == sample.pid => add(Kind::Own, None, ns),
            Holder::Thread(thread, _) if thread.is_idle() => idle += ns,
            Holder::Thread(thread, over_urgent) => {
                let since_runnable = trace.events.iter().any(|event| {
                    event.cpu == way.cpu
                        && (way.runnable..=piece.from).contains(&event.at)
                        && matches!(event.action, Action::Switch { next, .. } if next.pid == thread.pid)
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
    let words = Words { trace, sample, about, way: &way, class, interrupts };
    let parts: Vec<Part> = sums.into_iter().map(|(kind, thread, ns)| words.part(kind, thread, ns)).collect();
    let chosen = parts.iter().enumerate().filter(|(i, part)| *i == 0 || part.ns * 100 >= sample.late * SHARE);
    let chosen: Vec<&Part> = chosen.map(|(_, part)| part).take(SAID).collect();
    let mut said: Vec<String> = Vec::new();
    if way.behind {
        said.push("still late from the instant before".into());
    }
    for (index, part) in chosen.iter().enumerate() {
        // Threads for which the task waited in the same way share a clause.
        if chosen[..index].iter().all(|before| before.kind != part.kind) {
            let alike: Vec<&str> = chosen.iter().filter(|p| p.kind == part.kind).map(|p| p.text.as_str()).collect();
            said.push(format!("{}{}", alike.join(", "), words.clause(part.kind, part.ns)));
        }
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
    /// The time of each kind of interrupt.
    interrupts: BTreeMap<Interrupt, i64>,
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

    /// A part, with the words before its clause.
    fn part(&self, kind: Kind, thread: Option<Thread>, ns: i64) -> Part {
        let thread = thread.filter(|thread| !thread.is_idle() || kind == Kind::TimerLate);
        let name = thread.map(|thread| format!("`{}` ({}) at {}", thread.name, thread.pid, self.class(thread)));
        let (name, length, timer_cpu) = (name.unwrap_or_default(), time(ns), self.way.timer_cpu);
        let text = match kind {
            Kind::TimerLate => {
                let during = match thread {
                    None => String::new(),
                    Some(thread) if thread.is_idle() => " of an idle CPU, which had to wake up".into(),
                    Some(_) => format!(" while {name} ran with interrupts off, or the host had the CPU"),
                };
                format!("{length} until the timer interrupt came on CPU {timer_cpu}{during}")
            }
            Kind::Interrupts => format!("{length} in interrupts on CPU {timer_cpu}: {}", self.interrupts()),
            Kind::Preempted | Kind::SamePriority | Kind::FairServer | Kind::NotPreemptible | Kind::Turn => {
                format!("{length} {name}")
            }
            Kind::Quota if name.is_empty() => format!("{length} the idle CPU"),
            Kind::Quota => format!("{length} {name}"),
            Kind::IdleCpu if self.way.task.is_urgent() && ns > IDLE_END => format!("{length} the idle CPU"),
            Kind::IdleCpu => format!("{length} until the idle CPU {} ran the task", self.way.cpu),
            Kind::Own => format!("{length} on the CPU itself"),
            Kind::Stopped => format!("{length} frozen or stopped after its timer had expired"),
        };
        let thread = thread.filter(|thread| !thread.is_idle()).map(|thread| (thread.pid, thread.name.to_string()));
        Part { kind, ns, thread, text }
    }

    /// The end of a sentence about parts of a kind.
    fn clause(&self, kind: Kind, ns: i64) -> String {
        let waited = format!(" on CPU {} while the task waited at {}", self.way.cpu, self.class(self.way.task));
        let stolen = match self.about.stolen {
            0 => String::new(),
            stolen => format!(" (the host took {} in this round)", time(stolen)),
        };
        match kind {
            Kind::TimerLate => stolen,
            Kind::Interrupts | Kind::Stopped => String::new(),
            Kind::Preempted => waited,
            Kind::SamePriority => format!("{waited}, with the same priority"),
            Kind::FairServer => format!("{waited}, behind the fair server or real-time throttling"),
            Kind::NotPreemptible => format!("{waited}: the kernel did not preempt it"),
            Kind::Turn => format!("{waited} for its turn"),
            Kind::Quota => {
                let times = self.about.throttled;
                format!("{waited}; a quota throttled its group {times} times in this round")
            }
            Kind::IdleCpu if self.way.task.is_urgent() && ns > IDLE_END => {
                format!("{waited}: real-time throttling, or the host had the CPU{stolen}")
            }
            Kind::IdleCpu => stolen,
            Kind::Own if ns > READING => format!(": page faults, or the host had the CPU{stolen}"),
            Kind::Own => String::new(),
        }
    }

    /// The interrupts in the interval by kinds, the longest first, and the number of timers.
    fn interrupts(&self) -> String {
        let mut kinds: Vec<(Interrupt, i64)> = self.interrupts.iter().map(|(kind, ns)| (*kind, *ns)).collect();
        kinds.sort_by_key(|(kind, ns)| (std::cmp::Reverse(*ns), *kind));
        let (from, to) = (self.sample.planned, self.sample.planned + self.sample.late);
        let cpus = [self.way.timer_cpu, self.way.cpu];
        let timers = self.trace.events.iter().filter(|event| {
            (from..to).contains(&event.at)
                && cpus.contains(&event.cpu)
                && matches!(event.action, Action::TimerExpire { .. })
        });
        let mut all: Vec<String> =
            kinds.iter().map(|(kind, ns)| format!("{} {}", kind.name(&self.trace.devices), time(*ns))).collect();
        // The timer of the task is one of them.
        let timers = timers.count();
        if timers > 1 {
            all.push(format!("{timers} timers expired"));
        }
        all.join(", ")
    }
}

fn is_real_time(policy: &str) -> bool {
    ["SCHED_FIFO", "SCHED_RR", "SCHED_DEADLINE"].contains(&policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i64 = 1000;

    /// A trace of CPU 1 in microseconds, in which the thread `other` runs from the beginning.
    struct Script(KernelTrace);

    fn thread(pid: u32, prio: i32, name: &str) -> Thread {
        Thread { pid, prio, name: name.into() }
    }
    fn task(prio: i32) -> Thread {
        thread(50, prio, "task")
    }
    const IDLE: u32 = 0;

    impl Script {
        fn new() -> Script {
            Script(KernelTrace::default())
        }
        fn event(mut self, us: i64, action: Action) -> Script {
            self.0.from.entry(1).or_insert(us * US);
            self.0.events.push(Event { at: us * US, cpu: 1, action });
            self
        }
        fn switch(self, us: i64, prev: Thread, runnable: bool, next: Thread) -> Script {
            self.event(us, Action::Switch { prev, runnable, next })
        }
        /// The timer interrupt from then on for 5 us, and the task is woken in its middle.
        fn wakes(self, us: i64, task: Thread) -> Script {
            let vector = Interrupt::Vector("local_timer");
            self.event(us, Action::Enter(vector))
                .event(us + 2, Action::Waking(task))
                .event(us + 5, Action::Leave(vector))
        }
        /// Explains the sample of 1000 us that was read then.
        fn explain(&self, read: i64, throttled: u64) -> Explanation {
            let sample = Sample { planned: 1000 * US, late: (read - 1000) * US, pid: 50 };
            let policy = |pid: u32| (pid == 9).then_some("SCHED_RR");
            let why =
                explain(&self.0, sample, &Circumstances { throttled, stolen: 0 }, &policy).expect("it is covered");
            assert_eq!(why.parts.iter().map(|part| part.ns).sum::<i64>(), why.late, "{why:?}");
            why
        }
    }

    fn first(why: &Explanation) -> (Kind, i64, Option<u32>) {
        let part = &why.parts[0];
        (part.kind, part.ns / US, part.thread.as_ref().map(|thread| thread.0))
    }

    /// The task sleeps, and `other` runs; both before the sample.
    fn sleeping(task: Thread, other: Thread) -> Script {
        Script::new().switch(500, task, false, other)
    }

    #[test]
    fn a_more_urgent_thread_preempts() {
        let (task, hog) = (task(49), thread(9, 29, "hog"));
        let why = sleeping(task, hog).wakes(1001, task).switch(1400, hog, false, task).explain(1403, 0);
        assert_eq!(first(&why), (Kind::Preempted, 394, Some(9)));
        assert!(
            why.text.starts_with(
                "403 us late: 394 us `hog` (9) at SCHED_RR 70 on CPU 1 while the task waited at real-time 50"
            ),
            "{}",
            why.text
        );
    }

    #[test]
    fn an_ordinary_thread_in_the_kernel_is_no_fair_server() {
        let (task, worker, hog) = (task(49), thread(7, 120, "kworker/1:2"), thread(9, 29, "hog"));
        let why = sleeping(task, worker).wakes(1001, task).switch(1380, worker, true, task).explain(1400, 0);
        assert_eq!(first(&why), (Kind::NotPreemptible, 374, Some(7)));
        // It was chosen although the hog was runnable.
        let why = sleeping(task, hog).switch(900, hog, true, worker).wakes(1001, task);
        let why = why.switch(1380, worker, true, hog).switch(1390, hog, false, task).explain(1400, 0);
        assert_eq!(first(&why), (Kind::FairServer, 374, Some(7)));
        assert!(why.text.contains("`kworker/1:2` (7) at SCHED_OTHER on CPU 1 while the task waited at real-time 50, behind the fair server"), "{}", why.text);
        // It was chosen while the task was runnable.
        let why =
            sleeping(task, hog).wakes(1001, task).switch(1010, hog, false, worker).switch(1380, worker, true, task);
        assert_eq!(first(&why.explain(1400, 0)), (Kind::FairServer, 370, Some(7)));
    }

    #[test]
    fn ordinary_threads_take_turns_unless_a_quota_is_exhausted() {
        let (task, other) = (task(120), thread(7, 125, "make"));
        let script = sleeping(task, other).wakes(1001, task).switch(4000, other, true, task);
        let why = script.explain(4010, 0);
        assert_eq!(first(&why), (Kind::Turn, 2994, Some(7)));
        assert!(why.text.contains("2994 us `make` (7) at SCHED_OTHER with nice 5 on CPU 1 while the task waited at SCHED_OTHER for its turn"), "{}", why.text);
        let why = script.explain(4010, 3);
        assert_eq!(first(&why), (Kind::Quota, 2994, Some(7)));
        assert!(why.text.contains("; a quota throttled its group 3 times in this round"), "{}", why.text);
    }

    #[test]
    fn an_idle_cpu_beside_a_runnable_task_is_throttling() {
        let idle = thread(IDLE, 120, "swapper/1");
        let other = task(120);
        let why = sleeping(other, idle).wakes(1001, other).switch(4000, idle, true, other).explain(4010, 1);
        assert_eq!(first(&why), (Kind::Quota, 2994, None));
        let task = task(49);
        let why = sleeping(task, idle).wakes(1001, task).switch(4000, idle, true, task).explain(4010, 0);
        assert!(first(&why).0 == Kind::IdleCpu && why.text.contains("real-time throttling"), "{}", why.text);
    }

    #[test]
    fn a_late_timer_and_interrupts_are_told_apart() {
        let (task, other) = (task(49), thread(7, 120, "dd"));
        // No event for 300 us: interrupts were off, or the host had the CPU.
        let why = sleeping(task, other).wakes(1300, task).switch(1306, other, true, task).explain(1310, 0);
        assert_eq!(first(&why), (Kind::TimerLate, 300, Some(7)));
        // The interrupt came in time, and other timers were handled first.
        let vector = Interrupt::Vector("local_timer");
        let mut storm = sleeping(task, other).event(990, Action::Enter(vector));
        for us in 990..1290 {
            storm = storm.event(us, Action::TimerExpire { timer: us });
        }
        let storm = storm.event(1290, Action::Waking(task)).event(1292, Action::Leave(vector));
        let why = storm.switch(1295, other, true, task).explain(1300, 0);
        assert_eq!(first(&why), (Kind::Interrupts, 292, None));
        assert!(why.text.contains("timer interrupt 292 us, 290 timers expired"), "{}", why.text);
    }

    #[test]
    fn a_frozen_task_is_no_late_timer() {
        let (task, other) = (task(120), thread(7, 120, "load"));
        let armed = Action::TimerStart { pid: 50, timer: 4, expires: 1000 * US };
        let frozen = Script::new().event(400, armed).switch(500, task, false, other);
        let frozen = frozen.event(1002, Action::TimerExpire { timer: 4 });
        let why = frozen.event(3000, Action::Waking(task)).switch(3010, other, true, task).explain(3020, 0);
        assert_eq!(first(&why), (Kind::Stopped, 1998, None));
    }

    #[test]
    fn a_task_behind_and_a_trace_that_begins_late_are_known() {
        let (task, hog) = (task(49), thread(9, 29, "hog"));
        let behind = sleeping(task, hog).wakes(600, task).switch(1400, hog, false, task);
        let why = behind.explain(1403, 0);
        assert_eq!(first(&why), (Kind::Preempted, 400, Some(9)));
        assert!(why.text.contains("still late from the instant before"), "{}", why.text);
        let late = Script::new().switch(1100, hog, true, task);
        let sample = Sample { planned: 1000 * US, late: 300 * US, pid: 50 };
        assert_eq!(explain(&late.0, sample, &Circumstances::default(), &|_| None), None);
    }
}
