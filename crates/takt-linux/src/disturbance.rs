//! The reasons that kept processes from their CPUs although they were allowed to run: the host of a virtual machine, other load, CPUs that went
//! offline, and a machine that was suspended.

use crate::control;
use crate::sys;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use takt_core::cpus::CpuSet;
use takt_core::time::Span;

/// Time since boot for which the host of this virtual machine ran something else on these CPUs (steal), to a tick of the kernel's
/// statistics, a hundredth of a second as a rule. Zero where there is no host, or one that does not tell; `None` without
/// `/proc/stat`.
#[must_use]
pub fn stolen(cpus: &CpuSet) -> Option<Span> {
    parse_stolen(&fs::read_to_string("/proc/stat").ok()?, cpus, rustix::param::clock_ticks_per_second())
}

/// How many times a quota has throttled the groups of this process, from its own one up to the root: `nr_throttled` of `cpu.stat`. Zero without
/// a cpu controller. Source: `Documentation/scheduler/sched-bwc.rst` of Linux.
#[must_use]
pub fn throttled() -> u64 {
    let Ok(layout) = crate::layout::Layout::read() else { return 0 };
    let Some(hierarchy) = layout.cpu.or(layout.unified) else { return 0 };
    let groups = hierarchy.own.ancestors().take_while(|group| group.starts_with(&hierarchy.mount));
    groups.filter_map(|group| parse_throttled(&fs::read_to_string(group.join("cpu.stat")).ok()?)).sum()
}

fn parse_throttled(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

/// The highest real-time priority of a thread that handles interrupts (`irq/...`). There are such threads on a PREEMPT_RT kernel, with the parameter
/// `threadirqs`, and for some devices. `None` without any.
#[must_use]
pub fn interrupt_priority() -> Option<u8> {
    let priority = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        parse_interrupt_priority(&stat)
    };
    control::processes().filter_map(priority).max()
}

/// The real-time priority, the 40th field of proc_pid_stat(5), of a thread with such a name.
fn parse_interrupt_priority(stat: &str) -> Option<u8> {
    let (name, rest) = stat.split_once(" (")?.1.rsplit_once(") ")?;
    let priority = rest.split_ascii_whitespace().nth(37)?.parse().ok()?;
    (name.starts_with("irq/") && priority > 0).then_some(priority)
}

/// The CPUs that are online. `None` where the kernel does not show that.
#[must_use]
pub fn online() -> Option<CpuSet> {
    fs::read_to_string("/sys/devices/system/cpu/online").ok().map(|list| control::parse_cpus(&list))
}

/// Time since boot for which the machine was suspended: CLOCK_BOOTTIME counts it, and CLOCK_MONOTONIC does not (clock_gettime(2)).
#[must_use]
pub fn suspended() -> Span {
    let read = |clock| {
        let time = clock_gettime(clock);
        Span::from_ns(time.tv_sec * 1_000_000_000 + time.tv_nsec)
    };
    // In this order, an interruption between the two makes the result smaller, and never larger.
    let with = read(ClockId::Boottime);
    (with - read(ClockId::Monotonic)).or_zero()
}

/// Page faults of the calling thread since it began, with and without a read from a disk. One system call. `None` if the kernel does not count them.
#[must_use]
pub fn page_faults() -> Option<u64> {
    sys::page_faults()
}

fn parse_stolen(stat: &str, cpus: &CpuSet, ticks_per_second: u64) -> Option<Span> {
    let of_cpu = |line: &str| -> Option<u64> {
        let mut fields = line.strip_prefix("cpu")?.split_ascii_whitespace();
        // The first line, of all CPUs together, has no number.
        let cpu = fields.next().filter(|_| !line.starts_with("cpu "))?.parse().ok()?;
        // user, nice, system, idle, iowait, irq, softirq, and then what is looked for (proc_stat(5)).
        if cpus.contains(cpu) { fields.nth(7)?.parse().ok() } else { None }
    };
    let ticks: Vec<u64> = stat.lines().filter_map(of_cpu).collect();
    (!ticks.is_empty()).then(|| Span::from_ns((ticks.iter().sum::<u64>() * (1_000_000_000 / ticks_per_second)) as i64))
}

/// For how long the threads that a process has now were ready to run without a CPU, together and since they began. A process that
/// is stopped is not ready, so in a scheduled one this is time that it was given and others had: those of higher priority, ordinary
/// load if it has no real-time class, and for an instant the thread that it follows on its CPU. What its own children used is taken off, since
/// a shell gets ready at each thaw and then waits for what it has started. `None` when it is gone, or the kernel does not keep count
/// (`CONFIG_SCHED_INFO`). A zombie still tells.
#[must_use]
pub fn waited(pid: i32) -> Option<Span> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let of_thread =
        |path: std::path::PathBuf| fs::read_to_string(path.join("schedstat")).ok().and_then(|t| parse_waited(&t));
    let waited = threads.filter_map(|thread| of_thread(thread.path())).reduce(|sum, one| sum + one)?;
    let used = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        parse_used(&stat, rustix::param::clock_ticks_per_second())
    };
    let [_, ended] = used(pid)?;
    // Only kernels with CONFIG_PROC_CHILDREN tell of those that live.
    let living = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let living = living.split_ascii_whitespace().filter_map(|child| used(child.parse().ok()?));
    Some((waited - living.fold(ended, |sum, [own, ended]| sum + own + ended)).or_zero())
}

