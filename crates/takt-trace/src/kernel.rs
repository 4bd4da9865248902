//! The Linux kernel's own account of who ran: `sched_switch` lines of tracefs (`trace` or `trace_pipe`).
//!
//! ```text
//!   camera-812   [001] d..2.  1234.567890: sched_switch: prev_comm=camera prev_pid=812 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
//! ```

use takt_core::time::{Span, Time};

/// A thread on a CPU without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The thread's number (tracefs calls it pid); never 0, the idle thread.
    pub pid: u32,
    /// The CPU.
    pub cpu: u32,
    /// Its start. When it was not seen, the earliest that it can have been.
    pub from: Time,
    /// Its end. When it was not seen, the latest that it can have been.
    pub to: Time,
    /// Both ends were seen.
    pub exact: bool,
}

/// The content of the lines of a kernel trace.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// In the order of their ends.
    pub intervals: Vec<Interval>,
    /// Number of `sched_switch` lines understood.
    pub lines: usize,
    /// Places where a switch is missing: the thread that leaves a CPU is not the one that last came.
    pub gaps: usize,
}

impl Switches {
    /// How long a thread ran, inexact intervals included.
    #[must_use]
    pub fn ran(&self, pid: u32) -> Span {
        self.intervals.iter().filter(|i| i.pid == pid).fold(Span::ZERO, |sum, i| sum + (i.to - i.from))
    }
}

/// The thread that came onto a CPU at the last switch there, and when.
struct Present {
    pid: u32,
    since: Time,
    seen: bool,
}

/// Reads tracefs text. `origin_ns` is what the trace's clock showed at time zero, so that with the trace clock `mono`
/// and a run's [`crate::Header::start_monotonic_ns`] both speak the same time.
///
/// Lines of other events and comments are passed over. A wakeup tells the earliest moment at which a thread whose
/// switch is missing can have come. Threads that still run at the end of the text end at its last event.
#[must_use]
pub fn parse(text: &str, origin_ns: u64) -> Switches {
    let mut result = Switches::default();
    let mut cpus: Vec<Option<Present>> = Vec::new();
    let mut woken: std::collections::HashMap<u32, Time> = std::collections::HashMap::new();
    let mut last = None;
    for line in text.lines() {
        let Some(event) = Event::parse(line, origin_ns) else { continue };
        last = Some(event.at);
        if event.name == "sched_wakeup" || event.name == "sched_waking" || event.name == "sched_wakeup_new" {
            if let Some(pid) = field(event.body, " pid=") {
                woken.insert(pid, event.at);
            }
            continue;
        }
        if event.name != "sched_switch" {
            continue;
        }
        let Some((prev, next)) = switch(event.body) else { continue };
        result.lines += 1;
        if cpus.len() <= event.cpu as usize {
            cpus.resize_with(event.cpu as usize + 1, || None);
        }
        let slot = &mut cpus[event.cpu as usize];
        let present = slot.replace(Present { pid: next, since: event.at, seen: true });
        let (cpu, to) = (event.cpu, event.at);
        match present {
            Some(p) if p.pid == prev => {
                push(&mut result.intervals, Interval { pid: prev, cpu, from: p.since, to, exact: p.seen });
            }
            Some(p) => {
                result.gaps += 1;
                // Somewhere in between one left and the other came; the waking up says when at the earliest.
                let came = woken.get(&prev).copied().unwrap_or(p.since).max(p.since).min(to);
                push(&mut result.intervals, Interval { pid: p.pid, cpu, from: p.since, to: came, exact: false });
                push(&mut result.intervals, Interval { pid: prev, cpu, from: came, to, exact: false });
            }
            // The first line of a CPU says who ran, but not since when.
            None => {}
        }
    }
    for (cpu, slot) in cpus.iter().enumerate() {
        if let (Some(p), Some(to)) = (slot, last) {
            push(&mut result.intervals, Interval { pid: p.pid, cpu: cpu as u32, from: p.since, to, exact: false });
        }
    }
    result
}

fn push(intervals: &mut Vec<Interval>, interval: Interval) {
    if interval.pid != 0 && interval.to > interval.from {
        intervals.push(interval);
    }
}

struct Event<'a> {
    cpu: u32,
    at: Time,
    name: &'a str,
    body: &'a str,
}