/// The CPU time that a process has used, exactly, and that of those of its children which it has waited for, to a tick of the kernel's
/// statistics. `None` when it is gone; a zombie still has them.
#[must_use]
pub fn used(pid: i32) -> Option<Span> {
    let own = sys::process_cpu_time(pid).map(Span::from_ns)?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let [_, children] = parse_used(&stat, rustix::param::clock_ticks_per_second()).unwrap_or_default();
    Some(own + children)
}

/// The CPU time of a process, and of those of its children that have ended and been reaped: `utime` and `stime`, and the same with a
/// `c` (proc_pid_stat(5)). They follow a name that can hold anything.
fn parse_used(stat: &str, ticks_per_second: u64) -> Option<[Span; 2]> {
    let mut fields =
        stat.rsplit_once(") ")?.1.split_ascii_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    let mut two = || {
        let ticks = fields.next()? + fields.next()?;
        Some(Span::from_ns((ticks * (1_000_000_000 / ticks_per_second)) as i64))
    };
    Some([two()?, two()?])
}

/// The second number: nanoseconds on a run queue. Before it those on a CPU, after it how often.
fn parse_waited(schedstat: &str) -> Option<Span> {
    Some(Span::from_ns(schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

/// A child of this process that has ended and waits to be reaped; any, if there are several. Until it is, [`waited`] tells of it.
#[must_use]
pub fn ended_child() -> Option<i32> {
    sys::ended_child()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn stolen_time_is_that_of_the_cpus_asked_for() {
        let stat = "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 30 9 10\ncpu1 1 2 3 4 5 6 7 50 9 10\nintr 9\n";
        let of = |cpus: &[usize]| parse_stolen(stat, &cpus.iter().copied().collect(), 100);
        assert_eq!(of(&[0]), Some(Span::from_ms(300)));
        assert_eq!(of(&[0, 1, 7]), Some(Span::from_ms(800)));
        assert_eq!(
            (of(&[7]), parse_stolen("cpu0 1 2 3\n", &CpuSet::single(0), 100)),
            (None, None),
            "old kernels have fewer"
        );
        let here = crate::rt::affinity(0).unwrap();
        let before = stolen(&here).expect("Linux has /proc/stat");
        assert!(stolen(&here).unwrap() >= before);
    }

    #[test]
    fn threads_of_interrupts_have_priorities() {
        let stat = |name: &str| {
            format!(
                "9 ({name}) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 88 0 0 1 0 0 0 0 0 0 0 1 0 0 0 0 17 0 50 1 0 0 0 0"
            )
        };
        assert_eq!(parse_interrupt_priority(&stat("irq/24-virtio (x)")), Some(50));
        assert_eq!(parse_interrupt_priority(&stat("kworker/0:1")), None);
        assert!(interrupt_priority().is_none_or(|priority| (1..=99).contains(&priority)));
    }

    #[test]
    fn throttling_is_that_of_the_statistics() {
        assert_eq!(parse_throttled("nr_periods 9\nnr_throttled 4\nthrottled_time 80\n"), Some(4));
        assert_eq!(parse_throttled("usage_usec 5\n"), None);
        let before = throttled();
        assert!(throttled() >= before);
    }

    #[test]
    fn threads_on_one_cpu_wait_for_it() {
        assert_eq!((parse_waited("5 7 9\n"), parse_waited("")), (Some(Span::from_ns(7)), None));
        assert_eq!(waited(0), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 99";
        assert_eq!(parse_used(stat, 100), Some([Span::from_ms(1100), Span::from_ms(150)]));
        assert_eq!((parse_used("", 100), parse_used("7 (a) S 1", 100)), (None, None));
        if waited(std::process::id() as i32).is_none() {
            println!("skipped: this kernel does not count how long threads wait");
            return;
        }
        // Two that never sleep on one CPU: each waits half of the time, and more beside other load.
        let one = CpuSet::single(crate::rt::affinity(0).unwrap().iter().next().unwrap());
        let start = || std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut both = [start(), start()];
        let pids = both.each_ref().map(|child| child.id() as i32);
        pids.iter().for_each(|pid| crate::rt::set_affinity(*pid, &one).unwrap());
        let end = Instant::now() + Duration::from_secs(60);
        let enough = || pids.iter().all(|pid| waited(*pid).unwrap() >= Span::from_ms(30));
        while !enough() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let seen = enough();
        let before = pids.map(|pid| waited(pid).unwrap());
        both.iter_mut().for_each(|child| child.kill().unwrap());
        // As zombies they still tell; only then are they reaped.
        while before.iter().zip(pids).any(|(_, pid)| !stat_says_zombie(pid)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(pids.contains(&ended_child().expect("two have ended")));
        assert!(before.iter().zip(pids).all(|(before, pid)| waited(pid).unwrap() >= *before));
        both.iter_mut().for_each(|child| assert!(child.wait().is_ok()));
        assert!(seen, "two busy processes on one CPU did not wait for it: {before:?}");
    }

    fn stat_says_zombie(pid: i32) -> bool {
        crate::run_id::stat(pid).is_none_or(|stat| stat.state == 'Z')
    }
}