impl<'a> Event<'a> {
    /// The command before the CPU may hold anything, brackets too; the timestamp after it is what decides.
    fn parse(line: &'a str, origin_ns: u64) -> Option<Event<'a>> {
        let mut search = 0;
        loop {
            let open = search + line[search..].find('[')?;
            search = open + 1;
            let Some(event) = Event::from_bracket(&line[open + 1..], origin_ns) else { continue };
            return Some(event);
        }
    }

    fn from_bracket(rest: &'a str, origin_ns: u64) -> Option<Event<'a>> {
        let (cpu, rest) = rest.split_once(']')?;
        let cpu = cpu.trim().parse().ok()?;
        let mut words = rest.split_ascii_whitespace();
        // The flags column is missing when the option `irq-info` is off.
        let stamp = match words.next()? {
            word if word.ends_with(':') => word,
            _ => words.next()?,
        };
        let (seconds, fraction) = stamp.strip_suffix(':')?.split_once('.')?;
        let seconds: i64 = seconds.parse().ok()?;
        let digits = u32::try_from(fraction.len()).ok().filter(|d| (1..=9).contains(d))?;
        let fraction: i64 = fraction.parse().ok()?;
        let ns = seconds.checked_mul(1_000_000_000)?.checked_add(fraction * 10_i64.pow(9 - digits))?;
        let name = words.next()?.strip_suffix(':')?;
        let start = name.as_ptr() as usize - rest.as_ptr() as usize + name.len() + 1;
        let at = Time::from_ns(ns.checked_sub(i64::try_from(origin_ns).ok()?)?);
        Some(Event { cpu, at, name, body: &rest[start..] })
    }
}

/// The threads that leave and come. Command names may hold spaces and `=`, so fields are looked for from their right end.
fn switch(body: &str) -> Option<(u32, u32)> {
    let (prev, next) = body.rsplit_once(" ==> ")?;
    Some((field(prev, " prev_pid=")?, field(next, " next_pid=")?))
}

fn field(text: &str, key: &str) -> Option<u32> {
    let (_, after) = text.rsplit_once(key)?;
    after.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: i64) -> Time {
        Time::from_ns(us * 1_000)
    }

    #[test]
    fn switches_become_intervals() {
        let text = "\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
          <idle>-0       [001] d..2.   100.000100: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=my [x] task next_pid=42 next_prio=9
     my [x] task-42      [001] d..2.   100.000350: sched_switch: prev_comm=my [x] task prev_pid=42 prev_prio=9 prev_state=S ==> next_comm=b ==> c next_pid=43 next_prio=120
       b ==> c-43      [001] d..2.   100.000400: sched_switch: prev_comm=b ==> c prev_pid=43 prev_prio=120 prev_state=R+ ==> next_comm=swapper/1 next_pid=0 next_prio=120
            cat-9        [000] d..2.   100.000410: sched_switch: prev_comm=cat prev_pid=9 prev_prio=120 prev_state=R ==> next_comm=task next_pid=42 next_prio=9
";
        let switches = parse(text, 100_000_000_000);
        let exact = |pid, cpu, from, to| Interval { pid, cpu, from: us(from), to: us(to), exact: true };
        assert_eq!(switches.intervals, [exact(42, 1, 100, 350), exact(43, 1, 350, 400)]);
        assert_eq!((switches.lines, switches.gaps), (4, 0));
        assert_eq!(switches.ran(42), Span::from_us(250));
    }

    #[test]
    fn a_missing_switch_from_idle_is_bounded_by_the_wakeup() {
        let text = "\
  a-7  [000] d..2.  1.000000: sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
  <idle>-0  [000] dNh4.  1.000800: sched_wakeup: comm=a pid=7 prio=1 target_cpu=000
  a-7  [000] d..2.  1.001000: sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
  z-8  [000] d..2.  1.003000: sched_switch: prev_comm=z prev_pid=8 prev_prio=1 prev_state=S ==> next_comm=a next_pid=7 next_prio=1
  z-8  [003]  1.003500: other_event: a=b
";
        let switches = parse(text, 1_000_000_000);
        let vague = |pid, from, to| Interval { pid, cpu: 0, from: us(from), to: us(to), exact: false };
        assert_eq!(switches.intervals, [vague(7, 800, 1000), vague(8, 1000, 3000), vague(7, 3000, 3500)]);
        assert_eq!(switches.gaps, 2);
    }

    #[test]
    fn lines_without_flags_and_garbage() {
        let text = "x-1 [002] 5.5: sched_switch: prev_comm=x prev_pid=1 prev_prio=1 prev_state=S ==> next_comm=y next_pid=2 next_prio=1
garbage [ [5] more
[
CPU:2 [LOST 77 EVENTS]
y-2 [002] 6.000000001: sched_switch: prev_comm=y prev_pid=2 prev_prio=1 prev_state=S ==> next_comm=x next_pid=1 next_prio=1";
        let switches = parse(text, 0);
        assert_eq!(switches.intervals.len(), 1);
        assert_eq!(switches.intervals[0].to - switches.intervals[0].from, Span::from_ns(500_000_001));
    }
}
